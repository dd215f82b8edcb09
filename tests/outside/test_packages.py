"""The packages of a project: found, indexed at their exact versions, and shared by projects."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lookfar.collections.outside import packages as packages_module
from lookfar.errors import Ambiguous, NotFound
from lookfar.library import Library
from lookfar.model import Filters
from lookfar.serve.cli.main import cli
from lookfar.sources.packages.finding import find_all, list_files
from lookfar.text.parse.public_api import reduce_to_api
from outside.installed import install_crate, install_jar, install_node, install_python, write
from processor_time import processor_time_below

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
    monkeypatch.setattr(packages_module, "_CHECK_SECONDS", 0.0)
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
    done = run.invoke(cli, ["deps", str(project), *options])
    indexed = json.loads(done.stdout)
    assert {row["state"] for row in indexed["packages"]} == {"indexed"}
    # Nothing is fetched.
    assert "Indexing: fetchlib-1.0@pypi" in done.stderr
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
        ("a.rs", "pub(crate) fn a() {\n}\npub(super) fn b() {}\n", "\n\n\n"),
        ("a.rs", "use a::b;\npub use c::d;\n", "\npub use c::d;\n"),
        ("a.py", "import a\nfrom b import (\n    c,\n)\nD = 1\n", "\n\n\n\nD = 1\n"),
        ("b/__init__.py", "from b.c import d\n", "from b.c import d\n"),
        ("a.js", "import a from 'a';\nexport { b } from 'b';\n", "\nexport { b } from 'b';\n"),
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


def test_the_name_of_the_only_package_selects_and_does_not_distract(project: Path) -> None:
    """``drop_name`` keeps quotes, longer names, and questions about several packages."""
    install_python(project, "soup4", "4.0", {"soup4.py": "def find_all(name): ...\n"})
    install_python(project, "send", "1.0", {"send.py": "def send(path): ...\n"})
    with Library.open(project, settings=SETTINGS) as opened:
        packages = opened._outside.packages_of(str(project))
        cases = {
            "fetchlib Session get": "Session get",
            "how does fetchlib, with a session, get": "how does with a session, get",
            "under_layer dig": "dig",
            "soup find_all": "find_all",
            "fetchlib": "fetchlib",
            "fetchlib.Session.get": "fetchlib.Session.get",
            'fetchlib "exact words"': 'fetchlib "exact words"',
            "fetchlib and soup4": "fetchlib and soup4",
            "nothing of the kind": "nothing of the kind",
        }
        for question, asked in cases.items():
            assert packages.drop_name(question) == asked
        # A package that the project did not choose may be just a word of the question.
        chosen = [package.name for package in packages.choose("how do I send a request")]
        assert chosen == ["send", "fetchlib"]
        assert [package.name for package in packages.choose("soup4 find_all")] == ["soup4"]
        answer = opened.search("soup find_all", filters=DEPS)
        assert answer.query == "soup find_all"
        assert answer.hits[0].uri == "soup4.py"


def test_functions_are_found_wherever_python_defines_them() -> None:
    text = (
        "TABLE = [lambda: 1, {'a': 2}]\n"
        "if TYPE_CHECKING:\n    def one():\n        secret()\n"
        "else:\n    def two():\n        secret()\n"
        "try:\n    class A:\n        @wrap\n        def three(self):\n            secret()\n"
        "except ImportError:\n    def four():\n        secret()\n"
        "with suppress():\n    async def five():\n        secret()\n"
        "match x:\n    case 1:\n        def six():\n            secret()\n"
    )
    reduced = reduce_to_api("a.py", text)
    assert "secret" not in reduced
    assert all(f"def {name}(" in reduced for name in ("one", "two", "three", "four", "five", "six"))
    assert reduced.count("\n") == text.count("\n")


def test_the_same_types_for_other_module_systems_are_read_once(tmp_path: Path) -> None:
    types = dict.fromkeys(
        ("index.d.ts", "index.d.mts", "index.d.cts", "only.d.mts", "only.d.cts", "ts5.0/index.d.ts",
         "ts4.1/other.d.ts"), "export declare function kit(): void;\n",
    )  # fmt: skip
    write(tmp_path / "package.json", '{"dependencies": {"kit": "1"}}')
    install_node(tmp_path, "kit", "1.0.0", types)
    (package,) = find_all(tmp_path)
    uris = {uri for uri, _ in list_files(package) if ".d." in uri}
    assert uris == {"index.d.ts", "only.d.mts", "ts4.1/other.d.ts"}


def test_a_generated_readme_of_types_is_not_read(tmp_path: Path) -> None:
    files = {
        "index.d.ts": "export function left(): void;\n",
        "README.md": "# Files were exported\n",
    }
    for name in ("@types/left", "left"):
        install_node(tmp_path, name, "1.0.0", files)
    uris = {package.name: {uri for uri, _ in list_files(package)} for package in find_all(tmp_path)}
    assert uris == {"@types/left": {"index.d.ts"}, "left": {"index.d.ts", "README.md"}}


def test_an_earlier_api_in_a_package_follows_the_current_one(project: Path) -> None:
    validator = (
        '"""Check a lamp field with a function of your own."""\ndef check_lamp(field):\n    pass\n'
    )
    files = {
        "lamps/__init__.py": "",
        "lamps/v1/checks.py": validator,
        "lamps/zz/lamp.py": validator,
    }
    install_python(project, "lamps", "2.4.0", files)
    with Library.open(project) as library:
        for question, uri in (
            ("lamps check a field with a function", "lamps/zz/lamp.py"),
            ("lamps v1 checks of a field", "lamps/v1/checks.py"),
        ):
            hits = library.search(question, filters=Filters(lanes=("deps",))).hits
            assert hits[0].uri == uri


def test_a_deprecated_definition_follows_what_replaces_it(project: Path) -> None:
    opened = '"""Open a beacon for a ship.{}"""\n'
    current = f"def open_signal(ship):\n    {opened.format('')}"
    deprecated = f"def open_beacon(ship):\n    {opened.format(' This function is deprecated.')}"
    # What is said about a parameter is not said about the function.
    parameter = f"{opened.format(' :param old: this method is deprecated')}"
    files = {
        "beacons/__init__.py": "",
        "beacons/a.py": deprecated,
        "beacons/b.py": current,
        "beacons/c.py": f"def close_beacon(ship, old):\n    {parameter}",
    }
    install_python(project, "beacons", "1.0", files)
    deps = Filters(lanes=("deps",))
    with Library.open(project, settings=SETTINGS) as library:
        for question, uri, marks in (
            ("beacons open a beacon for a ship", "beacons/a.py", ["deprecated"]),
            ("beacons close beacon of a ship", "beacons/c.py", []),
            ("beacons deprecated way to open a beacon", "beacons/a.py", []),
        ):
            hits = library.search(question, filters=deps, explain=True).hits
            (hit,) = [hit for hit in hits if hit.uri == uri]
            stages = [part.stage for part in hit.explanation]
            assert [stage for stage in stages if stage == "deprecated"] == marks, question


def test_a_member_of_a_type_comes_first(project: Path) -> None:
    """Fails if only names that are written as one, like ``Session.get``, are looked up."""
    others = "".join(
        f'class Get{number}:\n    """The get of a courier: get it, courier get."""\n\n'
        f"    def take(self, courier): ...\n\n"
        for number in range(30)
    )
    text = (
        "class Courier:\n    limit = 3\n\n    def close(self): ...\n\n"
        '    def get(self, url, **options):\n        """Send."""\n'
    )
    files = {"weblib/get.py": others, "weblib/courier.py": others, "weblib/core.py": text}
    install_python(project, "weblib", "1.0", files)
    with Library.open(project, settings=SETTINGS) as library:
        for question in (
            "weblib Courier get", "set a timeout on a weblib Courier get",
            "Courier's get in weblib", "the get method of the Courier class of weblib",
            "call get on a weblib Courier",
        ):  # fmt: skip
            hit = library.search(question, filters=DEPS).hits[0]
            assert (hit.uri, "def get(" in hit.text) == ("weblib/core.py", True), question
        # Other words, other capitals and constants are no reason to look there.
        for question in ("weblib courier get", "weblib Courier limit", "weblib get Courier"):
            for hit in library.search(question, filters=DEPS, explain=True).hits:
                notes = [step.note for step in hit.explanation or ()]
                assert not any("defines Courier." in note for note in notes), question


def test_a_name_may_end_like_a_file_and_say_its_module(project: Path) -> None:
    files = {
        "weblib/one.py": 'class Answer:\n    def json(self):\n        """One."""\n',
        "weblib/v1/two.py": 'class Answer:\n    def json(self):\n        """Two."""\n',
        "weblib/v1/more.py": 'class Other:\n    def json(self):\n        """More."""\n',
    }
    install_python(project, "weblib", "1.0", files)
    with Library.open(project, settings=SETTINGS) as library:
        assert "More" in library.read("weblib.Other.json").text
        assert "Two" in library.read("weblib.v1.Answer.json").text
        assert "One" in library.read("weblib.one.Answer.json").text
        with pytest.raises(Ambiguous) as error:
            library.read("weblib.Answer.json")
        texts = [library.read(address).text for address in error.value.details["candidates"]]
        assert all(number in text for number, text in zip(("One", "Two"), texts, strict=True))


def test_a_definition_is_read_as_each_language_writes_its_name(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "cargo"
    monkeypatch.setenv("CARGO_HOME", str(home))
    write(
        project / "Cargo.lock",
        '[[package]]\nname = "clock-rs"\nversion = "1.2.0"\nsource = "registry+https://x"\n',
    )
    pause = "/// Waits in {}.\npub fn pause(seconds: u32) {{\n}}\n"
    files = {
        "src/lib.rs": "pub mod time;\n",
        "src/time/mod.rs": "pub mod pause;\n",
        "src/time/pause.rs": pause.format("time"),
        "src/io.rs": pause.format("io"),
    }
    install_crate(home, "clock-rs", "1.2.0", files)
    types = {"index.d.ts": "export declare function open(path: string): Kit;\n"}
    install_node(project, "@scope/kit", "1.2.3", types)
    install_node(project, "plain", "2.0.0", {"index.js": "exports.x = 1;\n"})
    install_node(project, "@types/plain", "2.0.1", types)
    install_node(project, "@types/other__plain", "1.0.0", types)
    earlier = {f"{folder}/z.d.ts": types["index.d.ts"] for folder in ("v3", "v4", "internal")}
    install_node(project, "zed", "4.1.0", earlier)
    with Library.open(project, settings=SETTINGS) as library:
        for target, uri in (
            ("clock_rs::time::pause", "src/time/pause.rs"),
            ("clock-rs::io::pause", "src/io.rs"),
            ("@scope/kit.open", "index.d.ts"),
            ("plain.open", "index.d.ts"),
            ("@other/plain.open", "index.d.ts"),
            ("zed.open", "v4/z.d.ts"),
        ):
            assert library.read(target).uri == uri, target


def test_a_large_module_is_reduced_to_its_api() -> None:
    """Fails if only texts that an index would parse whole are reduced."""
    chosen = random.Random(7)
    text = "".join(
        f"def f{number}(a):\n" + f"    x = {chosen.getrandbits(900)}\n" * 3
        for number in range(1_000)
    )
    assert len(text) > 700_000
    reduced = reduce_to_api("big.py", text)
    assert "x = " not in reduced
    assert reduced.count("def f") == 1_000
    assert reduced.count("\n") == text.count("\n")


def test_names_of_a_project_do_not_lead_to_other_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock file comes with whatever was cloned."""
    home, project = tmp_path / "somebody", tmp_path / "cloned"
    for name, value in (("HOME", home), ("CARGO_HOME", home / "cargo"), ("GOPATH", home / "go")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("GOMODCACHE", raising=False)
    install_crate(home / "cargo", "fine", "1.0.0", {"src/lib.rs": "pub fn fine() {}\n"})
    write(home / "my-notes" / "README.md", "# Private\n")
    write(home / "go" / "x@v1" / "README.md", "# Private\n")
    (home / "go" / "pkg" / "mod" / "a.b").mkdir(parents=True)
    locked = '[[package]]\nname = "{}"\nversion = "{}"\nsource = "registry"\n'
    entries = (("../../../../my", "notes"), ("fine", "1.0.0"))
    write(project / "Cargo.lock", "".join(locked.format(*entry) for entry in entries))
    write(project / "go.mod", "module m\n\nrequire a.b/../../../x v1\n")
    jar = {"A.java": "class A {}\n"}
    install_jar(tmp_path, "x", "y", "1", jar)
    elements = f"<groupId>g</groupId><artifactId>{tmp_path}/x/y</artifactId><version>1</version>"
    write(project / "pom.xml", f"<dependency>{elements}</dependency>")
    assert [package.full_name for package in find_all(project)] == ["fine-1.0.0@crates"]


def test_odd_project_files_are_read_in_a_short_time(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[project]\nname = "x"\ndependencies = 5\n')
    write(tmp_path / "pom.xml", "<dependency>" * 20_000)
    write(tmp_path / "go.mod", "\n" * 20_000 + "a." * 20_000)
    with processor_time_below(1.0):
        assert find_all(tmp_path) == []


@pytest.mark.parametrize("check_seconds", [0.0, 60.0])
def test_a_package_that_cannot_be_read_is_reported_and_others_are_indexed(
    project: Path, monkeypatch: pytest.MonkeyPatch, check_seconds: float
) -> None:
    """Also if another look for packages, after which it is tried again, comes at once."""
    monkeypatch.setattr(packages_module, "_CHECK_SECONDS", check_seconds)
    packages = project / ".venv" / "lib" / "python3.11" / "site-packages"
    install_python(project, "odd", "1.0", {"odd/a.py": "def turn(): ...\n"})
    record = packages / "odd-1.0.dist-info" / "RECORD"
    listed = record.read_text(encoding="utf-8")
    # Found by another name, a file is read once.
    record.write_text(f"{listed}odd/../odd/a.py,,\n", encoding="utf-8")
    install_python(project, "broken", "1.0", {"broken/a.py": "def turn(): ...\n"})
    record = packages / "broken-1.0.dist-info" / "RECORD"
    record.write_text(f"broken/\0.py,,\n{listed}", encoding="utf-8")
    with Library.open(project, settings=SETTINGS) as library:
        rows = {row["name"]: (row["state"], row["problem"]) for row in library.outside.packages()}
    assert rows["odd"] == rows["fetchlib"] == ("indexed", "")
    assert rows["broken"] == ("not indexed", "internal error: ValueError")
