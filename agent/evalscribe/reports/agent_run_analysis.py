"""Render an analysis of an agent's trials.

Benchmarks such as Terminal-Bench ask for this analysis when someone proposes a task.

For each task, the analysis says whether its failed trials show a limit of the agent or a defect of the task. The
criteria are those of Harbor's trial analysis: task specification, reward hacking, difficulty, near misses, refusals and
time limits. The labels are taken from the report. The facts about each trial are taken from the store if it has the
run.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from pydantic import JsonValue

from evalscribe.model.analysis import Analysis, FindingSummary
from evalscribe.model.evidence import Citation
from evalscribe.model.record import Record
from evalscribe.model.reference_runs import ENDINGS, VERIFIER, GradedAnswer, read_reference_runs
from evalscribe.model.run import TRIAL, EvalStatus
from evalscribe.model.transcript import AssistantMessage
from evalscribe.reports import inline, snippets
from evalscribe.reports.outline import snippets as chosen
from evalscribe.text import cut, dollars, join_first, one_line, pluralise, prose

MOST_NAMED = 4
MOST_MODES = 6
LONGEST = 220
NEAR = 0.9
"""Minimum score that counts as a near miss. A measured value counts as a near miss if it differs from its threshold by
at most `1 - NEAR` of the threshold.
"""
GRADING = re.compile(r"(?<![\w./~-])/(?:tests|solution|oracle)/|/logs/verifier|\breward\.(?:txt|json)\b|\bctrf\.json\b")
"""Matches paths where the verifier and the reference answer are stored in the agent's environment. An honest agent has
no reason to open these files.
"""
COMPARED = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?)\s*(?:<=?|>=?)\s*(-?\d+(?:\.\d+)?)(?![\w.])")
"""Matches a measured value and its threshold in an assertion, such as `assert 0.94 >= 0.98`."""
REFUSALS = ("refuses", "answer-refused", "agent-safety-refusal")
"""Names of the causes that rules assign when the model refused the task."""
MAIN_SCORES = ("reward", "score", "passed", "correct")
"""Names of the scores that decide whether a trial passed. The main scores are displayed before all other scores."""
FAULTS = {
    "grader": "the verifier",
    "task": "the task",
    "lint": "a lint rule",
    "model": "the agent",
    "user": "the simulated user",
}
"""The party at fault for each kind of cause."""
CONCLUSIONS = {
    "the agent": "a limit of the agent",
    "the verifier": "a defect of the verifier",
    "the task": "a defect of the task",
    "a lint rule": "a defect of a lint rule",
    "the simulated user": "a fault of the simulated user",
    "nobody": "a known gap",
    "not judged": "nothing: not judged",
    "undecided": "undecided",
}


class TrialFacts(NamedTuple):
    """Facts about one trial."""

    task: str
    number: int
    status: EvalStatus
    name: str = ""
    """Name of the trial in the source from which the run was read."""
    scores: Mapping[str, float] = {}
    passed: int = 0
    failed: Sequence[tuple[str, str]] = ()
    """Name and error of each failed part of the grading."""
    ended: str = ""
    """Reason why the agent was stopped. Empty if the agent ended the trial itself."""
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    actions: int | None = None
    """Number of messages that the model wrote. None if the trial has no transcript."""
    touched: Sequence[str] = ()
    """The agent's commands that name files of the verifier or the reference answer."""
    answers: Sequence[GradedAnswer] = ()
    agent: str = ""
    opinions: Mapping[str, str] = {}
    """Outcomes that `harbor analyze` reported, keyed by criterion."""
    stored: bool = True
    """True if the store has the trial. If False, the facts come from the finding in the report."""


