"""The benchmarks of scale measure what they say: vaults, shards, tables and pictures."""

from __future__ import annotations

import subprocess
from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from script_modules import load_script

scale, routing = load_script("bench/scale.py"), load_script("bench/routing.py")
git_history = load_script("bench/git_history.py")

PAGE = """---
title: Secret
---
# Harbour {n}

The harbour number {n} opens at nine in the morning. Ships wait outside until then.

- a list of ships that wait {n}

```sh
ls harbour-{n}
```
"""


@pytest.fixture
def pool(tmp_path: Path) -> object:
    for number in range(30):
        (tmp_path / f"{number}.md").write_text(PAGE.format(n=number))
    return scale.pool_of([tmp_path])


def test_a_vault_is_made_of_the_real_text(pool: object, tmp_path: Path) -> None:
    """Protects against front matter, code or headings that turn into sentences."""
    assert len(pool.sentences) == 60  # type: ignore[attr-defined]
    assert len(pool.code) == len(pool.headings) == len(pool.items) == 30  # type: ignore[attr-defined]
    written = scale.make(tmp_path / "vault", pool, 0, 70, seed=3)
    files = sorted((tmp_path / "vault").rglob("*.md"))
    assert len(files) == 70
    assert sum(path.stat().st_size for path in files) == written
    text = files[5].read_text()
    assert text.startswith("# Harbour ")
    assert "## Harbour" in text
    assert "Secret" not in text


def test_a_smaller_vault_is_the_beginning_of_a_larger_one(pool: object) -> None:
    """Protects against sizes that cannot be compared, and against chance."""
    first = [scale.document(pool, 3, number) for number in range(5)]
    assert first == [scale.document(pool, 3, number) for number in range(5)]
    assert len(set(first)) == 5
    assert first[1] != scale.document(pool, 4, 1)


def test_two_versions_are_asked_the_same_questions_by_turns(
    pool: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Protects against a ratio of two times that were not measured alike."""
    from lookfar import Library

    vault, index = tmp_path / "vault", tmp_path / "index"
    scale.make(vault, pool, 0, 12, seed=3)
    with Library.open(vault, index_dir=index) as library:
        library.index()
    asked = tmp_path / "questions.jsonl"
    asked.write_text("".join(f'{{"text": "when does harbour {n} open"}}\n' for n in range(4)))
    given = Namespace(
        vault=vault, index=index, its_index=index, checkout=Path(__file__).parent.parent,
        questions=[asked], most=4, warm_up=1,
    )  # fmt: skip
    scale.compare(given)
    printed = capsys.readouterr().out
    assert "search   before  CPU" in printed
    assert "nearest  ratio of the medians, CPU: " in printed
    assert printed.count("recall@10 of the vectors 1.0000") == 2
    assert "the first ten answers that is the same: 1.000" in printed


def figures(chunks: int, milliseconds: float) -> dict[str, object]:
    three = {"p50": milliseconds, "p95": milliseconds * 2, "p99": milliseconds * 3}
    return {
        "asked": chunks, "chunks": chunks, "documents": 9, "text_mb": 1.0, "build_s": 1.0,
        "build_mb_s": 1.0, "build_cpu_s": 1.0, "build_mb_per_cpu_s": 1.0, "build_peak_mb": 1,
        "disk_mb": 1, "cold_ms": three, "warm_ms": three, "warm_cpu_ms": three,
        "narrow_filter_ms": three, "wide_filter_ms": three, "nearest_cpu_ms": milliseconds,
        "exact_cpu_ms": milliseconds * 4, "recall_at_10": 0.5, "steps_cpu_ms": {"plan": 1.0},
        "memory": {"private_mb": 2, "mapped_mb": 3}, "update_s": {"median": 0.1, "longest": 0.2},
    }  # fmt: skip


def test_figures_become_a_table_and_a_picture() -> None:
    """Protects against a page that cannot be repeated."""
    done = [figures(100_000, 20.0), figures(10_000, 8.0)]
    table = scale.table(done)
    assert "| | 10,000 | 100,000 |" in table
    assert "| hybrid, warm: p50 / p95 / p99 | 8 / 16 / 24 ms | 20 / 40 / 60 ms |" in table
    picture = ElementTree.fromstring(scale.plot(done))
    named = [each.text for each in picture.iter() if each.tag.endswith("text")]
    assert {"p50", "p95", "p99", "100,000"} <= set(named)


@pytest.mark.parametrize(
    ("text", "hashed"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)]
)
def test_documents_go_to_shards_by_fnv(text: str, hashed: int) -> None:
    """Protects against measuring another sharding than the one that was asked about."""
    assert routing.shard_of(text) == hashed % 128


def test_paths_are_spread_over_all_shards() -> None:
    found = np.bincount([routing.shard_of(f"notes/{at}.md") for at in range(12_800)])
    assert len(found) == 128
    assert found.min() > 50
    assert found.max() < 150


@pytest.mark.parametrize(
    ("leaves", "chosen"), [(1, 1), (2, 2), (9, 2), (10, 2), (11, 3), (20, 4), (60, 5)]
)
def test_a_section_is_stood_for_by_two_to_five_chunks(leaves: int, chosen: int) -> None:
    rows = np.random.default_rng(1).standard_normal((leaves, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert len(routing.representatives(rows)) == chosen


def test_those_that_stand_for_a_section_differ() -> None:
    """Protects against relevance without diversity."""
    same = np.tile(np.array([[1.0, 0.0, 0.0]], dtype=np.float32), (8, 1))
    other = np.array([[0.7, 0.714, 0.0], [0.7, -0.714, 0.0]], dtype=np.float32)
    rows = np.concatenate([same, other, other])
    found = routing.representatives(rows, 0.3)
    assert len({tuple(row) for row in found.round(3).tolist()}) == 3


def test_a_question_is_routed_to_sixteen_shards_at_most() -> None:
    """Protects against measuring a wider search than the one that was asked about."""
    made = routing.Routing.__new__(routing.Routing)
    chance = np.random.default_rng(2)
    made.sections = chance.standard_normal((400, 16)).astype(np.float16)
    made._shards = chance.permutation(400) % 128
    file = routing.VectorFile(Path("nowhere.f16"), 16, 0)
    assert len(made.route(file, chance.standard_normal(16).astype(np.float32))) == 16


@pytest.mark.parametrize("zone", ["+0000", "-0230", "+1400", "+51800", "-51830"])
def test_dates_of_every_zone_are_read(tmp_path: Path, zone: str) -> None:
    """As git prints them. Seen to fail with ``fromisoformat`` alone for zones beyond a day."""
    stream = f"commit refs/heads/main\ncommitter A <a@b> 1600000000 {zone}\ndata 1\nx\n"
    for command in (["init", "-q"], ["fast-import", "--quiet", "--date-format=raw-permissive"]):
        subprocess.run(["git", *command], cwd=tmp_path, input=stream.encode(), check=True)
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%cI %ct", "main"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    date, second = shown.stdout.split()
    assert git_history.read_time(date) == int(second)


def test_a_date_without_a_zone_of_numbers_is_read() -> None:
    assert git_history.read_time("2020-09-13T12:26:40Z") == 1_600_000_000
