"""Code under test may throw or print text of an outage, a note or an earlier report: verdicts on it stay uncertain."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import Document, Evidence, PackedEvidence
from evalscribe.model.finding import CrossModelFailures, Failure, Precedent, Verdict
from evalscribe.model.run import Eval, Step
from support.real_runs import failures
from support.rules_failure import decide, make_failure

OUTAGES = (
    "ECONNREFUSED",
    "connect ECONNREFUSED 127.0.0.1:3210",
    "connect ECONNREFUSED ::1:3211",
    "read ECONNRESET",
    "connect ETIMEDOUT 10.0.0.1:443",
    "getaddrinfo ENOTFOUND api.example.com",
    "getaddrinfo EAI_AGAIN registry",
    "listen EADDRINUSE: address already in use :::3210",
    "connect EHOSTUNREACH 10.0.0.1:80",
    "fetch failed",
    "TypeError: fetch failed",
    "socket hang up",
    "Connection refused",
    "[Errno 111] Connection refused",
    "[Errno 104] Connection reset by peer",
    "connection timed out",
    "Connection closed",
    "Max retries exceeded with url: /health (Caused by NewConnectionError)",
    "ReadTimeout: HTTPConnectionPool: Read timed out.",
    "Temporary failure in name resolution",
    "network is unreachable",
    "no route to host",
    "503 Service Unavailable",
    "502 Bad Gateway",
    "504 Gateway Timeout",
    "ConnectError: All connection attempts failed",
    "429 Too Many Requests",
    "rate limit exceeded",
)
"""Texts that rules recognise as an outage of the network or a service."""
OTHER_WORDS = (
    "vitest timed out after 300s",
    "bun install timed out after 120s",
    "convex dev timed out after 90s",
    "[infrastructure] empty provider response",
    "[infrastructure] Convex backend health check timed out on port 3210",
    "[rate_limit] error: 429",
    "[preflight] provider is down",
    "[zero_tokens] Zero total token usage detected",
    "[answer_validation] Canonical answers must pass all evals",
    "AI_NoOutputGeneratedError: No output generated. Check the stream for errors.",
    "AI_APICallError: No endpoints found for vendor/model.",
    "The model is overloaded",
    "insufficient credits",
    "harness error: sandbox is gone",
    "the grader broke",
    "(answer) convex dev: fetch failed",
    "CancelledError('Cancelled via cancel scope')",
    "KeyboardInterrupt",
    "expected '[…]' to contain 'run every second'",
    "assert 'run every second' in text",
    "Object contains extra field `pageStatus` that is not in the validator",
)
"""Texts of runners, graders, notes and earlier reports."""
MESSAGES = (*OUTAGES, *OTHER_WORDS)
NODE_CLASSES = ("Error", "TypeError", "FetchError", "ConvexError")
PYTHON_CLASSES = ("ConnectionRefusedError", "RuntimeError", "TimeoutError", "requests.exceptions.ConnectionError")
NOTE = "basics:\n- Returns the extra field `pageStatus`\n- `AI_APICallError` and `fetch failed` are known\n"
GRADER_TS = """\
import { expect, test } from "vitest";
import { client, siteUrl } from "../../../grader";

test("lists every row", async () => {
  const found = await client.query(api.index.list, {});
  expect(found).toContain("run every second");
});

test("answers over HTTP", async () => {
  const answer = await fetch(`${siteUrl}/api/rows`);
  if (!answer.ok) throw new Error(await answer.text());
});
"""
GRADER_PY = """\
from rows import rows, serve


def base(port):
    return f"http://127.0.0.1:{port + 1}"


def test_rows():
    assert rows() == [1]


def test_serves(base):
    assert "run every second" in get(base)
