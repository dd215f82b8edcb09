"""A walk finds all admitted files, lists what it skipped, and treats nothing unseen as deleted.

Proved by mutation: treating a folder that cannot be listed as empty, trusting a folder without
its settling time, or reusing memory under changed ignore rules all fail here.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leaks import leaving_nothing_open
from lookfar.errors import RootNotFound
from lookfar.library import Library
from lookfar.model import Skipped
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import MAX_SKIPPED, Walk, examine_files, judge_file, walk


def plant(root: Path, *uris: str, text: str = "x") -> None:
    for uri in uris:
        path = root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def uris(found: Walk) -> list[str]:
    return [file.uri for file in found.files]


def age() -> None:
    """Let timestamps settle, under the ``hasty`` fixture."""
    time.sleep(0.02)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timestamps settle in 10 ms, so that a test need not wait for two seconds."""
    for module in ("folder.walk", "fingerprints"):
        monkeypatch.setattr(f"lookfar.sources.{module}.SETTLING_NS", 10_000_000)


def test_files_come_in_uri_order(tmp_path: Path) -> None:
    names = ["b.md", "a/z.md", "a-b.md", "a.md", "a/b/c.md", "Z.md", "é.md", "a b.md", "日本/x.md"]
    plant(tmp_path, *names)
    result = walk(Root.open(tmp_path), Policy())
    assert uris(result) == sorted(names)
    assert result == walk(Root.open(tmp_path), Policy())
    for file in result.files:
        assert file.fingerprint == Root.open(tmp_path).stat(file.uri)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot have such names")
@pytest.mark.parametrize("name", ["C:/x.md", "C:\\x.md", "c:\\d/x.md", "bad\udcff/x.md"])
def test_invalid_names_are_skipped(tmp_path: Path, name: str, own_home: None) -> None:
    """A drive letter is what leads out of a root on another system; an index may travel.

    Seen to fail when the walk listed what reading refuses: every answer was incomplete."""
    docs = tmp_path / "docs"
    plant(docs, "ok.md", name, text="common words")
    top = os.fsencode(name.partition("/")[0]).decode("utf-8", "replace")
    result = walk(Root.open(docs), Policy())
    assert uris(result) == ["ok.md"]
    assert [(skipped.uri, skipped.reason) for skipped in result.skipped] == [(top, "bad_name")]
    assert result.unreadable == ()
    hinted = examine_files(Root.open(docs), Policy(), [name, "ok.md"])  # As the watcher names them.
    assert (uris(hinted), hinted.unreadable) == (["ok.md"], ())
    assert hinted.skipped_counts == {"bad_name": 1}
    chosen = {"embed.provider": "hash"}
    with Library.open(docs, index_dir=tmp_path / "index", settings=chosen) as library:
        library.index()
        answer = library.search("common")
        [state] = library.statuses()
    assert [hit.uri for hit in answer.hits] == ["ok.md"]
    assert answer.incomplete == ()
    assert state.failures == ()


