"""The tool ``edit``, as agents use it: read a part, change it, find it, take it back."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal

from lookfar import config
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.services import Offer
from lookfar.serve.mcp.changes import Changes
from serve.mcp.served import (
    LEGACY,
    MODERN,
    Agent,
    Home,
    connected,
    http,
    said,
    stdio,
    texts,
    write_documents,
)
from waiting import DEADLINE, wait_for

STALE = "0" * 64


@contextmanager
def served(
    portal: BlockingPortal,
    home: Home,
    *roots: Path,
    era: str = LEGACY,
    name: str = "tester",
    write: bool = True,
    **chosen: Any,
) -> Iterator[Agent]:
    """A server that may write, in this process, over folders that are indexed."""
    pool, changes = Pool(), Changes()
    portal.call(changes.bind_loop)
    settings = home.settings | {"serve.write": write, "watch.enabled": False} | chosen
    offer = Offer.from_settings(config.load(roots[0], settings, {}))
    try:
        with pool.session(
            list(map(str, roots)), settings=settings, environ={}, write=offer.write, changes=changes
        ) as session:
            server = offer.make_server(session, changes)
            with connected(portal, server, roots[0], mode=era, name=name) as agent:
                agent.call("search", query="installer")
                yield agent
    finally:
        pool.close()


@pytest.fixture
def agent(portal: BlockingPortal, home: Home, docs: Path) -> Iterator[Agent]:
    with served(portal, home, docs) as agent:
        yield agent


def data(result: types.CallToolResult) -> dict[str, Any]:
    shape = result.structured_content
    assert shape is not None
    return shape


def edit(agent: Agent, *edits: dict[str, Any], **more: Any) -> types.CallToolResult:
    return agent.call("edit", edits=list(edits), **more)


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def found(agent: Agent, query: str) -> list[str]:
    hits = data(agent.call("search", query=query, mode="keyword"))["hits"]
    return [hit["uri"] for hit in hits]


# --- from reading to taking back ----------------------------------------------------------------

WAYS = [("daemon", LEGACY), ("http", MODERN)]


@pytest.fixture(params=WAYS, ids="-".join)
def writing(
    request: pytest.FixtureRequest, portal: BlockingPortal, home: Home, tmp_path: Path
) -> Iterator[Agent]:
    """A client at a server that is a process of its own."""
    way, era = request.param
    if way == "daemon" and os.name == "nt":
        pytest.skip("Unix sockets")
    root = write_documents(tmp_path / "docs")
    with ExitStack() as stack:
        if way == "http":
            server: Any = stack.enter_context(http(home, root, "--write"))[0]
        else:
            server = stdio(home, root, "--write")
        yield stack.enter_context(connected(portal, server, root, era))


def test_an_agent_reads_replaces_finds_and_takes_back(writing: Agent) -> None:
    """Seen to fail where the hash is not looked at, the index is not told, and undo is a no-op."""
    before = contents(writing.root)
    target, text = "guide.md#Install", "Feed the archive to the zebra."
    assert "guide.md" not in found(writing, "zebra")
    read = data(writing.call("read", target=target))
    stale = {"op": "replace", "target": target, "text": text, "expected": STALE}
    refused = writing.refused("edit", edits=[stale])
    assert refused["code"] == "CONFLICT"
    assert "Read it again" in refused["hint"]
    assert contents(writing.root) == before

    done = data(edit(writing, {**stale, "expected": read["sha256"]}))
    assert (done["dry_run"], done["indexed"]) == (False, True)
    now = before["guide.md"].replace(b"Unpack the archive and run the installer.", text.encode())
    assert contents(writing.root) == {**before, "guide.md": now}
    assert found(writing, "zebra") == ["guide.md"]
    assert "guide.md" not in found(writing, "unpack")

    # What it says of the part holds for the next edit, which needs no reading in between.
    [document] = done["documents"]
    again = data(writing.call("read", target=document["cite"]))
    assert (again["sha256"], again["state"]) == (document["section_sha256"], "same")
    spent = {"op": "append", "target": target, "text": "x", "expected": read["sha256"]}
    assert writing.refused("edit", edits=[spent])["code"] == "CONFLICT"
    more = {"op": "append", "target": target, "text": "Okapis wait."}
    edit(writing, {**more, "expected": document["section_sha256"]})
    assert found(writing, "okapis") == ["guide.md"]

    edit(writing, {"op": "undo", "target": "guide.md"})
    assert contents(writing.root) == {**before, "guide.md": now}
    assert found(writing, "okapis") == []


@pytest.mark.skipif(os.name == "nt", reason="Unix sockets")
def test_an_agent_and_a_person_edit_the_same_folder(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    """The agent through the daemon, the person on a command line that works by itself."""
    before = contents(docs)
    with connected(portal, stdio(home, docs, "--write"), docs) as agent:
        sha = data(agent.call("search", query="signing key", uris=["keys.md"]))["hits"][0]["sha256"]
        added = home.command("doc", "append", "keys.md", "--text", "A zebra.", "--path", docs)
        assert added.returncode == 0, added.stderr
        assert found(agent, "zebra") == ["keys.md"]
        replace = {"op": "replace", "target": "keys.md", "text": "# Gone", "expected": sha}
        assert agent.refused("edit", edits=[replace])["code"] == "CONFLICT"
        edit(agent, {"op": "undo", "target": "keys.md"})
        assert contents(docs) == before
        edit(agent, {"op": "append", "target": "keys.md", "text": "An okapi."})
        undone = home.command("undo", "keys.md", "--path", docs)
        assert undone.returncode == 0, undone.stderr
        assert contents(docs) == before
        assert found(agent, "okapi") == []


def test_one_step_is_taken_back_and_then_made_again(agent: Agent) -> None:
    before = contents(agent.root)
    edit(agent, {"op": "delete", "target": "guide.md#Upgrade"})
    after = contents(agent.root)
    assert after != before
    undo = {"op": "undo", "target": "guide.md"}
    tried = data(edit(agent, undo, dry_run=True))
    assert (tried["transaction"], contents(agent.root)) == (0, after)
    edit(agent, undo)
    assert contents(agent.root) == before
    edit(agent, undo)
    assert contents(agent.root) == after


def test_a_client_that_shows_text_alone_gets_the_hash(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    with served(portal, home, docs, name="claude-code") as agent:
        read = agent.call("read", target="keys.md")
        assert read.structured_content is None
        digits = re.search(r"sha256 ([0-9a-f]{16})\b", said(read))
        assert digits is not None
        append = {"op": "append", "target": "keys.md#Keys", "text": "Zebras hold one."}
        done = edit(agent, {**append, "expected": digits[1]})
        assert done.structured_content is None
        assert "+Zebras hold one." in said(done)
        [line] = [each.split("\n")[0] for each in texts(done) if "| changed |" in each]
        next_digits = re.search(r"sha256 ([0-9a-f]{16})\b", line)
        assert next_digits is not None
        edit(agent, {**append, "text": "And one more.", "expected": next_digits[1]})
    assert (docs / "keys.md").read_text(encoding="utf-8").endswith("And one more.\n")


def test_read_only_clients_get_no_hash(portal: BlockingPortal, home: Home, docs: Path) -> None:
    with served(portal, home, docs, write=False) as agent:
        assert "sha256" not in said(agent.call("read", target="keys.md"))


# --- who may ------------------------------------------------------------------------------------


def test_it_is_offered_only_with_write(portal: BlockingPortal, home: Home, docs: Path) -> None:
    """Seen to fail when tools that write were offered to everybody."""
    before = contents(docs)
    with served(portal, home, docs, write=False) as agent:
        listed = {each.name for each in agent.run(agent.client.list_tools).tools}
        assert "read" in listed
        assert "edit" not in listed
        given = {"edits": [{"op": "delete", "target": "keys.md#Keys"}]}
        error = agent.error(lambda: agent.client.call_tool("edit", given))
        assert "no tool" in error.message
        assert "--write" in error.message, "what to do about it"
    assert contents(docs) == before
    with served(portal, home, docs) as agent:
        tools = {each.name: each for each in agent.run(agent.client.list_tools).tools}
        about = tools["edit"].annotations
        assert about is not None
        assert (about.read_only_hint, about.destructive_hint) == (False, True)
        assert about.idempotent_hint is None, "the default of the protocol: not idempotent"


def test_a_note_keeps_its_old_name_as_an_alias(agent: Agent) -> None:
    done = data(edit(agent, {"op": "rename", "target": "guide.md", "heading": "manual",
                             "keep_alias": True}))  # fmt: skip
    assert done["documents"][0]["uri"] == "manual.md"
    assert "guide" in (agent.root / "manual.md").read_text().split("---")[1]
    refused = agent.refused("edit", edits=[{"op": "delete", "target": "manual.md#Upgrade",
                                            "keep_alias": True}])  # fmt: skip
    assert "does not use it" in refused["message"]


# --- one transaction ----------------------------------------------------------------------------


def test_several_edits_are_made_together(agent: Agent) -> None:
    done = data(
        edit(
            agent,
            {"op": "create", "target": "new/note.md", "heading": "Note", "text": "A zebra."},
            {"op": "insert", "target": "guide.md#Guide", "heading": "Test", "text": "A zebra too.",
             "position": "first"},
            {"op": "move", "target": "guide.md#Linux", "to": "Guide > Upgrade"},
            {"op": "append", "target": "keys.md", "text": "Zebras, all of them."},
        )
    )  # fmt: skip
    assert {(each["uri"], each["action"]) for each in done["documents"]} == {
        ("new/note.md", "created"), ("guide.md", "changed"), ("keys.md", "changed"),
    }  # fmt: skip
    assert set(found(agent, "zebra zebras")) == {"new/note.md", "guide.md", "keys.md"}
    guide = (agent.root / "guide.md").read_text(encoding="utf-8")
    heads = [line for line in guide.split("\n") if line.startswith("#")]
    assert heads == ["# Guide", "## Test", "## Install", "## Upgrade", "### Linux"]
    edit(agent, {"op": "undo", "target": "keys.md"})
    assert not (agent.root / "new" / "note.md").exists()
    assert "Test" not in (agent.root / "guide.md").read_text(encoding="utf-8")


def test_where_one_is_refused_none_is_made(agent: Agent) -> None:
    before = contents(agent.root)
    good = {"op": "append", "target": "keys.md#Keys", "text": "More."}
    bad = {"op": "append", "target": "guide.md#Instal", "text": "More."}
    error = agent.refused("edit", edits=[good, bad])
    assert error["code"] == "NOT_FOUND"
    assert error["details"]["candidates"][0] == "Guide > Install"
    assert contents(agent.root) == before


def test_a_dry_run_reports_everything_and_writes_nothing(agent: Agent) -> None:
    rename = {"op": "rename", "target": "guide.md#Install", "heading": "Set up"}
    agent.write("keys.md", "# Keys\n\nSee [this](guide.md#install).\n")
    before = contents(agent.root)
    result = edit(agent, rename, dry_run=True)
    shape = data(result)
    assert contents(agent.root) == before
    assert (shape["transaction"], shape["dry_run"], shape["indexed"]) == (0, True, False)
    assert texts(result)[0].startswith("Dry run: nothing was written.")
    diff = texts(result)[shape["documents"][0]["content"]]
    assert "-## Install\n+## Set up\n" in diff
    assert "diff" not in shape["documents"][0]  # Each text is sent once.
    [link] = shape["links"]
    assert (link["uri"], link["line"], link["becomes"]) == ("keys.md", 3, "set-up")
    assert not link["rewritten"]
    assert "rewrite_links does it" in said(result)


def test_links_are_rewritten_where_that_is_asked_for(agent: Agent) -> None:
    agent.write("keys.md", "# Keys\n\nSee [this](guide.md#install).\n")
    rename = {"op": "rename", "target": "guide.md#Install", "heading": "Set up"}
    result = edit(agent, rename, rewrite_links=True)
    assert [each["rewritten"] for each in data(result)["links"]] == [True]
    assert "was rewritten to 'set-up'" in said(result)
    assert b"(guide.md#set-up)" in contents(agent.root)["keys.md"]
    edit(agent, {"op": "undo", "target": "guide.md"})
    assert b"(guide.md#install)" in contents(agent.root)["keys.md"]


def test_a_broken_rule_is_reported(agent: Agent) -> None:
    text = "See below.\n\n#### Deep\n\nFar too deep."
    result = edit(agent, {"op": "replace", "target": "guide.md#Upgrade", "text": text})
    [violation] = data(result)["violations"]
    assert (violation["rule"], violation["suggested_fix"]) == ("heading-jump", "Make it level 3.")
    assert "Breaks heading-jump" in said(result)
    done = data(edit(agent, {"op": "fix", "target": "guide.md"}))
    assert done["violations"] == []
    assert b"\n### Deep\n" in contents(agent.root)["guide.md"]


def test_nothing_to_do_is_no_transaction(agent: Agent) -> None:
    result = edit(agent, {"op": "fix", "target": "guide.md"})
    shape = data(result)
    assert (shape["transaction"], shape["documents"][0]["action"]) == (0, "unchanged")
    assert "Nothing changed" in said(result)


def test_a_long_diff_is_cut(portal: BlockingPortal, home: Home, docs: Path) -> None:
    with served(portal, home, docs) as agent:
        whole = {"op": "replace", "target": "long.md#Long", "text": "Short.\n" * 5000}
        other = {"op": "append", "target": "keys.md", "text": "Long. " * 20_000}
        result = edit(agent, whole, other)
        shape = data(result)
        assert [each["truncated"] for each in shape["documents"]] == [True, True]
        assert tokens(said(result) + json.dumps(shape)) < 4_000
        assert "diff cut" in said(result)
    assert (docs / "long.md").read_text(encoding="utf-8").count("Short.") == 5000


def test_texts_from_documents_say_where_they_are_from(agent: Agent) -> None:
    result = edit(agent, {"op": "append", "target": "keys.md#Keys", "text": "More."})
    document = data(result)["documents"][0]
    assert result.content[document["content"]].meta == {"lookfar/source": document["cite"]}


def test_of_two_with_one_hash_one_wins(portal: BlockingPortal, home: Home, docs: Path) -> None:
    with served(portal, home, docs) as one, served(portal, home, docs) as other:
        sha = data(one.call("read", target="keys.md"))["sha256"]
        results: list[tuple[str, types.CallToolResult]] = []

        def work(agent: Agent, text: str) -> None:
            given = {"op": "append", "target": "keys.md", "text": text, "expected": sha}
            results.append((text, agent.raw("edit", {"edits": [given]})))

        threads = [
            threading.Thread(target=work, args=(agent, text))
            for agent, text in ((one, "First writer."), (other, "Second writer."))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        [winner] = [text for text, result in results if not result.is_error]
        [loser] = [text for text, result in results if result.is_error]
        text = (docs / "keys.md").read_text(encoding="utf-8")
        assert winner in text
        assert loser not in text
        [refused] = [said(result) for _, result in results if result.is_error]
        assert json.loads(refused)["code"] == "CONFLICT"


def test_subscribers_hear_of_it(agent: Agent) -> None:
    """Without a watcher: the edit itself tells."""
    address = f"lookfar://{agent.collection}/keys.md"
    agent.run(lambda: agent.client.subscribe_resource(address))
    edit(agent, {"op": "append", "target": "keys.md", "text": "More."})
    wait_for(
        lambda: any(
            isinstance(each, types.ResourceUpdatedNotification) and str(each.params.uri) == address
            for each in list(agent.heard)
        )
    )


def test_with_several_folders_an_address_says_which(
    portal: BlockingPortal, home: Home, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "notes"
    other.mkdir()
    (other / "keys.md").write_text("# Other keys\n\nBrass.\n", encoding="utf-8")
    before = contents(docs)
    with served(portal, home, docs, other) as agent:
        append = {"op": "append", "text": "Zebra."}
        error = agent.refused("edit", edits=[{**append, "target": "keys.md"}])
        assert error["code"] == "AMBIGUOUS"
        edit(agent, {**append, "target": "lookfar://notes/keys.md"})
        create = {"op": "create", "target": "lookfar://notes/made.md", "heading": "Made"}
        made = data(edit(agent, create))["documents"][0]
        assert (made["collection"], made["uri"]) == ("notes", "made.md")
        mixed = [{**append, "target": f"lookfar://{name}/keys.md"} for name in ("docs", "notes")]
        assert agent.refused("edit", edits=mixed)["code"] == "INVALID_ARGUMENT"
    assert contents(docs) == before
    assert sorted(contents(other)) == ["keys.md", "made.md"]


def test_arguments_that_mean_nothing_may_be_given(agent: Agent) -> None:
    """Some clients fill in every argument of a schema."""
    empty = {"text": "", "heading": "", "to": "", "position": "last", "whole": False,
             "template": "", "expected": ""}  # fmt: skip
    edit(
        agent,
        {**empty, "op": "delete", "target": "guide.md#Linux"},
        {**empty, "op": "rename", "target": "guide.md#Upgrade", "heading": "Renew"},
        dry_run=False,
        rewrite_links=False,
    )
    edit(agent, {**empty, "op": "undo", "target": "guide.md"})
    assert b"### Linux" in contents(agent.root)["guide.md"]


# --- what is refused ----------------------------------------------------------------------------

APPEND = {"op": "append", "target": "guide.md#Install", "text": "x"}
TWINS = "# Twins\n\n## Same\n\nOne.\n\n## Same\n\nTwo.\n"
WRONG: list[tuple[str, Any, str]] = [
    ("no edits", [], "INVALID_ARGUMENT"),
    ("not a list", APPEND, "INVALID_ARGUMENT"),
    ("not an object", ["append"], "INVALID_ARGUMENT"),
    ("no operation", [{"target": "guide.md"}], "INVALID_ARGUMENT"),
    ("unknown operation", [{**APPEND, "op": "apend"}], "INVALID_ARGUMENT"),
    ("no target", [{"op": "append", "text": "x"}], "INVALID_ARGUMENT"),
    ("empty target", [{**APPEND, "target": ""}], "INVALID_ARGUMENT"),
    ("blank target", [{**APPEND, "target": " "}], "INVALID_ARGUMENT"),
    ("unknown argument", [{**APPEND, "txt": "y"}], "INVALID_ARGUMENT"),
    ("wrong type", [{**APPEND, "text": 3}], "INVALID_ARGUMENT"),
    ("replace without text", [{"op": "replace", "target": "guide.md"}], "INVALID_ARGUMENT"),
    ("append nothing", [{**APPEND, "text": "\n"}], "INVALID_ARGUMENT"),
    ("insert without heading", [{"op": "insert", "target": "guide.md"}], "INVALID_ARGUMENT"),
    ("a heading of two lines", [{"op": "rename", "target": "guide.md#Linux", "heading": "a\nb"}],
     "INVALID_ARGUMENT"),
    ("move without place", [{"op": "move", "target": "guide.md#Linux"}], "INVALID_ARGUMENT"),
    ("move to nowhere", [{"op": "move", "target": "guide.md#Linux", "to": "Nowhere"}],
     "NOT_FOUND"),
    ("move into itself", [{"op": "move", "target": "guide.md#Install",
                           "to": "Guide > Install > Linux"}], "INVALID_ARGUMENT"),
    ("wrong position", [{"op": "move", "target": "guide.md#Linux", "to": "Guide",
                         "position": "top"}], "INVALID_ARGUMENT"),
    ("text for delete", [{**APPEND, "op": "delete"}], "INVALID_ARGUMENT"),
    ("whole for append", [{**APPEND, "whole": True}], "INVALID_ARGUMENT"),
    ("template for insert", [{"op": "insert", "target": "guide.md", "heading": "X",
                              "template": "note"}], "INVALID_ARGUMENT"),
    ("expected for undo", [{"op": "undo", "target": "guide.md", "expected": STALE}],
     "INVALID_ARGUMENT"),
    ("undo in company", [APPEND, {"op": "undo", "target": "guide.md"}], "INVALID_ARGUMENT"),
    ("nothing to undo", [{"op": "undo", "target": "guide.md"}], "NOT_FOUND"),
    ("no such document", [{**APPEND, "target": "gide.md"}], "NOT_FOUND"),
    ("no such section", [{**APPEND, "target": "guide.md#Lnux"}], "NOT_FOUND"),
    ("no such lines", [{**APPEND, "target": "guide.md:900-901"}], "NOT_FOUND"),
    ("no such template", [{"op": "create", "target": "x.md", "heading": "X", "template": "y"}],
     "NOT_FOUND"),
    ("no such collection", [{**APPEND, "target": "lookfar://nowhere/guide.md"}],
     "INVALID_ARGUMENT"),
    ("two sections of that name", [{**APPEND, "target": "twins.md#Same"}], "AMBIGUOUS"),
    ("a hash that is none", [{**APPEND, "expected": "yesterday"}], "INVALID_ARGUMENT"),
    ("too short a hash", [{**APPEND, "expected": "0" * 15}], "INVALID_ARGUMENT"),
    ("another hash", [{**APPEND, "expected": "0" * 16}], "CONFLICT"),
    ("a citation of what is gone", [{**APPEND, "target":
     f"lookfar://docs/guide.md?chars=0-20&sha256={'0' * 16}"}], "CONFLICT"),
    ("a document that is there", [{"op": "create", "target": "keys.md", "heading": "K"}],
     "CONFLICT"),
    ("a section that is there", [{"op": "insert", "target": "guide.md#Guide",
                                  "heading": "Install"}], "CONFLICT"),
    ("out of the folder", [{**APPEND, "target": "../outside.md"}], "OUTSIDE_ROOT"),
    ("an absolute path", [{**APPEND, "target": "/etc/passwd.md"}], "OUTSIDE_ROOT"),
    ("no Markdown", [{**APPEND, "target": "notes.txt"}], "INVALID_ARGUMENT"),
    ("a folder in the way", [{"op": "create", "target": "corpus/x.md/y.md", "heading": "X"},
                             {"op": "create", "target": "corpus", "heading": "X"}],
     "INVALID_ARGUMENT"),
    ("what is never indexed", [{"op": "create", "target": ".git/x.md", "heading": "X"}],
     "PERMISSION_DENIED"),
    ("an open fence", [{**APPEND, "text": "```\nnever closed"}], "INVALID_ARGUMENT"),
    ("a heading that would end it", [{**APPEND, "text": "# Other\n"}], "INVALID_ARGUMENT"),
    ("a whole without its heading", [{**APPEND, "op": "replace", "whole": True}],
     "INVALID_ARGUMENT"),
    ("delete everything", [{"op": "delete", "target": "guide.md"}], "INVALID_ARGUMENT"),
    ("a zero byte", [{**APPEND, "text": "a\0b"}], "INVALID_ARGUMENT"),
    ("too many", [APPEND] * 101, "INVALID_ARGUMENT"),
]  # fmt: skip


@pytest.fixture(scope="module")
def refusing(
    portal: BlockingPortal, home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Agent]:
    """One that nothing ever changes: whatever these tests ask is refused."""
    root = write_documents(tmp_path_factory.mktemp("refusing") / "docs")
    (root / "twins.md").write_text(TWINS, encoding="utf-8")
    with served(portal, home, root) as agent:
        yield agent


@pytest.mark.parametrize(("edits", "code"), [pytest.param(*w[1:], id=w[0]) for w in WRONG])
def test_wrong_edits_are_refused_and_nothing_is_written(
    refusing: Agent, edits: Any, code: str
) -> None:
    before = contents(refusing.root)
    error = refusing.refused("edit", edits=edits)  # Which looks for a hint.
    assert error["code"] == code, error
    assert error["message"]
    assert contents(refusing.root) == before


@pytest.mark.parametrize(
    "more", [{"dry_run": "yes"}, {"rewrite_links": 1}, {"edit": []}, {"collection": "docs"}]
)
def test_wrong_arguments_beside_them_are_refused(refusing: Agent, more: dict[str, Any]) -> None:
    before = contents(refusing.root)
    assert refusing.refused("edit", edits=[APPEND], **more)["code"] == "INVALID_ARGUMENT"
    assert contents(refusing.root) == before


def test_refusals_say_what_to_do(refusing: Agent) -> None:
    """As a model needs them that has nothing but the error."""

    def hint(**changes: Any) -> str:
        given = {key: value for key, value in {**APPEND, **changes}.items() if value is not None}
        return str(refusing.refused("edit", edits=[given])["hint"])

    assert "Did you mean 'text'?" in hint(txt="y")
    assert "guide.md" in hint(target="gide.md")
    assert "Guide > Install > Linux" in hint(target="guide.md#Lnux")
    assert "Twins > Same (lines 3-6)" in hint(target="twins.md#Same")
    assert "Twins > Same (lines 7-9)" in hint(target="twins.md#Same")
    assert "empty text removes" in hint(op="replace", text=None)
    assert "Read it again" in hint(expected=STALE)
    assert "It takes: target, expected." in hint(op="delete")
    twins = refusing.refused("edit", edits=[{**APPEND, "target": "twins.md#Same"}])
    assert len(twins["details"]["candidates"]) == 2
