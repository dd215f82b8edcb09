"""Find the section of a document that contains an offset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookfar.model import Section


def find_innermost(sections: Iterable[Section], offset: int) -> Section | None:
    """Return the innermost section that contains an offset."""
    innermost = None
    for section in sections:
        if section.span.start <= offset < section.span.end:
            innermost = section
    return innermost


def find_path(sections: Iterable[Section], offset: int) -> tuple[str, ...]:
    """Return the headings of the innermost section that contains an offset."""
    section = find_innermost(sections, offset)
    return section.path if section else ()
