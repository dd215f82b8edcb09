"""Fetching models from a real HTTP server that is cut off, lies, and asks to wait."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lookfar.embed import hub
from lookfar.embed.card import choose_file
from lookfar.embed.hub import Fetching
from lookfar.errors import ModelUnavailable
from waiting import DEADLINE

NAME = "acme/tiny-model"
COMMIT = "c0ffee" + "0" * 34
WEIGHTS = bytes(range(256)) * 16_000
FILES = {
    "config.json": b'{"hidden_size": 4}',
    "tokenizer.json": b"{}",
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "README.md": b"not wanted",
    "pytorch_model.bin": b"not wanted either",
    "onnx/model.onnx": WEIGHTS,
    "onnx/model.onnx_data": WEIGHTS[:5000],
}


class Hub:
    """A hub. ``cut_after`` bytes the connection ends, once for each entry."""

    def __init__(self) -> None:
        self.files = dict(FILES)
        self.served = dict(FILES)
        """What is sent; different from ``files`` where the hub lies."""
        self.cut_after: list[int] = []
        self.statuses: list[tuple[int, str]] = []
        self.ranges = True
        self.asked: list[tuple[str, str]] = []
        self.sent: Counter[str] = Counter()
        hub_ = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub_.asked.append((self.path, self.headers.get("Range", "")))
                if hub_.statuses:
                    status, after = hub_.statuses.pop(0)
                    self.answer(status, b"", {"Retry-After": after} if after else {})
                elif self.path.startswith(f"/api/models/{NAME}/revision/"):
                    self.answer(200, json.dumps(hub_.listing()).encode())
                elif self.path.startswith(f"/{NAME}/resolve/{COMMIT}/"):
                    self.redirect(self.path.partition(f"{COMMIT}/")[2])
                elif self.path.startswith("/cdn/"):
                    self.send_file(self.path.removeprefix("/cdn/"))
                else:
                    self.answer(404, b"{}")

            def redirect(self, path: str) -> None:
                self.answer(302, b"", {"Location": f"/cdn/{path}"})

            def send_file(self, path: str) -> None:
                data, asked = hub_.served[path], self.headers.get("Range", "")
                start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
                ranged = bool(asked) and hub_.ranges
                data = data[start:] if ranged else data
                self.send_response(206 if ranged else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if hub_.cut_after and path.endswith(".onnx"):
                    data = data[: hub_.cut_after.pop(0)]
                    self.close_connection = True
                hub_.sent[path] += len(data)
                self.wfile.write(data)

            def answer(
                self, status: int, data: bytes, headers: dict[str, str] | None = None
            ) -> None:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def listing(self) -> dict[str, Any]:
        content = []
        for path, data in self.files.items():
            git = sha1(b"blob %d\0" % len(data) + data).hexdigest()
            entry: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": git}
            if path.endswith((".onnx", "_data", ".bin")):
                entry["lfs"] = {"sha256": sha256(data).hexdigest(), "size": len(data)}
            content.append(entry)
        return {"sha": COMMIT, "siblings": content}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("lookfar.embed.hub.pause", lambda attempt, asked: asked / 1000)
    running = Hub()
    yield running
    running.close()


def fetch(server: Hub, models: Path, name: str = NAME, **more: Any) -> Path:
    how = {"kind": "any", "offline": False, "retries": 3, "timeout": 10.0, **more}
    choose = partial(choose_file, precision="auto")
    return hub.fetch(name, models, choose, hub=server.url, **how)


def test_a_model_is_downloaded_once_with_progress(
    server: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Fetching] = []
    folder = fetch(server, tmp_path / "models", on_fetch=seen.append)
    wanted = [path for path in FILES if path not in ("README.md", "pytorch_model.bin")]
    here = [path for path in folder.rglob("*") if path.is_file() and path.name != hub.RECEIPT]
    assert {path.relative_to(folder).as_posix() for path in here} == set(wanted)
    assert all((folder / path).read_bytes() == FILES[path] for path in wanted)
    total = sum(len(FILES[path]) for path in wanted)
    assert seen[0] == Fetching(NAME, 0, total)
    assert seen[-1] == Fetching(NAME, total, total)
    assert [item.bytes for item in seen] == sorted(item.bytes for item in seen)
    assert len(seen) > len(wanted)
    asked = len(server.asked)
    server.close()
    assert fetch(server, tmp_path / "models", offline=True) == folder
    assert len(server.asked) == asked
    assert hub.read_receipt(folder)["onnx/model.onnx"] == sha256(WEIGHTS).hexdigest()
    assert not list((tmp_path / "models").glob(".*.part"))
    assert capsys.readouterr().err == ""


def test_progress_goes_to_stderr_by_default(
    server: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(server, tmp_path / "models")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == f"Downloading the model {NAME}: 0 of 4 MB"
    assert err.splitlines()[-1] == f"Downloading the model {NAME}: 4 of 4 MB"


def test_an_interrupted_download_continues(server: Hub, tmp_path: Path) -> None:
    """Seen to fail when ``_get`` began at 0 each time."""
    server.cut_after = [1_000_000, 1_500_000]
    folder = fetch(server, tmp_path / "models")
    assert (folder / "onnx" / "model.onnx").read_bytes() == WEIGHTS
    ranges = [asked for path, asked in server.asked if path == "/cdn/onnx/model.onnx"]
    assert ranges == ["", "bytes=1000000-", "bytes=2500000-"]
    assert server.sent["onnx/model.onnx"] == len(WEIGHTS)


def test_a_failed_download_continues_in_the_next_call(server: Hub, tmp_path: Path) -> None:
    server.cut_after = [1_000_000]
    with pytest.raises(ModelUnavailable, match="1000000 bytes, expected 4096000") as raised:
        fetch(server, tmp_path / "models", retries=0)
    assert "continues where it stopped" in raised.value.hint
    assert not (tmp_path / "models" / "acme--tiny-model@main-any").exists()
    fetch(server, tmp_path / "models")
    assert server.sent["onnx/model.onnx"] == len(WEIGHTS)


def test_a_server_without_ranges_sends_all_of_it(server: Hub, tmp_path: Path) -> None:
    server.ranges = False
    server.cut_after = [1_000_000]
    folder = fetch(server, tmp_path / "models")
    assert (folder / "onnx" / "model.onnx").read_bytes() == WEIGHTS


def test_a_wrong_hash_is_fetched_again_and_then_rejected(server: Hub, tmp_path: Path) -> None:
    """Seen to fail when ``_is`` compared sizes alone."""
    wrong = b"\x01" + WEIGHTS[1:]
    server.served["onnx/model.onnx"] = wrong
    with pytest.raises(ModelUnavailable, match="damaged in transfer twice") as raised:
        fetch(server, tmp_path / "models")
    assert sha256(WEIGHTS).hexdigest() in raised.value.developer
    assert server.sent["onnx/model.onnx"] == 2 * len(WEIGHTS)
    assert not list((tmp_path / "models").glob("acme*"))
    server.served["onnx/model.onnx"] = WEIGHTS
    assert fetch(server, tmp_path / "models").is_dir()
    server.served["config.json"] = b'{"hidden_size": 5}'
    with pytest.raises(ModelUnavailable, match=r"config.json .* damaged in transfer twice"):
        fetch(server, tmp_path / "others")


def test_a_damaged_partial_download_is_noticed(server: Hub, tmp_path: Path) -> None:
    server.cut_after = [1_000_000]
    with pytest.raises(ModelUnavailable):
        fetch(server, tmp_path / "models", retries=0)
    (part,) = (tmp_path / "models").glob(".*/onnx/model.onnx")
    part.write_bytes(b"\xff" * 1_000_000)
    folder = fetch(server, tmp_path / "models")
    assert (folder / "onnx" / "model.onnx").read_bytes() == WEIGHTS


@pytest.mark.parametrize("status", [429, 500, 503])
def test_transient_hub_errors_are_retried(server: Hub, tmp_path: Path, status: int) -> None:
    server.statuses = [(status, "3"), (status, "")]
    assert fetch(server, tmp_path / "models").is_dir()
    server.statuses = [(status, "")] * 9
    with pytest.raises(ModelUnavailable, match=str(status)):
        fetch(server, tmp_path / "others")


def test_an_unknown_model_says_so_at_once(server: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no public model acme/other") as raised:
        fetch(server, tmp_path / "models", "acme/other")
    assert len(server.asked) == 1
    assert "OWNER/NAME" in raised.value.hint


def test_offline_nothing_is_fetched(server: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"embed\.offline forbids"):
        fetch(server, tmp_path / "models", offline=True)
    assert not server.asked


def test_without_a_network_the_error_says_what_to_do(server: Hub, tmp_path: Path) -> None:
    server.close()
    with pytest.raises(ModelUnavailable, match="could not be downloaded") as raised:
        fetch(server, tmp_path / "models", retries=1)
    assert "Check the network" in raised.value.hint


def test_a_model_without_onnx_and_names_that_leave_the_folder(server: Hub, tmp_path: Path) -> None:
    server.files = {"config.json": b"{}", "../../escaped/model.onnx": b"x", "model.bin": b"x"}
    with pytest.raises(ModelUnavailable, match="has no ONNX file"):
        fetch(server, tmp_path / "models")
    server.files = server.served = {
        **{path: FILES[path] for path in ("tokenizer.json", "onnx/model.onnx")},
        "../1_Pooling/config.json": b"{}",
        "/1_Pooling/config.json": b"{}",
    }
    folder = fetch(server, tmp_path / "models")
    assert not (tmp_path / "models" / "1_Pooling").exists()
    assert {path.name for path in folder.rglob("*.json")} == {"tokenizer.json", hub.RECEIPT}


def test_a_revision_is_a_model_of_its_own(server: Hub, tmp_path: Path) -> None:
    one = fetch(server, tmp_path / "models")
    two = fetch(server, tmp_path / "models", f"{NAME}@v2")
    assert one != two
    assert any(path.endswith("/revision/v2?blobs=true") for path, _ in server.asked)


def test_concurrent_downloads_get_the_same_model(server: Hub, tmp_path: Path) -> None:
    folders: list[Path | Exception] = []

    def run() -> None:
        try:
            folders.append(fetch(server, tmp_path / "models", on_fetch=lambda _: None))
        except Exception as error:
            folders.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for item in threads:
        item.start()
    for item in threads:
        item.join(DEADLINE)
    assert [item for item in folders if isinstance(item, Exception)] == []
    assert len(set(map(str, folders))) == 1
    assert (Path(str(folders[0])) / "onnx" / "model.onnx").read_bytes() == WEIGHTS
