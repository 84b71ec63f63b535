"""Parse model names, and decide which key may be sent to which host.

The hosts are those of model providers, Convex and GitHub.
"""

import difflib
import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from evalscribe.errors import AccessError, UsageError
from evalscribe.ids import Frozen
from evalscribe.settings.config import (
    COMMAND_LINE,
    DEFAULT,
    Origin,
    SettingsSource,
    SettingsSources,
    SettingValue,
    find_setting,
)


class Provider(Frozen):
    name: str
    """Name of the provider, as used in `provider/name`."""
    title: str
    """Name of the provider for display."""
    url: str
    """Address of the vendor's own API, without a trailing slash."""
    compatible: bool = False
    """True if the user can set the address to another server that has the same API and needs no key."""

    @property
    def key_name(self) -> str:
        return f"{self.name.upper()}_API_KEY"

    @property
    def url_name(self) -> str:
        return f"{self.name.upper()}_BASE_URL"


ANTHROPIC = Provider(name="anthropic", title="Anthropic", url="https://api.anthropic.com")
OPENAI = Provider(name="openai", title="OpenAI", url="https://api.openai.com/v1", compatible=True)
OPENROUTER = Provider(name="openrouter", title="OpenRouter", url="https://openrouter.ai/api/v1")
GOOGLE = Provider(name="google", title="Google", url="https://generativelanguage.googleapis.com/v1beta/openai")
PROVIDERS = {provider.name: provider for provider in (ANTHROPIC, OPENAI, OPENROUTER, GOOGLE)}
PROVIDER_NAMES = tuple(name for provider in PROVIDERS.values() for name in (provider.key_name, provider.url_name))
"""Names of the environment variables of all providers."""


@cache
def price_rows() -> tuple[dict[str, Any], ...]:
    """Return the rows of the price file.

    In each row, `model` is `provider/name` and the rates are US dollars per million tokens.
    """
    return tuple(tomllib.loads(files("evalscribe.settings").joinpath("prices.toml").read_text("utf-8"))["price"])


def full_model_name(name: str) -> str:
    """Return a model's name as `provider/name`. The provider can be left out for models in the price file.

    Raises `UsageError` unless the name consists of a known provider and a model, or matches exactly one model in the
    price file. If it matches no model, the message suggests the most similar known name, if there is one.
    """
    provider, _, model = name.partition("/")
    if provider in PROVIDERS and model:
        return name
    # Names can end with a date, as in `claude-haiku-4-5-20251001`. The price file has names without dates.
    dated = re.fullmatch(r"(.+?)(-\d{8})?", name)
    bare, date = (dated[1], dated[2] or "") if dated else (name, "")
    matches = [known_name for known_name in _known_models() if known_name.partition("/")[2] == bare]
    if len(matches) == 1:
        return matches[0] + date
    if matches:
        raise UsageError(
            f"{name} is a model of several providers; use {' or '.join(model + date for model in matches)}"
        )
    providers = ", ".join(PROVIDERS)
    raise UsageError(f"{name} is not a known model{did_you_mean(name)}; use PROVIDER/MODEL (providers: {providers})")


def did_you_mean(name: str) -> str:
    """Return the text ` (did you mean …?)` with the most similar name of a known model.

    The result is empty if no name is similar.
    """
    names = {
        spelling: model_name
        for model_name in _known_models()
        for spelling in (model_name, model_name.partition("/")[2])
    }
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f" (did you mean {names[near[0]]}?)" if near else ""


def _known_models() -> tuple[str, ...]:
    return tuple(dict.fromkeys(row["model"] for row in price_rows()))


DEPLOY_KEYS = ("CONVEX_DEPLOY_KEY", "CONVEX_DEPLOYMENT_TOKEN")
SELF_HOSTED_KEY, SELF_HOSTED_URL = "CONVEX_SELF_HOSTED_ADMIN_KEY", "CONVEX_SELF_HOSTED_URL"
DEPLOYMENT_NAME = "EVALSCRIBE_DEPLOYMENT"
CONVEX_NAMES = (*DEPLOY_KEYS, SELF_HOSTED_KEY, SELF_HOSTED_URL, "CONVEX_DEPLOYMENT")
# `npx convex` knows these two placeholders. The first means that no key is used. The second means that a key is
# missing, and contains an instruction to the user.
_IGNORED = "<ignore_deploy_key>"
_MISSING = "<missing_deploy_key:"
_DEPLOYMENT_KEY = re.compile(r"(?:prod|dev):([A-Za-z0-9-]{1,100})\|.+")
_NOTHING = (
    "no Convex deployment is set: set CONVEX_DEPLOY_KEY (environment, .env.local or .env), or give `key_file` F\n"
    "find the key in the deployment's dashboard under Settings, Deploy keys; logged in without a key: "
    "`via` npx `convex_dir` DIR"
)
_LOGGED_IN = (
    "CONVEX_DEPLOYMENT ({origin}) names a deployment but no key: set CONVEX_DEPLOY_KEY, "
    "from the dashboard under Settings, Deploy keys\n"
    "or, where `npx convex` is logged in: `via` npx `convex_dir` DIR"
)
_CONNECTION_FIELDS = ("key_file", "via", "convex_dir")


