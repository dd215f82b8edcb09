"""How a server records its requests: JSON lines, metrics and spans, without secrets."""

from __future__ import annotations

import contextvars
import importlib.util
import json
import logging
import os
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.serve.cli.main import cli
from lookfar.serve.http.log_lines import REQUEST_ID, JsonLines, logging_to
from lookfar.serve.http.metrics import Metrics
from lookfar.serve.http.visits import Visit, Watch
from serve.http.asking import Served, command, environment, serving, write_documents
from waiting import DEADLINE, wait_for

SECRET = "s3cret-" * 5


def test_a_request_is_one_line_with_its_id_route_status_and_time(open_server: Served) -> None:
    open_server.ask("POST", "/tools/search", {"query": "key"}, {"X-Request-Id": "line-1"})
    line = open_server.logged(request_id="line-1", component="http")
    assert line["level"] == "info"
    assert line["message"] == "POST /tools/{name} 200"
    assert (line["method"], line["route"], line["status"]) == ("POST", "/tools/{name}", 200)
    assert 0 < line["ms"] < DEADLINE * 1000
    assert line["time"].endswith("+00:00")


def test_a_tool_call_is_logged_with_its_time(open_server: Served) -> None:
    open_server.ask("POST", "/tools/search", {"query": "key"}, {"X-Request-Id": "call-1"})
    line = open_server.logged(request_id="call-1", tool="search")
    assert line["component"] == "tools"
    assert line["ms"] > 0
    assert "arguments" not in line


