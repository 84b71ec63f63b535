"""What stands under a field in the source describes it in the JSON Schema.

It is read when a schema is made: pydantic's own way reads the source of every class whenever that is imported.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel


def documented(schema: dict[str, Any], shape: type[BaseModel]) -> None:
    """A `json_schema_extra`: every property without a description gets the one of its field."""
    for name, text in _texts(shape).items():
        known = schema.get("properties", {})
        found = known.get(name, known.get(shape.model_fields[name].alias))
        if found is not None:
            found.setdefault("description", text)


@cache
def _texts(shape: type[BaseModel]) -> dict[str, str]:
    """By field, those of its bases too."""
    bases = (base for base in reversed(shape.__mro__) if issubclass(base, BaseModel) and base is not BaseModel)
    return {name: text for base in bases for name, text in _own(base) if name in shape.model_fields}


def _own(shape: type[BaseModel]) -> list[tuple[str, str]]:
    (written,) = ast.parse(inspect.getsource(shape)).body
    assert isinstance(written, ast.ClassDef)
    return [
        (field.target.id, inspect.cleandoc(below.value.value))
        for field, below in pairwise(written.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    ]
