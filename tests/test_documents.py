"""Databases of inserted documents: whole or not at all, found, cited, and gone when deleted."""

from __future__ import annotations

import json
import logging
import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from lookfar.collections import ulids
from lookfar.collections.databases import Documents
from lookfar.collections.inserting import filter_tags, tags_of
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    InvalidArgument,
    LookfarError,
    ModelUnavailable,
    NotFound,
)
from lookfar.library import Library
from lookfar.library.similar import nearest, settings_for
from lookfar.model import Filters, Hit
from lookfar.store.ground.database import connect

SECRET = "zyxwvutsrq"
LONG = "".join(f"Sentence number {at} tells of the harbour and its boats. " for at in range(60))


def opened(base: Path, **more: Any) -> Library:
    (base / "project").mkdir(exist_ok=True)
    given = {"embed.provider": "hash", "documents.dir": str(base / "db")}
    return Library.open(base / "project", index_dir=base / "index", settings=given | more)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with opened(tmp_path) as found:
        yield found


@pytest.fixture
def database(library: Library) -> Documents:
    return library.database()


def found(library: Library, text: str, name: str = "vectors", **more: Any) -> Sequence[Hit]:
    tuned = settings_for(library.settings.search)
    answer = library.search(
        text, collections=(f"{name}@documents",), tuned=tuned, answering=nearest, **more
    )
    return answer.hits


# --- ids ------------------------------------------------------------------------------------------


def test_ulids_grow_and_say_when_they_were_given() -> None:
    before = time.time_ns() // 1_000_000
    given = [ulids.new() for _ in range(2_000)]
    assert given == sorted(set(given))
    assert all(ulids.is_ulid(each) for each in given)
    assert before <= ulids.moment_of(given[0]) <= time.time_ns() // 1_000_000
    assert ulids.encode(ulids.decode(given[7])) == given[7]
    assert ulids.encode(bytes(16)) == "0" * 26
    assert ulids.encode(b"\xff" * 16) == "7" + "Z" * 25
    for wrong in ("", "8" + "Z" * 25, given[0].lower(), given[0][:-1], given[0][:-1] + "U"):
        assert not ulids.is_ulid(wrong)


def test_derived_ulids_are_always_the_same() -> None:
    owner = ulids.new()
    assert ulids.derived(owner, "0") == ulids.derived(owner, "0") != ulids.derived(owner, "1")
    assert ulids.derived(owner, "0")[:10] == owner[:10]


# --- inserting and finding ------------------------------------------------------------------------


def test_what_is_inserted_is_found_read_and_cited(library: Library, database: Documents) -> None:
    text = "犬は人間の友達です。\r\nとても賢い\x0b動物です"
    made = database.insert(text, {"lang": "ja"})
    assert ulids.is_ulid(made.doc_id)
    assert made.chunk_count == 1
    (hit,) = found(library, "犬")
    assert (hit.uri, hit.text, hit.state, hit.lane) == (made.doc_id, text, "same", "documents")
    assert library.read(made.doc_id, collection="vectors@documents").text == text
    address = f"lookfar://vectors@documents/{made.doc_id}"
    assert library.read(address).text == text
    assert library.outline(made.doc_id, collection="vectors@documents").tags == ("lang=ja",)
    (other,) = library.search("犬", filters=Filters(lanes=("documents",))).hits
    assert other.uri == made.doc_id
    assert library.search("犬").hits == ()
    assert library.verify(collection="vectors@documents") == []


def test_results_come_nearest_first_with_their_cosine_distance(
    library: Library, database: Documents
) -> None:
    # By words the third comes before the last, by meaning after it.
    texts = ["apples pears", "apples", "apples pears plums", "boats harbours",
             "pears pears apples apples apples and a boat"]  # fmt: skip
    names = {database.insert(text).doc_id: text for text in texts}
    hits = found(library, "apples pears")
    embedder = HashedEmbedder()
    query = embedder.embed(["apples pears"])[0]
    for hit in hits:
        cosine = float(np.dot(query, embedder.embed([hit.text])[0]))
        assert hit.score == pytest.approx(1 - cosine, abs=2e-3)
    assert [hit.score for hit in hits] == sorted(hit.score for hit in hits)
    assert names[hits[0].uri] == "apples pears"
    assert hits[0].score == pytest.approx(0, abs=1e-3)
    assert len(hits) == 5
    assert len(found(library, "apples pears", top_k=2)) == 2


