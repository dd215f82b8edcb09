"""Which embedding model? Quality, speed and memory of several, side by side in one run.

    python bench/models.py DIR --models static,onnx:/path/of/a/model,onnx-int8:/path/of/a/model
    python bench/models.py DIR --models ... --sets squad,cosqa --most 200 --work FOLDER

DIR holds question sets as ``bench/quality.py`` wants them. A model is ``static``, ``none``, or
``onnx`` (fp32), ``onnx-int8`` and ``remote`` with a folder or a name behind a colon. Each runs in
a process of its own, so that the memory is its own. Speed is that of the chunks of the first set:
in batches by length, and one at a time, in wall seconds and in seconds of processor time; on a
busy machine only the latter can be compared.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from quality import Set

from lookfar import config
from lookfar.embed.providers import open_embedder
from lookfar.index.recipe import sizes_from
from lookfar.ports import Embedder
from lookfar.text.chunk import headings
from lookfar.text.chunk.identity import embedded_text
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import parser_for

CHUNKS = 100
MB = 1_000_000


def settings_of(model: str) -> dict[str, Any]:
    kind, _, name = model.partition(":")
    chosen: dict[str, Any] = {"sources.max_file_bytes": "16MB"}
    if kind == "onnx-int8":
        return {**chosen, "embed.provider": "onnx", "embed.model": name, "embed.precision": "int8"}
    if kind == "onnx":
        return {**chosen, "embed.provider": "onnx", "embed.model": name, "embed.precision": "fp32"}
    return {**chosen, "embed.provider": kind, "embed.model": name}


def chunks_of(folder: Path, settings: config.Settings, embedder: Embedder) -> list[str]:
    """Texts as they are embedded, from files in an order that is the same for every model."""
    paths = sorted(folder.rglob("*.md"))
    random.Random(1).shuffle(paths)
    texts: list[str] = []
    for path in paths:
        parse = parser_for(path.name)
        assert parse is not None
        document = parse(path.name, normalise(path.read_bytes())[0])
        cut = headings.chunk(document, sizes_from(settings), embedder.count_tokens)
        texts += (embedded_text(document, each) for each in cut)
        if len(texts) >= CHUNKS:
            break
    return texts[:CHUNKS]


def speed(embedder: Embedder, texts: list[str]) -> dict[str, float]:
    embedder.embed(texts[:64])  # Enough to load everything that bulk work needs.
    wall, processor = time.perf_counter(), time.process_time()
    embedder.embed(texts)
    batched = (
        len(texts) / (time.perf_counter() - wall),
        len(texts) / (time.process_time() - processor),
    )
    wall, processor = time.perf_counter(), time.process_time()
    for text in texts:
        embedder.embed([text])
    alone = (
        len(texts) / (time.perf_counter() - wall),
        len(texts) / (time.process_time() - processor),
    )
    return {"batched": batched[0], "batched_cpu": batched[1], "alone": alone[0],
            "alone_cpu": alone[1]}  # fmt: skip


def measure(model: str, directory: Path, names: list[str], work: Path, most: int) -> dict[str, Any]:
    """One model, in this process."""
    settings = config.load(None, settings_of(model))
    embedder = open_embedder(settings.embed)
    own = work / model.replace("/", "_").replace(":", "_")
    found: dict[str, Any] = {"model": embedder.name if embedder else "none", "sets": {}}
    for name in names:
        asked = Set(directory / name, own, settings, most)
        if embedder is not None and "batched" not in found:
            texts = chunks_of(own / "files" / name, settings, embedder)
            if texts:
                found |= speed(embedder, texts)
                found["tokens"] = sum(map(embedder.count_tokens, texts)) / len(texts)
        modes = ("vector", "hybrid") if embedder else ("keyword",)
        found["sets"][name] = {mode: asked.scored(settings.search, mode)[0] for mode in modes}
    found["dimensions"] = embedder.dimensions if embedder else 0
    found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", default="static")
    parser.add_argument("--sets", default="squad")
    parser.add_argument("--most", type=int, default=200, help="ask only so many questions")
    parser.add_argument("--work", type=Path, help="keep files and indexes here between runs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.sets.split(",")
    work = given.work or Path(mkdtemp(prefix="lookfar-models-"))
    if given.one:
        print(json.dumps(measure(given.one, given.directory, names, work, given.most)))
        return
    columns = ("model", "dims", "chunks/s", "one", "per CPU-s", "one", "RSS MB")
    print(_line(columns, [f"{name} vec/hyb" for name in names]))
    rows: list[dict[str, Any]] = []
    for model in given.models.split(","):
        how = ("--one", model, "--sets", given.sets, "--most", str(given.most), "--work", str(work))
        done = subprocess.run(
            [sys.executable, __file__, str(given.directory), *how],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        speeds = (row.get(key, 0.0) for key in ("batched", "alone", "batched_cpu", "alone_cpu"))
        cells = (row["model"], row["dimensions"], *(f"{value:.1f}" for value in speeds))
        sets = ["/".join(f"{each:.3f}" for each in row["sets"][name].values()) for name in names]
        print(_line((*cells, f"{row['rss_mb']:.0f}"), sets), flush=True)
    small = [row for row in rows if row["model"].endswith(" int8")]
    plain = [row for row in rows if row["model"].startswith("onnx/") and row not in small]
    if plain and small:
        ratio = small[0]["batched"] / plain[0]["alone"]
        cpu = small[0]["batched_cpu"] / plain[0]["alone_cpu"]
        print(
            f"\nint8 in batches against fp32 one at a time: {ratio:.1f}x ({cpu:.1f}x of CPU time)"
            f" at {small[0]['tokens']:.0f} tokens a chunk"
        )


def _line(cells: Sequence[object], sets: Sequence[str]) -> str:
    model, *others = map(str, cells)
    return (
        f"{model[:32]:32}"
        + "".join(f"{each:>10}" for each in others)
        + "".join(f"{each:>18}" for each in sets)
    )


if __name__ == "__main__":
    main()
