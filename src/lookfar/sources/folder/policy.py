"""Decide by name, and by evidence of build output, which paths may be indexed.

The rules, in order: denied, excluded, ignored, binary (by extension), not_included. Secrets
(:mod:`lookfar.sources.secrets.screen`), dependencies and build output are denied whatever the
settings say. Size and content need the disk, so they are checked after the walk. Only the
part of a path *below* the root counts: ``/home/me/node_modules`` can be indexed, ``node_modules/``
inside it cannot. A folder called ``build`` is skipped only where there is evidence that it is build
output (:mod:`lookfar.sources.folder.build_output`), which the caller looks up.

Names are compared case-fold_name, in NFC and without invisible characters on every system, because
an index may be copied to another one, and ``.ENV`` contains secrets on Linux, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lookfar.common.skip_reasons import BINARY_EXTENSIONS
from lookfar.errors import InvalidConfig
from lookfar.sources.folder.build_output import Evidence, output_name, presume_output
from lookfar.sources.folder.ignore import Ignores
from lookfar.sources.globs import GlobSet, split_anchor
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets, fold_name

VERSION: Final = 2
"""Raise this whenever the same settings would admit other names, to renew inventories."""

GENERATED_FOLDERS: Final = frozenset(
    (
        *("node_modules", "jspm_packages", "bower_components", ".venv", "__pycache__"),
        *(".next", ".nuxt", ".angular", ".idea", ".vscode", ".nyc_output", ".pytest_cache"),
    )
)
"""Dependencies, caches and editor settings by their name; ``sources.generated`` admits them."""

DENIED_FOLDERS: Final = GENERATED_FOLDERS.union((".lookfar", ".msrl", ".anvil"))
"""Generated folders and index folders."""

DENIED_NAMES: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".ds_store"),
        *("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "gemfile.lock", "poetry.lock"),
    )
)
"""Denied as files and as folders; in a git worktree ``.git`` is a file."""

DENIED_ENDINGS: Final = (".log", ".lock", ".swp", ".swo")

DEFAULT_EXCLUDE: Final = (".obsidian", ".trash", "*.tmp", "*~", "~$*", ".~lock.*#")
"""Files left by editors and office programs; users may replace this default."""

_DEEPEST: Final = 200
"""A walk uses one descriptor and one stack frame per level."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a path is skipped."""

    reason: str
    """``denied``, ``excluded``, ``ignored``, ``binary`` or ``not_included``."""
    rule: str


def denied_by(name: str, is_dir: bool, *, generated: bool = False) -> str | None:
    """Return the rule of the deny list that matches one path component, or None.

    With ``generated``, folders of dependencies and caches are allowed.
    """
    # Windows drops trailing dots and spaces, so `.git ` opens `.git` there.
    key = fold_name(name).rstrip(". ")
    if key in DENIED_NAMES:
        return key
    if is_dir and key in DENIED_FOLDERS and not (generated and key in GENERATED_FOLDERS):
        return f"{key}/"
    if key.endswith(DENIED_ENDINGS):
        return f"*{next(ending for ending in DENIED_ENDINGS if key.endswith(ending))}"
    return None


