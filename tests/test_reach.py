"""What somebody who may reach some collections finds of repositories and memories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import LookfarError, NotFound
from lookfar.library import Library
from lookfar.model import Filters
from outside.installed import install_python

pytestmark = pytest.mark.usefixtures("own_home")

HASH = {"embed.provider": "hash", "index.workers": 1, "git.cool_down_seconds": 0}
COMMITS = Filters(lanes=("commits",))


def test_a_repository_around_several_folders_is_not_that_of_one(
    repository: Callable[..., Any], tmp_path: Path
) -> None:
    """Seen to fail when who might reach one folder was told of commits to the other."""
    repo = repository("project")
    vault = {"secret/vault.md": "# Vault\n\nThe password is swordfish.\n"}
    made = repo.commit("Change the password", vault | {"docs/guide.md": "# Guide\n"})
    folders = (repo.path / "docs", repo.path / "secret")
    with Library.open(*folders, index_dir=tmp_path / "index", settings=HASH) as library:
        assert "Change the password" in [
            e.title for e in library.search("password", filters=COMMITS).hits
        ]
        docs = library.only(["docs"])
        assert docs.histories() == {}
        assert docs.search("password", filters=COMMITS).hits == ()
        assert {each.collection for each in docs.listed()} <= {"docs"}
        for target in (made, f"lookfar://docs@git/{made}"):
            with pytest.raises(LookfarError):
                docs.read(target)
        assert list(library.only(["docs", "docs@git"]).histories()) == ["docs@git"]
    with Library.open(repo.path, index_dir=tmp_path / "index", settings=HASH) as whole:
        assert list(whole.only(["project"]).histories()) == ["project@git"], "it is all of it"


def test_memories_of_the_user_are_reached_by_their_name(tmp_path: Path) -> None:
    """Seen to fail when only searches asked whether they are."""
    root = tmp_path / "docs"
    root.mkdir()
    settings = HASH | {"memory.scope": "user", "memory.dir": str(tmp_path / "memory")}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        _, made = library.remember("The password is swordfish.", title="Vault")
        docs = library.only(["docs"])
        assert docs.memories() == {}
        with pytest.raises(NotFound, match="token"):
            docs.notebook()
        with pytest.raises(NotFound, match="token"):
            docs.remember("Another.", title="Vault")
        reached = library.only(["docs", "user@memory"])
        assert "swordfish" in reached.notebook().read(made.name).text


def test_packages_are_reached_through_the_projects_that_use_them(tmp_path: Path) -> None:
    """Seen to fail when every package on the machine could be read by its name."""
    for folder, package in (("docs", "lamplib"), ("secret", "vaultlib")):
        install_python(tmp_path / folder, package, "1.0", {f"{package}.py": "def turn(): ...\n"})
        (tmp_path / folder / "guide.md").write_text("# Guide\n", encoding="utf-8")
    folders = (tmp_path / "docs", tmp_path / "secret")
    with Library.open(*folders, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index(collection="docs")
        library.outside.packages()
        assert "turn" in library.read("lookfar://vaultlib-1.0@pypi/vaultlib.py").text
        docs = library.only(["docs"])
        assert "turn" in docs.read("lookfar://lamplib-1.0@pypi/lamplib.py").text
        with pytest.raises(NotFound, match="token"):
            docs.read("lookfar://vaultlib-1.0@pypi/vaultlib.py")
        with pytest.raises(NotFound, match="not on this machine") as refused:
            docs.read("vaultlib 1.0..2.0")
        assert refused.value.details["candidates"] == []
        named = library.only(["docs", "vaultlib-1.0@pypi"])
        assert "turn" in named.read("lookfar://vaultlib-1.0@pypi/vaultlib.py").text
