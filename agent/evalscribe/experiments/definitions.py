"""Create, change and list experiments and the prompts that they test."""

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
    """A definition with all references resolved."""

    name: str
    type: Literal["standard", "regression", "classifier"] = "standard"
    target: TargetSpec
    dataset_id: str
    dataset_version_id: str
    bindings: tuple[Binding, ...]
    """The scorers: at least one, with unique names, in topological order of their dependencies."""
    config: ExperimentConfig = ExperimentConfig()


def create_experiment(workspace: Workspace, wanted: NewExperiment) -> tuple[Experiment, ExperimentVersion]:
    """Create an experiment. Raises `UsageError` if the name is invalid or taken, or without scorers or items."""
    name = validate_experiment_name(wanted.name)
    id = f"exp-{token_hex(8)}"
    version = new_version(workspace, id, wanted)
    experiment = Experiment(
        id=id,
        name=name,
        type=wanted.type,
        # The first run creates the collection. It gets the experiment's id, since two names could give the same id.
        collection_id=next((one.id for one in workspace.store.collections.collections() if one.name == name), id),
        latest_version_id=version.id,
        created_at=version.created_at,
    )
    workspace.store.experiments.add_experiment(experiment, version)
    return experiment, version


def update_experiment(
    workspace: Workspace, experiment: Experiment, wanted: NewExperiment, *, latest: bool = True
) -> ExperimentVersion:
    """Return the version with this definition: a new one, or an existing one with the same content."""
    return workspace.store.experiments.put_version(new_version(workspace, experiment.id, wanted), latest=latest)


