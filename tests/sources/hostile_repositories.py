"""The corpus of hostile repositories: each a way in which a `.git` leads elsewhere or never ends.

Takes: a folder to build in, and victims outside of every root. Gives: a table of cases, each with
a name, a function that builds it, and what must come of it: `refused` (the reason is shown),
`served` (its own commits are found, and nothing else) or `none` (it is not a repository).

Uses only what an archive can contain, and the hashes of a victim's commits, which are not secret.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import struct
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

CANARY = "zanzibarcanary7719"
OWN = "harmless own commit"
_DATE = "1600000000 +0000"
_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": _DATE,
    "GIT_COMMITTER_DATE": _DATE,
    "GIT_ALLOW_PROTOCOL": "file",
}


def git(folder: Path, *arguments: str, stdin: bytes | None = None) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=_ENVIRONMENT,
        input=stdin,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def make_repository(folder: Path, title: str, text: str) -> str:
    """A repository with one commit; gives its hash."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "notes.md").write_text(f"# Notes\n\n{text}\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", title)
    return git(folder, "rev-parse", "HEAD")


@dataclass
class Victims:
    """Private repositories of the same user, outside of every root."""

    loose: Path
    """Objects as files, a branch as a file, and a worktree and a submodule of its own."""
    packed: Path
    """The same in a pack, with packed references."""
    commit: str
    inner: str
    """The commit of the submodule."""

    @classmethod
    def make(cls, place: Path) -> Victims:
        loose, packed, module = place / "loose", place / "packed", place / "module"
        commit = make_repository(loose, f"{CANARY} in a title", f"{CANARY} in a text")
        inner = make_repository(module, f"{CANARY} in a module", f"{CANARY} inside")
        git(loose, "branch", f"{CANARY}-branch")
        git(loose, "worktree", "add", "--quiet", "-b", "side", str(place / "side"))
        module_url = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
        git(place, "clone", "--quiet", "--no-local", str(loose), str(packed))
        git(packed, "pack-refs", "--all")
        git(packed, "repack", "-adq")
        git(packed, "multi-pack-index", "write")
        git(packed, "commit-graph", "write", "--reachable")
        git(loose, *module_url, str(module), "module")
        return cls(loose, packed, commit, inner)


@dataclass
class Place:
    """Where one case is built: a root, what it may use outside of it, and whom it attacks."""

    root: Path
    beside: Path
    """A folder outside of the root, for what an archive cannot hold but a case needs."""
    victims: Victims

    @property
    def git(self) -> Path:
        return self.root / ".git"

    @property
    def victim(self) -> Path:
        return self.victims.loose / ".git"

    @property
    def packed(self) -> Path:
        return self.victims.packed / ".git"

    def make(self, folder: Path | None = None) -> str:
        """The case's own repository, with a harmless commit."""
        return make_repository(folder or self.root, OWN, "nothing to hide")

    def aim(self, commit: str = "", name: str = "aimed") -> None:
        """Point a branch at a commit of the victim."""
        (self.git / "refs/heads" / name).write_text(f"{commit or self.victims.commit}\n")


Build = Callable[[Place], object]


@dataclass(frozen=True)
class Case:
    name: str
    build: Build
    ends: str
    as_root: bool = False


def replace_by_link(path: Path, target: Path | str) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def replace_by_pipe(path: Path) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def replace_by_socket(path: Path) -> None:
    remove(path)
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(path.parent, os.O_RDONLY)
    try:  # By way of the descriptor: a socket's path must be short.
        listener.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)
        listener.close()


def replace_by_hole(path: Path, size: int) -> None:
    """A file that takes no room on the disk."""
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def loose_object(place: Place, kind: str, data: bytes) -> str:
    return git(place.root, "hash-object", "-t", kind, "-w", "--literally", "--stdin", stdin=data)


# --- links ----------------------------------------------------------------------------------------


