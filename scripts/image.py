"""Build the container image, push it for one architecture, and join the architectures.

    python scripts/image.py build                       load it into Docker on this machine
    python scripts/image.py push --architecture arm64   push it as VERSION-arm64
    python scripts/image.py join                        push VERSION and latest for all of them

Takes: the Dockerfile, and for pushing ``REGISTRY_USER`` and ``REGISTRY_TOKEN``. Gives: the image
with its labels; ``join`` writes ``name`` and ``digest`` to ``$GITHUB_OUTPUT``. With ``--print`` the
command is only shown. The name of the image follows the project's home in ``pyproject.toml``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))

from release import ROOT, read_version

ARCHITECTURES = ("amd64", "arm64")
REGISTRY = "ghcr.io"


def read_project() -> dict[str, str]:
    """Return description, home and documentation of the project."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = about["urls"]
    return {
        "description": about["description"],
        "licenses": about["license"],
        "home": urls["Homepage"],
        "documentation": urls["Documentation"],
    }


def image_name() -> str:
    return REGISTRY + urlsplit(read_project()["home"]).path.lower()


def find_labels(revision: str) -> dict[str, str]:
    """Return the labels of an image, and the one by which the MCP registry knows its owner."""
    project = read_project()
    labels = {
        "title": "Lookfar",
        "description": project["description"],
        "version": read_version(),
        "revision": revision,
        "source": project["home"],
        "url": project["home"],
        "documentation": project["documentation"],
        "licenses": project["licenses"],
    }
    labels = {f"org.opencontainers.image.{name}": value for name, value in labels.items()}
    server = ROOT / "server.json"
    if server.is_file():
        name = json.loads(server.read_text(encoding="utf-8"))["name"]
        labels["io.modelcontextprotocol.server.name"] = name
    return labels


def build_command(revision: str, *options: str) -> list[str]:
    labels = [f"--label={name}={value}" for name, value in find_labels(revision).items()]
    return ["docker", "buildx", "build", *labels, *options, "."]


def push_command(revision: str, architecture: str) -> list[str]:
    return build_command(
        revision,
        f"--platform=linux/{architecture}",
        f"--tag={image_name()}:{read_version()}-{architecture}",
        "--provenance=mode=max",
        "--sbom=true",
        "--push",
    )


def join_command() -> list[str]:
    name, version = image_name(), read_version()
    tags = [f"--tag={name}:{version}"]
    if re.fullmatch(r"[\d.]+", version):  # A candidate is not what people get without asking.
        tags.append(f"--tag={name}:latest")
    parts = [f"{name}:{version}-{architecture}" for architecture in ARCHITECTURES]
    return ["docker", "buildx", "imagetools", "create", *tags, *parts]


def digest_command() -> list[str]:
    shown = ["--format", "{{.Manifest.Digest}}"]
    return ["docker", "buildx", "imagetools", "inspect", *shown, f"{image_name()}:{read_version()}"]


def sign_in() -> None:
    """Sign in to the registry; the token goes through a pipe, not the command line."""
    user, token = os.environ.get("REGISTRY_USER"), os.environ.get("REGISTRY_TOKEN")
    if not user or not token:
        raise SystemExit("Set REGISTRY_USER and REGISTRY_TOKEN, or use --print.")
    command = ["docker", "login", REGISTRY, "--username", user, "--password-stdin"]
    subprocess.run(command, input=token, text=True, check=True)


def write_output(digest: str) -> None:
    line = f"name={image_name()}\ndigest={digest}\n"
    print(line, end="")
    if path := os.environ.get("GITHUB_OUTPUT"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("build", "push", "join"))
    parser.add_argument("--architecture", choices=ARCHITECTURES, default=ARCHITECTURES[0])
    parser.add_argument("--print", action="store_true", help="only show the commands")
    given = parser.parse_args()
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    command = {
        "build": lambda: build_command(revision, f"--tag=lookfar:{read_version()}", "--load"),
        "push": lambda: push_command(revision, given.architecture),
        "join": join_command,
    }[given.command]()
    if given.print:
        print(shlex.join(command))
        return 0
    if given.command != "build":
        sign_in()
    if given.command == "push":  # Attestations need a builder of their own.
        subprocess.run(["docker", "buildx", "create", "--use"], check=True)
    subprocess.run(command, cwd=ROOT, check=True)
    if given.command == "join":
        shown = subprocess.run(digest_command(), capture_output=True, text=True, check=True)
        write_output(shown.stdout.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
