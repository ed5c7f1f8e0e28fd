"""Plans of moves that are ready at once or an hour late, on machines that come and go."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.arrays import Floats
from windtunnel_lab.models.clusters import vm_moves
from windtunnel_lab.models.clusters.vm_moves import Hosts, Moves
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=4)
def instances(name: str) -> list[Hosts]:
    """Machines on hosts."""
    own = fixed(name)
    return [vm_moves.generated(own["first"] + i, fixed("nodes")) for i in range(own["count"])]


@lru_cache(maxsize=1)
def preferences() -> Floats:
    """Learned on the instances for training."""
    return vm_moves.learned(instances("train"), fixed("limit"), seed=1)


@lru_cache(maxsize=8)
def plans(kind: str) -> list[Moves]:
    """Of each instance for testing: `greedy`, `policy`, `slots` (unlearned samples) or `mip`."""
    limit, out = fixed("limit"), list[Moves]()
    for i, hosts in enumerate(instances("test")):
        if kind == "greedy":
            found = vm_moves.greedy(hosts, limit)
        elif kind == "mip":
            found = vm_moves.exact(hosts, limit)
        else:
            weights = preferences() if kind == "policy" else vm_moves.DEFAULT
            found = vm_moves.sampled(hosts, limit, weights, fixed("samples"), seed=i)
        out.append(vm_moves.best_prefix(hosts, found)[1])
    return out


def rate(kind: str, delay_s: float = 0.0, per_hour: float = 0.0) -> float:
    """Mean fragment rate after the plan is carried out `delay_s` after it was asked for."""
    found = []
    for i, (hosts, moves) in enumerate(zip(instances("test"), plans(kind), strict=True)):
        changes = round(per_hour * len(hosts.cores) * delay_s / 3600.0)
        draws = range(fixed("drifts") if changes else 1)
        found.append(np.mean([vm_moves.carried_out(hosts, moves, changes, 100 * i + d) for d in draws]))
    return float(np.mean(found))


def untouched(delay_s: float = 0.0, per_hour: float = 0.0) -> float:
    """Mean fragment rate without moves."""
    found = []
    for i, hosts in enumerate(instances("test")):
        changes = round(per_hour * len(hosts.cores) * delay_s / 3600.0)
        draws = range(fixed("drifts") if changes else 1)
        found.append(np.mean([vm_moves.carried_out(hosts, [], changes, 100 * i + d) for d in draws]))
    return float(np.mean(found))


def late_over_prompt(values: Values) -> float:
    """Integer programme an hour late over the policy within five seconds."""
    solve, change = fixed("solve_s"), values["changes_per_hour"]
    return rate("mip", solve["late"], change) / rate("policy", solve["prompt"], change)


def kept(values: Values) -> float:
    """What is left of the integer programme's cut after an hour."""
    late, change = fixed("solve_s")["late"], values["changes_per_hour"]
    return (untouched(late, change) - rate("mip", late, change)) / (untouched() - rate("mip"))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "prompt/greedy": lambda _: rate("greedy") / rate("policy"),
        "prompt/optimum": lambda _: (untouched() - rate("policy")) / (untouched() - rate("mip")),
        "late/mip": late_over_prompt,
        "late/void": kept,
        "learned": lambda _: rate("slots") / rate("policy"),
    }
