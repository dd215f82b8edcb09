"""What changed between two versions of a package: as a command, as a text to read, in a search.

Seen to fail when definitions of private modules were all taken as public, when a version was found
by its first digits alone (2.1 in 2.10), and when the sections of a changelog were not bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from calls import QuietCall
from harness import amount
from lookfar.collections.outside.version_changes import _Api, _compare, _find_notes, _read_api
from lookfar.common.versions import choose_version, version_key
from lookfar.errors import InvalidArgument, NotFound, NotIndexed
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.serve.cli.main import cli
from lookfar.serve.tools.read import READ
from lookfar.serve.tools.search import SEARCH
from lookfar.serve.tools.tool import Session
from outside.installed import install_node, install_python, write
from processor_time import processor_time_below

pytestmark = pytest.mark.usefixtures("own_home")

DEPS = Filters(kinds=("deps",))
SETTINGS = {"embed.provider": "hash"}
OPTIONS = ["--set", "embed.provider=hash"]
OLD = {
    "fetchlib/__init__.py": "from fetchlib._core import Client\nfrom fetchlib.api import get\n",
    "fetchlib/api.py": (
        'def get(url: str) -> bytes:\n    """Return the bytes."""\n\n'
        'def post(url: str) -> None:\n    """Send."""\n\n'
        'def stream(url: str) -> None:\n    """Stream."""\n\n'
        "def same() -> int: ...\n\n"
        "def _hidden(): ...\n"
    ),
    "fetchlib/_core.py": "class Client:\n    def close(self): ...\n\nclass Internal: ...\n",
    "fetchlib/moving.py": "def walk(path: str) -> list[str]: ...\n",
}
NEW = {
    "fetchlib/__init__.py": OLD["fetchlib/__init__.py"],
    "fetchlib/api.py": (
        'def get(url: str, timeout: float = 30.0) -> bytes:\n    """Return the bytes."""\n\n'
        'def stream(url: str) -> None:\n    """Stream.\n\n    .. deprecated:: 2.2\n    """\n\n'
        'def same() -> int:\n    """Return the same."""\n\n'
        'def put(url: str) -> None:\n    """Replace."""\n\n'
        "def _other(): ...\n"
    ),
    "fetchlib/_core.py": "class Client:\n    def aclose(self): ...\n\nclass Renamed: ...\n",
    "README.md": "# fetchlib 2.2\n\nNot a changelog.\n",
    "fetchlib/walking.py": "def walk(path: str) -> list[str]: ...\n",
    "CHANGELOG.md": (
        "# Changes\n\n## 3.0\n\n- Later.\n\n## [2.2] - 2026-01-01\n\n### Added\n\n- A timeout.\n\n"
        "## 2.1.1\n\n- A fix.\n\n## 2.1\n\n- Before.\n"
    ),
}
EXPECTED = {
    ("removed", "fetchlib.api.post"), ("removed", "fetchlib._core.Client.close"),
    ("changed", "fetchlib.api.get"), ("deprecated", "fetchlib.api.stream"),
    ("added", "fetchlib.api.put"), ("added", "fetchlib._core.Client.aclose"),
    ("moved", "fetchlib.moving.walk"), ("documented", "fetchlib.api.same"),
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with version 2.2, beside another one with 2.1 that was indexed before."""
    other, folder = tmp_path / "other", tmp_path / "one"
    for place, version, files in ((other, "2.1", OLD), (folder, "2.2", NEW)):
        write(place / "notes.md", "# Notes\n")
        write(place / "requirements.txt", "fetchlib\n")
        install_python(place, "fetchlib", version, files)
    with Library.open(other, settings=SETTINGS) as library:
        library.outside.packages()
    return folder


@pytest.fixture
def library(project: Path) -> Iterator[Library]:
    with Library.open(project, settings=SETTINGS) as opened:
        opened.index()
        yield opened


