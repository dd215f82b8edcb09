"""An interrupted build of a new epoch resumes at its last checkpoint."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import lookfar.errors
from harness import amount
from index.visible_state import VOCABULARY, visible_state
from lookfar.errors import DiskFull
from lookfar.index import build, prepare
from lookfar.index.prepare import CheckpointTimer
from lookfar.library import Library
from lookfar.store.keywords.keyword_index import KEYWORDS, KeywordIndex
from lookfar.store.sqlite.folder import CollectionFolder
from lookfar.store.sqlite.write_session import EpochWriter

SOURCE = Path(lookfar.errors.__file__).parents[1]
TRIALS = amount(3, 30)
SETTINGS = {"embed.provider": "hash", "index.workers": 1, "chunk.min_tokens": 0}
OTHER = {**SETTINGS, "chunk.max_tokens": 40, "chunk.hard_max_tokens": 60}
"""Other chunks, so another epoch."""
FILES = 60

# A checkpoint after every batch, and a word about it; batches of a few files. A few checkpoints
# after the one that the test waits for, the build stops: a slow test must not find it finished.
BUILD = """
    import json, sys, time
    from lookfar.index import build, prepare
    from lookfar.library import Library
    from lookfar.store.sqlite.write_session import EpochWriter
    prepare._CHECKPOINT_SECONDS, prepare._CHECKPOINT_SHARE = 0.0, 1e9
    build._BATCH_FILES = 4
    root, index, settings, rebuild, processes, last = sys.argv[1:]
    left = int(last)
    if processes == "processes":
        build._WORTH_PROCESSES = 0
    original = EpochWriter.checkpoint
    def checkpoint(self):
        global left
        original(self)
        print(self.embedded, flush=True)
        left -= 1
        if not left:
            time.sleep(600)
    EpochWriter.checkpoint = checkpoint
    with Library.open(root, index_dir=index, settings=json.loads(settings)) as library:
        print("ready", flush=True)
        library.index(rebuild=rebuild == "rebuild")
