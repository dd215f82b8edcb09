"""Find the folder of the second model; nothing of it is loaded, so that every search may ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from lookfar.config import QualitySettings

MODEL: Final = "model.onnx"
BUNDLED: Final = Path(__file__).parent / "bundled" / "quality"


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
    return Path(settings.model) if settings.model else BUNDLED
