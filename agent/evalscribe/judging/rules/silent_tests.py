"""Rules for failed tests without messages, and for what the task specifies or leaves open."""

import re
from collections.abc import Iterator
from itertools import pairwise

from evalscribe.judging.rules import checks, code, quote
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.model import evidence
from evalscribe.model.evidence import Citation, Document

BEGINS = re.compile(r"\s*(?:(?:test|it)(?:\.\w+)*\s*\(|(?:async\s+)?def test)")
"""First line of a test in graders for vitest, jest and pytest."""
SOUGHT = re.compile(r"""(?<!not)\.(?:toContain|toMatch|toHaveText)\(\s*(["'])((?:(?!\1).){4,200})\1""")
EXPECTS = re.compile(r"\b(?:expect|assert\w*)\s*\(")
REQUEST = re.compile(r"\b\w*[fF]etch\w*\(\s*[`\"']([^`\"']+)[`\"']")
"""An HTTP request, including one by a helper such as `fetchWithRetry`."""
CALL = re.compile(r"\b(?:api|internal|anyApi)(?:\.[A-Za-z_$][\w$]*)*\.([A-Za-z_$][\w$]*)")
"""A call of a function of the code under test by a Convex client."""
TIME_LIMITS = (5_000, 10_000, 30_000)
"""Default time limits of test runners for one test, in milliseconds."""
OVER = 100
"""Milliseconds by which a stopped test may exceed its limit."""
RECORD = (
    "The log has no message of a failed test; the report of the test runner (`failureMessages`) or its stderr does."
)


def reference_fails_alike(facts: Facts) -> RuleDecision | None:
    """The code equals the reference line for line, and its tests fail: something else broke."""
    if facts.check != "tests" or not facts.same_as_reference or not (facts.outcome.failures or facts.outcome.never_ran):
        return None
    said = facts.outcome.failures and not facts.outcome.silent
    return _of_the_harness(
        facts,
        "same-code-as-reference",
        "the code is the reference's line for line, and its tests fail",
        f"{_what_failed(facts)}, and the output's code is the reference's line for line: it would fail alike. "
        f"{limits(facts) or 'Think of ports, the network and the state that tests leave behind.'}"
        + ("" if said else f" {RECORD}"),
    )


def nothing_was_tested(facts: Facts) -> RuleDecision | None:
    """The test file did not load or a hook failed, so no test ran."""
    if facts.check != "tests" or not facts.outcome.never_ran or not facts.produced:
        return None
    why = facts.first.error if facts.first else "no test ran"
    return _of_the_harness(
        facts,
        "no-test-ran",
        why,
        f"{why[:1].upper()}{why[1:]}, so no test judged the model's work. The setup may need something that the "
        f"code lacks, or it may have failed by itself: the log does not say. {RECORD}",
    )


def check_reads_elsewhere(facts: Facts) -> RuleDecision | None:
    """The output and the reference both contain every text that the only failing test looks for."""
    failures = facts.outcome.failures
    if facts.check != "tests" or not facts.outcome.silent or len(failures) != 1 or not facts.outcome.passed:
        return None
    body = "\n".join(text for _, _, text in _bodies(facts, failures[0]))
    sought = [text for _, text in SOUGHT.findall(body)]
    lines = [quote.both(facts, text) for text in sought]
    if len(EXPECTS.findall(body)) != len(sought) or not lines or any(len(found) < 2 for found in lines):
        return None
    title = failures[0].title
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="check-misses-" + code.kebab(sought[0], 34),
        confidence=0.5,
        uncertain=True,
        why=quote.whole_or(f"`{title}` misses `{sought[0]}`, which the code has", f"`{title}` looks elsewhere"),
        reasoning=f"`{title}` looks for {len(sought)} texts, first `{sought[0]}`. The output and the reference contain "
        f"all of them, and {facts.outcome.passed} other tests pass, so the check may read the wrong place. {RECORD}",
        citations=(*lines[0], *quote.log(facts), *quote.grader_lines(facts, "")),
        fix=f"let `{title}` look for `{sought[0]}` where the code puts it",
    )


def no_request_is_answered(facts: Facts) -> RuleDecision | None:
    """Every test fails and sends HTTP requests, and the output serves every requested address."""
    failures = facts.outcome.failures
    if facts.check != "tests" or not facts.outcome.silent or facts.outcome.passed or len(failures) < 2:
        return None
    bodies = ["\n".join(text for _, _, text in _bodies(facts, test)) for test in failures]
    asked = [_address(address) for body in bodies for address in REQUEST.findall(body)]
    served = [text for _, text in re.findall(r"([\"'`])(/[^\"'`\s]*)\1", facts.all_output)]
    if not asked or not all(REQUEST.search(body) and not CALL.search(body) for body in bodies):
        return None
    if len(set(asked)) < 2 or not all(_serves(served, address) for address in asked):
        return None
    return _of_the_harness(
        facts,
        "no-request-answered",
        f"all {len(failures)} tests fail, but the code serves every address that they request",
        f"{_what_failed(facts)}. Each sends HTTP requests, and the output serves every requested address, so the "
        f"server's address or port may be wrong. {limits(facts)} {RECORD}",
        grader=quote.grader_addresses(facts),
    )


