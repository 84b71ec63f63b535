"""Measure how often judges agree with people on public data, and write `agent/docs/accuracy.md`.

    python tests/benchmarks/accuracy.py                   write the page
    python tests/benchmarks/accuracy.py --check           compare the page with the data; ends with 1 if they differ
    python tests/benchmarks/accuracy.py rules [-v]        print figures about every rule and about changed failures
    python tests/benchmarks/accuracy.py runs FOLDER       write the runs for `evalscribe analyze`, for recordings
    python tests/benchmarks/accuracy.py record NAME DATASET WORKSPACE … [--answered-by JUDGE]

`record` adds the verdicts of finished analyses to `tests/benchmarks/data/recorded_verdicts.jsonl`. The page compares
the recordings `before` and `after`. All commands need EVALSCRIBE_REAL_DATA.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import agreement, heldout
from benchmarks.recorded_verdicts import (
    DATASETS,
    FILE,
    MAGENTIC_ONE,
    TAU_BENCH,
    TAU_RETAIL,
    RecordedVerdict,
    judged_by_rules,
    read_recorded,
    record,
    write_magentic_one,
    write_recorded,
)
from evalscribe.judging.result_text import render_confusion
from evalscribe.model.finding import CLASSIFICATIONS
from evalscribe.statistics.agreement import Calibration, LabelPair, reliability
from evalscribe.statistics.intervals import (
    Interval,
    TrialCluster,
    ValueWithInterval,
    combine_rates,
    estimate_mean,
    estimate_rate,
)
from evalscribe.statistics.significance import Task, compare_pairs
from support.real_runs import CURRENT, RECORDED, run_folders

PAGE = Path(__file__).parents[2] / "agent/docs/accuracy.md"
TEMPLATE = Path(__file__).with_name("accuracy.md.j2")
MODEL_FAULT = "MODEL_FAULT"
CONSTANT, RULES, UNPROVEN = f"always `{MODEL_FAULT}`", "rules", "only rules right in another run"
CASCADE = "rules, then `after` if uncertain"
LATEST = "after"
PAIR = ("before", LATEST)
"""Names of the two recordings that the page compares."""
TOLERANCES = (0, 2, 5)
"""Maximum distances in messages. A call and its result are two messages."""
NONE = "–"
FLIP = "flip"
"""Marks a failure of tau-bench that passes when its task is corrected."""
WRONG_ACTIONS = ("expected_actions", FLIP)
"""Marks of failures in tasks whose expected actions were wrong."""


@dataclass(frozen=True)
class Case:
    """A failure with a label from people or another known fact."""

    run: str
    eval: str
    known: str
    """Label by people. For agent runs, it is the side at fault, or the category of the task's later fix."""
    cluster: str
    """Name of the eval or task. Cases with the same name count as one observation."""
    step: int | None = None
    """Number of the message, from 1, at which the run went wrong according to people."""


class Scored(NamedTuple):
    case: Case
    verdict: RecordedVerdict


Right = Callable[[Scored], bool]
"""Returns True if a verdict is right."""
Judges = dict[str, list[Scored]]
"""Verdicts, keyed by the name of the judge or of the recording."""


# Data sets


def convex_judges(data: Path, shape: str, recorded: Sequence[RecordedVerdict], *, derivable: bool | None) -> Judges:
    """Return all judges' verdicts on the six runs in one form.

    If `derivable` is not None, return only those on evals whose label can (True) or cannot (False) be derived from the
    evidence.
    """
    plain = agreement.everything(data, recalled=False, shape=shape)
    proven = agreement.without_own_run(data, plain, recalled=False, shape=shape)
    found: Judges = {}
    for name, judged in ((RULES, plain), (UNPROVEN, proven)):
        chosen = judged if derivable is None else agreement.by_derivable(data, judged)[0 if derivable else 1]
        found[name] = [_by_rules(one, shape) for one in chosen]
    return _with_others([one.case for one in found[RULES]], shape, found, recorded)


def _by_rules(one: agreement.Judged, dataset: str) -> Scored:
    path = one.evidence.eval.path
    verdict = one.verdict
    return Scored(
        Case(one.run, path, one.label, path),
        RecordedVerdict(
            name=RULES,
            dataset=dataset,
            run=one.run,
            eval=path,
            prompt="",
            judge=verdict.judge,
            label=verdict.classification,
            cause=verdict.rule or "no-rule",
            cause_kind=verdict.cause_kind,
            confidence=verdict.confidence,
            uncertain=verdict.uncertain,
        ),
    )


