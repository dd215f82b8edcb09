"""Format results for people: coloured on a terminal, plain text elsewhere.

No markup, escape sequence or control character of a document reaches the terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final

from lookfar import model
from lookfar.collections.generations import describe_loss
from lookfar.common.lines import find_header
from lookfar.common.skip_reasons import (
    describe_group,
    explain_reason,
    is_chosen,
    name_example,
    sort_reasons,
)
from lookfar.common.waiting_sources import describe_waiting
from lookfar.errors import how_many
from lookfar.serve.show.breadcrumbs import Breadcrumbs, also_at
from lookfar.serve.show.call_routes import describe_route, list_steps
from lookfar.serve.show.locations import are_several, name_part, name_with_collection
from lookfar.serve.show.printable import safe_name, safe_text

if TYPE_CHECKING:
    from rich.text import Text

    from lookfar.retrieve.grep.find_in_text import Found


_EXCERPT_LINES = 5
_LONGEST_LINE = 160
_NAMED_FAILURES = 5
_NAMED_FILES = 10
_NAMED_SESSIONS: Final = 5
_DIFF_HEAD = 2
"""Lines of a diff that name the document."""
_SHORT_HASH = 10
_COMMIT_HEAD = ("Author: ", "Committer: ", "Date: ")
"""Lines of a commit that repeat its summary line."""
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
    "callers": "called by",
    "callees": "calls",
    "impact": "reached from",
    "tests": "tested by",
    "commits": "changed by",
    "memories": "remembered in",
}
_RULED = {
    "not_ignored": "an ignore file includes it again",
    "masked": "passages that look like secrets are masked",
    "included": "listed in sources.include",
}
_EXAMPLES = 5


def answer(result: model.Answer, *, explain: bool = False, brief: int = 0) -> str:
    """Format the hits of a search, and notes on what may be missing.

    ``brief`` limits the number of hits, and shows those after the first in two lines.
    """
    lines: list[Text] = []
    words = _highlighted_terms(result.query)
    several = are_several(result.generations)
    headings = Breadcrumbs()
    for number, hit in enumerate(result.hits[: brief or None], start=1):
        breadcrumb = "" if brief and number > 1 else headings.format(hit)
        lines += _hit(number, hit, words, explain, several, breadcrumb)
        lines.append(styled())
    for document in result.documents:
        lines.append(_listed(document, several))
    if not result.hits and not result.documents:
        lines += [styled(("Nothing found.", "bold")), styled()]
    count = how_many(len(result.hits), "hit")
    if 0 < brief < len(result.hits):
        count = f"{brief} of {count} (--full shows all)"
    if result.documents:
        count = f"{len(result.documents)} of {how_many(result.total, 'document')}"
    state = ", ".join(f"{name} {number}" for name, number in result.generations.items())
    state = state if len(result.generations) > 1 else str(result.generation)
    confidence = f", confidence {result.confidence}" if result.confidence else ""
    footer = f"{count}{confidence}, {result.took_ms:.0f} ms, {result.mode}, generation {state}"
    lines.append(styled((footer, "dim")))
    return printed([*lines, *notes(result.incomplete)])


def _listed(document: model.Listed, several: bool) -> Text:
    """Format a document that matches the filters."""
    size = f"  {how_many(document.lines, 'line')}, {document.lane}"
    title = f"  {document.title}" if document.title else ""
    name = name_with_collection(document, several)
    return styled((name, "bold"), (title, ""), (size, "dim"))


def notes(incomplete: Sequence[model.Incomplete]) -> Iterator[Text]:
    for note in incomplete:
        yield styled((str(note), "yellow"))
        for uri in _some(note.uris, _NAMED_FAILURES):
            yield styled((f"  {uri}", "yellow"))


def _hit(
    number: int, hit: model.Hit, words: frozenset[str], explain: bool, several: bool, headings: str
) -> Iterator[Text]:
    """Format a hit; without its headings, only its place and the line that answers."""
    place = f"{name_with_collection(hit, several)}{name_part(hit)}"
    yield styled((f"{number}. ", "bold"), (place, "bold cyan"), (f"  {hit.score:.3f}", "dim"))
    # Commits and memories have no headings, so their title is shown.
    heading = hit.title if headings == model.ROOT_HEADING and hit.title else headings
    if heading not in ("", model.ROOT_HEADING):
        yield styled(("   " + heading, "green"))
    if headings and hit.origin:
        yield styled((f"   from {hit.origin}", "dim"))
    if headings and (also := also_at(hit, several)):
        yield styled(("   " + also, "dim"))
    if hit.state != "same":
        yield styled((f"   {STATES[hit.state]}", "bold red"))
    if headings and hit.comment:
        yield styled(("   a comment in source code", "dim"))
    if hit.stale:
        named = ", ".join(_some(hit.stale, _NAMED_FAILURES))
        yield styled((f"   STALE memory: changed since it was written: {named}", "bold red"))
    if hit.drift:
        yield styled((f"   OUTDATED: {'; '.join(hit.drift)}", "bold red"))
    text_lines = hit.text.rstrip("\n").split("\n")
    safe_lines = [safe_text(line).expandtabs(4) for line in text_lines]
    answering = hit.focus[0].start_line - hit.span.start_line if hit.focus else None
    chosen = _window(safe_lines, words, hit.heading_path[-1], answering)
    if not headings:
        chosen = [part for part in chosen if part[0] >= (answering or 0)][:1]
    for offset, content in chosen:
        line = styled((f"   {hit.span.start_line + offset:>5}  ", "dim"))
        line.append_text(_highlight(_cut(content, words), words))
        if not headings:
            line.truncate(get_terminal_size().columns, overflow="ellipsis")
        yield line
    if explain:
        yield from _contributions(hit.explanation)


def _contributions(explanation: Sequence[model.Contribution]) -> Iterator[Text]:
    for part in explanation:
        yield styled((f"   {part.value:+.4f}  {part.stage}: {part.note}", "dim"))


def _window(
    lines: Sequence[str], words: frozenset[str], heading: str, answering: int | None = None
) -> list[tuple[int, str]]:
    """Return the lines around the answering line, or those that match best, with their offsets."""
    numbered = [(number, line) for number, line in enumerate(lines) if line.strip()]
    if numbered and numbered[0][1].lstrip().startswith("#") and len(numbered) > 1:
        numbered = numbered[1:]  # The breadcrumb already shows the heading.
    if answering is not None and numbered:
        at = next((at for at, (number, _) in enumerate(numbered) if number >= answering), 0)
        start = max(0, min(at - 1, len(numbered) - _EXCERPT_LINES))
        header = find_header(lines, numbered[at][0])
        if header is not None and header < numbered[start][0]:
            return [(header, lines[header]), *numbered[start + 1 : start + _EXCERPT_LINES]]
        return numbered[start : start + _EXCERPT_LINES]
    matched = [words & _terms(line) for _, line in numbered]
    if not any(matched):  # Found by vectors alone: start at the heading.
        matched = [frozenset({heading} & {line.strip("#= ")}) for _, line in numbered]

    def worth(at: int) -> tuple[int, int, bool, int]:
        """Prefer more different words, then more words, then a match in the first line."""
        inside = matched[at : at + _EXCERPT_LINES]
        return len(frozenset().union(*inside)), sum(map(len, inside)), any(inside[:1]), -at

    best = max(range(max(len(numbered) - _EXCERPT_LINES, 0) + 1), key=worth)
    return numbered[best : best + _EXCERPT_LINES]


def report(result: model.IndexReport, index_dir: str) -> str:
    total = result.added + result.changed + result.unchanged
    embedded = f"{how_many(result.chunks_embedded, 'chunk')} embedded in {result.seconds:.1f} s"
    if result.text_bytes >= _WORTH_A_SPEED and result.seconds:
        embedded += f", {result.text_bytes / _MB / result.seconds:.1f} MB/s"
    lines = [
        styled(
            (how_many(total, "document"), "bold"),
            (f" in {result.root}: {result.added:,} added, {result.changed:,} changed, ", ""),
            (f"{result.removed:,} removed, {result.unchanged:,} unchanged", ""),
        ),
        styled((embedded, "")),
        styled((f"generation {result.generation} in {index_dir}", "dim")),
    ]
    if not total:
        lines.insert(
            1, styled(("No files were indexed, so there is nothing to search.", "bold yellow"))
        )
    lines += _skipped(result.skipped, result.skipped_examples)
    if result.masked:
        text = f"{how_many(result.masked, 'document')} with masked secrets; see lookfar why"
        lines.append(styled((text, "yellow")))
        lines += [styled((f"  {uri}", "dim")) for uri in result.masked_examples]
    if result.warned:
        text = f"{how_many(result.warned, 'document')} whose text may not be exact:"
        lines.append(styled((text, "yellow")))
        lines += [
            styled((f"  {uri}: {warning}", "dim"))
            for uri, warning in result.warned_examples.items()
        ]
    lines += _failures(result.failures)
    return printed(lines)


def _skipped(counts: Mapping[str, int], examples: Mapping[str, Sequence[str]]) -> Iterator[Text]:
    """Format the skipped files by reason, with names unless a rule of the user chose them."""
    for reason in sort_reasons(counts):
        if not counts[reason]:
            continue
        chosen = is_chosen(reason)
        style = "dim" if chosen else "yellow"
        yield styled((f"{counts[reason]:,} skipped, {describe_group(reason)}", style))
        if chosen:
            continue
        names = [name_example(reason, uri) for uri in examples.get(reason, ())][:_EXAMPLES]
        more = counts[reason] - len(names)
        names += [f"... and {more:,} more"] if more > 0 and names else []
        yield from (styled((f"  {name}", "dim")) for name in names)


def skipped(entries: Sequence[model.Skipped]) -> str:
    """Format every skipped file with its reason."""
    lines: list[Text] = []
    for entry in entries:
        why = explain_reason(entry.reason, entry.uri)
        detail = f" ({entry.detail})" if entry.detail else ""
        lines.append(styled((f"{entry.uri}  ", "cyan"), (f"{entry.reason}: {why}{detail}", "")))
    summary = f"{len(entries):,} skipped" if entries else ""
    return printed([*lines, styled((summary or "Nothing was skipped.", "dim"))])


def reading(read: model.Reading) -> str:
    """Return the text of a document, escaped only on a terminal."""
    if not sys.stdout.isatty():
        return read.text
    return safe_text(read.text)


def found(read: model.Reading, parts: Found) -> str:
    """Return the matching parts of a document, and how many lines match."""
    count = f"{how_many(parts.matches, 'matching line')} in {read.uri}"
    if parts.left:
        count += f"; {len(parts.left):,} not shown"
    text = f"{parts.text}\n" if parts.text else ""
    return f"{safe_text(text)}{safe_name(count)}\n"


_EMBED_PROBLEMS: Final = {
    "not_indexed": "not a note",
    "not_found": "no such part",
    "ambiguous": "several parts have this name",
    "cycle": "shown above already",
    "too_deep": "nested too deeply",
    "too_large": "too large to show here",
}


def reading_with_embeds(read: model.Reading, embeds: Sequence[model.Embed]) -> str:
    """Return the text of a document with embedded notes below the lines that embed them."""
    text = "".join(_expand_embeds(read.text, embeds))
    return safe_text(text) if sys.stdout.isatty() else text


def _expand_embeds(text: str, embeds: Sequence[model.Embed]) -> Iterator[str]:
    offset = 0
    for embed in embeds:
        end = text.find("\n", embed.end) + 1 or len(text)
        if end > offset:
            yield text[offset:end]
            offset = end
        part = embed.reading
        if part is None:
            yield f"  | {embed.written}: {_EMBED_PROBLEMS[embed.problem]}\n"
            continue
        lines = f"{part.uri}:{part.span.start_line}-{part.span.end_line}"
        yield f"  | {embed.written}: {lines}  sha256 {part.sha256[:16]}\n"
        inside = "".join(_expand_embeds(part.text, embed.embeds))
        yield "".join(f"  | {line}\n" for line in inside.rstrip("\n").split("\n"))
    yield text[offset:]


def outline(tree: model.Outline) -> str:
    """Format the headings of a document, or the symbols of code, with their first lines."""
    symbols = {symbol.section: symbol for symbol in tree.symbols}
    width = len(str(tree.lines))
    head = f"{tree.uri}  {tree.lines:,} lines, {tree.language}"
    lines = [styled((head, "bold cyan"))]
    if tree.tags:
        lines.append(styled((f"tags: {', '.join(tree.tags)}", "dim")))
    for section in tree.sections:
        indent = "  " * (section.level - 1)
        symbol = symbols.get(section.ordinal)
        # Show the kind only if there is no signature.
        label = symbol.signature if symbol and symbol.signature else section.title
        line = styled((f"{section.span.start_line:>{width}}  ", "dim"), (indent + label, ""))
        if symbol is not None and symbol.kind not in label.split():
            line.append_text(styled((f"  {symbol.kind}", "dim")))
        if place := tree.place_at(section.span.start_line):
            line.append_text(styled((f"  #{place}", "dim")))
        lines.append(line)
    if not tree.sections and tree.places:
        lines += [
            styled((f"{number:>{width}}  ", "dim"), (f"#{label}", ""))
            for number, label in tree.places
        ]
    elif not tree.sections:
        lines.append(styled(("no headings", "dim")))
    return printed(lines)


def ruling(decision: model.Ruling) -> str:
    """Format whether a path may be indexed, and by which rule."""
    is_missing = decision.reason == "gone"
    verdict = "may be indexed" if decision.admitted else "skipped"
    style = "green" if decision.admitted else "bold yellow"
    if is_missing:
        verdict = explain_reason("gone", "")
    lines = [styled((f"{decision.uri}  ", "bold cyan"), (verdict, style))]
    if decision.reason == "admitted":
        lines.append(styled(("no rule excludes it", "")))
    elif is_missing and decision.decided == decision.uri:
        lines.append(styled(("no rule excludes this path", "")))
    elif is_missing:
        lines.append(styled((f"{decision.decided} is not a folder", "")))
    else:
        on = "" if decision.decided == decision.uri else f" ({decision.decided})"
        words = _RULED.get(decision.reason) or explain_reason(decision.reason, decision.decided)
        lines.append(styled((words + on, "")))
    if decision.rule and not is_missing:
        place = f"{decision.place}: " if decision.place else ""
        lines.append(styled((f"  {place}{decision.rule}", "dim")))
    if decision.indexed != decision.admitted:
        now = "in the index" if decision.indexed else "not in the index yet"
        lines.append(styled((f"it is {now}", "dim")))
    return printed(lines)


def why_not(result: model.WhyNot) -> str:
    """Format why a document is not among the hits, and the parts of its score."""
    style = "green" if result.verdict == "shown" else "bold yellow"
    lines = [styled((f"{result.uri}  ", "bold cyan"), (result.verdict.replace("_", " "), style))]
    lines.append(styled((result.detail, "")))
    lines += _contributions(result.explanation)
    return printed(lines)


def related(result: model.Related) -> str:
    """Format the related documents by kind."""
    part = f"#{' > '.join(result.heading_path)}" if result.heading_path else ""
    lines = [styled((result.uri + part, "bold cyan"), (f"  {result.title}", ""))]
    for kind, total in result.totals.items():
        entries = [entry for entry in result.entries if entry.kind == kind]
        more = f" of {total:,}" if total > len(entries) else ""
        lines += [styled(), styled((_RELATED[kind], "bold"), (f"  {len(entries):,}{more}", "dim"))]
        for entry in entries:
            lines += _related(entry)
    lines += notes(result.incomplete)
    return printed(lines)


def _related(entry: model.RelatedEntry) -> Iterator[Text]:
    """Format an entry: a link with its line, anything else with its score."""
    name = entry.uri or entry.target
    backwards = entry.kind == "backlinks"
    place = f":{entry.line}" if entry.line and entry.kind != "links" else ""
    line = styled((f"  {name}{place}", "cyan" if entry.resolved else "yellow"))
    if entry.title:
        line.append_text(styled((f"  {entry.title}", "")))
    details = [] if entry.resolved else ["missing"]
    if entry.relation not in (None, "links_to"):
        details.append(str(entry.relation))
    if entry.count > 1:
        details.append(f"{entry.count:,} links")
    if entry.kind == "links":
        details.append(f"line {entry.line:,}")
    if entry.anchor and not backwards:
        details.append(f"#{entry.anchor}")
    if entry.kind == "mentions":
        details = [f"{entry.count:,} times"] if entry.count > 1 else []
    elif entry.certain is not None:
        details = [] if entry.certain else ["by name"]
        details += [f"{entry.depth} calls away"] if entry.depth > 1 else []
    elif not entry.relation and entry.kind not in ("definitions", "commits"):
        details.append(f"{entry.score:.3f}")
    line.append_text(styled((f"  {', '.join(details)}", "dim")) if details else styled())
    yield line
    if entry.context:
        yield styled((f"      {entry.context}", "dim"))


def drift(report: model.DriftReport) -> str:
    """Format every place that names removed code or files, by document."""
    lines = []
    for item in report.drifts:
        lines.append(
            styled(
                (f"{item.uri}:{item.line}  ", "bold cyan"),
                (item.name, "bold"),
                (f"  {item.kind} {item.state}", "yellow"),
            )
        )
        where = f"moved to {item.now}" if item.now else f"was in {item.was}"
        removed, touched = (format_day(time) for time in (item.removed_at, item.touched_at))
        lines.append(styled((f"      {item.text}", "")))
        removal = f"      {where}; commit {item.commit[:8]} on {removed}"
        lines.append(styled((f"{removal}; line last changed on {touched}", "dim")))
    count = how_many(len(report.drifts), "place")
    documents = how_many(report.documents, "document")
    summary = f"{count} outdated; checked {report.claims:,} names in {documents}"
    lines.append(styled((summary, "yellow" if report.drifts else "green")))
    return printed([*lines, *notes(report.incomplete)])


def format_day(seconds: int) -> str:
    """Return the date of a time, in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def call_graph(result: model.CallGraph) -> str:
    """Format a call graph as a tree."""
    head = "called by" if result.direction == "callers" else "calls"
    lines = [styled((result.name, "bold cyan"), (f"  {result.uri}:{result.line}", "dim"))]
    lines.append(styled((head if result.nodes else f"{head} nothing that is indexed", "bold")))
    children: dict[int, list[int]] = {}
    for position, node in enumerate(result.nodes):
        children.setdefault(node.parent, []).append(position)
    waiting = [(position, 1) for position in reversed(children.get(-1, []))]
    while waiting:
        position, depth = waiting.pop()
        lines.append(_call_node(result.nodes[position], depth, result.direction))
        waiting += [(child, depth + 1) for child in reversed(children.get(position, []))]
    if not result.complete:
        lines.append(styled((f"and more; shown: {len(result.nodes):,}", "dim")))
    tests = sum(node.test for node in result.nodes)
    if tests and result.direction == "callers":
        lines.append(styled((f"tests among these: {tests:,}", "dim")))
    return printed([*lines, *notes(result.incomplete)])


