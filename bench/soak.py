"""Half an hour of everything at once: does a server stay right, bounded and alive?

Takes: minutes, and a seed. Gives: one page: what was done, what was answered, what memory and
descriptors did, and whether the index equals the disk at the end. Refuses: to pass when more
requests were lost than a kill can take with it, when a document was answered with another text
than the disk has, when anything that was said to be kept is gone, or when something grew in the
last third, in which nobody kills. Seen to fail with a fifth of the inserts acknowledged and not
stored.

    python bench/soak.py --minutes 30

Agents speak MCP through real relays to the one daemon, over a folder of its own. They search,
read, remember and insert documents, while files are edited, moved and removed on the disk, and
the daemon is stopped or killed with -9 now and then; the next request has to start another.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

WORDS = "anchor barley cobalt dynamo ember falcon glacier harbour indigo jasmine kernel".split()
ANSWER_SECONDS = 120.0
LOST = {"DAEMON_LOST", "DAEMON_UNAVAILABLE"}
"""What a request may be told that was under way when its daemon was killed."""
BUSY = {"INDEX_BUSY"}
MOST_BUSY = 0.02
"""Of all requests."""
SETTLED_SECONDS = 60.0
MORE = {"MiB": 150.0, "descriptors": 40.0, "threads": 16.0}
"""By how much a daemon may grow in the last third: it serves a folder of the same size."""


class Agent:
    """One client over one relay, which it starts."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lookfar", "mcp", str(root), "--toolset", "all", "--write"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._listen, daemon=True).start()
        client = {"name": "soak", "version": "1"}
        asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self._request("initialize", asked)
        self._send({"method": "notifications/initialized"})

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            left = deadline - time.monotonic()
            try:
                answer: dict[str, Any] = json.loads(self._lines.get(timeout=max(left, 0.001)))
            except queue.Empty:
                raise TimeoutError(f"{method}: no answer in {ANSWER_SECONDS:.0f} s") from None
            if answer.get("id") == self._number and "method" not in answer:
                return answer

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, str]:
        """A code, which is empty when all went well, and everything that was said."""
        answer = self._request("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            return str(answer["error"].get("data", {}).get("code", "PROTOCOL")), str(answer)
        result = answer["result"]
        said = "\n".join(each.get("text", "") for each in result["content"])
        if not result.get("isError"):
            return "", said
        try:
            shape = json.loads(said)
        except ValueError:
            return "ERROR", said
        return str(shape.get("code") or shape.get("error", {}).get("code") or "ERROR"), said

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Soak:
    """The load, and what it saw."""

    def __init__(self, place: Path, minutes: float, seed: int) -> None:
        self.root, self.place = place / "docs", place
        self.root.mkdir()
        (place / "home").mkdir()
        runtime = place / "run"
        runtime.mkdir(mode=0o700)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOOKFAR_", "XDG_"))}
        self.env = {
            **kept,
            "HOME": str(place / "home"),
            "XDG_RUNTIME_DIR": str(runtime),
            "LOOKFAR_EMBED_PROVIDER": "hash",
            "LOOKFAR_INDEX_WORKERS": "1",
        }
        self.begins = time.monotonic()
        self.ends = self.begins + 60 * minutes
        self.quiet = self.begins + 40 * minutes
        """From here on nobody kills."""
        self.seed = seed
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.problems: list[str] = []
        self.times: dict[str, list[float]] = {}
        self.samples: list[tuple[float, int, float, int, int]] = []
        """When, of which process, and what it held."""
        self.remembered: list[str] = []
        self.inserted: list[str] = []
        self.stale = 0
        self._lock = threading.Lock()
        self._files = threading.Lock()

    @property
    def on(self) -> bool:
        return time.monotonic() < self.ends and len(self.problems) < 20

    def guarded(self, work: Callable[..., None], *given: object) -> threading.Thread:
        """A thread that does not end without a word."""

        def run() -> None:
            try:
                work(*given)
            except Exception as error:
                self._note(f"{work.__name__} ended: {type(error).__name__}: {error}")

        return threading.Thread(target=run)

    def write(self, chance: random.Random, number: int) -> str:
        """One change of the folder; gives the word by which it is found."""
        mark = f"mark{''.join(chr(97 + int(d)) for d in str(number))}"
        path = self.root / f"part{chance.randrange(8)}" / f"{chance.randrange(60)}.md"
        text = f"# Page {number}\n\n{mark} {' '.join(chance.choices(WORDS, k=30))}\n"
        with self._files:
            path.parent.mkdir(exist_ok=True)
            kind = chance.random()
            if kind < 0.6:
                path.write_text(text, encoding="utf-8")
            elif kind < 0.9:
                spare = path.with_suffix(".tmp")
                spare.write_text(text, encoding="utf-8")
                os.replace(spare, path)
            else:
                moved = self.root / f"part{chance.randrange(8)}-{number}"
                with suppress(OSError):
                    os.rename(path.parent, moved)
                return ""
            if chance.random() < 0.1:
                files = sorted(self.root.rglob("*.md"))
                victim = chance.choice(files)
                if victim != path:
                    victim.unlink(missing_ok=True)
        return mark

    def agent(self, number: int) -> None:
        """One client: mostly questions, now and then something to keep."""
        chance = random.Random(self.seed * 1000 + number)
        agent: Agent | None = None
        turn = 0
        while self.on:
            turn += 1
            try:
                agent = agent or Agent(self.root, self.env)
                self._ask(agent, chance, number * 1_000_000 + turn)
                if chance.random() < 0.01:
                    agent.close()
                    agent = None
            except Exception as error:
                self._note(f"agent {number}: {type(error).__name__}: {error}")
                if agent is not None:
                    agent.close()
                agent = None
        if agent is not None:
            agent.close()

    def _ask(self, agent: Agent, chance: random.Random, turn: int) -> None:
        kind, text = chance.random(), " ".join(chance.choices(WORDS, k=2))
        tool: str
        given: dict[str, Any]
        if kind < 0.55:
            tool, given = "search", {"query": text, "top_k": 5}
        elif kind < 0.75:
            with self._files:
                files = sorted(self.root.rglob("*.md"))
            uri = chance.choice(files).relative_to(self.root).as_posix() if files else "x.md"
            tool, given = "read", {"target": uri}
            there = self._marks(uri)
        elif kind < 0.85:
            tool, given = "status", {}
        elif kind < 0.93:
            tool, given = "remember", {"text": f"Memory {turn}: {text}."}
        else:
            tool = "insert_document"
            given = {"text": f"Document {turn}: {text}.", "db_name": "soak"}
        begun = time.perf_counter()
        code, said = agent.call(tool, given)
        spent = time.perf_counter() - begun
        with self._lock:
            self.done[tool] += 1
            self.times.setdefault(tool, []).append(spent)
            if code:
                self.refused[f"{tool}: {code}"] += 1
            elif tool == "remember":
                self.remembered.append(given["text"])
            elif tool == "insert_document":
                self.inserted.append(given["text"])
        gone = tool == "read" and code in ("NOT_FOUND", "STALE", "GONE")
        if code and code not in LOST | BUSY and not gone:
            self._note(f"{tool} was refused: {code}: {said[:300]}")
        if code in LOST and time.monotonic() > self.quiet + SETTLED_SECONDS:
            self._note(f"{tool} was lost, and nobody had killed: {said[:300]}")
        if tool == "read" and not code and there and there == self._marks(given["target"]):
            self.done["read compared with the disk"] += 1
            if there not in said:
                self._note(f"{given['target']} has {there}, and was read as {said[:300]}")
        if tool == "remember" and not code:
            self._find_at_once(agent, given["text"])

    def _marks(self, uri: str) -> str:
        """What a document says on its third line; empty where it is gone, or half written."""
        with suppress(OSError, IndexError):
            return (self.root / uri).read_text("utf-8").splitlines()[2]
        return ""

    def _find_at_once(self, agent: Agent, text: str) -> None:
        """What was just remembered is found, or the answer says that something is missing."""
        code, said = agent.call("search_memories", {"query": text})
        with self._lock:
            self.done["search_memories"] += 1
            if code:
                self.refused[f"search_memories: {code}"] += 1
        if code and code not in LOST | BUSY:
            self._note(f"search_memories was refused: {code}: {said[:300]}")
        elif not code and text not in said and "note" not in json.loads(said):
            self._note(f"{text!r} was remembered and not found: {said[:300]}")

    def editor(self) -> None:
        """Files change, and a question right after finds the change."""
        chance = random.Random(self.seed)
        agent: Agent | None = None
        number = 0
        while self.on:
            number += 1
            mark = self.write(chance, number)
            self.done["edit on disk"] += 1
            if mark and number % 5 == 0:
                try:
                    agent = agent or Agent(self.root, self.env)
                    code, said = agent.call("search", {"query": mark, "top_k": 3})
                    fresh = mark in said or "Incomplete" in said or code in LOST
                    if not fresh and not self._still(mark):
                        fresh = True
                    if not fresh:
                        self.stale += 1
                        self._note(f"{mark} was written and not found: {said[:300]}")
                except Exception as error:
                    self._note(f"editor: {type(error).__name__}: {error}")
                    agent = None
            time.sleep(chance.uniform(0.02, 0.3))
        if agent is not None:
            agent.close()

    def _still(self, mark: str) -> bool:
        with self._files:
            return any(mark in path.read_text("utf-8") for path in self.root.rglob("*.md"))

    def killer(self) -> None:
        """Stops and kills, and looks at what the daemon holds in between."""
        chance = random.Random(self.seed + 1)
        rest = self.begins + 10.0
        while self.on:
            pid = self.daemon()
            if pid:
                with suppress(OSError, ValueError):
                    self.samples.append((time.monotonic(), pid, *held(pid)))
            if pid and rest < time.monotonic() < self.quiet:
                rest = time.monotonic() + chance.uniform(10.0, 30.0)
                if chance.random() < 0.3:
                    subprocess.run([sys.executable, "-m", "lookfar", "daemon", "stop"],
                                   env=self.env, capture_output=True, check=False)  # fmt: skip
                    self.done["stop of the daemon"] += 1
                else:
                    victims = [pid, *children(pid)] if chance.random() < 0.3 else [pid]
                    for victim in victims[::-1]:
                        with suppress(ProcessLookupError):
                            os.kill(victim, signal.SIGKILL)
                    self.done["kill -9 of the daemon"] += 1
            time.sleep(1.0)

    def daemon(self) -> int:
        """The daemon of this soak, or 0."""
        mark = f"XDG_RUNTIME_DIR={self.env['XDG_RUNTIME_DIR']}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes() and (
                    b"lookfar.serve.daemon.process" in (entry / "cmdline").read_bytes()
                ):
                    return int(entry.name)
        return 0

    def _note(self, problem: str) -> None:
        with self._lock:
            self.problems.append(problem)

    def end(self) -> None:
        """When all is quiet: the index equals the disk, and what was kept is there."""
        agent = Agent(self.root, self.env)
        deadline = time.monotonic() + SETTLED_SECONDS
        while "Incomplete" in agent.call("search", {"query": WORDS[0]})[1]:
            if time.monotonic() > deadline:
                self._note("the index does not catch up with the disk")
                break
            time.sleep(1.0)
        texts = sum(1 for _ in self.root.rglob("*.md"))
        for text in self.remembered[-5:]:
            self._find_again(agent, text)
        agent.close()
        self._lookfar("daemon", "stop")
        kept = "".join(each.read_text("utf-8") for each in (self.place / "home").rglob("*.md"))
        lost = [text for text in self.remembered if text not in kept]
        stored = self._lookfar("documents", "export", "--db", "soak").stdout
        found = {json.loads(line)["text"].strip() for line in stored.splitlines()}
        lost += [text for text in self.inserted if text not in found]
        if lost:
            self._note(f"{len(lost)} were kept and are lost: {lost[:5]}")
        checked = subprocess.run(
            [sys.executable, "-c", _CHECK, str(self.root)],
            env=self.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if checked.returncode or checked.stdout.strip() != f"sound {texts}":
            self._note(f"at the end: {checked.stdout[-300:]}{checked.stderr[-500:]}")

    def _lookfar(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "lookfar", *arguments], env=self.env,
                              capture_output=True, text=True, check=False)  # fmt: skip

    def judge(self, agents: int) -> None:
        """What only all of it together can tell."""
        ends = self.done["kill -9 of the daemon"] + self.done["stop of the daemon"]
        told = Counter[str]()
        for name, count in self.refused.items():
            told[name.partition(": ")[2]] += count
        lost = sum(told[code] for code in LOST)
        if not ends or not self.done["read compared with the disk"]:
            self._note("nothing was killed, or nothing compared with the disk")
        if lost > ends * (agents + 1):
            self._note(f"{lost} requests were lost, and the daemon ended {ends} times")
        if sum(told[code] for code in BUSY) > MOST_BUSY * sum(self.done.values()):
            self._note(f"too often busy: {dict(told)}")
        last = self.in_the_last_third()
        if len(last) < 8:
            self._note(f"only {len(last)} looks at the daemon that nobody killed")
            return
        part = len(last) // 4
        for at, (name, more) in enumerate(MORE.items(), 2):
            early, late = (max(each[at] for each in some) for some in (last[:part], last[-part:]))
            if late > early + more:
                self._note(f"{name} grew from {early:.0f} to {late:.0f} in the last third")

    def in_the_last_third(self) -> list[tuple[float, int, float, int, int]]:
        """Looks at the last daemon, once it had time to begin."""
        pid = self.samples[-1][1] if self.samples else 0
        since = self.quiet + min(SETTLED_SECONDS, (self.ends - self.quiet) / 4)
        return [each for each in self.samples if each[0] > since and each[1] == pid]

    def _find_again(self, agent: Agent, text: str) -> None:
        """A memory is found, or the answer says that it is not complete yet."""
        deadline = time.monotonic() + 60.0
        while True:
            code, said = agent.call("search_memories", {"query": text})
            if text in said:
                return
            shape = {} if code else {k: v for k, v in json.loads(said).items() if k != "results"}
            if not shape or time.monotonic() > deadline:
                break
            time.sleep(1.0)
        home = self.place / "home"
        kept = any(text in each.read_text("utf-8") for each in home.rglob("*.md"))
        self._note(f"{text!r} {'is kept and' if kept else 'is lost, and'} was not found: "
                   f"{code} {shape} {said[:200]}")  # fmt: skip

    def page(self, minutes: float) -> str:
        lines = [f"Soak of {minutes:g} minutes, seed {self.seed}", ""]
        lines += [f"{name:28} {count:>8,}" for name, count in sorted(self.done.items())]
        lines += ["", "answers (ms)                     p50      p99      max"]
        for tool, times in sorted(self.times.items()):
            cut = statistics.quantiles(times, n=100) if len(times) > 1 else [*times * 99]
            figures = (cut[49], cut[98], max(times))
            lines.append(f"{tool:28}" + "".join(f"{1000 * each:>9.0f}" for each in figures))
        lines += ["", "told instead of an answer"]
        lines += [f"{name:40} {count:>6,}" for name, count in sorted(self.refused.items())]
        if self.samples:
            last = self.in_the_last_third() or self.samples
            for at, name in ((2, "memory, MiB"), (3, "descriptors"), (4, "threads")):
                most = max(each[at] for each in self.samples)
                shown = f"most {most:,.0f}; in the last third from {last[0][at]:,.0f}"
                lines.append(f"{name:28} {shown} to {last[-1][at]:,.0f}")
        lines += ["", f"problems: {len(self.problems)}", *self.problems[:20]]
        return "\n".join(lines)


