"""URLs with parameters."""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit


def with_query(url: str, **params: str) -> str:
    """The URL with more parameters in its query."""
    parts = urlsplit(url)
    query = urlencode([*parse_qsl(parts.query), *params.items()])
    return urlunsplit(parts._replace(query=query))
