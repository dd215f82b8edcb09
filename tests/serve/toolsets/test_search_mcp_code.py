"""The tools of search-mcp that are about code, driven by a real client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from code_samples import FULL
from lookfar.library import Library
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets.search_mcp import TOOLS

TOOLSET = "search-mcp"
Ask = Callable[..., dict[str, Any]]
Put = Callable[..., None]
Unmet = Callable[..., list[str]]

LOGIN = """import { User, Session as Kept } from "./types";

/** Authenticates a walrus with its whiskers and tusks. */
export async function login(email: string, password: string): Promise<User> {
  if (!email && !password) {
    throw new Error("nobody");
  }
  return new User(email);
}

export class Door {
  // Narwhals knock three times before they are let in by the porter.
  open(times: number) {
    return times > 2 ? "open" : "closed";
  }
}
"""
STORE = '''"""Where cargo manifests are kept overnight."""


def stow(crate):
    """Put a crate below deck until the harbour master has signed."""
    return crate


WEIGHT = 12
'''
FILES = {
    "docs/guide.md": "# Guide\n\n## Login\n\nAsk the porter for a whisker badge.\n",
    "src/auth/login.ts": LOGIN,
    "src/store.py": STORE,
    "src/plain.sh": "echo pelican\n",
}


@pytest.fixture(autouse=True)
def indexed(written: None, ask: Ask) -> None:
    ask("create_index", confirm=True)


# --- search_code --------------------------------------------------------------------------------


def test_code_is_found_with_what_it_is(ask: Ask, unmet: Unmet, docs: Path) -> None:
    """Every promised field in both shapes; documents stay out of it."""
    full = ask("search_code", query="login email password")
    compact = ask("search_code", query="login email password", compact=True)
    assert unmet("search_mcp", "search_code", full, compact) == []
    first = full["results"][0]
    assert first["path"] == "src/auth/login.ts"
    assert first["metadata"] == {
        "type": "function",
        "name": "login",
        "signature": "async function login(email: string, password: string): Promise<User>",
    }
    lines = (docs / first["path"]).read_text(encoding="utf-8").splitlines(keepends=True)
    assert first["text"] == "".join(lines[first["startLine"] - 1 : first["endLine"]])
    assert not any(each["path"].endswith(".md") for each in full["results"])
    assert full["totalResults"] == len(full["results"])
    scores = [each["score"] for each in full["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert compact["n"] == full["totalResults"]
    short = compact["r"][0]
    assert short["l"] == f"{first['path']}:{first['startLine']}-{first['endLine']}"
    assert short["t"] == first["text"]
    assert short["s"] == round(first["score"], 2)


def test_the_symbol_is_that_of_the_text_on_the_disk(ask: Ask, put: Put) -> None:
    """A method is told as one, and code under no definition is "other"."""
    put({"src/long.py": "class Raft:\n" + "".join(
        f"    def row{n}(self):\n        '''Rows the raft {n} times past otters.'''\n"
        + "".join(f"        oar_{n}_{i} = {i * i}\n" for i in range(60))
        for n in range(9)
    )})  # fmt: skip
    ask("create_index", confirm=True)
    found = ask("search_code", query="row7")["results"][0]["metadata"]
    assert (found["type"], found["name"]) == ("method", "row7")
    assert found["signature"] == "def row7(self)"
    bare = ask("search_code", query="pelican")["results"][0]
    assert bare["metadata"] == {"type": "other", "name": "", "signature": ""}


def test_each_mode_searches_code_as_it_says(ask: Ask) -> None:
    """Words only finds nothing without a common word; the ends of alpha are the single modes."""

    def scored(**how: Any) -> list[tuple[str, float]]:
        shape = ask("search_code", query="login for the crate", **how)
        return [(each["path"] + str(each["startLine"]), each["score"]) for each in shape["results"]]

    assert scored(alpha=0) == scored(mode="fts")
    assert scored(alpha=1) == scored(mode="vector")
    assert scored(mode="fts") != scored(mode="vector")
    assert scored() == scored(mode="hybrid", alpha=0.5)
    assert scored(alpha=0.1) != scored(alpha=0.9)
    assert ask("search_code", query="nosuchword", mode="fts")["results"] == []


def test_a_query_for_code_is_widened_by_synonyms(ask: Ask, put: Put) -> None:
    """By words alone, of which the code has none but a synonym."""
    put({"src/pods.py": "def list_kubernetes_pods():\n    return []\n"})
    ask("create_index", confirm=True)
    found = ask("search_code", query="k8s", mode="fts")["results"]
    assert [each["path"] for each in found] == ["src/pods.py"]


def test_the_limits_of_code_searches_are_accepted(ask: Ask) -> None:
    """Off by one would refuse what is allowed."""
    for more in ({"top_k": 1}, {"top_k": 50}, {"alpha": 0}, {"alpha": 1}, {"mode": "vector"}):
        assert ask("search_code", query="login", **more)["results"]


def test_a_tip_for_code_is_an_option(session: Session) -> None:
    async def described() -> str:
        async with Client(make_server(session, TOOLS, enhanced=True), mode="2026-07-28") as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            return tools["search_code"].description or ""

    assert "Tip" in anyio.run(described)


# --- comments as documentation ------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["hybrid", "fts"])
def test_comments_answer_as_documentation(ask: Ask, docs: Path, mode: str) -> None:
    """JSDoc, docstrings of functions and modules, and remarks, cited as what they are."""
    for query, path, begins in (
        ("authenticates with whiskers and tusks", "src/auth/login.ts", "/** Authenticates"),
        ("crate below deck", "src/store.py", '"""Put a crate'),
        ("cargo manifests overnight", "src/store.py", '"""Where cargo'),
        ("narwhals knock three times", "src/auth/login.ts", "// Narwhals knock"),
    ):
        first = ask("search_docs", query=query, mode=mode)["results"][0]
        assert first["path"] == f"[code-comment]{path}"
        said = first["text"].rpartition("]\n\n")[2]
        assert said.startswith(begins)
        lines = (docs / path).read_text(encoding="utf-8").splitlines()
        assert said in "\n".join(lines[first["startLine"] - 1 : first["endLine"]])
        assert "metadata" not in first
    compact = ask("search_docs", query="crate below deck", mode=mode, compact=True)["r"][0]
    assert compact["l"] == "[code-comment]src/store.py:5-5"


