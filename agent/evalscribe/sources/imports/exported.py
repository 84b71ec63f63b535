"""Files of `evalscribe export`, as `ports.Records`."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from evalscribe.errors import DataError
from evalscribe.record import Record
from evalscribe.run import Run
from evalscribe.sources.imports import export_lines
from evalscribe.sources.imports.json_text import decode
from evalscribe.sources.imports.left_out import LeftOut
from evalscribe.sources.imports.lines import lines
from evalscribe.sources.imports.overrides import RunOverrides, named
from evalscribe.sources.imports.reading import Reading


class Exported:
    format = "evalscribe"

    def __init__(self, path: Path, overrides: RunOverrides) -> None:
        self._path = path
        self._wish = overrides
        self._left_out = LeftOut()
        self._reading: Reading | None = None
        self._runs: set[str] = set()

    @property
    def left_out(self) -> Mapping[str, int]:
        return self._left_out.told()

    @property
    def progress(self) -> float:
        return self._reading.progress if self._reading else 0.0

    def read(self) -> Iterator[Run | Record]:
        run_id: str | None = None
        with Reading(self._path) as self._reading:
            for number, line in lines(self._reading):
                one = self._read(line, f"line {number}", run_id)
                if isinstance(one, Run):
                    run_id = one.id
                    self._runs.add(run_id)
                if one is not None:
                    yield one

    def _read(self, line: str | None, place: str, run_id: str | None) -> Run | Record | None:
        try:
            if line is None:
                raise DataError("a line that is too long")
            one = export_lines.parsed(decode(line), run_id)
            if isinstance(one, Record) and one.run_id not in self._runs:
                raise DataError("an eval before its run")
            return self._wished(one) if isinstance(one, Run) else one
        except DataError as error:
            self._left_out.add(str(error), place)
            return None

    def _wished(self, run: Run) -> Run:
        provider, model = named(self._wish, run.model, run.provider)
        experiment = self._wish.experiment or run.experiment
        return run.model_copy(update={"provider": provider, "model": model, "experiment": experiment})
