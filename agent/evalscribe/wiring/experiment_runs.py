"""Runs of experiments: the process that works on one, and what it works with."""

import os
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.app.experiments.work import Tools, worked
from evalscribe.errors import UnavailableError
from evalscribe.evaluate.spending import RunModels
from evalscribe.experiment import ExperimentRun, ExperimentVersion
from evalscribe.ports import Models, ScorerRunner
from evalscribe.settings import Options, Settings, load

LOGS = "logs"


def start_worker(found: Settings, run_id: str, arguments: Sequence[str] = ()) -> Path:
    """Start the process that works on the run; it outlives this one. `arguments`: options that it is given as well.

    Where its output goes. Raises `UnavailableError` where it cannot be started.
    """
    log = log_of(found, run_id)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    command = [sys.executable, "-m", "evalscribe", "experiments", "runs", "work", run_id, *arguments]
    try:
        with warnings.catch_warnings():
            # Python warns of children that nobody waits for; this one is meant to live on.
            warnings.simplefilter("ignore", ResourceWarning)
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True
            )
    except OSError as error:
        raise UnavailableError(f"no worker could be started for run {run_id}: {error}") from error
    finally:
        os.close(descriptor)
    return log


def start_run(desk: ExperimentDesk, found: Settings, run: ExperimentRun, arguments: Sequence[str] = ()) -> None:
    """Start the run's worker; where that cannot be, the run has failed and this raises `UnavailableError`."""
    try:
        start_worker(found, run.id, arguments)
    except UnavailableError as error:
        desk.runs.end(run.id, "failed", desk.now(), str(error))
        raise


def log_of(found: Settings, run_id: str) -> Path:
    """Where the worker of a run writes."""
    return found.store / LOGS / f"{run_id}.log"


def this_worker() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@asynccontextmanager
async def open_panel(
    desk: ExperimentDesk, found: Settings, run: ExperimentRun, version: ExperimentVersion, models: Models
) -> AsyncIterator[Sequence[ScorerRunner]]:
    """The scorers of a version. Raises `EvalscribeError` where one cannot be had."""
    from evalscribe.wiring.scorers import open_scorers

    made = {binding.scorer_id for binding in version.bindings}
    folders = {one.id: one.folder for one in desk.definitions.scorers() if one.id in made}
    async with open_scorers(found, version, folders, models, run.concurrency) as runners:
        yield runners


@asynccontextmanager
async def open_rescorers(
    desk: ExperimentDesk, found: Settings, run: ExperimentRun, version: ExperimentVersion
) -> AsyncIterator[Sequence[ScorerRunner]]:
    """The scorers of a version with models of their own, which spend what these settings allow."""
    from evalscribe.wiring.models import models

    asked = RunModels(models(found))
    try:
        async with open_panel(desk, found, run, version, asked) as runners:
            yield runners
    finally:
        await asked.close()


async def work_on(desk: ExperimentDesk, run_id: str, options: Options, environ: Mapping[str, str]) -> ExperimentRun:
    """Do what is left of the run in this process. Raises as `worked` does."""
    return await worked(desk, run_id, this_worker(), partial(_tools, desk, options, environ))


@asynccontextmanager
async def _tools(
    desk: ExperimentDesk,
    options: Options,
    environ: Mapping[str, str],
    run: ExperimentRun,
    version: ExperimentVersion,
    left_usd: float | None,
) -> AsyncIterator[Tools]:
    from evalscribe.wiring.models import models
    from evalscribe.wiring.targets import open_target

    found = load(options.model_copy(update={"budget": left_usd}), Path.cwd(), environ)
    deployment = desk.definitions.deployment(run.deployment_id) if run.deployment_id else None
    async with AsyncExitStack() as opened:
        asked = RunModels(models(found))
        opened.push_async_callback(asked.close)
        target = await opened.enter_async_context(open_target(found, version, deployment, asked, run.concurrency))
        scorers = await opened.enter_async_context(open_panel(desk, found, run, version, asked))
        yield Tools(target, tuple(scorers))
