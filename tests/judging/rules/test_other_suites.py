"""Hand-made failures of other suites, with the label that their maintainers would give and the reason.

None is taken from the runs that the rules are measured on. At least half of them are not the model's fault.
"""

from dataclasses import dataclass

import pytest

from evalscribe.model.finding import Classification, Failure
from support.rules_failure import decide, lint_log, make_failure, pytest_log

MODEL, STRICT, TASK, GAP = "MODEL_FAULT", "OVERLY_STRICT", "AMBIGUOUS_TASK", "KNOWN_GAP"


@dataclass(frozen=True)
class Case:
    """A failure with its label and the reason; `sure` is the required certainty of the verdict, None for either."""

    failure: Failure
    label: Classification
    because: str
    sure: bool | None = None


def eslint(
    task: str, output: str, *errors: tuple[int, str, str], expected: str = "", path: str = "src/app.ts"
) -> Failure:
    """ESLint's report in its `stylish` format, and a test step that passed."""
    lines = "\n".join(f"  {line}:3  error  {said}  {rule}" for line, said, rule in errors)
    log = (
        f"[error] lint: Error: Failed to lint code:\n\n/work/{path}\n{lines}\n\n"
        f"✖ {len(errors)} problems ({len(errors)} errors, 0 warnings)\n"
        "[cmd] vitest run\n[vitest]  RUN  v3.0.4 /x\n[vitest]  Tests  6 passed (6)"
    )
    files = {path: expected} if expected else {path: "export const done = true;\n"}
    return make_failure("lint", log=log, output={path: output}, expected=files, task=task)


def ruff(task: str, output: str, *errors: str, expected: str = "def run():\n    return 1\n") -> Failure:
    return make_failure(
        "lint", log=lint_log(*errors), output={"loop.py": output}, expected={"loop.py": expected}, task=task
    )


def tsc(
    output: str, error: str, *, expected: str = "", gaps: str | None = None, task: str = "Write `total`."
) -> Failure:
    log = f"[cmd] bunx tsc --noEmit\nsrc/cart.ts{error}\n[error] types: tsc failed"
    return make_failure(
        "types",
        log=log,
        output={"src/cart.ts": output},
        expected={"src/cart.ts": expected or "export {};\n"},
        gaps=gaps,
        task=task,
    )


def vitest(
    task: str, *failed: tuple[str, str], passed: int = 5, output: str = "", expected: str = "", gaps: str | None = None
) -> Failure:
    """Return a failure with the output of vitest 3 on failed tests and their messages."""
    bodies = "\n\n".join(f" FAIL  grader.test.ts > {name}\nAssertionError: {said}" for name, said in failed)
    log = (
        f"[cmd] vitest run\n RUN  v3.0.4 /x\n\n❯ grader.test.ts ({len(failed) + passed} tests | {len(failed)} failed) 37ms\n\n"
        f"⎯⎯⎯⎯⎯⎯ Failed Tests {len(failed)} ⎯⎯⎯⎯⎯⎯\n\n{bodies}\n\n Test Files  1 failed (1)\n"
        f"      Tests  {len(failed)} failed | {passed} passed ({len(failed) + passed})\n[error] tests: vitest failed"
    )
    return make_failure(
        log=log,
        task=task,
        gaps=gaps,
        output={"src/app.ts": output or "serve();\n"},
        expected={"src/app.ts": expected or "listen();\n"},
    )


def pytest_(
    task: str, *failed: tuple[str, str], passed: int = 5, output: str = "", expected: str = "", gaps: str | None = None
) -> Failure:
    return make_failure(
        log=pytest_log(*failed, passed=passed), task=task, gaps=gaps,
        output={"app.py": output or "def run():\n    return 2\n"}, expected={"app.py": expected or "def run():\n    return 1\n"},
    )  # fmt: skip


