"""The interfaces of Lookfar: command line, MCP, HTTP and the web page."""
