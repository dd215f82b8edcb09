"""Find the folder of the second model; nothing of it is loaded, so that every search may ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    from lookfar.config import QualitySettings

PACKAGE: Final = "lookfar_quality"
MODEL: Final = "model.onnx"


def find_quality_model(settings: QualitySettings) -> Path | None:
    """Return the folder of the second model, or None if it is turned off or not installed.

    Nothing of the model is loaded. ``quality.enabled = on`` without a model is an error.
    """
    if settings.enabled == "off":
        return None
    if settings.model:
        return Path(settings.model)
    from importlib.util import find_spec

    spec = find_spec(PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations)))
        has_weights = (folder / MODEL).is_file()
        if has_weights and find_spec("onnxruntime") and find_spec("tokenizers"):
            return folder
    if settings.enabled == "on":
        why = "is not installed" if spec is None else "is installed without its weights or packages"
        raise ModelUnavailable(
            f"quality.enabled is on, but the second model {why}.",
            hint='Run: pip install "lookfar[quality]", or set quality.enabled to auto.',
        )
    return None
