"""Small programs in every language with full support, written for these tests."""

from __future__ import annotations

PYTHON = '''"""Keeps counters."""

from __future__ import annotations

import os.path
from collections import Counter, defaultdict as table

LIMIT = 10


@cached
async def tally(words: list[str], *, limit: int = 3) -> dict[str, int]:
    """Count the words.

    Twice if need be.
    """
    found = {}
    for word in words:
        if word and len(word) > limit:
            found[word] = found.get(word, 0) + 1
        elif not word:
            continue
    return found


class Shelf(Base):
    """Holds books."""

    size = 3

    @staticmethod
    def empty() -> Shelf:
        return Shelf()

    def _put(self, book):
        # Deep inside.
        if book:
            while self.full():
                self.size += 1
'''

JAVASCRIPT = """// Small helpers.
import fs, { readFile as read } from "node:fs";
const { join } = require("node:path");

/** Adds two numbers. */
export async function add(left, right = 1) {
  if (left && right) {
    return left + right;
  }
  return left ? right : 0;
}

class Shelf extends Base {
  #size = 1;

  static empty() {
    return new Shelf();
  }

  put(book) {
    for (const each of book) {
      if (each) this.size += 1;
    }
  }
}

const later = (task) => {
  task();
};

export { later, Shelf as Rack };
"""

TYPESCRIPT = """import type { User } from "./types";

export interface Answer<T> {
  value: T;
}

export enum Colour {
  Red,
}

export type Pair = [string, string];

/** Signs a user in. */
export async function login(email: string, password: string): Promise<User> {
  try {
    return await ask(email ?? "", password);
  } catch (error) {
    throw error;
  }
}

export abstract class Store<K> {
  private readonly items: K[] = [];

  protected static open<K>(name: string): Store<K> {
    return make(name);
  }

  private drop(key: K): boolean {
    return this.items.length > 0 || key === undefined;
  }
}
"""

TSX = """import { useState } from "react";

/** Shows a number. */
export function Counter({ start }: { start: number }): JSX.Element {
  const [count, setCount] = useState(start);
  return <button onClick={() => setCount(count + 1)}>{count > 3 ? "many" : count}</button>;
}
"""

GO = """package shelf

import (
	"fmt"
	str "strings"
)

// Limit is how many fit.
const Limit = 10

// Shelf holds books.
type Shelf struct {
	size int
}

// Put adds books.
func (s *Shelf) Put(first, second string, more ...string) (int, error) {
	for _, book := range more {
		if book == "" || len(book) > Limit {
			return 0, fmt.Errorf("bad %s", str.ToUpper(book))
		}
	}
	return s.size, nil
}

func grow(s *Shelf) {
	s.size++
}
"""

JAVA = """package shelf;

import java.util.List;
import static java.lang.Math.max;
import java.io.*;

/** Holds books. */
@Deprecated
public abstract class Shelf<T> extends Base implements Store {
    private int size = 1;

    /** Makes one. */
    public Shelf(int size) {
        this.size = size;
    }

    @Override
    protected static <K> List<K> put(K book, int... more) {
        for (int each : more) {
            if (each > 1 && book != null) {
                return null;
            }
        }
        return null;
    }
}

interface Store {
    void drop();
}

enum Colour { RED }
"""

RUST = """use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// How many fit.
pub const LIMIT: usize = 10;

/// Holds books.
#[derive(Debug)]
pub struct Shelf<T> {
    size: usize,
    of: T,
}

pub trait Store {
    fn drop(&self);
}

impl<T> Shelf<T> {
    /// Adds a book.
    pub async fn put(&mut self, book: &str) -> Option<usize> {
        if book.is_empty() || self.size > LIMIT {
            return None;
        }
        match self.size {
            0 => Some(1),
            other => Some(other),
        }
    }

    fn grow(&mut self) {
        while self.size < LIMIT {
            self.size += 1;
        }
    }
}

enum Colour {
    Red,
}
"""

C = """#include <stdio.h>
#include "shelf.h"

#define LIMIT 10
#define TWICE(x) ((x) * 2)

/* Holds books. */
typedef struct shelf {
    int size;
} shelf_t;

enum colour { RED };

/* Adds a book. */
int shelf_put(shelf_t *shelf, const char *title) {
    if (shelf && title) {
        for (int i = 0; i < LIMIT; i++) {
            shelf->size += i > 2 ? 1 : 0;
        }
    }
    return shelf->size;
}

static char *hidden(void) {
    return 0;
}
"""

CPP = """#include <vector>
#include "base.hpp"

namespace books {

// Holds books.
template <typename T>
class Shelf : public Base {
 public:
  Shelf();
  static int count(const T& of) { return of ? 1 : 0; }

 private:
  int size_;
};

struct Pair { int left; };

enum class Colour { Red };

// Adds a book.
int Shelf::put(int book, char* title) {
  try {
    for (auto each : all()) {
      if (each && book) return 1;
    }
  } catch (const Error& error) {
    return 0;
  }
  return 2;
}

template <class T>
auto twice(T value) -> T {
  return value;
}

}  // namespace books
"""

