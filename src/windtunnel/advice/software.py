"""Which frameworks share code, so that an option of one says where to look in the other; what a release cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.rules import ACTS, runnable
from windtunnel.techniques.base import Technique

_KIN: tuple[tuple[str, ...], ...] = (
    (
        "megatron_bridge",
        "nemo",
        "megatron_core",
        "rocm_megatron",
        "habana_megatron",
        "megatron_deepspeed",
        "megatron_2022",
        "megatron_2021",
    ),
    ("deepspeed", "megatron_deepspeed"),
    ("torchtitan", "fsdp1", "ddp", "torchtune"),
    ("jax", "pax", "t5x"),
)
"""NeMo runs on Megatron Core and took its recipes to Megatron Bridge; torchtitan, torchtune and FSDP are PyTorch's."""


def relatives(framework: str) -> tuple[str, ...]:
    """Frameworks of the same code, nearest first."""
    found = [name for kin in _KIN if framework in kin for name in kin if name != framework]
    return tuple(dict.fromkeys(found))


_PLAN = ("schedule", "cp_kind", "zero")
"""Fields of a resolved plan that rules of releases are about."""


def refused_by_release(
    training: TrainingSpec,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    techniques: Sequence[Technique],
) -> str | None:
    """Why the framework's release cannot run what changes made of a plan; None where it can.

    A technique that names an option of the framework brings its own code.

    Args:
        training: The workload as it is stated.
        before: The resolved plan as it was.
        after: The resolved plan after the changes.
        techniques: Those among the changes.
    """
    if any(training.framework in one.where for one in techniques):
        return None
    can = runnable(training.framework, training.framework_version)
    for name in _PLAN:
        idle = name in ACTS and after.get(ACTS[name], 1) == 1
        value = after.get(name)
        if not idle and value != before.get(name) and not can.allows(name, value):
            return can.why_not(name, value)
    return None
