"""Ways in which people, editors and merges change a report, and the result that each must have.

An edit is read back, stays on the page in a merge, or is refused with the number of a line near it. No text that a
person typed is lost: the written page contains it, or the page is left alone and the new page is written beside it.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

from evalscribe.model.analysis import analysis_from_report
from evalscribe.model.finding import CLASSIFICATIONS, Classification
from evalscribe.model.report import Report, replaced
from evalscribe.reports.blocks import UnreadableReport
from evalscribe.reports.data import read_data, report_from_analysis, write_data
from evalscribe.reports.merge import MergedReport, carry_over, merge_report
from evalscribe.reports.page import page_digest, render
from evalscribe.reports.page_edits import UnmergedEdits
from evalscribe.reports.reading import PageSource, read_page

NEAR = 6
"""Maximum distance between the edit and the line that the error names."""
NAME = "runrunru_2026-11-02.md"
DATA = "runrunru_2026-11-02.json"
Fate = Literal["read", "merged", "refused", "either"]
"""What must become of an edit.

`read`: the report contains the edit, even if the judge's verdicts changed or the original page is unknown. `merged`:
the edit stays at its place on the page; the new page is written beside it if the same lines changed, or if the original
page is unknown. `refused`: an error names the line. `either`: the result depends on the place of the edit.
"""
Outcome = Literal["same", "read", "merged", "beside", "refused"]
Base = Literal["rendering", "store", "unknown"]
BASES: tuple[Base, ...] = ("rendering", "store", "unknown")
"""Where the original page is found: in the data, in the store (written by another version), or nowhere."""
Operation = Callable[["Page", random.Random], "Edit | None"]


@dataclass(frozen=True)
class Edit:
    text: str
    near: tuple[int, ...] = ()
    """First and last line of the edit; empty if it affects the whole page."""
    words: tuple[str, ...] = ()
    """Added texts that must not be lost."""
    labels: Mapping[str, Classification] = field(default_factory=dict)
    """Labels that must be in force after the edit, keyed by the path of the finding's first eval."""
    fate: Fate = "either"


class Page:
    """The lines of a report, counted from 0, and the positions of its parts."""

    def __init__(self, text: str, report: Report) -> None:
        self.lines = text.split("\n")
        self.report = report

    def starting(self, *starts: str) -> list[int]:
        return [at for at, line in enumerate(self.lines) if line.startswith(starts)]

    @property
    def findings(self) -> list[int]:
        return [at for at in self.starting("### ") if re.match(r"### \d+\. ", self.lines[at])]

    @property
    def sections(self) -> list[int]:
        return self.starting("## ")

    @property
    def rows(self) -> list[int]:
        """Lines with the rows of the table of recommendations."""
        return [at for at, line in enumerate(self.lines) if re.match(r"\| (?:R\d+)? \| ", line)]

    @property
    def paragraphs(self) -> list[int]:
        """Lines with items of prose in the findings."""
        places = range(self.findings[0], self.net_impact)
        return [at for at in places if re.match(r"- (?=[A-Z`])(?!`.*` \w+ \S+:\d)", self.lines[at])]

    @property
    def net_impact(self) -> int:
        return self.starting("## Net impact")[0]

    def end(self, at: int, starts: tuple[str, ...]) -> int:
        """Return the line after the end of the part that begins at a line."""
        return next((n for n in range(at + 1, len(self.lines)) if self.lines[n].startswith(starts)), len(self.lines))

    def finding(self, number: int) -> tuple[int, int]:
        start = self.findings[number]
        return start, self.end(start, ("### ", "## "))

    def path(self, number: int) -> str:
        return self.report.entries[number].paths[0]

    def edit(self, at: int, count: int, new: list[str], **more: object) -> Edit:
        """Return an edit that replaces some lines by others."""
        lines = [*self.lines[:at], *new, *self.lines[at + count :]]
        return Edit("\n".join(lines), near=(at + 1, at + max(1, len(new))), **more)  # type: ignore[arg-type]


WORDS = ("zebra", "walrus café", "ibis 42", "okapi (see R1)", "tapir: yes", "lemur's", "a | bar", "@ada", "naïve 😀")


def word(rng: random.Random) -> str:
    return f"{rng.choice(WORDS)} {rng.randrange(1000)}"


def other_label(page: Page, number: int, rng: random.Random) -> Classification:
    entry = page.report.entries[number]
    judged = entry.judge.classification if entry.judge else None
    return rng.choice([label for label in CLASSIFICATIONS if label not in (judged, entry.classification)])


def any_finding(page: Page, rng: random.Random) -> int:
    return rng.randrange(len(page.report.entries))


# Changes of the whole page that add no text. They must neither change the report nor be refused.


