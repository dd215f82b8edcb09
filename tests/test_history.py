"""The history of a repository as a collection: true to git, found beside documents, healed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar.collections import read_documents as reading
from lookfar.collections.commits import Commits
from lookfar.errors import InvalidArgument, IOFailed, NotFound
from lookfar.index import commits as history
from lookfar.library import Library
from lookfar.model import Answer, Filters
from lookfar.sources.git import history as git_history
from lookfar.sources.git.repositories import list_repositories
from waiting import wait_for

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1, "git.cool_down_seconds": 0}
COMMITS = Filters(lanes=("commits",))

Make = Callable[..., Any]


@pytest.fixture
def repo(repository: Make) -> Any:
    made = repository("project")
    made.commit("Teach the parser about tables", {"parser.py": "tables = 1\n"})
    guide = "# Guide\n\nThe parser reads tables.\n"
    made.commit("Drop the old cache", {"cache.py": "old\n", "guide.md": guide})
    return made


@pytest.fixture
def library(repo: Any, tmp_path: Path) -> Iterator[Library]:
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=HASH) as opened:
        yield opened


def the_history(library: Library) -> Commits:
    (found,) = library.histories().values()
    return found


def titles(answer: Answer) -> list[str]:
    return [hit.title for hit in answer.hits]


def known(library: Library) -> set[str]:
    return {uri for uri, _ in reading.titles(the_history(library))}


# --- asking -------------------------------------------------------------------------------------


def test_a_question_for_commits_indexes_them_first(library: Library) -> None:
    found = library.search("parser tables", filters=COMMITS)
    assert titles(found)[0] == "Teach the parser about tables"
    hit = found.hits[0]
    assert (hit.collection, hit.lane, hit.state) == ("project@git", "commits", "same")
    assert hit.text == library.read(hit.uri).text[hit.span.start : hit.span.end]
    assert not library.folder().indexed


def test_other_questions_run_no_git_and_index_no_commits(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a cold start that pays for a history nobody asks for."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("git was asked")

    monkeypatch.setattr(git_history, "git_command", never)
    assert {hit.lane for hit in library.search("tables", commits=True).hits} <= {"docs", "code"}
    assert not the_history(library).indexed


def test_a_question_about_what_happened_asks_the_history_too(library: Library) -> None:
    """Seen to fail when commits had to be indexed before: nobody knew to ask for that."""
    found = library.search("when was the old cache dropped", commits=True)
    assert found.hits[0].lane == "commits"
    assert found.hits[0].title == "Drop the old cache"
    assert {hit.lane for hit in found.hits} >= {"commits", "docs"}
    assert library.search("when was the old cache dropped").hits[0].lane != "commits"


def test_a_question_while_no_branch_moved_runs_no_git(
    library: Library, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_history, "_SETTLING_NS", -(10**12))
    library.search("tables", filters=COMMITS)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("git was asked")

    with monkeypatch.context() as broken:
        broken.setattr(git_history, "git_command", never)
        assert titles(library.search("tables", filters=COMMITS))
        with Library.open(repo.path, index_dir=library.index_dir.parent, settings=HASH) as cold:
            assert titles(cold.search("tables", filters=COMMITS))


def test_a_first_pass_right_after_a_commit_costs_later_questions_no_git(
    library: Library, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail where a generation alone knew where the branches stood: one that was made so
    soon could not tell, and every process asked git until a branch moved."""
    monkeypatch.setattr(git_history, "_SETTLING_NS", 10**18)
    library.search("tables", filters=COMMITS)
    monkeypatch.setattr(git_history, "_SETTLING_NS", -(10**12))

    def cold() -> Library:
        return Library.open(repo.path, index_dir=library.index_dir.parent, settings=HASH)

    with cold() as second:
        second.search("tables", filters=COMMITS)
        generation = the_history(second).status().generation

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("git was asked")

    with monkeypatch.context() as broken, cold() as third:
        broken.setattr(git_history, "git_command", never)
        assert titles(third.search("tables", filters=COMMITS))
    repo.commit("One more about tables", {"more.py": "tables\n"})
    with cold() as fourth:
        assert "One more about tables" in titles(fourth.search("tables", filters=COMMITS))
        assert the_history(fourth).status().generation == generation + 1
        fourth.delete()
        assert not the_history(fourth).index_dir.exists()


