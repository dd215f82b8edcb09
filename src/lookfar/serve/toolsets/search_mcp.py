"""The ``search-mcp`` toolset: build, search, maintain and delete the index of one project.

Results have the shapes that Search MCP's clients know. Errors are ``{"code", "userMessage",
"developerMessage"}`` with Search MCP's codes.
"""

from __future__ import annotations

from typing import Any

from lookfar.serve.tools.tool import Input, Tool
from lookfar.serve.toolsets import search_mcp_index as index
from lookfar.serve.toolsets import search_mcp_search as search
from lookfar.serve.toolsets.search_mcp_config import NoInput, get_config
from lookfar.serve.toolsets.search_mcp_errors import refusal


def _make_tool(name: str, about: str, given: type[Input], handler: Any, **more: Any) -> Tool:
    return Tool(name, about, given, handler, refusal=refusal, **more)


TOOLS: tuple[Tool, ...] = (
    _make_tool(
        "create_index",
        "Index this project so that it can be searched. Asks first.",
        index.ConfirmInput, index.create, read_only=False,
    ),
    _make_tool(
        "search_docs",
        "Search the project's documentation and the comments of its code by meaning and words."
        " Gives passages with their file, lines and headings.",
        search.SearchInput, search.search_docs,
        advice="Search this project's documentation with `{name}`, by meaning and words.",
        enhanced="Tip: for another question on a document you have read, search again instead of"
        " reading the whole file again; that costs far fewer tokens.",
        by_reader=True,
    ),
    _make_tool(
        "search_code",
        "Search the project's code by meaning and words. Gives functions, classes and the like"
        " with their file, lines and signature.",
        search.SearchInput, search.search_code,
        advice="`{name}` finds functions and classes the same way. Better than grep when you do not"
        " know the words that a file uses; grep is as good for an exact string.",
        enhanced="Tip: to find a function or how something is done, search instead of reading"
        " whole files.",
        by_reader=True,
    ),
    _make_tool(
        "get_file_summary",
        "What a source file defines, imports and exports, and how complex it is, without its text.",
        index.SummaryInput, index.summarise_file,
    ),
    _make_tool(
        "search_by_path",
        "Find indexed files by a glob on their path.",
        index.PathInput, index.search_by_path,
    ),
    _make_tool(
        "get_index_status",
        "Whether the project is indexed, how much of it, since when, and whether it is followed.",
        NoInput, index.get_status, light=True,
    ),
    _make_tool(
        "get_config",
        "The settings that indexing and searching use here, and the file to change them in.",
        NoInput, get_config,
    ),
    _make_tool(
        "reindex_project",
        "Read the whole project again and rebuild its index. Asks first; the old index answers"
        " until the new one is done.",
        index.ConfirmInput, index.reindex, read_only=False,
    ),
    _make_tool(
        "reindex_file",
        "Bring one file of the index up to date.",
        index.FileInput, index.reindex_file, read_only=False,
    ),
    _make_tool(
        "delete_index",
        "Delete the index of this project, never its files. Asks first.",
        index.ConfirmInput, index.delete, read_only=False, destructive=True, idempotent=False,
    ),
)  # fmt: skip
