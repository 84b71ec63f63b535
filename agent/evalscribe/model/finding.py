"""Define verdicts, findings and human labels. Define the patterns and recommendations that are based on findings."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.model.cascade import Stage
from evalscribe.model.chat import FailureCause, Usage
from evalscribe.model.evidence import Citation, Diagnosis, Evidence, FailedScore, PackedEvidence
from evalscribe.model.run import Eval

Classification = Literal["MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"]
CLASSIFICATIONS: tuple[Classification, ...] = ("MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP")
CauseKind = Literal["model", "task", "grader", "lint", "harness", "infrastructure", "user"]
"""Kind of a cause: who or what caused the failure. `user` is the simulated user of an agent benchmark."""
CAUSE_KINDS: tuple[CauseKind, ...] = ("model", "task", "grader", "lint", "harness", "infrastructure", "user")
NOT_THE_MODEL: tuple[CauseKind, ...] = ("harness", "infrastructure", "user")
"""Kinds of cause that say nothing about the model's work. Failures with such a cause are left out of the model's pass
rate."""
RecurrenceKind = Literal["new", "repeat", "changed", "fix-in-doubt"]
Confidence = Annotated[float, Field(ge=0, le=1)]
NO_REASON = "the log ends before the reason"
"""Text at the end of a verdict's `error` if the log contains no reason for the failure."""
UNCERTAIN_CONFIDENCE = 0.5
"""Maximum confidence of an uncertain verdict."""


class Precedent(Frozen):
    """A finding on the same eval in an earlier report."""

    report: str
    """File name of the earlier report."""
    date: str | None = None
    eval: str
    step: str | None = None
    classification: Classification | None = None
    by_person: bool = False
    """Whether a person gave the label. Only a label from a person is evidence for a later verdict."""
    cause: str | None = None
    # Verdicts that were paid for are stored under keys that include precedents. The field below was added later. It is
    # excluded if it is None, so that it does not change existing keys.
    cause_kind: CauseKind | None = Field(default=None, exclude_if=lambda kind: kind is None)
    """Kind of cause that the person gave. It is known only if `alike` is true."""
    error: str | None = None
    reasoning: str | None = None
    """The reasoning in the earlier report. Free-form reports often name the error only in the reasoning."""
    action: str | None = None
    """The action that people took, in the words of the earlier report."""
    reviewer: str | None = None
    """The person who gave the label; None if the label is not committed to git."""
    model: str | None = None
    """The model of the earlier report, as `provider/model`, if the report is on another model. Such a report is used
    only if a person labelled the same failure in the same version of the eval."""
    note: str | None = None
    """The person's comment on the label."""
    alike: bool = False
    """Whether the earlier failure is known to be the same failure, with the same task, grader, error and failed tests.
    """


class LabelledExample(Frozen):
    """A labelled failure that is similar to the failure to be judged. It is an example for the judge, not evidence."""

    eval: str
    step: str | None = None
    error: str | None = None
    label: Classification
    cause_kind: CauseKind | None = None
    note: str | None = None
    reviewer: str
    date: str
    why: str
    """Reason why the failure counts as similar, such as `the same error in another eval`."""


class LabelCount(Frozen):
    """Number of times that people gave one label to similar failures. A group of failures counts as one failure."""

    label: Classification
    count: int


MIN_MODELS = 3
"""Minimum number of comparable models that is needed for a conclusion about the eval."""


class CrossModelFailures(Frozen):
    """Results of other models on the same eval. Only models with the same experiment, task and grader are counted."""

    alike: tuple[str, ...] = ()
    """Other models that fail in the same way. Each is named `provider/model`, like the folder of its reports."""
    models: int = 1
    """Number of models with a comparable stored run of the same experiment, including the model of this run."""
    more: int = 0
    """Number of further models that fail in the same way but are not listed in `alike`."""
    earlier: tuple[str, ...] = ()
    """Models that failed in the same way on another version of the eval. The counts do not include these models."""
    more_earlier: int = 0

    @property
    def failing(self) -> int:
        """Number of models that fail in the same way, including the model of this run."""
        return len(self.alike) + self.more + 1

    @property
    def most_fail(self) -> bool:
        """Whether at least `MIN_MODELS` models fail in the same way, and these are at least half of all models."""
        return self.failing >= MIN_MODELS and 2 * self.failing >= self.models

    @property
    def most_pass(self) -> bool:
        """Whether there are at least `MIN_MODELS` models and fewer than half of them fail in the same way."""
        return self.models >= MIN_MODELS and 2 * self.failing < self.models


