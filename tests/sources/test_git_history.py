"""The door to git: what is found and read, and what a repository cannot make it do.

Seen to fail with variables of ours that were handed on to git.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import InvalidArgument, IOFailed, RepositoryRefused
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import walk
from lookfar.sources.git import history
from lookfar.sources.git.history import (
    Commit,
    Touched,
    check_branch,
    compute_stamp,
    find_present,
    list_commits,
    list_refs,
    read_commits,
    shallow_stamp,
)
from lookfar.sources.git.repositories import Repository, find_repository, list_repositories
from outside.git_bombs import make_bomb

Make = Callable[..., Any]


def opened(path: Path) -> Repository:
    result = find_repository(str(path))
    assert result is not None
    return result


def read(repository: Repository, *, lines: int = 200, **options: Any) -> list[Commit]:
    tips = {item.commit for item in list_refs(repository)}
    return list(
        read_commits(repository, list_commits(repository, tips), diff_lines=lines, **options)
    )


def titles(found: Sequence[Commit]) -> list[str]:
    return [item.title for item in found]


# --- what commits say ---------------------------------------------------------------------------


def test_a_commit_says_who_when_what_and_where(repository: Make) -> None:
    """Protects against fields that are mixed up or cut."""
    repo = repository()
    first = repo.commit(
        "First\n\nThe body,\nin two lines.\n", {"a.txt": "one\n"}, second=1_600_000_000
    )
    second = repo.commit("Second", {"a.txt": "two\n", "ü b.txt": "x\n"}, second=1_600_086_400)
    newest, oldest = read(opened(repo.path))
    assert oldest == Commit(
        hash=first,
        parents=(),
        author="Ada Lovelace <ada@example.org>",
        authored=1_600_000_000,
        committer="Charles Babbage <charles@example.org>",
        committed=1_600_000_000,
        title="First",
        body="The body,\nin two lines.",
        files=(Touched("A", "a.txt"),),
        diff=oldest.diff,
        omitted=0,
    )
    assert oldest.diff.endswith("@@ -0,0 +1 @@\n+one")
    assert (newest.hash, newest.parents) == (second, (first,))
    assert newest.files == (Touched("M", "a.txt"), Touched("A", "ü b.txt"))
    assert "-one\n+two" in newest.diff


def test_a_rename_has_both_paths(repository: Make) -> None:
    repo = repository()
    repo.commit("made", {"old/name.txt": "the same text\n" * 20})
    repo.git("mv", "old", "new")
    repo.commit("moved")
    assert read(opened(repo.path))[0].files == (Touched("R", "new/name.txt", "old/name.txt"),)


def test_merges_and_empty_commits_have_no_files(repository: Make) -> None:
    """Protects against a record without entries being joined to the next one."""
    repo = repository()
    repo.commit("base", {"a": "1\n"})
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit("side work", {"b": "1\n"})
    repo.git("checkout", "--quiet", "main")
    repo.commit("nothing")
    repo.git("merge", "--quiet", "--no-ff", "-m", "joined", "side")
    result = {commit.title: commit for commit in read(opened(repo.path))}
    assert set(result) == {"base", "side work", "nothing", "joined"}
    assert [result["nothing"].files, result["joined"].files] == [(), ()]
    assert len(result["joined"].parents) == 2
    assert result["side work"].files == (Touched("A", "b"),)


def test_binary_files_are_named_and_not_shown(repository: Make) -> None:
    repo = repository()
    repo.commit("picture", {"a.bin": bytes(range(256)) * 10, "b.txt": "text\n"})
    (result,) = read(opened(repo.path))
    assert result.files == (Touched("A", "a.bin"), Touched("A", "b.txt"))
    assert "Binary files" in result.diff
    assert "+text" in result.diff


def test_zero_bytes_forced_into_a_diff_break_nothing(repository: Make) -> None:
    """Protects against taking the content of a file for the end of a record."""
    repo = repository()
    repo.write(".git/info/attributes", "*.bin diff\n")
    repo.commit("first", {"a.bin": b"\0:100644 100644 a b M\0evil\0\n" * 3})
    repo.commit("second", {"b.txt": "x\n"})
    assert titles(read(opened(repo.path))) == ["second", "first"]


def test_messages_that_are_not_utf8_are_read(repository: Make) -> None:
    repo = repository()
    repo.commit("Grüße".encode("latin-1"), {"a": "1\n"})
    repo.git("config", "i18n.commitEncoding", "latin-1")
    repo.commit("Größe".encode("latin-1"), {"a": "2\n"})
    declared, undeclared = read(opened(repo.path))
    assert declared.title == "Größe"
    assert undeclared.title == "Gr\ufffd\ufffde" or undeclared.title == "Grüße"


def test_a_commit_without_a_message_is_read(repository: Make) -> None:
    repo = repository()
    repo.commit("", {"a": "1\n"})
    (result,) = read(opened(repo.path))
    assert (result.title, result.body, len(result.files)) == ("", "", 1)


def test_a_cut_diff_has_the_number_of_omitted_lines(repository: Make) -> None:
    repo = repository()
    repo.commit("long", {"a.txt": "".join(f"line {n}\n" for n in range(1_000))})
    (result,) = read(opened(repo.path))
    # Six lines come before the first one of the file.
    assert len(result.diff.split("\n")) == 200
    assert result.diff.split("\n")[-1] == "+line 193"
    assert result.omitted == 1_006 - 200


def test_a_diff_of_ten_megabytes_is_not_kept_in_memory(repository: Make) -> None:
    """Protects against memory use that grows with the size of a commit."""
    repo = repository()
    repo.commit("small before", {"z.txt": "z\n"})
    repo.commit("huge", {"a.txt": "".join(f"line {n}\n" for n in range(1_000_000))})
    repo.commit("one line", {"b.txt": "x" * 10_000_000})
    repo.commit("small after", {"c.txt": "c\n"})
    result = {commit.title: commit for commit in read(opened(repo.path))}
    assert len(result) == 4
    assert result["huge"].omitted == 1_000_006 - 200
    assert len(result["huge"].diff) < 10_000
    assert len(result["one line"].diff) < 1_000
    assert result["small after"].files == (Touched("A", "c.txt"),)


def test_hidden_paths_are_named_and_their_diff_is_not_shown(repository: Make) -> None:
    """Protects against showing a secret that was committed once."""
    repo = repository()
    repo.commit("oops", {".env": "TOKEN=hunter2\n", "a.py": "visible = 1\n", "z.py": "also = 2\n"})
    (result,) = read(opened(repo.path), hidden=lambda path: path == ".env")
    assert [file.path for file in result.files] == [".env", "a.py", "z.py"]
    assert "hunter2" not in result.diff
    assert "visible" in result.diff
    assert "also" in result.diff


def test_a_file_renamed_out_of_hiding_stays_hidden(repository: Make) -> None:
    """Its diff would show the line that was there before it was made harmless."""
    repo = repository()
    rest = "".join(f"SETTING_{at}=1\n" for at in range(40))
    repo.commit("base", {".env": f"KEY=hunter2\n{rest}"})
    repo.git("mv", ".env", "sample.md")
    repo.commit("rename", {"sample.md": f"KEY=changeme\n{rest}", "b.md": "beside\n"})
    [renamed, _] = read(opened(repo.path), hidden=lambda path: path.startswith(".env"))
    assert [(file.status, file.path, file.before) for file in renamed.files] == [
        ("A", "b.md", ""),
        ("R", "sample.md", ".env"),
    ]
    assert "hunter2" not in renamed.diff
    assert "+beside" in renamed.diff


def test_reading_may_stop_at_any_commit(repository: Make) -> None:
    """Protects against a process that is left behind."""
    repo = repository()
    for number in range(5):
        repo.commit(f"number {number}", {"a": f"{number}\n"})
    result = opened(repo.path)
    stream = read_commits(
        result, list_commits(result, [list_refs(result)[0].commit]), diff_lines=10
    )
    assert next(stream).title == "number 4"
    stream.close()  # type: ignore[attr-defined]


# --- which commits ------------------------------------------------------------------------------


def test_new_commits_are_found_by_tips_and_not_by_dates(repository: Make) -> None:
    """Protects against losing a commit that is fetched later and was made earlier."""
    repo = repository()
    base = repo.commit("base", {"a": "1\n"}, second=1_700_000_000)
    seen = repo.commit("seen", {"a": "2\n"}, second=1_700_000_100)
    repo.git("checkout", "--quiet", "-b", "older", base)
    older = repo.commit("made long ago", {"b": "1\n"}, second=1_500_000_000)
    result = opened(repo.path)
    assert list_commits(result, [seen, older], [seen]) == [older]


def test_branches_can_be_chosen_by_glob(repository: Make) -> None:
    repo = repository()
    repo.commit("base")
    for name in ("release/1", "release/2", "topic"):
        repo.git("branch", name)
    repo.git("tag", "-m", "annotated", "v1")
    result = opened(repo.path)
    chosen = [item.name for item in list_refs(result, ("release/*",))]
    assert chosen == ["refs/heads/release/1", "refs/heads/release/2"]
    assert {item.name for item in list_refs(result)} > {"refs/tags/v1", "HEAD"}
    assert len({item.commit for item in list_refs(result)}) == 1


@pytest.mark.parametrize("name", ["-x", "--upload-pack=touch pwned", "", "a\nb", "a\0b"])
def test_names_that_read_like_options_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        check_branch(name)


@pytest.mark.parametrize("name", ["HEAD", "-x", "--all", "0" * 39, "main"])
def test_commits_are_requested_by_hash_only(repository: Make, name: str) -> None:
    repo = repository()
    repo.commit("base")
    with pytest.raises(InvalidArgument):
        list_commits(opened(repo.path), [name])


def test_hostile_branch_names_are_only_names(repository: Make, tmp_path: Path) -> None:
    """Protects against a branch whose name is read as an option or a command."""
    repo = repository()
    base = repo.commit("base")
    refs = repo.path / ".git/refs/heads"
    for name in (f"--upload-pack=touch {tmp_path}/pwned", "-x", "$(touch pwned)", ";touch pwned"):
        place = refs / name.replace("/", "_")
        place.write_text(f"{base}\n")
    result = opened(repo.path)
    assert titles(read(result)) == ["base"]
    assert not list(tmp_path.rglob("*pwned")) or {
        item.parent for item in tmp_path.rglob("*pwned")
    } == {refs}


def test_missing_commits_are_detected(repository: Make) -> None:
    repo = repository()
    base = repo.commit("base")
    assert find_present(opened(repo.path), [base, "0" * 40]) == {base}


def test_a_shallow_clone_ends_where_it_ends_until_it_is_deepened(
    repository: Make, tmp_path: Path
) -> None:
    repo = repository()
    for number in range(4):
        repo.commit(f"number {number}", {"a": f"{number}\n"})
    clone = tmp_path / "clone"
    repo.git("clone", "--quiet", "--depth=2", f"file://{repo.path}", str(clone))
    result = opened(clone)
    assert titles(read(result)) == ["number 3", "number 2"]
    before = shallow_stamp(result)
    repo.git("-C", str(clone), "fetch", "--quiet", "--unshallow")
    assert titles(read(result))[-1] == "number 0"
    assert before
    assert shallow_stamp(result) == ""


def test_a_subfolder_has_only_the_commits_that_touch_it(repository: Make) -> None:
    """Protects against the history of other folders leaving through one that is served."""
    repo = repository()
    repo.commit("secret work", {"private/a.txt": "secret\n"})
    repo.commit("both", {"private/a.txt": "secret 2\n", "docs/b.md": "public\n"})
    result = opened(repo.path / "docs")
    assert result.below == "docs"
    (only,) = read(result)
    assert only.title == "both"
    assert only.files == (Touched("A", "docs/b.md"),)
    assert "secret" not in only.diff


# --- which repositories -------------------------------------------------------------------------


def below(path: Path) -> list[str]:
    root = Root.open(path)
    folders = walk(root, Policy(exclude=("skipped",))).memory.folders
    return [uri for uri, _ in list_repositories(root.path, folders)]


def test_repositories_below_are_found_and_not_searched_inside(
    repository: Make, tmp_path: Path
) -> None:
    for name in ("top/one", "top/one/nested", "top/deep/two", "top/skipped", "top/node_modules/x"):
        repository(name).commit("base", {"a.md": "text\n"})
    assert below(tmp_path / "top") == ["deep/two", "one"]


def test_a_worktree_is_its_repository(repository: Make, tmp_path: Path) -> None:
    repo = repository("top/main")
    repo.commit("base")
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "top/worktree"))
    assert opened(tmp_path / "top/worktree").git_dir == opened(repo.path).git_dir
    assert below(tmp_path / "top") == ["main"]


def test_a_submodule_is_a_repository_of_its_own(repository: Make, tmp_path: Path) -> None:
    inner, outer = repository("inner"), repository("outer")
    inner.commit("of the inner", {"a": "1\n"})
    outer.commit("of the outer", {"b": "1\n"})
    outer.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub"
    )
    outer.commit("added")
    assert titles(read(opened(outer.path / "sub"))) == ["of the inner"]
    assert titles(read(opened(outer.path))) == ["added", "of the outer"]


def test_a_git_file_that_points_at_another_repository_is_rejected(
    repository: Make, tmp_path: Path
) -> None:
    """Protects against an unpacked archive that makes a private repository searchable."""
    repo = repository("private")
    repo.commit("secret")
    trap = tmp_path / "unpacked"
    trap.mkdir()
    (trap / ".git").write_text(f"gitdir: {repo.path}/.git\n")
    result = opened(trap)
    assert result.refused is not None
    assert (result.git_dir, result.refused.reason) == ("", "outside")
    with pytest.raises(RepositoryRefused, match="does not point back"):
        list_refs(result)


def test_lookalikes_are_not_repositories(tmp_path: Path) -> None:
    (tmp_path / "a/.git").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b/.git")
    assert find_repository(str(tmp_path / "a")) is None
    assert find_repository(str(tmp_path / "b")) is None


# --- references --------------------------------------------------------------------------------


def test_the_stamp_moves_with_every_branch_and_not_otherwise(repository: Make) -> None:
    repo = repository()
    repo.commit("base")
    result = opened(repo.path)
    before = compute_stamp(result)[0]
    (repo.path / "a.txt").write_text("not committed\n")
    assert compute_stamp(result)[0] == before
    seen = {before}
    for arguments in (("branch", "topic/deep"), ("tag", "v1"), ("pack-refs", "--all")):
        repo.git(*arguments)
        seen.add(compute_stamp(result)[0])
    repo.commit("second")
    seen.add(compute_stamp(result)[0])
    assert len(seen) == 5


def test_a_stamp_of_this_moment_is_not_relied_on(repository: Make) -> None:
    repo = repository()
    repo.commit("base")
    result = opened(repo.path)
    assert compute_stamp(result)[1] is False
    long_ago = time.time() - 60
    for place in (repo.path / ".git/HEAD", *(repo.path / ".git/refs").rglob("*")):
        os.utime(place, (long_ago, long_ago))
    assert (
        compute_stamp(result)[1] is False
    )  # What is changed now is changed now, whatever it claims.


# --- what a repository cannot make it do --------------------------------------------------------


def test_nothing_that_a_repository_configures_is_run(repository: Make, tmp_path: Path) -> None:
    """Protects against a clone that runs programs when it is searched."""
    repo = repository()
    pwned = tmp_path / "pwned"
    trap = tmp_path / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0" >> {pwned}\n')
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    for place in (".gitattributes", ".git/info/attributes"):
        repo.write(place, "* diff=evil filter=evil\n")
    repo.commit("base", {"a.txt": "one\n"})
    repo.commit("more", {"a.txt": "two\n"})
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----\n"
    head, _, message = repo.git("cat-file", "commit", "HEAD").partition("\n\n")
    signed = f"{head}\n{signature}\n{message}\n".encode()
    name = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=signed)
    repo.git("update-ref", "refs/heads/main", name)
    run = str(trap)
    hooks = repo.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (hooks / name).write_text(f"#!/bin/sh\n{run}\n")
        (hooks / name).chmod(0o755)
    for key, value in {
        "core.fsmonitor": run,
        "core.pager": run,
        "pager.log": run,
        "core.sshCommand": run,
        "core.alternateRefsCommand": run,
        "core.askPass": run,
        "diff.external": run,
        "diff.evil.command": run,
        "diff.evil.textconv": run,
        "diff.submodule": "diff",
        "filter.evil.clean": run,
        "filter.evil.smudge": run,
        "filter.evil.process": run,
        "log.showSignature": "true",
        "gpg.program": run,
        "credential.helper": f"!{run}",
        "alias.log": f"!{run}",
        "alias.rev-list": f"!{run}",
    }.items():
        repo.git("config", key, value)
    result = opened(repo.path)
    assert titles(read(result)) == ["more", "base"]
    assert "-one\n+two" in read(result)[0].diff
    assert find_present(result, [commit.hash for commit in read(result)])
    assert not pwned.exists()


def test_a_partial_clone_fetches_nothing(
    repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against missing objects that make git call what the remote is configured to be."""
    repo = repository()
    repo.commit("base", {"a.txt": "one\n"})
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    repo.git("clone", "--quiet", "--no-checkout", "--filter=blob:none", f"file://{repo.path}",
             str(clone))  # fmt: skip
    pwned = tmp_path / "pwned"
    repo.git("-C", str(clone), "config", "remote.origin.uploadpack", f"touch {pwned};")
    repo.git("-C", str(clone), "config", "remote.origin.url", f"ext::touch {pwned}")
    assert titles(read(opened(clone), lines=0)) == ["base"]
    assert [(commit.title, commit.diff) for commit in read(opened(clone))] == [("base", "")]
    # Nor if that cannot be determined.
    monkeypatch.setattr(history, "is_partial", lambda _: False)
    with pytest.raises(IOFailed):
        read(opened(clone))
    assert not pwned.exists()


