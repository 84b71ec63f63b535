"""Verdicts, findings and human labels, and the patterns and recommendations that are based on them."""

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
"""Origin of a cause; `user` is the simulated user of an agent benchmark."""
CAUSE_KINDS: tuple[CauseKind, ...] = ("model", "task", "grader", "lint", "harness", "infrastructure", "user")
NOT_THE_MODEL: tuple[CauseKind, ...] = ("harness", "infrastructure", "user")
"""Kinds of cause that say nothing about the model's work. Such failures are left out of the model's pass rate."""
RecurrenceKind = Literal["new", "repeat", "changed", "fix-in-doubt"]
Confidence = Annotated[float, Field(ge=0, le=1)]
NO_REASON = "the log ends before the reason"
"""Last words of a verdict's error if the log contains no reason."""
UNCERTAIN_CONFIDENCE = 0.5
"""Maximum confidence of a verdict that counts as uncertain."""


class Precedent(Frozen):
    """The finding of an earlier report on the same model and eval."""

    report: str
    """File name of the report."""
    date: str | None = None
    eval: str
    step: str | None = None
    classification: Classification | None = None
    by_person: bool = False
    """Whether a person gave the label. Only a person's label is evidence for a later verdict."""
    cause: str | None = None
    # Paid verdicts are stored under keys that include precedents, so a field that was added later must not change these
    # keys.
    cause_kind: CauseKind | None = Field(default=None, exclude_if=lambda kind: kind is None)
    """Kind of cause that the person gave; known only if `alike` is true."""
    error: str | None = None
    reasoning: str | None = None
    """The reasoning in the report. Free-form reports often name the error only there."""
    action: str | None = None
    """The action taken, in the report's words."""
    reviewer: str | None = None
    """The person who gave the label; None if the label is not in git."""
    model: str | None = None
    """`provider/model` if the report is on another model. From such reports, only people's labels of the same failure
    in the same version of the eval are used."""
    note: str | None = None
    """The person's comment on the label."""
    alike: bool = False
    """Whether the failures are known to be the same: same task, grader, error and failed tests."""


class LabelledExample(Frozen):
    """A similar failure that a person has labelled. It is an example for a judge, not evidence about this failure."""

    eval: str
    step: str | None = None
    error: str | None = None
    label: Classification
    cause_kind: CauseKind | None = None
    note: str | None = None
    reviewer: str
    date: str
    why: str
    """Kind of similarity, such as `the same error in another eval`."""


class LabelCount(Frozen):
    """Number of times that people chose a label for similar failures. A group counts as one."""

    label: Classification
    count: int


MIN_MODELS = 3
"""Minimum number of comparable models for a conclusion about the eval."""


class CrossModelFailures(Frozen):
    """Results of other models on the same eval: same experiment, task and grader."""

    alike: tuple[str, ...] = ()
    """Other models that fail in the same way, by name (`provider/model`, the name of their reports folder)."""
    models: int = 1
    """Number of models with a comparable stored run of the experiment, including the model of this run."""
    more: int = 0
    """Number of further models that fail in the same way, not named in `alike`."""
    earlier: tuple[str, ...] = ()
    """Models that failed in the same way on another version of the eval; not included in the counts."""
    more_earlier: int = 0

    @property
    def failing(self) -> int:
        """Number of models that fail in the same way, including the model of this run."""
        return len(self.alike) + self.more + 1

    @property
    def most_fail(self) -> bool:
        """Whether at least half of the models, and at least `MIN_MODELS`, fail in the same way."""
        return self.failing >= MIN_MODELS and 2 * self.failing >= self.models

    @property
    def most_pass(self) -> bool:
        """Whether there are at least `MIN_MODELS` models, of which fewer than half fail in the same way."""
        return self.models >= MIN_MODELS and 2 * self.failing < self.models


class TrialVerdict(Frozen):
    """A judge's verdict on another trial of the same task, shown to the judge when a trial is judged again."""

    trial: int
    classification: Classification
    cause: str
    why: str


