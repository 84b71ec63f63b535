"""Verdicts, findings, human labels, and the patterns and recommendations made from them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.model.cascade import Stage
from evalscribe.model.chat import FailureCause, Usage
from evalscribe.model.evidence import Citation, Diagnosis, Evidence, PackedEvidence
from evalscribe.model.run import Eval

Classification = Literal["MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"]
CLASSIFICATIONS: tuple[Classification, ...] = ("MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP")
CauseKind = Literal["model", "task", "grader", "lint", "harness", "infrastructure"]
CAUSE_KINDS: tuple[CauseKind, ...] = ("model", "task", "grader", "lint", "harness", "infrastructure")
NOT_THE_MODEL: tuple[CauseKind, ...] = ("harness", "infrastructure")
"""Kinds of cause that say nothing about the model's work; counted separately from the model's score."""
RecurrenceKind = Literal["new", "repeat", "changed", "fix-in-doubt"]
Confidence = Annotated[float, Field(ge=0, le=1)]
UNCERTAIN_CONFIDENCE = 0.5
"""Maximum confidence of an uncertain verdict."""


class Precedent(Frozen):
    """The finding of an earlier report on the same model and eval."""

    report: str
    """File name of the report."""
    date: str | None = None
    eval: str
    step: str | None = None
    classification: Classification | None = None
    by_person: bool = False
    """Whether a person gave the label; only then is it evidence for a later verdict."""
    cause: str | None = None
    error: str | None = None
    reasoning: str | None = None
    """The reasoning; free-form reports often name the error only here."""
    action: str | None = None
    """The action taken, in the report's words."""
    reviewer: str | None = None
    """Who gave the label, if git has it."""
    model: str | None = None
    """`provider/model` if the report is on another model; of these only people's labels for the same failure in the
    same version of the eval are used."""
    note: str | None = None
    """The person's comment on the label."""
    alike: bool = False
    """Whether it is known to be the same failure: same task, grader and error."""


class LabelledExample(Frozen):
    """A similar failure that a person has labelled: an example for a judge, not evidence about this eval."""

    eval: str
    step: str | None = None
    error: str | None = None
    label: Classification
    cause_kind: CauseKind | None = None
    note: str | None = None
    reviewer: str
    date: str
    why: str
    """How it is similar, such as `the same error in another eval`."""


MIN_MODELS = 3
"""Minimum number of models whose agreement says something about the eval rather than about one model."""


class CrossModelFailures(Frozen):
    """How other models did on the same eval: same experiment, task and grader."""

    alike: tuple[str, ...] = ()
    """Other models that fail in the same way, by name (`provider/model`, the name of their reports folder)."""
    models: int = 1
    """Number of models with a comparable stored run of the experiment, including this one."""
    more: int = 0
    """Number of further models, counted but not named."""
    earlier: tuple[str, ...] = ()
    """Models that failed in the same way on another version of the eval; not counted."""
    more_earlier: int = 0

    @property
    def failing(self) -> int:
        """Number of models that fail in the same way, including this one."""
        return len(self.alike) + self.more + 1

    @property
    def most_fail(self) -> bool:
        """Whether enough models, and at least half of all, fail in the same way."""
        return self.failing >= MIN_MODELS and 2 * self.failing >= self.models

    @property
    def most_pass(self) -> bool:
        """Whether there are enough models, and fewer than half of them fail in the same way."""
        return self.models >= MIN_MODELS and 2 * self.failing < self.models


class Failure(Frozen):
    """Everything that a judge receives about one failure."""

    evidence: Evidence
    packed: PackedEvidence
    diagnosis: Diagnosis | None = None
    """Diagnosis of the evidence; if None, the judge computes it."""
    precedents: tuple[Precedent, ...] = ()
    examples: tuple[LabelledExample, ...] = ()
    across: CrossModelFailures | None = None
    """None if no other model is known to fail in the same way."""
    passable: bool | None = None
    """Whether a trial of any model, or a reference answer, passed this task as it is graded; None if that was not
    looked up."""


NoVerdictCause = FailureCause | Literal["evidence"]
"""`evidence`: it could not be read, so the judge was not called. `answer`: the answer is not a verdict."""


class Unclassified(Frozen):
    """A failure that could not be judged, with the reason in place of a verdict."""

    reason: str
    judge: str
    final: bool = False
    """Whether asking the same question again is pointless (refused, evidence unreadable)."""
    cause: NoVerdictCause = "answer"
    usage: Usage = Usage()


