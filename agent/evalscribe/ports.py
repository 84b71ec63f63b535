"""What the stages consume, defined by the consumer. Adapters have these shapes; only `wiring` chooses them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from pathlib import Path
from typing import Protocol

from evalscribe.branch import PullRequest, Pushed, Tip
from evalscribe.chat import Reply, Request, Usage
from evalscribe.evidence import Evidence, Unreadable
from evalscribe.finding import Case, Unclassified, Verdict
from evalscribe.given_label import GivenLabel
from evalscribe.ids import Frozen
from evalscribe.judge_result import JudgeResult
from evalscribe.patch import Proposal
from evalscribe.report_file import FileVersion, MergedReports, ReportFile, StoredReport, UnmergedReport
from evalscribe.rubric import Collection, LabelSet, Rubric
from evalscribe.run import Eval, Run
from evalscribe.sighting import Sighting

OnText = Callable[[str], None]
"""Hears an answer piece by piece as it is written."""


class Estimate(Frozen):
    """What judging one case may cost at most, and what it is likely to."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """None where the model has no price."""

    def __add__(self, other: "Estimate") -> "Estimate":
        """A sum with something unpriced has no price."""
        priced = self.cost_usd is not None and other.cost_usd is not None
        return Estimate(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if priced else None,
        )


class Source(Protocol):
    """Where a run comes from."""

    async def run(self) -> Run:
        """The run with its failed evals. Raises `EvalscribeError`."""

    async def evidence(self, eval: Eval) -> Evidence | Unreadable:
        """The redacted evidence of one failed eval. Raises only what concerns all evals (no key, host gone)."""

    async def close(self) -> None: ...


class Model(Protocol):
    """A chat model with tools."""

    id: str
    """`provider/name`."""
    context_tokens: int
    """How many tokens prompt and answer may have together."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """One answer. Raises `llm` errors mapped to `EvalscribeError` or `chat.CallFailed`.

        `on_text` hears the answer's text, and no thinking, as it comes; the pieces joined are `Reply.text`. Where an
        attempt broke off after it was heard, nothing is tried again: `CallFailed`.
        """

    def forget(self, request: Request) -> None:
        """The answer led nowhere: whoever asks the same later is to be answered anew, as most models do anyway."""

    async def close(self) -> None: ...


class Models(Protocol):
    """Every model that may be asked; all spend from one budget."""

    def open(self, name: str, stage: str) -> Model:
        """The model `provider/name`, for one stage of the work (`judge`, `tag`, `observe` …), closed with the others.

        Raises `UsageError` for an unknown provider or a missing package, `AccessError` for a missing key.
        """

    def spent(self) -> Mapping[str, Usage]:
        """What each stage consumed so far, in the order of their first calls."""

    async def close(self) -> None: ...


class Judge(Protocol):
    """Decides one case."""

    id: str
    """With its version: `rules@1`, `anthropic/claude-opus-5-5`."""

    def key(self, case: Case) -> str:
        """Content id of the question: rubric, prompt, model, parameters, evidence. Equal keys, equal question."""

    def estimate(self, case: Case) -> Estimate: ...

    async def judge(self, case: Case) -> Verdict | Unclassified:
        """What concerns this case is a value; raises `EvalscribeError` only for what concerns all of them."""


class Store(Protocol):
    """What is finished, kept by content id. Every operation is short and whole."""

    def put_run(self, run: Run) -> None: ...
    def get_run(self, run_id: str) -> Run | None: ...
    def run_ids(self, prefix: str = "") -> tuple[str, ...]:
        """Ids of the stored runs that begin so, in order."""

    def put_evidence(self, run_id: str, evidence: Evidence | Unreadable) -> None: ...
    def get_evidence(self, run_id: str, eval_id: str) -> Evidence | Unreadable | None: ...
    def put_verdict(self, key: str, verdict: Verdict | Unclassified) -> None: ...
    def get_verdict(self, key: str) -> Verdict | Unclassified | None: ...
    def put_report(self, run_id: str, report: StoredReport) -> None: ...
    def get_report(self, run_id: str) -> StoredReport | None: ...
    def put_sightings(self, run_id: str, sightings: Sequence[Sighting]) -> None:
        """All of a run, in place of those it had."""

    def sightings(self, run_id: str) -> tuple[Sighting, ...]:
        """In the order that they were put in; none where nothing was put in."""

    def put_labels(self, labels: Mapping[str, Sequence[GivenLabel]]) -> None:
        """Per run all labels that people gave, in place of those it had; of other runs they stay."""

    def labels(self) -> tuple[GivenLabel, ...]:
        """By run, in the order that they were put in."""

    def put_proposal(self, key: str, proposal: Proposal) -> None:
        """What a model proposed, by the content id of what it was asked: never paid for twice."""

    def proposal(self, key: str) -> Proposal | None: ...
    def lock(self, run_id: str) -> AbstractContextManager[None]:
        """Held while a run is analysed; dies with its process. Raises `UnavailableError` naming the holder."""

    def close(self) -> None: ...


class Shelf(Protocol):
    """Collections with their rubrics and label sets, and what judges found: immutable but for what is added."""

    def add_collection(self, collection: Collection) -> None:
        """Raises `UsageError` where the id is taken by a collection of another name."""

    def collections(self) -> tuple[Collection, ...]:
        """In the order they were made."""

    def add_rubric(self, collection_id: str, rubric: Rubric) -> Rubric:
        """Store it as the next version of its id, or give back the latest where that is the same by content.

        What is given back has the number it was stored under. Raises `NotFoundError` for an unknown collection.
        """

    def rubric(self, collection_id: str, rubric_id: str, version: int | None = None) -> Rubric:
        """The version, or the latest. Raises `NotFoundError` naming what there is."""

    def rubrics(self, collection_id: str) -> tuple[Rubric, ...]:
        """The latest version of each, by id. Raises `NotFoundError` for an unknown collection."""

    def add_label_set(self, collection_id: str, labels: LabelSet) -> None:
        """Raises `UsageError` where its id is taken by another one."""

    def label_set(self, collection_id: str, label_set_id: str) -> LabelSet: ...
    def label_sets(self, collection_id: str) -> tuple[LabelSet, ...]: ...
    def put_result(self, key: str, result: JudgeResult) -> None:
        """A result that was paid for is replaced by another one only, never by a failure."""

    def get_result(self, key: str) -> JudgeResult | None:
        """The result of the same question: rubric, prompt, model, parameters and subject."""

    def close(self) -> None: ...


class Intent(Frozen):
    """Questions that go out as one batch, written down before they do."""

    id: str
    keys: tuple[str, ...]
    """Content ids of the questions, which name them in the batch too."""
    created: datetime
    """Not later than the batch; with a time zone."""
    batch_id: str | None = None
    """None until the service has named it, and where we do not know whether it has."""


class Unanswered(Frozen):
    """What a batch says of a question that it did not answer."""

    reason: str
    charged: bool = False
    """Whether it may have been charged for all the same: whoever takes this first counts it."""


class Intents(Protocol):
    """The batches that were sent or are about to be, and what they answered; shared by processes."""

    def claim(self, intent_id: str) -> AbstractContextManager[bool]:
        """Whether this process, and no other while it lives, may submit the intent or look for its batch."""

    def add(self, intent: Intent) -> Intent:
        """Write it down with those of its keys that no other intent has; where none is left, nothing is."""

    def of(self, key: str) -> Intent | None:
        """The intent with this question."""

    def submitted(self, intent_id: str, batch_id: str) -> None: ...
    def drop(self, intent_id: str) -> None:
        """Forget an intent of which there is no batch; what was answered stays."""

    def batch_ids(self) -> frozenset[str]:
        """Every batch whose intent is known."""

    def settle(self, outcomes: Mapping[str, Reply | Unanswered]) -> None:
        """Keep what a batch says of its questions."""

    def outcome(self, key: str) -> Reply | Unanswered | None: ...
    def take(self, key: str) -> bool:
        """Whether nobody took the question's answer before: it is billed once, however often it is asked for."""

    def release(self, key: str) -> None:
        """Forget an answer that was taken, so that the question can be asked anew; one that nobody took stays."""

    def close(self) -> None: ...


