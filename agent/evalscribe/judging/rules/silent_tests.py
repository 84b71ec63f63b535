"""Rules for failed tests without messages, and for tests of what the task specifies or leaves open."""

import re

from evalscribe.judging.rules import code, quote
from evalscribe.judging.rules.code import basename
from evalscribe.judging.rules.facts import CALL, MANIFESTS, PROSE, Facts, RuleDecision, bodies, concerns, limits
from evalscribe.judging.rules.infrastructure import grader_not_connected, outside_service_failed, right_address
from evalscribe.model.evidence import Citation, Document

REQUEST = re.compile(r"\b\w*[fF]etch\w*\(\s*[`\"']([^`\"']+)[`\"']")
"""Matches an HTTP request, including a request through a helper such as `fetchWithRetry`."""


def reference_fails_alike(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the output's code equals the reference's code line for line.

    The reference's code would fail these tests too, so something other than the code is broken.
    """
    if facts.check != "tests" or not facts.same_as_reference or not (facts.outcome.failures or facts.outcome.never_ran):
        return None
    has_message = facts.outcome.failures and not facts.outcome.silent
    return _of_the_harness(
        facts,
        "same-code-as-reference",
        "the code is the reference's line for line, and its tests fail",
        f"{_failure_count(facts)}, and the output's code is the reference's line for line: it would fail alike. "
        f"{limits(facts) or 'Ports, the network or state that tests leave behind may be the cause.'}"
        + ("" if has_message else " The log has no message of a failed test."),
    )


def nothing_was_tested(facts: Facts) -> RuleDecision | None:
    """Judge failures in which no test ran, because the test file did not load or a hook failed."""
    if facts.check != "tests" or not facts.outcome.never_ran or not facts.produced:
        return None
    why = facts.first.error if facts.first else "no test ran"
    return _of_the_harness(
        facts,
        "no-test-ran",
        why,
        f"{why[:1].upper()}{why[1:]}, so no test judged the model's work. The setup may need something that the "
        "code lacks, or it may have failed by itself: the log does not say.",
    )


def connection_broke(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the failed tests got no connection or no answer, or an outside service failed."""
    return grader_not_connected(facts) or outside_service_failed(facts) or _no_request_is_answered(facts)


def _no_request_is_answered(facts: Facts) -> RuleDecision | None:
    """Judge failures in which every test sends HTTP requests and fails, although the output serves all addresses."""
    failures = facts.outcome.failures
    # A single request that is answered shows that the server is up and reachable.
    if facts.check != "tests" or not facts.outcome.silent or facts.outcome.passed or len(failures) < 2:
        return None
    texts = ["\n".join(text for _, _, text in bodies(facts, test)) for test in failures]
    addresses = [_address(address) for body in texts for address in REQUEST.findall(body)]
    paths = [text for _, text in re.findall(r"([\"'`])(/[^\"'`\s]*)\1", facts.all_output)]
    if not addresses or not all(REQUEST.search(body) and not CALL.search(body) for body in texts):
        return None
    if len(set(addresses)) < 2 or not all(_serves(paths, address) for address in addresses):
        return None
    return _of_the_harness(
        facts,
        "no-request-answered",
        f"all {len(failures)} tests fail, but the code serves every address that they request",
        f"{_failure_count(facts)}. Each sends HTTP requests, and the output serves every requested address, so the "
        f"server's address or port may be wrong. {limits(facts)}",
        grader=(*quote.grader_addresses(facts), *quote.served(facts)),
        fix=right_address(facts),
    )


def _lacks_expected_package(facts: Facts) -> RuleDecision | None:
    """Judge failures in which a grader that only reads files expects a package.

    The reference uses this package, and the output does not.
    """
    names = {step.name.lower() for step in facts.evidence.steps}
    # Rows of steps can be missing, so a single row does not show that nothing was installed or built.
    if facts.check != "tests" or not facts.outcome.silent or not facts.reads_files_only or len(names) < 2:
        return None
    output_packages, reference_packages = (
        _packages(facts.original.of("output")),
        _packages(facts.evidence.of("expected")),
    )
    titles = " ".join(test.title for test in facts.outcome.failures).lower()
    missing = [name for name in reference_packages if name not in output_packages and name in facts.grader]
    # The scope `@vendor/` is removed, because a title can contain the name of a vendor of several packages.
    words_by_name = {name: [p for p in code.parts(name.rsplit("/", 1)[-1]) if len(p) > 3] for name in missing}
    package = next((name for name in missing if any(word in titles for word in words_by_name[name])), None)
    if package is None:
        return None
    line = quote.first_with(facts.left_out, package)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="not-chosen-" + code.kebab(package),
        confidence=0.65,
        why=f"does not use `{package}`, which the tests expect",
        reasoning=f"The grader only reads the files to see which package was chosen. {_failure_count(facts)}, first "
        f"`{facts.outcome.failures[0].title}`; the reference uses `{package}` and the output does not.",
        citations=(
            *(quote.alone(line) if line else ()),
            *quote.log(facts),
            *quote.grader_lines(facts, ""),
        ),
    )


