"""The restricted Jinja environment for templates from untrusted folders."""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import wraps
from itertools import permutations
from typing import Any, TypeGuard

from jinja2 import FunctionLoader, StrictUndefined, Template, nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer
from pydantic import BaseModel

MAX_CHARACTERS = 64 * 1024 * 1024
"""Maximum number of characters that rendering a template can produce, including intermediate values."""
ITEM_SIZE = 64
"""Number of characters that are counted for each number and each list item."""
MAX_STEPS = 200_000
"""Maximum number of loop iterations, macro calls and included templates while a template is rendered."""
MAX_BITS = 4096
"""Maximum size, in bits, of an integer that arithmetic in a template can produce."""
MAX_WIDTH = 1000
"""Maximum value of a width, an indent or a precision in a filter's arguments."""
LOOP = frozenset(("index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"))
# Some filters of Jinja are not allowed. `attr` reads attributes. The results of `format`, `center`, `wordwrap`,
# `batch`, `slice`, `xmlattr` and `urlize` can be far larger than their input. `random` would give a prompt a new cache
# key each time.
FILTERS = frozenset(
    {
        *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby"),
        *("indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject"),
        *("rejectattr", "replace", "reverse", "round", "select", "selectattr", "sort", "string", "sum", "title"),
        *("tojson", "trim", "truncate", "unique", "upper", "wordcount"),
    }
)


def plain_data(value: object) -> Any:
    """Copy a value into plain data: None, booleans, numbers, strings, lists and dicts, without subclasses.

    Raises:
        TypeError: The value has any other type and is not a pydantic model.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # A subclass can override `__str__`, so `str(value)` would run its code.
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, BaseModel):
        return plain_data(value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        return {str(plain_data(key)): plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_data(item) for item in value]
    raise TypeError(f"a template cannot be given a value of type {type(value).__name__}")


class _Budget:
    """The characters and steps that are left for rendering a template."""

    def __init__(self) -> None:
        self.characters = MAX_CHARACTERS
        self.steps = MAX_STEPS

    def spend(self, *values: object) -> None:
        """Subtract the size of values from the characters that are left.

        A list that occurs several times is counted each time, because it is printed each time.
        """
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            self.characters -= len(value) if isinstance(value, str) else ITEM_SIZE
            if self.characters < 0:
                raise SecurityError(f"the template produces more than {MAX_CHARACTERS:,} characters")
            if isinstance(value, (list, tuple)):
                waiting += value
            elif isinstance(value, dict):
                waiting += [*value, *value.values()]

    def reserve(self, size: int) -> None:
        """Raise `SecurityError` if a value of this size would exceed the budget.

        The caller checks the size before it creates the value.
        """
        if size > self.characters:
            raise SecurityError(f"the template produces more than {MAX_CHARACTERS:,} characters")


_BUDGET: ContextVar[_Budget] = ContextVar("budget of a rendering")


class PlainDataEnvironment(SandboxedEnvironment):
    """A Jinja environment whose templates can only read plain data."""

    # Jinja passes only these operators to `call_binop`. Others cannot make a large result, and `~` becomes a call.
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, source: Callable[[str], str]) -> None:
        """Args:
        source: Function that returns the text of a template by its name.
        """
        super().__init__(
            # The name also serves as the file name, so that a traceback shows template and line.
            loader=FunctionLoader(lambda name: (source(name), name, None)),
            undefined=StrictUndefined,
            finalize=_printed,
            # Prompts are plain text, not HTML.
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.globals.clear()  # `range` can be very long, and the other globals are objects with methods
        self.filters = {name: _bounded(name, JINJA_FILTERS[name]) for name in FILTERS}

    def rendered(self, name: str, values: Mapping[str, object]) -> str:
        token = _BUDGET.set(_Budget())
        try:
            template: Template = self.get_template(name)
            return template.render({key: plain_data(value) for key, value in values.items()})
        finally:
            _BUDGET.reset(token)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Undefined):
            return getattr(obj, attribute)  # raises an error that names the undefined value
        if isinstance(obj, LoopContext) and attribute in LOOP:
            return getattr(obj, attribute)
        if isinstance(obj, dict):
            if attribute in obj:
                return obj[attribute]
            # A missing key is undefined, so that the filter `default` works. The name of a method, such as `items`, is
            # refused.
            if not hasattr(dict, attribute):
                return self.undefined(obj=obj, name=attribute)
        raise SecurityError(f".{attribute} is not allowed: templates can only read items of plain data and use filters")

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            return obj[argument]
        if isinstance(obj, dict) and isinstance(argument, str):
            return self.getattr(obj, argument)
        if isinstance(obj, (str, list, tuple)) and isinstance(argument, (int, slice)):
            try:
                return obj[argument]
            except IndexError:
                return self.undefined(obj=obj, name=str(argument))
        raise SecurityError(f"[{str(argument)[:40]!r}] is not allowed: templates can only read items of plain data")

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, block or loop of a template. Refuse any other callable."""
        internal = called in (self.count_step, self.concatenated)
        if internal or isinstance(called, (Macro, BlockReference, LoopContext)):
            return context.call(called, *args, **kwargs)
        if isinstance(called, Undefined):
            return called()
        raise SecurityError(f"a value of type {type(called).__name__} cannot be called")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = _BUDGET.get()
        integers = isinstance(left, int) and isinstance(right, int)
        # A width in the format, as in `'%1000000000d' % 1`, would make a huge string.
        if operator == "%" and isinstance(left, str):
            raise SecurityError("the operator % is not allowed on strings")
        if operator == "*" and not integers:
            for text, times in ((left, right), (right, left)):
                if isinstance(text, (str, list, tuple)) and isinstance(times, int):
                    budget.reserve(len(text) * times)
        # Check before computing: `10 ** 1000000000` would take too long.
        if operator == "**" and integers and left.bit_length() * right > MAX_BITS:
            raise SecurityError("the number is too large")
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and result.bit_length() > MAX_BITS:
            raise SecurityError("the number is too large")
        budget.spend(result)
        return result

    def count_step(self) -> None:
        budget = _BUDGET.get()
        budget.steps -= 1
        if budget.steps < 0:
            raise SecurityError(f"the template needs more than {MAX_STEPS:,} steps")

    def concatenated(self, *values: Any) -> str:
        """Return the result of the operator `~`: the values, joined as text."""
        return "".join([str(_printed(value)) for value in values])

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Counted().visit(super()._parse(source, name, filename))
        # The nodes that `_Counted` inserted have no environment yet.
        tree.set_environment(self)
        return tree


