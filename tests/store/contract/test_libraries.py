"""What users of libraries on a server see: a writer, and two front ends on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lookfar import Library
from lookfar.errors import StoreUnavailable
from store.contract.pgserver import PgServer, ready, short_folder


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
def machines(own: PgServer, tmp_path: Path) -> Iterator[list[Library]]:
    """The library of a writer, and of two front ends that only read."""
    vault = tmp_path / "vault"
    vault.mkdir()
    for number in range(5):
        (vault / f"{number}.md").write_text(f"# Note {number}\n\nThe crimson engine {number}.\n")
    with ExitStack() as stack:

        def open_library(machine: str, *, read_only: bool) -> Library:
            settings = {
                "embed.provider": "hash", "git.history": False, "store.url": own.url(),
                "store.read_only": read_only, "documents.dir": str(tmp_path / "documents"),
            }  # fmt: skip
            index = tmp_path / machine
            return stack.enter_context(Library.open(vault, index_dir=index, settings=settings))

        writer = open_library("writer", read_only=False)
        writer.index()
        yield [writer, open_library("one", read_only=True), open_library("two", read_only=True)]


def search(library: Library, query: str) -> tuple[list[tuple[str, float]], list[str]]:
    answer = library.search(query)
    return [(hit.uri, hit.score) for hit in answer.hits], [
        note.detail for note in answer.incomplete
    ]


def test_front_ends_answer_like_the_writer(machines: list[Library], tmp_path: Path) -> None:
    writer, *fronts = machines
    before = search(writer, "crimson engine")
    assert len(before[0]) == 5
    assert all(search(front, "crimson engine") == before for front in fronts)
    (tmp_path / "vault" / "new.md").write_text("# New\n\nA silver birch.\n")
    writer.index()
    for front in fronts:
        assert [uri for uri, _ in search(front, "silver birch")[0]] == ["new.md"]
        assert front.verify() == []


def test_an_erased_document_is_gone_everywhere(machines: list[Library], tmp_path: Path) -> None:
    writer, *fronts = machines
    database = writer.database("notes")
    database.create()
    secret = database.insert("The password is xyzzyplugh.", {"n": 1})
    database.insert("Nothing else is known.", {"n": 2})
    for front in fronts:
        found, _ = front.find_similar("password", database="notes")
        assert {hit.metadata["n"] for hit in found} == {1, 2}
    assert database.delete(secret.doc_id) == 1
    for front in fronts:
        found, _ = front.find_similar("password", database="notes")
        assert {hit.metadata["n"] for hit in found} == {2}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"xyzzyplugh" in path.read_bytes()]


def test_an_answer_says_how_old_it_is_while_the_server_is_away(
    machines: list[Library], own: PgServer, tmp_path: Path
) -> None:
    before = [search(library, "crimson engine") for library in machines]
    own.kill()
    for library, (hits, notes) in zip(machines, before, strict=True):
        now, said = search(library, "crimson engine")
        assert now == hits
        assert notes == []
        assert "cannot be reached" in said[0]
        assert "the copy of 20" in said[0]
    (tmp_path / "vault" / "new.md").write_text("# New\n\nA silver birch.\n")
    with pytest.raises(StoreUnavailable):
        machines[0].index()
    own.start()
    machines[0].index()
    for library in machines:
        hits, said = search(library, "silver birch")
        assert ([uri for uri, _ in hits], said) == (["new.md"], [])
