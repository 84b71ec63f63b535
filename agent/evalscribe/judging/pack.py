"""Select the evidence that a judge reads first: excerpts of code, log, grader and transcript within a token budget."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from evalscribe.evidence import log as errors
from evalscribe.evidence.differences import DiffHunk, DocumentPair, at_positions, diff_hunks, pair_documents, positions
from evalscribe.evidence.locate import locate_all, tests
from evalscribe.evidence.log import failed_log, names_build, names_lint, names_tests
from evalscribe.judging import prompt_text
from evalscribe.judging.rules.transcripts import AnsweredCall, LocatedTurn, Transcripts
from evalscribe.model.evidence import (
    Diagnosis,
    Document,
    Evidence,
    Excerpt,
    LocatedError,
    OutputLine,
    PackedEvidence,
    PreparedFailure,
    Role,
)
from evalscribe.model.finding import Failure
from evalscribe.model.tool_calls import changes_state
from evalscribe.text import cut, printable

MAX_LINE = 600
"""Maximum characters of a line of evidence in a prompt."""
MAX_TASK_LINE = 4000
"""Maximum characters of a line in a task.

This limit is higher than for other lines, because the instruction of a simulated user is a single line, often with the
request at the end.
"""
LONGEST_PATH = 200
NEAR = 2
"""Maximum number of lines between two ranges that are joined into one excerpt."""
BOILERPLATE = ("readme", "license", "changelog", "tsconfig", ".gitignore", ".npmrc", ".env")
GENERATED = (".lock", ".lockb", "-lock.json", "-lock.yaml", ".map", ".min.js", ".snap", ".sqlite3", ".blob")

Range = tuple[int, int]
"""First and last line of a range, counted from 1."""


def is_boilerplate(path: str) -> bool:
    """Return whether a file is probably similar in every eval, such as a readme, a licence or a lock file."""
    name = path.rpartition("/")[2].lower()
    return name.startswith(BOILERPLATE) or name.endswith((*GENERATED, ".md", ".log"))


def printable_path(path: str) -> str:
    """Return an untrusted path on a single line, cut to `LONGEST_PATH` characters."""
    return cut(printable(path[: LONGEST_PATH + 1]), LONGEST_PATH)


def clip_line(line: str, longest: int = MAX_LINE) -> str:
    if len(line) <= longest:
        return line
    return f"{line[:longest]}… [{len(line) - longest} more characters]"


def longest_line(role: Role) -> int:
    """Return the maximum characters that are shown of each line of a document with this role."""
    return MAX_TASK_LINE if role == "task" else MAX_LINE


def excerpts(document: Document, ranges: Iterable[Range], *, near: int = NEAR) -> Iterator[Excerpt]:
    """Yield an excerpt of a document for each range of lines, in order.

    Ranges that are at most `near` lines apart are joined into one excerpt.
    """
    for first, last in merge_ranges(ranges, document.line_count, near):
        longest = longest_line(document.role)
        text = "\n".join(clip_line(line, longest) for line in document.lines[first - 1 : last])
        if text.strip():
            yield Excerpt(role=document.role, path=document.path, first=first, text=text)


def merge_ranges(ranges: Iterable[Range], length: int, near: int = NEAR) -> list[Range]:
    """Clip the ranges to a document of `length` lines, sort them, and join ranges that are close."""
    merged: list[Range] = []
    for first, last in sorted((max(1, first), min(length, last)) for first, last in ranges):
        if last < first:
            continue
        if merged and first <= merged[-1][1] + near + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def head_range(document: Document, budget: int) -> Range:
    """Return the range of a document's first lines that fit in `budget` tokens; (1, 0) if not even one line fits."""
    return 1, fitting_lines(document.lines, budget, longest_line(document.role))


def fitting_lines(lines: Sequence[str], budget: int, longest: int = MAX_LINE) -> int:
    """Return how many of the first lines fit in `budget` tokens if each line is cut to `longest` characters."""
    tokens = 0
    for at, line in enumerate(lines):
        tokens += prompt_text.estimate_tokens(clip_line(line, longest)) + 1
        if tokens > budget:
            return at
    return len(lines)


