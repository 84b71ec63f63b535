"""The rubric judge: requests, stored results, limits and long subjects."""

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import AccessError
from evalscribe.judging.prompt_text import estimate_tokens
from evalscribe.judging.rubric_judge import RubricJudge
from evalscribe.judging.subjects import agent_run_subject
from evalscribe.llm.anthropic import AnthropicModel
from evalscribe.model.chat import CallFailed, Reply, Request, Usage
from evalscribe.model.result import ResultType
from evalscribe.model.rubric import JudgeVariant
from evalscribe.model.transcript import AgentRun, Transcript, UserMessage
from evalscribe.prompts.templates import Prompts
from evalscribe.store.collections import CollectionStore, open_collections
from support.judge_panel import RUN, USAGE, Panelists, answer, output, rubric, subject
from support.messages_server import MessagesServer, failure
from support.messages_server import says as server_says
from support.scripted_model import ScriptedModel, text_reply

LONG = AgentRun(
    transcripts=(Transcript(messages=tuple(UserMessage(content=f"step {n}: " + "so on. " * 300) for n in range(30))),)
)
KEY = "k" * 40


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[CollectionStore]:
    shelf = open_collections(tmp_path / "store")
    yield shelf
    shelf.close()


def judge(model: Panelists, shelf: CollectionStore | None = None, **options: Any) -> RubricJudge:
    return RubricJudge(rubric(), model, results=shelf, **options)


def failing_then(reply: Reply) -> Panelists:
    return Panelists([CallFailed("overloaded", USAGE), reply])


async def test_single_answer_gives_a_direct_result() -> None:
    right_judge = judge(Panelists([answer()]))
    result = await right_judge(RUN)
    assert result.result_type is ResultType.DIRECT_RESULT
    assert (result.output, result.reason) == (output(), None)
    assert (result.citations.verified, result.citations.unverified) == (1, 0)
    assert (result.rubric_id, result.rubric_version, result.agent_run_id) == ("right", 1, "run-1")
    assert (result.usage, result.judge, result.confidence) == (USAGE, "scripted/panel", None)
    assert result.id.startswith("sha256:")
    assert right_judge.id == "scripted/panel with right@1"


async def test_citations_are_counted_by_status() -> None:
    quoted = "[T0B1:<RANGE>France is Paris</RANGE>] [T0B0:<RANGE>France is Paris</RANGE>]"
    why = f"{quoted} [T0B1:<RANGE>London</RANGE>] [T7B7]"
    result = await judge(Panelists([answer(why=why)])).judge(subject())
    counts = result.citations
    assert (counts.verified, counts.relocated, counts.unverified) == (1, 1, 2)


# Stored results.


async def test_stored_result_is_reused_by_another_judge(shelf: CollectionStore) -> None:
    model = Panelists([answer("fail")])
    first = await judge(model, shelf).judge(subject())
    assert await judge(Panelists(), shelf).judge(subject()) == first


async def test_concurrent_equal_questions_are_asked_once(shelf: CollectionStore) -> None:
    shared_judge = judge(Panelists([answer("fail")]), shelf)
    first, second = await asyncio.gather(shared_judge(RUN), shared_judge(RUN))
    assert first == second


async def test_concurrent_equal_questions_are_all_asked_without_a_store() -> None:
    with MessagesServer(server_says(answer().text)) as server:
        server.gather(3)
        model = AnthropicModel("claude-x", KEY, server.url)
        shared_judge = RubricJudge(rubric(), model)
        await asyncio.gather(shared_judge(RUN), shared_judge(RUN), shared_judge(RUN))
        await model.close()
    assert (len(server.calls), server.peak) == (3, 3)


async def test_stored_result_takes_the_ids_of_the_current_request(shelf: CollectionStore) -> None:
    first = await judge(Panelists([answer()]), shelf)(RUN)
    renamed = RubricJudge(rubric(id="other", version=3), Panelists(), results=shelf)
    again = await renamed(RUN.model_copy(update={"id": "run-2"}))
    assert (again.rubric_id, again.rubric_version, again.agent_run_id) == ("other", 3, "run-2")
    assert (again.id, again.output) == (first.id, first.output)


async def test_fresh_asks_again_and_stores_the_new_answer(shelf: CollectionStore) -> None:
    await judge(Panelists([answer("fail")]), shelf).judge(subject())
    await judge(Panelists([answer("pass")]), shelf, fresh=True).judge(subject())
    assert (await judge(Panelists(), shelf).judge(subject())).output == output("pass")


