"""Extract mail: EML and MBOX, with headers, text, and attachments by their own extractors.

Places are ``part=N`` in a message and ``message=N`` in a mailbox, counted from 1. If a message has
alternatives, the plain text is used. Nothing is fetched.
"""

from __future__ import annotations

import email
import re
from collections.abc import Iterator
from dataclasses import replace
from email.errors import MessageError
from email.header import decode_header
from email.message import Message

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits, Writer, join_words
from lookfar.text.extract.formats import extract, extractor_for
from lookfar.text.extract.html import write_page
from lookfar.text.normalise import decode

_SHOWN = ("From", "To", "Cc", "Date")
_SEPARATOR = re.compile(rb"(?:\A|\n\r?\n)From [^\r\n]*\r?\n")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_TEXT_ENDINGS = (".txt", ".md", ".log", ".text", ".tex")
_MOST_PARTS = 500
_FAULTS = (LookupError, ValueError, MessageError, TypeError, AttributeError, AssertionError)
"""What Python's parser raises for malformed headers."""


def extract_eml(data: bytes, limits: Limits) -> Extracted:
    """Extract one message."""
    writer = Writer(limits)
    subject = _MessageWriter(writer, limits, "part").write(_parse(data), 1, limits.max_attached)
    return writer.finish(subject)


def extract_mbox(data: bytes, limits: Limits) -> Extracted:
    """Extract the messages of a mailbox in order."""
    separators = list(_SEPARATOR.finditer(data))
    starts = [match.end() for match in separators]
    if not starts:
        raise CannotExtract("damaged", "the file is not a mailbox")
    if len(starts) > limits.max_parts:
        reason = f"the mailbox has more than {limits.max_parts:,} messages"
        raise CannotExtract("too_large", reason)
    ends = [*(match.start() for match in separators[1:]), len(data)]
    writer = Writer(limits)
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        writer.place(f"message={number}")
        message = _parse(_QUOTED_FROM.sub(rb"\1", data[start:end]))
        _MessageWriter(writer, limits, "").write(message, 1, limits.max_attached)
        if writer.full:
            break
    return writer.finish()


def _parse(data: bytes) -> Message:
    try:
        message: Message = email.message_from_bytes(data)
    except (RecursionError, *_FAULTS) as error:
        raise CannotExtract("damaged", "the message cannot be parsed") from error
    if not message.keys():
        raise CannotExtract("damaged", "the file has no mail headers")
    return message


class _MessageWriter:
    def __init__(self, writer: Writer, limits: Limits, label: str) -> None:
        self._writer = writer
        self._limits = limits
        self._label = label
        """The prefix of places; empty in a mailbox, where each whole message is one place."""
        self._number = 0

    def write(self, message: Message, level: int, depth: int) -> str:
        """Write a message and return its subject; follow ``depth`` levels of attached messages."""
        self._place()
        subject = _header(message, "Subject")
        self._writer.heading(level, subject or "(no subject)")
        lines = [f"{name}: {value}" for name in _SHOWN if (value := _header(message, name))]
        self._writer.paragraph("\n".join(lines))
        for count, part in enumerate(_leaves(message, self._limits.max_depth)):
            if count >= _MOST_PARTS:
                self._writer.warnings.append(f"only the first {_MOST_PARTS} parts were read")
                break
            self._part(part, level, depth, is_first=not count)
        return subject

    def _place(self) -> None:
        self._number += 1
        if self._label:
            self._writer.place(f"{self._label}={self._number}")

    def _part(self, part: Message, level: int, depth: int, is_first: bool) -> None:
        name = _file_name(part)
        kind = part.get_content_type()
        if not is_first:
            self._place()
        if kind == "message/rfc822":
            inner = part.get_payload()
            if depth > 0 and isinstance(inner, list) and inner and isinstance(inner[0], Message):
                self.write(inner[0], level + 1, depth - 1)
            else:
                self._writer.warnings.append("messages nested deeper were skipped")
        elif kind == "text/html" and not name:
            write_page(self._writer, _content(part), self._limits, _charset(part))
        elif kind.startswith("text/") and (not name or name.lower().endswith(_TEXT_ENDINGS)):
            self._text(part, name, level)
        elif name:
            self._attachment(part, name, kind, level, depth)

    def _text(self, part: Message, name: str, level: int) -> None:
        if name:
            self._writer.heading(level + 1, f"Attachment: {name}")
        text, _, warnings = decode(_content(part), _charset(part))
        self._writer.warnings += warnings
        for paragraph in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
            self._writer.paragraph(paragraph)

    def _attachment(self, part: Message, name: str, kind: str, level: int, depth: int) -> None:
        """Write the text of an attachment, or only its name and why it has none."""
        content = _content(part)
        row = extractor_for(name)
        self._writer.heading(level + 1, f"Attachment: {name}")
        if row is None or depth <= 0:
            self._writer.paragraph(f"{kind}, {len(content):,} bytes")
            return
        limits = replace(self._limits, max_attached=depth - 1)
        try:
            inner = extract(row, content, limits)
        except CannotExtract as error:
            self._writer.paragraph(f"{kind}, {len(content):,} bytes: {error.reason}")
            self._writer.warnings.append(f"attachment {name}: {error.reason}")
            return
        self._writer.warnings += [f"attachment {name}: {text}" for text in inner.warnings]
        self._writer.markdown(_lower_headings(inner.text, level + 1))


def _lower_headings(text: str, levels: int) -> str:
    """Put the headings of an attachment below the heading with its name."""
    lines = []
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r"`{3,}|~{3,}", line)
        if mark and (not fence or line.startswith(fence)):
            fence = "" if fence else mark[0]
        heading = None if fence else re.match(r"(#{1,6}) ", line)
        if heading:
            line = "#" * min(6, len(heading[1]) + levels) + line[len(heading[1]) :]
        lines.append(line)
    return "\n".join(lines)


def _leaves(message: Message, depth: int) -> Iterator[Message]:
    """Yield the parts with content; if there are alternatives, the simplest readable one."""
    # The payload of a message with parts is a list; that of others would be decoded here.
    payload = message.get_payload() if message.is_multipart() else None
    if message.get_content_type() == "message/rfc822" or not isinstance(payload, list):
        yield message
        return
    parts = [part for part in payload if isinstance(part, Message)]
    if depth <= 0:
        return
    if message.get_content_subtype() == "alternative":
        plain = [part for part in parts if part.get_content_type() == "text/plain"]
        rich = [part for part in parts if part.get_content_type() != "text/plain"]
        parts = plain if any(_content(part).strip() for part in plain) else rich[-1:]
    for part in parts:
        yield from _leaves(part, depth - 1)


def _content(part: Message) -> bytes:
    try:
        content = part.get_payload(decode=True)
    except _FAULTS:
        return b""
    return content if isinstance(content, bytes) else b""


def _charset(part: Message) -> str:
    try:
        return part.get_content_charset() or ""
    except _FAULTS:
        return ""


def _file_name(part: Message) -> str:
    try:
        name = part.get_filename() or ""
    except _FAULTS:
        return "unnamed"
    return _decode_words(name).replace("\\", "/").rpartition("/")[2]


def _header(message: Message, name: str) -> str:
    value = message.get(name)
    return _decode_words(str(value)) if value is not None else ""


def _decode_words(value: str) -> str:
    """Decode the encoded words of a header."""
    try:
        parts = decode_header(value)
    except _FAULTS:
        return join_words(value)
    texts = []
    for part, charset in parts:
        if isinstance(part, str):
            texts.append(part)
        else:
            texts.append(decode(part, charset or "")[0])
    return join_words("".join(texts))
