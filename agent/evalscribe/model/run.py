"""Runs, their evals and steps."""

import re
from typing import Literal

from evalscribe.ids import Frozen

TRIAL = re.compile(r"#\d+$")
"""Matches the trial number at the end of a printed path, such as `#2`."""
UNKNOWN = "unknown"
"""The provider or model of a run if neither the source nor the user names it."""
COMPONENT = "component"
"""Provider of a run whose target is the user's own code, unless the component declares another provider."""
TARGET = "target"
"""The failed step of a trial whose target gave no answer. The trial's status is `error`, and nothing was graded."""
EvalStatus = Literal["passed", "failed", "error", "incomplete"]
StepStatus = Literal["passed", "failed", "running", "skipped"]
RunStatus = Literal["completed", "failed", "running", "unknown", "importing"]
"""`importing`: the store does not have the whole run yet. An interrupted import leaves the run in this state."""
IMPORTING = "its import has not completed; if no import is in progress, import the same file again"


class Step(Frozen):
    """One part of an eval's grading."""

    name: str
    status: StepStatus
    error: str | None = None
    """The source's reason for the failure; often only a generic message such as `deploy failed`."""


class Eval(Frozen):
    """One trial of a task in a run, with its result."""

    id: str
    """The eval's id in the source, in any format."""
    category: str
    name: str
    trial: int = 1
    trials: int = 1
    """Number of trials of this task. If there are several, the printed path includes the trial."""
    status: EvalStatus = "failed"
    failed_step: str | None = None
    """Name of the failed step; None if grading never began."""
    reason: str | None = None
    """The source's full reason for the failure: that of the failed step or, if there is none, that of the eval."""
    url: str | None = None

    @property
    def path(self) -> str:
        """`category/name`, with `#trial` if the task has several trials."""
        return f"{self.task}#{self.trial}" if self.trials > 1 else self.task

    @property
    def task(self) -> str:
        """`category/name`, the same for every trial."""
        return f"{self.category}/{self.name}" if self.category else self.name


class Run(Frozen):
    """One execution of an eval suite by one model, with the evals that failed."""

    id: str
    provider: str
    model: str
    experiment: str = "default"
    status: RunStatus = "completed"
    status_reason: str | None = None
    passed: int = 0
    failed: int = 0
    """Number of failed evals according to the source. `failures` can contain fewer."""
    total: int = 0
    failures: tuple[Eval, ...] = ()
    """The failed evals that the source lists, in its order."""
    evals: tuple[str, ...] | None = None
    """Paths of every eval of the run; None if the source names only failures."""
    url: str | None = None
    started_at: str | None = None
    """Start of the run, in ISO 8601 with a time zone; None if unknown. The next four fields can also be unknown."""
    duration_s: float | None = None
    """Seconds from start to end."""
    input_tokens: int | None = None
    """Input tokens of the model under test over all evals, including cached ones."""
    output_tokens: int | None = None
    cost_usd: float | None = None
    """Cost of the model under test, as reported by the source."""
    incomplete_evals: tuple[str, ...] = ()
    """Paths of the evals that never completed, if the source names them."""
    unread: tuple[str, ...] = ()
    """Evals and lines of the file that could not be read, such as `1 x a row that cannot be read: …`."""
    columns: tuple[tuple[str, str], ...] = ()
    """Pairs of field and table column that the user chose with `map`. They also apply when `map` is not given."""
    threshold: float | None = None
    """Lowest passing score that the user chose for the table. It also applies when the file is read again."""

    @property
    def incomplete(self) -> int:
        """Number of evals that neither passed nor failed."""
        return max(0, self.total - self.passed - self.failed)

    @property
    def as_importing(self) -> "Run":
        """A copy with status `importing`. The store has this copy until the import is complete."""
        return self.model_copy(update={"status": "importing", "status_reason": IMPORTING})

    @property
    def all_passed(self) -> bool:
        return self.status == "completed" and self.passed == self.total and not self.failures and not self.failed
