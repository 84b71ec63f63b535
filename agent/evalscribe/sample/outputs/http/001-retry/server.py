"""A tiny HTTP server for exercising client retries."""

from http.server import BaseHTTPRequestHandler, HTTPServer


class RetryHandler(BaseHTTPRequestHandler):
    """Serves /health and /flaky."""

    flaky_calls = 0

    def do_GET(self) -> None:
        if self.path == "/health":
            self._reply(200, "ok")
        elif self.path == "/flaky":
            RetryHandler.flaky_calls += 1
            if RetryHandler.flaky_calls <= 2:
                self._reply(503, "unavailable")
            else:
                self._reply(200, "ok")
        else:
            self._reply(404, "not found")

    def _reply(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(port: int) -> HTTPServer:
    """Create the server bound to 127.0.0.1:port."""
    RetryHandler.flaky_calls = 0
    server = HTTPServer(("127.0.0.1", port), RetryHandler)
    print(f"listening on {port}")
    return server
