"""Errors for wrong keys, ids and functions, which are the same over HTTP and `npx convex run`."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from evalscribe.errors import AccessError, EvalscribeError, NotFoundError, UnavailableError, UsageError
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.sources.address import Links
from evalscribe.sources.convex import UNKNOWN_RUN, ConvexRetryPolicy, open_convex
from evalscribe.sources.convex_payload import PayloadSource
from evalscribe.sources.npx import open_npx
from support.convex_answers import (
    BAD_ADMIN_KEY,
    BAD_DEPLOY_KEY,
    BAD_HEADER,
    BARE_KEY,
    FOREIGN,
    MALFORMED,
    NO_FUNCTION,
    NO_FUNCTION_BY_NPX,
    NOTICES,
    READ_ONLY,
    by_npx,
)
from support.convex_server import EVAL_IDS, KEY, RUN_ID, Answer, Deployment, debug, failure, refusal, success, summary
from support.npx_program import Npx, NpxOutput, package

QUICK = ConvexRetryPolicy(attempts=2, first_pause=0.01, longest_pause=0.1, connect=5, read=20, total=30)
FOREIGN_ID = "jh705pbcj6xg7g3mc7xg61js9mw0zzga"
WITHHELD = failure("")


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npx:
    return Npx(tmp_path / "npx", monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return package(tmp_path / "evalScores")


def over_http(deployment: Deployment, run_id: str = RUN_ID, key: str | None = KEY) -> PayloadSource:
    return open_convex(deployment.url, SecretStr(key) if key else None, run_id, Links(), QUICK)


async def error_of(source: PayloadSource) -> EvalscribeError:
    with pytest.raises(EvalscribeError) as caught:
        await first_evidence(source)
    assert len(str(caught.value).splitlines()) <= 2
    assert "dGVzdGtleQ" not in str(caught.value)
    return caught.value


async def first_evidence(source: PayloadSource) -> Evidence | UnreadableEvidence:
    try:
        run = await source.run()
        return await source.evidence(run.failures[0])
    finally:
        await source.close()


def printed(value: object) -> NpxOutput:
    return NpxOutput(out=json.dumps(value, indent=2) + "\n", err=NOTICES[1])


def failing(reason: str) -> NpxOutput:
    return NpxOutput(1, "", NOTICES[0] + reason + NOTICES[1])


CASES = [
    pytest.param(READ_ONLY, AccessError, "the key has permission to run queries but not actions", id="read-only key"),
    pytest.param(BAD_ADMIN_KEY, AccessError, "set CONVEX_DEPLOY_KEY to a deploy key of this deployment", id="bad key"),
    pytest.param(BAD_DEPLOY_KEY, AccessError, "set CONVEX_DEPLOY_KEY to a deploy key", id="key of another deployment"),
    pytest.param(BAD_HEADER, AccessError, "set CONVEX_DEPLOY_KEY to a deploy key", id="no Convex header"),
    pytest.param(BARE_KEY, AccessError, "set CONVEX_DEPLOY_KEY to a deploy key", id="bare key"),
    pytest.param(failure(MALFORMED), NotFoundError, "copy the run's id from the URL of the run", id="malformed id"),
    pytest.param(
        failure(FOREIGN), NotFoundError, "copy the run's id from the URL of the run", id="id of another table"
    ),
    pytest.param(
        failure(NO_FUNCTION),
        UnavailableError,
        "the function is not deployed, or the key is not an admin key",
        id="none",
    ),
    pytest.param(failure("\nUncaught Error: fetch failed"), UnavailableError, "could not list", id="function throws"),
    pytest.param(refusal(503, "Overloaded", "later"), UnavailableError, "Overloaded: later", id="overloaded"),
    pytest.param(refusal(429, "TooManyConcurrentRequests", "slow"), UnavailableError, "slow", id="too many requests"),
    pytest.param(refusal(500, "InternalServerError", "sorry"), UnavailableError, "sorry", id="internal error"),
    pytest.param(success(None), NotFoundError, "check the id and the deployment", id="no such run"),
]


@pytest.mark.parametrize(("answer", "expected", "advice"), CASES)
async def test_failed_summary_raises_the_same_error_over_http_and_npx(
    answer: Answer, expected: type[EvalscribeError], advice: str, deployment: Deployment, npx: Npx, folder: Path
) -> None:
    deployment.answer = lambda path, args: answer
    npx.answer({}, NpxOutput() if answer == success(None) else failing(by_npx(answer)))
    http, by_tool = await error_of(over_http(deployment)), await error_of(open_npx(folder, RUN_ID, Links()))
    assert type(http) is type(by_tool) is expected
    assert advice in str(http)
    assert advice in str(by_tool)
    wording = re.sub(r"(?:429|500|503) |OperationNotPermitted: ", "", str(http).replace(deployment.url, "WHERE"))
    assert wording == str(by_tool).replace(f"npx convex in {folder}", "WHERE").replace(
        ".env.local in `convex_dir`", "`deployment`"
    )


async def test_unknown_function_over_npx_is_unavailable(npx: Npx, folder: Path) -> None:
    listed = "\n\nAvailable functions:\n• tasks:list\n"
    npx.answer({}, failing(by_npx(failure(NO_FUNCTION_BY_NPX)) + listed))
    error = await error_of(open_npx(folder, RUN_ID, Links()))
    assert type(error) is UnavailableError
    assert "has no function debugQueries:getFailedEvalsForRun" in str(error)


async def test_key_without_action_permission_raises_access_error(
    deployment: Deployment, npx: Npx, folder: Path
) -> None:
    deployment.answer = lambda path, args: success(summary()) if path == "/api/query" else READ_ONLY
    npx.answer({RUN_ID: printed(summary())}, failing(by_npx(READ_ONLY)))
    for source in (over_http(deployment), open_npx(folder, RUN_ID, Links())):
        error = await error_of(source)
        assert type(error) is AccessError
        assert "You do not have permission to perform this operation" in str(error)
        assert '"}' not in str(error)
        assert "the key has permission to run queries but not actions: use a deploy key with both permissions" in str(
            error
        )


LOGIN = (
    "✖ Error fetching GET  http://127.0.0.1:3999/api/deployment/happy-animal-123/team_and_project 401 Unauthorized: "
)


@pytest.mark.parametrize(
    ("reason", "expected", "says"),
    [
        pytest.param(
            f"{LOGIN}AccessTokenInvalid: Access Token could not be decoded\nAuthenticate with `npx convex dev`\n",
            AccessError,
            "AccessTokenInvalid",
            id="stale login",
        ),
        pytest.param(
            f"{LOGIN}MissingAccessToken: An access token is required for this command.\n"
            "Authenticate with `npx convex dev`\n",
            AccessError,
            "MissingAccessToken",
            id="never logged in",
        ),
        pytest.param(
            "✖ No CONVEX_DEPLOYMENT set, run `npx convex dev` to configure a Convex project\n",
            AccessError,
            "npx convex login",
            id="no deployment",
        ),
        pytest.param("✖ TypeError: fetch failed\n", UnavailableError, "check the network", id="no network"),
        pytest.param(
            '✖ Failed to run function "debugQueries:x":\nTypeError: fetch failed\n',
            UnavailableError,
            "check the network",
            id="deployment not reachable",
        ),
        pytest.param(
            "✖ CONVEX_DEPLOYMENT must not be set when CONVEX_SELF_HOSTED_URL and "
            "CONVEX_SELF_HOSTED_ADMIN_KEY are set\n",
            UsageError,
            "CONVEX_DEPLOYMENT must not be set",
            id="two deployments",
        ),
        pytest.param(
            "✖ Please set CONVEX_DEPLOY_KEY to a new key which you can find on your Convex dashboard.\n",
            UsageError,
            "CONVEX_DEPLOY_KEY",
            id="half a key",
        ),
        pytest.param("npm error npx canceled due to missing packages\n", UsageError, "missing packages", id="removed"),
    ],
)
async def test_npx_only_failures_raise_errors_with_advice(
    reason: str, expected: type[EvalscribeError], says: str, npx: Npx, folder: Path
) -> None:
    npx.answer({}, failing(reason))
    error = await error_of(open_npx(folder, RUN_ID, Links()))
    assert type(error) is expected
    assert says in str(error)
    assert "npm notice" not in str(error)
    if expected is AccessError:
        assert "run `npx convex login` in that folder, or set CONVEX_DEPLOY_KEY" in str(error)


async def test_npx_warnings_before_the_result_are_ignored(npx: Npx, folder: Path) -> None:
    warning = "(node:77) Warning: something is deprecated\n[WARN] {not JSON}\nnpm warn old lockfile\n"
    npx.answer({RUN_ID: NpxOutput(out=warning + json.dumps(summary(), indent=2)), EVAL_IDS[0]: printed(debug())})
    source = open_npx(folder, RUN_ID, Links())
    run = await source.run()
    assert isinstance(await source.evidence(run.failures[0]), Evidence)
    npx.answer({}, NpxOutput(out=f"{warning}null\n"))
    assert isinstance(await error_of(open_npx(folder, RUN_ID, Links())), NotFoundError)


@pytest.mark.parametrize(
    ("settings", "files", "options"),
    [
        pytest.param({}, {}, ["--prod"], id="logged in"),
        pytest.param({"CONVEX_DEPLOYMENT": "dev:happy-animal-123"}, {}, ["--prod"], id="project"),
        pytest.param({"CONVEX_DEPLOY_KEY": KEY}, {}, [], id="a key names its deployment"),
        pytest.param({"CONVEX_DEPLOY_KEY": "project:team:name|abc"}, {}, ["--prod"], id="a project's key does not"),
        pytest.param({"CONVEX_DEPLOY_KEY": "<ignore_deploy_key>"}, {}, ["--prod"], id="ignored key"),
        pytest.param({"CONVEX_SELF_HOSTED_URL": "http://127.0.0.1:3210"}, {}, [], id="self-hosted"),
        pytest.param({}, {".env.local": "CONVEX_SELF_HOSTED_URL=http://127.0.0.1:3210\n"}, [], id="by .env.local"),
        pytest.param({}, {".env": "CONVEX_SELF_HOSTED_URL='http://127.0.0.1:3210'\n"}, [], id="by .env"),
        pytest.param(
            {"CONVEX_SELF_HOSTED_URL": ""},
            {".env.local": "CONVEX_SELF_HOSTED_URL=http://127.0.0.1:3210\n"},
            ["--prod"],
            id="an empty variable hides the file's",
        ),
    ],
)
async def test_npx_uses_prod_unless_key_or_self_hosted_url_selects_a_deployment(
    settings: dict[str, str],
    files: dict[str, str],
    options: list[str],
    npx: Npx,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for name, text in files.items():
        (folder / name).write_text(text)
    npx.answer({RUN_ID: printed(summary())})
    await open_npx(folder, RUN_ID, Links()).run()
    ((_, arguments, _),) = npx.calls
    assert arguments[: len(options) + 3] == ["--no-install", "convex", "run", *options]
    assert arguments[len(options) + 3] == "debugQueries:getFailedEvalsForRun"


async def test_key_is_passed_only_in_the_environment_of_npx(
    npx: Npx, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVEX_DEPLOY_KEY", "prod:other|c2Vjb25k")
    before = dict(os.environ)
    npx.answer({RUN_ID: printed(summary())})
    await open_npx(folder, RUN_ID, Links(), settings={"CONVEX_DEPLOY_KEY": KEY}).run()
    ((_, arguments, named),) = npx.calls
    assert named == {"CONVEX_DEPLOY_KEY": KEY, "CI": "1"}
    assert KEY not in " ".join(arguments), "other users can read a command line"
    assert dict(os.environ) == before


async def test_env_file_option_replaces_the_prod_option(npx: Npx, folder: Path, tmp_path: Path) -> None:
    named = tmp_path / "other.env"
    named.write_text("CONVEX_SELF_HOSTED_URL=http://127.0.0.1:3210\n")
    npx.answer({RUN_ID: printed(summary())})
    await open_npx(folder, RUN_ID, Links(), env_path=named).run()
    ((_, arguments, _),) = npx.calls
    assert arguments[:5] == ["--no-install", "convex", "run", "--env-file", str(named)]
    assert "--prod" not in arguments


def test_missing_key_placeholder_raises_its_message(npx: Npx, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVEX_DEPLOY_KEY", "<missing_deploy_key:ask the operator>")
    with pytest.raises(AccessError, match="ask the operator"):
        open_npx(folder, RUN_ID, Links())


@pytest.mark.parametrize(
    ("listed", "installed", "says"),
    [
        pytest.param(False, True, "does not list `convex`", id="not listed"),
        pytest.param(True, False, "is not installed", id="not installed"),
    ],
)
def test_missing_convex_package_is_refused_before_npx_starts(
    listed: bool, installed: bool, says: str, npx: Npx, tmp_path: Path
) -> None:
    folder = package(tmp_path / "bare", listed=listed, installed=installed)
    with pytest.raises(UsageError, match=says):
        open_npx(folder, RUN_ID, Links())
    assert npx.calls == []


def test_convex_package_in_a_parent_folder_is_accepted(npx: Npx, tmp_path: Path) -> None:
    package(tmp_path)
    open_npx(package(tmp_path / "deep" / "er", installed=False), RUN_ID, Links())


def redacting(known: bool) -> Callable[[str, dict[str, Any]], Answer]:
    """Return the answers of a deployment that withholds error reasons.

    Args:
        known: Whether the table numbers of its ids are those of convex-evals.
    """

    def answer(path: str, args: dict[str, Any]) -> Answer:
        if args.get("runId") == UNKNOWN_RUN and known:
            return success(None)
        return WITHHELD

    return answer


@pytest.mark.parametrize(
    ("run_id", "known", "expected", "says"),
    [
        pytest.param("nope", True, NotFoundError, "the text is not a Convex id", id="malformed"),
        pytest.param("nope", False, NotFoundError, "the text is not a Convex id", id="malformed, elsewhere"),
        pytest.param(RUN_ID[:-1] + "0", True, NotFoundError, "the text is not a Convex id", id="wrong checksum"),
        pytest.param(FOREIGN_ID, True, NotFoundError, "the id does not belong to a run", id="an eval's"),
        pytest.param(FOREIGN_ID, False, UnavailableError, "hides the reason", id="an eval's, elsewhere"),
    ],
)
async def test_redacted_server_error_is_classified_by_run_id(
    run_id: str,
    known: bool,
    expected: type[EvalscribeError],
    says: str,
    deployment: Deployment,
    npx: Npx,
    folder: Path,
) -> None:
    deployment.answer = redacting(known)
    npx.answer({UNKNOWN_RUN: NpxOutput()} if known else {}, failing(by_npx(WITHHELD)))
    for source in (over_http(deployment, run_id), open_npx(folder, run_id, Links())):
        error = await error_of(source)
        assert type(error) is expected
        assert says in str(error)
        assert "Server Error" in str(error), "whole, for the deployment's log"


async def test_redacted_server_error_without_a_key_asks_for_one(deployment: Deployment) -> None:
    deployment.answer = redacting(known=False)
    error = await error_of(over_http(deployment, key=None))
    assert type(error) is AccessError
    assert "no key was sent" in str(error)


CODES = {"no key": 77, "wrong key": 77, "malformed id": 66, "an eval's id": 66, "unknown but": 66, "that may not": 77}


def captured(real_data: Path) -> dict[str, Any]:
    path = real_data / "convex-runs-current" / "odd" / "answers.json"
    if not path.exists():
        pytest.skip("no captured answers")
    answers: dict[str, Any] = json.loads(path.read_text())
    return answers


async def test_captured_http_answers_have_the_expected_exit_codes(deployment: Deployment, real_data: Path) -> None:
    unknown = success(None)
    for case in captured(real_data)["http"]:
        if case["body"] == "(the whole answer)":
            continue
        path, body = case["request"]["url"], json.dumps(case["body"]).encode()
        run_id = case["request"]["body"]["args"].get("runId", RUN_ID)

        def answer(
            called_path: str, args: dict[str, Any], path: str = path, case: Any = case, body: bytes = body
        ) -> Answer:
            if called_path != path:
                return success(summary())
            return unknown if args.get("runId") == UNKNOWN_RUN else (case["status"], {}, body)

        deployment.answer = answer
        error = await error_of(over_http(deployment, run_id, None if case["request"]["key"] is None else KEY))
        expected = next(code for words, code in CODES.items() if words in case["case"])
        assert error.exit_code == expected, case["case"]
        assert "\n" in str(error), "what to do next"


async def test_captured_npx_answers_have_the_expected_exit_codes(npx: Npx, folder: Path, real_data: Path) -> None:
    codes = {"read-only deploy key, one eval": 77, "logged in once": 77, "never logged in": 77, "well-formed id": 66}
    seen = 0
    for case in captured(real_data)["npx"]:
        if case["stdout"] == "(the whole answer)":
            continue
        of_eval = "getEvalDebugInfo" in case["command"]
        output = NpxOutput(case["exit"], case["stdout"], case["stderr"])
        npx.answer({RUN_ID: printed(summary())} if of_eval else {}, output)
        error = await error_of(open_npx(folder, RUN_ID, Links()))
        assert error.exit_code == next(code for words, code in codes.items() if case["case"].startswith(words))
        seen += 1
    assert seen == len(codes)
