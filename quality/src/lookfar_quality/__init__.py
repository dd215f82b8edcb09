"""The weights of Lookfar's second model, as files of this package.

Lookfar finds the package by its name and reads the files itself; nothing here imports anything of
it. A checkout may lack the weights: then :func:`find_files` says so.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
"""Where the files are."""
FILES = ("model.onnx", "tokenizer.json", "model.json")


def find_files() -> dict[str, Path]:
    """Return the path of each file; raise ``FileNotFoundError`` if one is missing."""
    paths = {name: FOLDER / name for name in FILES}
    missing = [name for name, path in paths.items() if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"lookfar-quality is installed without its weights: {', '.join(missing)}."
            " Install it from a package index: pip install --force-reinstall lookfar-quality"
        )
    return paths
