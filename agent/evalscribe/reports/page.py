"""Render a report as a markdown page.

The page is for people; the data file beside it has all facts. `reports/page_edits.py` reads the edits that people make
on the page.
"""

import json
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import NamedTuple
from urllib.parse import quote

import yaml

from evalscribe.ids import content_id, model_folder
from evalscribe.model.cascade import CascadeSaving
from evalscribe.model.evidence import CitationStatus
from evalscribe.model.finding import (
    NO_REASON,
    CrossModelFailures,
    FollowUp,
    Pattern,
    Recommendation,
    VerdictBasis,
    by_people,
    by_rules,
    label_and_confidence,
    proves,
)
from evalscribe.model.report import EvalRef, JudgeLabel, ProofSummary, Report, ReportEntry, Section, Snippet, replaced
from evalscribe.model.repository import LABELS_PAGE
from evalscribe.model.run import COMPONENT, TARGET
from evalscribe.reports import inline, labels, snippets
from evalscribe.text import contrast, dollars, mask_code, one_line, pluralise

KIND = "evalscribe-report/2"
SECTIONS: dict[str, Section] = {
    "Recommendations": "recommendations",
    "Failures": "findings",
    "Patterns": "patterns",
    "Net impact": "net-impact",
}
"""Maps each section's heading to the name under which people's notes in the section are stored. The headings are in the
order of the page.
"""
ACTIONS = "Actions taken"
NOTHING = "None."
MOST_LINKED = 5
"""Maximum number of findings that the first lines of the page link to for the same reason."""
MOST_REPEATED = 2
"""Maximum number of findings that may repeat a sentence. A sentence that more findings have is printed once, above all
findings.
"""
LONGEST_ERROR = 140
"""Maximum number of characters of an error that is printed in full. The data file always has the full error."""
NEVER_PASSED = "no known trial passed"
"""Reason to look first at a task in which no trial of any model passed."""
CLOSE_SCORE = "The score is close to the threshold."
SHORTEST_STATEMENT = 25
"""Minimum number of characters of a sentence that is omitted because a quotation contains it. A shorter sentence could
occur in the quotation by chance.
"""
ENOUGH = 60
"""Number of characters at the start of each part of an error that are searched for in other text."""
_RULE = re.compile(r"^([a-z]+\d+): | \((?:[\w-]+/)*([\w-]+)\)$")
"""Matches the code of a rule at the beginning of an error, as in `TS2554: …`, or at its end, as in `… (no-undef)`."""
# A sentence can begin with a code span, which `mask_code` replaces by NUL characters.
_SENTENCE = re.compile(r"[.!?](?= +[A-Z`\0])")
_WRITTEN = re.compile(r"^written: .*\n", re.MULTILINE)
_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*(?::[0-9a-f]+)?")


def render(report: Report) -> str:
    """Render the page of a report, with people's corrections applied. The page ends with a newline."""
    sections = (_recommendations, _failures, _patterns, _net_impact, _actions)
    lines = [*_front_matter(report), *_first_lines(report), "", *_run_table(report)]
    for section in sections:
        part = list(section(report))
        lines += ["", *part] if part else []
    text = "\n".join(lines) + "\n"
    # The digest shows later whether anybody edited the page.
    return text.replace("\n---\n", f"\nwritten: {page_digest(text)}\n---\n", 1)


def page_digest(text: str) -> str:
    """Return the digest of a page without its line `written:`.

    The kind of line ends and a byte order mark do not affect the digest.
    """
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return content_id(_WRITTEN.sub("", plain, count=1))[: len("sha256:") + 16]


def first_screen(page: str) -> str:
    """Return the part of a page above its failures: the outcome, where to look first, and what to do."""
    body = page.partition("\n---\n")[2] if page.startswith("---\n") else page
    return body.partition("\n## Failures\n")[0].rstrip("\n") + "\n"


def _front_matter(report: Report) -> list[str]:
    return [
        "---",
        f"kind: {KIND}",
        f"run: {_scalar(report.run.id)}",
        f"revision: {report.revision}",
        "---",
    ]


@lru_cache(maxsize=64)
def _scalar(text: str) -> str:
    # YAML reads some plain words, such as `null` and `yes`, as values other than text.
    plain = _PLAIN_SCALAR.fullmatch(text) and yaml.safe_load(f"[{text}]") == [text]
    return text if plain else json.dumps(text, ensure_ascii=False)


def first_lines(report: Report) -> list[str]:
    """Return the title and the outcome of a report, for use in a pull request or a comment.

    People's notes are left out.
    """
    return list(_first_lines(replaced(report, notes=())))


def _first_lines(report: Report) -> Iterator[str]:
    run = report.run
    yield f"# {inline.name(run.model)}: {headline(report)}"
    yield " ".join((*_status(report), *_outcome(report)))
    if reasons := review_first(report):
        yield f"Look first at {_and(f'{_links(report, numbers)} ({reason})' for reason, numbers in reasons.items())}."
    if odd := _odd_quotations(report):
        yield odd
    yield from _notes(report, "summary")
    # Pages in the older format had a section on steps. The notes in that section are kept here.
    yield from _notes(report, "steps")


