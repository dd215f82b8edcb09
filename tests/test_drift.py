"""Documentation that names what is gone, against a repository with a history.

Seen to fail when a line was reported that is younger than the removal, when a name that still
occurs in the code was reported, and when marks stayed after the line was edited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lookfar.errors import NotFound
from lookfar.library import Library
from lookfar.serve.cli.main import cli

pytestmark = pytest.mark.usefixtures("own_home")

SETTINGS = {"embed.provider": "hash", "index.workers": 1, "git.cool_down_seconds": 0}
PORT = (
    "LIMITS = {'MAX_CRATES': 3, 'KEEP_LOGS': 1}\n\n\n"
    "class Ship:\n    def load(self, crate, deck=1):\n        return crate\n\n"
    "    def moor_fast(self):\n        return 1\n\n\n"
    "def open_hold():\n    return 1\n\n\n"
    "def parse(words):\n    words.add('--fast-lane')\n    words.add('--dry-run')\n"
)
GUIDE = (
    "# Guide\n\n"
    "Call `open_hold()` first.\n\n"
    "Then `Ship.load(1, deck=2)`.\n\n"
    "Use `Ship.moor_fast` in a storm.\n\n"
    "Set `MAX_CRATES` and `KEEP_LOGS`.\n\n"
    "Pass `--fast-lane` or `--dry-run`.\n\n"
    "See `port/crane.py` and `port/ship.py`.\n\n"
    "Then call `json.dumps()` and `never_was_here()`.\n\n"
    "```python\nfrom port.ship import open_hold, parse\n```\n"
)
LATER = (
    "LIMITS = {'KEEP_LOGS': 1}\n\n\n"
    "class Ship:\n    def load(self, crate):\n        return crate\n\n\n"
    "def parse(words):\n    words.add('--dry-run')\n"
)


@pytest.fixture
def repo(repository: Callable[..., Any]) -> Any:
    made = repository("project")
    files = {"port/__init__.py": "", "port/ship.py": PORT, "port/crane.py": "LIFTS = 1\n"}
    made.commit("Begin", {**files, "guide.md": GUIDE})
    (made.path / "port/crane.py").unlink()
    tug = "class Tug:\n    def moor_fast(self):\n        return 1\n"
    made.commit("Remove much", {"port/ship.py": LATER, "port/tug.py": tug})
    return made


@pytest.fixture
def library(repo: Any, tmp_path: Path) -> Iterator[Library]:
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=SETTINGS) as opened:
        yield opened


def names(library: Library) -> set[tuple[str, str, str, int]]:
    return {(d.kind, d.name, d.state, d.line) for d in library.drift().drifts}


def test_what_is_gone_is_reported_with_its_commit(library: Library) -> None:
    assert names(library) == {
        ("symbol", "open_hold", "gone", 3),
        ("parameter", "deck", "changed", 5),
        ("symbol", "Ship.moor_fast", "gone", 7),
        ("setting", "MAX_CRATES", "gone", 9),
        ("option", "--fast-lane", "gone", 11),
        ("file", "port/crane.py", "gone", 13),
        ("import", "port.ship.open_hold", "gone", 18),
    }
    first = library.drift().drifts[0]
    assert (first.uri, first.was) == ("guide.md", "port/ship.py")
    assert first.touched_at < first.removed_at
    assert first.text == "Call `open_hold()` first."


def test_a_line_that_was_written_later_is_not_a_drift(repo: Any, library: Library) -> None:
    text = GUIDE.replace("Call `open_hold()` first.", "Never call `open_hold()` at all.")
    repo.commit("Reword", {"guide.md": text})
    assert ("symbol", "open_hold", "gone", 3) not in names(library)
    # The other lines are as old as before.
    assert ("setting", "MAX_CRATES", "gone", 9) in names(library)


def test_a_name_that_is_back_is_not_a_drift(repo: Any, library: Library) -> None:
    again = LATER + "\n\ndef open_hold():\n    return 2\n"
    repo.commit("Put it back", {"port/ship.py": again})
    assert not [entry for entry in names(library) if "open_hold" in entry[1]]


def test_a_moved_file_says_where_it_is_now(repo: Any, library: Library) -> None:
    (repo.path / "port/ship.py").rename(repo.path / "port/vessel.py")
    repo.commit("Move", {})
    (moved,) = [d for d in library.drift().drifts if d.name == "port/ship.py"]
    assert (moved.state, moved.now) == ("moved", "port/vessel.py")


def test_hits_with_a_drift_are_marked_until_the_line_is_edited(repo: Any, library: Library) -> None:
    assert all(not hit.drift for hit in library.search("moor fast in a storm").hits)
    library.drift()
    (hit,) = [h for h in library.search("moor fast in a storm").hits if h.uri == "guide.md"]
    assert any("Ship.moor_fast is gone since" in said for said in hit.drift)
    guide = repo.path / "guide.md"
    guide.write_text(guide.read_text().replace("Use `Ship.moor_fast`", "Use `Tug.moor_fast`"))
    library.index()
    (hit,) = [h for h in library.search("moor fast in a storm").hits if h.uri == "guide.md"]
    assert not any("moor_fast" in said for said in hit.drift)


def test_the_command_has_an_exit_code_and_json(repo: Any, tmp_path: Path) -> None:
    options = ["--index-dir", str(tmp_path / "index"), "--set", "embed.provider=hash", "--quiet"]
    result = CliRunner().invoke(cli, ["drift", str(repo.path), *options, "--json"])
    assert result.exit_code == 9
    shape = json.loads(result.stdout)
    assert {entry["name"] for entry in shape["drifts"]} >= {"open_hold", "MAX_CRATES"}
    shown = CliRunner().invoke(cli, ["drift", str(repo.path), *options]).stdout
    assert "guide.md:3  open_hold  symbol gone" in shown
    assert "7 places outdated" in shown
    (repo.path / "guide.md").write_text("# Guide\n\nCall `parse()`.\n")
    assert CliRunner().invoke(cli, ["drift", str(repo.path), *options]).exit_code == 0


def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.md").write_text("# A\n\n`open_hold()`\n")
    with (
        Library.open(tmp_path / "plain", index_dir=tmp_path / "i", settings=SETTINGS) as library,
        pytest.raises(NotFound),
    ):
        library.drift()