def call_route(result: model.CallRoute) -> str:
    """Format how one definition reaches another."""
    lines = [*list_steps(result), *describe_route(result)]
    return printed([*(styled((line, "")) for line in lines), *notes(result.incomplete)])


def _call_node(node: model.CallNode, depth: int, direction: str) -> Text:
    """Format a node: its name, then where it calls or where it is defined."""
    line = node.line if direction == "callees" or not node.calls else node.calls[0]
    marks = ["by name"] * (not node.certain) + ["test"] * node.test
    if len(node.calls) > 1:
        marks.append(f"{len(node.calls):,} calls")
    return styled(
        ("  " * depth, ""),
        (node.name or "(top level)", "cyan" if node.certain else "yellow"),
        (f"  {node.uri}:{line}", "dim"),
        (f"  {', '.join(marks)}" if marks else "", "dim"),
    )


def status(state: model.Status) -> str:
    """Format what is indexed, where, and whether it is up to date."""
    lines = [styled((state.collection, "bold"), (f"  {state.root}", ""))]
    if not state.indexed:
        lines.append(styled(("not indexed yet; search it, or run: lookfar index", "yellow")))
        lines.append(styled((f"its index will be in {state.index_dir}", "dim")))
        return printed([*lines, *_failures(state.failures), *_named_sources(state)])
    counts, generations = state.counts, ", ".join(map(str, state.generations))
    embedder = f"{state.model}, {state.dimensions} dimensions" if state.dimensions else "none"
    rows = [
        ("documents", f"{counts.documents:,}"),
        ("sections", f"{counts.sections:,}"),
        ("chunks", f"{counts.chunks:,}"),
        ("links", f"{counts.links:,}"),
        ("generation", f"{state.generation} of {state.created_at} (stored: {generations})"),
        ("model", embedder),
        ("index", f"{state.index_dir} ({format_size(state.disk_bytes)})"),
        *_vectors(state.vectors),
        *([("packages", f"{state.packages:,} indexed")] if state.packages is not None else []),
        *([("2nd model", describe_quality(state.quality))] if state.quality else []),
        *(
            [("answers", describe_receipts(state.receipts))]
            if state.receipts and state.receipts.answers
            else []
        ),
        *(("session", line) for line in describe_sessions(state.receipts)),
    ]
    lines += [styled((f"{name:<11}", "dim"), (value, "")) for name, value in rows]
    if state.held is not None:
        lines.append(styled((_rolled_back(state.held), "yellow")))
    if state.damage:
        lines.append(styled((f"damaged and rebuilt {state.damage}", "yellow")))
    if not state.current:
        loss = describe_loss(state.generations)
        changed = "version or settings have changed: the next search or index rebuilds it"
        lines.append(styled((f"{changed}{loss}", "yellow")))
    if state.stale_count:
        count = how_many(state.stale_count, "file")
        lines.append(styled((f"{count} added, changed or removed since:", "yellow")))
        lines += [styled((f"  {uri}", "yellow")) for uri in _some(state.stale, _NAMED_FILES)]
    else:
        lines.append(styled(("up to date", "green")))
    if not counts.documents:
        lines.append(styled(("No files were indexed, so there is nothing to search.", "yellow")))
    lines += _skipped(state.skipped, state.skipped_examples)
    lines += _failures(state.failures)
    lines += _named_sources(state)
    return printed(lines)


