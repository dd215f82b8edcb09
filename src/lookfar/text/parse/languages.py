"""The table of programming languages: names, extensions, and how well each is understood."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Tier = Literal["full", "structural", "heuristic", "plain"]
Category = Literal["program", "markup", "data", "build"]


class Language(NamedTuple):
    name: str
    language: str
    """The name used in filters and documents."""
    extensions: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Whole file names, in lower case."""
    tier: Tier = "heuristic"
    """full: grammar and summary; structural: grammar; heuristic: line rules; plain: even pieces."""
    grammar: str = ""
    """``module.function`` of the package with the grammar."""
    rules: str = ""
    """The line rules of ``boundaries``, used without a grammar."""
    category: Category = "program"
    line_comment: tuple[str, ...] = ("//",)
    block_comment: tuple[str, str] | None = ("/*", "*/")


_HASH: tuple[str, ...] = ("#",)
_XML = ("<!--", "-->")

LANGUAGES: tuple[Language, ...] = (
    Language("JavaScript", "javascript", (".js", ".mjs", ".cjs", ".jsx"), tier="full",
             grammar="tree_sitter_javascript.language", rules="script"),
    Language("TypeScript", "typescript", (".ts", ".mts", ".cts"), tier="full",
             grammar="tree_sitter_typescript.language_typescript", rules="script"),
    Language("TSX", "tsx", (".tsx",), tier="full", grammar="tree_sitter_typescript.language_tsx",
             rules="script"),
    Language("Python", "python", (".py", ".pyi", ".pyw"), tier="full",
             grammar="tree_sitter_python.language", rules="python", line_comment=_HASH,
             block_comment=None),
    Language("Go", "go", (".go",), tier="full", grammar="tree_sitter_go.language", rules="go"),
    Language("Java", "java", (".java",), tier="full", grammar="tree_sitter_java.language",
             rules="braces"),
    Language("Rust", "rust", (".rs",), tier="full", grammar="tree_sitter_rust.language",
             rules="rust"),
    Language("C", "c", (".c", ".h"), tier="full", grammar="tree_sitter_c.language", rules="braces"),
    Language("C++", "cpp",
             (".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl", ".tpp"),
             tier="full", grammar="tree_sitter_cpp.language", rules="braces"),
    Language("C#", "csharp", (".cs", ".csx"), tier="full", grammar="tree_sitter_c_sharp.language",
             rules="braces"),
    Language("Kotlin", "kotlin", (".kt", ".kts"), tier="structural",
             grammar="tree_sitter_kotlin.language", rules="braces"),
    Language("Swift", "swift", (".swift",), tier="structural", grammar="tree_sitter_swift.language",
             rules="braces"),
    Language("Ruby", "ruby", (".rb", ".rake", ".gemspec", ".ru", ".podspec"),
             ("gemfile", "rakefile", "podfile", "vagrantfile", "fastfile", "brewfile"),
             tier="structural", grammar="tree_sitter_ruby.language", rules="ruby",
             line_comment=_HASH, block_comment=("=begin", "=end")),
    Language("PHP", "php", (".php", ".phtml"), tier="structural",
             grammar="tree_sitter_php.language_php", rules="braces", line_comment=("//", "#")),
    Language("Scala", "scala", (".scala", ".sc", ".sbt"), tier="structural",
             grammar="tree_sitter_scala.language", rules="braces"),
    Language("Shell", "bash", (".sh", ".bash", ".zsh", ".ksh"),
             (".bashrc", ".bash_profile", ".zshrc", ".profile"), tier="structural",
             grammar="tree_sitter_bash.language", rules="shell", line_comment=_HASH,
             block_comment=None),
    Language("Lua", "lua", (".lua",), tier="structural", grammar="tree_sitter_lua.language",
             rules="lua", line_comment=("--",), block_comment=("--[[", "]]")),
    Language("Haskell", "haskell", (".hs",), tier="structural",
             grammar="tree_sitter_haskell.language", rules="haskell", line_comment=("--",),
             block_comment=("{-", "-}")),
    Language("Elixir", "elixir", (".ex", ".exs"), tier="structural",
             grammar="tree_sitter_elixir.language", rules="elixir", line_comment=_HASH,
             block_comment=None),
    Language("Zig", "zig", (".zig", ".zon"), tier="structural", grammar="tree_sitter_zig.language",
             rules="zig", block_comment=None),
    # Languages without a grammar, by line rules.
    Language("Bats", "bats", (".bats",), rules="shell", line_comment=_HASH, block_comment=None),
    Language("Dart", "dart", (".dart",), rules="braces"),
    Language("Groovy", "groovy", (".groovy", ".gradle"), ("jenkinsfile",), rules="braces"),
    Language("Objective-C", "objective-c", (".m", ".mm"), rules="objc"),
    Language("CUDA", "cuda", (".cu", ".cuh"), rules="braces"),
    Language("Solidity", "solidity", (".sol",), rules="braces"),
    Language("Protocol Buffers", "protobuf", (".proto",), rules="braces"),
    Language("Thrift", "thrift", (".thrift",), rules="braces"),
    Language("GLSL", "glsl", (".glsl", ".vert", ".frag", ".hlsl", ".wgsl"), rules="braces"),
    Language("GraphQL", "graphql", (".graphql", ".gql", ".graphqls"), rules="graphql",
             line_comment=_HASH, block_comment=('"""', '"""')),
    Language("Perl", "perl", (".pl", ".pm", ".t"), rules="perl", line_comment=_HASH,
             block_comment=("=pod", "=cut")),
    Language("R", "r", (".r",), rules="r", line_comment=_HASH, block_comment=None),
    Language("Julia", "julia", (".jl",), rules="julia", line_comment=_HASH,
             block_comment=("#=", "=#")),
    Language("OCaml", "ocaml", (".ml", ".mli"), rules="ml", line_comment=(),
             block_comment=("(*", "*)")),
    Language("F#", "fsharp", (".fs", ".fsi", ".fsx"), rules="ml", block_comment=("(*", "*)")),
    Language("Elm", "elm", (".elm",), rules="haskell", line_comment=("--",),
             block_comment=("{-", "-}")),
    Language("PureScript", "purescript", (".purs",), rules="haskell", line_comment=("--",),
             block_comment=("{-", "-}")),
    Language("Erlang", "erlang", (".erl", ".hrl"), rules="erlang", line_comment=("%",),
             block_comment=None),
    Language("Clojure", "clojure", (".clj", ".cljs", ".cljc", ".edn"), rules="lisp",
             line_comment=(";",), block_comment=None),
    Language("Lisp", "lisp", (".lisp", ".el", ".scm", ".rkt"), rules="lisp", line_comment=(";",),
             block_comment=("#|", "|#")),
    Language("Nim", "nim", (".nim",), rules="python", line_comment=_HASH, block_comment=None),
    Language("Crystal", "crystal", (".cr",), rules="ruby", line_comment=_HASH, block_comment=None),
    Language("Starlark", "starlark", (".bzl", ".star"), ("build.bazel", "tiltfile"),
             rules="python", category="build", line_comment=_HASH, block_comment=None),
    Language("PowerShell", "powershell", (".ps1", ".psm1", ".psd1"), rules="powershell",
             line_comment=_HASH, block_comment=("<#", "#>")),
    Language("Batch", "batch", (".bat", ".cmd"), rules="batch", line_comment=("rem ", "::"),
             block_comment=None),
    Language("Fish", "fish", (".fish",), rules="shell", line_comment=_HASH, block_comment=None),
    Language("Vim script", "vim", (".vim",), ("vimrc", ".vimrc"), rules="vim",
             line_comment=('"',), block_comment=None),
    Language("Nix", "nix", (".nix",), tier="plain", line_comment=_HASH),
    Language("Pascal", "pascal", (".pas", ".pp", ".dpr"), rules="pascal",
             block_comment=("{", "}")),
    Language("Fortran", "fortran", (".f90", ".f95", ".f03", ".f08", ".f"), rules="fortran",
             line_comment=("!",), block_comment=None),
    Language("Visual Basic", "vb", (".vb", ".bas"), rules="basic", line_comment=("'",),
             block_comment=None),
    Language("Verilog", "verilog", (".v", ".sv", ".svh"), rules="verilog"),
    Language("Assembly", "assembly", (".asm", ".s"), rules="labels", line_comment=(";", "#", "//")),
    Language("SQL", "sql", (".sql",), rules="sql", line_comment=("--",)),
    Language("CSS", "css", (".css",), rules="css", category="markup", line_comment=()),
    Language("SCSS", "scss", (".scss", ".sass"), rules="css", category="markup"),
    Language("LESS", "less", (".less",), rules="css", category="markup"),
    Language("HTML", "html", (".html", ".htm", ".xhtml"), rules="html", category="markup",
             line_comment=(), block_comment=_XML),
    Language("Vue", "vue", (".vue",), rules="component", category="markup", block_comment=_XML),
    Language("Svelte", "svelte", (".svelte",), rules="component", category="markup",
             block_comment=_XML),
    Language("Astro", "astro", (".astro",), rules="component", category="markup",
             block_comment=_XML),
    Language("Templates", "template",
             (".ejs", ".erb", ".hbs", ".mustache", ".jinja", ".jinja2", ".j2", ".twig", ".haml",
              ".slim", ".pug", ".liquid", ".tmpl", ".gotmpl", ".eex", ".heex", ".leaf"),
             tier="plain", category="markup", line_comment=(), block_comment=_XML),
    Language("XML", "xml",
             (".xml", ".xsd", ".xsl", ".xslt", ".svg", ".plist", ".csproj", ".fsproj", ".vbproj",
              ".props", ".targets", ".storyboard", ".xib"),
             rules="html", category="data", line_comment=(), block_comment=_XML),
    Language("YAML", "yaml", (".yaml", ".yml"), rules="yaml", category="data", line_comment=_HASH,
             block_comment=None),
    Language("JSON", "json",
             (".json", ".jsonc", ".json5", ".jsonl", ".ndjson", ".webmanifest", ".ipynb"),
             rules="json", category="data"),
    Language("TOML", "toml", (".toml",), rules="toml", category="data", line_comment=_HASH,
             block_comment=None),
    Language("INI", "ini", (".ini", ".cfg", ".conf", ".properties", ".editorconfig"),
             (".editorconfig", ".gitattributes", ".gitmodules"),
             rules="toml", category="data", line_comment=("#", ";"), block_comment=None),
    Language("CSV", "csv", (".csv", ".tsv"), tier="plain", category="data", line_comment=(),
             block_comment=None),
    Language("Terraform", "hcl", (".tf", ".tfvars", ".hcl"), rules="hcl", category="build",
             line_comment=("#", "//")),
    Language("Dockerfile", "dockerfile", (".dockerfile",), ("dockerfile", "containerfile"),
             rules="dockerfile", category="build", line_comment=_HASH, block_comment=None),
    Language("Makefile", "make", (".mk", ".mak"), ("makefile", "gnumakefile", "justfile"),
             rules="make", category="build", line_comment=_HASH, block_comment=None),
    Language("CMake", "cmake", (".cmake",), ("cmakelists.txt",), rules="cmake", category="build",
             line_comment=_HASH, block_comment=("#[[", "]]")),
    Language("Meson", "meson", (), ("meson.build", "meson_options.txt"), tier="plain",
             category="build", line_comment=_HASH, block_comment=None),
    Language("Go module", "gomod", (), ("go.mod", "go.work"), tier="plain", category="build",
             block_comment=None),
    Language("Patch", "diff", (".diff", ".patch"), rules="diff", category="data", line_comment=(),
             block_comment=None),
)  # fmt: skip

