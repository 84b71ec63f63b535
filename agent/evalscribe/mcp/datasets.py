"""Tools that read datasets and add failures to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from evalscribe.ids import Frozen
from evalscribe.mcp import tool
from evalscribe.mcp.context import NO_EXPERIMENT, ServerWorkspace
from evalscribe.mcp.tool import NOTICE, excerpt, first_fitting, page_of
from evalscribe.model.dataset import DatasetVersion, Item
from evalscribe.model.finding import Classification
from evalscribe.store.lookup import LATEST, find_dataset, find_dataset_version

if TYPE_CHECKING:
    from evalscribe.experiments.regression import RegressionMade
    from evalscribe.model.dataset import Dataset
    from evalscribe.model.experiment_storage import Datasets

DRAFT = "draft"
MOST_CHARACTERS = 40_000
MOST_VERSIONS = 20
MOST_SPLITS = 50


class DatasetLine(Frozen):
    id: str
    name: str
    description: str
    draft_items: int
    versions: int
    latest: DatasetVersion | None


class DatasetList(Frozen):
    datasets: tuple[DatasetLine, ...]
    total: int
    next_offset: int | None
    next: str | None = None
    """What to do if there is none."""


class DatasetItemLine(Frozen):
    """An item; long values are cut."""

    key: str
    split: str | None
    cluster: str | None
    input: str
    expected_output: str | None
    metadata: str | None
    source: str | None
    """Where the item comes from."""
    events: int
    """Messages of a recorded trace."""


class DatasetDetails(Frozen):
    id: str
    name: str
    description: str
    versions: tuple[DatasetVersion, ...]
    """Newest first."""
    versions_total: int
    draft_items: int
    draft_is: int | None
    """Number of the version with the same content as the draft."""
    draft_splits: dict[str, int]
    shown: str
    """The version that contains `items`: its number, or `draft`."""
    items: tuple[DatasetItemLine, ...]
    total: int
    """Number of items in the requested split."""
    next_offset: int | None
    notice: str = NOTICE.replace("`text`", "What `items` hold")


class RegressionDataset(Frozen):
    written: bool
    message: str
    """Outcome, and what to do next."""
    parent_run_id: str
    dataset_id: str | None
    dataset_version_id: str | None
    items: int
    """Number of items added, or that would be added."""
    experiment_id: str | None
    """Experiment in which every item must pass, for run_experiment; null if the run belongs to no experiment."""
    left_out: dict[str, int]
    """Number of failures left out, by reason."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DatasetTools:
    place: ServerWorkspace

    def list_datasets(
        self,
        search: Annotated[
            str | None, Field(description="Only datasets with this text in their name or description.")
        ] = None,
        limit: tool.Limit = 50,
        offset: tool.Offset = 0,
    ) -> DatasetList:
        """List the datasets of experiments, with the number of items in the draft and the latest version of each."""
        from evalscribe.experiments.datasets import list_datasets

        if not self.place.has_store():
            return DatasetList(datasets=(), total=0, next_offset=None, next=NO_EXPERIMENT)
        with self.place.experiments() as workspace:
            there = tuple(list_datasets(workspace.store.datasets, search))
        chosen, following = page_of(there, offset, limit)
        lines = (DatasetLine(**one.model_dump(exclude={"created_at"})) for one in chosen)
        return DatasetList(datasets=tuple(lines), total=len(there), next_offset=following)

    def get_dataset(
        self,
        dataset: Annotated[str, Field(min_length=1, description="A dataset, by name or id.")],
        version: Annotated[
            str | None, Field(description="A version's number or id, or `draft`. Default: the latest version.")
        ] = None,
        split: Annotated[str | None, Field(description="Only items in this split.")] = None,
        item: Annotated[str | None, Field(description="Only the item with this key.")] = None,
        characters: Annotated[
            int, Field(ge=50, le=20_000, description="Maximum characters of an input, expected output or metadata.")
        ] = 500,
        limit: tool.Limit = 20,
        offset: tool.Offset = 0,
    ) -> DatasetDetails:
        """Read a dataset: its versions, and the items of one version with input and expected output."""
        from evalscribe.experiments.datasets import list_items, summarise_dataset

        with self.place.experiments() as workspace:
            one = find_dataset(workspace.store.datasets, dataset)
            whole = summarise_dataset(workspace.store.datasets, one)
            name, held = _held(workspace.store.datasets, one, version)
            wanted = [each for each in list_items(held, split) if item in (None, each.key)]
        lines = first_fitting(
            (_line(each, characters) for each in islice(wanted, offset, offset + limit)), MOST_CHARACTERS
        )
        end = offset + len(lines)
        return DatasetDetails(
            id=one.id,
            name=one.name,
            description=one.description,
            versions=whole.versions[::-1][:MOST_VERSIONS],
            versions_total=len(whole.versions),
            draft_items=whole.draft_items,
            draft_is=whole.draft_is,
            draft_splits=dict(islice(whole.splits.items(), MOST_SPLITS)),
            shown=name,
            items=lines,
            total=len(wanted),
            next_offset=end if lines and end < len(wanted) else None,
        )

    def make_regression_dataset(
        self,
        run: Annotated[
            str, Field(min_length=1, description="A run of an experiment, by id or name, or an imported run.")
        ],
        name: Annotated[str, Field(min_length=1, description="Name of the new dataset and its experiment.")],
        write: Annotated[bool, Field(description="Create it. Default: false, which only counts the items.")] = False,
        run_item_id: Annotated[
            list[str] | None,
            Field(max_length=500, description="Use these trials (`eval_id`) instead of all failed ones."),
        ] = None,
        classification: Annotated[
            list[Classification] | None,
            Field(
                description=(
                    "Only failures with these classifications in the run's report; analyze with write_report creates "
                    "one."
                )
            ),
        ] = None,
        reviewed_only: Annotated[
            bool, Field(description="Only failures whose classification a person gave or confirmed.")
        ] = False,
    ) -> RegressionDataset:
        """Create a published dataset of a run's failures, with an experiment of the same build and scorers in which
        every item must pass. Nothing is run, and without write=true nothing is created.
        """
        from evalscribe.experiments.regression import create_regression_dataset

        with self.place.experiments() as workspace:
            made, _ = create_regression_dataset(
                workspace,
                run,
                name=name,
                run_item_ids=run_item_id or (),
                classifications=classification or (),
                reviewed_only=reviewed_only,
                dry_run=not write,
            )
        return _made(made, name)


