"""The README: its recording is a session that the program still gives, its figures are measured.

Mutations it was seen to catch: a recorded answer that was edited by hand, a part that never
appears.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from script_modules import load_script

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "session.svg"
SVG = "{http://www.w3.org/2000/svg}"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the session is recorded on Linux"
)


def words(text: str) -> list[str]:
    """Return the words, without what differs between machines: scores and times."""
    return re.sub(r"\d+ ms|\b\d\.\d{3}\b", "", text).split()


def test_the_program_still_answers_as_recorded(tmp_path: Path) -> None:
    recording = load_script("scripts/recording.py")
    scenes = recording.record(tmp_path, takes=1)
    shown = []
    for scene in scenes:
        for command in scene:
            shown += ["$", *words(command.typed), *words(command.text)]
    texts = ET.parse(PICTURE).getroot().iter(f"{SVG}text")
    recorded = [" ".join(span.text or "" for span in text) for text in texts]
    assert "".join(words(" ".join(recorded))) == "".join(shown), "run scripts/recording.py"


def test_the_picture_loads_nothing_and_every_part_appears() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text) < 60_000
    assert not re.search(r"<script|href|url\(|@import|@font-face", text)
    parts = set(re.findall(r'<g class="(p\d+)">', text))
    assert parts == set(re.findall(r"@keyframes (p\d+) ", text))
    assert len(parts) > 20
    assert "prefers-reduced-motion" in text


def test_the_readme_shows_it() -> None:
    assert "](docs/images/session.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_each_figure_of_the_comparison_is_in_the_page_that_it_names() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Compared with what you use now", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 5
    for *_, measured, _ in rows:
        pages = re.findall(r"\]\((docs/[\w/-]+\.md)", measured)
        assert pages, measured
        text = " ".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
        claim = re.sub(r"\[[^\]]*\]\([^)]*\)|@10", "", measured)
        for figure in re.findall(
            r"\.\d{3}|\d[\d.]*(?= ms)|\b\d{2,3}\b(?= questions| repos)", claim
        ):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}\b", text), f"{figure}: {measured}"
