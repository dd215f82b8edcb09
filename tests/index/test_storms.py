"""Storms of changes, lost events, wrong clocks, and file systems without events.

Events are hints: one comparison with the disk corrects whatever was missed. Seen to fail
with a keeper that dropped its batches.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import amount, report
from lookfar.freshness.watch import FolderWatcher
from lookfar.library import Library

HASH = {"embed.provider": "hash", "index.workers": 1, "sources.max_files": 1_000_000}
STORM = amount(600, 100_000)
SPELLS = amount(2, 20)
DEADLINE = 60.0 + STORM / 50
TEN_YEARS = 10 * 365 * 86_400

UNPACK = """
import sys
from pathlib import Path
root, files = Path(sys.argv[1]), int(sys.argv[2])
for at in range(files):
    folder = root / f"d{at // 1000}" / f"e{at // 100 % 10}"
    if at % 100 == 0:
        folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{at}.md").write_text(f"# Page {at}\\n\\nstorm word{at}\\n")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "first.md").write_text("# First\n\nstorm harbour\n")
    return folder


def opened(root: Path, tmp_path: Path, **settings: object) -> Library:
    return Library.open(root, index_dir=tmp_path / "index", settings={**HASH, **settings})


def on_disk(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in root.rglob("*.md")
        if path.is_file()
    }


def indexed(library: Library) -> dict[str, str]:
    with library.folder().store.snapshot() as snapshot:
        return {uri: snapshot.text(uri) or "" for uri in snapshot.uris()}


def peak_mib() -> float:
    """Return the peak memory of this process."""
    [line] = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return int(line.split()[1]) / 1024


def forget_the_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_after_a_storm_one_comparison_converges(root: Path, tmp_path: Path) -> None:
    """Files unpacked by another process into new folders while the keeper follows."""
    with opened(root, tmp_path) as library:
        library.index()
        library.watch()
        assert library.drain(DEADLINE)
        forget_the_peak()
        before = peak_mib()
        subprocess.run([sys.executable, "-c", UNPACK, str(root), str(STORM)], check=True)
        assert library.drain(DEADLINE)
        library.index(wait_seconds=DEADLINE)
        grown = peak_mib() - before
        assert len(indexed(library)) == STORM + 1
        assert indexed(library) == on_disk(root)
        assert library.search(f"word{STORM - 1}", mode="keyword").hits
        assert library.search("harbour").incomplete == ()
        # What the index maps is counted, too: a kilobyte per file, beside what a pass takes.
        assert grown < 400 + STORM / 1024
    report(
        "storm of files", trials=1, faults=1, counted=STORM,
        note=f"of {STORM:,} files; {grown:.0f} MiB more at most",
    )  # fmt: skip


def spell(root: Path, chance: random.Random, number: int) -> None:
    """Make one change, as an editor, a person or git does, that watchers are known to lose."""
    files = sorted(path for path in root.rglob("*.md") if path.is_file())
    folders = sorted(path for path in root.rglob("*") if path.is_dir())
    some = chance.choice(files) if files else root / "x.md"
    kind = chance.choice(["atomic", "vim", "folder", "swap", "delete", "deep", "burst", "back"])
    if kind == "atomic":
        spare = some.with_suffix(".tmp~")
        spare.write_text(f"# Saved\n\nstorm {number}\n")
        os.replace(spare, some)
    elif kind == "vim" and files:
        os.rename(some, f"{some}~")
        some.write_text(f"# Saved by vim\n\nstorm {number}\n")
        os.unlink(f"{some}~")
    elif kind == "folder" and folders:
        inner = chance.choice(folders)
        os.rename(inner, root / f"renamed{number}")
    elif kind == "swap" and len(folders) > 1:
        one, two = chance.sample(folders, 2)
        if not (one.is_relative_to(two) or two.is_relative_to(one)):
            os.rename(one, root / "between")
            os.rename(two, one)
            os.rename(root / "between", two)
    elif kind == "delete" and folders:
        shutil.rmtree(chance.choice(folders))
    elif kind == "back" and files:
        # Another text of the same length, with the times of before: only ctime tells.
        info, text = some.stat(), some.read_text()
        some.write_text(text.replace("storm", "STORM"))
        os.utime(some, ns=(info.st_atime_ns, info.st_mtime_ns))
    else:
        place = root / f"made{number}" / "deep" / "er"
        place.mkdir(parents=True)
        for at in range(40 if kind == "burst" else 3):
            (place / f"{at}.md").write_text(f"# Deep {at}\n\nstorm {number}\n")
            os.utime(place / f"{at}.md", (1_600_000_000, 1_600_000_000))  # as archives do


@pytest.mark.parametrize("seed", range(SPELLS))
def test_the_index_follows_editors_and_git(root: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with opened(root, tmp_path) as library:
        library.index()
        library.watch()
        assert library.drain(DEADLINE)
        for number in range(40):
            spell(root, chance, number)
            if number % 10 == 9:
                assert library.drain(DEADLINE)
                library.search("storm")
                assert indexed(library) == on_disk(root), number
    report("renames, atomic saves, swaps", trials=40, faults=40)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher without events and fences, as on a network file system."""
    monkeypatch.setattr(FolderWatcher, "_on_change", lambda *_: None)
    monkeypatch.setattr(FolderWatcher, "fence", lambda self, seconds: False)


@pytest.mark.usefixtures("deaf")
def test_without_events_one_comparison_converges(root: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    rounds = amount(3, 30)
    with opened(root, tmp_path) as library:
        library.index()
        library.watch()
        for number in range(rounds):
            for step in range(10):
                spell(root, chance, number * 10 + step)
            # A search without a fence looks at the disk, as if nobody watched.
            answer = library.search("storm")
            if answer.incomplete:
                library.index(wait_seconds=DEADLINE)
            assert indexed(library) == on_disk(root), number
    report("no events at all", trials=rounds * 10, faults=rounds * 10)


def test_a_wrong_clock_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files dated ten years off, a clock ten years off, and then the right one again: the answers
    are those of a clock that was right all along, and generations only grow."""
    rounds = amount(6, 60)
    found = [
        answers(tmp_path / str(skew), skew, rounds, monkeypatch)
        for skew in (0, -TEN_YEARS, TEN_YEARS)
    ]
    assert len(found[0]) > 3
    assert found[1] == found[0]
    assert found[2] == found[0]
    report("clock skew of 10 years", trials=2 * rounds, faults=2 * rounds)


def answers(
    place: Path, skew: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, str, float]]:
    """Return what is found after a history of changes with a clock ``skew`` seconds off."""
    chance, root = random.Random(11), place / "root"
    root.mkdir(parents=True)
    for number in range(20):
        spell(root, chance, number)
    now, exact = time.time, time.time_ns
    with monkeypatch.context() as patched, opened(root, place) as library:
        library.index()
        generations = [library.status().generation]
        for number in range(rounds):
            off = skew if number % 2 == 0 else 0
            patched.setattr(time, "time", lambda off=off: now() + off)
            patched.setattr(time, "time_ns", lambda off=off: exact() + off * 10**9)
            spell(root, chance, 100 + number)
            target = root / "skewed.md"
            target.write_text(f"# Skewed\n\nstorm skew{number}\n")
            os.utime(target, (now() + off, now() + off))
            library.index()
            generations.append(library.status().generation)
            assert indexed(library) == on_disk(root)
            assert library.search(f"skew{number}", mode="keyword").hits
        assert generations == sorted(set(generations))
        return [(hit.uri, hit.text, hit.score) for hit in library.search("storm", top_k=20).hits]
