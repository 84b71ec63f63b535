"""The token for GitHub's API, and which API it may go to."""

from pydantic import SecretStr

from evalscribe.errors import UsageError
from evalscribe.settings.access import Access, check_host, host_url
from evalscribe.settings.place import DEFAULT, Places, find

TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
API_URL = "GITHUB_API_URL"
"""Set by Actions, too."""
NAMES = (*TOKENS, API_URL)
API = "https://api.github.com"


def access(places: Places) -> Access:
    """The API and, where one is set, its token.

    Raises `UsageError` where files of the folder would send a token from elsewhere to an API that they name.
    """
    token, named = find(places, *TOKENS), find(places, API_URL)
    url = host_url(named, API_URL) if named else API
    origin = named.origin if named else DEFAULT
    if token is None:
        return Access(url=url, url_origin=origin)
    if not (token.value.isascii() and token.value.isprintable()):
        raise UsageError(f"{TOKENS[0]} ({token.origin.where}) is damaged: it holds what no token has. Set it whole")
    if url != API:
        check_host(API_URL, origin, TOKENS[0], token.origin)
    return Access(url=url, url_origin=origin, key=SecretStr(token.value), key_origin=token.origin)