def agent_judges(data: Path, dataset: str, cases: Sequence[Case], recorded: Sequence[RecordedVerdict]) -> Judges:
    """Return all judges' verdicts on a dataset of agent runs."""
    rules = _matched(cases, judged_by_rules(data, dataset))
    assert len(rules) == len(cases), f"{len(cases) - len(rules)} failures of {dataset} are not in the analysis"
    return _with_others(cases, dataset, {RULES: rules}, recorded)


def _with_others(cases: Sequence[Case], dataset: str, rules: Judges, recorded: Sequence[RecordedVerdict]) -> Judges:
    """Add the constant baseline before the rules, and the recordings after them."""
    constant = [
        Scored(
            case,
            RecordedVerdict(
                name=CONSTANT,
                dataset=dataset,
                run=case.run,
                eval=case.eval,
                prompt="",
                judge=CONSTANT,
                label=MODEL_FAULT,
                cause_kind="model",
                confidence=1.0,
            ),
        )
        for case in cases
    ]
    found = {CONSTANT: constant, **rules}
    names = {one.name for one in recorded if one.dataset == dataset}
    for name in (*(name for name in PAIR if name in names), *sorted(names - {*PAIR})):
        found[name] = _matched(cases, [one for one in recorded if (one.name, one.dataset) == (name, dataset)])
    if RULES in rules and LATEST in names:
        found[CASCADE] = _cascade(rules[RULES], found[LATEST])
    return found


def _cascade(rules: Sequence[Scored], model: Sequence[Scored]) -> list[Scored]:
    """Return the verdicts of a cascade that asks the model only if the rules are uncertain."""
    of_model = {scored.case: scored for scored in model}
    return [of_model.get(scored.case, scored) if scored.verdict.uncertain else scored for scored in rules]


def _matched(cases: Sequence[Case], verdicts: Iterable[RecordedVerdict]) -> list[Scored]:
    of = {(verdict.run, verdict.eval): verdict for verdict in verdicts}
    return [Scored(case, of[case.run, case.eval]) for case in cases if (case.run, case.eval) in of]


def tau_cases(data: Path) -> list[Case]:
    """Return the failed trials, each with the category of the task's later fix.

    It is `FLIP` if the corrected task passes.
    """
    trials = json.loads((data / "tau-bench/replayed-0-24.json").read_text())["trials"]
    return [
        Case(
            TAU_BENCH,
            f"airline-agent-policy/task-{one['task_id']}#{one['trial'] + 1}",
            FLIP if one["corrected_reward"] and one["same_request"] else one["category"],
            str(one["task_id"]),
        )
        for one in trials
        if not one["old_reward"]
    ]


def agentrx_cases(data: Path, dataset: str) -> list[Case]:
    """Return the failures, each with the side at fault and the message of the root cause."""
    found = []
    for one in json.loads((data / dataset / "ground_truth.json").read_text()):
        root = str(one["root_cause"]["failure_id"])
        failure = next((f for f in one["failures"] if str(f["failure_id"]) == root), None)
        if failure is None:
            continue
        id = one["trajectory_id"]
        path = f"retail-agent-policy/task-{id}" if dataset == TAU_RETAIL else f"magentic-one/{id}"
        side = "user" if failure["failed_agent"].lower() == "user" else "model"
        found.append(Case(dataset, path, side, path, step=failure["step_number"]))
    return found


def contested(data: Path) -> list[Case]:
    """Return the counted failures that the maintainers labelled differently in another report."""
    told = json.loads((data / CURRENT / "derivable.json").read_text())
    counted = agreement.everything(data, recalled=False)
    paths = ((one, told[one.run].get(one.evidence.eval.path, {})) for one in counted)
    return [_by_rules(one, RECORDED).case for one, known in paths if known.get("contested")]


# Figures


def by_label(scored: Iterable[Scored]) -> Calibration:
    pairs = (LabelPair(expected=c.known, predicted=v.label, cluster=c.cluster) for c, v in scored)
    return Calibration(pairs, CLASSIFICATIONS)


