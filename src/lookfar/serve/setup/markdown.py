"""Add, update or remove the section, between two marks, that tells agents to use Lookfar."""

from __future__ import annotations

import re
from typing import Final

from lookfar.serve.setup.malformed import Malformed, detect_newline

BEGIN: Final = "<!-- lookfar: begin -->"
END: Final = "<!-- lookfar: end -->"
_PART: Final = re.compile(rf"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)

ADVICE: Final = """\
## Searching this project

This project is indexed by Lookfar. Use its MCP tools before `grep`, `find` or reading files
one by one:

- `search` answers a question in plain words, or a name, with exact passages and their lines.
- `read` shows a document, a section (`guide.md#Install`) or a definition (`Shelf.put`); with `find`
  only the lines that matter.
- `related` shows what links to a document, where a name is used, and with `to` how one definition
  reaches another.

Cite what they give by file and lines. `grep` is as good for an exact string that you know.
"""


def put_file(text: str, ours: str) -> str:
    """Return one of Lookfar's own files, with the text after its front matter between our marks.

    An existing file keeps its front matter, which the user may have changed.
    """
    _, front_matter, body = ours.split("---\n", 2)
    body = body.lstrip("\n")
    if text:
        return put(text, body)
    return f"---\n{front_matter}---\n\n{BEGIN}\n{body}{END}\n"


def put(text: str, advice: str = ADVICE) -> str:
    """Return the text with our section, replacing the old one or at the end."""
    part = f"{BEGIN}\n{advice}{END}"
    nl = detect_newline(text)
    part = part.replace("\n", nl)
    _refuse_single_mark(text)
    if has(text):
        return _PART.sub(lambda _: part, text, count=1)
    between = "" if not text else nl if text.endswith("\n") else nl * 2
    return text + between + part + nl


def drop(text: str) -> str:
    """Return the text without our section and the blank line before it."""
    _refuse_single_mark(text)
    match = _PART.search(text)
    if match is None:
        return text
    before, after = text[: match.start()], text[match.end() :]
    after = re.sub(r"\A\r?\n", "", after)
    if not after.strip():
        before = re.sub(r"(?<=\n)\r?\n\Z", "", before)
    return before + after


def has(text: str) -> bool:
    return _PART.search(text) is not None


def _refuse_single_mark(text: str) -> None:
    if not has(text) and (BEGIN in text or END in text):
        raise Malformed(f"only one of the marks {BEGIN} and {END} is left")