def whole(change: Callable[[str], str], fate: Fate = "read") -> Operation:
    return lambda page, _rng: Edit(change("\n".join(page.lines)), fate=fate)


def mixed_line_ends(page: Page, rng: random.Random) -> Edit:
    text = "".join(line + rng.choice(("\n", "\r\n")) for line in page.lines[:-1])
    return Edit(text, fate="read")


def aligned(text: str) -> str:
    """Align the tables of the page like a Markdown formatter."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        if end - at > 1:
            lines[at:end] = aligned_table(lines[at:end])
        at = max(end, at + 1)
    return "\n".join(lines)


def aligned_table(table: list[str]) -> list[str]:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]
    widths = [max(3, *(len(row[n]) for row in rows)) for n in range(len(rows[0]))]
    rule = ["-" * (w - 1) + ":" if rows[1][n].endswith(":") else "-" * w for n, w in enumerate(widths)]
    rows[1] = rule
    return ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]


def spaced(text: str) -> str:
    """Insert blank lines around headings, lists, tables and fences, as prettier and markdownlint require."""
    out: list[str] = []
    fence = ""
    front = 0
    for line in text.split("\n"):
        front += line == "---"
        opens = re.match(r"`{3,}", line)
        inside = bool(fence)
        kind = kind_of(line)
        last = kind_of(out[-1]) if out else ""
        apart = kind != last and (kind or last in ("heading", "list"))
        if apart and not inside and front > 1 and out and out[-1]:
            out.append("")
        out.append(line)
        fence = "" if inside and line == fence else fence or (opens[0] if opens else "")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out))


def kind_of(line: str) -> str:
    kinds = {"#": "heading", "-": "list", "|": "table", "`": "fence", "<": "html"}
    return kinds.get(line[:1], "") if not line.startswith("`") or line.startswith("```") else ""


def loose(text: str) -> str:
    return outside_fences(lambda prose: re.sub(r"\n(- [^\n]*)(?=\n- )", r"\n\1\n", prose))(text)


def outside_fences(change: Callable[[str], str]) -> Callable[[str], str]:
    """Limit a change to the text outside fences, because formatters leave quotations in fences alone."""
    return lambda text: "".join(
        part if part.startswith("```") else change(part)
        for part in re.split(r"(?m)^(`{3,}\w*\n(?:.*\n)*?`{3,}$)", text)
    )


def with_bullets(marker: str) -> Operation:
    return whole(outside_fences(lambda text: re.sub(r"^- ", marker, text, flags=re.MULTILINE)))


def wrapped(page: Page, rng: random.Random) -> Edit | None:
    """Wrap a paragraph, as editors do. The wrapped text stays until the judge's text at this place changes."""
    long = [at for at in page.paragraphs if len(page.lines[at]) > 60 and "`" not in page.lines[at]]
    if not long:
        return None
    at = rng.choice(long)
    lines = re.findall(r".{1,50}(?:\s|$)", page.lines[at][2:])
    if any(re.match(r"\d+[.)]|[-+*#>=|]", line) for line in lines):
        return None
    first, *others = (line.rstrip() for line in lines)
    return page.edit(at, 1, [f"- {first}", *(f"  {line}" for line in others)], fate="merged")


# Edits at a single place.


def moved_line(page: Page, rng: random.Random) -> Edit:
    at, by = rng.randrange(9, len(page.lines) - 4), rng.choice((1, 2, 3))
    part = page.lines[at : at + by + 1]
    return page.edit(at, by + 1, [*part[1:], part[0]])


def moved_finding(page: Page, rng: random.Random) -> Edit | None:
    return moved(page, rng, [page.finding(number) for number in range(len(page.findings))], "either")


def moved_section(page: Page, rng: random.Random) -> Edit | None:
    return moved(page, rng, [(at, page.end(at, ("## ",))) for at in page.sections[:-1]], "merged")


def actions_moved_up(page: Page, rng: random.Random) -> Edit:
    """Move the list of actions up. The rest of the page would then be read as actions."""
    at = rng.choice(page.sections[:-1])
    start = page.sections[-1]
    actions = page.lines[start:]
    text = "\n".join([*page.lines[:at], *actions, *page.lines[at:start]])
    return Edit(text, near=(at + len(actions) + 1,), fate="refused")


def moved(page: Page, rng: random.Random, parts: list[tuple[int, int]], fate: Fate) -> Edit | None:
    """Exchange two adjacent parts."""
    if len(parts) < 2:
        return None
    at = rng.randrange(len(parts) - 1)
    (start, middle), (_, end) = parts[at], parts[at + 1]
    first = [*page.lines[start:middle], ""] if page.lines[middle - 1] == "</details>" else page.lines[start:middle]
    second = page.lines[middle:end]
    second = [*second, ""] if second[-1] == "</details>" else second
    return page.edit(start, end - start, [*second, *first], fate=fate)


