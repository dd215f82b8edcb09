"""Ordinary repositories of every kind are read with any trust settings, and a swap is noticed.

Proved by mutations: without the second check of `open_objects` a link that comes during the
reading is not noticed; with the path instead of the descriptor another folder's commits are
shown; and with `is_trusted` always false, or an owner that is not compared, the tests of trust
fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import InvalidConfig, IOFailed, RepositoryRefused
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.sources.git import metadata
from lookfar.sources.git.history import (
    find_present,
    find_refusal,
    list_commits,
    list_refs,
    read_commits,
)
from lookfar.sources.git.repositories import Repository, find_repository, list_repositories

pytestmark = pytest.mark.usefixtures("own_home")

Make = Callable[..., Any]
HASH = {"embed.provider": "hash", "index.workers": 1, "git.cool_down_seconds": 0}
as_root = pytest.mark.skipif(
    getattr(os, "geteuid", int)() != 0 or os.name == "nt", reason="only root gives files to others"
)


def around(path: Path, *trusted: str) -> Repository:
    repository = find_repository(str(path), trusted)
    assert repository is not None
    return repository


def titles(repository: Repository) -> set[str]:
    assert find_refusal(repository) is None
    tips = [ref.commit for ref in list_refs(repository)]
    commits = read_commits(repository, list_commits(repository, tips), diff_lines=9)
    return {commit.title for commit in commits}


# --- ordinary ones --------------------------------------------------------------------------------


def test_a_bare_repository(repository: Make, tmp_path: Path) -> None:
    repository("repo").commit("base", {"a.md": "text\n"})
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", tmp_path / "repo", tmp_path / "bare"], check=True
    )
    assert titles(around(tmp_path / "bare")) == {"base"}


def test_a_worktree_whose_main_repository_is_elsewhere(repository: Make, tmp_path: Path) -> None:
    repo = repository("elsewhere/main")
    repo.commit("base", {"a.md": "text\n"})
    tree = tmp_path / "root/tree"
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tree))
    result = around(tree)
    assert titles(result) == {"base"}
    assert result.own == f"{repo.path}/.git/worktrees/tree"
    assert [uri for uri, _ in list_repositories(str(tmp_path / "root"), ["tree"])] == ["tree"]


def test_a_submodule_that_is_the_root(repository: Make, tmp_path: Path) -> None:
    inner, outer = repository("inner"), repository("outer")
    inner.commit("of the inner", {"a": "1\n"})
    outer.commit("of the outer", {"b": "1\n"})
    outer.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "s/ub"
    )
    assert titles(around(outer.path / "s/ub")) == {"of the inner"}
    # One that stands elsewhere than its repository says is not its working tree.
    shutil.copytree(outer.path / "s/ub", tmp_path / "copy")
    (tmp_path / "copy/.git").write_text(f"gitdir: {outer.path}/.git/modules/s/ub\n")
    assert around(tmp_path / "copy").refused is not None


@pytest.mark.parametrize("option", ["--shared", "--reference"])
def test_a_clone_that_borrows_objects_inside_the_root(
    repository: Make, tmp_path: Path, option: str
) -> None:
    repo = repository("root/lender")
    repo.commit("lent", {"a.md": "text\n"})
    how = [option] if option == "--shared" else [option, str(repo.path), "--no-hardlinks"]
    clone = tmp_path / "root/clone"
    repo.git("clone", "--quiet", *how, str(repo.path), str(clone))
    assert (clone / ".git/objects/info/alternates").exists()
    below = dict(list_repositories(str(tmp_path / "root"), ["clone", "lender"]))
    assert titles(below["clone"]) == {"lent"}
    # Seen from the clone alone, the lender is outside, unless the user trusts the clone.
    with pytest.raises(RepositoryRefused, match="leads outside") as refused:
        list_refs(around(clone))
    assert refused.value.details["reason"] == "outside"
    assert titles(around(clone, str(clone))) == {"lent"}


def test_hard_linked_and_loose_and_packed_objects(repository: Make, tmp_path: Path) -> None:
    """A clone on the same disk shares the files of its objects."""
    repo = repository("repo")
    repo.commit("packed", {"a.md": "text\n"})
    repo.git("gc", "--quiet")
    repo.commit("loose", {"a.md": "more\n"})
    repo.git("clone", "--quiet", "--local", str(repo.path), str(tmp_path / "clone"))
    assert titles(around(tmp_path / "clone")) == {"packed", "loose"}


def test_references_of_every_form(repository: Make) -> None:
    """Packed, loose over packed, symbolic, a link as git once wrote it, annotated, of a file."""
    repo = repository()
    first = repo.commit("first", {"a.md": "1\n"})
    repo.git("branch", "topic/one")
    repo.git("tag", "--annotate", "--message", "a tag", "v1")
    repo.git("tag", "of-a-file", repo.git("rev-parse", "HEAD:a.md"))
    repo.git("pack-refs", "--all")
    second = repo.commit("second", {"a.md": "2\n"})
    repo.git("update-ref", "refs/remotes/origin/main", first)
    repo.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    head = repo.path / ".git/HEAD"
    head.unlink()
    head.symlink_to("refs/heads/main")
    expected = {
        "refs/heads/main": second,
        "refs/heads/topic/one": first,
        "refs/remotes/origin/HEAD": first,
        "refs/remotes/origin/main": first,
        "refs/tags/v1": first,
        "HEAD": second,
    }
    assert {ref.name: ref.commit for ref in list_refs(around(repo.path))} == expected


def test_a_repository_of_sha256(repository: Make) -> None:
    repo = repository("long", "--object-format=sha256")
    commit = repo.commit("long names", {"a.md": "text\n"})
    assert len(commit) == 64
    assert titles(around(repo.path)) == {"long names"}


def test_a_reference_to_a_missing_object_is_an_error(repository: Make) -> None:
    """Protects against commits that are forgotten because a repository is damaged."""
    repo = repository()
    base = repo.commit("base", {"a": "1\n"})
    (repo.path / ".git/objects" / base[:2] / base[2:]).unlink()
    with pytest.raises(IOFailed, match="could not read"):
        list_refs(around(repo.path))


def test_a_commit_that_git_cannot_hold_is_shown_without_its_diff(
    repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against one commit that costs a repository its history.

    Seen to fail when the commit after it was lost, and when git had no limit."""
    repo = repository()
    repo.commit("before", {"a.md": "1\n"})
    repo.commit("too many lines", {"lines.txt": "\n" * 15_000_000})
    repo.commit("after", {"a.md": "2\n"})
    repo.git("gc", "--quiet")
    result = around(repo.path)
    tips = [ref.commit for ref in list_refs(result)]
    commits = list(read_commits(result, list_commits(result, tips), diff_lines=9))
    assert [commit.title for commit in commits] == ["after", "too many lines", "before"]
    assert [bool(commit.diff) for commit in commits] == [True, False, True]
    assert commits[1].files[0].path == "lines.txt"


