"""Read the pictures of a folder that its documents show, and nothing else.

A picture is served only if the rules of the folder would admit it as text: one that is ignored,
excluded or in a folder of credentials is not. Its type is read from its content, not its name.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, Literal, NamedTuple

from lookfar.collections.file_collection import Files
from lookfar.errors import NotFound
from lookfar.sources.confine import Refused, path_problem
from lookfar.sources.folder.walk import judge_file, walk

MOST_BYTES: Final = 20_000_000
_MOST_PIXELS: Final = 50_000_000
"""A small file can contain a picture that takes gigabytes to draw."""
_MOST_LISTED: Final = 100_000
PICTURE_NAME: Final = re.compile(r"\.(?:png|jpe?g|gif|webp|avif)$", re.IGNORECASE)
_JPEG_SIZES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Segments that start with the size of the picture."""
_MOST_SEGMENTS: Final = 1_000


class Picture(NamedTuple):
    data: bytes
    media_type: str
    width: int
    height: int


def read_picture(folder: Files, uri: str) -> Picture:
    """Return a picture below a folder; raise ``NotFound`` for everything else."""
    if path_problem(uri) or PICTURE_NAME.search(uri) is None:
        raise _refuse(uri, "it is not the path of a picture")
    verdict = judge_file(folder.root, folder.policy, uri)
    # The rule that skips pictures because they are not text comes last.
    if verdict is not None and verdict.reason != "binary":
        raise _refuse(uri, "the rules of this folder skip it")
    try:
        data, _ = folder.root.read(uri, MOST_BYTES)
    except Refused as refusal:
        raise _refuse(uri, refusal.reason.replace("_", " ")) from refusal
    measured = measure_picture(data)
    if measured is None:
        raise _refuse(uri, "it is not a PNG, JPEG, GIF, WebP or AVIF file")
    media_type, width, height = measured
    if width * height > _MOST_PIXELS:
        raise _refuse(uri, f"it is too large: {width} x {height} pixels")
    return Picture(data, media_type, width, height)


def find_picture(folder: Files, document: str, target: str) -> str:
    """Return the path of the picture that a document shows; empty if there is none.

    Beside the document first, then from the root.
    """
    target = target.replace("\\", "/")
    if PICTURE_NAME.search(target) is None:
        return ""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(document), target.lstrip("/")))
    for path in (beside, posixpath.normpath(target.lstrip("/"))):
        if not path_problem(path) and folder.root.contains(path):
            return path
    return ""


def list_pictures(folder: Files) -> dict[str, str]:
    """Return the paths of pictures by their file names, in lower case; the shortest path wins.

    This walks the folder: notes may embed a picture by its name alone.
    """
    seen = walk(folder.root, folder.policy, most_skipped=_MOST_LISTED)
    names: dict[str, str] = {}
    pictures = (entry.uri for entry in seen.skipped if entry.reason == "binary")
    for uri in sorted(filter(PICTURE_NAME.search, pictures), key=lambda uri: (len(uri), uri)):
        names.setdefault(posixpath.basename(uri).lower(), uri)
    return names


def measure_picture(data: bytes) -> tuple[str, int, int] | None:
    """Return the media type, width and height of a picture, or None if it is not one."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        return "image/png", *_sizes(data, 16, 20, 4, "big")
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif", *_sizes(data, 6, 8, 2, "little")
    if data.startswith(b"\xff\xd8\xff"):
        return _measure_jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _measure_webp(data)
    if data[4:12] in (b"ftypavif", b"ftypavis"):
        at = data.find(b"ispe", 0, 4096)
        return ("image/avif", *_sizes(data, at + 8, at + 12, 4, "big")) if at > 0 else None
    return None


def _sizes(
    data: bytes, first: int, second: int, length: int, order: Literal["big", "little"]
) -> tuple[int, int]:
    """Read two numbers: the width and the height of a picture."""
    return (
        int.from_bytes(data[first : first + length], order),
        int.from_bytes(data[second : second + length], order),
    )


def _measure_jpeg(data: bytes) -> tuple[str, int, int] | None:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        if at + 9 >= len(data) or data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker in _JPEG_SIZES:
            height, width = _sizes(data, at + 5, at + 7, 2, "big")
            return "image/jpeg", width, height
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _measure_webp(data: bytes) -> tuple[str, int, int] | None:
    form = data[12:16]
    if form == b"VP8X":
        width, height = _sizes(data, 24, 27, 3, "little")
        return "image/webp", width + 1, height + 1
    if form == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return "image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        width, height = _sizes(data, 26, 28, 2, "little")
        return "image/webp", width & 0x3FFF, height & 0x3FFF
    return None


def _refuse(uri: str, reason: str) -> NotFound:
    return NotFound(
        f"The picture {uri[:300]!r} is not shown: {reason}.",
        hint="Pictures are PNG, JPEG, GIF, WebP or AVIF files in the folder, up to 20 MB.",
    )
