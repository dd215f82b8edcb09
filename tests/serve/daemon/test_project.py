"""The folder of a session without a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookfar.serve.daemon.project import MARKERS, project_root


@pytest.mark.parametrize(
    "marker", [".git", "package.json", "pyproject.toml", "Cargo.toml", "go.mod"]
)
def test_each_marker_is_found_upward(tmp_path: Path, marker: str) -> None:
    """From any depth of a project its root is found."""
    project = tmp_path / "project"
    deep = project / "src" / "deep"
    deep.mkdir(parents=True)
    (project / marker).mkdir() if marker == ".git" else (project / marker).touch()
    assert project_root(str(deep)) == project
    assert project_root(str(project)) == project


def test_the_markers_are_those_of_search_mcp() -> None:
    """In the order in which they are looked for."""
    assert MARKERS == (".git", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")


def test_a_git_file_of_a_worktree_counts(tmp_path: Path) -> None:
    """In worktrees and submodules .git is a file."""
    (tmp_path / "tree" / "docs").mkdir(parents=True)
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere\n", encoding="utf-8")
    assert project_root(str(tmp_path / "tree" / "docs")) == tmp_path / "tree"


def test_the_nearest_project_wins(tmp_path: Path) -> None:
    """For a client inside a package of a repository, the package is the project."""
    inner = tmp_path / "repo" / "packages" / "one"
    inner.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (inner / "package.json").touch()
    assert project_root(str(inner)) == inner
    assert project_root(str(inner.parent)) == tmp_path / "repo"


def test_a_folder_without_markers_is_its_own_project(own_home: Path) -> None:
    """A folder of notes has no markers, and a client that starts there means it."""
    notes = own_home / "notes"
    notes.mkdir()
    assert project_root(str(notes)) == notes


def test_a_home_is_not_a_project_even_with_dot_files_in_git(own_home: Path) -> None:
    """Otherwise every folder without markers would mean everything a person has."""
    (own_home / ".git").mkdir()
    (own_home / "package.json").touch()
    notes = own_home / "notes"
    notes.mkdir()
    assert project_root(str(own_home)) is None
    assert project_root(str(notes)) == notes


def test_a_parent_of_a_home_is_not_a_project(own_home: Path) -> None:
    """Nor are all homes together, or the disk."""
    (own_home.parent / "go.mod").touch()
    assert project_root(str(own_home.parent)) is None
    assert project_root(own_home.anchor) is None


def test_no_folder_no_project(tmp_path: Path) -> None:
    """A client may start in a deleted folder, or send no folder."""
    assert project_root("") is None
    assert project_root(str(tmp_path / "gone")) is None
    (tmp_path / "file").touch()
    assert project_root(str(tmp_path / "file")) is None


def test_databases_need_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to fail: a client that starts in the user's home could not use the toolset at all."""
    from lookfar.errors import LookfarError
    from lookfar.serve.daemon.endpoint import ClientRequest
    from lookfar.serve.daemon.services import resolve_roots

    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    env = {"HOME": str(home), "XDG_DATA_HOME": str(tmp_path / "data")}
    chosen = {**env, "LOOKFAR_SERVE_TOOLSET": "document-db"}
    assert resolve_roots(ClientRequest("mcp", str(home), env=chosen)) == []
    assert not (tmp_path / "data").exists()
    with pytest.raises(LookfarError, match="No project"):
        resolve_roots(ClientRequest("mcp", str(home), env=env))
