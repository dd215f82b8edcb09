"""How large is the page, and how long does somebody wait for an answer while typing?

    python bench/web.py [FOLDER] [--index-dir DIR] [--questions 60]

Counts the bytes of the page, all of it and what a browser loads first. Then serves FOLDER (or
documents made here: about 10,000 chunks) with the bundled model by ``lookfar serve``, in a
process of its own, and types questions letter by letter as the page does: every prefix from the
third letter on is asked for, one connection, one after the other, with the score of every hit
explained, facets counted and words marked. Beside it, in the same run, the same prefixes by the
tool that agents use (``POST /tools/search``), since only ratios mean something on a machine that
does other things, too. Last the deepest list there is: 10,000 ranked, and its last page.

How long the server computed is told, too: on a busy machine that is what an idle one would need.

Asked for: under 150,000 bytes at first and 200,000 in all; an answer under 50 ms at 100,000 chunks.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

# Its neighbours have names of modules of Python, which must not be found first.
HERE = Path(__file__).parent
sys.path[:] = [each for each in sys.path if Path(each or ".").resolve() != HERE]

from http.client import HTTPConnection  # noqa: E402

FIRST = ("/", "/web/app.js", "/web/dom.js", "/web/api.js", "/web/search.js", "/web/query.js",
         "/web/filters.js", "/web/list.js", "/web/rows.js", "/web/chart.js", "/web/page.css",
         "/web/mark.svg")  # fmt: skip
QUESTIONS = (
    "how do I cancel a fetch request", "css grid template areas", "array map filter reduce",
    "service worker cache first", "flexbox align items center", "what is the event loop",
    "indexeddb open database", "promise all settled", "aria label", "viewport meta tag",
    "regular expression lookbehind", "http cache control header", "shadow dom slots",
    "intersection observer", "media query prefers color scheme",
)  # fmt: skip

PAGE = 12
"""Rows that the page asks for at once; see ``page/query.js``."""


def prefixes(count: int) -> list[str]:
    typed = [
        question[:end]
        for question in QUESTIONS
        for end in range(3, len(question) + 1)
        if not question[:end].endswith(" ")
    ]
    step = max(1, len(typed) // count)
    return typed[::step]


def at(seconds: list[float], percent: int) -> float:
    return sorted(seconds)[min(len(seconds) * percent // 100, len(seconds) - 1)] * 1000


def worked(pid: int) -> float:
    """Seconds that the threads of a process have computed, where Linux tells it; 0 elsewhere."""
    told = 0
    for each in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            told += int(each.read_text(encoding="ascii").split()[0])
    return told / 1e9


class Client:
    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=600)
        self.last: dict[str, object] = {}

    def ask(self, path: str, body: object) -> float:
        """Seconds until the whole answer is here."""
        began = time.perf_counter()
        self._connection.request("POST", path, json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})  # fmt: skip
        answer = self._connection.getresponse()
        read = answer.read()
        spent = time.perf_counter() - began
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {read[:300]!r}")
        self.last = json.loads(read)
        return spent


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--index-dir", default="")
    parser.add_argument("--questions", type=int, default=200, help="prefixes to ask (200)")
    given = parser.parse_args()

    from lookfar.serve.http.web.static_files import page

    sizes = {path: len(body) for path, body in page().items()}
    print(f"page: {sum(sizes.values()):,} bytes in all, {sum(sizes[p] for p in FIRST):,} first")

    with tempfile.TemporaryDirectory() as made:
        folder = given.folder
        if folder is None:
            folder = f"{made}/docs"
            import runpy

            runpy.run_path(str(HERE / "http.py"))["write_documents"](Path(folder))
        port = free_port()
        places = ["--set", f"index.dir={given.index_dir or made + '/index'}"]
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lookfar",
                "serve",
                "--http",
                folder,
                "--port",
                str(port),
                *places,
                "--set",
                "serve.requests_per_second=0",
                "--log-level",
                "error",
            ],
            stderr=subprocess.DEVNULL,
            env={**os.environ},
        )
        try:
            measure(port, process.pid, prefixes(given.questions))
        finally:
            process.terminate()
            process.wait(30)


def measure(port: int, pid: int, typed: list[str]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                sys.exit("the server does not listen")
            time.sleep(0.1)
    client = Client(port)
    began = time.perf_counter()
    client.ask("/api/search", {"query": "index"})
    print(f"first question, with opening or indexing: {time.perf_counter() - began:.1f} s")
    client.ask("/tools/search", {"query": "index"})
    status = HTTPConnection("127.0.0.1", port, timeout=60)
    status.request("GET", "/status")
    chunks = sum(each["chunks"] for each in json.loads(status.getresponse().read())["collections"])
    ways = {
        "tool": ("/tools/search", lambda text: {"query": text, "top_k": 25, "budget": 20_000}),
        "page": ("/api/search", lambda text: {"query": text, "limit": PAGE}),
        "page by words": (
            "/api/search", lambda text: {"query": text, "mode": "keyword", "limit": PAGE},
        ),
    }  # fmt: skip
    spent: dict[str, list[float]] = {name: [] for name in ways}
    computed: dict[str, list[float]] = {name: [] for name in ways}
    for text in typed:  # one after the other, so that all meet the same machine
        for name, (path, body) in ways.items():
            before = worked(pid)
            spent[name].append(client.ask(path, body(text)))
            computed[name].append(worked(pid) - before)
    base = at(spent["tool"], 50)
    print(f"{chunks:,} chunks, {len(typed)} prefixes")
    for name, seconds in spent.items():
        print(
            f"{name:14} p50 {at(seconds, 50):6.1f} ms  p95 {at(seconds, 95):6.1f} ms"
            f"  {at(seconds, 50) / base:5.2f} of the tool"
            f"  (computing {at(computed[name], 50):.1f} and {at(computed[name], 95):.1f} ms)"
        )
    deep = {"query": typed[len(typed) // 2], "depth": 10_000, "limit": 50}
    first = client.ask("/api/search", deep)
    total = int(str(client.last["total"]))
    later = client.ask("/api/search", {**deep, "offset": max(total - 50, 0)})
    print(f"{total:,} ranked: first page {first * 1000:.0f} ms, last page {later * 1000:.0f} ms")


if __name__ == "__main__":
    main()
