"""Bytes to text: any encoding, any declaration, any damage.

Takes: the bytes of a file. Gives: the decoded text and its warnings. Refuses: nothing.
"""

from __future__ import annotations

from fuzz.common import Target
from lookfar.sources.fingerprints import is_binary
from lookfar.text.extract.formats import is_template
from lookfar.text.normalise import Decoded, decode, normalise_lines, normalise_text


def work(data: bytes) -> tuple[Decoded, bool, bool]:
    return decode(data), is_binary(data, known=False), is_template(data)


def check(data: bytes, result: tuple[Decoded, bool, bool]) -> None:
    decoded = result[0]
    assert decoded.text.encode("utf-8").decode("utf-8") == decoded.text
    text = normalise_lines(decoded.text)
    assert normalise_text(text).removeprefix("\ufeff") == text.removeprefix("\ufeff")
    # What is not exact is reported: without a warning, the same bytes come back. Of other encodings
    # several byte sequences may mean one character.
    if not decoded.warnings and decoded.encoding.startswith("utf-"):
        assert data.endswith(decoded.text.encode(decoded.encoding))


TARGET = Target(
    work,
    check,
    words=(
        "\ufeff", "# coding: cp1252\n", '<?xml encoding="koi8-r"?>', "<meta charset=euc-jp>",
        "vim: set fenc=latin2 :", "Local Variables:\ncoding: big5\n", "\x1b$B", "\x1b(B", "\0",
        "é", "設定", "Привет", "\\usepackage[latin1]{inputenc}", "{{ x }}", "<pre>", "</pre>", "<%",
    ),
)  # fmt: skip
