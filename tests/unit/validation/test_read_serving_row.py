"""Reading measured serving rows: layouts, formats, protocols, launch settings; nothing leaks from measurements."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from windtunnel.importers import sglang_serve, trtllm_serve, vllm_serve
from windtunnel.importers.launch import Wanted
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.validation.rows.parsing.serving import ReadServing, read_serving
from windtunnel.validation.rows.read_row import read

DATED = "source_file=2025-09-24.csv; model=X; silicon_concurrency=16; measured=2025-09-23T00:00:00.000Z; wip=False"
READERS = {"vllm": vllm_serve, "sglang": sglang_serve, "trtllm": trtllm_serve}
PATH = "source_file=/data/h100_sxm/sglang/0.5.1.post1/Qwen_Qwen3-32B.csv; silicon_concurrency=16"


def row(**changes: Any) -> dict[str, Any]:
    """One row of a fixed-concurrency record; `config__x` replaces a nested field."""
    base: dict[str, Any] = {
        "id": "serving-1",
        "kind": "serving",
        "set": "sample",
        "provenance": DATED,
        "engine": "vllm",
        "image": "",
        "engine_version": "0.12.0",
        "model": "meta-llama/Llama-3.1-70B",
        "hardware": "h100_sxm",
        "precision": "fp8",
        "config": {
            "mode": "agg",
            "gemm_quant": "fp8",
            "moe_quant": "fp8",
            "tp_size": 4,
            "pp_size": 1,
            "attention_dp_size": 1,
            "moe_tp_size": 4,
            "moe_ep_size": 1,
        },
        "tp": 4,
        "pp": 1,
        "ep": 1,
        "isl": 1024,
        "osl": 2000,
        "load": {"concurrency": 16},
        "metrics": {"ttft_mean_ms": 100.0, "tpot_mean_ms": 10.0},
    }
    for key, value in changes.items():
        outer, _, inner = key.partition("__")
        if inner:
            base[outer][inner] = value
        else:
            base[outer] = value
    return base


def served(found: ReadServing) -> tuple[Scenario, ServingSpec, PoolSpec]:
    assert found.scenario is not None and found.scenario.serving is not None, found.reason
    return found.scenario, found.scenario.serving, found.scenario.serving.pools[0]


def test_a_closed_loop_row_is_a_whole_scenario() -> None:
    found = read_serving(row())
    scenario, serving, pool = served(found)
    assert (serving.engine, serving.engine_version) == ("vllm", "0.12.0")
    assert (pool.plan.tp, pool.plan.dp, pool.plan.ep, pool.replicas) == (4, 1, 1, 1)
    assert serving.precision.weights == "fp8" and serving.precision.kv_cache == "fp8"
    assert serving.traffic.concurrency == 16 and serving.traffic.num_requests == 160
    assert serving.traffic.input_tokens == Lengths(distribution="uniform", min=819, max=1024)
    assert pool.limits.max_num_batched_tokens == 8192 and pool.limits.max_num_seqs == 16
    assert scenario.cluster.device == "h100-sxm-80gb"  # type: ignore[union-attr]
    assert {"serving.traffic", "serving.precision.kv_cache", "serving.limits.max_num_seqs"} <= {
        name for name, _, _ in found.assumed
    }


def test_the_form_of_a_record_sets_the_protocol() -> None:
    _, serving, _ = served(read_serving(row(provenance=PATH, engine="sglang")))
    assert serving.traffic.input_tokens == 1024
    _, serving, _ = served(read_serving(row(provenance=PATH, engine="trtllm")))
    assert serving.traffic.input_tokens == Lengths(distribution="uniform", min=983, max=1024)


@pytest.mark.parametrize(
    ("sizes", "plan"),
    [
        ((8, 1, 8, 1), (8, 1, 1)),
        ((8, 1, 1, 8), (8, 1, 8)),
        ((64, 1, 8, 8), (8, 1, 8)),
        ((1, 64, 8, 8), (1, 8, 8)),
        ((16, 1, 4, 4), (4, 1, 4)),
        ((4, 4, 1, 16), (1, 4, 4)),
        ((1, 8, 1, 8), (1, 8, 8)),
        ((1, None, 2, 1), (1, 2, 1)),
        ((8, None, 2, 4), (8, 1, 4)),
    ],
)
def test_layouts_by_meaning(sizes: tuple[Any, ...], plan: tuple[int, int, int]) -> None:
    config = dict(zip(("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"), sizes, strict=True))
    changed = row(model="deepseek-ai/DeepSeek-R1", hardware="b200_sxm")
    changed["config"] |= config
    _, _, pool = served(read_serving(changed))
    assert (pool.plan.tp, pool.plan.dp, pool.plan.ep) == plan


def test_a_sum_over_workers_is_no_layout() -> None:
    changed = row(model="deepseek-ai/DeepSeek-R1", hardware="gb200", config__tp_size=72, config__moe_tp_size=72)
    assert "does not divide 128 heads" in read_serving(changed).reason


def test_split_deployments_have_two_pools() -> None:
    one = {"tp_size": 1, "pp_size": 1, "attention_dp_size": 4, "moe_tp_size": 1, "moe_ep_size": 4}
    sizes = {f"{role}_{k}": v for role in ("prefill", "decode") for k, v in one.items()}
    config = {"mode": "disagg", "gemm_quant": "nvfp4", "moe_quant": "nvfp4", "decode_num_workers": 3, **sizes}
    found = read_serving(row(model="deepseek-ai/DeepSeek-V3", hardware="gb200", config=config, engine="trtllm"))
    scenario, serving, _ = served(found)
    assert [(p.role, p.replicas, p.plan.dp) for p in serving.pools] == [("prefill", 1, 4), ("decode", 3, 4)]
    assert scenario.cluster.nodes == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "formats"),
    [
        (
            {"precision": "weights fp8, kv fp8", "config": {"trace": "t.csv"}, "load": {"per_request_trace": True}},
            ("fp8", "fp8"),
        ),
        ({"precision": "FP16", "config": {}, "load": {"batch": 8}}, ("fp16", "bf16")),
        ({"precision": "bfloat16", "config": {"kv_cache_dtype": "auto"}, "load": {"batch": 8}}, ("bf16", "bf16")),
        ({"precision": None, "config": {}, "load": {"batch": 8}}, ("bf16", "bf16")),
    ],
)
def test_formats_by_meaning(changes: dict[str, Any], formats: tuple[str, str]) -> None:
    _, serving, _ = served(read_serving(row(**changes)))
    assert (serving.precision.weights, serving.precision.kv_cache) == formats


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("deepseek-ai/DeepSeek-V3", "fp8_block"),
        ("nvidia/DeepSeek-R1-0528-FP8", "fp8"),
        ("meta-llama/Llama-3.1-70B", "fp8"),
    ],
)
def test_eight_bits_of_a_checkpoint_are_its_own(model: str, weights: str) -> None:
    """DeepSeek's checkpoints have a scale for each 128 by 128 block; what NVIDIA quantised again has one a tensor."""
    found = read_serving(row(model=model, config__gemm_quant="fp8", config__moe_quant="fp8"))
    assert served(found)[1].precision.weights == weights


