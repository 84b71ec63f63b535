"""Which target an experiment tries, out of the options that name it."""

from evalscribe.app import deployments
from evalscribe.app.experiments.judge_target import cascade_parts
from evalscribe.app.judging.builder import CASCADE
from evalscribe.app.named import LATEST
from evalscribe.app.rubrics import stored
from evalscribe.app.target_prompts import prompt_named, version_of
from evalscribe.errors import UsageError
from evalscribe.ids import Frozen
from evalscribe.judging.rubrics import DEFAULT_RUBRIC as FAILURE
from evalscribe.model.experiment import ComponentTarget, JudgeTarget, PromptTarget, TargetSpec
from evalscribe.settings.access import PROVIDERS
from evalscribe.workspace import Workspace

OPTIONS = {
    "component": ("deployment_id", "component_name", "component_type"),
    "prompt": ("prompt_id", "prompt_version_id"),
    "judge": ("judge", "rubric"),
}
"""By type of target, the options that are about it."""
OTHER_WORDS = {"deployment": "component"}
JUDGES = ("rules", CASCADE)
"""Those that are no model."""


class TargetAsked(Frozen):
    """Options that name a target; None is what was not said."""

    type: str | None = None
    deployment_id: str | None = None
    component_name: str | None = None
    component_type: str | None = None
    prompt_id: str | None = None
    prompt_version_id: str | None = None
    judge: str | None = None
    rubric: str | None = None

    @property
    def said(self) -> bool:
        return any(value is not None for value in self.model_dump().values())


def resolved_target(workspace: Workspace, asked: TargetAsked, before: TargetSpec | None = None) -> TargetSpec:
    """The target that these options name.

    Args:
        workspace: Where builds, prompts and rubrics are.
        asked: The options.
        before: The target that a new version has otherwise. What it says of the same type need not be said again, and
            its cascade stays what it was unless one is asked for.

    Raises:
        UsageError: An option is missing or wrong.
        NotFoundError: Something named is not there.
    """
    named = asked.type or (before.type if before else None)
    if named is None:
        raise UsageError("an experiment needs a target: --target-type component, prompt or judge")
    type = OTHER_WORDS.get(named, named)
    if type not in OPTIONS:
        raise UsageError(f"--target-type {named!r} is none of {', '.join((*OPTIONS, *OTHER_WORDS))}")
    _refuse_others(asked, type)
    if type == "prompt":
        return _prompt(workspace, asked, before if isinstance(before, PromptTarget) else None)
    if type == "judge":
        return _judge(workspace, asked, before if isinstance(before, JudgeTarget) else None)
    return _component(workspace, asked, before if isinstance(before, ComponentTarget) else None)


def _component(workspace: Workspace, asked: TargetAsked, before: ComponentTarget | None) -> ComponentTarget:
    named = asked.deployment_id or (before.deployment_id if before else None)
    if named is None:
        raise UsageError("a component has to be deployed: --deployment-id ID, of `evalscribe deployments create`")
    deployment = deployments.found(workspace.store.experiments, named)
    name = asked.component_name or (before.component.name if before else None)
    return ComponentTarget(
        deployment_id=deployment.id, component=deployments.component_of(deployment, name, asked.component_type)
    )


def _prompt(workspace: Workspace, asked: TargetAsked, before: PromptTarget | None) -> PromptTarget:
    named = asked.prompt_id or (before.prompt_id if before else None)
    if named is None:
        raise UsageError("which prompt? --prompt-id ID, of `evalscribe prompts create`")
    prompt = prompt_named(workspace.store.experiments, named)
    return PromptTarget(prompt_id=prompt.id, version=version_of(prompt, asked.prompt_version_id or LATEST))


def _judge(workspace: Workspace, asked: TargetAsked, before: JudgeTarget | None) -> JudgeTarget:
    judge = asked.judge or (before.judge if before else None)
    if judge is None:
        raise UsageError("which judge? --judge rules, cascade or PROVIDER/MODEL")
    provider, _, model = judge.partition("/")
    if judge not in JUDGES and (provider not in PROVIDERS or not model):
        raise UsageError(f"--judge {judge!r} is none of rules, cascade, or PROVIDER/MODEL of {', '.join(PROVIDERS)}")
    found = stored(
        workspace.store.collections, workspace.prompts, asked.rubric or (before.rubric if before else FAILURE)
    )
    parts = before.cascade if before and asked.judge is None else None
    if judge == CASCADE and parts is None:
        parts = cascade_parts(workspace, found)
    return JudgeTarget(judge=judge, rubric=f"{found.id}@{found.version}", cascade=parts)


def _refuse_others(asked: TargetAsked, type: str) -> None:
    """Options of targets of another type."""
    for of, names in OPTIONS.items():
        for name in names:
            if of != type and getattr(asked, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} has no meaning for --target-type {type}")
