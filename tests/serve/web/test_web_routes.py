"""What the page consists of and asks for, without a browser: files, headers, routes, refusals."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lookfar.serve.http.web import api, static_files
from serve.http.asking import Served, command, events, serving
from serve.web.corpus import MANY, TEXTS, write_corpus
from waiting import wait_for

MOST_BYTES = 210_000
READ, WRITE = "r" * 24, "w" * 24
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that asks for tokens, with two generations."""
    folder = tmp_path_factory.mktemp("closed")
    write_corpus(folder / "docs")
    env = {"LOOKFAR_TOKENS": f"{READ},write:{WRITE}"}
    options = ("--log-level", "error", "--set", "watch.enabled=false")
    with serving(folder, *options, env=env) as served:
        served.ask("POST", "/api/search", {"query": "harbour"}, token=READ)
        (served.root / "index.md").write_text("# Another pilot book\n", encoding="utf-8")
        served.ask("POST", "/api/search", {"query": "harbour"}, token=READ)
        yield served


# --- files --------------------------------------------------------------------------------------


def test_all_of_the_page_is_small() -> None:
    """Everything that any view loads, as it is sent: nothing is packed."""
    assert sum(map(len, static_files.page().values())) < MOST_BYTES


def test_every_file_comes_with_the_policy_and_is_kept_by_its_mark(site: Served) -> None:
    assert {"/", "/web/app.js", "/web/page.css", "/web/mark.svg"} <= static_files.paths()
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "/": "text/html"}
    for path, body in static_files.page().items():
        answer = site.ask("GET", path)
        assert answer.body == body
        assert answer.headers["content-type"].startswith(kinds[path.rpartition(".")[2]])
        policy = dict(
            each.strip().partition(" ")[::2]
            for each in answer.headers["content-security-policy"].split(";")
        )
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
            "require-trusted-types-for": "'script'",
            "trusted-types": "'none'",
        }
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        again = site.ask("GET", path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")


def test_data_opened_as_a_page_can_do_nothing(site: Served) -> None:
    for answer in (site.ask("GET", "/health"), site.ask("POST", "/api/overview", {}),
                   site.ask("GET", "/nothing")):  # fmt: skip
        policy = answer.headers["content-security-policy"]
        assert policy == "default-src 'none'; frame-ancestors 'none'"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path", ["/web/", "/web/../api.py", "/web/%2e%2e/api.py", "/web/index.html", "/web//app.js"]
)
def test_nothing_else_is_served(site: Served, path: str) -> None:
    assert site.ask("GET", path).status == 404


def test_our_own_code_has_no_way_to_make_markup_of_text() -> None:
    """The browser would refuse it; it should not even be tried."""
    sinks = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
        r"|createContextualFragment|DOMParser|setHTML|srcdoc|\.href\s*=|https?://(?!www\.w3\.org)"
        r"|setAttribute\(\s*[\"']style|import\(\s*[^\"')]"
    )
    for path, body in static_files.page().items():
        text = body.decode()
        if path.endswith(".js"):
            assert not sinks.findall(text), path
        if path == "/":
            assert not re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|https?://", text)
        if path.endswith(".css"):
            assert "url(" not in text
            assert "@import" not in text


def test_what_the_files_refer_to_is_there() -> None:
    for body in static_files.page().values():
        wanted = re.findall(r"[\"'](/web/[^\"']+)[\"']", body.decode())
        assert set(wanted) <= static_files.paths()


# --- who may ask --------------------------------------------------------------------------------


def test_the_page_needs_no_token_and_what_it_asks_for_does(closed: Served) -> None:
    for path in static_files.paths():
        assert closed.ask("GET", path).status == 200
        assert closed.ask("HEAD", path).status == 200
        assert closed.ask("POST", path, {}).status == 401
        assert closed.ask("GET", path, headers={"Host": "evil.example"}).status == 421
        assert closed.ask("GET", path, headers={"Origin": "http://evil.example"}).status == 403
    for row in api.ROWS:
        assert closed.ask("POST", f"/api/{row.name}", {}).status == 401
    assert closed.ask("GET", "/api/events").status == 401
    assert closed.ask("GET", "/api/events", token=READ).status == 200


