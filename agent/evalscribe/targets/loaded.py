"""A user's function, found by its address, and how it wants to be called. Runs beside the user's code.

A component is called as `fn(input)`, or as `fn(input, context)` where its second parameter is required or is called
`context`. A scorer is called as `custom_scorer` says.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CALL = "__evalscribe_call__"
ABOUT = "__evalscribe_scorer__"
"""As in `custom_scorer`, which is not imported here: it takes pydantic, and components need none."""
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Unusable(Exception):
    """Why the address names nothing that can be called; one line."""


class Component:
    """A function that takes an input. Calling it gives what it gives: a value, an awaitable, a generator."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.about: Mapping[str, Any] = {}
        self.awaited = _is_async(function)
        self._context = _context_name(function)

    def __call__(self, payload: Any) -> Any:
        if self._context is None:
            return self.function(payload["input"])
        context = SimpleNamespace(**payload["context"])
        if self._context:
            return self.function(payload["input"], **{self._context: context})
        return self.function(payload["input"], context)


class Scorer:
    """A function that was decorated as a scorer: it is called through what its decorator left there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        answering = getattr(function, CALL, None)
        if answering is None:
            raise Unusable("is no scorer: put `@evalscribe.scorer` above it")
        self.function = function
        self.awaited = _is_async(answering)
        self.about: Mapping[str, Any] = getattr(function, ABOUT)
        self._answering = answering

    def __call__(self, payload: Any) -> Any:
        return self._answering(payload)


Loaded = Component | Scorer


def load(address: str, kind: str) -> Loaded:
    """Import it. Raises `Unusable`, and whatever the module raises."""
    module_name, _, path = address.partition(":")
    found: Any = import_module(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            raise Unusable(f"`{module_name}` has no `{path}`; it has {_names(found)}")
        found = getattr(found, name)
    if not callable(found):
        raise Unusable(f"is no function but a `{type(found).__name__}`")
    return Scorer(found) if kind == "scorer" else Component(found)


def described(loaded: Loaded, folder: Path) -> dict[str, Any]:
    """What is known of it without calling it."""
    function = loaded.function
    return {
        "doc": inspect.getdoc(function) or "",
        "parameters": list(_signature(function)),
        "code": _code(folder),
        "about": dict(loaded.about),
    }


def _signature(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some that are written in C tell none
        return {"input": inspect.Parameter("input", inspect.Parameter.POSITIONAL_ONLY)}


def _context_name(function: Callable[..., Any]) -> str | None:
    """None: without a context; empty: as the second argument; else by that name."""
    parameters = list(_signature(function).values())
    named = [one for one in parameters if one.kind in _NAMED]
    several = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    required = [
        one.name for one in parameters if one.default is one.empty and one.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    if not named and not several:
        raise Unusable("takes no input: it is called as fn(input) or fn(input, context)")
    wanted = [one for one in named if one.default is one.empty]
    unknown = [*[one.name for one in wanted[2:]], *[name for name in required if name != "context"]]
    if unknown:
        raise Unusable(f"wants more than fn(input, context): {', '.join(unknown)}")
    if len(wanted) > 1:
        return ""
    return "context" if "context" in [one.name for one in parameters[1:]] else None


def _is_async(function: Callable[..., Any]) -> bool:
    """What only turns out to be so when it is called is awaited all the same."""
    candidates = (function, getattr(function, "__call__", None))  # noqa: B004
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in candidates if one)


def _code(folder: Path) -> str:
    """Content id of every module of the folder that is loaded, by its name in the folder."""
    digest = hashlib.sha256()
    for name, path in sorted(_own_files(folder).items()):
        digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return f"sha256:{digest.hexdigest()}"


def _own_files(folder: Path) -> dict[str, Path]:
    paths = [Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
    return {
        path.relative_to(folder).as_posix(): path
        for path in paths
        if path.is_relative_to(folder) and "site-packages" not in path.parts and path.is_file()
    }


def _names(found: Any) -> str:
    names = [name for name, value in vars(found).items() if callable(value) and not name.startswith("_")]
    return ", ".join(names[:10]) or "nothing that can be called"
