"""Compare replays with the stored failure, and name the cause of the failure if the replays prove it."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from evalscribe.evidence.locate import signature
from evalscribe.evidence.log import failed_log, first_log, normalise_error, strip_prefixes
from evalscribe.judging.pack import diagnose
from evalscribe.judging.quotations import cite_lines
from evalscribe.judging.rules import quote
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.judging.rules.patches import DOCUMENT as TESTS_OF_A_PATCH
from evalscribe.judging.rules.patches import FAILED
from evalscribe.model.evidence import Citation, Document, Evidence
from evalscribe.model.finding import (
    CORRECTED,
    REPLAY_JUDGE,
    CauseKind,
    Failure,
    Proof,
    Replay,
    ReplayedAnswer,
    ReplayOutcome,
    Verdict,
    counted,
    replay_log_name,
)
from evalscribe.model.reference_runs import ENDINGS, failed_parts, prints_the_same, read_reference_runs

AT_FAULT: tuple[CauseKind, ...] = ("grader", "harness", "lint", "infrastructure")
"""Kinds of cause that a proof can name."""
COMPARED = 40
"""Number of characters at the start of an error that are searched for in a replay's log."""


class FailureSignature(NamedTuple):
    """The features of a failure that are compared between a replay and the stored failure."""

    errors: frozenset[str]
    """The error signature of each diagnosed error. An error signature begins with the name of the failed step."""
    tests: frozenset[str]
    """Names of the failed tests."""
    error: str | None
    """Text of the error that was located as the reason for the failure; None if no error was located."""
    lint: frozenset[str]
    """Codes of the violated lint rules; empty if no linter failed."""
    printed: str
    """Text of the log of the failed step."""


LINTERS = ("eslint", "ruff")


@lru_cache(32)  # cached because all replays of a failure are compared with the same stored failure
def failure_signature(evidence: Evidence) -> FailureSignature:
    """Return the features of a stored failure that are compared with replays."""
    diagnosis = diagnose(evidence)
    error = diagnosis.located.error if diagnosis.located else None
    tests = frozenset(test.name for test in diagnosis.tests.failures)
    lint = frozenset(
        diagnostic.code
        for diagnostic in diagnosis.errors
        if diagnostic.code and diagnostic.tool in LINTERS and diagnostic.severity == "error"
    )
    log = failed_log(evidence)
    diagnostics = (diagnostic for diagnostic in diagnosis.errors if diagnostic.severity == "error")
    errors = frozenset(
        error_signature
        for diagnostic in diagnostics
        if (error_signature := signature(evidence.eval.failed_step, diagnostic))
    )
    return FailureSignature(errors, tests, error, lint, log.text if log else "")


def log_signature(stored: Evidence, log: str) -> FailureSignature:
    """Return the features of a failed replay, read from the log of the replay's grader."""
    # The recorded reason belongs to the run. If it were kept, it would be located as an error of the replay.
    eval = stored.eval.model_copy(update={"reason": None})
    stored_log = first_log(stored)
    other_documents = (document for document in stored.documents if document.role not in ("log", "transcript"))
    printed = Document(role="log", path=stored_log.path if stored_log else "replay.log", text=log)
    return failure_signature(Evidence(eval=eval, documents=(*other_documents, printed)))


def fails_the_same(stored: FailureSignature, replayed: FailureSignature) -> bool:
    """Return whether a replay failed in every check in which the stored output failed, and with the same errors.

    All violations of a lint rule count as one check, whatever names and lines they concern. An error that cannot be
    located in the replay's log counts as the same if it is a line of that log. Equal logs always count as the same
    failure.
    """
    if prints_the_same(stored.printed, replayed.printed):
        return True
    if stored.lint:
        return stored.lint <= replayed.lint
    if not stored.errors and not stored.tests:
        return False
    lines = [normalise_error(strip_prefixes(line)) for line in replayed.printed.splitlines()]
    # A run might have recorded an error apart from its log, so the error is also looked for in the lines of the replay.
    errors = (error for error in stored.errors if error not in replayed.errors)
    return stored.tests <= replayed.tests and all(error.partition(": ")[2] in lines for error in errors)


