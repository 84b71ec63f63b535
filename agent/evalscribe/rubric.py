"""What a judge decides, in which words and in which shape: versions are immutable and named by number and content."""

from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import Field

from evalscribe.chat import Effort
from evalscribe.ids import Frozen, content_id

VARIABLES = ("agent_run", "rubric", "output_schema")
"""What prompt templates must mention together, each in braces, and all that they may."""
DEFAULT_TEMPLATE = """\
Judge the agent run below by this rubric.

<rubric>
{rubric}
</rubric>

<agent_run>
{agent_run}
</agent_run>

Follow the rubric's decision procedure step by step. Then give your final answer as one JSON object between
<response> and </response>. It must fit this JSON Schema:

{output_schema}
"""
DEFAULT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["match", "no match"]},
        "explanation": {"type": "string", "citations": True},
    },
    "required": ["label", "explanation"],
    "additionalProperties": False,
}


class OutputParsingMode(StrEnum):
    XML_KEY = "xml_key"
    """The answer stands between tags named `response_xml_key`."""
    CONSTRAINED_DECODING = "constrained_decoding"
    """The provider's structured output: the whole answer is the JSON."""


class JudgeVariant(StrEnum):
    SINGLE = "single"
    MAJORITY = "majority"
    MULTI_REFLECT = "multi_reflect"


class PromptTemplateMessage(Frozen):
    """One message of a judge's prompt; `{agent_run}`, `{rubric}` and `{output_schema}` are filled in, nothing else."""

    role: Literal["system", "user", "assistant"]
    content: str


class ModelOption(Frozen):
    """Which model judges."""

    provider: str
    """`anthropic`, `openai`, `openrouter`, `google`."""
    model_name: str
    reasoning_effort: Effort | None = None

    @property
    def id(self) -> str:
        """`provider/name`."""
        return f"{self.provider}/{self.model_name}"


DEFAULT_MODEL = ModelOption(provider="anthropic", model_name="claude-opus-5-5")


class Rubric(Frozen):
    """The whole configuration of a judge."""

    rubric_text: str
    """What to decide, and how."""
    output_schema: dict[str, Any] = DEFAULT_SCHEMA
    """JSON Schema of the answer, within the meta-schema (`evalscribe schema rubric`)."""
    prompt_templates: tuple[PromptTemplateMessage, ...] = (
        PromptTemplateMessage(role="user", content=DEFAULT_TEMPLATE),
    )
    judge_model: ModelOption = DEFAULT_MODEL
    output_parsing_mode: OutputParsingMode = OutputParsingMode.XML_KEY
    response_xml_key: str = "response"
    n_rollouts_per_input: Annotated[int, Field(ge=1)] = 1
    judge_variant: JudgeVariant = JudgeVariant.MAJORITY
    min_citations: Annotated[int, Field(ge=0)] = 0
    """How many citations of an answer must hold (verified or relocated) for it to count."""
    id: str = Field(default_factory=lambda: str(uuid4()))
    version: Annotated[int, Field(ge=1)] = 1

    @property
    def digest(self) -> str:
        """Content id of all but id and version: equal digests, equal judges."""
        return content_id(self.model_dump(mode="json", exclude={"id", "version"}))


class Collection(Frozen):
    """A place that rubrics, label sets and later runs belong to."""

    id: str
    name: str


class LabelSet(Frozen):
    """The shape of annotations that people or judges make; its schema obeys the rubric's meta-schema."""

    id: str = Field(default_factory=lambda: str(uuid4()))
    name: str
    description: str | None = None
    label_schema: dict[str, Any]
