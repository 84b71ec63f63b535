"""Rules for failures that are not the model's fault: a runner, provider, registry or grader was not available."""

import re

from evalscribe.evidence.log import REFERENCE, failed_log, reference_errors
from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import code, doubts, quote
from evalscribe.judging.rules.code import basename
from evalscribe.judging.rules.doubts import CONNECTION, PROVIDER
from evalscribe.judging.rules.facts import Facts, RuleDecision
from evalscribe.model.evidence import Diagnosis, Evidence, PackedEvidence
from evalscribe.model.finding import UNCERTAIN_CONFIDENCE, CauseKind, Classification, Failure

MARKED = re.compile(r"\[(?P<mark>infrastructure|rate_limit|preflight|zero_tokens)\]\s*(?P<message>.*)", re.DOTALL)
"""Matches a recorded reason with a tag such as `[rate_limit]`. The Convex runner tags evals that it does not count."""
EMPTY_ANSWER = re.compile(r"empty provider response\b")
UNREADABLE = re.compile(r"(?:Error: )?(?:empty parsed model output|invalid filesystem output)\b", re.IGNORECASE)
TIME_LIMIT = re.compile(r"(?:Error: )?(?P<what>[^\n]{1,300}?) timed out after (?P<limit>\d+ ?m?s)")
ANSWERS = ("raw_model_response.md",)
"""Names of files in which the Convex runner stores an answer if it cannot extract files from the answer."""
REFUSAL = re.compile(
    r"\b(?:i|we)(?:['’]m| am| are)? (?:can['’]t|cannot|can not|won['’]t|will not|unable to|not able to)\b", re.I
)


def marked_by_the_runner(facts: Facts) -> RuleDecision | None:
    """Judge failures that the runner marked as an outage before any code of the model ran."""
    recorded_reason = _recorded(facts)
    match = MARKED.match(recorded_reason)
    # Code under test can write such a tag into the message of a build or a test.
    if match is None or facts.check not in ("install", "other"):
        return None
    empty = EMPTY_ANSWER.match(match["message"]) is not None
    message = quote.cut(match["message"], 120) or match["mark"]
    return RuleDecision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="no-answer-came" if empty else f"runner-says-{match['mark'].replace('_', '-')}",
        confidence=0.5 if empty else 0.9,
        uncertain=empty,
        why=quote.cut(f"not judged; the runner says: {message}"),
        reasoning=f"The runner marks this eval `{match['mark']}`: {message.rstrip('.')}. No model code was judged."
        + (
            " An empty answer can also come from a content filter, or from a model that spent all its tokens on "
            "reasoning. The cause is not stored."
            if empty
            else ""
        ),
        citations=quote.log(facts),
        by_error_text=True,
    )


