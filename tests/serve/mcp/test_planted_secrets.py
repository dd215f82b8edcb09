"""Two hundred planted secrets, and every way there is to ask an agent's server for them.

They are in files with telling names in every spelling, in copies of those, in files that their
content decides on, in passages of ordinary files, behind links, in the history of the repository
(files, passages of diffs, messages), in the folder of memories, in the environment and in a broken
configuration. No tool may show one, no file of the index may hold one, and no log or error may
tell one.

Seen to fail with a deny list that compared case, with one that ignored invisible characters, with
history whose diffs were not hidden, with one where a file renamed out of hiding was shown (a
leak that this test found), with files whose text was not masked when it was indexed, with diffs
and with messages of commits that were not masked, and with memories that were given back unmasked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

import planted
from harness import amount, report
from lookfar.sources.secrets.values import MASK
from planted import asked_by, text, value
from serve.mcp.served import Agent, Home, connected, stdio

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and Unix sockets")

BEHIND_LINKS = ["plain.md", "notes/link.md", "notes/second.md", "outer/inside.md"]
IN_HISTORY = [
    *(".env.old", "old/id_rsa", "old/x.pem", "OLD/.ENV", "old/y.key", "old/.netrc"),
    *("old/secrets.yaml", "old/prod.tfvars", "old/.docker/config.json", "old/credentials.json"),
    *(".env.renamed", "old/branch.pem", "merge/.env"),
]
AMONG_MEMORIES = [".env", "id_rsa", "server.pem"]
TOLD_ONCE = ["token", "key", "broken configuration"]

NAMED = [*planted.BY_NAME, *planted.BY_CASE, *planted.BY_FORM, *planted.COPIES]
SECRETS = [*NAMED, *BEHIND_LINKS, *IN_HISTORY, *AMONG_MEMORIES, *TOLD_ONCE]
DECIDED = planted.by_content()
PASSAGES = planted.in_passages()
PAST = [each for each in PASSAGES if each.uri.startswith(("docs/", "src/"))][:12]
"""Passages that are in the history besides: in the diff that adds them, and in the next."""
REMEMBERED = PASSAGES[6:10]
MESSAGES = PASSAGES[:2]
VALUES = {at: value(at) for at in range(len(SECRETS))}
CONTENTS = {each.value for each in (*DECIDED, *PASSAGES)}

ONE_IN = amount(20, 1)
"""Of the ways to ask, each secret is asked for in one of so many; the next in the others."""


@pytest.fixture
def agent(
    portal: BlockingPortal, home: Home, tmp_path: Path, repository: Callable[..., Any]
) -> Iterator[Agent]:
    root = tmp_path / "project"
    repo = repository("project")
    numbers = iter(range(len(SECRETS)))
    for uri in NAMED:
        repo.write(uri, text(next(numbers)))
    for each in DECIDED:
        repo.write(each.uri, each.text)
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "notes").mkdir()
    for uri in BEHIND_LINKS:
        hidden = outside / Path(uri).name
        hidden.write_text(text(next(numbers)), encoding="utf-8")
        if uri.startswith("outer/"):
            os.symlink(outside, root / "outer")
        else:
            os.symlink(hidden, root / uri)
    # Forced into the history, and all but gone from the disk afterwards.
    past = {uri: text(next(numbers)) for uri in IN_HISTORY}
    # Long enough for git to see that it is renamed and not removed.
    past[".env.renamed"] += "".join(f"SETTING_{at}=1\n" for at in range(40))
    branch, merged = past.pop("old/branch.pem"), past.pop("merge/.env")
    repo.write(".gitignore", "".join(f"!{uri}\n" for uri in NAMED))
    repo.commit("Begin with all of it", past)
    repo.commit("Pages with tokens", {f"past/{each.uri}": each.text for each in PAST})
    for each in PAST:
        (root / "past" / each.uri).unlink()
    told = "; ".join(each.text.replace("\n", " ") for each in MESSAGES)
    repo.commit(f"Harbour tokens\n\n{told}", {"note.md": "# Note\n"})
    repo.git("mv", ".env.renamed", "sample.md")
    renamed = past[".env.renamed"].replace(value(SECRETS.index(".env.renamed")), "CHANGEME")
    repo.commit("Rename the settings", {"sample.md": renamed})
    assert "rename from" in repo.git("show", "--find-renames")
    for uri in past:
        (root / uri).unlink(missing_ok=True)
    repo.commit("Remove the secrets")
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit("A key on a branch", {"old/branch.pem": branch})
    repo.git("checkout", "--quiet", "main")
    repo.commit("Go on", {"guide.md": "# Guide\n\nThe harbour keeps boats.\n"})
    repo.git("merge", "--quiet", "--no-ff", "-m", "Merge side", "side")
    repo.commit("Settings by mistake", {"merge/.env": merged})
    repo.git("rm", "--quiet", "--cached", "merge/.env")
    (root / "merge" / ".env").unlink()
    repo.commit("Gone again")
    for each in PASSAGES:
        repo.write(each.uri, each.text)
    server = stdio(home, root, "--toolset", "all", "--write")
    said = dict(zip(TOLD_ONCE, list(VALUES.values())[-len(TOLD_ONCE) :], strict=True))
    server.env |= {  # type: ignore[operator]
        "LOOKFAR_TOKENS": f"{said['token']}{'x' * 40}",
        "OPENAI_API_KEY": said["key"],
    }
    with connected(portal, server, root) as agent:
        agent.raw("remember", {"text": "Boats are kept in the harbour."})
        for each in REMEMBERED:
            answer = agent.raw("remember", {"text": each.text}).model_dump_json()
            assert each.value not in answer
        [memories] = (home.folder / ".local/share/lookfar/memory").glob("project-*")
        for at, name in enumerate(AMONG_MEMORIES, len(SECRETS) - len(TOLD_ONCE) - 3):
            (memories / name).write_text(text(at), encoding="utf-8")
        os.symlink(outside / "plain.md", memories / "leak.md")
        yield agent


def asked(uri: str, word: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every way to ask for one secret, without saying it."""
    name = Path(uri).name
    yield "search", {"query": word, "top_k": 10, "mode": "keyword"}
    yield "search", {"query": f"the password of {word}", "top_k": 10}
    yield "search", {"query": "The password", "uris": [uri]}
    yield "search", {"query": word, "kinds": ["commits"]}
    yield "search", {"query": "password", "touches": uri}
    yield "read", {"target": uri}
    yield "related", {"target": uri}
    yield "get_page", {"file_path": uri}
    yield "get_section", {"file_path": uri, "heading_path": "Notes"}
    yield "get_file_summary", {"path": uri}
    yield "reindex_file", {"path": uri}
    yield "search_by_path", {"pattern": f"**/{name}"}
    yield "search_git_history", {"query": word}
    yield "search_git_history", {"query": "secrets", "file_pattern": uri}
    yield "search_memories", {"query": word}
    yield "read_memory", {"filename": name}
    yield "msrl.query", {"query": word, "filters": {"doc_uris": [uri]}}
    yield "msrl.doc.validate", {"doc_uri": uri}
    yield "edit", {"edits": [{"op": "append", "target": uri, "text": "x"}], "dry_run": True}
    yield "query_documents", {"query": f"password {word}"}


