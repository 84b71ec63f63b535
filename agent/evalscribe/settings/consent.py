"""Manage the user's consent to model calls, which cost money."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from evalscribe.errors import ConsentError

if TYPE_CHECKING:
    from evalscribe.model.protocols import Estimate


ADVICE = "Add `yes`, or name the model with `judge`"


class Consent:
    """Permission for model calls, which cost money.

    A user at a terminal confirms the estimate once for all calls of a command. Without a terminal, a model may only be
    called if the user named this model or agreed in advance to all models. A key does not count as permission, and
    neither does a model name in a file.
    """

    def __init__(
        self,
        *,
        agreed: bool = False,
        permitted: Iterable[str] = (),
        ask: Callable[[str], bool] | None = None,
        limit: str = "",
    ) -> None:
        """Store what the user has agreed to.

        Args:
            agreed: True if the user has agreed to calls of all models.
            permitted: Names of the models that the user named.
            ask: A function that asks the user a question and returns True if the answer is yes. None if nobody can be
                asked.
            limit: Text about the budget. This text is added to the question.
        """
        self.agreed = agreed
        self.estimate: Estimate | None = None
        """The last estimate that `require` received."""
        self._permitted = set(permitted)
        self._ask = ask
        self._limit = limit

    def name(self, *models: str) -> None:
        """Permit calls of these models because the user named them."""
        self._permitted.update(models)

    def check(self, *models: str, advice: str = ADVICE) -> None:
        """Raise `ConsentError` if one of the models may not be called and no user can be asked for consent.

        The message includes `advice`.
        """
        unnamed = _join_names(model for model in models if model not in self._permitted)
        if unnamed and not self.agreed and self._ask is None:
            raise ConsentError(
                f"no consent to call {unnamed}, which costs money. {advice}. Nothing was sent.",
                fields=("yes", "judge"),
            )

    def require(self, *models: str, estimate: "Estimate | None" = None) -> None:
        """Call `check`, then ask the user at the terminal for consent.

        The user is not asked if the user has already agreed or cannot be asked, or if the estimate shows that no model
        has to be called. Raises `ConsentError` if `check` raises it, or if the user does not consent.
        """
        self.check(*models)
        if estimate is not None:
            self.estimate = estimate
        # An estimate without tokens means that no model has to be called.
        if self.agreed or self._ask is None or (estimate and not estimate.input_tokens):
            return
        cost = f" for {estimate.summary}" if estimate else ""
        if not self._ask(f"Call {_join_names(models)}{cost}{self._limit}? [y/N] "):
            raise ConsentError(f"{_join_names(models)} was not called, because the question was not answered with yes")
        self.agreed = True


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))