def linked(name: str, target: Callable[[Place], Path | str], aim: bool = True) -> Build:
    def build(place: Place) -> None:
        place.make()
        if aim:
            place.aim()
        replace_by_link(place.git / name, target(place))

    return build


def link_git(place: Place) -> None:
    place.root.mkdir(parents=True)
    replace_by_link(place.git, place.victim)


def link_fan_out(place: Place) -> None:
    place.make()
    place.aim()
    for folder in (place.victim / "objects").glob("[0-9a-f][0-9a-f]"):
        if not (place.git / "objects" / folder.name).exists():
            replace_by_link(place.git / "objects" / folder.name, folder)


def link_each_object(place: Place) -> None:
    place.make()
    place.aim()
    for file in (place.victim / "objects").glob("[0-9a-f][0-9a-f]/*"):
        own = place.git / "objects" / file.parent.name / file.name
        if not own.exists():
            replace_by_link(own, file)


def link_each_pack(place: Place) -> None:
    place.make()
    place.aim()
    for file in (place.packed / "objects/pack").iterdir():
        replace_by_link(place.git / "objects/pack" / file.name, file)


def link_everything_but_git(place: Place) -> None:
    """A `.git` that is a real folder of links: what git-new-workdir made."""
    place.root.mkdir(parents=True)
    place.git.mkdir()
    for entry in place.victim.iterdir():
        replace_by_link(place.git / entry.name, entry)


# --- alternates and commondir ---------------------------------------------------------------------


def alternates(*lines: Callable[[Place], str]) -> Build:
    def build(place: Place) -> None:
        place.make()
        place.aim()
        text = "".join(f"{line(place)}\n" for line in lines)
        (place.git / "objects/info/alternates").write_text(text)

    return build


def relative_alternate(place: Place) -> str:
    return os.path.relpath(place.victim / "objects", place.git / "objects")


def nested_alternates(place: Place) -> None:
    """The first is inside the root, and the second is not."""
    place.make()
    place.make(place.root / "inner")
    inner = place.root / "inner/.git/objects"
    (place.git / "objects/info/alternates").write_text(f"{inner}\n")
    (inner / "info/alternates").write_text(f"{place.victim}/objects\n")
    place.aim()


def linked_alternate(place: Place) -> None:
    """By a path inside the root that leads through a link."""
    place.make()
    place.aim()
    (place.root / "harmless").symlink_to(place.victim)
    (place.git / "objects/info/alternates").write_text(f"{place.root}/harmless/objects\n")


def many_alternates(place: Place) -> None:
    place.make()
    databases = [place.root / f"database{number}" for number in range(80)]
    for folder in databases:
        (folder / "info").mkdir(parents=True)
    text = "".join(f"{folder}\n" for folder in databases)
    (place.git / "objects/info/alternates").write_text(text)


def circular_alternates(place: Place) -> None:
    place.make()
    place.make(place.root / "inner")
    inner, own = place.root / "inner/.git/objects", place.git / "objects"
    (own / "info/alternates").write_text(f"{inner}\n{own}\n")
    (inner / "info/alternates").write_text(f"{own}\n")


def commondir(line: Callable[[Place], str]) -> Build:
    def build(place: Place) -> None:
        place.make()
        (place.git / "commondir").write_text(f"{line(place)}\n")

    return build


# --- gitfiles, worktrees, submodules --------------------------------------------------------------


def gitfile(target: Callable[[Place], Path | str]) -> Build:
    def build(place: Place) -> None:
        place.root.mkdir(parents=True)
        place.git.write_text(f"gitdir: {target(place)}\n")

    return build


def forged_worktree(place: Place) -> None:
    """The folder of the worktree is part of the archive, points back, and names the victim."""
    place.root.mkdir(parents=True)
    own = place.root / "innocent/worktrees/here"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "gitdir").write_text(f"{place.git}\n")
    (own / "commondir").write_text(f"{place.victim}\n")
    place.git.write_text(f"gitdir: {own}\n")


