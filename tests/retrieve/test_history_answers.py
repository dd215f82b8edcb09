"""Questions about history: the commit that did it, not its merge, and the release note about it.

Seen to fail: merges that keep their score, merges that give no credit to their commits, release
notes ranked as whole passages, versions that are not looked up in headings, and commits whose
message drowns in the names of hundreds of files.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar.index.commit_document import prepare_commit
from lookfar.library import Library
from lookfar.model import Filters, Hit
from lookfar.sources.git.history import Commit, Touched
from lookfar.text.chunk.parts import Sizes

HASH = {"embed.provider": "hash", "index.workers": 1}
FILLER = [
    "speed up the parser", "fix a typo in the guide", "raise the limit of open files",
    "rename the helper for dates", "add a test for empty input", "log the name of the worker",
    "use a shorter timeout", "explain the cache", "sort the list of plugins", "close files early",
]  # fmt: skip
NOTES = """\
# Changes

## Version 3.2.0

- Sessions are stored in a file of their own, and old sessions are converted.
- The parser is twice as fast.

## Version 3.1.0

- Cookies of a session are signed with the newest key, so that keys can be rotated.
- Lists of plugins are sorted.

## Version 3.0.0

- The carrier pigeon transport is removed, because nobody has pigeons any more.
- Sessions expire after a month.
"""


class Repo:
    """A repository with few commands, because many tests share one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        command = ["git", *identity, "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message: str, files: dict[str, str]) -> str:
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    tmp_path = tmp_path_factory.mktemp("history")
    repo = Repo(tmp_path / "repo")
    repo.commit("begin", {"guide.md": "# Guide\n\nHow to write a plugin.\n"})
    # Named by letters: a number would match a version in a question.
    for letter, message in zip("abcdefghij", FILLER, strict=True):
        repo.commit(message, {f"src/file_{letter}.py": f"value = {letter!r}\n"})
    commits = {"keys": repo.commit("sign with the newest key", {"src/sign.py": "key = 1\n"})}
    repo.git("checkout", "--quiet", "-b", "remove-pigeons")
    many = {f"transport/old/{n}.py": "coo = 1\n" for n in range(30)}
    commits["removed"] = repo.commit("drop the carrier module", many)
    commits["tip"] = repo.commit("update notes", {"todo.txt": "none\n"})
    repo.git("checkout", "--quiet", "main")
    title = "Merge pull request #7 from a/remove-pigeons\n\nRemove the carrier pigeon transport"
    repo.git("merge", "--quiet", "--no-ff", "-m", title, "remove-pigeons")
    commits["merge"] = repo.git("rev-parse", "HEAD")
    commits["notes"] = repo.commit("write the release notes", {"CHANGES.md": NOTES})
    index = tmp_path / "index"
    with (
        pytest.MonkeyPatch.context() as patched,
        Library.open(repo.path, index_dir=index, settings=HASH) as library,
    ):
        patched.setenv("HOME", str(tmp_path / "home"))
        library.index()
        for history in library.histories().values():
            history.index()
        yield Answers(library, commits)


class Answers:
    def __init__(self, library: Library, commits: dict[str, str]) -> None:
        self.library = library
        self.names = {commit: name for name, commit in commits.items()}
        self.commits = commits

    def ask(self, question: str, **options: object) -> list[str]:
        """Return the names of the commits and the paths of the documents that answer."""
        hits = self.hits(question, **options)
        return [self.names.get(hit.uri, hit.uri) for hit in hits]

    def hits(self, question: str, **options: object) -> list[Hit]:
        settings = {"mode": "keyword", "commits": True, **options}
        return list(self.library.search(question, **settings).hits)  # type: ignore[arg-type]


def test_the_commit_that_did_it_comes_before_its_merge(answers: Answers) -> None:
    shown = answers.ask("why was the carrier pigeon transport removed")
    assert "removed" in shown[:3]
    assert shown.index("removed") < shown.index("merge")


def test_among_commits_alone_a_merge_is_just_before_its_commit(answers: Answers) -> None:
    only = Filters(lanes=("commits",))
    shown = answers.ask("carrier pigeon transport removal", filters=only)
    assert shown[:2] == ["merge", "removed"]


def test_a_merge_that_is_asked_for_is_shown(answers: Answers) -> None:
    assert answers.ask("when was the pull request about pigeons merged")[0] == "merge"


def test_the_item_of_a_release_note_answers(answers: Answers) -> None:
    question = "why was the carrier pigeon transport removed"
    note = next(hit for hit in answers.hits(question)[:3] if hit.uri == "CHANGES.md")
    assert "nobody has pigeons" in note.text


def test_a_version_leads_to_its_section_and_its_commit(answers: Answers) -> None:
    question = "what changed in 3.1 about sessions"
    shown = answers.ask(question)
    assert "CHANGES.md" in shown[:2]
    assert "keys" in shown[:3]
    note = next(hit for hit in answers.hits(question) if hit.uri == "CHANGES.md")
    assert "newest key" in note.text


def test_a_version_of_something_else_is_a_word(answers: Answers) -> None:
    assert answers.ask("when were the sessions of 9.9 removed")


def test_questions_about_the_present_show_the_page(answers: Answers) -> None:
    shown = answers.hits("how do I write a plugin")
    assert shown[0].uri == "guide.md"
    assert sum(hit.lane == "commits" for hit in shown[:10]) <= 3


def test_a_commit_knows_its_parents_and_files(answers: Answers) -> None:
    history = next(iter(answers.library.histories().values()))
    with history.store.snapshot() as snapshot:
        merge = snapshot.document(answers.commits["merge"])
        removed = snapshot.document(answers.commits["removed"])
    assert merge is not None
    assert removed is not None
    assert merge["commit"]["parents"] == [answers.commits["keys"], answers.commits["tip"]]
    assert (merge["commit"]["files"], removed["commit"]["files"]) == (0, 30)


def test_the_words_of_paths_count_once() -> None:
    """A folder that is removed is in every path, and would outweigh the message."""
    files = tuple(Touched("D", f"transport/old/part{number}.py") for number in range(30))
    commit = Commit(
        hash="a" * 40, parents=("b" * 40,), author="A", authored=0, committer="A", committed=0,
        title="drop the carrier", body="", files=files, diff="", omitted=0,
    )  # fmt: skip
    prepared = prepare_commit(commit, Sizes(450, 900, 50), len)
    words = prepared.version.entries[0][2].split()
    assert words.count("transport") == 1
    assert len(words) < 110
