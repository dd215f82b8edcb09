"""Packs to files and vectors: what is inside is read within its own sizes, or refused.

Takes: a manifest on the first line, and then the records as they are before compression; the hash
around them is right, because otherwise no input would get past it. Gives: the files and the bytes
of the vectors. Refuses: with ``InvalidArgument``.
"""

from __future__ import annotations

import io
import zlib
from hashlib import sha256

from fuzz.common import Target
from lookfar.errors import InvalidArgument
from lookfar.sources.pack_format import Body, PackReader

Files = list[tuple[str, str, bytes]]


def work(data: bytes) -> tuple[Files, bytes, int]:
    manifest, _, records = data.partition(b"\n")
    body = b"lookfar-pack 1\n" + manifest + b"\n" + zlib.compress(records, 1)
    whole = body + sha256(body).digest() + bytes(96)
    files: Files = []
    vectors = bytearray()

    def take(uri: str, url: str, size: int, body: Body) -> None:
        if size % 2:  # Also records that nobody reads.
            files.append((uri, url, body.read()))

    def take_vectors(body: Body) -> None:
        for piece in body.pieces(1_000):
            vectors.extend(piece)

    with PackReader("a.lookpack", io.BytesIO(whole)) as pack:
        pack.verify()
        pack.read(take, take_vectors)
        return files, bytes(vectors), pack.manifest.bytes


def check(data: bytes, result: tuple[Files, bytes, int]) -> None:
    files, vectors, size = result
    assert sum(len(content) for _, _, content in files) <= min(size, len(data))
    assert len(vectors) <= len(data)


TARGET = Target(
    work,
    check,
    refusals=(InvalidArgument,),
    words=(
        '{"bytes":4,"digest":"","dimensions":1,"fetched":"","files":1,"kind":"site","model":"",',
        '"model_name":"","name":"a","origin":"","vectors":0,"version":""}\n',
        '{"file":"a.md","size":3}\nabc', '{"file":"../a","size":1,"url":"http://a"}\n',
        '{"dimensions":1,"vectors":0}\n', "-1", "1e9", "281474976710655", "true", "null", "[[[",
        "\\ud800", "\n", "{}",
    ),
)  # fmt: skip