def _named_sources(state: model.Status) -> list[Text]:
    """Say which sources ``lookfar.toml`` names that are not there, and how to fetch them."""
    text = describe_waiting(state.named_sources)
    return [styled((text, "yellow"))] if text else []


def statuses(states: Iterable[model.Status]) -> str:
    return "\n\n".join(map(status, states))


def history(
    commits: Sequence[model.CommitInfo],
    hits: Sequence[model.Hit],
    incomplete: Sequence[model.Incomplete],
    query: str = "",
) -> str:
    """Format commits like git, one per line, with the lines that match a question below."""
    lines: list[Text] = []
    several = are_several(commit.collection for commit in commits)
    words = _highlighted_terms(query)
    for at, commit in enumerate(commits):
        name = commit.author.partition(" <")[0]
        lines.append(
            styled(
                (commit.hash[:_SHORT_HASH], "bold yellow"),
                (f"  {commit.committed_at[:10]}  ", "dim"),
                (f"{commit.collection}: " if several else "", "dim"),
                (f"{name}  ", "cyan"),
                (commit.title, ""),
                (f"  {how_many(commit.files, 'file')}", "dim"),
            )
        )
        if at < len(hits):
            body = [
                safe_text(line).expandtabs(4)
                for line in hits[at].text.rstrip("\n").split("\n")
                if line != commit.title and not line.startswith(_COMMIT_HEAD)
            ]
            for _, content in _window(body, words, ""):
                line = styled(("     ", ""))
                line.append_text(_highlight(_cut(content, words), words))
                lines.append(line)
    if not commits:
        lines.append(styled(("No matching commits.", "bold")))
    return printed([*lines, *notes(incomplete)])


