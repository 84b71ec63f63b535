"""Errors that any model may run into: without notes or other models' results, blaming this model stays uncertain.

KNOWN_GAP is a limitation of the eval that all models share. A compiler error about a type that the task never mentions
looks the same whether one model or all models run into it.
"""

import re

from evalscribe import signature
from evalscribe.judging.rules import code
from evalscribe.judging.rules.facts import Facts

ENOUGH = 3
"""Fewest other models that show, if most of them pass, that the failure is not shared."""
RELATION = frozenset(["TS2322", "TS2345", "TS2352", "TS2416", "TS2719", "TS2739", "TS2740", "TS2741", "TS2769"])
"""Two types do not match, and one of them is the platform's."""
INFERRED = re.compile(r"TS70\d\d")
"""The compiler could not infer a type."""
ENVIRONMENT = frozenset(["TS2580", "TS2582", "TS2584", "TS2591", "TS7016"])
"""Type definitions are not installed."""
MEMBER = frozenset(["TS2339", "TS2551"])
NO_MEMBER = re.compile(r"Property '(?P<name>[^']+)' does not exist on type '(?P<type>.+?)'")
OF_NODE = frozenset(
    """
    assert async_hooks buffer child_process cluster console crypto dgram diagnostics_channel dns events fs http http2
    https net os path perf_hooks process querystring readline stream string_decoder timers tls tty url util v8 vm
    worker_threads zlib
    """.split()  # noqa: SIM905
)
"""Modules built into Node that other runtimes lack. Any other package is the model's own choice."""
UNRESOLVED = re.compile(r"(?:Could not resolve|Cannot find module) [\"'](?P<module>[^\"']+)[\"']")


def may_be_shared(facts: Facts, error: signature.Located | None) -> str | None:
    """Explain in a sentence why all models may run into a build error; None if it is clearly this model's own."""
    if error is None or shared_failures_known(facts):
        return None
    what = _unknowable(facts, error)
    return f"{what}, {NOT_STORED}" if what else None


def shared_failures_known(facts: Facts) -> bool:
    """Whether it is known which failures models share: from the eval's notes or from other models' results."""
    across = facts.case.across
    passes = across is not None and across.models >= ENOUGH and 2 * across.failing < across.models
    return bool(facts.evidence.of("known_gaps")) or passes


NOT_STORED = "and neither known-gap notes nor other models' results are stored: models may share this gap (KNOWN_GAP)."


def _unknowable(facts: Facts, error: signature.Located) -> str | None:
    rule = error.code or ""
    if rule in RELATION:
        return "The error is about a type that the task does not describe"
    if INFERRED.fullmatch(rule):
        return "The compiler could not infer a type"
    if rule in ENVIRONMENT:
        return "Type definitions are missing in the environment"
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
