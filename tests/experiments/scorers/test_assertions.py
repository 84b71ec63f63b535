"""structured_assertions: expression language, limits and scores."""

from typing import Any

import pytest

from evalscribe.errors import UsageError
from evalscribe.experiments.scorers.catalogue import scorer_spec

OUTPUT = {
    "status": "done",
    "score": 0.5,
    "count": 3,
    "items": [1, 2, 2.5],
    "names": ["a", "b"],
    "mixed": [1, True, 1.0],
    "ok": True,
    "nothing": None,
    "order-id": {"0": "x"},
    "wide": {"a": [{"b": 7}]},
}


def config(*expressions: str, **more: Any) -> dict[str, Any]:
    assertions = [{"name": f"n{number}", "expr": text} for number, text in enumerate(expressions)]
    return {"assertions": assertions, **more}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ('output.status == "done"', True),
        ('output.status != "done"', False),
        ("output.count == 3.0", True),
        ("output.ok == 1", False),
        ("output.ok", True),
        ("!output.ok", False),
        ("!!output.ok", True),
        ("output.count > 2 && output.count >= 3 && output.count < 4 && output.count <= 3", True),
        ('output.status < "e"', True),
        ("output.count < -1", False),
        ("output.ok || output.absent == 1", True),
        ("!output.ok && output.absent == 1", False),
        ("output.ok || output.ok && !output.ok", True),
        ("(output.ok || output.ok) && !output.ok", False),
        ("!(output.count == 3)", False),
        ("output.nothing == null", True),
        ("is_null(output.nothing)", True),
        ("has(output.nothing) && !has(output.absent) && !has(output.items.7)", True),
        ("size(output.items) == 3 && size(output.status) == 4 && size(output) == 10", True),
        ("unique(output.items)", True),
        ("unique(output.mixed)", False),
        ("all(output.items, is_number)", True),
        ("all(output.mixed, is_number)", False),
        ("any(output.mixed, is_boolean)", True),
        ("any(output.names, is_object)", False),
        ("is_string(output.status) && is_array(output.names) && is_object(output.wide)", True),
        ("is_number(output.ok)", False),
        ('output.order-id.0 == "x"', True),
        ("output.wide.a.0.b == input.want", True),
        ("output.count == expected", True),
        ('input.quote == "say \\"hi\\" \\u00e9"', True),
        ("output.score == 5e-1", True),
    ],
)
async def test_assertion_expressions_evaluate_as_expected(scored: Any, expression: str, holds: bool) -> None:
    result = await scored(
        "structured_assertions", config(expression), output=OUTPUT, expected=3, input={"want": 7, "quote": 'say "hi" é'}
    )
    assert (result.status, result.passed) == ("ok", holds), result.explanation


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("output.absent == 1", "assertion n0: the output has no absent"),
        ("output.items.9 == 1", "items of the output has no 9; it is a list of 3"),
        ("output.status.x == 1", "status of the output has no x"),
        ("output.status > 3", "text and a number have no order"),
        ("output.ok > false", "a boolean and a boolean have no order"),
        ("output.status && true", "expected true or false"),
        ("output.count", "expected true or false"),
        ("size(output.count) > 1", "a number has no size"),
        ("unique(output.status)", "unique needs a list"),
        ("all(output.wide, is_string)", "all needs a list"),
        ("expected == 3", "the item has no expected output"),
    ],
)
async def test_unevaluable_assertion_is_an_input_error(scored: Any, expression: str, message: str) -> None:
    result = await scored("structured_assertions", config("output.ok", expression), output=OUTPUT)
    assert (result.status, result.error_type, result.passed) == ("error", "input_error", None)
    assert message.replace("n0", "n1") in result.explanation