def snapshots(generations: Sequence[model.GenerationInfo], held: int | None) -> str:
    """Format the stored generations, newest first."""
    lines: list[Text] = []
    for generation in reversed(generations):
        counts = f"+{generation.added:,} ~{generation.changed:,} -{generation.removed:,}"
        changes = f"{counts} in {generation.seconds:.1f} s"
        state = [
            name
            for name, is_so in (("active", generation.active), ("pinned", generation.pinned))
            if is_so
        ]
        lines.append(
            styled(
                (f"{generation.number:>5}", "bold green" if generation.active else "bold"),
                (f"  {generation.created_at}  ", "dim"),
                (f"{how_many(generation.counts.documents, 'document')}, ", ""),
                (
                    f"{how_many(generation.counts.chunks, 'chunk')}, {changes}, {generation.model}",
                    "",
                ),
                (f"  {', '.join(state)}" if state else "", "green"),
            )
        )
    if held is not None:
        lines.append(styled((_rolled_back(held), "yellow")))
    return printed(lines)


def _rolled_back(generation: int) -> str:
    return f"rolled back to generation {generation}; run lookfar index to update it"


def diff(result: model.GenerationDiff) -> str:
    """Format the added, removed and changed documents, with their changed sections."""
    lines = [styled((f"+ {uri}", "green")) for uri in result.added]
    lines += [styled((f"- {uri}", "red")) for uri in result.removed]
    for document in result.changed:
        lines.append(styled((f"~ {document.uri}", "yellow")))
        for sign, style, paths in (
            ("+", "green", document.added),
            ("-", "red", document.removed),
            ("~", "yellow", document.changed),
        ):
            names = (" > ".join(path) or model.ROOT_HEADING for path in paths)
            lines += [styled((f"    {sign} {name}", style)) for name in names]
    summary = (
        f"{len(result.added):,} added, {len(result.removed):,} removed, {len(result.changed):,}"
        f" changed from generation {result.older} to {result.newer}"
    )
    return printed([*lines, styled((summary, "bold"))])


