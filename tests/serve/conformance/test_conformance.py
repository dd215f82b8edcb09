"""The protocol's own checks, against the server that `target.py` names.

Without Node 24 or npm the tests are skipped, and say why.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback_ports import choose_port
from serve.conformance import target
from serve.conformance.suite import Check, Suite, Unavailable
from waiting import DEADLINE

REVISIONS = ("2025-11-25", "2026-07-28")
FOREIGN = ("LOOKFAR_", "XDG_")

# Scenarios that do not fit a server like this one, and why.
LEFT_OUT = {
    "tasks-lifecycle": "the tasks extension is not offered: builds report progress instead",
    "tasks-capability-negotiation": "the tasks extension is not offered",
    "tasks-wire-fields": "the tasks extension is not offered",
    "tasks-request-state-removal": "the tasks extension is not offered",
    "tasks-mrtr-input": "the tasks extension is not offered",
    "tasks-request-headers": "the tasks extension is not offered",
    "tasks-dispatch-and-envelope": "the tasks extension is not offered",
    "tasks-status-notifications": "the tasks extension is not offered",
    "tasks-required-task-error": "the tasks extension is not offered",
    "tasks-mrtr-composition": "the tasks extension is not offered",
    "sep-2640-skills-directory": "skills are single files, so directories are not listed",
}

# Scenarios of extensions that are offered.
EXTENSIONS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest")

# Recommendations that are not followed, and why. The scenario that looks for them has no others.
NOT_FOLLOWED = {
    "server-sse-priming-event": "no events are kept: a call that was cut off is made again",
    "server-sse-retry-field": "no events are kept: a call that was cut off is made again",
}


@pytest.fixture(scope="session")
def suite(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """The installed packages. They stay in pytest's cache, where git does not see them."""
    cache = getattr(pytestconfig, "cache", None)  # missing when pytest was told to keep none
    kept = cache.mkdir("conformance") if cache else tmp_path_factory.mktemp("conformance")
    try:
        return Suite.install(kept)
    except Unavailable as reason:
        pytest.skip(f"the conformance suite cannot run: {reason}")


@pytest.fixture(scope="session")
def url(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the target, started for these tests."""
    port = choose_port()
    folder = tmp_path_factory.mktemp("target")
    # Nobody's configuration and nobody's indexes.
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    own |= dict.fromkeys(("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"), str(folder))
    with (folder / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [part.replace("{port}", str(port)) for part in target.HTTP],
            env=own,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(port, process, folder / "log")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            try:
                process.wait(timeout=DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"the target does not listen: {log.read_text(encoding='utf-8')}")


def test_every_scenario_is_run_or_left_out(suite: Suite) -> None:
    """A newer suite may bring scenarios that nobody has looked at."""
    scenarios = suite.scenarios()
    run = {name for name, revisions in scenarios.items() if revisions & {*REVISIONS}}
    assert run
    assert scenarios.keys() - run == LEFT_OUT.keys() | {*EXTENSIONS}


@pytest.mark.parametrize("revision", REVISIONS)
def test_conformance(suite: Suite, url: str, revision: str, tmp_path: Path) -> None:
    """The server speaks the revision as its authors read it."""
    checks = suite.checks(url, revision, tmp_path)
    wanted = {name for name, revisions in suite.scenarios().items() if revision in revisions}
    assert {check.scenario for check in checks} == wanted
    assert not faults(checks)


@pytest.mark.parametrize("scenario", EXTENSIONS)
def test_extensions(suite: Suite, url: str, scenario: str, tmp_path: Path) -> None:
    """An extension that is offered is offered as its authors read it."""
    checks = suite.checks(url, REVISIONS[1], tmp_path, scenario)
    assert {check.scenario for check in checks} == {scenario}
    assert not faults(checks)


def faults(checks: list[Check]) -> list[Check]:
    passed = {"SUCCESS", "INFO"}
    return [
        check
        for check in checks
        if check.status not in passed
        and not (check.status == "WARNING" and check.name in NOT_FOLLOWED)
    ]


def test_conformance_can_fail(suite: Suite, url: str, tmp_path: Path) -> None:
    """A run against nothing must not read as a run without faults."""
    elsewhere = url.removesuffix("/mcp") + "/nothing"
    assert faults(suite.checks(elsewhere, REVISIONS[0], tmp_path))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_finds_nothing(suite: Suite, era: str) -> None:
    """Schemas that some clients refuse or drop."""
    result = suite.inspect(target.STDIO, era)
    assert result.returncode == 0, result.stderr
    assert not [line for line in result.stderr.splitlines() if line.startswith("Warning: tool")]
    assert json.loads(result.stdout)["result"]["tools"]


def test_the_inspector_can_find_something(suite: Suite, tmp_path: Path) -> None:
    """The flags still mean what they meant when they were chosen."""
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import serve_fixtures\n"
        "from serve.conformance import fixtures\n"
        "fixtures.TOOLS['test_simple_text'][0].input_schema['properties'] = {'any': True}\n"
        "serve_fixtures.main('serve_fixtures:bare', 'stdio')\n",
        encoding="utf-8",
    )
    start = f"import sys, runpy; sys.path.insert(0, {str(target.HERE)!r}); "
    command = [sys.executable, "-c", start + f"runpy.run_path({str(bad)!r})"]
    assert suite.inspect(command, "legacy").returncode == 6
