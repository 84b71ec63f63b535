"""Which lines of output, reference, grader and log the rules quote."""

import pytest

from evalscribe.judging.rules.quote import is_bare
from evalscribe.model.finding import Verdict
from evalscribe.reports.outline import snippets
from support.rules_failure import decide, make_failure, pytest_log, vitest_log

STOCK = "[error] types: failed\n"


def quoted(verdict: Verdict) -> list[tuple[str, str]]:
    """Return role and text of the snippets that a report prints."""
    return [(snippet.role, snippet.text) for snippet in snippets(verdict.citations, verdict.error)]


def unexplained(output: str, expected: str, task: str = "Write it.") -> Verdict:
    return decide(make_failure("types", log=STOCK, output={"a.ts": output}, expected={"a.ts": expected}, task=task))


def typescript(error: str, output: str, expected: str) -> Verdict:
    log = f"[cmd] tsc\na.ts{error}\n[error] types: failed"
    return decide(make_failure("types", log=log, output={"a.ts": output}, expected={"a.ts": expected}))


@pytest.mark.parametrize(
    "text",
    ["handler: async (ctx, args) => {", "http.route({", "internal,", "} as const;", "returns: {", "});", "try {"],
)
def test_line_that_only_opens_or_closes_a_block_is_bare(text: str) -> None:
    assert is_bare(text)


@pytest.mark.parametrize(
    "text",
    [
        "if (blob.size === 0) {",
        "export const update = mutation({",
        "const jsonOk = () =>",
        "internal.index.storeFile,",
        "v.literal(null)",
        'path: "/api/*",',
        "recentPosts.map((post) =>",
    ],
)
def test_line_with_a_call_value_or_name_is_not_bare(text: str) -> None:
    assert not is_bare(text)


def test_line_that_fits_the_error_is_quoted_instead_of_the_function_head() -> None:
    head = "handler: async (ctx) => {\n" + "".join(f"  step({n});\n" for n in range(6))
    ours = head + '  return { done: false, why: "no rows" };\n}\n'
    theirs = head + '  return {\n    done: false,\n    why: "no rows",\n  } as const;\n}\n'
    error = (
        "(1,10): error TS2322: Types of property 'done' are incompatible. "
        "Type 'boolean' is not assignable to type 'false'."
    )
    verdict = typescript(error, ours, theirs)
    assert quoted(verdict) == [
        ("output", 'return { done: false, why: "no rows" };'),
        ("expected", 'return {\n  done: false,\n  why: "no rows",\n} as const;'),
    ]
    assert verdict.why == "gives `done` the type `boolean` where `false` is needed (TS2322)"


def test_one_line_call_is_compared_with_a_multi_line_call() -> None:
    ours = 'crons.interval("run every second", { seconds: 1 }, run);\n'
    theirs = 'crons.interval(\n  "run every second",\n  { seconds: 1 },\n  run,\n  {},\n);\n'
    verdict = typescript("(1,1): error TS2554: Expected 4 arguments, but got 3.", ours, theirs)
    assert [role for role, _ in quoted(verdict)] == ["output", "expected"]
    assert quoted(verdict)[1][1].startswith('crons.interval(\n  "run every second"')
    assert verdict.why == "passes 3 arguments instead of 4 (TS2554)"


def test_a_definition_is_compared_with_the_definition_of_the_same_name() -> None:
    ours = "export const initiate = mutation({\n  a,\n});\nexport const update = mutation({\n  b,\n});\n"
    theirs = "export const initiate = mutation({\n  a,\n});\nexport const update = internalMutation({\n  b,\n});\n"
    assert quoted(unexplained(ours, theirs)) == [
        ("output", "export const update = mutation({"),
        ("expected", "export const update = internalMutation({"),
    ]


