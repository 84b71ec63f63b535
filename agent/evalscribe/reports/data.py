"""Read and write the data file of a report.

The data file has the complete report as JSON, in the format of `analyze --json`.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import PurePosixPath

from pydantic import ValidationError

from evalscribe.errors import DataError
from evalscribe.ids import share_field_names
from evalscribe.model.analysis import (
    REPORT_KIND,
    Analysis,
    FindingSummary,
    JudgeOpinion,
    analysis_from_report,
    finding_summaries,
)
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import (
    CrossModelFailures,
    FollowUp,
    Pattern,
    Recommendation,
    Recurrence,
)
from evalscribe.model.report import EvalRef, JudgeLabel, Report, ReportEntry, RunHeader, join_entries
from evalscribe.reports.freeform.sections import actions_in
from evalscribe.reports.outline import snippets

OF_ONE_COMMAND = ("report_path", "changed", "usage")
"""Fields that describe a single command, such as the command's usage. They are not written to the data file."""


def write_data(analysis: Analysis) -> str:
    """Return the text of a report's data file. Each fact is on a line of its own, and default values are omitted.

    Equal reports produce equal texts.
    """
    return "".join(data_parts(analysis))


def data_parts(analysis: Analysis) -> Iterator[str]:
    """Yield the text of a report's data file in parts, about one for each finding.

    Building the text of 10,000 findings as a whole would take 70 MB of memory.
    """
    # Git compares and merges lines, so each fact has a line of its own.
    frame = analysis.model_copy(update={"findings": analysis.findings[:1]})
    text = frame.model_dump_json(exclude_defaults=True, exclude=set(OF_ONE_COMMAND), indent=1)
    head, first, tail = text.partition(_lines(analysis.findings[0])) if analysis.findings else (text, "", "")
    yield head + first
    for finding in analysis.findings[1:]:
        yield f",\n  {_lines(finding)}"
    yield f"{tail}\n"


def _lines(finding: FindingSummary) -> str:
    """Render a finding as an item of the list of findings in a data file."""
    # A string in JSON contains no line break, so all line breaks are followed by an indent.
    return finding.model_dump_json(exclude_defaults=True, indent=1).replace("\n", "\n  ")


def consists_of(text: str, parts: Iterable[str]) -> bool:
    """Return whether a text equals the parts joined in order."""
    at = 0
    for part in parts:
        if not text.startswith(part, at):
            return False
        at += len(part)
    return at == len(text)


def read_data(text: str, name: str) -> Analysis:
    """Parse a data file. Raises `DataError` with a description of the problem if the file is not valid."""
    file = PurePosixPath(name).name
    try:
        analysis = Analysis.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        conflict = "<<<<<<<" in text and ">>>>>>>" in text
        problem = (
            "has git conflict markers: resolve the merge first" if conflict else f"{location} {first['msg']}".strip()
        )
        raise DataError(f"{file}: {problem}") from None
    if analysis.kind != REPORT_KIND:
        raise DataError(f"{file} is not the data of a report: its kind is {analysis.kind!r}, not {REPORT_KIND!r}")
    return analysis


