import socket
import time
import urllib.error
import urllib.request
from threading import Thread

import pytest
from server import serve


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url):
    """Status and body; a refused connection is tried again, since the server may be slow to start."""
    for wait in (0.1, 0.2, 0.4):
        try:
            with urllib.request.urlopen(url) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError as error:
            refused = f"{url}: {error.reason}"
            time.sleep(wait)
    raise ConnectionRefusedError(refused)


@pytest.fixture
def base():
    port = free_port()
    server = serve(port)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{port + 1}"
    server.shutdown()
    server.server_close()


def test_health(base):
    assert get(f"{base}/health") == (200, "ok")


def test_flaky_recovers(base):
    first, second, third = get(f"{base}/flaky"), get(f"{base}/flaky"), get(f"{base}/flaky")
    assert (first[0], second[0], third) == (503, 503, (200, "ok"))