def test_the_public_api_and_the_changelog_are_compared(library: Library) -> None:
    changes = library.outside.compare("fetchlib", "2.1", "v2.2")
    assert {(change.kind, change.name) for change in changes.changes} == EXPECTED
    got = next(change for change in changes.changes if change.name == "fetchlib.api.get")
    assert got.before is not None
    assert got.after is not None
    assert got.before.signature == "get(url: str) -> bytes"
    assert got.after.signature == "get(url: str, timeout: float = 30.0) -> bytes"
    place = (got.after.collection, got.after.uri, got.after.start_line)
    assert place == ("fetchlib-2.2@pypi", "fetchlib/api.py", 1)
    assert [note.version for note in changes.notes] == ["2.2", "2.1.1"]
    assert (changes.notes[0].uri, changes.notes[0].start_line) == ("CHANGELOG.md", 7)
    assert "A timeout" in changes.notes[0].text
    # The order in which versions are named does not matter.
    assert library.outside.compare("FetchLib", "2.2", "2.1") == changes


def test_a_method_of_another_class_has_not_moved() -> None:
    def read(uri: str, text: str) -> _Api:
        return _read_api("c", {uri: text}, set())

    old = read("lib/a.py", "class Old:\n    def close(self): ...\n\ndef walk(path): ...\n")
    new = read("lib/b.py", "class New:\n    def close(self): ...\n\ndef walk(path): ...\n")
    assert [(change.kind, change.name) for change in _compare(old, new)] == [
        ("removed", "lib.a.Old"), ("removed", "lib.a.Old.close"), ("added", "lib.b.New"),
        ("added", "lib.b.New.close"), ("moved", "lib.a.walk"),
    ]  # fmt: skip


def test_many_changes_are_compared_in_time_that_grows_with_their_number() -> None:
    def read(name: str) -> _Api:
        text = "".join(f"def {name}{number}(a): ...\n" for number in range(amount(3_000, 6_000)))
        return _read_api("c", {"lib/a.py": text}, set())

    old, new = read("old"), read("new")
    with processor_time_below(0.5):
        assert {change.kind for change in _compare(old, new)} == {"removed", "added"}


def test_a_changelog_with_odd_numbers_is_read() -> None:
    text = f"# {'9' * 5_000}\n\nA.\n\n# 1{'.1' * 50_000}!\n\nB.\n\n# 2.2\n\nC.\n"
    with processor_time_below(1.0):
        notes = _find_notes("c", {"CHANGELOG.md": text}, version_key("2.1"), version_key("2.2"))
    assert [note.version for note in notes] == ["2.2"]
    assert version_key(f"1.{'9' * 5_000}") > version_key("1.9")


def test_a_version_is_not_compared_with_itself(library: Library) -> None:
    with pytest.raises(InvalidArgument, match=r"the same version of fetchlib here: 2\.2"):
        library.outside.compare("fetchlib", "2.2", "2.2.0")


def test_packages_are_read_before_the_project_is_indexed(project: Path) -> None:
    with Library.open(project, settings=SETTINGS) as library:
        assert library.read("fetchlib 2.1..2.2").title == "fetchlib 2.1..2.2"
        assert "timeout" in library.read("fetchlib.api.get").text
        with pytest.raises(NotIndexed):
            library.read("notes.md")