def forged_worktree_by_link(place: Place) -> None:
    """The same with a `worktrees` folder whose parent is a link to the victim."""
    place.root.mkdir(parents=True)
    main = place.root / "innocent"
    main.mkdir()
    for entry in place.victim.iterdir():
        if entry.name != "worktrees":
            replace_by_link(main / entry.name, entry)
    own = main / "worktrees/here"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "gitdir").write_text(f"{place.git}\n")
    (own / "commondir").write_text("../..\n")
    place.git.write_text(f"gitdir: {own}\n")


def worktree_of_an_attacker(place: Place) -> None:
    """A sound worktree, whose main repository takes its objects from the victim."""
    main = place.root / "main"
    place.make(main)
    git(main, "worktree", "add", "--quiet", "-b", "aimed", str(place.root / "tree"))
    (main / ".git/refs/heads/aimed").write_text(f"{place.victims.commit}\n")
    (main / ".git/objects/info/alternates").write_text(f"{place.victim}/objects\n")
    shutil.move(main, place.root / ".main")
    main = place.root / ".main"
    (main / ".git/worktrees/tree/gitdir").write_text(f"{place.root}/tree/.git\n")
    (place.root / "tree/.git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")


def submodule_of_an_attacker(place: Place) -> None:
    """A sound submodule, whose objects are those of the victim."""
    place.make()
    place.make(place.root / "module")
    inner = place.git / "modules/module"
    inner.parent.mkdir()
    shutil.move(place.root / "module/.git", inner)
    (place.root / "module/.git").write_text("gitdir: ../.git/modules/module\n")
    git(place.root, "config", "--file", str(inner / "config"), "core.worktree", "../../../module")
    (inner / "refs/heads/aimed").write_text(f"{place.victims.commit}\n")
    (inner / "objects/info/alternates").write_text(f"{place.victim}/objects\n")
    shutil.rmtree(place.git / "objects")  # So that only the submodule is a repository.


def linked_submodule(place: Place) -> None:
    place.root.mkdir(parents=True)
    (place.root / ".modules").symlink_to(place.victim)
    place.git.write_text("gitdir: .modules\n")


# --- what the configuration says ------------------------------------------------------------------


def configured(text: Callable[[Place], str], **more: str) -> Build:
    def build(place: Place) -> None:
        place.make()
        with (place.git / "config").open("a") as file:
            file.write(text(place))
        for name, content in more.items():
            (place.git / name.replace("__", ".")).write_text(content)

    return build


def include_a_pipe(place: Place) -> None:
    place.make()
    os.mkfifo(place.root / "pipe")
    with (place.git / "config").open("a") as file:
        file.write(f"[include]\n\tpath = {place.root}/pipe\n")


def attributes_in_a_pipe(place: Place) -> None:
    """Git reads the attributes of a working tree that the configuration names."""
    place.make()
    os.mkfifo(place.root / ".gitattributes")
    git(place.root, "config", "core.worktree", str(place.root))


def promise_everything(place: Place) -> None:
    """A partial clone that lacks a content, and whose remote is a program."""
    place.make()
    blob = git(place.root, "rev-parse", "HEAD:notes.md")
    (place.git / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {place.root}/pwned",
        "remote.origin.uploadpack": f"touch {place.root}/pwned;",
        "protocol.ext.allow": "always",
    }.items():
        git(place.root, "config", key, value)


def promise_by_alternate(place: Place) -> None:
    """A partial clone whose missing contents are in the victim."""
    promise_everything(place)
    place.aim()
    (place.git / "objects/info/alternates").write_text(f"{place.victim}/objects\n")


# --- objects --------------------------------------------------------------------------------------


