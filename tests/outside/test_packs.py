"""Packs: a source in one file, which answers the same elsewhere; anything odd in it is refused."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness import amount
from lookfar.collections.outside.packing import _hide_path
from lookfar.collections.outside.shelf import compute_digest, write_incoming
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import IndexBusy, InvalidArgument, LookfarError
from lookfar.library import Library
from lookfar.model import Filters, OutsideSource
from lookfar.serve.cli.main import cli
from lookfar.sources.pack_format import Manifest, PackedFile, PackReader, encode_pack
from lookfar.sources.signing import describe_key, open_signer, parse_trusted_key
from outside.installed import install_python, write
from outside.served_site import Site, serve_site

pytestmark = pytest.mark.usefixtures("own_home")

SOURCES = Filters(kinds=("sources",))
SETTINGS: dict[str, Any] = {
    "embed.provider": "hash", "outside.pause_ms": 0, "outside.allow_private": True,
}  # fmt: skip
QUESTIONS = (
    "how do I rotate the signing key", "lamp", "twelve seconds", "def turn", "what is a harbour",
    '"turns every"', "a word that is nowhere in there",
)  # fmt: skip
_ASK = """
import json, sys
from lookfar.library import Library
from lookfar.model import Filters, OutsideSource
from lookfar.serve.show import json_shapes
with Library.open(sys.argv[1], settings=json.loads(sys.argv[2])) as library:
    added = library.outside.add(sys.argv[3]) if sys.argv[3] else None
    answers = []
    for question in json.loads(sys.argv[4]):
        answer = library.search(question, filters=Filters(kinds=("sources",)))
        answers.append(json_shapes.plain(answer.hits))
    print(json.dumps({"answers": answers, "notes": list(added.notes) if added else []}))
"""
_NO_SOCKETS = """
import socket
def refuse(*_, **__):
    raise OSError("there is no network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""
"""Where the system cannot take the network away, its use is an error."""


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as served:
        served.html("/docs/", "Start", "All about lamps.", ("keys", "lamps", "code.md"))
        served.html("/docs/keys", "Keys", "Rotate the signing key every year.")
        served.html("/docs/lamps", "Lamps", "The lamp turns every twelve seconds.")
        code = b"```python\ndef turn(lamp):\n    ...\n```\n"
        served.pages["/docs/code.md"] = b"# Code\n\n" + code + b"\n## Harbour\n\nDeep.\n"
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder / "own.md", "# Own\n\nText of the project.\n")
    return folder


@pytest.fixture
def library(project: Path) -> Iterator[Library]:
    with Library.open(project, settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def pack(library: Library, site: Site, tmp_path: Path) -> Path:
    """The pack of a site."""
    library.outside.add(f"{site.address}/docs/", name="docs")
    path = tmp_path / "docs.lookpack"
    library.outside.pack("docs", path)
    return path


@pytest.fixture
def elsewhere(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Library]]:
    """Open the project as another machine would, with an empty home and other settings."""
    opened: list[Library] = []

    def open_there(**settings: Any) -> Library:
        monkeypatch.setenv("HOME", str(tmp_path / "other-home"))
        changed = {key.replace("__", "."): value for key, value in settings.items()}
        opened.append(Library.open(project, settings={**SETTINGS, **changed}))
        return opened[-1]

    yield open_there
    for library in opened:
        library.close()


def _make_pack(path: Path, files: dict[str, bytes], /, **changes: Any) -> Path:
    """Write a pack with a right hash around whatever a test puts into it."""
    vectors: list[tuple[bytes, bytes]] = changes.pop("rows", [])
    hashes = {uri: (sha256(data).hexdigest(), len(data)) for uri, data in files.items()}
    manifest = Manifest(
        "odd", "site", "https://example.org/", "", "2026-01-01T00:00:00Z", compute_digest(hashes),
        len(files), sum(map(len, files.values())), "m", "m", 4, len(vectors),
    )  # fmt: skip
    packed = [PackedFile(uri, "", data) for uri, data in files.items()]
    path.write_bytes(b"".join(encode_pack(replace(manifest, **changes), packed, vectors)))
    return path


def _make_raw(
    path: Path, manifest: bytes, records: bytes, magic: bytes = b"lookfar-pack 1\n"
) -> Path:
    body = magic + manifest + b"\n" + zlib.compress(records)
    path.write_bytes(body + sha256(body).digest() + bytes(96))
    return path