class Failure(Frozen):
    """Everything that a judge receives about one failure."""

    evidence: Evidence
    packed: PackedEvidence
    diagnosis: Diagnosis | None = None
    """Diagnosis of the evidence. If it is None, the judge computes it."""
    precedents: tuple[Precedent, ...] = ()
    examples: tuple[LabelledExample, ...] = ()
    similar: tuple[LabelCount, ...] = ()
    """Counts of people's labels of similar failures, including those not in `examples`; most frequent first."""
    across: CrossModelFailures | None = None
    """None if no other model is known to fail in the same way."""
    passable: bool | None = None
    """Whether a trial of any model, or a reference answer, passed this task with the same grader; None if that was not
    looked up."""
    scored: FailedScore | None = None
    """The score of the failed step with the threshold; None if either is unknown."""
    others: tuple[TrialVerdict, ...] = ()
    """Verdicts on other trials of the task. They agree with each other, but not with the first verdict on this trial,
    which is therefore judged again. Empty unless that is so."""

    @property
    def is_agent_run(self) -> bool:
        return bool(self.evidence.of("transcript"))


NoVerdictCause = FailureCause | Literal["evidence"]
"""`evidence`: the evidence is unreadable, so no judge was called. `answer`: the judge's answer is not a verdict."""


class Unclassified(Frozen):
    """A failure that could not be judged, with the reason in place of a verdict."""

    reason: str
    judge: str
    final: bool = False
    """Whether judging the failure again is pointless, because the model refused or the evidence is unreadable."""
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
    """The rule that gave the verdict, if the judge is the rules engine."""
    fix: str | None = None
    """Recommended change to the eval or its surroundings, in one imperative line; None if nothing should change."""
    would_pass: bool = False
    """Whether the judge claims that `fix` alone would let the eval pass."""
    message: int | None = None
    """Number, from 1, of the message in which an agent run went wrong for the cause that the verdict names. None if
    unknown, or if the eval is not an agent run."""
    first_mistake: int | None = None
    """Number of an earlier message with the run's first mistake; None if that is `message`, or unknown."""
    stage: Stage | None = None
    """The stage of a cascade that decided; None for a single judge."""
    tags: tuple[str, ...] = ()
    """Issues tagged by the cheap stage of a cascade."""
    provisional: bool = False
    """Whether another stage should have decided but could not answer. Its later answer replaces this verdict."""
    gave_up: Unclassified | None = None
    """Why the stage that should have decided gave no verdict; None if it did. Only for cascades."""
    usage: Usage = Usage()
    """Usage of all stages of a cascade, or of the single judge."""
    before: Usage = Usage()
    """The part of `usage` that belongs to the stages before the last one that was called."""

    def doubted(self, reason: str) -> "Verdict":
        """Return a copy that is marked as uncertain, with `reason` appended to the reasoning."""
        return self.model_copy(
            update={
                "reasoning": f"{self.reasoning.rstrip()} {reason}",
                "uncertain": True,
                "confidence": min(self.confidence, UNCERTAIN_CONFIDENCE),
            }
        )


def undecided(verdict: Verdict | Unclassified) -> Unclassified | None:
    """Return why the judge did not decide, or None if it did.

    If the rules guessed because a model gave no answer, the judge did not decide.
    """
    if isinstance(verdict, Unclassified):
        return verdict
    return verdict.gave_up if verdict.stage == "rules" else None


def by_rules(judge: str) -> bool:
    """Return whether a judge id names the rules.

    Their confidence only distinguishes certain from uncertain verdicts.
    """
    return judge.startswith("rules@")


def proves(judge: str) -> bool:
    """Return whether a judge id names replays. Their verdicts are proved."""
    return judge.startswith("replay@")


def by_people(judge: str) -> bool:
    """Return whether a judge id names people. Their verdicts are taken from corrections of the same failure."""
    return judge.startswith("people@")


def by_model(judge: str) -> bool:
    """Return whether a judge id names a model. Only models state a numeric confidence."""
    return not (by_rules(judge) or proves(judge) or by_people(judge))


def label_and_confidence(label: str, confidence: float, judge: str) -> str:
    """Return a label, followed by the confidence if a model gave the label."""
    return f"{label} {confidence:.2f}" if by_model(judge) else label


