"""All or nothing: exceptions, crashes between two commits, and kill -9 at any moment."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from harness import amount
from lookfar.errors import IndexCorrupt
from lookfar.store.ground import files
from lookfar.store.keywords.keyword_index import KEYWORDS
from lookfar.store.sqlite.write_session import EpochWriter
from store.shelf import Elsewhere, Shelf, epoch_folder, python, visible_state

TRIALS = amount(5, 60)
BEFORE = {
    "a.md": "# Alpha\n\nthe first crimson text\n",
    "b.md": "# Beta\n\nthe second crimson text\n",
    "c.md": "# Gamma\n\nthe third crimson text\n",
}
UPDATE: dict[str, str | None] = {
    "b.md": "# Beta\n\nsecond and turquoise now\n",
    "c.md": None,
    "d.md": "# Delta\n\na fourth, turquoise text\n",
}
AFTER = {"a.md": BEFORE["a.md"], "b.md": UPDATE["b.md"], "d.md": UPDATE["d.md"]}


@pytest.fixture
def rebuilt(tmp_path: Path) -> dict[str, object]:
    """Return what a fresh index shows after the update."""
    fresh = Shelf(tmp_path / "fresh")
    fresh.write(AFTER)
    found = visible_state(fresh)
    fresh.store.close()
    return found


def test_an_exception_before_activation_changes_nothing(
    shelf: Shelf, rebuilt: dict[str, object]
) -> None:
    """Seen to fail when leaving a session committed the catalogue instead of rolling back."""
    shelf.write(BEFORE)
    before = visible_state(shelf)

    def fail_half_way() -> None:
        with shelf.session() as session:
            shelf.fill(session, UPDATE)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert visible_state(shelf) == before
    shelf.store.close()
    assert visible_state(shelf) == before
    assert shelf.store.verify() == []
    shelf.write(UPDATE)
    assert visible_state(shelf) == rebuilt


def test_an_exception_during_the_catalogue_s_commit_changes_nothing(
    shelf: Shelf, rebuilt: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keyword index is then ahead of the catalogue, and no reader may notice."""
    shelf.write(BEFORE)
    before = visible_state(shelf)

    def fail(what: str, name: str, size: int) -> int:
        return size if (what, name) != ("commit", "catalogue.db") else size // 0

    with monkeypatch.context() as patched:
        patched.setattr(files, "on_fault_point", fail)
        with pytest.raises(ZeroDivisionError):
            shelf.write(UPDATE)
    assert visible_state(shelf) == before
    other = Shelf(shelf.store.folder)
    assert visible_state(other) == before
    assert other.store.verify() == []
    shelf.write(UPDATE)
    assert visible_state(shelf) == visible_state(other) == rebuilt
    other.store.close()


DIE_BETWEEN = """
    import os, sys
    from pathlib import Path
    from shelf import Shelf
    from lookfar.store.ground import files
    sys.path.append(sys.argv[2])
    from test_crashes import UPDATE
    def die(what, name, size):  # after vectors and keywords are durable
        return os._exit(9) if (what, name) == ("commit", "catalogue.db") else size
    files.on_fault_point = die
    Shelf(Path(sys.argv[1])).write({**UPDATE, "e.md": "# Ghost\\n\\nturquoise ghost\\n"})
"""


def test_a_crash_between_the_two_commits_leaves_only_the_old_generation(
    shelf: Shelf, rebuilt: dict[str, object], elsewhere: Elsewhere
) -> None:
    """Seen to fail when the next writer dropped entries by chunk key: the whole-document entry

    of the dead writer's documents has no key, stayed, and answered for the next document
    that got its number.
    """
    shelf.write(BEFORE)
    before = visible_state(shelf)
    died = elsewhere(DIE_BETWEEN, shelf.store.folder, Path(__file__).parent)
    assert died.returncode == 9, died.stderr
    again = Shelf(shelf.store.folder)
    assert visible_state(again) == visible_state(shelf) == before
    assert again.store.verify() == []
    again.write(UPDATE)
    assert visible_state(again) == visible_state(shelf) == rebuilt
    assert again.store.verify() == []
    again.store.close()


KILLED = """
    import sys
    from pathlib import Path
    from shelf import Shelf
    shelf = Shelf(Path(sys.argv[1]))
    print("ready", flush=True)
    for round in range(int(sys.argv[2]), 1000):
        shelf.write({f"{n}.md": f"# {n}\\n\\nround {round} word{n}\\n" for n in range(40)},
                    rebuild=sys.argv[3] == "rebuild")
"""