_BY_LANGUAGE = {entry.language: entry for entry in reversed(LANGUAGES)}
_BY_EXTENSION = {ending: entry for entry in LANGUAGES for ending in entry.extensions}
_BY_NAME = {name: entry for entry in LANGUAGES for name in entry.names}


def detect_language(uri: str) -> Language | None:
    """Return the language of a URI: by its whole name, then by its extension."""
    name = uri.rpartition("/")[2].lower()
    language = _BY_NAME.get(name)
    if language is not None:
        return language
    stem, dot, ending = name.rpartition(".")
    if stem and dot and (language := _BY_EXTENSION.get(f".{ending}")):
        return language
    # Dockerfile.dev, Makefile.am: the type is before the dot.
    kind = name.partition(".")[0]
    return _BY_NAME.get(kind) if kind in ("dockerfile", "makefile") else None


_INTERPRETERS = {
    "python": "python", "sh": "bash", "bash": "bash", "zsh": "bash", "ksh": "bash", "dash": "bash",
    "node": "javascript", "ruby": "ruby", "perl": "perl", "lua": "lua", "luajit": "lua",
    "php": "php", "elixir": "elixir", "fish": "fish",
}  # fmt: skip
_SHEBANG = re.compile(
    r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([a-z]+)[\d.]*(?:\s|$)"
)


def detect_interpreter(text: str) -> Language | None:
    """Return the language of a script by its first line, such as ``#!/usr/bin/env python3``."""
    match = _SHEBANG.match(text[:200])
    return find_language(_INTERPRETERS.get(match[1], "")) if match else None


def find_language(language: str) -> Language | None:
    """Return the language with this name, or None."""
    return _BY_LANGUAGE.get(language)


_ALIASES = {
    "c#": "csharp", "c++": "cpp", "console": "bash", "docker": "dockerfile", "golang": "go",
    "jsx": "javascript", "node": "javascript", "objc": "objective-c",
    "py3": "python", "python3": "python", "pycon": "python", "shell": "bash",
    "shell-session": "bash", "terraform": "hcl", "zsh": "bash",
}  # fmt: skip


def language_of_fence(word: str) -> str:
    """Return the language name for the first word of a code fence, or that word."""
    name = word.lower().strip("{}.")
    if name in _ALIASES:
        return _ALIASES[name]
    language = find_language(name) or _BY_EXTENSION.get(f".{name}")
    return language.language if language is not None else name
