"""The judge against a Messages API on loopback: every failure of the model is bounded and reported."""

from dataclasses import replace
from typing import Any

import pytest

from evalscribe.judging.classifier import InvestigationLimits, ModelJudge
from evalscribe.model.chat import CallFailed
from evalscribe.model.evidence import Citation
from evalscribe.model.finding import Unclassified, Verdict
from evalscribe.prompts.templates import Prompts
from support.classifier_failure import QUOTE, JudgeFailure, make_packed_failure
from support.messages_server import Answer, Call, failure, message, page, says, submit, use
from support.scripted_model import ScriptedModel, Step, tool_reply
from support.scripted_model import text_reply as answers

INVENTED = {**QUOTE, "text": "    return n + n + 2"}


def results(call: Call) -> list[dict[str, Any]]:
    """The tool results that a request ends with."""
    return [block for block in call.body["messages"][-1]["content"] if block["type"] == "tool_result"]


def request_text(call: Call) -> str:
    """The text that a request ends with."""
    return "\n".join(block["text"] for block in call.body["messages"][-1]["content"] if block["type"] == "text")


async def test_valid_first_answer_needs_a_single_call(judged: JudgeFailure) -> None:
    verdict, server = await judged(submit(citations=[QUOTE], fix="", confidence=0.9))
    assert isinstance(verdict, Verdict)
    assert len(server.calls) == 1
    assert (verdict.classification, verdict.cause, verdict.judge) == (
        "MODEL_FAULT",
        "wrong-result",
        "anthropic/claude-opus-5-5",
    )
    assert (verdict.confidence, verdict.uncertain, verdict.fix) == (0.9, False, None)
    assert verdict.citations == (Citation(**QUOTE, status="verified"),)
    assert (verdict.usage.calls, verdict.usage.input_tokens, verdict.usage.output_tokens) == (1, 1000, 100)


async def test_tools_are_served_until_the_verdict(judged: JudgeFailure) -> None:
    reading = use(
        ("list_documents", {}),
        ("read_lines", {"role": "output", "path": "twice.py", "first": 2, "last": 9}),
        ("search", {"text": "RETURN", "role": "any"}),
        ("diff", {"path": "twice.py"}),
    )
    verdict, server = await judged([reading, submit()])
    assert isinstance(verdict, Verdict)
    listed, lines, hits, diff = (result["content"] for result in results(server.calls[1]))
    assert 'grader "test_twice.py" 2 lines' in listed
    assert 'output "twice.py" lines 2 to 2 of 2' in lines
    assert "2|     return n + n + 1\n[the document ends here: it has 2 lines]" in lines
    assert 'expected "answer/twice.py" 2|     return 2 * n' in hits
    assert "1=1| def twice(n):\n-2|     return 2 * n\n+2|     return n + n + 1" in diff
    assert verdict.usage.calls == 2


async def test_invalid_tool_call_gets_an_error_result_saying_why(judged: JudgeFailure) -> None:
    wrong = use(
        ("read_lines", {"role": "output", "path": "../../etc/passwd", "first": 1, "last": 9}),
        ("read_lines", {"role": "output", "path": "twice.py", "first": 2, "last": 1}),
        ("read_lines", {"path": 3}),
        ("run_shell", {"command": "ls"}),
        ("diff", {"path": "none.py"}),
    )
    verdict, server = await judged([wrong, submit()])
    assert isinstance(verdict, Verdict)
    answers = results(server.calls[1])
    assert all(answer["is_error"] for answer in answers)
    assert "no output document" in answers[0]["content"]
    assert "The document has 2 lines" in answers[1]["content"]
    assert "role: Field required" in answers[2]["content"]
    assert "no tool" in answers[3]["content"]


async def test_a_search_that_finds_nothing_says_so(judged: JudgeFailure) -> None:
    _, server = await judged([use(("search", {"text": "nowhere at all", "role": "any"})), submit()])
    assert "no line holds that" in results(server.calls[1])[0]["content"]


async def test_unstorable_characters_are_replaced_in_a_verdict(judged: JudgeFailure) -> None:
    quotation = {**QUOTE, "text": "x\ud800", "path": "p\udfff"}
    verdict, _ = await judged(submit(reasoning="a\ud800b\x00c\u202ed", citations=[quotation]))
    assert isinstance(verdict, Verdict)
    assert verdict.reasoning == "a?b\ufffdc\ufffdd"
    assert verdict.model_dump_json().encode("utf-8")


async def test_every_parallel_tool_call_gets_a_result_but_only_eight_succeed(judged: JudgeFailure) -> None:
    _, server = await judged([use(*[("list_documents", {})] * 30), submit()])
    answers = results(server.calls[1])
    assert len(answers) == 30
    assert [answer["is_error"] for answer in answers] == [False] * 8 + [True] * 22


