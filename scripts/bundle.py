"""Build the MCP bundle: ``python scripts/bundle.py [--dist FOLDER]``.

Takes: the folder ``bundle``, and the wheel of this version in ``--dist`` (without one it is built).
Gives: ``lookfar-VERSION.mcpb`` in that folder, and ``server.json`` with the bundle's address and
hash, ready for the MCP registry. Refuses: a manifest of another version, and more than one wheel.

The bundle contains the wheel. Its host, such as Claude Desktop, has uv install what Lookfar depends
on. Two builds of one wheel are equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from release import ROOT, Unready, build, read_version, write_sums

SOURCE = ROOT / "bundle"
FILES = ("manifest.json", "icon.png", "src/server.py")
_PROJECT = """\
[project]
name = "lookfar-bundle"
version = "{version}"
requires-python = "{python}"
dependencies = ["lookfar"]

[tool.uv]
package = false

[tool.uv.sources]
lookfar = {{ path = "{wheel}" }}
"""


def write_bundle(wheel: Path, folder: Path) -> Path:
    """Write a bundle that contains a wheel, and return its path."""
    version = read_version()
    manifest = json.loads((SOURCE / "manifest.json").read_text(encoding="utf-8"))
    if manifest["version"] != version:
        raise Unready(f"bundle/manifest.json has version {manifest['version']}, not {version}.")
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    project = _PROJECT.format(version=version, python=about["requires-python"], wheel=wheel.name)
    contents = {name: (SOURCE / name).read_bytes() for name in FILES}
    contents |= {"pyproject.toml": project.encode(), wheel.name: wheel.read_bytes()}
    contents["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    path = folder / f"lookfar-{version}.mcpb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def describe_bundle(bundle: Path) -> dict[str, Any]:
    """Return the content of server.json with the bundle as a further package."""
    server: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    address = f"{server['repository']['url']}/releases/download/v{server['version']}/{bundle.name}"
    server["packages"].append(
        {
            "registryType": "mcpb",
            "identifier": address,
            "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
            "transport": {"type": "stdio"},
        }
    )
    return server


def find_wheel(dist: Path) -> Path:
    """Return the wheel of this version; build it if the folder has none."""
    wheels = sorted(dist.glob(f"lookfar-{read_version()}-*.whl"))
    if len(wheels) > 1:
        raise Unready(f"{dist} has several wheels: {', '.join(wheel.name for wheel in wheels)}")
    if wheels:
        return wheels[0]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "dist"
        built = next(path for path in build(out) if path.suffix == ".whl")
        dist.mkdir(parents=True, exist_ok=True)
        # The temporary folder may be on another file system, from which a file cannot be renamed.
        return Path(shutil.move(built, dist / built.name))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    dist = parser.parse_args().dist
    try:
        bundle = write_bundle(find_wheel(dist), dist)
    except Unready as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = json.dumps(describe_bundle(bundle), indent=2) + "\n"
    (dist / "server.json").write_text(text, encoding="utf-8")
    write_sums(dist)
    print(f"{bundle} ({bundle.stat().st_size:,} bytes), {dist / 'server.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
