"""RTF to Markdown: any control words in any nesting.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.rtf",
    words=(
        "{\\rtf1", "\\par ", "{", "}", "\\'e4", "\\u8364?", "\\u-9999 ", "\\uc9 ", "\\ansicpg932 ",
        "{\\fonttbl{\\f1\\fcharset128 x;}}", "\\f1 ", "{\\stylesheet{\\s3 heading 2;}}", "\\s3 ",
        "\\outlinelevel9 ", "\\trowd\\intbl ", "\\cell ", "\\row ", "{\\*\\unknown ", "\\bin9999 ",
        "{\\field{\\*\\fldinst{HYPERLINK \"x\"}}{\\fldrslt{y}}}", "{\\*\\footnote ", "\\v ",
        "\\v0 ", "\\pard ", "{\\pict ", "\\u55357?\\u56832?", "\\\n", "\\\\", "{\\listtext ",
    ),
)  # fmt: skip
