"""Judge a failure with a model.

Either a model investigates the failure with tools, within limits, or a cheap model judges and tags it in a single call.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from evalscribe.evidence.log import is_stock
from evalscribe.evidence.same_failure import describe_across_models
from evalscribe.ids import canonical_json, content_id
from evalscribe.judging.classifier_tools import (
    READING_TOOLS,
    SUBMIT,
    EvidenceTools,
    TaggedSubmission,
    VerdictSubmission,
    list_doubts,
    parse_submission,
    submit_tool,
    to_verdict,
    verify_quotations,
)
from evalscribe.judging.prompt_text import Delimiter, estimate_tokens, number_whole_lines, one_line, quote_json
from evalscribe.judging.rubrics import default_rubric, failure_labels, judge_id
from evalscribe.judging.rules.precedents import describe_disagreement
from evalscribe.judging.subjects import select_precedents
from evalscribe.judging.tool_loop import TurnBounds, Turns, answer_calls, estimate_conversation, reply_messages
from evalscribe.model.cascade import Tag
from evalscribe.model.chat import CallFailed, Effort, Message, Reply, Request, ToolCall, ToolResult, Usage
from evalscribe.model.evidence import Evidence, Excerpt
from evalscribe.model.finding import (
    UNCERTAIN_CONFIDENCE,
    Classification,
    Failure,
    LabelCount,
    LabelledExample,
    NoVerdictCause,
    Precedent,
    TrialVerdict,
    Unclassified,
    Verdict,
)
from evalscribe.model.protocols import Estimate, Model
from evalscribe.model.rubric import Rubric
from evalscribe.prompts.templates import Prompts

FOLDER = "classify"


def render_instructions(prompts: Prompts, rubric: Rubric, *, first_pass: str = "") -> str:
    """Render the instructions for a judge.

    `first_pass`: additional instructions for a judge that tags and has no reading tools; empty for a judge that has
    reading tools.
    """
    rubric_text = rubric.rubric_text.strip()
    return prompts.render(f"{FOLDER}/system.md.j2", rubric=rubric_text, reads=not first_pass, first_pass=first_pass)


def evidence_delimiter(case: Failure) -> Delimiter:
    """Return the delimiter that encloses the evidence of a failure in prompts."""
    # The question also shows parts of the case that are not evidence, such as earlier reports, so all of it is
    # searched.
    return Delimiter(case.evidence.digest, (canonical_json(case),))


def render_question(prompts: Prompts, case: Failure, delimiter: Delimiter) -> str:
    absent = _bullet_list(tuple(dict.fromkeys((*case.evidence.missing, *case.packed.left_out))))
    return prompts.render(
        f"{FOLDER}/case.md.j2",
        tag=delimiter.tag,
        failure=delimiter.block("the failure", _failure(case)),
        excerpts=_excerpts(case, delimiter),
        differences=_differences(case, delimiter),
        missing=delimiter.block("not here", absent) if absent else "",
        concluded=_precedents(case, delimiter, by_person=True),
        history=_precedents(case, delimiter, by_person=False),
        examples=delimiter.block("similar failures", _bullet_list([_similar(item) for item in case.examples]))
        if case.examples
        else "",
        chosen=_label_counts(case.similar),
        models=describe_across_models(case.across),
        agent_run=case.is_agent_run,
        trials=delimiter.block("verdicts on other trials", _bullet_list([_trial(item) for item in case.others]))
        if case.others
        else "",
    )


def _failure(case: Failure) -> str:
    failed_eval = case.evidence.eval
    steps = ", ".join(f"{step.name} {step.status}" for step in case.evidence.steps)
    facts = {
        "Eval": failed_eval.path,
        "Failed step": failed_eval.failed_step
        or ("none: grading never began" if case.evidence.never_graded else "not recorded"),
        "Steps": steps,
        "Recorded reason": _without_log_lines(failed_eval.reason or "none", case.evidence),
        **{
            f"Error of {one_line(step.name)}": _without_log_lines(step.error, case.evidence)
            for step in case.evidence.steps
            if step.status == "failed"
            and step.name != failed_eval.failed_step
            and step.error
            and not is_stock(step.error)
        },
        "Score": f"{case.scored}{', close to the threshold' if case.scored.close else ''}" if case.scored else "",
    }
    return "\n".join(f"{name}: {one_line(text)}" for name, text in facts.items() if text)


def _without_log_lines(reason: str, evidence: Evidence) -> str:
    """Return the recorded reason of a failure.

    If the logs contain all lines of the reason except the first, return only the first line and the number of further
    lines.
    """
    # The Convex runner records the whole error of a step as its reason and also writes it to the log. Without this
    # function, the judge would read the error twice, and the user would pay for it twice.
    first_line, *other_lines = [line.strip() for line in reason.split("\n") if line.strip()] or [""]
    logs = {line.strip() for log in evidence.of("log") for line in log.lines} if other_lines else set()
    if not other_lines or not logs.issuperset(other_lines):
        return reason
    return f"{first_line} … ({len(other_lines)} more lines, as in the log)"


def _excerpts(case: Failure, delimiter: Delimiter) -> list[str]:
    """Render one block for each document. A line `…` shows where lines between two excerpts are left out."""
    by_document: dict[tuple[str, str], list[Excerpt]] = {}
    for excerpt in case.packed.excerpts:
        by_document.setdefault((excerpt.role, excerpt.path), []).append(excerpt)
    return [
        delimiter.block(f"{role} {quote_json(path)}", "\n".join(_numbered(sorted(group, key=lambda item: item.first))))
        for (role, path), group in by_document.items()
    ]


def _numbered(excerpts: Sequence[Excerpt]) -> Iterator[str]:
    following = None
    for excerpt in excerpts:
        if following is not None and excerpt.first > following:
            yield "…"
        yield number_whole_lines(excerpt.first, excerpt.text)
        following = excerpt.first + excerpt.text.count("\n") + 1


def _differences(case: Failure, delimiter: Delimiter) -> str:
    if not case.packed.differences:
        return ""
    lines = (one_line(line) for line in case.packed.differences.split("\n"))
    return delimiter.block("differences", "\n".join(lines))


def _precedents(case: Failure, delimiter: Delimiter, *, by_person: bool) -> str:
    disputed = describe_disagreement(case.precedents) if by_person else ""
    lines = [disputed] if disputed else []
    lines += [
        _precedent_line(precedent)
        for precedent in select_precedents(case.precedents)
        if precedent.by_person == by_person
    ]
    return delimiter.block("earlier reports", _bullet_list(lines)) if lines else ""


def _label_counts(similar: Sequence[LabelCount]) -> str:
    """Render counts as `OVERLY_STRICT 3 times, MODEL_FAULT once`. If there are no counts, return an empty text."""
    times = {1: "once", 2: "twice"}
    return ", ".join(
        f"{label_count.label} {times.get(label_count.count, f'{label_count.count} times')}" for label_count in similar
    )


def _doubt_disputed(outcome: Verdict | Unclassified, case: Failure) -> Verdict | Unclassified:
    """Mark a verdict as uncertain if people disagree about earlier occurrences of the same failure."""
    disputed = describe_disagreement(case.precedents)
    return outcome.doubted(disputed) if disputed and isinstance(outcome, Verdict) else outcome


def _question_content(case: Failure) -> list[object]:
    """Return everything about a failure that the question to the model shows."""
    return [
        case.evidence.digest,
        case.packed,
        select_precedents(case.precedents),
        describe_disagreement(case.precedents),
        describe_across_models(case.across),
        case.examples,
        case.similar,
        case.others,
        case.scored,
    ]


def _precedent_line(precedent: Precedent) -> str:
    facts = {
        "": precedent.date or precedent.report,
        "step": precedent.step,
        "label": precedent.classification,
        "cause": precedent.cause,
        "error": precedent.error,
        "done about it": precedent.action,
        "said by": precedent.reviewer,
        "in their words": precedent.note,
        "of another model": precedent.model,
    }
    return _facts(facts)


def _similar(example: LabelledExample) -> str:
    facts = {
        "": example.eval,
        "similar in": example.why,
        "step": example.step,
        "error": example.error,
        "label": example.label,
        "kind of cause": example.cause_kind,
        "said by": example.reviewer,
        "in their words": example.note,
        "date": example.date,
    }
    return _facts(facts)


def _trial(verdict: TrialVerdict) -> str:
    return _facts(
        {"": f"trial {verdict.trial}", "label": verdict.classification, "cause": verdict.cause, "why": verdict.why}
    )


def _facts(facts: Mapping[str, str | None]) -> str:
    """Render facts on one line. A value that could be mistaken for a separate fact is quoted."""
    return "; ".join(f"{name}: {_value(text)}".removeprefix(": ") for name, text in facts.items() if text)


def _value(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if ";" in text or text.startswith('"') else text


def _bullet_list(lines: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"- {one_line(line)}" for line in lines)


# Several current models reject a request that forces a tool call, so a model that only talks is reminded.
NUDGE = "That was no verdict. Call `submit` with your verdict, or another tool if you still need to read."
LAST = "This is your last turn: call `submit` now, with what you know."
CUT_OFF = "Your last answer was cut off because it was too long. Think less, and call `submit` now."


class InvestigationLimits(TurnBounds):
    """Limits on the investigation of one failure."""

    seconds: float | None = 600.0
    """Time limit for a verdict in seconds; None for batches, because a batch can take a day."""
    nudges: int = 2
    """Maximum number of reminders. A reminder follows an answer that has no tool call or was cut off."""
    submissions: int = 3
    """Number of invalid submissions after which the judge gives up."""


class Investigation:
    """One conversation about a failure. Each instance is used only once."""

    def __init__(
        self,
        model: Model,
        opening: Request,
        evidence: Evidence,
        toolbox: EvidenceTools,
        bounds: InvestigationLimits,
        *,
        judge: str,
        labels: Sequence[Classification],
    ) -> None:
        """Prepare the conversation.

        `judge`: id of the judge for the verdict. `labels`: the labels that the rubric allows.
        """
        self._turns = Turns(model, bounds, LAST)
        self._judge = judge
        self._labels = labels
        self._opening = opening
        self._messages = list(opening.messages)
        self._evidence = evidence
        self._toolbox = toolbox
        self._bounds = bounds
        self._nudges = 0
        self._invalid_submissions = 0
        self._has_sent_doubts = False

    async def run(self) -> Verdict | Unclassified:
        """Run the conversation. Raises `EvalscribeError` only for errors that affect all failures."""
        while not self._turns.last:
            try:
                outcome = self._take(await self._turns.ask(self._request()))
            except CallFailed as error:
                return self.unclassified(error.reason, cause=error.cause)
            if outcome is not None:
                return outcome
        return self._useless(f"no verdict within {self._turns.taken}")

    def unclassified(self, reason: str, *, final: bool = False, cause: NoVerdictCause = "answer") -> Unclassified:
        return Unclassified(reason=reason, judge=self._judge, final=final, cause=cause, usage=self._turns.usage)

    def _useless(self, reason: str) -> Unclassified:
        """Give up because the model's answers are unusable, and delete these answers from the cache."""
        # If the unusable answers stayed in the cache, the next analysis would get them again.
        self._turns.forget()
        return self.unclassified(reason)

    def _request(self) -> Request:
        return self._opening.model_copy(update={"messages": tuple(self._messages)})

    def _take(self, reply: Reply) -> Verdict | Unclassified | None:
        """Process one answer of the model.

        Return a verdict, or an `Unclassified` with the reason why there is no verdict. Return None if the conversation
        continues.
        """
        match reply.stop:
            case "refusal":
                return self.unclassified("the model refused to judge this failure", final=True)
            case "context_exceeded":
                return self.unclassified("the evidence is too long for the model", final=True)
            case "max_tokens":
                # Do not send back an answer that was cut off, because its last tool call is incomplete.
                return self._nudge(CUT_OFF, f"the answer was cut off at {self._bounds.answer_tokens} tokens")
            case "pause":
                self._messages += reply_messages(reply)
                return None
        if not reply.tool_calls:
            self._messages += reply_messages(reply)
            return self._nudge(NUDGE, "the model gave no verdict")
        results: Message | Verdict | Unclassified = answer_calls(reply, self._answer)
        if not isinstance(results, Message):
            return results
        self._messages += [*reply_messages(reply), results]
        return None

    def _answer(self, call: ToolCall) -> ToolResult | Verdict | Unclassified:
        return self._submit(call) if call.name == SUBMIT else self._toolbox.answer(call)

    def _submit(self, call: ToolCall) -> Verdict | Unclassified | ToolResult:
        submission = parse_submission(call.input, VerdictSubmission, self._labels)
        if isinstance(submission, list):
            self._invalid_submissions += 1
            # After the last turn, the model cannot answer a request for a correction.
            if self._turns.last or self._invalid_submissions >= self._bounds.submissions:
                return self._useless(f"the verdict stayed invalid: {'; '.join(submission)[:200]}")
            return _correction_request(call, submission)
        citations = verify_quotations(submission, self._evidence)
        questions = [] if self._has_sent_doubts or self._turns.last else list_doubts(submission, citations)
        if questions:
            self._has_sent_doubts = True
            return _correction_request(call, questions)
        return to_verdict(submission, citations, self._judge, self._turns.usage)

    def _nudge(self, reminder: str, reason: str) -> Unclassified | None:
        self._nudges += 1
        if self._nudges > self._bounds.nudges:
            return self._useless(reason)
        self._messages.append(Message(role="user", text=reminder))
        return None


