"""Measure how small packed prompts are, and whether they still contain the lines that the maintainers quote.

    python tests/benchmarks/packing.py          needs EVALSCRIBE_REAL_DATA

Prints the share of the raw payload's tokens that remains, per run and overall. Also prints every quoted line that is in
the payload but not in the packed prompt, and the tokens of a judge's complete first request: system prompt, tools and
question.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.agreement import failures as known_failures
from evalscribe.ids import canonical_json
from evalscribe.judging import prompt_text
from evalscribe.judging.classifier import evidence_delimiter, render_instructions, render_question
from evalscribe.judging.classifier_tools import READING_TOOLS, submit_tool
from evalscribe.judging.pack import case_of, pack
from evalscribe.judging.rubrics import default_rubric, failure_labels
from evalscribe.model.evidence import Evidence, PackedEvidence
from evalscribe.prompts.templates import Prompts
from support.real_runs import CURRENT, RECORDED, gold, payloads, run_folders


def folded(text: str) -> str:
    return " ".join(text.split())


def quotes(verdict: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of both quoted snippets, and the quotations in backticks in the summary."""
    for field in ("modelSnippet", "expectedSnippet"):
        yield from (folded(line) for line in (verdict.get(field) or "").split("\n"))
    yield from (folded(quote) for quote in re.findall(r"`([^`]+)`", verdict.get("errorSummary") or ""))


def prompt(packed: PackedEvidence) -> str:
    return "\n".join([*(excerpt.text for excerpt in packed.excerpts), packed.differences])


def texts(evidence: Evidence) -> str:
    return "\n".join([*(document.text for document in evidence.documents), evidence.eval.reason or ""])


def without_marks(text: str) -> str:
    """Remove line marks and line numbers of differences from a packed text, so that its lines can be compared."""
    return re.sub(r"^(?:[-+]\d+|\d+=\d+)\| ", "", text, flags=re.MULTILINE)


def missing(evidence: Evidence, packed: PackedEvidence, verdict: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the number of quoted lines in the payload, and those of them that the packed prompt lacks."""
    raw, kept = folded(texts(evidence)), folded(without_marks(prompt(packed)) + " " + (evidence.eval.reason or ""))
    quoted = [quote for quote in quotes(verdict) if len(quote) > 3 and quote in raw]
    return len(quoted), [quote for quote in quoted if quote not in kept]


def measure(data: Path) -> dict[str, Any]:
    """Return the ratios per run, the counts, and the missing lines."""
    rows: dict[str, Any] = {"runs": {}, "quoted": 0, "missing": [], "seconds": 0.0}
    for folder in run_folders(data):
        verdicts = gold(folder)
        ratios: list[float] = []
        sizes = [0, 0]
        for raw, evidence in payloads(folder):
            start = time.perf_counter()
            packed = pack(evidence)
            rows["seconds"] += time.perf_counter() - start
            count, lacking = missing(evidence, packed, verdicts[evidence.eval.id])
            rows["quoted"] += count
            rows["missing"] += [f"{folder.name} {evidence.eval.path}: {line}" for line in lacking]
            whole = prompt_text.estimate_tokens(json.dumps(json.loads(raw), ensure_ascii=False))
            ratios.append(packed.tokens / whole)
            sizes = [sizes[0] + packed.tokens, sizes[1] + whole]
        rows["runs"][folder.name] = (len(ratios), sum(ratios) / len(ratios), sizes[0] / sizes[1], max(ratios))
    return rows


def first_requests(data: Path, shape: str = RECORDED) -> list[int]:
    """Return the number of tokens of the first request about each failure, in ascending order.

    Failures that ended in the same way before any output are included once.
    """
    rubric, prompts = default_rubric(), Prompts()
    tools = (*READING_TOOLS, submit_tool(labels=failure_labels(rubric)))
    instructions = (render_instructions(prompts, rubric), canonical_json(tools))
    fixed = sum(prompt_text.estimate_tokens(text) for text in instructions)
    cases = [case_of(evidence) for folder in run_folders(data, shape) for evidence, _ in known_failures(folder)]
    questions = (render_question(prompts, case, evidence_delimiter(case)) for case in cases)
    return sorted(fixed + prompt_text.estimate_tokens(question) for question in questions)


def main() -> None:
    rows = measure(Path(os.environ["EVALSCRIBE_REAL_DATA"]))
    for name, (count, mean, total, most) in rows["runs"].items():
        print(f"{name}  {count:3} failures  mean {mean:.3f}  of all tokens {total:.3f}  most {most:.3f}")
    runs = rows["runs"].values()
    print(f"mean of runs {sum(mean for _, mean, _, _ in runs) / len(runs):.3f}", end="  ")
    print(f"mean of failures {sum(n * mean for n, mean, _, _ in runs) / sum(n for n, *_ in runs):.3f}")
    print(f"{rows['quoted']} quoted lines in the payloads, {len(rows['missing'])} missing from the prompts")
    print(*rows["missing"], sep="\n")
    for shape in (RECORDED, CURRENT):
        sizes = first_requests(Path(os.environ["EVALSCRIBE_REAL_DATA"]), shape)
        last = sizes[max(0, -(-95 * len(sizes) // 100) - 1)]
        mean = sum(sizes) / len(sizes)
        print(f"first request, {shape}: {len(sizes)} failures, mean {mean:.0f} tokens, 95th percentile {last}")
    print(f"{rows['seconds'] * 1000 / sum(n for n, *_ in runs):.1f} ms a failure")


if __name__ == "__main__":
    main()
