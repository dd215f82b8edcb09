"""A full disk and a read-only one: typed errors, the old generation serves, a retry succeeds."""

from __future__ import annotations

import json
import os
import random
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from lookfar.errors import DiskFull, IndexReadOnly, IOFailed
from lookfar.library import Library
from store.shelf import Elsewhere, Shelf, python
from waiting import DEADLINE

SMALL = {f"{n}.md": f"# Page {n}\n\ncommon word{n}\n" for n in range(10)}


LARGE = 120
"""As many documents as do not fit on the small disk."""


def large(seed: int, count: int) -> dict[str, str | None]:
    """Text that does not compress well."""
    chance = random.Random(seed)
    return {
        f"large{n}.md": " ".join(f"{chance.getrandbits(64):x}" for _ in range(400)) + "\n"
        for n in range(count)
    }


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_full_disk_is_typed_and_the_old_generation_serves(
    small_disk: Path, rebuild: bool
) -> None:
    """Seen to fail when an unfinished epoch kept its space."""
    shelf = Shelf(small_disk / "index")
    shelf.write(SMALL)
    before = shelf.everything()
    with pytest.raises(IOFailed) as raised:
        shelf.write(large(1, LARGE), rebuild=rebuild)
    assert raised.value.code in ("DISK_FULL", "IO_ERROR")
    assert raised.value.hint
    assert shelf.everything() == before
    assert len(shelf.found("common")) == 10
    again = Shelf(small_disk / "index")
    assert again.everything() == before
    assert again.store.verify() == []
    again.store.close()
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    shelf.write(large(1, LARGE), rebuild=rebuild)
    assert len(shelf.everything()) == LARGE + (0 if rebuild else 10)
    assert shelf.store.verify() == []
    shelf.store.close()


def test_a_failed_first_build_frees_its_space(small_disk: Path) -> None:
    shelf = Shelf(small_disk / "index")
    with pytest.raises(IOFailed):
        shelf.write(large(2, LARGE))
    assert not shelf.store.exists
    assert list(shelf.store.folder.glob("epoch-*")) == []
    shelf.write(SMALL)
    assert shelf.everything() == SMALL
    shelf.store.close()


@pytest.mark.parametrize("fill", range(0, 1_900_000, 130_000))
def test_wherever_the_disk_fills_up_the_error_is_typed(small_disk: Path, fill: int) -> None:
    """The disk is filled to another level each time, so that another write fails first."""
    shelf = Shelf(small_disk / "index")
    shelf.write(SMALL)
    (small_disk / "ballast").write_bytes(b"x" * fill)
    with suppress(IOFailed):
        shelf.write(large(3, 40))
    assert len(shelf.everything()) in (10, 50)
    assert len(shelf.found("common")) == 10
    assert shelf.store.verify() == []
    (small_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    shelf.write({"new.md": "common again\n"})
    assert len(shelf.found("common")) == 11
    shelf.store.close()


LIMITED = """
    import resource, signal, sys
    from pathlib import Path
    from lookfar.errors import IOFailed
    from shelf import Shelf
    from test_disk import SMALL, large
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    shelf = Shelf(Path(sys.argv[1]))
    shelf.write(SMALL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        shelf.write(large(4, 60))
    except IOFailed as error:
        print(error.code)
    assert shelf.everything() == SMALL
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    shelf.write(large(4, 60))
    assert len(shelf.everything()) == 70
    assert shelf.store.verify() == []
"""


@pytest.mark.parametrize("limit", [100_000, 200_000, 300_000])
def test_a_file_size_limit_is_typed_too(tmp_path: Path, elsewhere: Elsewhere, limit: int) -> None:
    done = elsewhere(LIMITED, tmp_path / "index", limit)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("IO_ERROR", "DISK_FULL")


FRESH = """
    import json, resource, signal, sys
    from pathlib import Path
    from lookfar.errors import IOFailed
    from shelf import Shelf
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if len(sys.argv) > 2:
        limit = int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    shelf = Shelf(Path(sys.argv[1]))
    told = {"all": shelf.everything(), "found": len(shelf.found("common")),
            "damage": [damage.artefact for damage in shelf.store.verify()]}
    try:
        shelf.write({"new.md": "text\\n"})
    except IOFailed as error:
        told |= {"code": error.code, "message": error.message, "hint": error.hint,
                 "developer": error.developer}
    told["after"] = shelf.everything()
    print(json.dumps(told))
"""
"""What a process reads and writes that has opened nothing before the disk was full."""


def fill_up(disk: Path) -> None:
    """Fill the disk completely."""
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (65_536, 1):
            with suppress(OSError):
                while True:
                    ballast.write(b"x" * size)


def test_a_new_process_reads_on_a_full_disk(small_disk: Path, elsewhere: Elsewhere) -> None:
    """SQLite wants room for its ``-shm`` file even to read.

    Seen to fail when only a read-only disk was read without one: IO_ERROR, "the disk failed"."""
    shelf = Shelf(small_disk / "index")
    shelf.write(SMALL)
    shelf.store.close()
    fill_up(small_disk)
    for _ in range(2):  # The second meets what the first one's attempt left.
        done = elsewhere(FRESH, small_disk / "index")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["all"], told["found"], told["damage"]) == (SMALL, 10, [])
        assert told["code"] == "DISK_FULL"
        assert "disk space" in told["message"]
        assert told["hint"]
        assert told["after"] == SMALL
    (small_disk / "ballast").unlink()
    shelf.write({"new.md": "text\n"})
    assert len(shelf.everything()) == 11
    shelf.store.close()


