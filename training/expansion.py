"""Learn which words to add to a question: for each word a few related words with weights.

    python training/expansion.py prepare PAIRS.jsonl PIECES.tsv WORK [--workers N]
    python training/expansion.py run WORK TABLE.npy OUT.tsv [--set key=value,...]

``prepare`` turns the English pairs into the product's own keyword terms. ``run`` counts which terms
of passages go with a term of their questions, keeps the most telling as candidates, and learns a
weight for each, so that a question finds its passage among the other passages of its batch. A
passage is scored by BM25 over the question's words, by the same over the added words, and by the
bundled table's vectors: what words or vectors find already teaches nothing. Most batches are from
one repository, so that a word that only names the repository's topic gets no weight.

OUT has a line for each term: the term, then its additions as ``term:weight``, best first.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from train import MOST_A, MOST_B, _start, counted, ids_of
from transformer import DEVICE, is_english, make_batches

from lookfar.store.keywords.analyser import terms_of

LINES = 10_000
CANDIDATES = 48
FEWEST_PASSAGES, FEWEST_QUESTIONS, FEWEST_TOGETHER = 30, 12, 6
MOST_TERMS = 40_000
FEWEST_SOURCES = 4
"""Repositories in which two terms must go together: a term of one project says nothing."""
COMMON = 0.05
"""Share of the passages above which a term is too common to be added."""
_TERM = re.compile(r"[a-z][a-z0-9+#]{2,23}")
DEFAULTS: dict[str, Any] = {
    "seed": 1,
    "epochs": 4,
    "batch": 4096,
    "lr": 0.02,
    "same": 0.75,
    "most": 40_000,
    "sparse": 2e-4,
    "kept": 8,
    "least": 0.04,
}


def read_lines(lines: list[str]) -> list[Any]:
    rows = []
    for line in lines:
        row = json.loads(line)
        if not is_english(row["a"] + row["b"]):
            continue
        asked = [term for term in dict.fromkeys(terms_of(row["a"])) if _TERM.fullmatch(term)]
        passage = Counter(term for term in terms_of(row["b"]) if _TERM.fullmatch(term))
        a, b = ids_of(row["a"], MOST_A), ids_of(row["b"], MOST_B)
        if asked and len(passage) > 3 and a and b:
            rows.append((asked, passage, counted(a), counted(b), row["s"]))
    return rows


def flatten(rows: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, counts and where each row ends."""
    ids = np.concatenate([row[0] for row in rows])
    counts = np.concatenate([row[1] for row in rows])
    return ids, counts, np.cumsum([0, *(len(row[0]) for row in rows)])


def prepare(given: argparse.Namespace) -> None:
    rows: list[Any] = []
    with (
        given.pairs.open(encoding="utf-8") as file,
        Pool(given.workers, _start, (given.pieces,)) as pool,
    ):
        for some in pool.imap(read_lines, iter(lambda: list(islice(file, LINES)), [])):
            rows += some
    in_passages: Counter[str] = Counter()
    in_questions: Counter[str] = Counter()
    for row in rows:
        in_questions.update(row[0])
        in_passages.update(row[1].keys())
    known = [term for term, count in in_passages.most_common() if count >= FEWEST_PASSAGES]
    known = known[:MOST_TERMS]
    number = {term: at for at, term in enumerate(known)}
    sources = sorted({row[4] for row in rows})

    def numbered(terms: Any) -> tuple[np.ndarray, np.ndarray]:
        kept = [(number[term], terms[term] if isinstance(terms, Counter) else 1)
                for term in terms if term in number]  # fmt: skip
        if not kept:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        ids, counts = zip(*kept, strict=True)
        return np.array(ids, np.int32), np.array(counts, np.int32)

    def pieces(raw: tuple[bytes, bytes]) -> tuple[np.ndarray, np.ndarray]:
        return (np.frombuffer(raw[0], np.uint16).astype(np.int32),
                np.frombuffer(raw[1], np.uint8).astype(np.int32))  # fmt: skip

    saved = {
        "terms": known,
        "questions": [in_questions[term] for term in known],
        "passages": [in_passages[term] for term in known],
        "source": np.array([sources.index(row[4]) for row in rows]),
        "a": flatten([numbered(row[0]) for row in rows]),
        "b": flatten([numbered(row[1]) for row in rows]),
        "a_pieces": flatten([pieces(row[2]) for row in rows]),
        "b_pieces": flatten([pieces(row[3]) for row in rows]),
    }
    given.work.mkdir(parents=True, exist_ok=True)
    torch.save(saved, given.work / "terms.pt")
    print(f"{len(rows):,} pairs, {len(known):,} terms", flush=True)


