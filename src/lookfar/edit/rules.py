"""Check headings against the rules, and fix what breaks them.

    heading-jump        a heading more than one level below the one before it
    duplicate-sibling   two headings of the same level and title below one parent
    multiple-h1         more than one heading of level 1, if ``edit.single_h1`` is on

A fix keeps the tree: each heading moves up to one level below its parent, further headings of
level 1 move below the first, and duplicates get a number. A heading that would need a level
deeper than 6 is not fixed.
"""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.common.lines import Lines
from lookfar.edit.headings import DEEPEST, respell
from lookfar.edit.sections import Draft, Entry
from lookfar.edit.shape import Change
from lookfar.model import Document, Section, Violation

JUMP = "heading-jump"
TWIN = "duplicate-sibling"
SEVERAL = "multiple-h1"


def find_violations(document: Document, *, single_h1: bool) -> tuple[Violation, ...]:
    """Return what breaks a rule, in document order."""
    sections = [section for section in document.sections if section.level]
    levels, suffixes = _fixed_headings(sections, single_h1)
    lines = Lines(document.text)
    violations: list[Violation] = []

    def report(section: Section, rule: str, message: str, fix: str, fixable: bool = True) -> None:
        span = lines.span(section.span.start, section.body)
        violations.append(
            Violation(rule, message, span.start_line, span.end_line, fix, fixable, document.uri)
        )

    first = next((section for section in sections if section.level == 1), None)
    twins: dict[tuple[int, int, str], Section] = {}
    for index, section in enumerate(sections):
        if single_h1 and section.level == 1 and section is not first and first is not None:
            fixable = levels[index] > 1
            report(
                section, SEVERAL,
                f"{section.title!r} is another heading of level 1; the first is {first.title!r}.",
                "Make it level 2, and its subheadings one level deeper." if fixable
                else f"Make its subheadings less deep; {DEEPEST} is the deepest level.",
                fixable,
            )  # fmt: skip
        if index and section.level > sections[index - 1].level + 1:
            previous = sections[index - 1]
            report(
                section, JUMP,
                f"{section.title!r} has level {section.level} after {previous.title!r} of level "
                f"{previous.level}.",
                f"Make it level {levels[index]}.",
            )  # fmt: skip
        twin = twins.setdefault((section.parent, section.level, section.title), section)
        if twin is not section and section.title:
            report(
                section, TWIN,
                f"{section.title!r} occurs twice below one heading, first on line "
                f"{twin.span.start_line}.",
                f"Call it {section.title + suffixes[index]!r}." if suffixes[index]
                else "Give it another title.",
            )  # fmt: skip
    return tuple(violations)


def draft_fix(document: Document, *, single_h1: bool) -> Draft:
    """Return the changes that fix the headings; none if no rule is broken."""
    sections = [section for section in document.sections if section.level]
    levels, suffixes = _fixed_headings(sections, single_h1)
    changes: list[Change] = []
    entries: list[Entry] = []
    for section, level, suffix in zip(sections, levels, suffixes, strict=True):
        entries.append(Entry(level, section.title + suffix, section.ordinal))
        if level != section.level or suffix:
            pieces = respell(document.text, section, level, suffix=suffix)
            changes.append(Change(section.span.start, section.body, tuple(pieces)))
    return Draft(tuple(changes), tuple(entries))


def _fixed_headings(sections: Sequence[Section], single_h1: bool) -> tuple[list[int], list[str]]:
    """Return the level and the title suffix that a fix would give to each heading."""
    indexes = {section.ordinal: index for index, section in enumerate(sections)}
    parents = [indexes.get(section.parent, -1) for section in sections]
    if single_h1:
        _demote(sections, parents)
    levels: list[int] = []
    for section, parent in zip(sections, parents, strict=True):
        levels.append(section.level if parent < 0 else levels[parent] + 1)
    suffixes: list[str] = []
    existing = {(parents[i], levels[i], section.title) for i, section in enumerate(sections)}
    seen: set[tuple[int, int, str]] = set()
    for index, section in enumerate(sections):
        name = (parents[index], levels[index], section.title)
        number = 1
        while section.title and (name in seen or (number > 1 and name in existing)):
            number += 1
            name = (*name[:2], f"{section.title} ({number})")
        seen.add(name)
        suffixes.append(f" ({number})" if number > 1 else "")
    return levels, suffixes


def _demote(sections: Sequence[Section], parents: list[int]) -> None:
    """Put further headings of level 1 below the last one that stays, if there is room."""
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
