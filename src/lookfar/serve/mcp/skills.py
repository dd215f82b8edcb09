"""Skills over MCP: instructions for agents that a client lists and reads (SEP-2640).

The files are in ``skill_files``. Each is also an ordinary resource, so a client that does not know
the extension can read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import mcp_types as types
import yaml
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from lookfar.serve.tools.search import SEARCH
from lookfar.serve.tools.tool import Tool

EXTENSION: Final = "io.modelcontextprotocol/skills"
SCHEME: Final = "skill://"
MINUTES_5: Final = 300_000
"""How long a client may keep what changes only with a new version of Lookfar (milliseconds)."""
_FILE: Final = "SKILL.md"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that consists of one file."""

    frontmatter: Mapping[str, Any]
    text: str

    @property
    def name(self) -> str:
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        return str(self.frontmatter["description"])

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.name}/{_FILE}"

    @property
    def body(self) -> str:
        """The text without its front matter."""
        return self.text.split("---\n", 2)[2].lstrip("\n")

    def as_entry(self) -> dict[str, Any]:
        """Return the entry of the skill, with the digest that a client verifies."""
        content = self.text.encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        return {
            "uri": self.uri,
            "frontmatter": dict(self.frontmatter),
            "resources": [{"uri": self.uri, "digest": digest, "size": len(content)}],
        }

    def as_resource(self) -> types.Resource:
        return types.Resource(
            name=self.name,
            title="How to search with Lookfar",
            description=self.description,
            uri=self.uri,
            mime_type="text/markdown",
            size=len(self.text.encode()),
        )


@cache
def load_skill() -> Skill:
    """Load the skill that explains the default tools."""
    file = files("lookfar.serve.mcp") / "skill_files" / "lookfar" / _FILE
    text = file.read_bytes().decode()
    return Skill(yaml.safe_load(text.split("---\n", 2)[1]), text)


def choose_skills(tools: Iterable[Tool]) -> tuple[Skill, ...]:
    """Return the skills for these tools; only the default tools have one."""
    return (load_skill(),) if any(tool is SEARCH for tool in tools) else ()


def read_skill(skills: Iterable[Skill], uri: str) -> types.ReadResourceResult:
    contents = types.TextResourceContents(
        uri=uri, mime_type="text/markdown", text=_find(skills, uri).text
    )
    # The same for every client, until Lookfar is updated.
    return types.ReadResourceResult(contents=[contents], ttl_ms=MINUTES_5, cache_scope="public")


def add_skills(server: Server[Any], skills: tuple[Skill, ...]) -> None:
    """Declare the extension and answer its methods; do nothing if there are no skills."""
    if not skills:
        return
    caching = {"ttlMs": MINUTES_5, "cacheScope": "public"}

    async def list_skills(_context: Any, params: types.PaginatedRequestParams) -> dict[str, Any]:
        if params.cursor:
            raise MCPError(types.INVALID_PARAMS, "The cursor is not valid: there is one page.")
        return {"skills": [skill.as_entry() for skill in skills], **caching}

    async def get_skill(_context: Any, params: _GetSkillParams) -> dict[str, Any]:
        return {"skill": _find(skills, params.uri).as_entry(), **caching}

    server.extensions[EXTENSION] = {}
    server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", _GetSkillParams, get_skill)


class _GetSkillParams(types.RequestParams):
    uri: str


def _find(skills: Iterable[Skill], uri: str) -> Skill:
    known = {skill.uri: skill for skill in skills}
    if uri not in known:
        raise MCPError(
            types.INVALID_PARAMS,
            f"There is no skill {uri[:100]!r}. Skills: {', '.join(known) or 'none'}.",
            {"uri": uri[:100]},
        )
    return known[uri]
