"""Reading measured rows: meaning of spellings, robustness, no leak from what was measured."""

from __future__ import annotations

import random
from typing import Any

import pytest
from measured_rows import damaged, disguised, plan_of, row, same

from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import LoraSpec
from windtunnel.validation.rows.parsing.hardware import canonical_device
from windtunnel.validation.rows.parsing.network import read_network
from windtunnel.validation.rows.parsing.stages import parse_layout
from windtunnel.validation.rows.read_row import RowCase, read, row_kind
from windtunnel.validation.rows.targets import narayanan_flop


def scenario(**changes: Any) -> Scenario:
    case = read(row(**changes))
    assert case.scenario is not None, case.reason
    return case.scenario


def test_a_stated_row_assumes_nothing() -> None:
    case = read(row())
    assert case.assumed == ()
    assert case.device == "h100-sxm-80gb"
    assert [(t.metric, t.measured) for t in case.metrics] == [("step_time", 3.0)]


@pytest.mark.parametrize(
    ("device", "framework", "precision"),
    [
        ("NVIDIA H100-SXM5-80GB", "NVIDIA NeMo Framework Release 25.04", "fp8"),  # no fp4 units
        ("NVIDIA A100-SXM4-80GB", "NVIDIA NeMo Framework Release 24.04", "bf16"),  # neither
        ("NVIDIA Blackwell GPU (B200-SXM-180GB)", "NVIDIA NeMo Framework Release 25.04", "fp8"),  # before its recipes
        ("NVIDIA Blackwell GPU (B200-SXM-180GB)", "NVIDIA NeMo Framework Release 26.02", "nvfp4"),
        ("Intel(R) Gaudi(R) 2 AI Accelerator", "PyTorch 2.1.1", "fp8"),
        ("Intel(R) Gaudi(R) 2 AI Accelerator", "PyTorch 1.13.1a0", "bf16"),  # before its software trained in fp8
        ("TPU-v5p", "maxtext", "int8"),  # fp8 at the rate of bf16, int8 at twice it
        ("TPU7x (Ironwood)", "MaxText/XLA", "fp8"),
    ],
)
def test_a_phrase_of_several_formats_is_the_narrowest_that_the_device_multiplies(
    device: str, framework: str, precision: str
) -> None:
    stated = {"hardware__device": device, "hardware__device_canonical": None, "framework": framework}
    case = read(row(precision="fp8/fp4 (submitter recipe)", **stated))
    assert case.scenario is not None and case.scenario.training is not None, case.reason
    assert case.scenario.training.precision == precision
    assert any(field == "training.precision" for field, _, _ in case.assumed)


@pytest.mark.parametrize(
    ("precision", "device", "chosen"),
    [
        ("fp8", "A100-SXM-80GB", "bf16"),
        ("nvfp4", "H100-SXM-80GB", "fp8"),
        ("mxfp8", "H100-SXM-80GB", "fp8"),
        ("float8 rowwise", "A100-SXM-80GB", "bf16"),
    ],
)
def test_a_format_without_units_becomes_the_next_wider_one(precision: str, device: str, chosen: str) -> None:
    case = read(row(precision=precision, hardware__device=device, hardware__device_canonical=device))
    assert case.scenario is not None and case.scenario.training is not None
    assert case.scenario.training.precision == chosen
    assert "no matrix units" in next(why for field, _, why in case.assumed if field == "training.precision")


