"""What `compare` prints when it is done."""

import sys
from collections.abc import Mapping

from evalscribe.app.compare import Compared
from evalscribe.app.estimates import likely
from evalscribe.chat import Usage
from evalscribe.cli.finish import page, print_json, say
from evalscribe.cli.judgements import stages
from evalscribe.comparison import Matrix
from evalscribe.report_markdown.comparison import as_csv as csv_of


def show(done: Compared, spent: Mapping[str, Usage], *, as_json: bool, as_csv: bool) -> int:
    """The page, or the document alone; where it is, and what it cost."""
    programs = as_json or as_csv
    if as_json:
        print_json(done.found)
    elif as_csv and isinstance(done.found, Matrix):
        print(csv_of(done.found), end="")
    else:
        page(done.text)
        say()
    _tell(done, spent, programs=programs)
    return 0


def _tell(done: Compared, spent: Mapping[str, Usage], *, programs: bool) -> None:
    out = sys.stderr if programs else sys.stdout
    if done.put is None:
        say("No report was written.", file=out)
    else:
        if done.put.note:
            say(f"Note: {done.put.note}", file=out)
        say(f"Report: {done.put.path} ({done.put.state})", file=out)
    if done.put is None and done.estimate is not None and not spent:
        say(f"Asking would take {likely(done.estimate)}, less what is known.", file=out)
    if (told := stages(spent)) != "nothing":
        say(f"Spent: {told}", file=out)
