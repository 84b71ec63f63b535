"""A script as a user keeps it: each failed run beside the first of its task that succeeded."""

from collections import defaultdict

from evalscribe import AgentRunRef, Client, LLMRequest, Prompt

COLLECTION = "airline"
GRADED = """
    SELECT id,
           metadata_json->>'task' AS task,
           CAST(metadata_json->'scores'->>'reward' AS DOUBLE PRECISION) AS reward
    FROM agent_runs
    WHERE metadata_json ? 'task' AND metadata_json->'scores' ? 'reward'
    ORDER BY task, id
"""
QUESTION = "\n\nWhat did the first run do differently, so that it failed? Answer in one short paragraph."

with Client() as client:
    tried: dict[str, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in client.dql_result_to_dicts(client.execute_dql(COLLECTION, GRADED)):
        tried[row["task"]][row["reward"]].append(row["id"])
    requests = [
        LLMRequest(
            prompt=Prompt(
                [
                    f"Task {task}.\n\nThe run that failed:\n",
                    AgentRunRef(id=failed, collection_id=COLLECTION),
                    "\n\nA run of the same task that succeeded:\n",
                    AgentRunRef(id=by_reward[1][0], collection_id=COLLECTION),
                    QUESTION,
                ]
            ),
            metadata={"task": task, "failed": failed, "passed": by_reward[1][0]},
        )
        for task, by_reward in tried.items()
        if by_reward[1]
        for failed in by_reward[0]
    ]
    done = client.submit_llm_requests(COLLECTION, requests, "openai/gpt-5-mini", "failures/causes/v1")
