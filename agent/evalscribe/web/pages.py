"""All sections of the site."""

from evalscribe.web.inbox import InboxPages
from evalscribe.web.report_index import Scope
from evalscribe.web.runs import RunPages
from evalscribe.web.site import Site
from evalscribe.workspace import Workspace

ALL_PAGES = (
    InboxPages,
    RunPages,
)


def open_site(workspace: Workspace, scope: Scope, *, token: str | None = None) -> Site:
    """Return the site with all sections. The arguments are those of `Site`."""
    return Site(workspace, ALL_PAGES, scope, token=token)
