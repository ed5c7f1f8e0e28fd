"""Where a request goes: to a deployment that is there, to a new one on a device with room, or into line.

A place is fit when memory holds weights and the whole answer, when the first token is forecast within its objective,
when one decode step of every active deployment of the device fits into the time of one token (so that turns can be
taken), and when those that answer already can wait for its prompt. CPUs come first where they are fit, then the fullest
device: room stays together for what is larger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from windtunnel.serving.event_loop.fleet_control import Control
from windtunnel.serving.event_loop.instance_limits import Router as RouterId
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.multi_model.state import Deployed, Device, Rules


class ModelPlacement(Control):
    """Which device a request goes to, or that it waits for one: rules of the reference loop.

    Args:
        rules: what placements follow.
        devices: those that deployments share, in the order of the loop's instances.
    """

    def __init__(self, rules: Rules, devices: list[Device]) -> None:
        self.rules, self.devices = rules, devices
        self.line: deque[Request] = deque()
        """Requests that no device has room for."""
        self.place: dict[int, int] = {}
        """Device of each request."""
        self.freed = False
        """Whether answers ended in the iteration that is over."""

    def takes(self, q: Request, now: float) -> bool:
        """Whether a device has room; what never fits goes to the first one, which refuses it."""
        if all(x.blocks_of(q) > x.one.limits.blocks for x in self.devices):
            self.place[q.index] = 0
            return True
        for x in self.devices:
            for tenant, own in list(x.deployed.items()):
                if own.idle and now - own.idle_since > self.rules.keep_alive_s:
                    remove(x, tenant)
        placed = place(self.devices, q, self.rules, now)
        if placed is None:
            self.line.append(q)
            return False
        device = placed.device
        make_room(device, device.blocks_of(q), keep=q.tenant)
        device.one.enter(q)
        self.place[q.index] = device.one.index
        if device.current is None and placed.ready_s > now:
            self.file(device.one.index, placed.ready_s)
        return True

    def completed(self, one: Instance, now: float) -> None:
        """Room came free: the queue in order; who waits for another deployment stands in nobody's way."""
        if not self.freed:
            return
        self.freed = False
        queued, self.line = self.line, deque()
        failed: set[int] = set()
        for q in queued:
            if q.tenant in failed:
                self.line.append(q)
                continue
            for k in self.loop.arrive(q, now):
                self.file(k, now)
            if self.line and self.line[-1] is q:
                failed.add(q.tenant)

    def event(self, number: int, now: float) -> list[int]:
        """Weights are there, or requests came."""
        return [number]

    def next_s(self, one: Instance) -> float:
        """When anything happens next but at this instance."""
        others = (x.busy_until for x in self.loop.instances if x is not one)
        return min(self.loop.arrivals.next_s(), min(others, default=float("inf")))


class PlacedRouter(Router):
    """To the device that the placement chose."""

    def __init__(self, placement: ModelPlacement) -> None:
        super().__init__(RouterId.ROUND_ROBIN, 0)
        self.placement = placement

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place in the list of the instance."""
        return self.placement.place[q.index]


def place(devices: Sequence[Device], job: Request, rules: Rules, now: float) -> Deployed | None:
    """The deployment that takes a request, made where need be; None: nowhere is room."""
    here = [one.deployed[job.tenant] for one in devices if job.tenant in one.deployed]
    here = [x for x in here if room(x.device, x.device.blocks_of(job), keep=job.tenant) is not None]
    fit = [x for x in here if fits(x.device, job, rules, now)]
    if fit:
        return min(fit, key=lambda x: (first_token_s(x.device, job, now), x.device.one.index))
    fresh = [one for one in devices if job.tenant not in one.deployed and _open(one, rules)]
    fresh = [one for one in fresh if room(one, one.blocks_of(job) + one.weight_blocks) is not None]
    able = [one for one in fresh if fits(one, job, rules, now)]
    if able:
        return _deploy(min(able, key=lambda x: (not x.host, -x.one.used, x.one.index)), job, rules, now)
    late = [(first_token_s(x.device, job, now), x.device.one.index, x) for x in here if not x.device.host]
    if late:
        return min(late)[2]
    other = [one for one in fresh if not one.host]
    if other:
        return _deploy(min(other, key=lambda x: (first_token_s(x, job, now), x.one.index)), job, rules, now)
    return here[0] if here else None


def room(device: Device, blocks: int, keep: int = -1) -> list[int] | None:
    """Idle deployments that must go for so many blocks; None where even that is not enough."""
    free, gone = device.blocks - device.one.used, list[int]()
    idle = sorted((x.idle_since, t) for t, x in device.deployed.items() if x.idle and t != keep)
    while free < blocks and idle:
        gone.append(idle.pop(0)[1])
        free += device.weight_blocks
    return gone if free >= blocks else None


def make_room(device: Device, blocks: int, keep: int = -1) -> None:
    """Idle deployments go until so many blocks are free."""
    for tenant in room(device, blocks, keep) or ():
        remove(device, tenant)


def remove(device: Device, tenant: int) -> None:
    """A deployment's weights are dropped."""
    del device.deployed[tenant]
    device.one.used -= device.weight_blocks


def fits(device: Device, job: Request, rules: Rules, now: float) -> bool:
    """Whether objectives hold with a request more, as far as it is known."""
    if first_token_s(device, job, now) > rules.ttft_s:
        return False
    total = 0.0
    for tenant, x in device.deployed.items():
        active = x.running if not x.waiting else [*x.running, *x.waiting]
        if active and tenant != job.tenant:
            total += x.step_s(active)
    own = device.deployed.get(job.tenant)
    mine = [*own.running, *own.waiting] if own else []
    if len(mine) >= device.one.limits.max_seqs:
        return False
    total += own.step_s(mine, more=1) if own else device.step_s(0, 0.0, more=1)
    if total > rules.tpot_s:
        return False
    prompts = sum(device.prefill_s(j.input) for x in device.deployed.values() for j in x.waiting)
    over = device.free_s(now) + prompts + device.prefill_s(job.input) + total
    return all(x.due(j, rules) >= over for x in device.deployed.values() for j in x.running)


def first_token_s(device: Device, job: Request, now: float) -> float:
    """From the request's arrival to its first token: prompts in front, weights that load, its own prompt."""
    own = device.deployed.get(job.tenant)
    ready = own.ready_s if own else now + device.load_s
    front = sum(device.prefill_s(j.input) for x in device.deployed.values() for j in x.waiting)
    return max(device.free_s(now) + front, ready) + device.prefill_s(job.input) - job.arrival


def _open(device: Device, rules: Rules) -> bool:
    return rules.shared or all(x.idle for x in device.deployed.values())


def _deploy(device: Device, job: Request, rules: Rules, now: float) -> Deployed:
    if not rules.shared:
        for tenant in list(device.deployed):
            remove(device, tenant)
    make_room(device, device.blocks_of(job) + device.weight_blocks)
    own = Deployed(job.tenant, device, now + device.load_s)
    device.deployed[job.tenant] = own
    device.one.used += device.weight_blocks
    return own
