"""What the code of a model type, not its configuration file, decides: the tables of `known_types.yaml`."""

from __future__ import annotations

from typing import Any

from windtunnel.data_files import read_yaml

_DATA = read_yaml("importers/huggingface/known_types.yaml")

TRAITS: dict[str, dict[str, Any]] = _DATA["traits"]
DEFAULTS: dict[str, dict[str, Any]] = _DATA["defaults"]
NESTED_DEFAULTS: dict[str, dict[str, Any]] = _DATA["nested_defaults"]
"""`model_type` → what files leave out of a text part, because it equals the default of the type's class."""
READ_BY_MEANING: frozenset[str] = frozenset(_DATA["read_by_meaning"])
REFUSED: dict[str, str] = _DATA["refused"]
FOREIGN: tuple[str, ...] = tuple(_DATA["foreign"])
TOLD_BY_ABSENCE: tuple[str, ...] = tuple(_DATA["told_by_absence"])
GATED: frozenset[str] = frozenset(_DATA["gated"])
HARMLESS: frozenset[str] = frozenset(_DATA["harmless"])
SPELLINGS: dict[str, tuple[str, ...]] = {field: tuple(names) for field, names in _DATA["spellings"].items()}