def _make_key(path: Path) -> tuple[Path, str]:
    """Write a private key as ssh-keygen does; return its file and the public key."""
    key = Ed25519PrivateKey.generate()
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return path, public.decode()


def _assert_nothing_added(library: Library) -> None:
    assert library.outside.list_all() == ()
    shelf = library._outside.shelf
    assert not shelf.folder.exists() or shelf.list_places() == []


# --- the same answers ---------------------------------------------------------------------------


def test_a_pack_answers_the_same_in_an_empty_home_without_network(
    library: Library, site: Site, project: Path, tmp_path: Path
) -> None:
    """Fails if the other machine embeds or splits differently, or asks the network."""
    library.outside.add(f"{site.address}/docs/", name="docs")
    pack = tmp_path / "docs.lookpack"
    written = library.outside.pack("docs", pack)
    assert (written.files, written.sha256) == (4, sha256(pack.read_bytes()).hexdigest())
    assert written.vectors > 0

    def ask(home: Path, origin: str, *, cut_off: bool) -> dict[str, Any]:
        script = _NO_SOCKETS + _ASK if cut_off and not _can_unshare() else _ASK
        prefix = ["unshare", "-rn"] if cut_off and _can_unshare() else []
        arguments = [str(project), json.dumps(SETTINGS), origin, json.dumps(QUESTIONS)]
        done = subprocess.run(
            [*prefix, sys.executable, "-c", script, *arguments],
            env={**os.environ, "HOME": str(home)},
            capture_output=True,
            text=True,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    here = ask(Path(os.environ["HOME"]), "", cut_off=False)
    home = tmp_path / "empty-home"
    home.mkdir()
    there = ask(home, str(pack), cut_off=True)
    assert there["answers"] == here["answers"]
    assert sum(map(bool, here["answers"])) >= 6
    assert here["answers"][1][0]["origin"].startswith(f"{site.address}/docs/")
    assert not any("embedded again" in note for note in there["notes"])


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0
    )


