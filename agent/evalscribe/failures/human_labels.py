"""Use human labels from other runs when a failure is judged.

If a labelled failure is the same as the failure to judge, its label becomes a precedent. If it is only similar, its
label becomes an example.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evalscribe.evidence.log import is_stock, normalise_error
from evalscribe.evidence.same_failure import fingerprint, same_fingerprint, same_version
from evalscribe.ids import model_folder, model_key
from evalscribe.model.evidence import FailureFingerprint
from evalscribe.model.finding import Classification, HumanLabel, LabelCount, LabelledExample, Precedent

MOST = 4
"""Maximum number of examples that a judge gets for one failure."""
MOST_OF_A_LABEL = 2
SAME_ERROR = "the same error in another eval"
SAME_ERROR_BEFORE = "the same error in another version of this eval"
OTHER_VERSION = "another version of this eval"
SAME_CODE = "the same rule or code of error at the same step"
SAME_CAUSE = "the same cause"

FailureRecords = Mapping[tuple[str, str], FailureFingerprint]
"""Fingerprints of failures, by run id and eval path. Only runs in the store have fingerprints."""
LabelledEval = tuple[str, str]


class CurrentFailure(NamedTuple):
    """The failure to judge."""

    fingerprint: FailureFingerprint
    path: str
    """Path of the eval, including the number of its trial."""
    error: str | None = None
    """Error located in the log."""
    code: str | None = None
    """Lint rule or error code that the tool printed with `error`, if any."""
    cause: str | None = None
    """Name of the cause that the rules found."""


def precedents_from_labels(
    labels: Iterable[HumanLabel], now: CurrentFailure, records: FailureRecords
) -> tuple[Precedent, ...]:
    """Return human labels of the same failure in other runs, as precedents. The runs can be of any model.

    Two failures are the same if they have equal fingerprints and equal eval versions.
    """
    same = (
        label
        for label in labels
        if (stored := _stored_failure(label, now, records)) and _same_failure(now.fingerprint, stored)
    )
    return tuple(_precedent(label, now) for label in _newest_first(same))


def add_labels(
    history: Sequence[Precedent],
    labels: Iterable[HumanLabel],
    now: CurrentFailure,
    records: FailureRecords,
    names: Mapping[str, str],
    runs: Mapping[str, str],
) -> tuple[Precedent, ...]:
    """Combine human labels from git with the precedents from earlier reports, newest first.

    If `history` already contains a label from a report on the same model, only the label's reviewer and note are added.
    Labels of other failures and of other versions of the eval are left out.

    Args:
        history: Precedents from earlier reports.
        labels: Human labels from git.
        now: The failure that is being judged.
        records: Fingerprints of stored failures.
        names: Name of each report in `history`, by the report's path in the reports folder.
        runs: Run id of each report, by the report's name in `history`.
    """
    labels = tuple(labels)
    label_of_report: dict[tuple[str | None, Classification | None], HumanLabel] = {
        (names.get(label.report), label.label): label for label in labels if _of_eval(label, now)
    }
    precedents = tuple(
        _enriched(
            precedent,
            label_of_report.get((precedent.report, precedent.classification)),
            now,
            records,
            runs.get(precedent.report, ""),
        )
        for precedent in history
    )
    # A label that a report already states is not listed again.
    labelled_reports = {(precedent.report, precedent.classification) for precedent in precedents if precedent.by_person}
    from_labels = precedents_from_labels(labels, now, records)
    renamed = (
        precedent.model_copy(update={"report": names.get(precedent.report, precedent.report)})
        for precedent in from_labels
    )
    added = tuple(
        precedent for precedent in renamed if (precedent.report, precedent.classification) not in labelled_reports
    )
    return (
        tuple(sorted((*precedents, *added), key=lambda precedent: precedent.date or "", reverse=True))
        if added
        else precedents
    )


def examples_from_labels(
    labels: Iterable[HumanLabel], now: CurrentFailure, records: FailureRecords
) -> tuple[LabelledExample, ...]:
    """Return similar failures with undisputed labels, from other evals or from other versions of this eval.

    The most similar failures come first. Among equally similar failures, the most recently labelled comes first.
    """
    labels = tuple(labels)
    disputed = {labelled_eval(label) for pair in disagreements(labels) for label in pair}
    ranked = [
        (rank, label, similarity)
        for label in _newest_first(labels)
        if label.in_force and label.run != now.fingerprint.run and labelled_eval(label) not in disputed
        for rank, similarity in [_similar(label, now, records)]
        if similarity
    ]
    return tuple(_chosen((label, similarity) for _, label, similarity in sorted(ranked, key=lambda entry: entry[0])))


def count_similar(labels: Iterable[HumanLabel], now: CurrentFailure, records: FailureRecords) -> tuple[LabelCount, ...]:
    """Return how often people chose each label for similar failures, the most frequent label first.

    If a person labelled a failure several times, only the newest of these labels counts. Labels count even if other
    people disagree. A group of evals counts as one failure.
    """
    chosen = {
        (label.run, label.group or label.eval, label.email): label.label
        # Oldest first, so that a person's newest label replaces the earlier ones.
        for label in reversed(_newest_first(labels))
        if label.run != now.fingerprint.run and _similar(label, now, records)[1]
    }
    counts = sorted(Counter(chosen.values()).items(), key=lambda item: (-item[1], item[0]))
    return tuple(LabelCount(label=label, count=count) for label, count in counts)


def disagreements(labels: Iterable[HumanLabel]) -> tuple[tuple[HumanLabel, ...], ...]:
    """Return all labels of each failure that people labelled differently."""
    by_subject: dict[LabelledEval, list[HumanLabel]] = {}
    for label in labels:
        by_subject.setdefault(labelled_eval(label), []).append(label)
    return tuple(tuple(group) for group in by_subject.values() if len({label.label for label in group}) > 1)


def labelled_eval(label: HumanLabel) -> LabelledEval:
    return label.run, label.eval


def without_trial(path: str) -> str:
    """Return an eval's path without the number of the trial."""
    name, numbered, number = path.rpartition("#")
    return name if numbered and number.isdecimal() else path


