"""Execute series of tool calls of tau-bench or tau2-bench on the database of a domain, and write what each series
changed.

This script runs in a sandbox for two reasons: the tools might come from a checkout, and the tool `calculate` evaluates
text that the model under test wrote. The script imports only the standard library and the benchmark.

    python tau_driver.py REQUEST RESULT

REQUEST is a JSON file with the location of the tools (`benchmark`, `path`, `domain`), the `database` (null for the
benchmark's own), the number of `processes`, and `series`. Each series has its initial state (`initial`, `history`), its
`calls`, and `assertions` about the final state. RESULT is a JSON file with one answer for each series, or with an
`error`.

Loading the tools and the database takes about a second, so they are loaded only once. Each series runs in a forked
process, which starts with a copy of the loaded database. A call that does not end, such as `calculate("9**9**9**9")`,
is stopped by the CPU limit of the forked process, and does not affect other series.
"""

import contextlib
import copy
import hashlib
import importlib
import json
import os
import resource
import sys
import types
from collections.abc import Iterator
from typing import Any

CPU_S = 10
"""Maximum CPU seconds of one series."""
MAX_CHANGES = 40
MAX_SHOWN = 200
"""Maximum number of changes in an answer, and maximum number of characters of a changed value in an answer.

All changes are compared, even if they are not shown.
"""


class Tau2Domain:
    """A domain of tau2-bench.

    The database consists of pydantic models, and in some domains the simulated user has tools.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        empty_package("tau2", os.path.join(request["path"], "tau2"))
        module = importlib.import_module(f"tau2.domains.{request['domain']}.environment")
        self._env = module.get_environment()
        if request["database"] is not None:
            model = type(self._env.tools.db)
            database = model.model_validate(with_ids(request["database"], model))
            self._env = module.get_environment(database)

    def start(self, series: dict[str, Any]) -> None:
        initial = series.get("initial") or {}
        data = initial.get("initialization_data") or {}
        for toolkit, values in ((self._env.tools, data.get("agent_data")), (self._user(), data.get("user_data"))):
            if values is not None:
                toolkit.update_db(values)
        for action in initial.get("initialization_actions") or ():
            self._function(action["env_type"], action["func_name"])(**action["arguments"])
            self._env.sync_tools()
        self._env.sync_tools()

    def call(self, call: dict[str, Any], series: dict[str, Any]) -> Any:
        by_user = call.get("requestor") == "user"
        if not by_user and series.get("solo") and self._user() is not None:
            by_user = self._user().has_tool(call["name"])
        use = self._env.use_user_tool if by_user else self._env.use_tool
        answer = use(tool_name=call["name"], **call["arguments"])
        # As in the benchmark, the agent's and the user's databases are synchronised after each call of a conversation,
        # but not between expected calls.
        if series.get("sync"):
            self._env.sync_tools()
        return answer

    def writes(self, call: dict[str, Any]) -> bool:
        toolkits = [kit for kit in (self._env.tools, self._user()) if kit is not None and kit.has_tool(call["name"])]
        return not toolkits or any(kit.tool_type(call["name"]).value == "write" for kit in toolkits)

    def end(self, series: dict[str, Any]) -> None:
        if series.get("sync"):
            self._env.sync_tools()

    def holds(self, assertion: dict[str, Any]) -> bool:
        value = self._function(assertion["env_type"], assertion["func_name"])(**assertion["arguments"])
        self._env.sync_tools()
        return bool(value == assertion.get("assert_value", True))

    def state(self) -> dict[str, Any]:
        toolkits = {"": self._env.tools, "user": self._user()}
        return {name: kit.db.model_dump() for name, kit in toolkits.items() if kit is not None and kit.db is not None}

    def _user(self) -> Any:
        return self._env.user_tools

    def _function(self, env_type: str, name: str) -> Any:
        return getattr(self._user() if env_type == "user" else self._env.tools, name)


class TauBenchDomain:
    """A domain of tau-bench. The database consists of plain dictionaries, and each tool is a class."""

    def __init__(self, request: dict[str, Any]) -> None:
        folder = os.path.join(request["path"], "tau_bench")
        domain = f"tau_bench.envs.{request['domain']}"
        for name in ("tau_bench", "tau_bench.envs", domain):
            empty_package(name, os.path.join(folder, *name.split(".")[1:]))
        tools = importlib.import_module(f"{domain}.tools").ALL_TOOLS
        self._tools = {tool.get_info()["function"]["name"]: tool for tool in tools}
        self._data = request["database"]
        if self._data is None:
            self._data = importlib.import_module(f"{domain}.data").load_data()

    def start(self, series: dict[str, Any]) -> None:
        if series.get("initial"):
            raise ValueError("tau-bench has no tasks with their own initial state; use the tools of tau2-bench")

    def call(self, call: dict[str, Any], _: dict[str, Any]) -> Any:
        return self._tools[call["name"]].invoke(data=self._data, **call["arguments"])

    def writes(self, call: dict[str, Any]) -> bool:
        return not str(call["name"]).startswith(READING)

    def end(self, series: dict[str, Any]) -> None:
        pass

    def holds(self, _: dict[str, Any]) -> bool:
        raise ValueError("tau-bench has no assertions; use the tools of tau2-bench")

    def state(self) -> dict[str, Any]:
        return {"": self._data}


def empty_package(name: str, folder: str) -> None:
    """Let modules of a package be imported without running the package's `__init__`, because `__init__` would import
    agents and API clients of model providers.
    """
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package


def with_ids(database: dict[str, Any], model: Any) -> dict[str, Any]:
    """Return the database, with an id field added to each record that has its id only as its key in the table.

    For example, users have a field `user_id` in tau2-bench, but not in tau-bench. A field is added if its name ends
    with `_id`, the table's model requires it, and no record of the table has it.
    """
    full = {table: records for table, records in database.items() if table in model.model_fields}
    for table, records in list(full.items()):
        field = model.model_fields.get(table)
        kinds = getattr(getattr(field, "annotation", None), "__args__", ())
        fields = getattr(kinds[-1], "model_fields", {}) if kinds else {}
        required = [name for name, field_info in fields.items() if name.endswith("_id") and field_info.is_required()]
        for name in required if isinstance(records, dict) else ():
            if not any(name in record for record in records.values()):
                full[table] = {key: {**record, name: key} for key, record in full[table].items()}
    return full


def changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield `(path, before, after)` for every value that differs between two states in content or type."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from changes(before.get(key, MISSING), after.get(key, MISSING), f"{path}.{key}" if path else str(key))
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            old, new = (part[at] if at < len(part) else MISSING for part in (before, after))
            yield from changes(old, new, f"{path}[{at}]")
    elif type(before) is not type(after) or before != after:
        yield path, before, after


MISSING = object()
READING = ("get_", "find_", "list_", "search_", "calculate", "think", "transfer_")
"""Prefixes of the names of those tools of tau-bench that change nothing.

