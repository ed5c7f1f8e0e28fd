"""ZeRO-3 that gathers weights and reduces gradients one tensor at a time, in lists of one piece a rank.

Before its coalesced gathers (autumn 2021) DeepSpeed's stage 3 fetched each weight above its persistence threshold by a
collective of its own: the buffer is zeroed, the host waits for the device, and PyTorch's `all_gather` into a list of
tensors gathers into a second buffer and copies it out piece by piece; `reduce_scatter` copies in the same way. A weight
whose next use is more than a reuse distance away is given up after each module, so a checkpointed layer fetches it in
the repeated forward pass and once more in backward. Nothing is hidden: the trace that prefetching follows was off by
one, which skipped it, and waiting for the device before a gather also waits for the reductions launched before.

Sources: DeepSpeed issue 1069 and pull requests 1170 and 1188 (May and June 2021: prefetches skipped, gathers that are
not asynchronous, copies after a gather); DeepSpeed 0.3.13 to 0.3.16, `runtime/zero/partition_parameters.py`
(`_allgather_param`, `_reduce_scatter_gradient`), `runtime/zero/stage3.py` (`PartitionedParameterCoordinator`),
`runtime/zero/constants.py` (persistence threshold, reuse distance); PyTorch 1.8, `ProcessGroupNCCL.cpp` (`allgather`,
`reduce_scatter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from windtunnel.cost.coefficients import Coefficients
from windtunnel.graph import Kind, ModelGraph

PERSISTENT_ELEMENTS = 1e5
"""Weights below are never cut: `stage3_param_persistence_threshold`, its default."""
REUSE_ELEMENTS = 1e9
"""Elements used in between beyond which a weight is given up: `stage3_max_reuse_distance`, its default."""
LAUNCH_S = Coefficients().host_kernel_s
"""Seconds that the host takes to launch one copy from the library's loop in C++; the slices that
Python cuts before it are not counted."""
GATHER_PASSES = 3.0
"""Over a gathered weight: zeros written, pieces read and written."""
REDUCE_PASSES = 2.0
"""Over a gradient: pieces read and written into the buffer that is scattered."""


@dataclass(frozen=True, slots=True)
class TensorLists:
    """What a layer's gathers and reductions consist of, mean over the depth."""

    tensors: float
    """Weights of a layer that are cut."""
    second_gather: float
    """Share of a layer's weights that backward gathers a second time where the forward pass is repeated."""

    @staticmethod
    def of(g: ModelGraph) -> TensorLists:
        """Count over the layers of a model."""
        tensors = total = second = 0.0
        for kind in g.depth:
            sizes = [
                op.params
                for op in g.blocks[kind].operators
                if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM) and op.params > PERSISTENT_ELEMENTS
            ]
            after = [sum(sizes) - used for used in accumulate(sizes)]
            tensors += len(sizes)
            total += sum(sizes)
            second += sum(size for size, rest in zip(sizes, after, strict=True) if 2.0 * rest > REUSE_ELEMENTS)
        layers = max(len(g.depth), 1)
        return TensorLists(max(tensors / layers, 1.0), second / total if total else 0.0)

    def host_s(self, ranks: int) -> float:
        """Seconds in which the host launches the copies of one layer's gather, or reduction, and the device waits."""
        return self.tensors * ranks * LAUNCH_S