def test_commits_stand_behind_documents_unless_history_is_asked_for(library: Library) -> None:
    library.index(collection="project@git")
    ordinary = library.search("parser tables", commits=True, explain=True)
    assert {hit.lane for hit in ordinary.hits} >= {"docs", "commits"}
    assert ordinary.hits[0].lane != "commits"
    commit = next(hit for hit in ordinary.hits if hit.lane == "commits")
    lowered = [each.value for each in commit.explanation if each.stage == "lane"]
    assert lowered == [pytest.approx(-commit.score, abs=1e-5)]  # It counts half.
    alone = library.search("parser tables")
    assert [h.uri for h in ordinary.hits if h.lane != "commits"] == [h.uri for h in alone.hits]
    scores = [[h.score for h in each.hits if h.lane == "docs"] for each in (ordinary, alone)]
    assert scores[0] == scores[1]
    asked = library.search("why did we teach the parser about tables", commits=True)
    assert asked.hits[0].title == "Teach the parser about tables"
    assert {hit.lane for hit in library.search("parser tables").hits} <= {"docs", "code"}


def test_filters_for_commits(library: Library, repo: Any) -> None:
    repo.git("checkout", "--quiet", "-b", "topic")
    repo.commit("Teach the parser about lists", {"parser.py": "lists\n"}, "--author=Bob <b@x.org>")

    def asked(**filters: Any) -> list[str]:
        return sorted(titles(library.search("parser cache", filters=Filters(**filters))))

    assert asked(authors=("bob",)) == ["Teach the parser about lists"]
    assert asked(touches="*.md") == ["Drop the old cache"]
    assert asked(branch="main") == ["Drop the old cache", "Teach the parser about tables"]
    assert len(asked(branch="topic")) == 3
    assert asked(branch="nowhere") == []
    assert asked(lanes=("commits",), after=(1_600_000_000 + 2 * 86_400) * 10**9) == [
        "Drop the old cache",
        "Teach the parser about lists",
    ]
    with pytest.raises(InvalidArgument):
        asked(branch="--upload-pack=x")


def test_a_commit_is_read_by_the_beginning_of_its_hash(library: Library, repo: Any) -> None:
    whole = repo.git("rev-parse", "HEAD")
    library.index(collection="project@git")
    reading = library.read(whole[:8])
    assert (reading.uri, reading.title) == (whole, "Drop the old cache")
    assert "+old" in library.read(f"{whole[:10]}#Diff").text
    assert library.read(f"lookfar://project%40git/{whole}#Files").text.startswith("Author: Ada")
    with pytest.raises(NotFound):
        library.read("0" * 40, collection="project@git")


def test_the_commits_that_shaped_a_file_are_related_to_it(library: Library, repo: Any) -> None:
    """Protects against losing a file's past where it was renamed."""
    repo.git("mv", "guide.md", "manual.md")
    repo.commit("Call it a manual")
    repo.commit("Say more", {"manual.md": "# Guide\n\nThe parser reads tables. And lists.\n"})
    library.index()
    library.index(collection="project@git")
    found = library.related("manual.md", kinds=["commits"])
    assert [each.title for each in found.entries] == [
        "Say more",
        "Call it a manual",
        "Drop the old cache",
    ]
    assert found.totals == {"commits": 3}
    assert {each.collection for each in found.entries} == {"project@git"}


# --- true to git --------------------------------------------------------------------------------


