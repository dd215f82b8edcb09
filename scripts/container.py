"""Run the steps of the Dockerfile without Docker, and what the image promises, in a Debian root.

    sudo python scripts/container.py build/image                  make the root, build, check
    sudo python scripts/container.py build/image --checks         only check what was built before

Takes: a folder, root on Linux, mmdebstrap, and the network. Gives: the file system of the image in
that folder. It then runs as the image's user, without capabilities, with everything
read-only except ``/data`` and ``/tmp``, and must index, search, find a commit, serve, answer the
health check and end on SIGTERM. In place of ``python:3.13-slim`` it uses Debian trixie with the
same Python in a virtual environment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEBIAN = "trixie"
PACKAGES = "ca-certificates,passwd,python3,python3-venv,util-linux"
PYTHON = "/python"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PATHS = f"{PYTHON}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
TOKEN = "a-token-of-at-least-thirty-two-characters"
PORT = 8377


@dataclass
class Stage:
    """One ``FROM`` of a Dockerfile: its instructions in order, as pairs of name and argument."""

    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str, default: str = "") -> str:
        return next((text for name, text in reversed(self.steps) if name == instruction), default)

    def environment(self) -> dict[str, str]:
        pairs = (text for name, text in self.steps if name == "ENV")
        return dict(pair.split("=", 1) for text in pairs for pair in shlex.split(text))

    def labels(self) -> dict[str, str]:
        pairs = (text for name, text in self.steps if name == "LABEL")
        return dict(pair.split("=", 1) for text in pairs for pair in shlex.split(text))

    def health_check(self) -> list[str]:
        command: list[str] = json.loads(self.last("HEALTHCHECK").partition("CMD ")[2])
        return command


def read_stages(text: str) -> list[Stage]:
    """Parse a Dockerfile; comments and continued lines are as Docker takes them."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        name, _, argument = line.strip().partition(" ")
        if name == "FROM":
            stages.append(Stage(argument.partition(" AS ")[2]))
        elif name:
            stages[-1].steps.append((name, argument.strip()))
    return stages


def call(*command: str | Path, **options: object) -> None:
    print("+", shlex.join(map(str, command)), flush=True)
    subprocess.run([*map(str, command)], check=True, **options)  # type: ignore[call-overload]


