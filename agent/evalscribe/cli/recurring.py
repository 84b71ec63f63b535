"""`evalscribe recurring [PROVIDER/MODEL]`."""

from evalscribe.cli import options
from evalscribe.cli.reports import Model


def recurring(model: Model = None, reports: options.Reports = None, as_json: options.Json = False) -> int:
    """Each failing eval over all reports: first and last seen, labels, causes, actions, and whether a fix held."""
    from evalscribe import wiring
    from evalscribe.app.reports import recurring_evals
    from evalscribe.cli import finish
    from evalscribe.settings import Options

    library = wiring.library(wiring.settings(Options(reports=reports)))
    finish.recurring(recurring_evals(library, model), as_json=as_json)
    return 0
