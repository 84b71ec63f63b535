"""Create and change experiments, and create and find the prompts that experiments test."""

import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from evalscribe.errors import DataError, RubricError, UsageError
from evalscribe.experiments import deployments
from evalscribe.experiments.judge_target import cascade_parts
from evalscribe.experiments.lookup import number_of_items
from evalscribe.experiments.scorers.stored import attach_scorers
from evalscribe.ids import Frozen
from evalscribe.json_data import StrictJson
from evalscribe.judging.builder import CASCADE
from evalscribe.judging.rubrics import DEFAULT_RUBRIC as FAILURE
from evalscribe.judging.rubrics import store_rubric
from evalscribe.model.chat import Effort
from evalscribe.model.dataset import short_id
from evalscribe.model.experiment import (
    ComponentTarget,
    Experiment,
    ExperimentConfig,
    ExperimentVersion,
    JudgeTarget,
    PromptTarget,
    TargetSpec,
)
from evalscribe.model.output_schema import validate_schema
from evalscribe.model.score import Binding
from evalscribe.model.target import TargetMessage, TargetPrompt, TargetPromptVersion, prompt_variables
from evalscribe.prompts.files import parse_yaml, read_text
from evalscribe.redaction.redact import require_no_secret
from evalscribe.settings.access import PROVIDERS
from evalscribe.store.lookup import LATEST, find_dataset_version, find_stored, find_version, version_not_found
from evalscribe.store.lookup import find_dataset as dataset_named
from evalscribe.text import NAME_LIMIT, one_line
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.definitions import ExperimentStore


class NewExperiment(Frozen):
    """Definition of an experiment. It has ids and versions in place of the names that a user gave."""

    name: str
    type: Literal["standard", "regression", "classifier"] = "standard"
    target: TargetSpec
    dataset_id: str
    dataset_version_id: str
    bindings: tuple[Binding, ...]
    """At least one scorer, with unique names. Each scorer comes after the scorers that it depends on."""
    config: ExperimentConfig = ExperimentConfig()


def create_experiment(workspace: Workspace, definition: NewExperiment) -> tuple[Experiment, ExperimentVersion]:
    """Create an experiment.

    Raises `UsageError` if the name is invalid or taken, or if there are no scorers or no items.
    """
    name = validate_experiment_name(definition.name)
    id = f"exp-{token_hex(8)}"
    version = new_version(workspace, id, definition)
    experiment = Experiment(
        id=id,
        name=name,
        type=definition.type,
        # The first run creates the collection. The collection's id is the experiment's id, because ids derived from two
        # names could be equal.
        collection_id=next(
            (collection.id for collection in workspace.store.collections.collections() if collection.name == name), id
        ),
        latest_version_id=version.id,
        created_at=version.created_at,
    )
    workspace.store.experiments.add_experiment(experiment, version)
    return experiment, version


def update_experiment(
    workspace: Workspace, experiment: Experiment, definition: NewExperiment, *, latest: bool = True
) -> ExperimentVersion:
    """Return the version with this definition. If no version has the same content, a new version is stored."""
    return workspace.store.experiments.put_version(new_version(workspace, experiment.id, definition), latest=latest)


def new_version(workspace: Workspace, experiment_id: str, definition: NewExperiment) -> ExperimentVersion:
    """Build a version. The store assigns the version's number. Raises `UsageError` if there is no scorer or no item."""
    if not definition.bindings:
        raise UsageError(
            "an experiment needs a scorer: give `builtin_scorer` NAME or `scorer_id` ID",
            fields=(
                "builtin_scorer",
                "scorer_id",
            ),
        )
    number_of_items(workspace, definition.dataset_version_id, definition.config.split)
    return ExperimentVersion(
        id=ExperimentVersion.id_of(
            experiment_id, definition.target, definition.dataset_version_id, definition.bindings, definition.config
        ),
        experiment_id=experiment_id,
        number=1,
        target=definition.target,
        dataset_id=definition.dataset_id,
        dataset_version_id=definition.dataset_version_id,
        bindings=definition.bindings,
        config=definition.config,
        created_at=workspace.now(),
    )


def version_options(experiment: Experiment, version: ExperimentVersion) -> NewExperiment:
    """Return the definition of a version."""
    return NewExperiment(
        name=experiment.name,
        type=experiment.type,
        target=version.target,
        dataset_id=version.dataset_id,
        dataset_version_id=version.dataset_version_id,
        bindings=version.bindings,
        config=version.config,
    )