def fails_same_parts(stored: Evidence, failed_at: Iterable[str], output: str) -> bool:
    """Return whether another answer failed in the same way as the stored answer.

    The other answer must have failed every graded part that the stored answer failed, or the grader must have printed
    the same output for both answers.

    Args:
        stored: The stored failure.
        failed_at: The graded parts that the other answer failed, with the names that `failed_parts` returns.
        output: The grader's output for the other answer.
    """
    stored_parts = set(failed_parts(step for step in stored.steps if not step.name.endswith(ENDINGS)))
    if tests := stored.document("log", TESTS_OF_A_PATCH):  # has names of tests; SWE-bench's steps only count them
        stored_parts = {line for line in tests.lines if FAILED.fullmatch(line)} or stored_parts
    log = first_log(stored)
    return bool(stored_parts) and (stored_parts <= set(failed_at) or bool(log and prints_the_same(log.text, output)))


def recorded_replays(evidence: Evidence) -> tuple[Replay, ...]:
    """Return the trials of the reference answer that the run recorded, as replays.

    Trials of another version of the task are ignored.
    """
    replays: list[Replay] = []
    for answers in read_reference_runs(evidence.of("log")):
        if answers.kind != "reference answer" or answers.judged:
            continue
        failed = [trial for trial in answers.trials if trial.failed_at]
        for trial in failed:
            replays.append(
                Replay(
                    answer="reference",
                    passed=False,
                    alike=fails_same_parts(evidence, trial.failed_at, trial.output),
                    error=trial.failed_at[0],
                    tests=trial.failed_at,
                    log=trial.output,
                    recorded=True,
                    note=f"trial {trial.name}",
                )
            )
        passed = Replay(answer="reference", passed=True, recorded=True, note=answers.source)
        replays += [passed] * answers.passed
    return tuple(replays)


def conclude(case: Failure, replays: Sequence[Replay], *, same_grader: bool | None, note: str = "") -> Proof:
    """Conclude from the replays of a failure what caused it.

    Args:
        case: The failure in the form that judges receive.
        replays: Replays of the failure, including the recorded trials of the reference answer.
        same_grader: True if the grader is the same as in the run, and False if it changed. None if the run has no
            record of its grader.
        note: Reason why one of the answers could not be run; empty if all answers could be run.
    """
    facts = _Replays(case, replays, note)
    outcome, reason, reasoning = facts.changed_grader() if same_grader is False else facts.conclusion()
    if same_grader is None and outcome not in ("inconclusive", "fixed by change"):
        reasoning += " The run has no record of its grader, so the grader may have changed since."
    eval = case.evidence.eval
    proof = Proof(
        eval=eval.path,
        eval_id=eval.id,
        evidence=case.evidence.digest,
        outcome=outcome,
        why=quote.cut(reason),
        reasoning=reasoning,
        same_grader=same_grader,
        replays=tuple(replays),
    )
    return proof if proof.basis != "proved" else proof.model_copy(update={"verdict": facts.verdict(proof)})


Conclusion = tuple[ReplayOutcome, str, str]
"""Outcome, short reason on one line, and full reasoning."""


