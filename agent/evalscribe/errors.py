"""The exceptions that end a command, and their exit codes.

    EvalscribeError            70  a bug, or an unmapped error
    ├── UsageError             64  the command line or a setting is wrong
    │   └── ConsentError           a model would be called without the user's consent
    ├── DataError              65  unreadable input, or a check that found problems
    │   ├── RubricError            an invalid rubric, schema or template, with the location of the problem
    │   └── ChangedError           the data to which a change applies was changed meanwhile
    ├── NotFoundError          66  no such run, eval, report or file
    ├── UnavailableError       69  a service gave no usable answer, even after retries
    ├── AccessError            77  no key, a wrong key, or a key without permission
    ├── InterruptError        130  Ctrl-C
    └── TerminatedError       143  SIGTERM

A problem with a single failed eval does not raise an exception, so that the other evals are still processed. Such a
problem is returned as a value: `evidence.UnreadableEvidence` or `finding.Unclassified`.
"""

import errno
from collections.abc import Callable, Sequence

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# Lock files are opened with `O_NOFOLLOW`, so that a planted link is not followed. Opening a link fails with ELOOP.
PERMISSION_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP)


class EvalscribeError(Exception):
    """Base class of all exceptions of evalscribe.

    The message has one or two lines: the problem, the affected thing, and what to do next. Messages never contain
    secrets. Names of options and arguments are written in backticks, such as `deployment_id`, and are called fields
    here. The command line, the MCP server and the SDK replace each field with their own name for it: a flag, a tool
    parameter or a keyword argument.
    """

    exit_code = 70

    def __init__(self, message: str = "", *, fields: tuple[str, ...] = ()) -> None:
        """Store the message.

        Args:
            message: The text, with fields in backticks.
            fields: Names of the fields that the method `text` replaces in the message.
        """
        super().__init__(message)
        self.fields = fields

    def text(self, write_field: Callable[[str], str]) -> str:
        """Return the message with each field replaced by the name that `write_field` returns for it, such as a flag."""
        return write_fields(str(self), self.fields, write_field)


def write_fields(text: str, fields: Sequence[str], write_field: Callable[[str], str]) -> str:
    """Replace each field, with its backticks, by the name that `write_field` returns for it, such as a flag."""
    for field in fields:
        text = text.replace(f"`{field}`", write_field(field))
    return text


def flag(field: str) -> str:
    """Return the command-line flag of a field: `--deployment-id` for `deployment_id`."""
    return f"--{field.replace('_', '-')}"


class UsageError(EvalscribeError):
    exit_code = 64


class ConsentError(UsageError):
    """Raised if a model would be called, which costs money, without the user's consent."""


class DataError(EvalscribeError):
    exit_code = 65


class ChangedError(DataError):
    """Raised if the data to which a change applies was itself changed in the meantime. Nothing was written."""


class RubricError(DataError):
    """A problem in a rubric, a label set or a schema, with the path from the root of the document to the problem."""

    def __init__(self, path: str, problem: str, where: str | None = None) -> None:
        """Build the message from the file, the path in the file and the problem.

        Args:
            path: Path to the problem, such as `output_schema.properties.label.enum[2]`.
            problem: Description of the problem.
            where: The file, with the line if known.
        """
        super().__init__(": ".join(part for part in (where, path, problem) if part))
        self.path = path
        self.problem = problem
        self.where = where

    def __reduce__(self) -> tuple[type["RubricError"], tuple[str, str, str | None]]:
        """Pickle the constructor's arguments, so that the error can be sent from another process."""
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


def write_error(failure: str, error: OSError, advice: str = "Make it writable.") -> EvalscribeError:
    """Return the error to raise if a file cannot be written.

    Args:
        failure: Start of the message, naming the file: `cannot write PATH`.
        error: The operating system's error.
        advice: What the user should do if permissions are the cause.
    """
    message = f"{failure}: {error.strerror or error}"
    if error.errno in DISK_FULL:
        return UnavailableError(f"{message}.\nMake room and try again.")
    return AccessError(f"{message}.\n{advice}") if error.errno in PERMISSION_ERRORS else DataError(message)
