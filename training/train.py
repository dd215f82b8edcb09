"""Teach a table of vectors: one row for each piece of the vocabulary, a text is their mean.

    python training/train.py prepare PAIRS.jsonl PIECES.tsv TEACHER_PACK WORK [--workers N]
    python training/train.py run PIECES.tsv WORK OUT [--judge EVAL_FOLDER] [--set key=value ...]

Takes: the pairs, the vocabulary, the teacher; for ``hard`` what ``negatives.py`` mined.
``prepare`` tokenises every text once and asks the teacher for its vectors (of English texts; it
knows no Japanese); ``run`` trains. Gives: OUT, a NumPy file with the table, half precision.
Refuses: nothing.

A text is the sum of its pieces, each as often as the root of how often it occurs. Three steps. The
rows begin as the teacher's vectors of the pieces themselves (Japanese ones: of what a dictionary
says they mean), reduced to as many numbers as a row has and weighed by how rare a piece is. Then
texts learn to lie where the teacher puts them. Then pairs learn to find each other among the other
pairs of their batch, most of which is from one repository, and to weigh those others as the teacher
does. The first 128 and 64 numbers learn to do so alone too. That is done twice, from the same first
rows but with the pairs in another order, and the table is the mean of both.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import defaultdict
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from lookfar.embed.pieces import SHARED_ROWS, WORD_START, Pieces, parts, words

DIMENSIONS = 256
MOST_A, MOST_B = 96, 320
LINES = 10_000
LEAST_TAUGHT = 65
GENERAL = ("openstax/", "standardebooks/", "aozorahack/", "ku-nlp/")
"""Repositories of general prose, whose pairs are asked ``general`` times an epoch."""

DEFAULTS: dict[str, Any] = {
    "seed": 1,
    "epochs": 3,
    "batch": 4096,
    "lr": 0.004,
    "warm_epochs": 5,
    "warm_lr": 0.01,
    "scale": 40.0,
    "teacher_scale": 40.0,
    "teach": 0.8,
    "same": 0.75,
    "power": 0.5,
    "sif": 3e-4,
    "most": 60_000,
    "drop": 0.0,
    "general": 1,
    "hard": 0,
    "hard_teach": 0,
    "soup": 2,
}

_pieces: Pieces | None = None
_known: dict[str, list[int]] = {}


def read_pieces(path: Path) -> tuple[list[str], list[float]]:
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [row[0] for row in rows], [float(row[1]) for row in rows]


def _start(path: Path) -> None:
    global _pieces
    _pieces = Pieces(*read_pieces(path))


def ids_of(text: str, most: int) -> list[int]:
    assert _pieces is not None
    found: list[int] = []
    for word in words(text):
        ids = _known.get(word)
        if ids is None:
            ids = _known[word] = [id_ for part in parts(word) for id_ in _pieces(part)]
        found += ids
        if len(found) >= most:
            break
    return found[:most]


def counted(ids: list[int]) -> tuple[bytes, bytes]:
    """Each id once, two bytes, and how often it occurs, one byte."""
    found, times = np.unique(np.array(ids, np.uint16), return_counts=True)
    return found.tobytes(), np.minimum(times, 255).astype(np.uint8).tobytes()


def _tokenise_lines(lines: list[str]) -> list[Any]:
    rows = []
    for line in lines:
        row = json.loads(line)
        a, b = ids_of(row["a"], MOST_A), ids_of(row["b"], MOST_B)
        if a and b:
            both = row["a"] + row["b"]
            english = sum(map(str.isascii, both)) > 0.97 * len(both)
            rows.append((*counted(a), *counted(b), row["k"], row["s"], english, row["a"], row["b"]))
    return rows


def _tokenise_texts(texts: list[str]) -> list[tuple[bytes, bytes]]:
    return [counted(ids_of(text, 100_000)) for text in texts]


class Ragged:
    """Rows of ids of any length, each id with how often it occurs, on the device."""

    def __init__(self, flat: torch.Tensor, times: torch.Tensor, lengths: torch.Tensor) -> None:
        self.flat, self.times, self.lengths = flat.cuda(), times.cuda(), lengths.cuda()
        self.starts = torch.cumsum(self.lengths, 0) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The ids of some rows one behind the other, their counts, and where each row begins."""
        lengths = self.lengths[rows]
        offsets = torch.cumsum(lengths, 0) - lengths
        total = int(lengths.sum())
        at = torch.arange(total, device=self.flat.device)
        at += torch.repeat_interleave(self.starts[rows] - offsets, lengths, output_size=total)
        return self.flat[at], self.times[at], offsets