def headline(report: Report) -> str:
    """Return a phrase that states the outcome.

    If several evals failed, none of them was judged, and all have the same cause, the phrase names the cause.
    """
    run = report.run
    failed = f"{run.failed} of {pluralise(run.total, 'eval')} failed"
    entries = report.entries
    if run.failed > 1 and entries and all(entry.not_counted or entry.step == TARGET for entry in entries):
        reasons = {(entry.cause_kind, entry.cause) for entry in entries}
        # Failures that are not listed can have other causes.
        if len(reasons) == 1 and sum(len(entry.evals) for entry in entries) == run.failed:
            judged = "no eval was judged" if run.failed == run.total else f"{failed}, none was judged"
            return f"{judged}: {entries[0].why or 'see the failures'}"
    return failed


_STATUS = {
    "failed": "The run did not complete",
    "running": "The run is still running",
    "importing": "Only a part of the run was imported",
    "unknown": "It is not known whether the run has completed",
}


def _status(report: Report) -> Iterator[str]:
    run = report.run
    if run.status in _STATUS:
        reason = f" ({run.status_reason})" if run.status_reason else ""
        yield f"**{_STATUS[run.status]}**{reason}."
    if run.unread:
        yield f"**Not all of the file could be read**: {'; '.join(run.unread)}."
    if run.listed < run.failed:
        yield f"**The source lists only {run.listed} of the {run.failed} failures; only these are analysed.**"


def _outcome(report: Report) -> Iterator[str]:
    if not report.entries:
        yield "**No failure was listed.**"
        return
    yield f"{', '.join(_outcome_counts(report))}."
    impact = report.net_impact
    if report.hoped_for:
        before, after = rate(impact.passed, impact.total), rate(impact.hopeful_passed, impact.total)
        yield f"With {claimed(report)} applied, {after} would pass instead of {before}."
    if replayed := _replayed(report):
        yield f"Replays: {replayed}."


def _replayed(report: Report) -> str:
    """Return a phrase with the number of failures that replays proved or reproduced, and the numbers of their findings.

    Returns an empty string if there are no such failures.
    """
    words: dict[VerdictBasis, str] = {"proved": _whose("proved not the model's", report), "reproduced": "reproduced"}
    counted = {basis: _with_basis(report, basis) for basis in words}
    return ", ".join(f"{total} {words[basis]} ({inline.ranges(at)})" for basis, (total, at) in counted.items() if total)


def _with_basis(report: Report, basis: VerdictBasis) -> tuple[int, list[int]]:
    """Return the number of failures whose verdict has the given basis, and the numbers of their findings.

    Failures whose label a person changed are not counted.
    """
    counts = Counter[int]()
    for number, entry in enumerate(report.entries, 1):
        counts[number] = sum(len(part.evals) for part in entry.each if part.basis == basis and not _overruled(part))
    return counts.total(), [number for number, count in counts.items() if count]


def _outcome_counts(report: Report) -> Iterator[str]:
    """Yield a phrase for each outcome, with the number of failures and the findings that have them: `**2 model faults**
    (1, 3)`.
    """
    counts: Counter[str] = Counter()
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, entry in enumerate(report.entries, 1):
        counts[_counted_as(entry)] += len(entry.evals)
        numbers[_counted_as(entry)].append(number)
    for kind in ("model fault", "eval problem", "known gap", "outage", ""):
        if counts[kind]:
            text = pluralise(counts[kind], _whose(kind, report)) if kind else f"{counts[kind]} undecided"
            yield f"**{text}** ({inline.ranges(numbers[kind])})"


def _whose(text: str, report: Report) -> str:
    """If the experiment runs another component instead of a model, replace the word `model` in a text."""
    return text.replace("model", COMPONENT) if report.run.provider == COMPONENT else text


def _counted_as(entry: ReportEntry) -> str:
    if entry.classification is None:
        return ""
    if entry.cause_kind == "infrastructure":
        return "outage"
    kinds = {"MODEL_FAULT": "model fault", "KNOWN_GAP": "known gap"}
    return kinds.get(entry.classification, "eval problem")


def review_first(report: Report) -> dict[str, list[int]]:
    """Return, for each reason, the numbers of the findings that a person should look at first."""
    reasons: dict[str, Callable[[ReportEntry], bool]] = {
        "an earlier fix did not hold": lambda e: e.recurrence.kind == "fix-in-doubt" and e.classification is not None,
        NEVER_PASSED: lambda e: e.never_passed and e.uncertain,
        "uncertain": lambda e: e.uncertain and not e.never_passed,
        "not judged": lambda e: e.classification is None,
        "quotation not verified": lambda e: any(s.status == "unverified" for s in e.snippets),
    }
    numbers = {
        reason: [number for number, entry in enumerate(report.entries, 1) if any(map(chosen, entry.each))]
        for reason, chosen in reasons.items()
    }
    return {reason: chosen for reason, chosen in numbers.items() if chosen}