def test_reasons_are_counted_and_named(tmp_path: Path) -> None:
    plant(tmp_path, "ok.md", ".env", "node_modules/a.js", "x.tmp", "a.png", "ign.txt", "no.rst")
    plant(tmp_path, "big.md", text="x" * 11)
    plant(tmp_path, ".gitignore", text="ign.txt\n")
    os.symlink("ok.md", tmp_path / "link.md")
    os.symlink("..", tmp_path / "loop")
    os.link(tmp_path / "ok.md", tmp_path / "hard.md")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / os.fsdecode(b"bad\xff.md")).write_text("x")
    policy = Policy(include=("*.md",), max_file_bytes=10)
    result = walk(Root.open(tmp_path), policy)
    # Whether it is too large is judged when it is compared with the index.
    assert uris(result) == ["big.md"]
    assert result.skipped == (
        Skipped(".env", "denied", ".env"),
        Skipped(".gitignore", "not_included", "include"),
        Skipped("a.png", "binary", "*.png"),
        Skipped("bad\ufffd.md", "bad_name", "not UTF-8"),
        Skipped("hard.md", "hard_link", "it has 2 hard links"),
        Skipped("ign.txt", "ignored", ".gitignore:1: ign.txt"),
        Skipped("link.md", "symlink"),
        Skipped("loop", "not_included", "include"),
        Skipped("no.rst", "not_included", "include"),
        Skipped("node_modules", "denied", "node_modules/"),
        Skipped("ok.md", "hard_link", "it has 2 hard links"),
        Skipped("pipe.md", "not_a_file"),
        Skipped("x.tmp", "excluded", "*.tmp"),
    )
    assert result.skipped_counts == {
        "bad_name": 1,
        "binary": 1,
        "denied": 2,
        "excluded": 1,
        "hard_link": 2,
        "ignored": 1,
        "not_a_file": 1,
        "not_included": 3,
        "symlink": 1,
    }
    linked = walk(Root.open(tmp_path, allow_hard_links=True), policy)
    assert uris(linked) == ["big.md", "hard.md", "ok.md"]


def test_planted_secrets_are_never_admitted(tmp_path: Path) -> None:
    secrets = [
        *(".env", ".env.local", "a/.ENV", "a/b/.Env.prod", "id_rsa", "a/id_ed25519", "x.pem"),
        *("a/SERVER.KEY", "b.p12", "c.pfx", ".netrc", ".npmrc", ".pypirc", ".git-credentials"),
        *("d.keystore", "e.JKS", "f.kdbx", ".ssh/config", ".ssh/id_x", "a/.gnupg/ring", ".aws/c"),
        *(".git/config", "a/.git/HEAD", "a/.e\u200bnv", "a/i\u200dd_rsa", ".n\ufeffetrc", "g.ppk"),
        *(".env\u202e", "a/k\u2060ey.\u200bkey", "h.PEM", "node_modules/x/.env", ".pgpass"),
    ]
    plant(tmp_path, "ok.md", *secrets, text="hunter2")
    plant(tmp_path, ".gitignore", ".lookfarignore", text="".join(f"!{s}\n!**\n" for s in secrets))
    for spot, name in enumerate(("plain.md", "a/other.md")):
        os.symlink(tmp_path / secrets[spot], tmp_path / name)
    policy = Policy(include=("**", *secrets), exclude=())
    assert uris(walk(Root.open(tmp_path), policy)) == [".gitignore", ".lookfarignore", "ok.md"]
    for uri in secrets:
        assert judge_file(Root.open(tmp_path), policy, uri) is not None


def test_depth_limit(tmp_path: Path) -> None:
    plant(tmp_path, "0.md", "a/1.md", "a/b/2.md", "a/b/c/3.md")
    result = walk(Root.open(tmp_path), Policy(max_depth=2))
    assert uris(result) == ["0.md", "a/1.md", "a/b/2.md"]
    assert result.skipped == (Skipped("a/b/c", "too_deep", "limit 2"),)
    assert uris(walk(Root.open(tmp_path), Policy(max_depth=0))) == ["0.md"]
    assert judge_file(Root.open(tmp_path), Policy(max_depth=2), "a/b/c/3.md") is not None
    plant(tmp_path, "/".join("d" * 20) + "/in.md", "/".join("d" * 21) + "/out.md")
    assert uris(walk(Root.open(tmp_path), Policy()))[-1].endswith("in.md")


def test_limits_of_number(tmp_path: Path) -> None:
    plant(tmp_path, *(f"{n}.md" for n in range(5)))
    plant(tmp_path, *(f"a/{n:04}.log" for n in range(MAX_SKIPPED)), "b/0.log", "b/1.log")
    result = walk(Root.open(tmp_path), Policy())
    assert len(result.skipped) == MAX_SKIPPED
    assert result.skipped_counts == {"denied": MAX_SKIPPED + 2}


