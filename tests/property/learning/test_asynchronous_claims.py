"""Published gains of asynchronous algorithms, on a small task. Settings were written down before the first run.

Phones: 4,000 clients; softmax regression with 64 inputs and 10 classes on 40,000 samples split by Dirichlet(0.5);
batch 8, 5 local steps, learning rate 0.005. Seconds of clients are log-normal with σ = 1 (two orders of magnitude
between the fastest and slowest hundredth, as Papaya shows of its fleet), in the order of their samples; a round's
jitter has σ = 0.3. Links are free. Target: a fifth of the initial excess loss.

Silos: 20 workers whose seconds of a step are evenly spaced from 1 to 5; the same task split by Dirichlet(0.3); batch 8,
20 local steps, learning rate 0.005, jitter 0.1; FedBuff's K is 5, FedCompass's Qmin 10 and Qmax 50 (their ratio is that
of the speeds). Target: 15 % of the initial excess loss. Each algorithm has the best of four values of the knob that
scales its server steps.

With the first settings (learning rate 0.05, knobs untuned) targets were reached within 9 to 28 rounds of the
synchronous rivals, which the gate of proxies refuses: it wants 50. So the learning rate became a tenth, once; the grid
of FedBuff's server steps was moved up from (0.1 … 3) when 0.1 had taken 160,000 uploads, before any rival had run.
FedCompass's lateness was first compared at each one's best step, where FedBuff reaches the target within 9 server steps
(2.6 late against 2.8); it is compared at a step of 1. What is missed with these settings stays marked as missed.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from arrival_runs import built_task, job_of, pace_of, run

from windtunnel.learning.drivers.arrival_results import ArrivalCurve
from windtunnel.learning.drivers.pace import lognormal_factors
from windtunnel.learning.randomness import Draws

pytestmark = pytest.mark.slow

CLIENTS = 4000
CONCURRENCY = 1300
"""Of both in Papaya: a cohort of 1,000 and 30 % over-selection."""


@cache
def phones():
    """Task and seconds of the phones."""
    task = built_task("logistic", CLIENTS, inputs=64, samples=40_000, split="dirichlet", value=0.5)
    return task, lognormal_factors(CLIENTS, 1.0, Draws(1), task.shards.sizes.astype(float))


@cache
def silos():
    """Task and seconds of the silos."""
    return built_task("logistic", 20, inputs=64, split="dirichlet", value=0.3), np.linspace(1.0, 5.0, 20)


def goal(task, share: float) -> float:
    """A share of the initial excess loss."""
    start = float(task.evaluate(task.initial()[None, :]).loss[0])
    return task.floor + share * (start - task.floor)


@cache
def phone_run(id: str, **knobs) -> ArrivalCurve:
    """Until the target."""
    task, factors = phones()
    job = job_of(task, steps=20_000, lr=0.005)
    pace = pace_of(CLIENTS, factors=factors, jitter=0.3)
    setting = {"evaluate_every": 1, "stop_loss": goal(task, 0.2)}
    return run(id, task, job, pace, setting, local_steps=5, **knobs)


@cache
def silo_run(id: str, seed: int = 1, **knobs) -> ArrivalCurve:
    """Until the target."""
    task, factors = silos()
    job = job_of(task, steps=40_000, lr=0.005, seed=seed)
    pace = pace_of(20, factors=factors, jitter=0.1, seed=seed)
    setting = {"evaluate_every": 5, "stop_loss": goal(task, 0.15)}
    return run(id, task, job, pace, setting, **knobs)


def reached(curve: ArrivalCurve) -> ArrivalCurve:
    assert curve.ended == "target", curve.ended
    return curve


@cache
def papaya_and_rival() -> tuple[ArrivalCurve, ArrivalCurve]:
    fast = reached(phone_run("papaya", buffer=100, concurrency=CONCURRENCY))
    return fast, reached(phone_run("fedavg-sync", active=1000, over_selection=0.3, by_samples=True))


@pytest.mark.xfail(
    strict=True,
    reason="23.7 times: a round waits for the 77th hundredth of 1,300 log-normal times, twice the median, while the "
    "fleet that never waits uploads 224 times a second; the published time gain (5) is below the one in uploads (8)",
)
def test_papaya_is_five_times_faster_than_rounds_within_a_factor_of_two():
    fast, rounds = papaya_and_rival()
    assert 2.5 <= rounds.time_s[-1] / fast.time_s[-1] <= 10


def test_papaya_uploads_eight_times_less_than_rounds_within_a_factor_of_two():
    fast, rounds = papaya_and_rival()
    assert 4 <= rounds.merged / fast.merged <= 16


SERVER_LR = (1.0, 3.0, 10.0)
MIX = (0.3, 1.0)
"""Each algorithm takes the best of them."""


def fewest(id: str, knob: str, **knobs) -> int:
    """Uploads to the target at the best value of a knob."""
    runs = [phone_run(id, **{knob: value}, **knobs) for value in (MIX if knob == "mix" else SERVER_LR)]
    return min(curve.merged for curve in runs if curve.ended == "target")


@pytest.mark.xfail(
    strict=True,
    reason="37 times (15 at a server rate of 1): neither noise nor lateness limits the server's step on a convex task, "
    "so the ratio goes towards cohort over buffer, 100",
)
def test_fedbuff_needs_a_third_of_the_uploads_of_rounds_within_a_factor_of_two():
    buffered = fewest("fedbuff", "server_lr", buffer=10, concurrency=1000)
    assert 3.3 / 2 <= fewest("fedavg-sync", "server_lr", active=1000) / buffered <= 3.3 * 2


@pytest.mark.xfail(
    strict=True, reason="240 times: with 1,000 active workers an upload is 990 steps late, and FedAsync mixes 3 % of it"
)
def test_fedbuff_needs_two_fifths_of_the_uploads_of_fedasync_within_a_factor_of_two():
    buffered = fewest("fedbuff", "server_lr", buffer=10, concurrency=1000)
    assert 2.5 / 2 <= fewest("fedasync", "mix", concurrency=1000) / buffered <= 2.5 * 2


SCALES = {
    "fedbuff": {"server_lr": (0.3, 1.0, 3.0, 10.0)},
    "fedasync": {"mix": (0.1, 0.3, 0.6, 1.0)},
    "fedasmu": {"mix": (1.0, 3.0, 10.0, 30.0)},
    "fedcompass": {"server_lr": (0.3, 1.0, 3.0, 10.0)},
    "fedavg-sync": {"server_lr": (0.3, 1.0, 3.0, 10.0)},
}
OF_SILOS = {
    "fedbuff": {"local_steps": 20, "buffer": 5},
    "fedasync": {"local_steps": 20},
    "fedasmu": {"local_steps": 20},
    "fedcompass": {"least_steps": 10, "most_steps": 50},
    "fedavg-sync": {"local_steps": 20},
}


def soonest(id: str, seed: int) -> ArrivalCurve:
    """The run that reaches the target first."""
    ((knob, values),) = SCALES[id].items()
    runs = [silo_run(id, seed, **{knob: value}, **OF_SILOS[id]) for value in values]
    return min((curve for curve in runs if curve.ended == "target"), key=lambda curve: curve.time_s[-1])


@pytest.mark.parametrize("seed", [1, 2])
def test_fedasmu_is_faster_than_fedasync_on_skewed_speeds(seed):
    assert soonest("fedasmu", seed).time_s[-1] < soonest("fedasync", seed).time_s[-1]


AVERAGES_MOVE_FASTER = pytest.mark.xfail(
    strict=True,
    reason="not resolved: on this convex task the largest server step is best, and a mean of five uploads can be "
    "scaled up (target in 135 s) where one upload is mixed in with a weight below 1 (FedASMU: 3,600 s) or an n-th "
    "(FedCompass: 614 s); a mixture of Gaussians with two classes a worker gives the same order",
)


@AVERAGES_MOVE_FASTER
@pytest.mark.parametrize("seed", [1, 2])
def test_fedasmu_is_faster_than_fedbuff_on_skewed_speeds(seed):
    assert soonest("fedasmu", seed).time_s[-1] < soonest("fedbuff", seed).time_s[-1]


@AVERAGES_MOVE_FASTER
@pytest.mark.parametrize("seed", [1, 2])
def test_fedcompass_is_faster_than_fedbuff_on_skewed_speeds(seed):
    assert soonest("fedcompass", seed).time_s[-1] < soonest("fedbuff", seed).time_s[-1]


@pytest.mark.parametrize("seed", [1, 2])
def test_fedcompass_is_less_late_than_fedbuff_and_less_idle_than_rounds(seed):
    """At server steps as they are published, so that all runs are many rounds long."""
    own, buffered, rounds = (
        silo_run(id, seed, server_lr=1.0, **OF_SILOS[id]) for id in ("fedcompass", "fedbuff", "fedavg-sync")
    )
    assert own.mean_staleness < buffered.mean_staleness
    assert own.idle_s.sum() / own.duration_s < rounds.idle_s.sum() / rounds.duration_s
