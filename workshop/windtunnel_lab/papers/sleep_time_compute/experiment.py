"""Dollars of queries with and without work done over their context before."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def by_tokens(values: Values) -> float:
    """A query's tokens at its price, and its part of the sleep at the price of idle devices."""
    return float(1 / (fixed("share") + values["sleep"] * fixed("price") / fixed("queries")))


def by_devices(values: Values) -> float:
    """Simulated dollars of a query."""
    own = {
        "queries": fixed("queries"),
        "query_share": fixed("share"),
        "sleep_tokens": round(values["sleep"] * fixed("answer")),
        "off_peak_price": fixed("price"),
    }
    without = own | {"query_share": 1.0, "sleep_tokens": 0, "note_tokens": 0}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        offline=True,
        input_tokens=100,
        output_tokens=fixed("answer"),
        strategies=[{"sleep_time": without}, {"sleep_time": own}],
    )
    costs = [p.cost_usd for p in reasoned(scenario)]
    assert costs[0] is not None and costs[1] is not None
    return costs[0] / costs[1]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"cost_of_tokens": by_tokens, "cost_of_devices": by_devices}