def pruned(result: model.Pruned) -> str:
    versions = how_many(result.documents, "document version")
    summary = f"{how_many(result.generations, 'generation')} and {versions} removed"
    remaining = f"stored: {', '.join(map(str, result.kept))}"
    return printed([styled((summary, "bold")), styled((remaining, ""))])


def edited(result: model.EditResult) -> str:
    """Format what an edit changed; for a dry run with the diffs.

    If a document is renamed, the links that follow are listed instead of the diffs around them.
    """
    lines: list[Text] = []
    renamed = any(document.moved_from for document in result.documents)
    for document in result.documents:
        lines.append(_edited(document, result.dry_run))
        if result.dry_run and (document.moved_from or not renamed):
            lines += _colour_diff(document.diff)
    lines += [_link_change(link, result.dry_run) for link in result.links]
    lines += [_violation(item.uri, item) for item in result.violations]
    lines += [styled((warning, "yellow")) for warning in result.warnings]
    if result.dry_run:
        lines.append(styled(("dry run: nothing was written", "bold")))
    return printed(lines)


def _edited(document: model.EditedDocument, dry_run: bool) -> Text:
    place = f":{document.span.start_line}-{document.span.end_line}" if document.span else ""
    would = "would be " if dry_run and document.action != "unchanged" else ""
    origin = f" from {document.moved_from}" if document.moved_from else ""
    digits = document.section_sha256 or document.after
    return styled(
        (f"{document.uri}{place}", "bold cyan"),
        (f"  {' > '.join(document.heading_path)}" if document.heading_path else "", "green"),
        (f"  {would}{document.action}{origin}", ""),
        (f"  {digits[:16]}" if digits else "", "dim"),
    )


