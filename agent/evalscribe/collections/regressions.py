"""Explain regressed evals by a judge that sees both trials, or by the first tool call in which the trials differ."""

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
    """Return the subject with which a judge explains a regressed eval.

    The subject contains the candidate's agent run as `R1`. If the base's agent run is stored, the subject contains it
    as `R0`. Transcripts are numbered from `T0` across both agent runs. The subject has the id of the candidate's agent
    run.
    """
    base_items = [] if base is None else list(run_items(0, 0, base))
    first = 0 if base is None else transcripts_of(base)
    return Subject.of(candidate.eval.id, [*base_items, *run_items(1, first, candidate)])


def parse_why(result: JudgeResult, rubric: Rubric, subject: Subject, base_id: str | None) -> RegressionExplanation:
    """Parse the judge's explanation and convert its citations to quotations.

    `base_id` is the id of the base's agent run, or None if that agent run is not stored.
    """
    cited = JudgeResultWithCitations.from_judge_result(result, rubric.output_schema, subject)
    explanation = cited.output["explanation"]
    kind = cited.output.get("kind")
    return RegressionExplanation(
        behaviour=slug(str(cited.output["behaviour"])).lower() or "unnamed",
        text=without_marks(explanation),
        kind=kind if kind in CAUSE_KINDS else None,
        quotes=tuple(_unique(_quotes(explanation["citations"], subject, base_id))),
        judge=result.judge,
        result=result.id,
    )


def _quotes(citations: Iterable[Mapping[str, Any]], subject: Subject, base_id: str | None) -> Iterator[Quote]:
    for citation in citations:
        target = CitationTarget.model_validate(citation["target"]) if citation["target"] else None
        if target is None:
            quote = citation["quote"]
            yield from [Quote(side="candidate", place="nowhere", text=quote, verified=False)] if quote else []
            continue
        text = _text(target, subject) if target.start_idx is not None else citation["quote"]
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


def _unique(quotes: Iterable[Quote]) -> Iterator[Quote]:
    yield from dict.fromkeys(quotes)


DIVERGENCE_RULES = "rules"
LONGEST = 200


class _Call(NamedTuple):
    name: str
    message: int
    """Number of the message that contains the call, from 1."""
    arguments: dict[str, JsonValue]

    @property
    def text(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return cut(one_line(f"{self.name}({arguments})"), LONGEST)


def first_divergence(base: Transcript, candidate: Transcript) -> RegressionExplanation | None:
    """Find the first tool call that differs between base and candidate; None if all calls are the same.

    The call shows where to look first. It is not necessarily the cause of the regression.
    """
    for base_call, candidate_call in zip_longest(_calls(base), _calls(candidate)):
        if (
            base_call
            and candidate_call
            and (base_call.name, base_call.arguments) == (candidate_call.name, candidate_call.arguments)
        ):
            continue
        return _why(base_call, candidate_call)
    return None


def _calls(transcript: Transcript) -> Iterator[_Call]:
    """Yield the tool calls that had an effect. A call with an empty result, such as taking a note, is left out."""
    for at, message in enumerate(transcript.messages):
        if isinstance(message, AssistantMessage):
            answers = list(takewhile(_answers, islice(transcript.messages, at + 1, None)))
            for call, answer in zip_longest(message.tool_calls, answers[: len(message.tool_calls)]):
                # A call without a recorded answer may have had an effect, so it counts.
                if answer is None or answer.content.strip() or getattr(answer, "error", None):
                    yield _Call(call.function, at + 1, call.arguments)


def _answers(message: ChatMessage) -> bool:
    return isinstance(message, ToolMessage)


def _why(base_call: _Call | None, candidate_call: _Call | None) -> RegressionExplanation:
    quotes = [_quote("base", base_call)] if base_call else []
    quotes += [_quote("candidate", candidate_call)] if candidate_call else []
    name, text = _difference(base_call, candidate_call)
    return RegressionExplanation(behaviour=name, text=text, quotes=tuple(quotes), judge=DIVERGENCE_RULES)


def _difference(base_call: _Call | None, candidate_call: _Call | None) -> tuple[str, str]:
    if base_call is None and candidate_call is not None:
        return (
            f"also calls {candidate_call.name}",
            f"Continues with `{candidate_call.name}` after the last call of the passing trial.",
        )
    if candidate_call is None and base_call is not None:
        return (
            f"stops before {base_call.name}",
            f"Stops calling tools where the passing trial calls `{base_call.name}`.",
        )
    if base_call is None or candidate_call is None:
        raise ValueError("neither trial has a call, so there is no difference to explain")
    if base_call.name != candidate_call.name:
        return (
            f"{candidate_call.name} instead of {base_call.name}",
            f"First calls `{candidate_call.name}` where the passing trial calls `{base_call.name}`.",
        )
    return f"other arguments for {candidate_call.name}", f"First differs in its arguments for `{candidate_call.name}`."


def _quote(side: str, call: _Call) -> Quote:
    return Quote.model_validate({"side": side, "place": f"message {call.message}", "text": call.text, "verified": True})


UNKNOWN = "no reason recorded"
SAME_ERROR = "the same error"
IN_REPORT = "as its report says"


def shared_behaviours(pairs: Sequence[EvalPair]) -> tuple[Behaviour, ...]:
    """Group regressed evals by behaviour. The largest group comes first.

    The behaviour of a pair is the first of the following that is known: the behaviour that the judge named, the cause
    in the run's report, the first tool call that differs, the located error, the failed step.
    """
    groups: dict[tuple[str, str, str], list[EvalPair]] = defaultdict(list)
    for pair in pairs:
        if pair.change == "regressed":
            groups[_behaviour_of(pair)].append(pair)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        Behaviour(
            name=_group_name(name, text, group),
            text=text,
            evals=tuple(pair.eval for pair in group),
            by=by,
            explained=name != UNKNOWN,
        )
        for (name, text, by), group in ranked
    )


