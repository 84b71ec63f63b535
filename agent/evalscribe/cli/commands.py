"""Register every command with its module. The module is imported only when the command is run."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import CompletionItem, TyperGroup  # type: ignore[attr-defined]  # of its vendored click
from typer.main import get_command, get_group

from evalscribe import __version__
from evalscribe.cli.parsing import CommandParser, Quiet, Verbose, set_output, with_common_options, write_options

ANALYSE, DATA, REVIEW, EXPERIMENTS, SET_UP = "Analyse", "Data", "Review", "Experiments", "Set-up"


class CommandEntry(NamedTuple):
    """The location of a command's function, and how the command appears in the list of its group."""

    module: str
    """Name of the module in `evalscribe.cli`."""
    name: str
    """Name of the function in the module."""
    help: str
    panel: str = "Commands"
    """Heading under which the command is listed."""
    hidden: bool = False
    """True for the former name of a command, which still works but is not listed."""


class GroupEntry(NamedTuple):
    """A group of commands and how it appears in the list of commands."""

    help: str
    commands: "CommandTable"
    panel: str = "Commands"
    hidden: bool = False


CommandTable = Mapping[str, CommandEntry | GroupEntry]

RUBRICS = GroupEntry(
    "Create, list, check, compare and delete rubrics.",
    {
        "create": CommandEntry("rubric", "create", "Create the next version of a rubric from its file."),
        "list": CommandEntry("rubric", "list_all", "List the rubrics and their latest versions."),
        "show": CommandEntry("rubric", "show", "Show a rubric, or one version of it, as YAML."),
        "validate": CommandEntry("rubric", "validate", "Check that files are valid rubrics."),
        "diff": CommandEntry("rubric", "diff", "Show how two rubrics or versions differ."),
        "delete": CommandEntry("rubric", "delete", "Delete all versions of a rubric, after asking."),
    },
    ANALYSE,
)
SCORERS = GroupEntry(
    "Create, list and show scorers.",
    {
        "create": CommandEntry("scorers", "create", "Create a scorer or its next version; print its id."),
        "list": CommandEntry("scorers", "list_all", "List your scorers, or the built-in ones."),
        "show": CommandEntry("scorers", "show", "Show a scorer: what it checks, its config, its version."),
    },
)
SCORES = GroupEntry(
    "List scores, and show the evidence behind them.",
    {
        "list": CommandEntry("scores", "list_all", "List the scores of a run, an item or a scorer."),
        "evidence": CommandEntry("scores", "evidence", "Show what a score is based on."),
    },
)
DEPLOYMENTS = GroupEntry(
    "Record the builds that experiments run.",
    {
        "create": CommandEntry("deployments", "create", "Record a build after checking it; print its id."),
        "list": CommandEntry("deployments", "list_deployments", "List the deployments."),
        "show": CommandEntry("deployments", "show", "Show a deployment: components, build, folder."),
    },
)
PROMPTS = GroupEntry(
    "Create, list and show prompts that experiments run.",
    {
        "create": CommandEntry("target_prompts", "create", "Create a prompt or its next version; print its id."),
        "list": CommandEntry("target_prompts", "list_prompts", "List the prompts and their latest versions."),
        "show": CommandEntry("target_prompts", "show", "Show a prompt, or one version of it."),
    },
)
WAIT = CommandEntry("experiment_runs", "wait", "Wait for a run; exit with its gate's code.")
GATE = CommandEntry("experiment_runs", "gate", "Print the gate of a run; exit with its code.")
FAILURES = CommandEntry("experiments", "failures", "Show which trials of a run did not pass, and why.")
SUMMARY = CommandEntry("experiments", "summary", "Show pass rate, scorers, cost and gate of a run.")
EXPORT = CommandEntry("experiments", "export", "Write a run as CSV, JSON, JUnit, Markdown, HTML.")