def test_none_of_two_hundred_secrets_can_be_had(agent: Agent, home: Home) -> None:
    planted_ones = len(SECRETS) + len(DECIDED) + len(PASSAGES)
    assert planted_ones >= 200
    agent.raw("create_index", {"confirm": True})
    assert "guide.md" in agent.raw("search", {"query": "harbour boats"}).model_dump_json()
    history = agent.raw("search_git_history", {"query": "Rename the settings"}).model_dump_json()
    assert "Rename the settings" in history
    answered(agent, home)
    page = agent.raw("read", {"target": PASSAGES[0].uri}).model_dump_json()
    assert "harbour" in page, "the page around a secret is there to be read"
    assert MASK in page
    leaked, calls = set(), 0
    state = ("status", "get_config", "get_index_status", "get_memory_stats", "msrl.status")
    wanted = [(uri, asked_by(at)) for at, uri in enumerate(SECRETS)]
    wanted += [(each.uri, "harbour token password") for each in (*DECIDED, *PASSAGES)]
    wanted += [(f"past/{each.uri}", "harbour") for each in PAST]
    questions = [
        each
        for at, (uri, word) in enumerate(wanted)
        for turn, each in enumerate(asked(uri, word))
        if (turn + at) % ONE_IN == 0
    ]
    nowhere = {*VALUES.values(), *CONTENTS}
    for tool, given in [*questions, *_remembered(home), *((name, {}) for name in state)]:
        calls += 1
        said = agent.raw(tool, given).model_dump_json()
        leaked |= {(tool, each) for each in nowhere if each in said}
    (agent.root / "lookfar.toml").write_text(f"[index]\nkey = {VALUES[len(SECRETS) - 1]}\n")
    for arguments in (("search", "harbour", agent.root), ("status", agent.root)):
        ended = home.command(*arguments)
        assert ended.returncode != 0
        told = ended.stdout + ended.stderr
        leaked |= {("command", each) for each in VALUES.values() if each in told}
    leaked |= set(_written(home))
    report("planted secrets", trials=calls + 2, faults=planted_ones, failures=len(leaked))
    assert sorted(leaked) == []


