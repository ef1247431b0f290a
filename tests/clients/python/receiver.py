"""A receiver of webhooks on a port of this machine."""

import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Heard:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers 200 to everything and keeps it."""

    def __init__(self) -> None:
        heard: list[Heard] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                heard.append(Heard(self.path, headers, body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._heard = heard
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def wait(self, path: str, count: int = 1) -> list[Heard]:
        """Waits until so many requests have come to a path."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = [heard for heard in self._heard if heard.path == path]
            if len(found) >= count:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{count} webhooks did not come to {path} in time")
