"""Explain regressed evals: by a judge that sees both trials, or by the first tool call that differs."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile, zip_longest
from typing import Any, NamedTuple

from pydantic import JsonValue

from evalscribe.collections.runs import load_record
from evalscribe.evidence.log import normalise_error
from evalscribe.judging.builder import JudgeBuilder
from evalscribe.judging.citations import without_marks
from evalscribe.judging.judges import JudgeMaker
from evalscribe.judging.requests import run_items, transcripts_of
from evalscribe.judging.rubric_judge import JudgeResultWithCitations, RubricJudge
from evalscribe.judging.subjects import Subject, result_items
from evalscribe.judging.verdicts import AnalysisWatcher, main_cause, no_answer_error
from evalscribe.judging.worker_pool import run_concurrently
from evalscribe.model.comparison import Behaviour, EvalPair, Quote, RegressionExplanation, Trial
from evalscribe.model.finding import CAUSE_KINDS
from evalscribe.model.protocols import Estimate
from evalscribe.model.record import Record
from evalscribe.model.result import CitationTarget, JudgeResult, ResultType
from evalscribe.model.rubric import Rubric
from evalscribe.model.transcript import AssistantMessage, ChatMessage, ToolMessage, Transcript
from evalscribe.settings import RULES
from evalscribe.text import cut, one_line, slug
from evalscribe.workspace import Workspace


def pair_subject(base: Record | None, candidate: Record) -> Subject:
    """Return a subject with the agent runs of base (`R0`, if stored) and candidate (`R1`).

    Transcripts are numbered from `T0` across both. The subject has the id of the candidate's agent run.
    """
    before = [] if base is None else list(run_items(0, 0, base))
    first = 0 if base is None else transcripts_of(base)
    return Subject.of(candidate.eval.id, [*before, *run_items(1, first, candidate)])


def parse_why(result: JudgeResult, rubric: Rubric, subject: Subject, base_id: str | None) -> RegressionExplanation:
    """Parse the judge's explanation, with citations as quotations; `base_id` is the id of the base's agent run."""
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, subject)
    explanation = cited.output["explanation"]
    kind = cited.output.get("kind")
    return RegressionExplanation(
        behaviour=slug(str(cited.output["behaviour"])).lower() or "unnamed",
        text=without_marks(explanation),
        kind=kind if kind in CAUSE_KINDS else None,
        quotes=tuple(_once(_quotes(explanation["citations"], subject, base_id))),
        judge=result.judge,
        result=result.id,
    )


def _quotes(citations: Iterable[Mapping[str, Any]], subject: Subject, base_id: str | None) -> Iterator[Quote]:
    for one in citations:
        target = CitationTarget.model_validate(one["target"]) if one["target"] else None
        if target is None:
            said = one["quote"]
            yield from [Quote(side="candidate", place="nowhere", text=said, verified=False)] if said else []
            continue
        text = _text(target, subject) if target.start_idx is not None else one["quote"]
        side = "base" if base_id is not None and target.agent_run_id == base_id else "candidate"
        yield from [Quote(side=side, place=_place(target), text=text, verified=True)] if text else []


def _text(target: CitationTarget, subject: Subject) -> str:
    return (subject.text_of(target) or "")[target.start_idx : target.end_idx]


def _place(target: CitationTarget) -> str:
    if target.kind == "document":
        return f"{target.role} {target.path}"
    if target.block_idx is not None:
        return f"message {target.block_idx + 1}"
    return target.metadata_key or {"agent_run": "as recorded"}.get(target.kind, target.item)


def _once(quotes: Iterable[Quote]) -> Iterator[Quote]:
    yield from dict.fromkeys(quotes)


DIVERGENCE_RULES = "rules"
LONGEST = 200


class _Call(NamedTuple):
    name: str
    message: int
    """Number of the message, from 1."""
    arguments: dict[str, JsonValue]

    @property
    def said(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return cut(one_line(f"{self.name}({arguments})"), LONGEST)


def first_divergence(base: Transcript, candidate: Transcript) -> RegressionExplanation | None:
    """Find the first tool call that differs from the baseline; None if all calls are the same.

    The difference is a place to look first, not necessarily the cause.
    """
    for before, after in zip_longest(_calls(base), _calls(candidate)):
        if before and after and (before.name, before.arguments) == (after.name, after.arguments):
            continue
        return _why(before, after)
    return None


def _calls(transcript: Transcript) -> Iterator[_Call]:
    """Yield the tool calls, except calls with an empty result, such as notes, which had no effect."""
    for at, message in enumerate(transcript.messages):
        if isinstance(message, AssistantMessage):
            answers = list(takewhile(_answers, islice(transcript.messages, at + 1, None)))
            for call, answer in zip_longest(message.tool_calls, answers[: len(message.tool_calls)]):
                if answer is None or answer.content.strip() or getattr(answer, "error", None):
                    yield _Call(call.function, at + 1, call.arguments)


def _answers(message: ChatMessage) -> bool:
    return isinstance(message, ToolMessage)


def _why(before: _Call | None, after: _Call | None) -> RegressionExplanation:
    quotes = [_quote("base", before)] if before else []
    quotes += [_quote("candidate", after)] if after else []
    name, text = _difference(before, after)
    return RegressionExplanation(behaviour=name, text=text, quotes=tuple(quotes), judge=DIVERGENCE_RULES)


def _difference(before: _Call | None, after: _Call | None) -> tuple[str, str]:
    if before is None and after is not None:
        return f"also calls {after.name}", f"Continues with `{after.name}` after the last call of the passing trial."
    if after is None and before is not None:
        return f"stops before {before.name}", f"Stops calling tools where the passing trial calls `{before.name}`."
    if before is None or after is None:
        raise ValueError("neither trial has a call, so there is no difference to explain")
    if before.name != after.name:
        return (
            f"{after.name} instead of {before.name}",
            f"First calls `{after.name}` where the passing trial calls `{before.name}`.",
        )
    return f"other arguments for {after.name}", f"First differs in its arguments for `{after.name}`."


def _quote(side: str, call: _Call) -> Quote:
    return Quote.model_validate({"side": side, "place": f"message {call.message}", "text": call.said, "verified": True})


UNKNOWN = "no reason recorded"
SAME_ERROR = "the same error"
IN_REPORT = "as its report says"


def shared_behaviours(pairs: Sequence[EvalPair]) -> tuple[Behaviour, ...]:
    """Group regressed evals by behaviour, the largest group first.

    The behaviour is what the judge named, else the cause in the run's report, else the first tool call that differs,
    else the located error, else the failed step.
    """
    groups: dict[tuple[str, str, str], list[EvalPair]] = defaultdict(list)
    for pair in pairs:
        if pair.change == "regressed":
            groups[_shared(pair)].append(pair)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        Behaviour(
            name=_shown(name, text, of),
            text=text,
            evals=tuple(pair.eval for pair in of),
            by=by,
            known=name != UNKNOWN,
        )
        for (name, text, by), of in ranked
    )


def _shown(name: str, text: str, of: Sequence[EvalPair]) -> str:
    """Return a group's name; if it is a cause, the reason that all members share, else the cause without hyphens."""
    if text == SAME_ERROR:
        return _as_recorded(name, of[0])
    if not text.startswith(IN_REPORT):
        return name
    why, *others = {_failed(pair).why for pair in of}
    return name.replace("-", " ") if others or why is None else why