def _remembered(home: Home) -> list[tuple[str, dict[str, Any]]]:
    """Ask for every memory by its name."""
    kept = (home.folder / ".local/share/lookfar/memory").glob("project-*/*.md")
    names = [path.name for path in kept if not path.is_symlink()]
    assert len(names) == 1 + len(REMEMBERED)
    return [("read_memory", {"filename": name}) for name in names]


def _written(home: Home) -> Iterator[tuple[str, str]]:
    """What of them stands in any file of ours: indexes, logs, state, memories apart from those
    that were planted there."""
    found = False
    files = [path for path in home.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any("epoch" in str(path) for path in files)
    assert any(path.suffix == ".log" for path in files)
    for path in files:
        if "memory" in path.parts and (path.name in AMONG_MEMORIES or path.suffix == ".md"):
            continue
        data = path.read_bytes()
        if path.name == "catalogue.db":
            data += b"\n".join(planted.stored_in(path))
        found = found or b"The harbour keeps boats." in data
        for each in (*VALUES.values(), *CONTENTS):
            if each.encode() in data:
                yield path.name, each
    assert found, "what is indexed would not be seen here, either"


def answered(agent: Agent, home: Home) -> None:
    """The same questions about text that is not secret are answered by every tool."""
    refused = set()
    for tool, given in asked("guide.md", "harbour"):
        good = {**given, "query": "harbour"} if "query" in given else given
        good = {**good, "heading_path": "Guide"} if "heading_path" in good else good
        if agent.raw(tool, good).is_error:
            refused.add(tool)
    assert refused == {"read_memory"}, "that is no memory"
    kept = (home.folder / ".local/share/lookfar/memory").glob("project-*/*.md")
    [memory] = [path.name for path in kept if path.name.startswith("boats")]
    said = agent.raw("read_memory", {"filename": memory}).model_dump_json()
    assert "Boats are kept in the harbour." in said
    for tool, given in (
        ("search", {"query": "harbour", "uris": ["guide.md"]}),
        ("read", {"target": "guide.md"}),
        ("get_page", {"file_path": "guide.md"}),
        ("msrl.query", {"query": "harbour", "filters": {"doc_uris": ["guide.md"]}}),
        ("query_documents", {"query": "harbour boats"}),
    ):
        assert "The harbour keeps boats." in agent.raw(tool, given).model_dump_json(), tool
