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
    from evalscribe.store.datasets import DatasetStore

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
    """What to do where there is none."""


class DatasetItemLine(Frozen):
    """What is long is cut."""

    key: str
    split: str | None
    cluster: str | None
    input: str
    expected_output: str | None
    metadata: str | None
    source: str | None
    """Where it comes from."""
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
    """Number of the version that the draft is equal to."""
    draft_splits: dict[str, int]
    shown: str
    """The version that `items` are of: its number, or `draft`."""
    items: tuple[DatasetItemLine, ...]
    total: int
    """Of `summarise_dataset`, in the split that is wanted."""
    next_offset: int | None
    notice: str = NOTICE.replace("`text`", "What `items` hold")


class RegressionDataset(Frozen):
    written: bool
    message: str
    """What became of it, and what to do next."""
    parent_run_id: str
    dataset_id: str | None
    dataset_version_id: str | None
    items: int
    """Taken, or that would be taken."""
    experiment_id: str | None
    """In which every item has to pass, for run_experiment; null where no experiment made the run."""
    left_out: dict[str, int]
    """Failures that are not taken, by why."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DatasetTools:
    place: ServerWorkspace

    def list_datasets(
        self,
        search: Annotated[str | None, Field(description="Only with this in their name or description.")] = None,
        limit: tool.Limit = 50,
        offset: tool.Offset = 0,
    ) -> DatasetList:
        """List the datasets of experiments, with how many items each one's draft and latest version have."""
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
        split: Annotated[str | None, Field(description="Only items of this split.")] = None,
        item: Annotated[str | None, Field(description="Only the item of this key.")] = None,
        characters: Annotated[
            int, Field(ge=50, le=20_000, description="Characters of an input, expected output or metadata at most.")
        ] = 500,
        limit: tool.Limit = 20,
        offset: tool.Offset = 0,
    ) -> DatasetDetails:
        """Read a dataset: its versions, and the items of one of them, what is asked and what is expected."""
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
            str, Field(min_length=1, description="A run of an experiment by id or name, or one that was imported.")
        ],
        name: Annotated[str, Field(min_length=1, description="Of the dataset and of its experiment.")],
        write: Annotated[
            bool, Field(description="Make it. Default: false, which only counts what it would hold.")
        ] = False,
        run_item_id: Annotated[
            list[str] | None,
            Field(max_length=500, description="Take these tries (`eval_id`), in place of all that failed."),
        ] = None,
        classification: Annotated[
            list[Classification] | None,
            Field(
                description="Only failures that the run's report classifies so; analyze with write_report makes one."
            ),
        ] = None,
        reviewed_only: Annotated[
            bool, Field(description="Only those whose classification a person gave or confirmed.")
        ] = False,
    ) -> RegressionDataset:
        """Keep what failed: a published dataset of a run's failures, with an experiment of the same build and scorers
        in which every item has to pass. Nothing is run, and without write=true nothing is made."""
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


def _held(datasets: "DatasetStore", one: "Dataset", version: str | None) -> tuple[str, Iterator[Item]]:
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
        message = "Nothing was made: no failure is to be taken."
    elif made.dataset_id is None:
        message = f"Nothing was made: it would hold {made.items:,} of the failures. Call again with write=true."
    elif made.experiment_id is None:
        message = f"Dataset {name} is made; `evalscribe experiments create` binds a target to it."
    else:
        message = f"Dataset and experiment {name} are made: run_experiment with `{name}` runs it."
    return RegressionDataset(
        written=made.dataset_id is not None,
        message=message,
        **made.model_dump(include=set(RegressionDataset.model_fields) - {"written", "message"}),
    )
