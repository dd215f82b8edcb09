"""The default tools, each defined once: MCP, HTTP and the documentation show this table."""

from __future__ import annotations

from lookfar.serve.tools.edits import EDIT
from lookfar.serve.tools.read import READ
from lookfar.serve.tools.related import RELATED
from lookfar.serve.tools.remember import REMEMBER
from lookfar.serve.tools.search import SEARCH
from lookfar.serve.tools.status import STATUS
from lookfar.serve.tools.tool import Tool

TOOLS: tuple[Tool, ...] = (SEARCH, READ, RELATED, STATUS, REMEMBER, EDIT)
