"""Collate findings: recurrence, the patterns that they share, and recommendations."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from evalscribe.evidence.locate import NAMES_ONLY
from evalscribe.evidence.same_failure import FailureDescription, same_failure
from evalscribe.model.finding import (
    NOT_THE_MODEL,
    CauseKind,
    Collation,
    Correction,
    Finding,
    Pattern,
    PatternKind,
    Precedent,
    Recommendation,
    RecommendationGroup,
    Recurrence,
    Verdict,
)
from evalscribe.model.run import Run
from evalscribe.text import pluralise, prose

MIN_SHARED = 2
"""Minimum findings that share something; a group of evals counts as one."""
MIN_CATEGORY = 3
"""Minimum failures of a category that is reported."""
SHOWN_ERROR = 80
"""Maximum characters of an error in a pattern's name."""
LINT_STEPS = ("lint", "eslint", "ruff", "flake8", "pylint", "clippy", "style", "format")
SEEN = {"repeat": "again", "fix-in-doubt": "despite a fix", "changed": "for another cause"}


def find_patterns(findings: Sequence[Finding]) -> tuple[Pattern, ...]:
    """Return patterns in report order: those that say nothing about the model first, history last."""
    found = (
        _not_the_model(findings),
        _style_only(findings),
        *_same_cause(findings),
        *_same_error(findings),
        *_categories(findings),
        _every_trial(findings),
        _known_gaps(findings),
        _across_models(findings),
        _recurring(findings),
    )
    return tuple(pattern for pattern in found if pattern is not None)


def _not_the_model(findings: Sequence[Finding]) -> Pattern | None:
    hit = _judged(findings, lambda verdict: verdict.cause_kind in NOT_THE_MODEL)
    return _pattern("Not the model", "not-the-model", hit, "failed before its code was judged.")


def _style_only(findings: Sequence[Finding]) -> Pattern | None:
    lint = [finding for finding in findings if finding.step in LINT_STEPS]
    hit = _judged(lint, lambda verdict: verdict.cause_kind == "lint")
    if len(hit) < MIN_SHARED:
        return None
    return _pattern("Lint decides", "rule", hit, f"{len(hit)} of {len(lint)} lint failures are about the rule.")


