"""Cascades of judges: a cheap model judges and tags first, and an expensive model judges only if needed.

In a cascade for failures, the rules can judge before the cheap model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalscribe.ids import Frozen, content_id
from evalscribe.judging.rubric_judge import RubricJudge
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.judging.subjects import Subject, result_items
from evalscribe.model.cascade import Stage, Tag
from evalscribe.model.chat import Usage
from evalscribe.model.finding import Failure, Unclassified, Verdict
from evalscribe.model.protocols import Estimate, Judge, Model
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import JudgeVariant, Rubric
from evalscribe.prompts.templates import Prompts

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore

VERSION = 1
"""Version of the cascade. Increase it by hand when a change affects which failures go to the next stage."""


class FailureCascade:
    """A `Judge` that consists of several stages.

    Each stage decides the failures of which it is certain, and passes all other failures on to the next stage.
    """

    def __init__(
        self,
        first: Judge,
        tagged: Mapping[str, Judge],
        judge: Judge,
        *,
        rules: RulesJudge | None = None,
        store: "AnalysisStore | None" = None,
        fresh: bool = False,
    ) -> None:
        """Initialise the stages.

        Args:
            first: Judge that tags a failure and gives a first verdict.
            tagged: The second judge for each tag. If a failure has several tags, the first one in this
                mapping is used.
            judge: The second judge for failures that have none of the tags in `tagged`.
            rules: Rules that judge before `first`; None to start with `first`.
            store: Store of answers; None to store nothing.
            fresh: Ignore stored answers.
        """
        self.judges = tuple(dict.fromkeys([*([rules.id] if rules else []), first.id, judge.id, *_ids(tagged)]))
        self.id = " > ".join(self.judges)
        self.alone = judge
        """The judge that would decide all failures if there were no cascade.

        The cost of the cascade is compared with the cost of this judge.
        """
        self.first = first
        self._rules = rules
        self._tagged = dict(tagged)
        self._store = store
        self._fresh = fresh

    def key(self, case: Failure) -> str:
        stages = [self._rules, self.first, *self._tagged.values(), self.alone]
        return content_id(
            ["cascade", VERSION, list(self._tagged), [stage.key(case) if stage else "" for stage in stages]]
        )

    def estimate(self, case: Failure) -> Estimate:
        """Estimate the cost of judging a failure in all stages that might be needed. The true cost is rarely higher."""
        stages = self.estimates(case).values()
        return sum(stages, Estimate())

    def estimates(self, case: Failure) -> dict[Stage, Estimate]:
        """Return an estimate for each stage: `tag` for the cheap model, and `judge` for the second judge.

        The estimate for `judge` is that of the possible second judge with the most input tokens. If the rules are
        certain of their verdict, there are no estimates.
        """
        if self._rules and not self._rules.decide(case).uncertain:
            return {}
        second_estimates = [judge.estimate(case) for judge in (self.alone, *self._tagged.values())]
        return {
            "tag": self.first.estimate(case),
            "judge": max(second_estimates, key=lambda estimate: estimate.input_tokens),
        }

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        guess = self._rules.decide(case) if self._rules else None
        if guess is not None and not guess.uncertain:
            return guess.model_copy(update={"stage": "rules"})
        first = await self._ask(self.first, case)
        first_verdict = first if isinstance(first, Verdict) else None
        if first_verdict and not first_verdict.tags and not first_verdict.uncertain:
            return first_verdict.model_copy(update={"stage": "tag"})
        tags = first_verdict.tags if first_verdict else ()
        second_judge = next((judge for tag, judge in self._tagged.items() if tag in tags), self.alone)
        second = await self._ask(second_judge, case)
        update: dict[str, object] = {"usage": first.usage + second.usage}
        if isinstance(second, Verdict):
            stage_fields = {"stage": "judge", "tags": tags, "before": first.usage}
            return second.model_copy(update=update | stage_fields)
        best = first_verdict.model_copy(update={"stage": "tag"}) if first_verdict else guess
        return _undecided(best, second, first.usage + second.usage) if best else second.model_copy(update=update)

    async def _ask(self, judge: Judge, case: Failure) -> Verdict | Unclassified:
        """Return the stored answer to the same question. If no answer is stored, ask the judge and store the answer."""
        key = judge.key(case)
        stored = self._store.get_verdict(key) if self._store is not None and not self._fresh else None
        if isinstance(stored, Verdict) or (stored and stored.final):
            return stored
        answer = await judge.judge(case)
        if self._store is not None:
            self._store.put_verdict(key, answer)
        return answer


def _ids(tagged: Mapping[str, Judge]) -> list[str]:
    return [judge.id for judge in tagged.values()]


def _undecided(best: Verdict, missing_answer: Unclassified, usage: Usage) -> Verdict:
    """Mark the best verdict so far as uncertain. The verdict is provisional unless `missing_answer` is final."""
    return best.doubted(f"Nobody looked closer: {missing_answer.reason.rstrip('.')}.").model_copy(
        update={
            "stage": best.stage or "rules",
            "provisional": not missing_answer.final,
            "gave_up": missing_answer,
            "usage": usage,
            "before": usage,
        }
    )


TEMPLATE = "judging/tag.md.j2"
REST = "`answer`: your answer to the rubric above, in its own schema, whatever you tag."


class CascadeResult(Frozen):
    """Results of a cascade for one subject, with the usage of all stages."""

    results: tuple[JudgeResult, ...]
    """One result for each tag of the subject, in the order of the tags. An untagged subject has a single result."""
    rubrics: tuple[Rubric, ...]
    """Rubric of each result, in the same order. A result has either the requested rubric or the rubric of a tag."""
    subject: Subject
    """The subject that the results cite. If the second stage judged, the subject includes the cheap model's answer."""
    stage: Stage
    """The stage that decided.

    `tag`: the cheap model was certain and saw no issue, or the expensive model gave no answer. `judge`: the expensive
    model decided.
    """
    tags: tuple[str, ...] = ()
    usage: Usage = Usage()
    """Usage of all stages."""


