"""The toolset anvil, driven by a real client."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from lookfar.library import Library
from lookfar.retrieve.answer.pack import tokens

TOOLSET = "anvil"
SETTINGS = {"chunk.merge_small": False}
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]
Unmet = Callable[..., list[str]]

LONG = "\n\n".join(f"Paragraph {number} tells of zebras. " + "word " * 60 for number in range(20))
GUIDE = f"""---
title: From the front matter
---
# Architecture

How it is built, and of what.

## Data Flow

{LONG}

## Events

Events are told apart.

### Deep

An okapi lives here.
"""
FILES = {
    "guide/a.md": GUIDE,
    "guide/b.md": "## Second\n\nA page about walruses, without an outermost heading.\n",
    "plain.md": "Nothing but plain words about narwhals.\n",
    "empty.md": "",
    "blank.md": "---\ntitle: Nothing\n---\n\n \n",
    "other.txt": "Narwhals in a file that is no Markdown.\n",
}


def paths(shape: dict[str, Any]) -> list[str]:
    return [each["metadata"]["file_path"] for each in shape["results"]]


def by_heading(shape: dict[str, Any]) -> dict[str, Any]:
    return {each["metadata"]["heading_path"]: each for each in shape["results"]}


# --- all tools ----------------------------------------------------------------------------------


def test_the_client_is_told_of_four_tools_that_only_read(listed: dict[str, types.Tool]) -> None:
    assert list(listed) == ["search_docs", "get_page", "get_section", "list_pages"]
    for tool in listed.values():
        assert tool.description is not None
        assert 20 < len(tool.description) < 300
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        assert tool.input_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("search_docs", {}, "query"),
        ("search_docs", {"query": ""}, "query"),
        ("search_docs", {"query": " \n"}, "query"),
        ("search_docs", {"query": 7}, "query"),
        ("search_docs", {"query": None}, "query"),
        ("search_docs", {"query": "x", "top_k": 0}, "top_k"),
        ("search_docs", {"query": "x", "top_k": 21}, "top_k"),
        ("search_docs", {"query": "x", "top_k": "5"}, "top_k"),
        ("search_docs", {"query": "x", "top_k": 2.5}, "top_k"),
        ("search_docs", {"query": "x", "top_k": True}, "top_k"),
        ("search_docs", {"query": "x", "file_filter": 3}, "file_filter"),
        ("search_docs", {"query": "x", "file_filter": None}, "file_filter"),
        ("get_page", {}, "file_path"),
        ("get_page", {"file_path": ""}, "file_path"),
        ("get_page", {"file_path": "  "}, "file_path"),
        ("get_page", {"file_path": ["plain.md"]}, "file_path"),
        ("get_section", {"file_path": "guide/a.md"}, "heading_path"),
        ("get_section", {"heading_path": "Architecture"}, "file_path"),
        ("get_section", {"file_path": "guide/a.md", "heading_path": ""}, "heading_path"),
        ("get_section", {"file_path": "guide/a.md", "heading_path": "\t"}, "heading_path"),
        ("get_section", {"file_path": "", "heading_path": "Architecture"}, "file_path"),
        ("get_section", {"file_path": "guide/a.md", "heading_path": 1}, "heading_path"),
        ("list_pages", {"prefix": 1}, "prefix"),
        ("list_pages", {"prefix": None}, "prefix"),
    ],
)
def test_wrong_arguments_are_refused(
    refused: Ask, tool: str, arguments: dict[str, Any], named: str
) -> None:
    """Protects against guessing: nothing is clamped, converted or taken for not given."""
    shape = refused(tool, **arguments)
    assert set(shape) == {"error", "code", "hint"}
    assert shape["code"] == "INVALID_ARGUMENT"
    assert repr(named) in shape["error"]
    assert shape["hint"]


@pytest.mark.parametrize(
    ("tool", "wrong", "meant"),
    [
        ("search_docs", "topk", "top_k"),
        ("get_page", "filepath", "file_path"),
        ("get_section", "heading", "heading_path"),
        ("list_pages", "prefxi", "prefix"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_one_meant(
    refused: Ask, tool: str, wrong: str, meant: str
) -> None:
    known = {
        "search_docs": {"query": "x"},
        "get_page": {"file_path": "plain.md"},
        "get_section": {"file_path": "guide/a.md", "heading_path": "Architecture"},
        "list_pages": {},
    }
    shape = refused(tool, **known[tool], **{wrong: "x"})
    assert shape["code"] == "INVALID_ARGUMENT"
    assert repr(wrong) in shape["error"]
    assert repr(meant) in shape["hint"]


# --- search_docs --------------------------------------------------------------------------------


def test_search_gives_every_promised_field(ask: Ask, unmet: Unmet, docs: Path) -> None:
    os.utime(docs / "plain.md", (1_700_000_000, 1_700_000_000))
    found = ask("search_docs", query="narwhals")
    assert unmet("anvil", "search_docs", found) == []
    assert set(found) == {"results", "total_chunks", "query_ms"}
    first = found["results"][0]
    assert first == {
        "content": FILES["plain.md"],
        "score": first["score"],
        "metadata": {
            "file_path": "plain.md",
            "heading_path": "(root)",
            "heading_level": 1,
            "last_modified": "2023-11-14T22:13:20Z",
            "char_count": len(FILES["plain.md"]),
        },
    }


def test_search_counts_the_chunks_of_the_index(ask: Ask, library: Library) -> None:
    found = ask("search_docs", query="narwhals", top_k=1)
    assert len(found["results"]) == 1
    assert found["total_chunks"] == library.status().counts.chunks > 5
    assert found["query_ms"] > 0


def test_the_best_come_first_and_scores_say_how_well_they_fit(ask: Ask) -> None:
    scores = [each["score"] for each in ask("search_docs", query="okapi zebras")["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score < 1 for score in scores)
    absent = [row["score"] for row in ask("search_docs", query="chocolate cake")["results"]]
    assert scores[0] > 2 * max(absent, default=0.0)
    named = ask("search_docs", query="guide/b.md")["results"]
    assert named[0]["metadata"]["file_path"] == "guide/b.md"
    assert 0.9 < named[0]["score"] < 1


def test_five_hits_unless_asked_for_others(ask: Ask) -> None:
    assert len(ask("search_docs", query="zebras word")["results"]) == 5
    assert len(ask("search_docs", query="zebras word", top_k=1)["results"]) == 1


def test_as_many_hits_as_asked_for_from_one_file(ask: Ask, put: Put) -> None:
    """Protects against limits on one document, and against joining its chunks, in this shape."""
    sections = "".join(f"## Part {n}\n\nThe tapir number {n}.\n\n" for n in range(30))
    put({"tapir.md": f"# Tapirs\n\n{sections}", "more.md": "# More\n\nOf the tapir number 1.\n"})
    found = ask("search_docs", query="tapir number", top_k=20, file_filter="tapir.md")
    assert paths(found) == ["tapir.md"] * 20
    assert all(each["content"].count("tapir") <= 1 for each in found["results"])


@pytest.mark.parametrize(
    ("file_filter", "files"),
    [
        ("", {"guide/a.md", "guide/b.md", "plain.md"}),
        ("guide/", {"guide/a.md", "guide/b.md"}),
        ("gui", {"guide/a.md", "guide/b.md"}),
        ("./guide/a", {"guide/a.md"}),
        ("/guide/a.md", {"guide/a.md"}),
        ("*.md", {"guide/a.md", "guide/b.md", "plain.md"}),
        ("guide/*.md", {"guide/a.md", "guide/b.md"}),
        ("**/b.md", {"guide/b.md"}),
        ("nowhere/*", set()),
        ("nowhere", set()),
    ],
)
def test_the_filter_is_a_glob_or_a_prefix(ask: Ask, file_filter: str, files: set[str]) -> None:
    found = ask("search_docs", query="walruses narwhals okapi", top_k=20, file_filter=file_filter)
    assert set(paths(found)) == files


def test_the_filter_narrows_before_the_best_are_chosen(ask: Ask, put: Put) -> None:
    """Seen to matter: the best chunks for these words are all in another file."""
    put({"crowd.md": "# Crowd\n\n" + "".join(f"## W{n}\n\nwalrus walrus\n\n" for n in range(25))})
    put({"one.md": "# One\n\nOnce a walrus.\n"})
    assert set(paths(ask("search_docs", query="walrus", top_k=3))) == {"crowd.md"}
    assert paths(ask("search_docs", query="walrus", top_k=1, file_filter="one")) == ["one.md"]


def test_an_invalid_glob_is_refused(refused: Ask) -> None:
    shape = refused("search_docs", query="x", file_filter="docs/[*.md")
    assert shape["code"] == "INVALID_PATTERN"


def test_only_markdown_is_searched(ask: Ask) -> None:
    assert "other.txt" not in paths(ask("search_docs", query="narwhals", top_k=20))


class TestNamedFormats:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "hash", "index.workers": 1, "sources.include": ["*.txt"]}

    def test_files_that_the_settings_name_are_pages(self, ask: Ask) -> None:
        assert paths(ask("search_docs", query="narwhals")) == ["other.txt"]
        assert [each["file_path"] for each in ask("list_pages")["pages"]] == ["other.txt"]
        assert ask("get_page", file_path="other.txt")["title"] == "other"


def test_hits_name_headings_levels_and_parts(ask: Ask) -> None:
    found = by_heading(ask("search_docs", query="zebras okapi events", top_k=20))
    assert found["Architecture > Events > Deep"]["metadata"]["heading_level"] == 3
    assert found["Architecture > Events > Deep"]["content"] == "### Deep\n\nAn okapi lives here.\n"
    parts = [path for path in found if path.startswith("Architecture > Data Flow [part ")]
    assert len(parts) > 1
    assert all(re.fullmatch(r".* \[part \d+/\d+\]", path) for path in parts)
    assert {found[path]["metadata"]["heading_level"] for path in parts} == {2}
    assert all(each["content"] in GUIDE for each in found.values() if "walrus" not in str(each))


def test_an_edit_is_found_by_the_next_search(ask: Ask, docs: Path, put: Put) -> None:
    """Protects freshness: changed, new and removed files show without anyone indexing."""
    assert "aardvark" not in ask("search_docs", query="aardvark", top_k=1)["results"][0]["content"]
    put({"plain.md": "Now of an aardvark.\n", "new.md": "# New\n\nA capybara.\n"})
    (docs / "guide/b.md").unlink()
    first = ask("search_docs", query="aardvark", top_k=1)["results"][0]
    assert (first["content"], first["metadata"]["file_path"]) == (
        "Now of an aardvark.\n",
        "plain.md",
    )
    assert paths(ask("search_docs", query="capybara", top_k=1)) == ["new.md"]
    assert "guide/b.md" not in paths(ask("search_docs", query="walruses", top_k=20))


def test_a_generation_purged_between_two_looks(
    ask: Ask, library: Library, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against an error when others index and purge while a search is answered."""
    real, asked = library.search, []

    def meanwhile(*arguments: Any, **more: Any) -> Any:
        answer = real(*arguments, **more)
        asked.append(answer)
        if len(asked) == 1:
            put({"plain.md": "Narwhals once more.\n"})
            library.index()
            library.prune(1)
        return answer

    monkeypatch.setattr(library, "search", meanwhile)
    found = ask("search_docs", query="narwhals", top_k=1)
    assert len(asked) == 2
    assert found["results"][0]["content"] == "Narwhals once more.\n"


