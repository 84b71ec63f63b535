"""Scorers that ask a model: their configuration, their rubric and its labels, and what the judge sees."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, JsonValue, TypeAdapter, ValidationError, model_validator

from evalscribe.errors import RubricError, UsageError
from evalscribe.experiments.scorers.definition import CannotScore, ScorerConfig, validate_config
from evalscribe.experiments.scorers.values import Selector, select_value
from evalscribe.judging.rubrics import load_rubric
from evalscribe.judging.subjects import Subject, SubjectItem, document_mark
from evalscribe.model.evidence import Document, Role
from evalscribe.model.output_schema import agreement_keys
from evalscribe.model.result import CitationTarget
from evalscribe.model.rubric import MAX_ROLLOUTS, JudgeVariant, NonEmptyText, Rubric
from evalscribe.model.score import ScorerRequest, ScorerSpec
from evalscribe.prompts.templates import Prompts
from evalscribe.redaction.redact import redact

TRANSCRIPT = "transcript"
ROLES: Mapping[str, Role] = {"input": "task", "output": "output", "expected": "expected", "metadata": "task"}
_SELECTOR: TypeAdapter[str] = TypeAdapter(Selector)


def check_name(name: str) -> None:
    """Check the name of a part of an item, such as `output.answer`. Raises `ValueError` if the name is invalid."""
    try:
        _SELECTOR.validate_python("output" if name == TRANSCRIPT else name)
    except ValidationError as error:
        raise ValueError(f"{name} {error.errors()[0]['ctx']['error']}") from None


def root_of(name: str) -> str:
    return name.partition(".")[0]


def role_of(name: str) -> Role:
    """Return the role of the document in which the judge sees the named part of an item."""
    return "transcript" if name == TRANSCRIPT else ROLES[root_of(name)]


def select_part(name: str, request: ScorerRequest) -> JsonValue:
    """Return the named part of an item. Raises `CannotScore` if the part is missing or null."""
    if name == TRANSCRIPT:
        if request.transcript is None:
            raise CannotScore("artifact_error", "the target recorded no transcript")
        return request.transcript
    value = select_value(request, name)
    if value is None:
        raise CannotScore("input_error", f"{name} is null")
    return value


PREFERRED_KEY = "label"
LABEL_SCORES = {"pass": 1.0, "partial": 0.5, "fail": 0.0, "yes": 1.0, "no": 0.0, "match": 1.0, "no match": 0.0}
"""Default scores by label. Any other label needs `choice_scores`."""
BOOLEAN_SCORES = {"true": 1.0, "false": 0.0}


def label_key(schema: Mapping[str, Any], owner: str) -> str:
    """Return the name of the field with the label: `label` if possible, else the first boolean or enum field.

    Raises `UsageError` if the schema has no boolean or enum field.
    """
    keys = agreement_keys(dict(schema))
    if not keys:
        raise UsageError(f"{owner} cannot score: its output_schema has no enum field and no boolean field")
    return PREFERRED_KEY if PREFERRED_KEY in keys else keys[0]


def label_text(value: object) -> str:
    """Convert a label to its spelling in `choice_scores`. The boolean True becomes `true`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def scores_of(schema: Mapping[str, Any], choice_scores: Mapping[str, float] | None, owner: str) -> dict[str, float]:
    """Return the score of each label, in the schema's order.

    Raises `UsageError` if a label has no score, or if `choice_scores` has an unknown label.
    """
    field = schema["properties"][label_key(schema, owner)]
    labels = [*map(label_text, field["enum"])] if "enum" in field else ["true", "false"]
    scores = {**LABEL_SCORES, **BOOLEAN_SCORES} if choice_scores is None else choice_scores
    if missing := [label for label in labels if label not in scores]:
        raise UsageError(f"choice_scores lacks {missing[0]!r}; labels of {owner}: {', '.join(labels)}")
    if extra := [label for label in choice_scores or () if label not in labels]:
        raise UsageError(f"choice_scores has the unknown label {extra[0]!r}; labels of {owner}: {', '.join(labels)}")
    return {label: scores[label] for label in labels}


PLACEHOLDER = re.compile(r"\{\{\s*([^{}\s]{1,200})\s*\}\}")
QUESTION_FIELDS = ("criteria", "prompt_template", "rubric")
INCLUDES = ("include_input", "include_expected", "include_transcript")


