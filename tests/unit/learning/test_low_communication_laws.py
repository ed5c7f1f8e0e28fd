"""Low-communication algorithms against closed forms of quadratics (theory tests 1, 2, 3, 7, 8, 10, 11 and 12)."""

from math import pi, sin, sqrt

import numpy as np
import pytest
from learning_runs import ADAMW, ConstantGradient, built, job, quadratic, run

from windtunnel.learning.mixing import GRAPHS
from windtunnel.learning.mixing._matrices import metropolis, second_eigenvalue
from windtunnel.learning.outer.nesterov import Nesterov

UNEQUAL = np.array([[0.3, 1.0, 0.7], [0.9, 0.2, 0.5], [0.6, 0.8, 0.1], [0.4, 0.5, 1.0]])
OPTIMA = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, 2.0], [-1.0, 0.5, 1.5], [2.0, 1.0, -1.0]])


def local_sgd_fixed_point(a: np.ndarray, b: np.ndarray, lr: float, period: int) -> np.ndarray:
    """(I − ⟨(I−ηA_i)^H⟩)⁻¹ ⟨(I − (I−ηA_i)^H) b_i⟩, diagonal."""
    kept = (1.0 - lr * a) ** period
    return ((1.0 - kept) * b).mean(axis=0) / (1.0 - kept.mean(axis=0))


