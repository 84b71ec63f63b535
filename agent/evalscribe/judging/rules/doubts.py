"""Reasons to doubt a decision: the code under test might have written the error, or all models might get the same
error.

This module also has the patterns for failures of networks and providers.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from evalscribe.evidence import log
from evalscribe.judging.rules import code
from evalscribe.judging.rules.facts import CodeLine, Facts, RuleDecision, check_kind, misplaced
from evalscribe.model import evidence
from evalscribe.model.evidence import Document
from evalscribe.model.run import TARGET

MOST_FRAMES = 20
"""Maximum number of stack frames that are stored for one failure."""
FROM_CODE = re.compile(
    r"\[CONVEX |\bUncaught\b|\bRequest ID: \w|\bServer Error\b|\bat [^(\n]{0,200}\(.{0,300}?:\d+:\d+\)"
    r"|\bFailed to analyze\b|\bwhile evaluating\b|\bTraceback \(most recent"
)
"""Matches signs that an error or output comes from the code under test."""
LONGEST_LOG = 2_000_000
"""Maximum characters of a log that is searched for output of the code under test.

A longer log is not searched. The rules then assume that the code under test might have written a part of the log.
"""
COMPILED = re.compile(r"error TS\d+: |\[ERROR\] |\bSyntaxError\b")
"""Matches the message of a compiler.

TypeScript prints a template literal type with its line breaks. A type in the output can thus add lines to the log that
look as if the runner had written them.
"""
OF_NETWORK = re.compile(
    r"(?:\w+\.)*(?:Connect\w*|\w*Timeout\w*|\w*ConnectionError|MaxRetryError|NameResolutionError|OSError|ReadError"
    r"|RemoteDisconnected|URLError|gaierror)(?::|$)"
)
"""Matches a network error by the name of its class.

The rest of the message is not searched, because a message can contain values that the output returned.
"""
TAGGED = re.compile(r"\[[\w.@/+-]{1,40}\]|=== ")
"""Matches the tag or title at the start of a log line that a runner wrote."""
CAPTURED = re.compile(r"^(?:\[[\w.-]+\] )?(?:stdout|stderr) \| ", re.MULTILINE)
"""Matches the heading of a block that tests or the code under test printed. vitest does not mark a block's end."""
RETHROWN = re.compile(r"\bthrow\b|\breject\(|\bnew \w*Error\(|\braise\b")
"""Matches signs that a grader throws its own errors. Such errors can repeat text that the output returned."""
ONLY_PUSHES = re.compile(
    r"\[cmd\] .{0,300}\bconvex (?:dev|deploy|codegen)\b"
    r"|\[error\] (?:Deploying generated backend\b|convex dev:"
    r"|deploy: Error: (?:Failed to deploy:|convex (?:codegen|dev) timed out after))"
)
"""Matches headings of a build that only bundles and uploads code.

The code then runs on a server, and its errors match `FROM_CODE`.
"""
RUNS_AT_INSTALL = re.compile(
    r'"(?:(?:pre|post)?(?:install|prepare)|prepublish)"\s*:|"dependencies"\s*:\s*"|\\u00|"trustedDependencies"'
    r"|\bbackend-path\b|\bcmdclass\b|\bhooks\.custom\b",
    re.IGNORECASE,
)
"""Matches keys of scripts that run during installation, and JSON escapes that can hide such a key."""
RUN_AT_INSTALL = re.compile(r"(?:^|/)(?:setup\.py|binding\.gyp|build\.rs|hatch_build\.py|\.pnpmfile\.c?js)$")
"""Matches names of files whose code always runs during installation."""
OWN_SOURCE = re.compile(
    # A manifest may name its JSON Schema at json.schemastore.org, which is not a package source.
    r'index-url|find-links|registry|proxy|"file:|(?:^|\s)-e\s|@ (?:file|git|https?)|git\+|://(?!json\.schemastore)',
    re.IGNORECASE | re.MULTILINE,
)
"""Matches signs that the output itself chooses a package source.

If this source cannot be reached, the output may be at fault.
"""
MANIFESTS = re.compile(
    r"(?:package\.json|\.npmrc|bunfig\.toml|\.yarnrc(?:\.yml)?|pnpm-workspace\.yaml|pyproject\.toml|uv\.toml|pip\.conf"
    r"|setup\.(?:py|cfg)|(?:requirements|constraints)[\w.-]*\.txt|Pipfile|go\.mod|Cargo\.toml)$"
)
# Python code without any of these names cannot bypass a test runner's capture of output, and it cannot change frames of
# a traceback. Such code also cannot give the grader an object that raises an error without a frame of its own when the
# object is called or iterated.
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


