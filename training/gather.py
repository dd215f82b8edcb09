"""The files that the pairs are made of, out of the repositories, as one archive.

    python training/gather.py SOURCES.toml CHECKOUTS OUT.tar.zst [--group NAME]

Takes: the table of sources and a folder with one git directory per repository, named
``owner+name/repo``. Gives: a tar archive, compressed, with one folder per repository; the newest
commit's files, and what its last commits said and did where the table asks for that. Refuses:
repositories that an evaluation set was made from; the table names them so that nobody adds them
by mistake.

Of a repository larger than its share, the files are chosen by the hash of their path.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHARE = 25_000_000
MOST_BYTES = 400_000
MOST_OF_A_CHANGE = 2_000
COMMITS = ".commits.jsonl"


def git_folder(checkouts: Path, name: str) -> Path:
    folder = checkouts / name.replace("/", "+") / "repo"
    return folder / ".git" if (folder / ".git").is_dir() else folder


def files_of(repository: Path, source: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    tree = subprocess.run(
        ["git", "-C", str(repository), "ls-tree", "-r", "-l", "-z", source.get("commit", "HEAD")],
        capture_output=True,
        check=True,
    ).stdout.decode("utf-8", "replace")
    kept = re.compile(source["paths"])
    largest = source.get("largest", MOST_BYTES)
    wanted = []
    for row in filter(None, tree.split("\0")):
        about, _, uri = row.partition("\t")
        _, kind, name, size = about.split()
        # The size of a file that the snapshot does not hold is no number.
        if kind == "blob" and kept.search(uri) and size.isdigit() and int(size) < largest:
            wanted.append((hashlib.sha256(uri.encode()).digest(), uri, name, int(size)))
    left = source.get("share", SHARE)
    with subprocess.Popen(
        ["git", "-C", str(repository), "cat-file", "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as cat:
        assert cat.stdin is not None
        assert cat.stdout is not None
        for _, uri, name, size in sorted(wanted):
            left -= size
            if left < 0:
                break
            cat.stdin.write(f"{name}\n".encode())
            cat.stdin.flush()
            header = cat.stdout.readline().split()
            if len(header) == 3:
                yield uri, cat.stdout.read(int(header[2]) + 1)[:-1]
        cat.stdin.close()


def commits_of(repository: Path, most: int) -> bytes:
    """What commits say and the lines that they add; those that the snapshot can show."""
    shown = subprocess.run(
        [
            "git",
            "-C",
            str(repository),
            "log",
            "--no-merges",
            f"-{most}",
            "--format=%x01%s%x02",
            "--unified=0",
            "-p",
            "--no-color",
            "--no-renames",
        ],
        capture_output=True,
        check=False,
    ).stdout.decode("utf-8", "replace")
    rows = []
    for entry in shown.split("\x01")[1:]:
        said, _, rest = entry.partition("\x02")
        lines = rest.splitlines()
        paths = [line[6:] for line in lines if line.startswith("+++ b/")]
        added = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
        change = " ".join((*paths[:8], *added))[:MOST_OF_A_CHANGE]
        rows.append(json.dumps({"said": said, "change": change}, ensure_ascii=False))
    return "\n".join(rows).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--group", default="", help="only sources of this group")
    given = parser.parse_args()
    table = tomllib.loads(given.sources.read_text(encoding="utf-8"))
    refused = set(table["refused"]["repositories"])
    with given.out.open("wb") as file:
        packer = subprocess.Popen(
            ["zstd", "-q", "-12", "--long=27", "-c"], stdin=subprocess.PIPE, stdout=file
        )
        assert packer.stdin is not None
        with tarfile.open(fileobj=packer.stdin, mode="w|") as archive:
            for source in table["source"]:
                name = source["repository"]
                if name in refused:
                    raise SystemExit(f"{name}: an evaluation set was made from it.")
                folder = git_folder(given.checkouts, name)
                if source["group"] == "dictionary":
                    continue  # ``dictionary.py`` makes these.
                if given.group not in ("", source.get("group", "")):
                    continue
                if not folder.is_dir():
                    raise SystemExit(f"{name}: there is no checkout at {folder}.")
                size = 0
                for uri, raw in files_of(folder, source):
                    _add(archive, f"{name.replace('/', '+')}/{uri}", raw)
                    size += len(raw)
                if most := source.get("commits", 0):
                    raw = commits_of(folder, most)
                    _add(archive, f"{name.replace('/', '+')}/{COMMITS}", raw)
                    size += len(raw)
                print(f"{name}: {size / 1e6:.1f} MB", flush=True)
        packer.stdin.close()
        packer.wait()


def _add(archive: tarfile.TarFile, name: str, raw: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(raw)
    archive.addfile(entry, io.BytesIO(raw))


if __name__ == "__main__":
    main()
