"""Import of lm-evaluation-harness results: several filters, choices by likelihood, and unextracted answers."""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError
from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import PackedEvidence
from evalscribe.model.finding import Failure, Verdict
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, run_files

TIME = "2026-01-02T03-04-05.678901"


def opened(path: Path, **overrides: Any) -> tuple[list[Run], dict[str, Record], dict[str, int]]:
    records = open_records(path, RunOverrides(**overrides))
    entries = list(records.read())
    runs = [one for one in entries if isinstance(one, Run)]
    return runs, {one.eval.path: one for one in entries if isinstance(one, Record)}, dict(records.left_out)


def judged(record: Record) -> Verdict:
    return RulesJudge().decide(Failure(evidence=evidence_of(record), packed=PackedEvidence(excerpts=())))


def sample(id: int, answer: str, taken: str, value: object, filter: str = "none", **more: object) -> dict[str, object]:
    return {
        "doc_id": id,
        "doc": {"question": "How many?"},
        "target": "15",
        "arguments": {"gen_args_0": {"arg_0": "How many?", "arg_1": {"until": ["\n"], "max_gen_toks": 50}}},
        "resps": [[answer]],
        "filtered_resps": [taken],
        "filter": filter,
        "metrics": ["exact_match"],
        "doc_hash": f"d{id}",
        "target_hash": "t",
        "exact_match": value,
        **more,
    }


def write(folder: Path, lines: list[dict[str, object]], task: str = "sums") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"samples_{task}_{TIME}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_real_run_has_the_mean_scores_of_the_harness(real_data: Path) -> None:
    folder = real_data / "formats" / "lm_eval" / "two_filters"
    (run,), records, left_out = opened(folder)
    own = json.loads(next(folder.glob("results_*.json")).read_text())["results"]
    assert (run.provider, run.model, run.experiment) == ("example", "table-model", "colours, sums")
    assert run.duration_s == pytest.approx(14.39, abs=0.01)
    assert not left_out
    for task, metrics in own.items():
        evals = [one for one in records.values() if one.eval.category == task]
        assert len(evals) == metrics["sample_len"]
        for name in evals[0].metadata["scores"]:  # type: ignore[union-attr]
            metric, _, filter = str(name).partition(",")
            rate = sum(one.metadata["scores"][name] for one in evals) / len(evals)  # type: ignore
            assert rate == pytest.approx(metrics[f"{metric},{filter or 'none'}"])
    assert Counter(one.eval.status for one in records.values()) == {"passed": 4, "failed": 6}
    verdicts = {path: judged(one) for path, one in records.items() if one.eval.status == "failed"}
    assert {path: (one.classification, one.cause, one.uncertain) for path, one in verdicts.items()} == {
        "colours/2": ("MODEL_FAULT", "another-choice", False),
        "sums/1": ("OVERLY_STRICT", "answer-not-extracted", False),
        "sums/2": ("MODEL_FAULT", "answer-in-another-form", True),
        "sums/3": ("OVERLY_STRICT", "answer-not-extracted", False),
        "sums/4": ("OVERLY_STRICT", "answer-not-extracted", True),
        "sums/5": ("MODEL_FAULT", "empty-answer", True),
    }


def test_task_without_samples_is_listed_as_left_out(real_data: Path) -> None:
    folder = real_data / "formats" / "lm_eval" / "real"
    (run,), records, left_out = opened(folder)
    assert run.provider == "RylanSchaeffer"
    assert Counter(one.eval.status for one in records.values()) == {"failed": 10}
    assert left_out == {"a task without samples: math_rephrased_full": 1}
    assert Counter(judged(one).cause for one in records.values())["repeats-itself"] >= 7
    assert run_files(folder) == (folder,)


