"""`serving.speculation` → what drafts and how much of it is kept."""

from __future__ import annotations

from windtunnel.errors import ProblemList
from windtunnel.serving.shape import Shape
from windtunnel.serving.speculation.base import METHODS, WHERE, Drafting
from windtunnel.specs.cluster import ClusterSpec
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
    network = method.network(spec, model, cluster, shape, problems)
    if spec.method == "mtp" and not model.num_nextn_predict_layers:
        why = f"num_nextn_predict_layers of {model.name} is not in the catalogue"
        assumed.append((f"{WHERE}.tokens", k, f"{why}: one layer of its last kind drafts"))
    if method.scan_s:
        assumed.append((f"{WHERE}.method", spec.method, f"the host compares a token in {method.scan_s * 1e9:g} ns"))
    return Drafting(
        spec.method, k, rates, network, method.scan_s, tuple(assumed), spec.variation, spec.acceptance_std
    )
