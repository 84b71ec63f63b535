"""Every test runs with loopback network only, without the user's settings, and in its own home folder."""

import gc
import os
import random
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from evalscribe.experiments import control
from evalscribe.store import database
from support.blank_stores import QuickUpgrade
from support.fork_server import WorkerStarter
from support.postgres_server import NoPostgres, PostgresServer, running
from support.requirements import skip_or_fail

# Fixed examples and no deadline, so that no test fails by chance or on a busy machine.
SLOW = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
hypothesis.settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=SLOW)
hypothesis.settings.register_profile("random", deadline=None, suppress_health_check=SLOW)
hypothesis.settings.load_profile("same")

# As in the command: the libraries are half a million objects; scanning them took a seventh of the CPU time.
gc.set_threshold(20_000, 20, 5)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts background jobs with SIGINT ignored, which child processes of tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)

REAL_DATA = os.environ.get("EVALSCRIBE_REAL_DATA")
LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")
# The package is started hundreds of times; compiling it each time would dominate the test duration.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
PRESERVED_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHON", "PYTEST", "COVERAGE", "EVALSCRIBE_R")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order-seed", type=int, help="run modules, and the tests in each, in a random order")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle modules and the tests in each, in the same order on every xdist worker."""
    seed: int | None = config.getoption("--order-seed")
    if seed is not None:
        chance = random.Random(seed)
        modules: dict[Path, list[pytest.Item]] = {}
        for item in items:
            modules.setdefault(item.path, []).append(item)
        shuffled = list(modules.values())
        chance.shuffle(shuffled)
        for module in shuffled:
            chance.shuffle(module)
        items[:] = [item for module in shuffled for item in module]


def pytest_collection_finish() -> None:
    """Exclude all objects loaded so far from garbage collection, as they live until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def real_data() -> Path:
    """The folder of real runs; tests that need it are skipped if it is not set."""
    if not REAL_DATA:
        pytest.skip("EVALSCRIBE_REAL_DATA is not set")
    return Path(REAL_DATA)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A real Postgres on loopback, shared by all tests of the session."""
    own = tmp_path_factory.getbasetemp()
    try:
        server = running(own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own)
        started = server.__enter__()
    except NoPostgres as missing:
        skip_or_fail("postgres", str(missing))
    yield started
    server.__exit__(None, None, None)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL, with a password, of an empty database for one test."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session", autouse=True)
def lasting_environment(homes: Path) -> None:
    """Remove the machine's environment variables once per session, so that tests seldom add any.

    glibc moves the whole environment when a variable is added, while Ray's threads read it; this crashed about one
    run in twenty.
    """
    for name in list(os.environ):
        if not name.startswith(PRESERVED_VARIABLES):
            del os.environ[name]
    os.environ["SSL_CERT_DIR"] = str(homes)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, homes: Path) -> None:
    """Hide the machine's keys, proxies, tracing settings and CA certificates from each test.

    No test uses TLS, and loading the certificates takes longer than most tests.
    """
    for name in list(os.environ):
        if not name.startswith((*PRESERVED_VARIABLES, "RAY_", "SSL_CERT_DIR")):
            monkeypatch.delenv(name)
    # pytest's `mktemp` lists the whole folder on each call, which costs a minute over all tests.
    home = tempfile.mkdtemp(dir=homes)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("SSL_CERT_DIR", home)


QUICK_UPGRADE = QuickUpgrade(database._upgrade)


@pytest.fixture(autouse=True)
def quick_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create stores by a quick upgrade; overridden where migrations are tested."""
    monkeypatch.setattr(database, "_upgrade", QUICK_UPGRADE)


@pytest.fixture(autouse=True)
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start workers by the fork server; overridden where a worker must be a separate Python process."""
    monkeypatch.setattr(control, "subprocess", WorkerStarter)


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise an error for connections to other machines."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
            raise RuntimeError(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