Tools of tau2-bench declare whether they change something.
"""


def as_text(value: Any) -> str:
    return "nothing" if value is MISSING else json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)


def execute(domain: Tau2Domain | TauBenchDomain, series: dict[str, Any], pristine: dict[str, Any]) -> dict[str, Any]:
    """Execute a series of calls, and return its answer for the file RESULT."""
    domain.start(series)
    errors = []
    began = len(series.get("history", ()))
    for number, call in enumerate([*series.get("history", ()), *series["calls"]]):
        try:
            answer = domain.call(call, series)
        except Exception as error:  # as in the benchmarks, the error becomes the answer and the conversation continues
            answer = f"Error: {error or type(error).__name__}"
        failed = isinstance(answer, str) and answer.startswith("Error")
        if failed and number >= began and domain.writes(call):
            errors.append(f"`{call['name']}`: {answer[:MAX_SHOWN]}")
    domain.end(series)
    differences = sorted((path, as_text(old), as_text(new)) for path, old, new in changes(pristine, domain.state()))
    assertion_results = [domain.holds(assertion) for assertion in series.get("assertions", ())]
    return {
        "state": hashlib.sha256(json.dumps([[path, new] for path, _, new in differences]).encode()).hexdigest(),
        "changes": {path.lstrip("."): new[:MAX_SHOWN] for path, _, new in differences[:MAX_CHANGES]},
        "changed": len(differences),
        "errors": errors,
        "assertions": assertion_results,
    }


def forked(domain: Tau2Domain | TauBenchDomain, series: dict[str, Any], pristine: dict[str, Any]) -> tuple[int, int]:
    """Fork a process that executes a series of calls.

    Returns its process id and the descriptor from which its answer can be read.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if child:
        # Otherwise, reading would not end when the child ends.
        os.close(writes)
        return child, reads
    os.close(reads)
    # Only a limit from outside stops a call such as `9**9**9**9`, which never returns to Python.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    try:
        answer = execute(domain, series, pristine)
    except Exception as error:
        answer = {"broken": f"not started: {type(error).__name__}: {error}"[:MAX_SHOWN]}
    with contextlib.suppress(OSError), os.fdopen(writes, "w") as out:
        json.dump(answer, out)
    # The child must not run the rest of the program, nor write buffered output of its parent.
    os._exit(0)


def answer_of(child: int, reads: int) -> Any:
    with os.fdopen(reads) as file:
        # Read before waiting, because a child whose answer is larger than the pipe would never end.
        text = file.read()
    os.waitpid(child, 0)
    try:
        return json.loads(text)
    except ValueError:
        return {"broken": f"stopped at the time limit of {CPU_S} s"}


def main(request_file: str, result_file: str) -> None:
    with open(request_file, encoding="utf-8") as file:
        request = json.load(file)
    sys.path.insert(0, request["path"])
    try:
        domain = (Tau2Domain if request["benchmark"] == "tau2" else TauBenchDomain)(request)
        # A copy, because tools change the database in place.
        pristine = copy.deepcopy(domain.state())
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"[:1000]}
    else:
        result, running, waiting = {}, dict[str, tuple[int, int]](), list(request["series"].items())
        while waiting or running:
            while waiting and len(running) < request["processes"]:
                name, series = waiting.pop(0)
                running[name] = forked(domain, series, pristine)
            name = next(iter(running))
            result[name] = answer_of(*running.pop(name))
    with open(result_file, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
