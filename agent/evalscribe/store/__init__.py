"""Storage of finished work with SQLAlchemy Core and alembic: a SQLite file in WAL mode, or a Postgres database.

    with Workspace() as workspace:                 # imports SQLAlchemy with the first use of `store`
        workspace.store.collections.collections()

Sources redact as they read, so nothing that arrives here holds a secret.
"""
