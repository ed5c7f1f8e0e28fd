"""The arrival-driven driver: identities with lock-step runs, laws of staleness, what is counted, determinism."""

from __future__ import annotations

import numpy as np
import pytest
from arrival_runs import algorithm_of, built_task, job_of, pace_of, run
from eager_fedbuff import eager_fedbuff

from windtunnel.errors import ProblemList
from windtunnel.learning.compose import Composed, ParameterExchange
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.drivers.arrivals import ArrivalSetting, run_arrivals
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.drivers.pace import lognormal_factors
from windtunnel.learning.drivers.transfers import IndependentLinks
from windtunnel.learning.outer.average import Average
from windtunnel.learning.randomness import Draws


@pytest.fixture(scope="module")
def bowls():
    """Quadratics that differ between 12 workers, in float64."""
    return built_task("quadratic", 12, shift=1.0, curvature_spread=2.0, params=20)


@pytest.mark.parametrize(
    ("id", "knobs"), [("fedavg-sync", {}), ("fedbuff", {"buffer": 12}), ("fedbuff", {"buffer": 12, "concurrency": 12})]
)
def test_equal_workers_all_active_are_federated_averaging_in_lock_step(bowls, id, knobs):
    job = job_of(bowls, steps=60)
    exchange = ParameterExchange(compressor=Cast(bits=64), outer=Average(), period=5)
    plain = learn(Composed(job, parameters=exchange), bowls, job, 5)
    clocked = run(id, bowls, job, local_steps=5, setting={"evaluate_every": 5}, **knobs)
    assert clocked.steps.tolist() == plain.steps.tolist()
    assert clocked.loss == pytest.approx(plain.loss, rel=1e-12)
    assert clocked.mean_staleness == 0
    assert clocked.time_s == pytest.approx(plain.steps.astype(float), rel=1e-12)


@pytest.mark.parametrize("buffer", [1, 3, 10])
def test_mean_staleness_of_equal_exponential_workers(buffer):
    """Theory: between a worker's fetch and its arrival n − 1 others arrive in the mean, (n − 1)/K server steps."""
    n, rounds = 20, 500
    task = built_task("quadratic", n, params=2, noise=0.0)
    curve = run(
        "fedbuff",
        task,
        job_of(task, steps=rounds),
        pace_of(n, exponential=True),
        setting={"evaluate_every": rounds},
        local_steps=1,
        buffer=buffer,
    )
    assert curve.merged == n * rounds
    assert curve.mean_staleness == pytest.approx((n - 1) / buffer, rel=0.02)


def test_round_of_the_first_m_takes_the_order_statistic():
    """Theory: the k-th of n exponential arrivals comes at (H_n − H_{n−k}) means."""
    n, k, rounds = 20, 15, 2000
    task = built_task("quadratic", n, params=2, noise=0.0)
    job = job_of(task, steps=rounds)
    curve = run(
        "fedavg-sync",
        task,
        job,
        pace_of(n, exponential=True),
        setting={"evaluate_every": rounds},
        local_steps=1,
        active=k,
        over_selection=n / k - 1,
    )
    law = sum(1 / i for i in range(n - k + 1, n + 1))
    assert curve.server_steps[-1] == rounds
    assert curve.duration_s / rounds == pytest.approx(law, rel=0.02)
    assert curve.given_up == rounds * (n - k)


def test_same_seed_gives_the_same_bits_and_another_does_not(bowls):
    def bits(seed):
        job = job_of(bowls, steps=40, seed=seed)
        pace = pace_of(12, exponential=True, seed=seed)
        curve = run("fedbuff", bowls, job, pace, local_steps=4, buffer=3, concurrency=6)
        return curve.order, curve.loss.tobytes(), curve.time_s.tobytes()

    assert bits(1) == bits(1)
    assert bits(1)[0] != bits(2)[0]


def test_rows_of_a_block_and_order_of_workers_change_nothing(bowls, monkeypatch):
    """However many rounds are computed together, and in whatever order they are handed over, bits stay the same."""
    from windtunnel.learning.drivers import rounds

    job = job_of(bowls, steps=40)
    pace = {"pace": pace_of(12, exponential=True)}
    together = run("fedbuff", bowls, job, **pace, local_steps=4, buffer=3)
    plain = rounds.Stack.compute
    monkeypatch.setattr(rounds.Stack, "compute", lambda stack, segments: plain(stack, segments[::-1]))
    monkeypatch.setattr(rounds, "BLOCK_BYTES", 0)
    backwards = run("fedbuff", bowls, job, **pace, local_steps=4, buffer=3)
    assert together.loss.tobytes() == backwards.loss.tobytes()
    assert together.order == backwards.order


