"""What of a deployment is written in Python, ready for the reference loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.instance_limits import Router as Rule
from windtunnel.serving.event_loop.twin.admission import Admission
from windtunnel.serving.event_loop.twin.batch_policy import Policy
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.queues import Context, Queue
from windtunnel.serving.speculation.acceptance import Pace, pace_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from windtunnel.serving.engine_defaults import Instance
    from windtunnel.specs.serving import ServingSpec


@dataclass(frozen=True, slots=True)
class Hooks:
    """Objects of one run."""

    policy: Policy
    router: Router
    queue: Queue
    admission: Admission | None
    pace: Pace | None = None


def hooks_of(
    instance: Instance, serving: ServingSpec, limits: Limits, requests: int, *, needs_python: bool = False
) -> Hooks | None:
    """Fresh objects for a run by the twin; None where the jitted loop has all that is asked for.

    Args:
        instance: what is served by.
        serving: section of the scenario.
        limits: of one instance of the loop.
        requests: how many there are.
        needs_python: whether something else needs the twin.
    """
    policy, router, queue, admission = instance.policy, instance.router, instance.queue, instance.admission
    needs_python = needs_python or any(pool.kv.swap is not None for pool in serving.pools[:1])
    needs_python = needs_python or (instance.drafting is not None and instance.drafting.variation != "none")
    if (
        not needs_python
        and policy.jitted()
        and router.entry.rule is not None
        and queue.entry.jitted
        and admission is None
    ):
        return None

    def context(knobs: Mapping[str, Any]) -> Context:
        return context_of(serving, limits.seed, knobs)

    own = router.entry.twin(Rule(limits.router), limits.seed)
    own.context = context(router.knobs)
    return Hooks(
        policy(),
        own,
        queue.entry(context(queue.knobs)),
        None if admission is None else admission.entry(context(admission.knobs)),
        pace_of(instance.drafting, requests, limits.seed),
    )


def context_of(serving: ServingSpec, seed: int, knobs: Mapping[str, Any]) -> Context:
    """Weights and objectives by tenant, and one entry's knobs."""
    tenants, slo, none = serving.traffic.tenants, serving.slo, float("inf")
    others = max(len(serving.traffic.agents), 1)
    ttft, tpot = slo.ttft_s or none, slo.tpot_s or none
    return Context(
        weights=tuple(t.weight for t in tenants) or (1.0,) * others,
        ttft_s=tuple(t.ttft_s or ttft for t in tenants) or (ttft,) * others,
        tpot_s=tuple(t.tpot_s or tpot for t in tenants) or (tpot,) * others,
        seed=seed,
        options=knobs,
    )