def answer_without_files(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model answered, but the runner found no files in the required layout."""
    recorded_reason = _recorded(facts)
    if not UNREADABLE.match(recorded_reason) or facts.check in ("tests", "lint", "build"):
        return None
    answer = next((d for d in facts.evidence.of("output") if basename(d.path) in ANSWERS), None)
    refused = answer is not None and REFUSAL.search(answer.text[:2000]) is not None
    unseen = (
        answer is None and "invalid filesystem" not in recorded_reason.lower()
    )  # the reason alone proves that a path is invalid
    doubtful = refused or unseen
    line = next((n for n, text in enumerate(answer.lines, 1) if text.strip()), 1) if answer else 1
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="answer-refused" if refused else "answer-without-files",
        confidence=0.5 if doubtful else 0.7,
        uncertain=doubtful,
        why=quote.cut(recorded_reason.removeprefix("Error: ")),
        reasoning=f"The model answered, but the runner could not extract files: {quote.cut(recorded_reason, 120)}. "
        + (
            "The answer looks like a refusal."
            if refused
            else f"See `{answer.path}`."
            if answer
            else "The answer itself is not stored: it may also be a refusal, or cut off."
            if unseen
            else "The answer itself is not stored."
        ),
        citations=(
            *((cite_lines(answer, line, min(line + 2, len(answer.lines))),) if answer else ()),
            *quote.log(facts),
        ),
    )


def runner_ran_out_of_time(facts: Facts) -> RuleDecision | None:
    """Judge failures whose only recorded reason is that a command of the runner hit its time limit."""
    # The pattern must match the whole reason. Code under test can throw an error with the same words, but the tool that
    # reports it adds others.
    match = TIME_LIMIT.fullmatch(_recorded(facts).strip())
    if match is None or facts.check == "other" or (facts.check == "tests" and facts.outcome.runner):
        return None
    command, tests = quote.cut(match["what"].split(" (")[0], 40), facts.check == "tests"
    same_as_reference = facts.same_as_reference
    open_question = {
        "tests": "The cause may be an endless loop in the code or a backend that never answers: no output of the "
        "tests is stored.",
        "build": "The cause may be a slow machine or types that are too deep to check.",
    }
    unsure = tests or (facts.check == "build" and facts.step_checks_types)
    return RuleDecision(
        label="KNOWN_GAP" if not tests else "OVERLY_STRICT" if same_as_reference else "MODEL_FAULT",
        kind="infrastructure" if not tests else "harness" if same_as_reference else "model",
        cause=f"{facts.check}-timed-out",
        confidence=0.5 if unsure else 0.8,
        uncertain=unsure,
        why=quote.cut(f"`{command}` hit the runner's time limit of {match['limit']}"),
        reasoning=f"`{command}` was stopped by the runner after {match['limit']}, and nothing else is recorded. "
        + (
            open_question[facts.check]
            if unsure
            else "All tests passed."
            if facts.check == "lint" and facts.outcome.all_passed
            else "No code of the model was judged; the eval may pass when the run is repeated."
        ),
        citations=quote.log(facts),
        by_error_text=True,  # a script in the output might have caused the timeout
    )


def reference_not_set_up(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the tests need the reference answer, but the runner could not set it up."""
    headings = reference_errors(facts.evidence)
    if facts.check != "tests" or not headings:
        return None
    heading = quote.cut(headings[0].text.removeprefix(REFERENCE), 120)
    log = next(iter(facts.evidence.of("log")), None)
    line = headings[0].number
    proven = doubts.only_runner_marks(facts)
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="reference-not-set-up",
        confidence=0.85 if proven else 0.5,
        uncertain=not proven,
        error=f"the reference was not set up: {heading}",
        why=quote.cut(f"the reference answer was not set up: {heading}"),
        reasoning=f"The runner failed to set up the reference answer (log line {line}): {heading.rstrip('.')}. It "
        "runs the tests anyway, and they cannot pass without the reference: the model's work was not judged."
        + ("" if proven else " But the code under test may have printed that line."),
        citations=(*((cite_lines(log, line, line),) if log else ()), *quote.log(facts)),
        fix="end the eval as an outage when the reference answer cannot be installed or deployed",
        would_pass=False,
    )


