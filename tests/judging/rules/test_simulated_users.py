"""Rules about simulated users that break their role, and reasons to doubt a fault of the model."""

import json
from pathlib import Path

import pytest

from evalscribe.judging.quotations import verify_citation
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import Document, PackedEvidence
from evalscribe.model.finding import Failure, TrialVerdict, Verdict
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import Eval, Step
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

POLICY = (
    "You help the members of a library.\n"
    "Obtain explicit confirmation from the user before you change anything.\n"
    "Reference books cannot be borrowed by visiting members.\n"
)
TASK = "You are eva_moss_41. Renew the loan LN4410 for another week. If that is not possible, do nothing."
RENEW = ("renew_loan", {"loan": "LN4410", "days": 7})


def user(text: str) -> UserMessage:
    return UserMessage(content=text)


def model(text: str) -> AssistantMessage:
    return AssistantMessage(content=text)


def call(tool: str, arguments: dict[str, object], answer: str = "{}") -> list[ChatMessage]:
    tool_call = TranscriptToolCall(id=tool + answer, function=tool, arguments=arguments)
    if answer.startswith("!"):
        return [
            AssistantMessage(tool_calls=(tool_call,)),
            ToolMessage(tool_call_id=tool_call.id, content="", error=answer[1:]),
        ]
    return [AssistantMessage(tool_calls=(tool_call,)), ToolMessage(tool_call_id=tool_call.id, content=answer)]


def judged(
    *messages: ChatMessage | list[ChatMessage],
    expected: list[tuple[str, dict[str, object]]] | None = None,
    outputs: str | None = None,
    passable: bool | None = True,
    others: tuple[TrialVerdict, ...] = (),
) -> Verdict:
    flat = [one for part in messages for one in (part if isinstance(part, list) else [part])]
    calls = [TranscriptToolCall(function=tool, arguments=arguments) for tool, arguments in expected or []]
    documents = [Document(role="task", path="task", text=TASK)]
    documents.append(Document(role="expected", path="actions", text=render_calls(calls)))
    if outputs:
        documents.append(Document(role="expected", path="outputs", text=outputs))
    record = Record(
        run_id="r",
        eval=Eval(id="e", category="c", name="n", failed_step="actions"),
        steps=(Step(name="actions", status="failed"),),
        documents=tuple(documents),
        transcripts=(Transcript(id="t", messages=(SystemMessage(content=POLICY), *flat)),),
    )
    record_evidence = evidence_of(record)
    case = Failure(evidence=record_evidence, packed=PackedEvidence(excerpts=()), passable=passable, others=others)
    verdict = RulesJudge().decide(case)
    assert {verify_citation(one, record_evidence).status for one in verdict.citations} <= {"verified"}
    return verdict


LOOKED_UP = call("get_member", {"id": "eva_moss_41"}, '{"loans": ["LN4410"]}')
HELLO = user("Hello, I am eva_moss_41.")


def test_user_that_withholds_its_identity_is_at_fault() -> None:
    verdict = judged(
        user("Please renew my loan."),
        model("What is your member ID?"),
        user("I do not have it here."),
        expected=[RENEW],
    )
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("OVERLY_STRICT", "user", True)
    assert (verdict.cause, verdict.message) == ("user-withholds-who-it-is", 4)


def test_user_that_was_never_asked_for_its_identity_is_not_at_fault() -> None:
    verdict = judged(user("Please renew my loan."), model("No, I will not."), user("Bye."), expected=[RENEW])
    assert (verdict.classification, verdict.cause_kind, verdict.uncertain) == ("MODEL_FAULT", "model", False)


def test_user_that_confirms_and_ends_the_conversation_is_at_fault() -> None:
    messages = (HELLO, *LOOKED_UP, model("I can renew LN4410 by 7 days. Do you confirm?"))
    early = judged(*messages, user("Yes, please go ahead. ###STOP###"), expected=[RENEW])
    assert (early.classification, early.cause_kind, early.cause) == ("OVERLY_STRICT", "user", "user-ends-early")
    assert (early.message, early.uncertain) == (6, True)
    ignored = judged(*messages, user("Yes, please go ahead."), model("Done!"), expected=[RENEW])
    assert (ignored.classification, ignored.uncertain) == ("MODEL_FAULT", False)