def test_without_a_model_words_find_and_the_order_is_the_same_way_round(tmp_path: Path) -> None:
    with opened(tmp_path, **{"embed.provider": "none"}) as library:
        database = library.database()
        near = database.insert("Kubernetesの設定を変更する").doc_id
        far = database.insert("設定 は ほか の ページ にも あります。" * 5).doc_id
        database.insert("nothing of the kind")
        hits = found(library, "設定を変更")
        assert [hit.uri for hit in hits] == [near, far]
        assert 0 <= hits[0].score < hits[1].score <= 1


def test_long_texts_become_chunks_that_are_numbered(library: Library, database: Documents) -> None:
    made = database.insert(LONG)
    assert made.chunk_count == 6
    page = library.page(made.doc_id, collection="vectors@documents")
    assert len(page.chunks) == 6
    assert "".join(LONG[each.start : each.end] for each in page.chunks) == LONG
    hits = sorted(found(library, "harbour boats", top_k=10), key=lambda hit: hit.part)
    assert [hit.part for hit in hits] == [1, 2, 3, 4, 5, 6]
    assert all(len(hit.text) <= 700 and hit.text in LONG for hit in hits)
    assert len({hit.chunk_id for hit in hits}) == 6


def test_a_text_may_be_as_long_as_promised_and_no_longer(database: Documents) -> None:
    assert database.insert("あ" * 100_000).chunk_count > 100
    with pytest.raises(InvalidArgument, match="100,001"):
        database.insert("あ" * 100_001)
    assert len(list(database.entries())) == 1


@pytest.mark.parametrize("text", ["", " \n", "half \ud800 of it"])
def test_texts_without_words_or_whole_characters_are_refused(
    database: Documents, text: str
) -> None:
    with pytest.raises(InvalidArgument):
        database.insert(text)
    assert not database.exists


def test_two_documents_may_have_the_same_text(library: Library, database: Documents) -> None:
    """They share a vector; deleting one must not take it from the other."""
    one, two = database.insert(LONG), database.insert(LONG)
    assert one.doc_id != two.doc_id
    assert database.delete(one.doc_id) == one.chunk_count
    hits = found(library, "harbour boats")
    assert {hit.uri for hit in hits} == {two.doc_id}
    assert min(hit.score for hit in hits) < 0.9
    assert library.verify(collection="vectors@documents") == []


# --- databases ------------------------------------------------------------------------------------


def test_each_database_is_a_folder_of_its_own(library: Library, tmp_path: Path) -> None:
    notes = library.database("notes")
    with pytest.raises(NotFound, match="notes"):
        notes.insert("a text")
    with pytest.raises(NotFound, match="notes"):
        library.search("text", collections=("notes@documents",))
    with pytest.raises(NotFound):
        library.read("x", collection="notes@documents")
    assert notes.create() == tmp_path / "db" / "notes"
    before = notes.insert("a text").doc_id
    assert notes.create().is_dir()
    library.database().insert("another text")
    assert list(library.databases()) == ["notes@documents", "vectors@documents"]
    assert [hit.uri for hit in found(library, "text", "notes")] == [before]
    together = library.search("text", filters=Filters(lanes=("documents",))).hits
    assert {hit.collection for hit in together} == {"notes@documents", "vectors@documents"}


@pytest.mark.parametrize("name", ["CON", "con", "Nul", "aux", "PRN", "COM1", "lpt9"])
def test_names_that_windows_keeps_for_devices_are_refused(library: Library, name: str) -> None:
    """Proved by mutation: without the rule, CON is a database that cannot be copied there."""
    from lookfar.collections.inserting import checked_name

    with pytest.raises(InvalidArgument, match="cannot be the name") as raised:
        library.database(name)
    assert "Windows" in raised.value.hint
    assert checked_name(f"{name}-notes") == f"{name}-notes"


