"""The command line. Each command parses its arguments, calls one use case and renders the result.

Heavy modules are imported only when a command runs.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

# Import functions by name. Once the command `gc` is loaded, `gc` in this package is that command's module.
from gc import freeze, set_threshold
from typing import Any

STOPPED = (130, 143)
"""Exit codes after Ctrl-C and SIGTERM. If a command returns one of them, the process ends without cleanup."""
SPELT = {"--fail-on-gate=true": "--fail-on-gate", "--fail-on-gate=false": "--no-fail-on-gate"}
"""Spellings of `--fail-on-gate` with a value, which CI scripts also use, mapped to the flags that they mean."""
COMPLETION = "_EVALSCRIBE_COMPLETE"
"""Environment variable that a shell sets when it asks for completions."""
EXAMPLES = """\
evalscribe tells you why a model failed an eval run, and whose fault it was. Ways to begin:

  evalscribe analyze sample --judge rules      the run that ships with evalscribe: no key, no network
  evalscribe analyze RUN                       a run of your own, by URL, id, file or snapshot folder
  evalscribe import FILE...                    runs into a collection, for sql, compare and explore
  evalscribe doctor                            what is configured, from where, and what is missing

All commands: evalscribe --help"""


def main() -> None:
    """The `evalscribe` command."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    # Thousands of failures are millions of long-lived objects. If garbage is collected as often as Python does by
    # default,
    # that takes a third of the time.
    set_threshold(20_000, 20, 5)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # Evidence can contain any character, and a terminal with the C locale must not end the command.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    code = run(sys.argv[1:])
    if code in STOPPED:
        # Python would take a second to unload the libraries. All finished work is already on disk.
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    # At exit, Python collects garbage several times, which takes 0.4 of 3 s of CPU for an analysis.
    freeze()
    sys.exit(code)


def _open_streams() -> None:
    """Replace streams that were closed at the start with empty ones.

    Otherwise the next opened file would get their descriptor.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open as long as we run)


def _stop(number: int, _frame: object) -> None:
    """End immediately on a signal that no use case handles.

    No cleanup is needed while libraries are loaded, and uncommitted transactions are rolled back.
    """
    os.write(sys.stderr.fileno(), b"evalscribe: stopped; what was not finished is as it was before.\n")
    os._exit(128 + number)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    # These modules and Typer take 0.1 s to load. `main` handles Ctrl-C before that.
    from evalscribe.cli.exits import exit_code
    from evalscribe.cli.streams import guarded

    with guarded():
        if not arguments and COMPLETION not in os.environ:
            return exit_code(lambda: print(EXAMPLES))
        spelt = [SPELT.get(argument, argument) for argument in arguments]
        return exit_code(lambda: _commands()(spelt, prog_name="evalscribe", standalone_mode=False), spelt)


@cache
def _commands() -> Callable[..., Any]:
    """Build the command tree only once, because Typer takes longer for it than most commands take to run."""
    # Imported here for the same reason as in `run`.
    from typer.main import get_command

    from evalscribe.cli.commands import app

    return get_command(app)
