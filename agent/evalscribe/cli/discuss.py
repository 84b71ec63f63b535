"""Implements `evalscribe discuss REPORT`, which answers each line of the input as a question, in a terminal or over
a pipe.
"""

import asyncio
import signal
import sys
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from evalscribe.cli import options, output
from evalscribe.cli.apply import apply_recommendation
from evalscribe.cli.reports import Name
from evalscribe.cli.terminal import paying_user
from evalscribe.errors import EvalscribeError, InterruptError, TerminatedError, UnavailableError, UsageError, flag
from evalscribe.llm.budget import Budget
from evalscribe.model.analysis import CostSummary
from evalscribe.redaction.redact import redact
from evalscribe.reports.discussion.conversation import Discussion, open_discussion, stage_usage
from evalscribe.reports.discussion.dossier import DiscussionAnswer
from evalscribe.reports.discussion.lookup import ends_discussion, recommendations_to_apply
from evalscribe.settings import Options
from evalscribe.text import pluralise, visible
from evalscribe.workspace import Workspace

if TYPE_CHECKING:
    from evalscribe.cli.apply import RunCoroutine


T = TypeVar("T")
PROMPT = "> "
TERMINATED = "terminated: nothing was written."


def run_session(
    options: Options,
    report: str,
    *,
    ask: list[str] | None = None,
    repo: Path | None = None,
    as_json: bool = False,
    spent: CostSummary | None = None,
    opening: str = "",
) -> int:
    """Answer all questions.

    Return the exit code, which is 69 if a question from a pipe or from an option was not answered completely.

    Args:
        options: Options with the model and the budget.
        report: Report name as in `find_report`.
        ask: The questions; None to read them from standard input.
        repo: The repository of the eval suite, in which recommendations are implemented. If None, the user is asked for
            the repository when it is needed.
        as_json: True to print each answer as a JSON document.
        spent: Usage of models by this command so far, which is subtracted from the budget.
        opening: A question to the user, which the first line of input answers; empty for no question.

    Raises:
        EvalscribeError: No question can be answered.
    """
    answering = _Answering()
    with _signals(answering), asyncio.Runner() as runner:
        workspace = Workspace(options, ask=paying_user())
        if spent:
            # The budget is a cached property. It is replaced before the first model is opened.
            workspace.budget = _remaining_budget(workspace.budget, spent)
        try:
            discussion = open_discussion(workspace, report)
            for line in discussion.introduction():
                output.aside(line)
            if opening and output.in_terminal():
                output.say(f"\n{opening}")
            talk = _Talk(
                partial(answering.run, runner), workspace, discussion, repo, as_json=as_json, bare=bool(opening)
            )
            try:
                answered = talk.run(_lines() if ask is None else ask)
            finally:
                # Print the cost even if the discussion is terminated.
                if total := stage_usage(workspace.models.spent()):
                    output.aside(f"Spent: {output.usage_line(total)}")
            return 0 if answered or (ask is None and output.in_terminal()) else UnavailableError.exit_code
        finally:
            runner.run(workspace.aclose())


def _remaining_budget(budget: Budget, spent: CostSummary) -> Budget:
    usd = None if budget.usd is None else max(0.0, budget.usd - spent.cost_usd)
    tokens = None if budget.tokens is None else max(0, budget.tokens - spent.input_tokens - spent.output_tokens)
    return Budget(usd=usd, tokens=tokens, consent=budget.consent)


