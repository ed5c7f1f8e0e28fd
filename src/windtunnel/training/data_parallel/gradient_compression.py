"""Compressed exchanges: what goes over the wire in place of a tensor, and the kernels at both ends.

Integers with scales of their own cannot be added on the way: an all-reduce of them is an all-to-all of pieces, a sum
by whoever has a piece, and a gather of the sums. Factors, values at shared positions and sketches add up and go
through plain reductions. Kernels are streams over device memory; the products of a low-rank step have too few columns
to be bound by anything else up to a rank of about 32, beyond it by 32-bit products.

Sources: Tang et al. 2021 (1-bit Adam, arXiv 2102.02888), section 5, for the exchange in two halves; Wen et al. 2017
(TernGrad, arXiv 1705.07878), sections 3 and 4, for shared scales; Vogels et al. 2019 (PowerSGD, arXiv 1905.13727),
algorithms 1 and 2; Li et al. 2024 (lossless homomorphic compression, arXiv 2402.07529) for sketches with a map.
Counts of passes are ours, of kernels that fuse what belongs together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.coefficients import Coefficients
from windtunnel.graph import ModelGraph, Operator
from windtunnel.network.groups import GroupPlacement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import split_operator
from windtunnel.program.comm_work import CommWork
from windtunnel.specs.compression import GradientCompression
from windtunnel.specs.device import DeviceSpec


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """One collective of each virtual stage."""

    work: CommWork
    """Seconds and bytes; the SMs that it keeps busy follow from its channels."""
    channels: float
    """Channels of the collective library, each of which keeps one SM busy."""


Run = Callable[[str, Floats, GroupPlacement], CollectiveCost]
"""(operation, bytes, place) → cost."""

SCALE_BYTES = 4.0
ERROR_BYTES = 4.0
"""Bytes that error feedback keeps for each value."""
SEARCH_PASSES = 5.0
"""Over a gradient until the threshold of its largest entries is known: bisection over 25 steps (ipolyakov/TAGC,
`tagc.py`); a radix selection of 32-bit keys, eight bits at a time, takes four and a count."""
SECTOR_BYTES = 32.0
"""What an access to a single value moves: a sector of NVIDIA's L2 cache."""
PEELS = 3.0
"""Passes until the entries of a sketch are separated: each recovers all that are alone in a cell (prior: 2 to 4)."""
HASHES = 3.0
"""Cells that an entry of a sketch is added to (Li et al. 2024)."""
FIXED_LAUNCHES = 4.0
"""Kernels of one exchange of a bucket: encode, sum, encode again, decode."""
KERNEL_SMS = 0.5
"""Share of the SMs that keeps a streaming kernel at its speed; prior, as for serving (docs/techniques/overview.md)."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """Weights of one rank, as means over the model."""

    factor_rows: float
    """32-bit numbers of the first factors for each weight."""
    factor_columns: float
    matrices: float
    """Matrices for each weight."""
    rank: float
    """Columns of a factor, mean over matrices."""
    vectors: float
    """Share of weights that are in no matrix, or in one that is smaller than its factors."""
    level: float
    """Bits or density of a weight, mean over weights."""

    @staticmethod
    def of(graph: ModelGraph, plan: ResolvedPlan, given: GradientCompression) -> Shapes:
        """Count over all layers and both ends."""
        default = {"quantised": given.bits, "ternary": given.bits, "low_rank": float(given.rank)}.get(
            given.kind, given.density
        )
        rows = columns = matrices = ranks = whole = weights = levels = 0.0
        width = next((op.k for op in graph.head.operators if op.name == "lm_head"), 0.0)
        for op, count in operators(graph, plan):
            level = float(given.by_operator.get(op.name, default))
            weights, levels = weights + count * op.params, levels + count * op.params * level
            for r, c, number in matrices_of(op, width):
                rank = min(level, r, c)
                if given.kind == "low_rank" and rank * (r + c) < r * c:
                    rows, columns = rows + count * number * rank * r, columns + count * number * rank * c
                    ranks, matrices = ranks + count * number * rank, matrices + count * number
                    whole -= count * number * r * c
            whole += count * op.params
        safe = max(weights, 1.0)
        return Shapes(
            rows / safe, columns / safe, matrices / safe, ranks / max(matrices, 1.0), whole / safe, levels / safe
        )


def operators(graph: ModelGraph, plan: ResolvedPlan) -> list[tuple[Operator, float]]:
    """One rank's operators that own weights, and how often the model has each."""
    blocks = [(block, float(graph.depth.count(kind))) for kind, block in graph.blocks.items()]
    ends = [(graph.embedding, 1.0), (graph.head, 0.0 if graph.tied else 1.0)]
    return [
        (split_operator(op, plan), count)
        for block, count in [*blocks, *ends]
        for op in block.operators
        if op.params > 0 and count
    ]


