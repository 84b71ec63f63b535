"""Which key goes to which host."""

import re
from urllib.parse import urlsplit

from pydantic import SecretStr

from evalscribe.errors import AccessError, UsageError
from evalscribe.ids import Frozen
from evalscribe.settings.place import COMMAND_LINE, DEFAULT, Origin, Place, Places, Value, find
from evalscribe.settings.providers import Provider

DEPLOY_KEYS = ("CONVEX_DEPLOY_KEY", "CONVEX_DEPLOYMENT_TOKEN")
SELF_HOSTED_KEY, SELF_HOSTED_URL = "CONVEX_SELF_HOSTED_ADMIN_KEY", "CONVEX_SELF_HOSTED_URL"
DEPLOYMENT = "EVALSCRIBE_DEPLOYMENT"
CONVEX_NAMES = (*DEPLOY_KEYS, SELF_HOSTED_KEY, SELF_HOSTED_URL, "CONVEX_DEPLOYMENT")
_IGNORED = "<ignore_deploy_key>"
_MISSING = "<missing_deploy_key:"
_NAMED = re.compile(r"(?:prod|dev):([A-Za-z0-9-]{1,100})\|.+")
_NOTHING = (
    "no Convex deployment is set: set CONVEX_DEPLOY_KEY (environment, .env.local or .env), or give --key-file F\n"
    "find the key in the deployment's dashboard under Settings, Deploy keys; logged in without a key: "
    "--via npx --convex-dir DIR"
)
_LOGGED_IN = (
    "CONVEX_DEPLOYMENT ({origin}) names a deployment but no key: set CONVEX_DEPLOY_KEY, "
    "from the dashboard under Settings, Deploy keys\n"
    "or, where `npx convex` is logged in: --via npx --convex-dir DIR"
)


class Access(Frozen):
    """A host and the key that may be sent to it."""

    url: str
    """Without a slash at its end."""
    url_origin: Origin
    key: SecretStr | None = None
    key_origin: Origin | None = None


class _Key(Frozen):
    name: str
    secret: SecretStr
    place: Place

    @property
    def origin(self) -> Origin:
        return self.place.origin

    @property
    def deployment(self) -> str | None:
        """The address of the deployment that the key itself names."""
        named = _NAMED.fullmatch(self.secret.get_secret_value())
        return f"https://{named[1]}.convex.cloud" if named else None


def model(places: Places, provider: Provider) -> Access | None:
    """None without a key, but for a compatible server that needs none.

    Raises `UsageError` where a less trusted place names the host.
    """
    key, host = find(places, provider.key_name), find(places, provider.url_name)
    url = host_url(host, provider.url_name) if host else provider.url
    origin = host.origin if host else DEFAULT
    if key and not (key.value.isascii() and key.value.isprintable()):
        raise UsageError(f"{provider.key_name} ({key.origin.where}) is damaged: it holds what no key has. Set it whole")
    if key is None:
        return Access(url=url, url_origin=origin) if provider.compatible and url != provider.url else None
    if url != provider.url:
        check_host(provider.url_name, origin, provider.key_name, key.origin)
    return Access(url=url, url_origin=origin, key=SecretStr(key.value), key_origin=key.origin)


def convex(places: Places) -> Access:
    """The deployment and its key. Raises `AccessError` where nothing is set, `UsageError` where they do not fit."""
    key, host = _convex_key(places), find(places, DEPLOYMENT)
    if key is None:
        if host is None:
            raise AccessError(_nothing_set(places))
        return Access(url=host_url(host, "deployment"), url_origin=host.origin)
    url, origin = _convex_host(places, key, host)
    if url != key.deployment:
        check_host("the deployment's address", origin, key.name, key.origin)
    return Access(url=url, url_origin=origin, key=key.secret, key_origin=key.origin)


