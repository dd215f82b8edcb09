"""Find the known word closest to a misspelt one, by edit distance."""

from __future__ import annotations

from collections.abc import Callable, Iterable

_SHORTEST = 4
_LONG = 10
"""Length from which a word may have two typos: ``collision`` is not ``concision``."""

Vocabulary = Callable[[str], Iterable[tuple[str, int]]]
"""Returns the known terms with a prefix, each with its number of documents."""


def count_allowed_typos(term: str) -> int:
    """Return how many letters of a term may be wrong."""
    if len(term) < _SHORTEST or not (term.isascii() and term.isalpha()):
        return 0
    return 2 if len(term) >= _LONG else 1


def find_nearest(
    term: str, vocabulary: Vocabulary, occurs: Callable[[str], bool] = lambda _: True
) -> str:
    """Return the known term nearest to an unknown one, or an empty string.

    Only terms that begin with one of its first two letters are compared, for speed. Of equally near
    terms, the most frequent is returned. The vocabulary may contain terms of deleted documents;
    ``occurs`` tells whether a document still has one.
    """
    most = count_allowed_typos(term)
    if not most:
        return ""
    near: list[tuple[int, int, str]] = []
    letters = frozenset(term)
    for prefix in dict.fromkeys(term[:2]):
        for known, count in vocabulary(prefix):
            if abs(len(known) - len(term)) > most or not known.isalpha():
                continue
            # A typo changes at most two letters of the set, so this is a quick first check.
            if len(letters.symmetric_difference(known)) > 2 * most:
                continue
            apart = edit_distance(term, known, most)
            if apart <= most:
                near.append((apart, -count, known))
    return next((known for _, _, known in sorted(near) if occurs(known)), "")


def edit_distance(left: str, right: str, most: int) -> int:
    """Return how many letters to insert, remove, replace or swap; exact only up to ``most``."""
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
