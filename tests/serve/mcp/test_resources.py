"""Documents as resources, news of their changes, prompts and completions."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.from_thread import BlockingPortal

from lookfar.serve.tools.tool import MOST_TOKENS
from serve.mcp.served import LEGACY, MODERN, Agent, Home, connected, in_memory, stdio
from waiting import DEADLINE


@pytest.fixture(autouse=True)
def indexed(request: pytest.FixtureRequest) -> None:
    """Resources are those of an index."""
    if "agent" in request.fixturenames:
        request.getfixturevalue("agent").call("search", query="anything")


def read(agent: Agent, address: str) -> types.TextResourceContents:
    [contents] = agent.run(lambda: agent.client.read_resource(address)).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents


def address(agent: Agent, place: str) -> str:
    return f"lookfar://{agent.collection}/{place}"


# --- lists --------------------------------------------------------------------------------------


def test_documents_are_listed_page_by_page(
    portal: BlockingPortal, home: Home, tmp_path: Path
) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for at in range(230):
        (root / f"{at:03}.md").write_text(f"# Title {at}\n\nText.\n", encoding="utf-8")
    with in_memory(portal, home, root) as agent:
        agent.call("search", query="text")
        pages: list[list[Any]] = []
        cursor: str | None = None
        while cursor or not pages:
            page = agent.run(lambda: agent.client.list_resources(cursor=cursor))  # noqa: B023
            pages.append(page.resources)
            cursor = page.next_cursor
        assert [len(page) for page in pages] == [101, 100, 30]
        assert pages[0].pop(0).name == "lookfar", "the skill comes first"
        listed = [each for page in pages for each in page]
        assert [each.name for each in listed] == [f"{at:03}.md" for at in range(230)]
        assert listed[7].title == "Title 7"
        assert str(listed[7].uri) == "lookfar://many/007.md"
        assert listed[7].mime_type == "text/markdown"


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "٣", "9" * 5000])
def test_an_invalid_list_cursor_is_refused(agent: Agent, cursor: str) -> None:
    error = agent.error(lambda: agent.client.list_resources(cursor=cursor))
    assert error.code == types.INVALID_PARAMS


def test_what_is_not_indexed_yet_has_no_resources(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    with in_memory(portal, home, docs) as agent:
        listed = agent.run(agent.client.list_resources).resources
        assert [each.name for each in listed] == ["lookfar"], "only the skill"


def test_every_listed_resource_can_be_read(agent: Agent) -> None:
    """Names with spaces, signs of our own grammar and other scripts are escaped and come back."""
    names = ["a b.md", "c#d.md", "e?f.md", "100%.md", "g:1-2.md", "ünïcode ✓.md", "h/i j.md"]
    for at, name in enumerate(names):
        agent.write(f"odd/{name}", f"# Odd {at}\n\nNumber {at}.\n")
    agent.call("search", query="odd number")
    listed = agent.run(agent.client.list_resources).resources
    found = {each.name: str(each.uri) for each in listed if each.name.startswith("odd/")}
    assert sorted(found) == sorted(f"odd/{name}" for name in names)
    for at, name in enumerate(names):
        contents = read(agent, found[f"odd/{name}"])
        assert contents.text.endswith(f"Number {at}.\n")
        reading = agent.call("read", target=found[f"odd/{name}"])
        assert reading.structured_content is not None
        assert reading.structured_content["uri"] == f"odd/{name}"


def test_templates_are_offered(agent: Agent) -> None:
    templates = agent.run(agent.client.list_resource_templates).resource_templates
    assert [each.uri_template for each in templates] == [
        "lookfar://{collection}/{+path}",
        "lookfar://{collection}/{+path}#{heading}",
    ]


# --- reading ------------------------------------------------------------------------------------


READABLE = [
    ("keys.md", "# Keys\n", "[the guide](guide.md).\n"),
    ("guide.md#Upgrade", "## Upgrade\n", "begins.\n"),
    ("guide.md#Install%20%3E%20Linux", "### Linux\n", "folder.\n\n"),
    ("guide.md:11-11", "Unpack", "installer.\n"),
]


def test_a_resource_is_read(agent: Agent) -> None:
    for place, begins, ends in READABLE:
        contents = read(agent, address(agent, place))
        assert str(contents.uri) == address(agent, place)
        assert contents.text.startswith(begins), place
        assert contents.text.endswith(ends), place
        assert contents.mime_type == "text/markdown"
        assert contents.meta is not None
        assert contents.meta["lookfar/state"] == "same"


def test_a_long_resource_says_where_it_continues(agent: Agent) -> None:
    text = (agent.root / "long.md").read_text(encoding="utf-8")
    parts = [read(agent, address(agent, "long.md"))]
    while parts[-1].meta and "lookfar/continues" in parts[-1].meta:
        assert len(parts[-1].text) / 4 <= MOST_TOKENS
        parts.append(read(agent, str(parts[-1].meta["lookfar/continues"])))
        assert len(parts) < 10
    assert len(parts) > 2
    assert "".join(part.text for part in parts) == text


FORBIDDEN = [
    "../../etc/passwd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "..%5c..%5cetc%5cpasswd",
    "corpus/../../etc/passwd",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "guide.md%00",
    "secret.md",
    "linked.md",
    "",
]


def test_nothing_outside_or_unindexed_is_read(agent: Agent) -> None:
    """What is not a document of the index is none, whatever the disk has there."""
    outside = agent.root.parent / f"{agent.root.name}-outside.md"
    outside.write_text("root: outside", encoding="utf-8")
    link = agent.root / "linked.md"
    if not link.is_symlink():
        link.symlink_to(outside)
    agent.call("search", query="outside")
    for place in FORBIDDEN:
        asked = address(agent, place)
        error = agent.error(lambda: agent.client.read_resource(asked))  # noqa: B023
        assert error.code == types.INVALID_PARAMS, place
        assert error.data["uri"] == asked
        assert "root:" not in json.dumps(error.data), place


@pytest.mark.parametrize(
    "asked",
    [
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "guide.md",
        "lookfar:guide.md",
        "LOOKFAR://x/guide.md",
        "lookfar://elsewhere/guide.md",
        "lookfar://",
        "lookfar://x",
        "lookfar://x/keys.md?chars=1-2",
        "lookfar://x/keys.md?chars=9-2&sha256=0123456789abcdef",
    ],
)
def test_an_address_that_is_not_ours_is_refused(agent: Agent, asked: str) -> None:
    error = agent.error(lambda: agent.client.read_resource(asked))
    assert error.code == types.INVALID_PARAMS
    assert error.data["uri"] == asked
    assert error.data["hint"]


# --- subscriptions ------------------------------------------------------------------------------


def until_told(edit: Any, heard: Any, what: str) -> None:
    """Edit until it is heard: a watcher that starts just now may miss a first change."""
    deadline = time.monotonic() + DEADLINE
    at = 0
    while not heard():
        assert time.monotonic() < deadline, f"never heard: {what}"
        edit(at)
        at += 1
        pause = time.monotonic() + 2.0
        while not heard() and time.monotonic() < pause:
            time.sleep(0.02)


def updated(agent: Agent) -> set[str]:
    return {
        str(each.params.uri)
        for each in agent.heard
        if isinstance(each, types.ResourceUpdatedNotification)
    }


def edit(agent: Agent, uri: str, at: int) -> None:
    agent.write(uri, f"# Edited\n\nVersion {at} of {uri} at {time.monotonic()}.\n")


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
@pytest.mark.parametrize("transport", ["memory", "daemon"])
def test_a_change_is_sent_with_the_older_protocol(
    portal: BlockingPortal, home: Home, docs: Path, transport: str
) -> None:
    opened = (
        in_memory(portal, home, docs)
        if transport == "memory"
        else connected(portal, stdio(home, docs), docs)
    )
    with opened as agent:
        agent.call("search", query="anything")
        assert agent.client.server_capabilities is not None
        resources = agent.client.server_capabilities.resources
        assert resources is not None
        assert resources.subscribe
        assert resources.list_changed
        keys, guide = address(agent, "keys.md"), address(agent, "guide.md")
        agent.run(lambda: agent.client.subscribe_resource(keys))
        agent.run(lambda: agent.client.subscribe_resource(guide))
        agent.run(lambda: agent.client.unsubscribe_resource(guide))

        def both(at: int) -> None:
            edit(agent, "guide.md", at)
            edit(agent, "keys.md", at)

        until_told(both, lambda: keys in updated(agent), "an update of keys.md")
        assert guide not in updated(agent)


@pytest.mark.parametrize("transport", ["memory", "daemon"])
def test_a_change_is_sent_with_the_newer_protocol(
    portal: BlockingPortal, home: Home, docs: Path, transport: str
) -> None:
    opened = (
        in_memory(portal, home, docs, mode=MODERN)
        if transport == "memory"
        else connected(portal, stdio(home, docs), docs, MODERN)
    )
    with opened as agent:
        agent.call("search", query="anything")
        keys, guide = address(agent, "keys.md"), address(agent, "guide.md")
        heard: list[Any] = []
        done = anyio.Event()

        async def listen() -> None:
            async with (
                agent.client.listen(
                    resource_subscriptions=[keys], resources_list_changed=True
                ) as events,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(collect, events)
                await done.wait()
                tasks.cancel_scope.cancel()

        async def collect(events: Any) -> None:
            async for event in events:
                heard.append(event)  # noqa: PERF401

        listening = portal.start_task_soon(listen)

        def both(at: int) -> None:
            edit(agent, "guide.md", at)
            edit(agent, "keys.md", at)
            edit(agent, f"new{at}.md", at)

        def told() -> bool:
            shown = " ".join(map(repr, heard))
            return keys in shown and "ListChanged" in shown

        try:
            until_told(both, told, "an update of keys.md and of the list")
        finally:
            portal.call(done.set)
            listening.result(DEADLINE)
        assert guide not in " ".join(map(repr, heard))


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
def test_a_change_is_sent_over_http(
    portal: BlockingPortal, home: Home, web: tuple[str, Path]
) -> None:
    server, root = web
    with connected(portal, server, root, LEGACY) as agent:
        agent.call("search", query="anything")
        watched = address(agent, "watched.md")
        agent.run(lambda: agent.client.subscribe_resource(watched))
        until_told(
            lambda at: edit(agent, "watched.md", at), lambda: watched in updated(agent), "an update"
        )


# --- prompts ------------------------------------------------------------------------------------


def test_prompts_are_offered_and_filled_in(agent: Agent) -> None:
    prompts = agent.run(agent.client.list_prompts).prompts
    assert [each.name for each in prompts] == ["answer_with_citations", "what_changed"]
    for each in prompts:
        assert each.description
    question = {"question": "Who rotates the keys?"}
    found = agent.run(lambda: agent.client.get_prompt("answer_with_citations", question))
    [message] = found.messages
    assert message.role == "user"
    assert isinstance(message.content, types.TextContent)
    assert message.content.text.startswith("Question: Who rotates the keys?\n")
    since = {"topic": "keys", "since": "2026-01-01"}
    found = agent.run(lambda: agent.client.get_prompt("what_changed", since))
    assert "since 2026-01-01: keys" in found.messages[0].content.text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("answer_with_citations", {}, "question"),
        ("answer_with_citations", {"question": "  "}, "question"),
        ("what_changed", {"since": "2026"}, "topic"),
        ("nothing", {}, "Prompts: answer_with_citations, what_changed"),
    ],
)
def test_a_prompt_that_cannot_be_made_is_refused(
    agent: Agent, name: str, given: dict[str, str], words: str
) -> None:
    error = agent.error(lambda: agent.client.get_prompt(name, given))
    assert error.code == types.INVALID_PARAMS
    assert words in error.message


# --- completions --------------------------------------------------------------------------------


def completed(agent: Agent, name: str, value: str, **given: str) -> list[str]:
    template = types.ResourceTemplateReference(uri="lookfar://{collection}/{+path}#{heading}")
    found = agent.run(
        lambda: agent.client.complete(
            template, {"name": name, "value": value}, context_arguments=given or None
        )
    ).completion
    assert found.total == len(found.values) or found.has_more
    return list(found.values)


def test_collections_paths_and_headings_are_completed(agent: Agent) -> None:
    name = agent.collection
    assert name in completed(agent, "collection", name[:3].upper())
    assert completed(agent, "collection", "nowhere") == []
    assert completed(agent, "path", "corpus/A") == ["corpus/anchor.md"]
    assert completed(agent, "path", "lue") == []
    # What begins so comes before what only holds it.
    found = completed(agent, "path", "g", collection=name)
    assert found[0] == "guide.md"
    assert "corpus/glacier.md" in found
    assert completed(agent, "heading", "in", path="guide.md") == [
        "Guide > Install",
        "Guide > Install > Linux",
    ]
    assert completed(agent, "heading", "", path="nowhere.md") == []
    assert completed(agent, "heading", "x") == []
    assert completed(agent, "question", "x") == []
