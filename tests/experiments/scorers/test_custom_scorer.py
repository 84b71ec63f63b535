"""`@scorer`: return values, calling conventions and invalid definitions."""

import asyncio
import inspect
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

import evalscribe
from evalscribe.errors import UsageError
from evalscribe.experiments.scorers.custom_scorer import ABOUT, CALL, ScorerContext, parse_result, scorer
from evalscribe.model.score import ScoreResult, ScorerRequest

Scored = tuple[str, float | None, bool | None]
ASKED = {"input": "hello", "output": "good morning", "config": {"word": "morning"}}


def call_scorer(function: Callable[..., object], payload: dict[str, Any] = ASKED) -> ScoreResult:
    """Call the scorer as its host process does."""
    returned = getattr(function, CALL)(payload)

    async def awaited() -> object:
        return await returned

    result_fields = asyncio.run(awaited()) if inspect.isawaitable(returned) else returned
    return ScoreResult.model_validate(json.loads(json.dumps(result_fields)))


@pytest.mark.parametrize(
    ("returned", "scored"),
    [
        pytest.param(True, ("ok", 1.0, True), id="true"),
        pytest.param(False, ("ok", 0.0, False), id="false"),
        pytest.param(0.7, ("ok", 0.7, True), id="at-the-threshold"),
        pytest.param(0.699, ("ok", 0.699, False), id="below"),
        pytest.param(1, ("ok", 1.0, True), id="whole-number"),
        pytest.param(None, ("unscored", None, None), id="none-abstains"),
        pytest.param({"score": 0.4, "passed": True}, ("ok", 0.4, True), id="passed-beats-threshold"),
        pytest.param({"value": 0.9}, ("ok", 0.9, True), id="value"),
        pytest.param({"passed": False, "label": "rude"}, ("ok", 0.0, False), id="passed-alone"),
        pytest.param({"status": "unscored", "explanation": "no text"}, ("unscored", None, None), id="says-unscored"),
        pytest.param(ScoreResult(value=0.2, explanation="low"), ("ok", 0.2, False), id="result"),
        pytest.param(
            ScoreResult(status="error", value=0.2, explanation=""), ("error", None, None), id="error-no-value"
        ),
        pytest.param(1.0001, ("error", None, None), id="beyond"),
        pytest.param(-0.1, ("error", None, None), id="negative"),
        pytest.param(math.nan, ("error", None, None), id="nan"),
        pytest.param(math.inf, ("error", None, None), id="infinite"),
        pytest.param("good", ("error", None, None), id="text"),
        pytest.param([1], ("error", None, None), id="list"),
        pytest.param({}, ("error", None, None), id="says-nothing"),
        pytest.param({"value": True}, ("error", None, None), id="value-no-number"),
        pytest.param({"passed": 1}, ("error", None, None), id="passed-no-bool"),
        pytest.param({"value": 1, "score": 1}, ("error", None, None), id="twice"),
        pytest.param({"pass": True}, ("error", None, None), id="unknown-key"),
        pytest.param({"passed": True, "metadata": {"x": math.nan}}, ("error", None, None), id="nan-inside"),
        pytest.param({"passed": True, "evidence": object()}, ("error", None, None), id="no-json"),
        pytest.param({"status": "great", "passed": True}, ("error", None, None), id="unknown-status"),
    ],
)
def test_returned_value_becomes_a_score_or_an_error(returned: object, scored: Scored) -> None:
    result = parse_result(returned)
    assert (result.status, result.value, result.passed) == scored
    assert result.explanation.strip()
    assert (result.error_type is not None) == (result.status == "error")


def test_error_names_the_returned_type_or_unknown_key() -> None:
    assert "it returned str; it must return a ScoreResult, a bool" in parse_result("x").explanation
    assert "'pass'; keys: status, value, score, passed" in parse_result({"pass": 1}).explanation


def test_scorer_accepts_one_or_two_arguments_sync_or_async() -> None:
    @scorer
    def one(request: ScorerRequest) -> bool:
        return request.output == "good morning"

    @scorer(name="two", config={"word": "evening"})
    def two(ctx: ScorerContext, request: ScorerRequest) -> float:
        return float(str(ctx.config["word"]) in str(request.output) and ctx.scorer == "two")

    @scorer(name="later", threshold=0.3)
    async def later(request: ScorerRequest) -> float:
        await asyncio.sleep(0)
        return 0.4

    @scorer(name="behind")
    def behind(request: ScorerRequest) -> object:
        async def say() -> bool:
            return True

        return say()

    assert [call_scorer(each).passed for each in (one, two, later, behind)] == [True, True, True, True]
    assert one(ScorerRequest(input=1, output=2)) is False, "it stays callable as it is"


def test_function_receives_peer_scores_and_trace() -> None:
    @scorer(depends_on=("json_valid",))
    def after(request: ScorerRequest) -> dict[str, Any]:
        peer = request.peer_scores["json_valid"]
        return {"passed": peer.passed, "label": str(request.trace and request.trace.tokens)}

    peer = ScoreResult(value=1, passed=True, explanation="it is").model_dump(mode="json")
    result = call_scorer(after, {**ASKED, "peer_scores": {"json_valid": peer}, "trace": {"tokens": 7}})
    assert (result.passed, result.label) == (True, "7")
    about = getattr(after, ABOUT)
    assert (about["name"], about["depends_on"]) == ("after", ["json_valid"])


def test_exception_of_the_function_propagates() -> None:
    @scorer
    def broken(request: ScorerRequest) -> bool:
        raise KeyError("nobody")

    with pytest.raises(KeyError):
        call_scorer(broken)


@pytest.mark.parametrize("scope", ["run", "trace", "span", "session", "fleet_run"])
def test_scopes_other_than_item_are_refused(scope: str) -> None:
    with pytest.raises(UsageError, match="a scorer sees one item of a run"):
        scorer(scope=scope)


def test_function_with_wrong_parameters_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\(request\) or \(ctx, request\)"):

        @scorer
        def three(a: object, b: object, c: object) -> bool:
            return True


def test_package_exports_scorer_and_score_result() -> None:
    assert evalscribe.scorer is scorer
    assert evalscribe.ScoreResult is ScoreResult
