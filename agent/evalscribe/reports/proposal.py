"""Ask a model to propose the patch that implements a recommendation."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field, ValidationError

from evalscribe import text as prose
from evalscribe.errors import DataError, UnavailableError
from evalscribe.ids import Frozen, canonical_json, content_id
from evalscribe.judging import prompt_text
from evalscribe.judging.prompt_text import Delimiter, bar_lines, number_lines, one_line, quote_json
from evalscribe.judging.tool_loop import (
    ToolFields,
    TurnBounds,
    Turns,
    answer_calls,
    describe_misuse,
    limit_lines,
    reply_messages,
    tool_of,
)
from evalscribe.model.chat import CallFailed, Effort, Message, Reply, Request, ToolCall, ToolResult
from evalscribe.model.evidence import PackedEvidence
from evalscribe.model.finding import Recommendation
from evalscribe.model.protocols import Model
from evalscribe.model.report import ReportEntry
from evalscribe.model.repository import Edit, FileChange, Patch, Proposal
from evalscribe.prompts.templates import Prompts
from evalscribe.redaction.redact import redact
from evalscribe.reports.patch import MOST_SEARCHED, CommitFiles, EditRefusal, PatchScope, apply_edits

if TYPE_CHECKING:
    from evalscribe.store.analyses import AnalysisStore

FOLDER = "propose"
SHOWN_FILES = 8_000
"""Maximum number of tokens of file text in the first prompt. The model reads further files with its tools."""
MOST_SHOWN = 40
MOST_NAMED = 100


class ConcernedFinding(Frozen):
    """A finding that the recommendation concerns."""

    entry: ReportEntry
    packed: PackedEvidence | None = None
    """Evidence of the finding, shortened for the prompt. None if the evidence is not in the store, or if the prompt
    already has the evidence of enough other findings.
    """


def patch_delimiter(
    recommendation: Recommendation, concerns: Sequence[ConcernedFinding], scope: PatchScope, files: CommitFiles
) -> Delimiter:
    texts = [text for _, text in _short_files(scope, files)]
    contents = canonical_json([recommendation, list(concerns), list(scope.files), texts])
    return Delimiter(content_id(contents), (contents, *texts))


def instructions(prompts: Prompts) -> str:
    return prompts.render(f"{FOLDER}/system.md.j2")


def question(
    prompts: Prompts,
    recommendation: Recommendation,
    concerns: Sequence[ConcernedFinding],
    scope: PatchScope,
    files: CommitFiles,
    delimiter: Delimiter,
) -> str:
    group = "eval improvement" if recommendation.group == "eval" else "lint or configuration change"
    return prompts.render(
        f"{FOLDER}/recommendation.md.j2",
        tag=delimiter.tag,
        group=group,
        recommendation=delimiter.block("the recommendation", one_line(recommendation.text)),
        findings=[delimiter.block("a finding", _finding(concern.entry)) for concern in concerns],
        excerpts=list(_excerpts(concerns, delimiter)),
        changeable=delimiter.block("files that may be changed", _listed(scope.files)) if scope.files else "",
        folders=delimiter.block("folders for new files", _listed(scope.folders)) if scope.folders else "",
        files=[
            delimiter.block(f"file {quote_json(path)}", number_lines(1, text.removesuffix("\n")))
            for path, text in _short_files(scope, files)
        ],
    )


def _finding(entry: ReportEntry) -> str:
    facts = {
        "Evals": ", ".join(entry.paths[:MOST_NAMED]),
        "Failed step": entry.step or "none: grading never began",
        "Label": f"{entry.classification or 'UNCLASSIFIED'}{f' ({entry.cause_kind})' if entry.cause_kind else ''}",
        "Error": _of_each(part.error for part in entry.each),
        "Cause": entry.cause or "",
        "Reasoning": _of_each(part.reasoning for part in entry.each),
        "Reviewers say": " / ".join(entry.reviewer),
    }
    return "\n".join(f"{name}: {one_line(text)}" for name, text in facts.items() if text)


def _of_each(texts: Iterable[str]) -> str:
    """Join the texts of a finding's trials. A text that several trials share is included once."""
    return " / ".join(dict.fromkeys(texts))


def _excerpts(concerns: Iterable[ConcernedFinding], delimiter: Delimiter) -> Iterable[str]:
    for concern in concerns:
        for excerpt in concern.packed.excerpts if concern.packed else ():
            about = f"{excerpt.role} {quote_json(excerpt.path)} of {quote_json(concern.entry.paths[0])}"
            yield delimiter.block(about, number_lines(excerpt.first, excerpt.text))
        if concern.packed and concern.packed.differences:
            yield delimiter.block("differences between output and reference", bar_lines(concern.packed.differences))


