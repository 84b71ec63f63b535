"""From a recommendation to a committed change. Nothing changes before a person's yes."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from evalscribe.app.reports.reading import found, text_of
from evalscribe.app.reports.recommended import (
    Recommended,
    concerns,
    documents,
    evidence_of,
    others,
    outputs,
    recommended,
)
from evalscribe.errors import AccessError, DataError, NotFoundError, UnavailableError, UsageError
from evalscribe.forge import repository_of
from evalscribe.ids import Frozen
from evalscribe.model.evidence import Evidence
from evalscribe.model.finding import Recommendation
from evalscribe.model.protocols import Model, Repository
from evalscribe.model.repository import Patch
from evalscribe.prompts.templates import Prompts
from evalscribe.reports.propose.edits import CommitFiles
from evalscribe.reports.propose.proposal import Proposer
from evalscribe.reports.propose.record import (
    action_text,
    branch_names,
    commit_message,
    committed_line,
    is_of,
    with_action,
)
from evalscribe.reports.propose.scope import PatchScope, patch_scope
from evalscribe.settings import RULES
from evalscribe.text import join_first
from evalscribe.workspace import Workspace

STAGE = "propose"
"""Of the calls of models, in what is spent."""


@dataclass(frozen=True)
class Suite:
    """The git repository of an eval suite, or a folder in it."""

    repository: Repository
    within: str = ""
    """The folder relative to the repository's root; empty for the root."""


@contextmanager
def open_suite(folder: Path) -> Iterator[Suite]:
    """The repository that a folder belongs to.

    Raises:
        UsageError: The folder is in no git repository.
    """
    try:
        repository = repository_of(folder)
    except UsageError as error:
        said = str(error).removesuffix(".")
        raise UsageError(f"{said}.\nThe eval suite's folder is named with --repo DIR.") from error
    with closing(repository):
        yield Suite(repository, _below(repository.root.resolve(), folder.resolve()))


def _below(root: Path, folder: Path) -> str:
    """Empty for the root, and if the work tree lies elsewhere (`core.worktree`)."""
    return "" if folder == root or not folder.is_relative_to(root) else folder.relative_to(root).as_posix()


class Offer(Frozen):
    """A patch that somebody has to agree to."""

    file: str
    """The report's name below the reports folder."""
    recommendation: Recommendation
    patch: Patch
    branch: str
    """Where it would be committed."""


class Applied(Frozen):
    """A recommendation that is committed and told in the report."""

    recommendation: str
    line: str
    """What the report says under `Actions taken`."""
    report: str
    branch: str | None = None
    """None where only the report is known to say so."""
    commit: str | None = None
    base: str | None = None
    """The commit that it was made against; None where it was committed before."""
    new: bool = True
    """Whether this command committed it or told it in the report."""


async def propose(
    workspace: Workspace, suite: Suite, report: str, id: str, say: Callable[[str], None]
) -> Offer | Applied:
    """Propose a patch for a recommendation, or tell what was committed for it before.

    Only the store is written to, and the report if a branch has the commit already. With the option `fresh` the
    answer of an earlier proposal is not used.

    Args:
        workspace: Where the report and its evidence are, and the model that is asked.
        suite: What is to be changed.
        report: As `reading.found` takes it.
        id: Of the recommendation, such as `R3`.
        say: Hears what a person should know, a line each.

    Raises:
        EvalscribeError: There is no such recommendation, nothing that it concerns, no patch that applies, or a file
            has changes that are not committed.
    """
    subject = recommended(workspace.reports, report, id)
    before = _done_before(workspace, suite, subject)
    if before is not None:
        return before
    evidence = evidence_of(workspace.store.analyses, subject)
    for note in _notes(workspace.prompts, subject, evidence):
        say(note)
    patch = await _patch(workspace, suite, subject, evidence)
    _refuse_changed(suite, patch)
    branch = _free_branch(suite, subject.id, subject.report.run.id)
    return Offer(file=subject.file, recommendation=subject.recommendation, patch=patch, branch=branch)


