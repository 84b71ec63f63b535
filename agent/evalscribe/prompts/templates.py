"""Find prompt templates and render them."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import evalscribe
from evalscribe.errors import DataError, UsageError
from evalscribe.ids import content_id

if TYPE_CHECKING:
    from evalscribe.prompts.environment import PlainDataEnvironment


MAX_TEMPLATE_BYTES = 1024 * 1024
"""Maximum size of a template, in bytes."""
TEMPLATE_SUFFIXES = (".j2", ".yaml")
"""Suffixes of templates and rubrics. Other files in the prompt folders are ignored."""


def shipped_folder(kind: Literal["prompts", "skills", "docs"]) -> Path:
    """Return a folder that is shipped with evalscribe.

    The folder is in the installed package or, if evalscribe runs from a source checkout, in the checkout.
    """
    package = Path(evalscribe.__file__).resolve().parent
    top = package.parent if kind == "docs" else package.parents[1]
    for folder in (package / "_data" / kind, top / kind):
        if folder.is_dir():
            return folder
    raise DataError(f"the {kind} of this installation are missing; install evalscribe again")


class Prompts:
    """The active templates. A file in the workspace's `prompts/` overrides the shipped file of the same name."""

    def __init__(self, workspace: Path | None = None) -> None:
        self._shipped = shipped_folder("prompts")
        self._workspace = _workspace_folder(workspace, self._shipped)
        self._environment: PlainDataEnvironment | None = None

    def overrides(self, folder: str = "") -> tuple[str, ...]:
        """List the names of the templates below `folder` that the workspace replaces with a different text."""
        return tuple(name for name in self.names(folder) if self._is_override(name))

    def names(self, folder: str) -> list[str]:
        """List the names of all templates and rubrics below `folder`: the workspace's and the shipped ones."""
        files = [
            (top, path)
            for top in self._folders()
            for path in (top / folder).rglob("*")
            if path.suffix in TEMPLATE_SUFFIXES
        ]
        names = {path.relative_to(top).as_posix() for top, path in files}
        return sorted(name for name in names if any(_file(top, name) for top in self._folders()))

    def digest(self, folder: str) -> str:
        """Return one content id for the texts of all templates below `folder`."""
        return content_id({name: self.source(name) for name in self.names(folder)})

    def source(self, name: str) -> str:
        """Return the text of a template. Raises `UsageError` if it does not exist or cannot be read as UTF-8."""
        for folder in self._folders():
            text = _text(folder, name)
            if text is not None:
                return text
        raise UsageError(f"no template {name} in {' or '.join(map(str, self._folders()))}")

    def render(self, name: str, **values: object) -> str:
        """Render a template. Raises `UsageError` with the template's name if it is broken or uses a missing value."""
        try:
            return self._jinja().rendered(name, values)
        except UsageError:
            raise
        except Exception as error:  # A template is a program, so any error is possible, even a division by zero.
            place = _place(error, name)
            raise UsageError(f"template {place} cannot be rendered: {error}") from error

    def _jinja(self) -> "PlainDataEnvironment":
        from evalscribe.prompts.environment import PlainDataEnvironment

        if self._environment is None:
            self._environment = PlainDataEnvironment(self.source)
        return self._environment

    def _is_override(self, name: str) -> bool:
        try:
            return self.source(name) != _text(self._shipped, name)
        except UsageError:
            return True  # the workspace has an unreadable file with this name

    def _folders(self) -> tuple[Path, ...]:
        return (self._workspace, self._shipped) if self._workspace else (self._shipped,)


def _place(error: Exception, name: str) -> str:
    """Return the place at which rendering failed, as `template:line`. The template can be one that `name` includes."""
    line = getattr(error, "lineno", None)  # a syntax error has a line number
    if line:
        return f"{getattr(error, 'name', None) or name}:{line}"
    place, trace = name, error.__traceback__
    while trace is not None:
        # Jinja's frames have the template's name as their file name.
        if trace.tb_frame.f_code.co_filename.endswith(TEMPLATE_SUFFIXES):
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _workspace_folder(workspace: Path | None, shipped_folder: Path) -> Path | None:
    """Return the workspace's `prompts/` folder, or None if it does not exist or is the shipped folder itself.

    Raises `UsageError` if the folder is a link that leads out of the workspace.
    """
    if workspace is None:
        return None
    folder = _resolved(workspace / "prompts")
    if folder is None or not folder.is_dir() or folder == shipped_folder.resolve():
        return None
    if not folder.is_relative_to(workspace.resolve()):
        raise UsageError(f"{workspace / 'prompts'} leads out of {workspace}; templates must be inside")
    return folder


def _resolved(path: Path) -> Path | None:
    """Return the resolved path, or None if the path's links form a loop."""
    try:
        return path.resolve()
    except RuntimeError:
        return None


def _file(folder: Path, name: str) -> Path | None:
    """Return the path of a file below a folder; None if there is no such file, or if a link leads out of the folder."""
    path = _resolved(folder / name)
    if path is None or not path.is_relative_to(folder.resolve()):
        return None
    try:
        # A pipe is not a regular file, and reading it would block.
        return path if path.is_file() else None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _text(folder: Path, name: str) -> str | None:
    path = _file(folder, name)
    if path is None:
        return None
    try:
        if path.stat().st_size > MAX_TEMPLATE_BYTES:
            raise UsageError(f"{path} is too large for a template")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
