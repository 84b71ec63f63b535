"""Check a user's query, transpile the query for one engine, and run it.

A query is a single SELECT in Postgres syntax over the documented tables.

    statement = check_query("SELECT status, count(*) FROM agent_runs GROUP BY 1", "sqlite")
    statement.text        # for `Tables.select`, with the parameter `collection_id`

The text is parsed into a tree. Every part of the tree must be on an allow-list, and every column must belong to a
documented table. All tables and inner queries are then renamed, and sqlglot writes the tree for the engine. `sqlite`
runs the statement in a separate process, `postgres` on the server.
"""
