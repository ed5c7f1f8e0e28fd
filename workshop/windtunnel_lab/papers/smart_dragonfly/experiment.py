"""Jobs that share a dragonfly: their times from what ports count, learned from simulated mixes."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import combinations

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.network.topology import Dragonfly
from windtunnel_lab.models.clusters.dragonfly_runtime import Iteration, NetworkJob, placed, simulate
from windtunnel_lab.models.clusters.regression import Trees, mean_error, ridge, trees
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "smart-dragonfly")
fixed = EXPERIMENT.fixed
PLACEMENTS = ("contiguous", "groups", "random")
PATTERNS = ("ring", "pairs", "random")


def topology() -> Dragonfly:
    """The network."""
    own = fixed("topology")
    rate = own["gb_per_s"] * 1e9
    return Dragonfly(own["groups"], own["routers"], own["hosts"], rate, rate, rate)


def mix(seed: int, placement: str | None = None) -> Iteration:
    """Three random jobs, placed at random or as asked."""
    rng, network = np.random.default_rng(seed), topology()
    sizes = [int(x) for x in rng.choice(fixed("sizes"), 3)]
    while sum(sizes) > network.num_devices:
        sizes = [int(x) for x in rng.choice(fixed("sizes"), 3)]
    low, high = (2**20 * float(x) for x in fixed("mib"))
    shapes = [(str(rng.choice(PATTERNS)), float(np.exp(rng.uniform(np.log(low), np.log(high))))) for _ in sizes]
    how = placement or str(rng.choice(PLACEMENTS))
    where = placed(network, sizes, how, rng)  # type: ignore[arg-type]
    jobs = [
        NetworkJob(devices=d, pattern=pattern, nbytes=nbytes)  # type: ignore[arg-type]
        for d, (pattern, nbytes) in zip(where, shapes, strict=True)
    ]
    return simulate(network, jobs, adaptive=True, seed=seed)


@lru_cache(maxsize=4)
def data(name: str) -> tuple[Floats, Floats, Floats]:
    """(counters, seconds, seconds alone) of all jobs of some mixes."""
    own = fixed(name)
    found = [mix(1000 * own["seed"] + i) for i in range(own["mixes"])]
    return (
        np.concatenate([f.counters for f in found]),
        np.concatenate([f.seconds for f in found]),
        np.concatenate([f.alone_s for f in found]),
    )


@lru_cache(maxsize=8)
def fitted(count: int) -> Trees:
    """The surrogate, on the logarithm of seconds."""
    x, y, _ = data("train")
    return trees(x, np.log(y), count=count)


def predicted(count: int, x: Floats) -> Floats:
    """Seconds."""
    return np.asarray(np.exp(fitted(count).predict(x)))


def against(values: Values, other: str) -> float:
    """Error of the surrogate over another's, on the mixes for testing."""
    (x, y, _), (tx, ty, alone) = data("train"), data("test")
    if other == "mean":
        there = np.full(len(ty), y.mean())
    elif other == "linear":
        there = np.exp(ridge(x, np.log(y)).predict(tx))
    else:
        there = alone
    return mean_error(predicted(values["trees"], tx), ty) / mean_error(there, ty)


@lru_cache(maxsize=1)
def placements() -> list[list[Iteration]]:
    """Mixes, each placed in every way."""
    return [[mix(9000 + i, how) for how in PLACEMENTS] for i in range(fixed("pairs"))]


def ordering(values: Values) -> float:
    """Share of pairs of placements ordered by their mean time as simulated; ties within 1 % are left out."""
    right = total = 0
    for ways in placements():
        for a, b in combinations(ways, 2):
            truth = a.seconds.mean() / b.seconds.mean()
            if abs(truth - 1.0) < 0.01:
                continue
            guess = predicted(values["trees"], a.counters).mean() / predicted(values["trees"], b.counters).mean()
            total += 1
            right += (guess > 1.0) == (truth > 1.0)
    return right / total


def adaptive() -> float:
    """Minimal over adaptive time of one job of pairs over two groups."""
    network = topology()
    job = NetworkJob(devices=np.arange(2 * network.routers * network.hosts), pattern="pairs", nbytes=2.0**24)
    plain, clever = (simulate(network, [job], adaptive=one, seed=0).seconds[0] for one in (False, True))
    return float(plain / clever)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    own: dict[str, Measure] = {
        f"surrogate/{name}": partial(against, other=name) for name in ("mean", "linear", "alone")
    }
    return own | {"placement": ordering, "adaptive": lambda _: adaptive()}
