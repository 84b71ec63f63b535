"""Every setting with the place it came from.

A setting is looked up on the command line, in the environment, `.env.local`, `.env` and evalscribe.toml; then there is
a default. A key is sent only to a host that was named in the same place as the key or in a more trusted one, to the
vendor's default, or to the deployment that the key itself names: files of the folder, which may be a stranger's,
cannot redirect a key that came from the environment (`settings.access`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from sys import float_info
from typing import TypeVar

from evalscribe.errors import EvalscribeError, UsageError
from evalscribe.ids import Frozen
from evalscribe.settings import access, database, github, providers
from evalscribe.settings.access import Access
from evalscribe.settings.cascade import CascadeTable
from evalscribe.settings.config_file import NAME, ConfigFile, load_config
from evalscribe.settings.place import (
    BUILT_IN,
    COMMAND_LINE,
    DEFAULT,
    ENV_FILES,
    ENVIRONMENT,
    FOLDER,
    Origin,
    Place,
    Places,
    Value,
    env_file,
    find,
    place,
    read,
)

__all__ = ["RULES", "Access", "Options", "Origin", "Row", "Settings", "Value", "load", "workspace_root"]

T = TypeVar("T")
RAY_ADDRESS = "EVALSCRIBE_RAY_ADDRESS"
_OWN_NAMES = (*ConfigFile().named(), RAY_ADDRESS)
_NAMES = (*_OWN_NAMES, *access.CONVEX_NAMES, *providers.NAMES, *github.NAMES)
DEFAULT_BUDGET = 5.0
DEFAULT_CONCURRENCY = 4
DEFAULT_ENGINE = "local"
MOST_LANES = 64


RULES = "rules"
"""The judge that asks no model."""


class Options(Frozen):
    """What the caller asked for; None where it said nothing. A key is never an option, only a file that holds it."""

    judge: str | None = None
    budget: float | None = None
    concurrency: int | None = None
    max_tokens: int | None = None
    reports: Path | None = None
    deployment: str | None = None
    key_file: Path | None = None
    env_file: Path | None = None
    api_url: str | None = None
    """Of GitHub."""
    engine: str | None = None
    ray_address: str | None = None
    collection: str | None = None
    """Id or name of the collection that is meant where none is named."""
    via: str = "http"
    """How a deployment is reached: `http` or `npx`."""
    convex_dir: Path | None = None
    """The folder in which `npx convex run` works."""
    batch: bool = False
    """Ask models through Message Batches: half the price, and an answer within a day."""
    fresh: bool = False
    """Ignore stored answers."""


class Row(Frozen):
    """A line of `doctor`: never a secret, only `set` or `missing`."""

    name: str
    value: str
    origin: str


class Settings(Frozen):
    root: Path
    """The workspace: the nearest folder upwards with evalscribe.toml or .git, else the working folder."""
    judge: Value[str | None]
    """None: chosen by what keys there are."""
    budget: Value[float]
    """USD that one command may spend on models."""
    concurrency: Value[int]
    max_tokens: Value[int | None]
    context_tokens: Value[int | None]
    """How many tokens prompt and answer may have together, for models whose window cannot be known here."""
    engine: Value[str]
    """Where judges work: `local` or `ray`."""
    ray_address: Value[str | None]
    """`HOST:PORT` of a Ray cluster's head; None for one of this machine."""
    reports: Value[Path]
    collection: Value[str | None]
    """Id or name of the collection that is meant where none is named."""
    visualizer: Value[str | None]
    """Address of the page that shows runs, for links; never contacted."""
    cascade: CascadeTable = CascadeTable()
    """What `--cascade` means here."""
    places: Places

    @property
    def store(self) -> Path:
        """The folder of stored evidence and verdicts, beside the reports."""
        return self.reports.value.parent / ".evalscribe"

    @property
    def store_place(self) -> Path | str:
        """Where what is stored is: the folder, or the postgresql:// address of a database, with a password if need be.

        Raises `UsageError` where the address can be none.
        """
        found = database.url(self.places)
        return found.value if found else self.store

    def convex(self) -> Access:
        """The deployment and its key. Raises `AccessError` or `UsageError` saying what to set."""
        return access.convex(self.places)

    @property
    def names_convex(self) -> bool:
        """Whether a deployment or a key for one is set, valid or not."""
        return access.is_set(self.places)

    def provider(self, name: str) -> Access | None:
        """The host and key of `anthropic`, `openai` …; None without a key where one is needed.

        Raises `UsageError` where the key would go to a host that a stranger could have named.
        """
        return access.model(self.places, providers.PROVIDERS[name])

    @property
    def judge_name(self) -> str:
        """`rules` or `provider/name`. Raises `UsageError` for anything else."""
        from evalscribe.rubric import DEFAULT_MODEL

        name = self.judge.value or (DEFAULT_MODEL.id if self.provider(DEFAULT_MODEL.provider) else RULES)
        provider, _, model = name.partition("/")
        if name != RULES and (provider not in providers.PROVIDERS or not model):
            known = ", ".join(providers.PROVIDERS)
            raise UsageError(
                f"--judge {name} is not known: rules, or PROVIDER/MODEL of {known}, such as {DEFAULT_MODEL.id}"
            )
        return name

    def github(self) -> Access:
        """GitHub's API, with a token where one is set. Raises `UsageError` where a stranger could have named it."""
        return github.access(self.places)

    def describe(self) -> tuple[Row, ...]:
        """What is configured and where, for `doctor`."""
        named: dict[str, Value[str]] = {
            "judge": _printed(self.judge, "by the keys that are set"),
            "budget": Value(value=f"{self.budget.value:g} USD", origin=self.budget.origin),
            "concurrency": _printed(self.concurrency),
            "max tokens": _printed(self.max_tokens, "no bound"),
            "context tokens": _printed(self.context_tokens, "by the provider"),
            "engine": _printed(self.engine),
            "ray address": _printed(self.ray_address, "a cluster of this machine's own"),
            "reports": _printed(self.reports),
            "collection": _printed(self.collection, "the only one there is"),
            "visualizer": _printed(self.visualizer),
            "cascade": Value(
                value=f"{self.cascade.tag}, then {self.cascade.judge}",
                origin=DEFAULT if self.cascade == CascadeTable() else Origin(where=NAME, trust=FOLDER),
            ),
        }
        rows = [Row(name=name, value=value.value, origin=value.origin.where) for name, value in named.items()]
        models = (
            _access_rows(one.title, partial(self.provider, one.name), one.key_name)
            for one in providers.PROVIDERS.values()
        )
        forges = _access_rows("GitHub", self.github)
        return (*rows, self._store_row(), *_access_rows("Convex", self.convex), *chain.from_iterable(models), *forges)

    def _store_row(self) -> Row:
        try:
            found = database.url(self.places)
        except EvalscribeError as error:
            return Row(name="store", value=str(error).split("\n")[0], origin="refused")
        if found is None:
            return Row(name="store", value=str(self.store), origin="beside the reports")
        return Row(name="store", value=database.without_password(found.value), origin=found.origin.where)


