"""Everything for which evalscribe pays models, as commands with fixed inputs.

`tests/data/paid_store` contains a workspace in which the code of commit 29486c6 did this work; see its README. The test
`test_paid_work` repeats the work with the current code, which must find every answer in the store.

To make the workspace again with the code of that commit, check the commit out and run
`PYTHONPATH=<checkout>/agent:tests python -m support.paid_work`.
"""

import json
import os
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.batches_server import Batch, BatchesServer, answer
from support.messages_server import VERDICT, Answer, Call, MessagesServer, failure, says, submit
from support.waiting import wait_until

DATA = Path(__file__).parents[1] / "data" / "paid_store"
OPUS, HAIKU = "anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5"
KEY = "sk-ant-test-0000"
QUESTION = "What do the failures have in common?"
DATE = ("--date", "2026-11-02")
"""Options that set the date, because reports are named by it."""
JUDGED = {
    "model": ("--judge", OPUS),
    "cascade": ("--cascade", "--yes"),
    "interrupted": ("--judge", OPUS, "--concurrency", "1"),
}
"""Judge options for each run of `inputs/runs` that is judged with single calls, keyed by the name of the run."""
BATCHED = ("batch", "sent")
"""Names of the runs that are judged through Message Batches."""
LLM_JUDGE = {"name": "llm_judge", "config": {"criteria": "It names an order.", "model": HAIKU}}
FREE_TEXT, SHAPED = "paid/free-text", "paid/shaped"
SHAPE = {
    "type": "object",
    "properties": {"cause": {"type": "string", "enum": ["lied", "forgot"]}, "why": {"type": "string"}},
    "required": ["cause", "why"],
}
Results = dict[str, Any]
Run = Callable[..., str]
"""Runs an evalscribe command in the workspace and returns its standard output. Keywords are environment variables."""


