"""Make installed packages for tests, as pip, npm, cargo, Go and Maven leave them on the disk."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def install_python(project: Path, name: str, version: str, files: dict[str, str]) -> None:
    """Install a package into the project's virtual environment."""
    environment = project / ".venv"
    write(environment / "pyvenv.cfg", "home = /usr/bin\n")
    packages = environment / "lib" / "python3.11" / "site-packages"
    info = f"{name}-{version}.dist-info"
    body = f"# {name}\n\nHow to use {name}.\n"
    metadata = f"Name: {name}\nVersion: {version}\nSummary: About {name}.\n\n{body}"
    written = {**files, f"{info}/METADATA": metadata}
    for uri, text in written.items():
        write(packages / uri, text)
    rows = [f"{uri},sha256=x{hash(text)},{len(text)}\n" for uri, text in written.items()]
    write(packages / info / "RECORD", "".join([*rows, f"{info}/RECORD,,\n"]))


def install_node(project: Path, name: str, version: str, files: dict[str, str]) -> None:
    folder = project / "node_modules" / name
    write(folder / "package.json", json.dumps({"name": name, "version": version}))
    for uri, text in files.items():
        write(folder / uri, text)


def install_crate(home: Path, name: str, version: str, files: dict[str, str]) -> None:
    folder = home / "registry" / "src" / "index.crates.io-1" / f"{name}-{version}"
    for uri, text in files.items():
        write(folder / uri, text)


def install_jar(
    repository: Path, group: str, name: str, version: str, files: dict[str, str]
) -> None:
    folder = repository.joinpath(*group.split("."), name, version)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-sources.jar", "w") as archive:
        for uri, text in files.items():
            archive.writestr(uri, text)
