"""What prepares a release, and refuses one that is not ready.

Takes: small repositories with one fault each, and files that are built from this checkout.

Mutations it was seen to catch: an undated changelog that passes, a copy of the version that is not
written, notes that are lost when a version is prepared again, an sdist without the licence.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from script_modules import load_script

if TYPE_CHECKING:
    from conftest import GitRepository

ROOT = Path(__file__).parent.parent
release = load_script("scripts/release.py")
image = load_script("scripts/image.py")

CHANGELOG = """\
# Changelog

What changed.

## [Unreleased]

## [1.2.0] - 2026-11-17

### Added

- A door.

### Fixed

- A window.

## [1.1.0] - 2026-01-01

### Added

- A wall.
"""
WORKFLOW = 'python: ["3.11", "3.12"]\n'
PROJECT = """\
[project]
name = "lookfar"
dependencies = ["click>=8"]
classifiers = ["Programming Language :: Python :: 3.11", "Programming Language :: Python :: 3.12"]
[project.optional-dependencies]
dev = ["PyYAML>=6"]
[dependency-groups]
release = ["twine>=7"]
"""
READY = {
    "CHANGELOG.md": CHANGELOG,
    "pyproject.toml": PROJECT,
    "src/lookfar/__init__.py": '"""A package."""\n\n__version__ = "1.2.0"\n',
    "server.json": '{"version": "1.2.0", "packages": [{"version": "1.2.0"}]}\n',
    "bundle/pyproject.toml": '[project]\ndependencies = ["lookfar[onnx]==1.2.0"]\n',
    "deploy/kubernetes.yaml": "image: ghcr.io/lookfar/lookfar:1.2.0\n",
    "deploy/dashboard.json": '{"version": "10.0.0"}\n',
    "requirements-dev.lock": "click==8.1 \\\n    --hash=sha256:0\npyyaml==6.0 \\\n",
    "requirements-release.lock": "twine==7.0 \\\n",
    ".github/workflows/tests.yml": WORKFLOW,
    "tests/serve/test_docs.py": "def test_up_to_date(): pass\n",
    "tests/test_workflows.py": "def test_lint(): pass\n",
}


@pytest.fixture
def ready(repository: Callable[..., GitRepository]) -> GitRepository:
    """A repository that can be released."""
    made = repository("ready")
    made.commit("Start", dict(READY))
    return made


def problems(repository: GitRepository, tag: str | None = None, tests: bool = False) -> list[str]:
    found: list[str] = release.find_problems(repository.path, tag, tests=tests)
    return found


def test_a_ready_repository_has_no_problems(ready: GitRepository) -> None:
    assert problems(ready, tests=True) == []
    ready.git("tag", "v1.2.0")
    assert problems(ready, "v1.2.0") == []


def test_stale_documentation_and_workflows_are_refused(ready: GitRepository) -> None:
    failing = "def test_up_to_date(): assert not 'good'\n"
    spoilt = {"tests/serve/test_docs.py": failing, "tests/test_workflows.py": failing}
    ready.commit("Spoil it", dict(spoilt))
    documentation, workflows = problems(ready, tests=True)
    assert documentation.startswith("generated documentation: tests/serve/test_docs.py failed")
    assert workflows.startswith("workflows: tests/test_workflows.py failed")


FAULTS = {
    "a version that was not copied": (
        "server.json", '{"version": "1.1.0"}\n', "server.json: version 1.1.0, not 1.2.0"),
    "a requirement of another version": (
        "bundle/pyproject.toml", '["lookfar==1.1.0"]\n', "bundle/pyproject.toml: version 1.1.0"),
    "an image of another version": (
        "deploy/kubernetes.yaml", "image: ghcr.io/lookfar/lookfar:1.1.0\n", "version 1.1.0, not"),
    "no notes": (
        "CHANGELOG.md", "## [Unreleased]\n\n## [1.2.0] - 2026-11-17\n", "no notes for 1.2.0"),
    "no date": ("CHANGELOG.md", CHANGELOG.replace(" - 2026-11-17", ""), "1.2.0 has no date"),
    "a date that does not exist": (
        "CHANGELOG.md", CHANGELOG.replace("2026-11-17", "2026-11-31"), "1.2.0 has no date"),
    "no heading": ("CHANGELOG.md", "## [Unreleased]\n\n- A door.\n", "no heading [1.2.0]"),
    "unreleased notes": (
        "CHANGELOG.md", CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n"),
        "notes below [Unreleased]"),
    "no place for the next notes": (
        "CHANGELOG.md", CHANGELOG.replace("## [Unreleased]\n", ""), "no heading [Unreleased]"),
    "a dependency that is not locked": (
        "requirements-dev.lock", "click==8.1 \\\n", "requirements-dev.lock: PyYAML is missing"),
    "a Python that is not tested": (
        ".github/workflows/tests.yml", 'python: ["3.11"]\n', "Python 3.12 is in a classifier only"),
    "a version that is not a number": (
        "src/lookfar/__init__.py", '__version__ = "1.2"\n', "'1.2' is not a version"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "text", "problem"), FAULTS.values(), ids=FAULTS)
def test_what_is_not_ready_is_refused(
    ready: GitRepository, path: str, text: str, problem: str
) -> None:
    ready.commit("Spoil it", {path: text})
    assert any(problem in line for line in problems(ready)), problems(ready)


def test_an_uncommitted_change_is_refused(ready: GitRepository) -> None:
    ready.write("src/lookfar/new.py", "")
    assert problems(ready) == ["not committed: src/lookfar/new.py"]


def test_tags_are_compared(ready: GitRepository) -> None:
    assert problems(ready, "v1.3.0") == ["the tag is v1.3.0, the version asks for v1.2.0"]
    ready.git("tag", "v1.2.0")
    assert problems(ready) == ["the tag v1.2.0 exists: this version has been released"]
    ready.commit("Go on")
    assert problems(ready, "v1.2.0") == ["the tag v1.2.0 is not on this commit"]


def test_preparing_writes_the_version_everywhere_and_dates_the_notes(ready: GitRepository) -> None:
    more = "## [Unreleased]\n\n### Fixed\n\n- A roof.\n"
    ready.commit("Go on", {"CHANGELOG.md": CHANGELOG.replace("## [Unreleased]\n", more)})
    changed = release.prepare("1.3.0", "2026-12-24", ready.path)
    assert {path.relative_to(ready.path).as_posix() for path in changed} == {
        "CHANGELOG.md", "bundle/pyproject.toml", "deploy/kubernetes.yaml", "server.json",
        "src/lookfar/__init__.py",
    }  # fmt: skip
    text = (ready.path / "CHANGELOG.md").read_text()
    sections = release.read_sections(text)
    assert list(sections) == ["Unreleased", "1.3.0", "1.2.0", "1.1.0"]
    assert sections["Unreleased"] == (None, "")
    assert sections["1.3.0"] == ("2026-12-24", "### Fixed\n\n- A roof.")
    assert sections["1.2.0"] == release.read_sections(CHANGELOG)["1.2.0"]
    assert text.startswith("# Changelog\n\nWhat changed.\n")
    ready.commit("Release 1.3.0")
    assert problems(ready) == []


def test_preparing_again_adds_to_the_notes(ready: GitRepository) -> None:
    more = "## [Unreleased]\n\n### Fixed\n\n- A roof.\n"
    ready.commit("Go on", {"CHANGELOG.md": CHANGELOG.replace("## [Unreleased]\n", more)})
    release.prepare("1.2.0", "2026-11-18", ready.path)
    sections = release.read_sections((ready.path / "CHANGELOG.md").read_text())
    assert sections["1.2.0"] == (
        "2026-11-18",
        "### Added\n\n- A door.\n\n### Fixed\n\n- A roof.\n- A window.",
    )


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("1.2", "is not a version"),
        ("v1.3.0", "is not a version"),
        ("1.1.9", "is older than the current version"),
        ("1.2.0rc1", "is older than the current version"),
        ("1.2.0", "has been released"),
        ("1.3.0", "nothing to release"),
    ],
)
def test_preparing_refuses(ready: GitRepository, version: str, error: str) -> None:
    ready.git("tag", "v1.2.0")
    with pytest.raises(release.Unready, match=error):
        release.prepare(version, "2026-12-24", ready.path)
    assert ready.git("status", "--porcelain") == ""


def test_preparing_refuses_a_wrong_date(ready: GitRepository) -> None:
    with pytest.raises(release.Unready, match="'soon' is not a date"):
        release.prepare("1.3.0", "soon", ready.path)
    assert ready.git("status", "--porcelain") == ""


def test_preparing_this_changelog_again_loses_nothing() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version = release.read_version()
    date, _ = release.read_sections(text)[version]
    again = release.date_notes(text, version, date)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    kept = [line for line in again.splitlines() if line.strip() and not line.startswith("#")]
    assert sorted(kept) == sorted(lines)
    assert release.date_notes(again, version, date) == again


def test_versions_and_addresses_of_this_repository_agree() -> None:
    assert not list(release.find_version_problems(ROOT))
    assert not list(release.find_lock_problems(ROOT))
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = about["urls"]["Homepage"]
    assert "version" in about["dynamic"]
    assert all(about["urls"][name].startswith(home) for name in ("Source", "Issues", "Changelog"))
    assert image.image_name() == "ghcr.io/" + home.removeprefix("https://github.com/")


# --- building ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("built") / "dist"
    release.build(out)
    return out


def test_a_build_has_a_wheel_an_sdist_and_their_hashes(built: Path) -> None:
    version = release.read_version()
    assert release.inspect(built, version) == []
    names = {f"lookfar-{version}-py3-none-any.whl", f"lookfar-{version}.tar.gz"}
    sums = dict(
        reversed(line.split("  ")) for line in (built / release.SUMS).read_text().splitlines()
    )
    assert set(sums) == names
    for name, digest in sums.items():
        assert hashlib.sha256((built / name).read_bytes()).hexdigest() == digest


def test_addresses_are_in_the_metadata(built: Path) -> None:
    about = release.read_metadata(next(built.glob("*.whl")))
    assert about["Version"] == release.read_version()
    urls = dict(line.split(", ") for line in about.get_all("Project-URL") or ())
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Source"} <= set(urls)


def test_links_of_the_description_are_absolute(built: Path) -> None:
    text = release.read_metadata(next(built.glob("*.whl"))).get_payload()
    home, version = "https://github.com/lookfar/lookfar", release.read_version()
    assert f"]({home}/blob/v{version}/docs/quality.md#code)" in text
    assert f"]({home}/raw/v{version}/docs/images/session.svg)" in text
    assert "[Migrations](migrations.md) before you roll back." in text  # the output of a command
    outside_code = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", outside_code)


def test_the_sdist_has_what_its_tests_need(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"scripts/release.py", "tests/conftest.py", "docs/index.md", "LICENSE"} <= names


def test_what_was_built_wrongly_is_reported(built: Path, tmp_path: Path) -> None:
    wheel = shutil.copy(next(built.glob("*.whl")), tmp_path)
    assert any("a wheel and an sdist" in line for line in release.inspect(tmp_path, "9.9.9"))
    assert any("the version is 9.9.9" in line for line in release.inspect(tmp_path, "9.9.9"))
    empty = tmp_path / Path(wheel).name.replace("-py3-none-any.whl", ".tar.gz")
    with tarfile.open(empty, "w:gz"):
        pass
    found = release.inspect(tmp_path, release.read_version())
    assert f"{empty.name}: LICENSE is missing" in found


def test_a_build_does_not_mix_with_an_earlier_one(built: Path) -> None:
    with pytest.raises(release.Unready, match="is not empty"):
        release.build(built)


def test_there_is_no_bill_of_materials_without_a_wheel(tmp_path: Path) -> None:
    with pytest.raises(release.Unready, match="has no wheel"):
        release.write_sbom(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_an_image_is_not_pushed_without_a_name_and_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REGISTRY_USER", "somebody")
    monkeypatch.delenv("REGISTRY_TOKEN", raising=False)
    with pytest.raises(SystemExit, match="Set REGISTRY_USER and REGISTRY_TOKEN"):
        image.sign_in()


def test_the_release_is_announced_with_its_notes_and_files(built: Path, tmp_path: Path) -> None:
    version = release.read_version()
    command = ["bash", "scripts/announce.sh", f"v{version}", str(built)]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "ANNOUNCE": "echo"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"release create v{version} --verify-tag" in done.stdout
    assert all(str(path) in done.stdout for path in built.iterdir())
    assert "--prerelease" not in done.stdout
    spoilt = tmp_path / "dist"
    shutil.copytree(built, spoilt)
    next(spoilt.glob("*.whl")).write_bytes(b"something else")
    command[-1] = str(spoilt)
    assert subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0


# --- the image --------------------------------------------------------------------------------


def test_images_have_their_labels_and_architectures() -> None:
    version = release.read_version()
    labels = image.find_labels("0123abc")
    assert labels["org.opencontainers.image.version"] == version
    assert labels["org.opencontainers.image.revision"] == "0123abc"
    assert labels["org.opencontainers.image.licenses"] == "MIT AND Apache-2.0"
    server = ROOT / "server.json"
    if server.is_file():
        name = json.loads(server.read_text(encoding="utf-8"))["name"]
        assert labels["io.modelcontextprotocol.server.name"] == name
    for architecture in ("amd64", "arm64"):
        pushed = image.push_command("0123abc", architecture)
        assert f"--platform=linux/{architecture}" in pushed
        assert f"{image.image_name()}:{version}-{architecture}" in image.join_command()
        assert {f"--label={name}={value}" for name, value in labels.items()} <= set(pushed)
