"""Making the store true to a repository: one pass, one new generation of commits.

Takes: a repository, a store, settings and an embedder. Gives: a report of the commits that
came and went. Refuses: to go by dates; what is new is what the branches have now and had
not when the generation before was made, so a commit that is fetched later with an earlier
date is found, and one that a rewritten branch let go of is forgotten.

The message and the paths of a commit are read at a tenth of what its diff costs. Where
many commits are new, a question gets those first; diffs come with the next pass.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from zlib import compress

from lookfar.embed.providers import WITHOUT_MODEL
from lookfar.index.prepare import Prepared, embed, section_rows
from lookfar.index.progress import CheckpointTimer, OnProgress, Progress
from lookfar.index.recipe import CHUNKING, epoch_fingerprint, policy_from, sizes_from
from lookfar.model import Document, Fingerprint, IndexReport, Section, Span
from lookfar.ports import PATH_SEPARATOR, Version
from lookfar.sources.git.history import (
    Commit,
    commits_of,
    is_partial,
    present,
    read_commits,
    refs_of,
    shallow_of,
    stamp_of,
)
from lookfar.sources.git.repositories import Repository
from lookfar.sources.secrets.screen import mask_diff
from lookfar.store.catalogue.migrations import FORMAT
from lookfar.store.keywords.analyser import analyse
from lookfar.text.chunk.headings import chunk
from lookfar.text.chunk.identity import chunk_id, content_name
from lookfar.text.normalise import normalise

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.ports import ChunkRow, Embedder, Known, LinkRow
    from lookfar.store.opening import Store
    from lookfar.store.sqlite.write_session import EpochWriter
    from lookfar.text.chunk.headings import Sizes

RENDERING = 3
"""Raise whenever the same commit would give another text."""

MESSAGE, FILES, DIFF = "Message", "Files", "Diff"
_FASTEST = 1
_BATCH = 256
_FEW_COMMITS = 500
"""Whose diffs are read at once."""
_MOST_FILES = 200
_MOST_LINKS = 5_000
_ONE_CHUNK = 1_600
"""Characters that need no cutting."""
_MOST_CHANGED = 4_000
_SHORT_HASHES = (7, 8, 9, 10, 12)
_TITLE_SHOWN = 300

_MERGE = re.compile(r"^Merge (?:pull request|branch|remote-tracking branch) ")
_NUMBERED = re.compile(r"#\d+")
_FORK = re.compile(r"\bfrom [\w-]+/")
"""What forges and git write into messages by themselves: it says nothing about the change."""


def history_fingerprint(settings: Settings, embedder: Embedder | None) -> str:
    """Equal exactly when commits of two passes can live in one epoch."""
    recipe = f"{epoch_fingerprint(settings, embedder)}; commits {RENDERING}"
    recipe += f"; diff lines {settings.git.diff_lines}"
    return sha256(recipe.encode()).hexdigest()[:32]


def scope_of(settings: Settings) -> str:
    """What decides which commits belong to the collection, in a form to compare."""
    return json.dumps([settings.git.max_commits, sorted(settings.git.branches)])


# --- a commit as a document -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a commit and where its parts begin."""

    title: str
    text: str
    files: int
    diff: int
    """Equal to the length of the text where there is none."""
    lines: tuple[tuple[int, int], ...]
    """Where each path that is listed stands."""

    def sections(self) -> list[Section]:
        starts = [(MESSAGE, 0), (FILES, self.files), (DIFF, self.diff)]
        kept = [(name, at) for name, at in starts if at < len(self.text)]
        ends = [*(at for _, at in kept[1:]), len(self.text)]
        found = []
        for ordinal, ((name, start), end) in enumerate(zip(kept, ends, strict=True)):
            first = self.text.count("\n", 0, start) + 1
            last = first + self.text.count("\n", start, end - 1)
            body = start if name == MESSAGE else self.text.index("\n", start) + 1
            span = Span(start, end, first, last)
            found.append(Section(ordinal, -1, 1, name, (name,), span, body))
        return found


