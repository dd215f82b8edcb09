"""Two writers on one document: one wins, the other gets an error, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from edit.faulty import editor
from harness import amount, report
from lookfar.errors import Conflict
from lookfar.model import Edit
from waiting import DEADLINE

RACES = amount(30, 500)
"""With each of two ways to share a folder: the promise is about a thousand together."""

WRITER = """
import os, sys
sys.path[:0] = [sys.argv[4], os.path.dirname(sys.argv[4])]
from pathlib import Path
from faulty import editor
from lookfar.errors import LookfarError
from lookfar.model import Edit
made = editor(Path(sys.argv[1]), Path(sys.argv[2]))
for line in sys.stdin:
    expected, _, text = line.rstrip().partition(" ")
    edit = Edit("append", "a.md", path=("A",), text=text, expected=expected.strip("-"))
    try:
        made.edit([edit])
        said = "done"
    except LookfarError as error:
        said = error.code
    sys.stdout.write(said + "\\n")
    sys.stdout.flush()
"""


class Writer:
    """Another process that edits on request."""

    def __init__(self, docs: Path, edits: Path) -> None:
        here = str(Path(__file__).parent)
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(docs), str(edits), "", here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, expected: str, text: str) -> None:
        pipe: IO[str] | None = self._process.stdin
        assert pipe is not None
        pipe.write(f"{expected or '-'} {text}\n")
        pipe.flush()

    def end(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate(timeout=DEADLINE)


@pytest.mark.parametrize("apart", [False, True], ids=["one index", "two indexes"])
def test_one_of_two_writers_wins_and_the_other_gets_an_error(tmp_path: Path, apart: bool) -> None:
    """Seen to fail without the expected hash, and for two indexes without the folder's lock."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_bytes(b"# A\n\nfirst\n\n## Below\n\nkept\n")
    mine = editor(docs, tmp_path / "edits")
    other = tmp_path / ("others" if apart else "edits")
    writers = [Writer(docs, tmp_path / "edits"), Writer(docs, other)]
    wanted = ["first"]
    for race in range(RACES):
        seen = mine.validate("a.md").sha256
        for number, writer in enumerate(writers):
            writer.begin(seen, f"race {race} by {number}")
        said = [writer.end() for writer in writers]
        assert sorted(said) == ["CONFLICT", "done"], race
        wanted.append(f"race {race} by {said.index('done')}")
    for writer in writers:
        writer.close()
    text = (docs / "a.md").read_text(encoding="utf-8")
    own = text.split("## Below")[0].removeprefix("# A\n\n")
    assert own.split("\n\n")[:-1] == wanted
    assert text.endswith("\n\n## Below\n\nkept\n")
    way = "two indexes" if apart else "one index"
    report(f"edit races ({way})", trials=RACES, faults=RACES, note="0 lost")
    assert sorted(path.name for path in docs.iterdir()) == ["a.md"]


def test_edits_that_expect_nothing_wait_for_each_other_and_none_is_lost(tmp_path: Path) -> None:
    """Threads and processes: each reads what the one before it wrote."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_bytes(b"# A\n\nfirst\n")
    rounds = max(5, RACES // 8)
    writers = [Writer(docs, tmp_path / "edits") for _ in range(2)]
    for writer, name in zip(writers, "xy", strict=True):
        for number in range(rounds):
            writer.begin("", f"{name}{number}")
    failed: list[BaseException] = []

    def write(name: str) -> None:
        try:
            for number in range(rounds):
                edit = Edit("append", "a.md", path=("A",), text=f"{name}{number}")
                editor(docs, tmp_path / "edits").edit([edit])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "zw"]
    for thread in threads:
        thread.start()
    assert [writer.end() for writer in writers for _ in range(rounds)] == ["done"] * 2 * rounds
    for thread in threads:
        thread.join(120)
    for writer in writers:
        writer.close()
    assert failed == []
    result = (docs / "a.md").read_text(encoding="utf-8").split()
    assert sorted(result[3:]) == sorted(f"{n}{r}" for n in "xyzw" for r in range(rounds))


def test_a_part_may_be_expected_while_the_rest_changes(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_bytes(b"# A\n\n## One\n\n1\n\n## Two\n\n2\n")
    made = editor(docs, tmp_path / "edits")
    one = ("A", "One")
    first = made.edit([Edit("append", "a.md", path=one, text="one")])
    part = first.documents[0].section_sha256
    whole = first.documents[0].after
    made.edit([Edit("append", "a.md", path=("A", "Two"), text="two")])
    with pytest.raises(Conflict) as raised:
        made.edit([Edit("append", "a.md", path=one, text="x", expected=whole)])
    assert raised.value.details["part"] == part
    done = made.edit([Edit("append", "a.md", path=one, text="x", expected=part)])
    assert (docs / "a.md").read_bytes() == b"# A\n\n## One\n\n1\n\none\n\nx\n\n## Two\n\n2\n\ntwo\n"
    with pytest.raises(Conflict):
        made.edit([Edit("append", "a.md", path=one, text="y", expected=part)])
    digits = done.documents[0].after[:16]
    made.edit([Edit("append", "a.md", path=one, text="y", expected=digits)])
