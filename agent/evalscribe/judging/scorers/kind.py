"""What a built-in scorer is: its name, its configuration and how it checks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ConfigDict, JsonValue

from evalscribe.ids import Frozen
from evalscribe.model.score import ScoreResult, ScorerRequest


class Configured(Frozen):
    """The base of every scorer's configuration: JSON, closed, and never converted into what it is not."""

    model_config = ConfigDict(
        strict=True, allow_inf_nan=False, use_attribute_docstrings=True, validate_by_alias=True, serialize_by_alias=True
    )


C = TypeVar("C", bound=Frozen)


class Check(Protocol):
    """A configured scorer. What concerns this item only is raised as `CannotScore`."""

    async def __call__(self, request: ScorerRequest) -> ScoreResult: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Kind(Generic[C]):
    """A scorer that there is."""

    name: str
    line: str
    """What it asks, in a line."""
    config: type[C]
    check: Callable[[C], Check] | None
    """None for one that needs a model, which is made elsewhere."""
    version: int = 1
    """Raised when its rule changes, so that older scores are not taken for the same."""


@dataclass(frozen=True)
class Alias(Generic[C]):
    """Another name for a setting of a scorer."""

    name: str
    of: str
    line: str
    config: type[C]
    translated: Callable[[C], Mapping[str, JsonValue]]


def pure(check: Callable[[C, ScorerRequest], ScoreResult]) -> Callable[[C], Check]:
    """A check that rests on nothing but its configuration and its request."""
    return lambda config: Plain(lambda request: check(config, request))


@dataclass(frozen=True)
class Plain:
    """A plain function as a `Check`."""

    check: Callable[[ScorerRequest], ScoreResult]

    async def __call__(self, request: ScorerRequest) -> ScoreResult:
        return self.check(request)

    async def close(self) -> None:
        """There is nothing to end."""


AnyKind = Kind[Any]
AnyAlias = Alias[Any]
