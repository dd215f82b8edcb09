"""A short answer: which documents answer a question, where in them, and the lines that do.

The map is text within a token budget, grouped by document. Nothing is shown twice: of a document
that an earlier question showed, only new places are shown.

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

from lookfar.common.lines import find_header
from lookfar.model import ROOT_HEADING, Answer, Hit
from lookfar.retrieve.answer.pack import tokens
from lookfar.retrieve.ranking import Rated
from lookfar.serve.show.locations import are_several, name_with_collection
from lookfar.serve.show.printable import safe_name

MAP_TOKENS = 950
"""Budget of the map of one question."""
MOST_DOCUMENTS = 8
"""Documents in the map of one question."""
_MOST_AMONG_SEVERAL = 3
"""Documents per question in a map of several questions, which is for finding where to look."""
_KINDS = ("docs", "code")
"""Kinds of which the best document is always shown."""
_MOST_PLACES = 3
"""Places of one document."""
_DROP = 0.65
"""A document is skipped if its best place scores less than this share of the second best document
of its kind. On public questions about documentation, this skips one right page in a hundred. The
best document is not the reference, because a name or words that only it has may raise it far above
all others. Other kinds are not either, because their scores are computed differently."""
_LEAST_DOCUMENTS = 3
"""Documents that are shown however low their scores."""
_WINDOWS = (10, 8, 6, 5, 4, 4, 4, 4)
"""Lines of the first place of each document, best document first."""
_WINDOWS_AMONG_SEVERAL = (4,)
_WIDER: tuple[tuple[int, ...], ...] = ((24, 12, 8, 8, 4, 4, 4, 4), (60, 24, 12))
"""Lines of the best places if the budget allows, in steps."""
_WIDEST: tuple[tuple[int, ...], ...] = ((40, 40, 20), (400,) * 50)
"""The same for a larger budget."""
_LARGER = 1_200
"""A budget above this many tokens is a larger one."""
_LEAD = 1.25
"""If the best document scores this many times the second, it gets more lines."""
_LEADING_LINES = 32
_TOKENS_A_DOCUMENT = 150
"""A larger budget shows one more document per this many tokens."""
_FOR_DOCUMENTS = 0.75
"""The share of the budget that naming documents may take; the rest is for their lines."""
_FEW_LINES = 4
"""Windows of code up to this size show the best lines; larger ones show adjacent lines."""
_SHORT_DEFINITION = 14
"""A definition of fewer lines is shown completely: it would be read next anyway."""
_LONGEST_SENTENCE = 150
_LONGEST_LINE = 240
_LONGEST_NAME = 70
_COMMIT_HEAD = ("Author: ", "Committer: ", "Date: ")
"""Lines of a commit that repeat its name."""
_ADDRESS = re.compile(r"(https?://[^/\s)>\]]+/)[^\s)>\]]{16,}")
_NAME = re.compile(r"\w[\w.]*")
_WITH_USES = 8
"""A place of code with at least this many lines also shows the constants and imports it uses."""
_ASKING = frozenset(
    "where is are what does do how the a of in defined definition work works".split()
)
"""Words that add nothing to a name."""
_SPACE = re.compile(r"\s+")
_RULE = re.compile(r"\s*([=*~^\"'`#+.:_-])\1{2,}\s*")
"""A line that only underlines a heading or separates two sections."""
_NOT_WORD = re.compile(r"[\W_]+")


class Question(NamedTuple):
    text: str
    hits: Sequence[Hit]
    remarks: Sequence[str] = ()
    """Shown if it is one of several questions."""


class ShownHit(NamedTuple):
    """A hit and the part of it that the map shows."""

    hit: Hit
    excerpt: str


@dataclass(frozen=True, slots=True)
class AnswerMap:
    """A map as text, and the hits it shows."""

    text: str
    shown: tuple[tuple[ShownHit, ...], ...]
    """For each question, best first."""
    documents: tuple[int, ...]
    """The number of documents shown for each question."""
    more: bool
    """Whether a question has more documents than are shown."""


@dataclass(slots=True)
class _Place:
    """A hit in the map, and how much of it is shown."""

    hit: Hit
    rank: int
    lines: int = 0
    """0: nothing; 1: one sentence; more: a window of that many lines."""
    definition: bool = False
    """Whether the question asks for it by name."""
    drawn: dict[tuple[int, bool], str] = field(default_factory=dict)
    """Its text by what it depends on: laying out a map asks for the same text several times."""


@dataclass(slots=True)
class _Document:
    """A document in the map, with its best places first."""

    name: str
    places: list[_Place] = field(default_factory=list)
    score: float = 1.0
    """The score of its best place relative to the second best document of its kind."""
    path_alone: bool = False

    @property
    def kind(self) -> str:
        return self.places[0].hit.lane if self.places else ""

    @property
    def text(self) -> str:
        if self.path_alone:
            return self.name
        places = [_place_text(place) for place in self.places if place.lines]
        return "\n".join([self.name, *places])


class _Part(NamedTuple):
    """The map of one question."""

    documents: list[_Document]

    @property
    def text(self) -> str:
        return "\n".join(document.text for document in self.documents)

    @property
    def places(self) -> list[_Place]:
        """The places that are shown, best first."""
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

    ``skip`` is the number of documents per question that earlier pages showed, ``limit`` the most
    hits. With ``paths``, only documents are named. ``describe`` names the document of a hit.
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
        _join_texts(questions, parts),
        tuple(
            tuple(ShownHit(place.hit, _excerpt(place)) for place in part.places) for part in parts
        ),
        tuple(len(part.documents) for part in parts),
        more,
    )


def find_showable(hits: Sequence[Rated], budget: int) -> set[int]:
    """Return the numbers of the hits that the map of one question may show, without a limit.

    It is known before the texts of hits are looked at, so that work on the others can be saved.
    """
    grouped: dict[tuple[str, str], list[int]] = {}
    scores: dict[str, list[float]] = {}
    for number, hit in enumerate(hits):
        key = hit.collection, hit.uri
        if key not in grouped:
            scores.setdefault(hit.lane, []).append(hit.score)
        grouped.setdefault(key, []).append(number)
    documents = list(grouped.values())
    most = _count_most(budget, among_several=False)
    showable: set[int] = set()
    count = 0
    for numbers in documents:
        first = hits[numbers[0]]
        relative = _compare_score(first.score, scores[first.lane])
        if count < most and not (count >= _LEAST_DOCUMENTS and relative < _DROP):
            count += 1
            showable.update(numbers)
    # The best page and the best code may replace another document.
    for kind in _KINDS:
        best = next((numbers for numbers in documents if hits[numbers[0]].lane == kind), ())
        showable.update(best)
    return showable


def draw_answer(answer: Answer, *, paths: bool = False) -> str:
    """Draw the map of one answer with all its hits, for a terminal or a file."""
    several = are_several(answer.generations)
    drawn = draw_map(
        [Question(answer.query, answer.hits)],
        MAP_TOKENS,
        limit=len(answer.hits),
        paths=paths,
        describe=lambda hit: name_document(hit, several=several),
    )
    return drawn.text or "Nothing found."


def _join_texts(questions: Sequence[Question], parts: Sequence[_Part]) -> str:
    if len(parts) == 1:
        return parts[0].text
    sections = []
    for number, (question, part) in enumerate(zip(questions, parts, strict=True), start=1):
        head = f"[{number}] {_cut(question.text, _LONGEST_NAME)}"
        sections.append("\n".join([head, *question.remarks, part.text or "Nothing found."]))
    return "\n\n".join(sections)


def _group(
    hits: Sequence[Hit],
    describe: Callable[[Hit], str],
    seen: Mapping[tuple[str, str], Collection[int]],
    skip: int,
) -> list[_Document]:
    """Group hits by document, without the first ``skip`` documents and places already seen."""
    grouped: dict[tuple[str, str], list[_Place]] = {}
    for rank, hit in enumerate(hits):
        grouped.setdefault((hit.collection, hit.uri), []).append(_Place(hit, rank))
    scores: dict[str, list[float]] = {}
    for places in grouped.values():
        scores.setdefault(places[0].hit.lane, []).append(places[0].hit.score)
    documents = []
    for key, places in list(grouped.items())[skip:]:
        above = " (above)" if key in seen else ""
        new = [place for place in places if place.hit.span.start not in seen.get(key, ())]
        document = _Document(describe(places[0].hit) + above, new[:_MOST_PLACES])
        best = scores[places[0].hit.lane]
        document.score = _compare_score(places[0].hit.score, best)
        documents.append(document)
    return documents


def _compare_score(score: float, best: Sequence[float]) -> float:
    """Return a score relative to that of the second best document of its kind."""
    return score / (best[:2][-1] or 1.0)


def _mark_lead(documents: Sequence[_Document], question: str) -> None:
    """Put a definition first if the question consists of its name."""
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
    """Return the documents with the first ``limit`` places only."""
    ranks = sorted(place.rank for document in documents for place in document.places)[:limit]
    for document in documents:
        document.places = [place for place in document.places if place.rank in ranks]
    return [document for document in documents if document.places]


def _lay_out_paths(documents: Sequence[_Document], budget: int) -> _Part:
    """Name documents with the lines of their places, as many as fit."""
    selected: list[_Document] = []
    spent = 0
    for document in documents:
        spans = ",".join(_lines(place.hit) for place in document.places)
        path, gap, title = document.name.partition("  ")
        document.name = f"{path}:{spans}{gap}{title}" if spans else document.name
        document.path_alone = True
        spent += tokens(document.name)
        if selected and spent > budget:
            break
        selected.append(document)
        for place in document.places:
            place.lines = 1
    return _Part(selected)


def _lay_out(
    documents: Sequence[_Document], budget: int, among_several: bool, *, everything: bool
) -> _Part:
    """Decide how many documents are shown, and how much of each place.

    First every document gets one sentence, then the first place of each document gets its lines,
    then further places get a sentence; the rest of the budget widens the best places. With
    ``everything``, documents are shown however low their scores.
    """
    most = len(documents) if everything else _count_most(budget, among_several=among_several)
    selected: list[_Document] = []
    spent = 0
    for document in documents:
        if len(selected) >= most:
            break
        if len(selected) >= _LEAST_DOCUMENTS and document.score < _DROP and not everything:
            continue
        for place in document.places[:1]:
            place.lines = 1
        cost = tokens(document.text)
        if selected and spent + cost > budget * _FOR_DOCUMENTS:
            break
        selected.append(document)
        spent += cost
    selected = _with_every_kind(selected, documents)
    ranked = sorted(
        (place for document in selected for place in document.places), key=lambda place: place.rank
    )
    firsts = [place for place in ranked if place.lines]
    further = [place for place in ranked if not place.lines]
    leads = bool(selected) and selected[0].score > _LEAD
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
    return _Part(selected)


def _count_most(budget: int, *, among_several: bool) -> int:
    """Return how many documents the map of a question shows at most."""
    most = _MOST_AMONG_SEVERAL if among_several else MOST_DOCUMENTS
    return max(most, budget // _TOKENS_A_DOCUMENT)


def _with_every_kind(selected: list[_Document], documents: Sequence[_Document]) -> list[_Document]:
    """Make sure that the best page and the best code are shown, replacing the last document.

    Scores of different kinds are computed differently, so one kind may crowd out the other.
    """
    for kind in _KINDS:
        if len(selected) < _LEAST_DOCUMENTS or any(document.kind == kind for document in selected):
            continue
        best = next((document for document in documents if document.kind == kind), None)
        if best is not None and best.places:
            best.places[0].lines = 1
            for place in selected[-1].places:
                place.lines = 0
            selected = [*selected[:-1], best]
    return selected


def _grow(place: _Place, lines: int, left: int) -> int:
    """Show ``lines`` of a place if that costs at most ``left`` tokens, and return the cost."""
    before = place.lines
    cost = -tokens(_place_text(place)) if before else 0
    place.lines = lines
    cost += tokens(_place_text(place))
    if cost > left:
        place.lines = before
        return 0
    return cost


def _place_text(place: _Place) -> str:
    """Format a place with its heading and its sentence or lines."""
    key = place.lines, place.definition
    if key not in place.drawn:
        place.drawn[key] = _draw_place(place)
    return place.drawn[key]


def _draw_place(place: _Place) -> str:
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
    """Return the lines of a hit; those of an extracted text come after its page or range."""
    first, last = hit.span.start_line, hit.span.end_line
    lines = str(first) if first == last else f"{first}-{last}"
    return f"#{safe_name(hit.place)} {lines}" if hit.place else lines


def _excerpt(place: _Place) -> str:
    """Return the text of a place that is shown."""
    if place.lines == 1:
        return _first_focus(place.hit)
    return "\n".join(text for _, text in _window(place))


def _heading(hit: Hit) -> str:
    """Return the last headings above a hit, without the title of its document."""
    path = hit.focus_path or hit.path
    headings = [part for part in path if part not in (hit.title, ROOT_HEADING)]
    return _cut(" > ".join(headings[-2:]), _LONGEST_NAME)


def _first_focus(hit: Hit) -> str:
    """Return the sentence that answers best, or the whole text if there is none."""
    if not hit.focus:
        return hit.text
    focus = hit.focus[0]
    return hit.text[focus.start - hit.span.start : focus.end - hit.span.start]


def _window(place: _Place) -> list[tuple[int, str]]:
    """Return the lines around the best sentence, as many as the place shows, with numbers."""
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
    visible = [
        (first + at, _cut_around(lines[at], hit, first + at))
        for at in range(start, end)
        if not _is_redundant(lines[at], hit)
    ]
    if hit.lane == "code" and _encloses(lines, start):
        visible = [(first, _cut(lines[0], _LONGEST_LINE, keep_indent=True)), *visible[1:]]
    header = find_header(lines, start)
    if header is not None and header < start:
        visible = [(first + header, _cut(lines[header], _LONGEST_LINE)), *visible]
    return visible


def _best_lines(place: _Place, lines: Sequence[str], best: Sequence[int]) -> list[tuple[int, str]]:
    """Return the lines of code that answer best, below the line of the enclosing definition."""
    hit = place.hit
    chosen = set(best[: place.lines - 1]) | ({0} if _encloses(lines, min(best)) else set())
    first = hit.span.start_line
    return [(first + at, _cut_around(lines[at], hit, first + at)) for at in sorted(chosen)]


def _is_redundant(line: str, hit: Hit) -> bool:
    """Return whether a line only repeats the document's name or the heading."""
    if hit.lane == "commits" and line.startswith(_COMMIT_HEAD):
        return True
    if hit.lane != "code" and _RULE.fullmatch(line):
        return True
    return line.strip("# ") in ("", hit.title, *hit.path[-1:])


