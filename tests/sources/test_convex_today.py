"""Reading of current payloads, which is the same over HTTP and from a folder."""

import asyncio
from pathlib import Path

import pytest
from pydantic import SecretStr

from evalscribe.errors import NotFoundError
from evalscribe.model.evidence import Evidence, UnreadableEvidence
from evalscribe.model.run import Run
from evalscribe.sources.address import Links
from evalscribe.sources.convex import open_convex
from evalscribe.sources.convex_payload import PayloadSource
from evalscribe.sources.snapshot import open_snapshot
from support.convex_server import KEY, Deployment, serving

STATES = ("all-passed", "answer-validation", "backend-unhealthy", "pending", "preflight", "rate-limit")
FOLDERS = (
    *("infrastructure", "deploy", "tests", "stored", "steps", "keys-sorted", "keys-unsorted"),
    *(f"states/{state}" for state in (*STATES, "running", "stuck", "zero-tokens")),
)


async def everything(source: PayloadSource) -> tuple[Run, list[Evidence | UnreadableEvidence]]:
    run = await source.run()
    evidence = await asyncio.gather(*(source.evidence(eval) for eval in run.failures))
    await source.close()
    return run, list(evidence)


@pytest.mark.parametrize("name", FOLDERS)
async def test_run_is_read_the_same_over_http_and_from_its_folder(
    deployment: Deployment, real_data: Path, name: str
) -> None:
    folder = real_data / "convex-runs-current/odd" / name
    deployment.answer = serving(folder)
    from_folder = await everything(open_snapshot(folder, Links()))
    served = await everything(open_convex(deployment.url, SecretStr(KEY), from_folder[0].id, Links()))
    assert served == from_folder
    assert not any(isinstance(one, UnreadableEvidence) for one in served[1])


@pytest.mark.parametrize(
    ("run_id", "said"), [("jn7" + "0" * 29, "has no run"), ("no-such-run", "ArgumentValidationError")]
)
async def test_unknown_run_raises_not_found_error(
    deployment: Deployment, real_data: Path, run_id: str, said: str
) -> None:
    deployment.answer = serving(real_data / "convex-runs-current/odd/stored")
    source = open_convex(deployment.url, SecretStr(KEY), run_id, Links())
    with pytest.raises(NotFoundError, match=said):
        await source.run()
    await source.close()


async def test_unknown_eval_becomes_unreadable_evidence(deployment: Deployment, real_data: Path) -> None:
    folder = real_data / "convex-runs-current/odd/stored"
    run = await open_snapshot(folder, Links()).run()
    deployment.answer = serving(folder)
    source = open_convex(deployment.url, SecretStr(KEY), run.id, Links())
    gone = run.failures[0].model_copy(update={"id": "jh7" + "0" * 29})
    evidence = await source.evidence(gone)
    assert isinstance(evidence, UnreadableEvidence)
    assert evidence.reason == f"Eval {gone.id} not found"
    await source.close()
