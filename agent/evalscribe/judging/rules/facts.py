"""Facts about one failure, and the decision of a rule.

Most facts are computed on first use. The module's functions read the grader's tests and the imports of the output.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise, takewhile
from typing import Literal, NamedTuple

from evalscribe.evidence import differences, locate
from evalscribe.judging.rules import code
from evalscribe.judging.rules.code import basename
from evalscribe.judging.rules.transcripts import Transcripts
from evalscribe.model import evidence
from evalscribe.model.evidence import Citation, Document, Evidence, Role
from evalscribe.model.finding import UNCERTAIN_CONFIDENCE, CauseKind, Classification, Failure

CheckKind = Literal["install", "lint", "build", "tests", "other"]
CHECK_TOOLS: dict[str, CheckKind] = {
    **dict.fromkeys(("eslint", "ruff", "flake8", "pylint", "biome", "clippy", "rubocop", "golangci-lint"), "lint"),
    **dict.fromkeys(("tsc", "mypy", "pyright", "javac", "rustc", "esbuild", "bundler", "go"), "build"),
    **dict.fromkeys(("vitest", "jest", "pytest", "unittest", "mocha", "go test", "cargo test"), "tests"),
    **dict.fromkeys(("pip", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "cargo"), "install"),
}
CHECK_WORDS: tuple[tuple[CheckKind, tuple[str, ...]], ...] = (
    ("lint", ("lint", "style", "format", "ruff", "flake8")),
    # These words precede the words of tests, because one of the latter is `check`.
    ("build", ("typecheck", "type-check", "type_check", "type check")),
    ("tests", ("test", "spec", "check", "score", "grade")),
    ("install", ("install", "depend", "setup", "environment")),
    ("build", ("build", "compile", "deploy", "type", "tsc", "mypy", "push")),
)
"""Words that identify the kind of a step. The first kind with a word that occurs in the step's name is used."""


def check_kind(step: str | None, tool: str | None) -> CheckKind:
    """Return the kind of the failed check.

    The step's name has priority over the tool that printed the error, because tests can print compiler errors.
    """
    name = (step or "").lower()
    for kind_, words in CHECK_WORDS:
        if any(word in name for word in words):
            return kind_
    return CHECK_TOOLS.get(tool or "", "other")


DETAILS = 40
LONGEST_LINE = 2000
PROSE = (".md", ".txt", ".lock", ".log", ".rst")
MANIFESTS = (".json", ".toml", ".yaml", ".yml", ".cfg", ".ini")
"""Suffixes of files with settings and dependencies.

Names in such a file are taken into account, but its lines are not treated as wrong code.
"""


class CodeLine:
    """One line of code without comments, with its document and its number."""

    __slots__ = ("document", "folded", "number", "text")

    def __init__(self, document: Document, number: int, text: str) -> None:
        self.document, self.number, self.text = document, number, text[:LONGEST_LINE].strip()
        self.folded = code.fold(self.text)

    @property
    def is_code(self) -> bool:
        return not self.document.path.endswith(MANIFESTS)


