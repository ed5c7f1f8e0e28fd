"""Which checkpoint a server loads: the one that the scenario names, where it is one of the Hub's or a folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.exporters.servers.deployed import Deployed
    from windtunnel.exporters.servers.target import ServerDraft

STAND_IN = "REPLACE/WITH-YOUR-CHECKPOINT"
_LOADED = re.compile(r"(?!-)[\w.~-]*(/[\w.@:+=,-]+)+/?")
"""Repositories of the Hub and folders; nothing that a shell would run, whoever wrote the scenario."""


def checkpoint(deployed: Deployed, draft: ServerDraft) -> str:
    """The name to load; a stand-in, and a note, where the scenario spells the model out."""
    name = deployed.checkpoint
    if _LOADED.fullmatch(name):
        return name
    draft.note(f"{name} is no checkpoint's name: MODEL is a stand-in")
    return STAND_IN


def says(name: str, *words: str) -> bool:
    """Whether the name of a checkpoint holds one of these words."""
    plain = name.lower().replace("_", "-")
    return any(word in plain for word in words)
