"""Render one commit as a document: message, author, date, changed paths, start of the diff."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING
from zlib import compress

from lookfar.index.prepare import FASTEST, Prepared, make_section_rows
from lookfar.model import Document, Fingerprint, Section, Span
from lookfar.ports import PATH_SEPARATOR, ChunkRow, LinkRow, Version
from lookfar.store.keywords.analyser import analyse
from lookfar.text.chunk.headings import Sizes
from lookfar.text.chunk.headings import chunk as chunk_document
from lookfar.text.chunk.identity import chunk_id, content_name
from lookfar.text.normalise import normalise_text

if TYPE_CHECKING:
    from lookfar.sources.git.history import Commit

RENDERING = 4
"""Raise this whenever the same commit would give another text."""

MESSAGE, FILES, DIFF = "Message", "Files", "Diff"
_MOST_FILES = 200
_MOST_LINKS = 5_000
_MOST_PATH_WORDS = 20
"""More of them would outweigh the message."""
_ONE_CHUNK = 1_600
"""Up to this many characters, the message and the paths are one chunk."""
_MOST_CHANGED = 4_000
"""Characters of changed lines that are analysed."""
_SHORT_HASHES = (7, 8, 9, 10, 12)
_TITLE_SHOWN = 300

# Text that git and code hosts write into messages; it says nothing about the change.
_MERGE = re.compile(r"^Merge (?:pull request|branch|remote-tracking branch) ")
_NUMBERED = re.compile(r"#\d+")
_FORK = re.compile(r"\bfrom [\w-]+/")


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a commit and where its parts begin."""

    title: str
    text: str
    files: int
    diff: int
    """Where the diff begins; the length of the text if there is no diff."""
    lines: tuple[tuple[int, int], ...]
    """Start and end of each listed path."""

    def sections(self) -> list[Section]:
        starts = [(MESSAGE, 0), (FILES, self.files), (DIFF, self.diff)]
        present = [(name, start) for name, start in starts if start < len(self.text)]
        ends = [*(start for _, start in present[1:]), len(self.text)]
        sections = []
        for ordinal, ((name, start), end) in enumerate(zip(present, ends, strict=True)):
            first = self.text.count("\n", 0, start) + 1
            last = first + self.text.count("\n", start, end - 1)
            body = start if name == MESSAGE else self.text.index("\n", start) + 1
            span = Span(start, end, first, last)
            sections.append(Section(ordinal, -1, 1, name, (name,), span, body))
        return sections


def render(commit: Commit) -> Rendered:
    title = _clean(commit.title)[:_TITLE_SHOWN]
    message = _clean(f"{commit.title}\n\n{commit.body}" if commit.body else commit.title).strip()
    head = f"{message or '(no message)'}\n\n"
    lines = [
        f"Author: {_clean_line(commit.author)}",
        f"Committer: {_clean_line(commit.committer)}",
        f"Date: {format_time(commit.committed)}",
        f"{FILES}:" if commit.files else f"{FILES}: none",
    ]
    listed = head + "\n".join(lines) + "\n"
    path_spans: list[tuple[int, int]] = []
    for file in commit.files[:_MOST_FILES]:
        path = _clean_line(file.path)
        renamed = f"{_clean_line(file.before)} -> " if file.before else ""
        line = f"{file.status} {renamed}{path}"
        end = len(listed) + len(line)
        path_spans.append((end - len(path), end))
        listed += f"{line}\n"
    if len(commit.files) > _MOST_FILES:
        listed += f"... ({len(commit.files) - _MOST_FILES:,} more files)\n"
    text = listed
    if commit.diff:
        text += f"\n{DIFF}:\n{_clean(commit.diff)}\n"
        if commit.omitted:
            text += f"... ({commit.omitted} lines omitted)\n"
    diff = len(listed) + 1 if commit.diff else len(text)
    return Rendered(title, text, len(head), diff, tuple(path_spans))


def format_time(second: int) -> str:
    """Format a time as ISO 8601; one outside the calendar is given as its number."""
    try:
        return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(second)


def _clean(text: str) -> str:
    """Normalise a text, so that character offsets into it are valid."""
    return normalise_text(text).rstrip("\n")


def _clean_line(text: str) -> str:
    return _clean(text).replace("\n", " ")


def prepare_commit(commit: Commit, sizes: Sizes, count: Callable[[str], int]) -> Prepared:
    """Prepare everything about one commit except its vectors."""
    rendered = render(commit)
    text, uri = rendered.text, commit.hash
    sections = rendered.sections()
    encoded = text.encode("utf-8")
    rows, entries, texts = _chunk_head(commit, rendered, sections, sizes, count)
    if rendered.diff < len(text):
        rows.append(_make_row(uri, text, rendered.diff, len(text), len(sections) - 1, (DIFF,), b""))
        entries.append(("", "", "", _analyse_diff(text[rendered.diff :])))
    version = Version(
        uri=uri,
        lane="commits",
        language="git",
        title=rendered.title,
        body=0,
        metadata=_dump_metadata(commit),
        warnings=(),
        tags=(),
        fingerprint=Fingerprint(
            len(encoded), commit.committed * 10**9, commit.authored * 10**9, 0
        ),
        settled=False,
        raw_sha=sha256(encoded).digest(),
        text_sha=sha256(encoded).digest(),
        text=compress(encoded, FASTEST),
        text_bytes=len(encoded),
        sections=make_section_rows(sections),
        chunks=rows,
        links=_make_links(commit, rendered),
        names=[],
        # Not the title: it is a large part of so short a text and would count twice.
        name_terms=("", " ".join((uri, *(uri[:n] for n in _SHORT_HASHES))), "", "", ""),
        entries=entries,
        embedded={},
    )  # fmt: skip
    return Prepared(version, texts)


