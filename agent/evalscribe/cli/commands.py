"""Register every command with the module that is imported when it runs."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from evalscribe import __version__


class CommandEntry(NamedTuple):
    """Location of a command, and its line in the list of its group."""

    module: str
    """Module below `evalscribe.cli`."""
    name: str
    """Name of a function, or of a `typer.Typer` with the commands of a group."""
    help: str
    hidden: bool = False


class GroupEntry(NamedTuple):
    """A group whose commands are in several modules, so that each imports only what its commands need."""

    help: str
    commands: "CommandTable"


CommandTable = Mapping[str, CommandEntry | GroupEntry]
COMMANDS: CommandTable = {
    "analyze": CommandEntry("analyze", "analyze", "Find out why a model failed a run, and whose fault it was."),
    "explain": CommandEntry("analyze", "explain", "Explain one failure in full; nothing is written."),
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
    "datasets": GroupEntry(
        "Make, fill, publish and compare datasets.",
        {
            "create": CommandEntry("datasets", "create", "Make a dataset; prints its id."),
            "list": CommandEntry("datasets", "list_all", "List the datasets with what they hold."),
            "show": CommandEntry("datasets", "show", "Show a dataset: its draft in numbers, and its versions."),
            "split": CommandEntry("datasets", "split", "Deal the draft's items out to train, dev and test."),
            "add-example": CommandEntry("dataset_items", "add_example", "Put one item into the draft; prints its key."),
            "add-run": CommandEntry("dataset_sources", "add_run", "Put evals of a stored run into the draft."),
            "upload": CommandEntry("dataset_items", "upload", "Put a file of JSON lines into the draft."),
            "upload-csv": CommandEntry("dataset_items", "upload_csv", "Put the rows of a table into the draft."),
            "from-reviews": CommandEntry(
                "dataset_sources", "from_reviews", "Make a dataset of labels that people gave."
            ),
            "publish": CommandEntry("datasets", "publish", "Freeze the draft as a version; prints its id."),
            "dedup": CommandEntry("dataset_items", "dedup_app", "Find items that ask and expect the same."),
            "versions": CommandEntry("datasets", "versions_app", "List, compare, restore and export versions."),
            "examples": CommandEntry("dataset_items", "examples_app", "List and remove items."),
        },
    ),
    "reports": GroupEntry(
        "Reports of analyses, and what runs of experiments came to.",
        {
            "list": CommandEntry(
                "reports", "list_all", "List the reports of analyses: run, model, and how many evals failed."
            ),
            "show": CommandEntry("reports", "show", "Show one report of an analysis."),
            "check": CommandEntry(
                "report_check", "check", "Check reports: readable, in agreement, quotations real; exit code 65 if not."
            ),
            "parse": CommandEntry("reports", "parse", "Read any report, ours or free-form, as one document."),
            "summary": CommandEntry(
                "experiments", "summary", "Show what a run of an experiment came to, and its gate."
            ),
            "failures": CommandEntry(
                "experiments", "failures", "Show which tries of a run of an experiment did not pass, and why."
            ),
            "wait": CommandEntry("experiment_runs", "wait", "Wait for a run of an experiment; exit as its gate says."),
            "ci": CommandEntry(
                "experiment_runs", "ci", "Print the gate of a finished run of an experiment; exit as it says."
            ),
            "export": CommandEntry(
                "experiments", "export", "Write a run of an experiment as csv, json, jsonl, junit, md or html."
            ),
        },
    ),
    "results": CommandEntry("collections", "results_app", "List and show what models answered to requests."),
    "review": CommandEntry("review", "app", "Correct labels; read, count and export corrections."),
    "scorers": CommandEntry("scorers", "app", "Make, list and show scorers of experiments."),
    "rubric": CommandEntry("rubric", "app", "Make, list, show, check and compare rubrics."),
    "experiments": GroupEntry(
        "Make, run and compare experiments on datasets.",
        {
            "create": CommandEntry("experiment_versions", "create", "Make an experiment; its id is printed."),
            "update": CommandEntry("experiment_versions", "update", "Give an experiment a new version."),
            "list": CommandEntry("experiments", "list_all", "List the experiments."),
            "show": CommandEntry("experiments", "show", "Show an experiment: target, dataset, scorers, config."),
            "archive": CommandEntry("experiments", "archive", "Put an experiment aside; its runs stay."),
            "run": CommandEntry("experiment_runs", "run", "Run an experiment, in a process of its own."),
            "sample": CommandEntry("experiment_versions", "sample", "Make an experiment to try things on."),
            "runs": GroupEntry(
                "List, show, cancel, resume, rescore and compare runs of experiments.",
                {
                    "list": CommandEntry("experiments", "list_runs", "List the runs of an experiment."),
                    "show": CommandEntry("experiments", "show_run", "Show a run: pass rate, scorers, gate, config."),
                    "cancel": CommandEntry("experiment_runs", "cancel", "Cancel a run."),
                    "resume": CommandEntry(
                        "experiment_runs", "resume", "Let a run go on that failed, was cancelled or lost its worker."
                    ),
                    "rescore": CommandEntry(
                        "experiment_runs", "rescore", "Score what a run gave again, without running anything."
                    ),
                    "compare": CommandEntry(
                        "experiments", "compare", "Compare two runs: verdict, rates, scorers, what flipped."
                    ),
                    "regression-dataset": CommandEntry(
                        "experiment_runs",
                        "regression_dataset",
                        "Make a dataset and an experiment of a run's failures.",
                    ),
                    "work": CommandEntry("experiment_runs", "work", "Do what is left of a run.", hidden=True),
                },
            ),
        },
    ),
    "scores": CommandEntry("scores", "app", "List scores of experiments, and show what they rest on."),
    "deployments": CommandEntry("deployments", "app", "Record builds of components that experiments run."),
    "prompts": CommandEntry("target_prompts", "app", "Make, list and show prompts that experiments run."),
}


class Commands(Mapping[str, Any]):
    """Command parsers by name. A command's module is imported when its parser is requested."""

    def __init__(self, table: CommandTable) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        entry = self._table[name]
        if isinstance(entry, GroupEntry):
            group: Any = get_group(typer.Typer(cls=LazyGroup, rich_markup_mode=None, no_args_is_help=True))
            group.name, group.help, group.commands = name, entry.help, Commands(entry.commands)
            return group
        command = getattr(import_module(f"evalscribe.cli.{entry.module}"), entry.name)
        if isinstance(command, typer.Typer):
            parser: Any = get_group(command)
            parser.name, parser.help = name, entry.help
            return parser
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name, short_help=entry.help, hidden=entry.hidden)(command)
        return get_command(single)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def lines(self) -> list[tuple[str, str]]:
        """Return names and help of the commands that are not hidden."""
        return [(name, entry.help) for name, entry in self._table.items() if not getattr(entry, "hidden", False)]


class LazyGroup(TyperGroup):
    """A group of commands in a table. Listing them imports none."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands(COMMANDS)  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (the signature of the base class)
        with formatter.section("Commands"):
            formatter.write_dl(self.commands.lines())  # type: ignore[attr-defined]


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
