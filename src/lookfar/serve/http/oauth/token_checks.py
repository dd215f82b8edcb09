"""Check a bearer token: a JWT that the configured issuer signed for this server.

Takes a token and returns its claims. Refuses tokens that are not signed by a key of the issuer with
one of the allowed algorithms, which are all asymmetric, that are expired or not valid yet, that are
for another audience or of another issuer, that are bound to a key of their client, or that are
another kind of JWT than an access token. Messages never contain the token itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lookfar.serve.http.oauth.addresses import canonicalise
from lookfar.serve.http.oauth.issuer import IssuerKeys

LEEWAY_SECONDS: Final = 30
"""How much the clocks of the issuer and of this machine may differ."""
_MAX_LENGTH: Final = 16 * 1024
_MALFORMED: Final = "The token is malformed."
_TYPES: Final = frozenset(("jwt", "at+jwt", "application/at+jwt"))


class Refused(Exception):
    """A token is not valid; says why, in words for its client."""

    def __init__(self, reason: str, *, signed: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.signed = signed
        """Whether the signature is the issuer's, so the token was not guessed."""


class Verifier:
    """Checks the tokens of one issuer."""

    def __init__(
        self, keys: IssuerKeys, issuer: str, audiences: Iterable[str], algorithms: Iterable[str]
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audiences = frozenset(canonicalise(audience) for audience in audiences)
        self._algorithms = frozenset(algorithms)

    async def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token, or raise ``Refused``."""
        import jwt

        algorithm, key_id = self._read_header(token)
        key = await self._keys.find(key_id, algorithm)
        if key is None:
            raise Refused("The token is not signed with a key of the issuer.")
        try:
            claims = jwt.decode(
                token,
                key.public,
                algorithms=[algorithm],
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                # Audiences are compared below, as addresses.
                options={"require": ["exp", "iss", "aud"], "verify_aud": False},
            )
        except jwt.ExpiredSignatureError:
            raise Refused("The token has expired.", signed=True) from None
        except jwt.ImmatureSignatureError:
            raise Refused("The token is not valid yet.", signed=True) from None
        except jwt.InvalidIssuerError:
            raise Refused("The token is from another issuer.", signed=True) from None
        except jwt.MissingRequiredClaimError as error:
            raise Refused(f"The token has no {error.claim}.", signed=True) from None
        except jwt.InvalidSignatureError:
            raise Refused("The signature of the token is wrong.") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
            raise Refused(_MALFORMED) from None
        self._check_claims(claims)
        return claims

    def _read_header(self, token: str) -> tuple[str, str | None]:
        """Return the algorithm and the ID of the key; nothing of this is trusted yet."""
        import jwt

        if len(token) > _MAX_LENGTH or not token.isascii():
            raise Refused("The token is wrong.")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise Refused("The token is wrong.") from None
        algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise Refused("The token is not signed with an accepted algorithm.")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise Refused("The token is not an access token.")
        if "crit" in header or not (key_id is None or isinstance(key_id, str)):
            raise Refused("The header of the token is not understood.")
        return algorithm, key_id

    def _check_claims(self, claims: Mapping[str, Any]) -> None:
        try:
            float(claims["exp"])
        except OverflowError:  # The number is too large for a time.
            raise Refused(_MALFORMED, signed=True) from None
        audience = claims["aud"]
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or not any(
            isinstance(name, str) and canonicalise(name) in self._audiences for name in audiences
        ):
            raise Refused("The token is for another audience.", signed=True)
        if claims.get("cnf") is not None:
            # DPoP or mutual TLS: used as a plain bearer token, it may be stolen.
            raise Refused(
                "The token is bound to a key, which this server cannot check.", signed=True
            )
