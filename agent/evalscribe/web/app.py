"""HTTP server on loopback. It serves the pages, accepts reviewers' decisions, and checks every request."""

import asyncio
import hmac
import logging
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from evalscribe.errors import ChangedError, DataError, EvalscribeError, NotFoundError, UnavailableError, UsageError
from evalscribe.web.decisions import Decisions, as_decision
from evalscribe.web.site import Query, Site

log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
LARGEST_BODY = 64 * 1024
"""Maximum size of a request's body, in bytes."""
HEAD_START_S = 1
"""Maximum time, in seconds, to wait for the first page before the address is printed."""
GRACE_S = 1
"""Maximum time, in seconds, for open requests to finish when the server stops."""
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
# Evidence is hostile. Even if part of it were rendered as markup, the browser would run none of its scripts, load
# nothing from elsewhere, and send no form to another site.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
_STATUS: tuple[tuple[type[EvalscribeError], int], ...] = (
    (ChangedError, 409),
    (NotFoundError, 404),
    (UsageError, 400),
    (DataError, 422),
    (UnavailableError, 503),
)


class LocalRequestsOnly:
    """Refuses requests unless a browser on this machine sends them with the server's token.

    The command prints the token as part of the address. The browser then keeps the token in a cookie that other sites
    cannot send. Requests that change something also need the token in a header, which a page of another origin cannot
    set.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token
        self._cookie = f"evalscribe-{secrets.token_hex(4)}"
        """Name of the cookie, new at each start, because a browser sends cookies to every port of a host."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        response = self._refusal(scope) or self._signed_in(scope)
        if response is not None:
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        # A page of another site can let its own name resolve to 127.0.0.1. Its requests then name that site as their
        # host.
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            return _refused("This page is only served to a browser on this machine.")
        # Servers on other ports of this machine have different origins, so the whole origin must match.
        if any(origin != f"http://{hosts[0]}" for origin in headers.getlist("origin")):
            return _refused("Requests from other sites are refused.")
        # Some clients do not send this header. They are accepted, because every request needs the token as well.
        if not {"none", "same-origin"}.issuperset(headers.getlist("sec-fetch-site")):
            return _refused("Requests from other sites are refused.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused("Only GET and POST are allowed.", 405)
        if scope["method"] == "POST" and not self._is_token(headers.get("x-evalscribe-token", "")):
            return _refused("The token of this start is missing or wrong.")
        return None

    def _signed_in(self, scope: Scope) -> Response | None:
        """Return None if the browser is signed in, and otherwise the response to send.

        If the address contains the token, the response sets the cookie and redirects to the address without the token.
        A request without the token and without the cookie is refused.
        """
        # Any bytes are valid latin-1. Other characters are percent-encoded in an address, and `parse_qsl` decodes them.
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if self._is_token(query.get("token", "")):
            # Keep only one leading slash. A browser reads a path with two slashes as the address of another server.
            response = RedirectResponse(f"/{scope['path'].lstrip('/')}", 303, headers=HEADERS)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return response
        # Parse leniently, because the browser sends the cookies of all servers on this host, even malformed ones.
        for value in Headers(scope=scope).getlist("cookie"):
            if self._is_token(cookie_parser(value).get(self._cookie, "")):
                return None
        return _refused("Open the address that `evalscribe view` printed: it has the token of this start.")

    def _is_token(self, text: str) -> bool:
        # Compared as bytes, because `compare_digest` raises an exception for texts with characters such as `é`.
        return hmac.compare_digest(text.encode("utf-8", "replace"), self._token.encode())


def _refused(reason: str, status: int = 403) -> Response:
    return PlainTextResponse(f"{reason}\n", status, headers=HEADERS)


def make_app(site: Site) -> ASGIApp:
    """Return the ASGI application of a site. Raises `ValueError` if the site has no token."""
    if site.token is None:
        raise ValueError("a served site needs a token")
    decisions, lock = Decisions(site), Lock()

    def one_at_a_time(work: Callable[[], Response]) -> Callable[[], Response]:
        # Requests are handled one at a time because they share the parsed reports. A single reviewer needs no more.
        def locked() -> Response:
            with lock:
                return _answer(work)

        return locked

    async def page(request: Request) -> Response:
        path = request.path_params["path"] or "index.html"
        query = dict(request.query_params)
        return await run_in_threadpool(one_at_a_time(lambda: _page(site, path, query)))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return PlainTextResponse("no such file\n", 404)
        return Response((Path(__file__).with_name("static") / name).read_bytes(), media_type=STATIC[name])

    async def decide(request: Request) -> Response:
        # The body is read before the lock is taken, so that a client that never finishes its body blocks nobody.
        body = await _body(request)

        def work() -> Response:
            decision = decisions.resolved(as_decision(body))
            if decision is None:
                return JSONResponse({"message": "Nothing to undo since this start.", "changed": False})
            try:
                (message, changed), status = decisions.decide(decision), 200
            except ChangedError as error:
                message, changed, status = str(error), False, 409
            answer = {"message": message, "changed": changed}
            return JSONResponse({**answer, "card": decisions.card(decision), "pending": decisions.pending()}, status)

        return await run_in_threadpool(one_at_a_time(work))

    async def pending(_: Request) -> Response:
        return await run_in_threadpool(one_at_a_time(lambda: HTMLResponse(decisions.pending())))

    @asynccontextmanager
    async def parsed(_: Starlette) -> AsyncIterator[None]:
        # Render a page at the start, so that reports and libraries are loaded before the browser's first request.
        first = asyncio.ensure_future(run_in_threadpool(one_at_a_time(lambda: HTMLResponse(site.render("index.html")))))
        first.add_done_callback(lambda task: task.cancelled() or task.exception())  # the first request raises it again
        await asyncio.wait({first}, timeout=HEAD_START_S)
        yield

    app = Starlette(
        lifespan=parsed,
        routes=[
            Route("/static/{name}", static),
            Route("/decide", decide, methods=["POST"]),
            Route("/pending", pending),
            Route("/{path:path}", page),
        ],
    )
    return LocalRequestsOnly(_WithHeaders(app), site.token)


class _WithHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                pairs = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *pairs]}  # type: ignore[misc]
            await send(message)

        await self._app(scope, receive, send_with_headers)  # type: ignore[arg-type]


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            # An empty body is refused as an invalid decision.
            return b""
    return body