def forged_pack_index(place: Place) -> None:
    """A multi-pack-index that names a pack by a path out of the repository."""
    place.make()
    place.aim()
    theirs = place.packed / "objects/pack"
    own = place.git / "objects/pack"
    [index] = theirs.glob("*.idx")
    name = os.path.relpath(index, own).encode() + b"\0"
    data = (theirs / "multi-pack-index").read_bytes()
    count = data[6]
    table = [struct.unpack(">4sQ", data[12 + 12 * at : 24 + 12 * at]) for at in range(count + 1)]
    chunks = {kind: data[start:end] for (kind, start), (_, end) in pairwise(table)}
    chunks[b"PNAM"] = name + b"\0" * (-len(name) % 4)
    at = 12 + 12 * (count + 1)
    head = b""
    for kind, chunk in chunks.items():
        head += struct.pack(">4sQ", kind, at)
        at += len(chunk)
    head += struct.pack(">4sQ", b"\0\0\0\0", at)
    body = data[:12] + head + b"".join(chunks.values())
    (own / "multi-pack-index").write_bytes(body + hashlib.sha1(body).digest())


def huge_commit(place: Place) -> None:
    """A commit of 400 megabytes that takes two on the disk."""
    place.make()
    tree = git(place.root, "rev-parse", "HEAD^{tree}")
    size = 400 << 20
    start = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n".encode()
    packer, digest = zlib.compressobj(1), hashlib.sha1()
    piece = b"x" * (1 << 20)
    data = b""
    for part in (f"commit {size + len(start)}\0".encode() + start, *([piece] * (size >> 20))):
        digest.update(part)
        data += packer.compress(part)
    data += packer.flush()
    name = digest.hexdigest()
    file = place.git / "objects" / name[:2] / name[2:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    place.aim(name)


def _commit_tree(place: Place, tree: str, title: str) -> None:
    parent = git(place.root, "rev-parse", "HEAD")
    place.aim(git(place.root, "commit-tree", tree, "-p", parent, "-m", title))


def tree_bomb(place: Place) -> None:
    """Ten levels of trees, each ten times the one below: ten thousand million paths."""
    place.make()
    entry = loose_object(place, "blob", b"boom\n")
    mode = "100644 blob"
    for _ in range(10):
        lines = "".join(f"{mode} {entry}\tf{number}\n" for number in range(10))
        entry = git(place.root, "mktree", stdin=lines.encode())
        mode = "040000 tree"
    _commit_tree(place, entry, "bomb")


def line_bomb(place: Place) -> None:
    """Fifteen megabytes of empty lines, each of which takes git a hundred bytes."""
    place.make()
    blob = loose_object(place, "blob", b"\n" * 15_000_000)
    tree = git(place.root, "mktree", stdin=f"100644 blob {blob}\tlines.txt\n".encode())
    _commit_tree(place, tree, "bomb")


def endless_diff(place: Place) -> None:
    """A thousand files of ten megabytes in one commit, all of them the same object."""
    place.make()
    blob = loose_object(place, "blob", (b"x" * 99 + b"\n") * 100_000)
    lines = "".join(f"100644 blob {blob}\tf{number}\n" for number in range(1000))
    _commit_tree(place, git(place.root, "mktree", stdin=lines.encode()), "bomb")


def garbage_objects(place: Place) -> None:
    """Packs, indexes and graphs of noise: git fails at once."""
    place.make()
    noise = hashlib.shake_256(b"noise").digest(5000)
    for name in ("pack/pack-1.pack", "pack/pack-1.idx", "pack/multi-pack-index"):
        (place.git / "objects" / name).write_bytes(noise)
    (place.git / "objects/info/commit-graph").write_bytes(b"CGPH" + noise)


# --- references -----------------------------------------------------------------------------------


def head_says(text: Callable[[Place], str]) -> Build:
    def build(place: Place) -> None:
        place.make()
        (place.git / "HEAD").write_text(text(place))

    return build


def many_packed(place: Place) -> None:
    """Far too many references."""
    commit = place.make()
    with (place.git / "packed-refs").open("w") as file:
        for number in range(500_000):
            file.write(f"{commit} refs/tags/t{number}\n")


def deep_reference(place: Place) -> None:
    place.make()
    here = place.git / "refs/heads" / "/".join(["d"] * 200)
    here.mkdir(parents=True)
    (here / "leaf").write_text("0" * 40)


def looping_references(place: Place) -> None:
    place.make()
    (place.git / "refs/heads/a").write_text("ref: refs/heads/b\n")
    (place.git / "refs/heads/b").write_text("ref: refs/heads/a\n")


def replaced(place: Place) -> None:
    """A replacement by which git would show the victim's commit for a harmless one."""
    commit = place.make()
    (place.git / "refs/replace").mkdir()
    (place.git / "refs/replace" / commit).write_text(f"{place.victims.commit}\n")


def grafted(place: Place) -> None:
    commit = place.make()
    (place.git / "info/grafts").write_text(f"{commit} {place.victims.commit}\n")


# --- kinds of files -------------------------------------------------------------------------------


def piped(name: str) -> Build:
    def build(place: Place) -> None:
        place.make()
        replace_by_pipe(place.git / name)

    return build


def pipe_as_object(place: Place) -> None:
    commit = place.make()
    replace_by_pipe(place.git / "objects" / commit[:2] / commit[2:])


def pipes_as_packs(place: Place) -> None:
    place.make()
    for name in ("pack-1.pack", "pack-1.idx"):
        replace_by_pipe(place.git / "objects/pack" / name)


def pipe_as_git(place: Place) -> None:
    place.root.mkdir(parents=True)
    os.mkfifo(place.git)


def with_socket(name: str) -> Build:
    def build(place: Place) -> None:
        place.make()
        replace_by_socket(place.git / name)

    return build


def with_device(name: str) -> Build:
    def build(place: Place) -> None:
        place.make()
        remove(place.git / name)
        os.mknod(place.git / name, 0o666 | 0o020000, os.makedev(1, 5))

    return build


def with_hole(name: str, size: int) -> Build:
    def build(place: Place) -> None:
        place.make()
        replace_by_hole(place.git / name, size)

    return build


def huge_gitfile(place: Place) -> None:
    place.root.mkdir(parents=True)
    replace_by_hole(place.git, 4 << 30)


# --- owners ---------------------------------------------------------------------------------------


def owned_by_another(*names: str, bare: bool = False, gitfile: bool = False) -> Build:
    def build(place: Place) -> None:
        place.make()
        if bare:
            held = place.root.with_name("held")
            shutil.move(place.git, held)
            shutil.rmtree(place.root)
            shutil.move(held, place.root)
        if gitfile:
            git(place.root, "worktree", "add", "--quiet", "-b", "tree", str(place.root / "tree"))
            shutil.move(place.git, place.beside / "main")
            (place.root / "tree/.git").write_text(f"gitdir: {place.beside}/main/worktrees/tree\n")
        for name in names:
            os.chown(place.root / name, 12345, 12345, follow_symlinks=False)

    return build


def at(name: str) -> Callable[[Place], Path]:
    """A path of the victim with loose objects."""
    return lambda place: place.victim / name


def in_packed(name: str) -> Callable[[Place], Path]:
    """A path of the victim with packs."""
    return lambda place: place.packed / name


def zeros(_: Place) -> str:
    return "/dev/zero"


def says(text: str) -> Callable[[Place], str]:
    """A text with the places of a case filled in."""
    return lambda place: text.format(
        victim=place.victim, top=place.victims.loose, packed=place.packed
    )


CASES = (
    Case("link: .git", link_git, "refused"),
    Case("link: every entry", link_everything_but_git, "refused"),
    Case("link: HEAD", linked("HEAD", at("HEAD")), "refused"),
    Case("link: HEAD to a branch", linked("HEAD", at("refs/heads/main")), "refused"),
    Case("link: HEAD to zeros", linked("HEAD", zeros), "refused"),
    Case("link: packed-refs", linked("packed-refs", in_packed("packed-refs")), "refused"),
    Case("link: packed-refs to zeros", linked("packed-refs", zeros), "refused"),
    Case("link: refs", linked("refs", at("refs"), aim=False), "refused"),
    Case("link: refs/heads", linked("refs/heads", at("refs/heads")), "refused"),
    Case("link: a branch", linked("refs/heads/x", at("refs/heads/main")), "refused"),
    Case("link: objects", linked("objects", at("objects")), "refused"),
    Case("link: folders of objects", link_fan_out, "refused"),
    Case("link: each object", link_each_object, "refused"),
    Case("link: objects/pack", linked("objects/pack", in_packed("objects/pack")), "refused"),
    Case("link: each pack", link_each_pack, "refused"),
    Case("link: objects/info", linked("objects/info", in_packed("objects/info")), "refused"),
    Case("link: alternates", linked("objects/info/alternates", at("HEAD")), "refused"),
    Case("link: alternates to zeros", linked("objects/info/alternates", zeros), "refused"),
    Case("link: commit-graph",
         linked("objects/info/commit-graph", in_packed("objects/info/commit-graph")), "refused"),
    Case("link: commit-graphs", linked("objects/info/commit-graphs", in_packed("")), "refused"),
    Case("link: config", linked("config", at("config"), aim=False), "refused"),
    Case("link: config to zeros", linked("config", zeros, aim=False), "refused"),
    Case("link: shallow", linked("shallow", at("HEAD"), aim=False), "refused"),
    Case("link: shallow to zeros", linked("shallow", zeros, aim=False), "refused"),
    Case("link: index to zeros", linked("index", zeros, aim=False), "served"),
    Case("link: logs", linked("logs", at("logs"), aim=False), "served"),
    Case("link: info", linked("info", at("info"), aim=False), "served"),
    Case("link: hooks", linked("hooks", at(""), aim=False), "served"),
    Case("alternates: absolute", alternates(says("{victim}/objects")), "refused"),
    Case("alternates: relative", alternates(relative_alternate), "refused"),
    Case("alternates: packs", alternates(says("{packed}/objects")), "refused"),
    Case("alternates: quoted", alternates(says('"{victim}/objects"')), "refused"),
    Case("alternates: after a comment", alternates(says("# note"), relative_alternate), "refused"),
    Case("alternates: of an alternate", nested_alternates, "refused"),
    Case("alternates: through a link", linked_alternate, "refused"),
    Case("alternates: many", many_alternates, "refused"),
    Case("alternates: in a circle", circular_alternates, "served"),
    Case("alternates: by HTTP",
         configured(says(""), **{"objects/info/http-alternates": "http://127.0.0.1:1"}), "served"),
    Case("commondir: absolute", commondir(says("{victim}")), "refused"),
    Case("commondir: relative", commondir(lambda p: os.path.relpath(p.victim, p.git)), "refused"),
    Case("commondir: zeros", linked("commondir", zeros, aim=False), "refused"),
    Case("gitfile: another repository", gitfile(at("")), "refused"),
    Case("gitfile: relative", gitfile(lambda p: os.path.relpath(p.victim, p.root)), "refused"),
    Case("gitfile: another's worktree", gitfile(at("worktrees/side")), "refused"),
    Case("gitfile: another's submodule", gitfile(at("modules/module")), "refused"),
    Case("gitfile: itself", gitfile(says(".git")), "none"),
    Case("gitfile: zeros", gitfile(zeros), "none"),
    Case("gitfile: four gigabytes", huge_gitfile, "none"),
    Case("worktree: forged", forged_worktree, "refused"),
    Case("worktree: forged by links", forged_worktree_by_link, "refused"),
    Case("worktree: alternates in its main repository", worktree_of_an_attacker, "refused"),
    Case("submodule: alternates in its repository", submodule_of_an_attacker, "refused"),
    Case("submodule: a link", linked_submodule, "refused"),
    Case("config: core.worktree",
         configured(says("[core]\n\tworktree = {top}\n")), "served"),
    Case("config: include", configured(says("[include]\n\tpath = {victim}/config\n")), "served"),
    Case("config: include itself", configured(says("[include]\n\tpath = config\n")), "served"),
    Case("config: include a pipe", include_a_pipe, "served"),
    Case("config: include if",
         configured(says('[includeIf "gitdir:**"]\n\tpath = {victim}/config\n')), "served"),
    Case("config: of a worktree",
         configured(says("[extensions]\n\tworktreeConfig = true\n"),
                    config__worktree="[include]\n\tpath = /dev/zero\n"), "served"),
    Case("config: unknown extension",
         configured(says("[core]\n\trepositoryFormatVersion = 9\n[extensions]\n\tx\n")), "served"),
    Case("config: attributes in a pipe", attributes_in_a_pipe, "served"),
    Case("partial clone: a program as remote", promise_everything, "served"),
    Case("partial clone: alternates", promise_by_alternate, "refused"),
    Case("objects: forged multi-pack-index", forged_pack_index, "failed"),
    Case("objects: commit of 400 megabytes", huge_commit, "failed"),
    Case("objects: tree bomb", tree_bomb, "served"),
    Case("objects: line bomb", line_bomb, "served"),
    Case("objects: endless diff", endless_diff, "served"),
    Case("objects: garbage", garbage_objects, "served"),
    Case("references: HEAD leads out", head_says(says("ref: {victim}/HEAD\n")), "served"),
    Case("references: HEAD climbs", head_says(says("ref: refs/../../../loose/HEAD\n")), "served"),
    Case("references: a circle", looping_references, "served"),
    Case("references: too deep", deep_reference, "refused"),
    Case("references: too many", many_packed, "refused"),
    Case("references: replaced", replaced, "served"),
    Case("references: grafts", grafted, "served"),
    Case("pipe: .git", pipe_as_git, "none"),
    *(Case(f"pipe: {name}", piped(name), "refused")
      for name in ("HEAD", "config", "packed-refs", "shallow", "commondir", "refs/heads/x",
                   "objects/info/alternates", "objects/info/commit-graph", "objects/pack/x.idx",
                   "objects", "refs", "reftable/tables.list")),
    *(Case(f"pipe: {name}", piped(name), "served")
      for name in ("index", "info/exclude", "info/attributes", "info/grafts", "logs/HEAD")),
    Case("pipe: an object", pipe_as_object, "refused"),
    Case("pipe: packs", pipes_as_packs, "refused"),
    Case("socket: HEAD", with_socket("HEAD"), "refused"),
    Case("socket: packed-refs", with_socket("packed-refs"), "refused"),
    Case("device: shallow", with_device("shallow"), "refused", as_root=True),
    Case("device: HEAD", with_device("HEAD"), "refused", as_root=True),
    Case("hole: packed-refs", with_hole("packed-refs", 4 << 30), "refused"),
    Case("hole: shallow", with_hole("shallow", 4 << 30), "refused"),
    Case("hole: config", with_hole("config", 4 << 30), "refused"),
    Case("hole: HEAD", with_hole("HEAD", 4 << 30), "refused"),
    Case("hole: alternates", with_hole("objects/info/alternates", 4 << 30), "refused"),
    Case("owner: .git", owned_by_another(".git"), "refused", as_root=True),
    Case("owner: the working tree", owned_by_another(""), "refused", as_root=True),
    Case("owner: both", owned_by_another("", ".git"), "refused", as_root=True),
    Case("owner: a bare repository", owned_by_another("", bare=True), "refused", as_root=True),
    Case("owner: a .git file", owned_by_another("tree/.git", gitfile=True), "refused", True),
)  # fmt: skip