def _short_files(scope: PatchScope, files: CommitFiles) -> list[tuple[str, str]]:
    """Return the paths and texts of changeable files, as many as fit into the first prompt.

    A file that is too long for the remaining space is left out.
    """
    room = SHOWN_FILES
    texts = []
    for path in scope.files[:MOST_SHOWN]:
        text = files.text(path)
        if text is not None and (cost := prompt_text.estimate_tokens(text)) <= room:
            room -= cost
            texts.append((path, text))
    return texts


def _listed(paths: Sequence[str]) -> str:
    more = [f"and {len(paths) - MOST_NAMED} more; see list_files"] if len(paths) > MOST_NAMED else []
    return "\n".join([*map(quote_json, paths[:MOST_NAMED]), *more])


MOST_FILES = 300
MOST_LINES = 400
MOST_HITS = 50


class ListFiles(ToolFields):
    """List the repository's files, those that may be changed first."""

    folder: Annotated[str, Field(description="Only files below this folder; empty for all.")]


class ReadFile(ToolFields):
    """Read lines of one file, with their numbers."""

    path: str
    first: Annotated[int, Field(ge=1, description="First line, counted from 1.")]
    last: Annotated[int, Field(ge=1, description=f"Last line; {MOST_LINES} lines at most are shown at once.")]


class SearchFiles(ToolFields):
    """Find the lines that hold a text, capitals or not."""

    text: Annotated[str, Field(min_length=1, max_length=200, description="Plain text, no pattern.")]
    folder: Annotated[str, Field(description="Only in files below this folder; empty for all.")]


class Replacement(ToolFields):
    path: Annotated[str, Field(description="Path of the file from the repository's root, with `/`.")]
    old: Annotated[
        str,
        Field(description="Text that the file has exactly once, without line numbers; empty to make a new file."),
    ]
    new: Annotated[str, Field(description="What stands in its place; of a new file the whole text.")]


class SubmitPatch(ToolFields):
    """Submit the change; it ends your work. A person decides about it."""

    summary: Annotated[str, Field(description="What is changed, in one imperative line of at most 72 characters.")]
    edits: Annotated[list[Replacement], Field(description="One for each place that is changed, in order.")]


class NoChange(ToolFields):
    """Say that no change of these files can do what is recommended; it ends your work."""

    reason: Annotated[str, Field(description="Why, in one or two sentences.")]


SUBMIT, NO_CHANGE = "submit_patch", "no_change"
READING: dict[str, type[BaseModel]] = {"list_files": ListFiles, "read_file": ReadFile, "search": SearchFiles}
NAMES: dict[str, type[BaseModel]] = {**READING, SUBMIT: SubmitPatch, NO_CHANGE: NoChange}
TOOLS = tuple(tool_of(name, fields) for name, fields in NAMES.items())


class ToolMisuse(Exception):
    """Error for a tool call that cannot be answered.

    The message is the reason, which is sent to the model.
    """


def fields_of(call: ToolCall) -> BaseModel:
    """Parse the arguments of a tool call.

    Raises `ToolMisuse` if the tool does not exist or the arguments are invalid.
    """
    if call.name not in NAMES:
        raise ToolMisuse(f"There is no tool {quote_json(call.name[:80])}; there are {', '.join(NAMES)}.")
    try:
        return NAMES[call.name].model_validate(call.input)
    except ValidationError as error:
        raise ToolMisuse(describe_misuse(error)) from None


