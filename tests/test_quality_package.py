"""The distribution lookfar-quality: its wheel, its weights if they are here, and its errors."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import tiny_transformer
from lookfar.config import QualitySettings
from lookfar.embed import quality, quality_package
from lookfar.errors import ModelUnavailable

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "quality" / "src" / "lookfar_quality"
MOST_BYTES = 24_000_000
has_weights = pytest.mark.skipif(
    not (PACKAGE / "model.onnx").is_file(), reason="the weights are not in this checkout"
)


def load(path: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT / "quality",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("lookfar_quality-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (path for path in PACKAGE.rglob("*") if path.is_file())
    ours = {path.relative_to(PACKAGE.parent).as_posix() for path in files if "__pycache__" not in
            path.parts}  # fmt: skip
    assert held == ours
    assert {"lookfar_quality/MODEL_CARD.md", "lookfar_quality/__init__.py"} <= held


@has_weights
def test_the_weights_are_small_enough_and_have_the_recorded_fingerprint() -> None:
    assert (PACKAGE / quality_package.MODEL).stat().st_size <= MOST_BYTES
    about = json.loads((PACKAGE / quality.CARD).read_text("utf-8"))
    assert about["fingerprint"] == quality.hash_files(PACKAGE)


@has_weights
def test_the_weights_put_an_answer_before_another_passage() -> None:
    pytest.importorskip("onnxruntime")
    model = quality.QualityModel(PACKAGE)
    question = model.embed_query("how do I stop a request that takes too long")
    passages = model.embed(
        ["Pass a timeout to cancel a call that does not finish.", "The logo is blue and round."]
    )
    near, far = (passages @ question).tolist()
    assert near > far


def test_the_package_says_which_weights_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(PACKAGE / "__init__.py", "lookfar_quality_alone")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"model\.onnx, tokenizer\.json, model\.json"):
        module.find_files()
    for name in module.FILES:
        (tmp_path / name).write_bytes(b"")
    assert set(module.find_files()) == set(module.FILES)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, weights: bool) -> Path:
    """Make a package of the name importable, as an installation would."""
    package = folder / quality_package.PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    if weights:
        tiny_transformer.write(package, ["cat feline"])
    monkeypatch.syspath_prepend(str(folder))
    return package


def test_auto_uses_the_package_if_it_is_there_with_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    package = install(tmp_path / "site", monkeypatch, weights=True)
    assert quality_package.find_quality_model(QualitySettings()) == package
    assert quality_package.find_quality_model(QualitySettings(enabled="off")) is None


def test_without_weights_auto_does_without_and_on_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, weights=False)
    assert quality_package.find_quality_model(QualitySettings()) is None
    with pytest.raises(ModelUnavailable, match="without its weights"):
        quality_package.find_quality_model(QualitySettings(enabled="on"))


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


@pytest.mark.parametrize("name", [quality_package.MODEL, quality.TOKENIZER, quality.CARD])
def test_a_folder_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    folder = tiny_transformer.write(tmp_path / "m", ["cat feline"])
    (folder / name).unlink()
    with pytest.raises(ModelUnavailable, match=f"has no {name}"):
        quality.QualityModel(folder)


def test_stamping_records_a_fingerprint_that_follows_the_weights(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    script = load(ROOT / "quality" / "stamp.py", "stamp_weights")
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
    settings = QualitySettings(model=str(tmp_path / "m"))
    tiny_transformer.write(tmp_path / "m", ["cat feline"], name="old")
    old = quality.open_quality_model(settings)
    assert old is not None
    tiny_transformer.write(tmp_path / "m", ["cat feline"], seed=8, name="new")
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match="was replaced"):
            old.embed(["cat"])
    new = quality.open_quality_model(settings)
    assert new is not None
    assert new.name == "new"
    assert len(new.embed(["cat"])) == 1


def test_collections_share_a_model_until_the_last_one_releases_it(tmp_path: Path) -> None:
    """Seen to fail when the first that rested made the others keep a second copy."""
    settings = QualitySettings(model=str(tiny_transformer.write(tmp_path / "m", ["cat"])))
    first, second = quality.open_quality_model(settings), quality.open_quality_model(settings)
    assert first is second
    released = weakref.ref(first)
    del first
    assert quality.open_quality_model(settings) is second
    del second
    gc.collect()
    assert released() is None
