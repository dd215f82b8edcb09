"""The trained table as package data.

    python training/export.py TABLE.npy PIECES.tsv FOLDER

Takes: the table (float, one row for each piece behind the shared rows) and the vocabulary. Gives:
``table.safetensors`` (``table``: int8; ``steps``: what one unit of each row is worth, and
``costs``: what each piece costs, float16) and ``pieces.txt``, one piece a line. Refuses: a table
and a vocabulary of different lengths.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from lookfar.embed.pieces import SHARED_ROWS

LARGEST = 127


def quantise(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    steps = (np.abs(table).max(axis=1) / LARGEST).astype(np.float16)
    steps[steps == 0] = 1
    rows = np.round(table / steps.astype(np.float32)[:, None])
    return np.clip(rows, -LARGEST, LARGEST).astype(np.int8), steps


def write(path: Path, table: np.ndarray, steps: np.ndarray, costs: np.ndarray) -> None:
    at = table.nbytes
    middle = at + steps.nbytes
    end = middle + costs.nbytes
    header = {
        "__metadata__": {"format": "lookfar 1"},
        "table": {"dtype": "I8", "shape": list(table.shape), "data_offsets": [0, at]},
        "steps": {"dtype": "F16", "shape": [len(steps)], "data_offsets": [at, middle]},
        "costs": {"dtype": "F16", "shape": [len(costs)], "data_offsets": [middle, end]},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    # The rows begin at a multiple of 64, as mapped memory likes it.
    text += b" " * (-(8 + len(text)) % 64)
    tensors = table.tobytes() + steps.tobytes() + costs.tobytes()
    path.write_bytes(len(text).to_bytes(8, "little") + text + tensors)


def main() -> None:
    source, pieces, folder = map(Path, sys.argv[1:4])
    table = np.load(source).astype(np.float32)
    lines = [line.split("\t") for line in pieces.read_text(encoding="utf-8").split("\n")[:-1]]
    if len(table) != SHARED_ROWS + len(lines):
        raise SystemExit(f"{len(table)} rows do not fit {len(lines)} pieces.")
    folder.mkdir(parents=True, exist_ok=True)
    costs = np.array([float(cost) for _, cost in lines], np.float16)
    write(folder / "table.safetensors", *quantise(table), costs)
    (folder / "pieces.txt").write_bytes("".join(f"{piece}\n" for piece, _ in lines).encode())
    for each in sorted(folder.glob("*.*t*")):
        print(f"{each.name}: {each.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
