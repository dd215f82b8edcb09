"""`python -m fuzz TARGET`: a coverage-guided fuzzer over one target, or over each in turn.

Takes: names of targets (all of them by default), seconds for each, and a folder to keep what
was found. Gives: a line per target, with how many inputs were tried; inputs at fault lie in the
folder. Refuses: to go on with a target once it failed, and anything without atheris.

    python -m fuzz markdown --seconds 180
    python -m fuzz pdf --inputs 100000 --seconds 3600

An input that failed belongs, after the mend, into `tests/fuzz/corpus/TARGET`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzz import common

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests" / "fuzz" / "corpus"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz what reads text.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(common.NAMES))
    parser.add_argument("--seconds", type=int, default=120, help="for each target")
    parser.add_argument("--inputs", type=int, default=0, help="stop after so many, or in time")
    parser.add_argument("--found", type=Path, help="a folder for inputs at fault and new ones")
    parser.add_argument("--report", type=Path, help="a file that gets a line of JSON per target")
    given = parser.parse_args()
    unknown = set(given.targets) - set(common.NAMES)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        found = given.found or Path(temporary)
        bad = [
            name
            for name in given.targets or common.NAMES
            if not _fuzz(name, given.seconds, given.inputs, found / name, given.report)
        ]
    return 1 if bad else 0


def _fuzz(name: str, seconds: int, inputs: int, folder: Path, report: Path | None) -> bool:
    """Run one target in a process of its own: a fuzzer ends its process, whatever it finds."""
    new = folder / "new"
    new.mkdir(parents=True, exist_ok=True)
    target = common.target_of(name)
    words = folder / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    seeds = CORPUS / name
    command = [
        *(sys.executable, "-m", "fuzz.inside", name, str(new)),
        *([str(seeds)] if seeds.is_dir() else []),
        *(f"-max_total_time={seconds}", f"-dict={words}", f"-artifact_prefix={folder}/"),
        *([f"-runs={inputs}"] if inputs else []),
        *("-max_len=4096", "-timeout=25", "-rss_limit_mb=3072", "-print_final_stats=1"),
        "-verbosity=1",
    ]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    said = done.stdout.decode("utf-8", "replace")
    counted = re.search(r"number_of_executed_units:\s*(\d+)", said) or re.search(
        r"Done (\d+) runs", said
    )
    trials = int(counted[1]) if counted else 0
    good = done.returncode == 0 and trials > 0
    print(f"{name:12} {trials:>10,} inputs  {'sound' if good else 'AT FAULT'}", flush=True)
    if not good:
        print(said[-4000:])
    if report is not None:
        line = {"name": f"fuzzing: {name}", "test": f"python -m fuzz {name}", "trials": trials}
        line |= {"faults": trials, "failures": int(not good), "note": f"{seconds} s of atheris"}
        with report.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return good


def _escaped(word: str) -> str:
    """As libFuzzer's dictionaries write bytes."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in word.encode("utf-8", "surrogateescape")
    )


if __name__ == "__main__":
    sys.exit(main())
