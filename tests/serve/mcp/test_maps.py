"""Maps, several questions at once, lines like grep, and several targets, as a client meets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal

from lookfar.retrieve.answer.pack import tokens
from sample_files import write_files
from serve.mcp.served import Agent, Home, in_memory, said, texts

FILES = {
    "guide.md": "# Guide\n\nIntroduction.\n\n## Releases\n\nTo revert a release, tag the last good"
    " commit again.\n\n## Keys\n\nThe signing key rotates every ninety days.\n",
    "notes/harbour.md": "# Harbour\n\nBoats moor at the long pier.\nA berth costs twelve coins.\n",
    "src/tool.py": '"""A tool."""\n\nLIMIT = 7\n\n\ndef revert(release):\n    return LIMIT\n',
    "node_modules/out.md": "# Built\n\nNothing to see.\n",
    "src/deep/more.py": "def other():\n    return 'Boats'\n",
    "long.md": "# Long\n\n"
    + "\n".join(f"## Part {n}\n\n" + "Words of a part.\n" * 40 for n in range(30)),
}


@pytest.fixture(scope="module")
def local(portal: BlockingPortal, home: Home, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = write_files(tmp_path_factory.mktemp("mapped") / "docs", FILES)
    with in_memory(portal, home, root) as agent:
        yield agent


def data(result: types.CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None
    return result.structured_content


def test_a_map_names_documents_and_shows_what_answers(local: Agent) -> None:
    result = local.call("search", query="how do I revert a release")
    lines = said(result).split("\n")
    assert "guide.md" in [line.split("  ")[0] for line in lines]
    assert any("tag the last good commit" in line and line.startswith("  ") for line in lines)
    assert len(result.content) == 1
    hit = data(result)["hits"][0]
    assert "text" not in hit, "no text comes twice"
    assert hit["focus"][0]["start_line"] >= hit["start_line"]
    assert data(result)["tokens"] <= tokens(said(result)) < 1_000


def test_paths_alone(local: Agent) -> None:
    result = local.call("search", query="revert a release", detail="paths")
    assert "guide.md:" in said(result)
    assert "last good" not in said(result)


def test_several_questions_share_one_answer(local: Agent) -> None:
    queries = ["how do I revert a release", "what does a berth cost", "when do keys rotate"]
    result = local.call("search", queries=queries)
    assert [line[:3] for line in said(result).split("\n") if line.startswith("[")] == [
        "[1]", "[2]", "[3]",
    ]  # fmt: skip
    assert "twelve coins" in said(result)
    answers = data(result)["answers"]
    assert [answer["query"] for answer in answers] == queries
    assert answers[1]["hits"][0]["uri"] == "notes/harbour.md"
    alone = sum(tokens(said(local.call("search", query=query))) for query in queries)
    assert tokens(said(result)) < alone


@pytest.mark.parametrize("detail", ["map", "passages"])
def test_a_remark_stands_with_its_own_question(local: Agent, detail: str) -> None:
    """Seen to fail when remarks stood once, below all answers."""
    queries = ["how do I revert a release", '"berth boats keys"', "when do keys rotate"]
    result = local.call("search", queries=queries, detail=detail)
    lines = said(result).split("\n")
    remarks = [at for at, line in enumerate(lines) if "searched its words instead" in line]
    assert len(remarks) == 1
    labelled = lines[remarks[0] - 1] if detail == "map" else lines[remarks[0]]
    assert labelled.startswith("[2] ")


def test_a_cursor_alone_continues(local: Agent) -> None:
    first = local.call("search", query="release key berth boats part", top_k=2)
    cursor = data(first)["cursor"]
    assert cursor in said(first)
    second = local.call("search", cursor=cursor)
    seen = {hit["uri"] for hit in data(first)["hits"]}
    assert not seen & {hit["uri"] for hit in data(second)["hits"]}
    assert data(second)["hits"]
    both = local.call("search", query="release key berth boats part", top_k=2, cursor=cursor)
    assert said(both) == said(second)


def test_an_unknown_cursor_says_what_to_do(local: Agent) -> None:
    refusal = local.refused("search", cursor="search-2-0-0123456789ab")
    assert refusal["code"] == "INVALID_ARGUMENT"
    assert "arguments" in refusal["hint"]


# --- probes of any kind ---------------------------------------------------------------------------


def test_one_call_takes_probes_of_any_kind(local: Agent) -> None:
    queries: list[Any] = [
        "how do I revert a release", '"A berth costs"', "/def \\w+\\(/", "src/tool.py#revert",
        "notes/harbour.md:3-4", "nowhere.md:3-4", {"query": "boats", "kinds": ["code"], "limit": 1},
        '{"query": "boats", "glob": ["**", "!src/**"]}',
    ]  # fmt: skip
    result = local.call("search", queries=queries)
    parts = said(result).split("\n\n")
    assert parts[1].startswith('[2] "A berth costs": 1 line in 1 file\nnotes/harbour.md\n  4: A')
    assert parts[2].startswith("[3] /def \\w+\\(/: 2 lines in 2 files\n")
    assert parts[3] == (
        "[4] src/tool.py#revert\nsrc/tool.py\n  6-7 revert\n    6| def revert(release):\n"
        "    7|     return LIMIT"
    )
    assert "    4| A berth costs twelve coins." in parts[4]
    assert parts[5].startswith("[6] nowhere.md:3-4\n")
    answers = data(result)["answers"]
    assert [sorted({"hits", "files", "reading"} & set(answer)) for answer in answers] == [
        ["hits"], ["files"], ["files"], ["reading"], ["reading"], ["hits"], ["hits"], ["hits"],
    ]  # fmt: skip
    assert parts[6].split("\n")[1:] == ["src/deep/more.py  other:2"], "shown above"
    assert "notes/harbour.md" in parts[7]
    assert "src/" not in parts[7]


def test_an_invalid_probe_does_not_cost_the_answers_of_the_others(local: Agent) -> None:
    """Seen to fail when the first invalid expression refused the whole call."""
    queries = ["/(?!x)y/", '"a<b"', "Where are gulls painted?"]
    result = local.call("search", queries=queries)
    shown = said(result)
    assert "[1] /(?!x)y/: not searched: The expression is not valid: (?! is not supported." in shown
    assert "[3] Where are gulls painted?" in shown
    answers = data(result)["answers"]
    assert answers[0]["error"]["code"] == "INVALID_ARGUMENT"
    assert answers[2]["hits"]


def test_an_unknown_field_of_a_probe_is_named(local: Agent) -> None:
    refusal = local.refused("search", queries=[{"query": "/x/", "context": 2}])
    assert "has no argument 'queries.0.context'" in refusal["message"]
    assert refusal["hint"].endswith("or {query, limit, kinds, glob}.")


def test_a_remark_of_several_probes_stands_with_each(local: Agent) -> None:
    """Protects against a remark that stands below all answers and belongs to none."""
    result = local.call("search", queries=['"berth boats keys"', '"pier coins keys"', "boats"])
    parts = said(result).split("\n\n")
    assert ["searched its words instead" in part for part in parts[:3]] == [True, True, False]


def test_a_quoted_text_that_no_line_has_is_asked_as_words(local: Agent) -> None:
    assert data(local.call("search", query='"pier berth"'))["hits"][0]["uri"] == "notes/harbour.md"
    assert data(local.call("search", query='"twelve coins"'))["files"][0]["count"] == 1


def test_probes_of_any_kind_are_continued_together(local: Agent) -> None:
    queries: list[Any] = [{"query": "/return/", "limit": 1}, "src/tool.py:1-2"]
    first = local.call("search", queries=queries)
    second = local.call("search", cursor=data(first)["cursor"])
    found = [data(page)["answers"][0]["files"][0]["uri"] for page in (first, second)]
    assert found == ["src/deep/more.py", "src/tool.py"]


def test_paths_are_excluded(local: Agent) -> None:
    for given in (
        {"exclude": "src/**"}, {"exclude": ["src/**", "long.md"]}, {"glob": "!src/**"},
        {"glob": ["*.md", "*.py", "!src/**"]},
    ):  # fmt: skip
        lines = local.call("search", query="boats", mode="literal", **given)
        assert [file["uri"] for file in data(lines)["files"]] == ["notes/harbour.md"], given
        hits = data(local.call("search", query="boats", **given))["hits"]
        assert hits, given
        assert not any(hit["uri"].startswith("src/") for hit in hits), given
    assert "src/tool.py" in said(local.call("search", exclude="*.md"))


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ('why is there "at the long pier" in the harbour', "at the long pier"),
        ("what does --berth-costs do", ""),
        ("why is the `pier` long", ""),
    ],
)
def test_lines_with_a_quoted_message_come_first(local: Agent, query: str, quoted: str) -> None:
    said_first = said(local.call("search", query=query)).split("\n")
    expected = [f"Lines with {quoted}: 1 line in 1 file", "notes/harbour.md"]
    assert (said_first[:2] == expected) is bool(quoted)


def test_a_question_about_commits_says_that_there_are_none(local: Agent) -> None:
    history = said(local.call("search", query="which commit added the harbour"))
    assert "no commits are indexed here" in history
    assert "commits" not in said(local.call("search", query="how do I add a harbour"))


def test_lines_stand_below_the_definition_around_them(local: Agent) -> None:
    result = local.call("search", query="return", mode="literal")
    assert "src/tool.py\n revert\n  7:     return LIMIT" in said(result)


# --- lines ----------------------------------------------------------------------------------------


def test_literal_text_is_found_as_grep_finds_it(local: Agent) -> None:
    result = local.call("search", query="A berth costs", mode="literal")
    assert said(result) == "1 line in 1 file\nnotes/harbour.md\n  4: A berth costs twelve coins."
    [file] = data(result)["files"]
    assert (file["uri"], file["count"]) == ("notes/harbour.md", 1)
    assert file["lines"][0]["number"] == 4
    assert "text" not in file["lines"][0], "no text comes twice"


def test_lower_case_matches_any_case(local: Agent) -> None:
    assert data(local.call("search", query="boats", mode="literal"))["matches"] == 2
    assert data(local.call("search", query="BOATS", mode="literal"))["matches"] == 0
    assert "No line matches" in said(local.call("search", query="BOATS", mode="literal"))


def test_expressions(local: Agent) -> None:
    result = local.call("search", query=r"def \w+\(release", mode="regex", context=1)
    assert "  6: def revert(release):\n  7|     return LIMIT" in said(result)
    refusal = local.refused("search", query="(unclosed", mode="regex")
    assert refusal["code"] == "INVALID_ARGUMENT"


def test_paths_and_counts_alone(local: Agent) -> None:
    result = local.call("search", query="Words of", mode="literal", detail="paths")
    assert said(result) == "1200 lines in 1 file\nlong.md (1200)".replace(
        "1200 lines", "1,200 lines"
    )


def test_several_patterns_and_the_rest_by_cursor(local: Agent) -> None:
    result = local.call("search", queries=["return", "berth"], mode="literal")
    assert "[1] return: 2 lines in 2 files" in said(result)
    assert "[2] berth: 1 line in 1 file" in said(result)
    first = local.call("search", query="return", mode="literal", top_k=1)
    second = local.call("search", cursor=data(first)["cursor"])
    uris = [file["uri"] for page in (first, second) for file in data(page)["files"]]
    assert uris == ["src/deep/more.py", "src/tool.py"]
    assert data(second)["cursor"] == ""


@pytest.mark.parametrize("mode", ["literal", "hybrid"])
def test_a_glob_that_matches_nothing_is_reported(local: Agent, mode: str) -> None:
    result = local.call("search", query="other", mode=mode, glob="src/*.pyx")
    assert "no indexed path matches the glob" in said(result)


@pytest.mark.parametrize("mode", ["literal", "hybrid"])
def test_what_is_skipped_is_reported_where_it_is_asked_for(local: Agent, mode: str) -> None:
    result = local.call("search", query="see", mode=mode, prefix="node_modules/")
    assert "node_modules is skipped (denied: node_modules/" in said(result)
    refusal = local.refused("read", target="node_modules/out.md")
    assert "node_modules is skipped (denied: node_modules/" in refusal["hint"]
    assert "skipped" not in local.refused("read", target="nowhere.md")["hint"]


# --- reading --------------------------------------------------------------------------------------


def test_several_targets_share_a_budget(local: Agent) -> None:
    local.call("search", query="anything")
    targets = ["guide.md#Keys", "notes/harbour.md:3-4", "long.md", "nowhere.md"]
    result = local.call("read", targets=targets)
    assert "ninety days" in said(result)
    assert "twelve coins" in said(result)
    assert "Not read: nowhere.md" in said(result)
    assert "cut, the rest: long.md:" in said(result)
    assert tokens(said(result)) < 4_500
    readings = data(result)["readings"]
    assert [reading["uri"] for reading in readings] == [
        "guide.md", "notes/harbour.md", "long.md",
    ]  # fmt: skip
    assert [reading["truncated"] for reading in readings] == [False, False, True]
    rest = said(result).partition("cut, the rest: ")[2].partition("\n")[0]
    whole = FILES["long.md"]
    shown = texts(result)[readings[2]["content"]].partition("\n")[2]
    following = said(local.call("read", target=rest, budget=20_000)).partition("\n")[2]
    assert whole.startswith(shown)
    assert whole[len(shown) :].startswith(following[:1_000])


def test_of_targets_that_all_fail_the_first_error_is_given(local: Agent) -> None:
    refusal = local.refused("read", targets=["nowhere.md", "either.md"])
    assert refusal["code"] == "NOT_FOUND"
    assert "nowhere.md" in refusal["message"]


def test_a_large_document_is_shown_by_its_outline(local: Agent) -> None:
    local.call("search", query="anything")
    result = local.call("read", target="long.md")
    assert tokens(said(result)) < 1_800
    assert "Part 29" in said(result)
    assert data(result)["outline"][1] == {"line": 3, "level": 2, "title": "Part 0"}
    rest = local.call("read", cursor=data(result)["cursor"])
    begun = texts(result)[data(result)["content"]].partition("\n")[2]
    following = texts(rest)[data(rest)["content"]].partition("\n")[2]
    assert FILES["long.md"].startswith(begun + following)
    whole = local.call("read", target="long.md", budget=19_000)
    assert "outline" not in data(whole)


def test_mentions_have_their_lines(portal: BlockingPortal, home: Home, tmp_path: Path) -> None:
    root = tmp_path / "code"
    root.mkdir()
    (root / "a.py").write_text("def helper():\n    return 1\n", encoding="utf-8")
    (root / "b.py").write_text("from a import helper\n\nhelper()\n", encoding="utf-8")
    with in_memory(portal, home, root) as agent:
        agent.call("search", query="anything")
        result = agent.call("related", target="helper")
        assert "definitions: a.py:1" in said(result)
        assert "mentions: b.py:1" in said(result)


# --- listing --------------------------------------------------------------------------------------


def test_a_filter_without_words_lists_what_it_admits(local: Agent) -> None:
    result = local.call("search", glob="src/**")
    assert said(result).split("\n")[:2] == ["src/deep/more.py  2 lines", "src/tool.py  7 lines"]
    assert [document["uri"] for document in data(result)["documents"]] == [
        "src/deep/more.py", "src/tool.py",
    ]  # fmt: skip
    first = local.call("search", glob="src/**", top_k=1)
    second = local.call("search", cursor=data(first)["cursor"])
    assert data(second)["documents"][0]["uri"] == "src/tool.py"
    assert data(second)["cursor"] == ""


def test_a_listing_moves_on_however_long_a_path_is(
    portal: BlockingPortal, home: Home, tmp_path: Path
) -> None:
    """Seen to fail when a path longer than the budget gave an empty page and the same cursor."""
    folder = tmp_path / "long" / "/".join(["a" * 200] * 3)
    folder.mkdir(parents=True)
    for name in ("one.md", "two.md"):
        (folder / name).write_text("# Text\n\nWords.\n", encoding="utf-8")
    with in_memory(portal, home, tmp_path / "long") as agent:
        first = agent.call("search", glob="**", budget=100)
        second = agent.call("search", cursor=data(first)["cursor"], budget=100)
        uris = [one["uri"] for page in (first, second) for one in data(page)["documents"]]
        assert sorted(uri.rpartition("/")[2] for uri in uris) == ["one.md", "two.md"]


def test_a_place_shows_only_its_own_lines(local: Agent) -> None:
    result = said(local.call("search", query="revert", kinds=["code"], top_k=1))
    assert "def revert" in result
    assert "LIMIT = 7" not in result


def test_the_way_from_one_definition_to_another(
    portal: BlockingPortal, home: Home, tmp_path: Path
) -> None:
    root = tmp_path / "code"
    root.mkdir()
    (root / "a.py").write_text("def helper():\n    return 1\n", encoding="utf-8")
    (root / "b.py").write_text("from a import helper\n\n\ndef run():\n    helper()\n")
    tests = "def test_it():\n    helper()\n\n\ndef test_more():\n    helper()\n"
    (root / "test_b.py").write_text(f"from a import helper\n\n\n{tests}")
    with in_memory(portal, home, root) as agent:
        agent.call("search", query="anything")
        result = agent.call("related", target="run", to="helper")
        assert said(result).split("\n") == [
            "b.py:4-5  run",
            "  4| def run():",
            "  5| helper()",
            "a.py:1-2  helper",
            "  1| def helper():",
            "1 step from run to helper; complete: the index resolved each call.",
        ]
        assert data(result)["complete"]
        back = said(agent.call("related", target="helper", to="run"))
        assert "But run reaches helper: ask for that direction." in back
        assert (
            "to cannot be combined with kinds"
            in (agent.refused("related", target="run", to="helper", kinds=["callers"])["message"])
        )
        callers = said(agent.call("related", target="helper", kinds=["callers"])).split("\n")
        assert callers == ["callers: b.py:5 run", "callers in tests: test_b.py:5, 9"]
