"""Which hosts may be contacted: public addresses only, unless the user allows others.

A fetch that a stranger can redirect must not reach services of this machine or its network, such
as a router or a cloud's metadata service. The addresses found here are those to connect to: a name
that is looked up again could mean another host by then.
"""

from __future__ import annotations

import ipaddress
import socket

from lookfar.errors import IOFailed, PermissionDenied


def find_addresses(host: str, port: int, *, allow_private: bool = False) -> list[str]:
    """Return the addresses of a host; raise ``PermissionDenied`` if one of them is not public."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise IOFailed(
            f"{host} was not found.",
            hint="Check the address and the connection to the network.",
            developer=str(error),
        ) from error
    addresses = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    for address in () if allow_private else addresses:
        if not is_public(address):
            raise PermissionDenied(
                f"{host} is at {address}, which is not a public address.",
                hint="If you trust it, set outside.allow_private to true.",
                details={"host": host, "address": address},
            )
    return addresses


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        # These contain an IPv4 address, which decides.
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is None and parsed in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)
        if inner is not None:
            parsed = inner
        elif parsed not in _ASSIGNED:
            return False  # Such as site-local and IPv4-compatible addresses.
    return parsed.is_global and not parsed.is_multicast


_ASSIGNED = ipaddress.IPv6Network("2000::/3")
"""The only IPv6 addresses that are assigned to hosts on the internet."""
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv6 addresses that a network translates to IPv4 (NAT64)."""
