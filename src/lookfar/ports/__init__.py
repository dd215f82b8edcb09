"""Every Protocol that separates one room from another, and the records that cross them.

``models``: parsers, embedders, rerankers. ``store`` and ``snapshot``: writing and reading an
index. ``watcher``: watching a folder. ``records``: the data they exchange.
"""

from __future__ import annotations

from lookfar.ports.models import (
    Embedder as Embedder,
    Parser as Parser,
    Reranker as Reranker,
)
from lookfar.ports.records import (
    AllOf as AllOf,
    AnyOf as AnyOf,
    ChunkRow as ChunkRow,
    Definition as Definition,
    Edge as Edge,
    Entry as Entry,
    EVERYTHING as EVERYTHING,
    Facts as Facts,
    Known as Known,
    Lead as Lead,
    LeftOut as LeftOut,
    LinkRow as LinkRow,
    Member as Member,
    NameRow as NameRow,
    Need as Need,
    PATH_SEPARATOR as PATH_SEPARATOR,
    Place as Place,
    SectionRow as SectionRow,
    Statistics as Statistics,
    Streams as Streams,
    Terms as Terms,
    Version as Version,
)
from lookfar.ports.snapshot import (
    Chunks as Chunks,
    Documents as Documents,
    KeywordSearch as KeywordSearch,
    LinkedDocuments as LinkedDocuments,
    Links as Links,
    PhraseSearch as PhraseSearch,
    Snapshot as Snapshot,
    VectorSearch as VectorSearch,
)
from lookfar.ports.store import (
    KeywordHits as KeywordHits,
    Keywords as Keywords,
    Writer as Writer,
)
from lookfar.ports.watcher import (
    Batch as Batch,
    Watcher as Watcher,
)
