"""The client's side of signing in at an issuer, for tests with a small issuer and with a real one.

Takes: a server that trusts the issuer, a store for the client's tokens, and what its browser does.
Gives: the authorization of the protocol's own client, and the answers to tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import anyio
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from serve.http.asking import Answer, Served
from serve.http.small_issuer import CALLBACK
from waiting import wait_for


def resource(served: Served) -> str:
    return f"{served.address}/mcp"


def challenge(answer: Answer) -> dict[str, str]:
    """The fields of ``WWW-Authenticate``."""
    header = answer.headers["www-authenticate"]
    assert header.startswith("Bearer ")
    return dict(re.findall(r'(\w+)="([^"]*)"', header))


def try_token(served: Served, token: str) -> Answer:
    """The answer to a search; wrong tokens must not come too fast."""

    def ask() -> Answer | None:
        answer = served.tool("search", token, query="harbour")
        return answer if answer.status != 429 else None

    answer: Answer = wait_for(ask, "another token may be tried")
    return answer


class Memory:
    """Keeps what the client gets, for one test."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def sign_in(
    served: Served, storage: Memory, browse: Callable[[str], dict[str, str]]
) -> OAuthClientProvider:
    """Return the authorization of a client whose browser visits an address with ``browse``.

    ``browse`` returns the fields with which the issuer comes back to the client.
    """
    answered: list[dict[str, str]] = []

    async def redirect(url: str) -> None:
        answered.append(await anyio.to_thread.run_sync(browse, url))

    async def call_back() -> AuthorizationCodeResult:
        fields = answered.pop()
        return AuthorizationCodeResult(
            code=fields["code"], state=fields["state"], iss=fields.get("iss")
        )

    about = OAuthClientMetadata.model_validate(
        {
            "client_name": "test",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
    )
    return OAuthClientProvider(resource(served), about, storage, redirect, call_back)
