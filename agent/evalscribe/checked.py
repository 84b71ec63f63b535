"""The base of what people write and judges rest on: whatever is wrong with it is one `RubricError` with a path."""

from collections.abc import Callable
from functools import reduce
from typing import Any, Self

from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator

from evalscribe.errors import RubricError
from evalscribe.ids import Frozen
from evalscribe.output_schema.path import joined, listed, shown


class Checked(Frozen):
    """A noun whose making raises only `RubricError`."""

    model_config = ConfigDict(use_attribute_docstrings=True)  # `evalscribe schema rubric` shows it in editors

    @model_validator(mode="wrap")
    @classmethod
    def _one_error(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            path = reduce(joined, error.errors()[0]["loc"], "")
            raise RubricError(path, _told(error, tuple(cls.model_fields))) from error


def placed(path: str, make: Callable[[Any], Any], value: object) -> Any:
    """What `make` makes of a part; the paths of its errors begin with the part's own."""
    try:
        return make(value)
    except RubricError as error:
        inner = f".{error.path}" if error.path else ""
        raise RubricError(f"{path}{inner}", error.problem) from error


def _told(error: ValidationError, fields: tuple[str, ...]) -> str:
    """The first problem in our words."""
    details = error.errors()[0]
    match details["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return f"is unknown; there is: {listed(fields)}"
        case "value_error":
            return str(details["ctx"]["error"])
        case _:
            return f"{details['msg'].replace('Input should', 'must', 1)}, not {shown(details['input'])}"
