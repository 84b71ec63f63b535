"""Storage of finished work with SQLAlchemy Core and alembic: a SQLite file in WAL mode, or a Postgres database.

    with Workspace() as workspace:                 # imports SQLAlchemy with the first use of `store`
        workspace.store.collections.collections()

Sources redact secrets while they read, so no secret arrives here.
"""
