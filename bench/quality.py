"""How good are the answers? nDCG@10, MRR@10 and recall on judged question sets.

    python bench/quality.py DIR [--sets squad,k8s] [--work FOLDER] [--set key=value ...]

DIR holds one folder per set with ``corpus.jsonl`` ({_id, title, text}),
``queries.jsonl`` ({_id, text}) and ``qrels.tsv`` (query, document, gain). Each set
is written out as Markdown files, indexed as a user would index them, and asked
through the same ranking as ``lookfar search``, in every mode; chunks fold to
documents by their best rank. Nothing is tuned per set.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import mkdtemp

from lookfar import config
from lookfar.embed.providers import open_embedder
from lookfar.index.build import Build
from lookfar.model import Filters
from lookfar.retrieve.plan import make_plan
from lookfar.retrieve.search import Source, rank
from lookfar.sources.confine import Root
from lookfar.store.collection import CollectionStore

SETS = ("squad", "jsquad", "k8s", "mdn_known", "mdn_ja_known", "cosqa")
ENDINGS = {"cosqa": ".py"}
"""What a set's documents are, where they are not Markdown."""
MODES = ("keyword", "vector", "hybrid")
DEPTH = 10


def write_out(source: Path, folder: Path, ending: str) -> None:
    """One file per document; in Markdown its title is the heading."""
    if folder.exists():
        return
    for line in (source / "corpus.jsonl").open(encoding="utf-8"):
        document = json.loads(line)
        path = folder / f"{document['_id']}{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        title = document.get("title") or ""
        heading = f"# {title}\n\n" if title else ""
        path.write_text(heading + document["text"], encoding="utf-8")


def judgements(source: Path) -> dict[str, dict[str, float]]:
    judged: dict[str, dict[str, float]] = defaultdict(dict)
    for line in (source / "qrels.tsv").open(encoding="utf-8"):
        query, document, gain = line.rstrip("\n").split("\t")
        judged[query][document] = float(gain)
    return judged


def ndcg(ranked: list[str], gains: dict[str, float]) -> float:
    def discounted(values: list[float]) -> float:
        return sum(value / math.log2(rank + 2) for rank, value in enumerate(values[:DEPTH]))

    best = discounted(sorted(gains.values(), reverse=True))
    return discounted([gains.get(each, 0.0) for each in ranked]) / best if best else 0.0


def reciprocal_rank(ranked: list[str], gains: dict[str, float]) -> float:
    for place, each in enumerate(ranked[:DEPTH], 1):
        if gains.get(each, 0) > 0:
            return 1 / place
    return 0.0


def recall(ranked: list[str], gains: dict[str, float]) -> float:
    relevant = {each for each, gain in gains.items() if gain > 0}
    return len(relevant.intersection(ranked[:DEPTH])) / len(relevant) if relevant else 0.0


def measure(
    source: Path, work: Path, settings: config.Settings, modes: list[str], most: int
) -> dict[str, tuple[float, ...]]:
    folder = work / "files" / source.name
    ending = ENDINGS.get(source.name, ".md")
    write_out(source, folder, ending)
    store = CollectionStore(work / "index" / source.name)
    embedder = open_embedder(settings.embed)
    Build(Root.open(folder), source.name, store, settings, embedder).run()
    judged = judgements(source)
    queries = [json.loads(line) for line in (source / "queries.jsonl").open(encoding="utf-8")]
    scores: dict[str, tuple[float, ...]] = {}
    for mode in modes:
        rows = []
        started = time.perf_counter()
        with store.snapshot() as snapshot:
            for query in queries[:most]:
                plan = make_plan(
                    query["text"],
                    mode=mode,  # type: ignore[arg-type]
                    top_k=DEPTH,
                    filters=Filters(),
                    embedder=embedder,
                )
                asked = [Source(source.name, plan, snapshot, snapshot.text)]
                ranking = rank(asked, settings.search)
                ranked = list(
                    dict.fromkeys(
                        ranking.candidates[at].place.uri.removesuffix(ending)
                        for at in ranking.order()
                    )
                )
                gains = judged[query["_id"]]
                rows.append((ndcg(ranked, gains), reciprocal_rank(ranked, gains),
                             recall(ranked, gains)))  # fmt: skip
        elapsed = (time.perf_counter() - started) / len(rows) * 1000
        means = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        scores[mode] = (*means, elapsed)
    store.close()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--work", type=Path, help="keep files and indexes here between runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--most", type=int, default=None, help="ask only so many questions")
    given = parser.parse_args()
    work = given.work or Path(mkdtemp(prefix="lookfar-quality-"))
    explicit = {"sources.max_file_bytes": "16MB"}
    explicit |= dict(each.split("=", 1) for each in given.set)
    settings = config.load(None, {key: _value(text) for key, text in explicit.items()})
    print(f"{'set':14} {'mode':8} {'nDCG@10':>8} {'MRR@10':>8} {'recall':>8} {'ms':>7}")
    for name in given.sets.split(","):
        scores = measure(given.directory / name, work, settings, given.modes.split(","), given.most)
        for mode, (gain, reciprocal, found, ms) in scores.items():
            print(f"{name:14} {mode:8} {gain:8.4f} {reciprocal:8.4f} {found:8.4f} {ms:7.2f}")
        sys.stdout.flush()


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
