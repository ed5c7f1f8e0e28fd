"""State-space layers of Mamba hybrids (Nemotron-H); their attention and MLP layers are those of `dense`."""

from __future__ import annotations

from windtunnel.graph.attention import Parts
from windtunnel.graph.families import BLOCK_KINDS
from windtunnel.graph.operators import Batch, Style
from windtunnel.graph.recurrent import mamba2
from windtunnel.specs.model import ModelSpec


@BLOCK_KINDS.register("M")
def _mamba(model: ModelSpec, batch: Batch, style: Style, unfused: bool) -> list[Parts]:
    return [mamba2(model, batch, style)]
