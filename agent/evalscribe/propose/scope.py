"""What a recommendation concerns: which files of a repository may be changed, and where new ones may be made."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

from evalscribe.evidence import Document
from evalscribe.ids import Frozen
from evalscribe.propose.protected import refused, spelling

TOOL_CONFIGURATION = re.compile(
    r"\.?ruff\.toml|pyproject\.toml|setup\.cfg|tox\.ini|\.?mypy\.ini|\.flake8|\.?pylintrc(?:\.toml)?|\.isort\.cfg"
    r"|(?:based)?pyrightconfig\.json|\.bandit|\.pydocstyle(?:\.ini)?|\.style\.yapf|pytest\.ini"
    r"|\.eslintrc(?:\.(?:js|cjs|json|ya?ml))?|eslint\.config\.[cm]?[jt]s|\.eslintignore|\.?oxlintrc\.json"
    r"|[tj]sconfig(?:\.[\w-]+)?\.json|biome\.jsonc?|deno\.jsonc?|dprint\.json|\.editorconfig"
    r"|\.prettierrc(?:\.\w+)?|prettier\.config\.\w+|\.prettierignore|\.stylelintrc(?:\.\w+)?|\.markdownlint(?:\.\w+)?"
    r"|\.?rustfmt\.toml|\.?clippy\.toml|\.golangci\.(?:ya?ml|toml|json)|\.rubocop\.ya?ml|\.swiftlint\.ya?ml"
    r"|\.clang-(?:format|tidy)|checkstyle\.xml|phpcs\.xml(?:\.dist)?|phpstan\.neon(?:\.dist)?|\.scalafmt\.conf"
    r"|\.?ktlint.*|detekt\.ya?ml|analysis_options\.ya?ml|\.credo\.exs|\.formatter\.exs",
    re.IGNORECASE,
)
"""Names under which linters, type checkers and formatters look for their settings."""
OUTPUTS = frozenset(
    ("output", "outputs", "results", "runs", "logs", "transcripts", "reports", "generations", "completions", "samples")
)
"""Names of folders that hold what models wrote; a category or an eval may be called so all the same."""


class Scope(Frozen):
    """What one proposal may touch."""

    files: tuple[str, ...]
    """Existing files that may be changed, the tools' settings first."""
    folders: tuple[str, ...]
    """Folders of the evals, in which new files may be made."""
    there: frozenset[str] = frozenset()
    """Every path of the repository, and every folder."""
    closed: tuple[str, ...] = ()
    """Links and submodules: nothing is made at or below them."""
    within: str = ""
    """The folder that `--repo` names, relative to the repository's root; empty for the root."""

    def refusal(self, path: str) -> str | None:
        """Why this file may be neither changed nor made, in a phrase that continues "it is"."""
        if path in self.files:
            return None
        reason = refused(path)
        if reason:
            return reason
        if self.within and not path.startswith(f"{self.within}/"):
            return f"outside {self.within}"
        if any(path == link or path.startswith(f"{link}/") for link in self.closed):
            return "a link or a submodule, or below one"
        if any(_spelt(part) in self._spelt for part in _new_parts(path, self.there)):
            return "another file's path, spelt differently"
        if path in self.there:
            return "not what the recommendation concerns"
        inside = _Inside(self.folders)
        if inside.folder(path) is None or inside.is_output(path):
            return "not what the recommendation concerns"
        return None

    @cached_property
    def _spelt(self) -> frozenset[str]:
        return frozenset(map(_spelt, self.there))


def scope(
    files: Sequence[str],
    group: Literal["eval", "lint"],
    evals: Sequence[str],
    documents: Iterable[Document] = (),
    *,
    links: Sequence[str] = (),
    outputs: Iterable[str] = (),
    within: str = "",
) -> Scope:
    """`files` and `links` are the repository's, `documents` the findings' graders, tasks, references and gap notes.

    `outputs` are files that are known to be what a model wrote.
    """
    known = set(outputs)
    own = [path for path in files if not within or path.startswith(f"{within}/")]
    names = {parts_of(eval) for eval in evals}
    folders = _folders(own, names)
    inside = _Inside(folders)
    concerned = {path for path in own if _belongs(path, names, inside)} | set(_named(own, documents))
    above = frozenset(parent for folder in folders for parent in _parents(folder)) | {within}
    tools = {path for path in own if group == "lint" and _configures(path, above)}
    allowed = (*sorted(tools), *sorted(concerned - tools))
    return Scope(
        files=tuple(path for path in allowed if refused(path) is None and path not in known),
        folders=folders,
        there=frozenset(path for file in (*files, *links) for path in (file, *_parents(file))),
        closed=tuple(links),
        within=within,
    )


def parts_of(eval: str) -> tuple[str, ...]:
    """An eval's path without its trial, in its parts."""
    return tuple(re.sub(r"#\d+$", "", eval).split("/"))


def _folders(files: Sequence[str], names: set[tuple[str, ...]]) -> tuple[str, ...]:
    """Folders whose path ends as an eval is called, none of them for outputs."""
    parents = {parent for file in files for parent in _parents(file)}
    return tuple(sorted(parent for parent in parents if _is_called(tuple(parent.split("/")), names)))


def _is_called(parts: tuple[str, ...], names: set[tuple[str, ...]]) -> bool:
    """Whether a path ends with one of these names, below no folder for outputs."""
    return any(
        parts[-length:] in names and not OUTPUTS & {part.casefold() for part in parts[:-length]}
        for length in {len(name) for name in names}
    )


class _Inside:
    """Which of some folders a path lies in."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = frozenset(folders)

    def folder(self, path: str) -> str | None:
        return next((parent for parent in _parents(path) if parent in self._folders), None)

    def is_output(self, path: str) -> bool:
        """Whether it lies in a folder of outputs directly below its eval's."""
        below = path.removeprefix(f"{self.folder(path)}/").split("/")
        return len(below) > 1 and below[0].casefold() in OUTPUTS


def _belongs(path: str, names: set[tuple[str, ...]], inside: _Inside) -> bool:
    if inside.folder(path) is not None:
        return not inside.is_output(path)
    *folders, name = path.split("/")
    return _is_called((*folders, name.partition(".")[0]), names)


def _named(files: Sequence[str], documents: Iterable[Document]) -> Iterable[str]:
    """Files that a document's path can only mean."""
    by_name = defaultdict(list)
    for file in files:
        by_name[file.rpartition("/")[2]].append(file)
    for document in documents:
        same = by_name[document.path.rpartition("/")[2]]
        meant = [file for file in same if file == document.path or file.endswith(f"/{document.path}")]
        if len(meant) == 1 and document.role in ("grader", "task", "expected", "known_gaps"):
            yield meant[0]


def _configures(path: str, above: frozenset[str]) -> bool:
    """Whether this is configuration of a tool at the top or in a folder above an eval."""
    folder, _, name = path.rpartition("/")
    return folder in above and TOOL_CONFIGURATION.fullmatch(name) is not None


def _parents(file: str) -> tuple[str, ...]:
    parts = file.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts)))


def _spelt(path: str) -> str:
    return "/".join(map(spelling, path.split("/")))


def _new_parts(path: str, there: frozenset[str]) -> Iterable[str]:
    """The path and those of its folders that are not there."""
    return (part for part in (path, *_parents(path)) if part not in there)
