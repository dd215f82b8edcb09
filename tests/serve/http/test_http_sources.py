"""Sources over HTTP: listed, added, updated, pinned and removed by those who may write.

Seen to fail when a folder could be named as an origin, when a token for one collection could change
what all share, and when a second fetch was started beside a running one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar.serve.http.tokens import add
from outside.served_site import Site, serve_site
from serve.http.asking import Answer, Served, events, serving
from waiting import DEADLINE, wait_for

LOCAL = ("--set", "outside.allow_private=true", "--set", "outside.pause_ms=0")


@pytest.fixture
def pages() -> Iterator[Site]:
    with serve_site() as served:
        served.html("/docs/", "Start", "The lighthouse lamp turns.", ("keys",))
        served.html("/docs/keys", "Keys", "Rotate the signing key.")
        yield served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, "--log-level", "error", *LOCAL) as opened:
        yield opened


def _post(served: Served, route: str, token: str = "", **body: Any) -> Answer:
    return served.ask("POST", f"/api/{route}", body, token=token)


def _finish(served: Served, token: str = "") -> dict[str, Any]:
    def job() -> dict[str, Any] | None:
        found: dict[str, Any] | None = _post(served, "sources", token).json["job"]
        return found if found and found["state"] != "running" else None

    done: dict[str, Any] = wait_for(job, "the end of a fetch")
    return done


def test_a_source_is_added_updated_pinned_and_removed(served: Served, pages: Site) -> None:
    assert _post(served, "sources").json["sources"] == []
    origin = f"{pages.address}/docs/"
    asked = _post(served, "source_add", origin=origin, name="lamps")
    assert (asked.status, asked.error["code"]) == (409, "CONFIRMATION_REQUIRED")
    assert not pages.seen
    started = _post(served, "source_add", origin=origin, name="lamps", confirm=True)
    assert started.json["job"]["name"] == origin
    assert _finish(served)["added"] == 2
    [row] = _post(served, "sources").json["sources"]
    assert (row["name"], row["kind"], row["files"], row["state"]) == ("lamps@source", "site", 2, "")
    found = served.tool("search", query="lighthouse lamp").json
    assert "lamps@source" in str(found)
    pages.html("/docs/keys", "Keys", "They are rotated no more.")
    _post(served, "source_update", names=["lamps"])
    assert _finish(served)["changed"] == 1
    assert _post(served, "source_pin", name="lamps").json["source"]["state"] == "pinned"
    _post(served, "source_update", names=["lamps"])
    assert "pinned" in _finish(served)["message"]
    assert _post(served, "source_pin", name="lamps", pinned=False).json["source"]["state"] == ""
    assert _post(served, "source_remove", name="lamps").status == 409
    assert _post(served, "source_remove", name="lamps", confirm=True).status == 200
    assert _post(served, "sources").json["sources"] == []
    assert _post(served, "source_remove", name="lamps", confirm=True).status == 404


def test_places_of_the_server_cannot_be_added(served: Served) -> None:
    for origin in (
        *("/etc", "~/secrets", "file:///etc/passwd", "git+file:///etc", "../docs", "ftp://h/x"),
        *("https://", "ssh://host/x", " /etc"),
    ):
        answer = _post(served, "source_add", origin=origin, confirm=True)
        assert (answer.status, answer.error["code"]) == (400, "INVALID_ARGUMENT"), origin


def test_the_stream_reports_a_fetch_that_can_be_stopped(served: Served, pages: Site) -> None:
    held = threading.Event()

    def wait(request: Any) -> None:
        held.wait(DEADLINE)
        request.answer(200, b"<h1>Late</h1><p>Late.</p>")

    pages.answers["/docs/keys"] = wait
    try:
        _post(served, "source_add", origin=f"{pages.address}/docs/", name="lamps", confirm=True)
        wait_for(lambda: pages.seen["/docs/keys"], "a request")
        [(_, state)] = events(served.ask("GET", "/api/events").body)
        assert state["source_job"]["state"] == "running"
        second = _post(served, "source_add", origin=f"{pages.address}/other/", confirm=True)
        assert (second.status, second.error["code"]) == (409, "INDEX_BUSY")
        assert _post(served, "source_stop").json["stopped"]
        # It does not wait for the page.
        stopped = _finish(served)
        assert (stopped["state"], stopped["message"]) == ("failed", "The fetch was stopped.")
    finally:
        held.set()
    [(_, state)] = events(served.ask("GET", "/api/events").body)
    assert state["source_job"]["state"] != "running"


def test_a_stopped_update_does_not_go_on_with_the_next_source(served: Served, pages: Site) -> None:
    pages.html("/other/", "Other", "Another lamp.")
    for path, name in (("docs", "first"), ("other", "second")):
        _post(served, "source_add", origin=f"{pages.address}/{path}/", name=name, confirm=True)
        assert _finish(served)["state"] == "done"
    held, asked = threading.Event(), threading.Event()

    def wait(request: Any) -> None:
        asked.set()
        held.wait(DEADLINE)
        request.answer(200, b"<h1>Start</h1><p>Late.</p>")

    pages.answers["/docs/"] = wait
    try:
        _post(served, "source_update")
        assert asked.wait(DEADLINE)
        assert _post(served, "source_stop").json["stopped"]
    finally:
        held.set()
    job = _finish(served)
    assert (job["state"], job["message"]) == ("failed", "The fetch was stopped.")


def test_a_named_source_is_fetched_by_its_name(tmp_path: Path, pages: Site) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\n", encoding="utf-8")
    entry = f"[outside.named.lamps]\norigin = '{pages.address}/docs/'\n"
    (docs / "lookfar.toml").write_text(entry, encoding="utf-8")
    with serving(tmp_path, "--log-level", "error", *LOCAL) as served:
        [row] = _post(served, "sources").json["named"]
        assert (row["name"], row["state"]) == ("lamps", "missing")
        assert _post(served, "source_add", named="lamps").status == 409
        assert _post(served, "source_add", named="other", confirm=True).status == 404
        assert _post(served, "source_add", confirm=True).status == 400
        # The file may change between the list that a user saw and the answer to the question.
        old = "https://docs.example.org/"
        changed = _post(served, "source_add", named="lamps", origin=old, confirm=True)
        assert (changed.status, "has changed" in changed.error["message"]) == (400, True)
        assert not pages.seen
        _post(served, "source_add", named="lamps", origin=row["origin"], confirm=True)
        assert _finish(served)["added"] == 2
        assert _post(served, "sources").json["named"][0]["state"] == "added"


def test_only_tokens_that_may_write_change_sources(tmp_path: Path, pages: Site) -> None:
    file = tmp_path / "tokens.json"
    keys = {
        "read": add(file, "read", "read"),
        "write": add(file, "write", "write"),
        "some": add(file, "some", "write", collections=("docs",)),
    }
    env = {"LOOKFAR_SERVE_TOKENS_FILE": str(file)}
    origin = f"{pages.address}/docs/"
    with serving(tmp_path, "--log-level", "error", *LOCAL, env=env) as served:
        for route in ("source_update", "source_stop", "source_add", "source_pin", "source_remove"):
            body = {"name": "lamps", "origin": origin, "confirm": True}
            answer = served.ask("POST", f"/api/{route}", body, token=keys["read"])
            assert (answer.status, answer.error["code"]) == (403, "SCOPE_TOO_SMALL"), route
        refused = _post(served, "source_add", keys["some"], origin=origin, confirm=True)
        assert (refused.status, refused.error["code"]) == (403, "PERMISSION_DENIED")
        assert not pages.seen
        _post(served, "source_add", keys["write"], origin=origin, name="lamps", confirm=True)
        assert _finish(served, keys["write"])["state"] == "done"
        assert len(_post(served, "sources", keys["read"]).json["sources"]) == 1
        seen = _post(served, "sources", keys["some"]).json
        assert (seen["sources"], seen["job"], seen["may_change"]) == ([], None, False)
        [(_, state)] = events(served.ask("GET", "/api/events", token=keys["some"]).body)
        assert state["source_job"] is None
        foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        body = {"name": "lamps", "confirm": True}
        crossed = served.ask("POST", "/api/source_remove", body, foreign, token=keys["write"])
        assert crossed.status == 403
        assert len(_post(served, "sources", keys["read"]).json["sources"]) == 1
