"""What a front end keeps in memory never shows in an answer about a newer state."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from lookfar.model import Filters
from lookfar.store.postgres import vector_memory
from lookfar.store.postgres.server import Server, ServerConnection
from lookfar.store.postgres.snapshot import PostgresSnapshot
from lookfar.store.postgres.store import PostgresStore
from store.contract.pgserver import PgServer
from store.shelf import Shelf, words
from waiting import DEADLINE

_numbers = count(1)
Front = Callable[[], Shelf]


@pytest.fixture
def front(pg: PgServer, tmp_path: Path) -> Front:
    """Opens one more front end of the test's collection, with connections of its own."""
    name = f"front-{next(_numbers)}"
    return lambda: Shelf(PostgresStore(Server(pg.url()), name, tmp_path))


def pages(number: int, amount: int = 6) -> dict[str, str | None]:
    return {f"{n}.md": f"# Page {n}\n\nround{number}x silver birch of all\n" for n in range(amount)}


def ask(shelf: Shelf, question: str) -> tuple[set[str], set[str], set[str]]:
    """Return what words, vectors and texts say, read as a question does."""
    with shelf.store.snapshot() as snapshot:
        by_words = {place.uri for place, _ in words(snapshot, question)}
        vector = shelf.embedder.embed_query(question)
        by_vector = {place.uri for place, _ in snapshot.vector_search(vector, 50, Filters())}
        snapshot.preload_texts(sorted(by_vector))
        rounds = {(snapshot.text(uri) or "").split("round")[1][0] for uri in by_vector}
    return by_words, by_vector, rounds


def test_two_front_ends_see_a_new_generation_at_once(front: Front) -> None:
    """Protects against texts cached by URI alone; seen to fail while the copy of the vectors was
    used whatever had been added."""
    writer, one, other = front(), front(), front()
    for number in range(1, 5):
        written = pages(number, amount=4 + number)
        writer.write({**written, "gone.md": None}, rebuild=number == 3)
        for shelf in (one, other, one):
            by_words, by_vector, rounds = ask(shelf, f"round{number}x birch")
            assert by_words == by_vector == set(written)
            # Common words, whose lists were read for the generation before.
            assert ask(shelf, "silver birch")[0] == set(written)
            assert rounds == {str(number)}
            assert set(shelf.everything().values()) == set(written.values())
    writer.write({"0.md": None})
    for shelf in (one, other):
        assert "0.md" not in ask(shelf, "round4x birch")[1]


def test_a_rollback_is_seen_at_once(front: Front) -> None:
    writer, one = front(), front()
    for number in (1, 2):
        writer.write(pages(number))
        assert ask(one, "silver birch")[2] == {str(number)}
    writer.store.roll_back(1)
    assert ask(one, "silver birch")[2] == {"1"}


def test_an_older_snapshot_is_answered_from_its_own_rows(front: Front) -> None:
    """Seen to fail while a copy that another thread had extended was used whole."""
    writer, one = front(), front()
    writer.write(pages(1))
    query = one.embedder.embed_query("amber")
    with one.store.snapshot() as before:
        writer.write({"new.md": "# Amber\n\namber\n"})
        with one.store.snapshot() as after:
            near = after.vector_search(query, 1, Filters())
            assert near[0][0].uri == "new.md"
        older = before.vector_search(query, 50, Filters())
        assert {place.uri for place, _ in older} == set(pages(1))
        assert isinstance(before, PostgresSnapshot)
        copied = before._copied_vectors()
        assert copied is not None
        assert len(copied) == int(before._serving.meta["vector_rows"])


