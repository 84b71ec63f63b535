"""What all tables share."""

from sqlalchemy import JSON, Column, MetaData, String, Table
from sqlalchemy.dialects.postgresql import JSONB

HEAD = "0010"
"""Newest revision; a test holds it against the scripts."""

metadata = MetaData()
JSON_TEXT = JSON().with_variant(JSONB(), "postgresql")
"""Text on SQLite. Users read these columns in SQL."""

JSON_OR_NULL = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
"""What is not there is null to SQL too."""

revisions = Table("alembic_version", MetaData(), Column("version_num", String, primary_key=True))
