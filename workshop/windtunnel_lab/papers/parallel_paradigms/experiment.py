"""A step on a grid by message passing, by threads, on a device and by ranks with threads: which order they have."""

from __future__ import annotations

from windtunnel import catalog
from windtunnel.network.host import HOST_LINK_FRACTION
from windtunnel_lab.models.clusters.job_templates import (
    Accelerator,
    Grid,
    HostNode,
    Wire,
    message_passing_s,
    offload_s,
    shared_memory_s,
)
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__, "parallel-paradigms")
fixed = EXPERIMENT.fixed
LIGHT = 8.0
"""FLOP a cell of a step that memory bounds."""
NODES = 16


def grid(flop: float, side: int | None = None) -> Grid:
    """The step."""
    return Grid(side=side or fixed("side"), flop_per_cell=flop, bytes_per_cell=fixed("bytes_per_cell"))


def node() -> HostNode:
    """The server."""
    own = fixed("node")
    return HostNode(
        cores=own["cores"],
        sockets=own["sockets"],
        core_flop_per_s=own["core_gflop_per_s"] * 1e9,
        memory_bytes_per_s=own["memory_gb_per_s"] * 1e9,
        core_memory_bytes_per_s=own["core_memory_gb_per_s"] * 1e9,
    )


def wire() -> Wire:
    """The network."""
    return Wire(latency_s=fixed("wire")["latency_us"] * 1e-6, bytes_per_s=fixed("wire")["gb_per_s"] * 1e9)


def device() -> Accelerator:
    """The device, in double precision."""
    sheet = catalog.device(fixed("device"))
    return Accelerator(
        flop_per_s=0.5 * sheet.peak_flop_per_s["fp64"],
        memory_bytes_per_s=sheet.memory_bytes_per_s,
        link_bytes_per_s=HOST_LINK_FRACTION * sheet.pcie_bytes_per_s,
    )


def over_nodes(flop: float, side: int | None = None) -> float:
    """Speed-up from one full node to sixteen, over sixteen."""
    host, step = node(), grid(flop, side)
    one = message_passing_s(step, host, wire(), host.cores)
    return one / message_passing_s(step, host, wire(), NODES * host.cores) / NODES


def hybrid(flop: float) -> float:
    """One rank a core over one rank a socket."""
    host, step = node(), grid(flop, fixed("small_side") * 4)
    plain = message_passing_s(step, host, wire(), NODES * host.cores)
    return plain / message_passing_s(step, host, wire(), NODES * host.sockets, host.cores // host.sockets)


def threads(flop: float) -> float:
    """Speed-up of all threads of a node over their number."""
    host = node()
    return shared_memory_s(grid(flop), host, 1) / shared_memory_s(grid(flop), host, host.cores) / host.cores


def on_device(flop: float, steps: int) -> float:
    """Time of all threads of a node over that of the device."""
    return shared_memory_s(grid(flop), node(), node().cores) / offload_s(grid(flop), device(), steps)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    host, light = node(), grid(LIGHT)
    apart = shared_memory_s(light, host, host.cores, placed=False) / shared_memory_s(light, host, host.cores)
    return {
        "mpi/nodes": lambda v: over_nodes(v["flop_per_cell"]),
        "mpi/limit": lambda v: over_nodes(v["flop_per_cell"], fixed("small_side")),
        "openmp/memory": lambda _: threads(LIGHT),
        "openmp/numa": lambda _: apart,
        "cuda/kept": lambda v: on_device(v["flop_per_cell"], fixed("steps_kept")),
        "cuda/copied": lambda _: on_device(LIGHT, 1),
        "hybrid": lambda v: hybrid(v["flop_per_cell"]),
    }
