"""The rules decide known failures as their version did: who changes a decision raises the version.

`decisions.json` holds the decisions of the version. After raising it, write them anew; real data is needed for that:

    EVALSCRIBE_REAL_DATA=<folder> PYTHONPATH=tests python -m judging.rules.test_version
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from evalscribe.ids import content_id
from evalscribe.judging.rules.engine import VERSION, RulesJudge
from evalscribe.model.evidence import PackedEvidence
from evalscribe.model.finding import Failure
from evalscribe.sample import snapshot_folder
from support.real_runs import CURRENT, RECORDED, payloads, run_folders

PINNED = Path(__file__).with_name("decisions.json")
RAISE = (
    "the rules of version {version} no longer decide {changed} as they did. If that is intended, raise VERSION in "
    "judging/rules/engine.py, so that stored verdicts are decided again, and pin the new decisions as {test} says"
)
PIN = "{pinned} holds decisions of version {version} of the rules: pin those of version {now} as {test} says"


def test_the_sample_is_decided_as_by_this_version() -> None:
    compared({"sample": decisions(snapshot_folder())})


def test_real_runs_are_decided_as_by_this_version(real_data: Path) -> None:
    compared(of_real_runs(real_data))


def compared(found: dict[str, Any]) -> None:
    pinned = json.loads(PINNED.read_text())
    told = {"version": pinned["version"], "now": VERSION, "pinned": PINNED.name, "test": Path(__file__).name}
    assert pinned["version"] == VERSION, PIN.format(**told)
    changed = {name: differing(pinned["runs"][name], now) for name, now in found.items() if pinned["runs"][name] != now}
    assert not changed, f"{RAISE.format(changed=', '.join(changed), **told)}\n{json.dumps(changed, indent=1)}"


def differing(before: Any, now: Any) -> Any:
    """What was pinned and what is decided now, of a run in the repository only for the failures that differ."""
    if isinstance(now, str):
        return [before, now]
    return {name: [before.get(name), now.get(name)] for name in {**before, **now} if before.get(name) != now.get(name)}


def decisions(run: Path) -> dict[str, str]:
    """What is decided about each failure of a run, in short; its error and quotations as a digest."""
    return {
        evidence.eval.path: decision(Failure(evidence=evidence, packed=PackedEvidence(excerpts=())))
        for _, evidence in payloads(run)
    }


def decision(case: Failure) -> str:
    verdict = RulesJudge().decide(case)
    cited = [[one.role, one.path, one.first, one.last] for one in verdict.citations]
    proof = content_id([verdict.error, cited, verdict.would_pass]).removeprefix("sha256:")[:12]
    sure = "uncertain" if verdict.uncertain else "certain"
    named = f"{verdict.classification} {verdict.cause_kind}/{verdict.cause} by {verdict.rule}"
    return f"{named}, {sure}, {verdict.confidence:g}, {proof}"


def of_real_runs(data: Path) -> dict[str, str]:
    """By run a digest of its decisions: the runs themselves are not part of the repository."""
    shapes = [(shape, folder) for shape in (RECORDED, CURRENT) for folder in run_folders(data, shape)]
    return {f"{shape}/{folder.name}": content_id(decisions(folder)) for shape, folder in shapes}


def _pin() -> None:
    runs = {"sample": decisions(snapshot_folder()), **of_real_runs(Path(os.environ["EVALSCRIBE_REAL_DATA"]))}
    before = json.loads(PINNED.read_text()) if PINNED.exists() else {}
    if before.get("version") == VERSION and before["runs"] != runs:
        sys.exit(f"decisions of version {VERSION} are pinned already and were others: raise VERSION first")
    PINNED.write_text(json.dumps({"version": VERSION, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    _pin()
