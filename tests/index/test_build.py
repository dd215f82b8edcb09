"""One pass over a real folder: what is added, changed, removed, kept, skipped and reported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import lookfar.errors
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import InvalidArgument, RootNotFound
from lookfar.index import prepare
from lookfar.index.recipe import policy_from
from lookfar.index.reconcile import compare
from lookfar.index.worker import Preparer
from lookfar.library import Library
from lookfar.model import Failure, IndexReport
from lookfar.sources.folder.walk import walk
from lookfar.text.parse.formats import text_parser_for
from waiting import DEADLINE

SOURCE = Path(lookfar.errors.__file__).parents[1]


def write(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        (root / f"{name}.md").write_text(text)


def age(*paths: Path) -> None:
    """Make files look as if they had been written long ago; a new ctime cannot be undone."""
    for path in paths:
        os.utime(path, (1_600_000_000, 1_600_000_000))


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.removed, report.unchanged


def embedder(library: Library) -> HashedEmbedder:
    found = library.folder().embedder
    assert isinstance(found, HashedEmbedder)
    return found


def uris(library: Library) -> list[str]:
    with library.folder().store.snapshot() as snapshot:
        return snapshot.uris()


def test_files_are_added_changed_and_removed(library: Library, root: Path) -> None:
    write(root, a="alpha\n", b="beta\n", c="gamma\n")
    assert counts(library.index()) == (3, 0, 0, 0)
    write(root, b="beta two\n", d="delta\n")
    (root / "c.md").unlink()
    report = library.index()
    assert counts(report) == (1, 1, 1, 1)
    assert report.generation == 2
    assert uris(library) == ["a.md", "b.md", "d.md"]
    assert counts(library.index()) == (0, 0, 0, 3)
    assert library.status().generation == 2


def test_touching_a_file_makes_no_new_generation(library: Library, root: Path) -> None:
    """Seen to fail when ``Unchanged`` did not touch: the file was read again each time."""
    write(root, a="alpha\n")
    library.index()
    with library.folder().store.snapshot() as snapshot:
        before = snapshot.known()["a.md"].fingerprint
    age(root / "a.md")
    report = library.index()
    assert (counts(report), report.generation) == ((0, 0, 0, 1), 1)
    with library.folder().store.snapshot() as snapshot:
        after = snapshot.known()["a.md"].fingerprint
    assert after != before
    assert after.mtime_ns == 1_600_000_000 * 10**9
    assert library.status().stale == ()


def test_a_file_written_just_before_it_was_read_is_hashed_again(
    library: Library, root: Path
) -> None:
    """An edit within a clock tick keeps the fingerprint; only unsettled ones are read again.

    Seen to fail when ``compare`` trusted fingerprints that had not settled.
    """
    write(root, a="alpha\n")
    library.index()
    with library.folder().store.snapshot() as snapshot:
        known = snapshot.known()
    assert not known["a.md"].settled
    seen = walk(library.folder().root, policy_from(library.settings))
    assert [request.file.uri for request in compare(seen, known).read] == ["a.md"]
    steady = {uri: each._replace(settled=True) for uri, each in known.items()}
    assert compare(seen, steady).read == ()
    assert compare(seen, steady).same == 1


AS_NOBODY = """
import os, sys
import mmap, numkong, lookfar.index.build, lookfar.retrieve.search
import lookfar.embed.hashed, lookfar.text.parse.markdown
from lookfar.library import Library
os.setgid(65534); os.setuid(65534)
library = Library.open(sys.argv[1], index_dir=sys.argv[2],
                       settings={"embed.provider": "hash", "index.workers": 1})
report = library.index()
print([(f.uri, f.code) for f in report.failures], report.removed)
answer = library.search("alpha")
print(sorted({hit.uri for hit in answer.hits}))
print([(note.reason, note.uris) for note in answer.incomplete])
print(library.status().stale)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can reach and write."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def as_nobody(public: Path) -> list[str]:
    if os.getuid():
        pytest.skip("only root can become somebody else")
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(public / "root"), str(public / "index")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE), "HOME": "/nonexistent"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_unreadable_file_keeps_its_version_and_is_reported(public: Path) -> None:
    """An unreadable folder and an unreadable file are reported and not treated as deleted.

    Seen to fail when closed folders were in the report but not in the answers.
    """
    root = public / "root"
    (root / "closed").mkdir(parents=True)
    (root / "open.md").write_text("alpha open\n")
    (root / "closed" / "inner.md").write_text("alpha inner\n")
    (root / "secret.md").write_text("alpha secret\n")
    assert as_nobody(public)[0] == "[] 0"
    (root / "closed").chmod(0)
    (root / "secret.md").chmod(0)
    failed, found, notes, stale = as_nobody(public)
    assert failed == "[('closed', 'PERMISSION_DENIED'), ('secret.md', 'PERMISSION_DENIED')] 0"
    assert found == "['closed/inner.md', 'open.md', 'secret.md']"
    assert "'failed', ('closed', 'secret.md')" in notes
    assert stale == "()"
    (root / "closed").chmod(0o755)
    (root / "secret.md").chmod(0o644)
    failed, found, notes, stale = as_nobody(public)
    assert (failed, notes, stale) == ("[] 0", "[]", "()")


