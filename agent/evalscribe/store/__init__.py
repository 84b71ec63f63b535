"""What is finished, kept in `<workspace>/.evalscribe/`: SQLite in WAL mode behind SQLAlchemy Core, alembic revisions.

    from evalscribe.store.sql import open_store    # imports SQLAlchemy: only from a command's body
    store = open_store(Path("…/.evalscribe"))      # an `evalscribe.ports.Store`

Sources redact as they read, so nothing that arrives here holds a secret.
"""
