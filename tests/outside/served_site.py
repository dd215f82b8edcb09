"""A web site on this machine for tests, with the bad manners of real ones."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Site:
    """Pages by path. ``seen`` counts requests; ``answers`` replaces what a path answers."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.answers: dict[str, Any] = {}
        self.seen: Counter[str] = Counter()
        self.fresh: Counter[str] = Counter()
        """Requests that were answered with the whole page."""
        self.address = ""

    def html(self, path: str, title: str, body: str = "", links: tuple[str, ...] = ()) -> None:
        anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links)
        text = f"<html><head><title>{title}</title></head><body><main><h1>{title}</h1>"
        self.pages[path] = f"{text}<p>{body}</p>{anchors}</main></body></html>".encode()


def _make_handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.seen[self.path] += 1
            if self.path in site.answers:
                site.answers[self.path](self)
                return
            data = site.pages.get(self.path)
            if data is None:
                self.answer(404, b"")
                return
            etag = f'"{hash(data)}"'
            if self.headers.get("If-None-Match") == etag:
                self.answer(304, b"", ETag=etag)
                return
            site.fresh[self.path] += 1
            kind = "text/html; charset=utf-8"
            if self.path.endswith((".txt", ".md")):
                kind = "text/plain"
            elif self.path.endswith(".xml"):
                kind = "application/xml"
            self.answer(200, data, kind, ETag=etag)

        def answer(self, status: int, data: bytes, kind: str = "text/html", **headers: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler


@contextmanager
def serve_site() -> Iterator[Site]:
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(site))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def redirect(target: str) -> Any:
    return lambda request: request.answer(302, b"", Location=target)


def send_endless(request: Any) -> None:
    """Send a page that never ends."""
    request.send_response(200)
    request.send_header("Content-Type", "text/html")
    request.end_headers()
    try:
        while True:
            request.wfile.write(b"<p>more</p>" * 10_000)
    except OSError:
        request.close_connection = True


def send_bomb(request: Any) -> None:
    """Send a small answer that is huge when it is decompressed."""
    data = gzip.compress(b"a" * 200_000_000, 1)
    request.answer(200, data, Content_Encoding="gzip")


def send_slowly(request: Any) -> None:
    time.sleep(0.2)
    request.answer(200, b"<h1>Slow</h1><p>The slow page is here.</p>")


def send_trailing(request: Any) -> None:
    """Send a compressed page, and after its end bytes that never end."""
    request.send_response(200)
    request.send_header("Content-Type", "text/html")
    request.send_header("Content-Encoding", "gzip")
    request.end_headers()
    try:
        request.wfile.write(gzip.compress(b"<h1>Whole</h1><p>The whole page is here.</p>"))
        while True:
            request.wfile.write(bytes(1 << 16))
    except OSError:
        request.close_connection = True


@contextmanager
def serve_dribble(start: bytes, repeated: bytes) -> Iterator[tuple[str, Callable[[], int]]]:
    """Answer every connection with ``start``, and then with ``repeated`` until it is closed.

    Yield the host with its port, and a function that counts connections.
    """
    accepted: list[socket.socket] = []

    def answer(connected: socket.socket) -> None:
        with connected:
            try:
                connected.sendall(start)
                while repeated:
                    connected.sendall(repeated)
                    time.sleep(0.005)
                while connected.recv(1 << 16):
                    pass
            except OSError:
                pass

    def accept(server: socket.socket) -> None:
        while True:
            try:
                connected = server.accept()[0]
            except OSError:
                return
            accepted.append(connected)
            threading.Thread(target=answer, args=(connected,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept, args=(server,), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}", lambda: len(accepted)
        finally:
            server.shutdown(socket.SHUT_RDWR)
    thread.join()