REPORT = """
found = walk(root, Policy())
asked = ("closed/x.md", "closed", "closedish/x.md", "open/x.md")
print(json.dumps([[f.uri for f in found.files], found.unreadable, [*map(found.unseen, asked)]]))
"""
Nobody = Callable[[Path, str], str]


def test_unreadable_folders_are_errors_not_empty(public: Path, as_nobody: Nobody) -> None:
    plant(public, "open/x.md", "closed/x.md", "closed/deep/y.md", "listed/z.md", "closedish/x.md")
    (public / "closed").chmod(0)
    (public / "listed").chmod(0o744)  # names can be read, entries cannot be examined
    files, unreadable, unseen = json.loads(as_nobody(public, REPORT))
    assert files == ["closedish/x.md", "open/x.md"]
    assert unreadable == ["closed", "listed/z.md"]
    assert unseen == [True, True, False, False]


def test_unreadable_folders_are_examined_again(public: Path, as_nobody: Nobody) -> None:
    """A walk with ``before`` neither forgets an unreadable folder nor treats it as deleted."""
    plant(public, "closed/x.md", "listed/z.md", "open/x.md")
    (public / "closed").chmod(0)
    (public / "listed").chmod(0o744)
    again = """
from lookfar.sources import fingerprints
from lookfar.sources.folder import walk as module
module.SETTLING_NS = fingerprints.SETTLING_NS = 0
first = walk(root, Policy())
found = walk(root, Policy(), before=first)
assert found.memory.folders["open"] is first.memory.folders["open"]
print(json.dumps([found == first, found.unreadable]))
"""
    assert json.loads(as_nobody(public, again)) == [True, ["closed", "listed/z.md"]]


def test_an_unreadable_root_is_all_unseen(public: Path, as_nobody: Nobody) -> None:
    plant(public, "docs/a.md")
    (public / "docs").chmod(0)
    assert json.loads(as_nobody(public / "docs", REPORT)) == [[], [""], [True] * 4]


def test_a_vanished_root_is_an_error(tmp_path: Path) -> None:
    plant(tmp_path, "docs/a.md")
    root = Root.open(tmp_path / "docs")
    before = walk(root, Policy())
    shutil.rmtree(tmp_path / "docs")
    for last in (None, before):
        with pytest.raises(RootNotFound):
            walk(root, Policy(), before=last)


def _edit(root: Path, rng: random.Random) -> None:
    """One change of a kind that a walk must notice."""
    folders = ["", *(str(p.relative_to(root)) for p in sorted(root.rglob("*")) if p.is_dir())]
    files = [p for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()]
    folder = root / rng.choice(folders)
    kind = rng.choice(
        ["add", "edit", "grow", "delete", "rename", "ignore", "mkdir", "link", "swap"]
    )
    if kind == "add":
        (folder / f"{rng.randrange(99)}.md").write_text("new")
    elif kind == "mkdir":
        (folder / f"d{rng.randrange(9)}").mkdir(exist_ok=True)
    elif kind == "ignore":
        (folder / ".gitignore").write_text(f"{rng.randrange(9)}*.md\n")
    elif kind == "link":
        name = folder / f"l{rng.randrange(99)}.md"
        if not name.is_symlink():
            name.symlink_to("x")
    elif kind == "swap" and folder != root:
        os.rename(folder, root / f"m{rng.randrange(999)}")
    elif files:
        file = rng.choice(files)
        if kind == "edit":
            file.write_text(f"{rng.random()}")
        elif kind == "grow":
            file.write_text("x" * rng.choice([5, 200]))
        elif kind == "delete":
            file.unlink()
        elif kind == "rename":
            os.rename(file, folder / f"r{rng.randrange(99)}.md")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("hasty")