@pytest.mark.parametrize(
    ("changes", "open_fields"),
    [
        ({}, set()),
        ({"parallel__tp": None, "parallel__pp": None}, {"plan"}),
        ({"micro_batch": None}, {"plan"}),
        ({"parallel__zero_stage": None}, set()),  # the software settles it
        ({"precision": None}, {"precision"}),
        ({"precision": "bf16 or fp16"}, {"precision"}),
        ({"precision": "nvfp4"}, {"precision"}),
        ({"recompute": "see recipe folder"}, {"recompute"}),
        ({"hardware__inter_node": None}, {"network"}),
        ({"hardware__inter_node": None, "hardware__count": 8, "parallel__dp": 1, "parallel__tp": 2}, set()),
        (
            {"hardware__inter_node": "8x400G RoCE (not stated in the table)", "recompute": None},
            {"network", "recompute"},
        ),
        ({"parallel__dp": 7}, set()),  # stated, and made to fit
    ],
)
def test_rows_say_which_subjects_were_not_stated_but_assumed(changes: dict[str, Any], open_fields: set[str]) -> None:
    case = read(row(**changes))
    assert case.scenario is not None, case.reason
    assert case.assumed_fields == open_fields


def _unmapped(**changes: Any) -> tuple[int, int, int, int]:
    """tp, pp, cp and dp of a row that states none of them."""
    axes = {f"parallel__{axis}": None for axis in ("tp", "pp", "cp", "dp", "vpp", "sp")}
    plan = scenario(**(axes | {"framework": "NVIDIA NeMo Framework Release 25.04"} | changes)).plan
    assert isinstance(plan.dp, int)
    return plan.tp, plan.pp, plan.cp, plan.dp


def test_frozen_weights_need_no_room_for_what_trains_them() -> None:
    """70 billion weights on one node of H200: whole replicas of adapters over fp8 weights, but many cuts to train."""
    large = {
        "model": {
            "name": "Llama-2-70B",
            "layers": 80,
            "hidden": 8192,
            "ffn": 28672,
            "heads": 64,
            "kv_heads": 8,
            "vocab": 32000,
            "gated_mlp": True,
        },
        "hardware__device": "NVIDIA H200-SXM5-141GB",
        "hardware__device_canonical": "H200-SXM-141GB",
        "hardware__count": 8,
        "hardware__per_node": 8,
        "global_batch": 8,
        "micro_batch": None,
        "precision": "fp8",
    }
    assert _unmapped(**large, phase="lora") == (1, 1, 1, 8)
    tp, pp, _, _ = _unmapped(**large, phase="pretrain")
    assert tp * pp == 8


def test_fewer_sequences_than_replicas_are_cut() -> None:
    few = {"hardware__count": 64, "hardware__per_node": 8, "global_batch": 8, "micro_batch": 1}
    tp, pp, cp, dp = _unmapped(**few)
    assert tp * pp * cp * dp == 64 and dp == 8 and cp == 8 // (tp * pp)


def test_unfused_attention_dates_a_release_that_is_not_stated() -> None:
    old = scenario(framework="Megatron-LM", attention="unfused core attention (pre-flash)").training
    new = scenario(framework="Megatron-LM", attention="flash").training
    stated = scenario(framework="Megatron-Core 0.9", attention="unfused").training
    assert old is not None and new is not None and stated is not None
    assert [t.framework for t in (old, new, stated)] == ["megatron_2022", "megatron_core", "megatron_core"]


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        (3, 3),
        ("2", 2),
        (0, 0),
        ("FSDP2 (ZeRO-3)", 3),
        ("SHARD_GRAD_OP", 2),
        ("distributed optimizer (ZeRO-1)", 1),
        ("deepspeed stage 2", 2),
        ("HSDP", 3),
        ("zero2", 2),
        ("plain DP", 0),
        ("ZeRO stage 3 + offload", 3),
        ("DDP", 0),
    ],
)
def test_zero_stage_by_meaning(text: Any, stage: int) -> None:
    assert scenario(parallel__zero_stage=text).plan.zero == stage


