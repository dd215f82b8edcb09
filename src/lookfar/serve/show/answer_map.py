"""A short answer: which documents answer a question, where in them, and the lines that do.

Takes: the hits of one question or several, and a budget of tokens. Gives: a map as text, grouped by
document, and which lines of each hit it shows. Refuses: to say anything twice; of a document that
an earlier question showed, only new places are shown.

    guide/deploy.md  Releases
      4-22 Roll back
        18| To revert a faulty deployment, tag the last good commit again:
        19| `git tag -f live v1.41`.
      31-40 Freeze: No release goes out between Christmas and New Year.

A path begins its line and everything else is indented, so that no document can write a line that
looks like one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lookfar.model import ROOT_HEADING, Answer, Hit
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.show.printable import safe_name

MAP_TOKENS = 950
"""That the map of one question may cost."""
MOST_DOCUMENTS = 8
"""In the map of one question."""
_MOST_AMONG_SEVERAL = 3
"""In the map of each of several questions. Who asks ten things at once wants to know where to look;
a question asked alone gets more."""
_MOST_PLACES = 3
"""Of one document."""
_DROP = 0.65
"""A document is left out whose best place has less than this share of the score of the second best
document of its kind. On public questions about documentation, one right page in a hundred is behind
that. The best document is not the measure, since a name or words that it alone has may lift it far
above all others; nor are other kinds, whose scores are made otherwise."""
_LEAST_DOCUMENTS = 3
"""That are shown however far the score drops."""
_WINDOWS = (10, 8, 6, 5, 4, 4, 4, 4)
"""Lines that the first place of each document shows, the best document first."""
_WINDOWS_AMONG_SEVERAL = (4,)
_WIDER: tuple[tuple[int, ...], ...] = ((24, 12, 8, 8, 4, 4, 4, 4), (60, 24, 12))
"""Lines that the best places show where the budget leaves room, in turn."""
_WIDEST: tuple[tuple[int, ...], ...] = ((40, 40, 20), (400,) * 50)
"""The same where a larger budget asks for it, in turn."""
_LARGER = 1_200
"""Tokens of such a budget."""
_LEAD = 1.25
"""A document whose score is so many times that of the second is shown in more lines."""
_LEADING_LINES = 32
_TOKENS_A_DOCUMENT = 150
"""Of a larger budget, for each further document."""
_FOR_DOCUMENTS = 0.75
"""The share of the budget that naming documents may take; the rest is for their lines."""
_FEW_LINES = 4
"""Lines of code up to which the best ones are shown; more are shown as they follow each other."""
_SHORT_DEFINITION = 14
"""Lines of a definition that is shown whole instead: it would be read next."""
_LONGEST_SENTENCE = 150
_LONGEST_LINE = 240
_LONGEST_NAME = 70
_APART = ("memory", "documents")
"""Kinds whose documents are always named with their collection: no folder has them."""
_COMMIT_HEAD = ("Author: ", "Committer: ", "Date: ")
"""Lines of a commit that its name says already."""
_ADDRESS = re.compile(r"(https?://[^/\s)>\]]+/)[^\s)>\]]{16,}")
_NAME = re.compile(r"\w[\w.]*")
_WITH_USES = 8
"""Lines from which on a place of code also shows the constants and imports that it uses."""
_ASKING = frozenset(
    "where is are what does do how the a of in defined definition work works".split()
)
"""Words beside a name that say nothing more."""
_SPACE = re.compile(r"\s+")
_RULE = re.compile(r"\s*([=*~^\"'`#+.:_-])\1{2,}\s*")
"""A line that only underlines a heading or parts two sections."""
_NOT_WORD = re.compile(r"[\W_]+")


class Question(NamedTuple):
    """What was asked, and what answers it."""

    text: str
    hits: Sequence[Hit]


class ShownHit(NamedTuple):
    """A hit, and what the map shows of it."""

    hit: Hit
    excerpt: str


@dataclass(frozen=True, slots=True)
class AnswerMap:
    """A map as text, and what it shows."""

    text: str
    shown: tuple[tuple[ShownHit, ...], ...]
    """For each question, best first."""
    documents: tuple[int, ...]
    """How many of each question are shown."""
    more: bool
    """Whether a question has further documents."""


@dataclass(slots=True)
class _Place:
    """A hit in the map, and how much of it is shown."""

    hit: Hit
    rank: int
    lines: int = 0
    """0: nothing; 1: one sentence; more: a window of so many lines."""
    definition: bool = False
    """It is what the question asks for by name."""


@dataclass(slots=True)
class _Document:
    """A document in the map, with its best places first."""

    name: str
    places: list[_Place] = field(default_factory=list)
    score: float = 1.0
    """The share that its best place has of the score of the second best document of its kind."""
    path_alone: bool = False

    @property
    def kind(self) -> str:
        return self.places[0].hit.lane if self.places else ""

    @property
    def text(self) -> str:
        if self.path_alone:
            return self.name
        shown = [_place_text(place) for place in self.places if place.lines]
        return "\n".join([self.name, *shown])


class _Part(NamedTuple):
    """The map of one question."""

    documents: list[_Document]

    @property
    def text(self) -> str:
        return "\n".join(document.text for document in self.documents)

    @property
    def places(self) -> list[_Place]:
        """Those that are shown, best first."""
        places = [place for document in self.documents for place in document.places if place.lines]
        return sorted(places, key=lambda place: place.rank)


def draw_map(
    questions: Sequence[Question],
    budget: int,
    *,
    skip: Sequence[int] = (),
    limit: int = 0,
    paths: bool = False,
    describe: Callable[[Hit], str],
) -> AnswerMap:
    """Draw the map of some questions within ``budget`` tokens.

    ``skip`` says how many documents of each question earlier pages showed, ``limit`` how many hits
    may be shown. With ``paths``, documents are named and nothing of them is shown. ``describe``
    names the document of a hit.
    """
    parts: list[_Part] = []
    seen: dict[tuple[str, str], set[int]] = {}
    left, more = budget, False
    for number, question in enumerate(questions):
        start = skip[number] if skip else 0
        documents = rest = _group(question.hits, describe, seen, start)
        share = left // (len(questions) - number)
        if limit:
            documents = _limit(documents, limit)
        if paths:
            part = _lay_out_paths(documents, share)
        else:
            _mark_lead(documents, question.text)
            part = _lay_out(documents, share, len(questions) > 1, everything=bool(limit or start))
        more |= len(part.documents) < len(rest)
        parts.append(part)
        left -= tokens(part.text)
        for place in part.places:
            key = place.hit.collection, place.hit.uri
            seen.setdefault(key, set()).add(place.hit.span.start)
    return AnswerMap(
        _joined_text(questions, parts),
        tuple(
            tuple(ShownHit(place.hit, _excerpt(place)) for place in part.places) for part in parts
        ),
        tuple(len(part.documents) for part in parts),
        more,
    )


def draw_answer(answer: Answer, *, paths: bool = False) -> str:
    """The map of one answer with all its hits, for a terminal or a file."""
    several = len(answer.generations) > 1
    drawn = draw_map(
        [Question(answer.query, answer.hits)],
        MAP_TOKENS,
        limit=len(answer.hits),
        paths=paths,
        describe=lambda hit: name_document(hit, several=several),
    )
    return drawn.text or "Nothing found."


def _joined_text(questions: Sequence[Question], parts: Sequence[_Part]) -> str:
    if len(parts) == 1:
        return parts[0].text
    headed = (
        f"[{number}] {_cut(question.text, _LONGEST_NAME)}\n{part.text or 'Nothing found.'}"
        for number, (question, part) in enumerate(zip(questions, parts, strict=True), start=1)
    )
    return "\n\n".join(headed)


def _group(
    hits: Sequence[Hit],
    describe: Callable[[Hit], str],
    seen: Mapping[tuple[str, str], Collection[int]],
    skip: int,
) -> list[_Document]:
    """Hits by document without the first ``skip`` documents and the places that were seen."""
    grouped: dict[tuple[str, str], list[_Place]] = {}
    for rank, hit in enumerate(hits):
        grouped.setdefault((hit.collection, hit.uri), []).append(_Place(hit, rank))
    lanes: dict[str, list[float]] = {}
    for places in grouped.values():
        lanes.setdefault(places[0].hit.lane, []).append(places[0].hit.score)
    documents = []
    for key, places in list(grouped.items())[skip:]:
        above = " (above)" if key in seen else ""
        new = [place for place in places if place.hit.span.start not in seen.get(key, ())]
        document = _Document(describe(places[0].hit) + above, new[:_MOST_PLACES])
        best = lanes[places[0].hit.lane]
        document.score = places[0].hit.score / (best[:2][-1] or 1.0)
        documents.append(document)
    return documents


def _mark_lead(documents: Sequence[_Document], question: str) -> None:
    """Let a definition lead that the question asks for by its name, and for nothing else."""
    words = [word for word in _NAME.findall(question) if word.casefold() not in _ASKING]
    names = {word.rpartition(".")[2].casefold() for word in words} if len(words) == 1 else set()
    for place in documents[0].places[:1] if documents else ():
        path = place.hit.focus_path or place.hit.path
        called = [part.casefold() for part in _NAME.findall(" ".join(path[-1:]))]
        parts = {part.rpartition(".")[2] for part in called}
        if place.hit.lane == "code" and names.intersection(parts):
            documents[0].score = max(documents[0].score, 2 * _LEAD)
            place.definition = True


def _limit(documents: Sequence[_Document], limit: int) -> list[_Document]:
    """The documents with the first ``limit`` places, and no others."""
    ranks = sorted(place.rank for document in documents for place in document.places)[:limit]
    for document in documents:
        document.places = [place for place in document.places if place.rank in ranks]
    return [document for document in documents if document.places]


def _lay_out_paths(documents: Sequence[_Document], budget: int) -> _Part:
    """Name documents with the lines of their places, as many as fit."""
    shown: list[_Document] = []
    spent = 0
    for document in documents:
        spans = ",".join(_lines(place.hit) for place in document.places)
        path, gap, title = document.name.partition("  ")
        document.name = f"{path}:{spans}{gap}{title}" if spans else document.name
        document.path_alone = True
        spent += tokens(document.name)
        if shown and spent > budget:
            break
        shown.append(document)
        for place in document.places:
            place.lines = 1
    return _Part(shown)


def _lay_out(
    documents: Sequence[_Document], budget: int, among_several: bool, *, everything: bool
) -> _Part:
    """Decide how many documents are shown, and how much of each place.

    First every document gets one sentence, then the first place of each its lines, then further
    places a sentence; what is left widens the best places. With ``everything`` that was asked
    for, documents are shown however far their scores drop.
    """
    most = _MOST_AMONG_SEVERAL if among_several else MOST_DOCUMENTS
    most = len(documents) if everything else max(most, budget // _TOKENS_A_DOCUMENT)
    shown: list[_Document] = []
    spent = 0
    for document in documents:
        if len(shown) >= most:
            break
        if len(shown) >= _LEAST_DOCUMENTS and document.score < _DROP and not everything:
            continue
        for place in document.places[:1]:
            place.lines = 1
        cost = tokens(document.text)
        if shown and spent + cost > budget * _FOR_DOCUMENTS:
            break
        shown.append(document)
        spent += cost
    shown = _with_every_kind(shown, documents)
    ranked = sorted((place for each in shown for place in each.places), key=lambda it: it.rank)
    firsts = [place for place in ranked if place.lines]
    further = [place for place in ranked if not place.lines]
    leads = bool(shown) and shown[0].score > _LEAD
    steps: list[tuple[Sequence[_Place], Sequence[int]]]
    if among_several:
        steps = [(firsts, _WINDOWS_AMONG_SEVERAL)]
    else:
        steps = [
            (ranked, (_LEADING_LINES,) if leads else ()),
            (firsts, _WINDOWS),
            (further, [1] * len(further)),
            *((ranked, windows) for windows in _WIDER),
        ]
    if budget > _LARGER:
        steps += [(ranked, windows) for windows in _WIDEST]
    for places, windows in steps:
        for place, lines in zip(places, windows, strict=False):
            if lines > place.lines:
                spent += _grow(place, lines, budget - spent)
    return _Part(shown)


def _with_every_kind(shown: list[_Document], documents: Sequence[_Document]) -> list[_Document]:
    """The same with the best page and the best code, in the place of the last document if need be:
    scores of different kinds are made differently, so that one may crowd out the other."""
    for kind in ("docs", "code"):
        if len(shown) < _LEAST_DOCUMENTS or any(document.kind == kind for document in shown):
            continue
        best = next((document for document in documents if document.kind == kind), None)
        if best is not None and best.places:
            best.places[0].lines = 1
            for place in shown[-1].places:
                place.lines = 0
            shown = [*shown[:-1], best]
    return shown


def _grow(place: _Place, lines: int, left: int) -> int:
    """Show so many lines of a place if that costs at most ``left`` tokens; return the cost."""
    before = place.lines
    cost = -tokens(_place_text(place)) if before else 0
    place.lines = lines
    cost += tokens(_place_text(place))
    if cost > left:
        place.lines = before
        return 0
    return cost


def _place_text(place: _Place) -> str:
    """A place with its heading, and its sentence or lines."""
    hit = place.hit
    head = " ".join(filter(None, (f"  {_lines(hit)}", _heading(hit))))
    if place.lines == 1:
        sentence = _cut(_first_focus(hit), _LONGEST_SENTENCE)
        number = hit.focus[0].start_line if hit.focus else hit.span.start_line
        return f"{head} | {number}: {sentence}" if sentence else head
    used = [(number, safe_name(text)) for number, text in hit.uses if place.lines >= _WITH_USES]
    lines = [f"    {number}| {text}" for number, text in sorted([*used, *_window(place)])]
    return "\n".join([head, *lines])


def _lines(hit: Hit) -> str:
    first, last = hit.span.start_line, hit.span.end_line
    return str(first) if first == last else f"{first}-{last}"


def _excerpt(place: _Place) -> str:
    """What is shown of the text of a place."""
    if place.lines == 1:
        return _first_focus(place.hit)
    return "\n".join(text for _, text in _window(place))


def _heading(hit: Hit) -> str:
    """The last headings above a hit, without the title of its document."""
    path = hit.focus_path or hit.path
    shown = [part for part in path if part not in (hit.title, ROOT_HEADING)]
    return _cut(" > ".join(shown[-2:]), _LONGEST_NAME)


def _first_focus(hit: Hit) -> str:
    """The sentence that answers best, or the beginning of the text."""
    if not hit.focus:
        return hit.text
    focus = hit.focus[0]
    return hit.text[focus.start - hit.span.start : focus.end - hit.span.start]


def _window(place: _Place) -> list[tuple[int, str]]:
    """The lines of a hit around its best sentence, as many as the place shows, with numbers."""
    hit = place.hit
    lines = hit.text.rstrip("\n").split("\n")
    first = hit.span.start_line
    focused = [
        (focus.start_line - first, focus.end_line - first)
        for focus in hit.focus
        if focus.end_line - first < len(lines)
    ]
    start, end = 0, len(lines)
    if hit.lane == "code" and place.lines <= _FEW_LINES < len(lines) and focused:
        begin, end = (line - first for line in hit.focus_lines)
        if not 0 <= begin <= end < min(begin + _SHORT_DEFINITION, len(lines)):
            return _best_lines(place, lines, [low for low, _ in focused])
        start, end = begin, end + 1
    elif len(lines) > place.lines:
        start = _window_start(lines, focused, place.lines, definition=place.definition)
        end = start + place.lines
    shown = [
        (first + at, _cut_around(lines[at], hit, first + at))
        for at in range(start, end)
        if not _is_said_already(lines[at], hit)
    ]
    if hit.lane == "code" and _encloses(lines, start):
        shown = [(first, _cut(lines[0], _LONGEST_LINE, keep_indent=True)), *shown[1:]]
    return shown


def _best_lines(place: _Place, lines: Sequence[str], best: Sequence[int]) -> list[tuple[int, str]]:
    """The lines of code that answer best, wherever they are, below the one that begins it all."""
    hit = place.hit
    chosen = set(best[: place.lines - 1]) | ({0} if _encloses(lines, min(best)) else set())
    first = hit.span.start_line
    return [(first + at, _cut_around(lines[at], hit, first + at)) for at in sorted(chosen)]


def _is_said_already(line: str, hit: Hit) -> bool:
    """Whether a line says nothing that the name of the document and the heading do not say."""
    if hit.lane == "commits" and line.startswith(_COMMIT_HEAD):
        return True
    if hit.lane != "code" and _RULE.fullmatch(line):
        return True
    return line.strip("# ") in ("", hit.title, *hit.path[-1:])


def _encloses(lines: Sequence[str], start: int) -> bool:
    """Whether what the first line begins goes on at ``start``: nothing since is less indented."""
    indent = _indent(lines[0])
    inner = [line for line in lines[1:start] if line.strip()]
    return bool(lines[0].strip() and inner) and all(_indent(line) > indent for line in inner)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _window_start(
    lines: Sequence[str], focused: Sequence[tuple[int, int]], size: int, *, definition: bool
) -> int:
    """Where a window of ``size`` lines begins that has the best sentence, and others if it can.

    That of a definition which is asked for begins with it, and a line of comment before."""
    if not focused:
        return 0
    if definition:
        return max(0, min(focused[0][0] - 1, len(lines) - size))

    def worth(start: int) -> tuple[int, bool, int]:
        whole = [start <= low and high < start + size for low, high in focused]
        kept = sum(len(focused) - at for at, inside in enumerate(whole) if inside)
        # What follows a sentence explains it more often than what comes before.
        distance = abs(focused[0][0] - start - size // 3)
        return kept, bool(lines[start].strip()), -distance

    low = focused[0][0]
    starts = range(max(0, low - size + 1), min(low, len(lines) - size) + 1)
    return max(starts, key=worth)


def _cut_around(line: str, hit: Hit, number: int) -> str:
    """A line, cut to the part that answers where it is too long."""
    line = line.rstrip()
    if len(line) <= _LONGEST_LINE:
        return safe_name(_without_addresses(line).expandtabs(4))
    start = 0
    for focus in hit.focus:
        if focus.start_line == number:
            text_before = hit.text[: focus.start - hit.span.start]
            start = len(text_before) - (text_before.rfind("\n") + 1)
            break
    start = max(0, min(start, len(line) - _LONGEST_LINE))
    cut = _without_addresses(line[start : start + _LONGEST_LINE])
    before, after = ("…" if start else ""), ("…" if start + _LONGEST_LINE < len(line) else "")
    return safe_name(f"{before}{cut}{after}".expandtabs(4))


def _without_addresses(line: str) -> str:
    """A line without the long addresses that its links lead to."""
    return _ADDRESS.sub(r"\1…", line) if "://" in line else line


def _cut(text: str, most: int, *, keep_indent: bool = False) -> str:
    """A text on one line, of at most so many characters."""
    text = _without_addresses(text)
    text = text.rstrip() if keep_indent else _SPACE.sub(" ", text).strip()
    return safe_name(text if len(text) <= most else f"{text[: most - 1].rstrip()}…")


def name_document(hit: Hit, *, several: bool) -> str:
    """The path of a hit's document, with its title where the path does not say it."""
    path = f"{hit.collection}: {hit.uri}" if several or hit.lane in _APART else hit.uri
    stem = hit.uri.rpartition("/")[2].partition(".")[0]
    known = _NOT_WORD.sub("", stem).casefold(), _NOT_WORD.sub("", hit.uri).casefold()
    title = _NOT_WORD.sub("", hit.title).casefold()
    named = f"  {_cut(hit.title, _LONGEST_NAME)}" if title and title not in known else ""
    state = "" if hit.state == "same" else f"  ({hit.state} on disk)"
    stale = f"  (stale: {', '.join(hit.stale[:3])} changed since)" if hit.stale else ""
    return safe_name(f"{path}{named}{state}{stale}")
