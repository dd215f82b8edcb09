"""Extracted documents and skipped files over MCP: agents get the page and the reason, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from serve.mcp.served import Agent, Home, in_memory, said
from text.extract.made_pdf import column, make_pdf


@pytest.fixture
def agent(portal: BlockingPortal, home: Home, tmp_path: Path) -> Iterator[Agent]:
    folder = tmp_path / "papers"
    folder.mkdir()
    first = column(50, 700, "The tenant pays the rent on the third working day.")
    second = column(50, 700, "Either party may end the lease with a notice of ninety days.")
    (folder / "lease.pdf").write_bytes(make_pdf(first, second))
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (folder / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n")
    with in_memory(portal, home, folder) as connected:
        yield connected


def test_agents_get_pages_and_reasons(agent: Agent) -> None:
    result = agent.call("search", query="notice to end the lease")
    assert "#page=2" in said(result)
    assert result.structured_content is not None
    assert result.structured_content["hits"][0]["place"] == "page=2"
    passages = agent.call("search", query="notice to end the lease", detail="passages")
    assert "lease.pdf#page=" in said(passages)
    lines = agent.call("search", query="ninety", mode="literal")
    assert "(#page=2)" in said(lines)
    reading = agent.call("read", target="lease.pdf#page=2")
    assert "lease.pdf#page=2" in said(reading)
    assert "ninety days" in said(reading)
    status = said(agent.call("status"))
    assert "photo.png (image)" in status
    assert "cut.pdf" in status
    assert "damaged" in agent.refused("read", target="cut.pdf")["hint"]


def test_agents_get_the_row_that_answers_with_its_range_and_header(
    portal: BlockingPortal, home: Home, tmp_path: Path
) -> None:
    rows = [f"Chair {at},Vendor,March,{100 + at}" for at in range(2, 62)]
    sheet = "\n".join(["Item,Vendor,Month,Cost", *rows, "Firewall,Palisade,May,4711"])
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "costs.csv").write_text(sheet, encoding="utf-8")
    other = "# Kitchen\n\nIt is cleaned.\n\n## Firewall\n\nAsk the network team.\n"
    (tmp_path / "papers" / "other.md").write_text(other, encoding="utf-8")
    with in_memory(portal, home, tmp_path / "papers") as agent:
        result = agent.call("search", query="what did the firewall cost")
        lines = [line.strip() for line in said(result).split("\n")]
        assert any(line.startswith("#A41:D62 ") for line in lines)
        assert any("| | Item | Vendor | Month | Cost |" in line for line in lines)
        assert any("| | Firewall | Palisade | May | 4711 |" in line for line in lines)
        passages = agent.call("search", query="what did the firewall cost", detail="passages")
        assert "costs.csv#A41:D62" in said(passages)
