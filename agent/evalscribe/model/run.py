"""Define runs, their evals, and the steps of evals."""

import re
from typing import Literal

from evalscribe.ids import Frozen

TRIAL = re.compile(r"#\d+$")
"""Matches the number of the trial at the end of a printed path, such as `#2`."""
UNKNOWN = "unknown"
"""Provider or model of a run if neither the source nor the user names one."""
COMPONENT = "component"
"""Provider of a run whose target is the user's own code. The component can declare another provider."""
TARGET = "target"
"""Name of the failed step of a trial whose target gave no answer. The status of such a trial is `error`, because
nothing was graded."""
EvalStatus = Literal["passed", "failed", "error", "incomplete"]
StepStatus = Literal["passed", "failed", "running", "skipped"]
RunStatus = Literal["completed", "failed", "running", "unknown", "importing"]
"""Status of a run. `importing`: the store does not have the whole run yet. If an import is interrupted, the run keeps
this status."""
IMPORTING = "its import has not completed; if no import is in progress, import the same file again"


class Step(Frozen):
    """One part of an eval's grading."""

    name: str
    status: StepStatus
    error: str | None = None
    """The reason that the source gives for the failure. It is often just a generic message, such as `deploy failed`."""


class Eval(Frozen):
    """One trial of a task in a run, with the result of the trial."""

    id: str
    """Id of the eval in the source. It can have any format."""
    category: str
    name: str
    trial: int = 1
    trials: int = 1
    """Number of trials of this task. If there are several trials, the printed path includes the number of the trial."""
    status: EvalStatus = "failed"
    failed_step: str | None = None
    """Name of the failed step; None if grading never began."""
    reason: str | None = None
    """The full reason that the source gives for the failure. It is the reason of the failed step or, if the step has no
    reason, the reason of the eval."""
    url: str | None = None

    @property
    def path(self) -> str:
        """Path of the eval: `category/name`, followed by `#trial` if the task has several trials."""
        return f"{self.task}#{self.trial}" if self.trials > 1 else self.task

    @property
    def task(self) -> str:
        """Path of the task: `category/name`. It is the same for all trials of the task."""
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
    """Number of failed evals according to the source. `failures` can contain fewer evals."""
    total: int = 0
    failures: tuple[Eval, ...] = ()
    """The failed evals that the source lists, in the order of the source."""
    evals: tuple[str, ...] | None = None
    """Paths of all evals of the run; None if the source names only failures."""
    url: str | None = None
    started_at: str | None = None
    """Start of the run, in ISO 8601 with a time zone; None if unknown. `duration_s`, the numbers of
    tokens and `cost_usd` are also None if unknown."""
    duration_s: float | None = None
    """Duration of the run in seconds, from its start to its end."""
    input_tokens: int | None = None
    """Input tokens of the model under test in all evals, including cached tokens."""
    output_tokens: int | None = None
    cost_usd: float | None = None
    """Cost of the model under test in USD, as reported by the source."""
    incomplete_evals: tuple[str, ...] = ()
    """Paths of the evals that never completed, if the source names them."""
    unread: tuple[str, ...] = ()
    """Descriptions of the evals and lines in the file that could not be read, such as `1 x a row that cannot be read:
    …`."""
    columns: tuple[tuple[str, str], ...] = ()
    """Pairs of a field and a table column that the user chose with `map`. They also apply when the file is read again
    without `map`."""
    threshold: float | None = None
    """Lowest passing score, chosen by the user for the table. It also applies when the file is read again."""

    @property
    def incomplete(self) -> int:
        """Number of evals that neither passed nor failed."""
        return max(0, self.total - self.passed - self.failed)

    @property
    def as_importing(self) -> "Run":
        """A copy of the run with the status `importing`. This copy is stored until the import is complete."""
        return self.model_copy(update={"status": "importing", "status_reason": IMPORTING})

    @property
    def all_passed(self) -> bool:
        return self.status == "completed" and self.passed == self.total and not self.failures and not self.failed
