"""One example of each kind of object that a collection store contains."""

from evalscribe.model.chat import Usage
from evalscribe.model.result import JudgeResult, ResultType
from evalscribe.model.rubric import Collection, LabelSet, Rubric

HERE = Collection(id="c1", name="Here; drop table collections")
THERE = Collection(id="c2", name="there")
RUBRIC = Rubric(id="polite", rubric_text="Was it polite? \U0001f600 \x00 {braces}")
CHANGED = RUBRIC.model_copy(update={"rubric_text": "Was it polite and short?"})
LABELS = LabelSet(
    id="l1",
    name="tone",
    label_schema={"type": "object", "properties": {"tone": {"type": "string"}}, "required": ["tone"]},
)
RESULT = JudgeResult(
    id="r1",
    agent_run_id="a1",
    rubric_id="polite",
    rubric_version=1,
    output={"label": "match", "explanation": "[T0B1]"},
    result_type=ResultType.DIRECT_RESULT,
    judge="example/m",
    usage=Usage(calls=1, cost_usd=0.25),
)
ANOTHER = RESULT.model_copy(update={"id": "r2"})
FAILED = RESULT.model_copy(update={"id": "r3", "output": {}, "result_type": ResultType.FAILURE, "reason": "overloaded"})
FAILED_AGAIN = FAILED.model_copy(update={"id": "r4"})
