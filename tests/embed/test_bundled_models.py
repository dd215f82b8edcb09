"""The second model: its bundled weights, its settings, and its errors."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import tiny_transformer
from lookfar.config import QualitySettings
from lookfar.embed import providers, quality
from lookfar.embed.providers import BUNDLED_QUALITY, find_quality_model
from lookfar.errors import ModelUnavailable

ROOT = Path(__file__).parents[2]
MOST_BYTES = 24_000_000


def load(path: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_weights_are_small_enough_and_have_the_recorded_fingerprint() -> None:
    assert (BUNDLED_QUALITY / providers.MODEL).stat().st_size <= MOST_BYTES
    about = json.loads((BUNDLED_QUALITY / quality.CARD).read_text("utf-8"))
    assert about["fingerprint"] == quality.hash_files(BUNDLED_QUALITY)


def test_vectors_of_the_package_that_the_model_once_was_keep_counting() -> None:
    """The fingerprint that ``lookfar-quality`` 1.0 had."""
    assert (
        quality.QualityModel(BUNDLED_QUALITY).fingerprint
        == "lookfar-quality-1:384:6c3a3f1d95e6f66a"
    )


ALONE = """
import sys
sys.modules["tokenizers"] = None
from lookfar.embed.quality import QualityModel
from lookfar.embed.providers import BUNDLED_QUALITY
model = QualityModel(BUNDLED_QUALITY)
question = model.embed_query("how do I stop a request that takes too long")
passages = model.embed(
    ["Pass a timeout to cancel a call that does not finish.", "The logo is blue and round."]
)
near, far = (passages @ question).tolist()
assert near > far, (near, far)
"""


def test_the_weights_put_an_answer_before_another_passage() -> None:
    """Without the library ``tokenizers``, which an installation does not have."""
    pytest.importorskip("onnxruntime")
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_bundled_model_is_found_unless_it_is_turned_off(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert find_quality_model(QualitySettings()) == BUNDLED_QUALITY
    assert find_quality_model(QualitySettings(model=str(tmp_path))) == tmp_path
    assert find_quality_model(QualitySettings(enabled="off")) is None


def test_without_onnxruntime_the_first_model_answers_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelUnavailable, match="answers alone: the second one needs onnxruntime"):
        find_quality_model(QualitySettings())
    assert find_quality_model(QualitySettings(enabled="off")) is None


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ("[]", "must contain an object"),
        ("{", "cannot be read"),
        ('{"dimensions": 0}', "dimensions"),
        ('{"dimensions": 8, "pooling": "sum"}', "pooling"),
        ('{"dimensions": 8, "max_tokens": 1}', "max_tokens"),
        ('{"dimensions": 8, "pad": -1}', "pad"),
    ],
)
def test_an_invalid_description_is_refused(tmp_path: Path, about: str, why: str) -> None:
    folder = tiny_transformer.write(tmp_path / "m", ["cat feline"])
    (folder / quality.CARD).write_text(about)
    with pytest.raises(ModelUnavailable, match=why):
        quality.QualityModel(folder)


@pytest.mark.parametrize("name", [providers.MODEL, quality.TOKENIZER, quality.CARD])
def test_a_folder_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    folder = tiny_transformer.write(tmp_path / "m", ["cat feline"])
    (folder / name).unlink()
    with pytest.raises(ModelUnavailable, match=f"has no {name}"):
        quality.QualityModel(folder)


def test_stamping_records_a_fingerprint_that_follows_the_weights(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    script = load(ROOT / "training" / "stamp.py", "stamp_weights")
    folder = tiny_transformer.write(tmp_path / "a", ["cat feline"])
    other = tiny_transformer.write(tmp_path / "b", ["cat feline"], seed=8)
    first = script.stamp(folder)
    assert first == script.stamp(folder) == quality.QualityModel(folder).fingerprint
    assert script.stamp(other) != first


def test_vectors_are_cut_to_the_dimensions_and_have_length_one(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = quality.QualityModel(tiny_transformer.write(tmp_path / "m", ["cat feline", "dog"]))
    vectors = model.embed(["cat", "feline", "dog"])
    assert vectors.shape == (3, tiny_transformer.DIMENSIONS)
    assert (vectors**2).sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert float(vectors[0] @ vectors[1]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("How do I cancel a request?", True),
        ("def main() -> None: ...", True),
        ("Überprüfung der Einstellungen für naïve Leser", True),
        ("設定を変更するにはどうすればよいですか", False),
        ("Как отменить запрос", False),
        ("Set 設定 in the file that the guide names", True),
        ("12345 67 %", False),
        ("values = [(1, 2), (3, 4), (5, 6)]  # →", True),
        ("", False),
    ],
)
def test_texts_in_other_scripts_are_not_read(tmp_path: Path, text: str, reads: bool) -> None:
    pytest.importorskip("tokenizers")
    model = quality.QualityModel(tiny_transformer.write(tmp_path / "m", ["cat feline"]))
    assert model.reads(text) is reads


def test_a_model_that_was_upgraded_is_not_loaded_as_the_old_one(tmp_path: Path) -> None:
    """Seen to fail: vectors of the new weights had the fingerprint of the old ones."""
    pytest.importorskip("onnxruntime")
    tiny_transformer.write(tmp_path / "m", ["cat feline"], name="old")
    old = quality.open_quality_model(tmp_path / "m")
    tiny_transformer.write(tmp_path / "m", ["cat feline"], seed=8, name="new")
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match="was replaced"):
            old.embed(["cat"])
    new = quality.open_quality_model(tmp_path / "m")
    assert new.name == "new"
    assert len(new.embed(["cat"])) == 1


def test_collections_share_a_model_until_the_last_one_releases_it(tmp_path: Path) -> None:
    """Seen to fail when the first that rested made the others keep a second copy."""
    folder = tiny_transformer.write(tmp_path / "m", ["cat"])
    first, second = quality.open_quality_model(folder), quality.open_quality_model(folder)
    assert first is second
    released = weakref.ref(first)
    del first
    assert quality.open_quality_model(folder) is second
    del second
    gc.collect()
    assert released() is None