def render(commit: Commit) -> Rendered:
    """One text per commit: message, who and when, paths, the beginning of the diff."""
    title = _clean(commit.title)[:_TITLE_SHOWN]
    message = _clean(f"{commit.title}\n\n{commit.body}" if commit.body else commit.title).strip()
    head = f"{message or '(no message)'}\n\n"
    lines = [
        f"Author: {_line(commit.author)}",
        f"Committer: {_line(commit.committer)}",
        f"Date: {moment(commit.committed)}",
        f"{FILES}:" if commit.files else f"{FILES}: none",
    ]
    listed = head + "\n".join(lines) + "\n"
    places: list[tuple[int, int]] = []
    for each in commit.files[:_MOST_FILES]:
        path = _line(each.path)
        shown = f"{each.status} {_line(each.before)} -> {path}" if each.before else path
        shown = shown if each.before else f"{each.status} {path}"
        end = len(listed) + len(shown)
        places.append((end - len(path), end))
        listed += f"{shown}\n"
    if len(commit.files) > _MOST_FILES:
        listed += f"... ({len(commit.files) - _MOST_FILES:,} more files)\n"
    text = listed
    if commit.diff:
        text += f"\n{DIFF}:\n{_clean(commit.diff)}\n"
        if commit.omitted:
            text += f"... ({commit.omitted} lines omitted)\n"
    diff = len(listed) + 1 if commit.diff else len(text)
    return Rendered(title, text, len(head), diff, tuple(places))


def moment(second: int) -> str:
    """A time in ISO form; one that no calendar has, as its number."""
    try:
        return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(second)


def _clean(text: str) -> str:
    """Text as offsets may refer to it."""
    return normalise(text.encode("utf-8", "surrogatepass"))[0].rstrip("\n")


def _line(text: str) -> str:
    return _clean(text).replace("\n", " ")


def prepare_commit(commit: Commit, sizes: Sizes, count: Callable[[str], int]) -> Prepared:
    """Everything about one commit but its vectors."""
    made = render(commit)
    text, uri = made.text, commit.hash
    sections = made.sections()
    encoded = text.encode("utf-8")
    rows, entries, texts = _head(commit, made, sections, sizes, count)
    if made.diff < len(text):
        rows.append(_row(uri, text, made.diff, len(text), len(sections) - 1, (DIFF,), b""))
        entries.append(("", "", "", _changed(text[made.diff :])))
    version = Version(
        uri=uri,
        lane="commits",
        language="git",
        title=made.title,
        body=0,
        metadata=json.dumps(
            {
                "commit": {
                    "author": commit.author,
                    "committer": commit.committer,
                    "authored": commit.authored,
                    "committed": commit.committed,
                    "parents": list(commit.parents),
                    "files": len(commit.files),
                    "omitted": commit.omitted,
                }
            },
            ensure_ascii=False,
            sort_keys=True,
        ),
        warnings=(),
        tags=(),
        fingerprint=Fingerprint(
            len(encoded), commit.committed * 10**9, commit.authored * 10**9, 0
        ),
        settled=False,
        raw_sha=sha256(encoded).digest(),
        text_sha=sha256(encoded).digest(),
        text=compress(encoded, _FASTEST),
        text_bytes=len(encoded),
        sections=section_rows(sections),
        chunks=rows,
        links=_links(commit, made),
        names=[],
        # Not its title: that is a good part of so short a text, and would count twice.
        name_terms=("", " ".join((uri, *(uri[:n] for n in _SHORT_HASHES))), "", "", ""),
        entries=entries,
        embedded={},
    )  # fmt: skip
    return Prepared(version, texts)


def _head(
    commit: Commit,
    made: Rendered,
    sections: Sequence[Section],
    sizes: Sizes,
    count: Callable[[str], int],
) -> tuple[list[ChunkRow], list[tuple[str, ...]], dict[bytes, str]]:
    """The message and the paths: what a commit is found by."""
    uri, text, end = commit.hash, made.text, made.diff
    # Who made it and the numbers it goes by are names to be found by, no part of its meaning.
    names = analyse(" ".join((commit.author, *_NUMBERED.findall(text[: made.files]))))
    if end <= _ONE_CHUNK:
        told = f"{_told(text[: made.files])}\n{' '.join(each.path for each in commit.files)}"
        content = content_name("", (), told)
        row = _row(uri, text, 0, end, 0, (), content)
        return [row], [("", names, analyse(told), "")], {content: told}
    upper = Document(
        uri=uri, text=text[:end], title=made.title, lane="commits", language="git", body=0,
        sections=tuple(each for each in sections if each.title != DIFF),
    )  # fmt: skip
    rows: list[ChunkRow] = []
    entries: list[tuple[str, ...]] = []
    texts: dict[bytes, str] = {}
    for each in chunk(upper, sizes, count):
        start, stop = each.span.start, each.span.end
        rows.append(
            _row(uri, text, start, stop, each.section, each.path, each.content,
                 each.overlap, each.part, each.parts, each.id)
        )  # fmt: skip
        told = _told(text[start:stop])
        entries.append(("", names, analyse(told), ""))
        texts[each.content] = told if not start else f"{_told(made.title)}\n{told}"
    return rows, entries, texts