def _of_the_harness(
    facts: Facts,
    cause: str,
    why: str,
    reasoning: str,
    *,
    grader: tuple[Citation, ...] = (),
    fix: str | None = None,
) -> RuleDecision:
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="harness",
        cause=cause,
        confidence=0.5,
        uncertain=True,
        why=quote.cut(why),
        reasoning=reasoning,
        citations=(*quote.log(facts), *(grader or quote.grader_lines(facts, ""))),
        fix=fix,
    )


def _failure_count(facts: Facts) -> str:
    failed, passed = len(facts.outcome.failures), facts.outcome.passed or 0
    if not failed:
        return "No test ran"
    return f"All {failed} tests fail" if not passed and failed > 1 else f"{failed} of {failed + passed} tests fail"


def _address(text: str) -> str:
    """Return the path of a request without its host: `${siteUrl}/api/hello` → `/api/hello`."""
    return "/" + re.sub(r"^(?:\$\{[^}]*\}|https?://[^/]*)", "", text).split("?")[0].lstrip("/")


def _serves(paths: list[str], address: str) -> bool:
    return any(
        address == path or (path.endswith(("/", "/*")) and address.startswith(path.removesuffix("*"))) for path in paths
    )


def _packages(documents: tuple[Document, ...]) -> tuple[str, ...]:
    """Return the packages that documents import or list as dependencies. The project's own modules are left out."""
    packages: dict[str, None] = {}
    for document in documents:
        for _, module in re.findall(r"(?:from|import|require\()\s*([\"'])([^\"'./][^\"']*)\1", document.text):
            packages["/".join(module.split("/")[: 2 if module.startswith("@") else 1])] = None
        if document.path.endswith("package.json"):
            packages |= dict.fromkeys(re.findall(r"\"((?:@[\w.-]+/)?[\w.-]+)\"\s*:\s*\"[\^~<>=*\d]", document.text))
    return tuple(packages)


QUOTED_NAME = re.compile(r"['\"`:.]([A-Za-z_$][\w$]{2,})(?=['\"`(])")


def asked_for_by_name(facts: Facts) -> RuleDecision | None:
    """Judge failures in which the output lacks something that the task or the tests name.

    The task names a function, field or file, or the tests name a package.
    """
    return _misses_a_name(facts) or _misses_a_file(facts) or _lacks_expected_package(facts)


def _misses_a_name(facts: Facts) -> RuleDecision | None:
    """Judge failures in which a test needs a name that the task specifies and the output does not contain."""
    if facts.check != "tests":
        return None
    output_names = facts.output_names
    missing = [n for n in _names_in_question(facts) if n not in output_names and code.says(facts.task, n)]
    if facts.outcome.silent:
        # Without a message, a missing name explains the failure only if the failed tests might need it. A test that
        # passes can name it, too.
        missing = [n for n in missing if concerns(facts, n)]
    if not missing:
        return None
    task_citations = quote.task(facts, lambda text: code.says(text, missing[0]))
    test = next(iter(facts.outcome.failures), None)
    reference_line = quote.first_with(facts.left_out, missing[0])
    message = facts.first.error if facts.first else ""
    needs = f" `{test.title}` needs it." if test and test.title not in message else ""
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="missing-" + code.kebab(missing[0]),
        confidence=0.85,
        why=f"lacks `{missing[0]}`, which the task names",
        reasoning=f"Lacks `{missing[0]}`, which the task names.{needs}",
        citations=(
            *(quote.pairs(facts, [reference_line]) if reference_line else ()),
            *task_citations,
            *quote.log(facts),
        ),
    )


def _misses_a_file(facts: Facts) -> RuleDecision | None:
    """Judge failures for which the log gives no reason, and in which a file named in the task is missing."""
    if facts.errors or facts.outcome.failures:
        return None
    output_files = {basename(d.path) for d in facts.original.of("output")}
    missing = (d for d in facts.evidence.of("expected") if basename(d.path) not in output_files)
    named_documents = [d for d in missing if code.says(facts.task, basename(d.path))]
    if not facts.produced or not named_documents:
        return None
    name = basename(named_documents[0].path)
    summary = f"the task asks for `{name}`; the output has {_files(facts)}"
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="missing-file-" + code.kebab(name),
        confidence=0.75,
        why=quote.short_or(summary, f"no `{name}` among its files; the task names it"),
        reasoning=quote.sentence(summary),
        citations=(*quote.task(facts, lambda text: code.says(text, name)), *quote.log(facts)),
    )


def _files(facts: Facts) -> str:
    """Return the names of up to three code files of the output."""
    paths = [d.path for d in facts.original.of("output") if not d.path.endswith((*PROSE, *MANIFESTS))]
    return ", ".join(f"`{path}`" for path in paths[:3]) or "no code"


def _names_in_question(facts: Facts) -> list[str]:
    """Return names that the errors quote, then names on reference lines that the output lacks."""
    messages = "\n".join(e.error for e in facts.errors)
    missing = [name for line in facts.left_out for name in code.NAME.findall(line.text) if code.SHAPED.search(name)]
    return list(dict.fromkeys([*QUOTED_NAME.findall(messages), *missing]))
