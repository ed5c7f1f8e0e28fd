"""Sparse outer gradients in two bits: bits of a kept value, losses next to dense ones and without feedback."""

from __future__ import annotations

from typing import Any

from windtunnel.learning.compressors import COMPRESSORS
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.learned import loss_ratio, proxy
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def _wire() -> dict[str, Any]:
    return {"chain": {"fraction": fixed("density"), "chunk": fixed("chunk"), "bits": 2}}


def sparse(values: Values) -> dict[str, Any]:
    """SparseLoCo at the paper's density."""
    return {"sparseloco": {"period": values["period"], "compressor": _wire()}}


def without_feedback(values: Values) -> dict[str, Any]:
    """As many entries drawn at random, of which nothing is remembered."""
    wire = {"randk": {"fraction": fixed("density")}}
    return {"sparseloco": {"period": values["period"], "compressor": wire, "feedback": 0.0}}


def ratio(values: Values, first: dict[str, Any], second: dict[str, Any]) -> float:
    """Loss of the first over that of the second."""
    return loss_ratio(proxy(EXPERIMENT.setting, {}, [first, second]))


def bits_of_a_value() -> float:
    """Bits of the message over its kept values."""
    entries = 256 * fixed("chunk")
    wire = COMPRESSORS.get("chain")
    settled = {name: knob.default for name, knob in wire.knobs.items()} | _wire()["chain"]
    kept = fixed("density") * entries
    return float(8 * wire.build(settled).nbytes(((entries,),)) / kept)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "bytes": lambda v: bits_of_a_value(),
        "loss": lambda v: ratio(v, {"diloco": {"period": v["period"]}}, sparse(v)),
        "feedback": lambda v: ratio(v, without_feedback(v), sparse(v)),
    }
