"""End a command. An error is printed as one or two lines on standard error, and determines the exit code."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from tempfile import NamedTemporaryFile

import typer

from evalscribe.cli.logs import logged, redacted
from evalscribe.errors import (
    DISK_FULL,
    EvalscribeError,
    InterruptError,
    NotFoundError,
    UnavailableError,
    UsageError,
    flag,
)

UNIX_ONLY = "evalscribe runs on Linux and macOS; on Windows, run it in WSL"
UNIX_MODULES = ("fcntl", "resource")
"""Names of modules of the standard library that do not exist on Windows."""
NOWHERE = "the working folder no longer exists: change to another folder"


def exit_code(command: Callable[[], object], arguments: Sequence[str] = ()) -> int:
    """Run a command and return its exit code.

    Only this function converts errors to exit codes. It is not an error if the output pipe is closed early, for example
    by `head`. `arguments` are the words of the command line, for the log.
    """
    code: object = None
    try:
        _read_clock()
        with logged(arguments):
            code = command()
        sys.stdout.flush()
    except EvalscribeError as error:
        return _say(error.text(flag), error.exit_code)
    except typer.TyperException as error:
        return _say(f"{error.format_message()}\nTry `{_command(error)} --help`.", UsageError.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _say("Interrupted; finished work is kept.", InterruptError.exit_code)
    except (BrokenPipeError, SystemExit):
        # Click converts a broken pipe into `SystemExit`. Nothing else in this code raises that.
        _mute()
    except OSError as error:
        if error.errno in DISK_FULL:
            return _full(error)
        return _bug() if _is_somewhere() else _say(NOWHERE, NotFoundError.exit_code)
    except ModuleNotFoundError as error:
        return _say(UNIX_ONLY, UnavailableError.exit_code) if error.name in UNIX_MODULES else _bug()
    except Exception:
        damage = _damage()
        return _say(str(damage), damage.exit_code) if damage else _bug()
    return code if isinstance(code, int) else 0


def _read_clock() -> None:
    """Raise `UnavailableError` if Python cannot read the clock.

    Python counts nanoseconds with 64 bits, which are sufficient until 2262.
    """
    try:
        time.time()
    except OverflowError:
        raise UnavailableError(
            "this machine's clock is set to a time after April 2262, which Python cannot read.\n"
            "Set the clock; nothing was changed."
        ) from None


def _command(error: typer.TyperException) -> str:
    """Return the name of the command whose arguments are wrong; `evalscribe` if it is not known."""
    context = getattr(error, "ctx", None)
    return "evalscribe" if context is None else " ".join(("evalscribe", *context.command_path.split()[1:]))


def _is_somewhere() -> bool:
    """Return whether the working folder still exists."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _say(message: str, code: int) -> int:
    from evalscribe.cli.output import say  # imports pydantic, which takes 0.1 s and is not needed for `--help`

    say(f"evalscribe: {redacted(message)}", file=sys.stderr)
    return code


def _mute() -> None:
    """Redirect standard output to /dev/null. Otherwise, Python would flush a closed pipe at exit and print an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _full(error: OSError) -> int:
    """Report a full disk. Nothing more is written to standard output, because it might be a file on the same disk."""
    _mute()
    where = f" for {error.filename}" if error.filename else ""
    return _say(f"{error.strerror}{where}: free space and try again.", UnavailableError.exit_code)


def _damage() -> EvalscribeError | None:
    """Return the error to report if the store that was opened is damaged; otherwise None.

    A damaged store can cause unexpected errors in any command.
    """
    if "evalscribe.store.database" not in sys.modules:
        return None
    from evalscribe.store.database import damage  # already loaded

    return damage()


def _bug() -> int:
    """Report an unexpected error.

    The traceback is written to a file, without secrets, and the path of the file is printed.
    """
    text = redacted(traceback.format_exc())
    with NamedTemporaryFile("w", encoding="utf-8", prefix="evalscribe-bug-", suffix=".log", delete=False) as log:
        log.write(text)
    last = text.strip().splitlines()[-1]
    return _say(f"this is a bug: {last}\nThe details are in {log.name}; please report it.", EvalscribeError.exit_code)
