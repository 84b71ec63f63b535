"""A cascade over subjects: agent runs, or failed evals that are judged by any rubric."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from evalscribe.ids import Frozen, content_id
from evalscribe.judging.subject.item import Subject
from evalscribe.judging.subject.results import result_items
from evalscribe.model.cascade import Stage, Tag
from evalscribe.model.chat import Usage
from evalscribe.model.protocols import Estimate, Model
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import JudgeVariant, Rubric
from evalscribe.prompts.templates import Prompts

TEMPLATE = "judging/tag.md.j2"
REST = "`answer`: your answer to the rubric above, in its own schema, whatever you tag."


class SubjectJudge(Protocol):
    """What the stages are made of: `RubricJudge` has this shape."""

    id: str
    rubric: Rubric

    def key(self, subject: Subject) -> str: ...
    def estimate(self, subject: Subject) -> Estimate: ...
    async def judge(self, subject: Subject) -> JudgeResult: ...


class Cascaded(Frozen):
    """What a cascade made of one subject."""

    results: tuple[JudgeResult, ...]
    """One, or one for each tag, in the order of the tags."""
    rubrics: tuple[Rubric, ...]
    """Of each result: the one that was asked for, or a tag's own."""
    subject: Subject
    """What the results cite: with the cheap model's answer where somebody looked closer."""
    stage: Stage
    """Which stage decided: `tag` where the cheap model was sure and saw no issue, else `judge`."""
    tags: tuple[str, ...] = ()
    usage: Usage = Usage()
    """Of all stages."""


class SubjectCascade:
    """One call of a cheap model tags a subject; only what is tagged or unsure goes to an expensive one."""

    def __init__(self, first: SubjectJudge, tagged: Mapping[str, SubjectJudge], judge: SubjectJudge) -> None:
        """`first` judges by `first_pass(rubric, …)`; `tagged` has a judge for each tag, `judge` the rubric itself."""
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
        judge: Callable[[Rubric, Model], SubjectJudge],
        prompts: Prompts,
    ) -> "SubjectCascade":
        """`tagged`: each tag with its rubric; `models`: the cheap and the expensive one; `judge` makes a judge."""
        cheap, expensive = models
        first = judge(first_pass(rubric, [tag for tag, _ in tagged], prompts), cheap)
        closer = {tag.name: judge(question, expensive) for tag, question in tagged}
        return cls(first, closer, judge(rubric, expensive))

    def key(self, subject: Subject) -> str:
        """Content id of the stages' questions; equal keys, equal outcome."""
        stages = [self._first, *self._tagged.values(), self._judge]
        return content_id(["cascade", list(self._tagged), [stage.key(subject) for stage in stages]])

    def estimates(self, subject: Subject) -> dict[Stage, Estimate]:
        """The cheap call, and the worst that may follow: every tag's judge, or the rubric's own."""
        tagged = sum((judge.estimate(subject) for judge in self._tagged.values()), Estimate())
        alone = self._judge.estimate(subject)
        worst = max(tagged, alone, key=lambda one: (one.cost_usd or 0.0, one.input_tokens))
        return {"tag": self._first.estimate(subject), "judge": worst}

    async def judge(self, subject: Subject) -> Cascaded:
        """A failing stage hands on to the next; raises `EvalscribeError` only for what concerns all subjects."""
        first = await self._first.judge(subject)
        answered = first.result_type == ResultType.DIRECT_RESULT
        tags = tuple(first.output.get("tags", ())) if answered else ()
        tags = tuple(tag for tag in self._tagged if tag in tags)
        known = self._unwrapped(first) if answered else None
        if known is not None and not tags and _stands(first):
            return Cascaded(results=(known,), rubrics=(self.rubric,), subject=subject, stage="tag", usage=first.usage)
        asked = [self._tagged[tag] for tag in tags] or [self._judge]
        told = _told(subject, known) if known else subject
        results = tuple([await judge.judge(told) for judge in asked])
        usage = sum((result.usage for result in results), first.usage)
        if known is not None and not tags and results[0].result_type == ResultType.FAILURE:
            best = _best_known(known, results[0])
            return Cascaded(results=(best,), rubrics=(self.rubric,), subject=subject, stage="tag", usage=usage)
        rubrics = tuple(judge.rubric for judge in asked)
        return Cascaded(results=results, rubrics=rubrics, subject=told, stage="judge", tags=tags, usage=usage)

    def _unwrapped(self, first: JudgeResult) -> JudgeResult:
        """The cheap model's answer as a result of the rubric itself."""
        told = {"tags": first.output.get("tags", []), "sure": first.output["sure"]}
        return first.model_copy(
            update={
                "rubric_id": self.rubric.id,
                "rubric_version": self.rubric.version,
                "output": first.output["answer"],
                "result_metadata": {**(first.result_metadata or {}), "cascade": told},
            }
        )


def first_pass(rubric: Rubric, tags: Sequence[Tag], prompts: Prompts) -> Rubric:
    """The rubric as a cheap model is asked it: with tags, whether it is sure, and the answer in the rubric's schema."""
    words = prompts.render(TEMPLATE, tags=tags, rest=REST).strip()
    properties: dict[str, Any] = {"sure": {"type": "boolean"}, "answer": rubric.output_schema}
    if tags:
        named = {"type": "string", "enum": [tag.name for tag in tags]}
        properties = {"tags": {"type": "array", "items": named}, **properties}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return Rubric(
        # Thinking hard is what the second pass is for.
        judge_model=rubric.judge_model.model_copy(update={"reasoning_effort": None}),
        output_parsing_mode=rubric.output_parsing_mode,
        response_xml_key=rubric.response_xml_key,
        prompt_templates=rubric.prompt_templates,
        rubric_text=f"{rubric.rubric_text.rstrip()}\n\n{words}",
        output_schema=schema,
        judge_variant=JudgeVariant.SINGLE,
        min_citations=rubric.min_citations,
        id=f"{rubric.id}-first-pass",
        version=rubric.version,
    )


def _told(subject: Subject, result: JudgeResult) -> Subject:
    """The subject with a result beside it, to be cited as `[A0]`: as data, not as truth."""
    (item,) = result_items([result])
    mark = f"A{sum(known.target.kind == 'result' for known in subject.items)}"
    target = item.target.model_copy(update={"item": mark})
    told = item.model_copy(update={"mark": mark, "about": f"{item.about}, a first pass", "target": target})
    return Subject.of(subject.id, (*subject.items, told))


def _stands(first: JudgeResult) -> bool:
    """Whether an answer without a tag needs no second look: surely given, and no quotation in it invented."""
    return bool(first.output["sure"]) and first.citations.unverified == 0


def _best_known(known: JudgeResult, failed: JudgeResult) -> JudgeResult:
    """The cheap model's answer where the expensive one gave none; it says that it was not sure."""
    told = {**(known.result_metadata or {})}
    told["cascade"] = {**told.get("cascade", {}), "undecided": failed.reason}
    return known.model_copy(update={"result_metadata": told})
