"""Sources of settings: command line, environment, .env files and evalscribe.toml."""

import io
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Generic, TypeVar

from pydantic import Field, SecretStr, ValidationError

from evalscribe.errors import NotFoundError, UsageError, write_error
from evalscribe.ids import Frozen
from evalscribe.model.cascade import Tag

T = TypeVar("T")
COMMAND_LINE, ENVIRONMENT, FOLDER = 3, 2, 1
"""Trust in a source to decide where a key goes. Files of the folder may be a stranger's."""
BUILT_IN = 4
ENV_FILES = (".env.local", ".env")
MAX_FILE_BYTES = 1024 * 1024


class Origin(Frozen):
    """Source of a value, as `doctor` prints it: `environment`, `.env.local`, `default`."""

    where: str
    trust: int


class SettingValue(Frozen, Generic[T]):
    value: T
    origin: Origin


DEFAULT = Origin(where="default", trust=BUILT_IN)


class SettingsSource(Frozen):
    """Settings by environment variable name. Stored as secrets, since some are."""

    origin: Origin
    settings: dict[str, SecretStr]

    def get(self, name: str) -> SettingValue[str] | None:
        secret = self.settings.get(name)
        return SettingValue[str](value=secret.get_secret_value(), origin=self.origin) if secret else None


SettingsSources = tuple[SettingsSource, ...]


def find_setting(places: SettingsSources, *names: str) -> SettingValue[str] | None:
    """Return the first value, most trusted source first, that has one of the names."""
    return next((setting for place in places for name in names if (setting := place.get(name))), None)


def settings_source(where: str, trust: int, settings: Mapping[str, str | None], names: Iterable[str]) -> SettingsSource:
    """Return only the named settings; an empty value counts as unset."""
    values = {name: (settings.get(name) or "").strip() for name in names}
    origin = Origin(where=where, trust=trust)
    return SettingsSource(origin=origin, settings={name: SecretStr(value) for name, value in values.items() if value})


def read_env_file(path: Path, where: str, trust: int, names: Iterable[str]) -> SettingsSource:
    """Read a file of `NAME=value` lines. Nothing is expanded: `$OTHER_KEY` in a host's address would send that key."""
    from dotenv import dotenv_values

    return settings_source(
        where, trust, dotenv_values(stream=io.StringIO(read_settings_file(path)), interpolate=False), names
    )


def read_settings_file(path: Path) -> str:
    """Read a small text file. Raises `NotFoundError` or `UsageError`, never quoting its content."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is too large for a settings file")
        return path.read_bytes().decode("utf-8-sig", "replace")
    except FileNotFoundError:
        raise NotFoundError(f"file {path} not found") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


TableText = Annotated[str, Field(min_length=1, strict=True)]
TagName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$")]


class TagTable(Frozen):
    """`[cascade.tags.NAME]`."""

    about: TableText
    """Meaning of the tag, for the model that tags."""
    rubric: TableText
    """Rubric for the expensive model: `NAME` or `NAME@VERSION`."""


class CascadeTable(Frozen):
    tag: TableText = "anthropic/claude-haiku-5-5"
    """The cheap model, `provider/name`."""
    judge: TableText = "anthropic/claude-opus-5-5"
    """The expensive model, `provider/name`."""
    rules: Annotated[bool, Field(strict=True)] = True
    """True to let the rules decide first where they are certain (analyses only)."""
    tags: dict[TagName, TagTable] | None = None
    """Tags by precedence: a failure's first tag decides. None for the built-in tags."""

    def issues(self) -> tuple[Tag, ...]:
        """Return the configured tags."""
        return tuple(Tag(name=name, about=tag.about, rubric=tag.rubric) for name, tag in (self.tags or {}).items())


CONFIG_NAME = "evalscribe.toml"
Text = Annotated[str, Field(min_length=1, strict=True)]


class ConvexTable(Frozen):
    deployment: Text | None = None
    """Address of the deployment that holds the runs."""
    visualizer: Text | None = None
    """Address of the page that shows runs, for links."""


class GitHubTable(Frozen):
    api_url: Text | None = None
    """Address of an Enterprise server's API."""


class SourcesTable(Frozen):
    convex: ConvexTable = ConvexTable()


class ReplayTable(Frozen):
    """`[replay]`: how one answer is graded again. Paths are relative to the file's folder; `{eval}` is the eval's name.

    The command runs in a sandbox, and only when a replay is asked for.
    """

    command: Text
    """Grades the answer in its working folder, and exits with 0 if it passes. It may contain `{eval}`, `{suite}`,
    `{answer}`, `{reference}`, `{python}` (the interpreter of evalscribe) and `{attempt}` (from 1)."""
    suite: Text
    """Folder with the evals, which the command can read; hidden files are left out."""
    reference: Text = "{eval}/answer"
    """Folder of the suite with the reference answer."""
    grader: Text = "{eval}"
    """Folder of the suite with the files that grade the eval, to check that they equal the run's."""
    time_limit: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 60.0
    """Seconds for one answer."""


class UserReplayTable(Frozen):
    """`[replay]` of the user's own file."""

    command: Text
    """Grades an answer outside the sandbox, as `REPLAY_COMMAND` does."""


