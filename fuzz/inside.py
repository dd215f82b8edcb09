"""One target under the fuzzer, in this process: started by `python -m fuzz`.

Takes: the name of a target and libFuzzer's arguments. Gives: its report on stderr. Refuses: to
return: a fuzzer ends its process.
"""

from __future__ import annotations

import sys
import zlib

import atheris  # type: ignore[import-not-found]

from fuzz import common

_STRETCH_ONE_IN = 64
_INSTRUMENTED = 10.0
"""Instrumented code is several times slower than what users run."""


def main(arguments: list[str]) -> None:
    """Fuzz until time is up or something is found."""
    with atheris.instrument_imports(include=["lookfar"]):
        target = common.target_of(arguments[1])

    def one(data: bytes) -> None:
        common.examine(target, data)
        if zlib.crc32(data) % _STRETCH_ONE_IN == 0:
            common.examine_time(target, data, _INSTRUMENTED)

    atheris.Setup([arguments[0], *arguments[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
