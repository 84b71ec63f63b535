"""Logs of Inspect, `.eval` and `.json`, as `ports.Records`.

Read by what they hold, without the package that wrote them: that one reads the same samples twenty times slower, and
validates events that are not kept.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.ids import canonical_json, content_id
from evalscribe.record import Record
from evalscribe.run import Run, RunStatus
from evalscribe.sources.imports import inspect_sample, values
from evalscribe.sources.imports.inspect_pieces import Pieces
from evalscribe.sources.imports.json_text import JsonText, decode
from evalscribe.sources.imports.left_out import LeftOut
from evalscribe.sources.imports.overrides import RunOverrides, agent, named
from evalscribe.sources.imports.reading import Reading
from evalscribe.sources.imports.zip_members import ZipMembers, open_members

HEADER = "header.json"
START = "_journal/start.json"
SAMPLES = "samples/"
EPOCH = "_epoch_"
_STATUS: dict[str, tuple[RunStatus, str | None]] = {
    "success": ("completed", None),
    "error": ("failed", "the run broke"),
    "cancelled": ("failed", "the run was cancelled"),
    "started": ("running", "the log was never finished"),
}
_UNKEPT = ("dataset", "packages", "scorers", "metrics", "viewer", "shards", "model_roles")
"""Of the description of the eval: long, and the same for all samples."""
LONGEST_KEPT = 2000
"""Characters of a field of the header, which every sample keeps."""
Header = Mapping[str, JsonValue]


class InspectLog(ABC):
    format = "inspect"

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        self._path = path
        self._wish = overrides
        self._left_out = LeftOut()
        self._trials: Counter[str] = Counter()
        self._taken: dict[str, set[int]] = {}
        self._header_kept: dict[str, JsonValue] = {}

    @property
    def left_out(self) -> Mapping[str, int]:
        return self._left_out.told()

    @property
    @abstractmethod
    def progress(self) -> float: ...

    @abstractmethod
    def read(self) -> Iterator[Run | Record]: ...

    def _run(self, header: Header) -> Run:
        eval = _object(header.get("eval"))
        for field in header.keys() - {"version", "status", "eval", "error", "samples", "location", "etag"}:
            if header[field]:
                self._left_out.add(f"the log's field `{values.line(field)}`")
        for field, value in eval.items():
            if value in (None, {}, []):
                continue
            if field in _UNKEPT or len(canonical_json(value)) > LONGEST_KEPT:
                self._left_out.add(f"the log's field `eval.{values.line(field)}`")
            else:
                self._header_kept[field] = value
        provider, model = named(self._wish, _text(eval.get("model")))
        status, reason = _STATUS.get(str(header.get("status", "started")), ("unknown", None))
        return Run(
            id=_run_id(eval, self._path),
            provider=values.line(provider),
            model=values.line(model),
            experiment=values.line(self._wish.experiment or _text(eval.get("task")) or "default"),
            status=status,
            status_reason=_text(_object(header.get("error")).get("message")) or reason,
        )

    def _record(self, sample: object, run: Run, header: Header, place: str) -> Record | None:
        try:
            if not isinstance(sample, dict) or "id" not in sample:
                raise DataError("it is no object with an `id`")
            where = self._place(sample, run, _object(header.get("eval")), place)
            return inspect_sample.record(sample, where, self._left_out)
        except RecursionError:
            self._left_out.add("a sample that cannot be read: JSON nested too deeply", place)
            return None
        except DataError as error:
            self._left_out.add(f"a sample that cannot be read: {error}", place)
            return None

    def _place(self, sample: Mapping[str, JsonValue], run: Run, eval: Header, place: str) -> inspect_sample.Place:
        key = str(sample["id"])
        taken = self._taken.setdefault(key, set())
        epoch = sample.get("epoch")
        trial = epoch if isinstance(epoch, int) and epoch > 0 else 1
        while trial in taken:
            trial += 1
        taken.add(trial)
        return inspect_sample.Place(
            run_id=run.id,
            task=_text(eval.get("task")) or "task",
            agent=agent(run),
            trial=trial,
            trials=max(self._trials[key], 1),
            header=self._header_kept,
            name=place,
        )


class EvalFile(InspectLog):
    """The zip file: a header, and each sample in a member of its own."""

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._done = 0.0

    @property
    def progress(self) -> float:
        return self._done

    def read(self) -> Iterator[Run | Record]:
        with closing(open_members(self._path)) as members:
            header = self._header(members)
            run = self._run(header)
            samples = [name for name in members.names if name.startswith(SAMPLES) and name.endswith(".json")]
            pieces = Pieces(samples)
            samples = [name for name in samples if not pieces.is_other(name)]
            self._trials.update(name.removeprefix(SAMPLES).rpartition(EPOCH)[0] for name in samples)
            yield run
            for n, name in enumerate(samples):
                self._done = n / len(samples)
                sample = self._sample(members, name, pieces)
                record = None if sample is None else self._record(sample, run, header, name)
                if record is not None:
                    yield record
            self._done = 1.0
            if members.torn:
                raise DataError(f"{self._path} is cut off: {len(samples)} samples could be found")

    def _header(self, members: ZipMembers) -> Header:
        for name in (HEADER, START):
            if name in members.names and (header := _object(self._member(members, name))):
                return {"status": "started", **_safe(header)} if name == START else _safe(header)
        self._left_out.add("the log's header, which is missing")
        return {}

    def _sample(self, members: ZipMembers, name: str, pieces: Pieces) -> object:
        if (sample := pieces.sample(name)) is None:
            return self._member(members, name)
        try:
            return pieces.whole(sample, members.read)
        except DataError as error:
            self._left_out.add(f"{error}", name)
            return None

    def _member(self, members: ZipMembers, name: str) -> object:
        try:
            return decode(members.read(name).decode("utf-8", "replace"))
        except DataError as error:
            self._left_out.add(f"{error}", name)
            return None


class JsonFile(InspectLog):
    """One JSON object. It is read twice: what concerns all samples may stand behind them."""

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._reading: Reading | None = None
        self._passes = 0

    @property
    def progress(self) -> float:
        return (self._passes + (self._reading.progress if self._reading else 0)) / 2

    def read(self) -> Iterator[Run | Record]:
        header: dict[str, JsonValue] = {}
        with suppress(DataError):  # The second pass tells where it ends.
            for sample in self._pass(header):
                if isinstance(sample, dict):
                    self._trials[str(sample.get("id"))] += 1
        self._passes = 1
        run = self._run(header)
        yield run
        for n, sample in enumerate(self._pass({})):
            if (record := self._record(sample, run, header, f"samples[{n}]")) is not None:
                yield record

    def _pass(self, header: dict[str, JsonValue]) -> Iterator[object]:
        """The samples; everything else comes into the header."""
        with Reading(self._path) as self._reading:
            text = JsonText(self._reading, str(self._path))
            for name in text.names():
                if name == "samples" and text.peek() == "[":
                    yield from text.elements()
                elif name in ("reductions", "samples"):
                    text.skip()
                else:
                    header[name] = values.safe(text.value())


def _run_id(eval: Header, path: Path) -> str:
    """The log's own id; logs of older versions have none and are known by what they were started as."""
    own = _text(eval.get("eval_id"))
    if own.isprintable() and 8 <= len(own) <= 100:
        return own
    started = [eval.get("run_id"), eval.get("task_id"), eval.get("created")]
    if any(started):
        return content_id(started).removeprefix("sha256:")[:22]
    with Reading(path) as reading:
        while reading.read():
            pass
        return reading.digest[:22]


def _safe(header: Mapping[str, object]) -> Header:
    return _object(values.safe({key: value for key, value in header.items() if key != "reductions"}))


def _object(value: object) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
