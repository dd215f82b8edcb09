"""Which paths may be indexed, decided by name alone.

Takes: a user's include and exclude globs, the limits, and the ignore files in
force. Gives: None for an admitted path, or a ``Verdict`` with a stable reason
and the rule that said so. Refuses: to be overridden where it denies: secrets
(:mod:`lookfar.sources.secrets.screen`), dependencies, build output and the like stay
out whatever a project's settings say.

Rules in order: denied, excluded, ignored, binary (by its extension), then
not_included. Size and content need the disk, so the walk and the reader judge
those. Rules see only what lies *below* the root: indexing ``/home/me/build``
is fine, indexing ``build/`` inside it is not.

A name is compared without regard to case, in NFC, and without invisible
characters, on every system: an index may travel, and ``.ENV`` holds secrets
on Linux too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lookfar.errors import InvalidConfig
from lookfar.sources.folder.ignore import Ignores
from lookfar.sources.globs import GlobSet, rooted
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets, folded

DENIED_FOLDERS: Final = frozenset(
    (
        *("node_modules", "jspm_packages", "bower_components", "vendor", ".venv", "venv"),
        *("dist", "build", "out", "target", "__pycache__", ".next", ".nuxt", ".angular"),
        *(".idea", ".vscode", "coverage", ".nyc_output", ".pytest_cache"),
        *(".lookfar", ".msrl", ".anvil"),
    )
)
"""Dependencies, build output, editor settings, test caches, index folders."""

DENIED_NAMES: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".ds_store"),
        *("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "gemfile.lock", "poetry.lock"),
    )
)
"""Denied as files and as folders: in a git worktree ``.git`` is a file."""

DENIED_ENDINGS: Final = (".log", ".lock", ".swp", ".swo")

BINARY_EXTENSIONS: Final = frozenset(
    (
        *("png", "jpg", "jpeg", "gif", "bmp", "ico", "icns", "webp", "avif", "heic", "heif"),
        *("tif", "tiff", "psd", "ai", "eps", "raw", "cr2", "nef", "xcf"),
        *("mp3", "wav", "flac", "ogg", "oga", "opus", "m4a", "aac", "wma", "aiff", "mid", "midi"),
        *("mp4", "m4v", "mov", "avi", "mkv", "webm", "wmv", "flv", "mpg", "mpeg", "3gp", "ogv"),
        *("zip", "tar", "gz", "tgz", "bz2", "tbz2", "xz", "txz", "zst", "lz4", "7z", "rar", "jar"),
        *("war", "ear", "whl", "egg", "nupkg", "deb", "rpm", "apk", "ipa"),
        *("dmg", "iso", "img", "cab", "msi", "crx", "xpi"),
        *("ttf", "otf", "woff", "woff2", "eot", "pfb"),
        *("exe", "dll", "so", "dylib", "lib", "obj", "o", "a", "ko", "pdb", "class", "pyc", "pyo"),
        *("pyd", "wasm", "node", "bin", "dat", "elc", "beam"),
        *("pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp", "epub", "mobi"),
        *("djvu", "pages", "numbers"),
        *("db", "db3", "sqlite", "sqlite3", "mdb", "accdb", "rdb", "ldb", "parquet", "feather"),
        *("arrow", "orc", "avro"),
        *("npy", "npz", "pkl", "pickle", "h5", "hdf5", "pt", "pth", "onnx", "safetensors", "gguf"),
        *("ckpt", "tflite", "joblib", "mat"),
        *("blend", "fbx", "glb", "stl", "3ds", "dwg", "swf", "fla"),
    )
)
"""Formats that are never text, so that they are not even opened."""

DEFAULT_EXCLUDE: Final = (".obsidian", ".trash", "*.tmp", "*~")
"""What editors leave behind; a starting value that a user may replace."""

HIDDEN: Final = (".*",)
"""Every hidden file and folder, for those who want them out (MSRL's default)."""

_DEEPEST: Final = 200
"""A walk holds one descriptor and one stack frame per level."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a path stays out."""

    reason: str
    """``denied``, ``excluded``, ``ignored``, ``binary`` or ``not_included``."""
    rule: str


def denial(name: str, is_dir: bool) -> str | None:
    """The rule of the hard deny list that one path component meets, or None."""
    # Windows drops trailing dots and spaces, so `.git ` opens `.git` there.
    seen = folded(name).rstrip(". ")
    if seen in DENIED_NAMES:
        return seen
    if is_dir and seen in DENIED_FOLDERS:
        return f"{seen}/"
    if seen.endswith(DENIED_ENDINGS):
        return f"*{next(ending for ending in DENIED_ENDINGS if seen.endswith(ending))}"
    return None


@dataclass(frozen=True, slots=True)
class Policy:
    """One collection's rules. Equal rules make equal policies."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    respect_ignore_files: bool = True
    max_file_bytes: int = 1 << 20
    max_depth: int = 20
    """How many folders a path may lie below the root."""
    max_files: int = 50_000
    secrets: Secrets = NO_EXCEPTIONS
    """Which files hold credentials; those of which the name leaves doubt are admitted here, and
    judged when they are read."""
    own: str = ""
    """URI of the folder that holds indexes, where it lies below the root. Indexed, it would
    change by being indexed, and show the texts of other folders."""
    _include: GlobSet | None = field(init=False, repr=False, compare=False)
    _exclude: GlobSet | None = field(init=False, repr=False, compare=False)
    _emptied: GlobSet | None = field(init=False, repr=False, compare=False)
    """Folders of which ``x/**`` excludes all: no need to enter them."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_depth <= _DEEPEST or self.max_file_bytes < 0 or self.max_files < 0:
            raise InvalidConfig(
                f"Limits must not be negative, and the depth at most {_DEEPEST}.",
                hint="Correct max_depth, max_file_bytes or max_files.",
            )
        bodies = (rooted(each)[1] for each in self.exclude)
        folders = ["/" + body[:-3] for body in bodies if body.endswith("/**") and body != "/**"]
        for name, globs in (
            ("_include", self.include),
            ("_exclude", self.exclude),
            ("_emptied", folders),
        ):
            object.__setattr__(self, name, GlobSet(globs) if globs else None)

    def judge(
        self, uri: str, name: str, is_dir: bool, ignores: Ignores | None = None
    ) -> Verdict | None:
        """Decide one entry of a folder that is itself admitted; ``name`` ends ``uri``."""
        rule = f"{name}/" if self.own and uri == self.own else denial(name, is_dir)
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
        extension = name[name.rfind(".") + 1 :].lower()
        if extension in BINARY_EXTENSIONS and len(extension) < len(name):
            return Verdict("binary", f"*.{extension}")
        if self._include is not None and self._include.match(uri) is None:
            return Verdict("not_included", "include")
        return None

    def included_by(self, uri: str) -> str | None:
        """The glob of ``include`` that a file matches, where only such are wanted."""
        return self._include.match(uri) if self._include is not None else None

    def verdict(self, uri: str, is_dir: bool = False) -> Verdict | None:
        """Decide a path and every folder above it; ignore files need the disk and are not asked."""
        parts = uri.split("/")
        for depth in range(1, len(parts)):
            found = self.judge("/".join(parts[:depth]), parts[depth - 1], True)
            if found is not None:
                return found
        return self.judge(uri, parts[-1], is_dir)
