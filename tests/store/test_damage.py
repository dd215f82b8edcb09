"""``verify`` finds damage; in use it is an error with a hint, never an empty answer."""

from __future__ import annotations

import os
import random
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.model import Filters
from lookfar.store.keywords.keyword_index import KEYWORDS, LISTING, read_listing
from store.shelf import Shelf, change_row, epoch_folder, rows_of, words

TEXTS = {
    f"{n}.md": f"---\ntags: [t{n % 3}]\n---\n# Page {n}\n\ncommon words number{n}\n\n## Sub {n}\n\n"
    f"```\ncode_{n}()\n```\n\nsee [[{n + 1}]]\n"
    for n in range(30)
}


@pytest.fixture
def full(shelf: Shelf) -> Shelf:
    """Thirty documents, some of them in a second version, and some entries deleted."""
    shelf.retain = 1
    shelf.write(TEXTS)
    shelf.write({"3.md": "# Changed\n\ncommon words\n", "4.md": None})
    shelf.write({"5.md": "# Changed too\n\ncommon words\n"})
    shelf.store.close()
    return shelf


def flip(path: Path, at: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    put(path, data)


def put(path: Path, data: bytes | bytearray) -> None:
    """Replace a file; not in place, because a reader may still map the old one."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(data)
    os.replace(beside, path)


def use(shelf: Shelf) -> int:
    """Read in every way; return the number of chunks found."""
    again = Shelf(shelf.store.folder)
    try:
        with again.store.snapshot() as snapshot:
            found = words(snapshot, "common", 1000)
            vector = again.embedder.embed(["common words"])[0]
            near = snapshot.vector_search(vector, 1000, Filters())
            snapshot.vector_scores(vector, [place for place, _ in found])
            for uri in snapshot.uris():
                snapshot.document(uri)
                snapshot.text(uri)
                snapshot.sections(uri)
            snapshot.counts()
            snapshot.failures()
        again.store.generations()
        return len(found) + len(near)
    finally:
        again.store.close()


def test_an_intact_index_has_no_problems(full: Shelf) -> None:
    assert full.store.verify() == []
    assert use(full) > 0


def keyword_files(shelf: Shelf) -> list[Path]:
    folder = epoch_folder(shelf) / KEYWORDS
    return [folder / each.name for each in read_listing(folder).segments] + [folder / LISTING]


@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_damage_in_each_keyword_file_is_found(full: Shelf, how: str) -> None:
    """Seen to fail when ``describe_damage`` compared nothing."""
    chance = random.Random(how)
    paths = keyword_files(full)
    assert len(paths) > 2
    for path in paths * 5:
        good = path.read_bytes()
        if how == "flip":
            flip(path, chance.randrange(len(good)))
        elif how == "cut":
            put(path, good[: chance.randrange(len(good))])
        else:
            path.unlink()
        problems = full.store.verify()
        full.store.close()
        assert problems, path.name
        assert {problem.artefact for problem in problems} <= {"keywords", "index"}
        put(path, good)
    assert full.store.verify() == []


def test_flipped_bits_in_vectors_are_found(full: Shelf) -> None:
    path = epoch_folder(full) / "vectors.f16"
    size = path.stat().st_size
    for at in (3, 64, size // 2, size - 1):
        flip(path, at)
        problems = full.store.verify()
        full.store.close()
        assert [problem.artefact for problem in problems] == ["vectors"] or at == 3
        assert problems
        flip(path, at)
    assert full.store.verify() == []


def test_flipped_bytes_in_stored_texts_are_found_and_not_returned(full: Shelf) -> None:
    ((sha, body),) = rows_of(full, "SELECT sha, body FROM texts LIMIT 1")
    assert isinstance(body, bytes)
    other = zlib.compress(zlib.decompress(body).replace(b"common", b"rotten"), 1)
    for damaged in (body[:5] + bytes([body[5] ^ 4]) + body[6:], other, b"", "text"):
        change_row(full, "UPDATE texts SET body = ? WHERE sha = ?", (damaged, sha))
        assert any(problem.artefact == "texts" for problem in full.store.verify())
        with pytest.raises(IndexCorrupt) as raised:
            use(full)
        assert "--rebuild" in raised.value.hint
    change_row(full, "DELETE FROM texts WHERE sha = ?", (sha,))
    assert any(problem.artefact == "texts" for problem in full.store.verify())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET start = start + 1 WHERE key = 5",
        "UPDATE chunks SET vector = 100000 WHERE key = 5",
        "UPDATE chunks SET sha = x'00' WHERE key = 5",
        "UPDATE documents SET text_sha = x'00' WHERE id = 2",
        "UPDATE embeddings SET checksum = checksum + 1 WHERE row = 3",
        "UPDATE embeddings SET row = 99999 WHERE row = 3",
        "DELETE FROM chunks WHERE key = 5",
        "DELETE FROM embeddings WHERE row = 3",
    ],
)
def test_inconsistent_rows_are_found(full: Shelf, statement: str) -> None:
    change_row(full, statement)
    assert full.store.verify() != []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET metadata = 'not json' WHERE id = 2",
        "UPDATE documents SET warnings = x'ff' WHERE id = 2",
        "UPDATE documents SET title = CAST(x'ff41' AS TEXT) WHERE id = 2",
        "UPDATE sections SET parent = 77 WHERE document = 2",
        "UPDATE chunks SET vector = 100000 WHERE key = 5",
        "UPDATE meta SET value = 'x' WHERE key = 'dimensions'",
        "UPDATE meta SET value = '77' WHERE key = 'dimensions'",
        "DELETE FROM meta WHERE key = 'fingerprint'",
        "UPDATE meta SET value = 'x' WHERE key = 'active'",
        "UPDATE meta SET value = 'x' WHERE key = 'keywords_stamp'",
        "UPDATE generations SET manifest = '{'",
        "DROP TABLE sections",
        "DROP TABLE meta",
    ],
)
def test_invalid_rows_are_reported_as_damage(full: Shelf, statement: str) -> None:
    change_row(full, statement)
    with pytest.raises(IndexCorrupt) as raised:
        use(full)
    assert "--rebuild" in raised.value.hint
    assert full.store.verify() is not None


def _garbage(path: Path) -> None:
    put(path, random.Random(1).randbytes(max(200, path.stat().st_size)))


def _cut(path: Path) -> None:
    put(path, path.read_bytes()[: path.stat().st_size // 2])


def _gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _empty(path: Path) -> None:
    put(path, b"")


@pytest.mark.parametrize("damage", [_garbage, _cut, _gone, _empty])
@pytest.mark.parametrize("name", ["catalogue.db", "vectors.f16", "words/segments.json"])
def test_a_damaged_file_raises_an_error_with_a_hint(
    full: Shelf, name: str, damage: Callable[[Path], None]
) -> None:
    """Seen to fail when the vector file was not checked before it was mapped."""
    damage(epoch_folder(full) / name)
    with pytest.raises(IndexCorrupt) as raised:
        use(full)
    assert "--rebuild" in raised.value.hint
    assert full.store.verify() != []
    full.store.close()
    with pytest.raises(IndexCorrupt):
        full.write({"new.md": "common\n"})
    full.write(TEXTS, rebuild=True)
    assert full.store.verify() == []
    assert use(full) > 0


def test_a_missing_keyword_folder_is_damage(full: Shelf) -> None:
    _gone(epoch_folder(full) / KEYWORDS)
    with pytest.raises(IndexCorrupt):
        use(full)
    assert full.store.verify() != []


def test_truncating_the_vector_file_under_a_reader_is_damage_and_not_a_crash(full: Shelf) -> None:
    """Seen to fail (the process died of SIGBUS) when an old mapping was used unchecked."""
    assert full.found("common")
    with full.store.snapshot() as snapshot:
        snapshot.vector_search(full.embedder.embed(["common"])[0], 5, Filters())
    path = epoch_folder(full) / "vectors.f16"
    with path.open("r+b") as file:
        file.truncate(100)
    assert [problem.artefact for problem in full.store.verify()] == ["vectors"]
    with pytest.raises(IndexCorrupt):
        full.found("common")


def test_keyword_files_are_checked_before_they_are_mapped(full: Shelf) -> None:
    """Seen to fail (other hits, and not a word) when only ``verify`` compared checksums."""
    path = max(keyword_files(full), key=lambda each: each.stat().st_size)
    flip(path, path.stat().st_size // 2)
    with pytest.raises(IndexCorrupt) as raised:
        use(full)
    assert "checksum" in raised.value.developer


def test_an_undecodable_name_is_reported_as_damage(full: Shelf) -> None:
    """SQLite repeats it in its complaint, which Python then cannot read.

    Seen to fail with a ``UnicodeDecodeError``.
    """
    path = epoch_folder(full) / "catalogue.db"
    data = bytearray(path.read_bytes())
    data[data.index(b"tablechunkschunks") + len(b"table")] = 0xCC
    data[data.index(b"CREATE TABLE chunks")] ^= 1
    put(path, data)
    with pytest.raises(IndexCorrupt):
        use(full)
    assert full.store.verify() != []


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_never_ends_in_a_traceback(full: Shelf, seed: int) -> None:
    """Any file, some flipped bits: a good answer or a typed error, and ``verify`` always ends."""
    chance = random.Random(seed)
    paths = [path for path in epoch_folder(full).rglob("*") if path.is_file()]
    path = chance.choice([path for path in paths if path.stat().st_size])
    for _ in range(chance.randint(1, 20)):
        flip(path, chance.randrange(path.stat().st_size), chance.randrange(8))
    with suppress(LookfarError):
        use(full)
    full.store.verify()
