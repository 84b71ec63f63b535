"""What kind of check a step of any suite is, by the tool that spoke, else by its name."""

from typing import Literal

CheckKind = Literal["install", "lint", "build", "tests", "other"]
TOOLS: dict[str, CheckKind] = {
    **dict.fromkeys(("eslint", "ruff", "flake8", "pylint", "biome", "clippy", "rubocop", "golangci-lint"), "lint"),
    **dict.fromkeys(("tsc", "mypy", "pyright", "javac", "rustc", "esbuild", "bundler", "go"), "build"),
    **dict.fromkeys(("vitest", "jest", "pytest", "unittest", "mocha", "go test", "cargo test"), "tests"),
    **dict.fromkeys(("pip", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "cargo"), "install"),
}
NAMES: dict[CheckKind, tuple[str, ...]] = {
    "lint": ("lint", "style", "format", "ruff", "flake8"),
    "tests": ("test", "spec", "check", "score", "grade"),
    "install": ("install", "depend", "setup", "environment"),
    "build": ("build", "compile", "deploy", "type", "tsc", "mypy", "push"),
}


def kind(step: str | None, tool: str | None) -> CheckKind:
    """The kind of the failed check. The step's name wins: a test step may well print what a compiler says."""
    for kind_, words in NAMES.items():
        if step and any(word in step.lower() for word in words):
            return kind_
    return TOOLS.get(tool or "", "other")
