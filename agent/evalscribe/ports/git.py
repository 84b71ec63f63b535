"""Reports, repositories and the sites that host them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from evalscribe.branch import PullRequest, Pushed, Tip
from evalscribe.report_file import FileVersion, MergedReports, ReportFile, UnmergedReport


class Library(Protocol):
    """The folder of reports, kept in git by people."""

    root: Path

    def of_model(self, provider: str, model: str, run_id: str | None = None) -> Sequence[ReportFile]:
        """Return every report on the model, under any spelling or provider, in no particular order.

        With `run_id`, also return reports on that run in other folders.
        """

    def all(self) -> Iterable[ReportFile]:
        """Every report; documents of another kind are none."""

    def document(self, name: str) -> str | None:
        """What a file of any kind holds, by its name below the folder; None where there is none."""

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