@pytest.mark.parametrize("name", ["a b", "../up", "a/b", "ü", "", ".", "x" * 65, "a\n"])
def test_names_are_letters_digits_underscores_and_hyphens(library: Library, name: str) -> None:
    with pytest.raises(InvalidArgument, match="name of a database"):
        Documents(name, library.settings, lambda: None)
    assert Documents("A-b_9", library.settings, lambda: None).database == "A-b_9"


def test_nothing_is_made_by_looking(library: Library, tmp_path: Path) -> None:
    assert not library.database().exists
    assert library.databases() == {}
    answer = library.search("text", filters=Filters(lanes=("documents",)))
    assert [note.reason for note in answer.incomplete] == ["no_documents"]
    assert not (tmp_path / "db").exists()


def test_a_database_cannot_be_rolled_back(library: Library, database: Documents) -> None:
    """What was inserted since would be lost with the next insert."""
    database.insert("one")
    database.insert("two")
    with pytest.raises(InvalidArgument, match="rolled back"):
        library.roll_back(1, collection="vectors@documents")
    (older,) = found(library, "one two", as_of=1)
    assert older.text == "one"


# --- metadata -------------------------------------------------------------------------------------


def test_metadata_is_kept_and_filters(library: Library, database: Documents) -> None:
    told = {"lang": "ja", "year": 2024, "draft": False, "none": None, "deep": {"a": [1]},
            "tags": ["x", "y"], "code": "2024"}  # fmt: skip
    one = database.insert("some text", told).doc_id
    two = database.insert("some text too", {"lang": "en", "year": 2024.0, "code": 2024}).doc_id
    assert database.metadata_of_all([one]) == {one: told}

    def asked(**wanted: Any) -> set[str]:
        filters = Filters(tags=filter_tags(wanted))
        return {hit.uri for hit in found(library, "some text", filters=filters)}

    assert asked() == asked(year=2024) == {one, two}
    assert asked(lang="ja") == asked(tags="y") == asked(none=None) == asked(draft=False) == {one}
    assert asked(lang="ja", year=2024) == {one}
    assert asked(code="2024") == {one}
    assert asked(code=2024) == {two}
    assert asked(lang="fr") == asked(lang="ja", code=2024) == set()
    plain = library.search("some text", filters=Filters(lanes=("documents",), tags=("x",)))
    assert [hit.uri for hit in plain.hits] == [one]
    with pytest.raises(InvalidArgument, match="deep"):
        asked(deep={"a": [1]})


def test_values_are_told_apart() -> None:
    assert tags_of({"a": "true"}) != tags_of({"a": True})
    assert tags_of({"a": '"x"'}) != tags_of({"a": "x"})
    assert tags_of({"a": 1}) == tags_of({"a": 1.0}) == ("a=1",)
    assert tags_of({"a": "x" * 600, "b": {"c": 1}}) == ()


@pytest.mark.parametrize(
    "metadata", [["a"], {"a": float("nan")}, {"a": "x" * 70_000}, {"a": object()}, {"a": "\ud800"}]
)
def test_metadata_that_is_no_json_object_is_refused(database: Documents, metadata: Any) -> None:
    deep: dict[str, Any] = {}
    for _ in range(30):
        deep = {"a": deep}
    for each in (metadata, deep):
        with pytest.raises(InvalidArgument):
            database.insert("a text", each)
    assert not database.exists


# --- all or nothing -------------------------------------------------------------------------------


class Failing(HashedEmbedder):
    """Fails in the middle of a text."""

    def embed(self, texts: Sequence[str]) -> Any:
        if any("number 40" in text for text in texts):
            raise LookfarError("The provider failed.", hint="Try again.")
        return super().embed(texts)


def test_a_provider_that_fails_leaves_nothing(library: Library, tmp_path: Path) -> None:
    failing = Failing()
    database = Documents("vectors", library.settings, lambda: failing)
    with pytest.raises(LookfarError, match="provider"):
        database.insert(LONG)
    assert not database.exists
    kept = database.insert("short text").doc_id
    with pytest.raises(LookfarError, match="provider"):
        database.insert(LONG)
    with pytest.raises(LookfarError, match="provider"):
        database.import_lines([json.dumps({"text": "fine"}), json.dumps({"text": LONG})])
    assert [each.doc_id for each in database.entries()] == [kept]
    assert database.store.verify() == []
    database.close()
    assert not traces(tmp_path / "db", b"harbour")


