"""`--format table|json|jsonl`: nouns for people or for programs, on standard output."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

FORMATS = ("table", "json", "jsonl")
Format = Annotated[
    str, typer.Option("--format", metavar="table|json|jsonl", help="How to print it.", show_default=True)
]
T = TypeVar("T", bound="BaseModel")


def checked(form: str) -> str:
    """Raises `UsageError` for a format that there is not."""
    from evalscribe.errors import UsageError

    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is none of {', '.join(FORMATS)}")
    return form


def listing(
    rows: Iterable[T], heads: Sequence[str], cells: Callable[[T], Sequence[object]], form: str, none: str
) -> None:
    """A table with these heads, one JSON array, or one JSON document a line. `none`: said in place of no rows."""
    from evalscribe.cli.display import finish
    from evalscribe.cli.display.rows import write_table

    if checked(form) == "jsonl":
        for row in rows:
            finish.print_json(row, indent=None)
    elif form == "json":
        from pydantic import BaseModel, RootModel, SerializeAsAny

        finish.print_json(RootModel[list[SerializeAsAny[BaseModel]]].model_construct(list(rows)))
    elif told := [["" if cell is None else str(cell) for cell in cells(row)] for row in rows]:
        write_table([list(heads), *told])
    else:
        finish.say(none)


def document(row: "BaseModel", told: Callable[[], Iterable[str]], form: str) -> None:
    """One noun: as lines for people, or as JSON."""
    from evalscribe.cli.display import finish

    if checked(form) == "table":
        for line in told():
            finish.say(line)
    else:
        finish.print_json(row, indent=None if form == "jsonl" else 2)


def made(id: str, row: "BaseModel", told: str, form: str) -> None:
    """What a command made: its id alone on standard output, for the next command; the words on standard error."""
    from evalscribe.cli.display import finish

    if checked(form) == "table":
        finish.say(told, file=sys.stderr)
        finish.say(id)
    else:
        document(row, lambda: (), form)