def test_a_checkpoint_with_four_bit_experts() -> None:
    _, serving, _ = served(
        read_serving(row(model="openai/gpt-oss-120b", config__gemm_quant="nvfp4", config__moe_quant="nvfp4"))
    )
    assert (serving.precision.weights, serving.precision.experts) == ("bf16", "mxfp4")


def test_an_old_release_takes_whole_prompts() -> None:
    changes = {"config": {"trace": "requests/a.csv"}, "load": {"per_request_trace": True}, "engine_version": "0.6.0 x"}
    _, serving, pool = served(read_serving(row(**changes)))
    assert serving.engine_version == "0.6.0" and serving.traffic.trace == "requests/a.csv"
    assert pool.limits.chunked_prefill is False


def test_the_scheduler_looks_at_arrivals_as_the_launch_script_says() -> None:
    for slots, steps in ((8, 10), (64, 30)):
        changed = row(
            engine="sglang",
            model="deepseek-ai/DeepSeek-R1",
            hardware="b200_sxm",
            config__tp_size=8,
            load={"concurrency": slots},
            config__moe_tp_size=8,
        )
        _, _, pool = served(read_serving(changed))
        assert pool.limits.scheduler_interval == steps


def test_one_sweep_sends_more_than_it_serves() -> None:
    changed = row(model="openai/gpt-oss-120b", precision="fp4", load={"concurrency": 512})
    found = read_serving(changed)
    _, serving, pool = served(found)
    assert (serving.traffic.concurrency, serving.traffic.num_requests, pool.limits.max_num_seqs) == (512, 160, 16)
    assert {"serving.traffic.num_requests", "serving.limits.max_num_seqs"} <= {name for name, _, _ in found.assumed}
    _, serving, pool = served(read_serving(row(model="openai/gpt-oss-120b", precision="fp4", hardware="h200_sxm")))
    assert (serving.traffic.num_requests, pool.limits.max_num_seqs) == (160, 16)
    _, serving, pool = served(read_serving(changed | {"hardware": "h200_sxm"}))
    assert (serving.traffic.num_requests, pool.limits.max_num_seqs) == (5120, 512)