def trial_facts(record: Record) -> TrialFacts:
    """Extract the facts about a trial from its stored record."""
    metadata = record.metadata
    usage, seconds = _object(metadata.get("usage")), _object(metadata.get("seconds"))
    messages = [
        message for part in record.transcripts for message in part.messages if isinstance(message, AssistantMessage)
    ]
    commands = [text for message in messages for text in _commands(message)]
    tests = [step for step in record.steps if not step.name.endswith(ENDINGS)]
    checks = _object(_object(metadata.get("harbor_analysis")).get("checks"))
    return TrialFacts(
        task=record.eval.task,
        number=record.eval.trial,
        status=record.eval.status,
        name=one_line(str(metadata.get("trial_name") or "")).rpartition("__")[2],
        scores={
            name: value for name, value in _object(metadata.get("scores")).items() if isinstance(value, int | float)
        },
        passed=sum(step.status == "passed" for step in tests),
        failed=[(step.name, step.error or "") for step in tests if step.status == "failed"],
        ended=next((step.error or "" for step in record.steps if step not in tests), "")
        or (record.eval.reason or "" if record.eval.status in ("error", "incomplete") else ""),
        seconds=_number(seconds.get("agent_execution")) or _number(usage.get("seconds")),
        tokens=int((_number(usage.get("input_tokens")) or 0) + (_number(usage.get("output_tokens")) or 0)) or None,
        cost=_number(usage.get("cost_usd")),
        actions=len(messages) if record.transcripts else None,
        touched=[one_line(text) for text in commands if GRADING.search(text)],
        answers=read_reference_runs(record.documents),
        agent=str(_object(metadata.get("agent_info")).get("name") or ""),
        opinions={name: str(_object(check).get("outcome")) for name, check in checks.items()},
    )


def _commands(message: AssistantMessage) -> Iterator[str]:
    """Yield texts that could be commands.

    If the message has tool calls, their text arguments are yielded. Otherwise, the message's text is yielded.
    """
    for call in message.tool_calls:
        yield from (value for value in call.arguments.values() if isinstance(value, str))
    # Some agents write their commands as text.
    if not message.tool_calls:
        yield message.content


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def render(analysis: Analysis, trials: Iterable[TrialFacts] = ()) -> str:
    """Render the analysis as markdown.

    Args:
        analysis: The report on the run, with people's corrections.
        trials: Stored facts about the trials. For a task without stored facts, only the failed trials in the report are
            shown.
    """
    tasks = _tasks(analysis, trials)
    return "\n".join([*_head(analysis, tasks), *(line for task in tasks for line in _task(task))]) + "\n"


class _Task(NamedTuple):
    name: str
    trials: list[TrialFacts]
    findings: dict[int, FindingSummary]
    """Finding of each failed trial, keyed by the trial's number."""
    total: int
    passed: int

    @property
    def failing(self) -> list[TrialFacts]:
        return [trial for trial in self.trials if trial.status == "failed"]

    @property
    def answers(self) -> Mapping[str, GradedAnswer]:
        # Every trial of a task has the results of the reference answers.
        return {answer.kind: answer for trial in self.trials[:1] for answer in trial.answers}

    @property
    def accepts_anything(self) -> bool:
        empty = self.answers.get("empty answer")
        return empty is not None and empty.passed > 0

    @property
    def conclusion(self) -> str:
        """Short phrase that says what the task's failures show."""
        faults = Counter(_fault(finding) for finding in self.findings.values())
        if not faults:
            if self.accepts_anything:
                return "suspect: an empty answer passes"
            return "passed" if self.passed else "not graded"
        several = len(faults) > 1
        words = [
            f"{CONCLUSIONS[fault]}{f' ({n} of {faults.total()})' if several else ''}" for fault, n in faults.items()
        ]
        doubts = sum(bool(finding.uncertain) for finding in self.findings.values())
        doubt = "uncertain" if doubts == faults.total() else f"{doubts} of {faults.total()} uncertain"
        return join_first(words, MOST_NAMED) + (f", {doubt}" if doubts else "")


def _fault(finding: FindingSummary) -> str:
    if finding.classification is None:
        return "undecided"
    if finding.cause_kind in ("infrastructure", "harness"):
        return "not judged"
    if finding.cause_kind == "user":
        return FAULTS["user"]
    if finding.classification == "KNOWN_GAP":
        return "nobody"
    labelled = {"MODEL_FAULT": "the agent", "AMBIGUOUS_TASK": "the task"}.get(finding.classification)
    return labelled or FAULTS.get(finding.cause_kind or "", "the verifier")


