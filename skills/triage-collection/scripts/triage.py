"""Triage a collection: a cheap model tags runs, a careful model checks each tag, and one answer summarises.

Edit the constants in capitals, keep the script in the workspace, and run it as often as you like:

    python triage.py               shows the next requests; calls no model
    python triage.py --budget 2    calls models, and spends at most two US dollars

Stored answers are free, also after a crash or a change. A changed question is asked again.
"""

import argparse
import hashlib
import json

from evalscribe import AgentRunRef, Client, LLMRequest, Prompt, ResultRef
from evalscribe.errors import EvalscribeError

COLLECTION = None
"""Name or id of the collection; None for the configured collection, or else the only one."""
NAME = "triage"
"""Prefix of the names of the result sets; the step follows."""
CHEAP = "anthropic/claude-haiku-5-5"
CAREFUL = "anthropic/claude-opus-5-5"

RUNS = """
    SELECT f.id, f.task, f.model, MIN(p.id) AS passed
    FROM agent_runs f
    LEFT JOIN agent_runs p ON p.task = f.task AND p.experiment = f.experiment AND p.status = 'passed'
    WHERE f.status = 'failed'
    GROUP BY f.id, f.task, f.model
    ORDER BY f.task, f.id
"""
"""Runs to examine, each with a run of the same task that passed, if there is one."""
SIZES = """
    SELECT agent_run_id, SUM(LENGTH(CAST(messages AS TEXT))) AS characters
    FROM transcripts
    GROUP BY agent_run_id
"""

TAGS = {
    "claims-undone": "says that something was done, checked or found although no tool result bears it out",
    "breaks-a-rule": "does what its instructions forbid, or leaves out what they demand",
    "stops-early": "ends while something that was asked for is not done, although it could have been",
}
"""Issues that the cheap model looks for. It should tag too often rather than miss one: the careful model decides."""

TAGGING = "Which of these can be seen in this run? Include what you are not sure of; none is an answer too.\n"
LOOKING = "A first reading suspects that this run {about}. Does it? Decide by what it really did, step by step.\n"
SUMMING = "What goes wrong in these runs, and how often? Begin with the commonest. Cite the results."

TAGGED = {
    "type": "object",
    "properties": {
        "why": {"type": "string", "citations": True},
        "tags": {"type": "array", "items": {"type": "string", "enum": list(TAGS)}},
    },
    "required": ["why", "tags"],
}
LOOKED = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string", "citations": True},
        "cause": {"type": "string", "description": "the root cause in three to six words"},
        "holds": {"type": "boolean", "description": "whether the suspicion is right"},
    },
    "required": ["explanation", "cause", "holds"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, metavar="USD", help="spend at most this; without it no model is called")
    budget = parser.parse_args().budget
    try:
        with Client(budget_usd=budget or 0) as client:
            triage(Steps(client, may_ask=bool(budget)))
    except EvalscribeError as error:
        raise SystemExit(f"triage: {error}") from None


def triage(steps: "Steps") -> None:
    runs = steps.rows(RUNS)
    if not runs:
        raise SystemExit("triage: RUNS selects no agent run; try it with `evalscribe sql`")
    tagged = steps.answers("tags", CHEAP, [tagging(run) for run in runs], TAGGED)
    if tagged is None:
        return
    by_id = {run["id"]: run for run in runs}
    suspects = [(row["user_metadata.run"], tag) for _, row in tagged.iterrows() for tag in set(row["output.tags"])]
    looked = steps.answers("looks", CAREFUL, [looking(by_id[run], tag) for run, tag in sorted(suspects)], LOOKED)
    if looked is None or looked.empty:
        return
    held = looked[looked["output.holds"]]
    print(held.groupby(["user_metadata.tag", "output.cause"]).size().sort_values(ascending=False).to_string())
    summed = steps.answers("summary", CAREFUL, [summing(held)] if len(held) else [])
    if summed is not None and not summed.empty:
        print(*summed["output.output"])


def tagging(run: dict) -> LLMRequest:
    tags = "".join(f"- {name}: {about}\n" for name, about in TAGS.items())
    return LLMRequest(prompt=Prompt([TAGGING, tags, AgentRunRef(id=run["id"])]), metadata={"run": run["id"]})


def looking(run: dict, tag: str) -> LLMRequest:
    """Ask about one tag of a run, and show a run of the same task that passed, if there is one."""
    beside = ["\nOne of the same task that passed:\n", AgentRunRef(id=run["passed"])] if run["passed"] else []
    prompt = Prompt([LOOKING.format(about=TAGS[tag]), "The run:\n", AgentRunRef(id=run["id"]), *beside])
    about = {"run": run["id"], "task": run["task"], "model": run["model"], "tag": tag}
    return LLMRequest(prompt=prompt, metadata=about)


def summing(held) -> LLMRequest:
    """Ask for a summary of all answers in a data frame, by tag."""
    parts = []
    for tag, rows in held.groupby("user_metadata.tag"):
        parts.append(f"## {tag}: {TAGS[tag]}")
        parts += [ResultRef(id=row["id"], result_set_id=row["result_set"]) for _, row in rows.iterrows()]
    return LLMRequest(prompt=Prompt([*parts, SUMMING]))


def outcome(done: dict) -> str:
    """Describe the results and their cost; tokens are shown too, because some models have no known price."""
    cites, spent = done["citations"], done["spent"]
    tokens = spent["input_tokens"] + spent["output_tokens"]
    quotations = f"{cites['verified'] + cites['relocated']} citations found, {cites['unverified']} unverified"
    return f"{done['counts']['errors']} errors, {quotations}; spent ${spent['cost_usd']:.2f}, {tokens:,} tokens"


class Steps:
    """The steps of the triage. Answers are stored in a result set for each step, named after a hash of its requests."""

    def __init__(self, client: Client, *, may_ask: bool) -> None:
        self.client = client
        self.may_ask = may_ask

    def rows(self, query: str) -> list[dict]:
        return self.client.dql_result_to_dicts(self.client.execute_dql(COLLECTION, query))

    def answers(self, step: str, model: str, requests: list, schema: dict | None = None):
        """Return a data frame; None if there are no requests, or if answers are missing and no model may be called."""
        asked = json.dumps([model, schema, [request.model_dump(mode="json") for request in requests]])
        name = f"{NAME}/{step}/{hashlib.sha256(asked.encode()).hexdigest()[:8]}"
        known = sum(one["result_count"] for one in self.client.list_result_sets(COLLECTION, name))
        print(f"{name}: {len(requests)} requests to {model}, {known} answered")
        if requests and self.may_ask:
            done = self.client.submit_llm_requests(COLLECTION, requests, model, name, output_schema=schema)
            print(f"  {outcome(done)}")
        elif known < len(requests):
            print(f"  about {self.tokens(requests):,} tokens of transcripts to read; add --budget USD to ask")
            return None
        return self.client.get_result_set_dataframe(COLLECTION, name).assign(result_set=name) if requests else None

    def tokens(self, requests: list) -> int:
        """Estimate the tokens of the transcripts in the requests: four characters are about one token."""
        characters = {row["agent_run_id"]: row["characters"] for row in self.rows(SIZES)}
        parts = [part for request in requests for part in request.prompt.root]
        return sum(characters.get(part.id, 0) for part in parts if isinstance(part, AgentRunRef)) // 4


if __name__ == "__main__":
    main()
