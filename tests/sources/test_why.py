"""Which rule decides on a path: the one that the walk goes by, and for ignore files git's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lookfar.model import Ruling
from lookfar.sources.confine import Root
from lookfar.sources.folder.ignore import load_outer_ignores
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import judge_file, walk
from lookfar.sources.folder.why import why
from lookfar.text.parse.formats import parser_for
from sample_files import write_files

LIMITS: dict[str, Any] = {"max_file_bytes": 100, "max_depth": 3}


def ruling(root: Path, uri: str, policy: Policy | None = None) -> Ruling:
    understood = parser_for(uri) is not None
    return why(Root.open(root), policy or Policy(**LIMITS), uri, understood=understood)


def git(root: Path, *arguments: str, data: bytes = b"") -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "LC_ALL": "C.UTF-8"}
    command = ["git", "-c", "core.excludesFile=", *arguments]
    done = subprocess.run(command, cwd=root, input=data, capture_output=True, env=environment)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.decode()


TABLE: list[tuple[str, str, str, str, str]] = [
    # path, reason, rule, place, the path that it is about
    ("guide.md", "admitted", "", "", ""),
    ("src/a.py", "admitted", "", "", ""),
    ("node_modules/x/readme.md", "denied", "node_modules/", "built in", "node_modules"),
    ("src/.ENV", "denied", ".env", "built in", ""),
    ("src/.e\u200bnv", "denied", ".env", "built in", ""),
    ("deploy.key", "denied", "*.key", "built in", ""),
    ("drafts/x.md", "excluded", "drafts/**", "sources.exclude", "drafts"),
    ("notes.bak", "excluded", "*.bak", "sources.exclude", ""),
    ("old.md~", "excluded", "*~", "built in", ""),
    ("logs/today.md", "ignored", "logs/", ".gitignore:2", "logs"),
    ("src/gen_a.py", "ignored", "gen_*", "src/.gitignore:1", ""),
    ("src/gen_keep.py", "not_ignored", "!gen_keep.py", "src/.gitignore:3", ""),
    ("src/own.md", "ignored", "own.md", "src/.lookfarignore:1", ""),
    ("picture.png", "binary", "*.png", "built in", ""),
    ("zero.md", "binary", "its content is not text", "built in", ""),
    ("large.md", "too_large", "200 bytes, limit 100", "sources.max_file_bytes", ""),
    ("a/b/c/d.md", "admitted", "", "", ""),
    ("a/b/c/d/e.md", "too_deep", "limit 3", "sources.max_depth", "a/b/c/d"),
    ("thing.xyz", "no_parser", "no known format has this name", "built in", ""),
    ("absent.md", "gone", "no such file", "", ""),
    ("guide.md/x.md", "gone", "this is not a folder", "", "guide.md"),
    ("absent/.env", "denied", ".env", "built in", ""),
    ("src", "admitted", "", "", ""),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(
        tmp_path,
        {
            ".gitignore": "# what is left behind\nlogs/\n",
            "src/.gitignore": "gen_*\n\n!gen_keep.py\n",
            "src/.lookfarignore": "own.md\n",
            "large.md": "x" * 200,
            "zero.md": "a\0b",
        },
    )
    write_files(
        tmp_path,
        {uri: "x" for uri, *_ in TABLE if not (tmp_path / uri).exists() and "absent" not in uri
         and not uri.startswith("guide.md/") and uri != "src"},
    )  # fmt: skip
    return tmp_path


POLICY = Policy(exclude=("*~", "drafts/**", "*.bak"), **LIMITS)


@pytest.mark.parametrize(("uri", "reason", "rule", "place", "decided"), TABLE)
def test_the_rule_that_decides(
    root: Path, uri: str, reason: str, rule: str, place: str, decided: str
) -> None:
    """Every kind of rule, with its text and location."""
    result = ruling(root, uri, POLICY)
    assert (result.reason, result.rule, result.place) == (reason, rule, place)
    assert result.decided == (decided or uri)
    assert result.admitted is (reason in ("admitted", "not_ignored", "included"))


def test_the_answer_is_that_of_the_walk(root: Path) -> None:
    """A walk agrees: skipped paths are not listed, admitted ones are."""
    walked = {file.uri for file in walk(Root.open(root), POLICY).files}
    content = {"no_parser", "binary", "too_large"}
    for uri, *_ in TABLE:
        if uri == "src":
            continue
        result = ruling(root, uri, POLICY)
        if result.reason not in content or result.rule.startswith("*"):
            assert result.admitted is (uri in walked), uri


def test_only_what_is_included(root: Path) -> None:
    policy = Policy(include=("docs/**",), **LIMITS)
    write_files(root, {"docs/a.md": "x"})
    assert ruling(root, "docs/a.md", policy).rule == "docs/**"
    assert ruling(root, "docs/a.md", policy).place == "sources.include"
    assert ruling(root, "guide.md", policy).reason == "not_included"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_are_reported_and_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Not at the end of a path, and not on the way."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.md").write_text("secret", encoding="utf-8")
    (root / "link.md").symlink_to(outside / "a.md")
    (root / "way").symlink_to(outside)
    os.link(root / "guide.md", root / "twin.md")
    assert ruling(root, "link.md").reason == "symlink"
    assert ruling(root, "way/a.md").reason == "symlink"
    assert ruling(root, "way/a.md").decided == "way"
    assert ruling(root, "twin.md").reason == "hard_link"


# --- as git says --------------------------------------------------------------------------------

FILES = [
    "a.md", "b.md", "keep.md", "out.tmpx", "sub/a.md", "sub/keep.md", "sub/deep/b.md",
    "sub/deep/c.txt", "other/a.md", "other/x/y.md", "private/notes.md", "local.md",
    "sub/local.md", "é/ü.md",
]  # fmt: skip
REPOSITORIES: list[dict[str, str]] = [
    {".gitignore": "*.tmpx\n# c\n/b.md\n"},
    {".gitignore": "*.md\n!keep.md\n", "sub/.gitignore": "!a.md\nkeep.md\n"},
    {".gitignore": "sub/*\n!sub/deep/\n", "sub/deep/.gitignore": "*.txt\n"},
    {".gitignore": "other/\n", "other/.gitignore": "!a.md\n"},
    {".git/info/exclude": "local.md\n/private/\n"},
    {".git/info/exclude": "local.md\n*.txt\n", "sub/.gitignore": "!local.md\n"},
    {".gitignore": "!local.md\n", ".git/info/exclude": "local.md\n"},
    {".gitignore": "**/deep/*.md\nü.md\n"},
]


def git_decisions(root: Path, uris: list[str]) -> dict[str, tuple[str, str]]:
    """Return the deciding file, line and text of ``git check-ignore -v``."""
    asked = "\0".join(uris).encode()
    given = git(root, "check-ignore", "-v", "-z", "--no-index", "--stdin", data=asked).split("\0")
    rows = zip(*[iter(given[: len(given) // 4 * 4])] * 4, strict=True)
    return {uri: (f"{file}:{line}", text) for file, line, text, uri in rows}


@pytest.mark.parametrize("rules", REPOSITORIES, ids=lambda rules: ascii(rules)[1:50])
def test_the_line_is_the_one_that_git_names(tmp_path: Path, rules: dict[str, str]) -> None:
    """The same verdict, and the same line of the same file for it."""
    write_files(tmp_path, dict.fromkeys(FILES, "x"))
    git(tmp_path, "init", "-q")
    write_files(tmp_path, rules)
    policy = Policy(exclude=())
    by_git = git_decisions(tmp_path, FILES)
    assert by_git
    for uri in FILES:
        result = ruling(tmp_path, uri, policy)
        place, text = by_git.get(uri, ("", ""))
        ignored = bool(place) and not text.startswith("!")
        assert (result.reason == "ignored") is ignored, uri
        if place and result.reason in ("ignored", "not_ignored"):
            shown = result.place.removeprefix(f"{os.path.realpath(tmp_path)}/")
            assert (shown, result.rule) == (place, text), uri


def test_a_folder_in_a_repository_heeds_the_rules_above_it(tmp_path: Path) -> None:
    """What git would not show in ``sub`` is not indexed when only ``sub`` is."""
    write_files(tmp_path, dict.fromkeys(FILES, "x"))
    git(tmp_path, "init", "-q")
    write_files(
        tmp_path, {".gitignore": "/sub/keep.md\n*.txt\n/a.md\n", ".git/info/exclude": "local.md\n"}
    )
    sub = Root.open(tmp_path / "sub")
    policy = Policy(exclude=())
    asked = [uri for uri in FILES if uri.startswith("sub/")]
    ignored = {uri.removeprefix("sub/") for uri in git_decisions(tmp_path, asked)}
    assert ignored == {"keep.md", "local.md", "deep/c.txt"}
    walked = walk(sub, policy)
    assert {file.uri for file in walked.files} == {"a.md", "deep/b.md"}
    assert {uri for uri in ("a.md", *ignored) if judge_file(sub, policy, uri)} == ignored
    assert ruling(tmp_path / "sub", "keep.md", policy).place.endswith("/.gitignore:1")
    # The same object, by which the next walk sees that nothing changed.
    assert load_outer_ignores(sub.path) is load_outer_ignores(sub.path) is not None
    again = walk(sub, policy, before=walked)
    assert again.files == walked.files
    write_files(tmp_path, {".gitignore": "/sub/a.md\n"})
    assert {file.uri for file in walk(sub, policy, before=again).files} == {
        "deep/b.md", "deep/c.txt", "keep.md",
    }  # fmt: skip
    heedless = Policy(exclude=(), respect_ignore_files=False)
    assert len(walk(sub, heedless).files) == len(asked)


def test_a_folder_that_git_ignores_can_be_chosen(tmp_path: Path) -> None:
    """A folder named by the user is indexed even if its repository ignores it."""
    write_files(tmp_path, {"notes/a.md": "x", "notes/b.txt": "x", ".gitignore": "notes/\n*.txt\n"})
    git(tmp_path, "init", "-q")
    result = walk(Root.open(tmp_path / "notes"), Policy(exclude=()))
    assert [file.uri for file in result.files] == ["a.md", "b.txt"]


def test_a_repository_that_is_the_home_rules_nothing_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many keep their settings in one that ignores everything."""
    home = tmp_path.resolve()
    write_files(home, {"notes/a.md": "x", ".gitignore": "*.md\n"})
    git(home, "init", "-q")
    monkeypatch.setenv("HOME", str(home))
    assert [file.uri for file in walk(Root.open(home / "notes"), Policy()).files] == ["a.md"]
