"""Nothing outside the root is read, whatever the path and whatever the disk does meanwhile.

Every hostile path is tried on both ways of opening (by descriptor, and by path as on Windows).
Proved by mutation: without O_NOFOLLOW, without the link count, with `components` returning early,
or with `_top` not recognising its folder, tests here fail.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from leaks import leaving_nothing_open
from lookfar.errors import InvalidArgument, OutsideRoot, RootNotFound
from lookfar.sources.confine import Refused, Root

SECRET = b"the secret outside"
LIMIT = 1 << 20


class PathRoot(Root):
    """The way taken where folders have no descriptors."""

    __slots__ = ()
    by_descriptor = False


@pytest.fixture(params=[Root, PathRoot], ids=["descriptor", "path"])
def kind(request: pytest.FixtureRequest) -> type[Root]:
    chosen: type[Root] = request.param
    return chosen


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root `docs` beside a forbidden `docs-secret`, with links of every sort in it."""
    root = tmp_path / "docs"
    outside = tmp_path / "docs-secret"
    for folder in (root / "a" / "b" / "c", outside / "inner"):
        folder.mkdir(parents=True)
    for path in (outside / "secret.txt", outside / "inner" / "secret.txt", tmp_path / "secret.txt"):
        path.write_bytes(SECRET)
    for uri in ("ok.md", "a/ok.md", "a/b/ok.md", "a/b/c/ok.md", "a/..b.md", "a/b..", "~"):
        (root / uri).write_bytes(b"fine " + uri.encode())
    for depth, prefix in enumerate(("", "a/", "a/b/", "a/b/c/")):
        up = "../" * (depth + 1)
        os.symlink(f"{up}docs-secret/secret.txt", root / f"{prefix}relative.md")
        os.symlink(outside / "secret.txt", root / f"{prefix}absolute.md")
        os.symlink(f"{up}docs-secret", root / f"{prefix}relative")
        os.symlink(outside, root / f"{prefix}absolute")
        os.symlink(f"{prefix and up[3:]}ok.md", root / f"{prefix}within.md")
        os.symlink("loop", root / f"{prefix}loop")
        os.symlink("..", root / f"{prefix}up")
        os.symlink("/", root / f"{prefix}top")
        os.symlink("/proc/self/root", root / f"{prefix}proc")
        os.symlink("nowhere", root / f"{prefix}dangling")
        os.link(outside / "secret.txt", root / f"{prefix}hard.md")
        os.mkfifo(root / f"{prefix}pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)
        server.bind("socket")
        os.chdir(here)
    return root


def _spelled(root: Path) -> list[str]:
    """Paths that are refused for how they are written."""
    outside = str(root.parent / "docs-secret" / "secret.txt")
    climbs = [
        "../secret.txt",
        "../docs-secret/secret.txt",
        "..",
        "../",
        "./../secret.txt",
        "a/../../secret.txt",
        "a/b/../../../secret.txt",
        "a/b/c/../../../../docs-secret/secret.txt",
        "../docs/ok.md",
        "a/../ok.md",
        "./ok.md",
        "a/./ok.md",
        ".",
        "",
        "/",
        "//",
        "a//ok.md",
        "a/",
        "/ok.md",
        "ok.md/",
        "//etc/passwd",
        "/etc/passwd",
        outside,
        "/" + outside,
        f"file://{outside}",
        f"file:/{outside}",
        "ok.md\0",
        "ok.md\0/../../secret.txt",
        "../secret.txt\0.md",
        "\0",
        "C:/secret.txt",
        "C:\\secret.txt",
        "c:",
        "Z:\\..\\secret.txt",
        "a/\udcff.md",
        "\ud800",
        "a/" * 3000 + "ok.md",
        "x" * 5000,
        "é" * 2500,
        *("../" * n + "etc/passwd" for n in range(1, 12)),
        *("a/" * n + "../" * (n + 1) + "secret.txt" for n in range(1, 6)),
    ]
    return climbs


UNFOLLOWED = [
    *("relative.md", "absolute.md", "within.md", "loop", "dangling", "hard.md"),
    *("relative/secret.txt", "absolute/secret.txt", "relative/inner/secret.txt"),
    *("loop/x", "up/docs-secret/secret.txt", "up/ok.md", "top/etc/passwd", "proc/etc/passwd"),
    *("dangling/x", "pipe", "pipe/x", "ok.md/x", "ok.md/secret.txt", "absent.md", "absent/x"),
    *("%2e%2e/secret.txt", "..%2fsecret.txt", "%252e%252e%252fsecret.txt", "%00"),
    *("\uff0e\uff0e/secret.txt", "\u2024\u2024/secret.txt", "..\u200b/secret.txt"),
    *(".\u200b./secret.txt", "\u2025/secret.txt", "..\uff0fsecret.txt", "..\u2215secret.txt"),
    *("..\\secret.txt", "..\\..\\secret.txt", "\\etc\\passwd", "\\\\host\\share\\x"),
    *("... /secret.txt", "..../secret.txt", ".. /secret.txt", " ../secret.txt", "~root/.profile"),
    *("$HOME/x", "OK.MD", "ok.md ", "ok.md.", "ok.md::$DATA", "-rf", "*", "ok.m?", "x" * 300),
]


def _refused(root: Root, uri: str) -> str:
    """Why a read is refused; fails when anything at all is read."""
    try:
        data, _ = root.read(uri, LIMIT)
    except Refused as refusal:
        return refusal.reason
    except OutsideRoot:
        return "outside"
    pytest.fail(f"{uri!r} was read: {data!r}")


def test_misspelled_paths_are_outside(tree: Path, kind: type[Root]) -> None:
    root = kind.open(tree)
    paths = _spelled(tree)
    assert len(paths) >= 50
    for uri in paths:
        with pytest.raises(OutsideRoot):
            root.read(uri, LIMIT)
        with pytest.raises(OutsideRoot):
            root.stat(uri)
        assert not root.contains(uri)


@pytest.mark.parametrize("folder", ["", "a/", "a/b/", "a/b/c/"])
def test_nothing_is_followed(tree: Path, kind: type[Root], folder: str) -> None:
    root = kind.open(tree)
    for name in UNFOLLOWED:
        uri = folder + name
        assert _refused(root, uri) in ("symlink", "gone", "not_a_file", "hard_link"), uri
        assert root.stat(uri) is None, uri
        assert not root.contains(uri), uri


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("relative.md", "symlink"),
        ("within.md", "symlink"),
        ("loop", "symlink"),
        ("absolute/secret.txt", "symlink"),
        ("a/up/ok.md", "symlink"),
        ("hard.md", "hard_link"),
        ("pipe", "not_a_file"),
        ("socket", "not_a_file"),
        ("a", "not_a_file"),
        ("absent.md", "gone"),
        ("absent/x.md", "gone"),
        ("ok.md/x", "gone"),
        ("x" * 300, "gone"),
    ],
)
def test_reasons(tree: Path, kind: type[Root], uri: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        kind.open(tree).read(uri, LIMIT)
    assert (caught.value.reason, caught.value.uri) == (reason, uri)


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root makes device nodes")
def test_devices_are_refused(tree: Path, kind: type[Root]) -> None:
    try:
        os.mknod(tree / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no device nodes in this container")
    assert _refused(kind.open(tree), "zero") == "not_a_file"


def test_plain_files_are_read(tree: Path, kind: type[Root]) -> None:
    root = kind.open(tree)
    for uri in ("ok.md", "a/ok.md", "a/b/c/ok.md", "a/..b.md", "a/b..", "~"):
        data, fingerprint = root.read(uri, LIMIT)
        assert data == b"fine " + uri.encode()
        assert fingerprint == root.stat(uri)
        assert fingerprint.size == len(data)
        assert root.contains(uri)


def test_hard_links_on_request(tree: Path, kind: type[Root]) -> None:
    root = kind.open(tree, allow_hard_links=True)
    assert root.read("hard.md", LIMIT)[0] == SECRET
    assert root.contains("hard.md")


def test_the_limit_is_exact(tmp_path: Path, kind: type[Root]) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "empty").write_bytes(b"")
    root = kind.open(tmp_path)
    assert root.read("a", 5)[0] == b"12345"
    assert root.read("empty", 0)[0] == b""
    with pytest.raises(Refused, match="too_large"):
        root.read("a", 4)


def test_a_swap_between_walk_and_read_is_met(tree: Path, kind: type[Root]) -> None:
    """The classic race: what was a file or folder when seen is a link when opened."""
    root = kind.open(tree)
    assert root.read("a/b/ok.md", LIMIT)[0].startswith(b"fine")
    os.rename(tree / "a" / "b", tree / "a" / "moved")
    os.symlink(tree.parent / "docs-secret", tree / "a" / "b")
    assert _refused(root, "a/b/secret.txt") == "symlink"
    os.unlink(tree / "a" / "ok.md")
    os.symlink(tree.parent / "secret.txt", tree / "a" / "ok.md")
    assert _refused(root, "a/ok.md") == "symlink"


def test_a_swap_for_the_moment_of_opening_is_met(
    tree: Path, kind: type[Root], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is a link only while the file is opened: before and after, all looks well."""
    victim, link = tree / "a" / "b", tree / "a" / "relative"
    (victim / "secret.txt").write_bytes(b"harmless")
    really_open = os.open

    def swapped_open(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if not path.endswith("secret.txt"):
            return really_open(path, flags, dir_fd=dir_fd)
        os.rename(victim, tree / "aside")
        os.rename(link, victim)
        try:
            return really_open(path, flags, dir_fd=dir_fd)
        finally:
            os.rename(victim, link)
            os.rename(tree / "aside", victim)

    root = kind.open(tree)
    monkeypatch.setattr(os, "open", swapped_open)
    try:
        outcome = root.read("a/b/secret.txt", LIMIT)[0]
    except Refused as refusal:
        outcome = refusal.reason.encode()
    assert outcome in (b"harmless", b"symlink")


def test_a_folder_moved_out_is_not_read_on(tree: Path, kind: type[Root]) -> None:
    """What a cached descriptor would get wrong."""
    root = kind.open(tree)
    root.read("a/b/ok.md", LIMIT)
    os.rename(tree / "a" / "b", tree.parent / "elsewhere")
    (tree.parent / "elsewhere" / "ok.md").write_bytes(SECRET)
    assert _refused(root, "a/b/ok.md") == "gone"


@pytest.mark.parametrize("level", ["docs", "project"])
def test_a_root_that_becomes_a_link_is_lost(tmp_path: Path, kind: type[Root], level: str) -> None:
    """As when a checkout replaces the indexed folder, or one above it, by a link."""
    docs = tmp_path / "project" / "docs"
    trap = tmp_path / "trap" / "docs"
    for folder in (docs, trap):
        folder.mkdir(parents=True)
        (folder / "a.md").write_bytes(SECRET)
    root = kind.open(docs)
    root.read("a.md", LIMIT)
    victim = docs if level == "docs" else docs.parent
    os.rename(victim, tmp_path / "aside")
    os.symlink(trap if level == "docs" else trap.parent, victim)
    with pytest.raises(RootNotFound):
        root.read("a.md", LIMIT)
    with pytest.raises(RootNotFound):
        root.stat("a.md")


def test_a_root_made_again_is_accepted(tmp_path: Path, kind: type[Root]) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    root = kind.open(docs)
    os.rename(docs, tmp_path / "old")
    with pytest.raises(RootNotFound):
        root.read("a.md", LIMIT)
    docs.mkdir()
    (docs / "a.md").write_bytes(b"new")
    assert root.read("a.md", LIMIT)[0] == b"new"


def test_swapping_in_a_loop_never_leaks(tree: Path, kind: type[Root]) -> None:
    """A thread swaps a folder for a link to the secret as fast as it can."""
    victim, aside, link = tree / "a" / "v", tree / "a" / "w", tree / "a" / "l"
    victim.mkdir()
    (victim / "secret.txt").write_bytes(b"harmless")
    os.symlink(tree.parent / "docs-secret", link)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(victim, aside)
            os.rename(link, victim)
            os.rename(victim, link)
            os.rename(aside, victim)

    swapper = threading.Thread(target=swap)
    swapper.start()
    root = kind.open(tree)
    outcomes: set[bytes] = set()
    try:
        end = time.monotonic() + 0.7
        late = end + 60.0
        # On a busy machine the other thread may get its first turn late.
        while (now := time.monotonic()) < end or (len(outcomes) < 2 and now < late):
            try:
                outcomes.add(root.read("a/v/secret.txt", LIMIT)[0])
            except Refused as refusal:
                outcomes.add(refusal.reason.encode())
    finally:
        stop.set()
        swapper.join()
    assert SECRET not in outcomes
    assert b"harmless" in outcomes
    assert len(outcomes) > 1, "the race was never met"


@pytest.mark.parametrize("disturbed", [0, 1, 2, 3])
def test_a_file_written_during_reading_is_read_again(
    tmp_path: Path, kind: type[Root], monkeypatch: pytest.MonkeyPatch, disturbed: int
) -> None:
    """Readers get one whole state and its fingerprint, or a refusal; never the state before."""
    path = tmp_path / "a"
    path.write_bytes(b"0000")
    really_read = os.read
    readings = 0

    def disturbing_read(file: int, size: int) -> bytes:
        nonlocal readings
        data = really_read(file, size)
        if readings < disturbed:
            time.sleep(0.02)
            path.write_bytes(str(readings + 1).encode() * 4)
        readings += 1
        return data

    root = kind.open(tmp_path)
    monkeypatch.setattr(os, "read", disturbing_read)
    if disturbed == 3:
        with pytest.raises(Refused, match="changing"):
            root.read("a", 9)
    else:
        assert root.read("a", 9) == (str(disturbed).encode() * 4, root.stat("a"))
        assert readings == disturbed + 1


def test_a_file_that_grows_during_reading_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0000")
    really_read = os.read
    sizes: list[int] = []

    def growing_read(file: int, size: int) -> bytes:
        if not sizes:
            path.write_bytes(b"000000")
        sizes.append(size)
        return really_read(file, min(size, 2))

    monkeypatch.setattr(os, "read", growing_read)
    assert Root.open(tmp_path).read("a", 9)[0] == b"000000"
    assert len(sizes) > 3


def test_opening_a_root(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.md").write_text("x")
    os.symlink("docs", tmp_path / "link")
    assert Root.open(tmp_path / "link").path == os.path.realpath(tmp_path / "docs")
    assert Root.open(str(tmp_path / "docs") + "/").path == os.path.realpath(tmp_path / "docs")
    for missing in ("nope", "a.md/x"):
        with pytest.raises(RootNotFound):
            Root.open(tmp_path / missing)
    with pytest.raises(InvalidArgument) as caught:
        Root.open(tmp_path / "a.md")
    assert str(tmp_path) in caught.value.hint


def test_uri_of(tmp_path: Path) -> None:
    root = Root.open(tmp_path)
    assert root.uri_of(tmp_path / "a" / "b.md") == "a/b.md"
    for outside in (tmp_path, tmp_path.parent / "x", Path("a.md"), f"{tmp_path}-secret/a"):
        with pytest.raises(OutsideRoot):
            root.uri_of(outside)


def test_a_root_can_be_sent_to_a_worker(tree: Path) -> None:
    root: Root = pickle.loads(pickle.dumps(Root.open(tree)))
    assert root.read("ok.md", LIMIT)[0] == b"fine ok.md"


def test_no_descriptor_is_left_open(tree: Path, kind: type[Root]) -> None:
    root = kind.open(tree)
    with leaving_nothing_open():
        for uri in [*UNFOLLOWED, "ok.md", "a/b/c/ok.md"]:
            root.contains(uri)
            with suppress(Refused, OutsideRoot):
                root.read(uri, 2)


def test_permission_denied_is_an_error_not_a_refusal(
    public: Path, as_nobody: Callable[[Path, str], str]
) -> None:
    (public / "closed").mkdir()
    (public / "closed" / "a.md").write_text("x")
    (public / "closed").chmod(0)
    (public / "b.md").write_text("x")
    (public / "b.md").chmod(0)
    asked = """
for ask in (lambda u: root.read(u, 9), root.stat):
    for uri in ("closed/a.md", "b.md"):
        try:
            print(ask(uri) and "seen")
        except LookfarError as error:
            print(error.code)
"""
    denied = "PERMISSION_DENIED"
    assert as_nobody(public, asked).split() == [denied, denied, denied, "seen"]