def _odd_quotations(report: Report) -> str:
    """Return a sentence that counts the quotations that could not be verified at their cited place.

    Returns an empty string if there are none.
    """
    states = Counter(snippet.status for part in _each(report) for snippet in part.snippets)
    words: dict[CitationStatus, str] = {"unverified": "not verified", "relocated": "found elsewhere than cited"}
    odd = [f"{states[status]} {word}" for status, word in words.items() if states[status]]
    return f"Of {pluralise(states.total(), 'quotation')}, {_and(odd)}." if odd else ""


def _each(report: Report) -> Iterator[ReportEntry]:
    return (part for entry in report.entries for part in entry.each)


def claimed(report: Report) -> str:
    """Return a phrase such as `R1 and R2`, which names the recommendations with which at least one failing eval would
    pass.
    """
    hoped = set(report.hoped_for)
    claims = [item for item in report.recommendations if item.would_pass and hoped.intersection(item.evals)]
    return _and(item.id or "a recommendation" for item in claims)


def _run_table(report: Report) -> Iterator[str]:
    first, *rows = (inline.row(name, text) for name, text in _run_rows(report))
    yield from (first, "|---|---|", *rows)


def _run_rows(report: Report) -> Iterator[tuple[str, str]]:
    run = report.run
    facts = [inline.link(inline.code(run.id), run.url), inline.name(run.provider)]
    yield "Run", ", ".join((*facts, f"experiment {inline.name(run.experiment)}", *_run_facts(report)))
    yield "Result", ", ".join(_result(report))
    steps: Counter[str] = Counter()
    for part in _each(report):
        steps[labels.step_name(part.step)] += len(part.evals)
    if steps:
        yield "Failed at", ", ".join(f"{step} {count}" for step, count in steps.items())
    if rates := run.trials:
        once, always = f"{100 * rates.pass_at:.1f} %", f"{100 * rates.pass_hat:.1f} %"
        tasks = f"{pluralise(rates.tasks, 'task')} of {rates.k} trials"
        yield "Trials", f"{tasks}: {once} pass at least once (pass@{rates.k}), {always} every time (pass^{rates.k})"
    yield "Decided by", "; ".join(_deciders(report))
    if report.cascade:
        yield "Cascade", _saving(report.cascade)
    if report.earlier:
        yield "Earlier reports", ", ".join(map(inline.report_link, report.earlier))
    if report.page_url:
        yield "In the browser", inline.link("evidence and history", report.page_url)


def _saving(saving: CascadeSaving) -> str:
    counts = [f"{inline.name(item.judge)} {item.evals}" for item in saving.decided]
    if saving.decided:
        counts[0] = f"{inline.name(saving.decided[0].judge)} decided {saving.decided[0].evals}"
    spent, saved = (_amount(saving, value) for value in (saving.spent, saving.saved))
    deciders = ", ".join(counts) or "nothing decided"
    return f"{deciders}; about {spent} spent, {saved} saved against asking {inline.name(saving.against)} for all"


def _amount(saving: CascadeSaving, value: float) -> str:
    # Written as `USD`, because GitHub reads text between two dollar signs as a formula.
    return f"{value:,.2f} USD" if saving.unit == "usd" else f"{value:,.0f} tokens"


def _run_facts(report: Report) -> Iterator[str]:
    run = report.run
    if run.started_at:
        yield run.started_at[:10]
    if run.duration_s is not None:
        yield _duration(run.duration_s)
    if run.input_tokens is not None or run.output_tokens is not None:
        yield f"{(run.input_tokens or 0) + (run.output_tokens or 0):,} tokens"
    if run.cost_usd:
        yield dollars(run.cost_usd)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _result(report: Report) -> Iterator[str]:
    run = report.run
    yield f"{run.passed} passed"
    errors = sum(len(entry.evals) for entry in report.entries if entry.step == TARGET)
    yield f"{run.failed - errors} failed"
    if errors:
        yield f"{errors} error"
    if run.incomplete:
        listed, more = report.incomplete_evals[:MOST_LINKED], len(report.incomplete_evals) - MOST_LINKED
        names = f" ({inline.paths(listed)}{f' and {more} more' if more > 0 else ''})" if listed else ""
        yield f"{run.incomplete} never completed{names}"
    yield f"{run.total} in all"


def _deciders(report: Report) -> Iterator[str]:
    proved: Counter[str] = Counter()
    for entry in _each(report):
        if entry.classification is None:
            proved["undecided"] += len(entry.evals)
        elif entry.reviewed:
            proved["by a reviewer"] += len(entry.evals)
        elif entry.basis == "proved":
            proved["proved by replay"] += len(entry.evals)
        elif entry.basis == "corrected":
            proved["by earlier corrections"] += len(entry.evals)
        else:
            proved["uncertain" if entry.uncertain else "certain"] += len(entry.evals)
    order = ("proved by replay", "by a reviewer", "by earlier corrections", "certain", "uncertain", "undecided")
    counts = [f"{proved[word]} {word}" for word in order if proved[word]]
    if counts:
        root = "../" * len(model_folder(report.run.provider, report.run.model))
        yield f"{', '.join(counts)} ([labels]({root}{LABELS_PAGE}))"
    prompts_note = " with the workspace's own prompts" if report.own_prompts else ""
    if report.judges:
        yield f"{', '.join(map(inline.name, report.judges))}{prompts_note}"
    for agreement in report.agreement:
        judge = "" if [agreement.judge] == _consulted_judges(report) else f"{inline.name(agreement.judge)} "
        yield f"{judge}agreed with your corrections in {agreement.agreed} of {agreement.corrections}"
    yield f"analysed {report.date}"