def test_what_an_answer_lacks_is_said(ask: Ask, put: Put, docs: Path) -> None:
    ask("search_docs", query="narwhals")
    put({f"many/{n}.md": f"# Many {n}\n\ntext\n" for n in range(40)})
    found = ask("search_docs", query="narwhals")
    assert "40 files changed" in found["note"]
    assert "Incomplete (stale)" in found["note"]


def test_misleading_characters_are_reported(ask: Ask, put: Put) -> None:
    put({"trick.md": "# Trick\n\nA gnu \u202eung.\n"})
    assert "trick.md contains bidi" in ask("search_docs", query="gnu", top_k=1)["note"]
    assert "trick.md contains bidi" in ask("get_page", file_path="trick.md")["note"]


# --- get_page -----------------------------------------------------------------------------------


def test_a_page_comes_whole_and_in_order(ask: Ask, unmet: Unmet, docs: Path) -> None:
    os.utime(docs / "guide/a.md", (1_700_000_000, 1_700_000_000))
    page = ask("get_page", file_path="guide/a.md")
    assert unmet("anvil", "get_page", page) == []
    assert set(page) == {"file_path", "title", "last_modified", "total_chars", "chunks"}
    assert (page["file_path"], page["title"]) == ("guide/a.md", "Architecture")
    assert page["last_modified"] == "2023-11-14T22:13:20Z"
    body = GUIDE.partition("---\n# ")[1].removeprefix("---\n") + GUIDE.partition("---\n# ")[2]
    assert "".join(each["content"] for each in page["chunks"]) == body
    assert page["total_chars"] == len(body)
    assert [each["ordinal"] for each in page["chunks"]] == list(range(len(page["chunks"])))
    assert all(each["char_count"] == len(each["content"]) for each in page["chunks"])
    assert [(each["heading_path"], each["heading_level"]) for each in page["chunks"][:2]] == [
        ("Architecture", 1),
        (f"Architecture > Data Flow [part 1/{len(page['chunks']) - 3}]", 2),
    ]
    assert [each["heading_path"] for each in page["chunks"][-2:]] == [
        "Architecture > Events",
        "Architecture > Events > Deep",
    ]
    assert page["chunks"][-1]["heading_level"] == 3