class Facts:
    """Facts about one failed eval for the rules."""

    def __init__(self, case: Failure) -> None:
        self.case = case
        self.evidence = case.evidence
        self.counterparts: dict[tuple[Role, str, int], CodeLine | None] = {}
        """Cached results of `quote.counterpart`, by role, path and number of the line."""
        self._code: dict[tuple[Role, str], list[str]] = {}

    @cached_property
    def transcripts(self) -> Transcripts:
        return Transcripts(self.evidence)

    @cached_property
    def errors(self) -> tuple[evidence.LocatedError, ...]:
        """Located errors of the failed step, without warnings."""
        located = self.case.diagnosis.errors if self.case.diagnosis else locate.locate_all(self.evidence)
        return tuple(e for e in located if e.severity == "error")

    @cached_property
    def first(self) -> evidence.LocatedError | None:
        return self.errors[0] if self.errors else None

    @cached_property
    def outcome(self) -> evidence.TestOutcome:
        return self.case.diagnosis.tests if self.case.diagnosis else locate.tests(self.evidence)

    @cached_property
    def check(self) -> CheckKind:
        return check_kind(self.evidence.eval.failed_step, self.first.tool if self.first else None)

    @property
    def step_checks_types(self) -> bool:
        """True if the failed step only checks types and does not build."""
        return any(word in self.step.lower() for word in ("tsc", "type", "mypy", "pyright"))

    @cached_property
    def reads_files_only(self) -> bool:
        """True if tests run and all other steps only read files, so that nothing is installed or built."""
        kinds = [check_kind(step.name, None) for step in self.evidence.steps]
        return "tests" in kinds and set(kinds) <= {"tests", "other"}

    @cached_property
    def same_as_reference(self) -> bool:
        """True if the model's code equals the reference's code in every file, apart from formatting and comments."""
        unpaired = (pair.output or pair.expected for pair in self.matched if not (pair.output and pair.expected))
        if any(document and not document.path.endswith((*PROSE, *MANIFESTS)) for document in unpaired):
            return False
        return bool(self.output_lines and self.expected_lines) and not self.introduced and not self.left_out

    @property
    def step(self) -> str:
        return self.evidence.eval.failed_step or "the run"

    @cached_property
    def error_text(self) -> str:
        """Text of the failed step's errors and their details, and names and messages of the failed tests."""
        tests = (f"{test.name}\n{test.message}" for test in self.outcome.failures)
        details = (line for e in self.errors if e.citation for _, line in self.details(e.citation))
        return code.joined([*(f"{e.error} {e.code or ''}" for e in self.errors), *details, *tests])

    def details(self, citation: Citation) -> list[tuple[int, str]]:
        """Return the log lines of an error with their numbers.

        The lines end before the first blank line, because tools show code below it. For a build, the indented lines
        above the citation are included, because compilers print the general message first.
        """
        document = self.evidence.document(citation.role, citation.path)
        if document is None:
            return []
        lines, at = document.lines, citation.first - 1
        below = takewhile(lambda n: lines[n].strip(), range(at, min(at + DETAILS, len(lines))))
        above = takewhile(
            lambda n: lines[n].startswith(" ") and lines[n].strip(), range(at - 1, max(-1, at - DETAILS), -1)
        )
        numbers = [*(reversed(list(above)) if self.check == "build" else ()), *below]
        return [(n + 1, lines[n][:LONGEST_LINE]) for n in numbers]

    @cached_property
    def notes(self) -> tuple[code.GapNote, ...]:
        return code.parse_notes(self.evidence.of("known_gaps"))

    @cached_property
    def task(self) -> str:
        return code.joined(d.text for d in self.evidence.of("task"))

    @cached_property
    def grader(self) -> str:
        return code.joined(d.text for d in self.evidence.of("grader"))

    @cached_property
    def original(self) -> Evidence:
        """The evidence without output files that seem to be copies of a task, reference, grader or known-gaps
        document."""
        documents = tuple(_without_copies(self.evidence))
        if len(documents) == len(self.evidence.documents):
            return self.evidence
        return self.evidence.model_copy(update={"documents": documents})

    @cached_property
    def matched(self) -> tuple[differences.DocumentPair, ...]:
        """Pairs of output and reference files. The pair of a file without a counterpart contains only this file."""
        if self.case.diagnosis and self.original is self.evidence:
            return differences.at_positions(self.evidence, self.case.diagnosis.pairs)
        return differences.pair_documents(self.original)

    @cached_property
    def pairs(self) -> tuple[differences.DocumentPair, ...]:
        """Pairs that have both an output file and a reference file. Prose is left out."""
        complete = (pair for pair in self.matched if pair.output and pair.expected)
        return tuple(pair for pair in complete if pair.output and not pair.output.path.endswith(PROSE))

    @cached_property
    def produced(self) -> bool:
        """True if the model produced any output."""
        return bool(self.evidence.of("output"))

    @cached_property
    def output_lines(self) -> tuple[CodeLine, ...]:
        return tuple(_lines(pair.output for pair in self.pairs))

    @cached_property
    def expected_lines(self) -> tuple[CodeLine, ...]:
        return tuple(_lines(pair.expected for pair in self.pairs))

    @cached_property
    def output_code(self) -> str:
        return code.joined(line.text for line in self.output_lines)

    @cached_property
    def expected_code(self) -> str:
        return code.joined(line.text for line in self.expected_lines)

    @cached_property
    def folded_output(self) -> str:
        """Folded code of the output files that have a reference file."""
        return code.fold(self.output_code)

    @cached_property
    def folded_expected(self) -> str:
        return code.fold(self.expected_code)

    @cached_property
    def all_output(self) -> str:
        """Code of all of the model's files, including files that are not paired with a reference file."""
        return code.joined(line.text for line in self.own_lines)

    @cached_property
    def own_lines(self) -> tuple[CodeLine, ...]:
        """Lines of all of the model's code, including files without a reference file."""
        files = (document for document in self.original.of("output") if not document.path.endswith(PROSE))
        return tuple(_lines(files))

    @cached_property
    def output_names(self) -> frozenset[str]:
        return code.names(self.all_output)

    @cached_property
    def introduced(self) -> tuple[CodeLine, ...]:
        """Lines of the model's code that are not in the reference."""
        expected = {line.folded for line in self.expected_lines}
        return tuple(line for line in self.output_lines if line.is_code and line.folded not in expected)

    @cached_property
    def left_out(self) -> tuple[CodeLine, ...]:
        """Lines of the reference's code that are not in the output."""
        produced = {line.folded for line in self.output_lines}
        return tuple(line for line in self.expected_lines if line.is_code and line.folded not in produced)

    @cached_property
    def blamed(self) -> tuple[CodeLine, ...]:
        """Output lines to which the errors point, in the order of the errors. Comments are replaced with blanks."""
        places = dict.fromkeys((p.path, p.line) for e in self.errors for p in e.places)
        lines = (self.line(path, number) for path, number in places)
        return tuple(line for line in lines if line is not None)

    def lines_of(self, error: evidence.LocatedError) -> list[CodeLine]:
        """Return the output lines to which an error points."""
        places = dict.fromkeys((place.path, place.line) for place in error.places)
        return [line for path, number in places if (line := self.line(path, number))]

    def line(self, path: str, number: int) -> CodeLine | None:
        document = self.evidence.document("output", path)
        if document is None or not 1 <= number <= len(document.lines):
            return None
        text = self.code_of(document)
        return CodeLine(document, number, text[number - 1] if number <= len(text) else "")

    def code_of(self, document: Document) -> list[str]:
        """Return the lines of a document, with comments replaced by blanks."""
        key = document.role, document.path
        if key not in self._code:
            self._code[key] = code.without_comments(document.text, document.path).split("\n")
        return self._code[key]

    @cached_property
    def expected_names(self) -> frozenset[str]:
        return code.names(self.expected_code)

    @cached_property
    def foreign(self) -> frozenset[str]:
        """Names that the output uses without declaring them, and that reference, task and grader never use."""
        # A word in the prose of a task or in the title of a test, such as `tuple`, does not make a function known.
        known_names = self.expected_names | code.spelled(self.task) | code.names(code.without_prose(self.grader))
        return code.names(self.output_code) - code.declared(self.output_code) - known_names


