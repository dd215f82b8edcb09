"""Earlier states: rollback, writing after it, pins, retention and differences."""

from __future__ import annotations

import random
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lookfar.errors import IndexBusy, IndexHeld, InvalidArgument, NotIndexed
from lookfar.model import DocumentChange
from processor_time import processor_time_below
from store.shelf import (
    Elsewhere,
    Shelf,
    change_row,
    pages,
    python,
    rows_of,
    serving_epoch,
    visible_state,
    words,
)
from waiting import DEADLINE

FIRST = {
    "a.md": "# Alpha\n\nthe first crimson text\n",
    "b.md": "# Beta\n\nthe second crimson text\n",
    "c.md": "# Gamma\n\nthe third crimson text\n",
}
SECOND: dict[str, str | None] = {
    "b.md": "# Beta\n\nsecond and turquoise now\n",
    "c.md": None,
    "d.md": "# Delta\n\na fourth, turquoise text\n",
}
THIRD: dict[str, str | None] = {"a.md": "# Alpha\n\nmagenta text\n", "d.md": None}


@pytest.fixture
def three(shelf: Shelf) -> Shelf:
    """A collection of three generations."""
    for each in (FIRST, SECOND, THIRD):
        shelf.write(each)
    return shelf


def rebuilt(tmp_path: Path, texts: dict[str, str]) -> dict[str, object]:
    """Return what a fresh index of ``texts`` shows."""
    fresh = Shelf(tmp_path / "fresh")
    fresh.write(texts)
    found = visible_state(fresh)
    fresh.store.close()
    return found


def numbers(shelf: Shelf) -> list[int]:
    return [generation.number for generation in shelf.store.generations()]


# --- roll-back --------------------------------------------------------------------------------


def test_a_rollback_shows_exactly_the_older_state(three: Shelf, tmp_path: Path) -> None:
    """Seen to fail when ``roll_back`` did not move the pointer."""
    newest = visible_state(three)
    three.store.roll_back(1)
    assert visible_state(three) == rebuilt(tmp_path, FIRST)
    assert three.found("turquoise magenta") == []
    assert three.store.held() == 1
    assert numbers(three) == [1, 2, 3]
    assert three.store.verify() == []
    three.store.roll_back(2)
    assert three.found("turquoise") == ["b.md", "d.md"]
    three.store.roll_back(3)
    assert visible_state(three) == newest
    assert three.store.held() is None, "the newest is where it would be anyway"
    assert three.store.verify() == []


def test_known_documents_are_those_of_the_active_generation(three: Shelf) -> None:
    """Seen to fail when ``known`` asked for what has not died: ``a.md`` and ``c.md`` differ."""
    three.store.roll_back(1)
    with three.store.snapshot() as snapshot:
        known = snapshot.known()
        assert {uri: known[uri].document for uri in known} == {"a.md": 1, "b.md": 2, "c.md": 3}
    with three.session() as session:
        assert {uri: each.document for uri, each in session.known().items()} == {
            "a.md": 1, "b.md": 2, "c.md": 3,
        }  # fmt: skip


def test_a_rollback_is_fast_whatever_the_size(shelf: Shelf) -> None:
    for round in range(2):
        shelf.write({f"{n}.md": f"# {n}\n\nround {round} word{n}\n" for n in range(300)})
    with processor_time_below(0.5):  # Some 5 ms; a shared machine gets more.
        shelf.store.roll_back(1)
    assert len(shelf.found("round 0", limit=500)) == 300


def test_only_kept_generations_allow_rollback(three: Shelf, tmp_path: Path) -> None:
    for number in (0, -1, 4):
        with pytest.raises(InvalidArgument, match="not kept") as raised:
            three.store.roll_back(number)
        assert "1, 2, 3" in raised.value.hint
        assert raised.value.details == {"kept": [1, 2, 3]}
    assert three.store.held() is None
    with pytest.raises(NotIndexed):
        Shelf(tmp_path / "nothing").store.roll_back(1)
    assert not (tmp_path / "nothing").exists()


def test_a_rollback_waits_for_the_writer(three: Shelf) -> None:
    """Seen to fail when ``_changing`` took no lock: the roll-back then waited for SQLite's."""
    with three.session():
        for change in (
            lambda: three.store.roll_back(1),
            lambda: three.store.pin(1),
            lambda: three.store.prune(1),
        ):
            with pytest.raises(IndexBusy, match="updating this index"):
                change()
    three.store.roll_back(1, wait_seconds=1)