def _tasks(analysis: Analysis, trials: Iterable[TrialFacts]) -> list[_Task]:
    findings: dict[str, dict[int, FindingSummary]] = defaultdict(dict)
    for finding in analysis.findings:
        number = TRIAL.search(finding.eval)
        findings[TRIAL.sub("", finding.eval)][int(number[0][1:]) if number else 1] = finding
    trials_by_task: dict[str, list[TrialFacts]] = defaultdict(list)
    for trial in trials:
        trials_by_task[trial.task].append(trial)
    for task, by_number in findings.items():
        if not trials_by_task[task]:
            trials_by_task[task] = [
                _from_finding(task, number, finding) for number, finding in sorted(by_number.items())
            ]
    tasks = []
    for task, of_task in sorted(trials_by_task.items()):
        counted = next((finding.trials for finding in findings[task].values() if finding.trials), None)
        # The store can lack trials that the report counts, and a report can lack the counts.
        total = max(len(of_task), counted.total if counted else 0)
        passed = max(sum(trial.status == "passed" for trial in of_task), counted.passed if counted else 0)
        tasks.append(_Task(task, sorted(of_task, key=lambda trial: trial.number), findings[task], total, passed))
    return tasks


def _from_finding(task: str, number: int, finding: FindingSummary) -> TrialFacts:
    broken = finding.cause_kind in ("infrastructure", "harness")
    failed = [(finding.step or VERIFIER, finding.error or "")]
    return TrialFacts(task, number, "error" if broken else "failed", failed=[] if broken else failed, stored=False)


def _head(analysis: Analysis, tasks: Sequence[_Task]) -> Iterator[str]:
    run = analysis.run
    agents = sorted({trial.agent for task in tasks for trial in task.trials if trial.agent})
    model = inline.code(f"{run.provider}/{run.model}")
    subject = f"{', '.join(map(inline.name, agents))} with {model}" if agents else model
    passed, total = sum(task.passed for task in tasks), sum(task.total for task in tasks)
    yield "## Agent Run Analysis"
    yield ""
    yield (
        f"{subject}: {passed} of {pluralise(total, 'trial')} of {pluralise(len(tasks), 'task')} passed. Run "
        f"{inline.code(run.id or 'unknown')}{f', {run.started_at[:10]}' if run.started_at else ''}; "
        f"judged by {join_first([inline.name(judge) for judge in analysis.judges] or ['people'], 3)}."
    )
    yield _summary(tasks)
    yield ""
    checked = any(task.answers for task in tasks)
    columns = ("Reference", "Empty answer") if checked else ()
    yield inline.row("Task", "Passed", *columns, "What the failures show")
    yield "|---|--:|" + "--:|" * len(columns) + "---|"
    for task in tasks:
        kinds = ("reference answer", "empty answer") if checked else ()
        ratios = [_ratio(task.answers.get(kind)) for kind in kinds]
        yield inline.row(inline.printed_path(task.name), f"{task.passed}/{task.total}", *ratios, task.conclusion)


def _summary(tasks: Sequence[_Task]) -> str:
    """Return sentences that count the failures by the party at fault.

    The sentences also name the tasks that must be settled before the pass rate is used. These are the tasks with a
    failure that is attributed to neither the agent nor a known gap, and the tasks that accept an empty answer.
    """
    faults = Counter(_fault(finding) for task in tasks for finding in task.findings.values())
    if not faults:
        return "No trial failed."
    counts = [f"{number} {CONCLUSIONS[fault]}" for fault, number in faults.most_common()]
    broken = [
        task.name
        for task in tasks
        if any(_fault(finding) not in ("the agent", "nobody") for finding in task.findings.values())
    ]
    broken += [task.name for task in tasks if task.accepts_anything and task.name not in broken]
    sentence = f"Of {pluralise(faults.total(), 'failed trial')}, {_and(counts)}."
    if not broken:
        return f"{sentence} Nothing in the trials points to a defect of a task."
    names = join_first([inline.printed_path(name) for name in broken], MOST_NAMED)
    return f"{sentence} Settle {names} before the pass rate is used."


def _and(words: Sequence[str]) -> str:
    verbs = [
        f"{word.partition(' ')[0]} {'shows' if word.startswith('1 ') else 'show'} {word.partition(' ')[2]}"
        for word in words
    ]
    return verbs[0] if len(verbs) == 1 else f"{', '.join(verbs[:-1])} and {verbs[-1]}"


