"""`serving.speculation` → what drafts and how much of it is kept."""

from __future__ import annotations

import numpy as np

from windtunnel import catalog
from windtunnel.errors import BadInput, ProblemList
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.serving.speculation.base import METHODS, WHERE, Drafting
from windtunnel.serving.speculation.orders import ORDERS, Pair
from windtunnel.specs.cluster import ClusterRef, ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.speculation import SpeculationSpec


def drafting_of(
    spec: SpeculationSpec | None, model: ModelSpec, cluster: ClusterSpec, shape: Shape, problems: ProblemList
) -> Drafting | None:
    """Decide a scenario's speculation; None without one. Problems are added."""
    if spec is None:
        return None
    method = METHODS.get(spec.method, f"{WHERE}.method")
    assumed: list[tuple[str, object, str]] = []
    given, k = spec.acceptance, spec.tokens
    if given is None:
        known = method.acceptance
        rates = tuple(known[min(i, len(known) - 1)] for i in range(k))
        assumed.append((f"{WHERE}.acceptance", list(rates), method.acceptance_source))
    else:
        rates = given if isinstance(given, tuple) else (given,) * k
    if spec.method == "mtp" and not model.num_nextn_predict_layers:
        why = f"num_nextn_predict_layers of {model.name} is not in the catalogue"
        assumed.append((f"{WHERE}.tokens", k, f"{why}: one layer of its last kind drafts"))
    order = ORDERS.get(spec.order, f"{WHERE}.order")
    drafts = _draft_cluster(spec, cluster, problems)
    network = method.network(spec, model, drafts or cluster, shape, problems)
    if spec.order == "mirror" and "reuse" not in spec.model_fields_set:
        assumed.append((f"{WHERE}.reuse", spec.reuse, "four in five corrections among the candidates: assumed"))
    zero = np.zeros(1)
    pair = Pair(tokens=k, acceptance=rates, first_s=zero, pass_s=zero, verify_s=zero, verifiers=spec.verifiers or 1)
    if method.scan_s:
        assumed.append((f"{WHERE}.method", spec.method, f"the host compares a token in {method.scan_s * 1e9:g} ns"))
    return Drafting(
        method=spec.method,
        tokens=k,
        acceptance=rates,
        network=network,
        scan_s=method.scan_s,
        assumed=tuple(assumed),
        variation=spec.variation,
        acceptance_std=spec.acceptance_std,
        order=spec.order,
        verifiers=spec.verifiers or 1,
        draft_cluster=drafts,
        early_exit=spec.early_exit,
        reuse=spec.reuse,
        tokens_per_step=order.tokens(pair),
    )


def _draft_cluster(spec: SpeculationSpec, cluster: ClusterSpec, problems: ProblemList) -> ClusterSpec | None:
    """The devices that draft, where they are others."""
    if spec.order != "mirror":
        return None
    if spec.draft_device is None:
        return cluster
    try:
        device = catalog.device(spec.draft_device)
    except BadInput as error:
        for problem in error.problems:
            problems.add(f"{WHERE}.draft_device", spec.draft_device, problem.rule, nearest=problem.nearest)
        return None
    return catalog.resolve_cluster(ClusterRef(device=device.id, nodes=1, devices_per_node=spec.draft_tp or 1))
