"""Parse the RUN argument and the user's overrides, and build links to the pages that show a run."""

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from pydantic import Field, JsonValue

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.ids import Frozen
from evalscribe.model.run import UNKNOWN, Run


class Links(Frozen):
    """Addresses from which links to a run are built. Reports contain no links if neither address is set."""

    base: str | None = None
    """The part of the user's address before `/run/`, such as `https://host/experiment/default`."""
    visualizer: str | None = None
    """Address of the configured visualizer. Links append the run's experiment to this address."""

    def run(self, run_id: str, experiment: str) -> str | None:
        base = self._base(experiment)
        return f"{base}/run/{_part(run_id)}" if base else None

    def eval(self, run_id: str, experiment: str, category: str, eval_id: str) -> str | None:
        run = self.run(run_id, experiment)
        return f"{run}/{_part(category or 'none')}/{_part(eval_id)}" if run else None

    def _base(self, experiment: str) -> str | None:
        if self.base or not self.visualizer:
            return self.base
        return f"{self.visualizer.rstrip('/')}/experiment/{_part(experiment)}"


def _part(text: str) -> str:
    return quote(text, safe="", errors="replace")


SUMMARY = "failed_evals.json"
"""Name of the file that marks a folder as a snapshot of a run."""
MOST_ENTRIES = 1000
"""Maximum number of folder entries whose names are compared with a missing path, to suggest similar names."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?|\[[0-9a-f:.]+\]")
_WITHOUT_SCHEME = re.compile(r"[A-Za-z0-9.-]+(?::\d+)?/(?:.*/)?run/")
_WITHOUT_HOST = re.compile(r"/(?:experiment|model)/.*/?run/")
_EXPECTED = "expected …/experiment/<experiment>/run/<runId>, a run id, or a snapshot folder"


class RunAddress(Frozen):
    """A run as the user named it: by an address, an id or a snapshot folder."""

    kind: Literal["url", "id", "snapshot"]
    run_id: str | None = None
    """Id of the run; None for a snapshot, because its files state the id."""
    eval_id: str | None = None
    """Id of the eval; None if the user's argument is not the address of an eval."""
    experiment: str | None = None
    base: str | None = None
    """The part of the address before `/run/`, without login, query and fragment. This part is used only for links."""
    folder: Path | None = None

    def links(self, visualizer: str | None = None) -> Links:
        """Return the addresses from which links are built.

        The address that the user gave takes precedence over `visualizer`.
        """
        return Links(base=self.base, visualizer=visualizer)


def parse_address(argument: str, cwd: Path) -> RunAddress:
    """Parse the RUN argument.

    Raises:
        UsageError: The argument is not a valid name, path or address of a run.
        NotFoundError: The folder does not exist.
    """
    argument = argument.strip()
    if not argument or not argument.isprintable():
        raise UsageError(f"no run given: {_EXPECTED}")
    if "://" in argument:
        return _page(argument)
    path = cwd / Path(argument)
    if _exists(path):
        return _snapshot(path)
    if _WITHOUT_SCHEME.match(argument):
        return _page(f"https://{argument}")
    if _WITHOUT_HOST.match(argument):
        return _page(argument)
    if _ID.fullmatch(argument):
        return RunAddress(kind="id", run_id=argument)
    if "/" in argument or "\\" in argument:
        raise NotFoundError(f'No file or folder "{argument[:200]}" in {cwd}.{_nearest(path, cwd)}')
    raise UsageError(f"{argument[:80]!r} is not a run: {_EXPECTED}")


def _nearest(path: Path, cwd: Path) -> str:
    """Return a sentence that suggests entries with names similar to a missing path; empty if there are none.

    Only folders within `cwd` are searched.
    """
    try:
        if not path.parent.resolve().is_relative_to(cwd.resolve()):
            return ""
        names = [entry.name for entry in islice(path.parent.iterdir(), MOST_ENTRIES)]
    except (OSError, ValueError):
        return ""
    near = [str((path.parent / name).relative_to(cwd)) for name in get_close_matches(path.name, names)]
    return f" Nearest: {', '.join(near)}." if near else ""


