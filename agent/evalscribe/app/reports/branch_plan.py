"""What publishing has to commit, worked out from the remote as it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evalscribe.errors import DataError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.protocols import Repository
from evalscribe.model.report import Report
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.page import parse
from evalscribe.reports.reconcile import reconcile


@dataclass(frozen=True)
class Ours:
    """The local report, and where it belongs."""

    remote: str
    branch: str
    path: str
    """In the repository, with `/`."""
    text: str
    report: Report
    last_written: Callable[[], str | None]
    """The text that evalscribe wrote last for the run."""


class Plan(Frozen):
    """One commit, made for the remote as it was seen."""

    base: str
    """Name of the main branch."""
    main: str
    """Its commit."""
    tip: str | None
    """Of the run's branch."""
    parent: str
    merging: str | None = None
    text: str
    there: str | None = None
    """The file as it is on `parent`."""
    merged: bool = False
    """Whether the main branch has this text, and the run's branch nothing that differs."""

    @property
    def needed(self) -> bool:
        return not self.merged and self.text != self.there


def planned(repository: Repository, ours: Ours) -> Plan:
    """On top of the run's branch; on top of the main one where that has all of it, or there is none.

    Raises `UsageError` where there is no main branch, `DataError` where people's edits contradict ours.
    """
    main = repository.fetch(ours.remote)
    if main is None:
        raise UsageError(f"{ours.remote} has no main branch yet that a report could be merged into; push one first")
    base, newest = main
    branch = repository.fetch(ours.remote, ours.branch)
    tip = branch[1] if branch else None
    live = tip is not None and repository.common(tip, newest) != tip
    parent = tip if live and tip else newest
    there, on_main = _parse_remote(repository, ours, parent, ours.branch), _parse_remote(repository, ours, newest, base)
    merging = newest if live and _moved_on(repository, ours, parent, newest, on_main) else None
    text = _united(ours, {ours.branch: there, **({base: on_main} if merging else {})})
    return Plan(
        base=base,
        main=newest,
        tip=tip,
        parent=parent,
        merging=merging,
        text=text,
        there=there,
        merged=on_main == text and (not live or merging is not None),
    )


def _moved_on(repository: Repository, ours: Ours, tip: str, main: str, on_main: str | None) -> bool:
    """Whether the main branch got another version of the report since the run's branch left it: by a squashed merge,
    or an edit there. Then the commit is a merge, else the pull request would be in conflict."""
    left = repository.common(tip, main)
    return on_main is not None and on_main != (repository.read(left, ours.path) if left else None)


def _parse_remote(repository: Repository, ours: Ours, commit: str, where: str) -> str | None:
    text = repository.read(commit, ours.path)
    if text is None and ours.path in repository.files(commit):
        raise DataError(f"{ours.path} on {where} of {ours.remote} is no text; it is not overwritten")
    return text


def _united(ours: Ours, theirs: Mapping[str, str | None]) -> str:
    """Our text with what people wrote into the others."""
    text = ours.text
    for where, other in theirs.items():
        if other is not None and other != text:
            try:
                united = reconcile(text, other, ours.last_written())
                text = other if parse(united) == parse(other) else united  # no commit for another order of lines
            except UnreadableReport as error:
                raise DataError(f"not published: {ours.path} differs on {where} of {ours.remote}; {error}") from error
    return text
