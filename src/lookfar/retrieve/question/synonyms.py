"""Synonyms and abbreviations in software, and those of the user; they do not chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from lookfar.errors import InvalidConfig
from lookfar.store.keywords.analyser import terms_of

_SHORT: Mapping[str, str] = {
    "a11y": "accessibility", "acl": "access permission", "admin": "administrator",
    "app": "application", "arch": "architecture", "arg": "argument parameter",
    "async": "asynchronous await", "attr": "attribute",
    "auth": "authentication authorization login", "authn": "authentication",
    "authz": "authorization", "autocomplete": "completion", "bool": "boolean", "btn": "button",
    "ca": "certificate authority", "cert": "certificate", "char": "character",
    "ci": "pipeline continuous integration", "cli": "command line", "cmd": "command",
    "concat": "concatenate", "conf": "configuration config", "config": "configuration settings",
    "conn": "connection", "const": "constant", "creds": "credentials", "ctx": "context",
    "db": "database", "decl": "declaration", "def": "definition", "del": "delete remove",
    "deps": "dependencies", "desc": "description", "dest": "destination", "dev": "development",
    "dict": "dictionary map", "dir": "directory folder", "distro": "distribution",
    "dns": "name resolution", "doc": "documentation", "docs": "documentation",
    "dom": "document object", "elem": "element", "enum": "enumeration", "env": "environment",
    "err": "error exception", "eval": "evaluate", "exec": "execute", "expr": "expression",
    "ext": "extension", "fmt": "format", "fn": "function", "fs": "filesystem", "func": "function",
    "gc": "garbage collection", "gpu": "graphics", "gui": "interface",
    "hex": "hexadecimal", "i18n": "internationalization localization", "iam": "identity access",
    "idx": "index", "img": "image", "impl": "implementation", "info": "information",
    "init": "initialize", "int": "integer", "iter": "iterator", "k8s": "kubernetes",
    "l10n": "localization", "lang": "language", "len": "length", "lib": "library",
    "max": "maximum", "mem": "memory", "mgmt": "management", "mgr": "manager",
    "min": "minimum", "misc": "miscellaneous", "ml": "machine learning", "msg": "message",
    "mutex": "lock", "ns": "namespace", "num": "number", "obj": "object",
    "observability": "monitoring metrics", "oop": "object-oriented", "os": "operating system",
    "param": "parameter argument", "perf": "performance", "perm": "permission", "pkg": "package",
    "pr": "pull request", "prereq": "prerequisite requirement", "prev": "previous",
    "prod": "production", "prop": "property", "pw": "password", "pwd": "password directory",
    "pvc": "persistentvolumeclaim volume", "rbac": "role access", "recv": "receive",
    "ref": "reference", "regex": "regular expression pattern", "repl": "interactive shell",
    "repo": "repository", "req": "request", "res": "response", "resp": "response",
    "sa": "serviceaccount", "spec": "specification", "sql": "database query",
    "src": "source", "ssl": "tls", "sso": "login", "std": "standard", "str": "string",
    "svc": "service", "sync": "synchronize", "sys": "system", "tls": "ssl certificate",
    "tmp": "temporary", "tz": "timezone", "ui": "interface", "util": "utility",
    "utils": "utilities", "val": "value", "var": "variable", "vm": "virtual machine",
    "ws": "websocket", "xhr": "request",
}  # fmt: skip
"""Abbreviations and what they stand for. A long form of one word also maps back."""

_ALIKE = (
    "api endpoint interface", "async concurrent", "await promise", "bug defect issue",
    "cache memoize", "callback handler", "cancel abort", "class type", "clone copy duplicate",
    "container pod", "crash panic abort", "create add make", "customize configure",
    "daemon service", "debug troubleshoot", "default fallback", "delete remove erase destroy",
    "deploy release rollout", "deprecated obsolete", "disable deactivate", "download fetch",
    "edit modify change update", "enable activate", "encrypt cipher", "error exception failure",
    "event signal", "exit quit stop", "export dump", "fast quick performance", "fetch retrieve get",
    "file document", "find search lookup", "folder directory", "hide conceal",
    "host node machine server", "immutable readonly frozen", "import load", "install setup",
    "job task", "kill terminate stop", "launch start run", "limit quota threshold",
    "link url hyperlink", "list enumerate show", "lock mutex", "log trace",
    "login signin authentication", "logout signout", "merge combine join", "method function",
    "migrate upgrade move", "mock stub fake", "monitor observe watch", "option flag setting",
    "parallel concurrent", "parse decode deserialize", "password secret credential",
    "permission privilege access", "plugin extension addon", "proxy gateway", "queue buffer",
    "random shuffle", "recover restore", "refresh reload", "rename move", "replace substitute swap",
    "restart reboot", "retry repeat", "rollback revert undo", "route path", "save store persist",
    "scale autoscale resize", "schedule cron", "select choose pick", "send transmit post",
    "serialize encode marshal", "slow latency", "sort order", "split divide separate",
    "test assert verify", "thread worker", "timeout deadline", "token credential", "trim strip",
    "upload send", "validate check verify", "version release",
)  # fmt: skip
"""Groups of synonyms; each word maps to the others of its group."""

_RELATED: Mapping[str, str] = {
    "api": "endpoint route http rest graphql request",
    "async": "await promise callback concurrent thread",
    "auth": "authentication authorize login session token",
    "config": "env settings options param",
    "db": "database sql mongo postgres redis cache",
    "err": "error exception catch throw fail handle",
    "fn": "function",
    "msg": "message",
    "test": "mock spec stub spy assert expect",
    "util": "utility",
}
"""Words of the same topic. They do not mean the same, so they are only used on request."""


Table = Mapping[str, tuple[str, ...]]
"""Terms of the index with their synonyms."""


def find_synonyms(
    terms: Sequence[str], own: Table, most: int = 10, *, related: bool = False
) -> dict[str, tuple[str, ...]]:
    """Return synonyms for each term, the user's own first, at most ``most`` in total.

    Terms take turns, so that the first word of a question does not use up the limit. With
    ``related``, words of the same topic count as synonyms.
    """
    tables = [own, _build_related(), build_table()] if related else [own, build_table()]
    asked = frozenset(terms)
    left: dict[str, list[str]] = {}
    for term in terms:
        others = dict.fromkeys(other for table in tables for other in table.get(term, ()))
        left[term] = [other for other in others if other not in asked]
    chosen: dict[str, list[str]] = {}
    used: set[str] = set()
    for turn in range(max(map(len, left.values()), default=0)):
        for term, candidates in left.items():
            if turn < len(candidates) and candidates[turn] not in used and len(used) < most:
                used.add(candidates[turn])
                chosen.setdefault(term, []).append(candidates[turn])
    return {term: tuple(synonyms) for term, synonyms in chosen.items()}


def find_spellings(term: str, own: Table) -> frozenset[str]:
    """Return the other spellings of a term: long form, abbreviation, and the user's own."""
    return frozenset((*own.get(term, ()), *_build_spellings().get(term, ())))


