"""Make small repositories that list files without end, and serve repositories over HTTP."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WIDTH = 10


def make_bomb(repository: Any, ending: str = ".md", depth: int = 10) -> str:
    """Commit trees that contain each other: ten thousand million files; without an ending, none.

    Return the commit.
    """
    entry = repository.git("hash-object", "-w", "--stdin", stdin=b"# Boom\n")
    mode = "100644 blob"
    if not ending:
        entry, mode = repository.git("mktree", stdin=b""), "040000 tree"
    for _ in range(depth):
        names = [f"f{number}{ending if mode.endswith('blob') else ''}" for number in range(WIDTH)]
        lines = "".join(f"{mode} {entry}\t{name}\n" for name in names)
        entry, mode = repository.git("mktree", stdin=lines.encode()), "040000 tree"
    commit = repository.git("commit-tree", entry, "-m", "boom")
    repository.git("update-ref", "refs/heads/main", commit)
    return str(commit)


@contextmanager
def serve_repositories(folder: Path) -> Iterator[str]:
    """Serve the repositories below a folder over plain HTTP; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            size = int(self.headers.get("Content-Length") or 0)
            done = subprocess.run(
                ["git", "http-backend"],
                input=self.rfile.read(size),
                env={
                    "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(folder),
                    "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command,
                    "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_ADDR": "127.0.0.1",
                    "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                    "CONTENT_LENGTH": str(size), "GIT_CONFIG_NOSYSTEM": "1",
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                },
                capture_output=True,
                check=True,
            )  # fmt: skip
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            self.send_response(200)
            for line in head.decode().split("\r\n"):
                name, _, value = line.partition(": ")
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that the base class calls

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