AROUND = 4
"""Number of lines shown before and after a line to which an error points."""
MANIFESTS = ("package.json", "pyproject.toml", "requirements.txt", "setup.cfg", "cargo.toml", "go.mod")
MANIFEST_CONTEXT = 40
"""Number of unchanged lines shown around differences of manifests if the build failed.

Short manifests are thus shown in full.
"""
MANIFEST_BUDGET = 600
"""Maximum tokens of a manifest that is shown without differences."""
IMPORTS = ("import ", "from ", "use ", "#include ")
_LABELS = re.compile(r"""\s*["']?(?:name|version|description|author|license|keywords|private)["']?\s*[:=].*|\W*""")
"""Matches a line of a manifest that affects neither what is installed nor what is checked."""
FILE_BUDGET = 1500
"""Maximum tokens of an output file that has no reference file."""
BOILERPLATE_BUDGET = 200
"""Maximum tokens of the list of boilerplate files."""
MANY_FILES = 60
"""Maximum number of output files from which excerpts are shown."""
MANY_LINES = 500
"""Maximum number of lines that are read from a configuration file."""


class CodeDifferences(NamedTuple):
    text: str
    covered: dict[str, tuple[Range, ...]]
    """Ranges of the output's lines that `text` shows, by path of the file."""
    left_out: tuple[str, ...]


