"""`evalscribe datasets from-reviews`: corrections in merged reports as a dataset, and judges tested on it."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from evalscribe import workspace as opened
from evalscribe.experiments.control import launch_run, plan_run
from evalscribe.experiments.lookup import experiment_named
from evalscribe.experiments.worker import work_on_run
from evalscribe.model.evidence import EvidenceSnapshot
from support import run_snapshots
from support.command import CompletedCommand, InProcessCommand, Workspace
from support.report_clones import Clone, repository_without_remote

FAILURES = 6
SCORER = {
    "name": "exact_match",
    "config": {"output_field": "output.classification", "expected_field": "expected.classification"},
}
CITED = {
    "name": "structured_assertions",
    "config": {"assertions": [{"name": "quotations are there", "expr": "output.citations.unverified == 0"}]},
}


class Reviewed(Workspace):
    """A repository with the report of an analysed run, and helpers that correct, merge and read it."""

    def says(self, n: int, label: str, *more: str) -> None:
        self.run("review", "label", self.report.stem, str(n), label, *more)

    def merge(self, who: str = "Ada") -> str:
        clone = Clone(self.folder)
        clone.git("add", "reports")
        return clone.commit_staged(who)

    def take(self, *more: str, code: int = 0) -> CompletedCommand:
        return self.run("datasets", "from-reviews", "reviewed", *more, code=code)

    def items(self, version: str = "latest") -> dict[str, dict[str, Any]]:
        lines = self.run("datasets", "versions", "export", "reviewed", version).out.splitlines()
        return {item["source"]["eval"]: item for item in map(json.loads, lines)}


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository, to be copied, with a report that nobody has reviewed yet."""
    folder = repository_without_remote(tmp_path_factory.mktemp("analyzed")).folder
    (folder / ".gitignore").write_text(".evalscribe\n")
    (folder / "evalscribe.toml").touch()
    run = run_snapshots.write(folder.parent / "run", FAILURES)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        from evalscribe.cli import run as command

        assert command(["analyze", str(run), "--judge", "rules", "--date", "2026-11-01", "--quiet"]) == 0
    return folder