"""
LABEL = 'label("run every second");\n'


def split(text: str) -> str:
    """Return an expression that builds the text from two-character pieces so the code contains none of its words."""
    return " + ".join(json.dumps(text[at : at + 2]) for at in range(0, len(text), 2))


def case(
    log: str,
    *,
    step: str,
    output: dict[str, str],
    grader: dict[str, str],
    steps: Sequence[str] = ("filesystem", "install", "deploy", "tsc", "eslint", "tests"),
    expected: dict[str, str] | None = None,
    gaps: str | None = NOTE,
    across: CrossModelFailures | None = None,
    precedents: Sequence[Precedent] = (),
    reason: str | None = None,
    error: str | None = None,
) -> Failure:
    """Return a failed eval whose steps before the failed one passed."""
    documents = [
        Document(role="task", path="TASK.txt", text="List every row, and serve the rows over HTTP."),
        Document(role="log", path="run.log", text="=== Eval: basics/001-rows ===\n" + log),
        *([Document(role="known_gaps", path="GAPS.txt", text=gaps)] if gaps else []),
        *(Document(role="output", path=path, text=text) for path, text in output.items()),
        *(Document(role="expected", path=path, text=text) for path, text in (expected or output).items()),
        *(Document(role="grader", path=path, text=text) for path, text in grader.items()),
    ]
    ran = steps[: steps.index(step) + 1]
    evidence = Evidence(
        eval=Eval(id="e1", category="basics", name="001-rows", failed_step=step, reason=reason),
        steps=tuple(
            Step(name=name, status="failed" if name == step else "passed", error=error if name == step else None)
            for name in ran
        ),
        documents=tuple(documents),
    )
    return Failure(evidence=evidence, packed=PackedEvidence(excerpts=()), across=across, precedents=tuple(precedents))


def judged(failure: Failure) -> Verdict:
    return RulesJudge().decide(failure)


def clears_nobody(verdict: Verdict) -> bool:
    """Return whether a verdict blames the model, or is uncertain and claims no pass."""
    guess = verdict.uncertain and verdict.confidence <= 0.5 and not verdict.would_pass
    return verdict.classification == "MODEL_FAULT" or guess


def vitest(version: int, *lines: str, failed: int, passed: int = 0, printed: str = "") -> str:
    """Return the output of vitest, each line with the runner's tag."""
    counts = f"{failed} failed" + (f" | {passed} passed" if passed else "")
    shown_lines = [
        f" RUN  v{version}.0.18 /evals",
        "",
        *(printed.split("\n") if printed else []),
        f" ❯ evals/grader.test.ts ({failed + passed} tests | {failed} failed) 37ms",
        *lines,
        "",
        " Test Files  1 failed (1)",
        f"      Tests  {counts} ({failed + passed})",
    ]
    return "[error] vitest: Error: Tests failed (ratio: 0)\n" + "\n".join(f"[vitest] {line}" for line in shown_lines)


def convex_output(message: str, thrown: str) -> dict[str, str]:
    return {"convex/index.ts": f"{LABEL}export const list = query({{ handler: () => {{ throw new {thrown}("
            f"{split(message)}); }} }});\n"}  # fmt: skip


def of_convex(message: str, thrown: str, version: int) -> Failure:
    """A Convex function throws: the client's error holds the server's."""
    error_lines = ["→ [CONVEX Q(index:list)] [Request ID: c1a1] Server Error", f"  Uncaught {thrown}: {message}"]
    frames = ["      at handler (../convex/index.ts:2:3)", "", "    Called by client"]
    lines = [f"   × {name} 12ms" for name in ("lists every row", "answers over HTTP")]
    if version == 3:
        lines = [line for name in lines for line in (name, f"     {error_lines[0]}", f"     {error_lines[1]}", *frames)]
    printed = (
        ""
        if version == 3
        else f"stdout | grader.test.ts > lists every row\n{error_lines[0][2:]}\n{error_lines[1]}\n{frames[0]}\n"
    )
    log = vitest(version, *lines, failed=2, printed=printed)
    return case(log, step="tests", output=convex_output(message, thrown), grader={"grader.test.ts": GRADER_TS})


def in_process(message: str, thrown: str) -> Failure:
    """vitest 3 with the output imported by the grader: the log has the message without any frame."""
    lines = [f"   × {name} 12ms\n     → {message}" for name in ("lists every row", "answers over HTTP")]
    log = vitest(3, *"\n".join(lines).split("\n"), failed=2)
    output = {"rows.ts": f"{LABEL}export function list() {{ throw new {thrown}({split(message)}); }}\n"}
    return case(
        log, step="tests", output=output, grader={"grader.test.ts": GRADER_TS}, steps=("files", "install", "tests")
    )