@pytest.mark.parametrize("how", ["first", "update", "rebuild"])
def test_after_kill_9_at_any_moment_the_index_serves_or_is_rebuilt(
    tmp_path: Path, how: str
) -> None:
    """Seen to fail when a fresh epoch was published before it was filled."""
    chance = random.Random(how)
    folder = tmp_path / "index"
    shelf = Shelf(folder)
    rounds = 0
    for _ in range(TRIALS):
        if how == "first":
            shelf.store.close()
            folder = tmp_path / f"index{rounds}"
            shelf = Shelf(folder)
        else:
            shelf.write({f"{n}.md": f"# {n}\n\nround {rounds} word{n}\n" for n in range(40)})
        process = subprocess.Popen(
            python(KILLED, folder, rounds, how), stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.communicate()
        if shelf.store.exists:
            texts = shelf.everything()
            seen = {text.split("round ")[1].split()[0] for text in texts.values()}
            assert len(texts) == 40
            assert len(seen) == 1, "one generation is shown, not a mix"
            assert sorted(shelf.found(f"round {seen.pop()}")) == sorted(texts)
        shelf.write({"late.md": "written after\n"})
        assert shelf.found("written") == ["late.md"]
        shelf.write({"late.md": None})
        assert shelf.store.verify() == []
        rounds += 100
    shelf.store.close()


DIE_AFTER_A_CHECKPOINT = """
    import os, sys
    from pathlib import Path
    from shelf import Shelf
    sys.path.append(sys.argv[2])
    from test_crashes import BEFORE
    shelf = Shelf(Path(sys.argv[1]))
    with shelf.session() as session:
        session._connection.execute("PRAGMA cache_size=10")  # Pages reach the disk early.
        shelf.fill(session, BEFORE)
        session.checkpoint()
        shelf.fill(session, {f"{n}.md": f"# {n}\\n\\ncrimson {n}\\n" * 50 for n in range(200)})
        session._inserts.flush()
        os._exit(9)
"""


def test_a_crash_after_a_checkpoint_loses_only_what_came_after_it(
    shelf: Shelf, elsewhere: Elsewhere
) -> None:
    """Seen to fail when the catalogue of a new epoch was written without a journal."""
    died = elsewhere(DIE_AFTER_A_CHECKPOINT, shelf.store.folder, Path(__file__).parent)
    assert died.returncode == 9, died.stderr
    assert not shelf.store.exists
    with shelf.session() as session:
        assert session.resumed
        assert set(session.known()) == set(BEFORE)
        shelf.fill(session, UPDATE)
        session.activate({})
    fresh = Shelf(shelf.store.folder.parent / "fresh")
    fresh.write({uri: text for uri, text in AFTER.items() if text})
    assert visible_state(shelf) == visible_state(fresh)
    assert shelf.store.verify() == []
    fresh.store.close()


def test_a_crash_in_the_keyword_commit_does_not_block_the_same_update(
    shelf: Shelf,
) -> None:
    """Protects against files of a dead writer: the next commit wants the same names."""
    shelf.retain = 1
    shelf.write(BEFORE)
    shelf.write({"b.md": None})
    shelf.store.close()
    epoch = epoch_folder(shelf)
    listed = [*(epoch / KEYWORDS).iterdir(), epoch / "catalogue.db"]
    before = {path: path.read_bytes() for path in listed}
    shelf.write({"d.md": "turquoise\n"})
    shelf.store.close()
    for path, data in before.items():  # All else is there, as it is when the commit is cut short.
        path.write_bytes(data)
    again = Shelf(shelf.store.folder, retain=1)
    again.write({"d.md": "turquoise\n"})
    assert again.found("turquoise") == ["d.md"]
    assert again.store.verify() == []
    again.store.close()


def test_keywords_behind_the_catalogue_are_damage(shelf: Shelf) -> None:
    """A loss of power may bring the folder of the keywords back to an earlier commit. Seen to wait
    for ever when a view that was too old was simply loaded again."""
    shelf.write(BEFORE)
    shelf.store.close()
    kept = shelf.store.folder.parent / "kept"
    shutil.copytree(epoch_folder(shelf) / KEYWORDS, kept)
    shelf.write(UPDATE)
    shelf.store.close()
    shutil.rmtree(epoch_folder(shelf) / KEYWORDS)
    shutil.copytree(kept, epoch_folder(shelf) / KEYWORDS)
    again = Shelf(shelf.store.folder)
    with pytest.raises(IndexCorrupt):
        again.found("crimson")
    assert again.store.verify()
    again.store.close()


def test_a_session_that_cannot_begin_releases_the_lock(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the connection of a session that failed to begin stayed open."""
    shelf.write(BEFORE)
    with monkeypatch.context() as patched:
        patched.setattr(EpochWriter, "_begin", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            shelf.write(UPDATE)
    assert shelf.write(UPDATE) == 2


def test_leftover_epochs_are_removed(shelf: Shelf) -> None:
    shelf.write(BEFORE)
    for name in ("epoch-7", "epoch-3"):
        (shelf.store.folder / name).mkdir()
        (shelf.store.folder / name / "catalogue.db").write_bytes(b"half")
    shelf.write(BEFORE, rebuild=True)
    assert epoch_folder(shelf).name == "epoch-8"
    assert [path.name for path in shelf.store.folder.glob("epoch-*")] == ["epoch-8"]
