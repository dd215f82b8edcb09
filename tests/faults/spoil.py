"""Damage an index in one place and report the result: the program behind ``test_corruption``.

Arguments: a folder to work in, a seed, a number of trials, and optionally the one artefact to
damage. Prints one line of JSON per trial. Each trial has a process of its own, forked from this one
after everything was imported, and how that process ended is reported too.
"""

from __future__ import annotations

import json
import os
import random
import re
import select
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.freshness.changed_names import Changes
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.store.keywords.keyword_index import KEYWORDS, LISTING

SECONDS = 40
"""After which a trial hangs."""
SETTINGS = {"embed.provider": "hash", "index.workers": 1, "memory.scope": "project"}
MEMORY = re.compile(r"memory-[0-9a-f]{16}")
"""What the folder of an index of memories is called."""
QUERIES = (
    "common words", "zebra crossing", "number7 page", "install the server", "parse_config",
    "read the changed page", "設定 ファイル", "where is the giraffe",
)  # fmt: skip
DOCUMENTS = "inserted"
"""The name of the database of inserted documents."""
ULID = "01HZZZZZZZZZZZZZZZZZZZZZZ"
"""What the names of inserted documents begin with; one digit follows."""
PAGE = 4096
_PARTS = (".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term", ".del", ".f16")


# -- what is damaged -----------------------------------------------------------


def sources(root: Path) -> None:
    """A folder with prose, code, links, tags, Japanese, and a file that cannot be read."""
    for number in range(24):
        (root / f"page{number}.md").write_text(
            f"---\ntags: [t{number % 3}]\naliases: [alias {number}]\n---\n# Page {number}\n\n"
            f"common words number{number} page\n\n## Install {number}\n\ninstall the"
            f" server {number} times\n\n```\ncode_{number}()\n```\n\nsee [[page{number + 1}]] and"
            f" [next](page{(number + 2) % 24}.md#page-3)\n",
            encoding="utf-8",
        )
    (root / "animals.md").write_text("# Animals\n\nzebra crossing\n\n## Tall\n\nthe giraffe\n")
    (root / "ja.md").write_text("# 設定\n\n設定 ファイル を 読む。\n", encoding="utf-8")
    (root / "config.py").write_text(
        'class Config:\n    """Settings."""\n\n    def parse_config(self, path):\n'
        '        """Read the file."""\n        return open(path).read()\n\n\n'
        "def main():\n    Config().parse_config('a')\n"
    )
    (root / "broken.md").write_bytes(b"\0\1\2 binary" * 50)


def build(root: Path, index: Path, logged: bool) -> None:
    """Several generations, vectors of another model kept, inserted documents; and where
    ``logged``, the log of the catalogue as a death leaves it."""
    sources(root)
    with opened(root, index, {"embed.code_provider": "hash"}) as library:
        library.index()
    library = opened(root, index)
    library.index()
    (root / "page3.md").write_text("# Page 3\n\nread the changed page\n")
    (root / "page4.md").unlink()
    library.index()
    (root / "page5.md").write_text("# Page 5\n\nread the changed page, common words\n")
    library.index()
    for number in range(4):
        library.remember(f"zebra number{number} is remembered", title=f"Memory {number}")
        library.search("zebra", filters=Filters(lanes=("memory",)))
    database = library.database(DOCUMENTS)
    database.create()
    for number in range(6):
        text = f"common words of document {number}. It has two."
        database.insert(text, {"n": number}, doc_id=f"{ULID}{number}")
    changes = Changes(library.index_dir)
    changes.add(["page1.md", "page2.md"])
    changes.save()
    if logged:
        sys.stdout.flush()
        os._exit(0)
    library.close()


def opened(root: Path, index: Path, more: dict[str, Any] | None = None) -> Library:
    settings = {**SETTINGS, "documents.dir": str(index / "documents"), **(more or {})}
    settings["memory.dir"] = str(root.parent / "memory")
    return Library.open(root, index_dir=index, settings=settings)


