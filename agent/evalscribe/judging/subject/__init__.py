"""What a judge is shown: items, each of which it can cite by its mark."""

from evalscribe.judging.subject.agent_runs import of_agent_run, of_own_run
from evalscribe.judging.subject.failures import of_evidence
from evalscribe.judging.subject.item import Item, Subject

__all__ = ["Item", "Subject", "of_agent_run", "of_evidence", "of_own_run"]
