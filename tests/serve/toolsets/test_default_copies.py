"""The default search, asked by a real client: headings once, and copies cited beside a hit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lookfar.library import Library

TOOLSET = "default"
Put = Callable[..., None]
SETTINGS = {
    "index.max_auto_files": 0,
    "chunk.max_tokens": 120,
    "chunk.hard_max_tokens": 200,
    "chunk.min_tokens": 0,
    "search.merge_gap": 0,
    "search.per_document": 3,
}
TEXT = "# Guide\n\n## Install\n\n### Linux\n\nzebra {}\n\n### macOS\n\nzebra too {}\n".format(
    "stripes " * 60, "leaves " * 60
)
FILES = {"a.md": TEXT, "b.md": TEXT}


def test_headings_are_said_once_and_copies_can_be_read(
    call: Any, library: Library, docs: Path
) -> None:
    result = call("search", {"query": "zebra stripes leaves", "detail": "passages"})
    shown = [each.text for each in result.content if getattr(each, "text", "").startswith("[")]
    lines = [text.partition("\n")[0] for text in shown]
    assert len(lines) > 1
    assert " | Guide > Install" in lines[0]
    assert all(" | ... > " in line for line in lines[1:])
    assert "also at b.md:" in lines[0]
    hits = result.structured_content["hits"]
    assert all(hit["heading_path"][:2] == ["Guide", "Install"] for hit in hits)
    (cite,) = hits[0]["also"]
    found = library.read(cite)
    assert (found.uri, found.state) == ("b.md", "same")
    assert shown[0].partition("\n")[2] == found.text
    (docs / "b.md").write_text("Other.\n")
    again = call("search", {"query": "zebra stripes leaves", "detail": "passages"})
    first = next(each.text for each in again.content if each.text.startswith("["))
    assert "b.md:" in first.partition("\n")[0]
    assert "(changed on disk)" in first.partition("\n")[0]


def test_pages_of_hits_fit_together(call: Any, put: Put) -> None:
    """Caught: folding that depends on how many hits are asked for."""
    put({f"{n}.md": f"# Page\n\nzebra number {n // 2}\n" for n in range(12)})
    seen: list[str] = []
    cursor = ""
    for _ in range(20):
        asked = {"query": "zebra number", "top_k": 2, "cursor": cursor}
        data = call("search", asked).structured_content
        seen += [hit["uri"] for hit in data["hits"]]
        cursor = data["cursor"]
        if not cursor:
            break
    pages = [uri for uri in seen if uri[0].isdigit()]
    assert sorted(pages, key=lambda uri: int(uri[:-3])) == [f"{n}.md" for n in range(0, 12, 2)]
