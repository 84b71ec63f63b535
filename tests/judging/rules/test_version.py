"""The rules decide known failures as pinned for their version; a changed decision needs a new version.

`decisions.json` holds the pinned decisions. After raising the version, pin them again, which needs the real data:

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


def test_decisions_on_the_sample_match_the_pinned_version() -> None:
    compared({"sample": decisions(snapshot_folder())})


def test_decisions_on_real_runs_match_the_pinned_version(real_data: Path) -> None:
    compared(of_real_runs(real_data))


def compared(decided: dict[str, Any]) -> None:
    pinned = json.loads(PINNED.read_text())
    details = {"version": pinned["version"], "now": VERSION, "pinned": PINNED.name, "test": Path(__file__).name}
    assert pinned["version"] == VERSION, PIN.format(**details)
    changed = {
        name: differing(pinned["runs"][name], now) for name, now in decided.items() if pinned["runs"][name] != now
    }
    assert not changed, f"{RAISE.format(changed=', '.join(changed), **details)}\n{json.dumps(changed, indent=1)}"


def differing(before: Any, now: Any) -> Any:
    """Return the pinned and the current decision; for a run in the repository, only of failures that differ."""
    if isinstance(now, str):
        return [before, now]
    return {name: [before.get(name), now.get(name)] for name in {**before, **now} if before.get(name) != now.get(name)}


def decisions(run: Path) -> dict[str, str]:
    """Return a short decision for each failure of a run, with a digest of its error and citations."""
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
    """Return a digest of the decisions of each run; the runs themselves are not in the repository."""
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