def artefacts(index: Path) -> dict[str, list[Path]]:
    """Every file of an index by what it is, but for those without content."""
    found: dict[str, list[Path]] = {}
    for path in sorted(index.rglob("*")):
        if path.is_file() and path.stat().st_size and path.suffix not in (".lock", ".db-shm"):
            found.setdefault(_kind(path.relative_to(index)), []).append(path.relative_to(index))
    return found


def _kind(path: Path) -> str:
    name = path.name
    if any(part.startswith("kept-") for part in path.parts):
        return f"kept/{name}"
    of = "documents/" if path.parts[0] == "documents" else ""
    of = "memory/" if MEMORY.fullmatch(path.parts[0]) else of
    if KEYWORDS in path.parts and name != LISTING:
        name = path.suffix[1:]
    return f"{of}{'keywords/' if KEYWORDS in path.parts else ''}{name}"


def spoil(path: Path, chance: random.Random) -> str:
    """Change a file in one place; gives how."""
    good = path.read_bytes()
    log = path.name.endswith("-wal")
    most = _before_the_last_commit(good) if log else len(good)
    while True:
        data = bytearray(good)
        at = chance.randrange(most)
        how = chance.choice(("bit", "bit", "bit", "byte", "byte", "zeros", "cut"))
        if how == "cut" and log:
            continue  # What is left of it is what was committed before, as after a power failure.
        if how == "bit":
            data[at] ^= 1 << chance.randrange(8)
        elif how == "byte":
            data[at] = chance.randrange(256)
        elif how == "zeros":
            start = at - at % PAGE
            data[start : start + PAGE] = bytes(len(data[start : start + PAGE]))
        else:
            del data[at:]
        if data != good:
            path.write_bytes(data)
            return f"{how} at {at} of {len(good)}"


def _before_the_last_commit(log: bytes) -> int:
    """So many bytes of a log count: its last commit may look like this after a power failure.

    Without the frame that ends the commit before: zeros there join the two. Frames that SQLite has
    left from a round before lie behind the last commit, and have other words than the header.
    """
    frames = range(32, len(log), 24 + PAGE)
    words = log[16:24]
    ends = [at for at in frames if any(log[at + 4 : at + 8]) and log[at + 8 : at + 16] == words]
    assert len(ends) > 1, "several commits"
    return ends[-2]


# -- what is looked at ---------------------------------------------------------


def rows(index: Path) -> str:
    """Hash the rows of all catalogues, independent of the pages they are in."""
    hashed = sha256()
    for path in sorted(index.rglob("catalogue.db")):
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name")
            for name, statement in tables.fetchall():
                hashed.update(repr((name, statement)).encode())
                if statement and statement.startswith("CREATE TABLE"):
                    lines = sorted(map(repr, connection.execute(f"SELECT * FROM {name}")))
                    hashed.update("\n".join(lines).encode())
            hashed.update(repr(connection.execute("PRAGMA user_version").fetchone()).encode())
    return hashed.hexdigest()


def other_files(index: Path) -> dict[str, Any]:
    """Return the content of all other files."""
    contents: dict[str, Any] = {}
    for path in sorted(index.rglob("*")):
        name = str(path.relative_to(index))
        if path.name == "CURRENT":
            contents[name] = path.read_text().strip()
        elif path.suffix in _PARTS:  # Every byte of these means something.
            contents[name] = sha256(path.read_bytes()).hexdigest()
        elif path.suffix == ".json":
            contents[name] = json.loads(path.read_bytes())
            if path.name == ".managed.json":  # Files that may be removed; nothing that is read.
                contents[name] = all(isinstance(entry, str) for entry in contents[name])
    return contents


def state(index: Path) -> str:
    return sha256(repr((rows(index), other_files(index))).encode()).hexdigest()


