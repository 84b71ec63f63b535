"""Make result files with the real tools, and compare evalscribe's counts with the tools' own counts.

    python tests/benchmarks/real_tools.py                                   all tools
    python tests/benchmarks/real_tools.py pytest deepeval --cache ~/tools   some tools, installed once in this folder
    python tests/benchmarks/real_tools.py --speed                           CPU time, also of the formats' readers

Each tool is installed in its own environment by pip or npm, with their configuration. Tools can reach only a model on
loopback. The exit code is 1 if a count differs. A tool that cannot be installed is `not available`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.import_speed import COLLECTION
from benchmarks.import_speed import imported as store_evals
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records
from evalscribe.store.collections import open_collections
from support.chat_server import Answer, Call, ChatServer, failure, says, use

FILES = Path(__file__).parents[1] / "data" / "real_tools"
CAPITALS = {"France": "Paris", "Kenya": "Nairobi", "Peru": "Lima", "Japan": "Tokyo", "Chad": "N'Djamena"}
ANSWERS = {"France": "Paris", "Kenya": "It is Nairobi.", "Peru": '{"capital": "Lima"}', "Japan": "Kyoto", "Chad": ""}
NO_TELEMETRY = {
    "DO_NOT_TRACK": "1",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "ERROR_REPORTING": "0",
    "HARBOR_TELEMETRY": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "MSWEA_CONFIGURED": "true",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
}
NO_NETWORK = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}
"""Environment with a proxy at which nothing listens, so that tools cannot reach the network."""


class NotAvailable(Exception):
    """Raised if a tool cannot be installed here."""


@dataclass(frozen=True)
class Counts:
    runs: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    without_verdict: int = 0

    def __str__(self) -> str:
        return f"{self.runs:4} {self.evals:6} {self.passed:6} {self.failed:6} {self.errors:6} {self.without_verdict:8}"

    @property
    def evals(self) -> int:
        return self.passed + self.failed + self.errors + self.without_verdict


Made = tuple[Path, Counts]
"""A file or folder that a tool wrote, with the tool's own counts of its contents."""


