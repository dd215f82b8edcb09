"""Readers during writes: new states at once, old ones kept, nothing mixed or leaked."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import amount, report
from leaks import leaving_nothing_open
from lookfar.model import Filters
from lookfar.store.keywords.keyword_index import KeywordIndex, Listing
from lookfar.store.keywords.segment import Segment
from store.shelf import Shelf, pages, python, serving_epoch, words
from waiting import DEADLINE

FILES = 12
ACTIVATIONS = amount(50, 500)
CHECKS = amount(1, 40)
"""That readers make for each activation, of five queries each."""


def mark(number: int) -> str:
    """Write a number as one word of letters, which the analyser does not split."""
    return "mark" + "".join(chr(ord("a") + int(digit)) for digit in str(number))


def state(number: int) -> dict[str, str | None]:
    """Every document contains the number of its generation; one document comes and goes."""
    texts: dict[str, str | None] = {
        f"{n}.md": f"# Page {n}\n\n{mark(number)} common word{n}\n" for n in range(FILES)
    }
    texts["odd.md"] = f"{mark(number)} common\n" if number % 2 else None
    return texts


def check(shelf: Shelf, pause: float = 0.0) -> int:
    """Keywords, vectors and rows of a snapshot are of one complete state."""
    with shelf.store.snapshot() as snapshot:
        number = snapshot.generation
        time.sleep(pause)
        expected = {uri for uri, text in state(number).items() if text is not None}
        by_words = {place.uri for place, _ in words(snapshot, "common")}
        assert by_words == expected, (number, by_words ^ expected)
        assert {place.uri for place, _ in words(snapshot, mark(number))} == expected
        assert len(pages(snapshot, mark(number))) == len(expected)
        assert words(snapshot, mark(number + 1)) == []
        vector = shelf.embedder.embed([f"{mark(number)} common"])[0]
        near = snapshot.vector_search(vector, 100, Filters())
        assert {place.uri for place, _ in near} == expected
        for uri in expected:
            assert f"{mark(number)} " in (snapshot.text(uri) or "")
        return number


FOLLOWER = """
    import sys
    from pathlib import Path
    from shelf import Shelf
    from test_readers import check
    shelf = Shelf(Path(sys.argv[1]))
    last = checked = 0
    while last < int(sys.argv[2]):
        number = check(shelf)
        assert number >= last, (number, last)
        last, checked = number, checked + 1
        if checked == 1:
            print("ready", flush=True)
    print(checked)
