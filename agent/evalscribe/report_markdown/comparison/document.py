"""The file of a comparison."""

from collections.abc import Sequence

from evalscribe.report_markdown import kinds

KIND = "evalscribe-compare/1"


def document(base: Sequence[str], candidate: Sequence[str], judge: str | None, lines: Sequence[str]) -> str:
    """The whole file; `base` and `candidate` are ids of runs."""
    return kinds.document(KIND, {"base": list(base), "candidate": list(candidate), "judge": judge}, lines)


def same_runs(text: str, other: str) -> bool:
    """Whether two documents compare the same runs, as far as their front matter says."""
    return kinds.same_facts(text, other, ("base", "candidate"))
