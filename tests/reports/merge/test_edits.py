"""Random edits by people survive re-analysis after re-analysis, or are refused with a line; nothing goes silently."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.report import Report, replaced
from evalscribe.reports.markdown.blocks import UnreadableReport
from evalscribe.reports.markdown.page import parse, render
from evalscribe.reports.merge import merge_report

WORDS = ("zebra", "walrus", "`code`", "@someone", "[a link](https://x.example)", "**bold**", "| bar", "R9: x", "1. one")
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
labels = st.sampled_from(CLASSIFICATIONS)


def relabelled(text: str, number: int, label: Classification, *, table: bool) -> str:
    """The text with one label replaced in the heading or in the table's row."""
    lines = text.split("\n")
    start = f"| {number} |" if table else f"### {number}. "
    at = next(at for at, line in enumerate(lines) if line.startswith(start))
    if table:
        cells = lines[at].split(" | ")
        lines[at] = " | ".join((*cells[:3], label, *cells[4:]))
    else:
        lines[at] = f"{lines[at].rpartition(': ')[0]}: {label}"
    return "\n".join(lines)


def judged_anew(report: Report, label: Classification) -> Report:
    """Every verdict another one."""
    entries = tuple(
        replaced(entry, classification=label, cause_kind=None, judge=replaced(entry.judge, classification=label))
        if entry.judge
        else entry
        for entry in report.entries
    )
    return replaced(report, entries=entries)


@settings(max_examples=75, suppress_health_check=list(HealthCheck))
@given(
    corrections=st.dictionaries(st.integers(1, 5), st.tuples(labels, st.booleans()), max_size=3),
    reviews=st.dictionaries(st.integers(1, 5), words, max_size=2),
    remarks=st.dictionaries(st.integers(9, 60), words, max_size=3),
    actions=st.lists(words, max_size=2),
    later=st.lists(labels, min_size=1, max_size=3),
    known=st.booleans(),
    crlf=st.booleans(),
)
def test_edits_survive(
    report: Report,
    corrections: dict[int, tuple[Classification, bool]],
    reviews: dict[int, str],
    remarks: dict[int, str],
    actions: list[str],
    later: list[Classification],
    known: bool,
    crlf: bool,
) -> None:
    written = render(report)
    text = written
    for number, (label, table) in corrections.items():
        text = relabelled(text, number, label, table=table)
    for number, said in reviews.items():
        text = text.replace(f"\n### {number + 1}. ", f"\n\nReviewer: {said}\n\n### {number + 1}. ", 1)
    lines = text.split("\n")
    for at, said in sorted(remarks.items(), reverse=True):
        lines[at:at] = ["", f"Remark {at}: {said}", ""]
    text = "\n".join(lines)
    if actions:
        text = text.replace("## Actions taken\nNone.", "## Actions taken\n" + "\n".join(actions))
    text = text.replace("\n", "\r\n") if crlf else text
    try:
        merged = merge_report(judged_anew(report, later[0]), text, written if known else None)
    except UnreadableReport:
        assert remarks, "only a remark within generated lines may be refused"
        return
    for label in later[1:]:
        merged = merge_report(judged_anew(report, label), merged.text, merged.text if known else None)
        assert parse(merged.text) == merged.report
    for number, (label, _) in corrections.items():
        paths = report.entries[number - 1].paths
        entry = next(entry for entry in merged.report.entries if entry.paths == paths)
        assert entry.classification == label or label == report.entries[number - 1].classification
    for said in (*remarks.values(), *actions, *(said for number, said in reviews.items() if number < 5)):
        assert said.replace("`", "") in merged.text.replace("`", "")
    assert not merge_report(merged.report, merged.text, merged.text).changed
