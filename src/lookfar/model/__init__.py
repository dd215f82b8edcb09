"""The vocabulary of Lookfar as frozen data, with no behaviour and no I/O.

All offsets count characters of the *normalised text* of a document (UTF-8 decoded, no
byte-order mark, ``\\n`` line ends, one final newline). Lines count from 1 and both ends are
inclusive; offsets are half-open.
"""

from __future__ import annotations

from lookfar.model.answers import (
    Alike as Alike,
    Answer as Answer,
    Case as Case,
    CommitInfo as CommitInfo,
    Contribution as Contribution,
    FileMatches as FileMatches,
    Filters as Filters,
    Hit as Hit,
    Incomplete as Incomplete,
    Likeness as Likeness,
    LineMode as LineMode,
    Listed as Listed,
    Listing as Listing,
    MatchedLine as MatchedLine,
    Matches as Matches,
    Mode as Mode,
    State as State,
    Verdict as Verdict,
    WhyNot as WhyNot,
)
from lookfar.model.code import (
    ClassSummary as ClassSummary,
    Complexity as Complexity,
    ExportSummary as ExportSummary,
    FileSummary as FileSummary,
    FunctionSummary as FunctionSummary,
    ImportSummary as ImportSummary,
    LineCounts as LineCounts,
)
from lookfar.model.documents import (
    ROOT_HEADING as ROOT_HEADING,
    Block as Block,
    BlockKind as BlockKind,
    Chunk as Chunk,
    Comment as Comment,
    Document as Document,
    Kind as Kind,
    Lane as Lane,
    Link as Link,
    LinkKind as LinkKind,
    Section as Section,
    Span as Span,
    Symbol as Symbol,
    SymbolKind as SymbolKind,
    Visibility as Visibility,
    display_path as display_path,
)
from lookfar.model.editing import (
    Edit as Edit,
    EditAction as EditAction,
    EditedDocument as EditedDocument,
    EditOp as EditOp,
    EditResult as EditResult,
    LinkChange as LinkChange,
    Position as Position,
    UndoStep as UndoStep,
    Validation as Validation,
    Violation as Violation,
)
from lookfar.model.file_states import (
    Failure as Failure,
    Fingerprint as Fingerprint,
    Ruling as Ruling,
    Skipped as Skipped,
    SourceFile as SourceFile,
)
from lookfar.model.reading import (
    Outline as Outline,
    Page as Page,
    PageChunk as PageChunk,
    PageInfo as PageInfo,
    Reading as Reading,
)
from lookfar.model.neighbours import (
    Community as Community,
    GraphNode as GraphNode,
    LinkGraph as LinkGraph,
    Related as Related,
    RelatedEntry as RelatedEntry,
    RelatedKind as RelatedKind,
    Relation as Relation,
)
from lookfar.model.status import (
    Counts as Counts,
    Damage as Damage,
    DocumentChange as DocumentChange,
    GenerationDiff as GenerationDiff,
    GenerationInfo as GenerationInfo,
    IndexReport as IndexReport,
    Pruned as Pruned,
    Receipts as Receipts,
    Salvaged as Salvaged,
    Status as Status,
    VectorPass as VectorPass,
    Verified as Verified,
    Watching as Watching,
)
