"""The answer to the question, out of the clusters alone, which it cites by their numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalscribe.judging.rubric.cited import JudgeResultWithCitations
from evalscribe.judging.subject.item import Item, Subject
from evalscribe.model.exploration import Cluster
from evalscribe.model.result import CitationTarget, JudgeResult
from evalscribe.model.rubric import Rubric
from evalscribe.text import cut, one_line, pluralise

MOST_SHOWN = 15
"""Clusters that are shown, those of most agent runs."""
LONGEST_ANSWER = 1800
LONGEST_PASSAGE = 300


def answering(clusters: Sequence[Cluster], explored: int) -> Subject:
    """What is shown: `A0` is the first cluster."""
    items = (_item(number, cluster, explored) for number, cluster in enumerate(clusters[:MOST_SHOWN]))
    return Subject.of("exploration", list(items))


def _item(number: int, cluster: Cluster, explored: int) -> Item:
    mark = f"A{number}"
    share = f"seen in {len(cluster.agent_runs)} of {pluralise(explored, 'agent run')}"
    words = (f'- "{one_line(cut(one.text, LONGEST_PASSAGE))}"' for one in cluster.passages if one.text)
    text = "\n".join([f"{cluster.name}: {cluster.text}", share, *words])
    return Item(mark=mark, about="cluster", text=text, target=CitationTarget(kind="result", item=mark))


def answered(result: JudgeResult, rubric: Rubric, subject: Subject) -> tuple[str, int]:
    """The answer in one line, clusters as `(1)`; and how many of its citations do not hold."""
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, subject).output["answer"]
    text, wrong = cited["text"], sum(one["status"] == "unverified" for one in cited["citations"])
    parts, at = list[str](), 0
    for start, end, numbers in _brackets(text, cited["citations"]):
        parts.append(text[at:start].rstrip() if numbers or start else "")
        parts.append(f" ({', '.join(map(str, numbers))})" if numbers else "")
        at = end
    return cut(one_line("".join([*parts, text[at:]])), LONGEST_ANSWER), wrong


def _brackets(text: str, citations: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, list[int]]]:
    """Marks that stand together as one: where, and the clusters that they lead to, from 1."""
    whole: tuple[int, int, list[int]] | None = None
    for one in citations:
        start, end = one["start_idx"], one["end_idx"]
        held = one["status"] != "unverified" and one["target"]
        number = [int(one["target"]["item"][1:]) + 1] if held else []
        if whole and not text[whole[1] : start].strip(",; \t\n"):
            whole = (whole[0], end, whole[2] + [each for each in number if each not in whole[2]])
            continue
        if whole:
            yield whole
        whole = (start, end, number)
    if whole:
        yield whole
