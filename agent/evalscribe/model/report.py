"""Define the report of one run and the result of checking reports."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from evalscribe import text as prose
from evalscribe.ids import Frozen, share_field_names
from evalscribe.model.cascade import CascadeSaving, Stage
from evalscribe.model.evidence import CitationStatus, Document, FailedScore, Role
from evalscribe.model.finding import (
    NOT_THE_MODEL,
    RECOMMENDATION_GROUPS,
    CauseKind,
    Classification,
    Confidence,
    CrossModelFailures,
    FollowUp,
    NetImpact,
    Pattern,
    Proof,
    Recommendation,
    Recurrence,
    Replay,
    ReplayedAnswer,
    ReplayOutcome,
    TrialCount,
    TrialRates,
    VerdictBasis,
    replay_log_name,
)
from evalscribe.model.run import RunStatus

WHY_LIMIT = 90
ERROR_LIMIT = 240
SNIPPET_LINES = 12
"""Maximum total number of lines of the snippets in one entry of the report."""
SNIPPET_WIDTH = 200
MODELS_NAMED = 8
"""Maximum number of other models that a finding names."""
MARKS: dict[CitationStatus, str] = {"verified": "", "relocated": "(relocated) ", "unverified": "(unverified) "}
"""For each status of a quotation, the text that is printed before the quotation. It is empty if the quotation is
verified."""
Section = Literal["summary", "steps", "classification", "findings", "patterns", "recommendations", "net-impact"]
Count = Annotated[int, Field(ge=0)]
Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
M = TypeVar("M", bound=Frozen)


def replaced(noun: M, **changes: object) -> M:
    """Return a copy of the value with changed fields.

    Unlike `model_copy`, this function validates and normalises the fields.
    """
    fields = {name: getattr(noun, name) for name in type(noun).model_fields}
    return share_field_names(type(noun)(**fields | changes))


class RunHeader(Frozen):
    """The description of the run that the report prints."""

    id: prose.Name
    provider: prose.Name
    model: prose.Name
    experiment: prose.Name = "default"
    status: RunStatus = "completed"
    status_reason: prose.Prose | None = None
    passed: Count
    failed: Count
    total: Count
    listed: Count
    """Number of failures that the source listed. It can be lower than `failed`."""
    url: prose.WebUrl = None
    names_all: bool = False
    """Whether the source names every eval of the run. If not, the source names only the failures."""
    started_at: str | None = None
    """Time at which the run started, in ISO 8601; None if the source does not give it."""
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unread: tuple[prose.Prose, ...] = ()
    """Descriptions of the evals and lines in the run's file that could not be read."""
    trials: TrialRates | None = None
    """Pass rates of the tasks that have several trials. This is None if no task has several trials, or if
    the source names only failures."""

    @field_validator("status_reason")
    @classmethod
    def _empty_is_none(cls, reason: str | None) -> str | None:
        return reason or None

    @property
    def incomplete(self) -> int:
        return max(0, self.total - self.passed - self.failed)


class EvalRef(Frozen):
    path: prose.EvalPath
    """Path of the eval: `category/name`, followed by `#trial` if the task has several trials."""
    url: prose.WebUrl = None

    @property
    def category(self) -> str:
        return self.path.rpartition("/")[0]


class Snippet(Frozen):
    """At most 12 quoted lines of at most 200 characters each. The report prints them together with their place."""

    role: Role
    path: prose.Name
    first: Annotated[int, Field(ge=1)]
    text: str
    status: CitationStatus = "verified"

    @field_validator("text")
    @classmethod
    def _bounded(cls, text: str) -> str:
        lines = prose.visible(text).split("\n")[:SNIPPET_LINES]
        lines = [prose.cut(line.rstrip(), SNIPPET_WIDTH) for line in lines]
        # The page prints a mark in front of the first line. If the line itself begins like a mark, it would be read
        # back as one.
        while f"{lines[0]} ".startswith(tuple(mark for mark in MARKS.values() if mark)):
            lines[0] = lines[0].partition(") ")[2]
        return "\n".join(lines)

    @property
    def last(self) -> int:
        return self.first + self.text.count("\n")


