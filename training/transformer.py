"""Fine-tune the small transformer, the second model, and embed texts with it.

    python training/transformer.py prepare PAIRS.jsonl PACK WORK
    python training/transformer.py run PACK WORK OUT [--judge FOLDER] [--set key=value,... ...]

``prepare`` cuts the vocabulary of granite-embedding-30m-english to the pieces that the pairs use
most, and tokenises the English pairs. ``run`` fine-tunes the model: a question must find its
passage among the other passages of its batch, most of which are from one repository, and must weigh
them as the original model does. The first 256 and 128 numbers of a vector learn to work alone. The
result is ``weights.npz`` in half precision and ``tokenizer.json``; ``export_transformer.py`` turns
them into ONNX.

``--judge`` names a folder with what ``rankings.py`` wrote. It prints nDCG@10 of vectors
alone and of a blend with the product's scores, and is not needed for training.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from teacher import PADDING, Teacher
from tokenizers import Tokenizer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
VOCABULARY = 24_000
LONGEST_A, LONGEST_B = 64, 192
SAME_PASSAGE = 0.93
"""Cosine (original model) above which another passage of a batch is not a wrong answer."""
PREFIXES = ((0, 1.0), (256, 0.5), (128, 0.3))
"""How many numbers of a vector are compared, 0 for all, and the weight of that comparison."""
DEFAULTS: dict[str, Any] = {
    "seed": 1,
    "epochs": 1.5,
    "batch": 2048,
    "lr": 1e-4,
    "scale": 40.0,
    "teach": 3.0,
    "teacher_scale": 40.0,
    "same": 0.5,
    "most": 40_000,
}


def cut_vocabulary(tokenizer: Tokenizer, used: Counter[int], size: int) -> tuple[str, list[int]]:
    """Return a tokenizer with the most used pieces, and the row of each piece in the original.

    A piece is kept together with the pieces that it is merged from, so that the merges that are
    left still lead to it.
    """
    described = json.loads(tokenizer.to_str())
    vocabulary: dict[str, int] = described["model"]["vocab"]
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m)
              for m in described["model"]["merges"]]  # fmt: skip
    parts = {left + right: (left, right) for left, right in reversed(merges)}
    special = [entry["content"] for entry in described["added_tokens"]]
    kept = dict.fromkeys((*special, *(piece for piece in vocabulary if piece not in parts)))
    by_row = {row: piece for piece, row in vocabulary.items()}
    for row, _ in used.most_common():
        if len(kept) >= size:
            break
        waiting = [by_row[row]]
        while waiting:
            piece = waiting.pop()
            if piece not in kept:
                kept[piece] = None
                waiting += parts[piece]
    rows = sorted(vocabulary[piece] for piece in kept)
    number = {row: at for at, row in enumerate(rows)}
    described["model"]["vocab"] = {by_row[row]: number[row] for row in rows}
    described["model"]["merges"] = [
        [left, right] for left, right in merges if {left, right, left + right} <= kept.keys()
    ]
    for entry in described["added_tokens"]:
        entry["id"] = number[entry["id"]]
    text = json.dumps(described, ensure_ascii=False)
    processor = described.get("post_processor") or {}
    for key in ("sep", "cls"):
        if key in processor:
            processor[key][1] = described["model"]["vocab"][processor[key][0]]
    for name, entry in (processor.get("special_tokens") or {}).items():
        entry["ids"] = [described["model"]["vocab"][name]]
    if processor:
        text = json.dumps({**described, "post_processor": processor}, ensure_ascii=False)
    return text, rows


def is_english(text: str) -> bool:
    return sum(map(str.isascii, text)) > 0.97 * len(text)


def encode(tokenizer: Tokenizer, texts: list[str], longest: int) -> list[np.ndarray]:
    tokenizer.enable_truncation(longest)
    tokenizer.no_padding()
    rows: list[np.ndarray] = []
    for at in range(0, len(texts), 50_000):
        some = tokenizer.encode_batch_fast(texts[at : at + 50_000])
        rows += [np.array(each.ids, np.uint16) for each in some]
    return rows


def prepare(given: argparse.Namespace) -> None:
    pairs = []
    with given.pairs.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if is_english(row["a"] + row["b"]):
                pairs.append((row["a"], row["b"], row["k"], row["s"]))
    teacher = Teacher(given.pack, "cpu")
    used: Counter[int] = Counter()
    sample = random.Random(0).sample(pairs, min(len(pairs), 300_000))
    for side in (0, 1):
        for ids in encode(teacher.tokenizer, [pair[side] for pair in sample], LONGEST_B):
            used.update(ids.tolist())
    text, rows = cut_vocabulary(teacher.tokenizer, used, VOCABULARY)
    given.work.mkdir(parents=True, exist_ok=True)
    (given.work / "tokenizer.json").write_text(text, encoding="utf-8")
    cut = Tokenizer.from_str(text)
    sources = sorted({pair[3] for pair in pairs})
    saved: dict[str, Any] = {
        "rows": rows,
        "source": np.array([sources.index(pair[3]) for pair in pairs]),
        "sources": sources,
    }
    for name, tokenizer in (("cut", cut), ("whole", teacher.tokenizer)):
        for side, longest in ((0, LONGEST_A), (1, LONGEST_B)):
            encoded = encode(tokenizer, [pair[side] for pair in pairs], longest)
            saved[f"{name}{side}"] = (
                np.concatenate(encoded),
                np.cumsum([0, *map(len, encoded)]),
            )
    torch.save(saved, given.work / "tokens.pt")
    lengths = {side: np.diff(saved[f"cut{side}"][1]).mean() for side in (0, 1)}
    whole = np.diff(saved["whole1"][1]).mean()
    print(
        f"{len(pairs):,} pairs, {lengths} pieces a text ({whole:.1f} with all pieces)", flush=True
    )


class Encoder(torch.nn.Module):
    """The network of the pack, with weights that can be trained."""

    def __init__(self, pack: Teacher, rows: list[int], layers: int = 0) -> None:
        super().__init__()
        self.shape = dict(pack.shape)
        self.shape["layers"] = layers or self.shape["layers"]
        named = {
            name: value.float()
            for name, value in pack.of.items()
            if not name.startswith("l") or int(name[1 : name.index(".")]) < self.shape["layers"]
        }
        named["word_emb"] = named["word_emb"][torch.tensor(rows, device=named["word_emb"].device)]
        self.weights = torch.nn.ParameterDict(
            {name.replace(".", "_"): torch.nn.Parameter(value) for name, value in named.items()}
        )

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        of, shape = self.weights, self.shape
        width, eps, heads = shape["hidden"], shape["layer_norm_eps"], shape["heads"]
        places = torch.arange(ids.shape[1], device=ids.device) + shape["position_offset"]
        x = F.embedding(ids, of["word_emb"]) + of["pos_emb"][places] + of["type_emb"][0]
        x = F.layer_norm(x, (width,), of["emb_ln_w"], of["emb_ln_b"], eps)
        mask = (ids != PADDING)[:, None, None, :]
        for layer in range(shape["layers"]):
            own = {name: of[f"l{layer}_{name}"] for name in (
                "qkv_w", "qkv_b", "ao_w", "ao_b", "aln_w", "aln_b",
                "f1_w", "f1_b", "f2_w", "f2_b", "fln_w", "fln_b",
            )}  # fmt: skip
            qkv = F.linear(x, own["qkv_w"], own["qkv_b"])
            q, k, v = qkv.view(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            seen = seen.transpose(1, 2).reshape(x.shape)
            x = x + F.linear(seen, own["ao_w"], own["ao_b"])
            x = F.layer_norm(x, (width,), own["aln_w"], own["aln_b"], eps)
            inner = F.gelu(F.linear(x, own["f1_w"], own["f1_b"]))
            x = x + F.linear(inner, own["f2_w"], own["f2_b"])
            x = F.layer_norm(x, (width,), own["fln_w"], own["fln_b"], eps)
        return x

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            first = self.hidden(ids)[:, 0]
        return first.float()


class Texts:
    """Tokenised texts, one after the other."""

    def __init__(self, flat: np.ndarray, ends: np.ndarray) -> None:
        self.flat = torch.from_numpy(flat.astype(np.int32)).to(DEVICE)
        self.ends = torch.from_numpy(ends).to(DEVICE)

    def pad(self, rows: torch.Tensor) -> torch.Tensor:
        starts, ends = self.ends[rows], self.ends[rows + 1]
        width = int((ends - starts).max())
        at = starts[:, None] + torch.arange(width, device=starts.device)
        inside = at < ends[:, None]
        return torch.where(inside, self.flat[at.clamp(max=len(self.flat) - 1)].long(), PADDING)


def make_batches(
    source: np.ndarray, chosen: dict[str, Any], chance: np.random.Generator
) -> list[np.ndarray]:
    """Most batches are from one repository, the rest are mixed; full ones only."""
    batches: list[np.ndarray] = []
    rest = []
    size = chosen["batch"]
    for number in range(int(source.max()) + 1):
        rows = chance.permutation(np.flatnonzero(source == number))[: chosen["most"]]
        own = int(len(rows) * chosen["same"]) // size * size
        batches += np.split(rows[:own], own // size) if own else []
        rest.append(rows[own:])
    mixed = chance.permutation(np.concatenate(rest))
    mixed = mixed[: len(mixed) // size * size]
    batches += np.split(mixed, len(mixed) // size) if len(mixed) else []
    return [batches[at] for at in chance.permutation(len(batches))]


def compare(
    a: torch.Tensor, b: torch.Tensor, taught: torch.Tensor, same: torch.Tensor,
    chosen: dict[str, Any],
) -> torch.Tensor:  # fmt: skip
    """Return the loss of questions ``a`` and passages ``b``, row by row a pair."""
    target = torch.arange(len(a), device=a.device)
    loss = torch.zeros((), device=a.device)
    for size, weight in PREFIXES:
        one = F.normalize(a[:, :size] if size else a, dim=-1)
        two = F.normalize(b[:, :size] if size else b, dim=-1)
        logits = (one @ two.T) * chosen["scale"]
        hidden = logits.masked_fill(same, -1e4)
        both = F.cross_entropy(hidden, target) + F.cross_entropy(hidden.T, target)
        loss = loss + weight * 0.5 * both
        if chosen["teach"] and not size:
            aim = taught * chosen["teacher_scale"]
            for mine, its in ((logits, aim), (logits.T, aim.T)):
                far = F.kl_div(F.log_softmax(mine, 1), F.log_softmax(its, 1),
                               reduction="batchmean", log_target=True)  # fmt: skip
                loss = loss + chosen["teach"] * 0.5 * far
    return loss


def train(data: dict[str, Any], pack: Teacher, chosen: dict[str, Any], name: str) -> Encoder:
    torch.manual_seed(chosen["seed"])
    chance = np.random.default_rng(chosen["seed"])
    model = Encoder(pack, data["rows"]).to(DEVICE)
    texts = {key: Texts(*data[key]) for key in ("cut0", "cut1", "whole0", "whole1")}
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=chosen["lr"], betas=(0.9, 0.98), fused=True,
    )  # fmt: skip
    batches: list[np.ndarray] = []
    while len(batches) < 100_000 and chosen["epochs"] > 0:
        made = make_batches(data["source"], chosen, chance)
        wanted = min(1.0, chosen["epochs"])
        batches += made[: int(len(made) * wanted)]
        chosen = {**chosen, "epochs": chosen["epochs"] - wanted}
    steps = len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda at: min(1.0, (at + 1) / 50) * max(0.02, 1 - at / (steps + 1))
    )
    began = time.time()
    for step, batch in enumerate(batches):
        rows = torch.from_numpy(batch).to(DEVICE)
        with torch.inference_mode():
            asked = pack._forward(texts["whole0"].pad(rows))
            passages = pack._forward(texts["whole1"].pad(rows))
            taught = asked @ passages.T
            same = (passages @ passages.T) > SAME_PASSAGE
            same.fill_diagonal_(False)
        taught, same = taught.clone(), same.clone()
        loss = compare(
            model(texts["cut0"].pad(rows)), model(texts["cut1"].pad(rows)), taught, same, chosen
        )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"{name} step {step} of {steps}, {time.time() - began:.0f} s, "
                  f"loss {float(loss.detach()):.3f}", flush=True)  # fmt: skip
    return model


@torch.inference_mode()
def embed(model: Any, tokenizer: Tokenizer, texts: list[str], longest: int) -> torch.Tensor:
    encoded = encode(tokenizer, texts, longest)
    order = sorted(range(len(encoded)), key=lambda at: -len(encoded[at]))
    found = torch.zeros(len(texts), 384, device=DEVICE)
    at = 0
    while at < len(order):
        width = len(encoded[order[at]])
        some = order[at : at + max(1, 131_072 // width)]
        at += len(some)
        ids = np.full((len(some), width), PADDING, np.int64)
        for row, each in enumerate(some):
            ids[row, : len(encoded[each])] = encoded[each]
        made = model(torch.from_numpy(ids).to(DEVICE))
        found[torch.tensor(some, device=DEVICE)] = F.normalize(made.float(), dim=-1)
    return found


class Dump:
    """The chunks and questions of one set, with the product's own ranking."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        with gzip.open(folder / f"{name}.chunks.jsonl.gz", "rt", encoding="utf-8") as file:
            chunks = [json.loads(line) for line in file]
        with gzip.open(folder / f"{name}.queries.jsonl.gz", "rt", encoding="utf-8") as file:
            self.questions = [json.loads(line) for line in file]
        self.texts = [chunk["t"] for chunk in chunks]
        self.keys = [chunk["k"] for chunk in chunks]
        self.at = {key: at for at, key in enumerate(self.keys)}
        uris = list(dict.fromkeys(chunk["u"] for chunk in chunks))
        number = {uri: at for at, uri in enumerate(uris)}
        self.uris = uris
        self.owner = np.array([number[chunk["u"]] for chunk in chunks])

    def ndcg(self, scored: dict[int, float], gold: dict[str, float]) -> float:
        best: dict[int, float] = {}
        for chunk, score in scored.items():
            document = int(self.owner[chunk])
            best[document] = max(score, best.get(document, -9.0))
        top = sorted(best, key=lambda document: -best[document])[:10]
        gained = sum(gold.get(self.uris[document], 0.0) / math.log2(rank + 2)
                     for rank, document in enumerate(top))  # fmt: skip
        ideal = sum(gain / math.log2(rank + 2)
                    for rank, gain in enumerate(sorted(gold.values())[::-1][:10]))  # fmt: skip
        return gained / ideal if ideal else 0.0

    def judge(self, asked: torch.Tensor, chunks: torch.Tensor) -> list[float]:
        """Return nDCG@10 of vectors alone, and of blends with the product's scores."""
        similar = asked @ chunks.T
        values, rows = similar.topk(min(200, similar.shape[1]))
        values, rows, similar = values.cpu(), rows.cpu(), similar.cpu()
        weights = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0)
        sums = np.zeros(len(weights))
        for at, question in enumerate(self.questions):
            product = {self.at[key]: score for key, score in question["top"] if key in self.at}
            near = dict(zip(rows[at].tolist(), values[at].tolist(), strict=True))
            union = list(dict.fromkeys((*product, *near)))
            by_vector = np.array([float(similar[at, chunk]) for chunk in union])
            low = min(product.values(), default=0.0)
            by_product = np.array([product.get(chunk, low) for chunk in union])
            by_vector = scale(by_vector)
            by_product = scale(by_product)
            for number, weight in enumerate(weights):
                mixed = (1 - weight) * by_product + weight * by_vector
                scored = dict(zip(union, mixed.tolist(), strict=True))
                sums[number] += self.ndcg(scored, question["gold"])
        return (sums / len(self.questions)).tolist()


