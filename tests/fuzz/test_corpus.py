"""What fuzzers found, what is worth a look, and what hypothesis makes, through every fuzz target.

Seen to fail with a chunker that lost the last character of a long function, with front matter
whose dotted keys had no bound (0.6 s for 16 KiB), with a hello whose token was half a character,
and with a target that called a random number.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import common
from harness import amount, report
from lookfar.errors import LookfarError

CORPUS = Path(__file__).parent / "corpus"
LARGEST = 16 * 1024
EXAMPLES = amount(60, 2_000)
MARGIN = amount(int(common.MARGIN), 1)
"""A night holds every target to its promise; it takes the best of more tries."""
TRIES = amount(common.TRIES, 15)
PROMISED = ("markdown", "frontmatter", "query", "globs")
"""Nothing over 100 ms for 64 KiB, or for as much as they take."""


def kept(name: str) -> list[Path]:
    return sorted((CORPUS / name).iterdir())


@pytest.mark.parametrize("name", common.NAMES)
def test_what_was_found_stays_mended(name: str) -> None:
    """Every input of the corpus as it is, and made 64 KiB long for its time."""
    target, slowest, slow = common.target_of(name), 0.0, []
    inputs = kept(name)
    assert inputs
    for path in inputs:
        data = path.read_bytes()
        assert len(data) <= LARGEST, f"{path.name} is too large to keep"
        common.examine(target, data)
        spent = common.seconds(target, common.stretched(data, target.size), TRIES)
        slowest = max(slowest, spent)
        if spent > target.limit * MARGIN:
            slow.append((path.name, spent))
    size, most = target.size // 1024, target.limit * 1000
    note = f"slowest {slowest * 1000:.0f} ms for {size} KiB, of {most:.0f} promised"
    report(
        f"fuzz corpus: {name}", trials=2 * len(inputs), faults=len(inputs), failures=len(slow),
        note=note,
    )  # fmt: skip
    assert slow == []


@pytest.mark.parametrize("name", common.NAMES)
def test_whatever_is_generated_is_read(name: str) -> None:
    """Pieces of the target's own words, of its corpus, and of anything."""
    target = common.target_of(name)
    words = [word.encode("utf-8", "surrogateescape") for word in target.words]
    pieces = st.sampled_from([*words, *(path.read_bytes()[:200] for path in kept(name))])
    inputs = st.lists(pieces | st.binary(max_size=8) | st.text(max_size=8).map(_bytes), max_size=30)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs.map(b"".join))
    def hold(data: bytes) -> None:
        common.examine(target, data)

    hold()
    report(f"generated input: {name}", trials=EXAMPLES, faults=EXAMPLES)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def test_every_target_is_here() -> None:
    folder = Path(common.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")}
    assert modules - {"__init__", "__main__", "common", "extracting", "inside"} == set(common.NAMES)
    assert {path.name for path in CORPUS.iterdir()} == set(common.NAMES)


def test_what_is_promised_is_what_is_measured() -> None:
    for name in PROMISED:
        assert common.target_of(name).limit <= 0.1


def test_an_internal_error_is_no_refusal() -> None:
    """Seen to fail when whatever had our type was a refusal."""

    def work(data: bytes) -> None:
        raise LookfarError("x", hint="y")

    target = common.Target(work, lambda data, result: None, (LookfarError,))
    with pytest.raises(AssertionError, match="internal"):
        common.examine(target, b"x")


def _never(data: bytes, result: object) -> None:
    raise AssertionError("a refused input is not checked")


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda data: random.random(), "another result"),
        (lambda data: data.decode("ascii"), "ordinal not in range"),
    ],
)
def test_the_check_can_fail(work: object, why: str) -> None:
    target = common.Target(work, lambda data, result: None)  # type: ignore[arg-type]
    with pytest.raises((AssertionError, UnicodeDecodeError), match=why):
        common.examine(target, b"\xff")
    quiet = common.Target(lambda data: data.decode("ascii"), _never, (UnicodeDecodeError,))
    common.examine(quiet, b"\xff")


def test_time_is_measured_on_a_long_input() -> None:
    seen: list[int] = []

    def slow(data: bytes) -> None:
        seen.append(len(data))
        sum(range(len(data) * 200))

    target = common.Target(slow, lambda data, result: None, limit=1e-4)
    with pytest.raises(AssertionError, match="for 64 KiB"):
        common.examine_time(target, b"abc")
    assert seen == [common.SIZE] * 3
    assert common.stretched(b"abc", 9) == b"abbbbbbbc"
