"""Reserved memory: the block allocator at tensor level, and the traces that are replayed through it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import catalog
from windtunnel.catalog.parameters import count_parameters
from windtunnel.engine.allocator import Replay, replay_tensors
from windtunnel.training.memory.memory_inputs import MemoryInputs
from windtunnel.training.memory.operator_outputs import plain_name
from windtunnel.training.memory.stage_trace import StageTraceWriter, first_shard
from windtunnel.training.memory.static_memory import static_memory
from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import memory_of

MIB = 2**20


def replay(events: list[tuple[int, int, int]], **options: bool | int) -> Replay:
    """Events as (bytes, tensor, stream)."""
    table = np.array(events, np.int64).reshape(-1, 3)
    return replay_tensors(
        np.ascontiguousarray(table[:, 0]),
        np.ascontiguousarray(table[:, 1]),
        np.ascontiguousarray(table[:, 2]),
        **options,  # type: ignore[arg-type]
    )


def random_events(seed: int, count: int) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(seed)
    live: list[tuple[int, int, int]] = []
    out = []
    for tensor in range(count):
        size = int(rng.choice([700, 300_000, 3 * MIB, 15 * MIB, 70 * MIB]) * rng.uniform(0.5, 1.5))
        live.append((size, tensor, int(rng.integers(2))))
        out.append(live[-1])
        while live and rng.random() < 0.48:
            size, t, stream = live.pop(int(rng.integers(len(live))))
            out.append((-size, t, stream))
    return out


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("limit", [0, 400 * MIB])
@pytest.mark.parametrize("seed", range(4))
def test_kernel_equals_its_twin(seed: int, expandable: bool, limit: int) -> None:
    events = random_events(seed, 120)
    options = {"expandable": expandable, "limit_bytes": limit}
    assert replay(events, **options) == replay(events, **options, reference=True)


def test_a_freed_block_is_reused_only_on_its_stream() -> None:
    one = [(64 * MIB, 0, 0), (-64 * MIB, 0, 0)]
    assert replay([*one, (64 * MIB, 1, 0)]).reserved_bytes == 64 * MIB
    assert replay([*one, (64 * MIB, 1, 1)]).reserved_bytes == 128 * MIB


def test_long_lived_tensor_in_a_freed_block_costs_a_segment() -> None:
    """The block that held an activation is split by a tensor that stays: the activation needs new memory."""
    events = [(100 * MIB, 0, 0), (-100 * MIB, 0, 0), (10 * MIB, 1, 0), (100 * MIB, 2, 0)]
    assert replay(events).reserved_bytes == 200 * MIB
    assert replay(events, expandable=True).reserved_bytes == 120 * MIB


def test_a_full_device_releases_whole_free_segments() -> None:
    events = [(100 * MIB, 0, 0), (-100 * MIB, 0, 0), (150 * MIB, 1, 0)]
    full = replay(events, limit_bytes=200 * MIB)
    assert (full.reserved_bytes, full.releases) == (150 * MIB, 1)
    assert replay(events).reserved_bytes == 250 * MIB


# -- the trace of a stage ---------------------------------------------------------------------------------------------
def small(plan: dict[str, Any], *, batch: int = 32, framework: str = "megatron_core") -> dict[str, Any]:
    return {
        "model": {
            "name": "small",
            "hidden_size": 2048,
            "num_hidden_layers": 8,
            "vocab_size": 32000,
            "num_attention_heads": 16,
            "intermediate_size": 5632,
        },
        "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": batch, "framework": framework},
        "plan": plan,
    }


def stage_trace(source: dict[str, Any], stage: int = 0) -> tuple[StageTraceWriter, dict[str, float]]:
    x, _ = prepare(source)
    static = static_memory(x.stages, x.plan, x.training, x.behaviour, x.schedule.placement[:, 0].astype(np.int64))
    alive = {name: float(value[stage]) for name, value in static.by_kind.items()}
    inputs = MemoryInputs(x.stages, x.plan, x.training, x.behaviour, x.schedule)
    trace = StageTraceWriter(inputs, alive, static.late_gradient_bytes, stage)
    return trace, alive


PLANS: list[tuple[dict[str, Any], str]] = [
    ({}, "megatron_core"),
    ({"tp": 4, "pp": 2}, "megatron_core"),
    ({"pp": 4, "vpp": 2, "tp": 2}, "megatron_core"),
    ({"pp": 2, "schedule": "zb_h1"}, "megatron_core"),
    ({"cp": 4, "recompute": "full"}, "megatron_core"),
    ({"recompute": "selective"}, "megatron_core"),
    ({"zero": 3}, "torchtitan"),
    ({"zero": 3, "recompute": "full", "tp": 2}, "torchtitan"),
    ({"zero": 2}, "deepspeed"),
    ({"pp": 2, "zero": 3}, "torchtitan"),
]


@pytest.mark.parametrize(("plan", "framework"), PLANS, ids=str)
def test_every_tensor_is_freed_once_and_only_what_persists_is_left(plan: dict[str, Any], framework: str) -> None:
    for stage in range(plan.get("pp", 1)):
        trace, static = stage_trace(small(plan, framework=framework), stage)
        live: dict[int, int] = {}
        for size, tensor in zip(*(column.tolist() for column in trace.trace()[:2]), strict=True):
            if size > 0:
                assert tensor not in live
                live[tensor] = size
            else:
                del live[tensor]
        kept = sum(static.values()) - (static.get("gathered layers", 0.0) if trace.settings.sharded else 0.0)
        own = float(trace.unused_gradients().sum()) if trace.costs.dummy_wgrad_bytes[stage] else 0.0
        kept += own - trace.costs.dummy_wgrad_bytes[stage]
        late = float(sum(trace.late_bytes[k] for k in trace.virtual_stages))
        if trace.plan.zero == 3 and not trace.settings.sharded:  # added up whole, reduced after the last backward
            late /= trace.plan.shard_group
        if trace.settings.scattered or late == 0.0:
            assert sum(live.values()) == pytest.approx(kept + late, rel=0.01, abs=2**21)
        else:
            assert sum(live.values()) > kept


@pytest.mark.parametrize("framework", ["nanotron", "megatron_core", "ddp", "deepspeed"])
@pytest.mark.parametrize("plan", [{"tp": 2}, {"tp": 2, "pp": 2}], ids=str)
def test_tied_embeddings_share_one_gradient(plan: dict[str, Any], framework: str) -> None:
    """Head and embedding at the two ends of one stage: nothing is freed that was not allocated."""
    if framework == "ddp":
        plan = {}
    scenario = small(plan, framework=framework)
    scenario["model"]["tie_word_embeddings"] = True
    for stage in range(plan.get("pp", 1)):
        live: set[int] = set()
        for size, tensor in zip(
            *(column.tolist() for column in stage_trace(scenario, stage)[0].trace()[:2]), strict=True
        ):
            if size > 0:
                assert tensor not in live
                live.add(tensor)
            else:
                live.remove(tensor)
        assert live, "weights and optimizer stay"


@pytest.mark.parametrize(("plan", "framework"), PLANS, ids=str)
def test_tensors_add_up_to_the_account(plan: dict[str, Any], framework: str) -> None:
    memory = memory_of(prepare(small(plan, framework=framework))[0])
    trace, _ = stage_trace(small(plan, framework=framework), memory.stage)
    replayed = replay_tensors(*trace.trace())
    assert replayed.allocated_bytes == pytest.approx(memory.peak_allocated_bytes, rel=0.15)
    assert replayed.reserved_bytes >= replayed.allocated_bytes
    assert memory.reserved_by_allocator_bytes >= memory.peak_allocated_bytes
    outside = memory.context_bytes + memory.communication_buffer_bytes
    assert memory.peak_reserved_bytes == memory.reserved_by_allocator_bytes + outside


@pytest.mark.parametrize("plan", [{"tp": 2}, {"pp": 4, "tp": 2}, {"pp": 4, "vpp": 2}], ids=str)
def test_more_micro_batches_reserve_nothing_more(plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    source = small(plan, batch=256)
    short = replay_tensors(*stage_trace(source)[0].trace())
    monkeypatch.setattr(
        StageTraceWriter,
        "window",
        lambda self: np.arange(self.schedule.stage_ptr[self.stage], self.schedule.stage_ptr[self.stage + 1]),
    )
    full, _ = stage_trace(source)
    assert len(full.window()) >= 64
    long = replay_tensors(*full.trace())
    # blocks are up to 1 MiB larger than their tensors, depending on what was free
    assert short.allocated_bytes == pytest.approx(long.allocated_bytes, rel=0.002)
    assert short.reserved_bytes == pytest.approx(long.reserved_bytes, rel=0.02)


def test_expandable_segments_reserve_less() -> None:
    trace = stage_trace(small({"tp": 2}))[0].trace()
    plain, expandable = replay_tensors(*trace), replay_tensors(*trace, expandable=True)
    assert plain.allocated_bytes <= expandable.reserved_bytes < plain.reserved_bytes


def test_optimizer_state_in_cached_blocks_costs_segments() -> None:
    """State appears after the first step has left its blocks: the second step needs more than the sum of both."""
    trace = stage_trace(small({}))[0]
    held = replay_tensors(*trace.trace())
    assert held.reserved_bytes > 1.005 * held.allocated_bytes


def test_communication_buffers_grow_with_groups() -> None:
    sizes = [
        memory_of(prepare(small(plan))[0]).communication_buffer_bytes for plan in ({}, {"tp": 2}, {"tp": 2, "cp": 2})
    ]
    assert 0 < sizes[0] < sizes[1] < sizes[2] < 2e9


@pytest.mark.parametrize(("plan", "framework"), [PLANS[1], PLANS[6]], ids=str)
def test_a_third_step_reserves_nothing_more(plan: dict[str, Any], framework: str) -> None:
    trace, _ = stage_trace(small(plan, framework=framework))
    written = trace.step()
    sizes, tensors, streams = trace.trace()
    length = len(written.before_backward.sizes) + len(written.from_backward.sizes)
    step = sizes[-length:], tensors[-length:], streams[-length:]
    gradients = np.setdiff1d(step[1][step[0] > 0], step[1][step[0] < 0])
    assert len(gradients) == len(written.late_gradients)
    third = (
        np.concatenate([sizes, np.full(len(gradients), -1), step[0]]),
        np.concatenate([tensors, gradients, step[1] + 2 * written.num_tensors]),
        np.concatenate([streams, np.zeros(len(gradients), np.int64), step[2]]),
    )
    assert replay_tensors(*third).reserved_bytes == replay_tensors(sizes, tensors, streams).reserved_bytes


def test_planned_memory_reserves_what_is_alive() -> None:
    memory = memory_of(prepare(small({"zero": 3, "recompute": "full"}, framework="jax"))[0])
    assert memory.reserved_by_allocator_bytes == memory.peak_allocated_bytes
    other = memory_of(prepare(small({"zero": 3, "recompute": "full"}, framework="torchtitan"))[0])
    assert other.reserved_by_allocator_bytes > other.peak_allocated_bytes


def test_a_checkpoint_by_names_drops_in_memory_what_it_recomputes_in_time() -> None:
    plan = {"zero": 3, "recompute": {"policy": "modules", "modules": ["core_attn"]}}

    def dropped(framework: str) -> set[str]:
        trace, _ = stage_trace(small(plan, framework=framework))
        return {plain_name(name) for writers in trace.layers for w in writers for name in w.dropped}

    assert "attention_out" in dropped("jax")
    assert "attention_out" not in dropped("torchtitan")


def test_expandable_segments_follow_the_setting() -> None:
    def reserved(chosen: bool | None) -> float:
        source = small({"tp": 2, "cp": 2})
        source["training"]["expandable_segments"] = chosen
        return memory_of(prepare(source)[0]).reserved_by_allocator_bytes

    assert reserved(True) < reserved(None) == reserved(False)


def test_a_shard_is_a_stretch_of_the_buffer() -> None:
    """Four parameters over two ranks, reversed: the first rank holds the last one whole and part of the third."""
    held = first_shard(np.array([40.0, 10.0, 30.0, 20.0]), 2)
    assert held.tolist() == [0.0, 0.0, 30.0, 20.0]
    assert first_shard(np.array([40.0, 10.0, 30.0, 20.0]), 4).tolist() == [0.0, 0.0, 5.0, 20.0]


def test_what_is_alive_at_the_peak_adds_up() -> None:
    memory = memory_of(prepare(small({"pp": 2, "tp": 2}))[0])
    assert sum(memory.at_peak.values()) == pytest.approx(memory.peak_allocated_bytes, rel=1e-9)
    assert min(memory.at_peak.values()) > 0
    assert {"weights", "gradients", "optimizer", "activations"} <= set(memory.at_peak)


def test_the_last_stage_keeps_its_outputs() -> None:
    source = small({"pp": 2, "zero": 3}, framework="torchtitan")
    assert not stage_trace(source, 1)[0].keeps_outputs  # releases that compile the loss give them up
    source["training"]["fused_cross_entropy"] = False
    trace, _ = stage_trace(source, 1)
    assert trace.keeps_outputs and len(trace.window()) == 2 * trace.schedule.m
    assert not stage_trace(source, 0)[0].keeps_outputs


def test_a_root_group_stays_whole() -> None:
    """Embedding and head, gathered as one, are alive at the loss; apart, the embedding is given up after its use."""

    def held(chosen: bool) -> float:
        source = small({"zero": 3}, framework="torchtitan")
        source["training"]["fsdp_root_group"] = chosen
        return memory_of(prepare(source)[0]).at_peak["gathered layers"]

    assert held(True) - held(False) == pytest.approx(2 * 32000 * 2048, rel=0.05)


@pytest.mark.parametrize("framework", ["torchtune", "torchtitan", "nemo"])
@pytest.mark.parametrize("zero", [1, 3])
def test_adapters_leave_a_gradient_where_frozen_weights_leave_none(framework: str, zero: int) -> None:
    scenario = {
        "model": "meta-llama/Llama-3.2-1B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
        "training": {"seq_len": 1024, "global_batch": 8, "phase": "lora", "framework": framework},
        "plan": {"zero": zero},
    }
    lora = memory_of(prepare(scenario)[0])
    whole = memory_of(prepare(scenario, overrides=["training.phase=sft"])[0])
    assert lora.reserved_by_allocator_bytes >= lora.peak_allocated_bytes
    assert lora.peak_allocated_bytes < whole.peak_allocated_bytes


def test_a_share_of_offloading_takes_the_first_layers_whole() -> None:
    trace, _ = stage_trace(small({"offload": {"activations": 0.5}}))
    layers = [writer.offloaded for writer in trace.layers[0] if writer.block.kind not in ("embedding", "head")]
    assert layers == [1.0] * 4 + [0.0] * 4


@pytest.mark.parametrize("zero", [0, 1])
def test_only_adapters_move_into_the_buffer_of_a_sharded_optimizer(zero: int) -> None:
    """Frozen weights are held once at every moment: 2 bytes each, beside adapters and their copies."""
    model = catalog.model("meta-llama/Llama-2-70b-hf")
    scenario = {
        "model": model.name,
        "cluster": {"device": "b300-sxm-270gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 512, "global_batch": 8, "phase": "lora", "framework": "nemo"},
        "plan": {"zero": zero, "tp": 1, "mbs": 1},
    }
    base = 2 * count_parameters(model).total
    memory = memory_of(prepare(scenario)[0])
    assert base < memory.at_peak["weights"] < 1.01 * base


@pytest.mark.parametrize("plan", [{"pp": 8, "ep": 8}, {"pp": 4, "vpp": 2, "ep": 8, "schedule": "dualpipev"}], ids=str)
def test_the_head_behind_a_predicting_module_has_an_input_of_its_own(plan: dict[str, Any]) -> None:
    """DeepSeek-V3 predicts one further token: what its last head frees has been allocated, and once."""
    source = {
        "model": "deepseek-ai/DeepSeek-V3",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 16, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 256},
        "plan": {**plan, "mbs": 1},
    }
    x, _ = prepare(source)
    depth = len(x.plan.stage_layers)
    last = int(x.schedule.placement[depth - 1, 0])
    live: set[int] = set()
    trace = stage_trace(source, last)[0].trace()
    for size, tensor in zip(trace[0].tolist(), trace[1].tolist(), strict=True):
        if size > 0:
            assert tensor not in live
            live.add(tensor)
        else:
            live.remove(tensor)
    assert live, "weights and optimizer stay"
