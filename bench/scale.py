"""Does it stay quick when there is much? From ten thousand chunks to a million and a half.

    python bench/scale.py make VAULT CORPUS... --chunks 1500000 [--seed 12]
    python bench/scale.py run WORK CORPUS... --questions FILE.jsonl... [--sizes 10000 100000]
    python bench/scale.py measure VAULT INDEX --questions FILE.jsonl...
    python bench/scale.py compare VAULT INDEX CHECKOUT ITS_INDEX --questions FILE.jsonl...
    python bench/scale.py show RESULTS.json [--plot FILE.svg]

``make`` writes a vault of any size out of real text: the sentences, headings, lists and
code blocks of the Markdown files in the CORPUS folders, recombined with a seed into
documents with heading trees, links and folders. Most sentences of a document come from
the neighbourhood of one real page, so that documents are about something; a vault of a
smaller size is the beginning of a larger one.

``run`` does so for each size, indexes it, and writes figures to WORK/results.json as it
goes: build speed, peak memory, disk, the first answer of processes whose files the system
has forgotten, p50, p95 and p99 of warm ones, recall of the vector part against the exact
scan, what each step costs, and how long one edited file takes to be searchable. Every answer
runs the whole way, from the question's text to cited hits; warm ones come from a process that
serves, that is one that follows its folder. ``measure`` does it for an index that is there.
``compare`` asks this version and another CHECKOUT the same questions by turns, each with an index
of its own, and prints the time of both: whole answers, and the nearest vectors with their recall.
``show`` prints the tables and draws how each figure grows.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

Figures = dict[str, Any]

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
_ITEM = re.compile(r"^ *(?:[-*+]|[0-9]+[.)]) +(.+)$")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*\[])")
_NEAR = 220
_HERE = 0.75
"""The share of sentences that come from the neighbourhood of a document's home page."""
_PER_FOLDER = 60


@dataclass
class Pool:
    """What real pages are made of, in their order, so that neighbours are about one thing."""

    sentences: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        fence = ""
        block: list[str] = []
        paragraph: list[str] = []
        if text.startswith("---\n"):
            text = text.partition("\n---\n")[2]
        for line in text.splitlines():
            found = _FENCE.match(line)
            if fence:
                block.append(line)
                if found and line.strip().startswith(fence):
                    if len(block) < 40:
                        self.code.append("\n".join(block))
                    fence, block = "", []
                continue
            if found:
                fence, block = found[1], [line]
                continue
            if line.strip() and not line.startswith(("#", "|", "<", ">", "{", "- ", "* ", ":")):
                paragraph.append(line.strip())
                continue
            self._end(paragraph)
            paragraph = []
            if heading := _HEADING.match(line):
                self.headings.append(heading[1])
            elif (item := _ITEM.match(line)) and len(item[1]) > 20:
                self.items.append(item[1])
        self._end(paragraph)

    def _end(self, paragraph: Sequence[str]) -> None:
        for each in _SENTENCE.split(" ".join(paragraph)):
            if 25 < len(each) < 600:
                self.sentences.append(each)


def pool_of(corpora: Sequence[Path]) -> Pool:
    pool = Pool()
    for corpus in corpora:
        for path in sorted(corpus.rglob("*.md")):
            pool.add(path.read_text("utf-8", "replace"))
    if not (pool.sentences and pool.headings and pool.items and pool.code):
        raise SystemExit("The corpora hold no Markdown with sentences, headings, lists and code.")
    return pool


def path_of(number: int) -> str:
    folder = number // _PER_FOLDER
    return f"area-{folder // 40:03d}/topic-{folder % 40:02d}/page-{number:07d}.md"


