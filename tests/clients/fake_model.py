"""A model on loopback that calls the tools it was given, one by one, and keeps what it was sent.

Takes: calls of tools. Gives: the address for ``ANTHROPIC_BASE_URL``, and the last request that had
tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class FakeModel:
    calls: Sequence[tuple[str, dict[str, Any]]]
    address: str = ""
    last: dict[str, Any] = field(default_factory=dict)
    """The last request of the main conversation."""

    def answer(self, request: dict[str, Any]) -> bytes:
        """Return the events of a message: the next call, or that it is done."""
        sent = [message["content"] for message in request["messages"]]
        blocks = [block for content in sent if isinstance(content, list) for block in content]
        done = sum(block["type"] == "tool_result" for block in blocks)
        if request.get("tools"):
            self.last = request
        if request.get("tools") and done < len(self.calls):
            name, arguments = self.calls[done]
            block = {"type": "tool_use", "id": f"toolu_{done}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            reason = "tool_use"
        else:
            block = {"type": "text", "text": ""}
            delta, reason = {"type": "text_delta", "text": "done"}, "end_turn"
        message = {
            "id": "m", "type": "message", "role": "assistant", "model": request["model"],
            "content": [], "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ]
        return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


@contextmanager
def fake_model(*calls: tuple[str, dict[str, Any]]) -> Iterator[FakeModel]:
    model = FakeModel(calls)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = model.answer(request)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
