"""The documents of a damaged collection on a server that still match their hashes."""

from __future__ import annotations

from collections.abc import Iterator

from lookfar.ports import Digest, StoredDocument
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.health.salvage import Rescue
from lookfar.store.postgres.server import Reading


class ServerRescue(Rescue):
    """Reads the intact documents of the collection that the connection sees."""

    def __init__(self, connection: Reading, digest: Digest) -> None:
        super().__init__(digest)
        self._connection = connection
        number = generations.active(connection)
        self.highest = generations.highest(connection)
        self.expected = int(generations.manifest(connection, number).get("documents", 0))

    def documents(self) -> Iterator[StoredDocument]:
        """Yield the documents that have not ended, whatever the pointer says."""
        rows = self._connection.execute(
            "SELECT d.uri, d.metadata, d.raw_sha, d.text_sha, t.body FROM documents d"
            " LEFT JOIN texts t ON t.sha = d.text_sha WHERE d.died IS NULL ORDER BY d.uri"
        )
        for uri, metadata, raw_sha, text_sha, body in rows:
            try:
                text = catalog.decompress_text(text_sha, body).decode("utf-8")
            except ValueError:
                self.lost.add(uri)
                continue
            document = StoredDocument(uri, metadata, text)
            if self.fits(document, raw_sha):
                self.saved += 1
                yield document
            else:
                self.lost.add(uri)
