"""Compare a run's findings with earlier reports, and derive patterns and recommendations from the findings."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from evalscribe.evidence.locate import NAMES_ONLY
from evalscribe.evidence.same_failure import FailureDescription, same_failure
from evalscribe.failures.trials import all_trials_failed, count_trials, merge_trials
from evalscribe.model.finding import (
    NO_REASON,
    NOT_THE_MODEL,
    CauseKind,
    Collation,
    Correction,
    Finding,
    FollowUp,
    Pattern,
    PatternKind,
    Precedent,
    Recommendation,
    RecommendationGroup,
    Recurrence,
    TrialCount,
    Verdict,
    fixes,
)
from evalscribe.model.record import NO_OUTPUT
from evalscribe.model.run import TARGET, Run
from evalscribe.text import join_first, pluralise, prose

MIN_SHARED = 2
"""Minimum number of findings with the same cause that form a pattern. A group of evals counts as one finding."""
MIN_CATEGORY = 3
"""Minimum number of failures that a category must have to be reported as a pattern."""
CATEGORY_SHARE = 1 / 3
"""Minimum share of all failures that a category must have to be reported as a pattern."""
SHOWN_ERROR = 80
"""Maximum number of characters of the error in a pattern's name."""
SHOWN_ACTION = 100
"""Maximum number of characters of an earlier fix in a recommendation."""
SHOWN_TASKS = 8
"""Maximum number of tasks named in one sentence."""
LINT_STEPS = ("lint", "eslint", "ruff", "flake8", "pylint", "clippy", "style", "format")
SEEN = {
    "repeat": "failed in the same way before",
    "fix-in-doubt": "failed despite a fix",
    "changed": "for another cause",
}
LABELS = {
    "MODEL_FAULT": "model fault",
    "OVERLY_STRICT": "overly strict check",
    "AMBIGUOUS_TASK": "ambiguous task",
    "KNOWN_GAP": "known gap",
}


def find_patterns(findings: Sequence[Finding], trials: Mapping[str, TrialCount] | None = None) -> tuple[Pattern, ...]:
    """Return patterns in report order: possible defects of the suite first, recurring failures last.

    If several patterns are about the same evals, only the first of these patterns is returned. The pattern of recurring
    failures is always kept.
    """
    patterns = (
        _every_trial(findings, trials or {}),
        _not_the_model(findings),
        _style_only(findings),
        *_same_cause(findings),
        *_same_error(findings),
        *_categories(findings),
        _known_gaps(findings),
        _across_models(findings),
        _recurring(findings),
    )
    unique: dict[tuple[bool, frozenset[str]], Pattern] = {}
    for pattern in patterns:
        if pattern is not None:
            unique.setdefault((pattern.kind == "recurring", frozenset(pattern.evals)), pattern)
    return tuple(unique.values())


def _not_the_model(findings: Sequence[Finding]) -> Pattern | None:
    hit = _judged(findings, lambda verdict: verdict.cause_kind in NOT_THE_MODEL)
    if len(hit) == len(findings):
        return None  # the headline already reports this
    by_user = [finding for finding in hit if finding.judged and finding.judged.cause_kind == "user"]
    before = "Failed before the model's work was judged"
    also = f"{before}, or because of the simulated user"
    text = before if not by_user else "Failed because of the simulated user" if len(by_user) == len(hit) else also
    return _pattern("Not the model", "not-the-model", hit, f"{text}.")


def _style_only(findings: Sequence[Finding]) -> Pattern | None:
    lint = [finding for finding in findings if finding.step in LINT_STEPS]
    hit = _judged(lint, lambda verdict: verdict.cause_kind == "lint")
    if len(hit) < MIN_SHARED:
        return None
    failures = pluralise(_count(lint), "lint failure")
    return _pattern(
        "Lint decides", "rule", hit, f"{_count(hit)} of {failures} are caused by the rule, not by the code."
    )


