"""Slots: schedules, fragments, rings, losses, feedback; what is refused; seeds and the order of workers."""

import math

import numpy as np
import pytest
from learning_runs import ADAMW, ConstantGradient, built, job, quadratic, run

from windtunnel.errors import BadInput
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.compose import Composed, Every, ParameterExchange, fragment_entries, ring_mean
from windtunnel.learning.compressors.cast import Cast
from windtunnel.learning.compressors.quantised import Quantised
from windtunnel.learning.outer.average import Average

LOCK_STEP = [
    "co2",
    "dadao",
    "data_parallel",
    "des-loc",
    "detonation",
    "diloco",
    "eager-diloco",
    "gossip",
    "intellect-1",
    "local_adam",
    "local_sgd",
    "mt-dao",
    "noloco",
    "qsr",
    "sparseloco",
    "streaming-diloco",
    "swarm",
]
SHAPES = ((3, 4), (4,), (4, 2), (2,))
ENTRIES = 26


def task_of(workers: int = 4, noise: float = 0.3, seed: int = 1):
    g = np.random.default_rng(7)
    return quadratic(g.uniform(0.1, 1.0, (workers, ENTRIES)), g.normal(size=(workers, ENTRIES)), noise, seed)


def job_of(task, steps: int = 40, seed: int = 1, **more):
    return job(task, steps=steps, lr=0.02, inner=ADAMW, shapes=SHAPES, seed=seed, **more)


def small(id: str) -> dict:
    return {"period": 4} if "period" in ALGORITHMS.get(id).knobs else {}


@pytest.mark.parametrize(("period", "fragments"), [(6, 1), (6, 2), (6, 3), (7, 3), (100, 7), (5, 5)])
def test_every_fragment_once_a_round_spread_evenly(period, fragments):
    for lead in (0, 1):
        due = [Every(period, fragments, lead).due(step) for step in range(3 * period)]
        for a in (0, period):
            assert sorted(x for x in due[a : a + period] if x is not None) == list(range(fragments))
        at = [step for step, x in enumerate(due) if x is not None]
        assert max(np.diff(at), default=0) - min(np.diff(at), default=0) <= 1


def test_fragments_are_disjoint_and_slices_where_they_can_be():
    to = job_of(task_of())
    for fragments in (1, 2, 3, 4):
        entries = fragment_entries(to, fragments)
        covered = np.concatenate([np.arange(ENTRIES)[e] for e in entries])
        assert sorted(covered) == list(range(ENTRIES))
    assert all(isinstance(e, slice) for e in fragment_entries(to, 4))
    assert isinstance(fragment_entries(to, 2)[0], np.ndarray)


@pytest.mark.parametrize("period", [4, 6])
def test_fragments_of_a_round_that_end_together_would_be_diloco(period):
    """With constant gradients a fragment's path does not see the others': the streaming anchor lags alone."""
    task = ConstantGradient(1.0, SHAPES, 2)
    to = job(task, steps=period * 4, lr=0.1, shapes=SHAPES)
    whole = run(built("diloco", to, period=period), task, to)
    parts = run(built("diloco", to, period=period, fragments=2), task, to)
    last = np.concatenate([np.arange(12, 16), np.arange(24, 26)])  # the second fragment ends with the round
    assert parts.anchor[0, last] == pytest.approx(whole.anchor[0, last], rel=1e-13)


@pytest.mark.parametrize("id", LOCK_STEP)
def test_the_same_seed_gives_the_same_bits(id):
    ends = []
    for seed in (1, 1, 2):
        task = task_of(seed=seed)
        to = job_of(task, seed=seed)
        algorithm = built(id, to, **small(id))
        if id == "dadao":
            state, out = algorithm.start(task.initial()), np.empty((4, ENTRIES))
            for step in range(20):
                algorithm.own_gradients(task, state, step, out)
        else:
            state = run(algorithm, task, to)
        ends.append(algorithm.reported(state))
    assert (ends[0] == ends[1]).all() and (ends[0] != ends[2]).any()


