"""Cascades pass uncertain answers to the next stage, for failures and for subjects."""

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


class VerdictMap(dict[str, Verdict | Unclassified]):
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
    judgement = await cascade.judge(make_packed_failure())
    assert isinstance(judgement, Verdict)
    return judgement


def test_failure_cascade_is_a_judge_and_lists_its_stages_in_its_id() -> None:
    cascade, *_ = stages(SURE, rules=RulesJudge())
    shaped: Judge = cascade
    assert shaped.id == f"{RULES} > cheap > dear > fair > flaky"


async def test_certain_rules_verdict_needs_no_model() -> None:
    cascade, cheap, _, dear = stages(SURE, rules=Rules(uncertain=False))
    assert (await outcome(cascade)).stage == "rules"
    assert (cheap.asked, dear.asked) == (0, 0)
    assert cascade.estimate(make_packed_failure()) == Estimate()


async def test_certain_first_answer_without_tags_is_final() -> None:
    cascade, cheap, fair, dear = stages(SURE, rules=Rules(uncertain=True))
    judgement = await outcome(cascade)
    assert (judgement.stage, judgement.judge, judgement.before) == ("tag", "cheap", Usage())
    assert (cheap.asked, fair.asked, dear.asked) == (1, 0, 0)


async def test_first_tag_in_configured_order_selects_the_judge() -> None:
    cascade, _, fair, dear = stages(SURE.model_copy(update={"tags": ("flaky", "unfair")}))
    judgement = await outcome(cascade)
    assert (judgement.stage, judgement.tags) == ("judge", ("flaky", "unfair"))
    assert (judgement.usage, judgement.before) == (SPENT + SPENT, SPENT)
    assert (fair.asked, dear.asked) == (1, 0)


@pytest.mark.parametrize("first", [UNSURE, Unclassified(reason="broken", judge="cheap", final=True)])
async def test_uncertain_or_failed_first_pass_goes_to_the_expensive_judge(first: Verdict | Unclassified) -> None:
    cascade, _, fair, dear = stages(first)
    assert (await outcome(cascade)).stage == "judge"
    assert (fair.asked, dear.asked) == (0, 1)


async def test_best_earlier_verdict_is_used_when_later_stages_fail() -> None:
    judgement = await outcome(stages(UNSURE, GONE, rules=Rules(uncertain=True))[0])
    assert (judgement.judge, judgement.stage, judgement.uncertain, judgement.provisional) == (
        "cheap",
        "tag",
        True,
        True,
    )
    assert judgement.reasoning.endswith("Nobody looked closer: gone.")
    refused = GONE.model_copy(update={"judge": "cheap"})
    judgement = await outcome(stages(refused, GONE, rules=Rules(uncertain=True))[0])
    assert (judgement.judge, judgement.stage, judgement.usage) == ("rules@1", "rules", SPENT + SPENT)
    assert not (await outcome(stages(UNSURE, GONE.model_copy(update={"final": True}))[0])).provisional
    nobody = await stages(refused, GONE)[0].judge(make_packed_failure())
    assert isinstance(nobody, Unclassified)
    assert nobody.usage == SPENT + SPENT


async def test_access_error_ends_the_cascade() -> None:
    with pytest.raises(AccessError):
        await stages(UNSURE, AccessError("no"))[0].judge(make_packed_failure())


async def test_stored_answers_are_reused_unless_fresh() -> None:
    verdict_map = VerdictMap()
    cascade, cheap, _, dear = stages(UNSURE, store=verdict_map)
    assert await cascade.judge(make_packed_failure()) == await cascade.judge(make_packed_failure())
    assert (cheap.asked, dear.asked) == (1, 1)
    again, cheap, _, dear = stages(UNSURE, store=verdict_map, fresh=True)
    await again.judge(make_packed_failure())
    assert (cheap.asked, dear.asked) == (1, 1)


async def test_failed_stage_is_asked_again() -> None:
    cascade, cheap, _, dear = stages(UNSURE, GONE, store=VerdictMap())
    await cascade.judge(make_packed_failure())
    await cascade.judge(make_packed_failure())
    assert (cheap.asked, dear.asked) == (1, 2)


def test_cascade_key_depends_on_every_stage() -> None:
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


async def test_first_pass_answer_with_a_verified_citation_is_certain() -> None:
    judgement = await first(tool_reply(("submit", SUBMITTED)))
    assert isinstance(judgement, Verdict)
    assert (judgement.uncertain, judgement.tags, judgement.citations[0].status) == (False, (), "verified")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"sure": False}, id="not sure"),
        pytest.param({"citations": []}, id="nothing quoted"),
        pytest.param({"citations": [QUOTE, {**QUOTE, "text": "return n"}]}, id="an invented quotation"),
        pytest.param({"confidence": 0.4}, id="no confidence"),
    ],
)
async def test_doubtful_first_pass_answer_is_uncertain(change: dict[str, Any]) -> None:
    judgement = await first(tool_reply(("submit", SUBMITTED | change)))
    assert isinstance(judgement, Verdict)
    assert judgement.uncertain
    assert judgement.confidence <= 0.5


