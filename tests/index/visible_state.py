"""Everything that readers of an index can observe, for comparing two indexes."""

from __future__ import annotations

from typing import Any

from lookfar.library import Library
from lookfar.model import Filters

VOCABULARY = ("amber", "birch", "cedar", "delta", "ember")
SETTINGS = {"embed.provider": "hash", "index.workers": 1, "index.retain_generations": 2}


def visible_state(library: Library) -> dict[str, Any]:
    """Return what readers can observe, scores included, without internal numbers."""
    embedder = library.folder().embedder
    assert embedder is not None
    with library.folder().store.snapshot() as snapshot:
        uri_of = {}
        for uri in snapshot.uris():
            document = snapshot.document(uri)
            assert document is not None
            uri_of[document["id"]] = uri
        query = embedder.embed([" ".join(VOCABULARY)])[0]
        return {
            "texts": {uri: snapshot.text(uri) for uri in snapshot.uris()},
            "counts": snapshot.counts(),
            "sections": {uri: snapshot.sections(uri) for uri in snapshot.uris()},
            "words": {
                word: sorted(
                    (at.uri, at.start, at.end, at.sha, score)
                    for at, score in snapshot.keyword_search([word], {"body": 1.0}, 1000, Filters())
                )
                for word in VOCABULARY
            },
            "pages": {
                word: sorted(
                    (uri_of[document], score)
                    for document, score in snapshot.page_search(
                        [word], {"page": 1.0}, 1000, Filters()
                    )
                )
                for word in VOCABULARY
            },
            "near": sorted(
                (round(score, 5), at.uri, at.start)
                for at, score in snapshot.vector_search(query, 1000, Filters())
            ),
        }
