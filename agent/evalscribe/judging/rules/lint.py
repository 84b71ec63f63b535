"""Failures of a linter: which rules are about taste, which about correctness, and who else breaks them."""

import re

from evalscribe.judging.rules import code, doubt, quote, wording
from evalscribe.judging.rules.decision import Decision
from evalscribe.judging.rules.facts import CodeLine, Facts
from evalscribe.model import evidence

TASTE = re.compile(
    r"(?:[\w@-]+/)*(?:prefer-|explicit-|consistent-|no-unnecessary-|no-useless-|no-extra-|no-inferrable|no-multi-|sort-"
    r"|promise-function-async|require-await|return-await|arrow-|func-|space-|comma-|brace-|object-"
    r"|quotes?$|semi$|indent$|curly$|eqeqeq$|max-|min-|naming|camelcase|id-|one-var|padding-|array-type|method-signature"
    r"|member-ordering|restrict-template|dot-notation|order$|newline|spaced-|capitalized|filename-|unicorn/|stylistic/"
    r"|react/(?:jsx-|self-closing|display-name)|missing-(?:module-|class-|function-)?docstring|line-too-long|invalid-name"
    r"|no-(?:empty-function|non-null-assertion|confusing-|console|else-return|plusplus|continue|nested-ternary|undef-init)"
    r"|class-methods-use|class-literal|too-(?:many|few)-|trailing-|wrong-import-order)",
)
TASTE_CODES = re.compile(
    r"(?:E(?!9)|W|D|N|I|Q|C|UP|COM|SIM|RET|PIE|PLR|PLC|PLW|ERA|TC|TCH|FURB|PERF|PTH|EM|TRY|FBT|ISC|ICN|INP"
    r"|FIX|TD|DOC|CPY|SLF|ARG|RUF)\d{1,4}"
)
ELSEWHERE = re.compile(r"unsafe|(?<![a-z])any(?![a-z])|undef|unused|import|F[48]\d\d|name-defined|redeclare")
"""Rules that judge a line by what stands elsewhere: an equal line in the reference proves nothing."""
PLATFORM = re.compile(r"unsafe|undef")
"""Lint rules about the platform's types and globals, which are the same for all models."""
UNPARSABLE = re.compile(
    r"pars(?:ing|e) error|syntax ?error|unexpected token|cannot parse|failed to parse", re.IGNORECASE
)
CONFIGURED = re.compile(r"parserOptions|\bproject\b|tsconfig|projectService", re.IGNORECASE)
"""The linter cannot read a file because of its settings, whatever stands in the file."""
SUPPRESSED = re.compile(r"eslint-disable|noqa|type:\s*ignore|ts-(?:ignore|expect-error)|pylint:\s*disable|biome-ignore")


def taste_only(facts: Facts) -> Decision | None:
    """Tests prove that the code does what was asked, and every broken rule is about style: the gate is too strict."""
    codes = _codes(facts)
    if facts.check != "lint" or not codes or not facts.outcome.all_passed or not all(map(_is_taste, codes)):
        return None
    return Decision(
        label="OVERLY_STRICT",
        kind="lint",
        cause=_cause(codes[0]),
        confidence=0.8,
        why=f"{_tests_pass(facts)}; only {_listed(codes)} fail{'s' if len(codes) == 1 else ''}",
        reasoning=f"{_tests_pass(facts).capitalize()}, and {_listed(codes)} {_is_are(codes)} about style: the code "
        "does the same either way. The step fails code that behaves as asked.",
        citations=(*quote.blamed(facts), *quote.log(facts)),
        uncertain=facts.outcome.step is None,  # the code under test may have printed a summary into the log
        fix=f"make {_listed(codes)} {'a warning' if len(codes) == 1 else 'warnings'}",
        would_pass=True,
    )


def reference_breaks_it_too(facts: Facts) -> Decision | None:
    """A rule that the reference answer breaks in the same way cannot be held against the model."""
    if facts.check != "lint" or not facts.errors:
        return None
    for error in facts.errors:
        lines = [facts.line(place.path, place.line) for place in error.places[:1]]
        theirs = _same(facts, lines[0]) if lines and lines[0] else None
        if error.code and theirs and not ELSEWHERE.search(error.code):
            return _shared(facts, error, lines[0], theirs)
    return None


