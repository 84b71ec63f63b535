"""Measure the package's structure: modules, repeated class names, imports inside functions, and import paths."""

import ast
import functools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agent/evalscribe"
FRAGMENT = 40
"""A module with fewer lines than this is a fragment, unless it is an `__init__`."""


class Module(NamedTuple):
    """One parsed module of the package, without the sample's files."""

    name: str
    """Dotted name of the module within the package, such as `store.file`; empty for the package itself."""
    path: Path
    tree: ast.Module
    lines: int

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@functools.cache
def modules() -> tuple[Module, ...]:
    """Return all modules except those in `sample/`, which are graded or read as data."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] == "sample":
            continue
        text = path.read_text("utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, path, ast.parse(text), text.count("\n")))
    return tuple(found)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node.

    `ast.walk` also visits expressions. They are nine tenths of the nodes and contain no statements.
    """
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child)


def repeated_class_names() -> dict[str, list[str]]:
    """Return the public class names that several modules define, each with the names of the modules."""
    homes: dict[str, set[str]] = {}
    for module in modules():
        for node in statements(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(module.name)
    return {name: sorted(where) for name, where in sorted(homes.items()) if len(where) > 1}


def fragments() -> list[str]:
    """Return the names of the modules with fewer than `FRAGMENT` lines."""
    return [module.name for module in modules() if module.lines < FRAGMENT and not module.is_package]


def imports_in_functions() -> Counter[str]:
    """Return the number of import statements inside functions, for each module."""
    counts: Counter[str] = Counter()
    for module in modules():
        functions = (n for n in statements(module.tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
        # A set, because a statement in a nested function is also in the outer function.
        inside = {node for function in functions for node in statements(function)}
        counts[module.name] += sum(isinstance(node, (ast.Import, ast.ImportFrom)) for node in inside)
    return +counts


def root_entries() -> list[str]:
    """Return the names of modules and packages at the top of the package, including `__init__` and `__main__`."""
    return sorted(
        entry.name
        for entry in PACKAGE.iterdir()
        # git leaves the folder of a removed package if it has bytecode.
        if entry.suffix in (".py", ".typed") or (entry.is_dir() and any(entry.rglob("*.py")))
    )


@functools.cache
def protocols() -> dict[str, list[str]]:
    """Return the names of all protocols of the package, each with the classes that have all of its members.

    Inherited members count. Classes of the tests, such as fakes, are included.
    """
    shapes: dict[str, set[str]] = {}
    classes: list[ast.ClassDef] = []
    for module in modules():
        for node in _classes(module.tree):
            if _is_protocol(node):
                shapes[node.name] = _members(node)
            else:
                classes.append(node)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        found = _classes(ast.parse(path.read_text("utf-8")))
        classes += [node for node in found if not _is_protocol(node)]
    own = {node.name: node for node in classes}
    having = [(node.name, _with_inherited(node, own)) for node in classes]
    return {name: [other for other, has in having if members and members <= has] for name, members in shapes.items()}


def _with_inherited(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> set[str]:
    bases = [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
    return _members(node).union(*(_with_inherited(base, classes) for base in bases if base is not node))


def _classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in statements(tree) if isinstance(node, ast.ClassDef))


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split("[")[0].split(".")[-1] == "Protocol" for base in node.bases)


def _members(node: ast.ClassDef) -> set[str]:
    names = set()
    for item in ast.walk(node):
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(item.name)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names.add(item.target.id)
        elif isinstance(item, ast.Assign):
            names |= {target.id for target in item.targets if isinstance(target, ast.Name)}
        elif isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "self":
            names.add(item.attr)
    return names


def lonely_protocols() -> list[str]:
    """Return the protocols with fewer than two implementations. Implementations in tests count."""
    return sorted(name for name, classes in protocols().items() if len(classes) < 2)


def longest_import_path(start: str = "cli") -> list[str]:
    """Return the longest chain of imports that starts in a module of `start`.

    Imports under `TYPE_CHECKING` do not count. A package that only re-exports names counts as a step.
    """
    known = {module.name for module in modules()}
    edges = {module.name: sorted(_imported(module, known)) for module in modules()}

    @functools.cache
    def chain(name: str) -> tuple[str, ...]:
        return (name, *max((chain(other) for other in edges[name]), key=len, default=()))

    starts = [name for name in known if name == start or name.startswith(f"{start}.")]
    return list(max(map(chain, starts), key=len))


_RUN = """
import sys
from pathlib import Path
from evalscribe.cli import run
code = run(sys.argv[2:])
names = [name for name in sys.modules if name == "evalscribe" or name.startswith("evalscribe.")]
Path(sys.argv[1]).write_text("\\n".join(sorted(names)))
sys.exit(code)
"""


def modules_of_command(*arguments: str) -> list[str]:
    """Return the modules of the package that a command has imported when it ends. It runs in a temporary folder.

    Raises:
        RuntimeError: The command failed; its output is in the message.
    """
    with TemporaryDirectory() as folder:
        names = Path(folder, "modules")
        done = subprocess.run(
            [sys.executable, "-c", _RUN, str(names), *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"evalscribe {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        return names.read_text("utf-8").splitlines()


def _imported(module: Module, known: set[str]) -> set[str]:
    names = set()
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "evalscribe":
            base = node.module.removeprefix("evalscribe").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}" if base else alias.name
                names.add(full if full in known else base)
    return (names & known) - {module.name, ""}