def checked(facts: Facts, decision: RuleDecision) -> RuleDecision:
    """Mark a decision as uncertain if its reason is a text that the code under test might have written.

    Only decisions that excuse the model are marked.
    """
    if not decision.by_error_text or decision.label == "MODEL_FAULT" or most_models_fail(facts):
        return decision
    doubt = written_by_output(facts)
    if doubt is None:
        return decision
    # If the code threw the error itself, a change to the eval would not make it pass.
    return replace(decision.doubted(doubt), would_pass=False)


def written_by_output(facts: Facts) -> str | None:
    """Return a sentence that explains why the code under test might have written the error text.

    Return None if the code cannot have written it.
    """
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
    """Return whether every failed test stopped in the grader because of a network error.

    The message of such an error cannot come from the output.
    """
    return stopped_in_grader(facts) and all(OF_NETWORK.match(test.message) for test in facts.outcome.failures)


def stopped_in_grader(facts: Facts) -> bool:
    """Return whether every failed test stopped in the grader's code, with no frame of the output in the traceback."""
    failures = facts.outcome.failures
    all_listed = facts.outcome.failed == len(failures) > 0  # a failure forged by the output would increase this number
    return all_listed and not _is_reflective(facts) and all(_only_grader(facts, test) for test in failures)


def was_deployed(facts: Facts) -> bool:
    """Return whether the code under test was deployed.

    Tests only call deployed code from outside, so this code cannot end the process of the tests.
    """
    return any(s.status == "passed" and "deploy" in s.name.lower() for s in facts.evidence.steps)


def only_runner_marks(facts: Facts) -> bool:
    """Return whether all headings in the log certainly come from the runner.

    This is certain if the code under test was deployed and every log line has a tag. Lines about the reference need
    no tag.
    """
    if not was_deployed(facts):
        return False
    of_reference = False
    for document in facts.evidence.of("log"):
        for line in document.lines:
            if TAGGED.match(line):
                of_reference = line.startswith(f"[error] {log.REFERENCE}")
            elif line.strip() and not of_reference:
                return False
    return True


def most_models_fail(facts: Facts) -> bool:
    """Return whether at least half of the models fail in the same way.

    An error that other models also get was not printed by this output's code, because this code did not run for the
    other models.
    """
    across = facts.case.across
    return across is not None and across.most_fail


def _in_an_error(facts: Facts) -> str | None:
    """Return a sentence that explains why the code under test might have raised the error on import or in set-up.

    Return None if the code cannot have raised it.
    """
    failed_steps = (step for step in facts.evidence.steps if step.status == "failed")
    if facts.transcripts.turns or not any(check_kind(step.name, None) == "tests" for step in failed_steps):
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
    # Search the whole log, because a message of many lines can look like the end of its own section.
    log_text = code.joined([*(d.text for d in facts.evidence.of("log")), *_recorded(facts)])
    if len(log_text) > LONGEST_LOG:
        return "The log is too long to tell whether the output's code wrote a part of it."
    if FROM_CODE.search(log_text):
        return "The build ran the output's code, which can throw any text."
    if facts.errors and all(e.citation and (e.code or e.places) for e in facts.errors):
        return None
    if COMPILED.search(log_text):
        return "A compiler reported errors too, and those quote text of the output."
    if ONLY_PUSHES.match(_text(facts)):
        return None
    return "A build may run the output's code, which can print any text."


def _in_tests(facts: Facts) -> str | None:
    if raised_by_grader(facts) or _deployed_and_silent(facts):
        return None
    if FROM_CODE.search(_text(facts)) or facts.blamed:
        return "The message comes from the output's own code, which can throw any text."
    return "The log does not show what raised the error, and the output's own code can throw any text."


