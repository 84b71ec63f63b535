"""Verdicts on the failures of the real data.

They are read from finished analyses, and stored without any text of the evidence. `accuracy.py record` adds verdicts to
the file, and the accuracy page shows figures about them.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy import select

from evalscribe.errors import DataError, NotFoundError
from evalscribe.ids import Frozen, content_id
from evalscribe.judging.rubrics import default_rubric
from evalscribe.llm.budget import price_of
from evalscribe.model.chat import Usage
from evalscribe.model.finding import Classification, Confidence, Unclassified, Verdict, by_rules
from evalscribe.model.record import Record
from evalscribe.prompts.templates import Prompts
from evalscribe.sources.address import Links, RunOverrides
from evalscribe.sources.convex_payload import decode_run
from evalscribe.sources.formats import open_records
from evalscribe.store import tables
from evalscribe.store.database import open_database
from evalscribe.text import prose
from support.real_runs import CURRENT, RECORDED, run_folders

FILE = Path(__file__).parent / "data/recorded_verdicts.jsonl"
TAU_BENCH, TAU_RETAIL, MAGENTIC_ONE = "tau-bench", "agentrx/tau_retail", "agentrx/magentic_one"
DATASETS = (RECORDED, CURRENT, TAU_BENCH, TAU_RETAIL, MAGENTIC_ONE)
WORKSPACE_STORE = ".evalscribe"
_VERDICT = TypeAdapter[Verdict | Unclassified](Verdict | Unclassified)


class RecordedVerdict(Frozen):
    """A judge's verdict on one failure, with its usage."""

    name: str
    """Name of the recording, such as `before`."""
    dataset: str
    run: str
    """Folder of the run in the dataset; the dataset's name if the dataset is a single run."""
    eval: str
    """Path of the eval."""
    prompt: str
    """Short content id of the prompt templates and the rubric; empty if no model was asked."""
    judge: str
    """Id of the judge, or the name that was given for it when the verdict was recorded."""
    label: Classification | None
    """Label of the verdict; None if the judge gave no verdict."""
    cause: Annotated[str, Field(pattern=r"^[a-z0-9-]*$", max_length=80)] = ""
    """Rule that decided, or cause that the judge named."""
    cause_kind: Annotated[str, Field(pattern=r"^[a-z]+$", max_length=20)] | None = None
    step: int | None = None
    """Number of the message, from 1, at which an agent run went wrong; None if the judge named no message."""
    confidence: Confidence = 0.0
    uncertain: bool = False
    input_tokens: int = 0
    """Input tokens. This and the next three fields are 0 if another failure with the same verdict has the usage."""
    output_tokens: int = 0
    turns: int = 0
    """Number of calls to the model."""
    cost_usd: float | None = None
    """Cost in US dollars at list prices; None if the price of the judge is unknown."""

    @property
    def flagged(self) -> bool:
        """True if the verdict is uncertain or does not blame the model. Someone would then look at the eval."""
        return self.label != "MODEL_FAULT" or self.uncertain

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def read_recorded(file: Path = FILE) -> tuple[RecordedVerdict, ...]:
    """Read all recorded verdicts. Returns none if the file does not exist.

    Raises `DataError`, with the line number, if a line is damaged.
    """
    if not file.exists():
        return ()
    found = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            found.append(RecordedVerdict.model_validate_json(line))
        except ValidationError as error:
            raise DataError(f"{file.name}: line {number} is not a recorded verdict: {error}") from error
    return tuple(found)


def write_recorded(verdicts: Iterable[RecordedVerdict], file: Path = FILE) -> None:
    """Add verdicts, and sort all lines. Stored verdicts with the same name, dataset and run are replaced."""
    new = list(verdicts)
    replaced = {(one.name, one.dataset, one.run) for one in new}
    kept = [one for one in read_recorded(file) if (one.name, one.dataset, one.run) not in replaced]
    ordered = sorted([*kept, *new], key=lambda one: (one.name, one.dataset, one.run, one.eval))
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(one.model_dump_json() + "\n" for one in ordered), "utf-8")


