"""Create an experiment, with everything that it needs, from one command or one file."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from pydantic import ValidationError

from evalscribe.errors import DataError, RubricError, UsageError
from evalscribe.experiments.datasets import publish_file
from evalscribe.experiments.definitions import (
    NewExperiment,
    create_experiment,
    merged_config,
    update_experiment,
    version_options,
)
from evalscribe.experiments.deployments import CheckedBuild, check_build, parse_components, record_build
from evalscribe.experiments.lookup import version_named
from evalscribe.experiments.results import dataset_line
from evalscribe.experiments.scorers.stored import PYTHON, attach_scorers, create_scorer, function_spec
from evalscribe.experiments.targets import split_command
from evalscribe.ids import Frozen, canonical_json
from evalscribe.json_data import StrictJson
from evalscribe.model.experiment import ComponentTarget, Experiment, ExperimentConfig, ExperimentVersion, TargetSpec
from evalscribe.model.score import Binding, ScorerSpec
from evalscribe.model.target import Component
from evalscribe.prompts.files import parse_yaml, read_text
from evalscribe.sources.address import parse_columns
from evalscribe.sources.files import FileReader
from evalscribe.sources.items import (
    ITEM_NAMES,
    CsvColumns,
    ItemFile,
    decode_line,
    item_lines,
    open_csv,
    open_items,
)
from evalscribe.sources.results_table import find_column
from evalscribe.text import cut, join_first, one_line, pluralise
from evalscribe.workspace import Workspace

SUFFIXES = (".yaml", ".yml")
TARGETS = "python:module:function, http(s)://… or cmd:…"
INTERPRETERS = frozenset({"bash", "bun", "deno", "node", "npx", "python", "python3", "ruby", "sh", "uv", "uvx"})
"""Programs that run a script. A component that is run by one of these programs is named after the script."""
FunctionSpec = tuple[ScorerSpec, str]
"""Spec and description of a Python function that scores."""


class ExperimentSpec(Frozen):
    """Description of an experiment. If the experiment already exists, fields that are None keep their old values."""

    name: str | None = None
    """Name of the experiment. If None, a name such as `answer-items` is derived from target and data."""
    target: str | None = None
    """The target. A Python function has the form `python:module:function` or `module.py:function`. An HTTP target is an
    address. A command target is `cmd:` followed by a command line."""
    data: str | None = None
    """File with the items, as JSON lines, a JSON list or CSV."""
    map: tuple[str, ...] = ()
    """Pairs of an item field and the field's name in the file `data`, such as `input=text`."""
    scorers: tuple[str, ...] = ()
    """Scorers of the experiment.

    Each is the name of a built-in or created scorer, `python:module:function`, or JSON with `name`, `config`.
    """
    config: str | None = None
    """An `ExperimentConfig` as JSON."""
    folder: str = "."
    """Folder from which Python modules are imported and in which commands run."""
    complete: bool = False
    """True if keys that `config` omits are reset to their defaults when the experiment already exists. If false, these
    keys keep their old values."""


class EnsuredExperiment(NamedTuple):
    experiment: Experiment
    version: ExperimentVersion
    deployment_id: str | None
    """Id of the build to run; None to run the build that the experiment's version names."""
    created: tuple[str, ...]
    """One line for each object that was created."""


def is_spec_file(text: str) -> bool:
    return text.lower().endswith(SUFFIXES)