def _same_cause(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Yield a pattern for each cause that at least `MIN_SHARED` findings share. Uncertain verdicts are not counted."""
    for cause, hit in _by(findings, lambda f: [f.judged.cause] if f.judged else []).items():
        # Uncertain verdicts share causes such as `unexplained`, which do not show a common reason.
        if len(_judged(hit, lambda verdict: not verdict.uncertain)) >= MIN_SHARED:
            name = f"Same cause: {cause_in_words(cause)}"
            yield Pattern(name=name, kind="cause", evals=_eval_paths(hit), text=_labels(hit))


def _same_error(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Yield a pattern for each error whose failures have different labels.

    A person should check such labels, because the same error suggests the same label.
    """
    # A finding that joins trials has only the signature of its first trial.
    for signature, hit in _by(_single_findings(findings), lambda f: [f.signature] if f.signature else []).items():
        labels = {finding.judged.classification for finding in hit if finding.judged}
        if len(labels) > 1:
            name = f"Same error: {prose(signature, SHOWN_ERROR)}"
            text = f"Judged in {len(labels)} ways: {_labels(hit)}"
            yield Pattern(name=name, kind="rule", evals=_eval_paths(hit), text=text)


def _categories(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Yield a pattern for each category with many failures.

    Many failures alone do not prove that a category is difficult.
    """
    by_category = _by(findings, lambda f: f.categories)
    for category, hit in sorted(by_category.items(), key=lambda item: -len(item[1])):
        many = len(hit) >= MIN_CATEGORY and len(hit) >= CATEGORY_SHARE * len(findings)
        # A single category would only repeat the list of all failures.
        if many and len(by_category) > 1:
            evals = _eval_paths(hit, category)
            text = f"{len(evals)} of {_count(findings)} failures: {_labels(hit, category)}"
            yield Pattern(name=f"Category {category}", kind="category", evals=evals, text=text)


def _every_trial(findings: Sequence[Finding], trials: Mapping[str, TrialCount]) -> Pattern | None:
    """Return a pattern of the tasks that have several trials and failed in all of them; None if there are no such
    tasks.
    """
    never = all_trials_failed(findings, trials)
    if not never:
        return None
    hit = tuple(eval.path for task in never for f in findings for eval in f.evals if eval.task == task)
    failing = {eval.task for finding in findings for eval in finding.evals if eval.task in trials}
    passable = {eval.task for f in _single_findings(findings) if f.reference_passes for eval in f.evals}.intersection(
        never
    )
    sometimes = len(failing) - len(never)
    also = f"; {pluralise(sometimes, 'other task')} in some trials" if sometimes else ""
    text = f"{_tasks(never)} never passed{also}."
    if passable:
        text += f" The reference answer passes {_tasks(task for task in never if task in passable)}."
    # A task that the reference answer passes can be passed, so it is not called broken.
    if len(passable) < len(never):
        text += f" A task that nobody passes{', not even the reference answer,' if passable else ''} may be broken."
    return Pattern(name="Fails in every trial", kind="trials", evals=hit, text=text)


def _tasks(names: Iterable[str]) -> str:
    return join_first([_code(task) for task in names], SHOWN_TASKS)


def documented(verdict: Verdict) -> bool:
    """Return whether a verdict is a known gap that the eval's notes describe.

    The notes count as describing the gap if the verdict cites them or proposes no fix.
    """
    cites = any(citation.role == "known_gaps" for citation in verdict.citations)
    gap = verdict.classification == "KNOWN_GAP" and verdict.cause_kind not in NOT_THE_MODEL
    return gap and (cites or verdict.fix is None)


def _known_gaps(findings: Sequence[Finding]) -> Pattern | None:
    hit = _judged(_single_findings(findings), documented)
    return _pattern("Known gaps", "known-gaps", hit, "The evals' own notes mention these failures.")


def _across_models(findings: Sequence[Finding]) -> Pattern | None:
    hit = [finding for finding in _single_findings(findings) if finding.across and finding.across.failing > 1]
    return _pattern("Fails alike for several models", "across-models", hit, "The evals may be at fault.")


def _recurring(findings: Sequence[Finding]) -> Pattern | None:
    hit = [finding for finding in _single_findings(findings) if finding.recurrence.kind != "new"]
    counts = {kind: _count(f for f in hit if f.recurrence.kind == kind) for kind in SEEN}
    text = ", ".join(f"{count} {SEEN[kind]}" for kind, count in counts.items() if count)
    return _pattern("Seen in earlier reports", "recurring", hit, f"{text[:1].upper()}{text[1:]}.")


def cause_in_words(cause: str) -> str:
    """Return a cause's name as prose: `missing-empty-args` → `missing empty args`."""
    return cause.replace("-", " ")


def _single_findings(findings: Iterable[Finding]) -> list[Finding]:
    return [single for finding in findings for single in finding.each]


def _count(findings: Iterable[Finding]) -> int:
    return sum(len(finding.evals) for finding in findings)


def _labels(hit: Iterable[Finding], category: str | None = None) -> str:
    """Return the number of evals per label, worded as in a report's first line: `2 model faults, 1 known gap.`"""
    counts: Counter[str | None] = Counter()
    for finding in hit:
        counts[finding.judged.classification if finding.judged else None] += len(_eval_paths([finding], category))
    counted = (pluralise(n, LABELS[label]) if label else f"{n} undecided" for label, n in counts.items())
    return ", ".join(counted) + "."


def _judged(findings: Iterable[Finding], condition: Callable[[Verdict], bool]) -> list[Finding]:
    return [finding for finding in findings if finding.judged and condition(finding.judged)]


def _by(findings: Iterable[Finding], keys: Callable[[Finding], Iterable[str]]) -> dict[str, list[Finding]]:
    grouped: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        for key in keys(finding):
            grouped[key].append(finding)
    return grouped


def _pattern(name: str, kind: PatternKind, hit: Sequence[Finding], text: str) -> Pattern | None:
    return Pattern(name=name, kind=kind, evals=_eval_paths(hit), text=text) if hit else None


def _eval_paths(findings: Iterable[Finding], category: str | None = None) -> tuple[str, ...]:
    evals = (eval for finding in findings for eval in finding.evals)
    return tuple(eval.path for eval in evals if category is None or eval.category == category)


def find_recurrence(verdict: Verdict | None, step: str | None, precedents: Sequence[Precedent]) -> Recurrence:
    """Return whether a failure is new, changed, a repeat, or a repeat despite a fix.

    `precedents` are earlier findings on the same eval, newest first.
    """
    if not precedents:
        return Recurrence()
    reports = tuple(dict.fromkeys(precedent.report for precedent in precedents))
    newest = precedents[0]
    # A failure without a verdict has no cause to compare, so it counts as a repeat.
    if verdict is not None and not same_failure(_now(verdict, step), _then(newest)):
        return Recurrence(kind="changed", reports=reports)
    action = next((precedent.action for precedent in precedents if precedent.action), None)
    return Recurrence(kind="fix-in-doubt" if action else "repeat", reports=reports, action=action)


def _now(verdict: Verdict, step: str | None) -> FailureDescription:
    return FailureDescription(step, verdict.classification, verdict.cause, verdict.error)


def _then(earlier: Precedent) -> FailureDescription:
    return FailureDescription(earlier.step, earlier.classification, earlier.cause, earlier.error)


GROUP_OF_KIND: dict[CauseKind, RecommendationGroup] = {
    "task": "eval",
    "grader": "eval",
    "harness": "eval",
    "lint": "lint",
    "model": "model",
    "infrastructure": "none",
    "user": "eval",
}


RECORD = "Record why tests fail: keep `failureMessages` of the test runner's JSON report, or its stderr, with the eval"
OWN, DOCUMENTED = "the model's own", "known gap, documented in the eval's notes"
UNSURE = "settle the label first"
NO_ENDPOINT = re.compile(r"no endpoints? found(?: for (?P<model>[\w@:./-]{1,100}))?", re.IGNORECASE)
GENERIC = frozenset(
    """
    action actions added after again answer asked asks backend before change changed check checks convex default does
    during error errors eval evals failed fails failure file files grader graders harness into make model models rule
    rules runner same server setting settings should step suite task tasks test tests that their them then there
    updated used uses using when where which with without
    """.split()  # noqa: SIM905
)
"""Words that many fixes contain. Two fixes that share only these words do not count as the same fix."""


def make_recommendations(
    findings: Sequence[Finding], follow_ups: Sequence[FollowUp] = ()
) -> tuple[Recommendation, ...]:
    """Return numbered proposals, followed by unnumbered notes on the model and on findings that need no action.

    A finding is left out if neither a proposal nor a note applies to it.
    """
    singles, broken = _single_findings(findings), tuple(_broken_target(findings))
    notes = (*broken, *_model_notes([finding for finding in findings if not _broke_itself(finding)]))
    proposals = [r.model_copy(update={"id": f"R{n}"}) for n, r in enumerate(_proposals(singles, follow_ups), 1)]
    covered_paths = frozenset(path for recommendation in (*proposals, *notes) for path in recommendation.evals)
    return (*proposals, *notes, *_no_action(singles, covered_paths))


def proposes(verdict: Verdict) -> bool:
    """Return whether a verdict proposes a change to the suite."""
    return verdict.fix is not None and GROUP_OF_KIND[verdict.cause_kind] in ("eval", "lint")


def _proposals(findings: Sequence[Finding], follow_ups: Sequence[FollowUp]) -> list[Recommendation]:
    """Return one proposal for each group of findings that ask for the same change or share a cause.

    Proposals for better records and for checks before a run are included. Proposals that would make evals pass come
    before all other proposals. Within each of these two sets, proposals that affect more evals come first.
    """
    shared: list[list[Finding]] = []
    for finding in findings:
        if finding.judged and proposes(finding.judged):
            matching_groups = (hit for hit in shared if _same_change(hit[0], finding))
            if (hit := next(matching_groups, None)) is not None:
                hit.append(finding)
            else:
                shared.append([finding])
    proposals = [_proposal(hit, findings, follow_ups) for hit in shared]
    covered_paths = {path for proposal in proposals for path in proposal.evals}
    recommendations = [*proposals, *_better_records(findings, covered_paths), *_checks_before_the_run(findings)]
    return sorted(recommendations, key=lambda r: (not r.would_pass, -len(r.evals), r.group != "eval"))


def _same_change(a: Finding, b: Finding) -> bool:
    verdict, other_verdict = a.judged, b.judged
    if (
        verdict is None
        or other_verdict is None
        or GROUP_OF_KIND[verdict.cause_kind] != GROUP_OF_KIND[other_verdict.cause_kind]
    ):
        return False
    # Two verdicts on one lint rule can word the fix differently, such as "make it a warning" and "relax it".
    return verdict.cause == other_verdict.cause or _sentence(verdict.fix or "") == _sentence(other_verdict.fix or "")


def _proposal(hit: Sequence[Finding], findings: Sequence[Finding], follow_ups: Sequence[FollowUp]) -> Recommendation:
    verdicts = [finding.judged for finding in hit if finding.judged]
    first = verdicts[0]
    group = GROUP_OF_KIND[first.cause_kind]
    # By identity: comparing findings by value took two million comparisons for 3,000 failures with one cause.
    concerned_ids = {id(finding) for finding in hit}
    if group == "lint":
        # Changing a lint rule also settles the findings of this rule whose label is uncertain.
        concerned_ids |= {id(finding) for finding in findings if _waits_for(finding, first)}
    concerned = [finding for finding in findings if id(finding) in concerned_ids]
    text = _not_again(_sentence(first.fix or ""), concerned, follow_ups)
    return Recommendation(
        group=group,
        text=text,
        evals=_paths(concerned),
        would_pass=all(verdict.would_pass and not verdict.uncertain for verdict in verdicts)
        or all(finding.proof is not None and fixes(finding.proof, prose(text)) for finding in concerned),
    )


def _waits_for(finding: Finding, verdict: Verdict) -> bool:
    """Return whether the change of a lint rule that `verdict` proposes would also settle this finding.

    The finding must have failed in a lint step, and have an uncertain label and the same cause as `verdict`.
    """
    own_verdict = finding.judged
    return bool(
        own_verdict and finding.step in LINT_STEPS and own_verdict.uncertain and own_verdict.cause == verdict.cause
    )


def _sentence(fix: str) -> str:
    """Return a fix as a capitalised sentence without a full stop. A name from code at the start is not capitalised."""
    text = " ".join(fix.split()).rstrip(".")
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+\b(?![.(/_-])", text) else text


def _not_again(text: str, hit: Sequence[Finding], follow_ups: Sequence[FollowUp]) -> str:
    """Remove each clause of a proposal that resembles an earlier, unsuccessful fix, and append a note on that fix."""
    paths = set(_paths(hit))
    failed = [
        follow_up.text
        for follow_up in follow_ups
        if follow_up.outcome == "did not hold" and paths.intersection(follow_up.evals)
    ]
    failed += [f.recurrence.action for f in hit if f.recurrence.kind == "fix-in-doubt" and f.recurrence.action]
    if not failed:
        return text
    failed_fix = " ".join(failed[0].split()).rstrip(".")
    clauses = re.split(r"(?<=\S)(?:; |, and )", text)
    remaining = [clause for clause in clauses if not _words(clause) & _words(failed_fix)]
    proposal = "; ".join(remaining) if remaining else "Look for another cause"
    return f"{_sentence(proposal)}. An earlier fix did not hold: {prose(failed_fix, SHOWN_ACTION)}"


def _code(name: str) -> str:
    """Return a name as a code span. Replace backticks in the name with apostrophes."""
    return f"`{name.replace('`', chr(39))}`"


def _words(text: str) -> frozenset[str]:
    """Return the first four letters of each word in a fix, so that fixes can be compared.

    Short words, generic words and text in backticks are left out.
    """
    words = re.findall(r"[a-z]{4,}", re.sub(r"`[^`]*`", " ", text.lower()))
    # Four letters match `retry` in a proposal with `retries` in the description of an earlier fix.
    return frozenset(word[:4] for word in words if word not in GENERIC)


def _better_records(findings: Sequence[Finding], fixed: Collection[str]) -> Iterable[Recommendation]:
    """Recommend recording the missing data that makes labels uncertain: answers, test messages or the ends of logs."""
    unsure = [f for f in findings if f.judged and f.judged.uncertain and not set(f.paths).intersection(fixed)]
    short = [f for f in unsure if f.judged and f.judged.error.endswith(NO_REASON)]
    if short:
        steps = list(dict.fromkeys(_code(f.step) if f.step else "the run" for f in short))
        text = f"Record the whole log of {join_first(steps, SHOWN_TASKS)}: it ends before the reason"
        yield Recommendation(group="eval", text=text, evals=_paths(short))
    if unanswered := [f for f in unsure if NO_OUTPUT in f.missing]:
        text = "Name the column with the answers, such as `map` output=NAME, and analyse the table again"
        yield Recommendation(group="eval", text=text, evals=_paths(unanswered))
    silent = [f for f in unsure if f.judged and f.judged.error.startswith(NAMES_ONLY)]
    if silent:
        yield Recommendation(group="eval", text=RECORD, evals=_paths(silent))


def _checks_before_the_run(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    """If the provider did not serve the model, recommend a check before the next run."""
    # Running again does not help if the provider has no endpoint for the model.
    by_model = _by(findings, lambda f: [model] if (model := _without_endpoint(f.judged)) is not None else [])
    for model, hit in by_model.items():
        whom = f"an endpoint for {_code(model)}" if model else "an endpoint for the model"
        text = f"Check before a run that the provider has {whom}, and end the run as an outage if it has none"
        yield Recommendation(group="eval", text=text, evals=_paths(hit))


def _without_endpoint(verdict: Verdict | None) -> str | None:
    """Return the name of the model for which a provider has no endpoint.

    The name is empty if the error does not name the model. Returns None if the failure has a different reason.
    """
    match = NO_ENDPOINT.search(verdict.error) if verdict and verdict.cause_kind == "infrastructure" else None
    return (match["model"] or "").rstrip(".") if match else None


def _model_notes(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    """Yield a note on each model fault that occurs several times in this run, or also occurred in an earlier run."""
    by_cause: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        verdict = finding.judged
        if verdict and verdict.classification == "MODEL_FAULT" and not verdict.uncertain:
            by_cause[verdict.cause].append(finding)
    for hit in by_cause.values():
        again = any(finding.recurrence.kind in ("repeat", "fix-in-doubt") for finding in _single_findings(hit))
        if len(hit) > 1 or again:
            yield Recommendation(group="model", text=_describe_behaviour(hit, again), evals=_paths(hit))


def _describe_behaviour(hit: Sequence[Finding], again: bool) -> str:
    """Describe what the model did: `leaves out args (5 evals)`. Omit the count if no finding covers several evals."""
    # A reason that was cut ends with an ellipsis, which would stand in the middle of the note.
    descriptions = [finding.judged.why.rstrip(" .…") for finding in _single_findings(hit) if finding.judged]
    evals = _count(hit)
    often = [pluralise(evals, "eval")] if evals > len(hit) else []
    often += ["also in an earlier run"] if again else []
    times = f" ({', '.join(often)})" if often else ""
    text, number = Counter(descriptions).most_common(1)[0]
    if number == len(descriptions):
        return f"{text}{times}"
    cause = cause_in_words(hit[0].judged.cause) if hit[0].judged else ""
    return f"{cause}{times}, for example: {text}"


def _broken_target(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    """Recommend fixing the target first if the target's own code failed."""
    hit = [finding for finding in findings if _broke_itself(finding)]
    if hit:
        text = "Fix the target first: it gave no answer, so nothing was scored"
        yield Recommendation(group="model", text=text, evals=_paths(hit))


def _broke_itself(finding: Finding) -> bool:
    return bool(finding.step == TARGET and finding.judged and finding.judged.cause_kind == "model")


def _no_action(findings: Sequence[Finding], covered_paths: frozenset[str]) -> Iterable[Recommendation]:
    """Return a note for each reason to change nothing, with the evals to which the reason applies.

    Evals that another recommendation covers are left out. Model faults come first, then known gaps, then
    outages, and finally uncertain labels.
    """
    reasons: dict[str, list[str]] = {OWN: [], DOCUMENTED: []}
    late: dict[str, list[str]] = {}
    for finding in findings:
        reason = _no_change_reason(finding.judged)
        if reason is not None and not covered_paths.intersection(finding.paths):
            (reasons if reason in reasons else late).setdefault(reason, []).extend(finding.paths)
    ordered = {**reasons, **dict(sorted(late.items(), key=lambda item: item[0] == UNSURE))}
    return [Recommendation(group="none", text=text, evals=tuple(paths)) for text, paths in ordered.items() if paths]


def _no_change_reason(verdict: Verdict | None) -> str | None:
    """Return why no change is proposed for a failure; None if a change is proposed or no reason applies."""
    if verdict is None or proposes(verdict):
        return None
    if verdict.cause_kind == "infrastructure":
        # The reason stands between `: ` and `;`, as in "no model output: the provider failed before grading" and "the
        # package index could not be reached; no code was judged".
        return f"run again: {verdict.why.partition(';')[0].rpartition(': ')[2].rstrip(' .…')}"
    if verdict.uncertain:
        return UNSURE
    return {"KNOWN_GAP": DOCUMENTED, "MODEL_FAULT": OWN}.get(verdict.classification)


def _paths(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(path for finding in findings for path in finding.paths)


def collate(
    run: Run,
    findings: Sequence[Finding],
    history: Mapping[str, Sequence[Precedent]],
    newest: str | None = None,
    corrections: Mapping[str, Correction] | None = None,
    follow_ups: Sequence[FollowUp] = (),
) -> Collation:
    """Collate the findings of a run.

    In patterns and recommendations, people's corrections replace the judge's labels. Findings whose
    `never_passed` is true come first, because the expected result of their task may be wrong.

    Args:
        run: The run that the findings belong to.
        findings: Findings of the run.
        history: Entries of earlier reports, by eval path. For each eval, the newest entry comes first.
        newest: Name of the most recent earlier report.
        corrections: People's corrections by eval path.
        follow_ups: Outcomes of earlier actions. Fixes that did not hold are not proposed again.
    """
    merged = merge_trials(_with_recurrence(finding, history) for finding in findings)
    ordered = tuple(sorted(merged, key=lambda finding: not finding.never_passed))
    in_force = [_corrected(finding, corrections or {}) for finding in ordered]
    return Collation(
        findings=ordered,
        patterns=find_patterns(in_force, count_trials(run)),
        resolved=resolved_evals(run, history, newest),
        recommendations=make_recommendations(in_force, follow_ups),
        follow_ups=tuple(follow_ups),
    )


def resolved_evals(run: Run, history: Mapping[str, Sequence[Precedent]], newest: str | None) -> tuple[str, ...]:
    """Return the paths of evals that failed in the most recent earlier report but did not fail in this run.

    If the source lists all evals of the run, evals that did not run are left out. The result is empty if the run's list
    of failures is incomplete.
    """
    # An eval that is missing from an incomplete list of failures can still have failed.
    if len(run.failures) < run.failed:
        return ()
    failing = {eval.path for eval in run.failures}
    ran = set(run.evals) if run.evals is not None else None
    last_time = (path for path, earlier in history.items() if any(p.report == newest for p in earlier))
    return tuple(sorted(path for path in last_time if path not in failing and (ran is None or path in ran)))


def _with_recurrence(finding: Finding, history: Mapping[str, Sequence[Precedent]]) -> Finding:
    """Add to a finding how its failure relates to earlier reports.

    If the finding covers several evals, the first eval with a history is used.
    """
    earlier = next((history[path] for path in finding.paths if history.get(path)), ())
    recurrence = find_recurrence(finding.judged, finding.step, earlier)
    return finding if recurrence == finding.recurrence else finding.model_copy(update={"recurrence": recurrence})


def _corrected(finding: Finding, corrections: Mapping[str, Correction]) -> Finding:
    """Apply people's corrections to a finding. A correction to `MODEL_FAULT` drops the judge's proposed fix."""
    correction = next((corrections[path] for path in finding.paths if path in corrections), None)
    if correction is None or finding.judged is None:
        return finding
    joined = tuple(_corrected(part, corrections) for part in finding.joined)
    change: dict[str, object] = {"classification": correction.classification, "uncertain": False}
    if correction.cause_kind:
        change["cause_kind"] = correction.cause_kind
    if correction.classification == "MODEL_FAULT":
        # The judge's fix would change the suite, although a person found that the model is at fault.
        change |= {"cause_kind": "model", "fix": None, "would_pass": False}
    return finding.model_copy(update={"verdict": finding.judged.model_copy(update=change), "joined": joined})
