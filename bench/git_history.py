"""How fast are commits indexed and found, and how good are the answers?

    python bench/git_history.py speed REPOSITORY [--commits 10000] [--without-diffs]
    python bench/git_history.py quality FOLDER [--work FOLDER] [--set key=value ...]

``speed`` indexes the newest commits of a repository from nothing, again with nothing new,
and asks questions of the store: titles of commits from all over the history. The baseline,
measured in the same run, is git writing the same stream to nobody: ratios against it
survive a noisy machine, seconds do not.

``quality`` takes a folder with ``commits.jsonl`` ({_id, date, author, parents, title, text,
files}), ``queries.jsonl`` and ``qrels.tsv``. It makes a repository of these commits, with
their messages and paths and without their diffs, and asks it as a user would.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from lookfar import config
from lookfar.embed.providers import open_embedder
from lookfar.index.commits import HistoryBuild
from lookfar.model import Filters
from lookfar.ports import Embedder
from lookfar.retrieve.question.plan import make_plan
from lookfar.retrieve.ranking import Source
from lookfar.retrieve.retrievers.candidates import gather_candidates
from lookfar.retrieve.search import rank, search
from lookfar.sources.git.history import Repository, list_commits, list_refs, read_commits
from lookfar.sources.git.repositories import find_repository
from lookfar.store.sqlite.store import CollectionStore

DEPTH = 10
MODES = ("keyword", "vector", "hybrid")
_DATE = re.compile(r"(.+?T[\d:.]+)(?:Z|([+-])(\d+):(\d\d))?")


def repository_at(path: str) -> Repository:
    found = find_repository(str(Path(path).resolve()))
    assert found is not None, f"{path} is no repository"
    return found


# --- speed --------------------------------------------------------------------------------------


def speed(path: str, most: int, diffs: bool) -> None:
    repository = repository_at(path)
    explicit = {"git.max_commits": most, "git.diff_lines": 200 if diffs else 0}
    settings = config.load(None, explicit)
    embedder = open_embedder(settings.embed)
    assert embedder is not None
    embedder.embed(["the model is loaded before the clock starts"])
    started = time.perf_counter()
    tips = sorted({each.commit for each in list_refs(repository)})
    hashes = list_commits(repository, tips, most=most)
    lines = settings.git.diff_lines
    read = sum(1 for _ in read_commits(repository, hashes, diff_lines=lines))
    alone = time.perf_counter() - started
    print(f"git alone, parsed  {read / alone:8,.0f} commits/s ({read:,} in {alone:.2f} s)")
    with TemporaryDirectory() as work:
        store = CollectionStore(Path(work) / "history")
        cold = HistoryBuild(repository, "history", store, settings, embedder).run()
        rate = cold.added / cold.seconds
        print(f"index              {rate:8,.0f} commits/s ({cold.added:,} in {cold.seconds:.2f} s)")
        again = HistoryBuild(repository, "history", store, settings, embedder).run()
        print(f"nothing new        {again.seconds * 1000:8,.1f} ms")
        print(f"on disk            {store.disk_bytes() / 1e6:8,.1f} MB")
        asked = [each.title for each in read_commits(repository, hashes[:: max(1, most // 300)],
                                                     diff_lines=0)]  # fmt: skip
        took = [_question(store, settings, embedder, title) for title in asked if title.strip()]
        for what, column in (("a question, store", 0), ("ranked and cited", 1)):
            times = sorted(each[column] for each in took)
            middle, late = statistics.median(times), times[int(len(times) * 0.95)]
            print(f"{what:18} {middle:8,.2f} ms median, {late:,.2f} ms at 95 %")
        store.close()


def _question(
    store: CollectionStore, settings: config.Settings, embedder: Embedder, text: str
) -> tuple[float, float]:
    """Milliseconds until the store has given its candidates, and until they are cited."""
    plan = make_plan(text, mode="hybrid", top_k=DEPTH, filters=Filters(), embedder=embedder)
    started = time.perf_counter()
    with store.snapshot() as snapshot:
        gather_candidates(plan, snapshot, settings.search)
    stored = time.perf_counter() - started
    started = time.perf_counter()
    with store.snapshot() as snapshot:
        search([Source("history", plan, snapshot, snapshot.text)], settings.search, False)
    return stored * 1000, (time.perf_counter() - started) * 1000


# --- quality ------------------------------------------------------------------------------------


def quality(folder: Path, work: Path, given: dict[str, str]) -> None:
    repository, names = _repository_of(folder, work / "repository")
    settings = config.load(None, {"git.diff_lines": 0, **given})
    embedder = open_embedder(settings.embed)
    store = CollectionStore(work / "index")
    report = HistoryBuild(repository, "history", store, settings, embedder).run(rebuild=True)
    print(f"{report.added:,} commits in {report.seconds:.2f} s")
    judged: dict[str, dict[str, float]] = defaultdict(dict)
    for line in (folder / "qrels.tsv").open(encoding="utf-8"):
        query, document, gain = line.rstrip("\n").split("\t")
        judged[query][document] = float(gain)
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    with store.snapshot() as snapshot:
        for mode in MODES:
            scores = []
            for query in queries:
                plan = make_plan(
                    query["text"],
                    mode=mode,  # type: ignore[arg-type]
                    top_k=DEPTH,
                    filters=Filters(),
                    embedder=embedder,
                )
                ranking = rank([Source("history", plan, snapshot, snapshot.text)], settings.search)
                order = (ranking.candidates[at].place.uri for at in ranking.order())
                ranked = list(dict.fromkeys(names[uri] for uri in order))
                scores.append(_ndcg(ranked, judged[query["_id"]]))
            print(f"{mode:8} nDCG@10 {sum(scores) / len(scores):.4f}")
    store.close()


def _ndcg(ranked: list[str], gains: dict[str, float]) -> float:
    def discounted(values: Iterable[float]) -> float:
        return sum(value / math.log2(place + 2) for place, value in enumerate(values))

    best = discounted(sorted(gains.values(), reverse=True)[:DEPTH])
    return discounted(gains.get(each, 0.0) for each in ranked[:DEPTH]) / best if best else 0.0


def read_time(date: str) -> int:
    """Seconds since 1970 of an ISO date. Git keeps zones beyond a day, such as +518:00."""
    matched = _DATE.fullmatch(date)
    assert matched, date
    local, sign, hours, minutes = matched.groups(default="0")
    east = (int(hours) * 60 + int(minutes)) * (-60 if sign == "-" else 60)
    return int(datetime.fromisoformat(local).replace(tzinfo=UTC).timestamp()) - east


def _repository_of(folder: Path, place: Path) -> tuple[Repository, dict[str, str]]:
    """A repository of the judged commits, and what each of them was called where it comes from."""
    commits = [json.loads(line) for line in (folder / "commits.jsonl").open(encoding="utf-8")]
    commits.reverse()
    marks = place / "marks"
    if not marks.exists():
        subprocess.run(["git", "init", "--quiet", "--bare", str(place)], check=True)
        stream = bytearray()
        for number, each in enumerate(commits, 1):
            second = read_time(each["date"])
            who = f"{each['author'].strip('<>') or 'nobody'} <nobody@example.org> {second} +0000"
            message = f"{each['title']}\n\n{each['text']}".strip().encode()
            stream += f"commit refs/heads/main\nmark :{number}\ncommitter {who}\n".encode()
            stream += b"data %d\n%b\n" % (len(message), message)
            for path in each["files"]:
                content = str(number).encode()
                quoted = json.dumps(path, ensure_ascii=False)
                stream += f"M 100644 inline {quoted}\n".encode()
                stream += b"data %d\n%b\n" % (len(content), content)
        command = [
            "git",
            "--git-dir",
            str(place),
            "fast-import",
            "--quiet",
            f"--export-marks={marks}",
        ]
        subprocess.run(command, input=bytes(stream), check=True)
    names = {}
    for line in marks.read_text().splitlines():
        mark, name = line.split()
        names[name] = commits[int(mark[1:]) - 1]["_id"]
    return repository_at(str(place)), names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("speed", "quality"))
    parser.add_argument("path")
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--without-diffs", action="store_true")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    if given.what == "speed":
        speed(given.path, given.commits, not given.without_diffs)
        return
    chosen = dict(each.split("=", 1) for each in given.set)
    if given.work:
        given.work.mkdir(parents=True, exist_ok=True)
        quality(Path(given.path), given.work, chosen)
    else:
        with TemporaryDirectory() as work:
            quality(Path(given.path), Path(work), chosen)


if __name__ == "__main__":
    main()