def packed(rows: list[tuple[bytes, bytes]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    flat = np.frombuffer(b"".join(row[0] for row in rows), np.uint16).astype(np.int32)
    times = np.frombuffer(b"".join(row[1] for row in rows), np.uint8).copy()
    return (
        torch.from_numpy(flat),
        torch.from_numpy(times),
        torch.tensor([len(row[1]) for row in rows]),
    )


def tokeniser(pieces: Path, workers: int) -> Any:
    def tokenise(texts: list[str]) -> Ragged:
        some = [texts[at : at + 500] for at in range(0, len(texts), 500)]
        with Pool(min(workers, len(some)), _start, (pieces,)) as pool:
            return Ragged(
                *packed([each for part in pool.imap(_tokenise_texts, some) for each in part])
            )

    return tokenise


def prepare(given: argparse.Namespace) -> None:
    from teacher import Teacher

    rows: list[Any] = []
    with (
        given.pairs.open(encoding="utf-8") as file,
        Pool(given.workers, _start, (given.pieces,)) as pool,
    ):
        slices = iter(lambda: list(islice(file, LINES)), [])
        for some in pool.imap(_tokenise_lines, slices):
            rows += some
    kinds = sorted({row[4] for row in rows})
    sources = sorted({row[5] for row in rows})
    work: Path = given.work
    work.mkdir(parents=True, exist_ok=True)
    # Texts that occur in several pairs are one text.
    numbers: dict[bytes, int] = {}
    saved: dict[str, Any] = {}
    for side, column in (("a", 0), ("b", 2)):
        saved[f"{side}_ids"] = packed([row[column : column + 2] for row in rows])
        saved[f"{side}_text"] = torch.tensor(
            [numbers.setdefault(row[column], len(numbers)) for row in rows]
        )
    saved["kind"] = torch.tensor([kinds.index(row[4]) for row in rows])
    saved["source"] = torch.tensor([sources.index(row[5]) for row in rows])
    saved["kinds"], saved["sources"] = kinds, sources
    english = torch.tensor([row[6] for row in rows])
    saved["english"] = english
    teacher = Teacher(given.teacher)
    which = english.nonzero()[:, 0].tolist()
    for side, column in (("a", 7), ("b", 8)):
        distinct: dict[str, int] = {}
        at = [distinct.setdefault(rows[each][column], len(distinct)) for each in which]
        vectors = teacher.embed(list(distinct))[torch.tensor(at, device="cuda")]
        full = torch.zeros(len(rows), vectors.shape[1], dtype=torch.float16)
        full[english] = vectors.cpu()
        saved[f"{side}_teacher"] = full
    spelt, _ = read_pieces(given.pieces)
    glosses: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row[5] == "EDRDG/JMdict":
            for form in row[7].split():
                glosses[form].append(row[8])
    said = [
        each.removeprefix(WORD_START)
        if each.isascii() or each[0] == WORD_START
        else "; ".join(glosses.get(each, [])[:3])
        for each in spelt
    ]
    vectors = teacher.embed([each or "unknown" for each in said]).cpu()
    saved["piece_vectors"] = vectors
    saved["piece_known"] = torch.tensor([bool(each) for each in said])
    torch.save(saved, work / "prepared.pt")
    named = [(kinds[k], int((saved["kind"] == k).sum())) for k in range(len(kinds))]
    print(f"{len(rows):,} pairs, {int(english.sum()):,} of them English: {named}")


class Student(torch.nn.Module):
    def __init__(self, table: torch.Tensor, power: float) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(table)
        self.power = power

    def forward(
        self, ids: torch.Tensor, times: torch.Tensor, offsets: torch.Tensor, drop: float = 0.0
    ) -> torch.Tensor:
        weights = times.float() ** self.power
        if drop:
            weights = weights * (torch.rand_like(weights) >= drop)
        return F.embedding_bag(ids, self.table, offsets, mode="sum", per_sample_weights=weights)


def embed_all(student: Student, texts: Ragged) -> torch.Tensor:
    found = []
    for at in range(0, len(texts), 8192):
        rows = torch.arange(at, min(at + 8192, len(texts)), device=texts.flat.device)
        found.append(student(*texts.take(rows)))
    return torch.cat(found)


def first_table(
    data: dict[str, Any], chosen: dict[str, Any], counts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows from the teacher, and the projection that made them."""
    rows = len(counts)
    sample = data["b_teacher"][data["english"].cpu()].float()
    sample = sample[torch.randperm(len(sample))[:200_000]].cuda()
    middle = sample.mean(0)
    _, vectors = torch.linalg.eigh((sample - middle).T @ (sample - middle))
    projection = vectors.flip(1)[:, :DIMENSIONS]
    pieces = data["piece_vectors"].cuda().float()
    own = pieces[data["piece_known"].cuda()].mean(0)
    projected = F.normalize((pieces - own) @ projection, dim=-1)
    table = F.normalize(torch.randn(rows, DIMENSIONS, device="cuda"), dim=-1)
    known = data["piece_known"].cuda()
    table[SHARED_ROWS:][known] = projected[known]
    share = counts / counts.sum()
    return table * (chosen["sif"] / (chosen["sif"] + share))[:, None], projection, middle


def batches(
    data: dict[str, Any], usable: torch.Tensor, chosen: dict[str, Any], chance: random.Random
) -> list[torch.Tensor]:
    """Rows of pairs: most batches from one repository and one language, the rest mixed."""
    size = chosen["batch"]
    made: list[torch.Tensor] = []
    rest: list[torch.Tensor] = []
    source = data["source"]
    for number in range(len(data["sources"])):
        rows = usable[source[usable] == number]
        if data["sources"][number].startswith(GENERAL):
            rows = rows.repeat(chosen["general"])
        rows = rows[torch.randperm(len(rows), device=rows.device)][: chosen["most"]]
        own = int(len(rows) * chosen["same"])
        made += [each for each in rows[:own].split(size) if len(each) > 256]
        rest.append(rows[own:])
    mixed = torch.cat(rest)
    mixed = mixed[torch.randperm(len(mixed), device=mixed.device)]
    made += [each for each in mixed.split(size) if len(each) > 256]
    chance.shuffle(made)
    return made


def hard_of(data: dict[str, Any], some: torch.Tensor, most: int) -> torch.Tensor:
    """Up to so many hard negatives of each of these pairs, drawn from the mined ones."""
    if not most:
        return some[:0]
    mined = data["negatives"][some]
    drawn = torch.rand(mined.shape, device=mined.device).argsort(1)[:, :most]
    found = mined.gather(1, drawn).flatten()
    return found[found >= 0].unique().long()


def run(given: argparse.Namespace) -> None:
    data = torch.load(given.work / "prepared.pt")
    if (given.work / "negatives.pt").exists():
        data["negatives"] = torch.load(given.work / "negatives.pt")
    judge = None
    if given.judge:
        from judge import Judge

        judge = Judge(given.judge, tokeniser(given.pieces, given.workers), given.workers)
    given.out.mkdir(parents=True, exist_ok=True)
    for number, changes in enumerate(given.set or [""]):
        chosen = dict(DEFAULTS)
        for change in filter(None, changes.split(",")):
            key, _, value = change.partition("=")
            chosen[key] = type(DEFAULTS[key])(float(value))
        table = train(data, chosen, judge, f"[{number} {changes}]")
        np.save(given.out / f"table{number}.npy", table.cpu().numpy().astype(np.float16))


def train(data: dict[str, Any], chosen: dict[str, Any], judge: Any, name: str) -> torch.Tensor:
    """The mean of as many tables as ``soup`` says."""
    made = [
        train_one(data, chosen, judge, f"{name} {number}", chosen["seed"] + 1000 * number)
        for number in range(chosen["soup"])
    ]
    whole = torch.stack(made).mean(0)
    if judge:
        student = Student(whole, chosen["power"]).cuda()
        for what, table in (
            ("whole", whole),
            ("128 dimensions", whole[:, :128].contiguous()),
            ("64 dimensions", whole[:, :64].contiguous()),
            ("int8", quantised(whole)),
        ):
            student.table = torch.nn.Parameter(table)
            report(judge, student, f"{name} {what}")
    return whole


def report(judge: Any, student: Student, what: str) -> None:
    if judge:
        found = judge.scores(lambda texts: embed_all(student, texts))
        each = " ".join(f"{key} {value:.4f}" for key, value in found.items())
        print(f"{what}  {each}", flush=True)


def train_one(
    data: dict[str, Any], chosen: dict[str, Any], judge: Any, name: str, order: int
) -> torch.Tensor:
    began = time.time()
    torch.manual_seed(chosen["seed"])
    chance = random.Random(order)
    one, two = Ragged(*data["a_ids"]), Ragged(*data["b_ids"])
    rows = SHARED_ROWS + len(data["piece_vectors"])
    counts = torch.bincount(two.flat, minlength=rows).float()
    table, projection, middle = first_table(data, chosen, counts)
    student = Student(table, chosen["power"]).cuda()
    on_device = {k: v.cuda() for k, v in data.items() if isinstance(v, torch.Tensor)}
    data = {**data, **on_device}
    english = data["english"]

    torch.manual_seed(order)

    def told_so_far(what: str) -> None:
        report(judge, student, f"{name} {time.time() - began:5.0f} s {what}")

    every = torch.arange(len(english), device="cuda")

    # Where the teacher puts a text.
    aims = {
        side: F.normalize((data[f"{side}_teacher"].float() - middle) @ projection, dim=-1).half()
        for side in ("a", "b")
    }
    taught = every[english]
    steps = math.ceil(len(taught) / chosen["batch"]) * chosen["warm_epochs"]
    optimiser = torch.optim.Adam(student.parameters(), lr=chosen["warm_lr"], betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda at: 1 - at / (steps + 1))
    for _ in range(chosen["warm_epochs"]):
        for some in taught[torch.randperm(len(taught), device="cuda")].split(chosen["batch"]):
            loss = torch.zeros((), device="cuda")
            for texts, side in ((one, "a"), (two, "b")):
                made = F.normalize(student(*texts.take(some)), dim=-1)
                loss = loss + 1 - (made * aims[side][some].float()).sum(-1).mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
    if chosen["warm_epochs"]:
        told_so_far(f"warm {float(loss.detach()):.3f}")

    # Pairs that find each other.
    scale = torch.nn.Parameter(torch.tensor(math.log(chosen["scale"]), device="cuda"))
    epoch_of = [batches(data, every, chosen, chance) for _ in range(chosen["epochs"])]
    steps = sum(map(len, epoch_of))
    optimiser = torch.optim.Adam(
        [{"params": [student.table]}, {"params": [scale], "lr": 0.001}],
        lr=chosen["lr"],
        betas=(0.9, 0.98),
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda at: min(1.0, at / 100) * max(0.02, 1 - at / steps)
    )
    for epoch, made_of in enumerate(epoch_of):
        total = 0.0
        for some in made_of:
            a = student(*one.take(some), chosen["drop"])
            b = student(*two.take(some))
            same = (data["a_text"][some][:, None] == data["a_text"][some][None, :]) | (
                data["b_text"][some][:, None] == data["b_text"][some][None, :]
            )
            same.fill_diagonal_(False)
            wanted = torch.arange(len(some), device="cuda")
            told = english[some].nonzero()[:, 0]
            taught_too = bool(chosen["teach"]) and len(told) >= LEAST_TAUGHT
            others = hard_of(data, some, chosen["hard"])
            if len(others):
                c = student(*two.take(others))
                same_too = (data["a_text"][some][:, None] == data["a_text"][others][None, :]) | (
                    data["b_text"][some][:, None] == data["b_text"][others][None, :]
                )
            if taught_too:
                theirs = data["a_teacher"][some][told].float()
                soft = theirs @ data["b_teacher"][some][told].float().T * chosen["teacher_scale"]
            loss = torch.zeros((), device="cuda")
            for size, weight in ((DIMENSIONS, 1.0), (128, 0.3), (64, 0.15)):
                left = F.normalize(a[:, :size], dim=-1)
                right = F.normalize(b[:, :size], dim=-1)
                with torch.autocast("cuda", torch.bfloat16):
                    similar = left @ right.T
                logits = similar.float() * scale.exp().clamp(max=100)
                hidden = logits.masked_fill(same, -1e4)
                among = hidden
                if len(others):
                    with torch.autocast("cuda", torch.bfloat16):
                        similar = left @ F.normalize(c[:, :size], dim=-1).T
                    further = similar.float() * scale.exp().clamp(max=100)
                    among = torch.cat([hidden, further.masked_fill(same_too, -1e4)], 1)
                both = F.cross_entropy(among, wanted) + F.cross_entropy(hidden.T, wanted)
                loss = loss + weight * 0.5 * both
                if taught_too and size == DIMENSIONS:
                    inner = logits[told][:, told]
                    asked, aim = inner, soft
                    if len(others) and chosen["hard_teach"]:
                        known = others[english[others]]
                        asked = torch.cat([inner, further[told][:, english[others]]], 1)
                        near = theirs @ data["b_teacher"][known].float().T
                        aim = torch.cat([soft, near * chosen["teacher_scale"]], 1)
                    for mine, its in ((asked, aim), (inner.T, soft.T)):
                        far = F.kl_div(
                            F.log_softmax(mine, 1), F.softmax(its, 1), reduction="batchmean"
                        )
                        loss = loss + chosen["teach"] * 0.5 * far
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.detach()
        if epoch == 1 or epoch == chosen["epochs"] - 1:
            told_so_far(
                f"epoch {epoch} loss {float(total) / len(made_of):.3f} "
                f"scale {float(scale.detach().exp()):.1f}"
            )
    return student.table.detach()


def quantised(table: torch.Tensor) -> torch.Tensor:
    """As the exported table reads: int8 with a step for each row."""
    step = (table.abs().amax(1, keepdim=True) / 127).half().float()
    return (table / step).round().clamp(-127, 127) * step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    doing = parser.add_subparsers(required=True)
    first = doing.add_parser("prepare")
    first.add_argument("pairs", type=Path)
    first.add_argument("pieces", type=Path)
    first.add_argument("teacher", type=Path)
    first.add_argument("work", type=Path)
    first.add_argument("--workers", type=int, default=2)
    first.set_defaults(do=prepare)
    second = doing.add_parser("run")
    second.add_argument("pieces", type=Path)
    second.add_argument("work", type=Path)
    second.add_argument("out", type=Path)
    second.add_argument("--judge", type=Path)
    second.add_argument("--workers", type=int, default=2)
    second.add_argument("--set", action="append", help="key=value,key=value; once for each table")
    second.set_defaults(do=run)
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