@pytest.mark.parametrize("id", [x for x in LOCK_STEP if x not in ("dadao", "gossip", "noloco", "swarm", "intellect-1")])
def test_the_order_of_workers_changes_nothing(id):
    g = np.random.default_rng(7)
    a, b = g.uniform(0.1, 1.0, (4, ENTRIES)), g.normal(size=(4, ENTRIES))
    order = [2, 0, 3, 1]
    ends = []
    for rows in (list(range(4)), order):
        task = quadratic(a[rows], b[rows])
        to = job_of(task)
        algorithm = built(id, to, **small(id))
        ends.append(algorithm.reported(run(algorithm, task, to)))
    assert ends[0] == pytest.approx(ends[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("id", [x for x in LOCK_STEP if x != "dadao"])
def test_one_worker_alone_runs_and_sends_nothing(id):
    task = task_of(workers=1)
    to = job_of(task, steps=8)
    algorithm = built(id, to, **small(id))
    state = run(algorithm, task, to)
    assert np.isfinite(algorithm.reported(state)).all()
    assert not any(algorithm.messages(step) for step in range(8))


@pytest.mark.parametrize("id", ["diloco", "local_sgd", "co2", "eager-diloco", "sparseloco", "qsr"])
@pytest.mark.parametrize("via", ["all_reduce", "all_gather"])
def test_identity_in_the_compressor_slot_is_the_plain_method(id, via):
    task = task_of()
    to = job_of(task)
    plain = run(built(id, to, **small(id), compressor=None, feedback=0.0), task, to)
    same = run(built(id, to, **small(id), compressor={"cast": {"bits": 64}}, feedback=1.0, via=via), task, to)
    assert same.params == pytest.approx(plain.params, rel=1e-12)


def test_all_of_top_k_with_feedback_is_the_plain_method():
    task = task_of()
    to = job_of(task)
    plain = run(built("diloco", to, period=4), task, to)
    all_of_it = run(
        built("diloco", to, period=4, compressor={"topk": {"fraction": 1.0, "bits": 64}}, feedback=1.0), task, to
    )
    assert all_of_it.params == pytest.approx(plain.params, rel=1e-12)


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
def test_a_ring_of_identities_is_the_mean(workers):
    task = task_of(workers=workers)
    values = np.random.default_rng(1).normal(size=(workers, ENTRIES))
    found = ring_mean(values, Cast(64), job_of(task), 0)
    assert found[0] == pytest.approx(values.mean(axis=0), rel=1e-13)


def test_a_ring_in_eight_bits_loses_a_little_at_every_hop():
    values = np.random.default_rng(1).normal(size=(8, 4000))
    to = job_of(task_of(workers=8))
    eight = Quantised(bits=8, rounding="nearest", scale="max", block=0)
    ring = ring_mean(values, eight, to, 0)[0]
    gathered = eight.decoded(values, ((4000,),), to.draws, to.everyone, 0).mean(axis=0)
    exact = values.mean(axis=0)
    lost_ring, lost_gathered = (np.linalg.norm(x - exact) / np.linalg.norm(exact) for x in (ring, gathered))
    assert lost_gathered < lost_ring < 0.05


def test_feedback_sends_everything_in_the_end():
    task = ConstantGradient(1.0, SHAPES, 2)
    to = job(task, steps=400, lr=0.1, shapes=SHAPES)
    knobs = {"period": 1, "outer": "average", "outer_lr": 1.0}
    algorithm = built("diloco", to, **knobs, compressor={"topk": {"fraction": 0.1, "bits": 64}}, feedback=1.0)
    state = run(algorithm, task, to)
    moved = (task.initial() - state.anchor[0]).sum() + state.residual["parameters0"].mean(axis=0).sum()
    assert moved == pytest.approx(400 * 0.1 * ENTRIES, rel=1e-12)


def test_a_lost_difference_leaves_its_worker_where_it_is():
    task = task_of()
    to = job_of(task, steps=4)
    algorithm = built("diloco", to, period=4, drop=0.5)
    heard = algorithm._heard(3)
    assert 0 < heard.sum() < 4
    state = run(algorithm, task, to, steps=3)
    gradients = np.empty_like(state.params)
    task.gradients(state.params, to.everyone, np.full(4, 3), gradients)
    algorithm.step(state, gradients, 3)
    before = state.params.copy()
    algorithm.after_step(state, 3)
    assert (state.params[heard] == state.anchor).all()
    assert (state.params[~heard] == before[~heard]).all()
    moved = (task.initial() - before[heard]).mean(axis=0)
    assert state.anchor[0] == pytest.approx(task.initial() - 0.7 * 1.9 * moved, rel=1e-12)


def test_all_lost_changes_nothing():
    task = task_of()
    to = job_of(task, steps=8)
    alone, lost = (
        run(built("local_sgd", to, period=1000), task, to),
        run(built("diloco", to, period=4, drop=1.0), task, to),
    )
    assert (alone.params == lost.params).all() and (lost.anchor == task.initial()).all()


def test_sampled_workers_alone_count():
    task = task_of()
    to = job_of(task, steps=4)
    exchange = ParameterExchange(compressor=Cast(64), outer=Average(1.0), period=4, who=lambda job, r: np.array([1, 3]))
    algorithm = Composed(to, parameters=exchange)
    before = []
    state = run(algorithm, task, to, steps=3)
    gradients = np.empty_like(state.params)
    task.gradients(state.params, to.everyone, np.full(4, 3), gradients)
    algorithm.step(state, gradients, 3)
    before = state.params.copy()
    algorithm.after_step(state, 3)
    assert state.anchor[0] == pytest.approx(before[[1, 3]].mean(axis=0), rel=1e-12)
    assert algorithm.messages(3)[0].participants == (1, 3)


def test_several_messages_of_one_fragment_are_merged_in_their_order():
    task = ConstantGradient(1.0, SHAPES, 2)
    to = job(task, steps=12, lr=1.0, shapes=SHAPES)
    state = run(built("diloco", to, period=2, late=2, outer="average", outer_lr=1.0), task, to)
    # sent 2, and then from x = 1 − 2 on, always two more than what has come: 1, −1, −3 …
    assert len(set(state.anchor[0])) == 1 and np.isfinite(state.anchor).all()
    to4 = job(task, steps=4, lr=1.0, shapes=SHAPES)
    at4 = run(built("diloco", to4, period=2, late=2, outer="average", outer_lr=1.0), task, to4)
    assert at4.anchor[0, 0] == -1.0


@pytest.mark.parametrize(
    ("id", "knobs", "field", "says"),
    [
        ("diloco", {"compressor": "topk", "feedback": 0.9, "via": "all_reduce"}, "via", "do not add"),
        ("diloco", {"compressor": "topk"}, "feedback", "training stalls"),
        ("sparseloco", {"feedback": 0.0}, "feedback", "training stalls"),
        ("diloco", {"compressor": "float4", "via": "ring", "drop": 0.1}, "via", "every worker"),
        ("diloco", {"compressor": "topk", "feedback": 0.9, "via": "ring"}, "feedback", "over its hops"),
        ("diloco", {"compressor": "tpok"}, "compressor", "did you mean 'topk'"),
        ("diloco", {"compressor": {"topk": {"fracton": 0.1}}}, "compressor.topk.fracton", "did you mean 'fraction'"),
        ("diloco", {"compressor": 3}, "compressor", "must be the id"),
        ("diloco", {"fragments": 5}, "fragments", "4 tensors"),
        ("streaming-diloco", {"late": 101}, "late", "0 to 100"),
        ("eager-diloco", {"compressor": "float4", "via": "ring"}, "via", "own share"),
        ("gossip", {"graph": "hypercub"}, "graph", "did you mean 'hypercube'"),
        ("gossip", {"graph": "torus"}, "graph", "two factors"),
        ("dadao", {"graph": "hypercube"}, "graph", "power of two"),
        ("dadao", {"convexity": 2.0}, "convexity", "up to smoothness"),
        ("detonation", {"node": 2}, "node", "divide the 5 workers"),
        ("detonation", {"k": 5000}, "k", "4096 coefficients"),
        ("swarm", {"stages": 2}, "stages", "divide the 5 workers"),
        ("mt-dao", {"betas": (0.9, 0.99)}, "weights", "one weight for each of 2"),
        ("mt-dao", {"betas": ("a",)}, "betas", "must be 1 to 8 numbers"),
        ("mt-dao", {"betas": (0.9, 0.99), "weights": (0.9, 0.9)}, "weights", "a sum up to 1"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(id, knobs, field, says):
    to = job_of(task_of(workers=5))
    with pytest.raises(BadInput) as caught:
        built(id, to, **knobs)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"learning.algorithms.{id}.{field} = ") and says in lines[0]


def test_feedback_of_sampled_workers_is_refused():
    from windtunnel.learning.algorithms import _parts as parts
    from windtunnel.learning.compressors.topk import TopK

    problems = parts.problems_of("x")
    exchange = ParameterExchange(compressor=TopK(), outer=Average(1.0), feedback=0.9, who=lambda job, r: np.array([0]))
    parts.check_exchange(exchange, problems)
    assert [p.field for p in problems] == ["learning.algorithms.x.feedback"]
    assert "sampled" in str(next(iter(problems)))


@pytest.mark.parametrize("id", ["local_adam", "des-loc", "mt-dao"])
def test_moments_are_asked_of_an_optimizer_that_has_them(id):
    task = task_of()
    with pytest.raises(BadInput, match=rf"learning\.algorithms\.{id} = sgd: .*allowed: .*adamw"):
        built(id, job(task, steps=4, shapes=SHAPES))


def test_every_problem_at_once():
    to = job_of(task_of())
    with pytest.raises(BadInput) as caught:
        built("diloco", to, compressor="topk", via="all_reduce", fragments=9, late=500)
    assert len(caught.value.problems) == 4


def test_fragments_need_no_more_than_their_bytes():
    to = job_of(task_of())
    streaming = built("streaming-diloco", to, period=4, compressor=None)
    a_round = sum(m.nbytes(SHAPES) for step in range(4) for m in streaming.messages(step))
    assert a_round == 4.0 * ENTRIES == 4.0 * sum(map(math.prod, SHAPES))