CASES = {
    # Linters
    "sorted imports": Case(
        ruff("Parse the log file.", "import sys\nimport os\n", "loop.py:1:1: I001 Import block is un-sorted or un-formatted"),
        STRICT, "isort's order is taste, and nobody asked for it", True,
    ),
    "unused import": Case(
        ruff("Parse the log file.", "import sys\n", "loop.py:1:8: F401 `sys` imported but unused"),
        STRICT, "an unused name changes nothing that the task asks for", True,
    ),
    "unused variable": Case(
        eslint("Sum the cart.", "const tax = 0;\nconst a = 1;\n", (1, "'tax' is assigned a value but never used", "@typescript-eslint/no-unused-vars")),
        STRICT, "an unused name changes nothing", True,
    ),
    "docstring demanded": Case(
        ruff("Parse the log. Give every function a docstring.", "def run():\n    return 1\n", "loop.py:1:5: D103 Missing docstring in public function", expected='def run():\n    """Parse."""\n    return parse()\n'),
        MODEL, "the task asks for docstrings", True,
    ),
    "undefined name": Case(
        ruff("Parse the log file.", "return totals\n", "loop.py:1:8: F821 Undefined name `totals`"),
        MODEL, "code with an undefined name cannot run", True,
    ),
    "defect among taste": Case(
        eslint(
            "Sum the cart.", "let a = 1;\nreturn a;\nlog(a);\n",
            (1, "'a' is never reassigned. Use 'const' instead", "prefer-const"), (3, "Unreachable code", "no-unreachable"),
        ),
        MODEL, "one real defect decides", True,
    ),
    "floating promise": Case(
        eslint("Save the order.", "db.save(order);\n", (1, "Promises must be awaited", "@typescript-eslint/no-floating-promises")),
        MODEL, "the order may not be saved when the function returns",
    ),
    "any where the task guards types": Case(
        eslint("Write a fully typed client.", "export const get = (x: any) => x;\n", (1, "Unexpected any. Specify a different type", "@typescript-eslint/no-explicit-any")),
        MODEL, "the task asks for types, and the model wrote `any`", True,
    ),
    "async handler of an attribute": Case(
        eslint(
            "Show a form.", "<form onSubmit={send}>\n",
            (1, "Promise-returning function provided to attribute where a void return was expected", "@typescript-eslint/no-misused-promises"),
            expected="<form onSubmit={save}>\n", path="src/Form.tsx",
        ),
        STRICT, "the reference passes an async handler too",
    ),
    "hooks in a condition": Case(
        eslint("Show a counter.", "if (x) useState(0);\n", (1, 'React Hook "useState" is called conditionally', "react-hooks/rules-of-hooks"), path="src/App.tsx"),
        MODEL, "React breaks when hooks are called conditionally", True,
    ),
    "broad except in Pylint": Case(
        ruff("Retry the upload.", "try:\n    go()\nexcept Exception:\n    pass\n", "loop.py:3:0: W0718: Catching too general exception Exception (broad-exception-caught)"),
        STRICT, "a warning of Pylint about design",
    ),
    "the linter is named": Case(
        eslint("Sum the cart. The code must pass ESLint.", "let a = 1;\n", (1, "'a' is never reassigned. Use 'const' instead", "prefer-const")),
        MODEL, "the task asks for code that passes the linter", True,
    ),
    # Compilers
    "member that does not exist": Case(
        tsc("const n = items.count();\n", "(1,17): error TS2339: Property 'count' does not exist on type 'Item[]'.", expected="const n = items.length;\n"),
        MODEL, "an interface that does not exist", True,
    ),
    "syntax error": Case(
        tsc("const n = [1, 2;\n", "(1,16): error TS1005: ',' expected.", expected="const n = [1, 2];\n"), MODEL, "it does not parse", True,
    ),
    "ambient name in both": Case(
        tsc(
            "const key = process.env.API_KEY;\ncall(key);\n", "(1,13): error TS2580: Cannot find name 'process'. Do you need to install type definitions for node?",
            expected="const key = process.env.API_KEY;\nsend(key);\n",
        ),
        STRICT, "the reference has the same line and would fail alike", False,
    ),
    "note on the construct": Case(
        tsc(
            "const page = await orders.list({ cursor: 1 });\n", "(1,34): error TS2353: Object literal may only specify known properties, and 'cursor' does not exist in type 'ListOptions'.",
            expected="const page = await orders.list({ after: 1 });\n", gaps="orders:\n- Models pass `cursor` to list",
        ),
        GAP, "the note names the property in the error",
    ),
    "note in words": Case(
        tsc(
            "const stream = openUploadStream(bucket, name);\n", "(1,16): error TS2554: Expected 3 arguments, but got 2.",
            expected="const stream = openUploadStream(bucket, name, {});\n", gaps="storage:\n- never gets the upload stream right",
        ),
        GAP, "notes are hasty: the failed line is the construct that the note means", False,
    ),
    "closed note": Case(
        tsc(
            "const page = await orders.list({ cursor: 1 });\n", "(1,34): error TS2353: Object literal may only specify known properties, and 'cursor' does not exist in type 'ListOptions'.",
            expected="const page = await orders.list({ after: 1 });\n", gaps="# Orders\n- Resolved: models passed `cursor` to list",
        ),
        MODEL, "a closed gap does not count",
    ),
    "not really asked for": Case(
        make_failure(
            "build", log="[error] build: failed", task="Write a worker `sync`.", gaps="- Not using an internal handler, but the task does not ask for it",
            output={"a.ts": "export const sync = handler(run);\n"}, expected={"a.ts": "export const sync = internalHandler(run);\n"},
        ),
        TASK, "the note says that the task does not ask for it",
    ),
    "package that does not exist": Case(
        make_failure(
            "install", log="[cmd] bun install\nerror: GET https://packages.example/date-fns-easy - 404\n[error] install: bun failed",
            output={"package.json": '{"dependencies": {"date-fns-easy": "^1.0.0"}}\n'}, expected={"package.json": '{"dependencies": {}}\n'},
        ),
        MODEL, "the model named a package that does not exist", True,
    ),
    "registry that is down": Case(
        make_failure(
            "install", log="[cmd] bun install\nerror: GET https://packages.example/date-fns - 503\n[error] install: bun failed",
            output={"package.json": '{"dependencies": {"date-fns": "^3.0.0"}}\n'},
        ),
        GAP, "the registry was down, nothing was judged", True,
    ),
    "nothing recorded": Case(make_failure("tests"), GAP, "neither output nor log nor a reason", False),
    # Tests
    "outside service": Case(
        pytest_(
            "Fetch the exchange rate from https://api.rates.example/v1.", ("test_rate", "requests.exceptions.HTTPError: HTTP status: 503 for url"),
            output='r = get("https://api.rates.example/v1")\n', expected='r = fetch("https://api.rates.example/v1")\n',
        ),
        STRICT, "an outside service failed, the test cannot tell", False,
    ),
    "refused port": Case(
        vitest("Serve GET /health.", ("GET /health answers", "fetch failed"), ("GET /items lists", "fetch failed"), passed=0),
        STRICT, "no request reached the server: harness, unless the code caused it", False,
    ),
    "extra index in a schema": Case(
        vitest(
            "Store notes with a title. `list` returns them.", ("compare schema", "expected { Object (tables) } to deeply equal { Object (tables) }"),
            output="notes: table({ title: text }),\n", expected='notes: table({ title: text }).index("by_title"),\n',
        ),
        STRICT, "the test compares a whole schema; the task never names the index", False,
    ),
    "index that is asked for": Case(
        vitest(
            "Store notes with a title and an index `by_title`.", ("compare schema", "expected { Object (tables) } to deeply equal { Object (tables) }"),
            output="notes: table({ title: text }),\n", expected='notes: table({ title: text }).index("by_title"),\n',
        ),
        MODEL, "the task names the index", True,
    ),
    "refuses negative amounts": Case(
        pytest_("Write `apply(order)`, which adds the order's amount to the balance.", ("test_negative_amount_is_a_refund", "ValueError: amount must be positive")),
        STRICT, "no words of the task speak of negative amounts", False,
    ),
    "accepts empty names": Case(
        vitest("Add POST /users, which stores a user by name.", ("rejects an empty name", "expected 200 to be 400 // Object.is equality")),
        STRICT, "no words of the task touch empty names", False,
    ),
    "accepts empty names though forbidden": Case(
        vitest("Add POST /users, which stores a user by name. An empty name is answered with 400.", ("rejects an empty name", "expected 200 to be 400 // Object.is equality")),
        MODEL, "the task states it", True,
    ),
    "text of an error": Case(
        vitest("`load(id)` throws if there is no such user.", ("throws for a user that is not there", "expected [Function] to throw error including 'User not found' but got 'No user with id 7'")),
        STRICT, "the text was never named", False,
    ),
    "text of an error in pytest": Case(
        pytest_("`parse` raises ValueError for a broken line.", ("test_broken_line", "AssertionError: Regex pattern did not match. Regex: 'malformed record' Input: 'cannot parse line 1'")),
        STRICT, "the text was never named", False,
    ),
    "order of results": Case(
        pytest_("Return the tags of a post.", ("test_tags", "AssertionError: assert ['b', 'a'] == ['a', 'b']")),
        STRICT, "the task states no order", False,
    ),
    "order that is stated": Case(
        pytest_("Return the tags of a post in alphabetical order.", ("test_tags_of_post_in_alphabetical_order", "AssertionError: assert ['b', 'a'] == ['a', 'b']")),
        MODEL, "the task states the order", True,
    ),
    "another spelling": Case(
        pytest_("Report whether the job is done.", ("test_report", "AssertionError: assert 'in progress' == 'In Progress'")),
        STRICT, "an exact text that was never named", False,
    ),
    "wrong number": Case(
        pytest_("Return the total of the invoice with 20 % tax.", ("test_total_of_invoice_with_tax", "AssertionError: assert 100 == 120")),
        MODEL, "a wrong result of what the task states", True,
    ),
    "crash": Case(
        pytest_("Return the total of the invoice.", ("test_total_of_invoice", "TypeError: unsupported operand type(s) for +: 'int' and 'str'")),
        MODEL, "it throws where it has to answer", True,
    ),
    "function that is missing": Case(
        pytest_(
            "Write `total` and `average`.", ("test_average", "AttributeError: module 'app' has no attribute 'average'"),
            output="def total(xs):\n    return sum(xs)\n", expected="def total(xs):\n    return sum(xs)\ndef average(xs):\n    return 1\n",
        ),
        MODEL, "the task names what is missing", True,
    ),
    "ends of a range": Case(
        pytest_("Return the numbers between low and high.", ("test_numbers", "AssertionError: assert [2, 3] == [2, 3, 4]")),
        TASK, "the task does not say whether the end belongs to it", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_label_matches_the_maintainers(name: str) -> None:
    case = CASES[name]
    verdict = decide(case.failure)
    assert verdict.classification == case.label, f"{case.because}: {verdict.rule}: {verdict.reasoning}"
    if case.sure is not None:
        assert verdict.uncertain is not case.sure, f"{verdict.rule}: {verdict.reasoning}"


def test_at_least_half_of_the_cases_are_not_model_faults() -> None:
    own = sum(case.label == MODEL for case in CASES.values())
    assert 25 <= len(CASES) <= 40
    assert own / len(CASES) <= 0.5
