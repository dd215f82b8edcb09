"""The files of outside sources: a state is replaced whole, whatever interrupts it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from lookfar.collections.outside.shelf import Shelf, hash_files, write_incoming
from lookfar.errors import IndexBusy, InvalidArgument, NotFound
from lookfar.model import OutsideSource, SourceChange
from lookfar.store.ground import files
from points import Died, die_at

NAME = "guide@source"
FIRST = {"a.md": b"# A\n", "b/c.md": b"# C\n", "same.md": b"# Same\n"}
SECOND = {"a.md": b"# A, changed\n", "d.md": b"# D\n", "same.md": b"# Same\n"}


def _bring(shelf: Shelf, contents: Mapping[str, bytes]) -> SourceChange:
    source = shelf.find(NAME) or OutsideSource(NAME, "site", "https://example.org/")
    with shelf.writing(NAME) as incoming:
        files.remove(incoming)
        for uri, data in contents.items():
            write_incoming(incoming, uri, data)
        origins = {uri: {"url": f"https://example.org/{uri}"} for uri in contents}
        return shelf.take_over(source, origins)


def _read(shelf: Shelf) -> dict[str, bytes]:
    folder = shelf.files_folder(shelf.get(NAME))
    return {uri: (folder / uri).read_bytes() for uri in hash_files(folder)}


def test_a_new_state_replaces_the_old_one_and_names_what_differs(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    assert _bring(shelf, FIRST).added == ("a.md", "b/c.md", "same.md")
    change = _bring(shelf, SECOND)
    assert (change.added, change.changed, change.removed) == (("d.md",), ("a.md",), ("b/c.md",))
    assert _read(shelf) == SECOND
    source = shelf.get(NAME)
    assert (source.files, source.bytes) == (3, sum(map(len, SECOND.values())))
    assert shelf.origins(NAME)["d.md"] == {"url": "https://example.org/d.md"}
    assert shelf.list_all() == [source]


def test_a_crash_at_any_point_leaves_one_of_the_two_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _bring(Shelf(tmp_path / "sound"), FIRST)
    seen: set[str] = set()
    for number in count(1):
        folder = tmp_path / f"copy{number}"
        shutil.copytree(tmp_path / "sound", folder)
        with monkeypatch.context() as patched, suppress(Died):
            patched.setattr(files, "on_fault_point", die_at(number))
            _bring(Shelf(folder), SECOND)
            break
        shelf = Shelf(folder)
        shelf.finish(NAME)
        contents = _read(shelf)
        assert contents in (FIRST, SECOND), number
        assert shelf.get(NAME).digest == _bring(shelf, contents).source.digest
        assert _read(shelf) == contents
        seen.add("first" if contents == FIRST else "second")
        assert _bring(shelf, SECOND).source.files == len(SECOND)
        assert _read(shelf) == SECOND
    assert number > 15
    assert seen == {"first", "second"}


def test_bytes_that_a_power_failure_lost_do_not_become_the_new_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path)
    _bring(shelf, FIRST)

    def die(what: str, name: str, size: int) -> int:
        if what == "rename" and name == "a.md":
            raise Died
        return size

    with monkeypatch.context() as patched, suppress(Died):
        patched.setattr(files, "on_fault_point", die)
        _bring(shelf, SECOND)
    lost = shelf.place(NAME) / "incoming" / "d.md"
    assert lost.exists()
    lost.write_bytes(b"")
    shelf.finish(NAME)
    assert _read(shelf)["a.md"] == FIRST["a.md"]
    assert "d.md" not in _read(shelf)
    assert not lost.exists()


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(NAME), pytest.raises(IndexBusy, match="being fetched"), shelf.writing(NAME):
        pass


def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    for uri in ("../out.md", "/etc/passwd", "a/../../b", "", "a//b", "a\0b"):
        with pytest.raises(InvalidArgument):
            write_incoming(tmp_path / "in", uri, b"text")
    assert not (tmp_path / "out.md").exists()


def test_a_damaged_record_hides_only_its_own_source(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    _bring(shelf, FIRST)
    record = shelf.place(NAME) / "record.json"
    record.write_bytes(record.read_bytes().replace(b"site", b"sitf"))
    assert shelf.list_all() == []
    with pytest.raises(NotFound):
        shelf.get(NAME)


def test_a_file_may_become_a_folder_and_a_folder_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = ({"guide": b"One\n", "x.md": b"# X\n"}, {"guide/a.md": b"# A\n", "x.md": b"# X\n"})
    for before, after in (states, states[::-1]):
        for number in count(1):
            shelf = Shelf(tmp_path / f"{len(before)}{number}{'guide' in after}")
            _bring(shelf, before)
            with monkeypatch.context() as patched, suppress(Died):
                patched.setattr(files, "on_fault_point", die_at(number))
                _bring(shelf, after)
                break
            shelf.finish(NAME)
            assert _read(shelf) in (before, after), number
            assert _bring(shelf, after).source.files == 2
            assert _read(shelf) == after
        assert number > 5
        assert _read(shelf) == after


def test_a_name_with_other_capitals_is_removed_before_the_new_file_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that ignores case, the other order would remove the new file."""
    shelf = Shelf(tmp_path)
    _bring(shelf, {"Guide.md": b"# Old\n"})
    steps: list[tuple[str, str]] = []

    def note(action: str, name: str, size: int) -> int:
        steps.append((action, name))
        return size

    monkeypatch.setattr(files, "on_fault_point", note)
    _bring(shelf, {"guide.md": b"# New\n"})
    assert steps.index(("remove", "Guide.md")) < steps.index(("rename", "guide.md"))
    assert _read(shelf) == {"guide.md": b"# New\n"}


def test_a_source_that_stores_nothing_leaves_nothing(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    with shelf.writing(NAME):
        pass
    assert list(tmp_path.iterdir()) == []
    _bring(shelf, FIRST)
    shelf.remove(NAME)
    assert list(tmp_path.iterdir()) == []
