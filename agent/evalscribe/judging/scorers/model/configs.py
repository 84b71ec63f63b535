"""What scorers that ask a model may be told, checked as far as it can be without an item."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from evalscribe.errors import UsageError
from evalscribe.judging.scorers.config import configured
from evalscribe.judging.scorers.fields import Selector
from evalscribe.judging.scorers.kind import Configured
from evalscribe.judging.scorers.model.selectors import TRANSCRIPT, check_name, root_of
from evalscribe.model.rubric import MAX_ROLLOUTS, NonEmptyText

PLACEHOLDER = re.compile(r"\{\{\s*([^{}\s]{1,200})\s*\}\}")
WAYS = ("criteria", "prompt_template", "rubric")
INCLUDES = ("include_input", "include_expected", "include_transcript")


Worth = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ModelConfig(Configured):
    """What all of them share."""

    model: str | None = None
    """`provider/name`; by default the rubric's own model."""
    provider: str | None = None
    """With `model` as a name alone."""
    choice_scores: dict[str, Worth] | None = Field(default=None, min_length=2, max_length=64)
    """What each label is worth."""
    threshold: Worth = 0.7
    """It passes from this value on."""
    samples: int | None = Field(default=None, ge=1, le=MAX_ROLLOUTS)
    """How often the same is asked; the majority decides. None: as often as the rubric says, by default once."""

    @property
    def where_recorded(self) -> tuple[str, ...]:
        """Names of the parts that are shown as well where they are there."""
        return ()

    @property
    def model_id(self) -> str | None:
        if self.model is None and self.provider is not None:
            raise UsageError("provider goes with model: name both, or model as provider/name")
        return f"{self.provider}/{self.model}" if self.provider else self.model


class LlmJudgeConfig(ModelConfig):
    criteria: NonEmptyText | None = None
    """What must hold, in plain words."""
    prompt_template: NonEmptyText | None = None
    """The whole question; `{{output}}`, `{{input.question}}` name the parts that are shown beside it."""
    rubric: NonEmptyText | None = None
    """`NAME` or `NAME@2` of a stored rubric."""
    include_input: bool = True
    include_expected: bool = False
    include_transcript: bool | None = None
    """None: with a stored rubric the transcript is shown where the target recorded one, else it is not."""
    citations: bool = True
    """Whether the explanation is to cite the lines that it rests on; a stored rubric says so itself."""

    @model_validator(mode="after")
    def _one_way(self) -> "LlmJudgeConfig":
        if sum(getattr(self, way) is not None for way in WAYS) != 1:
            raise ValueError(f"needs exactly one of {', '.join(WAYS)}")
        told = self.model_fields_set
        if self.prompt_template is not None:
            self._check_template(self.prompt_template)
            if idle := [name for name in INCLUDES if name in told]:
                raise ValueError(f"{idle[0]} goes with criteria or rubric: a prompt_template names what it shows")
        if self.rubric is not None and "citations" in told:
            raise ValueError("citations goes with criteria or prompt_template: a stored rubric says so itself")
        return self

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the parts that the judge is shown."""
        if self.prompt_template is not None:
            return tuple(dict.fromkeys(PLACEHOLDER.findall(self.prompt_template)))
        chosen = {
            "input": self.include_input,
            "output": True,
            "expected": self.include_expected,
            TRANSCRIPT: bool(self.include_transcript),
        }
        return tuple(name for name, wanted in chosen.items() if wanted)

    @property
    def where_recorded(self) -> tuple[str, ...]:
        return (TRANSCRIPT,) if self.rubric is not None and self.include_transcript is None else ()

    @staticmethod
    def _check_template(template: str) -> None:
        named = PLACEHOLDER.findall(template)
        for name in named:
            check_name(name)
        if not any(root_of(name) == "output" for name in named):
            raise ValueError("prompt_template must mention {{output}}: that is what it judges")


class CorrectnessConfig(ModelConfig):
    answer_field: Selector = "output"
    reference_field: Selector = "expected"
    include_input: bool = True

    @property
    def shown(self) -> tuple[str, ...]:
        return (*(("input",) if self.include_input else ()), self.answer_field, self.reference_field)


class FaithfulnessConfig(ModelConfig):
    context_fields: tuple[Selector, ...]
    """What the answer should rest on: `input.context`, `metadata.docs` …"""
    answer_field: Selector = "output"

    @model_validator(mode="after")
    def _some_context(self) -> "FaithfulnessConfig":
        if not self.context_fields:
            raise ValueError("context_fields is empty: name what the answer should rest on, such as input.context")
        return self

    @property
    def shown(self) -> tuple[str, ...]:
        return (*self.context_fields, self.answer_field)


Config = LlmJudgeConfig | CorrectnessConfig | FaithfulnessConfig
CONFIGS: Mapping[str, type[Config]] = {
    "llm_judge": LlmJudgeConfig,
    "correctness": CorrectnessConfig,
    "faithfulness": FaithfulnessConfig,
}


def config_of(scorer: str, given: Mapping[str, JsonValue]) -> Config:
    """Raises `UsageError` naming the key and its rule."""
    if "temperature" in given:
        raise UsageError(f"scorer {scorer}: temperature is sent to no model, current ones refuse it: leave it out")
    return configured(CONFIGS[scorer], scorer, given)
