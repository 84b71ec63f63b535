"""Measure the time of queries over many imported evals: `python sql_speed.py [EVALS] [postgresql://…]`.

Prints the best of five times in milliseconds. It includes everything for which a user waits, except the start of
Python: checking the query, starting its process, and converting the rows to values.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from evalscribe.collections.query import MOST_ROWS, run_query
from evalscribe.model.protocols import Tables
from evalscribe.store import tables
from evalscribe.store.database import open_database
from evalscribe.store.query.sqlite import open_tables

COLLECTION = "many"
PAIRS = """
SELECT task, reward, agent_run_id
FROM (
    SELECT
        metadata_json->>'task' AS task,
        CAST(metadata_json->'scores'->>'reward' AS DOUBLE PRECISION) AS reward,
        id AS agent_run_id
    FROM agent_runs
    WHERE metadata_json ? 'task'
      AND metadata_json->'scores' ? 'reward'
) AS subq
ORDER BY task, reward
"""
QUERIES = {
    "pairs": PAIRS,
    "models": "SELECT id, model_name FROM (SELECT id, metadata_json->'agent'->>'model_name' AS model_name "
    "FROM agent_runs) AS subq",
    "groups": "SELECT metadata_json->>'task' AS task, count(*), avg((metadata_json->'scores'->>'reward')::float) "
    "FROM agent_runs GROUP BY task ORDER BY 3 DESC LIMIT 20",
    "status": "SELECT status, count(*) FROM agent_runs GROUP BY status",
}


def evals(count: int, runs: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        run_id, task = f"r{number % runs}", number // 4
        yield {
            "run_id": run_id,
            "eval_id": f"{run_id}-{number}",
            "number": number,
            "category": f"c{task % 10}",
            "name": f"task-{task}",
            "trial": number % 4 + 1,
            "trials": 4,
            "path": f"c{task % 10}/task-{task}#{number % 4 + 1}",
            "status": "passed" if number % 3 else "failed",
            "metadata_json": {
                "task": f"task-{task}",
                "scores": {"reward": float(number % 3 > 0), "steps": number % 17, "share": number / count},
                "agent": {"model_name": f"m{number % runs}", "provider": "example", "settings": {"temperature": 0.0}},
                "info": {"seed": number, "source": "user", "notes": "x" * 200},
            },
            "missing": [],
        }


def fill(place: Path | str, count: int, runs: int = 20) -> None:
    database = open_database(place)
    rows = evals(count, runs)
    with database.transaction() as connection:
        connection.execute(insert(tables.collections), {"number": 1, "id": COLLECTION, "name": COLLECTION})
        for number in range(runs):
            key = {"run_id": f"r{number}", "provider": "example", "model": f"m{number}", "experiment": "default"}
            counts = {"status": "completed", "passed": 0, "failed": 0, "total": 0, "recorded": 0, "body": b""}
            connection.execute(insert(tables.runs), {**key, **counts})
            has = {"collection_id": COLLECTION, "run_id": f"r{number}", "number": number}
            connection.execute(insert(tables.collection_runs), has)
        while some := list(islice(rows, 5000)):
            connection.execute(insert(tables.evals), some)
    database.close()


def fastest(desk: Tables, sql: str, times: int = 5) -> tuple[float, int]:
    """Return the shortest time in milliseconds, and the number of rows."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        rows = len(run_query(desk, COLLECTION, sql, most_rows=MOST_ROWS).rows)
        took.append((time.perf_counter() - began) * 1000)
    return min(took), rows


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        place: Path | str = sys.argv[2] if len(sys.argv) > 2 else Path(folder)
        fill(place, count)
        desk = open_tables(place)
        for name, sql in QUERIES.items():
            took, rows = fastest(desk, sql)
            print(f"{name:8} {took:8.0f} ms {rows:7} rows of {count} evals")


if __name__ == "__main__":
    main()
