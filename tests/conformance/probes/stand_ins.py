"""Stand-ins for packages that need a device: their kernels are named when a program is imported, and never run here."""

from __future__ import annotations

import sys
import types
from typing import Any, ClassVar
from unittest import mock

import torch


class Module(types.ModuleType):
    """A module of which every name is a stand-in."""

    __path__: ClassVar[list[str]] = []
    __version__ = "3.9.0"

    def __getattr__(self, name: str) -> Any:
        """Anything that is asked for."""
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()


def install(*names: str) -> None:
    """Put stand-ins in the place of packages, and compile nothing."""
    for name in names:
        sys.modules[name] = Module(name)
    torch.compile = lambda function=None, **_: function or (lambda given: given)
