"""The server refuses hostile requests, and pages render hostile evidence as inert text."""

import base64
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from support.browser import walk
from support.command import Workspace
from support.hostile_pages import EVERYTHING, INERT, MARK, hostile_workspace
from support.repository_states import git
from support.served_page import Answer, ServedPage, serving
from web.conftest import Visit

REFUSED = (400, 403, 404, 405, 413, 414, 422, 431)


class Attacker:
    """Sends requests to a server, by default with every header that the reviewer's browser would send."""

    def __init__(self, served: ServedPage) -> None:
        self.served = served
        self.cookie = served.sign_in()
        self.card = dict(re.findall(r' data-(report|n|seen)="([^"]*)"', self.get("/").body.decode())[:3])
        """The `data-` attributes of the first finding on the page."""

    def get(self, target: str, *headers: tuple[str, str], host: str | None = None, method: str = "GET") -> Answer:
        return self.served.request(
            method, target, ("Host", host or self.served.host), ("Cookie", self.cookie), *headers
        )

    def post(self, body: bytes | None = None, *headers: tuple[str, str], **without: bool) -> Answer:
        """Send a valid decision, or `body`; `without` names the headers to leave out."""
        own_sockets = {
            "host": ("Host", self.served.host),
            "cookie": ("Cookie", self.cookie),
            "token": ("X-Evalscribe-Token", self.served.token),
            "type": ("Content-Type", "application/json"),
        }
        sent = [header for name, header in own_sockets.items() if not without.get(name)]
        return self.served.request("POST", "/decide", *sent, *headers, body=self.decision() if body is None else body)

    def decision(self, **changes: object) -> bytes:
        """Return a valid decision with some fields changed."""
        values = {"action": "label", **self.card, "n": int(self.card["n"])}
        return json.dumps({**values, "label": "KNOWN_GAP", **changes}).encode()

    def raw(self, text: str) -> Answer | None:
        return self.served.send(text.format(host=self.served.host, cookie=self.cookie).encode("utf-8"))


