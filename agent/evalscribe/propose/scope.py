"""What a recommendation concerns: which files of a repository may be changed, and where new ones may be made."""

import re
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
    """Existing files that may be changed, by path."""
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
        if _folder_of(path, self.folders) is None or _holds_outputs(path, self.folders):
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
    folders = _folders(own, evals)
    concerned = {path for path in own if _belongs(path, evals, folders)} | set(_named(own, documents))
    if group == "lint":
        concerned |= {path for path in own if _configures(path, folders, within)}
    return Scope(
        files=tuple(sorted(p for p in concerned if refused(p) is None and p not in known)),
        folders=folders,
        there=frozenset(path for file in (*files, *links) for path in (file, *_parents(file))),
        closed=tuple(links),
        within=within,
    )


def parts_of(eval: str) -> tuple[str, ...]:
    """An eval's path without its trial, in its parts."""
    return tuple(re.sub(r"#\d+$", "", eval).split("/"))


def _folders(files: Sequence[str], evals: Sequence[str]) -> tuple[str, ...]:
    """Folders whose path ends as an eval is called, none of them for outputs."""
    wanted = {parts_of(eval) for eval in evals}
    parents = {parent for file in files for parent in _parents(file)}
    named = (parent for parent in parents if any(_ends(parent, parts) for parts in wanted))
    return tuple(sorted(named))


def _ends(folder: str, parts: tuple[str, ...]) -> bool:
    names = tuple(folder.split("/"))
    return names[-len(parts) :] == parts and not OUTPUTS & {name.casefold() for name in names[: -len(parts)]}


def _belongs(path: str, evals: Sequence[str], folders: Sequence[str]) -> bool:
    if _folder_of(path, folders) is not None:
        return not _holds_outputs(path, folders)
    stem = (*path.split("/")[:-1], path.split("/")[-1].partition(".")[0])
    return any(_ends("/".join(stem), parts_of(eval)) for eval in evals)


def _holds_outputs(path: str, folders: Sequence[str]) -> bool:
    """Whether a file lies in a folder of outputs directly below its eval's."""
    folder = _folder_of(path, folders)
    below = path.removeprefix(f"{folder}/").split("/")
    return len(below) > 1 and below[0].casefold() in OUTPUTS


def _folder_of(path: str, folders: Sequence[str]) -> str | None:
    return next((folder for folder in folders if path.startswith(f"{folder}/")), None)


def _named(files: Sequence[str], documents: Iterable[Document]) -> Iterable[str]:
    """Files that a document's path can only mean."""
    for document in documents:
        meant = [file for file in files if file == document.path or file.endswith(f"/{document.path}")]
        if len(meant) == 1 and document.role in ("grader", "task", "expected", "known_gaps"):
            yield meant[0]


def _configures(path: str, folders: Sequence[str], within: str) -> bool:
    """Whether this is configuration of a tool at the top or in a folder above an eval."""
    folder, _, name = path.rpartition("/")
    above = folder == within or any(eval == folder or eval.startswith(f"{folder}/") for eval in folders)
    return above and TOOL_CONFIGURATION.fullmatch(name) is not None


def _parents(file: str) -> tuple[str, ...]:
    parts = file.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts)))


def _spelt(path: str) -> str:
    return "/".join(map(spelling, path.split("/")))


def _new_parts(path: str, there: frozenset[str]) -> Iterable[str]:
    """The path and those of its folders that are not there."""
    return (part for part in (path, *_parents(path)) if part not in there)