def _group_name(name: str, text: str, pairs: Sequence[EvalPair]) -> str:
    """Return a readable name for a group.

    A group with a common cause is named after the reason in the report, if all of its members have the same one.
    Otherwise, it is named after the cause.
    """
    if text == SAME_ERROR:
        return _as_recorded(name, pairs[0])
    if not text.startswith(IN_REPORT):
        return name
    reason, *other_reasons = {_failed_trial(pair).why for pair in pairs}
    return name.replace("-", " ") if other_reasons or reason is None else reason


def _as_recorded(signature: str, pair: EvalPair) -> str:
    """Return the error as recorded for the group's first member, because signatures lack capitals and numbers."""
    trial = _failed_trial(pair)
    # A signature ends with the error in lower case if it was located exactly, or else with the normalised error.
    if trial.error and signature.endswith((normalise_error(trial.error), trial.error.casefold())):
        return ": ".join(filter(None, (trial.step, trial.error)))
    return signature


def _failed_trial(pair: EvalPair) -> Trial:
    return next(trial for trial in pair.candidate if not trial.passed)


def _behaviour_of(pair: EvalPair) -> tuple[str, str, str]:
    """Return the name, description and source of the behaviour by which a pair is grouped."""
    trial = _failed_trial(pair)
    if pair.why and pair.why.judge != DIVERGENCE_RULES:
        return pair.why.behaviour, "named by the judge", pair.why.judge
    if trial.cause:
        return (
            trial.cause,
            f"{IN_REPORT}{f' ({trial.cause_kind})' if trial.cause_kind else ''}",
            DIVERGENCE_RULES,
        )
    if pair.why:
        return pair.why.behaviour, "the first tool call that differs", DIVERGENCE_RULES
    return _recorded_behaviour(trial)


def _recorded_behaviour(trial: Trial) -> tuple[str, str, str]:
    if trial.signature:
        return trial.signature, SAME_ERROR, DIVERGENCE_RULES
    if trial.step:
        return f"fails in {trial.step}", "the failed step", DIVERGENCE_RULES
    return UNKNOWN, "the reason is unknown", DIVERGENCE_RULES


REGRESSION, BEHAVIOURS = "regression", "behaviours"
"""Names of the rubrics for explaining a regression and for grouping explanations."""
MOST_FOLLOWED = 500
"""Maximum number of regressed evals whose transcripts are compared without a judge."""