async def put(workspace: Workspace, offer: Offer) -> bool:
    """Store the question after the patch was shown. Returns whether it replaces one about another patch.

    The question is stored so that a yes that comes later, from any process, approves only the patch that was shown.
    """
    return workspace.store.analyses.request_approval(offer.patch)


async def settle(workspace: Workspace, suite: Suite, offer: Offer, *, yes: bool) -> Applied | None:
    """Commit the patch after a yes and write it into the report. Returns None, with nothing changed, after a no.

    Raises:
        EvalscribeError: The repository or the report changed meanwhile. A commit that was made stands, and the same
            command again writes it into the report.
    """
    asked = workspace.store.analyses.take_approval(offer.patch)
    applied = _apply(workspace, suite, offer, agreed=asked) if yes else None
    workspace.store.analyses.drop_approval(offer.patch)
    return applied


def _apply(workspace: Workspace, suite: Suite, offer: Offer, *, agreed: bool) -> Applied:
    """One at a time: of two who agree at once the second hears that it is done."""
    with workspace.store.analyses.lock(offer.patch.run):
        subject = recommended(workspace.reports, offer.file, offer.patch.recommendation)
        before = _done_before(workspace, suite, subject)
        if before is not None:
            return before
        if not agreed:
            raise UsageError("the question was answered by somebody else meanwhile. Nothing was changed; run it again")
        if subject.recommendation != offer.recommendation:
            raise UsageError(f"{subject.id} was changed in {offer.file} meanwhile. Nothing was changed; run it again")
        _refuse_changed(suite, offer.patch)
        return _commit(workspace, suite, offer, subject)


def _commit(workspace: Workspace, suite: Suite, offer: Offer, subject: Recommended) -> Applied:
    patch = offer.patch
    branch = _free_branch(suite, subject.id, patch.run)
    commit = suite.repository.commit(
        {change.path: change.after for change in patch.changes},
        parent=patch.base,
        branch=branch,
        message=commit_message(patch, subject.recommendation.evals, offer.file),
    )
    applied = _tell(workspace, subject, [change.path for change in patch.changes], commit, branch)
    return applied.model_copy(update={"base": patch.base})


def _done_before(workspace: Workspace, suite: Suite, subject: Recommended) -> Applied | None:
    """What the report says was committed, or a branch has; the latter is told in the report."""
    line = committed_line(subject.text, subject.id)
    if line is not None:
        return Applied(recommendation=subject.id, line=line, report=subject.file, new=False)
    for branch in branch_names(subject.id, subject.report.run.id):
        tip = suite.repository.tip(branch)
        if tip is None:
            return None
        if is_of(tip, subject.id, subject.report.run.id):
            return _tell(workspace, subject, tip.files, tip.commit, branch)
    return None


def _tell(
    workspace: Workspace, subject: Recommended, files: list[str] | tuple[str, ...], commit: str, branch: str
) -> Applied:
    """Add the line to the report's file, and nothing else: whatever a person wrote meanwhile stays."""
    line = action_text(subject.recommendation, files, commit, branch, date.today().isoformat())
    try:
        now = text_of(found(workspace.reports, subject.file))
        workspace.reports.write(subject.file, with_action(now, line))
    except (DataError, NotFoundError, AccessError, UnavailableError) as error:
        kind = DataError if isinstance(error, DataError) else type(error)
        raise kind(
            f"{commit[:12]} is committed on {branch}, and the report does not say so yet: {error}\n"
            f"Correct {subject.file} and run the same command again."
        ) from error
    return Applied(recommendation=subject.id, line=line, report=subject.file, branch=branch, commit=commit)


