"""Which failures have a label, and who gave it."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.ids import Frozen
from evalscribe.model.finding import CauseKind, Classification, HumanLabel
from evalscribe.model.protocols import Library
from evalscribe.model.repository import is_of_another_kind
from evalscribe.reports.agreement import truths, verdicts
from evalscribe.reports.reading import read_report
from evalscribe.text import name as printed


class LabelledFailure(Frozen):
    run: str
    eval: str
    """Path."""
    label: Classification
    cause_kind: CauseKind | None = None
    source: dict[str, JsonValue]
    """Who gave it, and in which report."""

    @property
    def subject(self) -> tuple[str, str]:
        return self.run, printed(self.eval)


class People(Frozen):
    """What people say of failures."""

    failures: tuple[LabelledFailure, ...]
    alike: int
    """Failures left out because the same label was given to one that is in it."""
    contradicted: int
    """Failures left out because two reports of their run give them different labels."""


def by_people(labels: Iterable[HumanLabel]) -> People:
    """One failure of each group that was labelled as one."""
    given = tuple(labels)
    agreed = truths(given)
    chosen = verdicts(agreed)
    subjects = {(label.run, label.eval) for label in given if label.in_force}
    return People(
        failures=tuple(map(_given, chosen)),
        alike=len(agreed) - len(chosen),
        contradicted=len(subjects) - len(agreed),
    )


def by_judges(library: Library) -> Iterator[LabelledFailure]:
    """Findings that nobody reviewed, one of each group, with the judge's own label."""
    for file in library.all():
        if is_of_another_kind(file.text):
            continue
        try:
            said = read_report(file.text, PurePosixPath(file.name).name)
        except DataError:
            continue  # `reports check` says what is wrong with it
        groups: set[str] = set()
        for one in said.findings:
            group = one.group or one.eval
            if one.judge is None or one.by_person or group in groups or said.run.id is None:
                continue
            groups.add(group)
            yield LabelledFailure(
                run=said.run.id,
                eval=one.eval,
                label=one.judge.classification,
                cause_kind=one.cause_kind,
                source={"report": file.name, "judge": one.judge.id},
            )


def _given(label: HumanLabel) -> LabelledFailure:
    told = {"report": label.report, "commit": label.commit, "reviewer": label.reviewer, "date": label.date}
    return LabelledFailure(
        run=label.run,
        eval=label.eval,
        label=label.label,
        cause_kind=label.cause_kind,
        source={**told, "judge": label.judge, "judged": label.judged},
    )
