"""Do questions about use find the page, and questions about a mechanism or a name the code?

    python bench/pages_and_code.py REPOSITORIES [--work FOLDER] [--both-models] [--misses]

REPOSITORIES has one checkout per repository of ``pages_and_code.toml``, at the commit named there.
Each is indexed as a user would index it and asked through ``Library.search``. ``kind`` is the share
of questions whose kind is among the first three passages, ``document`` that of questions with an
answering document among the first five; a question that pages and code answer needs one of each.
With ``--both-models`` every passage is embedded with the second model first.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from lookfar import Library
from lookfar.collections.embedding import embed_now
from lookfar.serve.daemon.session_options import parse_settings

PANEL = Path(__file__).with_suffix(".toml")
KINDS = ("docs", "code")
FOR_KIND, FOR_DOCUMENT = 3, 5


def judge(question: dict[str, Any], hits: Sequence[tuple[str, str]]) -> tuple[bool, bool]:
    """Return whether the right kind, and whether the right document, is among the first hits."""
    wanted = {kind: question[kind] for kind in KINDS if kind in question}
    kinds = {kind for kind, _ in hits[:FOR_KIND]}
    uris = {uri for _, uri in hits[:FOR_DOCUMENT]}
    return wanted.keys() <= kinds, all(not uris.isdisjoint(some) for some in wanted.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--work", type=Path, help="keep indexes here between runs")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--both-models", action="store_true", help="wait for the second model")
    parser.add_argument("--misses", action="store_true", help="show the questions that miss")
    given = parser.parse_args()
    panel = tomllib.loads(PANEL.read_text(encoding="utf-8"))
    work = given.work or Path(tempfile.mkdtemp())
    settings = parse_settings(tuple(given.settings))
    outcomes: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for name in panel["repositories"]:
        root, index = given.repositories / name, work / name
        with Library.open(root, index_dir=index, settings=settings) as library:
            library.index()
            if given.both_models:
                embed_now(library.folder(library.collections[0]))
            for question in panel["questions"]:
                if question["repository"] != name:
                    continue
                found = library.search(question["text"], top_k=FOR_DOCUMENT).hits
                hits = [(hit.lane, hit.uri) for hit in found]
                outcome = judge(question, hits)
                kinds = " and ".join(kind for kind in KINDS if kind in question)
                half = "held out" if question.get("held_out") else "tuned on"
                for group in (name, kinds, half, "all"):
                    outcomes[group].append(outcome)
                if given.misses and not all(outcome):
                    print(
                        f"{name}: {question['text']} ({kinds}, {half}; {outcome})",
                        *hits,
                        sep="\n   ",
                    )
    print(f"{'':14}{'questions':>10}{'kind':>8}{'document':>10}")
    for group, judged in sorted(outcomes.items()):
        kind, document = (mean(values) for values in zip(*judged, strict=True))
        print(f"{group:14}{len(judged):10}{kind:8.1%}{document:10.1%}")


if __name__ == "__main__":
    main()
