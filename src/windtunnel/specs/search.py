"""What `plan` may choose from, what it should make best, and what it must not exceed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from windtunnel.specs.base import Count, Spec
from windtunnel.specs.plan import Axis, Recompute

Objective = Literal["step_time", "tokens_per_s", "tokens_per_s_per_device", "cost_per_million_tokens"]
"""On one cluster these order plans alike."""
Switch = tuple[bool, ...]


class Space(Spec):
    """Values that each axis of a plan may take. Absent: every legal value (`docs/planner.md` lists the defaults)."""

    tp: tuple[Count, ...] | None = None
    sp: Switch | None = None
    pp: tuple[Count, ...] | None = None
    vpp: tuple[Count, ...] | None = None
    cp: tuple[Count, ...] | None = None
    cp_kind: tuple[Literal["ring", "all_to_all", "hybrid", "all_gather"], ...] | None = None
    ep: tuple[Count, ...] | None = None
    etp: tuple[Count, ...] | None = None
    mbs: tuple[Count, ...] | None = None
    zero: tuple[int, ...] | None = None
    shard_group: tuple[Count, ...] | None = None
    schedule: tuple[str, ...] | None = None
    recompute: tuple[str | Recompute, ...] | None = None
    """Policies by name (none, selective, full, or `full:4` for four layers a stage), or written out."""
    offload_activations: tuple[float, ...] | None = None
    offload_optimizer: tuple[float, ...] | None = None
    offload_params: tuple[float, ...] | None = None
    overlap_grad_reduce: Switch | None = None
    overlap_param_gather: Switch | None = None
    overlap_tp: Switch | None = None
    overlap_p2p: Switch | None = None
    overlap_moe_a2a: Switch | None = None
    order: tuple[tuple[Axis, ...], ...] | None = None

    @field_validator("recompute")
    @classmethod
    def _policies(cls, value: Any) -> Any:
        for policy in value or ():
            if isinstance(policy, str):
                recompute_of(policy)
        return value


def recompute_of(policy: str | Recompute) -> Recompute:
    """`full:4` → full, on four layers a stage.

    Raises:
        ValueError: not a policy.
    """
    if isinstance(policy, Recompute):
        return policy
    name, _, layers = policy.partition(":")
    if name not in ("none", "selective", "full") or (layers and not layers.isdigit()):
        raise ValueError(f"{policy}: must be none, selective or full, with `:N` for N layers a stage, or a mapping")
    return Recompute(policy=name, num_layers=int(layers) if layers else None)


class Limits(Spec):
    """What a plan must not exceed. Device memory is always a limit."""

    memory_fraction: float = Field(default=1.0, gt=0, le=1)
    """Share of device memory that reserved memory may take."""


class SearchSpec(Spec):
    """`search:` of a scenario. An axis set in `plan` is pinned unless `space` lists it."""

    target: Literal["training", "serving"] = "training"
    objective: Objective = "step_time"
    limits: Limits = Limits()
    space: Space = Space()
    top: Count = 10
    """Plans of the table."""