def _colour_diff(diff: str) -> Iterator[Text]:
    """Colour a unified diff like git."""
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    for at, line in enumerate(diff.split("\n")[:-1]):
        style = "bold" if at < _DIFF_HEAD else styles.get(line[:1], "")
        yield Text(safe_text(line), style)


def _link_change(link: model.LinkChange, dry_run: bool) -> Text:
    if link.becomes.startswith(("[", "!")):
        note = "" if link.rewritten else "  not rewritten"
        return styled(
            (f"{link.uri}:{link.line}: ", "cyan"),
            (f"{link.written} → {link.becomes}", ""),
            (note, "bold yellow"),
        )
    target = link.anchor or " > ".join(link.heading_path)
    where = f"link in {link.uri}:{link.line} to {target}"
    if not link.becomes:
        return styled((f"{where} is broken now", "bold yellow"))
    if link.rewritten:
        return styled((f"{where} {'would become' if dry_run else 'is now'} {link.becomes}", ""))
    return styled((f"{where} should be {link.becomes}; use --rewrite-links", "yellow"))


def validations(results: Sequence[model.Validation]) -> str:
    """Format violations of the heading rules like compiler messages."""
    lines: list[Text] = []
    for result in results:
        lines += [_violation(result.uri, violation) for violation in result.violations]
        if result.ok:
            lines.append(styled((f"{result.uri}  ", "bold cyan"), ("ok", "green")))
    return printed(lines)