def test_only_what_is_new_is_read(
    library: Library, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.index(collection="project@git")
    asked: list[str] = []
    real = git_history.read_commits

    def noting(repository: Any, commits: Any, **how: Any) -> Any:
        asked.extend(commits)
        return real(repository, commits, **how)

    monkeypatch.setattr(history, "read_commits", noting)
    new = repo.commit("One more", {"a": "1\n"})
    report = library.index(collection="project@git")
    assert asked == [new]
    assert (report.added, report.unchanged) == (1, 2)
    assert library.index(collection="project@git").generation == report.generation


def test_a_commit_that_comes_later_with_an_earlier_date_is_found(
    library: Library, repo: Any
) -> None:
    library.search("x", filters=COMMITS)
    repo.git("checkout", "--quiet", "-b", "old", "HEAD~1")
    repo.commit("Made before everything", {"z": "z\n"}, second=1_000_000_000)
    repo.git("checkout", "--quiet", "main")
    found = library.search("made before everything", filters=COMMITS)
    assert titles(found)[0] == "Made before everything"


def test_rewritten_history_is_forgotten(library: Library, repo: Any) -> None:
    """Protects against citing commits that a forced push took back."""
    library.search("x", filters=COMMITS)
    before = known(library)
    gone = repo.git("rev-parse", "HEAD")
    repo.commit("Drop the cache, better", {"cache.py": "new\n"}, "--amend")
    found = library.search("cache", filters=COMMITS)
    assert titles(found)[0] == "Drop the cache, better"
    assert before - known(library) == {gone}
    # The same where git has swept the old one away.
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=all", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    assert titles(library.search("cache parser", filters=COMMITS)) == [
        "Teach the parser about tables"
    ]


