"""Tries as JSON: one document a line, or all in one document that is written as it is read."""

from collections.abc import Iterable, Iterator

from evalscribe.model.experiment import RunReport, TrialDetail


def lines(_report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    for one in tries:
        yield one.model_dump_json()


def document(report: RunReport, tries: Iterable[TrialDetail]) -> Iterator[str]:
    """`{"summary": …, "gate": …, "tries": […]}`, a try a line."""
    gate = "null" if report.gate is None else report.gate.model_dump_json()
    yield f'{{"summary": {report.summary.model_dump_json()},'
    yield f' "gate": {gate},'
    yield ' "tries": ['
    before = None
    for one in tries:
        if before is not None:
            yield f"{before},"
        before = f"  {one.model_dump_json()}"
    if before is not None:
        yield before
    yield " ]}"