class TestOverlap:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "hash", "index.workers": 1, "chunk.overlap_tokens": 50}

    def test_a_page_repeats_nothing(self, ask: Ask) -> None:
        """Seen to fail with chunks as they are searched: their overlap stood there twice."""
        page = ask("get_page", file_path="guide/a.md")
        text = "".join(each["content"] for each in page["chunks"])
        assert text == GUIDE[GUIDE.index("# Architecture") :]
        (listed,) = [e for e in ask("list_pages")["pages"] if e["file_path"] == "guide/a.md"]
        assert listed["total_chars"] == page["total_chars"] == len(text)


@pytest.mark.parametrize(
    ("file_path", "title"),
    [("guide/a.md", "Architecture"), ("guide/b.md", "b"), ("plain.md", "plain")],
)
def test_a_page_title_is_its_top_heading_or_file_name(ask: Ask, file_path: str, title: str) -> None:
    assert ask("get_page", file_path=file_path)["title"] == title


@pytest.mark.parametrize("spelt", ["./guide/b.md", "/guide/b.md", "guide/b.md"])
def test_leading_slashes_and_dots_of_a_path_are_ignored(ask: Ask, spelt: str) -> None:
    assert ask("get_page", file_path=spelt)["file_path"] == "guide/b.md"
    section = ask("get_section", file_path=spelt, heading_path="Second")
    assert section["metadata"]["file_path"] == "guide/b.md"


