"""Mail, mailboxes, RTF, subtitles and canvases."""

from __future__ import annotations

import json
from email.message import EmailMessage

import pytest

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.formats import EXTRACTORS, extract, extractor_for
from text.extract.made_office import make_docx, make_zip
from text.extract.made_pdf import Drawn, make_pdf


def extract_file(name: str, data: bytes | str, limits: Limits | None = None) -> Extracted:
    row = extractor_for(name)
    assert row is not None
    return extract(row, data.encode() if isinstance(data, str) else data, limits)


def place_of(result: Extracted, words: str) -> str:
    offset = result.text.index(words)
    return [place.label for place in result.places if place.start <= offset][-1]


# --- mail -------------------------------------------------------------------------------------


def make_message(subject: str, text: str, html: str = "") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Åsa <asa@example.org>"
    message["To"] = "b@example.org"
    message["Subject"] = subject
    message["X-Spam"] = "hidden"
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    return message


def test_a_message_has_headers_text_and_attachments() -> None:
    message = make_message("Häfen 港", "Plain words.\n\nSecond.", "<p>Rich words.</p>")
    body = '<w:p><w:r><w:t xml:space="preserve">The contract.</w:t></w:r></w:p>'
    message.add_attachment(make_docx(body), "application", "octet-stream", filename="c.docx")
    pdf = make_pdf([Drawn(60, 700, "Fees", 20), Drawn(60, 600, "Nine hundred for a ferry.")])
    message.add_attachment(pdf, "application", "pdf", filename="fees.pdf")
    message.add_attachment(b"\x89PNG", "image", "png", filename="pier.png")
    message.add_attachment(b"%PDF-", "application", "pdf", filename="torn.pdf")
    result = extract_file("a.eml", message.as_bytes())
    assert result.text.startswith(
        "# Häfen 港\n\nFrom: Åsa <asa@example.org>\nTo: b@example.org\n\nPlain words.\n\nSecond.\n"
    )
    assert "Rich words" not in result.text
    assert "hidden" not in result.text
    assert "\n## Attachment: c.docx\n\nThe contract.\n" in result.text
    assert "\n## Attachment: fees.pdf\n\n### Fees\n\nNine hundred for a ferry.\n" in result.text
    assert "\n## Attachment: pier.png\n\nimage/png, 4 bytes\n" in result.text
    assert place_of(result, "Plain words") == "part=1"
    assert place_of(result, "The contract") == "part=2"
    assert place_of(result, "Nine") == "part=3"
    assert result.title == "Häfen 港"
    assert result.warnings == ("attachment torn.pdf: the file is damaged or is not a PDF",)


def test_text_survives_a_damaged_name_of_its_encoding() -> None:
    raw = b"Subject: Quay\nContent-Type: text/plain; charset=lat\0in\n\nThe caf\xe9 is closed.\n"
    assert "The café is closed." in extract_file("a.eml", raw).text


def test_html_mail_is_read_when_there_is_nothing_else() -> None:
    message = make_message("Hi", "", "<p>Only <b>rich</b>.</p>")
    assert "Only rich." in extract_file("a.eml", message.as_bytes()).text


def test_attached_messages_are_followed_to_a_depth() -> None:
    message = make_message("level 0", "text 0")
    for level in range(1, 7):
        outer = make_message(f"level {level}", f"text {level}")
        outer.add_attachment(message)
        message = outer
    result = extract_file("a.eml", message.as_bytes())
    assert [f"text {level}\n" in result.text for level in range(7)] == [False] * 3 + [True] * 4
    assert result.warnings


def test_a_bomb_in_an_attachment_costs_that_attachment() -> None:
    message = make_message("Bomb", "Words.")
    bomb = make_zip({"content.xml": b" " * 30_000_000})
    message.add_attachment(bomb, "application", "octet-stream", filename="a.odt")
    result = extract_file("a.eml", message.as_bytes())
    assert "Words." in result.text
    assert "zip bomb" in result.warnings[0]


def test_messages_of_a_mailbox_are_places() -> None:
    first = make_message("One", "First text.\nFrom here on.\n")
    second = make_message("Two", "Second text.\n")
    data = b"".join(
        b"From a@example.org Mon\n" + m.as_bytes().replace(b"\nFrom h", b"\n>From h") + b"\n\n"
        for m in (first, second)
    )
    result = extract_file("a.mbox", data)
    assert [place.label for place in result.places] == ["message=1", "message=2"]
    assert place_of(result, "First text.\nFrom here on.") == "message=1"
    assert place_of(result, "Second text.") == "message=2"