def document(pool: Pool, seed: int, number: int) -> str:
    """The text of one document, the same for the same seed and number whatever the size."""
    chance = random.Random(f"{seed}:{number}")
    draw = chance.random
    home = draw()

    def near(things: Sequence[str], width: int) -> str:
        if draw() < _HERE:
            at = int(home * len(things) + (draw() - 0.5) * width)
            return things[at % len(things)]
        return things[int(draw() * len(things))]

    def prose() -> str:
        return " ".join(near(pool.sentences, _NEAR) for _ in range(2 + int(draw() * 4)))

    lines = [f"# {near(pool.headings, 40)} {number}", "", prose(), ""]
    for _ in range(max(2, min(60, int(chance.lognormvariate(2.3, 0.6))))):
        lines += [f"{'##' if draw() < 0.55 else '###'} {near(pool.headings, 60)}", ""]
        for _ in range(1 + int(draw() * 4)):
            lines += [prose(), ""]
        if draw() < 0.25:
            lines += [f"- {near(pool.items, 80)}" for _ in range(2 + int(draw() * 5))] + [""]
        if draw() < 0.2:
            lines += [near(pool.code, 40), ""]
        if number and draw() < 0.15:
            other = max(0, number - 1 - int(draw() * draw() * number))
            lines += [f"See [page {other}](../../{path_of(other)}).", ""]
    return "\n".join(lines)


def documents_for(pool: Pool, chunks: int, seed: int) -> int:
    """How many documents have so many chunks, by cutting a few of them up."""
    from lookfar.config import Settings
    from lookfar.embed.providers import open_embedder
    from lookfar.index.recipe import sizes_from
    from lookfar.text.chunk.headings import chunk
    from lookfar.text.parse.markdown import parse

    settings = Settings()
    embedder = open_embedder(settings.embed)
    assert embedder is not None
    sizes, sample = sizes_from(settings), 300
    cut = sum(
        len(chunk(parse("a.md", document(pool, seed, at)), sizes, embedder.count_tokens))
        for at in range(sample)
    )
    return max(1, round(chunks * sample / cut))


def make(vault: Path, pool: Pool, first: int, last: int, seed: int) -> int:
    """Write documents ``first`` to ``last``; gives their bytes."""
    written = 0
    for number in range(first, last):
        path = vault / path_of(number)
        if number % _PER_FOLDER == 0 or number == first:
            path.parent.mkdir(parents=True, exist_ok=True)
        written += path.write_bytes(document(pool, seed, number).encode())
    return written


# -- measuring -----------------------------------------------------------------

_COLD_ROUNDS = 12
_UPDATES = 8
_MOST_FILES = {"sources.max_files": 10_000_000}


def questions_in(files: Sequence[Path], most: int) -> list[str]:
    """Questions of all files by turns, so that the first few are of every kind."""
    lists = [[json.loads(line)["text"] for line in path.open(encoding="utf-8")] for path in files]
    longest = max(map(len, lists))
    mixed = [found[at] for at in range(longest) for found in lists if at < len(found)]
    return mixed[:most]


def percentiles(seconds: Sequence[float]) -> Figures:
    cuts = quantiles(seconds, n=100, method="inclusive")
    return {f"p{at}": round(cuts[at - 1] * 1000, 2) for at in (50, 95, 99)}


