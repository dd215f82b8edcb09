"""Libraries that move between stores, and front ends that have no folder: as their users do it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from lookfar import Library
from lookfar.errors import (
    IndexReadOnly,
    InvalidArgument,
    InvalidConfig,
    NotFound,
    NotIndexed,
    RootNotFound,
    StoreUnavailable,
)
from lookfar.index.copy import Copied, IndexLocation, copy, select_collections
from lookfar.model import Filters
from lookfar.serve.cli.main import cli
from lookfar.serve.http.statuses import get_status
from lookfar.store.postgres.server import server_at
from lookfar.store.sqlite.write_session import EpochWriter
from store.contract.pgserver import PgServer

_MODEL = {"embed.provider": "hash", "git.history": False}
QUESTIONS = ("crimson engine", "how to set up", "start_engine", "notes about tea", "amber")


@pytest.fixture
def url(pg: PgServer) -> Iterator[str]:
    """A database of its own, since a copy takes all that is there."""
    pg.execute("DROP DATABASE IF EXISTS moved WITH (FORCE)", "CREATE DATABASE moved OWNER lookfar",
               database="postgres")  # fmt: skip
    pg.execute("CREATE EXTENSION vector", database="moved")
    yield pg.url(database="moved")
    server_at(pg.url(database="moved")).close()
    pg.execute("DROP DATABASE moved WITH (FORCE)", database="postgres")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "vault"
    (made / "sub").mkdir(parents=True)
    (made / "guide.md").write_text(
        "---\ntags: [howto]\naliases: [Handbook]\ndescription: How to set up\n---\n# Guide\n\n"
        "Start the crimson engine.\n\n## Setup\n\n```python\nstart_engine()\n```\n\n[[notes]]\n"
    )
    (made / "notes.md").write_text("# Notes\n\nTea, and [the guide](guide.md). Naïve café 😀.\n")
    (made / "engine.py").write_text('def start_engine():\n    """Crimson."""\n    return 1\n')
    (made / "empty.md").write_text("")
    for number in range(30):
        (made / "sub" / f"{number}.md").write_text(f"# N{number}\n\namber {number} of many\n")
    return made


def opened(folder: Path, where: Path | None = None, **settings: object) -> Library:
    chosen = {**_MODEL, **{name.replace("__", "."): value for name, value in settings.items()}}
    return Library.open(folder, index_dir=where, settings=chosen)


def answers(library: Library, **options: Any) -> list[tuple[str, float, str]]:
    """What somebody sees: hits with scores, without a look at the disk."""
    return [
        (hit.uri, hit.score, hit.sha256)
        for question in QUESTIONS
        for hit in library.search(question, **options).hits
    ]


def moved(source: Path | str, target: Path | str, *names: str) -> list[Copied]:
    return list(copy(IndexLocation(str(source)), IndexLocation(str(target)), names))


def test_copying_there_and_back_changes_nothing(folder: Path, tmp_path: Path, url: str) -> None:
    here, back = tmp_path / "here", tmp_path / "back"
    with opened(folder, here) as library:
        library.index()
        before = answers(library)
    assert before
    (there,) = moved(here, url)
    (returned,) = moved(url, back)
    assert (there.documents, there.copied) == (34, 34)
    assert (returned.documents, returned.chunks, returned.sha256) == (
        there.documents,
        there.chunks,
        there.sha256,
    )
    with opened(folder, tmp_path / "unused", store__url=url) as library:
        assert answers(library) == before, "to the last digit"
        assert library.index().unchanged == 34, "what the disk said came along"
        assert library.verify() == []
    with opened(folder, back) as library:
        assert answers(library) == before
        report = library.index()
        assert (report.unchanged, report.chunks_embedded) == (34, 0)
        assert library.verify() == []
    (again,) = moved(here, url)
    assert again.copied == 0, "what is there is not copied twice"


def test_nul_in_front_matter_is_copied(folder: Path, tmp_path: Path, url: str) -> None:
    """Seen to fail with escapes taken as they are: the hashes differed each time."""
    here = tmp_path / "here"
    odd = '---\ntitle: "Odd\\0title"\ntags: ["a\\0b"]\nx: "\\0"\n---\n\nsilver\n'
    (folder / "odd.md").write_text(odd)
    with opened(folder, here) as library:
        library.index()
    moved(here, url)
    with opened(folder, tmp_path / "unused", store__url=url) as library:
        found = library.search("start_engine", filters=Filters(languages=("python",))).hits
        assert {hit.uri for hit in found} >= {"guide.md", "engine.py"}


def test_commits_are_copied_too(repository: Callable[..., Any], tmp_path: Path, url: str) -> None:
    """Seen to fail while a folder had no terms of them."""
    made = repository("vault")
    made.commit("Add the crimson engine", {"a.md": "# A\n\nwords\n"})
    made.commit("Drain the amber lake", {"a.md": "# A\n\nother words\n"})
    here, settings = tmp_path / "here", {"git__history": True}
    with opened(made.path, here, **settings) as library:
        library.index()
        before = answers(library, filters=Filters(lanes=("commits",)))
        assert len(before) > 2
    assert len(moved(here, url)) == 2
    with opened(made.path, tmp_path / "b", store__url=url, **settings) as library:
        assert answers(library, filters=Filters(lanes=("commits",))) == before


def test_a_second_copy_updates_what_changed(folder: Path, tmp_path: Path, url: str) -> None:
    here = tmp_path / "here"
    with opened(folder, here) as library:
        library.index()
        moved(here, url)
        (folder / "notes.md").write_text("# Notes\n\nNothing but silver.\n")
        (folder / "empty.md").unlink()
        library.index()
    (again,) = moved(here, url)
    assert (again.copied, again.documents, again.generation) == (1, 33, 2)
    with opened(folder, store__url=url, store__read_only=True) as library:
        assert [hit.uri for hit in library.search("silver").hits] == ["notes.md"]


@pytest.mark.parametrize("back", [False, True])
def test_an_interrupted_copy_continues(
    folder: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    source: Path | str = tmp_path / "here"
    target: Path | str = url
    with opened(folder, tmp_path / "here") as library:
        library.index()
    if back:
        moved(source, url)
        source, target = url, tmp_path / "back"
    monkeypatch.setattr(
        "lookfar.index.copy.CheckpointTimer.run_if_due", lambda _, checkpoint: checkpoint()
    )
    put, count = EpochWriter.put, iter(range(100))

    def dying(self: EpochWriter, version: object) -> None:
        if next(count) == 20:
            raise KeyboardInterrupt
        put(self, version)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(EpochWriter, "put", dying)
        with pytest.raises(KeyboardInterrupt):
            moved(source, target)
    assert IndexLocation(str(target)).names() == [], "half a copy serves nobody"
    (done,) = moved(source, target)
    assert (done.documents, done.copied) == (34, 14)


def test_document_databases_are_copied_too(tmp_path: Path, url: str) -> None:
    data = tmp_path / "data"
    where = {"documents.dir": str(data / "documents"), "index.dir": str(data)}
    with Library.open(tmp_path, settings={**_MODEL, **where}) as library:
        database = library.database("notes")
        database.create()
        made = database.insert("The crimson engine runs on tea.", {"title": "Tea", "n": 1})
        found = library.find_similar("crimson engine", database="notes")[0]
    (there,) = moved(data, url)
    assert there.collection == "documents/notes"
    with Library.open(tmp_path, settings={**_MODEL, **where, "store.url": url}) as library:
        assert library.find_similar("crimson engine", database="notes")[0] == found
        assert library.database("notes").delete(made.doc_id) == 1
        assert library.find_similar("crimson engine", database="notes")[0] == []


def test_addresses_and_names_are_checked(folder: Path, tmp_path: Path, url: str) -> None:
    here = tmp_path / "here"
    with opened(folder, here) as library:
        library.index()
    with pytest.raises(InvalidArgument):
        moved(here, here)
    with pytest.raises(NotFound):
        moved(tmp_path / "nowhere", url)
    with pytest.raises(NotFound) as raised:
        select_collections(IndexLocation(str(here)), ["other"])
    assert raised.value.details["candidates"] == IndexLocation(str(here)).names()
    assert (
        select_collections(IndexLocation(str(here)), ["vault"]) == IndexLocation(str(here)).names()
    )
    assert IndexLocation(url).names() == [], "a server without tables has nothing"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_the_command_reports_what_it_copied(folder: Path, tmp_path: Path, url: str) -> None:
    here = tmp_path / "here"
    with opened(folder, here) as library:
        library.index()
    done = run("copy", str(here), url, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["skipped"] == []
    assert told["copied"][0]["documents"] == 34
    assert len(told["copied"][0]["sha256"]) == 64
    said = run("copy", url, str(tmp_path / "back"), "--collection", "vault")
    assert "34 documents" in said.stdout
    secret = run("copy", str(here), "postgresql://lookfar:hunter2@db.example/lookfar")
    assert secret.exit_code == 2
    assert "hunter2" not in secret.output
    assert "PGPASSWORD" in secret.output


# -- front ends without a folder -------------------------------------------------------------


def test_a_front_end_needs_no_folder(folder: Path, tmp_path: Path, url: str) -> None:
    with opened(folder, tmp_path / "a", store__url=url) as library:
        library.index()
        before, page = answers(library), library.read("guide.md").text
        near = library.related("guide.md")
    text = (folder / "guide.md").read_text()
    shutil.move(folder, tmp_path / "away")
    with pytest.raises(RootNotFound):
        opened(folder, store__url=url)
    with opened(folder, tmp_path / "b", store__url=url, store__read_only=True) as front:
        assert answers(front) == before
        assert all(hit.state == "same" for hit in front.search("crimson engine").hits)
        assert front.read("guide.md").text == page == text
        assert front.status().counts.documents == 34
        assert front.related("guide.md") == near
        front.watch()
        assert front.watching() is None
        for refused in (front.index, front.folder().delete):
            with pytest.raises(IndexReadOnly):
                refused()
        (copies,) = (tmp_path / "b").iterdir()
        assert copies.name == "copies", "nothing else is written on its machine"
        assert copies.stat().st_mode & 0o777 == 0o700
    never = tmp_path / "never"
    with (
        opened(never, store__url=url, store__read_only=True) as front,
        pytest.raises(NotIndexed),
    ):
        front.search("anything")


def test_a_front_end_shows_a_generation_as_soon_as_it_is_activated(
    folder: Path, tmp_path: Path, url: str
) -> None:
    with (
        opened(folder, tmp_path / "a", store__url=url) as writer,
        opened(folder, tmp_path / "b", store__url=url, store__read_only=True) as front,
    ):
        writer.index()
        assert front.search("silver").hits == ()
        (folder / "new.md").write_text("# New\n\nQuite some silver.\n")
        writer.index()
        assert [hit.uri for hit in front.search("silver").hits] == ["new.md"]


def test_addresses_with_passwords_or_in_project_settings_are_refused(folder: Path) -> None:
    for wrong in (
        "postgresql://me:hunter2@db/x",
        "postgresql://me@db/x?password=hunter2",
        "mysql://me@db/hunter2",
        "hunter2",
    ):
        with pytest.raises(InvalidConfig) as raised:
            opened(folder, store__url=wrong)
        assert "hunter2" not in str(raised.value.as_dict())
    (folder / "lookfar.toml").write_text('[store]\nurl = "postgresql://me@evil.example/x"\n')
    with pytest.raises(InvalidConfig) as raised:
        opened(folder)
    assert "LOOKFAR_STORE_URL" in raised.value.hint


def test_an_unreachable_server_raises_an_error_with_a_hint(folder: Path, tmp_path: Path) -> None:
    nowhere = f"postgresql://lookfar@/x?host={tmp_path}/nowhere"
    with opened(folder, store__url=nowhere) as library, pytest.raises(StoreUnavailable) as raised:
        library.search("crimson")
    assert "store.url" in raised.value.hint
    assert get_status(raised.value) == 503, "over HTTP, with a time to try again"


def test_two_databases_share_nothing(pg: PgServer, url: str) -> None:
    with psycopg.connect(url) as raw:
        assert raw.execute("SELECT current_database()").fetchone() == ("moved",)
    assert IndexLocation(url).names() == []
