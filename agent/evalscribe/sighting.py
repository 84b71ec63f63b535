"""One failed eval of a stored run, as far as it can be compared with the same eval in runs of other models."""

from evalscribe.ids import Frozen


class Sighting(Frozen):
    run: str
    provider: str
    model: str
    experiment: str
    eval: str
    """Path, without the trial: the trials of an eval are the same eval."""
    eval_id: str
    step: str | None = None
    passed: tuple[str, ...] = ()
    """Steps that passed, where the source tells."""
    signature: str | None = None
    """None where the log ends before the reason: such a failure is like no other."""
    checks: str | None = None
    """Content id of the names of the failed tests, where the runner names them."""
    hidden: bool = False
    """Whether the log keeps the compared values to itself (`{ …(5) }`): then only equal `checks` make two alike."""
    judged: bool = True
    """Whether the model's work was reached at all."""
    task: str | None = None
    """Content id of the task, None where the source has none."""
    grader: str | None = None
    """Content id of the grader's files, None where the source has none."""
    method: int
    """Which version of our code made it; one of an older version is made anew."""
