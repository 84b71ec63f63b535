"""Paths that no proposal may touch, whatever a recommendation says."""

import re
import unicodedata
from pathlib import PurePosixPath

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
"""Files that hold keys; neither changed nor shown to a model."""
_IGNORED_BY_FILE_SYSTEMS = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u00ad]")
_UNSEEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_EMPTY_LETTERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What counts as a letter or a mark, and shows nothing."""
_DRIVE_OR_STREAM = re.compile(r"[:\\\x00-\x1f\x7f]")
_SHORT_GIT = re.compile(r"git~\d+")
LONGEST = 400


def refused(path: str) -> str | None:
    """Why this path may not be touched, in a phrase that continues "it is"; None where nothing speaks against it."""
    parts = path.split("/")
    if not path or len(path) > LONGEST or _DRIVE_OR_STREAM.search(path) or path != unicodedata.normalize("NFC", path):
        return "no plain path with `/` below the repository's root"
    if path.startswith(("/", "~")) or any(part in ("", ".", "..") or part != part.strip(" ") for part in parts):
        return "no plain path with `/` below the repository's root"
    if any(map(is_unseen, path)) or not path.isprintable():
        return "spelt with characters that cannot be seen"
    return _reserved([spelling(part) for part in parts])


def is_unseen(character: str) -> bool:
    """Whether a person sees nothing of it, or takes it for something else."""
    return unicodedata.category(character) in _UNSEEN_CATEGORIES or bool(_EMPTY_LETTERS.match(character))


def holds_secrets(path: str) -> bool:
    """Whether a file of this name is there to hold keys."""
    return bool(SECRETS.fullmatch(spelling(PurePosixPath(path).name)))


def spelling(name: str) -> str:
    """What file systems that ignore case and Unicode's forms take a name for."""
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