def _as_recorded(signature: str, pair: EvalPair) -> str:
    """Return the error as the group's first member recorded it, because signatures lose capitals and numbers."""
    failed = _failed(pair)
    if failed.error and signature.endswith((normalise_error(failed.error), failed.error.casefold())):
        return ": ".join(filter(None, (failed.step, failed.error)))
    return signature


def _failed(pair: EvalPair) -> Trial:
    return next(trial for trial in pair.candidate if not trial.passed)


def _shared(pair: EvalPair) -> tuple[str, str, str]:
    """Return the behaviour by which a pair is grouped: its name, its kind and its source."""
    failed = _failed(pair)
    if pair.why and pair.why.judge != DIVERGENCE_RULES:
        return pair.why.behaviour, "named by the judge", pair.why.judge
    if failed.cause:
        return (
            failed.cause,
            f"{IN_REPORT}{f' ({failed.cause_kind})' if failed.cause_kind else ''}",
            DIVERGENCE_RULES,
        )
    if pair.why:
        return pair.why.behaviour, "the first tool call that differs", DIVERGENCE_RULES
    return _recorded(failed)


def _recorded(failed: Trial) -> tuple[str, str, str]:
    if failed.signature:
        return failed.signature, SAME_ERROR, DIVERGENCE_RULES
    if failed.step:
        return f"fails in {failed.step}", "the failed step", DIVERGENCE_RULES
    return UNKNOWN, "the reason is unknown", DIVERGENCE_RULES


