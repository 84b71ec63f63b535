"""Decide which files a patch may change: those of the recommendation, and never protected ones."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.evidence import Document

CI_FOLDERS = frozenset(
    (
        ".github",
        ".gitlab",
        ".circleci",
        ".buildkite",
        ".woodpecker",
        ".teamcity",
        ".azure-pipelines",
        ".gitea",
        ".forgejo",
        ".drone",
        ".ci",
        ".husky",
        ".githooks",
        ".hooks",
    )
)
CI_FILES = re.compile(
    r"\.gitlab-ci.*|\.travis\.ya?ml|jenkinsfile.*|\.?azure-pipelines.*\.ya?ml|bitbucket-pipelines\.ya?ml|\.drone\.ya?ml"
    r"|\.woodpecker\.ya?ml|\.?appveyor\.ya?ml|cloudbuild\.ya?ml|buildspec\.ya?ml|\.pre-commit-config\.ya?ml|codeowners"
)
GIT_FILES = frozenset((".gitmodules", ".gitattributes", ".gitconfig", ".mailmap"))
LOCK_FILES = re.compile(
    r".+\.lock|.+\.lockb|package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|go\.sum|deno\.lock|gradle\.lockfile"
    r"|packages\.lock\.json|package\.resolved"
)
SECRETS = re.compile(
    r"\.env(?:\..*)?|\.netrc|\.npmrc|\.pypirc|id_(?:rsa|dsa|ecdsa|ed25519).*|.+\.(?:pem|key|p12|pfx|jks)"
)
"""Files that contain keys; neither changed nor shown to a model."""
_IGNORED_BY_FILE_SYSTEMS = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u00ad]")
_UNSEEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_EMPTY_LETTERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Unicode letters and marks that are invisible."""
_DRIVE_OR_STREAM = re.compile(r"[:\\\x00-\x1f\x7f]")
_SHORT_GIT = re.compile(r"git~\d+")
LONGEST = 400


def protected_reason(path: str) -> str | None:
    """Return why a path is protected, as a phrase that continues "it is"; None if it is not."""
    parts = path.split("/")
    if not path or len(path) > LONGEST or _DRIVE_OR_STREAM.search(path) or path != unicodedata.normalize("NFC", path):
        return "no plain path with `/` below the repository's root"
    if path.startswith(("/", "~")) or any(part in ("", ".", "..") or part != part.strip(" ") for part in parts):
        return "no plain path with `/` below the repository's root"
    if any(map(is_unseen, path)) or not path.isprintable():
        return "spelt with characters that cannot be seen"
    return _reserved([spelling(part) for part in parts])


def is_unseen(character: str) -> bool:
    """Return True if a character is invisible or looks like another."""
    return unicodedata.category(character) in _UNSEEN_CATEGORIES or bool(_EMPTY_LETTERS.match(character))


def holds_secrets(path: str) -> bool:
    """Return True if a file of this name is meant to contain keys."""
    return bool(SECRETS.fullmatch(spelling(PurePosixPath(path).name)))


def spelling(name: str) -> str:
    """Return the name as file systems that ignore case and Unicode forms compare it."""
    plain = _IGNORED_BY_FILE_SYSTEMS.sub("", unicodedata.normalize("NFKC", name))
    return plain.casefold().rstrip(" .")


def _reserved(parts: list[str]) -> str | None:
    name = parts[-1]
    if any(part == ".git" or _SHORT_GIT.fullmatch(part) for part in parts) or name in GIT_FILES:
        return "git's own"
    if any(part in CI_FOLDERS for part in parts[:-1]) or CI_FILES.fullmatch(name):
        return "part of the repository's automation"
    if SECRETS.fullmatch(name):
        return "a file that holds keys"
    if LOCK_FILES.fullmatch(name):
        return "a lock file, which a tool writes"
    return None


OUTPUTS = frozenset(
    ("output", "outputs", "results", "runs", "logs", "transcripts", "reports", "generations", "completions", "samples")
)
"""Names of folders with model outputs; a category or an eval may have the same name."""

Parts = tuple[str, ...]
"""Parts of a path."""


def parts_of(eval: str) -> Parts:
    """Return the parts of an eval's path without its trial."""
    return _parts(re.sub(r"#\d+$", "", eval))