def _encloses(lines: Sequence[str], start: int) -> bool:
    """Return whether the block of the first line continues at ``start``, by indentation."""
    indent = _indent(lines[0])
    inner = [line for line in lines[1:start] if line.strip()]
    return bool(lines[0].strip() and inner) and all(_indent(line) > indent for line in inner)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _window_start(
    lines: Sequence[str], focused: Sequence[tuple[int, int]], size: int, *, definition: bool
) -> int:
    """Return the start of a window of ``size`` lines with the best sentence, and more if possible.

    The window of a requested definition begins one line before it, for a comment.
    """
    if not focused:
        return 0
    if definition:
        return max(0, min(focused[0][0] - 1, len(lines) - size))

    def worth(start: int) -> tuple[int, bool, int]:
        inside = [start <= low and high < start + size for low, high in focused]
        weight = sum(len(focused) - at for at, is_inside in enumerate(inside) if is_inside)
        # The lines after a sentence explain it more often than those before.
        distance = abs(focused[0][0] - start - size // 3)
        return weight, bool(lines[start].strip()), -distance

    low = focused[0][0]
    starts = range(max(0, low - size + 1), min(low, len(lines) - size) + 1)
    return max(starts, key=worth)


def _cut_around(line: str, hit: Hit, number: int) -> str:
    """Cut a long line to the part that answers."""
    line = line.rstrip()
    if len(line) <= _LONGEST_LINE:
        return safe_name(_shorten_addresses(line).expandtabs(4))
    start = 0
    for focus in hit.focus:
        if focus.start_line == number:
            text_before = hit.text[: focus.start - hit.span.start]
            start = len(text_before) - (text_before.rfind("\n") + 1)
            break
    start = max(0, min(start, len(line) - _LONGEST_LINE))
    cut = _shorten_addresses(line[start : start + _LONGEST_LINE])
    before, after = ("…" if start else ""), ("…" if start + _LONGEST_LINE < len(line) else "")
    return safe_name(f"{before}{cut}{after}".expandtabs(4))


def _shorten_addresses(line: str) -> str:
    """Shorten long link addresses in a line."""
    return _ADDRESS.sub(r"\1…", line) if "://" in line else line


def _cut(text: str, most: int, *, keep_indent: bool = False) -> str:
    """Return a text on one line, of at most ``most`` characters."""
    text = _shorten_addresses(text)
    text = text.rstrip() if keep_indent else _SPACE.sub(" ", text).strip()
    return safe_name(text if len(text) <= most else f"{text[: most - 1].rstrip()}…")


def name_document(hit: Hit, *, several: bool) -> str:
    """Return the path of a hit's document, with its title if the path does not contain it."""
    path = name_with_collection(hit, several)
    stem = hit.uri.rpartition("/")[2].partition(".")[0]
    known = _NOT_WORD.sub("", stem).casefold(), _NOT_WORD.sub("", hit.uri).casefold()
    title = _NOT_WORD.sub("", hit.title).casefold()
    named = f"  {_cut(hit.title, _LONGEST_NAME)}" if title and title not in known else ""
    state = "" if hit.state == "same" else f"  ({hit.state} on disk)"
    stale = f"  (stale: {', '.join(hit.stale[:3])} changed since)" if hit.stale else ""
    drift = f"  (outdated: {'; '.join(hit.drift[:3])})" if hit.drift else ""
    origin = f"  <{hit.origin}>" if "://" in hit.origin else ""
    return safe_name(f"{path}{named}{origin}{state}{stale}{drift}")