def load(options: Options, cwd: Path, environ: Mapping[str, str]) -> Settings:
    """Read every place once. Raises `UsageError` or `NotFoundError` naming the place and the setting, never a value."""
    root = workspace_root(cwd)
    config = load_config(root)
    places = _places(options, cwd, root, environ, config)
    return Settings(
        root=root,
        judge=_optional(find(places, "EVALSCRIBE_JUDGE")),
        budget=_number(places, "EVALSCRIBE_BUDGET", float, DEFAULT_BUDGET, least=0),
        concurrency=_number(places, "EVALSCRIBE_CONCURRENCY", int, DEFAULT_CONCURRENCY, least=1, most=MOST_LANES),
        max_tokens=_number(places, "EVALSCRIBE_MAX_TOKENS", int, None, least=1),
        context_tokens=_number(places, "EVALSCRIBE_CONTEXT_TOKENS", int, None, least=1),
        engine=find(places, "EVALSCRIBE_ENGINE") or Value(value=DEFAULT_ENGINE, origin=DEFAULT),
        ray_address=_optional(find(places, RAY_ADDRESS)),
        reports=_reports(find(places, "EVALSCRIBE_REPORTS"), cwd, root),
        collection=_optional(find(places, "EVALSCRIBE_COLLECTION_ID")),
        visualizer=_visualizer(find(places, "EVALSCRIBE_VISUALIZER")),
        cascade=config.cascade,
        places=places,
    )


def workspace_root(cwd: Path) -> Path:
    here = cwd.resolve()
    marked = (folder for folder in (here, *here.parents) if (folder / NAME).is_file() or (folder / ".git").exists())
    return next(marked, here)


def _places(options: Options, cwd: Path, root: Path, environ: Mapping[str, str], config: ConfigFile) -> Places:
    """Most trusted first. A file named with --env-file stands for all that would otherwise name a deployment."""
    given = _given(options, cwd)
    if options.env_file:
        names = (*_OWN_NAMES, *providers.NAMES, *github.NAMES)
        files = (env_file(cwd / options.env_file, str(options.env_file), COMMAND_LINE, _NAMES),)
        rest: Places = (*files, place("environment", ENVIRONMENT, environ, names))
    else:
        rest = (place("environment", ENVIRONMENT, environ, _NAMES), *_folder_files(cwd, root))
    return (given, *rest, place(NAME, FOLDER, config.named(), _NAMES))


