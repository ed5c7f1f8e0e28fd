"""Stand-ins for every package that a program imports and that is not installed, and for its compiled parts.

A serving engine imports its kernels before it reads its own options. Here each name that its code asks for and that
cannot be found is a class that does nothing; packages that are there are imported as they are.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any, ClassVar

COMPILED = ("_C", "_moe_C", "_rocm_C", "flash_attn_C", "_version", "sglang_router_rs")


class _Anything(type):
    """Attributes of a stand-in are their own names."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


def _schema(cls: Any, source: Any, handler: Any) -> Any:
    from pydantic_core import core_schema

    return core_schema.any_schema()


class _Module(types.ModuleType):
    __path__: ClassVar[list[str]] = []
    __file__ = "absent"
    __version__ = "9.9.9"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        body = {
            "__init__": lambda self, *a, **k: None,
            "__class_getitem__": classmethod(lambda cls, item: cls),
            "__get_pydantic_core_schema__": classmethod(_schema),
            "__getattr__": lambda self, attribute: lambda *a, **k: a[0] if a else None,
        }
        made = _Anything(name, (), body)
        setattr(self, name, made)
        return made


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds, last of all, what the code under a folder imports."""

    def __init__(self, root: str, never: Sequence[str]) -> None:
        self.root, self.never = root, set(never)
        self.made: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """A stand-in when the program itself, or a stand-in, asks for it."""
        top = name.split(".", maxsplit=1)[0]
        if top in sys.stdlib_module_names or top in self.never:
            return None
        own = name.endswith(COMPILED)
        frame = sys._getframe(1)
        while frame.f_back and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if not own and (self.root not in frame.f_code.co_filename and top not in self.made):
            return None
        if not own:
            self.made.add(top)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The stand-in."""
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def install(root: str, *never: str) -> None:
    """Put the finder behind all others; packages in `never` stay absent, as programs ask whether they are there."""
    import torch

    torch.compile = lambda function=None, **_: function or (lambda given: given)
    real = torch.library.Library.impl

    def impl(*given: Any, **more: Any) -> Any:
        try:
            return real(*given, **more)
        except TypeError:  # a kernel for a device that is not here
            return None

    torch.library.Library.impl = impl  # type: ignore[method-assign]
    sys.meta_path.append(Absent(root, never))
