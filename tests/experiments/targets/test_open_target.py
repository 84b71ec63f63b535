"""Opening the target of an experiment version."""

from pathlib import Path

import pytest

from evalscribe.errors import EvalscribeError, NotFoundError, UsageError
from evalscribe.experiments.worker import open_target
from evalscribe.model.experiment import (
    ComponentTarget,
    ExperimentConfig,
    ExperimentVersion,
    JudgeTarget,
    PromptTarget,
    TargetSpec,
)
from evalscribe.model.target import (
    Component,
    Deployment,
    TargetCall,
    TargetFailure,
    TargetMessage,
    TargetPromptVersion,
    TargetReply,
)
from evalscribe.workspace import Workspace
from support.scripted_model import ScriptedModel, text_reply


class OneModel:
    """`Models` fake with one prepared answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def open(self, name: str, stage: str) -> ScriptedModel:
        self.asked.append((name, stage))
        return ScriptedModel([text_reply("four")])

    def spent(self) -> dict[str, object]:
        return {}

    async def close(self) -> None:
        return None


def version(target: TargetSpec) -> ExperimentVersion:
    return ExperimentVersion(
        id="exv-1",
        experiment_id="exp-1",
        number=1,
        target=target,
        dataset_id="ds-1",
        dataset_version_id="dsv-1",
        bindings=(),
        config=ExperimentConfig(),
        created_at="",
    )


def built(folder: Path, *components: Component) -> Deployment:
    return Deployment(id="dep-1", components=components, folder=str(folder), created_at="")


async def target_answer(
    target: TargetSpec, deployment: Deployment | None, models: OneModel | None = None
) -> TargetReply | TargetFailure:
    call = TargetCall(run_id="r", item_key="k", repetition=1, input={"n": 2})
    with Workspace() as workspace:
        opened = await open_target(workspace, version(target), deployment, models or OneModel(), 2)  # type: ignore[arg-type]
        answer = await opened.answer(call)
        await opened.close()
    return answer


async def target_reply(
    target: TargetSpec, deployment: Deployment | None, models: OneModel | None = None
) -> TargetReply:
    reply = await target_answer(target, deployment, models)
    assert isinstance(reply, TargetReply), reply
    return reply


ECHO = Component(name="echo", kind="cmd", address="cat")


async def test_component_is_taken_from_the_given_deployment(tmp_path: Path) -> None:
    (tmp_path / "candidate.py").write_text("def echo(input): return [input]")
    target = ComponentTarget(deployment_id="dep-0", component=ECHO)
    candidate = Component(name="echo", kind="python", address="candidate:echo")
    assert (await target_reply(target, built(tmp_path, ECHO))).output == {"n": 2}
    assert (await target_reply(target, built(tmp_path, candidate))).output == [{"n": 2}]


async def test_prompt_target_calls_the_model_of_its_prompt() -> None:
    models = OneModel()
    prompt = TargetPromptVersion(
        id="pv-1",
        prompt_id="prompt-1",
        number=1,
        model="anthropic/m",
        messages=(TargetMessage(role="user", content="{{input.n}}+{{input.n}}"),),
        created_at="",
    )
    assert (await target_reply(PromptTarget(prompt_id="prompt-1", version=prompt), None, models)).output == "four"
    assert models.asked == [("anthropic/m", "target")]


@pytest.mark.parametrize(
    ("component_names", "error", "message"),
    [
        (None, NotFoundError, "deployment dep-0"),
        (("other",), UsageError, "has no component echo; components of the deployment: other"),
        (("echo", "gone"), NotFoundError, "no longer exists"),
    ],
)
async def test_missing_deployment_component_or_folder_is_refused(
    tmp_path: Path, component_names: tuple[str, ...] | None, error: type[EvalscribeError], message: str
) -> None:
    deployment = None
    if component_names:
        folder = tmp_path / "gone" if "gone" in component_names else tmp_path
        deployment = built(folder, *(ECHO.model_copy(update={"name": name}) for name in component_names))
    with pytest.raises(error, match=message):
        await target_reply(ComponentTarget(deployment_id="dep-0", component=ECHO), deployment)


async def test_judge_target_requires_evidence_in_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = await target_answer(JudgeTarget(judge="rules", rubric="failure"), None)
    assert isinstance(answer, TargetFailure)
    assert "not the evidence of a failed eval: evidence: Field required" in answer.reason
