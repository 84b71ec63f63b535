"""Decide whether the code under test may have written the text of a failure.

Code can throw or print any text, including one that looks like an outage or like an earlier failure that people
excused. A label that excuses the model may rest on such text only if the code cannot have written it. Every rule that
reads it sets `Decision.by_error_text`; the engine then calls `checked`, which makes doubtful verdicts uncertain.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from evalscribe.judging.rules import code, steps
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.model import evidence
from evalscribe.model.evidence import Document
from evalscribe.model.finding import UNCERTAIN_CONFIDENCE
from evalscribe.model.run import TARGET
from evalscribe.signature import log

MOST_FRAMES = 20
"""Most frames that `signature` keeps of one failure."""
FROM_CODE = re.compile(
    r"\[CONVEX |\bUncaught\b|\bRequest ID: \w|\bServer Error\b|\bat [^(\n]{0,200}\(.{0,300}?:\d+:\d+\)"
    r"|\bFailed to analyze\b|\bwhile evaluating\b|\bTraceback \(most recent"
)
"""Signs of an error or output that comes from the code under test."""
LONGEST_LOG = 2_000_000
"""Characters of a log in which marks of the code are looked for; nothing is proven by a longer one."""
COMPILED = re.compile(r"error TS\d+: |\[ERROR\] |\bSyntaxError\b")
"""A compiler's diagnosis. TypeScript prints a template literal type with its line breaks, so a type of the output can
contain whole lines that look like the runner's."""
OF_NETWORK = re.compile(
    r"(?:\w+\.)*(?:Connect\w*|\w*Timeout\w*|\w*ConnectionError|MaxRetryError|NameResolutionError|OSError|ReadError"
    r"|RemoteDisconnected|URLError|gaierror)(?::|$)"
)
"""An error of the network, told by its class. Other errors quote values, which the output may have returned."""
TAGGED = re.compile(r"\[[\w.@/+-]{1,40}\]|=== ")
"""A line of a log that a runner began, with a mark, a tag or a title."""
CAPTURED = re.compile(r"^(?:\[[\w.-]+\] )?(?:stdout|stderr) \| ", re.MULTILINE)
"""Output of tests or of the code under test. vitest's format does not mark the end of such a block."""
RETHROWN = re.compile(r"\bthrow\b|\breject\(|\bnew \w*Error\(|\braise\b")
"""Signs of a grader that throws itself and may repeat text that the output returned."""
ONLY_PUSHES = re.compile(
    r"\[cmd\] .{0,300}\bconvex (?:dev|deploy|codegen)\b"
    r"|\[error\] (?:Deploying generated backend\b|convex dev:"
    r"|deploy: Error: (?:Failed to deploy:|convex (?:codegen|dev) timed out after))"
)
"""Headings of a build that only bundles and uploads. It runs the code elsewhere, and reports what that threw with the
signs of `FROM_CODE`."""
RUNS_AT_INSTALL = re.compile(
    r'"(?:(?:pre|post)?(?:install|prepare)|prepublish)"\s*:|"dependencies"\s*:\s*"|\\u00|"trustedDependencies"'
    r"|\bbackend-path\b|\bcmdclass\b|\bhooks\.custom\b",
    re.IGNORECASE,
)
"""Scripts that an installation runs. A key of JSON may be written with escapes, which hides it."""
RUN_AT_INSTALL = re.compile(r"(?:^|/)(?:setup\.py|binding\.gyp|build\.rs|hatch_build\.py|\.pnpmfile\.c?js)$")
"""Files that an installation runs, whatever the manifests say."""
OWN_SOURCE = re.compile(
    r'index-url|find-links|registry|proxy|"file:|(?:^|\s)-e\s|@ (?:file|git|https?)|git\+|://(?!json\.schemastore)',
    re.IGNORECASE | re.MULTILINE,
)
"""Package sources named by the output: a failure to reach one is the output's fault."""
MANIFESTS = re.compile(
    r"(?:package\.json|\.npmrc|bunfig\.toml|\.yarnrc(?:\.yml)?|pnpm-workspace\.yaml|pyproject\.toml|uv\.toml|pip\.conf"
    r"|setup\.(?:py|cfg)|(?:requirements|constraints)[\w.-]*\.txt|Pipfile|go\.mod|Cargo\.toml)$"
)
# Without any of these names, Python code can neither bypass a test runner's capture nor change its frames.
# Nor can it give the grader something to call or to loop over that raises without a frame of its own.
REFLECTIVE = frozenset(
    {
        *("_exit", "asyncio", "atexit", "breakpoint", "builtins", "codecs", "concurrent", "ctypes", "delattr", "eval"),
        *("exec", "exit", "faulthandler", "fdopen", "filter", "functools", "gc", "getattr", "globals", "importlib"),
        *("inspect", "io", "iter", "itertools", "linecache", "locals", "map", "mock", "monkeypatch", "multiprocessing"),
        *("open", "operator", "os", "pathlib", "pickle", "pty", "pytest", "quit", "runpy", "setattr", "shutil"),
        *("signal", "socket", "subprocess", "sys", "tempfile", "traceback", "types", "unittest", "vars"),
    }
)
DUNDER = re.compile(
    r"__(?!(?:init|name|main|all|future|repr|str|eq|hash|len|iter|next|enter|exit|call|post_init)__)\w+__"
)


