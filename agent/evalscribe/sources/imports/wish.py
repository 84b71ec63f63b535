"""What the user says of a run where the file does not, or has it wrong."""

from pydantic import JsonValue

from evalscribe.ids import Frozen
from evalscribe.run import UNKNOWN, Run


class Wish(Frozen):
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


def named(wish: Wish, model: str | None, provider: str | None = None) -> tuple[str, str]:
    """Provider and model of a run: as wished, else as the file has them. `openai/gpt-4o` is both in one."""
    whole = wish.model or model or UNKNOWN
    given = wish.provider or (None if wish.model else provider)
    if given:
        return given, whole
    before, slash, after = whole.partition("/")
    return (before, after) if slash and before and after else (provider or UNKNOWN, whole)
