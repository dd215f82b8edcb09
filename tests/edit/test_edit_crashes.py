"""kill -9, a full disk and a failing one at every write of an edit: all of it, or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edit.faulty import A, B, change, editor, fill, seen
from lookfar.errors import Conflict, IOFailed
from lookfar.model import Edit

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="deaths are forked")
PROGRAM = Path(__file__).with_name("faulty.py")


@pytest.fixture
def outcomes(tmp_path: Path) -> dict[str, dict[str, str]]:
    """What the folder holds before and after the edit, where nothing goes wrong."""
    fill(tmp_path / "model" / "docs")
    old = seen(tmp_path / "model" / "docs")
    change(editor(tmp_path / "model" / "docs", tmp_path / "model" / "edits"))
    return {"old": old, "new": seen(tmp_path / "model" / "docs")}


def trials(base: Path, what: str, *ways: str) -> list[dict[str, Any]]:
    shown = subprocess.run(
        [sys.executable, str(PROGRAM), str(base), what, *ways],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[1])},
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


@pytest.mark.parametrize("what", ["edit", "undo"])
def test_after_kill_9_at_any_write_it_is_all_or_nothing(
    tmp_path: Path, outcomes: dict[str, dict[str, str]], what: str
) -> None:
    """Seen to fail when the journal came after what was staged, and when what was staged was not
    removed."""
    result = trials(tmp_path / "disk", what, "kill", "short kill")
    assert len(result) > 40
    assert {item["status"] for item in result} == {-9}
    ended = {json.dumps(item["after"]) for item in result}
    for item in result:
        assert item["after"] in outcomes.values(), (item["at"], item["how"])
        assert item["left"] == [], (item["at"], item["how"])
        assert item["works"], (item["at"], item["how"])
        for uri, text in item["unsettled"].items():  # Even before: no document is torn.
            if uri.endswith(".md"):
                assert text in (outcomes["old"].get(uri), outcomes["new"].get(uri))
    assert len(ended) == 2, "some deaths come before the point of no return, and some after"


def files_of(found: dict[str, str]) -> dict[str, str]:
    return {uri: text for uri, text in found.items() if not uri.endswith("/")}


@pytest.mark.parametrize("what", ["edit", "undo"])
def test_a_disk_that_fails_at_any_write_changes_nothing_or_is_not_noticed(
    tmp_path: Path, outcomes: dict[str, dict[str, str]], what: str
) -> None:
    """Seen to fail when the documents that were replaced already stayed so."""
    result = trials(tmp_path / "disk", what, "ENOSPC", "EIO")
    before, after = outcomes["old"], outcomes["new"]
    if what == "undo":
        before, after = after, before
    assert {item["status"] for item in result} == {0, 3}
    for item in result:
        about = item["at"], item["how"], item["status"]
        if item["status"] == 0:  # An empty folder that remains is not a failure.
            assert files_of(item["after"]) == files_of(after), about
        else:
            assert item["after"] == before, about
        assert item["left"] == [], about
        assert item["works"], about
        if item["status"] == 3:  # After a reported failure nothing has to be recovered.
            assert item["unsettled"] == before, about


@pytest.mark.parametrize("what", ["edit", "undo"])
def test_on_a_disk_that_stays_full_it_is_all_or_nothing(
    tmp_path: Path, outcomes: dict[str, dict[str, str]], what: str
) -> None:
    """Seen to fail when what was staged stayed because the journal could not be written, and when
    an edit that was done was said to have failed because that could not be written down."""
    result = trials(tmp_path / "disk", what, "full")
    assert {item["status"] for item in result} == {0, 3}
    for item in result:
        about = item["at"], item["how"], item["status"]
        assert files_of(item["after"]) in map(files_of, outcomes.values()), about
        assert item["left"] == [], about
        assert item["works"], about
        if item["status"] == 0:
            done = outcomes["old" if what == "undo" else "new"]
            assert files_of(item["after"]) == files_of(done), about


def test_recovery_rolls_back_and_keeps_a_file_saved_after_the_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when recovery went on with what was left to rename."""
    docs = tmp_path / "docs"
    fill(docs)
    made = editor(docs, tmp_path / "edits")
    with monkeypatch.context() as patched:

        class Dead(BaseException):
            pass

        def die(*_: object) -> None:
            raise Dead

        patched.setattr(type(made.transactions), "_finish", die)
        patched.setattr(type(made.transactions), "_give_up", lambda *_: None)
        with pytest.raises(Dead):
            change(made)
    assert (docs / "new" / "deep" / "c.md").exists()
    (docs / "sub" / "b.md").write_bytes(b"# mine now\n")
    assert made.transactions.interrupted
    assert editor(docs, tmp_path / "edits").transactions.recover()
    assert (docs / "a.md").read_bytes() == A
    assert (docs / "sub" / "b.md").read_bytes() == b"# mine now\n"
    assert not (docs / "new").exists()
    assert not made.transactions.interrupted


def test_a_damaged_journal_is_renamed_and_reported(tmp_path: Path) -> None:
    docs, edits = tmp_path / "docs", tmp_path / "edits"
    fill(docs)
    edits.mkdir()
    (edits / "journal.json").write_bytes(b"{torn")
    with pytest.raises(IOFailed, match="journal"):
        change(editor(docs, edits))
    change(editor(docs, edits))
    assert b"New name" in (docs / "a.md").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of descriptors")
