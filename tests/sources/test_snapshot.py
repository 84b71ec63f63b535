import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalscribe.errors import DataError, NotFoundError, UsageError
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.run import Eval
from evalscribe.sources.address import Links
from evalscribe.sources.snapshot import SnapshotWriter, open_snapshot
from support.convex_server import EVAL_IDS, RUN_ID, debug, summary
from support.machine_speed import cpu_below

SECRET = "sk-ant-api03-" + "aB3dE6gH9j" * 5


def snapshot(folder: Path, ids: list[str] = EVAL_IDS) -> Path:
    (folder / "debug").mkdir(parents=True)
    (folder / "failed_evals.json").write_text(json.dumps(summary(ids)))
    for eval_id in ids:
        (folder / "debug" / f"{eval_id}.json").write_text(json.dumps(debug(eval_id)))
    return folder


async def read(folder: Path, eval_id: str) -> Evidence | UnreadableEvidence:
    return await open_snapshot(folder, Links()).evidence(Eval(id=eval_id, category="c", name="n"))


async def test_snapshot_gives_a_run_and_its_evidence(tmp_path: Path) -> None:
    source = open_snapshot(snapshot(tmp_path / "a"), Links())
    run = await source.run()
    evidence = await source.evidence(run.failures[0])
    await source.close()
    assert run.id == RUN_ID
    assert isinstance(evidence, Evidence)
    assert evidence.eval == run.failures[0]


async def test_corrupt_files_lose_only_their_own_evals(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "a")
    (folder / "debug" / f"{EVAL_IDS[1]}.json").write_bytes(b'{"eval": \xff')
    (folder / "debug" / f"{EVAL_IDS[2]}.json").unlink()
    (folder / "debug" / f"{EVAL_IDS[3]}.json").unlink()
    (folder / "debug" / f"{EVAL_IDS[3]}.json").mkdir()
    source = open_snapshot(folder, Links())
    run = await source.run()
    evidence = [await source.evidence(eval) for eval in run.failures]
    assert [isinstance(one, UnreadableEvidence) for one in evidence] == [False, True, True, True] + [False] * 6


async def test_eval_id_or_link_cannot_read_outside_the_folder(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "a")
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(debug()))
    (folder / "debug" / "link.json").symlink_to(outside)
    for eval_id in ("../../outside", "link", "/etc/passwd", "..", "", "a/b", "x" * 4096, "a\x00b", "a\nb"):
        evidence = await read(folder, eval_id)
        assert isinstance(evidence, UnreadableEvidence), eval_id
    (folder / "debug" / "inside.json").symlink_to(folder / "debug" / f"{EVAL_IDS[0]}.json")
    assert isinstance(await read(folder, "inside"), Evidence)


async def test_debug_folder_linked_outside_is_not_followed(tmp_path: Path) -> None:
    other = snapshot(tmp_path / "other")
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "debug").symlink_to(other / "debug")
    assert isinstance(await read(folder, EVAL_IDS[0]), UnreadableEvidence)


async def test_pipe_in_place_of_a_file_is_unreadable(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "a")
    os.mkfifo(folder / "debug" / "pipe.json")
    assert isinstance(await read(folder, "pipe"), UnreadableEvidence)


async def test_folder_without_a_summary_raises_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"failed_evals\.json"):
        await open_snapshot(tmp_path, Links()).run()


@pytest.mark.parametrize("content", [b"", b"null", b"{", b"[]", b'{"run": {}}', b"\xff\xfe\x00", b"[" * 200_000])
async def test_corrupt_summary_raises_data_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "failed_evals.json").write_bytes(content)
    with pytest.raises(DataError):
        await open_snapshot(tmp_path, Links()).run()


async def test_other_files_in_the_folder_are_ignored(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "a")
    os.mkfifo(folder / "report.md")
    (folder / "gold.json").write_text("{")
    assert (await open_snapshot(folder, Links()).run()).failed == 10


