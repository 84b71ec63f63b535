"""Stages that hand on what they are not sure of: over failures with scripted judges, over subjects with models."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from evalscribe.errors import AccessError, UsageError
from evalscribe.ids import content_id
from evalscribe.judging.cascade import FailureCascade, SubjectCascade, first_pass_rubric
from evalscribe.judging.classifier import FirstPass
from evalscribe.judging.rubric_judge import RubricJudge
from evalscribe.judging.rubrics import default_rubric
from evalscribe.judging.rules.engine import ID as RULES
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.judging.subjects import agent_run_subject
from evalscribe.model.cascade import Tag
from evalscribe.model.chat import CallFailed, Reply, Usage
from evalscribe.model.finding import CLASSIFICATIONS, Failure, Unclassified, Verdict
from evalscribe.model.protocols import Estimate, Judge
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import JudgeVariant, Rubric
from evalscribe.model.transcript import AgentRun, AssistantMessage, Transcript, UserMessage
from evalscribe.prompts.templates import Prompts
from support.classifier_failure import QUOTE, make_packed_failure
from support.messages_server import VERDICT
from support.scripted_model import ScriptedModel, text_reply, tool_reply

UNFAIR = Tag(name="unfair", about="the check may be unfair", rubric="unfair-check")
FLAKY = Tag(name="flaky", about="it may pass when run again", rubric="flaky")
SPENT = Usage(calls=1, input_tokens=10)


def verdict(**fields: Any) -> Verdict:
    plain = {key: value for key, value in VERDICT.items() if key not in ("citations", "fix")}
    return Verdict(**{**plain, "judge": "someone", "usage": SPENT} | fields)


class Scripted:
    """A `Judge` that always answers the same and counts how often it was asked."""

    def __init__(self, id: str, answer: Verdict | Unclassified | Exception) -> None:
        self.id = id
        self.asked = 0
        self._answer = answer

    def key(self, case: Failure) -> str:
        return content_id([self.id, case.evidence.digest])

    def estimate(self, case: Failure) -> Estimate:
        return Estimate(input_tokens=100, output_tokens=10, cost_usd=0.1)

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        self.asked += 1
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Rules:
    id = "rules@1"

    def __init__(self, *, uncertain: bool) -> None:
        self._verdict = verdict(judge=self.id, uncertain=uncertain, usage=Usage())

    def key(self, case: Failure) -> str:
        return content_id(self.id)

    def decide(self, case: Failure) -> Verdict:
        return self._verdict


class Kept(dict[str, Verdict | Unclassified]):
    def get_verdict(self, key: str) -> Verdict | Unclassified | None:
        return self.get(key)

    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None:
        self[key] = verdict


SURE = verdict(judge="cheap")
UNSURE = verdict(judge="cheap", uncertain=True, confidence=0.5)
GONE = Unclassified(reason="gone.", judge="dear", usage=SPENT)


def stages(
    first: Verdict | Unclassified, closer: Verdict | Unclassified | Exception | None = None, **options: Any
) -> tuple[FailureCascade, Scripted, Scripted, Scripted]:
    closer = closer or verdict(judge="dear")
    cheap, fair, dear = Scripted("cheap", first), Scripted("fair", closer), Scripted("dear", closer)
    tagged = {"unfair": fair, "flaky": Scripted("flaky", closer)}
    return FailureCascade(cheap, tagged, dear, **options), cheap, fair, dear


async def outcome(cascade: FailureCascade) -> Verdict:
    found = await cascade.judge(make_packed_failure())
    assert isinstance(found, Verdict)
    return found


def test_it_has_the_shape_of_a_judge() -> None:
    cascade, *_ = stages(SURE, rules=RulesJudge())
    shaped: Judge = cascade
    assert shaped.id == f"{RULES} > cheap > dear > fair > flaky"


async def test_certain_rules_ask_nobody() -> None:
    cascade, cheap, _, dear = stages(SURE, rules=Rules(uncertain=False))
    assert (await outcome(cascade)).stage == "rules"
    assert (cheap.asked, dear.asked) == (0, 0)
    assert cascade.estimate(make_packed_failure()) == Estimate()


async def test_a_sure_answer_without_a_tag_stands() -> None:
    cascade, cheap, fair, dear = stages(SURE, rules=Rules(uncertain=True))
    found = await outcome(cascade)
    assert (found.stage, found.judge, found.before) == ("tag", "cheap", Usage())
    assert (cheap.asked, fair.asked, dear.asked) == (1, 0, 0)


async def test_the_first_tag_in_order_decides_by_its_own_rubric() -> None:
    cascade, _, fair, dear = stages(SURE.model_copy(update={"tags": ("flaky", "unfair")}))
    found = await outcome(cascade)
    assert (found.stage, found.tags) == ("judge", ("flaky", "unfair"))
    assert (found.usage, found.before) == (SPENT + SPENT, SPENT)
    assert (fair.asked, dear.asked) == (1, 0)


@pytest.mark.parametrize("first", [UNSURE, Unclassified(reason="broken", judge="cheap", final=True)])
async def test_what_is_unsure_or_broken_goes_to_the_rubric_itself(first: Verdict | Unclassified) -> None:
    cascade, _, fair, dear = stages(first)
    assert (await outcome(cascade)).stage == "judge"
    assert (fair.asked, dear.asked) == (0, 1)


async def test_the_best_known_is_kept_where_nobody_looked_closer() -> None:
    found = await outcome(stages(UNSURE, GONE, rules=Rules(uncertain=True))[0])
    assert (found.judge, found.stage, found.uncertain, found.provisional) == ("cheap", "tag", True, True)
    assert found.reasoning.endswith("Nobody looked closer: gone.")
    refused = GONE.model_copy(update={"judge": "cheap"})
    found = await outcome(stages(refused, GONE, rules=Rules(uncertain=True))[0])
    assert (found.judge, found.stage, found.usage) == ("rules@1", "rules", SPENT + SPENT)
    assert not (await outcome(stages(UNSURE, GONE.model_copy(update={"final": True}))[0])).provisional
    nobody = await stages(refused, GONE)[0].judge(make_packed_failure())
    assert isinstance(nobody, Unclassified)
    assert nobody.usage == SPENT + SPENT


async def test_what_concerns_all_ends_it() -> None:
    with pytest.raises(AccessError):
        await stages(UNSURE, AccessError("no"))[0].judge(make_packed_failure())


async def test_each_stage_is_asked_once() -> None:
    kept = Kept()
    cascade, cheap, _, dear = stages(UNSURE, store=kept)
    assert await cascade.judge(make_packed_failure()) == await cascade.judge(make_packed_failure())
    assert (cheap.asked, dear.asked) == (1, 1)
    again, cheap, _, dear = stages(UNSURE, store=kept, fresh=True)
    await again.judge(make_packed_failure())
    assert (cheap.asked, dear.asked) == (1, 1)


async def test_a_stage_that_failed_is_asked_again() -> None:
    cascade, cheap, _, dear = stages(UNSURE, GONE, store=Kept())
    await cascade.judge(make_packed_failure())
    await cascade.judge(make_packed_failure())
    assert (cheap.asked, dear.asked) == (1, 2)


def test_the_key_is_that_of_every_stage() -> None:
    one, *_ = stages(SURE)
    keys = [
        stages(SURE)[0].key(make_packed_failure()),
        stages(SURE, rules=RulesJudge())[0].key(make_packed_failure()),
        FailureCascade(one.first, {}, one.alone).key(make_packed_failure()),
    ]
    assert one.key(make_packed_failure()) == keys[0]
    assert len(set(keys)) == 3


SUBMITTED = {**VERDICT, "tags": [], "sure": True, "citations": [QUOTE]}


async def first(*replies: Reply | Exception, tags: Sequence[Tag] = (UNFAIR, FLAKY)) -> Verdict | Unclassified:
    return await FirstPass(ScriptedModel(replies, "a/cheap"), Prompts(), default_rubric(), tags).judge(
        make_packed_failure()
    )


async def test_a_proven_answer_of_the_first_pass_is_sure() -> None:
    found = await first(tool_reply(("submit", SUBMITTED)))
    assert isinstance(found, Verdict)
    assert (found.uncertain, found.tags, found.citations[0].status) == (False, (), "verified")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"sure": False}, id="not sure"),
        pytest.param({"citations": []}, id="nothing quoted"),
        pytest.param({"citations": [QUOTE, {**QUOTE, "text": "return n"}]}, id="an invented quotation"),
        pytest.param({"confidence": 0.4}, id="no confidence"),
    ],
)
async def test_a_doubtful_answer_of_the_first_pass_is_uncertain(change: dict[str, Any]) -> None:
    found = await first(tool_reply(("submit", SUBMITTED | change)))
    assert isinstance(found, Verdict)
    assert found.uncertain
    assert found.confidence <= 0.5


async def test_tags_keep_their_order_and_unknown_ones_are_none() -> None:
    found = await first(tool_reply(("submit", SUBMITTED | {"tags": ["flaky", "made-up", "unfair"]})))
    assert isinstance(found, Verdict)
    assert found.tags == ("unfair", "flaky")


@pytest.mark.parametrize(
    ("reply", "final"),
    [
        (text_reply("no", "refusal"), True),
        (text_reply("", "context_exceeded"), True),
        (text_reply("half", "max_tokens"), False),
        (text_reply("It is unfair."), False),
        (tool_reply(("submit", {"classification": "MODEL_FAULT"})), False),
        (CallFailed("gone", Usage(calls=1)), False),
    ],
)
async def test_a_first_pass_that_fails_is_a_reason(reply: Reply | Exception, final: bool) -> None:
    found = await first(reply)
    assert isinstance(found, Unclassified)
    assert (found.final, found.usage) == (final, Usage(calls=1))


async def test_the_first_pass_is_told_every_tag_and_asked_once() -> None:
    model = ScriptedModel([tool_reply(("submit", SUBMITTED))])
    await FirstPass(model, Prompts(), default_rubric(), (UNFAIR, FLAKY)).judge(make_packed_failure())
    (request,) = model.requests
    assert "- `unfair`: the check may be unfair\n- `flaky`: it may pass when run again\n" in request.system
    assert "false positives included" in request.system
    assert "read_lines" not in request.system
    (tool,) = request.tools
    fields = tool.input_schema["properties"]
    assert fields["tags"]["items"]["enum"] == ["unfair", "flaky"]
    assert fields["classification"]["enum"] == list(CLASSIFICATIONS)


def test_only_a_rubric_for_failures_judges_failures() -> None:
    for schema in ({"label": ["a"]}, {"classification": ["MODEL_FAULT", "BAD_LUCK"]}):
        properties = {name: {"type": "string", "enum": labels} for name, labels in schema.items()}
        rubric = Rubric(rubric_text="x", output_schema={"type": "object", "properties": properties}, id="r")
        with pytest.raises(UsageError, match="rubric r judges no failures"):
            FirstPass(ScriptedModel([]), Prompts(), rubric, ())


HELPFUL = Rubric(rubric_text="Is it helpful?", id="helpful", min_citations=0, judge_variant=JudgeVariant.SINGLE)
RUN = AgentRun(
    id="run",
    transcripts=(
        Transcript(messages=(UserMessage(content="What is 2 + 2?"), AssistantMessage(content="It is 5, my friend."))),
    ),
)
SUBJECT = agent_run_subject(RUN)
MATCH = {"label": "match", "explanation": "[T0B1:<RANGE>It is 5</RANGE>]"}


def answers(output: dict[str, Any]) -> Reply:
    return text_reply(f"<response>{json.dumps(output)}</response>", usage=SPENT)


def wrapped(*tags: str, sure: bool = True) -> Reply:
    return answers({"tags": list(tags), "sure": sure, "answer": MATCH})


class Over:
    """A cascade over subjects with scripted models."""

    def __init__(self, cheap: Sequence[Reply | Exception], dear: Sequence[Reply | Exception] = ()) -> None:
        self.cheap, self.dear = ScriptedModel(cheap, "a/cheap"), ScriptedModel(dear, "a/dear")
        tagged = [(tag, HELPFUL.model_copy(update={"id": tag.rubric})) for tag in (UNFAIR, FLAKY)]
        self.cascade = SubjectCascade.of(HELPFUL, tagged, (self.cheap, self.dear), RubricJudge, Prompts())


async def test_a_sure_subject_is_settled_by_one_cheap_call() -> None:
    over = Over([wrapped()])
    found = await over.cascade.judge(SUBJECT)
    (result,) = found.results
    assert (found.stage, found.tags, found.usage) == ("tag", (), SPENT)
    assert (result.output, result.rubric_id, result.judge) == (MATCH, "helpful", "a/cheap")
    assert result.citations.verified == 1
    assert over.dear.requests == []


async def test_an_invented_quotation_is_never_the_last_word() -> None:
    invented = {"label": "match", "explanation": "[T0B1:<RANGE>It is 4</RANGE>]"}
    over = Over([answers({"tags": [], "sure": True, "answer": invented})], [answers(MATCH)])
    assert (await over.cascade.judge(SUBJECT)).stage == "judge"


async def test_each_tag_of_a_subject_has_a_result_of_its_own_rubric() -> None:
    over = Over([wrapped("flaky", "unfair")], [answers(MATCH), answers(MATCH)])
    found = await over.cascade.judge(SUBJECT)
    assert (found.stage, found.tags) == ("judge", ("unfair", "flaky"))
    assert [result.rubric_id for result in found.results] == ["unfair-check", "flaky"]
    assert found.usage == SPENT + SPENT + SPENT


async def test_the_expensive_judge_sees_the_first_answer_as_data() -> None:
    cited = {"label": "no match", "explanation": "[A0:<RANGE>match</RANGE>] is wrong"}
    over = Over([wrapped(sure=False)], [answers(cited)])
    found = await over.cascade.judge(SUBJECT)
    asked = over.dear.requests[0].messages[-1].text
    assert " A0 earlier result" in asked
    assert ", a first pass>" in asked
    assert found.results[0].citations.verified == 1
    assert found.results[0].rubric_id == "helpful"


@pytest.mark.parametrize("broken", [text_reply("no", "refusal"), CallFailed("gone", SPENT)])
async def test_a_failing_first_pass_hands_the_subject_on(broken: Reply | Exception) -> None:
    over = Over([broken], [answers(MATCH)])
    found = await over.cascade.judge(SUBJECT)
    assert (found.stage, found.results[0].judge) == ("judge", "a/dear")
    assert " A0 " not in over.dear.requests[0].messages[-1].text


async def test_an_unsure_answer_is_kept_where_the_expensive_judge_gives_none() -> None:
    found = await Over([wrapped(sure=False)], [text_reply("no", "refusal")]).cascade.judge(SUBJECT)
    (result,) = found.results
    assert (found.stage, result.result_type, result.output) == ("tag", ResultType.DIRECT_RESULT, MATCH)
    assert result.result_metadata
    assert "refused" in result.result_metadata["cascade"]["undecided"]


async def test_a_tag_whose_judge_fails_is_a_failure() -> None:
    found = await Over([wrapped("unfair")], [text_reply("no", "refusal")]).cascade.judge(SUBJECT)
    result: JudgeResult = found.results[0]
    assert (found.stage, result.result_type) == ("judge", ResultType.FAILURE)


def test_a_first_pass_wraps_the_schema_and_keeps_the_prompt() -> None:
    asked = first_pass_rubric(HELPFUL, (UNFAIR,), Prompts())
    assert asked.output_schema["properties"]["answer"] == HELPFUL.output_schema
    assert asked.output_schema["properties"]["tags"]["items"]["enum"] == ["unfair"]
    assert asked.rubric_text.startswith("Is it helpful?\n\n# This is a first pass")
    assert "tags" not in first_pass_rubric(HELPFUL, (), Prompts()).output_schema["properties"]
    assert asked.id == "helpful-first-pass", "what is kept of it is no result of the rubric"
    assert (asked.prompt_templates, asked.n_rollouts_per_input) == (HELPFUL.prompt_templates, 1)


def test_equal_cascades_have_equal_keys() -> None:
    assert Over([]).cascade.key(SUBJECT) == Over([]).cascade.key(SUBJECT)
    other = agent_run_subject(RUN.model_copy(update={"metadata": {"seed": 1}}))
    assert Over([]).cascade.key(SUBJECT) != Over([]).cascade.key(other)
    assert set(Over([]).cascade.estimates(SUBJECT)) == {"tag", "judge"}