def code_differences(
    file_pairs: Sequence[DocumentPair], located: Sequence[LocatedError], budget: int, *, building: bool = False
) -> CodeDifferences:
    """Render the differences between output and reference: files with errors first, then code, then manifests.

    Files that only the output or only the reference has, and files that exceed the budget, are listed by name only.

    Args:
        file_pairs: Pairs of output and reference.
        located: Located errors. The files with these errors come first.
        budget: Maximum tokens.
        building: Whether installation, type check or build failed. After such a failure, manifests are shown with much
            context. After any other failure, a manifest is shown with little context, and only if more than names and
            descriptions differ.
    """
    pointed = {place.path for error in located for place in error.places}
    names = list(_file_lists(file_pairs, budget // 10))
    budget -= sum(prompt_text.estimate_tokens(line) + 1 for line in names)
    sections: list[str] = []
    covered: dict[str, tuple[Range, ...]] = {}
    left_out: list[str] = []
    for pair in sorted(file_pairs, key=lambda pair: _rank(pair, pointed)):
        if pair.output is None or pair.expected is None or is_boilerplate(pair.output.path):
            continue
        hunks = _hunks(pair, building)
        texts, shown_count = _fitting_hunks(pair, hunks, budget)
        budget -= sum(prompt_text.estimate_tokens(text) + 1 for text in texts)
        sections += texts
        covered[pair.output.path] = tuple(_lines(hunk) for hunk in hunks[:shown_count])
        if shown_count < len(hunks):
            left_out.append(
                f"{len(hunks) - shown_count} of {len(hunks)} differences in {printable_path(pair.output.path)}"
            )
    return CodeDifferences("\n".join([*sections, *names]), covered, (*left_out, *_boilerplate(file_pairs)))


def _hunks(pair: DocumentPair, building: bool) -> Sequence[DiffHunk]:
    """Return the hunks in which two files differ.

    If only names or descriptions differ in a manifest, there are no hunks unless the build failed.
    """
    if pair.output is None or not _is_manifest(pair.output.path):
        return diff_hunks(pair)
    if building:
        return diff_hunks(pair, context=MANIFEST_CONTEXT)
    hunks = diff_hunks(pair, context=1)
    changed = (line for hunk in hunks for change in hunk.changes for line in (*change.expected, *change.output))
    return hunks if any(not _LABELS.fullmatch(line[:MAX_LINE]) for line in changed) else ()


def code_excerpts(
    evidence: Evidence,
    file_pairs: Sequence[DocumentPair],
    located: Sequence[LocatedError],
    differences: CodeDifferences,
) -> list[Excerpt]:
    """Return the lines around errors that `differences` does not show, and the files that only the output has."""
    selected: list[Excerpt] = []
    places = tuple(place for error in located for place in error.places)
    unpaired = {id(p.output) for p in file_pairs if p.output and p.expected is None}
    for document in evidence.of("output")[:MANY_FILES]:
        ranges = list(_error_ranges(document, places, differences.covered.get(document.path, ())))
        if id(document) in unpaired and not is_boilerplate(document.path):
            ranges.append((1, fitting_lines(document.lines, FILE_BUDGET)))
        selected += excerpts(document, ranges)
    return selected


MOST_CONFIGURATIONS = 2
_CONFIGURATION = re.compile(
    r"(?:[jt]sconfig[\w.-]*\.json|\.?eslint(?:rc|\.config)[\w.]*|biome\.jsonc?|deno\.jsonc?|\.?ruff\.toml|\.?mypy\.ini"
    r"|pyrightconfig\.json|pyproject\.toml|setup\.cfg|tox\.ini|\.flake8|\.pylintrc|clippy\.toml|\.golangci\.ya?ml)",
    re.IGNORECASE,
)
"""Matches the name of a file that controls what type checkers and linters check."""
_DECIDES = re.compile(
    r"""\s*["']?(?:strict\w*|noUnused\w+|noImplicit\w+|noUnchecked\w+|noProperty\w+|noFallthrough\w+|noUncalled\w+
    |exactOptional\w+|useUnknown\w+|allowUn\w+|checkJs|types|extends|disallow_\w+|warn_\w+
    |no_implicit\w+|select|extend-select|ignore|extend-ignore|plugins|typeCheckingMode|report\w+)["']?\s*[:=]""",
    re.VERBOSE,
)
"""Matches a line of a configuration file that affects what type checkers and linters report as an error."""


def manifest_excerpts(file_pairs: Sequence[DocumentPair]) -> Iterator[Excerpt]:
    """Yield excerpts of the manifests that the differences do not show.

    A manifest that is equal in output and reference is shown once. A manifest that only the reference has is also
    shown.
    """
    for pair in file_pairs:
        document = pair.output or pair.expected
        if document is None or not _is_manifest(document.path):
            continue
        if pair.output is None or _equal(pair):
            yield from excerpts(document, [head_range(document, MANIFEST_BUDGET)])


def configuration_excerpts(evidence: Evidence, located: Sequence[LocatedError]) -> Iterator[Excerpt]:
    """Yield the lines of configuration files that control what is checked.

    The configuration files nearest to the files with errors come first. A configuration file of the reference is only
    used if the output has no file at the same path.
    """
    output = {document.path for document in evidence.of("output")}
    documents = [
        document
        for document in evidence.of("output", "grader", "task", "expected")
        if _CONFIGURATION.fullmatch(document.path.rpartition("/")[2])
        and not (document.role == "expected" and document.path in output)
    ]
    folders = {place.path.rpartition("/")[0] for error in located for place in error.places}
    # Configuration files name lint rules, but never the codes of TypeScript's errors.
    names = {error.code for error in located if error.code and error.tool != "tsc"}
    if any(place.path.endswith(("tsx", "jsx")) for error in located for place in error.places):
        # The compiler option `jsx` decides whether such a file compiles.
        names.add('"jsx"')

    def distance(document: Document) -> tuple[bool, int]:
        folder = document.path.rpartition("/")[0]
        has_errors = any(
            error_folder == folder or error_folder.startswith(f"{folder}/") or not folder for error_folder in folders
        )
        return not has_errors, -len(folder)

    for document in sorted(documents, key=distance)[:MOST_CONFIGURATIONS]:
        deciding = (
            number
            for number, line in enumerate(document.lines[:MANY_LINES], 1)
            if _DECIDES.match(line[:MAX_LINE]) or any(name in line[:MAX_LINE] for name in names)
        )
        yield from excerpts(document, ((number, number) for number in deciding), near=1)


def _rank(pair: DocumentPair, pointed: set[str]) -> tuple[bool, bool, int]:
    path = pair.output.path if pair.output else ""
    return path not in pointed, _is_manifest(path), path.count("/")


def _is_manifest(path: str) -> bool:
    return path.rpartition("/")[2].lower() in MANIFESTS


def _fitting_hunks(pair: DocumentPair, hunks: Sequence[DiffHunk], budget: int) -> tuple[list[str], int]:
    """Render the two files' names and the hunks that fit in the budget.

    Return the rendered texts and the number of hunks that fit.
    """
    if not hunks or pair.output is None or pair.expected is None:
        return [], 0
    expected, output = printable_path(pair.expected.path), printable_path(pair.output.path)
    texts = [f"=== {output}" if output == expected else f"--- {expected}\n+++ {output}"]
    tokens = prompt_text.estimate_tokens(texts[0]) + 1
    for at, hunk in enumerate(hunks):
        text = "\n".join(
            [*(["…"] if at else []), *(clip_line(line) for line in _printable_hunk_lines(hunk, _is_manifest(output)))]
        )
        tokens += prompt_text.estimate_tokens(text) + 1
        if tokens > budget:
            return (texts if at else []), at
        texts.append(text)
    return texts, len(hunks)


def _printable_hunk_lines(hunk: DiffHunk, manifest: bool) -> Iterator[str]:
    """Yield the lines of a hunk, without blank lines. An import that was only moved is yielded once.

    For a manifest, omit lines that affect neither what is installed nor what is checked.
    """
    removed = {text: (change.expected_first + n) for change in hunk.changes for n, text in enumerate(change.expected)}
    added = {text: (change.output_first + n) for change in hunk.changes for n, text in enumerate(change.output)}
    moved = {text for text in removed.keys() & added.keys() if text.startswith(IMPORTS)}
    for line in hunk.lines:
        number, _, text = line.partition("| ")
        if text in moved and line[0] in "-+":
            if line[0] == "+":
                yield f"{removed[text]}={number[1:]}| {text}"
        elif text.strip() and not (manifest and _LABELS.fullmatch(text[:MAX_LINE])):
            yield line


def _lines(hunk: DiffHunk) -> Range:
    """Return the range of the output's lines that a hunk shows."""
    line_count = sum(not line.startswith("-") for line in hunk.lines)
    return hunk.output_first, hunk.output_first + line_count - 1


def _error_ranges(document: Document, places: Iterable[OutputLine], covered: Iterable[Range]) -> Iterator[Range]:
    covered = tuple(covered)
    for place in places:
        is_covered = any(first <= place.line <= last for first, last in covered)
        if place.path == document.path and not is_covered:
            yield place.line - AROUND, place.line + AROUND


def _file_lists(file_pairs: Sequence[DocumentPair], budget: int) -> Iterator[str]:
    """Yield lists of the files that only the reference has, that only the output has, and that are equal in both.

    Each list fits in the budget.
    """
    missing = [
        p.expected for p in file_pairs if p.output is None and p.expected and not is_boilerplate(p.expected.path)
    ]
    yield from _list(
        "Only in the reference, not printed", [f"{printable_path(d.path)} ({_size(d)})" for d in missing], budget
    )
    added = [p.output for p in file_pairs if p.expected is None and p.output and not is_boilerplate(p.output.path)]
    yield from _list("Only in the output", [f"{printable_path(d.path)} ({_size(d)})" for d in added], budget)
    equal = [p.output for p in file_pairs if p.output and _equal(p)]
    yield from _list("Equal in both", [printable_path(d.path) for d in equal if not is_boilerplate(d.path)], budget)


def _equal(pair: DocumentPair) -> bool:
    if pair.output is None or pair.expected is None:
        return False
    return pair.output.text == pair.expected.text or [line.rstrip() for line in _written_lines(pair.output)] == [
        line.rstrip() for line in _written_lines(pair.expected)
    ]


def _written_lines(document: Document) -> Sequence[str]:
    return document.lines[: document.line_count]


def _list(title: str, names: Sequence[str], budget: int) -> Iterator[str]:
    """Yield one line with the names that fit and the number of other names. Yield nothing if the title does not fit."""
    count = fitting_lines(names, budget - prompt_text.estimate_tokens(title) - 8)
    remainder = f" and {len(names) - count} more" if count < len(names) else ""
    if names and budget > prompt_text.estimate_tokens(title) + 8:
        yield f"{title}: {', '.join(names[:count])}{remainder}"


def _size(document: Document) -> str:
    # `line_count` would not count a last empty line. But a changed prompt is a new question, so users would pay again
    # for verdicts that are already stored.
    return f"{len(document.lines)} lines"


def _boilerplate(file_pairs: Sequence[DocumentPair]) -> Iterator[str]:
    """Yield one line that names the boilerplate files of output and reference, if there are any."""
    paths = [document.path for pair in file_pairs if (document := pair.output or pair.expected)]
    yield from _list(
        "boilerplate", [printable_path(path) for path in paths if is_boilerplate(path)], BOILERPLATE_BUDGET
    )


MAX_BLOCK = 120
"""Maximum number of lines that are shown of one test."""
MOST_TESTS = 20
UNNAMED_BUDGET = 500
"""Maximum tokens shown of the beginning of a grader, if no failed test is found in the graders."""
_CLOSER = re.compile(r"\s*[)\]}]")


def grader_excerpts(evidence: Evidence, names: Sequence[str]) -> list[Excerpt]:
    """Return the source of each named test once. If no named test is found, return the beginning of a grader."""
    graders = [document for document in evidence.of("grader") if not _is_prose(document)]
    selected: list[Excerpt] = []
    for grader in graders:
        selected += excerpts(grader, _blocks(grader, names))
    if not selected and graders:
        selected += excerpts(graders[0], [head_range(graders[0], UNNAMED_BUDGET)])
    return selected


def _is_prose(document: Document) -> bool:
    """Return whether a document is written for people, such as a readme beside the grader."""
    name = document.path.rpartition("/")[2].lower()
    return name.startswith("readme") or name.endswith((".md", ".rst"))


def _blocks(grader: Document, names: Sequence[str]) -> Iterator[Range]:
    for name in islice(dict.fromkeys(_test_name(name) for name in names), MOST_TESTS):
        at = _line_of(grader.lines, name)
        if at is not None:
            yield _block(grader.lines, at)


def _test_name(name: str) -> str:
    """Return the name of a test without its suites and parameters."""
    # These are the separators of vitest, Jest and pytest.
    test = re.split(r" > | › |::", name)[-1]
    return re.sub(r"\[.*\]$", "", test).strip()


def _line_of(lines: Sequence[str], name: str) -> int | None:
    """Return the index of the first line that contains the name of a test; None if no line does.

    The name must not be part of a longer word.
    """
    if not name:
        return None
    pattern = re.compile(rf"(?<!\w){re.escape(name[:300])}(?!\w)")
    return next((at for at, line in enumerate(lines) if name[:300] in line and pattern.search(line[:2000])), None)


def _block(lines: Sequence[str], at: int) -> Range:
    """Return the range of the indented block that begins on a line, including the decorators above it.

    The block ends with its last more deeply indented line, or with the closing bracket below that line.
    """
    first = at
    # A formatter can put the title of a test on a line of its own, below the call that begins the test.
    while first > 0 and lines[first].lstrip().startswith(('"', "'", "`")) and _indent(lines[first]) > 0:
        first -= 1
    depth, last = _indent(lines[first]), first
    for below in range(at + 1, min(len(lines), first + MAX_BLOCK)):
        if lines[below].strip() and _indent(lines[below]) <= depth:
            last = below if _CLOSER.match(lines[below]) else last
            break
        last = below if lines[below].strip() else last
    while first > 0 and lines[first - 1].lstrip().startswith("@"):
        first -= 1
    return first + 1, last + 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


TAIL = 8
"""Number of lines shown from the end of the failed step's log if no error is located in the log."""
TAIL_OF_OTHERS = 4
"""Number of lines shown from the end of the log of every other failed step that has no located error."""
ALIKE = 2
"""Maximum number of errors shown that differ only in numbers and ids."""
ERRORS = 12
FIRST_LINE = 240
"""Maximum characters shown of the first line of a long error that has several lines.

The limit is low because the end of such an error is more informative.
"""
EXPLANATION = 720
"""Maximum characters shown of the end of a long error that has several lines."""


def log_excerpts(evidence: Evidence, diagnosis: Diagnosis) -> list[Excerpt]:
    """Return the log lines that explain the failure.

    For the failed step of the eval, the lines about failed tests are returned, with the test runner's counts. If no
    test failed, the lines of the located errors are returned. If no error is located, the end of the log is returned.
    Lines about every other failed step are selected in the same way and appended.
    """
    selected = _step_excerpts(evidence, diagnosis, TAIL)
    for step in evidence.steps:
        if step.status == "failed" and step.name != evidence.eval.failed_step:
            # The errors of this step are located as if the step were the failed step of the eval.
            step_eval = evidence.eval.model_copy(update={"failed_step": step.name, "reason": step.error})
            step_evidence = evidence.model_copy(update={"eval": step_eval})
            step_excerpts = _step_excerpts(step_evidence, Diagnosis(errors=locate_all(step_evidence)), TAIL_OF_OTHERS)
            selected += _without_repeats(step_excerpts, selected)
    return selected


def _step_excerpts(evidence: Evidence, diagnosis: Diagnosis, tail: int) -> list[Excerpt]:
    part = failed_log(evidence)
    log = evidence.document("log", part.path) if part else None
    if part is None or log is None:
        return []
    at_tests = names_tests(evidence.eval.failed_step) and any(error.test for error in diagnosis.errors)
    spans = list(_tests(diagnosis) if at_tests else _errors(diagnosis.errors))
    if not spans:
        last = part.first + len(part.text.rstrip().split("\n")) - 1
        spans = [(max(part.first, last - tail + 1), last)]
    headings = {first for first, last in spans if _too_long(log.lines[first - 1 : last])}
    ranges = [part_range for first, last in spans for part_range in _parts(log, first, last)]
    selected = []
    for first, last in merge_ranges(ranges, len(log.lines), 0):
        lines = [
            clip_line(log.lines[number - 1], FIRST_LINE if number in headings else MAX_LINE)
            for number in range(first, last + 1)
        ]
        selected.append(Excerpt(role=log.role, path=log.path, first=first, text="\n".join(lines)))
    return selected


def _too_long(lines: Sequence[str]) -> bool:
    return len(lines) > 1 and sum(map(len, lines)) > FIRST_LINE + EXPLANATION


def _parts(log: Document, first: int, last: int) -> Iterator[Range]:
    """Yield the lines of an error. If the error is long, yield only its first line and the end of its explanation."""
    if not _too_long(log.lines[first - 1 : last]):
        yield first, last
        return
    yield first, first
    start, size = last, len(log.lines[last - 1])
    while start > first + 1 and size + len(log.lines[start - 2]) <= EXPLANATION:
        start -= 1
        size += len(log.lines[start - 1])
    yield start, last


def _without_repeats(candidates: Iterable[Excerpt], selected: Sequence[Excerpt]) -> list[Excerpt]:
    selected_lines = {(excerpt.path, number) for excerpt in selected for number in _numbers(excerpt)}
    return [
        excerpt
        for excerpt in candidates
        if not any((excerpt.path, number) in selected_lines for number in _numbers(excerpt))
    ]


def _numbers(excerpt: Excerpt) -> range:
    return range(excerpt.first, excerpt.first + excerpt.text.count("\n") + 1)


def _errors(located: Sequence[LocatedError]) -> Iterator[Range]:
    counts: dict[str, int] = {}
    for error in located:
        normalised = errors.normalise_error(error.error)
        counts[normalised] = counts.get(normalised, 0) + 1
        if error.citation and counts[normalised] <= ALIKE and len(counts) <= ERRORS:
            yield error.citation.first, error.citation.last


def _tests(diagnosis: Diagnosis) -> Iterator[Range]:
    """Yield the line ranges of the failed tests and of the test runner's counts.

    If several tests have the same message, the message is only shown for the first of these tests.
    """
    messages = {
        error.test: errors.normalise_error(error.error.removeprefix(f"{error.test}: ")) for error in diagnosis.errors
    }
    shown: set[str] = set()
    for failure in diagnosis.tests.failures[:MOST_TESTS]:
        message = messages.get(failure.name) or errors.normalise_error(failure.message)
        shows_message = message not in shown and len(shown) < ERRORS
        shown.add(message)
        yield failure.citation.first, failure.citation.last if shows_message else failure.citation.first
    if summary := diagnosis.tests.summary:
        yield summary.first, summary.last


LAST_TURNS = 3
MOST_OF_TURN = 25
"""Maximum number of lines that are shown of one turn in a transcript."""
MOST_OF_CALL = 14
MOST_OF_ANSWER = 3
MOST_RANGES = 500


def transcript_excerpts(evidence: Evidence, budget: int) -> list[Excerpt]:
    """Return all transcripts in full if they fit in the budget.

    Otherwise, return the most important lines of each transcript in order.
    """
    documents = evidence.of("transcript")
    total_tokens = sum(_cost(document, (1, len(document.lines))) for document in documents)
    if total_tokens <= budget:
        return [excerpt for document in documents for excerpt in excerpts(document, [(1, len(document.lines))])]
    transcripts = Transcripts(evidence)
    selected: list[Excerpt] = []
    for document in documents:
        selected += excerpts(
            document, _fitting_ranges(document, _relevant_turns(transcripts, document), budget // len(documents))
        )
    return selected


def _relevant_turns(transcripts: Transcripts, document: Document) -> Iterator[Range]:
    """Yield ranges of a transcript's lines, the most important range first."""
    turns = [turn for turn in transcripts.turns if turn.document is document]
    calls = [call for call in transcripts.calls if call.call.document is document]
    yield from (_turn_range(turn) for turn in reversed(turns[-LAST_TURNS:]))
    # The system turn can contain the rules that the agent must follow, as in tau-bench.
    yield from (_turn_range(turn) for role in ("user", "system") for turn in turns if turn is _first_turn(turns, role))
    yield from (place for call in calls if changes_state(call.action.tool) for place in _call_ranges(call))
    yield from (place for call in calls if call.failed for place in _call_ranges(call))
    yield from (
        _turn_range(turn) for turn in turns if turn.turn.role in ("user", "assistant") and turn.turn.kind == "says"
    )
    yield from (place for call in calls for place in _call_ranges(call))


def _first_turn(turns: Iterable[LocatedTurn], role: str) -> LocatedTurn | None:
    return next((turn for turn in turns if turn.turn.role == role), None)


def _turn_range(turn: LocatedTurn, max_lines: int = MOST_OF_TURN) -> Range:
    return turn.turn.first, min(turn.turn.last, turn.turn.first + max_lines)


def _call_ranges(call: AnsweredCall) -> Iterator[Range]:
    yield _turn_range(call.call, MOST_OF_CALL)
    if call.answer:
        yield _turn_range(call.answer, MOST_OF_ANSWER)


def _fitting_ranges(document: Document, ranges: Iterable[Range], budget: int) -> list[Range]:
    """Return the first ranges that fit in the budget.

    The last range can be cut. A line that is in several ranges is counted only once.
    """
    selected: list[Range] = []
    counted: set[int] = set()
    for first, last in ranges:
        new = [n for n in range(first, last + 1) if n not in counted]
        count = fitting_lines([document.lines[n - 1] for n in new], budget)
        if count:
            budget -= sum(prompt_text.estimate_tokens(clip_line(document.lines[n - 1])) + 1 for n in new[:count])
            counted.update(new[:count])
            selected.append((first, new[count - 1]))
        if count < len(new) or len(selected) >= MOST_RANGES:
            break
    return selected


def _cost(document: Document, span: Range) -> int:
    return sum(prompt_text.estimate_tokens(clip_line(line)) + 1 for line in document.lines[span[0] - 1 : span[1]])


BUDGET = 6000
"""Maximum tokens of the packed evidence of one failure."""
MOST_LEFT_OUT = 30
SHARES = {
    "log": 0.25,
    "known_gaps": 0.1,
    "task": 0.2,
    "grader": 0.2,
    "configuration": 0.04,
    "prose": 0.04,
    "differences": 0.5,
    "expected": 0.15,
    "transcript": 0.6,
}
"""Maximum share of the budget for each kind of evidence.

The shares add up to more than one, because few failures have much evidence of every kind.
"""


def prepare(evidence: Evidence) -> PreparedFailure:
    """Locate the errors, match the output with the reference and pack the evidence."""
    diagnosis = diagnose(evidence)
    return PreparedFailure(digest=evidence.digest, diagnosis=diagnosis, packed=pack(evidence, diagnosis=diagnosis))


def case_of(evidence: Evidence, prepared: PreparedFailure | None = None) -> Failure:
    """Build the `Failure` without its history.

    If `prepared` is None or was prepared from other evidence, the evidence is prepared again.
    """
    if prepared is None or prepared.digest != evidence.digest:
        prepared = prepare(evidence)
    return Failure(evidence=evidence, packed=prepared.packed, diagnosis=prepared.diagnosis)


def diagnose(evidence: Evidence) -> Diagnosis:
    return Diagnosis(
        errors=locate_all(evidence), tests=tests(evidence), pairs=positions(evidence, pair_documents(evidence))
    )


def pack(evidence: Evidence, budget: int = BUDGET, *, diagnosis: Diagnosis | None = None) -> PackedEvidence:
    """Select the most important evidence within the budget. The rest is named in the result's `left_out`.

    Args:
        evidence: Evidence of the failure.
        budget: Maximum tokens.
        diagnosis: Diagnosis of the evidence; None to compute it.
    """
    diagnosis = diagnosis or diagnose(evidence)
    file_pairs = at_positions(evidence, diagnosis.pairs)
    building = any(names_build(name) for name in _failed_steps(evidence))
    differences = code_differences(file_pairs, diagnosis.errors, int(budget * SHARES["differences"]), building=building)
    selected, shortened = _fit_budget(
        _candidates(evidence, diagnosis, file_pairs, differences, budget),
        budget - prompt_text.estimate_tokens(differences.text),
    )
    left_out = (*evidence.missing, *_omitted_documents(evidence, selected), *differences.left_out, *shortened)
    return PackedEvidence(
        excerpts=tuple(selected),
        differences=differences.text,
        left_out=_limit_phrases(dict.fromkeys(left_out)),
        tokens=prompt_text.estimate_tokens(differences.text)
        + sum(prompt_text.estimate_tokens(excerpt.text) for excerpt in selected),
    )


def _limit_phrases(phrases: Collection[str]) -> tuple[str, ...]:
    remaining_count = len(phrases) - MOST_LEFT_OUT
    return (*islice(phrases, MOST_LEFT_OUT), *([f"and {remaining_count} more"] if remaining_count > 0 else []))


def _candidates(
    evidence: Evidence,
    diagnosis: Diagnosis,
    file_pairs: Sequence[DocumentPair],
    differences: CodeDifferences,
    budget: int,
) -> Iterator[tuple[Excerpt, int]]:
    """Yield excerpts of all evidence, the most important first, each with its maximum number of tokens."""
    for excerpt in log_excerpts(evidence, diagnosis):
        yield excerpt, int(budget * SHARES["log"])
    for excerpt in _document_starts(evidence, "known_gaps", int(budget * SHARES["known_gaps"])):
        yield excerpt, budget
    for excerpt in _document_starts(evidence, "task", int(budget * SHARES["task"])):
        yield excerpt, budget
    # Without a transcript, the output consists of files, and the differences show what the reference contains.
    if evidence.of("transcript"):
        for excerpt in _document_starts(evidence, "expected", int(budget * SHARES["expected"])):
            yield excerpt, budget
        for excerpt in transcript_excerpts(evidence, int(budget * SHARES["transcript"])):
            yield excerpt, budget
    for excerpt in code_excerpts(evidence, file_pairs, diagnosis.errors, differences):
        yield excerpt, budget
    failed_steps = _failed_steps(evidence)
    if any(names_build(name) for name in failed_steps):
        for excerpt in manifest_excerpts(file_pairs):
            yield excerpt, MANIFEST_BUDGET
    if any(names_build(name) or names_lint(name) for name in failed_steps):
        for excerpt in configuration_excerpts(evidence, diagnosis.errors):
            yield excerpt, int(budget * SHARES["configuration"])
    if names_tests(evidence.eval.failed_step):
        names = [failure.name for failure in diagnosis.tests.failures]
        for excerpt in grader_excerpts(evidence, names):
            yield excerpt, int(budget * SHARES["grader"])
    for document in evidence.of("grader"):
        if _is_prose(document):
            for excerpt in excerpts(document, [head_range(document, int(budget * SHARES["prose"]))]):
                yield excerpt, budget


def _failed_steps(evidence: Evidence) -> list[str]:
    recorded = [step.name for step in evidence.steps if step.status == "failed"]
    return list(dict.fromkeys([*([evidence.eval.failed_step] if evidence.eval.failed_step else []), *recorded]))


def _document_starts(evidence: Evidence, role: str, budget: int) -> Iterator[Excerpt]:
    """Yield the beginning of each document with this role, with at most `budget` tokens each."""
    for document in evidence.documents:
        if document.role == role and document.text.strip():
            yield from excerpts(document, [head_range(document, budget)])


def _fit_budget(candidates: Iterator[tuple[Excerpt, int]], budget: int) -> tuple[list[Excerpt], list[str]]:
    """Return the excerpts that fit in the budget, and descriptions of the output's lines that do not fit.

    An excerpt that only partly fits is cut.
    """
    selected: list[Excerpt] = []
    shortened: list[str] = []
    for excerpt, max_tokens in candidates:
        lines = excerpt.text.split("\n")
        count = fitting_lines(lines, min(max_tokens, budget), longest_line(excerpt.role))
        # `_omitted_documents` reports the missing lines of documents with other roles.
        if count < len(lines) and excerpt.role == "output":
            first, last = excerpt.first + count, excerpt.first + len(lines) - 1
            shortened.append(f"output {printable_path(excerpt.path)}: lines {first}-{last}")
        if count:
            selected.append(excerpt.model_copy(update={"text": "\n".join(lines[:count])}))
            budget -= sum(prompt_text.estimate_tokens(line) + 1 for line in lines[:count])
    return selected, shortened


def _omitted_documents(evidence: Evidence, selected: Sequence[Excerpt]) -> Iterator[str]:
    """Yield the name of each document that is not shown in full, with the number of lines that are not shown.

    Documents of the output and of the reference are not included.
    """
    for document in evidence.of("grader", "log", "task", "known_gaps", "transcript"):
        shown_lines = {
            number
            for excerpt in selected
            if excerpt.role == document.role and excerpt.path == document.path
            for number in _numbers(excerpt)
        }
        total = document.line_count
        hidden_count = total - len(shown_lines & set(range(1, total + 1)))
        if hidden_count and document.text.strip():
            yield f"{document.role} {printable_path(document.path)}: {hidden_count} of {total} lines not shown"
