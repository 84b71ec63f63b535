"""A branch, as git and a forge tell of it."""

from typing import Literal

from evalscribe.ids import Frozen


class Tip(Frozen):
    """The newest commit of a branch."""

    commit: str
    message: str
    files: tuple[str, ...] = ()
    """Paths that it changed against its first parent."""


class Pushed(Frozen):
    """A branch as it is on the remote now."""

    branch: str
    commit: str
    said: str = ""
    """What the remote's server printed: some print the address that opens a merge request."""


class PullRequest(Frozen):
    """A request to merge a branch."""

    url: str
    number: int | None = None
    state: Literal["new", "updated", "unchanged", "by hand"]
    """`by hand`: nothing was asked of the forge, `url` is where a person opens it."""
    draft: bool = False
