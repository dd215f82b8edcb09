"""What is said of a document that nobody knows: the nearest names, without comparing them all."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import pytest

from lookfar.retrieve.locate import nearest
from lookfar.retrieve.locate.nearest import unknown_document


class Known:
    """A snapshot, as far as it is asked here."""

    def __init__(self, uris: list[str]) -> None:
        self._uris = uris

    def uris(self) -> list[str]:
        return self._uris

    def note_names(self) -> list[tuple[str, str, str]]:
        return [(uri.rpartition("/")[2].removesuffix(".md"), uri, "") for uri in self._uris]


def named(uris: list[str], asked: str) -> tuple[list[str], str]:
    error = unknown_document(Known(uris), asked)  # type: ignore[arg-type]
    return error.details["candidates"], error.hint or ""


MANY = [f"docs/part{number % 97}/page{number:05}.md" for number in range(20_000)]


def test_few_names_are_compared_letter_by_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to fail where all of them were: a wrong name cost 5 seconds among 50,000."""
    compared: list[int] = []

    def noting(word: str, among: Any, **how: Any) -> list[str]:
        compared.append(len(among))
        return get_close_matches(word, among, **how)

    monkeypatch.setattr(nearest, "get_close_matches", noting)
    near, _ = named([*MANY, "guides/installation.md"], "guide/instalation.md")
    assert near[0] == "guides/installation.md"
    assert compared == [nearest._MAX_COMPARED]


@pytest.mark.parametrize("asked", ["installation.md", "gudes/installation.md", "guides/instal.md"])
def test_a_name_is_found_among_many(asked: str) -> None:
    assert named([*MANY, "guides/installation.md"], asked)[0][0] == "guides/installation.md"


def test_the_same_few_are_found_as_ever() -> None:
    assert named(["guide.md", "security/keys.md"], "gide.md") == (
        ["guide.md"],
        "Nearest: guide.md.",
    )


@pytest.mark.parametrize("number", [3, 1_000])
def test_no_hash_is_offered_for_another(number: int) -> None:
    """Seen to fail where any two were compared."""
    known = [f"{each:040x}" for each in range(number)]
    assert named(known, f"{number:040x}") == ([], "Give its whole hash.")


def test_an_empty_name_among_many() -> None:
    assert named(MANY, "")[0] == []
