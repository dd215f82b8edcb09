"""The tools msrl.doc.*, driven by a real client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from lookfar.library import Library
from lookfar.serve.tools.tool import MOST_TOKENS, Session, offered
from lookfar.serve.toolsets.common import count_tokens
from lookfar.serve.toolsets.msrl import TOOLS

TOOLSET = "msrl"
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]
Unmet = Callable[..., list[str]]

INFRA = """---
tags: [ops]
---

# Infra

What runs where.

## Kubernetes

Two clusters.

### k3s

The small one.

## A > B Comparison

An okapi compares.

## Backups

Every night.
"""
WRITING = {
    "msrl.doc.auto_fix": {"doc_uri": "broken.md"},
    "msrl.doc.create": {"doc_uri": "new.md", "title": "New"},
    "msrl.doc.insert_section": {
        "doc_uri": "infra.md", "parent_heading_path": "Infra", "heading": "DNS",
        "content_md": "Names.",
    },
    "msrl.doc.replace_section": {
        "doc_uri": "infra.md", "heading_path": "Infra → Backups", "content_md": "Hourly.",
    },
    "msrl.doc.append_to_section": {
        "doc_uri": "infra.md", "heading_path": "Infra → Backups", "content_md": "And on paper.",
    },
    "msrl.doc.move_section": {
        "doc_uri": "infra.md", "from_heading_path": "Infra → Kubernetes → k3s",
        "to_parent_heading_path": "Infra → Backups",
    },
}  # fmt: skip
BROKEN = "# Top\n\n### Jump\n\nText.\n\n## Twin\n\n## Twin\n\n# Second\n"


@pytest.fixture
def session(library: Library) -> Session:
    return Session(library, write=True)


@pytest.fixture(autouse=True)
def vault(put: Put, library: Library) -> None:
    """Some notes, indexed."""
    put({"infra.md": INFRA, "broken.md": BROKEN, "links.md": "See [[infra#k3s]].\n"})
    for name in library.collections:
        library.folder(name).index()


@pytest.fixture
def text(docs: Path) -> Callable[[str], str]:
    return lambda uri: (docs / uri).read_text(encoding="utf-8")


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def details(shape: dict[str, Any], code: str) -> dict[str, Any]:
    assert shape["code"] == code, shape
    assert set(shape) <= {"code", "message", "details"}
    found: dict[str, Any] = shape.get("details", {})
    return found


# --- validate and auto_fix ----------------------------------------------------------------------


def test_violations_say_where_what_and_how_to_mend_it(ask: Ask, unmet: Unmet, docs: Path) -> None:
    before = contents(docs)
    clean = ask("msrl.doc.validate", doc_uri="infra.md")
    assert clean == {"ok": True, "violations": []}
    shape = ask("msrl.doc.validate", doc_uri="broken.md")
    assert shape["ok"] is False
    assert [(each["rule"], each["startLine"]) for each in shape["violations"]] == [
        ("heading-jump", 3),
        ("duplicate-sibling", 9),
    ]
    assert shape["violations"][0]["suggestedFix"] == "Make it level 2."
    assert "'Jump' has level 3" in shape["violations"][0]["message"]
    assert shape["violations"][0]["endLine"] == 3
    assert not unmet("msrl", "msrl.doc.validate", clean, shape)
    assert contents(docs) == before


SINGLE = {"embed.provider": "hash", "index.workers": 1, "edit.single_h1": True}


@pytest.mark.parametrize("settings", [SINGLE])
def test_a_second_heading_of_level_1_is_a_violation_where_that_is_a_rule(ask: Ask) -> None:
    shape = ask("msrl.doc.validate", doc_uri="broken.md")
    assert [each["rule"] for each in shape["violations"]][-1] == "multiple-h1"
    assert ask("msrl.doc.auto_fix", doc_uri="broken.md")["violations"] == []
    assert ask("msrl.doc.validate", doc_uri="broken.md")["ok"]


def test_fixable_violations_are_fixed(ask: Ask, text: Callable[[str], str]) -> None:
    fixed = ask("msrl.doc.auto_fix", doc_uri="broken.md")
    assert (fixed["changed"], fixed["violations"]) == (True, [])
    assert "+## Jump\n" in fixed["diff"]
    assert text("broken.md") == BROKEN.replace("### Jump", "## Jump").replace(
        "## Twin\n\n# Second", "## Twin (2)\n\n# Second"
    )
    assert ask("msrl.doc.validate", doc_uri="broken.md")["ok"]
    again = ask("msrl.doc.auto_fix", doc_uri="broken.md")
    assert (again["changed"], again["diff"]) == (False, "")


def test_many_violations_are_cut_and_that_is_said(ask: Ask, put: Put) -> None:
    put({"many.md": "# Top\n\n" + "## Twin of a heading with a long title\n\n" * 2000})
    shape = ask("msrl.doc.validate", doc_uri="many.md")
    assert not shape["ok"]
    assert 100 < len(shape["violations"]) < 1999
    assert "of 1999 violations are given" in shape["note"]
    assert count_tokens(shape) <= MOST_TOKENS


# --- create -------------------------------------------------------------------------------------


def test_a_document_is_created(ask: Ask, text: Callable[[str], str]) -> None:
    made = ask("msrl.doc.create", doc_uri="deep/new.md", title="Zebras")
    assert (made["docUri"], made["changed"]) == ("deep/new.md", True)
    assert text("deep/new.md") == "# Zebras\n"
    assert uris(ask, "zebras") == ["deep/new.md"]


def test_from_a_template(ask: Ask, refused: Ask, docs: Path, text: Callable[[str], str]) -> None:
    ask("msrl.doc.create", doc_uri="adr.md", title="Use zebras", template_id="decision")
    assert "# Use zebras\n\n## Context\n" in text("adr.md")
    before = contents(docs)
    error = refused("msrl.doc.create", doc_uri="x.md", title="X", template_id="nope")
    found = details(error, "INVALID_ARGUMENT")
    assert (found["field"], found["value"]) == ("template_id", "nope")
    assert "decision" in found["validOptions"]
    assert contents(docs) == before


def test_an_existing_file_is_overwritten_only_on_request(
    ask: Ask, refused: Ask, text: Callable[[str], str]
) -> None:
    error = refused("msrl.doc.create", doc_uri="infra.md", title="Infra")
    assert details(error, "INVALID_ARGUMENT")["field"] == "doc_uri"
    assert "already" in error["message"]
    assert text("infra.md") == INFRA
    ask("msrl.doc.create", doc_uri="infra.md", title="Anew", overwrite=True)
    assert text("infra.md") == "# Anew\n"


# --- sections -----------------------------------------------------------------------------------


def uris(ask: Ask, query: str) -> list[str]:
    found = ask("msrl.query", query=query)["results"]
    return [each["doc_uri"] for each in found if query in each["excerpt"].lower()]


def test_a_section_is_inserted(ask: Ask, text: Callable[[str], str]) -> None:
    done = ask(
        "msrl.doc.insert_section",
        doc_uri="infra.md",
        parent_heading_path="Infra → Kubernetes",
        heading="k8s",
        content_md="The large zebra.",
    )
    assert done["headingPath"] == "Infra → Kubernetes → k8s"
    assert text("infra.md") == INFRA.replace(
        "The small one.\n", "The small one.\n\n### k8s\n\nThe large zebra.\n"
    )
    assert text("infra.md").split("\n")[done["startLine"] - 1] == "### k8s"
    assert uris(ask, "zebra") == ["infra.md"]


def test_at_another_level(ask: Ask, refused: Ask, text: Callable[[str], str]) -> None:
    given = {"doc_uri": "infra.md", "heading": "Deep", "content_md": ""}
    path = {"parent_heading_path": "Infra → Backups"}
    done = ask("msrl.doc.insert_section", **given, **path, level=4)
    assert text("infra.md") == INFRA + "\n#### Deep\n"
    assert [each["rule"] for each in done["violations"]] == ["heading-jump"]
    error = refused("msrl.doc.insert_section", **given, **path, level=2)
    assert "Level 2 is not between 3 and 6" in error["message"]


def test_a_section_is_replaced_and_its_subsections_stay(
    ask: Ask, text: Callable[[str], str]
) -> None:
    ask(
        "msrl.doc.replace_section",
        doc_uri="infra.md",
        heading_path="Infra → Kubernetes",
        content_md="Three zebras.\n",
    )
    assert text("infra.md") == INFRA.replace("Two clusters.", "Three zebras.")
    assert uris(ask, "zebras") == ["infra.md"]


def test_appended_text_precedes_the_subsections(ask: Ask, text: Callable[[str], str]) -> None:
    ask(
        "msrl.doc.append_to_section",
        doc_uri="infra.md",
        heading_path="Infra → Kubernetes",
        content_md="And a zebra.",
    )
    assert text("infra.md") == INFRA.replace("Two clusters.\n", "Two clusters.\n\nAnd a zebra.\n")
    assert uris(ask, "zebra") == ["infra.md"]


def test_a_section_is_moved_with_what_is_below_it(ask: Ask, text: Callable[[str], str]) -> None:
    done = ask(
        "msrl.doc.move_section",
        doc_uri="infra.md",
        from_heading_path="Infra → Kubernetes",
        to_parent_heading_path="Infra → Backups",
    )
    assert done["headingPath"] == "Infra → Backups → Kubernetes"
    heads = [line for line in text("infra.md").split("\n") if line.startswith("#")]
    assert heads == [
        "# Infra", "## A > B Comparison", "## Backups", "### Kubernetes", "#### k3s",
    ]  # fmt: skip


def test_links_that_no_longer_resolve_are_reported(ask: Ask, text: Callable[[str], str]) -> None:
    done = ask(
        "msrl.doc.create", doc_uri="infra.md", title="Infra", overwrite=True
    )  # fmt: skip
    assert "links.md, line 1" in done["note"]
    assert "'Infra → Kubernetes → k3s'" in done["note"]
    assert text("links.md") == "See [[infra#k3s]].\n"


def test_a_long_diff_is_cut(ask: Ask, text: Callable[[str], str]) -> None:
    path = {"doc_uri": "infra.md", "heading_path": "Infra → Backups"}
    done = ask("msrl.doc.append_to_section", **path, content_md="Zebras. " * 40_000)
    assert done["truncated"] is True
    assert count_tokens(done) <= MOST_TOKENS
    assert text("infra.md").count("Zebras.") == 40_000


# --- heading paths ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("Infra → A > B Comparison", "An okapi compares."),
        ("Infra  →  Backups", "Every night."),
        ("Infra → Kubernetes → k3s", "The small one."),
        ("Infra → Both \\→ ways", "With an arrow."),
        ("Infra → Close→by", "Without spaces."),
    ],
)
def test_paths_are_matched_title_by_title(
    ask: Ask, put: Put, text: Callable[[str], str], path: str, meant: str
) -> None:
    whole = INFRA + "\n## Both → ways\n\nWith an arrow.\n\n## Close→by\n\nWithout spaces.\n"
    put({"infra.md": whole})
    done = ask(
        "msrl.doc.replace_section", doc_uri="infra.md", heading_path=path, content_md="Changed."
    )
    assert text("infra.md") == whole.replace(meant, "Changed.")
    # And back: what a result calls a section, the tools take.
    again = {"doc_uri": "infra.md", "heading_path": done["headingPath"], "content_md": meant}
    ask("msrl.doc.replace_section", **again)
    assert text("infra.md") == whole


@pytest.mark.parametrize(
    "path",
    [
        "infra → Kubernetes",
        "Infra → kubernetes",
        "Kubernetes",
        "Infra > Kubernetes",
        "Infra → Kubernetes → k8s",
        "Infra→Kubernetes",
        "Infra → A",
        "Infra  →   Nowhere",
    ],
)
def test_an_unknown_heading_path_is_reported(refused: Ask, docs: Path, path: str) -> None:
    """With case, from the root, and joined by arrows alone."""
    before = contents(docs)
    error = refused(
        "msrl.doc.replace_section", doc_uri="infra.md", heading_path=path, content_md="x"
    )
    assert details(error, "NOT_FOUND") == {"docUri": "infra.md", "headingPath": path}
    assert "Nearest: Infra" in error["message"]
    assert " > K" not in error["message"].partition("Nearest")[2]
    assert contents(docs) == before


def test_the_nearest_paths_can_be_given_as_they_are_told(refused: Ask, ask: Ask) -> None:
    given = {"doc_uri": "infra.md", "content_md": "x"}
    error = refused("msrl.doc.append_to_section", **given, heading_path="Infra → A > C")
    assert "Infra → A > B Comparison" in error["message"]
    ask("msrl.doc.append_to_section", **given, heading_path="Infra → A > B Comparison")


@pytest.mark.parametrize("tool", [name for name in WRITING if name != "msrl.doc.create"])
def test_a_document_that_is_not_there_is_named(refused: Ask, tool: str) -> None:
    error = refused(tool, **{**WRITING[tool], "doc_uri": "infa.md"})
    assert details(error, "NOT_FOUND") == {"docUri": "infa.md"}
    assert "infra.md" in error["message"]


def test_each_path_of_a_tool_is_named(refused: Ask) -> None:
    move = WRITING["msrl.doc.move_section"]
    for name in ("from_heading_path", "to_parent_heading_path"):
        error = refused("msrl.doc.move_section", **{**move, name: "Infra → Nope"})
        assert details(error, "NOT_FOUND")["headingPath"] == "Infra → Nope"
    insert = {**WRITING["msrl.doc.insert_section"], "parent_heading_path": "Nope"}
    error = refused("msrl.doc.insert_section", **insert)
    assert details(error, "NOT_FOUND")["headingPath"] == "Nope"


def test_two_sections_of_one_path_are_never_guessed(refused: Ask, ask: Ask, docs: Path) -> None:
    before = contents(docs)
    given = {"doc_uri": "broken.md", "heading_path": "Top → Twin", "content_md": "x"}
    error = refused("msrl.doc.replace_section", **given)
    found = details(error, "INVALID_ARGUMENT")
    assert (found["field"], found["value"]) == ("heading_path", "Top → Twin")
    assert "auto_fix" in error["message"]
    assert contents(docs) == before
    ask("msrl.doc.auto_fix", doc_uri="broken.md")
    ask("msrl.doc.replace_section", **given)


def test_an_existing_section_is_not_inserted_again(refused: Ask, docs: Path) -> None:
    before = contents(docs)
    insert = {**WRITING["msrl.doc.insert_section"], "heading": "Backups"}
    error = refused("msrl.doc.insert_section", **insert)
    assert details(error, "INVALID_ARGUMENT")["field"] == "doc_uri"
    assert "on line 21" in error["message"]
    assert contents(docs) == before


# --- who may, and what is refused ---------------------------------------------------------------


def test_only_validate_is_there_without_write(listed: dict[str, types.Tool]) -> None:
    names = {tool.name for tool in offered(TOOLS, write=False)}
    assert {name for name in names if ".doc." in name} == {"msrl.doc.validate"}
    assert set(WRITING) <= {tool.name for tool in offered(TOOLS, write=True)}
    for name in WRITING:
        about = listed[name].annotations
        assert about is not None
        assert about.read_only_hint is False
    about = listed["msrl.doc.validate"].annotations
    assert about is not None
    assert about.read_only_hint is True


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("msrl.doc.validate", {}),
    ("msrl.doc.validate", {"doc_uri": " "}),
    ("msrl.doc.validate", {"doc_uri": "../infra.md"}),
    ("msrl.doc.validate", {"doc_uri": "infra.txt"}),
    ("msrl.doc.validate", {"doc_uri": 3}),
    ("msrl.doc.create", {"doc_uri": "x.md"}),
    ("msrl.doc.create", {"title": "X"}),
    ("msrl.doc.create", {"doc_uri": "x.md", "title": ""}),
    ("msrl.doc.create", {"doc_uri": "x.md", "title": "two\nlines"}),
    ("msrl.doc.create", {"doc_uri": "x.md", "title": "X", "overwrite": "yes"}),
    ("msrl.doc.create", {"doc_uri": "../x.md", "title": "X"}),
    ("msrl.doc.create", {"doc_uri": "x.txt", "title": "X"}),
    ("msrl.doc.create", {"doc_uri": "x\ny.md", "title": "X"}),
    *(
        ("msrl.doc.insert_section", {**WRITING["msrl.doc.insert_section"], **changes})
        for changes in (
            {"parent_heading_path": "Infra → "},
            {"parent_heading_path": " → Infra"},
            {"heading": ""},
            {"heading": "a\nb"},
            {"level": 0},
            {"level": 7},
            {"level": 1},
            {"level": "2"},
            {"content_md": None},
            {"content_md": "# Too shallow"},
            {"content_md": "```\nopen", "parent_heading_path": "Infra → Kubernetes"},
            {"position": "first"},
        )
    ),
    *(
        (tool, {**WRITING[tool], **changes})
        for tool in ("msrl.doc.replace_section", "msrl.doc.append_to_section")
        for changes in (
            {"heading_path": "Infra →  → Backups"},
            {"content_md": 3},
            {"content_md": "# Other\n"},
            {"content_md": "~~~\nopen", "heading_path": "Infra → Kubernetes"},
            {"text": "x"},
        )
    ),
    ("msrl.doc.append_to_section", {**WRITING["msrl.doc.append_to_section"], "content_md": ""}),
    *(
        ("msrl.doc.move_section", {**WRITING["msrl.doc.move_section"], **changes})
        for changes in (
            {"from_heading_path": " "},
            {"to_parent_heading_path": "Infra → Kubernetes → k3s"},
        )
    ),
]


def test_wrong_arguments_are_refused_and_nothing_is_written(refused: Ask, docs: Path) -> None:
    before = contents(docs)
    for tool, arguments in WRONG:
        error = refused(tool, **arguments)
        found = details(error, "INVALID_ARGUMENT")
        assert found["reason"], (tool, arguments)
        assert len(error["message"]) > 20
        assert contents(docs) == before, (tool, arguments)


def test_a_file_that_may_not_be_written_is_an_io_error(refused: Ask, put: Put, docs: Path) -> None:
    put({".gitignore": "secret.md\n", "secret.md": "# Secret\n"})
    before = contents(docs)
    error = refused(
        "msrl.doc.append_to_section", doc_uri="secret.md", heading_path="Secret", content_md="x"
    )
    assert error["code"] == "IO_ERROR"
    assert contents(docs) == before


class TestSeveralFolders:
    @pytest.fixture
    def roots(self, docs: Path, tmp_path: Path) -> tuple[Path, ...]:
        (tmp_path / "other").mkdir()
        return docs, tmp_path / "other"

    def test_they_are_about_one_folder(self, refused: Ask, docs: Path) -> None:
        before = contents(docs)
        for tool, arguments in WRITING.items():
            assert "one folder" in refused(tool, **arguments)["message"]
        assert contents(docs) == before


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("validate", {"doc_uri": "../x.md"}, "doc_uri"),
        ("create", {"doc_uri": "new.md", "title": "Two\nlines"}, "title"),
        (
            "insert_section",
            {"doc_uri": "infra.md", "parent_heading_path": "Infra", "heading": "#",
             "content_md": ""},
            "heading",
        ),
        (
            "insert_section",
            {"doc_uri": "infra.md", "parent_heading_path": "Infra", "heading": "H",
             "content_md": "", "level": 1},
            "level",
        ),
        (
            "insert_section",
            {"doc_uri": "infra.md", "parent_heading_path": "Infra", "heading": "H",
             "content_md": "", "level": 4},
            "level",
        ),
        (
            "move_section",
            {"doc_uri": "infra.md", "from_heading_path": "Infra → Kubernetes",
             "to_parent_heading_path": "Infra → Kubernetes → k3s"},
            "to_parent_heading_path",
        ),
        (
            "replace_section",
            {"doc_uri": "infra.md", "heading_path": "Infra → Kubernetes", "content_md": "# Top"},
            "content_md",
        ),
    ],
)  # fmt: skip
def test_an_error_names_the_argument_and_paths_with_arrows(
    refused: Ask, put: Put, tool: str, arguments: dict[str, Any], field: str
) -> None:
    put({"infra.md": INFRA})
    shape = refused(f"msrl.doc.{tool}", **arguments)
    assert shape["details"]["field"] == field
    assert shape["details"]["value"] == arguments[field]
    assert "Infra > " not in shape["message"]
