"""The answer as server-sent events, read by a real client, to the end and not to the end."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from serve.http.asking import Served, events, serving
from waiting import wait_for

QUERY = {"query": "harbour boats", "top_n": 8}
_POOL = 16
"""Threads that the server keeps for calls; they come as they are needed."""


def test_hits_come_as_they_are_found_and_then_the_final_order(open_server: Served) -> None:
    answer = open_server.ask("POST", "/query_documents_stream", QUERY)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = [each for each in events(answer.body) if each[0] != "progress"]
    *found, (last, result) = told
    assert last == "result"
    assert {name for name, _ in found} == {"hit"}
    hits = [hit["chunk_id"] for _, hit in found]
    assert len(hits) == len(set(hits))
    assert {each["chunk_id"] for each in result["results"]} <= set(hits)
    assert len(result["results"]) == QUERY["top_n"]
    assert result == open_server.ask("POST", "/query_documents", QUERY).json


def test_each_hit_says_what_a_result_says(open_server: Served) -> None:
    told = events(open_server.ask("POST", "/query_documents_stream", QUERY).body)
    hit = next(data for name, data in told if name == "hit")
    assert set(hit) == {"chunk_id", "doc_id", "score", "header_path", "file_path", "content"}
    assert "harbour" in hit["content"]


def open_stream(served: Served, query: str = "harbour") -> socket.socket:
    body = b'{"query": "%s", "top_n": 100}' % query.encode()
    connection = served.connect()
    connection.sendall(
        b"POST /query_documents_stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    return connection


def cut(connection: socket.socket) -> None:
    """Leave without a word: the server gets a reset, not an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def sockets(served: Served) -> int:
    found = 0
    for each in Path(f"/proc/{served.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(each.readlink()).startswith("socket:")
    return found


def threads(served: Served) -> int:
    return len(list(Path(f"/proc/{served.process.pid}/task").iterdir()))


@pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")
def test_streams_that_are_cut_leave_nothing_behind(open_server: Served) -> None:
    open_server.ask("POST", "/query_documents_stream", QUERY)
    idle = sockets(open_server) + 1
    most = 0
    for cuts in (40, 80):
        opened = []
        for number in range(cuts):
            opened.append(open_stream(open_server))
            if number % 2:
                opened[-1].recv(1 + 300 * (number % 3))
            if number % 4 == 3:
                for connection in opened:
                    cut(connection)
                opened.clear()
        wait_for(lambda: sockets(open_server) <= idle, "connections are closed")
        most = most or threads(open_server) + _POOL
    wait_for(lambda: threads(open_server) <= most, "no thread is left")
    answer = open_server.ask("POST", "/query_documents_stream", QUERY)
    assert events(answer.body)[-1][0] == "result"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A folder that is not indexed yet, and takes a while."""
    folder = tmp_path_factory.mktemp("large")
    pages = folder / "docs"
    pages.mkdir()
    for number in range(4000):
        text = f"# Page {number}\n\n" + f"Words about harbour {number}.\n\n" * 30
        (pages / f"page{number}.md").write_text(text, encoding="utf-8")
    with serving(folder, "--set", "watch.enabled=false") as served:
        yield served


def test_a_stream_stops_when_its_client_leaves(large: Served) -> None:
    """The pass that a first question starts ends at its next step."""
    connection = open_stream(large)
    received = b""
    while b"event: progress" not in received:
        part = connection.recv(4096)
        assert part, received
        received += part
    cut(connection)
    line = large.logged(tool="query_documents")
    assert line["code"] == "GIVEN_UP"
    assert large.ask("GET", "/status").json["document_count"] == 0
    assert large.ask("GET", "/health").status == 200


def test_a_plain_request_stops_when_its_client_leaves(large: Served) -> None:
    body = b'{"query": "harbour"}'
    with large.connect() as connection:
        connection.sendall(
            b"POST /tools/search HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: left\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        wait_for(lambda: list((large.home).rglob("catalogue.db")), "the pass has begun")
    line = large.logged(tool="search", request_id="left")
    assert line["code"] == "GIVEN_UP"
    assert large.logged(component="http", request_id="left")["status"] == 499


def test_the_next_request_is_answered(large: Served) -> None:
    answer = large.ask("POST", "/query_documents_stream", {"query": "harbour 77"})
    told = events(answer.body)
    assert told[-1][0] == "result"
    assert told[-1][1]["results"]
    assert large.ask("GET", "/status").json["document_count"] == 4000
