"""What coding agents see of a workspace: an MCP server on standard input and output."""

from evalscribe.mcp_server.place import Place

__all__ = ["Place", "serve"]


def serve(place: Place) -> None:
    """Until standard input ends. Raises `UsageError` where the MCP SDK is not installed."""
    from evalscribe.errors import UsageError

    try:
        from mcp.server import MCPServer  # noqa: F401
    except ImportError as error:
        raise UsageError("`evalscribe mcp` needs the MCP SDK: pip install 'evalscribe[mcp]'") from error
    from evalscribe.mcp_server.server import run

    run(place)
