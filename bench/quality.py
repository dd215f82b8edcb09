"""How good are the answers? nDCG@10, MRR@10 and recall on judged question sets.

    python bench/quality.py DIR [--sets squad,k8s] [--work FOLDER] [--set key=value ...]
    python bench/quality.py DIR --ablate      what each stage is worth
    python bench/quality.py DIR --doubt       how often "nothing relevant" is right
    python bench/quality.py DIR --tiers       with and without the second model

DIR holds one folder per set with ``corpus.jsonl`` ({_id, title, text}),
``queries.jsonl`` ({_id, text}) and ``qrels.tsv`` (query, document, gain). Each set
is written out as Markdown files, indexed as a user would index them, and asked
through the same ranking as ``lookfar search``, in every mode; chunks fold to
documents by their best rank. Nothing is tuned per set.

The sets ``spans`` and ``issues_to_files`` are asked through ``Library.search`` (see
``cited_places.py``); the latter needs ``--repositories FOLDER``.

``--ablate`` turns each stage that is on off, and each that is off on, one at a time. Its last
column leaves one set out: what the change gains on a set when the other sets decide whether to make
it. A rule that was fitted to one set gains nothing there.

``--doubt`` asks every set's questions of its own documents and of every other set's, where nothing
answers them. It prints how many get high and low confidence: those whose document comes first, or
among the first ten, those that miss it, and the foreign ones. Then it chooses the thresholds of
``retrieve/answer/relevance.py`` on all sets but one, and prints what they give there, and what
other thresholds would give. Low confidence is a fit below 0: if "low below" says 0.02, the last
weight has to fall by 0.02. With ``--set embed.provider=none`` it measures the weights for words
alone, and with ``--tiers`` the confidence of answers by both models. The set ``git_history/flask``
has commits, by message and paths.

``--tiers`` embeds every passage with the second model (the bundled one, or the folder that
``--set quality.model=FOLDER`` names) and compares the answers of the first model alone with those
of both: nDCG@10, the share of relevant documents among the first 100, and milliseconds of processor
time for a question. With ``--passages FOLDER`` the passages are embedded elsewhere: the first run
writes their texts to ``FOLDER/SET.jsonl``, and the next one reads their unit vectors, in the same
order, from ``FOLDER/SET.npy``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import NamedTuple

import numpy as np
from cited_places import measure_issues, measure_spans

from lookfar import config
from lookfar.config import SearchSettings
from lookfar.embed.providers import find_quality_model, open_embedder
from lookfar.embed.quality import QualityModel, open_quality_model
from lookfar.evaluate.metrics import DEPTH, ndcg, recall, reciprocal_rank
from lookfar.index.build import Build
from lookfar.index.embed_process import Encode, Encoded, run_quality_pass
from lookfar.model import Filters
from lookfar.ports import SecondModel
from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.answer.relevance import FITS_WELL
from lookfar.retrieve.question.plan import add_quality, make_plan
from lookfar.retrieve.ranking import Ranking, Source
from lookfar.retrieve.search import choose_confidently, rank
from lookfar.sources.confine import Root
from lookfar.store.opening import open_store

SETS = ("squad", "jsquad", "k8s", "mdn_known", "mdn_ja_known", "cosqa")
ENDINGS = {"cosqa": ".py"}
"""What a set's documents are, where they are not Markdown."""
MODES = ("keyword", "vector", "hybrid")


def write_out(source: Path, folder: Path, ending: str) -> None:
    """One file per document; in Markdown its title is the heading."""
    if folder.exists():
        return
    corpus = source / "corpus.jsonl"
    corpus = corpus if corpus.exists() else source / "commits.jsonl"
    for line in corpus.open(encoding="utf-8"):
        document = json.loads(line)
        path = folder / f"{document['_id']}{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        title = document.get("title") or ""
        heading = f"# {title}\n\n" if title else ""
        paths = "\n".join(document.get("files", ()))
        text = f"{document['text']}\n\n{paths}" if paths else document["text"]
        path.write_text(heading + text, encoding="utf-8")


