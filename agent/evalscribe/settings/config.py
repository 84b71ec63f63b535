"""Read the sources of settings: command line, environment, .env files and evalscribe.toml."""

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
"""Levels of trust in a source of settings. A key is never sent to a host that a less trusted source names. Files in the
folder are trusted least, because they might come from a stranger."""
BUILT_IN = 4
ENV_FILES = (".env.local", ".env")
MAX_FILE_BYTES = 1024 * 1024


class Origin(Frozen):
    """The source of a value.

    `where` is the source's name in the output of `evalscribe doctor`, such as `environment`, `.env.local` or `default`.
    """

    where: str
    trust: int


class SettingValue(Frozen, Generic[T]):
    value: T
    origin: Origin


DEFAULT = Origin(where="default", trust=BUILT_IN)


class SettingsSource(Frozen):
    """The settings of one source, by the names of their environment variables.

    All values are stored as secrets, because some of them are secrets.
    """

    origin: Origin
    settings: dict[str, SecretStr]

    def get(self, name: str) -> SettingValue[str] | None:
        secret = self.settings.get(name)
        return SettingValue[str](value=secret.get_secret_value(), origin=self.origin) if secret else None


SettingsSources = tuple[SettingsSource, ...]


def find_setting(places: SettingsSources, *names: str) -> SettingValue[str] | None:
    """Return the first setting that has one of the names.

    The sources are searched from the most trusted to the least trusted.
    """
    return next((setting for place in places for name in names if (setting := place.get(name))), None)


def settings_source(where: str, trust: int, settings: Mapping[str, str | None], names: Iterable[str]) -> SettingsSource:
    """Return a source that contains only the settings in `names`. An empty value counts as unset."""
    values = {name: (settings.get(name) or "").strip() for name in names}
    origin = Origin(where=where, trust=trust)
    return SettingsSource(origin=origin, settings={name: SecretStr(value) for name, value in values.items() if value})


def read_env_file(path: Path, where: str, trust: int, names: Iterable[str]) -> SettingsSource:
    """Read a file of `NAME=value` lines. Variables in values are not expanded."""
    from dotenv import dotenv_values

    # If variables were expanded, `$OTHER_KEY` in the address of a host would send that key to the host.
    return settings_source(
        where, trust, dotenv_values(stream=io.StringIO(read_settings_file(path)), interpolate=False), names
    )


def read_settings_file(path: Path) -> str:
    """Read a small text file with settings.

    Raises `NotFoundError` or `UsageError`, which never quote the content of the file.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is too large for a settings file")
        # A byte order mark would become part of the first name. Invalid bytes in one line must not hide the other
        # lines.
        return path.read_bytes().decode("utf-8-sig", "replace")
    except FileNotFoundError:
        raise NotFoundError(f"file {path} not found") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


TableText = Annotated[str, Field(min_length=1, strict=True)]
TagName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$")]


class TagTable(Frozen):
    """A table `[cascade.tags.NAME]` in evalscribe.toml. It defines one tag."""

    about: TableText
    """Description of the tag's meaning for the model that assigns tags."""
    rubric: TableText
    """Rubric that the expensive model applies to failures with the tag, as `NAME` or `NAME@VERSION`."""


class CascadeTable(Frozen):
    tag: TableText = "anthropic/claude-haiku-5-5"
    """Cheap model that assigns tags and gives a first verdict, as `provider/name`."""
    judge: TableText = "anthropic/claude-opus-5-5"
    """Expensive model that judges whatever the cheap model passes on, as `provider/name`."""
    rules: Annotated[bool, Field(strict=True)] = True
    """True to let the rules engine first judge the failures about which it is certain. Only applies to analyses."""
    tags: dict[TagName, TagTable] | None = None
    """Tags in order of precedence. The first tag of a failure determines how the failure is judged. None means the
    built-in tags."""

    def issues(self) -> tuple[Tag, ...]:
        """Return the configured tags."""
        return tuple(Tag(name=name, about=tag.about, rubric=tag.rubric) for name, tag in (self.tags or {}).items())


CONFIG_NAME = "evalscribe.toml"
Text = Annotated[str, Field(min_length=1, strict=True)]


class ConvexTable(Frozen):
    deployment: Text | None = None
    """Address of the deployment that contains the runs."""
    visualizer: Text | None = None
    """Web address of the page that shows runs. The address is only used in links."""


class GitHubTable(Frozen):
    api_url: Text | None = None
    """Address of the API, if it belongs to a GitHub Enterprise server."""


class SourcesTable(Frozen):
    convex: ConvexTable = ConvexTable()


class ReplayTable(Frozen):
    """The table `[replay]` in evalscribe.toml.

    It describes how one answer is graded again. Paths are relative to the folder of the file, and `{eval}` stands for
    the name of the eval. The command only runs if a replay is requested, and it runs in a sandbox.
    """

    command: Text
    """Command that grades an answer. The command starts in the folder of the answer and must exit with status 0 if the
    answer passes. Placeholders: `{eval}`, `{suite}`, `{answer}`, `{reference}`, `{python}` (the Python that runs
    evalscribe) and `{attempt}` (from 1)."""
    suite: Text
    """Folder that contains the evals. The command can read all files in the folder except hidden files."""
    reference: Text = "{eval}/answer"
    """Path of the folder with the reference answer, relative to the suite's folder."""
    grader: Text = "{eval}"
    """Path of the folder with the files that grade the eval, relative to the suite's folder. These files are compared
    with the grader files of the run."""
    time_limit: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] = 60.0
    """Maximum seconds for grading one answer."""


