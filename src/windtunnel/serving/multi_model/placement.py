"""Where a request goes: to a deployment that is there, to a new one on a device with room, or into line.

A place is fit when memory holds weights and the whole answer, when the first token is forecast within its objective,
when one decode step of every active deployment of the device fits into the time of one token (so that turns can be
taken), and when those that answer already can wait for its prompt. CPUs come first where they are fit, then the fullest
device: room stays together for what is larger.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.multi_model.state import Deployed, Device, Job, Rules


def place(devices: Sequence[Device], job: Job, rules: Rules, now: float) -> Deployed | None:
    """The deployment that takes a request, made where need be; None: nowhere is room."""
    here = [one.deployed[job.tenant] for one in devices if job.tenant in one.deployed]
    here = [x for x in here if room(x.device, x.device.blocks_of(job), keep=job.tenant) is not None]
    fit = [x for x in here if fits(x.device, job, rules, now)]
    if fit:
        return min(fit, key=lambda x: (first_token_s(x.device, job, now), x.device.index))
    fresh = [one for one in devices if job.tenant not in one.deployed and _open(one, rules)]
    fresh = [one for one in fresh if room(one, one.blocks_of(job) + one.weight_blocks) is not None]
    able = [one for one in fresh if fits(one, job, rules, now)]
    if able:
        return _deploy(min(able, key=lambda one: (not one.host, -one.used, one.index)), job, rules, now)
    late = [(first_token_s(x.device, job, now), x.device.index, x) for x in here if not x.device.host]
    if late:
        return min(late)[2]
    other = [one for one in fresh if not one.host]
    if other:
        return _deploy(min(other, key=lambda one: (first_token_s(one, job, now), one.index)), job, rules, now)
    return here[0] if here else None


def room(device: Device, blocks: int, keep: int = -1) -> list[int] | None:
    """Idle deployments that must go for so many blocks; None where even that is not enough."""
    free, gone = device.blocks - device.used, list[int]()
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
    device.used -= device.weight_blocks


def fits(device: Device, job: Job, rules: Rules, now: float) -> bool:
    """Whether objectives hold with a request more, as far as can be told."""
    if first_token_s(device, job, now) > rules.ttft_s:
        return False
    total = 0.0
    for tenant, x in device.deployed.items():
        active = x.running if not x.waiting else [*x.running, *x.waiting]
        if active and tenant != job.tenant:
            total += device.step_s(active)
    own = device.deployed.get(job.tenant)
    mine = [*own.running, *own.waiting] if own else []
    if len(mine) >= device.limits.max_seqs:
        return False
    total += device.step_s(mine, more=1)
    if total > rules.tpot_s:
        return False
    begin = max(device.busy_until, now)
    prompts = sum(device.prefill_s(j.input) for x in device.deployed.values() for j in x.waiting)
    over = begin + prompts + device.prefill_s(job.input) + total
    return all(j.due(rules) >= over for x in device.deployed.values() for j in x.running)


def first_token_s(device: Device, job: Job, now: float) -> float:
    """From the request's arrival to its first token: prompts in front, weights that load, its own prompt."""
    own = device.deployed.get(job.tenant)
    ready = own.ready_s if own else now + device.load_s
    front = sum(device.prefill_s(j.input) for x in device.deployed.values() for j in x.waiting)
    return max(max(device.busy_until, now) + front, ready) + device.prefill_s(job.input) - job.arrival


def _open(device: Device, rules: Rules) -> bool:
    return rules.shared or all(x.idle for x in device.deployed.values())


def _deploy(device: Device, job: Job, rules: Rules, now: float) -> Deployed:
    if not rules.shared:
        for tenant in list(device.deployed):
            remove(device, tenant)
    make_room(device, device.blocks_of(job) + device.weight_blocks)
    own = Deployed(job.tenant, device, now + device.load_s)
    device.deployed[job.tenant] = own
    device.used += device.weight_blocks
    return own
