"""Hard negatives: for each pair, passages with the words of its question that do not answer it.

    python training/negatives.py WORK

Takes: WORK, as ``train.py prepare`` left it. Gives: ``WORK/negatives.pt``, for each pair the rows
of up to eight pairs of its own repository whose passages score best by BM25, over pieces. Refuses:
nothing; a pair that finds none has ``-1`` there. ``train.py run --set hard=N`` uses N of them for
each pair; they do not help, so the default is none (README.md has the figures).

What shares most words with a question is often its answer in another cut: a sentence's passage is
part of its section. So three kinds are left out: the same text, a passage that shares half of its
weight with the right one, and, in English, one that the teacher puts as near as the right one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from train import Ragged

KEPT = 8
CANDIDATES = 32
AT_ONCE = 1024
K1, B = 1.2, 0.75
ALIKE = 0.5
MARGIN = 0.02
LEAST = 64
"""A repository of fewer pairs has no hard ones."""


def of_rows(texts: Ragged, rows: torch.Tensor, weights: torch.Tensor, width: int) -> torch.Tensor:
    """Some texts as a sparse matrix, a row for each."""
    flat, _, starts = texts.take(rows)
    ends = torch.cat([starts, torch.tensor([len(flat)], device=flat.device)])
    return torch.sparse_csr_tensor(ends, flat.long(), weights, (len(rows), width))


def columns(
    texts: Ragged, rows: torch.Tensor, weights: torch.Tensor | None, width: int
) -> torch.Tensor:
    """Some texts as a dense matrix, a column for each."""
    flat, _, _ = texts.take(rows)
    lengths = texts.lengths[rows]
    which = torch.repeat_interleave(torch.arange(len(rows), device=flat.device), lengths)
    made = torch.zeros(width, len(rows), device=flat.device)
    made[flat.long(), which] = 1.0 if weights is None else weights
    return made


def mine(data: dict[str, Any], width: int) -> torch.Tensor:
    one, two = Ragged(*data["a_ids"]), Ragged(*data["b_ids"])
    found = torch.full((len(one), KEPT), -1, dtype=torch.int32)
    on = one.flat.device
    a_text, b_text, english = (data[key].to(on) for key in ("a_text", "b_text", "english"))
    source = data["source"].to(on)
    asking, told_of = data["a_teacher"].to(on), data["b_teacher"].to(on)
    for number in range(len(data["sources"])):
        rows = (source == number).nonzero()[:, 0]
        if len(rows) < LEAST:
            continue
        flat, times, _ = two.take(rows)
        lengths = two.lengths[rows]
        in_how_many = torch.bincount(flat, minlength=width).float()
        rarity = torch.log1p((len(rows) - in_how_many + 0.5) / (in_how_many + 0.5))
        owner = torch.repeat_interleave(torch.arange(len(rows), device=on), lengths)
        long = torch.zeros(len(rows), device=on).index_add_(0, owner, times.float())
        damped = times + K1 * (1 - B + B * (long / long.mean())[owner])
        rare = rarity[flat.long()]
        passages = of_rows(two, rows, rare * times * (K1 + 1) / damped, width)
        norms = torch.zeros(len(rows), device=on).index_add_(0, owner, rare**2).sqrt()
        unit = rare / norms[owner]
        shapes = of_rows(two, rows, unit, width)
        starts = torch.cumsum(lengths, 0) - lengths
        for at in range(0, len(rows), AT_ONCE):
            some = rows[at : at + AT_ONCE]
            scores = passages @ columns(one, some, None, width)
            begin, end = int(starts[at]), int(starts[at] + lengths[at : at + AT_ONCE].sum())
            alike = shapes @ columns(two, some, unit[begin:end], width)
            scores[alike > ALIKE] = 0.0
            best, which = scores.T.contiguous().topk(min(CANDIDATES, len(rows)))
            chosen = rows[which]
            usable = (
                (best > 0)
                & (a_text[chosen] != a_text[some][:, None])
                & (b_text[chosen] != b_text[some][:, None])
            )
            asked = asking[some].float()
            right = (asked * told_of[some].float()).sum(-1)
            theirs = (told_of[chosen].float() * asked[:, None]).sum(-1)
            told = english[some][:, None] & english[chosen]
            usable &= ~(told & (theirs > right[:, None] - MARGIN))
            # The best of the usable ones, in their order.
            order = (~usable).int().argsort(dim=1, stable=True)[:, :KEPT]
            kept = torch.where(usable.gather(1, order), chosen.gather(1, order), -1)
            kept = F.pad(kept, (0, KEPT - kept.shape[1]), value=-1)
            found[some.cpu()] = kept.int().cpu()
    return found


def main() -> None:
    work = Path(sys.argv[1])
    began = time.time()
    data = torch.load(work / "prepared.pt", mmap=True)
    width = int(max(data["a_ids"][0].max(), data["b_ids"][0].max())) + 1
    with torch.inference_mode():
        found = mine(data, width)
    torch.save(found, work / "negatives.pt")
    filled = (found >= 0).sum(1)
    print(
        f"{(filled > 0).float().mean():.1%} of {len(found):,} pairs have hard negatives, "
        f"{(filled == KEPT).float().mean():.1%} all {KEPT}; {time.time() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
