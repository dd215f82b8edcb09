"""Tell credentials from placeholders, references and weak words.

Values that a reader would recognise as made up (``changeme``, ``<your-token>``, ``${TOKEN}``,
``AKIAIOSFODNN7EXAMPLE``) are placeholders.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from math import log2
from typing import Final

MASK: Final = "\u2588"
"""Replaces each character of a secret. The text analyser treats it as punctuation, so it cannot be
searched."""

_WEAK_WORDS: Final = frozenset(
    """
    a abc abcd abcde abcdef abcdefg abcdefgh access account activemq actual add admin admin1
    administrator alice an any anything apache api apikey app application asdf asdfasdf auth
    authorization aws backend bad bar base basic baz bearer blah blank bob bot bucket bytes
    cafebabe cassandra cat centos cert certificate change changed changeit changeme char
    characters chars ci client code config connection consul correct correcthorsebatterystaple
    cred credential credentials custom data database db deadbeef debian debug default demo dev
    development digit digits django do docker dragon drupal dummy elastic elasticsearch email
    empty encoded encrypted enter env environment etcd example examples fake false file fill
    fixme foo foobar for from generate generated get git github gitlab go goes good google
    grafana guest harbor hash hello here hidden hunter2 id iloveyou in influxdb insert
    invalid is it jane jdbc jenkins joe john joomla json jwt k8s kafka key keyboard keycloak
    keys kibana kube kubernetes laravel letmein letmein1 local localhost login long long-random
    look lorem mail manager masked master me memcached minio minio123 minioadmin mock mongo
    mongodb monkey mssql must my mypass mypassword mysecret mysql name need neo4j new nexus
    nginx nil no nobody nologin nomad none nope nosecret not notasecret nothing null number of
    off old on one only opensesame or oracle organization other our own owner p4ssw0rd p@ssw0rd
    p@ssword pa55w0rd pass passphrase passw0rd passwd password passwords passwort paste pat
    phrase pi place placeholder please postgres postgresql private prod production project
    provided public put pw pwd qwerty qwertyuiop rabbit rabbitmq rails random raspberry read
    readonly real redacted redis reference registry remote removed replace replaced replication
    repo required role root s3 s3cr3t s3cret sa salt sample sandbox sdk sec secret secretkey
    secrets secure see sensitive server service sesame session set setting shared sign signing
    skip some somepass something somevalue sonar staging strict string stripe strong stub sub
    super superpassword supersecret superuser swordfish team temp temporary test tester testing
    testkey testpass testpassword tests testtoken text that the this to todo token tokens tomcat
    top topsecret traefik true twilio type ubuntu undefined unknown unset unused updated use
    user username users using vagrant valid value values var variable vault via webhook welcome
    whatever with word wordpress wp write wrong www xxx yes you your yourpassword zero zookeeper
    """.split()
)

_TELLING: Final = re.compile(
    r"example|sample|placehold|change[-_ ]?(?:me|this|it)|replace[-_ ]?(?:me|this|with)|redacted"
    r"|dummy|insert[-_ ]|your[-_ .]?|fixme|todo|foobar|not[-_]?(?:a|so)?[-_]?(?:real|secret)"
    r"|fake|base64[-_]?enc|censored|masked|removed|scrubbed|obfuscated|xxxx|\*\*\*|\.\.\.|\u2026"
    r"|0123456|1234567|abcdefg|987654|deadbeef|cafebabe|lorem|invalid|bogus",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(
    r"[$%#@]?\{|\{\{|<%|%>|^\$|\$\(|^%|%[sdv(]|^<.*>$|^\[.*\]$|^[*&!~|>]|\(|\)|^@|^\*+$|^-+$"
    r"|^(?:vault|op|ssm|arn|secretsmanager|keyvault|gcp-secret|ref\+?\w*|env|file|sops|bws):"
    r"|^ENC\[|^AQICA|^\{(?:cipher|bcrypt|noop)\}|^process\.env|^os\.|^ENV\b|^var\.|^local\.|^data\."
    r"|^module\.|^\.|^/|^~/|\\\(|^::"
)
_WORDS: Final = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|\d+")
_CONSTANT: Final = re.compile(r"[A-Z][A-Z]*(?:_[A-Z]+)+")
_SCALAR: Final = re.compile(
    r"(?i)true|false|yes|no|on|off|null|nil|none|~|undefined|[-+]?[\d.,_]+(?:[a-z]{1,3}|%)?"
)
_KNOWN_IDS: Final = re.compile(
    r"(?:ami|subnet|vpc|sg|i|vol|snap|eni|rtb|igw|nat|eipalloc|lt|tgw|pcx|acl|vpce|fs|dopt)"
    r"-[0-9a-f]{8,17}|sha(?:256|384|512)[:-][A-Za-z0-9+/=]+|v?\d+(?:\.\d+)+(?:[-+.][\w.-]+)?"
)
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SEPARATORS: Final = re.compile(r"[-_./:\\\s,;=&?+@|'\"()\[\]]+")
_PLAIN_TOKEN: Final = re.compile(
    r"[A-Za-z]+\d{0,4}|v?\d+[A-Za-z]{0,2}|v\d+(?:alpha|beta|rc|dev|p)\d*|[A-Z]\d[A-Z][a-z]+(?:[A-Z][a-z]+)*"
)
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s:@]*(?::\d+)?(?:/[^\s@]*)?", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")
_PRINTABLE: Final = re.compile(rb"[\x20-\x7e\s]+")
_FEW: Final = 4
_LONGEST_JOINED: Final = 40


def entropy(value: str) -> float:
    """Return the Shannon entropy in bits per character."""
    total = len(value)
    return -sum(n / total * log2(n / total) for n in Counter(value).values()) if total else 0.0


@lru_cache(maxsize=4_096)
def _is_weak(word: str) -> bool:
    """Whether it is a weak word, or several of them joined, like ``badpass``."""
    if word in _WEAK_WORDS:
        return len(word) > 2
    return 6 <= len(word) <= _LONGEST_JOINED and any(
        word[:cut] in _WEAK_WORDS and _is_weak(word[cut:]) for cut in range(3, len(word) - 2)
    )


def is_placeholder(value: str) -> bool:
    """Whether a value is a placeholder, or too weak to be a real credential."""
    plain = value.strip()
    if len(plain) < _FEW or MASK in plain or _SCALAR.fullmatch(plain):
        return True
    if _TELLING.search(plain) or _REFERENCE.search(plain) or _CONSTANT.fullmatch(plain):
        return True
    if len(set(plain)) <= max(2, len(plain) // 8) or _is_sequence(plain):
        return True
    if plain.lower() in _WEAK_WORDS:
        return True
    words = [word.lower() for word in _WORDS.findall(plain) if not word.isdigit()]
    known = sum(len(word) for word in words if _is_weak(word))
    # A generated value has some pieces that are words by chance, and more that are not.
    return 2 * known >= len(plain) and all(len(word) < 3 or _is_weak(word) for word in words)


def is_made_up(token: str) -> bool:
    """Whether a token of a known shape is made up; weak words in it may be chance."""
    return (
        _TELLING.search(token) is not None
        or MASK in token
        or len(set(token)) <= max(4, len(token) // 8)
        or _is_sequence(token)
    )


def is_prose(value: str) -> bool:
    """Whether a value has several words, like a message."""
    return len(value.split()) > 1


def is_opaque(value: str, key: str = "") -> bool:
    """Whether a value looks generated: not a word, number, path, version or resource name."""
    plain = value.strip()
    if is_prose(plain) or is_placeholder(plain):
        return False
    if _KNOWN_IDS.fullmatch(plain) or _ADDRESS.fullmatch(plain):
        return False
    if _UUID.fullmatch(plain):
        return not key.lower().endswith("id")
    return any(
        len(token) >= 8 and not _PLAIN_TOKEN.fullmatch(token) and not is_placeholder(token)
        for token in _SEPARATORS.split(plain)
    )


def decode_base64(value: str) -> str:
    """Decode a base64 value of a Kubernetes Secret; return other values unchanged."""
    if len(value) % 4 or not _BASE64.fullmatch(value):
        return value
    raw = b64decode(value)
    return raw.decode("ascii") if _PRINTABLE.fullmatch(raw) else value


def _is_sequence(value: str) -> bool:
    """Whether most characters follow their predecessor, as in ``123456`` and ``abcdef``."""
    steps = sum(0 <= ord(after) - ord(before) <= 1 for before, after in pairwise(value))
    return len(value) >= 6 and steps >= 0.6 * (len(value) - 1)
