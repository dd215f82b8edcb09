"""Sources that a project's lookfar.toml names: listed, confirmed, fetched; never by themselves.

Seen to fail when ``_find_state`` compared the name of an entry without its hash (a changed entry
did not ask again), and when ``lower_limits`` took the limit of the entry as it was.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lookfar import config
from lookfar.errors import InvalidConfig, NotFound, PermissionDenied
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.serve.cli.main import cli
from outside.served_site import Site, serve_site

pytestmark = pytest.mark.usefixtures("own_home")

SETTINGS = {"embed.provider": "hash", "outside.pause_ms": 0, "outside.allow_private": True}
SOURCES = Filters(kinds=("sources",))
OPTIONS = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}".lower())]


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as served:
        links = tuple(f"page{number}" for number in range(5))
        served.html("/docs/", "Start", "The lamp turns.", links)
        for link in links:
            served.html(f"/docs/{link}", link, f"The lamp of {link} turns.")
        yield served


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "own.md").write_text("# Own\n\nText of the project.\n", encoding="utf-8")
    return folder


def _name(project: Path, origin: str, name: str = "manual", more: str = "") -> None:
    text = f"[outside.named.{name}]\norigin = {json.dumps(origin)}\n{more}"
    (project / "lookfar.toml").write_text(text, encoding="utf-8")


def _states(library: Library) -> dict[str, str]:
    return {status.source.name: status.state for status in library.outside.list_named()}


def test_nothing_is_fetched_until_the_user_confirms(
    project: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    _name(project, f"{site.address}/docs/")
    real = socket.socket.connect

    def connect(*_: Any) -> None:
        raise AssertionError("a request was made")

    monkeypatch.setattr(socket.socket, "connect", connect)
    with Library.open(project, settings=SETTINGS) as library:
        library.index()
        library.search("lamp", sources=True)
        note = library.search("lamp", filters=SOURCES).incomplete[0]
        assert note.reason == "no_source"
        assert "manual; run: lookfar add --named" in note.detail
        assert library.statuses()[0].named_sources == ("manual",)
        assert _states(library) == {"manual": "missing"}
        assert library.outside.update() == []
    assert not site.seen
    monkeypatch.setattr(socket.socket, "connect", real)
    with Library.open(project, settings=SETTINGS) as library:
        library.outside.add_named(library.outside.get_named("manual"))
        assert _states(library) == {"manual": "added"}
        assert library.statuses()[0].named_sources == ()
        assert library.search("lamp turns", sources=True).hits[0].collection == "manual@source"
        with pytest.raises(NotFound, match="names a source"):
            library.outside.get_named("other")


def test_a_changed_entry_asks_again_and_replaces_what_it_named(project: Path, site: Site) -> None:
    _name(project, f"{site.address}/docs/page0", more="only_page = true\n")
    with Library.open(project, settings=SETTINGS) as library:
        library.outside.add_named(library.outside.get_named("manual"))
        _name(project, f"{site.address}/docs/page1", more="only_page = true\n")
        status = library.outside.get_named("manual")
        assert (status.state, status.previous) == ("changed", f"{site.address}/docs/page0")
        assert site.seen["/docs/page1"] == 0
        library.outside.add_named(status)
        assert [source.origin for source in library.outside.list_all()] == [
            f"{site.address}/docs/page1"
        ]
        # Another limit is another entry, too.
        _name(project, f"{site.address}/docs/page1", more="only_page = true\nmax_files = 9\n")
        assert _states(library) == {"manual": "changed"}


def test_limits_can_only_be_lower_than_the_users(project: Path, site: Site) -> None:
    _name(project, f"{site.address}/docs/", more="max_pages = 2\npin = true\n")
    settings = {**SETTINGS, "outside.max_pages": 4}
    with Library.open(project, settings=settings) as library:
        change = library.outside.add_named(library.outside.get_named("manual"))
        assert len(change.added) == 2
        assert library.outside.get("manual").pinned
        _name(project, f"{site.address}/docs/", more="max_pages = 1000000\n")
        change = library.outside.add_named(library.outside.get_named("manual"))
        assert change.source.files == 4
        assert not library.outside.get("manual").pinned


def test_a_source_that_is_stored_is_shared_without_a_request(
    project: Path, site: Site, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("# A\n", encoding="utf-8")
    with Library.open(other, settings=SETTINGS) as library:
        library.outside.add(f"{site.address}/docs/", name="lamps")
    seen = site.seen.copy()
    _name(project, f"{site.address}/docs/", more="max_pages = 1\n")
    with Library.open(project, settings=SETTINGS) as library:
        change = library.outside.add_named(library.outside.get_named("manual"))
        assert change.source.name == "lamps@source"
        assert site.seen == seen
        # The limit of the entry does not shrink what the user added without one.
        assert library.outside.get("lamps").options == {}
        assert library.search("lamp", sources=True).hits[0].collection == "lamps@source"
        _name(project, f"{site.address}/docs/page3")
        library.outside.add_named(library.outside.get_named("manual"))
        assert len(library.outside.get("lamps").folders) == 1
    # The same name for another origin gets a longer one.
    _name(other, f"{site.address}/docs/page2")
    with Library.open(other, settings=SETTINGS) as library:
        name = library.outside.add_named(library.outside.get_named("manual")).source.name
        assert name.startswith("manual-")


def test_what_a_changed_entry_leaves_stays_where_something_needs_it(
    project: Path, site: Site
) -> None:
    first, second = (f"{site.address}/docs/page{number}" for number in (0, 1))
    only_page = "only_page = true\n"
    again = f'[outside.named.again]\norigin = "{first}"\n{only_page}'
    _name(project, first, more=only_page + again)
    with Library.open(project, settings=SETTINGS) as library:
        for name in ("manual", "again"):
            library.outside.add_named(library.outside.get_named(name))
        stored = library.outside.get("manual")
        _name(project, second, name="again", more=only_page)
        library.outside.add_named(library.outside.get_named("again"))
        # Without folders, every other project would search it, too.
        assert (
            library.outside.get("manual").folders == stored.folders == (os.path.realpath(project),)
        )


def test_a_changed_entry_does_not_remove_what_the_user_added(project: Path, site: Site) -> None:
    with Library.open(project, settings=SETTINGS) as library:
        library.outside.add(f"{site.address}/docs/", name="lamps")
        _name(project, f"{site.address}/docs/")
        library.outside.add_named(library.outside.get_named("manual"))
        _name(project, f"{site.address}/docs/page1", more="only_page = true\n")
        library.outside.add_named(library.outside.get_named("manual"))
        assert library.outside.get("lamps").folders == (os.path.realpath(project),)


def test_an_entry_does_not_replace_what_the_user_added_under_its_name(
    project: Path, site: Site
) -> None:
    with Library.open(project, settings=SETTINGS) as library:
        whole = library.outside.add(f"{site.address}/docs/", name="manual", everywhere=True).source
        _name(project, whole.origin, more="only_page = true\n")
        page = library.outside.add_named(library.outside.get_named("manual")).source
        assert page.name.startswith("manual-")
        kept = library.outside.get("manual")
        assert (kept.files, kept.folders, kept.options) == (whole.files, (), {})
        assert page.files == 1
        # What was fetched for the entry alone is replaced under its own name.
        library.outside.remove("manual")
        library.outside.remove(page.name)
        library.outside.add_named(library.outside.get_named("manual"))
        _name(project, whole.origin)
        again = library.outside.add_named(library.outside.get_named("manual")).source
        assert (again.name, again.files) == ("manual@source", whole.files)


def test_an_entry_that_cannot_be_fetched_does_not_stop_the_others(
    project: Path, site: Site
) -> None:
    second = f'[outside.named.manual]\norigin = "{site.address}/docs/"\n'
    _name(project, f"{site.address}/gone/", name="gone", more=second)
    done = CliRunner().invoke(cli, ["add", "--named", str(project), "--yes", *OPTIONS])
    assert done.exit_code == 8, done.output
    assert "manual@source: 6 added" in done.stdout
    assert "not fetched: No page of" in done.stderr
    assert "0 fetched" not in done.stderr
    assert f"Fetching: {site.address}/" in done.stderr
    with Library.open(project, settings=SETTINGS) as library:
        assert _states(library) == {"gone": "missing", "manual": "added"}


def test_an_archive_inside_the_project_can_be_named(project: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(project / "manual.zip", "w") as archive:
        archive.writestr("keys.md", "# Keys\n\nRotate the signing key.\n")
    _name(project, "manual.zip")
    with Library.open(project, settings=SETTINGS) as library:
        status = library.outside.get_named("manual")
        assert library.outside.add_named(status).added == ("keys.md",)
        # An archive that became a link to another place is not read again.
        (project / "manual.zip").rename(tmp_path / "secret.zip")
        (project / "manual.zip").symlink_to(tmp_path / "secret.zip")
        with pytest.raises(PermissionDenied, match="link to another place"):
            library.outside.update(["manual"])
        library.outside.remove("manual")
        with pytest.raises(PermissionDenied, match="not inside the project"):
            library.outside.add_named(status)


def test_an_archive_with_another_name_outside_the_project_is_refused(
    project: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "secret.zip", "w") as archive:
        archive.writestr("keys.md", "# Keys\n\nRotate the signing key.\n")
    os.link(tmp_path / "secret.zip", project / "manual.zip")
    _name(project, "manual.zip")
    with Library.open(project, settings=SETTINGS) as library:
        status = library.outside.get_named("manual")
        with pytest.raises(PermissionDenied, match="hard links"):
            library.outside.add_named(status)
        (project / "manual.zip").unlink()
        shutil.copy(tmp_path / "secret.zip", project / "manual.zip")
        assert library.outside.add_named(status).added == ("keys.md",)
        (project / "manual.zip").unlink()
        os.link(tmp_path / "secret.zip", project / "manual.zip")
        with pytest.raises(PermissionDenied, match="hard links"):
            library.outside.update(["manual"])


@pytest.mark.parametrize(
    "origin",
    [
        "/etc", "/etc/x.zip", "~/x.zip", "../x.zip", "a/../../x.zip", "docs", "C:\\x.zip",
        "file:///etc/passwd", "git+file:///etc", "git+ssh://host/x", "ftp://host/x.zip", "https://",
        "https://me:secret@host/", "http://me@host/x", "git+ext::sh", "", "https://host/a b",
    ],
)  # fmt: skip
def test_an_entry_names_no_other_place_on_this_machine(project: Path, origin: str) -> None:
    _name(project, origin)
    with pytest.raises(InvalidConfig, match=r"outside\.named\.manual"):
        config.load(project)


@pytest.mark.parametrize(
    "text",
    [
        "[outside]\nnamed = 1\n",
        "[outside.named]\nmanual = 'https://host/'\n",
        "[outside.named.manual]\norigin = 1\n",
        "[outside.named.manual]\norigin = 'https://host/'\nallow_private = true\n",
        "[outside.named.manual]\norigin = 'https://host/'\nconfirmed = true\n",
        "[outside.named.manual]\norigin = 'https://host/'\nmax_pages = 0\n",
        "[outside.named.manual]\norigin = 'https://host/'\nmax_pages = true\n",
        "[outside.named.manual]\norigin = 'https://host/'\nmax_bytes = 'all'\n",
        "[outside.named.manual]\norigin = 'https://host/'\npin = 'yes'\n",
        "[outside.named.'../x']\norigin = 'https://host/'\n",
        "".join(f"[outside.named.n{number}]\norigin = 'https://host/'\n" for number in range(51)),
        "[outside]\nallow_private = true\n[outside.named.manual]\norigin = 'https://host/'\n",
    ],
)
def test_a_hostile_entry_is_rejected(project: Path, text: str) -> None:
    (project / "lookfar.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfig):
        config.load(project)
    assert config.find_problems(text, project / "lookfar.toml", project=True)


def test_only_a_project_names_sources(tmp_path: Path) -> None:
    text = "[outside.named.manual]\norigin = 'https://host/'\n"
    problems = config.find_problems(text, tmp_path / "config.toml")
    assert "only a project's file" in problems[0].message


def test_the_commands(project: Path, site: Site) -> None:
    _name(project, f"{site.address}/docs/", more="max_bytes = '1MB'\n")
    run = CliRunner()
    listed = run.invoke(cli, ["sources", "list", str(project), *OPTIONS])
    assert "1 source named in lookfar.toml not fetched yet: manual" in listed.output
    status = run.invoke(cli, ["status", str(project), *OPTIONS])
    assert "run: lookfar add --named" in status.output
    refused = run.invoke(cli, ["add", "--named", str(project), *OPTIONS])
    assert refused.exit_code != 0
    assert f"manual: {site.address}/docs/" in refused.stderr
    assert "at most 1,048,576 bytes" in refused.stderr
    assert not site.seen
    added = run.invoke(cli, ["add", "--named", str(project), "--yes", *OPTIONS])
    assert "manual@source: 6 added" in added.output
    again = run.invoke(cli, ["add", "--named", str(project), *OPTIONS])
    assert "still have to be fetched" in again.output
    rows = json.loads(run.invoke(cli, ["sources", "list", str(project), "--json", *OPTIONS]).stdout)
    assert [row["state"] for row in rows["named"]] == ["added"]
    for words in (["add"], ["add", "--named", "--name", "x", str(project)]):
        assert run.invoke(cli, [*words, *OPTIONS]).exit_code != 0
