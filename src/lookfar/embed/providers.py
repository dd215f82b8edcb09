"""Which embedder the settings ask for.

Takes: the ``[embed]`` settings. Gives: an embedder, or ``None`` for keyword-only
work. Refuses: unknown providers (the configuration already has).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookfar.config import EmbedSettings
    from lookfar.ports import Embedder

WITHOUT_MODEL = "none"


def open_embedder(settings: EmbedSettings) -> Embedder | None:
    """Construct the provider; models load lazily, on their first use."""
    if settings.provider == WITHOUT_MODEL:
        return None
    if settings.provider == "hash":
        from lookfar.embed.hashed import HashedEmbedder

        return HashedEmbedder()
    from lookfar.embed.static import StaticEmbedder

    return StaticEmbedder(Path(settings.model) if settings.model else None)
