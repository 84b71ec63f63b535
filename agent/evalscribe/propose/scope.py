"""What a recommendation concerns: which files of a repository may be changed, and where new ones may be made."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.evidence import Document
from evalscribe.propose.places import Inside, Named, parents, parts_of
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


class Scope(Frozen):
    """What one proposal may touch."""

    files: tuple[str, ...]
    """Existing files that may be changed, the tools' settings first."""
    folders: tuple[str, ...]
    """Folders of the evals, in which new files may be made."""
    foreign: tuple[str, ...] = ()
    """Folders of other evals."""
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
        return None if self.owns(path) else "not what the recommendation concerns"

    def owns(self, path: str) -> bool:
        """Whether it lies in the folder of an eval, and not among its outputs."""
        inside = Inside(self.folders, self.foreign)
        return inside.folder(path) is not None and not inside.is_output(path)

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
    within: str = "",
    others: Iterable[str] = (),
) -> Scope:
    """`files` and `links` are the repository's, `documents` the findings' graders, tasks, references and gap notes.

    `others` are evals that the recommendation is not about.
    """
    own = [path for path in files if not within or path.startswith(f"{within}/")]
    named = Named(own, map(parts_of, evals), map(parts_of, others))
    folders, foreign = named.folders()
    inside = Inside(folders, foreign)
    above = frozenset(parent for folder in folders for parent in parents(folder)) | {within}
    concerned = {path for path in own if _belongs(path, named, inside)}
    concerned |= {path for path in _documented(own, documents, above) if not inside.is_foreign(path)}
    tools = {path for path in own if group == "lint" and _configures(path, above)}
    allowed = (*sorted(tools), *sorted(concerned - tools))
    return Scope(
        files=tuple(path for path in allowed if refused(path) is None),
        folders=folders,
        foreign=foreign,
        there=frozenset(path for file in (*files, *links) for path in (file, *parents(file))),
        closed=tuple(links),
        within=within,
    )


def _belongs(path: str, named: Named, inside: Inside) -> bool:
    if inside.folder(path) is not None:
        return not inside.is_output(path)
    return not inside.is_foreign(path) and named.means(path)


def _documented(files: Sequence[str], documents: Iterable[Document], above: Iterable[str]) -> Iterable[str]:
    """Files that a document's path can only mean, read from the top or from a folder above an eval."""
    there = frozenset(files)
    tops = {"", *above}
    for document in documents:
        meant = {path for top in tops if (path := f"{top}/{document.path}".lstrip("/")) in there}
        if len(meant) == 1 and document.role in ("grader", "task", "expected", "known_gaps"):
            yield from meant


def _configures(path: str, above: frozenset[str]) -> bool:
    """Whether this is configuration of a tool at the top or in a folder above an eval."""
    folder, _, name = path.rpartition("/")
    return folder in above and TOOL_CONFIGURATION.fullmatch(name) is not None


def _spelt(path: str) -> str:
    return "/".join(map(spelling, path.split("/")))


def _new_parts(path: str, there: frozenset[str]) -> Iterable[str]:
    """The path and those of its folders that are not there."""
    return (part for part in (path, *parents(path)) if part not in there)
