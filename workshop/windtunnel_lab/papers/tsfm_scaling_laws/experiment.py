"""Printed laws next to the losses of their figures, and the orders that follow."""

from __future__ import annotations

from windtunnel.laws import LAWS
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "tsfm-scaling-laws")
fixed = EXPERIMENT.fixed


def loss(architecture: str, data: str, parameters: float) -> float:
    """Loss that the law says."""
    given = {"architecture": architecture, "data": data, "parameters": parameters}
    return LAWS.get("tsfm-scaling-laws").predict(given).values["loss"].value


def off() -> float:
    """Largest relative difference to losses read off the figures."""
    return float(max(abs(loss(a, d, n) / read - 1.0) for a, d, n, read in fixed("read")))


def scalability() -> float:
    """Least ratio of exponents, encoder over decoder, in distribution."""
    tables = LAWS.get("tsfm-scaling-laws").tables
    axes = ("parameters", "points", "flop")
    return min(tables["encoder/id"][f"alpha_{x}"].value / tables["decoder/id"][f"alpha_{x}"].value for x in axes)


def turned() -> float:
    """Sizes at which the decoder has the lower loss in distribution."""
    return float(sum(loss("decoder", "id", n) < loss("encoder", "id", n) for n in fixed("sizes")))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"losses": lambda _: off(), "scalability": lambda _: scalability(), "order": lambda _: turned()}