def _same_cause(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Find shared causes; uncertain causes do not count."""
    for cause, hit in _by(findings, lambda f: [f.judged.cause] if f.judged else []).items():
        if len(_judged(hit, lambda verdict: not verdict.uncertain)) >= MIN_SHARED:
            yield Pattern(name=f"Same cause: {cause}", kind="cause", evals=_eval_paths(hit), text=_labels(hit))


def _same_error(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Find equal errors with different causes, which a person should check."""
    for signature, hit in _by(findings, lambda f: [f.signature] if f.signature else []).items():
        causes = {finding.judged.cause for finding in hit if finding.judged}
        if len(hit) >= MIN_SHARED and len(causes) > 1:
            name = f"Same error: {prose(signature, SHOWN_ERROR)}"
            yield Pattern(name=name, kind="rule", evals=_eval_paths(hit), text=_labels(hit))


def _categories(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Find categories with many failures. Difficulty cannot be judged from failures alone."""
    by_category = _by(findings, lambda f: f.categories)
    for category, hit in sorted(by_category.items(), key=lambda item: -len(item[1])):
        if len(hit) >= MIN_CATEGORY and len(by_category) > 1:
            mine = _judged(hit, lambda verdict: verdict.classification == "MODEL_FAULT")
            text = f"{len(hit)} of {len(findings)} failures, {len(mine)} of them the model's."
            yield Pattern(name=f"Category {category}", kind="category", evals=_eval_paths(hit, category), text=text)


def _every_trial(findings: Sequence[Finding]) -> Pattern | None:
    """Find tasks that failed in every one of several trials, as opposed to intermittent failures."""
    failed: dict[tuple[str, str], int] = defaultdict(int)
    trials: dict[tuple[str, str], int] = {}
    for eval in (eval for finding in findings for eval in finding.evals):
        failed[eval.category, eval.name] += 1
        trials[eval.category, eval.name] = eval.trials
    several = [task for task in failed if trials[task] > 1]
    never = {task for task in several if failed[task] >= trials[task]}
    hit = tuple(e.path for f in findings for e in f.evals if (e.category, e.name) in never)
    if not never:
        return None
    sometimes = len(several) - len(never)
    text = f"{pluralise(len(never), 'task')} with all their trials; {sometimes} more only in some of them."
    return Pattern(name="Fails in every trial", kind="trials", evals=hit, text=text)


def _known_gaps(findings: Sequence[Finding]) -> Pattern | None:
    def noted(verdict: Verdict) -> bool:
        """Return whether the eval's notes may mention it: a gap that rules derived without notes has a proposed fix."""
        cites = any(citation.role == "known_gaps" for citation in verdict.citations)
        gap = verdict.classification == "KNOWN_GAP" and verdict.cause_kind not in NOT_THE_MODEL
        return gap and (cites or verdict.fix is None)

    hit = _judged(findings, noted)
    return _pattern("Known gaps", "known-gaps", hit, "the eval's own notes already speak of it.")


def _across_models(findings: Sequence[Finding]) -> Pattern | None:
    hit = [finding for finding in findings if finding.across and finding.across.failing > 1]
    return _pattern("Fails alike for several models", "across-models", hit, "evidence about the eval.")


def _recurring(findings: Sequence[Finding]) -> Pattern | None:
    counts = {kind: sum(f.recurrence.kind == kind for f in findings) for kind in SEEN}
    text = ", ".join(f"{count} {SEEN[kind]}" for kind, count in counts.items() if count)
    hit = [finding for finding in findings if finding.recurrence.kind != "new"]
    return _pattern("Seen in earlier reports", "recurring", hit, f"{text}.")


def _labels(hit: Sequence[Finding]) -> str:
    """Render label counts: `2 MODEL_FAULT, 1 KNOWN_GAP.`"""
    labels = [finding.judged.classification if finding.judged else "UNCLASSIFIED" for finding in hit]
    return ", ".join(f"{labels.count(label)} {label}" for label in dict.fromkeys(labels)) + "."


def _judged(findings: Iterable[Finding], wanted: Callable[[Verdict], bool]) -> list[Finding]:
    return [finding for finding in findings if finding.judged and wanted(finding.judged)]


def _by(findings: Iterable[Finding], keys: Callable[[Finding], Iterable[str]]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        for key in keys(finding):
            found[key].append(finding)
    return found


def _pattern(name: str, kind: PatternKind, hit: Sequence[Finding], text: str) -> Pattern | None:
    return Pattern(name=name, kind=kind, evals=_eval_paths(hit), text=text) if hit else None


def _eval_paths(findings: Iterable[Finding], category: str | None = None) -> tuple[str, ...]:
    evals = (eval for finding in findings for eval in finding.evals)
    return tuple(eval.path for eval in evals if category is None or eval.category == category)


def find_recurrence(verdict: Verdict | None, step: str | None, precedents: Sequence[Precedent]) -> Recurrence:
    """Compare a verdict with `precedents`: those of this eval in comparable runs, newest first."""
    if not precedents:
        return Recurrence()
    reports = tuple(dict.fromkeys(precedent.report for precedent in precedents))
    newest = precedents[0]
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
}


def make_recommendations(findings: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """Return proposals first, numbered over all groups; then unnumbered notes on the model and on what needs no
    action."""
    numbered = tuple(r.model_copy(update={"id": f"R{n}"}) for n, r in enumerate(_proposals(findings), 1))
    return (*numbered, *_model_notes(findings), *_no_action(findings))


def proposes(verdict: Verdict) -> bool:
    """Return whether a verdict proposes a change to the suite."""
    return verdict.fix is not None and GROUP_OF_KIND[verdict.cause_kind] in ("eval", "lint")


def _proposals(findings: Sequence[Finding]) -> list[Recommendation]:
    """Return one proposal for each distinct change that the verdicts ask for."""
    by_fix: dict[tuple[RecommendationGroup, str, bool], list[str]] = defaultdict(list)
    for finding in findings:
        verdict = finding.judged
        if verdict and verdict.fix and proposes(verdict):
            by_fix[GROUP_OF_KIND[verdict.cause_kind], verdict.fix, verdict.would_pass].extend(finding.paths)
    made = [
        Recommendation(group=group, text=fix, evals=tuple(evals), would_pass=would_pass)
        for (group, fix, would_pass), evals in by_fix.items()
    ]
    made += _better_records(findings)
    return sorted(made, key=lambda r: (r.group != "eval", not r.would_pass, -len(r.evals)))


def _better_records(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    """Recommend recording test messages, once per run, if the log names failed tests but has no message."""
    silent = [f for f in findings if f.judged and f.judged.error.startswith(NAMES_ONLY)]
    if silent:
        yield Recommendation(group="eval", text=RECORD, evals=_paths(silent))


def _model_notes(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    """Yield notes on repeated model faults: several in this run, or also in an earlier report."""
    by_cause: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        verdict = finding.judged
        if verdict and verdict.classification == "MODEL_FAULT" and not verdict.uncertain:
            by_cause[verdict.cause].append(finding)
    for hit in by_cause.values():
        first = hit[0].judged
        again = any(finding.recurrence.kind in ("repeat", "fix-in-doubt") for finding in hit)
        if first and (len(hit) > 1 or again):
            alike = len({finding.judged.why for finding in hit if finding.judged}) == 1
            said = first.why.rstrip(" .…") if alike else f"{first.cause}, first: {first.why.rstrip(' .…')}"
            text = f"{said}{' (in an earlier run too)' if again else ''}."
            yield Recommendation(group="model", text=text, evals=_paths(hit))


def _no_action(findings: Sequence[Finding]) -> Iterable[Recommendation]:
    said: dict[str, list[str]] = defaultdict(list)
    for finding in findings:
        if (text := _why_nothing(finding.judged)) is not None:
            said[text].extend(finding.paths)
    return [Recommendation(group="none", text=text, evals=tuple(said[text])) for text in NOTHING if said[text]]


RECORD = "record why tests fail: keep `failureMessages` of the test runner's JSON report, or its stderr, with the eval"
OWN, DOCUMENTED, RERUN = "the model's own.", "known gap, documented.", "run it again; not counted in the estimate."
UNSURE = "uncertain: settle the label first."
NOTHING = (OWN, DOCUMENTED, RERUN, UNSURE)


def _why_nothing(verdict: Verdict | None) -> str | None:
    """Return why no change is proposed for a failure; None if one is."""
    if verdict is None or proposes(verdict):
        return None
    if verdict.cause_kind == "infrastructure":
        return RERUN
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
) -> Collation:
    """Collate the findings of a run.

    Patterns and recommendations use people's corrections before the judge's labels.

    Args:
        run: The run.
        findings: Its findings.
        history: Entries of earlier reports by the eval's path, newest first.
        newest: Name of the last report.
        corrections: People's corrections by path.
    """
    seen = tuple(_with_recurrence(finding, history) for finding in findings)
    in_force = [_corrected(finding, corrections or {}) for finding in seen]
    return Collation(
        findings=seen,
        patterns=find_patterns(in_force),
        resolved=resolved_evals(run, history, newest),
        recommendations=make_recommendations(in_force),
    )


def resolved_evals(run: Run, history: Mapping[str, Sequence[Precedent]], newest: str | None) -> tuple[str, ...]:
    """Return evals that failed in the newest earlier report and not in this run.

    Only evals that ran are included, if the source lists them all; if its list is incomplete, the result is empty.
    """
    if len(run.failures) < run.failed:
        return ()
    failing = {eval.path for eval in run.failures}
    ran = set(run.evals) if run.evals is not None else None
    last_time = (path for path, earlier in history.items() if any(p.report == newest for p in earlier))
    return tuple(sorted(path for path in last_time if path not in failing and (ran is None or path in ran)))


def _with_recurrence(finding: Finding, history: Mapping[str, Sequence[Precedent]]) -> Finding:
    """Add recurrence to a finding. Its group shares the history of the first member that has any."""
    earlier = next((history[path] for path in finding.paths if history.get(path)), ())
    found = find_recurrence(finding.judged, finding.step, earlier)
    return finding if found == finding.recurrence else finding.model_copy(update={"recurrence": found})


def _corrected(finding: Finding, corrections: Mapping[str, Correction]) -> Finding:
    """Apply people's corrections to a finding; where they blame the model, the judge's proposed change is dropped."""
    said = next((corrections[path] for path in finding.paths if path in corrections), None)
    if said is None or finding.judged is None:
        return finding
    change: dict[str, object] = {"classification": said.classification, "uncertain": False}
    if said.cause_kind:
        change["cause_kind"] = said.cause_kind
    if said.classification == "MODEL_FAULT":
        change |= {"cause_kind": "model", "fix": None, "would_pass": False}
    return finding.model_copy(update={"verdict": finding.judged.model_copy(update=change)})
