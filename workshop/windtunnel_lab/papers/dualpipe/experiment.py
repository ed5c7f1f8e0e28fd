"""Bubbles and activations of the order, and the pair of passes that DeepSeek's public profile shows."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from windtunnel import api, catalog, schedules
from windtunnel.program.segment import COMPUTE
from windtunnel.schedules import InstructionTable, ScheduleCosts
from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
ORDERS = {"1f1b": ("1f1b", 1), "zb1p": ("zb_1p", 1), "dualpipe": ("dualpipe", 2)}
"""Row of the published table → schedule and chunks a stage."""
PASSES = ("forward", "backward", "weight grad")


def table(name: str) -> tuple[InstructionTable, ScheduleCosts]:
    """An order with passes of one unit of time each."""
    id_, chunks = ORDERS[name]
    p = fixed("stages")
    one = np.ones((p, chunks))
    costs = ScheduleCosts(one, one, one)
    return schedules.build(id_, p, fixed("micro_batches"), chunks, costs), costs


def bubble(_: Values, name: str) -> float:
    """Forward passes' worth of waiting in a stage."""
    order, costs = table(name)
    work = 3.0 * fixed("micro_batches") * ORDERS[name][1] / order.copies
    return float(schedules.evaluate(order, costs)[2] - work)


def activations(_: Values, name: str) -> float:
    """Most activations alive at once on the fullest stage, in activations of one chunk."""
    return float(schedules.live_activations(table(name)[0]).max() * ORDERS[name][1])


@lru_cache(maxsize=8)
def _step(nic_share: float, mbs: int) -> tuple[float, float, float]:
    """Seconds of computation and of exchanges of a layer, both passes; of a pair of chunks in the middle."""
    stages, ep = fixed("stages"), fixed("ep")
    model = catalog.model(fixed("model")).model_dump(exclude_defaults=True, exclude={"provenance"}) | {
        "name": "layers of DeepSeek-V3",
        "num_hidden_layers": fixed("layers"),
        "first_k_dense_replace": 0,
        "num_nextn_predict_layers": 0,
        "num_parameters_published": None,
    }
    step: Values = {
        "model": model,
        "cluster": {
            "device": fixed("device"),
            "nodes": stages * ep // 8,
            "devices_per_node": 8,
            "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": 50e9 * nic_share, "latency_s": "4 us"},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": fixed("steady") * ep * mbs,
            "precision": "fp8_block",
            "framework": "megatron_core",
            "moe_dispatcher": "deepep",
        },
        "plan": {"pp": stages, "ep": ep, "mbs": mbs, "zero": 1},
        "techniques": [{"dualpipe": {"copies": 2}}, "deepseek-v3-codesign"],
    }
    layer = [x for s in api.prepare(step)[0].stages.segments if s.name == "E" for x in s.launches]
    compute = sum(x.alone_s for x in layer if x.stream == COMPUTE)
    trace = simulate_training(step, sensitivities=False, trace=True).trace
    assert trace is not None
    took, middle = trace.end_s - trace.start_s, trace.stage == stages // 2
    pair = 0.0
    for name in PASSES:
        rows = middle & (trace.tag == trace.tags.index(name)) & (trace.chunk == 0)
        of_each = [took[rows & (trace.micro_batch == m)].sum() for m in np.unique(trace.micro_batch[rows])]
        pair += float(np.median(of_each))
    return compute, sum(x.alone_s for x in layer if x.stream != COMPUTE), pair


def ratio(values: Values) -> float:
    """Computation over communication."""
    compute, exchanges, _ = _step(values["nic_share"], values["mbs"])
    return compute / exchanges


def pair_ms(values: Values) -> float:
    """Milliseconds that a pair of forward and backward takes in the steady part of the step."""
    return 1e3 * _step(values["nic_share"], values["mbs"])[2]


def hidden(values: Values) -> float:
    """Both passes one after the other over the pair."""
    compute, exchanges, pair = _step(values["nic_share"], values["mbs"])
    return float(fixed("layers") / fixed("stages") * (compute + exchanges) / pair)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    out: dict[str, Measure] = {f"bubble/{name}": partial(bubble, name=name) for name in ORDERS}
    out |= {f"activations/{name}": partial(activations, name=name) for name in ORDERS}
    return out | {"ratio": ratio, "pair": pair_ms, "hidden": hidden}