REGRESSION, BEHAVIOURS = "regression", "behaviours"
"""Names of the rubrics."""
MOST_FOLLOWED = 500
"""Maximum regressed evals whose transcripts are compared without a judge."""


@dataclass(frozen=True)
class CompareJudges:
    """The judges of a comparison: one model with two rubrics."""

    regression: RubricJudge
    """Judge that explains a single regressed eval."""
    behaviours: RubricJudge
    """Judge that groups explanations by what they have in common."""
    concurrency: int
    knew: Callable[[JudgeResult], bool]
    """Returns True if a result was cached before this command."""


def open_compare_judges(workspace: Workspace, watcher: AnalysisWatcher) -> CompareJudges | None:
    """Open the configured judge; None if it is `rules`. Raises `EvalscribeError` if it cannot be used."""
    name = workspace.settings.judge_name
    if name == RULES:
        return None
    builder = JudgeBuilder(workspace)
    maker = JudgeMaker(workspace.models, workspace.prompts, builder.results, fresh=workspace.options.fresh)
    regression, behaviours = (maker.by_model(builder.rubric(rubric), name) for rubric in (REGRESSION, BEHAVIOURS))
    for note in builder.notes:
        watcher.say(note)
    return CompareJudges(regression, behaviours, workspace.settings.concurrency.value, builder.results.knew)


@dataclass(frozen=True)
class _Tried:
    """A regressed pair with the records of the two trials that are compared."""

    pair: EvalPair
    base: Record | None
    candidate: Record

    @property
    def subject(self) -> Subject:
        return pair_subject(self.base, self.candidate)


def explain_by_rules(workspace: Workspace, pairs: Sequence[EvalPair]) -> tuple[EvalPair, ...]:
    """Add the first tool call that differs to each regressed pair whose trials have transcripts."""
    left = MOST_FOLLOWED
    found = []
    for pair in pairs:
        if pair.change == "regressed" and left:
            left -= 1
            pair = pair.model_copy(update={"why": _divergence(_tried(workspace, pair))})
        found.append(pair)
    return tuple(found)


def estimate_explanation(workspace: Workspace, judges: CompareJudges, pairs: Sequence[EvalPair]) -> Estimate:
    """Return the maximum usage of judging every regressed eval if nothing is cached."""
    tried = (_tried(workspace, pair) for pair in pairs if pair.change == "regressed")
    return sum((judges.regression.estimate(one.subject) for one in tried if one), Estimate())


class ExplainedRegressions(NamedTuple):
    """Explanations of regressed pairs by a judge."""

    pairs: tuple[EvalPair, ...]
    common: tuple[Behaviour, ...]
    apart: tuple[EvalPair, ...]
    """Pairs that belong to no group. An eval's name cannot identify a pair, because an eval may have several pairs."""