def _ratio(answer: GradedAnswer | None) -> str:
    return f"{answer.passed}/{answer.total}" if answer else "not run"


def _task(task: _Task) -> Iterator[str]:
    if not task.findings and not task.accepts_anything:
        return
    yield ""
    yield f"### {inline.printed_path(task.name)}: {task.conclusion}"
    yield ""
    yield _reasoning(task)
    yield ""
    yield from _trial_table(task)
    yield ""
    modes = _modes(task)
    yield from _mode_lines(modes)
    if any(not trial.stored for trial in task.trials):
        yield "- Near misses, reward hacking, refusals and limits: unknown; the trials are not in this store."
        yield from _proof(task)
        return
    yield _near_misses(task)
    yield _reward_hacking(task)
    yield _refusals(task)
    yield _time_limit(task)
    yield f"- **Task and verifier**: {_soundness(task)}"
    if opinions := _opinions(task):
        yield f"- **harbor analyze**: {opinions}"
    yield from _proof(task)


def _reasoning(task: _Task) -> str:
    """Return each distinct reasoning in the verdicts, with the trials to which it applies."""
    reasons: dict[str, list[int]] = defaultdict(list)
    for number, finding in task.findings.items():
        reasons[prose(finding.reasoning or finding.unclassified or finding.why or "No reason is recorded.")].append(
            number
        )
    if not reasons:
        return "No trial failed, but an answer that does nothing passes as well."
    if len(reasons) == 1:
        return next(iter(reasons))
    return " ".join(
        f"**{_numbers(numbers).capitalize()}**: {reason}" for reason, numbers in list(reasons.items())[:MOST_MODES]
    )


def _trial_table(task: _Task) -> Iterator[str]:
    shows: dict[str, list[str]] = {
        "Trial": [
            f"{trial.number} {inline.code(trial.name)}" if trial.name else str(trial.number) for trial in task.trials
        ],
        "Result": [_result(trial) for trial in task.trials],
        "Tests passed": [_tests_passed(trial) for trial in task.trials],
        "Failed at": [join_first([inline.code(name) for name, _ in trial.failed], 3) for trial in task.trials],
        "Ended by": [_exception(trial.ended) for trial in task.trials],
        "Time": [_duration(trial.seconds) for trial in task.trials],
        "Steps": [str(trial.actions) if trial.actions is not None else "" for trial in task.trials],
        "Tokens": [f"{trial.tokens:,}" if trial.tokens else "" for trial in task.trials],
        "Cost": [dollars(trial.cost) if trial.cost is not None else "" for trial in task.trials],
        "Fault of": [_blame(task.findings.get(trial.number)) for trial in task.trials],
    }
    columns = {name: cells for name, cells in shows.items() if any(cells)}
    yield inline.row(*columns)
    yield "|" + "---|" * len(columns)
    for cells in zip(*columns.values(), strict=True):
        yield inline.row(*cells)


def _result(trial: TrialFacts) -> str:
    scores = ", ".join(f"{name} {value:g}" for name, value in _scores(trial)[:3])
    words = {"passed": "passed", "failed": "failed", "error": "not graded", "incomplete": "not graded"}
    return f"{words[trial.status]} ({_escaped(scores)})" if scores else words[trial.status]


def _scores(trial: TrialFacts) -> list[tuple[str, float]]:
    """Return the scores in display order: those in `MAIN_SCORES` come first."""
    # The store does not keep the order of the scores.
    return sorted(trial.scores.items(), key=lambda item: item[0] not in MAIN_SCORES)


def _tests_passed(trial: TrialFacts) -> str:
    total = trial.passed + len(trial.failed)
    return f"{trial.passed}/{total}" if total > 1 else ""


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 0.1:
        return "under 0.1 s"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def _exception(ended: str) -> str:
    """Return the type of the exception that ended the agent's work. The message is printed below the table."""
    kind = re.match(r"\w+(?=: )", ended)
    return inline.code(kind[0] if kind else cut(one_line(ended), 40)) if ended else ""


def _blame(finding: FindingSummary | None) -> str:
    if finding is None:
        return ""
    return f"{_fault(finding)}{' (uncertain)' if finding.uncertain else ''}"


