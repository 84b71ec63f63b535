"""Errors that any model may run into: without notes or other models' results, blaming this model stays uncertain.

KNOWN_GAP is a limitation of the eval that all models share. A compiler error about a type that the task never mentions
looks the same whether one model or all models run into it.
"""

import re

from evalscribe.judging.rules import code
from evalscribe.judging.rules.facts import CodeLine, Facts
from evalscribe.model import evidence

RELATION = frozenset(
    """
    TS2321 TS2322 TS2344 TS2345 TS2352 TS2375 TS2379 TS2412 TS2415 TS2416 TS2420 TS2430 TS2559 TS2684 TS2719 TS2739
    TS2740 TS2741 TS2769
    """.split()  # noqa: SIM905
)
"""Two types do not fit: what the other one is like, only the platform tells."""
INFERRED = re.compile(r"TS(?:70\d\d|2313|2456|2502|2506|2577|2589|2590|2615|18046)")
"""A type was left to the compiler, which could not find it, went round in circles or gave up."""
ENVIRONMENT = re.compile(
    r"Do you need to (?:install|change) |Cannot find type definition file|Could not find a declaration"
)
"""Type definitions or parts of the language that are not installed."""
AMBIENT = re.compile(
    r"Cannot find (?:name|namespace) '(?:process|Buffer|NodeJS|require|module|global|__dirname|__filename|React|JSX)'"
)
"""Names that come with packages of types."""
OPTIONS = re.compile(r"TS(?:5\d{3}|6\d{3}|1259|1343|1378|1479|1484|17004|18003|2686|2688|2792|2834|2835|2875)")
"""Errors that depend on the compiler's options, or are about them."""
MEMBER = frozenset(["TS2339", "TS2353", "TS2551", "TS2561"])
NO_MEMBER = re.compile(r"'(?P<name>[^']+)' does not exist (?:on|in) type '(?P<type>.+?)'")
SYNTAX = re.compile(r"(?:TS1\d{3}: |Expected |Unexpected |Unterminated |Syntax error)")
"""Where a parser gives up tells little: the mistake may stand before it."""
SETTINGS = ("tsconfig.json", "jsconfig.json")
"""Files that the runner itself writes and changes."""
SHORTEST = 8
"""Characters of a statement, without white space, from which it is no accident that the reference has it too."""
LONGEST = 20
"""Lines of one statement that are looked at."""
OF_NODE = frozenset(
    """
    assert async_hooks buffer child_process cluster console crypto dgram diagnostics_channel dns events fs http http2
    https net os path perf_hooks process querystring readline stream string_decoder timers tls tty url util v8 vm
    worker_threads zlib
    """.split()  # noqa: SIM905
)
"""Modules built into Node that other runtimes lack. Any other package is the model's own choice."""
UNRESOLVED = re.compile(r"(?:Could not resolve|Cannot find module) [\"'](?P<module>[^\"']+)[\"']")


def may_be_shared(facts: Facts, error: evidence.LocatedError | None) -> str | None:
    """Why a build error may be one that all models meet, as a sentence; None where it is plainly this model's own."""
    if error is None:
        return None
    if what := reference_has_it(facts, error):
        return what
    if shared_failures_known(facts):
        return None
    what = _unknowable(facts, error)
    return f"{what}, {NOT_STORED}" if what else None


def reference_has_it(facts: Facts, error: evidence.LocatedError) -> str | None:
    """Why the reference may fail alike, as a sentence: the error points to nothing that only the model wrote."""
    if facts.same_as_reference:
        return "The output's code is the reference's, line for line, which would fail alike: the cause lies elsewhere."
    places = [facts.line(place.path, place.line) for place in error.places]
    lines = [line for line in places if line is not None]
    if not lines and (error.places or error.code):
        return "The error names no line that the model wrote, so the reference may fail alike."
    if lines and all(line.document.path.endswith(SETTINGS) for line in lines):
        return "The error is about settings that the runner writes and changes, so the reference may fail alike."
    if lines and not SYNTAX.match(error.error) and all(_stands_in_reference(facts, line) for line in lines):
        return "The reference has the statement that the error names too, so it may fail alike."
    return None


def _stands_in_reference(facts: Facts, line: CodeLine) -> bool:
    """Whether the reference has the statement that begins in a line, word for word."""
    text = code.without_comments(line.document.text, line.document.path).split("\n")
    statement, depth = "", 0
    for part in text[line.number - 1 : line.number - 1 + LONGEST]:
        statement += code.fold(part)
        depth += sum(map(part.count, "([{")) - sum(map(part.count, ")]}"))
        if depth <= 0:
            break
    theirs = "".join(one.folded for one in facts.expected_lines)
    return len(statement) >= SHORTEST and statement in theirs


def shared_failures_known(facts: Facts) -> bool:
    """Whether anything tells which failures models share: the eval's notes, or how other models did."""
    across = facts.case.across
    return bool(facts.evidence.of("known_gaps")) or (across is not None and across.most_pass)


NOT_STORED = "and neither known-gap notes nor other models' results are stored: models may share this gap (KNOWN_GAP)."


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


def _invented(facts: Facts, said: str) -> bool:
    """Whether the model invented a member: reference, task and grader never use it, and the type is known."""
    match = NO_MEMBER.search(said)
    if match is None:
        return True
    known = facts.expected_names | code.names(facts.task) | code.names(facts.grader)
    return match["type"] not in ("{}", "never", "unknown", "object") and match["name"] not in known
