"""The tables of experiments that users read."""

from evalscribe.query.table import Table, of

_TRIED = "JOIN experiments AS tried ON tried.id = {run}.experiment_id WHERE tried.collection_id = :collection_id"
_OF_RUN = f"JOIN experiment_runs AS whole ON whole.id = it.run_id {_TRIED.format(run='whole')}"

EXPERIMENT_TABLES = (
    Table(
        name="experiment_runs",
        about="runs of experiments",
        columns=of(
            "it",
            ("id", "text", "`runs.id`"),
            ("name", "text", "its label"),
            ("experiment_id", "text", ""),
            ("experiment_version_id", "text", "what was tried: target, scorers and config"),
            ("dataset_version_id", "text", ""),
            ("deployment_id", "text", "the build that ran; null for targets that are no components"),
            ("state", "text", "queued, running, completed, failed or cancelled"),
            ("reason", "text", "why it failed or was cancelled"),
            ("items", "bigint", "of the dataset version that it tries"),
            ("repetitions", "bigint", "tries at each item"),
            ("budget_usd", "double precision", "what it may cost"),
            ("created_at", "text", "ISO 8601"),
            ("started_at", "text", "ISO 8601"),
            ("ended_at", "text", "ISO 8601"),
        ),
        source=f"experiment_runs AS it {_TRIED.format(run='it')}",
    ),
    Table(
        name="run_items",
        about="tries at items in runs of experiments",
        columns=of(
            "it",
            ("id", "text", "`agent_runs.id`, once the run has ended"),
            ("run_id", "text", "`experiment_runs.id`"),
            ("item_key", "text", "the item's name, the same in all runs"),
            ("number", "bigint", "the item's place in the dataset, from 0"),
            ("repetition", "bigint", "from 1"),
            ("status", "text", "ok, error, timeout or cancelled"),
            ("verdict", "text", "passed, failed, error (no answer) or unscored"),
            ("error", "text", "why there is no answer"),
            ("duration_ms", "double precision", ""),
            ("usage", "jsonb", "`calls`, `input_tokens`, `output_tokens` …; null: the target does not say"),
            ("cost_usd", "double precision", "of the target, without its scores"),
            ("model", "text", ""),
            ("created_at", "text", "ISO 8601"),
        ),
        source=f"run_items AS it {_OF_RUN}",
    ),
    Table(
        name="scores",
        about="what scorers say of tries",
        columns=of(
            "it",
            ("id", "text", ""),
            ("run_id", "text", "`experiment_runs.id`"),
            ("run_item_id", "text", "`run_items.id`"),
            ("item_key", "text", "`run_items.item_key`"),
            ("repetition", "bigint", "from 1"),
            ("scorer", "text", "its name in the experiment"),
            ("scorer_version_id", "text", "equal for equal scorers of equal config"),
            ("required", "boolean", "whether a try can pass without it"),
            ("status", "text", "ok, unscored (it abstains) or error (it broke)"),
            ("value", "double precision", "from 0 to 1; null where the status is not ok"),
            ("passed", "boolean", "null where the status is not ok"),
            ("label", "text", ""),
            ("explanation", "text", ""),
            ("error_type", "text", ""),
            ("cost_usd", "double precision", ""),
            ("supersedes", "text", "the score that it replaced"),
            ("current", "boolean", "false once a later one replaced it"),
            ("reason", "text", "why it was scored again"),
            ("metadata_json", "jsonb", "what else the scorer says, with its `config`"),
            ("created_at", "text", "ISO 8601"),
        ),
        source=f"scores AS it {_OF_RUN}",
    ),
)
"""Rows belong to the collection that their experiment's runs are archived in."""
