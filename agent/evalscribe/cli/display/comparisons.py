"""What `compare` prints when it is done."""

import sys

from evalscribe.app.comparisons.compare import Compared
from evalscribe.cli.display.finish import page, print_json, say
from evalscribe.collections.comparison_page import as_csv as csv_of
from evalscribe.model.comparison import Matrix


def show(done: Compared, *, dry_run: bool, as_json: bool, as_csv: bool) -> int:
    """The page, or the document alone, and where it is."""
    programs = as_json or as_csv
    if as_json:
        print_json(done.found)
    elif as_csv and isinstance(done.found, Matrix):
        print(csv_of(done.found), end="")
    else:
        page(done.text)
        say()
    _tell(done, dry_run=dry_run, programs=programs)
    return 0


def _tell(done: Compared, *, dry_run: bool, programs: bool) -> None:
    out = sys.stderr if programs else sys.stdout
    if done.put is None:
        say("No report was written.", file=out)
    else:
        if done.put.note:
            say(f"Note: {done.put.note}", file=out)
        say(f"Report: {done.put.path} ({done.put.state})", file=out)
    if dry_run and done.estimate is not None:
        say(f"Asking would take {done.estimate.summary}, less what is known.", file=out)
