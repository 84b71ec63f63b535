"""Import of HELM runs: choices by letter and by likelihood, fractional metrics, failed requests, and perturbations."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalscribe.judging.rules.engine import RulesJudge
from evalscribe.model.evidence import PackedEvidence
from evalscribe.model.finding import Failure
from evalscribe.model.record import Record, evidence_of
from evalscribe.model.run import Run
from evalscribe.sources.address import RunOverrides
from evalscribe.sources.formats import open_records, run_files


def opened(path: Path, **overrides: Any) -> tuple[Run, list[Record], dict[str, int]]:
    records = open_records(path, RunOverrides(**overrides))
    entries = list(records.read())
    (run,) = (one for one in entries if isinstance(one, Run))
    return run, [one for one in entries if isinstance(one, Record)], dict(records.left_out)


def cause(record: Record) -> str | None:
    return RulesJudge().decide(Failure(evidence=evidence_of(record), packed=PackedEvidence(excerpts=()))).cause


def state(id: str, answer: str, *, right: int = 1, **more: Any) -> dict[str, Any]:
    texts = ["one", "two"]
    references = [{"output": {"text": text}, "tags": ["correct"] if n == right else []} for n, text in enumerate(texts)]
    return {
        "instance": {"input": {"text": "Which?"}, "references": references, "split": "test", "id": id},
        "train_trial_index": 0,
        "request": {"prompt": "Which?\nAnswer:", "max_tokens": 100},
        "result": {"success": True, "completions": [{"text": answer, "logprob": -1.0}], "request_datetime": 1762354922},
        **more,
    }


def write(
    folder: Path, states: list[dict[str, Any]], metrics: dict[str, dict[str, float]], method: str = "generation"
) -> Path:
    spec = {
        "name": "bench:subject=x,model=org_m",
        "scenario_spec": {"class_name": "a.B", "args": {"subject": "x"}},
        "adapter_spec": {"method": method, "model": "org/m"},
        "metric_specs": [{"args": {"names": ["exact_match", "f1_score"]}}],
    }
    stats = [
        {
            "instance_id": id,
            "train_trial_index": 0,
            "stats": [
                {"name": {"name": name, "split": "test"}, "count": 1, "mean": mean} for name, mean in own.items()
            ],
        }
        for id, own in metrics.items()
    ]
    (folder / "run_spec.json").write_text(json.dumps(spec))
    (folder / "scenario_state.json").write_text(json.dumps({"adapter_spec": {}, "request_states": states}))
    (folder / "per_instance_stats.json").write_text(json.dumps(stats))
    return folder


def test_real_runs_have_the_mean_scores_of_helm(real_data: Path) -> None:
    folders = run_files(real_data / "formats" / "helm")
    runs = {path.name.partition("-")[0]: path for path in folders if path.is_dir()}
    for name, size in {"mmlu": 10, "narrative_qa": 5}.items():
        run, records, left_out = opened(runs[name])
        assert (run.provider, run.model, len(records)) == ("openai", "gpt2", size)
        assert not left_out
        means = {
            one["name"]["name"]: one.get("mean")
            for one in json.loads((runs[name] / "stats.json").read_text())
            if one["name"].get("split") == "test" and "perturbation" not in one["name"]
        }
        own = [one for one in records if one.metadata["split"] == "test"]
        for metric in own[0].metadata["scores"]:  # type: ignore[union-attr]
            rate = sum(one.metadata["scores"][metric] for one in own) / len(own)  # type: ignore
            assert rate == pytest.approx(means[str(metric)])
    run, records, _ = opened(runs["mmlu"])
    assert run.experiment == "mmlu:subject=philosophy,method=multiple_choice_joint"
    assert Counter(one.eval.status for one in records) == {"failed": 9, "passed": 1}
    assert records[0].eval.path == "mmlu philosophy/id147"
    assert records[0].eval.reason == "chose 'meaning in an afterlife', the target is 'internalmeaning'"
    assert {cause(one) for one in records if one.eval.status == "failed"} == {"another-choice"}


def test_request_result_decides_status_and_reason(tmp_path: Path) -> None:
    failed = state("4", "", result={"success": False, "error": "429 Too Many Requests", "completions": []})
    states = [state("1", "two"), state("2", "one"), state("3", " "), failed, state("5", "two")]
    metrics = {
        "1": {"exact_match": 1.0, "f1_score": 1.0},
        "2": {"exact_match": 0.0, "f1_score": 0.4},
        "3": {"exact_match": 0.0},
    }
    run, records, _ = opened(write(tmp_path, states, metrics))
    assert [(one.eval.status, one.eval.reason) for one in records] == [
        ("passed", None),
        ("failed", "answered 'one', the target is 'two'"),
        ("failed", "the answer is empty"),
        ("error", "429 Too Many Requests"),
        ("incomplete", "no metric was measured"),
    ]
    assert records[1].metadata["scores"] == {"exact_match": 0.0, "f1_score": 0.4}
    assert cause(records[3]) == "model-not-reachable"
    assert (run.experiment, records[0].eval.category) == ("bench:subject=x", "bench x")


def test_choice_letters_are_mapped_to_their_texts(tmp_path: Path) -> None:
    mapping = {"A": "one", "B": "two"}
    states = [state("1", " A", output_mapping=mapping), state("2", " I", output_mapping=mapping)]
    _, records, _ = opened(write(tmp_path, states, {"1": {"exact_match": 0.0}, "2": {"exact_match": 0.0}}))
    assert [one.eval.reason for one in records] == [
        "chose 'one', the target is 'two'",
        "no answer was extracted: 'I' is none of the choices",
    ]
    assert [one.text for one in records[0].documents if one.role == "expected"] == ["B"]
    assert [cause(one) for one in records] == ["another-choice", "answer-in-another-form"]


def test_requests_for_each_choice_are_merged_into_one_eval(tmp_path: Path) -> None:
    states = [
        state("1", "one", reference_index=0),
        state(
            "1", "two", reference_index=1, result={"success": True, "completions": [{"text": "two", "logprob": -7.5}]}
        ),
    ]
    path = write(tmp_path, states, {"1": {"exact_match": 0.0}}, method="multiple_choice_separate_original")
    _, (record,), _ = opened(path)
    assert record.eval.reason == "chose 'one', the target is 'two'"
    assert [one.text for one in record.documents if one.path == "choices"] == ["-1 one  <- chosen\n-7.5 two  <- target"]


def test_perturbed_instances_are_separate_evals(tmp_path: Path) -> None:
    perturbed = state("1", "one")
    perturbed["instance"]["perturbation"] = {"name": "misspelling"}
    path = write(tmp_path, [state("1", "two"), perturbed], {"1": {"exact_match": 1.0}})
    stats = json.loads((path / "per_instance_stats.json").read_text())
    other = {"name": {"name": "exact_match"}, "count": 1, "mean": 0.0}
    stats.append(
        {"instance_id": "1", "train_trial_index": 0, "perturbation": {"name": "misspelling"}, "stats": [other]}
    )
    (path / "per_instance_stats.json").write_text(json.dumps(stats))
    _, records, _ = opened(path)
    assert [(one.eval.path, one.eval.status) for one in records] == [
        ("bench x/1", "passed"),
        ("bench x/1 misspelling", "failed"),
    ]


def test_run_without_scores_has_incomplete_evals(tmp_path: Path) -> None:
    path = write(tmp_path, [state("1", "two")], {})
    (path / "per_instance_stats.json").unlink()
    run, (record,), left_out = opened(path / "scenario_state.json")
    assert (record.eval.status, run.model) == ("incomplete", "m")
    assert len(left_out) == 1