def test_many_vectors_are_copied_beside_the_questions(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server compares until then, with the same result; a process with one question copies
    nothing."""
    monkeypatch.setattr(vector_memory, "_FEW", 5)
    monkeypatch.setattr(vector_memory, "_BLOCK", 7)
    shelf = front()
    shelf.write({f"{n}.md": f"# N{n}\n\nword{n} other{n % 7} third{n % 5}\n" for n in range(60)})
    query = shelf.embedder.embed_query("other3 third4")
    answers = []
    for copied in (False, False, True):
        with shelf.store.snapshot() as snapshot:
            assert isinstance(snapshot, PostgresSnapshot)
            memory = snapshot._epoch.vectors
            answers.append(snapshot.vector_search(query, 9, Filters(glob="*.md")))
            assert (snapshot._copied_vectors() is not None) is copied
            places = [place for place, _ in answers[-1]]
            answers.append(list(zip(places, snapshot.vector_scores(query, places), strict=True)))
        memory.wait(DEADLINE)
    for answer in answers[1:]:
        assert [place for place, _ in answer] == [place for place, _ in answers[0]]
        assert [score for _, score in answer] == pytest.approx(
            [score for _, score in answers[0]], abs=1e-3
        )


def test_vectors_that_take_too_much_memory_stay_on_the_server(pg: PgServer, tmp_path: Path) -> None:
    shelf = Shelf(PostgresStore(Server(pg.url()), "large", tmp_path, vector_bytes=100))
    shelf.write(pages(1))
    for _ in range(3):
        assert ask(shelf, "silver birch")[1] == set(pages(1))
        with shelf.store.snapshot() as snapshot:
            assert isinstance(snapshot, PostgresSnapshot)
            assert snapshot._copied_vectors() is None


def test_an_erased_vector_leaves_the_copies(front: Front) -> None:
    """Seen to fail while erasures were not counted."""
    writer, one = front(), front()
    writer.write({**pages(1), "secret.md": "# Secret\n\namber crimson\n"})
    query = one.embedder.embed_query("amber crimson")

    def copied() -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
        with one.store.snapshot() as snapshot:
            snapshot.vector_search(query, 3, Filters())
            assert isinstance(snapshot, PostgresSnapshot)
            rows = snapshot._copied_vectors()
            assert rows is not None
            return rows

    before = copied()
    writer.store.erase(["secret.md"], {}, retain=3)
    after = copied()
    blank = [row for row, vector in enumerate(after) if not vector.any()]
    assert blank, "the secret is blank in the copy"
    assert before[blank[0]].any()
    assert np.array_equal(
        np.delete(before, blank, 0), np.delete(after, blank, 0)[: len(before) - 1]
    )


def test_a_question_takes_few_round_trips(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects against one statement for each text and each term."""
    shelf = front()
    shelf.write({f"{n}.md": f"# N{n}\n\nsilver birch number{n}\n" for n in range(30)})
    asked: list[str] = []
    ask_server = ServerConnection.ask

    def count_statements(self: ServerConnection, statement: str, parameters: object = ()) -> object:
        asked.append(statement)
        return ask_server(self, statement, parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(ServerConnection, "ask", count_statements)
    with shelf.store.snapshot() as snapshot:
        assert asked == [], "a snapshot begins with one message, which brings every number"
        assert snapshot.known_terms(["silver", "birch", "oak"]) == {"silver", "birch"}
        assert len(asked) == 2, "the documents of other generations, and how often words occur"
        uris = [place.uri for place, _ in words(snapshot, "silver birch")]
        snapshot.preload_texts(uris)
        assert len({snapshot.text(uri) for uri in uris}) == 30
        assert len(asked) == 5, "lists, places and texts, one statement each"
    with shelf.store.snapshot() as snapshot:
        assert len({snapshot.text(uri) for uri in uris}) == 30
        assert len(words(snapshot, "silver birch")) == 30
        assert snapshot.failures() == []
        snapshot.manifest()
    assert len(asked) <= 7, "and nothing of it is read again"


def test_the_chunks_of_a_document_are_known_without_asking(front: Front) -> None:
    """Also of documents that are written, replaced and removed meanwhile."""
    writer, one = front(), front()
    chance = np.random.default_rng(4)
    for number in range(6):
        texts: dict[str, str | None] = {
            f"{n}.md": "".join(
                f"## Part {part}\n\nround{number} birch{part}\n\n" for part in range(n)
            )
            for n in chance.integers(1, 9, 4).tolist()
        }
        writer.write({**texts, f"{chance.integers(1, 9)}.md": None})
        with one.store.snapshot() as snapshot:
            assert isinstance(snapshot, PostgresSnapshot)
            documents = sorted(snapshot._every_document())
            for chosen in (documents, documents[::2], documents[-1:], [*documents, 10**6], []):
                keys, owners = snapshot._keywords._find_chunks(chosen)  # type: ignore[attr-defined]
                rows = snapshot._connection.ask(
                    "SELECT key, document FROM chunks WHERE document = ANY(%s::bigint[])"
                    " ORDER BY key",
                    (chosen,),
                ).fetchall()
                assert list(zip(keys.tolist(), owners, strict=True)) == rows
            assert snapshot._epoch.ranges._last == int(snapshot._serving.meta["last_document"])
