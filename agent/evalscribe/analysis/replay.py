"""Find what grades the evals of a run, and replay its failures."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from evalscribe.analysis.prepare import PreparedRun, known_proofs
from evalscribe.errors import UnavailableError, UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.model.finding import Failure, Proof
from evalscribe.model.run import Eval, Run
from evalscribe.replay.grader import Grader, open_command
from evalscribe.replay.replays import REPEAT, Replays
from evalscribe.replay.sandbox import require_sandbox
from evalscribe.replay.tau_bench import is_of_tau_bench, open_tau_bench
from evalscribe.sample import GRADED_WITH, is_shipped, replay_table
from evalscribe.settings.config import CONFIG_NAME
from evalscribe.workspace import Workspace


class ReplayOptions(Frozen):
    """How failures are replayed."""

    repeat: int = REPEAT
    """Times that an answer is run whose result may depend on chance."""
    fresh: bool = False
    """Whether to run again what was run before."""
    expectations: Path | None = None
    """File with corrected expectations of tau-bench tasks."""


async def prove_failures(
    prepared: PreparedRun, evals: Sequence[Eval], watcher: AnalysisWatcher, options: ReplayOptions
) -> PreparedRun:
    """Replay failures whose evidence is in the store. Returns the run with what is proved.

    Raises:
        UsageError: Nothing says how the evals are graded.
        UnavailableError: A sandbox cannot be made here.
    """
    workspace, run = prepared.workspace, prepared.run
    store = workspace.store.analyses
    of_eval = {eval_id: group for group in prepared.groups for eval_id in group.eval_ids}

    def load(eval: Eval) -> Failure | None:
        group = of_eval[eval.id].model_copy(update={"eval_ids": (eval.id,)})
        case = prepared.case(group)
        return case if isinstance(case, Failure) else None

    async with open_grader(workspace, run, evals, options) as grader:
        done = 0

        def proved(proof: Proof) -> None:
            nonlocal done
            done += 1
            watcher.replayed(proof, done, len(evals))

        replays = Replays(
            store=store,
            run_id=run.id,
            grader=grader,
            repeat=options.repeat,
            concurrency=workspace.settings.concurrency.value,
            fresh=options.fresh,
            on_proof=proved,
        )
        found = await replays.prove([partial(load, eval) for eval in evals])
    if grader is None and not found:
        raise UsageError(
            f"nothing says how the evals of run {run.id} are graded: describe the command in `[replay]` of "
            f"{CONFIG_NAME}, or give the tasks of a Harbor job with `tasks`",
            fields=("tasks",),
        )
    return replace(prepared, proofs=known_proofs(workspace, run, prepared.digests))


@asynccontextmanager
async def open_grader(
    workspace: Workspace, run: Run, evals: Sequence[Eval], options: ReplayOptions
) -> AsyncIterator[Grader | None]:
    """Open what grades these failures of the run; None if nothing can be run."""
    async with AsyncExitStack() as opened:
        if is_of_tau_bench(workspace.store.runs, run):
            await require_sandbox()
            tasks = workspace.options.tasks
            yield opened.enter_context(open_tau_bench(workspace.store.runs, run, evals, tasks, options.expectations))
            return
        shipped = is_shipped(f"{run.provider}/{run.model}")
        table = replay_table() if shipped else workspace.settings.replay
        if table is None:
            yield None
            return
        await require_sandbox()
        if shipped and (missing := [name for name in GRADED_WITH if find_spec(name) is None]):
            raise UnavailableError(
                f"the sample is graded with {' and '.join(missing)}, which this Python lacks: "
                "pip install 'evalscribe[sample]'"
            )
        yield await opened.enter_async_context(open_command(table, workspace.settings.root))
