"""Define the tables that users can query, what their columns mean, and where the store has their data.

Every table is joined to a collection, so that a query sees only the rows of one collection.
"""

from functools import cache
from typing import Literal

from evalscribe.ids import Frozen

Dialect = Literal["sqlite", "postgres"]
Kind = Literal["text", "bigint", "double precision", "boolean", "jsonb"]
"""Types of documented columns, with the names that Postgres uses."""


class QueryColumn(Frozen):
    name: str
    kind: Kind
    about: str
    source: str | tuple[str, str]
    """SQL expression for the column's value in the store. A pair has one expression for SQLite and one for Postgres."""


class QueryTable(Frozen):
    name: str
    about: str
    columns: tuple[QueryColumn, ...]
    source: str | tuple[str, str]
    """SQL that follows FROM in the table's SELECT. A pair has one text for SQLite and one for Postgres."""

    @property
    def written(self) -> str:
        """Name under which statements define this table in WITH. No table of the store has this name."""
        return f"all_{self.name}"

    def scoped(self, dialect: Dialect) -> str:
        """Return a SELECT of those rows of the table that belong to the collection `:collection_id`."""
        parts = [f"{_source(column, dialect)} AS {column.name}" for column in self.columns]
        return f"SELECT {', '.join(parts)} FROM {_chosen(self.source, dialect)}"


def _chosen(source: str | tuple[str, str], dialect: Dialect) -> str:
    return source if isinstance(source, str) else source[0 if dialect == "sqlite" else 1]


def _source(column: QueryColumn, dialect: Dialect) -> str:
    text = _chosen(column.source, dialect)
    # In Postgres, `->>` returns text even for a number.
    cast = dialect == "postgres" and column.kind in ("text", "bigint", "double precision")
    return f"({text})::{column.kind}" if cast else text


def table_columns(table: str, *columns: tuple[str, Kind, str]) -> tuple[QueryColumn, ...]:
    return tuple(
        QueryColumn(name=name, kind=kind, about=about, source=f"{table}.{name}") for name, kind, about in columns
    )


def renamed(name: str, kind: Kind, about: str, source: str | tuple[str, str]) -> QueryColumn:
    return QueryColumn(name=name, kind=kind, about=about, source=source)


_TRIED = "JOIN experiments AS tried ON tried.id = {run}.experiment_id WHERE tried.collection_id = :collection_id"
_OF_RUN = f"JOIN experiment_runs AS whole ON whole.id = it.run_id {_TRIED.format(run='whole')}"

_MINE = "collection_runs AS mine JOIN"
_WHERE = "WHERE mine.collection_id = :collection_id"
_EVAL = renamed("agent_run_id", "text", "the eval: `agent_runs.id`", "it.eval_id")
_RUN: tuple[str, Kind, str] = ("run_id", "text", "its run: `runs.id`")
_NUMBER: tuple[str, Kind, str] = ("number", "bigint", "position, from 0")


def _message(name: str, about: str) -> QueryColumn:
    return renamed(name, "text", about, (f"one.value ->> '$.{name}'", f"one.value ->> '{name}'"))