async def test_a_refusal_is_final(judged: JudgeFailure) -> None:
    outcome, server = await judged(says("", "refusal"))
    assert isinstance(outcome, Unclassified)
    assert ("refused" in outcome.reason, outcome.final, len(server.calls)) == (True, True, 1)
    assert outcome.usage.calls == 1


async def test_prompt_too_long_for_the_model_is_final(judged: JudgeFailure) -> None:
    outcome, _ = await judged(failure(400, "invalid_request_error", "prompt is too long: 1 > 0"))
    assert isinstance(outcome, Unclassified)
    assert ("too long" in outcome.reason, outcome.final) == (True, True)


async def test_overloaded_call_is_retried_until_a_verdict(judged: JudgeFailure) -> None:
    verdict, server = await judged([failure(529), failure(429, retry_after="0.1"), submit()])
    assert isinstance(verdict, Verdict)
    assert len(server.calls) == 3


async def test_permanent_overload_is_given_up_after_three_calls(judged: JudgeFailure) -> None:
    outcome, server = await judged(failure(529))
    assert isinstance(outcome, Unclassified)
    assert ("overloaded" in outcome.reason, outcome.final, len(server.calls)) == (True, False, 3)


async def test_cut_off_answer_is_asked_for_again(judged: JudgeFailure) -> None:
    half = message({"type": "tool_use", "id": "t", "name": "submit", "input": {"cause": "wro"}}, stop="max_tokens")
    verdict, server = await judged([half, submit()])
    assert isinstance(verdict, Verdict)
    assert "cut off" in request_text(server.calls[1])
    assert all(turn["role"] == "user" for turn in server.calls[1].body["messages"]), "half a call is not echoed"


async def test_answer_that_is_always_cut_off_is_given_up_after_three_calls(judged: JudgeFailure) -> None:
    outcome, server = await judged(says("I think that", "max_tokens"))
    assert isinstance(outcome, Unclassified)
    assert ("cut off at 8000 tokens" in outcome.reason, len(server.calls)) == (True, 3)


async def test_paused_turn_is_resumed(judged: JudgeFailure) -> None:
    verdict, server = await judged([says("Wait.", "pause_turn"), submit()])
    assert isinstance(verdict, Verdict)
    assert server.calls[1].body["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "Wait."}]}


async def test_invented_quotation_is_sent_back_once_and_then_marked_unverified(judged: JudgeFailure) -> None:
    verdict, server = await judged(submit(citations=[QUOTE, INVENTED], confidence=0.9))
    assert isinstance(verdict, Verdict)
    assert len(server.calls) == 2
    assert "citations.1: output 'twice.py' holds no such whole lines" in results(server.calls[1])[0]["content"]
    assert [citation.status for citation in verdict.citations] == ["verified", "unverified"]
    assert (verdict.confidence, verdict.uncertain) == (0.9, False)


async def test_verdict_with_only_invented_quotations_is_uncertain(judged: JudgeFailure) -> None:
    verdict, _ = await judged(submit(citations=[INVENTED], confidence=0.9))
    assert isinstance(verdict, Verdict)
    assert (verdict.confidence, verdict.uncertain) == (0.5, True)


async def test_corrected_quotation_is_verified(judged: JudgeFailure) -> None:
    verdict, _ = await judged([submit(citations=[INVENTED]), submit(citations=[QUOTE])])
    assert isinstance(verdict, Verdict)
    assert verdict.citations[0].status == "verified"


async def test_quotation_with_wrong_line_numbers_is_relocated(judged: JudgeFailure) -> None:
    verdict, server = await judged(submit(citations=[{**QUOTE, "first": 1, "last": 1}]))
    assert isinstance(verdict, Verdict)
    assert len(server.calls) == 1
    assert (verdict.citations[0].status, verdict.citations[0].first) == ("relocated", 2)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"classification": "MODELS_FAULT"}, "classification"),
        ({"cause_kind": "weather"}, "cause_kind"),
        ({"confidence": 1.7}, "confidence"),
        ({"confidence": "high"}, "confidence"),
        ({"error": "  "}, "error"),
        ({"cause": "§§"}, "cause"),
        ({"citations": [{"role": "output"}]}, "citations.0.path"),
        ({"extra": 1}, "extra"),
    ],
)
async def test_invalid_field_is_sent_back_by_name(judged: JudgeFailure, fields: Any, named: str) -> None:
    verdict, server = await judged([submit(**fields), submit()])
    assert isinstance(verdict, Verdict)
    answer = results(server.calls[1])[0]
    assert (answer["is_error"], f"\n{named}: " in answer["content"]) == (True, True)