class TrialVerdict(Frozen):
    """A judge's verdict on another trial of the same task. It is shown to the judge when a trial is judged again."""

    trial: int
    classification: Classification
    cause: str
    why: str


class Failure(Frozen):
    """Everything that a judge receives about one failure."""

    evidence: Evidence
    packed: PackedEvidence
    diagnosis: Diagnosis | None = None
    """Diagnosis of the evidence. If this is None, the judge computes the diagnosis."""
    precedents: tuple[Precedent, ...] = ()
    examples: tuple[LabelledExample, ...] = ()
    similar: tuple[LabelCount, ...] = ()
    """How often people gave each label to similar failures, including failures that are not in `examples`. The most
    frequent label comes first."""
    across: CrossModelFailures | None = None
    """Results of other models on the same eval; None if no other model is known to fail in the same way."""
    passable: bool | None = None
    """Whether a trial of any model, or a reference answer, passed this task with the same grader. It is None if nobody
    looked for a passed trial or reference answer."""
    scored: FailedScore | None = None
    """The score of the failed step with the threshold; None if the score or the threshold is unknown."""
    others: tuple[TrialVerdict, ...] = ()
    """Verdicts on other trials of the task. They are given only if this trial is judged again. A trial is judged
    again if the verdicts on the other trials agree with each other but not with the first verdict on this trial."""

    @property
    def is_agent_run(self) -> bool:
        return bool(self.evidence.of("transcript"))


NoVerdictCause = FailureCause | Literal["evidence"]
"""Kind of problem that prevented a verdict. `evidence`: the evidence is unreadable, so no judge was called. `answer`:
the judge's answer is not a verdict."""


class Unclassified(Frozen):
    """Result for a failure that could not be judged: the reason why there is no verdict."""

    reason: str
    judge: str
    final: bool = False
    """Whether it is pointless to judge the failure again, because the model refused or the evidence is unreadable."""
    cause: NoVerdictCause = "answer"
    usage: Usage = Usage()


class Verdict(Frozen):
    """A judge's decision on one failure."""

    classification: Classification
    cause: str
    """Short name of the root cause in kebab case, such as `missing-as-const`."""
    cause_kind: CauseKind
    confidence: Confidence
    uncertain: bool = False
    error: str
    """The error of the failed step in one line, or a note that the log ends before the reason for the failure."""
    why: str
    """The reason for the verdict, in one line of at most 90 characters."""
    reasoning: str
    """The reasons for the verdict, in two or three sentences."""
    citations: tuple[Citation, ...] = ()
    judge: str
    """Id of the judge, such as `rules@1` (with a version number) or `anthropic/claude-opus-5-5`."""
    rule: str | None = None
    """Name of the rule that gave the verdict, if the judge is the rules engine."""
    fix: str | None = None
    """Recommended change to the eval or its environment, as one line in the imperative. It is None if no change is
    recommended."""
    would_pass: bool = False
    """Whether the eval would pass with the change in `fix` alone, according to the judge."""
    message: int | None = None
    """1-based number of the message in which the agent run went wrong because of the cause that the verdict names. It
    is None if the message is unknown, or if the eval is not an agent run."""
    first_mistake: int | None = None
    """Number of the message that contains the agent run's first mistake. It is None if this message is unknown or does
    not come before `message`."""
    stage: Stage | None = None
    """The cascade's stage that gave the verdict; None if the judge is not a cascade."""
    tags: tuple[str, ...] = ()
    """Issues tagged by the cheap stage of a cascade."""
    provisional: bool = False
    """Whether the verdict is provisional because another stage of the cascade should have given it but could not
    answer. A later answer of that stage replaces this verdict."""
    gave_up: Unclassified | None = None
    """The reason why the last stage of a cascade gave no verdict, so that the verdict of an earlier stage is used. It
    is None if the last stage was not needed or gave the verdict, or if the judge is not a cascade."""
    usage: Usage = Usage()
    """Model usage of the judge, or of all stages if the judge is a cascade."""
    before: Usage = Usage()
    """The part of `usage` that belongs to the stages before the last stage that was called. If the last stage gave no
    verdict, this is all of `usage`."""

    def doubted(self, reason: str) -> "Verdict":
        """Return a copy of the verdict that is marked as uncertain, with `reason` appended to its reasoning."""
        return self.model_copy(
            update={
                "reasoning": f"{self.reasoning.rstrip()} {reason}",
                "uncertain": True,
                "confidence": min(self.confidence, UNCERTAIN_CONFIDENCE),
            }
        )