def _correction_request(call: ToolCall, problems: list[str]) -> ToolResult:
    return ToolResult(call_id=call.id, text="Correct this and submit again:\n" + "\n".join(problems), is_error=True)


JUDGE_VERSION = 1
"""Version of the question.

Increase it by hand after a change to the question that the digests of the templates and tools do not reflect.
"""
LIKELY_TURNS = 3
LIKELY_TURN = 1_200
"""Expected number of tokens of one answer, including thinking."""
LIKELY_READING = 1_500
"""Expected number of tokens of the tool results in one turn."""


class ModelJudge:
    """A `Judge` whose model investigates each failure with tools, within limits on time and tokens."""

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        *,
        rubric: Rubric | None = None,
        bounds: InvestigationLimits | None = None,
        effort: Effort | None = "high",
        cost: Callable[[Usage], float] | None = None,
    ) -> None:
        """Initialise the judge.

        `rubric`: None for the shipped rubric. `cost`: function that returns the price of one call in US dollars. Raises
        `UsageError` if the rubric is not for failures.
        """
        self.rubric = rubric or default_rubric()
        self.id = judge_id(model.id, self.rubric)
        self._labels = failure_labels(self.rubric)
        self._tools = {
            agent_run: (*READING_TOOLS, submit_tool(labels=self._labels, agent_run=agent_run))
            for agent_run in (False, True)
        }
        self._model = model
        self._prompts = prompts
        self._bounds = bounds or InvestigationLimits()
        self._effort = effort
        self._cost = cost

    def key(self, case: Failure) -> str:
        """Return the content id of everything that determines the question, from the templates to the evidence."""
        return content_id(
            [
                JUDGE_VERSION,
                self._prompts.digest(FOLDER),
                self.rubric.digest,
                self._tools[case.is_agent_run],
                self._model.id,
                self._effort,
                *_question_content(case),
            ]
        )

    def estimate(self, case: Failure) -> Estimate:
        """Estimate the usage of a typical conversation. Each turn reads the earlier turns from the provider's cache.

        If the question already shows all evidence, one turn fewer is expected, and tool results are expected to be no
        longer than the question.
        """
        question_tokens = estimate_tokens(render_question(self._prompts, case, evidence_delimiter(case)))
        turns, reading = LIKELY_TURNS, LIKELY_READING
        if set(case.packed.left_out) <= set(case.evidence.missing):
            turns, reading = LIKELY_TURNS - 1, min(LIKELY_READING, question_tokens)
        first_turn_tokens = self._fixed_tokens[case.is_agent_run] + question_tokens
        return estimate_conversation(first_turn_tokens, self._cost, turns=turns, reading=reading, answer=LIKELY_TURN)

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        delimiter = evidence_delimiter(case)
        opening = Request(
            system=self._system,
            messages=(Message(role="user", text=render_question(self._prompts, case, delimiter)),),
            tools=self._tools[case.is_agent_run],
            max_tokens=self._bounds.answer_tokens,
            effort=self._effort,
        )
        toolbox = EvidenceTools(case.evidence, delimiter)
        investigation = Investigation(
            self._model, opening, case.evidence, toolbox, self._bounds, judge=self.id, labels=self._labels
        )
        try:
            async with asyncio.timeout(self._bounds.seconds):
                return _doubt_disputed(await investigation.run(), case)
        except TimeoutError:
            return investigation.unclassified(f"no verdict within {self._bounds.seconds:g} s", cause="service")

    @cached_property
    def _system(self) -> str:
        """System prompt, which is the same for all failures. The provider can cache it together with the tools."""
        return render_instructions(self._prompts, self.rubric)

    @cached_property
    def _fixed_tokens(self) -> dict[bool, int]:
        """Estimated tokens of the system prompt and the tools.

        The key is True for failures that are agent runs, and False for other failures.
        """
        system = estimate_tokens(self._system)
        return {agent_run: system + estimate_tokens(canonical_json(tools)) for agent_run, tools in self._tools.items()}


