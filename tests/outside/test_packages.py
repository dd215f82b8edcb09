"""The packages of a project: found, indexed at their exact versions, and shared by projects."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.errors import NotFound
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.serve.cli.main import cli
from lookfar.sources.packages.finding import find_all
from lookfar.text.parse.public_api import reduce_to_api
from outside.installed import install_crate, install_jar, install_node, install_python, write

pytestmark = pytest.mark.usefixtures("own_home")

DEPS = Filters(kinds=("deps",))
SETTINGS = {"embed.provider": "hash"}


def _client(version: str) -> dict[str, str]:
    timeout = ", timeout: float = 30.0" if version == "2.0" else ""
    return {
        "fetchlib/__init__.py": '"""Fetch things."""\nfrom fetchlib.sessions import Session\n',
        "fetchlib/sessions.py": (
            '"""Sessions keep connections open."""\n\n\n'
            "class Session:\n"
            f"    def get(self, url: str{timeout}) -> bytes:\n"
            f'        """Return the bytes at an address, as version {version} does."""\n'
            "        secret_helper = self._open(url)\n"
            "        return secret_helper.read()\n\n"
            "    def _open(self, url):\n"
            "        return open_connection(url)\n"
        ),
        "fetchlib/tests/test_it.py": "def test_get(): pass\n",
        "CHANGELOG.md": f"# Changes\n\n## {version}\n\n- Timeouts were added.\n",
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    write(folder / "app.py", "from fetchlib import Session\n\nSession().get('x')\n")
    write(folder / "pyproject.toml", '[project]\nname = "one"\ndependencies = ["FetchLib>=1"]\n')
    install_python(folder, "fetchlib", "1.0", _client("1.0"))
    install_python(folder, "under_layer", "3.1", {"under_layer.py": "def dig(): ...\n"})
    return folder


@pytest.fixture
def library(project: Path) -> Iterator[Library]:
    with Library.open(project, settings=SETTINGS) as opened:
        opened.index()
        yield opened


def test_an_answer_names_package_version_and_file(library: Library) -> None:
    answer = library.search("how does Session get bytes at an address in fetchlib", filters=DEPS)
    hit = answer.hits[0]
    assert (hit.collection, hit.uri) == ("fetchlib-1.0@pypi", "fetchlib/sessions.py")
    assert hit.origin == "fetchlib-1.0"
    assert hit.state == "same"
    assert "def get(self, url: str) -> bytes" in hit.text
    uris = {page.uri for page in library.pages(collection="fetchlib-1.0@pypi")[0]}
    assert uris == {"CHANGELOG.md", "README.md", "fetchlib/__init__.py", "fetchlib/sessions.py"}


def test_only_the_public_api_is_indexed_and_lines_keep_their_numbers(library: Library) -> None:
    library.search("fetchlib", filters=DEPS)
    reading = library.read("lookfar://fetchlib-1.0@pypi/fetchlib/sessions.py")
    assert "secret_helper" not in reading.text
    assert "_open" not in reading.text
    original = _client("1.0")["fetchlib/sessions.py"]
    line = next(n for n, text in enumerate(original.split("\n"), 1) if "def get" in text)
    assert reading.text.split("\n")[line - 1] == original.split("\n")[line - 1]


def test_a_definition_of_a_package_is_read_by_its_full_name(library: Library) -> None:
    reading = library.read("fetchlib.Session.get")
    assert (reading.collection, reading.uri) == ("fetchlib-1.0@pypi", "fetchlib/sessions.py")
    assert "as version 1.0 does" in reading.text
    with pytest.raises(NotFound):
        library.read("fetchlib.Session.vanish")


def test_two_projects_get_each_its_own_version_and_share_equal_ones(
    library: Library, tmp_path: Path
) -> None:
    library.search("fetchlib", filters=DEPS)
    other = tmp_path / "two"
    write(other / "requirements.txt", "fetchlib==2.0\n")
    write(other / "a.md", "# A\n")
    install_python(other, "fetchlib", "2.0", _client("2.0"))
    install_python(other, "under_layer", "3.1", {"under_layer.py": "def dig(): ...\n"})
    with Library.open(other, settings=SETTINGS) as second:
        second.index()
        second.outside.packages()
        assert "timeout" in second.read("fetchlib.Session.get").text
        assert "timeout" not in library.read("fetchlib.Session.get").text
        names = [source.name for source in second.outside.list_all()]
    assert names == ["fetchlib-1.0@pypi", "fetchlib-2.0@pypi", "under-layer-3.1@pypi"]


def test_the_same_version_with_other_files_is_another_source(
    library: Library, tmp_path: Path
) -> None:
    library.outside.packages()
    patched = tmp_path / "patched"
    files = {**_client("1.0"), "fetchlib/extra.py": "def added_by_a_patch(): ...\n"}
    write(patched / "a.md", "# A\n")
    install_python(patched, "fetchlib", "1.0", files)
    with Library.open(patched, settings=SETTINGS) as second:
        second.index()
        assert "added_by_a_patch" in second.read("fetchlib.added_by_a_patch").text
    with pytest.raises(NotFound):
        library.read("fetchlib.added_by_a_patch")


def test_packages_do_not_crowd_out_the_project(library: Library) -> None:
    library.outside.packages()
    answer = library.search("Session get", sources=True, memories=True, commits=True)
    assert {hit.collection for hit in answer.hits} == {"one"}


def test_an_upgrade_is_noticed(
    library: Library, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookfar.collections.outside import packages

    monkeypatch.setattr(packages, "_CHECK_SECONDS", 0.0)
    assert "timeout" not in library.read("fetchlib.Session.get").text
    site_packages = project / ".venv" / "lib" / "python3.11" / "site-packages"
    shutil.rmtree(site_packages / "fetchlib-1.0.dist-info")
    install_python(project, "fetchlib", "2.0", _client("2.0"))
    assert "timeout" in library.read("fetchlib.Session.get").text
    hits = library.search("fetchlib Session", filters=DEPS).hits
    assert {hit.collection for hit in hits} == {"fetchlib-2.0@pypi"}


def test_direct_packages_are_found_in_every_ecosystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "somebody"
    for name, value in (("HOME", home), ("CARGO_HOME", home / "cargo"), ("GOPATH", home / "go")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("GOMODCACHE", raising=False)
    project = tmp_path / "mixed"
    write(project / "package.json", '{"dependencies": {"@scope/kit": "^1"}}')
    types = {"index.d.ts": "export declare function kit(a: string): number;\n", "dist/i.js": "x\n"}
    install_node(project, "@scope/kit", "1.2.3", types)
    install_node(project, "left", "0.1.0", {"index.js": "exports.left = function (a) {};\n"})
    write(project / "Cargo.toml", '[dependencies]\nserde-like = "1"\n')
    source = 'source = "registry+https://example.org/index"'
    locked = f'[[package]]\nname = "serde-like"\nversion = "1.0.2"\n{source}\n'
    write(project / "Cargo.lock", locked)
    install_crate(home / "cargo", "serde-like", "1.0.2", {"src/lib.rs": "pub fn to_text() {}\n"})
    write(project / "go.mod", "module m\n\nrequire (\n\texample.com/Mod v1.0.0\n)\n")
    module = home / "go" / "pkg" / "mod" / "example.com" / "!mod@v1.0.0"
    write(module / "a.go", "package mod\n\n// Do does.\nfunc Do() int {\n\treturn 1\n}\n")
    dependency = "<groupId>org.x</groupId><artifactId>lib</artifactId><version>2.0</version>"
    write(project / "pom.xml", f"<project><dependency>{dependency}</dependency></project>")
    java = {"org/x/Lib.java": "class Lib {\n  public int go() { return 1; }\n}\n"}
    install_jar(home / ".m2" / "repository", "org.x", "lib", "2.0", java)
    found = {package.full_name: package.direct for package in find_all(project)}
    assert found == {
        "@scope/kit-1.2.3@npm": True, "serde-like-1.0.2@crates": True, "left-0.1.0@npm": False,
        "example.com/Mod-v1.0.0@go": True, "org.x.lib-2.0@maven": True,
    }  # fmt: skip
    write(project / "a.md", "# A\n")
    with Library.open(project, settings=SETTINGS) as opened:
        rows = opened.outside.packages()
        assert {row["state"] for row in rows} == {"indexed"}
        for question, uri in (
            ("@scope/kit", "index.d.ts"), ("serde-like to_text", "src/lib.rs"),
            ("mod Do does", "a.go"), ("org.x.lib go", "org/x/Lib.java"), ("left", "index.js"),
        ):  # fmt: skip
            hits = opened.search(question, filters=DEPS).hits
            assert hits[0].uri == uri, question


def test_the_command(project: Path) -> None:
    run = CliRunner()
    options = ["--set", "embed.provider=hash", "--json"]
    listed = json.loads(run.invoke(cli, ["deps", str(project), "--list", *options]).stdout)
    assert [(row["name"], row["direct"], row["state"]) for row in listed["packages"]] == [
        ("fetchlib", True, "not indexed"), ("under-layer", False, "not indexed"),
    ]  # fmt: skip
    indexed = json.loads(run.invoke(cli, ["deps", str(project), *options]).stdout)
    assert {row["state"] for row in indexed["packages"]} == {"indexed"}
    again = json.loads(run.invoke(cli, ["deps", str(project), "--list", *options]).stdout)
    assert {row["state"] for row in again["packages"]} == {"indexed"}
    asked = run.invoke(
        cli, ["search", "fetchlib Session", str(project), "--kind", "deps", *options]
    )
    assert json.loads(asked.stdout)["hits"][0]["collection"] == "fetchlib-1.0@pypi"
    empty = run.invoke(cli, ["search", "x", str(project / ".venv"), "--kind", "deps", *options])
    assert json.loads(empty.stdout)["incomplete"][0]["reason"] == "no_source"


@pytest.mark.parametrize(
    ("uri", "text", "expected"),
    [
        ("a.py", "def f(a):\n    b = a\n    return b\n", "def f(a):\n    ...\n\n"),
        ("a.py", 'def f():\n    """Doc."""\n    return 1\n', 'def f():\n    """Doc."""\n\n'),
        ("a.py", "@dec\ndef _f():\n    return 1\nX = 1\n", "\n\n\nX = 1\n"),
        ("a.py", "def __init__(self): pass\n", "def __init__(self): ...\n"),
        ("a.rs", "pub fn a() {\n  1\n}\nfn b() {}\n", "pub fn a() {\n\n}\n\n"),
        ("a.go", "func A() {\n\tx()\n}\nfunc b() {}\n", "func A() {\n\n}\n\n"),
        ("a.ts", "export const f = (a) => a + 1;\n", "export const f = (a) => a + 1;\n"),
        ("a.unknown", "anything\n", "anything\n"),
        ("a.py", "def ä(b):\n    return 'ü'\nC = 'ö'\n", "def ä(b):\n    ...\nC = 'ö'\n"),
    ],
)
def test_code_is_reduced_to_its_api(uri: str, text: str, expected: str) -> None:
    reduced = reduce_to_api(uri, text)
    assert reduced == expected
    assert reduced.count("\n") == text.count("\n")