@dataclass(frozen=True)
class CompareJudges:
    """The judges of a comparison. They use one model and two rubrics."""

    regression: RubricJudge
    """Judge that explains one regressed eval."""
    behaviours: RubricJudge
    """Judge that groups explanations by common behaviours."""
    concurrency: int
    was_cached: Callable[[JudgeResult], bool]
    """Returns True if a result was already cached before this command started."""


def open_compare_judges(workspace: Workspace, watcher: AnalysisWatcher) -> CompareJudges | None:
    """Open the configured judge for both rubrics.

    Returns None if the judge is `rules`. Raises `EvalscribeError` if the judge cannot be used.
    """
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
class _StoredPair:
    """A regressed pair with the stored record of a failed candidate trial.

    The record of a passed base trial is included if it is stored.
    """

    pair: EvalPair
    base: Record | None
    candidate: Record

    @property
    def subject(self) -> Subject:
        return pair_subject(self.base, self.candidate)


def explain_by_rules(
    workspace: Workspace, pairs: Sequence[EvalPair], most: int = MOST_FOLLOWED
) -> tuple[EvalPair, ...]:
    """Explain the first `most` regressed pairs by the first tool call that differs, and return all pairs.

    A pair gets no explanation if transcripts are not stored.
    """
    remaining = most
    explained = []
    for pair in pairs:
        if pair.change == "regressed" and remaining:
            remaining -= 1
            pair = pair.model_copy(update={"why": _divergence(_load_pair(workspace, pair))})
        explained.append(pair)
    return tuple(explained)


def estimate_explanation(workspace: Workspace, judges: CompareJudges, pairs: Sequence[EvalPair]) -> Estimate:
    """Return the maximum usage of explaining every regressed eval. The maximum is reached if no answer is cached."""
    stored_pairs = (_load_pair(workspace, pair) for pair in pairs if pair.change == "regressed")
    return sum(
        (judges.regression.estimate(stored_pair.subject) for stored_pair in stored_pairs if stored_pair), Estimate()
    )


class ExplainedRegressions(NamedTuple):
    """Explanations of regressed pairs by a judge."""

    pairs: tuple[EvalPair, ...]
    common: tuple[Behaviour, ...]
    ungrouped: tuple[EvalPair, ...]
    """Pairs that belong to no group, including pairs that did not regress. An eval can have several pairs."""


async def explain_by_judge(
    workspace: Workspace, judges: CompareJudges, pairs: Sequence[EvalPair], watcher: AnalysisWatcher
) -> ExplainedRegressions:
    """Let the judge explain each regressed pair and then group the explanations. Each answer is stored at once.

    A pair that cannot be judged keeps its explanation by rules. Raises `EvalscribeError` if no pair can be judged, and
    for errors that affect all pairs.
    """
    failed: list[JudgeResult] = []
    answers: dict[int, tuple[JudgeResult, RegressionExplanation]] = {}
    numbers = [number for number, pair in enumerate(pairs) if pair.change == "regressed"]
    done = 0

    async def explain_pair(number: int) -> None:
        nonlocal done
        stored_pair = _load_pair(workspace, pairs[number])
        text = "not judged: the failed trial is not stored"
        if stored_pair is not None:
            result, explanation = await _ask_judge(judges, stored_pair)
            if explanation is None:
                failed.append(result)
                text = f"not judged: {result.reason}"
            else:
                answers[number] = result, explanation
                text = f"{explanation.behaviour}{'  (cached)' if judges.was_cached(result) else ''}"
        done += 1
        watcher.say(f"{done:>{len(str(len(numbers)))}}/{len(numbers)}  {pairs[number].eval}  {text}")
        await asyncio.sleep(0)  # a worker that finds only cached answers would never let signal handlers run

    await run_concurrently(numbers, explain_pair, min(judges.concurrency, len(numbers) or 1))
    if failed and not answers:
        cause = main_cause(result.failure_cause for result in failed)
        message = f"no regressed eval could be judged: {failed[0].reason}"
        advice = "nothing was written; `judge` rules needs no model"
        raise no_answer_error(cause, f"{message}\n{advice}", fields=("judge",))
    explained = tuple(
        pair.model_copy(update={"why": answers[number][1]}) if number in answers else pair
        for number, pair in enumerate(pairs)
    )
    number_by_mark = {f"A{n}": number for n, number in enumerate(sorted(answers))}
    common = await _common_behaviours(
        judges, [answers[number][0] for number in number_by_mark.values()], number_by_mark, pairs, watcher
    )
    # `_common_behaviours` has removed the pairs that belong to a group from `number_by_mark`.
    grouped = answers.keys() - number_by_mark.values()
    return ExplainedRegressions(explained, common, tuple(pair for n, pair in enumerate(explained) if n not in grouped))