def answered(message: str) -> Failure:
    """An HTTP action answers with the text, which the grader throws."""
    lines = [f"   × answers over HTTP 12ms\n     → {message}"]
    log = vitest(3, *"\n".join(lines).split("\n"), failed=1, passed=1)
    return case(log, step="tests", output=convex_output(message, "Error"), grader={"grader.test.ts": GRADER_TS})


def printed(message: str) -> Failure:
    """The code prints the end of its own block and a list of failed tests that looks like vitest's."""
    forged = "\n".join(
        [
            "stdout | grader.test.ts > lists every row",
            "[CONVEX Q(index:list)] [LOG] hello",
            "",
            " ❯ evals/grader.test.ts (2 tests | 2 failed) 37ms",
            "   × lists every row 12ms",
            f"     → {message}",
            "",
            f"[infrastructure] {message}",
            f"[error] tests: {message}",
            "=== Eval: basics/001-rows ===",
            f"Error: {message}",
            "[ok] tests",
            "      Tests  2 passed (2)",
            "",
        ]
    )
    log = vitest(4, "   × lists every row 12ms", "   × answers over HTTP 3ms", failed=2, printed=forged)
    return case(log, step="tests", output=convex_output(message, "Error"), grader={"grader.test.ts": GRADER_TS})


def pytest_log(message: str, thrown: str, *frames: str, captured: str = "", names: Sequence[str] = ()) -> str:
    """Return the output of pytest in the sample suite: no tags, a traceback with its frames, captured prints."""
    bodies = []
    for name in names or ("test_rows", "test_serves"):
        shown = "\n\n".join(f">       call()\n\n{frame}: " for frame in frames[:-1])
        bodies.append(
            f"{'_' * 40} {name} {'_' * 40}\n\n    def {name}():\n{shown}\n"
            f"        raise\nE       {thrown}: {message}\n\n{frames[-1]}: {thrown}"
            + (f"\n{'-' * 30} Captured stdout call {'-' * 30}\n{captured}" if captured else "")
        )
    listed = names or ("test_rows", "test_serves")
    return "\n".join(
        [
            "[cmd] pytest test_grader.py",
            f"{'=' * 40} FAILURES {'=' * 40}",
            *bodies,
            f"{'=' * 30} short test summary info {'=' * 30}",
            *(f"FAILED test_grader.py::{name} - {thrown}: {message}" for name in listed),
            f"{len(listed)} failed in 0.12s",
            "[error] tests: pytest failed",
        ]
    )


def python_case(log: str, code: str, *, step: str = "tests", grader: str = GRADER_PY) -> Failure:
    return case(
        log,
        step=step,
        output={"rows.py": LABEL + code},
        grader={"test_grader.py": grader},
        steps=("files", "install", "lint", "types", "tests"),
    )


def in_python(message: str, thrown: str) -> Failure:
    """The output raises: its file is a frame of the traceback."""
    log = pytest_log(message, thrown, "test_grader.py:9", "rows.py:4")
    return python_case(log, f"def rows():\n    raise {thrown}({split(message)})\n")


def hidden_frame(message: str, thrown: str) -> Failure:
    """The output raises, and its frame names another file or is hidden."""
    log = pytest_log(message, thrown, "test_grader.py:9")
    raising = f"def rows():\n    __tracebackhide__ = True\n    raise {thrown}({split(message)})\n"
    return python_case(log, raising)


def forged_report(message: str, thrown: str) -> Failure:
    """The output prints a whole report of pytest and ends the process before pytest prints its own."""
    log = pytest_log(message, thrown, "test_grader.py:9")
    forging = f"from os import _exit, write\nwrite(5, ({split(log)}).encode())\n_exit(1)\n"
    return python_case(log, forging)


def forged_section(message: str, thrown: str) -> Failure:
    """The captured output contains a failed test that looks like the runner's."""
    section = f"{'_' * 40} test_serves {'_' * 40}\nE       {thrown}: {message}\n\ntest_grader.py:13: {thrown}"
    log = pytest_log(message, thrown, "test_grader.py:9", captured=section, names=("test_rows",))
    return python_case(log, f"def rows():\n    print({split(section)})\n    return []\n")


