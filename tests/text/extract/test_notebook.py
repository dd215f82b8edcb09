"""Notebooks: cells in order as Markdown and code, outputs as bounded text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.formats import extract, extractor_for
from lookfar.text.parse.markdown import parse


def extract_cells(*cells: dict[str, Any], limits: Limits | None = None, **rest: Any) -> Extracted:
    row = extractor_for("a/Notes.IPYNB")
    assert row is not None
    return extract(row, json.dumps({"cells": cells, **rest}).encode(), limits)


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": list(outputs)}


def markdown(source: str | list[str]) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source}


def test_cells_become_markdown_with_places() -> None:
    result = extract_cells(
        markdown(["# Loss curves\n", "Why the loss falls."]),
        code("print(loss)", {"output_type": "stream", "name": "stdout", "text": "0.25\n"}),
        code(""),
        markdown("The end."),
        metadata={"kernelspec": {"language": "R"}, "title": "Curves"},
    )
    assert result.text == (
        "# Loss curves\nWhy the loss falls.\n\n```r\nprint(loss)\n```\n\n```text\n0.25\n```\n\n"
        "The end.\n"
    )
    assert [place.label for place in result.places] == ["cell=1", "cell=2", "cell=3", "cell=4"]
    starts = {place.label: place.start for place in result.places}
    assert result.text[starts["cell=2"] :].startswith("```r")
    assert starts["cell=3"] == starts["cell=4"]  # The empty cell has no text.
    assert result.text[starts["cell=4"] :] == "The end.\n"
    assert result.title == "Curves"


def test_an_open_fence_does_not_swallow_the_next_cell() -> None:
    result = extract_cells(markdown("```python\nx = 1"), markdown("# After"))
    sections = parse("a.md", result.text).sections
    assert [section.title for section in sections if section.title] == ["After"]


def test_code_with_fences_stays_one_block() -> None:
    result = extract_cells(code('text = """\n```\n# not a heading\n```\n"""'))
    document = parse("a.md", result.text)
    assert [block.kind for block in document.blocks] == ["fence"]
    assert not [section for section in document.sections if section.title]


def test_outputs_are_text_and_bounded() -> None:
    long = {"output_type": "stream", "text": "".join(f"line {n}\n" for n in range(100))}
    error = {"output_type": "error", "ename": "KeyError", "traceback": ["\x1b[31mKeyError\x1b[0m"]}
    image = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" * 50}}
    value = {"output_type": "execute_result", "data": {"text/plain": ["42 ", "rows"]}}
    text = extract_cells(code("f()", long, error, image, value)).text
    assert "line 59\n" in text
    assert "line 60" not in text
    assert "… (41 more lines)" in text
    assert "KeyError\n" in text
    assert "\x1b" not in text
    assert "iVBOR" not in text
    assert "42 rows" in text


def test_the_third_format_is_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Old"]},
        {"cell_type": "code", "input": ["x"], "language": "python", "outputs": []},
    ]
    data = json.dumps({"worksheets": [{"cells": cells}]}).encode()
    row = extractor_for("a.ipynb")
    assert row is not None
    assert extract(row, data).text == "## Old\n\n```python\nx\n```\n"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"[]", "damaged"),
        (b'{"cells": 3}', "damaged"),
        (b'{"cells": []}', "no_text"),
        (b'{"cells": [3, null, {"cell_type": 4, "source": {"a": 1}}]}', "no_text"),
    ],
)
def test_what_is_not_a_notebook_is_refused(data: bytes, code: str) -> None:
    row = extractor_for("a.ipynb")
    assert row is not None
    with pytest.raises(CannotExtract) as caught:
        extract(row, data)
    assert caught.value.code == code


def test_limits_hold() -> None:
    with pytest.raises(CannotExtract, match="more than 2 cells"):
        extract_cells(*[markdown("a")] * 3, limits=Limits(max_parts=2))
    result = extract_cells(*[code("x = 1\n" * 50)] * 9, limits=Limits(max_output_chars=700))
    assert len(result.text) <= 710
    assert result.warnings == ("the text was cut after 700 characters",)
    assert [block.kind for block in parse("a.md", result.text).blocks] == ["fence"] * 3
