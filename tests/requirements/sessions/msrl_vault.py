"""A vault for the sessions of MSRL's clients, and its documents as MSRL's own rules read them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Final

ARROW: Final = " → "
_HEADING: Final = re.compile(r"(#{1,6})\s+(.+)")
_SENTENCE: Final = "The marker of {name} says that a {animal} crossed the river {times} times. "
_ANIMALS: Final = ("zebra", "okapi", "narwhal", "wombat", "quokka", "tapir", "lemur", "heron")

NOTES: Final = {
    "README.md": "# Vault 🦓\n\nA marker for the readers of this vault.\n",
    "notes/animals.md": (
        "# Animals\n\nThe marker of all 🦓 animals.\n\n## Zebras\n\nA zebra 🦓 has stripes.\n\n"
        "```sh\n# not a heading\n```\n\n## A > B Comparison\n\nAn okapi resembles a zebra.\n\n"
        "### Deep\n\nFar below lives a narwhal 🐳.\n"
        "\n## The `tapir` **bold**\n\nA tapir snores.\n"
    ),
    "notes/Daily Note (1).md": "# Día\n\nA marker with spaces in its name.\n",
    "notes/plain.md": "A marker about a quokka, under no heading.\n",
    "notes/twins.md": "# Twins\n\n## Same\n\nFirst marker.\n\n## Same\n\nSecond marker.\n",
    "tagged.md": "---\ntags: [okapo]\n---\n# Tagged\n\nA marker about burrows.\n",
    "fenced.md": (
        "# Fenced\n\nA marker before the code.\n\n```sh\n" + "run --flag value\n" * 400 + "```\n\n"
        "A marker after the code.\n"
    ),
    "build/output.md": "# Built\n\nA marker in a folder called build.\n",
    "ignored.md": "# Ignored\n\nA marker that git ignores.\n",
}
OTHERS: Final = {
    ".gitignore": "ignored.md\n",
    ".git/info.md": "# Git\n\nmarker\n",
    ".obsidian/plugin.md": "# Plugin\n\nmarker\n",
    ".msrl/note.md": "# Index\n\nmarker\n",
    ".hidden/note.md": "# Hidden\n\nmarker\n",
    ".hidden.md": "# Hidden\n\nmarker\n",
    "node_modules/pack/README.md": "# Pack\n\nmarker\n",
    "notes/draft.md~": "marker\n",
    "notes/draft.tmp": "marker\n",
    "code.py": "marker = 1\n",
    "data.json": '{"marker": 1}\n',
    "notes.txt": "marker\n",
}
LARGE_URI: Final = "large.md"


def write_vault(folder: Path) -> dict[str, str]:
    """Write the vault, and return the texts of its notes by URI, as MSRL normalises them."""
    notes = {**NOTES, **_generate_notes(), LARGE_URI: _make_large_note()}
    for uri, text in {**notes, **OTHERS}.items():
        put(folder, uri, text)
    # A byte-order mark and other line ends are no part of the text that offsets count.
    (folder / "crlf.md").write_bytes(
        b"\xef\xbb\xbf# Windows\r\n\r\nA marker with carriage returns."
    )
    return {**notes, "crlf.md": "# Windows\n\nA marker with carriage returns.\n"}


def put(folder: Path, uri: str, text: str) -> None:
    path = folder / uri
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")


def _generate_notes() -> dict[str, str]:
    """Return notes with many small sections, nested in every way, and some long ones."""
    choose = random.Random(7)
    notes = {}
    for number in range(30):
        lines, level = [], 0
        for section in range(choose.randint(2, 12)):
            level = choose.randint(1, min(level + 1, 6))
            lines += [f"{'#' * level} Part {section} of {number}", ""]
            for _ in range(choose.choice((0, 1, 1, 2, 30))):
                animal = choose.choice(_ANIMALS)
                sentence = _SENTENCE.format(
                    name=f"{animal} {section}", animal=animal, times=section
                )
                lines += [sentence * choose.randint(1, 4) + choose.choice(("", "🦓")), ""]
            if choose.random() < 0.2:
                lines += ["```md", "# in a fence", "```", ""]
        notes[f"gen/{number:02}.md"] = "\n".join(lines)
    return notes


def _make_large_note() -> str:
    """Return a note of more than 1 MiB."""
    paragraph = "An elephant walks over the plain and finds a waterhole at noon. " * 20
    return "# Large\n\n" + f"{paragraph}\n\n" * 900


def read_sections(text: str) -> list[tuple[str, int, int]]:
    """Return heading path, start and end of each section's own text, by MSRL's rules.

    ATX headings outside of fences only; the text begins after the heading line.
    """
    sections: list[tuple[str, int, int]] = []
    stack: list[tuple[int, str]] = []
    path, start, at, fenced = "", 0, 0, False
    for line in text.splitlines(keepends=True):
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        heading = None if fenced else _HEADING.match(line)
        if heading:
            sections.append((path, start, at))
            while stack and stack[-1][0] >= len(heading[1]):
                stack.pop()
            stack.append((len(heading[1]), heading[2].strip()))
            path, start = ARROW.join(title for _, title in stack), at + len(line)
        at += len(line)
    return [*sections, (path, start, at)]


def slice_utf16(text: str, start: int, end: int) -> str:
    """Return what ``text.slice(start, end)`` is in JavaScript."""
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def to_characters(text: str, units: int) -> int:
    """Convert an offset in UTF-16 units to one in characters."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le"))
