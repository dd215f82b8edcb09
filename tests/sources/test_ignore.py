"""Ignore files mean what git says they mean: git itself is asked.

Proved by mutation: dropping the `folders_only` test, the last-line-wins order, the anchoring or
the trailing-space rule each fails cases here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lookfar.sources.confine import Root
from lookfar.sources.folder.ignore import MAX_LINES, IgnoreFile, Ignores
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import judge_file, walk
from processor_time import processor_time_below

TREE = [
    "a.log.txt",
    "a.txt",
    "b.txt",
    "#hash",
    "!bang",
    "sp ace",
    "trail ",
    "x[1].txt",
    "back\\slash",
    "doc/a.txt",
    "doc/b.md",
    "doc/sub/a.txt",
    "doc/sub/deep/a.txt",
    "doc/sub/deep/c.md",
    "foo/bar/x",
    "foo/x/bar/y",
    "foo/bar.md",
    "lib/keep/me.txt",
    "lib/drop/me.txt",
    "lib/keep.txt",
    "other/doc/a.txt",
    "other/notes.tar.gz",
    "other/ab1.c",
    "other/ab2.c",
    "other/aB3.c",
    "other/notes~",
    "deep/1/2/3/4/5/a.txt",
    "日本/ノート.md",
]

CASES: list[dict[str, str]] = [
    {"": line}
    for line in [
        "a.txt",
        "/a.txt",
        "*.txt",
        "doc",
        "doc/",
        "/doc/",
        "a.txt/",
        "doc/*",
        "doc/*.md",
        "doc/**",
        "doc/**/",
        "**/doc",
        "**/doc/a.txt",
        "doc/**/a.txt",
        "foo/**/bar",
        "foo/**/bar/y",
        "foo/*/bar",
        "sub/deep",
        "**/sub/deep",
        "doc/sub/",
        "*",
        "**",
        "/*",
        "*/",
        "**/",
        "/",
        "?.txt",
        "[ab].txt",
        "[!a].txt",
        "[^a].txt",
        "ab[0-9].c",
        "ab[[:digit:]].c",
        "a[[:upper:]]?.c",
        "[[:nope:]].txt",
        "x[[]1].txt",
        "x\\[1\\].txt",
        "x[1].txt",
        "[a",
        "[]a].txt",
        "[z-a].txt",
        "[a-].txt",
        "a.tx[t/x]",
        "#hash",
        "\\#hash",
        "!bang",
        "\\!bang",
        "sp ace",
        "sp\\ ace",
        "trail ",
        "trail\\ ",
        "trail\\  ",
        "a.txt   ",
        "a.txt\t",
        "back\\slash",
        "back\\\\slash",
        "a.txt\\",
        "a.txt\r",
        "\ufeffa.txt",
        "",
        "  ",
        "*.gz",
        "*.tar.gz",
        "*tes.tar.gz",
        "*~",
        "*.log",
        "*a*",
        "a**t",
        "doc/**b.md",
        "doc**",
        "doc/***/a.txt",
        "***/a.txt",
        "foo//bar",
        "//foo",
        "./a.txt",
        "doc/./a.txt",
        "doc/../a.txt",
        "doc\\/a.txt",
        "日本/",
        "ノート.md",
        "*.md\n!b.md",
        "!b.md\n*.md",
        "*.txt\n!a.txt\na.txt",
        "lib/*\n!lib/keep",
        "lib/*\n!lib/keep/",
        "lib/\n!lib/keep/me.txt",
        "lib/**\n!lib/keep/\n!lib/keep/**",
        "/*\n!/doc\n/doc/*\n!/doc/sub",
        "*\n!*/\n!*.md",
        "*\n!*.md",
        "*.txt\n!/doc/*.txt",
        "a.txt\n!*.txt\n[a]*",
        "*.c\n!ab?.c\nab1.c",
        "# comment\n\na.txt\n",
        "a.txt\r\nb.txt\r\n",
        "deep/1/**/5",
        "deep/**/a.txt\n!deep/1/2/**/a.txt",
    ]
]
CASES += [
    {"": "*.txt", "doc": "!a.txt"},
    {"": "!a.txt", "doc": "*.txt"},
    {"": "*.txt", "doc": "!a.txt", "doc/sub": "a.txt"},
    {"": "doc/sub", "doc": "!sub"},
    {"": "doc/", "doc": "!a.txt\n!*"},
    {"doc": "/a.txt"},
    {"doc": "sub/"},
    {"doc": "sub/a.txt"},
    {"doc": "deep/a.txt"},
    {"doc": "**/a.txt"},
    {"doc": "*", "doc/sub": "!a.txt"},
    {"doc": "*\n!sub/", "doc/sub": "!deep/\n!deep/a.txt"},
    {"": "foo/bar", "foo": "!bar/"},
    {"日本": "ノ*"},
]


def _plant(root: Path, ignores: dict[str, str], name: str = ".gitignore") -> None:
    for uri in TREE:
        path = root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for folder, text in ignores.items():
        (root / folder / name).write_bytes(text.encode())


def _git(root: Path, *arguments: str, data: bytes = b"") -> bytes:
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(root), "LC_ALL": "C.UTF-8"}
    command = ["git", "-c", "core.excludesFile=", *arguments]
    done = subprocess.run(command, cwd=root, input=data, capture_output=True, env=environment)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    _plant(root, {})
    _git(root, "init", "-q")
    return root


@pytest.mark.parametrize("ignores", CASES, ids=lambda case: ascii(case)[1:60])
def test_as_git_does(repository: Path, ignores: dict[str, str]) -> None:
    _plant(repository, ignores)
    try:
        asked = "\0".join(TREE).encode()
        answer = _git(repository, "check-ignore", "--no-index", "-z", "--stdin", data=asked)
        expected = {uri for uri in answer.decode().split("\0") if uri}
        root = Root.open(repository)
        policy = Policy(exclude=())
        seen = {file.uri for file in walk(root, policy).files}
        assert {uri for uri in TREE if uri not in seen} == expected | {"other/notes.tar.gz"}
        judged = {u: judge_file(root, policy, u) for u in TREE}
        assert {u for u, v in judged.items() if v and v.reason == "ignored"} == expected
    finally:
        for folder in ignores:
            (repository / folder / ".gitignore").unlink()


def test_our_own_ignore_file_beats_gits(tmp_path: Path) -> None:
    _plant(tmp_path, {"": "*.md\na.txt"})
    _plant(tmp_path, {"": "!b.md\nb.txt"}, ".lookfarignore")
    uris = {file.uri for file in walk(Root.open(tmp_path), Policy()).files}
    assert "doc/b.md" in uris
    assert not {"a.txt", "b.txt", "foo/bar.md"} & uris
    everything = walk(Root.open(tmp_path), Policy(respect_ignore_files=False))
    assert {"a.txt", "b.txt", "foo/bar.md"} <= {file.uri for file in everything.files}


def test_the_rule_is_named() -> None:
    ignores = Ignores("doc/", IgnoreFile("doc/.gitignore", b"# x\n*.md\n!b.md\n"), None)
    assert ignores.rule_for("doc/a.md", "a.md", False) == "doc/.gitignore:2: *.md"
    assert ignores.rule_for("doc/b.md", "b.md", False) is None


def test_limits_are_reported_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    text = "*.log\n" * MAX_LINES + "a.txt\n"
    (tmp_path / ".gitignore").write_text(text)
    result = walk(Root.open(tmp_path), Policy())
    assert "a.txt" in {file.uri for file in result.files}
    assert [entry.reason for entry in result.skipped] == ["ignore_file"]
    (tmp_path / ".gitignore").write_text("a.txt\n" + "#" * (1 << 20))
    result = walk(Root.open(tmp_path), Policy(max_file_bytes=1 << 30))
    assert result.skipped[0].detail == "not applied: too_large"
    assert IgnoreFile("", ("x" * 1001).encode()).problems
    assert IgnoreFile("", b"[a\n").problems


@pytest.mark.parametrize(
    "line",
    [
        *("*a" * 400, "a*" * 20 + "b", "**/*a*/" * 100 + "b", "*a*a*a*a*a*a*a*b", "[a-b]*" * 150),
        *(" " * 900 + "y", "\\ " * 400),
    ],
)
def test_no_line_is_slow(line: str) -> None:
    """Seen to fail when what a wildcard has taken could be given back."""
    with processor_time_below(0.5):
        rules = IgnoreFile("", (line + "\n").encode())
        for path in ("a" * 255, "a/" * 2000 + "c", "a" * 60):
            rules.decide(path, path.rsplit("/", 1)[-1], False)


def test_a_file_full_of_wildcards_is_cut_short() -> None:
    with processor_time_below(1.5):
        rules = IgnoreFile("", b"\n".join(b"*a?[bc]%d*" % i * 10 for i in range(5000)))
    assert any("too many wildcards" in problem for problem in rules.problems)