@pytest.mark.parametrize(
    ("text", "devices", "group"),
    [
        ("FSDP (ZeRO-3); group 64,128,256,128 for 64..512 GPUs (HSDP above)", 128, None),
        ("FSDP (ZeRO-3); group 64,128,256,128 for 64..512 GPUs (HSDP above)", 512, 128),
        ("HYBRID_SHARD", 64, 8),
        ("FSDP group 32", 128, 32),
        ("FSDP (ZeRO-3)", 64, None),
    ],
)
def test_shard_groups(text: str, devices: int, group: int | None) -> None:
    """The group is left out when it is the whole data axis."""
    plan = scenario(
        parallel__zero_stage=text,
        parallel__tp=1,
        parallel__pp=1,
        parallel__dp=devices,
        hardware__count=devices,
        global_batch=devices,
    ).plan
    assert (plan.zero, plan.shard_group) == (3, group)


@pytest.mark.parametrize(
    ("value", "policy", "modules"),
    [
        ("none (recipe lists none)", "none", ()),
        ("full (every transformer block)", "full", ()),
        (True, "full", ()),
        ("selective (core attention)", "selective", ()),
        ("selective per-op (SAC)", "modules", ("per_op",)),
        ({"modules": ["layernorm", "moe_act"], "num_layers": None}, "modules", ("norm", "moe_act")),
        ({"modules": None, "num_layers": 5}, "full", ()),
        ({"granularity": "selective"}, "selective", ()),
        (["core_attn", "mlp"], "modules", ("core_attn", "mlp")),
        ("activation checkpointing", "full", ()),
        (
            {"policy": "custom", "tensors": {"query_proj": "device", "key_proj": "device", "out_proj": "device"}},
            "modules",
            ("norm", "core_attn", "fc1", "mlp_act", "fc2", "moe"),
        ),
    ],
)
def test_recompute_by_meaning(value: Any, policy: str, modules: tuple[str, ...]) -> None:
    read_back = scenario(recompute=value).plan.recompute
    assert (read_back.policy, read_back.modules) == (policy, modules)


@pytest.mark.parametrize("value", [None, "not listed", "see recipe folder", "unknown"])
def test_open_recompute_is_listed(value: Any) -> None:
    assert "plan.recompute" in [f for f, _, _ in read(row(recompute=value)).assumed]


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("fp16 mixed", "fp16"),
        ("amp_fp8 (FSDP mixed_precision=DEFAULT)", "fp8"),
        ("bf16, fp32 grad reduce", "bf16"),
        ("bf16 compute, fp32 master", "bf16"),
        ("float8 rowwise", "fp8_rowwise"),
        ("FP8_MX", "mxfp8"),
        ("NVFP4", "nvfp4"),
        ("fp8 blockwise", "fp8_block"),
        ("mxfp8_cublas_rceil", "mxfp8"),
        ("TE-fp8", "fp8"),
        ("bf16 (int8 quantized matmul only if stated)", "bf16"),
        ("fp32", "fp32"),
    ],
)
def test_precision_by_meaning(text: str, precision: str) -> None:
    blackwell = {"hardware__device": "B200-SXM-180GB", "hardware__device_canonical": "B200-SXM-180GB"}
    training = scenario(precision=text, **blackwell).training
    assert training is not None and training.precision == precision


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no DP gradient overlap", {"grad_reduce": False, "param_gather": False}),
        (
            "DP grad-reduce/param-gather overlap, TP userbuffer overlap",
            {"grad_reduce": True, "param_gather": True, "tp": True},
        ),
        (
            "none (launcher disables TP/PP overlap)",
            dict.fromkeys(("grad_reduce", "param_gather", "tp", "p2p", "moe_a2a"), False),
        ),
        (
            {"tp_comm_overlap": True, "overlap_grad_reduce": False},
            {"tp": True, "grad_reduce": False, "param_gather": False},
        ),
        ("async TP", {"tp": True}),
        (None, {}),
        ("gradient overlap, without TP overlap", {"grad_reduce": True, "tp": False}),
    ],
)
def test_overlap_by_meaning(text: Any, expected: dict[str, bool]) -> None:
    assert scenario(overlap=text).plan.overlap.model_dump(exclude_none=True) == expected


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("H100-SXM-96GB-HBM2e(500W cap)", "h100-sxm-96gb"),
        ("A100-PCIE-40GB", "a100-pcie-40gb"),
        ("MI250X GCD", "mi250x"),
        ("TPU7x (Ironwood)", "tpu-v7x"),
        ("B200-SXM 8x single node (180/192GB)", "b200-sxm-180gb"),
        ("GB300", "gb300"),
        ("Ascend 910B4", "ascend-910b"),
        ("Intel Gaudi 2", "gaudi2"),
        ("Intel(R) Gaudi(R) 2 AI Accelerator", "gaudi2"),
        ("AMD Instinct™ MI300X", "mi300x"),
        ("AWS trn1.32xlarge Trainium", "trainium1"),
        ("V100-SXM2-32GB", "v100-sxm-32gb"),
        ("H800 SXM", "h800-sxm-80gb"),
        ("abacus", None),
    ],
)
def test_devices_by_words(text: str, device: str | None) -> None:
    assert canonical_device(text) == device


