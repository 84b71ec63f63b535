"""Rows for tests of queries: a collection `mine` with awkward values, and `theirs` with SECRET in every value."""

from typing import Any

NUMBERS = [
    0,
    1,
    -1,
    7,
    0.1,
    0.30000000000000004,
    2.5,
    -2.5,
    3.5,
    1e15,
    1e16,
    1e20,
    1.5e-7,
    123456.789,
    1.0,
    -0.0,
    100,
    2**53,
]
TEXTS = [
    "",
    "a",
    "Ab",
    "äÖ",
    "1",
    " 2 ",
    "0.1",
    "1e3",
    "true",
    "t",
    "it's",
    'say "x"',
    "%_\\",
    "日本語",
    "z" * 60,
    "a,b,,c",
]
TIMES = ["2026-01-31T23:59:59.5Z", "2026-02-01", "2024-02-29 12:30:00+02:00", "2025-12-29T00:00:00", "1999-12-31T23:59"]


def _metadata(number: int) -> dict[str, Any]:
    """Return metadata that differ for each number. Some values are missing for some numbers."""
    found: dict[str, Any] = {
        "task": f"t{number % 5}",
        "scores": {"reward": [1.0, 0.0, 0.5, 1, None][number % 5], "n": NUMBERS[number % len(NUMBERS)]},
        "agent": {"model_name": ["big", "small"][number % 2]},
        "text": TEXTS[number % len(TEXTS)],
        "time": TIMES[number % len(TIMES)],
        "ok": [True, False, None][number % 3],
        "list": [[], [1, "a", None], ["b", 2.0, {"k": "v"}], [[1], True]][number % 4],
        "any": [1, "x", None, True, {"b": 1, "aa": [2.50], "a": "é"}, [1, 2]][number % 6],
        'odd "key"': number,
        "a.b": "dot",
        "größe": number % 3,
        "0": "zero",
        "": "empty",
    }
    if number % 7 == 3:
        del found["scores"]
    if number % 11 == 4:
        del found["task"]
    return found


def _eval(run_id: str, number: int, metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "eval_id": f"{run_id}-e{number}",
        "number": number,
        "category": ["basics", "Query", "äther"][number % 3],
        "name": f"{number // 2:03}",
        "trial": number % 2 + 1,
        "trials": 2,
        "path": f"basics/{number // 2:03}#{number % 2 + 1}",
        "status": ["passed", "failed", "error", "incomplete"][number % 4],
        "failed_step": [None, "tests", "lint"][number % 3],
        "reason": [None, "Tests failed", ""][number % 3],
        "url": None,
        "task_digest": None,
        "grader_digest": None,
        "metadata_json": metadata,
        "missing": [],
        "digest": None,
    }


def _run(run_id: str, model: str, total: int) -> dict[str, Any]:
    counts = {"passed": total // 4, "failed": total // 4, "total": total, "recorded": total}
    return {
        "run_id": run_id,
        "provider": "example",
        "model": model,
        "experiment": "default",
        "status": "completed",
        **counts,
        "url": None,
        "body": b"SECRET-BODY",
    }


def _transcript(run_id: str, number: int, word: str) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": word, "metadata": {}},
        {
            "role": "assistant",
            "content": f"{word} {number}",
            "tool_calls": [{"function": "f", "arguments": {"x": number}}],
        },
        {"role": "tool", "content": "", "function": "f", "error": "no such file" if number % 2 else None},
    ]
    key = {"run_id": run_id, "eval_id": f"{run_id}-e{number}", "number": 0, "id": f"{run_id}-t{number}"}
    return {**key, "name": None, "messages": messages, "metadata_json": {"turns": 3}}


def _finding(run_id: str, number: int, word: str) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "number": number,
        "eval_id": f"{run_id}-e{number}",
        "path": f"basics/{number // 2:03}#{number % 2 + 1}",
        "step": "tests",
        "classification": ["MODEL_FAULT", "KNOWN_GAP", None][number % 3],
        "cause": ["missing-import", "other"][number % 2],
        "cause_kind": "model",
        "confidence": number / 10,
        "uncertain": number % 2 == 0,
        "judge": "rules@1",
        "error": word,
        "reasoning": word,
        "recurrence": "new",
        "finding_json": {"number": number, "word": word},
    }


