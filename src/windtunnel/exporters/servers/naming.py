"""Which checkpoint a server loads: the one that the scenario names, where it is one of the Hub's or a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.catalog import store

if TYPE_CHECKING:
    from windtunnel.exporters.servers.deployed import Deployed
    from windtunnel.exporters.servers.target import ServerDraft
    from windtunnel.specs.model import ModelSpec

STAND_IN = "REPLACE/WITH-YOUR-CHECKPOINT"


def named_checkpoint(written: object, model: ModelSpec) -> str:
    """The checkpoint of a scenario.

    Args:
        written: what the scenario says under `model`.
        model: its architecture; many checkpoints share one.
    """
    if not isinstance(written, str):
        return model.name
    if "/" in written:
        return written
    own = store.key(written)
    names = (name for name in store.spellings("models") if name.count("/") == 1)
    return next((name for name in names if store.key(name.split("/")[1]) == own), model.name)


def checkpoint(deployed: Deployed, draft: ServerDraft) -> str:
    """The name to load; a stand-in, and a note, where the scenario spells the model out."""
    name = deployed.checkpoint
    if "/" in name and " " not in name:
        return name
    draft.note(f"{name} is no checkpoint's name: MODEL is a stand-in")
    return STAND_IN


def says(name: str, *words: str) -> bool:
    """Whether the name of a checkpoint holds one of these words."""
    plain = name.lower().replace("_", "-")
    return any(word in plain for word in words)
