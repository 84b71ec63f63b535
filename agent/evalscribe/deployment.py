"""Components that experiments run: where one build of them is, and of which source."""

from typing import Literal

from pydantic import Field

from evalscribe.dataset import short_id
from evalscribe.ids import Frozen

ComponentType = Literal["agent", "function", "workflow"]
ComponentKind = Literal["python", "http", "cmd"]


class Component(Frozen):
    """Something that takes an input and gives an output."""

    name: str
    type: ComponentType = "agent"
    kind: ComponentKind
    address: str
    """`package.module:function`, a URL, or a command line (split as a shell would, run without one)."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Of `http`: name of a header and of the environment variable that holds its value; the value is never stored."""
    provider: str = "component"
    model: str = ""
    """Which model's reports its runs belong to; by default the component's own name."""

    @property
    def shown(self) -> str:
        """`python:package.module:function`; of a URL the URL itself."""
        return self.address if self.kind == "http" else f"{self.kind}:{self.address}"


class SourceState(Frozen):
    """Which source a folder holds."""

    commit: str | None = None
    """Of the repository that the folder is in; None outside of git."""
    dirty: bool | None = None
    """Whether files of the folder differ from that commit: then it does not identify the code."""
    code: str | None = None
    """Content id of what differs from the commit, or of the folder's Python files outside of git."""


class Deployment(Frozen):
    """One build of some components. Immutable."""

    id: str
    """`dep-…`"""
    name: str = ""
    components: tuple[Component, ...]
    folder: str
    """Absolute; where Python imports from and commands run."""
    commit: str | None = None
    """Of the repository that the folder is in; None outside of git."""
    dirty: bool | None = None
    """Whether files differed from that commit: then it does not identify the code."""
    code: str | None = None
    """Content id of what differed from the commit, or of the folder's Python files outside of git."""
    python: str = ""
    created_at: str

    def component(self, name: str) -> Component | None:
        return next((one for one in self.components if one.name == name), None)

    @property
    def content(self) -> str:
        """Id of the same build of the same components, whenever it was made."""
        return short_id("dep", self.model_dump(mode="json", exclude={"id", "created_at"}))

    @property
    def build(self) -> str:
        """`1a2b3c4d`, `1a2b3c4d (dirty)`, `not in git`."""
        if self.commit is None:
            return "not in git"
        return f"{self.commit[:8]}{' (dirty)' if self.dirty else ''}"
