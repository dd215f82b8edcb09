"""A real HTTP server that answers as an embedding API does, with faults where a test wants them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lookfar.embed.hashed import HashedEmbedder

Answer = Callable[["Service", dict[str, Any]], tuple[int, dict[str, str], Any]]


class Service:
    """An OpenAI-compatible server. ``faults`` are answered first, one for each request."""

    def __init__(self, dimensions: int = 8) -> None:
        self.dimensions = dimensions
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Answer] = []
        self.always: Answer | None = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append(body)
                service.headers.append({k.lower(): v for k, v in self.headers.items()})
                how = service.faults.pop(0) if service.faults else service.always or good
                if self.path != "/v1/embeddings":
                    how = refused(404, "no such route")
                status, headers, answer = how(service, body)
                if status == 0:
                    self.connection.close()
                    return
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def good(service: Service, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    dimensions = body.get("dimensions", service.dimensions)
    vectors = 3 * HashedEmbedder(dimensions).embed(body["input"])
    rows = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(vectors)]
    return 200, {}, {"data": rows[::-1], "model": body["model"]}


def refused(status: int, message: str = "no", **headers: str) -> Answer:
    return lambda *_: (status, headers, {"error": {"message": message}})


def cut(*_: object) -> tuple[int, dict[str, str], Any]:
    return 0, {}, b""