def test_every_device_of_the_table_is_in_the_catalogue() -> None:
    from windtunnel import catalog
    from windtunnel.validation.rows.parsing.pattern_tables import table

    named = {entry[1] for entry in table("hardware")["devices"]}
    assert named <= set(catalog.devices())


@pytest.mark.parametrize(
    ("text", "nics", "gbit"),
    [
        ("8x HDR200 InfiniBand per node", 8, 200),
        ("4x HDR200 InfiniBand per node (800 Gb/s)", 4, 200),
        ("RoCE 1600 Gb/s per node", 8, 200),
        ("RDMA 400 Gb/s per GPU", 8, 400),
        ("4 × 100 Gb Omni-Path", 4, 100),
        ("IB NDR 8x400Gb/s per node (DGX H100; not stated in table)", 8, 400),
        ("3200 Gbps EFA per instance", 8, 400),
        ("RoCE/IB CX-7 400Gb/s per GPU", 8, 400),
        ("8x50GB/s EFA v4 per node", 8, 400),
    ],
)
def test_network_words(text: str, nics: int, gbit: float) -> None:
    network = read_network(text, 8)
    assert network is not None
    assert (network.nics_per_node, network.nic_bytes_per_s * 8e-9) == (nics, pytest.approx(gbit))


def test_other_shapes_of_the_same_fields() -> None:
    """Mappings as strings, strings as mappings."""
    plan = scenario(parallel="TP2 PP=2 DP16", recompute=1, offload={"optimizer": "cpu", "params": None}).plan
    assert (plan.tp, plan.pp, plan.dp, plan.recompute.policy) == (2, 2, 16, "full")
    assert (plan.offload.optimizer, plan.offload.params) == (1.0, 0.0)
    assert scenario(parallel__zero_stage={"stage": 3}).plan.zero == 3
    training = scenario(precision={"compute": "bf16", "grad_reduce": "fp32"}).training
    assert training is not None and (training.precision, training.grad_reduce_precision) == ("bf16", "fp32")
    named = scenario(model="meta-llama/Llama-3.1-8B").model
    assert isinstance(named, ModelSpec) and named.hidden_size == 4096


def test_no_network_inside_one_node() -> None:
    assert read_network("single node", 8) is None


def test_pipeline_layouts() -> None:
    assert parse_layout("Et*4|(t*4|)*14tmL") == [4] * 15 + [1]
    assert parse_layout([["embedding", "decoder"], ["decoder", "decoder"], ["loss"]]) == [1, 2, 0]
    assert parse_layout([4, 4, 3]) == [4, 4, 3]
    assert parse_layout("Et|tt|tL") == [1, 2, 1]
    assert parse_layout("no layout") is None


def test_uneven_layers_count_the_ends() -> None:
    plan = scenario(model__layers=126, parallel__pp=8, parallel__dp=4).plan
    assert plan.embedding_as_layer and plan.loss_as_layer


