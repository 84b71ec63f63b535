"""Find the address of the store if the store is a database, and decide which password libpq may use.

A password is only sent to a host that was named by the same source as the password or by a more trusted source. Libpq
takes the password from the address. If the address contains none, it takes the password from PGPASSWORD or ~/.pgpass.
PGPASSWORD and ~/.pgpass belong to the user, so they are not used if only a file in the folder names the address.
"""

from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from evalscribe.errors import UsageError
from evalscribe.settings.config import FOLDER, SettingsSources, SettingValue, find_setting

URL_NAME = "EVALSCRIBE_STORE_URL"
SCHEMES = ("postgresql", "postgres")
PARAMETERS = ("host", "sslmode", "sslrootcert", "connect_timeout", "target_session_attrs", "application_name")
"""Parameters that an address may contain. Other parameters could refer to files and services of the user."""
NO_FILE = "/dev/null/none"
"""Path of a password file that can never exist. Libpq ignores a missing password file."""
_IN_GIT = "evalscribe.toml"


def store_url(places: SettingsSources) -> SettingValue[str] | None:
    """Return the address of the store's database, for libpq.

    Returns None if the store is a folder. Raises `UsageError` if the address is invalid. The message names the source
    but never the address.
    """
    setting = find_setting(places, URL_NAME)
    if setting is None:
        return None
    where = f"{URL_NAME} ({setting.origin.where})" if setting.origin.where != _IN_GIT else f"store_url ({_IN_GIT})"
    parts = urlsplit(_checked(setting.value, where))
    if parts.password and setting.origin.where == _IN_GIT:
        raise UsageError(f"{where} has a password, but that file is kept in git; set {URL_NAME} in .env.local instead")
    return (
        setting
        if setting.origin.trust > FOLDER
        else SettingValue(value=_without_other_passwords(setting.value), origin=setting.origin)
    )


def without_password(address: str) -> str:
    """Return the address without its password, for display."""
    parts = urlsplit(address)
    login, at, host = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, f"{login.partition(':')[0]}{at}{host}", parts.path, "", ""))


def _checked(address: str, where: str) -> str:
    try:
        parts = urlsplit(address)
        good = parts.scheme in SCHEMES and parts.port != 0 and len(parts.path) > 1 and address.isprintable()
    except ValueError:
        good = False
    # A second `@` belongs to a password that is not escaped. A comma separates several hosts, even if it is escaped,
    # because libpq decodes hosts before it splits them.
    host = unquote(parts.netloc.rpartition("@")[2]) if good else ""
    if not good or parts.fragment or parts.netloc.count("@") > 1 or "," in parts.netloc or "," in host:
        raise UsageError(
            f"{where} does not have the form postgresql://USER@HOST/DATABASE\nwrite special characters in a "
            "password as %XX: @ is %40, / is %2F"
        )
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in PARAMETERS:
            raise UsageError(f"{where} has an unknown parameter {name!r}; allowed: {', '.join(PARAMETERS)}")
        if name == "host" and "," in value:
            raise UsageError(f"{where} has several hosts in its parameter 'host': name one host")
    return address


def _without_other_passwords(address: str) -> str:
    """Return the address with settings that prevent libpq from using another password.

    Libpq would take such a password from the environment or from the home folder.
    """
    parts = urlsplit(address)
    # An empty password in the address keeps libpq from using PGPASSWORD.
    password = [] if parts.password else [("password", "")]
    query = urlencode([*parse_qsl(parts.query), *password, ("passfile", NO_FILE)], quote_via=quote)
    return urlunsplit(parts._replace(query=query))