# --- RTF --------------------------------------------------------------------------------------


def test_rtf_keeps_structure_and_characters() -> None:
    data = (
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times;}{\f1\fcharset128 Mincho;}}"
        rb"{\stylesheet{\s3 heading 2;}}{\info{\title hidden}}{\pict 89504e47}"
        rb"{\pard\s3 Fees\par}{\pard Geb\'fchr \u8364?5 {\f1\'8d\'60} \{x\} \emdash\par}"
        rb"{\pard See {\field{\*\fldinst{HYPERLINK "
        rb'"https://example.org/a"}}{\fldrslt{the survey}}}{\*\footnote Exempt.}.\par}'
        rb"\trowd{\pard\intbl Ferry\cell}{\pard\intbl 900\cell}\row{\pard\intbl Tug\cell}"
        rb"{\pard\intbl 40\cell}\row{\pard {\v secret}end\par}{\*\unknown gone}}"
    )
    assert extract_file("a.rtf", data).text == (
        "## Fees\n\nGebühr €5 港 {x} —\n\nSee [the survey](https://example.org/a) (Exempt.).\n\n"
        "| Ferry | 900 |\n|---|---|\n| Tug | 40 |\n\nend\n"
    ).replace("港", b"\x8d\x60".decode("cp932"))


# --- subtitles --------------------------------------------------------------------------------


def test_subtitles_become_paragraphs_with_times() -> None:
    srt = (
        "1\r\n00:00:01,000 --> 00:00:03,000\r\nThe <i>harbour</i>\r\nis deep\r\n\r\n"
        "2\r\n00:00:03,500 --> 00:00:05,000\r\nand cold.\r\n\r\n"
        "3\r\n00:00:11,000 --> 00:00:12,000\r\nA gull cries.\r\n\r\n"
        "4\r\n01:02:03,000 --> 01:02:05,000\r\nThe end.\r\n"
    )
    result = extract_file("a.srt", srt)
    assert result.text == "The harbour is deep\nand cold.\n\nA gull cries.\n\nThe end.\n"
    labels = [place.label for place in result.places]
    assert labels == ["time=00:00:01", "time=00:00:11", "time=01:02:03"]


def test_web_subtitles_name_the_speaker() -> None:
    vtt = (
        "WEBVTT\n\nNOTE hidden\n\nintro\n00:01.000 --> 00:03.000 align:start\n"
        "<v Åsa>Depth &amp; tide?\n\n00:03.000 --> 00:04.000\n<00:03.500>Twelve.\n"
    )
    result = extract_file("a.vtt", vtt)
    assert result.text == "Åsa: Depth & tide?\nTwelve.\n"


# --- canvas -----------------------------------------------------------------------------------


def test_a_canvas_is_read_by_group_from_top_to_bottom() -> None:
    nodes = [
        {"id": "b", "type": "text", "text": "# Late\nwords", "x": 0, "y": 500},
        {"id": "g", "type": "group", "label": "Ideas", "x": 0, "y": 0, "width": 9, "height": 9},
        {"id": "u", "type": "link", "url": "https://example.org", "x": 1, "y": 3},
        {"id": "f", "type": "file", "file": "a/b.md", "subpath": "#Part", "x": 1, "y": 2},
    ]
    edges = [{"fromNode": "b", "toNode": "f", "label": "explains"}, {"fromNode": "b"}, 3]
    result = extract_file("a.canvas", json.dumps({"nodes": nodes, "edges": edges}))
    assert result.text == (
        "## Ideas\n\n[[a/b.md#Part]]\n\nhttps://example.org\n\n# Late\nwords\n\n"
        "## Arrows\n\n- Late → a/b.md: explains\n"
    )
    assert place_of(result, "words") == "node=b"


# --- all --------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", EXTRACTORS, ids=lambda row: row.name)
@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"\xff" * 100, b"{" * 5000, b"\\" * 5000])
def test_garbage_is_text_or_has_a_reason(row: object, data: bytes) -> None:
    assert row in EXTRACTORS
    try:
        text = extract(row, data).text
    except CannotExtract as error:
        text = error.reason
    assert text


def test_every_extension_has_one_extractor() -> None:
    endings = [ending for row in EXTRACTORS for ending in row.extensions]
    assert len(set(endings)) == len(endings)
    assert extractor_for("folder.pdf/readme") is None
    assert extractor_for(".pdf") is None
    assert extractor_for("Report.PDF") is extractor_for("a/b.pdf")