class JudgeLabel(Frozen):
    """The label that the judge gave. A person can replace this label."""

    id: prose.Name
    classification: Classification
    # Adding 0.0 turns -0.0, whose sign would be printed, into 0.0.
    confidence: Annotated[Confidence, AfterValidator(lambda value: round(value, 2) + 0.0)]
    """Confidence of the judge, rounded to two decimal places, as in the printed report."""
    stage: Stage | None = None
    # Proposals that were paid for are stored under the ids of entries. The field below was added later. It is excluded
    # if it has its default, so that it does not change existing ids.
    cost_usd: float | None = Field(default=None, exclude=True)
    """Cost of the verdict for the whole group. It is None if the rules gave the verdict, or if the cost is unknown."""


class JudgeAgreement(Frozen):
    """How often a judge agreed with people's corrections in this workspace."""

    judge: prose.Name
    """Judge id with its version, or `cascade` for all stages of cascades."""
    agreed: int
    corrections: int
    """Number of the judge's verdicts that people confirmed or corrected. A verdict on a group counts as one."""


class ReportEntry(Frozen):
    """One finding as printed in the report: an eval, or a group of evals with one verdict."""

    evals: Annotated[tuple[EvalRef, ...], Field(min_length=1)]
    """The evals of the entry, without duplicates and grouped by category."""
    step: prose.Name | None = None
    classification: Classification | None
    """The current label; None if the failure is unclassified."""
    cause: prose.Slug | None = None
    cause_kind: CauseKind | None = None
    uncertain: bool = False
    # Proposals that were paid for are stored under the ids of entries. Fields that were added later are excluded if
    # they have their default, so that they do not change existing ids.
    basis: VerdictBasis = Field(default="judged", exclude_if=lambda basis: basis == "judged")
    judge: JudgeLabel | None = None
    contradicted: JudgeLabel | None = Field(default=None, exclude_if=lambda label: label is None)
    """The judge's label, if it differs from the proved label."""
    why: str = ""
    error: str = ""
    reasoning: prose.Prose = ""
    """The reasoning of the verdict, or the reason why there is no verdict."""
    recurrence: Recurrence = Recurrence()
    across: CrossModelFailures | None = None
    trials: TrialCount | None = Field(default=None, exclude_if=lambda trials: trials is None)
    """Number of passed and failed trials of the task; None if the task has a single trial."""
    message: int | None = Field(default=None, exclude_if=lambda number: number is None)
    """1-based number of the message in which the agent run went wrong; None if the message is unknown."""
    first_mistake: int | None = Field(default=None, exclude_if=lambda number: number is None)
    """Number of the message that contains the agent run's first mistake. It is None if this message is unknown or does
    not come before `message`."""
    scored: FailedScore | None = Field(default=None, exclude_if=lambda scored: scored is None)
    """The score of the failed step with the threshold; None if the score or the threshold is unknown."""
    never_passed: bool = Field(default=False, exclude_if=lambda never: not never)
    """Whether all known trials of this task failed, no matter which model ran them. It is true only if several trials
    are known."""
    missing: prose.Prose = ""
    """Evidence that the source no longer has, such as `the model's output is no longer stored`."""
    snippets: tuple[Snippet, ...] = ()
    reviewer: tuple[prose.Line, ...] = ()
    """Text of each `Reviewer:` line that people wrote in this entry."""
    notes: tuple[prose.Block, ...] = ()
    """Texts that people added to this entry outside `Reviewer:` lines."""
    joined: tuple["ReportEntry", ...] = Field(default=(), exclude_if=lambda joined: not joined)
    """Entries on single trials that this entry combines. They have the same label, and the text that people wrote
    applies to all of them. The other fields of this entry come from the first trial."""

    @field_validator("evals")
    @classmethod
    def _by_category(cls, evals: tuple[EvalRef, ...]) -> tuple[EvalRef, ...]:
        # The first of several references with the same path is kept, because it is inserted last.
        unique = {ref.path: ref for ref in reversed(evals)}
        refs = [unique[path] for path in dict.fromkeys(ref.path for ref in evals)]
        categories = list(dict.fromkeys(ref.category for ref in refs))
        return tuple(sorted(refs, key=lambda ref: categories.index(ref.category)))

    @field_validator("cause")
    @classmethod
    def _no_cause(cls, cause: str | None) -> str | None:
        return cause or None

    @field_validator("why")
    @classmethod
    def _short(cls, text: str) -> str:
        return prose.prose(text, WHY_LIMIT)

    @field_validator("error")
    @classmethod
    def _plain(cls, error: str) -> str:
        return prose.cut(prose.one_line(error), ERROR_LIMIT)

    @field_validator("recurrence")
    @classmethod
    def _printable(cls, recurrence: Recurrence) -> Recurrence:
        reports = tuple(dict.fromkeys(prose.name(report) for report in recurrence.reports))
        return Recurrence(kind=recurrence.kind, reports=reports, action=prose.prose(recurrence.action or "") or None)

    @field_validator("across")
    @classmethod
    def _first_names(cls, across: CrossModelFailures | None) -> CrossModelFailures | None:
        """Remove duplicate names of models, sort the names, and keep only the first `MODELS_NAMED` names.

        Names beyond this number stay included in the counts of models.
        """
        if across is None:
            return None
        same_models, earlier = _names(across.alike), _names(across.earlier)
        more = max(0, across.more) + len(same_models[MODELS_NAMED:])
        shortened = CrossModelFailures(
            alike=same_models[:MODELS_NAMED],
            more=more if same_models else 0,
            models=max(across.models, len(same_models[:MODELS_NAMED]) + (more if same_models else 0) + 1),
            earlier=earlier[:MODELS_NAMED],
            more_earlier=max(0, across.more_earlier) + len(earlier[MODELS_NAMED:]) if earlier else 0,
        )
        return shortened if same_models or earlier else None

    @field_validator("snippets")
    @classmethod
    def _share_the_fence(cls, snippets: tuple[Snippet, ...]) -> tuple[Snippet, ...]:
        if sum(snippet.text.count("\n") + 1 for snippet in snippets) <= SNIPPET_LINES:
            return snippets
        share = max(1, SNIPPET_LINES // len(snippets))
        cut = (replaced(snippet, text="\n".join(snippet.text.split("\n")[:share])) for snippet in snippets)
        return tuple(cut)[:SNIPPET_LINES]

    @field_validator("notes")
    @classmethod
    def _without_blank(cls, notes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(note for note in notes if note)

    @field_validator("reviewer")
    @classmethod
    def _once(cls, lines: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lines))

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(ref.path for ref in self.evals)

    @property
    def each(self) -> tuple["ReportEntry", ...]:
        """The entries in `joined`, each with the label and notes of this entry.

        If `joined` is empty, the result contains only this entry.
        """
        if not self.joined:
            return (self,)
        shared = ("classification", "cause_kind", "uncertain", "reviewer", "notes")
        shared_values = {name: getattr(self, name) for name in shared}
        # Rendering a page needs the parts many times, so values that are already valid are not validated again.
        return tuple(part.model_copy(update=shared_values) for part in self.joined)

    def part(self, evals: Sequence[EvalRef]) -> "ReportEntry":
        """Return a copy of the entry that contains only the given evals."""
        if not self.joined:
            return replaced(self, evals=tuple(evals))
        parts = ((part, tuple(ref for ref in part.evals if ref in evals)) for part in self.each)
        return join_entries([replaced(part, evals=refs) for part, refs in parts if refs])

    @property
    def reviewed(self) -> bool:
        """Whether a person changed or confirmed the label."""
        judged = self.judge.classification if self.judge else None
        return self.classification != judged or bool(self.reviewer)

    @property
    def never_judged_the_model(self) -> bool:
        return self.cause_kind in NOT_THE_MODEL

    @property
    def not_counted(self) -> bool:
        """Whether the entry is left out of the model's pass rate.

        Entries with an uncertain label are counted. This is because the text on which such a label is based might have
        been printed by the model's own code.
        """
        return self.never_judged_the_model and not self.uncertain


def join_entries(entries: Sequence[ReportEntry]) -> ReportEntry:
    """Join entries with the same label into one entry.

    If the entries differ in other fields, the new entry keeps them in `joined`.
    """
    joined: list[ReportEntry] = []
    for entry in entries:
        index = next(
            (i for i, earlier in enumerate(joined) if entry.model_copy(update={"evals": earlier.evals}) == earlier),
            None,
        )
        if index is None:
            joined.append(entry)
        else:
            joined[index] = replaced(entry, evals=(*joined[index].evals, *entry.evals))
    if len(joined) == 1:
        return joined[0]
    return replaced(joined[0], evals=tuple(ref for entry in joined for ref in entry.evals), joined=tuple(joined))


class ReplaySummary(Frozen):
    """Summary of replays of one answer. All of these replays had the same result."""

    answer: ReplayedAnswer
    times: int
    passed: bool
    alike: bool = False
    """Whether the replays failed in the same way as the stored failure."""
    change: str | None = None
    """The change to the grader that was tried; null if the grader was not changed."""
    recorded: bool = False
    """Whether the results were read from the run's own files, without running the grader."""
    error: prose.Prose | None = None
    exit_code: int | None = None
    command: str = ""
    note: str = ""
    """Description of how the answer was reconstructed, or the reason why the replays are not conclusive."""
    document: str = ""
    """Document name that citations use for the log of the first replay."""
    first: int = 1
    """Line number, in the whole log, of the first line of `log`."""
    log: str = ""
    """The end of the grader's output in the first replay."""


class ProofSummary(Frozen):
    """Result of replaying one failure."""

    eval: prose.EvalPath
    outcome: ReplayOutcome
    why: prose.Prose
    same_grader: bool | None = None
    """Whether the replays used the same grader as the run. It is null if the run did not record its grader."""
    replays: tuple[ReplaySummary, ...] = ()

    def counts(self) -> Iterator["ReplayCount"]:
        """Count the replays of each answer.

        Yield one count for the unchanged grader and one for each change that was tried.
        """
        answers: tuple[ReplayedAnswer, ...] = ("reference", "output")
        for answer in answers:
            numbered = [(number, replay) for number, replay in enumerate(self.replays) if replay.answer == answer]
            for change in dict.fromkeys(replay.change for _, replay in numbered):
                same_change = [(number, replay) for number, replay in numbered if replay.change == change]
                # The log of a failed replay is more informative than that of a passed replay. Executed replays are
                # preferred to recorded replays.
                shown_number = min(same_change, key=lambda pair: (not pair[1].log, pair[1].passed, pair[1].recorded))[0]
                notes = dict.fromkeys(replay.note for _, replay in same_change if replay.note and not replay.recorded)
                yield ReplayCount(
                    answer=answer,
                    change=change,
                    passed=sum(replay.times for _, replay in same_change if replay.passed),
                    total=sum(replay.times for _, replay in same_change),
                    recorded=sum(replay.times for _, replay in same_change if replay.recorded),
                    notes=tuple(notes),
                    shown=shown_number,
                )

    def count_text(self, count: "ReplayCount") -> str:
        """Describe a count, such as `reference passed 3 of 3 times, 1 of them recorded with the run`."""
        failed = count.passed == 0 and self.outcome != "inconclusive"  # inconclusive replays might have been stopped
        result, number = ("failed", count.total) if failed else ("passed", count.passed)
        changed = f" with {count.change}" if count.change else ""
        note = f" ({' or '.join(count.notes[:2])})" if count.notes else ""
        times = f"{number} of {prose.pluralise(count.total, 'time')}"
        recorded = f", {count.recorded} of them recorded with the run" if count.recorded else ""
        return f"{count.answer}{changed}{note} {result} {times}{recorded}"


class ReplayCount(NamedTuple):
    """How often the replays of one answer passed."""

    answer: ReplayedAnswer
    change: str | None
    """The change to the grader that was tried, as in `ReplaySummary`."""
    passed: int
    total: int
    recorded: int
    notes: tuple[str, ...]
    """Distinct notes on the replays that were executed."""
    shown: int
    """Index, in the proof's `replays`, of the replay with the most informative log."""


SHOWN_LOG = 8_000
"""Maximum number of characters of a replay's log in a report."""


def proof_documents(proofs: Iterable[ProofSummary], paths: Sequence[str]) -> tuple[Document, ...]:
    """Return the replay logs of the evals in `paths` as documents.

    Quotations cite the line numbers of these documents.
    """
    replays = (replay for proof in proofs if proof.eval in paths for replay in proof.replays if replay.log)
    # Blank lines replace the part of the log that is not stored, so that the other lines keep their numbers.
    return tuple(
        Document(role="log", path=replay.document, text="\n" * (replay.first - 1) + replay.log) for replay in replays
    )


def summarise_proof(proof: Proof) -> ProofSummary:
    """Convert a proof to the shorter form in which a report stores it."""
    groups: dict[tuple[object, ...], list[Replay]] = {}
    names: dict[int, str] = {}
    for number, replay in enumerate(proof.replays):
        key = (
            replay.answer,
            replay.change,
            replay.recorded,
            replay.passed,
            replay.alike,
            replay.error,
            replay.exit_code,
            replay.broken,
        )
        groups.setdefault(key, []).append(replay)
        # Two replays can be equal, but each has its own log, so replays are told apart by `id`.
        names.setdefault(id(replay), replay_log_name(proof.replays, number))
    return ProofSummary(
        eval=proof.eval,
        outcome=proof.outcome,
        why=proof.why,
        same_grader=proof.same_grader,
        replays=tuple(
            ReplaySummary(
                answer=first.answer,
                times=len(members),
                passed=first.passed,
                alike=first.alike,
                change=first.change,
                recorded=first.recorded,
                error=first.error,
                exit_code=first.exit_code,
                command=first.command,
                note=first.broken or first.note,
                document=names[id(first)] if first.log else "",
                first=first.log[:cut].count("\n") + 1,
                log=first.log[cut:],
            )
            for members in groups.values()
            for first, cut in ((members[0], _start_of_end(members[0].log)),)
        ),
    )


def _start_of_end(log: str) -> int:
    """Return the offset at which the stored part of a log begins.

    A report stores only the last whole lines, with at most `SHOWN_LOG` characters.
    """
    return log.find("\n", len(log) - SHOWN_LOG) + 1 if len(log) > SHOWN_LOG else 0


class ReportNote(Frozen):
    """Text that people added to a section of the report, outside the findings."""

    section: Section
    text: prose.Block


class Report(Frozen):
    """The report of one run. It contains everything that is in the report's page and in its data file."""

    run: RunHeader
    date: Date
    """ISO date of the first analysis of the run."""
    revision: Annotated[int, Field(ge=1)] = 1
    judges: tuple[prose.Name, ...] = ()
    own_prompts: bool = False
    """Whether prompt templates from the workspace were used instead of the built-in ones."""
    cascade: CascadeSaving | None = None
    """Cost and savings of the cascade; None if the judge was not a cascade."""
    agreement: tuple[JudgeAgreement, ...] = Field(default=(), exclude_if=lambda rows: not rows)
    """How often each judge agreed with people. Only judges whose verdicts were confirmed or corrected in any report of
    the workspace are included."""
    page_url: prose.WebUrl = Field(default=None, exclude_if=lambda url: url is None)
    """Web address of the run's page; None if no address is configured."""
    evidence: prose.Line = ""
    """Short content id of the run's whole evidence, in the form `sha256:<8 hex digits>`."""
    earlier: tuple[prose.Name, ...] = ()
    """File names of the earlier reports with which the run was compared, newest first."""
    entries: tuple[ReportEntry, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    """Patterns in the findings. The evals of each pattern are in the order of the entries."""
    resolved: tuple[prose.EvalPath, ...] = ()
    """Evals that failed in the most recent earlier report and are not among the failures of this run."""
    follow_ups: tuple[FollowUp, ...] = ()
    """Actions that people took because of earlier reports on any model, and whether the fixes worked in this run."""
    proofs: tuple[ProofSummary, ...] = ()
    """Results of replaying the failures, in the order of the entries."""
    incomplete_evals: tuple[prose.EvalPath, ...] = ()
    """Paths of the evals that never completed, if the source names them."""
    recommendations: tuple[Recommendation, ...] = ()
    """Recommendations, sorted by group."""
    actions_taken: prose.Block = ""
    """Markdown that people wrote under `Actions taken`; empty if they wrote nothing."""
    notes: tuple[ReportNote, ...] = ()
    """Texts that people added outside the findings, sorted by section."""

    @field_validator("patterns")
    @classmethod
    def _printable_patterns(cls, patterns: tuple[Pattern, ...], info: ValidationInfo) -> tuple[Pattern, ...]:
        reported = _reported(info)
        return tuple(
            Pattern(
                name=prose.prose(pattern.name, also=prose.PARENTHESIS) or "unnamed",
                kind=pattern.kind,
                evals=_in_order(pattern.evals, reported),
                text=prose.prose(pattern.text),
            )
            for pattern in patterns
        )

    @field_validator("follow_ups")
    @classmethod
    def _printable_follow_ups(cls, follow_ups: tuple[FollowUp, ...], info: ValidationInfo) -> tuple[FollowUp, ...]:
        reported = _reported(info)
        return tuple(
            FollowUp(
                report=prose.name(follow_up.report),
                text=prose.prose(follow_up.text),
                evals=_in_order(follow_up.evals, reported),
                outcome=follow_up.outcome,
            )
            for follow_up in follow_ups
        )

    @field_validator("recommendations")
    @classmethod
    def _printable_recommendations(
        cls, recommendations: tuple[Recommendation, ...], info: ValidationInfo
    ) -> tuple[Recommendation, ...]:
        reported = _reported(info)
        normal = (
            replaced(item, text=prose.prose(item.text), evals=_in_order(item.evals, reported))
            for item in recommendations
        )
        groups = list(RECOMMENDATION_GROUPS)
        return tuple(sorted(normal, key=lambda item: groups.index(item.group)))

    @model_validator(mode="after")
    def _ids_are_numbers(self) -> Self:
        for item in self.recommendations:
            # `isdecimal` is also true for the digits of other scripts.
            if item.id is not None and not (item.id.startswith("R") and item.id[1:].isdecimal() and item.id.isascii()):
                raise ValueError(f"recommendation id {item.id!r} is not R followed by a number")
        return self

    @field_validator("actions_taken")
    @classmethod
    def _none_is_empty(cls, text: str) -> str:
        # The page prints `None.` if people wrote nothing.
        return "" if text == "None." else text

    @field_validator("notes")
    @classmethod
    def _notes_by_section(cls, notes: tuple[ReportNote, ...]) -> tuple[ReportNote, ...]:
        order = list(Section.__args__)  # type: ignore[attr-defined]
        return tuple(sorted((note for note in notes if note.text), key=lambda note: order.index(note.section)))

    @cached_property
    def hoped_for(self) -> tuple[str, ...]:
        """Paths of the failed evals that would pass with the recommended changes.

        Evals with the label `MODEL_FAULT` are not included.
        """
        claimed = {path for item in self.recommendations if item.would_pass for path in item.evals}
        entries = (entry for entry in self.entries if entry.classification != "MODEL_FAULT")
        return tuple(dict.fromkeys(path for entry in entries for path in entry.paths if path in claimed))

    @cached_property
    def net_impact(self) -> NetImpact:
        apart = sum(len(entry.evals) for entry in self.entries if entry.not_counted)
        scorable = max(0, self.run.total - apart)
        return NetImpact(
            passed=self.run.passed,
            total=self.run.total,
            scorable_passed=min(self.run.passed, scorable),
            scorable_total=scorable,
            hopeful_passed=min(self.run.total, self.run.passed + len(self.hoped_for)),
        )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({prose.name(name) for name in names}))


def _reported(info: ValidationInfo) -> dict[str, None]:
    """Return the paths of a report's entries, in the order of the entries."""
    entries: tuple[ReportEntry, ...] = info.data.get("entries", ())
    return dict.fromkeys(path for entry in entries for path in entry.paths)


def _in_order(paths: Iterable[str], reported: dict[str, None]) -> tuple[str, ...]:
    """Remove duplicate paths, and move the paths that are in `reported` to the front, in the order of `reported`."""
    unique = dict.fromkeys(prose.path(path) for path in paths)
    return (*(path for path in reported if path in unique), *(path for path in unique if path not in reported))


ProblemLevel = Literal["error", "warning", "notice"]
PROBLEM_LEVELS: tuple[ProblemLevel, ...] = ("error", "warning", "notice")
PROBLEM_LIMIT = 600


def escape_ci_commands(text: str) -> str:
    """Return the text as one line in which CI commands are escaped.

    Some of these commands, such as `##[error]`, work anywhere in a line.
    """
    return re.sub(r"##(?=\[|vso)", "# #", prose.one_line(text))


SafeLine = Annotated[str, AfterValidator(escape_ci_commands)]
ProblemText = Annotated[str, AfterValidator(lambda text: prose.cut(escape_ci_commands(text), PROBLEM_LIMIT))]


class Problem(Frozen):
    """A problem that was found in a report: an error, a warning or a notice."""

    file: SafeLine
    """Path of the report, relative to the user's current folder."""
    line: Annotated[int, Field(ge=1)]
    level: ProblemLevel
    what: ProblemText
    """Description of the problem in one line. It can quote text from other people."""


class CheckedReport(Frozen):
    file: SafeLine
    name: SafeLine
    """Path of the report, relative to the reports folder. If the file is outside this folder, this is only the
    file name."""
    ours: bool
    """Whether evalscribe wrote the report. If not, it is a free-form report that people wrote."""
    page_url: prose.WebUrl = None
    """Web address of the run's page; None if the report does not contain one."""
    summary: tuple[SafeLine, ...] = ()
    """Title and first lines of the report, in markdown; empty if the report cannot be read."""
    quotations: int = 0
    """Number of quotations in the report."""
    not_compared: SafeLine | None = None
    """The reason why the quotations were not compared with the evidence. It is None if the quotations were compared,
    or if the report has no quotations."""


class CheckResult(Frozen):
    """The outcome of one check."""

    reports: tuple[CheckedReport, ...] = ()
    """The checked reports, sorted by name."""
    problems: tuple[Problem, ...] = ()
    """The problems in all reports, sorted by file and line."""
    notes: tuple[SafeLine, ...] = ()
    """Notes on whole reports, for example that quotations could not be compared."""

    def of(self, level: ProblemLevel) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.level == level)

    @property
    def wrong(self) -> int:
        """Number of reports with errors."""
        return len({problem.file for problem in self.of("error")})
