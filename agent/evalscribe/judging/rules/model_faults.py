"""Rules for the model's own faults: code that does not compile, wrong behaviour, wrong imports."""

import re

from evalscribe.judging.rules import code, doubts, quote
from evalscribe.judging.rules.facts import (
    MANIFESTS,
    RECORD,
    CodeLine,
    Facts,
    Misplaced,
    RuleDecision,
    limits,
    misplaced,
    missing_calls,
)
from evalscribe.model import evidence
from evalscribe.model.evidence import Citation


def imports_from_elsewhere(facts: Facts) -> RuleDecision | None:
    """The log gives no reason, but a name is imported from a module other than the one it is in."""
    found = None if facts.errors or facts.outcome.failures else misplaced(facts)
    if found is None:
        return None
    line, other = found.ours, found.theirs
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="wrong-import-" + code.kebab(found.name, 34),
        confidence=0.7,
        why=quote.whole_or(_said(found), f"imports `{found.name}` from the wrong module"),
        reasoning=f"The log ends before the reason. {line.document.path}:{line.number} {_said(found)}: the likeliest "
        "cause.",
        citations=(*quote.opposed(line, other), *quote.log(facts)),
    )


def _said(found: Misplaced) -> str:
    return f"imports `{found.name}` from `{found.module}`, the reference from `{found.right}`"


LANGUAGE = """
    Array Boolean Buffer Date Error JSON Map Math Number Object Promise RegExp Response Set String Symbol URL add all
    allSettled append apply assign bind call catch concat console crypto delete endswith entries error every extend
    filter finally find findIndex flat flatMap floor fetch forEach format from fromEntries get getTime has
    hasOwnProperty includes indexOf info isArray isinstance items join json keys length log lower map match max min
    next now ok padStart parse parseFloat parseInt pop process push race random range reduce reject replace resolve
    reverse round set shift slice some sort splice split startsWith startswith status statusText stringify strip
    substring text then toFixed toISOString toLocaleString toLowerCase toString toUpperCase trim trunc unshift update
    upper value values warn
"""
BUILT_IN = frozenset(LANGUAGE.split())
"""Built-in names: a reference that does not use them proves nothing."""
RAISED = re.compile(r"(?!AssertionError)((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Timeout|NotFound))\b")
NO_PACKAGE = re.compile(
    r" - 404\b|\bE404\b|no (?:matching )?(?:version|distribution) (?:matching|found)", re.IGNORECASE
)
IMPORTED = re.compile(r"^\s*(?:import|from)\b|\brequire\(")


def does_not_compile(facts: Facts) -> RuleDecision | None:
    """The compiler rejects the model's code and accepts the reference, which uses the same tools."""
    error = facts.first
    if facts.check not in ("build", "install") or error is None:
        return None
    name = _subject(error)
    said = quote.brief(error.error.removeprefix(f"{error.code}: ")).rstrip(".")
    shared = _may_be_the_installers(facts, error) if facts.check == "install" else doubts.may_be_shared(facts, error)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=code.kebab(f"{error.code or facts.step} {name}"),
        confidence=0.5 if shared else 0.75,
        uncertain=shared is not None,
        why=quote.cut(said),
        reasoning=f"`{facts.step}` fails: {quote.cut(said, 170)}. No such package or version exists."
        if facts.check == "install" and not shared
        else f"`{facts.step}` stops at {_place(error)}: {quote.cut(said, 170)}. "
        + (shared or "The reference passes the same step."),
        citations=(*quote.blamed(facts), *quote.naming(facts, name), *quote.log(facts)),
    )


def _may_be_the_installers(facts: Facts, error: evidence.LocatedError) -> str | None:
    """Explain in a sentence why a failed install may not be the model's fault; None if the package does not exist."""
    if not NO_PACKAGE.search(error.error):
        return "An installer can fail for reasons of its own, which nothing here rules out."
    manifests = [d for d in facts.evidence.of("output") if d.path.endswith(MANIFESTS)]
    given = code.joined(d.text for d in (*facts.evidence.of("expected"), *facts.evidence.of("task")))
    asked = {code.fold(line) for d in manifests for line in d.lines if _named_package(error.error) in line}
    if _named_package(error.error) and asked and all(line in code.fold(given) for line in asked):
        return "The reference or the task asks for the same package in the same version, and would fail alike."
    return None


def _named_package(error: str) -> str:
    """Return the quoted package name in `GET https://registry/@scope%2fname - 404` or `… for specifier "name"`."""
    match = re.search(r"https?://[^/\s]+/(\S+) - \d{3}|specifier \"([^\"]+)\"", error)
    return f'"{(match[1] or match[2]).replace("%2f", "/").replace("%2F", "/")}"' if match else ""


def behaves_otherwise(facts: Facts) -> RuleDecision | None:
    """A test that the reference passes fails on the output's behaviour, and nothing excuses it."""
    test = next(iter(facts.outcome.failures), None)
    if facts.check != "tests" or test is None:
        return None
    title = test.title
    if facts.outcome.silent:
        return _fails_silently(facts, title)
    said = (facts.first.error if facts.first else title).removeprefix(test.name + ": ")
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="fails-" + code.kebab(title, 42),
        confidence=0.65,
        why=quote.whole_or(f"`{title}`: {said}", f"fails `{title}`"),
        reasoning=f"{_count(facts)} fail, first `{title}`: {said.rstrip('.')}. "
        "The reference passes, and neither notes nor task excuse it.",
        citations=(
            *(quote.blamed(facts) or quote.suspects(facts, 2)),
            *quote.log(facts),
            *quote.grader_lines(facts, test.message),
        ),
    )