async def test_different_answer_to_the_same_question_gets_another_result_id(shelf: CollectionStore) -> None:
    first = await judge(Panelists([answer("fail")]), shelf).judge(subject())
    fresh = await judge(Panelists([answer("pass")]), shelf, fresh=True).judge(subject())
    assert first.id != fresh.id
    assert (await judge(Panelists(), shelf).judge(subject())).id == fresh.id


async def test_temporary_failure_is_not_stored(shelf: CollectionStore) -> None:
    model = failing_then(answer())
    assert (await judge(model, shelf).judge(subject())).reason == "overloaded"
    assert (await judge(model, shelf).judge(subject())).output == output()


async def test_refusal_is_stored(shelf: CollectionStore) -> None:
    refused = await judge(Panelists([text_reply(stop="refusal", usage=USAGE)]), shelf).judge(subject())
    assert refused.result_type is ResultType.FAILURE
    assert await judge(Panelists(), shelf).judge(subject()) == refused


async def test_access_error_stores_nothing(shelf: CollectionStore) -> None:
    with pytest.raises(AccessError):
        await judge(Panelists([AccessError("no key")]), shelf).judge(subject())
    assert (await judge(Panelists([answer()]), shelf).judge(subject())).output == output()


def test_key_depends_on_everything_that_affects_the_answer() -> None:
    model, other_model = Panelists(), Panelists()
    other_model.id = "scripted/other"
    other_run = agent_run_subject(AgentRun(transcripts=(Transcript(messages=(UserMessage(content="Hello"),)),)))
    keys = {
        judge(model).key(subject()),
        judge(model, max_tokens=1000).key(subject()),
        judge(other_model).key(subject()),
        judge(model).key(other_run),
        RubricJudge(rubric(n_rollouts_per_input=3), model).key(subject()),
        RubricJudge(rubric(judge_variant=JudgeVariant.MULTI_REFLECT), model).key(subject()),
        RubricJudge(rubric(rubric_text="Was it wrong?"), model).key(subject()),
        RubricJudge(rubric(min_citations=1), model).key(subject()),
    }
    assert len(keys) == 8
    same = [
        judge(model, timeout_s=60.0, fresh=True, observer=other_model),
        RubricJudge(rubric(id="x", version=2), model),
    ]
    assert {one.key(subject()) for one in same} == {judge(model).key(subject())}


def test_key_of_a_long_subject_depends_on_the_observer() -> None:
    model, reader = Panelists(context_tokens=30_000), Panelists(context_tokens=30_000)
    reader.id = "scripted/reader"
    long = agent_run_subject(LONG)
    assert judge(model).key(long) != judge(model, observer=reader).key(long)


# Limits.


async def test_call_can_override_the_token_limit() -> None:
    model = Panelists([answer(), answer()])
    await judge(model)(RUN, max_new_tokens=500, timeout=None)
    await judge(model, max_tokens=700).judge(subject())
    assert [request.max_tokens for request in model.requests] == [500, 700]


async def test_rollout_beyond_its_time_limit_is_a_failure() -> None:
    class Hanging(Panelists):
        async def complete(self, request: Request, on_text: object = None) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError

    result = await judge(Hanging())(RUN, timeout=0.02)
    assert (result.result_type, result.reason) == (ResultType.FAILURE, "no answer within 0.02 s")


async def test_reasoning_effort_is_taken_from_the_rubric() -> None:
    model = Panelists([answer()])
    option = {"provider": "anthropic", "model_name": "claude-x", "reasoning_effort": "low"}
    await RubricJudge(rubric(judge_model=option), model)(RUN)
    assert model.requests[0].effort == "low"


def test_an_estimate_counts_every_rollout_of_every_stage() -> None:
    model, price = Panelists(), lambda usage: usage.input_tokens / 1000

    def estimated(**fields: Any) -> Any:
        return RubricJudge(rubric(**fields), model, cost=price).estimate(subject())

    one, three = estimated(), estimated(n_rollouts_per_input=3)
    both = estimated(n_rollouts_per_input=3, judge_variant=JudgeVariant.MULTI_REFLECT)
    assert 100 < one.input_tokens < 1000
    assert (three.input_tokens, three.output_tokens) == (3 * one.input_tokens, 3 * one.output_tokens)
    assert both.input_tokens > 2 * three.input_tokens
    assert three.cost_usd == pytest.approx(three.input_tokens / 1000)
    assert judge(model).estimate(subject()).cost_usd is None


# Subjects beyond the window.


def observes(request: Request) -> Reply:
    payload = {"observations": ["It goes on for long [T0B3:<RANGE>step 3: so on.</RANGE>]."]}
    return text_reply(f"<response>{json.dumps(payload)}</response>", usage=USAGE)


