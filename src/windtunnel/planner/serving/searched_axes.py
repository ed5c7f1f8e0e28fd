"""Which axes of a deployment a search varied, with which values, and why others stood still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windtunnel.planner.serving.candidate_table import CandidateTable
from windtunnel.planner.serving.instance_types import InstanceType
from windtunnel.planner.serving.question import Question

CUTS = ("device", "engine", "weights", "kv_cache", "tp", "pp", "dp", "ep")
LIMITS = ("max_num_seqs", "max_num_batched_tokens")


def searched(question: Question, kinds: Sequence[InstanceType], table: CandidateTable) -> dict[str, list[Any]]:
    """Axis → values that candidates have, of axes with more than one.

    Args:
        question: what is asked.
        kinds: of instances.
        table: all candidates.
    """
    found = _values(kinds, table)
    if question.load != "given":
        found[question.load] = np.unique(table.load).tolist()
    return {name: values for name, values in found.items() if len(values) > 1}


def _values(kinds: Sequence[InstanceType], table: CandidateTable) -> dict[str, list[Any]]:
    axes = [kind.axes() for kind in kinds]
    found: dict[str, list[Any]] = {name: sorted({one[name] for one in axes}) for name in CUTS}
    found["replicas"] = np.unique(table.replicas).tolist()
    found["max_num_seqs"] = sorted({value for kind in kinds for value in kind.sequences})
    found["max_num_batched_tokens"] = sorted({value for kind in kinds for value in kind.tokens})
    forms = np.unique(table.answers >= 0).tolist()
    found["deployment"] = ["disaggregated" if split else "aggregated" for split in forms]
    return found


def not_searched(question: Question, kinds: Sequence[InstanceType], varied: dict[str, list[Any]]) -> dict[str, str]:
    """Axis that stood still → its value and why.

    Args:
        question: what is asked.
        kinds: of instances.
        varied: what `searched` found.
    """
    space, axes = question.wanted.space, kinds[0].axes()
    out: dict[str, str] = {}
    for name in (*CUTS, *LIMITS, "replicas", "deployment", "rate_per_s", "concurrency"):
        if name in varied:
            continue
        if getattr(space, name, None):
            why = f"search.space.{name} lists no other that fits"
        elif name in question.pinned:
            why = "as the scenario states it"
        else:
            why = f"the default: search.space.{name} lists what is tried"
        value = axes.get(name)
        out[name] = why if value is None else f"{value}: {why}"
    return out