ReplayedAnswer = Literal["reference", "output"]
CORRECTED = "the corrected expectation"
"""Name of the authors' correction of what an eval expects. If an output passes with it, the model was not at fault."""
REPLAY_JUDGE = "replay@1"
"""Judge id of verdicts that a replay proved. Increase the number by hand if the meaning of replays changes."""
PEOPLE_JUDGE = "people@1"
"""Judge id of verdicts that are taken from people's corrections of the same failure."""
VerdictBasis = Literal["judged", "corrected", "reproduced", "proved"]
"""`corrected`: a person gave this label to the same failure of another run; `reproduced`: a replay shows that the
failure is real; `proved`: a replay shows whose fault it is."""
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
    """Whether the answer failed in the same check and in the same way as the stored failure."""
    change: str | None = None
    """The change to the grader that was tried: `CORRECTED`, or the text of a recommendation; None if unchanged."""
    error: str | None = None
    """The answer's failure, in one line."""
    tests: tuple[str, ...] = ()
    """Names of the failed tests; empty if the grader names none."""
    exit_code: int | None = None
    """None if the grader was stopped at a limit, or is not a command."""
    command: str = ""
    """The grader's command; empty if the grader is not a command."""
    log: str = ""
    """Output of the grader."""
    recorded: bool = False
    """Whether the result was read from the run's own files, without running the grader."""
    note: str = ""
    """Description of the answer's reconstruction; empty if the answer was stored."""
    broken: str = ""
    """Why the replay is not conclusive, such as `stopped at the time limit`; empty if it is conclusive."""


REPEAT = 3
"""Number of replays of an answer whose result can depend on chance."""


class ReplayOptions(Frozen):
    """Options for replaying failures."""

    repeat: int = REPEAT
    """Number of replays of an answer whose result can depend on chance."""
    fresh: bool = False
    """Whether to ignore stored replays."""
    expectations: Path | None = None
    """File with corrected expectations of tau-bench tasks."""


class Proof(Frozen):
    """Result of replaying one failure."""

    eval: str
    """Path."""
    eval_id: str
    evidence: str
    """Digest of the evidence. The proof does not apply if the evidence has changed."""
    outcome: ReplayOutcome
    why: str
    """One line of at most 90 characters."""
    reasoning: str
    """Two or three sentences."""
    verdict: Verdict | None = None
    """The proved verdict; None if the replays do not show whose fault the failure is."""
    same_grader: bool | None = None
    """Whether the replays used the same grader as the run; None if the run has no record of its grader."""
    replays: tuple[Replay, ...] = ()

    @property
    def basis(self) -> VerdictBasis:
        return _BASIS[self.outcome]


def fixes(proof: Proof, change: str) -> bool:
    """Return whether the model's output was replayed with a change and all replays with this change passed."""
    replays = [replay for replay in proof.replays if replay.change == change]
    return any(replay.answer == "output" for replay in replays) and all(replay.passed for replay in replays)


def replay_log_name(replays: Sequence[Replay], index: int) -> str:
    """Return the document name that citations use for the log of a replay."""
    answer = replays[index].answer
    return f"replay-{answer}-{sum(replay.answer == answer for replay in replays[: index + 1])}.log"


def counted(replays: Iterable[Replay], answer: ReplayedAnswer, change: str | None = None) -> tuple[int, int]:
    """Return how many conclusive replays of an answer passed, and how many conclusive replays there are."""
    outcomes = [
        replay.passed for replay in replays if replay.answer == answer and replay.change == change and not replay.broken
    ]
    return sum(outcomes), len(outcomes)


class Correction(Frozen):
    """A person's label that replaces a judge's."""

    classification: Classification
    cause_kind: CauseKind | None = None
    """None if the person gave no kind of cause. The judge's then still applies."""


class Recurrence(Frozen):
    """Relation of a failure to earlier reports of this model and experiment."""

    kind: RecurrenceKind = "new"
    reports: tuple[str, ...] = ()
    """File names of the earlier reports that have the failure, newest first."""
    action: str | None = None
    """The fix that an earlier report names, if `kind` is `fix-in-doubt`."""


class TrialCount(Frozen):
    """Numbers of passed and failed trials of one task."""

    passed: int
    failed: int
    total: int

    @property
    def never_passed(self) -> bool:
        """Whether the task has several trials, all of which failed."""
        return self.total > 1 and self.failed >= self.total


class TrialRates(Frozen):
    """Pass rates of a run's tasks with several trials, as means over these tasks."""

    tasks: int
    k: int
    """Number of trials per task; the smallest such number if tasks differ."""
    pass_at: float
    """Estimated share of tasks with at least one passed trial among `k`."""
    pass_hat: float
    """Estimated share of tasks whose `k` trials all pass."""


class FailureGroup(Frozen):
    """Failures that may share one verdict."""

    id: str
    """Content id of the members' common properties."""
    eval_ids: tuple[str, ...]
    """Eval ids in the order of the run. A judge sees the first failure, and its verdict applies to all."""
    signature: str | None = None


