"""The constants and imports that a function uses, one line each."""

from __future__ import annotations

import pytest

from lookfar.text.parse.uses import LONGEST_LINE, used_lines

PYTHON = '''"""Reads options.

import nothing_from_a_docstring
"""

import os
import re as regular
import xml.sax
from typing import (
    Any,
    Final,
)

option_desc_re = regular.compile(r"((?:/|--|-)?[^\\s=]+)(=?\\s*.*)")
TABLE: Final = {
    "a": 1,
}
unused = 1


def parse(line: Any) -> Any:
    # Not os, which only a comment names, nor "xml" in a string.
    unused = TABLE
    return option_desc_re.match(line, unused.os)


def walk():
    global unused
    unused = 2
    return os.sep, xml.sax
'''


def uses(text: str, language: str, start: int, end: int, **given: int) -> list[tuple[int, str]]:
    return list(used_lines(text, language, start, end, **given))


def lines_of(text: str, name: str) -> tuple[int, int]:
    """The lines from the one that has ``name`` to the next blank one."""
    lines = text.split("\n")
    start = next(at for at, line in enumerate(lines) if name in line)
    end = next((at for at in range(start, len(lines)) if not lines[at]), len(lines))
    return start + 1, end


def test_uses_of_a_python_function() -> None:
    """Seen to fail with names taken from comments and strings, with attributes as uses, and
    without the look at what the function assigns itself."""
    result = uses(PYTHON, "python", *lines_of(PYTHON, "def parse"))
    assert result == [
        (9, "from typing import ( Any, Final, )"),
        (14, 'option_desc_re = regular.compile(r"((?:/|--|-)?[^\\s=]+)(=?\\s*.*)")'),
        (15, "TABLE: Final = {"),
    ]


def test_a_name_that_is_bound_inside_is_not_the_module_s_unless_it_says_so() -> None:
    """Seen to fail without the look for ``global``."""
    result = uses(PYTHON, "python", *lines_of(PYTHON, "def walk"))
    assert result == [(6, "import os"), (8, "import xml.sax"), (18, "unused = 1")]


def test_constants_come_before_imports_where_not_all_can_be_shown() -> None:
    """Seen to fail with the first lines of the file taken instead."""
    result = uses(PYTHON, "python", *lines_of(PYTHON, "def parse"), limit=2)
    assert [line for line, _ in result] == [14, 15]
    assert uses(PYTHON, "python", 1, 40, limit=0) == []


def test_a_long_line_is_cut() -> None:
    text = f"WORDS = {'x' * 400!r}\n\ndef f():\n    return WORDS\n"
    ((line, cut),) = uses(text, "python", 3, 4)
    assert line == 1
    assert len(cut) == LONGEST_LINE
    assert cut.endswith("…")


def test_lines_of_the_function_itself_are_not_shown() -> None:
    text = "LIMIT = 1\n\ndef f():\n    return LIMIT\n"
    assert uses(text, "python", 1, 4) == []


SCRIPT = """import fs, { join as joined } from 'node:path'
import type { Options } from './types'
const { send } = require('send')
const debug = require('debug')('app')
export const LIMIT: number = 10
/*
const hidden = 1
*/
let count = 0

function load(options: Options) {
  debug(joined('a', LIMIT, hidden))
  return send(options.fs)
}
"""
GO = """package main

import (
	"fmt"
	yaml "gopkg.in/yaml.v3"
	"os"
)

const (
	First = iota
	Second
)

var table = map[string]int{"a": 1}

func other() {
	Second = 3
}

func show() {
	fmt.Println(yaml.Node{}, Second, table)
}
"""
RUST = """use std::collections::{BTreeMap, HashMap};
use std::io as input;
use std::fmt;

const LIMIT: usize = 3;
pub(crate) static NAMES: &[&str] = &[];

fn count() -> HashMap<u8, u8> {
    input::stdin().take(LIMIT, NAMES.len())
}
"""
JAVA = """package a;

import java.util.List;
import java.util.Map;
import static java.lang.Math.max;

class A {
    private static final int LIMIT = 10;
    static final String NAME = "n";

    int count(List<String> names) {
        return max(LIMIT, names.size());
    }
}
"""
C = """#include <stdio.h>
#define LIMIT 10
#define DOUBLE(x) ((x) * 2)
static const char *names[] = {"a"};
int other(void);

int count(void) {
    return DOUBLE(LIMIT) + names[0][0];
}
"""


@pytest.mark.parametrize(
    ("language", "text", "name", "expected"),
    [
        ("typescript", SCRIPT, "function load", [1, 2, 3, 4, 5]),
        ("go", GO, "func show", [4, 5, 11, 14]),
        ("rust", RUST, "fn count", [1, 2, 5, 6]),
        ("java", JAVA, "int count", [3, 5, 8]),
        ("c", C, "int count", [2, 3, 4]),
        ("cpp", f"using std::swap;\nconstexpr int kMost = 3;\n{C}", "int count", [4, 5, 6]),
    ],
)
def test_other_languages(language: str, text: str, name: str, expected: list[int]) -> None:
    """Seen to fail with statements of a Go function treated as members of a group."""
    result = uses(text, language, *lines_of(text, name))
    assert [line for line, _ in result] == expected


def test_a_language_without_rules_gives_nothing() -> None:
    assert uses("LIMIT = 1\nf(LIMIT)\n", "brainfuck", 2, 2) == []


@pytest.mark.parametrize("lines", [(0, 0), (5, 2), (-3, 99), (50, 60)])
def test_missing_lines_are_not_an_error(lines: tuple[int, int]) -> None:
    assert isinstance(used_lines(PYTHON, "python", *lines), tuple)
    assert used_lines("", "python", *lines) == ()


@pytest.mark.parametrize("language", ["python", "typescript", "go", "rust", "java", "c", "php"])
@pytest.mark.parametrize(
    "piece", ["/*", '"""', "import (", "import {", "use a::{", "\ta = 1\n", "const {", "'", "\n"]
)
def test_hostile_files_are_fast(language: str, piece: str) -> None:
    """A pattern that looks to the end of the file from every line would take minutes here."""
    text = f"{piece}\n" * (50_000 // (len(piece) + 1))
    used_lines(text, language, 1, 10)
    used_lines(text, language, 1, text.count("\n"))