class RecommendationRow(NamedTuple):
    """One row of the table of recommendations, as the report prints it."""

    id: str
    """Id of the recommendation, such as `R1`. Empty for a remark, which proposes no change."""
    type: str
    text: str
    evals: tuple[str, ...]
    effect: str
    """Expected effect: `+2`, `+2 (proved)` or `unclear`. Empty for a remark."""


def recommendation_rows(report: Report) -> list[RecommendationRow]:
    """Return the recommendations in the order of their numbers, followed by the remarks."""
    items = sorted(report.recommendations, key=lambda item: (item.id is None, _number(item)))
    return [
        RecommendationRow(item.id or "", _type(item, report), _sentence(item.text), item.evals, _effect(item, report))
        for item in items
    ]


def _recommendations(report: Report) -> Iterator[str]:
    notes = _notes(report, "recommendations")
    rows = recommendation_rows(report)
    if rows or notes:
        yield "## Recommendations"
    if rows:
        yield "| | Type | Change | Findings | Effect |"
        yield "|---|---|---|---|---|"
        for row in rows:
            concerns = _findings(row.evals, report) or "all"
            yield inline.row(row.id, row.type, row.text, concerns, row.effect)
    yield from notes


def _effect(item: Recommendation, report: Report) -> str:
    if item.id is None:
        return ""
    if not item.would_pass or not set(item.evals) <= set(report.hoped_for):
        return "unclear"
    return f"+{len(item.evals)}{' (proved)' if _is_proved(item, report) else ''}"


def _is_proved(item: Recommendation, report: Report) -> bool:
    """Return whether every eval that the recommendation concerns has replays with exactly the recommended change, and
    all of these replays passed.
    """
    proofs = {proof.eval: [replay for replay in proof.replays if replay.change == item.text] for proof in report.proofs}
    tried = [proofs.get(path, []) for path in item.evals]
    return all(tried) and all(replay.passed for replays in tried for replay in replays)


def _number(item: Recommendation) -> int:
    return int((item.id or "R0")[1:])


def _type(item: Recommendation, report: Report) -> str:
    evals = frozenset(item.evals)
    kinds = {entry.cause_kind for entry in report.entries if not evals.isdisjoint(entry.paths)}
    if item.group == "eval" and kinds <= {"harness", "infrastructure", "task", "lint", "user"} and len(kinds) == 1:
        return str(next(iter(kinds)))
    return "no action" if item.group == "none" else _whose(item.group, report)


def _failures(report: Report) -> Iterator[str]:
    yield "## Failures"
    if not report.entries:
        yield NOTHING
    # Together with shorter lists and quotations, omitting repetitions halves the pages: 38 instead of 75 kB for the
    # reports of six real runs.
    texts = _texts(report)
    shared = _shared(texts)
    if first := [number for number, entry in enumerate(report.entries, 1) if entry.never_passed]:
        reason = "no known trial of any model passed these tasks, so what they expect may be wrong"
        yield f"- {inline.ranges(first)} {'comes' if len(first) == 1 else 'come'} first: {reason}."
    yield from (f"- {text.rstrip('.')} ({inline.ranges(numbers)})" for text, numbers in shared.items())
    if report.proofs:
        yield "- The JSON file beside this page has the logs of replays; each `Replay:` line names the place."
    # Notes from a section of the older page format.
    yield from _notes(report, "classification")
    yield from _notes(report, "findings")
    for number, (entry, text) in enumerate(zip(report.entries, texts, strict=True), 1):
        if number > 1 and len(report.entries[number - 2].evals) > 1:
            yield ""  # a blank line ends the HTML block
        details = tuple(sentence for sentence in text.details if sentence not in shared)
        yield from _finding(number, entry, text._replace(details=details), report)


class _Text(NamedTuple):
    """The sentences that the page prints for a finding."""

    summary: str
    """Sentence that is printed in the first line of the finding."""
    error: tuple[str, ...]
    """Sentence with the error. Empty if other text of the finding contains the error."""
    details: tuple[str, ...]
    """Further sentences of the finding. No sentence repeats the summary or a quotation."""
    trials: tuple[str, ...] = ()
    """One string for each trial, with the sentences that only some of the trials have. Empty for a trial without such
    sentences.
    """


def _texts(report: Report) -> list[_Text]:
    """Return the text of each finding.

    If an earlier finding, such as finding 3, already has the same summary, the summary becomes `as 3`. If an earlier
    finding already has the same error, the error becomes `Error: as 3.`.
    """
    texts: list[_Text] = []
    firsts: dict[str, int] = {}
    for number, text in enumerate(map(_text, report.entries), 1):
        same = {part: firsts.setdefault(part, number) for part in (text.summary, *text.error) if part}
        summary = f"as {same[text.summary]}" if same.get(text.summary, number) < number else text.summary
        error = tuple(f"Error: as {same[part]}." if same[part] < number else part for part in text.error)
        texts.append(text._replace(summary=summary, error=error))
    return texts


