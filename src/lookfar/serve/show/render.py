"""Results for people: short, coloured on a terminal, plain everywhere else.

Takes: the frozen data of :mod:`lookfar.model`. Gives: text for stdout. Refuses:
to interpret anything in a document: no markup, no escape sequence and no
control character of it reaches the terminal as such.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lookfar.errors import how_many
from lookfar.model import ROOT_HEADING
from lookfar.serve.show.breadcrumbs import Breadcrumbs, also_at
from lookfar.serve.show.printable import safe_name, safe_text
from lookfar.serve.show.receipts import saved

if TYPE_CHECKING:
    from rich.text import Text

    from lookfar.model import (
        Answer,
        CommitInfo,
        Contribution,
        EditedDocument,
        EditResult,
        Failure,
        GenerationDiff,
        GenerationInfo,
        Hit,
        Incomplete,
        IndexReport,
        LinkChange,
        Listed,
        Outline,
        Pruned,
        Reading,
        Related,
        RelatedEntry,
        Ruling,
        Status,
        UndoStep,
        Validation,
        VectorPass,
        Violation,
        WhyNot,
    )

_EXCERPT_LINES = 5
_LONGEST_LINE = 160
_NAMED_FAILURES = 5
_NAMED_FILES = 10
_DIFF_HEAD = 2
"""Lines of a diff that name the document."""
_SHORT_HASH = 10
_COMMIT_HEAD = ("Author: ", "Committer: ", "Date: ")
"""Lines of a commit that its own line says already."""
_MB = 1_000_000
_WORTH_A_SPEED = 100_000
_WORD = re.compile(r"\w+")
_FUNCTION_WORDS = frozenset(
    (
        *("and", "any", "are", "can", "could", "did", "does", "for", "from", "get", "had", "has"),
        *("have", "how", "into", "its", "not", "our", "should", "that", "the", "their", "them"),
        *("there", "these", "they", "this", "those", "was", "were", "what", "when", "where"),
        *("which", "who", "why", "will", "with", "would", "you", "your"),
    )
)

STATES = {
    "moved": "moved within its file since it was indexed",
    "changed": "CHANGED on the disk since it was indexed: this is the indexed text",
    "gone": "GONE from the disk since it was indexed: this is the indexed text",
}
_RELATED = {
    "links": "links to",
    "backlinks": "linked from",
    "similar": "similar",
    "community": "same community",
    "definitions": "defined",
    "mentions": "mentioned",
    "commits": "changed by",
    "memories": "remembered in",
}
_RULED = {
    "not_ignored": "an ignore file brings it back",
    "masked": "passages that look like secrets are masked",
    "included": "it is among sources.include",
    "denied": "denied, whatever the settings say",
    "secret": "a file of secrets by its name and what it holds",
    "excluded": "excluded",
    "ignored": "ignored",
    "binary": "binary",
    "not_included": "not among sources.include",
    "too_large": "too large",
    "too_deep": "too deep",
    "symlink": "a symbolic link",
    "hard_link": "a file with further names",
    "no_parser": "of a format that is not understood",
    "not_a_file": "no regular file",
    "gone": "not there",
    "unreadable": "it cannot be read",
}
_SKIPPED = {
    "denied": "denied: secrets, dependencies, build output (target/, build/, ...)",
    "excluded": "excluded by your settings",
    "ignored": "ignored by .gitignore",
    "binary": "binary",
    "not_included": "not among sources.include",
    "too_large": "larger than sources.max_file_bytes",
    "too_deep": "deeper than sources.max_depth",
    "symlink": "symbolic links",
    "hard_link": "files with further names (hard links)",
    "no_parser": "of a format that is not understood",
    "ignore_file": "ignore files that cannot be used",
    "bad_name": "with a name that cannot be a path everywhere",
    "not_a_file": "pipes, sockets and devices",
    "secret": "secrets by their name and what they hold (see sources.allow_secrets)",
}
_TOLD_FIRST = ("denied", "secret")
"""With examples: someone may miss what they keep out."""


def answer(found: Answer, *, explain: bool = False) -> str:
    """The hits of a search, numbered, and what may be missing from them."""
    lines: list[Text] = []
    words = _telling_words(found.query)
    several = len(found.generations) > 1
    headings = Breadcrumbs()
    for number, hit in enumerate(found.hits, start=1):
        lines += _hit(number, hit, words, explain, several, headings.of(hit))
        lines.append(styled())
    for document in found.documents:
        lines.append(_listed(document, several))
    if not found.hits and not found.documents:
        lines += [styled(("Nothing found.", "bold")), styled()]
    count = how_many(len(found.hits), "hit")
    if found.documents:
        count = f"{len(found.documents)} of {how_many(found.total, 'document')}"
    state = ", ".join(f"{name} {number}" for name, number in found.generations.items())
    state = state if several else str(found.generation)
    footer = f"{count} in {found.took_ms:.0f} ms, {found.mode}, generation {state}"
    lines.append(styled((footer, "dim")))
    return printed([*lines, *notes(found.incomplete)])


def _listed(document: Listed, several: bool) -> Text:
    """A document that filters admit, in a line."""
    collection = f"{document.collection}: " if several else ""
    size = f"  {how_many(document.lines, 'line')}, {document.lane}"
    title = f"  {document.title}" if document.title else ""
    return styled((f"{collection}{document.uri}", "bold"), (title, ""), (size, "dim"))


def notes(incomplete: Sequence[Incomplete]) -> Iterator[Text]:
    for note in incomplete:
        yield styled((f"incomplete ({note.reason}): {note.detail}", "yellow"))
        for uri in _some(note.uris, _NAMED_FAILURES):
            yield styled((f"  {uri}", "yellow"))


def _hit(
    number: int, hit: Hit, words: frozenset[str], explain: bool, several: bool, headings: str
) -> Iterator[Text]:
    collection = f"{hit.collection}: " if several else ""
    place = f"{collection}{hit.uri}:{hit.span.start_line}-{hit.span.end_line}"
    yield styled((f"{number}. ", "bold"), (place, "bold cyan"), (f"  {hit.score:.3f}", "dim"))
    # Commits and memories have no headings: what they are called says more.
    called = hit.title if headings == ROOT_HEADING and hit.title else headings
    yield styled(("   " + called, "green"))
    if also := also_at(hit, several):
        yield styled(("   " + also, "dim"))
    if hit.state != "same":
        yield styled((f"   {STATES[hit.state]}", "bold red"))
    if hit.comment:
        yield styled(("   a comment in source code", "dim"))
    if hit.stale:
        named = ", ".join(_some(hit.stale, _NAMED_FAILURES))
        yield styled((f"   STALE memory: changed since it was written: {named}", "bold red"))
    text_lines = hit.text.rstrip("\n").split("\n")
    shown_lines = [safe_text(each).expandtabs(4) for each in text_lines]
    answering = hit.focus[0].start_line - hit.span.start_line if hit.focus else None
    chosen = _window(shown_lines, words, hit.heading_path[-1], answering)
    for offset, content in chosen:
        line = styled((f"   {hit.span.start_line + offset:>5}  ", "dim"))
        line.append_text(_highlighted(_cut(content, words), words))
        yield line
    if explain:
        yield from _contributions(hit.explanation)


def _contributions(explanation: Sequence[Contribution]) -> Iterator[Text]:
    for part in explanation:
        yield styled((f"   {part.value:+.4f}  {part.stage}: {part.note}", "dim"))


def _window(
    lines: Sequence[str], words: frozenset[str], heading: str, answering: int | None = None
) -> list[tuple[int, str]]:
    """The few neighbouring lines that say most about the question, with their numbers: those
    around the line that answers, where that is known."""
    told = [(number, line) for number, line in enumerate(lines) if line.strip()]
    if told and told[0][1].lstrip().startswith("#") and len(told) > 1:
        told = told[1:]  # The heading is in the breadcrumb already.
    if answering is not None and told:
        at = next((at for at, (number, _) in enumerate(told) if number >= answering), 0)
        start = max(0, min(at - 1, len(told) - _EXCERPT_LINES))
        return told[start : start + _EXCERPT_LINES]
    found = [words & _terms(line) for _, line in told]
    if not any(found):  # Found by meaning alone: start at the section that was found.
        found = [frozenset({heading} & {line.strip("#= ")}) for _, line in told]

    def worth(at: int) -> tuple[int, int, bool, int]:
        """Different words first, then all of them, then a match in the first line."""
        inside = found[at : at + _EXCERPT_LINES]
        return len(frozenset().union(*inside)), sum(map(len, inside)), any(inside[:1]), -at

    best = max(range(max(len(told) - _EXCERPT_LINES, 0) + 1), key=worth)
    return told[best : best + _EXCERPT_LINES]


def report(done: IndexReport, index_dir: str) -> str:
    """What an indexing pass did."""
    total = done.added + done.changed + done.unchanged
    embedded = f"{how_many(done.chunks_embedded, 'chunk')} embedded in {done.seconds:.1f} s"
    if done.text_bytes >= _WORTH_A_SPEED and done.seconds:
        embedded += f", {done.text_bytes / _MB / done.seconds:.1f} MB/s"
    lines = [
        styled(
            (how_many(total, "document"), "bold"),
            (f" in {done.root}: {done.added:,} added, {done.changed:,} changed, ", ""),
            (f"{done.removed:,} removed, {done.unchanged:,} unchanged", ""),
        ),
        styled((embedded, "")),
        styled((f"generation {done.generation} in {index_dir}", "dim")),
    ]
    if not total:
        lines.insert(1, styled(("Nothing to search: no file here was indexed.", "bold yellow")))
    for why in _TOLD_FIRST:
        if count := done.skipped.get(why, 0):
            lines.append(styled((f"{count:,} skipped, {_SKIPPED[why]}", "yellow")))
            lines += [styled((f"  {uri}", "dim")) for uri in done.skipped_examples.get(why, ())]
    if done.masked:
        told = f"{how_many(done.masked, 'document')} with masked secrets; lookfar why names them"
        lines.append(styled((told, "yellow")))
        lines += [styled((f"  {uri}", "dim")) for uri in done.masked_examples]
    others = [(why, n) for why, n in done.skipped.items() if why not in _TOLD_FIRST and n]
    for why, count in sorted(others, key=lambda each: -each[1]):
        lines.append(styled((f"{count:,} skipped, {_SKIPPED.get(why, why)}", "dim")))
    lines += _failures(done.failures)
    return printed(lines)


def reading(read: Reading) -> str:
    """A document or a part of it: to a terminal made safe, to a file or pipe exactly."""
    if not sys.stdout.isatty():
        return read.text
    return safe_text(read.text)


def outline(tree: Outline) -> str:
    """The heading tree, or what code defines, each with its first line."""
    symbols = {each.section: each for each in tree.symbols}
    width = len(str(tree.lines))
    head = f"{tree.uri}  {tree.lines:,} lines, {tree.language}"
    lines = [styled((head, "bold cyan"))]
    if tree.tags:
        lines.append(styled((f"tags: {', '.join(tree.tags)}", "dim")))
    for section in tree.sections:
        indent = "  " * (section.level - 1)
        symbol = symbols.get(section.ordinal)
        # A signature says all; a kind tells what a name without one is.
        shown = symbol.signature if symbol and symbol.signature else section.title
        line = styled((f"{section.span.start_line:>{width}}  ", "dim"), (indent + shown, ""))
        if symbol is not None and symbol.kind not in shown.split():
            line.append_text(styled((f"  {symbol.kind}", "dim")))
        lines.append(line)
    if not tree.sections:
        lines.append(styled(("no headings", "dim")))
    return printed(lines)


def ruling(found: Ruling) -> str:
    """Whether a path may be indexed, and by which rule."""
    word = "may be indexed" if found.admitted else "stays out"
    style = "green" if found.admitted else "bold yellow"
    lines = [styled((f"{found.uri}  ", "bold cyan"), (word, style))]
    if found.reason == "admitted":
        lines.append(styled(("no rule keeps it out", "")))
    else:
        on = "" if found.decided == found.uri else f" ({found.decided})"
        lines.append(styled((_RULED.get(found.reason, found.reason) + on, "")))
    if found.rule:
        place = f"{found.place}: " if found.place else ""
        lines.append(styled((f"  {place}{found.rule}", "dim")))
    if found.indexed != found.admitted:
        now = "in the index" if found.indexed else "not in the index yet"
        lines.append(styled((f"it is {now}", "dim")))
    return printed(lines)


def why_not(found: WhyNot) -> str:
    """Why a document is not among the hits, and how its score came about."""
    style = "green" if found.verdict == "shown" else "bold yellow"
    lines = [styled((f"{found.uri}  ", "bold cyan"), (found.verdict.replace("_", " "), style))]
    lines.append(styled((found.detail, "")))
    lines += _contributions(found.explanation)
    return printed(lines)


def related(found: Related) -> str:
    """What has to do with a document, kind by kind, and why."""
    part = f"#{' > '.join(found.heading_path)}" if found.heading_path else ""
    lines = [styled((found.uri + part, "bold cyan"), (f"  {found.title}", ""))]
    for kind, total in found.totals.items():
        entries = [each for each in found.entries if each.kind == kind]
        more = f" of {total:,}" if total > len(entries) else ""
        lines += [styled(), styled((_RELATED[kind], "bold"), (f"  {len(entries):,}{more}", "dim"))]
        for each in entries:
            lines += _related(each)
    lines += notes(found.incomplete)
    return printed(lines)


def _related(entry: RelatedEntry) -> Iterator[Text]:
    """An entry: a link with the line it stands on, anything else with its score."""
    name = entry.uri or entry.target
    backwards = entry.kind == "backlinks"
    place = f":{entry.line}" if entry.line and entry.kind != "links" else ""
    line = styled((f"  {name}{place}", "cyan" if entry.resolved else "yellow"))
    if entry.title:
        line.append_text(styled((f"  {entry.title}", "")))
    told = [] if entry.resolved else ["not there"]
    if entry.relation not in (None, "links_to"):
        told.append(str(entry.relation))
    if entry.count > 1:
        told.append(f"{entry.count:,} links")
    if entry.kind == "links":
        told.append(f"line {entry.line:,}")
    if entry.anchor and not backwards:
        told.append(f"#{entry.anchor}")
    if entry.kind == "mentions":
        told = [f"{entry.count:,} times"] if entry.count > 1 else []
    elif not entry.relation and entry.kind not in ("definitions", "commits"):
        told.append(f"{entry.score:.3f}")
    line.append_text(styled((f"  {', '.join(told)}", "dim")) if told else styled())
    yield line
    if entry.context:
        yield styled((f"      {entry.context}", "dim"))


def status(state: Status) -> str:
    """What is indexed, where, and how well."""
    lines = [styled((state.collection, "bold"), (f"  {state.root}", ""))]
    if not state.indexed:
        lines.append(styled(("not indexed yet; search it, or run: lookfar index", "yellow")))
        lines.append(styled((f"its index will lie in {state.index_dir}", "dim")))
        return printed([*lines, *_failures(state.failures)])
    counts, kept = state.counts, ", ".join(map(str, state.generations))
    model = f"{state.model}, {state.dimensions} dimensions" if state.dimensions else "none"
    rows = [
        ("documents", f"{counts.documents:,}"),
        ("sections", f"{counts.sections:,}"),
        ("chunks", f"{counts.chunks:,}"),
        ("links", f"{counts.links:,}"),
        ("generation", f"{state.generation} of {state.created_at} (kept: {kept})"),
        ("model", model),
        ("index", f"{state.index_dir} ({_size(state.disk_bytes)})"),
        *_vectors(state.vectors),
        *(
            [("answers", saved(state.receipts))]
            if state.receipts and state.receipts.answers
            else []
        ),
    ]
    lines += [styled((f"{name:<11}", "dim"), (value, "")) for name, value in rows]
    if state.held is not None:
        held = f"held at generation {state.held} since a roll-back; lookfar index lets go of it"
        lines.append(styled((held, "yellow")))
    if state.damage:
        lines.append(styled((f"damaged and rebuilt {state.damage}", "yellow")))
    if not state.current:
        lines.append(
            styled(("made with other settings: the next search or index renews it", "yellow"))
        )
    if state.stale_count:
        count = how_many(state.stale_count, "file")
        lines.append(styled((f"{count} added, changed or removed since:", "yellow")))
        lines += [styled((f"  {uri}", "yellow")) for uri in _some(state.stale, _NAMED_FILES)]
    else:
        lines.append(styled(("true to the disk", "green")))
    lines += _failures(state.failures)
    return printed(lines)


def history(
    found: Sequence[CommitInfo],
    hits: Sequence[Hit],
    incomplete: Sequence[Incomplete],
    query: str = "",
) -> str:
    """Commits, a line each as people know them from git; below each what answers a question."""
    lines: list[Text] = []
    several = len({each.collection for each in found}) > 1
    words = _telling_words(query)
    for at, each in enumerate(found):
        name = each.author.partition(" <")[0]
        lines.append(
            styled(
                (each.hash[:_SHORT_HASH], "bold yellow"),
                (f"  {each.committed_at[:10]}  ", "dim"),
                (f"{each.collection}: " if several else "", "dim"),
                (f"{name}  ", "cyan"),
                (each.title, ""),
                (f"  {how_many(each.files, 'file')}", "dim"),
            )
        )
        if at < len(hits):
            shown = [
                safe_text(line).expandtabs(4)
                for line in hits[at].text.rstrip("\n").split("\n")
                if line != each.title and not line.startswith(_COMMIT_HEAD)
            ]
            for _, content in _window(shown, words, ""):
                line = styled(("     ", ""))
                line.append_text(_highlighted(_cut(content, words), words))
                lines.append(line)
    if not found:
        lines.append(styled(("No such commit.", "bold")))
    return printed([*lines, *notes(incomplete)])


def snapshots(kept: Sequence[GenerationInfo], held: int | None) -> str:
    """The kept generations, the newest first."""
    lines: list[Text] = []
    for each in reversed(kept):
        did = f"+{each.added:,} ~{each.changed:,} -{each.removed:,} in {each.seconds:.1f} s"
        state = [
            name for name, is_so in (("active", each.active), ("pinned", each.pinned)) if is_so
        ]
        lines.append(
            styled(
                (f"{each.number:>5}", "bold green" if each.active else "bold"),
                (f"  {each.created_at}  ", "dim"),
                (f"{how_many(each.counts.documents, 'document')}, ", ""),
                (f"{how_many(each.counts.chunks, 'chunk')}, {did}, {each.model}", ""),
                (f"  {', '.join(state)}" if state else "", "green"),
            )
        )
    if held is not None:
        told = f"held at generation {held} since a roll-back; lookfar index lets go of it"
        lines.append(styled((told, "yellow")))
    return printed(lines)


def diff(found: GenerationDiff) -> str:
    """Documents that came, went and changed, and the sections inside the changed ones."""
    lines = [styled((f"+ {uri}", "green")) for uri in found.added]
    lines += [styled((f"- {uri}", "red")) for uri in found.removed]
    for each in found.changed:
        lines.append(styled((f"~ {each.uri}", "yellow")))
        for sign, style, paths in (
            ("+", "green", each.added),
            ("-", "red", each.removed),
            ("~", "yellow", each.changed),
        ):
            lines += [
                styled((f"    {sign} {' > '.join(path) or ROOT_HEADING}", style)) for path in paths
            ]
    told = (
        f"{len(found.added):,} added, {len(found.removed):,} removed, {len(found.changed):,}"
        f" changed from generation {found.older} to {found.newer}"
    )
    return printed([*lines, styled((told, "bold"))])


def pruned(went: Pruned) -> str:
    """What retention let go of."""
    versions = how_many(went.documents, "document version")
    told = f"{how_many(went.generations, 'generation')} and {versions} removed"
    kept = f"kept: {', '.join(map(str, went.kept))}"
    return printed([styled((told, "bold")), styled((kept, ""))])


def edited(done: EditResult) -> str:
    """What an edit changed; of a dry run the diffs, as nobody can look at the files for them."""
    lines: list[Text] = []
    for each in done.documents:
        lines.append(_edited(each, done.dry_run))
        if done.dry_run:
            lines += _coloured(each.diff)
    lines += [_misled(each, done.dry_run) for each in done.links]
    lines += [_violation(each.uri, each) for each in done.violations]
    lines += [styled((each, "yellow")) for each in done.warnings]
    if done.dry_run:
        lines.append(styled(("dry run: nothing was written", "bold")))
    return printed(lines)


def _edited(each: EditedDocument, dry_run: bool) -> Text:
    place = f":{each.span.start_line}-{each.span.end_line}" if each.span else ""
    would = "would be " if dry_run and each.action != "unchanged" else ""
    digits = each.section_sha256 or each.after
    return styled(
        (f"{each.uri}{place}", "bold cyan"),
        (f"  {' > '.join(each.heading_path)}" if each.heading_path else "", "green"),
        (f"  {would}{each.action}", ""),
        (f"  {digits[:16]}" if digits else "", "dim"),
    )


def _coloured(diff: str) -> Iterator[Text]:
    """A unified diff as people know it from git."""
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    for at, line in enumerate(diff.split("\n")[:-1]):
        style = "bold" if at < _DIFF_HEAD else styles.get(line[:1], "")
        yield Text(safe_text(line), style)


def _misled(each: LinkChange, dry_run: bool) -> Text:
    meant = each.anchor or " > ".join(each.heading_path)
    where = f"link in {each.uri}:{each.line} to {meant}"
    if not each.becomes:
        return styled((f"{where} leads nowhere now", "bold yellow"))
    if each.rewritten:
        return styled((f"{where} {'would become' if dry_run else 'is now'} {each.becomes}", ""))
    return styled((f"{where} should be {each.becomes}; --rewrite-links does it", "yellow"))


def validations(found: Sequence[Validation]) -> str:
    """What breaks the rules for headings, as compilers write it."""
    lines: list[Text] = []
    for each in found:
        lines += [_violation(each.uri, violation) for violation in each.violations]
        if each.ok:
            lines.append(styled((f"{each.uri}  ", "bold cyan"), ("ok", "green")))
    return printed(lines)


def _violation(uri: str, each: Violation) -> Text:
    return styled(
        (f"{uri}:{each.start_line}: " if uri else f"line {each.start_line}: ", "bold cyan"),
        (f"{each.rule}: ", "yellow"),
        (f"{each.message} {each.suggested_fix}", ""),
    )


def undoable(steps: Sequence[UndoStep]) -> str:
    """The edits that can be taken back, the newest first."""
    lines = [
        styled(
            (f"{each.transaction:>5}", "bold"),
            (f"  {each.at}  ", "dim"),
            (", ".join(_some(each.uris, _NAMED_FILES)), "cyan"),
        )
        for each in steps
    ]
    return printed(lines or [styled(("No edit is kept that could be taken back.", ""))])


def _vectors(told: VectorPass | None) -> Iterator[tuple[str, str]]:
    """How the nearest vectors are found, where that is worth a word."""
    if told is not None and told.method == "coarse":
        recall = "not measured yet"
        if told.recall is not None:
            recall = f"recall@10 {told.recall:.3f} on {told.sample} stored ones"
        yield "vectors", f"{told.rows:,}, of which {told.kept:,} are compared; {recall}"


def _failures(failures: Sequence[Failure]) -> Iterator[Text]:
    if failures:
        yield styled((f"{how_many(len(failures), 'file')} could not be read:", "bold red"))
    shown = [f"  {each.uri}: {each.code}: {each.message}" for each in failures]
    for each in _some(shown, _NAMED_FAILURES):
        yield styled((each, "red"))


def _some(names: Sequence[str], most: int) -> list[str]:
    more = [f"... and {len(names) - most:,} more"] if len(names) > most else []
    return [*names[:most], *more]


def _size(count: int) -> str:
    return f"{count / _MB:,.1f} MB" if count >= _MB else f"{count / 1000:,.0f} kB"


# --- query words ------------------------------------------------------------------------------


def _terms(text: str) -> frozenset[str]:
    from lookfar.store.keywords.analyser import terms_of

    return frozenset(terms_of(text))


def _telling_words(query: str) -> frozenset[str]:
    """The terms worth highlighting; function words would light up everywhere."""
    terms = _terms(query)
    telling = (term for term in terms if len(term) > 2 or not term.isascii())
    return frozenset(telling) - _FUNCTION_WORDS or terms


def _cut(line: str, words: frozenset[str]) -> str:
    """A line that is short enough to read, and holds its first match."""
    if len(line) <= _LONGEST_LINE:
        return line
    found = (match.start() for match in _WORD.finditer(line) if words & _terms(match[0]))
    at = next(found, 0)
    start = at - _LONGEST_LINE // 4 if at > _LONGEST_LINE * 3 // 4 else 0
    end = start + _LONGEST_LINE
    return "..." * (start > 0) + line[start:end] + "..." * (end < len(line))


def _highlighted(line: str, words: frozenset[str]) -> Text:
    from rich.text import Text

    shown = Text(line)
    for match in _WORD.finditer(line):
        if words & _terms(match[0]):
            shown.stylize("bold yellow", match.start(), match.end())
    return shown


# --- onto the terminal ------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns as wide as they need to be; on a terminal below their heads, which nobody
    who reads a pipe asked for."""
    from rich.cells import cell_len

    safe = [[safe_name(cell) for cell in row] for row in rows]
    shown = [list(heads), *safe] if sys.stdout.isatty() and rows else safe
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        cells = [
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        style = "dim" if row == list(heads) else ""
        first = "dim" if style else "cyan"
        lines.append(styled((cells[0], first), ("  " + "  ".join(cells[1:]), style)))
        lines[-1].rstrip()
    return printed(lines)


def styled(*parts: tuple[str, str]) -> Text:
    """A line of texts, each in its own style."""
    from rich.text import Text

    line = Text()
    for content, style in parts:
        line.append(safe_name(content), style or None)
    return line


def printed(lines: Iterable[Text]) -> str:
    """Lines as stdout should get them: rich knows about terminals, NO_COLOR and TERM."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(line)
    return captured.get()
