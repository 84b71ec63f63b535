"""Ask a judge once: fill in the rubric's prompt, parse the answer, and return an invalid one for correction once."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from evalscribe.errors import EvalscribeError
from evalscribe.ids import Frozen
from evalscribe.judging.answer_parsing import Output, Problems, parse_answer
from evalscribe.judging.citations import resolve_citations
from evalscribe.judging.prompt_text import estimate_tokens
from evalscribe.judging.quotations import fold_text
from evalscribe.judging.subjects import Subject
from evalscribe.model.chat import CallFailed, Message, Reply, Request, Usage
from evalscribe.model.output_schema import cited_strings, has_citations, provider_schema
from evalscribe.model.protocols import Model
from evalscribe.model.rubric import OutputParsingMode, PromptTemplateMessage, Rubric, split_template
from evalscribe.redaction.redact import redact, redact_json

CLOSING = "Give your final answer now."
"""Added if the templates do not end with a user message: models only answer users."""


def fill_templates(rubric: Rubric, subject_text: str, citation_help: str) -> tuple[str, tuple[Message, ...]]:
    """Return the system prompt and the messages. Inserted text is data: braces in it stay as they are.

    `citation_help` is added to the last message if the schema asks for citations.
    """
    schema = json.dumps(rubric.output_schema, indent=2, ensure_ascii=False)
    values = {"agent_run": subject_text, "rubric": rubric.rubric_text, "output_schema": schema}
    said = [(template.role, _fill(template, values)) for template in rubric.prompt_templates]
    system = "\n\n".join(text for role, text in said if role == "system")
    messages = [Message(role=role, text=text) for role, text in said if role != "system"]
    return system, _asking(messages, citation_help if has_citations(rubric.output_schema) else "")


def _fill(template: PromptTemplateMessage, values: Mapping[str, str]) -> str:
    return "".join(
        part for literal, name in split_template(template.content) for part in (literal, values[name] if name else "")
    )


def _asking(messages: Sequence[Message], citation_help: str) -> tuple[Message, ...]:
    """Return the messages with the user's last and citation help at its end."""
    if not messages or messages[-1].role == "assistant":
        messages = (*messages, Message(role="user", text=CLOSING))
    text = messages[-1].text
    ending = f"{text.rstrip()}\n\n{citation_help}" if citation_help else text
    return (*messages[:-1], Message(role="user", text=ending))


def build_request(rubric: Rubric, subject: Subject, max_tokens: int, shown: str | None = None) -> Request:
    """Build the whole question; `shown` replaces the subject's own text."""
    system, messages = fill_templates(rubric, subject.text() if shown is None else shown, subject.citation_help)
    constrained = rubric.output_parsing_mode is OutputParsingMode.CONSTRAINED_DECODING
    return Request(
        system=system,
        messages=messages,
        max_tokens=max_tokens,
        effort=rubric.judge_model.reasoning_effort,
        answer_schema=provider_schema(rubric.output_schema) if constrained else None,
    )


def prompt_tokens(request: Request) -> int:
    """Return the estimated tokens of the prompt."""
    return estimate_tokens(request.system) + sum(estimate_tokens(message.text) for message in request.messages)


MOST_CALLS = 8
"""Maximum calls of one conversation: the question, one correction, and continuations after pauses."""
LONGEST_KEPT = 4_000
"""Maximum characters stored of an answer's original text."""
LONGEST_REASON = 300
MOST_NAMED = 10
"""Maximum unverified citations that are listed for the judge."""


class Rollout(Frozen):
    """Result of one conversation: an output, or the reason why there is none."""

    number: int
    """Number from 0; the same question is asked once per number."""
    output: Output | None = None
    reason: str | None = None
    final: bool = False
    """For a failure: asking the same question again cannot help."""
    too_long: bool = False
    """For a failure: the prompt exceeds the model's context window."""
    full_output: str = ""
    """The last answer as written: redacted, at most `LONGEST_KEPT` characters."""
    usage: Usage = Usage()


class AnswerFormat(NamedTuple):
    """Format of an answer: instructions and parser."""

    words: str
    """End of the sentence that asks for the answer again: `as one JSON object …`."""
    read: Callable[[str, Callable[[str], bool]], Output | Problems]
    """Returns the output of a text, or its problems; the second argument checks whether a text occurs in the subject.
    """


def rubric_format(rubric: Rubric) -> AnswerFormat:
    """Return the answer format of a rubric."""
    words = "as one JSON object that fits the schema"
    if rubric.output_parsing_mode is OutputParsingMode.XML_KEY:
        words += f", between <{rubric.response_xml_key}> and </{rubric.response_xml_key}>"
    return AnswerFormat(words, lambda text, repeats: parse_answer(text, rubric, repeats))


