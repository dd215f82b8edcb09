"""A coarse pass over codes before the exact one: fast, and hardly ever a different result."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lookfar.common import cores
from lookfar.config import Settings
from lookfar.embed.providers import open_embedder
from lookfar.model import Filters
from lookfar.store.sqlite import scopes
from lookfar.store.sqlite.snapshot import EpochSnapshot
from lookfar.store.sqlite.store import CollectionStore
from lookfar.store.sqlite.vector_queries import Owners
from lookfar.store.vectors import coarse, vector_file
from lookfar.store.vectors import codes as codes_module
from lookfar.store.vectors.coarse import CoarseFile
from lookfar.store.vectors.vector_file import VectorFile
from store.shelf import Shelf, epoch_folder

SEGMENT = 256
DIMENSIONS = 96


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a size that a test can fill."""
    monkeypatch.setattr(coarse, "SEGMENT_ROWS", SEGMENT)


def unit(numbers: NDArray[np.float64]) -> NDArray[np.float16]:
    lengths = np.linalg.norm(numbers, axis=1, keepdims=True)
    return (numbers / np.maximum(lengths, 1e-9)).astype(np.float16)


def leaning(count: int, seed: int = 3, lean: float = 2.0) -> NDArray[np.float16]:
    """Vectors as models make them: in groups, and all of them leaning to one side."""
    chance = np.random.default_rng(seed)
    groups = chance.standard_normal((max(2, count // 40), DIMENSIONS))
    near = groups[chance.integers(0, len(groups), count)]
    common = np.abs(chance.standard_normal(DIMENSIONS)) * lean
    return unit(near + 0.7 * chance.standard_normal((count, DIMENSIONS)) + common)


def written(path: Path, rows: NDArray[np.float16], above: int = 1) -> VectorFile:
    file = VectorFile(path / "vectors.f16", rows.shape[1], above)
    file.create()
    file.append(0, rows.tobytes())
    file.extend_coarse(len(rows))
    return file


def exact(rows: NDArray[np.float16], query: NDArray[np.float32], limit: int) -> list[int]:
    scores = rows.astype(np.float32) @ query
    return np.lexsort((np.arange(len(rows)), -scores))[:limit].tolist()


def recall(file: VectorFile, rows: NDArray[np.float16], queries: NDArray[np.float32]) -> float:
    found = [
        len(set(file.nearest(query, rows, 10)[0].tolist()) & set(exact(rows, query, 10)))
        for query in queries
    ]
    return sum(found) / (10 * len(queries))


def test_proposing_every_row_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects against a coarse pass that loses rows, or scores and orders them otherwise."""
    rows = leaning(3 * SEGMENT + 50)
    file = written(tmp_path, rows)
    plain = VectorFile(file.path, DIMENSIONS, 0)
    monkeypatch.setattr(vector_file, "_PROPOSED", len(rows) - 1)
    for query in rows[::40].astype(np.float32):
        found, scores = file.nearest(query, file.rows(len(rows)), 30)
        expected, exactly = plain.nearest(query, plain.rows(len(rows)), 30)
        assert found.tolist() == expected.tolist()
        assert scores.tolist() == exactly.tolist()


def test_the_coarse_pass_hardly_misses_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against codes that say little, of numbers that are all on one side of zero."""
    monkeypatch.setattr(vector_file, "_PROPOSED", 250)
    rows = leaning(12 * SEGMENT, lean=4.0)
    file = written(tmp_path, rows)
    queries = leaning(12 * SEGMENT, lean=4.0)[::50].astype(np.float32)
    noise = np.random.default_rng(5).standard_normal(queries.shape).astype(np.float32) * 0.03
    assert recall(file, rows, queries + noise) >= 0.98


def test_segments_about_different_things_are_compared_fairly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against comparing products of segments with very different means."""
    monkeypatch.setattr(vector_file, "_PROPOSED", 250)
    chance = np.random.default_rng(8)
    parts = []
    for _ in range(10):
        topic = chance.standard_normal(DIMENSIONS) * 3
        groups = chance.standard_normal((12, DIMENSIONS))[chance.integers(0, 12, SEGMENT)]
        parts.append(topic + groups + 0.6 * chance.standard_normal((SEGMENT, DIMENSIONS)))
    rows = unit(np.concatenate(parts))
    file = written(tmp_path, rows)
    pairs = rows[chance.integers(0, len(rows), (40, 2))].astype(np.float32)
    assert recall(file, rows, pairs.sum(axis=1)) >= 0.97


def test_vectors_of_the_bundled_model_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a pass that only suits vectors made up for a test."""
    monkeypatch.setattr(vector_file, "_PROPOSED", 250)
    embedder = open_embedder(Settings().embed)
    if embedder is None:
        pytest.skip("there is no bundled model")
    things = ("pod", "volume", "flex container", "promise", "cookie", "selector", "worker")
    deeds = (
        "fails to start",
        "is resized",
        "keeps its state",
        "is read",
        "loses data",
        "overflows",
    )
    places = ("in a cluster", "on a phone", "after a restart", "behind a proxy", "in a test")
    whens = ("today", "at night", "under load", "when it is empty", "for every user", "once")
    texts = [
        f"The {thing} {deed} {place} {when}. Part {number}."
        for thing in things for deed in deeds for place in places for when in whens
        for number in (1, 2)
    ]  # fmt: skip
    rows = np.asarray(embedder.embed(texts)).astype(np.float16)
    file = written(tmp_path, rows)
    questions = [f"why does a {thing} {deed}" for thing in things for deed in deeds]
    queries = np.asarray(embedder.embed(questions)).astype(np.float32)
    assert len(file.coarse.segments(len(rows))) == len(rows) // SEGMENT
    assert recall(file, rows, queries) >= 0.97


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_only_allowed_rows_are_found_and_enough_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """Protects against filtering after the choice, which leaves too few."""
    monkeypatch.setattr(vector_file, "_PROPOSED", 150)
    rows = leaning(6 * SEGMENT + 30)
    file = written(tmp_path, rows)
    allowed = np.random.default_rng(1).random(len(rows)) < share
    which = np.flatnonzero(allowed)
    found_in_all = 0
    for query in rows[::100].astype(np.float32):
        found, _ = file.nearest(query, rows, 12, allowed=allowed)
        assert len(found) == min(12, len(which))
        assert allowed[found].all()
        expected = which[exact(rows[which], query, 12)]
        found_in_all += len(set(found.tolist()) & set(expected.tolist()))
    asked = min(12, len(which)) * len(rows[::100])
    assert found_in_all == asked if share < 0.05 else found_in_all >= 0.97 * asked


def test_rows_beyond_the_last_whole_segment_are_scanned(tmp_path: Path) -> None:
    """Protects against what was just appended not being found."""
    rows = leaning(2 * SEGMENT + 5)
    file = written(tmp_path, rows)
    last = len(rows) - 1
    assert file.nearest(rows[last].astype(np.float32), rows, 1)[0].tolist() == [last]


def test_appending_makes_codes_of_whole_segments_only(tmp_path: Path) -> None:
    """Protects against an edit that pays for codes of everything before it."""
    rows = leaning(4 * SEGMENT)
    file = written(tmp_path, rows[: SEGMENT + 10])
    before = file.coarse.path.read_bytes()
    file.append(SEGMENT + 10, rows[SEGMENT + 10 : 2 * SEGMENT - 1].tobytes())
    assert not file.extend_coarse(2 * SEGMENT - 1)
    file.append(2 * SEGMENT - 1, rows[2 * SEGMENT - 1 :].tobytes())
    assert file.extend_coarse(len(rows))
    assert [segment.first for segment in file.coarse.segments(len(rows))] == [
        number * SEGMENT for number in range(4)
    ]
    assert file.coarse.path.read_bytes().startswith(before)


def test_few_rows_have_no_codes(tmp_path: Path) -> None:
    """Protects against a file without use."""
    file = written(tmp_path, leaning(2 * SEGMENT), above=2 * SEGMENT)
    assert not file.coarse.path.exists()


def test_blank_rows_have_blank_codes_and_are_out_of_the_mean(tmp_path: Path) -> None:
    """Protects against traces of what was erased."""
    rows = leaning(2 * SEGMENT)
    rows[:, ::2] *= -1  # Whose mean lies on both sides, so that zeros would have codes of it.
    file = written(tmp_path, rows)
    secret = SEGMENT + 3
    before = file.coarse.segments(len(rows))[1]
    assert before.codes[3].any()
    old_mean = before.directions.mean.copy()
    file.blank([secret], len(rows))
    fresh = CoarseFile(file.coarse.path, DIMENSIONS).segments(len(rows))
    assert not fresh[1].codes[3].any()
    others = np.delete(rows[SEGMENT:], 3, axis=0).astype(np.float32)
    assert np.allclose(fresh[1].directions.mean, others.mean(axis=0), atol=1e-5)
    assert not np.array_equal(fresh[1].directions.mean, old_mean)
    assert file.coarse.damage(file.rows(len(rows))) == []


@pytest.mark.parametrize("how", ["missing", "cut", "flipped", "another header", "empty"])
def test_missing_or_damaged_codes_are_scanned_and_remade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Protects against wrong answers, and against a process that dies of a cut file."""
    monkeypatch.setattr(vector_file, "_PROPOSED", 60)
    rows = leaning(3 * SEGMENT)
    file = written(tmp_path, rows)
    path, sound = file.coarse.path, file.coarse.path.read_bytes()
    file.nearest(rows[0].astype(np.float32), rows, 3)
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(sound[: len(sound) // 2])
    elif how == "flipped":
        path.write_bytes(sound[:-9] + bytes([sound[-9] ^ 4]) + sound[-8:])
    elif how == "another header":
        path.write_bytes(b"LOOKFARC1\n97 256".ljust(64, b"\0") + sound[64:])
    else:
        path.write_bytes(b"")
    again = VectorFile(file.path, DIMENSIONS, 1)
    for query in rows[::70].astype(np.float32):
        if how in ("missing", "empty", "another header"):
            assert again.nearest(query, rows, 5)[0].tolist() == exact(rows, query, 5)
        assert again.nearest(query, rows, 1)[0].tolist() == exact(rows, query, 1)
        assert file.nearest(query, rows, 1)[0].tolist() == exact(rows, query, 1)
    assert bool(again.coarse.damage(rows)) == (how == "flipped")
    assert again.extend_coarse(len(rows))
    assert path.read_bytes() == sound
    assert again.coarse.damage(rows) == []


def test_a_reader_follows_a_replaced_file(tmp_path: Path) -> None:
    """Protects against the codes of a file that is gone, with what was erased still in them."""
    rows = leaning(2 * SEGMENT)
    writer = written(tmp_path, rows)
    reader = VectorFile(writer.path, DIMENSIONS, 1)
    assert reader.coarse.segments(len(rows))[0].codes[5].any()
    writer.coarse.path.unlink()
    writer.blank([5], len(rows))
    assert writer.extend_coarse(len(rows))
    assert not reader.coarse.segments(len(rows))[0].codes[5].any()


def test_codes_of_other_rows_are_reported(tmp_path: Path) -> None:
    """Protects against a sound checksum over codes that belong to nothing here."""
    rows = leaning(2 * SEGMENT)
    file = written(tmp_path, rows)
    file.append(SEGMENT, leaning(SEGMENT, seed=9).tobytes())
    assert file.coarse.damage(file.rows(len(rows))) == [
        f"the codes from row {SEGMENT} on do not match the rows"
    ]


def test_uncommitted_segments_are_dropped(tmp_path: Path) -> None:
    """Protects against the codes of a writer that died, over rows that the next one wrote."""
    rows = leaning(3 * SEGMENT)
    file = written(tmp_path, rows)
    committed = 2 * SEGMENT + 7
    assert [segment.first for segment in file.coarse.segments(committed)] == [0, SEGMENT]
    file.coarse.forget(committed)
    others = leaning(SEGMENT, seed=21)
    file.append(2 * SEGMENT + 7, others[7:].tobytes())
    assert file.extend_coarse(3 * SEGMENT)
    assert file.coarse.damage(file.rows(3 * SEGMENT)) == []


def test_a_reader_ignores_rows_appended_later(tmp_path: Path) -> None:
    """Protects against a torn segment, and against rows beyond a snapshot."""
    rows = leaning(12 * SEGMENT)
    writer = written(tmp_path, rows[:SEGMENT])
    reader = VectorFile(writer.path, DIMENSIONS, 1)
    wrong: list[str] = []
    stop = threading.Event()
    known = [SEGMENT]

    def read() -> None:
        chance = np.random.default_rng(2)
        while not stop.is_set():
            count = known[0]
            mine = reader.rows(count)
            row = int(chance.integers(0, count))
            found, _ = reader.nearest(mine[row].astype(np.float32), mine, 3)
            if found.max() >= count:
                wrong.append(f"row {found.max()} of {count}")
            if row not in found.tolist():
                wrong.append(f"row {row} does not find itself")

    thread = threading.Thread(target=read)
    thread.start()
    for first in range(SEGMENT, len(rows), 100):
        part = rows[first : first + 100]
        writer.append(first, part.tobytes())
        writer.extend_coarse(first + len(part))
        known[0] = first + len(part)
    stop.set()
    thread.join()
    assert wrong == []


def test_the_recall_of_stored_rows_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a figure that is always perfect."""
    rows = leaning(8 * SEGMENT)
    file = written(tmp_path, rows)
    monkeypatch.setattr(vector_file, "_PROPOSED", 200)
    good = file.recall(len(rows))
    assert good is not None
    assert good.rows == len(rows)
    assert good.wanted == 320
    assert 0.95 * good.wanted < good.found <= good.wanted
    monkeypatch.setattr(vector_file, "_PROPOSED", 1)
    monkeypatch.setattr(vector_file, "_PROPOSED_PER_WANTED", 0)
    poor = file.recall(len(rows))
    assert poor is not None
    assert poor.found < good.found / 2
    assert VectorFile(file.path, DIMENSIONS, 0).recall(len(rows)) is None


# -- in a collection -------------------------------------------------------------


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Shelf]:
    """A collection that counts a hundred vectors as many."""
    shelf = Shelf(tmp_path / "index")
    shelf.store = CollectionStore(tmp_path / "index", coarse_above=100)
    yield shelf
    shelf.store.close()


def texts(first: int, last: int) -> dict[str, str | None]:
    return {
        f"{'a' if number % 3 else 'b'}/{number}.md": f"# Note {number}\n\nword{number} common\n"
        for number in range(first, last)
    }


def test_a_collection_makes_and_keeps_codes(many: Shelf) -> None:
    """Protects against a session that forgets them, or measures nothing."""
    many.write(texts(0, 600))
    codes = epoch_folder(many) / "vectors.codes"
    size = codes.stat().st_size
    many.write(texts(600, 620))
    assert codes.stat().st_size == size
    many.write(texts(620, 800))
    assert codes.stat().st_size > size
    with many.store.snapshot() as snapshot:
        told = snapshot.vector_pass()
    assert (told.method, told.rows) == ("coarse", 800)
    assert told.recall is not None
    assert 0.9 < told.recall <= 1.0
    assert many.store.verify() == []


def test_missing_codes_are_written_by_the_next_writer(many: Shelf) -> None:
    """Protects against an index that stays slow for good."""
    many.write(texts(0, 600))
    codes = epoch_folder(many) / "vectors.codes"
    sound = codes.read_bytes()
    codes.unlink()
    with many.session() as session:
        session.commit_touches()
    assert codes.read_bytes() == sound


def test_verify_reports_damaged_codes(many: Shelf) -> None:
    """Protects against a damage that only costs time, and so is never seen."""
    many.write(texts(0, 600))
    codes = epoch_folder(many) / "vectors.codes"
    sound = codes.read_bytes()
    codes.write_bytes(sound[:-3] + bytes([sound[-3] ^ 1]) + sound[-2:])
    assert [problem.artefact for problem in many.store.verify()] == ["vectors"]


def test_dropped_codes_are_not_damage(tmp_path: Path) -> None:
    """Protects against an alarm until the next writing, after a repair that took them back."""
    rows = leaning(2 * SEGMENT)
    file = written(tmp_path, rows)
    file.coarse.forget(0)
    assert file.coarse.segments(len(rows)) == []
    assert file.coarse.damage(rows) == []
    assert file.extend_coarse(len(rows))
    assert len(file.coarse.segments(len(rows))) == 2


def test_a_segment_being_written_is_not_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against an alarm whenever a check meets a writer; seen to fail with one check."""
    rows = leaning(2 * SEGMENT)
    file = written(tmp_path, rows)
    sound = file.coarse.path.read_bytes()
    file.coarse.path.write_bytes(sound[:-3] + bytes([sound[-3] ^ 1]) + sound[-2:])
    monkeypatch.setattr(time, "sleep", lambda _: file.coarse.path.write_bytes(sound))
    assert file.coarse.damage(rows) == []


def test_a_wide_filter_keeps_the_answer_full(many: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects against a filter that only sees what the coarse pass let through unfiltered."""
    monkeypatch.setattr(vector_file, "_PROPOSED", 40)
    monkeypatch.setattr(vector_file, "_PROPOSED_PER_WANTED", 1)
    monkeypatch.setattr(scopes, "_ALWAYS_LISTED", 10)
    many.write(texts(0, 600))
    with many.store.snapshot() as snapshot:
        asked = np.asarray(many.embedder.embed(["# Note 7\n\nword7 common"])[0])
        found = snapshot.vector_search(asked, 150, Filters(prefix="b/"))
        assert len(found) == 150
        assert {place.uri[:2] for place, _ in found} == {"b/"}
        # Marked at once, instead of skipping what is not admitted round after round.
        assert isinstance(snapshot, EpochSnapshot)
        assert snapshot._epoch.owners._last > 0


def test_erased_vectors_leave_no_codes(many: Shelf) -> None:
    """Protects against a vector that can be told from the codes of it that stayed."""
    many.write(texts(0, 600))
    with many.store.snapshot() as snapshot:
        row = snapshot.chunks("a/1.md")[0].vector
    assert row is not None
    codes = CoarseFile(epoch_folder(many) / "vectors.codes", many.embedder.dimensions)
    assert codes.segments(600)[row // SEGMENT].codes[row % SEGMENT].any()
    many.store.erase(["a/1.md"], {}, retain=1)
    again = CoarseFile(codes.path, many.embedder.dimensions).segments(600)
    assert not again[row // SEGMENT].codes[row % SEGMENT].any()
    assert [
        problem.detail for problem in many.store.verify() if problem.artefact == "vectors"
    ] == []


def test_owners_include_new_chunks(many: Shelf) -> None:
    """Protects against owners from an earlier state."""
    many.write(texts(0, 30))
    owners = Owners()
    with many.store.snapshot() as snapshot:
        before = {snapshot.chunks("b/3.md")[0].document}
        assert owners.find_rows(snapshot._connection, before, 30).sum() == 1  # type: ignore[attr-defined]
    many.write(texts(30, 60))
    with many.store.snapshot() as snapshot:
        place = snapshot.chunks("a/40.md")[0]
        marked = owners.find_rows(snapshot._connection, {place.document, *before}, 60)  # type: ignore[attr-defined]
        assert np.flatnonzero(marked).tolist() == [3, place.vector]


def test_the_setting_reaches_the_store_and_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a setting without effect and a measurement that is not shown."""
    from lookfar.library import Library
    from lookfar.serve.show import json_shapes, render

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "root"
    root.mkdir()
    for uri, text in texts(0, 300).items():
        (root / uri.replace("/", "-")).write_text(text or "")
    told = {}
    for above in (0, 100):
        settings = {"embed.provider": "hash", "index.workers": 1, "index.coarse_above": above}
        with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
            library.index()
            status = library.status(check=False)
            assert status.vectors is not None
            told[above] = (status.vectors.method, status.vectors.recall is None)
            shaped = json_shapes.status(status)["vectors"]
            assert (shaped["method"], shaped["rows"]) == (status.vectors.method, 300)
            shown = render.status(status)
            assert ("recall@10" in str(shown)) == (above > 0)
    assert told == {0: ("exact", True), 100: ("coarse", False)}


def proposed(file: CoarseFile, rows: NDArray[np.float16], count: int = 40) -> list[list[int]]:
    found = file.segments(len(rows))
    return [file.propose(query, found, count).tolist() for query in rows[::90].astype(np.float32)]


def test_a_segment_dropped_by_another_process_is_not_used(tmp_path: Path) -> None:
    """Protects against proposals out of one segment only, while the numbers of the others are
    zeros. Seen to fail when what was once found sound was not looked at again.
    """
    rows = leaning(3 * SEGMENT)
    mender = written(tmp_path, rows).coarse
    reader = CoarseFile(mender.path, DIMENSIONS)
    before = reader.segments(len(rows))
    right = proposed(reader, rows)
    mender.forget(SEGMENT)
    assert [segment.first for segment in reader.segments(len(rows))] == [0]
    mender.forget(0)
    assert reader.segments(len(rows)) == []
    assert all(each.directions.scale and each.directions.mean.any() for each in before), (
        "what a question has begun with"
    )
    assert mender.extend(rows)
    assert [each.first for each in reader.segments(len(rows))] == [0, SEGMENT, 2 * SEGMENT]
    assert proposed(reader, rows) == right


def test_a_segment_rewritten_by_another_process_is_reread(tmp_path: Path) -> None:
    """Protects against the mean of rows that were erased. Seen to fail with a head that was not
    compared: the copy of the old mean stayed.
    """
    rows = leaning(2 * SEGMENT)
    writer = written(tmp_path, rows)
    reader = CoarseFile(writer.coarse.path, DIMENSIONS)
    old = reader.segments(len(rows))[1]
    writer.blank([SEGMENT + 3], len(rows))
    new = reader.segments(len(rows))[1]
    fresh = CoarseFile(writer.coarse.path, DIMENSIONS).segments(len(rows))[1]
    assert not np.array_equal(new.directions.mean, old.directions.mean)
    assert np.array_equal(new.directions.mean, fresh.directions.mean)
    assert new.directions.scale == fresh.directions.scale


@pytest.mark.parametrize("erased", [False, True])
def test_the_bits_of_an_earlier_version_are_replaced(many: Shelf, erased: bool) -> None:
    """Protects against a file that nothing reads, and that still shows what is erased later."""
    many.write(texts(0, 600))
    codes = epoch_folder(many) / "vectors.codes"
    sound = codes.read_bytes()
    codes.unlink()
    old = codes.with_suffix(".bits")
    old.write_bytes(b"LOOKFARB1\n96 256".ljust(64, b"\0") + bytes(9_000))
    with many.store.snapshot() as snapshot:
        assert snapshot.vector_pass().method == "exact"
    if erased:
        VectorFile(codes.with_suffix(".f16"), many.embedder.dimensions).blank([3], 600)
    else:
        with many.session() as session:
            session.commit_touches()
        assert codes.read_bytes() == sound
    assert not old.exists()


def test_the_rows_chosen_are_those_with_the_best_estimates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Protects against a threshold guessed from a sample that leaves too few, or the wrong ones."""
    chance = np.random.default_rng(4)
    monkeypatch.setattr(codes_module, "_SAMPLED", 16)
    for wanted in (1, 7, 90, 400, 2_000):
        parts = [
            codes_module.Scores(
                first, chance.integers(-300, 300, 512).astype(np.int32), 0.5 + first / 1000, 9.0
            )
            for first in (0, 512, 2_048)
        ]
        # The best rows of one segment are where no sample looks, of another only where one looks.
        parts[1].products[1::16] += 5_000
        parts[2].products[::16] += 3_000
        estimates = {
            part.first + at: float(value)
            for part in parts
            for at, value in enumerate(part.estimate(part.products))
        }
        worst = sorted(estimates.values())[-min(wanted, len(estimates))]
        expected = sorted(row for row, value in estimates.items() if value >= worst)
        assert codes_module.choose_rows(parts, wanted).tolist() == expected


def test_two_threads_return_what_one_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against results in the order in which threads end, or lost with a failing one."""
    rows = leaning(9 * SEGMENT)
    file = written(tmp_path, rows).coarse
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    alone = proposed(file, rows)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert proposed(file, rows) == alone
    items = list(range(40))
    assert cores.map_on_two_cores(lambda item: item * item, items) == [n * n for n in items]
    for bad in (0, 1, 39):

        def fail(item: int, bad: int = bad) -> int:
            if item == bad:
                raise LookupError(f"item {item}")
            return item

        with pytest.raises(LookupError, match=f"item {bad}"):
            cores.map_on_two_cores(fail, items)


def test_a_search_begun_early_returns_the_same(
    many: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against the result of another question, and against one that is computed twice."""
    many.write(texts(0, 600))
    first, second = np.asarray(many.embedder.embed(["word7 common", "word8 common"]))
    few = 19  # Those after them do not tie with the last, which would take a second search.
    calls: list[str] = []
    nearest = VectorFile.nearest

    def note(file: VectorFile, *given: Any) -> Any:
        calls.append(threading.current_thread().name)
        return nearest(file, *given)

    monkeypatch.setattr(VectorFile, "nearest", note)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with many.store.snapshot() as snapshot:
        expected = [snapshot.vector_search(query, few, Filters()) for query in (first, second)]
        assert expected[0] != expected[1]
        calls.clear()

        def begin(filters: Filters) -> None:
            snapshot.begin_vector_search(first, few, filters)
            cores.start(int).result()  # type: ignore[union-attr]  # The one helper has done it.

        begin(Filters())
        assert snapshot.vector_search(first, few, Filters()) == expected[0]
        assert [name.partition("_")[0] for name in calls] == ["lookfar-cores"]
        begin(Filters())
        assert snapshot.vector_search(second, few, Filters()) == expected[1]
        narrow = Filters(prefix="b/")
        begin(Filters())
        assert {place.uri[0] for place, _ in snapshot.vector_search(first, few, narrow)} == {"b"}
        begin(narrow)
        assert snapshot.vector_search(first, few, Filters()) == expected[0]