def _told(message: str) -> str:
    """A message without what was written into it automatically."""
    return _NUMBERED.sub(" ", _FORK.sub(" ", _MERGE.sub("", message.strip())))


def _row(
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
    cited = text[start:end]
    content = content or content_name("", path, cited)
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
        sha256(cited.encode("utf-8")).digest(),
    )


def _changed(diff: str) -> str:
    """The words of the lines that came and went, each once: a diff repeats itself."""
    lines = (
        line[1:]
        for line in diff.split("\n")
        if line[:1] in ("+", "-") and line[:4] not in ("+++ ", "--- ")
    )
    changed = "\n".join(lines)[:_MOST_CHANGED]
    return " ".join(dict.fromkeys(analyse(changed).split(" ")))


def _links(commit: Commit, made: Rendered) -> list[LinkRow]:
    """The paths that it touches, as links by which they are found again."""
    rows: list[LinkRow] = []
    for at, each in enumerate(commit.files[:_MOST_LINKS]):
        start, end = made.lines[at] if at < len(made.lines) else (0, 0)
        rows.append(("link", each.path, "", each.status, start, end, ""))
        if each.before:
            rows.append(("link", each.before, "", each.status, start, end, ""))
    return rows


# --- a pass -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a pass has to do."""

    new: Sequence[str]
    gone: Sequence[str]
    thin: Sequence[str]
    """Known commits whose diff is to be read now."""
    tips: Sequence[str]
    same: int


