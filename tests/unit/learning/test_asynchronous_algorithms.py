"""Asynchronous algorithms: what their steps add up to, identities, groups, trees, failures."""

from __future__ import annotations

import numpy as np
import pytest
from arrival_runs import algorithm_of, built_task, job_of, pace_of, run

from windtunnel.errors import BadInput
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.lifl import AggregationTree
from windtunnel.learning.compose import Composed, GradientExchange, ParameterExchange
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.drivers.arrivals import ArrivalSetting, run_arrivals
from windtunnel.learning.drivers.lock_step import learn
from windtunnel.learning.drivers.outages import Outages
from windtunnel.learning.inner.adamw import AdamW
from windtunnel.learning.outer.delayed_nesterov import DelayedNesterov
from windtunnel.learning.outer.nesterov import Nesterov
from windtunnel.learning.randomness import Draws
from windtunnel.specs.run import FailureCause, FailureProfile

ASYNCHRONOUS = tuple(id for id, kind in ALGORITHMS.items() if kind.driver == "arrivals")


@pytest.fixture(scope="module")
def bowls():
    """Quadratics that differ between 8 workers, in float64."""
    return built_task("quadratic", 8, shift=1.0, curvature_spread=1.0, params=16)


def every_eight(id, **knobs):
    """Knobs with which an algorithm makes rounds of 8 steps, where it has such a knob."""
    own = ALGORITHMS.get(id).knobs
    return {name: 8 for name in ("local_steps", "period") if name in own} | knobs


# -- laws ----------------------------------------------------------------------------------------------------------


def outer_steps(outer, differences):
    """Where an anchor of one entry goes, and the momentum, from a momentum m of 1 (a second entry)."""
    anchor, state = np.zeros((1, 2)), {name: np.zeros((1, 2)) for name in outer.states}
    state["momentum"][0, 1] = 1.0
    for at, g in enumerate(differences):
        outer.step(anchor, np.array([[g, 0.0]]), state, at)
    return anchor[0]


def test_equal_pseudo_gradients_in_sequence_are_amplified_by_nesterov():
    """Theory 7: k = 4, Δ = −ν[(4 + 4β + 3β² + 2β³ + β⁴)g + β²(1 + β + β² + β³)m], 6.39 times a synchronous step."""
    nu, b = 0.7, 0.9
    by_g, by_m = outer_steps(Nesterov(nu, b), [1.0] * 4)
    assert by_g == pytest.approx(-nu * (4 + 4 * b + 3 * b**2 + 2 * b**3 + b**4), rel=1e-12)
    assert by_m == pytest.approx(-nu * b**2 * (1 + b + b**2 + b**3), rel=1e-12)
    assert by_g / outer_steps(Nesterov(nu, b), [1.0])[0] == pytest.approx(6.39, abs=0.005)


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_delayed_nesterov_makes_of_n_equal_arrivals_one_synchronous_step(n):
    """With c = 0 the n arrivals together move as one Nesterov step on their mean."""
    delayed = outer_steps(DelayedNesterov(0.7, 0.9, every=n), [1.0] * n)
    assert delayed == pytest.approx(outer_steps(Nesterov(0.7, 0.9), [1.0]), rel=1e-12)


def test_delayed_nesterov_spreads_the_momentum_evenly_at_one_nth():
    """c = 1/N: each arrival makes an N-th of the momentum's step; in all as much but for the momentum's own change."""
    anchor, state = np.zeros((1, 1)), {"momentum": np.ones((1, 1)), "gathered": np.zeros((1, 1))}
    outer, moved = DelayedNesterov(1.0, 0.9, every=4, spread=0.25), []
    for at in range(4):
        before = anchor.copy()
        outer.step(anchor, np.zeros((1, 1)), state, at)
        moved.append(float((before - anchor)[0, 0]))
    assert moved == pytest.approx([0.225, 0.225, 0.225, 0.225 * 0.9])


# -- identities ----------------------------------------------------------------------------------------------------