def test_torchtitan_cuts_the_local_batch_into_stages() -> None:
    plan = scenario(
        framework="torchtitan FSDP2", micro_batch=8, parallel__pp=4, parallel__dp=8, grad_accum=1, global_batch=64
    ).plan
    assert plan.mbs == 2


def test_jax_counts_a_per_device_batch() -> None:
    plan = scenario(framework="MaxText/XLA", micro_batch=2.0, grad_accum=1, parallel__pp=1, parallel__dp=32).plan
    assert (plan.mbs, plan.dp) == (4, 32)


def test_mixture_and_latent_attention() -> None:
    model = {
        "name": "DeepSeek-V2 truncated",
        "type": "moe",
        "layers": 4,
        "hidden": 5120,
        "ffn": 12288,
        "heads": 128,
        "kv_heads": 128,
        "head_dim": 128,
        "vocab": 102400,
        "params": None,
        "moe": {"experts": 160, "topk": 6, "moe_ffn": 1536, "shared_ffn": 3072, "dense_layers": 1, "attention": "MLA"},
    }
    read_back = scenario(model=model, parallel__ep=4).model
    assert isinstance(read_back, ModelSpec)
    assert read_back.family == "mla_moe" and read_back.kv_lora_rank == 512 and read_back.first_k_dense_replace == 1
    assert read_back.shared_expert_intermediate_size == 3072


def test_expert_axis_that_does_not_divide_is_reduced_and_listed() -> None:
    case = read(row(model__type="moe", model__experts=64, model__topk=4, model__moe_ffn=1024, parallel__ep=48))
    assert case.scenario is not None and case.scenario.plan.ep == 32
    assert "plan.ep" in [f for f, _, _ in case.assumed]


def test_narayanan_flop_matches_the_paper() -> None:
    """Narayanan et al. 2021, section 5.1: 174.6 B parameters, 300 B tokens, 1,024 GPUs at 140 TFLOP/s take 34 days."""
    model = ModelSpec(
        name="GPT-3",
        hidden_size=12288,
        num_hidden_layers=96,
        vocab_size=51200,
        num_attention_heads=96,
        intermediate_size=49152,
    )
    days = narayanan_flop(model, 300e9 / 2048, 2048) / (1024 * 140e12) / 86400
    assert days == pytest.approx(34, rel=0.03)


def test_rates_become_times_by_the_rows_own_count() -> None:
    case = read(row(metric="samples_per_s", value=42.0, unit="seq/s", derived={}))
    assert [t.metric for t in case.metrics] == ["samples_per_s"]
    memory = read(row(mem_gib=70.5, framework="torchtitan"))
    assert [t.metric for t in memory.metrics] == ["step_time", "peak_memory_reserved"]
    assert read(row(metric="oom", value=True, derived={})).metrics[0].measured == 1.0


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"kind": "serving", "parallel": 1}, "serving"),
        ({"parallel": {}}, "training"),
        ({"busbw_GBps": None}, "collective"),
        ({"dtype": "bf16"}, "kernel"),
        ({}, "unknown"),
    ],
)
def test_row_kinds(data: dict[str, Any], kind: str) -> None:
    assert row_kind(data) == kind


def test_identity_and_outcome_do_not_matter() -> None:
    data = row(extra={"simulator_own_prediction_ms": 12.0, "mfu_pct": 40.0, "tp_comm_overlap": True})
    assert same(read(data), read(disguised(data)))
    assert read(data).scenario is not None


def test_reading_never_raises_on_damaged_rows() -> None:
    random_ = random.Random(7)
    for _ in range(600):
        case = read(damaged(row(), random_))
        assert isinstance(case, RowCase)
        assert not case.reason.startswith("could not be read"), case.reason


@pytest.mark.parametrize(
    "data", [None, 3, [], {}, {"parallel": None}, {"parallel": "tp8"}, {"dtype": 3}, {"busbw_GBps": []}]
)
def test_reading_never_raises_on_other_things(data: Any) -> None:
    case = read(data)
    assert case.scenario is None and case.reason


