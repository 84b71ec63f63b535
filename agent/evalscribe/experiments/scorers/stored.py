"""Create and find scorers, and attach them to experiments."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, JsonValue

from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.experiments.python_host import FunctionDescription, describe
from evalscribe.experiments.scorers.catalogue import Specify, is_reserved, order_bindings, parse_binding, scorer_spec
from evalscribe.experiments.scorers.definition import ScorerConfig, validate_config
from evalscribe.experiments.scorers.model_specs import NAMES, RubricSources, model_spec
from evalscribe.ids import Frozen
from evalscribe.json_data import StrictJson
from evalscribe.judging.rubrics import store_rubric
from evalscribe.model.score import CUSTOM, Binding, Scorer, ScorerSpec
from evalscribe.prompts.templates import Prompts
from evalscribe.redaction.redact import require_no_secret
from evalscribe.store.lookup import find_stored
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.collections import CollectionStore
    from evalscribe.store.definitions import ExperimentStore

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,79}")
PYTHON = "python:"


class AttachedScorers(ScorerConfig):
    """JSON object that attaches a created scorer to an experiment."""

    name: str
    required: bool = True
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None


class CreatedScorer(Frozen):
    scorer: Scorer
    new: bool
    """False if no version was created, because the scorer's latest version has the same content."""


def rubric_sources(store: "CollectionStore", prompts: Prompts) -> RubricSources:
    """Return the stored rubrics and prompts that `evalscribe judge` would use."""
    return RubricSources(prompts, lambda name: store_rubric(store, prompts, name))


def own_prompts(bindings: Sequence[Binding], prompts: Prompts) -> tuple[str, ...]:
    """Return the names of the workspace's prompts that replace built-in prompts.

    The result is empty if none of the scorers asks a model.
    """
    uses_model = any(binding.spec.rubric is not None for binding in bindings)
    return (*prompts.overrides("judging"), *prompts.overrides("rubrics")) if uses_model else ()


def specify(sources: RubricSources) -> Specify:
    """Return a function that builds the spec of any built-in scorer, with or without a model."""
    return lambda name, config: model_spec(name, config, sources) if name in NAMES else scorer_spec(name, config)


def attach_scorers(workspace: Workspace, builtin: Sequence[str], scorer_ids: Sequence[str] = ()) -> tuple[Binding, ...]:
    """Return the bindings of an experiment. Each binding comes after the bindings that it depends on.

    Args:
        workspace: Workspace whose rubrics and prompts are used by scorers with a model.
        builtin: Built-in scorers. Each is a `NAME`, or JSON with `name`, `config`, `as`, `required`, `threshold`.
        scorer_ids: Created scorers. Each is an id, a name, or JSON with `name`, `required`, `threshold`.

    Raises:
        UsageError: A built-in scorer does not exist, or a scorer's config is wrong.
        NotFoundError: A created scorer does not exist.
    """
    definitions, build_spec = (
        workspace.store.experiments,
        specify(rubric_sources(workspace.store.collections, workspace.prompts)),
    )
    attached = [parse_binding(text, build_spec) for text in builtin]
    for binding in attached:
        # Configs are stored and printed.
        require_no_secret(binding.spec.config, f"the config of scorer {binding.spec.name}")
    return order_bindings([*attached, *(_created_binding(definitions, text) for text in scorer_ids)])


async def function_spec(
    name: str | None, function: str, folder: Path, config: Mapping[str, JsonValue]
) -> tuple[ScorerSpec, str]:
    """Return the spec and the description of a Python function.

    `function` has the form `python:package.module:function`. The function is imported once, from `folder`.
    Raises `UsageError` if the function cannot be used.
    """
    address = function.removeprefix(PYTHON)
    if address == function or address.count(":") != 1:
        raise UsageError(f"`function` {function}: expected python:package.module:function", fields=("function",))
    if name is not None:
        check_name(name)
    declaration = await describe(folder, address, "scorer")
    spec = custom_spec(name or declaration.name or address.rpartition(":")[2], declaration, config)
    return spec, declaration.description


