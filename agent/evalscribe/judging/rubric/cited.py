"""The citations of an answer: resolved, counted, and put in place of the strings that hold them."""

from collections import Counter
from copy import deepcopy
from typing import Any

from evalscribe.judging.marks.resolve import resolve
from evalscribe.judging.rubric.reflection import as_seen
from evalscribe.judging.subject.agent_runs import of_own_run
from evalscribe.judging.subject.item import Subject
from evalscribe.model.output_schema import cited_strings
from evalscribe.model.result import CitationCounts, JudgeResult
from evalscribe.model.transcript import AgentRun


def count(output: dict[str, Any], schema: dict[str, Any], subject: Subject) -> CitationCounts:
    """How many citations of an answer hold, stand elsewhere, or stand nowhere."""
    texts = (text for _, text in cited_strings(output, schema))
    found = Counter(citation.status for text in texts for citation in resolve(text, subject).citations)
    return CitationCounts(verified=found["verified"], relocated=found["relocated"], unverified=found["unverified"])


def resolved(output: dict[str, Any], schema: dict[str, Any], subject: Subject) -> dict[str, Any]:
    """A copy with every string that may cite as `CitedText` (a dict); the rest, known to the schema or not, stays."""
    copy = deepcopy(output)
    for path, text in cited_strings(output, schema):
        *parents, last = path
        holder: Any = copy
        for part in parents:
            holder = holder[part]
        holder[last] = resolve(text, subject).model_dump(mode="json")
    return copy


class JudgeResultWithCitations(JudgeResult):
    """A result whose citing strings are `{"text": …, "citations": [{start_idx, end_idx, quote, status, target}]}`."""

    @classmethod
    def from_judge_result(
        cls, result: JudgeResult, schema: dict[str, Any], subject: AgentRun | Subject
    ) -> "JudgeResultWithCitations":
        """`subject`: what was judged; with earlier results among it, the `Subject` itself."""
        shown = as_seen(of_own_run(subject) if isinstance(subject, AgentRun) else subject, result)
        fields = {name: getattr(result, name) for name in JudgeResult.model_fields}
        return cls(**{**fields, "output": resolved(result.output, schema, shown)})