def _given(options: Options, cwd: Path) -> Place:
    plain = {
        "EVALSCRIBE_JUDGE": options.judge,
        "EVALSCRIBE_BUDGET": options.budget,
        "EVALSCRIBE_CONCURRENCY": options.concurrency,
        "EVALSCRIBE_MAX_TOKENS": options.max_tokens,
        "EVALSCRIBE_REPORTS": options.reports,
        "EVALSCRIBE_ENGINE": options.engine,
        RAY_ADDRESS: options.ray_address,
        "EVALSCRIBE_DEPLOYMENT": options.deployment,
        "EVALSCRIBE_COLLECTION_ID": options.collection,
        github.API_URL: options.api_url,
    }
    settings = {name: None if value is None else str(value) for name, value in plain.items()}
    if options.key_file:
        settings[access.DEPLOY_KEYS[0]] = _key_in(cwd / options.key_file)
    return place("command line", COMMAND_LINE, settings, _NAMES)


def _key_in(path: Path) -> str:
    lines = [line.strip() for line in read(path).splitlines() if line.strip()]
    if len(lines) != 1:
        raise UsageError(f"{path} must hold the key on one line and nothing else")
    return lines[0]


def _folder_files(cwd: Path, root: Path) -> Places:
    folders = dict.fromkeys((cwd.resolve(), root))
    paths = [folder / name for name in ENV_FILES for folder in folders]
    return tuple(env_file(path, _shown(path, cwd), FOLDER, _NAMES) for path in paths if path.is_file())


def _shown(path: Path, cwd: Path) -> str:
    return path.name if path.parent == cwd.resolve() else str(path)


def _optional(found: Value[str] | None) -> Value[str | None]:
    return Value[str | None](value=found.value, origin=found.origin) if found else Value(value=None, origin=DEFAULT)


def _number(
    places: Places, name: str, kind: Callable[[str], T], default: T, least: float, most: float = float_info.max
) -> Value[T]:
    found = find(places, name)
    if found is None:
        return Value(value=default, origin=DEFAULT)
    try:
        number = kind(found.value)
        if least <= float(found.value) <= most:
            return Value(value=number, origin=found.origin)
    except (ValueError, OverflowError):
        pass
    setting = name.removeprefix("EVALSCRIBE_").lower().replace("_", "-")
    at_most = f", at most {most:g}" if most < float_info.max else ""
    raise UsageError(f"{setting} ({found.origin.where}) must be a number of at least {least:g}{at_most}")


def _reports(found: Value[str] | None, cwd: Path, root: Path) -> Value[Path]:
    """A folder; one that only the workspace names is relative to it and stays inside, symbolic links followed."""
    if found is None:
        found = Value(value="reports", origin=DEFAULT)
    inside = found.origin.trust in (FOLDER, BUILT_IN)
    try:
        folder = ((root if inside else cwd) / found.value).resolve()
    except (OSError, ValueError, RuntimeError):
        raise UsageError(f"reports ({found.origin.where}) can be no folder") from None
    if inside and not folder.is_relative_to(root):
        raise UsageError(f"reports ({found.origin.where}) lies outside {root}: name it with --reports")
    return Value(value=folder, origin=found.origin)


def _visualizer(found: Value[str] | None) -> Value[str | None]:
    if found is None:
        return Value(value=None, origin=DEFAULT)
    return Value(value=access.host_url(found, "visualizer"), origin=found.origin)


def _printed(value: Value[T], absent: str = "none") -> Value[str]:
    return Value(value=absent if value.value is None else str(value.value), origin=value.origin)


def _access_rows(vendor: str, read_access: Callable[[], Access | None], key_name: str = "") -> tuple[Row, ...]:
    name = f"{vendor} key"
    try:
        found = read_access()
    except EvalscribeError as error:
        return (Row(name=name, value=str(error).split("\n")[0], origin="missing or refused"),)
    if found is None:
        return (Row(name=name, value="missing", origin=f"set {key_name}"),)
    host = Row(name=f"{vendor} host", value=found.url, origin=found.url_origin.where)
    if found.key_origin is None:
        return (Row(name=name, value="none set", origin="default"), host)
    return (Row(name=name, value="set", origin=found.key_origin.where), host)
