"""Failed tests without messages in the log: vitest 4 as the Convex runner calls it."""

import pytest

from evalscribe.model.finding import Verdict
from support.rules_failure import decide, make_failure, vitest_log

REFERENCE = """\
export const listAll = query({
  args: {},
  handler: async (ctx) => ctx.db.query("items").collect(),
});
export const addItem = mutation({
  args: { name: v.string() },
  handler: async (ctx, args) => ctx.db.insert("items", args),
});
"""
GRADER = """\
test("lists all items", async () => {
  expect(await client.query(api.index.listAll, {})).toEqual([]);
});

test("adds an item", async () => {
  await client.mutation(api.index.addItem, { name: "a" });
});
"""


def judged(output: str, log: str, *, grader: str = GRADER, reference: str = REFERENCE, task: str = "Do it.") -> Verdict:
    return decide(
        make_failure(
            log=log,
            task=task,
            output={"convex/index.ts": output},
            expected={"convex/index.ts": reference},
            grader={"grader.test.ts": grader},
            error="tests failed (0%)",
            reason="tests failed (0%)",
        )
    )


def test_error_names_the_failed_tests_and_not_the_banner() -> None:
    verdict = judged(REFERENCE.replace("collect", "take"), vitest_log("lists all items", passed=["adds an item"]))
    assert verdict.error == "failed tests: lists all items"
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", True)
    assert verdict.reasoning == "1 of 2 tests fail without a message, first `lists all items`."


def test_missing_function_that_the_tests_call_is_a_certain_model_fault() -> None:
    output = REFERENCE.replace("addItem", "insertItem")
    verdict = judged(output, vitest_log("adds an item", passed=["lists all items"]))
    assert (verdict.classification, verdict.uncertain, verdict.cause) == ("MODEL_FAULT", False, "missing-add-item")


def test_output_equal_to_the_reference_is_not_blamed() -> None:
    verdict = judged(REFERENCE, vitest_log("lists all items", "adds an item"))
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "harness", True)


def test_output_equal_to_the_reference_is_not_blamed_despite_a_message() -> None:
    log = vitest_log("lists all items", "adds an item").replace(
        "items 2ms", "items 2ms\n[vitest]      → expected 1 to be 2"
    )
    verdict = judged(REFERENCE, log)
    assert "expected 1 to be 2" in verdict.error
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "harness", True)


def test_tests_stopped_at_the_time_limit_are_mentioned() -> None:
    verdict = judged(REFERENCE, vitest_log("lists all items", "adds an item", took=5011))
    assert "5,000 ms" in verdict.reasoning
    assert "5,000 ms" not in judged(REFERENCE, vitest_log("lists all items", "adds an item", took=4200)).reasoning


@pytest.mark.parametrize(
    ("tests", "counts", "said"),
    [
        ("(0 test)", "no tests", "the test file did not load: no test ran"),
        ("(2 tests | 2 skipped) 41ms", "2 skipped (2)", "a hook failed: all 2 tests were skipped"),
    ],
)
def test_run_without_executed_tests_is_an_uncertain_harness_fault(tests: str, counts: str, said: str) -> None:
    log = (
        "[error] vitest: Error: Tests failed (ratio: 0)\n[cmd] bunx vitest run\n[vitest]  RUN  v4.0.18 /home/x\n"
        f"[vitest]  ❯ grader.test.ts {tests}\n[vitest]  Test Files  1 failed (1)\n[vitest]       Tests  {counts}\n"
    )
    verdict = judged(REFERENCE.replace("collect", "take"), log)
    assert verdict.error == said
    assert (verdict.cause_kind, verdict.uncertain) == ("harness", True)


STATIC = """\
test("describes the jobs", async () => {
  const text = JSON.stringify(await spec());
  expect(text).toContain("run every hour");
  expect(text).toContain("run every minute");
});
test("other", () => {});
"""
JOBS = 'jobs.add("run every hour", 1);\njobs.add("run every minute", 60);\n'


def test_failed_check_for_texts_that_the_output_contains_is_a_grader_fault() -> None:
    log = vitest_log("describes the jobs", passed=["other"])
    verdict = judged(JOBS + "const extra = 1;\n", log, grader=STATIC, reference=JOBS)
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "grader", True)


def test_check_that_also_compares_values_is_a_model_fault() -> None:
    grader = STATIC.replace('toContain("run every minute")', "toHaveLength(12)")
    verdict = judged(
        JOBS + "x = 1\n", vitest_log("describes the jobs", passed=["other"]), grader=grader, reference=JOBS
    )
    assert verdict.classification == "MODEL_FAULT"


HTTP = """\
test("says hello", async () => {
  const res = await fetch(`${siteUrl}/api/hello`, { method: "GET" });
  expect(res.ok).toBe(true);
});
test("takes messages", async () => {
  const res = await fetch(`${siteUrl}/api/messages/123`, { method: "POST" });
  expect(res.ok).toBe(true);
});
"""
ROUTES = """\
http.route({ path: "/api/hello", method: "GET", handler });
http.route({ pathPrefix: "/api/messages/", method: "POST", handler });
"""
THEIRS = ROUTES.replace('pathPrefix: "/api/messages/"', 'path: "/api/messages/*"')


