"""Everything that can end a command, and the exit code it ends with.

    EvalscribeError            70  a bug, or an error nobody mapped
    ├── UsageError             64  the command line or a setting is wrong
    ├── DataError              65  input that cannot be read, or a check that found problems
    │   └── RubricError            whatever is wrong with a rubric, a schema or a template, and where
    ├── NotFoundError          66  no such run, eval, report or file
    ├── UnavailableError       69  a service did not answer, or not usefully, after the retries
    ├── AccessError            77  no key, a wrong key, or a key without permission
    ├── InterruptedError_     130  Ctrl-C
    └── TerminatedError       143  SIGTERM

What concerns one failed eval only is not here: that is a value (`evidence.Unreadable`, `finding.Unclassified`),
so that the others go on.
"""

import errno

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
PERMISSION_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP)


class EvalscribeError(Exception):
    """One or two lines: what happened, to which thing, and what to do next. Never a secret."""

    exit_code = 70


class UsageError(EvalscribeError):
    exit_code = 64


class DataError(EvalscribeError):
    exit_code = 65


class RubricError(DataError):
    """What is wrong with a rubric, a label set or a schema, and the path to it from its root."""

    def __init__(self, path: str, problem: str, where: str | None = None) -> None:
        """`path`: `output_schema.properties.label.enum[2]`; `where`: the file, with the line where it is known."""
        super().__init__(": ".join(part for part in (where, path, problem) if part))
        self.path = path
        self.problem = problem
        self.where = where

    def __reduce__(self) -> tuple[type["RubricError"], tuple[str, str, str | None]]:
        """So that it can come from another process."""
        return type(self), (self.path, self.problem, self.where)


class NotFoundError(EvalscribeError):
    exit_code = 66


class UnavailableError(EvalscribeError):
    exit_code = 69


class AccessError(EvalscribeError):
    exit_code = 77


class InterruptError(EvalscribeError):
    exit_code = 130


class TerminatedError(EvalscribeError):
    exit_code = 143


def write_error(what: str, error: OSError, advice: str = "Make it writable.") -> EvalscribeError:
    """What it means that a file cannot be written; `what` says which: `cannot write PATH`. `advice` for permissions."""
    said = f"{what}: {error.strerror or error}"
    if error.errno in DISK_FULL:
        return UnavailableError(f"{said}.\nMake room and try again.")
    return AccessError(f"{said}.\n{advice}") if error.errno in PERMISSION_ERRORS else DataError(said)
