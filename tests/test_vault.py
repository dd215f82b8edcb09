"""A vault's tags, properties, inline fields and days are filters, wherever a filter is taken."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lookfar.errors import InvalidArgument
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.serve.cli.main import cli

pytestmark = pytest.mark.usefixtures("own_home")

NOTES = {
    "Alpha.md": "---\nstatus: Active\ndue: 2026-12-01\npriority: 3\ndone: false\naliases: [First]\n"
    'tags: [Project/Alpha, deep]\nup: "[[Home|home]]"\npeople: [Ada, "[[Bob]]"]\nempty:\n---\n'
    "# Alpha\n\nThe harbour plan of the alpha team.\n",
    "Beta.md": "---\nstatus: done\ndue: 2026-11-20T10:30\npriority: 10\n"
    "tags: 'project/beta, #Deep'\n---\n# Beta\n\nThe harbour plan of the beta team.\n",
    "Fields.md": "# Fields\n\n- **Due Date**:: 2026-11-20\n- status:: active\n\n"
    "We rate it [rating:: 4.5] today.\n\n```\nsecret:: no\n```\n\nA harbour. #projects\n",
    "Daily/2026-11-10.md": "# Tuesday\n\nStandup at the harbour.\n",
    "Daily/2026_11_17.md": "# Tuesday after\n\nStandup at the harbour again.\n",
    "Old.md": "---\ndate: 2020-05-01\n---\n# Old\n\nAn old harbour.\n",
    "plain.md": "# Plain\n\nA harbour without any property.\n",
}


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    for name, text in NOTES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        seconds = ns("2026-11-15T12:00") // 10**9
        os.utime(path, (seconds, seconds))
    return folder


@pytest.fixture
def library(vault: Path, tmp_path: Path) -> Iterator[Library]:
    settings = {
        "embed.provider": "hash",
        "index.workers": 1,
        "memory.dir": str(tmp_path / "memory"),
    }
    with Library.open(vault, index_dir=tmp_path / "index", settings=settings) as opened:
        opened.index()
        yield opened


def stems(library: Library, **filters: Any) -> set[str]:
    """Return the notes that filters admit, the same whether listed, searched or matched."""
    wanted = Filters(**filters)
    listed = {Path(item.uri).stem for item in library.list_documents(wanted).documents}
    found = {Path(hit.uri).stem for hit in library.search("harbour", filters=wanted, top_k=50).hits}
    matched = {Path(file.uri).stem for file in library.grep("harbour", filters=wanted).files}
    assert found == matched == listed, (filters, found, matched, listed)
    return listed


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("status=active", {"Alpha", "Fields"}),
        ("STATUS = 'ACTIVE'", {"Alpha", "Fields"}),
        ("status!=active", {"Beta", "2026-11-10", "2026_11_17", "Old", "plain"}),
        ("nothing!=here", {Path(name).stem for name in NOTES}),
        ("status>b", {"Beta"}),
        ("priority=3", {"Alpha"}),
        ("priority>3", {"Beta"}),
        ("priority<=10.0", {"Alpha", "Beta"}),
        ('priority="10"', {"Beta"}),
        ("priority<a", set()),
        ("done=false", {"Alpha"}),
        ("due<2026-12-01", {"Beta"}),
        ("due<=2026-12-01", {"Alpha", "Beta"}),
        ("due=2026-11-20", {"Beta"}),
        ("due>2026-11-20", {"Alpha"}),
        ("due=2026-11", {"Beta"}),
        ("due>=2026-W47", {"Alpha", "Beta"}),
        ("due date=2026-11-20", {"Fields"}),
        ("due-date<2026-12", {"Fields"}),
        ("rating>4", {"Fields"}),
        ("has:aliases", {"Alpha"}),
        ("missing:status", {"2026-11-10", "2026_11_17", "Old", "plain"}),
        ("has:empty", set()),
        ("has:secret", set()),
        ("up=home", {"Alpha"}),
        ("up=[[Home]]", {"Alpha"}),
        ("people=bob", {"Alpha"}),
        ("people=ada", {"Alpha"}),
        ("people!=ada", {Path(name).stem for name in NOTES} - {"Alpha"}),
        ("tags=deep", {"Alpha"}),
        ("file.day=2026-11-10", {"2026-11-10"}),
        ("has:file.day", {"2026-11-10", "2026_11_17", "Old"}),
        ("nothing=here", set()),
    ],
)
def test_condition(library: Library, where: str, expected: set[str]) -> None:
    assert stems(library, where=(where,)) == expected


def test_all_conditions_hold_and_other_filters_too(library: Library) -> None:
    assert stems(library, where=("status=active", "has:due")) == {"Alpha"}
    assert stems(library, where=("has:due",), tags=("deep",)) == {"Alpha", "Beta"}
    assert stems(library, where=("has:due",), glob="B*") == {"Beta"}


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("project", {"Alpha", "Beta"}),
        ("#PROJECT/alpha/", {"Alpha"}),
        ("Deep", {"Alpha", "Beta"}),
        ("projects", {"Fields"}),
        ("proj", set()),
        ("alpha", set()),
    ],
)
def test_tags_are_those_of_obsidian(library: Library, tag: str, expected: set[str]) -> None:
    assert stems(library, tags=(tag,)) == expected


def test_notes_about_a_day_are_in_a_window_by_that_day(library: Library) -> None:
    """All files were modified on November 15; fails if that counts for a daily note."""
    modified = {"Alpha", "Beta", "Fields", "plain"}
    assert stems(library, after=ns("2026-11-11")) == modified | {"2026_11_17"}
    assert stems(library, after=ns("2026-11-10"), before=ns("2026-11-11")) == {"2026-11-10"}
    assert stems(library, before=ns("2026-11-11")) == {"2026-11-10", "Old"}
    assert stems(library, after=ns("2026-11-16")) == {"2026_11_17"}


def test_the_newest_are_listed_first(library: Library) -> None:
    """A note about a day counts by that day; fails if all count by their modification."""
    answer = library.search("", filters=Filters(glob="**"), top_k=20)
    order = [Path(document.uri).stem for document in answer.documents]
    assert (order[0], order[-2:]) == ("2026_11_17", ["2026-11-10", "Old"])
    assert [document.day for document in answer.documents][-1] == "2020-05-01"


def test_tags_and_properties_are_counted(library: Library, vault: Path) -> None:
    tags = {count.tag: (count.documents, count.own) for count in library.tags()}
    assert tags == {
        "deep": (2, 2), "Project": (2, 0), "Project/Alpha": (1, 1), "project/beta": (1, 1),
        "projects": (1, 1),
    }  # fmt: skip
    properties = {item.name: item for item in library.properties()}
    assert properties["status"].documents == 3
    assert properties["status"].values == (("Active", 2), ("done", 1))
    assert properties["due"].types == ("date", "datetime")
    assert set(properties["people"].types) == {"text", "link"}
    assert "empty" not in properties
    assert not any(name.startswith("file.") for name in properties)
    (vault / "Beta.md").unlink()
    library.index()
    properties = {item.name: item for item in library.properties()}
    assert (properties["status"].documents, properties["status"].values) == (2, (("Active", 2),))
    assert {count.tag for count in library.tags()} == {
        "deep", "Project", "Project/Alpha", "projects",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("where", "note"),
    [
        ("due<soon-ish", "the values of due are dates, which 'soon-ish' does not compare with"),
        ("due=never", "write due=2026-12-01"),
        ("priority>high", "the values of priority are numbers"),
        ("done<x", "write done=true"),
        ("status<5", 'write status<"TEXT"'),
        ("statsu=active", "no document has the property statsu; nearest: status"),
        ("has:dew", "no document has the property dew; nearest: due"),
    ],
)
def test_a_condition_that_nothing_can_meet_says_why(
    library: Library, where: str, note: str
) -> None:
    wanted = Filters(where=(where,))
    for incomplete in (
        library.search("harbour", filters=wanted).incomplete,
        library.list_documents(wanted).incomplete,
        library.grep("harbour", filters=wanted).incomplete,
    ):
        assert any(note in str(item) for item in incomplete), incomplete


@pytest.mark.parametrize(
    "where",
    ["status=nobody", "due<1990", "priority>50", "people>zz", 'due<"2000"', "file.day<1990"],
)
def test_a_condition_that_compares_has_no_such_note(library: Library, where: str) -> None:
    """Fails if the note is given whenever nothing is found."""
    assert library.list_documents(Filters(where=(where,))).incomplete == ()


@pytest.mark.parametrize("value", ["last week", 1.5, True])
def test_python_names_its_own_time_argument(library: Library, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"Filters\.after must be a time in nanoseconds"):
        library.search("harbour", filters=Filters(after=value))
    with pytest.raises(InvalidArgument, match=r"Filters\.before must be a time in nanoseconds"):
        library.history(filters=Filters(before=value))


def test_an_edit_changes_what_matches(library: Library, vault: Path) -> None:
    (vault / "Beta.md").write_text("---\nstatus: active\n---\n# Beta\n\nThe harbour.\n")
    (vault / "Alpha.md").unlink()
    library.index()
    assert stems(library, where=("status=active",)) == {"Beta", "Fields"}
    assert stems(library, where=("status=done",)) == set()
    assert library.verify() == []


def test_a_condition_in_words_is_read_at_the_time_of_the_question(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the cached answer of yesterday is given."""
    for now, expected in (("2026-12-01", {"Alpha"}), ("2026-12-02", set())):
        clock = datetime.fromisoformat(f"{now}T08:00:00")
        monkeypatch.setattr("lookfar.common.conditions.local_now", lambda clock=clock: clock)
        assert stems(library, where=("due=today",)) == expected


