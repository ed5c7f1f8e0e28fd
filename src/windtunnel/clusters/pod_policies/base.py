"""What a placement of pods reads: what is left on each node, what a pod asks for, and which pods are typical."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.clusters.scheduling_policy import SchedulingPolicy
from windtunnel.registry import Registry

WHOLE = 1000
"""Thousandths of a GPU."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A class of pods: all that ask for the same."""

    cpu: int
    """Thousandths of a core."""
    memory: int
    """MiB."""
    gpus: int
    share: int
    """Thousandths of each GPU."""
    models: tuple[str, ...]
    """GPU models that it may have; empty: any."""

    @property
    def gpu(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.share


@dataclass(slots=True)
class Rooms:
    """What is left on each node."""

    cpu: Ints
    memory: Ints
    gpu: Ints
    """Node × GPU: thousandths left; −1 where a node has no such GPU."""
    model: np.ndarray[tuple[int], np.dtype[np.str_]]
    most_cpu: int
    """Cores of the largest node, in thousandths."""
    most_gpu: int

    @property
    def gpu_left(self) -> Ints:
        """Thousandths left on all GPUs of each node."""
        out: Ints = np.maximum(self.gpu, 0).sum(axis=1)
        return out

    def holds(self, ask: Ask) -> Mask:
        """Nodes that have room for a pod."""
        fits = (self.cpu >= ask.cpu) & (self.memory >= ask.memory)
        if ask.gpus:
            fits &= (self.gpu >= ask.share).sum(axis=1) >= ask.gpus
            if ask.models:
                fits &= np.isin(self.model, ask.models)
        return fits

    def take(self, node: int, ask: Ask, gpu: int) -> None:
        """Place a pod: a part of GPU `gpu`, or the first that are whole."""
        self.cpu[node] -= ask.cpu
        self.memory[node] -= ask.memory
        if ask.gpus == 1 and ask.share < WHOLE:
            self.gpu[node, gpu] -= ask.share
        elif ask.gpus:
            self.gpu[node, np.flatnonzero(self.gpu[node] >= ask.share)[: ask.gpus]] -= ask.share


Typical = tuple[tuple[Ask, float], ...]
"""Classes of pods and their share of all."""
Scorer = Callable[[Rooms, Ask, Ints], tuple[Ints, Ints]]
"""Nodes with room → score of each, more is better, in whole numbers; and the GPU for a part of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPolicy(SchedulingPolicy):
    """A placement of pods."""

    scorer: Callable[[Typical, np.random.Generator], Scorer]

    FUNCTIONS: ClassVar[dict[str, tuple[str, ...]]] = {"scorer": ("typical", "random")}


POD_POLICIES: Registry[PodPolicy] = Registry(
    "cluster_pod_policies", package="windtunnel.clusters.pod_policies", noun="policy"
)


def tightest_gpu(room: Rooms, ask: Ask, nodes: Ints) -> Ints:
    """The GPU of each node that has least room next to the pod."""
    left = room.gpu[nodes]
    out: Ints = np.where(left >= ask.share, left, 2 * WHOLE).argmin(axis=1)
    return out


def in_hundred(values: Floats) -> Ints:
    """Scores as Kubernetes keeps them."""
    return (100.0 * values).astype(np.int64)
