"""Uplink times of three access networks that clients share."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import learned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "fl-5g-testbed")
fixed = EXPERIMENT.fixed


def _round_s(mbit: float, train_s: float) -> float:
    """Seconds of one synchronous round whose uplinks meet in one of so many Mb/s; downloads cost nothing."""
    link = {"bandwidth": 1e15, "uplink": 1e15, "shared": mbit * 1e6 / 8}
    section = {
        "task": "quadratic",
        "workers": fixed("clients"),
        "steps": 10,
        "parameters": fixed("model_mb") * 1e6 / 4,
        "step_s": train_s / 10,
        "link": link,
        "algorithms": ["fedavg-sync"],
    }
    return 3600.0 * (learned(section).last.hours or 0.0)


def uplink_s(mbit: float) -> float:
    """Seconds of a round beyond training: all clients' models over what they share, once each way alike."""
    return _round_s(mbit, 1e-3) / 2


def share_of_uplink(values: Values) -> float:
    """Per cent of a round over 5G in the uplink, with the seconds of training solved from the published share."""
    up = uplink_s(values["cell_mbit"])
    train_s = up * (1 - 0.23) / 0.23
    return 100 * up / (_round_s(values["cell_mbit"], train_s) - up)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "ethernet": lambda v: uplink_s(v["cell_mbit"]) / uplink_s(fixed("ethernet_mbit")),
        "wifi": lambda v: uplink_s(v["cell_mbit"]) / uplink_s(v["wifi_mbit"]),
        "share": share_of_uplink,
    }