def test_sampled_workers_are_the_same_whoever_is_listed_first():
    from windtunnel.learning.participation.sample import Sample

    draws = Draws(3)
    few = Sample(10)
    forth, back = set(range(1000)), set(range(999, -1, -1))
    assert few.choose(forth, 1000, 10, 7, draws) == few.choose(back, 1000, 10, 7, draws)
    seen = np.bincount([w for c in range(3000) for w in few.choose(forth, 1000, 10, c, draws)], minlength=1000)
    assert abs(seen.mean() - 30) < 1e-9
    assert seen.std() == pytest.approx(np.sqrt(30 * 0.99), rel=0.1)
    ones = np.bincount([few.choose(forth, 1000, 1, c, draws)[0] for c in range(30000)], minlength=1000)
    assert ones.std() == pytest.approx(np.sqrt(30), rel=0.1)


def test_bytes_and_seconds_of_messages_are_counted(bowls):
    job = job_of(bowls, steps=20)
    links = IndependentLinks(down_bytes_per_s=400.0, up_bytes_per_s=100.0, latency_s=0.5)
    curve = run("fedavg-sync", bowls, job, local_steps=5, setting={"transfers": links, "shapes": ((100,),)})
    assert curve.bytes_up == curve.bytes_down == 4 * 12 * 400
    assert curve.uploads == 48
    assert curve.duration_s == pytest.approx(4 * (1.5 + 5.0 + 4.5))
    assert curve.transfer_s == pytest.approx(np.full(12, 24.0))
    assert curve.utilisation == pytest.approx(np.full(12, 20 / 44))


def test_slow_workers_are_those_with_most_data_where_asked():
    samples = np.array([5.0, 100.0, 20.0, 1.0])
    factors = lognormal_factors(4, 1.0, Draws(1), samples)
    assert np.argsort(factors).tolist() == np.argsort(samples).tolist()
    assert sorted(factors) == sorted(lognormal_factors(4, 1.0, Draws(1)))


def test_rounds_that_always_time_out_end_the_run(bowls):
    job = job_of(bowls, steps=20)
    curve = run("fedbuff", bowls, job, local_steps=5, timeout_s=1.0)
    assert curve.ended == "starved"
    assert curve.uploads == 0


def test_a_late_upload_is_thrown_away_beyond_the_bound(bowls):
    job = job_of(bowls, steps=40)
    curve = run("fedbuff", bowls, job, pace_of(12, exponential=True), local_steps=4, buffer=1, max_staleness=5)
    assert curve.dropped > 0
    assert len(curve.staleness) == 6


def test_algorithm_is_built_anew_by_start(bowls):
    """A run leaves nothing behind in its algorithm."""
    job = job_of(bowls, steps=30)
    algorithm = algorithm_of("fedbuff", job, local_steps=4, buffer=7)
    setting = ArrivalSetting(pace=pace_of(12, exponential=True), evaluate_every=10)
    first = run_arrivals(algorithm, bowls, job, setting)
    assert first.loss.tobytes() == run_arrivals(algorithm, bowls, job, setting).loss.tobytes()


@pytest.mark.parametrize(("buffer", "latency_s"), [(1, 0.0), (3, 0.0), (5, 0.7)])
def test_rounds_computed_together_are_those_computed_one_by_one(bowls, buffer, latency_s):
    """Against a plain twin that computes each round when it is fetched."""
    job = job_of(bowls, steps=60)
    pace = pace_of(12, factors=np.linspace(1.0, 3.0, 12), jitter=0.5)
    plain = eager_fedbuff(bowls, pace, workers=12, steps=60, local_steps=4, buffer=buffer, lr=0.05, latency_s=latency_s)
    setting = {"transfers": IndependentLinks(latency_s=latency_s), "evaluate_every": 1}
    clocked = run("fedbuff", bowls, job, pace, setting, local_steps=4, buffer=buffer)
    by_version = {version: (time_s, loss) for time_s, version, loss in plain}
    assert len(clocked.loss) > 30
    for time_s, version, loss in zip(clocked.time_s, clocked.server_steps, clocked.loss, strict=True):
        assert by_version[int(version)] == pytest.approx((time_s, loss), rel=1e-12)


def test_sampled_rounds_ask_the_clients_that_lock_step_averaging_asks():
    """Without noise of batches, whose draws follow each driver's own count of steps."""
    from windtunnel.learning.algorithms import ALGORITHMS
    from windtunnel.techniques.knobs import with_defaults

    task = built_task("quadratic", 12, shift=1.0, params=20, noise=0.0)
    job = job_of(task, steps=60)
    kind = ALGORITHMS.get("fedavg")
    problems = ProblemList()
    knobs = with_defaults(kind.knobs, {"local_steps": 5, "active": 4}, "fedavg", problems)
    assert not problems
    plain = learn(kind.build(job, knobs), task, job, 5)
    clocked = run("fedavg-sync", task, job, pace_of(12, jitter=0.5), {"evaluate_every": 5}, local_steps=5, active=4)
    assert clocked.loss == pytest.approx(plain.loss, rel=1e-12)
