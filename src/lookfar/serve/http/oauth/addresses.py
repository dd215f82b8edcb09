"""Addresses of the issuer and of this server, as the settings give them."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import SplitResult, urlsplit

from lookfar.errors import InvalidConfig

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def check_address(key: str, url: str) -> SplitResult:
    """Return the parts of an address in the setting ``serve.KEY``."""
    try:
        return split_address(url)
    except ValueError as error:
        raise InvalidConfig(
            f"serve.{key} {error}.",
            hint=f"For example: lookfar config set serve.{key} https://example.org",
            details={"key": f"serve.{key}"},
        ) from None


def split_address(url: str) -> SplitResult:
    """Return the parts of an address: HTTPS, or HTTP on this machine, without user or query.

    Raises ``ValueError`` that says what is wrong with it.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("is not a valid URL") from None
    if parts.scheme not in _DEFAULT_PORTS or not host or not url.isascii() or " " in url:
        raise ValueError("is not an HTTP or HTTPS URL")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("must begin with https://; plain HTTP is for this machine only")
    if parts.username is not None or parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("must not contain a user, a query or a fragment")
    return parts


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def canonicalise(url: str) -> str:
    """Return an address in the form in which two of them are compared.

    Scheme and host in lower case, without the default port and without a slash at the end. Other
    names, and addresses with a user, a fragment or white space, are returned unchanged.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return url
    # Parsing drops these, so two different addresses could look the same.
    if "#" in url or "@" in parts.netloc or any(letter <= " " for letter in url):
        return url
    return f"{origin(parts, port)}{parts.path.rstrip('/')}{'?' * bool(parts.query)}{parts.query}"


def origin(parts: SplitResult, port: int | None = None) -> str:
    """Return scheme, host and port."""
    port = port if port is not None else parts.port
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    explicit = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{name}{explicit}"
