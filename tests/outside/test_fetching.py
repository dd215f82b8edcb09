"""Repositories and archives as sources: what is stored and refused, and what an update does."""

from __future__ import annotations

import bz2
import io
import socket
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import InvalidArgument, IOFailed, LookfarError, NotFound, PermissionDenied
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.sources.addresses import find_addresses, is_public
from lookfar.sources.git import clone
from lookfar.sources.git.clone import find_commit, parse_remote
from outside.git_bombs import make_bomb, serve_repositories
from waiting import DEADLINE

pytestmark = pytest.mark.usefixtures("own_home")

Make = Callable[..., Any]
SOURCES = Filters(kinds=("sources",))


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "own.md").write_text("# Own\n\nText of the project.\n", encoding="utf-8")
    with Library.open(folder, settings={"embed.provider": "hash"}) as opened:
        yield opened


def _stored(library: Library, name: str) -> list[str]:
    return [page.uri for page in library.pages(collection=name)[0]]


def _search(library: Library, question: str) -> list[str]:
    return [hit.uri for hit in library.search(question, filters=SOURCES).hits]


# --- repositories -------------------------------------------------------------------------------


def test_a_repository_is_pinned_to_a_commit_and_follows_its_branch(
    library: Library, repository: Make
) -> None:
    made = repository("manual")
    made.commit("Add keys", {"keys.md": "# Keys\n\nRotate the signing key.\n"})
    origin = f"git+file://{made.path}"
    change = library.outside.add(origin, name="manual")
    assert change.added == ("keys.md",)
    assert len(change.source.version) == 40
    assert _search(library, "rotate signing key") == ["keys.md"]
    assert library.outside.update()[0].added == ()
    made.commit(
        "Add lamps", {"lamps.md": "# Lamps\n\nTwelve seconds.\n", "keys.md": "# Keys\n\nNo.\n"}
    )
    assert _stored(library, "manual@source") == ["keys.md"]
    again = library.outside.update(["manual"])[0]
    assert (again.added, again.changed) == (("lamps.md",), ("keys.md",))
    assert again.source.version != change.source.version
    assert _search(library, "lamps twelve seconds")[0] == "lamps.md"
    # The state before is kept as a generation of the index.
    assert len(library.snapshots(collection="manual@source")) == 2


def test_a_tag_and_a_commit_can_be_named(library: Library, repository: Make) -> None:
    made = repository("tagged")
    made.commit("One", {"a.md": "# One\n"})
    made.git("tag", "-a", "v1", "-m", "first")
    made.commit("Two", {"a.md": "# Two\n"})
    library.outside.add(f"git+file://{made.path}@v1", name="one")
    assert library.read("lookfar://one@source/a.md").text == "# One\n"
    commit = made.git("rev-parse", "HEAD").strip()
    library.outside.add(f"git+file://{made.path}@{commit}", name="two")
    assert library.read("lookfar://two@source/a.md").text == "# Two\n"
    with pytest.raises(NotFound, match="no branch or tag 'v9'"):
        library.outside.add(f"git+file://{made.path}@v9", name="nine")
    assert [source.name for source in library.outside.list_all()] == ["one@source", "two@source"]


def test_links_of_a_repository_are_not_stored(library: Library, repository: Make) -> None:
    made = repository("linked")
    (made.path / "way-out").symlink_to("/etc/passwd")
    made.git("add", "way-out")
    made.commit("Add", {"a.md": "# A\n", "picture.png": "not really\n"})
    change = library.outside.add(f"git+file://{made.path}", name="linked")
    assert change.added == ("a.md",)
    assert change.notes == ("1 file skipped: binary",)