def test_adding_a_pack_embeds_nothing(
    pack: Path, elsewhere: Callable[..., Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a passage was embedded")

    other = elsewhere()
    with monkeypatch.context() as patched:
        patched.setattr(HashedEmbedder, "embed", refuse)
        patched.setattr(HashedEmbedder, "embed_code", refuse)
        change = other.outside.add(str(pack))
    assert len(change.added) == 4
    assert change.notes == ("not signed: only its hash was checked",)
    hit = other.search("signing key", filters=SOURCES).hits[0]
    assert (hit.collection, hit.state) == ("docs@source", "same")


def test_the_same_source_gives_the_same_bytes(
    library: Library, pack: Path, elsewhere: Callable[..., Library], tmp_path: Path
) -> None:
    again = tmp_path / "again.lookpack"
    library.outside.pack("docs", again)
    assert again.read_bytes() == pack.read_bytes()
    # A source that was added from a pack can be packed again.
    other = elsewhere()
    other.outside.add(str(pack))
    other.outside.pack("docs", again)
    assert again.read_bytes() == pack.read_bytes()


def test_another_model_embeds_again_and_says_so(
    pack: Path, elsewhere: Callable[..., Library]
) -> None:
    other = elsewhere(embed__provider="static")
    notes = "\n".join(other.outside.add(str(pack)).notes)
    assert "passages embedded again on this machine" in notes
    assert other.search("signing key", filters=SOURCES).hits[0].uri == "docs/keys.html"


def test_without_a_model_words_are_searched(pack: Path, elsewhere: Callable[..., Library]) -> None:
    other = elsewhere(embed__provider="none")
    other.outside.add(str(pack))
    assert other.search("signing key", filters=SOURCES).hits[0].uri == "docs/keys.html"


def test_a_pack_is_listed_updated_pinned_and_removed(
    library: Library, site: Site, pack: Path, elsewhere: Callable[..., Library]
) -> None:
    origin = f"{site.address}/docs/"
    other = elsewhere()
    other.outside.add(str(pack))
    (source,) = other.outside.list_all()
    assert (source.name, source.kind, source.origin) == ("docs@source", "pack", origin)
    assert (source.pack, source.signer) == (sha256(pack.read_bytes()).hexdigest(), "")
    assert source.fetched == library.outside.get("docs").fetched
    assert other.outside.update()[0].changed == ()

    site.html("/docs/keys", "Keys", "Rotate the foghorn key every month.")
    library.outside.update(["docs"])
    library.outside.pack("docs", pack)  # In place of the older one, where it was added from.
    assert other.outside.update()[0].changed == ("docs/keys.html",)
    assert other.search("foghorn", filters=SOURCES).hits[0].uri == "docs/keys.html"
    pack.unlink()
    assert other.outside.update() == []
    with pytest.raises(InvalidArgument, match="no longer there"):
        other.outside.update(["docs"])
    # What was fetched from the site itself is another source.
    with pytest.raises(InvalidArgument, match="already the name"):
        other.outside.add(origin, name="docs")
    other.outside.remove("docs")
    _assert_nothing_added(other)


def test_a_pack_of_a_package_is_a_plain_source(
    project: Path, tmp_path: Path, elsewhere: Callable[..., Library]
) -> None:
    install_python(project, "fetchlib", "1.0", {"fetchlib.py": "def fetch(url: str): ...\n"})
    path = tmp_path / "fetchlib.lookpack"
    with Library.open(project, settings=SETTINGS) as opened:
        opened.outside.packages()
        opened.outside.pack("fetchlib-1.0@pypi", path)
    other = elsewhere()
    assert other.outside.add(str(path)).source.name == "fetchlib-1.0@source"
    hit = other.search("fetch url", filters=SOURCES).hits[0]
    assert (hit.uri, hit.origin) == ("fetchlib.py", "fetchlib-1.0")


def test_paths_and_secrets_of_this_machine_are_not_packed(
    library: Library, tmp_path: Path, elsewhere: Callable[..., Library]
) -> None:
    folder = tmp_path / "private-place" / "notes"
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    write(folder / "deploy.md", f"# Deploy\n\nUse {token} to deploy the lighthouse.\n")
    write(folder / ".env", f"TOKEN={token}\n")
    write(folder / "picture.png", "not a picture")
    library.outside.add(str(folder))
    path = tmp_path / "notes.lookpack"
    library.outside.pack("notes", path)
    with PackReader(str(path)) as pack:
        assert pack.manifest.origin == "notes"
    other = elsewhere()
    assert other.outside.add(str(path)).added == ("deploy.md",)
    stored = other._outside.shelf.place("notes@source") / "files"
    everything = b"".join(file.read_bytes() for file in stored.rglob("*") if file.is_file())
    assert token.encode() not in everything
    assert b"private-place" not in path.read_bytes() + everything
    assert "lighthouse" in other.search("deploy", filters=SOURCES).hits[0].text


def test_indexes_of_the_user_take_no_vector_from_a_pack(
    library: Library, tmp_path: Path, elsewhere: Callable[..., Library]
) -> None:
    """The same text in a pack, with another vector: the user's own index makes its own."""
    reference = tmp_path / "reference"
    write(reference / "own.md", "# Own\n\nText of the project.\n")
    library.outside.add(str(reference))
    path = tmp_path / "forged.lookpack"
    library.outside.pack("reference", path)
    rows: list[tuple[bytes, bytes]] = []
    files: dict[str, bytes] = {}
    with PackReader(str(path)) as pack:
        pack.verify()
        manifest = pack.manifest
        pack.read(
            lambda uri, _url, _size, body: files.update({uri: body.read()}),
            lambda body: rows.extend(
                (row[:16], bytes(len(row) - 16))
                for row in body.pieces(16 + 2 * manifest.dimensions)
            ),
        )
    assert len(rows) == 1
    packed = [PackedFile(uri, "", data) for uri, data in files.items()]
    path.write_bytes(b"".join(encode_pack(manifest, packed, rows)))
    other = elsewhere()
    change = other.outside.add(str(path))
    assert not any("embedded again" in note for note in change.notes)
    assert other.index().chunks_embedded == 1


# --- signatures ---------------------------------------------------------------------------------


def test_a_signature_names_who_made_the_pack(
    library: Library, pack: Path, tmp_path: Path, elsewhere: Callable[..., Library]
) -> None:
    key, public = _make_key(tmp_path / "key")
    signed = tmp_path / "signed.lookpack"
    written = library.outside.pack("docs", signed, sign=open_signer(str(key), lambda: ""))
    assert written.key == public
    fingerprint = describe_key(parse_trusted_key(f"a {public}")[1])

    other = elsewhere(outside__require_signed=True)
    with pytest.raises(InvalidArgument, match="is not signed"):
        other.outside.add(str(pack))
    with pytest.raises(InvalidArgument, match=re.escape(f"unknown key {fingerprint}")):
        other.outside.add(str(signed))
    _assert_nothing_added(other)

    # A pack that was added before is refused, too.
    careless = elsewhere()
    careless.outside.add(str(pack))
    with pytest.raises(InvalidArgument, match="is not signed"):
        elsewhere(outside__require_signed=True).outside.add(str(pack))
    careless.outside.remove("docs")
    with pytest.raises(InvalidArgument, match="not a key"):
        elsewhere(outside__trusted_keys=["team"]).outside.add(str(pack))

    trusting = elsewhere(
        outside__require_signed=True, outside__trusted_keys=[f"team {public} a comment"]
    )
    change = trusting.outside.add(str(signed))
    assert "signed by team" in change.notes
    assert trusting.outside.get("docs").signer == "team"
    # Nobody else can replace it.
    with pytest.raises(InvalidArgument, match=r"was signed by team, and .* is not signed"):
        careless.outside.add(str(pack))
    other_key, _ = _make_key(tmp_path / "other")
    library.outside.pack("docs", pack, sign=open_signer(str(other_key), lambda: ""))
    with pytest.raises(InvalidArgument, match="was signed by team"):
        careless.outside.add(str(pack))
    assert careless.outside.get("docs").signer == "team"


def test_a_wrong_signature_is_refused(
    library: Library, tmp_path: Path, elsewhere: Callable[..., Library], pack: Path
) -> None:
    key, public = _make_key(tmp_path / "key")
    signed = tmp_path / "signed.lookpack"
    library.outside.pack("docs", signed, sign=open_signer(str(key), lambda: ""))
    trailer = signed.read_bytes()[-96:]
    # The signature of another pack, and one with a changed byte.
    for forged in (
        pack.read_bytes()[:-129] + b"x" + pack.read_bytes()[-128:-96] + trailer,
        signed.read_bytes()[:-1] + bytes([trailer[-1] ^ 1]),
    ):
        signed.write_bytes(forged)
        other = elsewhere(outside__trusted_keys=[f"team {public}"])
        with pytest.raises(InvalidArgument, match=r"hash is wrong|signature of .* is wrong"):
            other.outside.add(str(signed))
        _assert_nothing_added(other)


def test_bad_keys_are_refused(library: Library, pack: Path, tmp_path: Path) -> None:
    write(tmp_path / "no-key", "text")
    with pytest.raises(InvalidArgument, match="cannot be read as a private key"):
        open_signer(str(tmp_path / "no-key"), lambda: "")
    with pytest.raises(LookfarError):
        open_signer(str(tmp_path / "missing"), lambda: "")
    key, _ = _make_key(tmp_path / "key")
    library.outside.pack("docs", pack, sign=open_signer(str(key), lambda: ""))
    for line in ("team", "team ssh-rsa AAAA", "team ssh-ed25519 ????", "ssh-ed25519 AAAA"):
        with pytest.raises(InvalidArgument, match="not a key"):
            parse_trusted_key(line)


# --- hostile packs ------------------------------------------------------------------------------


def test_every_changed_or_missing_byte_is_noticed(
    pack: Path, tmp_path: Path, elsewhere: Callable[..., Library]
) -> None:
    """Fails if the hash does not cover a part of the file."""
    other = elsewhere()
    data = pack.read_bytes()
    chance = random.Random(28)
    spoiled = tmp_path / "spoiled.lookpack"
    trials = amount(60, 1_000)
    places = [0, 13, 14, len(data) - 1, len(data) - 97, len(data) - 129]
    places += [chance.randrange(len(data)) for _ in range(trials)]
    for place in places:
        spoiled.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        with pytest.raises(LookfarError):
            other.outside.add(str(spoiled))
        spoiled.write_bytes(data[:place])
        with pytest.raises(LookfarError):
            other.outside.add(str(spoiled))
    spoiled.write_bytes(data + b"\0")
    with pytest.raises(LookfarError):
        other.outside.add(str(spoiled))
    _assert_nothing_added(other)


@pytest.mark.parametrize(
    ("files", "changes", "reason"),
    [
        ({"a.md": b"# A\n"}, {"files": 2}, "no name or size"),
        ({"a.md": b"# A\n"}, {"bytes": 3}, "larger than its manifest"),
        ({"a.md": b"# A\n"}, {"digest": "0" * 64}, "files do not match"),
        ({"a.md": b"# A\n"}, {"vectors": 1}, "ends too early"),
        ({"a.md": b"# A\n"}, {"vectors": 0, "rows": [(bytes(16), bytes(8))]}, "contains more"),
        ({"a.md": b"# A\n"}, {"bytes": 10**12}, "outside.max_bytes"),
        ({"a.md": b"# A\n"}, {"vectors": 10**9, "dimensions": 4096}, "outside.max_bytes"),
        ({"a.md": b"# A\n"}, {"vectors": 10**12, "dimensions": 0}, "outside.max_bytes"),
        ({"a.md": b"# A\n"}, {"files": 10**7}, "outside.max_files"),
        ({"a.md": b"# A\n"}, {"dimensions": 10**6}, "too long"),
        ({"a.md": b"# A\n"}, {"name": "x" * 5_000}, "no usable 'name'"),
        ({"a": b"# A\n", "a/b.md": b"# B\n"}, {}, "a file and a folder have the same path"),
    ],
)
def test_a_pack_that_lies_is_refused(
    files: dict[str, bytes],
    changes: dict[str, Any],
    reason: str,
    tmp_path: Path,
    elsewhere: Callable[..., Library],
) -> None:
    other = elsewhere()
    path = _make_pack(tmp_path / "odd.lookpack", files, **changes)
    with pytest.raises(LookfarError, match=reason):
        other.outside.add(str(path))
    _assert_nothing_added(other)


def test_what_another_process_is_adding_is_left_alone(
    tmp_path: Path, elsewhere: Callable[..., Library]
) -> None:
    other = elsewhere()
    path = _make_pack(tmp_path / "odd.lookpack", {"a.md": b"# A\n"})
    with other._outside.shelf.writing("odd@source") as incoming:
        write_incoming(incoming, "b.md", b"# B\n")
        with pytest.raises(IndexBusy):
            other.outside.add(str(path))
        assert (incoming / "b.md").exists()
    assert other.outside.add(str(path)).added == ("a.md",)


def test_paths_that_lead_elsewhere_are_not_written(
    tmp_path: Path, elsewhere: Callable[..., Library]
) -> None:
    other = elsewhere()
    outside = (
        "../out.md",
        "/out.md",
        "a/../../out.md",
        "a\0.md",
        "C:\\out.md\0",
        "",
        "a//b.md",
        f"{'n' * 300}.md",
    )
    path = _make_pack(
        tmp_path / "odd.lookpack", {"in.md": b"# In\n"} | dict.fromkeys(outside, b"# Out\n")
    )
    change = other.outside.add(str(path))
    assert change.added == ("in.md",)
    assert "8 files skipped: unusable path" in change.notes
    assert not list(tmp_path.rglob("out.md"))


def test_bombs_and_odd_bytes_are_refused(tmp_path: Path, elsewhere: Callable[..., Library]) -> None:
    other = elsewhere()
    path = tmp_path / "odd.lookpack"
    good = _make_pack(path, {"a.md": b"# A\n"}).read_bytes()
    manifest = good.split(b"\n")[1]
    line = b'{"file":"a.md","size":4}\n# A\n'
    end = b'{"dimensions":4,"vectors":0}\n'
    cases: list[tuple[bytes, bytes, bytes, str]] = [
        (b"lookfar-pack 2\n", manifest, line + end, "format '2'"),
        (b"lookfar-pack 99999999999999\n", manifest, line + end, "is not a pack"),
        (b"lookfar-pack 1\n", b"[]", line + end, "not a JSON object"),
        (b"lookfar-pack 1\n", b"[" * 90_000, b"", "not a JSON object"),
        (b"lookfar-pack 1\n", b" " * 200_000, b"", "truncated"),
        (b"lookfar-pack 1\n", manifest, bytes(50_000_000), "a line in it"),
        (b"lookfar-pack 1\n", manifest, line + end + bytes(20_000_000), "contains more"),
        (b"lookfar-pack 1\n", manifest, line.replace(b"4", b"-4") + end, "no name or size"),
        (b"lookfar-pack 1\n", manifest, line.replace(b"4", b"1e1") + end, "no name or size"),
        (b"lookfar-pack 1\n", manifest, line.replace(b'"a.md"', b"7") + end, "no name or size"),
    ]
    for magic, head, records, reason in cases:
        _make_raw(path, head, records, magic)
        with pytest.raises(InvalidArgument, match=reason):
            other.outside.add(str(path))
        _assert_nothing_added(other)
    for vector in ([np.nan, 0, 0, 0], [np.inf, 0, 0, 0], [3, 0, 0, 0]):
        row = np.array(vector, "<f2").tobytes()
        _make_pack(path, {"a.md": b"# A\n"}, rows=[(bytes(16), row)])
        with pytest.raises(InvalidArgument, match="invalid vectors"):
            other.outside.add(str(path))
        _assert_nothing_added(other)


def test_a_refused_pack_leaves_the_state_before(
    pack: Path, tmp_path: Path, elsewhere: Callable[..., Library], library: Library
) -> None:
    other = elsewhere()
    other.outside.add(str(pack))
    before = other.outside.get("docs")
    with PackReader(str(pack)) as reader:
        manifest = reader.manifest
    odd = _make_pack(
        tmp_path / "odd.lookpack", {"a.md": b"# A\n"}, name="docs", origin=manifest.origin,
        digest="0" * 64,
    )  # fmt: skip
    with pytest.raises(InvalidArgument, match="files do not match"):
        other.outside.add(str(odd))
    assert other.outside.get("docs") == before
    assert other.search("signing key", filters=SOURCES).hits[0].state == "same"
    # Also a rebuilt index needs no model.
    report_ = other._outside.open("docs@source").index(rebuild=True)
    assert (report_.added, report_.chunks_embedded) == (4, 0)
    write(tmp_path / "notes.txt", "mine")
    with pytest.raises(InvalidArgument, match="is not a pack"):
        library.outside.pack("docs", tmp_path / "notes.txt")


@pytest.mark.parametrize("origin", ["/home/me/secret/notes", r"C:\Users\me\secret\notes"])
def test_the_folder_of_a_source_is_not_packed(origin: str) -> None:
    assert _hide_path(OutsideSource("notes@source", "folder", origin)) == "notes"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.timeout(20)
def test_a_named_pipe_is_not_waited_for(library: Library, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument, match="is not a folder"):
        library.outside.add(str(tmp_path / "pipe"))


def test_a_file_that_is_missing_is_named(library: Library, pack: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="does not exist"):
        library.outside.pack("docs", tmp_path / "nowhere" / "docs.lookpack")
    with pytest.raises(InvalidArgument, match="does not exist"):
        library.outside.add(str(pack.with_name("other.lookpack")))
    with pytest.raises(InvalidArgument, match="There is no key"):
        open_signer(str(tmp_path / "nokey"), lambda: "")


def test_a_pack_cannot_write_to_the_terminal(tmp_path: Path, project: Path) -> None:
    odd = "\x1b]0;hi\x07"  # Sets the title of the window.
    path = _make_pack(
        tmp_path / "odd.lookpack", {"a.md": b"# A\n"}, name=f"odd{odd}", origin=f"o{odd}",
        version=odd, fetched=odd,
    )  # fmt: skip
    options = ["--set", "embed.provider=hash"]
    for arguments in (["add", str(path), str(project)], ["sources"]):
        done = CliRunner().invoke(cli, [*arguments, *options], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert "\x1b" not in done.output


# --- the command --------------------------------------------------------------------------------


def test_pack_add_and_list_on_the_command_line(
    pack: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    key, public = _make_key(tmp_path / "key")
    options = ["--set", "embed.provider=hash"]

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli, [*arguments, *options], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    text = run("pack", "docs", "--sign", str(key))
    assert "docs.lookpack: 4 files" in text
    assert f"signed with {public}" in text
    written = json.loads(run("pack", "docs", "second.lookpack", "--json"))
    assert written["sha256"] == sha256((tmp_path / "second.lookpack").read_bytes()).hexdigest()
    monkeypatch.setenv("HOME", str(tmp_path / "other-home"))
    trust = ["--set", f"outside.trusted_keys=team {public}"]
    assert "signed by team" in run("add", str(pack), str(project), *trust)
    listed = run("sources")
    assert "signed by team" in listed
    assert json.loads(run("sources", "list", "--json"))["sources"][0]["signer"] == "team"
