"""Whether the lines that evalscribe generates say what the rest of the report makes them say.

A person's correction is no mistake: until the next analysis the sum, the table and the net impact may still count what
was there before it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from evalscribe import text as prose
from evalscribe.model.report import ProblemLevel, Report
from evalscribe.proofread.corrected import MANY, Corrected, before, corrections, label_cell, without_label
from evalscribe.proofread.differences import IMPACT, Difference, apart, bare, differences
from evalscribe.proofread.parts import FINDINGS, LAST, Part, parts
from evalscribe.proofread.said import Said
from evalscribe.report_markdown import net_impact, summary
from evalscribe.report_markdown.page import render

CLASSIFICATION = "classification"
SHOWN = 160
COLUMNS = ("", "#", "Eval", "Step", "Label", "Seen", "Why")


def generated(report: Report, page: Mapping[str, Part]) -> Iterator[Said]:
    """Every generated line that differs from what `report`, read from the page, would be printed as."""
    expected = parts(render(report))
    corrected = corrections(report, page)
    touched = {f"{FINDINGS}/{one.at + 1}" for one in corrected}
    sums: list[Difference] = []
    behind = 0
    for section, part in page.items():
        if section == LAST or section not in expected:
            continue
        for found in differences(section, part, expected[section]):
            if found.key == "summary" or section == IMPACT:
                sums.append(found)
            elif _follows_later(section, found, touched):
                behind += 1
            else:
                yield _said(section, found)
    changed = [one for one in corrected if one.changed]
    # A doubt that a confirmation took away shows in the first lines only.
    for first, reviewed in ((True, corrected), (False, changed)):
        of_part = [found for found in sums if (found.key == "summary") == first]
        unexplained = _unexplained(report, of_part, reviewed)
        behind += len(of_part) - len(unexplained)
        level: ProblemLevel = "warning" if len(reviewed) > MANY else "error"
        yield from (_said("", found)._replace(level=level) for found in unexplained)
    if behind and corrected:
        yield _behind(behind, corrected)


def _follows_later(section: str, found: Difference, touched: Collection[str]) -> bool:
    """A label in the table, or a kind, that a correction made elsewhere has overtaken.

    `touched` names the sections of the corrected findings.
    """
    if found.said is None or found.meant is None:
        return False
    if section == CLASSIFICATION and found.key.startswith("row"):
        same = list(map(bare, without_label(found.said))) == list(map(bare, without_label(found.meant)))
        return same and label_cell(found.said) != label_cell(found.meant)
    if found.key == "heading":
        return bare(found.said.rpartition(":")[0]) == bare(found.meant.rpartition(":")[0])
    return section in touched and found.key == "fact Cause"


def _unexplained(report: Report, sums: Sequence[Difference], corrected: Sequence[Corrected]) -> Sequence[Difference]:
    """The sums that are wrong for the report as it is and as it may have been before the corrections."""
    if not sums or not corrected:
        return sums
    for earlier in before(report, corrected):
        lines = {bare(line) for line in (" ".join(_first_lines(earlier)), *net_impact.render(earlier))}
        if all(found.said is not None and bare(found.said) in lines for found in sums):
            return ()
    return sums


def _first_lines(report: Report) -> Iterator[str]:
    """The paragraph under the title."""
    for line in summary.render(report)[2:]:
        if not line:
            return
        yield line


def _said(section: str, found: Difference) -> Said:
    if found.meant is None:
        what = f"{_short(found.said)} stands in a generated part and would be lost: say it in a paragraph of its own"
    elif found.said is None:
        what = f"a generated line is missing: {_short(found.meant)}"
    elif section == CLASSIFICATION and (column := _column(found.said, found.meant)):
        what = column
    elif found.key == "heading":
        what = f"the heading names {_short(found.said)}, the finding is about {_short(found.meant)}"
    else:
        said, meant = apart(found.said, found.meant)
        what = f"{_short(said)} does not follow from the rest of the report, which makes it {_short(meant)}"
    return Said(found.line, "error", what)


def _column(said: str, meant: str) -> str | None:
    """Which cell of a row of the classification table differs from its finding."""
    cells, others = without_label(said), without_label(meant)
    if len(cells) != len(others):
        return None
    names = [name for name in COLUMNS if name != "Label"]
    odd = (at for at, (a, b) in enumerate(zip(cells, others, strict=True)) if bare(a) != bare(b) and at < len(names))
    at = next(odd, None)
    if at is None:
        return None
    return f"the column {names[at]!r} says {_short(cells[at])}, the finding {_short(others[at])}"


def _behind(count: int, corrected: Sequence[Corrected]) -> Said:
    numbers = ", ".join(str(one.at + 1) for one in corrected[:10]) + (" …" if len(corrected) > 10 else "")
    lines = f"{prose.pluralise(count, 'generated line')} still {'says' if count == 1 else 'say'}"
    return Said(
        corrected[0].line,
        "notice",
        f"corrected by a person: {numbers}; {lines} what was there before, which the next analysis of the run renews",
    )


def _short(text: str | None) -> str:
    return f"“{prose.cut(' '.join((text or '').split()), SHOWN)}”"
