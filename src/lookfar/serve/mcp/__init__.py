"""The MCP server: tools, resources, prompts and change notifications."""
