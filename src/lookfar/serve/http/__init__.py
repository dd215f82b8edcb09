"""The HTTP server: MCP at ``/mcp``, tools as REST, the web page at ``/``."""