class _Replays:
    """Draws the conclusion from the replays of one failure."""

    def __init__(self, case: Failure, replays: Sequence[Replay], note: str) -> None:
        self._case = case
        self._note = note
        self._replays = replays
        self._rules = RulesJudge().decide(case)

    def _replays_of(self, answer: ReplayedAnswer) -> list[Replay]:
        return [
            replay
            for replay in self._replays
            if replay.answer == answer and replay.change is None and not replay.broken
        ]

    def changed_grader(self) -> Conclusion:
        return (
            "inconclusive",
            "the grader has changed since the run",
            "The grader is not the one that the run was graded with, so a replay says nothing about that run.",
        )

    def conclusion(self) -> Conclusion:
        return (
            self._conclude_from_correction()
            # The reference answer comes first: if it also fails, a failure of the output proves nothing.
            or self._conclude_from_reference()
            or self._conclude_from_output()
            or self._conclude_without_replays()
        )

    def _conclude_from_reference(self) -> Conclusion | None:
        """Conclude from replays of the reference answer alone.

        Returns None if the reference answer always passed or was never run.
        """
        runs = self._replays_of("reference")
        passed = sum(replay.passed for replay in runs)
        failed = [replay for replay in runs if not replay.passed]
        if not failed:
            return None
        if self._needs_network(failed):
            return self._conclude_without_network()
        if not all(replay.alike for replay in failed):
            other_error = next(replay.error for replay in failed if not replay.alike)
            error_suffix = f": {quote.cut(other_error, 60)}" if other_error else ""
            return (
                "inconclusive",
                f"the reference answer fails in another way{error_suffix}",
                "The reference answer fails, but not as this output did, so the replay differs from the run.",
            )
        if passed and self._contradicts_record(runs):
            return (
                "inconclusive",
                "the reference answer does not end like its recorded trials",
                "In the run's files the reference answer always ends one way, and in the replays the other way, so the "
                "replay differs from the run.",
            )
        if passed:
            return (
                "flaky",
                f"the grader is flaky: the reference answer passes {_times(passed, runs)}",
                "Otherwise it fails like this output. Chance decides this check, so it cannot tell whether this output "
                "is right.",
            )
        return (
            "reference fails",
            f"the reference answer fails in the same way, {_times(len(runs), runs)}",
            "Nobody can pass before the grader or the reference answer is corrected.",
        )

    def _conclude_from_correction(self) -> Conclusion | None:
        """Conclude from replays with an expectation that the benchmark's authors corrected.

        Returns None if the stored output does not pass with the corrected expectation, or also passes without it.
        """
        for replay in self._replays:
            if replay.change == CORRECTED and replay.passed and replay.broken:
                return (
                    "inconclusive",
                    f"passes with {CORRECTED}, {replay.broken}",
                    f"The stored output passes with {CORRECTED}, {replay.broken}, so this proves nothing about "
                    "the run.",
                )
        passed, total = counted(self._replays, "output", CORRECTED)
        unchanged = self._replays_of("output")
        if not total or passed < total or not unchanged or any(replay.passed for replay in unchanged):
            return None
        return (
            "fixed by change",
            f"passes with {CORRECTED}",
            "Without it the stored output fails: what was expected was wrong.",
        )

    def _conclude_from_output(self) -> Conclusion | None:
        runs = self._replays_of("output")
        passed = sum(replay.passed for replay in runs)
        failed = [replay for replay in runs if not replay.passed]
        if not runs:
            return None
        if failed and self._needs_network(failed):
            return self._conclude_without_network()
        if not failed:
            return (
                "not reproducible",
                f"not reproducible: the same output passes, {_times(passed, runs)}",
                "What failed in the run was not this output.",
            )
        if passed:
            return (
                "flaky",
                f"flaky: the same output passes {_times(passed, runs)}",
                "Chance decides this check.",
            )
        if not all(replay.alike for replay in failed):
            detail = next(replay.error for replay in failed if not replay.alike)
            error_suffix = f": {quote.cut(detail, 60)}" if detail else ""
            return (
                "inconclusive",
                f"the output fails in another way than in the run{error_suffix}",
                "The stored output fails again, but not as in the run, so the replay differs from the run.",
            )
        # A failure that can be repeated is only real if the task can be passed.
        if not self._replays_of("reference"):
            unknown = f"not run: {self._note}" if self._note else "not run"
            detail = next(
                (replay.broken for replay in self._replays if replay.answer == "reference" and replay.broken), unknown
            )
            return (
                "inconclusive",
                f"the output fails again, {_times(len(runs), runs)}; the reference was {detail}",
                f"The failure can be repeated. The reference answer was {detail}. Unless it passes, the grader may be "
                "at fault.",
            )
        return (
            "reproduced",
            f"reproduced {_times(len(runs), runs)}; the reference answer passes",
            f"The stored output fails in the same way again, {_times(len(runs), runs)}, and the reference answer "
            "passes: the failure is real.",
        )

    def _conclude_without_replays(self) -> Conclusion:
        broken = next((replay.broken for replay in self._replays if replay.broken), "")
        if broken:
            return "inconclusive", broken, f"The replay was {broken}, so it says nothing about the answer."
        if self._replays_of("reference"):
            return (
                "inconclusive",
                "the reference answer passes; the output cannot be run again",
                "The reference answer passes, so the task can be done as it is graded. The stored output cannot be run"
                f"{f': {self._note}' if self._note else ', because it is missing'}.",
            )
        return "inconclusive", "nothing could be run", "Neither the reference answer nor the output could be run."

    def _contradicts_record(self, runs: Sequence[Replay]) -> bool:
        """Return whether all recorded trials have one result and all replays have the opposite result.

        At least two recorded trials and two replays are required, because a single opposite result might be due to
        chance.
        """
        recorded = [replay.passed for replay in runs if replay.recorded]
        replayed = [replay.passed for replay in runs if not replay.recorded]
        several = len(recorded) > 1 and len(replayed) > 1
        return several and len({*recorded}) == len({*replayed}) == 1 and recorded[0] != replayed[0]

    def _needs_network(self, failed: Sequence[Replay]) -> bool:
        """Return whether the failure in the run was caused by a service that could not be reached.

        A replay of such a failure proves nothing, because the sandbox has no network.
        """
        return self._rules.cause_kind == "infrastructure" and not all(replay.recorded for replay in failed)

    def _conclude_without_network(self) -> Conclusion:
        return (
            "inconclusive",
            "needs a service, and a replay has no network",
            "The run failed to reach a service. A replay has no network, so that it fails as well says nothing.",
        )

    def verdict(self, proof: Proof) -> Verdict:
        """Return the verdict that a proof establishes.

        If the rules agree with the proof, the cause and the fix are taken from the rules.
        """
        rules, error = self._rules, failure_signature(self._case.evidence).error
        agrees = rules.classification == "OVERLY_STRICT" and rules.cause_kind in AT_FAULT
        return Verdict(
            classification="OVERLY_STRICT",
            cause=rules.cause if agrees else _CAUSES[proof.outcome],
            cause_kind=self._kind(),
            confidence=1.0,
            error=rules.error if agrees else error or rules.error,
            why=rules.why if agrees else proof.why,
            reasoning=f"{proof.why[0].upper()}{proof.why[1:]}. {rules.reasoning}" if agrees else proof.reasoning,
            citations=(*(rules.citations if agrees else ()), *self._citations(proof)),
            judge=REPLAY_JUDGE,
            rule=proof.outcome.replace(" ", "-"),
            fix=(rules.fix if agrees else None) or _FIXES.get(proof.outcome),
            would_pass=proof.outcome == "fixed by change" or (agrees and rules.would_pass),
        )

    def _kind(self) -> CauseKind:
        """Return the kind of cause that the rules name, if a proof can name that kind.

        Otherwise return `grader` if a test or another graded part failed, and `harness` if not.
        """
        if self._rules.cause_kind in AT_FAULT:
            return self._rules.cause_kind
        return "grader" if self._graded() else "harness"

    def _graded(self) -> bool:
        diagnosis = self._case.diagnosis or diagnose(self._case.evidence)
        return bool(diagnosis.tests.failures or failed_parts(self._case.evidence.steps))

    def _citations(self, proof: Proof) -> tuple[Citation, ...]:
        """Cite one line from the log of the first replay that decides the conclusion.

        The line with the error is cited. If no line contains the error, the last line is cited.
        """
        index = next(
            (n for n, replay in enumerate(proof.replays) if replay.log.strip() and _decides(replay, proof)), None
        )
        if index is None:
            return ()
        name = replay_log_name(proof.replays, index)
        document = Document(role="log", path=name, text=proof.replays[index].log)
        error = proof.replays[index].error
        lines = document.text.rstrip().split("\n")
        matches = [n for n, line in enumerate(lines, 1) if error and error[:COMPARED] in line]
        # A runner can print the test's name, with which the error begins, and the message on different lines.
        if error and not matches and (message := error.partition(": ")[2][:COMPARED]):
            matches = [n for n, line in enumerate(lines, 1) if message in line]
        line_number = matches[-1] if matches else len(lines)
        return (cite_lines(document, line_number, line_number),)


_CAUSES: dict[ReplayOutcome, str] = {
    "reference fails": "reference-answer-fails-too",
    "flaky": "flaky-grader",
    "not reproducible": "not-reproducible",
    "fixed by change": "wrong-expectation",
}
_FIXES: dict[ReplayOutcome, str] = {
    "reference fails": "correct the grader or the reference answer, which fails its own check",
    "flaky": "make the grader give the same answer the same result every time",
    "fixed by change": "use the corrected expectation",
}


def _decides(replay: Replay, proof: Proof) -> bool:
    """Return whether the conclusion of a proof depends on this replay."""
    if proof.outcome == "fixed by change":
        return replay.change == CORRECTED
    if proof.outcome == "not reproducible":
        return replay.answer == "output"
    return not replay.passed


def _times(number: int, runs: Sequence[Replay]) -> str:
    """Return how often something happened, such as `3 of 3 times`."""
    return f"{number} of {len(runs)} times"
