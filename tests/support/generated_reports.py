"""Hypothesis strategies for reports of every form, with texts that try to act as markup."""

from hypothesis import strategies as st

from evalscribe.model.cascade import STAGES, CascadeSaving, JudgeShare
from evalscribe.model.evidence import ROLES
from evalscribe.model.finding import (
    CAUSE_KINDS,
    CLASSIFICATIONS,
    RECOMMENDATION_GROUPS,
    CrossModelFailures,
    FollowUp,
    Pattern,
    Recommendation,
    Recurrence,
    TrialCount,
)
from evalscribe.model.report import (
    EvalRef,
    JudgeLabel,
    Report,
    ReportEntry,
    ReportNote,
    RunHeader,
    Section,
    Snippet,
    join_entries,
    replaced,
)

HOSTILE = (
    "```", "````", "`", "``", "~~~", "|", "||", "\\|", "\\", "<!--", "-->", "<details>", "</details>", "<script>",
    "---", "===", "***", "# ", "## Findings", "## Actions taken", "### 1. a/b: MODEL_FAULT", ": MODEL_FAULT", "- ",
    "> ", "1. ", "* ", "+ ", "@admin", "#12", "https://evil.example/x", "[a](http://b)", "![i](x)", "[a]: http://b",
    "Reviewer: ", "Judge: ", "Seen: new", "\u202e", "\u200b", "\ufeff", "\x00", "\x1b[31m", "\x7f", "\x85", "\u2028",
    "\u2029", "\r", "\r\n", "\n", "\n\n", "\t", "    ", " ", "\u00a0", "&lt;", "&#64;", "$x$", "_", "__a__", "~~", "*",
    "None.", "General", "would pass", "R1", "R1 (2): ", "5", "72 evals", " (rule: 1): ", ", ", ": ", "/", "..", "a/b",
    "category/name#2", "(unverified) ", "(relocated) ", "  # output x.py:3", "  // log y:1-2", '"', "'", '" in ', "–",
    "; analysed 2026-01-01", "), experiment x", "Resolved: a/b.", "kind: compare", "true", "null", "😀", "é", "\ud800",
    "\ufffe", "…", "word", " (tag)", " decided 3, ", "; about 1.00 USD spent, ", " for all",
    "Held since [x](y): ", "and 3 more", ", also ", "; in an earlier version of this eval: ",
)  # fmt: skip
text = st.one_of(
    st.lists(st.sampled_from(HOSTILE), max_size=8).map("".join),
    st.text(max_size=40),
    st.sampled_from(HOSTILE).map(lambda part: part * 300),
)
optional = st.one_of(st.none(), text)
count = st.integers(0, 2000)
labels = st.sampled_from((*CLASSIFICATIONS, None))
path = st.one_of(st.sampled_from(("a/b", "a/c", "b/a", "b", "a#2")), text)
url = st.one_of(st.none(), st.just("https://evals.example/run/1"), text.map(lambda part: "https://x/" + part), text)
refs = st.builds(EvalRef, path=path, url=url)
snippets = st.builds(
    Snippet,
    role=st.sampled_from(ROLES),
    path=text,
    first=st.integers(1, 10**6),
    text=text,
    status=st.sampled_from(("verified", "relocated", "unverified")),
)
stage = st.sampled_from((*STAGES, None))
opinions = st.builds(
    JudgeLabel,
    id=text,
    classification=st.sampled_from(CLASSIFICATIONS),
    confidence=st.floats(0, 1),
    stage=stage,
)
savings = st.builds(
    CascadeSaving,
    decided=st.lists(st.builds(JudgeShare, judge=text, evals=st.integers(1, 99)), max_size=3).map(tuple),
    unit=st.sampled_from(("usd", "tokens")),
    spent=st.floats(0, 1e7),
    saved=st.floats(0, 1e7),
    against=text,
)
recurrences = st.builds(
    Recurrence,
    kind=st.sampled_from(("new", "repeat", "changed", "fix-in-doubt")),
    reports=st.lists(text, max_size=3).map(tuple),
    action=optional,
)


def several(item: st.SearchStrategy[object], most: int = 3) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(item, max_size=most).map(tuple)


cross_model_failures = st.builds(
    CrossModelFailures,
    alike=several(text, 12),
    more=st.integers(0, 9),
    models=st.integers(1, 30),
    earlier=several(text, 12),
    more_earlier=st.integers(0, 9),
)
entries = st.builds(
    ReportEntry,
    evals=st.lists(refs, min_size=1, max_size=4).map(tuple),
    step=optional,
    classification=labels,
    cause=optional,
    cause_kind=st.sampled_from((*CAUSE_KINDS, None)),
    uncertain=st.booleans(),
    judge=st.one_of(st.none(), opinions),
    why=text,
    error=text,
    reasoning=text,
    recurrence=recurrences,
    across=st.one_of(st.none(), cross_model_failures),
    missing=text,
    snippets=several(snippets),
    reviewer=several(text),
    notes=several(text),
)


def trials(said: list[ReportEntry]) -> ReportEntry:
    """Return one finding about several trials. All have the same label, and each has its own verdict."""
    first, count = said[0], TrialCount(passed=1, failed=len(said), total=len(said) + 1)
    shared = ("uncertain", "cause", "cause_kind", "reviewer", "notes")
    label = {"classification": first.classification or "MODEL_FAULT", "trials": count}
    same = label | {name: getattr(first, name) for name in shared}
    named = (replaced(one, evals=(EvalRef(path=f"a/t#{n}"),), **same) for n, one in enumerate(said, 1))
    opinions = (one.judge or JudgeLabel(id="j", classification="KNOWN_GAP", confidence=0.5) for one in said)
    judges = (replaced(one, classification="KNOWN_GAP") for one in opinions)
    return join_entries([replaced(one, judge=judge) for one, judge in zip(named, judges, strict=True)])


patterns = st.builds(
    Pattern,
    name=text,
    kind=st.sampled_from(("cause", "rule", "category", "known-gaps", "recurring", "across-models", "not-the-model")),
    evals=several(path),
    text=text,
)
follow_ups = st.builds(
    FollowUp,
    report=text,
    text=text,
    evals=several(path),
    outcome=st.sampled_from(("held", "did not hold", "not yet seen")),
)
recommendations = st.builds(
    Recommendation,
    id=st.one_of(st.none(), st.integers(1, 99).map(lambda number: f"R{number}")),
    group=st.sampled_from(tuple(RECOMMENDATION_GROUPS)),
    text=text,
    evals=several(path),
    would_pass=st.booleans(),
)
headers = st.builds(
    RunHeader,
    id=text,
    provider=text,
    model=text,
    experiment=text,
    status=st.sampled_from(("completed", "failed", "running", "unknown")),
    status_reason=optional,
    passed=count,
    failed=count,
    total=count,
    listed=count,
    url=url,
    names_all=st.booleans(),
)
reports = st.builds(
    Report,
    run=headers,
    date=st.dates().map(str),
    revision=st.integers(1, 99),
    judges=several(text),
    own_prompts=st.booleans(),
    cascade=st.one_of(st.none(), savings),
    evidence=text,
    earlier=several(text),
    entries=several(st.one_of(entries, st.lists(entries, min_size=2, max_size=4).map(trials))),
    patterns=several(patterns),
    resolved=several(path),
    follow_ups=several(follow_ups),
    incomplete_evals=several(path),
    recommendations=several(recommendations),
    actions_taken=text,
    notes=several(st.builds(ReportNote, section=st.sampled_from(Section.__args__), text=text)),  # type: ignore[attr-defined]
)