def matrices_of(op: Operator, width: float) -> list[tuple[float, float, float]]:
    """(rows, columns, how many) of an operator's matrices; none for scales of norms. `width`: of an embedding."""
    if op.name == "embedding" and width:
        return [(op.params / width, width, 1.0)]
    if op.n > 1 and op.k > 1:
        return [(op.k, op.n, max(op.groups, 1.0))]
    return []


@dataclass(frozen=True, slots=True)
class CompressedExchange:
    """How gradients of one plan travel."""

    given: GradientCompression
    shapes: Shapes
    grad_bytes: float
    device: DeviceSpec
    coefficients: Coefficients

    @property
    def wire_bytes(self) -> float:
        """Bytes that stand for one gradient where an exchange begins; the map of a sketch included."""
        g, s = self.given, self.shapes
        match g.kind:
            case "quantised":
                return s.level / 8.0 + (SCALE_BYTES / g.block if g.block else 0.0)
            case "ternary":
                return s.level / 8.0
            case "low_rank":
                return 4.0 * (s.factor_rows + s.factor_columns) + self.grad_bytes * s.vectors
            case "sparse":
                return s.level * (self.grad_bytes + (0.0 if g.shared_positions else 4.0))
            case "sketch":
                return s.level * g.cells * 4.0 + g.position_bits / 8.0

    def kept_bytes(self, ranks: float, *, whole: bool) -> float:
        """Bytes of device memory for each weight that the next step needs; `whole`: every rank gets all sums."""
        g, s = self.given, self.shapes
        error = ERROR_BYTES * g.error_feedback
        if g.kind in ("quantised", "ternary") and whole:  # the sums of one's own piece are cut short too
            error += error / ranks
        return g.share * (error + (4.0 * s.factor_columns if g.kind == "low_rank" else 0.0))

    def _held_sms(self, cost: CollectiveCost) -> CommWork:
        """A collective with the SMs that its channels keep busy: never more than half of the device's."""
        return cost.work.on_sms(min(cost.channels / self.device.num_sms, 0.5))

    def gather(self, run: Run, weights: Floats, place: GroupPlacement) -> CommWork:
        """A gather of sums that are compressed already, and the kernels that widen them."""
        moved = weights * (self.wire_bytes + self.grad_bytes)
        chosen = self.coefficients
        kernels = moved / (self.device.memory_bytes_per_s * chosen.memory_fraction) + chosen.gemm_floor_s
        widened = CommWork.of(kernels, sm_seconds=kernels * KERNEL_SMS, hbm_bytes=moved)
        return self._held_sms(run("all_gather", weights * self.wire_bytes, place)) + widened

    def reduce(self, run: Run, op: str, weights: Floats, place: GroupPlacement) -> CommWork:
        """One reduction of some gradients: the kernels at both ends and the collectives between them."""
        if float(place.size) <= 1:
            return CommWork.of(np.zeros_like(weights))
        plain, own = weights * (1.0 - self.given.share), weights * self.given.share
        collectives = self._collectives(op, own, float(place.size))
        if self.given.share < 1.0:
            collectives.append((op, plain * self.grad_bytes))
        work = self._kernel_work(op, own, float(place.size))
        for name, nbytes in collectives:
            work = work + self._held_sms(run(name, nbytes, place))
        return work

    def _kernel_work(self, op: str, own: Floats, ranks: float) -> CommWork:
        """Kernels that compress and widen `own` weights."""
        moved, launches = self._kernels(op, own, ranks)
        chosen = self.coefficients
        kernels = moved / (self.device.memory_bytes_per_s * chosen.memory_fraction) + launches * chosen.gemm_floor_s
        if self.given.kind == "low_rank":
            products = 6.0 * self.shapes.rank * own / self.device.peak("fp32")
            kernels = np.maximum(kernels, products + launches * chosen.gemm_floor_s)
        kernels = np.where(own > 0, kernels, 0.0)
        return CommWork.of(kernels, sm_seconds=kernels * KERNEL_SMS, hbm_bytes=moved)

    def _collectives(self, op: str, own: Floats, ranks: float) -> list[tuple[str, Floats]]:
        """(operation, bytes) of the collectives of one reduction, in turn."""
        g, s, whole = self.given, self.shapes, op == "all_reduce"
        match g.kind:
            case "quantised":
                halves = [("all_to_all", own * self.wire_bytes)]
                return [*halves, ("all_gather", own * self.wire_bytes)] if whole else halves
            case "ternary":  # the largest scale first; sums of n ternary digits are one of 2n + 1 numbers
                scales = ("all_reduce", np.maximum(own * s.matrices, 1.0) * SCALE_BYTES)
                sums = own * ceil(log2(2.0 * ranks + 1.0)) / 8.0
                halves = [scales, ("all_to_all", own * self.wire_bytes)]
                return [*halves, ("all_gather", sums)] if whole else halves
            case "low_rank":
                first = own * (4.0 * s.factor_rows + self.grad_bytes * s.vectors)
                return [("all_reduce", first), ("all_reduce", own * 4.0 * s.factor_columns)]
            case "sparse":
                if g.shared_positions:
                    return [(op, own * self.wire_bytes)]
                sent = own * self.wire_bytes
                return [("all_gather", sent * ranks)] if whole else [("all_to_all", sent)]
            case "sketch":
                return [("all_reduce", own * g.position_bits / 8.0), (op, own * s.level * g.cells * 4.0)]

    def _kernels(self, op: str, own: Floats, ranks: float) -> tuple[Floats, Floats]:
        """Bytes of device memory that kernels move, and their launches."""
        g, s, grad, wire = self.given, self.shapes, self.grad_bytes, self.wire_bytes
        whole, error = op == "all_reduce", 2.0 * ERROR_BYTES * self.given.error_feedback
        mine = 1.0 if whole else 1.0 / ranks
        launches = np.full(np.shape(own), FIXED_LAUNCHES)
        match g.kind:
            case "quantised" | "ternary":
                scan = grad if g.kind == "ternary" or g.block is None else 0.0
                back = ceil(log2(2.0 * ranks + 1.0)) / 8.0 if g.kind == "ternary" else wire
                encode = grad + scan + error + wire
                gathered = (back + error) / ranks + back + grad
                passes = encode + wire + (gathered if whole else grad / ranks)
            case "low_rank":  # two products that read the matrix, one that writes it; sums and rests with feedback
                fed = grad + 2.0 * error + 12.0 if g.error_feedback else 0.0
                matrix = ERROR_BYTES if g.error_feedback else grad
                passes = fed + 2.0 * matrix + grad * mine + 12.0 * (s.factor_rows + s.factor_columns)
                launches = own * s.matrices * (5.0 + 3.0 * s.rank)  # a column of Gram-Schmidt: product, update, norm
            case "sparse":
                search = 0.0 if g.shared_positions else SEARCH_PASSES * grad
                landed = s.level * (1.0 if g.shared_positions else ranks * mine)
                passes = search + grad + error + wire + landed * 2.0 * SECTOR_BYTES + grad * mine
            case "sketch":
                cells, index = HASHES * s.level * 8.0, g.position_bits / 8.0
                encode = (SEARCH_PASSES + 1.0) * grad + error + 2.0 * index + cells
                passes = encode + PEELS * mine * (2.0 * grad + index + HASHES * s.level * 4.0)
                launches = launches + PEELS + SEARCH_PASSES
        return own * passes, launches


def gathered_wire(bits: float, block: int) -> float:
    """Bytes of one weight in a gather, scales included."""
    return bits / 8.0 + (SCALE_BYTES / block if bits < 16 else 0.0)


def gathered_moved(bits: float, block: int, element: float, ranks: float) -> float:
    """Bytes of device memory for each gathered weight: own shard made small (or cast), all of them as computed with."""
    if bits == 8.0 * element:
        return 0.0
    return (element + gathered_wire(bits, block)) * (1.0 + 1.0 / ranks)
