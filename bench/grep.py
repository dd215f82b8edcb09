"""Compare search by line with ripgrep: every line of every admitted file, and the time of both.

    python bench/grep.py FOLDER [--index-dir DIR] [--patterns N] [--seed N]

Takes: a folder, and `rg` on the path. Draws patterns from the folder's own texts: words,
identifiers, parts of lines, and expressions made of them. Gives: for each kind of pattern how many
agree with ripgrep in every line of every file, and the times of both; exits with 1 if one differs.
Fetches nothing.

ripgrep reads the files that are indexed, and no others. It is told `--crlf`, because texts are
indexed with plain line feeds; files with lone carriage returns, which ripgrep does not take for
line ends, are named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from lookfar import Library

Lines = dict[str, list[int]]
_SHORT = 1_000_000
"""Bytes of file names that one call of ripgrep may be given."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--index-dir", type=Path)
    options.add_argument("--patterns", type=int, default=20, help="of each kind")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    if shutil.which("rg") is None:
        print("ripgrep (rg) is not installed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as spare:
        index_dir = given.index_dir or Path(spare)
        with Library.open(given.folder, index_dir=index_dir) as library:
            library.index()
            library.watch()
            library.drain(60)
            return compare(library, given.folder, given.patterns, given.seed)


def compare(library: Library, folder: Path, number: int, seed: int) -> int:
    texts = {uri: (folder / uri).read_bytes() for uri in admitted(library)}
    odd = [uri for uri, raw in texts.items() if is_odd(raw)]
    files = sorted(set(texts).difference(odd))
    size = sum(map(len, texts.values()))
    print(f"{folder}: {len(texts):,} files, {size / 1e6:.1f} MB; left out: {odd or 'none'}")
    wrong = 0
    chosen = random.Random(seed)
    heads = f"{'kind':<22} {'agree':>9} {'lines':>9}  {'ours p50':>9} {'p90':>7} {'max':>7}"
    print(f"{heads} {'cpu p50':>8}  {'rg p50':>7} {'p90':>7}  ratio (times in ms)")
    for kind, how, patterns in drawn([texts[uri] for uri in files], number, chosen):
        ours: list[float] = []
        cpu: list[float] = []
        theirs: list[float] = []
        lines = agree = 0
        for pattern in patterns:
            began, used = time.perf_counter(), time.process_time()
            library.grep(pattern, **how, limit=20)
            ours.append((time.perf_counter() - began) * 1000)
            cpu.append((time.process_time() - used) * 1000)
            found = all_lines(library, pattern, how, odd)
            began = time.perf_counter()
            expected = ripgrep(folder, files, pattern, how)
            theirs.append((time.perf_counter() - began) * 1000)
            lines += sum(map(len, expected.values()))
            if found == expected:
                agree += 1
                continue
            wrong += 1
            print(f"  differs: {pattern!r} {how}: {difference(found, expected)}")
        ratio = statistics.median(theirs) / statistics.median(ours)
        print(f"{kind:<22} {agree:>4}/{len(patterns):<4} {lines:>9,}  {middle(ours):>9.1f}"
              f" {high(ours):>7.1f} {max(ours):>7.1f} {middle(cpu):>8.1f}  {middle(theirs):>7.1f}"
              f" {high(theirs):>7.1f}  {ratio:.1f}x")  # fmt: skip
    return 1 if wrong else 0


def admitted(library: Library) -> list[str]:
    return [each.uri for each in library.listed() if each.collection == library.collection]


def is_odd(raw: bytes) -> bool:
    """Whether ripgrep sees other lines or characters: lone carriage returns, another encoding."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return b"\r" in raw.replace(b"\r\n", b"") or b"\0" in raw


def drawn(
    texts: Sequence[bytes], number: int, chosen: random.Random
) -> Iterator[tuple[str, Mapping[str, object], list[str]]]:
    """Kinds of patterns, how each is searched, and patterns that occur in the texts."""
    lines = [
        line.strip().decode()
        for text in chosen.choices(texts, k=number * 20)
        if (held := [each for each in text.split(b"\n") if 20 < len(each.strip()) < 200])
        for line in [chosen.choice(held)]
    ]
    words = [word for line in lines for word in re.findall(r"[A-Za-z]{5,}", line)]
    names = [name for line in lines for name in re.findall(r"\w+[._]\w+(?:\(|\b)", line)]
    parts = [line[at : at + 25] for line in lines if (at := chosen.randrange(len(line) // 2)) >= 0]

    def some(choices: Sequence[str]) -> list[str]:
        return [chosen.choice(choices) for _ in range(number)] if choices else []

    literal: Mapping[str, object] = {}
    yield "words", literal, some(words)
    yield "identifiers", literal, some(names or words)
    yield "parts of lines", literal, some(parts)
    yield "absent", literal, [f"{word}qzx{number}" for number, word in enumerate(some(words))]
    yield "three letters", literal, [word[:3] for word in some(words)]
    yield "words, no case", {"case": "insensitive"}, some(words)
    yield "whole words", {"whole_words": True}, some(words)
    regex: Mapping[str, object] = {"regex": True}
    escaped = [re.escape(word) for word in some(words)]
    yield "word and more", regex, [rf"{word}\w*\s*[({{\[]" for word in escaped]
    yield "one of two", regex, [f"(?:{a}|{b})" for a, b in pairwise(escaped)]
    yield "boundaries", regex, [rf"\b{word}\b.*\." for word in escaped]
    yield "lines that begin", regex, [rf"^\s*{word}" for word in escaped]
    yield (
        "expression, no case",
        {"regex": True, "case": "insensitive"},
        [rf"{word}s?\b" for word in escaped],
    )
    yield "no usable text", regex, [r"[A-Z]{8,}\d", r"^.{150,}$", r"\d+\.\d+\.\d+", r"^$"]


def all_lines(
    library: Library, pattern: str, how: Mapping[str, object], odd: Sequence[str]
) -> Lines:
    found = library.grep(pattern, **how, limit=100_000, max_matches_per_file=100_000)  # type: ignore[arg-type]
    assert found.matches == sum(len(file.lines) for file in found.files)
    return {
        file.uri: [line.number for line in file.lines]
        for file in found.files
        if file.uri not in odd
    }


def ripgrep(folder: Path, files: Sequence[str], pattern: str, how: Mapping[str, object]) -> Lines:
    options = ["--json", "--no-config", "--crlf", "--no-ignore", "--hidden", "-a"]
    options.append("-i" if how.get("case") == "insensitive" else "-s")
    options += ["-w"] if how.get("whole_words") else []
    options += [] if how.get("regex") else ["-F"]
    found: Lines = {}
    for some in batches(files):
        done = subprocess.run(
            ["rg", *options, "-e", pattern, "--", *some],
            cwd=folder, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode > 1:
            raise SystemExit(done.stderr.decode())
        for line in done.stdout.splitlines():
            if line.startswith(b'{"type":"match"'):
                told = json.loads(line)["data"]
                found.setdefault(told["path"]["text"], []).append(told["line_number"])
    return found


def batches(files: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many names at a time as a command line takes."""
    first, length = 0, 0
    for at, name in enumerate(files):
        length += len(os.fsencode(name)) + 9
        if length > _SHORT:
            yield files[first:at]
            first, length = at, len(os.fsencode(name)) + 9
    if files[first:]:
        yield files[first:]


def difference(found: Lines, expected: Lines) -> str:
    for uri in sorted({*found, *expected}):
        ours, theirs = set(found.get(uri, ())), set(expected.get(uri, ()))
        if ours != theirs:
            return (
                f"{uri}: only ours {sorted(ours - theirs)[:5]}, only rg {sorted(theirs - ours)[:5]}"
            )
    return "the same lines in another order"


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def high(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.9)]


if __name__ == "__main__":
    sys.exit(main())
