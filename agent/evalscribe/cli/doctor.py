"""Implements `evalscribe doctor`, which checks settings, keys and services."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Literal

from evalscribe.cli import options
from evalscribe.cli.interrupts import run_until_signal
from evalscribe.cli.output import print_json, say
from evalscribe.errors import AccessError, EvalscribeError, UnavailableError, UsageError, flag
from evalscribe.ids import Frozen
from evalscribe.llm.service import open_adapter
from evalscribe.model.rubric import DEFAULT_MODEL
from evalscribe.redaction.redact import redact
from evalscribe.remote.engine import LOCAL
from evalscribe.replay.sandbox import require_sandbox
from evalscribe.settings import RULES, SettingRow, Settings
from evalscribe.settings.access import ANTHROPIC, PROVIDERS, Provider
from evalscribe.sources.convex import ConvexHttp, ConvexRetryPolicy, check_deployment
from evalscribe.store.database import open_database
from evalscribe.workspace import Workspace

TIMEOUT_S = 20.0
State = Literal["ok", "not set", "NOT OK"]


class NotConfigured(Frozen):
    """Result of a check whose subject is not configured."""

    detail: str


Attempt = Callable[[], Awaitable[str | NotConfigured]]


class Check(Frozen):
    """Result of one check."""

    name: str
    state: State
    detail: str
    exit_code: int = 0
    """Exit code of the error that ended the check; 0 if there was no error."""


class SetupReport(Frozen):
    """Results of the command `doctor`, without secrets."""

    settings: tuple[SettingRow, ...]
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, rows: Iterable[SettingRow], checks: Iterable[Check]) -> "SetupReport":
        return cls(
            # An address or an error message can quote a secret that was set in the wrong place.
            settings=tuple(row.model_copy(update={"value": redact(row.value)}) for row in rows),
            checks=tuple(check.model_copy(update={"detail": redact(check.detail)}) for check in checks),
        )


def doctor(
    reports: options.Reports = None,
    deployment: options.Deployment = None,
    key_file: options.KeyFile = None,
    env_file: options.EnvFile = None,
    as_json: options.Json = False,
) -> int:
    """Show what is configured and where, which services can be reached, and what is missing.

    Exit codes: 0 no problem, 64 invalid setting, 77 key refused, 69 no answer from a service.
    """
    command_options = options.workspace_options(locals())
    workspace = Workspace(command_options)

    async def main() -> tuple[Check, ...]:
        async with workspace:
            return await run_checks(list_checks(workspace))

    checks = run_until_signal(main())
    diagnosis = SetupReport.of(workspace.settings.describe(), checks)
    print_json(diagnosis) if as_json else print_checks(diagnosis)
    return exit_code(checks)


def print_checks(report: SetupReport) -> None:
    """Print each setting with its origin, and then the checks. A setting is left out if a check shows its value."""
    details = {check.detail for check in report.checks}
    rows = [row for row in report.settings if row.value not in details]
    width = max(len(row.name) for row in rows)
    for row in rows:
        say(f"{row.name:<{width}}  {row.value}  ({row.origin})")
    say()
    for check in report.checks:
        say(f"{check.state:<{width}}  {check.name}: {check.detail}")


_FIRST_TO_FIX = (UsageError.exit_code, AccessError.exit_code, UnavailableError.exit_code)
"""Exit codes, in the order in which the problems should be fixed.