def run_names(data: Path, dataset: str) -> Mapping[str, str]:
    """Return the name of each run of a dataset, keyed by its id. Raises `NotFoundError` if the dataset is unknown."""
    if dataset in (RECORDED, CURRENT):
        found = {
            folder: json.loads((folder / "failed_evals.json").read_text()) for folder in run_folders(data, dataset)
        }
        return {decode_run(payload, Links()).id: folder.name for folder, payload in found.items()}
    if dataset not in DATASETS:
        raise NotFoundError(f"no dataset {dataset!r}. Datasets: {', '.join(DATASETS)}")
    with run_file(data, dataset) as file:
        return {one.run_id: dataset for one in open_records(file, RunOverrides()).read() if isinstance(one, Record)}


@contextlib.contextmanager
def run_file(data: Path, dataset: str) -> Iterator[Path]:
    """Yield the file of a dataset of agent runs. For Magentic-One, the file is written to a temporary folder."""
    if dataset == TAU_BENCH:
        yield data / "tau-bench/gpt-4o-airline-tasks-0-24.json"
    elif dataset == TAU_RETAIL:
        yield data / "agentrx/tau_retail/trajectories.json"
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield write_magentic_one(data, Path(folder) / "magentic-one.jsonl")


def write_magentic_one(data: Path, file: Path) -> Path:
    """Write the Magentic-One conversations as one run of failed evals, in evalscribe's own format.

    The published files contain no results. All of these runs failed, because people annotated only failed runs.
    """
    run = {"id": "agentrx-magentic-one", "provider": "magentic-one", "model": "unknown", "experiment": "default"}
    lines: list[dict[str, Any]] = [{"run": run}]
    for path in sorted((data / MAGENTIC_ONE / "trajectories").glob("*.json")):
        messages = [
            {"role": "user", "content": one["content"]}
            if one["role"] == "human"
            else {"role": "assistant", "content": f"{one['role']}: {one['content']}"}
            for one in json.loads(path.read_text("utf-8"))
        ]
        told = {"id": path.stem, "category": "magentic-one", "name": path.stem, "status": "failed"}
        lines.append({"eval": told, "transcripts": [{"id": path.stem, "messages": messages}]})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def judged_by_rules(data: Path, dataset: str) -> list[RecordedVerdict]:
    """Analyse a dataset of agent runs by rules in a temporary folder, with the same command as a user."""
    arguments = ("--model", "openai/gpt-4o") if dataset != MAGENTIC_ONE else ()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EVALSCRIBE_")}
    with run_file(data, dataset) as file, tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            (sys.executable, "-m", "evalscribe", "analyze", file, *arguments, "--judge", "rules", "--json", "--quiet"),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
        )
    found = json.loads(done.stdout)["findings"]
    return [_recorded(one, "rules", dataset, dataset, "", Usage(), None) for one in found]


def record(
    data: Path, name: str, dataset: str, workspaces: Sequence[Path], answered_by: str | None = None
) -> list[RecordedVerdict]:
    """Read the verdicts on a dataset's runs from the stores of workspaces in which they were analysed.

    The content id of the prompts is computed from this version of the code and the workspace's own templates.

    Args:
        data: Folder of the real data.
        name: Name of the recording.
        dataset: One of `DATASETS`.
        workspaces: Folders in which `evalscribe analyze` was run.
        answered_by: Id of the model that answered, if it stood in for the model in the judge's id; None for the judge's
            own model.

    Raises:
        NotFoundError: A workspace has no store, or no analysis of a run of the dataset.
        DataError: The store has no verdict for a finding.
    """
    names = run_names(data, dataset)
    found = []
    for workspace in workspaces:
        recorded = list(_of_workspace(workspace, name, dataset, names, answered_by))
        if not recorded:
            raise NotFoundError(f"{workspace}: no analysis of a run of {dataset}")
        found += recorded
    return found


