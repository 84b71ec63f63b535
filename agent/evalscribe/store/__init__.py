"""What is finished, behind SQLAlchemy Core and alembic revisions: a SQLite file in WAL mode, or a Postgres database.

    from evalscribe.store.sql import open_store    # imports SQLAlchemy: only from a command's body
    store = open_store(settings.store_place)       # a folder or an address; an `evalscribe.ports.Store`

Sources redact as they read, so nothing that arrives here holds a secret.
"""
