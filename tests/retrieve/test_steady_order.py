"""The number of hits asked for does not change their order, scores or excerpts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from lookfar.library import Library
from lookfar.model import Hit, Mode
from sample_files import write_files

pytestmark = pytest.mark.usefixtures("own_home")

COUNTS = (1, 5, 6, 10, 11, 21, 50)
MODES: tuple[Mode, ...] = ("keyword", "hybrid")
ASKED = ("alpha beta gamma delta", "gamma delta alpha")
OpenLibrary = Callable[..., Library]


@pytest.fixture
def open_library(tmp_path: Path) -> Iterator[OpenLibrary]:
    opened: list[Library] = []

    def make(files: Mapping[str, str], **search: object) -> Library:
        root = write_files(tmp_path / f"root{len(opened)}", files)
        settings = {"embed.provider": "hash", "index.workers": 1}
        settings |= {f"search.{name}": value for name, value in search.items()}
        index = tmp_path / f"index{len(opened)}"
        opened.append(Library.open(root, index_dir=index, settings=settings))
        opened[-1].index()
        return opened[-1]

    yield make
    for library in opened:
        library.close()


def prose() -> dict[str, str]:
    """Many notes that are nearly the same, some with the words next to each other."""
    chance = random.Random(1)
    words = [f"w{at}" for at in range(30)] + ["alpha", "beta", "gamma", "delta"] * 3
    files = {}
    for at in range(150):
        text = [chance.choice(words) for _ in range(chance.randint(8, 60))]
        for pair, share in ((["alpha", "beta"], 0.5), (["gamma", "delta"], 0.2)):
            if chance.random() < share:
                where = chance.randrange(len(text))
                text[where:where] = pair
        title = chance.choice(("alpha", "beta", "note", "gamma"))
        files[f"d{at:03}.md"] = f"# {title} {at}\n\n{' '.join(text)}\n"
    return files


def program() -> dict[str, str]:
    """A function in a large file, and many tests that name it more often than it does itself."""
    files = {
        f"tests/test_case_{at}.py": f"def test_thing_{at}():\n"
        f"    retry_backoff(retry, backoff, {at})\n"
        for at in range(40)
    }
    others = "".join(f"\n\ndef other_{at}(a, b):\n    return a + b * {at}\n" for at in range(30))
    files["src/zz.py"] = f"def retry_backoff(n):\n    return n * 2\n{others}"
    return files


def describe_hit(hit: Hit) -> tuple[object, ...]:
    return hit.uri, hit.span, hit.score, hit.text


def refuse_any_difference(library: Library, question: str, mode: Mode) -> None:
    whole = [describe_hit(hit) for hit in library.search(question, mode=mode, top_k=50).hits]
    for count in COUNTS:
        fewer = [describe_hit(hit) for hit in library.search(question, mode=mode, top_k=count).hits]
        assert fewer == whole[:count], f"{question!r} by {mode}, {count} hits"
    pages: list[tuple[object, ...]] = []
    for offset in range(0, 25, 5):
        hits = library.search(question, mode=mode, top_k=offset + 6).hits[offset : offset + 5]
        pages += map(describe_hit, hits)
    assert pages == whole[:25]
    assert len({hit[:2] for hit in pages}) == len(pages)


def test_order_of_prose_does_not_depend_on_top_k(open_library: OpenLibrary) -> None:
    """Fails if the reach is a multiple of ``top_k``: pages repeated or dropped hits."""
    library = open_library(prose())
    for mode in MODES:
        for question in ASKED:
            refuse_any_difference(library, question, mode)


def test_order_with_mmr_does_not_depend_on_top_k(open_library: OpenLibrary) -> None:
    """Fails if near copies are folded only up to ``top_k`` before MMR: those left over filled the
    pool."""
    chance = random.Random(3)
    files = {}
    for at in range(60):
        text = " ".join(f"w{chance.randrange(400)}" for _ in range(40))
        files[f"d{at}.md"] = f"# Note {at}\n\nThe walrus {text}.\n"
        files[f"e{at}.md"] = f"# Note {at}\n\nThe walrus {text} again.\n"
    library = open_library(files, dedup_ngram=True, mmr=True, mmr_lambda=0.3)
    refuse_any_difference(library, "walrus", "hybrid")


def test_definition_comes_before_tests_for_any_top_k(open_library: OpenLibrary) -> None:
    """Fails if definitions are read only for the best chunks before tests are demoted."""
    library = open_library(program())
    for mode in MODES:
        refuse_any_difference(library, "retry_backoff", mode)
    for count in COUNTS:
        best = library.search("retry_backoff", mode="keyword", top_k=count).hits[0]
        assert (best.uri, best.span.start_line) == ("src/zz.py", 1)


def test_copies_do_not_reduce_the_number_of_hits(open_library: OpenLibrary) -> None:
    """Fails with a pool of twice ``top_k``: copies filled it, and the first page was too short."""
    files = {f"copies/{at:03}.md": "# Walrus\n\nThe walrus sleeps.\n" for at in range(90)}
    files |= {
        f"others/{at}.md": f"# Walk {at}\n\nA {at} walrus, among others.\n" for at in range(9)
    }
    refuse_any_difference(open_library(files), "walrus sleeps", "keyword")


def test_excerpt_contains_the_match(open_library: OpenLibrary) -> None:
    """Fails if neighbours are joined without a limit: the excerpt was cut before the best part."""
    filler = "lorem ipsum dolor sit amet " * 55
    parts = [f"## S{at}\n\n{'zebra quagga ' * 4}{filler}.\n\n" for at in range(3)]
    target = f"## Target\n\n{'zebra quagga ' * 6}the answer is 42. {filler}\n"
    text = "# Guide\n\n" + "".join(parts) + target + "\n" + "".join(parts)
    for limit in (400, 1600, 4000, 9000):
        library = open_library(
            {"g.md": text, "o.md": "# Other\n\nnothing\n"}, max_excerpt_chars=limit
        )
        for mode in MODES:
            hits = library.search("zebra quagga", mode=mode).hits
            assert hits
            assert "the answer is 42" in hits[0].text
            for hit in hits:
                # Neighbours that were joined have their common heading, which is above them.
                best = hit.path[-1] if hit.path else ""
                assert f"# {best}\n" in text[: hit.span.end]
                assert text[hit.span.start : hit.span.end].startswith(hit.text)
            spans = sorted((hit.span.start, hit.span.end) for hit in hits if hit.uri == "g.md")
            assert all(before[1] <= after[0] for before, after in pairwise(spans))
