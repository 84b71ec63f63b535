"""Print results on standard output, or write lines to a file. Every command loads this module, so it imports little."""

import gzip
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

import typer
from pydantic import BaseModel

from evalscribe.cli import logs, streams
from evalscribe.errors import UsageError, write_error
from evalscribe.text import dollars, visible

if TYPE_CHECKING:
    from evalscribe.model.analysis import StageUsage, UsageSummary


def in_terminal() -> bool:
    """Return whether a person can be asked a question."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def usage_line(stages: "Sequence[StageUsage]") -> str:
    """Format the usage of models: `tag 4 calls $0.01, judge 2 calls $0.20`.

    For models without a known price, give the number of tokens.
    """
    return ", ".join(
        f"{stage.stage} {stage.calls} call{'s' if stage.calls != 1 else ''} {_price(stage)}" for stage in stages
    )


def _price(usage: "UsageSummary") -> str:
    return dollars(usage.cost_usd) if usage.cost_usd else f"{usage.input_tokens + usage.output_tokens:,} tokens"


def may_delete(subject: str, contents: str, *, yes: bool, note: str = "") -> bool:
    """Return whether an object may be deleted with its contents.

    In a terminal, the user is asked. No question is asked about an empty object.

    Args:
        subject: The object, such as `collection first`.
        contents: What the object contains, such as `2 runs, 1 rubric`; empty if it contains nothing.
        yes: True if the user has already agreed.
        note: End of the question, which says what is not deleted, such as `; reports stay`.

    Raises:
        UsageError: The user has not agreed and cannot be asked.
    """
    if yes or not contents:
        return True
    if not in_terminal():
        raise UsageError(f"{subject} has {contents}.\nTo delete all of that, give `yes`{note}.", fields=("yes",))
    say(f"{subject} has {contents}.")
    may = typer.confirm(f"Delete all of that{note}?")
    if not may:
        say("Nothing was deleted.")
    return may


def page(markdown: str, *, picture_title: str | None = None) -> None:
    """Print a report, formatted for a terminal if standard output is a terminal.

    With `picture_title`, print the report as an SVG picture with that title.
    """
    text = body(markdown)
    if picture_title is None and not sys.stdout.isatty():
        say(text)
        return
    from evalscribe.cli import terminal  # imports rich, which takes 0.1 s and is not needed for a pipe

    if picture_title is None:
        terminal.print_page(visible(text))
    else:
        say(terminal.picture(visible(text), picture_title))


def body(markdown: str) -> str:
    """Return the text of a report without its front matter. Only programs need the front matter."""
    if not markdown.startswith("---\n"):
        return markdown.rstrip("\n")
    return markdown.partition("\n---\n")[2].strip("\n")


def aside(text: object) -> None:
    """Print a line that is not part of the result, such as a note, on standard error.

    `--quiet` suppresses such lines.
    """
    if not logs.is_quiet():
        say(text, file=sys.stderr)


def hint(text: object) -> None:
    """Print a note or a suggested next step on standard output, after a result that people read.

    `--quiet` suppresses such lines.
    """
    if not logs.is_quiet():
        say(text)


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        aside(f"Note: {note}")


def say(text: object = "", file: TextIO | None = None) -> None:
    """Print a line for people, without control characters.

    The line is printed on standard output unless `file` is given. In a CI job, commands for the CI runner are made
    harmless, even if the output is a file, because the job might print the file to its log later.
    """
    line = visible(str(text))
    print(streams.neutral(line) if streams.in_ci() else line, file=file)


def command(line: str, file: TextIO | None = None) -> None:
    """Print a command that the CI runner should execute."""
    streams.command(visible(line), file)


def print_json(document: BaseModel, *, indent: int | None = 2) -> None:
    """Print a document as JSON without control characters or CI commands."""
    print(streams.neutral_json(streams.escaped(document.model_dump_json(indent=indent))), flush=True)


DEVICES = (Path("/dev"), Path("/dev/fd"))


def write_lines(lines: Iterator[str], output: Path | None, *, json: bool = False) -> int:
    """Write lines and return their number.

    Raises `EvalscribeError` if the file cannot be written. If `json` is True, the lines must be JSON. In the log of a
    CI job, commands for the CI runner in JSON lines are replaced by JSON escapes, which does not change the values.
    """
    if output is None:
        neutral = json and streams.in_ci() and streams.in_log()
        return _print(map(streams.neutral_json, lines) if neutral else lines, sys.stdout)
    try:
        with output.open("w", encoding="utf-8") if _is_pipe_or_device(output) else _replacing(output) as file:
            return _print(lines, file)
    except OSError as error:
        raise write_error(f"cannot write {output}", error) from None


def _print(lines: Iterable[str], file: TextIO) -> int:
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007 (the last number is the answer)
        file.write(f"{line}\n")
    return number


def _is_pipe_or_device(output: Path) -> bool:
    """Return whether the output is a pipe or a device, such as /dev/stdout.

    A file must not be renamed to such a path.
    """
    return output.absolute().parent in DEVICES or (output.exists() and not output.is_file())


def _packing(binary: BinaryIO) -> gzip.GzipFile:
    """Open a gzip file without a time stamp, so that equal runs result in identical files.

    Time stamps would also stop working in 2106, because the format has only 32 bits for them.
    """
    return gzip.GzipFile(filename="", mode="wb", fileobj=binary, mtime=0)


@contextmanager
def _replacing(output: Path) -> Iterator[TextIO]:
    """Write to a temporary file in the folder of the target. Once the file is complete, rename it to the target."""
    # A file can only be renamed within its file system.
    part = output.absolute().with_name(f".part-{token_hex(8)}")
    try:
        packed = output.suffix == ".gz"
        with (
            part.open("xb") as binary,
            _packing(binary) if packed else nullcontext(binary) as stream,
            TextIOWrapper(cast(BinaryIO, stream), encoding="utf-8") as file,
        ):
            # Copy the permissions before anything is written, because the existing file can be private.
            if output.exists():
                shutil.copymode(output, part)
            yield file
        os.replace(part, output)
    # Also remove the incomplete file after Ctrl-C.
    except BaseException:
        part.unlink(missing_ok=True)
        raise