def test_a_wrappers_version_is_not_the_engines() -> None:
    image = "nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:0.8.1"
    _, serving, _ = served(read_serving(row(engine="trtllm", engine_version="0.8.1", image=image)))
    assert serving.engine_version == ""


def test_nothing_measured_or_named_reaches_a_scenario() -> None:
    changed = copy.deepcopy(row())
    changed |= {
        "id": "other",
        "source": "elsewhere",
        "note": "tp 2",
        "licence": "x",
        "spread": {"ttft_mean_ms": 9.0},
        "metrics": {"ttft_mean_ms": 1e6, "tpot_mean_ms": 3.0},
    }
    assert read_serving(changed) == read_serving(row())


def test_what_cannot_be_read_says_why() -> None:
    assert "not in the catalogue" in read(row(hardware="abacus")).reason
    assert "not in the catalogue" in read(row(model="no-such-model")).reason
    assert "lengths are not stated" in read(row(isl=None)).reason
    assert [t.unit for t in read(row()).metrics] == ["ms", "ms"]


@pytest.mark.parametrize(("slots", "steps"), [(16, 20), (128, 8), (256, 4), (4096, 1)])
def test_waits_for_company_end_when_it_comes_anyway(slots: int, steps: int) -> None:
    changed = row(engine="trtllm", engine_version="1.0.0", hardware="h200_sxm", osl=1024, load={"concurrency": slots})
    _, _, pool = served(read_serving(changed))
    assert pool.limits.scheduler_interval == steps


def test_settings_of_whole_instances_are_not_those_of_split_ones() -> None:
    one = {"tp_size": 8, "pp_size": 1, "attention_dp_size": 1, "moe_tp_size": 8, "moe_ep_size": 1}
    sizes = {f"{role}_{k}": v for role in ("prefill", "decode") for k, v in one.items()}
    config = {"mode": "disagg", "gemm_quant": "fp8", "moe_quant": "fp8", **sizes}
    changed = row(model="deepseek-ai/DeepSeek-V3", hardware="b200_sxm", engine="sglang", config=config)
    changed["load"] = {"concurrency": 2048}
    _, serving, prompts = served(read_serving(changed))
    answers = serving.pools[1]
    assert answers.limits.max_num_seqs == 2048 and answers.limits.scheduler_interval is None
    assert serving.precision.kv_cache == "fp8"
    assert prompts.limits.max_num_seqs == 512  # as the published recipe of such pools has it


