"""Engines: defaults by release, cache against what engines logged, and what does not fit said in words."""

from __future__ import annotations

import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from windtunnel import catalog
from windtunnel.cost.serving import serving_coefficients
from windtunnel.errors import Infeasible, ProblemList
from windtunnel.serving import engine_defaults
from windtunnel.serving.batching import POLICIES, BatchPolicy
from windtunnel.serving.engine_defaults import ENGINES, Instance, version_of
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.iteration.attention import attention_costs
from windtunnel.serving.iteration.instance_shape import Shape, format_of, shape_of
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.weight_bytes import layers_of_stages, local_blocks, stage_bytes
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.routers import ROUTERS, RouterEntry
from windtunnel.serving.simulate import simulate_serving
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.serving import KvSpec, PoolSpec, ServingLimits, ServingPlan, ServingPrecision, ServingSpec
from windtunnel.specs.traffic import TrafficSpec

LLAMA = "meta-llama/Llama-3.1-8B"
H100 = "h100-sxm-80gb"
TRAFFIC = TrafficSpec(rate_per_s=1, input_tokens=1, output_tokens=1, num_requests=1)


def instance(
    name: str,
    device: str,
    engine: str = "vllm",
    version: str = "",
    *,
    plan: dict | None = None,
    precision: dict | None = None,
    limits: dict | None = None,
    kv: dict | None = None,
    problems: ProblemList | None = None,
    policy: str | None = None,
    router: str = "round_robin",
) -> Instance:
    cluster = catalog.resolve_cluster(ClusterRef(device=device, nodes=1, devices_per_node=8))
    serving = ServingSpec(
        engine=engine,
        engine_version=version,
        precision=ServingPrecision(**(precision or {})),
        traffic=TRAFFIC,
        router=router,
    )  # type: ignore[arg-type]
    pool = PoolSpec(
        plan=ServingPlan(**(plan or {})), limits=ServingLimits(**(limits or {})), kv=KvSpec(**(kv or {})), policy=policy
    )
    own = problems if problems is not None else ProblemList()
    found = engine_defaults.resolve(serving, pool, catalog.model(name), cluster, own)
    if problems is None:
        own.raise_if_any()
    return found


@pytest.mark.parametrize(
    ("measured", "within", "case"),
    [
        # fitted on 300 requests with time stamps: 42,083 with a factor of 1.00 (vLLM 0.19)
        (42_083, 0.03, (LLAMA, "rtx-4090", "vllm", "0.19.0", {"limits": {"max_model_len": 32768}})),
        # start-up logs: 2,356 blocks on an A10G; 54.93 GiB on an H100; 367,404 tokens of SGLang on four H100
        (37_696, 0.02, (LLAMA, "a10g-24gb", "vllm", "0.6.6", {"limits": {"max_num_seqs": 16}})),
        (54.93 * 2**30 / 131072, 0.02, (LLAMA, H100, "vllm", "0.6.4", {"limits": {"max_model_len": 8192}})),
        (
            367_404,
            0.10,
            (
                "Qwen/Qwen3-235B-A22B",
                H100,
                "sglang",
                "0.4.9",
                {"plan": {"tp": 4}, "precision": {"weights": "fp8"}, "limits": {"mem_fraction_static": 0.93}},
            ),
        ),
    ],
)
def test_cache_is_what_engines_logged(measured: float, within: float, case: tuple) -> None:
    found = instance(*case[:4], **case[4])
    assert found.capacity.tokens == pytest.approx(measured, rel=within)


@pytest.mark.parametrize(
    ("name", "precision", "plan", "gigabytes"),
    [
        (LLAMA, {}, {}, 16.06),
        ("meta-llama/Llama-3.1-70B", {}, {}, 141.1),
        ("meta-llama/Llama-3.1-70B", {"weights": "fp8"}, {}, 72.7),
        ("mistralai/Mixtral-8x7B-v0.1", {}, {}, 93.4),
        ("openai/gpt-oss-120b", {"experts": "mxfp4"}, {}, 65.3),
        ("deepseek-ai/DeepSeek-V3", {"weights": "fp8_block"}, {}, 673.0),
    ],
)
def test_weights_are_as_large_as_their_files(name: str, precision: dict, plan: dict, gigabytes: float) -> None:
    model, cluster = catalog.model(name), catalog.resolve_cluster(ClusterRef(device=H100, nodes=1, devices_per_node=8))
    shape = shape_of(model, cluster, ServingPlan(**plan), ServingPrecision(**precision), "plan", ProblemList())
    assert sum(stage_bytes(model, shape, local_blocks(model, shape))) / 1e9 == pytest.approx(gigabytes, rel=0.02)


