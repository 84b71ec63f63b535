"""Errors that every model may run into: without notes or other models at hand, blaming this one stays uncertain.

The maintainers' KNOWN_GAP is a limitation of the eval that all models share. What a compiler says of a type that the
task never speaks of looks the same whether one model or all of them stumble over it.
"""

import re

from evalscribe import signature
from evalscribe.judging.rules import code
from evalscribe.judging.rules.facts import Facts

ENOUGH = 3
"""So many models of which most pass show that it is no gap that all share."""
RELATION = frozenset(["TS2322", "TS2345", "TS2352", "TS2416", "TS2719", "TS2739", "TS2740", "TS2741", "TS2769"])
"""Two types do not fit: what the other one is like, only the platform tells."""
INFERRED = re.compile(r"TS70\d\d")
"""A type was left to the compiler, which could not find it."""
ENVIRONMENT = frozenset(["TS2580", "TS2582", "TS2584", "TS2591", "TS7016"])
"""Type definitions that are not installed."""
MEMBER = frozenset(["TS2339", "TS2551"])
NO_MEMBER = re.compile(r"Property '(?P<name>[^']+)' does not exist on type '(?P<type>.+?)'")
OF_NODE = frozenset(
    """
    assert async_hooks buffer child_process cluster console crypto dgram diagnostics_channel dns events fs http http2
    https net os path perf_hooks process querystring readline stream string_decoder timers tls tty url util v8 vm
    worker_threads zlib
    """.split()  # noqa: SIM905
)
"""Modules that Node brings and other runtimes lack; any other package is the model's to depend on."""
UNRESOLVED = re.compile(r"(?:Could not resolve|Cannot find module) [\"'](?P<module>[^\"']+)[\"']")


def may_be_shared(facts: Facts, error: signature.Located | None) -> str | None:
    """Why a build error may be one that all models meet, as a sentence; None where it is plainly this model's own."""
    if error is None or told_of_gaps(facts):
        return None
    what = _unknowable(facts, error)
    return f"{what}, {NOT_STORED}" if what else None


def told_of_gaps(facts: Facts) -> bool:
    """Whether anything tells which failures models share: the eval's notes, or how other models did."""
    across = facts.case.across
    passes = across is not None and across.models >= ENOUGH and 2 * across.failing < across.models
    return bool(facts.evidence.of("known_gaps")) or passes


NOT_STORED = (
    "and neither known-gap notes nor other models' results are here: it may be a gap that models share (KNOWN_GAP)."
)


def _unknowable(facts: Facts, error: signature.Located) -> str | None:
    rule = error.code or ""
    if rule in RELATION:
        return "The error is about a type that the task does not describe"
    if INFERRED.fullmatch(rule):
        return "The compiler could not infer a type"
    if rule in ENVIRONMENT:
        return "Type definitions are missing in the environment"
    if rule in MEMBER and not _invented(facts, error.error):
        return "The member is one that other code here has too, or the type is not known"
    module = UNRESOLVED.search(error.error)
    if module and module["module"].removeprefix("node:").split("/")[0] in OF_NODE:
        return f"The code runs where Node's `{module['module']}` is not to be had"
    if rule or error.tool or facts.check != "build" or facts.blamed:
        return None
    return "The refusal names no line of the model's"


def _invented(facts: Facts, said: str) -> bool:
    """Whether a member is the model's invention: reference, task and grader never use it, and the type is known."""
    match = NO_MEMBER.search(said)
    if match is None:
        return True
    known = facts.expected_names | code.names(facts.task) | code.names(facts.grader)
    return match["type"] not in ("{}", "never", "unknown", "object") and match["name"] not in known
