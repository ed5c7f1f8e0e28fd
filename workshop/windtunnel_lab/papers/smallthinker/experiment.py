"""Two mixtures on a consumer CPU with most of their experts on a drive."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def tokens_per_s(size: str, values: Values, router: str = "before_attention", cached: float | None = None) -> float:
    """Rate of one answer; `cached`: share of the experts in memory, absent: what the limit leaves."""
    hidden, layers, heads, kv, experts, topk, width = fixed("models")[size]
    share = fixed("cached")[size] if cached is None else cached
    result = served(
        {
            "model": {
                "name": f"SmallThinker {size}",
                "family": "moe",
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "vocab_size": fixed("vocab_size"),
                "num_attention_heads": heads,
                "num_key_value_heads": kv,
                "head_dim": 128,
                "intermediate_size": width,
                "num_experts": experts,
                "num_experts_per_tok": topk,
                "moe_intermediate_size": width,
                "max_position_embeddings": 32768,
                "tie_word_embeddings": not fixed("own_head")[size],
                "hidden_act": "relu",
            },
            "cluster": {"device": EXPERIMENT.setting["device"], "nodes": 1, "devices_per_node": 1},
            "serving": {
                "engine": "generic",
                "precision": {"weights": "q4_0", "ends": "q4_0"},
                "sparse_reads": {"neurons": values["neurons"], **fixed("head")[size]},
                "expert_storage": {
                    "cached": share,
                    "hits": share + (1.0 - share) * values["locality"],
                    "bytes_per_s": values["drive_gb_per_s"] * 1e9,
                },
                "pools": [{"limits": {"max_num_seqs": 1}}],
                "traffic": {
                    "offline": True,
                    "num_requests": 1,
                    "input_tokens": fixed("input_tokens"),
                    "output_tokens": fixed("output_tokens"),
                },
            },
            "techniques": [{"smallthinker": {"router": router}}],
        }
    )
    return float(1.0 / result.tpot_s.mean)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "speed/4b": lambda values: tokens_per_s("4b", values),
        "speed/21b": lambda values: tokens_per_s("21b", values),
        "card/4b": lambda values: tokens_per_s("4b", values),
        "card/21b": lambda values: tokens_per_s("21b", values),
        "memory/4b": lambda values: tokens_per_s("4b", values, cached=1.0),
        "memory/21b": lambda values: tokens_per_s("21b", values, cached=1.0),
        "router": lambda values: tokens_per_s("21b", values) / tokens_per_s("21b", values, "after_attention"),
    }