class Verdict(Frozen):
    """A judge's decision on one failure."""

    classification: Classification
    cause: str
    """Short kebab-case name of the root cause: `missing-as-const`."""
    cause_kind: CauseKind
    confidence: Confidence
    uncertain: bool = False
    error: str
    """The error in one line, or a note that the log ends before the reason."""
    why: str
    """The reason in one line of at most 90 characters."""
    reasoning: str
    """Two or three sentences."""
    citations: tuple[Citation, ...] = ()
    judge: str
    """Id of the judge, with its version: `rules@1`, `anthropic/claude-opus-5-5`."""
    rule: str | None = None
    """The rule that decided, if the judge is the rules engine."""
    fix: str | None = None
    """Recommended change to the eval or its surroundings, in one imperative line; None if nothing should change."""
    would_pass: bool = False
    """Whether the judge claims that this change alone would let the eval pass."""
    stage: Stage | None = None
    """The stage of a cascade that decided; None for a single judge."""
    tags: tuple[str, ...] = ()
    """Issues tagged by the cheap stage of a cascade."""
    provisional: bool = False
    """Whether this is a substitute until a stage that could not answer is asked again."""
    gave_up: Unclassified | None = None
    """Why the stage that should have decided gave no verdict."""
    usage: Usage = Usage()
    """Usage of all stages."""
    before: Usage = Usage()
    """The part of `usage` spent on earlier stages, if a later stage was asked too."""


def undecided(verdict: Verdict | Unclassified) -> Unclassified | None:
    """Return why the judge did not decide, or None if it did.

    A guess by the rules in place of a model's answer is not a decision.
    """
    if isinstance(verdict, Unclassified):
        return verdict
    return verdict.gave_up if verdict.stage == "rules" else None


def by_rules(judge: str) -> bool:
    """Return whether the id is that of the rules, whose confidence is only certain or uncertain."""
    return judge.startswith("rules@")


def proves(judge: str) -> bool:
    """Return whether the id is that of replays, which prove a verdict."""
    return judge.startswith("replay@")


def label_and_confidence(label: str, confidence: float, judge: str) -> str:
    """Return a label with the confidence of the model that gave it; rules and proofs have none."""
    return label if by_rules(judge) or proves(judge) else f"{label} {confidence:.2f}"


ReplayedAnswer = Literal["reference", "output"]
CORRECTED = "the corrected expectation"
"""The change that the authors of an eval made to what it expects: an output that it lets pass was not at fault."""
REPLAY_JUDGE = "replay@1"
"""Id of the judge of proved verdicts. Raise the number by hand when the same replays lead to another conclusion."""
VerdictBasis = Literal["judged", "reproduced", "proved"]
"""`reproduced`: a replay shows that the failure is real; `proved`: a replay shows whose fault it is."""
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
    """One answer that went through the grader once."""

    answer: ReplayedAnswer
    passed: bool
    alike: bool = False
    """Whether it failed in the same check and in the same way as the stored failure."""
    change: str | None = None
    """The change to the grader that was tried: `CORRECTED`, or what a recommendation says; None for the grader as it
    is."""
    error: str | None = None
    """How it failed, in one line."""
    tests: tuple[str, ...] = ()
    """The failed tests, where the grader names them."""
    exit_code: int | None = None
    """None if it was stopped at a limit, or the grader is no command."""
    command: str = ""
    """The grader's command; empty where it is no command."""
    log: str = ""
    """What the grader printed."""
    recorded: bool = False
    """Whether the run's own files have it: nothing was run."""
    note: str = ""
    """How the answer was obtained, if it is not stored as such."""
    broken: str = ""
    """Why it says nothing about the answer, such as `stopped at the time limit`; empty if it does."""


REPEAT = 3
"""Times that an answer is run whose result may depend on chance."""


class ReplayOptions(Frozen):
    """How failures are replayed."""

    repeat: int = REPEAT
    """Times that an answer is run whose result may depend on chance."""
    fresh: bool = False
    """Whether to run again what was run before."""
    expectations: Path | None = None
    """File with corrected expectations of tau-bench tasks."""


class Proof(Frozen):
    """What the replays of one failure show."""

    eval: str
    """Path."""
    eval_id: str
    evidence: str
    """Digest of the evidence that it is about; with other evidence it says nothing."""
    outcome: ReplayOutcome
    why: str
    """One line of at most 90 characters."""
    reasoning: str
    """Two or three sentences."""
    verdict: Verdict | None = None
    """The verdict, if whose fault it is was proved."""
    same_grader: bool | None = None
    """Whether the grader is the run's; None if the run has no record of it."""
    replays: tuple[Replay, ...] = ()

    @property
    def basis(self) -> VerdictBasis:
        return _BASIS[self.outcome]


def fixes(proof: Proof, change: str) -> bool:
    """Return whether every answer that was run with a change passed every time."""
    tried = [one for one in proof.replays if one.change == change]
    return any(one.answer == "output" for one in tried) and all(one.passed for one in tried)


def replay_log_name(replays: Sequence[Replay], at: int) -> str:
    """Return the name under which the log of a replay is quoted."""
    answer = replays[at].answer
    return f"replay-{answer}-{sum(one.answer == answer for one in replays[: at + 1])}.log"


