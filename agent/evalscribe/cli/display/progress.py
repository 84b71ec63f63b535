"""What one sees while failures are judged: a line per failure, and under it a bar where there is a terminal."""

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from evalscribe.cli.display.bar import Bar
from evalscribe.judging.verdicts import Judged
from evalscribe.model.finding import Unclassified, Verdict
from evalscribe.model.run import Eval, Run
from evalscribe.text import one_line, pluralise


class Display(Bar):
    """Tells of an analysis on standard error; `quiet` tells nothing. Plain lines where there is no terminal."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            quiet=quiet,
        )
        self._task = self._bar.add_task("", total=None, visible=False)
        self._evals: dict[str, Eval] = {}

    def started(self, run: Run) -> None:
        self._evals = {eval.id: eval for eval in run.failures}
        listed = f", {len(run.failures)} of them listed" if len(run.failures) < run.failed else ""
        self.say(f"{run.model} ({run.provider}), {run.experiment}: {run.failed} of {run.total} evals failed{listed}")

    def say(self, line: str) -> None:
        self._console.print(Text(one_line(line)))

    def imported(self, evals: int, progress: float) -> None:
        what = f"Importing, {pluralise(evals, 'eval')}"
        self._bar.update(self._task, description=what, completed=round(100 * progress), total=100, visible=True)

    def fetched(self, done: int, total: int) -> None:
        self._bar.update(self._task, description="Reading evidence", completed=done, total=total, visible=True)

    def judged(self, event: Judged) -> None:
        self._bar.update(self._task, description="Judging", completed=event.n, total=event.total, visible=True)
        self._console.print(self._line(event))

    def _line(self, event: Judged) -> Text:
        members = [self._evals[id] for id in event.group.eval_ids]
        name = members[0].path if len(members) == 1 else f"{len(members)} evals"
        width = len(str(event.total))
        line = Text(
            f"{event.n:>{width}}/{event.total}  {one_line(name)}  {one_line(members[0].failed_step or 'no step')}  "
        )
        return line.append_text(_verdict(event.verdict)).append("  (known)" if event.cached else "")


def _verdict(verdict: Verdict | Unclassified) -> Text:
    if isinstance(verdict, Unclassified):
        return Text(f"UNCLASSIFIED: {one_line(verdict.reason)}", style="yellow")
    style = "red" if verdict.classification == "MODEL_FAULT" else "cyan"
    unsure = ", uncertain" if verdict.uncertain else ""
    return Text(f"{verdict.classification}{unsure}", style=style).append(
        f" {verdict.confidence:.2f}  {one_line(verdict.why)}", style="default"
    )