def at_push(message: str, thrown: str) -> Failure:
    """Module code throws while the deployment analyses it."""
    tool_output = (
        "convex dev:\n- Preparing Convex functions...\n"
        "✖ Error: Unable to start push to http://localhost:3210\n"
        "✖ Error fetching POST  http://localhost:3210/api/deploy2/start_push 400 Bad Request: InvalidModules: "
        f"Hit an error while pushing:\nFailed to analyze index.js: Uncaught {thrown}: {message}\n"
        "    at <anonymous> (../convex/index.ts:1:7)\n"
    )
    heading = "[error] Deploying generated backend on port 3210: Error: Failed to deploy:"
    log = f"[cmd] bunx convex dev --once\n{heading}\n{tool_output}"
    output = {"convex/index.ts": f"{LABEL}throw new {thrown}({split(message)});\n"}
    error = f"Error: Failed to deploy:\n{tool_output}"
    return case(
        log, step="deploy", output=output, grader={"grader.test.ts": GRADER_TS}, error=error, reason="convex dev fail"
    )


def multi_line_push(message: str) -> Failure:
    """The thrown message has lines of its own that look like the runner's and the tool's."""
    forged = (
        f"boom\n✖ TypeError: {message}\n[error] deploy: Error: {message}\n[infrastructure] {message}\n"
        f"[error] (answer) convex dev: {message}\n"
    )
    return at_push(forged, "Error")


def at_build(message: str) -> Failure:
    """A build script of the output prints it."""
    log = f"[cmd] npm run build\nError: {message}\n[error] build: npm failed"
    output = {"build.js": f"{LABEL}console.error({split('Error: ' + message)});\nprocess.exit(1);\n"}
    return case(log, step="build", output=output, grader={}, steps=("files", "install", "build"))


def quoted_by_the_compiler(message: str) -> Failure:
    """The compiler computes the text from pieces and quotes it."""
    text = f"convex/index.ts:2:7 - error TS2322: Type '\"{message}\"' is not assignable to type '\"a\"'."
    log = f"[error] Deploying generated backend on port 3210: Error: Failed to deploy:\nconvex dev:\n{text}\n"
    return case(log, step="deploy", output={"convex/index.ts": LABEL + "const a: 'a' = b;\n"}, grader={}, gaps=None)


def unresolved(message: str) -> Failure:
    """The bundler quotes the name of a module."""
    text = f'✘ [ERROR] Could not resolve "{message}"\n\n    convex/index.ts:2:7:\n      2 │ import "x";\n'
    log = f"[error] Deploying generated backend on port 3210: Error: Failed to deploy:\nconvex dev:\n{text}\n"
    return case(log, step="deploy", output={"convex/index.ts": LABEL + f'import "{message}";\n'}, grader={}, gaps=None)


def script_at_install(message: str) -> Failure:
    """A script of the output's own package runs while it is installed."""
    log = (
        f"[cmd] bun install\n[error] install: Error: {message}\nerror: ConnectionRefused downloading package manifest x"
    )
    package = json.dumps({"scripts": {"postinstall": "node ./say.js"}})
    return case(log, step="install", output={"package.json": package, "say.js": LABEL}, grader={}, gaps=None)


def slow_script_at_install(message: str) -> Failure:
    """A script of the output's own package waits until the runner stops the installation."""
    timeout = "Error: bun install timed out after 120s"
    log = f"[cmd] bun install\n[error] Installing dependencies (bun install): {timeout}\n[error] install: {timeout}"
    output = {"package.json": json.dumps({"scripts": {"prepare": "sleep 900"}}), "a.js": f"say({split(message)})"}
    return case(log, step="install", output=output, grader={}, gaps=None, error=timeout, reason="install fail")


def own_registry(message: str) -> Failure:
    """The output names a registry that does not answer."""
    log = f"[cmd] pip install -r requirements.txt\nERROR: {message}\n[error] install: pip failed"
    output = {"requirements.txt": "--index-url http://localhost:1/simple\ntabulate\n", "rows.py": LABEL}
    return case(log, step="install", output=output, grader={}, gaps=None)