def validate_experiment_name(name: str) -> str:
    """Check an experiment's name. Raises `UsageError` if the name is invalid."""
    if not name.strip() or one_line(name) != name or len(name) > NAME_LIMIT:
        raise UsageError(
            f"`name` must be one line of 1 to {NAME_LIMIT} characters, without leading or trailing spaces",
            fields=("name",),
        )
    require_no_secret(name, "`name`", fields=("name",))
    return name


def merged_config(previous: ExperimentConfig, text: str | None) -> ExperimentConfig:
    """Update a config with the keys of `text`, a JSON object. A key that is null is reset to its default.

    Raises `UsageError` if `text` is invalid. For an unknown key, the message lists all valid keys.
    """
    values = {**previous.model_dump(exclude_defaults=True), **_object(text)}
    return _parse_config({key: value for key, value in values.items() if value is not None})


def _object(text: str | None) -> dict[str, object]:
    try:
        value = StrictJson().decode("{}" if text is None else text)
    except DataError as error:
        raise UsageError(f"`config`: {error}", fields=("config",)) from None
    if not isinstance(value, dict):
        raise UsageError('`config` must be a JSON object, such as {"passed_threshold": 0.9}', fields=("config",))
    return value


def _parse_config(values: Mapping[str, object]) -> ExperimentConfig:
    if unknown := [key for key in values if key not in ExperimentConfig.model_fields]:
        raise UsageError(
            f"`config`: unknown key {unknown[0]!r}; keys: {', '.join(sorted(ExperimentConfig.model_fields))}",
            fields=("config",),
        )
    try:
        # Strict, because pydantic would otherwise read the text "3" and the value true as numbers.
        return ExperimentConfig.model_validate(values, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"`config`: {'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}",
            fields=("config",),
        ) from None


OPTIONS = {
    "component": ("deployment_id", "component_name", "component_type"),
    "prompt": ("prompt_id", "prompt_version_id"),
    "judge": ("judge", "rubric"),
}
"""Names of the options that apply to a target, by the target's type."""
TYPE_ALIASES = {"deployment": "component"}
JUDGES = ("rules", CASCADE)
"""Names of judges that are not a single model."""


class TargetOptions(Frozen):
    """Options that describe a target. None means that the option is not given."""

    type: str | None = None
    deployment_id: str | None = None
    component_name: str | None = None
    component_type: str | None = None
    prompt_id: str | None = None
    prompt_version_id: str | None = None
    judge: str | None = None
    rubric: str | None = None

    @property
    def is_set(self) -> bool:
        return any(value is not None for value in self.model_dump().values())


def resolve_target(workspace: Workspace, options: TargetOptions, previous: TargetSpec | None = None) -> TargetSpec:
    """Build a target from target options.

    Args:
        workspace: Workspace with the builds, prompts and rubrics.
        options: The options.
        previous: Target of the previous version. If the type stays the same, options that are not given keep their
            previous values. The previous cascade is kept unless `judge` is given.

    Raises:
        UsageError: An option is missing or wrong.
        NotFoundError: The build, prompt or rubric does not exist.
    """
    type_name = options.type or (previous.type if previous else None)
    if type_name is None:
        raise UsageError(
            "an experiment needs a target: give `target_type`, which is component, prompt or judge",
            fields=("target_type",),
        )
    type = TYPE_ALIASES.get(type_name, type_name)
    if type not in OPTIONS:
        raise UsageError(
            f"`target_type` {type_name!r} is unknown; use one of {', '.join((*OPTIONS, *TYPE_ALIASES))}",
            fields=("target_type",),
        )
    _refuse_others(options, type)
    if type == "prompt":
        return _prompt(workspace, options, previous if isinstance(previous, PromptTarget) else None)
    if type == "judge":
        return _judge(workspace, options, previous if isinstance(previous, JudgeTarget) else None)
    return _component(workspace, options, previous if isinstance(previous, ComponentTarget) else None)