def _held(datasets: "Datasets", one: "Dataset", version: str | None) -> tuple[str, Iterator[Item]]:
    """Return the latest version, or the draft if none is published."""

    if version == DRAFT or (version is None and not datasets.versions(one.id)):
        return DRAFT, datasets.draft(one.id)
    chosen = find_dataset_version(datasets, one, version or LATEST)
    return str(chosen.number), datasets.items(chosen.id)


def _line(one: Item, characters: int) -> DatasetItemLine:
    return DatasetItemLine(
        key=one.key,
        split=one.split,
        cluster=one.cluster,
        input=excerpt(one.input, characters),
        expected_output=None if one.expected_output is None else excerpt(one.expected_output, characters),
        metadata=excerpt(one.metadata, characters) if one.metadata else None,
        source=excerpt(one.source, characters) if one.source else None,
        events=len(one.events),
    )


def _made(made: "RegressionMade", name: str) -> RegressionDataset:
    if not made.items:
        message = "Nothing was created: no failure was selected."
    elif made.dataset_id is None:
        message = (
            f"Nothing was created: the dataset would have {made.items:,} of the failures. Call again with write=true."
        )
    elif made.experiment_id is None:
        message = f"Dataset {name} was created; give it a target with `evalscribe experiments create`."
    else:
        message = f"Dataset and experiment {name} were created: run_experiment with `{name}` runs it."
    return RegressionDataset(
        written=made.dataset_id is not None,
        message=message,
        **made.model_dump(include=set(RegressionDataset.model_fields) - {"written", "message"}),
    )
