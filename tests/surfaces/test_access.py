"""Access to Convex: a refused key or login exits with 77, prints one message and writes no report."""

import json
from pathlib import Path

import pytest

from support.command import Workspace
from support.convex_answers import BAD_ADMIN_KEY, READ_ONLY, by_npx
from support.convex_server import EVAL_IDS, KEY, RUN_ID, Deployment, debug, success, summary
from support.npx_program import Npx, NpxOutput, package

STALE = (
    "✖ Error fetching GET  http://127.0.0.1:3999/api/deployment/happy-animal-123/team_and_project 401 Unauthorized: "
    "AccessTokenInvalid: Access Token could not be decoded\nAuthenticate with `npx convex dev`\n"
)


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npx:
    return Npx(tmp_path / "npx", monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return package(tmp_path / "evalScores")


def test_http_key_without_action_permission_exits_77(workspace: Workspace, deployment: Deployment) -> None:
    deployment.answer = lambda path, args: success(summary()) if path == "/api/query" else READ_ONLY
    for command in (("analyze", RUN_ID, "--judge", "rules"), ("fetch", RUN_ID, "-o", "kept")):
        ended = workspace.run(*command, "--deployment", deployment.url, code=77, CONVEX_DEPLOY_KEY=KEY)
        assert ended.err.count("You do not have permission") == 1
        assert "use a deploy key with both permissions" in ended.err
    assert workspace.reports == []
    assert not (workspace.folder / "kept" / "failed_evals.json").exists()


def test_npx_key_without_action_permission_exits_77(workspace: Workspace, npx: Npx, folder: Path) -> None:
    npx.answer({RUN_ID: NpxOutput(out=json.dumps(summary()))}, NpxOutput(1, "", by_npx(READ_ONLY)))
    options = ("--via", "npx", "--convex-dir", folder)
    ended = workspace.run("analyze", RUN_ID, "--judge", "rules", *options, code=77)
    assert ended.err.count("You do not have permission") == 1
    assert "use a deploy key with both permissions" in ended.err
    assert workspace.reports == []


def test_expired_npx_login_exits_77_and_suggests_a_new_login(workspace: Workspace, npx: Npx, folder: Path) -> None:
    npx.answer({}, NpxOutput(1, "", STALE))
    ended = workspace.run("analyze", RUN_ID, "--judge", "rules", "--via", "npx", "--convex-dir", folder, code=77)
    assert "AccessTokenInvalid" in ended.err
    assert "run `npx convex login` in that folder" in ended.err


def test_wrong_key_is_passed_to_npx_by_environment_and_never_printed(
    workspace: Workspace, npx: Npx, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    npx.answer({}, NpxOutput(1, "", by_npx(BAD_ADMIN_KEY)))
    options = ("--via", "npx", "--convex-dir", folder, "--key-file", tmp_path / "key")
    ended = workspace.run("analyze", RUN_ID, "--judge", "rules", *options, code=77)
    assert "BadAdminKey: The provided admin key was invalid" in ended.err
    ((_, arguments, environment),) = npx.calls
    assert environment["CONVEX_DEPLOY_KEY"] == KEY
    assert KEY not in arguments
    assert KEY not in ended.err


def test_npx_fetches_a_complete_run(workspace: Workspace, npx: Npx, folder: Path) -> None:
    answers = {eval_id: NpxOutput(out=json.dumps(debug(eval_id))) for eval_id in EVAL_IDS}
    npx.answer({RUN_ID: NpxOutput(out="npm warn old\n" + json.dumps(summary(), indent=2)), **answers})
    workspace.run("analyze", RUN_ID, "--judge", "rules", "--via", "npx", "--convex-dir", folder)
    assert RUN_ID in workspace.report.read_text()


@pytest.mark.parametrize(
    ("listed", "options", "message"),
    [
        pytest.param(False, (), "does not list `convex`", id="not listed"),
        pytest.param(
            True, ("--deployment", "http://127.0.0.1:9"), "--deployment works only over HTTP", id="deployment"
        ),
    ],
)
def test_unsupported_npx_settings_are_refused_before_npx_starts(
    listed: bool, options: tuple[str, ...], message: str, workspace: Workspace, npx: Npx, tmp_path: Path
) -> None:
    folder = package(tmp_path / "other", listed=listed)
    ended = workspace.run(
        "analyze", RUN_ID, "--judge", "rules", "--via", "npx", "--convex-dir", folder, *options, code=64
    )
    assert message in ended.err
    assert npx.calls == []


def test_unknown_run_through_npx_exits_66(workspace: Workspace, npx: Npx, folder: Path) -> None:
    ended = workspace.run("analyze", RUN_ID, "--judge", "rules", "--via", "npx", "--convex-dir", folder, code=66)
    assert f"has no run {RUN_ID}" in ended.err