def test_a_clone_that_is_deepened_gets_its_past(repo: Any, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    repo.git("clone", "--quiet", "--depth=1", f"file://{repo.path}", str(clone))
    with Library.open(clone, index_dir=tmp_path / "index", settings=HASH) as library:
        assert len(library.search("x parser", filters=COMMITS).hits) == 1
        repo.git("-C", str(clone), "fetch", "--quiet", "--unshallow")
        assert len(library.search("x parser", filters=COMMITS).hits) == 2


def test_a_partial_clone_is_searched_without_diffs(repo: Any, tmp_path: Path) -> None:
    """Seen to fail where renames were looked for, or diffs were asked for at once: git ends at
    the first content that is missing, and there was no history at all."""
    repo.git("mv", "guide.md", "manual.md")
    repo.commit("Call it a manual", {"manual.md": "# Guide\n\nThe parser reads tables, too.\n"})
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    repo.git("clone", "--quiet", "--filter=blob:none", f"file://{repo.path}", str(clone))
    (found,) = list_repositories(str(tmp_path), ["clone"])
    assert git_history.is_partial(found[1])
    with Library.open(clone, index_dir=tmp_path / "index", settings=HASH) as library:
        answer = library.search("parser tables", filters=COMMITS)
        assert titles(answer)[0] == "Teach the parser about tables"
        (note,) = answer.incomplete
        assert note.reason == "no_diffs"
        assert "3 commits" in note.detail
        assert "partial" in note.detail
        assert library.index(collection="clone@git").changed == 0
        touched = library.search("manual", filters=Filters(touches="manual.md"))
        assert titles(touched) == ["Call it a manual"]
        # Whoever makes it a whole one gets the diffs.
        repo.git("-C", str(clone), "config", "--unset", "remote.origin.promisor")
        # Otherwise git may repack in the background, and keep the mark of a partial clone.
        alone = ("-c", "maintenance.auto=false", "-c", "gc.auto=0")
        repo.git("-C", str(clone), *alone, "fetch", "--quiet", "--refetch", "--no-filter")
        for each in (clone / ".git" / "objects" / "pack").glob("*.promisor"):
            each.unlink()
        assert library.index(collection="clone@git").changed == 3
        assert library.search("parser tables", filters=COMMITS).incomplete == ()


def test_many_new_commits_are_searched_before_their_diffs_are_read(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a first question that waits for every diff, and against saying nothing."""
    monkeypatch.setattr(history, "_FEW_COMMITS", 1)
    quick = library.search("tables", filters=COMMITS)
    assert [each.reason for each in quick.incomplete] == ["no_diffs"]
    assert "+tables" not in library.read(quick.hits[0].uri).text
    assert library.index(collection="project@git").changed == 2
    later = library.search("tables", filters=COMMITS)
    assert later.incomplete == ()
    assert "+tables = 1" in library.read(later.hits[0].uri).text
    assert library.verify(collection="project@git") == []


def test_branches_are_followed_after_a_pause(library: Library, repo: Any) -> None:
    library.index()
    library.watch()
    commits = the_history(library)
    wait_for(lambda: commits.indexed)
    repo.commit("Seen without a question", {"new.txt": "x\n"})
    wait_for(lambda: "Seen without a question" in {t for _, t in reading.titles(commits)})
    library.unwatch()
    assert commits.watching() is None


def test_a_damaged_index_is_made_anew(library: Library) -> None:
    library.index(collection="project@git")
    (catalogue,) = the_history(library).index_dir.glob("epoch-*/vectors.f16")
    catalogue.write_bytes(b"")
    found = library.search("tables", filters=COMMITS)
    assert titles(found)[0] == "Teach the parser about tables"
    assert [each.reason for each in found.incomplete] == ["healed"]


def test_earlier_states_can_be_asked_and_held(library: Library, repo: Any) -> None:
    first = library.index(collection="project@git").generation
    repo.commit("Later", {"l": "1\n"})
    library.index(collection="project@git")
    then = library.search("later", collections=("project@git",), as_of=first)
    assert "Later" not in titles(then)
    library.roll_back(first, collection="project@git")
    held = library.search("later", filters=COMMITS)
    assert "Later" not in titles(held)
    assert "held" in [note.reason for note in held.incomplete]


def test_what_is_excluded_or_denied_is_not_quoted_from_history(
    repository: Make, tmp_path: Path
) -> None:
    """Protects against secrets that were deleted from the folder and live on in its history."""
    repo = repository("project")
    repo.commit("oops", {".env": "TOKEN=hunter2\n", "private/a.md": "diary\n", "b.md": "fine\n"})
    settings = {**HASH, "sources.exclude": ["private"]}
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=settings) as library:
        library.index(collection="project@git")
        text = library.read(repo.git("rev-parse", "HEAD")).text
    assert "+fine" in text
    assert "hunter2" not in text
    assert "diary" not in text


# --- which repositories -------------------------------------------------------------------------


def test_each_repository_below_is_a_collection(repository: Make, tmp_path: Path) -> None:
    for name in ("work/one", "work/two"):
        repository(name).commit(f"Commit in {name}", {"a.md": "text\n"})
    with Library.open(tmp_path / "work", index_dir=tmp_path / "index", settings=HASH) as library:
        assert list(library.histories(look=False)) == []
        assert sorted(library.histories()) == ["work/one@git", "work/two@git"]
        found = library.search("commit in work", filters=COMMITS)
        assert {hit.collection for hit in found.hits} == {"work/one@git", "work/two@git"}


def test_repositories_below_come_and_go(
    repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail where they were looked for once: a removed one went on answering, and a new
    one was never found."""
    monkeypatch.setattr("lookfar.collections.folder._LOOK_SECONDS", 0.0)
    for name in ("work/one", "work/two"):
        repository(name).commit(f"Commit in {name}", {"a.md": "text\n"})
    with Library.open(tmp_path / "work", index_dir=tmp_path / "index", settings=HASH) as library:
        assert sorted(library.histories()) == ["work/one@git", "work/two@git"]
        gone = library.histories()["work/two@git"]
        shutil.rmtree(tmp_path / "work" / "two" / ".git")
        repository("work/new/three").commit("Commit in three", {"a.md": "text\n"})
        assert list(library.histories(look=False)) == ["work/one@git"]
        found = library.search("commit in work", filters=COMMITS)
        assert {hit.collection for hit in found.hits} == {"work/one@git", "work/new/three@git"}
        assert gone.passes.closing
        (tmp_path / "work" / ".git").mkdir()
        repository("work").commit("Commit in all of it", {"b.md": "text\n"})
        assert list(library.histories()) == ["work@git"]


def test_a_repository_cloned_into_a_followed_folder_is_followed_too(
    repository: Make, tmp_path: Path
) -> None:
    """Seen to fail where they were looked for once."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.md").write_text("text\n")
    repository("outside").commit("Come in from the cold", {"b.md": "text\n"})
    with Library.open(tmp_path / "work", index_dir=tmp_path / "index", settings=HASH) as library:
        library.watch()
        library.search("text")
        assert library.histories() == {}
        (tmp_path / "outside").rename(tmp_path / "work" / "inside")
        wait_for(lambda: any(each.indexed for each in library.histories(look=False).values()))


def test_deleting_removes_the_histories_below_also_in_a_process_that_did_not_look(
    repository: Make, tmp_path: Path
) -> None:
    """Seen to fail where only those known already were deleted."""
    repository("work/one").commit("Commit", {"a.md": "text\n"})
    how: dict[str, Any] = {"index_dir": tmp_path / "index", "settings": HASH}
    with Library.open(tmp_path / "work", **how) as library:
        library.search("commit", filters=Filters(lanes=("docs", "commits")))
        (history,) = library.histories().values()
        assert history.indexed
    with Library.open(tmp_path / "work", **how) as fresh:
        assert len(fresh.delete()) == 2
        assert not any(each.indexed for each in fresh.histories().values())


def test_an_index_can_be_deleted_after_its_folder(tmp_path: Path) -> None:
    """Seen to fail where looking for repositories below was a must."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.md").write_text("text\n")
    with Library.open(tmp_path / "work", index_dir=tmp_path / "index", settings=HASH) as library:
        library.index()
        shutil.rmtree(tmp_path / "work")
        library.folder().rest()
        assert len(library.delete()) == 1


def test_deleting_one_folder_of_a_repository_leaves_the_history_of_another(
    repository: Make, tmp_path: Path
) -> None:
    """Each has an index of its own, of the commits that touch it. Seen to fail with a store that
    went by the repository alone."""
    repository("repo").commit("Commit", {"one/a.md": "text\n", "two/b.md": "text\n"})
    how: dict[str, Any] = {"index_dir": tmp_path / "index", "settings": HASH}
    with (
        Library.open(tmp_path / "repo" / "one", **how) as one,
        Library.open(tmp_path / "repo" / "two", **how) as two,
        Library.open(tmp_path / "repo", **how) as whole,
    ):
        for each in (one, two, whole):
            each.search("commit", filters=COMMITS)
        one.delete()
        assert [the_history(each).indexed for each in (one, two, whole)] == [False, True, True]


def test_worktrees_share_one_history(repo: Any, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    paths = (repo.path, tmp_path / "side")
    with Library.open(*paths, index_dir=tmp_path / "index", settings=HASH) as library:
        assert list(library.histories()) == ["project@git"]


def test_history_can_be_turned_off(repo: Any, tmp_path: Path) -> None:
    settings = {**HASH, "git.history": False}
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=settings) as library:
        assert library.histories() == {}
        found = library.search("tables", filters=COMMITS)
    assert (found.hits, [each.reason for each in found.incomplete]) == ((), ["no_history"])


def test_only_the_branches_that_are_wanted_are_read(repo: Any, tmp_path: Path) -> None:
    repo.git("checkout", "--quiet", "-b", "wip/x")
    repo.commit("Unfinished business", {"w": "1\n"})
    settings = {**HASH, "git.branches": ["main"]}
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=settings) as library:
        library.index(collection="project@git")
        assert len(known(library)) == 2


def test_without_git_other_collections_still_answer(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a missing program that takes documents down with it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    both = library.search("tables", filters=Filters(lanes=("docs", "commits")))
    assert [hit.uri for hit in both.hits] == ["guide.md"]
    assert "git is not installed" in both.incomplete[0].detail
    with pytest.raises(IOFailed, match="git is not installed"):
        library.search("tables", filters=COMMITS)