def setup_script(message: str) -> Failure:
    """The output's setup.py runs while it is installed."""
    log = f"[cmd] pip install .\nERROR: {message}\n[error] install: pip failed"
    return case(log, step="install", output={"setup.py": f"raise Exception({split(message)})"}, grader={}, gaps=None)


def type_with_line_breaks(message: str) -> Failure:
    """TypeScript prints a template literal type as it is, so lines of it can look like the runner's own."""
    error = (
        "convex/index.ts:2:7 - error TS2322: Type '\"x\"' is not assignable to type '`\n"
        f"[error] deploy: Error: Failed to deploy:\nconvex dev:\n✖ TypeError: {message}\n[cmd] ${{string}}`'.\n"
    )
    copies = ("Deploying generated backend on port 3210", "deploy")
    log = "".join(f"[error] {copy}: Error: Failed to deploy:\nconvex dev:\n{error}" for copy in copies)
    output = {"convex/index.ts": LABEL + "const a: T = 'x';\n"}
    return case(log, step="deploy", output=output, grader={}, gaps=None, error=f"Error: Failed to deploy:\n{error}")


def push_without_a_record(message: str) -> Failure:
    """The row of the failed step is missing, and the thrown message looks like the end of its section."""
    thrown = f"boom\n[error] deploy: Error: Failed to deploy:\nconvex dev:\n✖ TypeError: {message}\n[cmd] next"
    failure = at_push(thrown, "Error")
    steps = tuple(step.model_copy(update={"error": None}) for step in failure.evidence.steps)
    return failure.model_copy(update={"evidence": failure.evidence.model_copy(update={"steps": steps})})


def asserted_value(message: str) -> Failure:
    """The output returns the text, and the grader's own assertion shows it."""
    log = pytest_log(f"assert {message!r} == [1]", "AssertionError", "test_grader.py:9")
    return python_case(log, f"def rows():\n    return {split(message)}\n")


def raised_by_a_builtin(message: str) -> Failure:
    """The grader loops over what the output returns, and only then a builtin raises, without a frame of the output."""
    log = pytest_log(f"invalid literal for int() with base 10: {message!r}", "ValueError", "test_grader.py:9")
    return python_case(log, f"def rows():\n    return map(int, [{split(message)}])\n")


def connects_late(message: str) -> Failure:
    """The output gives the grader something to call that connects without a frame of the output."""
    library = "/usr/lib/python3.12/urllib/request.py:1344"
    log = pytest_log(message, "urllib.error.URLError", "test_grader.py:9", library)
    code = (
        "from functools import partial\nfrom urllib.request import urlopen\nrows = partial(urlopen, 'http://[::1]:1')\n"
    )
    return python_case(log, code)


def printed_heading(message: str) -> Failure:
    """The output prints the heading under which the runner reports on the reference."""
    captured = f"[error] (answer) convex dev: Error: {message}"
    log = pytest_log("assert [] == [1]", "AssertionError", "test_grader.py:9", captured=captured, names=("test_rows",))
    return python_case(log, f"def rows():\n    print({split(captured)})\n    return []\n")


def ends_the_process(message: str) -> Failure:
    """The output ends the process of the tests before the test runner prints anything."""
    log = "[ok] types\n[error] tests: Error: Tests failed:\n"
    return python_case(log, f"from os import _exit\n_exit(len({split(message)}))\n")


def names_a_field(message: str) -> Failure:
    """The output throws the name of a field that only the reference lists."""
    fields = "  returns: v.object({\n    page: v.any(),\n    isDone: v.boolean(),\n    cursor: v.string(),\n"
    end = "  }),\n});\n"
    log = vitest(3, "   × lists every row 12ms", f"     → pageStatus: {message}", failed=1)
    output = f"export const list = query({{\n{fields}{end}throw Error({split(message)});\n"
    return case(
        log,
        step="tests",
        output={"convex/index.ts": output},
        expected={"convex/index.ts": f"export const list = query({{\n{fields}    pageStatus: v.any(),\n{end}"},
        grader={"grader.test.ts": GRADER_TS},
        gaps=None,
        steps=("files", "install", "tests"),
    )