"""


@pytest.fixture(autouse=True)
def pages(root: Path) -> None:
    chance = random.Random(7)
    for number in range(FILES):
        parts = (
            f"## {number}.{part}\n\n{' '.join(chance.choices(VOCABULARY, k=30))}\n"
            for part in range(4)
        )
        (root / f"{number:02}.md").write_text(f"# Page {number}\n\n" + "\n".join(parts))


def kill_build(
    root: Path,
    index: Path,
    settings: dict[str, Any],
    checkpoints: int,
    *,
    how: str = "",
    processes: str = "",
    pause: float = 0.0,
) -> int:
    """Kill a build after some checkpoints; return how many chunks it had embedded at least."""
    arguments = (root, index, json.dumps(settings), how, processes, checkpoints + 2)
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(BUILD), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    lines = [child.stdout.readline() for _ in range(checkpoints)]
    time.sleep(pause)
    child.send_signal(signal.SIGKILL)
    lines += child.communicate()[0].splitlines()
    # One that was done before its time, because files grew old meanwhile, said less, or nothing.
    said = [line for line in lines if line.strip()]
    return int(said[-1]) if said else 0


def scratch(root: Path, folder: Path, settings: dict[str, Any]) -> tuple[dict[str, Any], int]:
    with Library.open(root, index_dir=folder, settings=settings) as library:
        report = library.index()
        return visible_state(library), report.chunks_embedded


def epochs(library: Library) -> list[str]:
    return sorted(path.name for path in library.index_dir.glob("epoch-*"))


def resumed(library: Library) -> int:
    """Return how many documents the serving generation took over from an unfinished build."""
    with library.folder().store.snapshot() as snapshot:
        return int(snapshot.manifest()["resumed"])


@pytest.mark.parametrize("how", ["first", "replacing", "processes"])
def test_after_kill_9_a_build_resumes(root: Path, tmp_path: Path, how: str) -> None:
    """It embeds only what is missing, and the result equals an uninterrupted build.

    Meanwhile nobody sees the unfinished epoch: there is no index, or the old one serves.
    Seen to fail when the unfinished epoch was removed, when checkpoints did not record
    their marks, and when the keyword index was committed after the catalogue.
    """
    chance = random.Random(how)
    workers = {"index.workers": 2} if how == "processes" else {}
    settings = {**OTHER, **workers}
    expected, total = scratch(root, tmp_path / "scratch", OTHER)
    saved = 0
    for trial in range(TRIALS):
        index = tmp_path / f"index{trial}"
        with Library.open(root, index_dir=index, settings=SETTINGS) as old:
            if how == "replacing":
                old.index()
                before = visible_state(old)
            done = kill_build(
                *(root, index, settings, chance.randrange(1, 12)),
                processes=how,
                pause=chance.uniform(0.0, 0.03),
            )
            assert 0 < done < total
            if how == "replacing":
                assert visible_state(old) == before
            else:
                assert not old.indexed
        with (
            pytest.MonkeyPatch.context() as patched,
            Library.open(root, index_dir=index, settings=settings) as library,
        ):
            if how == "processes":
                patched.setattr(build, "_WORTH_PROCESSES", 0)
            report = library.index()
            assert report.chunks_embedded <= total - done
            assert report.unchanged + report.added == FILES
            assert resumed(library) == report.unchanged > 0
            assert visible_state(library) == expected
            assert library.verify() == []
            assert len(epochs(library)) == 1
            saved += total - report.chunks_embedded
            assert library.index().unchanged == FILES
    assert saved > 0


def test_a_build_killed_repeatedly_still_finishes(root: Path, tmp_path: Path) -> None:
    """Every attempt resumes the one before it, which had resumed itself."""
    expected, total = scratch(root, tmp_path / "scratch", SETTINGS)
    for checkpoints in (3, 6, 9, 12):  # Files this new are looked at again, hence ever more.
        kill_build(root, tmp_path / "index", SETTINGS, checkpoints)
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        report = library.index()
        assert report.unchanged >= 4 * 12
        assert report.chunks_embedded < total / 2
        assert visible_state(library) == expected
        assert library.verify() == []


def test_files_changed_since_the_checkpoint_are_read_again(root: Path, tmp_path: Path) -> None:
    """Seen to fail when a resumed session put a second live version of the same file."""
    kill_build(root, tmp_path / "index", SETTINGS, 5)
    (root / "00.md").write_text("# Changed\n\namber ember amber\n")
    (root / "01.md").unlink()
    (root / "02.md").write_bytes(b"binary\0")
    (root / "03.md").rename(root / "zz.md")
    expected, _ = scratch(root, tmp_path / "scratch", SETTINGS)
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        library.index()
        assert visible_state(library) == expected
        assert library.verify() == []
        assert library.snapshots()[-1].number == 1
        (root / "04.md").write_text("birch\n")
        library.index()
        assert library.verify() == []


def cut_vectors(epoch: Path) -> None:
    os.truncate(epoch / "vectors.f16", 200)


def change_vectors(epoch: Path) -> None:
    data = bytearray((epoch / "vectors.f16").read_bytes())
    data[100] ^= 0xFF
    (epoch / "vectors.f16").write_bytes(data)


def spoil_catalogue(epoch: Path) -> None:
    data = bytearray((epoch / "catalogue.db").read_bytes())
    data[4096:12288] = bytes(8192)
    (epoch / "catalogue.db").write_bytes(data)


def lose_keywords(epoch: Path) -> None:
    for path in (epoch / KEYWORDS).glob("*.words"):
        path.unlink()


def behind_keywords(epoch: Path) -> None:
    """As if the keyword index had missed its last commits."""
    for path in (epoch / KEYWORDS).iterdir():
        path.unlink()
    KeywordIndex(epoch / KEYWORDS, create=True)


@pytest.mark.parametrize(
    "damage", [cut_vectors, change_vectors, spoil_catalogue, lose_keywords, behind_keywords]
)
def test_a_damaged_leftover_is_not_resumed(
    root: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Seen to fail when only the fingerprint was compared."""
    expected, total = scratch(root, tmp_path / "scratch", SETTINGS)
    kill_build(root, tmp_path / "index", SETTINGS, 6)
    with Library.open(root, index_dir=tmp_path / "index", settings=SETTINGS) as library:
        (left,) = library.index_dir.glob("epoch-*")
        damage(left)
        # Vectors that prove sound may be taken over, but nothing else.
        assert library.index().chunks_embedded <= total
        assert resumed(library) == 0
        assert library.index_dir / epochs(library)[0] != left
        assert visible_state(library) == expected
        assert library.verify() == []
        assert library.status().generation == 1


