"""Provider, model and experiment that the user states in place of the file."""

from pydantic import JsonValue

from evalscribe.ids import Frozen
from evalscribe.run import UNKNOWN, Run


class RunOverrides(Frozen):
    provider: str | None = None
    model: str | None = None
    """`gpt-4o`, or `openai/gpt-4o` where no provider is given."""
    experiment: str | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """Names of what the user said; a model with its provider in front is both."""
        given = {"provider": self.provider or "/" in (self.model or ""), "model": self.model}
        return tuple(name for name, value in {**given, "experiment": self.experiment}.items() if value)


def agent(run: Run) -> dict[str, JsonValue]:
    """What every record's metadata says of who was tested."""
    return {"model_name": run.model, "provider": run.provider}


def named(overrides: RunOverrides, model: str | None, provider: str | None = None) -> tuple[str, str]:
    """Provider and model of a run: the overrides, else what the file has. `openai/gpt-4o` is both in one."""
    whole = overrides.model or model or UNKNOWN
    given = overrides.provider or (None if overrides.model else provider)
    if given:
        return given, whole
    before, slash, after = whole.partition("/")
    return (before, after) if slash and before and after else (provider or UNKNOWN, whole)
