"""Copies beside the collectives of sharded parameters."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.training.predict import prepare


def parts(**changes: Any) -> Any:
    scenario: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 8192, "global_batch": 8, "framework": "torchtitan"} | changes.pop("training", {}),
        "plan": {"zero": 3, "mbs": 1} | changes.pop("plan", {}),
    }
    return prepare(scenario | changes)[0].stages


def copied(built: Any, direction: str) -> float:
    """Bytes copied by one pass over all segments of a direction."""
    return sum(
        launch.hbm_bytes * (32 if segment.name not in ("embedding", "head") else 1)
        for segment in built.segments
        for launch in segment.launches
        if launch.name == "fsdp_copies" and segment.direction == direction
    )


def test_bytes_per_unsharded_parameter_do_not_depend_on_the_batch() -> None:
    params = 8.03e9
    for mbs in (1, 4):
        built = parts(plan={"mbs": mbs}, training={"global_batch": 8 * mbs})
        assert copied(built, "F") == pytest.approx(4 * params, rel=0.01)
        assert copied(built, "B") == pytest.approx((4 + 2 + 4) * params, rel=0.01)


def test_reduction_in_16_bits_copies_less() -> None:
    whole, half = parts(), parts(training={"grad_reduce_precision": "bf16"})
    assert copied(whole, "B") - copied(half, "B") == pytest.approx(2 * 8.03e9, rel=0.01)


def test_a_flat_parameter_is_not_copied_out() -> None:
    assert copied(parts(training={"framework": "fsdp1"}), "F") == 0.0
    assert copied(parts(training={"framework": "fsdp1"}), "B") > 0.0


@pytest.mark.parametrize("change", [{"plan": {"zero": 1}}, {"training": {"framework": "megatron_core"}}])
def test_nothing_is_copied_without_sharded_weights_of_pytorch(change: dict[str, Any]) -> None:
    built = parts(**change)
    assert copied(built, "F") == copied(built, "B") == 0.0


def test_what_is_gathered_once_is_copied_once_a_step() -> None:
    again = parts(plan={"mbs": 1}, training={"global_batch": 32})
    once = parts(plan={"mbs": 1, "reshard_after_forward": False}, training={"global_batch": 32})
    assert copied(once, "F") == pytest.approx(copied(again, "F") / 4)


def test_eager_norms_and_rotations_are_what_compilation_saves() -> None:
    seconds = {
        on: parts(training={"compile": on}).seconds.sum() for on in (False, True)
    }  # measured: 16 % of the compiled step (two sizes of the cluster)
    assert 1.10 < seconds[False] / seconds[True] < 1.25


def gathers(precision: str, framework: str = "torchtitan") -> float:
    """Bytes that the tensor axis moves forward, per layer."""
    built = parts(training={"precision": precision, "framework": framework, "global_batch": 1}, plan={"tp": 8})
    block = next(s for s in built.segments if s.direction == "F" and s.name not in ("embedding", "head"))
    return sum(x.up_bytes for x in block.launches if x.operation == "all_gather")


def test_tensor_wise_fp8_gathers_activations_in_8_bits() -> None:
    assert gathers("fp8") == pytest.approx(gathers("bf16") / 2, rel=1e-6)
    assert gathers("fp8_rowwise") == pytest.approx(gathers("bf16"), rel=1e-6)


def test_asynchronous_tensor_axis_adds_its_parts_at_the_end() -> None:
    built = parts(training={"global_batch": 1}, plan={"tp": 8, "overlap": {"tp": True}})
    sums = [x for s in built.segments for x in s.launches if x.name.endswith("_sum")]
    assert sums
    tokens, hidden = 8192.0, 4096.0
    for x in sums:  # parts of eight ranks are read, one is written
        assert x.hbm_bytes == pytest.approx(tokens * hidden * 2 * (1 + 1 / 8), rel=0.02)


def test_old_checkpoints_run_the_final_projection_again() -> None:
    def seconds(stops: bool | None) -> float:
        recompute = {"policy": "full"} | ({} if stops is None else {"early_stop": stops})
        return float(parts(plan={"recompute": recompute}).seconds.sum())

    assert seconds(None) == seconds(True)
    assert 1.02 < seconds(False) / seconds(True) < 1.12


def test_row_wise_scaling_casts_twice_also_when_compiled() -> None:
    def cast(precision: str) -> float:
        return parts(training={"precision": precision}).work.hbm_bytes.sum() - parts().work.hbm_bytes.sum()

    assert cast("fp8_rowwise") > cast("fp8")


def test_attention_in_ring_blocks_takes_its_overhead() -> None:
    def attention(cp: int) -> float:
        built = parts(training={"seq_len": 32768, "global_batch": 8 // cp}, plan={"cp": cp})
        block = next(s for s in built.segments if s.direction == "F" and s.name not in ("embedding", "head"))
        return sum(x.alone_s for x in block.launches if x.kind == "attention")

    # two ranks share the pairs; (n - 1)/n of the overhead, and the ramp of sequences half as long
    assert 0.5 * 1.05 < attention(2) / attention(1) < 0.5 * 1.35


def test_a_cpu_copies_its_shards_on_the_core_that_computes() -> None:
    changes = {"cluster": {"device": "cpu-generic", "nodes": 1, "devices_per_node": 2}, "plan": {"mbs": 1, "zero": 3}}
    built = parts(training={"global_batch": 2, "precision": "fp32"}, **changes)
    params = 8.03e9
    assert copied(built, "F") == pytest.approx((8 + (4 + 4) / 2) * params, rel=0.01)  # out of the buffer, into it
    assert copied(built, "B") == pytest.approx((8 + (4 + 4) / 2 + 8) * params, rel=0.01)
