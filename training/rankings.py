"""Write out the product's rankings of question sets, for judging models away from the product.

    python training/rankings.py SETS FOLDER NAME ... [--work FOLDER]

Takes: the folder of question sets that ``bench/quality.py`` takes, and names of sets. Gives: for
each set ``NAME.chunks.jsonl.gz`` (key, document and embedded text of each chunk) and
``NAME.queries.jsonl.gz`` (question, judged documents, and the keys and scores of the best 200
chunks in hybrid search). Run it with ``bench`` on the Python path.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from tempfile import mkdtemp

import quality  # type: ignore[import-not-found]

from lookfar import config
from lookfar.text.chunk.identity import heading_context

BEST = 200


def write_chunks(judged: quality.Set, path: Path) -> None:
    with judged.store.snapshot() as snapshot, gzip.open(path, "wt", encoding="utf-8") as file:
        for uri in snapshot.uris():
            text = snapshot.text(uri) or ""
            for place in snapshot.chunks(uri):
                own = text[place.start : place.end].strip()
                row = {
                    "k": place.key,
                    "u": uri.removesuffix(judged.ending),
                    "t": f"{heading_context(place.title, place.path)}\n{own}",
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def write_rankings(judged: quality.Set, settings: config.Settings, path: Path) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for query, ranking, _ in judged.rankings(settings.search, "hybrid", judged.queries):
            best = ranking.order()[:BEST]
            row = {
                "id": query["_id"],
                "text": query["text"],
                "gold": judged.judged[query["_id"]],
                "top": [
                    [ranking.candidates[at].place.key, round(float(ranking.scores[at]), 5)]
                    for at in best
                ],
            }
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--work", type=Path, help="keep files and indexes here between runs")
    given = parser.parse_args()
    settings = config.load(None, {"sources.max_file_bytes": "16MB"})
    work = given.work or Path(mkdtemp(prefix="lookfar-rankings-"))
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        judged = quality.Set(given.sets / name, work, settings, None)
        write_chunks(judged, given.folder / f"{name}.chunks.jsonl.gz")
        write_rankings(judged, settings, given.folder / f"{name}.queries.jsonl.gz")


if __name__ == "__main__":
    main()
