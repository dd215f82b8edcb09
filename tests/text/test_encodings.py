"""Files in every usual encoding: decoded exactly, or with a warning that names the doubt."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness import amount
from lookfar.common.wide_text import detect_wide
from lookfar.text.normalise import decode, normalise, normalise_text
from processor_time import processor_time_below

GERMAN = "Die Straße nach Köln ist gesperrt; das Café am Büro öffnet später.\n"
RUSSIAN = "Привет, мир! Это короткий текст о погоде в Москве.\n"
JAPANESE = "これは日本語のテキストです。設定を変更してください。\n"
POLISH = "Zażółć gęślą jaźń, proszę państwa. Świetnie, że jesteście.\n"
CHINESE = "这是一个中文文本，用于测试编码检测。\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", GERMAN),
        ("cp1252", "It’s “quoted” – naïve résumé\n"),
        ("latin-1", "El niño comió piña en el jardín\n"),
        ("cp1251", RUSSIAN),
        ("koi8-r", RUSSIAN),
        ("shift_jis", JAPANESE),
        ("euc-jp", JAPANESE),
        ("gb18030", CHINESE),
        ("big5", "這是一個中文文本，用於測試編碼檢測。\n"),
        ("euc-kr", "안녕하세요. 이것은 한국어 텍스트입니다.\n"),
        ("cp1250", POLISH),
        ("cp1253", "Καλημέρα κόσμε, αυτό είναι ένα κείμενο.\n"),
    ],
)
def test_an_undeclared_encoding_is_detected_and_doubted(encoding: str, text: str) -> None:
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert len(decoded.warnings) == 1
    assert decoded.warnings[0].startswith("not UTF-8: read as ")


def test_the_doubt_names_the_alternatives() -> None:
    (warning,) = decode("café\n".encode("cp1252")).warnings
    assert "windows-1252" in warning
    assert "may also be windows-125" in warning


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<?xml version="1.0" encoding="ISO-8859-2"?>\n', "iso-8859-2"),
        ("<html><head><meta charset=iso-8859-2>\n", "iso-8859-2"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">', "iso-8859-2"),
        ('@charset "iso-8859-2";\n', "iso-8859-2"),
        ("#!/usr/bin/python\n# -*- coding: iso-8859-2 -*-\n", "iso-8859-2"),
        ("# vim: set fileencoding=latin2 :\n", "iso-8859-2"),
        ("\\documentclass{book}\n\\usepackage[latin2]{inputenc}\n", "iso-8859-2"),
        ('msgid ""\n"Content-Type: text/plain; charset=ISO-8859-2\\n"\n', "iso-8859-2"),
        ("; -*- mode: lisp; coding: iso-8859-2-unix -*-\n", "iso-8859-2"),
    ],
)
def test_a_declared_encoding_is_taken_at_its_word(head: str, encoding: str) -> None:
    text = head + POLISH
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.warnings) == (text, "iso8859-2", ())


@pytest.mark.parametrize(
    "tail", ["# vim: set ts=4 fenc=koi8-r :\n", "Local Variables:\ncoding: koi8-r\nEnd:\n"]
)
def test_an_editor_declares_at_the_end(tail: str) -> None:
    text = RUSSIAN * 100 + tail
    assert decode(text.encode("koi8-r"))[:] == (text, "koi8-r", ())


def test_a_declaration_that_is_wrong_is_not_followed() -> None:
    text = '<?xml version="1.0" encoding="windows-1252"?>\n' + GERMAN
    assert decode(text.encode()).text == text
    broken = b'<?xml version="1.0" encoding="euc-kr"?>' + GERMAN.encode("cp1252")
    assert GERMAN in decode(broken).text
    assert decode(broken).warnings
    unknown = b"# coding: klingon\n" + GERMAN.encode("cp1252")
    assert GERMAN in decode(unknown).text
    not_text = b"# coding: base64\n" + GERMAN.encode("cp1252")
    assert GERMAN in decode(not_text).text


def test_a_declared_seven_bit_encoding_is_not_read_as_ascii() -> None:
    text = '<meta charset="iso-2022-jp">\n' + JAPANESE
    assert decode(text.encode("iso-2022-jp"))[:] == (text, "iso2022_jp", ())


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF8, "utf-8"),
        (b"", "utf-16-le"),
        (b"", "utf-16-be"),
    ],
)
def test_wide_text_is_read_with_and_without_a_mark(mark: bytes, encoding: str) -> None:
    text = "Release notes: 1.0.21 fixes é and 漢.\n"
    assert decode(mark + text.encode(encoding))[:] == (text, encoding, ())


def test_a_cut_character_does_not_cost_the_others() -> None:
    raw = (JAPANESE * 3_000).encode("shift_jis")
    assert decode(raw)[:2] == (JAPANESE * 3_000, "cp932")
    cut = decode((JAPANESE * 3).encode("shift_jis") + b"\x82")
    assert cut.text == JAPANESE * 3 + "\ufffd"
    assert "1 unreadable characters" in cut.warnings[1]


def test_a_few_damaged_characters_do_not_cost_the_others() -> None:
    raw = JAPANESE.encode() + b"\xff\n" + GERMAN.encode()
    decoded = decode(raw)
    assert decoded.text == JAPANESE + "\ufffd\n" + GERMAN
    assert "U+FFFD" in decoded.warnings[0]


@settings(max_examples=amount(200, 5_000), deadline=None, derandomize=True)
@given(st.binary(max_size=300))
@example(b"\x00")
@example(b"\xff\xfe\x00\x00")
@example(bytes(range(256)))
def test_nothing_is_replaced_without_a_warning(raw: bytes) -> None:
    text, warnings = normalise(raw)
    assert text.encode("utf-8").decode("utf-8") == text
    assert normalise_text(text).removeprefix("\ufeff") == text.removeprefix("\ufeff")
    if "\ufffd" in text and "\ufffd".encode() not in raw:
        assert warnings or detect_wide(raw) or raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0"))


def test_a_megabyte_is_decoded_in_a_moment() -> None:
    raw = (GERMAN * 16_000).encode("cp1252")
    with processor_time_below(5):
        assert decode(raw).text == GERMAN * 16_000
