"""Whether a report is called and kept as its run says, and its front matter says what its body does."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from evalscribe.ids import folder_fit, model_folder, report_stems, run_id_prefix
from evalscribe.model.report import Report
from evalscribe.proofread.said import Said

NAME = re.compile(r"(.+)_(\d{4}-\d{2}-\d{2})(?:\.evalscribe(?:-\d+)?)?\.md")
EVIDENCE = re.compile(r"sha256:[0-9a-f]{8}")


def naming(report: Report, name: str) -> Iterator[Said]:
    """`name`: below the reports folder; of a file elsewhere without any folder, which is then not compared."""
    path = PurePosixPath(name)
    run = report.run
    match = NAME.fullmatch(path.name)
    if match is None or match[1] not in report_stems(run.id):
        yield Said(1, "error", f"the report of run {run.id} is called {_expected(report)}, this file {path.name}")
    elif match[2] != report.date:
        yield Said(1, "warning", f"the file's name says {match[2]}, the report was begun on {report.date}")
    folders = path.parts[:-1]
    if folders and folder_fit(run.provider, run.model, folders) is None:
        wanted = "/".join(model_folder(run.provider, run.model))
        yield Said(1, "error", f"the run is of {wanted}, the folder {'/'.join(folders)}: nobody finds it there")


def front_matter(report: Report) -> Iterator[Said]:
    listed = set(report.judges)
    for number, entry in enumerate(report.entries, 1):
        if entry.judge and entry.judge.id not in listed:
            listed.add(entry.judge.id)
            yield Said(
                1, "error", f"finding {number} was judged by {entry.judge.id}, which the front matter leaves out"
            )
    if report.evidence and not EVIDENCE.fullmatch(report.evidence):
        yield Said(1, "warning", f"evidence {report.evidence!r} in the front matter is no `sha256:` and 8 digits")


def _expected(report: Report) -> str:
    return f"{run_id_prefix(report.run.id)}_{report.date}.md"
