"""Packages are off until they are asked for, and then follow the lock file and the environment.

Seen to fail when they were on for every project, when the follower acted on the first stamp alone,
when packages got places that were not free, and when links of an environment were followed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lookfar.collections.outside import packages as module
from lookfar.collections.outside.packages import ProjectPackages
from lookfar.collections.outside.projects import Projects
from lookfar.errors import InvalidArgument
from lookfar.library import Library
from lookfar.model import Filters, OutsideSource
from lookfar.serve.cli.main import cli
from outside.installed import install_python, write

pytestmark = pytest.mark.usefixtures("own_home")

DEPS = Filters(kinds=("deps",))
SETTINGS = {"embed.provider": "hash"}
OLD_NS = 1_600_000_000 * 10**9
PATIENCE = 120.0


def _files(name: str, text: str) -> dict[str, str]:
    return {f"{name}/__init__.py": f'def {text}(depth: int) -> int:\n    """Return {text}."""\n'}


def _site_packages(project: Path) -> Path:
    return project / ".venv" / "lib" / "python3.11" / "site-packages"


def _settle(project: Path, moved: int = 0) -> None:
    """Date the environment back, as if what is installed had been there for long."""
    for path in (_site_packages(project), project / "uv.lock", project / "pyproject.toml"):
        if path.exists():
            os.utime(path, ns=(OLD_NS + moved, OLD_NS + moved))


def _install(project: Path, name: str, version: str, text: str) -> None:
    install_python(project, name, version, _files(name, text))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    write(folder / "app.py", "from ziplib import zip_up\n\nzip_up(3)\n")
    write(folder / "pyproject.toml", '[project]\nname = "one"\ndependencies = ["ziplib"]\n')
    write(folder / "uv.lock", "version = 1\n")
    _install(folder, "aaalib", "3.1", "dig")
    _install(folder, "ziplib", "1.0", "zip_up")
    _settle(folder)
    return folder


@pytest.fixture
def library(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.05)
    with Library.open(project, settings=SETTINGS) as opened:
        opened.index()
        yield opened


def _packages(library: Library) -> ProjectPackages:
    return next(iter(library._members.packages().values()))


def _wait_for_uses(library: Library, project: Path, expected: set[str]) -> None:
    packages = _packages(library)

    def has_them() -> bool:
        return set(library._outside.projects.get(str(project)).uses) == expected

    with packages._changed:
        assert packages._changed.wait_for(has_them, PATIENCE), "packages were not followed"


def test_packages_are_off_until_they_are_asked_for(library: Library, project: Path) -> None:
    library.watch()
    library.search("zip_up of ziplib", sources=True, commits=True, memories=True)
    library.drain()
    assert library.outside.list_all() == ()
    assert library.statuses()[0].packages is None
    library.search("zip_up of ziplib", filters=DEPS)
    _wait_for_uses(library, project, {"aaalib-3.1@pypi", "ziplib-1.0@pypi"})
    assert library.statuses()[0].packages == 2


def test_a_lock_file_that_changes_adds_and_drops_packages(library: Library, project: Path) -> None:
    """A real follower, real files: an upgrade by a package manager, between questions."""
    library.search("ziplib", filters=DEPS)
    library.watch()
    _wait_for_uses(library, project, {"aaalib-3.1@pypi", "ziplib-1.0@pypi"})
    shutil.rmtree(_site_packages(project) / "ziplib-1.0.dist-info")
    _install(project, "ziplib", "2.0", "zip_up")
    _install(project, "newlib", "0.1", "begin")
    shutil.rmtree(_site_packages(project) / "aaalib-3.1.dist-info")
    write(project / "uv.lock", "version = 1\nchanged = true\n")
    _wait_for_uses(library, project, {"newlib-0.1@pypi", "ziplib-2.0@pypi"})
    assert set(_packages(library).list_ready()) == {"newlib-0.1@pypi", "ziplib-2.0@pypi"}
    # The old ones stay stored for a while, so that versions can be compared.
    assert "ziplib-1.0@pypi" in [source.name for source in library.outside.list_all()]
    library.outside.disable_packages()
    assert library.statuses()[0].packages is None


def test_the_setting_turns_them_on_and_off(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.05)
    with Library.open(project, settings={**SETTINGS, "outside.packages": "off"}) as library:
        library.index()
        answer = library.search("ziplib", filters=DEPS)
        assert answer.hits == ()
        assert "turned off" in answer.incomplete[0].detail
        with pytest.raises(InvalidArgument, match="turned off"):
            library.outside.packages()
        assert library.outside.list_all() == ()
    with Library.open(project, settings={**SETTINGS, "outside.packages": "on"}) as library:
        library.index()
        library.watch()
        _wait_for_uses(library, project, {"aaalib-3.1@pypi", "ziplib-1.0@pypi"})


def test_direct_packages_are_indexed_first(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: list[str] = []
    real = module.bring_package

    def bring(outside: Any, package: Any) -> str:
        brought.append(package.name)
        return real(outside, package)

    monkeypatch.setattr(module, "bring_package", bring)
    library.outside.packages()
    assert brought == ["ziplib", "aaalib"]


def test_packages_never_displace_an_answer_of_the_project(tmp_path: Path) -> None:
    project = tmp_path / "full"
    for number in range(12):
        text = f"# Note {number}\n\nHow zip_up of ziplib is called here, case {number}.\n"
        write(project / f"note{number}.md", text)
    write(project / "requirements.txt", "ziplib\n")
    _install(project, "ziplib", "1.0", "zip_up")
    question = "how is zip_up of ziplib called"
    with Library.open(project, settings=SETTINGS) as library:
        library.index()
        few, many = (library.search(question, top_k=top_k, sources=True) for top_k in (5, 50))
        library.outside.packages()
        assert library.search(question, top_k=5, sources=True).hits == few.hits
        hits = library.search(question, top_k=50, sources=True).hits
        assert hits[: len(many.hits)] == many.hits
        others = hits[len(many.hits) :]
        assert others
        assert {hit.collection for hit in others} == {"ziplib-1.0@pypi"}
        # Callers that did not ask for sources, such as the tools of other systems, get none.
        assert library.search(question, top_k=50).hits == many.hits
        assert {h.collection for h in library.search("case 3", sources=True).hits} == {"full"}
    with Library.open(project, settings=SETTINGS) as again:  # As each command of a user does.
        assert again.search(question, top_k=50, sources=True).hits == hits


def test_packages_are_named_before_the_project_is_recorded(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is written after those who wait for the packages go on."""
    monkeypatch.setattr(Projects, "record_uses", lambda *_: None)
    _install(project, "ziplib", "1.0", "zip_up")
    with Library.open(project, settings=SETTINGS) as library:
        library.index()
        library.outside.packages()
        hits = library.search("how is zip_up of ziplib called", sources=True).hits
        assert "ziplib-1.0@pypi" in {hit.collection for hit in hits}