class Library(Protocol):
    """The folder of reports, kept in git by people."""

    def of_model(self, provider: str, model: str) -> Sequence[ReportFile]:
        """Every report of the model, whatever its spelling, in no promised order."""

    def all(self) -> Iterable[ReportFile]: ...

    def write(self, name: str, text: str) -> Path:
        """Write one report whole or not at all; `name` is relative to the reports folder."""

    def commit(self, path: Path, message: str) -> str:
        """One commit with only this file on the current branch; its id. Raises `EvalscribeError` with the reason."""

    def versions(self, name: str, ref: str | None = None) -> Iterator[FileVersion]:
        """Every version of a report that is merged into `ref`, oldest first, also under names it had before.

        `ref` is by default the remote's main branch where one is known, else HEAD. Raises `UsageError` outside git.
        """

    def merged(self, ref: str | None = None) -> MergedReports:
        """What is merged into `ref`. Raises `UsageError` outside git and for an unknown `ref`."""

    def unmerged(self, ref: str | None = None) -> Iterator[UnmergedReport]:
        """Reports that are changed on branches or in the working tree and not merged into `ref`, the latter first."""


class Repository(Protocol):
    """A git repository. Its working tree, index, HEAD and every branch but the named one stay as they are."""

    root: Path

    def head(self) -> str:
        """Id of the commit that is checked out. Raises `UsageError` where there is none."""

    def files(self, commit: str) -> tuple[str, ...]:
        """Paths of the regular files of a commit, relative to the root, with `/`; no links, no submodules."""

    def links(self, commit: str) -> tuple[str, ...]:
        """Paths of a commit that are no regular files: symbolic links and submodules."""

    def tip(self, branch: str) -> Tip | None:
        """The newest commit of a local branch; None where there is no such branch."""

    def read(self, commit: str, path: str) -> str | None:
        """The file's text with its own line ends; None where there is none or it is no UTF-8 text."""

    def changed(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Those of the paths whose file in the working tree or index differs from HEAD."""

    def commit(
        self,
        files: Mapping[str, str],
        *,
        parent: str,
        branch: str | None = None,
        message: str,
        merging: str | None = None,
    ) -> str:
        """One commit with these files on top of `parent`, which becomes the tip of `branch` if given; its id.

        With `merging` it is a merge of that commit into `parent`: the given files, and every other one as the side has
        it that changed it. Raises `DataError` where both did, `UsageError` where the branch is checked out somewhere,
        has commits that `parent` has not, or git does not know who commits; then nothing was changed.
        """

    def common(self, a: str, b: str) -> str | None:
        """The best common ancestor of two commits; None where there is none, or a shallow clone does not show it."""

    def remote(self, name: str | None = None) -> str:
        """The named remote; else the one of the branch's upstream, `origin`, or the only one. Raises `UsageError`."""

    def remote_url(self, remote: str) -> str | None:
        """Without a login."""

    def fetch(self, remote: str, branch: str | None = None) -> tuple[str, str] | None:
        """Name and newest commit of a branch of the remote, its main one by default; None where there is none.

        Raises `UnavailableError`, `AccessError`.
        """

    def push(self, remote: str, branch: str, commit: str) -> Pushed:
        """The commit as that branch; never by force.

        Raises `UnavailableError`, `AccessError`, or `DataError` where the remote refuses.
        """

    def close(self) -> None: ...


class Forge(Protocol):
    """A site that hosts repositories."""

    def propose(self, pushed: Pushed, base: str, title: str, body: str, *, draft: bool) -> PullRequest:
        """Open the branch's pull request, or update the open one. Raises `EvalscribeError` with the reason."""

    def comment(self, number: int, mark: str, body: str) -> str | None:
        """Write our one comment of this mark into a pull request, or replace it; its address.

        None where the forge takes no comments of ours. Raises `AccessError` where the token may not write.
        """

    def close(self) -> None: ...


class Clock(Protocol):
    def today(self) -> date: ...
