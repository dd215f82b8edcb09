"""The server as an OAuth 2.1 resource server, as MCP defines it.

Publishes the metadata of the protected resource (RFC 9728), names in ``WWW-Authenticate`` the
address of this metadata and the scopes that are needed, and turns a token of the issuer into a
grant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lookfar.config import ServeSettings
from lookfar.errors import InvalidConfig
from lookfar.serve.http.grants import Grant, Owner, WriteHelp
from lookfar.serve.http.oauth.addresses import canonicalise, check_address, is_loopback, origin
from lookfar.serve.http.oauth.issuer import FAMILIES, IssuerKeys
from lookfar.serve.http.oauth.token_checks import LEEWAY_SECONDS, Refused, Verifier
from lookfar.serve.http.oauth.token_scopes import name_write_scopes, read_scopes, resolve_reach
from lookfar.serve.http.statuses import ScopeTooSmall, json_response

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_LONGEST_CLIENT: Final = 100


class SignIn:
    """Checks the tokens of an issuer, and says how to get one."""

    def __init__(self, settings: ServeSettings, address: str) -> None:
        """``address`` is that of the MCP endpoint, as clients on this machine see it."""
        self.issuer = settings.oauth_issuer
        self.resource = _resolve_resource(settings, address)
        self._parts = check_address("oauth_resource", self.resource)
        self._prefix = settings.oauth_scope_prefix
        self._scopes = settings.oauth_scopes or (f"{self._prefix}read",)
        _check_scopes((self._prefix, *self._scopes))
        self.keys = IssuerKeys(self.issuer, settings.oauth_jwks_url)
        self._verifier = Verifier(
            self.keys,
            self.issuer,
            (settings.oauth_audience or self.resource,),
            _check_algorithms(settings.oauth_algorithms),
        )

    @property
    def host(self) -> str:
        """The host that clients name, without its port; an IPv6 address in brackets."""
        name = self._parts.hostname or ""
        return f"[{name}]" if ":" in name else name

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the metadata: that of the resource, and the one of the whole server."""
        return frozenset((WELL_KNOWN, f"{WELL_KNOWN}{self._parts.path.rstrip('/')}"))

    def routes(self) -> list[Route]:
        return [Route(path, self._send_metadata) for path in sorted(self.paths)]

    async def check(self, token: str) -> Grant:
        """Return what a token allows; raise ``Refused``, or ``ScopeTooSmall`` if it is nothing."""
        claims = await self._verifier.verify(token)
        subject, client_id = _read_owner(claims)
        reach = resolve_reach(read_scopes(claims), self._prefix)
        if reach is None:
            raise self._make_scope_error()
        return Grant(
            client=(subject or client_id)[:_LONGEST_CLIENT],
            owner=Owner(client_id, self.issuer, subject),
            may_write=reach.may_write,
            collections=reach.collections,
            writable=reach.writable,
            expires=float(claims["exp"]) + LEEWAY_SECONDS,
            explain_write=lambda folder: self._explain_write(
                (folder,) if folder else reach.collections
            ),
        )

    def challenge(self, reason: str = "") -> str:
        """Return the ``WWW-Authenticate`` header of a 401; ``reason`` if a token was refused."""
        refusal = (("error", "invalid_token"), ("error_description", reason)) if reason else ()
        return _format_challenge(
            ("realm", "lookfar"),
            *refusal,
            ("scope", " ".join(self._scopes)),
            ("resource_metadata", self._metadata_url),
        )

    def _make_scope_error(self) -> ScopeTooSmall:
        needed = " ".join(self._scopes)
        error = ScopeTooSmall(
            "The token gives access to nothing on this server.",
            hint=f"Request the scope {needed} from the issuer.",
        )
        error.challenge = self._make_scope_challenge(
            needed, "The token has none of this server's scopes."
        )
        return error

    def _explain_write(self, collections: Sequence[str]) -> WriteHelp:
        scope = name_write_scopes(collections, self._prefix)
        return WriteHelp(
            f"Request the scope {scope} from the issuer.",
            self._make_scope_challenge(scope, "This call makes changes."),
        )

    def _make_scope_challenge(self, scope: str, why: str) -> str:
        return _format_challenge(
            ("error", "insufficient_scope"),
            ("scope", scope),
            ("resource_metadata", self._metadata_url),
            ("error_description", why),
        )

    @property
    def _metadata_url(self) -> str:
        return f"{origin(self._parts)}{WELL_KNOWN}{self._parts.path.rstrip('/')}"

    async def _send_metadata(self, _: Request) -> Response:
        shape = {
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "scopes_supported": list(self._scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": "Lookfar",
        }
        return json_response(shape, headers={"Cache-Control": "max-age=300"})


def _resolve_resource(settings: ServeSettings, address: str) -> str:
    if settings.oauth_resource:
        return canonicalise(settings.oauth_resource)
    if not is_loopback(settings.host):
        raise InvalidConfig(
            "serve.oauth_issuer needs serve.oauth_resource: the address that clients use.",
            hint="For example: --set serve.oauth_resource=https://docs.example.org/mcp",
            details={"key": "serve.oauth_resource"},
        )
    return canonicalise(address)


def _check_algorithms(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise InvalidConfig(
            "serve.oauth_algorithms is empty, so no token could be accepted.",
            hint=f"Name at least one of: {', '.join(FAMILIES)}.",
            details={"key": "serve.oauth_algorithms"},
        )
    for name in names:
        if name not in FAMILIES:
            raise InvalidConfig(
                f"serve.oauth_algorithms must not contain {name[:20]!r}.",
                hint=f"Use asymmetric algorithms: {', '.join(FAMILIES)}.",
                details={"key": "serve.oauth_algorithms"},
            )
    return names


def _check_scopes(texts: tuple[str, ...]) -> None:
    for text in texts:
        # They become part of a header.
        if not text or any(not "!" <= letter <= "~" or letter in '"\\' for letter in text):
            raise InvalidConfig(
                "serve.oauth_scopes or serve.oauth_scope_prefix contains a character that scopes"
                " cannot have.",
                hint="Use letters, digits, colons, dots, hyphens and underscores.",
            )


def _read_owner(claims: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the subject and the client of a token; refuse one that names neither."""
    subject = claims.get("sub")
    client = next((claims[name] for name in ("client_id", "azp", "cid") if name in claims), "")
    if not isinstance(subject, str | None) or not isinstance(client, str):
        raise Refused("The token names no user and no client.", signed=True)
    if not subject and not client:
        raise Refused("The token names no user and no client.", signed=True)
    return subject or None, client


def _format_challenge(*pairs: tuple[str, str]) -> str:
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in pairs)