def read_spec(path: Path) -> ExperimentSpec:
    """Read an experiment from a YAML file.

    The file must have `target`, `data` and `scorers`; the other fields of `ExperimentSpec` are optional. Paths are
    relative to the file. Raises `NotFoundError` if the file does not exist, `DataError` if the file is invalid.
    """
    try:
        # Some editors on Windows begin a file with a byte order mark.
        value = parse_yaml(read_text(path).removeprefix("\ufeff"), str(path)).value
    except RubricError as error:
        raise DataError(str(error)) from None
    keys = [name for name in ExperimentSpec.model_fields if name != "complete"]
    if not isinstance(value, dict):
        raise DataError(f"{path} is not an experiment: expected an object with {', '.join(keys)}")
    if unknown := [str(key) for key in value if key not in keys]:
        raise DataError(f"{path}: unknown key {one_line(unknown[0])[:80]!r}; keys: {', '.join(keys)}")
    try:
        spec = ExperimentSpec.model_validate({**_texts(value), "complete": True})
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise DataError(f"{path}: `{'.'.join(map(str, first['loc']))}`: {first['msg']}") from None
    missing = [name for name in ("target", "data", "scorers") if not getattr(spec, name)]
    if missing:
        raise DataError(f"{path}: `{missing[0]}` is missing")
    folder = path.parent
    return spec.model_copy(update={"folder": str(folder / spec.folder), "data": str(folder / (spec.data or ""))})


def _texts(value: dict[str, Any]) -> dict[str, Any]:
    """Convert values of a YAML file to values of `ExperimentSpec`.

    Nested values become JSON text, a single scorer becomes a list, and a `map` object becomes a list of `FIELD=NAME`
    texts.
    """
    scorers = value.get("scorers", [])
    texts = {"scorers": [_text(scorer) for scorer in (scorers if isinstance(scorers, list) else [scorers])]}
    config = {"config": _text(value["config"])} if value.get("config") is not None else {}
    columns = value.get("map")
    column_map = {"map": [f"{field}={name}" for field, name in columns.items()]} if isinstance(columns, dict) else {}
    return {**value, **texts, **config, **column_map}


def _text(value: object) -> object:
    return canonical_json(value) if isinstance(value, dict | list) else value


async def ensure_experiment(workspace: Workspace, spec: ExperimentSpec) -> EnsuredExperiment:
    """Create the experiment and its dataset, build and scorers, unless they already exist.

    Changed data makes a new version of the dataset; a changed definition makes a new version of the experiment. Nothing
    is stored if the data or the target cannot be used. If the target's own code raises an error, the run reports it.

    Raises:
        UsageError: A field of the spec is missing or invalid.
        NotFoundError: A file or scorer does not exist.
        DataError: An item of the data is invalid.
    """
    if spec.name is None:
        _require(spec)
    folder = Path(spec.folder).resolve()  # noqa: ASYNC240 (nothing else runs on this event loop)
    component, source = _component(spec.target, folder) if spec.target else (None, folder)
    name = spec.name or one_line(f"{component.name if component else ''}-{_stem(spec.data or '')}")
    experiment = workspace.store.experiments.experiment(name)
    if experiment is None:
        _require(spec)
    previous = version_options(experiment, version_named(workspace, experiment, None)) if experiment else None
    items = tuple(_read_items(Path(spec.data), parse_columns(spec.map, ITEM_NAMES))) if spec.data else ()
    created: list[str] = []
    build = None
    if component:
        # With `broken`, code that cannot be imported leads to a failed run, whose JUnit
        # file and summary tell a CI job the reason.
        build = await check_build(workspace, (component,), folder=source, name=component.name, broken=True)
    builtin, own = await _read_scorers(workspace, spec.scorers, folder)
    # A draft with unpublished changes refuses the data, so the data is stored first.
    published = publish_file(workspace.store.datasets, _stem(spec.data), items, workspace.now()) if spec.data else None
    data = published.version if published else None
    if build and build.new:
        record_build(workspace, build)
        created.append(f"build {build.deployment.id} of {build.deployment.name}: {build.deployment.build}")
    bindings = _attach_scorers(workspace, builtin, own, folder) if spec.scorers else ()
    definition = NewExperiment(
        name=name,
        type=previous.type if previous else "standard",
        target=_target(previous.target if previous else None, build),
        dataset_id=data.dataset_id if data else previous.dataset_id if previous else "",
        dataset_version_id=data.id if data else previous.dataset_version_id if previous else "",
        bindings=bindings or (previous.bindings if previous else ()),
        config=merged_config(previous.config if previous and not spec.complete else ExperimentConfig(), spec.config),
    )
    versions = workspace.store.experiments.experiment_versions(experiment.id) if experiment else ()
    if experiment is None:
        experiment, version = create_experiment(workspace, definition)
    else:
        version = update_experiment(workspace, experiment, definition)
    if published and published.new:
        created.append(f"dataset {dataset_line(workspace, version)}: {pluralise(published.version.items, 'item')}")
    if version.id not in {existing.id for existing in versions}:
        created.append(f"experiment {experiment.name}, version {version.number}: {_change_text(previous, definition)}")
    return EnsuredExperiment(experiment, version, build.deployment.id if build else None, tuple(created))


