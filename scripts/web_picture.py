"""Make the picture of the web page for the documentation: docs/images/web.webp.

It serves a small folder with made-up notes, opens the page in the system's Chromium and saves what
it shows. Run it after a change of the page: ``.venv/bin/python scripts/web_picture.py``.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "serve" / "conformance")]

from serve.http.asking import Served, serving  # noqa: E402
from serve.web import chrome  # noqa: E402

TARGET: Final = ROOT / "docs" / "images" / "web.webp"
QUESTION: Final = "when does the dredger come to the channel"
SIZE: Final = (1360, 860)
QUALITY: Final = 80
LARGEST: Final = 120_000

NOTES: Final = {
    "harbour/channel.md": "---\nstatus: active\ndue: 2026-12-01\ntags: [harbour, survey]\n---\n"
    "# The channel\n\nThe survey of the channel is repeated every spring.\n\n## Depth\n\n"
    "At low tide the channel is nine metres deep, and four in the old arm. It silts up by forty"
    " centimetres a year, so [[dredging]] begins in March.\n\n## Buoys\n\nGreen to starboard.\n",
    "harbour/dredging.md": "---\nstatus: waiting\ntags: [harbour]\n---\n# Dredging\n\n"
    "The dredger comes when the channel is less than eight metres deep at low tide. Ask"
    " [[pilots]] for the depth that they measured.\n",
    "harbour/pilots.md": "---\ntags: [people]\n---\n# Pilots\n\nPilots sound the channel once a"
    " week and write the depth into the log. Their boat lies at the [[piers|north pier]].\n",
    "harbour/piers.md": "---\ntags: [harbour]\n---\n# Piers\n\nThe north pier dries out at low"
    " tide; the south pier has three metres of water.\n",
    "journal/2026-11-09.md": "# Monday\n\nThe ferry touched ground near the old arm of the channel."
    " Told the pilots.\n",
    "journal/2026-11-16.md": "# Monday\n\nThe council agreed to pay for the survey of the"
    " channel. See [[channel]].\n",
    "projects/tide-tables.md": "---\nstatus: active\ntags: [project/tides]\n---\n# Tide tables\n\n"
    "A page with the time of high and low tide for every day, printed for the [[pilots]].\n",
    "projects/lamp.md": "---\nstatus: done\ntags: [project/lamp]\n---\n# A new lamp\n\nThe lamp on"
    " the north pier is seen for nine miles.\n",
    "code/ferry.py": '"""When the ferry leaves the north pier."""\n\n\n'
    "def leaves_at(hour: int) -> str:\n"
    '    """Return the departure as it is printed."""\n    return f"{hour:02}:15"\n',
}


def main() -> None:
    program = chrome.find()
    if program is None:
        sys.exit("No Chromium was found. On Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, text in NOTES.items():
            path = folder / "docs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        with (
            serving(folder, "--log-level", "error") as served,
            chrome.running(program, folder / "chromium") as browser,
            browser.page(*SIZE) as page,
        ):
            take_picture(page, served)
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes")


def take_picture(page: chrome.Page, served: Served) -> None:
    page.prefer("light")
    for _ in range(3):  # The first questions load the model; the picture shows the usual time.
        page.open(f"{served.address}/#/search?q={QUESTION.replace(' ', '+')}")
        page.wait("document.querySelector('mark')")
        time.sleep(1)  # The preview beside the list follows a little later.
    picture = page.send("Page.captureScreenshot", format="webp", quality=QUALITY)
    data = base64.b64decode(picture["data"])
    if len(data) > LARGEST:
        sys.exit(f"The picture has {len(data):,} bytes; the limit is {LARGEST:,}.")
    TARGET.write_bytes(data)


if __name__ == "__main__":
    main()
