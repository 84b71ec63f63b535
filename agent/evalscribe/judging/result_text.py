"""Render judge results as text."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from evalscribe.model.result import CitationCounts, JudgeResult, Result, ResultCounts, ResultSet, ResultType
from evalscribe.text import one_line, pluralise, visible

_RANGE = re.compile(r":?<RANGE>(.*?)</RANGE>", re.S)


def headline(result: JudgeResult, label: Mapping[str, Any]) -> str:
    """Render `<subject>: MODEL_FAULT, model`, or why there is no result."""
    if result.result_type == ResultType.FAILURE:
        return f"{one_line(result.agent_run_id)}: not judged: {one_line(result.reason or 'no reason')}"
    return f"{one_line(result.agent_run_id)}: {one_line(', '.join(_named(label))) or 'judged'}"


def _named(label: Mapping[str, Any]) -> Iterator[str]:
    """Yield short values; booleans, with their field's name, only if there are no words."""
    words = [_plain(value) for value in label.values() if not isinstance(value, bool)]
    yield from words or (f"{name}: {_plain(value)}" for name, value in label.items())


def result_text(result: JudgeResult, label: Mapping[str, Any]) -> str:
    """Render a result in full; cited strings are `CitedText` as a dict."""
    lines = [headline(result, label)]
    if result.result_type == ResultType.DIRECT_RESULT:
        lines += [line for name, value in result.output.items() if value != "" for line in field(name, value)]
        lines += _votes(result)
    return "\n".join([*lines, *_gaps(result)])


def citations_line(counts: CitationCounts) -> str:
    """Render citation counts: `5 verified, 1 relocated, 2 unverified`."""
    return ", ".join(f"{getattr(counts, name)} {name}" for name in CitationCounts.model_fields)


def field(name: str, value: Any) -> Iterator[str]:
    """Render one field of an answer, with the status of its citations."""
    text = visible(_shown(value))
    if "\n" not in text:
        yield f"  {one_line(name)}: {text}"
        return
    yield f"  {one_line(name)}:"
    yield from (f"    {line}" for line in text.split("\n"))


def _shown(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"text", "citations"}:
        return cited(value)
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_shown(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "\n".join(f"- {_shown(part)}" for part in value)
    return _plain(value)


def _plain(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def cited(value: Mapping[str, Any]) -> str:
    """Render a cited text with a remark after each citation that is not at its claimed place."""
    text, shown, at = str(value["text"]), "", 0
    for citation in value["citations"]:
        if citation["start_idx"] < at:
            continue
        end = citation["end_idx"]
        shown += text[at : citation["start_idx"]] + _mark(text[citation["start_idx"] : end])
        shown += "" if citation["status"] == "verified" else f" ({citation['status']})"
        at = end
    return shown + text[at:]


def _mark(mark: str) -> str:
    return _RANGE.sub(lambda match: f' "{match[1]}"', mark)


def _votes(result: JudgeResult) -> Iterator[str]:
    metadata = result.result_metadata or {}
    if result.confidence is None:
        return
    for name, votes in (metadata.get("votes") or {}).items():
        counted = ", ".join(f"{_plain(value)} {count}" for value, count in votes.items())
        yield f"  votes on {one_line(name)}: {one_line(counted)}"
    failed = f", {metadata['failed']} failed" if metadata.get("failed") else ""
    yield f"  agreement: {result.confidence:.2f} of {metadata.get('n_rollouts', '?')} rollouts{failed}"


def _gaps(result: JudgeResult) -> Iterator[str]:
    metadata = result.result_metadata or {}
    if "read_in_parts" in metadata:
        yield f"  read in {metadata['read_in_parts']} parts"
        yield from (f"  not read: {one_line(gap)}" for gap in metadata.get("gaps", ()))


def set_line(made: ResultSet, counts: ResultCounts) -> str:
    """Render `failures/causes/v1 29 results, 1 error, 2 pending 2026-11-21`."""
    told = [pluralise(counts.results, "result")]
    told += [pluralise(counts.errors, "error")] if counts.errors else []
    told += [f"{counts.pending} pending"] if counts.pending else []
    return f"{one_line(made.name)}  {', '.join(told)}  {made.created_at[:10]}"


def stored_result_text(result: Result) -> str:
    """Render `7 task: 3` and the answer, or why there is none."""
    return "\n".join(_lines(result))


def _lines(result: Result) -> Iterator[str]:
    about = "; ".join(f"{name}: {value}" for name, value in result.user_metadata.items())
    yield f"{result.number}  {one_line(about)}".rstrip()
    if result.output is None:
        yield f"  no answer: {one_line(result.error)}" if result.error else "  not asked yet"
        return
    if set(result.output) == {"output", "citations"}:
        yield from field("answer", {"text": result.output["output"], "citations": result.output["citations"]})
    else:
        yield from (line for name, value in result.output.items() for line in field(name, value))
    yield f"  citations: {citations_line(result.citations)}"
