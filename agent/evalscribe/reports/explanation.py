"""Render everything that is known about one failure as text. The text has more details than the report."""

from collections.abc import Iterator

from evalscribe.model.analysis import FindingSummary
from evalscribe.model.evidence import Citation, Evidence, FailedScore, UnreadableEvidence
from evalscribe.model.finding import (
    CrossModelFailures,
    Failure,
    Finding,
    Precedent,
    Unclassified,
    Verdict,
    by_model,
    by_rules,
    label_and_confidence,
)
from evalscribe.model.report import summarise_proof
from evalscribe.text import pluralise, printable

LOG_LINES = 12
"""Number of lines displayed from the end of a replay's log. Test runners state what failed at the end of the log."""


def explanation(
    finding: Finding, case: Failure | UnreadableEvidence, reviewed: FindingSummary | None = None, again: str = ""
) -> str:
    """Render a finding's label, error, reasoning, quotations, replays and history, and the evidence that the judge
    received.

    Args:
        finding: The finding.
        case: The failure as the judge received it, or the reason why its evidence cannot be read.
        reviewed: The same finding in the run's report if a person reviewed it, otherwise None.
        again: Command that runs the replay again.
    """
    eval = finding.evals[0]
    lines = [f"{eval.path}: {_label(finding.verdict)}"]
    if len(finding.evals) > 1:
        lines.append(f"One verdict for {len(finding.evals)} evals that failed alike.")
    if reviewed and reviewed.reviewer:
        note = f": {reviewed.reviewer.note}" if reviewed.reviewer.note else ""
        lines.append(f"In force: {reviewed.classification}, as a person says in the report{note}")
    if eval.url:
        lines.append(eval.url)
    never_graded = isinstance(case, Failure) and case.evidence.never_graded
    step = finding.step or ("none: grading never began" if never_graded else "not recorded")
    lines += ["", *_verdict(finding.verdict, step, finding.scored), *_replays(finding, again), *_across(finding.across)]
    if isinstance(case, Failure):
        lines += [*_history(finding, case.precedents), *_evidence(case.evidence)]
        if by_model(finding.verdict.judge):
            lines += _left_out(case)
    # Evidence can contain control characters that a terminal would obey.
    return "\n".join(printable(line.expandtabs(4)) for line in lines)


def _label(verdict: Verdict | Unclassified) -> str:
    if isinstance(verdict, Unclassified):
        return "UNCLASSIFIED"
    unsure = ", uncertain" if verdict.uncertain else ""
    return f"{verdict.classification} ({verdict.cause_kind}){unsure}"


def _verdict(verdict: Verdict | Unclassified, step: str, scored: FailedScore | None) -> Iterator[str]:
    if isinstance(verdict, Unclassified):
        yield f"{verdict.judge} gave no verdict: {verdict.reason}"
        return
    decided = f", rule {verdict.rule}" if verdict.rule else ""
    yield f"Step    {step}"
    yield f"Error   {verdict.error}"
    if scored is not None:
        yield f"Score   {scored}{', close to the threshold' if scored.close else ''}"
    yield f"Cause   {verdict.cause}"
    if verdict.message is not None:
        first = f" (first mistake in message {verdict.first_mistake})" if verdict.first_mistake else ""
        yield f"Message {verdict.message}{first}"
    stage = f" ({verdict.stage})" if verdict.stage else ""
    confidence = f", {verdict.confidence:.2f}" if by_model(verdict.judge) else ""
    yield f"Judge   {verdict.judge}{stage}{confidence}{decided}"
    if verdict.tags:
        yield f"Tags    {', '.join(verdict.tags)}"
    if verdict.fix:
        yield f"Change  {verdict.fix}{' (would pass)' if verdict.would_pass else ''}"
    yield ""
    yield verdict.reasoning
    for citation in verdict.citations:
        yield from _citation(citation)


def _replays(finding: Finding, again: str) -> Iterator[str]:
    if finding.proof is None:
        return
    proof = summarise_proof(finding.proof)
    yield ""
    basis = "inconclusive" if proof.outcome == "inconclusive" else finding.proof.basis
    yield f"Replay: {basis}: {proof.why.removeprefix(f'{basis} ')}"
    counts = list(proof.counts())
    for count in counts:
        yield f"  {proof.count_text(count)}"
        replay = proof.replays[count.shown]
        if replay.command:
            ended = f" (exit code {replay.exit_code})" if replay.exit_code is not None else ""
            yield f"    {replay.command}{ended}"
    if finding.contradicted:
        verdict = finding.contradicted
        decider = "The rules" if by_rules(verdict.judge) else "The judge"
        yield f"  {decider} said {label_and_confidence(verdict.classification, verdict.confidence, verdict.judge)}."
    if counts and (log := proof.replays[counts[-1].shown].log.rstrip()):
        yield f"  Last lines of {proof.replays[counts[-1].shown].document}:"
        yield from (f"    {line}" for line in log.split("\n")[-LOG_LINES:])
    if again:
        yield f"  Again: {again}"


def _across(across: CrossModelFailures | None) -> Iterator[str]:
    if across is None:
        return
    yield ""
    other_models = ", ".join(across.alike)
    also = f", also {other_models}" if other_models else ""
    yield f"Models: fails the same way for {across.failing} of {across.models} models{also}"
    if across.earlier:
        yield f"  in an earlier version of this eval: {', '.join(across.earlier)}"


def _citation(citation: Citation) -> Iterator[str]:
    mark = "" if citation.status == "verified" else f" ({citation.status})"
    yield ""
    last = f"-{citation.last}" if citation.last > citation.first else ""
    yield f"{citation.role} {citation.path}:{citation.first}{last}{mark}"
    for number, line in enumerate(citation.text.split("\n"), citation.first):
        yield f"  {number:>4}  {line}"


def _history(finding: Finding, precedents: tuple[Precedent, ...]) -> Iterator[str]:
    if precedents:
        yield from ("", f"Seen: {finding.recurrence.kind}")
    for precedent in precedents:
        label = precedent.classification or "no label"
        by = f" by {precedent.reviewer}" if precedent.reviewer else "" if precedent.by_person else ", unreviewed"
        by += ", of another version or another failure" if precedent.reviewer and not precedent.by_person else ""
        action = f"; then: {precedent.action}" if precedent.action else ""
        yield f"  {precedent.report}: {label}{by}{action}"


def _evidence(evidence: Evidence) -> Iterator[str]:
    yield from ("", "Evidence")
    for document in evidence.documents:
        yield f"  {document.role:<10}  {document.path} ({pluralise(document.line_count, 'line')})"
    for missing in evidence.missing:
        yield f"  missing: {missing}"


def _left_out(case: Failure) -> Iterator[str]:
    left_out = [item for item in case.packed.left_out if item not in case.evidence.missing]
    if left_out:
        yield from ("", "Not read at first, for the token budget", *(f"  {item}" for item in left_out))
