"""Settings in TOML: our table comes and goes, and every comment stays where it was."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from lookfar.serve.setup import toml_text
from lookfar.serve.setup.malformed import Malformed

PATH = ("mcp_servers", "lookfar")
ENTRY: dict[str, Any] = {"command": 'C:\\"x"\\lookfar', "args": ["mcp", "ü\x7f"], "wait": 30}

PLAIN = {
    "empty": "",
    "only a comment": "# mine\n",
    "no end of line": 'model = "o"',
    "servers": '# top\nmodel = "o" # why\n\n[mcp_servers.a]\nargs = [\n  "x", # y\n]\n',
    "another table last": '[mcp_servers.a]\ncommand = "a"\n\n[tui]\ntheme = "dark"\n# the end\n',
    "carriage returns": 'model = "o"\r\n[mcp_servers.a]\r\ncommand = "a"\r\n',
    "dotted": 'mcp_servers.a.command = "a"\n',
    "looks like ours": 'note = """\n[mcp_servers.lookfar]\ncommand = "" \\"" \n"""\n[x]\ny = 1\n',
    "literal": "note = '''\n[mcp_servers.lookfar]''''\nq = 'a#b' # c\n",
    "array of tables": '[[hook]]\nname = "[x]"\n[[hook]]\nname = "y"\n',
}


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_a_table_is_added_once_and_removed(text: str) -> None:
    after = toml_text.put(text, PATH, ENTRY)
    assert after.startswith(text)
    found = tomllib.loads(after)
    assert found["mcp_servers"].pop("lookfar") == ENTRY
    if "mcp_servers" not in tomllib.loads(text):
        assert found.pop("mcp_servers") == {}
    assert found == tomllib.loads(text)
    assert toml_text.put(after, PATH, ENTRY) == after
    ended = text if not text or text.endswith("\n") else text + "\n"
    assert toml_text.drop(after, PATH) == ended
    assert ("\r\n" in text) == ("\r\n[mcp_servers.lookfar]\r\n" in after)


OURS = {
    "table": (
        '[mcp_servers.lookfar] # ours\ncommand = "old" # why\nenabled = false\n\n'
        '[mcp_servers.lookfar.env]\nA = "1"\n\n# next\n[z]\nq = 1\n'
    ),
    "args over lines": (
        '[mcp_servers.lookfar]\nargs = [ # inside\n  "old", # inside\n] # out\n'
        'command = "old"\n[z]\nq = 1\n'
    ),
    "only a part of it": '[mcp_servers.lookfar.env]\nA = "1"\n[z]\nq = 1\n',
    "empty": "[mcp_servers.lookfar]\n[z]\nq = 1\n",
    "at the end of the file": '[z]\nq = 1\n[mcp_servers.lookfar]\ncommand = "old"',
    "quoted": "[ 'mcp_servers' . \"lookfar\" ]\n\"command\" = 'old'\n[z]\nq = 1\n",
    "dotted": 'mcp_servers.lookfar.command = "old"\nq = 1\n',
    "in its parent": '[mcp_servers]\nlookfar.command = "old"\na.command = "a"\n[z]\nq = 1\n',
    "inline": '[mcp_servers]\nlookfar = { command = "old", env = { A = "1" } } # c\n[z]\nq = 1\n',
}


@pytest.mark.parametrize("text", OURS.values(), ids=OURS)
def test_an_existing_table_is_updated(text: str) -> None:
    before = tomllib.loads(text)
    after = toml_text.put(text, PATH, ENTRY)
    wanted = {**before["mcp_servers"], "lookfar": {**before["mcp_servers"]["lookfar"], **ENTRY}}
    assert tomllib.loads(after) == {**before, "mcp_servers": wanted}
    for line in text.splitlines():
        _, hash_, comment = line.partition("#")
        # A comment inside a value is removed with it.
        assert "inside" in comment or hash_ + comment in after
    assert toml_text.put(after, PATH, ENTRY) == after
    gone = tomllib.loads(toml_text.drop(after, PATH))
    rest = {key: value for key, value in before["mcp_servers"].items() if key != "lookfar"}
    assert gone.get("mcp_servers", {}) == rest
    assert gone.get("z", {"q": 1}) == {"q": 1}


def test_comments_above_the_next_table_are_not_ours() -> None:
    text = OURS["table"]
    assert toml_text.drop(text, PATH) == "\n\n# next\n[z]\nq = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "= 1",
        "[mcp_servers",
        'mcp_servers = { a = { command = "a" } }\n',
        "mcp_servers = 3\n",
        '[mcp_servers]\nlookfar = "x"\n',
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        toml_text.put(text, PATH, ENTRY)


def test_what_cannot_be_removed_safely_is_refused() -> None:
    with pytest.raises(Malformed, match="the way this file is written"):
        toml_text.drop('mcp_servers = { lookfar = { command = "a" } }\n', PATH)


def test_removing_a_missing_table_changes_nothing() -> None:
    for text in ("", "a = 1\n", "mcp_servers = 3\n", '[mcp_servers.a]\ncommand = "a"\n'):
        assert toml_text.drop(text, PATH) == text
