"""Make untrusted text safe to print: a document must not be able to control a terminal.

Control characters are written out (``\\x1b``). Tabs and line ends are kept in texts and written out
in names.
"""

from __future__ import annotations

import json
import re
from typing import Any

from lookfar.common.hidden_characters import character_class

# Control characters other than tab and newline, and those that change the reading order.
_UNSAFE = character_class("control", "bidi", reordering=True)
_UNSAFE_IN_TEXT = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_NAME = re.compile(f"[{_UNSAFE}\t\n\u2028\u2029]")
# json.dumps itself escapes the control characters below DEL.
_UNSAFE_IN_JSON = re.compile(f"(?![\x00-\x1f])[{_UNSAFE}\u2028\u2029\ud800-\udfff]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe_text(text: str) -> str:
    """Escape a text of several lines; tabs and line ends stay."""
    return _UNSAFE_IN_TEXT.sub(_escape, text)


def safe_name(text: str) -> str:
    """Escape a text that belongs on one line, such as a URI, a heading or a message."""
    return _UNSAFE_IN_NAME.sub(_escape, text)


def safe_json(value: Any, *, ascii_only: bool = False, indent: int | None = 2) -> str:
    """Encode a value as JSON with the same characters escaped; parsing restores every value."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