def _change_text(previous: NewExperiment | None, current: NewExperiment) -> str:
    """Describe what changed since the previous version. For the first version, return the scorers' names."""
    if previous is None:
        return f"scored by {', '.join(binding.spec.name for binding in current.bindings)}"
    words = {"target": "target", "dataset_version_id": "data", "bindings": "scorers", "config": "config"}
    changes = [word for field, word in words.items() if getattr(previous, field) != getattr(current, field)]
    return f"changed {' and '.join(changes)}"


def _require(spec: ExperimentSpec) -> None:
    """Raise `UsageError` if the spec lacks a field that a new experiment needs."""
    missing = {
        "target": (spec.target, TARGETS),
        "data": (spec.data, "a file with one JSON object per line: input and, if known, expected"),
        "scorer": (
            spec.scorers,
            "exact_match, another scorer that `evalscribe experiments scorers list --builtin` lists, or your own",
        ),
    }
    for name, (value, forms) in missing.items():
        if not value:
            raise UsageError(f"a new experiment needs `{name}`: {forms}", fields=(name,))


def _stem(data: str) -> str:
    """Return a file's name without its suffixes, such as `items` for `evals/items.jsonl.gz`."""
    name = PurePath(data).name
    return name.partition(".")[0] or name


def _component(target: str, folder: Path) -> tuple[Component, Path]:
    """Parse a target. Return its component, and the folder from which the component is imported or run.

    Raises `UsageError` for an invalid target.
    """
    address = target
    if target.partition(":")[0] not in ("http", "https", "cmd"):
        module, _, function = target.removeprefix(PYTHON).rpartition(":")
        if module.endswith(".py"):
            path = PurePath(module)
            # `src/agent.py` is imported from `src`, the folder from which `python src/agent.py` would import.
            folder, module = folder / path.parent, path.stem
        if not all(part.isidentifier() for part in f"{module}.{function}".split(".")):
            raise UsageError(f"`target` {target!r}: expected {TARGETS}", fields=("target",))
        address = f"{PYTHON}{module}:{function}"
    (component,) = parse_components((f"{_component_name(address)}={address}",), "agent")
    return component, folder


def _component_name(address: str) -> str:
    """Derive a component's name from its function, its host or its program."""
    scheme, _, location = address.partition(":")
    if scheme == "python":
        name = location.rpartition(":")[2]
    elif scheme == "cmd":
        words = [word for word in split_command(location) if not word.startswith("-")]
        name = PurePath(next((word for word in words if PurePath(word).name not in INTERPRETERS), words[0])).stem
    else:
        name = location.removeprefix("//").partition("/")[0].rpartition("@")[2].partition(":")[0]
    safe_name = "".join(character if character.isascii() and character.isalnum() else "_" for character in name)
    return safe_name[:40].strip("_") or "target"