def test_rollback_needs_permission_confirmation_and_our_own_page(closed: Served) -> None:
    body = {"generation": 1, "confirm": True}
    own = closed.address

    def ask(body: object = body, token: str = WRITE, **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = closed.ask("POST", "/api/rollback", body, headers=named, token=token)
        return answer.status, answer.json.get("error", {}).get("code", "")

    def title() -> str:
        found = closed.ask("POST", "/api/search", {"query": "pilot book"}, token=READ).json
        return str(found["hits"][0]["title"])

    assert ask(token=READ) == (403, "SCOPE_TOO_SMALL")
    assert ask({"generation": 1}) == (409, "CONFIRMATION_REQUIRED")
    assert ask(Origin="http://127.0.0.1:1") == (403, "FOREIGN_ORIGIN")
    assert ask(Origin="http://localhost") == (403, "FOREIGN_ORIGIN")
    assert ask(Sec_Fetch_Site="cross-site") == (403, "FOREIGN_ORIGIN")
    assert ask(Sec_Fetch_Site="same-site") == (403, "FOREIGN_ORIGIN")
    assert ask(Content_Type="text/plain") == (415, "NOT_JSON")
    assert ask({"generation": 99, "confirm": True})[0] == 400
    assert closed.ask("GET", "/api/rollback", token=WRITE).status == 405
    kept = closed.ask("POST", "/api/generations", {}, token=READ).json
    assert kept["held"] is None
    assert title() == "Another pilot book"
    assert ask(Origin=own, Sec_Fetch_Site="same-origin") == (200, "")
    assert closed.ask("POST", "/api/generations", {}, token=READ).json["held"] == 1
    assert title() == "Pilot book"  # What was ranked before does not answer any more.
    last = kept["snapshots"][-1]["generation"]
    assert ask({"generation": last, "confirm": True}) == (200, "")
    assert title() == "Another pilot book"
    assert closed.ask("POST", "/api/generations", {}, token=READ).json["held"] is None


# --- what is answered ---------------------------------------------------------------------------


def test_pages_of_a_list_follow_each_other(many: Served) -> None:
    def ask(offset: int, depth: int = 10_000) -> dict[str, object]:
        body = {"query": "harbour", "offset": offset, "limit": 100, "depth": depth}
        found: dict[str, object] = many.ask("POST", "/api/search", body).json
        return found

    first, second, last = ask(0), ask(100), ask(MANY - 100)
    assert first["total"] == second["total"] == last["total"] == MANY
    uris = [hit["uri"] for page in (first, second, last) for hit in page["hits"]]  # type: ignore[attr-defined]
    assert len(uris) == len(set(uris)) == 300
    counts = {each["value"]: each["count"] for each in first["facets"]["path"]}  # type: ignore[index]
    assert counts["part3/"] == MANY // 10
    shallow = ask(0, 50)
    assert (shallow["total"], shallow["more"]) == (50, True)


def test_a_hit_says_where_it_stands_and_what_of_it_answers(site: Served) -> None:
    answer = site.ask("POST", "/api/search", {"query": "lamp keeper", "limit": 3}).json
    hit = next(each for each in answer["hits"] if each["uri"] == "sea/lamp.md")
    text = TEXTS["sea/lamp.md"]
    assert hit["text"] == text[hit["start"] : hit["end"]]
    words = {hit["text"][start:end].lower() for start, end in hit["marks"]}
    assert words >= {"lamp", "keeper"}
    short = hit["excerpt"]
    # Without markup, and the sentence that answers in front.
    assert short.startswith("Its keeper reads the tides.")
    assert short[: hit["answer_end"]] == "Its keeper reads the tides."
    assert {short[start:end].lower() for start, end in hit["excerpt_marks"]} == {"keeper"}
    assert hit["language"] == "markdown"
    assert hit["tags"] == ["sea"]
    assert hit["cite"].startswith("lookfar://docs/sea/lamp.md")


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A sheet of two ranges, and notes with properties."""
    folder = tmp_path_factory.mktemp("office")
    rows = [f"Chair {at},Vendor,March,{100 + at}" for at in range(2, 62)]
    texts = {
        "costs.csv": "\n".join(["Item,Vendor,Month,Cost", *rows, "Firewall,Palisade,May,4711"]),
        "keys.md": "# Keys\nRotate the signing key with a new seal.\n\nA key is long.\n",
        "fire.md": "# Firewall\n\nAsk the network team.\n",
        "plan.md": "---\nstatus: active\n---\n# Plan\n\nThe walrus plan.\n",
        "idea.md": "---\nstatus: idle\nup: '[[plan|the plan]]'\n---\n# Idea\n\nA gull.\n",
    }
    for name, text in texts.items():
        (folder / "docs" / name).parent.mkdir(exist_ok=True)
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    with serving(folder, "--log-level", "error", "--set", "watch.enabled=false") as served:
        yield served


def test_a_hit_of_two_ranges_shows_the_one_that_answers(office: Served) -> None:
    asked = {"query": "what did the firewall cost", "prefix": "costs"}
    hit = office.ask("POST", "/api/search", asked).json["hits"][0]
    assert (hit["uri"], hit["place"], len(hit["places"])) == ("costs.csv", "A41:D62", 2)
    assert hit["excerpt"][: hit["answer_end"]] == "Firewall · Palisade · May · 4711"
    assert "| Firewall | Palisade | May | 4711 |" in hit["text"]


def test_a_paragraph_directly_under_its_heading_is_in_the_excerpt(office: Served) -> None:
    hit = office.ask("POST", "/api/search", {"query": "rotate key"}).json["hits"][0]
    assert hit["excerpt"] == "Rotate the signing key with a new seal. A key is long."


def count_properties(served: Served, **asked: Any) -> dict[str, dict[str, int]]:
    facets = served.ask("POST", "/api/search", asked).json["facets"]["property"]
    return {
        row["name"]: {value["value"]: value["count"] for value in row["values"]} for row in facets
    }


def test_properties_are_counted_in_the_results(office: Served) -> None:
    """Fails if they are counted in all documents, whatever the question."""
    assert count_properties(office, query="walrus", mode="keyword") == {"status": {"active": 1}}
    assert count_properties(office, query="gull", mode="keyword") == {
        "status": {"idle": 1}, "up": {"[[plan|the plan]]": 1},
    }  # fmt: skip
    assert count_properties(office, query="firewall", mode="keyword") == {}
    assert count_properties(office, where=["has:status"])["status"] == {"active": 1, "idle": 1}


def test_a_wikilink_in_a_property_is_a_link(office: Served) -> None:
    asked = {"target": "idea.md", "render": True}
    rows = office.ask("POST", "/api/document", asked).json["properties"]
    assert [row["values"] for row in rows] == [["idle"], ["the plan"]]
    assert [row["links"] for row in rows] == [[{}], [{"uri": "plan.md", "anchor": ""}]]


def test_a_document_comes_with_its_part_outline_and_company(site: Served) -> None:
    shape = site.ask("POST", "/api/document", {"target": "sea/harbour.md#Leaving"}).json
    text = TEXTS["sea/harbour.md"]
    assert shape["text"] == text
    assert text[slice(*shape["part"])] == "## Leaving\n\nLeave on the ebb.\n"
    assert [each["title"] for each in shape["outline"]["sections"]][-1] == "Leaving"
    backlinks = {each["uri"] for each in shape["related"] if each["kind"] == "backlinks"}
    assert backlinks == {"index.md", "sea/boats.md", "sea/fog.md", "sea/tides.md"}
    contexts = {each["uri"]: each["context"] for each in shape["related"] if each["context"]}
    assert contexts["index.md"].startswith("Pilot book Start with the harbour, the lamp")
    whole = site.ask("POST", "/api/document", {"target": "sea/harbour.md"}).json
    assert whole["part"] is None
    assert site.ask("POST", "/api/document", {"target": "nowhere.md"}).status == 404


def test_the_overview_counts_every_document(site: Served) -> None:
    shape = site.ask("POST", "/api/overview", {}).json
    lanes = {each["value"]: each["count"] for each in shape["facets"]["lane"]}
    assert lanes == {"docs": shape["documents"] - 2, "code": 2}
    assert shape["recent"][0]["uri"] == "sea/fog.md"


def test_filters_without_words_list_the_documents_they_admit(site: Served) -> None:
    answer = site.ask("POST", "/api/search", {"query": " ", "tags": ["sea"]}).json
    assert {hit["uri"] for hit in answer["documents"]} == {"sea/harbour.md", "sea/lamp.md"}
    assert (answer["total"], answer["more"]) == (2, False)
    lamp = next(hit for hit in answer["documents"] if hit["uri"] == "sea/lamp.md")
    assert lamp["excerpt"].startswith("Lamp · The lamp of the harbour burns whale oil. Its keeper")
    assert {each["value"]: each["count"] for each in answer["facets"]["tag"]} == {
        "sea": 2,
        "safe": 1,
    }
    second = site.ask("POST", "/api/search", {"tags": ["sea"], "offset": 1, "limit": 1}).json
    assert second["documents"] == answer["documents"][1:]
    refused = site.ask("POST", "/api/search", {"query": ""})
    assert (refused.status, refused.error["code"]) == (400, "INVALID_ARGUMENT")


def test_only_the_named_collections_are_searched(tmp_path: Path) -> None:
    write_corpus(tmp_path / "docs")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "lamp.md").write_text("# Lamp\n\nThe harbour lamp is lit.\n")
    with serving(tmp_path, str(tmp_path / "notes"), "--log-level", "error") as served:
        whole = served.ask("POST", "/api/search", {"query": "lamp"}).json
        counts = {each["value"]: each["count"] for each in whole["facets"]["collection"]}
        assert set(counts) == {"docs", "notes"}
        only = {"query": "lamp", "collections": ["notes"]}
        part = served.ask("POST", "/api/search", only).json
        assert [hit["collection"] for hit in part["hits"]] == ["notes"]
        listed = served.ask("POST", "/api/search", {"collections": ["notes"]}).json
        assert [hit["uri"] for hit in listed["documents"]] == ["lamp.md"]


def test_suggestions_come_from_the_collection(site: Served) -> None:
    shown = site.ask("POST", "/api/overview", {}).json["suggestions"]
    assert shown["questions"] == ["Entering the harbour"]
    assert shown["symbols"] == ["enter_harbour"] or shown["symbols"] == ["lightLamp"]
    assert set(shown["tags"]) >= {"sea", "safe", "land"}
    assert set(shown["folders"]) == {"sea/", "land/", "code/", "notes/"}
    assert "Pilot book" in shown["titles"]


def test_the_graph_around_a_document_has_a_depth(site: Served) -> None:
    def near(depth: int) -> set[str]:
        body = {"around": "land/oven.md", "depth": depth}
        nodes = site.ask("POST", "/api/graph", body).json["nodes"]
        return {node["uri"] for node in nodes}

    assert near(1) == {"land/oven.md", "land/kitchen.md", "land/flour.md"}
    assert near(2) == near(1) | {"index.md"}
    assert near(0) >= {"sea/harbour.md"}


def test_calls_are_listed_in_both_directions(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    (root / "harbour.py").write_text(
        "def leave(): pass\n\n\ndef enter():\n    leave()\n\n\ndef visit():\n    enter()\n"
    )
    with serving(tmp_path, "--log-level", "error") as served:
        shape = served.ask("POST", "/api/calls", {"target": "harbour.py#enter"}).json
        assert [node["name"] for node in shape["callers"]] == ["visit"]
        assert [node["name"] for node in shape["callees"]] == ["leave"]
        assert (shape["name"], shape["line"], shape["complete"]) == ("enter", 4, True)
        assert served.ask("POST", "/api/calls", {"target": "nothing"}).status in (400, 404)


def read_state(served: Served) -> dict[str, Any]:
    """The state of the only collection, as the page gets it."""
    [(_, state)] = events(served.ask("GET", "/api/events").body)
    [collection] = state["collections"]
    return dict(collection)


def test_a_change_before_the_first_search_leaves_an_earlier_text(tmp_path: Path) -> None:
    write_corpus(tmp_path / "docs")
    with serving(tmp_path, "--log-level", "error") as served:
        wait_for(lambda: read_state(served)["watcher"], "an index that is followed")
        lamp = served.root / "sea" / "lamp.md"
        lamp.write_text(TEXTS["sea/lamp.md"].replace("whale oil", "kerosene"), encoding="utf-8")
        wait_for(lambda: read_state(served)["generation"] == 2, "a second generation")
        earlier = served.ask("POST", "/api/earlier", {"uri": "sea/lamp.md"}).json
        assert "whale oil" in earlier["text"]


@pytest.mark.parametrize(
    "setting", ["watch.enabled=false", "watch.strategy=lazy", "store.read_only=true"]
)
def test_a_folder_that_is_not_followed_is_not_read_at_the_start(
    tmp_path: Path, setting: str
) -> None:
    with serving(tmp_path, "--set", setting) as served:
        state = read_state(served)
        assert (state["indexed"], state["building_since"], state["failure"]) == (False, "", "")
        assert not [line for line in served.log if line["level"] == "warning"]


@pytest.fixture
def revised(tmp_path: Path) -> Iterator[Served]:
    """A server with three generations: a text was changed, another one was removed."""
    write_corpus(tmp_path / "docs")
    with serving(tmp_path, "--log-level", "error", "--set", "watch.enabled=false") as served:
        served.ask("POST", "/api/search", {"query": "harbour"})
        lamp = served.root / "sea" / "lamp.md"
        lamp.write_text(TEXTS["sea/lamp.md"].replace("whale oil", "kerosene"), encoding="utf-8")
        served.ask("POST", "/api/search", {"query": "harbour"})
        (served.root / "sea" / "boats.md").unlink()
        served.ask("POST", "/api/search", {"query": "harbour"})
        yield served


def test_an_earlier_text_is_shown_with_what_changed(revised: Served) -> None:
    shape = revised.ask("POST", "/api/earlier", {"uri": "sea/lamp.md"}).json
    oldest = revised.ask("POST", "/api/generations", {}).json["snapshots"][0]
    assert shape["kept_since"] == oldest["created_at"]
    assert shape["retained"] == {"days": 8, "generations": 3}
    assert shape["text"] == TEXTS["sea/lamp.md"]
    runs = [(each["oldest"], each["newest"], each["active"]) for each in shape["versions"]]
    assert runs == [(1, 1, False), (2, 3, True)]
    lines = shape["diff"].splitlines()
    assert [line for line in lines if line.startswith("-The")] == [
        "-The lamp of the harbour burns whale oil. Its keeper reads [the tides](tides.md)."
    ]
    assert any(line.startswith("+The lamp") and "kerosene" in line for line in lines)
    now = revised.ask("POST", "/api/earlier", {"uri": "sea/lamp.md", "generation": 3}).json
    assert "kerosene" in now["text"]
    assert now["diff"] == ""
    gone = revised.ask("POST", "/api/earlier", {"uri": "sea/boats.md"}).json
    assert gone["text"] == TEXTS["sea/boats.md"]
    assert not gone["versions"][-1]["active"]
    assert gone["diff"].count("\n-") == gone["text"].count("\n")
    same = revised.ask("POST", "/api/earlier", {"uri": "sea/tides.md"}).json
    assert [each["active"] for each in same["versions"]] == [True]
    assert revised.ask("POST", "/api/earlier", {"uri": "nowhere.md"}).status == 404
    today = revised.ask("POST", "/api/earlier", {"uri": "sea/lamp.md", "when": "today"}).json
    assert "kerosene" in today["text"]
    old = revised.ask("POST", "/api/earlier", {"uri": "sea/lamp.md", "when": "last year"})
    assert old.status == 404
    assert "No text of 'sea/lamp.md' from before" in old.error["message"]
    wrong = revised.ask("POST", "/api/earlier", {"uri": "sea/lamp.md", "when": "blurgh"})
    assert wrong.error["message"] == "when is not a date: 'blurgh'."
    since = revised.ask("POST", "/api/search", {"query": "lamp", "after": "blurgh"})
    assert since.error["message"] == "after is not a date: 'blurgh'."
    missing = {"uri": "sea/boats.md", "generation": 3}
    assert revised.ask("POST", "/api/earlier", missing).status == 404


def test_changes_since_a_time_are_compared_with_the_state_then(revised: Served) -> None:
    kept = revised.ask("POST", "/api/generations", {}).json["snapshots"]
    later = revised.ask("POST", "/api/changes", {"since": kept[1]["created_at"]}).json
    # Generations of one second are all later than its beginning.
    assert later["generations"][-1] == 3
    everything = revised.ask("POST", "/api/changes", {"since": "2001-01-01"}).json
    assert (everything["base"], everything["complete"]) == (1, False)
    assert everything["diff"]["removed"] == ["sea/boats.md"]
    assert [each["uri"] for each in everything["diff"]["changed"]] == ["sea/lamp.md"]
    assert (everything["commits"], everything["commits_indexed"]) == ([], False)
    nothing = revised.ask("POST", "/api/changes", {"since": "2200-01-01"}).json
    assert (nothing["generations"], nothing["diff"], nothing["complete"]) == ([], None, True)
    refused = revised.ask("POST", "/api/changes", {"since": "when pigs fly"})
    assert (refused.status, refused.error["code"]) == (400, "INVALID_ARGUMENT")


def test_every_skipped_file_is_listed_with_its_reason(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    (root / "guide.md").write_text("# Guide\n")
    (root / ".gitignore").write_text("*.tmp\n")
    for at in range(7):
        (root / f"chart{at}.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
        (root / f"old{at}.tmp").write_text("x")
    with serving(tmp_path, "--log-level", "error") as served:
        served.ask("POST", "/api/search", {"query": "guide"})
        binary = {"reason": "binary", "offset": 2, "limit": 3}
        shape = served.ask("POST", "/api/skipped", binary).json
        assert (shape["total"], [each["uri"] for each in shape["files"]]) == (
            7,
            ["chart2.png", "chart3.png", "chart4.png"],
        )
        assert shape["files"][0]["why"] == "an image, not text"
        counts = {each["reason"]: each["count"] for each in shape["reasons"]}
        assert counts["binary"] == 7


def test_events_report_the_state_once_or_until_the_listener_leaves(revised: Served) -> None:
    [(name, state)] = events(revised.ask("GET", "/api/events").body)
    assert name == "state"
    documents = state["collections"][0]["documents"]
    assert documents == len(TEXTS) + 1
    with revised.connect() as listener:
        listener.sendall(b"GET /api/events?follow=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        heard = b""
        while b"event: state" not in heard:
            heard += listener.recv(4096)
        before = len(heard)
        path = Path(revised.root / "sea" / "late.md")
        path.write_text("# Late\n\nToo late.\n", encoding="utf-8")
        revised.ask("POST", "/api/search", {"query": "late"})
        while b'"documents":%d' % (documents + 1) not in heard[before:]:
            heard += listener.recv(4096)
        path.unlink()
        revised.ask("POST", "/api/search", {"query": "late"})
        while b'"documents":%d' % documents not in heard[before:]:
            heard += listener.recv(4096)


def test_an_index_that_cannot_be_read_is_a_state_too(tmp_path: Path) -> None:
    """The page says what is wrong; the stream of states does not break off."""
    write_corpus(tmp_path / "docs")
    assert command(tmp_path / "home", "index", tmp_path / "docs").returncode == 0
    [catalogue] = tmp_path.glob("home/**/catalogue.db")
    with closing(sqlite3.connect(catalogue)) as connection:
        connection.execute("PRAGMA user_version = 999")
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'format'")
        connection.commit()
    with serving(tmp_path, "--log-level", "error") as served:
        [(_, state)] = events(served.ask("GET", "/api/events").body)
        [told] = state["collections"]
        assert "newer Lookfar" in told["failure"]
        assert (told["indexed"], told["documents"]) == (False, 0)
        assert served.ask("POST", "/api/search", {"query": "lamp"}).error["code"] == "INDEX_TOO_NEW"
        assert not served.log
