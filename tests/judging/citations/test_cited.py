"""Citations of a whole answer: counting them, and resolving each string that may cite."""

from copy import deepcopy

from evalscribe.judging.citations import resolve_output
from evalscribe.judging.rubric_judge import JudgeResultWithCitations, count_citations
from evalscribe.judging.subjects import agent_run_subject
from evalscribe.model.result import CitationCounts, JudgeResult, ResultType
from evalscribe.model.transcript import AgentRun, Transcript, UserMessage

SCHEMA = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["[T0B0]"]},
        "explanation": {"type": "string", "citations": True},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"what": {"type": "string", "citations": True}, "severity": {"type": "integer"}},
            },
        },
    },
}
RUN = AgentRun(id="run", transcripts=(Transcript(messages=(UserMessage(content="hello there"),)),))
OUTPUT = {
    "label": "[T0B0]",
    "explanation": "See [T0B0:<RANGE>hello  there</RANGE>] and [T0B1].",
    "issues": [{"what": "[T9B9:<RANGE>hello there</RANGE>]", "severity": 1}, {"what": "nothing", "severity": 2}],
    "unknown": {"kept": ["[T0B0]"]},
}


def result(**changed: object) -> JudgeResult:
    return JudgeResult.model_validate(
        {
            **{"id": "r", "agent_run_id": "run", "rubric_id": "rub", "rubric_version": 2, "output": OUTPUT},
            **{"result_type": ResultType.DIRECT_RESULT, "judge": "a/b", "confidence": 0.5, **changed},
        }
    )


def test_only_citable_strings_are_counted() -> None:
    assert count_citations(OUTPUT, SCHEMA, agent_run_subject(RUN)) == CitationCounts(
        verified=1, relocated=1, unverified=1
    )


def test_every_citable_string_is_resolved_and_nothing_is_dropped() -> None:
    before = deepcopy(OUTPUT)
    resolved = resolve_output(OUTPUT, SCHEMA, agent_run_subject(RUN))
    assert before == OUTPUT
    assert (resolved["label"], resolved["unknown"]) == (OUTPUT["label"], OUTPUT["unknown"])
    assert resolved["explanation"]["text"] == OUTPUT["explanation"]
    verified, missing = resolved["explanation"]["citations"]
    assert (verified["status"], verified["quote"], verified["target"]["item"]) == ("verified", "hello  there", "T0B0")
    assert (verified["target"]["start_idx"], verified["target"]["end_idx"]) == (0, 11)
    assert (missing["status"], missing["target"]) == ("unverified", None)
    assert [issue["what"]["text"] for issue in resolved["issues"]] == ["[T9B9:<RANGE>hello there</RANGE>]", "nothing"]
    assert resolved["issues"][0]["what"]["citations"][0]["status"] == "relocated"
    assert resolved["issues"][1] == {"what": {"text": "nothing", "citations": []}, "severity": 2}


def test_a_result_with_citations_keeps_every_other_field() -> None:
    known = result()
    cited = JudgeResultWithCitations.from_judge_result(known, SCHEMA, RUN)
    assert isinstance(cited, JudgeResult)
    assert cited.output == resolve_output(OUTPUT, SCHEMA, agent_run_subject(RUN))
    assert cited.model_dump(exclude={"output"}) == known.model_dump(exclude={"output"})
    assert JudgeResultWithCitations.from_judge_result(known, SCHEMA, agent_run_subject(RUN)) == cited


def test_failed_result_has_no_citations_to_resolve() -> None:
    failed = result(output={}, result_type=ResultType.FAILURE, reason="refused")
    cited = JudgeResultWithCitations.from_judge_result(failed, SCHEMA, RUN)
    assert (cited.output, cited.reason, cited.result_type) == ({}, "refused", ResultType.FAILURE)


def test_output_that_does_not_fit_the_schema_is_unchanged() -> None:
    odd = {"explanation": 5, "issues": "none"}
    assert resolve_output(odd, SCHEMA, agent_run_subject(RUN)) == odd
