"""Sessions of Anvil's clients, as its document shows them.

The document names the four tools and describes the server below them: which files it reads, how it
cuts them into chunks, and how it follows them.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedding_service import Service
from processor_time import scale_by_load
from requirements.sessions.client import (
    Client,
    HttpClient,
    StdioClient,
    launch,
    serving,
)
from waiting import DEADLINE

LONG = "The harbour has a lighthouse that every sailor knows by its light. " * 8
"""More than 200 and fewer than 6,000 characters."""
SETTLED = 1_700_000_000
"""A time of change that lies in the past, as that of most files."""
LEVELS = ("One", "Two", "Three", "Four", "Five", "Six")
PAGES = 400


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def fill(docs: Path) -> None:
    """Write the fixtures that the document asks for."""
    guide = f"# Guide\n\n{LONG}\n\n## Short\n\nTiny zebra.\n\n### Shorter\n\nTiny gnu.\n\n"
    guide += f"## Usage\n\nFirst okapi. {LONG}\n\n## Usage\n\nSecond okapi. {LONG}\n"
    write(docs, "guide.md", guide)
    write(docs, "plain.md", f"No heading stands above the walrus.\n\n{LONG}\n")
    write(docs, "empty.md", "")
    write(docs, "blank.md", "\n \n")
    write(docs, "front.md", f"---\nowner: narwhal\n---\n# Front\n\n{LONG}\n")
    deep = "".join(f"{'#' * at} {name}\n\n{LONG}\n\n" for at, name in enumerate(LEVELS, 1))
    write(docs, "deep.md", deep)
    paragraphs = "\n\n".join(f"Paragraph {at}. {LONG}" for at in range(24))
    write(docs, "long.md", f"# Top\n\n{LONG}\n\n## Data Flow\n\n{paragraphs}\n")
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n\n- [ ] open\n- [x] done\n\nNote[^1]\n\n[^1]: Foot.\n"
    write(docs, "gfm.md", f"# Features\n\n{LONG}\n\n{table}")
    sections = (f"## Part {at}\n\n{LONG}\n\n" for at in range(2_200))
    write(docs, "large.md", "# Large\n\n" + "".join(sections) + "## End\n\nThe axolotl ends it.\n")
    write(docs, ".gitignore", "ignored.md\n")
    write(docs, "ignored.md", f"# Ignored\n\nThe pangolin. {LONG}\n")
    write(docs, "code.py", "def okapi() -> None: ...\n")
    (docs / "picture.png").write_bytes(bytes(range(256)) * 10)
    (docs / "loop").symlink_to(docs, target_is_directory=True)
    for at in range(PAGES):
        headings = "".join(f"## Chapter {number} of page {at}\n\n{LONG}\n" for number in range(4))
        write(docs, f"many/page-{at:03}.md", f"# Page {at}\n\n{headings}")
    for path in docs.rglob("*.md"):
        os.utime(path, (SETTLED, SETTLED))


@pytest.fixture(scope="module")
def anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """A client, and the folder that its server reads."""
    docs = tmp_path_factory.mktemp("docs")
    fill(docs)
    home = tmp_path_factory.mktemp("home")
    with serving("stdio", docs, "--toolset", "anvil", home=home) as client:
        yield client, docs


def chunks_of(client: Client, name: str) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = client.call("get_page", file_path=name)["chunks"]
    return chunks


def first_hit(client: Client, query: str) -> dict[str, Any]:
    hit: dict[str, Any] = client.call("search_docs", query=query, top_k=1)["results"][0]
    return hit


# --- start ----------------------------------------------------------------------------------------


def test_it_indexes_at_the_start_and_reports_progress_on_stderr(
    anvil: tuple[Client, Path],
) -> None:
    """This test is the first of its server: no tool was called before."""
    line = anvil[0].notes.wait_for(" files")
    assert re.search(r"\d+ (of \d+ )?files", line)


def test_the_four_tools_are_there(anvil: tuple[Client, Path]) -> None:
    tools = anvil[0].tools()
    assert tools.keys() == {"search_docs", "get_page", "get_section", "list_pages"}
    search = tools["search_docs"]["inputSchema"]
    assert search["required"] == ["query"]
    assert search["properties"]["top_k"]["default"] == 5
    assert tools["get_page"]["inputSchema"]["required"] == ["file_path"]
    assert set(tools["get_section"]["inputSchema"]["required"]) == {"file_path", "heading_path"}


@pytest.mark.parametrize("command", [("mcp",), ("mcp", "--no-daemon"), ("serve", "--port", "0")])
def test_a_missing_folder_ends_the_server_at_once(tmp_path: Path, command: tuple[str, ...]) -> None:
    missing = tmp_path / "missing"
    process = launch((*command, missing, "--toolset", "anvil"), tmp_path / "home")
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 3
    assert str(missing) in errors
    assert "Traceback" not in errors
    assert not missing.exists()


def test_docs_and_db_are_options(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs, "a.md", f"# A\n\n{LONG}\n")
    file = tmp_path / "elsewhere" / "index.db"
    options = ("--docs", docs, "--db", file, "--toolset", "anvil")
    with serving("stdio", *options, home=tmp_path / "home") as client:
        assert client.call("list_pages")["total_pages"] == 1
    assert file.parent.is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_it_ends_at_the_first_signal(tmp_path: Path, transport: str, number: int) -> None:
    """Three signals, nine seconds and a traceback were needed over stdio."""
    docs = tmp_path / "docs"
    write(docs, "a.md", f"# A\n\n{LONG}\n")
    with serving(transport, docs, "--toolset", "anvil", home=tmp_path / "home") as client:
        assert client.call("list_pages")["total_pages"] == 1
        assert isinstance(client, StdioClient | HttpClient)
        began = time.monotonic()
        client.process.send_signal(number)
        client.process.wait(DEADLINE)
        # Below the nine seconds of before; alone it takes one.
        assert time.monotonic() - began < scale_by_load(8)
        assert "Traceback" not in str(client.notes)


# --- chunks ---------------------------------------------------------------------------------------


def test_each_heading_begins_a_chunk_with_its_breadcrumb(anvil: tuple[Client, Path]) -> None:
    chunks = chunks_of(anvil[0], "deep.md")
    paths = [" > ".join(LEVELS[: at + 1]) for at in range(6)]
    assert [chunk["heading_path"] for chunk in chunks] == paths
    assert [chunk["heading_level"] for chunk in chunks] == [1, 2, 3, 4, 5, 6]
    assert [chunk["ordinal"] for chunk in chunks] == list(range(6))
    for chunk, name in zip(chunks, LEVELS, strict=True):
        assert chunk["content"].lstrip("# ").startswith(name)
        assert chunk["char_count"] == len(chunk["content"])


def test_a_small_section_is_merged_into_the_chunk_of_its_parent(
    anvil: tuple[Client, Path],
) -> None:
    chunks = chunks_of(anvil[0], "guide.md")
    assert [chunk["heading_path"] for chunk in chunks] == [
        "Guide",
        "Guide > Usage",
        "Guide > Usage",
    ]
    assert "Tiny zebra." in chunks[0]["content"]
    assert "Tiny gnu." in chunks[0]["content"]
    assert "okapi" not in chunks[0]["content"]


def test_equal_headings_have_a_chunk_each(anvil: tuple[Client, Path]) -> None:
    answer = anvil[0].call("search_docs", query="okapi", top_k=2, file_filter="guide.md")
    contents = [result["content"] for result in answer["results"]]
    assert {text.splitlines()[2][:12] for text in contents} == {"First okapi.", "Second okapi"}
    assert {hit["metadata"]["heading_path"] for hit in answer["results"]} == {"Guide > Usage"}


def test_a_long_section_is_split_between_paragraphs_into_numbered_parts(
    anvil: tuple[Client, Path],
) -> None:
    chunks = chunks_of(anvil[0], "long.md")[1:]
    count = len(chunks)
    assert count >= 2
    assert [chunk["heading_path"] for chunk in chunks] == [
        f"Top > Data Flow [part {number}/{count}]" for number in range(1, count + 1)
    ]
    assert all(chunk["char_count"] <= 6_000 for chunk in chunks)
    assert all(chunk["char_count"] > 3_000 for chunk in chunks[:-1])
    for chunk in chunks[1:]:
        assert chunk["content"].startswith("Paragraph ")
    text = "".join(chunk["content"] for chunk in chunks)
    assert [int(number) for number in re.findall(r"Paragraph (\d+)\.", text)] == list(range(24))


def test_a_section_of_6000_characters_stays_whole_and_a_longer_one_does_not(
    anvil: tuple[Client, Path],
) -> None:
    client, docs = anvil
    for size, parts in ((6_000, 1), (6_100, 2)):
        text = f"# Size\n\n{LONG * 5}\n\n"
        text += "w" * (size - len(text) - 1) + "\n"
        assert len(text) == size
        write(docs, "size.md", text)
        assert len(chunks_of(client, "size.md")) == parts
    (docs / "size.md").unlink()


def test_a_file_without_headings_is_one_chunk_called_root(anvil: tuple[Client, Path]) -> None:
    (chunk,) = chunks_of(anvil[0], "plain.md")
    assert chunk["heading_path"] == "(root)"
    assert first_hit(anvil[0], "walrus")["metadata"]["heading_path"] == "(root)"


def test_front_matter_is_not_content(anvil: tuple[Client, Path]) -> None:
    (chunk,) = chunks_of(anvil[0], "front.md")
    assert chunk["content"].startswith("# Front")
    assert "narwhal" not in chunk["content"]


def test_tables_and_task_lists_are_kept(anvil: tuple[Client, Path]) -> None:
    text = "".join(chunk["content"] for chunk in chunks_of(anvil[0], "gfm.md"))
    for line in ("| 1 | 2 |", "- [ ] open", "- [x] done", "[^1]: Foot."):
        assert line in text


# --- files ----------------------------------------------------------------------------------------


def list_all(client: Client, **arguments: Any) -> list[dict[str, Any]]:
    """Return the pages of every answer that the cursor leads to."""
    pages: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = client.call("list_pages", **arguments, **cursor)
        pages += answer["pages"]
        if "next_cursor" not in answer:
            assert len(pages) == answer["total_pages"]
            return pages
        cursor = {"cursor": answer["next_cursor"]}


def test_list_pages_reaches_every_page_by_its_cursor(anvil: tuple[Client, Path]) -> None:
    """342 of 2,384 pages were reachable, and no cursor led on."""
    client, docs = anvil
    files = {
        path.relative_to(docs).as_posix()
        for path in docs.glob("**/*.md")
        if "loop" not in path.parts and path.read_text(encoding="utf-8").strip()
    }
    pages = list_all(client)
    assert [page["file_path"] for page in pages] == sorted(files)
    below = list_all(client, prefix="many")
    assert len(below) == PAGES
    assert below[7]["title"] == "Page 7"
    assert below[7]["headings"][1] == "Page 7 > Chapter 0 of page 7"
    assert below[7]["last_modified"] == "2023-11-14T22:13:20Z"
    assert below[7]["chunk_count"] == 4
    assert "next_cursor" in client.call("list_pages")


def test_empty_files_have_no_page(anvil: tuple[Client, Path]) -> None:
    for name in ("empty.md", "blank.md"):
        assert anvil[0].refused("get_page", file_path=name)["code"] == "NOT_FOUND"


def test_only_markdown_is_read(anvil: tuple[Client, Path]) -> None:
    for name in ("code.py", "picture.png"):
        assert anvil[0].refused("get_page", file_path=name)["code"] == "NOT_FOUND"
    answer = anvil[0].call("search_docs", query="def okapi", top_k=20)
    assert all(hit["metadata"]["file_path"].endswith(".md") for hit in answer["results"])


def test_a_file_has_no_size_limit(anvil: tuple[Client, Path]) -> None:
    client, docs = anvil
    assert (docs / "large.md").stat().st_size > 1_048_576
    assert first_hit(client, "axolotl")["metadata"]["file_path"] == "large.md"
    assert client.call("get_section", file_path="large.md", heading_path="Large > Part 2199")
    text = ""
    cursor: dict[str, str] = {}
    while True:
        answer = client.call("get_page", file_path="large.md", **cursor)
        text += "".join(chunk["content"] for chunk in answer["chunks"])
        if "next_cursor" not in answer:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert text == (docs / "large.md").read_text(encoding="utf-8")
    (page,) = [page for page in list_all(client) if page["file_path"] == "large.md"]
    assert page["chunk_count"] > 2_000


def test_ignore_files_hide_nothing(anvil: tuple[Client, Path]) -> None:
    assert first_hit(anvil[0], "pangolin")["metadata"]["file_path"] == "ignored.md"


def test_a_page_that_does_not_exist_is_an_error(anvil: tuple[Client, Path]) -> None:
    shape = anvil[0].refused("get_page", file_path="nothing.md")
    assert shape["code"] == "NOT_FOUND"
    assert "nothing.md" in shape["error"]
    shape = anvil[0].refused("get_section", file_path="guide.md", heading_path="Guide > Nothing")
    assert shape["code"] == "NOT_FOUND"


def test_a_page_has_title_path_and_size(anvil: tuple[Client, Path]) -> None:
    page = anvil[0].call("get_page", file_path="./deep.md")
    assert page["file_path"] == "deep.md"
    assert page["title"] == "One"
    assert page["last_modified"] == "2023-11-14T22:13:20Z"
    assert page["total_chars"] == sum(chunk["char_count"] for chunk in page["chunks"])
    assert anvil[0].call("get_page", file_path="plain.md")["title"] == "plain"


def test_a_search_gives_content_score_and_metadata(anvil: tuple[Client, Path]) -> None:
    answer = anvil[0].call("search_docs", query="lighthouse of the harbour")
    assert answer["total_chunks"] > 2_000
    assert answer["query_ms"] >= 0
    assert len(answer["results"]) == 5
    scores = [hit["score"] for hit in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    for hit in answer["results"]:
        assert hit["metadata"].keys() == {
            "file_path",
            "heading_path",
            "heading_level",
            "last_modified",
            "char_count",
        }
        assert hit["metadata"]["char_count"] == len(hit["content"])


# --- changes --------------------------------------------------------------------------------------


def test_files_that_come_change_and_go_are_noticed(anvil: tuple[Client, Path]) -> None:
    client, docs = anvil
    write(docs, "news.md", f"# News\n\nThe capybara arrived. {LONG}\n")
    assert first_hit(client, "capybara")["metadata"]["file_path"] == "news.md"
    write(docs, "news.md", f"# News\n\nThe quokka arrived. {LONG}\n")
    assert "quokka" in first_hit(client, "quokka")["content"]
    assert "capybara" not in chunks_of(client, "news.md")[0]["content"]
    (docs / "news.md").rename(docs / "old.md")
    assert first_hit(client, "quokka")["metadata"]["file_path"] == "old.md"
    (docs / "old.md").unlink()
    assert client.refused("get_page", file_path="old.md")["code"] == "NOT_FOUND"
    answer = client.call("search_docs", query="quokka", top_k=20)
    assert all("quokka" not in hit["content"] for hit in answer["results"])


def test_the_first_answer_after_many_changes_is_not_stale(anvil: tuple[Client, Path]) -> None:
    """With more than 32 changed files the first answer came from the old index."""
    client, docs = anvil
    for at in range(PAGES):
        write(docs, f"many/page-{at:03}.md", f"# Page {at}\n\nNow with a tapir. {LONG}\n")
    answer = client.call("search_docs", query="tapir", top_k=20, file_filter="many/")
    assert "note" not in answer
    assert len(answer["results"]) == 20
    assert all("tapir" in hit["content"] for hit in answer["results"])
    assert all(page["chunk_count"] == 1 for page in list_all(client, prefix="many"))


def test_only_changed_chunks_are_embedded_again_unless_the_model_changes(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    sections = [f"## Section {at}\n\nText {at}. {LONG}\n\n" for at in range(6)]
    write(docs, "a.md", "# A\n\n" + "".join(sections))
    service = Service()
    options: dict[str, Any] = {
        "home": tmp_path / "home",
        "LOOKFAR_EMBED_PROVIDER": "remote",
        "LOOKFAR_EMBED_BASE_URL": service.url,
    }

    def embedded() -> list[str]:
        texts = [text for body in service.asked for text in body["input"]]
        service.asked.clear()
        return [text for text in texts if "Text" in text]

    arguments = ("stdio", docs, "--toolset", "anvil")
    try:
        with serving(*arguments, LOOKFAR_EMBED_MODEL="one", **options) as client:
            assert len(chunks_of(client, "a.md")) == 6
            assert len(embedded()) == 6
            sections[3] = f"## Section 3\n\nText  3. {LONG}\n\n"  # White space is a change, too.
            write(docs, "a.md", "# A\n\n" + "".join(sections))
            assert "Text  3." in chunks_of(client, "a.md")[3]["content"]
            assert len(embedded()) == 1
        with serving(*arguments, LOOKFAR_EMBED_MODEL="one", **options) as client:
            assert len(chunks_of(client, "a.md")) == 6
            assert embedded() == []
        with serving(*arguments, LOOKFAR_EMBED_MODEL="two", **options) as client:
            # The old index answers with a warning until the new one is complete.
            deadline = time.monotonic() + DEADLINE
            while "note" in client.call("search_docs", query="lighthouse"):
                assert time.monotonic() < deadline
            assert len(embedded()) == 6
    finally:
        service.close()