"""


def test_readers_see_whole_generations_while_many_are_activated(shelf: Shelf) -> None:
    """A quick reader, one in another process, and a slow one whose snapshots outlive several

    activations.

    Seen to fail when all snapshots shared the newest keyword searcher.
    """
    shelf.retain = 1
    shelf.write(state(1))
    problems: list[BaseException] = []
    checked, met = [0, 0], [0, 0]
    over, writing = threading.Event(), threading.Event()

    def read(at: int) -> None:
        last = 0
        try:
            while not over.is_set():
                beside = writing.is_set()
                number = check(shelf, pause=0.3 * at)
                assert number >= last
                last = number
                checked[at] += 1
                met[at] += beside or writing.is_set()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    follower = subprocess.Popen(
        python(FOLLOWER, shelf.store.folder, ACTIVATIONS + 1),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    assert follower.stdout is not None
    assert follower.stdout.readline() == "ready\n"  # Starting may take longer than all activations.

    def wait_for(checks: int, *, slow: int = 0) -> None:
        while (sum(checked) < checks or checked[1] < slow) and not problems:
            time.sleep(0.001)

    for number in range(2, ACTIVATIONS + 2):
        with shelf.session() as session:
            writing.set()
            shelf.fill(session, state(number))
            # Half of the checks are made beside a writer that has written and not activated.
            wait_for(CHECKS * (number - 2) + (CHECKS + 1) // 2)
            assert session.activate({}) == number
            writing.clear()
        wait_for(CHECKS * (number - 1))
        if problems:
            break
    wait_for(0, slow=3)
    over.set()
    for thread in threads:
        thread.join()
    assert problems == []
    out, errors = follower.communicate(timeout=DEADLINE)
    assert errors == ""
    assert int(out) > 1
    assert check(shelf) == ACTIVATIONS + 1
    queries = 5 * (sum(checked) + int(out))
    report(
        "readers during activations", trials=queries, faults=ACTIVATIONS,
        note=f"no mix; {sum(met):,} of {sum(checked):,} checks met an open session",
    )  # fmt: skip
    assert sum(met) >= sum(checked) * amount(0, 1) // 3
    assert sum(met) > 0


def test_a_snapshot_keeps_its_state(shelf: Shelf) -> None:
    """Seen to fail when later commits of the keyword index showed through."""
    shelf.retain = 1
    shelf.write({"a.md": "crimson one\n", "b.md": "crimson two\n"})
    vector = shelf.embedder.embed(["crimson"])[0]
    with shelf.store.snapshot() as old:
        before = words(old, "crimson"), pages(old, "crimson")
        for number in range(5):
            changed = {"a.md": f"turquoise {number}\n", f"{number}.md": "crimson\n"}
            shelf.write({**changed, "b.md": None})
            with shelf.store.snapshot() as new:
                assert {place.uri for place, _ in words(new, "crimson")} >= {f"{number}.md"}
        shelf.write({"new.md": "crimson\n"}, rebuild=True)
        assert shelf.found("crimson") == ["new.md"]
        assert (words(old, "crimson"), pages(old, "crimson")) == before
        assert old.text("a.md") == "crimson one\n"
        near = old.vector_search(vector, 10, Filters())
        assert {place.uri for place, _ in near} == {"a.md", "b.md"}


def test_a_commit_while_the_keyword_index_is_reloaded_is_not_missed(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a view with the stamp of one commit and the segments of another."""
    shelf.write({"a.md": "crimson\n"})
    assert shelf.found("crimson") == ["a.md"]
    other = Shelf(shelf.store.folder)
    other.write({"b.md": "crimson\n"})
    original = KeywordIndex._open_segments
    pending = [{"c.md": "crimson\n"}]

    def open_segments(self: KeywordIndex, listing: Listing) -> tuple[Segment, ...]:
        if pending and self is serving_epoch(shelf).keywords:
            other.write(pending.pop())
        return original(self, listing)

    monkeypatch.setattr(KeywordIndex, "_open_segments", open_segments)
    assert "b.md" in shelf.found("crimson")
    assert pending == []
    assert sorted(shelf.found("crimson")) == ["a.md", "b.md", "c.md"]
    other.store.close()


READER = """
    import sys
    from pathlib import Path
    from shelf import Shelf
    from test_readers import check
    shelf = Shelf(Path(sys.argv[1]))
    for line in sys.stdin:
        print(check(shelf), flush=True)
"""


def test_another_process_sees_a_generation_as_soon_as_it_is_activated(shelf: Shelf) -> None:
    """Seen to fail when a reader never reloaded the keyword index."""
    shelf.write(state(1))
    reader = subprocess.Popen(
        python(READER, shelf.store.folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    seen = []
    for number in range(2, 8):
        shelf.write(state(number), rebuild=number == 5)
        reader.stdin.write("?\n")
        reader.stdin.flush()
        seen.append(reader.stdout.readline().strip())
    _, errors = reader.communicate(timeout=DEADLINE)
    assert errors == ""
    assert seen == [str(number) for number in range(2, 8)]


def test_readers_survive_a_replaced_epoch(shelf: Shelf) -> None:
    """Seen to fail when an epoch that went away while it was being opened was called damage."""
    shelf.write(state(1))
    problems: list[BaseException] = []
    over = threading.Event()

    def read() -> None:
        try:
            while not over.is_set():
                mine = Shelf(shelf.store.folder)
                check(mine)
                check(shelf)
                mine.store.close()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(2, 22):
        shelf.write({u: t for u, t in state(number).items() if t}, rebuild=True)
    over.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_opening_and_closing_leaks_nothing(shelf: Shelf, tmp_path: Path) -> None:
    """Seen to fail when a session that was not activated kept its connection."""
    shelf.write(state(1))

    def cycle(number: int) -> None:
        mine = Shelf(shelf.store.folder)
        check(mine)
        if number % 5 == 0:
            with mine.session() as session:
                shelf.fill(session, {"x.md": "left\n"})
        mine.store.close()
        unfinished = Shelf(tmp_path / "never")
        if number % 10 == 0:
            with unfinished.session() as session:
                shelf.fill(session, {"x.md": "left\n"})
            assert not unfinished.store.exists
            assert list((tmp_path / "never").glob("epoch-*")) == []

    cycle(0)
    with leaving_nothing_open(more=1):
        for number in range(1, 51):
            cycle(number)