def test_documents_and_comments_are_one_ranking(ask: Ask) -> None:
    """What a document says better stands before what a comment mentions."""
    found = [each["path"] for each in ask("search_docs", query="whisker badge porter")["results"]]
    assert found[0] == "docs/guide.md"
    assert "[code-comment]src/auth/login.ts" in found


def test_code_itself_is_not_documentation(ask: Ask) -> None:
    """Only what comments say is shown: never the code that stands around them."""
    found = ask("search_docs", query="WEIGHT 12 pelican password", mode="fts")["results"]
    assert all("WEIGHT = 12" not in each["text"] for each in found)
    assert all("echo" not in each["text"] for each in found)


class TestWithoutComments:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"embed.provider": "hash", "index.workers": 1, "search.comments": False}

    def test_comments_can_be_excluded(self, ask: Ask) -> None:
        """Who does not want them there does not get them."""
        found = ask("search_docs", query="crate below deck")["results"]
        assert [each["path"] for each in found if "code-comment" in each["path"]] == []
        assert ask("get_config")["config"]["extractComments"] is False


def test_the_setting_is_reported(ask: Ask, unmet: Unmet) -> None:
    shape = ask("get_config")
    assert unmet("search_mcp", "get_config", shape) == []
    assert shape["config"]["extractComments"] is True


# --- get_file_summary ---------------------------------------------------------------------------


def test_a_summary_describes_a_file(ask: Ask, unmet: Unmet, docs: Path) -> None:
    """Every promised field; by its path below the project and by its absolute one."""
    shape = ask("get_file_summary", path="src/auth/login.ts")
    assert unmet("search_mcp", "get_file_summary", shape) == []
    assert shape["path"] == "src/auth/login.ts"
    assert shape["language"] == "typescript"
    assert shape["lines"] == {"total": 16, "code": 12, "blank": 2, "comments": 2}
    login = shape["functions"][0]
    assert login["name"] == "login"
    assert login["type"] == "function"
    assert (login["startLine"], login["endLine"]) == (3, 9)  # with the documentation above it
    assert login["docstring"] == "Authenticates a walrus with its whiskers and tusks."
    assert login["isAsync"] is True
    assert login["isExported"] is True
    assert login["paramCount"] == 2
    assert login["complexity"] == 3
    assert login["nestingDepth"] == 1
    assert [each["name"] for each in shape["classes"]] == ["Door"]
    assert shape["imports"][0]["source"] == "./types"
    assert {"name": "login", "type": "function"} in shape["exports"]
    assert shape["complexity"]["decisionPoints"] == 3
    assert shape["size"] == len(LOGIN.encode())
    assert shape["fullSupport"] is True
    absolute = ask("get_file_summary", path=str(docs / "src/auth/login.ts"))
    assert {**absolute, "extractionTimeMs": 0} == {**shape, "extractionTimeMs": 0}