def test_nothing_is_quoted_if_no_line_stands_out() -> None:
    verdict = unexplained("const total = 1;\n", "const sum = 2;\n")
    assert quoted(verdict) == []
    assert verdict.why == "the log ends before the reason"
    assert verdict.reasoning == "No line stands out: `a.ts` differs in 1 line."


def test_plain_word_in_the_task_does_not_make_a_function_known() -> None:
    verdict = unexplained(
        "returns: v.tuple([user, post]),\nother: 1,\n",
        "returns: v.array(v.union(user, post)),\nother: 1,\n",
        task="Returns a tuple of both.",
    )
    assert (verdict.rule, verdict.cause) == ("uses-unknown-name", "unknown-name-tuple")
    assert verdict.why == "`tuple([user, post])` where the reference has `array(v.union(user, post))`"


def test_a_function_that_the_task_writes_as_code_is_known() -> None:
    verdict = unexplained(
        "returns: v.tuple([user, post]),\nother: 1,\n",
        "returns: v.array(v.union(user, post)),\nother: 1,\n",
        task="Use `v.tuple()`.",
    )
    assert verdict.rule is None


def test_failed_assertion_is_quoted_instead_of_the_test_title() -> None:
    grader = "def test_page():\n    assert size() == 3\n    assert page(1) == ['a']\n"
    log = pytest_log(("test_page", "AssertionError: assert [] == ['a']"), passed=3)
    verdict = decide(make_failure(log=log, output={"a.py": "x = 1\n"}, grader={"test_grader.py": grader}))
    assert ("grader", "assert page(1) == ['a']") in quoted(verdict)
    assert not any("def test_page" in text for _, text in quoted(verdict))


def test_no_assertion_is_quoted_if_the_log_does_not_say_which_failed() -> None:
    grader = 'test("lists items", async () => {\n  expect(a).toBe(1);\n  expect(b).toBe(2);\n});\n'
    verdict = decide(
        make_failure(log=vitest_log("lists items"), output={"a.ts": "let x = 1;\n"}, grader={"grader.test.ts": grader})
    )
    assert not any(role == "grader" for role, _ in quoted(verdict))


def test_fix_does_not_suggest_retries_that_the_grader_already_makes() -> None:
    grader = (
        "async function fetchWithRetry(url, retries = 3) {}\n"
        "test('lists items', async () => {\n  await fetchWithRetry(`${site}/a`);\n});\n"
    )
    tests = vitest_log("lists items").replace("items 2ms", "items 2ms\n[vitest]      → fetch failed")
    log = f"[cmd] serve --url http://localhost:35275\n{tests}"
    verdict = decide(make_failure(log=log, output={"a.ts": "serve();\n"}, grader={"grader.test.ts": grader}))
    assert verdict.rule == "connection-broke"
    assert verdict.fix is not None
    assert "retries already" in verdict.fix
    assert quoted(verdict) == [
        ("log", "[cmd] serve --url http://localhost:35275"),
        ("grader", "await fetchWithRetry(`${site}/a`);"),
    ]


def test_error_and_cause_name_the_same_lint_rule() -> None:
    log = (
        "[error] Linting (eslint): Error: Failed to lint code:\n\n/tmp/out/src/app.ts\n"
        "  1:3  error  'React' is not defined  no-undef\n"
        "  2:3  error  Promise-returning function provided  @typescript-eslint/no-misused-promises\n"
    )
    case = make_failure(
        "lint",
        log=log,
        output={"src/app.ts": "const a: React.Event = 1;\nform(onSubmit);\n"},
        gaps="- fails a maybe-dumb lint: no-misused-promises",
    )
    verdict = decide(case)
    assert (verdict.classification, verdict.cause) == ("KNOWN_GAP", "no-misused-promises")
    assert verdict.error == "Promise-returning function provided (no-misused-promises)"
    assert verdict.reasoning.endswith("The output also breaks `no-undef`.")
    assert (verdict.fix, verdict.would_pass) == ("make `no-misused-promises` a warning", False)