def checked(facts: Facts, decision: Decision) -> Decision:
    """Make a decision uncertain if it excuses the model because of text that the code under test may have written."""
    if not decision.by_error_text or decision.label == "MODEL_FAULT" or others_fail_alike(facts):
        return decision
    why = written_by_output(facts)
    if why is None:
        return decision
    return replace(
        decision,
        uncertain=True,
        confidence=min(decision.confidence, UNCERTAIN_CONFIDENCE),
        would_pass=False,
        reasoning=f"{decision.reasoning} {why}",
    )


def written_by_output(facts: Facts) -> str | None:
    """Explain in a sentence why the code under test may have written the text; None if it cannot have."""
    if facts.step == TARGET:
        return "The target's own code can raise any error, so the error text alone does not prove an outage."
    if facts.evidence.eval.status == "error":
        return _in_an_error(facts)
    if not facts.produced:
        return None
    if facts.check == "install":
        return _at_install(facts)
    if facts.check == "build":
        return _at_build(facts)
    if facts.check == "tests":
        return _in_tests(facts)
    return None


def raised_by_grader(facts: Facts) -> bool:
    """Whether the network failed the grader in every failed test, and no word of the message can be the output's."""
    return stopped_in_grader(facts) and all(OF_NETWORK.match(test.message) for test in facts.outcome.failures)


def stopped_in_grader(facts: Facts) -> bool:
    """Whether every failed test was stopped in the grader's own code: no frame of the traceback is the output's."""
    failures = facts.outcome.failures
    whole = facts.outcome.failed == len(failures) > 0  # a forged section would be one too many
    return whole and not _is_reflective(facts) and all(_only_grader(facts, test) for test in failures)


def ran_elsewhere(facts: Facts) -> bool:
    """Whether the code was deployed first, so that the tests only call it and it cannot end their process."""
    return any(s.status == "passed" and "deploy" in s.name.lower() for s in facts.evidence.steps)


def only_runner_marks(facts: Facts) -> bool:
    """Whether only the runner can have begun a line of the log: the output of all tools, less the reference's, is
    tagged, and the code under test ran elsewhere."""
    if not ran_elsewhere(facts):
        return False
    of_reference = False
    for document in facts.evidence.of("log"):
        for line in document.lines:
            if TAGGED.match(line):
                of_reference = line.startswith(f"[error] {log.REFERENCE}")
            elif line.strip() and not of_reference:
                return False
    return True


def others_fail_alike(facts: Facts) -> bool:
    """Whether enough other models fail in the same way, whose text this output cannot have written."""
    across = facts.case.across
    return across is not None and across.most_fail