def tests_never_started(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the test runner printed nothing.

    The log has a heading for the test runner's output but not even a banner below it.
    """
    log = next(iter(facts.evidence.of("log")), None)
    if facts.check != "tests" or log is None or facts.first or facts.outcome.runner is not None:
        return None
    part = failed_log(facts.evidence)
    if not facts.produced or part is None or not part.text.lstrip().startswith("[error]"):
        return None
    lines = [line.strip() for line in part.text.split("\n") if line.strip()]
    # The Convex runner logs `Error: Tests failed:` and nothing below it if the test runner wrote no report and printed
    # nothing.
    if len(lines) > 1 or not lines[0].endswith(":"):
        return None
    proven = doubts.was_deployed(facts)
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="tests-never-started",
        confidence=0.6 if proven else 0.5,
        uncertain=not proven,
        error="the test runner did not start: it printed nothing",
        why="the test runner did not start: the log has no output of it",
        reasoning="The tests step failed, and the log has no output below its heading, not even the test runner's "
        "banner. No test judged the model's work."
        + (
            "" if proven else " But code that runs in the tests' process can end the process before it prints anything."
        ),
        citations=quote.log(facts),
        fix="record the exit code and stderr of the test runner, and end the eval as an outage when it does not start",
        would_pass=False,
    )


def _recorded(facts: Facts) -> str:
    """Return the recorded reason why the step failed. If there is none, return the reason why the eval failed."""
    evidence = facts.evidence
    step_errors = (
        s.error for s in evidence.steps if s.status == "failed" and s.name == evidence.eval.failed_step and s.error
    )
    return next(step_errors, None) or evidence.eval.reason or ""


QUOTED = re.compile(r"([\"'`]).{0,300}?\1")

NO_OUTPUT = re.compile(r"\bAI_NoOutputGeneratedError\b")
"""Matches the error of the AI SDK's stream.

This error follows every error of a provider, but does not say what the provider's error was.
"""
NO_ENDPOINT = re.compile(r"no endpoints? found for (?P<model>[\w@:./-]{1,80}\w)", re.IGNORECASE)
OF_SDK = re.compile(r"\bAI_[A-Z]\w+Error\b")
"""Matches errors of the AI SDK, which runs only before the code under test."""
REGISTRY = re.compile(r"\bGET https?://\S+ - (?:408|429|5\d\d)\b")
"""Matches bun's message for a package registry that is overloaded or down.

Status 404 is excluded, because it means that the package does not exist.
"""
PUSH = re.compile(r"error fetching \w+ {1,2}https?://\S+ 5\d\d\b", re.IGNORECASE)
"""Matches the Convex CLI's message for a failure of its backend.

4xx statuses are excluded, because they mean that the backend refused the push.
"""


def provider_gave_nothing(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the model produced no output and none of its work was judged."""
    reason = facts.evidence.eval.reason or ""
    failed = [step for step in facts.evidence.steps if step.status == "failed"]
    judged = facts.evidence.eval.failed_step is not None or bool(failed)
    unrecorded = not reason and not any(step.error for step in failed)
    if facts.produced or facts.evidence.of("log") or facts.transcripts.by_model:
        return None
    if judged and (not unrecorded or facts.transcripts.turns):
        return None
    recognised = bool(PROVIDER.search(reason) or CONNECTION.search(reason) or OF_SDK.search(reason))
    endpoint = NO_ENDPOINT.search(reason)
    why = "no model output: the provider failed before grading" if recognised else "no model output to judge"
    if unrecorded:
        why = "neither output nor log nor a reason is recorded"
    if endpoint:
        why = quote.short_or(f"the provider has no endpoint for `{endpoint['model']}`", why)
    return RuleDecision(
        label="KNOWN_GAP",
        kind="infrastructure",
        cause="model-not-reachable" if recognised else "not-recorded" if unrecorded else "no-output",
        confidence=0.95 if recognised else 0.5,
        uncertain=not recognised,
        why=why,
        reasoning=f"{quote.sentence(why)} {_explain(recognised, reason)}",
    )


def _explain(recognised: bool, reason: str) -> str:
    if NO_OUTPUT.search(reason):
        return (
            "The call to the provider failed, so the model's work was never judged. The error is not stored: see the "
            "log of the job that ran the evals."
        )
    if recognised:
        return "The provider or the network failed, so the model's work was never judged."
    return "The recorded reason does not say what broke, so this is the likeliest reading."


def environment_not_reached(facts: Facts) -> RuleDecision | None:
    """Judge failures in which a connection failed in a step before the tests, so that the code never ran."""
    # An error that points to a line of the output is about that line.
    if facts.check not in ("install", "build") or facts.first is None or facts.blamed:
        return None
    index = facts.check == "install"
    error = facts.first.error
    if not (CONNECTION.search(error) or (index and (_timed_out(error) or REGISTRY.search(error))) or PUSH.match(error)):
        return None
    if _quotes_output(facts, error):
        return None
    return RuleDecision(
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


def grader_not_connected(facts: Facts) -> RuleDecision | None:
    """Judge failures in which every failed test stopped at a connection error.

    The words of the connection error do not occur in the output's code.
    """
    failures = facts.outcome.failures
    if facts.check != "tests" or not failures or not all(CONNECTION.search(test.message) for test in failures):
        return None
    word = CONNECTION.search(failures[0].message)
    # Code that contains these words might have thrown the error itself.
    if word and quote.first_with(facts.output_lines, word.group(0)):
        return None
    # The model is at fault if the server never started or redirects to another address. Stack frames alone do not show
    # whether this happened or the grader uses a wrong address.
    asks_elsewhere = doubts.raised_by_grader(facts) and doubts.ANOTHER_PORT.search(facts.grader) is not None
    proven = asks_elsewhere or doubts.most_models_fail(facts)
    grader = quote.grader_addresses(facts) or quote.grader_lines(facts, failures[0].message)
    why = f"the grader could not connect; {_all(len(failures))} before any assertion"
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="grader-" + code.kebab(word.group(0) if word else "connection"),
        confidence=0.8 if proven else 0.5,
        uncertain=not proven,
        why=why,
        reasoning=quote.sentence(why)
        + (" Nothing that the model wrote was judged, so the harness or its network is at fault." if proven else ""),
        citations=(*grader, *quote.served(facts), *quote.log(facts)),
        fix=right_address(facts),
        would_pass=proven,
    )


def outside_service_failed(facts: Facts) -> RuleDecision | None:
    """Judge failures in which an outside service failed in every failed test.

    The service answered with status 429 or 5xx, or it did not answer. Output and reference both use the service.
    """
    failures = facts.outcome.failures
    if facts.check != "tests" or not failures or not all(SERVER_ERROR.search(test.message) for test in failures):
        return None
    hosts = [set(OUTSIDE.findall(text)) for text in (facts.all_output, facts.expected_code)]
    shared = sorted(hosts[0] & hosts[1])
    server_error = SERVER_ERROR.search(failures[0].message)
    if not shared or server_error is None:
        return None
    status = server_error[1] or server_error[2]
    behaviour = f"answered {status}" if status else "did not answer in time"
    why = f"`{shared[0]}` {behaviour}"
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause="outside-service-failed",
        confidence=0.5,
        uncertain=True,
        why=quote.short_or(why, f"an outside service {behaviour}"),
        reasoning=f"{quote.sentence(why)} The reference uses it too.",
        fix="let the test use its own service",
        citations=(*quote.log(facts), *quote.both(facts, shared[0])[:1]),
    )