def _shared(texts: Sequence[_Text]) -> dict[str, list[int]]:
    """Return the sentences that more than `MOST_REPEATED` findings have, each with the numbers of these findings."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts, 1):
        for sentence in text.details:
            numbers[sentence].append(number)
    return {
        sentence: finding_numbers
        for sentence, finding_numbers in numbers.items()
        if len(finding_numbers) > MOST_REPEATED
    }


def _text(entry: ReportEntry) -> _Text:
    """Return the text of a finding, without repetitions."""
    return _shared_text(entry) if entry.joined else _verdict_text(entry, entry.snippets)


def _shared_text(entry: ReportEntry) -> _Text:
    """Return the text of a finding with several trials.

    The text consists of the sentences that all trials share and, for each trial, its other sentences.
    """
    first, *_ = entry.each
    # The page prints only the quotations of the first trial, so only these can replace a sentence.
    texts = [_verdict_text(part, first.snippets if part.snippets == first.snippets else ()) for part in entry.each]
    summaries = {text.summary for text in texts}
    passages = [(*text.error, *text.details) for text in texts]
    shared = tuple(part for part in passages[0] if all(part in parts for parts in passages))
    trial_texts = [
        " ".join(
            [*([f"{text.summary}."] if len(summaries) > 1 else []), *(part for part in parts if part not in shared)]
        )
        for text, parts in zip(texts, passages, strict=True)
    ]
    summary = inline_words(entry.cause or "") if len(summaries) > 1 else texts[0].summary
    return _Text(
        summary,
        tuple(part for part in texts[0].error if part in shared),
        tuple(part for part in texts[0].details if part in shared),
        tuple(trial_texts),
    )


def _verdict_text(entry: ReportEntry, quotations: Sequence[Snippet]) -> _Text:
    """Return the text of a single verdict.

    Sentences that the finding's printed quotations already contain are left out.
    """
    quoted = _plain("\n".join(snippet.text for snippet in quotations))
    statements = {_plain(text): text for text in (*sentences(entry.reasoning), entry.why) if text}
    unsaid = [
        text
        for plain, text in statements.items()
        if not (len(plain) >= SHORTEST_STATEMENT and plain in quoted)
        and not any(plain in other for other in statements if other != plain)
    ]
    if entry.why in unsaid:
        unsaid = [entry.why, *(text for text in unsaid if text != entry.why)]
    summary, *details = unsaid or [inline_words(entry.cause or "")]
    if entry.why and _plain(summary).startswith(_plain(entry.why)):
        # The summary is a sentence that begins with the words of `why`. In the line with the label, its first letter is
        # written as in `why`, usually in lower case.
        summary = entry.why[0] + summary[1:]
    repeated = _is_shown(entry.error, f"{_plain(' '.join(statements.values()))} {quoted}")
    error = () if repeated else (f"Error: {inline.code(_ends(entry.error))}.",)
    missing = [f"Missing: {entry.missing.rstrip('.')}."] if entry.missing else []
    close = [CLOSE_SCORE] if entry.scored and entry.scored.close else []
    return _Text(summary.rstrip("."), error, (*details, *close, *missing, *_across(entry.across)))


def sentences(text: str) -> list[str]:
    """Split a text into sentences, ignoring full stops in code spans."""
    starts = [0, *(match.end() for match in _SENTENCE.finditer(mask_code(text)))]
    return [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _is_shown(error: str, context: str) -> bool:
    """Return whether `context` already states the error, or at least the code of the error's rule."""
    if error.endswith(NO_REASON):
        return True  # a recommendation states the reason instead
    text = _plain(error)
    rule = _RULE.search(text)
    # The message of a rule adds nothing to its code.
    if rule and re.search(rf"(?<![\w-]){re.escape(rule[1] or rule[2])}(?![\w-])", context):
        return True
    return all(part[:ENOUGH] in context for part in text.split(": "))


def _ends(error: str) -> str:
    """Shorten an error that is too long to be printed in full.

    If the error compares two values, the part in which they differ is kept. In any other error, the middle is cut out.
    """
    error = error.rstrip(".")
    if len(error) <= LONGEST_ERROR:
        return error
    if difference := contrast(error, LONGEST_ERROR):
        return difference
    # The beginning names the kind of error, and the end says what was wrong.
    begin, end = (re.sub(pattern, "", part) for pattern, part in ((r"\s+\S*$", error[:50]), (r"^\S*\s+", error[-75:])))
    return f"{begin} … {end}"


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").casefold().rstrip("….").split())


def anchor(number: int, entry: ReportEntry) -> str:
    """Return the URL fragment that GitHub generates for the heading of a finding."""
    heading = f"{number}. {inline.uncode(labels.subject(entry))}".lower()
    return quote("".join(c for c in heading.replace(" ", "-") if c.isalnum() or c in "-_"), safe="-_")