@pytest.mark.parametrize("tool", ["get_page", "get_section"])
@pytest.mark.parametrize("path", ["../secret.md", "guide/../../secret.md", "/../secret.md"])
def test_a_path_that_leaves_the_folder_is_refused(
    refused: Ask, docs: Path, tool: str, path: str
) -> None:
    (docs.parent / "secret.md").write_text("# Secret\n\nhidden\n", encoding="utf-8")
    more = {"heading_path": "Secret"} if tool == "get_section" else {}
    shape = refused(tool, file_path=path, **more)
    assert shape["code"] == "OUTSIDE_ROOT"
    assert "hidden" not in str(shape)


def test_an_unknown_page_is_refused_with_a_hint(refused: Ask) -> None:
    shape = refused("get_page", file_path="guide/aa.md")
    assert shape["code"] == "NOT_FOUND"
    assert "'guide/aa.md'" in shape["error"]
    assert "list_pages" in shape["hint"]
    assert "guide/a.md" in shape["hint"]
    # A file without text is no page, and neither is a name with an anchor or lines.
    for path in ("empty.md", "blank.md", "guide", "guide/a.md#Architecture", "guide/a.md:1-2"):
        assert refused("get_page", file_path=path)["code"] == "NOT_FOUND"
    section = refused("get_section", file_path="nowhere.md", heading_path="X")
    assert "list_pages" in section["hint"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_docs", {"query": "narwhals"}),
        ("get_page", {"file_path": "plain.md"}),
        ("get_section", {"file_path": "plain.md", "heading_path": "(root)"}),
        ("list_pages", {}),
    ],
)
def test_a_removed_folder_is_reported_and_not_recreated(
    ask: Ask, refused: Ask, docs: Path, tool: str, arguments: dict[str, Any]
) -> None:
    ask(tool, **arguments)
    docs.rename(docs.parent / "elsewhere")
    shape = refused(tool, **arguments)
    assert shape["code"] == "ROOT_NOT_FOUND"
    assert not docs.exists()


