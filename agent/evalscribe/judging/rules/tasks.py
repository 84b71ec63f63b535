"""What the task says: names it asks for, and cases that it leaves open."""

import re

from evalscribe.judging.rules import code, quote, silent, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.model.evidence import Citation

QUOTED_NAME = re.compile(r"['\"`:.]([A-Za-z_$][\w$]{2,})(?=['\"`(])")
SHAPED = re.compile(r"\w_\w|[a-z][A-Z]")
RANGE = re.compile(r"\b(between|from `[^`]+` to|until|up to|range of|within)\b", re.IGNORECASE | re.DOTALL)
DECIDED = re.compile(
    r"\b(inclusive(?:ly)?|exclusive(?:ly)?|including|excluding|at (?:least|most)|no (?:more|less|fewer) than|both ends"
    r"|half-open|strictly)\b|[<>]=|≤|≥",
    re.IGNORECASE,
)
LISTS = re.compile(r"(\[[^\[\]]*\])\D{0,30}?(?:==|equal|to be|!=)\D{0,10}?(\[[^\[\]]*\])")


def asked_for_by_name(facts: Facts) -> Decision | None:
    """The task names a function, field or file, and the output has none of that name."""
    return _misses_a_name(facts) or _misses_a_file(facts)


def _misses_a_name(facts: Facts) -> Decision | None:
    """A test needs a name that the task spells out and the output does not have."""
    if facts.check != "tests":
        return None
    ours = facts.output_names
    wanted = [n for n in _names_in_question(facts) if n not in ours and code.says(facts.task, n)]
    if facts.outcome.silent:
        wanted = [n for n in wanted if silent.concerns(facts, n)]
    if not wanted:
        return None
    said = quote.task(facts, lambda text: code.says(text, wanted[0]))
    there = quote.first_with(facts.left_out, wanted[0])
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="missing-" + code.kebab(wanted[0]),
        confidence=0.85,
        why=f"lacks `{wanted[0]}`, which the task names",
        reasoning=f"The task names `{wanted[0]}`{_line(said)}; the output has no such name. "
        "The check that fails needs it.",
        citations=(
            *quote.suspects(facts, 1),
            *(quote.pairs(facts, [there])[:1] if there else ()),
            *said,
            *quote.log(facts),
        ),
    )


def _misses_a_file(facts: Facts) -> Decision | None:
    """The log gives no reason, and a file that the task asks for by name is not among the output."""
    if facts.errors or facts.outcome.failures:
        return None
    ours = {wording.basename(d.path) for d in facts.original.of("output")}
    missing = (d for d in facts.evidence.of("expected") if wording.basename(d.path) not in ours)
    named = [d for d in missing if code.says(facts.task, wording.basename(d.path))]
    if not facts.produced or not named:
        return None
    name = wording.basename(named[0].path)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="missing-file-" + code.kebab(name),
        confidence=0.75,
        why=f"no `{name}` among its files; the task names it",
        reasoning=f"The task asks for `{name}`; the output has no file of that name. `{facts.step}` failed without "
        "another reason in the log.",
        citations=(*quote.instead_of(facts, named[0]), *quote.log(facts)),
    )


def ends_left_open(facts: Facts) -> Decision | None:
    """Results differ by one element at an end, and the task speaks of a range without saying what its ends are."""
    if facts.check != "tests" or not RANGE.search(facts.task) or DECIDED.search(facts.task):
        return None
    test = next((t for t in facts.outcome.failures if _differ_at_an_end(t.message)), None)
    if test is None or len(facts.outcome.failures) > max(1, (facts.outcome.passed or 0)):
        return None
    said = quote.task(facts, lambda text: "(" not in text and bool(RANGE.search(text)))
    said = said or quote.task(facts, lambda text: bool(RANGE.search(text)))
    return Decision(
        label="AMBIGUOUS_TASK",
        kind="task",
        cause="range-ends-unstated",
        confidence=0.5,
        uncertain=True,
        why="task does not say whether the ends of the range are included",
        reasoning="The result differs from the expected one by one element at an end. The task speaks of a range"
        f"{_line(said)} and never says whether its ends belong to it, so both readings are allowed.",
        citations=(*(quote.blamed(facts) or quote.suspects(facts, 1)), *said, *quote.log(facts)),
        fix="say in the task whether the range includes its ends",
        would_pass=False,
    )


def _line(said: tuple[Citation, ...]) -> str:
    return f" (line {said[0].first})" if said else ""


def _names_in_question(facts: Facts) -> list[str]:
    """Names that the failed tests quote, then names on reference lines that the output does not have."""
    said = "\n".join(e.error for e in facts.errors)
    missing = [name for line in facts.left_out for name in code.NAME.findall(line.text) if SHAPED.search(name)]
    return list(dict.fromkeys([*QUOTED_NAME.findall(said), *missing]))


def _differ_at_an_end(message: str) -> bool:
    for ours, theirs in LISTS.findall(message):
        one, other = _items(ours), _items(theirs)
        if abs(len(one) - len(other)) == 1:
            short, long = sorted((one, other), key=len)
            return short in (long[1:], long[:-1])
    return False


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.strip("[]").split(",") if item.strip()]
