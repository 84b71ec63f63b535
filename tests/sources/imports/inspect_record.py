"""Record what Inspect's own reader reads from a log.

Run this by hand where `inspect-ai` is installed. The tests do not depend on it, because it installs forty packages.

`python inspect_record.py made FOLDER` writes a log with the installed version and records what its reader reads.
`python inspect_record.py LOG FILE.json` records what the reader reads from an existing log.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def write_log(folder: Path) -> Path:
    """Write a log compressed with Zstandard, as current versions of the package do."""
    from inspect_ai.dataset import Sample  # noqa: F401 (fills the registry that validation needs)
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
    from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser
    from inspect_ai.scorer import Score
    from inspect_ai.tool import ToolCall, ToolCallError

    calls = [ToolCall(id="c", function="run", arguments={"cmd": "ls"})]
    samples = [
        EvalSample(
            id=name,
            epoch=epoch,
            input="Say hello",
            target=["hello", "hi"],
            messages=[
                ChatMessageUser(content="Say hello"),
                ChatMessageAssistant(content="let me look", tool_calls=calls),
                ChatMessageTool(
                    content="", tool_call_id="c", function="run", error=ToolCallError("timeout", "too slow")
                ),
            ],
            scores={"match": Score(value=value, answer="x", explanation="because"), "cost": Score(value=float("nan"))},
        )
        for name, value in (("a", "C"), ("b", {"x": 1, "y": 0}))
        for epoch in (1, 2)
    ]
    spec = EvalSpec(
        created="2026-01-02T03:04:05+00:00",
        task="made",
        dataset=EvalDataset(sample_ids=["a", "b"]),
        model="p/m",
        config=EvalConfig(epochs=2),
    )
    path = folder / "made.eval"
    write_eval_log(EvalLog(status="success", eval=spec, samples=samples), str(path))
    return path


def read_log(path: Path) -> dict[str, Any]:
    from inspect_ai.log import read_eval_log, read_eval_log_samples

    samples = read_eval_log_samples(str(path), all_samples_required=False, resolve_attachments=True)
    return {
        "model": read_eval_log(str(path), header_only=True).eval.model,
        "samples": [
            {
                "id": sample.id,
                "epoch": sample.epoch,
                "messages": [
                    [one.role, digest(one.text), len(getattr(one, "tool_calls", None) or ())] for one in sample.messages
                ],
                "answers": {
                    name: digest(score.answer) for name, score in (sample.scores or {}).items() if score.answer
                },
            }
            for sample in samples
        ],
    }


def main(log: str, place: str) -> None:
    path = write_log(Path(place)) if log == "made" else Path(log)
    record_path = path.with_suffix(".json") if log == "made" else Path(place)
    record_path.write_text(json.dumps(read_log(path), separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