def judgements(source: Path) -> dict[str, dict[str, float]]:
    judged: dict[str, dict[str, float]] = defaultdict(dict)
    for line in (source / "qrels.tsv").open(encoding="utf-8"):
        query, document, gain = line.rstrip("\n").split("\t")
        judged[query][document] = float(gain)
    return judged


STAGES: dict[str, dict[str, object]] = {
    "similarity alone": {"boosts": False},
    "no synonyms": {"expansion": False},
    "no kinds of question": {"adaptive": False},
    "no typos": {"typos": False},
    "code: ladder of names": {"code_names": "ladder"},
    "ranks fused (rrf)": {"fusion": "rrf"},
    "equal weights": {"alpha": 0.5},
    "weights by variance": {"dynamic_weights": True},
    "concepts": {"concepts": True},
    "recency": {"recency": True},
    "communities": {"communities": True},
    "neighbours join": {"join_neighbours": True},
}
"""Changes of one stage each, before passages are chosen."""
CHOICES: dict[str, dict[str, object]] = {
    "as chosen": {},
    "copies shown": {"dedup_exact": False},
    "n-gram copies folded": {"dedup_ngram": True},
    "near copies folded": {"dedup_semantic": True},
    "mmr": {"mmr": True},
}
"""The same for what chooses passages; measured on the first 50 of them."""
CHOSEN = 50


class Set:
    """A question set, indexed."""

    def __init__(self, source: Path, work: Path, settings: config.Settings, most: int) -> None:
        self.name = source.name
        self.ending = ENDINGS.get(source.name, ".md")
        folder = work / "files" / source.name
        write_out(source, folder, self.ending)
        self.settings = settings
        self.store = open_store(work / "index" / source.name, settings)
        self.embedder = open_embedder(settings.embed)
        Build(Root.open(folder), source.name, self.store, settings, self.embedder).run()
        self.judged = judgements(source)
        lines = (source / "queries.jsonl").open(encoding="utf-8")
        self.queries = [json.loads(line) for line in lines][:most]

    def rankings(
        self,
        settings: SearchSettings,
        mode: str,
        queries: list[dict[str, str]],
        top_k: int = DEPTH,
        second: SecondModel | None = None,
    ) -> Iterator[tuple[dict[str, str], Ranking, list[Source]]]:
        with self.store.snapshot() as snapshot:
            for query in queries:
                plan = make_plan(
                    query["text"],
                    mode=mode,  # type: ignore[arg-type]
                    top_k=top_k,
                    filters=Filters(),
                    embedder=self.embedder,
                )
                if second is not None:
                    plan = add_quality(plan, second)
                sources = [Source(self.name, plan, snapshot, snapshot.text)]
                yield query, rank(sources, settings), sources

    def scored(
        self, settings: SearchSettings, mode: str, chosen: bool = False
    ) -> tuple[float, ...]:
        """nDCG, MRR, recall and milliseconds."""
        rows = []
        started = time.perf_counter()
        top_k = CHOSEN if chosen else DEPTH
        for query, ranking, sources in self.rankings(settings, mode, self.queries, top_k):
            if chosen:
                uris = [each.place.uri for each in choose_passages(ranking, sources, settings)[0]]
            else:
                uris = [ranking.candidates[at].place.uri for at in ranking.order()]
            ranked = list(dict.fromkeys(uri.removesuffix(self.ending) for uri in uris))
            gains = self.judged[query["_id"]]
            rows.append((ndcg(ranked, gains), reciprocal_rank(ranked, gains),
                         recall(ranked, gains)))  # fmt: skip
        elapsed = (time.perf_counter() - started) / len(rows) * 1000
        return (*(sum(column) / len(rows) for column in zip(*rows, strict=True)), elapsed)

    def measure_tier(
        self, settings: SearchSettings, mode: str, second: SecondModel | None
    ) -> tuple[float, ...]:
        """nDCG@10, recall@100 and milliseconds of processor time."""
        rows = []
        started = time.process_time()
        for query, ranking, _ in self.rankings(settings, mode, self.queries, second=second):
            uris = (ranking.candidates[at].place.uri for at in ranking.order())
            ranked = list(dict.fromkeys(uri.removesuffix(self.ending) for uri in uris))
            gains = self.judged[query["_id"]]
            rows.append((ndcg(ranked, gains), recall(ranked, gains, CANDIDATES)))
        elapsed = (time.process_time() - started) / len(rows) * 1000
        return (*(sum(column) / len(rows) for column in zip(*rows, strict=True)), elapsed)

    def embed_all(self, second: SecondModel, elsewhere: Path | None) -> tuple[int, float]:
        """Embed what is missing; return how many passages and the processor time it took."""
        encode = None if elsewhere is None else self._look_up(elsewhere)
        started = time.process_time()
        made = run_quality_pass(self.store, second, encode=encode)
        return made, time.process_time() - started

    def _look_up(self, folder: Path) -> Encode:
        """Return a function that looks vectors up, or write out the texts that need one."""
        texts, vectors = folder / f"{self.name}.jsonl", folder / f"{self.name}.npy"
        if vectors.exists():
            known = [json.loads(line) for line in texts.open(encoding="utf-8")]
            rows = dict(zip(known, np.load(vectors), strict=True))
            return lambda wanted: [rows[text].astype("<f2").tobytes() for text in wanted]
        found: dict[str, None] = {}

        def collect(wanted: Sequence[str]) -> list[Encoded]:
            found.update(dict.fromkeys(wanted))
            return [None] * len(wanted)

        with TemporaryDirectory() as scratch:
            copy = Path(scratch) / "index"
            shutil.copytree(self.store.folder, copy)
            second = open_second_model(self.settings)
            run_quality_pass(open_store(copy, self.settings), second, encode=collect)
        folder.mkdir(parents=True, exist_ok=True)
        texts.write_text("".join(f"{json.dumps(text)}\n" for text in found), encoding="utf-8")
        sys.exit(f"Wrote {len(found):,} texts to {texts}: save their vectors as {vectors}.")