@pytest.mark.parametrize("next_settings", [SETTINGS, OTHER])
def test_leftovers_of_another_recipe_are_removed_by_the_next_writer(
    root: Path, tmp_path: Path, next_settings: dict[str, Any]
) -> None:
    """Neither an update of the old epoch nor a build with other settings mixes with it."""
    index = tmp_path / "index"
    with Library.open(root, index_dir=index, settings=SETTINGS) as library:
        library.index()
        kill_build(root, index, {**SETTINGS, "chunk.max_tokens": 30}, 3)
        assert epochs(library) == ["epoch-1", "epoch-2"]
    (root / "new.md").write_text("amber\n")
    expected, _ = scratch(root, tmp_path / "scratch", next_settings)
    with Library.open(root, index_dir=index, settings=next_settings) as library:
        library.index()
        assert epochs(library) == [(library.index_dir / "CURRENT").read_text()]
        assert visible_state(library) == expected
        assert resumed(library) == 0


def test_a_rebuild_ignores_leftovers(root: Path, tmp_path: Path) -> None:
    """A rebuild reads everything; a killed rebuild leaves nothing behind.

    Seen to fail when the leftover of a rebuild was left alone by the updates after it.
    """
    index = tmp_path / "index"
    with Library.open(root, index_dir=index, settings=SETTINGS) as library:
        library.index()
        kill_build(root, index, SETTINGS, 3, how="rebuild")
        assert library.index(rebuild=True).added == FILES
        kill_build(root, index, SETTINGS, 3, how="rebuild")
        assert len(epochs(library)) == 2
        (root / "new.md").write_text("amber\n")
        assert library.index().added == 1
        assert len(epochs(library)) == 1
        assert library.verify() == []


def stop_after(checkpoints: int, error: BaseException, patched: pytest.MonkeyPatch) -> None:
    """Checkpoint after every batch of four files, and fail after some of them."""
    original = EpochWriter.checkpoint
    left = [checkpoints]

    def checkpoint(self: EpochWriter) -> None:
        original(self)
        left[0] -= 1
        if not left[0]:
            raise error

    patched.setattr(EpochWriter, "checkpoint", checkpoint)
    patched.setattr(prepare, "_CHECKPOINT_SECONDS", 0.0)
    patched.setattr(prepare, "_CHECKPOINT_SHARE", 1e9)
    patched.setattr(build, "_BATCH_FILES", 4)


@pytest.mark.parametrize(
    ("error", "kept"),
    [(KeyboardInterrupt(), 20), (RuntimeError("unforeseen"), 20), (DiskFull("full", hint=""), 0)],
)
def test_an_error_keeps_the_last_checkpoint(
    library: Library, root: Path, error: BaseException, kept: int
) -> None:
    """Ctrl-C loses what follows the last checkpoint; on a full disk the space is freed."""
    with pytest.MonkeyPatch.context() as patched:
        stop_after(5, error, patched)
        with pytest.raises(type(error)):
            library.index()
    assert not library.indexed
    assert bool(epochs(library)) == bool(kept)
    report = library.index()
    assert (report.unchanged, report.added) == (kept, FILES - kept)
    assert library.verify() == []


def test_a_finished_epoch_without_a_pointer_is_used(
    library: Library, root: Path, tmp_path: Path
) -> None:
    """After a crash between activation and pointer, nothing is embedded again."""
    expected, _ = scratch(root, tmp_path / "scratch", SETTINGS)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CollectionFolder, "publish", die)
        with pytest.raises(KeyboardInterrupt):
            library.index()
    assert not library.indexed
    report = library.index()
    assert (report.chunks_embedded, report.unchanged, report.generation) == (0, FILES, 1)
    assert [snapshot.number for snapshot in library.snapshots()] == [1]
    assert visible_state(library) == expected
    assert library.verify() == []


def test_an_epoch_that_has_served_is_not_a_leftover(library: Library, root: Path) -> None:
    """Its pointer is lost, but its dead versions must not become live again."""
    library.index()
    (root / "00.md").write_text("# Anew\n\nbirch birch\n")
    library.index()
    (library.index_dir / "CURRENT").unlink()
    assert library.index().added == FILES
    assert resumed(library) == 0
    assert library.verify() == []


def test_checkpoints_take_a_bounded_share_of_the_time() -> None:
    """Checkpoints are rarer on a slow disk and not too frequent on a fast one."""
    now = [100.0]
    checkpoints = CheckpointTimer(clock=lambda: now[0])
    made: list[float] = []

    def checkpoint() -> None:
        made.append(now[0])
        now[0] += 1.0

    for _ in range(4000):
        now[0] += 0.1
        checkpoints.run_if_due(checkpoint)
    assert 104 < made[0] < 106
    apart = [later - sooner for sooner, later in pairwise(made)]
    assert min(apart) >= 1.0 / 0.02
    assert len(made) > 5
