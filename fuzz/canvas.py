"""Canvases to Markdown: whatever is in the JSON, nodes and arrows or a reason.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.canvas",
    words=(
        '{"nodes": [', '], "edges": [', "]}", '{"id": "a", "type": "text", "text": "', '"}, ',
        '{"type": "group", "label": "g", "x": 0, "y": 0, "width": 9, "height": 9}',
        '{"type": "file", "file": "a.md", "subpath": "#b"}', '{"type": "link", "url": "http://a"}',
        '{"fromNode": "a", "toNode": "a", "label": "l"}', "1e999", "NaN", "-1", "null", "true",
        "```", "\\n# x\\n", "\\ud800", "[[", "]]",
    ),
)  # fmt: skip
