"""Programs in prose, searched on their own: where a language is asked for, they are the answer.

Takes: the candidates of a question that names a language. Gives: the same with each passage of
prose replaced by the programs in it that are written in that language, each cited as the exact
slice of its page that it is. Refuses: to keep a second copy of them: the passages that hold them
are found first, as any, and only those pages are read.

A program has the words of itself, and the meaning of the passage that it stands in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from lookfar.common.lines import Lines
from lookfar.retrieve.retrievers.short_texts import score_words

if TYPE_CHECKING:
    from lookfar.retrieve.ranking import Candidate, Ranking, Source


def replace_with_programs(ranking: Ranking, sources: Sequence[Source], most: int) -> Ranking:
    """Programs in place of the prose around them, at most ``most`` of a page (0: any number)."""
    kept: list[Candidate] = []
    prose: dict[tuple[int, int], list[Candidate]] = defaultdict(list)
    for each in ranking.candidates:
        if sources[each.source].plan.filters.languages and each.place.lane != "code":
            prose[each.document].append(each)
        else:
            kept.append(each)
    for passages in prose.values():
        kept += _find_in_page(passages, sources[passages[0].source], ranking, most, len(kept))
    return replace(ranking, candidates=tuple(kept), scores=(0.0,) * len(kept))


def _find_in_page(
    passages: Sequence[Candidate], source: Source, ranking: Ranking, most: int, number: int
) -> list[Candidate]:
    uri = passages[0].place.uri
    known, text = source.snapshot.document(uri), source.snapshot.text(uri)
    wanted = frozenset(source.plan.filters.languages)
    if known is None or text is None or known["language"] in wanted:
        return list(passages)  # The page itself is written in it.
    lines = Lines(text)
    found: dict[int, Candidate] = {}
    for start, end in _iterate_programs(known, wanted):
        holding = [each for each in passages if start < each.place.end and each.place.start < end]
        score, _ = score_words(text[start:end], ranking.rarity)
        if not holding or (ranking.plan.mode == "keyword" and not score):
            continue
        best = max(holding, key=lambda each: (each.vector, -each.place.start))
        place = best.place._replace(
            # None has this number: what stands between two programs is not part of them.
            document=-1 - number - len(found),
            part=1,
            parts=1,
            start=start,
            end=end,
            start_line=lines.line_of(start),
            end_line=lines.line_of(end - 1),
            overlap=0,
            sha=sha256(text[start:end].encode("utf-8")).digest(),
        )
        found[start] = best._replace(place=place, keyword=score)
    ranked = sorted(found.values(), key=lambda each: (-each.keyword, each.place.start))
    # Where one has the words that were asked for, those without them do not answer.
    if ranked and ranked[0].keyword:
        ranked = [each for each in ranked if each.keyword]
    return ranked[: most or None]


def _iterate_programs(
    known: Mapping[str, object], wanted: frozenset[str]
) -> Iterator[tuple[int, int]]:
    spans = known.get("programs")
    for language, places in spans.items() if isinstance(spans, dict) else ():
        if language in wanted:
            yield from ((start, end) for start, end in places)
