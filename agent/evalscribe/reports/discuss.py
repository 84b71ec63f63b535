"""Discuss a report: with a model, or by looking up its findings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from evalscribe.errors import AccessError, DataError, NotFoundError
from evalscribe.llm.budget import cost_of
from evalscribe.model.analysis import StageUsage
from evalscribe.model.chat import Usage
from evalscribe.model.protocols import Model, OnText
from evalscribe.model.repository import ReportFile
from evalscribe.prompts.templates import Prompts
from evalscribe.redaction.redact import redact
from evalscribe.reports.discussion.conversation import ModelDiscussion
from evalscribe.reports.discussion.dossier import MOST_LOOKED_AT, DiscussionAnswer, ReportEvidence
from evalscribe.reports.discussion.lookup import LookupDiscussion
from evalscribe.reports.outline import spent_summary
from evalscribe.reports.reading import find_report, load_analysis, reload_report
from evalscribe.settings import RULES
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore

NO_MODEL = (
    "No model is asked: findings and evidence are shown as they are, `help` says what can be typed. "
    "A model answers questions with `evalscribe discuss REPORT --judge PROVIDER/MODEL` and a key, "
    "such as ANTHROPIC_API_KEY."
)


STAGE = "discuss"
"""Stage under which model calls are counted in the usage."""


def open_discussion(workspace: Workspace, name: str) -> "Discussion":
    """Open a discussion of a report with the configured model, or without a model.

    Args:
        workspace: Provides the report, its evidence and the models.
        name: Report name as in `find_report`.

    Raises:
        EvalscribeError: The report does not exist, or the model is not accessible.
    """
    file = find_report(workspace.reports, name)
    model = _model(workspace)
    cost = cost_of(model) if model else None
    budget = workspace.budget
    tokens = f" and {budget.tokens:,} tokens" if budget.tokens is not None else ""
    bound = f"at most ${budget.usd:g}{tokens} in all"
    return Discussion(file, workspace.store.analyses, workspace.prompts, model, cost=cost, budget=bound)


def _model(workspace: Workspace) -> Model | None:
    name = workspace.settings.judge_name
    if name == RULES:
        return None
    try:
        return workspace.models.open(name, STAGE)
    except AccessError as error:
        raise AccessError(f"{error}\nor search report and evidence without a model: --judge rules") from None


def stage_usage(spent: Mapping[str, Usage]) -> tuple[StageUsage, ...]:
    """Return the usage of each stage for display."""
    return tuple(stage for stage in spent_summary(spent).stages if stage.calls)


class Discussion:
    """A report and the conversation about it."""

    def __init__(
        self,
        file: ReportFile,
        store: "AnalysisStore",
        prompts: Prompts,
        model: Model | None = None,
        *,
        cost: Callable[[Usage], float] | None = None,
        budget: str = "",
    ) -> None:
        """Load the report.

        Args:
            file: The report.
            store: The store with its evidence.
            prompts: The prompt templates.
            model: The model to ask; None to only look up findings.
            cost: Returns the price of a usage in USD.
            budget: The budget in words.

        Raises:
            DataError: The report cannot be read.
            UsageError: A template is broken.
        """
        self.report = file
        self._store = store
        self._dossier = _dossier(file, store)
        self._own = bool(prompts.own("discuss"))
        self._conversation = ModelDiscussion(model, prompts, self._dossier, cost=cost) if model else None
        self._model = model
        self._budget = budget

    def introduction(self) -> tuple[str, ...]:
        """Return the lines that a user should read before the first question."""
        return tuple(line for line in (self._who_answers(), *self._prompts_note(), *self._missing()) if line)

    async def ask(self, question: str, on_text: OnText) -> DiscussionAnswer:
        """Answer a question, streaming text to `on_text`, with citations resolved.

        The report is read again first: people correct it during the discussion, and the model is told about changes.
        Raises
        `EvalscribeError` if no question can be answered; a problem with this one is in `DiscussionAnswer.broken_off`.
        """
        self._read_again()
        question = redact(question)
        if self._conversation:
            return await self._conversation.ask(question, on_text)
        return await LookupDiscussion(self._dossier).ask(question, on_text)

    def _read_again(self) -> None:
        """Reload the report; if it can no longer be read, keep the last version."""
        with suppress(NotFoundError, DataError):
            file = reload_report(self.report)
            if file.text != self.report.text:
                self._dossier = _dossier(file, self._store)
                self.report = file
                if self._conversation:
                    self._conversation.about(self._dossier)

    def _who_answers(self) -> str:
        if not self._conversation or not self._model:
            return NO_MODEL
        bound = f"; {self._budget}" if self._budget else ""
        return f"{self._model.id} answers, {self._conversation.estimate().summary} a question{bound}."

    def _prompts_note(self) -> list[str]:
        asked = self._own and self._conversation
        return ["The workspace's own prompts are used in place of the shipped ones."] if asked else []

    def _missing(self) -> list[str]:
        missing = self._dossier.missing()
        if not missing:
            return []
        return [f"The evidence {self._whose([n for n, _ in missing])}is not here: {missing[0][1]}"]

    def _whose(self, missing: Sequence[int]) -> str:
        """Name the findings with missing evidence; names none if all evidence is missing."""
        if len(missing) >= min(len(self._dossier.topics), MOST_LOOKED_AT):
            return ""
        several = "findings" if len(missing) > 1 else "finding"
        return f"of {several} {', '.join(map(str, missing[:10]))}{' …' if len(missing) > 10 else ''} "


def _dossier(file: ReportFile, store: "AnalysisStore") -> ReportEvidence:
    """Load the evidence and redact the report: people edit reports, so one may contain an unredacted secret."""
    return ReportEvidence(file.name, redact(file.text), load_analysis(file), store)