def report_from_analysis(analysis: Analysis) -> Report:
    """Convert an analysis, which is the content of a data file, to a `Report`.

    The function is the inverse of `analysis_from_report`. Raises `DataError` if the analysis has values that a report
    cannot have.
    """
    try:
        run = {name: value for name, value in analysis.run.model_dump().items() if value is not None}
        return Report(
            run=RunHeader(**{name: value for name, value in run.items() if name in RunHeader.model_fields}),
            date=analysis.date or "",
            revision=analysis.revision or 1,
            judges=analysis.judges,
            own_prompts=analysis.own_prompts,
            page_url=analysis.page_url,
            cascade=analysis.cascade,
            agreement=analysis.agreement,
            evidence=analysis.evidence or "",
            earlier=analysis.earlier,
            entries=tuple(
                _entry(list(members)) for _, members in groupby(analysis.findings, lambda finding: finding.n)
            ),
            patterns=tuple(Pattern(**pattern.model_dump()) for pattern in analysis.patterns),
            resolved=analysis.resolved,
            follow_ups=tuple(FollowUp(**follow_up.model_dump()) for follow_up in analysis.follow_ups),
            proofs=analysis.proofs,
            incomplete_evals=analysis.incomplete_evals,
            recommendations=tuple(Recommendation(**item.model_dump()) for item in analysis.recommendations),
            actions_taken=analysis.actions_text or "",
            notes=analysis.notes,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _entry(members: list[FindingSummary]) -> ReportEntry:
    """Join findings with the same number into one entry.

    If the findings are about trials of one task, their verdicts can differ.
    """
    of_the_eval = {"eval": "", "eval_id": None, "category": None, "group": None, "url": None}
    by_verdict: dict[FindingSummary, list[FindingSummary]] = {}
    for member in members:
        by_verdict.setdefault(member.model_copy(update=of_the_eval), []).append(member)
    return join_entries([_verdict_entry(group) for group in by_verdict.values()])


def _verdict_entry(members: list[FindingSummary]) -> ReportEntry:
    first = members[0]
    recurrence, across = first.recurrence, first.across
    more = max(0, across.failing - 1 - len(across.alike)) if across else 0
    entry = ReportEntry(
        evals=tuple(share_field_names(EvalRef(path=member.eval, url=member.url)) for member in members),
        step=first.step,
        classification=first.classification,
        cause=first.cause,
        cause_kind=first.cause_kind,
        uncertain=bool(first.uncertain),
        basis=first.basis,
        contradicted=_judge_label(first.contradicted),
        judge=_judge_label(first.judge),
        why=first.why or "",
        error=first.error or "",
        reasoning=first.reasoning or first.unclassified or "",
        recurrence=share_field_names(Recurrence(**recurrence.model_dump())) if recurrence else Recurrence(),
        across=CrossModelFailures(more=more, **across.model_dump(exclude={"failing"})) if across else None,
        trials=first.trials,
        scored=first.scored,
        never_passed=first.never_passed,
        message=first.message,
        first_mistake=first.first_mistake,
        missing=first.missing or "",
        snippets=snippets([Citation(**citation.model_dump()) for citation in first.citations], first.error or ""),
        reviewer=statements(first),
        notes=first.notes,
    )
    return share_field_names(entry)


def _judge_label(opinion: JudgeOpinion | None) -> JudgeLabel | None:
    return share_field_names(JudgeLabel(**opinion.model_dump())) if opinion else None


def updated_analysis(analysis: Analysis, report: Report) -> Analysis:
    """Return the analysis, updated with the corrections, notes and actions of the report."""
    findings_by_eval = {finding.eval: finding for finding in analysis.findings}
    # A report has no ids and no complete citations, so these stay as they are in the data.
    same = ("eval_id", "category", "group", "citations")
    findings = tuple(
        finding.model_copy(update={name: getattr(findings_by_eval[finding.eval], name) for name in same})
        if finding.eval in findings_by_eval
        else finding
        for finding in finding_summaries(report)
    )
    updated = analysis_from_report(report, findings)
    facts = {name: getattr(analysis, name) for name in OF_ONE_COMMAND}
    return updated.model_copy(update={**facts, "actions_taken": actions_in(report.actions_taken, updated)})


def statements(finding: FindingSummary) -> tuple[str, ...]:
    """Return the text of each `Reviewer:` line.

    A person who only confirmed the label can leave the line empty. An empty line is returned as an empty string.
    """
    if finding.reviewer is None:
        return ()
    if finding.reviewer.note is not None:
        return tuple(finding.reviewer.note.split("\n"))
    judged = finding.judge.classification if finding.judge else None
    return ("",) if judged == finding.classification else ()
