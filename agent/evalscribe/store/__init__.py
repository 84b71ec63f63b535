"""Store finished work in a SQLite file in WAL mode or in a Postgres database, with SQLAlchemy Core and alembic.

    with Workspace() as workspace:                 # imports SQLAlchemy with the first use of `store`
        workspace.store.collections.collections()

Sources redact secrets while they read, so the store receives no secrets.
"""
