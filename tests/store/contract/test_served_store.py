"""``lookfar serve`` over a store on a server that goes away and comes back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg

from serve.http.asking import serving
from store.contract.pgserver import PgServer, ready, short_folder
from waiting import wait_for


def test_a_server_answers_from_its_copy_while_its_store_is_gone(tmp_path: Path) -> None:
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
                answer = served.tool("search", query="harbour")
                assert answer.status == 200
                assert b"is from the copy of 20" in answer.body
                assert served.ask("GET", "/readyz").status == 200
                metrics = served.ask("GET", "/metrics").body
                assert b'lookfar_index_readable{collection="docs"} 1' in metrics
                store.start()
                wait_for(
                    lambda: b"is from the copy" not in served.tool("search", query="harbour").body,
                    "it is back",
                )
        finally:
            store.stop()


def test_a_new_front_end_is_not_ready_until_its_copy_is_there(tmp_path: Path) -> None:
    with short_folder() as folder:
        store = PgServer(folder / "primary")
        store.create()
        ready(store)
        url = {"LOOKFAR_STORE_URL": store.url(), "LOOKFAR_WATCH_ENABLED": "false"}
        try:
            with serving(tmp_path, env=url) as served:
                assert served.tool("search", query="harbour").status == 200
            url |= {"LOOKFAR_STORE_READ_ONLY": "true", "LOOKFAR_INDEX_DIR": str(tmp_path / "front")}
            with (
                closing(psycopg.connect(store.url("postgres"))) as superuser,
                serving(tmp_path, env=url) as served,
            ):
                superuser.execute("LOCK TABLE lookfar.documents")
                refused = served.ask("GET", "/readyz")
                assert (refused.status, refused.error["code"]) == (503, "NOT_READY")
                assert refused.error["message"] == "The index is being opened."
                assert served.ask("GET", "/livez").status == 200
                superuser.rollback()
                wait_for(lambda: served.ask("GET", "/readyz").status == 200, "the copy is there")
                assert served.tool("search", query="harbour").status == 200
        finally:
            store.stop()
