"""What does a command ask of the daemon, and what does it do with the answers?

A small HTTP server on a Unix socket, in a thread: it answers as told, the last answer of a call for ever, and records
what it was asked.
"""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

Body = dict[str, Any]
Answer = tuple[int, Body]
GARBLED: Answer = (200, {})
"""Told as something that is no JSON."""


@dataclass
class FakeDaemon:
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, Body | None]] = field(default_factory=list)

    def will(self, call: str, *answers: Body | Answer) -> None:
        """`call` is method and path with its query, as in `GET /v1/status`."""
        self.answers[call] = [answer if isinstance(answer, tuple) else (200, answer) for answer in answers]

    def refuses(self, call: str, code: str, detail: str, status: int = 409) -> None:
        self.will(call, (status, {"type": "about:blank", "status": status, "code": code, "detail": detail}))

    def answer(self, call: str, body: Body | None) -> Answer:
        self.asked.append((call, body))
        waiting = self.answers.get(call)
        if waiting is None:
            return 404, {"status": 404, "code": "not_found", "detail": f"nothing at {call}"}
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]


@contextmanager
def served(fake: FakeDaemon, path: Path) -> Iterator[None]:
    class Call(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "local"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}"))

        def _answer(self, body: Body | None) -> None:
            status, content = fake.answer(f"{self.command} {self.path}", body)
            data = b"<html>" if content is GARBLED[1] else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            pass  # a command that was interrupted hangs up

    path.parent.mkdir(parents=True, exist_ok=True)
    with Server(str(path), Call) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