MINE, THEIRS = "mine", "theirs"
COUNT = 36
ROWS: dict[str, list[dict[str, Any]]] = {
    "collections": [{"number": 1, "id": MINE, "name": "Mine"}, {"number": 2, "id": THEIRS, "name": "SECRET"}],
    "runs": [_run("r1", "m1", COUNT), _run("s1", "SECRET", 4)],
    "collection_runs": [
        {"collection_id": MINE, "run_id": "r1", "number": 1},
        {"collection_id": THEIRS, "run_id": "s1", "number": 1},
    ],
    "evals": [_eval("r1", number, _metadata(number)) for number in range(COUNT)]
    + [_eval("s1", number, {"task": "SECRET", "scores": {"reward": 9}}) for number in range(4)],
    "steps": [
        {"run_id": run, "eval_id": f"{run}-e1", "number": 0, "name": "tests", "status": "failed", "error": word}
        for run, word in (("r1", "boom"), ("s1", "SECRET"))
    ],
    "transcripts": [_transcript("r1", number, "hello") for number in range(6)] + [_transcript("s1", 1, "SECRET")],
    "documents": [
        {"run_id": run, "eval_id": f"{run}-e1", "number": 0, "role": "log", "path": word, "digest": word}
        for run, word in (("r1", "run.log"), ("s1", "SECRET"))
    ],
    "texts": [{"digest": "SECRET", "body": b"SECRET"}],
    "findings": [_finding("r1", number, "wrong") for number in range(1, 8)] + [_finding("s1", 1, "SECRET")],
    "reports": [{"run_id": run, "path": f"{run}.md", "text": word} for run, word in (("r1", "# r"), ("s1", "SECRET"))],
    "labels": [
        {"run_id": run, "number": 0, "eval": "e", "label": word, "reviewer": "ann", "label_json": {"label": word}}
        for run, word in (("r1", "KNOWN_GAP"), ("s1", "SECRET"))
    ],
    "judge_results": [
        {
            "key": f"{of}-{number}",
            "kind": "DIRECT_RESULT",
            "agent_run_id": of,
            "rubric_id": "r",
            "rubric_version": 1,
            "judge": word,
            "output": {"label": word},
            "reason": None,
            "confidence": 0.5,
            "cost_usd": 0.01 * number,
            "body": b"SECRET-BODY",
        }
        for number, (of, word) in enumerate(
            (("r1-e1", "match"), ("r1/basics/001#1", "no match"), ("s1-e1", "SECRET")), 1
        )
    ],
    "result_sets": [
        {"id": word, "collection_id": of, "name": "a/v1", "output_schema": None, "created_at": "2026-01-01T00:00:00Z"}
        for of, word in ((MINE, "set"), (THEIRS, "SECRET"))
    ],
    "results": [
        {
            "id": f"{word}-1",
            "result_set_id": word,
            "number": 0,
            "request": "q",
            "prompt": [word],
            "user_metadata": {"task": word},
            "model": "m",
            "effort": None,
            "key": "SECRET-KEY",
            "output": {"output": word},
            "error": None,
            "final": True,
            "input_tokens": 1,
            "output_tokens": 2,
            "cost_usd": 0.1,
            "created_at": "2026-01-01T00:00:00Z",
        }
        for word in ("set", "SECRET")
    ],
    "experiments": [
        {
            **{"id": f"exp-{word}", "name": word, "type": "standard", "status": "active", "collection_id": of},
            **{"latest_version_id": word, "created_at": "2026-01-01T00:00:00Z"},
        }
        for of, word in ((MINE, "refunds"), (THEIRS, "SECRET"))
    ],
    "experiment_runs": [
        {
            **{"id": f"run-{word}", "experiment_id": f"exp-{word}", "experiment_version_id": word, "name": word},
            **{"dataset_version_id": word, "state": "completed", "repetitions": 1, "concurrency": 4, "items": 2},
            **{"created_at": "2026-01-01T00:00:00Z"},
        }
        for word in ("refunds", "SECRET")
    ],
    "run_items": [
        {
            **{"id": f"item-{word}-{n}", "run_id": f"run-{word}", "number": n, "repetition": 1, "item_key": word},
            **{"status": "ok", "verdict": ("passed", "failed")[n], "error": None, "duration_ms": 0.5 * n},
            **{"usage": {"calls": n} if n else None, "cost_usd": 0.25, "model": word, "output": "SECRET"},
            **{"created_at": "2026-01-01T00:00:00Z"},
        }
        for word in ("refunds", "SECRET")
        for n in range(2)
    ],
    "scores": [
        {
            **{"id": f"score-{word}-{n}", "run_id": f"run-{word}", "run_item_id": f"item-{word}-{n}", "scorer": word},
            **{"item_key": word, "repetition": 1, "scorer_version_id": word, "required": True, "status": "ok"},
            **{"value": float(1 - n), "passed": not n, "label": None, "explanation": word, "cost_usd": 0.0},
            **{"current": True, "created_at": "2026-01-01T00:00:00Z", "input": "SECRET", "metadata_json": {"n": n}},
        }
        for word in ("refunds", "SECRET")
        for n in range(2)
    ],
}