def lacks_what_was_to_be_chosen(facts: Facts) -> RuleDecision | None:
    """A grader that only reads files expects a package that the reference uses and the output does not."""
    names = {step.name.lower() for step in facts.evidence.steps}
    if facts.check != "tests" or not facts.outcome.silent or not facts.reads_files_only or len(names) < 2:
        return None
    ours, theirs = _packages(facts.original.of("output")), _packages(facts.evidence.of("expected"))
    titles = " ".join(test.title for test in facts.outcome.failures).lower()
    missing = [name for name in theirs if name not in ours and name in facts.grader]
    # Without the scope: `@vendor/` precedes every package of a vendor, and titles may name the vendor.
    words = {name: [p for p in code.parts(name.rsplit("/", 1)[-1]) if len(p) > 3] for name in missing}
    chosen = next((name for name in missing if any(word in titles for word in words[name])), None)
    if chosen is None:
        return None
    line = quote.first_with(facts.left_out, chosen)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="not-chosen-" + code.kebab(chosen),
        confidence=0.65,
        why=f"does not use `{chosen}`, which the tests expect",
        reasoning=f"The grader only reads the files to see which package was chosen. {_what_failed(facts)}, first "
        f"`{facts.outcome.failures[0].title}`; the reference uses `{chosen}` and the output does not.",
        citations=(
            *(quote.pairs(facts, [line])[:1] if line else ()),
            *quote.suspects(facts, 1),
            *quote.log(facts),
            *quote.grader_lines(facts, ""),
        ),
    )


def limits(facts: Facts) -> str:
    """Return a sentence if all failed tests were stopped at a time limit, else an empty string."""
    times = [test.milliseconds or 0 for test in facts.outcome.failures]
    limit = next((one for one in TIME_LIMITS if times and all(one <= t <= one + OVER for t in times)), None)
    return f"Every failed test took a little more than {limit:,} ms, a default time limit." if limit else ""


def missing_calls(facts: Facts) -> list[str]:
    """Return functions that the failed tests call and the reference defines, but the output lacks."""
    if not facts.outcome.silent:
        return []
    called = dict.fromkeys(CALL.findall(code.joined(_failed_bodies(facts))))
    ours = facts.output_names
    lacking = [name for name in called if name not in ours and name in facts.expected_names]
    return [name for name in lacking if not _passes_with(facts, name)]


def concerns(facts: Facts, name: str) -> bool:
    """Return whether the failed tests need a name: they contain it, or all fail and their set-up contains it.

    A structural test depends on every name. A passed test that contains the name shows that it is not needed.
    """
    if _passes_with(facts, name):
        return False
    if any(code.says(text, name) for text in _failed_bodies(facts)):
        return True
    if any(checks.is_structural(test) for test in facts.outcome.failures):
        return True
    return not facts.outcome.passed and code.says(facts.grader, name)


def _failed_bodies(facts: Facts) -> list[str]:
    """Return the source of each failed test, in the grader's order of files."""
    return [text for test in facts.outcome.failures for _, _, text in _bodies(facts, test)]


def _passes_with(facts: Facts, name: str) -> bool:
    """Return whether the source of a passed test contains a name."""
    if not facts.outcome.passed or facts.outcome.skipped:
        return False
    failed = _failed_bodies(facts)
    return any(code.says(text, name) for _, _, text in _tests(facts) if text not in failed)


def _of_the_harness(
    facts: Facts, cause: str, why: str, reasoning: str, *, grader: tuple[Citation, ...] = ()
) -> RuleDecision:
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause=cause,
        confidence=0.5,
        uncertain=True,
        why=quote.cut(why),
        reasoning=reasoning,
        citations=(*quote.suspects(facts, 1), *quote.log(facts), *(grader or quote.grader_lines(facts, ""))),
    )


def _what_failed(facts: Facts) -> str:
    failed, passed = len(facts.outcome.failures), facts.outcome.passed or 0
    if not failed:
        return "No test ran"
    return f"All {failed} tests fail" if not passed and failed > 1 else f"{failed} of {failed + passed} tests fail"


def _bodies(facts: Facts, test: evidence.FailedTest) -> Iterator[tuple[Document, int, str]]:
    """Yield the test's source in the graders: document, first line, and text up to the next test."""
    title = test.title.split("[")[0]
    for document, first, text in _tests(facts):
        head = code.joined(text.split("\n", 2)[:2])
        if len(title) > 3 and title in head.replace("\\", ""):
            yield document, first, text


