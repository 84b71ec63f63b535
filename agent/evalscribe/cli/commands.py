"""Register every command with the module that is imported when it runs."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from evalscribe import __version__


class CommandEntry(NamedTuple):
    """Location of a command, and its line in the list of all commands."""

    module: str
    """Module below `evalscribe.cli`."""
    name: str
    """Name of a function, or `app` for a group of commands."""
    help: str


COMMANDS = {
    "analyze": CommandEntry("analyze", "analyze", "Find out why a model failed a run, and whose fault it was."),
    "explain": CommandEntry("explain", "explain", "Explain one failure in full; nothing is written."),
    "compare": CommandEntry("compare", "compare", "Compare runs or checkpoints: what changed, is it noise, why."),
    "explore": CommandEntry("explore", "explore", "Ask a question about a whole collection of runs."),
    "discuss": CommandEntry("discuss", "discuss", "Discuss a report: ask about it, or search it."),
    "apply": CommandEntry("apply", "apply", "Propose a recommended change, commit it after a yes."),
    "fetch": CommandEntry("importing", "fetch", "Write a run into a snapshot folder, redacted."),
    "import": CommandEntry("importing", "import_runs", "Bring runs into a collection."),
    "export": CommandEntry("collections", "export", "Write runs of a collection as JSON lines."),
    "sql": CommandEntry("sql", "sql", "Ask a collection in SQL; it only reads."),
    "judge": CommandEntry("judge", "judge", "Judge agent runs or failed evals by a rubric."),
    "judge-eval": CommandEntry("judge", "judge_eval", "Compare judges with the labels that people gave."),
    "publish": CommandEntry("publish", "publish", "Push a report on a branch of its own and open its pull request."),
    "recurring": CommandEntry("recurring", "recurring", "Show each failing eval over all reports."),
    "mcp": CommandEntry("mcp", "mcp", "Serve this workspace to a coding agent over MCP."),
    "init": CommandEntry("init", "init", "Write a workspace for people and coding agents."),
    "gc": CommandEntry("collections", "gc", "Forget what nobody needs any more."),
    "doctor": CommandEntry("doctor", "doctor", "Show what is configured, reachable and missing."),
    "schema": CommandEntry("schema", "schema", "Print the JSON Schema of a document."),
    "collections": CommandEntry("collections", "app", "List, show and change collections of runs."),
    "datasets": CommandEntry("datasets", "app", "Make, fill, publish and compare datasets."),
    "reports": CommandEntry("reports", "app", "Reports of analyses, and what runs of experiments came to."),
    "results": CommandEntry("results", "app", "List and show what models answered to requests."),
    "review": CommandEntry("review", "app", "Correct labels; read, count and export corrections."),
    "scorers": CommandEntry("scorers", "app", "Make, list and show scorers of experiments."),
    "rubric": CommandEntry("rubric", "app", "Make, list, show, check and compare rubrics."),
    "experiments": CommandEntry("experiments", "app", "Make, run and compare experiments on datasets."),
    "scores": CommandEntry("scores", "app", "List scores of experiments, and show what they rest on."),
    "deployments": CommandEntry("deployments", "app", "Record builds of components that experiments run."),
    "prompts": CommandEntry("target_prompts", "app", "Make, list and show prompts that experiments run."),
}


class Commands(Mapping[str, Any]):
    """Command parsers by name. A command's module is imported when its parser is requested."""

    def __getitem__(self, name: str) -> Any:
        entry = COMMANDS[name]
        command = getattr(import_module(f"evalscribe.cli.{entry.module}"), entry.name)
        if isinstance(command, typer.Typer):
            parser: Any = get_group(command)
            parser.name, parser.help = name, entry.help
            return parser
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name, short_help=entry.help)(command)
        return get_command(single)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(TyperGroup):
    """The group of all commands. Listing them imports none."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (the signature of the base class)
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


app = typer.Typer(
    cls=LazyGroup, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"evalscribe {__version__}")
        raise typer.Exit


@app.callback()
def evalscribe(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out why a model failed an eval run, and whose fault it was."""
