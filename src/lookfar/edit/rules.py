"""The rules that headings are held to, and how a document is brought to keep them.

Takes: a parsed document. Gives: what breaks a rule, with its line and what would mend it; or
the changes that mend it all. Refuses: to mend what would need a level below the sixth.

    heading-jump        a heading more than one level below the one before it
    duplicate-sibling   two headings of one level and title below one parent
    multiple-h1         more than one heading of level 1, where that rule is on

Mending keeps the tree: each heading moves up to one level below its parent, further headings
of level 1 go below the first, and a twin gets a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.common.lines import Lines
from lookfar.edit.headings import DEEPEST, respelled
from lookfar.edit.sections import Draft, Entry
from lookfar.edit.shape import Change
from lookfar.model import Document, Section, Violation

JUMP = "heading-jump"
TWIN = "duplicate-sibling"
SEVERAL = "multiple-h1"


def violations(document: Document, *, single_h1: bool) -> tuple[Violation, ...]:
    """What breaks a rule, in the order of the document."""
    sections = [section for section in document.sections if section.level]
    levels, suffixes = _mended(sections, single_h1)
    lines = Lines(document.text)
    found: list[Violation] = []

    def note(section: Section, rule: str, message: str, fix: str, fixable: bool = True) -> None:
        at = lines.span(section.span.start, section.body)
        found.append(
            Violation(rule, message, at.start_line, at.end_line, fix, fixable, document.uri)
        )

    first = next((each for each in sections if each.level == 1), None)
    twins: dict[tuple[int, int, str], Section] = {}
    for index, section in enumerate(sections):
        if single_h1 and section.level == 1 and section is not first and first is not None:
            fixable = levels[index] > 1
            note(
                section, SEVERAL,
                f"{section.title!r} is another heading of level 1; the first is {first.title!r}.",
                "Make it level 2, and what stands below it one level deeper." if fixable
                else f"Make what stands below it less deep; level {DEEPEST} is the last.",
                fixable,
            )  # fmt: skip
        if index and section.level > sections[index - 1].level + 1:
            above = sections[index - 1]
            note(
                section, JUMP,
                f"{section.title!r} has level {section.level} after {above.title!r} of level "
                f"{above.level}.",
                f"Make it level {levels[index]}.",
            )  # fmt: skip
        twin = twins.setdefault((section.parent, section.level, section.title), section)
        if twin is not section and section.title:
            note(
                section, TWIN,
                f"{section.title!r} stands twice below one heading, first on line "
                f"{twin.span.start_line}.",
                f"Call it {section.title + suffixes[index]!r}." if suffixes[index]
                else "Give it another title.",
            )  # fmt: skip
    return tuple(found)


def mended(document: Document, *, single_h1: bool) -> Draft:
    """The changes that mend what can be mended; none for a document that keeps the rules."""
    sections = [section for section in document.sections if section.level]
    levels, suffixes = _mended(sections, single_h1)
    changes: list[Change] = []
    entries: list[Entry] = []
    for section, level, suffix in zip(sections, levels, suffixes, strict=True):
        entries.append(Entry(level, section.title + suffix, section.ordinal))
        if level != section.level or suffix:
            pieces = respelled(document.text, section, level, suffix=suffix)
            changes.append(Change(section.span.start, section.body, tuple(pieces)))
    return Draft(tuple(changes), tuple(entries))


def _mended(sections: Sequence[Section], single_h1: bool) -> tuple[list[int], list[str]]:
    """The level that each heading would have, and what its title would end with."""
    at = {section.ordinal: index for index, section in enumerate(sections)}
    parents = [at.get(each.parent, -1) for each in sections]
    if single_h1:
        _demote(sections, parents)
    levels: list[int] = []
    for section, parent in zip(sections, parents, strict=True):
        levels.append(section.level if parent < 0 else levels[parent] + 1)
    suffixes: list[str] = []
    taken = {(parents[i], levels[i], each.title) for i, each in enumerate(sections)}
    met: set[tuple[int, int, str]] = set()
    for index, section in enumerate(sections):
        name = (parents[index], levels[index], section.title)
        number = 1
        while section.title and (name in met or (number > 1 and name in taken)):
            number += 1
            name = (*name[:2], f"{section.title} ({number})")
        met.add(name)
        suffixes.append(f" ({number})" if number > 1 else "")
    return levels, suffixes


def _demote(sections: Sequence[Section], parents: list[int]) -> None:
    """Put each further heading of level 1 below the one before it that stays, if it has room."""
    depths: list[int] = []
    roots: list[int] = []
    deepest: dict[int, int] = {}
    for index, parent in enumerate(parents):
        depths.append(depths[parent] + 1 if parent >= 0 else 1)
        roots.append(roots[parent] if parent >= 0 else index)
        deepest[roots[index]] = max(deepest.get(roots[index], 0), depths[index])
    first = -1
    for index, section in enumerate(sections):
        if section.level == 1:
            if first >= 0 and deepest[index] < DEEPEST:
                parents[index] = first
            else:
                first = index
