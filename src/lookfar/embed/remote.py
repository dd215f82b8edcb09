"""Models behind an HTTP service that speaks as OpenAI's does: ``POST BASE/embeddings``.

Takes: the address, a model's name and, from the environment alone, a key. Gives: unit vectors in
the order of the texts. Refuses: answers that are not what was asked for (too few, of another
length, numbers that are none), to follow redirects, and to send a key unencrypted to another
machine. The key stands in no error, no log and no fingerprint.

What may pass (too many requests, a server in trouble, a lost connection) is tried again, longer
apart each time. A question does not wait so long: after a failure the service is left alone for
a while, and questions are answered by words.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from lookfar import config
from lookfar.embed.hub import pause, retry_after
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    import httpx2
    from numpy.typing import NDArray

    from lookfar.config import EmbedSettings

_OPENAI = "api.openai.com"
_OPENAI_KEY = "OPENAI_API_KEY"
_TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_TOO_LONG = frozenset((400, 413, 422))
_USUAL_TOKENS = 8000
_BYTES_PER_TOKEN = 3
_LEAST_BYTES = 256
_QUERY_SECONDS = 10.0
_REST_SECONDS = 30.0
_REMEMBERED_QUERIES = 256
_SHOWN = 200
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_VERSION = "remote 1"
"""Raise whenever the same settings would give other vectors."""


class RemoteEmbedder:
    """One model of one service. May be shared by threads."""

    quick = False

    def __init__(
        self,
        settings: EmbedSettings,
        model: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._model = model
        self._sleep = sleep
        self._base = settings.base_url.rstrip("/")
        self._host = urlsplit(self._base).hostname or ""
        self._refuse_plain_key()
        self._found = 0
        self._asking = Lock()
        self._rests_until = 0.0
        self._trouble: ModelUnavailable | None = None
        self._queries: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    @property
    def name(self) -> str:
        return f"remote/{self._model}"

    @property
    def dimensions(self) -> int:
        """As asked for; else as the service shows them, which takes a request once."""
        if self._settings.dimensions:
            return self._settings.dimensions
        if not self._found:
            self._request(["dimensions"], retries=self._settings.retries)
        return self._found

    @property
    def fingerprint(self) -> str:
        """Made without a request: whoever is offline must still know whether an index fits."""
        chosen = self._settings
        parts = (_VERSION, self._base, self._model, chosen.dimensions, self._prefixes, self._bytes)
        digest = sha256(repr(parts).encode()).hexdigest()[:16]
        return f"{self.name}:{chosen.dimensions or 'own'}:{digest}"

    @property
    def _prefixes(self) -> tuple[str, str]:
        query, passage = self._settings.query_prefix, self._settings.passage_prefix
        return ("" if query == "auto" else query, "" if passage == "auto" else passage)

    @property
    def _bytes(self) -> int:
        """Texts are cut to so many bytes, as nobody here knows the service's tokens."""
        return _BYTES_PER_TOKEN * (self._settings.max_tokens or _USUAL_TOKENS)

    def count_tokens(self, text: str) -> int:
        """An estimate: four letters to a token, two where they are not ASCII."""
        ascii_ = len(text.encode("ascii", "ignore"))
        return -(-ascii_ // 4) + -(-(len(text) - ascii_) // 2)

    # -- texts to vectors ----------------------------------------------------

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        said = [(self._prefixes[1] + text) if text.strip() else "" for text in texts]
        rests = time.monotonic() < self._rests_until
        return self._embed(said, 0 if rests else self._settings.retries)

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        asked = self._prefixes[0] + text
        with self._asking:
            known = self._queries.get(asked)
            if known is not None:
                self._queries.move_to_end(asked)
                return known
            if self._trouble is not None and time.monotonic() < self._rests_until:
                raise self._trouble
        try:
            vector: NDArray[np.float32]
            vector = self._embed([asked], min(1, self._settings.retries), _QUERY_SECONDS)[0]
        except ModelUnavailable as error:
            self._trouble, self._rests_until = error, time.monotonic() + _REST_SECONDS
            raise
        self._trouble = None
        with self._asking:
            self._queries[asked] = vector
            while len(self._queries) > _REMEMBERED_QUERIES:
                self._queries.popitem(last=False)
        return vector

    def _embed(
        self, texts: Sequence[str], retries: int, timeout: float | None = None
    ) -> NDArray[np.float32]:
        # A service refuses empty texts; to us they are near to nothing.
        wanted = [at for at, text in enumerate(texts) if text]
        parts: list[NDArray[np.float32]] = []
        most = self._settings.request_batch
        for start in range(0, len(wanted), most):
            some = [_cut(texts[at], self._bytes) for at in wanted[start : start + most]]
            parts.append(self._shortened(some, retries, timeout))
        vectors = np.zeros((len(texts), self.dimensions if texts else 0), dtype=np.float32)
        if wanted:
            vectors[wanted] = np.concatenate(parts)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def _shortened(
        self, texts: Sequence[str], retries: int, timeout: float | None
    ) -> NDArray[np.float32]:
        """A request; where one text is too long for the service, that one is cut until it fits."""
        try:
            return self._request(texts, retries=retries, timeout=timeout)
        except _Refused as refused:
            if len(texts) > 1:
                alone = [self._shortened([text], retries, timeout) for text in texts]
                return np.concatenate(alone)
            size = len(texts[0].encode("utf-8", "replace"))
            if size <= _LEAST_BYTES:
                raise self._failed(refused.why, refused.status) from refused
            return self._shortened([_cut(texts[0], size // 2)], retries, timeout)

    def _request(
        self, texts: Sequence[str], *, retries: int, timeout: float | None = None
    ) -> NDArray[np.float32]:
        import httpx2

        asked: dict[str, Any] = {
            "model": self._model,
            "input": list(texts),
            "encoding_format": "float",
        }
        if self._settings.dimensions:
            asked["dimensions"] = self._settings.dimensions
        longest = min(timeout or float("inf"), self._settings.timeout_seconds)
        for attempt in range(retries + 1):
            after = 0.0
            try:
                answer = self._client.post(
                    f"{self._base}/embeddings", json=asked, headers=self._headers(), timeout=longest
                )
            except httpx2.TimeoutException:
                trouble = self._failed(f"no answer within {longest:g} seconds")
            except httpx2.HTTPError as error:
                trouble = self._failed(self._scrubbed(str(error)) or type(error).__name__)
            else:
                if answer.status_code not in _TRANSIENT:
                    return self._read(answer, len(texts))
                after = retry_after(answer.headers)
                trouble = self._failed(self._said(answer), answer.status_code)
            if attempt < retries:
                self._sleep(pause(attempt, after))
        raise trouble

    def _read(self, answer: httpx2.Response, count: int) -> NDArray[np.float32]:
        status = answer.status_code
        if status in _TOO_LONG:
            raise _Refused(self._said(answer), status)
        if status != 200:
            raise self._failed(self._said(answer), status)
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            if [row["index"] for row in rows] != list(range(count)):
                raise ValueError(f"{len(rows)} vectors for {count} texts")
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (ValueError, KeyError, TypeError) as error:
            why = f"its answer makes no sense ({type(error).__name__}: {str(error)[:_SHOWN]})"
            raise self._failed(self._scrubbed(why)) from error
        return self._checked(vectors)

    def _checked(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise self._failed("it gives numbers that are none")
        wanted = self._settings.dimensions or self._found or vectors.shape[1]
        if vectors.shape[1] != wanted:
            raise ModelUnavailable(
                f"The model {self._model} gives vectors of {vectors.shape[1]} numbers, not of"
                f" {wanted}.",
                hint="Set embed.dimensions to a length that the model offers, or to 0 for its own.",
                details={"model": self._model, "found": vectors.shape[1], "wanted": wanted},
            )
        self._found = vectors.shape[1]
        return vectors

    # -- the service ---------------------------------------------------------

    @cached_property
    def _client(self) -> httpx2.Client:
        import httpx2

        # Nothing of the environment: a proxy or a certificate there is not ours to trust a key to.
        return httpx2.Client(follow_redirects=False)

    @property
    def _key_name(self) -> str:
        return self._settings.key_env or (_OPENAI_KEY if self._host == _OPENAI else "")

    def _key(self) -> str:
        return config.read_secret(self._key_name) if self._key_name else ""

    def _headers(self) -> dict[str, str]:
        key = self._key()
        if self._key_name and not key:
            raise ModelUnavailable(
                f"The variable {self._key_name} holds no key for {self._host}.",
                hint=f"Set {self._key_name}, or name another variable as embed.key_env.",
                details={"variable": self._key_name},
            )
        try:
            key.encode("ascii")
        except UnicodeEncodeError as error:
            raise ModelUnavailable(
                f"The variable {self._key_name} holds something that is no key.",
                hint=f"Set {self._key_name} to the key that the service gave you.",
            ) from error
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _refuse_plain_key(self) -> None:
        if self._key_name and self._base.startswith("http:") and self._host not in _LOOPBACK:
            raise ModelUnavailable(
                f"The key would be sent to {self._host} unencrypted.",
                hint="Use https in embed.base_url, or leave embed.key_env empty.",
                details={"host": self._host},
            )

    def _said(self, answer: httpx2.Response) -> str:
        """What a service says of an error, in a line and without our key."""
        try:
            told = answer.json()
            error = told.get("error", told)
            text = str(error.get("message", error) if isinstance(error, dict) else error)
        except (ValueError, AttributeError):
            text = answer.text
        words = " ".join(self._scrubbed(text).split())[:_SHOWN]
        return f"{answer.status_code}{': ' if words else ''}{words}"

    def _scrubbed(self, text: str) -> str:
        key = self._key()
        return text.replace(key, "***") if key else text

    def _failed(self, why: str, status: int = 0) -> ModelUnavailable:
        hint = {
            401: f"Check the key in {self._key_name or 'the variable that embed.key_env names'}.",
            403: "The key may not use this model: choose another, or another key.",
            404: f"Check embed.base_url, and that the service has the model {self._model}.",
            429: "Wait, or ask the provider for a higher limit: too many requests were made.",
        }.get(status, f"Check that the service at {self._host} runs: embed.base_url.")
        return ModelUnavailable(
            f"The model {self._model} of {self._host} cannot be used: {why}.",
            hint=hint,
            details={"model": self._model, "host": self._host, "status": status},
        )


class _Refused(Exception):
    """The service says that the request is wrong, which may be for the length of a text."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.why = why
        self.status = status


def _cut(text: str, most: int) -> str:
    """At most so many bytes of UTF-8, at a whole character."""
    raw = text.encode("utf-8", "replace")
    return raw[:most].decode("utf-8", "ignore")
