"""Content ids, path parts and model names."""

import hashlib
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

RUN_ID_PREFIX = 8
"""Length of the run id prefix in a report's file name (seed: `{runIdPrefix}_{date}.md`)."""

UNKNOWN_MODEL = "unknown-model"
"""Name that a deployment returns for a model whose row was deleted. It matches any model."""
ROUTING_PROVIDERS = frozenset(
    (
        *("openrouter", "amazon-bedrock", "azure", "google-ai-studio", "google-vertex", "baseten", "cerebras"),
        *("deepinfra", "fireworks", "groq", "nebius", "novita", "parasail", "sambanova", "siliconflow", "together"),
    )
)
"""Providers that only serve other vendors' models. Their names do not identify the vendor."""


class Frozen(BaseModel):
    """Base of values: immutable, without undeclared fields.

    The validator is built on first use, because a command uses only a fifth of the classes that it imports.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


_FIELD_NAMES: dict[frozenset[str], set[str]] = {}
_Value = TypeVar("_Value", bound=Frozen)


def share_field_names(value: _Value) -> _Value:
    """Save memory by sharing pydantic's set of passed field names between values with equal sets.

    Pydantic makes such a set for each value. From five fields on, the set takes 0.7 kB, more than the fields
    themselves. The sets took 12 of the 25 kB that an analysis held in memory for each failure.
    """
    names = value.__pydantic_fields_set__
    object.__setattr__(value, "__pydantic_fields_set__", _FIELD_NAMES.setdefault(frozenset(names), names))
    return value


def canonical_json(value: object) -> str:
    """Serialise a JSON value canonically: sorted keys, no white space, UTF-8. Content ids depend on this format."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)


def content_id(value: object) -> str:
    """Return `sha256:<64 hex>` of a JSON value or pydantic model.

    Paid answers are stored under such ids. The id of a pydantic model depends on the names and values of its fields,
    including defaults, but not on the name or module of its class.
    """
    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"no canonical JSON for {type(value).__name__}")


def path_part(name: str) -> str:
    """Convert untrusted text to a file name of letters, digits, `.`, `_` and `-`; never empty, `.` or `..`."""
    part = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".").strip("-")[:100]
    return part or "unnamed"


@lru_cache(1024)
def model_folder(provider: str, model: str) -> tuple[str, ...]:
    """Return a model's folders below `reports/`: `("openai", "gpt-5.3-codex")`, `("openrouter", "arcee-ai",
    "trinity")`.

    A slug that repeats its provider loses the prefix; any other slash separates folders.
    """
    parts = [part for part in model.split("/") if part]
    if len(parts) > 1 and _spelling(parts[0]) == _spelling(provider):
        parts = parts[1:]
    return (path_part(provider), *(path_part(part) for part in parts or ["unnamed"]))


def same_model(provider_a: str, model_a: str, provider_b: str, model_b: str) -> bool:
    """Return True if two spellings name one model, such as `gemini-3-1-pro`, `gemini-3.1-pro` and
    `google/gemini-3.1-pro`.
    """
    return model_key(provider_a, model_a) == model_key(provider_b, model_b)


@lru_cache(1024)
def model_key(provider: str, model: str) -> tuple[str, ...]:
    """Return the vendor and name of a model, the same for all spellings.

    The vendor is the part of the slug before the slash: `openrouter` and `google-vertex` only serve
    `anthropic/claude-opus-4.6`. Without a slash, the provider is the vendor.
    """
    slug = tuple(_spelling(part) for part in model.split("/") if part)
    return slug if len(slug) > 1 else tuple(_spelling(part) for part in model_folder(provider, model))


@lru_cache(4096)
def folder_fit(provider: str, model: str, folder: tuple[str, ...]) -> int | None:
    """Rank how well a folder below `reports/` fits a model; None if it belongs to another model.

    0: `<vendor>/<name>`. 1: below the serving provider, such as `openrouter/arcee-ai/trinity`. 2: the names are equal
    and the vendor is unknown on one side. Dots and hyphens are equivalent.
    """
    slug = tuple(_spelling(part) for part in model.split("/") if part) or ("",)
    spelled = tuple(_spelling(part) for part in folder)
    host, key = _spelling(provider), model_key(provider, model)
    if len(folder) < 2:
        return None
    if spelled == key:
        return 0
    if spelled[1:] == key or spelled == (host, *slug) or spelled == (host, *slug[1:]):
        return 1
    if spelled[1:] != key[1:] or slug[-1] == UNKNOWN_MODEL:
        return None
    return 2 if len(slug) > 1 or spelled[0] in ROUTING_PROVIDERS or host in ROUTING_PROVIDERS else None


def choose_folder(provider: str, model: str, reports: Iterable[str]) -> str:
    """Choose the folder for a new report: one that already has reports on the model, else `<provider>/<name>`.

    If the provider is not the slug's vendor, the user chose it. The folder then belongs to this provider.

    Args:
        reports: Names of the model's reports, relative to the reports folder.
    """
    new = "/".join(model_folder(provider, model))
    free = _spelling(provider) == model_key(provider, model)[0]
    fits = {
        folder: fit
        for folder in {name.rpartition("/")[0] for name in reports}
        if (fit := folder_fit(provider, model, tuple(folder.split("/")))) is not None
        and ((free and (fit < 2 or "/" in model)) or _spelling(folder.partition("/")[0]) == _spelling(provider))
    }
    return min(fits, key=lambda folder: (fits[folder], folder != new, folder), default=new)


def same_experiment(a: str | None, b: str | None) -> bool:
    """Return True if two experiment names are equal, ignoring text in parentheses. A missing name matches any name."""
    if not a or not b:
        return True
    return _experiment_key(a) == _experiment_key(b)


def run_id_prefix(run_id: str) -> str:
    return path_part(run_id)[:RUN_ID_PREFIX]


@lru_cache(1024)
def report_stems(run_id: str) -> tuple[str, str, str]:
    """Return the possible stems of a run's report file, without the date. Only the last one is certain to be unique."""
    stem = path_part(run_id)
    return run_id_prefix(run_id), stem, f"{stem}-{content_id(run_id).removeprefix('sha256:')[:12]}"


def _experiment_key(name: str) -> str:
    return _spelling(re.sub(r"\(.*?\)", "", name)) or "default"


def _spelling(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