def _violation(uri: str, violation: model.Violation) -> Text:
    return styled(
        (
            f"{uri}:{violation.start_line}: " if uri else f"line {violation.start_line}: ",
            "bold cyan",
        ),
        (f"{violation.rule}: ", "yellow"),
        (f"{violation.message} {violation.suggested_fix}", ""),
    )


def undoable(steps: Sequence[model.UndoStep]) -> str:
    """Format the edits that can be undone, newest first."""
    lines = [
        styled(
            (f"{step.transaction:>5}", "bold"),
            (f"  {step.at}  ", "dim"),
            (", ".join(_some(step.uris, _NAMED_FILES)), "cyan"),
        )
        for step in steps
    ]
    return printed(lines or [styled(("No edit to undo.", ""))])


def describe_quality(quality: model.QualityStatus) -> str:
    """Describe the progress of the second model, and what it is doing."""
    if quality.failure and not quality.total:
        return quality.failure
    left = quality.total - quality.embedded - quality.unreadable
    parts = [f"{quality.model}: {quality.embedded:,} of {how_many(quality.total, 'passage')}"]
    if quality.unreadable:
        parts.append(f"{quality.unreadable:,} in other languages keep the first model's vector")
    if quality.failure:
        parts.append(quality.failure)
    elif quality.paused:
        parts.append(f"paused: {quality.paused}")
    elif quality.working:
        if quality.per_second:
            minutes = max(1, round(left / quality.per_second / 60))
            parts.append(f"{quality.per_second:g} per second, about {minutes:,} min left")
        else:
            parts.append("starting")
    elif left:
        parts.append("a running server embeds the rest; to do it now: lookfar index --quality")
    return "; ".join(parts)