def _tests(facts: Facts) -> Iterator[tuple[Document, int, str]]:
    """Yield every test of the graders."""
    for document in facts.evidence.of("grader"):
        starts = [n for n, line in enumerate(document.lines) if BEGINS.match(line)]
        for at, following in pairwise([*starts, len(document.lines)]):
            yield document, at + 1, code.joined(document.lines[at:following])


def _address(text: str) -> str:
    """Return the path of a request without its host: `${siteUrl}/api/hello` → `/api/hello`."""
    return "/" + re.sub(r"^(?:\$\{[^}]*\}|https?://[^/]*)", "", text).split("?")[0].lstrip("/")


def _serves(served: list[str], address: str) -> bool:
    return any(
        address == path or (path.endswith(("/", "/*")) and address.startswith(path.removesuffix("*")))
        for path in served
    )


def _packages(documents: tuple[Document, ...]) -> tuple[str, ...]:
    """Return packages that the files import or a manifest depends on, without the project's own modules."""
    found: dict[str, None] = {}
    for document in documents:
        for _, module in re.findall(r"(?:from|import|require\()\s*([\"'])([^\"'./][^\"']*)\1", document.text):
            found["/".join(module.split("/")[: 2 if module.startswith("@") else 1])] = None
        if document.path.endswith("package.json"):
            found |= dict.fromkeys(re.findall(r"\"((?:@[\w.-]+/)?[\w.-]+)\"\s*:\s*\"[\^~<>=*\d]", document.text))
    return tuple(found)


QUOTED_NAME = re.compile(r"['\"`:.]([A-Za-z_$][\w$]{2,})(?=['\"`(])")
SHAPED = re.compile(r"\w_\w|[a-z][A-Z]")
RANGE = re.compile(r"\b(between|from `[^`]+` to|until|up to|range of|within)\b", re.IGNORECASE | re.DOTALL)
DECIDED = re.compile(
    r"\b(inclusive(?:ly)?|exclusive(?:ly)?|including|excluding|at (?:least|most)|no (?:more|less|fewer) than|both ends"
    r"|half-open|strictly)\b|[<>]=|≤|≥",
    re.IGNORECASE,
)
LISTS = re.compile(r"(\[[^\[\]]*\])\D{0,30}?(?:==|equal|to be|!=)\D{0,10}?(\[[^\[\]]*\])")


def asked_for_by_name(facts: Facts) -> RuleDecision | None:
    """The task names a function, field or file, and the output has nothing of that name."""
    return _misses_a_name(facts) or _misses_a_file(facts)


def _misses_a_name(facts: Facts) -> RuleDecision | None:
    """A test needs a name that the task specifies and the output lacks."""
    if facts.check != "tests":
        return None
    ours = facts.output_names
    wanted = [n for n in _names_in_question(facts) if n not in ours and code.says(facts.task, n)]
    if facts.outcome.silent:
        wanted = [n for n in wanted if concerns(facts, n)]
    if not wanted:
        return None
    said = quote.task(facts, lambda text: code.says(text, wanted[0]))
    there = quote.first_with(facts.left_out, wanted[0])
    return RuleDecision(
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


def _misses_a_file(facts: Facts) -> RuleDecision | None:
    """The log gives no reason, and a file that the task requires by name is not in the output."""
    if facts.errors or facts.outcome.failures:
        return None
    ours = {quote.basename(d.path) for d in facts.original.of("output")}
    missing = (d for d in facts.evidence.of("expected") if quote.basename(d.path) not in ours)
    named = [d for d in missing if code.says(facts.task, quote.basename(d.path))]
    if not facts.produced or not named:
        return None
    name = quote.basename(named[0].path)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="missing-file-" + code.kebab(name),
        confidence=0.75,
        why=f"no `{name}` among its files; the task names it",
        reasoning=f"The task asks for `{name}`; the output has no file of that name. `{facts.step}` failed without "
        "another reason in the log.",
        citations=(*quote.instead_of(facts, named[0]), *quote.log(facts)),
    )


def ends_left_open(facts: Facts) -> RuleDecision | None:
    """Results differ by one element at an end of a range, and the task does not say whether the ends are included."""
    if facts.check != "tests" or not RANGE.search(facts.task) or DECIDED.search(facts.task):
        return None
    test = next((t for t in facts.outcome.failures if _differ_at_an_end(t.message)), None)
    if test is None or len(facts.outcome.failures) > max(1, (facts.outcome.passed or 0)):
        return None
    said = quote.task(facts, lambda text: "(" not in text and bool(RANGE.search(text)))
    said = said or quote.task(facts, lambda text: bool(RANGE.search(text)))
    return RuleDecision(
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
    """Return names that the failed tests quote, then names on reference lines that the output lacks."""
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
