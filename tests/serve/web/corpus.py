"""The documents that the page is tested with.

Takes: a folder. Gives: files in it, the same in every run: two clusters of linked notes, code,
tags, and one document that tries everything to be more than text.
"""

from __future__ import annotations

from pathlib import Path

MANY = 10_000

HOSTILE = r"""---
title: "<img src=x onerror=window.__ran=1> & <script>window.__ran=2</script>"
tags: ["<b onmouseover=window.__ran=3>tag</b>"]
---

# Harbour <script>window.__ran = 4</script> <svg onload=window.__ran=5>

The harbour master says <img src=x onerror="window.__ran=6"> and <iframe srcdoc="<script>parent.__ran=7</script>"></iframe>.

<script>window.__ran = 8</script>
<style>body { display: none }</style>
<base href="https://evil.example/"><meta http-equiv="refresh" content="0; url=https://evil.example/">
<form action="https://evil.example/"><button autofocus onfocus="window.__ran=9">go</button></form>
<details open ontoggle=window.__ran=10><summary>x</summary></details>
<math><mtext></form><form><mglyph><style></math><img src onerror=window.__ran=11>

[a link](javascript:window.__ran=12) and [[javascript:window.__ran=13|another]]
[data](data:text/html,<script>window.__ran=14</script>) and <a href="javascript:window.__ran=15">one more</a>
![picture](https://evil.example/track.png "onload=window.__ran=16")
[![nested](x)](javascript:window.__ran=17) [ref][1]

[1]: javascript:window.__ran=18

{{constructor.constructor('window.__ran=19')()}} ${window.__ran=20} <%= window.__ran=21 %>

`<script>window.__ran=22</script>` **<img src=x onerror=window.__ran=23>**

| a | <svg/onload=window.__ran=24> |
|---|---|
| " onfocus="window.__ran=25" autofocus " | ' onclick='window.__ran=26' |

The harbour is safe\u202e!ton si tI\u202c and \u2066hidden\u2069 zero\u200bwidth \u0007 bell.
"""  # noqa: E501
HOSTILE_NAME = "notes/<img src=x onerror=window.__ran=30>&quot;.md"
HOSTILE_TITLE = "<img src=x onerror=window.__ran=1> & <script>window.__ran=2</script>"

TEXTS = {
    "index.md": "# Pilot book\n\nStart with [the harbour](sea/harbour.md), [the lamp](sea/lamp.md)"
    " or [the kitchen](land/kitchen.md).\n",
    "sea/harbour.md": "---\ntags: [sea, safe]\n---\n# Harbour\n\nThe harbour shelters forty boats."
    " See [the lamp](lamp.md) and [[tides]].\n\n## Entering the harbour\n\nKeep the lamp to"
    " starboard and enter the harbour slowly. The lead line says three fathoms 🚢 here.\n\n"
    "## Leaving\n\nLeave on the ebb.\n",
    "sea/lamp.md": "---\ntags: [sea]\n---\n# Lamp\n\nThe lamp of the harbour burns whale oil."
    " Its keeper reads [the tides](tides.md).\n\n## Trimming\n\nTrim the wick at noon.\n",
    "sea/tides.md": "# Tides\n\nThe tide turns twice a day; ask at the [harbour](harbour.md).\n",
    "sea/boats.md": "# Boats\n\nForty boats lie in the [harbour](harbour.md) below the"
    " [lamp](lamp.md).\n",
    "land/kitchen.md": "---\ntags: [land]\n---\n# Kitchen\n\nBread is baked before dawn. See"
    " [the oven](oven.md) and [the flour](flour.md).\n",
    "land/oven.md": "# Oven\n\nThe oven is fired with beech. It stands in [the kitchen](kitchen.md)"
    " beside [the flour](flour.md).\n",
    "land/flour.md": "# Flour\n\nFlour for the [oven](oven.md) and the [kitchen](kitchen.md).\n",
    "code/harbour.py": '"""The harbour as code."""\n\n\ndef enter_harbour(boat: str) -> str:\n'
    '    """Let a boat into the harbour."""\n    return f"{boat} is in the harbour"\n',
    "code/lamp.js": "// Lights the lamp of the harbour.\nexport function lightLamp(wick) {\n"
    "  return `${wick} burns in the harbour`;\n}\n",
}

FOG = "# Fog\n\nIn fog ring the bell of the [harbour](harbour.md).\n"


def write_corpus(root: Path) -> None:
    for name, text in TEXTS.items():
        _write(root / name, text)
    hostile = HOSTILE.replace(r"\u202e", "\u202e").replace(r"\u202c", "\u202c")
    for point in ("2066", "2069", "200b", "0007"):
        hostile = hostile.replace(rf"\u{point}", chr(int(point, 16)))
    _write(root / "notes/hostile.md", hostile)
    _write(
        root / HOSTILE_NAME, "# Harbour of names\n\nA harbour in a name: see [it](hostile.md).\n"
    )


def write_many(root: Path) -> None:
    for at in range(MANY):
        _write(root / f"part{at % 10}" / f"berth{at}.md", f"# Berth {at}\n\nHarbour boat {at}.\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
