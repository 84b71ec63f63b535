"""Which target an experiment tries, out of the options that name it."""

from collections.abc import Callable

from evalscribe.app.experiments.desk import ExperimentDesk
from evalscribe.deployment import Component, Deployment
from evalscribe.errors import NotFoundError, UsageError
from evalscribe.experiment import ComponentTarget, JudgeTarget, PromptTarget, Target
from evalscribe.ids import Frozen
from evalscribe.judging.classifier.labels import DEFAULT as FAILURE
from evalscribe.rubric import Rubric
from evalscribe.settings.providers import PROVIDERS
from evalscribe.target_prompt import TargetPrompt, TargetPromptVersion

TYPES = ("component", "deployment", "prompt", "judge")
"""`deployment` is another word for `component`."""
JUDGES = ("rules", "cascade")
"""Those that are no model."""
FindRubric = Callable[[str], Rubric]
"""The stored version that `NAME` or `NAME@V` means. Raises `EvalscribeError` where there is none."""


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
    desk: ExperimentDesk, asked: TargetAsked, rubric: FindRubric, before: Target | None = None
) -> Target:
    """`before`: the target that a new version has otherwise; what it says of the same type need not be said again.

    Raises `UsageError` naming the option that is missing or wrong, `NotFoundError` for what is not there.
    """
    type = asked.type or (before.type if before else None)
    if type is None:
        raise UsageError("an experiment needs a target: --target-type component, prompt or judge")
    if type not in TYPES:
        raise UsageError(f"--target-type {type!r} is none of {', '.join(TYPES)}")
    if type == "prompt":
        return _prompt(desk, asked, before if isinstance(before, PromptTarget) else None)
    if type == "judge":
        return _judge(asked, rubric, before if isinstance(before, JudgeTarget) else None)
    return _component(desk, asked, before if isinstance(before, ComponentTarget) else None)


def deployment_named(desk: ExperimentDesk, named: str) -> Deployment:
    """Raises `NotFoundError` naming what there is."""
    if found := desk.definitions.deployment(named):
        return found
    there = ", ".join(one.name or one.id for one in desk.definitions.deployments()[-5:])
    hint = f"there is: {there}" if there else "`evalscribe deployments create` makes one"
    raise NotFoundError(f"there is no deployment {named!r}; {hint}")


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
    _refuse_others(asked, "component", ("prompt_id", "prompt_version_id", "judge", "rubric"))
    named = asked.deployment_id or (before.deployment_id if before else None)
    if named is None:
        raise UsageError("a component has to be deployed: --deployment-id ID, of `evalscribe deployments create`")
    deployment = deployment_named(desk, named)
    name = asked.component_name or (before.component.name if before else None)
    return ComponentTarget(deployment_id=deployment.id, component=component_of(deployment, name, asked.component_type))


def _prompt(desk: ExperimentDesk, asked: TargetAsked, before: PromptTarget | None) -> PromptTarget:
    _refuse_others(asked, "prompt", ("deployment_id", "component_name", "component_type", "judge", "rubric"))
    named = asked.prompt_id or (before.prompt_id if before else None)
    if named is None:
        raise UsageError("which prompt? --prompt-id ID, of `evalscribe prompts create`")
    prompt = desk.definitions.prompt(named)
    if prompt is None:
        there = ", ".join(one.name for one in desk.definitions.prompts()[-5:])
        hint = f"there is: {there}" if there else "`evalscribe prompts create` makes one"
        raise NotFoundError(f"there is no prompt {named!r}; {hint}")
    return PromptTarget(prompt_id=prompt.id, version=_prompt_version(prompt, asked.prompt_version_id))


def _prompt_version(prompt: TargetPrompt, named: str | None) -> TargetPromptVersion:
    """By id or number; the latest where none is named."""
    if named is None:
        return prompt.versions[-1]
    found = next((one for one in prompt.versions if named in (one.id, str(one.number))), None)
    if found is None:
        there = ", ".join(f"{one.number} ({one.id})" for one in prompt.versions)
        raise NotFoundError(f"prompt {prompt.name} has no version {named!r}; there is: {there}")
    return found


def _judge(asked: TargetAsked, rubric: FindRubric, before: JudgeTarget | None) -> JudgeTarget:
    others = ("deployment_id", "component_name", "component_type", "prompt_id", "prompt_version_id")
    _refuse_others(asked, "judge", others)
    judge = asked.judge or (before.judge if before else None)
    if judge is None:
        raise UsageError("which judge? --judge rules, cascade or PROVIDER/MODEL")
    provider, _, model = judge.partition("/")
    if judge not in JUDGES and (provider not in PROVIDERS or not model):
        raise UsageError(f"--judge {judge!r} is none of rules, cascade, or PROVIDER/MODEL of {', '.join(PROVIDERS)}")
    found = rubric(asked.rubric or (before.rubric if before else FAILURE))
    return JudgeTarget(judge=judge, rubric=f"{found.id}@{found.version}")


def _refuse_others(asked: TargetAsked, type: str, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(asked, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} has no meaning for --target-type {type}")