class Access(Frozen):
    """A host and the key that may be sent to this host."""

    url: str
    """Address of the host, without a trailing slash."""
    url_origin: Origin
    key: SecretStr | None = None
    key_origin: Origin | None = None


class _Key(Frozen):
    name: str
    secret: SecretStr
    place: SettingsSource

    @property
    def origin(self) -> Origin:
        return self.place.origin

    @property
    def deployment(self) -> str | None:
        """Address of the deployment that the key names; None if the key does not name a deployment."""
        match = _DEPLOYMENT_KEY.fullmatch(self.secret.get_secret_value())
        return f"https://{match[1]}.convex.cloud" if match else None


def model_access(places: SettingsSources, provider: Provider) -> Access | None:
    """Return the host and the key of a provider.

    If no key is set, returns None, unless a compatible server that needs no key is configured. Raises `UsageError` if
    the source that names the host is less trusted than the source of the key.
    """
    key, host = find_setting(places, provider.key_name), find_setting(places, provider.url_name)
    url = host_url(host, provider.url_name) if host else provider.url
    origin = host.origin if host else DEFAULT
    # Refuse a damaged key before it is sent. Otherwise, each call would fail, be retried and be counted as paid.
    if key and not (key.value.isascii() and key.value.isprintable()):
        raise UsageError(f"{provider.key_name} ({key.origin.where}) contains invalid characters; set the full key")
    if key is None:
        return Access(url=url, url_origin=origin) if provider.compatible and url != provider.url else None
    # The vendor's own address needs no check: a file in the folder may repeat it.
    if url != provider.url:
        check_host(provider.url_name, origin, provider.key_name, key.origin)
    return Access(url=url, url_origin=origin, key=SecretStr(key.value), key_origin=key.origin)


def without_key(provider: str) -> Access:
    """Return the vendor's host without a key. Used for models that are only needed for estimates and never called."""
    return Access(url=PROVIDERS[provider].url, url_origin=DEFAULT)


def convex_access(places: SettingsSources) -> Access:
    """Return the Convex deployment and its key.

    Raises:
        AccessError: Neither a deployment nor a key is set.
        UsageError: A value is invalid, or the deployment and the key do not belong together.
    """
    key, host = _convex_key(places), find_setting(places, DEPLOYMENT_NAME)
    if key is None:
        if host is None:
            raise AccessError(_nothing_set(places), fields=_CONNECTION_FIELDS)
        return Access(url=host_url(host, "deployment"), url_origin=host.origin)
    url, origin = _convex_host(places, key, host)
    # A less trusted source may repeat the address that the key itself names.
    if url != key.deployment:
        check_host("the deployment's address", origin, key.name, key.origin)
    return Access(url=url, url_origin=origin, key=key.secret, key_origin=key.origin)


