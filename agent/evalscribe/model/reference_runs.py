"""Describe how a verifier graded the reference answer and, separately, the empty answer of an agent that did nothing.

Benchmarks check their tasks with such runs: the reference answer has to pass, and an empty answer has to fail. The
description becomes a document in the eval's evidence. Judges read it, findings quote it, and rules parse it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from evalscribe.ids import Frozen
from evalscribe.model.evidence import Document
from evalscribe.model.run import Step
from evalscribe.text import one_line, pluralise

PATH = "reference-runs.log"
"""Path of the document about reference runs. Only code that reads reference runs creates a document with this path and
the role `log`."""
VERIFIER = "tests"
"""Name of the step for a verifier that does not name its tests. Such a verifier has only this step."""
ENDINGS = ("limit", "agent")
"""A step whose name has one of these endings is not a test. It describes how the agent's work ended."""
AnswerKind = Literal["reference answer", "empty answer"]
MAX_TRIALS = 5
"""Maximum number of trials in the document. Failed trials come first."""
MAX_OUTPUT = 4_000
"""Maximum number of characters of one trial's output. If the output is longer, its beginning is cut off."""
_HEAD = re.compile(r"(reference answer|empty answer) \((.*)\): passed (\d+) of (\d+) trials?(, among them this one)?")
_TRIAL = re.compile(r"(reference answer|empty answer), trial (.*) (?:passed|failed at (\[.*\]))")
_INDENT = "    "
_TIMING = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds?)\b")


class GradedTrial(Frozen):
    """One trial of a reference answer or of an empty answer."""

    name: str
    failed_at: tuple[str, ...] = ()
    """Result of `failed_parts` for the trial: the names of the failed tests, or the verifier's output if the verifier
    does not name its tests. Empty if the trial passed."""
    output: str = ""
    """Output of the verifier."""


class GradedAnswer(Frozen):
    """The trials of one kind of answer to one version of a task."""

    kind: AnswerKind
    source: str
    """The agent that gave the answer and the job that ran this agent, such as `oracle, job 2026-11-22__10-00-00`."""
    trials: tuple[GradedTrial, ...] = ()
    passed: int = 0
    total: int = 0
    judged: bool = False
    """Whether the trial that is being judged is one of the trials of this answer."""


def failed_parts(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the names of the failed tests. If the verifier does not name its tests, return its output."""
    return tuple(
        dict.fromkeys(
            (step.error or step.name) if step.name.endswith(VERIFIER) else step.name
            for step in steps
            if step.status == "failed"
        )
    )


def prints_the_same(output: str, expected: str) -> bool:
    """Return whether two outputs of a verifier are equal, apart from timings and whitespace.

    If `output` is empty, it counts as different from any `expected`, even from an empty one.
    """
    return bool(output.strip()) and _comparable(output) == _comparable(expected)


def _comparable(output: str) -> str:
    # Output from a document only has its last `MAX_OUTPUT` characters.
    return " ".join(_TIMING.sub("", output.strip()[-MAX_OUTPUT:]).split())


def reference_document(answers: Sequence[GradedAnswer], judged_trial: str = "") -> Document | None:
    """Return the document about the reference and empty answers to one task; None if there are no such answers.

    `judged_trial` is the name of the trial that is being judged.
    """
    lines = [line for answer in answers if answer.total for line in _lines(answer, judged_trial)]
    return Document(role="log", path=PATH, text="\n".join(lines)) if lines else None


def _lines(answer: GradedAnswer, judged_trial: str) -> Iterator[str]:
    judged = ", among them this one" if answer.judged or judged_trial in [trial.name for trial in answer.trials] else ""
    count = f"passed {answer.passed} of {pluralise(answer.total, 'trial')}"
    yield f"{answer.kind} ({one_line(answer.source)}): {count}{judged}"
    for trial in sorted(answer.trials, key=lambda trial: not trial.failed_at)[:MAX_TRIALS]:
        result = f"failed at {json.dumps(trial.failed_at, ensure_ascii=False)}" if trial.failed_at else "passed"
        yield f"{answer.kind}, trial {one_line(trial.name)} {result}"
        # The indentation keeps the output from forging a line about a trial.
        yield from (f"{_INDENT}{line}" for line in trial.output.strip()[-MAX_OUTPUT:].splitlines())


def read_reference_runs(documents: Iterable[Document]) -> tuple[GradedAnswer, ...]:
    """Find the document that `reference_document` returned, and parse it.

    The result is empty if `documents` does not contain this document.
    """
    document = next((document for document in documents if document.role == "log" and document.path == PATH), None)
    answers: list[GradedAnswer] = []
    trials: list[GradedTrial] = []
    for line in document.lines if document else ():
        if head := _HEAD.fullmatch(line):
            trials = []
            counts = {"passed": int(head[3]), "total": int(head[4]), "judged": bool(head[5])}
            answers.append(GradedAnswer.model_validate({"kind": head[1], "source": head[2], **counts}))
        elif answers and (trial := _TRIAL.fullmatch(line)):
            trials.append(GradedTrial(name=trial[2], failed_at=tuple(json.loads(trial[3] or "[]"))))
        elif trials and line.startswith(_INDENT):
            output = f"{trials[-1].output}\n{line.removeprefix(_INDENT)}".lstrip("\n")
            trials[-1] = trials[-1].model_copy(update={"output": output})
        if answers:
            answers[-1] = answers[-1].model_copy(update={"trials": tuple(trials)})
    return tuple(answers)