def test_a_walk_with_before_equals_a_fresh_one(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    plant(tmp_path, *(f"{a}/{b}/{n}.md" for a in "ab" for b in "cd" for n in range(3)))
    root, policy = Root.open(tmp_path), Policy(max_file_bytes=100, max_depth=3)
    last = walk(root, policy)
    reused = 0
    for _ in range(40):
        for _ in range(rng.randrange(3)):
            _edit(tmp_path, rng)
        if rng.random() < 0.6:
            age()
        now = walk(root, policy, before=last)
        assert now == walk(root, policy)
        known = last.memory.folders
        reused += sum(folder is known.get(uri) for uri, folder in now.memory.folders.items())
        last = now
    assert reused > 50, "memory was never used"


def test_memory_waits_for_timestamps_to_settle(tmp_path: Path) -> None:
    """A folder stamped within the last two seconds is listed again."""
    plant(tmp_path, "a/b.md")
    root = Root.open(tmp_path)
    first = walk(root, Policy())
    assert walk(root, Policy(), before=first).memory.folders["a"] is not first.memory.folders["a"]


@pytest.mark.usefixtures("hasty")
def test_memory_is_for_the_same_rules_only(tmp_path: Path) -> None:
    plant(tmp_path, "a/b.md", "a/c.rst")
    age()
    root = Root.open(tmp_path)
    first = walk(root, Policy())
    assert walk(root, Policy(), before=first).memory.folders["a"] is first.memory.folders["a"]
    assert uris(walk(root, Policy(include=("*.md",)), before=first)) == ["a/b.md"]
    os.link(tmp_path / "a/b.md", tmp_path / "a/d.md")
    linked = Root.open(tmp_path, allow_hard_links=True)
    assert uris(walk(linked, Policy(), before=first)) == ["a/b.md", "a/c.rst", "a/d.md"]
    assert uris(walk(root, Policy(), before=walk(linked, Policy()))) == ["a/c.rst"]


@pytest.mark.usefixtures("hasty")
def test_an_edited_ignore_file_reaches_every_folder_below(tmp_path: Path) -> None:
    plant(tmp_path, "a/b/c/x.md", "a/b/c/y.md", "z.md")
    plant(tmp_path, ".gitignore", text="x.md\n")
    age()
    root = Root.open(tmp_path)
    first = walk(root, Policy(include=("*.md",)))
    assert uris(first) == ["a/b/c/y.md", "z.md"]
    plant(tmp_path, ".gitignore", text="y.md\n")
    assert uris(walk(root, Policy(include=("*.md",)), before=first)) == ["a/b/c/x.md", "z.md"]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    plant(tmp_path, "a/b/c.md", "d/e.md")
    with leaving_nothing_open():
        result = walk(Root.open(tmp_path), Policy())
        walk(Root.open(tmp_path), Policy(), before=result)


def test_without_descriptors_the_walk_is_the_same(tmp_path: Path) -> None:
    class PathRoot(Root):
        __slots__ = ()
        by_descriptor = False

    plant(tmp_path, "a/b/c.md", "d/e.md", ".env")
    os.symlink("a", tmp_path / "link")
    result = walk(Root.open(tmp_path), Policy())
    by_path = walk(PathRoot.open(tmp_path), Policy())
    assert by_path == result
    assert walk(PathRoot.open(tmp_path), Policy(), before=by_path) == result


@pytest.mark.usefixtures("hasty")
def test_a_file_from_the_far_future_is_known_again(tmp_path: Path) -> None:
    """Protects a folder on a disk with a wrong clock. Seen to fail, with a time that no catalogue
    can keep, when a fingerprint was as the disk says; and with a file that was weighed again in
    each walk when that was compared with what the disk says."""
    plant(tmp_path, "in/a.md", "in/b.md")
    os.utime(tmp_path / "in" / "a.md", (10_000_000_000, 10_000_000_000))
    if os.stat(tmp_path / "in" / "a.md").st_mtime < 10_000_000_000:
        pytest.skip("this disk knows no such time")
    age()
    first = walk(Root.open(tmp_path), Policy())
    again = walk(Root.open(tmp_path), Policy(), before=first)
    assert uris(again) == ["in/a.md", "in/b.md"]
    assert all(file.fingerprint.mtime_ns < 1 << 63 for file in again.files)
    assert [id(file) for file in again.files] == [id(file) for file in first.files]
