"""Read Inspect logs in both of their formats, `.eval` and `.json`."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from pydantic import JsonValue

from evalscribe.errors import DataError
from evalscribe.ids import canonical_json, content_id
from evalscribe.model.record import Record, Records
from evalscribe.model.run import Run, RunStatus
from evalscribe.sources import inspect_sample, records
from evalscribe.sources.address import RunOverrides, agent_metadata, provider_and_model
from evalscribe.sources.files import MAX_MEMBER_BYTES, FileReader, TornZip, WholeZip, open_members
from evalscribe.sources.inspect_sample import pool_messages
from evalscribe.sources.recognition import FileStart, Format, has
from evalscribe.sources.records import RecordFile
from evalscribe.sources.streams import JsonStream, decode_json

# Logs are read without the package `inspect-ai`, which requires about forty other packages.
_PIECE = re.compile(
    r"(?P<sample>.*_epoch_\d+)/"
    r"(?:(?P<head>sample)|metadata|skeleton|(?P<part>messages|events|calls|attachments)/(?P<first>\d+|stats|uuids))\.json",
    re.DOTALL,
)
_PARTS = ("messages", "events", "attachments")


class SamplePieces:
    """Members of a zip log that contain parts of samples.

    The parts of a sample are found by the name of the sample's first member.
    """

    def __init__(self, names: Sequence[str]) -> None:
        pieces = {name: piece for name in names if (piece := _PIECE.fullmatch(name))}
        self._heads = {piece["sample"]: name for name, piece in pieces.items() if piece["head"]}
        self._other_members = {
            name for name, piece in pieces.items() if piece["sample"] in self._heads and not piece["head"]
        }
        self._parts: dict[str, list[tuple[int, str]]] = {}
        for name in self._other_members:
            piece = pieces[name]
            if piece["part"] in _PARTS and piece["first"].isdecimal():
                self._parts.setdefault(f"{piece['sample']}/{piece['part']}", []).append((int(piece["first"]), name))

    def sample(self, name: str) -> str | None:
        """Return the name of the sample whose first member is called `name`; None for any other member."""
        piece = _PIECE.fullmatch(name)
        return piece["sample"] if piece and piece["head"] else None

    def is_other(self, name: str) -> bool:
        """Return True if the member with this name belongs to a sample but is not its first member."""
        return name in self._other_members

    def assemble(self, sample: str, read: Callable[[str], bytes]) -> object:
        """Assemble a sample from its members.

        The assembled sample has the same form as in logs with one member per sample. Raises `DataError` if a member is
        invalid or the sample is too large.
        """
        head = decode_json(_piece_text(read(self._heads[sample])))
        if not isinstance(head, dict):
            return head
        parts = {part: self._list(f"{sample}/{part}", read) for part in _PARTS}
        metadata_name = f"{sample}/metadata.json"
        return {
            **{key: value for key, value in head.items() if key != "message_refs"},
            "metadata": decode_json(_piece_text(read(metadata_name))) if metadata_name in self._other_members else {},
            "messages": pool_messages(head.get("message_refs"), parts["messages"]),
            "events": parts["events"],
            "events_data": {"messages": parts["messages"]},
            "attachments": {str(number): text for number, text in enumerate(parts["attachments"])},
        }

    def _list(self, part: str, read: Callable[[str], bytes]) -> list[object]:
        """Join the items of a part of a sample, such as its messages, from all members that contain this part.

        The name of each member contains the number of the member's first item. The members are ordered by this number.
        """
        size, items = 0, []
        for _, name in sorted(self._parts.get(part, [])):
            content = read(name)
            size += len(content)
            if size > MAX_MEMBER_BYTES:
                raise DataError(f"a sample whose pieces are larger than {MAX_MEMBER_BYTES // 1024 // 1024} MiB")
            value = decode_json(_piece_text(content))
            items += value if isinstance(value, list) else []
        return items


def _piece_text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


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
_KNOWN_FIELDS = frozenset(
    ("version", "status", "eval", "error", "samples", "location", "etag", "plan", "results", "stats", "reductions")
)
"""Fields of a log that do not count as left out.

