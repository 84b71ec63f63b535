"""Every scorer that there is by name, and what is said of a name that is none."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.scorers import json_schema, json_values, regex_match, texts, tool_calls, trace_checks
from evalscribe.judging.scorers.aliases import ALIASES, REFUSED
from evalscribe.judging.scorers.assertions import scorer as assertions
from evalscribe.judging.scorers.kind import Alias, AnyAlias, AnyKind, Kind

_WITHOUT_MODEL: tuple[AnyKind, ...] = (
    *texts.KINDS,
    *regex_match.KINDS,
    *json_values.KINDS,
    *json_schema.KINDS,
    *assertions.KINDS,
    *tool_calls.KINDS,
    *trace_checks.KINDS,
)


class Listed(Frozen):
    """A scorer's name, for people who choose one."""

    name: str
    line: str
    """What it asks."""
    of: str | None = None
    """The scorer that it is a setting of; None for one of its own."""
    aliases: tuple[str, ...] = ()
    needs_model: bool = False
    required: tuple[str, ...] = ()
    """Keys of its config that have no default."""
    config_schema: dict[str, Any]
    """JSON Schema of its config."""


@cache
def kinds() -> Mapping[str, AnyKind]:
    """By name; those that need a model come last."""
    from evalscribe.judging.scorers.model.configs import CONFIGS
    from evalscribe.judging.scorers.model.specs import NAMES

    asking = [Kind(name, line, CONFIGS[name], None) for name, line in NAMES.items()]
    return {kind.name: kind for kind in (*_WITHOUT_MODEL, *asking)}


def names() -> tuple[Listed, ...]:
    """The scorers, then the other names of their settings."""
    return (*(_listed(kind) for kind in kinds().values()), *(_listed(alias) for alias in ALIASES.values()))


def reserved(name: str) -> bool:
    """Whether no scorer of the user's own may be called so."""
    return name in kinds() or name in ALIASES or name in REFUSED


def found(name: str) -> AnyKind | AnyAlias:
    """Raises `UsageError` for a name that is none, with what to use in its place."""
    if name in REFUSED:
        raise UsageError(f"there is no scorer {name}: {REFUSED[name]}")
    one = kinds().get(name) or ALIASES.get(name)
    if one is None:
        near = get_close_matches(name, (*kinds(), *ALIASES), n=3)
        meant = f"did you mean {' or '.join(near)}?" if near else f"there is: {', '.join(kinds())}"
        raise UsageError(f"there is no scorer {name[:80]!r}; {meant}")
    return one


def _listed(one: AnyKind | AnyAlias) -> Listed:
    schema = one.config.model_json_schema(by_alias=True)
    return Listed(
        name=one.name,
        line=one.line,
        of=one.of if isinstance(one, Alias) else None,
        aliases=tuple(alias.name for alias in ALIASES.values() if alias.of == one.name),
        needs_model=isinstance(one, Kind) and one.check is None,
        required=tuple(schema.get("required", ())),
        config_schema=schema,
    )