def _component(workspace: Workspace, options: TargetOptions, previous: ComponentTarget | None) -> ComponentTarget:
    name_or_id = options.deployment_id or (previous.deployment_id if previous else None)
    if name_or_id is None:
        raise UsageError(
            "a component needs a deployment: give `deployment_id` (from `evalscribe experiments deployments create`)",
            fields=("deployment_id",),
        )
    deployment = deployments.find_deployment(workspace.store.experiments, name_or_id)
    name = options.component_name or (previous.component.name if previous else None)
    return ComponentTarget(
        deployment_id=deployment.id, component=deployments.component_of(deployment, name, options.component_type)
    )


def _prompt(workspace: Workspace, options: TargetOptions, previous: PromptTarget | None) -> PromptTarget:
    name_or_id = options.prompt_id or (previous.prompt_id if previous else None)
    if name_or_id is None:
        raise UsageError(
            "the prompt is missing: give `prompt_id` ID (from `evalscribe experiments prompts create`)",
            fields=("prompt_id",),
        )
    prompt = prompt_named(workspace.store.experiments, name_or_id)
    return PromptTarget(prompt_id=prompt.id, version=find_prompt_version(prompt, options.prompt_version_id or LATEST))


def _judge(workspace: Workspace, options: TargetOptions, previous: JudgeTarget | None) -> JudgeTarget:
    judge = options.judge or (previous.judge if previous else None)
    if judge is None:
        raise UsageError(
            "the judge is missing: give `judge`, which is rules, cascade or PROVIDER/MODEL", fields=("judge",)
        )
    provider, _, model = judge.partition("/")
    if judge not in JUDGES and (provider not in PROVIDERS or not model):
        raise UsageError(
            f"`judge` {judge!r} is unknown; use rules, cascade, or PROVIDER/MODEL with a provider of "
            f"{', '.join(PROVIDERS)}",
            fields=("judge",),
        )
    rubric = store_rubric(
        workspace.store.collections, workspace.prompts, options.rubric or (previous.rubric if previous else FAILURE)
    )
    # A version keeps the models and rubrics of its cascade, even if evalscribe.toml has
    # changed. If `judge` is given, they are read again.
    parts = previous.cascade if previous and options.judge is None else None
    if judge == CASCADE and parts is None:
        parts = cascade_parts(workspace, rubric)
    return JudgeTarget(judge=judge, rubric=f"{rubric.id}@{rubric.version}", cascade=parts)


def _refuse_others(options: TargetOptions, type: str) -> None:
    """Raise `UsageError` if an option belongs to another type of target."""
    for other_type, names in OPTIONS.items():
        for name in names:
            if other_type != type and getattr(options, name) is not None:
                raise UsageError(f"`{name}` does not apply to `target_type` {type}", fields=(name, "target_type"))


class ExperimentOptions(Frozen):
    """Options of `experiments create` and `update`. None and () mean that the option is not given."""

    name: str | None = None
    dataset_id: str | None = None
    dataset_version_id: str | None = None
    target: TargetOptions = TargetOptions()
    builtin_scorers: tuple[str, ...] = ()
    scorer_ids: tuple[str, ...] = ()
    config: str | None = None


def resolve_options(workspace: Workspace, options: ExperimentOptions) -> NewExperiment:
    """Build the definition of an experiment from options.

    Raises:
        UsageError: An option is missing or wrong.
        NotFoundError: Something that an option names does not exist.
    """
    if not options.name:
        raise UsageError("an experiment needs a name: give `name` NAME", fields=("name",))
    if not options.dataset_id and not options.dataset_version_id:
        raise UsageError("an experiment needs a dataset: give `dataset_id` ID", fields=("dataset_id",))
    if not options.builtin_scorers and not options.scorer_ids:
        raise UsageError(
            "an experiment needs a scorer: give `builtin_scorer` NAME or `scorer_id` ID",
            fields=(
                "builtin_scorer",
                "scorer_id",
            ),
        )
    dataset_id, version_id = _dataset(workspace, options)
    target = resolve_target(workspace, options.target)
    return NewExperiment(
        name=options.name,
        type="classifier" if target.type == "judge" else "standard",
        target=target,
        dataset_id=dataset_id,
        dataset_version_id=version_id,
        bindings=attach_scorers(workspace, options.builtin_scorers, options.scorer_ids),
        config=merged_config(ExperimentConfig(), options.config),
    )