class _Mode(NamedTuple):
    """A failure mode: all trials in which the same parts of the grading failed and the agent's work ended in the same
    way.
    """

    parts: tuple[str, ...]
    ended: str
    trials: list[TrialFacts]


def _modes(task: _Task) -> list[_Mode]:
    by_mode: dict[tuple[tuple[str, ...], str], list[TrialFacts]] = defaultdict(list)
    for trial in task.trials:
        if trial.status != "passed":
            # A verifier without named tests has a single step, so only its error distinguishes the modes.
            parts = tuple(
                cut(one_line(error), 120) if name.endswith(VERIFIER) and error else name for name, error in trial.failed
            )
            by_mode[parts, trial.ended].append(trial)
    return sorted((_Mode(*key, trials) for key, trials in by_mode.items()), key=lambda mode: -len(mode.trials))


def _mode_lines(modes: Sequence[_Mode]) -> Iterator[str]:
    if not modes:
        return
    bad = sum(len(mode.trials) for mode in modes)
    if len(modes) == 1:
        often = f"one in all {bad} failed trials: " if bad > 1 else ""
        yield f"- **Failure mode**: {often}{_mode(modes[0])}"
        return
    yield f"- **Failure modes**: {len(modes)} in {pluralise(bad, 'failed trial')}"
    for mode in modes[:MOST_MODES]:
        numbers = ", ".join(str(trial.number) for trial in mode.trials)
        yield f"  - {'trial' if len(mode.trials) == 1 else 'trials'} {numbers}: {_mode(mode)}"


def _mode(mode: _Mode) -> str:
    if not mode.parts:
        return f"not graded: {inline.code(cut(one_line(mode.ended), LONGEST))}" if mode.ended else "not graded"
    text = join_first([inline.code(part) for part in mode.parts], MOST_NAMED)
    text += f", ended by {inline.code(cut(one_line(mode.ended), LONGEST))}" if mode.ended else ""
    errors = list(dict.fromkeys(one_line(error) for trial in mode.trials for _, error in trial.failed[:1] if error))
    errors = [error for error in errors if error not in mode.parts]
    if not errors:
        return text
    example = inline.code(cut(errors[0], LONGEST))
    how = "the same message each time: " if len(mode.trials) > 1 and len(errors) == 1 else ""
    if len(errors) > 1:
        how = f"{len(errors)} different messages, such as "
    return f"{text}; {how}{example}"


def _near_misses(task: _Task) -> str:
    """Return a sentence that says how close the failed trials came to passing.

    The distance is taken from their scores, assertions and tests.
    """
    if not task.failing:
        return "- **Near misses**: no trial was graded as failed."
    distances = [(trial.number, *_distance(trial)) for trial in task.failing]
    near = [number for number, _, close in distances if close]
    groups: dict[str, list[int]] = defaultdict(list)
    for number, text, _ in distances:
        groups[text].append(number)
    phrases = [
        f"{'each trial' if len(numbers) == len(distances) > 1 else _numbers(numbers)} {text}"
        for text, numbers in groups.items()
        if text
    ]
    if not phrases:
        return "- **Near misses**: unknown; the verifier gives all or nothing."
    count = f"{len(near)} of {len(distances)}" if near else "none by a margin that can be measured"
    return f"- **Near misses**: {count}; {'; '.join(phrases)}."


def _distance(trial: TrialFacts) -> tuple[str, bool]:
    """Return a phrase that says how far a trial was from passing, and whether the trial was a near miss."""
    (name, score), *other_scores = _scores(trial) or [("", 0.0)]
    gap = next((match for _, error in trial.failed if (match := COMPARED.search(error))), None)
    if 0 < score < 1:
        return f"has {_escaped(name)} {score:g} of 1", score >= NEAR
    if gap and float(gap[2]):
        off = abs(float(gap[1]) - float(gap[2])) / abs(float(gap[2]))
        return f"measures {gap[1]} where {gap[2]} is the threshold, {off:.1%} off", off <= 1 - NEAR
    total = trial.passed + len(trial.failed)
    if total > 1 and trial.passed:
        return f"passes {trial.passed} of {total} tests", False
    partial = [_escaped(f"{other} {value:g}") for other, value in other_scores if value > 0]
    return f"has {join_first(partial, 3)} beside {_escaped(name)} {score:g}" if partial else "", False


