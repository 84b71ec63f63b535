"""What is finished: evidence, verdicts, reports, labels."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from evalscribe.analysis import FindingSummary
from evalscribe.evidence import Evidence, Unreadable
from evalscribe.finding import Unclassified, Verdict
from evalscribe.given_label import GivenLabel
from evalscribe.patch import Patch, Proposal
from evalscribe.report_file import StoredReport
from evalscribe.run import Run
from evalscribe.sighting import Sighting


class Store(Protocol):
    """What is finished, kept by content id. Every operation is short and whole."""

    def put_run(self, run: Run) -> None:
        """What was imported of it stays."""

    def get_run(self, run_id: str) -> Run | None:
        """With its failures: those that were imported, and those that it lists."""

    def run_ids(self, prefix: str = "") -> tuple[str, ...]:
        """Ids of the stored runs that begin so, in order; of none the newest run of an experiment that is called so."""

    def put_evidence(self, run_id: str, evidence: Evidence | Unreadable) -> None: ...
    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | Unreadable | None: ...
    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None: ...
    def get_verdict(self, key: str) -> Verdict | Unclassified | None: ...
    def put_report(self, run_id: str, report: StoredReport) -> None: ...
    def get_report(self, run_id: str) -> StoredReport | None: ...
    def put_findings(self, run_id: str, findings: Sequence[FindingSummary]) -> None:
        """What the run's report says, in place of what it said before."""

    def put_sightings(self, run_id: str, sightings: Sequence[Sighting]) -> None:
        """All of a run, in place of those it had."""

    def sightings(self, run_id: str) -> tuple[Sighting, ...]:
        """In the order that they were put in; none where nothing was put in."""

    def put_labels(self, labels: Mapping[str, Sequence[GivenLabel]]) -> None:
        """Per run all labels that people gave, in place of those it had; of other runs they stay."""

    def labels(self) -> tuple[GivenLabel, ...]:
        """By run, in the order that they were put in."""

    def put_proposal(self, key: str, proposal: Proposal) -> None:
        """What a model proposed, by the content id of what it was asked: never paid for twice."""

    def proposal(self, key: str) -> Proposal | None: ...
    def request_approval(self, patch: Patch) -> bool:
        """Record that a person is asked to approve a patch.

        Returns:
            Whether this replaces an unanswered request for another patch of the same recommendation.
        """

    def take_approval(self, patch: Patch) -> bool:
        """Close the request for exactly this patch; False if there is none. Each request is answered once."""

    def drop_approval(self, patch: Patch) -> None:
        """Forget whatever is asked about the patch's recommendation."""

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        """Held while a run is analysed; dies with its process. Raises `UnavailableError` naming the holder."""

    def close(self) -> None: ...