def apply_options(workspace: Workspace, definition: NewExperiment, options: ExperimentOptions) -> NewExperiment:
    """Apply options to a definition.

    If scorers are given, they replace all scorers. A given config replaces only the keys that it has.

    Raises `UsageError` if an option is wrong, and `NotFoundError` if something that an option names does not exist.
    """
    changes: dict[str, Any] = {}
    if options.dataset_id or options.dataset_version_id:
        dataset_options = options.model_copy(update={"dataset_id": options.dataset_id or definition.dataset_id})
        changes["dataset_id"], changes["dataset_version_id"] = _dataset(workspace, dataset_options)
    if options.target.is_set:
        changes["target"] = resolve_target(workspace, options.target, definition.target)
    if options.builtin_scorers or options.scorer_ids:
        changes["bindings"] = attach_scorers(workspace, options.builtin_scorers, options.scorer_ids)
    if options.config is not None:
        changes["config"] = merged_config(definition.config, options.config)
    return definition.model_copy(update=changes)


def _dataset(workspace: Workspace, options: ExperimentOptions) -> tuple[str, str]:
    """Return the ids of a dataset and of its requested version, by default the latest version."""
    dataset = dataset_named(workspace.store.datasets, options.dataset_id) if options.dataset_id else None
    version = find_dataset_version(workspace.store.datasets, dataset, options.dataset_version_id or LATEST)
    return version.dataset_id, version.id


NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
MAX_OUTPUT_TOKENS = 128_000
_DELIMITER = "---\n"


class CreatedPrompt(Frozen):
    prompt: TargetPrompt
    version: TargetPromptVersion
    new: bool
    """False if no version was created, because an existing version has the same content."""


class PromptFile(Frozen):
    """Content of a prompt file. `text` is a single user message. `system` is placed before all messages."""

    model: str | None = None
    system: str | None = None
    text: str | None = None
    messages: tuple[TargetMessage, ...] = ()
    max_tokens: int = Field(default=4096, ge=1, le=MAX_OUTPUT_TOKENS)
    effort: Effort | None = None
    output_schema: dict[str, Any] | None = None

    @property
    def all_messages(self) -> tuple[TargetMessage, ...]:
        """All messages, with the system message first."""
        first = (TargetMessage(role="system", content=self.system),) if self.system else ()
        text = (TargetMessage(role="user", content=self.text),) if self.text else ()
        return (*first, *self.messages, *text)


def read_prompt(path: Path) -> PromptFile:
    """Read a prompt file. Raises `NotFoundError` if the file does not exist, `DataError` if the file is invalid."""
    return parse_prompt(read_text(path), str(path))


def parse_prompt(text: str, file_name: str) -> PromptFile:
    """Parse the text of a prompt file. `file_name` is the file's path.

    Raises `DataError` with the problem and its location.
    """
    try:
        # Editors on Windows write a byte order mark and CRLF, with which the front matter would not be recognised.
        prompt_file = PromptFile.model_validate(
            _prompt_fields(text.removeprefix("\ufeff").replace("\r\n", "\n"), file_name)
        )
        _check_messages(prompt_file, file_name)
    except RubricError as error:
        raise DataError(str(error) if error.where else f"{file_name}: {error}") from None
    except ValidationError as error:
        raise DataError(f"{file_name}: {_prompt_error(error)}") from None
    return prompt_file


def _prompt_fields(text: str, file_name: str) -> dict[str, Any]:
    match PurePath(file_name).suffix.lower():
        case ".json":
            return _mapping(StrictJson().decode(text), file_name)
        case ".yaml" | ".yml":
            return _mapping(parse_yaml(text, file_name).value, file_name)
    if not text.startswith(_DELIMITER):
        return {"text": text.strip()}
    front_matter, end_marker, body = text.removeprefix(_DELIMITER).partition(f"\n{_DELIMITER}")
    if not end_marker:
        raise DataError(f"{file_name}: the front matter begins with --- but has no --- line at its end")
    return {**_mapping(parse_yaml(front_matter, file_name).value or {}, file_name), "text": body.strip()}


