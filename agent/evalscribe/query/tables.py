"""The tables that users read: what their columns mean, and where the store has them. Every one ends at a collection."""

from functools import cache

from evalscribe.query.experiment_tables import EXPERIMENT_TABLES
from evalscribe.query.kinds import Kind
from evalscribe.query.table import Column, Table, of, renamed

__all__ = ["Column", "Table", "by_name", "tables"]
_MINE = "collection_runs AS mine JOIN"
_WHERE = "WHERE mine.collection_id = :collection_id"
_EVAL = renamed("agent_run_id", "text", "the eval: `agent_runs.id`", "it.eval_id")
_RUN: tuple[str, Kind, str] = ("run_id", "text", "its run: `runs.id`")
_NUMBER: tuple[str, Kind, str] = ("number", "bigint", "its place, from 0")


def _message(name: str, about: str) -> Column:
    return renamed(name, "text", about, (f"one.value ->> '$.{name}'", f"one.value ->> '{name}'"))


TABLES = (
    Table(
        name="agent_runs",
        about="evals: one task of a run with its result",
        columns=(
            renamed("id", "text", "unique among all runs", "it.eval_id"),
            renamed("name", "text", "path: `category/task`", "it.path"),
            *of("it", _RUN),
            *of(
                "run",
                ("provider", "text", "of its run"),
                ("model", "text", "of its run"),
                ("experiment", "text", "of its run"),
            ),
            renamed("task", "text", "what all trials of one task share", "it.name"),
            *of(
                "it",
                ("category", "text", "what tasks are grouped by"),
                ("trial", "bigint", "from 1"),
                ("trials", "bigint", "how many the run has of this task"),
                ("status", "text", "passed, failed, error (the harness broke) or incomplete"),
                ("failed_step", "text", "the step that failed, where the source has steps"),
                ("reason", "text", "why it has no result, or what the source says of its failure"),
                ("url", "text", "where it can be seen"),
                ("metadata_json", "jsonb", "all else: `task`, `scores` (name to number), `agent` (`model_name`) …"),
            ),
        ),
        source=f"{_MINE} evals AS it ON it.run_id = mine.run_id JOIN runs AS run ON run.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="runs",
        about="executions of an eval suite by one model",
        columns=(
            renamed("id", "text", "", "it.run_id"),
            *of(
                "it",
                ("provider", "text", ""),
                ("model", "text", ""),
                ("experiment", "text", "what is compared with each other"),
                (
                    "status",
                    "text",
                    "completed, failed, running, unknown or importing (incomplete until its import ends)",
                ),
                ("passed", "bigint", "evals that passed"),
                ("failed", "bigint", "evals that failed"),
                ("total", "bigint", "all of them, incomplete ones too"),
                ("url", "text", "where it can be seen"),
            ),
        ),
        source=f"{_MINE} runs AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="steps",
        about="parts of an eval's grading",
        columns=(
            *of("it", _RUN),
            _EVAL,
            *of(
                "it",
                _NUMBER,
                ("name", "text", ""),
                ("status", "text", ""),
                ("error", "text", "of the step that failed"),
            ),
        ),
        source=f"{_MINE} steps AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="transcripts",
        about="what was said and done in an eval",
        columns=(
            *of("it", ("id", "text", ""), _RUN),
            _EVAL,
            *of(
                "it",
                _NUMBER,
                ("name", "text", ""),
                ("messages", "jsonb", "an array; table `messages` has one row for each"),
                ("metadata_json", "jsonb", ""),
            ),
        ),
        source=f"{_MINE} transcripts AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="messages",
        about="messages of transcripts, one row each",
        columns=(
            renamed("transcript_id", "text", "`transcripts.id`", "it.id"),
            *of("it", _RUN),
            _EVAL,
            renamed("number", "bigint", "its place, from 0", ("one.key", "one.ordinality - 1")),
            _message("role", "system, user, assistant or tool"),
            _message("content", ""),
            _message("reasoning", "of an assistant, where it was recorded"),
            _message("model", "of an assistant, where it was recorded"),
            _message("function", "of a tool's answer: its name"),
            _message("error", "of a tool's answer: what went wrong"),
            renamed(
                "tool_calls",
                "jsonb",
                "of an assistant: an array with `function` and `arguments`",
                ("one.value -> '$.tool_calls'", "one.value -> 'tool_calls'"),
            ),
            renamed(
                "metadata_json",
                "jsonb",
                "what else was recorded",
                ("one.value -> '$.metadata'", "one.value -> 'metadata'"),
            ),
        ),
        source=(
            f"{_MINE} transcripts AS it ON it.run_id = mine.run_id JOIN json_each(it.messages) AS one {_WHERE}",
            f"{_MINE} transcripts AS it ON it.run_id = mine.run_id CROSS JOIN LATERAL"
            f" jsonb_array_elements(it.messages) WITH ORDINALITY AS one(value, ordinality) {_WHERE}",
        ),
    ),
    Table(
        name="documents",
        about="named texts that are known of an eval",
        columns=(
            *of("it", _RUN),
            _EVAL,
            *of(
                "it",
                ("number", "bigint", "from 0 what was imported, below what was gathered as evidence"),
                ("role", "text", "task, output, expected, grader, log, transcript or known_gaps"),
                ("path", "text", ""),
                ("digest", "text", "equal for equal texts"),
            ),
        ),
        source=f"{_MINE} documents AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="findings",
        about="what the last report of a run says of each failed eval",
        columns=(
            *of("it", _RUN),
            _EVAL,
            *of(
                "it",
                ("number", "bigint", "in the report, from 1"),
                ("path", "text", "`agent_runs.name`"),
                ("step", "text", "the step that failed"),
                ("classification", "text", "MODEL_FAULT, OVERLY_STRICT, AMBIGUOUS_TASK, KNOWN_GAP; null: unclassified"),
                ("cause", "text", "a short name of the root cause"),
                ("cause_kind", "text", "model, task, grader, lint, harness or infrastructure"),
                ("confidence", "double precision", "from 0 to 1"),
                ("uncertain", "boolean", ""),
                ("judge", "text", "who said so"),
                ("error", "text", "in one line"),
                ("reasoning", "text", ""),
                ("recurrence", "text", "new, repeat, changed or fix-in-doubt"),
                ("finding_json", "jsonb", "all of it"),
            ),
        ),
        source=f"{_MINE} findings AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="reports",
        about="the last report of each run",
        columns=of(
            "it", _RUN, ("path", "text", "below the reports folder"), ("text", "text", "the markdown as it was written")
        ),
        source=f"{_MINE} reports AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="labels",
        about="what people said of failures, in reviews",
        columns=of(
            "it",
            _RUN,
            _NUMBER,
            ("eval", "text", "`agent_runs.name`"),
            ("label", "text", "the classification that a person gave"),
            ("reviewer", "text", ""),
            ("label_json", "jsonb", "all of it"),
        ),
        source=f"{_MINE} labels AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    Table(
        name="judge_results",
        about="what judges made of agent runs and failed evals by a rubric",
        columns=(
            renamed("id", "text", "", "it.key"),
            *of("it", ("kind", "text", "the result's type; FAILURE where there is none")),
            renamed("agent_run_id", "text", "the eval: `agent_runs.id`", "of.eval_id"),
            *of(
                "it",
                ("rubric_id", "text", ""),
                ("rubric_version", "bigint", ""),
                ("judge", "text", "who was asked"),
                ("output", "jsonb", "in the rubric's own schema"),
                ("reason", "text", "why there is no output"),
                ("confidence", "double precision", "from 0 to 1"),
                ("cost_usd", "double precision", ""),
            ),
        ),
        # Agent runs are judged under their id, failed evals under their run and path.
        source=(
            "judge_results AS it JOIN (SELECT ours.eval_id AS name, ours.eval_id FROM collection_runs AS mine"
            f" JOIN evals AS ours ON ours.run_id = mine.run_id {_WHERE} UNION"
            " SELECT ours.run_id || '/' || ours.path, ours.eval_id FROM collection_runs AS mine"
            f" JOIN evals AS ours ON ours.run_id = mine.run_id {_WHERE}) AS of ON of.name = it.agent_run_id"
        ),
    ),
    Table(
        name="result_sets",
        about="answers of models to requests that belong together",
        columns=of(
            "it",
            ("id", "text", ""),
            ("name", "text", "a path: `analysis/v1`"),
            ("output_schema", "jsonb", "what answers look like; null: text"),
            ("created_at", "text", "ISO 8601"),
        ),
        source="result_sets AS it WHERE it.collection_id = :collection_id",
    ),
    Table(
        name="results",
        about="one answer of a model to one request",
        columns=of(
            "it",
            ("id", "text", ""),
            ("result_set_id", "text", "`result_sets.id`"),
            _NUMBER,
            ("user_metadata", "jsonb", "what the request was given"),
            ("output", "jsonb", "the answer"),
            ("error", "text", "why there is none"),
            ("model", "text", ""),
            ("input_tokens", "bigint", ""),
            ("output_tokens", "bigint", ""),
            ("cost_usd", "double precision", ""),
            ("prompt", "jsonb", "what was asked, with the ids of what it refers to"),
            ("created_at", "text", "ISO 8601"),
        ),
        source="results AS it JOIN result_sets AS whole ON whole.id = it.result_set_id"
        " WHERE whole.collection_id = :collection_id",
    ),
    *EXPERIMENT_TABLES,
)


def tables() -> tuple[Table, ...]:
    """All that a query can name, in the order they are told in."""
    return TABLES


@cache
def by_name() -> dict[str, Table]:
    return {table.name: table for table in TABLES}