def renumbered(page: Page, rng: random.Random) -> Edit:
    number = any_finding(page, rng)
    at = page.findings[number]
    return page.edit(at, 1, [re.sub(r"\d+", str(rng.randrange(1, 99)), page.lines[at], count=1)])


def bullet(marker: str, fate: Fate) -> Operation:
    def changed(page: Page, rng: random.Random) -> Edit | None:
        places = [at for at in page.starting("- **") if at > page.findings[-1]]
        if not places:
            return None
        at = rng.choice(places)
        return page.edit(at, 1, [marker + page.lines[at][1:]], fate=fate)

    return changed


def deeper(page: Page, rng: random.Random) -> Edit:
    at = rng.choice(page.starting("## ", "### "))
    return page.edit(at, 1, [rng.choice(("#", "##", "###", "####")) + " " + page.lines[at].lstrip("# ")])


def closed_heading(page: Page, rng: random.Random) -> Edit:
    at = rng.choice(page.starting("## ", "### "))
    return page.edit(at, 1, [f"{page.lines[at]} ##"], fate="read")


def underlined_section(page: Page, rng: random.Random) -> Edit:
    at = rng.choice(page.sections)
    return page.edit(at, 1, ["", page.lines[at][3:], "-------", ""], fate="merged")


def glued_heading(page: Page, rng: random.Random) -> Edit:
    at = rng.choice(page.starting("## ", "### "))
    return page.edit(at, 1, [page.lines[at].replace("# ", "#", 1)], fate="refused")


def odd_characters(page: Page, rng: random.Random) -> Edit:
    """Replace characters of one line by smart quotes, dashes, no-break spaces or full-width digits."""
    at = rng.choice([at for at in range(7, len(page.lines) - 2) if re.search(r"[ '\"\d-]", page.lines[at])])
    pairs = rng.choice(
        ({"'": "\u2019", '"': "\u201d"}, {" ": "\u00a0"}, {"-": "\u2013"}, {str(n): chr(0xFF10 + n) for n in range(10)})
    )
    return page.edit(at, 1, [page.lines[at].translate(str.maketrans(pairs))])


def typed_into_a_line(page: Page, rng: random.Random) -> Edit:
    at = rng.choice([at for at in range(7, len(page.lines) - 1) if page.lines[at].strip()])
    said = word(rng)
    return page.edit(at, 1, [f"{page.lines[at]} {said}"], words=(said,))


def typed_anywhere(page: Page, rng: random.Random) -> Edit:
    """Insert a line between any two lines, without blank lines around it."""
    at = rng.randrange(7, len(page.lines))
    said = word(rng)
    return page.edit(at, 0, [said], words=(said,))


def paragraph(page: Page, rng: random.Random) -> Edit:
    at = rng.choice([*page.findings, *page.sections, *page.paragraphs])
    said = word(rng)
    return page.edit(at, 0, ["", said, ""], words=(said,))


def extra(*lines: str, fate: Fate = "either") -> Operation:
    """Insert a block that an editor or a website adds between two findings or sections."""

    def added(page: Page, rng: random.Random) -> Edit:
        at = rng.choice([*page.findings[1:], *page.sections])
        said = word(rng)
        new = [line.replace("WORD", said) for line in lines]
        return page.edit(at, 0, ["", *new, ""], words=(said,), fate=fate)

    return added


def before_front_matter(page: Page, rng: random.Random) -> Edit:
    said = word(rng)
    return page.edit(0, 0, [said, ""], words=(said,), fate="refused")


def front_matter_comment(page: Page, rng: random.Random) -> Edit:
    said = word(rng)
    return page.edit(2, 0, [f"# {said}"], words=(said,), fate="merged")


def deleted(what: str, fate: Fate) -> Operation:
    def gone(page: Page, rng: random.Random) -> Edit | None:
        parts = list(deletable(page, what))
        if not parts:
            return None
        start, end = rng.choice(parts)
        return page.edit(start, end - start, [], fate=fate)

    return gone


