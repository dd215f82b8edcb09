"""Sessions of MSRL's clients with other vaults and settings: empty, missing, tuned, shared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from requirements.sessions.client import (
    Client,
    StdioClient,
    end,
    launch,
    serving,
)
from requirements.sessions.msrl_vault import put
from waiting import DEADLINE, wait_for

SAMPLE = "# Keys 🗝\n\nThe signing key 🗝 is in the safe.\n\n## Old keys\n\nOld keys are burnt.\n"


def is_ready(client: Client) -> bool:
    return bool(client.call("msrl.status")["state"] == "ready")


def test_an_empty_vault_is_a_vault(tmp_path: Path) -> None:
    """It is ready with nothing in it, answers with nothing, and notices the first note."""
    folder = tmp_path / "vault"
    folder.mkdir()
    with serving("stdio", folder, "--toolset", "msrl", home=tmp_path / "home") as client:
        wait_for(lambda: is_ready(client))
        status = client.call("msrl.status")
        assert status["stats"] == {"docs": 0, "nodes": 0, "leaves": 0, "shards": 0}
        assert status["snapshotId"]
        answer = client.call("msrl.query", query="key", debug={"include_shards_searched": True})
        assert answer["results"] == []
        assert answer["meta"]["shards_searched"] == []
        assert client.call("msrl.reindex", scope="full", wait=True)["completed"]
        put(folder, "keys.md", SAMPLE)
        wait_for(lambda: bool(client.call("msrl.status")["stats"]["docs"] == 1))
        assert client.call("msrl.query", query="signing key")["results"]


def test_settings_are_the_defaults_of_the_tools(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    for number in range(6):
        put(folder, f"{number}.md", SAMPLE + "Old keys are melted down. " * 40)
    settings = {
        "search.vector_weight": 0,
        "search.keyword_weight": 1,
        "search.top_k": 3,
        "search.max_excerpt_chars": 300,
        "serve.offsets": "characters",
        "watch.enabled": "false",
        "watch.debounce_ms": 5000,
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    home = tmp_path / "home"
    with serving("stdio", folder, "--toolset", "msrl", "--underscores", *options, home=home) as c:
        wait_for(lambda: bool(c.call("msrl_status")["state"] == "ready"))
        assert c.call("msrl_status")["watcher"] == {"enabled": False, "debounceMs": 5000}
        results = c.call("msrl_query", query="burnt keys")["results"]
        assert len(results) == 3
        for result in results:
            assert result["score"] == result["bm25_score"]
            assert len(result["excerpt"]) == 300
            text = (folder / result["doc_uri"]).read_text(encoding="utf-8")
            assert text[result["start_char"] : result["end_char"]].startswith(result["excerpt"])
        assert len(c.call("msrl_query", query="keys", top_k=5)["results"]) == 5
        assert set(c.tools()) == {
            "msrl_query",
            "msrl_status",
            "msrl_reindex",
            "msrl_watch",
            "msrl_doc_validate",
        }


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The server starts; the tools that need the model say from where it was to come."""
    folder, model = tmp_path / "vault", tmp_path / "no-model"
    put(folder, "keys.md", SAMPLE)
    model.mkdir()
    home = tmp_path / "home"
    variables: dict[str, Any] = {
        "LOOKFAR_EMBED_PROVIDER": "static",
        "LOOKFAR_EMBED_MODEL": str(model),
    }
    with serving("stdio", folder, "--toolset", "msrl", home=home, **variables) as client:
        wait_for(lambda: bool(client.call("msrl.status")["state"] == "error"))
        assert "model" in client.call("msrl.status")["error"]
        error = client.refused("msrl.reindex", wait=True)
        assert error["code"] == "MODEL_DOWNLOAD_FAILED"
        assert error["details"]["url"].startswith(model.as_uri())
        assert error["details"]["reason"]
        assert client.refused("msrl.query", query="key")["code"] == "NOT_INDEXED"