def test_packages_of_one_of_several_folders_are_read(project: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    write(second / "a.md", "# A\n")
    with Library.open(project, second, settings=SETTINGS) as library:
        for name in ("one", "second"):
            library.index(collection=name)
        assert "timeout" in library.read("fetchlib.api.get").text
        with pytest.raises(NotFound, match="No collection has"):
            library.read("fetchlib.api.nothing")


def test_the_changes_are_read_like_a_document(library: Library) -> None:
    session = Session(library)

    result = READ.run(session, {"target": "fetchlib 2.1..2.2"}, QuietCall())
    text = result.data["text"]
    for line in (
        "# fetchlib 2.1 to 2.2",
        "## Changelog 2.2 (fetchlib-2.2@pypi: CHANGELOG.md:7-12)",
        "- fetchlib.api.get",
        "  - fetchlib-2.1: fetchlib/api.py:1-2: `get(url: str) -> bytes`",
        "## Removed (2)",
    ):
        assert line in text.split("\n"), (line, text)
    again = READ.run(session, {"target": result.data["cite"]}, QuietCall())
    assert again.data["text"] == text
    assert library.outline("fetchlib 2.1..2.2").sections[0].title == "fetchlib 2.1 to 2.2"
    asked = {"query": "what changed in fetchlib between 2.1 and 2.2", "kinds": ["deps"]}
    answer = SEARCH.run(session, asked, QuietCall())
    assert 'read "fetchlib 2.1..2.2"' in answer.text


def test_a_question_that_names_versions_asks_those(library: Library) -> None:
    answer = library.search("what changed in fetchlib get between 2.1 and 2.2", filters=DEPS)
    assert {hit.collection for hit in answer.hits} == {"fetchlib-2.1@pypi", "fetchlib-2.2@pypi"}
    answer = library.search("fetchlib post of 2.1", filters=DEPS)
    assert "fetchlib-2.1@pypi" in {hit.collection for hit in answer.hits}
    usual = library.search("fetchlib put", filters=DEPS)
    assert {hit.collection for hit in usual.hits} == {"fetchlib-2.2@pypi"}
    notes = library.search("fetchlib between 1.7 and 2.2", filters=DEPS).incomplete
    detail = "fetchlib 1.7 is not on this machine; versions here: 2.1, 2.2"
    assert detail in [note.detail for note in notes]


def test_a_version_that_is_missing_is_named(library: Library, project: Path) -> None:
    with pytest.raises(NotFound, match=r"fetchlib 9\.9 is not on this machine") as caught:
        library.outside.compare("fetchlib", "2.1", "9.9")
    assert "Versions here: 2.1, 2.2" in caught.value.hint
    with pytest.raises(NotFound, match=r"nosuch 1\.0"):
        library.read("nosuch 1.0..2.0")
    # A document of the project with such a name is read as before.
    write(project / "fetchlib 2.1..2.2", "# Mine\n")
    library.index()
    assert library.read("fetchlib 2.1..2.2").text == "# Mine\n"


def test_the_command(project: Path) -> None:
    run = CliRunner()
    shown = run.invoke(cli, ["deps", "--diff", "fetchlib", "2.1", "2.2", str(project), *OPTIONS])
    assert "Public API: 2 removed, 1 changed, 1 deprecated, 2 added, 1 moved" in shown.output
    words = ["deps", str(project), "--diff", "fetchlib", "2.1", "2.2", "--json", *OPTIONS]
    shape = json.loads(run.invoke(cli, words).stdout)
    assert {(row["kind"], row["name"]) for row in shape["changes"]} == EXPECTED
    missing = run.invoke(cli, ["deps", "--diff", "fetchlib", "1", "2.2", str(project), *OPTIONS])
    assert missing.exit_code != 0
    assert "Versions here" in missing.output


def test_types_of_another_language_are_compared(tmp_path: Path) -> None:
    for place, version, fields in (
        (tmp_path / "a", "1.0.0", ""),
        (tmp_path / "b", "1.1.0", "b: 1;"),
    ):
        write(place / "n.md", "# N\n")
        write(place / "package.json", '{"dependencies": {"kit": "*"}}')
        types = f"export interface Options {{ a: string; {fields} }}\n"
        install_node(place, "kit", version, {"index.d.ts": types, "README.md": "# Kit\n"})
        with Library.open(place, settings=SETTINGS) as library:
            library.outside.packages()
    with Library.open(tmp_path / "b", settings=SETTINGS) as library:
        changes = library.outside.compare("kit", "1.0", "1.1").changes
    assert [(change.kind, change.name) for change in changes] == [("changed", "Options")]


def test_versions_sort_as_their_registries_sort_them() -> None:
    ordered = ["1.0.0-alpha", "1.0.0-beta.2", "1.0.0", "1.0.post1", "2.1rc1", "2.1", "2.9", "2.10"]
    mixed = [*ordered[4:], *ordered[:4]]
    assert sorted(mixed, key=version_key) == ordered
    assert version_key("v2.1.0") == version_key("2.1")
    assert choose_version(["2.10"], "2.1") is None
    assert choose_version(["2.31.1", "2.31.4", "2.32.0"], "2.31") == "2.31.4"
    assert choose_version(["2.1.0"], "v2.1") == "2.1.0"
