"""Extraction is confined: a crash, a hang or a bomb costs one file and gives a reason.

Seen to fail without the limit of memory (the bomb), without the parent's watch where the system has
no such limit, and to hang without the limit of time by the clock (a process that waits forever).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lookfar.index.extraction import Extraction
from lookfar.model import Skipped
from lookfar.text.extract.extracted import Allowance, Extracted

PROGRAM = """
import os, signal, time
from lookfar.index import extraction
from lookfar.text.extract import formats
from lookfar.text.extract.extracted import CannotExtract, Extracted, Place

def act(raw, limits):
    word = raw.decode()
    if word == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "spin":
        while True:
            pass
    if word == "sleep":
        time.sleep(3600)
    if word == "bomb":
        held = [bytes(1 << 20) for _ in range(1 << 20)]
    if word == "fill":
        held = [b"x" * (1 << 20) for _ in range(1 << 10)]
        time.sleep(3600)
    if word == "deep":
        return act(raw, limits)
    if word == "broken":
        raise KeyError("no such part")
    if word == "locked":
        raise CannotExtract("encrypted", "it is protected by a password")
    if word == "write":
        with open("TARGET", "w") as file:
            file.write("x")
    if word == "key":
        word = os.environ.get("OPENAI_API_KEY", "")
    if word == "print":
        print("a library says something")
    if word == "lie":
        os.write(1, (1 << 60).to_bytes(8, "little"))
        time.sleep(3600)
    return Extracted(f"# {word}\\n", (Place(0, "page=1"),), "Title", (str(os.getpid()),))

formats._BY_EXTENSION[".act"] = formats.ExtractedFormat("Act", (".act",), "", 1, "", "", "")
formats._load = lambda _: act
extraction.main()
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the limits are those of POSIX")


@pytest.fixture
def extraction() -> Iterator[Extraction]:
    with closing(Extraction(Allowance(1.0, 512 << 20), PROGRAM)) as running:
        yield running


def extract(extraction: Extraction, word: str) -> Extracted | Skipped:
    return extraction.extract(f"{word}.act", word.encode())


def test_one_process_serves_many_files(extraction: Extraction) -> None:
    results = [extract(extraction, word) for word in ("one", "print", "three")]
    assert all(isinstance(result, Extracted) for result in results)
    first = results[0]
    assert isinstance(first, Extracted)
    assert (first.text, first.places[0].label, first.title) == ("# one\n", "page=1", "Title")
    assert len({result.warnings for result in results if isinstance(result, Extracted)}) == 1


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("crash", "crashed"),
        ("spin", "timed_out"),
        ("bomb", "out_of_memory"),
        ("deep", "damaged"),
        ("broken", "damaged"),
        ("locked", "encrypted"),
        ("lie", "crashed"),
    ],
)
def test_a_bad_file_costs_only_itself(extraction: Extraction, word: str, reason: str) -> None:
    bad = extract(extraction, word)
    assert isinstance(bad, Skipped)
    assert (bad.uri, bad.reason) == (f"{word}.act", reason)
    assert bad.detail
    assert isinstance(extract(extraction, "next"), Extracted)


def test_a_process_that_waits_forever_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookfar.index.extraction._PATIENCE", 1)
    with closing(Extraction(Allowance(1.0, 512 << 20), PROGRAM)) as extraction:
        bad = extract(extraction, "sleep")
        assert isinstance(bad, Skipped)
        assert bad.reason == "timed_out"
        assert isinstance(extract(extraction, "next"), Extracted)


def test_memory_is_watched_where_the_system_does_not_limit_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS and Windows: the process takes no limit, and the parent looks."""
    monkeypatch.setattr("lookfar.index.extraction.LIMITED_BY_SYSTEM", False)
    program = PROGRAM.replace("extraction.main()", "extraction._confine = id; extraction.main()")
    with closing(Extraction(Allowance(4.0, 256 << 20), program)) as extraction:
        bad = extract(extraction, "fill")
        assert isinstance(bad, Skipped)
        assert (bad.uri, bad.reason) == ("fill.act", "out_of_memory")
        assert isinstance(extract(extraction, "next"), Extracted)


def test_an_extractor_can_neither_write_a_file_nor_see_a_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-extractors")
    target = tmp_path / "written"
    program = PROGRAM.replace("TARGET", str(target))
    with closing(Extraction(Allowance(1.0, 512 << 20), program)) as extraction:
        assert isinstance(extract(extraction, "write"), Skipped)
        key = extract(extraction, "key")
    assert target.read_text() == ""
    assert isinstance(key, Extracted)
    assert key.text == "# \n"


def test_a_real_extractor_runs_in_the_process() -> None:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# Kelp\n", "It grows."]}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    with closing(Extraction(Allowance())) as extraction:
        result = extraction.extract("a.ipynb", json.dumps(notebook).encode())
        assert isinstance(result, Extracted)
        assert "It grows." in result.text
        broken = extraction.extract("b.ipynb", b"{")
        assert isinstance(broken, Skipped)
        assert broken.reason == "damaged"
