"""The places that settings come from, most trusted first."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import SecretStr

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen

T = TypeVar("T")
COMMAND_LINE, ENVIRONMENT, FOLDER = 3, 2, 1
"""How far a place is trusted to say where a key goes. Files of the folder may be a stranger's."""
BUILT_IN = 4
ENV_FILES = (".env.local", ".env")
LARGEST = 1024 * 1024


class Origin(Frozen):
    """Where a value came from, as `doctor` prints it: `environment`, `.env.local`, `default`."""

    where: str
    trust: int


class Value(Frozen, Generic[T]):
    value: T
    origin: Origin


DEFAULT = Origin(where="default", trust=BUILT_IN)


class Place(Frozen):
    """Settings by the name they have in the environment. Held as secrets, since some are."""

    origin: Origin
    settings: dict[str, SecretStr]

    def get(self, name: str) -> Value[str] | None:
        found = self.settings.get(name)
        return Value[str](value=found.get_secret_value(), origin=self.origin) if found else None


Places = tuple[Place, ...]


def find(places: Places, *names: str) -> Value[str] | None:
    """The first value in the most trusted place that has one of the names."""
    return next((found for place in places for name in names if (found := place.get(name))), None)


def place(where: str, trust: int, settings: Mapping[str, str | None], names: Iterable[str]) -> Place:
    """The named settings only; an empty value is no value."""
    kept = {name: (settings.get(name) or "").strip() for name in names}
    origin = Origin(where=where, trust=trust)
    return Place(origin=origin, settings={name: SecretStr(value) for name, value in kept.items() if value})


def env_file(path: Path, where: str, trust: int, names: Iterable[str]) -> Place:
    """A file of `NAME=value` lines. Nothing in it is expanded: `$OTHER_KEY` in a host's address would send that key."""
    from dotenv import dotenv_values

    return place(where, trust, dotenv_values(stream=io.StringIO(read(path)), interpolate=False), names)


def read(path: Path) -> str:
    """A small text file. Raises `NotFoundError` or `UsageError`, never with its content."""
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is too large for a file of settings")
        return path.read_bytes().decode("utf-8-sig", "replace")
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
