"""Bytes of parameters and moments at periods of their own, and the loss next to local Adam."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned, loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "des-loc")
fixed = EXPERIMENT.fixed


def bytes_over(id: str, knobs: dict[str, Any]) -> float:
    """Bytes of an algorithm over those of DES-LOC with the paper's periods."""
    x, u, v = fixed("periods")
    own = {"des-loc": {"period": x, "period_m": u, "period_v": v}}
    section = proxy(
        EXPERIMENT.setting, {}, [{id: knobs}, own], task={"quadratic": {"params": 8}}, steps=2 * v, seeds=1, lr=1e-4
    )
    other, mine = learned(section).algorithms
    return other.bytes_per_worker / mine.bytes_per_worker


def loss_over_local_adam(values: Values) -> float:
    """Loss of DES-LOC over that of local Adam at the same period of parameters."""
    x = values["period"]
    own = {"des-loc": {"period": x, "period_m": 3 * x, "period_v": 6 * x}}
    return loss_ratio(proxy(EXPERIMENT.setting, {}, [own, {"local_adam": {"period": x}}]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "ddp": lambda v: bytes_over("data_parallel", {}),
        "local_adam": lambda v: bytes_over("local_adam", {"period": fixed("periods")[0]}),
        "loss": loss_over_local_adam,
    }
