"""An import hook that compiles files of the product from an edited syntax tree; files on disk stay as they are."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import mutant_sites

PACKAGE = Path(__file__).parents[2] / "src" / "windtunnel"
sys.path.insert(0, str(PACKAGE.parent))  # this tree's package, whichever is installed
VARIABLE = "WINDTUNNEL_MUTANT"
"""Environment variable with the JSON of a site, for processes that a test starts."""
HITS = "_hits_"

Transform = Callable[[str, ast.Module], bool]
"""Edits the tree of a file (path below the package) in place; whether it did."""


class EditedLoader(SourceFileLoader):
    """Compiles a file from its edited tree."""

    def __init__(self, fullname: str, path: str, transform: Transform, names: dict[str, object]) -> None:
        super().__init__(fullname, path)
        self._transform = transform
        self._names = names

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names)
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType | None:
        tree = ast.parse(Path(self.path).read_bytes())
        if not self._transform(str(Path(self.path).relative_to(PACKAGE)), tree):
            return super().get_code(fullname)
        return compile(tree, self.path, "exec", dont_inherit=True)


class EditedFinder:
    """Finds modules of the package and loads them through a transform."""

    def __init__(self, transform: Transform, names: dict[str, object], file: str | None = None) -> None:
        self._transform, self._names = transform, names
        self._path = None if file is None else str(PACKAGE / file)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "windtunnel" and not name.startswith("windtunnel."):
            return None
        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        own = Path(spec.origin).is_relative_to(PACKAGE)
        if own and (self._path is None or spec.origin == self._path):
            spec.loader = EditedLoader(name, spec.origin, self._transform, self._names)
        return spec


def install_mutant(site: mutant_sites.Site) -> None:
    """Damage the product in this process and in Python processes that it starts; before the package is imported."""

    def damage(file: str, tree: ast.Module) -> bool:
        mutant_sites.apply(tree, site)
        return True

    sys.meta_path.insert(0, EditedFinder(damage, {}, site.file))  # type: ignore[arg-type]
    os.environ[VARIABLE] = json.dumps(vars(site))
    damaged = str(Path(__file__).with_name("subprocess"))
    sys.path.append(damaged)  # tests hand their own path on
    folders = [damaged, str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))


def unit_hash(unit: ast.AST) -> str:
    """16 hexadecimal digits of a function's code, whatever file it stands in."""
    return hashlib.sha256(ast.dump(unit).encode()).hexdigest()[:16]


class Recorder:
    """Notes which segments of which functions run."""

    def __init__(self, is_jitted: Callable[[str], bool]) -> None:
        self.keys: list[tuple[str, str, str, int]] = []
        """File, unit, hash and segment by ordinal."""
        self.hits = bytearray(400_000)
        self._is_jitted = is_jitted

    def install(self) -> None:
        sys.meta_path.insert(0, EditedFinder(self._mark, {HITS: self.hits}))  # type: ignore[arg-type]

    def _mark(self, file: str, tree: ast.Module) -> bool:
        """Insert `_hits_[n] = 1` before every segment."""
        if self._is_jitted(file):
            return False
        for name, unit in list(mutant_sites.units(tree)):
            digest = unit_hash(unit)
            marks: dict[int, list[tuple[int, ast.stmt]]] = {}
            lists: dict[int, list[ast.stmt]] = {}
            for segment, statements, place in mutant_sites.segments(unit):
                mark = ast.parse(f"{HITS}[{len(self.keys)}] = 1").body[0]
                for node in ast.walk(mark):
                    if hasattr(node, "lineno"):
                        ast.copy_location(node, statements[place])
                self.keys.append((file, name, digest, segment))
                marks.setdefault(id(statements), []).append((place, mark))
                lists[id(statements)] = statements
            for key, found in marks.items():
                for place, mark in reversed(found):
                    lists[key].insert(place, mark)
        return True