def test_a_missing_root_is_an_error_and_the_index_stays(library: Library, root: Path) -> None:
    write(root, a="alpha\n")
    library.index()
    root.rename(root.with_name("moved"))
    for rebuild in (False, True):
        with pytest.raises(RootNotFound) as raised:
            library.index(rebuild=rebuild)
        assert raised.value.hint
    assert uris(library) == ["a.md"]
    root.with_name("moved").rename(root)
    assert counts(library.index()) == (0, 0, 0, 1)


def test_a_file_that_vanishes_between_walk_and_reading_is_reported_then_removed(
    library: Library, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, a="alpha\n", b="beta\n", new="gamma\n")
    (root / "new.md").rename(root / "later")
    library.index()
    (root / "later").rename(root / "new.md")
    write(root, b="beta two\n")
    original = Preparer.run

    def vanish(self, requests, missing):  # type: ignore[no-untyped-def]
        for name in ("b.md", "new.md"):
            (root / name).unlink(missing_ok=True)
        return original(self, requests, missing)

    with monkeypatch.context() as patched:
        patched.setattr(Preparer, "run", vanish)
        report = library.index()
    assert [(failure.uri, failure.code) for failure in report.failures] == [
        ("b.md", "GONE"),
        ("new.md", "GONE"),
    ]
    assert uris(library) == ["a.md", "b.md"]
    assert library.search("alpha").incomplete == (), "the search itself puts it right"
    assert uris(library) == ["a.md"]
    assert library.status().failures == ()


def test_files_that_are_not_text_are_skipped_with_a_reason(library: Library, root: Path) -> None:
    write(root, good="alpha\n")
    (root / "binary.md").write_bytes(b"alpha\0beta")
    with (root / "large.md").open("wb") as file:
        file.truncate(40_000_000)
    (root / "link.md").symlink_to(root / "good.md")
    os.mkfifo(root / "pipe.md")
    report = library.index()
    assert uris(library) == ["good.md"]
    assert report.failures == ()
    for reason in ("binary", "too_large", "symlink", "not_a_file"):
        assert report.skipped[reason] == 1, reason
    assert library.index().skipped == report.skipped


def test_skipped_files_are_not_read_again(library: Library, root: Path) -> None:
    """Forty skipped files must not make every answer stale or every query write.

    Seen to fail when the store did not remember what it had left out.
    """
    write(root, good="alpha\n")
    for number in range(40):
        (root / f"{number}.md").write_bytes(b"binary\0")
    library.index()
    answer = library.search("alpha")
    assert answer.incomplete == ()
    assert library.status().stale == ()
    (root / "7.md").write_text("now it is text: omega\n")
    assert [hit.uri for hit in library.search("omega", mode="keyword").hits] == ["7.md"]


def test_broken_utf_8_is_searchable_and_warned_about(library: Library, root: Path) -> None:
    (root / "broken.md").write_bytes("# Café à Köln\n\nsaxophone ".encode() + b"\xff text\n")
    assert library.index().failures == ()
    assert [hit.uri for hit in library.search("saxophone", mode="keyword").hits] == ["broken.md"]
    with library.folder().store.snapshot() as snapshot:
        document = snapshot.document("broken.md")
    assert document is not None
    assert "not valid UTF-8" in document["warnings"][0]


def test_a_file_that_becomes_binary_leaves_the_index(library: Library, root: Path) -> None:
    write(root, a="alpha\n", b="alpha beta\n")
    library.index()
    (root / "b.md").write_bytes(b"alpha\0\0")
    report = library.index()
    assert (report.removed, report.skipped["binary"]) == (1, 1)
    assert [hit.uri for hit in library.search("alpha").hits] == ["a.md"]


def test_front_matter_of_any_type_is_stored(library: Library, root: Path) -> None:
    write(root, a="---\ndate: 2024-05-01\nwhen: 2024-05-01T10:00:00Z\nn: .nan\n---\n# T\n\nalpha\n")
    assert library.index().failures == ()


