"""Hostile text made safe to show: a document must not be able to drive a terminal.

Takes: any text, from a document, a file name or an error. Gives: the same text
with control characters written out (``\\x1b``), so that nothing in it can move
the cursor, set a title, reorder what is read, or fake a line of our output.
Refuses: nothing; tabs and line ends stay in texts and are written out in names.
"""

from __future__ import annotations

import json
import re
from typing import Any

from lookfar.common.hidden_characters import character_class

# Controls but tab and newline, and the characters that reorder what is displayed.
_UNSAFE = character_class("control", "bidi", reordering=True)
_UNSAFE_IN_TEXT = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_NAME = re.compile(f"[{_UNSAFE}\t\n\u2028\u2029]")
# json.dumps writes out the controls below DEL by itself, and line ends are its own.
_UNSAFE_IN_JSON = re.compile(f"(?![\x00-\x1f])[{_UNSAFE}\u2028\u2029\ud800-\udfff]")


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe_text(text: str) -> str:
    """Several lines, with their tabs and line ends."""
    return _UNSAFE_IN_TEXT.sub(_written_out, text)


def safe_name(text: str) -> str:
    """Something that belongs on one line: a URI, a heading, a message."""
    return _UNSAFE_IN_NAME.sub(_written_out, text)


def safe_json(value: Any, *, ascii_only: bool = False, indent: int | None = 2) -> str:
    """One JSON object in which the same characters are escapes, so that no value is altered."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