HOSTS = (
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example@127.0.0.1",
    "127.0.0.1@evil.example",
    "127.0.0.1:80@evil.example",
    "localhost.",
    "127.0.0.1.",
    "127.1",
    "0.0.0.0",
    "2130706433",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "[::ffff:127.0.0.1]",
    "[::]",
    "[::1",
    "::1",
    "127.0.0.1:",
    "127.0.0.1:port",
    "127.0.0.1:123456",
    "127.0.0.1 evil.example",
    "127.0.0.1,evil.example",
    "127.0.0.1/evil",
    "127.0.0.1#evil",
    "127.0.0.1\tx",
    "localhost\u3002",
    "\u2460\u2461\u2466.0.0.1",
)
ORIGINS = (
    "null",
    "http://evil.example",
    "https://{host}",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://localhost:{port}",
    "http://{host}.evil.example",
    "http://evil.example/{host}",
    "http://evil.example#http://{host}",
    "http://{host}@evil.example",
    "http://{host}/",
    "HTTP://{host}",
    "file://",
    "chrome-extension://abcdef",
    "{host}",
    "",
)
OUTSIDE = (
    "/../pyproject.toml",
    "/../../../../etc/passwd",
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/static/..%2fapp.py",
    "/static/%2e%2e%2f%2e%2e%2fsettings.py",
    "/static/%252e%252e%252fapp.py",
    "/static/..%5capp.py",
    "/static/..\\app.py",
    "/static/page.css%00.py",
    "/static//etc/passwd",
    "/static/%2fetc%2fpasswd",
    "//etc/passwd",
    "//evil.example/index.html",
    "/%2f%2fevil.example",
    "/file:///etc/passwd",
    "/run/../../etc/passwd/index.html",
    "/run/%2e%2e%2f%2e%2e%2fetc/index.html",
    "/run/..%2f..%2fsecret/index.html",
    "/run/%00/index.html",
    "/run/~00/index.html",
    "/reports/example/",
    "/.git/config",
    "/.evalscribe/store.db",
    "/templates/base.html.j2",
    "/index.html/..",
    "/index.html%00",
    "/inbox-99999999999999999999.html",
    "/inbox--1.html",
    "/run/{{7*7}}/index.html",
    "/run/%7b%7bself%7d%7d/eval/%7b%25.html",
    "/%ff%fe%80.html",
    "/" + "a" * 20_000,
    "/" + "a/" * 5_000 + "index.html",
)
BODIES: dict[str, bytes] = {
    "nothing": b" ",
    "not JSON": b"action=label&n=1",
    "huge": b'{"report": "' + b"x" * 2_000_000 + b'"}',
    "just too large": b'{"report": "' + b"x" * 65_536 + b'"}',
    "deep": b"[" * 30_000 + b"]" * 30_000,
    "deep in a field": b'{"n": ' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e999",
    "long number": b'{"n": ' + b"9" * 50_000 + b"}",
    "not UTF-8": b'{"action": "label\xff\xfe"}',
    "UTF-16": '{"action": "label"}'.encode("utf-16"),
    "NUL": b'{"action": "label", "report": "\x00"}',
    "twice": b'{"action": "label", "action": "undo"}',
}
FIELDS: dict[str, dict[str, object]] = {
    "lone surrogate in the report": {"report": "\ud800"},
    "lone surrogate in the note": {"action": "note", "note": "\udfff"},
    "no finding 0": {"n": 0},
    "negative finding": {"n": -1},
    "finding beyond the last": {"n": 999_999},
    "half a finding": {"n": 1.5},
    "finding as a list": {"n": [1]},
    "unknown label": {"label": "PASSED"},
    "label as an object": {"label": {"__class__": "x"}},
    "unknown action": {"action": "delete"},
    "unknown field": {"path": "/etc/passwd"},
    "unknown kind": {"kind": "x"},
    "long note": {"action": "note", "note": "x" * 3_000},
    "empty note": {"action": "note", "note": " \n "},
    "long report": {"report": "x" * 1_500},
    "stale state": {"seen": "x"},
    "no state": {"seen": ""},
    "undo of nothing": {"action": "undo"},
    "report outside": {"report": "../../outside/example/sample-model-1/secret_2026-11-02.md"},
    "absolute report": {"report": "/etc/passwd"},
    "report of another kind": {"report": "labels.md"},
    "a link that leads out": {"report": "example/sample-model-1/link_2026-11-02.md"},
    "a folder linked from outside": {"report": "example/linked/secret_2026-11-02.md"},
    "data file": {"report": "example/sample-model-1/smp7q2ka_2026-11-02.json"},
    "git's own": {"report": "../.git/config"},
    "old report without data": {"report": "example/sample-model-1/smp5c1zz_2026-10-12.md"},
    "option": {"report": "--help"},
    "NUL in the report": {"report": "a\x00b.md"},
}
UNFIT_RAW = {
    "no Host": "GET / HTTP/1.1\r\nCookie: {cookie}\r\n\r\n",
    "no Host in HTTP/1.0": "GET / HTTP/1.0\r\nCookie: {cookie}\r\n\r\n",
    "two Hosts": "GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\nCookie: {cookie}\r\n\r\n",
    "two Hosts, the other order": "GET / HTTP/1.1\r\nHost: evil.example\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n",
    "empty Host": "GET / HTTP/1.1\r\nHost:\r\nCookie: {cookie}\r\n\r\n",
    "folded Host": "GET / HTTP/1.1\r\nHost: {host}\r\n evil.example\r\nCookie: {cookie}\r\n\r\n",
    "space before the colon": "GET / HTTP/1.1\r\nHost : {host}\r\nCookie: {cookie}\r\n\r\n",
    "another site in the target": "GET http://evil.example/ HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n",
    "not HTTP": "EHLO evil.example\r\n\r\n",
    "nothing but lines": "\r\n\r\n\r\n\r\nX\r\n\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": "GET / HTTP/9.9\r\nHost: {host}\r\n\r\n",
    "a bare line feed in a header": "GET / HTTP/1.1\r\nHost: {host}\r\nX: a\nY: b\r\n\r\n",
    "NUL in a header": "GET / HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\nCookie: {cookie}\r\n\r\n",
    "huge header": "GET / HTTP/1.1\r\nHost: {host}\r\nX: " + "x" * 1_000_000 + "\r\n\r\n",
    "many headers": "GET / HTTP/1.1\r\nHost: {host}\r\n" + "X: y\r\n" * 50_000 + "\r\n",
    "two lengths": "POST /decide HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}",
    "negative length": "POST /decide HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n{{}}",
    "length and chunks": "POST /decide HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /decide HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "odd chunks": "POST /decide HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
    "other transfer coding": "POST /decide HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: gzip\r\n\r\n\r\n",
    "rubbish after a request": "GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n\x01\x02\x03 rubbish\r\n\r\n",
    "websocket": "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "websocket of another site": "GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\nCookie: {cookie}\r\n"
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n\r\n",
}