class Rows:
    """Ids and counts of texts of any length."""

    def __init__(self, ids: np.ndarray, counts: np.ndarray, ends: np.ndarray) -> None:
        self.ids = torch.from_numpy(ids).long().to(DEVICE)
        self.counts = torch.from_numpy(counts).float().to(DEVICE)
        self.ends = torch.from_numpy(ends).to(DEVICE)

    def take(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return ids, counts, and for each the position of its text in ``rows``."""
        starts = self.ends[rows]
        lengths = self.ends[rows + 1] - starts
        text = torch.repeat_interleave(torch.arange(len(rows), device=DEVICE), lengths)
        first = torch.cumsum(lengths, 0) - lengths
        at = torch.arange(len(text), device=DEVICE) + (starts - first)[text]
        return self.ids[at], self.counts[at], text

    def dense(self, rows: torch.Tensor, width: int) -> torch.Tensor:
        ids, counts, text = self.take(rows)
        made = torch.zeros(len(rows), width, device=DEVICE)
        made[text, ids] = counts
        return made


def find_candidates(data: dict[str, Any], a: Rows, b: Rows) -> torch.Tensor:
    """Return for each term the terms that go with it most tellingly; itself if there are few."""
    width, total = len(data["terms"]), len(data["source"])
    together = torch.zeros(width, width, device=DEVICE)
    sources = torch.zeros(width, width, dtype=torch.uint8, device=DEVICE)
    half = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    source = torch.from_numpy(data["source"]).to(DEVICE)
    for number in range(int(source.max()) + 1):
        here = torch.zeros(width, width, device=DEVICE)
        for rows in (source == number).nonzero()[:, 0].split(8192):
            asked = a.dense(rows, width).to(half)
            passages = (b.dense(rows, width) > 0).to(half)
            here += asked.T @ passages
        sources += here >= 2
        # A large repository counts less than in proportion.
        together += here.sqrt()
    questions = torch.tensor(data["questions"], device=DEVICE).float()
    share = torch.tensor(data["passages"], device=DEVICE).float() / total
    found = torch.empty(width, CANDIDATES, dtype=torch.long, device=DEVICE)
    for start in range(0, width, 2048):
        count = together[start : start + 2048]
        asked = questions[start : start + 2048].clamp(min=1)[:, None]
        lift = count / asked.sqrt() / share.sqrt()
        lift = lift / lift[count > 0].mean()
        value = count.sqrt() * lift.log()
        few = sources[start : start + 2048] < FEWEST_SOURCES
        value[few | (count < FEWEST_TOGETHER) | (share > COMMON)[None, :]] = -1e9
        value[asked[:, 0] < FEWEST_QUESTIONS] = -1e9
        own = torch.arange(start, start + len(count), device=DEVICE)
        value[torch.arange(len(count), device=DEVICE), own] = -1e9
        best, at = value.topk(CANDIDATES)
        found[start : start + 2048] = torch.where(best > 0, at, own[:, None])
    return found


def learn(data: dict[str, Any], table: torch.Tensor, chosen: dict[str, Any]) -> Any:
    torch.manual_seed(chosen["seed"])
    chance = np.random.default_rng(chosen["seed"])
    a, b = Rows(*data["a"]), Rows(*data["b"])
    a_pieces, b_pieces = Rows(*data["a_pieces"]), Rows(*data["b_pieces"])
    width, total = len(data["terms"]), len(data["source"])
    passages = torch.tensor(data["passages"], device=DEVICE).float()
    rarity = torch.log(1 + (total - passages + 0.5) / (passages + 0.5))
    average = float(b.counts.sum()) / total
    candidates = find_candidates(data, a, b)
    own = candidates == torch.arange(width, device=DEVICE)[:, None]
    raw = torch.nn.Parameter(torch.full((width, CANDIDATES), -2.5, device=DEVICE))
    mix = torch.nn.Parameter(torch.tensor([3.0, 3.0], device=DEVICE))
    optimiser = torch.optim.Adam(
        [{"params": [raw], "lr": chosen["lr"]}, {"params": [mix], "lr": 0.01}]
    )

    def weights() -> torch.Tensor:
        return torch.sigmoid(raw).masked_fill(own, 0.0)

    def embed(pieces: Rows, rows: torch.Tensor) -> torch.Tensor:
        ids, counts, text = pieces.take(rows)
        made = torch.zeros(len(rows), table.shape[1], device=DEVICE)
        made.index_add_(0, text, table[ids] * counts.sqrt()[:, None])
        return F.normalize(made, dim=-1)

    began = time.time()
    for epoch in range(chosen["epochs"]):
        gained = []
        for batch in make_batches(data["source"], chosen, chance):
            rows = torch.from_numpy(batch).to(DEVICE)
            counts = b.dense(rows, width)
            length = counts.sum(1, keepdim=True) / average
            passage = counts * 2.2 / (counts + 1.2 * (0.25 + 0.75 * length)) * rarity
            ids, _, text = a.take(rows)
            asked = torch.zeros(len(rows), width, device=DEVICE)
            asked[text, ids] = 1.0
            whole = (asked * rarity).sum(1, keepdim=True).clamp(min=1.0)
            added = torch.zeros(len(rows), width, device=DEVICE)
            share = weights()[ids] * (rarity[ids] / whole[text, 0])[:, None]
            added = added.index_put(
                (text[:, None].expand(-1, CANDIDATES), candidates[ids]), share, accumulate=True
            )
            added = added * (1 - asked)
            with torch.autocast(DEVICE, torch.bfloat16):
                by_words = (asked / whole) @ passage.T
                by_added = added @ passage.T
            near = embed(a_pieces, rows) @ embed(b_pieces, rows).T
            scale = mix.exp()
            plain = by_words.float() * scale[0] / 10 + near * scale[1]
            logits = plain + by_added.float() * scale[0] / 10
            target = torch.arange(len(rows), device=DEVICE)
            loss = F.cross_entropy(logits, target)
            punished = chosen["sparse"] * weights()[ids.unique()].sum() / len(rows) * 100
            optimiser.zero_grad(set_to_none=True)
            (loss + punished).backward()
            optimiser.step()
            gained.append((float(F.cross_entropy(plain.detach(), target)), float(loss)))
        before, after = np.mean(gained, 0)
        print(f"epoch {epoch} {time.time() - began:.0f} s: loss {before:.4f} without, {after:.4f} "
              f"with additions; scales {mix.exp().tolist()}; "
              f"weights above .05: {int((weights() > 0.05).sum()):,}", flush=True)  # fmt: skip
    return candidates.cpu().numpy(), weights().detach().cpu().numpy()


def run(given: argparse.Namespace) -> None:
    data = torch.load(given.work / "terms.pt", weights_only=False)
    table = torch.from_numpy(np.load(given.table)).float().to(DEVICE)
    chosen = dict(DEFAULTS)
    for change in filter(None, given.set.split(",")):
        key, _, value = change.partition("=")
        chosen[key] = type(DEFAULTS[key])(float(value))
    candidates, weights = learn(data, table, chosen)
    terms, lines = data["terms"], 0
    with given.out.open("w", encoding="utf-8") as out:
        for at, term in enumerate(terms):
            best = sorted(zip(weights[at], candidates[at], strict=True), key=lambda p: -p[0])
            kept = [(terms[to], weight) for weight, to in best[: chosen["kept"]]
                    if weight >= chosen["least"] and to != at]  # fmt: skip
            if kept and data["questions"][at] >= FEWEST_QUESTIONS:
                joined = " ".join(f"{other}:{weight:.3f}" for other, weight in kept)
                out.write(f"{term}\t{joined}\n")
                lines += 1
    print(f"{lines:,} terms have additions", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    doing = parser.add_subparsers(required=True)
    first = doing.add_parser("prepare")
    first.add_argument("pairs", type=Path)
    first.add_argument("pieces", type=Path)
    first.add_argument("work", type=Path)
    first.add_argument("--workers", type=int, default=2)
    first.set_defaults(do=prepare)
    second = doing.add_parser("run")
    second.add_argument("work", type=Path)
    second.add_argument("table", type=Path)
    second.add_argument("out", type=Path)
    second.add_argument("--set", default="")
    second.set_defaults(do=run)
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
