"""Normalised text and byte offsets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookfar.text.normalise import ByteOffsets, normalise, normalise_text

examples = settings(max_examples=200, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"a", "a\n"),
        (b"a\n\n", "a\n\n"),
        (b"\xef\xbb\xbfa\n", "a\n"),
        (b"\xef\xbb\xbf", ""),
        (b"a\r\nb\rc\r\r\nd", "a\nb\nc\n\nd\n"),
        ("é👩‍💻\r\n漢字".encode(), "é👩‍💻\n漢字\n"),
        (b"\xff\xfe" + "é𝄞\r\n".encode("utf-16-le"), "é𝄞\n"),
        (b"\xfe\xff" + "é𝄞".encode("utf-16-be"), "é𝄞\n"),
        ("\ufeff\ufeffa".encode(), "\ufeffa\n"),
        (
            b"a\x0b\x0c\x1c\x85b\n".replace(b"\x85", "\x85\u2028".encode()),
            "a\x0b\x0c\x1c\x85\u2028b\n",
        ),
    ],
)
def test_valid_bytes_normalise_without_warning(raw: bytes, text: str) -> None:
    assert normalise(raw) == (text, ())


@pytest.mark.parametrize(
    ("raw", "text", "where"),
    [
        ("ab\ufeffé漢\n".encode() + b"\xff", "ab\ufeffé漢\n\ufffd\n", "UTF-8 at byte 11"),
        (b"\xff\xfe\x00\xd8a\x00", "\ufffda\n", "UTF-16 at byte 0"),
        (b"\xff\xfea\x00b", "a\ufffd\n", "UTF-16 at byte 2"),
    ],
)
def test_broken_bytes_are_replaced_and_named(raw: bytes, text: str, where: str) -> None:
    normalised, warnings = normalise(raw)
    assert normalised == text
    assert len(warnings) == 1
    assert where in warnings[0]


def test_a_lone_surrogate_is_replaced() -> None:
    assert normalise_text("a\ud800b") == "a\ufffd\ufffd\ufffdb\n"


@examples
@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_give_text_that_utf8_can_hold(raw: bytes) -> None:
    text, _ = normalise(raw)
    assert "\r" not in text
    assert not text or text.endswith("\n")
    assert normalise_text(text).removeprefix("\ufeff") == text.removeprefix("\ufeff")


@examples
@given(st.text() | st.text(alphabet="a漢é👩\u0301", min_size=200, max_size=600))
def test_byte_offsets_agree_with_encoding_each_prefix(text: str) -> None:
    offsets = ByteOffsets(text)
    for char in range(len(text) + 1):
        assert offsets.char(len(text[:char].encode())) == char
