"""Parsing of target replies and envelopes."""

import pytest

from evalscribe.experiments.targets import parse_output, parse_reply
from evalscribe.model.target import TargetFailure, TargetReply


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        "",
        "text",
        [1],
        {},
        {"outputs": 1},
        {"output": 1, "other": 2},
        {"error": "none found"},
        {"messages": []},
    ],
)
def test_value_without_envelope_keys_is_the_output(value: object) -> None:
    reply = parse_reply(value)
    assert isinstance(reply, TargetReply)
    assert reply.output == value


def test_output_that_looks_like_an_envelope_is_kept_inside_an_envelope() -> None:
    reply = parse_reply({"output": {"output": 1}})
    assert isinstance(reply, TargetReply)
    assert reply.output == {"output": 1}


def test_envelope_error_fails_the_trial_and_keeps_the_transcript() -> None:
    reply = parse_reply({"output": None, "error": "gave\nup", "messages": [{"role": "user", "content": "hi"}]})
    assert isinstance(reply, TargetFailure)
    assert reply.reason == "gave up"
    assert reply.transcript
    assert reply.transcript.messages[0].content == "hi"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"output": 1, "messages": "hi"}, "`messages` is not a list"),
        ({"output": 1, "messages": [{"role": "robot"}]}, "unknown role"),
        ({"output": 1, "state": []}, "`state` is not an object"),
        ({"output": 1, "usage": {"input_tokens": "many"}}, "`usage.input_tokens`"),
        ({"output": 1, "usage": {"tokens": 1}}, "`usage.tokens`"),
        ({"output": 1, "usage": {"cost_usd": -0.01}}, "`usage.cost_usd` is not between 0 and"),
        ({"output": 1, "usage": {"cost_usd": 1e308}}, "`usage.cost_usd` is not between 0 and"),
        ({"output": 1, "usage": {"input_tokens": 2**63}}, "`usage.input_tokens` is not between 0 and"),
        ({"output": 1, "model": 3}, "`model` is not text"),
    ],
)
def test_invalid_envelope_fails_the_trial_naming_the_field(value: object, message: str) -> None:
    failed = parse_reply(value)
    assert isinstance(failed, TargetFailure)
    assert message in failed.reason


def test_hostile_answers_are_refused_or_sanitised_for_storage() -> None:
    deep: object = []
    for _ in range(200):
        deep = [deep]
    assert isinstance(parse_reply(deep), TargetFailure)
    reply = parse_reply({"a": "\ud800\0"}, log="\0\ud800")
    assert isinstance(reply, TargetReply)
    reply.model_dump_json()
    assert "\0" not in reply.log


@pytest.mark.parametrize("text", ["NaN", "1e999", '{"a": 1, "a": 2}', "[" * 5000, "[1", "", "0x1"])
def test_invalid_or_nonstandard_json_is_parsed_as_text(text: str) -> None:
    assert parse_output(text + "\n") == text