async def test_long_subject_is_judged_by_the_observations_of_its_parts() -> None:
    reader = Panelists([observes] * 50, context_tokens=20_000)
    model = Panelists([answer(why="On and on [T0B3:<RANGE>step 3: so on.</RANGE>].")], context_tokens=22_000)
    result = await judge(model, observer=reader)(LONG)
    assert result.output["label"] == "pass"
    assert result.citations.verified == 1
    assert len(reader.requests) > 1
    assert result.usage.calls == len(reader.requests) + 1
    assert result.result_metadata is not None
    assert result.result_metadata["read_in_parts"] == len(reader.requests)
    assert result.result_metadata["gaps"] == []
    (question,) = model.requests[0].messages
    assert "It goes on for long" in question.text
    assert len(question.text) < 22_000
    assert judge(model).estimate(agent_run_subject(LONG)).input_tokens > 20_000


async def test_subject_is_read_in_parts_if_the_real_window_is_smaller_than_stated() -> None:
    too_long = text_reply(stop="context_exceeded", usage=Usage())
    reader = Panelists([observes] * 50, context_tokens=20_000)
    model = Panelists([too_long, answer(why="[T0B3]")])
    result = await judge(model, observer=reader)(LONG)
    assert result.output == output(why="[T0B3]")
    assert result.result_metadata is not None
    assert result.result_metadata["read_in_parts"] == len(reader.requests) > 1
    whole, shorter = (len(request.messages[0].text) for request in model.requests)
    assert shorter < whole / 2


def real_window(tokens: int) -> ScriptedModel:
    """Return a model whose real window is smaller than stated and cannot hold its observations."""

    def step(request: Request) -> Reply:
        text = request.messages[0].text
        if estimate_tokens(text) > tokens:
            return text_reply(stop="context_exceeded", usage=Usage())
        if "You read part" not in text and "Several readers" not in text:
            return answer(why="[T0B3]")
        seen = re.findall(r"T0B\d+(?= role)", text) or re.findall(r"\[(T0B\d+)\]", text)[::3]
        lines = [f"It goes on [{mark}] {'and on ' * 100}" for mark in seen]
        return text_reply(f"<response>{json.dumps({'observations': lines})}</response>", usage=USAGE)

    return ScriptedModel(repeat(step), context_tokens=200_000)


async def test_observations_are_merged_until_they_fit_and_each_part_is_read_once() -> None:
    model = real_window(3_000)
    result = await RubricJudge(rubric(), model, max_tokens=1_000)(LONG)
    assert result.output == output(why="[T0B3]")
    prompts = [request.messages[0].text for request in model.requests]
    judged = [estimate_tokens(text) for text in prompts if "You read" not in text and "Several readers" not in text]
    assert len(judged) > 2
    assert judged == sorted(judged, reverse=True)
    assert judged[-1] <= 3_000 < judged[-2]
    read = [text for text in prompts if "You read part" in text and estimate_tokens(text) <= 3_000]
    assert len({text.partition("The part you read")[2] for text in read}) == len(read)
    assert result.usage.calls == sum(estimate_tokens(text) <= 3_000 for text in prompts)


async def test_prompt_too_long_for_one_rollout_is_shortened_for_all() -> None:
    too_long = text_reply(stop="context_exceeded", usage=Usage())
    reader = Panelists([observes] * 50, context_tokens=20_000)
    panel = Panelists([too_long, answer()], [CallFailed("overloaded", USAGE), answer()])
    result = await RubricJudge(rubric(n_rollouts_per_input=2), panel, observer=reader)(LONG)
    assert (result.confidence, result.usage.calls) == (1.0, len(reader.requests) + 3)


async def test_window_that_includes_the_answer_is_found_in_at_most_five_failed_calls() -> None:
    """The server counts `max_tokens` towards the window, which is a quarter of what is stated."""

    def step(request: Request) -> Reply:
        text = request.messages[0].text
        if estimate_tokens(text) + request.max_tokens > 8_192:
            return text_reply(stop="context_exceeded", usage=Usage())
        return observes(request) if "You read part" in text else answer(why="[T0B3]")

    for run in (RUN, LONG):
        model = ScriptedModel(repeat(step), context_tokens=32_768)
        result = await RubricJudge(rubric(), model)(run)
        assert result.output == output(why="[T0B3]")
        assert len(model.requests) - result.usage.calls <= 5


async def test_small_window_limits_the_answer_to_leave_room_for_the_question() -> None:
    model = Panelists([answer()], context_tokens=8_192)
    assert (await judge(model)(RUN)).output == output()
    assert model.requests[0].max_tokens == 4_096
    read = ScriptedModel(repeat(lambda request: observes(request)), context_tokens=4_096)
    shorter = Panelists([answer(why="[T0B3]")], context_tokens=4_096)
    assert (await judge(shorter, observer=read)(LONG)).citations.verified == 1