@pytest.mark.parametrize(("text", "off"), [("NCCL_NVLS_ENABLE=0", True), ("off", True), ("on", False), (None, False)])
def test_switch_reduction_can_be_off(text: Any, off: bool) -> None:
    cluster = scenario(extra={"nvls": text}).cluster
    assert not isinstance(cluster, str)
    assert (cluster.scale_up is not None) == off


def test_switches_of_an_omitted_recipe_are_left_to_the_release() -> None:
    changes = {"framework": "Megatron-Bridge, NeMo 26.08 container", "recompute": None, "model__type": "moe"}
    case = read(row(**changes, model__experts=64, model__topk=4, model__moe_ffn=1024, parallel__ep=8))
    assert case.scenario is not None and case.scenario.training is not None
    training, overlap = case.scenario.training, case.scenario.plan.overlap
    assert (training.moe_dispatcher, training.cuda_graphs, overlap.moe_a2a, training.fused_experts) == (None,) * 4
    fields = [field for field, _, _ in case.assumed]
    assert "plan.recompute" in fields and "training.moe_dispatcher" not in fields


@pytest.mark.parametrize(
    ("overlap", "dispatcher"),
    [
        ({"deepep": True, "moe_a2a": True}, "deepep"),
        ({"deepep": False}, None),
        ("HybridEP, TP overlap", "hybridep"),
        ({"moe_a2a": True}, None),
    ],
)
def test_a_dispatcher_among_what_overlaps_is_read(overlap: Any, dispatcher: str | None) -> None:
    changes = {"framework": "Megatron-Bridge, NeMo 26.08 container", "overlap": overlap, "model__type": "moe"}
    case = read(row(**changes, model__experts=64, model__topk=4, model__moe_ffn=1024, parallel__ep=8))
    assert case.scenario is not None and case.scenario.training is not None
    assert case.scenario.training.moe_dispatcher == dispatcher


def test_fewer_sequences_than_replicas_are_cut_over_a_context_axis() -> None:
    changes = {
        "framework": "MaxText/XLA",
        "global_batch": 8,
        "micro_batch": None,
        "parallel__tp": 1,
        "parallel__pp": 1,
        "parallel__dp": None,
        "parallel__cp": None,
    }
    case = read(row(**changes))
    assert case.scenario is not None
    assert (case.scenario.plan.cp, plan_of(case.scenario).cp_kind) == (8, "all_gather")
    assert "plan.cp" in {name for name, _, _ in case.assumed}
    assert scenario(**{**changes, "global_batch": 64}).plan.cp == 1


def test_expert_matrices_follow_the_tensor_axis_of_a_compiled_program() -> None:
    experts = {"experts": 8, "topk": 2, "moe_ffn": 14336, "type": "moe"}
    model = {**row()["model"], **experts}
    for framework, etp in (("MaxText/XLA", 4), ("Megatron-LM core 0.9", 1)):
        plan = scenario(framework=framework, model=model, parallel__tp=4, parallel__pp=1, parallel__dp=16).plan
        assert plan.etp == etp


@pytest.mark.parametrize(
    ("words", "software"), [("MaxText/XLA", "jax"), ("PaxML (JAX/XLA)", "pax"), ("T5X/JAX", "t5x"), ("levanter", "jax")]
)
def test_compiled_stacks_are_told_apart(words: str, software: str) -> None:
    case = read(row(framework=words, parallel__tp=1, parallel__pp=1, parallel__dp=64))
    assert case.scenario is not None and case.scenario.training is not None
    assert case.scenario.training.framework == software


