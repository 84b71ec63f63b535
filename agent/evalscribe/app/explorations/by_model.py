"""Ask a model about many agent runs: batch by batch what is there, then what says the same, then the answer."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from evalscribe.app.judging.judges import Made, Maker
from evalscribe.app.watcher import Watcher
from evalscribe.collections import (
    clusters,
    observations,
)
from evalscribe.collections import clusters as explore_clusters
from evalscribe.collections import (
    clusters as made,
)
from evalscribe.collections import (
    observations as batches,
)
from evalscribe.collections import observations as explore_batches
from evalscribe.collections import observations as explore_observations
from evalscribe.collections import (
    observations as wording,
)
from evalscribe.collections.answer import answer_subject, parse_answer
from evalscribe.collections.observations import ObservedBatch
from evalscribe.errors import DataError
from evalscribe.judging.rubric_judge import RubricJudge
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.chat import Usage
from evalscribe.model.exploration import Cluster, Gap, Member, Observation
from evalscribe.model.protocols import Estimate
from evalscribe.model.record import Record
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.text import pluralise
from evalscribe.workspace import Workspace

OWN_PROMPTS = "The model was asked by the workspace's own prompts."
GONE = "nothing is kept of it"

Read = Callable[[Member], Record | None]
Batch = tuple[Member, ...]


@dataclass(frozen=True)
class ExploreJudges:
    """One model, by the rubric of each step."""

    name: str
    """Id of the model."""
    observer: RubricJudge
    clusterer: RubricJudge
    answerer: RubricJudge
    window: int
    """Tokens of a prompt and its answer."""
    lanes: int
    knew: Callable[[JudgeResult], bool]
    """Whether a result was known before this command."""
    notes: tuple[str, ...] = ()
    """What the user should know about the prompts."""


def opened_judges(workspace: Workspace, name: str, question: str) -> ExploreJudges:
    """The named model as the judge of every step."""
    prompts, models = workspace.prompts, workspace.models
    made = Made(workspace.store.collections)
    maker = Maker(models, prompts, made, fresh=workspace.options.fresh)
    steps = {
        "observe": wording.observing_rubric,
        "cluster": wording.clustering_rubric,
        "answer": wording.answering_rubric,
    }
    observer, clusterer, answerer = (
        maker.judge(rubric(prompts, question), models.open(name, step)) for step, rubric in steps.items()
    )
    return ExploreJudges(
        name=name,
        observer=observer,
        clusterer=clusterer,
        answerer=answerer,
        window=models.open(name, "observe").context_tokens,
        lanes=workspace.settings.concurrency.value,
        knew=made.knew,
        notes=(OWN_PROMPTS,) if prompts.own(wording.FOLDER) else (),
    )


@dataclass(frozen=True)
class Plan:
    """Which agent runs are read together; nothing that was said in them is held."""

    batches: tuple[Batch, ...]
    gaps: tuple[Gap, ...]
    estimate: Estimate
    """What all steps take at most, were nothing known."""

    @property
    def calls(self) -> int:
        """How often the model is likely to be asked."""
        return len(self.batches) + 2 if self.batches else 0


@dataclass(frozen=True)
class Said:
    """What the model said, held against what it was shown."""

    observations: tuple[Observation, ...]
    unverified: tuple[Observation, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    other: tuple[str, ...] = ()
    answer: str | None = None
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)


async def planned(judges: ExploreJudges, members: Sequence[Member], read: Read) -> Plan:
    """Reads every agent run once, one batch in memory at a time."""
    gone, batches, estimate = list[str](), list[Batch](), Estimate()

    def there() -> Iterator[tuple[Member, Record]]:
        for member in members:
            if (record := read(member)) is None:
                gone.append(member.id)
            else:
                yield member, record

    for together in explore_batches.pack_batches(there(), explore_batches.batch_tokens(judges.window)):
        estimate += judges.observer.estimate(ObservedBatch.of(together).subject)
        batches.append(tuple(member for member, _ in together))
        await asyncio.sleep(0)  # thousands are read, and signals must not wait for all of them
    gaps = (Gap(agent_runs=tuple(gone), reason=GONE),) if gone else ()
    if batches:
        later = clusters.estimate_subject(len(batches))
        estimate += judges.clusterer.estimate(later) + judges.answerer.estimate(later)
    return Plan(tuple(batches), gaps, estimate)


async def asked(judges: ExploreJudges, plan: Plan, members: Sequence[Member], read: Read, watcher: Watcher) -> Said:
    """Every step, each answer stored at once; what is known is not asked again.

    Raises `DataError` where nothing at all could be read, and `EvalscribeError` for what concerns all questions.
    """
    seen = await _observed(judges, plan, read, watcher)
    found = await explore_clusters.cluster_observations(
        judges.clusterer.judge, seen.observations, batches.batch_tokens(judges.window), judges.lanes
    )
    clusters = made.build_clusters(found.clusters, members)
    watcher.say(f"{pluralise(len(seen.observations), 'observation')} in {pluralise(len(clusters), 'cluster')}")
    answer, notes, usage = await _answered(judges, clusters, len(members), watcher)
    return Said(
        observations=seen.observations,
        unverified=seen.unverified,
        clusters=clusters,
        other=tuple(one.id for one in found.other),
        answer=answer,
        gaps=seen.gaps,
        notes=(*judges.notes, *found.notes, *notes),
        usage=seen.usage + found.usage + usage,
    )


async def _observed(judges: ExploreJudges, plan: Plan, read: Read, watcher: Watcher) -> Said:
    found: dict[int, tuple[Observation, ...] | str] = {}
    usage = Usage()

    async def one(numbered: tuple[int, Batch]) -> None:
        nonlocal usage
        number, batch = numbered
        found[number], result = await _of_batch(judges, batch, read)
        usage += result.usage if result else Usage()
        told = found[number]
        said = f"not read: {told}" if isinstance(told, str) else pluralise(len(told), "observation")
        known = "  (known)" if result and judges.knew(result) else ""
        n = f"{len(found):>{len(str(len(plan.batches)))}}/{len(plan.batches)}"
        watcher.say(f"{n}  {pluralise(len(batch), 'agent run')} from {batch[0].eval} on: {said}{known}")
        await asyncio.sleep(0)  # a lane that only meets stored answers would keep signals waiting

    await run_concurrently(enumerate(plan.batches), one, max(1, min(judges.lanes, len(plan.batches))))
    gaps = (*plan.gaps, *_gaps(plan.batches, found))
    if plan.batches and all(isinstance(told, str) for told in found.values()):
        raise DataError(f"no agent run could be read: {gaps[-1].reason}")
    batches = [told for _, told in sorted(found.items()) if not isinstance(told, str)]
    observations, unverified = explore_observations.number_observations(batches)
    return Said(observations=observations, unverified=unverified, gaps=gaps, usage=usage)


async def _of_batch(
    judges: ExploreJudges, batch: Batch, read: Read
) -> tuple[tuple[Observation, ...] | str, JudgeResult | None]:
    """What was observed, or why nothing could be."""
    there = [(member, record) for member in batch if (record := read(member))]
    if not there:
        return GONE, None
    shown = ObservedBatch.of(there)
    result = await judges.observer.judge(shown.subject)
    if result.result_type is ResultType.FAILURE:
        return result.reason or "no answer", result
    return observations.parse_observations(result, judges.observer.rubric, shown), result


def _gaps(batches: Sequence[Batch], found: dict[int, tuple[Observation, ...] | str]) -> Iterator[Gap]:
    """One for each reason."""
    unread = defaultdict[str, list[str]](list)
    for number, told in sorted(found.items()):
        if isinstance(told, str):
            unread[told] += [member.id for member in batches[number]]
    yield from (Gap(agent_runs=tuple(runs), reason=reason) for reason, runs in unread.items())


async def _answered(
    judges: ExploreJudges, clusters: Sequence[Cluster], explored: int, watcher: Watcher
) -> tuple[str | None, tuple[str, ...], Usage]:
    """The answer, notes, and what it took; no answer where there is nothing to answer from, or the model fails."""
    if not clusters:
        return None, (), Usage()
    subject = answer_subject(clusters, explored)
    result = await judges.answerer.judge(subject)
    if result.result_type is ResultType.FAILURE:
        watcher.say(f"No answer: {result.reason}")
        return None, (f"The question was not answered: {result.reason}",), result.usage
    text, wrong = parse_answer(result, judges.answerer.rubric, subject)
    notes = (f"{pluralise(wrong, 'citation')} of the answer led nowhere and {'is' if wrong == 1 else 'are'} left out.",)
    return text, notes if wrong else (), result.usage