def test_stages_share_layers_and_the_last_gets_no_rest() -> None:
    model = catalog.model("meta-llama/Llama-3.1-70B")
    assert [len(s) for s in layers_of_stages(model, 3)] == [27, 27, 26]
    assert "".join(layers_of_stages(model, 7)) == model.layer_kinds()


def test_heads_are_copied_when_there_are_more_ranks_than_heads() -> None:
    model = "Qwen/Qwen3-30B-A3B"  # 4 key/value heads
    four = instance(model, H100, plan={"tp": 4}).capacity.bytes_per_token
    assert instance(model, H100, plan={"tp": 8}).capacity.bytes_per_token == four
    assert instance(model, H100, plan={"tp": 2}).capacity.bytes_per_token == 2 * four


def test_formats_and_axes_change_the_cache_as_they_must() -> None:
    base = instance(LLAMA, H100).capacity
    fp8 = instance(LLAMA, H100, precision={"kv_cache": "fp8"}).capacity
    assert fp8.tokens == pytest.approx(2 * base.tokens, rel=1e-3)
    assert instance(LLAMA, H100, precision={"weights": "fp8"}).capacity.tokens > base.tokens
    two = instance(LLAMA, H100, plan={"dp": 2})
    assert two.limits.max_seqs == 2 * instance(LLAMA, H100).limits.max_seqs
    assert two.capacity.tokens == pytest.approx(2 * base.tokens, rel=0.02)
    mla = instance("deepseek-ai/DeepSeek-V3", "h200-sxm-141gb", plan={"tp": 8}, precision={"weights": "fp8_block"})
    assert mla.capacity.bytes_per_token == 61 * (512 + 64) * 2  # the latent is not cut by tp
    deep = instance("meta-llama/Llama-3.1-70B", H100, plan={"tp": 2, "pp": 2}).capacity
    assert deep.bytes_per_token == 40 * 2 * 4 * 128 * 2


def test_windows_are_kept_whole_before_the_hybrid_allocator() -> None:
    old = instance("google/gemma-3-27b-pt", H100, version="0.8.5").capacity
    new = instance("google/gemma-3-27b-pt", H100, version="0.19").capacity
    assert (old.window_share, new.window_share) == (0.0, pytest.approx(52 / 10))
    assert new.bytes_per_token == pytest.approx(old.bytes_per_token * 10 / 62)