_CHECK = """
import sys
from pathlib import Path
from lookfar.library import Library
root = Path(sys.argv[1])
with Library.open(root) as library:
    problems = library.verify()
    with library.folder().store.snapshot() as snapshot:
        texts = {uri: snapshot.text(uri) for uri in snapshot.uris()}
    disk = {p.relative_to(root).as_posix(): p.read_text('utf-8') for p in root.rglob('*.md')}
    print(problems if problems else f'sound {len(disk)}' if texts == disk else 'not the disk')
"""


def held(pid: int) -> tuple[float, int, int]:
    """Memory in MiB, descriptors and threads of a process."""
    place = Path(f"/proc/{pid}")
    pages = int((place / "statm").read_text().split()[1])
    size = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return size, len(os.listdir(place / "fd")), len(os.listdir(place / "task"))


def children(pid: int) -> list[int]:
    """The workers of a daemon."""
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(each) for each in told.split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="soak"))
    try:
        soak = Soak(place, given.minutes, given.seed)
        chance = random.Random(given.seed)
        for number in range(200):
            soak.write(chance, 10_000_000 + number)
        first = Agent(soak.root, soak.env)
        first.call("create_database", {"db_name": "soak"})
        first.close()
        workers = [soak.guarded(soak.agent, number) for number in range(given.agents)]
        workers += [soak.guarded(soak.editor), soak.guarded(soak.killer)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        soak.end()
        soak.judge(given.agents)
        print(soak.page(given.minutes))
        return 1 if soak.problems else 0
    finally:
        for pid in [soak.daemon()]:
            if pid:
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
