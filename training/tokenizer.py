"""The pieces of the model's vocabulary, chosen from the texts it learns from.

    python training/tokenizer.py PAIRS.jsonl PIECES.tsv [--pieces N] [--workers N]

Takes: the pairs. Gives: one piece a line with what it costs (its negative log probability), the
cheapest first. Refuses: nothing.

A part counts once in each pair, and only where several pairs of two repositories have it, or more
of one. Counts are raised to a power below one first: the vocabulary should know many words, not
spell the frequent ones in every form. The characters that occur often are all kept.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from multiprocessing import Pool
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from lookfar.embed.pieces import SHARED_ROWS, WORD_START, mark_start, parts, words

POWER = 0.6
LEAST = 5
LEAST_IN_ONE = 12
JAPANESE = 0.32
"""The share of Japanese in what the vocabulary is chosen from."""
LONGEST = 16
LINES = 20_000


def count(lines: list[str]) -> tuple[Counter[str], dict[str, set[str]]]:
    found: Counter[str] = Counter()
    where: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        row = json.loads(line)
        each = {*words(row["a"]), *words(row["b"])}
        found.update(each)
        for word in each:
            where[word].add(row["s"])
    split: Counter[str] = Counter()
    home: dict[str, set[str]] = defaultdict(set)
    for word, times in found.items():
        for part in parts(word):
            split[mark_start(part)] += times
            home[mark_start(part)] |= where[word]
    return split, dict(home)


def slices(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8") as file:
        while some := list(islice(file, LINES)):
            yield some


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pieces", type=int, default=43_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    counted: Counter[str] = Counter()
    homes: dict[str, set[str]] = defaultdict(set)
    with Pool(given.workers) as pool:
        for some, home in pool.imap(count, slices(given.pairs)):
            counted.update(some)
            for part, names in home.items():
                homes[part] |= names
    kept = {
        part: times**POWER
        for part, times in sorted(counted.items())
        if times >= (LEAST if len(homes[part]) > 1 else LEAST_IN_ONE)
    }
    spaced = sum(times for part, times in kept.items() if part.startswith(WORD_START))
    other = sum(times for part, times in kept.items() if not part.startswith(WORD_START))
    lift = JAPANESE / (1 - JAPANESE) * spaced / other
    print(f"{len(counted):,} parts, {len(kept):,} kept, Japanese counts times {lift:.2f}")

    def fed() -> Iterator[str]:
        for part, times in kept.items():
            times *= 1.0 if part.startswith(WORD_START) else lift
            yield " ".join([part] * max(1, round(times)))

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    letters: Counter[str] = Counter()
    for part, times in counted.items():
        for letter in part:
            letters[letter] += times
    alphabet = [letter for letter, times in letters.most_common(4000) if times >= 100]
    trainer = trainers.UnigramTrainer(
        vocab_size=given.pieces,
        initial_alphabet=alphabet,
        max_piece_length=LONGEST,
        unk_token="<unk>",
        special_tokens=["<unk>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(fed(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    rows = sorted(
        (-score, piece) for piece, score in model["vocab"] if piece not in ("<unk>", WORD_START)
    )
    rows = rows[: (1 << 16) - SHARED_ROWS]
    given.out.write_text(
        "".join(f"{piece}\t{cost:.2f}\n" for cost, piece in rows), encoding="utf-8"
    )
    print(f"{len(rows):,} pieces")


if __name__ == "__main__":
    main()
