"""The second distribution, `windtunnel-lab`: found by importing it, never needed by a command but `reproduce`."""

from __future__ import annotations

import importlib
from types import ModuleType

from windtunnel.errors import BadInput, Problem

_PACKAGE = "windtunnel_lab"


def workshop_module(name: str) -> ModuleType:
    """A module of the second distribution.

    Args:
        name: dotted, below its package.

    Raises:
        BadInput: the distribution is not installed.
    """
    try:
        importlib.import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        where = "`python -m pip install ./workshop` in a checkout of Windtunnel"
        raise BadInput(Problem("reproduce", f"needs the distribution windtunnel-lab: {where}")) from None
    return importlib.import_module(f"{_PACKAGE}.{name}")


def papers() -> list[str]:
    """Papers that can be reproduced here; none without the second distribution."""
    try:
        found: list[str] = workshop_module("reproduce").list_papers()
    except BadInput:
        return []
    return found
