"""Words that nobody wrote, and the nearest that somebody did.

Takes: a term that the index does not know, and the terms it knows. Gives: the one it was
probably meant to be, by the number of letters that differ. Refuses: short words, in which
every letter counts, and names with digits or signs in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

_SHORTEST = 4
_LONG = 8
"""Letters of a word in which two may be wrong."""

Vocabulary = Callable[[str], Iterable[tuple[str, int]]]
"""Known terms that begin so, each with how many documents hold it."""


def count_allowed_typos(term: str) -> int:
    """How many letters of a term may be wrong."""
    if len(term) < _SHORTEST or not (term.isascii() and term.isalpha()):
        return 0
    return 2 if len(term) >= _LONG else 1


def find_nearest(term: str, vocabulary: Vocabulary) -> str:
    """The known term nearest to an unknown one, of several the commonest; or nothing.

    Only those are looked at that begin with one of its first two letters: to look at all
    would cost more than the rest of the search.
    """
    most = count_allowed_typos(term)
    if not most:
        return ""
    best: tuple[int, int, str] | None = None
    letters = frozenset(term)
    for prefix in dict.fromkeys(term[:2]):
        for known, count in vocabulary(prefix):
            if abs(len(known) - len(term)) > most or not known.isalpha():
                continue
            # One wrong letter makes two differences at most; this is quick to tell.
            if len(letters.symmetric_difference(known)) > 2 * most:
                continue
            limit = most if best is None else best[0]
            apart = edit_distance(term, known, limit)
            if apart <= limit:
                found = (apart, -count, known)
                best = found if best is None else min(best, found)
    return best[2] if best else ""


def edit_distance(left: str, right: str, most: int) -> int:
    """Letters to insert, remove, replace or swap with their neighbour; above ``most``, any
    number above it."""
    if abs(len(left) - len(right)) > most:
        return most + 1
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    before: list[int] = []
    row = list(range(len(right) + 1))
    for at, letter in enumerate(left, 1):
        older, before, row = before, row, [at]
        for to, other in enumerate(right, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != other))
            swapped = at > 1 and to > 1 and letter == right[to - 2] and left[at - 2] == other
            row.append(min(cost, older[to - 2] + 1) if swapped else cost)
        if min(row) > most:
            return most + 1
    return row[-1]
