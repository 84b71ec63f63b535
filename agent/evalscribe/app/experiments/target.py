"""Which target an experiment tries, out of the options that name it."""

from collections.abc import Callable

from evalscribe.app import deployments
from evalscribe.app.experiment_desk import ExperimentDesk
from evalscribe.app.named import LATEST
from evalscribe.app.target_prompts import prompt_named, version_of
from evalscribe.cascade import CascadeParts
from evalscribe.deployment import Component, Deployment
from evalscribe.errors import UsageError
from evalscribe.experiment import ComponentTarget, JudgeTarget, PromptTarget, Target
from evalscribe.ids import Frozen
from evalscribe.judging.failure_rubric import DEFAULT as FAILURE
from evalscribe.rubric import Rubric
from evalscribe.settings.providers import PROVIDERS

OPTIONS = {
    "component": ("deployment_id", "component_name", "component_type"),
    "prompt": ("prompt_id", "prompt_version_id"),
    "judge": ("judge", "rubric"),
}
"""By type of target, the options that are about it."""
OTHER_WORDS = {"deployment": "component"}
CASCADE = "cascade"
JUDGES = ("rules", CASCADE)
"""Those that are no model."""
FindRubric = Callable[[str], Rubric]
"""The stored version that `NAME` or `NAME@V` means. Raises `EvalscribeError` where there is none."""

FindCascade = Callable[[Rubric], CascadeParts]
"""What a cascade by this rubric is made of, as things are set now. Raises `EvalscribeError` for a tag without one."""


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


def resolved_target(
    desk: ExperimentDesk,
    asked: TargetAsked,
    rubric: FindRubric,
    before: Target | None = None,
    *,
    cascade: FindCascade | None = None,
) -> Target:
    """`before`: the target that a new version has otherwise; what it says of the same type need not be said again, and
    its cascade stays what it was unless one is asked for.

    Raises `UsageError` naming the option that is missing or wrong, `NotFoundError` for what is not there.
    """
    named = asked.type or (before.type if before else None)
    if named is None:
        raise UsageError("an experiment needs a target: --target-type component, prompt or judge")
    type = OTHER_WORDS.get(named, named)
    if type not in OPTIONS:
        raise UsageError(f"--target-type {named!r} is none of {', '.join((*OPTIONS, *OTHER_WORDS))}")
    _refuse_others(asked, type)
    if type == "prompt":
        return _prompt(desk, asked, before if isinstance(before, PromptTarget) else None)
    if type == "judge":
        return _judge(asked, rubric, before if isinstance(before, JudgeTarget) else None, cascade)
    return _component(desk, asked, before if isinstance(before, ComponentTarget) else None)


def component_of(deployment: Deployment, name: str | None, type: str | None) -> Component:
    """The component of that name and type. Raises `UsageError` naming the option and what there is."""
    found = deployment.component(name) if name else _only(deployment)
    there = ", ".join(f"{one.name} ({one.type})" for one in deployment.components)
    if found is None:
        raise UsageError(f"--component-name {name!r} is none of deployment {deployment.id}; there is: {there}")
    if type is not None and type != found.type:
        raise UsageError(
            f"--component-type {type!r}: component {found.name} of {deployment.id} is of type {found.type}"
        )
    return found


def _only(deployment: Deployment) -> Component:
    if len(deployment.components) == 1:
        return deployment.components[0]
    there = ", ".join(one.name for one in deployment.components)
    raise UsageError(f"which component? --component-name NAME, of: {there}")


def _component(desk: ExperimentDesk, asked: TargetAsked, before: ComponentTarget | None) -> ComponentTarget:
    named = asked.deployment_id or (before.deployment_id if before else None)
    if named is None:
        raise UsageError("a component has to be deployed: --deployment-id ID, of `evalscribe deployments create`")
    deployment = deployments.found(desk.definitions, named)
    name = asked.component_name or (before.component.name if before else None)
    return ComponentTarget(deployment_id=deployment.id, component=component_of(deployment, name, asked.component_type))


def _prompt(desk: ExperimentDesk, asked: TargetAsked, before: PromptTarget | None) -> PromptTarget:
    named = asked.prompt_id or (before.prompt_id if before else None)
    if named is None:
        raise UsageError("which prompt? --prompt-id ID, of `evalscribe prompts create`")
    prompt = prompt_named(desk.definitions, named)
    return PromptTarget(prompt_id=prompt.id, version=version_of(prompt, asked.prompt_version_id or LATEST))


def _judge(
    asked: TargetAsked, rubric: FindRubric, before: JudgeTarget | None, cascade: FindCascade | None
) -> JudgeTarget:
    judge = asked.judge or (before.judge if before else None)
    if judge is None:
        raise UsageError("which judge? --judge rules, cascade or PROVIDER/MODEL")
    provider, _, model = judge.partition("/")
    if judge not in JUDGES and (provider not in PROVIDERS or not model):
        raise UsageError(f"--judge {judge!r} is none of rules, cascade, or PROVIDER/MODEL of {', '.join(PROVIDERS)}")
    found = rubric(asked.rubric or (before.rubric if before else FAILURE))
    parts = before.cascade if before and asked.judge is None else None
    if judge == CASCADE and parts is None and cascade is not None:
        parts = cascade(found)
    return JudgeTarget(judge=judge, rubric=f"{found.id}@{found.version}", cascade=parts)


def _refuse_others(asked: TargetAsked, type: str) -> None:
    """Options of targets of another type."""
    for of, names in OPTIONS.items():
        for name in names:
            if of != type and getattr(asked, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} has no meaning for --target-type {type}")
