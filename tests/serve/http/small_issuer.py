"""A small issuer on loopback: real keys, real signatures, discovery, keys and the whole code flow.

Gives: :class:`Issuer`, which signs whatever a test asks for, and answers over HTTP as an
authorization server with PKCE, resource indicators and dynamic registration of clients.
Refuses: a code or a verifier that is wrong.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from waiting import DEADLINE

CALLBACK = "http://127.0.0.1/callback"


@dataclass
class SigningKey:
    """A key pair with its ID."""

    id: str
    private: Any
    algorithm: str

    @classmethod
    def make(cls, key_id: str, algorithm: str = "ES256") -> SigningKey:
        if algorithm.startswith("ES"):
            return cls(key_id, ec.generate_private_key(ec.SECP256R1()), algorithm)
        return cls(key_id, rsa.generate_private_key(65537, 2048), algorithm)

    @property
    def published(self) -> dict[str, Any]:
        made: Any = jwt.get_algorithm_by_name(self.algorithm)
        shape: dict[str, Any] = made.to_jwk(self.private.public_key(), as_dict=True)
        return {**shape, "kid": self.id, "use": "sig", "alg": self.algorithm}

    @property
    def public_pem(self) -> bytes:
        found: bytes = self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return found


@dataclass
class Issuer:
    url: str = ""
    keys: list[SigningKey] = field(default_factory=list)
    documents: dict[str, Any] = field(default_factory=dict)
    """What is answered by path instead of the usual documents: JSON, or a status with headers."""
    requests: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    scopes: list[str] = field(default_factory=list)
    """The scopes that were asked for, in order."""
    lifetime: int = 300

    def token(
        self,
        audience: Any,
        scope: str | None = "lookfar:read",
        *,
        key: SigningKey | None = None,
        headers: Mapping[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """A signed access token; a claim that is ``None`` is left away."""
        key = key or self.keys[0]
        now = int(time.time())
        usual = {
            "iss": self.url, "aud": audience, "sub": "ana", "client_id": "test", "scope": scope,
            "iat": now, "exp": now + self.lifetime,
        }  # fmt: skip
        payload = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        header = {"kid": key.id, "typ": "at+jwt", **(headers or {})}
        return jwt.encode(payload, key.private, key.algorithm, headers=header)

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    def answer(self, path: str, query: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        if path in self.documents:
            given = self.documents[path]
            return given if isinstance(given, tuple) else (200, {}, given)
        fields = {name: values[0] for name, values in parse_qs(query).items()}
        if path == "/.well-known/oauth-authorization-server":
            return 200, {}, self.metadata
        if path == "/keys":
            return 200, {}, {"keys": [key.published for key in self.keys]}
        if path == "/register":
            return 201, {}, {**json.loads(body), "client_id": secrets.token_hex(8)}
        if path == "/authorize":
            code = secrets.token_hex(8)
            self.codes[code] = fields
            self.scopes.append(fields.get("scope", ""))
            back = urlencode({"code": code, "state": fields["state"], "iss": self.url})
            return 302, {"Location": f"{fields['redirect_uri']}?{back}"}, {}
        if path == "/token":
            return self.redeem({name: value[0] for name, value in parse_qs(body.decode()).items()})
        return 404, {}, {}

    def redeem(self, given: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        asked = self.codes.pop(given["code"])
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        assert given["resource"] == asked["resource"]
        token = self.token(given["resource"], asked["scope"], client_id=given["client_id"])
        shape = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        return 200, {}, {**shape, "scope": asked["scope"]}


def forge(token: str, key: bytes | None) -> str:
    """The same claims as HS256 with a key that was meant for something else, or unsigned."""
    header, payload, _ = token.split(".")
    fields = jwt.get_unverified_header(token)
    header = _encode({**fields, "alg": "HS256" if key else "none"})
    signed = f"{header}.{payload}".encode()
    signature = hmac.new(key, signed, hashlib.sha256).digest() if key else b""
    return f"{header}.{payload}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def _encode(shape: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(shape).encode()).decode().rstrip("=")


@contextmanager
def issuing(*keys: SigningKey) -> Iterator[Issuer]:
    """An issuer with these keys, at a free port."""
    issuer = Issuer(keys=list(keys))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            issuer.requests.append(parts.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, shape = issuer.answer(parts.path, parts.query, body)
            sent = shape if isinstance(shape, bytes) else json.dumps(shape).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield issuer
        finally:
            server.shutdown()


def read_location(url: str) -> tuple[str, dict[str, str]]:
    """Where a redirect leads, and with which fields."""
    import http.client

    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=DEADLINE)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    target = response.headers["Location"] or ""
    connection.close()
    fields = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
    return target, fields