_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"


def is_document_id(name: str) -> bool:
    """Return True if `name` has the form of a Convex document id.

    A document id encodes three parts in base32: a table number, 16 bytes, and a Fletcher-16 checksum of these two. This
    check is used only to explain errors, because the deployment decides whether an id is valid.
    """
    bits = "".join(f"{_BASE32.find(character):05b}" for character in name if character in _BASE32)
    content = [int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)]
    # The table number takes 1 to 5 bytes, the rest 18 bytes.
    if len(bits) != 5 * len(name) or not 19 <= len(content) <= 23:
        return False
    first = second = 0
    for byte in content[:-2]:
        first = (first + byte) % 256
        second = (second + first) % 256
    return content[-2:] == [first, second]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # The argument is too long for a path.
        return False


def _snapshot(path: Path) -> RunAddress:
    folder = path.parent if path.name == SUMMARY else path
    if not (folder / SUMMARY).exists():
        raise NotFoundError(f"{path} is not a snapshot of a run: it has no {SUMMARY}")
    return RunAddress(kind="snapshot", folder=folder)


def _page(url: str) -> RunAddress:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError(f"the address is not a valid URL: {_EXPECTED}") from None
    if parts.scheme not in ("http", "https", ""):
        raise UsageError(f"a run's URL cannot begin with {parts.scheme}: {_EXPECTED}")
    names = [unquote(name) for name in parts.path.split("/") if name]
    at = _position_of_run(names)
    run_id, *rest = names[at + 1 :]
    if not _ID.fullmatch(run_id):
        raise UsageError(f"the URL's run id {run_id[:80]!r} is invalid: {_EXPECTED}")
    return RunAddress(
        kind="url",
        run_id=run_id,
        eval_id=rest[1] if len(rest) > 1 and _ID.fullmatch(rest[1]) else None,
        experiment=_experiment(names[:at]),
        base=_base(parts.scheme, host, port, names[:at]) if parts.scheme else None,
    )


def _experiment(names: list[str]) -> str | None:
    has_name = len(names) > 1 and names[-2] == "experiment" and names[-1].isprintable()
    return names[-1] if has_name else None


def _position_of_run(names: list[str]) -> int:
    """Return the index of the path part `run` that precedes the run id.

    An experiment can also be named `run`.
    """
    candidates = [n for n, name in enumerate(names[:-1]) if name == "run"]
    behind = [n for n in candidates if n > 1 and names[n - 2] == "experiment"]
    if not candidates:
        raise UsageError(f"the URL contains no run: {_EXPECTED}")
    return (behind or candidates)[0]


def _base(scheme: str, host: str, port: int | None, names: list[str]) -> str:
    """Rebuild an address from its scheme, host, port and the path parts before the run; drop everything else."""
    host = f"[{host}]" if ":" in host else _ascii(host)
    if not _HOST.fullmatch(host):
        raise UsageError(f"the URL's host {host[:80]!r} is invalid")
    place = f"{host}:{port}" if port is not None else host
    return "/".join([f"{scheme}://{place}", *(quote(name, safe="", errors="replace") for name in names)])


def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise UsageError(f"the URL's host {host[:80]!r} is invalid") from None


_USED_BY = {
    "map": "tables of results (CSV or JSON)",
    "threshold": "formats that have scores but no verdicts, such as tables of results (CSV or JSON)",
    "tasks": "Harbor jobs and replays of tau-bench",
    "reference_run": "Harbor jobs and runs of SWE-bench",
}


COLUMNS: Mapping[str, Sequence[str]] = {
    "input": ("inputs", "question", "prompt", "query", "user_input", "problem"),
    "output": (
        *("outputs", "actual_output", "model_output", "model_answer", "model_response", "response", "completion"),
        *("prediction", "predicted", "predicted_answer", "generated", "generated_answer", "generation"),
    ),
    "expected": (
        *("expected_output", "expected_answer", "reference", "reference_output", "reference_outputs"),
        *("reference_answer", "ground_truth", "gold", "gold_answer", "golden_answer", "correct_answer", "target"),
    ),
    "passed": ("pass", "success", "correct", "is_correct", "status"),
    "score": (),
    "scores": (),
    "reason": ("explanation", "comment", "grader_reason"),
    "error": (),
    "id": ("key", "example_id", "test_id", "name"),
    "category": (),
    "provider": (),
    "model": ("model_name",),
}
"""Fields of a row in a results table, with alternative column names for each field.

The most likely name comes first.
"""