class SubjectCascade:
    """Judges a subject and tags it with one call of a cheap model.

    An expensive model then judges a subject only if the subject has a tag or the cheap model is uncertain.
    """

    def __init__(self, first: RubricJudge, tagged: Mapping[str, RubricJudge], judge: RubricJudge) -> None:
        """Initialise the stages.

        The rubric of `first` comes from `first_pass_rubric`. `tagged` maps each tag to its judge.
        """
        self.id = f"{first.id} > {judge.id}"
        self.rubric = judge.rubric
        self._first = first
        self._tagged = dict(tagged)
        self._judge = judge

    @classmethod
    def of(
        cls,
        rubric: Rubric,
        tagged: Sequence[tuple[Tag, Rubric]],
        models: tuple[Model, Model],
        judge: Callable[[Rubric, Model], RubricJudge],
        prompts: Prompts,
    ) -> "SubjectCascade":
        """Create a cascade.

        Args:
            rubric: The rubric to judge by.
            tagged: Each tag with its rubric.
            models: The cheap model and the expensive model, in this order.
            judge: Function that creates a judge from a rubric and a model.
            prompts: Prompt templates of the first pass.
        """
        cheap, expensive = models
        first = judge(first_pass_rubric(rubric, [tag for tag, _ in tagged], prompts), cheap)
        tag_judges = {tag.name: judge(question, expensive) for tag, question in tagged}
        return cls(first, tag_judges, judge(rubric, expensive))

    def key(self, subject: Subject) -> str:
        """Return the content id of the questions of all stages. Results with equal keys are interchangeable."""
        stages = [self._first, *self._tagged.values(), self._judge]
        return content_id(["cascade", list(self._tagged), [stage.key(subject) for stage in stages]])

    def estimates(self, subject: Subject) -> dict[Stage, Estimate]:
        """Return a cost estimate for the cheap model's call, and one for the most expensive possible second stage.

        The second stage consists of either the judges of all tags or the rubric's judge.
        """
        tagged = sum((judge.estimate(subject) for judge in self._tagged.values()), Estimate())
        untagged = self._judge.estimate(subject)
        worst = max(tagged, untagged, key=lambda estimate: (estimate.cost_usd or 0.0, estimate.input_tokens))
        return {"tag": self._first.estimate(subject), "judge": worst}

    async def judge(self, subject: Subject) -> CascadeResult:
        """Judge the subject. If the cheap model gives no answer, the expensive model judges.

        Raises `EvalscribeError` for errors that affect all subjects.
        """
        first = await self._first.judge(subject)
        answered = first.result_type == ResultType.DIRECT_RESULT
        tags = tuple(first.output.get("tags", ())) if answered else ()
        # Tags are put in the order of the settings. Tags without a judge are dropped.
        tags = tuple(tag for tag in self._tagged if tag in tags)
        first_result = self._unwrap(first) if answered else None
        if first_result is not None and not tags and _is_final(first):
            return CascadeResult(
                results=(first_result,), rubrics=(self.rubric,), subject=subject, stage="tag", usage=first.usage
            )
        judges = [self._tagged[tag] for tag in tags] or [self._judge]
        judged_subject = _with_first_result(subject, first_result) if first_result else subject
        results = tuple([await judge.judge(judged_subject) for judge in judges])
        usage = sum((result.usage for result in results), first.usage)
        if first_result is not None and not tags and results[0].result_type == ResultType.FAILURE:
            best = _result_of_first_pass(first_result, results[0])
            return CascadeResult(results=(best,), rubrics=(self.rubric,), subject=subject, stage="tag", usage=usage)
        rubrics = tuple(judge.rubric for judge in judges)
        return CascadeResult(
            results=results, rubrics=rubrics, subject=judged_subject, stage="judge", tags=tags, usage=usage
        )

    def _unwrap(self, first: JudgeResult) -> JudgeResult:
        """Convert the cheap model's answer to a result for the requested rubric."""
        first_pass = {"tags": first.output.get("tags", []), "sure": first.output["sure"]}
        return first.model_copy(
            update={
                "rubric_id": self.rubric.id,
                "rubric_version": self.rubric.version,
                "output": first.output["answer"],
                "result_metadata": {**(first.result_metadata or {}), "cascade": first_pass},
            }
        )


