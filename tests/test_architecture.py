"""Import contracts, start-up cost, structure limits, and texts that no file may contain."""

import ast
import re
import resource
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distributions, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from evalscribe.store.analyses import open_store
from support import structure
from support.machine_speed import slowness

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "agent/evalscribe"
HEAVY = ("langgraph", "anthropic", "openai", "sqlalchemy", "alembic", "git", "httpx2", "rich", "markdown_it", "scipy")
HELP_SECONDS = 0.3
HOSTS = [".".join(name) for name in (("pypi", "org"), ("python" + "hosted", "org"), ("npmjs", "com"), ("npmjs", "org"))]
FORBIDDEN = re.compile("|".join(map(re.escape, HOSTS)) + r"|registry\.npm|deb\.debian|(?<![\w.])/(work|tmp/venv|root)/")
"""Hosts of package registries, and absolute local paths."""


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def best_of(times: int, command: Callable[[], object]) -> float:
    """Return the lowest CPU time of several runs in seconds; elapsed time would depend on other processes."""
    seconds = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(seconds)


def test_imports_respect_the_import_contracts() -> None:
    """Run import-linter in a subprocess, as its logging configuration disables the loggers of other tests."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    checked = subprocess.run([*command, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_command_line_loads_no_heavy_modules() -> None:
    done = python(
        "-c",
        "import sys, evalscribe.cli.commands; print(*{name.split('.')[0] for name in sys.modules})",
    )
    assert set(done.stdout.split()).isdisjoint((*HEAVY, "pydantic", "asyncio"))


LISTS = """
import sys
from evalscribe.cli import run
assert run(sys.argv[1:]) == 0
print(*sys.modules)
"""


@pytest.mark.parametrize("command", ["experiments list", "reports list"])
def test_list_commands_load_no_judging_source_or_migration_modules(command: str, tmp_path: Path) -> None:
    open_store(tmp_path / ".evalscribe").close()
    ended = subprocess.run(
        [sys.executable, "-c", LISTS, *command.split()], cwd=tmp_path, capture_output=True, text=True
    )
    loaded = set(ended.stdout.split())
    assert "evalscribe.settings" in loaded, ended.stderr
    unneeded = {
        "evalscribe.llm",
        "evalscribe.analysis.graph",
        "evalscribe.sources",
        "evalscribe.judging",
        "evalscribe.redaction",
    }
    assert loaded.isdisjoint(
        (set(HEAVY) - {"sqlalchemy", "markdown_it"}) | unneeded | {"jinja2", "sqlglot", "zstandard"}
    )


WITHOUT_EXTRAS = """
import importlib, pathlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"openai", "github", "pandas", "mcp", "psycopg", "psycopg_pool", "ray"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import evalscribe.cli
import evalscribe.client
for path in sorted(pathlib.Path(evalscribe.cli.__file__).parent.glob("[a-z]*.py")):
    importlib.import_module(f"evalscribe.cli.{path.stem}")
