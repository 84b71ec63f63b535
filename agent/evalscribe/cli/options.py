"""Define options shared by several commands, and parse times."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from evalscribe.cli.parsing import OUTPUT
from evalscribe.errors import UsageError
from evalscribe.settings import Options

RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's URL or id, the beginning of an imported one's id, a file, a snapshot folder, or `sample`.",
        show_default=False,
    ),
]
Judge = Annotated[
    str | None,
    typer.Option(
        metavar="rules|PROVIDER/MODEL",
        help="Who judges. Default: claude-opus-5-5 when ANTHROPIC_API_KEY is set, else rules.",
        show_default=False,
    ),
]
Rubric = Annotated[
    str | None,
    typer.Option(metavar="NAME[@V]", help="Judge failures by this rubric. Default: failure.", show_default=False),
]
Cascade = Annotated[
    bool,
    typer.Option("--cascade", help="Rules, then a cheap model that tags, then an expensive one where it is needed."),
]
Batch = Annotated[
    bool, typer.Option("--batch", help="Ask through Message Batches: half the price, an answer within a day.")
]
Reports = Annotated[Path | None, typer.Option(metavar="DIR", help="The folder of reports.", show_default=False)]
Date = Annotated[
    str | None, typer.Option(metavar="YYYY-MM-DD", help="Date of the analysis. Default: today.", show_default=False)
]
Concurrency = Annotated[int | None, typer.Option(metavar="N", min=1, max=64, help="Sub-agents at a time. Default: 4.")]
Budget = Annotated[float | None, typer.Option(min=0, metavar="USD", help="Spend at most this. Default: 5.")]
MaxTokens = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Use at most so many tokens of models without a price.")
]
Engine = Annotated[
    str | None,
    typer.Option(metavar="local|ray", help="Where the work is done. Default: local, this process.", show_default=False),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="With --engine ray: a cluster's head. Default: this machine.", show_default=False
    ),
]
Deployment = Annotated[str | None, typer.Option(metavar="URL", help="The Convex deployment.", show_default=False)]
KeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="A file that holds the deploy key.")]
EnvFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file of settings, in place of .env.local and .env.")
]
Via = Annotated[str, typer.Option(metavar="http|npx", help="How to reach Convex. Default: http.", show_default=False)]
ConvexDir = Annotated[Path | None, typer.Option(metavar="DIR", help="With --via npx: the folder to run it in.")]
Provider = Annotated[
    str | None,
    typer.Option(metavar="PROVIDER", help="The run's provider, where the source has it wrong or not at all."),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="MODEL|PROVIDER/MODEL", help="The run's model, where the source has it wrong or not at all."),
]
Collection = Annotated[
    str | None,
    typer.Option(
        metavar="COLLECTION",
        help="A collection, by name or id. Default: the configured one, else the only one there is.",
        show_default=False,
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Only these agent runs: a condition, such as \"status = 'failed'\", or a SELECT that gives id.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.", rich_help_panel=OUTPUT)]


def workspace_options(values: Mapping[str, Any], without: str = "") -> Options:
    """Pick the workspace's options from a command's parameters, `locals()`, by name.

    `collection` is not among them: use cases take it, because some also look it up by id. `without` names a parameter
    that means something else in this command.
    """
    names = Options.model_fields.keys() - {"collection", without}
    return Options(**{name: value for name, value in values.items() if name in names})


def checked_date(text: str | None) -> str | None:
    """Return the date unchanged. Raises `UsageError` if it is invalid."""
    try:
        return None if text is None else date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"--date {text!r} is not a date of the form YYYY-MM-DD") from None


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def seconds(text: str) -> float:
    """Parse a duration: `15m`, `1h30m`, `90s`, `500ms`; a bare number is seconds. Raises `UsageError`."""
    given = text.strip().lower()
    if _NUMBER.fullmatch(given):
        return float(given)
    if not _WHOLE.fullmatch(given):
        raise UsageError(f"{text!r} is not a length of time: give 15m, 1h30m, 90s, 500ms, or seconds")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(given))


def moment(text: str, option: str) -> str:
    """Return a time as ISO 8601 in UTC, the default zone. Raises `UsageError` naming the option."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a time: give 2026-11-21 or 2026-11-21T14:05:00Z") from None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        raise UsageError(f"{option} {text!r} is outside the years 1 to 9999 in UTC") from None
