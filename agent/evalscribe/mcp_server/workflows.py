"""Prompts: ways of working with the tools, each a page that the user's agent follows."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from evalscribe.mcp_server.place import Place

Question = Annotated[str, Field(description="What to find out. Default: what the failures have in common.")]
Money = Annotated[str, Field(description="US dollars that models may cost. Default: 0, rules only.")]


@dataclass(frozen=True)
class Workflows:
    place: Place

    def analyze_run(
        self, run: Annotated[str, Field(description="The run: id, URL, or `sample`.")], budget_usd: Money = "0"
    ) -> str:
        """Find out why a run's evals failed, and whose fault it was."""
        return self._page("mcp_server/analyze_run.md.j2", run=run, budget_usd=budget_usd)

    def compare_runs(
        self,
        base: Annotated[str, Field(description="The run or `provider/model` to compare with.")],
        candidate: Annotated[str, Field(description="The run or `provider/model` that may be worse.")],
        budget_usd: Money = "0",
    ) -> str:
        """Find out what changed between two runs or checkpoints, and why."""
        return self._page("mcp_server/compare_runs.md.j2", base=base, candidate=candidate, budget_usd=budget_usd)

    def triage_collection(
        self,
        collection: Annotated[str, Field(description="The collection. Default: the only one.")] = "",
        question: Question = "What do the failures have in common?",
        budget_usd: Money = "0",
    ) -> str:
        """Find what matters in a large collection before anything expensive is asked."""
        return self._page(
            "mcp_server/triage_collection.md.j2", collection=collection, question=question, budget_usd=budget_usd
        )

    def write_rubric(
        self,
        behaviour: Annotated[str, Field(description="What judges are to look for.")],
        examples: Annotated[str, Field(description="Ids of evals that show it, or do not.")] = "",
    ) -> str:
        """Write a rubric by which judges find a behaviour, and try it."""
        return self._page("mcp_server/write_rubric.md.j2", behaviour=behaviour, examples=examples)

    def review_report(
        self, report: Annotated[str, Field(description="The report's name, or the start of its run's id.")]
    ) -> str:
        """Check a report's labels against the evidence, and propose corrections."""
        return self._page("mcp_server/review_report.md.j2", report=report)

    def gate_experiment(
        self,
        experiment: Annotated[str, Field(description="The experiment, by name or id; `sample` is one to try.")],
        candidate: Annotated[str, Field(description="The build to try. Default: the source as it is now.")] = "",
        baseline: Annotated[str, Field(description="The run to compare with. Default: the newest that passed.")] = "",
        budget_usd: Money = "0",
    ) -> str:
        """Try a build on a dataset, and decide whether it is good enough."""
        return self._page(
            "mcp_server/gate_experiment.md.j2",
            experiment=experiment,
            candidate=candidate,
            baseline=baseline,
            budget_usd=budget_usd,
        )

    def _page(self, template: str, **values: str) -> str:
        from evalscribe.prompts.templates import Prompts

        return Prompts(self.place.settings().root).render(template, **values)