def _without_copies(evidence: Evidence) -> Iterable[Document]:
    """Yield all documents except output files that seem to be copies of other documents.

    A file counts as a copy if its path consists of a folder and the whole path of a reference, grader, known-gaps or
    task document. If all output files seem to be copies, all are kept.
    """
    other_paths = {d.path for d in evidence.documents if d.role in ("expected", "grader", "known_gaps", "task")}
    output = evidence.of("output")
    # A model can put copies of the reference, the grader or the notes among its files. They must not be compared as its
    # work.
    copies = {d.path for d in output if any(d.path.endswith("/" + path) for path in other_paths)}
    if len(copies) == len(output):
        copies = set()
    return (d for d in evidence.documents if d.role != "output" or d.path not in copies)


def _lines(documents: Iterable[Document | None]) -> Iterable[CodeLine]:
    for document in documents:
        if document is None:
            continue
        for number, text in enumerate(code.without_comments(document.text, document.path).split("\n"), 1):
            if text.strip():
                yield CodeLine(document, number, text)


@dataclass(frozen=True)
class RuleDecision:
    """A label with its reasons. `RulesJudge` turns a decision into a verdict."""

    label: Classification
    kind: CauseKind
    cause: str
    """Name of the root cause in kebab-case. Equal causes have equal names."""
    confidence: float
    why: str
    reasoning: str
    """Explanation in two or three sentences."""
    citations: tuple[Citation, ...] = ()
    fix: str | None = None
    would_pass: bool = False
    uncertain: bool = False
    error: str | None = None
    """Error on one line, used if the log has no located error or if the target gave no answer."""
    located: evidence.LocatedError | None = None
    """The located error on which the decision is based; None for the first located error."""
    message: int | None = None
    """Number of the message in which an agent run went wrong; None if unknown."""
    first_mistake: int | None = None
    """Number of the message with the first mistake, if it is earlier than `message`; otherwise None."""
    forbidden: bool = False
    """True if the agent's own instructions forbid its action. The model's fault then needs no other confirmation."""
    by_error_text: bool = False
    """True if the decision is based on the text of an error. The code under test might have written that text."""

    def doubted(self, reason: str) -> "RuleDecision":
        """Return a copy of the decision that is marked as uncertain. `reason` is added to the reasoning."""
        return replace(
            self,
            uncertain=True,
            confidence=min(self.confidence, UNCERTAIN_CONFIDENCE),
            reasoning=f"{self.reasoning.rstrip()} {reason}",
        )