def forget(folder: Path) -> None:
    """Ask the system to drop its copies of these files from memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def memory() -> Figures:
    """Megabytes that only this process has, and those of files that it maps."""
    told = Path("/proc/self/smaps_rollup").read_text().splitlines()
    kilobytes = {line.split()[0]: int(line.split()[1]) for line in told[1:]}
    private, resident = kilobytes["Anonymous:"], kilobytes["Rss:"]
    return {
        "private_mb": round(private / 1024),
        "mapped_mb": round((resident - private) / 1024),
    }


def build(vault: Path, index: Path) -> Figures:
    """Index a vault from nothing."""
    from index import PeakMemory
    from lookfar import Library

    with Library.open(vault, index_dir=index, settings=_MOST_FILES) as library:
        before = os.times()
        started = time.perf_counter()
        with PeakMemory() as peak:
            report = library.index()
        wall = time.perf_counter() - started
        cpu = sum(os.times()[:4]) - sum(before[:4])
        megabytes = report.text_bytes / 1e6
        return {
            "chunks": report.chunks_embedded,
            "documents": report.added,
            "text_mb": round(megabytes, 1),
            "build_s": round(wall, 1),
            "build_cpu_s": round(cpu, 1),
            "build_mb_s": round(megabytes / wall, 2),
            "build_mb_per_cpu_s": round(megabytes / cpu, 2),
            "build_peak_mb": round(peak.bytes / 1e6),
            "disk_mb": round(library.status(check=False).disk_bytes / 1e6),
        }


def cold(vault: Path, index: Path, question: str) -> float:
    """Seconds to the first answer of this process, the reading of the model included."""
    from lookfar import Library

    started = time.perf_counter()
    with Library.open(vault, index_dir=index, settings=_MOST_FILES) as library:
        library.search(question)
        return time.perf_counter() - started


def warm(vault: Path, index: Path, questions: Sequence[str]) -> Figures:
    """What a process that serves takes for each question, and what it holds in memory."""
    from lookfar import Library

    found: Figures = {}
    with Library.open(vault, index_dir=index, settings=_MOST_FILES) as library:
        started = time.perf_counter()
        library.search(questions[0])
        found["first_s"] = round(time.perf_counter() - started, 3)
        folder = library.folder()
        folder.watch()
        folder.following.drain(900)
        found["follow_s"] = round(time.perf_counter() - started, 1)
        for question in questions[:20]:
            library.search(question)
        gc.collect()
        gc.freeze()
        walls, cpus = [], []
        for question in questions:
            wall, cpu = time.perf_counter(), time.process_time()
            answer = library.search(question)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
            assert answer.hits, question
        found["warm_ms"], found["warm_cpu_ms"] = percentiles(walls), percentiles(cpus)
        found["slowest"] = sorted(zip(cpus, questions, strict=True), reverse=True)[:3]
        found |= {"memory": memory(), "steps_cpu_ms": steps(library, questions[:120])}
        found |= near(library, questions)
        found |= filtered(library, questions[:60])
        found["update_s"] = updates(library, vault)
        found["vectors"] = repr(library.status(check=False).vectors)
    return found


def steps(library: Any, questions: Sequence[str]) -> Figures:
    """The median CPU milliseconds of each step of an answer."""
    from lookfar import Filters
    from lookfar.retrieve.answer.choose import choose_passages
    from lookfar.retrieve.answer.excerpt import cite
    from lookfar.retrieve.question.plan import field_weights, make_plan
    from lookfar.retrieve.ranking import Source
    from lookfar.retrieve.retrievers import candidates
    from lookfar.retrieve.search import apply_stages, collect_candidates

    spent: dict[str, list[float]] = defaultdict(list)

    def step(name: str, run: Callable[..., Any], *given: Any, **named: Any) -> Any:
        started = time.process_time()
        result = run(*given, **named)
        spent[name].append((time.process_time() - started) * 1000)
        return result

    chosen, folder = library.settings.search, library.folder()
    for text in questions:
        plan = step(
            "plan", make_plan, text, mode="hybrid", top_k=10, filters=Filters(),
            embedder=folder.embedder,
        )  # fmt: skip
        with folder.store.snapshot() as snapshot:
            asked = [Source("bench", plan, snapshot, folder.readable)]
            terms = candidates._weigh_terms(plan, snapshot)
            chunks, pages = field_weights(chosen)
            limit = chosen.candidates
            step("of which pages", snapshot.page_search, terms, pages, limit, Filters())
            step("of which words", snapshot.keyword_search, terms, chunks, limit, Filters())
            step("of which vectors", snapshot.vector_search, plan.vector, limit, Filters())
            ranking = step("candidates", collect_candidates, asked, chosen)
            ranking = step("stages", apply_stages, ranking)
            best, _ = step("choose", choose_passages, ranking, asked, chosen)
            step("cite", cite, best, asked, max_chars=4000, explain=None)
    return {name: round(median(each), 2) for name, each in spent.items()}


def near(library: Any, questions: Sequence[str]) -> Figures:
    """Recall of the vector part for questions, and the time of both ways."""
    from lookfar.store.vectors.vector_file import VectorFile

    embedder = library.folder().embedder
    with library.folder().store.snapshot() as snapshot:
        file, rows = snapshot._epoch.vectors, snapshot._rows
        plain = VectorFile(file.path, file.dimensions, 0)
        found, coarse, exact = 0, [], []
        for text in questions:
            query = embedder.embed_query(text)
            started = time.process_time()
            best, _ = file.nearest(query, rows, 10)
            between = time.process_time()
            truth, _ = plain.nearest(query, rows, 10)
            exact.append(time.process_time() - between)
            coarse.append(between - started)
            found += len(set(best.tolist()) & set(truth.tolist()))
    return {
        "recall_at_10": round(found / (10 * len(questions)), 4),
        "nearest_cpu_ms": round(median(coarse) * 1000, 2),
        "exact_cpu_ms": round(median(exact) * 1000, 2),
    }


def filtered(library: Any, questions: Sequence[str]) -> Figures:
    """The same search within a part of the vault: little of it, and most of it."""
    from lookfar import Filters

    found: Figures = {}
    for name, prefix in (("narrow", "area-000/topic-01/"), ("wide", "area-0")):
        filters = Filters(prefix=prefix)
        library.search(questions[0], filters=filters)
        walls = []
        for question in questions:
            started = time.perf_counter()
            library.search(question, filters=filters)
            walls.append(time.perf_counter() - started)
        found[f"{name}_filter_ms"] = percentiles(walls)
    return found


def updates(library: Any, vault: Path) -> Figures:
    """Seconds from writing one file to the answer that knows it; the median and the longest."""
    seconds = []
    path = vault / path_of(7)
    before = path.read_bytes()
    try:
        for number in range(_UPDATES):
            word = f"zyxw{number}q{os.getpid()}"
            path.write_bytes(before + f"\n## News\n\nThe {word} came.\n".encode())
            started = time.perf_counter()
            while not any(word in hit.text for hit in library.search(word).hits):
                if time.perf_counter() - started > 60:
                    raise SystemExit("An edited file was not found within a minute.")
            seconds.append(round(time.perf_counter() - started, 3))
    finally:
        path.write_bytes(before)
    return {"median": median(seconds), "longest": max(seconds)}


def child(*arguments: object) -> Any:
    """What this program says in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(vault: Path, index: Path, files: Sequence[Path], most: int) -> Figures:
    """All that can be said of an index that is there."""
    questions = questions_in(files, most)
    named = ["--questions", *files, "--most", most]
    first = []
    for number in range(_COLD_ROUNDS):
        forget(index)
        first.append(child("cold", vault, index, questions[number]))
    found: Figures = {"cold_ms": percentiles(first)}
    return found | child("warm", vault, index, *named)