def test_packages_that_no_project_uses_are_removed_after_some_time(tmp_path: Path) -> None:
    projects = Projects(tmp_path / "outside")
    folder = tmp_path / "one"
    folder.mkdir()
    old = [OutsideSource(f"{name}-1.0@pypi", "package", "", fetched="2020-01-01") for name in "abc"]
    projects.record_uses(str(folder), {"a": "a-1.0@pypi", "b": "b-1.0@pypi"})
    assert projects.find_unused(old, 30) == ["c-1.0@pypi"]
    projects.record_uses(str(folder), {"a": "a-1.0@pypi"})
    assert projects.find_unused(old, 30) == ["c-1.0@pypi"]
    assert projects.find_unused(old, -1) == ["b-1.0@pypi", "c-1.0@pypi"]
    # A project on a disk that is away for a while keeps its packages.
    folder.rmdir()
    assert projects.find_unused(old, 30) == ["c-1.0@pypi"]
    assert projects.find_unused(old, -1) == ["a-1.0@pypi", "b-1.0@pypi", "c-1.0@pypi"]


def test_links_out_of_an_environment_are_not_followed(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("# Secret\n\nThe vault opens at noon.\n", encoding="utf-8")
    install_python(project, "evil", "1.0", {"evil.py": "def do(): ...\n", "CHANGELOG.md": "# C\n"})
    (_site_packages(project) / "CHANGELOG.md").unlink()
    (_site_packages(project) / "CHANGELOG.md").symlink_to(secret)
    with Library.open(project, settings=SETTINGS) as library:
        library.outside.packages()
        uris = [page.uri for page in library.pages(collection="evil-1.0@pypi")[0]]
        assert "evil.py" in uris
        texts = [library.read(f"lookfar://evil-1.0@pypi/{uri}").text for uri in uris]
        assert not any("vault" in text for text in texts)


def test_the_command_turns_them_off(project: Path) -> None:
    run = CliRunner()
    options = ["--set", "embed.provider=hash"]
    assert run.invoke(cli, ["deps", str(project), *options]).exit_code == 0
    status = ["status", str(project), "--json", *options]
    assert json.loads(run.invoke(cli, status).stdout)["packages"] == 2
    off = run.invoke(cli, ["deps", "--off", str(project), *options])
    assert "no longer indexed" in off.output
    assert json.loads(run.invoke(cli, status).stdout)["packages"] is None