def new_version(workspace: Workspace, experiment_id: str, wanted: NewExperiment) -> ExperimentVersion:
    """Build a version without a number, which the store assigns. Raises `UsageError` without a scorer or an item."""
    if not wanted.bindings:
        raise UsageError(
            "an experiment needs a scorer: `builtin_scorer` NAME or `scorer_id` ID",
            fields=(
                "builtin_scorer",
                "scorer_id",
            ),
        )
    number_of_items(workspace, wanted.dataset_version_id, wanted.config.split)
    return ExperimentVersion(
        id=ExperimentVersion.id_of(
            experiment_id, wanted.target, wanted.dataset_version_id, wanted.bindings, wanted.config
        ),
        experiment_id=experiment_id,
        number=1,
        target=wanted.target,
        dataset_id=wanted.dataset_id,
        dataset_version_id=wanted.dataset_version_id,
        bindings=wanted.bindings,
        config=wanted.config,
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
    """Check an experiment's name. Raises `UsageError` if it is invalid."""
    if not name.strip() or one_line(name) != name or len(name) > NAME_LIMIT:
        raise UsageError(
            f"`name` must be one line of 1 to {NAME_LIMIT} characters, without spaces around it", fields=("name",)
        )
    require_no_secret(name, "`name`", fields=("name",))
    return name


def merged_config(before: ExperimentConfig, text: str | None) -> ExperimentConfig:
    """Change the keys of a config that the JSON object `text` has; null resets a key to its default.

    Raises `UsageError` naming the invalid key and the valid keys.
    """
    given = {**before.model_dump(exclude_defaults=True), **_object(text)}
    return _checked({key: value for key, value in given.items() if value is not None})


def _object(text: str | None) -> dict[str, object]:
    try:
        given = StrictJson().decode("{}" if text is None else text)
    except DataError as error:
        raise UsageError(f"`config`: {error}", fields=("config",)) from None
    if not isinstance(given, dict):
        raise UsageError('`config` must be a JSON object, such as {"passed_threshold": 0.9}', fields=("config",))
    return given


def _checked(given: Mapping[str, object]) -> ExperimentConfig:
    if unknown := [key for key in given if key not in ExperimentConfig.model_fields]:
        raise UsageError(
            f"`config`: unknown key {unknown[0]!r}; keys: {', '.join(sorted(ExperimentConfig.model_fields))}",
            fields=("config",),
        )
    try:
        return ExperimentConfig.model_validate(given, strict=True)
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
"""Names of the options that apply to each type of target."""
OTHER_WORDS = {"deployment": "component"}
JUDGES = ("rules", CASCADE)
"""Names of judges that are not a single model."""


class TargetOptions(Frozen):
    """Options that describe a target; None means not given."""

    type: str | None = None
    deployment_id: str | None = None
    component_name: str | None = None
    component_type: str | None = None
    prompt_id: str | None = None
    prompt_version_id: str | None = None
    judge: str | None = None
    rubric: str | None = None

    @property
    def said(self) -> bool:
        return any(value is not None for value in self.model_dump().values())


def resolve_target(workspace: Workspace, asked: TargetOptions, before: TargetSpec | None = None) -> TargetSpec:
    """Resolve target options into a target.

    Args:
        workspace: Workspace with the builds, prompts and rubrics.
        asked: The options.
        before: Target of the previous version. If the type is the same, omitted options keep its
            values, and its cascade is kept unless `judge` is given.

    Raises:
        UsageError: An option is missing or wrong.
        NotFoundError: The build, prompt or rubric does not exist.
    """
    named = asked.type or (before.type if before else None)
    if named is None:
        raise UsageError(
            "an experiment needs a target: `target_type` component, prompt or judge", fields=("target_type",)
        )
    type = OTHER_WORDS.get(named, named)
    if type not in OPTIONS:
        raise UsageError(
            f"`target_type` {named!r} is unknown; use one of {', '.join((*OPTIONS, *OTHER_WORDS))}",
            fields=("target_type",),
        )
    _refuse_others(asked, type)
    if type == "prompt":
        return _prompt(workspace, asked, before if isinstance(before, PromptTarget) else None)
    if type == "judge":
        return _judge(workspace, asked, before if isinstance(before, JudgeTarget) else None)
    return _component(workspace, asked, before if isinstance(before, ComponentTarget) else None)


def _component(workspace: Workspace, asked: TargetOptions, before: ComponentTarget | None) -> ComponentTarget:
    named = asked.deployment_id or (before.deployment_id if before else None)
    if named is None:
        raise UsageError(
            "a component needs a deployment: `deployment_id` (from `evalscribe experiments deployments create`)",
            fields=("deployment_id",),
        )
    deployment = deployments.find_deployment(workspace.store.experiments, named)
    name = asked.component_name or (before.component.name if before else None)
    return ComponentTarget(
        deployment_id=deployment.id, component=deployments.component_of(deployment, name, asked.component_type)
    )


def _prompt(workspace: Workspace, asked: TargetOptions, before: PromptTarget | None) -> PromptTarget:
    named = asked.prompt_id or (before.prompt_id if before else None)
    if named is None:
        raise UsageError(
            "missing prompt: `prompt_id` ID (created by `evalscribe experiments prompts create`)", fields=("prompt_id",)
        )
    prompt = prompt_named(workspace.store.experiments, named)
    return PromptTarget(prompt_id=prompt.id, version=find_prompt_version(prompt, asked.prompt_version_id or LATEST))


def _judge(workspace: Workspace, asked: TargetOptions, before: JudgeTarget | None) -> JudgeTarget:
    judge = asked.judge or (before.judge if before else None)
    if judge is None:
        raise UsageError("missing judge: `judge` rules, cascade or PROVIDER/MODEL", fields=("judge",))
    provider, _, model = judge.partition("/")
    if judge not in JUDGES and (provider not in PROVIDERS or not model):
        raise UsageError(
            f"`judge` {judge!r} is unknown; use rules, cascade, or PROVIDER/MODEL with a provider of "
            f"{', '.join(PROVIDERS)}",
            fields=("judge",),
        )
    found = store_rubric(
        workspace.store.collections, workspace.prompts, asked.rubric or (before.rubric if before else FAILURE)
    )
    parts = before.cascade if before and asked.judge is None else None
    if judge == CASCADE and parts is None:
        parts = cascade_parts(workspace, found)
    return JudgeTarget(judge=judge, rubric=f"{found.id}@{found.version}", cascade=parts)


def _refuse_others(asked: TargetOptions, type: str) -> None:
    """Raise `UsageError` if an option belongs to another type of target."""
    for of, names in OPTIONS.items():
        for name in names:
            if of != type and getattr(asked, name) is not None:
                raise UsageError(f"`{name}` does not apply to `target_type` {type}", fields=(name, "target_type"))


class ExperimentOptions(Frozen):
    """Options of `experiments create` and `update`; None and () mean not given."""

    name: str | None = None
    dataset_id: str | None = None
    dataset_version_id: str | None = None
    target: TargetOptions = TargetOptions()
    builtin_scorers: tuple[str, ...] = ()
    scorer_ids: tuple[str, ...] = ()
    config: str | None = None


def resolve_options(workspace: Workspace, asked: ExperimentOptions) -> NewExperiment:
    """Resolve options into a definition.

    Raises:
        UsageError: An option is missing or wrong.
        NotFoundError: Something that an option names does not exist.
    """
    if not asked.name:
        raise UsageError("an experiment needs a name: `name` NAME", fields=("name",))
    if not asked.dataset_id and not asked.dataset_version_id:
        raise UsageError("an experiment needs a dataset: `dataset_id` ID", fields=("dataset_id",))
    if not asked.builtin_scorers and not asked.scorer_ids:
        raise UsageError(
            "an experiment needs a scorer: `builtin_scorer` NAME or `scorer_id` ID",
            fields=(
                "builtin_scorer",
                "scorer_id",
            ),
        )
    dataset_id, version_id = _dataset(workspace, asked)
    target = resolve_target(workspace, asked.target)
    return NewExperiment(
        name=asked.name,
        type="classifier" if target.type == "judge" else "standard",
        target=target,
        dataset_id=dataset_id,
        dataset_version_id=version_id,
        bindings=attach_scorers(workspace, asked.builtin_scorers, asked.scorer_ids),
        config=merged_config(ExperimentConfig(), asked.config),
    )


def apply_options(workspace: Workspace, before: NewExperiment, asked: ExperimentOptions) -> NewExperiment:
    """Apply options to a definition. Given scorers replace all scorers; a given config replaces only its own keys.

    Raises the errors of `resolve_options`.
    """
    changes: dict[str, Any] = {}
    if asked.dataset_id or asked.dataset_version_id:
        within = asked.model_copy(update={"dataset_id": asked.dataset_id or before.dataset_id})
        changes["dataset_id"], changes["dataset_version_id"] = _dataset(workspace, within)
    if asked.target.said:
        changes["target"] = resolve_target(workspace, asked.target, before.target)
    if asked.builtin_scorers or asked.scorer_ids:
        changes["bindings"] = attach_scorers(workspace, asked.builtin_scorers, asked.scorer_ids)
    if asked.config is not None:
        changes["config"] = merged_config(before.config, asked.config)
    return before.model_copy(update=changes)


def _dataset(workspace: Workspace, asked: ExperimentOptions) -> tuple[str, str]:
    """Return the ids of the dataset and of the named version, by default the latest version."""
    dataset = dataset_named(workspace.store.datasets, asked.dataset_id) if asked.dataset_id else None
    version = find_dataset_version(workspace.store.datasets, dataset, asked.dataset_version_id or LATEST)
    return version.dataset_id, version.id


NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
MAX_OUTPUT_TOKENS = 128_000
_FENCE = "---\n"


class CreatedPrompt(Frozen):
    prompt: TargetPrompt
    version: TargetPromptVersion
    new: bool
    """False if a version has the same content."""


class PromptFile(Frozen):
    """Content of a prompt file. `text` is a single user message; `system` precedes all messages."""

    model: str | None = None
    system: str | None = None
    text: str | None = None
    messages: tuple[TargetMessage, ...] = ()
    max_tokens: int = Field(default=4096, ge=1, le=MAX_OUTPUT_TOKENS)
    effort: Effort | None = None
    output_schema: dict[str, Any] | None = None

    @property
    def said(self) -> tuple[TargetMessage, ...]:
        """All messages, in order."""
        first = (TargetMessage(role="system", content=self.system),) if self.system else ()
        text = (TargetMessage(role="user", content=self.text),) if self.text else ()
        return (*first, *self.messages, *text)


def read_prompt(path: Path) -> PromptFile:
    """Read a prompt file. Raises `NotFoundError` or `DataError`."""
    return parse_prompt(read_text(path), str(path))


def parse_prompt(text: str, where: str) -> PromptFile:
    """Parse a prompt file; `where` is its path. Raises `DataError` with the problem and its location."""
    try:
        made = PromptFile.model_validate(_prompt_fields(text.removeprefix("\ufeff").replace("\r\n", "\n"), where))
        _check_messages(made, where)
    except RubricError as error:
        raise DataError(str(error) if error.where else f"{where}: {error}") from None
    except ValidationError as error:
        raise DataError(f"{where}: {_prompt_error(error)}") from None
    return made


def _prompt_fields(text: str, where: str) -> dict[str, Any]:
    match PurePath(where).suffix.lower():
        case ".json":
            return _mapping(StrictJson().decode(text), where)
        case ".yaml" | ".yml":
            return _mapping(parse_yaml(text, where).value, where)
    if not text.startswith(_FENCE):
        return {"text": text.strip()}
    front, ended, body = text.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    if not ended:
        raise DataError(f"{where}: the front matter begins with --- but has no --- line at its end")
    return {**_mapping(parse_yaml(front, where).value or {}, where), "text": body.strip()}


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where}: a prompt is an object with `model`, and with `messages` or `text`")
    return value


