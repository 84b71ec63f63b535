"""What `judge` prints when it is done."""

import sys
from collections.abc import Mapping
from typing import TextIO

from pydantic import RootModel

from evalscribe.app.judging.judge import Judgement, Judgements
from evalscribe.cli.display.finish import print_json, say, spent
from evalscribe.errors import DataError
from evalscribe.judging.result_text import citations_line, result_text
from evalscribe.model.analysis import StageUsage
from evalscribe.model.chat import Usage
from evalscribe.text import one_line


def show(found: Judgements, *, as_json: bool, cascade: bool = False) -> int:
    """Every result, of a cascade with who decided it, then totals; as JSON one array, the totals on standard error.

    Gives the exit code: a script must see that nothing at all could be judged.
    """
    if as_json:
        print_json(RootModel[tuple[Judgement, ...]](found.results))
    else:
        for result in found.results:
            say(result_text(result, result.label))
            if cascade:
                say(f"  {_decider(result)}")
            say()
    totals(found, file=sys.stderr if as_json else sys.stdout)
    return DataError.exit_code if found.results and len(found.failures) == len(found.results) else 0


def _decider(result: Judgement) -> str:
    """`judge: anthropic/claude-opus-5-5 with polite@2`."""
    return one_line(f"{result.stage}: {result.judge} with {result.rubric_id}@{result.rubric_version}")


def totals(found: Judgements, file: TextIO) -> None:
    failed = len(found.failures)
    judged = len(found.results) - failed
    say(f"{judged} result{'s' if judged != 1 else ''}, {failed} could not be judged", file=file)
    say(f"Citations: {citations_line(found.citations)}", file=file)
    say(f"Spent: {stages(found.spent)}", file=file)


def tell_spent(spent: Mapping[str, Usage]) -> None:
    """Also of what ended early."""
    if (told := stages(spent)) != "nothing":
        say(f"Spent: {told}", file=sys.stderr)


def stages(usages: Mapping[str, Usage]) -> str:
    """`judge 4 calls $0.12`; `nothing` where nobody was asked."""
    rows = [
        StageUsage(stage=stage, **{name: getattr(usage, name) for name in StageUsage.model_fields if name != "stage"})
        for stage, usage in usages.items()
        if usage.calls
    ]
    return spent(rows) or "nothing"