def read_extension(uri: str) -> str:
    """Return the extension of a file in lower case, without the dot; empty if it has none."""
    stem, _, extension = uri.rpartition("/")[2].rpartition(".")
    return extension.lower() if stem else ""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of one collection. Policies with equal rules are equal."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    generated: bool = False
    """Whether generated folders may be indexed."""
    output_by_name: bool = False
    """Whether the name of a folder is evidence enough that it contains build output."""
    respect_ignore_files: bool = True
    max_file_bytes: int = 32 << 20
    extracted: frozenset[str] = frozenset()
    """Extensions, without the dot, of formats whose text is extracted."""
    max_document_bytes: int = 50 << 20
    """The size limit of files whose text is extracted."""
    max_depth: int = 20
    """How many folders deep a path may be below the root."""
    any_text: bool = False
    """Whether a text file of an unknown format is read, too."""
    secrets: Secrets = NO_EXCEPTIONS
    """Which files contain credentials. Files whose names leave that open are admitted here and
    checked when they are read."""
    own: str = ""
    """URI of the index folder if it is below the root. Indexing it would change it, and show
    the texts of other folders."""
    _include: GlobSet | None = field(init=False, repr=False, compare=False)
    _exclude: GlobSet | None = field(init=False, repr=False, compare=False)
    _emptied: GlobSet | None = field(init=False, repr=False, compare=False)
    """Folders whose whole content is excluded by ``x/**``, so they are not entered."""

    def __post_init__(self) -> None:
        smallest = min(self.max_file_bytes, self.max_document_bytes)
        if not 0 <= self.max_depth <= _DEEPEST or smallest < 0:
            raise InvalidConfig(
                f"Limits must not be negative, and max_depth is at most {_DEEPEST}.",
                hint="Correct max_depth or max_file_bytes.",
            )
        bodies = (split_anchor(pattern)[1] for pattern in self.exclude)
        folders = ["/" + body[:-3] for body in bodies if body.endswith("/**") and body != "/**"]
        for name, globs in (
            ("_include", self.include),
            ("_exclude", self.exclude),
            ("_emptied", folders),
        ):
            object.__setattr__(self, name, GlobSet(globs) if globs else None)

    def judge(
        self,
        uri: str,
        name: str,
        is_dir: bool,
        ignores: Ignores | None = None,
        evidence: Evidence | None = None,
    ) -> Verdict | None:
        """Judge one entry of an admitted folder; ``name`` is the last part of ``uri``.

        Without ``evidence``, no folder counts as build output.
        """
        own = bool(self.own) and uri == self.own
        rule = f"{name}/" if own else denied_by(name, is_dir, generated=self.generated)
        if rule is None and is_dir and evidence is not None and not self.generated:
            rule = self._find_output(uri, name, evidence)
        secret = self.secrets.rule_for(uri, is_dir) if rule is None else None
        if secret is not None and not secret.by_content:
            rule = secret.name
        if rule is not None:
            return Verdict("denied", rule)
        if self._exclude is not None:
            rule = self._exclude.match(uri)
            if rule is None and is_dir and self._emptied is not None:
                rule = self._emptied.match(uri)
                rule = f"{rule[1:]}/**" if rule is not None else None
            if rule is not None:
                return Verdict("excluded", rule)
        if ignores is not None:
            rule = ignores.rule_for(uri, name, is_dir)
            if rule is not None:
                return Verdict("ignored", rule)
        if is_dir:
            return None
        extension = read_extension(name)
        if extension in BINARY_EXTENSIONS and extension not in self.extracted:
            return Verdict("binary", f"*.{extension}")
        if self._include is not None and self._include.match(uri) is None:
            return Verdict("not_included", "include")
        return None

    def _find_output(self, uri: str, name: str, evidence: Evidence) -> str | None:
        """Return the rule that skips a folder of build output, with the evidence."""
        key = output_name(name)
        judge = presume_output if self.output_by_name else evidence
        reason = judge(uri) if key else ""
        return f"{key}/ {reason}" if reason else None

    def size_limit(self, uri: str) -> int:
        """Return how many bytes a file with this name may have."""
        extracted = bool(self.extracted) and read_extension(uri) in self.extracted
        return self.max_document_bytes if extracted else self.max_file_bytes

    def find_include(self, uri: str) -> str | None:
        """Return the glob of ``include`` that a file matches, if there are any."""
        return self._include.match(uri) if self._include is not None else None

    def verdict(
        self, uri: str, is_dir: bool = False, evidence: Evidence | None = None
    ) -> Verdict | None:
        """Judge a path and every folder above it, without ignore files."""
        parts = uri.split("/")
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            folder = is_dir or depth < len(parts)
            verdict = self.judge(here, parts[depth - 1], folder, None, evidence)
            if verdict is not None:
                return verdict
        return None
