"""Write the fingerprint of the weights into ``model.json``: ``python training/stamp.py``.

Takes: ``model.onnx``, ``tokenizer.json`` and ``model.json`` of the bundled model. Gives: the same
``model.json`` with the key ``fingerprint``. Vectors are bound to it, so it must change whenever the
weights do; ``tests/embed/test_bundled_models.py`` compares it with the files.
"""

from __future__ import annotations

import json
from pathlib import Path

from lookfar.embed.providers import BUNDLED_QUALITY
from lookfar.embed.quality import CARD, QualityModel, hash_files


def stamp(folder: Path) -> str:
    """Write the fingerprint, load the model once, and return how it is identified."""
    path = folder / CARD
    about = json.loads(path.read_text("utf-8"))
    about["fingerprint"] = hash_files(folder)
    path.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    model = QualityModel(folder)
    model.load()
    return model.fingerprint


if __name__ == "__main__":
    print(stamp(BUNDLED_QUALITY))
