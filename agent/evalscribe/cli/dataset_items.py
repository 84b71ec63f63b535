"""Implements `evalscribe datasets add-example|upload|upload-csv|dedup|examples`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from evalscribe.cli import options, output, tables
from evalscribe.cli.datasets import Named
from evalscribe.cli.tables import Format
from evalscribe.errors import DataError, UsageError, flag, write_fields
from evalscribe.experiments.datasets import (
    AddedItem,
    Duplicates,
    ListedItem,
    NewItem,
    UploadResult,
    add_item,
    find_duplicates,
    item_excerpts,
    list_items,
    remove_duplicates,
    remove_items,
    upload_items,
    upload_problems,
)
from evalscribe.json_data import to_text
from evalscribe.model.dataset import Item
from evalscribe.sources.address import parse_columns
from evalscribe.sources.items import ITEM_NAMES, CsvColumns, ItemFile, open_csv, open_items
from evalscribe.store.lookup import find_dataset, find_dataset_version
from evalscribe.text import one_line, pluralise
from evalscribe.workspace import Workspace

Partial = Annotated[
    bool,
    typer.Option(
        "--partial/--no-partial", help="Skip invalid lines (the default), or store nothing if a line is invalid."
    ),
]
SplitColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the split.", show_default=False)]
ClusterColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column with the cluster.", show_default=False)
]
KeyColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column with the key. Default: a key made from the content.", show_default=False
    ),
]
STANDARD_INPUT = "-"
TAB = "\t"
JSON_BEGINS = ("{", "[")


def add_example(
    dataset: Named,
    input: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="JSON|TEXT",
            help="Input of the item. Text that is not valid JSON is used as it is.",
            show_default=False,
        ),
    ],
    expected_output: Annotated[
        str | None, typer.Option(metavar="JSON|TEXT", help="Expected output of the item.", show_default=False)
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(metavar="JSON", help="Metadata of the item, as a JSON object.", show_default=False)
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Recorded trace of the item, as a JSON list of messages.", show_default=False
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT", help="Split of the item: train, dev, test or any other word.", show_default=False
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Name shared by items from the same source; they all get the same split.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Key of the item. Default: a key made from the content.")
    ] = None,
    form: Format = "table",
) -> int:
    """Add one item to the draft, or replace the item with the same key. Prints the key."""
    example = NewItem(input, expected_output, metadata, events, split, cluster, key)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset_record = find_dataset(datasets, dataset)
        result = add_item(datasets, dataset_record, example)
    state = "is in" if result.added.new else "is changed in" if result.added.changed else "was already in"
    text = " The input is not JSON: stored as text." if input.lstrip()[:1] in JSON_BEGINS and _is_text(result) else ""
    message = f"The item {result.item.key} {state} the draft of {dataset_record.name}.{text}{_secrets(result.hidden)}"
    tables.print_id(result.item.key, result.item, message, form)
    return 0


def upload(
    dataset: Named,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="JSON lines or a JSON list (may be gzipped), or - for standard input.",
            show_default=False,
        ),
    ],
    map: options.Map = None,
    partial: Partial = True,
    form: Format = "table",
) -> int:
    """Add a file of items to the draft, or replace items with the same keys.

    Each item has `input`, and optionally `expected_output`, `key`, `metadata`, `events`, `split`, `cluster`, `source`.
    """
    names = parse_columns(map or (), ITEM_NAMES)
    return _upload(dataset, file, lambda path, name: open_items(path, name, names), partial, form)


def upload_csv(
    dataset: Named,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="A CSV file (may be gzipped), or - for standard input.", show_default=False
        ),
    ],
    input_columns: Annotated[
        list[str],
        typer.Option(
            "--input-column",
            metavar="COLUMN",
            help="Column with the input. Repeat the option to build an object from several columns.",
            show_default=False,
        ),
    ],
    expected_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with the expected output; an empty cell means none.", show_default=False
        ),
    ] = None,
    metadata_columns: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata-column",
            metavar="COLUMN",
            help="Column to keep as metadata. Repeatable.",
            show_default=False,
        ),
    ] = None,
    split_column: SplitColumn = None,
    cluster_column: ClusterColumn = None,
    key_column: KeyColumn = None,
    events_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with recorded traces: JSON lists of messages.", show_default=False),
    ] = None,
    tags_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with tags: comma-separated, or JSON lists.", show_default=False),
    ] = None,
    source_run_id_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with the id of the run that an item comes from.", show_default=False
        ),
    ] = None,
    delimiter: Annotated[
        str, typer.Option(metavar="CHAR", help="Character that separates cells, or `tab`. Default: a comma.")
    ] = ",",
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The file has no header row; its columns are 1, 2, 3 …")
    ] = False,
    json_columns: Annotated[bool, typer.Option("--json-columns", help="Parse cells that are valid JSON.")] = False,
    partial: Partial = True,
    form: Format = "table",
) -> int:
    """Add the rows of a CSV file to the draft, or replace items with the same keys."""
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
    return _upload(dataset, file, lambda path, name: open_csv(path, name, columns), partial, form)


def _upload(dataset: str, file: str, open: Callable[[Path, str], ItemFile], partial: bool, form: str) -> int:
    """Upload items. Return the exit code: 65 if the file could not be read to its end, otherwise 0."""
    tables.validate_format(form)
    with Workspace() as workspace, _item_file(file, open) as (name, item_file):
        datasets = workspace.store.datasets
        result = upload_items(datasets, find_dataset(datasets, dataset), name, item_file, partial=partial)
    for problem in upload_problems(result):
        line = write_fields(problem, ("map",), flag)
        output.say(line, file=sys.stderr) if result.stopped else output.aside(line)
    tables.print_document(result, lambda: (_upload_line(result),), form)
    return DataError.exit_code if result.stopped else 0


@contextmanager
def _item_file(file: str, open: Callable[[Path, str], ItemFile]) -> Iterator[tuple[str, Callable[[], ItemFile]]]:
    """Yield the name of the file, and a function that opens it.

    The function can be called several times, because standard input (`-`) is first copied to a file.
    """
    with ExitStack() as stack:
        path, name = Path(file), file
        if file == STANDARD_INPUT:
            path = Path(stack.enter_context(TemporaryDirectory(prefix="evalscribe-"))) / "stdin"
            name = path.name
            with path.open("wb") as copy:
                copyfileobj(sys.stdin.buffer, copy)
        yield name, (lambda: open(path, name))


def _is_text(result: AddedItem) -> bool:
    return isinstance(result.item.input, str)


def _delimiter(text: str) -> str:
    """Return the character that separates cells. Raises `UsageError` if it is invalid."""
    delimiter = {"tab": TAB, "\\t": TAB}.get(text, text)
    if len(delimiter) != 1 or delimiter in '"\r\n ' or not (delimiter == TAB or delimiter.isprintable()):
        raise UsageError(f"--delimiter {text!r} cannot separate cells: give one character, such as a comma")
    return delimiter


def _upload_line(result: UploadResult) -> str:
    states = {"new": result.added.new, "changed": result.added.changed, "there already": result.added.same}
    counts = ", ".join(f"{number:,} {state}" for state, number in states.items() if number)
    skipped = f"; {pluralise(result.skipped, 'line')} left out" if result.skipped else ""
    items = f"{pluralise(result.items, 'item')} of {result.file}"
    return f"{result.dataset}: {items}: {counts}{skipped}.{_secrets(result.hidden)}"


def _secrets(hidden: int) -> str:
    return f" {pluralise(hidden, 'secret')} hidden." if hidden else ""


HEADS = ("key", "split", "cluster", "input", "expected")


def list_examples(
    dataset: Named,
    version: Annotated[
        str | None,
        typer.Option(metavar="V", help="Number or id of a version, or latest. Default: the draft.", show_default=False),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="List only items of this split.", show_default=False)
    ] = None,
    include_payload: Annotated[
        bool, typer.Option("--include-payload", help="Print whole items instead of excerpts.")
    ] = False,
    form: Format = "table",
) -> int:
    """List the items of the draft, or of a version."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        dataset_record = find_dataset(datasets, dataset)
        items = (
            datasets.items(find_dataset_version(datasets, dataset_record, version).id)
            if version
            else datasets.draft(dataset_record.id)
        )
        chosen = list_items(items, split)
        none = f"There are no items: `evalscribe datasets upload {dataset_record.name} FILE` adds items to the draft."
        if include_payload:
            tables.print_list(chosen, (*HEADS, "metadata", "events"), _full_cells, form, none)
        else:
            tables.print_list(map(item_excerpts, chosen), (*HEADS, "events"), _excerpt_cells, form, none)
    return 0