def _fails_silently(facts: Facts, title: str) -> RuleDecision:
    """Judge failed tests without messages: the most likely label, usually uncertain."""
    lacking = missing_calls(facts)
    what = f"lacks `{lacking[0]}`, which `{title}` calls" if lacking else f"fails `{title}`; the log does not say why"
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="missing-" + code.kebab(lacking[0]) if lacking else "fails-" + code.kebab(title, 42),
        confidence=0.65 if lacking else 0.5,
        uncertain=not lacking,
        why=quote.cut(what),
        reasoning=f"{_count(facts)} fail, first `{title}`. "
        + (f"The grader calls `{lacking[0]}`, which the reference has and the output lacks. " if lacking else "")
        + (f"{limits(facts)} {RECORD}" if not lacking else ""),
        citations=(*quote.suspects(facts, 2), *quote.log(facts), *quote.grader_lines(facts, "")),
    )


def uses_unknown_name(facts: Facts) -> RuleDecision | None:
    """The log gives no reason, but the code uses a name that reference, task and grader never use."""
    if facts.errors or facts.outcome.failures:
        return None
    own = sorted(facts.introduced, key=lambda line: bool(IMPORTED.search(line.text)))
    found = next(((line, name) for line in own for name in _reached(line) if name in facts.foreign), None)
    if found is None:
        return None
    line, name = found
    # A compiler reports a rejected name; for a build without messages it is a guess.
    guess = facts.check == "build" and not doubts.shared_failures_known(facts)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="unknown-name-" + code.kebab(name),
        confidence=0.5 if guess else 0.65,
        uncertain=guess,
        why=quote.whole_or(quote.difference(facts, line), _unlike(line, name)),
        reasoning=f"The log ends before the reason. {line.document.path}:{line.number} uses `{name}`, which reference, "
        "task and grader never mention: the likeliest cause.",
        citations=(*quote.pairs(facts, [line]), *quote.suspects(facts, 2), *quote.log(facts)),
    )


def only_a_test_says(facts: Facts) -> RuleDecision | None:
    """A test report has neither code nor task: it shows what failed, but not whose fault it was."""
    error, evidence = facts.first, facts.evidence
    if error is None or evidence.of("output", "expected", "task", "grader", "transcript") or not evidence.of("log"):
        return None
    kind = RAISED.match(error.error)
    said = quote.brief(error.error).rstrip(".")
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=f"raises-{code.kebab(kind.group(1))}" if kind else "assertion-fails",
        confidence=0.5,
        uncertain=True,
        why=quote.cut(said),
        reasoning=f"The test {'ended with' if kind else 'failed at'} `{quote.cut(said, 120)}`. There is neither "
        "code nor a task beside it, so whose fault it is, the test alone cannot tell.",
        citations=quote.log(facts),
    )


def unexplained(facts: Facts) -> RuleDecision:
    """No rule applies. Most failures are the model's, so that is the guess, marked as uncertain."""
    said = quote.brief(facts.first.error) if facts.first else ""
    suspects = quote.suspects(facts)
    notes = " The known-gap notes of this eval may mean it, but none fits for sure." if facts.notes else ""
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="unexplained-" + code.kebab(facts.step),
        confidence=0.5,
        uncertain=True,
        why=said or _first_suspect(suspects),
        reasoning=f"`{facts.step}` failed"
        + (f": {said.rstrip('.')}." if said else " and the log ends before the reason.")
        + f"{notes} No rule covers this; the label is the likeliest, not a proven one.",
        citations=(*suspects, *quote.log(facts)),
    )


def _unlike(line: CodeLine, name: str) -> str:
    return quote.whole_or(
        f"`{line.text}`: the reference has no `{name}`", f"uses `{name}`, which the reference does without"
    )


def _first_suspect(citations: tuple[Citation, ...]) -> str:
    place = next((f"; first suspect {c.path}:{c.first}" for c in citations if c.role == "output"), "")
    return quote.whole_or(f"the log ends before the reason{place}", "the log ends before the reason")


def _subject(error: evidence.LocatedError) -> str:
    quoted = re.findall(r"['\"`]([A-Za-z_$][\w$.]*)['\"`]", error.error)
    return quoted[0] if quoted else (error.error if not error.code else "")


def _place(error: evidence.LocatedError) -> str:
    return f"{error.places[0].path}:{error.places[0].line}" if error.places else "the model's code"


def _reached(line: CodeLine) -> tuple[str, ...]:
    """Return names after a dot, after `new` or on an import line, except built-in ones."""
    imported = IMPORTED.search(line.text)
    used = code.NAME.findall(line.text) if imported else re.findall(r"(?:\.|\bnew\s+)([A-Za-z_$][\w$]*)", line.text)
    return tuple(name for name in used if name not in BUILT_IN)


def _count(facts: Facts) -> str:
    failed, passed = facts.outcome.failed or len(facts.outcome.failures), facts.outcome.passed or 0
    return f"{failed} of {failed + passed} tests"