"""


def test_every_command_loads_without_optional_packages() -> None:
    python("-c", WITHOUT_EXTRAS)


def test_every_benchmark_script_can_be_imported() -> None:
    """No default test runs these scripts, so a renamed function could break them unnoticed."""
    names = [f"benchmarks.{path.stem}" for path in sorted((ROOT / "tests/benchmarks").glob("*.py"))]
    python("-c", f"import importlib, sys; sys.path.insert(0, 'tests'); [*map(importlib.import_module, {names})]")


@pytest.mark.benchmark
def test_help_stays_within_its_time_limit() -> None:
    bare = best_of(3, lambda: python("-c", "pass"))
    help_ = best_of(5, lambda: python("-m", "evalscribe", "--help"))
    print(f"--help {help_:.2f} s, {help_ / bare:.1f} × an empty Python")
    assert help_ < HELP_SECONDS * slowness(time.process_time)


def test_no_file_contains_registry_hosts_or_local_paths() -> None:
    matches = []
    for path in tracked_files():
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                matches.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert matches == []


def test_structure_metrics_do_not_exceed_their_limits() -> None:
    """Limits may only be lowered; a new feature may raise the last five, with the reason beside the number."""
    assert len(structure.repeated_class_names()) <= 0, structure.repeated_class_names()
    assert len(structure.fragments()) <= 13, structure.fragments()
    assert structure.imports_in_functions().total() <= 104, structure.imports_in_functions()  # scipy's rank correlation
    assert len(structure.root_entries()) <= 31, structure.root_entries()  # web
    assert len(structure.protocols()) <= 16, sorted(structure.protocols())  # Grader, with five implementations
    assert len(structure.lonely_protocols()) <= 0, structure.lonely_protocols()
    loaded = structure.modules_of_command("analyze", "sample", "--judge", "rules")
    assert len(loaded) <= 173, loaded  # rules for simulated users, corrected verdicts, progress for the page


FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
COMMAND = re.compile(r"\b(?:evalscribe|git|createdb|prompts create|deployments create) [^`;]*")
"""A complete command to paste, up to a backtick or semicolon."""
CHILD_ARGUMENTS = ("git", "sources.npx", "experiments.control", "replay.sandbox")
"""Packages and modules that pass flags to git, npx, bubblewrap or our own worker."""
PRINTED = {
    "experiments.run_text": "lines that only commands print",
    "experiments.regression": "a note that is in the command's JSON; `mcp` replaces the flag",
    "git.forge": "advice that only `publish` prints",
    "mcp.tool": "patterns of flags in stored reasons, to be replaced",
    "reports.check": "the reason that only `reports check` prints",
}
"""Modules whose texts may name flags, with the reason."""


def string_constants(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string except docstrings; f-string placeholders become `{}`."""
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in docstrings | parts:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, texts))


def test_messages_outside_the_command_line_name_fields_not_flags() -> None:
    """MCP and the Python client show these messages too; `EvalscribeError.text` adapts field names to the caller."""
    flags = []
    for module in structure.modules():
        if module.name.split(".")[0] == "cli" or module.name in PRINTED:
            continue
        starts_children = module.name.startswith(CHILD_ARGUMENTS)
        for line, text in string_constants(module.tree):
            if starts_children and (FLAG.match(text) or (module.name == "sources.npx" and "Ignoring `--prod`" in text)):
                continue
            if FLAG.search(COMMAND.sub("", text)):
                flags.append(f"{module.name}:{line}: {text[:100]}")
    assert flags == []


def imported_packages() -> set[str]:
    """Return the top-level packages that the package imports, also inside functions; without the sample's files."""
    nodes = [node for module in structure.modules() for node in structure.statements(module.tree)]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    from_modules = {
        node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }
    return {name.partition(".")[0] for name in plain | from_modules}


def test_declared_dependencies_match_the_imported_packages() -> None:
    """Direct imports are declared even if another package brings them, as langgraph brings langsmith."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    optional = (line for name, lines in extras.items() if name not in ("all", "sample", "test") for line in lines)
    stated = [*project["dependencies"], *optional]
    declared = {canonicalize_name(Requirement(line).name) for line in stated}
    providers = {
        name: set(map(canonicalize_name, distribution_names))
        for name, distribution_names in packages_distributions().items()
    }
    used = {name: providers[name] for name in imported_packages() if name in providers and name != "evalscribe"}
    assert {name for name, distribution_names in used.items() if not distribution_names & declared} == set()
    assert declared - set().union(*used.values()) == set()


def required_distributions(name: str, extras: frozenset[str], seen: set[str]) -> set[str]:
    """Return the names of all distributions that `name` with `extras` requires on this platform."""
    for requirement in map(Requirement, requires(name) or ()):
        wanted = requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in extras | {""})
        key = canonicalize_name(requirement.name)
        if wanted and key not in seen:
            seen.add(key)
            required_distributions(requirement.name, frozenset(requirement.extras), seen)
    return seen


def pinned_versions() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def test_constraints_pin_the_installed_versions() -> None:
    installed: dict[str, Distribution] = {canonicalize_name(d.metadata["Name"]): d for d in distributions()}
    names = required_distributions("evalscribe", frozenset({"all", "test"}), set()) - {
        "evalscribe",
        "setuptools",
        "pip",
    }
    assert {name: installed[name].version for name in sorted(names)} == {
        n: pinned_versions().get(n) for n in sorted(names)
    }