def test_a_page_is_as_fresh_as_the_disk(ask: Ask, refused: Ask, put: Put, docs: Path) -> None:
    assert len(ask("get_page", file_path="plain.md")["chunks"]) == 1
    put({"plain.md": "# Changed\n\none\n\n## Twice\n\ntwo\n"})
    page = ask("get_page", file_path="plain.md")
    assert [each["content"] for each in page["chunks"]] == [
        "# Changed\n\none\n\n", "## Twice\n\ntwo\n",
    ]  # fmt: skip
    (docs / "plain.md").unlink()
    assert refused("get_page", file_path="plain.md")["code"] == "NOT_FOUND"


# --- get_section --------------------------------------------------------------------------------


def test_a_section_comes_with_all_below_it(ask: Ask, unmet: Unmet, docs: Path) -> None:
    os.utime(docs / "guide/a.md", (1_700_000_000, 1_700_000_000))
    section = ask("get_section", file_path="guide/a.md", heading_path="Architecture > Events")
    assert unmet("anvil", "get_section", section) == []
    content = GUIDE[GUIDE.index("## Events") :]
    assert section == {
        "content": content,
        "metadata": {
            "file_path": "guide/a.md",
            "heading_path": "Architecture > Events",
            "heading_level": 2,
            "last_modified": "2023-11-14T22:13:20Z",
            "char_count": len(content),
        },
    }


def test_parts_are_joined_or_given_by_their_own_name(ask: Ask) -> None:
    whole = ask("get_section", file_path="guide/a.md", heading_path="Architecture > Data Flow")
    assert whole["content"] == GUIDE[GUIDE.index("## Data") : GUIDE.index("## Events")]
    assert whole["metadata"]["heading_path"] == "Architecture > Data Flow"
    chunks = ask("get_page", file_path="guide/a.md")["chunks"]
    part = chunks[2]
    assert "[part 2/" in part["heading_path"]
    alone = ask("get_section", file_path="guide/a.md", heading_path=part["heading_path"])
    assert alone["content"] == part["content"]
    assert alone["metadata"]["heading_path"] == part["heading_path"]
    assert alone["metadata"]["heading_level"] == 2


def test_text_without_a_heading_is_called_root(ask: Ask, put: Put) -> None:
    section = ask("get_section", file_path="plain.md", heading_path="(root)")
    assert section["content"] == FILES["plain.md"]
    assert section["metadata"]["heading_path"] == "(root)"
    assert section["metadata"]["heading_level"] == 1
    put({"above.md": "---\na: b\n---\n\nAbove.\n\n# One\n\nBelow.\n"})
    assert ask("get_section", file_path="above.md", heading_path="(root)")["content"].strip() == (
        "Above."
    )
    put({"long.md": LONG})
    assert (
        ask("get_section", file_path="long.md", heading_path="(root)")["content"]
        == LONG.rstrip("\n") + "\n"
    )


def test_sections_of_one_name_come_together(ask: Ask, put: Put) -> None:
    """Protects against losing one of them: a heading path cannot tell them apart."""
    put({"twice.md": "# Top\n\n## Usage\n\nfirst\n\n## Other\n\n## Usage\n\nsecond\n"})
    section = ask("get_section", file_path="twice.md", heading_path="Top > Usage")
    assert section["content"] == "## Usage\n\nfirst\n\n## Usage\n\nsecond\n"
    page = ask("get_page", file_path="twice.md")
    assert [each["heading_path"] for each in page["chunks"]].count("Top > Usage") == 2


