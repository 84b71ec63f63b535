"""Who is asked, and for how much: a model only where the call names it and says what it may spend."""

from pathlib import Path
from typing import TYPE_CHECKING

from evalscribe.errors import UsageError
from evalscribe.ids import Frozen

if TYPE_CHECKING:
    from evalscribe.settings import Options, Settings

RULES = "rules"


class Asking(Frozen):
    judge: str = RULES
    budget_usd: float = 0.0
    max_tokens: int | None = None

    @property
    def by_rules(self) -> bool:
        return self.judge == RULES

    @property
    def only_plans(self) -> bool:
        """A model is named and nothing may be spent: what it would take is told."""
        return not self.by_rules and not self.budget_usd

    def options(self, reports: Path | None = None) -> "Options":
        from evalscribe.settings import Options

        budget = None if self.only_plans or self.by_rules else self.budget_usd
        return Options(judge=self.judge, budget=budget, max_tokens=self.max_tokens, reports=reports)


def asking(judge: str | None, budget_usd: float, max_tokens: int | None, found: "Settings") -> Asking:
    """Raises `UsageError` where nobody is named to spend it, and for more than the workspace's budget."""
    asked = Asking(judge=judge or RULES, budget_usd=budget_usd, max_tokens=max_tokens)
    if asked.by_rules and budget_usd:
        raise UsageError("budget_usd is for a model: name one in `judge`, such as anthropic/claude-opus-5-5")
    require_within(budget_usd, found)
    return asked


def require_within(budget_usd: float, found: "Settings") -> None:
    """Raises `UsageError` for more than the workspace's budget."""
    most = found.budget.value
    if budget_usd > most:
        raise UsageError(
            f"budget_usd {budget_usd:g} is more than this workspace's budget of {most:g}: ask for less, "
            "or let its owner raise `budget` in evalscribe.toml or EVALSCRIBE_BUDGET"
        )
