"""Options that several commands share, and functions that parse times and durations."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from evalscribe.cli.parsing import OUTPUT
from evalscribe.errors import UsageError
from evalscribe.settings import Options

JUDGING = "Judging"
"""Heading in the help for the options that determine the judges and their cost."""
SOURCE = "Source of the run"
"""Heading in the help for the options that determine where a run is fetched from."""
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run: id, start of the id, name, file, folder, URL, or `sample`."),
]
Judge = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER/MODEL", help="Judge: `rules` or a model (default: see `doctor`).", rich_help_panel=JUDGING
    ),
]
Rubric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[@V]", help="Rubric to judge by. Default: the rubric `failure`.", rich_help_panel=JUDGING
    ),
]
Cascade = Annotated[
    bool,
    typer.Option("--cascade", help="Try rules, then a cheap model, then a better one.", rich_help_panel=JUDGING),
]
Batch = Annotated[
    bool,
    typer.Option("--batch", help="Use batches: half the price, answers within a day.", rich_help_panel=JUDGING),
]
Reports = Annotated[Path | None, typer.Option(metavar="DIR", help="Reports folder. Default: reports.")]
Date = Annotated[str | None, typer.Option(metavar="YYYY-MM-DD", help="Date of the report. Default: today.")]
Concurrency = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=64, help="Maximum number of concurrent calls. Default: 4.", rich_help_panel=JUDGING
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(min=0, metavar="USD", help="Maximum cost in US dollars. Default: 5.", rich_help_panel=JUDGING),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Maximum tokens for models without a known price.", rich_help_panel=JUDGING),
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="local|ray", help="Where judges and imports run. Default: local.", rich_help_panel=JUDGING),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Ray cluster to use. Default: a new local cluster.", rich_help_panel=JUDGING
    ),
]
Deployment = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of the Convex deployment.", rich_help_panel=SOURCE)
]
KeyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File with the Convex deploy key.", rich_help_panel=SOURCE)
]
EnvFile = Annotated[Path | None, typer.Option(metavar="FILE", help="File with API keys; replaces .env.local and .env.")]
Via = Annotated[
    str,
    typer.Option(metavar="http|npx", help="Access Convex by HTTP or with npx. Default: http.", rich_help_panel=SOURCE),
]
ConvexDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder in which to run npx (only with --via npx).", rich_help_panel=SOURCE),
]
Provider = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Provider of the model; overrides what the run says.", rich_help_panel=SOURCE),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Model of the run; overrides what the run says.", rich_help_panel=SOURCE),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=COLUMN,...",
        help="Map fields to columns, as in input=question.",
        show_default=False,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(metavar="SCORE", help="Lowest score that counts as passed. Default: 1."),
]
Tasks = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of Harbor tasks, or a checkout of tau-bench."),
]
ReferenceRun = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="A run of the reference answers, to find bad tasks."),
]
ReplayCommand = Annotated[
    str | None,
    typer.Option(metavar="COMMAND", help="Command that grades answers outside the sandbox."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Call models, which costs money, without asking.")]
Collection = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A collection: name or id. Default: the configured or only collection."),
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Condition on the agent runs, such as \"status = 'failed'\", or a SELECT that returns ids.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.", rich_help_panel=OUTPUT)]

AgentRunAnalysis = Annotated[
    bool, typer.Option("--agent-run-analysis", help="Short for --format agent-run-analysis.", hidden=True)
]


def workspace_options(values: Mapping[str, Any], without: str = "") -> Options:
    """Select the options of the workspace, by name, from the parameters of a command (`locals()`).

    `collection` is never selected: it is passed to the use cases instead, because some of them also look it up by id.
    `without` names a parameter that must not be selected because it has a different meaning in this command.
    """
    names = Options.model_fields.keys() - {"collection", without}
    return Options(**{name: value for name, value in values.items() if name in names})


def repeated_options(tasks: Path | None, reports: Path | None) -> list[str]:
    """Return the options of this command that the suggested next command must repeat."""
    return [*(["--tasks", str(tasks)] if tasks else []), *(["--reports", str(reports)] if reports else [])]


def checked_date(text: str | None) -> str | None:
    """Return a date as YYYY-MM-DD. Raises `UsageError` if it is invalid."""
    try:
        return None if text is None else date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"--date {text!r} is not a date of the form YYYY-MM-DD") from None


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def seconds(text: str) -> float:
    """Parse a duration such as `15m`, `1h30m`, `90s` or `500ms`.

    A number without a unit means seconds. Raises `UsageError` if the text is not a duration.
    """
    duration = text.strip().lower()
    if _NUMBER.fullmatch(duration):
        return float(duration)
    if not _WHOLE.fullmatch(duration):
        raise UsageError(f"{text!r} is not a duration: give 15m, 1h30m, 90s, 500ms, or seconds")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(duration))


def moment(text: str, option: str) -> str:
    """Convert a time to ISO 8601 in UTC.

    A time without a time zone is read as UTC. Raises `UsageError` for an invalid time; the message names the option.
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a time: give 2026-11-21 or 2026-11-21T14:05:00Z") from None
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        raise UsageError(f"{option} {text!r} is outside the years 1 to 9999 in UTC") from None