def _finding(number: int, entry: ReportEntry, text: _Text, report: Report) -> Iterator[str]:
    yield f"### {number}. {labels.subject(entry)}"
    yield label_line(entry, text.summary, report)
    yield from reviewer_lines(entry)
    if details := (*text.error, *text.details):
        yield f"- {' '.join(details)}"
    yield from _proof(entry, report)
    yield from _trials(entry, text, report) if entry.joined else snippets.render(entry.snippets)
    yield from _members(entry)
    yield from _quoted(entry.notes)


def _proof(entry: ReportEntry, report: Report) -> Iterator[str]:
    """Yield a line for each outcome of a finding's replays.

    The line has the outcome, a command with its exit code, and the place of the log in the data file.
    """
    lines: dict[str, list[str]] = defaultdict(list)
    places: dict[str, str] = {}
    quoted = {snippet.path for part in entry.each for snippet in part.snippets}
    for at, proof in enumerate(report.proofs):
        if proof.eval in entry.paths:
            outcome, number = _replays(proof, quoted)
            lines[outcome].append(proof.eval)
            replay = proof.replays[number]
            as_ = f", quoted as {inline.code(replay.document)}" if replay.document in quoted else ""
            places.setdefault(outcome, f"; log: `proofs[{at}].replays[{number}].log`{as_}" if replay.log else "")
    for outcome, paths in lines.items():
        of = f" of {inline.paths(paths)}" if len(lines) > 1 else ""
        yield f"- Replay{of}: {outcome}{places[outcome]}."


def _replays(proof: ProofSummary, quoted: Collection[str]) -> tuple[str, int]:
    """Describe the outcome of an eval's replays. Also return the index of the replay whose log a reader should open."""
    counts = list(proof.counts())
    # Show the last replay, which decided the outcome, unless a quotation is from the log of another replay.
    number = next(
        (n for n, replay in enumerate(proof.replays) if replay.document and replay.document in quoted),
        next((count.shown for count in reversed(counts) if count.change is None), counts[-1].shown if counts else 0),
    )
    replay = proof.replays[number]
    status = f", exit code {replay.exit_code}" if replay.exit_code is not None else ""
    command = f" ({inline.code(replay.command)}{status})" if replay.command else ""
    prefix = f"inconclusive, {proof.why}; " if proof.outcome == "inconclusive" else ""
    return f"{prefix}{'; '.join(map(proof.count_text, counts))}{command}", number


def _trials(entry: ReportEntry, text: _Text, report: Report) -> Iterator[str]:
    """Yield a line for each text that not all trials share, and the lines of the quotations.

    If the trials have different quotations, only those of the first trial are printed, directly below its line. The
    quotations of the other trials are only in the data file.
    """
    quoted, facts = snippets.render(entry.snippets), _shared_facts(entry, report)
    differ = any(part.snippets != entry.snippets for part in entry.each)
    lines: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for at, (part, words) in enumerate(zip(entry.each, text.trials, strict=True)):
        trial_facts = ", ".join(fact for fact in _facts(part, report) if fact not in facts)
        line = f"{f' ({trial_facts})' if trial_facts else ''}:{f' {words}' if words else ''}"
        lines[line, differ and at == 0] += labels.trials(part)
    for (line, first), numbers in lines.items():
        if line != ":" or (first and quoted):
            # Not `#1`, because GitHub would read it as the number of an issue.
            yield f"- {'Trial' if len(numbers) == 1 else 'Trials'} {inline.ranges(numbers)}{line}"
        if first:
            yield from quoted
    if not differ:
        yield from quoted


def label_line(entry: ReportEntry, summary: str, report: Report) -> str:
    """Return the line directly below a finding's heading. People correct a label by editing the bold label in this
    line.

    If several judges decided failures of the report, the line names the judge of this finding. If a person corrected
    the label, the line also states the judge's label and its reason.
    """
    label = labels.of(entry)
    bold = f"**{label.classification or labels.UNCLASSIFIED}**"
    parts = [f"{bold}{f' ({label.kind})' if label.kind else ''}{', uncertain' if label.uncertain else ''}"]
    judge = _overruled(entry)
    if summary and not judge:
        parts.append(summary)
    parts += _shared_facts(entry, report)
    if judge:
        ways = {_decided(part, report) for part in entry.each}
        how = "".join(ways) if len(ways) == 1 else ""
        parts.append(f"judge said {judge.classification}{how and f' {how}'}{summary and f': {summary}'}")
    if entry.trials:
        parts.append(f"{entry.trials.passed or 'none'} of {entry.trials.total} trials passed")
    return " · ".join(parts).rstrip()


def _shared_facts(entry: ReportEntry, report: Report) -> list[str]:
    """Return the facts that are the same for all trials of a finding.

    For a finding without trials, return all of its facts.
    """
    first, *others = ([*_facts(part, report)] for part in entry.each)
    return [fact for fact in first if all(fact in facts for facts in others)]


