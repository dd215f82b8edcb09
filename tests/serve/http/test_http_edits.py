"""Edits over plain HTTP: a read-only token changes nothing."""

from __future__ import annotations

from pathlib import Path

from lookfar.serve.http.tokens import add
from serve.http.asking import serving


def test_a_read_only_token_cannot_edit(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    reader, writer = add(file, "reader", "read"), add(file, "writer", "write")
    edits = [{"op": "append", "target": "keys.md#Keys", "text": "Zebras hold one."}]
    with serving(
        tmp_path, "--write", "--toolset", "all", "--set", f"serve.tokens_file={file}"
    ) as served:
        keys = served.root / "keys.md"
        before = keys.read_bytes()
        for name, given in (
            ("edit", {"edits": edits}),
            ("edit", {"edits": edits, "dry_run": True}),
            ("msrl.doc.auto_fix", {"doc_uri": "keys.md"}),
        ):
            refused = served.tool(name, token=reader, **given)
            assert (refused.status, refused.error["code"]) == (403, "SCOPE_TOO_SMALL"), name
        checked = served.tool("msrl.doc.validate", token=reader, doc_uri="keys.md")
        assert (checked.status, checked.json["ok"]) == (200, True)
        assert keys.read_bytes() == before
        done = served.tool("edit", token=writer, edits=edits)
        assert done.status == 200
        assert "+Zebras hold one." in done.json["documents"][0]["diff"]
        assert keys.read_bytes() == before + b"\nZebras hold one.\n"
        stale = [{**edits[0], "expected": "0" * 64}]
        conflict = served.tool("edit", token=writer, edits=stale)
        assert conflict.error["code"] == "CONFLICT"
        assert conflict.status == 409


def test_embeds_and_aliases_work_over_http(tmp_path: Path) -> None:
    with serving(tmp_path, "--write") as served:
        (served.root / "outer.md").write_text("# Outer\n\n![[keys]]\n", encoding="utf-8")
        served.tool("search", query="signing")
        (embed,) = served.tool("read", target="outer.md", embeds=True).json["embeds"]
        assert "ninety days" in embed["reading"]["text"]
        rename = {"op": "rename", "target": "keys.md", "heading": "secrets", "keep_alias": True}
        assert served.tool("edit", edits=[rename]).status == 200
        assert "keys" in (served.root / "secrets.md").read_text().split("---")[1]
        assert "![[secrets]]" in (served.root / "outer.md").read_text()
