"""Judge targets: they judge the evidence in an item with the judges and the cache of an analysis."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import JsonValue

from evalscribe.errors import UnavailableError, UsageError
from evalscribe.experiments.trials import BudgetedModels
from evalscribe.experiments.worker import open_target
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.judging.verdicts import JudgingOptions, classify
from evalscribe.model.cascade import CascadeParts
from evalscribe.model.chat import BudgetExceeded, Usage
from evalscribe.model.evidence import EvidenceSnapshot
from evalscribe.model.experiment import ExperimentConfig, ExperimentVersion, JudgeTarget
from evalscribe.model.target import Target, TargetCall, TargetFailure, TargetReply
from evalscribe.settings import Options
from evalscribe.workspace import Workspace
from support.classifier_failure import make_evidence, make_packed_failure
from support.messages_server import VERDICT
from support.rubric_runs import POLITE, RUBRIC, run
from support.scripted_model import ScriptedModel, Step, text_reply, tool_reply

MODEL = "anthropic/claude-x"
FROZEN = EvidenceSnapshot(evidence=make_evidence(), provider="example", model="model-1").written
PAID = Usage(calls=1, input_tokens=10, cost_usd=0.5)


class Models:
    """`Models` fake whose model plays a script."""

    def __init__(self, script: Iterable[Step]) -> None:
        self.model = ScriptedModel(script, MODEL)

    def open(self, name: str, stage: str) -> ScriptedModel:
        assert name == MODEL
        return self.model

    def spent(self) -> dict[str, Usage]:
        return {}

    async def close(self) -> None:
        return None


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "evalscribe.toml").touch()
    (tmp_path / "prompts" / "rubrics").mkdir(parents=True)
    (tmp_path / "prompts" / "rubrics" / "polite.yaml").write_text(RUBRIC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@asynccontextmanager
async def opened(
    judge: str, rubric: str = "failure", models: object | None = None, cascade: CascadeParts | None = None
) -> AsyncIterator[Target]:
    version = ExperimentVersion(
        id="exv-1",
        experiment_id="exp-1",
        number=1,
        target=JudgeTarget(judge=judge, rubric=rubric, cascade=cascade),
        dataset_id="ds-1",
        dataset_version_id="dsv-1",
        bindings=(),
        config=ExperimentConfig(),
        created_at="",
    )
    with Workspace(Options(judge="rules")) as opened:
        target = await open_target(opened, version, None, models or Models([]), 2)  # type: ignore[arg-type]
        yield target
        await target.close()


def call(value: JsonValue = FROZEN, repetition: int = 1, timeout_s: float = 60.0) -> TargetCall:
    return TargetCall(run_id="r", item_key="k", repetition=repetition, input=value, timeout_s=timeout_s)


async def test_rules_target_gives_the_same_verdict_as_the_rules_judge() -> None:
    async with opened("rules") as target:
        reply = await target.answer(call())
    assert isinstance(reply, TargetReply)
    alone = RulesJudge().decide(make_packed_failure())
    assert isinstance(reply.output, dict)
    assert {name: reply.output[name] for name in ("classification", "cause", "cause_kind", "judge", "uncertain")} == {
        name: getattr(alone, name) for name in ("classification", "cause", "cause_kind", "judge", "uncertain")
    }
    assert reply.output["citations"] == {"verified": len(alone.citations), "relocated": 0, "unverified": 0}
    assert reply.model == alone.judge


async def test_verdict_is_cached_per_repetition() -> None:
    models = Models([tool_reply(("submit", VERDICT), usage=PAID)] * 2)
    async with opened(MODEL, models=models) as target:
        first, cached, again = [await target.answer(call(repetition=n)) for n in (1, 1, 2)]
    assert isinstance(first, TargetReply)
    assert isinstance(cached, TargetReply)
    assert first.output == cached.output
    assert [one.usage and one.usage.cost_usd for one in (first, cached, again)] == [0.5, 0, 0.5]
    assert len(models.model.requests) == 2
    text = models.model.requests[0].messages[0].text
    assert "return n + n + 1" in text


async def test_analysis_reuses_the_verdict_cached_by_an_experiment(workspace: Path) -> None:
    async with opened("rules") as target:
        await target.answer(call())
    with Workspace() as stored:
        answer = await classify(
            make_packed_failure(), RulesJudge(), stored.store.analyses, JudgingOptions(timeout_s=None)
        )
    assert answer.cached


async def test_invented_citation_is_counted_as_unverified() -> None:
    made_up = {"role": "output", "path": "twice.py", "first": 1, "last": 1, "text": "nobody wrote this"}
    models = Models([tool_reply(("submit", {**VERDICT, "citations": [made_up]}))] * 9)
    async with opened(MODEL, models=models) as target:
        reply = await target.answer(call())
    assert isinstance(reply, TargetReply), reply
    assert isinstance(reply.output, dict)
    assert reply.output["citations"] == {"verified": 0, "relocated": 0, "unverified": 1}


@pytest.mark.parametrize(
    ("step", "message"),
    [(text_reply("", "refusal", PAID), "refused"), (RuntimeError("a bug"), "the judge broke: RuntimeError: a bug")],
)
async def test_missing_verdict_fails_the_item_with_its_reason(step: Step, message: str) -> None:
    async with opened(MODEL, models=Models([step] * 5)) as target:
        failed = await target.answer(call())
    assert isinstance(failed, TargetFailure)
    assert failed.kind == "error"
    assert message in failed.reason


async def test_hanging_judge_times_out() -> None:
    class Hanging(ScriptedModel):
        async def complete(self, *_: object) -> object:  # type: ignore[override]
            await asyncio.sleep(60)
            return None

    models = Models([])
    models.model = Hanging([], MODEL)
    async with opened(MODEL, models=models) as target:
        failed = await target.answer(call(timeout_s=0.05))
    assert isinstance(failed, TargetFailure)
    assert (failed.kind, failed.reason) == ("timeout", "no verdict within 0.05 s")


async def test_exhausted_budget_raises_instead_of_failing_the_item() -> None:
    models = BudgetedModels(Models([BudgetExceeded("the budget of $1.00 has no room")]))  # type: ignore[arg-type]
    async with opened(MODEL, models=models) as target:
        with pytest.raises(UnavailableError, match="no room: add `budget`"):
            await target.answer(call())


@pytest.mark.parametrize(
    ("judge", "rubric", "value", "message"),
    [
        ("rules", "failure", {"question": "why?"}, "not the evidence of a failed eval: evidence: Field required"),
        ("rules", "failure", "text", "not the evidence of a failed eval"),
        (MODEL, "polite", "text", "not an agent run"),
        (MODEL, "polite", {"agent_run": {"id": "a"}}, "transcripts"),
        (MODEL, "polite", {"evidence": {}, "provider": "p", "model": "m"}, "evidence.eval: Field required"),
    ],
)
async def test_item_without_evidence_or_agent_run_fails_naming_the_problem(
    judge: str, rubric: str, value: JsonValue, message: str
) -> None:
    async with opened(judge, rubric) as target:
        failed = await target.answer(call(value))
    assert isinstance(failed, TargetFailure)
    assert message in failed.reason


@pytest.mark.parametrize("shape", [lambda value: value, lambda value: {"agent_run": value}])
async def test_workspace_rubric_judges_agent_runs_with_its_own_labels(shape: Callable[[JsonValue], JsonValue]) -> None:
    models = Models([text_reply(f"<response>{json.dumps(POLITE)}</response>", usage=PAID)] * 2)
    item = shape(run("run-1"))
    async with opened(MODEL, "polite", models) as target:
        replies = [await target.answer(call(item, repetition)) for repetition in (1, 1, 2)]
    first, *_ = replies
    assert isinstance(first, TargetReply), first
    assert isinstance(first.output, dict)
    assert first.output["label"] == "polite"
    assert [one.usage and one.usage.cost_usd for one in replies] == [0.5, 0, 0.5]
    assert len(models.model.requests) == 2


async def test_rules_judge_refuses_a_rubric_it_cannot_answer() -> None:
    async with opened("rules", "polite") as target:
        with pytest.raises(UsageError, match="the rules cannot judge by polite@1"):
            await target.answer(call())


async def test_cascade_without_recorded_models_is_refused() -> None:
    with pytest.raises(UsageError, match="does not record the models of its cascade"):
        async with opened("cascade"):
            pass


async def test_cascade_uses_the_models_of_the_version_and_not_of_the_settings(workspace: Path) -> None:
    (workspace / "evalscribe.toml").write_text('[cascade]\ntag = "local/other"\njudge = "local/other"\n')
    models = Models([tool_reply(("submit", VERDICT), usage=PAID)] * 2)
    async with opened("cascade", models=models, cascade=CascadeParts(tag=MODEL, judge=MODEL, rules=True)) as target:
        assert isinstance(await target.answer(call()), TargetReply)
