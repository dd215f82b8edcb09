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


def report(repository: Callable[..., Any], index: Path, *commits: dict[str, str]) -> set[str]:
    """Commit these files one after another, and return the names that are reported at the end.

    A file with an empty text is deleted.
    """
    made = repository("other")
    for number, files in enumerate(commits):
        for path in (path for path, text in files.items() if not text):
            (made.path / path).unlink()
        made.commit(f"Step {number}", {path: text for path, text in files.items() if text})
    with Library.open(made.path, index_dir=index, settings=SETTINGS) as library:
        return {drift.name for drift in library.drift().drifts}


PACKAGE = {"port/__init__.py": "PORT = 1\n", "port/ship.py": "def sail(wind):\n    return wind\n"}


def test_a_removed_module_is_gone_with_all_that_was_in_it(
    repository: Callable[..., Any], tmp_path: Path
) -> None:
    text = (
        "# Guide\n\nSee `port.dock.Quay`.\n\n```python\nfrom port.dock import moor\n```\n\n"
        "```pycon\n>>> from port.dock import cast\n1\n```\n"
    )
    first = {**PACKAGE, "guide.md": text, "port/dock.py": "class Quay:\n    pass\n"}
    second = {"port/dock.py": "", "port/sea.py": "class Quay:\n    pass\n"}
    expected = {"port.dock.Quay", "port.dock.moor", "port.dock.cast"}
    assert report(repository, tmp_path / "i", first, second) == expected


def test_parameters_in_signatures_and_fields_of_directives_are_checked(
    repository: Callable[..., Any], tmp_path: Path
) -> None:
    text = (
        "Reference\n=========\n\n.. currentmodule:: port.ship\n\n"
        ".. function:: sail(wind: dict[str, int], *,\n                   crew_size=1)\n\n"
        "   :param wind: The wind.\n   :param int sea_state: The sea.\n"
    )
    ship = "def sail(wind, sea_state=1, crew_size=1):\n    return wind\n"
    first = {**PACKAGE, "port/ship.py": ship, "reference.rst": text}
    second = {"port/ship.py": PACKAGE["port/ship.py"]}
    assert report(repository, tmp_path / "i", first, second) == {"sea_state", "crew_size"}


def test_options_of_own_commands_are_checked_without_dashes_in_the_code(
    repository: Callable[..., Any], tmp_path: Path
) -> None:
    text = (
        "# Guide\n\n```console\n$ port sail --storm-sails\nport --deep-keel\n"
        "$ docker run --ship-mount\n```\n\nPass `--crew-list` too.\n"
    )
    names = ("storm-sails", "deep-keel", "ship-mount", "crew-list", "still-here")
    code = "".join(f"add_option({name!r})\n" for name in names)
    first = {**PACKAGE, "port/cli.py": code, "guide.md": text}
    second = {"port/cli.py": "add_option('still-here')\n"}
    assert report(repository, tmp_path / "i", first, second) == {"--storm-sails", "--crew-list"}


def test_code_that_is_now_in_another_package_is_not_a_drift(
    repository: Callable[..., Any], tmp_path: Path
) -> None:
    text = (
        "# Guide\n\nCall `Crane.lift_all`, then `lower_all()`, then `raise_flag()`.\n\n"
        "Use `Winch.turn_all`.\n\n"
        "```python\nfrom harbour.crane import Crane\nfrom harbour.tools import Winch\n```\n"
    )
    crane = "class Crane:\n    def lift_all(self):\n        pass\n\n\ndef lower_all():\n    pass\n"
    ship = PACKAGE["port/ship.py"]
    flag = f"{ship}\n\ndef raise_flag():\n    pass\n"
    gear = "class Winch:\n    def turn_all(self):\n        pass\n"
    code = {"port/crane.py": crane, "port/gear.py": gear, "port/ship.py": flag}
    first = {**PACKAGE, **code, "guide.md": text}
    second = {"port/crane.py": "", "port/gear.py": "", "port/ship.py": ship}
    assert report(repository, tmp_path / "i", first, second) == {"raise_flag"}


def test_links_and_keys_that_are_gone_are_reported(
    repository: Callable[..., Any], tmp_path: Path
) -> None:
    text = (
        "# Guide\n\nThe [crane](port/crane.py) is used to lift.\n\n"
        "Set `max_crates` and `harbour()`.\n\n"
        "- `min_crates` is deprecated.\n- `all_crates` is not.\n"
    )
    names = ("max_crates", "harbour", "min_crates", "all_crates", "old_crates")
    keys = f"KEYS = {dict.fromkeys(names, 1)}\n"
    first = {
        **PACKAGE,
        "port/crane.py": keys,
        "guide.md": text,
        "AUTHORS.md": "# A\n\n`old_crates`\n",
    }
    expected = {"port/crane.py", "max_crates", "all_crates"}
    assert report(repository, tmp_path / "i", first, {"port/crane.py": ""}) == expected
