"""Signatures rule out most documents without a text, and never one with it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from lookfar.model import Filters
from lookfar.ports import EVERYTHING, AllOf, AnyOf, Need
from lookfar.store.catalogue import rows as catalog
from lookfar.store.keywords.signatures import SIGNATURES, SignatureFile, fold, sign, signed_texts
from lookfar.store.sqlite.write_session import EpochWriter
from store.shelf import Shelf

TRIALS = harness.amount(100, 3_000)
WORDS = ["harbour", "lantern", "meadow", "granite", "Kestrel", "straße", "設定", "K", "ſalt", "été"]


def holding(shelf: Shelf, need: Need, filters: Filters | None = None) -> set[str]:
    with shelf.store.snapshot() as snapshot:
        numbers = snapshot.documents_with(need, filters or Filters())
        return {fact.uri for fact in snapshot.facts(numbers)} if numbers else set()


def texts(seed: int, count: int = 40) -> dict[str, str]:
    chosen = random.Random(seed)
    return {
        f"page{number}.md": "# Page\n\n" + " ".join(chosen.choices(WORDS, k=30)) + f" n{number}\n"
        for number in range(count)
    }


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    made = Shelf(tmp_path / "index")
    made.write(texts(1))
    return made


def signature_file(shelf: Shelf) -> Path:
    (found,) = shelf.store.folder.glob(f"epoch-*/{SIGNATURES}")
    return found


def lacking(shelf: Shelf) -> set[str]:
    """Return the documents that contain some text and are ruled out; there must be none."""
    missed = set()
    with shelf.store.snapshot() as snapshot:
        every = {fact.document: fact.uri for fact in snapshot.facts()}
        for number, text in list(snapshot.texts(list(every))):
            folded = fold(text)
            for start in range(0, len(folded) - 5, 31):
                if number not in snapshot.documents_with(folded[start : start + 5], Filters()):
                    missed.add(every[number])
    return missed


@pytest.mark.parametrize("shift", range(5))
def test_a_large_text_is_signed_like_a_small_one_with_the_same_groups(shift: int) -> None:
    """Fails if a piece does not see the bytes of the next one."""
    line, at = b"the boats are moored at the quay, and the ropes are dry; ", (1 << 20) - shift
    large = (line * 20_000)[:at] + b"Q7XZ" + line * 20_000
    small = (line * 2)[: len(line) + at % len(line)] + b"Q7XZ" + line * 2
    assert sign(large) == sign(small)


@settings(max_examples=TRIALS, deadline=None)
@given(text=st.text(max_size=200), start=st.integers(0, 200), length=st.integers(3, 20))
def test_a_signature_matches_every_text_it_contains(text: str, start: int, length: int) -> None:
    """Seen to fail with a size that differs between writing and asking, and with a text whose case
    was not folded."""
    import numpy as np

    from lookfar.store.keywords.signatures import Documents

    raw = fold(text.encode())
    part = raw[start : start + length]
    bits = np.frombuffer(sign(text.encode()), dtype=np.uint8)
    one = Documents(np.array([7]), np.array([0]), np.array([len(bits) * 8], dtype=np.uint64), bits)
    if len(part) >= 3:
        assert one.holding(part).tolist() == [7]


def test_most_documents_without_a_text_are_ruled_out(shelf: Shelf) -> None:
    shelf.write({"special.md": "# One\n\nThe quixotic zeppelin departed.\n"})
    assert holding(shelf, b"quixotic zeppelin") == {"special.md"}
    assert holding(shelf, AllOf((b"quixotic", b"zeppelin"))) == {"special.md"}
    assert holding(shelf, AnyOf((b"quixotic", b"no such text"))) == {"special.md"}
    assert holding(shelf, b"quixotic", Filters(prefix="page")) == set()
    assert len(holding(shelf, EVERYTHING)) == 41


def test_signatures_follow_edits_and_generations(shelf: Shelf) -> None:
    before = shelf.write({"a.md": "# A\n\nobsidian\n"})
    shelf.write({"a.md": "# A\n\nmarzipan\n"})
    shelf.write({"page1.md": None})
    assert holding(shelf, b"marzipan") == {"a.md"}
    assert holding(shelf, b"obsidian") == set()
    with shelf.store.snapshot(before) as snapshot:
        (number,) = snapshot.documents_with(b"obsidian", Filters())
        assert [fact.uri for fact in snapshot.facts([number])] == ["a.md"]
    assert not lacking(shelf)


def test_leftovers_of_a_dead_writer_hide_no_document(shelf: Shelf) -> None:
    """A session that ends before its commit has given numbers away that the next gives again; and
    that one may be of a program that knows no signatures.

    Seen to fail with rows that are taken for those of whatever document has their number."""
    with shelf.session() as session:
        shelf.fill(session, {"lost.md": "# Lost\n\nephemeral\n"})
        assert isinstance(session, EpochWriter)
        session._save_derived()
    with pytest.MonkeyPatch.context() as older:
        older.setattr(SignatureFile, "append", lambda *_: None)
        older.setattr("lookfar.store.sqlite.epoch.Epoch.tend_signatures", lambda *_: None)
        shelf.write({"kept.md": "# Kept\n\nperennial\n"})
    assert holding(shelf, b"perennial") == {"kept.md"}
    assert not lacking(shelf)
    assert shelf.store.verify() == []


def test_an_index_without_signatures_is_searched_and_gets_them(shelf: Shelf) -> None:
    signature_file(shelf).unlink()
    shelf.store.close()
    again = Shelf(shelf.store.folder)
    assert holding(again, b"no such text") == set(texts(1))
    again.write({"new.md": "# New\n\nnovel\n"})
    assert holding(again, b"novel") == {"new.md"}
    assert not lacking(again)


@pytest.mark.parametrize("seed", range(harness.amount(8, 200)))
def test_damage_is_reported_repaired_and_hides_nothing(shelf: Shelf, seed: int) -> None:
    """Seen to fail with the checksum left out of the reading."""
    for number in range(3):
        shelf.write({f"more{number}.md": f"# More\n\nsupplement {number}\n"})
    path = signature_file(shelf)
    data = bytearray(path.read_bytes())
    chosen = random.Random(seed)
    if seed % 4 == 3:
        del data[chosen.randrange(len(data)) :]
    else:
        at = chosen.randrange(len(data))
        data[at] ^= 1 << chosen.randrange(8)
    path.unlink()  # As another file: a mapped one is never cut short by us.
    path.write_bytes(data)
    shelf.store.close()
    again = Shelf(shelf.store.folder)
    assert not lacking(again)
    assert [problem.artefact for problem in again.store.verify()] in (["signatures"], [])
    harness.report("damaged signatures", trials=1, faults=1)


def test_a_flipped_bit_is_found(shelf: Shelf) -> None:
    path = signature_file(shelf)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert [problem.artefact for problem in shelf.store.verify()] == ["signatures"]


def test_the_file_is_compacted(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookfar.store.sqlite.epoch._SPARE_ROWS", 10)
    for number in range(120):
        shelf.write({"page1.md": f"# Page\n\nedition {number}\n"})
    rows, _ = SignatureFile(signature_file(shelf)).size()
    assert rows <= 2 * 43 + 10
    assert holding(shelf, b"edition 119") == {"page1.md"}
    assert not lacking(shelf)


def test_signatures_are_those_of_the_stored_texts(shelf: Shelf) -> None:
    with shelf.store.snapshot() as snapshot:
        connection = snapshot._connection  # type: ignore[attr-defined]
        made = signed_texts(connection, list(catalog.text_hashes(connection)))
        hashes = catalog.text_hashes(connection)
        file = SignatureFile(signature_file(shelf))
        documents = file.documents(list(hashes), hashes.values())
        assert file.signatures(documents, list(hashes.values())) == sorted(made)
