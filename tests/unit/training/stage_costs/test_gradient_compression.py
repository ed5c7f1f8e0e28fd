"""Compressed exchanges and local steps: bytes, kernels, memory, and what is refused."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np
import pytest

from windtunnel import api, catalog
from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.errors import BadInput
from windtunnel.network.groups import GroupPlacement, placement
from windtunnel.program.comm_work import CommWork
from windtunnel.specs.compression import GradientCompression
from windtunnel.techniques.limits import FREE, merged
from windtunnel.training.data_parallel.gradient_compression import (
    SCALE_BYTES,
    CollectiveCost,
    CompressedExchange,
    Shapes,
)
from windtunnel.training.results.training_result import TrainingResult

STEP: dict[str, Any] = {
    "model": "gpt2-xl",
    "cluster": {
        "device": "v100-sxm-32gb",
        "nodes": 4,
        "devices_per_node": 4,
        "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": "10 Gb/s"},
    },
    "training": {"seq_len": 1024, "global_batch": 64, "precision": "fp16", "framework": "generic"},
    "plan": {"mbs": 1, "zero": 0},
}
KINDS: tuple[dict[str, Any], ...] = (
    {"kind": "quantised", "bits": 1, "block": None, "error_feedback": True},
    {"kind": "ternary", "bits": 2},
    {"kind": "low_rank", "rank": 4, "error_feedback": True},
    {"kind": "sparse", "density": 0.001},
    {"kind": "sparse", "density": 0.01, "shared_positions": True},
    {"kind": "sketch", "density": 0.01},
)


def step(*changes: dict[str, Any]) -> TrainingResult:
    scenario = STEP
    for change in changes:
        scenario = merged(scenario, change)
    return api.simulate_training(scenario, sensitivities=False)


def gradients(given: dict[str, Any]) -> dict[str, Any]:
    return {"plan": {"compression": {"gradients": given}}}


@pytest.mark.parametrize("given", KINDS, ids=lambda given: str(given["kind"]))
def test_each_kind_gains_on_a_slow_network_and_loses_on_a_free_one(given: dict[str, Any]) -> None:
    free = FREE["network"]
    assert step(gradients(given)).step_time_s < step().step_time_s
    assert step(free, gradients(given)).step_time_s > step(free).step_time_s


def exchange(given: GradientCompression, **shapes: float) -> CompressedExchange:
    means = {"factor_rows": 0.0, "factor_columns": 0.0, "matrices": 0.0, "rank": 0.0, "vectors": 0.0, "level": 0.0}
    device = catalog.device("v100-sxm-32gb")
    return CompressedExchange(given, Shapes(**(means | shapes)), 4.0, device, Coefficients())


def sent(one: CompressedExchange, op: str, ranks: int) -> list[tuple[str, float]]:
    """Collectives of a million gradients."""
    found: list[tuple[str, float]] = []

    def run(name: str, nbytes: Floats, place: GroupPlacement) -> CollectiveCost:
        found.append((name, float(nbytes)))
        return CollectiveCost(CommWork.of(nbytes), 0.0)

    one.reduce(run, op, np.asarray(1e6), placement(ranks, 1, 8))
    return found


def test_integers_go_to_whoever_sums_them_and_back() -> None:
    one = exchange(GradientCompression(bits=8, block=256), level=8.0)
    half = 1e6 * (1.0 + SCALE_BYTES / 256)
    assert sent(one, "all_reduce", 16) == [("all_to_all", half), ("all_gather", half)]
    assert sent(one, "reduce_scatter", 16) == [("all_to_all", half)]


@pytest.mark.parametrize("ranks", [2, 8, 512])
def test_sums_of_ternary_digits_need_wider_integers_with_more_ranks(ranks: int) -> None:
    one = exchange(GradientCompression(kind="ternary", bits=2), level=2.0)
    assert sent(one, "all_reduce", ranks)[-1] == ("all_gather", 1e6 * ceil(log2(2 * ranks + 1)) / 8)


def test_positions_of_their_own_cannot_be_added_so_that_bytes_grow_with_ranks() -> None:
    own = GradientCompression(kind="sparse", density=0.01)
    shared = GradientCompression(kind="sparse", density=0.01, shared_positions=True)
    assert sent(exchange(own, level=0.01), "all_reduce", 16) == [("all_gather", pytest.approx(16 * 1e4 * 8.0))]
    assert sent(exchange(shared, level=0.01), "all_reduce", 16) == [("all_reduce", pytest.approx(1e4 * 4.0))]


def test_what_is_not_compressed_travels_whole() -> None:
    one = exchange(GradientCompression(bits=8, share=0.25), level=8.0)
    assert sent(one, "all_reduce", 16)[-1] == ("all_reduce", 0.75e6 * 4.0)


def test_factors_take_rank_times_both_sides_of_each_matrix() -> None:
    low, high = (step(gradients({"kind": "low_rank", "rank": rank})) for rank in (1, 64))
    assert low.step_time_s < high.step_time_s < step().step_time_s


def test_error_feedback_is_kept_in_device_memory() -> None:
    params = 1.56e9
    without = step(gradients({"bits": 1}))
    kept = step(gradients({"bits": 1, "error_feedback": True}))
    grown = kept.peak_memory_allocated_bytes - without.peak_memory_allocated_bytes
    assert grown == pytest.approx(params * 4.0 * (1 + 1 / 16), rel=0.02)


def test_peers_between_nodes_send_a_slice_each() -> None:
    """Four ranks of a node share its port: exchanged among all ranks, four times as much leaves the node."""
    ranks, nodes = (step(gradients({"bits": 8, "between": between})).step_time_s for between in ("ranks", "nodes"))
    whole, none = step().step_time_s, step(FREE["network"]).step_time_s
    assert none < nodes < ranks < whole
    assert ranks - none > 2.5 * (nodes - none)


def test_small_gradients_inside_a_node_help_where_its_links_are_slow() -> None:
    slow = {"cluster": {"scale_up": "pcie3"}}
    levels, nodes = (step(slow, gradients({"bits": 8, "between": b})).step_time_s for b in ("levels", "nodes"))
    assert levels < nodes


def test_single_operators_have_a_level_of_their_own() -> None:
    plain = step(gradients({"kind": "low_rank", "rank": 4})).step_time_s
    wider = step(gradients({"kind": "low_rank", "rank": 4, "by_operator": {"fc1": 128, "fc2": 128}})).step_time_s
    assert wider > plain


def test_weights_gathered_in_few_bits_help_where_gathers_are_waited_for() -> None:
    sharded = {"plan": {"zero": 3}}
    fewer = {"plan": {"compression": {"gather_bits": 8}}}
    assert step(sharded, fewer).step_time_s < 0.9 * step(sharded).step_time_s
    assert step(FREE["network"], sharded, fewer).step_time_s > step(FREE["network"], sharded).step_time_s


def test_hops_in_few_bits() -> None:
    staged = {"plan": {"pp": 16}, "training": {"global_batch": 64}}
    fewer = {"plan": {"compression": {"hop_bits": 8}}}
    assert step(staged, fewer).step_time_s < step(staged).step_time_s
    assert step(FREE["network"], staged, fewer).step_time_s > step(FREE["network"], staged).step_time_s


def rounds(steps: int, *, late: bool) -> dict[str, Any]:
    return {"plan": {"local_steps": {"steps": steps, "late": late}}}


def test_an_average_that_is_late_shows_only_where_it_takes_longer_than_the_round() -> None:
    """Exposed: what the whole all-reduce takes beyond the steps of a round, by step."""
    alone = step(rounds(10**6, late=True)).step_time_s
    whole = step(rounds(1, late=False)).step_time_s - alone
    for steps in (1, 2, 4, 8, 64):
        here = step(rounds(steps, late=True)).step_time_s
        least = max(alone, whole / steps)
        assert least <= here * (1 + 1e-9) and here < 1.1 * least  # beside computation it takes some SMs
        assert step(rounds(steps, late=False)).step_time_s == pytest.approx(alone + whole / steps, rel=0.03)


def test_local_steps_keep_where_the_round_began() -> None:
    more = step(rounds(8, late=False)).peak_memory_allocated_bytes - step().peak_memory_allocated_bytes
    assert more == pytest.approx(1.56e9 * 8.0, rel=0.02)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (merged(rounds(4, late=True), {"plan": {"zero": 1}}), "plan.zero"),
        (merged(rounds(4, late=True), gradients({"bits": 8})), "plan.compression.gradients"),
        (merged(gradients({"bits": 8}), {"plan": {"zero": 3, "levels": {"gather_bits": 8}}}), "plan.compression"),
        (gradients({"bits": 40}), "plan.compression.gradients.bits"),
        (gradients({"kind": "kronecker"}), "plan.compression.gradients.kind"),
    ],
    ids=["sharded", "both", "levels", "bits", "kind"],
)
def test_what_does_not_go_together_is_refused_by_name(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as error:
        step(change)
    assert field in [problem.field for problem in error.value.problems]


@pytest.mark.parametrize("sent", [gradients({"bits": 4}), rounds(8, late=True)], ids=["compressed", "local steps"])
def test_the_planner_finds_the_best_of_all_plans(sent: dict[str, Any]) -> None:
    """Bounds of a search count what travels: no listed plan is faster than its choice."""
    space = {"tp": [1, 2, 4], "pp": [1, 2], "mbs": [1, 2], "vpp": [1]}
    case = merged(merged(STEP, sent), {"search": {"space": space}})
    found = api.plan(_unpinned(case))
    best = min(_times(merged(STEP, sent)))
    assert api.simulate_training(found.scenario, sensitivities=False).step_time_s <= best * (1 + 1e-9)


def _unpinned(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "plan": {name: value for name, value in case["plan"].items() if name != "mbs"}}


def _times(case: dict[str, Any]) -> list[float]:
    out = []
    for tp in (1, 2, 4):
        for pp in (1, 2):
            for mbs in (1, 2):
                try:
                    run = api.simulate_training(
                        merged(case, {"plan": {"tp": tp, "pp": pp, "mbs": mbs}}), sensitivities=False
                    )
                except BadInput:
                    continue
                if run.memory_fits:
                    out.append(run.step_time_s)
    return out