def _deployed_and_silent(facts: Facts) -> bool:
    """Return whether the code was deployed on a server and evidently did not print anything to the tests' log.

    A grader must contain the titles of all failed tests, and no grader may throw errors of its own.
    """
    text = _text(facts)
    is_quiet = not FROM_CODE.search(text) and not CAPTURED.search(text)
    all_named = all(_names(facts, test) for test in facts.outcome.failures)
    return was_deployed(facts) and is_quiet and all_named and bool(facts.grader) and not RETHROWN.search(facts.grader)


def _only_grader(facts: Facts, test: evidence.FailedTest) -> bool:
    """Return whether a traceback has a frame in one of the grader's files and none in the output's files."""
    graders = {d.path.rsplit("/", 1)[-1] for d in facts.evidence.of("grader")}
    output = {d.path.rsplit("/", 1)[-1] for d in facts.evidence.of("output")}
    frames = [path.replace("\\", "/").rsplit("/", 1)[-1] for path in test.frames]
    is_complete = 0 < len(frames) < MOST_FRAMES  # longer tracebacks are incomplete
    return is_complete and bool(graders & set(frames)) and not output & set(frames) and _names(facts, test)


def _names(facts: Facts, test: evidence.FailedTest) -> bool:
    """Return whether a grader contains the test's title. A failure that the output forged can have any title."""
    title = test.title.split("[")[0]
    return bool(title) and title in facts.grader.replace("\\", "")


def _is_reflective(facts: Facts) -> bool:
    """Return whether the output's code could bypass the test runner's capture of output or forge traceback frames."""
    texts = _code(facts.evidence.of("output"))
    return any(DUNDER.search(text) or REFLECTIVE & code.names(text) for text in texts)


def _code(documents: tuple[Document, ...]) -> Iterator[str]:
    for document in documents:
        if not document.path.endswith((".md", ".txt", ".log")):
            yield code.without_comments(document.text, document.path)


def _text(facts: Facts) -> str:
    """Return the log of the failed step and the recorded errors."""
    part = log.failed_log(facts.evidence)
    return code.joined([part.text if part else "", *_recorded(facts)])


def _recorded(facts: Facts) -> list[str]:
    recorded = (step.error for step in facts.evidence.steps if step.status == "failed" and step.error)
    return [*recorded, facts.evidence.eval.reason or ""]


RELATION = frozenset(
    """
    TS2321 TS2322 TS2344 TS2345 TS2352 TS2375 TS2379 TS2412 TS2415 TS2416 TS2420 TS2430 TS2559 TS2684 TS2719 TS2739
    TS2740 TS2741 TS2769
    """.split()  # noqa: SIM905
)
"""Codes of errors about two incompatible types. One of the types can be defined by the platform."""
INFERRED = re.compile(r"TS(?:70\d\d|2313|2456|2502|2506|2577|2589|2590|2615|18046)")
"""Matches codes of errors about a type that the compiler could not infer."""
ENVIRONMENT = re.compile(
    r"Do you need to (?:install|change) |Cannot find type definition file|Could not find a declaration"
)
"""Matches errors about type definitions or language features that are not installed."""
AMBIENT = re.compile(
    r"Cannot find (?:name|namespace) '(?:process|Buffer|NodeJS|require|module|global|__dirname|__filename|React|JSX)'"
)
"""Matches errors about names that are declared by packages of type definitions."""
OPTIONS = re.compile(r"TS(?:5\d{3}|6\d{3}|1259|1343|1378|1479|1484|17004|18003|2686|2688|2792|2834|2835|2875)")
"""Matches codes of errors that are about the compiler's options, or that only occur with some options."""
MEMBER = frozenset(["TS2339", "TS2353", "TS2551", "TS2561"])
NO_MEMBER = re.compile(r"'(?P<name>[^']+)' does not exist (?:on|in) type '(?P<type>.+?)'")
SYNTAX = re.compile(r"(?:TS1\d{3}: |Expected |Unexpected |Unterminated |Syntax error)")
"""Matches syntax errors. The line of such an error is unreliable, because the mistake can be on an earlier line."""
SETTINGS = ("tsconfig.json", "jsconfig.json")
"""Files that the runner itself writes or changes."""
SHORTEST = 8
"""Minimum characters, without whitespace, of a statement that is compared with the reference.

Shorter statements match by chance.
"""
LONGEST = 20
"""Maximum number of lines of one statement."""
OF_NODE = frozenset(
    """
    assert async_hooks buffer child_process cluster console crypto dgram diagnostics_channel dns events fs http http2
    https net os path perf_hooks process querystring readline stream string_decoder timers tls tty url util v8 vm
    worker_threads zlib
    """.split()  # noqa: SIM905
)
"""Modules of Node.js that other runtimes do not have. Any other missing module is the model's choice."""
UNRESOLVED = re.compile(r"(?:Could not resolve|Cannot find module) [\"'](?P<module>[^\"']+)[\"']")


