"""Models behind an HTTP service with OpenAI's API: ``POST BASE/embeddings``.

The key is read from the environment only, is never in an error, a log or a fingerprint, and is
not sent unencrypted to another machine. Redirects are not followed.

Transient failures (too many requests, server errors, lost connections) are retried with growing
pauses. A question does not wait that long: after a failure the service is not called for a while,
and questions are answered by keywords.
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
from lookfar.embed.local import SingleModel, normalise_rows
from lookfar.errors import ModelUnavailable

if TYPE_CHECKING:
    import httpx2
    from numpy.typing import NDArray

    from lookfar.config import EmbedSettings

_OPENAI = "api.openai.com"
_TRANSIENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_TOO_LONG = frozenset((400, 413, 422))
_DEFAULT_TOKENS = 8000
_BYTES_PER_TOKEN = 3
_MIN_BYTES = 256
_QUERY_SECONDS = 10.0
_PAUSE_SECONDS = 30.0
_MAX_CACHED_QUERIES = 256
_MAX_MESSAGE = 200
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_VERSION = "remote 1"
"""Increase whenever the same settings would give other vectors."""


class RemoteEmbedder(SingleModel):
    """One model of one service. Thread-safe."""

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
        self._reject_unencrypted_key()
        self._actual_dimensions = 0
        self._lock = Lock()
        self._paused_until = 0.0
        self._last_error: ModelUnavailable | None = None
        self._queries: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    @property
    def name(self) -> str:
        return f"remote/{self._model}"

    @property
    def dimensions(self) -> int:
        """As set; otherwise as the service returns them, which takes one request."""
        if self._settings.dimensions:
            return self._settings.dimensions
        if not self._actual_dimensions:
            self._request(["dimensions"], retries=self._settings.retries)
        return self._actual_dimensions

    @property
    def fingerprint(self) -> str:
        """Computed without a request, so that an index can be checked offline."""
        settings = self._settings
        parts = (
            _VERSION,
            self._base,
            self._model,
            settings.dimensions,
            self._prefixes,
            self._max_bytes,
        )
        digest = sha256(repr(parts).encode()).hexdigest()[:16]
        return f"{self.name}:{settings.dimensions or 'own'}:{digest}"

    @property
    def _prefixes(self) -> tuple[str, str]:
        query, passage = self._settings.query_prefix, self._settings.passage_prefix
        return ("" if query == "auto" else query, "" if passage == "auto" else passage)

    @property
    def _max_bytes(self) -> int:
        """Longer texts are truncated; by bytes, because the service's tokenizer is unknown."""
        return _BYTES_PER_TOKEN * (self._settings.max_tokens or _DEFAULT_TOKENS)

    def count_tokens(self, text: str) -> int:
        """Estimate: four ASCII characters per token, or two others."""
        ascii_ = len(text.encode("ascii", "ignore"))
        return -(-ascii_ // 4) + -(-(len(text) - ascii_) // 2)

    # -- texts to vectors ----------------------------------------------------

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        passages = [(self._prefixes[1] + text) if text.strip() else "" for text in texts]
        paused = time.monotonic() < self._paused_until
        return self._embed(passages, 0 if paused else self._settings.retries)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        query = self._prefixes[0] + text
        with self._lock:
            cached = self._queries.get(query)
            if cached is not None:
                self._queries.move_to_end(query)
                return cached
            if self._last_error is not None and time.monotonic() < self._paused_until:
                raise self._last_error
        try:
            vector: NDArray[np.float32]
            vector = self._embed([query], min(1, self._settings.retries), _QUERY_SECONDS)[0]
        except ModelUnavailable as error:
            self._last_error, self._paused_until = error, time.monotonic() + _PAUSE_SECONDS
            raise
        self._last_error = None
        with self._lock:
            self._queries[query] = vector
            while len(self._queries) > _MAX_CACHED_QUERIES:
                self._queries.popitem(last=False)
        return vector

    def _embed(
        self, texts: Sequence[str], retries: int, timeout: float | None = None
    ) -> NDArray[np.float32]:
        # Services reject empty texts; their vector is zero.
        filled = [index for index, text in enumerate(texts) if text]
        parts: list[NDArray[np.float32]] = []
        size = self._settings.request_batch
        for start in range(0, len(filled), size):
            batch = [_truncate(texts[i], self._max_bytes) for i in filled[start : start + size]]
            parts.append(self._request_shortened(batch, retries, timeout))
        vectors = np.zeros((len(texts), self.dimensions if texts else 0), dtype=np.float32)
        if filled:
            vectors[filled] = np.concatenate(parts)
        return normalise_rows(vectors)

    def _request_shortened(
        self, texts: Sequence[str], retries: int, timeout: float | None
    ) -> NDArray[np.float32]:
        """Send a request; if a text is too long for the service, halve it until it fits."""
        try:
            return self._request(texts, retries=retries, timeout=timeout)
        except _Rejected as rejected:
            if len(texts) > 1:
                rows = [self._request_shortened([text], retries, timeout) for text in texts]
                return np.concatenate(rows)
            size = len(texts[0].encode("utf-8", "replace"))
            if size <= _MIN_BYTES:
                raise self._failed(rejected.reason, rejected.status) from rejected
            return self._request_shortened([_truncate(texts[0], size // 2)], retries, timeout)

    def _request(
        self, texts: Sequence[str], *, retries: int, timeout: float | None = None
    ) -> NDArray[np.float32]:
        import httpx2

        body: dict[str, Any] = {
            "model": self._model,
            "input": list(texts),
            "encoding_format": "float",
        }
        if self._settings.dimensions:
            body["dimensions"] = self._settings.dimensions
        limit = min(timeout or float("inf"), self._settings.timeout_seconds)
        for attempt in range(retries + 1):
            after = 0.0
            try:
                answer = self._client.post(
                    f"{self._base}/embeddings", json=body, headers=self._headers(), timeout=limit
                )
            except httpx2.TimeoutException:
                failure = self._failed(f"no answer within {limit:g} seconds")
            except httpx2.HTTPError as error:
                failure = self._failed(self._without_key(str(error)) or type(error).__name__)
            else:
                if answer.status_code not in _TRANSIENT:
                    return self._parse(answer, len(texts))
                after = retry_after(answer.headers)
                failure = self._failed(self._describe_error(answer), answer.status_code)
            if attempt < retries:
                self._sleep(pause(attempt, after))
        raise failure

    def _parse(self, answer: httpx2.Response, count: int) -> NDArray[np.float32]:
        status = answer.status_code
        if status in _TOO_LONG:
            raise _Rejected(self._describe_error(answer), status)
        if status != 200:
            raise self._failed(self._describe_error(answer), status)
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            if [row["index"] for row in rows] != list(range(count)):
                raise ValueError(f"{len(rows)} vectors for {count} texts")
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (ValueError, KeyError, TypeError) as error:
            reason = f"its answer is invalid ({type(error).__name__}: {str(error)[:_MAX_MESSAGE]})"
            raise self._failed(self._without_key(reason)) from error
        return self._check(vectors)

    def _check(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise self._failed("it returned no vectors, or NaN")
        expected = self._settings.dimensions or self._actual_dimensions or vectors.shape[1]
        if vectors.shape[1] != expected:
            raise ModelUnavailable(
                f"The model {self._model} returned vectors of {vectors.shape[1]} dimensions instead"
                f" of {expected}.",
                hint="Set embed.dimensions to a length that the model supports, or to 0.",
                details={"model": self._model, "found": vectors.shape[1], "wanted": expected},
            )
        self._actual_dimensions = vectors.shape[1]
        return vectors

    # -- the service ---------------------------------------------------------

    @cached_property
    def _client(self) -> httpx2.Client:
        import httpx2

        # Ignores the environment: a proxy or certificate set there must not get the key.
        return httpx2.Client(follow_redirects=False)

    @property
    def _key_name(self) -> str:
        return self._settings.key_env or (config.OPENAI_KEY if self._host == _OPENAI else "")

    def _key(self) -> str:
        if self._key_name == config.OPENAI_KEY and self._settings.key:
            return self._settings.key
        return config.read_secret(self._key_name) if self._key_name else ""

    def _headers(self) -> dict[str, str]:
        key = self._key()
        if self._key_name and not key:
            raise ModelUnavailable(
                f"The variable {self._key_name} with the key for {self._host} is not set.",
                hint=f"Set {self._key_name}, or set embed.key_env to another variable.",
                details={"variable": self._key_name},
            )
        try:
            key.encode("ascii")
        except UnicodeEncodeError as error:
            raise ModelUnavailable(
                f"The value of {self._key_name} is not a valid key.",
                hint=f"Set {self._key_name} to the key of the service.",
            ) from error
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _reject_unencrypted_key(self) -> None:
        if self._key_name and self._base.startswith("http:") and self._host not in _LOOPBACK:
            raise ModelUnavailable(
                f"The key would be sent to {self._host} unencrypted.",
                hint="Use https in embed.base_url, or leave embed.key_env empty.",
                details={"host": self._host},
            )

    def _describe_error(self, answer: httpx2.Response) -> str:
        """Return the service's error message on one line, without our key."""
        try:
            body = answer.json()
            error = body.get("error", body)
            text = str(error.get("message", error) if isinstance(error, dict) else error)
        except (ValueError, AttributeError):
            text = answer.text
        words = " ".join(self._without_key(text).split())[:_MAX_MESSAGE]
        return f"{answer.status_code}{': ' if words else ''}{words}"

    def _without_key(self, text: str) -> str:
        key = self._key()
        return text.replace(key, "***") if key else text

    def _failed(self, reason: str, status: int = 0) -> ModelUnavailable:
        hint = {
            401: f"Check the key in {self._key_name or 'the variable that embed.key_env names'}.",
            403: "The key has no access to this model: choose another model or key.",
            404: f"Check embed.base_url, and that the service has the model {self._model}.",
            429: "Too many requests: wait, or ask the provider for a higher limit.",
        }.get(status, f"Check embed.base_url, and that the service at {self._host} is running.")
        return ModelUnavailable(
            f"The model {self._model} of {self._host} cannot be used: {reason}.",
            hint=hint,
            details={"model": self._model, "host": self._host, "status": status},
        )


class _Rejected(Exception):
    """The service rejected the request, possibly because a text is too long."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


def _truncate(text: str, max_bytes: int) -> str:
    """Truncate to at most ``max_bytes`` of UTF-8, between characters."""
    raw = text.encode("utf-8", "replace")
    return raw[:max_bytes].decode("utf-8", "ignore")