CANDIDATES = 100


def open_second_model(settings: config.Settings) -> QualityModel:
    folder = find_quality_model(settings.quality)
    if folder is None:
        sys.exit("The second model is turned off: quality.enabled")
    return open_quality_model(folder)


def compare_tiers(
    sets: Iterator[Set], settings: config.Settings, modes: list[str], elsewhere: Path | None
) -> None:
    """Print the answers of the first model alone, and of both, side by side."""
    second = open_second_model(settings)
    gains: dict[str, list[tuple[float, float]]] = defaultdict(list)
    print(f"{'set':14} {'mode':8} {'first':>8} {'both':>8} {'gain':>8} {'recall':>8} {'both':>8}"
          f" {'CPU ms':>8} {'both':>8}  passages embedded")  # fmt: skip
    for each in sets:
        made, seconds = each.embed_all(second, elsewhere)
        with each.store.snapshot() as snapshot:
            counts = snapshot.quality_counts(second.fingerprint, second.dimensions)
        assert counts is not None
        for mode in modes:
            first, both = (each.measure_tier(settings.search, mode, model)
                           for model in (None, second))  # fmt: skip
            gains[mode].append((first[0], both[0]))
            pace = f", {made / seconds:.0f} per CPU s" if made else ""
            print(f"{each.name:14} {mode:8} {first[0]:8.4f} {both[0]:8.4f}"
                  f" {both[0] - first[0]:+8.4f} {first[1]:8.4f} {both[1]:8.4f}"
                  f" {first[2]:8.2f} {both[2]:8.2f}"
                  f"  {counts.embedded:,} of {counts.total:,}{pace}", flush=True)  # fmt: skip
    for mode, pairs in gains.items():
        before, after = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
        print(f"{'mean':14} {mode:8} {before:8.4f} {after:8.4f} {after - before:+8.4f}")


def ablate(sets: list[Set], settings: SearchSettings) -> None:
    """nDCG@10 of the default, and what changing each stage alone adds to it."""
    names = "".join(f"{each.name:>14}" for each in sets)
    print(f"{'nDCG@10':24}{names}{'mean':>9}{'held out':>10}")
    for changes, chosen in ((STAGES, False), (CHOICES, True)):
        base = [each.scored(settings, "hybrid", chosen)[0] for each in sets]
        print(f"{'passages' if chosen else 'default':24}"
              + "".join(f"{value:14.4f}" for value in base)
              + f"{sum(base) / len(base):9.4f}")  # fmt: skip
        for name, change in changes.items():
            changed = replace(settings, **change)  # type: ignore[arg-type]
            found = [each.scored(changed, "hybrid", chosen)[0] for each in sets]
            moved = [new - old for new, old in zip(found, base, strict=True)]
            mean = sum(moved) / len(moved)
            columns = "".join(f"{value:+14.4f}" for value in moved)
            print(f"{name:24}{columns}{mean:+9.4f}{held_out(moved):+10.4f}", flush=True)