def may_be_shared(facts: Facts, error: evidence.LocatedError | None) -> str | None:
    """Return a sentence that explains why all models might get a build error.

    Return None if the error is clearly this model's fault.
    """
    if error is None:
        return None
    if reason := reference_has_it(facts, error):
        return reason
    if shows_shared_failures(facts):
        return None
    reason = _unknowable(facts, error)
    unknown = f"neither known-gap notes nor other models' results show whether {_subject(error)} fails them too"
    return f"{reason}, and {unknown}." if reason else None


def reference_has_it(facts: Facts, error: evidence.LocatedError) -> str | None:
    """Return a sentence that explains why the reference might get the same error.

    Return None if only the model's code can cause the error.
    """
    if facts.same_as_reference:
        return "The output's code is the reference's, line for line, which would fail alike: the cause lies elsewhere."
    places = [facts.line(place.path, place.line) for place in error.places]
    lines = [line for line in places if line is not None]
    if not lines and (error.places or error.code):
        return "The error names no line that the model wrote, so the reference may fail alike."
    if lines and all(line.document.path.endswith(SETTINGS) for line in lines):
        return "The error is about settings that the runner writes and changes, so the reference may fail alike."
    if lines and not SYNTAX.match(error.error) and all(_is_in_reference(facts, line) for line in lines):
        reference_line = _matching_line(facts, lines[0])
        position = f" at {reference_line.document.path}:{reference_line.number}" if reference_line else ""
        return f"The reference has the same statement{position}, so it may fail alike."
    return None


def reference_statement(facts: Facts, error: evidence.LocatedError) -> tuple[CodeLine, CodeLine] | None:
    """Return the output line of a build error and the reference line with the same statement.

    Return None if the reference does not have this statement, or if an equal statement proves nothing. Equal statements
    prove nothing for errors about incompatible types, inferred types, members or modules, because these errors depend
    on declarations and settings elsewhere.
    """
    lines = facts.lines_of(error)
    rule = error.code or ""
    of_others = rule in RELATION | MEMBER or INFERRED.fullmatch(rule) or UNRESOLVED.search(error.error)
    if not lines or of_others or misplaced(facts) or SYNTAX.match(error.error):
        return None
    if not all(_is_in_reference(facts, line) for line in lines):
        return None
    reference_line = _matching_line(facts, lines[0])
    return (lines[0], reference_line) if reference_line else None


def _is_in_reference(facts: Facts, line: CodeLine) -> bool:
    """Return whether the reference contains the statement that starts on an output line, ignoring whitespace."""
    text = code.without_comments(line.document.text, line.document.path).split("\n")
    statement, depth = "", 0
    for code_text in text[line.number - 1 : line.number - 1 + LONGEST]:
        statement += code.fold(code_text)
        depth += sum(map(code_text.count, "([{")) - sum(map(code_text.count, ")]}"))
        if depth <= 0:
            break
    reference_text = "".join(expected_line.folded for expected_line in facts.expected_lines)
    return len(statement) >= SHORTEST and statement in reference_text


def _matching_line(facts: Facts, line: CodeLine) -> CodeLine | None:
    """Return a reference line that equals an output line. Otherwise, return one that contains the output line."""
    equal_lines = (expected_line for expected_line in facts.expected_lines if expected_line.folded == line.folded)
    return next(equal_lines, None) or next(
        (expected_line for expected_line in facts.expected_lines if line.folded in expected_line.folded), None
    )


