"""Small Harbor tasks, and a job with their failed trials."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from evalscribe.sources.harbor import task_checksum

DOCKERFILE = "FROM debian:12\nWORKDIR /app\nCOPY data/ /app/\n"
TEST = """\
if [ "$(cat answer.txt)" = {0} ]; then echo 1 > /logs/verifier/reward.txt; exit; fi
echo "FAIL: wants {0}, got $(cat answer.txt)"; echo 0 > /logs/verifier/reward.txt
"""


class TinyTask(NamedTuple):
    """A task with one failed trial. Its right answer is 4, which is written in `/app/question.txt`."""

    commands: tuple[str | dict[str, Any], ...] = ("echo 3 > answer.txt",)
    """Commands that the agent ran. An object stands for a tool call."""
    said: str = "FAIL: wants 4, got 3\n"
    """Output of the verifier in the recorded run."""
    solve: str | None = "cat question.txt > answer.txt\n"
    test: str = TEST.format(4)
    dockerfile: str = DOCKERFILE
    files: Mapping[str, str] = {"environment/data/question.txt": "4\n"}
    config: str = ""
    artifacts: Mapping[str, str] = {}
    exception: str | None = None


def write(folder: Path, tasks: Mapping[str, TinyTask]) -> None:
    """Write the tasks to the folder `tasks`, and their trials to the folder `job`."""
    job = folder / "job"
    for name, task in tasks.items():
        place = folder / "tasks" / name
        files = {
            "task.toml": task.config,
            "environment/Dockerfile": task.dockerfile,
            "tests/test.sh": task.test,
            **({} if task.solve is None else {"solution/solve.sh": task.solve}),
            **task.files,
        }
        _write(place, files)
        trial = job / f"{name}__0000001"
        result = {
            "id": f"id-{name}",
            "task_name": name,
            "trial_name": trial.name,
            "task_checksum": task_checksum(place),
            "source": "tasks",
            "started_at": "2026-11-01T10:00:00Z",
            "agent_info": {"name": "agent", "model_info": {"name": "tiny-1", "provider": "tiny"}},
            "config": {"agent": {"name": "agent"}, "task": {"path": f"tasks/{name}"}},
            "verifier_result": {"rewards": {"reward": 0.0}},
            "exception_info": {"exception_type": task.exception} if task.exception else None,
        }
        _write(trial, {"result.json": json.dumps(result), "verifier/test-stdout.txt": task.said})
        _write(trial, {"agent/trajectory.json": json.dumps(_trajectory(task))})
        _write(trial / "artifacts", task.artifacts)
    whole = {"id": "tiny0job", "n_total_trials": len(tasks), "stats": {"evals": {"one": {}}}, "finished_at": "2026"}
    _write(job, {"result.json": json.dumps(whole)})


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _trajectory(task: TinyTask) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"source": "user", "message": "Write the answer to the question."}]
    for number, one in enumerate(task.commands):
        call = {"function_name": "bash", "arguments": {"command": one}} if isinstance(one, str) else one
        unfinished = task.exception and number == len(task.commands) - 1
        results = [] if unfinished else [{"source_call_id": f"c{number}", "content": "done"}]
        steps.append(
            {
                "source": "agent",
                "message": "",
                "tool_calls": [{"tool_call_id": f"c{number}", **call}],
                "observation": {"results": results},
            }
        )
    return {"schema_version": "ATIF-v1.6", "agent": {"name": "agent"}, "steps": steps}
