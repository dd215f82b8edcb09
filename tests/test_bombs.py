"""Files made to cost more than they are worth: each is skipped or read in part, and soon.

YAML whose aliases would grow, nesting, front matter without end, patterns that match slowly, and a
file of a gibibyte, all in one folder. What lies beside them is found.

Seen to fail when anchors were read as values, and when the size of a file did not matter. How long
one block of front matter or one pattern may take is in `text/parse/test_frontmatter.py`,
`sources/test_globs.py` and `sources/test_ignore.py`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness import report
from lookfar.library import Library

HEAD = "---\n{}\n---\n\n# Page {}\n\nThe harbour keeps boats.\n"
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + at)}: &{chr(98 + at)} [*{chr(97 + at)}, *{chr(97 + at)}, *{chr(97 + at)}]\n"
    for at in range(20)
)
BOMBS = {
    "laughs.md": LAUGHS,
    "merge.md": "x: &x {y: 1}\nz:\n  <<: *x\n",
    "deep.md": "a: " + "[" * 15_000,
    "deep-mapping.md": "a: " + "{a: " * 4_000,
    "long.md": "a: " + "x" * 900_000,
    "object.md": "a: !!python/object/apply:os.system ['touch pwned']\n",
    "keys.md": "\n".join(f"{'k' * 50}{at}: 1" for at in range(12_000)),
}
LINES = ("*a" * 400, "**/*a*/" * 100 + "b", "*a*a*a*a*a*a*a*b", "{" * 900, "[" * 900)
SECONDS = 20.0
"""For all of them together, on a machine that is busy; each of them alone would take minutes."""


@pytest.mark.usefixtures("own_home")
def test_bombs_cost_little_and_hide_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / ("a" * 60)).mkdir(parents=True)
    for name, text in BOMBS.items():
        (root / name).write_text(HEAD.format(text.rstrip("\n"), name), encoding="utf-8")
    (root / ".gitignore").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (root / ("a" * 60) / ("a" * 200 + ".md")).write_text("# Long name\n\nA harbour.\n")
    (root / "plain.md").write_text("# Plain\n\nA lantern hangs in the harbour.\n")
    with (root / "huge.md").open("wb") as file:
        file.write(b"# Huge\n\nlantern\n")
        file.truncate(1 << 30)
    settings = {"embed.provider": "hash", "index.workers": 1}
    begun = time.process_time()
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        done = library.index()
        assert done.skipped_examples["too_large"] == ("huge.md",)
        with library.folder().store.snapshot() as snapshot:
            kept = {uri: snapshot.document(uri) for uri in snapshot.uris()}
        found = {hit.uri for hit in library.search("lantern", mode="keyword").hits}
    assert time.process_time() - begun < SECONDS
    assert found == {"plain.md"}
    assert set(BOMBS) < set(kept)
    assert not list(tmp_path.rglob("pwned"))
    report("bombs", trials=len(BOMBS) + len(LINES) + 1, faults=len(BOMBS) + len(LINES) + 1)