def by_side(scored: Iterable[Scored]) -> Calibration:
    """Return the agreement on the side at fault: the simulated user or the model.

    Other causes agree with neither side.
    """
    pairs = (LabelPair(expected=c.known, predicted=_side(v) if v.label else None, cluster=c.cluster) for c, v in scored)
    return Calibration(pairs, ("model", "user"))


def _side(verdict: RecordedVerdict) -> str:
    return verdict.cause_kind if verdict.cause_kind in ("model", "user") else "other"


def rate(scored: Iterable[Scored], holds: Right) -> ValueWithInterval | None:
    """Return the share of cases for which `holds` is true."""
    groups = defaultdict[str, list[bool]](list)
    for one in scored:
        groups[one.case.cluster].append(holds(one))
    return estimate_rate(TrialCluster(sum(group), len(group)) for group in groups.values())


def mean(scored: Iterable[Scored], value: Callable[[Scored], float]) -> ValueWithInterval | None:
    groups = defaultdict[str, list[float]](list)
    for one in scored:
        groups[one.case.cluster].append(value(one))
    return estimate_mean(groups.values())


def is_right(one: Scored) -> bool:
    return one.verdict.label == one.case.known


def is_right_about_the_model(one: Scored) -> bool:
    """Return whether the judge is right about whether the model is at fault."""
    label = one.verdict.label
    return label is not None and (label == MODEL_FAULT) == (one.case.known == MODEL_FAULT)


def is_right_side(one: Scored) -> bool:
    return one.verdict.label is not None and _side(one.verdict) == one.case.known


def certain(scored: Iterable[Scored]) -> list[Scored]:
    return [one for one in scored if one.verdict.label and not one.verdict.uncertain]


def difference(base: Sequence[Scored], candidate: Sequence[Scored], right: Right) -> ValueWithInterval | None:
    """Return the difference between the shares of right verdicts, on the cases that both judges have."""
    pairs = paired(base, candidate)
    tasks = [Task((Fraction(right(one)),), (Fraction(right(other)),)) for one, other in pairs]
    found = compare_pairs(tasks, clusters=[one.case.cluster for one, _ in pairs])
    return ValueWithInterval(found.difference, found.interval) if pairs else None


def paired(base: Sequence[Scored], candidate: Sequence[Scored]) -> list[tuple[Scored, Scored]]:
    of = {one.case: one for one in candidate}
    return [(one, of[one.case]) for one in base if one.case in of]


# Tables


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """Render a Markdown table that ends with a newline.

    If `numbers` is true, all columns but the first are right-aligned.
    """
    rule = f"|---|{('--:|' if numbers else '---|') * (len(head) - 1)}"
    return "".join(f"{line}\n" for line in (_row(head), rule, *map(_row, rows)))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def percent(found: ValueWithInterval | None) -> str:
    """Render a share with its interval, such as `85 % [72, 91]`."""
    return NONE if found is None else f"{100 * found.value:.0f} % {_ends(found.interval, '.0f', 100)}"


def points(found: ValueWithInterval | None) -> str:
    """Render a difference of shares with its interval in percentage points."""
    return NONE if found is None else f"{100 * found.value:+.0f} {_ends(found.interval, '+.0f', 100)}"


def amount(found: ValueWithInterval | None, form: str) -> str:
    return NONE if found is None else f"{found.value:{form}} {_ends(found.interval, form)}"


def _ends(interval: Interval, form: str, factor: int = 1) -> str:
    return f"[{', '.join(f'{factor * end:{form}}' for end in interval)}]"


def _label_tables(judges: Judges) -> dict[str, str]:
    head = ("judge", "n", "agreement", "above constant", "model's fault or not", "balanced accuracy", "kappa")
    rows = []
    for name, scored in judges.items():
        more = NONE if name == CONSTANT else points(difference(judges[CONSTANT], scored, is_right))
        figures = percent(rate(scored, is_right)), more, percent(rate(scored, is_right_about_the_model))
        rows.append((name, _number(scored), *figures, *_beyond_chance(by_label(scored))))
    recalls = [(name, *(_recall(by_label(s), label) for label in CLASSIFICATIONS)) for name, s in judges.items()]
    return {"labels": table(head, rows), "recalls": table(("recall", *map(_code, CLASSIFICATIONS)), recalls)}


def _code(word: str) -> str:
    return f"`{word}`"


