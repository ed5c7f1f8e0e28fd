"""Serving and training of models whose layers are written one by one: equal to the flat spelling, bound by memory."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.catalog.parameters import count_parameters
from windtunnel.errors import BadInput
from windtunnel.graph.mixers.attention import attention, latent_attention
from windtunnel.graph.mixers.feed_forward import mixture, mlp
from windtunnel.graph.mixers.state_space import mamba2
from windtunnel.importers.hf_config import from_hf_config
from windtunnel.serving.deployment import prepare
from windtunnel.serving.simulate import simulate_serving
from windtunnel.specs.layers import Layer, SubBlock
from windtunnel.specs.model import ModelSpec
from windtunnel.training.predict import simulate_training

H200_BYTES_PER_S = 4.8e12


def _attention(m: ModelSpec, *, windowed: bool) -> SubBlock:
    h, heads = m.hidden_size, m.num_attention_heads
    if m.kv_lora_rank:
        dims = m.qk_nope_head_dim, m.qk_rope_head_dim, m.v_head_dim
        return latent_attention(h, heads, m.kv_lora_rank, dims, q_rank=m.q_lora_rank or 0).plus(h)
    size, kv_heads, _ = m.attention_dims(windowed=windowed)
    window = (m.sliding_window or 0) if windowed else 0
    return attention(h, heads, kv_heads, size, window=window).plus(h + 2 * size * m.qk_norm)


def composed(m: ModelSpec) -> ModelSpec:
    """The same network, its layers written one by one."""
    h = m.hidden_size
    shared = m.shared_expert_intermediate_size or m.n_shared_experts * m.moe_intermediate_size
    made: dict[str, tuple[SubBlock, ...]] = {}
    for kind in dict.fromkeys(m.layer_kinds()):
        if kind == "M":
            scan = mamba2(
                h, m.mamba_num_heads, m.mamba_head_dim, m.ssm_state_size, groups=m.n_groups, chunk=m.chunk_size
            )
            made[kind] = (scan.plus(h),)
            continue
        blocks = [] if kind in "FG" else [_attention(m, windowed=kind in "WX")]
        if kind in "DWF":
            blocks.append(mlp(h, m.intermediate_size, gated=m.gated_mlp).plus(h))
        elif kind in "EXG":
            experts = mixture(h, m.num_experts, m.num_experts_per_tok, m.moe_intermediate_size, shared=shared)
            blocks.append(experts.plus(h))
        made[kind] = tuple(blocks)
    described = ("hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads", "intermediate_size")
    described += ("gated_mlp", "hidden_act", "norm", "post_norm", "qk_norm", "tie_word_embeddings")
    described += ("position_embedding", "num_experts", "num_experts_per_tok", "moe_intermediate_size")
    fields = {name: getattr(m, name) for name in described}
    layers = tuple(Layer(blocks=made[kind]) for kind in m.layer_kinds())
    return ModelSpec(
        name=f"{m.name} by layers",
        family="composed",
        num_key_value_heads=m.kv_heads,
        head_dim=m.attention_head_dim,
        layers=layers,
        **fields,
    )


def _given(model: ModelSpec) -> dict[str, Any]:
    return model.model_dump(exclude_none=True, exclude_defaults=True)


def _served(model: ModelSpec, **traffic: Any) -> dict[str, Any]:
    load = {"rate_per_s": 3.0, "num_requests": 30, "input_tokens": 1500, "output_tokens": 100}
    return {
        "model": _given(model),
        "cluster": {"device": "h200-sxm-141gb", "nodes": 1, "devices_per_node": 2},
        "serving": {"pools": [{"plan": {"tp": 2}}], "traffic": load | traffic},
    }


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B",
        "mistralai/Mistral-7B-v0.1",
        "Qwen/Qwen3-30B-A3B",
        "nvidia/Nemotron-H-8B-Base-8K",
        "deepseek-ai/DeepSeek-V2-Lite",
    ],
)
def test_layers_written_one_by_one_predict_what_the_flat_spelling_does(name: str) -> None:
    flat = catalog.model(name).model_copy(update={"num_nextn_predict_layers": 0})
    by_layers = composed(flat)
    assert count_parameters(by_layers).total == pytest.approx(count_parameters(flat).total, rel=1e-3)
    a, b = (simulate_serving(_served(model)) for model in (flat, by_layers))
    assert b.ttft_s.mean == pytest.approx(a.ttft_s.mean, rel=5e-3)
    assert b.tpot_s.mean == pytest.approx(a.tpot_s.mean, rel=5e-3)
    assert b.kv_cache_usage_max == pytest.approx(a.kv_cache_usage_max, rel=5e-3)
    training = {
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 8},
        "plan": {"tp": 2, "dp": 4, "mbs": 1, "recompute": "selective"},
    }
    c, d = (simulate_training({"model": _given(model)} | training) for model in (flat, by_layers))
    assert d.step_time_s == pytest.approx(c.step_time_s, rel=5e-3)
    assert d.peak_memory_allocated_bytes == pytest.approx(c.peak_memory_allocated_bytes, rel=5e-3)


MAMBA_2 = {
    "model_type": "mamba2",
    "hidden_size": 4096,
    "num_hidden_layers": 64,
    "vocab_size": 32768,
    "num_heads": 128,
    "head_dim": 64,
    "state_size": 128,
    "n_groups": 8,
}
JAMBA = {
    "model_type": "jamba",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 65536,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
}
KIMI = {
    "model_type": "kimi_linear",
    "hidden_size": 2304,
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "intermediate_size": 9216,
    "vocab_size": 163840,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 1024,
    "first_k_dense_replace": 1,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
}


@pytest.mark.parametrize(
    ("config", "state_bytes", "token_bytes"),
    [
        # 64 layers: 128 heads · 64 channels · 128 elements in fp32, 3 inputs of 8192 + 2 · 8 · 128 channels
        (MAMBA_2, 64 * (128 * 64 * 128 * 4 + 3 * 10240 * 2), 0),
        # 28 layers: 8192 channels · 16 elements, 3 inputs; 4 layers of 8 heads of 128 for keys and for values
        (JAMBA, 28 * (8192 * 16 * 4 + 3 * 8192 * 2), 4 * 2 * 8 * 128 * 2),
        # 20 layers of 32 heads with 128 · 128 elements, 3 inputs of 3 · 4096; 7 layers of latents of 512 + 64
        (KIMI, 20 * (32 * 128 * 128 * 4 + 3 * 12288 * 2), 7 * 576 * 2),
    ],
)
def test_decoding_alone_reads_active_weights_states_and_caches(
    config: dict[str, Any], state_bytes: float, token_bytes: float
) -> None:
    model = from_hf_config(config)
    scenario = _served(model, rate_per_s=0.02, num_requests=4, input_tokens=8000)
    capacity = prepare(scenario).pools[0].instance.capacity
    if token_bytes:
        latent = bool(config.get("kv_lora_rank"))
        assert capacity.bytes_per_token == pytest.approx(token_bytes / (1 if latent else 2))
        states = capacity.sequence_blocks * capacity.block_size * capacity.bytes_per_token
        assert state_bytes / 2 <= states < state_bytes / 2 + capacity.block_size * capacity.bytes_per_token
    else:  # one block is the states of a sequence
        assert capacity.bytes_per_token * capacity.block_size == pytest.approx(state_bytes / 2)
    read = 2 * count_parameters(model).active + 2 * state_bytes + 8000 * token_bytes
    least = read / 2 / H200_BYTES_PER_S
    found = simulate_serving(scenario).tpot_s.mean
    assert least < found < 4 * least + 3e-3


def test_longer_prompts_cost_hybrids_less_than_their_attention_alone() -> None:
    """Time per token of a state-space model stays as contexts grow; that of a decoder with caches does not."""
    scan, dense = from_hf_config(MAMBA_2), catalog.model("meta-llama/Llama-3.1-8B")
    growth = {}
    for model in (scan, dense):
        load = {"rate_per_s": 0.02, "num_requests": 4}
        short, long = (simulate_serving(_served(model, input_tokens=n, **load)).tpot_s.mean for n in (500, 60_000))
        growth[model.name] = long / short
    assert growth[scan.name] == pytest.approx(1.0, abs=0.01)
    assert growth[dense.name] > 1.2


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            {
                "model_type": "bart",
                "d_model": 1024,
                "decoder_layers": 12,
                "decoder_attention_heads": 16,
                "decoder_ffn_dim": 4096,
                "max_position_embeddings": 1024,
                "vocab_size": 50265,
            },
            "attends to an encoder's outputs",
        ),
        (
            {
                "model_type": "electra",
                "hidden_size": 256,
                "embedding_size": 128,
                "num_hidden_layers": 12,
                "num_attention_heads": 4,
                "intermediate_size": 1024,
                "max_position_embeddings": 512,
                "vocab_size": 30522,
            },
            "generates no tokens",
        ),
    ],
)
def test_what_generates_no_tokens_alone_is_refused(config: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput) as caught:
        prepare(_served(from_hf_config(config)))
    assert any(p.field == "model" and why in str(p) for p in caught.value.problems)


def test_tokens_of_layers_written_one_by_one_are_not_cut_over_ranks() -> None:
    scenario = _served(from_hf_config(JAMBA))
    scenario["serving"]["pools"] = [{"plan": {"cp": 2}}]
    with pytest.raises(BadInput, match="written one by one"):
        prepare(scenario)


DEEPSEEK_V4 = {
    "model_type": "deepseek_v4",
    "hidden_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "sliding_window": 128,
    "compress_ratios": [0, 128, 4, 128, 0],
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 2048,
    "vocab_size": 129280,
}


def test_keys_that_stand_for_several_tokens_are_as_many_fewer() -> None:
    """A token leaves 1/128 of a key in two layers, 1/4 of a key and of an indexer's in one; all four keep a window."""
    capacity = prepare(_served(from_hf_config(DEEPSEEK_V4))).pools[0].instance.capacity
    token = 2 * 512 * 2 / 128 + (512 * 2 + 128 + 4) / 4
    assert capacity.bytes_per_token == pytest.approx(token)
    window = (3 * 128 + 640) * 512 * 2 / 640  # per token inside the widest window, which has the picked tokens too
    assert capacity.window_share == pytest.approx(window / token)
