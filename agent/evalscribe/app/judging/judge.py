"""Judge subjects by a rubric: agent runs, or failed evals of runs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from evalscribe.app.judging.judges import LoadedJudge, Said, not_judged
from evalscribe.app.judging.subjects import Loaded, Waiting
from evalscribe.app.watcher import Watcher
from evalscribe.cascade import Stage
from evalscribe.chat import Usage
from evalscribe.errors import EvalscribeError
from evalscribe.ids import Frozen
from evalscribe.judge_result import CitationCounts, JudgeResult, ResultType
from evalscribe.judging.lanes import in_lanes
from evalscribe.judging.rubric.cited import JudgeResultWithCitations
from evalscribe.output_schema import agreement_keys
from evalscribe.ports import Estimate
from evalscribe.redaction import redact
from evalscribe.render.results import headline
from evalscribe.rubric import Rubric

REASON_LENGTH = 300


class Judgement(JudgeResultWithCitations):
    """A result with its citations resolved, and where it came from."""

    stage: Stage = "judge"
    """Which stage of a cascade decided."""
    label: dict[str, Any] = Field(default_factory=dict)
    """The fields that rollouts are compared by."""
    known: bool = False
    """Whether the store knew it, so that nobody was asked."""


class Judgements(Frozen):
    """What became of all subjects, in the order given."""

    results: tuple[Judgement, ...]
    spent: Mapping[str, Usage]
    """By stage, with all that this command asked for."""

    @property
    def failures(self) -> tuple[Judgement, ...]:
        return tuple(one for one in self.results if one.result_type == ResultType.FAILURE)

    @property
    def citations(self) -> CitationCounts:
        return sum((one.citations for one in self.results), CitationCounts())


class Judged(Frozen):
    """What became of one subject."""

    results: tuple[Judgement, ...]
    usage: Usage = Usage()
    """Of all stages, whenever they were asked."""


@dataclass(frozen=True)
class JudgeDesk:
    """What judging subjects works with."""

    judge: LoadedJudge
    knew: Callable[[JudgeResult], bool]
    """Whether a result was known before this command."""
    spent: Callable[[], Mapping[str, Usage]]
    concurrency: int = 4


async def judge(desk: JudgeDesk, waiting: Sequence[Waiting], watcher: Watcher) -> Judgements:
    """Every subject judged, a few at a time, each result stored at once; what concerns one subject is a `FAILURE`.

    Raises `EvalscribeError` for what concerns all; what was finished by then is stored.
    """
    found: dict[int, tuple[Judgement, ...]] = {}

    async def one(numbered: tuple[int, Waiting]) -> None:
        number, subject = numbered
        found[number] = (await judged(desk, subject)).results
        n = f"{len(found):>{len(str(len(waiting)))}}/{len(waiting)}"
        for result in found[number]:
            watcher.say(f"{n}  {headline(result, result.label)}{'  (known)' if result.known else ''}")
        await asyncio.sleep(0)  # a lane that only meets stored answers would keep signals waiting

    await in_lanes(enumerate(waiting), one, min(desk.concurrency, len(waiting) or 1))
    results = tuple(result for number in sorted(found) for result in found[number])
    return Judgements(results=results, spent=dict(desk.spent()))


async def judged(desk: JudgeDesk, waiting: Waiting) -> Judged:
    """What the judge made of one subject. The one place where what goes wrong with one becomes data."""
    try:
        loaded = waiting.load()
        if isinstance(loaded, str):
            return _failure(desk, waiting, loaded)
        return _judged(desk, await desk.judge.judge(loaded))
    except EvalscribeError:
        raise
    except Exception as error:
        said = " ".join(redact(str(error)).split())
        return _failure(desk, waiting, f"the judge broke: {type(error).__name__}: {said}"[:REASON_LENGTH])


def estimated(judge: LoadedJudge, waiting: Sequence[Waiting]) -> Estimate:
    """What judging these takes at most, were nothing known."""
    loaded = (one.load() for one in waiting)
    return sum((judge.estimate(one) for one in loaded if isinstance(one, Loaded)), Estimate())


def _judged(desk: JudgeDesk, said: Said) -> Judged:
    results = (
        _judgement(result, rubric, said).model_copy(update={"known": desk.knew(result)})
        for result, rubric in zip(said.results, said.rubrics, strict=True)
    )
    return Judged(results=tuple(results), usage=said.usage)


def _judgement(result: JudgeResult, rubric: Rubric, said: Said) -> Judgement:
    cited = Judgement.from_judge_result(result, rubric.output_schema, said.subject)
    return Judgement(**{**dict(cited), "stage": said.stage, "label": _label(result, rubric)})


def _label(result: JudgeResult, rubric: Rubric) -> dict[str, Any]:
    return {key: result.output[key] for key in agreement_keys(rubric.output_schema) if key in result.output}


def _failure(desk: JudgeDesk, waiting: Waiting, reason: str) -> Judged:
    result = not_judged(waiting.name, desk.judge.rubric, desk.judge.id, reason)
    return Judged(results=(Judgement(**dict(result)),))