def make_root(root: Path) -> None:
    """Make a Debian with Python, and with the certificates and names that this machine uses."""
    if shutil.which("mmdebstrap") is None:
        raise SystemExit("This needs mmdebstrap: apt-get install mmdebstrap")
    if root.exists():
        raise SystemExit(f"{root} exists. Delete it, or use --checks to check it again.")
    root.parent.mkdir(parents=True, exist_ok=True)
    mirror = "http://deb.debian.org/debian"
    call("mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, root, mirror)
    for path in (CERTIFICATES, Path("/etc/resolv.conf")):
        if path.is_file():
            shutil.copyfile(path, root / path.relative_to("/"))
    call("chroot", root, "python3", "-m", "venv", PYTHON)


def run_step(root: Path, command: str, folder: str) -> None:
    """Run the command of a ``RUN`` step in the root."""
    environment = {
        "PATH": PATHS,
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
        **({"PIP_CERT": str(CERTIFICATES)} if CERTIFICATES.is_file() else {}),
    }
    within = shlex.quote(f"cd {folder or '/'} && {command}")
    script = f"mount -t proc proc {root}/proc && exec chroot {root} sh -c {within}"
    call("unshare", "--mount", "sh", "-c", script, env=environment)


def build(root: Path, stages: list[Stage]) -> None:
    """Run the steps of every stage in one root: what the first builds, the second binds."""
    for stage in stages:
        folder = ""
        for name, argument in stage.steps:
            if name == "WORKDIR":
                folder = argument
                (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif name == "COPY":
                *sources, target = shlex.split(argument)
                for source in sources:
                    copy(ROOT / source, root / folder.lstrip("/") / target)
            elif name == "RUN":
                command = re.sub(r"^(?:--\S+\s+)*", "", argument)
                run_step(root, command, folder)


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
    else:
        shutil.copy(source, target)


class Container:
    """The built image as its last stage says, with everything read-only but its volume."""

    def __init__(self, root: Path, stage: Stage, documents: Path, volume: Path) -> None:
        self.root = root
        self.stage = stage
        self.user = stage.last("USER")
        self._documents = documents
        self._volume = volume
        volume.mkdir(parents=True, exist_ok=True)
        os.chown(volume, int(self.user), int(self.user))

    def command(self, *arguments: str, entry: bool = True) -> list[str]:
        """Return the command that runs the entry point, or another program, in the container."""
        root = shlex.quote(str(self.root))
        program = [*(json.loads(self.stage.last("ENTRYPOINT")) if entry else ()), *arguments]
        environment = {"PATH": PATHS, **self.stage.environment()}
        variables = [f"{name}={value}" for name, value in environment.items()]
        # Entering a root needs a capability, so everything is given up inside.
        user = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        drop = ["setpriv", *user, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        inside = shlex.join([*drop, "env", "-i", *variables, *program])
        folder = self.stage.last("WORKDIR", "/")
        # The root is made read-only before anything is mounted in it.
        script = f"""set -e
            mount --bind {root} {root}
            mount -o remount,ro,bind {root}
            mount -t proc proc {root}/proc
            mount --rbind /dev {root}/dev
            mount --bind {shlex.quote(str(self._documents))} {root}/docs
            mount -o remount,ro,bind {root}/docs
            mount --bind {shlex.quote(str(self._volume))} {root}/data
            mount -t tmpfs tmpfs {root}/tmp
            exec chroot {root} sh -c {shlex.quote(f"cd {folder} && exec {inside}")}"""
        return ["unshare", "--mount", "--", "sh", "-c", script]

    def run(self, *arguments: str, entry: bool = True) -> str:
        done = subprocess.run(
            self.command(*arguments, entry=entry), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def make_documents(folder: Path, user: str) -> None:
    """Make a repository with one document and one commit, which the image's user owns."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "guide.md").write_text("# Lamps\n\nThe lighthouse lamp burns whale oil.\n")
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    call("git", "init", "--quiet", folder)
    call("git", "-C", folder, "add", "--all")
    call(
        "git", "-C", folder, *author, "commit", "--quiet", "--message=Describe the lighthouse lamp"
    )
    call("chown", "--recursive", f"{user}:{user}", folder)


def check(container: Container) -> None:
    """Check what the image promises; end with a message at the first promise that is not kept."""
    expect("user", container.run("id", "-u", entry=False).strip() == container.user)
    capabilities = container.run("grep", "CapEff", "/proc/self/status", entry=False)
    expect("no capabilities", set(capabilities.split()[1]) == {"0"})
    writable = (
        "for place in / /docs /usr /home /var; do touch $place/x 2>/dev/null && echo $place; done"
    )
    expect("read-only root", not container.run("sh", "-c", f"{writable}; true", entry=False))
    expect("version", container.run("--version").startswith("lookfar"))
    container.run("index", "/docs")
    expect("search", "guide.md:1-3" in container.run("search", "whale oil", "/docs"))
    expect("default folder", "guide.md:1-3" in container.run("search", "whale oil"))
    expect("git", "Describe the lighthouse lamp" in container.run("history", "guide.md"))
    serve(container)


def serve(container: Container) -> None:
    """Serve, be healthy, refuse a request without a token, answer one with it, and end."""
    with socket.socket() as free:
        if not free.connect_ex(("127.0.0.1", PORT)):
            raise SystemExit(f"Another program listens on port {PORT}.")
    container.stage.steps.append(("ENV", f"LOOKFAR_TOKENS={TOKEN}"))
    command = container.command("serve", "/docs", "--host", "0.0.0.0")
    process = subprocess.Popen(command)
    try:
        wait_for_health(container, process)
        expect("health check", True)
        expect("ready", ask("/readyz") == 200)
        body = json.dumps({"query": "whale oil"}).encode()
        expect("token needed", ask("/tools/search", body) == 401)
        expect("answer", ask("/tools/search", body, TOKEN) == 200)
    finally:
        process.terminate()
        code = process.wait(60)
    expect("graceful stop", code == 0)


def wait_for_health(container: Container, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    command = container.command(*container.stage.health_check(), entry=False)
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("The server does not become healthy.")
        time.sleep(0.5)


def ask(path: str, body: bytes | None = None, token: str = "") -> int:
    headers = {"Content-Type": "application/json", "Host": "localhost"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def expect(promise: str, kept: bool) -> None:
    print(f"{'ok' if kept else 'FAILED':6} {promise}", flush=True)
    if not kept:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checks", action="store_true", help="check what was built before")
    given = parser.parse_args()
    if sys.platform != "linux" or os.geteuid():
        raise SystemExit("This needs root on Linux.")
    root = given.folder.resolve() / "root"
    stages = read_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    if given.checks and not root.is_dir():
        raise SystemExit(f"Nothing was built in {given.folder}; run this without --checks.")
    if not given.checks:
        make_root(root)
        build(root, stages)
    container = Container(root, stages[-1], root.parent / "docs", root.parent / "data")
    make_documents(root.parent / "docs", container.user)
    check(container)


if __name__ == "__main__":
    main()