def test_complexity_and_docstrings_can_be_omitted(ask: Ask) -> None:
    shape = ask("get_file_summary", path="src/auth/login.ts", includeComplexity=False)
    assert "complexity" not in shape
    assert not {"complexity", "nestingDepth"} & set(shape["functions"][0])
    assert shape["functions"][0]["docstring"]
    shape = ask("get_file_summary", path="src/auth/login.ts", includeDocstrings=False)
    assert "docstring" not in shape["functions"][0]
    assert "docstring" not in shape["classes"][0]
    assert shape["complexity"]["score"] > 0


def test_a_summary_needs_no_index(ask: Ask, library: Library) -> None:
    library.folder().delete()
    assert ask("get_file_summary", path="src/store.py")["functions"][0]["name"] == "stow"


def test_ten_languages_are_understood_in_full(ask: Ask, put: Put) -> None:
    assert len(FULL) == 10
    for uri, text in FULL.values():
        put({uri: text})
        shape = ask("get_file_summary", path=uri)
        assert shape["fullSupport"] is True, uri
        assert shape["functions"], uri
        assert shape["complexity"]["cyclomatic"] > 1, uri


@pytest.mark.parametrize("path", ["src/none.ts", "../outside.ts", ".env", "src"])
def test_only_files_of_the_project_are_summarised(refused: Ask, put: Put, path: str) -> None:
    """What is absent, outside, secret or no file is refused alike."""
    put({".env": "KEY=1\n"})
    shape = refused("get_file_summary", path=path)
    assert shape["code"] == ("INVALID_ARGUMENT" if path.startswith("..") else "FILE_NOT_FOUND")


def test_a_link_is_not_summarised(refused: Ask, docs: Path, tmp_path: Path) -> None:
    """A link could lead out of the project."""
    (tmp_path / "secret.py").write_text("KEY = 1\n", encoding="utf-8")
    (docs / "src/link.py").symlink_to(tmp_path / "secret.py")
    assert refused("get_file_summary", path="src/link.py")["code"] == "SYMLINK_NOT_ALLOWED"


def test_a_large_summary_is_cut_and_says_so(ask: Ask, put: Put, call: Any) -> None:
    """No result may fill a model's window."""
    put({"src/many.py": "".join(
        f"def function_number_{n}(a, b):\n    '''Says {n}.'''\n    return a\n\n"
        for n in range(2_000)
    )})  # fmt: skip
    shown = call("get_file_summary", {"path": "src/many.py"}).content[0].text
    assert tokens(shown) <= 4_000
    shape = ask("get_file_summary", path="src/many.py")
    assert shape["truncated"] is True
    count = len(shape["functions"])
    assert 40 < count < 2_000
    following = ask("get_file_summary", path="src/many.py", cursor=shape["nextCursor"])
    assert following["functions"][0]["name"] == f"function_number_{count}"


class TestWithItsPreset:
    @pytest.fixture
    def settings(self) -> dict[str, Any]:
        return {"preset": "search-mcp", "embed.provider": "hash", "index.workers": 1}

    def test_a_comment_with_parts_of_a_version_is_not_found_by_them(
        self, ask: Ask, put: Put
    ) -> None:
        """Seen to fail where 0 and 28 counted: comments crowded out the changelog."""
        notes = "".join(
            f"# The range of part{n} begins at 0 and ends at 28.\nx{n} = {n}\n\n" for n in range(9)
        )
        changes = "# Changes\n\n## 0.28.0\n\nFaster.\n\n## 0.27.0\n\nAfter 0.28.0 it was old.\n"
        put({"a.py": notes, "CHANGELOG.md": changes})
        ask("create_index", confirm=True)
        rows = ask("search_docs", query="0.28.0", top_k=2)["results"]
        assert [row["path"] for row in rows] == ["CHANGELOG.md", "CHANGELOG.md"]