def deletable(page: Page, what: str) -> Iterator[tuple[int, int]]:
    if what == "section":
        yield from ((at, page.end(at, ("## ",))) for at in page.sections[:-1])
    elif what == "actions":
        yield page.sections[-1], len(page.lines)
    elif what == "finding":
        yield from (page.finding(number) for number in range(len(page.findings)))
    elif what == "row":
        yield from ((at, at + 1) for at in page.rows)
    elif what == "front matter":
        yield 0, page.lines.index("---", 1) + 1
    elif what == "fence end":
        fences = [at for at, line in enumerate(page.lines) if re.fullmatch(r"`{3,}\w*", line)]
        yield from ((at, at + 1) for at in fences[1::2])
    elif what == "blank line":
        yield from ((at, at + 1) for at, line in enumerate(page.lines[:-1]) if not line)
    elif what == "table":
        for at in (at for at in page.starting("|") if not page.lines[at - 1].startswith("|")):
            yield at, next(n for n in range(at, len(page.lines)) if not page.lines[n].startswith("|"))
    elif what == "label":
        yield from ((at + 1, at + 2) for at in page.findings)
    elif what == "line":
        yield from ((at, at + 1) for at in range(9, len(page.lines) - 2) if page.lines[at].strip())


def duplicated(page: Page, rng: random.Random) -> Edit:
    start, end = page.finding(any_finding(page, rng))
    return page.edit(end, 0, ["", *page.lines[start:end], ""], fate="refused")


def added_row(page: Page, rng: random.Random) -> Edit | None:
    if not page.rows:
        return None
    said = word(rng).replace("|", "")
    row = f"| R{len(page.rows) + 1} | eval | {said} | 1 | unclear |"
    return page.edit(page.rows[-1] + 1, 0, [row], words=(said,), fate="merged")


def conflict(style: str) -> Operation:
    """Insert conflict markers of a merge. The error must name the line of the first marker."""

    def torn(page: Page, rng: random.Random) -> Edit:
        at = rng.randrange(1, len(page.lines) - 2)
        line = page.lines[at]
        middle = ["||||||| 1234567", line] if style == "diff3" else []
        new = ["<<<<<<< HEAD", line, *middle, "=======", f"{line} theirs", ">>>>>>> branch"]
        edit = page.edit(at, 1, new, fate="refused")
        return Edit(edit.text, near=(at + 1,), fate="refused")

    return torn


def translated_heading(page: Page, rng: random.Random) -> Edit:
    at = rng.choice(page.sections[:-1])
    said = rng.choice(("Ergebnisse", "概要", "Résultats", "Заключение"))
    return page.edit(at, 1, [f"## {said}"], words=(said,), fate="either")


LABEL = re.compile(r"\*\*[A-Z_]+\*\*(?: \([\w, ]+\))?(?:, uncertain)?")


def label_as(written: Callable[[str], str], fate: Fate, where: str = "label") -> Operation:
    """Correct a label in one of the ways in which people write it: under the heading, in the heading, or both."""

    def changed(page: Page, rng: random.Random) -> Edit:
        number = any_finding(page, rng)
        label = other_label(page, number, rng)
        lines = list(page.lines)
        near = []
        if where in ("label", "both"):
            at = page.findings[number] + 1
            lines[at] = LABEL.sub(lambda _: written(label), lines[at], count=1)
            near.append(at + 1)
        if where in ("heading", "both"):
            at = page.findings[number]
            lines[at] += f": {written(label)}"
            near.append(at + 1)
        labels = {page.path(number): label} if fate == "read" else {}
        return Edit("\n".join(lines), near=tuple(near), labels=labels, fate=fate)

    return changed


def label_with(template: str, fate: Fate = "read") -> Operation:
    """Correct a label and add text to its line.

    In the template, `LABEL` is the new label, and `TAIL` is the text that followed the old label.
    """

    def changed(page: Page, rng: random.Random) -> Edit:
        number = any_finding(page, rng)
        label, said = other_label(page, number, rng), word(rng)
        at = page.findings[number] + 1
        tail = LABEL.sub("", page.lines[at], count=1)
        line = template.replace("LABEL", label).replace("TAIL", tail).replace("WORD", said)
        words = (said,) if "WORD" in template else ()
        return page.edit(at, 1, line.split("\n"), words=words, labels={page.path(number): label}, fate=fate)

    return changed


def contradicting(page: Page, rng: random.Random) -> Edit | None:
    number = any_finding(page, rng)
    entry = page.report.entries[number]
    judged = entry.judge.classification if entry.judge else None
    first, second, *_ = rng.sample([x for x in CLASSIFICATIONS if x not in (judged, entry.classification)], 2)
    lines = list(page.lines)
    at = page.findings[number] + 1
    lines[at] = LABEL.sub(f"**{first}**", lines[at], count=1)
    lines[at - 1] += f" – {second}"
    return Edit("\n".join(lines), near=(at, at + 1), fate="refused")


