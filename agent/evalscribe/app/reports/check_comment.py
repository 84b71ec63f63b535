"""Tell a pull request what a check of its reports came to, in one comment that is kept up to date."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from evalscribe.errors import AccessError, EvalscribeError
from evalscribe.ids import Frozen
from evalscribe.model.protocols import Forge, Repository
from evalscribe.model.report import CheckedReport, CheckResult

MARK = "reports-check"
FORK = "one from a fork has none. What the comment would say is in the step's summary"


class Told(Frozen):
    url: str | None = None
    """Where the comment is."""
    why_not: str | None = None


def changed(repository: Repository, base: str, checked: CheckResult, folder: Path) -> tuple[CheckedReport, ...] | None:
    """The reports that differ from the commit; None where it is not there, as in a shallow clone.

    `folder` is the one that the reports' paths are relative to.
    """
    try:
        start = repository.common(base, repository.head())
        if start is None:
            return None
        root = repository.root.resolve()
        paths = {report: (folder / report.file).resolve() for report in checked.reports}
        inside = {report: path for report, path in paths.items() if path.is_relative_to(root)}
        return tuple(report for report, path in inside.items() if _differs(repository, start, path, root))
    except EvalscribeError:
        return None


def _differs(repository: Repository, commit: str, path: Path, root: Path) -> bool:
    before = repository.read(commit, path.relative_to(root).as_posix())
    try:
        return before is None or before.encode() != path.read_bytes()
    except OSError:
        return False


def tell(open_forge: Callable[[], Forge], number: int, body: str) -> Told:
    """Write the comment, or the last one anew. What the check found does not depend on whether it can be."""
    try:
        with closing(open_forge()) as forge:
            url = forge.comment(number, MARK, body)
    except AccessError as error:
        return Told(why_not=f"{error}; a pull request needs a token that may write, {FORK}")
    except EvalscribeError as error:
        return Told(why_not=str(error))
    return (
        Told(url=url) if url else Told(why_not=f"no GITHUB_TOKEN or GH_TOKEN for the server of this repository; {FORK}")
    )