PRELUDE = """
    import json, sys
    from pathlib import Path
    from lookfar.library import Library
    base = Path(sys.argv[1])
    library = Library.open(base / "project", index_dir=base / "index", settings={
        "embed.provider": "hash", "documents.dir": str(base / "db")})
    database = library.database()
"""
INSERTING = (
    PRELUDE
    + """
    print("ready", flush=True)
    for number in range(1000):
        text = f"{sys.argv[2]} round {number}. " * 60
        print(database.insert(text, {"n": number}).doc_id, number, flush=True)
"""
)
DELETING = (
    PRELUDE
    + """
    names = [each.doc_id for each in database.entries()]
    print("ready", flush=True)
    for name in names:
        database.delete(name)
        print(name, flush=True)
"""
)


def elsewhere(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


def acknowledged(process: subprocess.Popen[str]) -> list[str]:
    """What it had printed; a last line that was cut counts for nothing."""
    assert process.stdout is not None
    with process, process.stdout:
        # Not communicate(), which knows nothing of what a readline() has read ahead.
        said = process.stdout.read()
    return [line for line in said.splitlines(keepends=True) if line.endswith("\n")]


KILLS = 20
AT_ONCE = 4


def test_kill_9_loses_nothing_acknowledged_and_shows_nothing_half(tmp_path: Path) -> None:
    """What was acknowledged is there, and of what was not either all or nothing."""
    chance = random.Random(8)
    for wave in range(KILLS // AT_ONCE):
        bases = [tmp_path / f"{wave}-{at}" for at in range(AT_ONCE)]
        for base in bases:
            (base / "project").mkdir(parents=True)
        processes = [elsewhere(INSERTING, base, "harbour boats") for base in bases]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            time.sleep(chance.uniform(0, 0.4))
            process.kill()
        for base, process in zip(bases, processes, strict=True):
            told = dict(line.split() for line in acknowledged(process))
            with opened(base) as library:
                database = library.database()
                kept = {each.doc_id: each for each in database.entries()} if database.exists else {}
                assert told.keys() <= kept.keys()
                assert len(kept) - len(told) <= 1
                for name, each in kept.items():
                    assert each.text == f"harbour boats round {each.metadata['n']}. " * 60
                    assert len(library.page(name, collection="vectors@documents").chunks) == 3
                if kept:
                    assert library.verify(collection="vectors@documents") == []
                late = database.insert("written after all of it").doc_id
                assert found(library, "written after all of it")[0].uri == late
                assert library.verify(collection="vectors@documents") == []


def test_kill_9_while_deleting_leaves_a_document_whole_or_none_of_it(tmp_path: Path) -> None:
    chance = random.Random(9)
    for trial in range(4):
        base = tmp_path / str(trial)
        base.mkdir()
        with opened(base) as library:
            texts = [json.dumps({"text": f"{SECRET}{at:02} boats. " * 80}) for at in range(30)]
            library.database().import_lines(texts)
        process = elsewhere(DELETING, base)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.05, 0.6))
        process.kill()
        told = {line.strip() for line in acknowledged(process)}
        with opened(base) as library:
            database = library.database()
            kept = {each.doc_id: each.text for each in database.entries()}
            assert len(kept) + len(told) in (29, 30)
            assert not told & kept.keys()
            # The next write finishes what the death interrupted.
            database.insert("after")
            assert library.verify(collection="vectors@documents") == []
        left = {text.split()[0] for text in kept.values()}
        for at in range(30):
            if f"{SECRET}{at:02}" not in left:
                assert not traces(base / "db", f"{SECRET}{at:02}".encode()), at


def test_two_processes_insert_into_one_database(tmp_path: Path) -> None:
    """Writers wait for each other, and nothing is lost."""
    (tmp_path / "project").mkdir()
    code = INSERTING.replace("range(1000)", "range(12)")
    processes = [elsewhere(code, tmp_path, f"writer{at}") for at in range(2)]
    told = [line.split()[0] for process in processes for line in acknowledged(process)[1:]]
    assert len(told) == 24
    with opened(tmp_path) as library:
        kept = list(library.database().entries())
        assert sorted(each.doc_id for each in kept) == sorted(told)
        assert library.verify(collection="vectors@documents") == []