def held_out(gains: list[float]) -> float:
    """Return the mean gain on a set if the change is made only where the other sets gain."""
    decided = [gain if sum(gains) - gain > 0 else 0.0 for gain in gains]
    return sum(decided) / len(decided)


FIRST, AMONG_TEN, MISSED, FOREIGN = GROUPS = ("first", "2 to 10", "missed", "foreign")
"""Where the right document of an own question is; and questions of other sets, which have none."""
LEVELS = ("high", "medium", "low")
DOUBTED_HITS = 0.012
"""Of own questions that are answered, the share that may be doubted."""
SURE_MISSES = 0.25
"""Of own questions whose document is missed, the share that may be rated high."""


class Judged(NamedTuple):
    set: str
    group: str
    confidence: str | None
    fit: float
    lead: float


def doubt(sets: list[Set], settings: SearchSettings, second: SecondModel | None) -> None:
    """Print what confidence own and foreign questions get, and what other thresholds would give."""
    rows = [row for at in sets for asking in sets for row in judge(at, asking, settings, second)]
    print(f"{'':22}" + "".join(f"{group:>9}{'high':>6}{'low':>6}" for group in GROUPS))
    for name in (*(each.name for each in sets), "all"):
        here = [row for row in rows if name in (row.set, "all")]
        groups = [[row for row in here if row.group == group] for group in GROUPS]
        print(f"{name:22}" + "".join(
            f"{len(group):9}{share(group, rated('high')):6.0%}{share(group, rated('low')):6.0%}"
            for group in groups
        ))  # fmt: skip
    own = [row for row in rows if row.group != FOREIGN]
    foreign = [row for row in rows if row.group == FOREIGN]
    print(f"\n{'':10}{'own':>7}{'first':>7}{'in ten':>7}{'foreign':>9}")
    for level in LEVELS:
        some = [row for row in own if row.confidence == level]
        print(f"{level:10}{len(some) / len(own):7.0%}"
              f"{share(some, lambda row: row.group == FIRST):7.0%}"
              f"{share(some, lambda row: row.group != MISSED):7.0%}"
              f"{share(foreign, rated(level)):9.0%}")  # fmt: skip
    print("\nThresholds chosen on the other sets, and what they give on this one:")
    for name in (each.name for each in sets) if len(sets) > 1 else ():
        least, lead = choose_thresholds([row for row in own if row.set != name])
        print_point(name, [row for row in rows if row.set == name], least, FITS_WELL, lead)
    least, lead = choose_thresholds(own)
    print("\nThresholds chosen on all sets, and others:")
    for change in (-0.1, -0.05, 0.0, 0.05, 0.1):
        print_point("", rows, least + change, FITS_WELL, lead)
    for well in (0.1, 0.15, 0.25, 0.3):
        print_point("", rows, least, well, lead)
    for change in (-0.08, -0.04, 0.04, 0.08):
        print_point("", rows, least, FITS_WELL, lead + change)


def judge(
    at: Set, asking: Set, settings: SearchSettings, second: SecondModel | None
) -> Iterator[Judged]:
    """Ask up to 200 questions of one set about the documents of another, or of the same."""
    mode = "hybrid" if at.embedder else "keyword"
    for query, ranking, _ in at.rankings(settings, mode, asking.queries[:200], second=second):
        confidence = choose_confidently(ranking)[2]
        uris = (ranking.candidates[number].place.uri for number in ranking.order())
        ranked = list(dict.fromkeys(uri.removesuffix(at.ending) for uri in uris))[:DEPTH]
        group = FOREIGN
        if asking is at:
            wanted = at.judged[query["_id"]]
            places = [place for place, uri in enumerate(ranked) if uri in wanted]
            group = MISSED if not places else AMONG_TEN if places[0] else FIRST
        if ranking.relevance is not None:
            yield Judged(at.name, group, confidence, *ranking.relevance)