def reviewer(*template: str) -> Operation:
    """Add a reviewer's statement in some place and form.

    The statement must be kept. If its form is known, the finding must count as reviewed.
    """
    counts = "> Reviewer: WORD" not in template

    def said(page: Page, rng: random.Random) -> Edit:
        number = any_finding(page, rng)
        start, end = page.finding(number)
        text = word(rng)
        new = [line.replace("WORD", text) for line in template]
        at, apart = rng.choice(((start + 2, []), (end, [""])))
        after = ["", ""] if at == end else []
        confirmed = reviewed(page, number) if counts else {}
        return page.edit(at, 0, [*apart, *new, *after], words=(text,), labels=confirmed, fate="read")

    return said


def reviewed(page: Page, number: int) -> dict[str, Classification]:
    label = page.report.entries[number].classification
    return {page.path(number): label} if label else {}


def reworded(find: str, replacement: str, fate: Fate = "merged") -> Operation:
    """Reword generated text. `WORD` in the replacement is text that the person adds."""

    def changed(page: Page, rng: random.Random) -> Edit | None:
        places = [at for at in range(9, page.sections[-1]) if re.search(find, page.lines[at])]
        if not places:
            return None
        at, said = rng.choice(places), word(rng).replace("|", "").replace(":", "")
        line = re.sub(find, lambda match: match.expand(replacement).replace("WORD", said), page.lines[at], count=1)
        return page.edit(at, 1, [line], words=(said,), fate=fate)

    return changed


def own_finding(page: Page, rng: random.Random) -> Edit:
    """Add a finding about a failure that a person found."""
    said = word(rng)
    number = len(page.findings) + 1
    at = page.end(page.sections[[page.lines[n] for n in page.sections].index("## Failures")], ("## ",))
    finding = ["", f"### {number}. my/eval", "**KNOWN_GAP** · mine", "", f"It fails here: {said}.", ""]
    return page.edit(at, 0, finding, words=(said,), fate="merged")


def own_column(page: Page, rng: random.Random) -> Edit | None:
    if not page.rows:
        return None
    said = word(rng).replace("|", "")
    lines = list(page.lines)
    head = page.rows[0] - 2
    for at, cell in ((head, "Owner"), (head + 1, "---"), *((row, said) for row in page.rows)):
        lines[at] += f" {cell} |"
    return Edit("\n".join(lines), near=(head + 1, page.rows[-1] + 1), words=(said,), fate="merged")


def below_the_label(page: Page, rng: random.Random) -> Edit:
    """Add a reply on the line below the label."""
    said = word(rng)
    at = rng.choice(page.findings) + 2
    return page.edit(at, 0, [said], words=(said,), fate="read")


def above_the_label(page: Page, rng: random.Random) -> Edit:
    said = word(rng)
    return page.edit(rng.choice(page.findings) + 1, 0, ["", said, ""], words=(said,), fate="read")


def below_the_reasoning(page: Page, rng: random.Random) -> Edit | None:
    """Add a line that continues an item of the judge."""
    if not page.paragraphs:
        return None
    said = word(rng)
    return page.edit(rng.choice(page.paragraphs) + 1, 0, [said], words=(said,), fate="read")


def own_pattern(page: Page, rng: random.Random) -> Edit | None:
    items = [at for at in page.starting("- **") if at > page.findings[-1]]
    if not items:
        return None
    said = word(rng)
    return page.edit(rng.choice(items) + 1, 0, [f"- {said}"], words=(said,), fate="read")


def note_of_a_note(change: Callable[[str, str], str | None], fate: Fate = "read") -> Operation:
    """Change a note that an earlier version of the page contains."""

    def changed(page: Page, rng: random.Random) -> Edit | None:
        quoted = [at for at in page.starting("> ") if at < page.sections[-1]]
        if not quoted:
            return None
        at, said = rng.choice(quoted), word(rng)
        line = change(page.lines[at], said)
        return page.edit(at, 1, [] if line is None else line.split("\n"), words=(said,) if line else (), fate=fate)

    return changed


def action(page: Page, rng: random.Random) -> Edit:
    said = word(rng)
    at = page.sections[-1] + 1
    new = rng.choice(([f"- R1: {said}"], ["", f"* [x] {said}", "", "## More"], [f"{said}", "<!-- done -->"]))
    return page.edit(at, 1, new, words=(said,), fate="read")


def typo(label: str) -> str:
    return label.replace("_", "").replace("T", "TT")


def bold(label: str) -> str:
    return f"**{label}**"


