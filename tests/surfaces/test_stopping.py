"""Stopped at any moment, a command is over within a second, with one line and the right code."""

import signal
import time
from pathlib import Path

import pytest

from promptly import within_a_second
from surfaces import made_runs
from surfaces.command import Workspace, end

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
LINES = (
    "what is finished is kept, run the same command again to go on.",
    "evalscribe: stopped; what was not finished is as it was before.",
)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_runs.write(tmp_path_factory.mktemp("many") / "run", 500)


@pytest.mark.parametrize("delay", [0.8, 1.6, 3.2])
@pytest.mark.parametrize("number", CODES)
def test_stopped_at_any_moment(number: signal.Signals, delay: float, workspace: Workspace, many: Path) -> None:
    def stopped(_attempt: int) -> float:
        process = workspace.start("analyze", many, "--judge", "rules")
        time.sleep(delay)
        ended, seconds = end(process, number)
        assert ended.code == CODES[number], ended
        assert ended.err.rstrip().endswith(LINES)
        assert "Traceback" not in ended.err
        return seconds

    assert within_a_second(stopped)


def test_what_was_finished_is_known(workspace: Workspace, many: Path) -> None:
    process = workspace.start("analyze", many, "--judge", "rules")
    assert process.stderr is not None
    for line in process.stderr:
        if line.strip().startswith("100/500"):
            break
    ended, _ = end(process, signal.SIGKILL)
    assert ended.code == -signal.SIGKILL
    again = workspace.run("analyze", many, "--judge", "rules")
    assert again.err.count("(known)") >= 100 - 4
    assert again.out.startswith("# sample-model-2: 500 of 1000 evals failed")