def test_a_tool_call_over_mcp_is_logged_with_its_time(open_server: Served) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "key"}},
    }
    spoken = {"Accept": "application/json, text/event-stream"}
    begin = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    begun = open_server.ask("POST", "/mcp", begin, spoken)
    session = {**spoken, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    open_server.ask("POST", "/mcp", ready, session)
    open_server.ask("POST", "/mcp", call, {**session, "X-Request-Id": "mcp-1"})
    assert open_server.logged(request_id="mcp-1", tool="search")["ms"] > 0
    assert open_server.logged(request_id="mcp-1", route="/mcp")["status"] == 200


def test_every_line_is_json_with_time_level_component_and_message(open_server: Served) -> None:
    open_server.ask("GET", "/nothing", headers={"X-Request-Id": "missing-1"})
    line = open_server.logged(request_id="missing-1")
    assert (line["route"], line["status"], line["code"]) == ("other", 404, "NOT_FOUND")
    lines = [each for each in open_server.lines if not each.startswith("Serving ")]
    for each in lines:
        assert {"time", "level", "component", "message"} <= json.loads(each).keys(), each


def test_no_secret_is_in_any_log(open_server: Served) -> None:
    """Not the token, a cookie, the words of a question, or a path or query that hold one."""
    open_server.ask(
        "POST",
        f"/tools/search?token={SECRET}",
        {"query": SECRET},
        {"Cookie": SECRET, "X-Api-Key": SECRET, "Proxy-Authorization": SECRET},
        token=SECRET,
    )
    for path in (f"/{SECRET}", f"/tools/{SECRET}", f"/mcp?{SECRET}"):
        open_server.ask("POST", path, {SECRET: SECRET}, {"Origin": f"http://{SECRET}"})
        open_server.ask("POST", path, {SECRET: SECRET}, {"Host": SECRET})
        open_server.ask("POST", path, {SECRET: SECRET})
    with open_server.connect() as connection:
        connection.sendall(f"{SECRET}\r\n\r\n".encode())
        connection.makefile("rb").read()
    open_server.ask("GET", "/health", headers={"X-Request-Id": "after-secrets"})
    open_server.logged(request_id="after-secrets")
    assert SECRET not in "\n".join(open_server.lines)
    assert SECRET.encode() not in open_server.ask("GET", "/metrics").body


def test_a_log_that_cannot_be_written_is_not_called_an_index(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = tmp_path / "file" / "logs" / "serve.log"
    result = command(tmp_path, "serve", tmp_path, "--port", 0, "--log-file", log)
    assert result.returncode
    assert f"creating the folder {log.parent}" in result.stderr


def test_arguments_are_logged_only_if_configured(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "serve.log"
    with serving(tmp_path, "--log-file", file, "--set", "serve.log_arguments=true") as served:
        served.tool("search", query="signing key")
        lines = wait_for(lambda: file.exists() and file.read_text().splitlines(), "a log")
        served.process.terminate()
        served.process.wait(DEADLINE)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    [call] = [line for line in lines if line["component"] == "tools"]
    assert call["arguments"] == {"query": "signing key"}
    assert all(line.startswith("Serving ") for line in served.lines)
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_address_at_the_start_can_be_opened(tmp_path: Path) -> None:
    tokens = {"LOOKFAR_TOKENS": "read:" + "r" * 24}
    with serving(tmp_path, "--host", "0.0.0.0", env=tokens) as served:
        (line,) = [line for line in served.lines if line.startswith("Serving ")]
        assert line.count(f"http://127.0.0.1:{served.port}/") == 2


def test_requests_are_logged_only_if_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path, access_log=False) as served:
        served.tool("search", query="signing key")
        served.ask("GET", "/health")
        served.process.terminate()
        served.process.wait(DEADLINE)
        lines = wait_for(lambda: served.lines, "a line")
    assert lines[0].startswith("Serving http://127.0.0.1:")
    # So are the first index, which the server builds by itself, its start and its end.
    assert {line["component"] for line in served.log} <= {"toolsets.startup", "server"}
    assert len(lines) == 1 + len(served.log)


@pytest.mark.parametrize(("status", "expected"), [(200, []), (404, []), (503, ["warning"])])
def test_failures_of_the_server_are_logged_always(
    tmp_path: Path, status: int, expected: list[str]
) -> None:
    file = tmp_path / "serve.log"
    visit = Visit("an-id", "GET")
    with logging_to(str(file), "info"), Watch().request(visit, {}):
        visit.status = status
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["level"] for line in lines] == expected


def test_lines_of_a_request_have_its_id(tmp_path: Path) -> None:
    """Also in a thread that works for it. Seen to fail when the ID was not added."""
    file = tmp_path / "serve.log"
    log = logging.getLogger("lookfar.store")
    with logging_to(str(file), "info"):
        context = contextvars.copy_context()
        context.run(REQUEST_ID.set, "an-id")
        context.run(log.warning, "within")
        context.run(log.warning, "within another", extra={"request_id": "other"})
        worker = threading.Thread(target=context.run, args=(log.warning, "in a thread"))
        worker.start()
        worker.join(DEADLINE)
        log.warning("outside")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ids = {line["message"]: line.get("request_id") for line in lines}
    assert ids == {
        "within": "an-id", "within another": "other", "in a thread": "an-id", "outside": None
    }  # fmt: skip


@pytest.mark.parametrize("level", ["warning", "error"])
def test_the_level_is_a_setting(tmp_path: Path, level: str) -> None:
    file = tmp_path / "serve.log"
    with logging_to(str(file), level):
        logging.getLogger("lookfar.http").info("a request")
        logging.getLogger("lookfar.http").warning("a warning")
        logging.getLogger("lookfar.http").error("an error")
        logging.getLogger("elsewhere").info("not ours")
    said = [json.loads(line)["message"] for line in file.read_text().splitlines()]
    assert said == (["a warning", "an error"] if level == "warning" else ["an error"])


def test_an_exception_is_one_line_too() -> None:
    try:
        raise ValueError("line one\nline two")
    except ValueError:
        record = logging.LogRecord(
            "lookfar.serve.daemon.pool", 40, "", 1, "it %s", ("broke",), sys.exc_info()
        )
    text = JsonLines().format(record)
    assert "\n" not in text
    shape = json.loads(text)
    assert (shape["component"], shape["message"], shape["level"]) == (
        "daemon.pool",
        "it broke",
        "error",
    )
    assert "ValueError: line one\nline two" in shape["exception"]


def test_an_unread_log_does_not_block_the_server(tmp_path: Path) -> None:
    """A pipe holds 64 KiB; several times that is logged here."""
    home = tmp_path / "home"
    docs = write_documents(tmp_path / "docs")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "lookfar", "serve", str(docs), "--port", "0"),
            *("--set", "serve.requests_per_second=0", "--access-log"),
        ],
        env=environment(home),
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        port = int(line.split()[1].removesuffix(";").removesuffix("/mcp").rpartition(":")[2])
        served = Served(port, process, tmp_path, home)
        for _ in range(1000):
            assert served.ask("GET", "/health").status == 200
        process.terminate()
        assert process.wait(DEADLINE) is not None
    finally:
        process.kill()
        process.wait(DEADLINE)
        process.stderr.close()  # type: ignore[union-attr]


