"""``read`` with ``find``: what matters of a long text, and with what it is in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from lookfar.retrieve.answer.pack import tokens
from sample_files import write_files
from serve.mcp.served import Agent, Home, in_memory, said
from serve.mcp.test_maps import data

SHELF = '''"""Shelves."""

LIMIT = 7


class Shelf:
    """Holds boxes."""

    @retried(times=3)
    def put(
        self,
        box: str,
    ) -> None:
        """Store a box."""
{filler}
        if self.full:
            raise Overflow(box)

    def take(self, box: str) -> str:
{filler}
        return self.boxes.pop(box)


def overflow_report() -> str:
{filler}
    return "nothing"
'''
FILES = {
    "src/shelf.py": SHELF.format(filler="\n".join(f"        step({n})" for n in range(60))),
    "guide.md": "# Guide\n\n"
    + "".join(f"## Part {n}\n\n" + "Words of a part.\n" * 40 + "\n" for n in range(30))
    + "## Keys\n\nThe signing key rotates every ninety days.\n",
    "line.md": "# Long\n\n"
    + "filler " * 1_500
    + "the heron nests here "
    + "filler " * 1_500
    + "\n",
    "end.md": "# End\n\n" + "".join(f"Line {n} of a text.\n" for n in range(400)),
}


@pytest.fixture(scope="module")
def local(portal: BlockingPortal, home: Home, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = write_files(tmp_path_factory.mktemp("found") / "docs", FILES)
    with in_memory(portal, home, root) as agent:
        agent.call("search", query="anything")
        yield agent


def number_of(path: str, line: str) -> int:
    return FILES[path].split("\n").index(line) + 1


def test_matching_lines_come_with_the_signature_that_they_are_in(local: Agent) -> None:
    result = local.call("read", target="src/shelf.py", find="raise Overflow")
    text = said(result)
    at = number_of("src/shelf.py", "            raise Overflow(box)")
    assert f"  {at}|             raise Overflow(box)" in text
    assert f"  {at - 1}|         if self.full:" in text
    assert "    @retried(times=3)" in text
    assert "box: str,\n" in text
    assert "Shelf > put" in text
    assert "step(20)" not in text
    assert "1 matching line" in text
    assert data(result)["matches"] == 1


def test_a_class_lists_its_members_and_a_module_its_definitions(local: Agent) -> None:
    take = number_of("src/shelf.py", "    def take(self, box: str) -> str:")
    assert f"Members: put 9, take {take}" in said(
        local.call("read", target="src/shelf.py#Shelf", find="pop")
    )
    module = local.call("read", target="src/shelf.py", find="nowhere-to-be-seen")
    assert "No line matches 'nowhere-to-be-seen'." in said(module)
    assert [member["title"] for member in data(module)["members"]] == [
        "LIMIT", "Shelf", "overflow_report",
    ]  # fmt: skip
    assert "Sections" not in said(local.call("read", target="guide.md", find="ninety"))
    lost = said(local.call("read", target="guide.md", find="nowhere-to-be-seen"))
    assert "Sections: Part 0 3, Part 1 " in lost


def test_a_short_text_is_given_whole_even_if_nothing_matches(local: Agent) -> None:
    """Seen to fail: a mail of nine lines that was chosen for its subject stayed unread."""
    text = said(local.call("read", target="guide.md#Keys", find="expiry of certificates"))
    assert "No line matches 'expiry of certificates'. The text is short; all of it:" in text
    assert "ninety days" in text


@pytest.mark.parametrize(
    ("find", "line"),
    [
        ("ninety", "signing key"),
        ("/rotates every \\w+ days/", "signing key"),
        ("how often are keys rotated?", "signing key"),
        ("Keys", "## Keys"),
    ],
)
def test_words_names_and_expressions_are_found(local: Agent, find: str, line: str) -> None:
    text = said(local.call("read", target="guide.md", find=find))
    assert line in text
    assert "## Keys" in text
    assert tokens(text) < 150


def test_a_long_line_is_shown_around_its_match(local: Agent) -> None:
    text = said(local.call("read", target="line.md", find="heron"))
    assert "the heron nests here" in text
    assert tokens(text) < 300


def test_several_targets_share_a_budget_and_name_what_they_leave_out(local: Agent) -> None:
    result = local.call(
        "read",
        targets=["guide.md", "src/shelf.py", "nowhere.md"],
        find="/part|overflow/",
        budget=600,
    )
    text = said(result)
    assert tokens(text) < 1_000
    assert "Not read: nowhere.md" in text
    assert "raise Overflow(box)" in text, "the small target is not crowded out"
    assert re.search(r"\d+ matching lines; not shown, of guide\.md: \d+, \d+", text)
    guide = data(result)["readings"][0]
    assert guide["matches"] == 1230
    assert 0 < len(guide["left"]) < 1230


def test_an_expression_that_is_wrong_is_refused(local: Agent) -> None:
    refusal = local.refused("read", target="guide.md", find="/(/")
    assert refusal["code"] == "INVALID_ARGUMENT"
    assert (
        "cannot be combined with find"
        in (local.refused("read", target="guide.md", find="x", embeds=True)["message"])
    )


def test_a_text_is_not_cut_just_before_its_end(local: Agent) -> None:
    """Seen to fail: five lines were left for another call."""
    lines = FILES["end.md"].split("\n")
    most = tokens("\n".join(lines[:394]))
    whole = local.call("read", target="end.md:1-402", budget=most)
    assert lines[-2] in said(whole)
    assert not data(whole)["truncated"]
    cut = local.call("read", target="end.md:1-402", budget=most // 2)
    rest = re.search(r"Cut\. The rest: (end\.md:\d+-402), or cursor ", said(cut))
    assert rest is not None
    following = said(local.call("read", target=rest[1])).partition("\n")[2]
    assert FILES["end.md"].endswith(following)
    assert following.split("\n")[0] not in said(cut)


def test_what_is_cut_names_its_members(local: Agent) -> None:
    """Seen to fail: of a class that did not fit, the names of its later methods were missing."""
    take = number_of("src/shelf.py", "    def take(self, box: str) -> str:")
    alone = said(local.call("read", target="Shelf", budget=150))
    assert f"Members: put 9, take {take}" in alone
    together = said(local.call("read", targets=["Shelf", "guide.md"], budget=300))
    assert f" | Members: put 9, take {take} | cut, the rest: " in together
    assert "Sections: Part 0 3, " in together
    assert "Members" not in said(local.call("read", target="Shelf"))
    assert "Members" not in said(local.call("read", target="src/shelf.py:1-60", find="put"))


def test_the_command_line_finds_as_well(tmp_path: Path, run: Any, ask: Any) -> None:
    root = write_files(tmp_path / "docs", FILES)
    assert run("index", root, "--quiet").exit_code == 0
    printed = run("read", "src/shelf.py", root, "--find", "raise Overflow").stdout
    assert "def put(" in printed
    assert printed.endswith("1 matching line in src/shelf.py\n")
    assert ask("read", "guide.md", root, "--find", "ninety")["matches"] == 1
    refused = run("read", "guide.md", root, "--find", "x", "--at", "today")
    assert refused.exit_code == 2
