"""Decisions that a reviewer makes in the browser.

Each decision writes the same data as `evalscribe review label`, and can be undone.
"""

from os.path import relpath
from shlex import quote
from typing import Literal

from pydantic import Field

from evalscribe.errors import ChangedError, UsageError
from evalscribe.git.report_folder import ReportsFolder
from evalscribe.ids import Frozen
from evalscribe.model.finding import CauseKind, Classification
from evalscribe.model.repository import data_name
from evalscribe.reports.corrections import LabelWritten, correct_label, undo_label
from evalscribe.web.inbox import Card
from evalscribe.web.report_index import Entry
from evalscribe.web.site import Site

MOST_UNDONE = 200
"""Maximum number of decisions that can be undone."""


class Decision(Frozen):
    """A reviewer's decision, in the form in which the page sends it."""

    action: Literal["label", "accept", "note", "undo"]
    report: str = Field(max_length=1000)
    """Name of the report; empty to undo the last decision."""
    n: int = Field(ge=1, le=1_000_000)
    """Number of the finding."""
    seen: str = Field(default="", max_length=200)
    """State of the finding (`Entry.state`) when the page was rendered."""
    label: Classification | None = None
    """The new label if the action is `label`; otherwise ignored."""
    kind: CauseKind | None = None
    note: str | None = Field(default=None, max_length=2000)


class Decisions:
    """Carries out decisions, and records all decisions since the server's start so that they can be undone."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._written: list[LabelWritten] = []
        self._changed: dict[str, None] = {}
        """Names of the reports that decisions have changed."""

    def decide(self, decision: Decision) -> tuple[str, bool]:
        """Carry out a decision. Return a sentence about the result, and whether the report has changed.

        Raises:
            ChangedError: Somebody else has corrected or confirmed the finding since the page was rendered, or the
                decision to undo is not the last one in its report.
            UsageError: The finding does not exist or has no label to accept, its report cannot be edited, or the note
                is empty.
        """
        entry = self.entry(decision)
        if decision.action == "undo":
            return self._undo(entry), True
        label = decision.label if decision.action == "label" else entry.first.classification
        if label is None:
            raise UsageError(f"finding {entry.n} has no label to accept; choose one")
        note = decision.note if decision.action == "note" else None
        if decision.action == "note" and not (note or "").strip():
            raise UsageError("the note is empty")
        written = correct_label(
            self._site.workspace,
            entry.report.name,
            str(entry.n),
            label,
            kind=decision.kind,
            note=note,
            expected_state=decision.seen,
        )
        if written.changed:
            self._written = [*self._written, written][-MOST_UNDONE:]
            self._changed[written.report] = None
        self._site.reports.refresh()
        change = f"{written.before} → {written.after}" if written.before != written.after else written.after
        return f"{written.subject}: {change}{'' if written.changed else ' (unchanged)'}", written.changed

    def resolved(self, decision: Decision) -> Decision | None:
        """Return the decision to carry out; None if the page asks to undo the last decision and there is none.

        To undo the last decision, the page sends an undo without a report. The report and the finding of the last
        decision are then filled in.
        """
        if decision.action != "undo" or decision.report:
            return decision
        if not self._written:
            return None
        last = self._written[-1]
        return decision.model_copy(update={"report": last.report, "n": last.number})

    def entry(self, decision: Decision) -> Entry:
        """Return the finding that a decision concerns.

        Raises `UsageError` if the finding does not exist or its report has no data file.
        """
        self._site.reports.refresh()
        report = next((report for report in self._site.reports.shown if report.name == decision.report), None)
        entry = next((entry for entry in report.entries if entry.n == decision.n), None) if report else None
        if entry is None:
            raise UsageError(f"finding {decision.n} not found in report {decision.report[:200]!r}")
        if not entry.report.editable:
            raise UsageError(f"{entry.report.name} has no data file to change; edit the report's own file")
        return entry

    def _undo(self, entry: Entry) -> str:
        # Undoing a decision restores the report's text from before it, and so would undo later decisions in the same
        # report.
        in_report = [written for written in self._written if written.report == entry.report.name]
        if not in_report or in_report[-1].number != entry.n:
            raise ChangedError(
                f"only the last decision in a report can be undone; the last decision is not about finding {entry.n}"
            )
        undo_label(self._site.workspace, in_report[-1])
        self._written.remove(in_report[-1])
        self._site.reports.refresh()
        return f"{in_report[-1].subject}: {in_report[-1].before} again"

    def card(self, decision: Decision) -> str:
        """Render the card of a decision's finding in its current state."""
        module = self._site.environment.get_template("parts.html.j2").module
        return str(module.card(Card(self.entry(decision)), "", False))  # type: ignore[attr-defined]

    def pending(self) -> str:
        """Render the uncommitted changes made since the server's start, with the command that commits them.

        Returns an empty text if there are no such changes.
        """
        library = self._site.workspace.reports
        # There is no diff without git and for an untracked report. Such a report counts as changed unless all decisions
        # in it were undone.
        undecided = {name for name in self._changed if all(written.report != name for written in self._written)}
        diffs = ((name, library.uncommitted(name)) for name in self._changed)
        changes = [(name, diff) for name, diff in diffs if diff or (diff is None and name not in undecided)]
        if not changes:
            return ""
        names = [name for name, _ in changes]
        values = {"changes": changes, "command": commit_command(library, names), "in_git": library.in_repository}
        return self._site.environment.get_template("pending.html.j2").render(values)


def commit_command(library: ReportsFolder, names: list[str]) -> str:
    """Return the git command that commits reports together with their data files."""
    files = [library.root / each for name in names for each in (name, data_name(name))]
    paths = " ".join(quote(relpath(file)) for file in files if file.exists())
    return f"git add -- {paths} && git commit -m 'Review findings' -- {paths}"


def as_decision(body: bytes) -> Decision:
    """Parse the decision in a request's body. Raises `UsageError` if it is invalid."""
    try:
        return Decision.model_validate_json(body)
    except ValueError as error:
        raise UsageError(f"the request is not a valid decision: {str(error)[:200]}") from None