def hidden_script_at_install(message: str) -> Failure:
    """The name of the script is written with an escape."""
    log = f"[cmd] bun install\n[error] install: {message}\nerror: ConnectionRefused downloading package manifest x"
    package = '{"scripts": {"post\\u0069nstall": "node ./say.js"}}'
    return case(log, step="install", output={"package.json": package, "say.js": LABEL}, grader={}, gaps=None)


def marks_at_install(message: str) -> Failure:
    """A script prints a mark of the runner first, and the runner records what was printed."""
    package = json.dumps({"scripts": {"postinstall": "node ./say.js"}})
    error = f"[rate_limit] {message}"
    output = {"package.json": package, "say.js": LABEL}
    return case(f"[error] install: {error}", step="install", output=output, grader={}, gaps=None, error=error)


def slow_build_script(message: str) -> Failure:
    """A script of the output waits until the runner stops the build."""
    timeout_message = "npm run build timed out after 90s"
    output = {"build.js": f"{LABEL}for (;;) say({split(message)});\n"}
    log = f"[cmd] npm run build\n[error] build: {timeout_message}"
    return case(log, step="build", output=output, grader={}, steps=("files", "install", "build"), error=timeout_message)


SHAPES: dict[str, Callable[[str], Failure]] = {
    **{f"convex, vitest {n}, {c}": partial(of_convex, thrown=c, version=n) for n in (3, 4) for c in NODE_CLASSES},
    **{f"vitest in one process, {c}": partial(in_process, thrown=c) for c in NODE_CLASSES},
    "an answer that the grader throws": answered,
    "printed": printed,
    **{f"pytest, {c}": partial(in_python, thrown=c) for c in PYTHON_CLASSES},
    **{f"pytest, hidden frame, {c}": partial(hidden_frame, thrown=c) for c in PYTHON_CLASSES},
    "pytest, forged report": partial(forged_report, thrown="ConnectionRefusedError"),
    "pytest, forged section": partial(forged_section, thrown="ConnectionRefusedError"),
    **{f"push, {c}": partial(at_push, thrown=c) for c in NODE_CLASSES},
    "push, many lines": multi_line_push,
    "build script": at_build,
    "quoted by the compiler": quoted_by_the_compiler,
    "quoted by the bundler": unresolved,
    "script at install": script_at_install,
    "slow script at install": slow_script_at_install,
    "own registry": own_registry,
    "setup script": setup_script,
    "a type with line breaks": type_with_line_breaks,
    "push, no record": push_without_a_record,
    "a value in an assertion": asserted_value,
    "raised by a builtin": raised_by_a_builtin,
    "connects late": connects_late,
    "printed heading": printed_heading,
    "ends the process": ends_the_process,
    "names a field": names_a_field,
    "hidden script at install": hidden_script_at_install,
    "marks at install": marks_at_install,
    "slow build script": slow_build_script,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_code_never_excuses_itself_with_certainty(shape: str) -> None:
    verdicts = {message: judged(SHAPES[shape](message)) for message in MESSAGES}
    cleared = {message: (v.rule, v.classification) for message, v in verdicts.items() if not clears_nobody(v)}
    assert cleared == {}


@pytest.mark.parametrize("shape", [in_process, in_python, hidden_frame])
def test_text_of_an_earlier_report_never_excuses_with_certainty(shape: Callable[[str, str], Failure]) -> None:
    """Reports are public: code can throw what people once excused."""
    for message in MESSAGES:
        earlier = Precedent(
            report="r.md", eval="basics/001-rows", step="tests", classification="OVERLY_STRICT", cause="c",
            error=message, by_person=True, reviewer="ann", reasoning="it is the grader's",
        )  # fmt: skip
        failure = shape(message, "RuntimeError").model_copy(update={"precedents": (earlier,)})
        assert clears_nobody(judged(failure)), message


def test_other_models_failing_alike_make_the_label_certain() -> None:
    """An output cannot write the text of other models' failures."""
    log = vitest(3, "   × lists every row 12ms", "     → fetch failed", failed=1)
    failure = case(
        log, step="tests", output={"convex/index.ts": LABEL}, grader={"grader.test.ts": GRADER_TS}, gaps=None
    )
    alone = judged(failure)
    alike = judged(failure.model_copy(update={"across": CrossModelFailures(models=4, alike=("a/b", "c/d", "e/f"))}))
    assert (alone.classification, alone.uncertain, alone.would_pass) == ("OVERLY_STRICT", True, False)
    assert (alike.classification, alike.uncertain, alike.would_pass) == ("OVERLY_STRICT", False, True)


def test_grader_with_a_wrong_port_is_at_fault_with_certainty() -> None:
    """All frames are the grader's, which computes the port that does not answer."""
    log = pytest_log(
        "[Errno 111] Connection refused", "ConnectionRefusedError", "test_grader.py:13", "test_grader.py:5"
    )
    verdict = judged(python_case(log, "def rows():\n    return [1]\n"))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "harness", False)
    without = GRADER_PY.replace("{port + 1}", "{port}")
    verdict = judged(python_case(log, "def rows():\n    return [1]\n", grader=without))
    assert (verdict.classification, verdict.uncertain, verdict.would_pass) == ("OVERLY_STRICT", True, False)


