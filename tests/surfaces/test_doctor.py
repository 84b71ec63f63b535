"""`doctor`: checks and exit codes."""

import pytest

from support.command import Workspace
from support.convex_answers import BAD_ADMIN_KEY, BARE_KEY, FOREIGN, MALFORMED, NO_FUNCTION, READ_ONLY
from support.convex_server import Answer, Deployment, failure, refusal, success

ACCESS = {"CONVEX_DEPLOY_KEY": "prod:panther-1|c2VjcmV0LWtleQ=="}


def line_about(name: str, out: str) -> str:
    return next(line for line in out.splitlines() if f" {name}: " in line)


def test_doctor_calls_both_convex_functions_once(workspace: Workspace, deployment: Deployment) -> None:
    out = workspace.run("doctor", "--deployment", deployment.url, **ACCESS).out
    assert line_about("Convex", out).endswith(f"Convex: {deployment.url} answers and accepts the key")
    assert [path for path, _, _ in deployment.requests] == ["/api/query", "/api/action"]


def test_doctor_reports_a_key_without_action_permission(workspace: Workspace, deployment: Deployment) -> None:
    deployment.answer = lambda path, args: success(None) if path == "/api/query" else READ_ONLY
    out = workspace.run("doctor", "--deployment", deployment.url, code=77, **ACCESS).out
    assert line_about("Convex", out).startswith("NOT OK")
    assert "You do not have permission" in line_about("Convex", out)


def test_doctor_accepts_a_deployment_that_hides_error_reasons(workspace: Workspace, deployment: Deployment) -> None:
    """Table numbers differ between deployments, so this one refuses the ids that doctor asks for."""
    deployment.answer = lambda path, args: failure("")
    out = workspace.run("doctor", "--deployment", deployment.url, **ACCESS).out
    assert f"{deployment.url} answers and accepts the key; the deployment hides the reasons" in line_about(
        "Convex", out
    )
    out = workspace.run("doctor", "--deployment", deployment.url, code=77).out
    assert "no key was sent" not in out, "one line for each check"
    assert line_about("Convex", out).startswith("NOT OK")


def test_doctor_accepts_a_deployment_that_refuses_its_probe_ids(workspace: Workspace, deployment: Deployment) -> None:
    deployment.answer = lambda path, args: failure(FOREIGN if path == "/api/query" else MALFORMED)
    out = workspace.run("doctor", "--deployment", deployment.url, **ACCESS).out
    assert line_about("Convex", out).endswith("answers and accepts the key")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(BAD_ADMIN_KEY, 77, id="wrong key"),
        pytest.param(BARE_KEY, 77, id="half a key"),
        pytest.param(failure(NO_FUNCTION), 69, id="no function"),
        pytest.param(refusal(503, "Overloaded", "later"), 69, id="overloaded"),
    ],
)
def test_doctor_exit_code_matches_the_convex_error(
    answer: Answer, code: int, workspace: Workspace, deployment: Deployment
) -> None:
    deployment.answer = lambda path, args: answer
    out = workspace.run("doctor", "--deployment", deployment.url, code=code, **ACCESS).out
    assert line_about("Convex", out).startswith("NOT OK")


@pytest.mark.parametrize(
    ("settings", "code", "name"),
    [
        pytest.param({"CONVEX_DEPLOY_KEY": "half-a-key"}, 64, "Convex", id="damaged key"),
        pytest.param({"CONVEX_DEPLOY_KEY": "<missing_deploy_key:ask us>"}, 77, "Convex", id="key to be set"),
        pytest.param({"EVALSCRIBE_JUDGE": "oracle"}, 64, "judge", id="unknown judge"),
        pytest.param({"EVALSCRIBE_JUDGE": "openai/gpt-x", "EVALSCRIBE_MAX_TOKENS": "9"}, 77, "judge", id="no key"),
        pytest.param({"EVALSCRIBE_ENGINE": "steam"}, 64, "engine", id="unknown engine"),
        pytest.param({"EVALSCRIBE_JUDGE": "rules"}, 0, "judge", id="rules"),
        pytest.param({"EVALSCRIBE_STORE_URL": "postgresql://u@127.0.0.1:1/d"}, 69, "store", id="no database"),
        pytest.param(
            {"EVALSCRIBE_JUDGE": "oracle", "EVALSCRIBE_STORE_URL": "postgresql://u@127.0.0.1:1/d"},
            64,
            "judge",
            id="a setting before a service",
        ),
    ],
)
def test_doctor_exit_code_depends_on_settings(
    settings: dict[str, str], code: int, name: str, workspace: Workspace
) -> None:
    out = workspace.run("doctor", code=code, **settings).out
    assert line_about(name, out).startswith("NOT OK" if code else "ok")