def _in_an_error(facts: Facts) -> str | None:
    """A test case may count as broken because the code under test raised while it was imported or set up."""
    broken = (step for step in facts.evidence.steps if step.status == "failed")
    if facts.spoken.turns or not any(steps.kind(step.name, None) == "tests" for step in broken):
        return None
    return "Code under test that raises while a test is collected or set up looks the same."


def _at_install(facts: Facts) -> str | None:
    manifests = [d for d in facts.evidence.of("output") if MANIFESTS.search(d.path)]
    runs = any(RUN_AT_INSTALL.search(d.path) for d in facts.evidence.of("output"))
    if runs or any(RUNS_AT_INSTALL.search(d.text) for d in manifests):
        return "The output has scripts that run during installation and can print any text."
    if any(OWN_SOURCE.search(d.text) for d in manifests):
        return "The output itself chooses the package source, so that source may be at fault."
    return None


def _at_build(facts: Facts) -> str | None:
    # A message of many lines can look like the end of its own section, so all of the log counts.
    whole = code.joined([*(d.text for d in facts.evidence.of("log")), *_recorded(facts)])
    if len(whole) > LONGEST_LOG:
        return "The log is too long to tell whether the output's code wrote a part of it."
    if FROM_CODE.search(whole):
        return "The build ran the output's code, which can throw any text."
    if facts.errors and all(e.citation and (e.code or e.places) for e in facts.errors):
        return None
    if COMPILED.search(whole):
        return "A compiler reported errors too, and those quote text of the output."
    if ONLY_PUSHES.match(_text(facts)):
        return None
    return "A build may run the output's code, which can print any text."


def _in_tests(facts: Facts) -> str | None:
    if raised_by_grader(facts) or _ran_quietly_elsewhere(facts):
        return None
    if FROM_CODE.search(_text(facts)) or facts.blamed:
        return "The message comes from the output's own code, which can throw any text."
    return "The log does not show what raised the error, and the output's own code can throw any text."


def _ran_quietly_elsewhere(facts: Facts) -> bool:
    """Whether the code was deployed to a separate process and nothing in the tests' log comes from it."""
    text = _text(facts)
    quiet = not FROM_CODE.search(text) and not CAPTURED.search(text)
    named = all(_names(facts, test) for test in facts.outcome.failures)
    return ran_elsewhere(facts) and quiet and named and bool(facts.grader) and not RETHROWN.search(facts.grader)


def _only_grader(facts: Facts, test: evidence.FailedTest) -> bool:
    """Whether a traceback passes through a grader's file and through none of the output's."""
    graders = {d.path.rsplit("/", 1)[-1] for d in facts.evidence.of("grader")}
    output = {d.path.rsplit("/", 1)[-1] for d in facts.evidence.of("output")}
    frames = [path.replace("\\", "/").rsplit("/", 1)[-1] for path in test.frames]
    known = 0 < len(frames) < MOST_FRAMES  # more are cut off
    return known and bool(graders & set(frames)) and not output & set(frames) and _names(facts, test)


def _names(facts: Facts, test: evidence.FailedTest) -> bool:
    """Whether a grader has a test of this name; a forged failure may not."""
    title = test.title.split("[")[0]
    return bool(title) and title in facts.grader.replace("\\", "")


def _is_reflective(facts: Facts) -> bool:
    """Whether the output's code could bypass the test runner's capture or forge frames."""
    texts = _code(facts.evidence.of("output"))
    return any(DUNDER.search(text) or REFLECTIVE & code.names(text) for text in texts)


def _code(documents: tuple[Document, ...]) -> Iterator[str]:
    for document in documents:
        if not document.path.endswith((".md", ".txt", ".log")):
            yield code.without_comments(document.text, document.path)


def _text(facts: Facts) -> str:
    """The text of the log and the records about the failed step."""
    part = log.failed_log(facts.evidence)
    return code.joined([part.text if part else "", *_recorded(facts)])


def _recorded(facts: Facts) -> list[str]:
    recorded = (step.error for step in facts.evidence.steps if step.status == "failed" and step.error)
    return [*recorded, facts.evidence.eval.reason or ""]
