"""Small sums across nodes by recursive doubling, with puts that device threads issue.

Inside a node the slices are reduced and gathered, between nodes equal ranks exchange whole slices in log2 k steps: few
hops instead of a ring's or a tree's, and no proxy on the way. A library laid over the vendor's
(`plan.collective_library: nvrar`, in serving of each pool's plan), taken where it is sooner; tensor parallelism across
nodes then pays for decoding.

What it costs: slices travel whole in each step, so that large messages are slower (the vendor's rings stay for them).

Source: Singhania et al. 2025.
"""

from __future__ import annotations

from windtunnel.specs.plan import PlanSpec
from windtunnel.techniques.base import Knob, ServingPart, Technique
from windtunnel.techniques.published.mscclpp import library_of_plan, library_of_pools
from windtunnel.techniques.serving import Knobs


def _plan(plan: PlanSpec, knobs: Knobs) -> PlanSpec:
    return library_of_plan(plan, "nvrar", "nvrar" if knobs["always"] else None)


TECHNIQUE = Technique(
    id="nvrar",
    knobs={"always": Knob(False, doc="training: also for large sums over the tensor axis, where rings are sooner")},
    edits=(("plan", "collective_library"), ("run", "collective_library")),
    plan=_plan,
    serving=ServingPart(settings=lambda serving, _: library_of_pools(serving, "nvrar")),
    saves="latency of collectives between nodes",
    resource="scale-out",
)
