"""A server to try retries on."""

from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers `/health` at once and `/flaky` the third time."""

    refusals = 2

    def do_GET(self) -> None:
        if self.path == "/flaky" and Handler.refusals > 0:
            Handler.refusals -= 1
            self.answer(503, b"try again")
        else:
            self.answer(200, b"ok")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def serve(port: int) -> HTTPServer:
    """A server on the port, ready to be run."""
    Handler.refusals = 2
    server = HTTPServer(("127.0.0.1", port), Handler)
    print(f"listening on {port}")
    return server
