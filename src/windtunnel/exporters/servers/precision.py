"""Formats of weights: cast when they are loaded, or stored in the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.catalog.checkpoints import listed_format, named_format
from windtunnel.exporters.servers.naming import says

if TYPE_CHECKING:
    from windtunnel.exporters.servers.deployed import Deployed
    from windtunnel.exporters.servers.target import ServerDraft

STORED = {
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int8": "w8a8",
    "w4a16": "awq",
    "w4a8": "w4a8",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
}
"""Format → a word in the names of checkpoints in it."""


def stored(deployed: Deployed, format: str) -> bool:
    """Whether the model's checkpoint is in a format: by its name, or as the catalogue knows it is released."""
    name = deployed.checkpoint
    released = listed_format(name) or listed_format(deployed.model.name)
    listed = released is not None and format in released.formats.values()
    return listed or named_format(name)[1] == format or (format in STORED and says(name, STORED[format]))


def cast(deployed: Deployed, draft: ServerDraft, online: tuple[str, ...]) -> str | None:
    """The format that 16-bit weights have to be cast to when they are loaded; None when there is nothing to cast.

    Args:
        deployed: what is served.
        draft: takes what has to be said.
        online: formats that the engine can cast to.
    """
    kinds = deployed.serving.precision
    weights, experts = kinds.weights or "bf16", kinds.experts
    released = listed_format(deployed.checkpoint) or listed_format(deployed.model.name)
    if released is not None and any(
        released.formats.get(part, released.formats["weights"]) not in ("bf16", "fp16") and own in ("bf16", "fp16")
        for part, own in (("weights", weights), ("experts", experts or weights))
    ):
        have = ", ".join(f"{part} in {format}" for part, format in released.formats.items())
        draft.note(f"the checkpoint is released with {have}: MODEL must name a copy of it in 16 bits")
    if experts and experts != weights and not stored(deployed, experts):
        draft.note(f"experts in {experts} next to weights in {weights} come with the checkpoint alone")
    if weights in ("bf16", "fp16") or stored(deployed, weights):
        return None
    if weights in online:
        draft.note(f"weights are cast to {weights} when they are loaded; a checkpoint in it loads faster")
        return weights
    draft.note(f"weights in {weights} come with the checkpoint: MODEL must name one in that format")
    return None
