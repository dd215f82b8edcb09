"""Folders like ``target`` and ``vendor`` are skipped where they are build output, and only there.

Seen to fail: judged by name alone, without the files inside, without the check of those files when
a walk reuses the one before, and with a watcher that does not look at build files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lookfar.freshness.watch import FolderWatcher
from lookfar.sources.confine import Root
from lookfar.sources.folder.build_output import presume_output
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import Walk, judge_file, walk
from lookfar.sources.folder.why import why
from reports import Reports
from waiting import DEADLINE

OUTPUT = [
    ("target", "Cargo.toml"), ("target", "pom.xml"), ("vendor", "go.mod"),
    ("vendor", "composer.json"), ("vendor", "Gemfile"), ("build", "build.gradle.kts"),
    ("build", "package.json"), ("build", "setup.py"), ("build", "CMakeLists.txt"),
    ("dist", "package.json"), ("dist", "pyproject.toml"), ("out", "tsconfig.json"),
    ("bin", "App.csproj"), ("obj", "App.fsproj"), ("coverage", "package.json"),
]  # fmt: skip
MARKED = [
    ("target", "CACHEDIR.TAG"), ("vendor", "modules.txt"), ("vendor", "autoload.php"),
    ("build", "CMakeCache.txt"), ("coverage", "lcov.info"), ("venv", "pyvenv.cfg"),
    ("out", "CACHEDIR.TAG"),
]  # fmt: skip


def plant(root: Path, *uris: str) -> None:
    for uri in uris:
        (root / uri).parent.mkdir(parents=True, exist_ok=True)
        (root / uri).write_text("x")


def pages(result: Walk) -> list[str]:
    return [file.uri for file in result.files if file.uri.endswith(".md")]


def details(result: Walk) -> dict[str, str]:
    return {entry.uri: entry.detail for entry in result.skipped}


@pytest.mark.parametrize("folder", [name for name, _ in OUTPUT + MARKED])
def test_a_name_alone_is_not_evidence(tmp_path: Path, folder: str) -> None:
    plant(tmp_path, f"api/{folder}/index.md", "Makefile", "api/index.md")
    assert pages(walk(Root.open(tmp_path), Policy())) == sorted(
        [f"api/{folder}/index.md", "api/index.md"]
    )


@pytest.mark.parametrize(("folder", "file"), OUTPUT)
@pytest.mark.parametrize("parent", ["", "a/b/"])
def test_a_build_file_beside_it(tmp_path: Path, folder: str, file: str, parent: str) -> None:
    uri = f"{parent}{folder.upper()}/x.md"
    plant(tmp_path, uri, f"{parent}{file}", "elsewhere/" + uri)
    root = Root.open(tmp_path)
    result = walk(root, Policy())
    assert pages(result) == ["elsewhere/" + uri]
    assert details(result)[f"{parent}{folder.upper()}"] == f"{folder}/ beside {file}"
    assert judge_file(root, Policy(), uri) is not None
    ruling = why(root, Policy(), uri, understood=True)
    assert (ruling.admitted, ruling.rule) == (False, f"{folder}/ beside {file}")
    assert judge_file(root, Policy(), "elsewhere/" + uri) is None
    assert len(pages(walk(root, Policy(generated=True)))) == 2


@pytest.mark.parametrize(("folder", "file"), MARKED)
def test_a_file_inside_it(tmp_path: Path, folder: str, file: str) -> None:
    plant(tmp_path, f"a/{folder}/x.md", f"a/{folder}/{file}")
    root = Root.open(tmp_path)
    assert pages(walk(root, Policy())) == []
    ruling = why(root, Policy(), f"a/{folder}/x.md", understood=True)
    assert (ruling.rule, ruling.decided) == (f"{folder}/ contains {file}", f"a/{folder}")


def test_a_folder_that_git_ignores(tmp_path: Path) -> None:
    plant(tmp_path, "api/target/x.md", "target/x.md")
    (tmp_path / ".gitignore").write_text("/target/\n")
    root = Root.open(tmp_path)
    assert pages(walk(root, Policy())) == ["api/target/x.md"]
    assert why(root, Policy(), "target/x.md", understood=True).place == ".gitignore:1"


def test_evidence_that_comes_and_goes_changes_the_next_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the folder that contains it is unchanged, and not listed again."""
    for module in ("folder.walk", "fingerprints"):
        monkeypatch.setattr(f"lookfar.sources.{module}.SETTLING_NS", 10_000_000)
    plant(tmp_path, "a/target/x.md", "a/y.md")
    root, policy = Root.open(tmp_path), Policy()
    last = walk(root, policy)
    for evidence in ("a/target/CACHEDIR.TAG", "a/Cargo.toml"):
        for shown in (["a/y.md"], ["a/target/x.md", "a/y.md"]):
            time.sleep(0.02)
            if len(shown) == 1:
                plant(tmp_path, evidence)
            else:
                (tmp_path / evidence).unlink()
            last = walk(root, policy, before=last)
            assert pages(last) == shown, evidence


def test_old_commits_are_judged_by_name() -> None:
    assert presume_output("a/vendor")
    assert not presume_output("a/bin")
    assert not presume_output("a/docs")


@contextmanager
def watching(root: Path, exact: bool) -> Iterator[tuple[FolderWatcher, Reports]]:
    reports = Reports()
    watcher = FolderWatcher(Root.open(root), Policy(), reports, exact=exact)
    watcher.start(lambda: None)
    try:
        yield watcher, reports
    finally:
        watcher.stop()


def everything_is_due(watcher: FolderWatcher, reports: Reports) -> bool:
    """Wait until the watcher has reported what happened; say whether all has to be examined."""
    deadline = time.monotonic() + DEADLINE
    watcher.fence(DEADLINE)
    while not reports.everything:
        assert time.monotonic() < deadline, "nothing is noticed"
        if any(uri.endswith("settled.md") for uri in reports.names()):
            return False
        time.sleep(0.01)
    everything = reports.collect().everything
    if everything:
        watcher.extend()  # As the keeper does before it examines everything.
    return everything


@pytest.mark.parametrize("exact", [True, False])
def test_the_watcher_notices_a_build_file(tmp_path: Path, exact: bool) -> None:
    plant(tmp_path, "a/target/x.md", "a/b/y.md")
    with watching(tmp_path, exact) as watched:
        plant(tmp_path, "a/Cargo.toml")
        assert everything_is_due(*watched)


@pytest.mark.parametrize("mark", ["a/target/CACHEDIR.TAG", "a/Cargo.toml"])
def test_the_watcher_notices_evidence_that_goes(tmp_path: Path, mark: str) -> None:
    plant(tmp_path, "a/target/x.md", mark)
    with watching(tmp_path, True) as watched:
        (tmp_path / mark).unlink()
        assert everything_is_due(*watched)
        plant(tmp_path, "a/target/settled.md")
        assert not everything_is_due(*watched)


def test_a_build_file_saved_again_is_an_ordinary_change(tmp_path: Path) -> None:
    """Otherwise each save of a package.json would examine the whole folder."""
    plant(tmp_path, "package.json", "dist/x.md", "b/y.md")
    with watching(tmp_path, True) as watched:
        plant(tmp_path, "package.json", "b/settled.md")
        assert not everything_is_due(*watched)
        assert "package.json" in watched[1].collect().uris
