"""Settings as the clients' own users have them: comments, other servers, odd ends of lines."""

from __future__ import annotations

from typing import Final

CLAUDE_CODE: Final = """\
{
  "numStartups": 184,
  "tipsHistory": { "shift-enter": 27, "memory-command": 40 },
  "oauthAccount": { "emailAddress": "ada@example.org" },
  "projects": {
    "/home/ada/engine": {
      "allowedTools": [],
      "mcpServers": {}
    }
  },
  "mcpServers": {
    "playwright": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "@playwright/mcp@latest"
      ],
      "env": { "PLAYWRIGHT_TOKEN": "do-not-repeat" }
    }
  }
}
"""
CLAUDE_DESKTOP: Final = (
    '{"globalShortcut":"","mcpServers":{"files":{"command":"npx","args":["-y"]}}}'
)
CURSOR: Final = """\
{
\t// Shared with the team.
\t"mcpServers": {
\t\t"linear": { "url": "https://mcp.linear.app/sse" }, // tickets
\t\t/* "old": { "command": "gone" }, */
\t},
}
"""
VSCODE: Final = """\
{
    "inputs": [
        { "type": "promptString", "id": "key", "password": true }
    ],
    "servers": {
        "memory": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-memory"], // keeps a graph
        }
    }
}"""
WINDSURF: Final = """\
{
  "mcpServers": {}
}
"""
CODEX: Final = """\
# What I like.
model = "gpt-5.1-codex"          # the quick one
approval_policy = "on-request"

[mcp_servers.docs]
command = "npx"
args = [
    "-y", # no questions
    "docs-mcp",
]

[mcp_servers.docs.env]
DOCS_KEY = "do-not-repeat"

[projects."/home/ada/engine"]
trust_level = "trusted"
# the end
"""
GEMINI: Final = """\
{
  "theme": "GitHub",
  "mcp": { "allowed": ["git"] },
  "mcpServers": {
    "git": {
      "command": "uvx",
      "args": ["mcp-server-git"],
      "trust": false
    }
  }
}
"""
ZED: Final = """\
// Zed settings
//
// For information on how to configure Zed, see its documentation.
{
  "ui_font_size": 16,
  "theme": {
    "mode": "system", // follows the desk lamp
    "light": "One Light",
    "dark": "One Dark",
  },
  /* Servers
     that I tried. */
  "context_servers": {
    "postgres": {
      "source": "custom",
      "command": "pg-mcp",
      "args": ["postgresql://localhost/db"],
    },
  },
  "languages": {},
}
"""
OPENCODE: Final = """\
{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "everything": {
      "type": "local",
      // Or bun.
      "command": ["npx", "-y", "@modelcontextprotocol/server-everything"],
    },
  },
}
"""
CLINE: Final = """\
{
  "mcpServers": {
    "weather": {
      "command": "node",
      "args": ["/srv/weather.js"],
      "disabled": false,
      "autoApprove": ["forecast"]
    }
  }
}
"""
PLAIN: Final = """\
{
  "mcpServers": {
    "time": { "command": "uvx", "args": ["mcp-server-time"] }
  }
}
"""

SAMPLES: Final = {
    "claude-code": CLAUDE_CODE,
    "claude-desktop": CLAUDE_DESKTOP,
    "cursor": CURSOR,
    "vscode": VSCODE,
    "vscode-insiders": VSCODE,
    "windsurf": WINDSURF,
    "devin": "// Devin\n" + PLAIN,
    "codex": CODEX,
    "gemini": GEMINI,
    "zed": ZED,
    "opencode": OPENCODE,
    "cline": CLINE,
    "cline-cli": CLINE,
    "roo": CLINE,
    "continue": PLAIN,
    "junie": PLAIN,
}
"""A sample settings file for each client."""

LINUX: Final = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "vscode-insiders": ".config/Code - Insiders/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "devin": ".config/devin/mcp_config.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "zed": ".config/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "cline": (
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
    ),
    "cline-cli": ".cline/data/settings/cline_mcp_settings.json",
    "roo": ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    "continue": ".continue/mcpServers/lookfar.json",
    "junie": ".junie/mcp/mcp.json",
}
"""Its path below the home folder on Linux."""

APPLE: Final = {
    "claude-desktop": "Library/Application Support/Claude/claude_desktop_config.json",
    "vscode": "Library/Application Support/Code/User/mcp.json",
    "zed": ".config/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "devin": ".config/devin/mcp_config.json",
    "codex": ".codex/config.toml",
}
WINDOWS: Final = {
    "claude-desktop": "AppData/Roaming/Claude/claude_desktop_config.json",
    "vscode": "AppData/Roaming/Code/User/mcp.json",
    "zed": "AppData/Roaming/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "devin": "AppData/Roaming/devin/mcp_config.json",
    "cursor": ".cursor/mcp.json",
}
PROJECT: Final = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "devin": ".devin/mcp_config.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "zed": ".zed/settings.json",
    "opencode": "opencode.json",
    "roo": ".roo/mcp.json",
    "continue": ".continue/mcpServers/lookfar.json",
    "junie": ".junie/mcp/mcp.json",
}

KEYS: Final = {"vscode": "servers", "vscode-insiders": "servers", "codex": "mcp_servers"} | {
    "zed": "context_servers",
    "opencode": "mcp",
}
"""Where it keeps its servers, if not in mcpServers."""