def test_equal_workers_in_delayed_nesterov_are_synchronous_diloco(bowls):
    job = job_of(bowls, steps=64, inner=AdamW(), lr=0.02)
    exchange = ParameterExchange(compressor=Cast(bits=64), outer=Nesterov(0.7, 0.9), period=8)
    plain = learn(Composed(job, parameters=exchange), bowls, job, 8)
    late = run("delayed-nesterov", bowls, job, period=8, bits=64, setting={"evaluate_every": 8})
    assert late.loss == pytest.approx(plain.loss, rel=1e-12)


def test_elastic_local_sgd_of_workers_that_live_is_diloco(bowls):
    job = job_of(bowls, steps=64, inner=AdamW(), lr=0.02)
    exchange = ParameterExchange(compressor=Cast(bits=64), outer=Nesterov(0.7, 0.9), period=8)
    plain = learn(Composed(job, parameters=exchange), bowls, job, 8)
    knobs = {"period": 8, "bits": 64, "outer_lr": 0.7, "outer_momentum": 0.9}
    elastic = run("elastic-local-sgd", bowls, job, pace_of(8, jitter=1.0), {"evaluate_every": 8}, **knobs)
    assert elastic.loss == pytest.approx(plain.loss, rel=1e-12)


def test_waiting_for_all_gradients_is_data_parallelism(bowls):
    job = job_of(bowls, steps=40)
    plain = learn(Composed(job, gradients=GradientExchange(compressor=Cast(bits=64))), bowls, job, 4)
    waiting = run("dbw", bowls, job, pace_of(8, exponential=True), {"evaluate_every": 4}, wait_for=8)
    assert waiting.loss == pytest.approx(plain.loss, rel=1e-12)


@pytest.mark.parametrize("id", ["fedcompass", "fedasmu", "papaya"])
def test_one_worker_alone_is_never_late(id):
    task = built_task("quadratic", 1, params=4)
    curve = run(id, task, job_of(task, steps=100), **every_eight(id, **({} if id != "papaya" else {"buffer": 1})))
    assert curve.mean_staleness == 0


# -- determinism ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ASYNCHRONOUS)
def test_same_seed_gives_the_same_bits(bowls, id):
    def bits():
        job = job_of(bowls, steps=40)
        pace = pace_of(8, factors=np.linspace(1, 4, 8), jitter=0.3)
        curve = run(id, bowls, job, pace, {"evaluate_every": 5}, **every_eight(id))
        return curve.order, curve.loss.tobytes(), curve.duration_s

    assert bits() == bits()


@pytest.mark.parametrize("id", ASYNCHRONOUS)
def test_algorithms_lower_the_loss_on_unequal_workers(id):
    task = built_task("quadratic", 8, params=16)
    job = job_of(task, steps=300)
    knobs = every_eight(id, **({"outer_lr": 0.05} if id == "async-diloco" else {}))
    curve = run(id, task, job, pace_of(8, factors=np.linspace(1, 4, 8), jitter=0.3), **knobs)
    assert curve.ended == "steps"
    assert curve.loss[-1] < 0.2 * curve.loss[0]


@pytest.mark.parametrize("id", ASYNCHRONOUS)
def test_bytes_are_rounds_times_the_encoding(bowls, id):
    """Uploads and downloads of the proxy have the bytes of the real encoding."""
    job = job_of(bowls, steps=40)
    algorithm = algorithm_of(id, job, **every_eight(id))
    down, up = (message.nbytes(bowls.shapes) for message in algorithm.rules.messages)
    compressor = algorithm.rules.upload or Cast(bits=32)
    row = np.zeros(16)
    assert len(compressor.encode(row, bowls.shapes, job.draws, 0, 0)) == up
    assert len(row.astype("<f4").tobytes()) == down
    curve = run(id, bowls, job, **every_eight(id))
    assert curve.bytes_up == curve.uploads * up


COMPRESSING = tuple(id for id in ASYNCHRONOUS if "compressor" in ALGORITHMS.get(id).knobs)


