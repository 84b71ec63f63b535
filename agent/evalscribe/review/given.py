"""Labels that people gave, out of the versions of a report: who changed or confirmed what."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from evalscribe.ids import Frozen
from evalscribe.model.analysis import Analysis, FindingSummary
from evalscribe.model.finding import Classification, HumanLabel
from evalscribe.model.repository import FileVersion

Read = Callable[[str], Analysis | None]
"""What a version says; None for one that cannot be read."""
_MARKUP = re.compile(r"[\s\\*_`~<>]+")
"""What a formatter may write otherwise, or add, in somebody's words."""


class About(Frozen):
    """What all labels of a report have in common."""

    report: str
    """Name below the reports folder."""
    run: str
    provider: str
    model: str
    experiment: str


@dataclass(frozen=True)
class State:
    """What one version says of each eval, and the labels that it holds."""

    revision: int | None
    findings: Mapping[str, FindingSummary]
    labels: Mapping[str, tuple[HumanLabel, ...]]
    """Of each person the newest, oldest first."""
    hinted: Mapping[str, FileVersion]
    """Unreviewed evals beside the version in which a person changed how sure the verdict is, or its cause: a newer
    analysis takes that for a correction and says so in a line of its own."""


def given(versions: Sequence[FileVersion], read: Read, about: About) -> tuple[HumanLabel, ...]:
    """The labels of a report, by eval in its order; of each person the latest.

    `versions`: oldest first. One that cannot be read is passed over: what it changed counts as changed by the commit
    that made the report readable again. A label lives on while the report says the same; it is withdrawn where the
    report says no more than the judge did, and out of force where somebody else put another one in its place.
    """
    known: dict[str, tuple[State, ...]] = {}
    latest: tuple[State, ...] = ()
    order = {version.commit: number for number, version in enumerate(versions)}
    for version in versions:
        before = tuple(state for commit in version.before for state in known.get(commit, ()))
        said = read(version.text) if version.text is not None else None
        latest = known[version.commit] = before if said is None else (_state(version, said, before, about, order),)
    held = [labels for state in latest[:1] for labels in state.labels.values()]
    return tuple(label for labels in held for label in labels)


def _state(
    version: FileVersion, said: Analysis, before: Sequence[State], about: About, order: Mapping[str, int]
) -> State:
    findings = {finding.eval: finding for finding in said.findings}
    state = State(revision=said.revision, findings=findings, labels={}, hinted={})
    hinted = {eval: by for eval, finding in findings.items() if (by := _hinted(version, state, finding, before))}
    givers = hinted if any(_rewritten(old, state) for old in before) else {}
    labels = {
        eval: _labels(givers.get(eval, version), state, finding, before, about, order)
        for eval, finding in findings.items()
        if finding.by_person
    }
    return replace(state, labels=labels, hinted=hinted)


def _hinted(version: FileVersion, state: State, now: FindingSummary, before: Sequence[State]) -> FileVersion | None:
    """Who last changed the verdict's side while nobody had reviewed it; None where nobody did."""
    changed = None
    for old in before:
        was = old.findings.get(now.eval)
        if was and not was.by_person and was.classification == now.classification:
            if _rewritten(old, state) or _side(was) == _side(now):
                return old.hinted.get(now.eval)
            changed = version
    return changed


def _labels(
    version: FileVersion,
    state: State,
    now: FindingSummary,
    before: Sequence[State],
    about: About,
    order: Mapping[str, int],
) -> tuple[HumanLabel, ...]:
    """The labels of one reviewed eval after a version."""
    earlier = sorted(
        (label for old in before for label in old.labels.get(now.eval, ())), key=lambda label: order[label.commit]
    )
    known = _said_before(before, now.eval)
    held = {label.email: label for label in earlier}
    if not any(_carried(old, state, now.eval, known) for old in before):
        held.pop(version.email, None)
        held[version.email] = _new(version, now, known, about)
    elif all(label.label != now.classification for label in held.values()):  # a merge took the other of a person's two
        held |= {label.email: label for label in earlier if label.label == now.classification}
    return tuple(_now(label, now) for label in held.values())


def _carried(old: State, new: State, eval: str, known: Collection[str]) -> bool:
    """Whether a version only repeats what people had said: a newer analysis, a merge, or a change elsewhere."""
    was, now = old.findings.get(eval), new.findings[eval]
    if was is None or not was.by_person or was.classification != now.classification:
        return False
    rewritten = _rewritten(old, new)
    if rewritten and _judge_came_over(was, now) and not _lines(was):
        return True  # the line that says so is ours
    return (was.cause_kind == now.cause_kind or rewritten) and all(_bare(line) in known for line in _lines(now))


def _rewritten(old: State, new: State) -> bool:
    """Whether a newer analysis wrote the text."""
    return old.revision is not None and new.revision is not None and new.revision > old.revision


def _side(finding: FindingSummary) -> tuple[object, ...]:
    return finding.uncertain, finding.cause, finding.cause_kind


def _judge_came_over(was: FindingSummary, now: FindingSummary) -> bool:
    """Whether the judge says now what the person said before."""
    return bool(was.judge and now.judge) and was.judge != now.judge and _judged(now) == now.classification


def _new(version: FileVersion, now: FindingSummary, known: Collection[str], about: About) -> HumanLabel:
    assert now.classification is not None
    note = "\n".join(line for line in _lines(now) if _bare(line) not in known)
    return HumanLabel(
        run=about.run,
        provider=about.provider,
        model=about.model,
        experiment=about.experiment,
        eval=now.eval,
        group=now.group,
        label=now.classification,
        cause_kind=now.cause_kind,
        cause=now.cause,
        error=now.error,
        step=now.step,
        note=note or None,
        reviewer=version.author,
        email=version.email,
        commit=version.commit,
        date=version.date,
        report=about.report,
        judge=now.judge.id if now.judge else None,
        judged=_judged(now),
    )


def _now(label: HumanLabel, now: FindingSummary) -> HumanLabel:
    """A label beside what the report has now: in force or not, without words that were taken back."""
    in_force = label.label == now.classification
    there = set(map(_bare, _lines(now)))
    kept = [line for line in (label.note or "").split("\n") if _bare(line) in there]
    note = "\n".join(kept) or None if in_force else label.note
    return label.model_copy(update={"in_force": in_force, "note": note})


def _said_before(before: Iterable[State], eval: str) -> frozenset[str]:
    """Lines of the report, without what a formatter may change."""
    return frozenset(_bare(line) for old in before if eval in old.findings for line in _lines(old.findings[eval]))


def _bare(line: str) -> str:
    return _MARKUP.sub("", line)


def _lines(finding: FindingSummary) -> tuple[str, ...]:
    return tuple(finding.reviewer.note.split("\n")) if finding.reviewer and finding.reviewer.note else ()


def _judged(finding: FindingSummary) -> Classification | None:
    return finding.judge.classification if finding.judge else None


def run_of(said: Analysis, name: str) -> str:
    """The run that a report is about: by its own word, else by its file name, which may only begin the run's id."""
    return said.run.id or PurePosixPath(name).stem.partition("_")[0]


def words(said: Analysis) -> dict[str, tuple[object, ...]]:
    """What people say of each eval: label, kind, lines."""
    return {
        finding.eval: (finding.classification, finding.cause_kind, _lines(finding))
        for finding in said.findings
        if finding.by_person
    }