class Answers:
    """What the library says to all questions, what it adds to that, and what in it is wrong.

    Kept as it comes: what was said before an error counts as well.
    """

    def __init__(self) -> None:
        self.folder: list[Any] = []
        self.inserted: list[Any] = []
        self.answered: list[str] = []
        """The questions that something was found for."""
        self.notes: list[str] = []
        self.wrong: list[str] = []
        self.done: list[str] = []
        """The parts that were asked to the end."""

    def ask(self, library: Library, root: Path) -> None:
        self._search(library, root)
        self._read(library, root)
        self._recall(library, root)
        self.done.append("folder")
        database = library.database(DOCUMENTS)
        hits, _ = library.find_similar("common words of document 3", database=DOCUMENTS)
        self.inserted.append([(hit.doc_id, hit.text) for hit in hits])
        for each in database.entries():
            self.inserted.append((each.doc_id, each.text))
            number = each.doc_id.removeprefix(ULID)
            if each.text.strip() != f"common words of document {number}. It has two.":
                self.wrong.append(f"document {each.doc_id}: {each.text}")
        self.done.append("inserted")

    def _search(self, library: Library, root: Path) -> None:
        for query in QUERIES:
            answer = library.search(query, top_k=8, memories=False)
            self.notes += [
                f"{each.reason}: {each.detail}"[:150]
                for each in answer.incomplete
                if each.reason != "failed"
            ]
            self.answered += [query] if answer.hits else []
            for hit in answer.hits:
                found = (query, hit.uri, hit.title, hit.heading_path, hit.span, hit.text)
                self.folder.append(found)
                whole = (root / hit.uri).read_text("utf-8")
                if whole[hit.span.start : hit.span.end] != hit.text and not hit.truncated:
                    self.wrong.append(f"{query}: {hit.uri} {hit.span}")

    def _recall(self, library: Library, root: Path) -> None:
        for query in ("zebra", "number2"):
            answer = library.search(query, filters=Filters(lanes=("memory",)))
            self.notes += [f"{each.reason}: {each.detail}"[:150] for each in answer.incomplete]
            self.answered += [f"memory: {query}"] if answer.hits else []
            for hit in answer.hits:
                self.folder.append((query, hit.uri, hit.title, hit.text))
                if hit.text.strip() not in (root.parent / "memory" / hit.uri).read_text("utf-8"):
                    self.wrong.append(f"memory {hit.uri}")

    def _read(self, library: Library, root: Path) -> None:
        for uri in ("page3.md", "ja.md", "config.py"):
            reading = library.read(uri)
            self.folder.append((uri, reading.title, reading.text))
            if reading.text != (root / uri).read_text("utf-8"):
                self.wrong.append(uri)
        related = library.related("page7.md")
        self.folder.append(sorted((each.kind, each.uri, each.title) for each in related.entries))


# -- a trial -------------------------------------------------------------------


