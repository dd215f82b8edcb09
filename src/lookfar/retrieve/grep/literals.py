"""Derive which texts a document must contain for an expression to match.

The result is a condition for the index, in lower case. It is necessary but not sufficient; if
nothing is certain, it admits every document.
"""

from __future__ import annotations

from typing import Final

from lookfar.ports import EVERYTHING, AllOf, AnyOf, Need
from lookfar.retrieve.grep.syntax import Char, CharSet, Choice, Node, Repeat, Sequence
from lookfar.store.keywords.signatures import SHORTEST, fold

_MOST_TEXTS: Final = 16
_LONGEST: Final = 200

Exact = tuple[str, ...]
"""All texts that a part matches, if they are known and few."""


def derive_need(node: Node) -> Need:
    """Return the condition for an expression."""
    exact, need = _analyse(node)
    return _all_of([need, _one_of(exact)]) if exact is not None else need


def derive_literal_need(text: str, *, fold: bool) -> Need:
    """Return the condition for a text; with ``fold`` in any case."""
    if not fold:
        return _one_of((text,))
    return derive_need(
        Sequence(tuple(Char(char, fold=char.lower() != char.upper()) for char in text))
    )


def _analyse(node: Node) -> tuple[Exact | None, Need]:
    """Return the texts that a part matches, if they are few, and what else is required."""
    if isinstance(node, Char):
        return _letters(node.char, node.fold), EVERYTHING
    if isinstance(node, CharSet):
        if not node.few:
            return None, EVERYTHING
        letters = [_letters(char, node.fold) for char in node.few]
        known = [text for texts in letters if texts is not None for text in texts]
        return (tuple(known) if None not in letters else None), EVERYTHING
    if isinstance(node, Sequence):
        return _analyse_sequence(node)
    if isinstance(node, Choice):
        return _analyse_choice(node)
    if isinstance(node, Repeat):
        if node.least == 0:
            return None, EVERYTHING
        exact, need = _analyse(node.part)
        if (node.least, node.most) == (1, 1):
            return exact, need
        return None, _all_of([need, _one_of(exact)]) if exact is not None else need
    return ("",), EVERYTHING  # An assertion does not match any character.


def _letters(char: str, fold: bool) -> Exact | None:
    """Return the character; ``None`` if it has other cases outside of ASCII."""
    if fold and not char.isascii():
        return None
    return (char,)


def _analyse_sequence(node: Sequence) -> tuple[Exact | None, Need]:
    needs: list[Need] = []
    run: Exact = ("",)
    whole = True
    for part in node.parts:
        exact, need = _analyse(part)
        needs.append(need)
        joined = None if exact is None else tuple(
            dict.fromkeys(before + after for before in run for after in exact)
        )  # fmt: skip
        if joined is not None and len(joined) <= _MOST_TEXTS and len(joined[0]) <= _LONGEST:
            run = joined
            continue
        needs.append(_one_of(run))
        whole = False
        run = exact if exact is not None else ("",)
    if whole:
        return run, _all_of(needs)
    needs.append(_one_of(run))
    return None, _all_of(needs)


def _analyse_choice(node: Choice) -> tuple[Exact | None, Need]:
    branches = [_analyse(part) for part in node.parts]
    exacts = [exact for exact, _ in branches if exact is not None]
    together = tuple(dict.fromkeys(text for exact in exacts for text in exact))
    if len(exacts) == len(branches) and len(together) <= _MOST_TEXTS:
        needs = [need for _, need in branches]
        return together, AnyOf(tuple(needs)) if EVERYTHING not in needs else EVERYTHING
    needs = [need if exact is None else _all_of([need, _one_of(exact)]) for exact, need in branches]
    return None, EVERYTHING if EVERYTHING in needs else AnyOf(tuple(needs))


def _one_of(texts: Exact) -> Need:
    """Require one of these texts; texts too short for the index admit every document."""
    folded = list(dict.fromkeys(fold(text.encode()) for text in texts))
    if any(len(text) < SHORTEST for text in folded):
        return EVERYTHING
    return folded[0] if len(folded) == 1 else AnyOf(tuple(folded))


def _all_of(needs: list[Need]) -> Need:
    telling = tuple(dict.fromkeys(need for need in needs if need != EVERYTHING))
    return telling[0] if len(telling) == 1 else AllOf(telling)
