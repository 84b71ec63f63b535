"""Read and write the export format of evalscribe: JSON lines with runs and evals."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from evalscribe.errors import DataError
from evalscribe.model.record import Record
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides, provider_and_model
from evalscribe.sources.files import FileReader
from evalscribe.sources.recognition import Format
from evalscribe.sources.records import RecordFile, safe_json
from evalscribe.sources.streams import JsonLine, json_lines

_OMITTED = {"failures"}
"""Fields that are left out of a run's line, because the run's failed evals have lines of their own."""
_FIGURES = (
    "started_at",
    "duration_s",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "incomplete_evals",
    *("unread", "columns", "threshold"),
)
"""Fields that most sources do not have. A field is left out if its value is unknown."""


def render_line(item: Run | Record) -> str:
    """Render a run or an eval's record as one line, without a line end. `parse_line` restores an equal object."""
    if isinstance(item, Run):
        unknown = {name for name in _FIGURES if getattr(item, name) in (None, ())}
        return _json({"run": item.model_dump(mode="json", exclude=_OMITTED | unknown)})
    value = item.model_dump(mode="json")
    return _json({"eval": value.pop("eval"), **value})


def parse_line(value: object, run_id: str | None) -> Run | Record:
    """Redact and parse the JSON value of a line. Raises `DataError` if the value is invalid.

    If a record does not name its run, `run_id` is used.
    """
    fields = safe_json(value)
    if not isinstance(fields, dict):
        raise DataError("a line that is not an object")
    try:
        if set(fields) == {"run"}:
            return Run.model_validate(_run(fields["run"]))
        return Record.model_validate({"run_id": run_id, **fields})
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"] if not isinstance(part, int))
        raise DataError(f"a line whose `{place}` is wrong: {problem['msg'].lower()}") from None


def is_export_line(value: object) -> bool:
    """Return True if a value is the first line of an export file."""
    if not isinstance(value, Mapping) or not ("run" in value or "eval" in value):
        return False
    content = value.get("run", value.get("eval"))
    return isinstance(content, Mapping) and "id" in content and ("model" in content or "name" in content)


def _run(value: object) -> object:
    """Remove the fields of a run that are derived from its records."""
    return {key: part for key, part in value.items() if key not in _OMITTED} if isinstance(value, dict) else value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class ExportFile(RecordFile):
    format = "evalscribe"

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        super().__init__(path, overrides)
        self._runs: set[str] = set()

    def read(self) -> Iterator[Run | Record]:
        run_id: str | None = None
        with FileReader(self._path) as self._reader:
            for line in json_lines(self._reader):
                item = self._read(line, run_id)
                if isinstance(item, Run):
                    run_id = item.id
                    self._runs.add(run_id)
                if item is not None:
                    yield item

    def _read(self, line: JsonLine, run_id: str | None) -> Run | Record | None:
        try:
            if line.value is None:
                raise DataError(f"a line that cannot be read: {line.problem}")
            item = parse_line(line.value, run_id)
            if isinstance(item, Record) and item.run_id not in self._runs:
                raise DataError("an eval that comes before its run")
            return self._with_overrides(item) if isinstance(item, Run) else item
        except DataError as error:
            self._left_out.add(str(error), f"line {line.number}", lost=True)
            return None

    def _with_overrides(self, run: Run) -> Run:
        provider, model = provider_and_model(self._overrides, run.model, run.provider)
        experiment = self._overrides.experiment or run.experiment
        return run.model_copy(update={"provider": provider, "model": model, "experiment": experiment})


FORMATS = (
    Format(
        name=ExportFile.format,
        title="`evalscribe export`",
        open=ExportFile,
        a_run="as stated in the file",
        an_eval="as stated in the file",
        passed="as stated in the file",
        recognise=lambda start, _: "its first line is a run or an eval" if is_export_line(start.line) else None,
    ),
)