Problems with settings and keys come first, because they can be the reason why a service cannot be reached.
"""


def exit_code(checks: Iterable[Check]) -> int:
    """Return 0 if nothing is wrong.

    If there are problems, return the exit code of the problem that should be fixed first. The order is: settings, keys,
    services, everything else.
    """
    codes = {check.exit_code for check in checks} - {0}
    return next((code for code in _FIRST_TO_FIX if code in codes), min(codes, default=0))


async def run_checks(attempts: Mapping[str, Attempt]) -> tuple[Check, ...]:
    """Run every check. The result of a check is the message that it returned, or the error that it raised."""
    return tuple([await _tried(name, attempt) for name, attempt in attempts.items()])


async def _tried(name: str, attempt: Attempt) -> Check:
    try:
        answer = await attempt()
    except EvalscribeError as error:
        detail = error.text(flag).split("\n")[0]
        return Check(name=name, state="NOT OK", detail=detail, exit_code=error.exit_code)
    if isinstance(answer, NotConfigured):
        return Check(name=name, state="not set", detail=answer.detail.split("\n")[0])
    return Check(name=name, state="ok", detail=answer)


def list_checks(workspace: Workspace) -> dict[str, Attempt]:
    """Return the checks, keyed by subject.

    The checks cost no money. A model provider is included if it can be checked, or if the default judge is one of its
    models.
    """
    settings = workspace.settings
    providers = {p.title: partial(_provider_answers, settings, p) for p in PROVIDERS.values() if _is_tried(settings, p)}
    forges = {"GitHub": partial(_github_answers, settings)} if _has_token(settings) else {}
    checks: dict[str, Attempt] = {}
    if settings.judge.value is not None:
        checks["judge"] = partial(_judge_is_ready, workspace)
    if settings.engine.value != LOCAL:
        checks["engine"] = partial(_engine_is_installed, workspace)
    checks |= {"store": partial(_store_opens, settings), "Convex": partial(_convex_answers, settings)}
    return {**checks, **providers, **forges, "sandbox": _sandbox_starts}


def _is_tried(settings: Settings, provider: Provider) -> bool:
    try:
        # The default judge is a model of Anthropic.
        return provider == ANTHROPIC or settings.provider(provider.name) is not None
    except EvalscribeError:
        # The check reports what is wrong with the settings.
        return True


def _has_token(settings: Settings) -> bool:
    try:
        return settings.github().key is not None
    except EvalscribeError:
        return True


async def _sandbox_starts() -> str | NotConfigured:
    """Check that a sandbox can be started. Only replays need a sandbox."""
    try:
        await require_sandbox()
    except UnavailableError as error:
        return NotConfigured(detail=error.text(flag))
    return "bubblewrap can run answers for `prove`"


async def _store_opens(settings: Settings) -> str:
    database = open_database(settings.store_place)
    try:
        return database.describe()
    finally:
        database.close()


async def _convex_answers(settings: Settings) -> str | NotConfigured:
    """Check that the key has access to both functions of the deployment.

    The functions are called with ids that cannot exist.
    """
    try:
        access = settings.convex()
    except AccessError as error:
        if settings.names_convex:
            raise
        return NotConfigured(detail=error.text(flag))
    functions = ConvexHttp(access.url, access.key, ConvexRetryPolicy(attempts=1, total=20))
    try:
        in_doubt = await check_deployment(functions)
    finally:
        await functions.close()
    return f"{access.url} answers{' and accepts the key' if access.key else ', without a key'}{in_doubt}"


async def _judge_is_ready(workspace: Workspace) -> str:
    name = workspace.settings.judge_name
    if name == RULES:
        return "the rules judge"
    workspace.models.open(name, "judge")
    return f"{name} is ready"


async def _engine_is_installed(workspace: Workspace) -> str:
    workspace.open_engine()
    return f"{workspace.settings.engine.value} is installed"


async def _provider_answers(settings: Settings, provider: Provider) -> str | NotConfigured:
    access = settings.provider(provider.name)
    if access is None:
        return NotConfigured(detail=f"no {provider.key_name}: the rules judge")
    model = open_adapter(provider, DEFAULT_MODEL.model_name, access, None, TIMEOUT_S)
    try:
        await model.check()
    finally:
        await model.close()
    return f"{access.url} answers{' and accepts the key' if access.key else ', without a key'}"


async def _github_answers(settings: Settings) -> str | NotConfigured:
    access = settings.github()
    if access.key is None:
        return NotConfigured(detail="no GITHUB_TOKEN: pull requests are opened by hand")
    try:
        from evalscribe.git.github import GitHubForge
    except ImportError as error:
        raise UsageError("PyGithub is missing: pip install 'evalscribe[github]'") from error
    forge = GitHubForge(access.url, access.key.get_secret_value(), "-/-")
    try:
        forge.check()
    finally:
        forge.close()
    return f"{access.url} answers and accepts the token"
