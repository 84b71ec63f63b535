"""Implements `evalscribe experiments create|update|sample`."""

from typing import Annotated, Any

import typer

from evalscribe.cli.experiments import ExperimentArgument
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.tables import Format, print_id, validate_format
from evalscribe.experiments.definitions import (
    ExperimentOptions,
    TargetOptions,
    apply_options,
    create_experiment,
    resolve_options,
    update_experiment,
    version_options,
)
from evalscribe.experiments.lookup import experiment_named, version_named
from evalscribe.experiments.sample import create_sample
from evalscribe.workspace import Workspace

Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the experiment; must be unique.", show_default=False)
]
DatasetId = Annotated[
    str | None, typer.Option(metavar="ID|NAME", help="Dataset to run on: id or name.", show_default=False)
]
DatasetVersionId = Annotated[
    str | None,
    typer.Option(metavar="ID|N", help="Version of the dataset. Default: the latest version.", show_default=False),
]
TargetType = Annotated[
    str | None,
    typer.Option(
        metavar="component|prompt|judge",
        help="Type of the target; `deployment` is another name for `component`.",
        show_default=False,
    ),
]
DeploymentId = Annotated[
    str | None,
    typer.Option(metavar="ID|NAME", help="Deployment to test: id or name.", show_default=False),
]
ComponentName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Component of the deployment. Default: the only component.", show_default=False),
]
ComponentType = Annotated[
    str | None,
    typer.Option(metavar="agent|function|workflow", help="Type that the component must have.", show_default=False),
]
PromptId = Annotated[
    str | None,
    typer.Option(metavar="ID|NAME", help="Prompt to test: id or name.", show_default=False),
]
PromptVersionId = Annotated[
    str | None,
    typer.Option(metavar="ID|N", help="Version of the prompt. Default: the latest version.", show_default=False),
]
Judge = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Judge to test, with --target-type judge.", show_default=False),
]
Rubric = Annotated[
    str | None, typer.Option(metavar="NAME[@V]", help="Rubric for the judge given with --judge.", show_default=False)
]
BuiltinScorer = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|JSON",
        help='A built-in scorer, or JSON: {"name", "config", "required", "threshold"}. Repeatable.',
        show_default=False,
    ),
]
ScorerId = Annotated[
    list[str] | None,
    typer.Option(metavar="ID|NAME", help="One of your scorers: id or name. Repeatable.", show_default=False),
]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='Gate and settings, such as {"passed_threshold": 0.9, "repetitions": 3}.',
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
    """Create an experiment from a target, a dataset version and scorers. Prints its id."""
    request = _experiment_options(locals())
    validate_format(form)
    with Workspace() as workspace:
        experiment, version = create_experiment(workspace, resolve_options(workspace, request))
    print_id(experiment.id, experiment, f"Created experiment {experiment.name}, version 1 ({version.id})", form)
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
    """Create the next version of an experiment. Prints the version's id.

    Options that you leave out keep their values. If you name scorers, they replace all earlier scorers. In the config,
    only the keys that you give are replaced. Earlier versions and their runs do not change.
    """
    return _update(experiment, _experiment_options(locals()), form)


def _experiment_options(options: dict[str, Any]) -> ExperimentOptions:
    """Convert the options of a command, keyed by parameter name, to `ExperimentOptions`."""
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


def _update(name: str, request: ExperimentOptions, form: str) -> int:
    validate_format(form)
    with Workspace() as workspace:
        experiment = experiment_named(workspace, name)
        before = version_named(workspace, experiment, None)
        new_options = apply_options(workspace, version_options(experiment, before), request)
        version = update_experiment(workspace, experiment, new_options)
    if version.id == before.id:
        message = f"{experiment.name} is unchanged: version {version.number}"
    else:
        message = f"Experiment {experiment.name} is at version {version.number} now"
    print_id(version.id, version, message, form)
    return 0


def sample(form: Format = "table") -> int:
    """Create a sample experiment: 20 questions, and two builds of a small agent.

    The agent needs no model. The command prints the experiment's id.
    """
    validate_format(form)
    with Workspace() as workspace:
        experiment, new = run_until_signal(create_sample(workspace))
    message = (
        "Created experiment sample: 20 questions, and the deployments sample-first and sample-second of an agent."
        if new
        else "The experiment sample already exists."
    )
    run = "`evalscribe experiments run sample --wait` runs the first build, `--deployment-id sample-second` the second."
    print_id(experiment.id, experiment, f"{message}\n{run}", form)
    return 0
