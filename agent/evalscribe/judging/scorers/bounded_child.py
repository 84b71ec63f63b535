"""The child of `bounded`: it answers a line of JSON with a line of JSON, and ends itself when that takes too long."""

import json
import re
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

Reply = dict[str, Any]
"""`answer`; or `error` and `type`, as a `CannotScore` has them."""
Job = Callable[[Any], Reply]


def _regex(pattern: Any) -> Job:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = re.compile(pattern)
    return lambda text: _span(compiled.search(text))


def _span(match: re.Match[str] | None) -> Reply:
    return {"answer": list(match.span()) if match else None}


def _schema(schema: Any) -> Job:
    from evalscribe.judging.scorers.json_schema import problems, validator_of
    from evalscribe.judging.scorers.result import CannotScore

    validator = validator_of(schema)

    def found(value: Any) -> Reply:
        try:
            return {"answer": problems(validator, value)}
        except CannotScore as error:
            return {"type": error.error_type, "error": error.reason}

    return found


def _answered(ask: Job, value: Any) -> Reply:
    try:
        return ask(value)
    except RecursionError:
        return {"type": "input_error", "error": "the values of this item are nested too deeply"}


JOBS: Mapping[str, Callable[[Any], Job]] = {"regex": _regex, "schema": _schema}


def serve() -> None:
    """Answer lines of standard input until it ends. The first one says which job, with what, and how long it may take
    each time: then the timer's signal, which nobody handles, ends the process."""
    job, config, longest = json.loads(sys.stdin.buffer.readline())
    ask = JOBS[job](config)
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_VIRTUAL, longest)
        answer = _answered(ask, json.loads(line))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