def test_recipes_of_pools_go_by_their_layout() -> None:
    def budget(ranks: int) -> int | None:
        own = {"tp_size": 8 // ranks, "pp_size": 1, "attention_dp_size": ranks, "moe_tp_size": 1, "moe_ep_size": 8}
        sizes = {f"{role}_{k}": v for role in ("prefill", "decode") for k, v in own.items()}
        config = {"mode": "disagg", "gemm_quant": "fp8", "moe_quant": "fp8", **sizes}
        changed = row(model="deepseek-ai/DeepSeek-V3", hardware="gb200", engine="sglang", config=config, isl=8192)
        _, serving, prompts = served(read_serving(changed))
        assert serving.router == "round_robin"
        return prompts.limits.max_num_batched_tokens

    assert budget(8) == 131072 and budget(1) == 32768


def test_a_static_batch_has_the_cache_it_needs() -> None:
    found = read_serving(
        row(
            engine="tensorrt-llm",
            engine_version="0.9.0",
            model="gpt-j-6b",
            tp=1,
            isl=2048,
            osl=2048,
            config={},
            load={"batch": 64},
        )
    )
    _, _, pool = served(found)
    assert (pool.kv.num_blocks or 0) * (pool.kv.block_size or 0) == 64 * 4096
    assert any(name == "serving.pools[0].kv.num_blocks" for name, _, _ in found.assumed)


def offline(**changes: Any) -> dict[str, Any]:
    """One row of the offline tables."""
    base = {
        "engine": "tensorrt-llm",
        "engine_version": "1.0",
        "hardware": "H200",
        "precision": "FP8",
        "tp": 1,
        "config": {"parallel": "TP1"},
        "load": {"offline_max_throughput": True},
        "isl": 1000,
        "osl": 1000,
    }
    return row(**{**base, **changes})


@pytest.mark.parametrize(
    ("changes", "seqs", "tokens"),
    [
        ({"model": "Llama-3.1-8B", "isl": 128, "osl": 128}, 4096, 8192),  # as trtllm-bench says in its document
        ({"model": "Llama-3.3-70B", "isl": 20000, "osl": 2000}, 64, 2048),
        ({"model": "Llama-3.1-70B", "engine_version": "0.14.0", "tp": 4}, 2048, 1024),
        ({"model": "Mixtral-8x22B", "engine_version": "0.14.0", "tp": 8}, 2048, 8192),
        ({"model": "gpt-oss-120b"}, 2048, 8192),
    ],
)
def test_offline_runs_have_the_limits_that_the_benchmark_picks(changes: dict[str, Any], seqs: int, tokens: int) -> None:
    _, _, pool = served(read_serving(offline(**changes)))
    assert (pool.limits.max_num_seqs, pool.limits.max_num_batched_tokens) == (seqs, tokens)


def test_models_with_experts_attend_on_every_rank_alone() -> None:
    _, serving, pool = served(read_serving(offline(model="Qwen3-30B-A3B", tp=4, precision="FP4", hardware="B200")))
    assert (pool.plan.tp, pool.plan.dp, pool.plan.ep) == (1, 4, 4)
    _, serving, pool = served(read_serving(offline(model="Mixtral-8x7B", tp=4, engine_version="0.14.0")))
    assert pool.plan.tp == 4 and serving.engine_version == "0.14.0"
    _, serving, _ = served(read_serving(offline(model="Llama-3.3-70B", engine_version="not stated (after v1.0)")))
    assert serving.engine_version == "1.1"


def test_the_checkpoint_of_gpt_oss_has_four_bit_experts_whatever_the_column_says() -> None:
    _, hopper, _ = served(read_serving(offline(model="gpt-oss-120b", hardware="H200")))
    _, blackwell, _ = served(read_serving(offline(model="gpt-oss-120b", hardware="B200", precision="FP4")))
    assert hopper.precision.experts == blackwell.precision.experts == "mxfp4"
    assert (hopper.precision.kv_cache, blackwell.precision.kv_cache) == ("bf16", "fp8")


def test_lmdeploys_batch_is_persistent_and_sized_by_its_own_cache() -> None:
    _, _, pool = served(
        read_serving(
            row(
                engine="lmdeploy-turbomind",
                engine_version="0.2.0",
                model="llama2-7b",
                tp=1,
                isl=2048,
                osl=2048,
                config={},
                hardware="A100-80G",
                precision="fp16",
                load={"batch": 64},
            )
        )
    )
    assert pool.policy is None and pool.kv.num_blocks is None  # requests come together, not as one static batch
    assert pool.limits.max_num_seqs == 64


@pytest.mark.parametrize(
    ("engine", "command", "config"),
    [
        (
            "vllm",
            "vllm serve Qwen/Qwen3-30B-A3B --data-parallel-size 4 --enable-expert-parallel --max-num-seqs 64 "
            "--kv-cache-dtype fp8 --gpu-memory-utilization 0.85",
            {
                "data_parallel_size": 4,
                "enable_expert_parallel": True,
                "max_num_seqs": 64,
                "kv_cache_dtype": "fp8",
                "gpu_memory_utilization": 0.85,
            },
        ),
        (
            "sglang",
            "python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --tp 8 --dp 4 --enable-dp-attention --ep 8 "
            "--chunked-prefill-size 8192",
            {"tp_size": 8, "dp_size": 4, "enable_dp_attention": True, "ep_size": 8, "chunked_prefill_size": 8192},
        ),
        (
            "trtllm",
            "trtllm-serve Qwen/Qwen3-30B-A3B --tp_size 4 --ep_size 4 --max_batch_size 128 --max_num_tokens 4096",
            {"tp_size": 4, "ep_size": 4, "max_batch_size": 128, "max_num_tokens": 4096},
        ),
    ],
)
def test_options_of_a_launch_mean_what_the_import_of_the_command_means(
    engine: str, command: str, config: dict[str, Any]
) -> None:
    launch = READERS[engine].read(command, "-", Wanted(device="h100-sxm", nodes=1))
    imported = launch.scenario()["serving"]
    _, serving, pool = served(read_serving(row(engine=engine, model="Qwen/Qwen3-30B-A3B", config=config, tp=1, ep=1)))
    [stated] = imported["pools"]
    wanted = PoolSpec.model_validate(stated)
    assert pool.plan == wanted.plan
    assert {n: getattr(pool.limits, n) for n in stated["limits"]} == stated["limits"]
    assert serving.precision.kv_cache == imported.get("precision", {}).get("kv_cache", "bf16")
    _, _, from_command = served(read_serving(row(engine=engine, model="Qwen/Qwen3-30B-A3B", config={"run": command})))
    assert from_command.plan == wanted.plan


def test_an_option_that_the_importer_refuses_is_a_reason() -> None:
    found = read_serving(row(config={"data_parallel_size": "two"}))
    assert found.scenario is None and "data-parallel-size must be an integer" in found.reason


def test_a_batch_that_all_ranks_times_fill_is_that_of_one_rank() -> None:
    sizes = {"mode": "agg", "tp_size": 8, "attention_dp_size": None, "moe_tp_size": 1, "moe_ep_size": 8}
    one = row(engine="trtllm", model="deepseek-ai/DeepSeek-V3", config=sizes | {"batch_size": 56}, tp=8, ep=8)
    _, _, shared = served(read_serving(one | {"load": {"concurrency": 448}}))
    assert (shared.plan.tp, shared.plan.dp, shared.plan.ep) == (1, 8, 8)
    _, _, whole = served(read_serving(one | {"load": {"concurrency": 56}}))
    assert (whole.plan.tp, whole.plan.dp, whole.plan.ep) == (8, 1, 8)
