"""evalscribe.toml: what it may say, and which line is wrong."""

import re
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.settings.cascade import CascadeTable
from evalscribe.settings.place import read

NAME = "evalscribe.toml"
Text = Annotated[str, Field(min_length=1, strict=True)]


class Convex(Frozen):
    deployment: Text | None = None
    """Address of the deployment that holds the runs."""
    visualizer: Text | None = None
    """Address of the page that shows runs, for links."""


class GitHub(Frozen):
    api_url: Text | None = None
    """Address of an Enterprise server's API."""


class Sources(Frozen):
    convex: Convex = Convex()


class ConfigFile(Frozen):
    """Never a key: this file is kept in git."""

    judge: Text | None = None
    budget: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    concurrency: Annotated[int, Field(ge=1, strict=True)] | None = None
    max_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    context_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    engine: Text | None = None
    reports: Text | None = None
    collection_id: Text | None = None
    """The collection that is meant where none is named."""
    store_url: Text | None = None
    """Database on a server that is the store, without a password."""
    sources: Sources = Sources()
    github: GitHub = GitHub()
    cascade: CascadeTable = CascadeTable()

    def named(self) -> dict[str, str | None]:
        """The settings by the names that they have in the environment."""
        settings = {
            "EVALSCRIBE_JUDGE": self.judge,
            "EVALSCRIBE_BUDGET": self.budget,
            "EVALSCRIBE_CONCURRENCY": self.concurrency,
            "EVALSCRIBE_MAX_TOKENS": self.max_tokens,
            "EVALSCRIBE_CONTEXT_TOKENS": self.context_tokens,
            "EVALSCRIBE_ENGINE": self.engine,
            "EVALSCRIBE_REPORTS": self.reports,
            "EVALSCRIBE_COLLECTION_ID": self.collection_id,
            "EVALSCRIBE_STORE_URL": self.store_url,
            "EVALSCRIBE_DEPLOYMENT": self.sources.convex.deployment,
            "EVALSCRIBE_VISUALIZER": self.sources.convex.visualizer,
            "GITHUB_API_URL": self.github.api_url,
        }
        return {name: None if value is None else str(value) for name, value in settings.items()}


def load_config(root: Path) -> ConfigFile:
    """The workspace's evalscribe.toml, or what holds without one. Raises `UsageError` naming line and key."""
    path = root / NAME
    if not path.is_file():
        return ConfigFile()
    text = read(path)
    try:
        return ConfigFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is no valid TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply") from None
    except ValidationError as error:
        raise UsageError(f"{path} {_first(error, text)}") from None


def _first(error: ValidationError, text: str) -> str:
    """The first problem, with the line of its key; the value is not printed, for it may be a misplaced key."""
    problem = error.errors(include_input=False, include_url=False)[0]
    keys = [str(part) for part in problem["loc"] if part != "[key]"]
    reason = "is no setting" if problem["type"] == "extra_forbidden" else problem["msg"].lower()
    return f"line {_line_of(keys, text)}: `{'.'.join(keys)}` {reason}"


def _line_of(keys: list[str], text: str) -> int:
    """The line that holds the last key, below its table's heading where there is one."""
    lines, at = text.splitlines(), 0
    for key in keys:
        word = re.compile(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?\s*[\].=]")
        at = next((n for n in range(at, len(lines)) if word.search(lines[n])), at)
    return at + 1
