"""What clients show or cache: titles, icons, caching hints, skills and schemas of results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import yaml
from anyio.from_thread import BlockingPortal
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import ConfigDict

from lookfar.serve.daemon.pool import Pool
from lookfar.serve.mcp.changes import Changes
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets import load_tools
from serve.mcp.served import ERAS, LEGACY, MODERN, Agent, Home, connected, in_memory

DEFAULT = ("search", "read", "related", "status", "remember", "edit")
SKILL = "skill://lookfar/SKILL.md"
HOUR = 3_600_000


class GetSkillParams(types.RequestParams):
    uri: str


class ListSkills(types.Request[types.PaginatedRequestParams | None, str]):
    method: str = "skills/list"
    params: types.PaginatedRequestParams | None = None


class GetSkill(types.Request[GetSkillParams, str]):
    method: str = "skills/get"
    params: GetSkillParams


class Discover(types.Request[types.RequestParams | None, str]):
    method: str = "server/discover"
    params: types.RequestParams | None = None


class Anything(types.Result):
    """A result whose keys are those of an extension."""

    model_config = ConfigDict(extra="allow")


def ask(agent: Agent, request: Any) -> dict[str, Any]:
    """The raw result of a request."""
    result = agent.run(lambda: agent.client.session.send_request(request, Anything))
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def get_skill(uri: str) -> GetSkill:
    return GetSkill(params=GetSkillParams(uri=uri))


@pytest.fixture
def writer(portal: BlockingPortal, home: Home, docs: Path) -> Iterator[Session]:
    """A session that may write, so that all tools are offered."""
    pool, changes = Pool(), Changes()
    portal.call(changes.bind_loop)
    with pool.session([str(docs)], settings=home.settings, environ={}, changes=changes) as session:
        session.write = True
        yield session
    pool.close()


# --- titles and icons ---------------------------------------------------------------------------


def test_default_tools_have_titles_and_small_icons(
    portal: BlockingPortal, writer: Session, docs: Path
) -> None:
    server = make_server(writer, load_tools(("default",)))
    with connected(portal, server, docs) as agent:
        tools = agent.run(agent.client.list_tools).tools
        assert tuple(tool.name for tool in tools) == DEFAULT
        assert len({tool.title for tool in tools}) == len(tools)
        for tool in tools:
            assert tool.title
            assert tool.icons is not None
            [icon] = tool.icons
            # An icon from the network would tell somebody that the client was opened.
            assert icon.src.startswith("data:image/svg+xml,"), icon.src
            assert len(icon.src) < 256
        prompts = agent.run(agent.client.list_prompts).prompts
        assert all(prompt.title for prompt in prompts)


def test_tools_of_other_systems_are_listed_as_there(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    with in_memory(portal, home, docs, toolset=("msrl",)) as agent:
        for tool in agent.run(agent.client.list_tools).tools:
            assert (tool.title, tool.icons) == (None, None)


def test_claude_code_always_shows_search_and_read(agent: Agent) -> None:
    tools = {tool.name: tool for tool in agent.run(agent.client.list_tools).tools}
    for name in ("search", "read"):
        meta = tools[name].meta or {}
        assert meta["anthropic/alwaysLoad"] is True
        # A result of 20,000 tokens of four characters, and what is around it.
        assert 80_000 < meta["anthropic/maxResultSizeChars"] <= 500_000
    assert tools["related"].meta is None


def test_prompts_name_only_tools_that_are_there(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    with in_memory(portal, home, docs, toolset=("anvil",)) as agent:
        assert agent.run(agent.client.list_prompts).prompts == []


def test_the_server_has_an_icon_and_results_do_not_repeat_it(revision: Agent) -> None:
    if revision.modern:
        meta = ask(revision, Discover())["_meta"]
        info = types.Implementation.model_validate(meta[types.SERVER_INFO_META_KEY])
    else:
        assert revision.client.server_info is not None
        info = revision.client.server_info
    assert info.website_url == "https://github.com/lookfar/lookfar"
    assert info.icons is not None
    assert len(info.icons[0].src) < 300
    result = revision.call("status")
    assert "svg" not in json.dumps(result.model_dump(mode="json"))
    if revision.modern:
        assert result.meta is not None
        assert result.meta[types.SERVER_INFO_META_KEY]["name"] == "lookfar"


# --- caching ------------------------------------------------------------------------------------


def test_clients_may_cache_what_does_not_change(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    """Lists of what Lookfar itself offers; documents, which change at any time, never."""
    with in_memory(portal, home, docs, mode=MODERN) as agent:
        agent.call("search", query="anything")
        client = agent.client
        lists: list[Any] = [
            agent.run(client.list_prompts),
            agent.run(client.list_resource_templates),
            agent.run(lambda: client.read_resource(SKILL)),
        ]
        for listed in lists:
            assert 0 < listed.ttl_ms <= HOUR
            assert listed.cache_scope == "public"
        # What a token allows is not for others.
        tools = agent.run(client.list_tools)
        assert 0 < tools.ttl_ms <= HOUR
        assert tools.cache_scope == "private"
        address = f"lookfar://{agent.collection}/keys.md"
        documents: list[Any] = [
            agent.run(client.list_resources),
            agent.run(lambda: client.read_resource(address)),
        ]
        for listed in documents:
            assert (listed.ttl_ms, listed.cache_scope) == (0, "private")


def test_a_changed_document_is_never_read_from_a_cache(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    with in_memory(portal, home, docs, mode=MODERN) as agent:
        agent.call("search", query="anything")
        address = f"lookfar://{agent.collection}/keys.md"
        for number in range(3):
            agent.write("keys.md", f"# Keys\n\nVersion {number}.\n")
            [contents] = agent.run(lambda: agent.client.read_resource(address)).contents
            assert isinstance(contents, types.TextResourceContents)
            assert f"Version {number}." in contents.text


# --- skills -------------------------------------------------------------------------------------


def test_skills_are_listed_and_verified(revision: Agent) -> None:
    """As a host does it: list, read, and compare digest, size and front matter."""
    if revision.modern:
        capabilities = ask(revision, Discover())["capabilities"]
        assert capabilities["extensions"] == {"io.modelcontextprotocol/skills": {}}
    listed = ask(revision, ListSkills())
    [entry] = listed["skills"]
    assert entry["uri"] == SKILL
    assert entry["frontmatter"]["name"] == "lookfar"
    [contents] = revision.run(lambda: revision.client.read_resource(SKILL)).contents
    assert isinstance(contents, types.TextResourceContents)
    assert contents.mime_type == "text/markdown"
    raw = contents.text.encode()
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    assert entry["resources"] == [{"uri": SKILL, "digest": digest, "size": len(raw)}]
    assert yaml.safe_load(contents.text.split("---\n")[1]) == entry["frontmatter"]
    assert ask(revision, get_skill(SKILL))["skill"] == entry
    if revision.modern:
        assert listed["resultType"] == "complete"
        assert 0 < listed["ttlMs"] <= HOUR
        assert listed["cacheScope"] == "public"


@pytest.mark.parametrize(
    "uri", ["skill://nothing/SKILL.md", "skill://lookfar", "skill://", "lookfar://x/a.md", "", "x"]
)
def test_an_unknown_skill_is_refused(agent: Agent, uri: str) -> None:
    error = agent.error(lambda: agent.client.session.send_request(get_skill(uri), Anything))
    assert error.code == types.INVALID_PARAMS
    assert SKILL in error.message
    if uri.startswith("skill:"):
        error = agent.error(lambda: agent.client.read_resource(uri))
        assert error.code == types.INVALID_PARAMS


def test_a_cursor_of_skills_is_refused(agent: Agent) -> None:
    request = ListSkills(params=types.PaginatedRequestParams(cursor="1"))
    error = agent.error(lambda: agent.client.session.send_request(request, Anything))
    assert error.code == types.INVALID_PARAMS


def test_a_skill_names_only_tools_that_are_there(agent: Agent) -> None:
    """It is offered with the tools that it explains, and not with those of another system."""
    [contents] = agent.run(lambda: agent.client.read_resource(SKILL)).contents
    assert isinstance(contents, types.TextResourceContents)
    listed = {tool.name: tool for tool in agent.run(agent.client.list_tools).tools}
    assert {name for name in DEFAULT if f"`{name}`" in contents.text} == set(listed)
    arguments = set(listed["search"].input_schema["properties"])
    assert {"queries", "mode", "kinds", "after", "glob", "tags", "where", "cursor"} <= arguments
    assert "targets" in listed["read"].input_schema["properties"]


@pytest.mark.parametrize("era", ERAS)
def test_other_toolsets_have_no_skill(
    portal: BlockingPortal, home: Home, docs: Path, era: str
) -> None:
    with in_memory(portal, home, docs, toolset=("anvil",), mode=era) as agent:
        if agent.modern:
            assert "extensions" not in ask(agent, Discover())["capabilities"]
        error = agent.error(lambda: agent.client.session.send_request(ListSkills(), Anything))
        assert error.code == types.METHOD_NOT_FOUND
        error = agent.error(lambda: agent.client.read_resource(SKILL))
        assert error.code == types.INVALID_PARAMS


# --- schemas of results -------------------------------------------------------------------------


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": "rotate the keys"}),
    ("search", {"query": "rotate the keys", "detail": "passages", "explain": True}),
    ("search", {"query": "rotate the keys", "detail": "paths"}),
    ("search", {"queries": ["keys", "install"]}),
    ("search", {"queries": ["keys", "install"], "detail": "passages"}),
    ("search", {"query": "the", "mode": "literal", "context": 1}),
    ("search", {"queries": ["the", "keys"], "mode": "regex"}),
    ("search", {"glob": "*.md"}),
    ("search", {"query": "zzzzqqqq"}),
    ("read", {"target": "guide.md"}),
    ("read", {"target": "guide.md#Upgrade"}),
    ("read", {"target": "long.md"}),
    ("read", {"target": "guide.md", "embeds": True}),
    ("read", {"targets": ["guide.md#Upgrade", "keys.md", "nowhere.md"]}),
    ("related", {"target": "keys.md"}),
    ("related", {"target": "guide.md", "kinds": ["links", "backlinks", "similar"]}),
    ("status", {}),
    ("remember", {"text": "Keys are rotated on Mondays.", "tags": ["keys"], "about": ["keys.md"]}),
    ("edit", {"edits": [{"op": "append", "target": "keys.md", "text": "More.\n"}]}),
    ("edit", {"edits": [{"op": "undo", "target": "keys.md"}]}),
)


def test_structured_results_match_their_schemas(
    portal: BlockingPortal, writer: Session, docs: Path
) -> None:
    """Also complete: a schema names every key that a result has.

    Seen to fail when a key was left out of the schema of a hit.
    """
    server = make_server(writer, load_tools(("default",)), results="structured")
    with connected(portal, server, docs) as agent:
        agent.call("search", query="anything")
        schemas = {}
        for tool in agent.run(agent.client.list_tools).tools:
            assert tool.output_schema is not None
            Draft202012Validator.check_schema(tool.output_schema)
            schemas[tool.name] = tool.output_schema
        missing: set[str] = set()
        for name, arguments in CALLS:
            content = agent.call(name, **arguments).structured_content
            assert content is not None
            Draft202012Validator(schemas[name]).validate(content)
            missing.update(unnamed(content, schemas[name], name))
        assert not missing, sorted(missing)


def unnamed(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    """The keys of a result that its schema does not name; an object without keys is open."""
    if isinstance(value, list) and "items" in schema:
        for item in value:
            yield from unnamed(item, schema["items"], f"{where}[]")
    if not isinstance(value, dict) or "properties" not in schema:
        return
    for key, part in value.items():
        if key not in schema["properties"]:
            yield f"{where}.{key}"
        else:
            yield from unnamed(part, schema["properties"][key], f"{where}.{key}")


def test_results_have_no_schema_unless_the_user_chose_data(agent: Agent) -> None:
    """Clients that get a schema hide the text of results, which is the part for models."""
    for tool in agent.run(agent.client.list_tools).tools:
        assert tool.output_schema is None


# --- what is deprecated -------------------------------------------------------------------------


def test_deprecated_features_are_neither_offered_nor_needed(
    portal: BlockingPortal, home: Home, docs: Path
) -> None:
    """Sampling, roots and logging: a client that has none of them gets full answers."""
    with in_memory(portal, home, docs, mode=LEGACY) as agent:
        capabilities = agent.client.server_capabilities
        assert capabilities is not None
        assert capabilities.logging is None
        assert agent.call("search", query="rotate the keys").content
        heard = [message for message in agent.heard if isinstance(message, types.Request)]
        assert not heard
        assert not [each for each in agent.heard if "LoggingMessage" in type(each).__name__]