def _page(site: Site, path: str, query: Query) -> Response:
    """Return the response with a page. If rendering raises an exception, return a page that describes the error."""
    try:
        return HTMLResponse(site.render(path, query))
    except EvalscribeError as error:
        title = "Not found" if isinstance(error, NotFoundError) else "This page cannot be shown"
        return HTMLResponse(site.render_problem(title, str(error), path), _status(error))
    # An unexpected exception becomes a page too, so that the reviewer does not see an empty one.
    except Exception as error:
        log.exception("page %s", path)
        message = f"This is a bug of evalscribe: {type(error).__name__}. `evalscribe -v view` prints the details."
        return HTMLResponse(site.render_problem("This page cannot be shown", message, path), 500)


def _status(error: EvalscribeError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _answer(work: Callable[[], Response]) -> Response:
    """Return the response of `work`, or a response with the message of the `EvalscribeError` that it raises."""
    try:
        return work()
    except EvalscribeError as error:
        return JSONResponse({"message": str(error)}, _status(error))


def serve(site: Site, port: int, started: Callable[[str], None]) -> None:
    """Serve until the process is interrupted.

    Args:
        site: The site to serve. It must have a token.
        port: Port on loopback; 0 for a free one.
        started: Called with the address as soon as requests are answered.

    Raises:
        UnavailableError: The port is taken.
    """
    # The port is bound here and not by uvicorn, which ends the process if the port is taken. This also makes the number
    # of a free port known before the server starts.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise UnavailableError(
            f"port {port} cannot be used: {error.strerror}; `port` 0 selects a free one", fields=("port",)
        ) from None
    address = f"http://{LOOPBACK}:{listener.getsockname()[1]}/?token={site.token}"
    config = uvicorn.Config(
        make_app(site),
        log_level="critical",
        access_log=False,
        server_header=False,
        http="h11",  # Without this, uvicorn uses another parser, with different limits, if one is installed.
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, lambda: started(address))
    with listener:
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()