def test_threads_share_a_database(library: Library, database: Documents) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda at: database.insert(f"text {at}").doc_id, range(12)))
    assert sorted(made) == sorted(each.doc_id for each in database.entries())
    assert len(found(library, "text", top_k=20)) == 12


# --- deleting -------------------------------------------------------------------------------------


def traces(folder: Path, *wanted: bytes) -> list[str]:
    """The files below a folder that hold one of these."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if any(each in path.read_bytes() for each in wanted)]


def known(database: Documents, term: str) -> bool:
    """Whether the dictionary of the keyword index has a term, of a live document or not: it
    is compressed, so that looking for the bytes would find nothing."""
    with database.store.snapshot() as snapshot:
        return snapshot.knows(term)


def half_floats(text: str) -> bytes:
    return bytes(HashedEmbedder().embed([text])[0].astype("<f2").tobytes())


def forgetful(path: Path, *, write: bool) -> sqlite3.Connection:
    """SQLite as some systems build it: what is deleted stays in the pages."""
    connection = connect(path, write=write)
    connection.execute("PRAGMA secure_delete=OFF")
    return connection


@pytest.mark.parametrize("beside", [0, 12])
def test_nothing_of_a_deleted_document_is_left_in_the_files(
    library: Library,
    database: Documents,
    tmp_path: Path,
    beside: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen to fail without the rewriting of segments, of the database file, and of vectors."""
    for module in ("write_session", "erase"):
        monkeypatch.setattr(f"lookfar.store.sqlite.{module}.connect", forgetful)
    text, doc_id = f"{SECRET} sails alone. 合言葉は秘密です。", ulids.new()
    # All in one segment of the keyword index.
    told: list[dict[str, Any]] = [
        {"text": f"Neighbour {at} speaks of boats."} for at in range(beside)
    ]
    told.append({"doc_id": doc_id, "text": text, "metadata": {"note": f"{SECRET}metadata"}})
    assert database.import_lines(map(json.dumps, told)).chunks == beside + 1
    vector = half_floats(text)
    words = (SECRET.encode(), "合言葉".encode(), text.encode(), doc_id.encode(), vector)
    assert known(database, SECRET)
    for word in (*words[:2], vector):
        assert traces(tmp_path / "db", word), word
    for at in range(min(beside, 3)):
        database.insert(f"Later neighbour {at} speaks of harbours.")
    library.pin(database.generations.list()[-1].number, collection="vectors@documents")
    assert database.delete(doc_id) == 1
    assert traces(tmp_path / "db", *words) == []
    assert not known(database, SECRET)
    assert not known(database, "合言")
    assert library.verify(collection="vectors@documents") == []
    with pytest.raises(NotFound, match=doc_id):
        database.delete(doc_id)
    assert doc_id not in {hit.uri for hit in found(library, text)}
    for snapshot in database.generations.list():
        hits = found(library, SECRET, as_of=snapshot.number)
        assert doc_id not in {hit.uri for hit in hits}
    if beside:
        assert {hit.text for hit in found(library, "speaks boats", top_k=30)} >= {
            f"Neighbour {at} speaks of boats." for at in range(beside)
        }
        database.insert("one more")
        assert library.verify(collection="vectors@documents") == []


def test_a_replaced_document_leaves_nothing_either(
    library: Library, database: Documents, tmp_path: Path
) -> None:
    shared = LONG[:650]
    made = database.insert(f"{shared}\n{SECRET} sails alone. " + LONG[650:1400])
    line = json.dumps({"doc_id": made.doc_id, "text": f"{shared}\nNobody sails. " + LONG[650:1400]})
    done = database.import_lines([line], replace=True)
    assert (done.added, done.replaced, done.skipped) == (0, 1, 0)
    assert traces(tmp_path / "db", SECRET.encode()) == []
    assert library.verify(collection="vectors@documents") == []
    hits = found(library, "harbour boats")
    assert {hit.uri for hit in hits} == {made.doc_id}
    assert all(hit.score < 1 for hit in hits)


