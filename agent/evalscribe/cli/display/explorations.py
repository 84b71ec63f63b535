"""What `explore` prints when it is done."""

import sys

from evalscribe.app.explorations.explore import Explored
from evalscribe.cli.display.finish import page, print_json, say
from evalscribe.model.protocols import Estimate


def show(done: Explored, *, as_json: bool) -> int:
    """The page, or the document alone, and where it is."""
    out = sys.stderr if as_json else sys.stdout
    if done.found is None:
        if as_json:
            print_json(done.estimate or Estimate())
        told = f"{done.estimate.summary}, less what is known" if done.estimate else "nothing: the rules are free"
        say(f"Asking would take {told}.", file=out)
        return 0
    if as_json:
        print_json(done.found)
    else:
        page(done.text)
        say()
    if done.put is None:
        say("No report was written.", file=out)
        return 0
    if done.put.note:
        say(f"Note: {done.put.note}", file=out)
    say(f"Report: {done.put.path} ({done.put.state})", file=out)
    return 0