def lint_finds_a_fault(facts: Facts) -> Decision | None:
    """What is left are rules about correctness and types, which the reference keeps: the model's own fault."""
    codes = _codes(facts)
    if facts.check != "lint" or not facts.first:
        return None
    if not codes:
        return _without_rule(facts, facts.first)
    grave = next((c for c in codes if not _is_taste(c)), codes[0])
    first = next((e for e in facts.errors if e.code == grave), facts.first)
    theirs = doubt.reference_has_it(facts, first)
    of_platform = bool(facts.outcome.all_passed and PLATFORM.search(grave) and not doubt.shared_failures_known(facts))
    shared = bool(theirs) or of_platform
    kept = ", and the reference keeps it" if facts.expected_lines and not theirs else ""
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause=_cause(grave),
        confidence=0.5 if shared else 0.75 if facts.outcome.all_passed else 0.7,
        uncertain=shared,
        why=f"`{_bare(grave)}`: {_said(first)}",
        reasoning=f"`{_bare(grave)}` guards correctness, not style{kept}. "
        f"It says of{_where(first)}: {_said(first, 150).rstrip('. …')}."
        + (f" {theirs}" if theirs else f" All tests pass, {doubt.NOT_STORED}" if shared else ""),
        citations=(*quote.blamed(facts), *quote.log(facts)),
    )


def _without_rule(facts: Facts, first: evidence.LocatedError) -> Decision:
    """The linter itself stopped: a file that it cannot read is no matter of taste."""
    unparsable = UNPARSABLE.search(first.error) and not CONFIGURED.search(first.error)
    proven = unparsable and not doubt.reference_has_it(facts, first) and bool(first.places)
    return Decision(
        label="MODEL_FAULT",
        kind="model",
        cause="unparsable-code" if unparsable else "lint-error",
        confidence=0.7 if proven else 0.5,
        uncertain=not proven,
        why=f"the linter stops: {_said(first)}",
        reasoning=f"The linter names no rule; it says of{_where(first)}: {_said(first, 150).rstrip('. …')}."
        + (" Code that cannot be parsed cannot run." if proven else " Its settings may be at fault as well."),
        citations=(*quote.blamed(facts), *quote.log(facts)),
    )


def _shared(facts: Facts, error: evidence.LocatedError, ours: CodeLine | None, theirs: CodeLine) -> Decision:
    citations = quote.pairs(facts, [ours]) if ours else ()
    known = doubt.shared_failures_known(facts)
    return Decision(
        label="OVERLY_STRICT",
        kind="lint",
        cause=_cause(error.code or "lint"),
        confidence=0.7 if known else 0.5,
        uncertain=not known,
        why=f"`{error.code}`: the reference does the same at {_file(theirs)}:{theirs.number}",
        reasoning=f"`{error.code}` fails a line that the reference has in the same form at {theirs.document.path}:"
        f"{theirs.number}. The reference would fail the same check."
        + ("" if known else " Nothing stored says whether this is a known gap."),
        citations=(*citations, *quote.log(facts)),
        fix=f"relax `{error.code}`: the reference answer breaks it too",
        would_pass=len(facts.errors) == 1,
    )


def _same(facts: Facts, line: CodeLine) -> CodeLine | None:
    """The reference line of the same form, unless a directive there switches the rule off."""
    if len(line.folded) < 12:
        return None
    for other in facts.expected_lines:
        if other.folded == line.folded or _form(other.text) == _form(line.text):
            around = other.document.lines[max(0, other.number - 2) : other.number]
            return None if any(SUPPRESSED.search(text) for text in around) else other
    return None


def _form(text: str) -> str:
    """A line with the values of attributes and arguments taken out: names chosen by the author do not matter."""
    return code.fold(re.sub(r"(?<=[={(])\s*[A-Za-z_]\w*\s*(?=[)}])", "_", text))


def _codes(facts: Facts) -> list[str]:
    return list(dict.fromkeys(e.code for e in facts.errors if e.code))


def _is_taste(rule: str) -> bool:
    return bool(TASTE_CODES.fullmatch(rule) or TASTE.match(rule) or TASTE.match(rule.rsplit("/", 1)[-1]))


def _cause(rule: str) -> str:
    return code.kebab(rule.rsplit("/", 1)[-1])


def _listed(codes: list[str]) -> str:
    return ", ".join(f"`{rule.rsplit('/', 1)[-1]}`" for rule in codes[:3])


def _is_are(codes: list[str]) -> str:
    return "is" if len(codes) == 1 else "are"


def _tests_pass(facts: Facts) -> str:
    return f"all {facts.outcome.passed} tests pass" if facts.outcome.passed else "all tests pass"


def _where(error: evidence.LocatedError) -> str:
    return f" {error.places[0].path}:{error.places[0].line}" if error.places else " the output"


def _said(error: evidence.LocatedError, longest: int = 56) -> str:
    """The linter's words without the rule, which stands before them already."""
    text = error.error.removesuffix(f"({error.code})").removesuffix(f"({_bare(error.code or '')})").strip().rstrip(".")
    return wording.cut(wording.brief(text), longest)


def _bare(rule: str) -> str:
    return rule.rsplit("/", 1)[-1]


def _file(line: CodeLine) -> str:
    return line.document.path.rsplit("/", 1)[-1]
