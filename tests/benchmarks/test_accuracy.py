"""Test that the published accuracy follows from the data, and that models' verdicts are recorded without evidence."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import accuracy
from benchmarks.accuracy import Case, Scored
from benchmarks.recorded_verdicts import TAU_RETAIL, RecordedVerdict, read_recorded, record, write_recorded
from evalscribe.errors import DataError, NotFoundError
from support.command import InProcessCommand
from support.messages_server import MessagesServer, Script, says, submit, use
from support.real_runs import RECORDED

RUN, RUN_OF_ONE_GROUP = "jn7062ch", "jn70vkj7"
FAILURES, ALIKE = 7, 72
JUDGE = "anthropic/claude-opus-5-5"
REASONING = "The reference returns another value. Nobody asked for it."


@pytest.fixture
def data(real_data: Path, tmp_path: Path) -> Path:
    """A data folder with two of the recorded runs."""
    (tmp_path / "data" / RECORDED).mkdir(parents=True)
    for run in (RUN, RUN_OF_ONE_GROUP):
        (tmp_path / "data" / RECORDED / run).symlink_to(real_data / RECORDED / run)
    return tmp_path / "data"


def analysed(
    script: Script,
    run: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *more: str,
) -> Path:
    """Analyse a run with a model on loopback, and return the workspace."""
    folder.mkdir()
    with MessagesServer(script) as server:
        InProcessCommand(folder, monkeypatch, capsys).run(
            *("analyze", run, "--judge", JUDGE, "--quiet", "--budget", "50", *more),
            ANTHROPIC_API_KEY="sk-ant-test-0000",
            ANTHROPIC_BASE_URL=server.url,
        )
    return folder


def looks_first(call: Any) -> Any:
    """List the documents first, and then submit a verdict."""
    if len(call.body["messages"]) == 1:
        return use(("list_documents", {}))
    return submit(classification="OVERLY_STRICT", cause_kind="grader", reasoning=REASONING)


def verdict(**fields: object) -> RecordedVerdict:
    given = {"name": "before", "dataset": RECORDED, "run": RUN, "eval": "a/b", "prompt": "", "judge": "me"}
    return RecordedVerdict.model_validate({**given, "label": "KNOWN_GAP", **fields})


@pytest.mark.benchmark
def test_the_published_page_is_what_the_data_give(real_data: Path) -> None:
    """If they differ, the differences are printed. `tests/benchmarks/accuracy.py` writes the page again."""
    assert accuracy.main(["--check"], real_data) == 0


def test_recordings_have_usage_and_no_text_and_are_compared(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, run = tmp_path / "recorded.jsonl", data / RECORDED / RUN
    for name, script in (("before", looks_first), ("after", submit(reasoning=REASONING))):
        workspace = analysed(script, run, tmp_path / name, monkeypatch, capsys)
        assert accuracy.main(["record", name, RECORDED, str(workspace), "--file", str(file)], data) == 0
        assert capsys.readouterr().out == f"{name}: {FAILURES} verdicts on {RECORDED}\n"
    assert "reference" not in file.read_text()
    found = {name: [one for one in read_recorded(file) if one.name == name] for name in ("before", "after")}
    for name, label, turns in (("before", "OVERLY_STRICT", 2), ("after", "MODEL_FAULT", 1)):
        assert len(found[name]) == FAILURES
        assert {(one.run, one.judge, one.label, one.turns) for one in found[name]} == {(RUN, JUDGE, label, turns)}
        assert {(one.input_tokens, one.output_tokens) for one in found[name]} == {(1000 * turns, 100 * turns)}
        assert all(one.cost_usd and one.prompt and one.cause == "wrong-result" for one in found[name])
    judges = accuracy.convex_judges(data, RECORDED, read_recorded(file), derivable=None)
    table = accuracy.change_table([(RECORDED, judges, accuracy.is_right)])
    assert table.splitlines()[2].startswith(f"| {RECORDED} | 7 | 0 % [0, 35] | 71 % [36, 92] | +71 [")
    assert "| -1.0 [-1.0, -1.0] | -1,100 [-1,100, -1,100] |" in table
    costs = accuracy.costs_text([(RECORDED, judges)], read_recorded(file))
    assert f"| before | {RECORDED} | 7 | 2.0 [2.0, 2.0] | 2,000 [2,000, 2,000] | 200 [200, 200] | 0.012 [" in costs
    assert f"| before | {RECORDED} | {JUDGE} | `{found['before'][0].prompt}` |" in costs


def test_usage_of_a_shared_verdict_counts_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = analysed(looks_first, data / RECORDED / RUN_OF_ONE_GROUP, tmp_path / "one", monkeypatch, capsys)
    found = record(data, "before", RECORDED, [workspace], "someone else")
    assert (len(found), sum(one.turns for one in found)) == (ALIKE, 2)
    assert {(one.judge, one.cost_usd) for one in found} == {("someone else", None)}, "a price that nobody knows"
    judges = accuracy.convex_judges(data, RECORDED, found, derivable=None)
    assert [one.verdict.turns for one in judges["before"]] == [2], "the failure that is counted has the usage"


def test_a_cascade_is_recorded_with_the_usage_of_all_its_stages(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rules are certain about some failures. The cheap model is never certain about the others."""

    def script(call: Any) -> Any:
        cheap = "haiku" in call.body["model"]
        return submit(tags=[], sure=False) if cheap else submit(reasoning=REASONING)

    run = data / RECORDED / RUN
    workspace = analysed(script, run, tmp_path / "one", monkeypatch, capsys, "--cascade", "--yes")
    found = record(data, "cascade", RECORDED, [workspace], "anthropic/claude-sonnet-5-5")
    by_judge = {one.judge: one.turns for one in found}
    assert len(found) == FAILURES
    assert {name.partition("@")[0]: turns for name, turns in by_judge.items()} == {
        "rules": 0,
        "anthropic/claude-sonnet-5-5": 2,
    }
    assert {one.label for one in found if one.turns} == {"MODEL_FAULT"}


