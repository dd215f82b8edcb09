"""Paths skipped by name, which nothing can include again.

Proved by mutation: a row of the deny list removed, folding reduced to `lower()`, and
a denied_by that `include` can lift all fail here.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from lookfar.errors import InvalidConfig, InvalidPattern
from lookfar.sources.confine import Root
from lookfar.sources.folder.ignore import IgnoreFile, Ignores
from lookfar.sources.folder.policy import Policy, Verdict
from lookfar.sources.folder.walk import walk

FOLDERS = [
    *("node_modules", "jspm_packages", "bower_components", ".venv", ".git", ".hg", ".svn"),
    *("__pycache__", ".next", ".nuxt", ".angular", ".idea", ".vscode", ".nyc_output"),
    *(".pytest_cache", ".ssh"),
    *(".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".lookfar", ".msrl", ".anvil", ".env"),
]

FILES = [
    *(".env", ".env.local", ".env.production", ".envrc", "cert.pem", "server.key", "a.p12"),
    *("a.pfx", "app.log", "yarn.lock", "Cargo.lock", "package-lock.json", "pnpm-lock.yaml"),
    *("Gemfile.lock", "poetry.lock", ".DS_Store", "a.swp", ".a.md.swo", "id_rsa", "id_dsa"),
    *("id_ecdsa", "id_ed25519", "id_ed25519_sk", ".netrc", ".npmrc", ".pypirc"),
    *(".git-credentials", "a.keystore", "a.jks", "a.kdbx", ".pgpass", ".htpasswd", "a.ppk"),
    *("application_default_credentials.json", ".dockercfg", ".dockerconfigjson", ".vault-token"),
    *(".git", "terraform.tfstate", "terraform.tfstate.backup"),
]

DISGUISES = [
    ".ENV",
    ".Env.Local",
    ".e\u200bnv",
    ".env\u202e",
    "\ufeff.env",
    ".e\u00adnv",
    ".env.",
    ".env ",
    ".e\u2066n\u2069v",
    "ID_RSA",
    "id\u200d_rsa",
    "\u202eid_rsa",
    "server.KEY",
    "server.\u212aey",
    "cert.pe\u2060m",
    "cert.pem\ufe0f",
    "e\u0301.ke\u034fy",
    ".N\u200cetRC",
    ".\u017fsh/config",
    "Node_Modules/a.js",
    ".GIT/config",
    ".g\u200cit/config",
    ".aws\u200b/credentials",
]


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("shape", ["{}", "a/{}", "a/b/{}"])
def test_denied_folders(name: str, shape: str) -> None:
    for written in (name, name.upper()):
        folder = shape.format(written)
        assert Policy(include=("**",)).verdict(f"{folder}/x.md") is not None
        verdict = Policy().verdict(folder, is_dir=True)
        assert verdict is not None
        assert verdict.reason == "denied"
        assert verdict.rule.rstrip("/") == name


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("folder", ["", "a/", "a/b/"])
def test_denied_files(name: str, folder: str) -> None:
    for written in (name, name.upper(), name.title()):
        verdict = Policy(include=("**", f"/{folder}{name}"), exclude=()).verdict(folder + written)
        assert verdict is not None
        assert verdict.reason == "denied"


@pytest.mark.parametrize("uri", DISGUISES, ids=ascii)
def test_disguised_names_are_denied(uri: str) -> None:
    for written in (uri, unicodedata.normalize("NFD", uri)):
        verdict = Policy(exclude=()).verdict(f"docs/{written}")
        assert verdict is not None
        assert verdict.reason == "denied"


@pytest.mark.parametrize(
    "uri",
    [
        *("build", "out", "vendor", "target", "docs/build.md", "docs/target.html", "env.md"),
        *("environment", ".environment", ".github/workflows/ci.yml", "id_rsa.pub", "id_rsa.md"),
        *("keys.md", "keyboard", "lock.md", "catalog", "git/x.md", ".gitignore", "builds/x.md"),
        *(
            "buildfile",
            "my.envelope",
            "logs/today.txt",
            "secrets.md",
            ".envoy.yaml",
            "a.svg",
            "a.ts",
        ),
        *("a.ipynb", "a.json", "ai", "bin", "db"),
    ],
)
def test_ordinary_names_are_admitted(uri: str) -> None:
    assert Policy().verdict(uri) is None


def test_the_root_itself_is_never_judged(tmp_path: Path) -> None:
    root = tmp_path / ".git" / "node_modules"
    (root / "node_modules").mkdir(parents=True)
    (root / "a.md").write_text("x")
    (root / "node_modules" / "b.md").write_text("x")
    result = walk(Root.open(root), Policy())
    assert [file.uri for file in result.files] == ["a.md"]
    skipped = [(entry.uri, entry.detail) for entry in result.skipped]
    assert skipped == [("node_modules", "node_modules/")]


def test_order_of_rules() -> None:
    ignores = Ignores("", IgnoreFile(".gitignore", b"*.x\n*.key\n*.out\n!*.png\n"), None)
    policy = Policy(include=("*.md", "*.png", "*.key", "*.out", "*.x"), exclude=("*.out", "*.key"))

    def reason(name: str) -> str | None:
        verdict = policy.judge(name, name, False, ignores)
        return verdict.reason if verdict else None

    assert reason("a.key") == "denied"
    assert reason("a.out") == "excluded"
    assert reason("a.x") == "ignored"
    assert reason("a.PNG") == "binary"
    assert reason("a.rst") == "not_included"
    assert reason("a.md") is None


@pytest.mark.parametrize(
    ("exclude", "uri", "is_dir", "expected"),
    [
        ("docs", "docs/a/b.md", False, True),
        ("docs", "x/docs/b.md", False, True),
        ("docs/", "x/docs", True, True),
        ("docs/", "docs", False, False),
        ("docs/**", "docs", True, True),
        ("docs/**", "x/docs", True, False),
        ("**/draft/**", "x/draft", True, True),
        ("/docs", "x/docs/b.md", False, False),
        ("*.tmp", "a/b.tmp", False, True),
        (".*", ".github/workflows/a.yml", False, True),
        ("**/.*", "a/.hidden", False, True),
    ],
)
def test_exclude(exclude: str, uri: str, is_dir: bool, expected: bool) -> None:
    verdict = Policy(exclude=(exclude,)).verdict(uri, is_dir)
    assert (verdict is not None) is expected
    assert verdict is None or verdict.reason == "excluded"


def test_defaults_exclude_leftovers_of_editors() -> None:
    for uri in ("a.tmp", "a.md~", ".~lock.x.ods#", ".obsidian/app.json", ".trash/a.md"):
        assert Policy().verdict(uri) is not None
        assert Policy(exclude=()).verdict(uri) is None
    sheets = Policy(extracted=frozenset({"xlsx"}))
    assert sheets.verdict("a/~$x.xlsx") == Verdict("excluded", "~$*")
    assert Policy(exclude=(".*",)).verdict("a/.b/c.md") == Verdict("excluded", ".*")


def test_include_decides_files_not_folders() -> None:
    policy = Policy(include=("docs/**/*.md",))
    assert policy.verdict("docs/a/b.md") is None
    assert policy.verdict("docs", is_dir=True) is None
    assert policy.verdict("src/a.md") == Verdict("not_included", "include")


def test_binaries_by_extension() -> None:
    for name in ("a.png", "a.PDF", "a.tar.gz", "x.woff2", "m.safetensors", "a.docx"):
        verdict = Policy(include=("**",)).verdict(name)
        assert verdict is not None
        assert verdict.reason == "binary"


def test_bad_settings() -> None:
    for bad in ({"max_depth": -1}, {"max_depth": 201}, {"max_file_bytes": -1}):
        with pytest.raises(InvalidConfig):
            Policy(**bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidPattern):
        Policy(exclude=("[",))
    assert Policy(include=("a",)) == Policy(include=("a",)) != Policy(include=("b",))
