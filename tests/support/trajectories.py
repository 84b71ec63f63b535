"""A small file of trajectories that can be imported."""

import json
from pathlib import Path
from typing import Any


def trajectory(task: int, trial: int, reward: float, said: str) -> dict[str, Any]:
    traj = [
        {"role": "system", "content": "You answer customers of a shop. Refunds need an order number."},
        {"role": "user", "content": f"I want my money back for order {task}."},
        {"role": "assistant", "content": said},
    ]
    return {"task_id": task, "reward": reward, "info": {"task": {"user_id": f"u{task}"}}, "traj": traj, "trial": trial}


def write(folder: Path) -> Path:
    """Write trajectories of three tasks. Task 0 fails twice and succeeds once, task 1 always fails, task 2 succeeds."""
    path = folder / "shop.json"
    rows = [
        *(trajectory(0, n, reward, f"Trial {n} says no.") for n, reward in enumerate((0.0, 1.0, 0.0))),
        *(trajectory(1, n, 0.0, "I do not know.") for n in range(2)),
        trajectory(2, 0, 1.0, "Done."),
    ]
    path.write_text(json.dumps(rows))
    return path