def _facts(entry: ReportEntry, report: Report) -> Iterator[str]:
    """Yield the failed step, the basis of the verdict, and what earlier reports say about the eval."""
    url = entry.evals[0].url if len(entry.evals) == 1 else None
    if entry.step or url:
        yield inline.link(labels.step_name(entry.step) if entry.step else "eval", url)
    if entry.scored:
        yield str(entry.scored)
    if entry.message is not None and not _overruled(entry):
        first = f", first mistake at {entry.first_mistake}" if entry.first_mistake else ""
        yield f"went wrong at message {entry.message}{first}"
    if entry.basis != "judged":
        yield "as people labelled it before" if entry.basis == "corrected" else f"{entry.basis} by replay"
    if entry.contradicted:
        label = entry.contradicted
        decider = "the rules" if by_rules(label.id) else "people" if by_people(label.id) else "judge"
        yield f"{decider} said {label_and_confidence(label.classification, label.confidence, label.id)}"
    if not _overruled(entry) and (how := _decided(entry, report)):
        yield how
    if history := _history(entry, report.earlier):
        yield history


def _overruled(entry: ReportEntry) -> JudgeLabel | None:
    """Return the judge's label if a person replaced it with a different one, otherwise None."""
    return entry.judge if entry.judge and entry.judge.classification != entry.classification else None


def _decided(entry: ReportEntry, report: Report) -> str:
    """Return the confidence that the judging model stated.

    If several judges decided failures of the report, also name the judge.
    """
    judge = entry.judge
    if judge is None or proves(judge.id) or by_people(judge.id):
        return ""
    stage = f" ({judge.stage})" if judge.stage else ""
    by = f"by {inline.name(judge.id)}{stage}" if len(_consulted_judges(report)) > 1 else ""
    return by if by_rules(judge.id) else f"{judge.confidence:.2f} {by}".rstrip()


def _consulted_judges(report: Report) -> list[str]:
    """Return the ids of the judges that were asked.

    Replays and people's corrections of earlier runs also decide failures, but they are not asked.
    """
    return [judge for judge in report.judges if not (proves(judge) or by_people(judge))]


def inline_words(slug: str) -> str:
    """Return a short name as words: `missing-empty-args` becomes `missing empty args`."""
    words = slug.replace("-", " ")
    return words if re.fullmatch(r"[A-Za-z0-9 .]+", words) else inline.code(slug)


def reviewer_lines(entry: ReportEntry) -> list[str]:
    """Return the `Reviewer:` lines, one per statement."""
    return [f"Reviewer: {text}".rstrip() for text in entry.reviewer]


def _history(entry: ReportEntry, earlier: Sequence[str]) -> str:
    """Return how the finding relates to earlier reports.

    An earlier report is named by its date. The table at the top of the page has links to the reports.
    """
    recurrence = entry.recurrence
    if recurrence.kind == "new":
        return ""
    dates = Counter(inline.report_date(report) for report in earlier)
    reports = ", ".join(
        date if (date := inline.report_date(report)) and dates[date] == 1 else inline.report_link(report)
        for report in recurrence.reports
    )
    if recurrence.kind == "repeat":
        # A failure that nobody judged has no cause in common with an earlier failure.
        return f"repeat of {reports}" if entry.cause else f"failed in {reports}"
    if recurrence.kind == "changed":
        return f"another cause than in {reports}"
    return f'fix of {reports} did not hold: "{recurrence.action}"'


def _across(across: CrossModelFailures | None) -> Iterator[str]:
    if across is None:
        return
    if across.failing > 1:
        also = f", also {_models(across.alike, across.more)}" if across.alike else ""
        yield f"Fails the same way for {across.failing} of {across.models} models{also}."
    if across.earlier:
        earlier = _models(across.earlier, across.more_earlier)
        yield f"Failed in the same way in an earlier version of the eval: {earlier}."


def _models(names: tuple[str, ...], more: int) -> str:
    return ", ".join(map(inline.name, names)) + (f" and {more} more" if more else "")


def _members(entry: ReportEntry) -> list[str]:
    if labels.subject(entry) != f"{len(entry.evals)} evals":
        return []
    lists = member_lists(entry)
    heading = f"{len(entry.evals)} evals, {pluralise(len(lists), 'category')}"
    return ["", f"<details><summary>{heading}</summary>", "", *lists, "", "</details>"]


def member_lists(entry: ReportEntry) -> list[str]:
    """Return the evals of a group as a markdown list. The list has one line per category."""
    categories = groupby(entry.evals, lambda ref: ref.category)
    return [f"- {inline.name(c) if c else '(no category)'}: {', '.join(map(_member, refs))}" for c, refs in categories]


def _member(ref: EvalRef) -> str:
    return inline.link(inline.name(ref.path.rpartition("/")[2]), ref.url)


def _quoted(notes: Iterable[str]) -> Iterator[str]:
    for note in notes:
        yield ""
        yield from (f"> {line}".rstrip() for line in note.split("\n"))


def _notes(report: Report, section: Section) -> list[str]:
    return list(_quoted(note.text for note in report.notes if note.section == section))


def _patterns(report: Report) -> Iterator[str]:
    lines = [_pattern(pattern, report) for pattern in report.patterns if not _is_repeated(pattern, report)]
    lines += [_resolved(report)] if report.resolved else []
    lines += [_follow_up(follow_up, report) for follow_up in report.follow_ups]
    notes = _notes(report, "patterns")
    if lines or notes:
        yield "## Patterns"
        yield from (f"- {line}" for line in lines)
        yield from notes