def _dump_metadata(commit: Commit) -> str:
    metadata = {
        "author": commit.author,
        "committer": commit.committer,
        "authored": commit.authored,
        "committed": commit.committed,
        "parents": list(commit.parents),
        "files": len(commit.files),
        "omitted": commit.omitted,
    }
    return json.dumps({"commit": metadata}, ensure_ascii=False, sort_keys=True)


def _chunk_head(
    commit: Commit,
    rendered: Rendered,
    sections: Sequence[Section],
    sizes: Sizes,
    count: Callable[[str], int],
) -> tuple[list[ChunkRow], list[tuple[str, ...]], dict[bytes, str]]:
    """Chunk the message and the paths, which searches match."""
    uri, text, end = commit.hash, rendered.text, rendered.diff
    # The author and issue numbers are searchable names but say nothing about the content.
    names = analyse(" ".join((commit.author, *_NUMBERED.findall(text[: rendered.files]))))
    if end <= _ONE_CHUNK:
        message = _drop_boilerplate(text[: rendered.files])
        embedded = f"{message}\n{_list_path_words(commit)}"
        content = content_name("", (), embedded)
        row = _make_row(uri, text, 0, end, 0, (), content)
        return [row], [("", names, analyse(embedded), "")], {content: embedded}
    head = Document(
        uri=uri, text=text[:end], title=rendered.title, lane="commits", language="git", body=0,
        sections=tuple(section for section in sections if section.title != DIFF),
    )  # fmt: skip
    rows: list[ChunkRow] = []
    entries: list[tuple[str, ...]] = []
    texts: dict[bytes, str] = {}
    for chunk in chunk_document(head, sizes, count):
        start, stop = chunk.span.start, chunk.span.end
        rows.append(
            _make_row(uri, text, start, stop, chunk.section, chunk.path, chunk.content,
                      chunk.overlap, chunk.part, chunk.parts, chunk.id)
        )  # fmt: skip
        message = _drop_boilerplate(text[start:stop])
        entries.append(("", names, analyse(message), ""))
        title = f"{_drop_boilerplate(rendered.title)}\n" if start else ""
        texts[chunk.content] = f"{title}{message}"
    return rows, entries, texts


def _list_path_words(commit: Commit) -> str:
    """Return the parts of the changed paths, each once: a folder may occur in hundreds of paths."""
    parts = (part for file in commit.files for part in file.path.split("/"))
    return " ".join(list(dict.fromkeys(parts))[:_MOST_PATH_WORDS])


def _drop_boilerplate(message: str) -> str:
    """Remove what git and code hosts wrote into a message."""
    return _NUMBERED.sub(" ", _FORK.sub(" ", _MERGE.sub("", message.strip())))


def _make_row(
    uri: str,
    text: str,
    start: int,
    end: int,
    section: int,
    path: tuple[str, ...],
    content: bytes,
    overlap: int = 0,
    part: int = 1,
    parts: int = 1,
    identifier: str = "",
) -> ChunkRow:
    passage = text[start:end]
    content = content or content_name("", path, passage)
    first = text.count("\n", 0, start) + 1
    return (
        bytes.fromhex(identifier or chunk_id(uri, content, 0)),
        content,
        section,
        PATH_SEPARATOR.join(path),
        start,
        end,
        first,
        first + text.count("\n", start, end - 1),
        overlap,
        part,
        parts,
        sha256(passage.encode("utf-8")).digest(),
    )


def _analyse_diff(diff: str) -> str:
    """Return the terms of the changed lines, each once, because a diff repeats itself."""
    lines = (
        line[1:]
        for line in diff.split("\n")
        if line[:1] in ("+", "-") and line[:4] not in ("+++ ", "--- ")
    )
    changed = "\n".join(lines)[:_MOST_CHANGED]
    return " ".join(dict.fromkeys(analyse(changed).split(" ")))


def _make_links(commit: Commit, rendered: Rendered) -> list[LinkRow]:
    """Link the commit to the paths it changes, so that a path leads to its commits."""
    rows: list[LinkRow] = []
    for number, file in enumerate(commit.files[:_MOST_LINKS]):
        start, end = rendered.lines[number] if number < len(rendered.lines) else (0, 0)
        rows.append(("link", file.path, "", file.status, start, end, ""))
        if file.before:
            rows.append(("link", file.before, "", file.status, start, end, ""))
    return rows
