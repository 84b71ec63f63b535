"""Random edits by people survive repeated analyses or are refused with a line; nothing is lost silently."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.report import Report, replaced
from evalscribe.reports.blocks import UnreadableReport
from evalscribe.reports.page_edits import UnmergedEdits
from evalscribe.reports.reading import read_page
from support.edited_reports import corrected, on_disk, page_of, rewrite

WORDS = ("zebra", "walrus", "`code`", "@someone", "[a link](https://x.example)", "**bold**", "| bar", "R9: x", "1. one")
LABEL_OF = {1: "MODEL_FAULT", 2: "OVERLY_STRICT", 3: "AMBIGUOUS_TASK", 4: "KNOWN_GAP", 5: None}
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
labels = st.sampled_from(CLASSIFICATIONS)


def judged_anew(report: Report, label: Classification) -> Report:
    """Replace the label of every verdict."""
    entries = tuple(
        replaced(entry, classification=label, cause_kind=None, judge=replaced(entry.judge, classification=label))
        if entry.judge
        else entry
        for entry in report.entries
    )
    return replaced(report, entries=entries)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    corrections=st.dictionaries(st.integers(1, 5), labels, max_size=3),
    reviews=st.dictionaries(st.integers(1, 5), words, max_size=2),
    remarks=st.dictionaries(st.integers(9, 60), words, max_size=3),
    actions=st.lists(words, max_size=2),
    later=st.lists(labels, min_size=1, max_size=3),
    known=st.booleans(),
    crlf=st.booleans(),
)
def test_random_edits_survive_later_analyses_or_are_refused(
    report: Report,
    corrections: dict[int, Classification],
    reviews: dict[int, str],
    remarks: dict[int, str],
    actions: list[str],
    later: list[Classification],
    known: bool,
    crlf: bool,
) -> None:
    written = page_of(report)
    text = written
    for number, label in corrections.items():
        text = corrected(text, number, label)
    for number, added in reviews.items():
        text = text.replace(f"\n### {number + 1}. ", f"\n\nReviewer: {added}\n\n### {number + 1}. ", 1)
    lines = text.split("\n")
    for at, added in sorted(remarks.items(), reverse=True):
        lines[at:at] = ["", f"Remark {at}: {added}", ""]
    text = "\n".join(lines)
    if actions:
        text = text.replace("## Actions taken\nNone.", "## Actions taken\n" + "\n".join(actions))
    if not known:
        text = text.replace("written: sha256:", "written: sha256:00")
    text = text.replace("\n", "\r\n") if crlf else text
    try:
        merged = rewrite(judged_anew(report, later[0]), text, report)
        for label in later[1:]:
            merged = rewrite(judged_anew(report, label), merged.text, merged.report)
            assert read_page(on_disk(merged.text, merged.report)).report == merged.report
    except (UnreadableReport, UnmergedEdits):
        assert remarks, "only a remark within generated lines may be refused"
        return
    for number, label in corrections.items():
        paths = report.entries[number - 1].paths
        entry = next(entry for entry in merged.report.entries if entry.paths == paths)
        assert entry.classification == label or label == LABEL_OF[number]
    for added in (*remarks.values(), *actions, *(added for number, added in reviews.items() if number < 5)):
        assert added.replace("`", "") in merged.text.replace("`", "")
    assert not rewrite(merged.report, merged.text, merged.report).changed