LABELS: dict[str, tuple[Callable[[str], str], Fate]] = {
    "bold": (bold, "read"),
    "not bold": (str, "read"),
    "lower case": (lambda label: bold(label.lower().replace("_", " ")), "read"),
    "with a hyphen": (lambda label: bold(label.title().replace("_", "-")), "read"),
    "in code": (lambda label: f"`{label}`", "read"),
    "underscores for emphasis": (lambda label: f"__{label}__", "read"),
    "escaped": (lambda label: bold(label.replace("_", "\\_")), "read"),
    "struck out and new": (lambda label: f"~~**UNCLASSIFIED**~~ {bold(label)}", "read"),
    "with a full stop": (lambda label: f"{bold(label)}.", "read"),
    "as a link": (lambda label: f"[{label}](https://x.example)", "read"),
    "with a kind": (lambda label: f"{bold(label)} (grader)", "read"),
    "uncertain": (lambda label: f"{bold(label)}, uncertain", "read"),
    "with a typo": (lambda label: bold(typo(label)), "refused"),
    "with a typo, not bold": (typo, "refused"),
    "translated": (lambda _label: bold("MODELLFEHLER"), "refused"),
    "two of them": (lambda label: f"{bold(label)} or **UNCLASSIFIED**", "refused"),
    "with a question mark": (lambda label: bold(f"{label}?"), "refused"),
    "with an unknown kind": (lambda label: f"{bold(label)} (hamster)", "refused"),
}
REVIEWER: dict[str, tuple[str, ...]] = {
    "item": ("- Reviewer: WORD",),
    "other marker": ("* Reviewer: WORD",),
    "bold": ("- **Reviewer:** WORD",),
    "bold before the colon": ("- **Reviewer**: WORD",),
    "lower case": ("- reviewer: WORD",),
    "paragraph": ("", "Reviewer: WORD", ""),
    "straight below": ("Reviewer: WORD",),
    "quoted": ("", "> Reviewer: WORD", ""),
    "with a name": ("- Reviewer (Ada): WORD",),
    "check box": ("- [x] Reviewer: WORD",),
    "two lines": ("- Reviewer: WORD", "  and more"),
    "nested": ("- Reviewer: WORD", "  - and more"),
    "nested below a fact": ("  - Reviewer: WORD",),
    "heading": ("", "#### Reviewer: WORD", ""),
    "plural": ("- Reviewers: WORD",),
    "by name": ("- Reviewer @ada: WORD",),
}
KINDS: dict[str, Operation] = {
    "Windows line ends": whole(lambda text: text.replace("\n", "\r\n")),
    "old Mac line ends": whole(lambda text: text.replace("\n", "\r")),
    "mixed line ends": mixed_line_ends,
    "byte order mark": whole(lambda text: "\ufeff" + text),
    "trailing spaces": whole(lambda text: text.replace("\n", "  \n")),
    "trailing tabs": whole(lambda text: text.replace("\n", "\t\n")),
    "no last line end": whole(lambda text: text.rstrip("\n")),
    "many last line ends": whole(lambda text: text + "\n\n\n"),
    "all bullets *": with_bullets("* "),
    "all bullets indented": with_bullets("  - "),
    "bullets far from their text": with_bullets("-   "),
    "tables aligned": whole(aligned),
    "blank lines around blocks": whole(spaced),
    "aligned and spaced (prettier)": whole(lambda text: spaced(aligned(text))),
    "loose lists": whole(loose),
    "front matter with comments": front_matter_comment,
    "paragraph wrapped": wrapped,
    "line moved": moved_line,
    "finding moved": moved_finding,
    "section moved": moved_section,
    "finding renumbered": renumbered,
    "bullet *": bullet("*", "read"),
    "bullet +": bullet("+", "read"),
    "bullet dash": bullet("–", "either"),
    "bullet dot": bullet("•", "either"),
    "bullet gone": bullet("", "either"),
    "heading level": deeper,
    "heading closed": closed_heading,
    "section underlined": underlined_section,
    "heading without space": glued_heading,
    "odd characters": odd_characters,
    "typed into a line": typed_into_a_line,
    "typed between lines": typed_anywhere,
    "paragraph added": paragraph,
    "HTML comment": extra("<!-- WORD -->", fate="read"),
    "HTML block": extra("<div>", "WORD", "</div>", fate="read"),
    "check boxes": extra("- [ ] WORD", "- [x] done", fate="read"),
    "footnote": extra("Text[^1] WORD.", "", "[^1]: more", fate="read"),
    "link definition": extra("[WORD]: https://x.example", fate="read"),
    "suggestion left over": extra("```suggestion", "WORD", "```", fate="read"),
    "fence left open": extra("```", "WORD"),
    "comment left open": extra("<!-- WORD"),
    "own table": extra("| a | b |", "|---|---|", "| x | WORD |", fate="read"),
    "own heading": extra("#### WORD", "text", fate="read"),
    "own section": extra("## WORD", "text", fate="read"),
    "details": extra("<details><summary>more</summary>", "", "WORD", "", "</details>", fate="read"),
    "rule": extra("WORD", "", "---", "", fate="read"),
    "quotation": extra("> WORD", "> again", fate="read"),
    "before the front matter": before_front_matter,
    "section deleted": deleted("section", "either"),
    "actions deleted": deleted("actions", "read"),
    "finding deleted": deleted("finding", "merged"),
    "row deleted": deleted("row", "merged"),
    "front matter deleted": deleted("front matter", "refused"),
    "fence end deleted": deleted("fence end", "either"),
    "blank line deleted": deleted("blank line", "either"),
    "table deleted": deleted("table", "either"),
    "line deleted": deleted("line", "either"),
    "finding twice": duplicated,
    "row added": added_row,
    "conflict markers": conflict("merge"),
    "conflict markers, diff3": conflict("diff3"),
    "heading translated": translated_heading,
    "labels contradict": contradicting,
    "title reworded": reworded(r"^# (.*)", r"# WORD \1"),
    "summary reworded": reworded(r"^\*\*\d+ .*", r"**WORD**, says the owner."),
    "summary continued": reworded(r"^(\*\*\d+ .*)", r"\1 WORD"),
    "run reworded": reworded(r"(\| Run \|.*) \|", r"\1 WORD |"),
    "step reworded": reworded(r"^(\| Failed at \|) .* \|", r"\1 WORD |"),
    "table's head translated": reworded(r"^(\| \| Type .*) Effect \|$", r"\1 WORD |"),
    "sum reworded": reworded(r"^As run", r"As run WORD"),
    "error reworded": reworded(r"^- Error: `[^`]*`", r"- Error: `WORD`"),
    "place reworded": reworded(r"^(- `.*` output) \S+:\d+$", r"\1 WORD"),
    "shared sentence reworded": reworded(r"^- [A-Z].*( \([\d, –]+\))$", r"- WORD\1"),
    "cause reworded": reworded(r"^(\*\*[A-Z_]+\*\*[^·]*) · [^·]*( ·.*)", r"\1 · WORD\2"),
    "judge reworded": reworded(r"^(\*\*[A-Z_]+\*\*.*·.*)$", r"\1 WORD", "read"),
    "history reworded": reworded(r"· repeat of", r"· WORD of"),
    "reasoning reworded": reworded(r"^- (?!Error)[A-Z][^|·]*\.$", r"- WORD, in my own words."),
    "quotation reworded": reworded(r"^(.*)  (?:#|//) output", r"WORD  # output"),
    "pattern renamed": reworded(r"^- \*\*[\w ]+\*\* \(", r"- **WORD** ("),
    "recommendation reworded": reworded(r"^(\| R\d+ \| \w+ \|) [^|]* \|", r"\1 WORD |"),
    "recommendation's head reworded": reworded(r"^\| (R\d+) \| \w+ \|", r"| \1 | WORD |"),
    "remark reworded": reworded(r"^\|  \| (model|no action) \| ", r"|  | \1 | WORD "),
    "word in the middle of the reasoning": reworded(r"^- (?!Error)([A-Z]\w* )([^|·]*\.)$", r"- \1WORD \2"),
    "actions moved up": actions_moved_up,
    "label deleted": deleted("label", "merged"),
    "below the label": below_the_label,
    "above the label": above_the_label,
    "below the reasoning": below_the_reasoning,
    "own pattern": own_pattern,
    "note edited": note_of_a_note(lambda line, said: f"{line} {said}"),
    "note continued": note_of_a_note(lambda line, said: f"{line}\n{said}"),
    "note replaced": note_of_a_note(lambda _line, said: f"> {said}"),
    "note deleted": note_of_a_note(lambda _line, _said: None),
    "own finding": own_finding,
    "own column": own_column,
    "action taken": action,
    **{f"label {name}": label_as(*how) for name, how in LABELS.items()},
    "label and a comment": label_with("**LABEL**TAIL WORD"),
    "label and a reason": label_with("**LABEL** because WORD"),
    "label and a dash": label_with("**LABEL** – WORD"),
    "label and a reason below": label_with("**LABEL**TAIL\nWORD"),
    "label in a line of its own": label_with("**LABEL**\n\nTAIL", "merged"),
    "label alone": label_with("**LABEL**"),
    "label behind the heading": label_as(str, "refused", where="heading"),
    **{
        f"label {name} behind the heading": label_as(how, "either", where="heading")
        for name, (how, _) in LABELS.items()
    },
    **{f"reviewer: {name}": reviewer(*how) for name, how in REVIEWER.items()},
}


