"""Notebooks to Markdown: whatever is in the JSON, cells with places or a reason.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.ipynb",
    words=(
        '{"cells": [', ']}', '{"cell_type": "code", "source": [', '"cell_type": "markdown"',
        '"outputs": [', '{"output_type": "stream", "text": "', '{"output_type": "error"',
        '"traceback": ["', '"data": {"text/plain": "', '"metadata": {"kernelspec": {"language": "',
        '"worksheets": [', '"level": 99999', "\\u001b[31m", "\\ud800", "```", "~~~", "\\n", "null",
        "1e999", "NaN", "},", '"source": "',
    ),
)  # fmt: skip