def host_url(value: Value[str], name: str) -> str:
    """An http address without login, query and final slash. Raises `UsageError` naming setting and place."""
    try:
        parts = urlsplit(value.value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or not value.value.isprintable():
        raise UsageError(f"{name} ({value.origin.where}) is no http address without login and query")
    return value.value.rstrip("/")


def check_host(host: str, host_origin: Origin, key: str, key_origin: Origin) -> None:
    """Raises `UsageError` where a less trusted place than the key's names the host."""
    if host_origin.trust < key_origin.trust:
        raise UsageError(
            f"{host} comes from {host_origin.where} but {key} from {key_origin.where}: the key is not sent there\n"
            "name the host on the command line, or set both in the same place"
        )


def for_npx(places: Places) -> dict[str, str]:
    """Return the key of `--key-file` as a variable for `npx convex`, which also reads the environment and its folder.

    Raises `UsageError` if the command line names a deployment, because that cannot be passed on.
    """
    given = next((place for place in places if place.origin.trust == COMMAND_LINE), None)
    if given is None:
        return {}
    if given.get(DEPLOYMENT):
        raise UsageError(
            "--deployment is for HTTP: with --via npx the folder or CONVEX_DEPLOY_KEY names the deployment"
        )
    key = given.get(DEPLOY_KEYS[0])
    return {DEPLOY_KEYS[0]: key.value} if key else {}


def _nothing_set(places: Places) -> str:
    logged_in = find(places, "CONVEX_DEPLOYMENT")
    return _LOGGED_IN.format(origin=logged_in.origin.where) if logged_in else _NOTHING


def _convex_key(places: Places) -> _Key | None:
    """The key of the most trusted place that has one; within a place a deploy key comes first, as for `npx convex`."""
    for place in places:
        for name in (*DEPLOY_KEYS, SELF_HOSTED_KEY):
            found = place.get(name)
            if found and found.value != _IGNORED:
                return _checked(_Key(name=name, secret=SecretStr(found.value), place=place))
    return None


def missing_key(value: str) -> str:
    """Return the message of a placeholder that asks somebody to set the key; empty for a real key."""
    return value.removeprefix(_MISSING).rstrip(">") if value.startswith(_MISSING) else ""


def is_set(places: Places) -> bool:
    """Whether any setting names a deployment or a key for one, valid or not."""
    names = (*DEPLOY_KEYS, SELF_HOSTED_KEY)
    keys = (place.get(name) for place in places for name in names)
    return find(places, DEPLOYMENT) is not None or any(key and key.value != _IGNORED for key in keys)


def _checked(key: _Key) -> _Key:
    value, where = key.secret.get_secret_value(), f"{key.name} ({key.origin.where})"
    if said := missing_key(value):
        raise AccessError(f"{where} says: {said}")
    if value.startswith(("project:", "preview:")):
        raise UsageError(f"{where} is a project or preview key, which names no deployment: use a deploy key of one")
    if "|" not in value or not value.isascii() or not value.isprintable():
        raise UsageError(f"{where} has no `|` or is damaged: create a new deploy key and set it whole")
    return key


def _convex_host(places: Places, key: _Key, host: Value[str] | None) -> tuple[str, Origin]:
    if host:
        return host_url(host, "deployment"), host.origin
    beside = find(places, SELF_HOSTED_URL)
    if key.name == SELF_HOSTED_KEY:
        return _self_hosted(key, beside)
    if beside and beside.origin.trust < key.origin.trust and not _is_pair(places, beside.origin):
        check_host(SELF_HOSTED_URL, beside.origin, key.name, key.origin)
    if not key.deployment:
        raise UsageError(f"{key.name} ({key.origin.where}) names no deployment: give its address with --deployment URL")
    return key.deployment, key.origin


def _self_hosted(key: _Key, url: Value[str] | None) -> tuple[str, Origin]:
    if url is None:
        raise UsageError(
            f"{SELF_HOSTED_KEY} ({key.origin.where}) needs {SELF_HOSTED_URL} beside it, or --deployment URL"
        )
    if url.origin != key.origin:
        raise UsageError(
            f"{SELF_HOSTED_URL} comes from {url.origin.where} but {SELF_HOSTED_KEY} from {key.origin.where}: "
            "the key is not sent there\nset both in the same place"
        )
    return host_url(url, SELF_HOSTED_URL), url.origin


def _is_pair(places: Places, origin: Origin) -> bool:
    """Whether that place has a self-hosted key of its own, so that its address was never meant for another key."""
    return any(place.origin == origin and place.get(SELF_HOSTED_KEY) for place in places)