def test_a_vault_that_does_not_exist_is_an_io_error(tmp_path: Path) -> None:
    """The server starts, and each call says why it cannot answer."""
    missing = tmp_path / "missing"
    with serving("stdio", missing, "--toolset", "msrl", home=tmp_path / "home") as client:
        assert len(client.tools()) == 5
        error = client.refused("msrl.status")
        assert error["code"] == "IO_ERROR"
        assert error["details"] == {"path": str(missing), "operation": "read", "errno": "ENOENT"}


def test_an_index_that_cannot_be_written_is_an_io_error(tmp_path: Path) -> None:
    folder, blocked = tmp_path / "vault", tmp_path / "file"
    put(folder, "keys.md", SAMPLE)
    blocked.write_text("in the way", encoding="utf-8")
    options = ("--toolset", "msrl", "--index-dir", blocked)
    with serving("stdio", folder, *options, home=tmp_path / "home") as client:
        wait_for(lambda: bool(client.call("msrl.status")["state"] == "error"))
        error = client.refused("msrl.reindex", wait=True)
        assert error["code"] == "IO_ERROR"
        assert error["details"]["path"].startswith(str(blocked))
        assert error["details"]["operation"] == "write"
        assert error["details"]["errno"] in ("ENOTDIR", "EEXIST")


def test_a_damaged_snapshot_that_cannot_be_rebuilt_is_named(tmp_path: Path) -> None:
    folder, index = tmp_path / "vault", tmp_path / "index"
    put(folder, "keys.md", SAMPLE)
    options = ("--toolset", "msrl", "--index-dir", index)
    with serving("stdio", folder, *options, home=tmp_path / "home") as client:
        wait_for(lambda: is_ready(client))
    (place,) = (entry for entry in index.iterdir() if (entry / "CURRENT").exists())
    (place / "epoch-1" / "catalogue.db").unlink()
    (place / "writer.lock").unlink()
    (place / "writer.lock").mkdir()  # Without a lock nothing is written, so nothing is repaired.
    with serving("stdio", folder, *options, home=tmp_path / "home") as client:
        error = client.refused("msrl.query", query="key")
        assert error["code"] == "INDEX_CORRUPT"
        assert error["details"]["snapshotId"] == "epoch-1"
        assert error["details"]["missingFiles"] == ["catalogue.db"]
        assert error["details"]["reason"]


@contextmanager
def _daemon_session(folder: Path, home: Path, *options: str) -> Iterator[Client]:
    process = launch(("mcp", folder, "--toolset", "msrl", *options), home)
    try:
        client = StdioClient(process)
        client.initialize()
        yield client
        assert process.stdin
        process.stdin.close()
        process.wait(DEADLINE)
    finally:
        end(process)


def test_watching_is_a_matter_of_one_session(tmp_path: Path) -> None:
    """Off ends with its session, also where sessions share a daemon."""
    folder, home = tmp_path / "vault", tmp_path / "home"
    put(folder, "keys.md", SAMPLE)
    try:
        with _daemon_session(folder, home, "--write") as client:
            wait_for(lambda: is_ready(client))
        with _daemon_session(folder, home) as client:
            client.call("msrl.watch", enabled=False)
            _assert_not_indexed(client, folder)
        with _daemon_session(folder, home) as client:
            assert client.call("msrl.status")["watcher"] == {"enabled": True, "debounceMs": 2000}
            wait_for(lambda: bool(client.call("msrl.status")["stats"]["docs"] == 2))
    finally:
        stopping = launch(("daemon", "stop"), home)
        stopping.communicate(timeout=DEADLINE)


def _assert_not_indexed(client: Client, folder: Path) -> None:
    """Write a note, and check that only a build that was asked for would bring it in."""
    put(folder, "later.md", "# Later\n\nA note of a later hour.\n")
    prefixed: dict[str, Any] = client.call(
        "msrl.reindex", scope="prefix", doc_uri_prefix="keys", wait=True
    )
    assert prefixed["completed"]
    assert (
        client.call("msrl.query", query="later hour", filters={"doc_uris": ["later.md"]})["results"]
        == []
    )
    assert client.call("msrl.status")["stats"]["docs"] == 1
