"""Load a user's functions, encode their return values and capture what they print. Needs only the standard library."""

import hashlib
import inspect
import io
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import GeneratorType, SimpleNamespace
from typing import Any, TextIO

CALL = "__evalscribe_call__"
ABOUT = "__evalscribe_scorer__"
"""Copy of the constant in `custom_scorer`. That module cannot be imported here, because it needs pydantic."""
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class UnusableFunction(Exception):
    """The address does not name a usable function. The error message is one line."""


class LoadedComponent:
    """A function that takes an input and returns a value, an awaitable or a generator."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.declaration: Mapping[str, Any] = {}
        self.is_async = _is_async(function)
        self._context = _context_name(function)

    def __call__(self, payload: Any) -> Any:
        if self._context is None:
            return self.function(payload["input"])
        context = SimpleNamespace(**payload["context"])
        if self._context:
            return self.function(payload["input"], **{self._context: context})
        return self.function(payload["input"], context)


class LoadedScorer:
    """A function with the scorer decorator, which is called through the entry point that the decorator added."""

    def __init__(self, function: Callable[..., Any]) -> None:
        entry_point = getattr(function, CALL, None)
        if entry_point is None:
            raise UnusableFunction("is not a scorer: put `@evalscribe.scorer` above it")
        self.function = function
        self.is_async = _is_async(entry_point)
        self.declaration: Mapping[str, Any] = getattr(function, ABOUT)
        self._entry_point = entry_point

    def __call__(self, payload: Any) -> Any:
        return self._entry_point(payload)


Loaded = LoadedComponent | LoadedScorer


def load(address: str, kind: str) -> Loaded:
    """Import a function.

    Raises `UnusableFunction` if the address does not name a usable function, and any exception that the
    function's module raises.
    """
    module_name, _, path = address.partition(":")
    member: Any = import_module(module_name)
    for name in path.split("."):
        if not hasattr(member, name):
            raise UnusableFunction(f"`{module_name}` has no `{path}`; it has {_names(member)}")
        member = getattr(member, name)
    if not callable(member):
        raise UnusableFunction(f"is not a function but a `{type(member).__name__}`")
    return LoadedScorer(member) if kind == "scorer" else LoadedComponent(member)


def describe_function(loaded: Loaded, folder: Path) -> dict[str, Any]:
    """Describe a function without calling it."""
    function = loaded.function
    return {
        "doc": inspect.getdoc(function) or "",
        "parameters": list(_signature(function)),
        "code": _code(folder),
        "about": dict(loaded.declaration),
    }


def _signature(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # Some callables that are written in C have no signature.
        return {"input": inspect.Parameter("input", inspect.Parameter.POSITIONAL_ONLY)}


def _context_name(function: Callable[..., Any]) -> str | None:
    """Return the name of the context parameter.

    The name is None if there is no such parameter, and empty if the context is passed by position.
    """
    parameters = list(_signature(function).values())
    positional = [parameter for parameter in parameters if parameter.kind in _NAMED]
    has_varargs = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    if not positional and not has_varargs:
        raise UnusableFunction("must take (input) or (input, context)")
    without_default = [parameter for parameter in positional if parameter.default is parameter.empty]
    unknown = [
        *[parameter.name for parameter in without_default[2:]],
        *[name for name in required if name != "context"],
    ]
    if unknown:
        raise UnusableFunction(f"must take (input) or (input, context); unexpected parameters: {', '.join(unknown)}")
    if len(without_default) > 1:
        return ""
    return "context" if "context" in [parameter.name for parameter in parameters[1:]] else None


def _is_async(function: Callable[..., Any]) -> bool:
    """Return whether the function is async.

    A plain function that returns an awaitable does not count as async, but the awaitable is still awaited.
    """
    # An instance is async if its class has an async `__call__`.
    candidates = (function, getattr(function, "__call__", None))  # noqa: B004
    return any(
        inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate)
        for candidate in candidates
        if candidate
    )


def _code(folder: Path) -> str:
    """Return a hash of the names and contents of all modules that were loaded from the folder."""
    digest = hashlib.sha256()
    for name, path in sorted(_own_files(folder).items()):
        digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return f"sha256:{digest.hexdigest()}"


def _own_files(folder: Path) -> dict[str, Path]:
    # A copy, because functions that run in threads can import modules in the meantime.
    paths = [Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
    return {
        path.relative_to(folder).as_posix(): path
        for path in paths
        if path.is_relative_to(folder) and "site-packages" not in path.parts and path.is_file()
    }


def _names(owner: Any) -> str:
    names = [name for name, value in vars(owner).items() if callable(value) and not name.startswith("_")]
    return ", ".join(names[:10]) or "nothing callable"


LARGEST = 16 * 1024 * 1024
"""Maximum size of one reply, in bytes."""
MOST_PIECES = 100_000
"""Maximum number of values that are taken from a generator. A generator can be endless."""


class NotJsonError(Exception):
    """A value cannot be written as JSON, or its JSON is too large. The error message describes the problem."""


def encode(value: object) -> str:
    """Encode a value as one line of ASCII JSON.

    The value can contain pydantic models, dataclasses, tuples and generators. Raises `NotJsonError` if the value
    cannot be encoded, or if the JSON is too large.
    """
    try:
        text = json.dumps(value, default=_to_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        # The library calls such a number an "Out of range float value".
        problem = "a number that is NaN or infinite" if str(error).startswith("Out of range") else str(error)
        raise NotJsonError(f"the function's return value cannot be written as JSON: {problem}") from None
    except RecursionError:
        raise NotJsonError("the function's return value is nested too deeply") from None
    if len(text) > LARGEST:
        raise NotJsonError(
            f"the function's return value is {len(text) / 1e6:.1f} MB as JSON; the maximum is {LARGEST / 1e6:.1f} MB"
        )
    return text


def collect_stream(pieces: Iterable[object]) -> object:
    """Collect the values that a generator yields.

    The result is one text if every value is text, else a list. Raises `NotJsonError` for more than
    `MOST_PIECES` values.
    """
    items: list[object] = []
    for piece in pieces:
        _add(items, piece)
    return _join_pieces(items)


async def collect_async_stream(pieces: AsyncIterator[object]) -> object:
    """Collect the values that an async generator yields, like `collect_stream`."""
    items: list[object] = []
    async for piece in pieces:
        _add(items, piece)
    return _join_pieces(items)


def _add(items: list[object], piece: object) -> None:
    items.append(piece)
    if len(items) > MOST_PIECES:
        raise NotJsonError(f"the function yields more than {MOST_PIECES:,} pieces")


def _join_pieces(items: list[object]) -> object:
    texts = [piece for piece in items if isinstance(piece, str)]
    return "".join(texts) if items and len(texts) == len(items) else items


def _to_plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    # A class has the same attributes as its instances, but no values.
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, GeneratorType):
        return collect_stream(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a `{type(value).__module__}.{type(value).__qualname__}`".replace("builtins.", ""))


LONGEST = 20_000
"""Maximum number of characters kept from the end of one call's printed output."""


class LogTail:
    """The last characters of a growing text."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)
        # Cut only at twice the length, so that a function that prints many
        # short lines does not copy the text each time.
        if self._size > 2 * LONGEST:
            tail = self.text
            self._parts, self._size = [tail], len(tail)

    @property
    def text(self) -> str:
        return "".join(self._parts)[-LONGEST:]


LOG: ContextVar[LogTail | None] = ContextVar("evalscribe_log", default=None)
"""Log of the current call; None in threads that the user's function has started."""


class RoutedOutput(io.TextIOBase):
    """Replacement for standard output and standard error.

    The output of a call goes to the log of that call. All other output goes to the original stream.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.buffer = stream.buffer

    def write(self, text: str) -> int:
        tail = LOG.get()
        if tail is None:
            return self._stream.write(text)
        tail.add(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True


def route_output() -> None:
    """Replace standard output and error with streams that write to the log of the current call."""
    sys.stdout, sys.stderr = RoutedOutput(sys.stdout), RoutedOutput(sys.stderr)
