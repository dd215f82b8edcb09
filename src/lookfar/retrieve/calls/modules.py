"""Find the file of the repository that an import refers to, by the rules of each language."""

from __future__ import annotations

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from lookfar.retrieve.calls.code_files import CodeFile, CodeFiles

_SCRIPT_ENDINGS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts")
_COMPILED = {".js": (".ts", ".tsx"), ".mjs": (".mts",), ".cjs": (".cts",), ".jsx": (".tsx",)}
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)


class Modules:
    """Finds the documents that imports refer to."""

    def __init__(self, files: CodeFiles) -> None:
        self._files = files
        self._documents = files.documents

    def find(self, file: CodeFile, module: str) -> tuple[int, ...]:
        """Return the documents of a module that ``file`` imports; empty if it is not indexed."""
        language = file.language
        if language == "python":
            return self._find_python(file, module)
        if language in ("javascript", "typescript", "tsx"):
            return self._find_script(file, module)
        if language == "go":
            return self._find_go(module)
        if language == "rust":
            return self._find_rust(file, module)
        return self._find_path(file, module.replace(".", "/"))

    # -- Python --

    def _find_python(self, file: CodeFile, module: str) -> tuple[int, ...]:
        level = len(module) - len(module.lstrip("."))
        path = module.lstrip(".").replace(".", "/")
        if level:
            folder = file.folder
            for _ in range(level - 1):
                folder = posixpath.dirname(folder)
            return self._python_at(posixpath.join(folder, path) if path else folder)
        last = path.rpartition("/")[2]
        matches = [
            base
            for base in self._python_modules.get(last, ())
            if base == path or (base.endswith(f"/{path}") and self._is_root(base, path))
        ]
        # Take the nearest module: a repository may contain several projects.
        matches.sort(key=lambda base: (-len(posixpath.commonprefix((base, file.uri))), len(base)))
        return self._python_at(matches[0]) if matches else ()

    def _is_root(self, base: str, path: str) -> bool:
        """Whether the folder above an absolute import is not itself a package."""
        above = base.removesuffix(f"/{path}")
        return f"{above}/__init__.py" not in self._documents

    def _python_at(self, base: str) -> tuple[int, ...]:
        for uri in (f"{base}/__init__.py", f"{base}.py", f"{base}.pyi", f"{base}/__init__.pyi"):
            if uri.lstrip("/") in self._documents:
                return (self._documents[uri.lstrip("/")],)
        return ()

    def find_submodule(self, file: CodeFile, name: str) -> tuple[int, ...]:
        """Return a module inside the package whose ``__init__`` is ``file``."""
        if file.language != "python" or not file.uri.endswith("__init__.py"):
            return ()
        return self._python_at(f"{file.folder}/{name}" if file.folder else name)

    @cached_property
    def _python_modules(self) -> Mapping[str, Sequence[str]]:
        modules: dict[str, list[str]] = defaultdict(list)
        for uri in self._documents:
            if uri.endswith((".py", ".pyi")):
                base = uri.rpartition(".")[0].removesuffix("/__init__")
                modules[base.rpartition("/")[2]].append(base)
        return modules

    # -- JavaScript and TypeScript --

    def _find_script(self, file: CodeFile, module: str) -> tuple[int, ...]:
        if module.startswith("."):
            base = posixpath.normpath(posixpath.join(file.folder, module))
            return self._script_at(base)
        for name, folder in self._packages.items():
            if module == name or module.startswith(f"{name}/"):
                rest = module.removeprefix(name).lstrip("/")
                for inside in (f"src/{rest}", rest):
                    base = posixpath.normpath(posixpath.join(folder, inside or "index"))
                    if found := self._script_at(base):
                        return found
        if module.startswith(("@/", "~/", "src/")):
            rest = module.partition("/")[2]
            tops = {uri.partition("/src/")[0] for uri in self._documents if "/src/" in uri}
            for top in ("src", *sorted(f"{top}/src" for top in tops if file.uri.startswith(top))):
                if found := self._script_at(posixpath.normpath(f"{top}/{rest}")):
                    return found
        return ()

    def _script_at(self, base: str) -> tuple[int, ...]:
        stem, ending = posixpath.splitext(base)
        candidates = [f"{stem}{other}" for other in _COMPILED.get(ending, ())]
        candidates += [base, *(f"{base}{other}" for other in _SCRIPT_ENDINGS)]
        candidates += [f"{base}/index{other}" for other in _SCRIPT_ENDINGS]
        for uri in candidates:
            document = self._documents.get(uri)
            if document is not None and self._files.language_of(document) in (
                "javascript", "typescript", "tsx",
            ):  # fmt: skip
                return (document,)
        return ()

    @cached_property
    def _packages(self) -> Mapping[str, str]:
        """The folders of the packages in this repository by package name, longest name first."""
        packages: dict[str, str] = {}
        for uri in self._documents:
            if uri == "package.json" or uri.endswith("/package.json"):
                try:
                    name = json.loads(self._files.text(uri)).get("name")
                except (ValueError, AttributeError):
                    continue
                if isinstance(name, str) and name:
                    packages[name] = uri.removesuffix("package.json").rstrip("/")
        return dict(sorted(packages.items(), key=lambda item: (-len(item[0]), item[0])))

    # -- Go, Rust and paths --

    def _find_go(self, module: str) -> tuple[int, ...]:
        for name, folder in self._go_modules.items():
            if module == name or module.startswith(f"{name}/"):
                inside = posixpath.join(folder, module.removeprefix(name).lstrip("/")).rstrip("/")
                return self.go_package(inside)
        return ()

    def go_package(self, folder: str) -> tuple[int, ...]:
        """Return the files of the package in a folder."""
        return tuple(self._go_folders.get(folder, ()))

    @cached_property
    def _go_folders(self) -> Mapping[str, Sequence[int]]:
        folders: dict[str, list[int]] = defaultdict(list)
        for uri, document in self._documents.items():
            if uri.endswith(".go"):
                folders[uri.rpartition("/")[0]].append(document)
        return folders

    @cached_property
    def _go_modules(self) -> Mapping[str, str]:
        modules: dict[str, str] = {}
        for uri in self._documents:
            if uri == "go.mod" or uri.endswith("/go.mod"):
                match = _GO_MODULE.search(self._files.text(uri))
                if match:
                    modules[match[1]] = uri.removesuffix("go.mod").rstrip("/")
        return dict(sorted(modules.items(), key=lambda item: -len(item[0])))

    def _find_rust(self, file: CodeFile, module: str) -> tuple[int, ...]:
        parts = [part for part in re.split(r"::|\.", module) if part]
        folder = file.folder
        stem = file.uri.rpartition("/")[2].removesuffix(".rs")
        own = folder if stem in ("mod", "lib", "main") else posixpath.join(folder, stem)
        while parts and parts[0] in ("crate", "self", "super"):
            head = parts.pop(0)
            if head == "crate":
                own = re.sub(r"(^|.*/)src(/.*)?$", r"\1src", own)
            elif head == "super":
                own = posixpath.dirname(own)
        base = posixpath.join(own, *parts) if parts else own
        for uri in (f"{base}.rs", f"{base}/mod.rs", f"{base}/lib.rs", f"{base}/main.rs"):
            if uri in self._documents:
                return (self._documents[uri],)
        return ()

    def _find_path(self, file: CodeFile, path: str) -> tuple[int, ...]:
        """Return the file that a dotted path ends in, such as ``a.b.C`` for ``a/b/C.java``."""
        ending = posixpath.splitext(file.uri)[1]
        uri = f"{path}{ending}"
        matches = [known for known in self._by_last.get(uri.rpartition("/")[2], ())
                   if known == uri or known.endswith(f"/{uri}")]  # fmt: skip
        return (self._documents[matches[0]],) if len(matches) == 1 else ()

    @cached_property
    def _by_last(self) -> Mapping[str, Sequence[str]]:
        names: dict[str, list[str]] = defaultdict(list)
        for uri in self._documents:
            names[uri.rpartition("/")[2]].append(uri)
        return names
