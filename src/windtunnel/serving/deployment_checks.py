"""Checks that pools, clusters and techniques of a scenario go together; problems are added in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windtunnel.errors import UNSET, ProblemList
from windtunnel.serving.engine_defaults import Instance, version_of
from windtunnel.serving.iteration.context_parallel import check_context
from windtunnel.specs.cluster import ClusterSpec, MixedCluster, groups_of
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.techniques.base import Applied

_LACKS = {
    "prefill": "its instances prefill and do not decode",
    "decode": "its instances decode requests that others have prefilled",
}
_POOLED = ("lamina", "moe-lens")
"""Techniques that compute decode attention elsewhere."""


def unserved(model: ModelSpec) -> str | None:
    """Why a model cannot be served here, in words; None where it can."""
    blocks = [block for layer in model.layers for block in layer.blocks]
    if model.family == "encoder_decoder" or any(block.kind == "cross_attention" for block in blocks):
        return (
            "decodes while it attends to an encoder's outputs, whose lengths and pass the traffic does not describe: "
            "serving needs a decoder-only model"
        )
    if model.family in ("encoder", "vit") or any(block.attends and not block.causal for block in blocks):
        return "generates no tokens: serving needs a decoder; embedding, reranking and classification are not simulated"
    return None


def check(serving: ServingSpec, model: ModelSpec, techniques: Sequence[Applied], problems: ProblemList) -> None:
    """Add what no engine here can serve."""
    if (why := unserved(model)) is not None:
        problems.add("model", model.name, why)
    else:
        for i, pool in enumerate(serving.pools):
            check_context(model, pool.plan, f"serving.pools[{i}].plan", problems)
    if serving.expert_load is not None and not model.num_experts:
        problems.add("serving.expert_load", UNSET, f"is not read: {model.name} has no experts")
    if serving.engine_version and not version_of(serving.engine_version):
        rule = "must begin with a release number, such as 0.10.0"
        problems.add("serving.engine_version", serving.engine_version, rule)
    if serving.sparse_reads is not None:
        _check_sparse(serving, model, problems)
    roles = {pool.role for pool in serving.pools}
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        if role in roles and other not in roles:
            i = next(i for i, pool in enumerate(serving.pools) if pool.role == role)
            rule = f"needs a pool with role {other} beside it: {_LACKS[role]}"
            problems.add(f"serving.pools[{i}].role", role, rule)
    if serving.mesh is not None:
        _check_mesh(serving, problems)
    for i, pool in enumerate(serving.pools):
        if pool.attention_pool is not None and not any(x.technique.id in _POOLED for x in techniques):
            rule = f"is set by the techniques {' and '.join(_POOLED)}; name one under techniques"
            problems.add(f"serving.pools[{i}].attention_pool", pool.attention_pool.device, rule)
        if pool.sm_split is not None:
            _check_split(serving, pool, f"serving.pools[{i}].sm_split", problems)
    own = serving.transfer
    if roles == {"mixed"}:
        for name in sorted(own.model_fields_set):
            rule = "is read where pools have the roles prefill and decode; leave it out"
            problems.add(f"serving.transfer.{name}", getattr(own, name), rule)
    if own.mode in ("layers", "chunks") and own.reserve_first is False:
        rule = f"must be true for mode {own.mode}: the decode instance needs blocks while the prompt is computed"
        problems.add("serving.transfer.reserve_first", False, rule)


def _check_sparse(serving: ServingSpec, model: ModelSpec, problems: ProblemList) -> None:
    """Add what contradicts rows that activations leave out."""
    given = serving.sparse_reads
    assert given is not None
    if given.neurons < 1.0 and "relu" not in model.hidden_act:
        rule = f"must be 1: {model.name} has {model.hidden_act}, which leaves no neuron at zero"
        problems.add("serving.sparse_reads.neurons", given.neurons, rule)
    for i, pool in enumerate(serving.pools or (None,)):
        most = pool.limits.max_num_seqs if pool else None
        if given.head < 1.0 and most != 1:
            rule = "must be 1 with serving.sparse_reads.head below 1: rows of the head are chosen for one sequence"
            problems.add(f"serving.pools[{i}].limits.max_num_seqs", UNSET if most is None else most, rule)


def _check_mesh(serving: ServingSpec, problems: ProblemList) -> None:
    """Add what deployments that share devices do not go with."""
    traffic = serving.traffic
    if len(traffic.tenants) < 2:
        problems.add("serving.mesh", UNSET, "needs traffic.tenants, two at least: each has weights of its own")
    for name, stated in (
        ("autoscale", serving.autoscale),
        ("speculation", serving.speculation),
        ("agents and trajectories", traffic.agents or traffic.trajectories),
    ):
        if stated:
            problems.add("serving.mesh", UNSET, f"stands without {name}")
    if "router" in serving.model_fields_set:
        problems.add("serving.router", UNSET, "is not read with serving.mesh, which places requests; leave it out")
    for i, pool in enumerate(serving.pools):
        if pool.plan.pp > 1 or pool.role != "mixed":
            problems.add(f"serving.pools[{i}]", UNSET, "must be mixed and without stages (pp 1) with serving.mesh")
        unread = {
            "queue": pool.queue != "fcfs",
            "admission": pool.admission,
            "policy": pool.policy,
            "sm_split": pool.sm_split,
            **{f"kv.{name}": getattr(pool.kv, name) for name in ("tiers", "similar", "lending", "swap")},
        }
        _refuse(unread, f"serving.pools[{i}]", "serving.mesh", problems)


def _check_split(serving: ServingSpec, pool: PoolSpec, where: str, problems: ProblemList) -> None:
    """Add what shares of the SMs do not go with."""
    assert pool.sm_split is not None
    if pool.role != "mixed":
        problems.add(where, UNSET, f"is read in mixed pools, and this one has the role {pool.role}; leave it out")
    if pool.plan.pp > 1:
        problems.add(where, UNSET, f"stands with pp 1, not {pool.plan.pp}")
    if serving.speculation or (serving.autoscale and serving.autoscale.method != "replicas"):
        problems.add(where, UNSET, "stands without speculation, and with autoscale.method replicas alone")
    unread = {"kv.lending": pool.kv.lending, "kv.swap": pool.kv.swap}
    _refuse(unread, where.removesuffix(".sm_split"), "sm_split", problems)
    if pool.sm_split.controller == "slo" and not (serving.slo.ttft_s and serving.slo.tpot_s):
        problems.add(f"{where}.controller", "slo", "needs serving.slo.ttft_s and tpot_s")


def _refuse(stated: Mapping[str, object], pool: str, beside: str, problems: ProblemList) -> None:
    for name in (name for name, value in stated.items() if value):
        problems.add(f"{pool}.{name}", UNSET, f"is not read with {beside}; leave it out")


def widest(serving: ServingSpec, problems: ProblemList) -> ServingSpec:
    """Return the section with as many instances, or devices, as its autoscaler may ever hold."""
    assert serving.autoscale is not None
    own, pool = serving.autoscale, serving.pools[0]
    if len(serving.pools) > 1:
        problems.add("serving.autoscale", UNSET, "is read with one pool; leave it out, or the other pools")
    if own.method != "replicas":
        if pool.replicas > 1 or pool.plan.pp > 1:
            rule = "needs one instance (replicas 1) without stages (pp 1)"
            problems.add("serving.autoscale.method", own.method, rule)
        last = own.plans[-1]
        plan = pool.plan.model_copy(update={"tp": last.tp, "dp": last.dp, "ep": last.ep})
        return serving.model_copy(update={"pools": (pool.model_copy(update={"plan": plan}), *serving.pools[1:])})
    assert own.max is not None
    if not own.min <= pool.replicas <= own.max:
        rule = f"instances at the start must be from autoscale.min {own.min} to autoscale.max {own.max}"
        problems.add("serving.pools[0].replicas", pool.replicas, rule)
    return serving.model_copy(update={"pools": (pool.model_copy(update={"replicas": own.max}), *serving.pools[1:])})


def group_of(pool: PoolSpec, cluster: ClusterSpec, where: str, problems: ProblemList) -> int:
    """Return the number of the cluster's group that a pool is on."""
    groups = groups_of(cluster)
    ids = [group.device.id for group in groups]
    if pool.group is None:
        if len(groups) == 1:
            return 0
        words = ", ".join(f"{i} ({id})" for i, id in enumerate(ids))
        problems.add(f"{where}.group", UNSET, f"is required: the cluster has the groups {words}")
    elif isinstance(pool.group, int) and 0 <= pool.group < len(groups):
        return pool.group
    elif isinstance(pool.group, str) and ids.count(pool.group) == 1:
        return ids.index(pool.group)
    else:
        known = [str(i) for i in range(len(ids))] + [id for id in ids if ids.count(id) == 1]
        problems.add(f"{where}.group", pool.group, f"must be one of {', '.join(known)}")
    return 0