SERVER_ERROR = re.compile(
    r"\b(?:status|http)\b[^\n\d]{0,24}(429|50[0234])\b|\btimed out\b|\btimeout\b"
    r"|(?<![\w.])expected (50[234]) to (?:be|equal)",
    re.IGNORECASE,
)
OUTSIDE = re.compile(r"https?://((?!localhost|127\.|0\.0\.0\.0)[\w-]+(?:\.[\w-]+)+)")


def right_address(facts: Facts) -> str:
    """Return the fix for a grader that might send requests to a wrong address.

    Retries are proposed only if the grader does not yet retry failed requests.
    """
    grader = basename(facts.evidence.of("grader")[0].path) if facts.evidence.of("grader") else "the grader"
    if doubts.ANOTHER_PORT.search(facts.grader):
        return f"in `{grader}`, use the port that the server reports instead of computing one"
    if doubts.RETRIES.search(facts.grader):
        return f"check that `{grader}` asks the address at which the server listens; it retries already, without effect"
    return f"check that the server is up and listens where `{grader}` asks, and retry failed connections"


def came_to_the_code(evidence: Evidence, diagnosis: Diagnosis | None = None) -> bool:
    """Return whether the model's work was judged.

    The work was not judged if the runner, a provider, a registry or a service failed before the grading.
    """
    facts = Facts(Failure(evidence=evidence, packed=PackedEvidence(excerpts=()), diagnosis=diagnosis))
    outage = environment_not_reached(facts)
    proven = outage is not None and not doubts.checked(facts, outage).uncertain
    late = runner_ran_out_of_time(facts)
    before = (
        provider_gave_nothing,
        marked_by_the_runner,
        reference_not_set_up,
        tests_never_started,
    )
    return not proven and (late is None or late.uncertain) and all(rule(facts) is None for rule in before)


def _quotes_output(facts: Facts, error: str) -> bool:
    """Return whether an error only looks like a connection error because it quotes a name or text of the output."""
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