def _mapping(value: object, file_name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{file_name}: a prompt must be an object with `model`, and with `messages` or `text`")
    return value


def _check_messages(prompt_file: PromptFile, file_name: str) -> None:
    roles = [message.role for message in prompt_file.all_messages]
    if prompt_file.text and prompt_file.messages:
        raise DataError(
            f"{file_name}: has both `messages` and `text`; use only one (`text` stands for a single user message)"
        )
    if "user" not in roles:
        raise DataError(f"{file_name}: has no user message")
    if roles[-1] != "user":
        raise DataError(f"{file_name}: the last message is from the {roles[-1]}; it must be a user message")
    turn_roles = [role for role in roles if role != "system"]
    if roles[len(roles) - len(turn_roles) :] != turn_roles or turn_roles[0] != "user":
        raise DataError(f"{file_name}: system messages must come first, followed by a user message")
    if not any(prompt_variables(message.content) for message in prompt_file.all_messages):
        raise DataError(f"{file_name}: has no {{{{input}}}} in its messages, so every item would get the same prompt")
    if prompt_file.output_schema is not None:
        validate_schema(prompt_file.output_schema)


def _prompt_error(error: ValidationError) -> str:
    first = error.errors(include_input=False)[0]
    path = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{path} is unknown; the fields are {', '.join(PromptFile.model_fields)}"
    return f"{path}: {first['msg'].removeprefix('Value error, ')}"


def create_prompt(
    definitions: "ExperimentStore", name: str, file: PromptFile, model: str | None, now: str
) -> CreatedPrompt:
    """Create the next version of a prompt. If a version has the same content, return that version.

    Raises `UsageError` if the name or the model is invalid.
    """
    # The ids of prompts and of their versions begin with `prompt-` and `pv-`.
    if not NAME.fullmatch(name) or name.startswith(("prompt-", "pv-")):
        raise UsageError(
            f"`name` {name}: use letters, digits, '.', '_' and '-'; do not begin with prompt- or pv-", fields=("name",)
        )
    # Prompts are stored and printed.
    require_no_secret([name, *(message.content for message in file.all_messages)], f"prompt {name[:20]}")
    version = _version(short_id("prompt", name), file, _model(model or file.model), now)
    previous = definitions.prompt(name)
    existing = _version_by_id(previous, version.id)
    prompt = previous if previous and existing else definitions.put_prompt(name, version)
    stored = existing or _version_by_id(prompt, version.id)
    assert stored is not None  # `put_prompt` has stored it
    return CreatedPrompt(prompt=prompt, version=stored, new=existing is None)


def find_prompt(definitions: "ExperimentStore", name_or_id: str) -> tuple[TargetPrompt, TargetPromptVersion]:
    """Find a prompt version by `NAME`, `NAME@2` or id. Raises `NotFoundError` with the known prompts."""
    name, _, version = name_or_id.partition("@")
    prompt = prompt_named(definitions, name)
    return prompt, find_prompt_version(prompt, version or LATEST)


def prompt_named(definitions: "ExperimentStore", name_or_id: str) -> TargetPrompt:
    """Find a prompt by name, by id, or by the beginning of an id.

    Raises `NotFoundError` if no prompt matches, and `UsageError` if several ids match.
    """
    create_command = "experiments prompts create --name N FILE"
    return find_stored("prompt", name_or_id, definitions.prompt(name_or_id), definitions.prompts, create_command)


def find_prompt_version(prompt: TargetPrompt, number_or_id: str) -> TargetPromptVersion:
    """Find a version by id, by the beginning of an id, by number, or as `latest`.

    Raises `NotFoundError`, with the known versions, if no version matches.
    """
    if version := find_version(prompt.versions, number_or_id):
        return version
    raise version_not_found(f"prompt {prompt.name}", number_or_id, prompt.versions)


def _version(prompt_id: str, file: PromptFile, model: str, now: str) -> TargetPromptVersion:
    body = {
        "model": model,
        "messages": [message.model_dump() for message in file.all_messages],
        "max_tokens": file.max_tokens,
        "effort": file.effort,
        "output_schema": file.output_schema,
    }
    id = short_id("pv", [prompt_id, body])
    return TargetPromptVersion.model_validate(
        {**body, "id": id, "prompt_id": prompt_id, "number": 1, "created_at": now}
    )


def _version_by_id(prompt: TargetPrompt | None, id: str) -> TargetPromptVersion | None:
    return next((version for version in prompt.versions if version.id == id), None) if prompt else None


def _model(model: str | None) -> str:
    provider, _, name = (model or "").partition("/")
    if provider not in PROVIDERS or not name:
        problem = f"model {model} is not known" if model else "the prompt names no model"
        raise UsageError(
            f"{problem}: set `model:` in the file, or give `model` PROVIDER/MODEL. Providers: {', '.join(PROVIDERS)}",
            fields=("model",),
        )
    return f"{provider}/{name}"