def first_pass_rubric(rubric: Rubric, tags: Sequence[Tag], prompts: Prompts) -> Rubric:
    """Return the rubric for the cheap model.

    This rubric asks for tags, for an answer in the schema of `rubric`, and whether the model is certain of its answer.
    """
    instructions = prompts.render(TEMPLATE, tags=tags, rest=REST).strip()
    properties: dict[str, Any] = {"sure": {"type": "boolean"}, "answer": rubric.output_schema}
    if tags:
        tag_schema = {"type": "string", "enum": [tag.name for tag in tags]}
        properties = {"tags": {"type": "array", "items": tag_schema}, **properties}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return Rubric(
        # Only the second pass uses the reasoning effort of the rubric.
        judge_model=rubric.judge_model.model_copy(update={"reasoning_effort": None}),
        output_parsing_mode=rubric.output_parsing_mode,
        response_xml_key=rubric.response_xml_key,
        prompt_templates=rubric.prompt_templates,
        rubric_text=f"{rubric.rubric_text.rstrip()}\n\n{instructions}",
        output_schema=schema,
        judge_variant=JudgeVariant.SINGLE,
        min_citations=rubric.min_citations,
        id=f"{rubric.id}-first-pass",
        version=rubric.version,
    )


def _with_first_result(subject: Subject, result: JudgeResult) -> Subject:
    """Return the subject with a result as an extra item. Later answers can cite this item, for example as `[A0]`."""
    (item,) = result_items([result])
    # The subject can already contain earlier results, which are numbered from `A0`.
    mark = f"A{sum(existing.target.kind == 'result' for existing in subject.items)}"
    target = item.target.model_copy(update={"item": mark})
    first_item = item.model_copy(update={"mark": mark, "about": f"{item.about}, a first pass", "target": target})
    return Subject.of(subject.id, (*subject.items, first_item))


def _is_final(first: JudgeResult) -> bool:
    """Return whether an answer without tags is final.

    Such an answer is final if the cheap model is certain of it and no citation is unverified.
    """
    return bool(first.output["sure"]) and first.citations.unverified == 0


def _result_of_first_pass(result: JudgeResult, failed: JudgeResult) -> JudgeResult:
    """Mark the cheap model's answer as undecided, because the expensive model gave no answer."""
    metadata = {**(result.result_metadata or {})}
    metadata["cascade"] = {**metadata.get("cascade", {}), "undecided": failed.reason}
    return result.model_copy(update={"result_metadata": metadata})
