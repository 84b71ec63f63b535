"""`evalscribe recurring [PROVIDER/MODEL…]`."""

from typing import Annotated

import typer

from evalscribe.cli import options


def recurring(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="PROVIDER/MODEL", help="Only these models. Default: all.")
    ] = None,
    across_models: Annotated[
        bool,
        typer.Option("--across-models", help="Evals that several models fail in the same way, over the stored runs."),
    ] = False,
    least: Annotated[
        int | None,
        typer.Option("--min", min=2, metavar="N", help="With --across-models: at least so many models. Default: 2."),
    ] = None,
    reports: options.Reports = None,
    as_json: options.Json = False,
) -> int:
    """Each failing eval over all reports: first and last seen, labels, causes, actions, and whether a fix held.

    With --across-models each eval that several models fail in the same way: evidence about the eval. Only runs of one
    experiment, and of equal task and grader, are counted together; only runs that were analysed here are known.
    """
    from evalscribe.app.reports.recurring import alike_evals, recurring_evals
    from evalscribe.cli.display import recurrences
    from evalscribe.errors import NotFoundError, UsageError
    from evalscribe.settings import Options
    from evalscribe.workspace import Workspace

    if least is not None and not across_models:
        raise UsageError("--min goes with --across-models")
    with Workspace(Options(reports=reports)) as workspace:
        store = workspace.store.analyses if workspace.has_store else None
        if not across_models:
            recurrences.recurring(recurring_evals(workspace.reports, models or (), store), as_json=as_json)
        elif store is None:
            raise NotFoundError("no run is stored here, and only stored runs are compared: `evalscribe analyze RUN`")
        else:
            least = least or 2
            alike = alike_evals(workspace.reports, store, models or (), least)
            recurrences.across_models(alike, least, as_json=as_json)
    return 0