def remove(
    dataset: Named,
    keys: Annotated[list[str], typer.Argument(metavar="KEY…", help="Keys of the items to remove.", show_default=False)],
    form: Format = "table",
) -> int:
    """Remove items from the draft. Published versions do not change."""
    tables.validate_format(form)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        result = remove_items(datasets, find_dataset(datasets, dataset), keys)
    message = f"{pluralise(result.items, 'item')} removed from the draft of {result.dataset}"
    tables.print_document(result, lambda: (message,), form)
    return 0


def _excerpt_cells(item: ListedItem) -> tuple[object, ...]:
    return item.key, item.split, item.cluster, item.input, item.expected_output, item.events or None


def _full_cells(item: Item) -> tuple[object, ...]:
    expected = None if item.expected_output is None else one_line(to_text(item.expected_output))
    metadata = one_line(to_text(item.metadata)) if item.metadata else None
    return (
        item.key,
        item.split,
        item.cluster,
        one_line(to_text(item.input)),
        expected,
        metadata,
        len(item.events) or None,
    )


def preview(dataset: Named, form: Format = "table") -> int:
    """Show which items of the draft have the same input and expected output."""
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        groups = find_duplicates(datasets.draft(find_dataset(datasets, dataset).id))
    tables.print_list(
        groups,
        ("stays", "may go", "splits"),
        _cells,
        form,
        none="There are no duplicates.",
    )
    number = sum(len(group.others) for group in groups)
    output.aside(f"{pluralise(number, 'item')} can be removed from {pluralise(len(groups), 'group')}.")
    return 0


def apply(
    dataset: Named,
    items: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-item-id",
            metavar="KEY",
            help="Key of a duplicate to remove; other duplicates stay. Repeatable.",
            show_default=False,
        ),
    ] = None,
    form: Format = "table",
) -> int:
    """Remove duplicates from the draft. The first item of each group stays."""
    tables.validate_format(form)
    with Workspace() as workspace:
        datasets = workspace.store.datasets
        result = remove_duplicates(datasets, find_dataset(datasets, dataset), items or ())
    message = f"{pluralise(result.items, 'duplicate')} removed from the draft of {result.dataset}"
    tables.print_document(result, lambda: (message,), form)
    return 0


def _cells(group: Duplicates) -> tuple[object, ...]:
    return group.kept.key, ", ".join(twin.key for twin in group.others), ", ".join(group.splits)