def test_a_malformed_condition_is_refused_before_any_work(vault: Path, tmp_path: Path) -> None:
    settings = {"embed.provider": "hash"}
    with (
        Library.open(vault, index_dir=tmp_path / "none", settings=settings) as library,
        pytest.raises(InvalidArgument, match="no operator"),
    ):
        library.search("harbour", filters=Filters(where=("status",)))
    assert not (tmp_path / "none").exists()


def test_the_command_takes_conditions_and_words(vault: Path, tmp_path: Path) -> None:
    run = CliRunner()
    common = ["--path", str(vault), "--index-dir", str(tmp_path / "index"), "--set",
              "embed.provider=hash", "--json"]  # fmt: skip
    done = run.invoke(cli, ["search", "--where", "status=done", *common])
    assert done.exit_code == 0, done.output
    assert '"Beta.md"' in done.stdout
    assert '"Alpha.md"' not in done.stdout
    since = run.invoke(cli, ["search", "standup", "--since", "2026-W47", *common])
    assert '"Daily/2026_11_17.md"' in since.stdout
    assert '"Daily/2026-11-10.md"' not in since.stdout
    refused = run.invoke(cli, ["search", "--where", "status", *common])
    assert refused.exit_code == 2
    assert "has:status" in refused.output
    nothing = run.invoke(cli, ["search", *common])
    assert nothing.exit_code == 2
    assert "--tag" in nothing.output


def test_generations_are_listed_by_date(vault: Path, tmp_path: Path) -> None:
    run = CliRunner()
    common = ["--index-dir", str(tmp_path / "index"), "--set", "embed.provider=hash", "--json"]
    assert run.invoke(cli, ["index", str(vault), *common]).exit_code == 0
    numbers = {}
    for day in ("today", "tomorrow"):
        listed = run.invoke(cli, ["snapshots", "list", str(vault), "--since", day, *common])
        assert listed.exit_code == 0, listed.output
        numbers[day] = [made["generation"] for made in json.loads(listed.stdout)["snapshots"]]
    assert numbers == {"today": [1], "tomorrow": []}


def test_tags_and_properties_are_commands(vault: Path, tmp_path: Path) -> None:
    run = CliRunner()
    common = ["--index-dir", str(tmp_path / "index"), "--set", "embed.provider=hash"]
    tags = run.invoke(cli, ["tags", str(vault), *common])
    assert "#Project  " in tags.stdout
    listed = run.invoke(cli, ["properties", str(vault), *common, "--json"])
    status = next(p for p in json.loads(listed.stdout)["properties"] if p["name"] == "status")
    assert status["values"][0] == {"value": "Active", "count": 2}
