"""Cache bytes and decode rate of small decoders with latent attention and experts; FLOP of a step of Muon."""

from __future__ import annotations

from typing import Any

from windtunnel.laws.published.muon_mla_moe import newton_schulz_flop
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import Model, capacity, decode_s
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "muon-mla-moe")
fixed = EXPERIMENT.fixed


HEAD = 64
"""Numbers of a head."""


def dense(values: Values) -> dict[str, Any]:
    """A decoder with a key and a value of every head, and a dense layer of four times its width."""
    hidden = int(values["hidden"])
    return {
        "name": f"dense-{hidden}",
        "hidden_size": hidden,
        "num_hidden_layers": fixed("layers"),
        "vocab_size": fixed("vocab"),
        "num_attention_heads": hidden // HEAD,
        "intermediate_size": 4 * hidden,
        "gated_mlp": False,
        "max_position_embeddings": 4096,
    }


def latent(values: Values) -> dict[str, Any]:
    """The same decoder with latent attention and experts."""
    hidden, experts = int(values["hidden"]), fixed("experts")
    return dense(values) | {
        "name": f"latent-{hidden}-{values['latent']}",
        "family": "moe",
        "kv_lora_rank": int(values["latent"] * hidden),
        "qk_nope_head_dim": HEAD,
        "qk_rope_head_dim": fixed("rope"),
        "v_head_dim": HEAD,
        "num_experts": experts["count"],
        "num_experts_per_tok": experts["active"],
        "moe_intermediate_size": int(experts["width"] * 4 * hidden),
    }


def memory(values: Values) -> float:
    """Bytes of the cache saved, %."""
    own, before = (capacity(model, fixed("device")).bytes_per_token for model in (latent(values), dense(values)))
    return 100.0 * (1.0 - own / before)


def speed(values: Values) -> float:
    """Decode rate of the latent decoder over the dense one."""

    def seconds(model: Model) -> float:
        return decode_s(model, fixed("device"), values["batch"], fixed("context"))

    return seconds(dense(values)) / seconds(latent(values))


def step(values: Values) -> float:
    """Newton–Schulz FLOP of all matrices of a layer over their training FLOP, %."""
    hidden = float(values["hidden"])
    shapes = [(hidden, hidden)] * 4 + [(hidden, 4.0 * hidden)] * 2
    extra = sum(newton_schulz_flop(*shape) for shape in shapes)
    return 100.0 * extra / (6.0 * 5e5 * sum(rows * columns for rows, columns in shapes))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"memory": memory, "speed": speed, "step": step}