class _Answering:
    """Runs the coroutines that produce answers.

    SIGTERM during an answer cancels the answer, so that its cost is still counted. SIGTERM between answers ends the
    process.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    def run(self, runner: asyncio.Runner, main: Coroutine[Any, Any, T], /) -> T:
        """Run a coroutine. Raises `TerminatedError` if SIGTERM cancelled it."""
        try:
            return runner.run(self._watched(main))
        except asyncio.CancelledError:
            raise TerminatedError(TERMINATED) from None

    async def _watched(self, main: Coroutine[Any, Any, T]) -> T:
        self._task = asyncio.current_task()
        try:
            return await main
        finally:
            self._task = None

    def terminate(self, _number: int, _frame: FrameType | None) -> None:
        if self._task is None:
            raise TerminatedError(TERMINATED)
        # This also wakes the event loop, which might be waiting for the network.
        self._task.get_loop().call_soon_threadsafe(self._task.cancel)


class _Talk:
    def __init__(
        self,
        run: "RunCoroutine",
        workspace: Workspace,
        discussion: Discussion,
        repo: Path | None,
        *,
        as_json: bool,
        bare: bool,
    ) -> None:
        self._run = run
        self._workspace = workspace
        self._discussion = discussion
        self._repo = repo
        self._as_json = as_json
        self._bare = bare
        """True if a line that consists only of `R1` is a request to implement recommendation R1."""
        self._answered = True

    def run(self, lines: Iterable[str]) -> bool:
        """Handle all lines. Return whether every question was answered completely."""
        for line in lines:
            if ends_discussion(line):
                break
            if ids := recommendations_to_apply(line, bare=self._bare):
                self._implement(ids)
            elif line.strip():
                self._ask(line.strip())
        return self._answered

    def _ask(self, question: str) -> None:
        try:
            answer = self._run(self._discussion.ask(question, self._hear))
        except KeyboardInterrupt:
            self._stopped()
            return
        self._answered &= answer.broken_off is None
        if self._as_json:
            output.print_json(answer, indent=None)
        else:
            _close(answer)

    def _stopped(self) -> None:
        """Report that Ctrl-C cancelled an answer. Outside a terminal, also end the discussion."""
        output.say("\n[stopped]")
        if not output.in_terminal():
            raise KeyboardInterrupt

    def _hear(self, piece: str) -> None:
        """Print the next part of an answer."""
        if not self._as_json:
            # If the program that reads the output has ended, this raises an `OSError`. It ends the answer, so that no
            # more of it is paid for.
            sys.stdout.write(visible(piece))
            sys.stdout.flush()

    def _implement(self, ids: tuple[str, ...]) -> None:
        """Run `evalscribe apply` for each recommendation. In a terminal, the discussion continues after an error."""
        if self._as_json:
            raise UsageError("--json answers questions only; for a change use `evalscribe apply`. Nothing was changed.")
        repo = self._repo or _ask_for_repo()
        if repo is None:
            which = (
                "Which repository? Start the discussion with `--repo DIR`, or use `evalscribe apply`. "
                "Nothing was changed."
            )
            if not output.in_terminal():
                raise UsageError(which)
            output.say(which)
            return
        self._repo = repo

        report = str(self._discussion.report.path)
        for id in ids:
            try:
                apply_recommendation(self._workspace.options, repo, report, id, run=self._run, shared=self._workspace)
            # This is an `EvalscribeError`, too, but it must end the discussion.
            except TerminatedError:
                raise
            except EvalscribeError as error:
                if not output.in_terminal():
                    raise
                output.say(f"evalscribe: {redact(error.text(flag))}")
                # Ctrl-C at a question also skips the recommendations that follow.
                if isinstance(error, InterruptError):
                    return
            except KeyboardInterrupt:
                self._stopped()
                return


def _close(answer: DiscussionAnswer) -> None:
    """Print the notes on an answer. The text of the answer is already displayed."""
    if answer.text and not answer.text.endswith("\n"):
        output.say()
    if answer.broken_off:
        output.say(f"[{'broken off' if answer.text.strip() else 'no answer'}: {answer.broken_off}]")
    if answer.unverified:
        output.say(f"[unverified: {answer.unverified} of {pluralise(len(answer.citations), 'citation')}]")
    output.say()


def _lines() -> Iterator[str]:
    """Yield the lines of standard input. In a terminal, stop at an empty line or at the end of the input."""
    with suppress(AttributeError):
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not output.in_terminal():
        yield from sys.stdin
        return
    with suppress(EOFError, KeyboardInterrupt):
        while line := input(PROMPT).strip():
            yield line
    output.say()


def _ask_for_repo() -> Path | None:
    if not output.in_terminal():
        return None
    with suppress(EOFError, KeyboardInterrupt):
        answer = input("Folder of the eval suite's repository: ").strip()
        return Path(answer).expanduser() if answer else None
    return None


@contextmanager
def _signals(answering: _Answering) -> Iterator[None]:
    """Raise `KeyboardInterrupt` on Ctrl-C, both at the prompt and during an answer. On SIGTERM, end the discussion."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, answering.terminate),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Repo = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Git repository of the eval suite, for `implement R2`.", show_default=False),
]


def discuss(
    report: Name,
    ask: Annotated[
        list[str] | None,
        typer.Option(
            "--ask", metavar="QUESTION", help="Question to answer; the command exits after the answer. Repeatable."
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model that answers; `rules` shows evidence without a model. Default: the default judge of `analyze`.",
            show_default=False,
        ),
    ] = None,
    repo: Repo = None,
    reports: options.Reports = None,
    budget: options.Budget = None,
    max_tokens: options.MaxTokens = None,
    yes: options.Yes = False,
    env_file: options.EnvFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each answer as one line of JSON.")] = False,
) -> int:
    """Ask questions about a report. Writes nothing.

    Give questions with --ask, in the terminal, or on standard input. Standard input has one question per line.
    """
    command_options = options.workspace_options(locals())
    return run_session(command_options, report, ask=ask, repo=repo, as_json=as_json)