def _vectors(vectors: model.VectorPass | None) -> Iterator[tuple[str, str]]:
    """Format how the nearest vectors are found, if not all of them are compared."""
    if vectors is not None and vectors.method == "coarse":
        recall = "not measured yet"
        if vectors.recall is not None:
            recall = f"recall@10 {vectors.recall:.3f} on {vectors.sample} stored vectors"
        yield "vectors", f"{vectors.rows:,}, of which {vectors.kept:,} are compared; {recall}"


def _failures(failures: Sequence[model.Failure]) -> Iterator[Text]:
    if failures:
        yield styled((f"{how_many(len(failures), 'file')} could not be read:", "bold red"))
    lines = [f"  {failure.uri}: {failure.code}: {failure.message}" for failure in failures]
    for line in _some(lines, _NAMED_FAILURES):
        yield styled((line, "red"))


def _some(names: Sequence[str], most: int) -> list[str]:
    more = [f"... and {len(names) - most:,} more"] if len(names) > most else []
    return [*names[:most], *more]


def format_size(count: int) -> str:
    """Return a number of bytes in MB, or in kB or bytes if it is small."""
    if count < 1000:
        return how_many(count, "byte")
    return f"{count / _MB:,.1f} MB" if count >= _MB else f"{count / 1000:,.0f} kB"


# --- query words ------------------------------------------------------------------------------


def _terms(text: str) -> frozenset[str]:
    from lookfar.store.keywords.analyser import terms_of

    return frozenset(terms_of(text))


def _highlighted_terms(query: str) -> frozenset[str]:
    """Return the terms worth highlighting; function words occur everywhere."""
    terms = _terms(query)
    distinctive = (term for term in terms if len(term) > 2 or not term.isascii())
    return frozenset(distinctive) - _FUNCTION_WORDS or terms


def _cut(line: str, words: frozenset[str]) -> str:
    """Cut a long line to a part that contains its first match."""
    if len(line) <= _LONGEST_LINE:
        return line
    starts = (match.start() for match in _WORD.finditer(line) if words & _terms(match[0]))
    at = next(starts, 0)
    start = at - _LONGEST_LINE // 4 if at > _LONGEST_LINE * 3 // 4 else 0
    end = start + _LONGEST_LINE
    return "..." * (start > 0) + line[start:end] + "..." * (end < len(line))


def _highlight(line: str, words: frozenset[str]) -> Text:
    from rich.text import Text

    text = Text(line)
    for match in _WORD.finditer(line):
        if words & _terms(match[0]):
            text.stylize("bold yellow", match.start(), match.end())
    return text


# --- output -----------------------------------------------------------------------------------


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows in aligned columns; on a terminal below a header line."""
    from rich.cells import cell_len

    safe = [[safe_name(cell) for cell in row] for row in rows]
    all_rows = [list(heads), *safe] if sys.stdout.isatty() and rows else safe
    widths = [max(map(cell_len, column)) for column in zip(*all_rows, strict=True)]
    lines = []
    for row in all_rows:
        cells = [
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        style = "dim" if row == list(heads) else ""
        first = "dim" if style else "cyan"
        lines.append(styled((cells[0], first), ("  " + "  ".join(cells[1:]), style)))
        lines[-1].rstrip()
    return printed(lines)


def styled(*parts: tuple[str, str]) -> Text:
    """Return a line of texts, each with its style."""
    from rich.text import Text

    line = Text()
    for content, style in parts:
        line.append(safe_name(content), style or None)
    return line


def printed(lines: Iterable[Text]) -> str:
    """Return lines for stdout; rich handles terminals, NO_COLOR and TERM."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(line)
    return captured.get()


def describe_receipts(receipts: model.Receipts) -> str:
    """Describe the number of answers, their tokens, and the tokens of the files they cite."""
    return (
        f"{how_many(receipts.answers, 'answer')} with {receipts.tokens:,} tokens"
        f" from files with {receipts.document_tokens:,}"
    )


def describe_sessions(receipts: model.Receipts | None) -> list[str]:
    """Describe the latest client sessions with their calls and tokens, the latest first."""
    sessions = receipts.sessions[-_NAMED_SESSIONS:] if receipts else ()
    return [
        f"{session.client or 'a client without a name'} since {session.started_at}:"
        f" {how_many(session.calls, 'call')}, {session.tokens:,} tokens"
        for session in reversed(sessions)
    ]
