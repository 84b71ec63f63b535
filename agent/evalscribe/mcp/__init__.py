"""MCP server that gives coding agents access to a workspace, on standard input and output."""

from evalscribe.errors import UsageError
from evalscribe.mcp.context import ServerWorkspace

__all__ = ["ServerWorkspace", "serve"]


async def serve(server_workspace: ServerWorkspace) -> None:
    """Serve until standard input ends. Raises `UsageError` if the MCP SDK is not installed."""
    try:
        from mcp.server import MCPServer  # noqa: F401
    except ImportError as error:
        raise UsageError("`evalscribe mcp` needs the MCP SDK: pip install 'evalscribe[mcp]'") from error
    from evalscribe.mcp.server import run  # this import loads the MCP SDK

    await run(server_workspace)