async def test_evidence_is_redacted(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "a")
    payload = debug(
        outputFiles={"a.ts": f'const k = "{SECRET}"', f"{SECRET}.ts": "x"}, evalSourceFiles={"GAPS.txt": SECRET}
    )
    (folder / "debug" / f"{EVAL_IDS[0]}.json").write_text(json.dumps(payload))
    evidence = await read(folder, EVAL_IDS[0])
    assert isinstance(evidence, Evidence)
    assert SECRET not in evidence.model_dump_json()
    assert evidence.model_dump_json().count("[redacted:anthropic-key]") == 3


async def copy(source_folder: Path, target: Path) -> None:
    """Copy a snapshot as `fetch` does."""
    source = open_snapshot(source_folder, Links())
    run = await source.run()
    writer = SnapshotWriter(target, run.id)
    for eval in run.failures:
        writer.put(eval.id, await source.payload(eval))
    writer.finish(await source.summary())


async def test_copied_snapshot_reads_the_same(tmp_path: Path) -> None:
    folder, target = snapshot(tmp_path / "a"), tmp_path / "b"
    (folder / "debug" / f"{EVAL_IDS[1]}.json").write_text("{")
    await copy(folder, target)
    await copy(folder, target)  # a second copy into the same folder
    first, second = open_snapshot(folder, Links()), open_snapshot(target, Links())
    assert await first.run() == await second.run()
    for eval in (await first.run()).failures:
        assert await first.evidence(eval) == await second.evidence(eval)
    assert sorted(path.name for path in target.iterdir()) == ["debug", "failed_evals.json"]
    assert not list(target.rglob(".part-*"))


async def test_written_snapshot_contains_no_secret(tmp_path: Path) -> None:
    folder, target = snapshot(tmp_path / "a"), tmp_path / "b"
    leak = summary(note=SECRET)
    leak["failedEvals"][0]["failureReason"] = f"Authorization: Bearer {SECRET}"
    (folder / "failed_evals.json").write_text(json.dumps(leak))
    (folder / "debug" / f"{EVAL_IDS[0]}.json").write_text(json.dumps(debug(outputFiles={"a": SECRET})))
    await copy(folder, target)
    assert all(SECRET.encode() not in path.read_bytes() for path in target.rglob("*.json"))


def test_folder_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    folder = snapshot(tmp_path / "a")
    before = (folder / "failed_evals.json").read_bytes()
    with pytest.raises(UsageError, match="contains run"):
        SnapshotWriter(folder, "another")
    assert (folder / "failed_evals.json").read_bytes() == before
    SnapshotWriter(folder, RUN_ID)


def test_file_or_unreadable_snapshot_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "failed_evals.json").write_text("{")
    for folder in (tmp_path / "file", tmp_path):
        with pytest.raises(UsageError):
            SnapshotWriter(folder, RUN_ID)


def test_writer_refuses_a_debug_folder_linked_outside(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "debug").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="points outside the folder"):
        SnapshotWriter(tmp_path / "out", RUN_ID)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_eval_id_cannot_leave_the_written_folder(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "a" / "b", RUN_ID)
    for eval_id in ("../../out", "/tmp/out", ""):
        with pytest.raises(DataError):
            writer.put(eval_id, {})
    assert not list(tmp_path.rglob("*out*"))


def test_failed_write_keeps_the_previous_file(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "a", RUN_ID)
    writer.put("x", {"eval": 1})
    unwritable: Any = {"eval": object()}
    with pytest.raises(TypeError):
        writer.put("x", unwritable)
    assert json.loads((tmp_path / "a" / "debug" / "x.json").read_text()) == {"eval": 1}
    assert [path.name for path in (tmp_path / "a" / "debug").iterdir()] == ["x.json"]


@pytest.mark.benchmark
async def test_listing_ten_thousand_evals_takes_under_four_cpu_seconds(tmp_path: Path) -> None:
    ids = [f"jh7{n:029d}" for n in range(10_000)]
    (tmp_path / "failed_evals.json").write_text(json.dumps(summary(ids)))
    with cpu_below(4):
        run = await open_snapshot(tmp_path, Links(visualizer="https://v.example")).run()
    assert len(run.failures) == 10_000
