"""Cache of an instance whose keys and values are on devices of their own."""

from __future__ import annotations

from windtunnel import catalog
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.kv_capacity.base import stages_of
from windtunnel.specs.attention_pool import AttentionPoolSpec
from windtunnel.specs.model import ModelSpec


def remote_blocks(model: ModelSpec, shape: Shape, pool: AttentionPoolSpec, block: int) -> int:
    """Blocks that the devices of an attention pool hold: all layers and heads of a token, each once.

    Args:
        model: what is served.
        shape: axes and formats of the instance; ranks that copy heads keep one copy here.
        pool: the devices.
        block: tokens.
    """
    heads = 1.0 if model.is_mla else float(model.attention_dims(windowed=False)[1])
    copies = max(shape.tp / heads, 1.0)
    token = sum(stage.full + stage.windowed for stage in stages_of(model, shape)) * shape.tp / copies
    room = pool.count * catalog.device(pool.device).memory_bytes * pool.memory_fraction
    return max(int(room // (token * block)), 1)