def test_an_unknown_section_is_refused_with_a_hint(refused: Ask) -> None:
    shape = refused("get_section", file_path="guide/a.md", heading_path="Architecture > Event")
    assert shape["code"] == "NOT_FOUND"
    assert "'Architecture > Event'" in shape["error"]
    assert "get_page" in shape["hint"]
    assert "Architecture > Events" in shape["hint"]
    for missing in ("(root)", "Events", "Architecture > Data Flow [part 99/99]"):
        again = refused("get_section", file_path="guide/a.md", heading_path=missing)
        assert again["code"] == "NOT_FOUND"


def test_a_section_is_as_fresh_as_the_disk(ask: Ask, put: Put) -> None:
    put({"guide/b.md": "## Second\n\nOf seals now.\n"})
    assert (
        "walruses"
        not in (ask("get_section", file_path="guide/b.md", heading_path="Second")["content"])
    )
    put({"guide/b.md": "## Second\n\nOf otters now.\n"})
    section = ask("get_section", file_path="guide/b.md", heading_path="Second")
    assert section["content"] == "## Second\n\nOf otters now.\n"


# --- list_pages ---------------------------------------------------------------------------------


def test_pages_are_listed_by_path(ask: Ask, unmet: Unmet, docs: Path) -> None:
    os.utime(docs / "guide/a.md", (1_700_000_000, 1_700_000_000))
    found = ask("list_pages")
    assert unmet("anvil", "list_pages", found) == []
    assert set(found) == {"pages", "total_pages"}
    assert found["total_pages"] == 3
    page = ask("get_page", file_path="guide/a.md")
    assert found["pages"][0] == {
        "file_path": "guide/a.md",
        "title": "Architecture",
        "headings": ["Architecture", "Architecture > Data Flow", "Architecture > Events"],
        "chunk_count": len(page["chunks"]),
        "total_chars": page["total_chars"],
        "last_modified": "2023-11-14T22:13:20Z",
    }
    assert [(each["file_path"], each["title"], each["headings"]) for each in found["pages"]] == [
        ("guide/a.md", "Architecture", found["pages"][0]["headings"]),
        ("guide/b.md", "b", ["Second"]),
        ("plain.md", "plain", []),
    ]


def test_headings_are_listed_once(ask: Ask, put: Put) -> None:
    put({"twice.md": "# Top\n\n## Usage\n\na\n\n### Deep\n\n## Usage\n\nb\n\n# Next\n\n## Usage\n"})
    (page,) = [each for each in ask("list_pages")["pages"] if each["file_path"] == "twice.md"]
    assert page["headings"] == ["Top", "Top > Usage", "Next", "Next > Usage"]


@pytest.mark.parametrize(
    ("prefix", "files"),
    [
        ("", ["guide/a.md", "guide/b.md", "plain.md"]),
        ("guide", ["guide/a.md", "guide/b.md"]),
        ("guide/", ["guide/a.md", "guide/b.md"]),
        ("./guide//", ["guide/a.md", "guide/b.md"]),
        ("/", ["guide/a.md", "guide/b.md", "plain.md"]),
        ("gui", []),
        ("guide/a.md", []),
        ("nowhere", []),
    ],
)
def test_the_prefix_is_a_folder(ask: Ask, prefix: str, files: list[str]) -> None:
    found = ask("list_pages", prefix=prefix)
    assert [each["file_path"] for each in found["pages"]] == files
    assert found["total_pages"] == len(files)


def test_files_without_text_are_not_listed(ask: Ask) -> None:
    names = {each["file_path"] for each in ask("list_pages")["pages"]}
    assert names.isdisjoint({"empty.md", "blank.md", "other.txt"})


def test_the_list_is_as_fresh_as_the_disk(ask: Ask, put: Put, docs: Path) -> None:
    assert ask("list_pages")["total_pages"] == 3
    put({"guide/c.md": "# Third\n\nnew\n"})
    (docs / "plain.md").unlink()
    assert [each["title"] for each in ask("list_pages")["pages"]] == ["Architecture", "b", "Third"]


# --- what it may cost ---------------------------------------------------------------------------


def spent(shape: dict[str, Any]) -> int:
    return tokens(json.dumps(shape, ensure_ascii=False, separators=(",", ":")))