async def test_workspace_template_is_used_to_read_a_subject_and_changes_its_key(
    tmp_path: Path, shelf: CollectionStore
) -> None:
    templates = tmp_path / "prompts" / "judging"
    templates.mkdir(parents=True)
    (templates / "observe.md.j2").write_text("You read part {{ number }}, as we like it. {{ part }}")
    own = Prompts(tmp_path)
    reader = Panelists([observes] * 50, context_tokens=20_000)
    own_judge = judge(Panelists([answer()], context_tokens=22_000), shelf, observer=reader, prompts=own)
    await own_judge(LONG)
    assert all("as we like it" in request.messages[0].text for request in reader.requests)
    shipped = judge(Panelists(context_tokens=22_000), observer=reader)
    long, short = agent_run_subject(LONG), subject()
    assert own_judge.key(long) != shipped.key(long)
    assert own_judge.key(short) == shipped.key(short)


async def test_result_read_with_another_template_is_not_reused(tmp_path: Path, shelf: CollectionStore) -> None:
    too_long = text_reply(stop="context_exceeded", usage=Usage())
    reader = Panelists([observes] * 50)
    await judge(Panelists([too_long, answer("fail")]), shelf, observer=reader)(LONG)
    assert (await judge(Panelists(), shelf)(LONG)).output["label"] == "fail"
    (tmp_path / "prompts" / "judging").mkdir(parents=True)
    (tmp_path / "prompts" / "judging" / "observe.md.j2").write_text("You read part {{ number }}: {{ part }}")
    model, own = Panelists([too_long, answer("pass")]), Prompts(tmp_path)
    assert (await judge(model, shelf, observer=reader, prompts=own)(LONG)).output["label"] == "pass"


async def test_subject_that_stays_too_long_is_a_stored_failure(shelf: CollectionStore) -> None:
    too_long = text_reply(stop="context_exceeded", usage=Usage())
    model = Panelists([too_long] * 20)
    result = await judge(model, shelf, observer=Panelists([observes] * 50))(LONG)
    assert (result.result_type, result.reason) == (ResultType.FAILURE, "the subject is too long for the model")
    assert await judge(Panelists(), shelf)(LONG) == result
    assert len(model.requests) < 8
    assert (await judge(Panelists([too_long] * 20))(RUN)).reason == "the subject is too long for the model"


async def test_subject_that_cannot_be_read_is_a_failure_with_its_usage() -> None:
    reader = Panelists([CallFailed("overloaded", USAGE)] * 50, context_tokens=20_000)
    result = await judge(Panelists(context_tokens=22_000), observer=reader)(LONG)
    assert result.result_type is ResultType.FAILURE
    assert result.reason is not None
    assert "overloaded" in result.reason
    assert result.usage.calls == len(reader.requests)


async def test_a_rubric_that_fills_the_window_is_a_failure() -> None:
    model = Panelists(context_tokens=16_500)
    endless = rubric(rubric_text="Was it right? " * 3_000)
    result = await RubricJudge(endless, model)(RUN)
    assert result.reason == "the rubric leaves no room for a subject in the model's window"
    assert model.requests == []


# Against a provider.


async def test_invalid_answer_is_corrected_in_a_conversation_with_a_provider() -> None:
    bad, good = server_says("It passed."), server_says(answer("fail").text)
    with MessagesServer([bad, good]) as server:
        model = AnthropicModel("claude-x", KEY, server.url)
        result = await RubricJudge(rubric(), model)(RUN)
        await model.close()
    assert result.output == output("fail")
    assert (result.judge, result.usage.calls, result.usage.input_tokens) == ("anthropic/claude-x", 2, 2000)
    second = server.calls[1].body["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[1]["content"] == [{"type": "text", "text": "It passed."}]


async def test_provider_error_is_a_failure_of_the_subject() -> None:
    with MessagesServer(failure(400, "invalid_request_error", "odd input")) as server:
        model = AnthropicModel("claude-x", KEY, server.url)
        result = await RubricJudge(rubric(), model)(RUN)
        await model.close()
    assert result.result_type is ResultType.FAILURE
    assert result.reason is not None
    assert "odd input" in result.reason


async def test_refused_key_raises_one_access_error_for_all_rollouts() -> None:
    with MessagesServer(failure(401, "authentication_error", "bad key")) as server:
        model = AnthropicModel("claude-x", KEY, server.url)
        with pytest.raises(AccessError):
            await RubricJudge(rubric(n_rollouts_per_input=5), model)(RUN)
        await model.close()
