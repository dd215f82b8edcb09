"""The state of background embedding for one collection, and which documents come first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lookfar.ports import LackingDocument

_MOST_ASKED: Final = 10_000


@dataclass(slots=True)
class EmbeddingState:
    """What a process does for one collection, for its status."""

    working: bool = False
    paused: str = ""
    """Why it waits; empty if it does not."""
    pace: float = 0.0
    """Passages per second recently."""
    failure: str = ""
    """Why the last attempt failed; empty if it did not."""
    retry_at: float = 0.0
    """When to try again after a failure, by the monotonic clock."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each document was a hit."""

    def note_hits(self, uris: Iterable[str]) -> None:
        """Remember which documents are asked for: they are embedded first."""
        self.asked.update(uris)
        if len(self.asked) > _MOST_ASKED:
            self.asked = Counter(dict(self.asked.most_common(_MOST_ASKED // 2)))

    def take_hits(self) -> tuple[str, ...]:
        """Return the documents that were noted, and forget them: for another process to note."""
        asked, self.asked = self.asked, Counter()
        return tuple(asked.elements())

    def prefer(self, documents: Sequence[LackingDocument]) -> Sequence[LackingDocument]:
        """Put the documents that were asked for first, and keep the order of the others."""
        asked = self.asked.copy()
        return sorted(documents, key=lambda document: -asked[document.uri])