DIES = """
    import os, signal, sys
    from pathlib import Path
    from shelf import Shelf
    shelf = Shelf(Path(sys.argv[1]))
    shelf.write({"new.md": "common too\\n"})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_log_of_a_killed_writer_is_read_on_a_full_disk(
    small_disk: Path, elsewhere: Elsewhere
) -> None:
    """Its ``-shm`` file is there to be used."""
    shelf = Shelf(small_disk / "index")
    shelf.write(SMALL)
    shelf.store.close()
    elsewhere(DIES, small_disk / "index")
    fill_up(small_disk)
    everything = {**SMALL, "new.md": "common too\n"}
    done = elsewhere(FRESH, small_disk / "index")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["all"], told["found"]) == (everything, 11)
    assert told["code"] == "DISK_FULL", told["developer"]


def test_a_log_without_shared_memory_on_a_full_disk_is_reported(small_disk: Path) -> None:
    """Seen to fail when the log was passed over: the state before it was served."""
    shelf = Shelf(small_disk / "index")
    shelf.write(SMALL)
    shelf.write({"new.md": "common too\n"})
    with shelf.store.snapshot():
        [catalogue] = small_disk.glob("index/*/catalogue.db")
        names = [catalogue.name, f"{catalogue.name}-wal"]
        kept = {name: (catalogue.parent / name).read_bytes() for name in names}
    shelf.store.close()
    assert kept[names[1]]
    for name, data in kept.items():
        (catalogue.parent / name).write_bytes(data)
    fill_up(small_disk)
    again = Shelf(small_disk / "index")
    with pytest.raises(DiskFull) as raised:
        again.everything()
    assert "Free some space" in raised.value.hint
    (small_disk / "ballast").unlink()
    assert len(again.everything()) == 11
    again.store.close()


def test_a_new_process_reads_where_files_cannot_grow(tmp_path: Path, elsewhere: Elsewhere) -> None:
    """The same without a separate disk, for users who may not mount one."""
    shelf = Shelf(tmp_path / "index")
    shelf.write(SMALL)
    shelf.store.close()
    done = elsewhere(FRESH, tmp_path / "index", 20_000)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["all"], told["found"], told["damage"]) == (SMALL, 10, [])
    assert told["code"] in ("DISK_FULL", "IO_ERROR")
    assert told["after"] == SMALL


WITHOUT_ROOM = """
    import resource, signal, sys
    from pathlib import Path
    from lookfar.errors import IOFailed
    from shelf import Shelf
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    shelf = Shelf(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
    try:
        print(shelf.store.verify())
    except IOFailed as error:
        print(error.code)
"""


def test_a_full_temporary_folder_is_not_damage(tmp_path: Path, elsewhere: Elsewhere) -> None:
    """Seen to fail when ``verify`` took its own failure to write for one of the index."""
    shelf = Shelf(tmp_path / "index")
    shelf.write(SMALL)
    shelf.store.close()
    done = elsewhere(WITHOUT_ROOM, tmp_path / "index")
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_a_full_disk_is_searched_while_files_change(
    small_disk: Path, tmp_path: Path, own_home: None
) -> None:
    """Also where a file has changed, which cannot be indexed now: the answer says so."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for uri, text in SMALL.items():
        (docs / uri).write_text(text, encoding="utf-8")
    chosen = {"embed.provider": "hash"}
    with Library.open(docs, index_dir=small_disk / "index", settings=chosen) as library:
        library.index()
    fill_up(small_disk)
    (docs / "new.md").write_text("common news\n", encoding="utf-8")
    with Library.open(docs, index_dir=small_disk / "index", settings=chosen) as library:
        answer = library.search("common", top_k=20)
        assert len({hit.uri for hit in answer.hits}) == 10
        assert answer.incomplete
        [state] = library.statuses()
        assert state.counts.documents == 10
        with pytest.raises(DiskFull):
            library.index()


def test_a_read_only_disk_is_searched_and_not_written(small_disk: Path) -> None:
    """Seen to fail when the keyword index wanted its lock file even to read."""
    shelf = Shelf(small_disk / "index")
    shelf.write(SMALL)
    shelf.store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    shelf = Shelf(small_disk / "index")
    assert len(shelf.found("common")) == 10
    assert shelf.everything() == SMALL
    assert shelf.store.verify() == []
    with pytest.raises(IndexReadOnly) as raised:
        shelf.write({"new.md": "text\n"})
    assert "--index-dir" in raised.value.hint
    shelf.store.close()
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    shelf.write({"new.md": "text\n"})
    assert shelf.found("text") == ["new.md"]
    shelf.store.close()


NOBODY = """
    import mmap, os, shutil, sys  # before its folder is closed to us
    from pathlib import Path
    from lookfar.errors import IOFailed
    from shelf import Shelf
    from test_disk import SMALL
    os.setgid(65534); os.setuid(65534)
    shelf = Shelf(Path(sys.argv[1]))
    print(len(shelf.found("common")), len(shelf.everything()), flush=True)
    sys.stdin.readline()
    print(len(shelf.found("common")), len(shelf.everything()))
    try:
        shelf.write({"new.md": "text\\n"})
    except IOFailed as error:
        print(error.code, bool(error.hint))
"""


def open_to_all(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_read_only_user_sees_what_the_owner_writes(small_disk: Path) -> None:
    """Seen to fail when a connection that sees no changes was kept for the next question."""
    if os.getuid():
        pytest.skip("only root can become somebody else")
    shelf = Shelf(small_disk / "index")
    shelf.write(SMALL)
    open_to_all(small_disk)
    reader = subprocess.Popen(
        python(NOBODY, small_disk / "index"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    first = reader.stdout.readline()
    assert first == "10 10\n", reader.stderr and reader.stderr.read()
    shelf.write({"more.md": "common too\n"})
    open_to_all(small_disk)
    output, errors = reader.communicate("go\n", timeout=DEADLINE)
    assert errors == ""
    assert output.splitlines() == ["11 11", "PERMISSION_DENIED True"]
    shelf.store.close()
