"""Any text is read as a report or refused."""

import contextlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalscribe.errors import DataError
from evalscribe.reports import reading

PIECES = st.sampled_from([
    "# ", "## Failures\n", "### 1. ", "001-a", "b/002-c", " (b)", " — ", ": ", "MODEL_FAULT", "KNOWN_GAP", "**", "`",
    "\n", "\n\n", "- ", "  - ", "> ", "| ", "|---|---|\n", "Eval", "Classification", "Step", "```\n", "<!--", "-->",
    "---\n", "All 2 failures are ", "Action taken", "## Actions taken\n", "## Recommendations\n", "Run ID", "#7",
    "### Eval improvements\n", "Pass rate", "3/4 (75%)", "<details>\n<summary>", "</summary>\n", "~~", "→", "kind: x\n",
    "\t", "\r", "\x00", "(", "[",
])  # fmt: skip


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=60).map("".join))
def test_any_text_is_read_or_refused_with_a_data_error(text: str) -> None:
    with contextlib.suppress(DataError):
        findings = reading.read_report(text, "r.md").findings
        assert len({one.eval for one in findings}) == len(findings)
        labels = {one.classification for one in findings if one.classification}
        assert all(label in text for label in labels)