@pytest.fixture
def reviewed(
    analyzed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Reviewed:
    folder = tmp_path / "work"
    shutil.copytree(analyzed, folder)
    return Reviewed(folder, InProcessCommand(folder, monkeypatch, capsys))


def test_labels_become_items_that_a_later_analysis_does_not_change(reviewed: Reviewed, analyzed: Path) -> None:
    assert "there are no human labels" in reviewed.take(code=66).err
    reviewed.says(1, "KNOWN_GAP", "--kind", "harness", "--note", "we know")
    reviewed.says(2, "MODEL_FAULT", "--note", "so it is")
    commit = reviewed.merge()
    reviewed.says(3, "AMBIGUOUS_TASK", "--note", "not merged")
    taken = reviewed.take("--publish")
    assert "reviewed: 2 labelled failures (KNOWN_GAP 1, MODEL_FAULT 1)" in taken.err
    items = reviewed.items()
    assert len(items) == 2
    gap = next(one for one in items.values() if one["expected_output"]["classification"] == "KNOWN_GAP")
    assert gap["expected_output"] == {"classification": "KNOWN_GAP", "cause_kind": "harness"}
    path = gap["source"]["eval"]
    assert (gap["cluster"], gap["key"]) == (path, f"{run_snapshots.RUN_ID}/{path}")
    assert (gap["source"]["reviewer"], gap["source"]["commit"]) == ("Ada", commit)
    assert gap["source"]["report"].endswith(f"{reviewed.report.name}")
    evidence_snapshot = EvidenceSnapshot.read(gap["input"])
    assert (evidence_snapshot.provider, evidence_snapshot.model, evidence_snapshot.evidence.eval.path) == (
        run_snapshots.PROVIDER,
        run_snapshots.MODEL,
        path,
    )
    assert {document.role for document in evidence_snapshot.evidence.documents} >= {
        "task",
        "output",
        "expected",
        "grader",
    }
    assert evidence_snapshot.written == gap["input"]
    reviewed.run("analyze", analyzed.parent / "run", "--judge", "rules", "--quiet")
    again = reviewed.take("--publish", "--format", "json")
    assert json.loads(again.out)["version"]["id"] == taken.out.strip()
    assert json.loads(again.out)["added"] == {"new": 0, "changed": 0, "same": 2}


def test_withdrawn_and_changed_labels_affect_only_later_versions(reviewed: Reviewed) -> None:
    before = reviewed.report.read_text()
    reviewed.says(1, "KNOWN_GAP", "--note", "we know")
    reviewed.says(2, "KNOWN_GAP", "--note", "this too")
    reviewed.merge()
    reviewed.take("--publish")
    reviewed.report.write_text(before)
    reviewed.says(2, "OVERLY_STRICT", "--note", "not any more")
    reviewed.merge("Eve")
    own = ("--key", "own", "--input", '"x"', "--expected-output", '"KNOWN_GAP"')
    reviewed.run("datasets", "add-example", "reviewed", *own)
    taken = reviewed.take("--publish")
    assert "Removed: 1 item whose failure no longer has a label" in taken.err
    labels = {one["key"]: one["expected_output"] for one in export(reviewed, "2")}
    assert len(labels) == 2
    assert labels.pop("own") == "KNOWN_GAP"
    assert [one["classification"] for one in labels.values()] == ["OVERLY_STRICT"]
    assert [one["expected_output"]["classification"] for one in export(reviewed, "1")] == ["KNOWN_GAP", "KNOWN_GAP"]


def export(reviewed: Reviewed, version: str) -> list[dict[str, Any]]:
    lines = reviewed.run("datasets", "versions", "export", "reviewed", version).out.splitlines()
    return [json.loads(line) for line in lines]


def test_all_option_adds_unreviewed_findings_and_names_their_judge(reviewed: Reviewed) -> None:
    reviewed.says(1, "KNOWN_GAP", "--note", "we know")
    reviewed.merge()
    taken = reviewed.take("--all", "--publish", "--train", "0.5", "--test", "0.5")
    assert "labelled only by a judge: they cannot test that judge" in taken.err
    items = reviewed.items().values()
    assert len(items) > 1
    judged = [one for one in items if "reviewer" not in one["source"]]
    assert len(judged) == len(items) - 1
    assert {one["source"]["judge"] for one in judged} == {"rules@6"}
    assert {one["split"] for one in items} <= {"train", "test"}
    assert "sum to 1" in reviewed.take("--train", "0.5", code=64).err


def test_labels_without_stored_evidence_are_counted_and_import_is_suggested(reviewed: Reviewed) -> None:
    reviewed.says(1, "KNOWN_GAP", "--note", "we know")
    reviewed.merge()
    shutil.rmtree(reviewed.folder / ".evalscribe")
    taken = reviewed.take("--publish", "--format", "json", code=66)
    assert f"1 labelled failure whose evidence is not in the store, of 1 run: {run_snapshots.RUN_ID}" in taken.err
    assert "`evalscribe import FILE`" in taken.err
    document = json.loads(taken.out)
    assert (document["missing"], document["version"]) == ({run_snapshots.RUN_ID: 1}, None)


def test_reviewed_dataset_tests_judges_in_experiments_and_judge_eval(
    reviewed: Reviewed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (1, 2, 3):
        reviewed.says(n, "KNOWN_GAP", "--note", "we know")
    reviewed.merge()
    reviewed.take("--all", "--publish")
    shown = json.loads(reviewed.run("judge-eval", "failure", "reviewed", "--judge", "rules", "--json").out)
    (judge,) = shown["judges"]
    assert judge["judged"] == judge["subjects"] > 3
    scorers = ("--builtin-scorer", json.dumps(SCORER), "--builtin-scorer", json.dumps(CITED))
    target = ("--target-type", "judge", "--judge", "rules")
    config = ("--config", '{"min_balanced_accuracy": 0.5, "min_kappa": 1}')
    reviewed.run("experiments", "create", "--name", "c", "--dataset-id", "reviewed", *target, *scorers, *config)
    shown = json.loads(reviewed.run("experiments", "show", "c", "--format", "json").out)
    assert shown["target"] == {"type": "judge", "judge": "rules", "rubric": "failure@1"}
    assert '"type":"classifier"' in reviewed.run("experiments", "list", "--format", "jsonl").out.replace(" ", "")
    monkeypatch.chdir(reviewed.folder)
    with opened.Workspace(environ={}) as workspace:
        run = launch_run(workspace, plan_run(workspace, experiment_named(workspace, "c"), name="first"))
        asyncio.run(work_on_run(workspace, run.id))
    assert "min_kappa" in reviewed.run("experiments", "runs", "gate", "first", code=2).out
    report = json.loads(reviewed.run("experiments", "runs", "summary", "first", "--format", "json").out)
    labels = report["summary"]["labels"]
    assert (labels["pairs"], labels["judged"]) == (judge["subjects"], judge["subjects"])
    assert report["summary"]["pass_rate"]["passed"] == judge["right"]
    for words in ("balanced accuracy", "KNOWN_GAP: ", "recall"):
        assert words in reviewed.run("experiments", "runs", "summary", "first").out


def test_invalid_judge_options_create_no_experiment(workspace: Workspace) -> None:
    (workspace.folder / "evalscribe.toml").touch()
    workspace.run("datasets", "create", "--name", "d")
    workspace.run("datasets", "add-example", "d", "--input", "x", "--expected-output", "A")
    workspace.run("datasets", "publish", "d")
    scorer = ("--builtin-scorer", "json_valid")
    create = ("experiments", "create", "--name", "c", "--dataset-id", "d", "--target-type", "judge", *scorer)
    for options, message, code in (
        (
            ("--judge", "nobody"),
            "--judge 'nobody' is unknown; use rules, cascade, or PROVIDER/MODEL with a provider of",
            64,
        ),
        (("--judge", "rules", "--prompt-id", "p"), "--prompt-id does not apply to --target-type judge", 64),
        (("--judge", "rules", "--rubric", "nothing"), "nothing", 66),
        ((), "the judge is missing: give --judge, which is rules, cascade or PROVIDER/MODEL", 64),
    ):
        assert message in workspace.run(*create, *options, code=code).err
    assert workspace.run("experiments", "list", "--format", "json").out.strip() == "[]"


def test_experiment_version_keeps_the_cascade_settings_of_its_creation(workspace: Workspace) -> None:
    toml = workspace.folder / "evalscribe.toml"
    toml.write_text('[cascade]\ntag = "local/small"\njudge = "local/large"\n')
    workspace.run("datasets", "create", "--name", "d")
    workspace.run("datasets", "add-example", "d", "--input", "x", "--expected-output", "A")
    workspace.run("datasets", "publish", "d")
    target = ("--target-type", "judge", "--judge", "cascade", "--builtin-scorer", "json_valid")
    workspace.run("experiments", "create", "--name", "c", "--dataset-id", "d", *target)

    def parts(version: str) -> dict[str, object]:
        shown = workspace.run("experiments", "show", "c", "--version", version, "--format", "json").out
        cascade = json.loads(shown)["target"]["cascade"]
        assert isinstance(cascade, dict)
        return cascade

    original = parts("1")
    assert (original["tag"], original["judge"], original["rules"]) == ("local/small", "local/large", True)
    assert "unfair-check@1" in str(original["tags"])
    assert "judge cascade (local/small, then local/large) by failure@1" in workspace.run("experiments", "show", "c").out
    toml.write_text('[cascade]\ntag = "local/other"\njudge = "local/large"\nrules = false\n')
    workspace.run("experiments", "update", "c", "--config", '{"min_kappa": 0.4}')
    assert parts("2") == original, "only what was said is another"
    workspace.run("experiments", "update", "c", "--judge", "cascade")
    assert (parts("3")["tag"], parts("3")["rules"], parts("1")) == ("local/other", False, original)
