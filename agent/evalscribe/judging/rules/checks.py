"""Rules for checks that are too strict: lint rules about style, and tests of things that the task does not ask for."""

import re
from collections.abc import Sequence

from evalscribe.judging.rules import code, doubts, quote
from evalscribe.judging.rules.code import stems
from evalscribe.judging.rules.facts import CodeLine, Facts, RuleDecision, is_structural
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
"""Lint rules that depend on other lines too, so that an equal line in the reference proves nothing."""
PLATFORM = re.compile(r"unsafe|undef")
"""Lint rules about the platform's types and globals, which are the same for all models."""
UNPARSABLE = re.compile(
    r"pars(?:ing|e) error|syntax ?error|unexpected token|cannot parse|failed to parse", re.IGNORECASE
)
CONFIGURED = re.compile(r"parserOptions|\bproject\b|tsconfig|projectService", re.IGNORECASE)
"""Messages of a linter that cannot read a file because of its own settings."""
SUPPRESSED = re.compile(r"eslint-disable|noqa|type:\s*ignore|ts-(?:ignore|expect-error)|pylint:\s*disable|biome-ignore")


def taste_only(facts: Facts) -> RuleDecision | None:
    """Tests pass, and every lint violation concerns style: the gate is too strict."""
    codes = _codes(facts)
    if facts.check != "lint" or not codes or not facts.outcome.all_passed or not all(map(_is_taste, codes)):
        return None
    why = f"{_tests_pass(facts)}; only {listed(codes)} (style) fail{'s' if len(codes) == 1 else ''}"
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="lint",
        cause=_cause(codes[0]),
        confidence=0.8,
        why=why,
        reasoning=f"{quote.sentence(why)}",
        citations=(*quote.blamed(facts), *quote.log(facts)),
        uncertain=facts.outcome.step is None,  # the code under test may have printed a summary into the log
        fix=relax(codes),
        would_pass=True,
    )


def reference_breaks_it_too(facts: Facts) -> RuleDecision | None:
    """The reference violates the same lint rule in the same way, so the model is not at fault."""
    if facts.check != "lint" or not facts.errors:
        return None
    for error in facts.errors:
        lines = [facts.line(place.path, place.line) for place in error.places[:1]]
        theirs = _same(facts, lines[0]) if lines and lines[0] else None
        if error.code and theirs and not ELSEWHERE.search(error.code):
            return _shared(facts, error, lines[0], theirs)
    return None


def lint_finds_a_fault(facts: Facts) -> RuleDecision | None:
    """The lint violations concern correctness or types, and the reference has none, so the model is at fault."""
    codes = _codes(facts)
    if facts.check != "lint" or not facts.first:
        return None
    if not codes:
        return _without_rule(facts, facts.first)
    grave = next((c for c in codes if not _is_taste(c)), codes[0])
    first = next((e for e in facts.errors if e.code == grave), facts.first)
    theirs = doubts.reference_has_it(facts, first)
    of_platform = bool(facts.outcome.all_passed and PLATFORM.search(grave) and not doubts.shared_failures_known(facts))
    shared = bool(theirs) or of_platform
    kept = ", which the reference keeps" if facts.expected_lines and not theirs else ""
    breaks, said = f"breaks `{_bare(grave)}`{kept}", _said(first)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause=_cause(grave),
        confidence=0.5 if shared else 0.75 if facts.outcome.all_passed else 0.7,
        uncertain=shared,
        why=breaks if said.endswith("…") else quote.whole_or(f"{breaks}: {said}", breaks),
        reasoning=f"{breaks[0].upper()}{breaks[1:]}: {_said(first, 150).rstrip('. …')}."
        + (f" {theirs}" if theirs else f" {doubts.all_pass_with(facts, grave)}" if shared else ""),
        citations=(*quote.blamed(facts, 1, first), *quote.error(facts, first)),
        located=first,
    )


def _without_rule(facts: Facts, first: evidence.LocatedError) -> RuleDecision:
    """Decide a failure in which the linter names no rule, for example because it cannot parse a file."""
    unparsable = UNPARSABLE.search(first.error) and not CONFIGURED.search(first.error)
    proven = unparsable and not doubts.reference_has_it(facts, first) and bool(first.places)
    return RuleDecision(
        label="MODEL_FAULT",
        kind="model",
        cause="unparsable-code" if unparsable else "lint-error",
        confidence=0.7 if proven else 0.5,
        uncertain=not proven,
        why=f"the linter stops: {_said(first)}",
        reasoning=f"The linter names no rule; it says of {_place(first)}: {_said(first, 150).rstrip('. …')}."
        + (" Code that cannot be parsed cannot run." if proven else " Its settings may be at fault as well."),
        citations=(*quote.blamed(facts), *quote.log(facts)),
    )