SEES = """
    import sys
    from pathlib import Path
    from shelf import Shelf
    shelf = Shelf(Path(sys.argv[1]))
    for _ in range(3):
        print(*sorted(shelf.everything()), shelf.found("crimson"), flush=True)
        sys.stdin.readline()
"""


def test_a_reader_in_another_process_sees_a_rollback_at_once(three: Shelf) -> None:
    reader = subprocess.Popen(
        python(SEES, three.store.folder),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert reader.stdout is not None
    assert reader.stdin is not None
    seen = []
    for move in (1, 3, None):
        seen.append(reader.stdout.readline().strip())
        if move:
            three.store.roll_back(move)
        reader.stdin.write("\n")
        reader.stdin.flush()
    reader.communicate(timeout=DEADLINE)
    assert seen == ["a.md b.md []", "a.md b.md c.md ['a.md', 'b.md', 'c.md']", "a.md b.md []"]


def test_an_open_snapshot_keeps_its_generation(three: Shelf) -> None:
    with three.store.snapshot() as before, three.store.snapshot(3) as third:
        three.store.roll_back(1)
        three.write({"e.md": "# E\n\nemerald\n"})
        three.write({"f.md": "# F\n\nfuchsia\n"})
        for snapshot in (before, third):
            assert snapshot.uris() == ["a.md", "b.md"]
            assert [place.uri for place, _ in words(snapshot, "magenta")] == ["a.md"]
            assert len(pages(snapshot, "magenta")) == 1


def test_readers_never_see_a_mix_while_the_pointer_moves(shelf: Shelf) -> None:
    """Each generation says its number in every text, so a mix of two shows.

    Seen to fail when a snapshot read the pointer in a transaction of its own.
    """
    names = [f"{n}.md" for n in range(6)]
    for number in (1, 2, 3):
        shelf.write({name: f"# {name}\n\nstate{number} common\n" for name in names})
    done = threading.Event()

    def read() -> int:
        count = 0
        while not done.is_set():
            with shelf.store.snapshot() as snapshot:
                said = {(snapshot.text(uri) or "").split()[2] for uri in snapshot.uris()}
                assert said == {f"state{snapshot.generation}"}
                found = [place.uri for place, _ in words(snapshot, f"state{snapshot.generation}")]
                assert sorted(found) == names
            count += 1
        return count

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        try:
            for number in (1, 2, 3, 2, 1) * 4:
                shelf.store.roll_back(number)
            for number in (4, 5, 6):
                shelf.write({name: f"# {name}\n\nstate{number} common\n" for name in names})
                shelf.store.roll_back(1 if number < 6 else 6)
        finally:
            done.set()
        assert all(reader.result(timeout=DEADLINE) for reader in readers)
    assert shelf.store.verify() == []


# --- writing after a roll-back ----------------------------------------------------------------


def test_a_write_after_a_rollback_equals_a_rebuild(three: Shelf, tmp_path: Path) -> None:
    """Seen to fail when ``drop_rolled_back`` left what was born later (its ghosts answered
    again), and when it left the dead dead (``c.md`` was lost)."""
    three.store.roll_back(1)
    assert three.write({"b.md": "# Beta\n\nochre text\n", "e.md": "# E\n\nturquoise text\n"}) == 4
    after = {**FIRST, "b.md": "# Beta\n\nochre text\n", "e.md": "# E\n\nturquoise text\n"}
    assert visible_state(three) == rebuilt(tmp_path, after)
    assert three.found("magenta") == []
    assert three.store.held() is None
    assert numbers(three) == [1, 4]
    assert three.store.verify() == []
    three.write({"g.md": "# G\n\ngrey\n"})
    assert rows_of(three, "SELECT * FROM graves") == []
    assert three.store.verify() == []
    every = serving_epoch(three).keywords.view.live([], 1 << 40)
    assert every.search(["magenta"], {"body": 1.0}, 10) == []


def test_a_write_that_restores_a_dropped_text_stores_it_again(three: Shelf) -> None:
    three.store.roll_back(1)
    three.write(SECOND)
    assert three.everything()["d.md"] == SECOND["d.md"]
    assert sorted(three.found("turquoise")) == ["b.md", "d.md"]
    assert three.store.verify() == []


def test_a_session_without_changes_releases_the_hold_and_keeps_the_generation(three: Shelf) -> None:
    """Seen to fail when ``commit_touches`` gave the number before the new one."""
    three.store.roll_back(2)
    before = visible_state(three)
    with three.session() as session:
        assert session.commit_touches() == 2
    assert (three.store.held(), numbers(three)) == (None, [1, 2])
    assert visible_state(three) == before
    assert three.store.verify() == []
    assert three.write({"z.md": "# Z\n\nzinc\n"}) == 4


def test_numbers_are_never_reused(three: Shelf) -> None:
    """Seen to fail when the next number was one more than the active one, when a roll-back did

    not record the highest, and when a new epoch followed the active one.
    """
    three.store.roll_back(1)
    assert three.write({"z.md": "one\n"}) == 4
    three.store.roll_back(1)
    with three.session() as session:
        session.commit_touches()
    assert numbers(three) == [1]
    assert three.write({"z.md": "two\n"}) == 5
    three.store.roll_back(1)
    assert three.write({"z.md": "three\n"}, rebuild=True) == 6
    assert (three.store.held(), numbers(three)) == (None, [6])


def test_an_abandoned_session_keeps_the_hold_and_newer_generations(three: Shelf) -> None:
    newest = visible_state(three)
    three.store.roll_back(1)
    before = visible_state(three)
    with three.session() as session:
        three.fill(session, {"b.md": "# Beta\n\nochre\n"})
    assert (three.store.held(), numbers(three)) == (1, [1, 2, 3])
    assert visible_state(three) == before
    three.store.roll_back(3)
    assert visible_state(three) == newest
    assert three.store.verify() == []


def test_a_background_writer_refuses_a_held_collection(three: Shelf) -> None:
    """Seen to fail when ``let_go`` was not looked at, and when only the serving epoch did."""
    three.store.roll_back(1)

    def unasked(fingerprint: str = "one") -> None:
        with three.store.writer(
            fingerprint, three.embedder.dimensions, about={}, retain=3, let_go=False
        ) as session:
            session.activate({})

    for fingerprint in ("one", "other"):
        with pytest.raises(IndexHeld, match="held at generation 1"):
            unasked(fingerprint)
    assert (three.store.held(), numbers(three)) == (1, [1, 2, 3])
    three.store.roll_back(3)
    unasked()
    assert numbers(three)[-1] == 4


def test_a_pinned_generation_is_never_dropped_by_a_write(three: Shelf) -> None:
    """Seen to fail when ``drop_rolled_back`` did not look at pins."""
    three.store.pin(3)
    three.store.roll_back(1)
    with pytest.raises(IndexHeld, match="generation 3, which is pinned") as raised:
        three.write({"z.md": "zinc\n"})
    assert "unpin 3" in raised.value.hint
    assert (three.store.held(), numbers(three)) == (1, [1, 2, 3])
    three.store.pin(3, pinned=False)
    assert three.write({"z.md": "zinc\n"}) == 4


# --- crashes ----------------------------------------------------------------------------------

DIE_IN_ROLL_BACK = """
    import os, sys
    from pathlib import Path
    from shelf import Shelf
    from lookfar.store.catalogue import generations
    done = generations.roll_back
    generations.roll_back = lambda *given: (done(*given), os._exit(9))
    Shelf(Path(sys.argv[1])).store.roll_back(1)
"""
DIE_IN_WRITE = """
    import os, sys
    from pathlib import Path
    from shelf import Shelf
    from lookfar.store.catalogue import rows
    rows.Inserts.flush = lambda self: os._exit(9)  # after vectors and keywords are durable
    Shelf(Path(sys.argv[1])).write({"b.md": "# Beta\\n\\nghostly ochre\\n", "a.md": None})
"""


def test_a_crash_during_a_rollback_changes_nothing(three: Shelf, elsewhere: Elsewhere) -> None:
    before = visible_state(three)
    assert elsewhere(DIE_IN_ROLL_BACK, three.store.folder).returncode == 9
    assert visible_state(three) == before
    assert three.store.held() is None
    three.store.roll_back(1)
    assert three.store.verify() == []


def test_a_crash_in_the_write_after_a_rollback_loses_nothing(
    three: Shelf, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """Seen to fail when that session's keyword commit already lacked what it dropped: rolled

    forward again, the words of generation 3 found nothing.
    """
    newest = visible_state(three)
    three.store.roll_back(1)
    before = visible_state(three)
    died = elsewhere(DIE_IN_WRITE, three.store.folder)
    assert died.returncode == 9, died.stderr
    again = Shelf(three.store.folder)
    assert visible_state(again) == visible_state(three) == before
    assert again.store.held() == 1
    assert again.store.verify() == []
    again.store.roll_back(3)
    assert visible_state(again) == visible_state(three) == newest
    again.store.roll_back(1)
    again.write({"b.md": None})
    left = {uri: text for uri, text in FIRST.items() if uri != "b.md"}
    assert visible_state(again) == rebuilt(tmp_path, left)
    assert again.found("ghostly") == []
    assert again.store.verify() == []
    again.store.close()


# --- pins and retention -----------------------------------------------------------------------


def test_pinned_generations_survive_retention(shelf: Shelf) -> None:
    shelf.write({"a.md": "zero\n"})
    shelf.store.pin(1)
    for number in range(2, 8):
        shelf.write({"a.md": f"round {number}\n"})
    assert numbers(shelf) == [1, 5, 6, 7]
    assert [generation.number for generation in shelf.store.generations() if generation.pinned] == [
        1
    ]
    with shelf.store.snapshot(1) as snapshot:
        assert snapshot.text("a.md") == "zero\n"
        assert [place.uri for place, _ in words(snapshot, "zero")] == ["a.md"]
    shelf.store.pin(1, pinned=False)
    shelf.write({"a.md": "last\n"})
    assert numbers(shelf) == [6, 7, 8]
    for pinned in (True, False):
        with pytest.raises(InvalidArgument, match="not kept"):
            shelf.store.pin(1, pinned=pinned)


def test_pruning_applies_retention_at_once(three: Shelf) -> None:
    """Seen to fail when pruning emptied the graves: their entries then stayed for ever."""
    assert three.store.prune(5) == (0, 0)
    assert three.store.prune(2) == (1, 2)
    assert three.store.prune(1) == (1, 2)
    assert numbers(three) == [3]
    assert rows_of(three, "SELECT count(*) FROM documents") == [(2,)]
    assert len(rows_of(three, "SELECT * FROM graves")) == 4
    assert three.store.verify() == []
    three.write({"z.md": "zinc\n"})
    assert rows_of(three, "SELECT * FROM graves") == []
    assert three.store.verify() == []
    with pytest.raises(InvalidArgument, match="0 generations"):
        three.store.prune(0)


def test_pruning_keeps_the_serving_generation(three: Shelf, tmp_path: Path) -> None:
    """Seen to fail when ``retire`` looked at numbers alone: generation 1 went while it served."""
    three.store.roll_back(1)
    assert three.store.prune(1)[0] == 1
    assert numbers(three) == [1, 3]
    assert visible_state(three) == rebuilt(tmp_path, FIRST)
    assert three.store.verify() == []


# --- manifests and differences ----------------------------------------------------------------


def test_a_manifest_has_counts_and_a_content_hash(three: Shelf, tmp_path: Path) -> None:
    """Seen to fail when the counts took in what had died."""
    for generation in three.store.generations():
        with three.store.snapshot(generation.number) as snapshot:
            counts = snapshot.counts()
        told = generation.manifest
        assert [told[key] for key in ("documents", "sections", "chunks", "links")] == [
            counts.documents, counts.sections, counts.chunks, counts.links,
        ]  # fmt: skip
    other = Shelf(tmp_path / "other")
    other.write({**FIRST, "x.md": "unlike\n"})
    other.write({"x.md": None})
    one, two, same = (
        each.manifest["content"]
        for each in (*three.store.generations()[:2], other.store.generations()[1])
    )
    assert one == same != two
    other.store.close()


def test_a_diff_lists_added_removed_and_changed_documents(three: Shelf) -> None:
    found = three.store.diff(1, 3)
    assert (found.older, found.newer) == (1, 3)
    assert (found.added, found.removed) == ((), ("c.md",))
    assert [each.uri for each in found.changed] == ["a.md", "b.md"]
    back = three.store.diff(3, 1)
    assert (back.added, back.removed) == (("c.md",), ())
    assert three.store.diff(1, 2).added == ("d.md",)
    assert three.store.diff(2, 2) == type(found)(2, 2, (), (), ())
    with pytest.raises(InvalidArgument, match="9 is not kept"):
        three.store.diff(1, 9)


def test_a_rename_is_a_removal_and_an_addition(shelf: Shelf) -> None:
    shelf.write({"old.md": "# Same\n\ntext\n", "stays.md": "still\n"})
    shelf.write({"old.md": None, "new.md": "# Same\n\ntext\n"})
    found = shelf.store.diff(1, 2)
    assert (found.added, found.removed, found.changed) == (("new.md",), ("old.md",), ())


def test_rewriting_the_same_text_is_not_a_change(shelf: Shelf) -> None:
    shelf.write({"a.md": "alpha\n"})
    shelf.write({"a.md": "beta\n"})
    shelf.write({"a.md": "alpha\n"})
    assert shelf.store.diff(1, 3).changed == ()


def test_a_diff_lists_changed_sections(shelf: Shelf) -> None:
    """Seen to fail when a section's text took in its subsections: ``Guide`` was then changed."""
    before = (
        "---\ntitle: x\n---\nintro\n\n# Guide\n\nhello\n\n## Setup\n\ninstall\n\n## Use\n\nrun\n\n"
        "## Same\n\none\n\n## Same\n\ntwo\n"
    )
    after = (
        "---\ntitle: y\n---\nintro\n\n# Guide\n\nhello\n\n## Setup\n\ninstall it\n\n"
        "## Same\n\nzero\n\n## Same\n\none\n\n## Same\n\ntwo\n\n## More\n\nmore\n"
    )
    shelf.write({"a.md": before})
    shelf.write({"a.md": after})
    assert shelf.store.diff(1, 2).changed == (
        DocumentChange(
            "a.md",
            added=(("Guide", "Same"), ("Guide", "More")),
            removed=(("Guide", "Use"),),
            changed=((), ("Guide", "Setup")),
        ),
    )


@pytest.mark.parametrize(
    ("before", "after", "sections"),
    [
        ("one\n", "two\n", DocumentChange("a.md", (), (), ((),))),
        ("# A\n\none\n", "one\n", DocumentChange("a.md", ((),), (("A",),), ())),
        ("one\n", "# A\n\none\n", DocumentChange("a.md", (("A",),), ((),), ())),
    ],
)
def test_a_diff_handles_documents_without_headings(
    shelf: Shelf, before: str, after: str, sections: DocumentChange
) -> None:
    """Seen to fail: the end of the text was one more than there were headings."""
    shelf.write({"a.md": before})
    shelf.write({"a.md": after})
    assert shelf.store.diff(1, 2).changed == (sections,)


# --- all of it, in any order ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_writes_and_rollbacks_keeps_every_state(shelf: Shelf, seed: int) -> None:
    """A plain dictionary of states is the judge.

    Seen to fail when ``drop_rolled_back`` revived nothing, when it left what was born beyond the
    pointer, and when ``retire`` did not spare the active generation.
    """
    chance = random.Random(seed)
    shelf.write({"0.md": "word0\n", "1.md": "word1\n"})
    kept: dict[int, dict[str, str]] = {1: shelf.everything()}
    active = highest = 1
    pinned: set[int] = set()
    for step in range(40):
        number = chance.choice(sorted(kept))
        match chance.choice(("write", "write", "roll_back", "roll_back", "pin", "prune", "touch")):
            case "roll_back":
                shelf.store.roll_back(number)
                active = number
            case "pin":
                pinned ^= {number}
                shelf.store.pin(number, pinned=number in pinned)
            case "prune":
                shelf.store.prune(2)
                newest = sorted(kept)[-2:]
                kept = {n: kept[n] for n in kept if n in newest or n in pinned or n == active}
            case _ if any(n > active for n in pinned):
                with pytest.raises(IndexHeld), shelf.session():
                    pass
            case "touch":
                with shelf.session() as session:
                    assert session.commit_touches() == active
                kept = {n: kept[n] for n in kept if n <= active}
            case "write":
                uri = f"{chance.randrange(4)}.md"
                text = chance.choice((None, f"word{chance.randrange(4)} common\n"))
                after = {**kept[active], uri: text}
                kept = {n: kept[n] for n in kept if n <= active}
                highest += 1
                active = shelf.write({uri: text})
                assert active == highest
                kept[active] = {u: t for u, t in after.items() if t is not None}
                newest = sorted(kept)[-shelf.retain :]
                kept = {n: kept[n] for n in kept if n in newest or n in pinned}
        pinned &= kept.keys()
        assert numbers(shelf) == sorted(kept), step
        assert shelf.everything() == kept[active], step
        for number, texts in kept.items():
            with shelf.store.snapshot(number) as snapshot:
                assert sorted(place.uri for place, _ in words(snapshot, "common")) == sorted(
                    uri for uri, text in texts.items() if "common" in text
                )
                assert {uri: snapshot.text(uri) for uri in snapshot.uris()} == texts
    assert shelf.store.verify() == []


# --- verify -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE meta SET value = '9' WHERE key = 'active'", "9 serves and is not among"),
        ("INSERT INTO meta VALUES ('held', '2')", "generation 3 serves, and 2 is held"),
        ("UPDATE documents SET died = NULL WHERE id = 1", "a.md: two versions"),
    ],
)
def test_verify_finds_a_wrong_pointer(three: Shelf, damage: str, told: str) -> None:
    change_row(three, damage)
    assert any(told in problem.detail for problem in three.store.verify())
