"""The paragraph that tells agents to search with Lookfar, kept between two marks.

Takes: the text of somebody's AGENTS.md, CLAUDE.md or the like. Gives: the same text with our
part put in, renewed or taken out. Refuses (``Malformed``): a text in which only one of the
marks is left, since what is between is then anybody's guess.
"""

from __future__ import annotations

import re
from typing import Final

from lookfar.serve.setup.malformed import Malformed, newline_of

BEGIN: Final = "<!-- lookfar: begin -->"
END: Final = "<!-- lookfar: end -->"
_PART: Final = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)

ADVICE: Final = """\
## Searching this project

This project is indexed by Lookfar. Use its MCP tools before `grep`, `find` or reading files
one by one:

- `search` answers a question in plain words, or a name, with exact passages and their lines.
- `read` shows a document, a section (`guide.md#Install`) or a definition (`Shelf.put`).
- `related` tells what links to a document, what it links to, and where a name is used.

Cite what they give by file and lines. Fall back to `grep` only to list every occurrence of a
string.
"""

SKILL: Final = f"""\
---
name: lookfar
description: Find passages in this project's documents and code with the Lookfar MCP tools \
(search, read, related) instead of grep. Use when a question is about what this project says, \
where something is defined, or how it works.
---

{BEGIN}
{ADVICE}{END}
"""


def put(text: str) -> str:
    """The text with our part: where it is already, or at the end."""
    part = f"{BEGIN}\n{ADVICE}{END}"
    nl = newline_of(text)
    part = part.replace("\n", nl)
    if _found(text):
        return _PART.sub(lambda _: part, text, count=1)
    between = "" if not text else nl if text.endswith("\n") else nl * 2
    return text + between + part + nl


def drop(text: str) -> str:
    """The text without our part, and without the blank line that parted it."""
    if not _found(text):
        return text
    found = _PART.search(text)
    assert found is not None, "it was found"
    before, after = text[: found.start()], text[found.end() :]
    after = re.sub(r"\A\r?\n", "", after)
    if not after.strip():
        before = re.sub(r"(?<=\n)\r?\n\Z", "", before)
    return before + after


def has(text: str) -> bool:
    return _PART.search(text) is not None


def _found(text: str) -> bool:
    if has(text):
        return True
    if BEGIN in text or END in text:
        raise Malformed(f"of the marks {BEGIN} and {END} only one is left")
    return False