UnitScore = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ModelConfig(ScorerConfig):
    """Configuration shared by all scorers that ask a model."""

    model: str | None = None
    """The model, as `provider/name`. By default, the rubric's own model is used."""
    provider: str | None = None
    """Provider of the model. Needed only if `model` is a name without a provider."""
    choice_scores: dict[str, UnitScore] | None = Field(default=None, min_length=2, max_length=64)
    """Score of each label, from 0 to 1."""
    threshold: UnitScore = 0.7
    """Minimum value that passes."""
    samples: int | None = Field(default=None, ge=1, le=MAX_ROLLOUTS)
    """Number of answers that are sampled from the model. The most frequent label decides. By default, the rubric's own
    number is used."""

    @property
    def optional_parts(self) -> tuple[str, ...]:
        """Names of item parts that the judge sees only if the target recorded them."""
        return ()

    @property
    def model_id(self) -> str | None:
        if self.model is None and self.provider is not None:
            raise UsageError("provider is given without model: give both, or only model, as provider/name")
        return f"{self.provider}/{self.model}" if self.provider else self.model


class LlmJudgeConfig(ModelConfig):
    criteria: NonEmptyText | None = None
    """The criteria, in plain words."""
    prompt_template: NonEmptyText | None = None
    """The whole question. Placeholders such as `{{output}}` and `{{input.question}}` name the item parts that the judge
    sees as separate documents. In the question, each placeholder becomes a reference to its document."""
    rubric: NonEmptyText | None = None
    """A stored rubric: `NAME` for the latest version, or `NAME@2` for version 2."""
    include_input: bool = True
    include_expected: bool = False
    include_transcript: bool | None = None
    """Whether the judge sees the transcript. By default, the judge sees a recorded transcript only if a stored rubric
    is used."""
    citations: bool = True
    """Whether the explanation must cite its evidence. This option is not allowed with a stored rubric, because the
    rubric's schema defines citations."""

    @model_validator(mode="after")
    def _require_one_question(self) -> "LlmJudgeConfig":
        if sum(getattr(self, field) is not None for field in QUESTION_FIELDS) != 1:
            raise ValueError(f"needs exactly one of {', '.join(QUESTION_FIELDS)}")
        fields_set = self.model_fields_set
        if self.prompt_template is not None:
            self._check_template(self.prompt_template)
            if unused := [name for name in INCLUDES if name in fields_set]:
                raise ValueError(
                    f"{unused[0]} cannot be combined with prompt_template, which itself names the parts to show"
                )
        if self.rubric is not None and "citations" in fields_set:
            raise ValueError(
                "citations cannot be combined with rubric: a stored rubric itself defines whether citations "
                "are required"
            )
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts that the judge sees."""
        if self.prompt_template is not None:
            return tuple(dict.fromkeys(PLACEHOLDER.findall(self.prompt_template)))
        parts = {
            "input": self.include_input,
            "output": True,
            "expected": self.include_expected,
            TRANSCRIPT: bool(self.include_transcript),
        }
        return tuple(name for name, included in parts.items() if included)

    @property
    def optional_parts(self) -> tuple[str, ...]:
        return (TRANSCRIPT,) if self.rubric is not None and self.include_transcript is None else ()

    @staticmethod
    def _check_template(template: str) -> None:
        names = PLACEHOLDER.findall(template)
        for name in names:
            check_name(name)
        if not any(root_of(name) == "output" for name in names):
            raise ValueError("prompt_template must contain {{output}}, the text to judge")


class CorrectnessConfig(ModelConfig):
    answer_field: Selector = "output"
    reference_field: Selector = "expected"
    include_input: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        return (*(("input",) if self.include_input else ()), self.answer_field, self.reference_field)


class FaithfulnessConfig(ModelConfig):
    context_fields: tuple[Selector, ...]
    """Parts that must support the answer, such as `input.context` or `metadata.docs`."""
    answer_field: Selector = "output"

    @model_validator(mode="after")
    def _some_context(self) -> "FaithfulnessConfig":
        if not self.context_fields:
            raise ValueError(
                "context_fields is empty: name the parts that must support the answer, such as input.context"
            )
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.context_fields, self.answer_field)


Config = LlmJudgeConfig | CorrectnessConfig | FaithfulnessConfig
CONFIGS: Mapping[str, type[Config]] = {
    "llm_judge": LlmJudgeConfig,
    "correctness": CorrectnessConfig,
    "faithfulness": FaithfulnessConfig,
}


def config_of(scorer: str, raw_config: Mapping[str, JsonValue]) -> Config:
    """Validate the config. Raises `UsageError` with the invalid key and the rule that the key violates."""
    if "temperature" in raw_config:
        raise UsageError(
            f"scorer {scorer}: temperature is not supported, because current models refuse it: leave it out"
        )
    return validate_config(CONFIGS[scorer], scorer, raw_config)


def item_subject(names: Sequence[str], request: ScorerRequest, optional_parts: Sequence[str] = ()) -> Subject:
    """Return the named parts as documents.

    A document is named after its role and its part, such as `task input`, `output output` and `task input.context`.

    A part in `optional_parts` is left out if it is missing. Raises `CannotScore` if any other part is missing.
    """
    names = [*names, *(name for name in optional_parts if getattr(request, name) is not None)]
    return Subject.of("run item", [_item(name, select_part(name, request)) for name in dict.fromkeys(names)])


def mark(name: str) -> str:
    """Return the mark that answers use to cite the named part."""
    return document_mark(Document(role=role_of(name), path=name, text=""))


def _item(name: str, value: JsonValue) -> SubjectItem:
    role = role_of(name)
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    target = CitationTarget(kind="document", item=mark(name), role=role, path=name)
    # Redacted, because the text is sent to the provider of the model.
    return SubjectItem(mark=mark(name), about="", text=redact(text), target=target, numbered=True)


NAMES = {
    "llm_judge": "whether the output meets criteria, a prompt_template or a stored rubric, by a model",
    "correctness": "how well the output matches what is expected (pass, partial or fail), by a model",
    "faithfulness": "whether the context supports the claims of the output, by a model",
}
PASS_FAIL = {"pass": 1.0, "fail": 0.0}


@dataclass(frozen=True)
class RubricSources:
    """The prompts and stored rubrics that scorers can use."""

    prompts: Prompts
    load: Callable[[str], Rubric]
    """Returns a stored rubric: version 2 for `NAME@2`, the latest version for `NAME`. Raises `NotFoundError` if the
    rubric does not exist."""


def model_spec(scorer: str, raw_config: Mapping[str, JsonValue], sources: RubricSources) -> ScorerSpec:
    """Build the spec of a scorer that asks a model.

    The spec contains the rubric, and the config with all defaults. Raises `UsageError` with the invalid key and the
    rule that the key violates. Raises `NotFoundError` for an unknown rubric.
    """
    config = config_of(scorer, raw_config)
    try:
        rubric = _with_model(_rubric(scorer, config, sources), config)
        scores = scores_of(rubric.output_schema, config.choice_scores, f"rubric {rubric.id}")
    except UsageError as error:
        raise UsageError(f"scorer {scorer}: {error}") from None
    # The spec has everything that determines a score, so that any change makes another version of the scorer.
    complete = {
        **config.model_dump(mode="json", exclude={"provider"}),
        "model": rubric.judge_model.id,
        "choice_scores": scores,
        "samples": rubric.n_rollouts_per_input,
    }
    return ScorerSpec(name=scorer, scorer=scorer, config=complete, rubric=rubric, model=rubric.judge_model.id)


def _rubric(scorer: str, config: Config, sources: RubricSources) -> Rubric:
    if not isinstance(config, LlmJudgeConfig):
        return load_rubric(scorer, sources.prompts)
    if config.rubric is not None:
        return sources.load(config.rubric)
    labels = list(config.choice_scores or PASS_FAIL)
    if config.criteria is not None:
        text = sources.prompts.render("judging/criteria.md.j2", criteria=config.criteria, labels=labels)
    else:
        # The question only refers to the documents. Text of an item never becomes part of the instructions.
        question = PLACEHOLDER.sub(lambda match: f"(the document `{mark(match[1])}`)", config.prompt_template or "")
        text = sources.prompts.render("judging/template.md.j2", template=question, labels=labels)
    return Rubric(id=scorer, rubric_text=text, output_schema=_schema(labels, citations=config.citations))


def _schema(labels: list[str], *, citations: bool) -> dict[str, Any]:
    explanation = {"type": "string", "description": "Two or three sentences that give the reason."}
    return {
        "type": "object",
        "properties": {
            "explanation": {**explanation, **({"citations": True} if citations else {})},
            "label": {"type": "string", "enum": labels},
        },
        "required": ["explanation", "label"],
        "additionalProperties": False,
    }


def _with_model(rubric: Rubric, config: Config) -> Rubric:
    """Return the rubric with the config's model and number of samples. The changed rubric is validated again."""
    changes: dict[str, Any] = {}
    model = config.model_id
    if model is not None and model != rubric.judge_model.id:
        changes["judge_model"] = model
    if config.samples is not None and config.samples != rubric.n_rollouts_per_input:
        changes |= {"n_rollouts_per_input": config.samples, "judge_variant": JudgeVariant.MAJORITY}
    if not changes:
        return rubric
    try:
        return Rubric(**{**dict(rubric), **changes})
    except RubricError as error:
        key = "model" if error.path.startswith("judge_model") else "samples"
        raise UsageError(f"{key}: {error.problem}") from None