def scale(values: np.ndarray) -> np.ndarray:
    width = values.max() - values.min() if len(values) else 0.0
    return (values - values.min()) / width if width else values * 0.0


def judge(folder: Path, model: Any, tokenizer: Tokenizer, name: str, sets: list[str]) -> None:
    sums = []
    for each in sets:
        dump = Dump(folder, each)
        chunks = embed(model, tokenizer, dump.texts, 256)
        asked = embed(model, tokenizer, [q["text"] for q in dump.questions], 256)
        found = dump.judge(asked, chunks)
        sums.append(found)
        print(f"{name} {each:12} product, .2, .3, .4, .5, .6, alone: "
              + " ".join(f"{value:.4f}" for value in found), flush=True)  # fmt: skip
    print(f"{name} {'mean':12} " + " ".join(f"{v:.4f}" for v in np.mean(sums, 0)), flush=True)


def run(given: argparse.Namespace) -> None:
    data = torch.load(given.work / "tokens.pt", weights_only=False)
    pack = Teacher(given.pack, DEVICE)
    tokenizer = Tokenizer.from_file(str(given.work / "tokenizer.json"))
    given.out.mkdir(parents=True, exist_ok=True)
    if given.judge:
        judge(given.judge, pack._forward, pack.tokenizer, "[original]", given.sets)
    for number, changes in enumerate(given.set or [""]):
        chosen = dict(DEFAULTS)
        for change in filter(None, changes.split(",")):
            key, _, value = change.partition("=")
            chosen[key] = type(DEFAULTS[key])(float(value))
        model = train(data, pack, chosen, f"[{number} {changes}]")
        if given.judge:
            judge(given.judge, model, tokenizer, f"[{number} {changes}]", given.sets)
        weights = {k: v.detach().half().cpu().numpy() for k, v in model.weights.items()}
        np.savez(given.out / f"weights{number}.npz", **weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    doing = parser.add_subparsers(required=True)
    first = doing.add_parser("prepare")
    first.add_argument("pairs", type=Path)
    first.add_argument("pack", type=Path)
    first.add_argument("work", type=Path)
    first.set_defaults(do=prepare)
    second = doing.add_parser("run")
    second.add_argument("pack", type=Path)
    second.add_argument("work", type=Path)
    second.add_argument("out", type=Path)
    second.add_argument("--judge", type=Path)
    second.add_argument("--sets", type=lambda text: text.split(","),
                        default=["squad", "k8s", "cosqa", "mdn_known"])  # fmt: skip
    second.add_argument("--set", action="append", help="key=value,key=value; once for each model")
    second.set_defaults(do=run)
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