def counted(replays: Iterable[Replay], answer: ReplayedAnswer, change: str | None = None) -> tuple[int, int]:
    """Return how many replays of an answer passed, and how many there are."""
    those = [one.passed for one in replays if one.answer == answer and one.change == change and not one.broken]
    return sum(those), len(those)


class Correction(Frozen):
    """A label that a person gave in place of a judge's."""

    classification: Classification
    cause_kind: CauseKind | None = None
    """None if the person did not give one; the judge's then stays."""


class Recurrence(Frozen):
    """How a failure relates to earlier reports of this model and experiment."""

    kind: RecurrenceKind = "new"
    reports: tuple[str, ...] = ()
    """File names of the earlier reports that it appears in, newest first."""
    action: str | None = None
    """The fix that an earlier report names, for `fix-in-doubt`."""


class TrialCount(Frozen):
    """How the trials of one task ended."""

    passed: int
    failed: int
    total: int

    @property
    def never_passed(self) -> bool:
        """Whether the task failed in every one of several trials."""
        return self.total > 1 and self.failed >= self.total


class TrialRates(Frozen):
    """How reliably a run passes its tasks with several trials, as means over these tasks."""

    tasks: int
    k: int
    """Number of trials per task; the smallest number if tasks differ."""
    pass_at: float
    """Estimated share of tasks with at least one passed trial among `k`."""
    pass_hat: float
    """Estimated share of tasks whose `k` trials all pass."""


class FailureGroup(Frozen):
    """Failures that may share one verdict."""

    id: str
    """Content id of what the members have in common."""
    eval_ids: tuple[str, ...]
    """Ids in the order of the run; the first failure represents the group."""
    signature: str | None = None


class Finding(Frozen):
    """A verdict on one failed eval, or on a group with the same failure, with its recurrence."""

    group: str
    """Content id of what the members have in common; a single eval is a group of one."""
    evals: tuple[Eval, ...]
    signature: str | None = None
    verdict: Verdict | Unclassified
    recurrence: Recurrence = Recurrence()
    across: CrossModelFailures | None = None
    missing: tuple[str, ...] = ()
    """Evidence that the source no longer has, one phrase each; names evals if only some members lack it."""
    reference_passes: bool = False
    """Whether a recorded reference answer passes the task."""
    proof: Proof | None = None
    """What replays of the failure show; None if nothing was replayed."""
    contradicted: Verdict | None = None
    """The judge's verdict, which the proof replaced."""
    joined: tuple["Finding", ...] = ()
    """Findings on single trials that this one combines: label and cause are shared, all else is from the first
    trial."""

    @property
    def each(self) -> tuple["Finding", ...]:
        """The findings with their own verdict: the joined ones, else this finding itself."""
        return self.joined or (self,)

    @property
    def judged(self) -> Verdict | None:
        """The verdict, or None when unclassified."""
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
    """Path."""
    group: str | None = None
    """Equal for evals in the same entry of the report; None in reports that people wrote."""
    label: Classification
    cause_kind: CauseKind | None = None
    cause: str | None = None
    error: str | None = None
    """The error as the report prints it."""
    step: str | None = None
    note: str | None = None
    """The person's comment on `Reviewer:` lines."""
    reviewer: str
    """Author of the commit, with the address if two people have the same name."""
    email: str
    """Distinguishes people of the same name; never printed."""
    commit: str
    date: str
    """ISO date of the commit, in its author's time zone."""
    report: str
    """Name below the reports folder."""
    judge: str | None = None
    """Id of the judge that the person corrected or confirmed; None in reports that people wrote."""
    judged: Classification | None = None
    """The judge's own label."""
    in_force: bool = True
    """Whether this is the report's current label; False for an earlier reviewer's label that was overruled."""


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
    """One line."""


class Recommendation(Frozen):
    """One proposed change, in one of the four groups."""

    id: str | None = None
    """`R1` …, the same for a cause in all revisions; None in groups that propose nothing."""
    group: RecommendationGroup
    text: str
    evals: tuple[str, ...] = ()
    would_pass: bool = False


FollowUpOutcome = Literal["held", "did not hold", "not yet seen"]


class FollowUp(Frozen):
    """An action taken after an earlier report, and whether it held in this run."""

    report: str
    """File name of the report that names the action, with a path if the report is on another model."""
    text: str
    """The action in the report's words, on one line."""
    evals: tuple[str, ...]
    """Paths of the evals that the action was for."""
    outcome: FollowUpOutcome


class NetImpact(Frozen):
    """Pass rates: as run, without failures that say nothing about the model, and with the recommended changes."""

    passed: int
    total: int
    scorable_passed: int
    scorable_total: int
    """Total without failures of kind harness or infrastructure; 0 if no eval could be scored."""
    hopeful_passed: int


class Collation(Frozen):
    """The findings of a run with what they have in common."""

    findings: tuple[Finding, ...]
    """Findings with their recurrence, in the order of the report, where entry 1 is the first."""
    patterns: tuple[Pattern, ...] = ()
    resolved: tuple[str, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
