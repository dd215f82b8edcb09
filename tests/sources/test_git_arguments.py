"""Texts that read like options, commands or files, wherever a name reaches git.

Seen to fail with hashes that were passed on as they came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness import report
from lookfar import Filters
from lookfar.errors import LookfarError
from lookfar.library import Library
from lookfar.sources.git.history import (
    find_present,
    list_commits,
    list_refs,
    read_commits,
)
from lookfar.sources.git.repositories import find_repository, list_repositories

Make = Callable[..., Any]


def strings(place: Path) -> list[str]:
    """At least fifty; those that would write do so into ``place``."""
    file = f"{place}/pwned"
    options = [
        *(f"--output={file}", f"-o{file}", f"--output={file} HEAD", f"--upload-pack=touch {file}"),
        *(f"--upload-pack=`touch {file}`", f"--receive-pack=touch {file}", f"--exec=touch {file}"),
        *(f"--git-dir={place}", f"--work-tree={place}", f"-c core.pager=touch {file}", "-C /"),
        *(f"-ccore.fsmonitor={file}", "--no-index", "--ext-diff", "--textconv", "--help", "-h"),
        *("--version", "--all", "--not", "--stdin", "-", "--", "--end-of-options", "-n1", "-1"),
        *("--format=%H", "--pretty=format:%x00", "-p", "--patch", "--paginate", "--exec-path"),
        *("--config-env=a=HOME", f"--namespace={place}", "--bare", "--no-replace-objects"),
    ]
    commands = [
        *(f"$(touch {file})", f"`touch {file}`", f"; touch {file}", f"| touch {file}"),
        *(f"& touch {file}", f"&& touch {file}", f"\ntouch {file}\n", f"> {file}"),
        *(f"ext::sh -c 'touch {file}'", f"file://{place}", f"!touch {file}", "$HOME", "${IFS}"),
    ]
    names = [
        *(
            "HEAD:secret.txt",
            "HEAD",
            "main",
            "--branches",
            "@{u}",
            "@{-1}",
            "HEAD^{tree}",
            ":/secret",
            "^HEAD",
            "HEAD..",
            "..HEAD",
        ),
        *("refs/../../secret", "../../secret", "a\0b", "a\nb", "\\", "*", "[", "{", "\ud800", ""),
        *("x" * 10_000, "0" * 39, "0" * 41, "g" * 40, "refs/heads/" + "x" * 5_000),
    ]
    return options + commands + names


@pytest.mark.usefixtures("own_home")
def test_no_text_becomes_an_option_or_a_command(repository: Make, tmp_path: Path) -> None:
    """As a branch, as a glob of branches, as a hash, as a filter and as a name of a submodule."""
    place = tmp_path / "place"
    place.mkdir()
    hostile = strings(place)
    assert len(hostile) >= 50
    repo = repository("repo")
    repo.commit("base", {"a.md": "# A\n\none harbour\n"})
    names = [item for item in hostile if item and "\0" not in item and item.isascii()]
    modules = "".join(
        f'[submodule "{name[:200]}"]\n\tpath = {name[:200]}\n\turl = {name[:200]}\n'
        for name in names
        if "\n" not in name and '"' not in name and "\\" not in name
    )
    repo.commit("modules", {".gitmodules": modules})
    found = find_repository(str(repo.path))
    assert found is not None
    before = {path for path in tmp_path.rglob("*") if ".git" not in path.parts}
    tried, bad = 0, []

    def attempt(what: str, work: Callable[[], object], text: str) -> None:
        nonlocal tried
        tried += 1
        try:
            result = work()
            # None of them is the hash of a commit here, so nothing may come of it.
            if what in ("hash", "present", "read") and result:
                bad.append((what, text, repr(result)[:200]))
        except LookfarError as error:
            if error.code == "INTERNAL":
                bad.append((what, text, str(error)))
        except Exception as error:
            bad.append((what, text, repr(error)))

    settings = {"embed.provider": "hash", "index.workers": 1, "git.cool_down_seconds": 0.0}
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=settings) as library:
        assert library.search("harbour").hits
        [head] = {ref.commit for ref in list_refs(found)}
        assert head in list_commits(found, [head])
        assert find_present(found, [head])
        assert list(read_commits(found, [head], diff_lines=9))
        calls: dict[str, Callable[[str], object]] = {
            "branches": lambda text: list_refs(found, (text,)),
            "hash": lambda text: list(list_commits(found, [text])),
            "present": lambda text: find_present(found, [text]),
            "read": lambda text: list(read_commits(found, [text], diff_lines=9)),
            "below": lambda text: list_repositories(str(repo.path), [text]),
        }
        for text in hostile:
            for name, call in calls.items():
                attempt(name, partial(call, text), text)
            searches = {
                "branch": Filters(branch=text),
                "touches": Filters(touches=text),
                "author": Filters(authors=(text,)),
            }
            for name, filters in searches.items():
                attempt(name, partial(library.search, "harbour", filters=filters), text)
    after = {path for path in tmp_path.rglob("*") if ".git" not in path.parts}
    written = [path for path in after - before if not path.is_relative_to(tmp_path / "index")]
    written = [path for path in written if not path.is_relative_to(tmp_path / "home")]
    report("git arguments", trials=tried, faults=len(hostile), failures=len(bad) + len(written))
    assert bad == []
    assert written == []