def _chosen(similar: Iterable[tuple[HumanLabel, str]]) -> Iterator[LabelledExample]:
    """Select the most similar examples: at most `MOST_OF_A_LABEL` for each label, and each label only once per eval."""
    counts: Counter[Classification] = Counter()
    used: set[tuple[str, Classification]] = set()
    for label, similarity in similar:
        key = (without_trial(label.eval), label.label)
        if key not in used and counts[label.label] < MOST_OF_A_LABEL and counts.total() < MOST:
            used.add(key)
            counts[label.label] += 1
            yield LabelledExample(**{name: getattr(label, name) for name in _SHARED}, why=similarity)


_SHARED = ("eval", "step", "error", "label", "cause_kind", "note", "reviewer", "date")


def _similar(label: HumanLabel, now: CurrentFailure, records: FailureRecords) -> tuple[int, str]:
    """Return the distance of a labelled failure from the current one, and a phrase that says what is similar.

    A distance of 0 is the most similar. The phrase is empty if nothing is similar.
    """
    stored = records.get(labelled_eval(label))
    current = fingerprint(now.fingerprint)
    if _of_eval(label, now):
        if stored is None or not _versions_differ(now.fingerprint, stored):
            return 3, ""  # not an example: a precedent, or a different failure of the same eval version
        return (0, SAME_ERROR_BEFORE) if current is not None and fingerprint(stored) == current else (2, OTHER_VERSION)
    if (current is not None and stored and fingerprint(stored) == current) or (not stored and _same_words(label, now)):
        return 0, SAME_ERROR
    if now.code and label.step == now.fingerprint.step and _names(f"{label.error} {label.cause}", now.code):
        return 1, SAME_CODE
    return (2, SAME_CAUSE) if now.cause and label.cause == now.cause else (3, "")


