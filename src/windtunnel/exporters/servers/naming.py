"""Which checkpoint a server loads: the model's name where it is one of the Hub's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.exporters.servers.target import ServerDraft
    from windtunnel.specs.model import ModelSpec

STAND_IN = "REPLACE/WITH-YOUR-CHECKPOINT"


def checkpoint(model: ModelSpec, draft: ServerDraft) -> str:
    """The name to load; a stand-in, and a note, where the scenario spells the model out."""
    if model.name.count("/") == 1 and " " not in model.name:
        return model.name
    draft.note(f"{model.name} is no checkpoint's name: MODEL is a stand-in")
    return STAND_IN


def says(model: ModelSpec, *words: str) -> bool:
    """Whether the name of a checkpoint holds one of these words."""
    plain = model.name.lower().replace("_", "-")
    return any(word in plain for word in words)