class UserConfigFile(Frozen):
    """The user's own file, which applies in every folder. Unlike files of a folder it may choose a program."""

    replay: UserReplayTable | None = None


class ConfigFile(Frozen):
    """Configuration of providers; never a key, because this file is kept in git."""

    judge: Text | None = None
    budget: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    concurrency: Annotated[int, Field(ge=1, strict=True)] | None = None
    max_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    context_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    engine: Text | None = None
    reports: Text | None = None
    collection_id: Text | None = None
    """Default collection."""
    store_url: Text | None = None
    """Database on a server that serves as the store, without a password."""
    page_url: Text | None = None
    """Address at which the pages of `view --bundle` are published, for links."""
    sources: SourcesTable = SourcesTable()
    github: GitHubTable = GitHubTable()
    cascade: CascadeTable = CascadeTable()
    replay: ReplayTable | None = None

    def by_variable(self) -> dict[str, str | None]:
        """Return the settings by environment variable name."""
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
            "EVALSCRIBE_PAGE_URL": self.page_url,
            "EVALSCRIBE_DEPLOYMENT": self.sources.convex.deployment,
            "EVALSCRIBE_VISUALIZER": self.sources.convex.visualizer,
            "GITHUB_API_URL": self.github.api_url,
        }
        return {name: None if value is None else str(value) for name, value in settings.items()}


def load_config(root: Path) -> ConfigFile:
    """Load evalscribe.toml, or defaults if there is no such file. Raises `UsageError` naming line and key."""
    return _load(root / CONFIG_NAME, ConfigFile)


REPLAY_COMMAND = "EVALSCRIBE_REPLAY_COMMAND"
"""Environment variable with a grading command that isolates answers itself, such as docker."""


def replay_command(option: str | None, environ: Mapping[str, str]) -> SettingValue[str] | None:
    """Return the command that grades answers outside the sandbox; None if the user named none.

    Only the command line, the process environment and the user's own file may name it: files of a folder, `.env` among
    them, may be a stranger's. Raises as `load_config`.
    """
    if option:
        return SettingValue(value=option, origin=Origin(where="command line", trust=COMMAND_LINE))
    if command := environ.get(REPLAY_COMMAND, "").strip():
        return SettingValue(value=command, origin=Origin(where="environment", trust=ENVIRONMENT))
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else "")
    if not Path(home).is_absolute():  # a relative one would be the folder's; the specification says to ignore it
        return None
    path = Path(home, "evalscribe", "config.toml")
    table = _load(path, UserConfigFile).replay
    return SettingValue(value=table.command, origin=Origin(where=str(path), trust=ENVIRONMENT)) if table else None


Config = TypeVar("Config", bound=Frozen)


def _load(path: Path, kind: type[Config]) -> Config:
    if not path.is_file():
        return kind()
    text = read_settings_file(path)
    try:
        return kind.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply") from None
    except ValidationError as error:
        raise UsageError(f"{path} {_first(error, text)}") from None


def save_setting(root: Path, key: str, value: str) -> Path:
    """Set a top-level key of the workspace's evalscribe.toml and leave all else as it is. Returns the file.

    Raises:
        UsageError: The file is invalid, or the key cannot be set without changing something else.
        EvalscribeError: The file cannot be written.
    """
    path = root / CONFIG_NAME
    load_config(root)
    text = read_settings_file(path) if path.is_file() else ""
    line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    table = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    top, tables = (text[: table.start()], text[table.start() :]) if table else (text, "")
    changed, count = re.subn(rf"^[ \t]*{key}[ \t]*=.*$", lambda _: line, top, flags=re.MULTILINE)
    if not count:
        changed = f"{top.rstrip()}\n{line}\n" if top.strip() else f"{line}\n"
        changed += "\n" if tables else ""
    try:
        valid = tomllib.loads(changed + tables) == {**tomllib.loads(text), key: value}
    except tomllib.TOMLDecodeError:
        valid = False
    if not valid or path.is_symlink():
        raise UsageError(f"{path} cannot be changed here; write this line before its first table:\n{line}")
    try:
        with NamedTemporaryFile("w", encoding="utf-8", dir=root, prefix=".", suffix=".tmp", delete=False) as file:
            file.write(changed + tables)
        os.chmod(file.name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise write_error(f"cannot write {path}", error) from None
    return path


def _first(error: ValidationError, text: str) -> str:
    """Describe the first error with its line, but without the value, which may be an API key in the wrong place."""
    problem = error.errors(include_input=False, include_url=False)[0]
    keys = [str(part) for part in problem["loc"] if part != "[key]"]
    reason = "is not a setting" if problem["type"] == "extra_forbidden" else problem["msg"].lower()
    return f"line {_line_of(keys, text)}: `{'.'.join(keys)}` {reason}"


def _line_of(keys: list[str], text: str) -> int:
    """Return the number of the line with the last key, searched below the lines of the earlier keys."""
    lines, at = text.splitlines(), 0
    for key in keys:
        word = re.compile(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?\s*[\].=]")
        at = next((n for n in range(at, len(lines)) if word.search(lines[n])), at)
    return at + 1