def judge(kind: str, seed: str, report: Report, base: Base, *, again: bool) -> Outcome | None:
    """Return what the next analysis does with an edit; None if the page has no place for such an edit.

    Raises `AssertionError` if text is lost, misread, or refused with a line far from the edit.

    Args:
        kind: One of `KINDS`.
        seed: Seed that determines the place and the words of the edit.
        report: The report before the edit.
        base: Where the original page is found.
        again: True if the next analysis gives the same verdicts.
    """
    first = first_analysis(report)
    written = of_another_version(first.page) if base == "store" else first.page
    edit = KINDS[kind](Page(written, report), random.Random(seed))
    if edit is None:
        return None
    text, bases = edit.text, (written,)
    if base == "unknown":
        text, bases = text.replace(digest(written), "sha256:0123456789abcdef"), ()
    new = report if again else first.judged_anew
    source = PageSource(name=NAME, text=text, data=first.data)
    outcome: MergedReport | UnreadableReport | UnmergedEdits
    try:
        outcome = merge_report(new, source.text, read_page(source, bases))
    except (UnreadableReport, UnmergedEdits) as error:
        outcome = error
    if isinstance(outcome, UnmergedEdits):
        assert edit.fate in ("merged", "either"), f"has to be read: {outcome}"
        assert edit.fate == "either" or not again or base == "unknown", f"has to be merged: {outcome}"
        assert re.search(r"lines? \d", str(outcome))
        check_report(edit, carry_over(new, read_page(source, bases)))
        return "beside"
    if isinstance(outcome, UnreadableReport):
        assert edit.fate in ("refused", "either"), f"has to be read: {outcome}"
        assert near(edit, outcome.lines), f"refused far from {edit.near}: {outcome}"
        return "refused"
    check_page(edit, new, outcome)
    return "same" if not outcome.changed else "read" if edit.fate == "read" else "merged"