@pytest.mark.parametrize("period", [1, 2, 8, 50])
def test_local_sgd_ends_at_its_fixed_point(period):
    task = quadratic(UNEQUAL, OPTIMA)
    to = job(task, steps=period * (4000 // period + 1), lr=0.2)
    state = run(built("local_sgd", to, period=period), task, to)
    wanted = local_sgd_fixed_point(UNEQUAL, OPTIMA, 0.2, period)
    assert state.anchor[0] == pytest.approx(wanted, abs=2e-15, rel=1e-14)


@pytest.mark.parametrize("period", [2, 16])
def test_equal_curvature_has_no_bias(period):
    task = quadratic(np.tile(UNEQUAL[0], (4, 1)), OPTIMA)
    to = job(task, steps=4000, lr=0.2)
    state = run(built("local_sgd", to, period=period), task, to)
    assert state.anchor[0] == pytest.approx(OPTIMA.mean(axis=0), abs=1e-14)


@pytest.mark.parametrize("period", [1, 10])
def test_variance_at_syncs_does_not_see_the_period(period):
    lr, a, sigma, n, entries = 0.3, 0.5, 0.5, 4, 20_000
    task = quadratic(np.full((n, entries), a), 0.0, noise=sigma, start=0.0)
    to = job(task, steps=40, lr=lr)
    state = run(built("local_sgd", to, period=period), task, to)
    law = lr**2 * sigma**2 / n / (1.0 - (1.0 - lr * a) ** 2)
    assert state.anchor.var() == pytest.approx(law, rel=4.0 * sqrt(2.0 / entries))


def test_distance_to_the_optimum_grows_with_rate_and_period():
    best = (UNEQUAL * OPTIMA).mean(axis=0) / UNEQUAL.mean(axis=0)
    task = quadratic(UNEQUAL, OPTIMA, start=0.0)
    lr, found = 0.001, []
    for period in (2, 4, 8, 16):
        to = job(task, steps=80_000, lr=lr)
        assert local_sgd_fixed_point(UNEQUAL, OPTIMA, lr, period)[0] != best[0]
        far = local_sgd_fixed_point(UNEQUAL, OPTIMA, lr, period) - best
        if period == 16:  # the closed form is the run's own end
            state = run(built("local_sgd", to, period=period), task, to)
            assert state.anchor[0] - best == pytest.approx(far, rel=1e-3)
        found.append(np.linalg.norm(far))
    assert np.array(found) / found[0] == pytest.approx([1.0, 3.0, 7.0, 15.0], rel=0.005)


@pytest.mark.parametrize(
    ("graph", "workers", "wanted"),
    [
        ("ring", 16, 1 / 3 + 2 / 3 * np.cos(2 * pi / 16)),
        ("torus", 16, 0.6),
        ("hypercube", 16, 0.6),
        ("complete", 16, 0.0),
    ],
)
def test_gossip_contracts_by_the_second_eigenvalue(graph, workers, wanted):
    weights = metropolis(GRAPHS.get(graph).edges(workers), workers)
    assert second_eigenvalue(weights) == pytest.approx(wanted, abs=1e-12)
    assert weights.sum(axis=0) == pytest.approx(1.0) and weights.sum(axis=1) == pytest.approx(1.0)
    task = quadratic(np.ones((workers, 1)), 0.0)
    to = job(task, steps=3)
    gossip = built("gossip", to, graph=graph, rounds=2, period=1)
    state = gossip.start(task.initial())
    slow = np.linalg.eigh(weights)[1][:, np.argsort(np.abs(np.linalg.eigvalsh(weights)))[-2]]
    state.params[:, 0] = 5.0 + slow
    gossip.after_step(state, 0)
    assert np.linalg.norm(state.params[:, 0] - 5.0) == pytest.approx(abs(wanted) ** 2, abs=1e-12)
    assert state.params.mean() == pytest.approx(5.0 + slow.mean(), abs=1e-12)


def test_random_pairs_contract_as_their_law():
    n, entries, rounds = 8, 400, 6
    task = quadratic(np.ones((n, entries)), 0.0)
    to = job(task, steps=rounds)
    ratios = []
    for seed in range(60):
        to = job(task, steps=rounds, seed=seed)
        noloco = built("noloco", to, period=1, outer_lr=1.0, outer_momentum=0.0)
        state = noloco.start(task.initial())
        state.params[:] = state.anchor[:] = np.random.default_rng(seed).normal(size=(n, entries))
        for step in range(rounds):
            before = ((state.anchor - state.anchor.mean(axis=0)) ** 2).sum()
            noloco.after_step(state, step)
            ratios.append(((state.anchor - state.anchor.mean(axis=0)) ** 2).sum() / before)
            if ratios[-1] == 0.0:
                ratios.pop()
    spread = np.std(ratios) / sqrt(len(ratios))
    assert np.mean(ratios) == pytest.approx(0.5 * (1 - 1 / (n - 1)), abs=4 * spread)
    assert spread < 0.01


def test_equal_pseudo_gradients_in_sequence():
    beta, nu, g, m = 0.9, 0.7, 0.31, -0.2
    outer, anchor, state = Nesterov(nu, beta), np.array([[2.0]]), {"momentum": np.array([[m]])}
    for step in range(4):
        outer.step(anchor, np.array([[g]]), state, step)
    powers = beta ** np.arange(5)
    factor = 4 + 4 * beta + 3 * beta**2 + 2 * beta**3 + beta**4
    law = -nu * (factor * g + beta**2 * powers[:4].sum() * m)
    assert anchor[0, 0] - 2.0 == pytest.approx(law, rel=1e-13)
    assert factor / (1 + beta) == pytest.approx(6.39, abs=0.005)


@pytest.mark.parametrize(("late", "bound"), [(1, 1.0), (4, 0.347), (16, 0.095)])
def test_delayed_sgd_is_stable_up_to_its_bound(late, bound):
    law = 2.0 * sin(pi / (2 * (2 * late + 1)))
    assert law == pytest.approx(bound, abs=5e-4)
    ends = []
    for factor in (0.97, 1.03):
        task = quadratic([[1.0], [1.0]], 0.0)
        steps = 400 * (2 * late + 1)
        to = job(task, steps=steps, lr=factor * law)
        state = run(
            built("eager-diloco", to, mode="delayed", rounds=late, period=1, outer="average", outer_lr=1.0), task, to
        )
        ends.append(abs(state.anchor[0, 0]))
    assert ends[0] < 1e-2 and ends[1] > 1e2


@pytest.mark.parametrize(("period", "radius"), [(1, 0.945), (10, 0.916), (100, 0.708), (500, 0.524)])
def test_spectral_radius_of_diloco(period, radius):
    task = quadratic([[1.0], [1.0]], 0.0)
    rounds = 12
    to = job(task, steps=period * rounds, lr=0.01)
    anchors: list[float] = [1.0]

    def seen(state, step):
        if (step + 1) % period == 0:
            anchors.append(float(state.anchor[0, 0]))

    run(built("diloco", to, period=period), task, to, seen=seen)
    x = np.array(anchors)
    p, q = np.linalg.lstsq(np.stack([x[1:-1], x[:-2]], axis=1), x[2:], rcond=None)[0]
    assert np.abs(np.roots([1.0, -p, -q])).max() == pytest.approx(radius, abs=6e-4)


def test_period_one_of_plain_sgd_is_minibatch_sgd():
    task = quadratic(UNEQUAL, OPTIMA, noise=0.3)
    to = job(task, steps=50, lr=0.1)
    local, parallel = (
        run(built(id, to, **knobs), task, to) for id, knobs in (("local_sgd", {"period": 1}), ("data_parallel", {}))
    )
    assert local.params == pytest.approx(parallel.params, rel=1e-13, abs=1e-15)


def test_one_worker_without_momentum_is_lookahead():
    task = quadratic(UNEQUAL[:1], OPTIMA[:1], noise=0.3)
    to = job(task, steps=40, lr=0.1)
    state = run(built("diloco", to, period=5, outer_momentum=0.0, outer_lr=0.5), task, to)
    slow, fast, gradient = task.initial(), task.initial()[None, :], np.empty((1, 3))
    for step in range(40):
        task.gradients(fast, to.everyone, np.array([step]), gradient)
        fast = fast - 0.1 * gradient
        if (step + 1) % 5 == 0:
            slow = slow + 0.5 * (fast[0] - slow)
            fast = slow[None, :].copy()
    assert state.anchor[0] == pytest.approx(slow, rel=1e-13)


@pytest.mark.parametrize("inner", [None, ADAMW])
@pytest.mark.parametrize(
    ("id", "knobs"),
    [
        ("detonation", {"replicator": "full", "node": 2}),
        ("swarm", {"stages": 2}),
        ("swarm", {"stages": 1}),
    ],
)
def test_exact_gradients_are_those_of_data_parallelism(id, knobs, inner):
    task = quadratic(UNEQUAL, OPTIMA, noise=0.3)
    to = job(task, steps=60, lr=0.05, inner=inner)
    found, wanted = run(built(id, to, **knobs), task, to), run(built("data_parallel", to), task, to)
    assert found.params == pytest.approx(wanted.params, rel=1e-12, abs=1e-12)


def test_demo_that_sends_all_coefficients_is_signed_data_parallelism():
    shapes = ((4, 6), (5,))
    curvature = np.linspace(0.2, 1.0, 29) * np.ones((4, 1))
    task = quadratic(curvature, np.random.default_rng(1).normal(size=(4, 29)))
    to = job(task, steps=30, lr=0.05, shapes=shapes)
    state = run(built("detonation", to, chunk=3, k=9, sign=False, lr_in_momentum=False), task, to)
    wanted = run(built("data_parallel", to), task, to)
    assert state.params == pytest.approx(wanted.params, rel=1e-12, abs=1e-12)
    assert np.abs(state.residual["momentum"]).max() < 1e-12


def test_demo_keeps_what_it_does_not_send():
    shapes = ((4, 6), (5,))
    task = ConstantGradient(0.0, shapes, 2)
    to = job(task, steps=1, lr=1.0)
    demo = built("detonation", to, chunk=3, k=2, decay=0.5)
    state = demo.start(task.initial())
    given = np.random.default_rng(2).normal(size=(2, 29))
    demo.before_step(state, given.copy(), 0)
    kept = state.residual["momentum"]
    sent = given - kept
    assert (sent * kept).sum() == pytest.approx(0.0, abs=1e-12)  # coefficients of an orthonormal basis
    assert 0.0 < np.linalg.norm(kept) < np.linalg.norm(given)


def test_mt_dao_with_one_fast_momentum_is_local_adam():
    task = quadratic(UNEQUAL, OPTIMA, noise=0.3)
    to = job(task, steps=60, lr=0.02, inner=ADAMW)
    found = run(built("mt-dao", to, betas=(0.9,), weights=(1.0,), period=5), task, to)
    wanted = run(built("local_adam", to, period=5), task, to)
    assert found.params == pytest.approx(wanted.params, rel=1e-12)


def test_des_loc_with_one_period_is_local_adam():
    task = quadratic(UNEQUAL, OPTIMA, noise=0.3)
    to = job(task, steps=60, lr=0.02, inner=ADAMW)
    found = run(built("des-loc", to, period=6, period_m=6, period_v=6, clip=0.0), task, to)
    assert (found.params == run(built("local_adam", to, period=6), task, to).params).all()


def test_des_loc_cuts_gradients_entry_by_entry():
    task = ConstantGradient(5.0, ((3,),), 2)
    to = job(task, steps=4, lr=0.1, inner=ADAMW)
    cut, small = run(built("des-loc", to, clip=1.0), task, to), ConstantGradient(1.0, ((3,),), 2)
    assert (cut.inner["m"] == run(built("des-loc", to, clip=0.0), small, to).inner["m"]).all()


def test_qsr_is_local_sgd_while_the_rate_is_high_and_ends_with_the_run():
    from windtunnel.learning.algorithms.qsr import rounds
    from windtunnel.learning.inner.base import LearningRate

    lr = LearningRate(0.008, warmup_steps=100, decay="cosine", final=0.0, steps=3000)
    found = rounds(lr, 3000, alpha=0.0175, base=4)
    assert sum(found) == 3000 and found[0] == 4 and min(found[:-1]) >= 4
    starts = np.cumsum([0, *found[:-1]])
    for start, length in zip(starts[:-1], found[:-1], strict=True):
        want = 4 if start < 100 else max(int((0.0175 / lr.at(int(start))) ** 2), 4)
        assert length == want
    task = quadratic(UNEQUAL, OPTIMA, noise=0.3)
    to = job(task, steps=64, lr=0.1)
    rule, fixed = (
        run(built(id, to, **k), task, to)
        for id, k in (("qsr", {"alpha": 0.1, "base": 4}), ("local_sgd", {"period": 4}))
    )
    assert (rule.params == fixed.params).all()


def test_co2_uses_the_mean_of_the_round_before():
    task = ConstantGradient(1.0, ((1,),), 2)
    to = job(task, steps=6, lr=1.0)
    knobs = {"period": 2, "outer_lr": 1.0, "outer_momentum": 0.5}
    ends = {}
    for against in ("anchor_now", "anchor_then"):
        seen: list[float] = []
        run(
            built("co2", to, **knobs, difference_to=against),
            task,
            to,
            seen=lambda s, t, seen=seen: seen.append(float(s.anchor[0, 0])) if t % 2 else None,
        )
        ends[against] = seen
    # round 1: nothing has come. round 2: b = 2, a = 1 − 2. round 3: b = 1 + 2 (then), or b = 1 + (−1 − (1 − 2)) (now).
    assert ends["anchor_then"] == [1.0, -1.0, -4.0]
    assert ends["anchor_now"] == [1.0, -1.0, -2.0]


def test_co2_clip_cuts_and_the_public_codes_does_not():
    task = ConstantGradient(1.0, ((1,),), 2)
    to = job(task, steps=4, lr=1.0)
    knobs = {"period": 2, "outer_momentum": 0.0, "difference_to": "anchor_then", "clip": 0.25}
    assert run(built("co2", to, **knobs), task, to).anchor[0, 0] == 0.75
    assert run(built("co2", to, **knobs, public_clip=True), task, to).anchor[0, 0] == -1.0


def test_eager_workers_step_on_their_own_share_at_once():
    task = quadratic(UNEQUAL, OPTIMA)
    to = job(task, steps=3, lr=0.1)
    seen = []
    eager = built("eager-diloco", to, period=1, outer="average", outer_lr=1.0)
    state = run(eager, task, to, steps=2, seen=lambda s, t: seen.append(s.params.copy()))
    d0 = 0.1 * UNEQUAL * (task.initial() - OPTIMA)
    first = task.initial() - d0 / 4
    assert seen[0] == pytest.approx(first, rel=1e-14)
    d1 = 0.1 * UNEQUAL * (first - OPTIMA)
    assert state.params == pytest.approx(first - (d1 / 4 + d0.mean(axis=0) - d0 / 4), rel=1e-13)


def test_dadao_reaches_the_optimum_of_all_workers():
    n = 6
    a = np.exp(np.random.default_rng(3).uniform(np.log(0.05), 0.0, (n, 4)))
    b = np.random.default_rng(4).normal(size=(n, 4))
    task = quadratic(a, b)
    best = (a * b).mean(axis=0) / a.mean(axis=0)
    to = job(task, steps=600)
    dadao = built("dadao", to, graph="ring", smoothness=1.0, convexity=0.05)
    state, out = dadao.start(task.initial()), np.empty((n, 4))
    far = []
    for step in range(600):
        dadao.own_gradients(task, state, step, out)
        far.append(np.abs(state.params - best).max())
    assert far[-1] < 1e-3 * far[0]


def test_dadao_clocks_fire_at_their_rates():
    task = quadratic(np.ones((8, 1)), 0.0)
    to = job(task, steps=1)
    dadao = built("dadao", to, edge_rate=5.0)
    counts = np.array([[(w < 8).sum(), (w >= 8).sum()] for w in (dadao.events(s)[1] for s in range(2000))])
    assert counts.mean(axis=0) == pytest.approx([8.0, 5.0], abs=4 * sqrt(8.0 / 2000))
    assert counts.var(axis=0) == pytest.approx([8.0, 5.0], rel=0.15)


def test_the_matrix_exponential_is_scipys():
    from scipy.linalg import expm

    from windtunnel.learning.algorithms.dadao import Constants, exponential

    flow = Constants(1.0, 0.001, 2.0).flow()
    for dt in (1e-4, 0.3, 2.0, 40.0):
        assert exponential(flow * dt) == pytest.approx(expm(flow * dt), rel=1e-9, abs=1e-12)