# --- whose they are -------------------------------------------------------------------------------


@as_root
def test_a_repository_of_another_user_is_read_where_it_is_trusted(
    repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository()
    repo.commit("base", {"a.md": "text\n"})
    os.chown(repo.path / ".git", 12345, 12345)
    with pytest.raises(RepositoryRefused, match="another user") as refused:
        list_refs(around(repo.path))
    assert refused.value.details["reason"] == "owner"
    for trusted in (str(repo.path), f"{repo.path.parent}/*", "*"):
        assert titles(around(repo.path, trusted)) == {"base"}
    for other in (str(repo.path.parent), f"{repo.path}x", str(repo.path / "a.md")):
        assert around(repo.path, other).refused is not None
    monkeypatch.setenv("SUDO_UID", "12345")
    assert titles(around(repo.path)) == {"base"}
    monkeypatch.setenv("SUDO_UID", "54321")
    assert around(repo.path).refused is not None


@as_root
def test_sudo_means_nothing_to_another_user(
    repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository()
    repo.commit("base", {"a.md": "text\n"})
    monkeypatch.setenv("SUDO_UID", "0")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert around(repo.path).refused is not None


def test_a_folder_cannot_trust_itself(repository: Make, tmp_path: Path) -> None:
    """The setting is the user's: a project's own file comes with the project."""
    repo = repository()
    repo.commit("base", {"a.md": "text\n", "lookfar.toml": '[git]\ntrusted = ["*"]\n'})
    with pytest.raises(InvalidConfig), Library.open(repo.path, index_dir=tmp_path / "index"):
        pass


# --- what users see -------------------------------------------------------------------------------


@pytest.fixture
def borrowing(repository: Make, tmp_path: Path) -> Path:
    """A root with a repository that is sound and one that borrows outside."""
    lender = repository("lender")
    lender.commit("lent", {"a.md": "# Lent\n"})
    sound = repository("root/sound")
    sound.commit("sound work", {"guide.md": "# Sound\n\nsound work\n"})
    lender.git("clone", "--quiet", "--shared", str(lender.path), str(tmp_path / "root/borrower"))
    return tmp_path / "root"


def test_the_reason_is_in_answers_status_and_errors(borrowing: Path, tmp_path: Path) -> None:
    with Library.open(borrowing, index_dir=tmp_path / "index", settings=HASH) as library:
        answer = library.search("sound work", filters=Filters(lanes=("commits",)))
        assert [hit.title for hit in answer.hits] == ["sound work"]
        [note] = answer.incomplete
        assert (note.reason, "leads outside" in note.detail) == ("no_history", True)
        commits, notes = library.history()
        assert [commit.title for commit in commits] == ["sound work"]
        assert any("leads outside" in note.detail for note in notes)
        [failed] = [status for status in library.statuses() if status.failures]
        [failure] = failed.failures
        assert (failed.indexed, failure.code) == (False, "REPOSITORY_REFUSED")
        assert "leads outside" in failure.message
    with Library.open(borrowing / "borrower", index_dir=tmp_path / "two", settings=HASH) as library:
        with pytest.raises(RepositoryRefused) as refused:
            library.history()
        assert "git.trusted" in refused.value.hint
        assert library.search("lent").hits


def test_the_user_may_trust_it(borrowing: Path, tmp_path: Path) -> None:
    settings = {**HASH, "git.trusted": [f"{borrowing}/*"]}
    with Library.open(borrowing, index_dir=tmp_path / "index", settings=settings) as library:
        commits, _ = library.history()
        assert {commit.title for commit in commits} == {"sound work", "lent"}


def test_an_indexed_history_is_not_shown_once_it_is_rejected(
    repository: Make, tmp_path: Path
) -> None:
    repo = repository("root")
    repo.commit("base", {"a.md": "# A\n"})
    asked = Filters(lanes=("commits",))
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=HASH) as library:
        assert library.search("base", filters=asked).hits
        os.mkfifo(repo.path / ".git/refs/heads/pipe")
        with pytest.raises(RepositoryRefused):
            library.search("base", filters=asked)
        (repo.path / ".git/refs/heads/pipe").unlink()
        assert library.search("base", filters=asked).hits


@pytest.mark.parametrize("entry", ["commondir", "objects/info/alternates", "packed-refs", "HEAD"])
def test_a_second_name_of_a_secret_is_not_quoted(
    repository: Make, tmp_path: Path, entry: str
) -> None:
    """A file with further names can be read, but what it says must not reach a message."""
    repo = repository("repo")
    repo.commit("base", {"a.md": "# A\n"})
    secret = tmp_path / "secret"
    secret.write_text("/hunter2 in a line\n")
    (repo.path / ".git" / entry).unlink(missing_ok=True)
    os.link(secret, repo.path / ".git" / entry)
    refusal = find_refusal(around(repo.path))
    assert (refusal is not None) == (entry in ("commondir", "objects/info/alternates"))
    assert "hunter2" not in repr(refusal and refusal.as_dict())


# --- a swap between the check and git -------------------------------------------------------------


def test_objects_that_are_swapped_after_the_check_are_not_read(
    repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git is given the folder that was checked, not whatever has its name by then."""
    repo, other = repository("repo"), repository("other")
    repo.commit("own", {"a.md": "own\n"})
    secret = other.commit("secret", {"a.md": "secret\n"})
    result = around(repo.path)
    check = metadata._check_databases
    objects = repo.path / ".git/objects"

    def swap(*arguments: Any) -> int:
        size = check(*arguments)
        if not objects.is_symlink():
            objects.rename(repo.path / ".git/moved")
            objects.symlink_to(other.path / ".git/objects")
        return size

    monkeypatch.setattr(metadata, "_check_databases", swap)
    assert find_present(result, [secret]) == set()
    assert objects.is_symlink()
    with pytest.raises(RepositoryRefused, match="objects is a link"):
        find_present(result, [secret])


def test_a_link_that_comes_while_git_reads_costs_the_answer(
    repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second check drops what was read."""
    repo = repository("repo")
    repo.commit("own", {"a.md": "own\n"})
    result = around(repo.path)
    check = metadata._check_databases

    def plant(*arguments: Any) -> int:
        size = check(*arguments)
        link = repo.path / ".git/objects/pack/late.pack"
        if not link.is_symlink():
            link.symlink_to("/dev/zero")
        return size

    monkeypatch.setattr(metadata, "_check_databases", plant)
    with pytest.raises(RepositoryRefused, match=r"late\.pack is a link"):
        list_refs(result)


def test_a_folder_that_was_clean_is_looked_at_again_when_it_changes(
    repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered of a folder of objects must not outlive a change in it."""
    repo = repository("repo")
    commit = repo.commit("own", {"a.md": "own\n"})
    monkeypatch.setattr(metadata, "SETTLING_NS", -(10**12))
    result = around(repo.path)
    assert titles(result) == {"own"}
    file = repo.path / ".git/objects" / commit[:2] / commit[2:]
    file.rename(repo.path / "moved")
    file.symlink_to(repo.path / "moved")
    with pytest.raises(RepositoryRefused, match="is a link"):
        list_refs(result)