def test_hooks_and_configuration_of_the_user_do_not_run(
    library: Library, repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = repository("plain")
    made.commit("Add", {"a.md": "# A\n"})
    mark = tmp_path / "ran"
    config = tmp_path / "gitconfig"
    config.write_text(
        f'[core]\n\thooksPath = {tmp_path}\n[url "file:///nowhere/"]\n\tinsteadOf = file://\n'
        f"[core]\n\tfsmonitor = touch {mark}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert library.outside.add(f"git+file://{made.path}", name="plain").added == ("a.md",)
    assert not mark.exists()


@pytest.mark.parametrize(
    "origin",
    [
        "git+ssh://host/repo", "git+https://me:secret@host/repo", "git+https://me@host/repo",
        "git+ext::sh -c touch", "git+https://host", "git+file://host/repo", "git+--upload-pack=x",
    ],
)  # fmt: skip
def test_other_addresses_of_repositories_are_refused(origin: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_remote(origin)


def test_an_option_cannot_be_smuggled_in_as_a_tag() -> None:
    with pytest.raises(InvalidArgument, match="not a branch"):
        parse_remote("git+https://host/repo@--upload-pack=touch")
    assert parse_remote("git+https://host/a/b@feature/x").ref == "feature/x"
    assert parse_remote("https://host/a/b.git").url == "https://host/a/b.git"


def test_private_addresses_are_refused_before_git_runs() -> None:
    for host in ("127.0.0.1", "localhost", "169.254.169.254", "10.1.2.3", "[::1]"):
        with pytest.raises(PermissionDenied, match="not a public address"):
            find_commit(parse_remote(f"git+http://{host}:9/repo"))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files, which is empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_repository_that_lists_files_without_end_is_refused_also_over_http(
    tmp_path: Path, repository: Make, temporary: Path
) -> None:
    repository("served/good").commit("Add", {"a.md": "# A\n"})
    make_bomb(repository("served/bomb"))
    make_bomb(repository("served/many"), depth=3)
    settings = {"embed.provider": "hash", "outside.allow_private": True, "outside.max_files": 99}
    with (
        serve_repositories(tmp_path / "served") as address,
        Library.open(tmp_path / "served", settings=settings) as opened,
    ):
        assert opened.outside.add(f"git+{address}/good/.git").added == ("a.md",)
        with pytest.raises(InvalidArgument, match=r"max_files allows \(99\)"):
            opened.outside.add(f"git+{address}/many/.git")
        for origin in (f"git+{address}/bomb/.git", f"git+file://{tmp_path}/served/bomb"):
            with pytest.raises(InvalidArgument, match="lists more than 64,000,000 bytes"):
                opened.outside.add(origin)
    assert not list(temporary.iterdir())


def test_git_that_is_silent_too_long_is_ended(
    library: Library, repository: Make, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trees without a file keep git busy, and print nothing."""
    monkeypatch.setattr(clone, "_LIST_SECONDS", 0.0)
    made = repository("empty")
    make_bomb(made, "")
    with pytest.raises(IOFailed, match="did not answer within"):
        library.outside.add(f"git+file://{made.path}")
    assert not list(temporary.iterdir())


def test_a_fetch_with_git_is_stopped_while_the_server_is_silent(
    tmp_path: Path, temporary: Path
) -> None:
    class Stopped(Exception):
        pass

    settings = {"embed.provider": "hash", "outside.allow_private": True}
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Library.open(tmp_path, settings=settings) as opened,
    ):
        server.setblocking(False)
        accepted: list[socket.socket] = []

        def stop_when_asked(_what: str, _done: int, _total: int) -> None:
            try:
                accepted.append(server.accept()[0])
            except BlockingIOError:
                return
            raise Stopped

        port = server.getsockname()[1]
        with pytest.raises(Stopped):
            opened.outside.add(f"git+http://127.0.0.1:{port}/repo", on_fetch=stop_when_asked)
        # The program that holds the connection has ended, too.
        accepted[0].settimeout(DEADLINE)
        while accepted[0].recv(1 << 16):
            pass
        accepted[0].close()
    assert not list(temporary.iterdir())


# --- addresses ----------------------------------------------------------------------------------


def test_which_addresses_are_public() -> None:
    public = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946")
    private = (
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1", "::", "::127.0.0.1", "fec0::1",
        "64:ff9b:1::a00:1", "4000::1",
    )  # fmt: skip
    assert all(map(is_public, public))
    assert not any(map(is_public, private))


def test_a_private_address_can_be_allowed() -> None:
    assert find_addresses("127.0.0.1", 80, allow_private=True) == ["127.0.0.1"]
    with pytest.raises(IOFailed, match="was not found"):
        find_addresses("no-such-host.invalid", 80)


# --- archives -----------------------------------------------------------------------------------


def _write_tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("manual-2.1/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)


FILES = {"manual-2.1/keys.md": b"# Keys\n\nRotate them.\n", "manual-2.1/src/a.py": b"A = 1\n"}


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.bz2", "tar.xz", "zip"])
def test_an_archive_is_stored_without_its_common_folder(
    library: Library, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"manual.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in FILES.items():
                archive.writestr(name, data)
    else:
        _write_tar(path, FILES, f"w:{kind.partition('.')[2]}")
    change = library.outside.add(str(path))
    assert (change.source.name, change.added) == ("manual@source", ("keys.md", "src/a.py"))
    path.unlink()
    assert _search(library, "rotate keys")[0] == "keys.md"
    # Without the archive, an update of all sources says so and leaves the files alone.
    assert "not updated" in library.outside.update()[0].notes[0]
    assert _stored(library, "manual@source") == ["keys.md", "src/a.py"]


def test_paths_that_lead_out_of_an_archive_are_skipped(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "evil.tar.gz"
    _write_tar(path, {"../../out.md": b"# Out\n", "/abs.md": b"# Abs\n", "ok.md": b"# OK\n"})
    change = library.outside.add(str(path))
    assert change.added == ("ok.md",)
    assert change.notes == ("2 files skipped: unusable path",)
    assert not list(tmp_path.glob("**/out.md"))


def test_paths_that_cannot_be_stored_are_skipped(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "odd.tar.gz"
    odd = {"guide": b"One\n", "guide/a.md": b"# A\n", "b/c.md": b"# C\n", "b": b"Two\n"}
    _write_tar(path, {"ok.md": b"# OK\n", f"{'n' * 300}.md": b"# N\n", **odd})
    change = library.outside.add(str(path))
    assert change.added == ("b/c.md", "guide", "ok.md")
    assert change.notes == (
        "2 files skipped: a file and a folder have the same path",
        "1 file skipped: unusable path",
    )


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_header_is_not_larger_than_any_name(
    library: Library, tmp_path: Path, kind: bytes
) -> None:
    path = tmp_path / "names.tar.bz2"
    path.write_bytes(bz2.compress(_head("x", kind, 3 << 20) + bytes(4 << 20)))
    with pytest.raises(InvalidArgument, match="more than 1,048,576 bytes for one name"):
        library.outside.add(str(path))
    assert library.outside.list_all() == ()


def _head(name: str, kind: bytes, size: int) -> bytes:
    head = tarfile.TarInfo(name)
    head.type = kind
    head.size = size
    return head.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([("S", 0, 3_000)], "bytes for one name"),
        ([("L", -512, 0)], "bytes for one name"),
        ([("0", 512, 1), ("0", -1_024, 0)], "cannot be read as a tar"),
    ],
)
def test_an_archive_that_goes_on_or_back_without_end_is_refused(
    library: Library, tmp_path: Path, entries: list[tuple[str, int, int]], reason: str
) -> None:
    path = tmp_path / "odd.tar.bz2"
    data = b""
    for kind, size, blocks in entries:
        head = bytearray(_head("a.md", kind.encode(), size))
        follow = b"a" * 512 * blocks
        if kind == "S":  # Each block says that another describes the file, too.
            head[482] = 1
            head[148:156] = b"%06o\0 " % (sum(head) - sum(head[148:156]) + 256)
            follow = ((b"00000000000\0" * 42) + b"\1" + bytes(7)) * blocks
        data += bytes(head) + follow
    path.write_bytes(bz2.compress(data + bytes(1_024)))
    with pytest.raises(InvalidArgument, match=reason):
        library.outside.add(str(path))


def test_an_entry_that_cannot_be_read_costs_only_itself(library: Library, tmp_path: Path) -> None:
    """No name, another text than its checksum says, a method without limits, an unknown one."""
    path = tmp_path / "odd.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manual/ok.md", "# OK\n")
        archive.writestr(zipfile.ZipInfo(""), "Nameless\n")
        archive.writestr("manual/wrong.md", "# Text here\n")
        archive.writestr("manual/small.md", "# S\n" * 9, zipfile.ZIP_BZIP2)
        archive.writestr("manual/unknown.md", "# U\n")
    data = path.read_bytes().replace(b"# Text here", b"# Text hers")
    at = data.rindex(b"PK\x01\x02")
    path.write_bytes(data[: at + 10] + struct.pack("<H", 97) + data[at + 12 :])
    change = library.outside.add(str(path))
    assert change.added == ("ok.md",)
    assert change.notes == (
        "3 files skipped: encrypted or damaged",
        "1 file skipped: unusable path",
    )


def test_deep_paths_do_not_fill_the_memory(tmp_path: Path) -> None:
    """Each of few files may have hundreds of folders of its own."""
    path = tmp_path / "deep.tar"
    _write_tar(path, {f"{number}/{'a/' * 400}x.md": b"# X\n" for number in range(9)}, "w")
    settings = {"embed.provider": "hash", "outside.max_files": 20}
    (tmp_path / "project").mkdir()
    with (
        Library.open(tmp_path / "project", settings=settings) as opened,
        pytest.raises(InvalidArgument, match=r"max_files allows \(20\)"),
    ):
        opened.outside.add(str(path))


def test_a_bomb_is_skipped_by_its_real_size(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big.md", b"a" * 60_000_000)
        archive.writestr("small.md", b"# Small\n")
    change = library.outside.add(str(path))
    assert change.added == ("small.md",)
    assert change.notes == ("1 file skipped: too large",)


def test_a_source_may_not_be_larger_than_the_settings_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "many.tar"
    _write_tar(path, {f"{number}.md": b"# N\n" for number in range(5)}, "w")
    settings = {"embed.provider": "hash", "outside.max_files": 4}
    with Library.open(tmp_path, settings=settings) as opened:
        with pytest.raises(InvalidArgument, match="max_files"):
            opened.outside.add(str(path))
        assert opened.outside.list_all() == ()
        assert not list(Path(opened.settings.outside.dir).iterdir())


def test_a_damaged_archive_changes_nothing(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "manual.tar.gz"
    _write_tar(path, FILES)
    library.outside.add(str(path))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LookfarError, match="cannot be read as a tar or zip archive"):
        library.outside.update(["manual"])
    assert _stored(library, "manual@source") == ["keys.md", "src/a.py"]
    assert library.outside.get("manual").files == 2
