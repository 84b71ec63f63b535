"""Find patterns that the findings of a run share."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from evalscribe.model.finding import NOT_THE_MODEL, Finding, Pattern, PatternKind, Verdict
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
            yield Pattern(name=f"Same cause: {cause}", kind="cause", evals=_paths(hit), text=_labels(hit))


def _same_error(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Find equal errors with different causes, which a person should check."""
    for signature, hit in _by(findings, lambda f: [f.signature] if f.signature else []).items():
        causes = {finding.judged.cause for finding in hit if finding.judged}
        if len(hit) >= MIN_SHARED and len(causes) > 1:
            name = f"Same error: {prose(signature, SHOWN_ERROR)}"
            yield Pattern(name=name, kind="rule", evals=_paths(hit), text=_labels(hit))


def _categories(findings: Sequence[Finding]) -> Iterable[Pattern]:
    """Find categories with many failures. Difficulty cannot be judged from failures alone."""
    by_category = _by(findings, lambda f: f.categories)
    for category, hit in sorted(by_category.items(), key=lambda item: -len(item[1])):
        if len(hit) >= MIN_CATEGORY and len(by_category) > 1:
            mine = _judged(hit, lambda verdict: verdict.classification == "MODEL_FAULT")
            text = f"{len(hit)} of {len(findings)} failures, {len(mine)} of them the model's."
            yield Pattern(name=f"Category {category}", kind="category", evals=_paths(hit, category), text=text)


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
    return Pattern(name=name, kind=kind, evals=_paths(hit), text=text) if hit else None


def _paths(findings: Iterable[Finding], category: str | None = None) -> tuple[str, ...]:
    evals = (eval for finding in findings for eval in finding.evals)
    return tuple(eval.path for eval in evals if category is None or eval.category == category)
