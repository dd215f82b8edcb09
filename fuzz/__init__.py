"""Fuzzers for what reads hostile text. `python -m fuzz --help` runs them (see `requirements.txt`).

Each module here is one target: what the product does with some bytes, and what must hold for
every result. `tests/fuzz` runs the same targets over the kept corpus, without a fuzzer.
"""
