"""Extract subtitles (SRT and WebVTT): what is said, in paragraphs with the time of their start.

Places are ``time=HH:MM:SS``. Cues that follow each other closely are one paragraph, because a cue
is often half a sentence.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits, Writer, join_words
from lookfar.text.normalise import decode

_TIMES = re.compile(
    r"^[ \t]*((?:\d{1,3}:)?\d{1,2}:\d{2})[.,]\d{1,3}[ \t]*-->[ \t]*((?:\d{1,3}:)?\d{1,2}:\d{2})",
    re.MULTILINE,
)
_VOICE = re.compile(r"<v(?:\.[\w.]*)?[ \t]+([^>]{1,100})>")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>|<\d[\d:.]*>|\{\\[^{}]{0,100}\}")
_LONGEST_PARAGRAPH = 30
"""Seconds that one paragraph covers."""
_PAUSE = 4
"""Seconds without a cue that end a paragraph."""


def extract_subtitles(data: bytes, limits: Limits) -> Extracted:
    """Extract the cues of a subtitle file."""
    text, _, warnings = decode(data)
    text = re.sub(r"\r\n?", "\n", text)
    writer = Writer(limits)
    writer.warnings += warnings
    if not _TIMES.search(text):
        raise CannotExtract("damaged", "the file has no subtitles with times")
    started, ended = -1, 0
    lines: list[str] = []
    for begin, end, cue in _cues(text):
        if lines and (begin - started >= _LONGEST_PARAGRAPH or begin - ended >= _PAUSE):
            writer.paragraph("\n".join(lines))
            lines = []
        if not lines:
            started = begin
            writer.place(f"time={begin // 3600:02}:{begin // 60 % 60:02}:{begin % 60:02}")
        if not lines or lines[-1] != cue:  # Rolling captions repeat the line above.
            lines.append(cue)
        ended = end
    writer.paragraph("\n".join(lines))
    return writer.finish()


def _cues(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and words of the cues that have words."""
    matches = list(_TIMES.finditer(text))
    for number, match in enumerate(matches):
        stop = matches[number + 1].start() if number + 1 < len(matches) else len(text)
        after = text.find("\n", match.end())
        body = text[after + 1 : stop] if 0 <= after < stop else ""
        # A blank line ends a cue; the number or name of the next one follows.
        words = _TAG.sub("", _VOICE.sub(r"\1: ", re.split(r"\n[ \t]*\n", body, maxsplit=1)[0]))
        words = join_words(html.unescape(words))
        if words:
            yield _seconds(match[1]), _seconds(match[2]), words


def _seconds(clock: str) -> int:
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return total
