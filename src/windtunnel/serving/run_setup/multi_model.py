"""A resolved scenario with `serving.mesh` → devices, jobs, and a run's outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.serving.event_loop.requests import DONE, REJECTED, Requests
from windtunnel.serving.event_loop.run import Outcome
from windtunnel.serving.multi_model.loop import serve
from windtunnel.serving.multi_model.state import Device, Job, Rules

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment
    from windtunnel.specs.mesh import MeshSpec


def mesh(d: Deployment, requests: Requests) -> Outcome:
    """Run all requests on shared devices and write their times.

    Args:
        d: pools of devices; each of their instances is one device.
        requests: of tenants, each with weights of its own.
    """
    from windtunnel.serving.event_loop.kernels.histogram import add_gaps_in_python
    from windtunnel.serving.event_loop.kernels.records import HISTOGRAM_BINS, SERIES, TOTAL

    spec = d.serving.mesh
    assert spec is not None
    slo, none = d.serving.slo, float("inf")
    rules = Rules(
        spec.sharing == "shared",
        spec.keep_alive_s,
        spec.start_s,
        (slo.ttft_s or none) * spec.margin,
        (slo.tpot_s or none) * spec.margin,
    )
    devices = devices_of(d, spec)
    jobs = [
        Job(
            index=i,
            tenant=int(requests.tenant[i]),
            input=int(requests.input_tokens[i]),
            output=int(requests.output_tokens[i]),
            arrival=float(at),
        )
        for i, at in enumerate(requests.arrival_s)
    ]
    totals = np.zeros(len(devices), TOTAL)
    between = np.zeros(HISTOGRAM_BINS)

    def note(device: Device, seconds: float, prompt: int, steps: int, gaps: list[float], kv: float) -> None:
        total = totals[device.index]
        total["busy_s"] += seconds
        total["iterations"] += max(steps, 1)
        total["running_s"] += seconds * max(len(gaps), 1)
        total["kv_max"] = max(total["kv_max"], device.used)
        total["used_s"] += seconds * device.used
        total["running_max"] = max(total["running_max"], len(gaps))
        if prompt:
            total["prompt_iterations"] += 1
            total["prompt_tokens"] += prompt
            total["prompt_pairs"] += 0.5 * float(prompt) * prompt
        total["decode_tokens"] += float(steps) * len(gaps)
        total["kv_tokens"] += steps * kv
        for gap in gaps:
            add_gaps_in_python(between, gap, 0.0, steps, 1)

    loop = serve(jobs, devices, rules, note)
    for j in loop.ended:
        requests.scheduled_s[j.index], requests.first_token_s[j.index] = loop.started[j.index], j.first
        requests.finish_s[j.index], requests.state[j.index] = j.last, DONE
        requests.instance[j.index] = loop.where[j.index]
    for j in loop.refused:
        requests.state[j.index], requests.instance[j.index] = REJECTED, 0
    return Outcome(totals, between, np.zeros(0, SERIES))


def devices_of(d: Deployment, spec: MeshSpec) -> list[Device]:
    """One for every instance of every pool."""
    out: list[Device] = []
    fleet: Any = d.fleet()
    for p, pool in enumerate(d.pools):
        capacity = pool.instance.capacity
        device = pool.cluster.device
        count = pool.spec.plan.num_devices
        block_bytes = capacity.bytes_per_token * capacity.block_size
        weights = -(-capacity.weights_bytes // max(block_bytes, 1.0))
        host = device.kind == "cpu"
        rate = spec.load_bytes_per_s or device.pcie_bytes_per_s
        load_s = (0.0 if host else capacity.weights_bytes * count / (rate * count)) + spec.start_s
        for _ in range(pool.lanes):
            out.append(
                Device(
                    index=len(out),
                    limits=pool.limits,
                    linear=fleet.tables[p, 0],
                    weight_blocks=int(weights),
                    load_s=load_s,
                    host=host,
                )
            )
    return out