def test_a_missing_verdict_is_recorded_and_counts_as_disagreement(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers_once(call: Any) -> Any:
        return looks_first(call) if "009-returns_validator" in str(call.body["messages"][0]) else says("I am not sure.")

    found = record(
        data, "x", RECORDED, [analysed(answers_once, data / RECORDED / RUN, tmp_path / "x", monkeypatch, capsys)]
    )
    assert [one.label for one in found].count(None) == FAILURES - 1
    assert all(one.judge == JUDGE and one.turns for one in found if one.label is None)
    judges = accuracy.convex_judges(data, RECORDED, found, derivable=None)
    rate = accuracy.rate(judges["x"], accuracy.is_right)
    assert rate is not None
    assert rate.value == 0
    assert accuracy._number(judges["x"]) == "7, 6 without a verdict"


def test_only_analysed_runs_of_known_datasets_are_recorded(data: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no store `\.evalscribe`"):
        record(data, "x", RECORDED, [tmp_path])
    with pytest.raises(NotFoundError, match=r"no dataset 'convex'\. Datasets: convex-runs, "):
        record(data, "x", "convex", [tmp_path])
    (tmp_path / ".evalscribe").mkdir()
    with pytest.raises(NotFoundError, match="no analysis of a run of convex-runs"):
        record(data, "x", RECORDED, [tmp_path])


def test_a_new_recording_replaces_the_same_run_only(tmp_path: Path) -> None:
    file = tmp_path / "data/recorded.jsonl"
    write_recorded([verdict(), verdict(eval="a/c"), verdict(run="other"), verdict(name="after")], file)
    write_recorded([verdict(label=None)], file)
    assert [(one.name, one.run, one.eval, one.label) for one in read_recorded(file)] == [
        ("after", RUN, "a/b", "KNOWN_GAP"),
        ("before", RUN, "a/b", None),
        ("before", "other", "a/b", "KNOWN_GAP"),
    ]
    file.write_text(file.read_text() + '{"name": "x"}\n')
    with pytest.raises(DataError, match="line 4 is not a recorded verdict"):
        read_recorded(file)


def test_recorded_causes_are_names_and_never_sentences() -> None:
    with pytest.raises(ValueError, match="pattern"):
        verdict(cause="returns 1, not 2")


def test_sides_and_messages_of_agent_runs() -> None:
    def scored(number: int, known: str, kind: str, step: int | None) -> Scored:
        case = Case(TAU_RETAIL, f"a/{number}", known, f"a/{number}", step=10)
        return Scored(case, verdict(dataset=TAU_RETAIL, eval=case.eval, cause_kind=kind, step=step))

    judged = [
        scored(0, "user", "user", 10),
        scored(1, "model", "model", 12),
        scored(2, "model", "grader", 15),
        scored(3, "user", "model", None),
    ]
    assert "| x | 4 | 50 % [15, 85] | 50 % [" in accuracy.side_table({"x": judged})
    assert "| 1 of 2: 50 % [9, 91] | 1 of 2: 50 % [9, 91] |" in accuracy.side_table({"x": judged})
    assert "| x | 4 | 3 | 25 % [5, 70] | 50 % [15, 85] | 75 % [30, 95] |" in accuracy.step_table({"x": judged})
    assert "cannot be measured" in accuracy.step_table({"x": judged[3:]})


def test_runs_are_written_as_they_are_analysed(real_data: Path, tmp_path: Path) -> None:
    assert accuracy.main(["runs", str(tmp_path / "runs")], real_data) == 0
    names = {path.name for path in (tmp_path / "runs").iterdir()}
    assert {f"{RECORDED}-{RUN}", "tau-bench.json", "tau-retail.json", "magentic-one.jsonl"} <= names