def _beyond_chance(found: Calibration) -> tuple[str, str]:
    """Render balanced accuracy and kappa with their intervals."""
    interval = found.balanced_interval
    balanced = ValueWithInterval(found.balanced, interval) if found.balanced is not None and interval else None
    kappa = ValueWithInterval(*found.kappa) if found.kappa else None
    return percent(balanced), amount(kappa, ".2f")


def _recall(found: Calibration, label: str) -> str:
    value, score = found.recall(label), found.score(label)
    return NONE if value is None else f"{score.hits} of {score.expected}: {percent(value)}"


def _number(scored: Sequence[Scored]) -> str:
    missing = sum(one.verdict.label is None for one in scored)
    return f"{len(scored)}" + (f", {missing} without a verdict" if missing else "")


def certainty_table(judges: Judges, right: Right) -> str:
    rows = []
    for name, scored in judges.items():
        if name != CONSTANT:
            sure = certain(scored)
            unsure = [one for one in scored if one not in sure]
            wrong = str(sum(not right(one) for one in sure))
            shares = percent(rate(scored, sure.__contains__)), percent(rate(sure, right)), percent(rate(unsure, right))
            rows.append((name, *shares, wrong))
    head = ("judge", "certain", "agreement if certain", "agreement if uncertain", "certain, but different")
    return table(head, rows)


def uncertain_table(judges: Judges) -> str:
    rows = [
        (
            name,
            str(len(scored)),
            percent(rate(scored, lambda one: one.verdict.uncertain)),
            str(sum(not is_right(one) for one in certain(scored))),
        )
        for name, scored in judges.items()
        if name != CONSTANT
    ]
    return table(("judge", "n", "uncertain", "certain, but different"), rows)


def _confidence_tables(judges: Judges) -> dict[str, str]:
    rows, errors = [], []
    for name, scored in judges.items():
        judged = [one for one in scored if one.verdict.label]
        found = None if name == CONSTANT else reliability((one.verdict.confidence, is_right(one)) for one in judged)
        if found is None:
            continue
        for one in found.bins:
            stated = ((other, other.verdict.confidence) for other in judged)
            inside = [other for other, said in stated if one.low < said <= one.high or said == one.low == 0]
            span = f"{one.low:.1f} to {one.high:.1f}"
            rows.append((name, span, str(one.verdicts), f"{one.confidence:.2f}", percent(rate(inside, is_right))))
        errors.append((name, f"{found.calibration_error:.2f}", f"{found.brier:.2f}"))
    return {
        "confidence": table(("judge", "confidence", "n", "mean confidence", "agreement"), rows),
        "errors": table(("judge", "expected calibration error", "Brier score"), errors),
    }


def wrong_table(judges: Judges, people: str, right: Right, said: Callable[[Scored], str]) -> str:
    """Render the failures on which judges and people disagree. Variants of a judge are left out."""
    rows = [
        (
            name,
            one.case.run,
            one.case.eval,
            _code(one.case.known),
            said(one) if one.verdict.label else "no verdict",
            "uncertain" if one.verdict.uncertain else "**certain**",
            _code(one.verdict.cause) if one.verdict.cause else NONE,
        )
        for name, scored in judges.items()
        if name not in (CONSTANT, UNPROVEN, CASCADE)
        for one in scored
        if not right(one)
    ]
    return table(("judge", "run", "eval", people, "judge's answer", "certainty", "rule or cause"), rows, numbers=False)


def _said_label(one: Scored) -> str:
    return _code(one.verdict.label or "")


def _said_side(one: Scored) -> str:
    return _code(one.verdict.cause_kind or "")


def flagged_table(judges: Judges) -> str:
    """Render the share of failures that each judge flags, by the error that was later found in their tasks."""
    rows = []
    for name, scored in judges.items():
        wrong, texts, same = (
            rate((one for one in scored if one.case.known in known), lambda one: one.verdict.flagged)
            for known in (WRONG_ACTIONS, ("instruction_text",), ("none",))
        )
        flagged = [one.verdict.flagged for one in scored if one.case.known == FLIP]
        more = points(combine_rates((wrong, same), (1, -1))) if wrong and same and name != CONSTANT else NONE
        rows.append((name, f"{sum(flagged)} of {len(flagged)}", percent(wrong), percent(texts), percent(same), more))
    head = ("flagged by", "proved not the model's fault", "wrong expected actions", "changed text", "never corrected")
    return table((*head, "difference"), rows)


