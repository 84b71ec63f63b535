"""Serializer of LangGraph's state, which reads plain values only."""

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

Saver = BaseCheckpointSaver[str]
SCHEMA = "evalscribe_checkpoints"
"""Schema of the checkpoint tables on a server, which user queries must not read."""


def serializer() -> JsonPlusSerializer:
    """Return a serializer that calls no code.

    With the default one, a planted checkpoint can name any function of any module, and reading calls it (seen).
    """
    return JsonPlusSerializer(allowed_msgpack_modules=None)
