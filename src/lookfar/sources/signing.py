"""Ed25519 signatures of packs, with the keys that ``ssh-keygen -t ed25519`` makes.

A user trusts a key by naming it in ``outside.trusted_keys``: the name, then the key as in a
``.pub`` file. Lookfar never makes, sends or stores a private key.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.errors import InvalidArgument, from_os_error
from lookfar.sources.pack_format import Sign, Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ALGORITHM: Final = "ssh-ed25519"
_PREFIX: Final = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"
"""What comes before the key itself in OpenSSH's format."""
_CONTEXT: Final = b"lookfar pack signature 1\n"
"""Comes before the hash, so that a signature is never valid for anything else."""
_LARGEST_KEY_FILE: Final = 100_000


def open_signer(path: str, ask_password: Callable[[], str]) -> Sign:
    """Return a function that signs with the private key in a file.

    ``ask_password`` is called if the key is encrypted.
    """
    key = _load_private_key(path, ask_password)
    public = key.public_key().public_bytes_raw()
    return lambda data: Signature(public, key.sign(_CONTEXT + data))


def _load_private_key(path: str, ask_password: Callable[[], str]) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_ssh_private_key,
    )

    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(_LARGEST_KEY_FILE)
    except FileNotFoundError as error:
        raise InvalidArgument(
            f"There is no key file {path}.",
            hint="Check the path. To make a key: ssh-keygen -t ed25519 -f FILE",
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading the key {path}") from error
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        try:
            key = load(data, None)
        except TypeError:  # It is encrypted.
            key = load(data, ask_password().encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidArgument(
            f"{path} cannot be read as a private key, or the password is wrong.",
            hint="Give the private key, not the .pub file."
            " To make one: ssh-keygen -t ed25519 -f FILE",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidArgument(
            f"{path} is not an Ed25519 key.", hint="To make one: ssh-keygen -t ed25519 -f FILE"
        )
    return key


def is_valid(signature: Signature, data: bytes) -> bool:
    """Return whether the owner of the key in a signature signed ``data``."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(signature.key)
        key.verify(signature.signature, _CONTEXT + data)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_trusted_keys(lines: Sequence[str]) -> dict[bytes, str]:
    """Return the names that the user gave the keys in ``outside.trusted_keys``."""
    return {key: name for name, key in map(parse_trusted_key, lines)}


def parse_trusted_key(line: str) -> tuple[str, bytes]:
    """Read ``NAME ssh-ed25519 AAAA...``; raise ``InvalidArgument`` for anything else."""
    name, _, key = line.strip().partition(" ")
    algorithm, _, encoded = key.strip().partition(" ")
    try:
        data = b64decode(encoded.split(" ")[0], validate=True)
    except (ValueError, binascii.Error):
        data = b""
    if not name or algorithm != _ALGORITHM or not data.startswith(_PREFIX) or len(data) != 51:
        raise InvalidArgument(
            f"outside.trusted_keys has an entry that is not a key: {line[:100]!r}.",
            hint="Write a name and an Ed25519 key, like: team ssh-ed25519 AAAAC3NzaC1lZDI1NTE5...",
        )
    return name, data[len(_PREFIX) :]


def write_public_key(key: bytes) -> str:
    """Return a key as a ``.pub`` file has it."""
    return f"{_ALGORITHM} {b64encode(_PREFIX + key).decode()}"


def describe_key(key: bytes) -> str:
    """Return the fingerprint of a key, as ``ssh-keygen -l`` shows it."""
    return f"SHA256:{b64encode(sha256(_PREFIX + key).digest()).decode().rstrip('=')}"
