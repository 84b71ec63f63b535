"""From a name and a configuration, as somebody wrote them, to a scorer's spec and to the scorer itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from evalscribe.errors import UsageError
from evalscribe.judging.scorers.catalogue import found, kinds
from evalscribe.judging.scorers.config import configured
from evalscribe.judging.scorers.kind import Alias, Check
from evalscribe.judging.scorers.result import CannotScore, broken
from evalscribe.model.experiment_storage import ScorerRunner
from evalscribe.model.score import ScoreResult, ScorerRequest, ScorerSpec


def spec(name: str, config: Mapping[str, JsonValue]) -> ScorerSpec:
    """A scorer without a model, by its name or another name of one of its settings; its config complete.

    Raises `UsageError` naming the key and its rule.
    """
    one = found(name)
    given = configured(one.config, name, config)
    if isinstance(one, Alias):
        given = configured(kinds()[one.of].config, name, one.translated(given))
        one = kinds()[one.of]
    if one.check is None:
        raise UsageError(f"scorer {name} needs a model")
    return ScorerSpec(
        name=name, scorer=one.name, config=given.model_dump(mode="json"), code=f"{one.name}/{one.version}"
    )


def runner(spec: ScorerSpec) -> ScorerRunner:
    """Ready to score. Raises `UsageError` for a spec that `spec` would not make."""
    kind = kinds().get(spec.scorer)
    if kind is None or kind.check is None:
        raise UsageError(f"scorer {spec.name} ({spec.scorer}) is none without a model")
    return _Runner(spec.name, kind.check(configured(kind.config, spec.name, spec.config)))


@dataclass
class _Runner:
    name: str
    check: Check
    depends_on: tuple[str, ...] = ()

    async def score(self, request: ScorerRequest) -> ScoreResult:
        """The one place where what concerns one item becomes data."""
        try:
            return await self.check(request)
        except CannotScore as error:
            return broken(error)
        except RecursionError:
            return broken(CannotScore("input_error", "the values of this item are nested too deeply to be compared"))
        except OverflowError:
            return broken(CannotScore("input_error", "a number of this item is too large to be compared"))

    async def close(self) -> None:
        await self.check.close()