def _same_words(label: HumanLabel, now: CurrentFailure) -> bool:
    """Return whether the failed steps and the error texts are equal.

    This comparison is used if the labelled failure's run is not in the store. Stock messages never count as equal.
    """
    if not now.error or not label.error or is_stock(label.error) or label.step != now.fingerprint.step:
        return False
    # A failure without a fingerprint cannot be recognised, for example because no error was located.
    return fingerprint(now.fingerprint) is not None and normalise_error(label.error) == normalise_error(now.error)


def _names(text: str, code: str) -> bool:
    # The code `TS2345` must not match in `TS23456`.
    return re.search(rf"(?<![\w-]){re.escape(code)}(?![\w-])", text, re.IGNORECASE) is not None


def _stored_failure(label: HumanLabel, now: CurrentFailure, records: FailureRecords) -> FailureFingerprint | None:
    """Return the stored fingerprint of a labelled failure.

    Returns None unless the label is for the same eval in another run, and that run is in the store.
    """
    return records.get(labelled_eval(label)) if _of_eval(label, now) else None


def _of_eval(label: HumanLabel, now: CurrentFailure) -> bool:
    # A run's own labels are never part of its history.
    return label.run != now.fingerprint.run and without_trial(label.eval) == now.fingerprint.eval


def _same_failure(now: FailureFingerprint, stored: FailureFingerprint) -> bool:
    """Return whether the eval version, the error and the failed tests are equal."""
    # The error's text alone would be unsafe: the code under test can throw an error with any text, and a failure that
    # counts as the same gets the label without a judge.
    return same_version(now, stored) and same_fingerprint(now, stored) and now.checks == stored.checks


def _precedent(label: HumanLabel, now: CurrentFailure) -> Precedent:
    same_model = model_key(now.fingerprint.provider, now.fingerprint.model) == model_key(label.provider, label.model)
    return Precedent(
        report=label.report,
        date=label.date,
        eval=now.path,
        step=label.step,
        classification=label.label,
        by_person=True,
        alike=True,
        cause=label.cause,
        cause_kind=label.cause_kind,
        error=label.error,
        note=label.note,
        reviewer=label.reviewer,
        model=None if same_model else "/".join(model_folder(label.provider, label.model)),
    )


def _enriched(
    precedent: Precedent, label: HumanLabel | None, now: CurrentFailure, records: FailureRecords, run: str
) -> Precedent:
    """Add the reviewer and the note of a human label to a precedent.

    The result also records whether the stored fingerprints show that the failures are the same. If the fingerprints
    show different failures, the precedent no longer counts as a person's decision.
    """
    if not precedent.by_person:
        return precedent
    # A person's label in a report that was not synced yet has no `HumanLabel`; the report names the run instead.
    stored = records.get(labelled_eval(label) if label else (run, precedent.eval))
    if stored and _different(now.fingerprint, stored):
        return precedent.model_copy(update={"by_person": False, "reviewer": label.reviewer if label else "people"})
    reviewed = {"reviewer": label.reviewer, "note": label.note} if label else {}
    same = stored is not None and _same_failure(now.fingerprint, stored)
    kind = label.cause_kind if label and same else None
    return precedent.model_copy(update={**reviewed, "alike": same, "cause_kind": kind})


def _different(now: FailureFingerprint, stored: FailureFingerprint) -> bool:
    """Return whether two failures are known to differ in eval version or fingerprint.

    Unknown values do not count as different.
    """
    comparable = fingerprint(now) and fingerprint(stored)
    return _versions_differ(now, stored) or bool(comparable and not same_fingerprint(now, stored))


def _versions_differ(a: FailureFingerprint, b: FailureFingerprint) -> bool:
    """Return whether two failures have different versions of the task or the grader.

    Returns False if a version is unknown.
    """
    complete = a.task and a.grader and b.task and b.grader
    return bool(complete) and (a.task, a.grader) != (b.task, b.grader)


def _newest_first(labels: Iterable[HumanLabel]) -> list[HumanLabel]:
    return sorted(labels, key=lambda label: label.date, reverse=True)
