"""Subtitles to Markdown: any cues with any times.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.vtt",
    words=(
        "WEBVTT\n\n", "1\n", "00:00:01,000 --> 00:00:02,000\n", "99:59.999 --> 00:00.000\n", "-->",
        "<v A>", "</v>", "<i>", "{\\an8}", "<00:01.000>", "&lt;", "\n\n", "\r\n", "NOTE x\n",
        "000:00:00.0 --> 999:59:59.9", "STYLE\n", "\u202e", "words ",
    ),
)  # fmt: skip