class Trials:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.homes: dict[bool, tuple[Path, Path]] = {}
        for logged in (False, True):
            home = folder / ("logged" if logged else "closed")
            root, index = home / "root", home / "index"
            root.mkdir(parents=True)
            self.homes[logged] = root, index
            told = _in_child(partial(build, root, index, logged))
            assert told is None, told
            for left in index.rglob("*-shm"):
                left.unlink()
        self.sound: dict[bool, Any] = {}
        for logged in (False, True):
            told = _in_child(partial(self.describe, logged))
            assert isinstance(told, dict), told
            self.sound[logged] = told

    def describe(self, logged: bool) -> dict[str, Any]:
        root = self.homes[logged][0]
        index = self.copied(logged)
        before = state(index)
        with opened(root, index) as library:
            found = Answers()
            found.ask(library, root)
            assert not found.notes, found.notes
            assert not found.wrong, found.wrong
            assert library.verify() == [], library.verify()
        return {
            "state": before,
            "folder": repr(found.folder),
            "inserted": repr(found.inserted),
            "answered": found.answered,
        }

    def copied(self, logged: bool) -> Path:
        to = self.folder / f"trial-{os.getpid()}"
        while to.exists():  # The watcher of the keywords may create a lock there again.
            shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.homes[logged][1], to)
        return to

    def run(self, kind: str) -> dict[str, Any]:
        logged = kind.endswith("-wal")
        path = self.chance.choice(artefacts(self.homes[logged][1])[kind])
        seed = self.chance.random()
        result = _in_child(lambda: self.trial(logged, path, seed))
        if not isinstance(result, dict):
            result = {"crash": result}
        return {"artefact": kind, "file": str(path), "seed": seed, **result}

    def trial(self, logged: bool, path: Path, seed: float) -> dict[str, Any]:
        root, sound = self.homes[logged][0], self.sound[logged]
        told: dict[str, Any] = {}
        index = self.copied(logged)
        try:
            told["how"] = spoil(index / path, random.Random(seed))
            told["found"] = self.verified(root, index, path)
            if not told["found"]:
                self.copied(logged)
                spoil(index / path, random.Random(seed))
                told["harmless"] = _same_state(index, sound["state"])
            self.copied(logged)
            spoil(index / path, random.Random(seed))
            told |= self.asked(root, index, sound)
        finally:
            shutil.rmtree(index, ignore_errors=True)
        return told

    def verified(self, root: Path, index: Path, path: Path) -> list[str]:
        with opened(root, index) as library:
            if path.parts[0] == "documents":
                return library.verify(collection=f"{DOCUMENTS}@documents")[:3]
            of_memory = MEMORY.fullmatch(path.parts[0])
            return library.verify(collection="root@memory" if of_memory else "")[:3]

    def asked(self, root: Path, index: Path, sound: dict[str, Any]) -> dict[str, Any]:
        """Ask twice: the first time it may say that something is wrong, the second not."""
        told: dict[str, Any] = {"second": "right", "second_folder": "right", "second_empty": []}
        for turn in ("first", "second"):
            if told.get("first") == "right" and "first_notes" not in told:
                break
            found = Answers()
            with opened(root, index) as library:
                try:
                    found.ask(library, root)
                    whole = [repr(found.folder), repr(found.inserted)]
                    right = whole == [sound["folder"], sound["inserted"]]
                    told[turn] = "right" if right else "other"
                except LookfarError as error:
                    told[turn] = error.code
                    told[f"{turn}_why"] = f"{error.message} {error.developer}"[:300]
            if "inserted" in found.done:
                told[f"{turn}_inserted"] = repr(found.inserted) == sound["inserted"]
            if "folder" in found.done:
                right = repr(found.folder) == sound["folder"]
                told[f"{turn}_folder"] = "right" if right else "other"
                lacking = [each for each in sound["answered"] if each not in found.answered]
                told[f"{turn}_empty"] = lacking
            else:
                told[f"{turn}_folder"] = told[turn]
            if found.notes:
                told[f"{turn}_notes"] = found.notes
            if found.wrong:
                told["wrong"] = [*told.get("wrong", []), *found.wrong]
        return told


def _same_state(index: Path, expected: str) -> bool:
    try:
        return state(index) == expected
    except (sqlite3.Error, ValueError, OSError, UnicodeError):
        return False


def _in_child(work: Callable[[], Any]) -> Any:
    """What some work gives in a process of its own; else how that process ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            done = json.dumps(work())
        except BaseException as error:  # The parent tells it.
            import traceback

            done = json.dumps("".join(traceback.format_exception(error))[-1500:])
        with suppress(OSError):
            os.write(writer, done.encode())
        os._exit(0)
    os.close(writer)
    data = b""
    with closing(os.fdopen(reader, "rb", 0)) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], SECONDS)
            if not ready:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"hangs for {SECONDS} s"
            some = pipe.read(1 << 16)
            if not some:
                break
            data += some
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return json.loads(data) if data else None


def chosen(kinds: list[str], trials: int, only: str) -> Iterator[str]:
    """Each artefact in turn; catalogues, where nearly everything lies, several times."""
    often = {"catalogue.db": 6, "documents/catalogue.db": 6, "memory/catalogue.db": 6}
    wanted = [kind for kind in kinds if not only or kind.startswith(only)]
    wanted = [kind for kind in wanted for _ in range(often.get(kind, 1))]
    for number in range(trials):
        yield wanted[number % len(wanted)]


def main() -> None:
    folder, seed, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    trials = Trials(folder, seed)
    kinds = sorted(artefacts(trials.homes[False][1]))
    kinds += [k for k in sorted(artefacts(trials.homes[True][1])) if k.endswith("-wal")]
    for kind in chosen(kinds, number, only):
        sys.stdout.write(json.dumps(trials.run(kind)) + "\n")
        sys.stdout.flush()


# Importing a library in a child would cost each trial that time again.
_ = (IndexCorrupt, Filters)

if __name__ == "__main__":
    main()