def test_outages_before_the_code_ran_stay_certain() -> None:
    registry = (
        "[cmd] bun install\n[error] install: Error: failed\nerror: ConnectionRefused downloading package manifest x"
    )
    push = "[error] Deploying generated backend: Error: Failed to deploy:\nconvex dev:\n✖ TypeError: fetch failed"
    package = {"package.json": '{"dependencies": {"convex": "^1.31.2"}}', "convex/index.ts": LABEL}
    for log, step in ((registry, "install"), (push, "deploy")):
        verdict = judged(case(log, step=step, output=package, grader={}, gaps=None))
        assert (verdict.cause_kind, verdict.uncertain) == ("infrastructure", False), step


def test_broken_test_case_does_not_prove_a_harness_fault() -> None:
    """JUnit counts a test as broken if the code under test raises while it is imported."""
    evidence = Evidence(
        eval=Eval(id="e", category="", name="n", status="error", reason="ConnectionRefusedError: refused"),
        steps=(Step(name="test", status="failed", error="ConnectionRefusedError: refused"),),
        documents=(),
    )
    verdict = judged(Failure(evidence=evidence, packed=PackedEvidence(excerpts=())))
    assert clears_nobody(verdict)


def test_printed_summary_of_passed_tests_does_not_clear_the_model_with_certainty() -> None:
    """If the source records no test step, only the log says that the tests passed."""
    log = "[error] lint: ruff failed\na.py:1:1: E501 Line too long\n[cmd] pytest\n3 passed in 0.1s\n[ok] tests"
    failure = make_failure("lint", log=log, output={"a.py": "x = 1\n"})
    sure = decide(failure)
    steps = tuple(step for step in failure.evidence.steps if step.name != "tests")
    unknown = decide(failure.model_copy(update={"evidence": failure.evidence.model_copy(update={"steps": steps})}))
    assert not sure.uncertain
    assert clears_nobody(unknown)


@pytest.mark.parametrize("message", ["fetch failed", "connect ECONNREFUSED 127.0.0.1:3210", "503 Service Unavailable"])
@pytest.mark.parametrize(
    "marks", ["", "[CONVEX Q(index:list)] [Request ID: c1a1] Server Error\n[vitest]   Uncaught Error: "]
)
def test_real_failures_are_not_excused_by_replaced_messages(real_data: Path, message: str, marks: str) -> None:
    """Replace the messages of all failed tests in the real runs by an outage."""
    number = 0
    for evidence in failures(real_data):
        replaced_texts = {d: re.sub(r"(→ ).*", lambda m: m[1] + marks + message, d.text) for d in evidence.of("log")}
        if evidence.eval.failed_step != "tests" or not any(d.text != text for d, text in replaced_texts.items()):
            continue
        number += 1
        documents = tuple(d.model_copy(update={"text": replaced_texts.get(d, d.text)}) for d in evidence.documents)
        verdict = judged(
            Failure(evidence=evidence.model_copy(update={"documents": documents}), packed=PackedEvidence(excerpts=()))
        )
        by_code = (
            "gap-names-what-is-written",
            "gap-names-what-is-missing",
        )  # these look at the code, not at its messages
        assert clears_nobody(verdict) or verdict.rule in by_code, (evidence.eval.path, verdict.rule)
    assert number > 10
