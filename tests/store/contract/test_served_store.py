"""``lookfar serve`` over a store on a server that goes away and comes back."""

from __future__ import annotations

from pathlib import Path

from serve.http.asking import serving
from store.contract.pgserver import PgServer, ready, short_folder
from waiting import wait_for


def test_a_server_is_not_ready_while_its_store_is_gone(tmp_path: Path) -> None:
    """Seen to fail when the store was asked only while a pass was running."""
    with short_folder() as folder:
        store = PgServer(folder / "primary")
        store.create()
        ready(store)
        env = {"LOOKFAR_STORE_URL": store.url(), "LOOKFAR_WATCH_ENABLED": "false"}
        try:
            with serving(tmp_path, "--metrics", env=env) as served:
                assert served.tool("search", query="harbour").status == 200
                wait_for(lambda: served.ask("GET", "/readyz").status == 200, "the first index")
                store.kill()
                wait_for(lambda: served.ask("GET", "/readyz").status == 503, "the loss is seen")
                refused = served.ask("GET", "/readyz")
                assert refused.error["code"] == "NOT_READY"
                assert refused.error["message"] == "The index cannot be read."
                assert served.ask("GET", "/livez").status == 200
                metrics = served.ask("GET", "/metrics").body
                assert b'lookfar_index_readable{collection="docs"} 0' in metrics
                store.start()
                wait_for(lambda: served.ask("GET", "/readyz").status == 200, "it is back")
        finally:
            store.stop()