class EvalFolders:
    """Folders and files of a repository that are named like evals.

    Of evals whose names have the same end, the longest match counts. A name without a category is ambiguous: it counts
    only if it occurs in a single place.
    """

    def __init__(self, files: Sequence[str], own: Iterable[Parts], others: Iterable[Parts]) -> None:
        self._folders = sorted({parent for file in files for parent in parents(file)})
        self._own = frozenset(own)
        self._known = self._own | frozenset(others)
        self._lengths = sorted({len(name) for name in self._known}, reverse=True)
        self._own -= self._unclear(files)

    def folders(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the folders of the concerned evals, and those of others."""
        called = [(folder, name) for folder in self._folders if (name := self._eval(_parts(folder)))]
        own = tuple(folder for folder, name in called if name in self._own)
        return own, tuple(folder for folder, name in called if name not in self._own)

    def means(self, file: str) -> bool:
        """Return True if a file, without its suffixes, is named like a concerned eval."""
        return self._eval(_stem(file)) in self._own

    def _eval(self, parts: Parts) -> Parts | None:
        """Return the eval that a path ends with, unless it is below a folder for outputs."""
        for length in self._lengths:
            if parts[-length:] in self._known and not OUTPUTS & {part.casefold() for part in parts[:-length]}:
                return parts[-length:]
        return None

    def _unclear(self, files: Sequence[str]) -> set[Parts]:
        words = {name for name in self._own if len(name) == 1}
        if not words:
            return set()
        paths = {*map(_parts, self._folders), *map(_stem, files)}
        places = Counter(parts[-1:] for parts in paths if self._eval(parts) in words)
        return {name for name in words if places[name] > 1}


class FolderIndex:
    """Finds the innermost of some folders that contains a path."""

    def __init__(self, folders: Sequence[str], foreign: Sequence[str]) -> None:
        self._folders = frozenset(folders)
        self._foreign = frozenset(foreign)

    def folder(self, path: str) -> str | None:
        innermost = self._innermost(path)
        return innermost if innermost in self._folders else None

    def is_foreign(self, path: str) -> bool:
        return self._innermost(path) in self._foreign

    def is_output(self, path: str) -> bool:
        """Return True if the path is in a folder of outputs directly below its eval's folder."""
        below = path.removeprefix(f"{self.folder(path)}/").split("/")
        return len(below) > 1 and below[0].casefold() in OUTPUTS

    def _innermost(self, path: str) -> str | None:
        known = (one for one in reversed(parents(path)) if one in self._folders or one in self._foreign)
        return next(known, None)


def _parts(path: str) -> Parts:
    return tuple(path.split("/"))


def _stem(file: str) -> Parts:
    *folders, name = file.split("/")
    return (*folders, name.partition(".")[0])


def parents(file: str) -> tuple[str, ...]:
    parts = file.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts)))


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
"""File names in which linters, type checkers and formatters look for settings."""


class PatchScope(Frozen):
    """Paths that one proposal may touch."""

    files: tuple[str, ...]
    """Existing files that may be changed, tool settings first."""
    folders: tuple[str, ...]
    """Folders of the evals, in which new files may be created."""
    foreign: tuple[str, ...] = ()
    """Folders of other evals."""
    there: frozenset[str] = frozenset()
    """Every path and every folder of the repository."""
    closed: tuple[str, ...] = ()
    """Links and submodules: nothing may be created at or below them."""
    within: str = ""
    """The folder named by `--repo`, relative to the repository's root; empty for the root."""

    def refusal(self, path: str) -> str | None:
        """Return why a file may be neither changed nor created, as a phrase that continues "it is"."""
        if path in self.files:
            return None
        reason = protected_reason(path)
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
        """Return True if the path is in the folder of an eval, but not among its outputs."""
        inside = FolderIndex(self.folders, self.foreign)
        return inside.folder(path) is not None and not inside.is_output(path)

    @cached_property
    def _spelt(self) -> frozenset[str]:
        return frozenset(map(_spelt, self.there))


def patch_scope(
    files: Sequence[str],
    group: Literal["eval", "lint"],
    evals: Sequence[str],
    documents: Iterable[Document] = (),
    *,
    links: Sequence[str] = (),
    within: str = "",
    others: Iterable[str] = (),
) -> PatchScope:
    """Compute the scope of a recommendation.

    Args:
        files: Files of the repository.
        group: Kind of the recommendation.
        evals: Evals that it concerns.
        documents: The findings' graders, tasks, references and gap notes.
        links: Links and submodules of the repository.
        within: The folder named by `--repo`.
        others: Evals that it does not concern.
    """
    own = [path for path in files if not within or path.startswith(f"{within}/")]
    named = EvalFolders(own, map(parts_of, evals), map(parts_of, others))
    folders, foreign = named.folders()
    inside = FolderIndex(folders, foreign)
    above = frozenset(parent for folder in folders for parent in parents(folder)) | {within}
    concerned = {path for path in own if _belongs(path, named, inside)}
    concerned |= {path for path in _documented(own, documents, above) if not inside.is_foreign(path)}
    tools = {path for path in own if group == "lint" and _configures(path, above)}
    allowed = (*sorted(tools), *sorted(concerned - tools))
    return PatchScope(
        files=tuple(path for path in allowed if protected_reason(path) is None),
        folders=folders,
        foreign=foreign,
        there=frozenset(path for file in (*files, *links) for path in (file, *parents(file))),
        closed=tuple(links),
        within=within,
    )


def _belongs(path: str, named: EvalFolders, inside: FolderIndex) -> bool:
    if inside.folder(path) is not None:
        return not inside.is_output(path)
    return not inside.is_foreign(path) and named.means(path)


def _documented(files: Sequence[str], documents: Iterable[Document], above: Iterable[str]) -> Iterable[str]:
    """Return files that a document's path identifies uniquely, relative to the root or a folder above an eval."""
    there = frozenset(files)
    tops = {"", *above}
    for document in documents:
        meant = {path for top in tops if (path := f"{top}/{document.path}".lstrip("/")) in there}
        if len(meant) == 1 and document.role in ("grader", "task", "expected", "known_gaps"):
            yield from meant


def _configures(path: str, above: frozenset[str]) -> bool:
    """Return True if this is a tool's configuration at the root or in a folder above an eval."""
    folder, _, name = path.rpartition("/")
    return folder in above and TOOL_CONFIGURATION.fullmatch(name) is not None


def _spelt(path: str) -> str:
    return "/".join(map(spelling, path.split("/")))


def _new_parts(path: str, there: frozenset[str]) -> Iterable[str]:
    """Return the path and those of its folders that do not exist."""
    return (part for part in (path, *parents(path)) if part not in there)