# -- comparing two versions ----------------------------------------------------


def answer_lines(vault: Path, index: Path) -> None:
    """Answer the questions on standard input, a JSON object with its times for each."""
    from lookfar import Library
    from lookfar.store.vectors.vector_file import VectorFile

    # Without looks at the disk, as in a process that follows its folder.
    settings = _MOST_FILES | {"index.check_every_searches": 100_000}
    with Library.open(vault, index_dir=index, settings=settings) as library:
        folder = library.folder()

        def nearest(text: str, above: int | None) -> list[int]:
            query = folder.embedder.embed_query(text)
            with folder.store.snapshot() as snapshot:
                file, rows = snapshot._epoch.vectors, snapshot._rows
                if above is not None:
                    file = VectorFile(file.path, file.dimensions, above)
                return clock(lambda: file.nearest(query, rows, 10)[0].tolist())

        def search(text: str) -> list[str]:
            hits = clock(lambda: library.search(text).hits)
            return [f"{hit.uri}:{hit.text[:60]}" for hit in hits]

        times: list[float] = []

        def clock(work: Callable[[], Any]) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            result = work()
            times[:] = [time.perf_counter() - wall, time.process_time() - cpu]
            return result

        for line in sys.stdin:
            kind, text = json.loads(line)
            if kind == "search":
                result: Any = search(text)
            elif kind == "memory":
                result = memory()
            else:
                result = nearest(text, 0 if kind == "exact" else None)
            print(json.dumps({"times": times, "result": result}), flush=True)


