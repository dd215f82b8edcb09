"""Damage a database of inserted documents in one place and report the result.

This is the program behind ``test_database_damage``. Arguments: a folder to work in, a seed, a
number of documents, a number of trials, and of how many trials one is repaired in full. Prints one
line of JSON per trial; each has a process of its own, as in ``spoil.py``. An answer that lacks a
document, a text, a distance or a word of metadata counts as wrong.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from faults import spoil
from lookfar.collections.read_documents import list_indexed
from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.library import Library
from lookfar.store.health.salvage import Rescue

NAME = "notes"
WORDS = 400
QUERIES = ("word7 word8", "word399", "nothing of the kind", "document number 3")
INSERTED = "A text that is inserted into what is damaged."
FEW = 1_000
"""Documents up to which each trial asks for everything; above, for one thing after the other."""
PAGE = 4096
OFTEN = ("catalogue.db", "catalogue.db", "catalogue.db", "documents.log")
"""Beside each artefact once: where the documents themselves are."""


def opened(home: Path) -> Library:
    settings = {**spoil.SETTINGS, "documents.dir": str(home / "documents")}
    root = home / "root"
    root.mkdir(exist_ok=True)
    return Library.open(root, index_dir=home / "index", settings=settings)


def lines(count: int) -> list[str]:
    chance = random.Random(1)
    vocabulary = [f"word{number}" for number in range(WORDS)]
    return [
        json.dumps(
            {
                "doc_id": f"01HZZZZZZZZZZZZZZZ{number:08d}",
                "text": f"document number {number}. " + " ".join(chance.choices(vocabulary, k=40)),
                "metadata": {"n": number, "group": f"g{number % 5}"},
            }
        )
        for number in range(count)
    ]


def build(home: Path, count: int, logged: bool) -> None:
    """Most documents at once, the last five one by one: several generations and segments."""
    library = opened(home)
    database = library.database(NAME)
    given = lines(count)
    database.import_lines(given[:-5])
    for line in given[-5:]:
        database.import_lines([line])
    if logged:  # As a killed process leaves it.
        sys.stdout.flush()
        os._exit(0)
    library.close()


# -- damage --------------------------------------------------------------------


def damage(path: Path, chance: random.Random, page: int | None) -> str:
    """Change a file in one place; gives how. With ``page``, that one is filled with zeros."""
    if page is not None:
        data = bytearray(path.read_bytes())
        data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        path.write_bytes(data)
        return f"page {page}"
    how = chance.choice(("as before", "as before", "anywhere", "noise", "gone"))
    if how == "as before" or path.name.endswith("-wal"):
        return spoil.spoil(path, chance)
    if how == "gone":
        path.unlink()
        return "gone"
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    size = min(PAGE, len(data) - at)
    data[at : at + size] = bytes(size) if how == "anywhere" else chance.randbytes(size)
    path.write_bytes(data)
    return f"{how} at {at}"


# -- what is asked -------------------------------------------------------------


def _found(library: Library) -> Any:
    answers = []
    notes: list[str] = []
    for query in QUERIES:
        for having in (None, {"group": "g3"}):
            hits, said = library.find_similar(query, database=NAME, top_k=7, having=having)
            scores = [round(hit.score, 4) for hit in hits if hit.score is not None]
            answers.append(
                [
                    (hit.doc_id, hit.text, hit.metadata, score)
                    for hit, score in zip(hits, scores, strict=True)
                ]
            )
            notes += [f"{note.reason}: {note.detail}" for note in said]
    return answers, notes


def _listed(library: Library) -> Any:
    state = library.database(NAME).status()
    listed = list_indexed(library.database(NAME))
    return [state.counts.documents, state.counts.chunks, [each.uri for each in listed]], []


def _exported(library: Library) -> Any:
    return sha256("\n".join(library.database(NAME).export_lines()).encode()).hexdigest(), []


def _read(library: Library) -> Any:
    reading = library.read("01HZZZZZZZZZZZZZZZ00000003", collection=f"{NAME}@documents")
    return [reading.text, reading.title], []


OPERATIONS: dict[str, Callable[[Library], Any]] = {
    "find": _found,
    "list": _listed,
    "export": _exported,
    "read": _read,
}


class Trials:
    """Databases of one size, as they are left closed and as a killed process leaves them."""

    def __init__(self, folder: Path, seed: int, count: int, repaired: int) -> None:
        self.folder = folder
        self.count = count
        self.repaired = repaired
        self.seed = seed
        self.chance = random.Random(seed)
        self.homes = {logged: folder / str(logged) for logged in (False, True)}
        for logged, home in self.homes.items():
            home.mkdir(parents=True)
            told = spoil._in_child(partial(build, home, count, logged))
            assert told is None, told
            for left in home.rglob("*-shm"):
                left.unlink()
        sound = spoil._in_child(self.describe)
        assert isinstance(sound, dict), sound
        self.sound = sound
        self.sources = {json.loads(line)["doc_id"]: json.loads(line) for line in lines(count)}

    def describe(self) -> dict[str, Any]:
        home = self.copied(False)
        with opened(home) as library:
            assert library.database(NAME).store.verify() == []
            return {name: ask(library)[0] for name, ask in OPERATIONS.items()}

    def copied(self, logged: bool) -> Path:
        to = self.folder / f"trial-{os.getpid()}"
        while to.exists():
            shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.homes[logged], to)
        return to

    def artefacts(self, logged: bool) -> list[Path]:
        home = self.homes[logged]
        every = (path for path in (home / "documents" / NAME).rglob("*") if path.is_file())
        return sorted(
            path.relative_to(home)
            for path in every
            if path.stat().st_size and path.suffix not in (".lock", ".db-shm")
        )

    def chosen(self, number: int) -> tuple[bool, Path, int | None]:
        """What the trial of a number damages: each page of the catalogue in turn, then anything."""
        plain = self.artefacts(False)
        (catalogue,) = (path for path in plain if path.name == "catalogue.db")
        pages = list(range((self.homes[False] / catalogue).stat().st_size // PAGE))
        random.Random(self.seed).shuffle(pages)
        if number % 2 == 0 and number // 2 < len(pages):
            return False, catalogue, pages[number // 2]
        if self.chance.random() < 0.1:
            (log,) = (path for path in self.artefacts(True) if path.name.endswith("-wal"))
            return True, log, None
        often = [path for name in OFTEN for path in plain if path.name == name]
        return False, self.chance.choice([*plain, *often * 8]), None

    def run(self, number: int) -> dict[str, Any]:
        logged, path, page = self.chosen(number)
        seed = self.chance.random()
        whole = number % self.repaired == 0
        asked = [*OPERATIONS, "insert"]
        if self.count > FEW:
            asked = [asked[number % len(asked)]]
        result = spoil._in_child(lambda: self.trial(logged, path, page, seed, whole, asked))
        if not isinstance(result, dict):
            result = {"crash": result}
        return {"artefact": path.name, "number": number, "seed": seed, **result}

    def trial(
        self, logged: bool, path: Path, page: int | None, seed: float, whole: bool, asked: list[str]
    ) -> dict[str, Any]:
        home = self.copied(logged)
        try:
            told: dict[str, Any] = {"how": damage(home / path, random.Random(seed), page)}
            with opened(home) as library:
                told |= {name: self.asked(library, name) for name in asked}
            # Whatever was asked before, everything is still there to be saved.
            told["repair"] = self.repair(home) if whole else self.rescued(home)
            return told
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def asked(self, library: Library, name: str) -> str:
        if name == "insert":
            return self.inserted(library)
        try:
            found, notes = OPERATIONS[name](library)
        except IndexCorrupt as error:
            return "reported" if "--rebuild" not in error.hint else f"hint: {error.hint}"
        except LookfarError as error:
            return f"{error.code}: {error.message} {error.developer}"[:300]
        same = json.loads(json.dumps(found)) == self.sound[name]
        healed = any(note.startswith("healed") for note in notes)
        return ("healed" if healed else "right") if same else f"other: {found}"[:300]

    def inserted(self, library: Library) -> str:
        try:
            library.database(NAME).insert(INSERTED)
        except IndexCorrupt:
            return "reported"
        except LookfarError as error:
            return f"{error.code}: {error.message} {error.developer}"[:300]
        left = sum(1 for _ in library.database(NAME).entries())
        return "right" if left == self.count + 1 else f"{left} documents after inserting"

    def rescued(self, home: Path) -> str:
        """What a repair of the catalogue would take into the new epoch."""
        epochs = sorted((home / "documents" / NAME).glob("epoch-*"))
        assert len(epochs) == 1, epochs

        def digest(kept: Any) -> bytes:
            return sha256(f"{kept.metadata}\0{kept.text}".encode()).digest()

        rescue = Rescue(epochs, digest)
        found = {
            each.uri: (each.text, json.loads(each.metadata)["metadata"])
            for each in rescue.documents()
        }
        return self.compared(found)

    def compared(self, found: dict[str, tuple[str, Any]]) -> str:
        lost = [uri for uri in self.sources if uri not in found]
        wrong = [
            uri
            for uri, given in self.sources.items()
            if uri in found and found[uri] != (given["text"], given["metadata"])
        ]
        more = [
            uri for uri, (text, _) in found.items() if text != INSERTED and uri not in self.sources
        ]
        problems = {"lost": lost, "wrong": wrong, "more": more}
        if any(problems.values()):
            return json.dumps({name: uris[:5] for name, uris in problems.items() if uris})
        return "complete"

    def repair(self, home: Path) -> str:
        with opened(home) as library:
            found = library.verified(repair=True)
            left = [f"{each.artefact}: {each.detail}" for done in found for each in done.left]
            if left:
                return f"left: {left[:3]}"
            database = library.database(NAME)
            kept = self.compared({e.doc_id: (e.text, dict(e.metadata)) for e in database.entries()})
            if kept != "complete":
                return kept
            if not any(e.text == INSERTED for e in database.entries()):
                again = {name: self.asked(library, name) for name in OPERATIONS}
                other = {name: said for name, said in again.items() if said != "right"}
                if other:
                    return f"after the repair: {other}"
            salvaged = [done.salvaged for done in found if done.salvaged is not None]
            if salvaged and (salvaged[0].lost or not Path(salvaged[0].kept_aside).is_dir()):
                return f"reported: {salvaged}"
        return "salvaged" if salvaged else "complete"


def main() -> None:
    folder, seed, count, number = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    spoil.SECONDS *= 1 if count <= FEW else 10  # To make 5,000 anew may take a busy machine long.
    trials = Trials(folder, seed, count, int(sys.argv[5]))
    for each in range(number):
        sys.stdout.write(json.dumps(trials.run(each)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
