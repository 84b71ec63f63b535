"""What a judge decides, in which words and in which shape: versions are immutable and named by number and content."""

import json
import re
from copy import deepcopy
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import uuid4

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from evalscribe.chat import Effort
from evalscribe.checked import Checked, placed
from evalscribe.errors import RubricError
from evalscribe.ids import content_id
from evalscribe.output_schema import check_schema, has_citations
from evalscribe.prompt_template import VARIABLES, PromptTemplateMessage, default_templates, variables

__all__ = [
    "DEFAULT_MODEL",
    "DEFAULT_SCHEMA",
    "PROVIDERS",
    "Collection",
    "JudgeVariant",
    "LabelSet",
    "ModelOption",
    "OutputParsingMode",
    "PromptTemplateMessage",
    "Rubric",
]
PROVIDERS = ("anthropic", "openai", "openrouter", "google")
MOST_ROLLOUTS = 100
"""Of one subject: they are all asked at once."""
DEFAULT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["match", "no match"]},
        "explanation": {"type": "string", "citations": True},
    },
    "required": ["label", "explanation"],
    "additionalProperties": False,
}


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


Said = Annotated[str, AfterValidator(_said)]
"""A text with something in it."""


class OutputParsingMode(StrEnum):
    XML_KEY = "xml_key"
    """The answer stands between tags named `response_xml_key`."""
    CONSTRAINED_DECODING = "constrained_decoding"
    """The provider's structured output: the whole answer is the JSON."""


class JudgeVariant(StrEnum):
    SINGLE = "single"
    MAJORITY = "majority"
    MULTI_REFLECT = "multi_reflect"


def _known(provider: str) -> str:
    if provider not in PROVIDERS:
        raise ValueError(f"there is no provider {provider!r}; there is: {', '.join(PROVIDERS)}")
    return provider


def _tag_name(key: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", key):
        raise ValueError(f"{key!r} is no tag name: letters, digits, '_', '-' and '.', at most 64")
    return key


class ModelOption(Checked):
    """Which model judges."""

    provider: Annotated[str, AfterValidator(_known), WithJsonSchema({"enum": list(PROVIDERS)})]
    """`anthropic`, `openai`, `openrouter`, `google`."""
    model_name: Said
    reasoning_effort: Effort | None = None

    @property
    def id(self) -> str:
        """`provider/name`."""
        return f"{self.provider}/{self.model_name}"


DEFAULT_MODEL = ModelOption(provider="anthropic", model_name="claude-opus-5-5")


def _model_option(value: Any) -> Any:
    """A model also by its id, `provider/name`."""
    if isinstance(value, str):
        provider, slash, name = value.partition("/")
        if not slash:
            raise RubricError("judge_model", f"{value!r} is no model; write provider/name")
        value = {"provider": provider, "model_name": name}
    return placed("judge_model", ModelOption.model_validate, value)


def _messages(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return tuple(
        placed(f"prompt_templates[{n}]", PromptTemplateMessage.model_validate, each) for n, each in enumerate(value)
    )


def _own_schema(path: str) -> Any:
    """A schema that judges can answer in, copied, so that nobody else's hand changes it."""

    def own(schema: Any) -> Any:
        check_schema(schema, path)
        return deepcopy(schema)

    return own


def _prompt_for(fields: dict[str, Any]) -> tuple[PromptTemplateMessage, ...]:
    """The default prompt asks for what is parsed."""
    constrained = fields.get("output_parsing_mode") is OutputParsingMode.CONSTRAINED_DECODING
    return default_templates(None if constrained else fields.get("response_xml_key", "response"))


class Rubric(Checked):
    """The whole configuration of a judge. Raises `RubricError` for whatever is wrong with it."""

    rubric_text: Said
    """What to decide, and how."""
    output_schema: Annotated[dict[str, Any], BeforeValidator(_own_schema("output_schema"))] = DEFAULT_SCHEMA
    """JSON Schema of the answer, within the meta-schema (`evalscribe schema rubric`)."""
    judge_model: Annotated[ModelOption, BeforeValidator(_model_option, json_schema_input_type=ModelOption | str)] = (
        DEFAULT_MODEL
    )
    """A `ModelOption`, or its id: `provider/name`."""
    output_parsing_mode: OutputParsingMode = OutputParsingMode.XML_KEY
    response_xml_key: Annotated[str, AfterValidator(_tag_name)] = "response"
    """The name of the tag that an answer stands in, in mode `xml_key`."""
    prompt_templates: Annotated[
        tuple[PromptTemplateMessage, ...],
        BeforeValidator(_messages, json_schema_input_type=list[PromptTemplateMessage]),
    ] = Field(default_factory=_prompt_for)
    """By default one message that asks for the answer as `output_parsing_mode` and `response_xml_key` will read it."""
    n_rollouts_per_input: Annotated[int, Field(ge=1, le=MOST_ROLLOUTS)] = 1
    judge_variant: JudgeVariant = JudgeVariant.MAJORITY
    min_citations: Annotated[int, Field(ge=0)] = 0
    """How many citations of an answer must hold (verified or relocated) for it to count."""
    id: Said = Field(default_factory=lambda: str(uuid4()))
    version: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        _check_templates(self)
        if self.judge_variant is JudgeVariant.SINGLE and self.n_rollouts_per_input != 1:
            raise RubricError("n_rollouts_per_input", f"must be 1 for a single judge, not {self.n_rollouts_per_input}")
        if self.min_citations and not has_citations(self.output_schema):
            raise RubricError("min_citations", 'no string of output_schema has "citations": true, so none could hold')
        return self

    @property
    def digest(self) -> str:
        """Content id of all but id and version: equal digests, equal judges.

        The schema's order counts: a judge that explains first and decides then is another one.
        """
        fields = self.model_dump(mode="json", exclude={"id", "version"})
        return content_id({**fields, "output_schema": json.dumps(self.output_schema)})


def _check_templates(rubric: Rubric) -> None:
    templates = rubric.prompt_templates
    if not templates:
        raise RubricError("prompt_templates", "is empty: a judge needs at least one message")
    mentioned = frozenset[str]().union(*(variables(template.content) for template in templates))
    missing = [f"{{{name}}}" for name in VARIABLES if name not in mentioned]
    if missing:
        raise RubricError("prompt_templates", f"together they must mention {' and '.join(missing)}")
    tag = f"<{rubric.response_xml_key}>"
    tagged = rubric.output_parsing_mode is OutputParsingMode.XML_KEY
    if tagged and not any(tag in template.content for template in templates):
        problem = f"none says {tag}, where the answer is looked for: ask for it between {tag} and <"
        raise RubricError("prompt_templates", f"{problem}/{tag[1:]}, or set response_xml_key to the tag that is meant")


class Collection(Checked):
    """A place that rubrics, label sets and later runs belong to."""

    id: Said
    name: Said


class LabelSet(Checked):
    """The shape of annotations that people or judges make; its schema obeys the rubric's meta-schema."""

    id: str = Field(default_factory=lambda: str(uuid4()))
    name: Said
    description: str | None = None
    label_schema: Annotated[dict[str, Any], BeforeValidator(_own_schema("label_schema"))]