class Version:
    """One version of the program, in a process of its own, and the times it has taken."""

    def __init__(self, vault: Path, index: Path, checkout: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "answer", str(vault), str(index)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.walls: dict[str, list[float]] = defaultdict(list)
        self.cpus: dict[str, list[float]] = defaultdict(list)

    def ask(self, kind: str, text: str = "", *, timed: bool = True) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([kind, text]) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        if timed:
            wall, cpu = reply["times"]
            self.walls[kind].append(wall)
            self.cpus[kind].append(cpu)
        return reply["result"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(given: argparse.Namespace) -> None:
    """Ask two versions by turns, so that other load meets both alike, and print both."""
    questions = questions_in(given.questions, given.most)
    here = Path(__file__).resolve().parent.parent
    versions = {
        "before": Version(given.vault, given.its_index, given.checkout),
        "now": Version(given.vault, given.index, here),
    }
    same, recall = 0.0, dict.fromkeys(versions, 0.0)
    for text in questions[: given.warm_up]:
        for version in versions.values():
            version.ask("search", text, timed=False)
            version.ask("nearest", text, timed=False)
    for number, text in enumerate(questions):
        order = list(versions.items())
        answers = {
            name: version.ask("search", text) for name, version in order[:: 1 - number % 2 * 2]
        }
        best = set(answers["before"][:10])
        same += len(best & set(answers["now"][:10])) / max(1, len(best))
        truth = set(versions["now"].ask("exact", text))
        for name, version in order:
            recall[name] += len(truth & set(version.ask("nearest", text))) / len(truth)
    for kind in ("search", "nearest"):
        for name, version in versions.items():
            print(
                f"{kind:8} {name:7} CPU {_three(percentiles(version.cpus[kind]))},"
                f" clock {_three(percentiles(version.walls[kind]))},"
                f" least {min(version.walls[kind]) * 1000:.0f} ms",
                flush=True,
            )
        middle = {name: median(version.cpus[kind]) for name, version in versions.items()}
        print(f"{kind:8} ratio of the medians, CPU: {middle['before'] / middle['now']:.2f}")
    for name, version in versions.items():
        held, share = version.ask("memory", timed=False), recall[name] / len(questions)
        print(f"{name:7} recall@10 of the vectors {share:.4f}, memory {_held(held)}")
        version.close()
    print(f"share of the first ten answers that is the same: {same / len(questions):.3f}")


def run(given: argparse.Namespace) -> None:
    """Make, build, measure and forget each size."""
    given.work.mkdir(parents=True, exist_ok=True)
    results, vault = given.work / "results.json", given.work / "vault"
    done: list[Figures] = json.loads(results.read_text()) if results.exists() else []
    pool = pool_of(given.corpora)
    made = 0
    for chunks in sorted(given.sizes):
        number = documents_for(pool, chunks, given.seed)
        make(vault, pool, made, number, given.seed)
        made, index = number, given.work / f"index-{chunks}"
        shutil.rmtree(index, ignore_errors=True)
        figures = child("build", vault, index)
        figures |= measure(vault, index, given.questions, given.most)
        done = [*(each for each in done if each["asked"] != chunks), {"asked": chunks, **figures}]
        results.write_text(json.dumps(done, indent=1))
        if not given.keep:
            shutil.rmtree(index)
        print(table(done), flush=True)
    if not given.keep:
        shutil.rmtree(vault)


# -- showing -------------------------------------------------------------------

_ROWS: Sequence[tuple[str, Callable[[Figures], str]]] = (
    ("chunks", lambda f: f"{f['chunks']:,}"),
    ("documents, text", lambda f: f"{f['documents']:,}, {f['text_mb']:,.0f} MB"),
    ("build", lambda f: f"{f['build_s']:,.0f} s, {f['build_mb_s']:.1f} MB/s"),
    ("build, CPU", lambda f: f"{f['build_cpu_s']:,.0f} s, {f['build_mb_per_cpu_s']:.1f} MB/s"),
    ("peak memory of the build", lambda f: f"{f['build_peak_mb']:,} MB"),
    ("disk", lambda f: f"{f['disk_mb']:,} MB"),
    ("first answer, cold: p50 / p95 / p99", lambda f: _three(f["cold_ms"])),
    ("hybrid, warm: p50 / p95 / p99", lambda f: _three(f["warm_ms"])),
    ("the same, CPU", lambda f: _three(f["warm_cpu_ms"])),
    ("within 60 documents", lambda f: _three(f["narrow_filter_ms"])),
    ("within most documents", lambda f: _three(f["wide_filter_ms"])),
    ("vectors, CPU: served / exact", lambda f: f"{f['nearest_cpu_ms']} / {f['exact_cpu_ms']} ms"),
    ("recall@10 of the vector part", lambda f: f"{f['recall_at_10']:.4f}"),
    ("serving: private / mapped", lambda f: _held(f["memory"])),
    ("one edited file: median / longest", lambda f: _both(f["update_s"])),
)  # fmt: skip


def _three(found: Figures) -> str:
    return " / ".join(f"{found[each]:,.0f}" for each in ("p50", "p95", "p99")) + " ms"


def _held(found: Figures) -> str:
    return f"{found['private_mb']:,} / {found['mapped_mb']:,} MB"


def _both(found: Figures) -> str:
    return f"{found['median']:.2f} / {found['longest']:.2f} s"


def table(done: Sequence[Figures]) -> str:
    """The figures as Markdown, a column for each size, and the steps below them."""
    sizes = sorted(done, key=lambda each: each["chunks"])
    lines = ["| | " + " | ".join(f"{each['asked']:,}" for each in sizes) + " |"]
    lines.append("|---" * (len(sizes) + 1) + "|")
    lines += [f"| {name} | " + " | ".join(map(show, sizes)) + " |" for name, show in _ROWS]
    lines += ["", *lines[:2]]
    lines += [
        f"| {step} | " + " | ".join(f"{each['steps_cpu_ms'].get(step, 0):.2f}" for each in sizes)
        + " |"
        for step in sizes[-1]["steps_cpu_ms"]
    ]  # fmt: skip
    return "\n".join(lines)


_WIDTH, _HEIGHT, _LEFT, _BELOW = 720, 420, 70, 50
_SERIES = (
    ("p50", "#2f6fb0", lambda f: f["warm_cpu_ms"]["p50"]),
    ("p95", "#c28f2c", lambda f: f["warm_cpu_ms"]["p95"]),
    ("p99", "#c0504d", lambda f: f["warm_cpu_ms"]["p99"]),
    ("vector part", "#6a9f58", lambda f: f["nearest_cpu_ms"]),
    ("exact scan", "#a9b4c0", lambda f: f["exact_cpu_ms"]),
)


def plot(done: Sequence[Figures]) -> str:
    """Milliseconds of CPU over chunks, both on logarithmic scales; the dashed line is p50 if it
    grew as the number of chunks does."""
    sizes = sorted(done, key=lambda each: each["chunks"])
    values = [value(each) for _, _, value in _SERIES for each in sizes]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = (math.log10(sizes[at]["chunks"]) for at in (0, -1))

    def x(chunks: float) -> float:
        share = (math.log10(chunks) - first) / max(last - first, 1e-9)
        return _LEFT + share * (_WIDTH - _LEFT - 110)

    def y(value: float) -> float:
        share = (math.log10(value) - low) / max(high - low, 1)
        return _HEIGHT - _BELOW - share * (_HEIGHT - _BELOW - 40)

    return "\n".join(_drawn(sizes, x, y, range(low, high + 1))) + "\n"


def _drawn(
    sizes: Sequence[Figures],
    x: Callable[[float], float],
    y: Callable[[float], float],
    powers: Sequence[int],
) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}"'
        f' viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12"'
        ' fill="#24292f" role="img">'
    )
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
    yield '<text x="12" y="22" font-size="14">CPU milliseconds for one answer, over chunks</text>'
    for power in powers:
        at = y(10**power)
        yield _path([(_LEFT, at), (_WIDTH - 110, at)], "#d8dee4")
        yield f'<text x="12" y="{at + 4:.1f}">{10**power:g} ms</text>'
    for each in sizes:
        at = x(each["chunks"])
        yield f'<text x="{at - 20:.1f}" y="{_HEIGHT - 20}">{each["chunks"]:,}</text>'
    begins, ends = sizes[0], sizes[-1]
    linear = begins["warm_cpu_ms"]["p50"] * ends["chunks"] / begins["chunks"]
    top = 10 ** max(powers)
    share = min(1.0, top / linear)
    points = [
        (x(begins["chunks"]), y(begins["warm_cpu_ms"]["p50"])),
        (x(ends["chunks"] * share), y(linear * share)),
    ]
    yield _path(points, "#24292f").replace("/>", ' stroke-dasharray="4 4"/>')
    last = 0.0
    for name, colour, value in sorted(_SERIES, key=lambda each: -each[2](ends)):
        points = [(x(each["chunks"]), y(value(each))) for each in sizes]
        yield _path(points, colour, 2)
        yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points)
        last = max(points[-1][1] + 4, last + 14)  # So that no two names lie on each other.
        yield f'<text x="{points[-1][0] + 8:.1f}" y="{last:.1f}" fill="{colour}">{name}</text>'
    yield "</svg>"


