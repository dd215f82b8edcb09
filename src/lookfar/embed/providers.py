"""Open the embedder that the ``[embed]`` settings choose, and find the second model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.config import EmbedSettings
from lookfar.errors import ModelUnavailable
from lookfar.ports import Embedder

if TYPE_CHECKING:
    from lookfar.config import QualitySettings


WITHOUT_MODEL = "none"
BUNDLED = "static/lookfar-2"
"""Name of the bundled model."""
_LIGHT = ("", "static", "hash", WITHOUT_MODEL)
MODEL: Final = "model.onnx"
BUNDLED_QUALITY: Final = Path(__file__).parent / "bundled" / "quality"


def open_embedder(settings: EmbedSettings) -> Embedder | None:
    """Open the embedder, or return None for keyword search only. Models load on first use."""
    if settings.provider == WITHOUT_MODEL:
        return None
    docs = _open(settings, settings.provider, settings.model)
    if not settings.code_provider and not settings.code_model:
        return docs
    from lookfar.embed.pair import PairEmbedder

    kind = settings.code_provider or settings.provider
    return PairEmbedder(docs, _open(settings, kind, settings.code_model))


def in_workers(settings: EmbedSettings) -> bool:
    """Tell whether each worker process may load the model.

    A transformer is large and uses all cores by itself; a remote service limits requests.
    """
    return settings.provider in _LIGHT and settings.code_provider in _LIGHT


def _open(settings: EmbedSettings, provider: str, model: str) -> Embedder:
    if provider == "hash":
        from lookfar.embed.hashed import HashedEmbedder

        return HashedEmbedder()
    if provider == "onnx":
        from lookfar.embed.onnx import OnnxEmbedder

        return OnnxEmbedder(settings, model)
    if provider == "remote":
        from lookfar.embed.remote import RemoteEmbedder

        return RemoteEmbedder(settings, model)
    if not model:
        from lookfar.embed.bundled import BundledEmbedder

        return BundledEmbedder()
    from lookfar.embed.static import StaticEmbedder

    return StaticEmbedder(Path(model))


def find_quality_model(settings: QualitySettings) -> Path | None:
    """Return the folder of the second model, or None if it is turned off.

    Nothing of the model is loaded. Without the package that runs it, there is an error.
    """
    if settings.enabled == "off":
        return None
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        raise ModelUnavailable(
            "The first model answers alone: the second one needs onnxruntime, which is not"
            " installed.",
            hint="Run: pip install onnxruntime. For a system that it has no wheel for, set"
            " quality.enabled to off.",
        )
    return Path(settings.model) if settings.model else BUNDLED_QUALITY