def _shared(facts: Facts, error: evidence.LocatedError, ours: CodeLine | None, theirs: CodeLine) -> RuleDecision:
    citations = quote.opposed(facts, ours, theirs) if ours else ()
    known = doubts.shared_failures_known(facts)
    others = list(dict.fromkeys(e.code for e in facts.errors if e.code and e.code != error.code))
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="lint",
        cause=_cause(error.code or "lint"),
        confidence=0.7 if known else 0.5,
        uncertain=not known,
        why=quote.cut(f"`{_bare(error.code or '')}`: the reference does the same at {_file(theirs)}:{theirs.number}"),
        reasoning=f"The reference has the same line at {theirs.document.path}:{theirs.number}, so it breaks "
        f"`{_bare(error.code or '')}` too."
        + (f" The output also breaks {listed(others)}." if others else "")
        + ("" if known else " Nothing stored says whether this is a known gap."),
        citations=(*citations, *quote.error(facts, error)),
        fix=relax([error.code or "lint"]),
        would_pass=not others and (facts.outcome.all_passed or len(facts.errors) == 1),
        located=error,
    )


def _same(facts: Facts, line: CodeLine) -> CodeLine | None:
    """Return the reference line of the same form, unless a comment in the reference disables the lint rule."""
    if len(line.folded) < 12:
        return None
    for other in facts.expected_lines:
        if other.folded == line.folded or _form(other.text) == _form(line.text):
            around = other.document.lines[max(0, other.number - 2) : other.number]
            return None if any(SUPPRESSED.search(text) for text in around) else other
    return None


def _form(text: str) -> str:
    """Return a line without the values of attributes and arguments, so that lines with other names are equal."""
    return code.fold(re.sub(r"(?<=[={(])\s*[A-Za-z_]\w*\s*(?=[)}])", "_", text))


def _codes(facts: Facts) -> list[str]:
    return list(dict.fromkeys(e.code for e in facts.errors if e.code))


def _is_taste(rule: str) -> bool:
    return bool(TASTE_CODES.fullmatch(rule) or TASTE.match(rule) or TASTE.match(rule.rsplit("/", 1)[-1]))


def _cause(rule: str) -> str:
    return code.kebab(rule.rsplit("/", 1)[-1])


def listed(codes: Sequence[str]) -> str:
    return ", ".join(f"`{rule.rsplit('/', 1)[-1]}`" for rule in codes[:3])


def relax(codes: Sequence[str]) -> str:
    """Return the proposed fix: to make these lint rules warnings."""
    return f"make {listed(codes)} {'a warning' if len(codes) == 1 else 'warnings'}"


def _tests_pass(facts: Facts) -> str:
    return f"all {facts.outcome.passed} tests pass" if facts.outcome.passed else "all tests pass"


def _place(error: evidence.LocatedError) -> str:
    return f"{error.places[0].path}:{error.places[0].line}" if error.places else "The output"


def _said(error: evidence.LocatedError, longest: int = 56) -> str:
    """Return the linter's message without the rule's name and without advice."""
    text = error.error.removesuffix(f"({error.code})").removesuffix(f"({_bare(error.code or '')})").strip().rstrip(".")
    return quote.cut(re.sub(r"(?<=[\w'\"`])\. [A-Z].*", "", quote.brief(text)), longest)


def _bare(rule: str) -> str:
    return rule.rsplit("/", 1)[-1]


def _file(line: CodeLine) -> str:
    return line.document.path.rsplit("/", 1)[-1]


SOUGHT = re.compile(
    r"(?:to contain|to include|to match|not found in|missing)\s+(['\"`])(.{6,80}?)\1|^\W*assert (['\"])(.{6,80}?)\3 in "
)
STRUCTURAL = re.compile(r"""(?<![\w$.])([A-Za-z_$][\w$]{2,})(?=\s*[:=](?!=)|["'])""")
"""A key, a keyword argument or a one-word text, which tests of structure compare."""
RAISES = re.compile(r"\b(?:throw|raise)\b")
SETTLED = re.compile(
    r"\b(throws?|rejects?|raises?|must fail|should fail|null|undefined|None|not found|otherwise)\b"
    r"|(?:n't|\bnot) exist|\bif (?:it|they|there|no|the)\b",
    re.IGNORECASE,
)
"""Words with which a task specifies edge cases."""
LITERAL = re.compile(r"(['\"`])((?:(?!\1|\$\{|\{).){6,})")


def fails_what_nobody_asked_for(facts: Facts) -> RuleDecision | None:
    """Only one check fails, and it requires something that the task does not require."""
    return _refuses_what_is_left_open(facts) or _compares_structure(facts)


def reference_would_fail_too(facts: Facts) -> RuleDecision | None:
    """The reference has the same code that the check rejects, so the reference would fail too."""
    return reference_breaks_it_too(facts) or _check_looks_elsewhere(facts)