COMMANDS: CommandTable = {
    "analyze": CommandEntry("analyze", "analyze", "Find out why evals failed, and whose fault it was.", ANALYSE),
    "explain": CommandEntry("analyze", "explain", "Explain one failed eval in full; write nothing.", ANALYSE),
    "prove": CommandEntry("prove", "prove", "Replay failures to show whose fault they were.", ANALYSE),
    "compare": CommandEntry("compare", "compare", "Compare runs: what changed, why, and is it noise?", ANALYSE),
    "explore": CommandEntry("explore", "explore", "Ask a question about a whole collection of runs.", ANALYSE),
    "recurring": CommandEntry("recurring", "recurring", "List the evals that keep failing.", ANALYSE),
    "judge": CommandEntry("judge", "judge", "Judge agent runs or failed evals by a rubric.", ANALYSE),
    "rubrics": RUBRICS,
    "import": CommandEntry("importing", "import_runs", "Import runs into a collection.", DATA),
    "fetch": CommandEntry("importing", "fetch", "Download a run into a folder, with secrets removed.", DATA),
    "export": CommandEntry("collections", "export", "Write the runs of a collection as JSON lines.", DATA),
    "sql": CommandEntry("sql", "sql", "Query a collection with SQL (read-only).", DATA),
    "collections": GroupEntry(
        "List, show and change collections of runs.",
        {
            "list": CommandEntry("collections", "list_all", "List the collections and their contents."),
            "show": CommandEntry("collections", "show", "Show the runs of a collection."),
            "use": CommandEntry("collections", "use", "Make a collection the default."),
            "remove": CommandEntry("collections", "remove", "Take runs out of a collection."),
            "delete": CommandEntry("collections", "delete", "Delete a collection, after asking."),
        },
        DATA,
    ),
    "results": GroupEntry(
        "List and show the answers to SDK requests.",
        {
            "list": CommandEntry("collections", "list_sets", "List result sets and their progress."),
            "show": CommandEntry("collections", "show_results", "Show the results of a set."),
        },
        DATA,
    ),
    "reports": GroupEntry(
        "List, show and check the reports of analyses.",
        {
            "list": CommandEntry("reports", "list_all", "List the reports: run, model, labels."),
            "show": CommandEntry("reports", "show", "Show a report."),
            "check": CommandEntry("report_check", "check", "Check reports: format, consistency, quotations."),
            "parse": CommandEntry("reports", "parse", "Read any report as data, even a free-form one."),
            "summary": SUMMARY._replace(hidden=True),
            "failures": FAILURES._replace(hidden=True),
            "wait": WAIT._replace(hidden=True),
            "ci": GATE._replace(hidden=True),
            "export": EXPORT._replace(hidden=True),
        },
        REVIEW,
    ),
    "view": CommandEntry("view", "view", "Show reports in the browser: decide, compare, publish.", REVIEW),
    "discuss": CommandEntry("discuss", "discuss", "Ask questions about a report.", REVIEW),
    "apply": CommandEntry("apply", "apply", "Propose a recommended change; commit it once you agree.", REVIEW),
    "publish": CommandEntry("publish", "publish", "Push a report and open its pull request.", REVIEW),
    "review": GroupEntry(
        "Correct labels; read, count and export corrections.",
        {
            "label": CommandEntry("review", "label", "Correct or confirm the label of a finding."),
            "sync": CommandEntry("review", "sync", "Read the corrections in merged reports."),
            "accuracy": CommandEntry("review", "accuracy", "Measure judges against people's corrections."),
            "export": CommandEntry("review", "export", "Write the labels as a dataset for `judge-eval`."),
        },
        REVIEW,
    ),
    "judge-eval": CommandEntry("judge", "judge_eval", "Measure how well judges agree with human labels.", REVIEW),
    "experiments": GroupEntry(
        "Create, run and compare experiments on datasets.",
        {
            "create": CommandEntry("experiment_versions", "create", "Create an experiment; print its id."),
            "update": CommandEntry("experiment_versions", "update", "Create the next version of an experiment."),
            "list": CommandEntry("experiments", "list_all", "List the experiments."),
            "show": CommandEntry("experiments", "show", "Show an experiment: target, dataset, scorers, config."),
            "archive": CommandEntry("experiments", "archive", "Archive an experiment; its runs stay."),
            "delete": CommandEntry("experiments", "delete", "Delete an experiment with its runs, after asking."),
            "run": CommandEntry("experiment_runs", "run", "Run an experiment in the background, or wait for it."),
            "sample": CommandEntry("experiment_versions", "sample", "Create a sample experiment to try."),
            "runs": GroupEntry(
                "List, show, wait for, compare and export runs.",
                {
                    "list": CommandEntry("experiments", "list_runs", "List the runs of an experiment."),
                    "show": CommandEntry("experiments", "show_run", "Show a run: pass rate, scorers, gate, config."),
                    "wait": WAIT,
                    "gate": GATE,
                    "failures": FAILURES,
                    "summary": SUMMARY,
                    "compare": CommandEntry("experiments", "compare", "Compare two runs: verdict, rates, scorers."),
                    "export": EXPORT,
                    "cancel": CommandEntry("experiment_runs", "cancel", "Cancel a run."),
                    "resume": CommandEntry("experiment_runs", "resume", "Resume a run that failed or was cancelled."),
                    "rescore": CommandEntry("experiment_runs", "rescore", "Score the stored outputs of a run again."),
                    "regression-dataset": CommandEntry(
                        "experiment_runs", "regression_dataset", "Turn the failures of a run into a dataset."
                    ),
                    "delete": CommandEntry("experiments", "delete_run", "Delete a run, after asking."),
                    "work": CommandEntry("experiment_runs", "work", "Execute a run's remaining trials.", hidden=True),
                },
            ),
            "scorers": SCORERS,
            "scores": SCORES,
            "deployments": DEPLOYMENTS,
            "prompts": PROMPTS,
        },
        EXPERIMENTS,
    ),
    "datasets": GroupEntry(
        "Create, fill, publish and compare datasets.",
        {
            "create": CommandEntry("datasets", "create", "Create a dataset; print its id."),
            "list": CommandEntry("datasets", "list_all", "List the datasets and their contents."),
            "show": CommandEntry("datasets", "show", "Show a dataset: its draft and its versions."),
            "split": CommandEntry("datasets", "split", "Split the draft into train, dev and test."),
            "add-example": CommandEntry("dataset_items", "add_example", "Add one item to the draft; print its key."),
            "add-run": CommandEntry("dataset_sources", "add_run", "Add evals of a stored run to the draft."),
            "upload": CommandEntry("dataset_items", "upload", "Add a file of JSON lines to the draft."),
            "upload-csv": CommandEntry("dataset_items", "upload_csv", "Add the rows of a CSV file to the draft."),
            "from-reviews": CommandEntry("dataset_sources", "from_reviews", "Build a dataset from human labels."),
            "publish": CommandEntry("datasets", "publish", "Publish the draft as a version; print its id."),
            "delete": CommandEntry("datasets", "delete", "Delete a dataset, after asking."),
            "dedup": GroupEntry(
                "Find and remove duplicate items.",
                {
                    "preview": CommandEntry(
                        "dataset_items", "preview", "Show which items of the draft are duplicates."
                    ),
                    "apply": CommandEntry("dataset_items", "apply", "Remove duplicates from the draft."),
                },
            ),
            "versions": GroupEntry(
                "List, compare, restore and export versions.",
                {
                    "list": CommandEntry("datasets", "list_versions", "List the versions of a dataset."),
                    "compare": CommandEntry("datasets", "compare", "Show what changed between two versions."),
                    "restore-draft": CommandEntry("datasets", "restore_draft", "Replace the draft with a version."),
                    "export": CommandEntry("datasets", "export", "Write the items of a version."),
                },
            ),
            "examples": GroupEntry(
                "List and remove items.",
                {
                    "list": CommandEntry("dataset_items", "list_examples", "List the items of the draft or a version."),
                    "remove": CommandEntry("dataset_items", "remove", "Remove items from the draft."),
                },
            ),
        },
        EXPERIMENTS,
    ),
    "init": CommandEntry("init", "init", "Set up a folder for people and coding agents.", SET_UP),
    "doctor": CommandEntry("doctor", "doctor", "Show what is configured, reachable and missing.", SET_UP),
    "mcp": CommandEntry("mcp", "mcp", "Serve this folder to a coding agent over MCP.", SET_UP),
    "schema": CommandEntry("rubric", "schema", "Print the JSON Schema of a document.", SET_UP),
    "gc": CommandEntry("collections", "gc", "Free space: delete data that nothing uses.", SET_UP),
    "rubric": RUBRICS._replace(hidden=True),
    "scorers": SCORERS._replace(hidden=True),
    "scores": SCORES._replace(hidden=True),
    "deployments": DEPLOYMENTS._replace(hidden=True),
    "prompts": PROMPTS._replace(hidden=True),
}