def undecided(verdict: Verdict | Unclassified) -> Unclassified | None:
    """Return the reason why the judge gave no verdict of its own, or None if the judge gave a verdict.

    If the rules engine judged only because a model gave no answer, the judge counts as having given no verdict.
    """
    if isinstance(verdict, Unclassified):
        return verdict
    return verdict.gave_up if verdict.stage == "rules" else None


def by_rules(judge: str) -> bool:
    """Return whether a judge id names the rules engine.

    The confidence of the rules engine only distinguishes certain from uncertain verdicts.
    """
    # The `@` is part of the prefix, so that other names that begin with `rules` do not match.
    return judge.startswith("rules@")


def proves(judge: str) -> bool:
    """Return whether a judge id stands for replays. Verdicts that come from replays are proved."""
    return judge.startswith("replay@")


def by_people(judge: str) -> bool:
    """Return whether a judge id stands for people.

    Verdicts with this judge id are taken from people's corrections of the same failure.
    """
    return judge.startswith("people@")


def by_model(judge: str) -> bool:
    """Return whether a judge id names a model. Only models state a numeric confidence."""
    return not (by_rules(judge) or proves(judge) or by_people(judge))


def label_and_confidence(label: str, confidence: float, judge: str) -> str:
    """Format a label. If a model gave the label, the confidence follows."""
    return f"{label} {confidence:.2f}" if by_model(judge) else label


ReplayedAnswer = Literal["reference", "output"]
CORRECTED = "the corrected expectation"
"""Name of one change to a grader: the expected result is replaced by the eval authors' correction of it. If an
output passes with the correction, the model was not at fault."""
REPLAY_JUDGE = "replay@1"
"""Judge id of verdicts that replays proved. Increase the number by hand if the meaning of replays changes."""
PEOPLE_JUDGE = "people@1"
"""Judge id of verdicts that are taken from people's corrections of the same failure."""
VerdictBasis = Literal["judged", "corrected", "reproduced", "proved"]
"""Basis of a verdict. `corrected`: a person gave this label to the same failure in another run. `reproduced`: a replay
shows that the failure is real. `proved`: a replay shows whose fault the failure is."""
ReplayOutcome = Literal["reference fails", "flaky", "not reproducible", "fixed by change", "reproduced", "inconclusive"]
_BASIS: dict[ReplayOutcome, VerdictBasis] = {
    "reference fails": "proved",
    "flaky": "proved",
    "not reproducible": "proved",
    "fixed by change": "proved",
    "reproduced": "reproduced",
    "inconclusive": "judged",
}


class Replay(Frozen):
    """One run of the grader on an answer."""

    answer: ReplayedAnswer
    passed: bool
    alike: bool = False
    """Whether the replay failed in the same check and in the same way as the stored failure."""
    change: str | None = None
    """The change to the grader that was tried: `CORRECTED`, or the text of a recommendation. It is None if the grader
    was not changed."""
    error: str | None = None
    """The error with which the answer failed, in one line."""
    tests: tuple[str, ...] = ()
    """Names of the failed tests; empty if the grader does not name tests."""
    exit_code: int | None = None
    """Exit code of the grader. It is None if the grader was stopped at a limit or is not a command."""
    command: str = ""
    """The grader's command; empty if the grader is not a command."""
    log: str = ""
    """Output of the grader."""
    recorded: bool = False
    """Whether the result was read from the run's own files, without running the grader."""
    note: str = ""
    """Description of how the answer was reconstructed; empty if the answer was stored."""
    broken: str = ""
    """The reason why the replay is not conclusive, such as `stopped at the time limit`. It is empty if the replay is
    conclusive."""


REPEAT = 3
"""Default number of replays of an answer if the result can depend on chance."""


class ReplayOptions(Frozen):
    """Options for replaying failures."""

    repeat: int = REPEAT
    """Number of replays of an answer if the result can depend on chance."""
    fresh: bool = False
    """Whether to ignore stored replays and run them again."""
    expectations: Path | None = None
    """File with corrected expectations for tau-bench tasks."""


class Proof(Frozen):
    """Result of replaying one failure."""

    eval: str
    """Path of the eval."""
    eval_id: str
    evidence: str
    """Digest of the failure's evidence. If the evidence has changed, the proof no longer applies."""
    outcome: ReplayOutcome
    why: str
    """The reason for the outcome, in one line of at most 90 characters."""
    reasoning: str
    """The reasons for the outcome, in two or three sentences."""
    verdict: Verdict | None = None
    """The verdict that the replays prove. It is None if the replays do not show whose fault the failure is."""
    same_grader: bool | None = None
    """Whether the replays used the same grader as the run. It is None if the run did not record its grader."""
    replays: tuple[Replay, ...] = ()

    @property
    def basis(self) -> VerdictBasis:
        return _BASIS[self.outcome]


