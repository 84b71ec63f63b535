"""Print results on standard output, or write lines to a file. Every command loads this module, so it imports little."""

import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from shlex import quote
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from pydantic import BaseModel

from evalscribe.cli import streams
from evalscribe.errors import write_error
from evalscribe.reports.explanation import explanation as explained_text
from evalscribe.text import dollars, visible

if TYPE_CHECKING:
    from evalscribe.analysis.estimates import AnalysisPlan, AnalysisResult, NothingFailed
    from evalscribe.analysis.explain import ExplainedFailure
    from evalscribe.cli.checks import Check
    from evalscribe.model.analysis import Analysis, StageUsage, UsageSummary
    from evalscribe.reports.reading import ListedReport
    from evalscribe.settings import SettingRow


CLOSING = (
    "These are my findings. Would you like me to implement any of these recommendations, "
    "or would you like to discuss specific failures in more detail?"
)
"""Closing words of an analysis, as requested by its users."""


def in_terminal() -> bool:
    """Return True if a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def print_analysis(
    outcome: "AnalysisResult | AnalysisPlan | NothingFailed", run: str, *, as_json: bool, quiet: bool
) -> None:
    """Print an analysis; `run` is RUN as given by the user. Notes go to standard error if programs read the output."""
    from evalscribe.analysis.estimates import AnalysisPlan, NothingFailed

    if isinstance(outcome, AnalysisPlan):
        print_json(outcome) if as_json else _planned(outcome)
    elif isinstance(outcome, NothingFailed):
        say(outcome.message, file=sys.stderr if as_json else sys.stdout)
        if as_json:
            print_json(outcome.analysis)
    elif as_json or quiet:
        print_notes(outcome.notes)
        print_json(outcome.analysis) if as_json else say(outcome.path)
    else:
        _analyzed(outcome, run)


def _analyzed(done: "AnalysisResult", run: str) -> None:
    """Print the analysis, its location, the next steps, and the closing question."""
    page(done.text)
    say()
    for note in done.notes:
        say(f"Note: {note}")
    state = "unchanged" if done.state == "unchanged" else f"{done.state}, revision {done.report.revision}"
    say(f"Report: {done.path} ({state})")
    if done.analysis.usage and done.analysis.usage.stages:
        say(f"Spent: {usage_line(done.analysis.usage.stages)}")
    say(_how_to_go_on(done, run))
    say()
    say(CLOSING)


def usage_line(stages: "Sequence[StageUsage]") -> str:
    """Format usage: `tag 4 calls $0.01, judge 2 calls $0.20`; in tokens if no model has a price."""
    return ", ".join(f"{one.stage} {one.calls} call{'s' if one.calls != 1 else ''} {_price(one)}" for one in stages)


def _price(usage: "UsageSummary") -> str:
    return dollars(usage.cost_usd) if usage.cost_usd else f"{usage.input_tokens + usage.output_tokens:,} tokens"


def _how_to_go_on(done: "AnalysisResult", run: str) -> str:

    example = (*done.uncertain, *done.unclassified, *(entry.paths[0] for entry in done.report.entries))[0]
    explain = f"evalscribe explain {quote(run)} {quote(example)}"  # a name may contain shell syntax
    line = f"Go on: `{explain}`, or correct a label in the report and run this again"
    if done.unclassified:
        line += f"; {len(done.unclassified)} could not be judged: run this again"
    if done.advice:
        line += f"; {len(done.uncertain)} uncertain: {done.advice.judge} would take {done.advice.estimate.summary}"
    return f"{line}."


def _planned(plan: "AnalysisPlan") -> None:
    from evalscribe.analysis.estimates import stage_lines

    asked = plan.groups - plan.known
    say(f"{plan.run.model} ({plan.run.provider}), run {plan.run.id}: {len(plan.run.failures)} failed evals listed")
    say(f"Verdicts needed: {plan.groups}, of which {plan.known} are known")
    for line in stage_lines(plan) or [f"Judge: {plan.judge} for {asked}: {plan.estimate.summary}"]:
        say(line)
    say("Nothing was judged and no report written.")


def page(markdown: str) -> None:
    """Print a report as markdown, laid out in a terminal."""
    text = body(markdown)
    if not sys.stdout.isatty():
        say(text)
        return
    from evalscribe.cli.terminal import print_page

    print_page(visible(text))


def body(markdown: str) -> str:
    """Return a report without its front matter, which is for programs."""
    if not markdown.startswith("---\n"):
        return markdown.rstrip("\n")
    return markdown.partition("\n---\n")[2].strip("\n")


def print_explanation(explained: "ExplainedFailure", *, as_json: bool) -> None:
    if as_json:
        print_json(explained.analysis)
    else:
        say(explained_text(explained.finding, explained.case, explained.reviewed))


def print_reports(listed: "Sequence[ListedReport]") -> None:
    """Print one line per report."""
    for one in listed:
        say(f"{one.name}  {_in_short(one)}")
    if not listed:
        say("No reports yet. Begin with: evalscribe analyze sample --judge rules")


def _in_short(one: "ListedReport") -> str:
    if one.analysis is None:
        return f"unreadable: {one.problem}"
    run, findings = one.analysis.run, one.analysis.findings
    labels = [finding.classification or "no label" for finding in findings]
    counts = ", ".join(f"{labels.count(label)} {label}" for label in dict.fromkeys(labels)) or "no findings"
    return f"{run.model or 'unknown model'}, run {(run.id or 'unknown')[:8]}: {counts}"


def document(said: "Analysis", *, as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    for finding in said.findings:
        say(f"{finding.eval}  {finding.step or '-'}  {finding.classification or 'no label'}")


def print_checks(rows: "Iterable[SettingRow]", checks: "Iterable[Check]") -> None:
    """Print settings with their origin, then the checks, without repeating settings that a check mentions."""
    from evalscribe.redaction.redact import redact  # a host or an error may quote a setting

    checks = tuple(checks)
    told = {check.detail for check in checks}
    shown = [row for row in rows if row.value not in told]
    width = max(len(row.name) for row in shown)
    for row in shown:
        say(f"{row.name:<{width}}  {redact(row.value)}  ({row.origin})")
    say()
    for check in checks:
        say(f"{check.state:<{width}}  {check.name}: {redact(check.detail)}")


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say(f"Note: {note}", file=sys.stderr)


def say(text: object = "", file: TextIO | None = None) -> None:
    """Print a line for people without control characters, on standard output unless `file` is given.

    In a CI job, the line holds no command for the runner, even if a file with it is printed to the log later.
    """
    shown = visible(str(text))
    print(streams.neutral(shown) if streams.in_ci() else shown, file=file)


def command(line: str, file: TextIO | None = None) -> None:
    """Print a command for the CI runner."""
    streams.command(visible(line), file)


def print_json(document: BaseModel, *, indent: int | None = 2) -> None:
    """Print a document as JSON without control characters or CI commands."""
    print(streams.neutral_json(streams.escaped(document.model_dump_json(indent=indent))), flush=True)


DEVICES = (Path("/dev"), Path("/dev/fd"))


def write_lines(lines: Iterator[str], output: Path | None, *, json: bool = False) -> int:
    """Write lines and return their number. Raises `EvalscribeError` if the file cannot be written.

    `json`: the lines are JSON; in a CI job's log, CI commands in them become JSON escapes, so values stay the same.
    """
    if output is None:
        neutral = json and streams.in_ci() and streams.in_log()
        return _print(map(streams.neutral_json, lines) if neutral else lines, sys.stdout)
    try:
        with output.open("w", encoding="utf-8") if _is_written_into(output) else _replacing(output) as file:
            return _print(lines, file)
    except OSError as error:
        raise write_error(f"cannot write {output}", error) from None


def _print(lines: Iterable[str], file: TextIO) -> int:
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007 (the last number is the answer)
        file.write(f"{line}\n")
    return number


def _is_written_into(output: Path) -> bool:
    """Return True for a pipe or a device, such as /dev/stdout, which must not be replaced by a file."""
    return output.absolute().parent in DEVICES or (output.exists() and not output.is_file())


def _packing(whole: BinaryIO) -> gzip.GzipFile:
    """Omit the time stamp: gzip has 32 bits for it (until 2106), and equal runs give equal files."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=whole, mtime=0)


@contextmanager
def _replacing(output: Path) -> Iterator[TextIO]:
    """Write to a temporary file beside the target, and rename it when complete."""
    with NamedTemporaryFile(dir=output.absolute().parent, prefix=".part-", delete=False) as raw:
        part = Path(raw.name)
    try:
        packed = output.suffix == ".gz"
        with (
            part.open("wb") as whole,
            _packing(whole) if packed else nullcontext(whole) as stream,
            TextIOWrapper(cast(BinaryIO, stream), encoding="utf-8") as file,
        ):
            yield file
        os.replace(part, output)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
