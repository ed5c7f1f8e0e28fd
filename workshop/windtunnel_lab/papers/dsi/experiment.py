"""Speed-up of speculation parallelism over speculative inference at the paper's own latencies and acceptance rates."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from windtunnel.serving.speculation.orders import ORDERS, Pair
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claim_tables import key_of
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def per_token_s(order: str, target_s: float, draft_s: float, acceptance: float, lookahead: int, servers: int) -> float:
    """Mean seconds of a token."""
    one = np.ones(1)
    pair = Pair(
        tokens=lookahead,
        acceptance=(acceptance,) * lookahead,
        first_s=draft_s * one,
        pass_s=draft_s * one,
        verify_s=target_s * one,
        verifiers=servers,
    )
    chosen = ORDERS.get(order)
    return float(chosen.seconds(pair)[0]) / chosen.tokens(pair)


def speed_up(target: float, draft: float, acceptance: float, lookahead: int) -> float:
    """Over speculative inference with the same lookahead; 0: the least that the servers suffice for."""
    servers = int(fixed("servers"))
    k = lookahead or max(math.ceil(target / (servers * draft)), 1)
    serial, hidden = (per_token_s(order, target, draft, acceptance, k, servers) for order in ("serial", "dsi"))
    return serial / hidden


def speed_ups(values: Values) -> list[float]:
    """Speed-up of every pair of target and drafter."""
    return [speed_up(t, c, a, int(values["lookahead"])) for t, c, a in fixed("pairs").values()]


def slowest(_: Values) -> float:
    """Time per token over the shorter of both ways without it, at its worst, with as many servers as it asks for."""
    grid, worst = fixed("grid"), 0.0
    for a, c, k in product(grid["acceptance"], grid["drafter"], grid["lookahead"]):
        servers = math.ceil(1.0 / (k * c))
        serial, hidden = (per_token_s(order, 1.0, c, a, k, servers) for order in ("serial", "dsi"))
        worst = max(worst, hidden / min(serial, 1.0))
    return worst


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "never-slower": slowest,
        "smallest": lambda v: min(speed_ups(v)),
        "largest": lambda v: max(speed_ups(v)),
    }


def plot(results: list[ClaimResult]) -> Any:
    """Speed-up of each pair over how much faster the drafter is."""
    pairs = {t / c: (t, c, a) for t, c, a in fixed("pairs").values()}
    lookahead = int(central(EXPERIMENT.setting)["lookahead"])
    line = curve(sorted(pairs), lambda ratio: speed_up(*pairs[ratio], lookahead))
    levels = {f"published {key_of(c)}: {c.published:g}": c.published for c in results if c.published > 1.0}
    x = "target's over drafter's latency"
    return beside({"ten pairs": {"DSI": line}}, x, "speed-up", log_x=True, levels=levels)