TABLES = (
    QueryTable(
        name="agent_runs",
        about="evals: one task of a run with its result",
        columns=(
            renamed("id", "text", "unique among all runs", "it.eval_id"),
            renamed("name", "text", "path: `category/task`", "it.path"),
            *table_columns("it", _RUN),
            *table_columns(
                "run",
                ("provider", "text", "provider of its run"),
                ("model", "text", "model of its run"),
                ("experiment", "text", "experiment of its run"),
            ),
            renamed("task", "text", "name of the task, shared by its trials", "it.name"),
            *table_columns(
                "it",
                ("category", "text", "group of tasks"),
                ("trial", "bigint", "from 1"),
                ("trials", "bigint", "number of trials of this task in the run"),
                ("status", "text", "passed, failed, error (the harness broke) or incomplete"),
                ("failed_step", "text", "the failed step, if the source has steps"),
                ("reason", "text", "why the eval has no result, or the source's reason for the failure"),
                ("url", "text", "address of its page"),
                ("metadata_json", "jsonb", "other fields: `task`, `scores` (name to number), `agent` (`model_name`) …"),
            ),
        ),
        source=f"{_MINE} evals AS it ON it.run_id = mine.run_id JOIN runs AS run ON run.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="runs",
        about="executions of an eval suite by one model",
        columns=(
            renamed("id", "text", "", "it.run_id"),
            *table_columns(
                "it",
                ("provider", "text", ""),
                ("model", "text", ""),
                ("experiment", "text", "a report compares its run only with runs of the same experiment"),
                (
                    "status",
                    "text",
                    "completed, failed, running, unknown or importing (incomplete until its import ends)",
                ),
                ("passed", "bigint", "evals that passed"),
                ("failed", "bigint", "evals that failed"),
                ("total", "bigint", "all evals, including incomplete ones"),
                ("url", "text", "address of its page"),
            ),
        ),
        source=f"{_MINE} runs AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="steps",
        about="parts of an eval's grading",
        columns=(
            *table_columns("it", _RUN),
            _EVAL,
            *table_columns(
                "it",
                _NUMBER,
                ("name", "text", ""),
                ("status", "text", ""),
                ("error", "text", "error of the step, if it failed"),
            ),
        ),
        source=f"{_MINE} steps AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="transcripts",
        about="messages and tool calls of an eval",
        columns=(
            *table_columns("it", ("id", "text", ""), _RUN),
            _EVAL,
            *table_columns(
                "it",
                _NUMBER,
                ("name", "text", ""),
                ("messages", "jsonb", "an array; table `messages` has one row per message"),
                ("metadata_json", "jsonb", ""),
            ),
        ),
        source=f"{_MINE} transcripts AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="messages",
        about="messages of transcripts, one row each",
        columns=(
            renamed("transcript_id", "text", "`transcripts.id`", "it.id"),
            *table_columns("it", _RUN),
            _EVAL,
            renamed("number", "bigint", "position, from 0", ("one.key", "one.ordinality - 1")),
            _message("role", "system, user, assistant or tool"),
            _message("content", ""),
            _message("reasoning", "for assistant messages, if recorded"),
            _message("model", "for assistant messages, if recorded"),
            _message("function", "for tool messages: name of the tool"),
            _message("error", "for tool messages: the error"),
            renamed(
                "tool_calls",
                "jsonb",
                "for assistant messages: an array with `function` and `arguments`",
                ("one.value -> '$.tool_calls'", "one.value -> 'tool_calls'"),
            ),
            renamed(
                "metadata_json",
                "jsonb",
                "other recorded fields",
                ("one.value -> '$.metadata'", "one.value -> 'metadata'"),
            ),
        ),
        source=(
            f"{_MINE} transcripts AS it ON it.run_id = mine.run_id JOIN json_each(it.messages) AS one {_WHERE}",
            f"{_MINE} transcripts AS it ON it.run_id = mine.run_id CROSS JOIN LATERAL"
            f" jsonb_array_elements(it.messages) WITH ORDINALITY AS one(value, ordinality) {_WHERE}",
        ),
    ),
    QueryTable(
        name="documents",
        about="named texts of an eval",
        columns=(
            *table_columns("it", _RUN),
            _EVAL,
            *table_columns(
                "it",
                ("number", "bigint", "from 0 for imported documents, negative for those gathered as evidence"),
                ("role", "text", "task, output, expected, grader, log, transcript or known_gaps"),
                ("path", "text", ""),
                ("digest", "text", "content id: equal texts have the same digest"),
            ),
        ),
        source=f"{_MINE} documents AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="findings",
        about="findings of the latest report of each run",
        columns=(
            *table_columns("it", _RUN),
            _EVAL,
            renamed(
                "number",
                "bigint",
                "number in the report, from 1; evals of one group, and trials with one finding, share a number",
                ("it.finding_json ->> '$.n'", "it.finding_json ->> 'n'"),
            ),
            *table_columns(
                "it",
                ("path", "text", "`agent_runs.name`"),
                ("step", "text", "the step that failed"),
                ("classification", "text", "MODEL_FAULT, OVERLY_STRICT, AMBIGUOUS_TASK, KNOWN_GAP; null: unclassified"),
                ("cause", "text", "a short name of the root cause"),
                ("cause_kind", "text", "model, task, grader, lint, harness, infrastructure or user"),
                ("confidence", "double precision", "from 0 to 1"),
                ("uncertain", "boolean", ""),
                ("judge", "text", "the judge"),
                ("error", "text", "the error in one line"),
                ("reasoning", "text", ""),
                ("recurrence", "text", "new, repeat, changed or fix-in-doubt"),
            ),
            renamed(
                "basis",
                "text",
                "judged, corrected (people's label of the same failure), reproduced or proved (by replay)",
                ("it.finding_json ->> '$.basis'", "it.finding_json ->> 'basis'"),
            ),
            renamed(
                "replay",
                "text",
                "what replays show, such as `flaky`; null: nothing was replayed",
                ("it.finding_json ->> '$.replay'", "it.finding_json ->> 'replay'"),
            ),
            renamed(
                "message",
                "bigint",
                "number of the message, from 1, in which an agent run went wrong; null: unknown, or no agent run",
                ("it.finding_json ->> '$.message'", "it.finding_json ->> 'message'"),
            ),
            renamed(
                "first_mistake",
                "bigint",
                "number of the message with the first mistake, if before `message`; null: not before it, or unknown",
                ("it.finding_json ->> '$.first_mistake'", "it.finding_json ->> 'first_mistake'"),
            ),
            *table_columns("it", ("finding_json", "jsonb", "the complete object as JSON")),
        ),
        source=f"{_MINE} findings AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="reports",
        about="the latest report of each run",
        columns=table_columns(
            "it",
            _RUN,
            ("path", "text", "path below the reports folder"),
            ("text", "text", "the markdown as it was written"),
        ),
        source=f"{_MINE} reports AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="labels",
        about="human labels of failures",
        columns=table_columns(
            "it",
            _RUN,
            _NUMBER,
            ("eval", "text", "`agent_runs.name`"),
            ("label", "text", "the classification by a person"),
            ("reviewer", "text", ""),
            ("label_json", "jsonb", "the complete object as JSON"),
        ),
        source=f"{_MINE} labels AS it ON it.run_id = mine.run_id {_WHERE}",
    ),
    QueryTable(
        name="judge_results",
        about="what a judge answered when it judged an agent run or a failed eval by a rubric",
        columns=(
            renamed("id", "text", "", "it.key"),
            *table_columns("it", ("kind", "text", "type of the result; FAILURE if there is no output")),
            renamed("agent_run_id", "text", "the eval: `agent_runs.id`", "of.eval_id"),
            *table_columns(
                "it",
                ("rubric_id", "text", ""),
                ("rubric_version", "bigint", ""),
                ("judge", "text", "the judge"),
                ("output", "jsonb", "the answer, in the rubric's own schema"),
                ("reason", "text", "why there is no output"),
                ("confidence", "double precision", "from 0 to 1"),
                ("cost_usd", "double precision", ""),
            ),
        ),
        # Results about agent runs are stored under the agent run's id, results about failed evals under run and path.
        source=(
            "judge_results AS it JOIN (SELECT ours.eval_id AS name, ours.eval_id FROM collection_runs AS mine"
            f" JOIN evals AS ours ON ours.run_id = mine.run_id {_WHERE} UNION"
            " SELECT ours.run_id || '/' || ours.path, ours.eval_id FROM collection_runs AS mine"
            f" JOIN evals AS ours ON ours.run_id = mine.run_id {_WHERE}) AS of ON of.name = it.agent_run_id"
        ),
    ),
    QueryTable(
        name="result_sets",
        about="sets of related model requests",
        columns=table_columns(
            "it",
            ("id", "text", ""),
            ("name", "text", "a path: `analysis/v1`"),
            ("output_schema", "jsonb", "schema of the answers; null: text"),
            ("created_at", "text", "ISO 8601"),
        ),
        source="result_sets AS it WHERE it.collection_id = :collection_id",
    ),
    QueryTable(
        name="results",
        about="one answer of a model to one request",
        columns=table_columns(
            "it",
            ("id", "text", ""),
            ("result_set_id", "text", "`result_sets.id`"),
            _NUMBER,
            ("user_metadata", "jsonb", "metadata of the request"),
            ("output", "jsonb", "the answer"),
            ("error", "text", "why there is no answer"),
            ("model", "text", ""),
            ("input_tokens", "bigint", ""),
            ("output_tokens", "bigint", ""),
            ("cost_usd", "double precision", ""),
            ("prompt", "jsonb", "the prompt, with the ids of referenced objects"),
            ("created_at", "text", "ISO 8601"),
        ),
        source="results AS it JOIN result_sets AS whole ON whole.id = it.result_set_id"
        " WHERE whole.collection_id = :collection_id",
    ),
    # Rows of experiments belong to the collection in which their runs are archived.
    QueryTable(
        name="experiment_runs",
        about="runs of experiments",
        columns=table_columns(
            "it",
            ("id", "text", "`runs.id`"),
            ("name", "text", "its label"),
            ("experiment_id", "text", ""),
            ("experiment_version_id", "text", "the tested version: target, scorers and config"),
            ("dataset_version_id", "text", ""),
            ("deployment_id", "text", "the build that ran; null for targets that are not components"),
            ("state", "text", "queued, running, completed, failed or cancelled"),
            ("reason", "text", "why the run failed or was cancelled"),
            ("items", "bigint", "number of items of the dataset version in the run"),
            ("repetitions", "bigint", "trials of each item"),
            ("budget_usd", "double precision", "budget in US dollars"),
            ("created_at", "text", "ISO 8601"),
            ("started_at", "text", "ISO 8601"),
            ("ended_at", "text", "ISO 8601"),
        ),
        source=f"experiment_runs AS it {_TRIED.format(run='it')}",
    ),
    QueryTable(
        name="run_items",
        about="trials of items in runs of experiments",
        columns=table_columns(
            "it",
            ("id", "text", "equal to `agent_runs.id` after the run has ended"),
            ("run_id", "text", "`experiment_runs.id`"),
            ("item_key", "text", "key of the item, the same in all runs"),
            ("number", "bigint", "the item's position in the dataset, from 0"),
            ("repetition", "bigint", "from 1"),
            ("status", "text", "ok, error, timeout or cancelled"),
            ("verdict", "text", "passed, failed, error (no answer) or unscored"),
            ("error", "text", "why there is no answer"),
            ("duration_ms", "double precision", ""),
            ("usage", "jsonb", "`calls`, `input_tokens`, `output_tokens` …; null: not reported by the target"),
            ("cost_usd", "double precision", "cost of the target, without scorers"),
            ("model", "text", ""),
            ("created_at", "text", "ISO 8601"),
        ),
        source=f"run_items AS it {_OF_RUN}",
    ),
    QueryTable(
        name="scores",
        about="scores of trials",
        columns=table_columns(
            "it",
            ("id", "text", ""),
            ("run_id", "text", "`experiment_runs.id`"),
            ("run_item_id", "text", "`run_items.id`"),
            ("item_key", "text", "`run_items.item_key`"),
            ("repetition", "bigint", "from 1"),
            ("scorer", "text", "name of the scorer in the experiment"),
            ("scorer_version_id", "text", "equal for equal scorers with equal config"),
            ("required", "boolean", "whether a trial must pass this scorer"),
            ("status", "text", "ok, unscored (it abstains) or error (it broke)"),
            ("value", "double precision", "from 0 to 1; null if the status is not ok"),
            ("passed", "boolean", "null if the status is not ok"),
            ("label", "text", ""),
            ("explanation", "text", ""),
            ("error_type", "text", ""),
            ("cost_usd", "double precision", ""),
            ("supersedes", "text", "id of the score that this one replaced"),
            ("current", "boolean", "false if a later score replaced this one"),
            ("reason", "text", "why the trial was scored again"),
            ("metadata_json", "jsonb", "other output of the scorer, with its `config`"),
            ("created_at", "text", "ISO 8601"),
        ),
        source=f"scores AS it {_OF_RUN}",
    ),
)


def tables() -> tuple[QueryTable, ...]:
    """Return all tables that a query can name, in the order of the documentation."""
    return TABLES


@cache
def by_name() -> dict[str, QueryTable]:
    return {table.name: table for table in TABLES}