class RubricConversation:
    """A conversation with one judge about one subject; used once."""

    def __init__(
        self, model: Model, opening: Request, rubric: Rubric, subject: Subject, form: AnswerFormat | None = None
    ) -> None:
        """Prepare the conversation.

        Required citations must resolve in `subject`, whatever the prompt shows of it. `form` replaces the rubric's
        answer format.
        """
        self._model = model
        self._opening = opening
        self._rubric = rubric
        self._form = form or rubric_format(rubric)
        self._subject = subject
        self._messages = list(opening.messages)
        self._asked: list[Request] = []
        self._usage = Usage()
        self._paused = ""
        self._text = ""
        self._sent_back = False

    async def run(self, timeout_s: float | None) -> Rollout:
        """Run the conversation. The one place where errors of one rollout become data.

        Raises `EvalscribeError` for what affects all rollouts; otherwise only cancellation.
        """
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await self._converse()
        except EvalscribeError:
            raise
        except TimeoutError as error:
            return self._failed(f"no answer within {timeout_s:g} s") if limit.expired() else self._broken(error)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            return self._broken(error)
        except Exception as error:
            return self._broken(error)

    async def _converse(self) -> Rollout:
        for _ in range(MOST_CALLS):
            self._asked.append(self._opening.model_copy(update={"messages": tuple(self._messages)}))
            try:
                reply = await self._model.complete(self._asked[-1])
            except CallFailed as error:
                self._usage += error.usage
                return self._failed(error.reason)
            self._usage += reply.usage
            if (outcome := self._take(reply)) is not None:
                return outcome
        return self._useless(f"no whole answer within {MOST_CALLS} calls")

    def _take(self, reply: Reply) -> Rollout | None:
        """Process one answer; return None if the conversation continues."""
        self._text = self._paused + reply.text
        match reply.stop:
            case "refusal":
                return self._failed("the model refused to judge this subject", final=True)
            case "context_exceeded":
                return self._failed("the subject is too long for the model", final=True, too_long=True)
            case "max_tokens":
                # An answer that was cut off is not sent back: incomplete thinking blocks are
                # rejected.
                return self._ask_again([f"the answer was cut off at {self._opening.max_tokens} tokens"], "shorter, ")
            case "pause":
                self._paused = self._text
                self._echo(reply)
                return None
        return self._read(reply)

    def _read(self, reply: Reply) -> Rollout | None:
        output = self._form.read(self._text, self._repeats)
        if isinstance(output, dict):
            output = _redacted(output)
        problems = output if isinstance(output, list) else self._too_few_citations(output)
        if not problems:
            assert isinstance(output, dict)
            return Rollout(number=self._opening.rollout, output=output, full_output=self._kept(), usage=self._usage)
        self._echo(reply)
        return self._ask_again(problems)

    def _repeats(self, answer: str) -> bool:
        """Return whether a tagged text occurs in the subject, where the judged party may have put it."""
        quote = fold_text(answer)
        return bool(quote) and next(self._subject.haystack.elsewhere(quote, 0), None) is not None

    def _too_few_citations(self, output: Output) -> Problems:
        """Return problems if required citations are missing; equal citations count once."""
        wanted, held, empty = self._rubric.min_citations, set[str](), set[str]()
        for _, text in cited_strings(output, self._rubric.output_schema) if wanted else ():
            for citation in resolve_citations(text, self._subject).citations:
                (empty if citation.status == "unverified" else held).add(text[citation.start_idx : citation.end_idx])
        if len(held) >= wanted:
            return []
        named = [f"{mark} leads nowhere, or its quotation does not stand there" for mark in sorted(empty)]
        return [f"only {len(held)} of {wanted} required citations hold", *named[:MOST_NAMED]]

    def _ask_again(self, problems: Problems, how: str = "") -> Rollout | None:
        if self._sent_back:
            return self._useless("; ".join(problems))
        self._sent_back = True
        self._paused = ""
        listed = "\n".join(f"- {problem}" for problem in problems)
        said = f"Your answer cannot be used:\n{listed}\nGive the whole answer again, {how}{self._form.words}."
        self._messages.append(Message(role="user", text=said))
        return None

    def _echo(self, reply: Reply) -> None:
        if reply.raw or reply.text:
            self._messages.append(Message(role="assistant", text="" if reply.raw else reply.text, raw=reply.raw))

    def _broken(self, error: BaseException) -> Rollout:
        return self._useless(f"the judge broke: {type(error).__name__}: {error}")

    def _useless(self, reason: str) -> Rollout:
        """Return a failure because the answers are unusable, and forget them; after a failed call they stay valid."""
        for request in self._asked:
            self._model.forget(request)
        return self._failed(reason)

    def _failed(self, reason: str, *, final: bool = False, too_long: bool = False) -> Rollout:
        return Rollout(
            number=self._opening.rollout,
            reason=" ".join(redact(reason).split())[:LONGEST_REASON],
            final=final,
            too_long=too_long,
            full_output=self._kept(),
            usage=self._usage,
        )

    def _kept(self) -> str:
        text = redact(self._text)
        return text if len(text) <= LONGEST_KEPT else text[: LONGEST_KEPT - 1] + "…"


def _redacted(output: Output) -> Output:
    """Redact an output before it is stored: unredacted runs, and models themselves, may add secrets."""
    return cast(Output, redact_json(output))
