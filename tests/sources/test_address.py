from pathlib import Path

import pytest

from evalscribe.errors import NotFoundError, UsageError
from evalscribe.sources.address import RunAddress, parse_address

RUN, EVAL = "jn7922j1w29pdxm76bj9ps0enx80mg9e", "jh717s7ab9fze2gkvh1qy8tzs37xj0sv"
HOST = "https://convex-evals.netlify.app"


@pytest.mark.parametrize(
    ("argument", "base", "experiment", "eval_id"),
    [
        (f"{HOST}/experiment/default/run/{RUN}", f"{HOST}/experiment/default", "default", None),
        (f"{HOST}/experiment/default/run/{RUN}/", f"{HOST}/experiment/default", "default", None),
        (
            f"{HOST}/experiment/no_guidelines/run/{RUN}?tab=x#y",
            f"{HOST}/experiment/no_guidelines",
            "no_guidelines",
            None,
        ),
        (f"{HOST}/model/a%2Fb/experiment/default/run/{RUN}", f"{HOST}/model/a%2Fb/experiment/default", "default", None),
        (f"{HOST}/experiment/default/run/{RUN}/006-clients", f"{HOST}/experiment/default", "default", None),
        (
            f"{HOST}/experiment/default/run/{RUN}/006-clients/{EVAL}?tab=steps",
            f"{HOST}/experiment/default",
            "default",
            EVAL,
        ),
        (
            f"{HOST}/experiment/default/run/{RUN}/006-clients/{EVAL}/steps",
            f"{HOST}/experiment/default",
            "default",
            EVAL,
        ),
        (f"{HOST}/experiment/run/run/{RUN}", f"{HOST}/experiment/run", "run", None),
        (f"{HOST}/run/{RUN}", HOST, None, None),
        (f"{HOST}:8443/experiment/default/run/{RUN}", f"{HOST}:8443/experiment/default", "default", None),
        (f"https://user:hunter2@v.example/experiment/x/run/{RUN}", "https://v.example/experiment/x", "x", None),
        (f"HTTPS://V.Example/experiment/x/run/{RUN}", "https://v.example/experiment/x", "x", None),
        (
            f"https://v.example/experiment/a)[b](/run/{RUN}",
            "https://v.example/experiment/a%29%5Bb%5D%28",
            "a)[b](",
            None,
        ),
        (f"v.example/experiment/x/run/{RUN}", "https://v.example/experiment/x", "x", None),
        (f"/experiment/x/run/{RUN}/c/{EVAL}", None, "x", EVAL),
        (f"http://[::1]:3000/experiment/x/run/{RUN}", "http://[::1]:3000/experiment/x", "x", None),
    ],
)
def test_page_url_is_parsed_into_run_experiment_and_eval(
    argument: str, base: str | None, experiment: str | None, eval_id: str | None, tmp_path: Path
) -> None:
    address = parse_address(argument, tmp_path)
    assert address == RunAddress(kind="url", run_id=RUN, eval_id=eval_id, experiment=experiment, base=base)


def test_bare_run_id_is_parsed(tmp_path: Path) -> None:
    assert parse_address(f" {RUN}\n", tmp_path) == RunAddress(kind="id", run_id=RUN)


def test_snapshot_is_addressed_by_its_folder_or_summary_file(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "failed_evals.json").write_text("{}")
    for argument in ("runs/a", str(folder), "runs/a/failed_evals.json"):
        assert parse_address(argument, tmp_path) == RunAddress(kind="snapshot", folder=folder)


@pytest.mark.parametrize(
    "argument",
    [
        "",
        "  ",
        "two words",
        "a\x00b",
        "-x",
        "é",
        f"file:///run/{RUN}",
        f"javascript://x/run/{RUN}",
        f"ftp://v.example/run/{RUN}",
        "https://v.example/experiment/default",
        "https://v.example/experiment/default/run/",
        "https://v.example/experiment/default/run/%2e%2e%2fetc",
        "https://v.example/experiment/default/run/a b",
        f"https:///experiment/default/run/{RUN}",
        f"https://v.example:99999/run/{RUN}",
        f"https://[::1/run/{RUN}",
        f"https://a<b/run/{RUN}",
        f"https://{'a' * 300}.example/run/{RUN}",
        "x" * 5000,
    ],
)
def test_invalid_address_raises_usage_error(argument: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(argument, tmp_path)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("argument", ["no/such/folder", "./none", "..\\none"])
def test_missing_folder_raises_not_found_error(argument: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"^No file or folder"):
        parse_address(argument, tmp_path)


def test_folder_without_a_summary_file_raises_not_found_error(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    with pytest.raises(NotFoundError, match=r"failed_evals\.json"):
        parse_address("reports", tmp_path)


def test_page_url_overrides_the_configured_visualizer(tmp_path: Path) -> None:
    page = parse_address(f"https://v.example/experiment/x/run/{RUN}", tmp_path)
    assert page.links("https://other.example").run(RUN, "y") == f"https://v.example/experiment/x/run/{RUN}"
    bare = parse_address(RUN, tmp_path)
    assert bare.links("https://other.example").run(RUN, "y") == f"https://other.example/experiment/y/run/{RUN}"
    assert bare.links().run(RUN, "y") is None