Rule = Callable[[Facts], RuleDecision | None]
"""Function that returns the decision on a failure; None if the rule does not apply.

The name of the function becomes `Verdict.rule`. The docstring of the function describes the failures to which the rule
applies.
"""


BRACED = re.compile(r"""\bimport\s+[^;{}"']{0,80}\{([^{}]*)\}\s*from\s*(["'])([^"'\n]+)\2""")
LISTED = re.compile(r"^from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^()]*\)|[^\n(]+)", re.MULTILINE)
FIRST_NAME = re.compile(r"(?:type\s+)?([A-Za-z_$][\w$]*)")
Module = tuple[bool, str]
"""An imported module: whether it is a file of the project, and its name without folders and extension."""


class Misplaced(NamedTuple):
    """A name that output and reference import from different modules, with module and line of both imports."""

    name: str
    module: str
    right: str
    ours: CodeLine
    theirs: CodeLine


def misplaced(facts: Facts) -> Misplaced | None:
    """Return the first name that output and reference import from different modules; None if there is none."""
    expected_imports = list(_imports(facts.expected_lines))
    # The order is reversed so that the first import of a name is used.
    modules = {name: (path, line) for name, path, line in reversed(expected_imports)}
    expected_modules = {(name, _module(path)) for name, path, _ in expected_imports}
    for name, path, line in _imports(facts.output_lines):
        if name in modules and (name, _module(path)) not in expected_modules:
            return Misplaced(name, path, modules[name][0], line, modules[name][1])
    return None


def _imports(lines: Sequence[CodeLine]) -> Iterator[tuple[str, str, CodeLine]]:
    """Yield every imported name, with the path of its module and the last line of the import."""
    for _, group in groupby((line for line in lines if line.is_code), lambda line: line.document.path):
        file_lines = list(group)
        text = code.joined(line.text for line in file_lines)
        for names, path, end in _statements(text):
            at = file_lines[text.count("\n", 0, end)]
            yield from ((name, path, at) for name in names)


def _statements(text: str) -> Iterator[tuple[list[str], str, int]]:
    for match in BRACED.finditer(text):
        yield _names(match.group(1)), match.group(3), match.end() - 1
    for match in LISTED.finditer(text):
        yield _names(match.group(2)), match.group(1), match.start(2)


def _names(text: str) -> list[str]:
    matches = (FIRST_NAME.match(part.strip()) for part in text.strip("()").split(","))
    return [match.group(1) for match in matches if match]


def _module(path: str) -> Module:
    """Return the module that an import path names. Only the last name of a dotted Python path is used."""
    if re.fullmatch(r"\.*[\w.]+", path):
        return False, path.rsplit(".", 1)[-1]
    name = basename(path.removeprefix("node:"))
    return path.startswith("."), re.sub(r"\.(?:[cm]?[jt]sx?)$", "", name)


STRUCTURE = re.compile(r"(?<![a-z])(spec|specification|signatures?|schema|shape|structure|api)(?![a-z])", re.IGNORECASE)
OPAQUE = re.compile(r"deeply equal|toEqual|==|Object|\{ …|mismatch", re.IGNORECASE)
COMPARES = re.compile(r"(?<![a-z])(?:compares?|match(?:es)?|same|equals?|identical)(?![a-z])", re.IGNORECASE)
"""Matches words that show that a test compares something. This pattern is only used if the test has no message."""


