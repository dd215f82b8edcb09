"""Front ends on several machines: each searches a copy of its own, which follows the server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lookfar.errors import IndexBusy, NotIndexed, StoreUnavailable
from lookfar.model import Filters
from lookfar.ports import QualityQuery
from lookfar.store.postgres import local_copy, mirror, quality
from lookfar.store.postgres.server import Server
from lookfar.store.postgres.store import PostgresStore
from store.contract.pgserver import PgServer, ready, short_folder
from store.contract.test_contract import embed_with_second_model
from store.shelf import Shelf, python, visible_state, words
from waiting import DEADLINE, wait_for

_numbers = count(1)
Front = Callable[..., Shelf]


@pytest.fixture
def front(pg: PgServer, tmp_path: Path) -> Front:
    """Opens one more front end of the test's collection, on a machine of its own."""
    name = f"front-{next(_numbers)}"

    def open_front(machine: str = "") -> Shelf:
        copies = tmp_path / (machine or f"copies-{next(_numbers)}")
        return Shelf(PostgresStore(Server(pg.url()), name, tmp_path, copies))

    return open_front


@pytest.fixture
def own() -> Iterator[PgServer]:
    """A server that a test may kill."""
    with short_folder() as folder:
        server = PgServer(folder / "own")
        server.create()
        try:
            yield ready(server)
        finally:
            server.stop()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of each collection that was copied as a whole."""
    numbers: list[int] = []
    fetch = local_copy.LocalCopy._fetch

    def noted(self: Any, connection: Any, serving: Any, *rest: Any) -> Any:
        numbers.append(serving.collection)
        return fetch(self, connection, serving, *rest)

    monkeypatch.setattr(local_copy.LocalCopy, "_fetch", noted)
    return numbers


def pages(number: int, amount: int = 6) -> dict[str, str | None]:
    return {f"{n}.md": f"# Page {n}\n\nround{number}x silver birch of all\n" for n in range(amount)}


def ask(shelf: Shelf, question: str) -> tuple[set[str], set[str], set[str]]:
    """Return what words, vectors and texts say, read as a question does."""
    with shelf.store.snapshot() as snapshot:
        by_words = {place.uri for place, _ in words(snapshot, question)}
        vector = shelf.embedder.embed_query(question)
        by_vector = {place.uri for place, _ in snapshot.vector_search(vector, 50, Filters())}
        rounds = {(snapshot.text(uri) or "").split("round")[1][0] for uri in by_vector}
    return by_words, by_vector, rounds


def test_two_front_ends_see_a_new_generation_at_once(front: Front, fetched: list[int]) -> None:
    writer, one, other = front(), front(), front()
    for number in range(1, 5):
        written = pages(number, amount=4 + number)
        writer.write({**written, "gone.md": None}, rebuild=number == 3)
        for shelf in (one, other, one):
            by_words, by_vector, rounds = ask(shelf, f"round{number}x birch")
            assert by_words == by_vector == set(written)
            assert ask(shelf, "silver birch")[0] == set(written)
            assert rounds == {str(number)}
            assert set(shelf.everything().values()) == set(written.values())
    writer.write({"0.md": None})
    for shelf in (one, other):
        assert "0.md" not in ask(shelf, "round4x birch")[1]
        assert visible_state(shelf) == visible_state(writer)
    assert len(fetched) == 4, "each copied two indexes, and followed the other commits"


def test_a_rollback_is_seen_at_once(front: Front) -> None:
    writer, one = front(), front()
    for number in (1, 2):
        writer.write(pages(number))
        assert ask(one, "silver birch")[2] == {str(number)}
    writer.store.roll_back(1)
    assert ask(one, "silver birch")[2] == {"1"}
    assert one.store.held() == 1


def test_vectors_of_the_second_model_are_shared(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quality, "_AT_ONCE", 2)
    query = QualityQuery("letters", np.array([1, 0, 0, 0], dtype=np.float32))

    def count(shelf: Shelf) -> int:
        with shelf.store.snapshot() as snapshot:
            places = [place for uri in snapshot.uris() for place in snapshot.chunks(uri)]
            return sum(score is not None for score in snapshot.quality_scores(query, places))

    writer, one = front(), front()
    writer.write(pages(1))
    assert count(one) == 0
    assert embed_with_second_model(writer) == 6
    assert [count(one) for _ in range(3)] == [2, 4, 6], "some with each question"
    assert count(front()) == 6, "a new front end begins with all"
    one.write({"new.md": "# New\n\nnew\n"})
    assert embed_with_second_model(one) == 1, "those of others are not made again"
    writer.write(pages(2), rebuild=True)
    assert embed_with_second_model(writer) == 6
    writer.write(pages(1), rebuild=True)
    assert count(writer) == 0
    fresh = front()
    assert embed_with_second_model(fresh) == 6
    assert count(writer) + count(writer) + count(writer) == 12
    assert fresh.store.verify() == writer.store.verify() == []


def test_any_machine_may_write(front: Front, fetched: list[int]) -> None:
    one, other = front(), front()
    for number in range(1, 8):
        (one, other)[number % 2].write({f"{number}.md": f"# N{number}\n\nsilver\n"})
    assert visible_state(one) == visible_state(other)
    assert len(one.everything()) == 7
    assert one.store.verify() == other.store.verify() == []
    assert len(fetched) == 3, "one to begin with, and those that verify"


def test_an_older_snapshot_stays_as_it_is_while_the_copy_follows(front: Front) -> None:
    writer, one = front(), front()
    writer.write(pages(1))
    query = one.embedder.embed_query("amber")
    with one.store.snapshot() as before:
        writer.write({"new.md": "# Amber\n\namber\n"})
        with one.store.snapshot() as after:
            assert after.vector_search(query, 1, Filters())[0][0].uri == "new.md"
        older = before.vector_search(query, 50, Filters())
        assert {place.uri for place, _ in older} == set(pages(1))


def find_bytes(folder: Path, needle: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


def test_an_erasure_leaves_no_trace_in_any_copy(front: Front, tmp_path: Path) -> None:
    """Seen to fail while followers purged the rows and kept their bytes."""
    writer, one, other = front("writer"), front("one"), front("other")
    writer.write({**pages(1), "secret.md": "# Secret\n\nxyzzyplugh amber\n"})
    for shelf in (one, other):
        assert shelf.found("xyzzyplugh") == ["secret.md"]
        assert find_bytes(tmp_path, b"xyzzyplugh")
    writer.store.erase(["secret.md"], {}, retain=3)
    writer.write({"new.md": "# New\n\nmore\n"})
    for shelf in (one, other):
        assert shelf.found("xyzzyplugh") == []
        assert shelf.store.verify() == []
    assert find_bytes(tmp_path, b"xyzzyplugh") == []
    assert find_bytes(tmp_path, b"secret.md") == []


def test_a_copy_of_a_deleted_collection_is_removed(front: Front, tmp_path: Path) -> None:
    writer, one = front("writer"), front("one")
    writer.write({"a.md": "# A\n\nxyzzyplugh\n"})
    assert one.found("xyzzyplugh") == ["a.md"]
    writer.store.delete()
    with pytest.raises(NotIndexed):
        one.found("xyzzyplugh")
    assert find_bytes(tmp_path, b"xyzzyplugh") == []


def test_processes_of_one_machine_share_a_copy(front: Front, fetched: list[int]) -> None:
    writer, one, other = front(), front("same"), front("same")
    writer.write(pages(1))
    assert one.everything() == other.everything() == pages(1)
    assert len(fetched) == 1


def test_a_damaged_copy_is_fetched_again(front: Front, tmp_path: Path) -> None:
    writer, one = front(), front("one")
    writer.write(pages(1))
    assert one.everything() == pages(1)
    (vectors,) = (tmp_path / "one").rglob("vectors.f16")
    vectors.write_bytes(vectors.read_bytes()[:70])
    with pytest.raises(IndexBusy) as raised:
        ask(one, "silver birch")
    assert raised.value.details["rebuilding"], "the library asks again by itself"
    assert ask(one, "silver birch")[0] == set(pages(1))
    one.store.close()
    (segment,) = (tmp_path / "one").rglob("*.words")
    segment.write_bytes(segment.read_bytes()[:70])
    assert ask(one, "silver birch")[0] == set(pages(1)), "seen when it is opened"
    (pointer,) = (tmp_path / "one").rglob("CURRENT")
    pointer.write_text("rubbish")
    assert one.everything() == pages(1)


def test_a_copy_that_is_far_behind_is_fetched_again(
    front: Front, fetched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_MOST_REVISIONS", 2)
    writer, one = front(), front()
    writer.write(pages(1))
    assert one.everything() == pages(1)
    for number in (2, 3, 4, 5):
        writer.write(pages(number))
    assert one.everything() == pages(5)
    assert len(fetched) == 2
    assert one.store.verify() == []


def test_a_server_that_is_away_is_answered_for_by_the_copy(own: PgServer, tmp_path: Path) -> None:
    url = own.url()
    shelf, never = (
        Shelf(PostgresStore(Server(url), "away", tmp_path, tmp_path / each)) for each in "ab"
    )
    shelf.write(pages(1))
    own.kill()
    assert shelf.everything() == pages(1)
    assert "cannot be reached" in shelf.store.outdated
    assert "the copy of 20" in shelf.store.outdated, "it says how old it is"
    with pytest.raises(StoreUnavailable):
        never.everything()
    with pytest.raises(StoreUnavailable):
        shelf.write(pages(2))
    own.start()
    assert shelf.everything() == never.everything() == pages(1)
    assert shelf.store.outdated == ""


def test_a_restored_backup_is_followed(own: PgServer, tmp_path: Path) -> None:
    """Its commits have the numbers of others. Seen to fail with numbers alone."""

    def open_front(copies: str) -> Shelf:
        return Shelf(PostgresStore(Server(own.url()), "restored", tmp_path, tmp_path / copies))

    writer, one = open_front("a"), open_front("b")
    writer.write(pages(1))
    own.stop()
    backup = own.folder / "backup"
    subprocess.run(["cp", "-a", own.data, backup], check=True)
    own.start()
    writer.write(pages(2))
    assert one.everything() == pages(2)
    own.stop()
    shutil.rmtree(own.data)
    backup.rename(own.data)
    own.start()
    assert one.everything() == pages(1)
    writer.write(pages(3))
    writer.write(pages(4))
    assert one.everything() == writer.everything() == pages(4)
    assert one.store.verify() == []


@pytest.mark.parametrize("many", [False, True])
def test_a_front_end_killed_while_it_follows_leaves_a_sound_copy(
    pg: PgServer, front: Front, tmp_path: Path, many: bool
) -> None:
    writer = front()
    writer.write(pages(1))
    name = writer.store.name  # type: ignore[attr-defined]
    one = front("one")
    if not many:
        assert one.everything() == pages(1)
        writer.write(pages(2))
    ready_file = tmp_path / "following"
    code = """
        import sys, time
        from pathlib import Path
        from lookfar.store.postgres import local_copy
        from lookfar.store.postgres.server import Server
        from lookfar.store.postgres.store import PostgresStore

        def stop(connection):
            Path(sys.argv[4]).touch()
            time.sleep(1000)

        local_copy.commit = stop
        copies = Path(sys.argv[3])
        store = PostgresStore(Server(sys.argv[1]), sys.argv[2], copies, copies)
        store.generations()
    """
    process = subprocess.Popen(python(code, pg.url(), name, tmp_path / "one", ready_file))
    wait_for(ready_file.exists, "it is about to commit")
    os.kill(process.pid, signal.SIGKILL)
    process.wait(DEADLINE)
    assert one.everything() == writer.everything()
    assert len(one.found("birch")) == 6
    assert one.store.verify() == []


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_writer_that_dies_after_the_server_committed_follows(
    front: Front, monkeypatch: pytest.MonkeyPatch, rebuild: bool
) -> None:
    """Its copy has vectors and terms already that its catalogue does not name yet."""
    writer, other = front("one"), front()
    writer.write(pages(1))
    with monkeypatch.context() as dying:
        dying.setattr(
            "lookfar.store.sqlite.write_session.commit",
            lambda _: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            writer.write({**pages(2), "new.md": "# New\n\nsilver\n"}, rebuild=rebuild)
    for shelf in (other, front("one"), writer):
        assert shelf.everything()["0.md"] == pages(2)["0.md"]
        assert sorted(shelf.found("silver")) == sorted([*pages(2), "new.md"])
        assert visible_state(shelf) == visible_state(other)
    assert writer.write(pages(3)) == 3
    assert other.everything()["0.md"] == pages(3)["0.md"]
    assert writer.store.verify() == other.store.verify() == []


def test_a_question_asks_the_server_once(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = front()
    shelf.write({f"{n}.md": f"# N{n}\n\nsilver birch number{n}\n" for n in range(30)})
    assert len(shelf.everything()) == 30
    asked: list[str] = []
    serving = Server.serving

    def noted(self: Server, name: str) -> object:
        asked.append(name)
        return serving(self, name)

    monkeypatch.setattr(Server, "serving", noted)
    monkeypatch.setattr(Server, "_connect", lambda *_: pytest.fail("a second connection"))
    with shelf.store.snapshot() as snapshot:
        assert len(words(snapshot, "silver birch")) == 30
        assert all(snapshot.text(uri) for uri in snapshot.uris())
        snapshot.manifest()
    assert len(asked) == 1