CSHARP = """using System;
using static System.Math;
using Map = System.Collections.Generic.Dictionary<string, int>;

namespace Books
{
    /// <summary>Holds books.</summary>
    [Serializable]
    public abstract class Shelf<T> : Base
    {
        private int size = 1;

        public Shelf(int size)
        {
            this.size = size;
        }

        /// <summary>Adds a book.</summary>
        [Obsolete("old")]
        public static async Task<int> Put(string book, int times = 1)
        {
            foreach (var each in book)
            {
                if (each == 'a' || times > 2)
                {
                    return times;
                }
            }
            return book ?? "" == "" ? 1 : 2;
        }
    }

    interface IStore { void Drop(); }

    enum Colour { Red }

    struct Point { public int X; }
}
"""

FULL: dict[str, tuple[str, str]] = {
    "python": ("shelf.py", PYTHON),
    "javascript": ("shelf.js", JAVASCRIPT),
    "typescript": ("shelf.ts", TYPESCRIPT),
    "tsx": ("shelf.tsx", TSX),
    "go": ("shelf.go", GO),
    "java": ("Shelf.java", JAVA),
    "rust": ("shelf.rs", RUST),
    "c": ("shelf.c", C),
    "cpp": ("shelf.cc", CPP),
    "csharp": ("Shelf.cs", CSHARP),
}

STRUCTURAL: dict[str, tuple[str, str, set[str]]] = {
    "kotlin": ("a.kt", ("/** Says hi. */\nfun hello(name: String): Int {\n  return 1\n}\n\n"
               "class Shelf(val size: Int) {\n  fun put() = 2\n}\n"),
               {"hello", "Shelf", "size", "put"}),
    "swift": ("a.swift", ("/// Says hi.\npublic func hello(to name: String) -> Int { 1 }\n\n"
              "struct Shelf {\n  func put() {}\n}\nextension Shelf {\n  func drop() {}\n}\n"),
              {"hello", "Shelf", "put", "drop"}),
    "ruby": ("a.rb", ("# Says hi.\ndef hello(name)\n  1\nend\n\nmodule Books\n  # Holds.\n"
             "  class Shelf\n    def put; end\n    def self.empty; end\n  end\nend\n"),
             {"hello", "Books", "Shelf", "put", "empty"}),
    "php": ("a.php", ("<?php\n/** Says hi. */\nfunction hello($name) { return 1; }\n"
            "final class Shelf {\n  public static function put(int $a): int { return 1; }\n}\n"),
            {"hello", "Shelf", "put"}),
    "scala": ("a.scala", ("object Books {\n  def hello(x: Int): Int = 1\n}\nclass Shelf {\n"
              "  def put = 1\n}\ntrait Store\n"), {"Books", "hello", "Shelf", "put", "Store"}),
    "bash": ("a.sh", "# Says hi.\nhello() {\n  echo hi\n}\nfunction bye {\n  echo bye\n}\n",
             {"hello", "bye"}),
    "lua": ("a.lua", ("local M = {}\n-- Says hi.\nfunction M.hello(a)\nend\n"
            "M.bye = function(x)\nend\nlocal function own() end\nreturn M\n"),
            {"M", "M.hello", "M.bye", "own"}),
    "haskell": ("A.hs", ("module A where\n\n-- | Says hi.\nhello :: Int -> Int\nhello 0 = 1\n"
                "hello n = n\n\ndata Shelf = Shelf\n"), {"hello", "Shelf"}),
    "elixir": ("a.ex", ('defmodule A.Shelf do\n  @doc "Says hi."\n  def hello(:a), do: 1\n'
               "  def hello(b) do\n    b\n  end\n  defp own(x), do: x\nend\n"),
               {"A.Shelf", "hello", "own"}),
    "zig": ("a.zig", ("/// Says hi.\npub fn hello(a: i32) void {}\n\nconst Shelf = struct {\n"
            "    fn put(self: Shelf) void {}\n};\n"), {"hello", "Shelf", "put"}),
}  # fmt: skip

HEURISTIC: dict[str, tuple[str, str, set[str]]] = {
    "yaml": ("a.yaml", "name: x\njobs:\n  build: 1\non:\n  - push\n", {"name", "jobs", "on"}),
    "toml": ("a.toml", "[project]\nname = 1\n[tool.x]\ny = 2\n", {"project", "tool.x"}),
    "hcl": ("a.tf", 'resource "aws_x" "main" {\n}\nlocals {\n}\n',
            {"resource aws_x main", "locals"}),
    "dockerfile": ("Dockerfile", "FROM a AS build\nRUN x\nFROM b\n", {"a AS build", "b"}),
    "make": ("Makefile", "all: a b\n\techo\nclean:\n\trm x\nX := 1\n", {"all", "clean"}),
    "cmake": ("CMakeLists.txt", "project(a)\nadd_library(shelf x.c)\n", {"a", "shelf"}),
    "sql": ("a.sql", "CREATE TABLE books (\n  id int\n);\ncreate view v as select 1;\n",
            {"books", "v"}),
    "css": ("a.css", ".shelf {\n  a: b;\n}\n@media x {\n}\n", {".shelf", "@media x"}),
    "perl": ("a.pl", "sub hello {\n}\nsub bye {\n}\n", {"hello", "bye"}),
    "dart": ("a.dart", "class Shelf {\n}\nvoid main() {\n}\n", {"Shelf", "main"}),
    "bats": ("a.bats", '@test "it works" {\n  run x\n}\n', {"it works"}),
    "graphql": ("a.graphql", "type Book {\n  id: ID\n}\nenum Colour {\n  RED\n}\n",
                {"Book", "Colour"}),
}  # fmt: skip
