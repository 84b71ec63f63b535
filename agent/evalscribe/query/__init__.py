"""SQL that users write: one SELECT in Postgres spelling over documented tables, checked and written for one engine.

    statement = checked("SELECT status, count(*) FROM agent_runs GROUP BY 1", "sqlite")
    statement.text        # for `ports.Tables.select`, with `:collection_id` for the collection

Nothing of the user's text is in the statement: it is parsed, every name and function is looked up in a list of ours,
and what comes out is written anew, with literals as values. What the two engines cannot do alike is refused.
"""

from evalscribe.query.calls import functions
from evalscribe.query.check import checked
from evalscribe.query.statement import Named, Statement
from evalscribe.query.tables import Column, Table, tables

__all__ = ["Column", "Named", "Statement", "Table", "checked", "functions", "tables"]
