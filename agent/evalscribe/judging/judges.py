"""Judges of loaded subjects. A judge uses a model with a rubric, a cascade, or the rules."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen, content_id
from evalscribe.judging.cascade import SubjectCascade
from evalscribe.judging.pack import case_of
from evalscribe.judging.rubric_judge import TIMEOUT_S, DecideRemotely, RecordedResults, RubricJudge, count_citations
from evalscribe.judging.rules.engine import KEY_PREFIX, RulesJudge
from evalscribe.judging.subjects import Subject, document_mark
from evalscribe.llm.budget import cost_of
from evalscribe.model.cascade import Stage
from evalscribe.model.chat import Usage
from evalscribe.model.evidence import Citation, Document, Evidence
from evalscribe.model.finding import Verdict
from evalscribe.model.output_schema import validate_answer
from evalscribe.model.protocols import Estimate, Model, Models
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

if TYPE_CHECKING:
    from evalscribe.store.collections import CollectionStore

NO_FAILURE = "the rules judge failed evals only"


@dataclass(frozen=True)
class LoadedSubject:
    """A subject to judge. For a failed eval, it includes the evidence from which the subject was built."""

    subject: Subject
    evidence: Evidence | None = None


class JudgeOutput(Frozen):
    """Result of judging one subject."""

    results: tuple[JudgeResult, ...]
    """One result for each tag that a cascade assigned. Without tags, there is a single result."""
    rubrics: tuple[Rubric, ...]
    """Rubric of each result, in the same order."""
    stage: Stage = "judge"
    subject: Subject
    """The judged subject. If the second stage of a cascade judged, the subject includes the cheap model's answer."""
    usage: Usage
    """Usage of all stages, including stored answers."""


@dataclass(frozen=True)
class JudgeMaker:
    """Creates judges that share models and stored results."""

    models: Models
    prompts: Prompts
    """Prompt templates for reading a subject that exceeds the context window."""
    results: "CollectionStore | RecordedResults | None" = None
    """Store of judge results; None to store nothing."""
    fresh: bool = False
    """Ignore stored results."""
    batch: bool = False
    """Send calls in batches. Batched calls are charged at the batch price and have no time limit."""
    decide_remotely: Callable[[Rubric, Model], DecideRemotely] | None = None
    """Function that takes a rubric and a model, and returns a function that lets a worker judge subjects.

    None to judge in this process.
    """

    def judge(self, rubric: Rubric, model: Model) -> RubricJudge:
        return RubricJudge(
            rubric,
            model,
            results=self.results,
            observer=self.models.open(model.id, "observe"),
            cost=cost_of(model, batch=self.batch),
            timeout_s=None if self.batch else TIMEOUT_S,
            fresh=self.fresh,
            prompts=self.prompts,
            remote=self.decide_remotely(rubric, model) if self.decide_remotely else None,
        )

    def by_model(self, rubric: Rubric, name: str | None = None) -> RubricJudge:
        """Return a judge with the named model, or with the rubric's own model if `name` is None.

        Raises the same errors as `Models.open`.
        """
        return self.judge(rubric, self.models.open(name or rubric.judge_model.id, "judge"))


class LoadedRubricJudge:
    """A judge that asks one model to judge by one rubric."""

    def __init__(self, judge: RubricJudge) -> None:
        self.id = judge.id
        self.rubric = judge.rubric
        self.name = judge.id.removesuffix(f" with {self.rubric.id}@{self.rubric.version}")
        self._judge = judge

    def estimate(self, loaded: LoadedSubject) -> Estimate:
        return self._judge.estimate(loaded.subject)

    async def judge(self, loaded: LoadedSubject) -> JudgeOutput:
        return _single_output(await self._judge.judge(loaded.subject), self.rubric, loaded)


class LoadedCascade:
    """A judge with two models.

    The cheap model judges and tags every subject. The expensive model judges a subject only if the subject has a tag
    or the cheap model is uncertain.
    """

    def __init__(self, cascade: SubjectCascade) -> None:
        self.id = cascade.id
        self.name = "cascade"
        self.rubric = cascade.rubric
        self._cascade = cascade

    def estimate(self, loaded: LoadedSubject) -> Estimate:
        """Estimate the cost of judging a subject if every stage is needed."""
        return sum(self._cascade.estimates(loaded.subject).values(), Estimate())

    async def judge(self, loaded: LoadedSubject) -> JudgeOutput:
        result = await self._cascade.judge(loaded.subject)
        return JudgeOutput(**{name: getattr(result, name) for name in JudgeOutput.model_fields})