class UserReplayTable(Frozen):
    """The table `[replay]` in the user's own file."""

    command: Text
    """Command that grades an answer outside the sandbox, like the command in the variable `REPLAY_COMMAND`."""


class UserConfigFile(Frozen):
    """The user's own configuration file.

    It applies in every folder. Unlike files in a folder, it may name a program to run.
    """

    replay: UserReplayTable | None = None


class ConfigFile(Frozen):
    """The file evalscribe.toml. Because it is committed to git, it never contains an API key."""

    judge: Text | None = None
    budget: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    concurrency: Annotated[int, Field(ge=1, strict=True)] | None = None
    max_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    context_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    engine: Text | None = None
    reports: Text | None = None
    collection_id: Text | None = None
    """Id of the default collection."""
    store_url: Text | None = None
    """Address of a database that serves as the store, without a password."""
    page_url: Text | None = None
    """Web address at which the pages that `view --bundle` writes are published. The address is only used in links."""
    sources: SourcesTable = SourcesTable()
    github: GitHubTable = GitHubTable()
    cascade: CascadeTable = CascadeTable()
    replay: ReplayTable | None = None

    def by_variable(self) -> dict[str, str | None]:
        """Return the settings in the file by the names of their environment variables."""
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
    """Load evalscribe.toml.

    If the file does not exist, return the defaults. Raises `UsageError`, which names the line and the key, if the file
    is invalid.
    """
    return _load(root / CONFIG_NAME, ConfigFile)


REPLAY_COMMAND = "EVALSCRIBE_REPLAY_COMMAND"
"""Environment variable with a command that grades answers outside the sandbox. The command itself must isolate the
answers."""


def replay_command(option: str | None, environ: Mapping[str, str]) -> SettingValue[str] | None:
    """Return the command that grades answers outside the sandbox; None if the user did not name one.

    Only the command line, the process environment and the user's own file can name this command. Files in a folder,
    including `.env`, cannot name it, because they might come from a stranger. Raises `UsageError` if the user's own
    file is invalid.
    """
    if option:
        return SettingValue(value=option, origin=Origin(where="command line", trust=COMMAND_LINE))
    if command := environ.get(REPLAY_COMMAND, "").strip():
        return SettingValue(value=command, origin=Origin(where="environment", trust=ENVIRONMENT))
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else "")
    if not Path(home).is_absolute():  # the XDG specification forbids relative paths
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
    """Set a top-level key in the workspace's evalscribe.toml.

    Everything else in the file stays unchanged. Returns the path of the file.

    Raises:
        UsageError: The file is invalid, or the key cannot be set without changing something else.
        EvalscribeError: The file cannot be written.
    """
    path = root / CONFIG_NAME
    load_config(root)
    text = read_settings_file(path) if path.is_file() else ""
    # A JSON string is also a string in TOML.
    line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    # A key below the first header would belong to that table.
    table = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    top, tables = (text[: table.start()], text[table.start() :]) if table else (text, "")
    # The replacement is a function, because backslashes in a replacement text would be interpreted.
    changed, count = re.subn(rf"^[ \t]*{key}[ \t]*=.*$", lambda _: line, top, flags=re.MULTILINE)
    if not count:
        changed = f"{top.rstrip()}\n{line}\n" if top.strip() else f"{line}\n"
        changed += "\n" if tables else ""
    try:
        # The patterns do not parse TOML. They could match inside a multi-line string, so check that nothing else has
        # changed.
        valid = tomllib.loads(changed + tables) == {**tomllib.loads(text), key: value}
    except tomllib.TOMLDecodeError:
        valid = False
    # `os.replace` would replace a link with a file.
    if not valid or path.is_symlink():
        raise UsageError(
            f"evalscribe cannot change {path}; edit the file and add this line above the first [table]:\n{line}"
        )
    try:
        with NamedTemporaryFile("w", encoding="utf-8", dir=root, prefix=".", suffix=".tmp", delete=False) as file:
            file.write(changed + tables)
        # Temporary files are created for their owner only.
        os.chmod(file.name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise write_error(f"cannot write {path}", error) from None
    return path


def _first(error: ValidationError, text: str) -> str:
    """Describe the first error, with the number of its line."""
    # The value might be an API key in the wrong place, so it is left out.
    problem = error.errors(include_input=False, include_url=False)[0]
    # Pydantic appends `[key]` if the name of a tag is invalid.
    keys = [str(part) for part in problem["loc"] if part != "[key]"]
    reason = "is not a setting" if problem["type"] == "extra_forbidden" else problem["msg"].lower()
    return f"line {_line_of(keys, text)}: `{'.'.join(keys)}` {reason}"


def _line_of(keys: list[str], text: str) -> int:
    """Return the number of the line that contains the innermost of several nested keys.

    The search for each key starts at the line of the key around it.
    """
    lines, at = text.splitlines(), 0
    for key in keys:
        word = re.compile(rf"(?<![\w-])[\"']?{re.escape(key)}[\"']?\s*[\].=]")
        at = next((n for n in range(at, len(lines)) if word.search(lines[n])), at)
    return at + 1