def work(run: Run, url: str, without: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Do all work that uses single calls. Yield the name and the results of each command, without ids of runs."""
    model = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url}
    for name in [name for name in JUDGED if name not in without]:
        judged = JUDGED[name]
        yield f"analyze {name}", analyze_runs(run("analyze", f"runs/{name}", *judged, *DATE, "--json", **model))
    yield "judge", judge_collection(run("judge", "polite", "runs.jsonl", "--judge", OPUS, "--json", **model))
    yield (
        "judge --cascade",
        judge_collection(run("judge", "polite", "hasty.jsonl", "--cascade", "--yes", "--json", **model)),
    )
    yield (
        "explore",
        explore_collection(run("explore", QUESTION, "--collection", "orders", "--judge", OPUS, "--json", **model)),
    )
    yield "experiments run", run_experiment(run, model)
    with environment(**model):
        yield "requests", run_requests()


def analyze_batched(run: Run, url: str, name: str) -> Any:
    """Judge one run through Message Batches, and return the results."""
    model = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url}
    return analyze_runs(run("analyze", f"runs/{name}", *batch_options(), **model))


def batch_options() -> tuple[str, ...]:
    return ("--judge", OPUS, "--batch", "--budget", "20", *DATE, "--json")


def analyze_runs(text: str) -> Results:
    """Return the decision on each eval, with its judge, from the JSON output of `evalscribe analyze`."""
    return {
        one["eval"]: {
            **{field: one[field] for field in ("classification", "cause", "uncertain", "reasoning")},
            "judge": one["judge"]["id"],
            "stage": one["judge"]["stage"],
        }
        for one in json.loads(text)["findings"]
    }


def judge_collection(text: str) -> Results:
    """Return the output for each agent run, with the status of its quotations, from the JSON of `evalscribe judge`."""
    found: Results = {}
    for one in json.loads(text):
        because = one["output"]["because"]
        quoted = [citation["status"] for citation in because["citations"]]
        found[one["agent_run_id"]] = [one["stage"], one["output"]["label"], because["text"], quoted]
    return found


def explore_collection(text: str) -> Results:
    found = json.loads(text)
    clusters = {one["name"]: len(one["agent_runs"]) for one in found["clusters"]}
    return {"answer": found["answer"], "clusters": clusters, "observed": len(found["observations"])}


def run_experiment(run: Run, model: dict[str, str]) -> Results:
    """Run the experiment on the same build in this folder. Its outputs and its criteria are unchanged."""
    run("experiments", "deployments", "create", "--component", "support=python:support:answer", "--name", "here")
    options = ("--deployment-id", "here", "--wait", "--timeout", "15m")
    ended = run("experiments", "run", "shipping", *options, **model)
    scores = json.loads(run("experiments", "scores", "list", "--run-id", ended.split()[0], "--format", "json"))
    return {one["item_key"]: {field: one[field] for field in ("label", "passed", "explanation")} for one in scores}


def run_requests() -> Results:
    """Send requests with the SDK in the working folder: some with free-text answers, some with an answer schema."""
    from evalscribe import AgentRunRef, Client, LLMRequest, Prompt

    found: Results = {}
    with Client() as client:
        requests = [
            LLMRequest(prompt=Prompt(["Why?\n", AgentRunRef(id=id, collection_id="orders")]), metadata={"n": n})
            for n, id in enumerate(client.list_agent_run_ids("orders")[:2])
        ]
        for name, shape in ((FREE_TEXT, None), (SHAPED, SHAPE)):
            done = client.submit_llm_requests("orders", requests, HAIKU, name, output_schema=shape)
            rows = client.get_results("orders", name)
            found[name] = [[row["user_metadata"], row["output"]] for row in rows]
            # A new result set has no results, so answers to the same questions are found by their keys.
            other = f"{name}/{secrets.token_hex(8)}"
            again = client.submit_llm_requests("orders", requests, HAIKU, other, output_schema=shape)
            found[f"{name}: calls"] = [done["spent"]["calls"], again["spent"]["calls"]]
    return found


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


# The model that is paid for. Its answers depend on the subject of the question.


def model(call: Call) -> Answer:
    text = json.dumps(call.body, ensure_ascii=False)
    tools = {tool["name"]: tool for tool in call.body.get("tools", ())}
    if "submit" in tools:
        return _verdict(call, tags="tags" in tools["submit"]["input_schema"]["properties"])
    if "You are one of the readers" in text:
        return _answers({"observations": _observations(_prompt(call))})
    if "<clusters>" in text:
        return _answers({"answer": "It hands over [A0] or gives up [A1]."})
    if "It names an order." in text:
        return _answers({"explanation": "It names an order.", "label": "pass"})
    if "Was the agent polite?" in text:
        return _polite(text)
    if '\\"lied\\"' in text:
        return _answers({"cause": "forgot", "why": "[T0B4] says so"})
    if "Why?" in text:
        return says("It gives up [T0B4:<RANGE>cannot be done</RANGE>].")
    lines = re.findall(r"^\|? ?(O\d+) (.*)$", _prompt(call), re.MULTILINE)
    groups = [
        {"name": name, "text": f"The agent {name}.", "members": [id for id, said in lines if name in said]}
        for name in ("hands over", "gives up")
    ]
    return _answers({"clusters": groups})


def _verdict(call: Call, *, tags: bool) -> Answer:
    """Return the verdict of the model. The cheap model of the cascade passes on the evals in `TAGGED`."""
    text = _prompt(call)
    named = re.search(r"Eval: \S+?/(\d+)-", text)
    assert named
    number = int(named[1])
    quoted = {"role": "output", "path": "convex/index.ts", "first": 1, "last": 1}
    quoted["text"] = 'import { query } from "./_generated/server";'
    fields: dict[str, Any] = {"citations": [quoted], "cause": f"cause-{number}", "why": f"paid for {number}"}
    if tags:
        tagged = ["unfair-check"] if number in TAGGED else []
        return submit(**fields, tags=tagged, sure=True)
    return submit(**fields, **({"classification": "OVERLY_STRICT", "cause_kind": "grader"} if number in TAGGED else {}))


TAGGED = (27,)
"""Numbers of the evals that the cheap model of the cascade passes on."""


def _polite(text: str) -> Answer:
    said = {"label": "polite", "because": "It greets [T0B1:<RANGE>Good morning</RANGE>]."}
    if '\\"sure\\"' not in text:
        return _answers({**said, "label": "rude"} if "[A0]" in text else said)
    return _answers({"sure": "Hello, hasty-0." in text, "answer": said})


def _observations(text: str) -> list[str]:
    told = []
    for name, words in (("hands over", "hand you over"), ("gives up", "cannot be done")):
        blocks = re.findall(r"<(evidence-\w+) (T\d+B\d+)[^>]*>\n(.*?)\n</\1>", text, re.DOTALL)
        cited = ", ".join(f"[{mark}:<RANGE>{words}</RANGE>]" for _, mark, said in blocks if words in said)
        told += [f"The agent {name} {cited}."] if cited else []
    return told


def _answers(value: Any) -> Answer:
    return says(f"<response>{json.dumps(value)}</response>")


def _prompt(call: Call) -> str:
    return "\n".join(
        part["text"] if isinstance(part, dict) else part
        for message in call.body["messages"]
        for part in (message["content"] if isinstance(message["content"], list) else [message["content"]])
        if isinstance(part, str) or part.get("type") == "text"
    )


def submits(_key: str, _params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a question in a batch: a submitted verdict."""
    content = [{"type": "tool_use", "id": "call_0", "name": "submit", "input": {**VERDICT, "cause": "batched"}}]
    return {"type": "succeeded", "message": {**answer(), "content": content, "stop_reason": "tool_use"}}


# The workspace as files that can be stored in git.


def unpack(folder: Path) -> None:
    """Write the workspace in which the work was paid for: inputs, reports, store and checkpoints."""
    shutil.copytree(DATA / "inputs", folder, dirs_exist_ok=True)
    shutil.copytree(DATA / "reports", folder / "reports")
    state = folder / ".evalscribe"
    state.mkdir()
    for dump in DATA.glob("*.sql"):
        with closing(sqlite3.connect(state / f"{dump.stem}.db")) as database:
            database.executescript(dump.read_text("utf-8"))


def sent_batch(created: Any) -> Batch:
    """Return the batch that was paid for although nobody had read its answers."""
    (batch,) = json.loads((DATA / "sent_batch.json").read_text())
    return Batch(batch["id"], batch["requests"], created)


def expected() -> Results:
    return dict(json.loads((DATA / "results.json").read_text("utf-8")))


def _make() -> None:
    import evalscribe

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "workspace"
        shutil.copytree(DATA / "inputs", folder)
        os.chdir(folder)
        os.environ["HOME"] = temporary
        print("made by", Path(evalscribe.__file__).parent)
        sent = _pay()
        unfinished = _interrupt(folder)
        shutil.rmtree(DATA / "reports", ignore_errors=True)
        shutil.copytree(folder / "reports", DATA / "reports")
        # A build contains the path where it was made. Nothing depends on the path.
        store = _dump(folder / ".evalscribe" / "store.db").replace(str(folder), "/workspace")
        (DATA / "store.sql").write_text(store, "utf-8")
        (DATA / "checkpoints.sql").write_text(unfinished, "utf-8")
        batches = [{"id": one.id, "requests": one.requests} for one in sent]
        (DATA / "sent_batch.json").write_text(json.dumps(batches, ensure_ascii=False, indent=1) + "\n")
        with MessagesServer(failure(400, "invalid_request_error")) as server:
            results = dict(work(_run, server.url))
            assert server.calls == [], "the code that paid asks again"
        with BatchesServer(submits, looks=1) as batches_server:
            batches_server.batches.extend(sent)
            for name in BATCHED:
                results[f"analyze {name} --batch"] = analyze_batched(_run, batches_server.url, name)
            assert len(batches_server.batches) == 1
        (DATA / "results.json").write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")


def _pay() -> list[Batch]:
    """Do all the work with models that are paid. Return the batches whose answers nobody has read."""
    _run("import", "orders.json", "--collection", "orders", "--model", "p/m")
    _run("datasets", "create", "--name", "tickets")
    _run("datasets", "upload", "tickets", "tickets.jsonl")
    _run("datasets", "publish", "tickets")
    _run("experiments", "deployments", "create", "--component", "support=python:support:answer", "--name", "build")
    target = ("--target-type", "component", "--deployment-id", "build", "--component-name", "support")
    scorers = ("--builtin-scorer", json.dumps(LLM_JUDGE))
    _run("experiments", "create", "--name", "shipping", "--dataset-id", "tickets", *target, *scorers)
    with MessagesServer(model) as server:
        for name, _ in work(_run, server.url, without=("interrupted",)):
            print(name, len(server.calls), "calls so far")
    with BatchesServer(submits, looks=1) as batches:
        analyze_batched(_run, batches.url, "batch")
    with BatchesServer(submits, looks=sys.maxsize) as batches:
        process = _start(
            "analyze", "runs/sent", *batch_options(), ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=batches.url
        )
        wait_until(lambda: sum(batch.looks for batch in batches.batches) > 0, "a look at the batch")
        _kill(process)
    return batches.batches


def _interrupt(folder: Path) -> str:
    """Kill an analysis at its last failure, and pay for this failure with `explain`.

    Returns the checkpoints as they were after the kill, because `explain` restarts the thread.
    """
    with MessagesServer(lambda call: replace(model(call), held=call.number == 2)) as server:
        access = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        process = _start("analyze", "runs/interrupted", *JUDGED["interrupted"], *DATE, **access)
        wait_until(lambda: len(server.calls) == 3, "the last failure")
        last = re.search(r"Eval: (\S+)", _prompt(server.calls[2]))
        assert last
        _kill(process)
        left = _dump(folder / ".evalscribe" / "checkpoints.db")
        _run("explain", "runs/interrupted", last[1], "--judge", OPUS, **access)
        assert len(server.calls) == 4
    return left


def _dump(database: Path) -> str:
    with closing(sqlite3.connect(database)) as opened:
        return "\n".join(opened.iterdump()) + "\n"


def _run(*arguments: str, **settings: str) -> str:
    process = _start(*arguments, **settings)
    out, err = process.communicate()
    assert process.returncode == 0, f"{arguments}: exit {process.returncode}\n{out}\n{err}"
    return out


def _start(*arguments: str, **settings: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "evalscribe", *arguments]
    return subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


if __name__ == "__main__":
    _make()