class LoadedRulesJudge:
    """The rules as a judge. The rules can only judge by a rubric whose schema fits their verdict on a failed eval."""

    def __init__(self, rubric: Rubric, results: "CollectionStore | RecordedResults | None" = None) -> None:
        """Initialise the judge.

        Results are stored in `results`. Stored results are not reused, because the rules cost nothing.
        """
        self._rules = RulesJudge()
        self._results = results
        self.name = self._rules.id
        self.id = f"{self.name} with {rubric.id}@{rubric.version}"
        self.rubric = rubric

    def estimate(self, loaded: LoadedSubject) -> Estimate:  # noqa: ARG002 - the rules cost nothing for any subject
        return Estimate()

    async def judge(self, loaded: LoadedSubject) -> JudgeOutput:
        if loaded.evidence is None:
            failure = not_judged(loaded.subject.id, self.rubric, self._rules.id, NO_FAILURE)
            return _single_output(failure, self.rubric, loaded, "rules")
        output = _output(self._rules.decide(case_of(loaded.evidence)), self.rubric)
        if problems := validate_answer(output, self.rubric.output_schema):
            raise UsageError(
                f"the rules cannot judge by {self.rubric.id}@{self.rubric.version} ({problems[0]}), only by the "
                "rubric `failure`: name a model in `judge`",
                fields=("judge",),
            )
        result = self._result(loaded.subject, output)
        if self._results is not None:
            self._results.put_result(result.id, result)
        return _single_output(result, self.rubric, loaded, "rules")

    def _result(self, subject: Subject, output: dict[str, Any]) -> JudgeResult:
        citations = count_citations(output, self.rubric.output_schema, subject)
        return not_judged(subject.id, self.rubric, self._rules.id, "").model_copy(
            update={
                "id": content_id([*KEY_PREFIX, self.rubric.digest, subject.digest]),
                "output": output,
                "result_type": ResultType.DIRECT_RESULT,
                "reason": None,
                "citations": citations,
            }
        )


def _single_output(result: JudgeResult, rubric: Rubric, loaded: LoadedSubject, stage: Stage = "judge") -> JudgeOutput:
    return JudgeOutput(results=(result,), rubrics=(rubric,), stage=stage, subject=loaded.subject, usage=result.usage)


def not_judged(subject_id: str, rubric: Rubric, judge: str, reason: str) -> JudgeResult:
    """Return the result for a subject that could not be judged."""
    return JudgeResult(
        id=content_id([subject_id, rubric.digest, judge, reason]),
        agent_run_id=subject_id,
        rubric_id=rubric.id,
        rubric_version=rubric.version,
        output={},
        result_metadata={"errors": [reason]},
        result_type=ResultType.FAILURE,
        reason=reason,
        judge=judge,
    )


LoadedJudge = LoadedRubricJudge | LoadedCascade | LoadedRulesJudge
"""A judge of loaded subjects. Raises `EvalscribeError` for errors that affect all subjects."""


def _output(verdict: Verdict, rubric: Rubric) -> dict[str, Any]:
    """Return the fields of a verdict that the rubric's schema defines. The citations are appended to `reasoning`."""
    cited = "".join(f" [{_mark(citation)}]" for citation in verdict.citations)
    fields = ("error", "classification", "cause", "cause_kind", "confidence", "why", "would_pass")
    values = {name: getattr(verdict, name) for name in fields}
    values |= {"reasoning": verdict.reasoning + cited, "fix": verdict.fix or ""}
    values |= {name: at for name in ("message", "first_mistake") if (at := getattr(verdict, name)) is not None}
    return {name: value for name, value in values.items() if name in rubric.output_schema["properties"]}


def _mark(citation: Citation) -> str:
    document = document_mark(Document(role=citation.role, path=citation.path, text=""))
    last = f"-{citation.last}" if citation.last > citation.first else ""
    return f"{document}:{citation.first}{last}"