class PatchTools:
    """Tools with which the model reads the files of a commit.

    Results are enclosed in delimiters, so that the model treats them as data.
    """

    def __init__(self, files: CommitFiles, scope: PatchScope, delimiter: Delimiter) -> None:
        self._files = files
        self._changeable = frozenset(scope.files)
        self._delimiter = delimiter

    def answer(self, call: ToolCall, arguments: BaseModel) -> ToolResult:
        """Return the result of a tool call.

        An invalid call raises no exception; its result is an error message for the model.
        """
        try:
            about, lines = self._run(arguments)
        except ToolMisuse as misused:
            return ToolResult(call_id=call.id, text=str(misused), is_error=True)
        return ToolResult(call_id=call.id, text=self._delimiter.block(about, limit_lines(lines)))

    def _run(self, arguments: BaseModel) -> tuple[str, Iterable[str]]:
        match arguments:
            case ReadFile():
                return self._read(arguments)
            case SearchFiles():
                return "search", self._search(arguments)
            case ListFiles():
                return "files", self._list(arguments)
        raise ToolMisuse("That is no reading tool.")

    def _list(self, arguments: ListFiles) -> Iterator[str]:
        paths = self._paths_below(arguments.folder)
        for path in paths[:MOST_FILES]:
            yield f"{quote_json(path)}{' may be changed' if path in self._changeable else ''}"
        if len(paths) > MOST_FILES:
            yield f"and {len(paths) - MOST_FILES} more; name a folder"

    def _read(self, arguments: ReadFile) -> tuple[str, Iterable[str]]:
        text = self._files.text(arguments.path)
        if text is None:
            raise ToolMisuse(f"There is no text file {quote_json(arguments.path[:200])} to be read; see list_files.")
        lines = text.removesuffix("\n").split("\n")
        if not arguments.first <= min(arguments.last, len(lines)):
            raise ToolMisuse(f"It has {len(lines)} lines; ask for first to last among them.")
        last = min(arguments.last, len(lines), arguments.first + MOST_LINES - 1)
        about = f"file {quote_json(arguments.path)} lines {arguments.first} to {last} of {len(lines)}"
        return about, (
            number_lines(n, line) for n, line in enumerate(lines[arguments.first - 1 : last], arguments.first)
        )

    def _search(self, arguments: SearchFiles) -> Iterable[str]:
        paths = self._paths_below(arguments.folder)
        hits = self._files.hits(arguments.text, paths)
        lines = [f"{quote_json(path)} {number}| {one_line(line)}" for path, number, line in islice(hits, MOST_HITS + 1)]
        result = [*lines[:MOST_HITS], *(["and more"] if len(lines) > MOST_HITS else [])] or ["no line holds that"]
        if len(paths) > MOST_SEARCHED:
            result.append(f"only the first {MOST_SEARCHED} of {len(paths)} files were searched; name a folder")
        return result

    def _paths_below(self, folder: str) -> tuple[str, ...]:
        paths = self._files.below(folder)
        if not paths:
            raise ToolMisuse(f"There is no file below {quote_json(folder[:200])}.")
        return paths


LONGEST_SUMMARY = 90
NUDGE = "That was no patch. Call `submit_patch`, `no_change`, or another tool if you still need to read."
LAST = "This is your last turn: call `submit_patch` or `no_change` now."
CUT_OFF = "Your last answer was cut off because it was too long. Think less, and submit a smaller patch now."


class ProposalLimits(TurnBounds):
    """Limits for one conversation that proposes a patch."""

    turns: int = 16
    answer_tokens: int = 16_000
    seconds: float = 600.0
    nudges: int = 2
    broken: int = 2
    """Maximum number of patches that are sent back to the model because they do not apply."""
    forbidden: int = 1
    """Maximum number of submitted patches that are sent back to the model because they change something unrelated."""


class PatchConversation:
    """One conversation in which a model proposes a patch. Each object is used for a single conversation."""

    def __init__(
        self,
        model: Model,
        opening: Request,
        files: CommitFiles,
        scope: PatchScope,
        toolbox: PatchTools,
        bounds: ProposalLimits,
    ) -> None:
        self._turns = Turns(model, bounds, LAST)
        self._model = model.id
        self._opening = opening
        self._messages = list(opening.messages)
        self._files = files
        self._scope = scope
        self._toolbox = toolbox
        self._bounds = bounds
        self._nudges = 0
        self._broken = 0
        self._forbidden = 0

    async def run(self) -> Proposal:
        """Run the conversation until the model submits a patch that applies.

        Raises:
            DataError: The model submits no patch that applies.
            UnavailableError: The model does not answer.
        """
        while not self._turns.last:
            request = self._opening.model_copy(update={"messages": tuple(self._messages)})
            try:
                reply = await self._turns.ask(request)
            except CallFailed as error:
                reason = f"{self._model} proposed nothing: {error.reason}\nNothing was changed."
                raise UnavailableError(reason) from None
            proposal = self._take(reply)
            if proposal is not None:
                return proposal
        raise self._give_up(f"no patch within {self._turns.taken}")

    def _take(self, reply: Reply) -> Proposal | None:
        match reply.stop:
            case "refusal":
                raise self._give_up("it refused")
            case "context_exceeded":
                raise self._give_up("the conversation exceeds its context window")
            case "max_tokens":
                # The answer is left out of the conversation, because it can end in an incomplete tool call.
                self._nudge(CUT_OFF, f"its answer was cut off at {self._bounds.answer_tokens} tokens")
                return None
            case "pause":
                self._messages += reply_messages(reply)
                return None
        if not reply.tool_calls:
            self._messages += reply_messages(reply)
            self._nudge(NUDGE, "it submitted no patch")
            return None
        results = answer_calls(reply, self._answer)
        if isinstance(results, Proposal):
            return results
        self._messages += [*reply_messages(reply), results]
        return None

    def _answer(self, call: ToolCall) -> ToolResult | Proposal:
        try:
            arguments = fields_of(call)
        except ToolMisuse as misused:
            return ToolResult(call_id=call.id, text=str(misused), is_error=True)
        match arguments:
            case SubmitPatch():
                return self._submitted(call, arguments)
            case NoChange(reason=reason):
                raise self._give_up(f"it says that no change to these files can do it: {_short_text(reason, 400)}")
        return self._toolbox.answer(call, arguments)

    def _submitted(self, call: ToolCall, patch: SubmitPatch) -> ToolResult | Proposal:
        edits = tuple(Edit(path=edit.path, old=edit.old, new=edit.new) for edit in patch.edits)
        # The model saw redacted text, but edits are applied to the text of the file.
        result = apply_edits(edits, self._scope, self._files.raw)
        if not isinstance(result, EditRefusal):
            return Proposal(edits=edits, summary=_short_text(patch.summary, LONGEST_SUMMARY) or "Change the eval")
        self._broken += not result.forbidden
        self._forbidden += result.forbidden
        problems = "; ".join(result.problems[:5])
        if self._forbidden > self._bounds.forbidden:
            raise self._give_up(
                f"its patch touches what the recommendation does not concern: {_short_text(problems, 400)}"
            )
        if self._broken > self._bounds.broken:
            raise self._give_up(f"its patch does not apply: {_short_text(problems, 400)}")
        text = "\n".join(("Nothing of the patch was taken. Correct this and submit the whole patch again:", problems))
        return ToolResult(call_id=call.id, text=text, is_error=True)

    def _give_up(self, reason: str) -> DataError:
        """Return the error to raise, and drop the cached answers of the model."""
        # The next request then gets new answers.
        self._turns.forget()
        return DataError(f"{self._model} proposed nothing that can be applied: {reason}.\nNothing was changed.")

    def _nudge(self, words: str, reason: str) -> None:
        self._nudges += 1
        if self._nudges > self._bounds.nudges:
            raise self._give_up(reason)
        self._messages.append(Message(role="user", text=words))