async def explain_by_judge(
    workspace: Workspace, judges: CompareJudges, pairs: Sequence[EvalPair], watcher: AnalysisWatcher
) -> ExplainedRegressions:
    """Explain each regressed pair by the judge, storing each answer at once, and group the explanations.

    A pair that could not be judged keeps the explanation of the rules. Raises `EvalscribeError` if no pair could be
    judged, and for errors that concern all pairs.
    """
    failed: list[JudgeResult] = []
    answers: dict[int, tuple[JudgeResult, RegressionExplanation]] = {}
    todo = [number for number, pair in enumerate(pairs) if pair.change == "regressed"]
    done = 0

    async def one(number: int) -> None:
        nonlocal done
        tried = _tried(workspace, pairs[number])
        told = "not judged: the failed trial is not stored"
        if tried is not None:
            result, why = await _asked(judges, tried)
            if why is None:
                failed.append(result)
                told = f"not judged: {result.reason}"
            else:
                answers[number] = result, why
                told = f"{why.behaviour}{'  (known)' if judges.knew(result) else ''}"
        done += 1
        watcher.say(f"{done:>{len(str(len(todo)))}}/{len(todo)}  {pairs[number].eval}  {told}")
        await asyncio.sleep(0)  # a worker with only cached answers would never yield to signal handlers

    await run_concurrently(todo, one, min(judges.concurrency, len(todo) or 1))
    if failed and not answers:
        cause = main_cause(one.failure_cause for one in failed)
        message = f"no regressed eval could be judged: {failed[0].reason}"
        advice = "nothing was written; `judge` rules needs no model"
        raise no_answer_error(cause, f"{message}\n{advice}", fields=("judge",))
    explained = tuple(
        pair.model_copy(update={"why": answers[number][1]}) if number in answers else pair
        for number, pair in enumerate(pairs)
    )
    alone = {f"A{n}": number for n, number in enumerate(sorted(answers))}
    common = await _in_common(judges, [answers[number][0] for number in alone.values()], alone, pairs, watcher)
    grouped = answers.keys() - alone.values()
    return ExplainedRegressions(explained, common, tuple(pair for n, pair in enumerate(explained) if n not in grouped))


async def _asked(judges: CompareJudges, tried: _Tried) -> tuple[JudgeResult, RegressionExplanation | None]:
    """Return the judge's answer, and the explanation in it; None instead if the answer is a failure."""
    subject = tried.subject
    result = await judges.regression.judge(subject)
    if result.result_type is ResultType.FAILURE:
        return result, None
    return result, parse_why(result, judges.regression.rubric, subject, tried.base.eval.id if tried.base else None)


async def _in_common(
    judges: CompareJudges,
    results: Sequence[JudgeResult],
    alone: dict[str, int],
    pairs: Sequence[EvalPair],
    watcher: AnalysisWatcher,
) -> tuple[Behaviour, ...]:
    """Group explanations; empty if the judge finds no groups or fails. Removes grouped pairs from `alone`."""
    if len(results) < 2:
        return ()
    subject = Subject.of("regressed evals", result_items(results))
    found = await judges.behaviours.judge(subject)
    if found.result_type is ResultType.FAILURE:
        watcher.say(f"Could not judge what the regressed evals have in common: {found.reason}")
        return ()
    cited = JudgeResultWithCitations.from_judge_result(found, judges.behaviours.rubric.output_schema, subject)
    return _groups(cited.output["groups"], alone, pairs, found.judge)


def _groups(
    groups: Sequence[Mapping[str, Any]], alone: dict[str, int], pairs: Sequence[EvalPair], judge: str
) -> tuple[Behaviour, ...]:
    """Build groups. A pair belongs to the first group that cites it. Groups of fewer than two pairs are dropped.

    Args:
        alone: Pair numbers by the marks that groups cite; this function removes grouped pairs.
    """
    found = []
    for group in groups:
        marks = [mark for name in group["members"] if (mark := one_line(str(name)).strip("[]")) in alone]
        members = tuple(dict.fromkeys(marks))
        if len(members) > 1:
            named = tuple(pairs[alone.pop(mark)].eval for mark in members)
            name = slug(str(group["name"])).lower() or "unnamed"
            found.append(Behaviour(name=name, text=without_marks(group["text"]), evals=named, by=judge))
    return tuple(found)


def _tried(workspace: Workspace, pair: EvalPair) -> _Tried | None:
    """Load the two trials of a pair; None if the failed trial is not stored."""
    failed = next((trial for trial in pair.candidate if not trial.passed and trial.eval_id), None)
    candidate = _record(workspace, failed)
    if candidate is None:
        return None
    passed = next((trial for trial in pair.base if trial.passed and trial.eval_id), None)
    return _Tried(pair, _record(workspace, passed), candidate)


def _record(workspace: Workspace, trial: Trial | None) -> Record | None:
    """Load the record of a trial."""
    if trial is None or trial.eval_id is None:
        return None
    return load_record(workspace.store.runs, workspace.store.analyses, trial.run_id, trial.eval_id)


def _divergence(tried: _Tried | None) -> RegressionExplanation | None:
    if tried is None or tried.base is None or not (tried.base.transcripts and tried.candidate.transcripts):
        return None
    return first_divergence(tried.base.transcripts[0], tried.candidate.transcripts[0])
