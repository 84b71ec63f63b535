"""`evalscribe experiments …`: create, update, list, show, archive, sample; and the table of all."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalscribe.cli.experiment_results import compare, list_runs, regression_dataset, rescore, show_run
from evalscribe.cli.experiment_runs import ExperimentArgument, cancel, resume, run, work
from evalscribe.cli.tables import Format, print_document, print_id, print_list, validate_format
from evalscribe.interrupts import run_until_signal
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.experiments.definitions import ExperimentOptions
    from evalscribe.experiments.results import ListedExperiment
    from evalscribe.model.experiment import Experiment, ExperimentVersion


Name = Annotated[str | None, typer.Option(metavar="NAME", help="Its name; unique.", show_default=False)]
DatasetId = Annotated[
    str | None, typer.Option(metavar="ID|NAME", help="The dataset that it tries.", show_default=False)
]
DatasetVersionId = Annotated[
    str | None,
    typer.Option(metavar="ID|N", help="Its version. Default: the dataset's latest.", show_default=False),
]
TargetType = Annotated[
    str | None,
    typer.Option(
        metavar="component|prompt|judge",
        help="What is tried; `deployment` is another word for `component`.",
        show_default=False,
    ),
]
DeploymentId = Annotated[
    str | None, typer.Option(metavar="ID|NAME", help="Of `evalscribe deployments create`.", show_default=False)
]
ComponentName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A component of the deployment. Default: the only one.", show_default=False),
]
ComponentType = Annotated[
    str | None, typer.Option(metavar="agent|function|workflow", help="What it has to be.", show_default=False)
]
PromptId = Annotated[
    str | None, typer.Option(metavar="ID|NAME", help="Of `evalscribe prompts create`.", show_default=False)
]
PromptVersionId = Annotated[
    str | None, typer.Option(metavar="ID|N", help="Its version. Default: the latest.", show_default=False)
]
Judge = Annotated[
    str | None,
    typer.Option(metavar="rules|cascade|PROVIDER/MODEL", help="With --target-type judge.", show_default=False),
]
Rubric = Annotated[
    str | None, typer.Option(metavar="NAME[@V]", help="With --target-type judge: by which rubric.", show_default=False)
]
BuiltinScorer = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|JSON",
        help='A built-in scorer; as JSON {"name","config","required","threshold"} where it needs more. Repeatable.',
        show_default=False,
    ),
]
ScorerId = Annotated[
    list[str] | None,
    typer.Option(metavar="ID|NAME", help="Of `evalscribe scorers create`. Repeatable.", show_default=False),
]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='The gate, and how it runs: {"passed_threshold": 0.9, "repetitions": 3, "split": "test"}.',
        show_default=False,
    ),
]


def create(
    name: Name = None,
    dataset_id: DatasetId = None,
    dataset_version_id: DatasetVersionId = None,
    target_type: TargetType = None,
    deployment_id: DeploymentId = None,
    component_name: ComponentName = None,
    component_type: ComponentType = None,
    prompt_id: PromptId = None,
    prompt_version_id: PromptVersionId = None,
    judge: Judge = None,
    rubric: Rubric = None,
    builtin_scorer: BuiltinScorer = None,
    scorer_id: ScorerId = None,
    config: Config = None,
    form: Format = "table",
) -> int:
    """Make an experiment of a target, a version of a dataset, and scorers. Its id is printed."""
    asked = _asked(locals())
    from evalscribe.experiments.definitions import create_experiment, resolve_options

    validate_format(form)
    with Workspace() as workspace:
        experiment, version = create_experiment(workspace, resolve_options(workspace, asked))
    print_id(experiment.id, experiment, f"Made experiment {experiment.name}, version 1 ({version.id})", form)
    return 0


def update(
    experiment: ExperimentArgument,
    dataset_id: DatasetId = None,
    dataset_version_id: DatasetVersionId = None,
    target_type: TargetType = None,
    deployment_id: DeploymentId = None,
    component_name: ComponentName = None,
    component_type: ComponentType = None,
    prompt_id: PromptId = None,
    prompt_version_id: PromptVersionId = None,
    judge: Judge = None,
    rubric: Rubric = None,
    builtin_scorer: BuiltinScorer = None,
    scorer_id: ScorerId = None,
    config: Config = None,
    form: Format = "table",
) -> int:
    """Give an experiment a new version: what is not said stays. Scorers are replaced whole, config by its keys.

    Earlier versions and their runs stay as they are. The version's id is printed.
    """
    return _update(experiment, _asked(locals()), form)


def _asked(options: dict[str, Any]) -> "ExperimentOptions":
    """Convert the options to `ExperimentOptions`, by parameter name."""
    from evalscribe.experiments.definitions import ExperimentOptions, TargetOptions

    target = {name: options[name] for name in TargetOptions.model_fields if name in options}
    return ExperimentOptions(
        name=options.get("name"),
        dataset_id=options["dataset_id"],
        dataset_version_id=options["dataset_version_id"],
        target=TargetOptions(type=options["target_type"], **target),
        builtin_scorers=tuple(options["builtin_scorer"] or ()),
        scorer_ids=tuple(options["scorer_id"] or ()),
        config=options["config"],
    )


def _update(named: str, asked: "ExperimentOptions", form: str) -> int:
    from evalscribe.experiments.definitions import apply_options, update_experiment, version_options
    from evalscribe.experiments.lookup import experiment_named, version_named

    validate_format(form)
    with Workspace() as workspace:
        experiment = experiment_named(workspace, named)
        before = version_named(workspace, experiment, None)
        wanted = apply_options(workspace, version_options(experiment, before), asked)
        version = update_experiment(workspace, experiment, wanted)
    if version.id == before.id:
        told = f"{experiment.name} is so already: version {version.number}"
    else:
        told = f"Experiment {experiment.name} is at version {version.number} now"
    print_id(version.id, version, told, form)
    return 0


HEADS = ("id", "name", "type", "status", "version", "target", "dataset", "scorers", "runs")


def list_all(
    dataset_id: Annotated[
        str | None, typer.Option(metavar="ID|NAME", help="Only those of this dataset.", show_default=False)
    ] = None,
    status: Annotated[
        str | None, typer.Option(metavar="active|archived", help="Only of this status.", show_default=False)
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(metavar="standard|regression|classifier", help="Only of this type.", show_default=False),
    ] = None,
    page: Annotated[int, typer.Option(min=1, metavar="N", help="Which page, from 1.")] = 1,
    page_size: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="So many experiments a page.")] = 50,
    form: Format = "table",
) -> int:
    """List the experiments, oldest first."""
    from evalscribe.experiments.results import list_experiments

    validate_format(form)
    with Workspace() as workspace:
        rows = list_experiments(workspace, dataset=dataset_id, status=status, type=type, page=page, page_size=page_size)
    none = "There is no such experiment: `evalscribe experiments create` makes one, `experiments sample` a ready one."
    print_list(rows, HEADS, _cells, form, none)
    return 0


def _cells(one: "ListedExperiment") -> tuple[object, ...]:
    head = one.experiment
    own = (head.id, head.name, head.type, head.status)
    return *own, one.version, one.target, one.dataset, ", ".join(one.scorers), one.runs


def show(
    experiment: ExperimentArgument,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="ID|N", help="Which version. Default: the latest.", show_default=False),
    ] = None,
    form: Format = "table",
) -> int:
    """Show what an experiment tries, on what, and how it is scored. As JSON: the whole version."""
    from evalscribe.experiments.lookup import experiment_named, version_named

    with Workspace() as workspace:
        found = experiment_named(workspace, experiment)
        wanted = version_named(workspace, found, version)
        print_document(wanted, lambda: _told(workspace, found, wanted), form)
    return 0


def _told(workspace: "Workspace", one: "Experiment", version: "ExperimentVersion") -> Iterator[str]:
    from evalscribe.experiments.results import binding_line, dataset_line, target_line

    versions = workspace.store.experiments.experiment_versions(one.id)
    runs = workspace.store.experiment_runs.runs(one.id)
    kind = "" if one.type == "standard" else f", {one.type}"
    yield f"{one.name} ({one.id}){kind}{', archived' if one.status == 'archived' else ''}"
    yield f"version  {version.number} of {len(versions)} ({version.id}), {version.created_at}"
    yield f"target   {target_line(version.target)}"
    yield f"dataset  {dataset_line(workspace, version)} ({version.dataset_version_id})"
    for number, binding in enumerate(version.bindings):
        yield f"{'scorers ' if number == 0 else ' ' * 8} {binding_line(binding)}"
    yield f"config   {version.config.model_dump_json(exclude_none=True)}"
    newest = f", newest {runs[-1].name or runs[-1].id} ({runs[-1].state})" if runs else ""
    yield f"runs     {len(runs)}{newest}"


def archive(
    experiment: ExperimentArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
    form: Format = "table",
) -> int:
    """Put an experiment aside: `list --status active` leaves it out. Its runs stay."""
    from evalscribe.experiments.lookup import experiment_named

    validate_format(form)
    with Workspace() as workspace:
        found = experiment_named(workspace, experiment)
        workspace.store.experiments.set_status(found.id, "active" if undo else "archived")
        now = experiment_named(workspace, found.id)
    told = f"Experiment {now.name} is {'active again' if undo else 'archived'}."
    print_document(now, lambda: (told,), form)
    return 0


def sample(form: Format = "table") -> int:
    """Make an experiment to try things on: a dataset of 20 questions, and two builds of a small agent that answers
    them without a model. Its id is printed.
    """
    from evalscribe.experiments.sample import create_sample

    validate_format(form)
    with Workspace() as workspace:
        experiment, new = run_until_signal(create_sample(workspace))
    told = (
        "Made experiment sample: 20 tickets, and the deployments sample-first and sample-second of an agent."
        if new
        else "The experiment sample is there already."
    )
    run = "`evalscribe experiments run sample --wait` runs the first build, `--deployment-id sample-second` the second."
    print_id(experiment.id, experiment, f"{told}\n{run}", form)
    return 0


app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
runs = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

app.command(short_help="Make an experiment; its id is printed.")(create)
app.command(short_help="Give an experiment a new version.")(update)
app.command("list", short_help="List the experiments.")(list_all)
app.command(short_help="Show an experiment: target, dataset, scorers, config.")(show)
app.command(short_help="Put an experiment aside; its runs stay.")(archive)
app.command(short_help="Run an experiment, in a process of its own.")(run)
app.command(short_help="Make an experiment to try things on.")(sample)
app.add_typer(runs, name="runs", help="List, show, cancel, resume, rescore and compare runs of experiments.")
runs.command("list", short_help="List the runs of an experiment.")(list_runs)
runs.command("show", short_help="Show a run: pass rate, scorers, gate, config.")(show_run)
runs.command(short_help="Cancel a run.")(cancel)
runs.command(short_help="Let a run go on that failed, was cancelled or lost its worker.")(resume)
runs.command(short_help="Score what a run gave again, without running anything.")(rescore)
runs.command(short_help="Compare two runs: verdict, rates, scorers, what flipped.")(compare)
runs.command("regression-dataset", short_help="Make a dataset and an experiment of a run's failures.")(
    regression_dataset
)
runs.command(hidden=True)(work)