def test_user_that_invents_an_id_is_at_fault() -> None:
    refused = call("get_loan", {"loan": "LN9999"}, "!Error: no such loan")
    verdict = judged(HELLO, user("It is the loan LN9999."), refused, model("There is none."), expected=[RENEW])
    assert (verdict.cause, verdict.cause_kind, verdict.message) == ("user-invents-an-id", "user", 3)
    known = call("get_loan", {"loan": "LN4410"}, "!Error: no such loan")
    correct_id = judged(HELLO, user("It is the loan LN4410."), known, model("There is none."), expected=[RENEW])
    assert correct_id.cause_kind == "model"


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        pytest.param(
            [HELLO, *LOOKED_UP, model("Shall I renew LN4410? Please confirm."), user("No, don’t change it.")],
            "the user declines the model's proposal",
            id="the user declines, with a typographic apostrophe",
        ),
        pytest.param(
            [HELLO, *LOOKED_UP, model("Which loan do you mean?"), user("###STOP###")],
            "ended the conversation in message 6 instead of answering",
            id="the user leaves a question unanswered",
        ),
        pytest.param(
            [HELLO, *LOOKED_UP, model("I cannot do that: reference books cannot be borrowed by visiting members.")],
            "refuses because its instructions say",
            id="the model repeats its instructions",
        ),
        pytest.param(
            [HELLO, *call(*RENEW, "!Error: loan is locked"), model("It is locked.")],
            "the tool refuses it: the environment may be at fault",
            id="the tool refuses the expected call",
        ),
        pytest.param(
            [HELLO, *call("renew_loan", {"loan": "LN4410"}, "!KeyError: 'days_left'"), model("That fails.")],
            "looks like a failure of the tool itself",
            id="the tool breaks",
        ),
        pytest.param(
            [HELLO, *call("renew_loan", {"loan": "LN4410", "days": 7, "desk": "D"}), model("Done.")],
            "Neither the task nor the conversation contains `Fxx17`",
            id="nobody gave the expected value",
        ),
        pytest.param(
            [HELLO, user("Send it by night mail."), *call("send", {"by": "night mail", "to": "desk"}), model("Sent.")],
            "The user asked for `night mail`, not for the expected value",
            id="the user asked for something else",
        ),
    ],
)  # fmt: skip
def test_doubtful_model_fault_is_uncertain_and_states_the_reason(messages: list[ChatMessage], sentence: str) -> None:
    expected = [RENEW]
    if "Fxx17" in sentence:
        expected = [("renew_loan", {"loan": "LN4410", "days": 7, "desk": "Fxx17"})]
    if "night" in sentence:
        expected = [("send", {"by": "desk pickup", "to": "desk"})]
        messages = [model("We have desk pickup."), *messages]
    verdict = judged(*messages, expected=expected)
    assert verdict.classification == "MODEL_FAULT"
    assert verdict.uncertain
    assert sentence in verdict.reasoning


def test_tool_that_refuses_after_a_change_by_the_model_is_not_blamed() -> None:
    changed = call("return_loan", {"loan": "LN4410"})
    verdict = judged(HELLO, *changed, *call(*RENEW, "!Error: returned"), model("Sorry."), expected=[RENEW])
    assert "environment" not in verdict.reasoning


def test_change_without_the_required_confirmation_is_a_certain_model_fault() -> None:
    changed = call("close_account", {"id": "eva_moss_41"})
    verdict = judged(HELLO, *changed, model("Closed."), expected=[], passable=False)
    assert (verdict.classification, verdict.uncertain) == ("MODEL_FAULT", False)
    assert "Its instructions demand a confirmation" in verdict.reasoning
    agreed = judged(HELLO, model("Close it?"), user("Yes."), *changed, model("Closed."), expected=[], passable=False)
    assert agreed.uncertain


def test_verdict_message_is_the_proposal_that_the_user_confirmed() -> None:
    other = call("renew_loan", {"loan": "LN4410", "days": 9})
    agreed = judged(HELLO, *LOOKED_UP, model("9 more days?"), user("Yes."), *other, expected=[RENEW])
    assert agreed.message == 5
    unasked = judged(HELLO, *LOOKED_UP, *other, expected=[RENEW])
    assert unasked.message == 5
    assert judged(HELLO, *LOOKED_UP, model("Bye."), expected=[RENEW]).message is None


def test_wrong_number_is_located_in_its_message() -> None:
    verdict = judged(
        HELLO, model("The fee is 12.50 from 2024-01-02."), user("Thanks"), expected=[], outputs='["10.20"]'
    )
    assert (verdict.cause, verdict.message) == ("never-says-what-was-asked", 3)
    assert "In message 3 it says `12.50`." in verdict.reasoning


def test_differing_read_only_calls_do_not_hide_a_missing_output() -> None:
    verdict = judged(
        HELLO, *LOOKED_UP, model("You have 3 loans."), expected=[("get_loan", {"loan": "LN4410"})], outputs='["4"]'
    )
    assert verdict.cause == "never-says-what-was-asked"


def test_trial_labelled_differently_from_the_other_trials_is_uncertain() -> None:
    messages = (HELLO, *LOOKED_UP, model("Bye."))
    others = tuple(
        TrialVerdict(trial=n, classification="OVERLY_STRICT", cause="user-ends-early", why="ends") for n in (2, 3)
    )
    assert not judged(*messages, expected=[RENEW]).uncertain
    verdict = judged(*messages, expected=[RENEW], others=others)
    assert verdict.classification == "MODEL_FAULT"
    assert verdict.uncertain
    assert verdict.reasoning.endswith(
        "Only this trial has this label: trials 2, 3 of the task are labelled OVERLY_STRICT."
    )


def test_agentrx_user_faults_are_never_certain_and_most_root_causes_are_located(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], real_data: Path
) -> None:
    """Faults of simulated users are never blamed on the model for certain, and most root causes are located."""
    folder = real_data / "agentrx" / "tau_retail"
    annotated = {str(one["trajectory_id"]): one for one in json.loads((folder / "ground_truth.json").read_text())}
    command = InProcessCommand(tmp_path, monkeypatch, capsys)
    report = json.loads(command.run("analyze", folder / "trajectories.json", "--judge", "rules", "--json").out)
    near = 0
    for one in report["findings"]:
        known = annotated[one["eval"].rpartition("task-")[2]]
        failures = {str(failure["failure_id"]): failure for failure in known["failures"]}
        root = failures.get(str(known["root_cause"]["failure_id"]), known["failures"][0])
        assert one["uncertain"] or one["classification"] != "MODEL_FAULT" or root["failed_agent"] != "User"
        near += one["message"] is not None and abs(one["message"] - root["step_number"]) <= 2
    assert near >= 12