@pytest.mark.parametrize(
    ("words", "family", "device", "software"),
    [
        ("NGC MXNet 24.04, NGC Pytorch 23.09, NGC HugeCTR 24.04", "mlperf-v4.1", "H100-SXM-80GB", "nemo"),
        ("CUDA 12.3", "mlperf-v4.1", "H200-SXM-141GB", "nemo"),
        ("PyTorch 2.6.0, ROCm 6.4", "mlperf-v4.1", "MI300X", "rocm_megatron"),
        ("PyTorch 2.1.1", "mlperf-v4.1", "Gaudi2", "habana_megatron"),
        ("NGC PyTorch Release 24.01 Deepspeed N8", "mlperf-v4.1", "H100-SXM-80GB", "deepspeed"),
        ("PyTorch 2.6.0", "a blog", "H100-SXM-80GB", "generic"),
        ("Megatron-LM core 0.12", "a blog", "MI300X", "rocm_megatron"),
        ("Megatron-LM core 0.12", "a blog", "H100-SXM-80GB", "megatron_core"),
        ("optimum-habana", "a blog", "Gaudi2", "habana_megatron"),
        ("InternEvo v0.3", "a blog", "A100-SXM-80GB", "internevo"),
        ("Colossal-AI 0.3.6", "a blog", "A100-SXM-80GB", "colossalai"),
        ("nanotron", "a blog", "H100-SXM-80GB", "nanotron"),
    ],
)
def test_containers_and_ports_are_the_engine_inside_them(words: str, family: str, device: str, software: str) -> None:
    """Parts of a vendor's container name its engine where a benchmark's submissions run in it."""
    hardware = {"device": device, "device_canonical": device, "count": 64, "per_node": 8}
    case = read(row(framework=words, family=family, hardware=hardware, parallel__zero_stage=0))
    assert case.scenario is not None and case.scenario.training is not None
    assert case.scenario.training.framework == software
    if words.startswith("NGC MXNet"):
        assert "training.framework_version" in {name for name, _, _ in case.assumed}


def test_the_release_is_the_newest_container_of_the_words() -> None:
    training = scenario(framework="Merlin HugeCTR 24.03; NeMo Framework 24.04", family="a blog").training
    assert training is not None and training.framework_version == "24.04"
    plain = scenario(framework="Megatron-LM v3.0", family="a blog").training
    assert plain is not None and plain.framework_version == "v3.0"


@pytest.mark.parametrize(("experts", "batch", "policy"), [(0, 64, "modules"), (8, 64, "full"), (0, 4096, "full")])
def test_open_rematerialisation_of_a_generation_follows_its_recipes(experts: int, batch: int, policy: str) -> None:
    """Attention's tensors of dense models are kept where a batch of them fits."""
    mixture = {"experts": experts, "topk": 2, "moe_ffn": 4096, "type": "moe"} if experts else {}
    hardware = {"device": "TPU7x (Ironwood)", "device_canonical": "TPU-v7x", "count": 64, "per_node": 4}
    case = read(
        row(
            framework="MaxText/XLA",
            recompute="see recipe folder",
            hardware=hardware,
            global_batch=batch,
            micro_batch=None,
            model={**row()["model"], **mixture},
            parallel__tp=1,
            parallel__pp=1,
            parallel__dp=64,
        )
    )
    assert case.scenario is not None and plan_of(case.scenario).recompute.policy == policy
    assert "core_attn" not in plan_of(case.scenario).recompute.modules
    assert "plan.recompute" in {name for name, _, _ in case.assumed}


