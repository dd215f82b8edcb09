"""Would it pay to spread documents over shards and to ask only some of them?

    python bench/routing.py EPOCH_FOLDER --questions FILE.jsonl... [--most 200]

Takes a finished index (the folder with ``catalogue.db`` and ``vectors.f16``). Spreads its
documents over 128 shards by the FNV-1a hash of their path. Gives each section a vector: the
mean of two to five of the chunks below it, chosen by maximal marginal relevance with weight
0.7. A question then goes to the shards of its 32 nearest sections, to 16 shards at most, and
is compared with the chunks in those. Prints how many of the true ten nearest chunks that
finds, how many rows it compares, and the CPU time, beside an exact scan of all chunks and the
coarse pass that ``lookfar`` itself uses.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from lookfar.config import Settings
from lookfar.embed.providers import open_embedder
from lookfar.store.vectors.vector_file import VectorFile, dimensions_in

SHARDS, MOST_SHARDS, NODES = 128, 16, 32
WEIGHT = 0.7

Vectors = NDArray[np.float32]


def shard_of(uri: str) -> int:
    """FNV-1a of 32 bits, over the bytes of a path."""
    found = 0x811C9DC5
    for byte in uri.encode("utf-8", "surrogateescape"):
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found % SHARDS


def representatives(leaves: Vectors, weight: float = WEIGHT) -> Vectors:
    """Two to five of them: near the middle of all, and not near each other."""
    number = min(5, max(2, -(-len(leaves) // 5)))
    if len(leaves) <= number:
        return leaves
    centre = leaves.mean(axis=0)
    centre /= max(float(np.linalg.norm(centre)), 1e-9)
    middle, alike = leaves @ centre, leaves @ leaves.T
    chosen = [int(np.argmax(middle))]
    while len(chosen) < number:
        worth = weight * middle - (1 - weight) * alike[:, chosen].max(axis=1)
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
    return leaves[chosen]


def leaves_of(connection: sqlite3.Connection) -> Iterator[tuple[str, Mapping[int, list[int]]]]:
    """Of each document the rows below each of its sections."""
    parents: dict[int, dict[int, int]] = defaultdict(dict)
    for document, ordinal, parent in connection.execute(
        "SELECT document, ordinal, parent FROM sections"
    ):
        parents[document][ordinal] = parent
    chunks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for document, section, row in connection.execute(
        "SELECT document, section, vector FROM chunks WHERE vector IS NOT NULL"
    ):
        chunks[document].append((section, row))
    for document, uri in connection.execute("SELECT id, uri FROM documents WHERE died IS NULL"):
        below: dict[int, list[int]] = defaultdict(list)
        for section, row in chunks[document]:
            at = section
            while at >= 0:
                below[at].append(row)
                at = parents[document].get(at, -1)
        yield uri, below


class Routing:
    """Shards and the vectors of sections, as described above."""

    def __init__(self, connection: sqlite3.Connection, rows: NDArray[np.float16]) -> None:
        vectors, shards = [], []
        of_rows = np.full(len(rows), -1)
        for uri, below in leaves_of(connection):
            shard = shard_of(uri)
            for leaves in below.values():
                of_rows[leaves] = shard
                mean = representatives(rows[leaves].astype(np.float32)).mean(axis=0)
                vectors.append(mean / max(float(np.linalg.norm(mean)), 1e-9))
                shards.append(shard)
        self.sections = np.array(vectors, dtype=np.float16)
        self._shards = np.array(shards)
        self._rows_of = [np.flatnonzero(of_rows == shard) for shard in range(SHARDS)]

    def route(self, file: VectorFile, query: Vectors) -> list[int]:
        """The shards of the nearest sections, the nearest first."""
        best, _ = file.nearest(query, self.sections, NODES)
        return list(dict.fromkeys(self._shards[best].tolist()))[:MOST_SHARDS]

    def nearest(
        self, file: VectorFile, query: Vectors, rows: NDArray[np.float16]
    ) -> tuple[NDArray[np.intp], int]:
        """The ten best of the shards it is routed to, and how many rows were compared."""
        among = np.concatenate([self._rows_of[shard] for shard in self.route(file, query)])
        among.sort()
        found, _ = file.nearest(query, rows, 10, among)
        return found, len(among) + len(self.sections)


def report(
    name: str,
    queries: Sequence[Vectors],
    truth: Sequence[set[int]],
    ask: Callable[[Vectors], tuple[NDArray[np.intp], int]],
) -> None:
    found, compared, spent = 0, [], []
    for query, expected in zip(queries, truth, strict=True):
        started = time.process_time()
        best, rows = ask(query)
        spent.append(time.process_time() - started)
        compared.append(rows)
        found += len(expected.intersection(best.tolist()))
    share = found / (10 * len(queries))
    print(
        f"{name:22} recall@10 {share:.4f}  {median(compared):9,.0f} rows compared"
        f"  {median(spent) * 1000:6.2f} ms CPU"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("epoch", type=Path)
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--most", type=int, default=200)
    given = parser.parse_args()
    embedder = open_embedder(Settings().embed)
    assert embedder is not None
    texts = [json.loads(line)["text"] for path in given.questions for line in path.open()]
    queries = [embedder.embed_query(text) for text in texts[:: max(1, len(texts) // given.most)]]
    path = given.epoch / "vectors.f16"
    with path.open("rb") as file:
        dimensions = dimensions_in(file)
    exact = VectorFile(path, dimensions, 0)
    coarse = VectorFile(path, dimensions, 1)
    place = f"{(given.epoch / 'catalogue.db').absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(place, uri=True)) as connection:
        (last,) = connection.execute("SELECT max(row) FROM embeddings").fetchone()
        rows = exact.rows(last + 1)
        started = time.process_time()
        routing = Routing(connection, rows)
        print(
            f"{len(rows):,} chunks, {len(routing.sections):,} sections;"
            f" their vectors took {time.process_time() - started:.1f} CPU-s"
        )
    for query in queries[:5]:
        exact.nearest(query, rows, 10)
    truth = [set(exact.nearest(query, rows, 10)[0].tolist()) for query in queries]
    report("exact scan", queries, truth, lambda q: (exact.nearest(q, rows, 10)[0], len(rows)))
    report("shards by sections", queries, truth, lambda q: routing.nearest(exact, q, rows))
    compared = coarse.describe_pass(len(rows), None).kept
    report(
        "coarse pass, as used", queries, truth, lambda q: (coarse.nearest(q, rows, 10)[0], compared)
    )


if __name__ == "__main__":
    main()