async def _read_scorers(
    workspace: Workspace, scorers: Sequence[str], folder: Path
) -> tuple[list[str], list[str | FunctionSpec]]:
    """Return the built-in scorers and the user's own scorers, without storing anything.

    A user's own scorer is a created scorer, or the spec of a Python function. Raises an error if a scorer cannot be
    used.
    """
    builtin: list[str] = []
    own: list[str | FunctionSpec] = []
    for text in scorers:
        if text.startswith(PYTHON):
            own.append(await function_spec(None, text, folder, {}))
        elif workspace.store.experiments.scorer(_scorer_name(text)):
            own.append(text)
        else:
            builtin.append(text)
    attach_scorers(workspace, builtin, [text for text in own if isinstance(text, str)])
    return builtin, own


def _attach_scorers(
    workspace: Workspace, builtin: Sequence[str], own: Sequence[str | FunctionSpec], folder: Path
) -> tuple[Binding, ...]:
    """Attach scorers. Create a scorer for each new Python function, and a new version for each changed function."""
    experiments, ids = workspace.store.experiments, []
    for scorer in own:
        if isinstance(scorer, str):
            ids.append(scorer)
        else:
            spec, description = scorer
            ids.append(create_scorer(experiments, spec, workspace.now(), description, str(folder)).scorer.id)
    return attach_scorers(workspace, builtin, ids)


def _scorer_name(text: str) -> str:
    try:
        value = StrictJson().decode(text)
    except DataError:
        return text
    return str(value.get("name")) if isinstance(value, dict) else text


def _target(previous: TargetSpec | None, build: CheckedBuild | None) -> TargetSpec:
    """Return the previous target if its component is unchanged, else a new target."""
    if build is None:
        assert previous is not None, "a new experiment needs a target"
        return previous
    (component,) = build.deployment.components
    # The target keeps its first build. Runs of later builds then use the same
    # version of the experiment and can be compared.
    if isinstance(previous, ComponentTarget) and previous.component == component:
        return previous
    return ComponentTarget(deployment_id=build.deployment.id, component=component)


def _read_items(path: Path, map: Mapping[str, str]) -> Sequence[Any]:
    """Read all items. Raises `DataError` if there are no items, or if a line has no valid item."""
    file = _open(path, map)
    items = list(file.read())
    if file.bad:
        more = [f"and {file.bad - len(file.problems):,} more"] if file.bad > len(file.problems) else []
        raise DataError("\n".join([*file.problems, *more, "No run was created."]), fields=("map",))
    if not items:
        raise DataError(f"{path} contains no items")
    return items


COLUMNS = {
    "expected": ("expected", "expected_output"),
    "key": ("key", "id"),
    "split": ("split",),
    "cluster": ("cluster",),
}
"""Accepted names of each item field's column in a CSV file. Columns with other names become metadata."""
MAX_NAMED = 20
"""Maximum number of column names listed in a message."""


def _open(path: Path, map: Mapping[str, str]) -> ItemFile:
    endings = {suffix.lower() for suffix in path.suffixes}
    if endings.isdisjoint((".csv", ".tsv")):
        return open_items(path, str(path), map)
    delimiter = "\t" if ".tsv" in endings else ","
    with FileReader(path) as reading:
        _, line = next(item_lines(reading), (1, b""))
    header = next(csv.reader([decode_line(line)], delimiter=delimiter), [])
    column_names = {field: find_column(header, field, name, str(path)) for field, name in map.items()}
    if "input" not in header and "input" not in column_names:
        names = join_first([cut(one_line(name), 40) for name in header], MAX_NAMED) or "none"
        raise DataError(
            f"{path} has no column `input`; its columns are {names}. Name one with `map` input=COLUMN", fields=("map",)
        )
    column_names = {**{name: name for name in header}, **column_names}
    field_columns = {
        field: next((column_names[name] for name in names if name in column_names), None)
        for field, names in COLUMNS.items()
    }
    input = column_names.get("input", "input")
    metadata_columns = tuple(name for name in header if name != input and name not in field_columns.values())
    return open_csv(
        path, str(path), CsvColumns(input=(input,), metadata=metadata_columns, delimiter=delimiter, **field_columns)
    )
