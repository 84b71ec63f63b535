"""A paid proposal is stored under the content id of its question."""

from evalscribe.model.finding import Recommendation
from evalscribe.prompts.templates import Prompts
from evalscribe.reports.old_page import parse
from evalscribe.reports.patch import CommitFiles, patch_scope
from evalscribe.reports.proposal import ConcernedFinding, Proposer
from support.paid_work import DATA
from support.scripted_model import ScriptedModel

PAGE = "reports/example/sample-model-2/cascade0_2026-11-02.md"
FILES = {"evals/002-queries/027-task_27/TASK.txt": "List the items.\n", "eslint.config.mjs": "export default [];\n"}
KEY = "sha256:1d6bb03617ef5ad2aa569aacd021f4aec79e05151d683ca42f8aa58390a14d66"
"""Key that the code of commit 29486c6 computes. Proposals in existing stores have such keys."""


def test_proposal_key_is_that_of_existing_stores() -> None:
    """The key depends on every field of the recommendation and the report's entries, on prompts and on tools."""
    report = parse((DATA / PAGE).read_text("utf-8"))
    evals = ("002-queries/027-task_27",)
    recommendation = Recommendation(id="R1", group="eval", text="Say what the order is.", evals=evals)
    concerns = [ConcernedFinding(entry=entry) for entry in report.entries if entry.evals[0].path in evals]
    assert len(concerns) == 1
    proposer = Proposer(
        recommendation,
        concerns,
        patch_scope(tuple(FILES), "eval", evals),
        CommitFiles(tuple(FILES), FILES.get),
        model=ScriptedModel([]),
        prompts=Prompts(),
    )
    assert proposer.key == KEY