class FirstAnalysis(NamedTuple):
    """What an analysis wrote before the edits, and the report of a next analysis with other verdicts."""

    page: str
    data: str
    judged_anew: Report


@cache
def first_analysis(report: Report) -> FirstAnalysis:
    return FirstAnalysis(render(report), write_data(analysis_from_report(report)), judged_anew(report))


def digest(text: str) -> str:
    return re.findall(r"^written: (.*)$", text, re.MULTILINE)[0]


def of_another_version(text: str) -> str:
    """Return the page in the wording of another version of evalscribe."""
    other = text.replace("\nAs run ", "\nAs it ran ", 1)
    return other.replace(digest(text), page_digest(other), 1)


def judged_anew(report: Report) -> Report:
    """Return the report with a different verdict on every finding."""
    order = [*CLASSIFICATIONS, CLASSIFICATIONS[0]]
    entries = []
    for entry in report.entries:
        if entry.judge is None:
            entries.append(replaced(entry, notes=(), reviewer=()))
            continue
        label = order[order.index(entry.judge.classification) + 1]
        opinion = replaced(entry.judge, classification=label, confidence=0.33)
        fields = {
            "classification": label,
            "judge": opinion,
            "why": "so",
            "reasoning": "Another thought.",
            "cause": "new",
        }
        entries.append(replaced(entry, **fields, notes=(), reviewer=(), uncertain=False))
    return replaced(report, entries=tuple(entries), notes=(), actions_taken="")


def check_report(edit: Edit, report: Report) -> None:
    """Check that the labels of the edit are in force, and that the report's data can be read back."""
    for path, label in edit.labels.items():
        entry = next(entry for entry in report.entries if path in entry.paths)
        assert entry.classification == label, f"{path} is {entry.classification}, not {label}"
        assert entry.reviewed, f"{path} is not reviewed"
    assert report_from_analysis(read_data(write_data(analysis_from_report(report)), DATA)) == report


def check_page(edit: Edit, new: Report, merged: MergedReport) -> None:
    """Check that no text is lost, that labels are in force, and that another merge changes nothing."""
    assert edit.fate != "refused", "has to be refused"
    lost = [said for said in edit.words if bare(said) not in bare(merged.text)]
    assert not lost, f"lost: {lost}"
    check_report(edit, merged.report)
    source = PageSource(name=NAME, text=merged.text, data=write_data(analysis_from_report(merged.report)))
    for bases in ((render(merged.report),), ()):
        edits = read_page(source, bases)
        assert edits.report == merged.report, "what was written is not what was meant"
        assert not merge_report(new, source.text, edits).changed, "it changes again"


def near(edit: Edit, lines: tuple[int, ...]) -> bool:
    first, last = (min(edit.near), max(edit.near)) if edit.near else (1, 1)
    return any(first - NEAR <= line <= last + NEAR for line in lines)


def bare(text: str) -> str:
    return " ".join(re.sub(r"[>*`\\|]", " ", text).split())