async def test_repeated_unknown_label_is_given_up_after_three_calls(judged: JudgeFailure) -> None:
    outcome, server = await judged(submit(classification="MODELS_FAULT"))
    assert isinstance(outcome, Unclassified)
    assert ("classification" in outcome.reason, len(server.calls)) == (True, 3)


async def test_overlong_why_is_sent_back_once_and_then_truncated(judged: JudgeFailure) -> None:
    verdict, server = await judged(submit(why="word " * 40))
    assert isinstance(verdict, Verdict)
    assert len(server.calls) == 2
    assert len(verdict.why) <= 90
    assert verdict.why.endswith("word…")


async def test_text_without_a_verdict_gets_two_reminders(judged: JudgeFailure) -> None:
    outcome, server = await judged(says("It is MODEL_FAULT."))
    assert isinstance(outcome, Unclassified)
    assert ("gave no verdict" in outcome.reason, len(server.calls)) == (True, 3)
    assert "Call `submit`" in request_text(server.calls[2])


async def test_empty_answer_gets_a_reminder(judged: JudgeFailure) -> None:
    verdict, server = await judged([message(), submit()])
    assert isinstance(verdict, Verdict)
    assert len(server.calls[1].body["messages"]) == 2


async def test_tool_loop_ends_at_the_turn_limit_and_announces_the_last_turn(judged: JudgeFailure) -> None:
    outcome, server = await judged(use(("list_documents", {})), bounds=InvestigationLimits(turns=5))
    assert isinstance(outcome, Unclassified)
    assert "within 5 turns" in outcome.reason
    assert ["last turn" in request_text(call) for call in server.calls] == [False] * 4 + [True]
    assert outcome.usage.calls == 5
    assert not outcome.final


async def test_tool_loop_ends_before_the_token_limit_is_exceeded(judged: JudgeFailure) -> None:
    hungry = message(
        {"type": "tool_use", "id": "t", "name": "list_documents", "input": {}},
        stop="tool_use",
        usage={"input_tokens": 30_000, "output_tokens": 1000},
    )
    outcome, server = await judged(hungry, bounds=InvestigationLimits(tokens=150_000))
    assert isinstance(outcome, Unclassified)
    assert outcome.usage.input_tokens + outcome.usage.output_tokens <= 150_000
    assert "last turn" in request_text(server.calls[-1])


@pytest.mark.parametrize(
    "answer", [page(), Answer(body=b'{"id": "msg'), Answer(cut="reset")], ids=["page", "half", "reset"]
)
async def test_unreadable_response_leaves_the_failure_unclassified(judged: JudgeFailure, answer: Answer) -> None:
    outcome, _ = await judged(answer)
    assert isinstance(outcome, Unclassified)
    assert not outcome.final


async def test_hanging_model_is_given_up_at_the_time_limit(judged: JudgeFailure) -> None:
    outcome, _ = await judged(replace(submit(), held=True), bounds=InvestigationLimits(seconds=0.3))
    assert isinstance(outcome, Unclassified)
    assert outcome.reason == "no verdict within 0.3 s"


async def test_instructions_and_tools_are_the_same_for_every_failure(judged: JudgeFailure) -> None:
    other = make_packed_failure().model_copy(
        update={"evidence": make_packed_failure().evidence.model_copy(update={"missing": ("no log",)})}
    )
    _, one = await judged()
    _, two = await judged(of=other)
    for part in ("system", "tools", "model", "tool_choice", "output_config", "max_tokens"):
        assert one.calls[0].body[part] == two.calls[0].body[part]
    assert one.calls[0].body["messages"] == (await judged())[1].calls[0].body["messages"], "no clock, no chance"


LOOK = tool_reply(("list_documents", {}))


@pytest.mark.parametrize(
    ("script", "forgotten"),
    [
        ([LOOK, answers(), answers(), answers()], 4),
        ([LOOK, *[tool_reply(("submit", {}))] * 3], 4),
        ([LOOK] * 12, 12),
        ([LOOK, CallFailed("no room in the budget")], 0),
        ([LOOK, answers(stop="refusal")], 0),
    ],
    ids=["no verdict", "invalid", "endless", "cut short", "final"],
)
async def test_only_requests_without_a_usable_answer_are_forgotten(script: list[Step], forgotten: int) -> None:
    model = ScriptedModel(script)
    assert isinstance(await ModelJudge(model, Prompts()).judge(make_packed_failure()), Unclassified)
    assert len(model.requests) == len(script)
    assert model.forgotten == model.requests[:forgotten]
