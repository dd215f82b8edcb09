"""Show embedded notes to agents, each as a passage with its own place and hash."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.retrieve.answer.pack import cut, tokens
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.tool import Json, Passage


def show_embeds(embeds: Sequence[Json], budget: int) -> list[Passage]:
    """Cut the texts of embeds to a budget of tokens, and return a passage for each.

    Each passage names its embed. An embed that cannot be shown has no passage; its ``problem`` says
    why.
    """
    return _show(embeds, ("embeds",), [budget])


def _show(embeds: Sequence[Json], path: tuple[str | int, ...], left: list[int]) -> list[Passage]:
    passages: list[Passage] = []
    for at, embed in enumerate(embeds):
        part = embed["reading"]
        if part is None:
            continue
        whole = part["text"]
        part["text"] = cut(whole, max(left[0], 1))
        left[0] -= tokens(part["text"])
        lines = f"{part['uri']}:{part['start_line']}-{part['end_line']}"
        state = " | cut" if len(part["text"]) < len(whole) else ""
        place = (*path, at, "reading", "text")
        line = safe_name(f"{lines} | embedded as {embed['written']}{state}")
        passages.append(Passage(place, line, embed["cite"], part["uri"]))
        passages += _show(embed["embeds"], (*path, at, "embeds"), left)
    return passages