def tree(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder, and the targets of links, without the store."""
    return {
        str(path.relative_to(folder)): str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if (path.is_symlink() or path.is_file()) and ".evalscribe" not in path.parts
    }


@pytest.fixture(scope="module")
def attacked(analyzed_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Attacker, Path]]:
    """An attacker of a server whose reports folder links to the outside, and the enclosing folder.

    Teardown fails if any file in the enclosing folder has changed.
    """
    around = tmp_path_factory.mktemp("attacked")
    folder = Path(shutil.copytree(analyzed_sample, around / "workspace"))
    reports = folder / "reports/example/sample-model-1"
    outside = around / "outside/example/sample-model-1"
    outside.mkdir(parents=True)
    for suffix in (".md", ".json"):
        text = (reports / f"smp7q2ka_2026-11-02{suffix}").read_text("utf-8")
        (outside / f"secret_2026-11-02{suffix}").write_text(text.replace("sample-model-1", "hidden-model"), "utf-8")
        (reports / f"link_2026-11-02{suffix}").symlink_to(outside / f"secret_2026-11-02{suffix}")
    (folder / "reports/example/linked").symlink_to(outside)
    (reports / "loop_2026-11-02.md").symlink_to("loop_2026-11-02.md")
    before = tree(around)
    with serving(folder) as served:
        attacker = Attacker(served)
        yield attacker, around
        assert tree(around) == before, "a refused request has changed a file"
        assert attacker.get("/").status == 200, "the server no longer answers"
        assert b"hidden-model" not in attacker.get("/").body, "a report outside of the folder is shown"


@pytest.fixture
def attacker(attacked: tuple[Attacker, Path]) -> Attacker:
    return attacked[0]


SECRETS = (b"root:x:", b"evalscribe-token", b"import ", b"Traceback", b"hidden-model")


def breach(answer: Answer | None, *statuses: int) -> str | None:
    """Describe the security problem in the answer to a hostile request, if any.

    An `answer` of `None` means that the server closed the connection.
    """
    if answer is None:
        return None
    if answer.status not in (statuses or REFUSED):
        return f"{answer.status} {answer.body[:300]!r}"
    if any(word in answer.body for word in SECRETS):
        return f"shows {answer.body[:300]!r}"
    if {"set-cookie", "access-control-allow-origin"} & answer.headers.keys():
        return f"allows {answer.headers}"
    if answer.status in (403, 404) and not answer.headers.get("content-security-policy", "").startswith("default-src"):
        return f"has no policy: {answer.headers}"
    return None


def refused_requests() -> Iterator[tuple[str, Callable[[Attacker], Answer | None]]]:
    """Yield the name and the request of each case."""
    for host in HOSTS:
        yield f"host: {host}", lambda attacker, host=host: attacker.get("/", host=host)
    for origin in ORIGINS:

        def of_origin(attacker: Attacker, origin: str = origin, method: str = "GET") -> Answer:
            value = origin.format(host=attacker.served.host, port=attacker.served.port)
            if method == "POST":
                return attacker.post(None, ("Origin", value))
            return attacker.get("/", ("Origin", value))

        yield f"origin: {origin}", of_origin
        yield f"origin: {origin}, POST", lambda attacker, of=of_origin: of(attacker, method="POST")
    for site in ("cross-site", "same-site", "CROSS-SITE", "x", ""):
        header = ("Sec-Fetch-Site", site)
        yield f"site: {site!r}", lambda attacker, header=header: attacker.get("/", header)
        yield f"site: {site!r}, POST", lambda attacker, header=header: attacker.post(None, header)
    yield (
        "site: two",
        lambda attacker: attacker.get("/", ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")),
    )
    for method in ("PUT", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PATCH", "PROPFIND", "get", "POST "):
        yield f"method: {method}", lambda attacker, method=method: attacker.get("/decide", method=method)
        yield f"method: {method} /", lambda attacker, method=method: attacker.get("/", method=method)
    yield "method: GET of a change", lambda attacker: attacker.get("/decide")
    yield (
        "method: POST of a page",
        lambda attacker: attacker.served.request(
            "POST",
            "/index.html",
            ("Host", attacker.served.host),
            ("Cookie", attacker.cookie),
            ("X-Evalscribe-Token", attacker.served.token),
            body=attacker.decision(),
        ),
    )
    for target in OUTSIDE:
        yield f"path: {target[:60]}", lambda attacker, target=target: attacker.get(target)
    yield "token: no cookie", lambda attacker: attacker.post(None, cookie=True)
    yield "token: none", lambda attacker: attacker.post(None, token=True)
    yield "token: neither", lambda attacker: attacker.post(None, token=True, cookie=True)
    for token in ("x", "null", "undefined", "0" * 32, "é", "\x7f"):
        header = ("X-Evalscribe-Token", token)
        yield (
            f"token: {token!r}",
            lambda attacker, header=header: attacker.post(None, header, token=True),
        )
        yield (
            f"token: {token!r} in the address",
            lambda attacker, token=token: attacker.served.request(
                "GET", f"/?token={base64.b16encode(token.encode()).decode()}", ("Host", attacker.served.host)
            ),
        )
    for cookie in (
        "",
        "x",
        "evalscribe=x",
        "evalscribe-00000000=x",
        "a/b={token}",
        '"',
        "=;=;=",
        "{name}=",
        "{name}=x",
    ):

        def with_cookie(attacker: Attacker, cookie: str = cookie) -> Answer:
            value = cookie.format(name=attacker.cookie.partition("=")[0], token=attacker.served.token)
            return attacker.served.request("GET", "/", ("Host", attacker.served.host), ("Cookie", value))

        yield f"cookie: {cookie}", with_cookie
    for name, body in BODIES.items():
        yield f"body: {name}", lambda attacker, body=body: attacker.post(body)
    for name, fields in FIELDS.items():
        yield f"decision: {name}", lambda attacker, fields=fields: attacker.post(attacker.decision(**fields))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/html"):
        # A form on another site sends the cookie but cannot set the token header.
        header = ("Content-Type", kind)
        yield f"form: {kind}", lambda attacker, header=header: attacker.post(None, header, type=True, token=True)
    for name, text in UNFIT_RAW.items():
        yield f"bytes: {name}", lambda attacker, text=text: attacker.raw(text)


CASES = dict(refused_requests())


def test_at_least_200_hostile_requests_are_tested() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize("kind", dict.fromkeys(name.partition(": ")[0] for name in CASES))
def test_hostile_request_is_refused(kind: str, attacker: Attacker) -> None:
    statuses = (*REFUSED, 409) if kind == "decision" else REFUSED
    requests = {name: request for name, request in CASES.items() if name.partition(": ")[0] == kind}
    breaches = {name: breach(request(attacker), *statuses) for name, request in requests.items()}
    assert {name: problem for name, problem in breaches.items() if problem} == {}


def test_token_of_an_earlier_server_is_refused(sample: Path) -> None:
    with serving(sample) as earlier:
        old = Attacker(earlier)
    with serving(sample) as served:
        cookie = ("Cookie", old.cookie)
        host = ("Host", served.host)
        assert breach(served.request("GET", f"/?token={earlier.token}", host), 403) is None
        assert breach(served.request("GET", "/", host, cookie), 403) is None
        named = ("Cookie", f"{served.sign_in().partition('=')[0]}={earlier.token}")
        assert breach(served.request("GET", "/", host, named), 403) is None


def test_cookies_of_other_local_servers_are_ignored(attacker: Attacker) -> None:
    """Browsers send cookies to every port of a host."""
    others = 'a/b=1; x={"json": "value, with; separators"}; y="open; =z; é=ü; $Version=1; expires=now'
    for cookies in (f"{others}; {attacker.cookie}", f"{attacker.cookie}; {others}"):
        answer = attacker.served.request("GET", "/", ("Host", attacker.served.host), ("Cookie", cookies))
        assert answer.status == 200, cookies


def test_token_redirect_stays_on_this_server(attacker: Attacker) -> None:
    for target in ("//evil.example/", "/\\evil.example", "/%0d%0aSet-Cookie:%20a=b", "/http://evil.example"):
        answer = attacker.served.request(
            "GET", f"{target}?token={attacker.served.token}", ("Host", attacker.served.host)
        )
        if answer.status == 303:
            location = answer.headers["location"]
            assert re.match(r"/(?![/\\])", location), location
            assert "set-cookie: a" not in str(answer.headers).lower()


def test_every_response_has_security_headers_and_is_not_cached(attacker: Attacker) -> None:
    for target in ("/", "/runs.html", "/static/page.js", "/static/page.css", "/static/icon.svg", "/pending"):
        answer = attacker.get(target)
        assert answer.status == 200
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "*" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_unfinished_requests_do_not_block_other_clients(attacker: Attacker) -> None:
    served = attacker.served
    head = (
        f"POST /decide HTTP/1.1\r\nHost: {served.host}\r\nCookie: {attacker.cookie}\r\n"
        f"X-Evalscribe-Token: {served.token}\r\nContent-Length: 60000\r\n\r\n"
    ).encode()
    unfinished = [b"GET / HTTP/1.1\r\nHost: ", head, head + b'{"action":']
    open_connections = [served.connect() for _ in range(60)]
    try:
        for at, connection in enumerate(open_connections):
            connection.sendall(unfinished[at % len(unfinished)])
        assert attacker.get("/").status == 200
        assert attacker.post(attacker.decision(seen="x")).status == 409
    finally:
        for connection in open_connections:
            connection.close()


def test_30_concurrent_requests_are_answered(attacker: Attacker) -> None:
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(attacker.get("/").status)) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 30


def test_server_listens_on_loopback_only(attacker: Attacker) -> None:
    pid = attacker.served.process.pid
    own_sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own_sockets.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue  # closed meanwhile
    listening = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in own_sockets and fields[3] in ("0A", "07"):
                listening.append((table, fields[1]))
    assert listening == [("tcp", f"0100007F:{attacker.served.port:04X}")]


def test_cross_site_decision_is_not_written(sample: Path) -> None:
    """The same request from the page itself is written, so the refusal is due to the origin."""
    with serving(sample) as served:
        attacker = Attacker(served)
        before = tree(sample / "reports")
        assert breach(attacker.post(None, ("Origin", "http://evil.example")), 403) is None
        assert tree(sample / "reports") == before
        assert attacker.post(None, ("Origin", f"http://{served.host}"), ("Sec-Fetch-Site", "same-origin")).status == 200
        assert git(sample, "status", "--porcelain", "reports").split() == ["M", f"reports/{attacker.card['report']}"]
        assert Workspace(sample).run("reports", "check").code == 0


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_workspace(tmp_path_factory.mktemp("hostile"))


def test_hostile_text_is_inert_on_every_page(hostile: Path, visit: Visit, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    Workspace(hostile).run("view", "--bundle", folder)
    with serving(hostile) as served:
        # The server and the bundle render the same pages, so the first 25 pages of the bundle are enough.
        for base, first, most in ((served.base, served.address, None), (f"{folder.as_uri()}/", "index.html", 25)):
            visitor = visit(base)
            visitor.go(first)
            problems, shown = {}, set()
            for address in islice(walk(visitor), most):
                if active_content := visitor.page.evaluate(INERT):
                    problems[address] = active_content
                if MARK in visitor.page.locator("main").inner_text():
                    shown.add(address.removeprefix(base).partition("/")[0])
            assert problems == {}
            assert {"index.html", "run"} <= shown, "the attacks are not shown at all"


def test_card_updated_by_a_decision_keeps_hostile_text_inert(hostile: Path, visit: Visit, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(hostile, tmp_path / "copy"))
    with serving(folder) as served:
        visitor = visit(served.base)
        visitor.go(served.address)
        card = visitor.page.locator("article.card").first
        for key in ("j", "4", "k", "n"):
            visitor.page.keyboard.press(key)
        visitor.page.keyboard.type(EVERYTHING.replace("\x00", ""))
        visitor.page.keyboard.press("Enter")
        card.locator(".reviewer", has_text=MARK).wait_for()
        visitor.page.locator("#pending summary").click()
        visitor.page.locator("#pending pre", has_text=MARK).wait_for()
        assert visitor.page.evaluate(INERT) == []