def _check_messages(made: PromptFile, where: str) -> None:
    roles = [message.role for message in made.said]
    if made.text and made.messages:
        raise DataError(f"{where}: has both `messages` and `text`; `text` stands for a single user message")
    if "user" not in roles:
        raise DataError(f"{where}: has no user message")
    if roles[-1] != "user":
        raise DataError(f"{where}: the last message is from the {roles[-1]}; it must be a user message")
    spoken = [role for role in roles if role != "system"]
    if roles[len(roles) - len(spoken) :] != spoken or spoken[0] != "user":
        raise DataError(f"{where}: system messages must come first, followed by a user message")
    if not any(prompt_variables(message.content) for message in made.said):
        raise DataError(f"{where}: has no {{{{input}}}}: every item would get the same prompt")
    if made.output_schema is not None:
        validate_schema(made.output_schema)


def _prompt_error(error: ValidationError) -> str:
    first = error.errors(include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{place} is unknown; the fields are {', '.join(PromptFile.model_fields)}"
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


def create_prompt(
    definitions: "ExperimentStore", name: str, file: PromptFile, model: str | None, now: str
) -> CreatedPrompt:
    """Create the next version of a prompt, or return the one with the same content. Raises `UsageError`."""
    if not NAME.fullmatch(name) or name.startswith(("prompt-", "pv-")):
        raise UsageError(
            f"`name` {name}: use letters, digits, '.', '_' and '-'; do not begin with prompt- or pv-", fields=("name",)
        )
    require_no_secret([name, *(message.content for message in file.said)], f"prompt {name[:20]}")
    version = _version(short_id("prompt", name), file, _model(model or file.model), now)
    before = definitions.prompt(name)
    there = _of_id(before, version.id)
    prompt = before if before and there else definitions.put_prompt(name, version)
    kept = there or _of_id(prompt, version.id)
    assert kept is not None  # `put_prompt` stored it
    return CreatedPrompt(prompt=prompt, version=kept, new=there is None)


def find_prompt(definitions: "ExperimentStore", named: str) -> tuple[TargetPrompt, TargetPromptVersion]:
    """Find `NAME`, `NAME@2`, or an id. Raises `NotFoundError` listing the known ones."""
    name, _, version = named.partition("@")
    prompt = prompt_named(definitions, name)
    return prompt, find_prompt_version(prompt, version or LATEST)


def prompt_named(definitions: "ExperimentStore", named: str) -> TargetPrompt:
    """Find a prompt as in `find_stored`."""
    maker = "experiments prompts create --name N FILE"
    return find_stored("prompt", named, definitions.prompt(named), definitions.prompts, maker)


def find_prompt_version(prompt: TargetPrompt, named: str) -> TargetPromptVersion:
    """Find a version by id, by number, or as `latest`. Raises `NotFoundError` listing the known ones."""
    if version := find_version(prompt.versions, named):
        return version
    raise version_not_found(f"prompt {prompt.name}", named, prompt.versions)


def _version(prompt_id: str, file: PromptFile, model: str, now: str) -> TargetPromptVersion:
    body = {
        "model": model,
        "messages": [message.model_dump() for message in file.said],
        "max_tokens": file.max_tokens,
        "effort": file.effort,
        "output_schema": file.output_schema,
    }
    id = short_id("pv", [prompt_id, body])
    return TargetPromptVersion.model_validate(
        {**body, "id": id, "prompt_id": prompt_id, "number": 1, "created_at": now}
    )


def _of_id(prompt: TargetPrompt | None, id: str) -> TargetPromptVersion | None:
    return next((one for one in prompt.versions if one.id == id), None) if prompt else None


def _model(model: str | None) -> str:
    provider, _, name = (model or "").partition("/")
    if provider not in PROVIDERS or not name:
        asked = f"model {model} is not known" if model else "it names no model"
        raise UsageError(
            f"{asked}: set `model:` in the file or `model` PROVIDER/MODEL, of {', '.join(PROVIDERS)}", fields=("model",)
        )
    return f"{provider}/{name}"