class HistoryBuild:
    """One pass over the commits of one repository."""

    def __init__(
        self,
        repository: Repository,
        collection: str,
        store: Store,
        settings: Settings,
        embedder: Embedder | None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._repository = repository
        self._collection = collection
        self._store = store
        self._settings = settings
        self._embedder = embedder
        self._count = embedder.count_tokens if embedder else _count_by_length
        self._on_progress = on_progress or (lambda _: None)
        self._tally: Counter[str] = Counter()
        self._partial = is_partial(repository)
        policy = policy_from(settings)
        verdicts: dict[str, bool] = {}

        def hidden(path: str) -> bool:
            if path not in verdicts:
                found = policy.verdict(path)
                kept_out = found is not None and found.reason in ("denied", "excluded")
                # Of a file that its content decides on, a diff shows too little to decide.
                verdicts[path] = kept_out or policy.secrets.rule_for(path) is not None
            return verdicts[path]

        self._hidden = hidden

    def run(
        self,
        *,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
        diffs: bool = True,
    ) -> IndexReport:
        """Ask git what is new, read that, activate. Without ``diffs``, those of many new
        commits are left to a later pass."""
        started = time.perf_counter()
        with self._store.writer(
            history_fingerprint(self._settings, self._embedder),
            self._embedder.dimensions if self._embedder else 1,
            model=self._embedder.fingerprint if self._embedder else "",
            about={"root": self._repository.top, "collection": self._collection},
            retain=self._settings.index.retain_generations,
            rebuild=rebuild,
            wait_seconds=wait_seconds,
            let_go=let_go,
        ) as writer:
            # Before the refs are read: what moves meanwhile shows as a change.
            stamp, settled = stamp_of(self._repository)
            shallow = shallow_of(self._repository)
            before = {} if writer.fresh else self._manifest_before()
            plan = self._plan(writer.known(), before, shallow, diffs)
            self._write(writer, plan, diffs)
            self._tally["embedded"] = writer.embedded
            moved = list(plan.tips) != before.get("tips") or shallow != before.get("shallow")
            if writer.fresh or moved or plan.new or plan.gone or plan.thin:
                generation = writer.activate(
                    {
                        "format": FORMAT,
                        "chunking": CHUNKING,
                        "model": self._embedder.name if self._embedder else WITHOUT_MODEL,
                        "model_fingerprint": (
                            self._embedder.fingerprint if self._embedder else WITHOUT_MODEL
                        ),
                        "added": self._tally["added"],
                        "changed": self._tally["changed"],
                        "removed": len(plan.gone),
                        "failures": 0,
                        "seconds": round(time.perf_counter() - started, 3),
                        "tips": list(plan.tips),
                        "scope": scope_of(self._settings),
                        "shallow": shallow,
                        "stamp": stamp if settled else "",
                        "thin": self._tally["thin"],
                        "partial": self._partial,
                    }
                )
            else:
                generation = writer.commit_touches()
        return IndexReport(
            collection=self._collection,
            root=self._repository.top,
            generation=generation,
            added=self._tally["added"],
            changed=self._tally["changed"],
            removed=len(plan.gone),
            unchanged=plan.same,
            chunks_embedded=self._tally["embedded"],
            failures=(),
            skipped={},
            skipped_examples={},
            seconds=time.perf_counter() - started,
            text_bytes=self._tally["text_bytes"],
        )

    def _manifest_before(self) -> dict[str, Any]:
        with self._store.snapshot() as snapshot:
            return dict(snapshot.manifest())

    def _plan(
        self, known: dict[str, Known], before: dict[str, Any], shallow: str, diffs: bool
    ) -> _Plan:
        repository, chosen = self._repository, self._settings.git
        tips = sorted({each.commit for each in refs_of(repository, chosen.branches)})
        seen: list[str] = before.get("tips", [])
        comparable = (
            before.get("scope") == scope_of(self._settings)
            and before.get("shallow") == shallow
            and len(present(repository, seen)) == len(seen)
        )
        if comparable:
            new = [
                each
                for each in commits_of(repository, tips, seen, chosen.max_commits)
                if each not in known
            ]
            gone = [each for each in commits_of(repository, seen, tips) if each in known]
        else:
            all_of_them = commits_of(repository, tips, most=chosen.max_commits)
            new = [each for each in all_of_them if each not in known]
            gone = sorted(set(known).difference(all_of_them))
        went = frozenset(gone)
        bare = [each for each, told in known.items() if not told.settled and each not in went]
        # They stay wanted: a partial clone may be made a whole one.
        thin = bare if diffs and chosen.diff_lines and not self._partial else []
        self._tally["thin"] = len(bare) - len(thin)
        return _Plan(new, gone, thin, tips, len(known) - len(gone) - len(thin))

    def _write(self, writer: EpochWriter, plan: _Plan, diffs: bool) -> None:
        for uri in plan.gone:
            writer.remove(uri)
        lines = self._settings.git.diff_lines
        few = diffs or len(plan.new) <= _FEW_COMMITS
        at_once = bool(lines) and few and not self._partial
        total = len(plan.new) + len(plan.thin)
        done = size = 0
        checkpoints = CheckpointTimer()
        self._on_progress(Progress(0, total, 0, 0))
        for kind, wanted, shown in (
            ("added", plan.new, lines if at_once else 0),
            ("changed", plan.thin, lines),
        ):
            for batch in self._prepared(wanted, shown):
                embed(batch, self._embedder, writer.missing)
                for each in batch:
                    each.version.settled = shown == lines
                    writer.put(each.version)
                    size += each.version.text_bytes
                self._tally[kind] += len(batch)
                done += len(batch)
                if writer.fresh:
                    checkpoints.run_if_due(writer.checkpoint)
                self._on_progress(Progress(done, total, size, size))
        if not at_once and lines:
            self._tally["thin"] += len(plan.new)
        self._tally["text_bytes"] = size

    def _prepared(self, commits: Sequence[str], lines: int) -> Iterator[list[Prepared]]:
        sizes = sizes_from(self._settings)
        batch: list[Prepared] = []
        stream = read_commits(
            self._repository, commits, diff_lines=lines, hidden=self._hidden, mask=mask_diff
        )
        for commit in stream:
            batch.append(prepare_commit(commit, sizes, self._count))
            if len(batch) >= _BATCH:
                yield batch
                batch = []
        if batch:
            yield batch


def _count_by_length(text: str) -> int:
    return -(-len(text) // 4)