@lru_cache(maxsize=1)
def build_table() -> Table:
    """Return the synonyms of every word that has some, as terms of the index."""
    groups = [group.split() for group in _ALIKE]
    alike = ((word, other) for words in groups for word in words for other in words)
    return _collect_pairs(alike, _build_spellings())


@lru_cache(maxsize=1)
def _build_spellings() -> Table:
    pairs: list[tuple[str, str]] = []
    for short, long in _SHORT.items():
        pairs += [(short, word) for word in long.split()]
        if " " not in long:  # One word of a longer name does not mean the whole name.
            pairs.append((long, short))
    return _collect_pairs(pairs)


@lru_cache(maxsize=1)
def _build_related() -> Table:
    return _collect_pairs((word, o) for word, others in _RELATED.items() for o in others.split())


def _collect_pairs(pairs: Iterable[tuple[str, str]], before: Table | None = None) -> Table:
    """Return a table of these words and their synonyms, after those of another table."""
    table = {term: dict.fromkeys(others) for term, others in (before or {}).items()}
    for word, other in pairs:
        term, target = _to_term(word), _to_term(other)
        if term != target:
            table.setdefault(term, {})[target] = None
    return {term: tuple(others) for term, others in table.items()}


@lru_cache(maxsize=8)
def parse_own_synonyms(written: tuple[str, ...]) -> Table:
    """Parse ``word = other other`` from the settings into terms of the index."""
    synonyms: dict[str, tuple[str, ...]] = {}
    for entry in written:
        word, equals, others = entry.partition("=")
        term, targets = _to_term(word), tuple(filter(None, map(_to_term, others.split())))
        if not equals or not term or not targets:
            raise InvalidConfig(
                f"search.synonyms contains {entry!r}, which is not a synonym.",
                hint='Write the word, an equals sign and its synonyms: "fe=frontend".',
                details={"key": "search.synonyms", "value": entry},
            )
        synonyms[term] = (*synonyms.get(term, ()), *targets)
    return synonyms


def _to_term(word: str) -> str:
    """Return the term of the index for a whole word, without its parts."""
    return next(iter(terms_of(word)), "")
