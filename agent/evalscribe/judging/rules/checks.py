"""Tests that fail code which does what the task says: nobody asked for it, or the check looks in the wrong place."""

import re

from evalscribe.judging.rules import code, lint, quote, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import CodeLine, Facts
from evalscribe.judging.rules.notes import stems
from evalscribe.model import evidence

SOUGHT = re.compile(
    r"(?:to contain|to include|to match|not found in|missing)\s+(['\"`])(.{6,80}?)\1|^\W*assert (['\"])(.{6,80}?)\3 in "
)
STRUCTURE = re.compile(r"(?<![a-z])(spec|specification|signatures?|schema|shape|structure|api)(?![a-z])", re.IGNORECASE)
OPAQUE = re.compile(r"deeply equal|toEqual|==|Object|\{ …|mismatch", re.IGNORECASE)
COMPARES = re.compile(r"(?<![a-z])(?:compares?|match(?:es)?|same|equals?|identical)(?![a-z])", re.IGNORECASE)
"""A test without a message must have a name that says that it compares."""
STRUCTURAL = re.compile(r"""(?<![\w$.])([A-Za-z_$][\w$]{2,})(?=\s*[:=](?!=)|["'])""")
"""A key, a keyword argument or a text of one word: what a comparison of structure sees."""
RAISES = re.compile(r"\b(?:throw|raise)\b")
SETTLED = re.compile(
    r"\b(throws?|rejects?|raises?|must fail|should fail|null|undefined|None|not found|otherwise)\b"
    r"|(?:n't|\bnot) exist|\bif (?:it|they|there|no|the)\b",
    re.IGNORECASE,
)
"""Words of a task that says what happens in the odd case."""
LITERAL = re.compile(r"(['\"`])((?:(?!\1|\$\{|\{).){6,})")


def fails_what_nobody_asked_for(facts: Facts) -> Decision | None:
    """All else passes, and the check that fails asks for something that the task does not."""
    return _refuses_what_is_left_open(facts) or _compares_structure(facts)


def reference_would_fail_too(facts: Facts) -> Decision | None:
    """Where the check complains, the reference has the same: it would fail the same check."""
    return lint.reference_breaks_it_too(facts) or _check_looks_elsewhere(facts)


def _compares_structure(facts: Facts) -> Decision | None:
    """Only a comparison of structure fails, all behaviour passes, and the task never asks for what is missing."""
    failures = facts.outcome.failures
    if len(failures) != 1 or (facts.outcome.passed or 0) < 2 or not is_structural(failures[0]):
        return None
    missing = _left_out_names(facts)
    if not missing or any(_asked(facts, name) for name in missing):
        return None
    line = quote.first_with(facts.left_out, missing[0])
    return Decision(
        label="OVERLY_STRICT",
        kind="grader",
        cause=code.kebab(f"{failures[0].name} {missing[0]}"),
        confidence=0.5,
        uncertain=True,
        why=f"only `{failures[0].title}` fails, over `{missing[0]}`, not asked for in the task",
        reasoning=f"The {facts.outcome.passed} other tests pass; `{failures[0].title}` compares structure. "
        f"What the output lacks there (`{'`, `'.join(missing[:2])}`) is in the reference only, not in "
        "the task. A stricter reading would blame the model.",
        citations=(*(quote.pairs(facts, [line])[:1] if line else ()), *quote.log(facts)),
        fix=f"drop the comparison `{failures[0].title}`, or state in the task that `{missing[0]}` is required",
        would_pass=True,
    )


def _refuses_what_is_left_open(facts: Facts) -> Decision | None:
    """The model's own guard stops a test; the task asks for no such refusal, nor forbids one."""
    failures = facts.outcome.failures
    if (
        facts.check != "tests"
        or not failures
        or (facts.outcome.passed or 0) <= len(failures)
        or _settles_odd_cases(facts)
    ):
        return None
    guards = [_guard(facts, test) for test in failures]
    guard = guards[0]
    if guard is None or not all(guards):
        return None
    silent = facts.outcome.silent
    refuses = "its own guard refuses what the task leaves open"
    return Decision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="guard-" + code.kebab(failures[0].title, 40),
        confidence=0.5 if silent else 0.65,
        uncertain=silent,
        why=wording.whole_or(f"{refuses}: `{failures[0].title}`", refuses),
        reasoning=f"{guard.document.path}:{guard.number} refuses a case that the task does not speak of; the reference "
        f"has no such guard. The {facts.outcome.passed} other tests pass, so the code does what was asked.",
        citations=(
            *quote.pairs(facts, [guard])[:1],
            *quote.log(facts),
            *quote.grader_lines(facts, failures[0].message),
        ),
        fix=f"let `{failures[0].title}` accept a clear refusal, or say in the task what has to happen",
        would_pass=True,
        by_error_text=True,
    )


def _check_looks_elsewhere(facts: Facts) -> Decision | None:
    """The text that a check misses stands in the code, in the reference and in the task: the check looks elsewhere."""
    for test in facts.outcome.failures:
        # Take the last match: the output's own value comes before it and may contain the same words.
        found = max(SOUGHT.finditer(test.message), key=lambda match: match.start(), default=None)
        sought = (found.group(2) or found.group(4)) if found else None
        if not sought or len(facts.outcome.failures) != 1 or (facts.grader and sought not in facts.grader):
            continue
        if line := _everywhere(facts, sought):
            return _looks_elsewhere(facts, test, sought, line)
    return None


def _looks_elsewhere(facts: Facts, test: evidence.FailedTest, sought: str, line: CodeLine) -> Decision:
    grader = quote.grader_lines(facts, test.message)
    return Decision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="check-misses-" + code.kebab(sought, 34),
        confidence=0.65,
        why=f"the check misses `{sought}`, which the code has",
        reasoning=f"`{test.title}` looks for `{sought}`. It stands at {line.document.path}:{line.number}, written as "
        "in the reference, so the check reads the wrong thing.",
        citations=(*quote.both(facts, sought), *quote.log(facts), *grader),
        fix=f"let `{test.title}` look for `{sought}` where the code puts it",
        would_pass=True,
        by_error_text=True,
    )


def _everywhere(facts: Facts, text: str) -> CodeLine | None:
    line = quote.first_with(facts.output_lines, text)
    return line if line and quote.first_with(facts.expected_lines, text) else None


def is_structural(test: evidence.FailedTest) -> bool:
    """Whether a test compares structure and not behaviour, as far as its name and message say."""
    if not test.message:
        return bool(STRUCTURE.search(test.name) and COMPARES.search(test.name))
    return bool(STRUCTURE.search(test.name) and OPAQUE.search(test.message))


def _left_out_names(facts: Facts) -> list[str]:
    """Keys and texts on reference lines that the output has nowhere, in the order of the reference."""
    ours = facts.output_names
    found = (name for line in facts.left_out for name in STRUCTURAL.findall(line.text))
    return list(dict.fromkeys(name for name in found if name not in ours))


def _asked(facts: Facts, name: str) -> bool:
    return code.says(facts.task, name)


def _settles_odd_cases(facts: Facts) -> bool:
    return bool(SETTLED.search(facts.task))


def _guard(facts: Facts, test: evidence.FailedTest) -> CodeLine | None:
    """The line of the model's own that threw what the test reports, where the reference throws no such thing."""
    for line in facts.introduced:
        if RAISES.search(line.text):
            said = [text.strip() for _, text in LITERAL.findall(line.text)]
            if any(text and text in test.message for text in said):
                return line
            if not test.message and (stems(test.title) & stems(line.text)) - stems(facts.task):
                return line
    return None
