"""Rules about agents: their calls, their answers, and how their runs ended."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from evalscribe.evidence.locate import locate, signature
from evalscribe.failures.prepare import ended_before_output, evidence_fingerprint
from evalscribe.judging.pack import BUDGET, pack, prepare
from evalscribe.judging.quotations import verify_citation
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import Document, Evidence, PackedEvidence
from evalscribe.model.finding import Failure, Verdict
from evalscribe.model.record import SCORES_LOG, Record, evidence_of
from evalscribe.model.run import Eval, EvalStatus, Step
from evalscribe.model.transcript import (
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    Transcript,
    TranscriptToolCall,
    UserMessage,
    render_calls,
)
from support.command import InProcessCommand

Calls = list[tuple[str, dict[str, Any]]]


def calls(*call_specs: tuple[str, dict[str, Any], str]) -> list[ChatMessage]:
    """Return tool calls with their answers; an answer that begins with `!` is an error."""
    messages: list[ChatMessage] = []
    for tool, arguments, answer in call_specs:
        messages.append(AssistantMessage(tool_calls=(TranscriptToolCall(function=tool, arguments=arguments),)))
        error = answer.removeprefix("!") if answer.startswith("!") else None
        messages.append(ToolMessage(function=tool, content="" if error else answer, error=error))
    return messages


def says(text: str) -> AssistantMessage:
    return AssistantMessage(content=text)


def evidence(
    *messages: ChatMessage | list[ChatMessage],
    expected: Calls | None = None,
    target: str | None = None,
    outputs: list[str] | None = None,
    step: str | None = "actions",
    reason: str | None = None,
    status: EvalStatus = "failed",
    log: str = "",
) -> Evidence:
    flat = [one for part in messages for one in (part if isinstance(part, list) else [part])]
    documents = [Document(role="task", path="task", text="You are ann_lee_12. Book a room.")]
    if expected is not None:
        wanted = [TranscriptToolCall(function=tool, arguments=arguments) for tool, arguments in expected]
        documents.append(Document(role="expected", path="actions", text=render_calls(wanted)))
    if target is not None:
        documents.append(Document(role="expected", path="target", text=target))
    if outputs is not None:
        documents.append(Document(role="expected", path="outputs", text=json.dumps(outputs)))
    if log:
        documents.append(Document(role="log", path="log", text=log))
    record = Record(
        run_id="r",
        eval=Eval(id="e", category="c", name="n", status=status, failed_step=step, reason=reason),
        steps=(Step(name=step, status="failed", error=reason),) if step else (),
        documents=tuple(documents),
        transcripts=(Transcript(id="t", messages=(SystemMessage(content="Policy"), UserMessage(content="Hi"), *flat)),),
    )
    return evidence_of(record)


def judged(agent_evidence: Evidence) -> Verdict:
    verdict = RulesJudge().decide(Failure(evidence=agent_evidence, packed=PackedEvidence(excerpts=())))
    assert [verify_citation(one, agent_evidence).status for one in verdict.citations] == ["verified"] * len(
        verdict.citations
    )
    assert len(verdict.why) <= 90
    return verdict


BOOK = ("book_room", {"room": "Oak12", "people": 3})


@pytest.mark.parametrize(
    ("found", "label", "cause", "uncertain"),
    [
        pytest.param(
            evidence(
                calls(("list_rooms", {}, "Elm77, Oak12"), ("book_room", {"room": "Elm77", "people": 3}, "{}")),
                expected=[BOOK],
            ),
            "MODEL_FAULT", "other-room-in-book-room", False, id="otherwise",
        ),
        pytest.param(
            evidence(calls(("book_room", {"room": "Elm77", "people": 3}, "{}")), expected=[BOOK]),
            "MODEL_FAULT", "other-room-in-book-room", True, id="otherwise, but nobody gave the expected value",
        ),
        pytest.param(
            evidence(calls(("get_room", {"room": "Oak12"}, "{}")), says("Done"), expected=[BOOK]),
            "MODEL_FAULT", "never-calls-book-room", False, id="never",
        ),
        pytest.param(
            evidence(says("Who are you?"), UserMessage(content="Guess"), expected=[BOOK]),
            "OVERLY_STRICT", "user-withholds-who-it-is", True, id="the user never says who they are",
        ),
        pytest.param(
            evidence(UserMessage(content="I am ann_lee_12"), says("No."), expected=[BOOK]),
            "MODEL_FAULT", "calls-no-tool", False, id="no tool although the user says all",
        ),
        pytest.param(
            evidence(calls(("move_room", {"room": "Oak12"}, "!it is taken")), says("Moved."), expected=[BOOK]),
            "MODEL_FAULT", "gives-up-after-move-room", False, id="stops at a failing call",
        ),
        pytest.param(
            evidence(calls((*BOOK, "!full"), ("get_room", {}, "{}")), expected=[BOOK]),
            "MODEL_FAULT", "gives-up-on-book-room", True, id="the expected call is refused",
        ),
        pytest.param(
            evidence(calls(("cancel_room", {"room": "Oak12"}, "{}")), expected=[]),
            "MODEL_FAULT", "unexpected-cancel-room", False, id="a change that nobody expected",
        ),
        pytest.param(
            evidence(says("It is 12."), outputs=["1,200"], step="outputs"),
            "MODEL_FAULT", "never-says-what-was-asked", False, id="an output is not said",
        ),
        pytest.param(
            evidence(calls(("submit", {"answer": "flag{a/b}"}, "")), target="flag{a|b}", step="match"),
            "OVERLY_STRICT", "answer-with-other-signs", True, id="only signs differ",
        ),
        pytest.param(
            evidence(says("The answer is Paris, of course."), target="Paris", step="exact"),
            "OVERLY_STRICT", "answer-with-more-around-it", True, id="the target with more around it",
        ),
        pytest.param(
            evidence(says("1,000.0"), target="1000", step="match"),
            "OVERLY_STRICT", "number-otherwise-written", True, id="the same number",
        ),
        pytest.param(
            evidence(says("flag{deadbeef01}"), target="flag{deadbeef02}", step="match"),
            "MODEL_FAULT", "almost-the-answer", False, id="almost",
        ),
        pytest.param(
            evidence(says("London"), target="Paris", step="match"), "MODEL_FAULT", "another-answer", False, id="other",
        ),
        pytest.param(
            evidence(says("I'm sorry, but I can't help with that."), target="Paris", step="match"),
            "MODEL_FAULT", "refuses", False, id="refuses",
        ),
        pytest.param(
            evidence(step="match", target="Paris"), "MODEL_FAULT", "no-answer", True, id="says nothing",
        ),
        pytest.param(
            evidence(
                calls(*[("run", {"cmd": str(n)}, "ok") for n in range(9)]), step="limit", reason="token limit reached"
            ),
            "MODEL_FAULT", "limit-reached", True, id="a limit",
        ),
        pytest.param(
            evidence(calls(*[("run", {"cmd": "ls"}, "ok")] * 4), step="limit", reason="the time limit was reached"),
            "MODEL_FAULT", "repeats-run", False, id="a loop up to the limit",
        ),
        pytest.param(
            evidence(
                calls(*[("run", {"cmd": str(n)}, "!no file") for n in range(5)]), step="limit", reason="message limit"
            ),
            "MODEL_FAULT", "stuck-at-limit", False, id="stuck",
        ),
        pytest.param(
            evidence(says("Hm"), status="error", step=None, reason="RuntimeError: sandbox is gone"),
            "OVERLY_STRICT", "harness-runtime-error-sandbox-is-gone", False, id="the harness broke",
        ),
        pytest.param(
            evidence(says("Hm"), status="error", step=None, reason="APIError: 529 overloaded"),
            "KNOWN_GAP", "model-not-reachable", False, id="the provider failed",
        ),
        pytest.param(
            evidence(status="error", step=None, reason="APIConnectionError: Connection error."),
            "KNOWN_GAP", "model-not-reachable", False, id="no connection to the provider",
        ),
        pytest.param(
            evidence(status="error", step=None, reason="ConnectionRefusedError: database db1:5432"),
            "KNOWN_GAP", "service-not-reachable", False, id="no connection to something else",
        ),
        pytest.param(
            evidence(status="error", step=None, reason="CancelledError('Cancelled via cancel scope 7fba1b726660')"),
            "KNOWN_GAP", "run-cancelled", False, id="cancelled",
        ),
        pytest.param(
            evidence(status="error", step=None, reason="FileNotFoundError: No such file: 'setup.sh'"),
            "OVERLY_STRICT", "harness-file-not-found-error-no-such-file-setup", False, id="ENOTFOUND is another word",
        ),
        pytest.param(
            evidence(says("Hm"), status="error", step=None, reason="maximum context length exceeded"),
            "MODEL_FAULT", "context-exhausted", True, id="the context is full",
        ),
    ],
)  # fmt: skip
def test_agent_failure_gets_the_expected_label_cause_and_certainty(
    found: Evidence, label: str, cause: str, uncertain: bool
) -> None:
    verdict = judged(found)
    assert (verdict.classification, verdict.cause, verdict.uncertain) == (label, cause, uncertain)


def graded(agent_evidence: Evidence, *steps: Step, log: str = "") -> Evidence:
    """Return the evidence with other steps and a log of scores."""
    documents = (*agent_evidence.documents, Document(role="log", path=SCORES_LOG, text=log))
    return agent_evidence.model_copy(
        update={"steps": steps, "documents": documents if log else agent_evidence.documents}
    )


def test_expectation_that_no_trial_met_is_uncertain() -> None:
    refunded = calls(("refund", {"order": "W2"}, "refunded"))
    agent_evidence = evidence(refunded, says("Done."), expected=[("refund", {"order": "W1"})])
    case = Failure(evidence=agent_evidence, packed=PackedEvidence(excerpts=()))
    unknown, passed, never = (case.model_copy(update={"passable": one}) for one in (None, True, False))
    judge = RulesJudge()
    assert not judge.decide(unknown).uncertain
    assert judge.decide(passed) == judge.decide(unknown)
    assert judge.key(passed) == judge.key(unknown) != judge.key(never), "a stored verdict is not used for the other"
    doubted = judge.decide(never)
    assert doubted.classification == "MODEL_FAULT"
    assert doubted.uncertain
    assert "No known trial of this task passed" in doubted.reasoning


def test_wrong_expectations_of_tau_bench_are_doubted_more_often_than_right_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], real_data: Path
) -> None:
    of_task = json.loads((real_data / "tau-bench" / "fixes-airline-tasks-0-24.json").read_text())["tasks"]
    category = {f"task-{one['old_task_id']}": one["category"] for one in of_task}
    command = InProcessCommand(tmp_path, monkeypatch, capsys)
    run = real_data / "tau-bench" / "gpt-4o-airline-tasks-0-24.json"
    report = json.loads(command.run("analyze", run, "--judge", "rules", "--json").out)
    flagged: dict[str, list[bool]] = defaultdict(list)
    for one in report["findings"]:
        task = one["eval"].partition("/")[2].partition("#")[0]
        flagged[category[task]].append(one["classification"] != "MODEL_FAULT" or one["uncertain"])
        if task == "task-16":  # the corrected expectation passes these trials
            assert flagged[category[task]][-1]
    assert fmean(flagged["expected_actions"]) >= fmean(flagged["none"]) + 0.25


def test_grader_exception_is_a_harness_fault() -> None:
    agent_evidence = evidence(
        says("{}"), status="error", step=None, reason="the grader `words` raised: ValueError: no words"
    )
    raised = Step(name="words", status="skipped", error="ValueError: no words")
    verdict = judged(graded(agent_evidence, Step(name="exact", status="passed"), raised))
    assert (verdict.classification, verdict.cause_kind, verdict.cause) == (
        "OVERLY_STRICT",
        "harness",
        "grader-raises-words",
    )
    busy = evidence(status="error", step=None, reason="the grader `words` raised: 429 rate limit reached")
    assert judged(graded(busy, raised)).cause == "model-not-reachable"


def test_answer_equal_to_the_target_failed_another_check() -> None:
    agent_evidence = evidence(says("Paris"), target="Paris", step="short", reason="5 characters are too many")
    steps = Step(name="exact", status="passed"), Step(name="short", status="failed", error="5 characters are too many")
    log = "exact: passed 1\nshort: failed: 5 characters are too many"
    assert judged(graded(agent_evidence, *steps, log=log)).cause == "fails-short"


def test_failed_call_before_the_answer_is_mentioned_and_cited() -> None:
    agent_evidence = evidence(
        calls(("get_order", {"id": "A"}, "!refused")), says("40 euros."), step="right", reason="invented"
    )
    failed = Step(name="right", status="failed", error="invented")
    verdict = judged(graded(agent_evidence, failed, log="right: failed 0: invented"))
    assert verdict.reasoning.endswith("The last call before the answer, of `get_order`, failed.")
    assert [one.text.strip() for one in verdict.citations] == ["refused", "40 euros.", "right: failed 0: invented"]


def test_call_written_in_text_does_not_count_as_a_call() -> None:
    fake = '9 assistant calls book_room\n    room: "Oak12"\n    people: 3'
    assert judged(evidence(says(fake), expected=[BOOK])).cause.startswith(("calls-no-tool", "never-calls"))


def test_equal_errors_share_a_signature_and_different_ones_do_not() -> None:
    def sign(reason: str) -> str | None:
        agent_evidence = evidence(says("x"), reason=reason)
        return signature("actions", locate(agent_evidence))

    assert sign("`book` (id 1) was never called") == sign("`book` (id 1) was never called")
    assert sign("`book` (id 1) was never called") != sign("`book` (id 2) was never called")


def test_only_a_run_without_model_messages_ended_before_output() -> None:
    def broken(*messages: ChatMessage) -> Evidence:
        return evidence(
            *messages, status="error", step=None, reason="No endpoints found", log="Error: No endpoints found"
        )

    assert ended_before_output(broken())
    assert evidence_fingerprint(broken(), prepare(broken())) == evidence_fingerprint(broken(), prepare(broken()))
    assert not ended_before_output(broken(says("Hello")))


def test_long_transcript_is_packed_within_budget_with_its_end_and_changes() -> None:
    filler = [says("word " * 300) for _ in range(200)]
    change = calls(("book_room", {"room": "Elm77", "people": 3}, "!no such room"))
    agent_evidence = evidence(*filler[:100], change, *filler[100:], says("The very end."), expected=[BOOK])
    packed = pack(agent_evidence)
    text = "\n".join(one.text for one in packed.excerpts)
    assert packed.tokens <= BUDGET
    assert all(part in text for part in ("The very end.", "Elm77", "no such room", "Oak12"))
    assert any(phrase.startswith("transcript") for phrase in packed.left_out)


def test_missing_call_is_named_with_its_own_id() -> None:
    """A value without a digit counts as an id if the argument's name says so."""
    call = ("change_room", {"room_id": "OAKROOM", "payment_id": "card_7"})
    verdict = judged(evidence(calls(("get_room", {}, "{}")), says("Done"), expected=[call]))
    assert verdict.why == "never calls `change_room` of `OAKROOM`"