def test_no_result_is_over_the_budget(ask: Ask, put: Put) -> None:
    """Protects a model's context: what is too long is cut, and the note says how to go on."""
    # Quotes and line ends are longer in JSON than they look.
    block = "```\n" + 'say "gnu" now\n' * 9000 + "```\n"
    put({"huge.md": f"# Huge\n\n{block}\n## Small\n\nsaid\n"})
    put({f"flat/{'n' * 60}{n}.md": f"# Page {n}\n\n## H{n}\n\ntext\n" for n in range(900)})
    found = ask("search_docs", query="gnu", top_k=20)
    assert 15_000 < spent(found) <= 20_000
    assert found["results"][0]["truncated"] is True
    assert found["results"][0]["metadata"]["char_count"] > 100_000
    assert "fewer" in found["note"]
    page = ask("get_page", file_path="huge.md")
    assert 15_000 < spent(page) <= 20_000
    assert page["total_chars"] > 100_000
    assert "next_cursor" in page["note"]
    section = ask("get_section", file_path="huge.md", heading_path="Huge")
    assert 15_000 < spent(section) <= 20_000
    assert section["truncated"] is True
    assert section["metadata"]["char_count"] > 100_000
    assert section["content"] == block_start(section["content"], f"# Huge\n\n{block}")
    pages = ask("list_pages")
    assert 15_000 < spent(pages) <= 20_000
    assert len(pages["pages"]) < pages["total_pages"] == 904
    assert "next_cursor" in pages["note"]


def block_start(shown: str, whole: str) -> str:
    return whole[: len(shown)]


# --- several folders ----------------------------------------------------------------------------


class TestSeveralFolders:
    @pytest.fixture
    def roots(self, docs: Path, put: Put, tmp_path: Path) -> tuple[Path, ...]:
        notes = tmp_path / "notes"
        put({"plain.md": "# Notes\n\nNarwhals in notes.\n", "x/y.md": "# Y\n\nyak\n"}, notes)
        return (docs, notes)

    def test_paths_begin_with_their_collection_and_lead_back(self, ask: Ask) -> None:
        found = ask("search_docs", query="narwhals", top_k=2)
        assert set(paths(found)) == {"docs/plain.md", "notes/plain.md"}
        for each in found["results"]:
            path = each["metadata"]["file_path"]
            page = ask("get_page", file_path=path)
            assert (page["file_path"], page["chunks"][0]["content"]) == (path, each["content"])
            section = ask(
                "get_section", file_path=path, heading_path=each["metadata"]["heading_path"]
            )
            assert section["metadata"]["file_path"] == path

    def test_pages_of_all_are_listed(self, ask: Ask) -> None:
        names = [each["file_path"] for each in ask("list_pages")["pages"]]
        assert names == [
            "docs/guide/a.md", "docs/guide/b.md", "docs/plain.md", "notes/plain.md", "notes/x/y.md",
        ]  # fmt: skip
        assert ask("list_pages", prefix="notes/x")["total_pages"] == 1
        assert ask("list_pages", prefix="notes")["total_pages"] == 2

    @pytest.mark.parametrize(
        ("file_filter", "files"),
        [
            ("", {"docs/plain.md", "notes/plain.md", "notes/x/y.md"}),
            ("notes/", {"notes/plain.md", "notes/x/y.md"}),
            ("no", {"notes/plain.md", "notes/x/y.md"}),
            ("notes/x", {"notes/x/y.md"}),
            ("notes/*/y.md", {"notes/x/y.md"}),
            ("plain.*", {"docs/plain.md", "notes/plain.md"}),
            ("**/plain.md", {"docs/plain.md", "notes/plain.md"}),
        ],
    )
    def test_filters_take_the_same_paths(self, ask: Ask, file_filter: str, files: set[str]) -> None:
        found = ask("search_docs", query="narwhals yak", top_k=20, file_filter=file_filter)
        assert set(paths(found)) & {"docs/plain.md", "notes/plain.md", "notes/x/y.md"} == files

    def test_a_path_of_no_collection_is_refused(self, refused: Ask) -> None:
        for shape in (
            refused("get_page", file_path="plain.md"),
            refused("search_docs", query="x", file_filter="other/plain"),
            refused("search_docs", query="x", file_filter="x/*.md"),
        ):
            assert "docs, notes" in shape["hint"]
        assert refused("get_page", file_path="docs/../notes/plain.md")["code"] == "OUTSIDE_ROOT"
