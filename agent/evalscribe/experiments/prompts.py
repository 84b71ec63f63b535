"""Prompts as targets: created from files, in versions that never change."""

import re
from pathlib import Path

from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.dataset import short_id
from evalscribe.model.experiment_storage import Definitions
from evalscribe.model.target import TargetPrompt, TargetPromptVersion
from evalscribe.prompts.files import MAX_PROMPT_BYTES, PromptFile, parse_prompt
from evalscribe.redaction.redact import require_no_secret
from evalscribe.settings.access import PROVIDERS
from evalscribe.store.lookup import LATEST, find_version, not_found, version_not_found

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class CreatedPrompt(Frozen):
    prompt: TargetPrompt
    version: TargetPromptVersion
    new: bool
    """False if a version has the same content."""


def read_prompt(path: Path) -> PromptFile:
    """Read a prompt file. Raises `NotFoundError` or `DataError`."""
    try:
        if not path.is_file():
            raise NotFoundError(f"file {path} not found")
        if path.stat().st_size > MAX_PROMPT_BYTES:
            raise DataError(f"{path} is larger than {MAX_PROMPT_BYTES // 1024} KiB")
        return parse_prompt(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def create_prompt(definitions: Definitions, name: str, file: PromptFile, model: str | None, now: str) -> CreatedPrompt:
    """Create the next version of a prompt, or return the one with the same content. Raises `UsageError`."""
    if not NAME.fullmatch(name) or name.startswith(("prompt-", "pv-")):
        raise UsageError(f"--name {name}: use letters, digits, '.', '_' and '-', without the prefix of an id")
    require_no_secret([name, *(message.content for message in file.said)], f"prompt {name[:20]}")
    version = _version(short_id("prompt", name), file, _model(model or file.model), now)
    before = definitions.prompt(name)
    there = _of_id(before, version.id)
    prompt = before if before and there else definitions.put_prompt(name, version)
    kept = there or _of_id(prompt, version.id)
    assert kept is not None  # it was just put
    return CreatedPrompt(prompt=prompt, version=kept, new=there is None)


def find_prompt(definitions: Definitions, named: str) -> tuple[TargetPrompt, TargetPromptVersion]:
    """Find `NAME`, `NAME@2`, or an id. Raises `NotFoundError` listing the known ones."""
    name, _, version = named.partition("@")
    prompt = prompt_named(definitions, name)
    return prompt, find_prompt_version(prompt, version or LATEST)


def prompt_named(definitions: Definitions, named: str) -> TargetPrompt:
    """Find a prompt by id or name. Raises `NotFoundError` listing the known ones."""
    if prompt := definitions.prompt(named):
        return prompt
    there = [one.name for one in definitions.prompts()]
    raise not_found("prompt", named, there, "prompts create --name N FILE")


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
        raise UsageError(f"{asked}: set `model` in the file or --model PROVIDER/MODEL, of {', '.join(PROVIDERS)}")
    return f"{provider}/{name}"