def test_everything_is_synced_before_the_journal_says_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A death loses nothing that the system has; the loss of power does, so the order counts.
    Seen to fail without each of the syncs it looks for."""
    docs = tmp_path / "docs"
    fill(docs)
    done: list[tuple[str, str]] = []
    sync, replace, link = os.fsync, os.replace, os.link

    def synced(descriptor: int) -> None:
        done.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        sync(descriptor)

    def replaced(source: Any, target: Any, **where: Any) -> None:
        done.append(("name", os.path.basename(target)))
        replace(source, target, **where)

    def linked(source: Any, target: Any, **where: Any) -> None:
        done.append(("name", os.path.basename(target)))
        link(source, target, **where)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "link", linked)
    change(editor(docs, tmp_path / "edits"))
    journals = [at for at, each in enumerate(done) if each == ("name", "journal.json")]
    assert len(journals) == 2
    staging, complete = journals
    staged = [item for item in done if item[0] == "sync" and item[1].startswith(".lookfar-")]
    assert len(staged) == 3
    for item in [*staged, ("sync", "docs"), ("sync", "sub"), ("sync", "deep")]:
        assert item in done[staging:complete], item
    for kept in ("0.old", "2.old"):
        assert ("name", kept) in done[:staging]
        assert ("sync", f".{kept}.tmp") in done[:staging]
    for name, folder in (("a.md", "docs"), ("b.md", "sub"), ("c.md", "deep")):
        at = done.index(("name", name))
        assert at > complete
        assert done.index(("sync", folder), at) < done.index(("name", "step.json"))
    assert ("sync", ".journal.json.tmp") in done[:staging]


def test_readers_see_the_old_document_or_the_new_one(tmp_path: Path) -> None:
    """The document is never open for writing: readers have one or the other."""
    docs = tmp_path / "docs"
    fill(docs)
    held = (docs / "a.md").open("rb")
    with held:
        change(editor(docs, tmp_path / "edits"))
        assert held.read() == A
    assert (docs / "a.md").read_bytes() == A.replace(b"Old", b"New")
    assert (docs / "sub" / "b.md").read_bytes() == B.replace(b"Old", b"New")


def test_a_document_replaced_at_the_last_moment_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail without the last look before the renaming."""
    docs = tmp_path / "docs"
    fill(docs)
    made = editor(docs, tmp_path / "edits")
    prepare = type(made.transactions)._prepare

    def meanwhile(*arguments: Any) -> Any:
        result = prepare(*arguments)
        (docs / "sub" / "b.md").write_bytes(b"# somebody else\n")
        return result

    monkeypatch.setattr(type(made.transactions), "_prepare", meanwhile)
    with pytest.raises(Conflict, match=r"sub/b\.md"):
        change(made)
    assert (docs / "a.md").read_bytes() == A
    assert (docs / "sub" / "b.md").read_bytes() == b"# somebody else\n"
    assert sorted(path.name for path in docs.rglob("*")) == ["a.md", "b.md", "sub"]


@pytest.mark.parametrize("how", ["deleted", "folder", "link", "another folder"])
def test_a_file_that_appears_in_its_place_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    docs = tmp_path / "docs"
    fill(docs)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.md").write_bytes(B)
    made = editor(docs, tmp_path / "edits")
    prepare = type(made.transactions)._prepare

    def meanwhile(*arguments: Any) -> Any:
        result = prepare(*arguments)
        if how == "another folder":
            (docs / "sub").rename(tmp_path / "moved")
            (docs / "sub").mkdir()
            (docs / "sub" / "b.md").write_bytes(B)
            return result
        (docs / "sub" / "b.md").unlink()
        if how == "folder":
            (docs / "sub" / "b.md").mkdir()
        elif how == "link":
            (docs / "sub" / "b.md").symlink_to(tmp_path / "outside" / "b.md")
        return result

    monkeypatch.setattr(type(made.transactions), "_prepare", meanwhile)
    with pytest.raises(Exception, match=r"sub/b\.md"):
        change(made)
    assert (docs / "a.md").read_bytes() == A
    assert (tmp_path / "outside" / "b.md").read_bytes() == B
    assert (docs / "sub" / "b.md").is_dir() == (how == "folder")
    assert (docs / "sub" / "b.md").is_symlink() == (how == "link")
    if how == "another folder":
        assert (docs / "sub" / "b.md").read_bytes() == B
        assert (tmp_path / "moved" / "b.md").read_bytes() == B


def test_a_failed_edit_leaves_nothing_for_the_next_one(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    fill(docs)
    made = editor(docs, tmp_path / "edits")
    (docs / "new").write_bytes(b"a file where a folder is wanted\n")
    with pytest.raises(Exception, match="new"):
        change(made)
    assert seen(docs) == {
        "a.md": A.decode(), "sub/b.md": B.decode(), "sub/": "",
        "new": "a file where a folder is wanted\n",
    }  # fmt: skip
    made.edit([Edit("append", "a.md", text="later")])
    assert (docs / "a.md").read_bytes() == A + b"\r\nlater\r\n"