@dataclass(frozen=True)
class ToolFolder:
    """The folders in which a tool is installed and works."""

    home: Path
    """Folder of the tool's virtual environment, or its npm folder."""
    place: Path
    chat_url: str
    times: int
    """Number of times that each case is repeated."""

    def run(self, *command: str | Path, codes: Sequence[int] = (0,), **environment: str) -> str:
        """Run a program of the tool in its working folder, and return its standard output."""
        folders = (self.home / "bin", self.home / "node_modules" / ".bin")
        program = next((path for folder in folders if (path := folder / command[0]).exists()), command[0])
        done = subprocess.run(
            [program, *command[1:]],
            cwd=self.place,
            env={
                "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self.place),
                "LANG": "C.UTF-8",
                "COLUMNS": "200",
                "TIMES": str(self.times),
                "CHAT_URL": f"{self.chat_url}/v1",
                **NO_TELEMETRY,
                **NO_NETWORK,
                **environment,
            },
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode not in codes:
            raise RuntimeError(f"{command} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout

    def copy(self, name: str) -> Path:
        """Copy a file, or the files of a folder, to the tool's working folder."""
        if (FILES / name).is_dir():
            return Path(shutil.copytree(FILES / name, self.place, dirs_exist_ok=True))
        return Path(shutil.copy(FILES / name, self.place))


@dataclass(frozen=True)
class Tool:
    package: str
    make: Callable[[ToolFolder], Iterator[Made]]
    also: tuple[str, ...] = ()
    """Names of further packages to install."""
    npm: bool = False
    python: tuple[int, int] = (3, 11)
    reader: str = ""
    """Code that defines a function `read(path)` with the format's own reader."""
    large: str = ""
    """Pattern of the files for which reading is measured."""
    times: int = 1
    """Number of times that each case is repeated in files for which reading is measured."""

    @cached_property
    def name(self) -> str:
        return self.package.partition("[")[0]


def by_script(script: str) -> Callable[[ToolFolder], Iterator[Made]]:
    """Return the function for a tool that is used from Python.

    The script prints the counts of each file that it made.
    """

    def make(folder: ToolFolder) -> Iterator[Made]:
        for line in folder.run("python", folder.copy(script)).splitlines():
            if line.startswith('{"file"'):
                counts = json.loads(line)
                yield folder.place / counts.pop("file"), Counts(**counts)

    return make


def make_pytest(folder: ToolFolder) -> Iterator[Made]:
    suite, file = folder.copy("pytest_suite.py"), folder.place / "report.xml"
    said = folder.run("pytest", "-rA", "-p", "no:cacheprovider", f"--junitxml={file}", suite, codes=(1,))
    told: dict[str, set[str]] = {}
    for word, test in re.findall(r"^(PASSED|XPASS|FAILED|ERROR|XFAIL) (\S+::.+?)(?: - .*)?$", said, re.MULTILINE):
        told.setdefault(word, set()).add(test)
    skipped = sum(map(int, re.findall(r"^SKIPPED \[(\d+)\]", said, re.MULTILINE)))
    passed = (told["PASSED"] | told["XPASS"]) - told["ERROR"]  # A test can pass although its teardown breaks.
    yield file, Counts(1, len(passed), len(told["FAILED"]), len(told["ERROR"]), len(told["XFAIL"]) + skipped)


def make_promptfoo(folder: ToolFolder) -> Iterator[Made]:
    folder.copy("promptfoo")
    outputs = [argument for name in ("results.json", "results.jsonl") for argument in ("-o", name)]
    repeat = str(2 * folder.times)
    said = folder.run(
        *("promptfoo", "eval", "--repeat", repeat, "-j", "1", "--no-cache", "--no-progress-bar", *outputs),
        codes=(100,),
        PROMPTFOO_CONFIG_DIR=str(folder.place / "config"),
    )
    told = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)\b", said)}
    results = json.loads((folder.place / "results.json").read_text())["results"]
    # If only a grader raised an error, Promptfoo counts a failure and evalscribe an error.
    checks = [(row["gradingResult"] or {}).get("componentResults") or [] for row in results["results"]]
    reasons = [[one["reason"] for one in row if not one["pass"]] for row in checks]
    raised = sum(bool(row) and all("function threw error" in reason for reason in row) for row in reasons)
    errors = told.get("errors", 0) or told.get("error", 0)
    counts = Counts(len(results["prompts"]), told["passed"], told["failed"] - raised, errors + raised)
    for name in ("results.json", "results.jsonl", "config/promptfoo.db"):
        yield folder.place / name, counts


def make_mini_swe_agent(folder: ToolFolder) -> Iterator[Made]:
    folder.copy("mini_swe_agent")
    folder.run(
        *("mini-extra", "swebench", "--subset", "dataset", "--split", "test", "-c", "config.yaml", "-o", "out"),
        OPENAI_API_BASE=f"{folder.chat_url}/v1",
        MSWEA_GLOBAL_CONFIG_DIR=str(folder.place),
        MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT="1",
    )
    out = folder.place / "out"
    (file,) = out.glob("exit_statuses_*.yaml")
    ended = {name: len(ids) for name, ids in yaml.safe_load(file.read_text())["instances_by_exit_status"].items()}
    patches = [one["model_patch"] for one in json.loads((out / "preds.json").read_text()).values()]
    submitted = sum(map(bool, patches))  # Nobody has graded the submitted patches yet.
    gave_up = ended["LimitsExceeded"] + ended["RepeatedFormatError"] + ended["Submitted"] - submitted
    yield out, Counts(1, 0, gave_up, len(patches) - submitted - gave_up, submitted)


def make_harbor(folder: ToolFolder) -> Iterator[Made]:
    folder.run("python", folder.copy("harbor_host.py"))
    for job, agent, attempts in (
        ("table", "harbor_host:TableAgent", 2 * folder.times),
        ("oracle", "oracle", 1),
        ("nop", "nop", 1),
    ):
        folder.run(
            *("harbor", "run", "-p", "tasks", "-o", "jobs", "--job-name", job, "-k", str(attempts), "-n", "1"),
            *("-a", agent, "-m", "example/table-1", "-e", "harbor_host:FolderEnvironment", "-q", "-y"),
            PYTHONPATH=str(folder.place),
        )
        yield folder.place / "jobs" / job, _of_harbor_job(folder.place / "jobs" / job)


def _of_harbor_job(job: Path) -> Counts:
    result = json.loads((job / "result.json").read_text())
    evals = list(result["stats"]["evals"].values())
    rewards = [(float(value), len(names)) for one in evals for value, names in one["reward_stats"]["reward"].items()]
    passed = sum(number for value, number in rewards if value >= 1)
    graded = sum(number for _, number in rewards)
    return Counts(len(evals), passed, graded - passed, result["n_total_trials"] - graded)


def make_lm_eval(folder: ToolFolder) -> Iterator[Made]:
    folder.copy("lm_eval")
    lines = (json.dumps({"country": country, "capital": capital}) for country, capital in CAPITALS.items())
    (folder.place / "capitals.jsonl").write_text("\n".join(lines))
    chat = f"model=table-1,base_url={folder.chat_url}/v1/chat/completions,num_concurrent=1,max_retries=1"
    for name, tasks, model in (
        ("asked", "capitals,repeated", ("local-chat-completions", "--model_args", chat, "--apply_chat_template")),
        ("chosen", "choices", ("dummy",)),
    ):
        folder.run(
            *("lm_eval", "--model", *model, "--tasks", tasks, "--include_path", "."),
            *("--log_samples", "--output_path", name),
            OPENAI_API_KEY="none",
        )
        (file,) = (folder.place / name).rglob("results_*.json")
        yield file.parent, _of_lm_eval(json.loads(file.read_text()))


def _of_lm_eval(results: dict[str, Any]) -> Counts:
    """Return the counts by the first metric of each task."""
    passed = evals = 0
    for task, scores in results["results"].items():
        number = results["n-samples"][task]["effective"]
        first = next(value for name, value in scores.items() if "," in name and "_stderr" not in name)
        evals, passed = evals + number, passed + round(first * number)
    return Counts(1, passed, evals - passed)


JUNIT_READER = """
from junitparser import JUnitXml
def read(path):
    return [(case.name, case.result) for suite in JUnitXml.fromfile(path) for case in suite]
"""
PYDANTIC_EVALS_READER = """
from pathlib import Path
from pydantic_evals.reporting import EvaluationReportAdapter
def read(path):
    return EvaluationReportAdapter.validate_json(Path(path).read_bytes())
"""
DEEPEVAL_READER = """
from deepeval.test_run.test_run import TestRun
def read(path):
    with open(path) as file:
        return TestRun.load(file)
"""
INSPECT_READER = """
from inspect_ai.log import read_eval_log as read
"""
HARBOR_READER = """
from pathlib import Path
from harbor.models.job.result import JobResult
from harbor.models.trajectories import Trajectory
from harbor.models.trial.result import TrialResult
MODELS = {"*/result.json": TrialResult, "*/agent/trajectory.json": Trajectory, "result.json": JobResult}
def read(path):
    return [one.model_validate_json(file.read_text()) for name, one in MODELS.items() for file in Path(path).glob(name)]
"""
TIMING = """
import sys, time
def seconds():
    began = time.process_time()
    read(sys.argv[1])
    return time.process_time() - began
print(min(seconds() for _ in range(3)))
"""

TOOLS = (
    Tool("harbor", make_harbor, python=(3, 12), reader=HARBOR_READER, large="jobs/table", times=5),
    Tool("promptfoo", make_promptfoo, npm=True),
    Tool("lm-eval[api]", make_lm_eval),
    Tool(
        "pydantic-evals", by_script("pydantic_evals_run.py"), reader=PYDANTIC_EVALS_READER, large="shop.json", times=200
    ),
    Tool("deepeval", by_script("deepeval_run.py"), reader=DEEPEVAL_READER, large="cases.json", times=100),
    # LiteLLM imports `mcp` but does not require it.
    Tool("mini-swe-agent", make_mini_swe_agent, also=("mcp",)),
    Tool("inspect-ai", by_script("inspect_run.py"), reader=INSPECT_READER, large="capitals-*/*.*", times=50),
    Tool("pytest", make_pytest, also=("junitparser",), reader=JUNIT_READER, large="report.xml", times=100),
)


def answer(call: Call) -> Answer:
    """Answer as the model `table-1`. Questions for capitals are answered from a table; agents receive commands."""
    messages = call.body["messages"]
    asked = next(str(one["content"]) for one in messages if one["role"] == "user")
    turn = sum(one["role"] == "assistant" for one in messages)
    submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    commands = ["pwd", "echo 'diff --git a/stats.py b/stats.py' > patch; false", f"{submit}; cat patch"]
    if "content policy" in asked or "Atlantis" in asked:
        return failure(400, "content_policy_violation", "The request breaks the policy.")
    if "only in words" in asked:
        return says("I would rather talk about it.")
    if "empty patch" in asked:
        return use(("bash", {"command": submit}))
    if call.body.get("tools"):
        return use(("bash", {"command": commands[0 if "endless" in asked else min(turn, 2)]}))
    return says(next((text for country, text in ANSWERS.items() if country in asked), "As an AI, I cannot know."))


def install(tool: Tool, home: Path, pythons: Sequence[str]) -> str:
    """Install a tool if it is not installed yet, and return its version."""
    if tool.npm:
        packages, found = [tool.package, *tool.also], home / "node_modules" / tool.package / "package.json"
        steps = [["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *packages]]
        version = ["node", "-p", f"require({json.dumps(str(found))}).version"]
    else:
        python = next((one for one in pythons if _version(one) >= tool.python), None)
        if python is None:
            raise NotAvailable(f"it needs Python {'.'.join(map(str, tool.python))}, see --python")
        found, program = home / "installed", str(home / "bin" / "python")
        pip = [program, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
        steps = [[python, "-m", "venv", "--clear", str(home)], [*pip, tool.package, *tool.also], ["touch", str(found)]]
        version = [program, "-c", f"from importlib.metadata import version; print(version({tool.name!r}))"]
    if not found.exists():
        home.mkdir(parents=True, exist_ok=True)
        for step in steps:
            _run(["nice", "-n", "10", *step])
    return _run(version).strip()


def _run(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise NotAvailable(f"{error.filename} is not installed") from None
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise NotAvailable(lines[-1] if lines else f"{command} ended with {error.returncode}") from None


def _version(python: str) -> tuple[int, ...]:
    """Return the version of a Python interpreter; (0,) if it does not start."""
    try:
        said = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
        )
    except OSError:
        return (0,)
    return tuple(map(int, said.stdout.split())) or (0,)


def imported(path: Path) -> Counts:
    """Return the counts of `evalscribe import` in a new workspace."""
    with tempfile.TemporaryDirectory() as workspace:
        command = [sys.executable, "-m", "evalscribe", "import", path, "--json"]
        done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"evalscribe import {path} ended with {done.returncode}: {done.stderr[-3000:]}")
    files: list[dict[str, Any]] = list(json.loads(done.stdout)["imports"].values())
    statuses: Counter[str] = sum((Counter(file["statuses"]) for file in files), Counter())
    runs = sum(len(file["runs"]) for file in files)
    return Counts(runs, *(statuses[name] for name in ("passed", "failed", "error", "incomplete")))


def check(tool: Tool, folder: ToolFolder, version: str) -> bool:
    """Compare the counts for each file that a tool makes, and print them. Return whether all are equal."""
    equal = True
    for path, theirs in tool.make(folder):
        ours = imported(path)
        name = f"{tool.name} {version}"
        file = _short(path, folder)
        print(
            f"{name:26} {file:36} {theirs}  {'equal' if ours == theirs else 'DIFFERENT: evalscribe reads'}", flush=True
        )
        if ours != theirs:
            print(f"{'':63} {ours}", flush=True)
            equal = False
    return equal


def _short(path: Path, folder: ToolFolder) -> str:
    """Shorten the name of a file to 36 characters. Inspect's file names contain a time and an id."""
    return re.sub(r"/\d{4}-[^/]*(?=\.)", "/…", str(path.relative_to(folder.place)))[-36:]


def measure(tool: Tool, folder: ToolFolder) -> None:
    """Print the CPU seconds of the format's own reader and of evalscribe, each the best of three."""
    script = folder.place / "time_reader.py"
    script.write_text(tool.reader + TIMING)
    for path in sorted(folder.place.glob(tool.large)):
        file = _short(path, folder)
        size = sum(one.stat().st_size for one in (path, *path.rglob("*")) if one.is_file()) / 2**20
        theirs = float(folder.run("python", script, path).split()[-1])
        read = min(_cpu_seconds(_read, path) for _ in range(3))
        stored = min(_cpu_seconds(_store, path) for _ in range(3))
        print(f"{tool.name:16} {file:36} {size:6.1f} {theirs:10.3f} {read:9.3f} {stored:9.3f}", end=" ")
        print(f"{read / theirs:10.1f} {stored / theirs:10.1f}", flush=True)


def _cpu_seconds(work: Callable[[Path], None], path: Path) -> float:
    began = time.process_time()
    work(path)
    return time.process_time() - began


def _read(path: Path) -> None:
    for _ in open_records(path, RunOverrides()).read():
        pass


def _store(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with closing(open_collections(Path(folder))) as collections:
            collections.add_collection(COLLECTION)
        store_evals(path, Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [tool.name for tool in TOOLS]
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"default: all of {', '.join(names)}")
    parser.add_argument("--cache", type=Path, help="folder to install the tools in, and find them next time")
    parser.add_argument("--python", action="append", default=[], help="another interpreter, if this one is too old")
    parser.add_argument(
        "--speed", action="store_true", help="larger files, and CPU time beside the formats' own readers"
    )
    options = parser.parse_args()
    if unknown := set(options.tools) - set(names):
        parser.error(f"unknown tools: {', '.join(sorted(unknown))}")
    pythons = [*options.python, sys.executable, *(f"python3.{minor}" for minor in (14, 13, 12))]
    equal, large = True, []
    with tempfile.TemporaryDirectory() as scratch, ChatServer(answer) as server:
        cache = (options.cache or Path(scratch) / "tools").absolute()
        print(f"{'tool':26} {'file':36} runs  evals passed failed errors ungraded")
        for tool in (one for one in TOOLS if not options.tools or one.name in options.tools):
            place = Path(scratch) / tool.name
            place.mkdir()
            folder = ToolFolder(cache / tool.name, place, server.url, tool.times if options.speed else 1)
            try:
                equal &= check(tool, folder, install(tool, folder.home, pythons))
            except NotAvailable as reason:
                print(f"{tool.name:26} not available: {reason}", flush=True)
                continue
            except (RuntimeError, LookupError, ValueError) as error:
                print(f"{tool.name:26} FAILED: {error}", flush=True)
                equal = False
                continue
            if tool.reader:
                large.append((tool, folder))
        if options.speed:
            print(f"\n{'CPU seconds':16} {'file':36}     MB own reader   reading importing  read/own import/own")
            for tool, folder in large:
                measure(tool, folder)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