async def _patch(workspace: Workspace, suite: Suite, subject: Recommended, evidence: dict[str, Evidence]) -> Patch:
    head = suite.repository.head()
    known: dict[str, str | None] = {}

    def read(path: str) -> str | None:
        if path not in known:
            known[path] = suite.repository.read(head, path)
        return known[path]

    concerned, files = _files(workspace, suite, subject, evidence, head, read)
    proposer = Proposer(
        subject.recommendation,
        concerns(subject, evidence),
        concerned,
        files,
        model=_model(workspace),
        prompts=workspace.prompts,
    )
    proposal = await proposer.propose(workspace.store.analyses, fresh=workspace.options.fresh)
    return proposer.patch(proposal, run=subject.report.run.id, recommendation=subject.id, base=head)


def _model(workspace: Workspace) -> Model:
    name = workspace.settings.judge_name
    if name == RULES:
        raise UsageError(
            "the rules cannot write a patch: name a model with --judge PROVIDER/MODEL, or set ANTHROPIC_API_KEY"
        )
    return workspace.models.open(name, STAGE)


def _files(
    workspace: Workspace,
    suite: Suite,
    subject: Recommended,
    evidence: dict[str, Evidence],
    head: str,
    read: Callable[[str], str | None],
) -> tuple[PatchScope, CommitFiles]:
    """What may be changed, and what may be read, first of all what may be changed."""
    there = tuple(path for path in suite.repository.files(head) if path.isprintable())
    concerned = _scope(workspace, suite, subject, evidence, there, head)
    by_model = _written_by_model(concerned, evidence, CommitFiles(concerned.files, read))
    concerned = concerned.model_copy(update={"files": tuple(p for p in concerned.files if p not in by_model)})
    if not concerned.files and not concerned.folders:
        where = suite.repository.root / suite.within
        evals = ", ".join(subject.recommendation.evals[:3]) or "none"
        raise DataError(
            f"{where} has nothing that {subject.id} concerns: nothing there is called like its evals, or several "
            f"places are ({evals}).\n"
            "Name the repository of the eval suite with --repo; what is not committed is not seen."
        )
    own = [path for path in there if not suite.within or path.startswith(f"{suite.within}/")]
    rest = [path for path in own if path not in concerned.files]
    return concerned, CommitFiles([*concerned.files, *rest], read)


def _scope(
    workspace: Workspace,
    suite: Suite,
    subject: Recommended,
    evidence: dict[str, Evidence],
    there: tuple[str, ...],
    head: str,
) -> PatchScope:
    return patch_scope(
        there,
        "lint" if subject.recommendation.group == "lint" else "eval",
        subject.recommendation.evals,
        documents(evidence),
        links=suite.repository.links(head),
        others=others(workspace.store.analyses, subject),
        within=suite.within,
    )


def _written_by_model(concerned: PatchScope, evidence: dict[str, Evidence], files: CommitFiles) -> frozenset[str]:
    """Files that are a stored output, wherever the repository keeps them."""
    texts = outputs(evidence)
    names = {one.path.rpartition("/")[2] for known in evidence.values() for one in known.of("output")}
    alike = (path for path in concerned.files if path.rpartition("/")[2] in names)
    return frozenset(path for path in alike if files.text(path) in texts)


def _refuse_changed(suite: Suite, patch: Patch) -> None:
    changed = suite.repository.changed([change.path for change in patch.changes])
    if changed:
        raise UsageError(
            f"{', '.join(changed)} in {suite.repository.root} {'has' if len(changed) == 1 else 'have'} changes that "
            "are not committed; commit or undo them first. Nothing was changed."
        )


def _free_branch(suite: Suite, id: str, run: str) -> str:
    free = (branch for branch in branch_names(id, run) if suite.repository.tip(branch) is None)
    branch = next(free, None)
    if branch is None:
        raise UsageError(f"every name for the branch of {id} is taken; delete those that are no longer needed")
    return branch


def _notes(prompts: Prompts, subject: Recommended, evidence: dict[str, Evidence]) -> list[str]:
    missing = [path for path in subject.recommendation.evals if path not in evidence]
    said = [f"The evidence of {join_first(missing, 3)} is not in the store: the proposal rests on the report's words."]
    own = ["The workspace's own prompts are used in place of the shipped ones."]
    return [*(said if missing else []), *(own if prompts.own("propose") else [])]
