"""The page of failed tries beside passed ones of the same eval."""

from collections.abc import Iterator

from evalscribe.model.comparison import WithinRunComparison
from evalscribe.report_markdown import inline
from evalscribe.report_markdown.comparison import evals
from evalscribe.report_markdown.comparison.document import document
from evalscribe.text import one_line, pluralise, prose


def within_page(found: WithinRunComparison) -> str:
    lines = [_title(found), "", _answer(found)]
    if found.behaviours:
        lines += ["", "## What failed tries do differently", *_behaviours(found)]
    if found.pairs:
        lines += ["", "## Failed tries", *evals.regressed(found.pairs, trials=True)]
    if found.without:
        lines += ["", "## Never passed", f"Nothing to compare with: {inline.paths(map(one_line, found.without))}."]
    if found.notes:
        lines += ["", "## Limits", *(f"- {prose(note)}" for note in found.notes)]
    return document(found.side.runs, found.side.runs, found.judge, lines)


def _title(found: WithinRunComparison) -> str:
    return f"# {inline.name(found.side.name)}: {pluralise(len(found.pairs), 'failed trial')} beside one that passed"


def _answer(found: WithinRunComparison) -> str:
    tasks = len({pair.eval for pair in found.pairs})
    failed = found.side.trials - found.side.passed
    never = f"; {pluralise(len(found.without), 'eval')} never passed" if found.without else ""
    return (
        f"**{found.side.passed} of {pluralise(found.side.trials, 'trial')} passed.** Of {failed} that failed, "
        f"{len(found.pairs)} are of {pluralise(tasks, 'eval')} that passed another time{never}."
    )


def _behaviours(found: WithinRunComparison) -> Iterator[str]:
    for one in found.behaviours:
        text = f", {prose(one.text)}" if one.text else ""
        names = dict.fromkeys(map(one_line, one.evals))
        yield f"- {inline.name(one_line(one.name))}{text} ({len(one.evals)}): {inline.paths(names)}"