def _compares_structure(facts: Facts) -> RuleDecision | None:
    """Only a structural comparison fails, all behaviour passes, and the task never requires what is missing."""
    failures = facts.outcome.failures
    if len(failures) != 1 or (facts.outcome.passed or 0) < 2 or not is_structural(failures[0]):
        return None
    missing = _left_out_names(facts)
    if not missing or any(_asked(facts, name) for name in missing):
        return None
    line = quote.first_with(facts.left_out, missing[0])
    why = f"only `{failures[0].title}` fails, over `{missing[0]}`, not asked for in the task"
    also = f" The output also lacks `{missing[1]}`." if len(missing) > 1 else ""
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause=code.kebab(f"{failures[0].name} {missing[0]}"),
        confidence=0.5,
        uncertain=True,
        why=why,
        reasoning=f"{quote.sentence(why)} The test compares structure; {facts.outcome.passed} other tests pass.{also}",
        citations=(*(quote.pairs(facts, [line])[:1] if line else ()), *quote.log(facts)),
        fix=f"drop the test `{failures[0].title}`, or say in the task that `{missing[0]}` is required",
        would_pass=True,
    )


def _refuses_what_is_left_open(facts: Facts) -> RuleDecision | None:
    """A test fails because the model's code refuses a case that the task neither allows nor forbids."""
    failures = facts.outcome.failures
    if (
        facts.check != "tests"
        or not failures
        or (facts.outcome.passed or 0) <= len(failures)
        or _settles_odd_cases(facts)
    ):
        return None
    guards = [_guard(facts, test) for test in failures]
    guard = guards[0]
    if guard is None or not all(guards):
        return None
    silent = facts.outcome.silent
    refuses = "refuses a case that the task leaves open"
    why = quote.whole_or(f"{refuses}: `{failures[0].title}`", refuses)
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="guard-" + code.kebab(failures[0].title, 40),
        confidence=0.5 if silent else 0.65,
        uncertain=silent,
        why=why,
        reasoning=f"{quote.sentence(why)} The reference has no such check; the {facts.outcome.passed} other tests "
        "pass.",
        citations=(
            *quote.pairs(facts, [guard])[:1],
            *quote.log(facts),
            *quote.grader_lines(facts, failures[0].message),
        ),
        fix=f"let the test `{failures[0].title}` accept an error, or say in the task what has to happen",
        would_pass=True,
        by_error_text=True,
    )


def _check_looks_elsewhere(facts: Facts) -> RuleDecision | None:
    """The check misses a text that output, reference and task contain, so it looks in the wrong place."""
    for test in facts.outcome.failures:
        # Take the last match: the output's own value comes before it and may contain the same words.
        found = max(SOUGHT.finditer(test.message), key=lambda match: match.start(), default=None)
        sought = (found.group(2) or found.group(4)) if found else None
        if not sought or len(facts.outcome.failures) != 1 or (facts.grader and sought not in facts.grader):
            continue
        if _is_everywhere(facts, sought):
            return _looks_elsewhere(facts, test, sought)
    return None


def _looks_elsewhere(facts: Facts, test: evidence.FailedTest, sought: str) -> RuleDecision:
    grader = quote.grader_lines(facts, test.message)
    why = f"the check misses `{sought}`, which the code has"
    return RuleDecision(
        label="OVERLY_STRICT",
        kind="grader",
        cause="check-misses-" + code.kebab(sought, 34),
        confidence=0.65,
        why=why,
        reasoning=f"{quote.sentence(why)} The text is written as in the reference, so the check reads the wrong thing.",
        citations=(*quote.both(facts, sought), *quote.log(facts), *grader),
        fix=f"let `{test.title}` look for `{sought}` where the code puts it",
        would_pass=True,
        by_error_text=True,
    )


def _is_everywhere(facts: Facts, text: str) -> bool:
    return all(quote.first_with(lines, text) for lines in (facts.output_lines, facts.expected_lines))


def _left_out_names(facts: Facts) -> list[str]:
    """Return keys and one-word texts of the reference that the output lacks, in the order of the reference."""
    ours = facts.output_names
    found = (name for line in facts.left_out for name in STRUCTURAL.findall(line.text))
    return list(dict.fromkeys(name for name in found if name not in ours))


def _asked(facts: Facts, name: str) -> bool:
    return code.says(facts.task, name)


def _settles_odd_cases(facts: Facts) -> bool:
    return bool(SETTLED.search(facts.task))


def _guard(facts: Facts, test: evidence.FailedTest) -> CodeLine | None:
    """Return the model's line that threw the reported error, if the reference throws no such error."""
    for line in facts.introduced:
        if RAISES.search(line.text):
            said = [text.strip() for _, text in LITERAL.findall(line.text)]
            if any(text and text in test.message for text in said):
                return line
            if not test.message and (stems(test.title) & stems(line.text)) - stems(facts.task):
                return line
    return None