def fixes(proof: Proof, change: str) -> bool:
    """Return whether the model's output was replayed with a changed grader and all replays with this change passed."""
    replays = [replay for replay in proof.replays if replay.change == change]
    return any(replay.answer == "output" for replay in replays) and all(replay.passed for replay in replays)


def replay_log_name(replays: Sequence[Replay], index: int) -> str:
    """Return the document name that citations use for the log of the replay `replays[index]`."""
    answer = replays[index].answer
    return f"replay-{answer}-{sum(replay.answer == answer for replay in replays[: index + 1])}.log"


def counted(replays: Iterable[Replay], answer: ReplayedAnswer, change: str | None = None) -> tuple[int, int]:
    """Return how many conclusive replays of an answer passed, and the total number of conclusive replays.

    Only replays with the given `change` to the grader are counted. If `change` is None, only replays with the
    unchanged grader are counted.
    """
    outcomes = [
        replay.passed for replay in replays if replay.answer == answer and replay.change == change and not replay.broken
    ]
    return sum(outcomes), len(outcomes)


class Correction(Frozen):
    """A label from a person that replaces the label of a judge."""

    classification: Classification
    cause_kind: CauseKind | None = None
    """Kind of cause that the person gave. If it is None, the kind that the judge gave still applies."""


class Recurrence(Frozen):
    """How a failure relates to earlier reports on the same model and experiment."""

    kind: RecurrenceKind = "new"
    reports: tuple[str, ...] = ()
    """File names of the earlier reports that contain the failure, newest first."""
    action: str | None = None
    """The fix that an earlier report names, if `kind` is `fix-in-doubt`."""


class TrialCount(Frozen):
    """Number of passed and failed trials of one task."""

    passed: int
    failed: int
    total: int

    @property
    def never_passed(self) -> bool:
        """Whether the task has several trials and all of them failed."""
        return self.total > 1 and self.failed >= self.total


class TrialRates(Frozen):
    """Mean pass rates over the tasks that have several trials in a run."""

    tasks: int
    k: int
    """Number of trials of each task. If the tasks have different numbers of trials, this is the smallest of these
    numbers."""
    pass_at: float
    """Estimated share of tasks with at least one passed trial among `k`."""
    pass_hat: float
    """Estimated share of tasks whose `k` trials all pass."""


class FailureGroup(Frozen):
    """Failures that may share one verdict."""

    id: str
    """Id of the group: the content id of the properties that its members have in common."""
    eval_ids: tuple[str, ...]
    """Ids of the evals in the group, in the order of the run. The judge sees only the first eval, and the
    judge's verdict applies to all evals in the group."""
    signature: str | None = None


class RunningAnalysis(Frozen):
    """An analysis that is running, or that was interrupted before it wrote its report."""

    run_id: str
    provider: str
    model: str
    failures: int
    started_at: str
    """Time at which the analysis started, in ISO 8601, UTC."""
    process: int
    """Id of the process that runs the analysis, or that ran it until it was interrupted."""
    judge: str | None = None
    """Id of the judge; None while the evidence is still being read."""
    groups: int | None = None
    """Number of groups to judge; None while the evidence is still being read."""
    judged: int = 0
    """Number of groups that have been judged so far."""


class Finding(Frozen):
    """The verdict on one failed eval or on a group of evals with the same failure, together with facts about the
    failure."""

    group: str
    """Id of the group: the content id of the properties that its members have in common. A single eval is a group with
    one member."""
    evals: tuple[Eval, ...]
    signature: str | None = None
    verdict: Verdict | Unclassified
    recurrence: Recurrence = Recurrence()
    across: CrossModelFailures | None = None
    missing: tuple[str, ...] = ()
    """One phrase for each kind of evidence that the source no longer has. If only some evals of the group lack a kind
    of evidence, its phrase names these evals."""
    reference_passes: bool = False
    """Whether a recorded reference answer passes the task."""
    scored: FailedScore | None = None
    """The score of the failed step with the threshold; None if the score or the threshold is unknown."""
    never_passed: bool = False
    """Whether all known trials of this task failed, no matter which model ran them, and no reference answer passed the
    task. It is true only if several trials are known."""
    proof: Proof | None = None
    """Result of replaying the failure; None if the failure was not replayed."""
    contradicted: Verdict | None = None
    """The judge's verdict, if a proof from replays replaced it; otherwise None."""
    joined: tuple["Finding", ...] = ()
    """Findings on single trials that this finding combines. They have the same label and cause. The other fields of
    this finding come from the first trial."""

    @property
    def each(self) -> tuple["Finding", ...]:
        """The findings in `joined`, or only this finding if `joined` is empty."""
        return self.joined or (self,)

    @property
    def judged(self) -> Verdict | None:
        """The verdict; None if the failure is unclassified."""
        return self.verdict if isinstance(self.verdict, Verdict) else None

    @property
    def step(self) -> str | None:
        return self.evals[0].failed_step

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(eval.path for eval in self.evals)

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(eval.category for eval in self.evals))


