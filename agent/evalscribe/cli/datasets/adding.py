"""`evalscribe datasets add-example|add-run|upload|upload-csv`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalscribe.cli.datasets.options import Named
from evalscribe.cli.display.formatted import Format

if TYPE_CHECKING:
    from evalscribe.app.datasets.adding import PutIn
    from evalscribe.app.datasets.of_runs import Taken
    from evalscribe.app.datasets.upload import Uploaded
    from evalscribe.model.experiment_storage import ItemRows
    from evalscribe.sources.items import CsvColumns

Partial = Annotated[
    bool,
    typer.Option("--partial/--no-partial", help="Whether lines that are wrong are left out, or nothing is stored."),
]
SplitColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="Holds the item's split.", show_default=False)]
ClusterColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Holds the item's cluster.", show_default=False)
]
KeyColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Holds the item's key. Default: made of its content.", show_default=False),
]
STANDARD_INPUT = "-"
TAB = "\t"
JSON_BEGINS = ("{", "[")


def register(app: typer.Typer) -> None:
    app.command("add-example", short_help="Put one item into the draft; prints its key.")(add_example)
    app.command("add-run", short_help="Put evals of a stored run into the draft.")(add_run)
    app.command(short_help="Put a file of JSON lines into the draft.")(upload)
    app.command("upload-csv", short_help="Put the rows of a table into the draft.")(upload_csv)


def add_example(
    dataset: Named,
    input: Annotated[
        str,
        typer.Option(
            "--input", metavar="JSON|TEXT", help="What is asked. What is no JSON is text.", show_default=False
        ),
    ],
    expected_output: Annotated[
        str | None, typer.Option(metavar="JSON|TEXT", help="What should come of it.", show_default=False)
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON", help="What else belongs to it: an object.", show_default=False)
    ] = None,
    events: Annotated[
        str | None, typer.Option(metavar="JSON", help="A recorded trace: a list of messages.", show_default=False)
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="train, dev, test or any other word.", show_default=False)
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Items that share a source have one cluster.", show_default=False),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Its name in the dataset. Default: made of its content.")
    ] = None,
    form: Format = "table",
) -> int:
    """Put one item into the draft. Its key is printed; an item with that key is replaced."""
    from evalscribe.app.datasets.adding import Example, put_in
    from evalscribe.app.datasets.found import found
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    example = Example(input, expected_output, metadata, events, split, cluster, key)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        one = found(datasets, dataset)
        done = put_in(datasets, one, example)
    state = "is in" if done.added.new else "is changed in" if done.added.changed else "was already in"
    text = " Its input is no JSON, so it is a text." if input.lstrip()[:1] in JSON_BEGINS and _is_text(done) else ""
    told = f"The item {done.item.key} {state} the draft of {one.name}.{text}{_secrets(done.hidden)}"
    formatted.made(done.item.key, done.item, told, form)
    return 0


def add_run(
    dataset: Named,
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A stored run, by id or the beginning of one; an experiment's also by name.",
            show_default=False,
        ),
    ],
    evals: Annotated[
        list[str] | None, typer.Option("--eval", metavar="PATH", help="Only this eval. Repeatable.", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only evals that did not pass.")] = False,
    expected_output: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|TEXT",
            help="What should have come of it, of one eval. Default: what was recorded where it passed, "
            "what was expected where it did not.",
            show_default=False,
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """Put evals of a run that was imported, analysed or an experiment's into the draft."""
    from evalscribe.app.datasets.adding import json_or_text
    from evalscribe.app.datasets.found import found
    from evalscribe.app.datasets.of_runs import taken
    from evalscribe.cli.display import formatted
    from evalscribe.workspace import Workspace

    expected = None if expected_output is None else (json_or_text("--expected-output", expected_output),)
    with Workspace() as workspace:
        one = found(workspace.store.datasets, dataset)
        done = taken(workspace, one, run, evals=evals or (), failed=failed, expected=expected)
    formatted.document(done, lambda: (_taken(done),), form)
    _taken_notes(done)
    return 0


def upload(
    dataset: Named,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="One JSON object a line, or a list of them; may be packed by gzip.",
            show_default=False,
        ),
    ],
    partial: Partial = True,
    form: Format = "table",
) -> int:
    """Put a file of items into the draft: `input`, and where wanted `expected_output`, `key`, `metadata`, `events`,
    `split`, `cluster`, `source`. Items whose key is there are replaced."""
    return _upload(dataset, file, None, partial, form)


