"""Open the grader for the evals of a run, and use it to replay the run's failures."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from evalscribe.analysis.prepare import PreparedRun, usable_proofs
from evalscribe.errors import UnavailableError, UsageError, flag
from evalscribe.ids import Frozen
from evalscribe.judging.pack import case_of
from evalscribe.judging.verdicts import AnalysisWatcher
from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import Failure, Proof, ReplayOptions, counted, fixes
from evalscribe.model.run import Eval, Run
from evalscribe.replay.grader import CommandGrader, Grader, open_command
from evalscribe.replay.harbor import open_harbor
from evalscribe.replay.outside import CommandOutside
from evalscribe.replay.replays import Replays
from evalscribe.replay.sandbox import readable_copy, require_sandbox, scratch_prefix
from evalscribe.replay.tau_bench import is_tau_bench_run, open_tau_bench
from evalscribe.reports.apply import PatchOffer, SuiteFolder
from evalscribe.sample import GRADED_WITH, is_shipped, replay_table, suite_folder
from evalscribe.settings.config import COMMAND_LINE, CONFIG_NAME
from evalscribe.workspace import Workspace


async def prove_failures(
    prepared: PreparedRun, evals: Sequence[Eval], watcher: AnalysisWatcher, options: ReplayOptions
) -> PreparedRun:
    """Replay failures whose evidence is in the store. Returns the run with the new proofs added.

    Raises:
        UsageError: No grader is known for the evals.
        UnavailableError: This machine cannot create a sandbox.
    """
    workspace, run = prepared.workspace, prepared.run
    store = workspace.store.analyses
    of_eval = {eval_id: group for group in prepared.groups for eval_id in group.eval_ids}

    def load(eval: Eval) -> Failure | None:
        # `case` returns the case of a group's first member, but each member has its own answer to replay.
        group = of_eval[eval.id].model_copy(update={"eval_ids": (eval.id,)})
        case = prepared.case(group)
        return case if isinstance(case, Failure) else None

    async with AsyncExitStack() as opened:
        grader, missing = None, None
        try:
            grader = await opened.enter_async_context(open_grader(workspace, run, watcher.say, options, evals))
        except UnavailableError as error:
            # With `tasks`, the user asked for the tasks to be run, so recorded results would not be enough.
            if workspace.options.tasks is not None:
                raise
            missing = error  # results recorded in the run's files can still prove a verdict
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
            earlier_proofs=prepared.proofs,
        )
        new_proofs = await replays.prove([partial(load, eval) for eval in evals])
    if missing and not new_proofs:
        raise missing
    if missing:
        watcher.say(f"Only recorded trials of the reference answers count: {missing.text(flag)}")
        replays.refused = dict.fromkeys(replays.refused, "nothing can be run here")
    if grader is None and not new_proofs:
        raise UsageError(
            f"no grader is known for the evals of run {run.id}.\nDo one of the following: describe the grading command "
            f"in `[replay]` of {CONFIG_NAME}; give the tasks of a Harbor job with `tasks`; give a run of the reference "
            "answers with `reference_run`; or give a command that isolates answers itself with `replay_command`.",
            fields=("tasks", "reference_run", "replay_command"),
        )
    proofs, _ = usable_proofs(workspace, run, prepared.digests)
    return replace(prepared, proofs=proofs, not_replayed=replays.refused)


class TriedChange(Frozen):
    """Result of replaying one eval with a proposed change."""

    eval: str
    """Path of the eval."""
    fixes: bool
    """True if the reference answer and the stored output pass in every replay with the change."""
    why: str


async def prove_change(
    workspace: Workspace, suite: SuiteFolder, offer: PatchOffer, say: Callable[[str], None]
) -> tuple[TriedChange, ...]:
    """Replay the evals that a proposed patch concerns, with the grader that results from the patch.

    Returns:
        The result for each eval; empty if no grader is known.

    Raises:
        UnavailableError: This machine cannot create a sandbox.
    """
    store = workspace.store.analyses
    run = store.get_run(offer.patch.run)
    if run is None:
        return ()
    async with AsyncExitStack() as opened:
        grader = await opened.enter_async_context(open_grader(workspace, run, say, ReplayOptions()))
        if not isinstance(grader, CommandGrader):
            return ()
        changed = opened.enter_context(_changed_suite(grader, suite, offer))
        stored = {proof.eval_id: proof for proof in store.proofs(run.id)}
        replays = Replays(store=store, run_id=run.id, grader=grader, earlier_proofs=stored)
        changes = []
        for eval in run.failures:
            evidence = store.get_evidence(run.id, eval.id) if eval.path in offer.recommendation.evals else None
            if isinstance(evidence, Evidence):
                proof = await replays.try_change(case_of(evidence), offer.recommendation.text, changed)
                changes.append(_tried(eval.path, proof, offer.recommendation.text))
        return tuple(changes)


def _tried(path: str, proof: Proof | None, change: str) -> TriedChange:
    if proof is None:
        return TriedChange(eval=path, fixes=False, why="nothing could be run")
    counts = {answer: counted(proof.replays, answer, change) for answer in ("reference", "output")}
    outcomes = [f"the {answer} passes {passed} of {total} times" for answer, (passed, total) in counts.items() if total]
    why = f"with this change {' and '.join(outcomes)}; without it: {proof.why}" if outcomes else "no replay completed"
    return TriedChange(eval=path, fixes=fixes(proof, change), why=why)


@contextmanager
def _changed_suite(grader: CommandGrader, suite: SuiteFolder, offer: PatchOffer) -> Iterator[CommandGrader]:
    """Open the grader for a copy of the suite, made of the files of the base commit with the patch applied."""
    root = suite.repository.root.resolve()
    subfolder = grader.suite.relative_to(root).as_posix() if grader.suite.is_relative_to(root) else suite.subfolder
    below = f"{subfolder}/" if subfolder not in ("", ".") else ""
    changes = {change.path: change.after for change in offer.patch.changes}
    with TemporaryDirectory(prefix=scratch_prefix()) as folder:
        for path in {*suite.repository.files(offer.patch.base), *changes}:
            text = changes.get(path) or suite.repository.read(offer.patch.base, path)
            if path.startswith(below) and text is not None:
                target = Path(folder, path.removeprefix(below))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, "utf-8")
        with readable_copy(Path(folder)) as copy:
            yield grader.over(copy)


@asynccontextmanager
async def open_grader(
    workspace: Workspace, run: Run, say: Callable[[str], None], options: ReplayOptions, evals: Sequence[Eval] = ()
) -> AsyncIterator[Grader | None]:
    """Open the grader for the run's failures; yield None if nothing can be run.

    `evals` are the failures to replay. `say` receives notes for the user.
    """
    settings, tasks = workspace.settings, workspace.options.tasks
    shipped = is_shipped(f"{run.provider}/{run.model}")
    table = replay_table() if shipped else settings.replay
    command = None if shipped else settings.replay_command
    # A command from the environment or the user's own file applies to every folder, so the workspace's `[replay]` takes
    # precedence over it. The sample brings its own grader.
    if command and (tasks is not None or table is None or command.origin.trust == COMMAND_LINE):
        outside = CommandOutside(command.value, tasks)
        say(f"Answers run outside the sandbox, with the command of {command.origin.where}: {command.value}")
        yield outside
    elif is_tau_bench_run(workspace.store.runs, run):
        await require_sandbox()
        with open_tau_bench(workspace.store.runs, run, evals, tasks, options.expectations) as trials:
            yield trials
    elif tasks is not None:
        await require_sandbox()
        with open_harbor(tasks, workspace.options.threshold) as harbor:
            yield harbor
    elif table is not None:
        await require_sandbox()
        if shipped and (missing := [name for name in GRADED_WITH if find_spec(name) is None]):
            raise UnavailableError(
                f"the sample is graded with {', '.join(missing)}, which this Python lacks: "
                "pip install 'evalscribe[sample]'"
            )
        with open_command(table, suite_folder() if shipped else settings.root) as grader:
            yield grader
    else:
        yield None
