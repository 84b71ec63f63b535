"""Near misses are never verified and true quotations always are: hundreds of each, in real and generated text."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest

from evalscribe.judging import quotations
from evalscribe.judging.citations import resolve_citations
from evalscribe.judging.subjects import Subject, SubjectItem, agent_run_subject, failure_subject
from evalscribe.model.evidence import Citation, Document, Evidence
from evalscribe.model.result import ResolvedCitation
from evalscribe.model.run import Eval
from evalscribe.model.transcript import AgentRun, AssistantMessage, ToolMessage, Transcript, UserMessage
from support.real_runs import failures

SEED = 20261121
IDENTIFIER = re.compile(r"[A-Za-z_]\w{3,}")
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
OPERATOR = re.compile(r"(?<=\w )(?:===|!==|==|!=|<=|>=|=>|&&|\|\||[-+*/%<>=])(?= [\w(\"'])")
NEGATION = re.compile(r"!(?=[\w(])|\bnot (?=\w)|\bnever (?=\w)|\bno (?=\w)|\bcannot (?=\w)|\b\w+n't (?=\w)|-(?=\d)")
OTHER_OPERATORS = ("===", "!==", "==", "!=", "<=", ">=", "+", "-", "||", "&&")
Change = Callable[[str, random.Random], str | None]


def chosen(pattern: re.Pattern[str], line: str, chance: random.Random) -> re.Match[str] | None:
    matches = list(pattern.finditer(line))
    return chance.choice(matches) if matches else None


def identifier_changed(line: str, chance: random.Random) -> str | None:
    if not (word := chosen(IDENTIFIER, line, chance)):
        return None
    other = chance.choice([word[0][:-1], word[0][1:], f"{word[0]}s", word[0].swapcase(), f"{word[0][:-1]}q"])
    return line[: word.start()] + other + line[word.end() :]


def identifier_cut(line: str, chance: random.Random) -> str | None:
    """The quotation ends, or begins, inside a word."""
    if not (word := chosen(IDENTIFIER, line, chance)):
        return None
    return line[: word.end() - 1] if chance.random() < 0.5 else line[word.start() + 1 :]


def number_changed(line: str, chance: random.Random) -> str | None:
    if not (number := chosen(NUMBER, line, chance)):
        return None
    other = chance.choice([str(int(number[0]) + 1), f"{number[0]}0", f"1{number[0]}", f"-{number[0]}"])
    return line[: number.start()] + other + line[number.end() :]


def number_cut(line: str, chance: random.Random) -> str | None:
    number = chosen(re.compile(r"\d{2,}"), line, chance)
    return line[: number.end() - 1] if number else None


def operator_changed(line: str, chance: random.Random) -> str | None:
    if not (operator := chosen(OPERATOR, line, chance)):
        return None
    other = chance.choice([sign for sign in OTHER_OPERATORS if sign != operator[0]])
    return line[: operator.start()] + other + line[operator.end() :]


def operator_cut(line: str, chance: random.Random) -> str | None:
    """The quotation begins after the first character of an operator, or ends before its last."""
    operator = chosen(re.compile(r"(?<=\w )(?:===|!==|==|!=|<=|>=|=>|&&|\|\|)(?= )"), line, chance)
    if not operator:
        return None
    return line[: operator.end() - 1] if chance.random() < 0.5 else line[operator.start() + 1 :]


def negation_dropped(line: str, chance: random.Random) -> str | None:
    negation = chosen(NEGATION, line, chance)
    return line[: negation.start()] + line[negation.end() :] if negation else None


def negation_cut(line: str, chance: random.Random) -> str | None:
    """The quotation begins right after the negation."""
    negation = chosen(NEGATION, line, chance)
    return line[negation.end() :] if negation else None


def negation_added(line: str, chance: random.Random) -> str | None:
    word = chosen(IDENTIFIER, line, chance)
    return f"{line[: word.start()]}{chance.choice(['!', 'not '])}{line[word.start() :]}" if word else None


CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (
        *(identifier_changed, identifier_cut, number_changed, number_cut, operator_changed, operator_cut),
        *(negation_dropped, negation_cut, negation_added),
    )
}


def generated_run(chance: random.Random, turns: int = 40) -> Subject:
    """Return a run with unique words and numbers, except those that operators and negations need."""
    words = iter(f"{chance.choice(['alpha', 'brook', 'cinder', 'dune'])}{'xyzw'[n % 4]}_{n}q" for n in range(10**6))

    def line() -> str:
        one, two, three, four = (next(words) for _ in range(4))
        number = chance.randrange(10**6, 10**7)
        kinds = (
            f"if (!{one} && {two} <= {number}) return {three}.{four};",
            f"  {one} = {two} != {three} ? -{number} : {four}",
            f"The {one} does not reach {two}, it never gets past {number} of {three}.",
            f"[{number}] error: cannot open {one}/{two}.ts: {three} isn't {four}",
        )
        return chance.choice(kinds)

    def text() -> str:
        return "\n".join(line() for _ in range(chance.randrange(2, 9)))

    messages = [
        maker
        for _ in range(turns)
        for maker in (
            UserMessage(content=text()),
            AssistantMessage(content=text(), reasoning=text()),
            ToolMessage(content=text(), error=text()),
        )
    ]
    return agent_run_subject(AgentRun(transcripts=(Transcript(messages=tuple(messages)),)))


def quotable(item: SubjectItem) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(item.text.split("\n"), 1) if 8 <= len(line.strip()) <= 400]


def only(text: str, subject: Subject) -> ResolvedCitation:
    (citation,) = resolve_citations(text, subject).citations
    return citation


def cited(item: SubjectItem, first: int, last: int, quote: str) -> str:
    where = f":{first}-{last}" if item.numbered else ""
    return f"It says [{item.mark}{where}:<RANGE>{quote}</RANGE>], so."


def near_misses(subject: Subject, chance: random.Random, each: int) -> Iterator[tuple[str, SubjectItem, int, str]]:
    """Yield lines of a subject with one change each: kind of change, item, line number, changed line."""
    lines = [(item, number, line) for item in subject.items for number, line in quotable(item)]
    for name, change in CHANGES.items():
        changed = ((item, number, change(line, chance)) for item, number, line in chance.sample(lines, len(lines)))
        yield from islice(((name, *miss) for miss in real_misses(changed)), each)
    pairs = [(one, other) for one, other in pairwise(lines) if one[0] is other[0] and one[1] + 1 == other[1]]
    for (item, number, line), (_, _, following) in chance.sample(pairs, min(each, len(pairs))):
        yield "lines joined", item, number, f"{line.strip()} {following.strip()}"


def real_misses(changed: Iterable[tuple[SubjectItem, int, str | None]]) -> Iterator[tuple[SubjectItem, int, str]]:
    """Drop changed lines that the claimed text contains as well."""
    for item, number, line in changed:
        claimed = "\n".join(item.text.split("\n")[number - 1 : number + 1]) if item.numbered else item.text
        whole = line and any(line.split() == there.split() for there in claimed.split("\n"))
        if line and not whole and len(line.strip()) > 3 and claimed.count(line.strip()) < 2:
            yield item, number, line.strip()


def check(subject: Subject, chance: random.Random, each: int, counts: Counter[str]) -> None:
    for name, item, number, quote in near_misses(subject, chance, each):
        counts[name] += 1
        citation = only(cited(item, number, number + 1, quote), subject)
        assert citation.status != "verified", (name, item.mark, quote)


def test_no_near_miss_of_a_generated_run_is_verified() -> None:
    chance = random.Random(SEED)
    counts: Counter[str] = Counter()
    for _ in range(4):
        check(generated_run(chance), chance, 60, counts)
    print("near misses, made up:", dict(counts))
    assert counts.keys() == {*CHANGES, "lines joined"}
    assert min(counts.values()) >= 200


def test_no_near_miss_of_the_real_runs_is_verified(real_data: Path) -> None:
    chance = random.Random(SEED)
    counts: Counter[str] = Counter()
    for evidence in failures(real_data):
        check(failure_subject("run", evidence), chance, 3, counts)
    print("near misses, real runs:", dict(counts))
    assert counts.keys() == {*CHANGES, "lines joined"}
    assert min(counts.values()) >= 100


def test_no_near_miss_of_the_real_runs_is_verified_as_whole_lines(real_data: Path) -> None:
    chance = random.Random(SEED)
    counts: Counter[str] = Counter()
    for evidence in failures(real_data):
        for name, item, number, quote in near_misses(failure_subject("run", evidence), chance, 2):
            role, path = item.target.role, item.target.path
            if role is not None and path is not None:
                counts[name] += 1
                claim = Citation(role=role, path=path, first=number, last=number, text=quote)
                assert quotations.verify_citation(claim, evidence).status != "verified", (name, item.mark, quote)
    print("near misses as whole lines:", dict(counts))
    assert sum(counts.values()) > 2_000


def prompt_wording(subject: Subject) -> Iterator[str]:
    """Yield prompt text that belongs to no item: delimiters, marks, roles, labels, line numbers, the help."""
    shown = subject.text()
    for line in shown.split("\n"):
        if re.match(r"</?evidence-[0-9a-f]{12}", line):
            yield line
            yield line.strip("<>/").split(" ", 1)[-1]
        elif numbered := re.match(r"\d+\| \S.*", line):
            yield numbered[0]
    yield from subject.citation_help.split("\n")


@pytest.mark.parametrize("seed", range(3))
def test_prompt_wording_is_never_a_valid_quotation(seed: int) -> None:
    chance = random.Random(seed)
    subject = generated_run(chance, turns=15)
    known = "\n".join(item.text for item in subject.items)
    tried = 0
    for words in prompt_wording(subject):
        if len(words.strip()) > 2 and words not in known and "[" not in words:
            item = chance.choice(subject.items)
            tried += 1
            assert only(f"[{item.mark}:<RANGE>{words}</RANGE>]", subject).status == "unverified", words
    print("words of ours:", tried)
    assert tried > 100


def test_prompt_wording_about_real_failures_is_never_a_valid_quotation(real_data: Path) -> None:
    tried = 0
    for evidence in list(failures(real_data))[::4]:
        subject = failure_subject("run", evidence)
        known = "\n".join(item.text for item in subject.items)
        for words in list(prompt_wording(subject))[::7]:
            if len(words.strip()) > 2 and words not in known and "[" not in words:
                tried += 1
                citation = only(f"[failure:<RANGE>{words}</RANGE>]", subject)
                assert citation.status == "unverified", words
    print("words of ours, real runs:", tried)
    assert tried > 200


def test_quotation_of_another_file_is_relocated(real_data: Path) -> None:
    chance = random.Random(SEED)
    tried = 0
    for evidence in failures(real_data):
        subject = failure_subject("run", evidence)
        documents = [item for item in subject.items if item.numbered]
        for item in chance.sample(documents, min(3, len(documents))):
            other = chance.choice(documents)
            for number, line in chance.sample(quotable(item), min(3, len(quotable(item)))):
                if quotations.fold_line(line) not in " ".join(map(quotations.fold_line, other.text.split("\n"))):
                    tried += 1
                    citation = only(cited(other, number, number, line.strip()), subject)
                    assert citation.status == "relocated"
                    assert citation.target is not None
                    assert citation.target.item != other.mark
    print("text of another file:", tried)
    assert tried > 300


def respaced(line: str, chance: random.Random) -> str:
    blanks = re.sub(r"[ \t]+", lambda _: chance.choice([" ", "  ", "\t", " \u00a0 "]), line.strip())
    return f"{chance.choice(['', ' ', chr(9)])}{blanks}{chance.choice(['', '  '])}"


def true_quotes(item: SubjectItem, chance: random.Random, each: int) -> Iterator[tuple[int, int, str]]:
    """Yield quotations of whole lines or of lines cut at a blank, with changed whitespace."""
    lines = item.text.split("\n")
    for _ in range(each):
        first = chance.randrange(len(lines))
        last = min(len(lines), first + chance.randrange(1, 5))
        picked = [respaced(line, chance) for line in lines[first:last]]
        if chance.random() < 0.3:
            picked[-1] = " ".join(lines[last - 1].split()[: chance.randrange(1, 9)])
        elif chance.random() < 0.5:
            picked[0] = later_words(lines[first], chance)
        if all(picked) and len("".join(picked).strip()) > 8 and lines[last - 1].strip() and lines[first].strip():
            yield first + 1, last, chance.choice(["\n", "\n\n", "\r\n"]).join(picked)


def later_words(line: str, chance: random.Random) -> str:
    """Return a line from a random word on, or "" if a negation precedes that word."""
    words = line.split()
    at = chance.randrange(len(words)) if words else 0
    negated = at and re.search(r"(?:\b(?:not|no|never|nor|neither|none|cannot|without)|n['’]t|!)$", words[at - 1], re.I)
    return "" if negated else "  ".join(words[at:])


def test_true_quotations_are_found_despite_changed_whitespace_and_shifted_lines(real_data: Path) -> None:
    chance = random.Random(SEED)
    counts: Counter[str] = Counter()
    for evidence in failures(real_data):
        subject = failure_subject("run", evidence)
        for item in (item for item in subject.items if item.numbered and item.text.strip()):
            for first, last, quote in true_quotes(item, chance, 3):
                assert only(cited(item, first, last, quote), subject).status == "verified", (item.mark, quote)
                counts["verified"] += 1
                shift = chance.randrange(1, 40)
                shifted = only(cited(item, first + shift, last + shift, quote), subject)
                assert shifted.status in ("verified", "relocated"), (item.mark, quote)
                counts[f"shifted: {shifted.status}"] += 1
    print("true quotations, real runs:", dict(counts))
    assert counts["verified"] > 1_000


def test_true_quotations_of_a_generated_run_are_found() -> None:
    chance = random.Random(SEED)
    verified_count = 0
    subject = generated_run(chance)
    for item in subject.items:
        for _, _, quote in true_quotes(item, chance, 5):
            inside_one_part = any(quotations.fold_line(quote) in quotations.fold_line(part) for part in parts(item))
            citation = only(cited(item, 1, 1, quote), subject)
            assert (citation.status == "verified") == inside_one_part, (item.mark, quote)
            verified_count += inside_one_part
            away = chance.choice(subject.items)
            if away != item and inside_one_part:
                moved = only(cited(away, 1, 1, quote), subject)
                assert moved.status == "relocated"
                assert moved.target is not None
                assert moved.target.item == item.mark
    print("true quotations, made up:", verified_count)
    assert verified_count > 300


def parts(item: SubjectItem) -> list[str]:
    starts = [0, *(at for at, _ in item.labels), len(item.text) + 1]
    return [item.text[start : end - 1] for start, end in pairwise(starts) if end > start]


def test_line_repeated_in_several_documents_is_cited_where_claimed() -> None:
    documents = tuple(Document(role="output", path=f"{n}.py", text="same = line(1)\n") for n in range(3))
    evidence = Evidence(eval=Eval(id="e", category="c", name="n"), documents=documents)
    citation = only("[output 2.py:1:<RANGE>same = line(1)</RANGE>]", failure_subject("run", evidence))
    assert citation.target is not None
    assert (citation.status, citation.target.path) == ("verified", "2.py")
