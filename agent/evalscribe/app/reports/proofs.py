"""The evidence of a report's run, wherever it is at hand: a given snapshot, the store, or its source."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Self

from evalscribe.errors import EvalscribeError, UsageError
from evalscribe.failures.prepare import summarise_evidence
from evalscribe.ids import content_id
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.protocols import RunSource
from evalscribe.model.run import Eval, Run
from evalscribe.model.storage import Store
from evalscribe.reports.problems import LineProblem
from evalscribe.sample import snapshot_folder
from evalscribe.sources.address import Links
from evalscribe.sources.snapshot import open_snapshot
from evalscribe.text import name as printed
from evalscribe.text import path as printed_path
from evalscribe.workspace import Workspace

MANY = 1000
"""Failures whose evidence is read whole only to compare its content id."""
NOWHERE = "it is neither in the store nor given (`--evidence DIR` reads a snapshot, `--fetch` asks the deployment)"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Proof:
    """The evidence of one run."""

    def __init__(self, run: Run, source: RunSource | None, store: Store | None) -> None:
        """What the store lacks is asked of the source and, where there is a store, kept in it."""
        self.run = run
        self._source = source
        self._store = store

    def has(self, paths: Sequence[str]) -> bool:
        """Whether one of them is a failed eval of the run."""
        return any(path in self._evals for path in paths)

    async def evidence(self, path: str) -> Evidence | str:
        """Of a failed eval by its printed path, or why there is none."""
        eval = self._evals.get(path)
        try:
            found = await self._found(eval) if eval else None
        except EvalscribeError as error:
            return str(error)
        if isinstance(found, Evidence):
            return found
        return f"{path}: {found.reason}" if found else NOWHERE

    async def other_than(self, digest: str) -> Sequence[LineProblem]:
        """A warning where the evidence is not the one that the report was made from."""
        if not digest or self._from_afar or len(self.run.failures) > MANY:
            return ()
        try:
            found = [await self._found(eval) for eval in self.run.failures]
        except EvalscribeError:
            return ()  # the quotations say what cannot be had
        digests = sorted(summarise_evidence(one).digest for one in found if one)
        here = content_id(digests)[: len("sha256:") + 8]
        if None in found or here == digest:
            return ()
        what = f"made from evidence {digest}, compared with {here}: it has changed since, or the line was"
        return (LineProblem(1, "warning", what),)

    async def _found(self, eval: Eval) -> Evidence | UnreadableEvidence | None:
        stored = self._store.get_evidence(self.run.id, eval.id) if self._store else None
        if self._source is None or isinstance(stored, Evidence):
            return stored
        fetched = await self._source.evidence(eval)
        if self._store:
            self._store.put_evidence(self.run.id, fetched)
        return fetched

    @property
    def _from_afar(self) -> bool:
        return self._source is not None and self._store is not None

    @cached_property
    def _evals(self) -> Mapping[str, Eval]:
        return {printed_path(eval.path): eval for eval in self.run.failures}


class Proofs:
    """Finds the evidence of runs: in snapshots that were given, the store, those that ship, the deployment."""

    def __init__(self, workspace: Workspace, evidence: Sequence[Path] = (), *, fetch: bool = False) -> None:
        """Open the sources; use it as an async context manager.

        Args:
            workspace: Its store is used if there is one, and created only to keep what is fetched.
            evidence: Snapshot folders.
            fetch: Whether evidence that is nowhere else is fetched from the deployment.
        """
        self._workspace = workspace
        self._fetch = fetch
        self._folders = (*evidence, snapshot_folder())
        self._sources: list[RunSource] = []
        self._opened = AsyncExitStack()
        self._runs: dict[int, Run] = {}
        self.store: Store | None = None
        """None if there is none, or none that can be opened."""
        self._lacking = NOWHERE
        """Why the evidence of a run is missing if it is nowhere."""

    async def __aenter__(self) -> Self:
        """Raises `EvalscribeError` for a folder that is no snapshot."""
        if self._fetch or self._workspace.has_store:
            try:
                self.store = self._workspace.store.analyses
            except EvalscribeError as error:
                self._lacking = str(error)  # no reason to call a report wrong
        async with AsyncExitStack() as opened:
            for folder in self._folders:
                self._sources.append(source := open_snapshot(folder, Links()))
                opened.push_async_callback(source.close)
            self._opened = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    @asynccontextmanager
    async def of(self, run_id: str) -> AsyncIterator[Proof | str]:
        """The run's evidence, or why there is none; `run_id` as a report prints it."""
        *given, shipped = self._sources
        at_hand = await self._among(given, run_id) or self._stored(run_id) or await self._among([shipped], run_id)
        if at_hand or not self._fetch:
            yield at_hand or self._lacking
            return
        try:
            source = self._deployed(run_id)
        except EvalscribeError as error:
            yield str(error)
            return
        try:
            yield await _fetched(source, self.store)
        finally:
            await source.close()

    def _deployed(self, run_id: str) -> RunSource:
        """The run at the deployment. A report names it, so that nothing but an id may reach the source."""
        if not _RUN.fullmatch(run_id):
            raise UsageError("its run is no id of a deployment's")
        from evalscribe.sources.convex import open_convex

        access = self._workspace.settings.convex()
        return open_convex(access.url, access.key, run_id, Links())

    async def _among(self, sources: Sequence[RunSource], run_id: str) -> Proof | None:
        for source in sources:
            if id(source) not in self._runs:
                self._runs[id(source)] = await source.run()
            run = self._runs[id(source)]
            if printed(run.id) == run_id:
                return Proof(run, source, None)
        return None

    def _stored(self, run_id: str) -> Proof | None:
        run = self.store.get_run(run_id) if self.store else None
        return Proof(run, None, self.store) if run and (not self._fetch or self._whole(run)) else None

    def _whole(self, run: Run) -> bool:
        """Whether nothing is lacking that could be fetched."""
        return all(self.store and self.store.get_evidence(run.id, eval.id) for eval in run.failures)


async def _fetched(source: RunSource, store: Store | None) -> Proof | str:
    try:
        run = await source.run()
    except EvalscribeError as error:
        return str(error)
    if store:
        store.put_run(run)
    return Proof(run, source, store)