def parse_columns(assignments: Sequence[str], fields: Collection[str] = tuple(COLUMNS)) -> dict[str, str]:
    """Parse texts such as `input=question,expected=answer`.

    Raises `UsageError` if a text is malformed or names no field.
    """
    columns: dict[str, str] = {}
    # A column's name can contain a comma, so a comma is a separator only if a field and `=` follow.
    next_field = re.compile(rf",(?=\s*(?:{'|'.join(fields)})\s*=)")
    for assignment in (part for text in assignments for part in next_field.split(text)):
        field, equals, name = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise wrong_columns(f"{assignment.strip()!r} is not FIELD=COLUMN, such as input=question")
        if field not in fields:
            near = get_close_matches(field, fields, 1)
            raise wrong_columns(
                f"there is no field {field!r}"
                + (f"; did you mean {near[0]}?" if near else f": use {', '.join(fields)}")
            )
        if field in columns:
            raise wrong_columns(f"{field} has two columns")
        columns[field] = name
    return columns


def wrong_columns(problem: str) -> UsageError:
    return UsageError(f"`map`: {problem}", fields=("map",))


class RunOverrides(Frozen):
    provider: str | None = None
    model: str | None = None
    """Name of the model, such as `gpt-4o`. A name such as `openai/gpt-4o` also sets the provider."""
    experiment: str | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    """Column name in a results table for each field, such as `{"input": "question"}`."""
    threshold: float | None = None
    """Minimum score at which an eval passes, for sources without verdicts of their own.

    None means the default, 1.
    """
    tasks: Path | None = None
    """Folder with the run's tasks, including their instructions, tests and reference solutions."""
    reference_run: Path | None = None
    """A run whose answers are used as the reference answers. The run must have the same format as the imported run."""

    def require_used(self, used: Collection[str], reason: str) -> None:
        """Raise `UsageError` if the user set an import option that does not apply to the file.

        Args:
            used: The options that apply: any of `map`, `threshold`, `tasks` and `reference_run`.
            reason: Reason that the error message states, such as `x.json is read as inspect`.
        """
        set_options = {
            "map": bool(self.columns),
            "threshold": self.threshold is not None,
            "tasks": self.tasks is not None,
            "reference_run": self.reference_run is not None,
        }
        if fields := tuple(name for name, is_set in set_options.items() if is_set and name not in used):
            raise UsageError(f"`{fields[0]}` is for {_USED_BY[fields[0]]}; {reason}", fields=fields)

    @property
    def names_set(self) -> tuple[str, ...]:
        """Return which of `provider`, `model` and `experiment` the user set.

        A model such as `openai/gpt-4o` also sets the provider.
        """
        is_set = {"provider": self.provider or "/" in (self.model or ""), "model": self.model}
        return tuple(name for name, value in {**is_set, "experiment": self.experiment}.items() if value)


def agent_metadata(run: Run) -> dict[str, JsonValue]:
    """Return metadata about the tested agent. This metadata is added to every record."""
    return {"model_name": run.model, "provider": run.provider}


def provider_and_model(overrides: RunOverrides, model: str | None, provider: str | None = None) -> tuple[str, str]:
    """Return a run's provider and model. Overrides take precedence over the values from the file.

    A model name such as `openai/gpt-4o` sets both the provider and the model.
    """
    name = overrides.model or model or UNKNOWN
    # The provider in the file belongs to the model in the file, and not to a model that the user names.
    stated_provider = overrides.provider or (None if overrides.model else provider)
    if stated_provider:
        return stated_provider, name
    before, slash, after = name.partition("/")
    return (before, after) if slash and before and after else (provider or UNKNOWN, name)