def side_table(judges: Judges) -> str:
    rows = []
    for name, scored in judges.items():
        found = by_side(scored)
        recalls = _recall(found, "model"), _recall(found, "user")
        rows.append((name, _number(scored), percent(rate(scored, is_right_side)), *_beyond_chance(found), *recalls))
    head = ("judge", "n", "agreement", "balanced accuracy", "kappa", "recall of the model", "recall of the user")
    return table(head, rows)


def step_table(judges: Judges) -> str:
    """Render the distance between the message that a judge names and the message that people annotated."""
    rows = []
    for name, scored in judges.items():
        if any(one.verdict.step is not None for one in scored):
            near = (percent(rate(scored, partial(_is_near, most))) for most in TOLERANCES)
            rows.append((name, str(len(scored)), str(sum(one.verdict.step is not None for one in scored)), *near))
    if not rows:
        return "No verdict on these runs names a message, so the distance to the root cause cannot be measured.\n"
    within = ("the same message" if most == 0 else f"at most {most} away" for most in TOLERANCES)
    return table(("judge", "n", "names a message", *within), rows)


def _is_near(most: int, one: Scored) -> bool:
    named, known = one.verdict.step, one.case.step
    return named is not None and known is not None and abs(named - known) <= most


def costs_text(each: Iterable[tuple[str, Judges]], recorded: Sequence[RecordedVerdict]) -> str:
    """Render the mean cost per failure, and the judge and the prompts of each recording."""
    if not recorded:
        nothing = "No verdicts of a model are recorded yet, so this page has no figures for models and cascades."
        return f"The rules cost nothing. {nothing}\n"
    rows = [row for dataset, judges in each for row in _cost_rows(judges, dataset)]
    head = ("recording", "data set", "n", "calls", "input tokens", "output tokens", "USD")
    sets = sorted({(one.name, one.dataset, one.judge, _code(one.prompt)) for one in recorded})
    return "\n".join(
        (
            "The table shows means per failure; costs are in US dollars at list prices. The rules cost nothing. The "
            "recordings whose price is unknown were made with a local server in place of a provider. This server "
            "counts four characters of a request as one token, and counts 300 tokens for each answer.\n",
            table(head, rows),
            "The next table names the judge that made each recording, with a hash of the prompts and the rubric:\n",
            table(("recording", "data set", "judge", "prompts"), sets, numbers=False),
        )
    )


def _cost_rows(judges: Judges, dataset: str) -> Iterator[tuple[str, ...]]:
    for name, scored in judges.items():
        if any(one.verdict.turns for one in scored):
            priced = all(one.verdict.cost_usd is not None for one in scored)
            yield (
                name,
                dataset,
                str(len(scored)),
                amount(mean(scored, lambda one: one.verdict.turns), ".1f"),
                amount(mean(scored, lambda one: one.verdict.input_tokens), ",.0f"),
                amount(mean(scored, lambda one: one.verdict.output_tokens), ",.0f"),
                amount(mean(scored, lambda one: one.verdict.cost_usd or 0.0), ".3f") if priced else "price unknown",
            )


def change_table(each: Iterable[tuple[str, Judges, Right]]) -> str:
    """Render the difference between the recordings `PAIR`, on failures that both have; empty without such failures."""
    rows = []
    for dataset, judges, right in each:
        before, after = (judges.get(name, []) for name in PAIR)
        pairs = paired(before, after)
        if pairs:
            sides = [one for one, _ in pairs], [other for _, other in pairs]
            turns = _mean_change(pairs, lambda one: one.verdict.turns)
            tokens = _mean_change(pairs, lambda one: one.verdict.tokens)
            agreements = (percent(rate(side, right)) for side in sides)
            changes = points(difference(before, after, right)), amount(turns, "+.1f"), amount(tokens, "+,.0f")
            rows.append((dataset, str(len(pairs)), *agreements, *changes))
    head = ("data set", "n", "agreement before", "agreement after", "difference")
    return table((*head, "calls per failure", "tokens per failure"), rows) if rows else ""


def _mean_change(pairs: Iterable[tuple[Scored, Scored]], value: Callable[[Scored], float]) -> ValueWithInterval | None:
    groups = defaultdict[str, list[float]](list)
    for before, after in pairs:
        groups[before.case.cluster].append(value(after) - value(before))
    return estimate_mean(groups.values())


