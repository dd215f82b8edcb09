"""The server that the suite is run against: the one place to change it.

Gives: the commands that start it. `{port}` stands for a free port of the loopback address, where
the protocol must be at /mcp. Behind HTTP stand the fixtures of the suite; `serve_fixtures.py`
adds them to any low-level server, named as `module:function`.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
BUILDER = "serve_fixtures:lookfar"

HTTP = [sys.executable, str(HERE / "serve_fixtures.py"), BUILDER, "http", "{port}"]
STDIO = [sys.executable, str(HERE / "serve_fixtures.py"), BUILDER, "stdio"]
