"""SQL that users write: one SELECT in Postgres syntax over documented tables, checked and transpiled for one engine.

    statement = checked("SELECT status, count(*) FROM agent_runs GROUP BY 1", "sqlite")
    statement.text        # for `ports.Tables.select`, with the parameter `collection_id`

The text is parsed; every part of the tree must be on an allow-list, every column must be one of a documented table,
and all tables and inner queries are renamed before sqlglot writes the tree for the engine.
"""
