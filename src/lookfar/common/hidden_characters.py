"""Characters that a reader does not see, or that change what a reader sees.

One table for all uses: flags of passages (``serve``), escapes on a terminal
(``serve/show/printable.py``), and names that the deny list compares
(``sources/folder/policy.py``). It has the default-ignorable characters of Unicode, controls, and
annotation marks. Emoji use variation selectors and joiners, and so do Persian and the scripts of
India: these uses are not flagged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["bidi", "control", "invisible"]


@dataclass(frozen=True, slots=True)
class Block:
    """Ranges of characters with the same effect."""

    name: str
    kind: Kind
    ranges: tuple[tuple[int, int], ...]
    reorders: bool = False
    """Whether it changes the order of the following text, or overlays it."""


BLOCKS: Final = (
    Block("controls", "control", ((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F)), reorders=True),
    Block("annotations", "control", ((0xFFF9, 0xFFFB),), reorders=True),
    Block("tags", "control", ((0xE0000, 0xE007F),)),
    Block("embeddings and overrides", "bidi", ((0x202A, 0x202E),), reorders=True),
    Block("isolates", "bidi", ((0x2066, 0x2069),), reorders=True),
    Block("direction marks", "bidi", ((0x061C, 0x061C), (0x200E, 0x200F))),
    Block("soft hyphen", "invisible", ((0x00AD, 0x00AD),)),
    Block("grapheme joiner", "invisible", ((0x034F, 0x034F),)),
    Block("Hangul fillers", "invisible", ((0x115F, 0x1160), (0x3164, 0x3164), (0xFFA0, 0xFFA0))),
    Block("Khmer inherent vowels", "invisible", ((0x17B4, 0x17B5),)),
    Block("Mongolian selectors", "invisible", ((0x180B, 0x180F),)),
    Block("zero-width space and joiners", "invisible", ((0x200B, 0x200D),)),
    Block("word joiner and invisible operators", "invisible", ((0x2060, 0x2065),)),
    Block("deprecated format characters", "invisible", ((0x206A, 0x206F),)),
    Block("variation selectors", "invisible", ((0xFE00, 0xFE0F),)),
    Block("byte-order mark", "invisible", ((0xFEFF, 0xFEFF),)),
    Block("unassigned specials", "invisible", ((0xFFF0, 0xFFF8),)),
    Block("shorthand format controls", "invisible", ((0x1BCA0, 0x1BCA3),)),
    Block("musical format controls", "invisible", ((0x1D173, 0x1D17A),)),
    Block("variation selectors supplement", "invisible", ((0xE0100, 0xE01EF),)),
    Block("unassigned ignorables", "invisible", ((0xE0080, 0xE00FF), (0xE01F0, 0xE0FFF))),
)


def character_class(*kinds: Kind, reordering: bool = False) -> str:
    """Return the inside of a regex character class for these kinds."""
    return "".join(
        f"\\U{first:08x}-\\U{last:08x}"
        for block in BLOCKS
        if block.kind in kinds and (block.reorders or not reordering)
        for first, last in block.ranges
    )


_OF_KIND: Final = {
    kind: re.compile(f"[{character_class(kind)}]") for kind in ("bidi", "control", "invisible")
}
_HIDDEN: Final = character_class("bidi", "control", "invisible")
_ANY: Final = re.compile(f"[{_HIDDEN}]")

_EMOJI: Final = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe"
    "\u2600-\u27bf\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_SHOWN: Final = f"{_EMOJI}[\U0001f3fb-\U0001f3ff]?[\ufe0e\ufe0f]?\u20e3?"
_NATIONS: Final = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in nation)
    for nation in ("gbeng", "gbsct", "gbwls")
)
_JOINING: Final = (
    "\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u17ff\u1800-\u180a"
    "\u1810-\u18af\u1a20-\u1b7f\ua840-\ua87f\ua8e0-\ua9df\uaa60-\uaa7f\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00010aff\U00011000-\U00011aff"
)
"""Arabic and related scripts, and the scripts of South and Southeast Asia."""
_ORDINARY: Final = re.compile(
    f"\U0001f3f4(?:{_NATIONS})\U000e007f"
    f"|{_SHOWN}(?:\u200d{_SHOWN})*"
    "|[0-9#*]\ufe0f\u20e3"
    f"|(?<=[{_JOINING}])[\u200c\u200d](?![{_HIDDEN}])"
    f"|(?<=[\u1800-\u180a\u1810-\u18af])[\u180b-\u180f](?![{_HIDDEN}])"
)
"""Legitimate uses: flags, emoji, keycaps, joiners between letters that join, and selectors of
Mongolian letters. Each matches one character, so that a run of them is still flagged."""


def is_hidden(character: str) -> bool:
    return _ANY.match(character) is not None


def flags(text: str) -> list[str]:
    """Return the kinds of characters in a text that could mislead its reader."""
    if text.isascii():
        return ["control"] if _OF_KIND["control"].search(text) else []
    if _ANY.search(text) is None:
        return []
    remaining = _ORDINARY.sub(" ", text)
    return [kind for kind, pattern in _OF_KIND.items() if pattern.search(remaining)]