def custom_spec(name: str, function: FunctionDescription, config: Mapping[str, JsonValue]) -> ScorerSpec:
    """Build the spec of a decorated function.

    Raises `UsageError` for a config key that the decorator does not declare.
    """
    unknown = [key for key in config if function.config and key not in function.config]
    if unknown:
        raise UsageError(f"scorer {name}: unknown key {unknown[0]!r}; known keys: {', '.join(function.config)}")
    if name in function.depends_on:
        raise UsageError(f"scorer {name} depends on itself")
    return ScorerSpec(
        name=name,
        scorer=CUSTOM,
        config={**function.config, **config},
        address=function.address,
        code=function.code,
        depends_on=function.depends_on,
    )


def builtin_spec(name: str, builtin: str, config: Mapping[str, JsonValue], sources: RubricSources) -> ScorerSpec:
    """Build the spec of a new, named scorer from a built-in scorer and a config.

    Raises `UsageError` if the built-in scorer does not exist or the config is wrong.
    """
    return specify(sources)(builtin, config).model_copy(update={"name": name})


def check_name(name: str) -> None:
    """Check a scorer's name. Raises `UsageError` if the name is invalid or reserved."""
    if is_reserved(name):
        raise UsageError(f"a scorer cannot be named {name}: that name belongs to a built-in scorer")
    if not NAME.fullmatch(name):
        raise UsageError(f"invalid scorer name {name[:80]!r}: use a letter, then letters, digits, '_', '.' and '-'")


def create_scorer(
    definitions: "ExperimentStore", spec: ScorerSpec, now: str, description: str = "", folder: str = ""
) -> CreatedScorer:
    """Store the spec as the newest version of the scorer that has the spec's name.

    Raises `UsageError` for an invalid name.
    """
    check_name(spec.name)
    require_no_secret([spec.name, description, spec.config], f"the config of scorer {spec.name[:20]}")
    previous = _find_by_name(definitions, spec.name)
    scorer = Scorer(
        id=previous.id if previous else f"scorer-{token_hex(8)}",
        name=spec.name,
        description=description,
        spec=spec,
        folder=folder,
        created_at=now,
    )
    stored = definitions.put_scorer(scorer)
    return CreatedScorer(scorer=stored, new=previous is None or previous.number != stored.number)


def find_scorer(definitions: "ExperimentStore", name_or_id: str) -> Scorer:
    """Find a created scorer by name, by id, or by the beginning of an id.

    Raises `NotFoundError` if no created scorer matches, and `UsageError` if several ids match.
    """
    scorer = definitions.scorer(name_or_id)
    if scorer is None and is_reserved(name_or_id):
        raise NotFoundError(
            f"{name_or_id!r} is a built-in scorer, not one created by `evalscribe experiments scorers create`: "
            f"use `builtin_scorer` {name_or_id!r}",
            fields=("builtin_scorer",),
        )
    return find_stored("scorer", name_or_id, scorer, definitions.scorers, "experiments scorers create")


def parse_config(text: str | None) -> dict[str, JsonValue]:
    """Parse the option `config`. Raises `UsageError` if the option is not a JSON object."""
    try:
        config = StrictJson().decode(text or "{}")
    except DataError as error:
        raise UsageError(f"`config`: {error}", fields=("config",)) from None
    if not isinstance(config, dict):
        raise UsageError('`config` must be a JSON object, such as {"pattern": "refund"}', fields=("config",))
    return config


def _created_binding(definitions: "ExperimentStore", text: str) -> Binding:
    attached = AttachedScorers(name=text)
    if text.lstrip().startswith("{"):
        attached = validate_config(AttachedScorers, "of `scorer_id`", parse_config(text), fields=("scorer_id",))
    scorer = find_scorer(definitions, attached.name)
    return Binding(spec=scorer.spec, scorer_id=scorer.id, required=attached.required, threshold=attached.threshold)


def _find_by_name(definitions: "ExperimentStore", name: str) -> Scorer | None:
    scorer = definitions.scorer(name)
    # `scorer` also finds scorers by id.
    return scorer if scorer is not None and scorer.name == name else None
