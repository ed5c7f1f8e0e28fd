"""Parts of a federated round over links of unlike rates, and schemes of small devices on the clock."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from arrival_runs import algorithm_of, built_task, job_of, pace_of
from learning_runs import built, job, quadratic, run

from windtunnel.learning.drivers.arrivals import ArrivalSetting, run_arrivals
from windtunnel.learning.timing.contended_links import ContendedLinks
from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import time_lock_step
from windtunnel.learning.timing.target import Speeds, Target, stated_layers

MODEL_BYTES = 4 * 1_000_000


def rounds_over(
    up: float, shared: float = inf, *, clients: int = 5, step_s: float = 1.0, factors=None, aggregation_s=0.0
):
    """Parts of the rounds of a testbed with a model of 4 MB and ten steps a round; rates in bytes/s."""
    task = built_task("quadratic", clients)
    to = job_of(task, steps=40)
    algorithm = algorithm_of("fl-5g-testbed", to, local_steps=10, aggregation_s=aggregation_s)
    link = Link(up_bytes_per_s=up, down_bytes_per_s=1e9, shared_bytes_per_s=shared)
    setting = ArrivalSetting(
        pace=pace_of(clients, step_s=step_s, factors=factors),
        transfers=ContendedLinks(link),
        shapes=((1_000_000,),),
        evaluate_every=40,
    )
    run_arrivals(algorithm, task, to, setting)
    assert len(algorithm.rounds) == 4
    return algorithm.rounds


def test_a_round_is_a_download_training_an_upload_and_the_aggregation() -> None:
    for part in rounds_over(1e6, aggregation_s=0.5):
        assert (part.down_s, part.train_s, part.up_s) == pytest.approx((MODEL_BYTES / 1e9, 10.0, 4.0))
        assert part.round_s == pytest.approx(MODEL_BYTES / 1e9 + 10.0 + 4.0 + 0.5)
        assert part.up_share == pytest.approx(4.0 / part.round_s)


def test_the_slowest_client_ends_the_round() -> None:
    part = rounds_over(1e6, factors=[1, 1, 1, 1, 3])[-1]
    assert part.train_s == pytest.approx(14.0)
    assert part.round_s == pytest.approx(30.0 + 4.0 + MODEL_BYTES / 1e9)


def test_uploads_that_share_a_cell_grow_with_the_number_of_clients_and_others_do_not() -> None:
    """Why 5G's ratio over Ethernet depends on how many devices upload at a time."""
    ethernet = [rounds_over(12.5e6, clients=n)[0].up_s for n in (1, 2, 5)]
    cell = [rounds_over(12.5e6, 2e6, clients=n)[0].up_s for n in (1, 2, 5)]
    assert ethernet == pytest.approx([0.32] * 3)
    assert cell == pytest.approx([2.0, 4.0, 10.0])


def target(step_s: float, watts: float, speeds: Speeds | None = None) -> Target:
    """A device with a model of a million parameters over 100 Mb/s."""
    link = Link(up_bytes_per_s=12.5e6, down_bytes_per_s=12.5e6, latency_s=1e-3)
    return Target(
        step_s=step_s,
        layers=stated_layers(1e6, 1),
        link=link,
        speeds=speeds,
        step_watts=watts,
        idle_watts=0.3 * watts,
    )


DEVICES = {"x86": (0.05, 65.0), "ARM": (0.4, 6.0), "RISC-V": (1.6, 5.0)}
"""Seconds of a step and watts: a server core, a single-board computer, and an early RISC-V board; assumed."""


@pytest.mark.parametrize("scheme", ["master-worker", "peer-to-peer", "tree"])
def test_seconds_of_a_scheme_follow_the_speed_of_devices_and_joules_their_power(scheme: str) -> None:
    task = quadratic(np.ones((6, 3)), 0.0)
    to = job(task, steps=40)
    messages = built("riscv-dml", to, scheme=scheme).messages
    seconds, joules = {}, {}
    for name, (step_s, watts) in DEVICES.items():
        timing = time_lock_step(messages, target(step_s, watts), 6, 40)
        seconds[name], joules[name] = timing.time_s[-1], float(timing.at([40]).joules[0])
        exchanged = timing.time_s[-1] - 40 * step_s
        assert joules[name] == pytest.approx(6 * watts * (40 * step_s + 0.3 * exchanged), rel=1e-6)
    assert seconds["x86"] < seconds["ARM"] < seconds["RISC-V"]
    assert joules["ARM"] < joules["RISC-V"]  # of like watts, the slower one needs more
    mixed = time_lock_step(messages, target(0.05, 65.0, Speeds(factors=(1.0, 8.0, 32.0))), 6, 40)
    assert mixed.time_s[-1] == pytest.approx(seconds["RISC-V"], rel=0.01)  # a round waits for the slowest


def test_schemes_learn_the_same_and_send_what_they_say() -> None:
    rng = np.random.default_rng(1)
    task = quadratic(rng.uniform(0.2, 1.0, (6, 5)), rng.normal(size=(6, 5)))
    to = job(task, steps=40)
    ends = [run(built("riscv-dml", to, scheme=s), task, to).anchor for s in ("master-worker", "peer-to-peer", "tree")]
    assert np.array_equal(ends[0], ends[1]) and np.array_equal(ends[0], ends[2])
    kinds = {
        s: [m.kind for m in built("riscv-dml", to, scheme=s).messages(9)]
        for s in ("master-worker", "peer-to-peer", "tree")
    }
    assert kinds == {
        "master-worker": ["to_server", "from_server"],
        "peer-to-peer": ["all_gather"],
        "tree": ["all_reduce"],
    }