def test_a_document_that_is_replaced_under_another_model_is_there_once(tmp_path: Path) -> None:
    """Protects against its old text living on beside the new one in the epoch that is made."""
    with opened(tmp_path) as before:
        made = [before.database().insert(f"{SECRET} sails alone {at}.").doc_id for at in range(3)]
    lines = [json.dumps({"doc_id": doc_id, "text": "Nobody sails."}) for doc_id in made[:2]]
    with opened(tmp_path, **{"embed.provider": "none"}) as library:
        done = library.database().import_lines(lines, replace=True)
        assert (done.added, done.replaced) == (0, 2)
        assert library.verify(collection="vectors@documents") == []
        texts = sorted(each.text for each in library.database().entries())
    assert texts == ["Nobody sails.", "Nobody sails.", f"{SECRET} sails alone 2."]


def test_a_reader_in_the_middle_delays_only_the_last_step(
    library: Library, database: Documents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader keeps from being cut off the log goes with the next write."""
    monkeypatch.setattr("lookfar.store.sqlite.erase._PATIENCE", 0.2)
    kept = database.insert("stays").doc_id
    made = database.insert(f"{SECRET} sails alone.")
    catalogue = next((tmp_path / "db").rglob("catalogue.db"))
    reader = sqlite3.connect(catalogue)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchone()
    assert database.delete(made.doc_id) == 1
    assert [hit.uri for hit in found(library, "stays alone")] == [kept]
    reader.close()
    database.insert("next")
    assert traces(tmp_path / "db", SECRET.encode()) == []


def test_several_go_at_once_or_none(database: Documents) -> None:
    names = [database.insert(f"text {at}").doc_id for at in range(4)]
    with pytest.raises(NotFound):
        database.delete(names[0], "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert len(list(database.entries())) == 4
    assert database.delete(*names[:3], names[0]) == 3
    assert [each.doc_id for each in database.entries()] == names[3:]


# --- carrying it elsewhere ------------------------------------------------------------------------


def test_an_export_imports_as_the_same_database(library: Library, database: Documents) -> None:
    for at in range(5):
        database.insert(f"text {at}\r\n 日本語 \u2028 {LONG if at == 2 else ''}", {"n": at})
    lines = list(database.export_lines())
    assert [json.loads(line)["metadata"]["n"] for line in lines] == [0, 1, 2, 3, 4]
    other = library.database("other")
    done = other.import_lines(lines[:3])
    assert (done.added, done.skipped) == (3, 0)
    seen: list[int] = []
    done = other.import_lines([*lines, "", lines[0]], on_documents=seen.append)
    assert (done.added, done.replaced, done.skipped) == (2, 0, 4)
    assert seen == [6]
    assert list(other.entries()) == list(database.entries())
    ids = [[each.id for each in library.page(json.loads(lines[2])["doc_id"],
            collection=f"{name}@documents").chunks] for name in ("vectors", "other")]  # fmt: skip
    assert ids[0] == ids[1]
    with pytest.raises(NotFound):
        list(library.database("nowhere").export_lines())


def test_an_import_refuses_another_text_under_the_same_name(database: Documents) -> None:
    name = database.insert("the first").doc_id
    other = json.dumps({"doc_id": name, "text": "the second"})
    for line in (other, json.dumps({"doc_id": name, "text": "the first", "metadata": {"a": 1}})):
        with pytest.raises(InvalidArgument, match="another text or metadata"):
            database.import_lines([line])
    assert [each.text for each in database.entries()] == ["the first"]
    database.import_lines([other], replace=True)
    assert [each.text for each in database.entries()] == ["the second"]


def test_lines_without_a_name_are_given_one_that_stays(database: Documents) -> None:
    lines = [json.dumps({"text": "one"}), json.dumps({"text": "one", "metadata": {"a": 1}})]
    assert database.import_lines(lines).added == 2
    assert database.import_lines(lines).skipped == 2


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[]", '"x"', '{"txt": "a"}', '{"text": 3}', '{"text": ""}', '{"text": "a", "x": 1}'),
        '{"text": "a", "doc_id": "faq-1"}',
        '{"text": "a", "metadata": []}',
    ],
)
def test_a_line_that_is_no_document_is_named(database: Documents, line: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^Line 2: "):
        database.import_lines([json.dumps({"text": "fine"}), line])


# --- other settings, damage -----------------------------------------------------------------------


def test_another_model_or_size_makes_it_anew_from_its_own_texts(tmp_path: Path) -> None:
    with opened(tmp_path) as library:
        names = [library.database().insert(f"{LONG} {at}", {"n": at}).doc_id for at in range(3)]
        before = list(library.database().entries())
        ids = [each.id for each in library.page(names[0], collection="vectors@documents").chunks]
    with opened(tmp_path, **{"embed.provider": "none"}) as library:
        assert len(found(library, "harbour")) == 10
        assert list(library.database().entries()) == before
    with opened(tmp_path, **{"documents.chunk_chars": 2000}) as library:
        made = library.database().insert("one more")
        assert library.status(collection="vectors@documents").counts.chunks == 3 * 2 + 1
        assert found(library, "one more")[0].uri == made.doc_id
    with opened(tmp_path) as library:
        assert len(found(library, "harbour boats", top_k=30)) == 3 * 6 + 1
        again = library.page(names[0], collection="vectors@documents").chunks
        assert [each.id for each in again] == ids
        assert library.verify(collection="vectors@documents") == []


def test_damaged_vectors_and_keywords_are_made_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as library:
        name = library.database().insert(LONG).doc_id
    for damage in ("vectors.f16", "words/segments.json"):
        next((tmp_path / "db").rglob(damage.split("/")[0])).joinpath(
            *damage.split("/")[1:]
        ).write_bytes(b"rubbish")
        with opened(tmp_path) as library:
            tuned = settings_for(library.settings.search)
            answer = library.search("harbour", collections=("vectors@documents",), tuned=tuned)
            assert {hit.uri for hit in answer.hits} == {name}, damage
            assert "healed" in {note.reason for note in answer.incomplete}
            assert library.verify(collection="vectors@documents") == []


def test_who_writes_mends_damage_too(tmp_path: Path) -> None:
    """Seen to fail with INDEX_CORRUPT until somebody asked a question."""
    with opened(tmp_path) as library:
        name = library.database().insert(LONG).doc_id
    for damage in ("vectors.f16", "words/segments.json"):
        place, _, rest = damage.partition("/")
        (next((tmp_path / "db").rglob(place)) / rest).write_bytes(b"rubbish")
        with opened(tmp_path) as library:
            other = library.database().insert(f"a text after {damage}").doc_id
            assert library.verify(collection="vectors@documents") == []
        (next((tmp_path / "db").rglob(place)) / rest).write_bytes(b"rubbish")
        with opened(tmp_path) as library:
            assert library.database().delete(other) == 1
            assert library.verify(collection="vectors@documents") == []
            assert [each.doc_id for each in library.database().entries()] == [name]


def test_vectors_of_another_length_are_refused(library: Library) -> None:
    """A service may have another model under the old name. Seen to make the file unreadable."""

    class Shorter(HashedEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            return super().embed(texts)[:, :-1]

    library.database().insert("one")
    changed = Documents("vectors", library.settings, Shorter)
    with pytest.raises(ModelUnavailable):
        changed.insert("two")
    assert [each.text for each in library.database().entries()] == ["one"]
    library.database().insert("three")
    assert library.verify(collection="vectors@documents") == []


def test_no_distance_is_below_none(library: Library) -> None:
    texts = [f"number {at} of the boats" for at in range(50)]
    for text in texts:
        library.database().insert(text)
    nearest_ones = [library.find_similar(text, top_k=1)[0][0] for text in texts]
    assert [each.text for each in nearest_ones] == texts
    assert all(each.score is not None and 0.0 <= each.score < 0.01 for each in nearest_ones)


def test_damaged_texts_are_not_taken_for_an_empty_database(tmp_path: Path) -> None:
    """There is no source to heal from, so nothing is set aside and nothing is lost further."""
    with opened(tmp_path) as library:
        library.database().insert(LONG)
    catalogue = next((tmp_path / "db").rglob("catalogue.db"))
    whole = catalogue.read_bytes()
    catalogue.write_bytes(whole[:4096] + b"rubbish" * 3000)
    damaged = catalogue.read_bytes()
    with opened(tmp_path) as library, pytest.raises(IndexCorrupt):
        library.search("harbour", collections=("vectors@documents",))
    assert catalogue.read_bytes() == damaged
    catalogue.write_bytes(whole)
    with opened(tmp_path) as library:
        assert found(library, "harbour")


def test_a_writer_that_waits_too_long_says_so(
    database: Documents, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from lookfar.store.ground.files import WriterLock

    database.insert("one")
    monkeypatch.setattr("lookfar.index.inserted.PATIENCE", 0.1)
    lock = WriterLock(tmp_path / "db" / "vectors" / "writer.lock")
    lock.acquire()
    with lock, pytest.raises(IndexBusy):
        database.insert("two")
    database.insert("two")


def test_logs_tell_how_long_things_took(
    database: Documents, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="lookfar"):
        name = database.insert("a text of my own").doc_id
        database.delete(name)
    said = [record.getMessage() for record in caplog.records]
    assert any(each.startswith("embedded 1 chunks in ") for each in said)
    assert any(each.startswith("insert in vectors: 1 chunks in ") for each in said)
    assert any(each.startswith("delete in vectors: 1 chunks in ") for each in said)
    assert not any("my own" in each for each in said)


# --- against a model ------------------------------------------------------------------------------

WORDS = st.lists(
    st.sampled_from(["boat", "harbour", "設定", "犬", "getUserById", "tea", "plums"]),
    min_size=1, max_size=12,
).map(" ".join)  # fmt: skip


class Database(RuleBasedStateMachine):
    """Insert, find and delete, compared with a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Path(mkdtemp(prefix="lookfar-documents-"))
        self.library = opened(self.work)
        self.texts: dict[str, str] = {}
        self.chance = random.Random(1)

    def names(self) -> list[str]:
        return sorted(self.texts)

    @rule(text=WORDS, often=st.integers(1, 120))
    def insert(self, text: str, often: int) -> None:
        whole = f"{text}. " * often
        made = self.library.database().insert(whole)
        self.texts[made.doc_id] = whole

    @rule()
    def delete(self) -> None:
        database = self.library.database()
        if self.texts:
            name = self.chance.choice(self.names())
            chunks = len(self.library.page(name, collection="vectors@documents").chunks)
            assert database.delete(name) == chunks
            del self.texts[name]

    @rule()
    def open_again(self) -> None:
        self.library.close()
        self.library = opened(self.work)

    @rule(text=WORDS)
    def find(self, text: str) -> None:
        if not self.library.database().exists:
            return
        hits = found(self.library, text, top_k=1000)
        assert {hit.uri for hit in hits} <= self.texts.keys()
        assert all(hit.text in self.texts[hit.uri] for hit in hits)
        assert [hit.score for hit in hits] == sorted(hit.score for hit in hits)
        wanted = set(text.split())
        having = {name for name, whole in self.texts.items() if wanted & set(whole.split(" "))}
        assert having <= {hit.uri for hit in hits}

    @invariant()
    def holds_what_it_should(self) -> None:
        database = self.library.database()
        kept = {each.doc_id: each.text for each in database.entries()} if database.exists else {}
        assert kept == self.texts

    def teardown(self) -> None:
        if self.library.database().exists:
            assert self.library.verify(collection="vectors@documents") == []
        self.library.close()
        shutil.rmtree(self.work)


def test_a_database_behaves_as_a_dictionary_would() -> None:
    run_state_machine_as_test(
        Database,
        settings=settings(
            max_examples=8,
            stateful_step_count=12,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_an_import_and_a_list_heal_a_damaged_database(library: Library) -> None:
    """Seen to fail: only questions, inserts and deletes did."""
    database = library.database()
    database.insert("the first")
    (vectors,) = database.index_dir.rglob("vectors.f16")
    vectors.write_bytes(b"")
    assert database.import_lines([json.dumps({"text": "the second"})]).added == 1
    (vectors,) = (each for each in database.index_dir.rglob("vectors.f16") if each.stat().st_size)
    vectors.write_bytes(b"")
    assert database.status().counts.documents == 2
    assert {each.text for each in database.entries()} == {"the first", "the second"}
