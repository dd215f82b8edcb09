"""What the targets of extractors share: rows by name, archives around XML, and what must hold.

The result of every extractor is Markdown that the parser accepts, with places in ascending order
inside of it. A file may only be refused with ``CannotExtract``.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

from fuzz.common import Target
from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.formats import extract, extractor_for
from lookfar.text.parse.markdown import parse

PART_END = b"\x1e"
"""Separates the parts of an archive in an input."""
_LIMITS = Limits(max_output_chars=1_000_000, max_expanded_bytes=20_000_000)


def target_for(
    *names: str,
    wrap: Callable[[str, bytes], bytes] | None = None,
    words: tuple[str, ...] = (),
    limit: float = 0.5,
) -> Target:
    """Return a target over file names; with several, the first byte of an input chooses one."""
    rows = [(name, extractor_for(name)) for name in names]

    def work(data: bytes) -> Extracted:
        name, row = rows[data[0] % len(rows)] if len(rows) > 1 and data else rows[0]
        content = data[1:] if len(rows) > 1 else data
        assert row is not None
        return extract(row, wrap(name, content) if wrap else content, _LIMITS)

    return Target(work, check, (CannotExtract,), limit=limit, words=words)


def check(_: bytes, result: Extracted) -> None:
    """Assert what holds for every extracted text."""
    text = result.text
    text.encode("utf-8")
    assert text.strip()
    assert text.endswith("\n")
    assert not set(text) & {"\r", "\0", "\x1b", "\x85"}
    assert len(text) <= _LIMITS.max_output_chars + 100
    starts = [place.start for place in result.places]
    assert starts == sorted(starts)
    assert all(0 <= start <= len(text) for start in starts)
    for label in [place.label for place in result.places]:
        assert label
        assert label == " ".join(label.split())
    for line in (result.title, *result.warnings):
        line.encode("utf-8")
        assert "\n" not in line
    document = parse("a.md", text)
    assert document.text == text


def zip_parts(parts: dict[str, bytes]) -> bytes:
    """Return an archive of these parts, the same bytes every time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def fill_parts(names: tuple[str, ...], data: bytes, fixed: dict[str, bytes]) -> bytes:
    """Return an archive whose named parts come from an input; a raw archive stays as it is."""
    if data.startswith(b"PK"):
        return data
    contents = data.split(PART_END)
    parts = {name: part for name, part in zip(names, contents, strict=False) if part}
    return zip_parts({**fixed, **parts})


def relations(**targets: tuple[str, str]) -> bytes:
    """Return the relations part of an Office Open XML file: kind and target by id."""
    rows = "".join(
        f'<Relationship Id="{key}" Type="x/{kind}" Target="{target}"/>'
        for key, (kind, target) in targets.items()
    )
    return f"<Relationships>{rows}</Relationships>".encode()