def upload_csv(
    dataset: Named,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A table with a header; may be packed by gzip.", show_default=False)
    ],
    input_columns: Annotated[
        list[str],
        typer.Option(
            "--input-column",
            metavar="COLUMN",
            help="Holds the input. Repeatable: of several an object is made.",
            show_default=False,
        ),
    ],
    expected_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Holds what is expected; in an empty cell nothing is.", show_default=False),
    ] = None,
    metadata_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata-column",
            metavar="COLUMN",
            help="Becomes metadata under its own name. Repeatable.",
            show_default=False,
        ),
    ] = None,
    split_column: SplitColumn = None,
    cluster_column: ClusterColumn = None,
    key_column: KeyColumn = None,
    events_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Holds recorded traces: JSON lists of messages.", show_default=False),
    ] = None,
    tags_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Holds tags: words with commas between them, or JSON lists.", show_default=False
        ),
    ] = None,
    source_run_id_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Holds the run that an item comes from.", show_default=False)
    ] = None,
    delimiter: Annotated[str, typer.Option(metavar="CHAR", help="What stands between cells; `tab` for a tab.")] = ",",
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first row is an item too; columns are called 1, 2, 3 …")
    ] = False,
    json_columns: Annotated[
        bool, typer.Option("--json-columns", help="Read cells that are JSON as JSON; else they stay text.")
    ] = False,
    partial: Partial = True,
    form: Format = "table",
) -> int:
    """Put the rows of a table into the draft. Items whose key is there are replaced."""
    from evalscribe.sources.items import CsvColumns

    columns = CsvColumns(
        input=tuple(dict.fromkeys(input_columns)),
        expected=expected_column,
        metadata=tuple(metadata_columns or ()),
        split=split_column,
        cluster=cluster_column,
        key=key_column,
        events=events_column,
        tags=tags_column,
        source_run_id=source_run_id_column,
        delimiter=_delimiter(delimiter),
        header=not no_header,
        json_cells=json_columns,
    )
    return _upload(dataset, file, columns, partial, form)


def _upload(dataset: str, file: str, columns: "CsvColumns | None", partial: bool, form: str) -> int:
    """Exit code 65 where the file was not read to its end."""
    from evalscribe.app.datasets.found import found
    from evalscribe.app.datasets.upload import told, uploaded
    from evalscribe.cli.display import finish, formatted
    from evalscribe.errors import DataError
    from evalscribe.workspace import Workspace

    formatted.checked(form)
    with Workspace() as workspace, _item_file(file, columns) as (name, opened):
        datasets = workspace.store.datasets
        done = uploaded(datasets, found(datasets, dataset), name, opened, partial=partial)
    for line in told(done):
        finish.say(line, file=sys.stderr)
    formatted.document(done, lambda: (_uploaded(done),), form)
    return DataError.exit_code if done.stopped else 0


@contextmanager
def _item_file(file: str, columns: "CsvColumns | None") -> "Iterator[tuple[str, Callable[[], ItemRows]]]":
    """What a file is called, and how to read it, as often as wanted; `-` is standard input, copied to a file."""
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    from evalscribe.sources.items import open_csv, open_items

    with ExitStack() as stack:
        path, name = Path(file), file
        if file == STANDARD_INPUT:
            path = Path(stack.enter_context(TemporaryDirectory(prefix="evalscribe-"))) / "stdin"
            name = path.name
            with path.open("wb") as copy:
                copyfileobj(sys.stdin.buffer, copy)
        yield name, (lambda: open_csv(path, name, columns) if columns else open_items(path, name))


def _is_text(done: "PutIn") -> bool:
    return isinstance(done.item.input, str)


def _delimiter(text: str) -> str:
    """Raises `UsageError` for what cannot stand between cells."""
    from evalscribe.errors import UsageError

    one = {"tab": TAB, "\\t": TAB}.get(text, text)
    if len(one) != 1 or one in '"\r\n ' or not (one == TAB or one.isprintable()):
        raise UsageError(f"--delimiter {text!r} is no single character that can stand between cells")
    return one


def _uploaded(done: "Uploaded") -> str:
    from evalscribe.text import pluralise

    states = {"new": done.added.new, "changed": done.added.changed, "there already": done.added.same}
    told = ", ".join(f"{number:,} {state}" for state, number in states.items() if number)
    skipped = f"; {pluralise(done.skipped, 'line')} left out" if done.skipped else ""
    return f"{done.dataset}: {pluralise(done.items, 'item')} of {done.file}: {told}{skipped}.{_secrets(done.hidden)}"


def _taken(done: "Taken") -> str:
    from evalscribe.text import pluralise

    states = {"new": done.added.new, "changed": done.added.changed, "there already": done.added.same}
    told = ", ".join(f"{number:,} {state}" for state, number in states.items() if number) or "none"
    number = done.added.new + done.added.changed + done.added.same
    return f"{done.dataset}: {pluralise(number, 'item')} of run {done.run_id}: {told}."


def _taken_notes(done: "Taken") -> None:
    from evalscribe.cli.display import finish
    from evalscribe.text import pluralise

    if done.unknown:
        told = (
            f"{pluralise(done.unknown, 'item')} did not pass, and the run does not say what was expected: nothing is."
        )
        finish.say(told, file=sys.stderr)
    if done.unusable:
        told = f"{pluralise(len(done.unusable), 'eval')} left out, of which the run does not say what they were asked: "
        finish.say(told + ", ".join(done.unusable[:5]), file=sys.stderr)


def _secrets(hidden: int) -> str:
    from evalscribe.text import pluralise

    return f" {pluralise(hidden, 'secret')} hidden." if hidden else ""