FIRST_PASS_VERSION = 1
TEMPLATE = "judging/tag.md.j2"
LONGEST_FIRST_ANSWER = 4_000
"""Maximum tokens of the cheap model's single answer."""
LIKELY_FIRST_ANSWER = 500
FIRST_PASS_S = 50.0
"""Time limit for the cheap model's answer in seconds. The limit is short so that the next stage has enough time."""
GAVE_UP = {
    "refusal": "the model refused to judge this failure",
    "context_exceeded": "the evidence is too long for the model",
    "max_tokens": "the answer was cut off",
}


class FirstPass:
    """A `Judge` that asks a cheap model for a verdict and tags.

    A verdict with too few quotations or with invented quotations is marked as uncertain.
    """

    def __init__(
        self,
        model: Model,
        prompts: Prompts,
        rubric: Rubric,
        tags: Sequence[Tag],
        *,
        cost: Callable[[Usage], float] | None = None,
        seconds: float | None = FIRST_PASS_S,
    ) -> None:
        """Initialise the judge.

        `cost`: function that returns the price of one call in US dollars. Raises `UsageError` if the rubric is not for
        failures.
        """
        self.id = judge_id(model.id, rubric)
        self._model = model
        self._prompts = prompts
        self._rubric = rubric
        self._tags = tuple(tags)
        self._labels = failure_labels(rubric)
        names = [tag.name for tag in tags]
        self._tools = {
            agent_run: submit_tool(TaggedSubmission, self._labels, names, agent_run=agent_run)
            for agent_run in (False, True)
        }
        self._cost = cost
        self._seconds = seconds

    def key(self, case: Failure) -> str:
        """Return the content id of everything that determines the question, from the instructions to the evidence."""
        question = [self._system, self._prompts.digest(FOLDER), self._rubric.digest, self._tools[case.is_agent_run]]
        question.append(self._model.id)
        return content_id(["first pass", FIRST_PASS_VERSION, question, *_question_content(case)])

    def estimate(self, case: Failure) -> Estimate:
        """Estimate the usage of one call.

        The estimate assumes that the provider has cached the instructions, which is true from the second call on.
        """
        shared = estimate_tokens(self._system) + estimate_tokens(canonical_json(self._tools[case.is_agent_run]))
        input_tokens = shared + estimate_tokens(render_question(self._prompts, case, evidence_delimiter(case)))
        usage = Usage(calls=1, input_tokens=input_tokens, output_tokens=LIKELY_FIRST_ANSWER, cache_read_tokens=shared)
        cost = self._cost(usage) if self._cost else None
        return Estimate(input_tokens=input_tokens, output_tokens=LIKELY_FIRST_ANSWER, cost_usd=cost)

    async def judge(self, case: Failure) -> Verdict | Unclassified:
        request = self._request(case)
        try:
            async with asyncio.timeout(self._seconds):
                reply = await self._model.complete(request)
        except CallFailed as error:
            return Unclassified(reason=error.reason, judge=self.id, cause=error.cause, usage=error.usage)
        except TimeoutError:
            return Unclassified(reason=f"no answer within {self._seconds:g} s", judge=self.id, cause="service")
        outcome = _doubt_disputed(self._reply_verdict(reply, case), case)
        # If the unusable answer stayed in the cache, the next analysis would get it again.
        if isinstance(outcome, Unclassified) and not outcome.final:
            self._model.forget(request)
        return outcome

    def _request(self, case: Failure) -> Request:
        message = Message(role="user", text=render_question(self._prompts, case, evidence_delimiter(case)))
        return Request(
            system=self._system,
            messages=(message,),
            tools=(self._tools[case.is_agent_run],),
            max_tokens=LONGEST_FIRST_ANSWER,
        )

    def _reply_verdict(self, reply: Reply, case: Failure) -> Verdict | Unclassified:
        """Convert the cheap model's answer to a verdict. An invalid answer becomes an `Unclassified`."""
        if reply.stop in GAVE_UP:
            # The next answer can be shorter. A refusal or evidence that is too long will not change.
            final = reply.stop != "max_tokens"
            return Unclassified(reason=GAVE_UP[reply.stop], judge=self.id, final=final, usage=reply.usage)
        call = next((call for call in reply.tool_calls if call.name == SUBMIT), None)
        submission = (
            parse_submission(call.input, TaggedSubmission, self._labels) if call else ["the model gave no verdict"]
        )
        if isinstance(submission, list):
            return Unclassified(reason="; ".join(submission)[:200], judge=self.id, usage=reply.usage)
        citations = verify_quotations(submission, case.evidence)
        verified = sum(citation.status != "unverified" for citation in citations)
        # A cheap model's verdict with an invented quotation must not be the last word.
        proven = verified == len(citations) and verified >= max(1, self._rubric.min_citations)
        verdict = to_verdict(submission, citations, self.id, reply.usage)
        tags = tuple(tag.name for tag in self._tags if tag.name in submission.tags)
        unsure = {"uncertain": True, "confidence": min(verdict.confidence, UNCERTAIN_CONFIDENCE)}
        return verdict.model_copy(update={"tags": tags} | ({} if submission.sure and proven else unsure))

    @cached_property
    def _system(self) -> str:
        """System prompt, which is the same for all failures, so that the provider can cache it."""
        instructions = self._prompts.render(TEMPLATE, tags=self._tags, rest="").strip()
        return render_instructions(self._prompts, self._rubric, first_pass=instructions)
