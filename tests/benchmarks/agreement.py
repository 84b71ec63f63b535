"""Compare the rules judge's verdicts on the failures of the six real runs with the maintainers' labels.

`accuracy.py` prints and publishes the figures. Failures that ended in the same way before any output count once.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evalscribe.judging.quotations import fold_line, verify_citation
from evalscribe.judging.rules.engine import RULES, RulesJudge
from evalscribe.judging.rules.facts import Facts, Rule
from evalscribe.model.evidence import Evidence, PackedEvidence
from evalscribe.model.finding import CLASSIFICATIONS, Failure, Precedent, Verdict
from evalscribe.model.repository import ReportFile
from evalscribe.reports.history import load_history
from evalscribe.sources.address import Links
from evalscribe.sources.convex_payload import decode_run
from evalscribe.statistics.agreement import Calibration, LabelPair
from judging.rules.test_odd_cases import DEPLOY, INFRASTRUCTURE, STATIC, TESTS
from support.real_runs import CURRENT, RECORDED, derivable, gold, payloads, run_folders

EARLIER = {"jn72t14a": ("jn7922j1",)}
"""Earlier runs of the same model and experiment, keyed by run."""
BASELINE = "MODEL_FAULT"
History = Mapping[str, Sequence[Precedent]]


@dataclass(frozen=True)
class Judged:
    """One failure with the maintainers' label and the judge's verdict."""

    run: str
    evidence: Evidence
    gold: dict[str, Any]
    verdict: Verdict

    @property
    def label(self) -> str:
        return str(self.gold["classification"])

    @property
    def right(self) -> bool:
        return self.verdict.classification == self.label

    @property
    def rule(self) -> str:
        return self.verdict.rule or "(none)"


@cache
def failures(folder: Path) -> Sequence[tuple[Evidence, dict[str, Any]]]:
    """Return each failure with the maintainers' verdict.

    Failures that ended in the same way before any output are included once. The result is cached because every rule
    needs it.
    """
    return tuple(_failures(folder))


def _failures(folder: Path) -> Iterator[tuple[Evidence, dict[str, Any]]]:
    verdicts, seen = gold(folder), set()
    for _, evidence in payloads(folder):
        alike = None if evidence.of("output", "log") else evidence.eval.reason
        if evidence.eval.id in verdicts and alike not in seen:
            seen.update({alike} - {None})
            yield evidence, verdicts[evidence.eval.id]


def earlier_reports(folder: Path) -> History:
    """Return the verdicts in reports of earlier runs, keyed by eval path."""
    files = [_report(folder.parent / name) for name in EARLIER.get(folder.name, ())]
    run = decode_run(json.loads((folder / "failed_evals.json").read_text()), Links())
    return load_history(files, run).precedents if files else {}


def judged(folder: Path, rules: tuple[Rule, ...] = RULES, past: History | None = None) -> list[Judged]:
    judge = RulesJudge(rules)
    cases = (
        (evidence, verdict, tuple((past or {}).get(evidence.eval.path, ()))) for evidence, verdict in failures(folder)
    )
    return [
        Judged(folder.name, e, v, judge.decide(Failure(evidence=e, packed=PackedEvidence(excerpts=()), precedents=p)))
        for e, v, p in cases
    ]


def everything(data: Path, recalled: bool, shape: str = RECORDED) -> list[Judged]:
    folders = run_folders(data, shape)
    return [one for f in folders for one in judged(f, past=earlier_reports(f) if recalled else None)]


def without_own_run(data: Path, whole: Sequence[Judged], recalled: bool, shape: str = RECORDED) -> list[Judged]:
    """Return the verdicts on each run by only those rules that decided rightly in another run."""
    found: list[Judged] = []
    for folder in run_folders(data, shape):
        proven = {one.rule for one in whole if one.run != folder.name and one.right}
        rules = tuple(rule for rule in RULES if rule.__name__.replace("_", "-") in proven)
        found += judged(folder, rules, earlier_reports(folder) if recalled else None)
    return found


def calibration(of: Iterable[Judged]) -> Calibration:
    """Return the agreement of the verdicts with the labels.

    For intervals, the failures of an eval in several runs count as one observation.
    """
    labels = ((one.label, one.verdict.classification, one.evidence.eval.path) for one in of)
    return Calibration(
        (LabelPair(expected=known, predicted=said, cluster=path) for known, said, path in labels), CLASSIFICATIONS
    )


def agreement(of: Iterable[Judged]) -> float:
    return calibration(of).agreement or 0.0


def baseline(of: Sequence[Judged]) -> float:
    return sum(one.label == BASELINE for one in of) / len(of)


def covered(of: Iterable[Judged]) -> list[Judged]:
    return [one for one in of if not one.verdict.uncertain]


def model_or_not(of: Sequence[Judged]) -> float:
    """Return the agreement on whether the model is at fault."""
    return sum((o.label == BASELINE) == (o.verdict.classification == BASELINE) for o in of) / len(of)


def cites_the_place(one: Judged) -> bool | None:
    """Return whether a citation covers a line that the maintainers quote; None if the evidence has no such line."""
    quoted = [fold_line(line) for line in (one.gold.get("modelSnippet") or "").split("\n")]
    quoted = [line for line in quoted if len(line) > 8]
    documents = one.evidence.of("output", "log")
    places = {
        (d.role, d.path, n) for d in documents for n, text in enumerate(d.lines, 1) if _holds(fold_line(text), quoted)
    }
    cited = {(c.role, c.path, n) for c in one.verdict.citations for n in range(c.first, c.last + 1)}
    return bool(places & cited) if places else None


def unverified(of: Iterable[Judged]) -> int:
    """Return the number of citations that cannot be verified in the evidence."""
    return sum(verify_citation(c, one.evidence).status != "verified" for one in of for c in one.verdict.citations)


def by_derivable(data: Path, of: Iterable[Judged]) -> tuple[list[Judged], list[Judged]]:
    """Split the verdicts on runs in the current form by whether the stored evidence is enough for the label."""
    known = {folder.name: derivable(folder) for folder in run_folders(data, CURRENT)}
    sides: dict[bool, list[Judged]] = {True: [], False: []}
    for one in of:
        paths = known[one.run]
        sides[paths.get(one.evidence.eval.path, paths.get("*", False))].append(one)
    return sides[True], sides[False]


def uncertain(of: Sequence[Judged]) -> float:
    return sum(one.verdict.uncertain for one in of) / len(of)


def alone(data: Path, shape: str = RECORDED) -> Mapping[str, Sequence[Judged]]:
    """Return the decisions of each rule when it is the only rule."""
    known = [
        (folder.name, Facts(Failure(evidence=evidence, packed=PackedEvidence(excerpts=()))), verdict)
        for folder in run_folders(data, shape)
        for evidence, verdict in failures(folder)
    ]
    # The guess for undecided failures is left out, because it takes longer than all rules.
    return {
        rule.__name__.replace("_", "-"): [
            Judged(run, facts.evidence, verdict, RulesJudge((rule,)).decide(facts.case))
            for run, facts, verdict in known
            if rule(facts)
        ]
        for rule in RULES
    }


def odd_labels() -> Mapping[str, Mapping[str, str]]:
    """Return the labels of the odd cases, keyed by folder and eval path.

    Cases that the evidence does not decide are not included.
    """
    deploy = {path: "KNOWN_GAP" if "fetch failed" in said else "MODEL_FAULT" for path, said in DEPLOY.items()}
    tests = {**dict.fromkeys(TESTS, "OVERLY_STRICT"), STATIC: "MODEL_FAULT"}
    outages = {path: label for path, ((label, _), _) in INFRASTRUCTURE.items() if label}
    return {"infrastructure": outages, "deploy": deploy, "tests": tests}


def proof(data: Path) -> Mapping[str, Sequence[str]]:
    """Return the runs in which each rule, as the only rule, decides rightly in either form.

    `odd` stands for the odd cases.
    """
    runs = {rule: {one.run for one in decided if one.right} for rule, decided in alone(data).items()}
    for rule, decided in alone(data, CURRENT).items():
        runs[rule] |= {one.run for one in decided if one.right}
    for folder, labels in odd_labels().items():
        for _, evidence in payloads(data / CURRENT / "odd" / folder):
            facts = Facts(Failure(evidence=evidence, packed=PackedEvidence(excerpts=())))
            for rule in RULES:
                decision = rule(facts)
                if decision and decision.label == labels.get(evidence.eval.path):
                    runs[rule.__name__.replace("_", "-")].add("odd")
    return {rule: sorted(found) for rule, found in runs.items()}


def proof_summary(of: Mapping[str, Sequence[str]]) -> str:
    lines = [f"{rule:<30} {', '.join(runs) or '- (needs what these runs do not have)'}" for rule, runs in of.items()]
    return "\n".join(["== runs in which each rule is right when it decides alone", *lines])


def by_rule(of: Sequence[Judged], others: Mapping[str, Sequence[Judged]]) -> Iterator[str]:
    decided: dict[str, list[Judged]] = defaultdict(list)
    for one in of:
        decided[one.rule].append(one)
    for rule, those in sorted(decided.items(), key=lambda item: -len(item[1])):
        runs, right = {one.run for one in those}, sum(one.right for one in those)
        proven = sorted({one.run for one in those if one.right})
        print_runs = f"right in {', '.join(proven)}" if proven else "right nowhere"
        own = others.get(rule, ())
        by_itself = f"; alone {sum(one.right for one in own)}/{len(own)}" if own else ""
        yield f"{rule:<30} {len(those):>2} evals in {len(runs)} runs, {right:>2} rightly: {print_runs}{by_itself}"


def places(of: Sequence[Judged]) -> tuple[int, int]:
    found = [hit for one in of if (hit := cites_the_place(one)) is not None]
    return sum(found), len(found)


def _report(folder: Path) -> ReportFile:
    name = json.loads((folder / "gold.json").read_text())["report"].removeprefix("reports/")
    report = folder.parents[1] / RECORDED / folder.name / "report.md"
    return ReportFile(path=report, name=name, text=report.read_text())


def _holds(text: str, quoted: Iterable[str]) -> bool:
    return any(line in text for line in quoted)