def check_room(serving: ServingSpec, groups: list[int], cluster: ClusterSpec, problems: ProblemList) -> None:
    """Check that each group has the devices that its pools take."""
    for g, part in enumerate(groups_of(cluster)):
        mine = [pool for pool, group in zip(serving.pools, groups, strict=True) if group == g]
        each = serving.speculation.verifiers or 1 if serving.speculation else 1
        need = sum(pool.replicas * pool.plan.num_devices for pool in mine) * each
        if need > part.num_devices:
            of = f"group {g} of the cluster" if isinstance(cluster, MixedCluster) else "the cluster"
            factors = "replicas · tp · pp · dp · cp" + (" · speculation.verifiers" if each > 1 else "")
            words = f"{factors}{', summed over pools,' if len(mine) > 1 else ''} = {need}"
            first = serving.pools[0].replicas if len(mine) == 1 else need
            problems.add("serving.pools", first, f"{words} must not exceed the {part.num_devices} devices of {of}")


def check_agreement(instances: Sequence[Instance], problems: ProblemList) -> None:
    """Check that the pools of one loop share block size, admission rule and queue discipline."""
    own = [(i, x.limits.block) for i, x in enumerate(instances) if x.limits.caching]
    for i, block in own[1:]:
        if block != own[0][1]:
            rule = f"must be {own[0][1]}, that of serving.pools[{own[0][0]}], where both have prefix caching"
            problems.add(f"serving.pools[{i}].kv.block_size", block, rule)
    first = instances[0]
    for i, x in enumerate(instances):
        if i and x.admission is not None and x.admission != first.admission:
            rule = "is read from serving.pools[0], which takes requests in: state it there"
            problems.add(f"serving.pools[{i}].admission", x.admission.id, rule)
        if x.queue.id == first.queue.id and x.queue.knobs != first.queue.knobs:
            rule = "must have the knobs that it has in serving.pools[0]: pools of one loop share a discipline"
            problems.add(f"serving.pools[{i}].queue", x.queue.id, rule)
        if x.queue.id != first.queue.id:
            rule = f"must be {instances[0].queue.id}, that of serving.pools[0]: pools of one loop share a discipline"
            problems.add(f"serving.pools[{i}].queue", x.queue.id, rule)
