"""The timetable: which job runs how often. Given by the suite."""

from collections.abc import Callable

jobs: dict[str, tuple[Callable[..., None], float, dict[str, object]]] = {}


def every(name: str, run: Callable[..., None], **options: object) -> None:
    """Call `run(**args)` every so many `seconds` or `minutes`."""
    if "args" not in options:
        raise TypeError("every() missing 1 required argument: 'args'")
    period = float(str(options.get("seconds", 0))) + 60 * float(str(options.get("minutes", 0)))
    args = options["args"]
    if not isinstance(args, dict):
        raise TypeError("every() argument 'args' must be a dict")
    jobs[name] = (run, period, args)