def _is_repeated(pattern: Pattern, report: Report) -> bool:
    """Return whether the page already states the pattern elsewhere.

    The pattern can be stated in a recommendation, in the first lines of the page, or in the only finding to which it
    applies.
    """
    if pattern.kind == "cause":
        return any(item.evals == pattern.evals for item in report.recommendations if item.group != "none")
    if pattern.kind == "known-gaps":
        gaps = (entry.paths for entry in report.entries if _counted_as(entry) == "known gap")
        return pattern.evals == tuple(chain.from_iterable(gaps))
    return pattern.kind == "not-the-model" and len(pattern.evals) == 1


def _pattern(pattern: Pattern, report: Report) -> str:
    concerns = _findings(pattern.evals, report)
    return f"**{pattern.name}**{f' ({concerns})' if concerns else ''}: {pattern.text}".rstrip()


def _resolved(report: Report) -> str:
    dates = [match[0] for match in map(inline.DATE.search, report.earlier) if match]
    since = f" since {min(dates)}" if dates else ""
    names = inline.paths(report.resolved)
    # If the source names only failures, the eval possibly did not run.
    return f"**{'Fixed' if report.run.names_all else 'No longer failing'}{since}**{_unless(report)}: {names}."


def _unless(report: Report) -> str:
    """Return a caveat that some evals might not have completed.

    Returns an empty string if all evals completed, or if the source names every eval of the run.
    """
    open_ = 0 if report.run.names_all else report.run.incomplete
    return f" (or among the {open_} that never completed)" if open_ else ""


_OUTCOMES = {"held": "Held", "did not hold": "Did not hold", "not yet seen": "Not yet seen"}


def _follow_up(follow_up: FollowUp, report: Report) -> str:
    concerns = _findings(follow_up.evals, report)
    unless = _unless(report) if follow_up.outcome == "held" else ""
    folder = re.sub(r"^(?:\.\./)+", "", posixpath.dirname(follow_up.report))
    of_model = f" of {inline.name(folder)}" if folder else ""
    since = f"{inline.report_link(follow_up.report)}{of_model}{unless}"
    return (
        f'**{_OUTCOMES[follow_up.outcome]}** since {since}: "{follow_up.text}"{f" ({concerns})" if concerns else ""}.'
    )


def _net_impact(report: Report) -> Iterator[str]:
    impact = report.net_impact
    apart = [number for number, entry in enumerate(report.entries, 1) if entry.not_counted]
    lines = [f"As run {_share(impact.passed, impact.total)}"]
    if apart:
        without = _share(impact.scorable_passed, impact.scorable_total)
        lines.append(f"{_excluded(report)} ({inline.ranges(apart)}) {without}")
    proved, numbers = _with_basis(report, "proved")
    if total := max(0, impact.total - proved) if proved else 0:
        kind = _whose("failures that are proved not the model's", report)
        lines.append(f"without {kind} ({inline.ranges(numbers)}) {_share(min(impact.passed, total), total)}")
    if report.hoped_for:
        with_ = f"with {claimed(report)} applied ({_findings(report.hoped_for, report)})"
        lines.append(f"{with_} {_share(impact.hopeful_passed, impact.total)}")
    yield "## Net impact"
    yield f"{'; '.join(lines)}."
    yield from _notes(report, "net-impact")


def _excluded(report: Report) -> str:
    by_user = any(entry.not_counted and entry.cause_kind == "user" for entry in report.entries)
    return f"without harness faults{', faults of simulated users' if by_user else ''} and outages"


def _share(passed: int, total: int) -> str:
    return f"{passed}/{total} ({rate(passed, total)})" if total else f"– ({rate(passed, total)})"


def rate(passed: int, total: int) -> str:
    return f"{100 * passed / total:.1f} %" if total else "no eval could be scored"


def _actions(report: Report) -> Iterator[str]:
    yield f"## {ACTIONS}"
    yield from (report.actions_taken or NOTHING).split("\n")


def _findings(paths: Sequence[str], report: Report) -> str:
    """Return references to the findings of the evals in `paths`.

    A finding is referred to by number if all of its evals are in `paths`. Other evals are referred to by path.
    """
    references = inline.render_references(paths, report.entries)
    numbers = [int(reference) for reference in references if reference.isdecimal()]
    return ", ".join(
        filter(None, (inline.ranges(numbers), *(reference for reference in references if not reference.isdecimal())))
    )


def _links(report: Report, numbers: Sequence[int]) -> str:
    """Return links to findings. If there are more than `MOST_LINKED`, return only their numbers."""
    return inline.ranges(numbers) if len(numbers) > MOST_LINKED else _and(_link(report, number) for number in numbers)


def _link(report: Report, number: int) -> str:
    return f"[{number}](#{anchor(number, report.entries[number - 1])})"


def _sentence(text: str) -> str:
    text = one_line(text).rstrip(".")
    return text[:1].upper() + text[1:]


def _and(parts: Iterable[str]) -> str:
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last