@pytest.mark.parametrize("id", COMPRESSING)
def test_compressed_uploads_have_the_bytes_of_their_encoding_and_feedback_makes_up_for_them(bowls, id):
    job = job_of(bowls, steps=400)
    knobs = every_eight(id, compressor={"topk": {"fraction": 0.125}}, feedback=1.0)
    if id == "async-diloco":
        knobs["outer_lr"] = 0.05
    row = np.linspace(-1, 1, 16)
    algorithm = algorithm_of(id, job, **knobs)
    nbytes = len(algorithm.rules.upload.encode(row, bowls.shapes, job.draws, 0, 0))
    curve = run(id, bowls, job, pace_of(8, jitter=0.2), **knobs)
    assert curve.bytes_up == curve.uploads * nbytes
    without = run(id, bowls, job, pace_of(8, jitter=0.2), **{**knobs, "feedback": 0.0, "may_stall": True})
    assert curve.loss[-1] - bowls.floor < without.loss[-1] - bowls.floor


@pytest.mark.parametrize("id", COMPRESSING)
def test_lossy_compressors_without_feedback_are_refused(bowls, id):
    with pytest.raises(BadInput, match="training stalls"):
        algorithm_of(id, job_of(bowls, steps=4), compressor="topk")


def test_feedback_of_sampled_clients_is_refused(bowls):
    with pytest.raises(BadInput, match="errors of long ago"):
        algorithm_of("fedbuff", job_of(bowls, steps=4), compressor="topk", feedback=1.0, concurrency=4)


# -- FedCompass ----------------------------------------------------------------------------------------------------


def test_workers_of_a_group_arrive_within_its_latest_time(bowls, monkeypatch):
    """Without jitter measured speeds are exact: each group's uploads lie within a step of its slowest."""
    job = job_of(bowls, steps=400)
    factors = np.array([1.0, 1.3, 1.7, 2.0, 2.4, 3.0, 3.7, 4.8])
    algorithm = algorithm_of("fedcompass", job, least_steps=10, most_steps=50)
    sizes, spans = [], []
    plain = type(algorithm)._closes

    def closes(self, server, number):
        group = self.groups[number]
        times = [upload.now_s for upload in group.uploads]
        sizes.append(len(times))
        spans.append(max(times) - min(times))
        assert max(times) <= group.latest_s
        assert len(times) == len(group.members)
        return plain(self, server, number)

    monkeypatch.setattr(type(algorithm), "_closes", closes)
    run_arrivals(algorithm, bowls, job, ArrivalSetting(pace=pace_of(8, factors=factors), evaluate_every=100))
    assert max(sizes) > 1
    assert max(spans) <= factors.max() + 1e-9


# -- FedASMU -------------------------------------------------------------------------------------------------------


def test_fresh_parameters_midway_change_what_a_worker_ends_at(bowls):
    job = job_of(bowls, steps=80)
    pace = {"pace": pace_of(8, factors=np.linspace(1, 4, 8))}
    without = run("fedasmu", bowls, job, **pace, local_steps=8, fetch_at=0.0)
    fresh = run("fedasmu", bowls, job, **pace, local_steps=8)
    assert fresh.bytes_down > without.bytes_down
    assert fresh.order == without.order
    assert fresh.loss[-1] != without.loss[-1]
    kept = run("fedasmu", bowls, job, **pace, local_steps=8, fresh_share=0.0)
    assert kept.loss == pytest.approx(without.loss, rel=1e-12)


def test_weights_of_fedasmu_follow_the_gradient_of_the_loss():
    """One worker that always moves downhill: more of it is better, so its weight grows."""
    task = built_task("quadratic", 1, params=4, noise=0.0)
    job = job_of(task, steps=200, lr=0.01)
    algorithm = algorithm_of("fedasmu", job, local_steps=4, weight_lr=0.01, fetch_at=0.0)
    run_arrivals(algorithm, task, job, ArrivalSetting(pace=pace_of(1), evaluate_every=50))
    assert algorithm.weights[0].scale > 1.0
    assert algorithm.weights[0].floor > 0.0