def _path(points: Sequence[tuple[float, float]], colour: str, width: int = 1) -> str:
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making, running = commands.add_parser("make"), commands.add_parser("run")
    making.add_argument("vault", type=Path)
    making.add_argument("--chunks", type=int, required=True)
    running.add_argument("work", type=Path)
    running.add_argument(
        "--sizes", type=int, nargs="+", default=[10_000, 100_000, 500_000, 1_500_000]
    )
    running.add_argument(
        "--keep", action="store_true", help="leave vault and indexes where they are"
    )
    for each in (making, running):
        each.add_argument("corpora", type=Path, nargs="+")
        each.add_argument("--seed", type=int, default=12)
    for name in ("build", "measure", "warm", "cold", "answer", "compare"):
        each = commands.add_parser(name)
        each.add_argument("vault", type=Path)
        each.add_argument("index", type=Path)
    commands.choices["cold"].add_argument("question")
    comparing = commands.choices["compare"]
    comparing.add_argument("checkout", type=Path)
    comparing.add_argument("its_index", type=Path)
    comparing.add_argument("--warm-up", type=int, default=20)
    asking = (commands.choices[name] for name in ("measure", "warm", "compare"))
    for each in (running, *asking):
        each.add_argument("--questions", type=Path, nargs="+", required=True)
        each.add_argument("--most", type=int, default=400)
    showing = commands.add_parser("show")
    showing.add_argument("results", type=Path)
    showing.add_argument("--plot", type=Path)
    given = parser.parse_args()
    match given.command:
        case "make":
            pool = pool_of(given.corpora)
            number = documents_for(pool, given.chunks, given.seed)
            written = make(given.vault, pool, 0, number, given.seed)
            print(f"{number:,} documents, {written / 1e6:,.0f} MB")
        case "run":
            run(given)
        case "measure":
            found = measure(given.vault, given.index, given.questions, given.most)
            print(json.dumps(found, indent=1))
        case "answer":
            answer_lines(given.vault, given.index)
        case "compare":
            compare(given)
        case "build":
            print(json.dumps(build(given.vault, given.index)))
        case "warm":
            questions = questions_in(given.questions, given.most)
            print(json.dumps(warm(given.vault, given.index, questions)))
        case "cold":
            print(json.dumps(cold(given.vault, given.index, given.question)))
        case "show":
            done = json.loads(given.results.read_text())
            print(table(done))
            if given.plot:
                given.plot.write_text(plot(done))


if __name__ == "__main__":
    main()