class RunningAnalysis(Frozen):
    """An analysis that is in progress, or was interrupted before it wrote its report."""

    run_id: str
    provider: str
    model: str
    failures: int
    started_at: str
    """ISO 8601, UTC."""
    process: int
    """Id of the process that runs the analysis, or ran it until the interruption."""
    judge: str | None = None
    """Id of the judge; None while the evidence is read."""
    groups: int | None = None
    """Number of groups to judge; None while the evidence is read."""
    judged: int = 0
    """Number of groups that are judged so far."""


class Finding(Frozen):
    """The verdict on one failed eval, or on a group of evals with the same failure, and facts about the failure."""

    group: str
    """Content id of the members' common properties; a single eval is a group of one."""
    evals: tuple[Eval, ...]
    signature: str | None = None
    verdict: Verdict | Unclassified
    recurrence: Recurrence = Recurrence()
    across: CrossModelFailures | None = None
    missing: tuple[str, ...] = ()
    """Evidence that the source no longer has, one phrase each. If only some evals lack it, the phrase names them."""
    reference_passes: bool = False
    """Whether a recorded reference answer passes the task."""
    scored: FailedScore | None = None
    """The score of the failed step with the threshold; None if either is unknown."""
    never_passed: bool = False
    """Whether agents failed this task in every known trial of any model, and no reference passes it. True only if
    several trials are known."""
    proof: Proof | None = None
    """Result of replaying the failure; None if nothing was replayed."""
    contradicted: Verdict | None = None
    """The judge's verdict, if a proof replaced it."""
    joined: tuple["Finding", ...] = ()
    """Findings on single trials that this finding combines. They share label and cause; other fields of this finding
    are from the first trial."""

    @property
    def each(self) -> tuple["Finding", ...]:
        """The findings in `joined`, or only this finding if there are none."""
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
    """Id of the report's entry. All evals in an entry have the same id. None in reports that people wrote."""
    label: Classification
    cause_kind: CauseKind | None = None
    cause: str | None = None
    error: str | None = None
    """The error as the report prints it."""
    step: str | None = None
    note: str | None = None
    """The person's comment on `Reviewer:` lines."""
    reviewer: str
    """Author of the commit, with the e-mail address if two people have the same name."""
    email: str
    """E-mail address of the reviewer, to distinguish people of the same name."""
    commit: str
    date: str
    """ISO date of the commit, in its author's time zone."""
    report: str
    """Path of the report in the reports folder."""
    judge: str | None = None
    """Id of the judge that the person corrected or confirmed; None in reports that people wrote."""
    judged: Classification | None = None
    """The judge's own label."""
    confidence: Confidence | None = None
    """The judge's confidence, at most `UNCERTAIN_CONFIDENCE` for an uncertain verdict; None if unknown."""
    stage: Stage | None = None
    """The stage of a cascade that decided; None for a single judge."""
    cost_usd: float | None = None
    """Cost of the judge's verdict; None for the rules, and if it is unknown."""
    in_force: bool = True
    """Whether this is the report's current label; False if a later reviewer overruled it."""


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
    """`R1` …; the same in all revisions of a report for the same cause. None in groups that propose nothing."""
    group: RecommendationGroup
    text: str
    evals: tuple[str, ...] = ()
    would_pass: bool = False


FollowUpOutcome = Literal["held", "did not hold", "not yet seen"]


class FollowUp(Frozen):
    """An action taken after an earlier report, and whether the fix held in this run."""

    report: str
    """File name of the report that names the action, with a path if the report is on another model."""
    text: str
    """The action in the report's words, on one line."""
    evals: tuple[str, ...]
    """Paths of the evals that the action was for."""
    outcome: FollowUpOutcome


class NetImpact(Frozen):
    """Pass rates: as run, without failures that say nothing about the model, and with all recommended changes."""

    passed: int
    total: int
    scorable_passed: int
    scorable_total: int
    """Number of evals without failures of kind harness, infrastructure or user; 0 if no eval could be scored."""
    hopeful_passed: int


class Collation(Frozen):
    """The findings of a run, their patterns, and recommendations."""

    findings: tuple[Finding, ...]
    """Findings with their recurrence, in the order of the report's entries."""
    patterns: tuple[Pattern, ...] = ()
    resolved: tuple[str, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
