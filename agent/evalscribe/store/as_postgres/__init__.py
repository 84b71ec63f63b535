"""What Postgres makes of values, for SQLite, which would make something else of them or nothing at all.

Imported by the process that runs a query, which starts with every query: only the standard library is.
"""
