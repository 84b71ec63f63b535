"""Failures that say nothing about the code: a provider, a registry or a server could not be reached."""

import re

from evalscribe.judging.rules import code, provenance, quote, runner
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import Facts
from evalscribe.model.evidence import Diagnosis, Evidence, PackedEvidence
from evalscribe.model.finding import Failure

CONNECTION = re.compile(
    r"fetch failed|\b(?:ECONN(?:REFUSED|RESET|ABORTED)|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|EADDRINUSE)\b"
    r"|address already in use|socket hang ?up"
    r"|connection\s*(?:was )?(?:refused|reset|aborted|timed out|closed)"
    r"|Connect(?:ion)?(?:Refused|Reset)?(?:Error|Timeout)"
    r"|name resolution|getaddrinfo|network is unreachable|no route to host|max retries exceeded|read ?timed? ?out"
    r"|ReadTimeout|NewConnectionError|(?:502|504)\b.{0,20}(?:gateway)|503\b.{0,20}unavailable",
    re.IGNORECASE,
)
ANOTHER_PORT = re.compile(r"\bport\w*\s*[+-]\s*\d", re.IGNORECASE)
"""A grader that computes a port, the usual reason why nothing answers there."""
QUOTED = re.compile(r"([\"'`]).{0,300}?\1")
PROVIDER = re.compile(
    r"no endpoints? found|rate.?limit|overloaded|quota|insufficient.{0,12}(?:credit|balance|fund)|APICallError|APIError"
    r"|API (?:call|request)|invalid api key|unauthori[sz]ed|model.{0,40}(?:not (?:found|exist)|unavailable|deprecated)"
    r"|(?:provider|service|endpoint).{0,30}(?:error|unavailable|down)|too many requests|\b(?:429|5\d\d)\b|timed? ?out",
    re.IGNORECASE,
)

NO_OUTPUT = re.compile(r"\bAI_NoOutputGeneratedError\b")
"""The error of the AI SDK's stream after any provider error, which it does not report."""
OF_SDK = re.compile(r"\bAI_[A-Z]\w+Error\b")
"""Errors of the AI SDK, which calls the model before any code under test runs."""
REGISTRY = re.compile(r"\bGET https?://\S+ - (?:408|429|5\d\d)\b")
"""bun's message for a package registry that is overloaded or down; 404 means that the package does not exist."""
PUSH = re.compile(r"error fetching \w+ {1,2}https?://\S+ 5\d\d\b", re.IGNORECASE)
"""The Convex CLI's message for a backend failure; a 4xx status means that it refused the push."""


def provider_gave_nothing(facts: Facts) -> Decision | None:
    """No output at all: nobody can tell what the model would have written."""
    judged = facts.evidence.eval.failed_step is not None or any(s.status == "failed" for s in facts.evidence.steps)
    if facts.produced or judged or facts.evidence.of("log") or facts.spoken.by_model:
        return None
    reason = facts.evidence.eval.reason or ""
    known = bool(PROVIDER.search(reason) or CONNECTION.search(reason) or OF_SDK.search(reason))
    return Decision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="model-not-reachable" if known else "no-output",
        confidence=0.95 if known else 0.5,
        uncertain=not known,
        why="no model output: the provider failed before grading" if known else "no model output to judge",
        reasoning=f"The eval ended before grading began and holds no output. {_reason_said(known, reason)}",
    )


def _reason_said(known: bool, reason: str) -> str:
    if NO_OUTPUT.search(reason):
        return (
            "The call to the provider failed, so the model's work was never judged. The error is not stored: see the "
            "log of the job that ran the evals."
        )
    if known:
        return "The recorded reason is the provider's or the network's, so the model's work was never judged."
    return "The recorded reason does not say what broke, so this is the likeliest reading."


def environment_not_reached(facts: Facts) -> Decision | None:
    """A step before the tests that stopped at a connection never came to the code."""
    if facts.check not in ("install", "build") or facts.first is None or facts.blamed:
        return None
    index = facts.check == "install"
    error = facts.first.error
    if not (CONNECTION.search(error) or (index and (_timed_out(error) or REGISTRY.search(error))) or PUSH.match(error)):
        return None
    if _quotes_output(facts, error):
        return None
    return Decision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="package-index-unreachable" if index else "environment-unreachable",
        confidence=0.9,
        why=f"{'the package index' if index else 'a service'} could not be reached; no code was judged",
        reasoning=f"The step `{facts.step}` failed on a connection, before anything of the model's ran. "
        "It may succeed when the run is repeated.",
        citations=quote.log(facts),
        by_error_text=True,
    )


def grader_not_connected(facts: Facts) -> Decision | None:
    """Every failed test stopped at a connection, and the code does not say such words itself."""
    failures = facts.outcome.failures
    if facts.check != "tests" or not failures or not all(CONNECTION.search(test.message) for test in failures):
        return None
    word = CONNECTION.search(failures[0].message)
    if word and quote.first_with(facts.output_lines, word.group(0)):
        return None
    # If the server never started or redirects elsewhere, the model is at fault. Frames alone do not distinguish that
    # from a grader that uses a wrong address.
    asks_elsewhere = provenance.raised_by_grader(facts) and ANOTHER_PORT.search(facts.grader) is not None
    proven = asks_elsewhere or provenance.others_fail_alike(facts)
    grader = quote.grader_addresses(facts) or quote.grader_lines(facts, failures[0].message)
    where = grader[0].path.rsplit("/", 1)[-1] if grader else "the grader"
    return Decision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="grader-" + code.kebab(word.group(0) if word else "connection"),
        confidence=0.8 if proven else 0.5,
        uncertain=not proven,
        why=f"the grader could not connect; {_all(len(failures))} before any assertion",
        reasoning=f"{_all(len(failures)).capitalize()} with a connection error, not with a failed assertion. "
        + (
            "Nothing that the model wrote was judged, so the harness or its network is at fault."
            if proven
            else "The harness or its network may be at fault, but the output's own code can also throw such an error, "
            "or its server may not answer."
        ),
        citations=(*quote.log(facts), *grader),
        fix=f"make sure that the server is up and the address is right before `{where}` asks it; retry connections",
        would_pass=proven,
    )


def came_to_the_code(evidence: Evidence, diagnosis: Diagnosis | None = None) -> bool:
    """Whether what failed was the model's work or a check of it, and no provider, registry or service before that."""
    facts = Facts(Failure(evidence=evidence, packed=PackedEvidence(excerpts=()), diagnosis=diagnosis))
    outage = environment_not_reached(facts)
    proven = outage is not None and not provenance.checked(facts, outage).uncertain
    late = runner.runner_ran_out_of_time(facts)
    before = (
        provider_gave_nothing,
        runner.marked_by_the_runner,
        runner.reference_not_set_up,
        runner.tests_never_started,
    )
    return not proven and (late is None or late.uncertain) and all(rule(facts) is None for rule in before)


def _quotes_output(facts: Facts, error: str) -> bool:
    """Whether an error contains such words only because it quotes a name or text of the output."""
    word = CONNECTION.search(error)
    if word is None:
        return False
    if facts.check == "install":
        return any(word[0].lower() in document.text.lower() for document in facts.evidence.of("output"))
    return CONNECTION.search(QUOTED.sub("", error)) is None


def _timed_out(error: str) -> bool:
    return "timed out" in error.lower()


def _all(count: int) -> str:
    return {1: "the one failed test ended", 2: "both failed tests ended"}.get(count, f"all {count} failed tests ended")
