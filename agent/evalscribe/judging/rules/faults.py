"""What is left is the model's: code that does not compile, fails a check that was asked for, or uses what is not there."""

import re

from evalscribe import signature
from evalscribe.judging.rules import code, quote
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import CodeLine, Facts

IMPORTED = re.compile(r"^\s*(?:import|from)\b|\brequire\(")


def does_not_compile(facts: Facts) -> Decision | None:
    """The compiler rejects the model's code and accepts the reference, which uses the same tools."""
    error = facts.first
    if facts.check not in ("build", "install") or error is None:
        return None
    name = _subject(error)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause=code.kebab(f"{error.code or facts.step} {name}"),
        confidence=0.75,
        why=_cut(error.error),
        reasoning=f"`{facts.step}` stops at {_place(error)}: {error.error.rstrip('.')}. The reference passes the same step.",
        citations=(*quote.blamed(facts), *quote.log(facts)),
    )


def misses_a_file(facts: Facts) -> Decision | None:
    """A file that the task asks for by name is not among the output."""
    ours = {d.path.rsplit("/", 1)[-1] for d in facts.evidence.of("output")}
    named = [d for d in facts.evidence.of("expected") if _name(d.path) in facts.task and _name(d.path) not in ours]
    if not facts.produced or not named or facts.errors:
        return None
    name = _name(named[0].path)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="missing-file-" + code.kebab(name),
        confidence=0.75,
        why=f"no `{name}` among its files; the task names it"[:90],
        reasoning=f"The task asks for `{name}`; the output has no file of that name. `{facts.step}` failed without another "
        "reason in the log.",
        citations=(*quote.suspects(facts, 2), *quote.log(facts)),
    )


def behaves_otherwise(facts: Facts) -> Decision | None:
    """A test that the reference passes found another behaviour, and nothing excuses it."""
    test = next(iter(facts.outcome.failures), None)
    if facts.check != "tests" or test is None:
        return None
    title = test.name.rsplit(" > ", 1)[-1].rsplit("::", 1)[-1]
    said = facts.first.error if facts.first else title
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="fails-" + code.kebab(title, 42),
        confidence=0.65,
        why=_cut(f"fails `{title}`" if len(title) < 70 else said),
        reasoning=f"{_count(facts)} fail, first `{title}`: {said.rstrip('.')}. No note, guard or open wording excuses it.",
        citations=(*(quote.blamed(facts) or quote.suspects(facts, 2)), *quote.log(facts),
                   *quote.grader_lines(facts, test.message)),
    )


def uses_what_is_not_there(facts: Facts) -> Decision | None:
    """The log gives no reason, but the code calls or imports a name that reference, task and grader never use."""
    if facts.errors or facts.outcome.failures:
        return None
    found = [(line, name) for line in facts.introduced for name in sorted(_reached(line) & facts.foreign)]
    if not found:
        return None
    line, name = found[0]
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="unknown-name-" + code.kebab(name),
        confidence=0.6,
        why=f"uses `{name}`, which neither reference nor task knows"[:90],
        reasoning=f"The log ends before the reason. {line.document.path}:{line.number} uses `{name}`, which reference, task "
        "and grader never do: the likeliest cause.",
        citations=(*quote.pairs(facts, [line]), *quote.suspects(facts, 2), *quote.log(facts)),
    )


def unexplained(facts: Facts) -> Decision:
    """No rule covers it. Most failures are the model's, so that is the best guess, and it is marked as one."""
    said = facts.first.error if facts.first else ""
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="unexplained-" + code.kebab(facts.step),
        confidence=0.5,
        uncertain=True,
        why=_cut(said) if said else f"{facts.step} failed; the log ends before the reason",
        reasoning=f"`{facts.step}` failed" + (f": {said.rstrip('.')}. " if said else " and the log ends before the reason. ")
        + "No rule covers this; the label is the likeliest, not a proven one.",
        citations=(*quote.suspects(facts), *quote.log(facts)),
    )


def _subject(error: signature.Located) -> str:
    quoted = re.findall(r"['\"`]([A-Za-z_$][\w$.]*)['\"`]", error.error)
    return quoted[0] if quoted else (error.error if not error.code else "")


def _place(error: signature.Located) -> str:
    return f"{error.places[0].path}:{error.places[0].line}" if error.places else "the model's code"


def _reached(line: CodeLine) -> frozenset[str]:
    """Names behind a dot, after `new`, or on an import line."""
    if IMPORTED.search(line.text):
        return code.names(line.text)
    return frozenset(re.findall(r"(?:\.|\bnew\s+)([A-Za-z_$][\w$]*)", line.text))


def _count(facts: Facts) -> str:
    failed, passed = facts.outcome.failed or len(facts.outcome.failures), facts.outcome.passed or 0
    return f"{failed} of {failed + passed} tests"


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _cut(text: str, longest: int = 90) -> str:
    return text if len(text) <= longest else text[: longest - 1].rsplit(" ", 1)[0] + " …"