async def test_tags_are_put_in_configured_order_and_unknown_ones_dropped() -> None:
    judgement = await first(tool_reply(("submit", SUBMITTED | {"tags": ["flaky", "made-up", "unfair"]})))
    assert isinstance(judgement, Verdict)
    assert judgement.tags == ("unfair", "flaky")


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
async def test_failed_first_pass_leaves_the_failure_unclassified(reply: Reply | Exception, final: bool) -> None:
    judgement = await first(reply)
    assert isinstance(judgement, Unclassified)
    assert (judgement.final, judgement.usage) == (final, Usage(calls=1))


async def test_first_pass_prompt_lists_every_tag_and_is_sent_once() -> None:
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


def test_rubric_without_the_failure_labels_is_refused() -> None:
    for schema in ({"label": ["a"]}, {"classification": ["MODEL_FAULT", "BAD_LUCK"]}):
        properties = {name: {"type": "string", "enum": labels} for name, labels in schema.items()}
        rubric = Rubric(rubric_text="x", output_schema={"type": "object", "properties": properties}, id="r")
        with pytest.raises(UsageError, match="rubric r does not judge failures"):
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


async def test_certain_subject_costs_one_cheap_call() -> None:
    over = Over([wrapped()])
    judgement = await over.cascade.judge(SUBJECT)
    (result,) = judgement.results
    assert (judgement.stage, judgement.tags, judgement.usage) == ("tag", (), SPENT)
    assert (result.output, result.rubric_id, result.judge) == (MATCH, "helpful", "a/cheap")
    assert result.citations.verified == 1
    assert over.dear.requests == []


async def test_invented_quotation_sends_the_subject_to_the_expensive_judge() -> None:
    invented = {"label": "match", "explanation": "[T0B1:<RANGE>It is 4</RANGE>]"}
    over = Over([answers({"tags": [], "sure": True, "answer": invented})], [answers(MATCH)])
    assert (await over.cascade.judge(SUBJECT)).stage == "judge"


async def test_each_tag_of_a_subject_gets_a_result_from_its_rubric() -> None:
    over = Over([wrapped("flaky", "unfair")], [answers(MATCH), answers(MATCH)])
    judgement = await over.cascade.judge(SUBJECT)
    assert (judgement.stage, judgement.tags) == ("judge", ("unfair", "flaky"))
    assert [result.rubric_id for result in judgement.results] == ["unfair-check", "flaky"]
    assert judgement.usage == SPENT + SPENT + SPENT


async def test_the_expensive_judge_sees_the_first_answer_as_data() -> None:
    cited = {"label": "no match", "explanation": "[A0:<RANGE>match</RANGE>] is wrong"}
    over = Over([wrapped(sure=False)], [answers(cited)])
    judgement = await over.cascade.judge(SUBJECT)
    prompt_text = over.dear.requests[0].messages[-1].text
    assert " A0 earlier result" in prompt_text
    assert ", a first pass>" in prompt_text
    assert judgement.results[0].citations.verified == 1
    assert judgement.results[0].rubric_id == "helpful"


@pytest.mark.parametrize("broken", [text_reply("no", "refusal"), CallFailed("gone", SPENT)])
async def test_failed_first_pass_passes_the_subject_to_the_expensive_judge(broken: Reply | Exception) -> None:
    over = Over([broken], [answers(MATCH)])
    judgement = await over.cascade.judge(SUBJECT)
    assert (judgement.stage, judgement.results[0].judge) == ("judge", "a/dear")
    assert " A0 " not in over.dear.requests[0].messages[-1].text


async def test_uncertain_answer_is_kept_when_the_expensive_judge_refuses() -> None:
    judgement = await Over([wrapped(sure=False)], [text_reply("no", "refusal")]).cascade.judge(SUBJECT)
    (result,) = judgement.results
    assert (judgement.stage, result.result_type, result.output) == ("tag", ResultType.DIRECT_RESULT, MATCH)
    assert result.result_metadata
    assert "refused" in result.result_metadata["cascade"]["undecided"]


async def test_failed_judge_of_a_tag_gives_a_failure_result() -> None:
    judgement = await Over([wrapped("unfair")], [text_reply("no", "refusal")]).cascade.judge(SUBJECT)
    result: JudgeResult = judgement.results[0]
    assert (judgement.stage, result.result_type) == ("judge", ResultType.FAILURE)


def test_first_pass_rubric_wraps_the_output_schema_and_keeps_the_prompt() -> None:
    first_pass = first_pass_rubric(HELPFUL, (UNFAIR,), Prompts())
    assert first_pass.output_schema["properties"]["answer"] == HELPFUL.output_schema
    assert first_pass.output_schema["properties"]["tags"]["items"]["enum"] == ["unfair"]
    assert first_pass.rubric_text.startswith("Is it helpful?\n\n# This is a first pass")
    assert "tags" not in first_pass_rubric(HELPFUL, (), Prompts()).output_schema["properties"]
    assert first_pass.id == "helpful-first-pass", "what is kept of it is no result of the rubric"
    assert (first_pass.prompt_templates, first_pass.n_rollouts_per_input) == (HELPFUL.prompt_templates, 1)


def test_equal_cascades_have_equal_keys() -> None:
    assert Over([]).cascade.key(SUBJECT) == Over([]).cascade.key(SUBJECT)
    other = agent_run_subject(RUN.model_copy(update={"metadata": {"seed": 1}}))
    assert Over([]).cascade.key(SUBJECT) != Over([]).cascade.key(other)
    assert set(Over([]).cascade.estimates(SUBJECT)) == {"tag", "judge"}