# -- DBW -----------------------------------------------------------------------------------------------------------


def test_gradients_that_come_late_are_thrown_away_or_interrupted(bowls):
    job = job_of(bowls, steps=60)
    pace = {"pace": pace_of(8, exponential=True)}
    finish = run("dbw", bowls, job, **pace, wait_for=5)
    interrupt = run("dbw", bowls, job, **pace, wait_for=5, late="interrupt")
    assert finish.dropped > 0
    assert finish.given_up == 0
    assert interrupt.dropped == 0
    assert interrupt.given_up == 3 * interrupt.server_steps[-1]


def test_dynamic_backup_workers_refuse_inner_states(bowls):
    with pytest.raises(BadInput, match="without momentum"):
        algorithm_of("dbw", job_of(bowls, steps=4, inner=AdamW()))


# -- LIFL ----------------------------------------------------------------------------------------------------------


def tree(plane, **knobs):
    """A tree of binary aggregators with warm runtimes."""
    rates = {"copy_bytes_per_s": 4e9, "add_bytes_per_s": 8e9, "cold_start_s": 1.0, "warm": True}
    return AggregationTree(plane=plane, fan_in=2, **{**rates, **knobs})


def test_sum_of_one_hop_is_copies_and_additions():
    there_s, cpu_s = tree("shared-memory").rounds([0.0, 0.0], 4e9, first_round=False)
    assert there_s == pytest.approx(2 * (1.0 + 0.5))
    assert cpu_s == pytest.approx(3.0)


def test_shared_memory_is_sooner_and_cheaper_than_servers_and_brokers():
    """LIFL's order at equal clients: completion and CPU seconds below serverful, which is below broker and side-car."""
    arrivals, nbytes = np.linspace(0.0, 10.0, 64).tolist(), 1e8
    sums = {p: tree(p).rounds(arrivals, nbytes, first_round=False) for p in ("shared-memory", "serverful", "broker")}
    assert sums["shared-memory"][0] < sums["serverful"][0] < sums["broker"][0]
    assert sums["shared-memory"][1] < min(sums["serverful"][1], sums["broker"][1])


def test_a_function_that_is_not_there_starts_first():
    cold = tree("shared-memory", warm=False).rounds([0.0, 0.0], 4e9, first_round=False)
    assert cold[0] == pytest.approx(4.0)


def test_learning_of_lifl_is_that_of_rounds(bowls):
    job = job_of(bowls, steps=40)
    plain = run("fedavg-sync", bowls, job, local_steps=8)
    trees = run("lifl", bowls, job, local_steps=8, setting={"shapes": ((10**8,),)})
    assert trees.loss.tobytes() == plain.loss.tobytes()
    assert trees.duration_s > plain.duration_s
    assert trees.server_cpu_s > 0


# -- failures and late joiners -------------------------------------------------------------------------------------


def failing(per_day: float, **knobs) -> FailureProfile:
    """A profile whose workers fail so often a day."""
    cause = FailureCause(name="node", per_1000_node_days=1000.0 * per_day, detect_s=2.0, diagnose_s=1.0)
    return FailureProfile(name="test", causes=(cause,), **knobs)


def test_failures_come_at_the_profile_s_rate_and_repairs_take_their_mean():
    outages = Outages(failing(100.0, repair_s=500.0), Draws(1))
    seen = [outages.next(worker, number) for worker in range(50) for number in range(40)]
    assert np.mean([o.after_s for o in seen]) == pytest.approx(864.0, rel=0.05)
    assert {o.noticed_s for o in seen} == {2.0}
    assert np.mean([o.back_s for o in seen]) == pytest.approx(503.0, rel=0.05)


