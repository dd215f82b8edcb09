"""Lookfar's own tools, each defined once for MCP, HTTP and the documentation."""