# Page


def page(data: Path, recorded: Sequence[RecordedVerdict]) -> str:
    """Render the accuracy page."""
    convex = convex_judges(data, RECORDED, recorded, derivable=None)
    derivable, lost = (convex_judges(data, CURRENT, recorded, derivable=side) for side in (True, False))
    tau = agent_judges(data, TAU_BENCH, tau_cases(data), recorded)
    retail, magentic = (
        agent_judges(data, dataset, agentrx_cases(data, dataset), recorded) for dataset in (TAU_RETAIL, MAGENTIC_ONE)
    )
    users = [one for one in retail[RULES] if one.case.known == "user"]
    reachable = f"{CURRENT}, label can be reached"
    each = ((RECORDED, convex, is_right), (reachable, derivable, is_right), (TAU_RETAIL, retail, is_right_side))
    used = (*((name, judges) for name, judges, _ in each), (MAGENTIC_ONE, magentic), (TAU_BENCH, tau))
    figures = {
        "names": {"unproven": UNPROVEN},
        "rules": _summary(convex[RULES]),
        "constant": _summary(convex[CONSTANT]),
        "unproven": _summary(convex[UNPROVEN]),
        "recordings": [{"name": name, **_summary(s)} for name, s in convex.items() if name in PAIR],
        "contested": len(contested(data)),
        "convex": {
            **_label_tables(convex),
            "certainty": certainty_table(convex, is_right),
            **_confidence_tables(convex),
            "wrong": wrong_table(convex, "maintainers", is_right, _said_label),
        },
        "derivable": {
            "number": len(derivable[RULES]),
            **_label_tables(derivable),
            "certainty": certainty_table(derivable, is_right),
            "wrong": wrong_table(derivable, "maintainers", is_right, _said_label),
        },
        "lost": {
            "number": len(lost[RULES]),
            "table": uncertain_table(lost),
            "wrong": wrong_table({n: certain(s) for n, s in lost.items()}, "maintainers", is_right, _said_label),
        },
        "tau": {**_tau_numbers(tau), "table": flagged_table(tau)},
        "users": {
            "number": len(users),
            "total": len(retail[RULES]),
            "recognised": sum(map(is_right_side, users)),
            "uncertain": sum(one.verdict.uncertain for one in users),
        },
        "retail": {
            "sides": side_table(retail),
            "certainty": certainty_table(retail, is_right_side),
            "wrong": wrong_table(retail, "people", is_right_side, _said_side),
            "steps": step_table(retail),
        },
        "magentic": {
            "number": len(magentic[RULES]),
            "sides": table(("judge", "n", "blames the model"), _magentic_rows(magentic)),
            "steps": step_table(magentic),
        },
        "costs": costs_text(used, recorded),
        "changes": change_table(each),
    }
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(figures)


def _summary(scored: Sequence[Scored]) -> dict[str, str | int]:
    sure = certain(scored)
    sure_right = sum(map(is_right, sure))
    return {
        "judge": ", ".join(sorted({one.verdict.judge for one in scored})),
        "number": len(scored),
        "agreement": percent(rate(scored, is_right)),
        "certain": len(sure),
        "certain_right": sure_right,
        "uncertain_right": sum(map(is_right, scored)) - sure_right,
    }


def _tau_numbers(judges: Judges) -> dict[str, int]:
    cases = [one.case for one in judges[CONSTANT]]
    named = {"wrong": WRONG_ACTIONS, "text": ("instruction_text",), "none": ("none",)}
    counts = {name: sum(case.known in known for case in cases) for name, known in named.items()}
    tasks = {f"{name}_tasks": len({c.cluster for c in cases if c.known in known}) for name, known in named.items()}
    flips = [one for one in judges[RULES] if one.case.known == FLIP]
    blamed = sum(not one.verdict.flagged for one in flips)
    return {"number": len(cases), "flip": len(flips), "blamed": blamed, **counts, **tasks}


def _magentic_rows(judges: Judges) -> Iterator[tuple[str, ...]]:
    for name, scored in judges.items():
        yield name, _number(scored), str(sum(map(is_right_side, scored)))


# Commands


