"""One registry for everything that is one file an entry: schedules, techniques, families, exporters, papers.

A package that holds entries creates a registry and names itself; each module of the package registers what it defines:

```python
# techniques/__init__.py
TECHNIQUES: Registry[Technique] = Registry("techniques", package="windtunnel.techniques", noun="technique")

# techniques/zb_h1.py
@TECHNIQUES.register("zb_h1")
class ZeroBubble: ...
```

Nothing is imported before it is asked for: `get("zb_h1")` imports the module of that name alone when there is one,
`list()` imports them all. Other distributions add entries through the entry-point group `windtunnel.<kind>`; an entry
point's name is the id, and its object is the entry (or a module that registers on import).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Generic, TypeVar

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.versions import current_id

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries of one kind by id, found lazily.

    Args:
        kind: plural, names the entry-point group `windtunnel.<kind>`.
        package: dotted name of the package whose modules register entries; None for entries that are only added by
            hand. Modules and sub-packages whose names start with `_` are skipped.
        noun: singular for messages; by default `kind` without its final s.
        recursive: also look inside sub-packages.
    """

    def __init__(self, kind: str, package: str | None = None, noun: str | None = None, recursive: bool = False) -> None:
        self.kind = kind
        self.noun = noun or kind.removesuffix("s").replace("_", " ")
        self.package = package
        self._recursive = recursive
        self._entries: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._modules: dict[str, tuple[str, ...]] | None = None
        self._plugins: dict[str, EntryPoint] | None = None
        self._complete = False

    def add(self, id: str, entry: T, aliases: tuple[str, ...] = ()) -> T:
        """Register `entry` under `id` and return it.

        Raises:
            ValueError: the id or an alias is taken by another entry (our own, or a plug-in's, mistake).
        """
        for name in (id, *aliases):
            known = self._entries.get(self._aliases.get(name, name))
            if known is not None and known is not entry and not _same_definition(known, entry):
                raise ValueError(f"{self.noun} id '{name}' is registered twice: {known!r} and {entry!r}")
        self._entries[id] = entry
        self._aliases.update(dict.fromkeys(aliases, id))
        return entry

    def register(self, id: str, *aliases: str) -> Callable[[T], T]:
        """`add` as a decorator for a class or function."""
        return lambda entry: self.add(id, entry, aliases)

    def get(self, id: str, field: str = "") -> T:
        """The entry called `id`, imported now if it was not yet.

        Args:
            id: an id or an alias, exactly as registered.
            field: dotted path of the setting that named it, for the message.

        Raises:
            BadInput: there is none; names the nearest id.
        """
        id = current_id(self.kind, id)
        found = self._find(id)
        if found is None:
            self._import_named(id)
            found = self._find(id)
        if found is None:
            self._import_all()
            found = self._find(id)
        if found is None:
            raise BadInput(self.unknown(id, field))
        return found

    def unknown(self, id: str, field: str = "") -> Problem:
        """The problem to report for an id that is not registered."""
        ids = self.list()
        nearest = nearest_name(id, [*ids, *self._aliases])
        few = len(ids) <= 12
        rule = f"no such {self.noun}" + (f"; known: {', '.join(ids) or 'none'}" if few else f" among {len(ids)}")
        return Problem(field=field or self.noun, rule=rule, value=id, nearest=nearest)

    def list(self) -> tuple[str, ...]:
        """All ids, sorted."""
        self._import_all()
        return tuple(sorted(self._entries))

    def items(self) -> Iterator[tuple[str, T]]:
        """Ids and entries in the order of `list()`."""
        for id in self.list():
            yield id, self._entries[id]

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, str):
            return False
        id = current_id(self.kind, id)
        if self._find(id) is None:
            self._import_named(id)
        if self._find(id) is None:
            self._import_all()
        return self._find(id) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self.list())

    def _find(self, id: str) -> T | None:
        return self._entries.get(self._aliases.get(id, id))

    def _import_named(self, id: str) -> None:
        for name in self._module_names().get(id.replace("-", "_"), ()):
            importlib.import_module(name)
        self._load_plugin(id)

    def _import_all(self) -> None:
        if self._complete:
            return
        for names in self._module_names().values():
            for name in names:
                importlib.import_module(name)
        for id in self._plugin_points():
            self._load_plugin(id)
        self._complete = True

    def _load_plugin(self, id: str) -> None:
        point = self._plugin_points().get(id)
        if point is None or id in self._entries:
            return
        entry = point.load()
        if not isinstance(entry, ModuleType):
            self.add(id, entry)

    def _module_names(self) -> dict[str, tuple[str, ...]]:
        """Last part of the name → modules of that name, without importing them."""
        if self._modules is None:
            found: dict[str, tuple[str, ...]] = {}
            if self.package is not None:
                self._walk(self.package, found)
            self._modules = found
        return self._modules

    def _walk(self, package: str, found: dict[str, tuple[str, ...]]) -> None:
        path = importlib.import_module(package).__path__
        for module in pkgutil.iter_modules(path):
            if module.name.startswith("_"):
                continue
            name = f"{package}.{module.name}"
            found[module.name] = (*found.get(module.name, ()), name)
            if module.ispkg and self._recursive:
                self._walk(name, found)

    def _plugin_points(self) -> dict[str, EntryPoint]:
        if self._plugins is None:
            self._plugins = {point.name: point for point in entry_points(group=f"windtunnel.{self.kind}")}
        return self._plugins


def _same_definition(a: object, b: object) -> bool:
    """Whether two classes or functions are one definition, loaded again by a module reload."""
    names = [(getattr(x, "__module__", None), getattr(x, "__qualname__", None)) for x in (a, b)]
    return None not in names[0] and names[0] == names[1]