def test_recurrent_states_are_blocks_of_every_sequence() -> None:
    found = instance("Qwen/Qwen3-Next-80B-A3B-Instruct", H100, plan={"tp": 4}).capacity
    # of 36 layers and 4 ranks: 32 heads of 128 · 128 in fp32; 3 inputs of 2 · 16 · 128 + 32 · 128 channels in 16 bits
    state = 36 * (4 * 32 * 128 * 128 + 2 * 3 * (2 * 16 * 128 + 32 * 128)) / 4
    assert found.sequence_blocks == -(-state // (found.bytes_per_token * found.block_size))


def test_what_does_not_fit_says_what_is_missing() -> None:
    with pytest.raises(Infeasible) as said:
        instance("meta-llama/Llama-3.1-70B", H100)
    assert "weights 131.4" in str(said.value)
    assert "GiB more a device" in str(said.value)
    with pytest.raises(Infeasible, match="max_model_len 131072"):
        instance(LLAMA, "rtx-4090", limits={"max_model_len": 131072})


def test_problems_are_said_at_once() -> None:
    problems = ProblemList()
    instance(
        LLAMA,
        H100,
        "sglang",
        limits={"gpu_memory_utilization": 0.9},
        policy="sarathy",
        router="rnadom",
        problems=problems,
    )
    assert {p.field for p in problems} == {
        "serving.pools[0].limits.gpu_memory_utilization",
        "serving.pools[0].policy",
        "serving.router",
    }
    assert {p.nearest for p in problems} == {"mem_fraction_static", "sarathi", "random"}


def test_defaults_follow_release_and_device() -> None:
    old = instance(LLAMA, H100, version="0.6.0", limits={"max_model_len": 8192})
    new = instance(LLAMA, H100, version="0.19")
    assert (old.policy.id, old.limits.budget, old.limits.max_seqs, old.limits.chunked) == ("vllm_v0", 8192, 256, False)
    assert (new.policy.id, new.limits.budget, new.limits.max_seqs, new.limits.chunked) == ("vllm_v1", 8192, 1024, True)
    assert old.limits.watermark == old.capacity.blocks // 100
    assert instance(LLAMA, "a100-sxm-80gb", version="0.19").limits.budget == 2048
    assert instance(LLAMA, H100, version="0.6.0").policy.id == "vllm_v0_chunked"
    share = instance(LLAMA, H100, "sglang", "0.5.6").defaults.memory_fraction
    assert share == pytest.approx(0.836, abs=0.002)  # SGLang's own figure for an H100
    assert instance(LLAMA, H100, "trtllm").limits.reserve
    assert instance(LLAMA, "rtx-4090", "lmdeploy").limits.max_seqs == 128
    assert version_of("v0.8.5.post1") == (0, 8, 5)
    assert version_of("1.0.0rc3") == (1, 0, 0)


def test_what_the_scenario_says_reaches_the_loop() -> None:
    own = instance(LLAMA, H100, "sglang", kv={"swap_space_bytes": 4e9, "prefix_caching": False})
    assert (own.limits.ratio_start, own.limits.retract, own.limits.caching) == (700_000, 20, False)
    assert own.limits.swap_blocks == int(4e9 // (own.capacity.bytes_per_token * own.limits.block))
    assert own.limits.swap_block_s == own.capacity.bytes_per_token * own.limits.block / 63e9
    orca = instance(LLAMA, H100, policy="orca", limits={"max_model_len": 4096}).limits
    assert (orca.reserve, orca.reserve_length, orca.watermark) == (True, 4096, 0)
    assert instance("Qwen/Qwen3-Next-80B-A3B-Instruct", H100, plan={"tp": 4}).limits.sequence_blocks > 0
    assert instance("google/gemma-3-27b-pt", H100).limits.window_share == pytest.approx(5.2)
    given = instance(LLAMA, H100, kv={"num_blocks": 321, "block_size": 32})
    assert (given.limits.blocks, given.limits.block, given.capacity.tokens) == (321, 32, 321 * 32)
    assert not instance(LLAMA, H100, limits={"chunked_prefill": False}).limits.chunked


def test_every_entry_is_complete() -> None:
    switches = {f.name for f in fields(Limits)}
    for name, policy in POLICIES.items():
        assert policy.id == name
        assert policy.title
        assert policy.source
        assert set(policy.switches) <= switches
    assert set(ENGINES) == {"vllm", "sglang", "trtllm", "lmdeploy", "generic"}
    for _, router in ROUTERS.items():
        assert router.source
    for engine in ENGINES:
        for line in instance(LLAMA, H100, engine).assumed:
            assert line.why
            if line.field.startswith("serving.pools[0]."):  # what may be written is named as it is written
                part, _, name = line.field.removeprefix("serving.pools[0].").partition(".")
                assert part in PoolSpec.model_fields
                assert not name or name in (ServingLimits if part == "limits" else KvSpec).model_fields


def test_policies_of_the_same_switches_say_so() -> None:
    alike: dict[tuple[object, ...], list[str]] = {}
    for name, policy in POLICIES.items():
        key = (*sorted(policy.switches.items()), policy.reserves_longest, policy.watermark)
        alike.setdefault(key, []).append(name)
    pairs = [names for names in alike.values() if len(names) > 1]
    assert pairs
    for names in pairs:
        words = {name: sys.modules[POLICIES.get(name).__module__].__doc__ or "" for name in names}
        for name in names:  # one of the two names the other
            assert any(f"`{b}`" in words[a] for a in names for b in names if a != b and name in (a, b)), names


SCENARIO = {
    "schema_version": 1,
    "model": LLAMA,
    "cluster": {"device": H100, "nodes": 1, "devices_per_node": 8},
    "serving": {
        "pools": [{"replicas": 2, "limits": {"max_num_seqs": 4}}],
        "traffic": {"rate_per_s": 30, "num_requests": 60, "input_tokens": 400, "output_tokens": 100},
    },
}


def served(**changed: object) -> ServingResult:
    pools = [{**SCENARIO["serving"]["pools"][0], **({"policy": changed.pop("policy")} if "policy" in changed else {})}]  # type: ignore[index]
    serving = {**SCENARIO["serving"], "pools": pools, **changed}  # type: ignore[dict-item]
    return simulate_serving({**SCENARIO, "serving": serving})


def test_a_policy_and_a_router_of_ones_own_are_run_by_the_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    class Halves(BatchPolicy):
        """Never more than two at once."""

        id, title, source, switches = "halves", "Two at once", "test", {"mixed": True, "chunked": True}

        def admit(self, instance: reference.Instance, budget: int, tokens: int) -> reference.Request | None:
            return super().admit(instance, budget, tokens) if instance.running < 2 else None

    class First(reference.Router):
        """Always the first."""

        def route(self, instances: list[reference.Instance], q: reference.Request) -> int:
            return 0

    monkeypatch.setitem(POLICIES._entries, "halves", Halves)
    monkeypatch.setitem(ROUTERS._entries, "first", RouterEntry("First", "test", None, First))
    plain, own, first = served(), served(policy="halves"), served(router="first")
    assert own.ttft_s.mean > plain.ttft_s.mean
    assert own.completed == 60
    assert set(first.record.requests.instance) == {0}  # type: ignore[union-attr]
    assert any("hooks in Python" in line["why"] for line in own.assumed)
    assert not any("hooks in Python" in line["why"] for line in plain.assumed)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_serves_all_requests(policy: str) -> None:
    found = served(policy=policy)
    assert found.completed == 60
    assert 0 < found.kv_cache_usage_max <= 1


@pytest.mark.parametrize(
    ("version", "model", "alone"),
    [
        ("0.5.0", "meta-llama/Llama-2-70b-hf", True),
        ("0.8.0", "meta-llama/Llama-2-70b-hf", False),
        ("0.9.0", "mistralai/Mistral-7B-v0.3", True),
        ("0.14.0", "mistralai/Mistral-7B-v0.3", False),
        ("0.9.0", "tiiuae/falcon-180B", True),
    ],
)
def test_old_kernels_of_tensorrt_llm_know_one_size_of_group(version: str, model: str, alone: bool) -> None:
    own, device = catalog.model(model), catalog.device("h100-sxm-80gb")
    shape = Shape(
        tp=1,
        pp=1,
        dp=1,
        ep=1,
        etp=1,
        linear=format_of("bf16", device),
        expert=format_of("bf16", device),
        cache_bytes=2.0,
    )
    found = ENGINES.get("trtllm", "").defaults(version_of(version), own, device, shape, ServingLimits())
    assert found.vector_attention is alone


def test_trtllm_attends_to_prompts_in_the_caches_eight_bits() -> None:
    """TensorRT-LLM thop/attentionOp.cpp: mFP8ContextFMHA with an 8-bit paged cache; FlashAttention-3 for the rate."""
    eight, sixteen = ({"weights": "fp8", "kv_cache": cache} for cache in ("fp8", "bf16"))
    narrow = {
        (engine, version, cache["kv_cache"]): instance(LLAMA, H100, engine, version, precision=cache).shape
        for engine, version in (("trtllm", "1.2"), ("trtllm", "0.17"), ("vllm", ""))
        for cache in (eight, sixteen)
    }
    assert [key for key, shape in narrow.items() if shape.narrow_prompts] == [("trtllm", "1.2", "fp8")]
    device, model = catalog.device(H100), catalog.model(LLAMA)
    c = serving_coefficients("trtllm", "1.2", device)
    shape = narrow["trtllm", "1.2", "fp8"]
    pair_s = [
        attention_costs(model, device, own, c).prompt_pair_s for own in (shape, replace(shape, narrow_prompts=False))
    ]
    assert pair_s[1] / pair_s[0] == pytest.approx(1200 / 740, rel=0.01)


def test_products_with_scales_in_blocks_have_a_rate_of_their_own() -> None:
    device = catalog.device(H100)
    assert [format_of(name, device).rate for name in ("fp8", "fp8_block", "bf16")] == ["fp8", "fp8_block", "bf16"]
    assert format_of("fp8_block", catalog.device("a100-sxm-80gb")).rate == "bf16"
    cluster = catalog.resolve_cluster(ClusterRef(device=H100, nodes=1, devices_per_node=8))
    shape = instance(LLAMA, H100, precision={"weights": "fp8_block"}).shape
    c = serving_coefficients("vllm", "", device)
    seconds = [
        float(Layers(catalog.model(LLAMA), cluster, shape, own, None).alone(np.array([8192])).seconds[0])
        for own in (c, replace(c, matrix_fraction={**c.matrix_fraction, "fp8_block": 0.2}))
    ]
    assert seconds[1] > 1.5 * seconds[0]
