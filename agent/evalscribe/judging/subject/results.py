"""What judges found earlier, to be cited as `A0`."""

from collections.abc import Sequence

from evalscribe.judging.fence import quoted
from evalscribe.judging.subject.item import Item
from evalscribe.judging.subject.plain import plain
from evalscribe.model.result import CitationTarget, JudgeResult, ResultType


def result_items(earlier: Sequence[JudgeResult]) -> list[Item]:
    return [_item(f"A{number}", result) for number, result in enumerate(earlier)]


def _item(mark: str, result: JudgeResult) -> Item:
    about = f"earlier result about {quoted(result.agent_run_id)} by rubric {quoted(result.rubric_id)}"
    failed = result.result_type is ResultType.FAILURE
    text = result.reason or "no result" if failed else plain(result.output)
    return Item(mark=mark, about=about, text=text, target=CitationTarget(kind="result", item=mark, result_id=result.id))
