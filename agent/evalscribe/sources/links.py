"""Addresses of the pages that show a run and its evals. They are printed, never contacted."""

from urllib.parse import quote

from evalscribe.ids import Frozen


class Links(Frozen):
    """Where the visualizer shows this run; without either address nothing links anywhere."""

    base: str | None = None
    """What stands before `/run/` in the address that the user gave: `https://host/experiment/default`."""
    visualizer: str | None = None
    """The configured visualizer, to which the run's experiment is added."""

    def run(self, run_id: str, experiment: str) -> str | None:
        base = self._base(experiment)
        return f"{base}/run/{_part(run_id)}" if base else None

    def eval(self, run_id: str, experiment: str, category: str, eval_id: str) -> str | None:
        run = self.run(run_id, experiment)
        return f"{run}/{_part(category or 'none')}/{_part(eval_id)}" if run else None

    def _base(self, experiment: str) -> str | None:
        if self.base or not self.visualizer:
            return self.base
        return f"{self.visualizer.rstrip('/')}/experiment/{_part(experiment)}"


def _part(text: str) -> str:
    return quote(text, safe="", errors="replace")
