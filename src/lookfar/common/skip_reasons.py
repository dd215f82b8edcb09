"""The reasons for which files are skipped, in words, for one file and for a group of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class Reason(NamedTuple):
    one: str
    """Completes "it is skipped:" for one file."""
    many: str
    """Completes "3 skipped," for a group."""
    chosen: bool = False
    """Whether a rule chose these files. Others are named, because a user may miss them."""


REASONS: Final[Mapping[str, Reason]] = {
    "denied": Reason(
        "always skipped, whatever the settings say",
        "built-in rules: secrets, dependencies, build output (target/, build/, ...)",
    ),
    "secret": Reason(
        "a file of secrets, by its name and content",
        "files of secrets, by name and content (see sources.allow_secrets)",
    ),
    "encrypted": Reason("protected by a password", "protected by a password"),
    "damaged": Reason(
        "damaged, or not in the format that its name says",
        "damaged, or not in the format that their names say",
    ),
    "no_text": Reason(
        "without text, for example scanned pages", "without text, for example scanned pages"
    ),
    "unsupported": Reason("in a variant that cannot be read", "in variants that cannot be read"),
    "timed_out": Reason(
        "too slow to extract (see sources.extract_seconds)",
        "too slow to extract (see sources.extract_seconds)",
    ),
    "out_of_memory": Reason(
        "too large to extract (see sources.extract_memory_bytes)",
        "too large to extract (see sources.extract_memory_bytes)",
    ),
    "crashed": Reason(
        "impossible to extract: the extractor crashed",
        "impossible to extract: the extractor crashed",
    ),
    "binary": Reason("not text", "not text"),
    "too_large": Reason("too large", "larger than sources.max_file_bytes or max_document_bytes"),
    "partly": Reason("large data, searched in part", "large data, searched in part"),
    "no_parser": Reason("an unsupported format", "unsupported format"),
    "hard_link": Reason("a file with several hard links", "files with several hard links"),
    "bad_name": Reason(
        "a name that is not valid on every system", "names that are not valid on every system"
    ),
    "not_a_file": Reason("not a regular file", "pipes, sockets and devices"),
    "ignore_file": Reason("an unusable ignore file", "unusable ignore files"),
    "too_deep": Reason("too deep", "deeper than sources.max_depth"),
    "symlink": Reason("a symbolic link", "symbolic links"),
    "excluded": Reason("excluded", "excluded by your settings", chosen=True),
    "ignored": Reason("ignored", "ignored by .gitignore", chosen=True),
    "not_included": Reason(
        "not listed in sources.include", "not listed in sources.include", chosen=True
    ),
    "gone": Reason("does not exist", "do not exist"),
    "unreadable": Reason("cannot be read", "cannot be read"),
}
PARTLY: Final = "partly"
"""The code of a document that questions do not search to its end."""
UNREAD: Final = frozenset(("too_large", "timed_out", "out_of_memory"))
"""The codes of files that a limit excludes, although they may contain an answer."""
_ORDER: Final = {reason: place for place, reason in enumerate(REASONS)}

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "image": (
        *("png", "jpg", "jpeg", "gif", "bmp", "ico", "icns", "webp", "avif", "heic", "heif"),
        *("tif", "tiff", "psd", "ai", "eps", "raw", "cr2", "nef", "xcf"),
    ),
    "sound": (
        *("mp3", "wav", "flac", "ogg", "oga", "opus", "m4a", "aac", "wma", "aiff", "mid", "midi"),
    ),
    "video": (
        *("mp4", "m4v", "mov", "avi", "mkv", "webm", "wmv", "flv", "mpg", "mpeg", "3gp", "ogv"),
    ),
    "archive": (
        *("zip", "tar", "gz", "tgz", "bz2", "tbz2", "xz", "txz", "zst", "lz4", "7z", "rar", "jar"),
        *("war", "ear", "whl", "egg", "nupkg", "deb", "rpm", "apk", "ipa"),
        *("dmg", "iso", "img", "cab", "msi", "crx", "xpi"),
    ),
    "font": ("ttf", "otf", "woff", "woff2", "eot", "pfb"),
    "program": (
        *("exe", "dll", "so", "dylib", "lib", "obj", "o", "a", "ko", "pdb", "class", "pyc", "pyo"),
        *("pyd", "wasm", "node", "bin", "dat", "elc", "beam"),
    ),
    "document": (
        *("pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "odp", "epub", "mobi"),
        *("djvu", "pages", "numbers"),
    ),
    "database": (
        *("db", "db3", "sqlite", "sqlite3", "mdb", "accdb", "rdb", "ldb", "parquet", "feather"),
        *("arrow", "orc", "avro"),
    ),
    "model": (
        *("npy", "npz", "pkl", "pickle", "h5", "hdf5", "pt", "pth", "onnx", "safetensors", "gguf"),
        *("ckpt", "tflite", "joblib", "mat"),
    ),
    "drawing": ("blend", "fbx", "glb", "stl", "3ds", "dwg", "swf", "fla"),
}
_KIND_OF: Final = {extension: kind for kind, names in _KINDS.items() for extension in names}
BINARY_EXTENSIONS: Final = frozenset(_KIND_OF)
"""Formats that are never text."""


def name_kind(uri: str) -> str:
    """Return what kind of file a binary file is by its extension, or empty if it is unknown."""
    stem, _, extension = uri.rpartition("/")[2].rpartition(".")
    return _KIND_OF.get(extension.lower(), "") if stem else ""


def explain_reason(reason: str, uri: str) -> str:
    """Return why one file is skipped, in a few words."""
    kind = name_kind(uri) if reason == "binary" else ""
    article = "an" if kind[:1] in "aeiou" else "a"
    return f"{article} {kind}, not text" if kind else _find(reason).one


def describe_group(reason: str) -> str:
    """Return what the files of a group have in common."""
    return _find(reason).many


def is_chosen(reason: str) -> bool:
    """Whether a rule of the user chose to skip these files."""
    return _find(reason).chosen


def sort_reasons(reasons: Iterable[str]) -> list[str]:
    """Return reasons in the order in which they are shown: those that may surprise first."""
    return sorted(reasons, key=lambda reason: (_ORDER.get(reason, len(_ORDER)), reason))


def name_example(reason: str, uri: str) -> str:
    """Return a skipped file for a list of examples, with its kind if that is the reason."""
    kind = name_kind(uri) if reason == "binary" else ""
    return f"{uri} ({kind})" if kind else uri


def summarise(counts: Mapping[str, int], examples: Mapping[str, Iterable[str]], most: int) -> str:
    """Return one line on the skipped files that no rule of the user chose; empty if none."""
    parts: list[str] = []
    for reason in sort_reasons(counts):
        names = [name_example(reason, uri) for uri in examples.get(reason, ())]
        if is_chosen(reason) or not counts[reason]:
            continue
        more = [f"{counts[reason] - most:,} more"] if counts[reason] > most else []
        listed = ", ".join([*names[:most], *more])
        parts.append(f"{counts[reason]:,} {describe_group(reason)} ({listed})")
    return "; ".join(parts)


def _find(reason: str) -> Reason:
    return REASONS.get(reason) or Reason(reason, reason)