These fields are read elsewhere, are sums over samples, or describe the log itself.
"""
_UNKEPT = ("dataset", "packages", "scorers", "metrics", "viewer", "shards", "model_roles")
"""Fields of the log's `eval` object that are dropped, because they are long and the same for all samples."""
LONGEST_KEPT = 2000
"""Maximum number of characters in a field of the log's header.

A longer field is left out, because the header's fields are stored with every sample.
"""
Header = Mapping[str, JsonValue]


def _tokens(usage: Header, *names: str) -> int | None:
    """Return the sum of the named token counts; None if the count that is named first is missing."""
    counts = [records.count(usage.get(name)) for name in names]
    return None if counts[0] is None else sum(count or 0 for count in counts)


class InspectLog(RecordFile):
    format = "inspect"

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._trials: Counter[str] = Counter()
        self._used_trials: dict[str, set[int]] = {}
        self._header_fields: dict[str, JsonValue] = {}

    def _run(self, header: Header) -> Run:
        eval = _object(header.get("eval"))
        for field in header.keys() - _KNOWN_FIELDS:
            if header[field]:
                self._left_out.add(f"the log's field `{records.safe_name(field)}`")
        for field, value in eval.items():
            if value in (None, {}, []):
                continue
            if field in _UNKEPT:
                continue
            if len(canonical_json(value)) > LONGEST_KEPT:
                self._left_out.add(f"the log's field `eval.{records.safe_name(field)}`")
            else:
                self._header_fields[field] = value
        provider, model = provider_and_model(self._overrides, _text(eval.get("model")))
        status, reason = _STATUS.get(str(header.get("status", "started")), ("unknown", None))
        stats = _object(header.get("stats"))
        usage = _object(_object(stats.get("model_usage")).get(str(eval.get("model"))))
        started = stats.get("started_at") or eval.get("created")
        return Run(
            id=_run_id(eval, self._path),
            provider=records.safe_name(provider),
            model=records.safe_name(model),
            experiment=records.safe_name(self._overrides.experiment or _text(eval.get("task")) or "default"),
            status=status,
            status_reason=_text(_object(header.get("error")).get("message")) or reason,
            started_at=records.iso_time(started),
            duration_s=records.seconds_between(started, stats.get("completed_at")),
            input_tokens=_tokens(usage, "input_tokens", "input_tokens_cache_read", "input_tokens_cache_write"),
            output_tokens=_tokens(usage, "output_tokens"),
            cost_usd=records.figure(usage.get("total_cost")),
        )

    def _record(self, sample: object, run: Run, header: Header, place: str) -> Record | None:
        try:
            if not isinstance(sample, dict) or "id" not in sample:
                raise DataError("it is not an object with an `id`")
            context = self._place(sample, run, _object(header.get("eval")), place)
            return inspect_sample.parse_sample(sample, context, self._left_out)
        except RecursionError:
            self._left_out.add("a sample that cannot be read: JSON nested too deeply", place, lost=True)
            return None
        except DataError as error:
            self._left_out.add(f"a sample that cannot be read: {error}", place, lost=True)
            return None

    def _place(
        self, sample: Mapping[str, JsonValue], run: Run, eval: Header, place: str
    ) -> inspect_sample.SampleContext:
        key = str(sample["id"])
        used_trials = self._used_trials.setdefault(key, set())
        epoch = sample.get("epoch")
        trial = epoch if isinstance(epoch, int) and epoch > 0 else 1
        while trial in used_trials:
            trial += 1
        used_trials.add(trial)
        return inspect_sample.SampleContext(
            run_id=run.id,
            task=_text(eval.get("task")) or "task",
            agent=agent_metadata(run),
            trial=trial,
            trials=max(self._trials[key], 1),
            header=self._header_fields,
            name=place,
        )


