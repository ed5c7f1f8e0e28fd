"""Configurations of families with readers of their own: counts as transformers 5.23 has them, graphs that agree."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import graph
from windtunnel.catalog.parameters import count_parameters
from windtunnel.errors import BadInput, ProblemList
from windtunnel.importers.hf_config import read_hf_config
from windtunnel.serving.deployment_checks import check
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingSpec

MAMBA: dict[str, Any] = {
    "model_type": "mamba",
    "hidden_size": 768,
    "intermediate_size": 1536,
    "num_hidden_layers": 32,
    "state_size": 16,
    "time_step_rank": 48,
    "vocab_size": 50280,
}
JAMBA: dict[str, Any] = {
    "model_type": "jamba",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "mamba_dt_rank": 256,
    "vocab_size": 65536,
}
BART: dict[str, Any] = {
    "model_type": "bart",
    "d_model": 1024,
    "decoder_attention_heads": 16,
    "decoder_ffn_dim": 4096,
    "decoder_layers": 12,
    "max_position_embeddings": 1024,
    "vocab_size": 50265,
}
RWKV: dict[str, Any] = {
    "model_type": "rwkv",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 50277,
}
XLSTM: dict[str, Any] = {
    "model_type": "xlstm",
    "hidden_size": 4096,
    "num_heads": 8,
    "num_hidden_layers": 32,
    "vocab_size": 50304,
}
RECURRENT_GEMMA: dict[str, Any] = {
    "model_type": "recurrent_gemma",
    "head_dim": 256,
    "hidden_size": 2560,
    "intermediate_size": 7680,
    "num_attention_heads": 10,
    "num_hidden_layers": 26,
    "vocab_size": 256000,
}
HRM: dict[str, Any] = {
    "model_type": "hrm_text",
    "head_dim": 128,
    "hidden_size": 1536,
    "intermediate_size": 4096,
    "num_attention_heads": 12,
    "num_layers_per_stack": 16,
    "vocab_size": 151808,
}
MINIMAX: dict[str, Any] = {
    "model_type": "minimax",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "layer_types": ["full_attention", "linear_attention"] * 16,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "vocab_size": 32000,
}
ARCEE: dict[str, Any] = {
    "model_type": "arcee",
    "head_dim": 80,
    "hidden_size": 2560,
    "intermediate_size": 18432,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
}
SERVING = {"traffic": {"rate_per_s": 1.0, "num_requests": 10, "input_tokens": 100, "output_tokens": 10}}
COUNTS = (
    (MAMBA, 159_308_544),
    (JAMBA, 51_570_323_328),
    (BART, 254_084_096),
    (RWKV, 7_392_649_216),
    (XLSTM, 6_865_424_896),
    (RECURRENT_GEMMA, 2_010_263_040),
    (HRM, 1_447_822_848),
    (MINIMAX, 47_373_946_880),
    (ARCEE, 4_022_766_080),
)


@pytest.mark.parametrize(("config", "published"), COUNTS, ids=lambda x: x["model_type"] if isinstance(x, dict) else "")
def test_counts_are_those_of_transformers(config: dict[str, Any], published: int) -> None:
    model = read_hf_config(config).model
    count = count_parameters(model)
    assert count.total == published
    assert 0 < count.active <= count.total + (1 << 40) * (config is HRM)  # HRM runs its weights several times


@pytest.mark.parametrize("config", [c for c, _ in COUNTS], ids=lambda c: c["model_type"])
def test_the_graph_owns_the_weights_that_are_counted(config: dict[str, Any]) -> None:
    model = read_hf_config(config).model
    built = graph.build(model, graph.Batch.train(1, 256))
    owned = built.embedding.params + built.head.params + sum(built.blocks[kind].params for kind in built.depth)
    assert owned == count_parameters(model).total


def test_products_of_a_graph_follow_from_its_matrices() -> None:
    """FLOPs of the products of a Mamba layer: twice tokens times the elements of its matrices."""
    model = read_hf_config(MAMBA).model
    built = graph.build(model, graph.Batch.train(1, 256))
    gemms = (op for op in built.blocks[built.depth[0]].operators if op.kind == graph.Kind.GEMM)
    matrices = 768 * 3072 + 1536 * 80 + 48 * 1536 + 1536 * 768
    assert sum(graph.forward_flop(op) for op in gemms) == 2.0 * 256 * matrices


def test_a_composed_model_stands_without_its_file() -> None:
    model = read_hf_config(JAMBA).model
    assert ModelSpec.model_validate(model.model_dump(mode="json", exclude_defaults=True)) == model
    assert model.layer_kinds().count(model.layer_kinds()[4]) == 4  # every eighth layer attends


def test_missing_dimensions_are_listed_together() -> None:
    config = {k: v for k, v in JAMBA.items() if k not in ("hidden_size", "vocab_size")}
    with pytest.raises(BadInput) as caught:
        read_hf_config(config)
    assert {p.field for p in caught.value.problems} == {"model.hidden_size", "model.vocab_size"}


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "blt", "vocab_size": 260},
        {**JAMBA, "model_type": "unheard_of"},
        {**ARCEE, "model_type": "unheard_of", "hidden_act": "relu2"},
    ],
)
def test_what_is_not_modelled_is_refused_with_a_reason(config: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as caught:
        read_hf_config(config)
    assert "model.model_type" in {p.field for p in caught.value.problems}


def test_serving_takes_layers_written_one_by_one() -> None:
    problems = ProblemList()
    check(ServingSpec.model_validate(SERVING), read_hf_config(MAMBA).model, (), problems)
    assert not problems


def test_dory_runs_the_layers_in_its_middle_again() -> None:
    """Weights as transformers 5.24 builds its default configuration: 3,975,229,440, of which 131,072 scale the head."""
    kinds = ["sliding_attention", "mlp", "full_attention", "mlp"]
    config = {
        "model_type": "dory", "hidden_size": 2560, "num_hidden_layers": 72, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 7168, "vocab_size": 131072,
        "n_input_layers": 16, "n_output_layers": 16, "n_recurrent_layers": 40, "n_recurrent_loops": 2,
        "layer_types": kinds * 18,
    }  # fmt: skip
    model = read_hf_config(config, "dory").model
    assert model.num_hidden_layers == 72 + 40
    assert count_parameters(model).total == pytest.approx(3_975_229_440, rel=2e-4)
    once = read_hf_config(config | {"n_recurrent_loops": 1}, "dory").model
    assert count_parameters(once).total == count_parameters(model).total
    assert count_parameters(once).active < count_parameters(model).active


def test_lara_mini_and_muse_spark_have_the_weights_that_the_library_builds() -> None:
    """Defaults of transformers 5.24 on the meta device; text parts."""
    linear = {f"linear_{one}_head_dim": 128 for one in ("key", "value")}
    lara = linear | {
        "model_type": "lara_mini", "hidden_size": 1024, "num_hidden_layers": 34, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 128, "linear_num_key_heads": 8, "linear_num_value_heads": 16,
        "linear_conv_kernel_dim": 4, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
        "num_experts": 128, "num_experts_per_tok": 4, "vocab_size": 151936, "tie_word_embeddings": True,
        "layer_types": ["linear_attention"] * 34, "sliding_window": 512,
    }  # fmt: skip
    scans = count_parameters(read_hf_config(lara, "lara").model).total
    attended = count_parameters(read_hf_config(lara | {"layer_types": ["full_attention"] * 34}, "lara").model).total
    delta = 1024 * (2 * 1024 + 2 * 2048 + 32) + 2048 * 1024 + 4 * 4096 + 32 + 128
    attention = 1024 * (2048 + 2 * 512) + 2048 * 1024 + 2 * 128
    assert scans - attended == 34 * (delta - attention)
    assert scans < 7_281_684_672 + 34 * (delta - attention) and attended < 7_281_684_672
    text = {
        "model_type": "muse_spark_text", "hidden_size": 8192, "num_hidden_layers": 62, "num_attention_heads": 128,
        "num_key_value_heads": 16, "head_dim": 64, "moe_hidden_size": 4096, "moe_intermediate_size": 4096,
        "num_local_experts": 256, "num_experts_per_tok": 8, "vocab_size": 202048, "intermediate_size": 16384,
    }  # fmt: skip
    model = read_hf_config({"model_type": "muse_spark", "text_config": text}, "muse").model
    assert count_parameters(model).total == pytest.approx(819_990_536_192, rel=1e-5)


def test_glm_5_3_has_the_weights_that_the_library_builds() -> None:
    """The text part of `glm5_next` by default in transformers 5.24, on the meta device."""
    text = {
        "model_type": "glm5_next_text", "hidden_size": 4096, "num_hidden_layers": 45, "num_attention_heads": 64,
        "num_key_value_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 256,
        "qk_rope_head_dim": 0, "v_head_dim": 256, "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048,
        "index_kpool": 16, "linear_num_heads": 64, "linear_head_dim": 128, "linear_conv_kernel_dim": 4, "hc_mult": 4,
        "n_routed_experts": 288, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
        "intermediate_size": 12288, "vocab_size": 154880, "tie_word_embeddings": False,
        "layer_types": ["indexed_attention" if i % 4 == 3 else "linear_attention" for i in range(45)],
        "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 42,
    }  # fmt: skip
    model = read_hf_config({"model_type": "glm5_next", "text_config": text}, "GLM-5.3-Flash").model
    assert count_parameters(model).total == 313_326_816_766
    assert model.num_experts_per_tok == 8