@pytest.mark.parametrize("asks", ["fetch(", "fetchWithRetry("])
def test_failure_of_all_requests_to_served_addresses_is_a_harness_fault(asks: str) -> None:
    log = vitest_log("says hello", "takes messages")
    verdict = judged(ROUTES, log, grader=HTTP.replace("fetch(", asks), reference=THEIRS)
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "harness", True)


def test_address_that_is_not_served_is_a_model_fault() -> None:
    output = ROUTES.replace("/api/hello", "/hello")
    verdict = judged(output, vitest_log("says hello", "takes messages"), grader=HTTP, reference=THEIRS)
    assert verdict.classification == "MODEL_FAULT"


def test_failed_request_is_a_model_fault_if_another_one_succeeded() -> None:
    log = vitest_log("takes messages", passed=["says hello"])
    assert judged(ROUTES, log, grader=HTTP, reference=THEIRS).classification == "MODEL_FAULT"


def test_static_eval_blames_the_package_that_was_not_chosen() -> None:
    log = vitest_log("chooses the aggregate component", "mounts the component")
    grader = 'test("chooses the aggregate component", () => {\n  expect(deps["@acme/aggregate"]).toBeDefined();\n});\n'
    reference = 'import { Table } from "@acme/aggregate";\nexport const t = new Table();\n'
    verdict = decide(
        make_failure(
            names=("filesystem", "tests"),
            log=log,
            output={"index.ts": "export const t = scan();\n"},
            expected={"index.ts": reference},
            grader={"grader.test.ts": grader},
        )
    )
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)
    assert verdict.cause == "not-chosen-acme-aggregate"
    assert "install" not in verdict.reasoning + verdict.why


def test_guard_named_in_the_test_title_is_not_certain() -> None:
    output = (
        REFERENCE.replace("ctx.db.insert", "args.n < 0 ? fail() : ctx.db.insert")
        + 'if (n < 0) throw new Error("n must not be negative");\n'
    )
    grader = GRADER + 'test("handles negative numbers", async () => {\n  await call(-1);\n});\n'
    log = vitest_log("handles negative numbers", passed=["lists all items", "adds an item"])
    verdict = judged(output, log, grader=grader)
    assert (verdict.classification, verdict.uncertain) == ("OVERLY_STRICT", True)


def test_reference_code_beside_other_files_is_not_the_same_code() -> None:
    log = vitest_log("lists all items", "adds an item")
    for more in (
        {"output": {"convex/more.ts": "throw 1;\n"}},
        {"expected": {"convex/more.ts": "export const a = 1;\n"}},
    ):
        files = {"convex/index.ts": REFERENCE}
        verdict = decide(
            make_failure(
                log=log,
                output=files | more.get("output", {}),
                expected=files | more.get("expected", {}),
                grader={"grader.test.ts": GRADER},
            )
        )
        assert verdict.cause != "same-code-as-reference"


def test_function_in_another_file_is_not_a_certain_fault() -> None:
    output = {
        "convex/index.ts": REFERENCE.split("export const addItem")[0],
        "convex/more.ts": "export const addItem = 1;\n",
    }
    verdict = decide(
        make_failure(
            log=vitest_log("adds an item", passed=["lists all items"]),
            output=output,
            expected={"convex/index.ts": REFERENCE},
            grader={"grader.test.ts": GRADER},
            task="Write `addItem`.",
        )
    )
    assert verdict.uncertain


def test_missing_name_used_by_a_passed_test_is_no_certain_fault() -> None:
    grader = GRADER + 'test("adds another", async () => {\n  await client.mutation(api.index.addItem, {});\n});\n'
    output = REFERENCE.replace("addItem", "insertItem")
    log = vitest_log("adds an item", passed=["lists all items", "adds another"])
    assert judged(output, log, grader=grader, task="Write `addItem`.").uncertain


def test_missing_name_that_the_failed_test_does_not_use_is_no_certain_fault() -> None:
    output = REFERENCE.replace("addItem", "insertItem")
    log = vitest_log("lists all items", passed=["adds an item"])
    verdict = judged(output, log, task="Write `addItem` and `listAll`.", grader=GRADER.replace("addItem", "any"))
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", True)


def test_grader_file_without_tests_is_ignored() -> None:
    verdict = decide(
        make_failure(
            log=vitest_log("adds an item", passed=["lists all items"]),
            output={"convex/index.ts": REFERENCE + "const a = 1;\n"},
            expected={"convex/index.ts": REFERENCE},
            grader={"helpers.ts": "export const a = 1;\n", "grader.test.ts": GRADER},
        )
    )
    assert verdict.error == "failed tests: adds an item"


def test_static_eval_that_names_only_the_vendor_is_uncertain() -> None:
    grader = 'test("configures acme", () => {\n  expect(deps["@acme/aggregate"]).toBe(1);\n});\ntest("b", () => {});\n'
    verdict = decide(
        make_failure(
            names=("filesystem", "tests"),
            log=vitest_log("configures acme", passed=["b"]),
            output={"index.ts": 'import { C } from "@acme/counter";\nexport const c = new C();\n'},
            expected={"index.ts": 'import { T } from "@acme/aggregate";\nexport const t = new T();\n'},
            grader={"grader.test.ts": grader},
        )
    )
    assert verdict.uncertain


def test_banner_is_not_the_error_if_all_tests_passed() -> None:
    log = vitest_log(passed=["lists all items", "adds an item"]).replace("1 failed (1)", "1 passed (1)")
    assert "RUN" not in judged(REFERENCE + "const a = 1;\n", log).error