def is_structural(test: evidence.FailedTest) -> bool:
    """Return whether a test compares structure instead of behaviour.

    The name and the message of the test decide this.
    """
    if not test.message:
        return bool(STRUCTURE.search(test.name) and COMPARES.search(test.name))
    return bool(STRUCTURE.search(test.name) and OPAQUE.search(test.message))


BEGINS = re.compile(r"\s*(?:(?:test|it)(?:\.\w+)*\s*\(|(?:async\s+)?def test)")
"""Matches the first line of a test in graders for vitest, jest and pytest."""
CALL = re.compile(r"\b(?:api|internal|anyApi)(?:\.[A-Za-z_$][\w$]*)*\.([A-Za-z_$][\w$]*)")
"""Matches a Convex client's call of a function of the code under test."""
TIME_LIMITS = (5_000, 10_000, 30_000)
"""Default time limits of test runners for one test, in milliseconds."""
# Tests that vitest stopped at its default limit of 5,000 ms were recorded with 5,003 to 5,040 ms.
OVER = 100
"""Maximum milliseconds by which a test that was stopped exceeds its time limit."""


def limits(facts: Facts) -> str:
    """Return a sentence which says that all failed tests took just over a time limit; empty if they did not."""
    times = [test.milliseconds or 0 for test in facts.outcome.failures]
    limit = next(
        (candidate for candidate in TIME_LIMITS if times and all(candidate <= t <= candidate + OVER for t in times)),
        None,
    )
    return f"Every failed test took a little more than {limit:,} ms, a default time limit." if limit else ""


def missing_calls(facts: Facts) -> list[str]:
    """Return the functions that failed tests call and that are in the reference but not in the output.

    Functions that a passed test also contains are left out. The list is empty if the failed tests have messages.
    """
    if not facts.outcome.silent:
        return []
    called_names = dict.fromkeys(CALL.findall(code.joined(_failed_bodies(facts))))
    output_names = facts.output_names
    missing = [name for name in called_names if name not in output_names and name in facts.expected_names]
    return [name for name in missing if not _passes_with(facts, name)]


def concerns(facts: Facts, name: str) -> bool:
    """Return whether the failed tests might need a name.

    The tests might need the name in three cases: a failed test contains the name, a failed test is structural, or no
    test passes and the grader contains the name. If a passed test contains the name, the failed tests do not need it.
    """
    if _passes_with(facts, name):
        return False
    if any(code.says(text, name) for text in _failed_bodies(facts)):
        return True
    if any(is_structural(test) for test in facts.outcome.failures):
        return True
    return not facts.outcome.passed and code.says(facts.grader, name)


def _failed_bodies(facts: Facts) -> list[str]:
    """Return the source of each failed test."""
    return [text for test in facts.outcome.failures for _, _, text in bodies(facts, test)]


def _passes_with(facts: Facts, name: str) -> bool:
    """Return whether the source of a passed test contains a name."""
    # If tests were skipped, a test that did not fail has not necessarily passed.
    if not facts.outcome.passed or facts.outcome.skipped:
        return False
    failed_bodies = _failed_bodies(facts)
    return any(code.says(text, name) for _, _, text in _tests(facts) if text not in failed_bodies)


def bodies(facts: Facts, test: evidence.FailedTest) -> Iterator[tuple[Document, int, str]]:
    """Yield the source of a test in the graders: document, number of the first line, and text up to the next test."""
    title = test.title.split("[")[0]
    for document, first, text in _tests(facts):
        head = code.joined(text.split("\n", 2)[:2])
        # In the grader's code, quotation marks in a title are escaped. A very short title would be found in many tests.
        if len(title) > 3 and title in head.replace("\\", ""):
            yield document, first, text


def _tests(facts: Facts) -> Iterator[tuple[Document, int, str]]:
    """Yield every test in the graders, in the same form as `bodies`."""
    for document in facts.evidence.of("grader"):
        starts = [n for n, line in enumerate(document.lines) if BEGINS.match(line)]
        for at, following in pairwise([*starts, len(document.lines)]):
            yield document, at + 1, code.joined(document.lines[at:following])