def test_nodes_differ_in_reliability_by_the_profile_s_variation():
    outages = Outages(failing(1.0, node_variation=0.5), Draws(1))
    factors = np.array([outages.factor(worker, 1) for worker in range(3000)])
    assert factors.mean() == pytest.approx(1.0, rel=0.03)
    assert factors.std() == pytest.approx(0.5, rel=0.05)
    bad = Outages(failing(1.0, bad_node_share=0.2, bad_node_factor=6.0), Draws(1))
    first, later = (np.array([bad.factor(worker, n) for worker in range(3000)]) for n in (0, 1))
    assert first.mean() == pytest.approx(2.0, rel=0.05)
    assert set(later) == {1.0}


@pytest.mark.parametrize("id", ASYNCHRONOUS)
def test_workers_fail_and_come_back(bowls, id):
    """No algorithm stands still; what a failure took is booked as down time."""
    job = job_of(bowls, steps=300)
    outages = Outages(failing(300.0, repair_s=60.0), job.draws)
    curve = run(id, bowls, job, pace_of(8, jitter=0.2), {"outages": outages}, **every_eight(id))
    assert curve.failures > 5
    assert curve.given_up > 0
    assert curve.ended == "steps"
    total = curve.compute_s + curve.transfer_s + curve.idle_s + curve.down_s
    assert total == pytest.approx(np.full(8, curve.duration_s))
    assert curve.down_s.sum() > 0


def test_dead_workers_lose_their_states_and_joiners_copy_the_anchor(bowls):
    """A worker's Adam moments die with it: its first round after a repair starts at age 0 from the newest anchor."""
    from windtunnel.learning.drivers import rounds

    job = job_of(bowls, steps=200, inner=AdamW())
    seen = []
    plain = rounds.Stack.compute

    def compute(stack, segments):
        seen.extend((s.worker, s.age, s.inner is None) for s in segments)
        return plain(stack, segments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds.Stack, "compute", compute)
        outages = Outages(failing(200.0, repair_s=60.0), job.draws)
        curve = run("elastic-local-sgd", bowls, job, setting={"outages": outages}, period=8)
    fresh = [age for _, age, new in seen if new]
    assert set(fresh) == {0}
    assert len(fresh) > 8
    assert len(fresh) <= 8 + curve.failures
    assert all(age > 0 for _, age, new in seen if not new)


def test_what_feedback_kept_dies_with_its_worker(bowls):
    from windtunnel.learning.drivers import arrivals

    job = job_of(bowls, steps=40)
    knobs = {"local_steps": 8, "buffer": 2, "compressor": {"topk": {"fraction": 0.125}}, "feedback": 1.0}
    outages = Outages(failing(1.0), job.draws)
    setting = ArrivalSetting(pace=pace_of(8), evaluate_every=10, outages=outages)
    going = arrivals._Run(algorithm_of("fedbuff", job, **knobs), bowls, job, setting)
    going.run()
    assert all(worker.kept is not None for worker in going.workers)
    going.fails(3, 0)
    assert [worker.kept is None for worker in going.workers] == [number == 3 for number in range(8)]


def test_late_joiners_take_part_from_when_they_come(bowls):
    job = job_of(bowls, steps=80)
    joins = np.array([0.0] * 4 + [40.0] * 4)
    outages = Outages(None, job.draws, joins_s=joins)
    curve = run("elastic-local-sgd", bowls, job, setting={"outages": outages}, period=8)
    assert curve.down_s == pytest.approx(joins)
    assert curve.compute_s[0] > curve.compute_s[7] > 0


def test_a_round_does_not_wait_for_the_dead(bowls):
    """The server hears of a failure after `detect_s`, and closes the round with those that came."""
    job = job_of(bowls, steps=40)

    class Once:
        """Worker 3 fails 4 s into its life and never comes back."""

        def joins(self, worker):
            return 0.0

        def next(self, worker, number):
            from windtunnel.learning.drivers.outages import Outage

            return Outage(4.0, 20.0, 1e9) if worker == 3 and not number else None

    curve = run("fedavg-sync", bowls, job, setting={"outages": Once()}, local_steps=8)
    assert curve.failures == 1
    assert curve.given_up == 1
    assert curve.duration_s == pytest.approx(24.0 + 5 * 8.0)