# --- figures ------------------------------------------------------------------------------------


def test_metrics_count_requests_calls_and_refusals(open_server: Served) -> None:
    open_server.tool("search", query="key")
    open_server.ask("GET", "/health", headers={"Host": "evil.example"})
    answer = open_server.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    figures = dict(
        line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if line[0] != "#"
    )
    search = '{method="POST",route="/tools/{name}",status="200"}'
    assert int(figures[f"lookfar_requests_total{search}"]) >= 1
    assert int(figures['lookfar_refused_total{code="WRONG_HOST"}']) >= 1
    assert int(figures['lookfar_tool_seconds_count{tool="search"}']) >= 1
    assert int(figures["lookfar_requests_under_way"]) >= 1
    assert figures['lookfar_documents{collection="docs"}'] != "0"


def test_a_histogram_adds_up() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.002, 0.3, 100.0):
        metrics.tool("find", seconds)
    lines = metrics.text([]).splitlines()
    buckets = [line for line in lines if line.startswith("lookfar_tool_seconds_bucket")]
    counts = [int(line.rsplit(" ", 1)[1]) for line in buckets]
    assert counts == [2, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5]
    assert 'le="+Inf"' in buckets[-1]
    assert 'lookfar_tool_seconds_sum{tool="find"} 100.303500' in lines
    assert 'lookfar_tool_seconds_count{tool="find"} 5' in lines


def test_metrics_are_off_by_default(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.ask("GET", "/metrics").status == 404
        assert "/metrics" not in served.ask("GET", "/openapi.json").json["paths"]


# --- traces -------------------------------------------------------------------------------------

with_traces = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.exporter") is None, reason="lookfar[otel] is missing"
)


@with_traces
def test_spans_go_to_the_collector_that_the_environment_names(tmp_path: Path) -> None:
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{collector.server_port}"
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": place,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "LOOKFAR_SERVE_TRACES": "true",
        }
        with serving(tmp_path, env=variables) as served:
            parent = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
            headers = {"traceparent": parent, "Content-Type": "application/json"}
            served.ask("POST", "/tools/search", {"query": SECRET}, headers)
            wait_for(lambda: b"POST /tools/{name}" in b"".join(received), "a span")
            wait_for(lambda: b"search" in b"".join(received), "the span of the call")
        collector.shutdown()
    sent = b"".join(received)
    assert bytes.fromhex("ab" * 16) in sent
    assert SECRET.encode() not in sent


def test_traces_without_their_packages_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    result = CliRunner().invoke(
        cli, ["serve", str(tmp_path), "--port", "0", "--set", "serve.traces=true"]
    )
    assert result.exit_code == 2
    assert "pip install 'lookfar[otel]'" in result.stderr


def test_tracing_is_not_imported_by_default() -> None:
    """Neither the packages for traces nor anything of ours that needs them."""
    code = (
        "import sys, lookfar.serve.http.listen;"
        "print([m for m in sys.modules if m.startswith('opentelemetry.sdk')"
        " or m == 'lookfar.serve.http.traces'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert done.stdout.strip() == "[]"