class _Counted(NodeTransformer):
    """Rewrites a template so that its steps and the size of its output are counted.

    A loop iteration, a macro call and an included template count as one step each. For `~`, the size of the result is
    counted.
    """

    def visit_For(self, node: nodes.For) -> nodes.Node:
        return self._counting(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._counting(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._counting(node)

    def visit_Template(self, node: nodes.Template) -> nodes.Node:
        return self._counting(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _call("concatenated", node.nodes, node.lineno)

    def _counting(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_call("count_step", [], node.lineno), lineno=node.lineno))
        return node  # type: ignore[no-any-return]


def _call(method: str, values: list[nodes.Expr], line: int) -> nodes.Call:
    called = nodes.EnvironmentAttribute(method, lineno=line)
    return nodes.Call(called, values, [], None, None, lineno=line)


def _printed(value: Any) -> Any:
    """Count the size of a value that is printed. Refuse a value that is not plain data."""
    if not isinstance(value, (str, int, float, list, tuple, dict, Undefined, type(None))):
        raise SecurityError(f"a value of type {type(value).__name__} cannot be printed")
    # Jinja also prints constants at compile time, without a budget.
    budget = _BUDGET.get(None)
    if budget is not None:
        budget.spend(value)
    if isinstance(value, (list, tuple, dict)):
        _raise_undefined(value)
    return value


def _raise_undefined(value: Any) -> None:
    """Raise an error for an undefined item of a list or dict.

    Python would print such an item as the word `Undefined`.
    """
    if isinstance(value, Undefined):
        # `StrictUndefined` raises an error when it is converted to text.
        str(value)
    for item in value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else ():
        _raise_undefined(item)


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter so that the sizes of its input and output are counted.

    If the output is an iterator, it is converted to a list.
    """

    @wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        budget = _BUDGET.get(None) or _Budget()  # Jinja evaluates constants at compile time, without a budget
        values = [value for value in (*args, *kwargs.values()) if isinstance(value, (str, int, list, tuple, dict))]
        budget.spend(*values)
        budget.reserve(_growth(name, values))
        if name in ("indent", "round", "tojson") and any(
            abs(number) > MAX_WIDTH for number in values[1:] if _is_integer(number)
        ):
            raise SecurityError(f"a filter's width or precision is above {MAX_WIDTH:,}")
        result = function(*args, **kwargs)
        result = list(result) if isinstance(result, Iterator) else result
        budget.spend(result)
        return result

    return bounded


def _growth(name: str, values: list[Any]) -> int:
    """Return the maximum number of characters by which a filter can lengthen its input."""
    if not values or isinstance(values[0], int):
        return 0
    value, *arguments = values
    texts = [argument for argument in arguments if isinstance(argument, str)]
    if name == "join" and texts:
        return len(value) * max(map(len, texts))
    if name == "indent" and isinstance(value, str):
        # The default width of Jinja's `indent` is 4.
        width = max([*map(len, texts), *(argument for argument in arguments if _is_integer(argument)), 4])
        return (value.count("\n") + 1) * width
    if name == "replace" and isinstance(value, str):
        # Keyword arguments can be in any order, so each text is tried as the old one and as the new one.
        return max((value.count(old) * len(new) for old, new in permutations(texts, 2)), default=0)
    return 0


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