class HumanLabel(Frozen):
    run: str
    provider: str
    model: str
    experiment: str
    eval: str
    """Path of the eval."""
    group: str | None = None
    """Id of the report entry that contains the eval. All evals in an entry have the same id. None in reports that
    people wrote."""
    label: Classification
    cause_kind: CauseKind | None = None
    cause: str | None = None
    error: str | None = None
    """The error as the report prints it."""
    step: str | None = None
    note: str | None = None
    """The comment that the person wrote on `Reviewer:` lines."""
    reviewer: str
    """Name of the reviewer, who is the author of the commit. The e-mail address is added if two people have the same
    name."""
    email: str
    """E-mail address of the reviewer. It distinguishes people who have the same name."""
    commit: str
    date: str
    """ISO date of the commit, in its author's time zone."""
    report: str
    """Path of the report, relative to the reports folder."""
    judge: str | None = None
    """Id of the judge that the person corrected or confirmed; None in reports that people wrote."""
    judged: Classification | None = None
    """The label that the judge gave; None if the judge gave no label, or if there is no judge."""
    confidence: Confidence | None = None
    """The judge's confidence, at most `UNCERTAIN_CONFIDENCE` for an uncertain verdict; None if unknown."""
    stage: Stage | None = None
    """The cascade's stage that gave the verdict; None if the judge is not a cascade."""
    cost_usd: float | None = None
    """Cost of the judge's verdict. It is None if the rules gave the verdict, or if the cost is unknown."""
    in_force: bool = True
    """Whether this is still the report's label for the eval. False if a later reviewer overruled it."""


PatternKind = Literal[
    "cause", "rule", "category", "trials", "known-gaps", "recurring", "across-models", "not-the-model"
]
RecommendationGroup = Literal["eval", "lint", "model", "none"]
RECOMMENDATION_GROUPS: dict[RecommendationGroup, str] = {
    "eval": "Eval improvements",
    "lint": "Lint and configuration",
    "model": "Notes on the model",
    "none": "No action",
}


class Pattern(Frozen):
    """A property that several failures have in common."""

    name: str
    kind: PatternKind
    evals: tuple[str, ...]
    """Paths of the evals, in the order of the report."""
    text: str
    """Description of the pattern, in one line."""


class Recommendation(Frozen):
    """A proposed change, or a note that proposes no change. Each recommendation is in one of four groups."""

    id: str | None = None
    """Id of the recommendation, such as `R1`. All revisions of a report use the same id for the same cause. The id
    is None in groups whose recommendations propose no change."""
    group: RecommendationGroup
    text: str
    evals: tuple[str, ...] = ()
    would_pass: bool = False


FollowUpOutcome = Literal["held", "did not hold", "not yet seen"]


class FollowUp(Frozen):
    """An action that people took because of an earlier report, and whether the fix worked in this run."""

    report: str
    """File name of the report that names the action. If the report is on another model, this is the report's path."""
    text: str
    """The action in the words of the report, in one line."""
    evals: tuple[str, ...]
    """Paths of the evals that the action was meant to fix."""
    outcome: FollowUpOutcome


class NetImpact(Frozen):
    """Pass rate of a run, computed in three ways: for the run as it is; without the failures that say nothing about the
    model; and as if all recommended changes had been made."""

    passed: int
    total: int
    scorable_passed: int
    scorable_total: int
    """Number of evals, not counting failures of the kinds harness, infrastructure and user. It is 0 if no eval could be
    scored."""
    hopeful_passed: int


class Collation(Frozen):
    """The findings of a run, with their patterns and recommendations."""

    findings: tuple[Finding, ...]
    """Findings in the order of the report's entries. Each finding contains its recurrence."""
    patterns: tuple[Pattern, ...] = ()
    resolved: tuple[str, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
