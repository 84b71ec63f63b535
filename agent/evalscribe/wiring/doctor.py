"""What `doctor` tries; nothing of it is paid for."""

from functools import partial

from evalscribe.app.doctor import Attempt, Unset
from evalscribe.engine import LOCAL, open_engine
from evalscribe.errors import AccessError, EvalscribeError, UsageError
from evalscribe.rubric import DEFAULT_MODEL
from evalscribe.settings import RULES, Settings
from evalscribe.settings.providers import ANTHROPIC, PROVIDERS, Provider
from evalscribe.wiring.models import models

TIMEOUT_S = 20.0


def attempts(found: Settings) -> dict[str, Attempt]:
    """By what each is about. Of the providers: those that can be asked, and the one whose model judges by default."""
    asked = {p.title: partial(_provider_answers, found, p) for p in PROVIDERS.values() if _is_tried(found, p)}
    forges = {"GitHub": partial(_github_answers, found)} if _has_token(found) else {}
    made: dict[str, Attempt] = {}
    if found.judge.value is not None:
        made["judge"] = partial(_judge_is_known, found)
    if found.engine.value != LOCAL:
        made["engine"] = partial(_engine_is_known, found)
    made |= {"store": partial(_store_opens, found), "Convex": partial(_convex_answers, found)}
    return {**made, **asked, **forges}


def _is_tried(found: Settings, provider: Provider) -> bool:
    try:
        return provider == ANTHROPIC or found.provider(provider.name) is not None
    except EvalscribeError:
        return True


def _has_token(found: Settings) -> bool:
    try:
        return found.github().key is not None
    except EvalscribeError:
        return True


async def _store_opens(found: Settings) -> str:
    from evalscribe.store.database import open_database

    database = open_database(found.store_place)
    try:
        return database.told()
    finally:
        database.close()


async def _convex_answers(found: Settings) -> str | Unset:
    """Check that the key may run both functions, with ids that cannot exist."""
    from evalscribe.sources.convex import ConvexHttp, Patience
    from evalscribe.sources.deployment import check

    try:
        access = found.convex()
    except AccessError as error:
        if found.names_convex:
            raise
        return Unset(detail=str(error))
    functions = ConvexHttp(access.url, access.key, Patience(attempts=1, whole=20))
    try:
        in_doubt = await check(functions)
    finally:
        await functions.close()
    return f"{access.url} answers{' and takes the key' if access.key else ', without a key'}{in_doubt}"


async def _judge_is_known(found: Settings) -> str:
    name = found.judge_name
    if name == RULES:
        return "the rules judge"
    asked = models(found)
    try:
        asked.open(name, "judge")
    finally:
        await asked.close()
    return f"{name} has what it needs"


async def _engine_is_known(found: Settings) -> str:
    open_engine(found)
    return f"{found.engine.value} is installed"


async def _provider_answers(found: Settings, provider: Provider) -> str | Unset:
    from evalscribe.llm.service import adapter

    access = found.provider(provider.name)
    if access is None:
        return Unset(detail=f"no {provider.key_name}: the rules judge")
    model = adapter(provider, DEFAULT_MODEL.model_name, access, None, TIMEOUT_S)
    try:
        await model.check()
    finally:
        await model.close()
    return f"{access.url} answers{' and takes the key' if access.key else ', without a key'}"


async def _github_answers(found: Settings) -> str | Unset:
    access = found.github()
    if access.key is None:
        return Unset(detail="no GITHUB_TOKEN: pull requests are opened by hand")
    try:
        from evalscribe.forge.github import GitHub
    except ImportError as error:
        raise UsageError("PyGithub is missing: pip install 'evalscribe[github]'") from error
    forge = GitHub(access.url, access.key.get_secret_value(), "-/-")
    try:
        forge.check()
    finally:
        forge.close()
    return f"{access.url} answers and takes the token"