RAISED_BY_HARNESS = re.compile(r"(?P<type>[A-Z]\w+Error|[a-z]+(?:_[a-z]+)+)(?:: |$)")
ORIGINS: dict[str, str] = {
    **dict.fromkeys(
        (
            "ApiRateLimitError",
            "ApiUsageLimitError",
            "ApiInternalServerError",
            "ApiOverloadedError",
            "ApiConnectionClosedError",
            "ApiResponseStalledError",
            "UnknownApiError",
            "ApiProviderResourceNotFoundError",
            "ModelNotFoundError",
            "AgentAuthenticationError",
            "NetworkConnectionError",
        ),
        "provider",
    ),
    **dict.fromkeys(
        (
            "EnvironmentStartTimeoutError",
            "HealthcheckError",
            "SandboxBuildFailedError",
            "docker_daemon_unresponsive",
            "docker_resource_exhaustion",
            "container_startup_failed",
            "infrastructure_timeout",
        ),
        "environment",
    ),
    **dict.fromkeys(
        (
            "VerifierTimeoutError",
            "RewardFileNotFoundError",
            "RewardFileEmptyError",
            "VerifierOutputParseError",
            "AddTestsDirError",
            "DownloadVerifierDirError",
            "test_timeout",
            "parse_error",
        ),
        "verifier",
    ),
    **dict.fromkeys(
        (
            "NonZeroAgentExitCodeError",
            "AgentSetupTimeoutError",
            "agent_installation_failed",
            "unknown_agent_error",
            "fatal_llm_parse_error",
        ),
        "agent",
    ),
    **dict.fromkeys(
        (
            "AgentTimeoutError",
            "OutputTokenExceededError",
            "ContextWindowExceededError",
            "agent_timeout",
            "context_length_exceeded",
            "output_length_exceeded",
        ),
        "limit",
    ),
    "AgentSafetyRefusalError": "refusal",
}
"""Origin of each exception with which Harbor ends a trial, and of each failure mode of the older Terminal-Bench."""


def ended_by_an_exception(facts: Facts) -> RuleDecision | None:
    """Judge failures for which the harness names an exception that prevented grading.

    The type of the exception shows its origin.
    """
    recorded_reason = _recorded(facts).strip()
    match = RAISED_BY_HARNESS.match(recorded_reason)
    origin = ORIGINS.get(match["type"]) if match else None
    # Harbor also grades trials that ended with an exception such as `AgentTimeoutError`. These are failures, not
    # errors.
    if match is None or origin is None or facts.evidence.eval.status != "error":
        return None
    label, kind, confidence, why = _BY_ORIGIN[origin]
    return RuleDecision(
        label=label,
        kind=kind,
        cause=code.kebab(match["type"].removesuffix("Error")),
        confidence=confidence,
        uncertain=confidence <= UNCERTAIN_CONFIDENCE,
        error=quote.cut(recorded_reason, 200),
        why=quote.cut(f"{why}: {recorded_reason}"),
        reasoning=f"The trial ended with {quote.cut(recorded_reason, 170).rstrip('.')}, and no reward was written. "
        + _WHAT_FOLLOWS[origin],
        citations=quote.log(facts),
        fix="find out why the verifier gives no verdict" if origin == "verifier" else None,
    )


_BY_ORIGIN: dict[str, tuple[Classification, CauseKind, float, str]] = {
    "provider": ("KNOWN_GAP", "infrastructure", 0.9, "the provider failed"),
    "environment": ("KNOWN_GAP", "infrastructure", 0.9, "the environment did not start"),
    "verifier": ("OVERLY_STRICT", "grader", 0.5, "the verifier gave no verdict"),
    "agent": ("KNOWN_GAP", "harness", 0.5, "the agent program broke"),
    "limit": ("MODEL_FAULT", "model", 0.5, "stopped at a limit and not graded"),
    "refusal": ("MODEL_FAULT", "model", 0.65, "refuses"),
}
_WHAT_FOLLOWS = {
    "provider": "The model's work was not judged; it may pass when the run is repeated.",
    "environment": "The agent never began; it may pass when the run is repeated.",
    "verifier": "The verifier may be broken, or the agent may have broken what the verifier needs.",
    "agent": "The agent's log may tell whether the agent's program broke by itself or because of the model.",
    "limit": "The exception does not say whether the limit was too low.",
    "refusal": "The agent or its provider refused the task for reasons of safety.",
}
