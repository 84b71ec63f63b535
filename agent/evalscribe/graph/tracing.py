"""Nothing is traced to any service, whatever the environment says."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

ANCIENT = ("LANGCHAIN_TRACING", "LANGCHAIN_HANDLER")
"""Switches of a tracer that no longer exists: the library raises when it finds one while tracing is off."""


@contextmanager
def untraced() -> Iterator[None]:
    """While this holds LangGraph posts nothing: with `LANGSMITH_TRACING=true` it would send its state (seen)."""
    from langchain_core.tracers.context import tracing_v2_callback_var
    from langsmith import tracing_context

    hidden = {name: os.environ.pop(name) for name in ANCIENT if name in os.environ}
    token = tracing_v2_callback_var.set(None)
    try:
        with tracing_context(enabled=False):
            yield
    finally:
        tracing_v2_callback_var.reset(token)
        os.environ.update(hidden)