class EvalFile(InspectLog):
    """An Inspect log in the zip format. The log has a header, and one or more members for each sample."""

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
            pieces = SamplePieces(samples)
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
                raise DataError(f"{self._path} is truncated: {len(samples)} samples were recovered")

    def _header(self, members: WholeZip | TornZip) -> Header:
        # A log that was never finished has no header, but only the member that is written at the start.
        for name in (HEADER, START):
            if name in members.names and (header := _object(self._member(members, name))):
                return {"status": "started", **_safe(header)} if name == START else _safe(header)
        self._left_out.add("the log's header, which is missing")
        return {}

    def _sample(self, members: WholeZip | TornZip, name: str, pieces: SamplePieces) -> object:
        if (sample := pieces.sample(name)) is None:
            return self._member(members, name)
        try:
            return pieces.assemble(sample, members.read)
        except DataError as error:
            self._left_out.add(f"{error}", name)
            return None

    def _member(self, members: WholeZip | TornZip, name: str) -> object:
        try:
            return decode_json(members.read(name).decode("utf-8", "replace"))
        except DataError as error:
            self._left_out.add(f"{error}", name)
            return None


class JsonFile(InspectLog):
    """An Inspect log that is a single JSON object.

    The file is read twice, because fields about all samples can come after the samples.
    """

    passes = 2

    def read(self) -> Iterator[Run | Record]:
        header: dict[str, JsonValue] = {}
        with suppress(DataError):  # The second pass raises this error, after it has yielded the readable evals.
            for sample in self._pass(header):
                if isinstance(sample, dict):
                    self._trials[str(sample.get("id"))] += 1
        self._finished_passes = 1
        run = self._run(header)
        if "samples" not in header and (total := records.count(_object(header.get("results")).get("total_samples"))):
            run = run.model_copy(update={"total": total})
            self._left_out.add("a sample: the log has only its header", number=total)
        yield run
        for n, sample in enumerate(self._pass({})):
            if (record := self._record(sample, run, header, f"samples[{n}]")) is not None:
                yield record

    def _pass(self, header: dict[str, JsonValue]) -> Iterator[object]:
        """Yield the samples of the log, and store all other fields in `header`."""
        with FileReader(self._path) as self._reader:
            text = JsonStream(self._reader, str(self._path))
            for name in text.names():
                if name == "samples" and text.peek() == "[":
                    header[name] = None
                    yield from text.elements()
                elif name in ("reductions", "samples"):
                    text.skip()
                else:
                    header[name] = records.safe_json(text.value())


def _run_id(eval: Header, path: Path) -> str:
    """Return the id of the log.

    For an older log without an id, the id is derived from the settings with which the run was started, or from the
    file's content.
    """
    stated_id = _text(eval.get("eval_id"))
    if stated_id.isprintable() and 8 <= len(stated_id) <= 100:
        return stated_id
    started = [eval.get("run_id"), eval.get("task_id"), eval.get("created")]
    if any(started):
        return content_id(started).removeprefix("sha256:")[:22]
    with FileReader(path) as reading:
        while reading.read():
            pass
        return reading.digest[:22]


def _safe(header: Mapping[str, object]) -> Header:
    return _object(records.safe_json({key: value for key, value in header.items() if key != "reductions"}))


def _object(value: object) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _recognise(start: FileStart, _: RunOverrides) -> str | None:
    if start.is_zip:
        entries = (name for name in start.members if name in (HEADER, START) or name.startswith(SAMPLES))
        return next((f"the archive has `{name}`" for name in entries), None)
    has_eval = "eval" in start.top and start.top.keys() & {"samples", "plan", "status"}
    return has(start.top, "eval", *sorted(has_eval)[:2]) if has_eval else None


def _open(path: Path, overrides: RunOverrides) -> Records:
    return EvalFile(path, overrides) if FileStart(path).is_zip else JsonFile(path, overrides)


FORMATS = (
    Format(
        name="inspect",
        title="Inspect logs",
        open=_open,
        recognise=_recognise,
        a_run="the log",
        an_eval="an epoch of a sample",
        passed="first scorer: 1, `C`, `yes`, true",
        versions="0.3.75 to 0.3.285",
        fields={
            "eval, stats": "model, experiment, dates, tokens and cost of the run; metadata",
            "samples[].input, choices": "document `task`",
            "samples[].target": "document `expected`",
            "samples[].messages, events": "transcripts, one for each sub-agent; log of events",
            "samples[].scores": "steps and scores; explanations become logs",
            "samples[].limit": "step `limit`",
            "samples[].error": "status error, log `traceback`",
            "samples[].invalidation": "incomplete",
        },
        names=("version", "status", "eval", "plan", "results", "stats", "samples"),
    ),
)
