"""Functions for content ids, names of files and folders, and names of models."""

import hashlib
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

RUN_ID_PREFIX = 8
"""Number of characters of the run id in a report's file name.

The format comes from the seed reports: `{runIdPrefix}_{date}.md`.
"""

UNKNOWN_MODEL = "unknown-model"
"""Name that a deployment returns for a model that was deleted from its database. This name matches any model."""
ROUTING_PROVIDERS = frozenset(
    (
        *("openrouter", "amazon-bedrock", "azure", "google-ai-studio", "google-vertex", "baseten", "cerebras"),
        *("deepinfra", "fireworks", "groq", "nebius", "novita", "parasail", "sambanova", "siliconflow", "together"),
    )
)
"""Providers that only serve models of other vendors, so that the provider's name does not identify the vendor of a
model.
"""


class Frozen(BaseModel):
    """Base of immutable value classes that refuse undeclared fields.

    The validator of a class is built when it is first used, because a command uses only a fifth of the classes that it
    imports.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


_FIELD_NAMES: dict[frozenset[str], set[str]] = {}
_Value = TypeVar("_Value", bound=Frozen)


def share_field_names(value: _Value) -> _Value:
    """Save memory by letting values with equal field names share one set of these names. Return the same value.

    For each value, pydantic creates a new set with the names of the passed fields. A set of five or more
    names takes 0.7 kB, which is more than the fields themselves. The sets took 12 of the 25 kB that an analysis held in
    memory for each failure.
    """
    names = value.__pydantic_fields_set__
    object.__setattr__(value, "__pydantic_fields_set__", _FIELD_NAMES.setdefault(frozenset(names), names))
    return value


def canonical_json(value: object) -> str:
    """Serialise a JSON value canonically: sorted keys, no whitespace, UTF-8. Content ids depend on this format."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)


def content_id(value: object) -> str:
    """Return `sha256:<64 hex>` of a JSON value or pydantic model.

    Paid answers of models are stored under such ids. The id of a pydantic model depends on the names and values of its
    fields, including defaults, but not on the name or module of its class.
    """
    # JSON can contain lone surrogates, which UTF-8 refuses without `surrogatepass`.
    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"no canonical JSON for {type(value).__name__}")


def path_part(name: str) -> str:
    """Convert untrusted text to a file name of letters, digits, `.`, `_` and `-`.

    The result is never empty, `.` or `..`.
    """
    # Most file systems allow names of 255 bytes, and reports add a date and a suffix to this part.
    part = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".").strip("-")[:100]
    return part or "unnamed"


@lru_cache(1024)
def model_folder(provider: str, model: str) -> tuple[str, ...]:
    """Return a model's folders below `reports/`: `("openai", "gpt-5.3-codex")`, `("openrouter", "arcee-ai",
    "trinity")`.

    If the model's name begins with the provider and a slash, that prefix is removed. Every other slash in the name
    separates two folders.
    """
    parts = [part for part in model.split("/") if part]
    if len(parts) > 1 and _spelling(parts[0]) == _spelling(provider):
        parts = parts[1:]
    return (path_part(provider), *(path_part(part) for part in parts or ["unnamed"]))


def same_model(provider_a: str, model_a: str, provider_b: str, model_b: str) -> bool:
    """Return True if two names spell the same model, such as `gemini-3-1-pro` and `google/gemini-3.1-pro`."""
    return model_key(provider_a, model_a) == model_key(provider_b, model_b)


@lru_cache(1024)
def model_key(provider: str, model: str) -> tuple[str, ...]:
    """Return the vendor and the name of a model in a form that is the same for all spellings of the model.

    The vendor is the part of the model's name before the slash. For example, the vendor of `anthropic/claude-opus-4.6`
    is `anthropic`, even if `openrouter` or `google-vertex` serves the model. In a name without a slash, the provider is
    the vendor.
    """
    slug = tuple(_spelling(part) for part in model.split("/") if part)
    return slug if len(slug) > 1 else tuple(_spelling(part) for part in model_folder(provider, model))


@lru_cache(4096)
def folder_fit(provider: str, model: str, folder: tuple[str, ...]) -> int | None:
    """Rank how well a folder below `reports/` fits a model, from 0 (best) to 2.

    Returns None if the folder belongs to another model. Dots and hyphens are treated as equal.

    0: the folder is `<vendor>/<name>`. 1: the folder is below the provider that serves the model, such as
    `openrouter/arcee-ai/trinity`. 2: the names are equal, but the vendor of either the folder or the model is unknown.
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
    """Choose the folder for a new report: a folder that already has reports on the model, otherwise
    `<provider>/<name>`.

    If the provider is not the vendor that the model's name begins with, the user chose the provider. Only folders below
    this provider are then considered.

    Args:
        reports: Names of the model's reports, relative to the reports folder.
    """
    new = "/".join(model_folder(provider, model))
    free = _spelling(provider) == model_key(provider, model)[0]
    fits = {
        folder: fit
        for folder in {name.rpartition("/")[0] for name in reports}
        if (fit := folder_fit(provider, model, tuple(folder.split("/")))) is not None
        # If the provider is the vendor, a folder whose vendor is unknown fits only a name that contains a vendor.
        # `openrouter/claude-4.6` may belong to another vendor's model.
        and ((free and (fit < 2 or "/" in model)) or _spelling(folder.partition("/")[0]) == _spelling(provider))
    }
    # Among equally good folders, the one with the usual spelling comes first; the name makes the choice repeatable.
    return min(fits, key=lambda folder: (fits[folder], folder != new, folder), default=new)


def same_experiment(a: str | None, b: str | None) -> bool:
    """Return True if two experiment names are equal apart from text in parentheses. A missing name matches any name."""
    if not a or not b:
        return True
    return _experiment_key(a) == _experiment_key(b)


def run_id_prefix(run_id: str) -> str:
    return path_part(run_id)[:RUN_ID_PREFIX]


@lru_cache(1024)
def report_stems(run_id: str) -> tuple[str, str, str]:
    """Return three possible stems for the file name of a run's report, without the date.

    Only the last stem, which ends with a hash, is certain to be unique.
    """
    stem = path_part(run_id)
    return run_id_prefix(run_id), stem, f"{stem}-{content_id(run_id).removeprefix('sha256:')[:12]}"


def _experiment_key(name: str) -> str:
    return _spelling(re.sub(r"\(.*?\)", "", name)) or "default"


def _spelling(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