def _short_text(text: str, limit: int) -> str:
    return prose.cut(redact(prose.one_line(text)), limit).rstrip(" .")


EFFORT: Effort = "high"


class Proposer:
    """Proposes a patch for a recommendation. The patch is based on the files of one commit and written by one model."""

    def __init__(
        self,
        recommendation: Recommendation,
        concerns: Sequence[ConcernedFinding],
        scope: PatchScope,
        files: CommitFiles,
        *,
        model: Model,
        prompts: Prompts,
        bounds: ProposalLimits | None = None,
    ) -> None:
        self._scope = scope
        self._files = files
        self._model = model
        self._bounds = bounds or ProposalLimits()
        delimiter = patch_delimiter(recommendation, concerns, scope, files)
        self._toolbox = PatchTools(files, scope, delimiter)
        question_text = question(prompts, recommendation, concerns, scope, files, delimiter)
        self._opening = Request(
            system=instructions(prompts),
            messages=(Message(role="user", text=question_text),),
            tools=TOOLS,
            max_tokens=self._bounds.answer_tokens,
            effort=EFFORT,
        )

    @property
    def key(self) -> str:
        """Content id of the model, the first request and the files that can be changed.

        A cached proposal with this id is used if its edits still apply to the files.
        """
        # If the id changes, stored proposals that models were paid for are not found, so a test pins it.
        return content_id([self._model.id, self._opening, self._scope.files])

    async def propose(self, store: "AnalysisStore", *, fresh: bool = False) -> Proposal:
        """Return the cached proposal, or ask the model for a new proposal.

        The model is asked if no proposal is cached, if the cached edits no longer apply, or if `fresh` is True.

        Raises:
            DataError: The model submits no patch that applies.
            UnavailableError: The model does not answer.
        """
        cached = None if fresh else store.proposal(self.key)
        if cached is not None and not isinstance(self._changes(cached), EditRefusal):
            return cached
        talk = PatchConversation(self._model, self._opening, self._files, self._scope, self._toolbox, self._bounds)
        try:
            async with asyncio.timeout(self._bounds.seconds):
                proposal = await talk.run()
        except TimeoutError:
            raise UnavailableError(
                f"{self._model.id} proposed no patch within {self._bounds.seconds:g} s. Nothing was changed."
            ) from None
        store.put_proposal(self.key, proposal)
        return proposal

    def patch(self, proposal: Proposal, *, run: str, recommendation: str, base: str) -> Patch:
        """Build the patch from a proposal.

        `base` must be the commit whose files this object was created with. Raises `DataError` if the proposal does not
        apply.
        """
        changes = self._changes(proposal)
        if isinstance(changes, EditRefusal):
            raise DataError(f"the proposal does not apply: {'; '.join(changes.problems)}. Nothing was changed.")
        return Patch(
            run=run,
            recommendation=recommendation,
            base=base,
            changes=changes,
            summary=proposal.summary,
            judge=self._model.id,
        )

    def _changes(self, proposal: Proposal) -> tuple[FileChange, ...] | EditRefusal:
        return apply_edits(proposal.edits, self._scope, self._files.raw)