@pytest.mark.parametrize(
    ("hardware", "axes", "plan"),
    [
        ({"count": 512, "per_node": 16}, {"tp": 32, "dp": 32}, (16, 32, 512)),  # axes count cores, devices chips
        ({"count": 1024, "per_node": 32}, {"tp": 32, "dp": 32}, (16, 32, 512)),  # both count cores
        ({"count": 512, "per_node": 16}, {"tp": 8, "dp": 64}, (8, 64, 512)),  # neither does
        ({"count": 64, "per_node": 32}, {"tp": 1, "dp": 64}, (1, 32, 32)),
    ],
)
def test_cores_of_a_chip_are_one_device(
    hardware: dict[str, int], axes: dict[str, int], plan: tuple[int, int, int]
) -> None:
    place = {"device": "Trainium1", "device_canonical": None, **hardware}
    parallel = {**axes, "pp": 1, "cp": 1, "zero_stage": 1}
    got = scenario(framework="neuronx-distributed", hardware=place, parallel=parallel, global_batch=1024)
    assert (got.plan.tp, got.cluster.nodes * got.cluster.devices_per_node) == (plan[0], plan[2])
    assert got.cluster.devices_per_node == 16
    dp = got.cluster.nodes * got.cluster.devices_per_node // got.plan.tp
    assert dp == plan[1]


@pytest.mark.parametrize(
    ("words", "device", "extra", "software", "release"),
    [
        ("NGC PyTorch 24.05", "H100-SXM-80GB", {}, "nemo", "24.05"),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "H100-SXM-80GB", {}, "nemo", "24.05"),
        ("NGC MXNet 23.09, NGC PyTorch 24.04, NGC PyTorch 23.09", "H100-SXM-80GB", {}, "nemo", "24.04"),
        ("PyTorch NVIDIA Release 23.09", "B200-SXM-180GB", {}, "nemo", ""),  # no container of 23.09 runs there
        ("PyTorch 2.6.0, ROCm 6.4", "AMD Instinct MI300X", {}, "rocm_megatron", ""),
        ("PyTorch", "NVIDIA H100", {"env": {"TP_COMM_OVERLAP": "1"}}, "nemo", ""),
        ("PyTorch", "AMD MI325X", {"flags": "--sequence-parallel --bf16"}, "rocm_megatron", ""),
        ("CUDA 12.3", "NVIDIA H100", {"env": {"FP8_AMAX_ALGO": "max"}}, "nemo", ""),
        ("PyTorch 2.4", "NVIDIA H100", {}, "generic", "2.4"),
        ("PyTorch FSDP (NGC 24.05)", "NVIDIA H100", {}, "fsdp1", "24.05"),
        ("DeepSpeed 0.14 on NGC PyTorch 24.01", "NVIDIA H100", {}, "deepspeed", "24.01"),
        ("GPT-NeoX (Megatron-DeepSpeed) on ROCm 5.7", "MI250X", {}, "megatron_deepspeed", "5.7"),
        ("Megatron-LM core 0.9", "H100-SXM-80GB", {}, "megatron_core", "0.9"),
    ],
)
def test_containers_and_settings_name_the_engine(
    words: str, device: str, extra: dict[str, Any], software: str, release: str
) -> None:
    training = scenario(framework=words, hardware__device=device, hardware__device_canonical=None, extra=extra).training
    assert training is not None
    assert (training.framework, training.framework_version or "") == (software, release)


def test_adapters_of_a_benchmark_are_those_of_its_reference() -> None:
    for words in ("NVIDIA NeMo Framework Release 25.04", "NGC PyTorch 24.04", "PyTorch 2.4"):
        training = scenario(family="mlperf-v9.9", phase="lora", framework=words).training
        assert training is not None and training.lora is not None
        assert (training.lora.rank, sorted(training.lora.targets)) == (16, ["proj", "qkv"])


def test_frozen_weights_of_a_submission_stay_in_the_format_of_its_products() -> None:
    """`fp8_params` of the submitters' configurations; rows of 16 bits and of other families are left alone."""
    words = "NVIDIA NeMo Framework Release 25.04"
    bases = []
    for family, precision in (("mlperf-v9.9", "fp8"), ("mlperf-v9.9", "bf16"), ("sample", "fp8")):
        training = scenario(family=family, phase="lora", framework=words, precision=precision).training
        assert training is not None
        lora = training.lora or LoraSpec()
        bases.append((lora.base_format, lora.dropout))
    assert bases == [("fp8", 0.1), (None, 0.1), (None, 0.0)]