def all_pass_with(facts: Facts, rule: str) -> str:
    """Return a sentence which says that all tests pass, but not whether other models violate the same lint rule."""
    tests = f"All {facts.outcome.passed} tests pass" if facts.outcome.passed else "All tests pass"
    return f"{tests}; whether other models break `{rule.rsplit('/', 1)[-1]}` too is not stored."


def shows_shared_failures(facts: Facts) -> bool:
    """Return whether the known facts would reveal it if all models failed in the same way.

    This is so if there are known-gap notes, or if stored results show that most models pass.
    """
    across = facts.case.across
    return bool(facts.notes) or (across is not None and across.most_pass)


def _subject(error: evidence.LocatedError) -> str:
    """Return the name in an error's message as code. If the message has no name, return the place of the error."""
    match = re.search(r"['\"`]([A-Za-z_$][\w$./-]{1,40})['\"`]", error.error)
    if match:
        return f"`{match[1]}`"
    return f"{error.places[0].path}:{error.places[0].line}" if error.places else "this"


def _unknowable(facts: Facts, error: evidence.LocatedError) -> str | None:
    rule = error.code or ""
    if rule in RELATION:
        return "The error is about a type that the task does not describe"
    if INFERRED.fullmatch(rule):
        return "The compiler could not infer a type"
    if rule and (ENVIRONMENT.search(error.error) or AMBIENT.search(error.error)):
        return "Type definitions are missing in the environment"
    if OPTIONS.fullmatch(rule):
        return "The error depends on the compiler's options"
    if rule in MEMBER and not _invented(facts, error.error):
        return "Other code here uses this member too, or the type is not known"
    module = UNRESOLVED.search(error.error)
    if module and module["module"].removeprefix("node:").split("/")[0] in OF_NODE:
        return f"Node's `{module['module']}` is not available where the code runs"
    if rule or error.tool or facts.check != "build" or facts.blamed:
        return None
    return "The error names no line of the model's code"


def _invented(facts: Facts, message: str) -> bool:
    """Return whether the model invented a member.

    A member is invented if its type is known, and neither the reference nor the task nor the grader uses the member.
    """
    match = NO_MEMBER.search(message)
    if match is None:
        return True
    known_names = facts.expected_names | code.names(facts.task) | code.names(facts.grader)
    return match["type"] not in ("{}", "never", "unknown", "object") and match["name"] not in known_names


ANOTHER_PORT = re.compile(r"\bport\w*\s*[+-]\s*\d", re.IGNORECASE)
"""Matches signs that a grader computes a port, which is the usual reason for a refused connection."""
RETRIES = re.compile(r"retr(?:y|ies)|attempts?\b", re.IGNORECASE)
"""Matches signs that a grader repeats failed requests."""
CONNECTION = re.compile(
    # The word boundaries matter because case is ignored: `FileNotFoundError` contains `enotfound`.
    r"fetch failed|\b(?:ECONN(?:REFUSED|RESET|ABORTED)|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|EADDRINUSE)\b"
    r"|address already in use|socket hang ?up"
    r"|connection\s*(?:was )?(?:refused|reset|aborted|timed out|closed)"
    r"|Connect(?:ion)?(?:Refused|Reset)?(?:Error|Timeout)"
    r"|name resolution|getaddrinfo|network is unreachable|no route to host|max retries exceeded|read ?timed? ?out"
    r"|ReadTimeout|NewConnectionError|(?:502|504)\b.{0,20}(?:gateway)|503\b.{0,20}unavailable",
    re.IGNORECASE,
)
PROVIDER = re.compile(
    r"no endpoints? found|rate.?limit|overloaded|quota|insufficient.{0,12}(?:credit|balance|fund)|APICallError|APIError"
    r"|API (?:call|request)|invalid api key|unauthori[sz]ed|model.{0,40}(?:not (?:found|exist)|unavailable|deprecated)"
    r"|(?:provider|service|endpoint).{0,30}(?:error|unavailable|down)|too many requests|\b(?:429|5\d\d)\b|timed? ?out",
    re.IGNORECASE,
)
