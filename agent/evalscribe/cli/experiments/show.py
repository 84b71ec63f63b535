"""`evalscribe experiments show EXPERIMENT`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.display.formatted import Format
from evalscribe.cli.experiments.options import ExperimentArgument

if TYPE_CHECKING:
    from evalscribe.model.experiment import Experiment, ExperimentVersion
    from evalscribe.workspace import Workspace


def show(
    experiment: ExperimentArgument,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="ID|N", help="Which version. Default: the latest.", show_default=False),
    ] = None,
    form: Format = "table",
) -> int:
    """Show what an experiment tries, on what, and how it is scored. As JSON: the whole version."""
    from evalscribe.app.experiments.find import experiment_named, version_named
    from evalscribe.cli.display.formatted import document
    from evalscribe.workspace import Workspace

    with Workspace() as workspace:
        found = experiment_named(workspace, experiment)
        wanted = version_named(workspace, found, version)
        document(wanted, lambda: _told(workspace, found, wanted), form)
    return 0


def _told(workspace: "Workspace", one: "Experiment", version: "ExperimentVersion") -> Iterator[str]:
    from evalscribe.app.experiments.listing import binding_line, dataset_line, target_line

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
