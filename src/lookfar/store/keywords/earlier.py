"""Make keywords for an index that an earlier version wrote, so that it answers until it is rebuilt.

Before format 8 keywords were kept in another way, which this version does not read. They are made
from the stored texts instead, all of a passage as one field, which is near enough for that while.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from threading import get_ident

from lookfar.errors import LookfarError
from lookfar.ports import PATH_SEPARATOR
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground import files
from lookfar.store.keywords.analyser import analyse
from lookfar.store.keywords.fields import FIELDS, NAMES
from lookfar.store.keywords.keyword_index import KeywordIndex

EARLIER = "keywords"
"""The folder of an epoch in which earlier versions kept keywords."""


def make_keywords(connection: sqlite3.Connection, folder: Path) -> None:
    """Write the keywords of all documents in a catalogue, under the stamp that it expects."""
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}-{get_ident()}")
    index = KeywordIndex(temporary, create=True, stamp=catalog.keywords_stamp(connection))
    try:
        index.open_writer(0)
        _add_documents(connection, index)
        index.commit()
        index.close_writer()
        # Another process may have made them meanwhile.
        with suppress(LookfarError):
            files.rename(temporary, folder)
    finally:
        index.abandon()
        files.remove(temporary)


def _add_documents(connection: sqlite3.Connection, index: KeywordIndex) -> None:
    documents = connection.execute(
        "SELECT id, uri, title, lane, text_sha FROM documents ORDER BY id"
    ).fetchall()
    for document, uri, title, lane, text_sha in documents:
        chunks = connection.execute(
            'SELECT key, path, start, "end" FROM chunks WHERE document = ? ORDER BY ordinal',
            (document,),
        ).fetchall()
        if not chunks:
            continue
        tags = connection.execute("SELECT tag FROM tags WHERE document = ?", (document,))
        tagged = analyse(" ".join(tag for (tag,) in tags))
        text = catalog.text(connection, text_sha)
        entries: list[list[str]] = []
        for _, path, start, end in chunks:
            entry = dict.fromkeys(FIELDS, "")
            entry["headings"] = analyse(path.replace(PATH_SEPARATOR, " "))
            entry["tags"] = tagged
            entry["code" if lane == "code" else "body"] = analyse(text[start:end])
            entries.append([*entry.values()])
        names = {**dict.fromkeys(NAMES, ""), "title": analyse(title), "path": analyse(uri)}
        index.add(chunks[0][0], document, [*names.values()], entries)
