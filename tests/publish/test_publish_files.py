"""What registries, hosts and clients read: server.json, the bundle, the plugin and install links.

The bundle is started here with the packages of the tests. ``scripts/clients.py`` starts it with an
environment that uv makes, and has the clients themselves read the rest.
"""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from lookfar import __version__
from lookfar.serve.mcp.server import HOMEPAGE
from lookfar.serve.mcp.skills import load_skill
from lookfar.serve.setup.clients import BY_NAME
from lookfar.serve.tools.table import TOOLS
from lookfar.serve.tools.tool import offered
from publish import hosts
from script_modules import load_script
from serve.processes import end_all, marked_processes

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NAME = "io.github.lookfar/lookfar"

# The rules of https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json for the
# keys that are used. No object is open, so a misspelt key is found.
TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
HTTPS: dict[str, Any] = {"type": "string", "pattern": "^https://[^ ]+$"}
EXACT: dict[str, Any] = {"type": "string", "pattern": r"^\d+\.\d+\.\d+((a|b|rc)\d+)?$"}


def closed(required: str, **keys: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": keys,
        "required": required.split(),
        "additionalProperties": False,
    }


ARGUMENT = closed(
    "type",
    type={"enum": ["positional"]},
    value=TEXT,
    valueHint=TEXT,
    description=TEXT,
    format={"enum": ["string", "number", "boolean", "filepath"]},
    isRepeated={"type": "boolean"},
) | {"anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}]}
PACKAGE = closed(
    "registryType identifier transport",
    registryType={"enum": ["pypi", "mcpb"]},
    identifier=TEXT,
    version=EXACT,
    fileSha256={"type": "string", "pattern": "^[a-f0-9]{64}$"},
    runtimeHint={"enum": ["uvx"]},
    transport=closed("type", type={"enum": ["stdio"]}),
    packageArguments={"type": "array", "items": ARGUMENT},
)
SERVER = closed(
    "$schema name description version",
    **{"$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"}},
    name={"type": "string", "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
    title=TEXT | {"maxLength": 100},
    description=TEXT | {"maxLength": 100},
    version=EXACT,
    websiteUrl=HTTPS,
    repository=closed("url source", url=HTTPS, source={"enum": ["github"]}),
    packages={"type": "array", "items": PACKAGE, "minItems": 1},
)  # fmt: skip


def load(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


# --- the registry -------------------------------------------------------------------------------


def test_server_json_is_as_the_registry_demands() -> None:
    server = load("server.json")
    Draft7Validator(SERVER).validate(server)
    assert server["name"] == NAME
    assert server["version"] == __version__
    assert server["repository"]["url"] == server["websiteUrl"] == HOMEPAGE
    [package] = server["packages"]
    assert (package["identifier"], package["version"]) == ("lookfar", __version__)
    assert package["packageArguments"][0]["value"] == "mcp"


@pytest.mark.parametrize(
    "broken",
    [
        {"name": "lookfar"},
        {"description": "x" * 101},
        {"version": "latest"},
        {"packages": []},
        {"homepage": HOMEPAGE},
    ],
)
def test_a_broken_server_json_is_noticed(broken: dict[str, Any]) -> None:
    assert list(Draft7Validator(SERVER).iter_errors({**load("server.json"), **broken}))


def test_the_readme_proves_that_the_package_belongs_to_the_server() -> None:
    """The registry looks for this mark in the description on PyPI, which is the README."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["readme"] == "README.md"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"mcp-name: ([^\s<>]+)", text) == [NAME]


# --- the bundle ---------------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The bundle, with a stand-in for the wheel."""
    wheel = tmp_path / f"lookfar-{__version__}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    made: Path = load_script("scripts/bundle.py").write_bundle(wheel, tmp_path)
    return made


def test_the_manifest_of_the_bundle_is_valid() -> None:
    schema = json.loads((HERE / "mcpb-manifest-v0.4.schema.json").read_text(encoding="utf-8"))
    manifest = load("bundle/manifest.json")
    Draft7Validator(schema).validate(manifest)
    assert list(Draft7Validator(schema).iter_errors({**manifest, "manifest_version": "0.3"}))
    assert manifest["manifest_version"] == "0.4"
    assert manifest["server"]["type"] == "uv"
    assert manifest["version"] == __version__
    assert [tool["name"] for tool in manifest["tools"]] == [
        tool.name for tool in offered(TOOLS, write=False)
    ]


def test_a_bundle_has_what_its_host_needs(bundle: Path) -> None:
    """Also for two builds: the registry compares the hash of the file that was published."""
    with zipfile.ZipFile(bundle) as archive:
        names = archive.namelist()
        project = tomllib.loads(archive.read("pyproject.toml").decode())
        manifest = json.loads(archive.read("manifest.json"))
    wheel = f"lookfar-{__version__}-py3-none-any.whl"
    assert project["tool"]["uv"]["sources"]["lookfar"]["path"] == wheel
    assert {wheel, manifest["icon"], manifest["server"]["entry_point"]} <= set(names)
    # Forbidden for this type of server: it would be used instead of what uv installs.
    assert not [name for name in names if name.startswith(("server/lib", "server/venv", ".venv"))]
    before = bundle.read_bytes()
    script = load_script("scripts/bundle.py")
    assert script.write_bundle(bundle.parent / wheel, bundle.parent).read_bytes() == before
    server = script.describe_bundle(bundle)
    Draft7Validator(SERVER).validate(server)
    assert server["packages"][1]["identifier"] == (
        f"{HOMEPAGE}/releases/download/v{__version__}/lookfar-{__version__}.mcpb"
    )


def test_a_bundle_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = load_script("scripts/bundle.py")
    monkeypatch.setattr(script, "read_version", lambda: "9.9.9")
    with pytest.raises(script.Unready, match=r"not 9\.9\.9"):
        script.write_bundle(tmp_path / "x.whl", tmp_path)


def test_a_wheel_is_built_on_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the wheel was renamed from the temporary folder to its place."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    script = load_script("scripts/bundle.py")

    def build(out: Path) -> list[Path]:
        assert out.is_relative_to(memory)
        out.mkdir()
        (out / "lookfar-9.9.9-py3-none-any.whl").write_bytes(b"a wheel")
        return list(out.iterdir())

    monkeypatch.setattr(script, "build", build)
    monkeypatch.setattr("tempfile.tempdir", str(memory))
    assert script.find_wheel(tmp_path / "dist").read_bytes() == b"a wheel"


def test_a_bundle_is_unpacked_and_started_as_its_manifest_says(
    bundle: Path, tmp_path: Path, short_folder: Path
) -> None:
    """Seen to fail when the entry point did not pass the folders on."""
    folder, docs = tmp_path / "unpacked", tmp_path / "docs folder"
    manifest = hosts.unpack(bundle, folder)
    docs.mkdir()
    (docs / "guide.md").write_text("# Guide\n\nRotate the harbour keys monthly.\n", "utf-8")
    command = hosts.make_command(manifest, folder, {"folders": [str(docs)]})
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LOOKFAR_")}
    env = {
        **kept,
        **dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(tmp_path / "home")),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_RUNTIME_DIR": str(short_folder),
        "LOOKFAR_EMBED_PROVIDER": "hash",
        # The packages of the tests instead of those that uv would fetch.
        "UV_PROJECT_ENVIRONMENT": sys.prefix,
        "UV_NO_SYNC": "1",
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    env.pop("VIRTUAL_ENV", None)
    try:
        answer = hosts.search(command, env, tmp_path, "harbour keys")
    finally:
        end_all(marked_processes(f"XDG_RUNTIME_DIR={short_folder}"))
    assert "guide.md" in answer
    assert "Rotate the harbour keys monthly." in answer


# --- the plugin ---------------------------------------------------------------------------------


def test_the_marketplace_lists_the_plugin() -> None:
    marketplace = load(".claude-plugin/marketplace.json")
    [entry] = marketplace["plugins"]
    folder = ROOT / entry["source"]
    assert entry["source"].startswith("./")
    plugin = json.loads((folder / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))
    assert plugin["name"] == entry["name"] == marketplace["name"] == "lookfar"
    assert plugin["version"] == __version__
    assert plugin["repository"] == plugin["homepage"] == HOMEPAGE
    # A version here, too, would win over that of the plugin and be forgotten.
    assert "version" not in entry
    # Only manifests belong beside plugin.json.
    assert sorted(os.listdir(folder / ".claude-plugin")) == ["icon.png", "plugin.json"]


def test_the_plugin_starts_the_server_and_has_its_skill() -> None:
    servers = load("plugin/.mcp.json")["mcpServers"]
    assert servers == {"lookfar": {"command": "uvx", "args": ["lookfar", "mcp"]}}
    skill = load_skill()
    copy = (ROOT / "plugin" / "skills" / skill.name / "SKILL.md").read_text(encoding="utf-8")
    assert copy == skill.text, "run: scripts/docs.py"
    # The limits of the Agent Skills specification.
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", skill.name)
    assert len(skill.name) <= 64
    assert len(skill.description) <= 1024


@pytest.mark.parametrize("path", ["plugin/.claude-plugin/icon.png", "bundle/icon.png"])
def test_icons_are_square(path: str) -> None:
    content = (ROOT / path).read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (512, 512)
    assert len(content) < 100_000


def test_no_published_file_is_ignored_by_git() -> None:
    paths = ["server.json", ".claude-plugin/marketplace.json", "plugin/.mcp.json"]
    paths += ["plugin/skills/lookfar/SKILL.md", "plugin/agents/explorer.md"]
    paths += [
        "plugin/hooks/hooks.json",
        "plugin/hooks/grep_hint.py",
        "bundle/manifest.json",
        "bundle/icon.png",
    ]
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a clone")
    ignored = subprocess.run(["git", "check-ignore", *paths], cwd=ROOT, capture_output=True)
    assert ignored.stdout == b""


# --- install links ------------------------------------------------------------------------------


def links() -> list[str]:
    text = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    return re.findall(r"\]\((https://(?:cursor|vscode|insiders\.vscode)[^)\s]+)\)", text)


def test_install_links_say_what_setup_writes() -> None:
    """Apart from how Lookfar is started: who follows a link may not have installed it."""
    found = {urlsplit(link).hostname: parse_qs(urlsplit(link).query) for link in links()}
    assert set(found) == {"cursor.com", "vscode.dev", "insiders.vscode.dev"}
    for host, query in found.items():
        assert query["name"] == ["lookfar"]
        [config] = query["config"]
        text = base64.b64decode(config).decode() if host == "cursor.com" else unquote(config)
        client = BY_NAME["cursor" if host == "cursor.com" else "vscode"]
        wanted = client.make_entry({}, ["uvx", "lookfar"], None)
        assert json.loads(text) == wanted, host
