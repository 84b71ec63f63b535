"""Fields that an interface returns but the task never mentions."""

from evalscribe.model.finding import Verdict
from support.rules_failure import decide, make_failure, vitest_log

REFERENCE = """\
export const pages = query({
  args: { opts: optsValidator },
  returns: v.object({
    page: v.array(v.string()),
    isDone: v.boolean(),
    continueCursor: v.string(),
    splitCursor: v.optional(v.string()),
  }),
  handler: async (ctx, args) => ctx.db.query("posts").paginate(args.opts),
});
"""
LACKING = REFERENCE.replace("    splitCursor: v.optional(v.string()),\n", "")
OTHERWISE = REFERENCE.replace("v.optional(v.string())", "v.string()")
TASK = "Write `pages` with a returns validator."


def judged(output: str, *, step: str = "tests", task: str = TASK, reference: str = REFERENCE, log: str = "") -> Verdict:
    return decide(
        make_failure(
            step,
            log=log or vitest_log("returns a page", passed=["other"]),
            task=task,
            output={"index.ts": output},
            expected={"index.ts": reference},
            grader={"grader.test.ts": 'test("returns a page", async () => {});\n'},
        )
    )


def typed(message: str) -> str:
    return f"[error] deploy: Error: Failed to deploy:\nindex.ts:9:3 - error TS2719: {message}\n"


def test_field_that_only_the_interface_has_is_an_uncertain_known_gap() -> None:
    verdict = judged(LACKING)
    assert (verdict.classification, verdict.uncertain) == ("KNOWN_GAP", True)
    assert "splitCursor" in verdict.why


def test_error_that_names_the_field_makes_the_known_gap_certain() -> None:
    log = typed("Types of property 'splitCursor' are incompatible.")
    verdict = judged(OTHERWISE, step="deploy", log=log)
    assert (verdict.classification, verdict.uncertain) == ("KNOWN_GAP", False)


def test_unrelated_error_is_no_known_gap() -> None:
    verdict = judged(LACKING, step="deploy", log=typed("Type 'string' is not assignable to type 'number'."))
    assert verdict.classification == "MODEL_FAULT"


def test_field_named_in_the_task_is_no_known_gap() -> None:
    assert judged(LACKING, task=TASK + " It has `splitCursor`.").classification == "MODEL_FAULT"


def test_field_built_by_the_reference_is_no_known_gap() -> None:
    reference = REFERENCE + "export const one = { splitCursor: null };\n"
    assert judged(LACKING, reference=reference).classification == "MODEL_FAULT"


def test_field_of_a_table_definition_is_no_known_gap() -> None:
    schema = REFERENCE.replace("returns: v.object", "people: defineTable")
    output = LACKING.replace("returns: v.object", "people: defineTable")
    assert judged(output, reference=schema).classification == "MODEL_FAULT"


def test_field_inside_a_printed_type_does_not_count_as_named() -> None:
    message = (
        "Type '{ isDone: boolean; splitCursor: string; }' does not fit.\n  Types of property 'page' are incompatible."
    )
    assert judged(OTHERWISE, step="deploy", log=typed(message)).classification == "MODEL_FAULT"