class Commands(Mapping[str, Any]):
    """Command parsers, keyed by name. The module of a command is imported when its parser is first needed."""

    def __init__(self, table: CommandTable) -> None:
        self.table = table

    def __getitem__(self, name: str) -> Any:
        entry = self.table[name]
        if isinstance(entry, GroupEntry):
            group: Any = get_group(typer.Typer(cls=LazyGroup, rich_markup_mode=None, no_args_is_help=True))
            # A new `LazyGroup` has the commands of the top level.
            group.name, group.help, group.commands = name, entry.help, Commands(entry.commands)
            return group
        function = getattr(import_module(f"evalscribe.cli.{entry.module}"), entry.name)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name, cls=CommandParser, short_help=entry.help, hidden=entry.hidden)(
            with_common_options(function)
        )
        return get_command(single)

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)


class LazyGroup(TyperGroup):
    """A command group that lists the commands in `COMMANDS` without importing them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands(COMMANDS)  # type: ignore[assignment]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        write_options(self.get_params(ctx), formatter, apart=False)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (the signature of the base class)
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self._visible_entries():
            panels.setdefault(entry.panel, []).append((name, entry.help))
        width = max(len(name) for name, _ in self._visible_entries())
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), line) for name, line in rows])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 (as above)
        return [
            CompletionItem(name, help=entry.help)
            for name, entry in self._visible_entries()
            if name.startswith(incomplete)
        ]

    def _visible_entries(self) -> list[tuple[str, CommandEntry | GroupEntry]]:
        table = self.commands.table  # type: ignore[attr-defined]
        return [(name, entry) for name, entry in table.items() if not entry.hidden]


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"evalscribe {__version__}")
        raise typer.Exit


@app.callback()
def evalscribe(
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find out why a model failed an eval run, and whose fault it was."""
    set_output(quiet=quiet, verbose=verbose)