def host_url(value: SettingValue[str], name: str) -> str:
    """Return an http address without its trailing slash.

    Raises `UsageError`, which names the setting and its source, if the value is not an http address or contains a
    login, a query or a fragment.
    """
    try:
        parts = urlsplit(value.value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or not value.value.isprintable():
        raise UsageError(f"{name} ({value.origin.where}) must be an http address without a login, query or fragment")
    return value.value.rstrip("/")


def check_host(host: str, host_origin: Origin, key: str, key_origin: Origin) -> None:
    """Raise `UsageError` if the source that names a host is less trusted than the source of the key."""
    if host_origin.trust < key_origin.trust:
        raise UsageError(
            f"{host} comes from {host_origin.where} but {key} from {key_origin.where}, so the key is not sent to "
            "that host\nname the host on the command line, or set the host and the key in the same place"
        )


def npx_environment(places: SettingsSources) -> dict[str, str]:
    """Return the key of `key_file` as an environment variable for `npx convex`.

    All other settings are read by `npx convex` itself, from the environment and from its folder. Raises `UsageError` if
    the command line names a deployment, because a deployment's address cannot be passed to `npx convex`.
    """
    command_line = next((place for place in places if place.origin.trust == COMMAND_LINE), None)
    if command_line is None:
        return {}
    if command_line.get(DEPLOYMENT_NAME):
        raise UsageError(
            "`deployment` works only over HTTP; with `via` npx, `convex_dir` or CONVEX_DEPLOY_KEY determines the "
            "deployment",
            fields=("deployment", "via"),
        )
    key = command_line.get(DEPLOY_KEYS[0])
    return {DEPLOY_KEYS[0]: key.value} if key else {}


def _nothing_set(places: SettingsSources) -> str:
    logged_in = find_setting(places, "CONVEX_DEPLOYMENT")
    return _LOGGED_IN.format(origin=logged_in.origin.where) if logged_in else _NOTHING


def _convex_key(places: SettingsSources) -> _Key | None:
    """Return the key of the most trusted source that has one.

    If this source has several keys, a deploy key comes first, as in `npx convex`.
    """
    for place in places:
        for name in (*DEPLOY_KEYS, SELF_HOSTED_KEY):
            setting = place.get(name)
            if setting and setting.value != _IGNORED:
                return _checked(_Key(name=name, secret=SecretStr(setting.value), place=place))
    return None


def missing_key(value: str) -> str:
    """Return the instruction to the user, if the value is a placeholder for a missing key.

    The result is empty if the value is not such a placeholder.
    """
    return value.removeprefix(_MISSING).rstrip(">") if value.startswith(_MISSING) else ""


def names_deployment(places: SettingsSources) -> bool:
    """Return whether any setting names a Convex deployment or a key for one, even if its value is invalid."""
    names = (*DEPLOY_KEYS, SELF_HOSTED_KEY)
    keys = (place.get(name) for place in places for name in names)
    return find_setting(places, DEPLOYMENT_NAME) is not None or any(key and key.value != _IGNORED for key in keys)


def _checked(key: _Key) -> _Key:
    value, where = key.secret.get_secret_value(), f"{key.name} ({key.origin.where})"
    if problem := missing_key(value):
        raise AccessError(f"{where} says: {problem}")
    if value.startswith(("project:", "preview:")):
        raise UsageError(
            f"{where} is a project or preview key, which does not name a deployment: use a deployment's key"
        )
    if "|" not in value or not value.isascii() or not value.isprintable():
        raise UsageError(f"{where} has no `|` or is damaged: create a new deploy key and set the whole key")
    return key


def _convex_host(places: SettingsSources, key: _Key, host: SettingValue[str] | None) -> tuple[str, Origin]:
    if host:
        return host_url(host, "deployment"), host.origin
    beside = find_setting(places, SELF_HOSTED_URL)
    if key.name == SELF_HOSTED_KEY:
        return _self_hosted(key, beside)
    # As in `npx convex`, a deploy key takes precedence over a self-hosted address that has its own key. A lone address
    # from a less trusted file might be meant to redirect the deploy key, so it is refused.
    if beside and beside.origin.trust < key.origin.trust and not _is_pair(places, beside.origin):
        check_host(SELF_HOSTED_URL, beside.origin, key.name, key.origin)
    if not key.deployment:
        raise UsageError(
            f"{key.name} ({key.origin.where}) does not name a deployment: give the address of the deployment with "
            "`deployment` URL",
            fields=("deployment",),
        )
    return key.deployment, key.origin


def _self_hosted(key: _Key, url: SettingValue[str] | None) -> tuple[str, Origin]:
    if url is None:
        raise UsageError(
            f"{SELF_HOSTED_KEY} ({key.origin.where}) also needs {SELF_HOSTED_URL}, or `deployment` URL",
            fields=("deployment",),
        )
    # A self-hosted key does not name its deployment, so only the source of the key can say where the key may be sent.
    if url.origin != key.origin:
        raise UsageError(
            f"{SELF_HOSTED_URL} comes from {url.origin.where} but {SELF_HOSTED_KEY} from {key.origin.where}, "
            "so the key is not sent to that host\nset the host and the key in the same place"
        )
    return host_url(url, SELF_HOSTED_URL), url.origin


def _is_pair(places: SettingsSources, origin: Origin) -> bool:
    """Return whether the source of an address also contains a self-hosted key.

    If so, the address and the key belong together.
    """
    return any(place.origin == origin and place.get(SELF_HOSTED_KEY) for place in places)


GITHUB_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
GITHUB_API_NAME = "GITHUB_API_URL"
"""Environment variable with the address of GitHub's API. GitHub Actions also sets it."""
GITHUB_NAMES = (*GITHUB_TOKENS, GITHUB_API_NAME)
GITHUB_API = "https://api.github.com"


def github_access(places: SettingsSources) -> Access:
    """Return the address of GitHub's API, with the token if one is set.

    Raises `UsageError` if the source that names the host is less trusted than the source of the token.
    """
    token, api_setting = find_setting(places, *GITHUB_TOKENS), find_setting(places, GITHUB_API_NAME)
    url = host_url(api_setting, GITHUB_API_NAME) if api_setting else GITHUB_API
    origin = api_setting.origin if api_setting else DEFAULT
    if token is None:
        return Access(url=url, url_origin=origin)
    if not (token.value.isascii() and token.value.isprintable()):
        raise UsageError(f"{GITHUB_TOKENS[0]} ({token.origin.where}) contains invalid characters; set the full token")
    if url != GITHUB_API:
        check_host(GITHUB_API_NAME, origin, GITHUB_TOKENS[0], token.origin)
    return Access(url=url, url_origin=origin, key=SecretStr(token.value), key_origin=token.origin)
