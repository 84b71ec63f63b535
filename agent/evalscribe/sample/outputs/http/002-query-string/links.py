from urllib.parse import parse_qsl, urlencode, urlparse


def with_query(url: str, **params: str) -> str:
    """Return url with params appended to its query string."""
    parsed = urlparse(url)
    pairs = parse_qsl(parsed.query) + list(params.items())
    return parsed._replace(query=urlencode(pairs)).geturl()