def rated(level: str) -> Callable[[Judged], bool]:
    return lambda row: row.confidence == level


def share(rows: Sequence[Judged], test: Callable[[Judged], bool]) -> float:
    return sum(map(test, rows)) / max(1, len(rows))


def choose_thresholds(own: Sequence[Judged]) -> tuple[float, float]:
    """Return the least fit, and the lead of high confidence, that keep to the allowed shares."""
    fits = [row.fit for row in own if row.group != MISSED]
    leads = [row.lead if row.fit >= FITS_WELL else 0.0 for row in own if row.group == MISSED]
    return float(np.quantile(fits, DOUBTED_HITS)), float(np.quantile(leads or [0], 1 - SURE_MISSES))


def print_point(name: str, rows: Sequence[Judged], least: float, well: float, lead: float) -> None:
    """Print the shares that thresholds would give."""

    def is_high(row: Judged) -> bool:
        return row.fit >= well and row.lead >= lead

    def is_low(row: Judged) -> bool:
        return row.fit < least

    hits, missed, foreign = (
        [row for row in rows if row.group in groups]
        for groups in ((FIRST, AMONG_TEN), (MISSED,), (FOREIGN,))
    )
    print(f"{name:22}low below {least:+.3f}, high from {well:.2f} with a lead of {lead:.2f}:"
          f" hits {share(hits, is_high):.0%} high {share(hits, is_low):.1%} low,"
          f" missed {share(missed, is_high):.0%} high,"
          f" foreign {share(foreign, is_high):.0%} high {share(foreign, is_low):.0%} low",
          flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--work", type=Path, help="keep files and indexes here between runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--most", type=int, default=None, help="ask only so many questions")
    parser.add_argument("--repositories", type=Path, help="trees of the set issues_to_files")
    parser.add_argument("--ablate", action="store_true", help="what each stage is worth")
    parser.add_argument("--doubt", action="store_true", help="how often doubt is right")
    parser.add_argument(
        "--passages", type=Path, metavar="FOLDER",
        help="vectors for --tiers from elsewhere; texts are written there first",
    )  # fmt: skip
    parser.add_argument("--tiers", action="store_true", help="with and without the second model")
    given = parser.parse_args()
    work = given.work or Path(mkdtemp(prefix="lookfar-quality-"))
    explicit = {"sources.max_file_bytes": "16MB"}
    explicit |= dict(each.split("=", 1) for each in given.set)
    settings = config.load(None, {key: _value(text) for key, text in explicit.items()})
    names = given.sets.split(",")
    plain = {key: _value(text) for key, text in explicit.items()}
    if "spans" in names:
        names.remove("spans")
        print(measure_spans(given.directory / "spans", work, plain, given.most), flush=True)
    if "issues_to_files" in names:
        names.remove("issues_to_files")
        if given.repositories is None:
            parser.error("The set issues_to_files needs --repositories.")
        issues = given.directory / "issues_to_files"
        print(measure_issues(issues, given.repositories, plain, given.most), flush=True)
    if not names:
        return
    sets = (Set(given.directory / name, work, settings, given.most) for name in names)
    if given.doubt:
        asked = list(sets)
        second = open_second_model(settings) if given.tiers else None
        for each in asked if second is not None else ():
            each.embed_all(second, given.passages)
        doubt(asked, settings.search, second)
        return
    if given.tiers:
        compare_tiers(sets, settings, given.modes.split(","), given.passages)
        return
    if given.ablate:
        ablate(list(sets), settings.search)
        return
    print(f"{'set':14} {'mode':8} {'nDCG@10':>8} {'MRR@10':>8} {'recall':>8} {'ms':>7}")
    for each in sets:
        for mode in given.modes.split(","):
            gain, reciprocal, found, ms = each.scored(settings.search, mode)
            print(f"{each.name:14} {mode:8} {gain:8.4f} {reciprocal:8.4f} {found:8.4f} {ms:7.2f}")
        sys.stdout.flush()


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
