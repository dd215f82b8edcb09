"""The files of the second model: filled in gradually, and never used where anything is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from lookfar.store.ground import files
from lookfar.store.vectors.quality_vectors import (
    QualityRow,
    QualityVectors,
    open_all,
    remove_others,
)

MODEL, DIMENSIONS = "tiny:4:1", 4


def vector(seed: int) -> bytes:
    return np.random.default_rng(seed).normal(size=DIMENSIONS).astype("<f2").tobytes()


def content(row: int) -> bytes:
    return row.to_bytes(16, "little")


def row(number: int) -> QualityRow:
    return QualityRow(number, content(number), vector(number))


def read_contents(rows: Sequence[int]) -> Mapping[int, bytes]:
    return {number: content(number) for number in rows}


@pytest.fixture
def vectors(tmp_path: Path) -> QualityVectors:
    made = QualityVectors(tmp_path, MODEL, DIMENSIONS)
    made.create()
    return made


def sound(vectors: QualityVectors, rows: Sequence[int]) -> list[bool]:
    vectors.refresh()
    result: list[bool] = vectors.find_sound(rows, vectors.rows(), read_contents).tolist()
    return result


def reopen(vectors: QualityVectors) -> QualityVectors:
    return QualityVectors(vectors.log.parent, MODEL, DIMENSIONS)


def test_rows_are_filled_in_any_order_and_read_back(vectors: QualityVectors) -> None:
    assert vectors.is_empty
    vectors.put([row(7), row(3), row(4)])
    vectors.put([row(1), QualityRow(2, content(2), None)])
    for each in (vectors, reopen(vectors)):
        assert sound(each, [1, 2, 3, 4, 5, 7, 900]) == [True, False, True, True, False, True, False]
        assert each.rows()[4].tobytes() == vector(4)
        assert each.mark_done(read_contents([1, 2, 3, 5, 900])) == ({1, 3}, {2})


def test_another_reader_sees_what_is_appended(vectors: QualityVectors) -> None:
    reader = reopen(vectors)
    assert sound(reader, [0]) == [False]
    vectors.put([row(0)])
    assert sound(reader, [0]) == [True]
    vectors.put([row(9)])
    assert sound(reader, [0, 9]) == [True, True]


def test_a_row_with_other_bytes_is_not_used(vectors: QualityVectors) -> None:
    """Seen to fail when the checksum was not compared."""
    vectors.put([row(0), row(1)])
    vectors.file.append(1, vector(99))
    assert sound(reopen(vectors), [0, 1]) == [True, False]
    assert [line.split(": ")[1] for line in vectors.damage(read_contents)] == [
        "row 1 differs from what was written"
    ]
    vectors.drop_damaged(read_contents)
    assert not vectors.damage(read_contents)
    assert sound(vectors, [0, 1]) == [True, False]


def test_a_row_whose_chunk_is_another_one_is_not_used(vectors: QualityVectors) -> None:
    """As after a catalogue was restored from a backup. Seen to fail without that comparison."""
    vectors.put([row(0), row(1)])
    fresh = reopen(vectors)
    others = {0: content(0), 1: content(77)}
    assert fresh.find_sound([0, 1], fresh.rows(), lambda _: others).tolist() == [True, False]


@pytest.mark.parametrize("lost", [1, 5, 11, 12, 30])
def test_a_log_that_a_crash_cut_short_keeps_its_whole_parts(
    vectors: QualityVectors, lost: int
) -> None:
    vectors.put([row(0)])
    size = vectors.log.stat().st_size
    vectors.put([row(1)])
    with vectors.log.open("r+b") as file:
        file.truncate(max(size, vectors.log.stat().st_size - lost))
    again = reopen(vectors)
    assert sound(again, [0, 1]) == [True, False]
    again.put([row(2)])
    assert sound(reopen(again), [0, 1, 2]) == [True, False, True]


def test_a_part_of_the_log_with_other_bytes_is_not_believed(vectors: QualityVectors) -> None:
    vectors.put([row(0)])
    size = vectors.log.stat().st_size
    vectors.put([row(1)])
    with vectors.log.open("r+b") as file:
        file.seek(size + 14)
        file.write(b"\xff")
    assert sound(reopen(vectors), [0, 1]) == [True, False]


def test_a_row_whose_chunk_is_another_one_is_not_done(vectors: QualityVectors) -> None:
    """Seen to fail: the passage was never embedded."""
    vectors.put([row(0), QualityRow(1, content(1), None), row(2)])
    others = {0: content(0), 1: content(77), 2: content(78)}
    assert vectors.mark_done(others) == ({0}, set())


def test_rows_that_were_cut_short_are_made_again(vectors: QualityVectors) -> None:
    """Seen to fail: they counted as embedded, and were neither used nor made again."""
    vectors.put([row(0), row(1)])
    again = reopen(vectors)
    with vectors.file.path.open("r+b") as file:
        file.truncate(vectors.file.path.stat().st_size - 2)
    assert sound(again, [0, 1]) == [False, False]
    again.create()
    assert again.mark_done(read_contents([0, 1])) == (set(), set())
    again.put([row(0), row(1)])
    assert sound(again, [0, 1]) == [True, True]


def test_files_that_another_process_began_again_are_mapped_again(vectors: QualityVectors) -> None:
    """Vectors depend slightly on their batch. Seen to fail when the removed file stayed mapped."""
    vectors.put([row(0), row(1)])
    reader = reopen(vectors)
    assert sound(reader, [0, 1]) == [True, True]
    vectors.remove()
    vectors.create()
    vectors.put([QualityRow(0, content(0), vector(70)), QualityRow(1, content(1), vector(71))])
    assert sound(reader, [0, 1]) == [True, True]
    assert reader.rows()[1].tobytes() == vector(71)


def test_a_log_with_the_same_inode_and_size_is_read_again(vectors: QualityVectors) -> None:
    """As after removed files whose inode the system gave to the new ones."""
    vectors.put([row(0), row(1)])
    reader = reopen(vectors)
    assert sound(reader, [0, 1]) == [True, True]
    before = vectors.log.stat()
    vectors.remove()
    vectors.create()
    vectors.put([QualityRow(0, content(0), vector(70)), QualityRow(1, content(1), vector(71))])
    after = vectors.log.stat()
    assert after.st_size == before.st_size
    reader._identity = (after.st_dev, after.st_ino)
    assert sound(reader, [0, 1]) == [True, True]
    assert reader.rows()[1].tobytes() == vector(71)


@pytest.mark.parametrize("which", ["log", "rows", "both"])
def test_deleted_files_cost_only_time(vectors: QualityVectors, which: str) -> None:
    vectors.put([row(0), row(1)])
    if which != "rows":
        vectors.log.unlink()
    if which != "log":
        vectors.file.path.unlink()
    again = reopen(vectors)
    assert sound(again, [0, 1]) == [False, False]
    again.create()
    again.put([row(0)])
    assert sound(again, [0, 1]) == [True, False]


def test_erased_rows_leave_no_trace(vectors: QualityVectors) -> None:
    vectors.put([row(0), row(1), row(2)])
    reader = reopen(vectors)
    assert sound(reader, [1]) == [True]
    (found,) = open_all(vectors.log.parent)
    found.blank([1, 50])
    assert sound(reader, [0, 1, 2]) == [True, False, True]
    assert vector(1) not in vectors.file.path.read_bytes()
    assert content(1) not in vectors.log.read_bytes()


def test_a_new_log_with_the_number_of_a_removed_one_is_read_anew(vectors: QualityVectors) -> None:
    """File systems reuse inodes. Seen to fail when only the inode was compared."""
    vectors.put([row(0), row(1)])
    vectors.put([row(2)])
    reader, before = reopen(vectors), vectors.log.with_name("before")
    assert sound(reader, [0, 1, 2]) == [True] * 3
    os.link(vectors.log, before)
    vectors.blank([1])
    vectors.put([row(number) for number in range(3, 9)])
    before.write_bytes(vectors.log.read_bytes())
    os.replace(before, vectors.log)
    assert sound(reader, [0, 1, 2, 8]) == [True, False, True, True]
    reader.put([row(9)])
    assert sound(reopen(reader), [0, 2, 8, 9]) == [True] * 4


def test_the_vectors_of_another_model_are_not_read_and_are_removed(
    vectors: QualityVectors,
) -> None:
    vectors.put([row(0)])
    other = QualityVectors(vectors.log.parent, "tiny:4:2", DIMENSIONS)
    assert sound(other, [0]) == [False]
    other.create()
    remove_others(other.log.parent, other)
    assert not vectors.log.exists()
    assert other.log.exists()


def test_a_crash_at_any_write_loses_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the log was written before the rows."""
    for stop_at in range(1, 60):
        folder = tmp_path / str(stop_at)
        folder.mkdir()
        acknowledged: list[int] = []
        calls = 0

        def end(action: str, name: str, size: int) -> int:
            nonlocal calls
            calls += 1
            if calls == stop_at:  # noqa: B023 - called within this turn of the loop.
                if action == "write" and size > 1:
                    return size // 2  # The disk took half of it; the next call ends the process.
                raise _Killed(f"{action} {name}")
            if calls > stop_at:  # noqa: B023
                raise _Killed(name)
            return size

        monkeypatch.setattr(files, "on_fault_point", end)
        try:
            vectors = QualityVectors(folder, MODEL, DIMENSIONS)
            vectors.create()
            for number in range(4):
                vectors.put([row(number), row(10 + number)])
                acknowledged += [number, 10 + number]
            monkeypatch.setattr(files, "on_fault_point", None)
            return
        except _Killed:
            monkeypatch.setattr(files, "on_fault_point", None)
        again = QualityVectors(folder, MODEL, DIMENSIONS)
        assert all(sound(again, acknowledged)), stop_at
        present = [number for number in range(14) if sound(again, [number]) == [True]]
        stored = again.rows()
        assert all(stored[number].tobytes() == vector(number) for number in present)
        again.create()
        again.put([row(0), row(5)])
        assert all(sound(again, [*acknowledged, 0, 5])), stop_at
    raise AssertionError("The writes were never all done.")


class _Killed(BaseException):
    """The process ends here."""