def test_variables_of_ours_do_not_reach_git(
    repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository()
    repo.commit("base", {"a.txt": "one\n"})
    pwned = tmp_path / "pwned"
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {pwned}")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_TRACE", str(pwned))
    assert titles(read(opened(repo.path))) == ["base"]
    assert not pwned.exists()


def test_without_git_the_error_has_a_hint(
    repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository()
    repo.commit("base")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert history.find_git() is None
    with pytest.raises(IOFailed, match="git is not installed"):
        list_refs(opened(repo.path))


def test_a_git_that_says_nothing_is_ended(
    repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a question that waits for ever."""
    repo = repository()
    repo.commit("base")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(history, "_SECONDS", 0.5)
    with pytest.raises(IOFailed, match="could not read the repository"):
        list_refs(opened(repo.path))


def test_a_damaged_repository_is_an_error_not_an_empty_history(repository: Make) -> None:
    repo = repository()
    base = repo.commit("base", {"a": "1\n"})
    repo.commit("more", {"a": "2\n"})
    (repo.path / ".git/objects" / base[:2] / base[2:]).unlink()
    result = opened(repo.path)
    with pytest.raises(IOFailed):
        list_commits(result, [list_refs(result)[0].commit])


def test_a_commit_that_lists_files_without_end_has_no_files(
    repository: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when it was the last one that was read: git was asked for no commit then."""
    repo = repository()
    repo.commit("First", {"a.txt": "one\n"})
    commit = make_bomb(repo, ".txt", depth=4)
    monkeypatch.setattr(history, "_MOST_RECORD_BYTES", 100_000)
    found = read(opened(repo.path))
    assert [(item.hash, item.title, item.files) for item in found] == [(commit, "boom", ())]
    # The same for many, without asking twice for each what git cannot show.
    monkeypatch.setattr(history, "_MOST_OVERWHELMED", 1)
    for number in range(4):
        repo.git("commit", "--quiet", "--allow-empty", "--message", f"Empty {number}")
    assert titles(read(opened(repo.path))) == ["Empty 3", "Empty 2", "Empty 1", "Empty 0", "boom"]
