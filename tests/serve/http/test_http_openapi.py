"""What is described is what is served: read by a program that tries to prove the opposite.

Seen to fail with a tool that raised an error without a type.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import amount, report
from lookfar.serve.tools.tool import offered
from lookfar.serve.toolsets import load_tools
from serve.http.asking import Served, environment, serving

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,negative_data_rejection"
)

EXAMPLES = amount(8, 16)
"""At most, for each operation."""


def test_every_tool_is_described_by_its_own_schema(open_server: Served) -> None:
    shape = open_server.ask("GET", "/openapi.json").json
    assert shape["openapi"].startswith("3.1")
    for tool in offered(load_tools(["all"]), write=False):
        about = shape["paths"][f"/tools/{tool.name}"]["post"]
        body = about["requestBody"]
        assert body["content"]["application/json"]["schema"] == tool.input_schema
        assert body["required"] == bool(tool.input_schema.get("required"))
        assert {"200", "400", "401", "403", "413", "421", "429"} <= about["responses"].keys()


def test_every_route_is_described_and_every_description_is_served(open_server: Served) -> None:
    paths = open_server.ask("GET", "/openapi.json").json["paths"]
    assert {"/health", "/status", "/tools", "/openapi.json", "/metrics"} <= paths.keys()
    assert {"/query_documents", "/query_documents_stream"} <= paths.keys()
    for path, ways in paths.items():
        [method] = ways
        other = "GET" if method == "post" else "POST"
        assert open_server.ask(other, path).status == 405, path
        assert open_server.ask(method.upper(), path).status not in (404, 405, 500), path


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(
        tmp_path_factory.mktemp("fuzzed"),
        *("--toolset", "all", "--write", "--metrics", "--log-level", "error"),
        *("--set", "serve.requests_per_second=0", "--set", "watch.enabled=false"),
    ) as served:
        yield served


def test_schemathesis_finds_no_fault(fuzzed: Served, tmp_path: Path) -> None:
    """Every operation, with sound and unsound data: no 5xx, and nothing that is not described."""
    pytest.importorskip("schemathesis")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            f"{fuzzed.address}/openapi.json",
            *("--checks", CHECKS, "--phases", "fuzzing"),
            *(
                "--max-examples",
                str(EXAMPLES),
                "--seed",
                "20261115",
                "--generation-database",
                "none",
            ),
            *("--suppress-health-check", "all", "--no-color"),
        ],
        env=environment(fuzzed.home),
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=amount(240, 900),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert counted, done.stdout[-3000:]
    generated, passed = map(int, counted.groups())
    operations = len(fuzzed.ask("GET", "/openapi.json").json["paths"])
    report(
        "schema examples", trials=generated, failures=generated - passed,
        note=f"{operations} operations",
    )  # fmt: skip
    assert generated == passed
    assert generated > 100
    assert fuzzed.process.poll() is None
    assert not [line for line in fuzzed.log if line["level"] == "error"]
