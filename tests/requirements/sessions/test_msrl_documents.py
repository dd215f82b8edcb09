"""Sessions of MSRL's clients: the ``msrl.doc.*`` tools, as its document describes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from requirements.sessions.client import Client, serving
from requirements.sessions.msrl_vault import put
from requirements.test_manifest import MANIFESTS, requirements

INFRA = """# Infra

About the machines.

## Kubernetes

Clusters.

### k3s

Small clusters.

## A > B Comparison

Both.

## The **bold** one

Bold.
"""


@dataclass
class Session:
    """A client that may write."""

    client: Client
    folder: Path

    def edit(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.client.call(f"msrl.doc.{tool}", **arguments)
        return result

    def read(self, uri: str) -> str:
        return (self.folder / uri).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("vault")
    home = tmp_path_factory.mktemp("home")
    with serving("stdio", folder, "--toolset", "msrl", "--write", home=home) as client:
        yield Session(client, folder)


@pytest.fixture
def vault(server: Session) -> Session:
    put(server.folder, "infra.md", INFRA)
    put(server.folder, "plain.md", "Only a line.\n")
    return server


def test_the_tools_take_the_documented_arguments(vault: Session) -> None:
    """Names, types, defaults and limits, as the server lists them."""
    served = {name: tool["inputSchema"] for name, tool in vault.client.tools().items()}
    assert requirements.differences({"msrl": served}, [MANIFESTS["msrl"]]) == []


def test_validate_lists_violations(vault: Session) -> None:
    assert vault.edit("validate", doc_uri="infra.md") == {"ok": True, "violations": []}
    put(vault.folder, "bad.md", "# A\n\n### Jump\n\n## Twin\n\n## Twin\n")
    report = vault.edit("validate", doc_uri="bad.md")
    assert not report["ok"]
    assert [violation["rule"] for violation in report["violations"]] == [
        "heading-jump",
        "duplicate-sibling",
    ]
    for violation in report["violations"]:
        assert violation.keys() == {"rule", "message", "startLine", "endLine", "suggestedFix"}
        assert violation["message"]
        assert violation["suggestedFix"]
    assert [violation["startLine"] for violation in report["violations"]] == [3, 7]


def test_auto_fix_repairs_what_is_safe(vault: Session) -> None:
    put(vault.folder, "bad.md", "# A\n\n### Jump\n")
    assert vault.edit("auto_fix", doc_uri="bad.md")["changed"]
    assert vault.read("bad.md") == "# A\n\n## Jump\n"


def test_create_makes_a_document_once(vault: Session) -> None:
    (vault.folder / "new/note.md").unlink(missing_ok=True)
    made = vault.edit("create", doc_uri="new/note.md", title="A note")
    assert (made["docUri"], made["changed"]) == ("new/note.md", True)
    assert vault.read("new/note.md") == "# A note\n"
    again = vault.client.refused("msrl.doc.create", doc_uri="new/note.md", title="Other")
    assert again["code"] == "INVALID_ARGUMENT"
    assert again["details"]["field"] == "doc_uri"
    vault.edit("create", doc_uri="new/note.md", title="Other", overwrite=True)
    assert vault.read("new/note.md") == "# Other\n"
    unknown = vault.client.refused(
        "msrl.doc.create", doc_uri="new/other.md", title="T", template_id="weekly"
    )
    assert unknown["details"]["field"] == "template_id"


def test_insert_puts_a_section_below_its_parent(vault: Session) -> None:
    done = vault.edit(
        "insert_section",
        doc_uri="infra.md",
        parent_heading_path="Infra → Kubernetes",
        heading="Helm",
        content_md="Charts.",
    )
    assert done["headingPath"] == "Infra → Kubernetes → Helm"
    assert "Small clusters.\n\n### Helm\n\nCharts.\n\n## A > B" in vault.read("infra.md")
    level = vault.client.refused(
        "msrl.doc.insert_section",
        doc_uri="infra.md",
        parent_heading_path="Infra",
        heading="Deep",
        content_md="",
        level=7,
    )
    assert level["details"]["field"] == "level"


def test_replace_keeps_subsections(vault: Session) -> None:
    vault.edit("replace_section", doc_uri="infra.md", heading_path="Infra → Kubernetes",
               content_md="New text.")  # fmt: skip
    assert vault.read("infra.md") == INFRA.replace("Clusters.\n\n###", "New text.\n\n###")


def test_append_comes_before_subsections(vault: Session) -> None:
    vault.edit("append_to_section", doc_uri="infra.md", heading_path="Infra → A > B Comparison",
               content_md="More.")  # fmt: skip
    vault.edit("append_to_section", doc_uri="infra.md", heading_path="Infra", content_md="Rooms.")
    text = vault.read("infra.md")
    assert "Both.\n\nMore.\n" in text
    assert "About the machines.\n\nRooms.\n\n## Kubernetes" in text


def test_move_takes_the_subtree_along(vault: Session) -> None:
    done = vault.edit(
        "move_section",
        doc_uri="infra.md",
        from_heading_path="Infra → Kubernetes",
        to_parent_heading_path="Infra → A > B Comparison",
    )
    assert done["headingPath"] == "Infra → A > B Comparison → Kubernetes"
    assert "### Kubernetes\n\nClusters.\n\n#### k3s" in vault.read("infra.md")


def test_an_empty_path_is_the_text_outside_all_headings(vault: Session) -> None:
    """Notes without headings can be edited; elsewhere it is the text before the first one."""
    vault.edit("append_to_section", doc_uri="plain.md", heading_path="", content_md="A second.")
    assert vault.read("plain.md") == "Only a line.\n\nA second.\n"
    vault.edit("replace_section", doc_uri="plain.md", heading_path="", content_md="Replaced.")
    assert vault.read("plain.md") == "Replaced.\n"
    put(vault.folder, "front.md", "---\ntags: [a]\n---\n# Title\n\nText.\n")
    vault.edit("append_to_section", doc_uri="front.md", heading_path="", content_md="Intro.")
    assert vault.read("front.md") == "---\ntags: [a]\n---\n\nIntro.\n\n# Title\n\nText.\n"
    vault.edit("insert_section", doc_uri="plain.md", parent_heading_path="", heading="Top",
               content_md="Below.")  # fmt: skip
    assert vault.read("plain.md") == "Replaced.\n\n# Top\n\nBelow.\n"
    vault.edit("move_section", doc_uri="infra.md", from_heading_path="Infra → Kubernetes",
               to_parent_heading_path="")  # fmt: skip
    assert vault.read("infra.md").endswith(
        "\n# Kubernetes\n\nClusters.\n\n## k3s\n\nSmall clusters.\n"
    )


def test_paths_match_each_title_with_case(vault: Session) -> None:
    """The error names the document and the path; a title may have its markup or not."""
    missing: list[tuple[str, str]] = [("infra.md", "Infra → kubernetes"), ("infra.md", "k3s")]
    for uri, path in missing:
        error = vault.client.refused(
            "msrl.doc.replace_section", doc_uri=uri, heading_path=path, content_md="x"
        )
        assert error["code"] == "NOT_FOUND"
        assert error["details"] == {"docUri": uri, "headingPath": path}
    absent = vault.client.refused("msrl.doc.validate", doc_uri="notes/missing.md")
    assert (absent["code"], absent["details"]) == ("NOT_FOUND", {"docUri": "notes/missing.md"})
    for path in ("Infra → The **bold** one", "Infra → The bold one"):
        vault.edit("append_to_section", doc_uri="infra.md", heading_path=path, content_md="And.")
    assert vault.read("infra.md").endswith("Bold.\n\nAnd.\n\nAnd.\n")


def test_a_result_leads_to_the_section_it_shows(vault: Session) -> None:
    """Query, change the excerpt, and write it back under the result's own heading path."""
    vault.client.call("msrl.reindex", wait=True)
    (result,) = vault.client.call(
        "msrl.query", query="clusters", top_k=1, filters={"doc_uris": ["infra.md"]}
    )["results"]
    assert result["heading_path"] == "Infra → Kubernetes"
    changed = result["excerpt"].replace("Clusters", "Many clusters")
    vault.edit("replace_section", doc_uri=result["doc_uri"], heading_path=result["heading_path"],
               content_md=changed)  # fmt: skip
    assert vault.read("infra.md") == INFRA.replace("Clusters.", "Many clusters.")
    again = vault.client.call(
        "msrl.query", query="many clusters", top_k=1, filters={"doc_uris": ["infra.md"]}
    )["results"]
    assert again[0]["excerpt"].startswith("Many clusters.")
