"""A resolved scenario with `serving.mesh` → devices, and the rules of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.multi_model.placement import ModelPlacement, PlacedRouter
from windtunnel.serving.multi_model.state import Device, LineByModel, Rules
from windtunnel.serving.multi_model.turns import Turns

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment
    from windtunnel.serving.event_loop.fleet import Fleet
    from windtunnel.serving.event_loop.twin.instance import Instance


def model_rules(d: Deployment, fleet: Fleet) -> LoopRules:
    """Rules of a loop whose instances are devices that deployments share.

    Args:
        d: pools of devices; each of their instances is one device.
        fleet: of the run.
    """
    spec = d.serving.mesh
    assert spec is not None
    slo, none = d.serving.slo, float("inf")
    rules = Rules(
        spec.sharing == "shared",
        spec.keep_alive_s,
        (slo.ttft_s or none) * spec.margin,
        (slo.tpot_s or none) * spec.margin,
    )
    placement = ModelPlacement(rules, [])

    def execution(one: Instance) -> Turns:
        placement.devices.append(device_of(d, fleet, one))
        return Turns(placement.devices[-1], placement)

    return LoopRules(router=PlacedRouter(placement), queue=LineByModel(), control=placement, execution=execution)


def device_of(d: Deployment, fleet: Fleet, one: Instance) -> Device:
    """An instance of the loop as a device."""
    assert d.serving.mesh is not None
    p, spec = int(fleet.pool[one.index]), d.serving.mesh
    capacity, device = d.pools[p].instance.capacity, d.pools[p].cluster.device
    count, host = d.pools[p].spec.plan.num_devices, d.pools[p].cluster.device.kind == "cpu"
    rate = spec.load_bytes_per_s or device.pcie_bytes_per_s
    return Device(
        one=one,
        linear=fleet.tables[p, 0],
        weight_blocks=int(-(-capacity.weights_bytes // max(capacity.bytes_per_token * capacity.block_size, 1.0))),
        load_s=(0.0 if host else capacity.weights_bytes * count / (rate * count)) + spec.start_s,
        host=host,
    )