async def _ask_judge(
    judges: CompareJudges, stored_pair: _StoredPair
) -> tuple[JudgeResult, RegressionExplanation | None]:
    """Return the judge's result and the explanation in it. The explanation is None if the judge failed."""
    subject = stored_pair.subject
    result = await judges.regression.judge(subject)
    if result.result_type is ResultType.FAILURE:
        return result, None
    return result, parse_why(
        result, judges.regression.rubric, subject, stored_pair.base.eval.id if stored_pair.base else None
    )


async def _common_behaviours(
    judges: CompareJudges,
    results: Sequence[JudgeResult],
    number_by_mark: dict[str, int],
    pairs: Sequence[EvalPair],
    watcher: AnalysisWatcher,
) -> tuple[Behaviour, ...]:
    """Group the explanations by common behaviours. Returns no groups if the judge finds none or fails."""
    if len(results) < 2:
        return ()
    subject = Subject.of("regressed evals", result_items(results))
    result = await judges.behaviours.judge(subject)
    if result.result_type is ResultType.FAILURE:
        watcher.say(f"Could not judge what the regressed evals have in common: {result.reason}")
        return ()
    cited = JudgeResultWithCitations.from_judge_result(result, judges.behaviours.rubric.output_schema, subject)
    return _groups(cited.output["groups"], number_by_mark, pairs, result.judge)


def _groups(
    groups: Sequence[Mapping[str, Any]], number_by_mark: dict[str, int], pairs: Sequence[EvalPair], judge: str
) -> tuple[Behaviour, ...]:
    """Build groups of pairs.

    A pair belongs to the first group that cites it. A group of fewer than two pairs is dropped.

    Args:
        number_by_mark: Number of each pair, keyed by the mark with which groups cite the pair. Grouped pairs are
            removed from this mapping.
    """
    behaviours = []
    for group in groups:
        marks = [mark for name in group["members"] if (mark := one_line(str(name)).strip("[]")) in number_by_mark]
        members = tuple(dict.fromkeys(marks))
        if len(members) > 1:
            evals = tuple(pairs[number_by_mark.pop(mark)].eval for mark in members)
            name = slug(str(group["name"])).lower() or "unnamed"
            behaviours.append(Behaviour(name=name, text=without_marks(group["text"]), evals=evals, by=judge))
    return tuple(behaviours)


def _load_pair(workspace: Workspace, pair: EvalPair) -> _StoredPair | None:
    """Load the records of a pair's failed trial and passed trial. Returns None if the failed trial is not stored."""
    failed = next((trial for trial in pair.candidate if not trial.passed and trial.eval_id), None)
    candidate = _record(workspace, failed)
    if candidate is None:
        return None
    passed = next((trial for trial in pair.base if trial.passed and trial.eval_id), None)
    return _StoredPair(pair, _record(workspace, passed), candidate)


def _record(workspace: Workspace, trial: Trial | None) -> Record | None:
    if trial is None or trial.eval_id is None:
        return None
    return load_record(workspace.store.runs, workspace.store.analyses, trial.run_id, trial.eval_id)


def _divergence(stored_pair: _StoredPair | None) -> RegressionExplanation | None:
    if (
        stored_pair is None
        or stored_pair.base is None
        or not (stored_pair.base.transcripts and stored_pair.candidate.transcripts)
    ):
        return None
    return first_divergence(stored_pair.base.transcripts[0], stored_pair.candidate.transcripts[0])
