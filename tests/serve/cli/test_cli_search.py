"""``lookfar search``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lookfar.model import Answer, Hit, Span, State
from lookfar.serve.show import render

Ask = Callable[..., dict[str, Any]]
Run = Callable[..., Result]


ANSWER_KEYS = [
    *("query", "mode", "hits", "generation", "generations", "took_ms", "incomplete", "documents"),
    *("total", "confidence", "units"),
]
HIT_TYPES = {
    "collection": str, "uri": str, "title": str, "heading_path": list,
    "start": int, "end": int, "start_line": int, "end_line": int,
    "sha256": str, "lane": str, "score": float, "text": str,
    "truncated": bool, "state": str, "chunk_id": str, "stale": list, "comment": bool,
    "also": list, "also_more": int, "focus": list, "extracted": bool, "place": str,
    "places": list,
}  # fmt: skip


def test_hits_as_text(handbook: Path, run: Run) -> None:
    result = run("search", "roll back a release", handbook)
    assert result.exit_code == 0
    first, breadcrumb, *_ = result.stdout.splitlines()
    assert first.startswith("1. operations/releases.md:")
    assert breadcrumb.strip().startswith("Releases")
    assert "deploy rollback" in result.stdout
    footer = result.stdout.splitlines()[-1]
    assert " hits, " in footer
    assert "generation 1" in footer
    assert "\x1b" not in result.stdout


def test_an_unindexed_folder_is_indexed_first_with_a_notice(handbook: Path, run: Run) -> None:
    assert "indexing it first" in run("search", "keys", handbook).stderr
    assert run("search", "keys", handbook).stderr == ""


def test_the_json_shape_is_pinned(handbook: Path, ask: Ask) -> None:
    shape = ask("search", "rotate the signing key", handbook)
    assert list(shape) == ANSWER_KEYS
    assert (shape["query"], shape["mode"]) == ("rotate the signing key", "hybrid")
    assert shape["incomplete"] == []
    assert shape["hits"]
    for hit in shape["hits"]:
        assert {key: type(value) for key, value in hit.items()} == HIT_TYPES


def test_explain_adds_the_explanation(handbook: Path, ask: Ask, run: Run) -> None:
    hit = ask("search", "signing key", handbook, "--explain")["hits"][0]
    assert set(hit) == {*HIT_TYPES, "explanation"}
    assert all(list(part) == ["stage", "value", "note"] for part in hit["explanation"])
    assert hit["explanation"]
    assert "keyword" in run("search", "signing key", handbook, "--explain").stdout


def test_incomplete_answers_say_so(handbook: Path, ask: Ask, run: Run) -> None:
    ask("index", handbook)
    for number in range(40):
        (handbook / f"late-{number}.md").write_text(f"# Late {number}\n\nkeys\n")
    (note,) = ask("search", "keys", handbook)["incomplete"]
    assert list(note) == ["reason", "detail", "uris"]
    assert note["reason"] == "stale"
    assert "late-0.md" in note["uris"]
    assert "Incomplete (stale)" in run("search", "keys", handbook).stdout


@pytest.mark.parametrize("model", ["hash", "static"])
def test_every_cited_span_is_in_the_files(handbook: Path, ask: Ask, model: str) -> None:
    """Check each citation against the file with an independent reader."""
    (handbook / "windows.md").write_bytes(
        b"\xef\xbb\xbf# Windows\r\n\r\nKeys on r\xc3\xa9seau \xe6\xbc\xa2\xe5\xad\x97\r\rend"
    )
    hits = []
    for query in ("keys", "roll back", "first week", "漢字 réseau", "release migration"):
        hits += ask("search", query, handbook, "-k", "50", model=model)["hits"]
    assert {hit["uri"] for hit in hits} >= {"windows.md", "security/keys.md", "onboarding.md"}
    for hit in hits:
        raw = (handbook / hit["uri"]).read_bytes().decode("utf-8-sig")
        text = "\n".join(raw.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        text += "" if text.endswith("\n") else "\n"
        cited = text[hit["start"] : hit["end"]]
        assert cited == hit["text"], "nothing here is long enough to be cut"
        assert hit["sha256"] == hashlib.sha256(cited.encode()).hexdigest()
        assert hit["start_line"] == text[: hit["start"]].count("\n") + 1
        assert hit["end_line"] == text[: hit["end"] - 1].count("\n") + 1
        assert hit["state"] == "same"


def test_no_hits_is_not_an_error(handbook: Path, ask: Ask, run: Run) -> None:
    arguments = ("search", "zyzzyva", handbook, "--mode", "keyword")
    assert run(*arguments).exit_code == 0
    assert "Nothing found." in run(*arguments).stdout
    assert ask(*arguments)["hits"] == []


def test_filters(handbook: Path, ask: Ask) -> None:
    def uris(*options: str) -> set[str]:
        answer = ask("search", "keys release change", handbook, "-k", "50", *options)
        return {hit["uri"] for hit in answer["hits"]}

    assert uris("--prefix", "security/") == {"security/keys.md"}
    assert uris("--glob", "operations/*.md") <= {
        "operations/releases.md",
        "operations/migrations.md",
    }
    assert uris("--uri", "onboarding.md", "--uri", "security/keys.md") <= {
        "onboarding.md",
        "security/keys.md",
    }
    assert uris("--tag", "security") == {"security/keys.md"}
    assert uris("--heading", "Keys") == {"security/keys.md"}
    assert uris("--prefix", "absent/") == set()


def test_top_k_and_mode(handbook: Path, ask: Ask) -> None:
    answer = ask("search", "release", handbook, "-k", "1", "--mode", "vector")
    assert (len(answer["hits"]), answer["mode"]) == (1, "vector")


def test_an_earlier_generation_can_be_searched(handbook: Path, ask: Ask, run: Run) -> None:
    ask("index", handbook)
    (handbook / "new.md").write_text("# Zyzzyva\n\nzyzzyva\n")
    ask("index", handbook)
    arguments = ("search", "zyzzyva", handbook, "--mode", "keyword")
    assert len(ask(*arguments)["hits"]) == 1
    assert ask(*arguments, "--as-of", "1")["hits"] == []
    missing = run(*arguments, "--as-of", "99")
    assert missing.exit_code not in (0, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (("",), "INVALID_ARGUMENT", 2),
        (("  \n",), "INVALID_ARGUMENT", 2),
        (("keys", "-k", "0"), "INVALID_ARGUMENT", 2),
        (("keys", "-k", "many"), "INVALID_ARGUMENT", 2),
        (("keys", "--mode", "magic"), "INVALID_ARGUMENT", 2),
        (("keys", "--glob", "[z-a]{"), "INVALID_PATTERN", 2),
        (("keys", "--set", "embed.model=absent.npz", "--set", "embed.provider=static"), None, None),
    ],
)
def test_bad_questions(
    arguments: tuple[str, ...], code: str | None, exit_code: int | None, handbook: Path, run: Run
) -> None:
    query, *options = arguments
    model = "static" if code is None else "hash"
    result = run("search", query, handbook, *options, model=model)
    assert result.exit_code == (exit_code or 7)
    assert f"error {code or 'MODEL_UNAVAILABLE'}: " in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("roll", "back"), '"roll back"'),
        (("how", "do", "I", "roll", "back"), '"how do I roll back"'),
    ],
)
def test_missing_quotes_are_noticed(
    words: tuple[str, ...],
    suggestion: str,
    handbook: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(handbook)
    result = run("search", *words)
    assert result.exit_code in (2, 3)
    assert f"lookfar search {suggestion}" in result.stderr
    with_folder = run("search", *words, "operations")
    assert f"lookfar search {suggestion} operations" in with_folder.stderr


def test_a_wrong_number_of_hits_is_refused_before_anything_is_indexed(
    handbook: Path, run: Run
) -> None:
    """A typo must be reported at once, not after a minute of indexing."""
    result = run("search", "keys", handbook, "-k", "0")
    assert "indexing" not in result.stderr


def test_an_empty_folder_says_that_it_is_empty(tmp_path: Path, run: Run) -> None:
    """An empty folder must not be reported as "Nothing found."."""
    (tmp_path / "empty").mkdir()
    result = run("search", "keys", tmp_path / "empty")
    assert result.exit_code == 0
    assert "Incomplete (no_documents): No files were indexed" in result.stdout


def test_a_file_in_place_of_the_index_folder_is_reported(
    handbook: Path, tmp_path: Path, run: Run
) -> None:
    """It must not be reported as a disk failure."""
    file = tmp_path / "file"
    file.write_text("mine")
    result = run("search", "keys", handbook, "--index-dir", file)
    assert "Expected a folder but found a file" in result.stderr
    assert "--index-dir" in result.stderr
    assert file.read_text() == "mine"


def test_a_long_line_is_cut_around_its_match(tmp_path: Path, run: Run) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\n" + "filler " * 300 + "zyzzyva " + "more " * 99)
    output = run("search", "zyzzyva", tmp_path / "docs").stdout
    assert " zyzzyva more" in output
    assert max(map(len, output.splitlines())) < 200


def test_a_stale_citation_is_marked() -> None:
    span = Span(0, 5, 1, 1)
    words: dict[State, str] = {"changed": "CHANGED", "gone": "GONE", "moved": "moved"}
    for state, word in words.items():
        hit = Hit("c", "a.md", "", ("A",), span, "", "docs", 1.0, "text\n", False, state, "")
        assert word in render.answer(Answer("q", "hybrid", (hit,), {"c": 1}, 1.0))


def test_the_home_folder_is_indexed_only_on_purpose(
    run: Run, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_home / "note.md").write_text("# Note\n\nThe walrus.\n", encoding="utf-8")
    monkeypatch.chdir(own_home)
    for arguments in (("search", "walrus"), ("search", "walrus", own_home)):
        refused = run(*arguments)
        assert (refused.exit_code, "INVALID_ARGUMENT" in refused.stderr) == (2, True)
        assert f"lookfar index {own_home}" in refused.stderr.replace('"', "")
    assert run("index", own_home).exit_code == 0
    assert "note.md" in run("search", "walrus").stdout


def test_a_whole_disk_is_not_indexed_by_a_question(run: Run) -> None:
    refused = run("search", "walrus", Path.cwd().anchor)
    assert (refused.exit_code, "INVALID_ARGUMENT" in refused.stderr) == (2, True)


def test_the_number_of_hits_has_the_name_that_other_commands_have(handbook: Path, ask: Ask) -> None:
    assert len(ask("search", "key", handbook, "--limit", 2)["hits"]) == 2


def test_a_missing_path_is_not_read_as_a_query_word(run: Run) -> None:
    result = run("search", "keys", "./no/such/folder")
    assert result.exit_code == 3
    assert "quotes" not in result.stderr


def test_the_folder_defaults_to_the_current_one(
    handbook: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(handbook)
    assert ask("search", "signing key")["hits"][0]["uri"] == "security/keys.md"


def test_the_bundled_model_finds_other_words(handbook: Path, ask: Ask) -> None:
    answer = ask("search", "revert a faulty deployment", handbook, model="static")
    assert answer["hits"][0]["uri"] == "operations/releases.md"