def test_one_bad_file_does_not_stop_the_others(
    library: Library, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, a="alpha\n", bad="alpha\n", c="alpha\n")
    original = text_parser_for

    def explode(uri, **named):  # type: ignore[no-untyped-def]
        if uri == "bad.md":
            raise RecursionError("too deep")
        return original(uri, **named)

    monkeypatch.setattr(prepare, "text_parser_for", explode)
    report = library.index()
    assert report.failures == (Failure("bad.md", "PARSE_FAILED", "RecursionError: too deep"),)
    assert uris(library) == ["a.md", "c.md"]
    note = library.search("alpha").incomplete[0]
    assert (note.reason, note.uris) == ("failed", ("bad.md",))


def test_too_many_files_are_refused_and_the_index_stays(root: Path, tmp_path: Path) -> None:
    write(root, a="alpha\n")
    index = tmp_path / "index"
    with Library.open(root, index_dir=index, settings={"embed.provider": "hash"}) as library:
        library.index()
    write(root, b="beta\n", c="gamma\n")
    settings = {"embed.provider": "hash", "sources.max_files": 2}
    with Library.open(root, index_dir=index, settings=settings) as library:
        with pytest.raises(InvalidArgument, match="limit"):
            library.index()
        assert uris(library) == ["a.md"]


# --- what is embedded -------------------------------------------------------------------------


def sections(*bodies: str) -> str:
    return "".join(f"## Section {n}\n\n{body}\n\n" for n, body in enumerate(bodies))


def test_only_contents_without_a_vector_are_embedded(library: Library, root: Path) -> None:
    """Seen to fail when ``missing`` answered with all that it was asked."""
    body = "word " * 150
    write(root, a=sections(body, "beta " * 150, "gamma " * 150), twin_a="x\n", twin_b="x\n")
    report = library.index()
    asked = embedder(library).embedded
    assert len(asked) == len(set(asked)) == report.chunks_embedded
    first = len(asked)

    write(root, a=sections(body, "beta changed " * 80, "gamma " * 150))
    report = library.index()
    assert 0 < report.chunks_embedded < 3
    assert all("beta changed" in text for text in asked[first:])
    second = len(asked)

    (root / "a.md").rename(root / "renamed.md")
    report = library.index()
    assert (report.added, report.removed, report.chunks_embedded) == (1, 1, 0)
    kept = (root / "renamed.md").read_text()
    (root / "renamed.md").unlink()
    library.index()
    (root / "renamed.md").write_text(kept)
    assert library.index().chunks_embedded == 0
    assert len(asked) == second


# --- two at once ------------------------------------------------------------------------------


def test_a_writer_that_waited_keeps_what_the_other_stored(root: Path, tmp_path: Path) -> None:
    """Seen to fail when the walk was made before the lock was held: the new file was removed."""
    write(root, a="alpha\n")
    settings = {"embed.provider": "hash", "index.workers": 1}
    first = Library.open(root, index_dir=tmp_path / "index", settings=settings)
    second = Library.open(root, index_dir=tmp_path / "index", settings=settings)
    first.index()
    waiting = threading.Event()
    with first.folder().store.writer("other", 64, about={}, retain=3):

        def wait_and_index() -> None:
            waiting.set()
            second.index(wait_seconds=DEADLINE)

        thread = threading.Thread(target=wait_and_index, daemon=True)
        thread.start()
        waiting.wait()
        time.sleep(0.3)
        write(root, b="beta\n")
    thread.join()
    assert uris(first) == ["a.md", "b.md"]
    first.close()
    second.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_clone_reuses_all_vectors_of_the_first_index(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """In this process and in workers alike; seen to fail when workers knew no siblings."""
    monkeypatch.setattr("lookfar.index.build._WORTH_PROCESSES", 0)
    for number in range(60):
        write(root, **{f"page{number}": f"# Page {number}\n\n" + f"word{number} text\n" * 400})
    clone = tmp_path / "clone"
    shutil.copytree(root, clone)
    write(clone, extra="something of its own\n")
    settings = {"embed.provider": "hash", "index.workers": workers}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as first:
        made = first.index().chunks_embedded
    with Library.open(clone, index_dir=tmp_path / "index", settings=settings) as second:
        report = second.index()
        assert (report.added, report.chunks_embedded) == (61, 1)
        assert made >= 60
        assert second.verify() == []
        hit = second.search("word31", mode="vector", top_k=1).hits[0]
        assert hit.uri == "page31.md"
