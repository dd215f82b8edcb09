"""Start Lookfar's MCP server for the folders that the user chose in the host application."""

from __future__ import annotations

import sys

from lookfar.serve.entry import main

if __name__ == "__main__":
    sys.argv[1:1] = ["mcp"]
    main()
