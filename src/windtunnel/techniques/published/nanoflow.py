"""What `nanoflow.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.techniques.serving import ServingLayers, ServingPart, served, side_by_side

MEMORY = "memory"
"""Queue of kernels that wait for memory."""


HELD = f"{COMM}:memory"
"""The same, of kernels that hold the SMs they are given."""
PARTS = ((0.5, 0.5), (0.375, 0.625), (0.3125, 0.6875), (1 / 3,) * 3, (0.25,) * 4)
"""Sizes that are searched; 640 of 2,048 tokens is the published split of Llama-2-70B."""
COMM_SMS = (0, 8, 16, 32)
"""SMs of collectives that are searched; 0: the library's."""
SM_SUMMED_BYTES_PER_S = 12.3e9
SM_COPIED_BYTES_PER_S = 18e9
"""What one SM reduces and gathers over links: reduce-scatter on 8 SMs, all-gather on 8.

Source: profiles of collectives on eight A100 (autosearch/trace/networkData): with the link's rate and 20 µs each,
reduce-scatters of 8 to 32 MiB on 8, 16 and 32 SMs come out within 12 %. Valid for: NVLink 3; assumed elsewhere.
"""
START_S = 20e-6
CORNER = 3.0
ATTENTION = {0.0: 1.0, 0.2: 0.4, 0.4: 0.6}
"""Shares of SMs that decode attention is held to → its rate beside products (autosearch/trace/gemv_interference.csv);
0: not held, sharing as the engine has it."""
Way = tuple[tuple[float, ...], int, float]
"""Parts, SMs of collectives, share of decode attention."""


def _queue(launch: Launch, _part: int) -> str:
    if launch.stream.startswith(COMM):
        return launch.stream
    return MEMORY if launch.name == "decode_attention" else COMPUTE


def _sums_s(layers: ServingLayers, tokens: float, sms: int) -> float:
    """An all-reduce as a reduce-scatter and an all-gather by kernels on a few SMs."""
    up = NetworkCoefficients.for_cluster(layers.cluster).up
    size = tokens / layers.data_ranks * layers.hidden_size * 2.0 * (1.0 - 1.0 / layers.tp)
    link_s = size / (up.efficiency * layers.cluster.scale_up.bytes_per_s)
    by_sms = (size / (sms * rate) for rate in (SM_SUMMED_BYTES_PER_S, SM_COPIED_BYTES_PER_S))
    return sum((START_S + float((link_s**CORNER + s**CORNER) ** (1.0 / CORNER)) for s in by_sms), 0.0)


def _part(layers: ServingLayers, share: float, way: Way) -> list[Launch]:
    """Launches of one part of the batch, with the SMs that collectives and decode attention are given."""
    _, sms, held = way
    batch = layers.batch.part(share)
    out = []
    for launch in layers.launches(batch):
        if sms and launch.name.startswith("tp_reduce_"):
            seconds = _sums_s(layers, batch.tokens, sms)
            launch = replace(launch, alone_s=seconds, sm=sms / max(layers.cluster.device.num_sms, 1))
        elif held and launch.name == "decode_attention":
            launch = replace(launch, stream=HELD, alone_s=launch.alone_s / ATTENTION[held], sm=held)
        out.append(launch)
    return out


def _woven(layers: ServingLayers, way: Way, count: int) -> Segment:
    return side_by_side([_part(layers, share, way) for share in way[0]], count, _queue)


def _searched(layers: ServingLayers) -> Way:
    """Parts first, then SMs of collectives, then the share of decode attention, each by the simulated time.

    All at one clock: what a fuller device loses of its own is counted afterwards, so that the way found may save up to
    a tenth less than the best.
    """
    way: Way = (1.0,), 0, 0.0

    def best(ways: list[Way]) -> Way:
        return ways[layers.fastest([partial(_woven, layers, one) for one in ways])]

    way = best([way, *((parts, 0, 0.0) for parts in PARTS)])
    if layers.tp > 1:
        way = best([(way[0], sms, 0.0) for sms in COMM_SMS if sms < layers.cluster.device.num_sms])
    if len(way[0]) > 1 and layers.batch.decode_attention_s > 0.0:
        way = best([(*way[:2], held) for held in ATTENTION])
    return way


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment | None:
    if layers.batch.tokens < knobs["threshold"]:
        return None
    parts = int(knobs["nano_batches"])
    way: Way = _searched(layers) if knobs["search"] else ((1.0 / parts,) * parts, 0, 0.0)
    return None if way == ((1.0,), 0, 0.0) else _woven(layers, way, layers.count)


applies_to = served
serving = ServingPart(layers=_layers, breaks=lambda knobs: (int(knobs["threshold"]),))
