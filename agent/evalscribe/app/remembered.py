"""Who was tested and in which experiment: what a person said of a run once holds until they say something else, for a
file of most formats says nothing of it, or says what was corrected."""

from collections.abc import Callable, Collection, Iterator

from evalscribe.model.record import Record
from evalscribe.model.run import Run

EXPLICIT = ("evalscribe",)
"""Formats whose files say everything of a run themselves."""


def remembered(
    read: Iterator[Run | Record], known: Callable[[str], Run | None], said: Collection[str]
) -> Iterator[Run | Record]:
    """Runs that are known with the provider, model and experiment they have there, unless the user `said` others."""
    agents: dict[str, tuple[Run, Run]] = {}
    for one in read:
        if isinstance(one, Run):
            kept = _kept(one, known(one.id), said)
            agents[one.id] = (one, kept)
            yield kept
        else:
            yield _of(one, *agents[one.run_id]) if one.run_id in agents else one


def _kept(run: Run, known: Run | None, said: Collection[str]) -> Run:
    if known is None:
        return run
    stays = {"provider": known.provider, "model": known.model, "experiment": known.experiment}
    return run.model_copy(update={name: value for name, value in stays.items() if name not in said})


def _of(record: Record, read: Run, kept: Run) -> Record:
    """A record names the agent as its run does, where the reader took it from there."""
    if record.metadata.get("agent") != _agent(read) or _agent(read) == _agent(kept):
        return record
    return record.model_copy(update={"metadata": {**record.metadata, "agent": _agent(kept)}})


def _agent(run: Run) -> dict[str, str]:
    return {"model_name": run.model, "provider": run.provider}