def _of_workspace(
    workspace: Path, name: str, dataset: str, names: Mapping[str, str], answered_by: str | None
) -> Iterator[RecordedVerdict]:
    if not (workspace / WORKSPACE_STORE).exists():
        raise NotFoundError(f"{workspace}: no store `{WORKSPACE_STORE}`. Name a folder in which a run was analysed.")
    prompts = Prompts(workspace)
    prompt = content_id([prompts.digest("classify"), default_rubric().digest]).removeprefix("sha256:")[:12]
    with closing(open_database(workspace / WORKSPACE_STORE)) as database, database.reading() as connection:
        verdicts = {
            row.key: database.unpacked(row.body, _VERDICT, f"verdicts {row.key}")
            for row in connection.execute(select(tables.verdicts))
        }
        columns = select(tables.findings.c.run_id, tables.findings.c.finding_json)
        rows = connection.execute(columns.order_by(tables.findings.c.run_id, tables.findings.c.number)).all()
    taken = set[str]()
    for run_id, finding in rows:
        if run_id not in names:
            continue
        keys = [key for key, verdict in verdicts.items() if _fits(verdict, finding)]
        if not keys:
            raise DataError(f"{finding['eval']}: the store has no verdict with the reasoning of the finding")
        # Failures without a verdict can have the same reason. Each takes a remaining one, so that all usage counts.
        key = next((key for key in keys if key not in taken), keys[0])
        verdict = verdicts[key]
        usage = Usage() if key in taken else verdict.usage
        taken.add(key)
        stand_in = None if by_rules(verdict.judge) else answered_by
        judge = stand_in or verdict.judge
        yield _recorded(finding, name, dataset, names[run_id], prompt, usage, _pricing(verdict, stand_in), judge)


def _fits(verdict: Verdict | Unclassified, finding: Mapping[str, Any]) -> bool:
    """Return whether a stored verdict can be the verdict of a finding.

    A finding has the judge and the reasoning of its verdict. Doubts that were added later follow the reasoning.
    """
    judge = finding["judge"]
    if isinstance(verdict, Unclassified):
        return judge is None and (finding["unclassified"] or "").startswith(prose(verdict.reason))
    same = judge is not None and (verdict.judge, verdict.stage) == (judge["id"], judge["stage"])
    return same and (finding["reasoning"] or "").startswith(prose(verdict.reasoning))


def _pricing(verdict: Verdict | Unclassified, stand_in: str | None) -> Callable[[Usage], float] | None:
    """Return a function for the cost of usage.

    Usage costs what it cost when the judge answered, or the list price of the model that stood in for the judge.
    """
    price = price_of(stand_in or verdict.judge)
    if price is None and not by_rules(verdict.judge):
        return None
    return price.cost if price and stand_in else lambda usage: usage.cost_usd


def _recorded(
    finding: Mapping[str, Any],
    name: str,
    dataset: str,
    run: str,
    prompt: str,
    usage: Usage,
    pricing: Callable[[Usage], float] | None,
    judge: str | None = None,
) -> RecordedVerdict:
    """Convert a finding of the JSON document. The judge's own label is used, even if a person corrected it.

    `judge` replaces the id of the judge in the finding.
    """
    own = finding["judge"]
    return RecordedVerdict(
        name=name,
        dataset=dataset,
        run=run,
        eval=finding["eval"],
        prompt=prompt,
        judge=judge or own["id"],
        label=own["classification"] if own else None,
        cause=finding["cause"] or "",
        cause_kind=finding["cause_kind"],
        step=finding.get("message"),
        confidence=own["confidence"] if own else 0.0,
        uncertain=bool(finding["uncertain"]),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        turns=usage.calls,
        cost_usd=pricing(usage) if pricing else None,
    )