async def test_score_is_the_share_of_assertions_that_hold(scored: Any) -> None:
    three = config("output.ok", "output.count == 3", "output.count == 4")
    result = await scored("structured_assertions", three, output=OUTPUT)
    assert (result.value, result.passed) == (pytest.approx(2 / 3), False)
    assert result.explanation == "does not hold: n2: output.count == 4 (output.count is 3)"
    assert result.metadata["assertions"] == {"n0": True, "n1": True, "n2": False}
    assert result.evidence == [{"name": "n2", "holds": False, "read": {"output.count": 3}}]
    assert (await scored("structured_assertions", {**three, "score_threshold": 0.6}, output=OUTPUT)).passed


async def test_fields_are_read_from_json_text(scored: Any) -> None:
    assert (await scored("structured_assertions", config("output.a == 1"), output='{"a": 1}')).passed
    plain = await scored("structured_assertions", config("output.a == 1"), output="a is 1")
    assert plain.error_type == "input_error"


async def test_unused_missing_fields_are_ignored(scored: Any) -> None:
    more = config("output == 1", input_field="input.absent", expected_field="expected.absent")
    assert (await scored("structured_assertions", more, output=1)).passed


async def test_paths_are_relative_to_the_configured_fields(scored: Any) -> None:
    more = config("output.b == expected", output_field="output.wide.a.0", expected_field="metadata.gold")
    assert (await scored("structured_assertions", more, output=OUTPUT, metadata={"gold": 7})).passed


async def test_output_over_one_mebibyte_is_an_input_error(scored: Any) -> None:
    result = await scored("structured_assertions", config("size(output) > 1"), output="x" * 2**20)
    assert result.error_type == "input_error"
    assert (await scored("structured_assertions", config("size(output) > 1"), output="x" * (2**20 - 2))).passed


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "is invalid at character 1: expected a value, but found the end"),
        ("output.a ==", "is invalid at character 12: expected a value, but found the end"),
        ("output.a == 1 output.b", "is invalid at character 15: expected an operator or the end, but found output.b"),
        ("output.a = 1", "cannot be parsed at character 10: = 1"),
        ("output[0] == 1", "cannot be parsed at character 7"),
        ("output.a + 1 == 2", "cannot be parsed at character 10"),
        ("output.a == 'x'", "cannot be parsed at character 13"),
        ('output.a == "x', "cannot be parsed at character 13"),
        ("1 < 2 < 3", "is invalid at character 7: expected an operator or the end, but found <"),
        (
            "result.a == 1",
            "is invalid at character 1: result.a is neither a path nor a function; paths begin with input, output or "
            "expected; functions are size",
        ),
        ("matches(output.a)", "is invalid at character 1: matches is neither a path nor a function; paths begin"),
        ("size output.a", "is invalid at character 6: expected (, but found output.a"),
        ("all(output.a, is_odd)", "is invalid at character 15: expected one of is_string"),
        ("has(3)", "expected a path"),
        ("(output.a", "expected ), but found the end"),
        ("output.a.", "is invalid at character 1: output.a. is neither"),
        ("output.a == 01x", "cannot be parsed"),
        ("output.a == 01", "invalid JSON"),
        (" && ".join(["output.ok"] * 66), "has more than 64 operators"),
        ("(" * 33 + "output.ok" + ")" * 33, "is nested more than 32 levels deep"),
        ("!" * 33 + "output.ok", "is nested more than 32 levels deep"),
        ('output == "' + "é" * 2_048 + '"', "is longer than 4096 bytes"),
    ],
)
def test_invalid_expression_is_refused_when_the_spec_is_created(expression: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        scorer_spec("structured_assertions", config("output.ok", expression))
    assert "assertions.1.expr" in str(refused.value)
    assert message in str(refused.value)


def test_expressions_at_the_size_limits_are_accepted() -> None:
    scorer_spec("structured_assertions", config(" && ".join(["output.ok"] * 65)))
    scorer_spec("structured_assertions", config("(" * 32 + "output.ok" + ")" * 32))
    scorer_spec("structured_assertions", config(*["output.ok"] * 64))
    with pytest.raises(UsageError, match="assertions"):
        scorer_spec("structured_assertions", config(*["output.ok"] * 65))
