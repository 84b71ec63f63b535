"""What a GitHub Actions runner says about its job; nothing of it is a setting of ours."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from evalscribe.ids import Frozen

_PULL = re.compile(r"refs/pull/(\d+)/(?:merge|head)")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
LARGEST = 32 * 1024 * 1024
"""Bytes of an event; a larger one is not read."""


class Actions(Frozen):
    workspace: Path
    """The root of the checked out repository."""
    remote_url: str | None = None
    """Of the repository that the workflow runs in; of a pull request the one that it is made to."""
    pull_request: int | None = None
    base: str | None = None
    """The commit that the pull request is made against."""
    summary: Path | None = None
    """The file that the step's summary is appended to."""


def actions(environ: Mapping[str, str], cwd: Path) -> Actions | None:
    """None outside a runner. What cannot be read is left out."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return None
    pull = _members(_event(environ.get("GITHUB_EVENT_PATH")).get("pull_request"))
    ref = _PULL.fullmatch(environ.get("GITHUB_REF", ""))
    number = pull.get("number")
    base = _members(pull.get("base")).get("sha")
    summary = environ.get("GITHUB_STEP_SUMMARY")
    return Actions(
        workspace=Path(environ.get("GITHUB_WORKSPACE") or cwd),
        remote_url=_remote(environ),
        pull_request=number if isinstance(number, int) else int(ref[1]) if ref else None,
        base=base if isinstance(base, str) and _COMMIT.fullmatch(base) else None,
        summary=Path(summary) if summary else None,
    )


def _remote(environ: Mapping[str, str]) -> str | None:
    repository = environ.get("GITHUB_REPOSITORY", "")
    server = environ.get("GITHUB_SERVER_URL", "https://github.com")
    return f"{server.rstrip('/')}/{repository}" if _REPOSITORY.fullmatch(repository) else None


def _event(path: str | None) -> Mapping[str, object]:
    try:
        file = Path(path or "")
        text = file.read_text("utf-8") if path and file.stat().st_size <= LARGEST else "{}"
        return _members(json.loads(text))
    except (OSError, ValueError, RecursionError):
        return {}


def _members(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
