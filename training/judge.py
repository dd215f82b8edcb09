"""How well does a table of vectors find? nDCG@10 of vectors alone, on the device.

Takes: question sets as ``bench/quality.py`` wants them, and a code set as ``bench/code_search.py``
does. Gives: a figure for each. Refuses: nothing.

Documents are parsed and cut into chunks as the product does it; a document is as good as its best
chunk. The product's own figures differ a little, since it weighs more than vectors.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import fields
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from lookfar import config
from lookfar.text.chunk import definitions, headings
from lookfar.text.chunk.identity import embedded_text
from lookfar.text.chunk.parts import Sizes
from lookfar.text.normalise import normalise
from lookfar.text.parse.formats import parser_for

SETS = ("squad", "jsquad", "k8s", "mdn_known", "mdn_ja_known", "cosqa")
_SIZES = Sizes(
    **{each.name: getattr(config.load(None, {}).chunk, each.name) for each in fields(Sizes)}
)
_DENSE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _count(text: str) -> int:
    """About as many tokens as the product counts."""
    dense = len(_DENSE.findall(text))
    return -(-len(re.findall(r"[A-Za-z0-9]+", text)) * 4 // 3) + dense * 2 // 3


def cut(task: tuple[str, str, str]) -> list[tuple[str, int, int, str]]:
    """The chunks of one document: its name, its lines, its text."""
    name, uri, text = task
    parse = parser_for(uri)
    if parse is None:
        return []
    document = parse(uri, normalise(text.encode("utf-8", "replace"))[0])
    if document.lane == "code":
        return [
            (
                name,
                each.span.start_line,
                each.span.end_line,
                definitions.embedded_text(document, each),
            )
            for each in definitions.chunk(document, _SIZES)
        ]
    return [
        (name, each.span.start_line, each.span.end_line, embedded_text(document, each))
        for each in headings.chunk(document, _SIZES, _count)
    ]


class QuestionSet:
    def __init__(self, folder: Path, pool: Any) -> None:
        ending = ".py" if folder.name == "cosqa" else ".md"
        tasks = []
        for line in (folder / "corpus.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            title = row.get("title") or ""
            text = (f"# {title}\n\n" if title else "") + row["text"]
            tasks.append((row["_id"], f"{row['_id']}{ending}", text))
        chunks = [each for some in pool.imap(cut, tasks, chunksize=50) for each in some]
        number = {name: at for at, name in enumerate(dict.fromkeys(each[0] for each in chunks))}
        self.owner = torch.tensor([number[each[0]] for each in chunks])
        self.texts = [each[3] for each in chunks]
        self.names = list(number)
        self.judged: dict[str, dict[str, float]] = defaultdict(dict)
        for line in (folder / "qrels.tsv").open(encoding="utf-8"):
            query, document, gain = line.rstrip("\n").split("\t")
            self.judged[query][document] = float(gain)
        rows = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
        self.ids = [row["_id"] for row in rows]
        self.queries = [row["text"] for row in rows]

    def score(self, queries: torch.Tensor, chunks: torch.Tensor) -> float:
        similar = queries @ chunks.T
        best = torch.full((len(queries), len(self.names)), -2.0, device=similar.device)
        owner = self.owner.to(similar.device).expand(len(queries), -1)
        best.scatter_reduce_(1, owner, similar, "amax")
        gains = []
        for query, found in zip(self.ids, best.topk(10).indices.tolist(), strict=True):
            judged = self.judged[query]
            gained = sum(
                judged.get(self.names[at], 0.0) / math.log2(rank + 2)
                for rank, at in enumerate(found)
            )
            ideal = sum(
                gain / math.log2(rank + 2)
                for rank, gain in enumerate(sorted(judged.values())[::-1][:10])
            )
            gains.append(gained / ideal if ideal else 0.0)
        return float(np.mean(gains))


class CodeSet:
    """One repository's questions; a target counts at the first of ten chunks that reaches it."""

    def __init__(self, folder: Path, root: Path, name: str, pool: Any) -> None:
        self.tasks = json.loads((folder / "annotations" / f"{name}.json").read_text("utf-8"))
        files = [each for each in sorted(root.rglob("*")) if each.is_file()]
        tasks = [
            (
                str(each.relative_to(root)),
                str(each.relative_to(root)),
                each.read_text("utf-8", "replace"),
            )
            for each in files
            if each.stat().st_size < 400_000
        ]
        self.chunks = [each for some in pool.imap(cut, tasks, chunksize=8) for each in some]
        self.texts = [each[3] for each in self.chunks]
        self.queries = [task["query"] for task in self.tasks]

    def score(self, queries: torch.Tensor, chunks: torch.Tensor) -> float:
        found = (queries @ chunks.T).topk(min(10, len(chunks))).indices.tolist()
        gains = []
        for task, rows in zip(self.tasks, found, strict=True):
            targets = [*task["relevant"], *task.get("secondary", [])]
            gained = 0.0
            reached: set[int] = set()
            for target in targets:
                named = {"path": target} if isinstance(target, str) else target
                for rank, row in enumerate(rows):
                    uri, first, last, _ = self.chunks[row]
                    path = named["path"]
                    same = uri == path or uri.endswith("/" + path) or path.endswith("/" + uri)
                    start, end = named.get("start_line"), named.get("end_line")
                    if same and (start is None or (first <= end and start <= last)):
                        reached.add(rank)
                        break
            gained = sum(1 / math.log2(rank + 2) for rank in reached)
            ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(targets))))
            gains.append(gained / ideal)
        return float(np.mean(gains))


class Judge:
    """All sets, tokenised once by ``tokenise`` (texts to ``Ragged``)."""

    def __init__(self, folder: Path, tokenise: Any, workers: int) -> None:
        self.sets: dict[str, list[Any]] = {}
        with Pool(workers) as pool:
            for name in SETS:
                if (folder / name).is_dir():
                    self.sets[name] = [QuestionSet(folder / name, pool)]
            if (folder / "semble").is_dir():
                described = json.loads((folder / "semble" / "repos.json").read_text("utf-8"))
                self.sets["code"] = [
                    CodeSet(
                        folder / "semble",
                        folder / "repos" / name / (about["root"] or ""),
                        name,
                        pool,
                    )
                    for name, about in described.items()
                ]
        for sets in self.sets.values():
            for each in sets:
                each.query_ids, each.chunk_ids = tokenise(each.queries), tokenise(each.texts)

    @torch.inference_mode()
    def scores(self, embed: Any) -> dict[str, float]:
        found = {}
        for name, sets in self.sets.items():
            found[name] = float(
                np.mean(
                    [
                        each.score(
                            F.normalize(embed(each.query_ids), dim=-1),
                            F.normalize(embed(each.chunk_ids), dim=-1),
                        )
                        for each in sets
                    ]
                )
            )
        found["mean"] = float(np.mean(list(found.values())))
        return found
