"""Compressed exchanges, local steps and one communicator, for which no target has options of the same meaning."""

from __future__ import annotations

from windtunnel.exporters.target import Draft
from windtunnel.parallel.resolve import ResolvedPlan


def unsent(plan: ResolvedPlan, draft: Draft) -> None:
    """What the launched job will send whole, and more often."""
    given = plan.compression
    if given.gradients is not None:
        draft.lacks(f"compression of gradients ({given.gradients.kind}): they travel whole")
    if given.gather_bits is not None:
        draft.lacks(f"weights gathered in {given.gather_bits:g} bits: they travel as they are computed with")
    if given.hop_bits is not None:
        draft.lacks(f"activations in {given.hop_bits:g} bits between stages: they travel as they are computed with")
    if plan.local_steps is not None:
        draft.lacks(f"local_steps {plan.local_steps.steps}: gradients are reduced in every step")
    if plan.one_communicator:
        draft.lacks("overlap.one_communicator: the framework decides through which communicator shards are reduced")