def print_rules(data: Path, *, verbose: bool) -> None:
    """Print each rule's decisions, the rules that hold in other runs, and the rules' results on changed failures."""
    for shape in (RECORDED, CURRENT):
        for recalled in (False, True) if shape == RECORDED else (False,):
            judged = agreement.everything(data, recalled=recalled, shape=shape)
            proven = agreement.without_own_run(data, judged, recalled=recalled, shape=shape)
            earlier = ", with reports of earlier runs" if recalled else ""
            for title, of in ((f"all rules{earlier}", judged), (f"only rules right in another run{earlier}", proven)):
                print(f"== {shape}: {title}")
                for run in (*dict.fromkeys(one.run for one in of), "all"):
                    those = [one for one in of if run in (one.run, "all")]
                    sure = agreement.covered(those)
                    right = sum(one.right for one in those), sum(one.right for one in sure)
                    print(f"{run:<9} {right[0]:>2} of {len(those):<3} certain {right[1]:>2} of {len(sure)}")
                print(*render_confusion(agreement.calibration(of), "maintainers \\ rules"), sep="\n")
                print(*agreement.by_rule(of, agreement.alone(data, shape) if of is judged else {}), "", sep="\n")
    plain = agreement.everything(data, recalled=False)
    hits, number = agreement.places(plain)
    print(f"cites where the maintainers quote: {hits}/{number}; citations not verified: {agreement.unverified(plain)}")
    print(heldout.summary(plain))
    print("", agreement.proof_summary(agreement.proof(data)), sep="\n")
    for one in plain if verbose else ():
        mark = "ok " if one.right else "BAD"
        print(f"{mark} {one.run} {one.evidence.eval.path} {one.label} -> {one.verdict.classification} by {one.rule}")


def write_runs(data: Path, folder: Path) -> None:
    """Write or link the runs of every dataset in a form that `evalscribe analyze` accepts."""
    folder.mkdir(parents=True, exist_ok=True)
    for shape in (RECORDED, CURRENT):
        for run in run_folders(data, shape):
            (folder / f"{shape}-{run.name}").symlink_to(run.resolve())
    (folder / "tau-bench.json").symlink_to((data / "tau-bench/gpt-4o-airline-tasks-0-24.json").resolve())
    (folder / "tau-retail.json").symlink_to((data / "agentrx/tau_retail/trajectories.json").resolve())
    write_magentic_one(data, folder / "magentic-one.jsonl")


def main(arguments: Sequence[str], data: Path) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the page with the data")
    commands = parser.add_subparsers(dest="command")
    rules = commands.add_parser("rules", help="print what each rule decides")
    rules.add_argument("-v", "--verbose", action="store_true", help="print every verdict")
    commands.add_parser("runs", help="write the runs to analyse").add_argument("folder", type=Path)
    recorder = commands.add_parser("record", help="store the verdicts of finished analyses")
    recorder.add_argument("name", help="name of the recording: before, after, cascade …")
    recorder.add_argument("dataset", choices=DATASETS)
    recorder.add_argument("workspaces", type=Path, nargs="+", help="folders in which the runs were analysed")
    recorder.add_argument("--answered-by", help="who answered, if another model stood in for the judge")
    recorder.add_argument("--file", type=Path, default=FILE, help="file of recorded verdicts")
    given = parser.parse_args(arguments)
    if given.command == "rules":
        print_rules(data, verbose=given.verbose)
    elif given.command == "runs":
        write_runs(data, given.folder)
    elif given.command == "record":
        found = record(data, given.name, given.dataset, given.workspaces, given.answered_by)
        write_recorded(found, given.file)
        print(f"{given.name}: {len(found)} verdicts on {given.dataset}")
    elif given.check:
        written, computed = PAGE.read_text("utf-8").splitlines(), page(data, read_recorded()).splitlines()
        differences = list(unified_diff(written, computed, "the page", "the data", lineterm="", n=0))
        print(*differences, sep="\n")
        return bool(differences)
    else:
        PAGE.write_text(page(data, read_recorded()), "utf-8")
    return 0


if __name__ == "__main__":
    if not os.environ.get("EVALSCRIBE_REAL_DATA"):
        sys.exit("accuracy.py: set EVALSCRIBE_REAL_DATA to the folder of the data")
    sys.exit(main(sys.argv[1:], Path(os.environ["EVALSCRIBE_REAL_DATA"]).resolve()))
