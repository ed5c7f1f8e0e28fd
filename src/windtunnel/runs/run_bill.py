"""Replications of a prepared run, and what they take: dollars, energy, carbon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.clock import idle_w
from windtunnel.runs.bill import Bill, Rates
from windtunnel.runs.carbon import mean_g_co2_per_kwh
from windtunnel.runs.event_loop.program import DEGRADED, LOST, STRAGGLER, WORK, Replication
from windtunnel.runs.event_loop.replicate import Runs, replications, soonest
from windtunnel.runs.prepare_run import SPOT_SHARE, PreparedRun
from windtunnel.runs.spot.expected import SpotMean
from windtunnel.specs.run import DAY_S
from windtunnel.training.step_figures.power import price_per_device_hour


def loop_of(x: PreparedRun, first: int, count: int, run: Runs = soonest) -> list[Replication]:
    """Replications `first` and later of a prepared run."""
    return list(replications(x.program, x.frailty, count, x.run.seed, run, first=first))


def replicated(x: PreparedRun, count: int, run: Runs = soonest) -> tuple[Floats, tuple[Bill, ...]]:
    """(seconds by class of every replication, shape (count, classes), the bill of each)."""
    runs = list(replications(x.program, x.frailty, count, x.run.seed, run))
    seconds = np.array([r.seconds for r in runs])
    return seconds, tuple(bill_of(x, r.seconds, r.wall_s / DAY_S, [r]) for r in runs)


def bill_of(
    x: PreparedRun,
    seconds: Floats,
    days: float,
    runs: Sequence[Replication] = (),
    *,
    mean: SpotMean | None = None,
) -> Bill:
    """The bill of a run.

    Args:
        x: The run.
        seconds: Wall time by class, in the order of `CLASSES`.
        days: Its sum, for the hours of the grid.
        runs: Replications that the seconds are of; read for the nodes of a spot fleet.
        mean: In their place, where the seconds are those of the closed form.
    """
    cluster, nodes = x.prepared.members[0].cluster, x.program.nodes
    in_job, held, price = float(nodes.job), float(nodes.job + nodes.spares), price_per_device_hour(x.prepared)
    if x.program.draw_market is not None:
        in_job, held = mean_nodes(runs) if mean is None else (mean.in_job, mean.held)
        price = spot_price(x)
    rates = Rates(
        job_nodes=in_job,
        spares=held - in_job,
        devices_per_node=cluster.devices_per_node,
        idle_w=idle_w(cluster.device),
        price_per_device_hour=price,
        price_per_kwh=x.run.price_per_kwh,
        pue=x.run.pue,
    )
    running_s = float(seconds[[WORK, LOST, DEGRADED, STRAGGLER]].sum())
    intensity = mean_g_co2_per_kwh(x.run, days, x.folder)
    return rates.bill(x.step.mean_power_w, float(seconds.sum()), running_s, intensity)


def bill_figures(
    x: PreparedRun, seconds: Floats, days: float, runs: Sequence[Replication]
) -> tuple[float, float | None, float | None]:
    """(kWh of the building, dollars, kilograms of CO₂); None without a price or a grid.

    A spot fleet is paid for the nodes that are there; of others the job's and its spares, all the time.
    """
    bill = bill_of(x, seconds, days, runs)
    return bill.energy_kwh, bill.cost, bill.carbon_kg


def mean_nodes(runs: Sequence[Replication]) -> tuple[float, float]:
    """(nodes in the job, nodes of the spot fleet), means over all runs."""
    wall = sum(r.wall_s for r in runs)
    return sum(r.job_node_s for r in runs) / wall, sum(r.held_node_s for r in runs) / wall


def spot_price(x: PreparedRun) -> float | None:
    """Dollars of a spot device's hour: as stated, else a share of the price on demand; None where that is unknown."""
    assert x.run.spot is not None
    if x.run.spot.price_per_device_hour is not None:
        return x.run.spot.price_per_device_hour
    price = price_per_device_hour(x.prepared)
    return None if price is None else SPOT_SHARE * price
