"""Best size and samples at a cost by FLOP and by equivalent FLOP of our own graph and cache, Qwen3 0.6B to 32B."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windtunnel.laws.published.kinetics import eflop
from windtunnel.laws.published.large_language_monkeys import of_beta
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.device_steps import capacity, token_flop
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


DEVICE = "b200-sxm-180gb"
"""Of which only the intensity is used; it holds every model."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model and a number of samples."""

    size: float
    """Parameters, from the FLOP of a token."""
    samples: int
    coverage: float
    flop: float
    eflop: float


@lru_cache(maxsize=16)
def figures(model: str) -> tuple[float, float, float]:
    """Parameters that a token multiplies, FLOP of a query against a cached token, bytes of a cached token."""
    linear, attention = token_flop(model, DEVICE)
    return linear / 2.0, attention, capacity(model, DEVICE).bytes_per_token


def cost(model: str, samples: int, generated: float, budget: float = 0.0) -> tuple[float, float]:
    """FLOP and equivalent FLOP of a problem."""
    parameters, attention, cached = figures(model)
    flop, read = eflop(
        parameters, fixed("prompt"), generated, samples, cached, attention, fixed("flop_per_byte"), budget
    )
    return flop, flop + read


@lru_cache(maxsize=8)
def choices(generated: float) -> tuple[Choice, ...]:
    """Every model with every number of samples."""
    out = []
    for model, accuracy in zip(fixed("models"), fixed("accuracy"), strict=True):
        a = fixed("spread") * accuracy
        for n in fixed("samples"):
            right = of_beta(n, a, fixed("spread") - a)
            out.append(Choice(figures(model)[0], n, right, *cost(model, n, generated)))
    return tuple(out)


def front(generated: float, by: str) -> list[Choice]:
    """Choices that no cheaper one matches, cheapest first."""
    out: list[Choice] = []
    for one in sorted(choices(generated), key=lambda c: (getattr(c, by), -c.coverage)):
        if not out or one.coverage > out[-1].coverage:
            out.append(one)
    return out


def best(generated: float, by: str) -> list[float]:
    """Size of the best choice at each budget, from the cheapest to the dearest."""
    costs = [getattr(c, by) for c in choices(generated)]
    budgets = np.geomspace(min(costs), max(costs), fixed("budgets"))
    kept = front(generated, by)
    return [[c for c in kept if getattr(c, by) <= budget * (1 + 1e-9)][-1].size for budget in budgets]


def upwards(values: Values) -> float:
    """Share of budgets at which equivalent FLOP want no smaller a model than FLOP."""
    g = values["generated"]
    return float(np.mean([a >= b for a, b in zip(best(g, "eflop"), best(g, "flop"), strict=True)]))


def larger(values: Values) -> float:
    """Mean size on the front by equivalent FLOP over that by FLOP."""
    own, other = (np.mean([c.size for c in front(values["generated"], by)]) for by in ("eflop", "flop"))
    return float(own / other)


def threshold(values: Values) -> float:
    """Smallest size, billions, of which more than one sample is on the front by equivalent FLOP."""
    sampled = [c.size for c in front(values["generated"], "eflop") if c.samples > 1]
    return min(sampled) / 1e9


def attention(values: Values) -> float:
    """Share of reading the cache in one sample of the smallest model."""
    flop, both = cost(fixed("models")[0], 1, values["generated"])
    return 1.0 - flop / both


def sparse(values: Values) -> float:
    """Cost of dense over sparse attention, smallest model over largest."""

    def gain(model: str) -> float:
        whole, some = (cost(model, 1, values["generated"], budget)[1] for budget in (0.0, fixed("sparse")))
        return whole / some

    return gain(fixed("models")[0]) / gain(fixed("models")[-1])


def overspent(values: Values) -> float:
    """Largest equivalent FLOP of a choice on the front by FLOP over the least for its coverage."""
    g = values["generated"]
    return max(c.eflop / min(x.eflop for x in choices(g) if x.coverage >= c.coverage - 1e-12) for c in front(g, "flop"))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "upwards": upwards,
        "larger": larger,
        "threshold": threshold,
        "attention": attention,
        "sparse": sparse,
        "overspent": overspent,
    }