def _reward_hacking(task: _Task) -> str:
    recorded = [trial for trial in task.trials if trial.actions is not None]
    if not recorded:
        return "- **Reward hacking**: not looked for; there are no transcripts."
    suspects = [trial for trial in recorded if trial.touched]
    if not suspects:
        return (
            f"- **Reward hacking**: no sign; no command in {pluralise(len(recorded), 'transcript')} names "
            "the verifier's, the solution's or the reward's files."
        )
    places = [
        f"in trial {trial.number} ({trial.status}) by {inline.code(cut(trial.touched[0], 100))}"
        for trial in suspects[:3]
    ]
    which = _numbers(trial.number for trial in suspects)
    return f"- **Reward hacking**: look at {which}: files of the grading are named, {'; '.join(places)}."


def _refusals(task: _Task) -> str:
    refused = [number for number, finding in task.findings.items() if finding.cause in REFUSALS]
    # Harbor ends the trial with this exception if the model refuses.
    refused += [trial.number for trial in task.trials if trial.ended.startswith("AgentSafetyRefusalError")]
    if refused:
        return f"- **Refusals**: {len(set(refused))} of {pluralise(task.total, 'trial')} ({_numbers(refused)})."
    return "- **Refusals**: none."


def _time_limit(task: _Task) -> str:
    stopped = [trial for trial in task.trials if re.search(r"time[d -]?out|limit|exceeded", trial.ended, re.IGNORECASE)]
    seconds = [trial.seconds for trial in task.trials if trial.seconds is not None and trial not in stopped]
    usual = f" The others worked {_duration(median(seconds))} (median)." if seconds and stopped else ""
    if not stopped:
        longest = max(seconds, default=None)
        return "- **Limits**: no trial was stopped." + (f" The longest worked {_duration(longest)}." if longest else "")
    ending = inline.code(cut(one_line(stopped[0].ended), 100))
    trials = _numbers(trial.number for trial in stopped)
    return f"- **Limits**: {len(stopped)} of {pluralise(task.total, 'trial')} stopped ({trials}): {ending}.{usual}"


def _soundness(task: _Task) -> str:
    reference, empty = task.answers.get("reference answer"), task.answers.get("empty answer")
    statements = []
    if reference is None:
        statements.append("the reference answer was not run, so nothing shows that the task can be passed")
    elif reference.passed:
        only = "passes" if reference.passed == reference.total else "**passes only"
        end = "" if reference.passed == reference.total else "**"
        statements.append(
            f"the reference answer {only} {reference.passed} of {pluralise(reference.total, 'trial')}{end}"
        )
    else:
        statements.append(
            f"the reference answer **fails** in {reference.total} of {pluralise(reference.total, 'trial')}"
        )
    if empty is not None:
        passes = f"**passes {empty.passed} of {empty.total}**" if empty.passed else "fails"
        statements.append(f"an answer that does nothing {passes}")
    return f"{'; '.join(statements)}."


def _opinions(task: _Task) -> str:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in task.trials:
        for name, outcome in trial.opinions.items():
            counts[name][outcome] += 1
    return "; ".join(
        f"{inline.name(name)} {', '.join(f'{number} {_escaped(outcome)}' for outcome, number in outcomes.items())}"
        for name, outcomes in sorted(counts.items())
    )


def _proof(task: _Task) -> Iterator[str]:
    """Yield quotations for each label: those of the first finding that has this label and any quotations."""
    classifications: set[object] = set()
    for finding in task.findings.values():
        if finding.classification in classifications or not finding.citations:
            continue
        classifications.add(finding.classification)
        quoted = chosen([Citation(**citation.model_dump()) for citation in finding.citations], finding.error or "")
        yield from ("", *snippets.render(quoted))


def _numbers(numbers: Iterable[int]) -> str:
    unique = sorted(set(numbers))
    return f"{'trial' if len(unique) == 1 else 'trials'} {join_first([str(number) for number in unique], 10)}"


def _escaped(text: str) -> str:
    return inline.code(one_line(text)) if re.search(r"[`<>\[\]*_|@#&!\\]", text) else one_line(text)