def test_samples_file_is_read_with_and_without_its_results_file(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "formats" / "lm_eval" / "two_filters"
    (samples,) = folder.glob("samples_sums_*")
    (run,), with_results, _ = opened(samples)
    assert (run.model, len(with_results)) == ("table-model", 6)
    alone = tmp_path / "org__model" / samples.name
    alone.parent.mkdir()
    shutil.copyfile(samples, alone)
    (run,), without, _ = opened(alone)
    assert (run.provider, run.model, len(without)) == ("org", "model", 6)
    packed = tmp_path / f"{samples.name}.gz"
    packed.write_bytes(gzip.compress(samples.read_bytes()))
    assert len(opened(packed)[1]) == 6


def test_lines_of_several_filters_are_merged_into_one_eval(tmp_path: Path) -> None:
    strict = [sample(n, "It is 15", "[invalid]", 0.0, "strict") for n in range(5)]
    loose = [sample(n, "It is 15", "15", 1.0, "loose") for n in range(5)]
    _, records, left_out = opened(write(tmp_path, [*strict, *loose]))
    assert [one.eval.name for one in records.values()] == ["0", "1", "2", "3", "4"]
    assert {tuple(one.metadata["scores"]) for one in records.values()} == {  # type: ignore[arg-type]
        ("exact_match,strict", "exact_match,loose")
    }
    whole = {path: one.steps for path, one in records.items()}
    _, shuffled, _ = opened(write(tmp_path, [*strict, *reversed(loose)]))
    assert {path: one.steps for path, one in shuffled.items()} == whole
    _, torn, _ = opened(write(tmp_path, [*strict, *loose[:3]]))
    assert [len(one.steps) for one in torn.values()] == [2, 2, 2, 1, 1]
    assert not left_out


@pytest.mark.parametrize(
    ("answer", "taken", "cause"),
    [
        pytest.param("I think that it is many", "[invalid]", "answer-in-another-form", id="other form"),
        pytest.param("There are 15 of them", "[invalid]", "answer-not-extracted", id="target within"),
        pytest.param("  ", "[invalid]", "empty-answer", id="empty"),
        pytest.param("Let me go on with this. " * 20, "[invalid]", "repeats-itself", id="loop"),
        pytest.param(
            "2, 7, 19, " + "first the one, then the other and at last a third, " * 3, "[invalid]", "cut-at-token-limit"
        ),
        pytest.param(
            "Generate Error: Connection refused", "Generate Error: Connection refused", "error-in-place-of-an-answer"
        ),
        pytest.param("0, " * 30, "[invalid]", "answer-in-another-form", id="list of numbers"),
        pytest.param("14", "14", "another-answer", id="wrong"),
    ],
)
def test_cause_of_a_wrong_or_unextracted_answer_is_found(tmp_path: Path, answer: str, taken: str, cause: str) -> None:
    _, records, _ = opened(write(tmp_path, [sample(0, answer, taken, 0.0)]))
    verdict = judged(records["sums/0"])
    assert verdict.cause == cause


def test_status_follows_threshold_and_direction_of_the_metric(tmp_path: Path) -> None:
    lines = [
        sample(0, "a", "a", [1.0, 2.0]),
        sample(1, "a", "a", "NaN"),
        sample(2, "a", "a", True),
        sample(3, "a", "a", 0.4),
    ]
    (run,), records, _ = opened(write(tmp_path, lines))
    assert [one.eval.status for one in records.values()] == ["incomplete", "incomplete", "passed", "failed"]
    assert run.model == "unknown"
    _, lenient, _ = opened(tmp_path, threshold=0.3)
    assert [one.eval.status for one in lenient.values()][-1] == "passed"
    results = {"results": {"sums": {}}, "configs": {}, "versions": {"sums": 2}, "model_name": "org/m"}
    results["higher_is_better"] = {"sums": {"exact_match": False}}
    (tmp_path / f"results_{TIME}.json").write_text(json.dumps(results))
    (run,), lower, _ = opened(tmp_path)
    assert [one.eval.status for one in lower.values()] == ["incomplete", "incomplete", "failed", "failed"]
    assert (run.provider, run.model) == ("org", "m")
    assert lower["sums/2"].metadata["task_version"] == "d2 t version 2"


def test_chat_prompts_and_several_answers_become_transcripts(tmp_path: Path) -> None:
    chat = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}])
    samples = [
        sample(0, "15", "15", 1.0, arguments=[[chat, {"until": []}]]),
        sample(1, "15", "15", 1.0, arguments={"gen_args_0": {"arg_0": [chat]}}, resps=[["15", "16", "17"]]),
    ]
    _, records, _ = opened(write(tmp_path, samples))
    assert [one.role for one in records["sums/0"].transcripts[0].messages] == ["system", "user", "assistant"]
    assert [one.name for one in records["sums/1"].transcripts] == [None, "answer 2", "answer 3"]


def test_runs_in_one_folder_are_separated_by_time(tmp_path: Path) -> None:
    write(tmp_path, [sample(0, "15", "15", 1.0)])
    other = tmp_path / "samples_sums_2026-02-02T03-04-05.678901.jsonl"
    shutil.copyfile(next(tmp_path.glob("samples_*")), other)
    runs, _, _ = opened(tmp_path)
    assert len(runs) == 2


def test_results_without_samples_raise_data_error_with_advice(tmp_path: Path) -> None:
    path = tmp_path / f"results_{TIME}.json"
    path.write_text(json.dumps({"results": {}, "configs": {}, "versions": {}}))
    with pytest.raises(DataError, match="so that it logs samples"):
        opened(path)


def test_unreadable_lines_are_counted_as_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, [sample(0, "15", "15", 1.0)])
    path.write_text(path.read_text() + '{"torn": \n[1]\n{"doc_id": 3}\n')
    _, records, left_out = opened(path)
    assert (len(records), sum(left_out.values())) == (1, 3)
