"""Small pictures for lists of tools in clients, as data addresses that need no network.

They are kept small because every ``tools/list`` and, in the newer protocol, every result
contains them.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import mcp_types as types

_DRAWN: Final = {
    "search": "M11,7A4,4,0,1,1,3,7a4,4,0,0,1,8,0zm-1,3,4,4",
    "read": "M4,2h8v12H4zm2,4h4M6,9h4",
    "related": "M3,8a2,2,0,1,1,4,0,2,2,0,0,1-4,0zm4-1,4-3M7,9l4,3",
    "status": "M3,14V8m5,6V2m5,12V6",
    "remember": "M4,2h8v12L8,10l-4,4z",
    "edit": "M3,13l1-4,7-7,3,3-7,7z",
}
"""The lines of each default tool's picture, in a square of 16."""
_MARK: Final = (
    "<rect width='32' height='32' rx='7' fill='teal'/><path fill='#fff'"
    " d='M15,5v16H7c3-4,7-9,8-16zM5,23h22c-2,3-4,4-7,4h-8c-3,0-5-1-7-4z'/>"
)


def _make_icon(size: int, shapes: str, more: str = "") -> types.Icon:
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0,0,{size},{size}'{more}>{shapes}</svg>"
    )
    address = quote(svg, safe="/:=',")
    return types.Icon(src=f"data:image/svg+xml,{address}", mime_type="image/svg+xml")


def _outline(path: str) -> types.Icon:
    return _make_icon(16, f"<path d='{path}'/>", " fill='none' stroke='teal' stroke-width='2'")


SERVER_ICON: Final = _make_icon(32, _MARK)
TOOL_ICONS: Final = {name: _outline(path) for name, path in _DRAWN.items()}
"""The icons of the default tools by name."""
