"""Turn local operators into priced launches: forward, backward (recomputation included) and weight gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.attention import AttentionWork, attention_time_s
from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.gemm import Products, aligned, gemm_time_s
from windtunnel.cost.memory_bound import DEPENDENT_LOAD_S, pointwise_time_s, scan_time_s
from windtunnel.cost.quantised_base import (
    ROW_BY_COLUMN_ONLY,
    TRANSPOSED_BYTES,
    UNPACKED_BYTES,
    multiplied_as_stored,
)
from windtunnel.cost.tiled import operand_reads
from windtunnel.graph import Kind, Operator
from windtunnel.network.collectives.all_to_all import AllToAllLoad
from windtunnel.network.groups import GroupPlacement
from windtunnel.network.model import NetworkModel
from windtunnel.network.result import CollectiveTime
from windtunnel.parallel.expert import distinct_destinations
from windtunnel.parallel.precision import OPERAND_BYTES, Recipe
from windtunnel.parallel.recompute import Recomputed
from windtunnel.program.segment import ASIDE, COMM, COMPUTE, Launch, Segment
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.workload import LoraSpec

_TAG = {
    Kind.GEMM: "gemm",
    Kind.GROUPED_GEMM: "gemm",
    Kind.BATCHED_GEMM: "attention",
    Kind.ATTENTION: "attention",
    Kind.POINTWISE: "memory_bound",
    Kind.SCAN: "scan",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """Rates, coefficients and policies that turn an operator into seconds on one cluster."""

    device: DeviceSpec
    coefficients: Coefficients
    recipe: Recipe
    attention: str
    network: NetworkModel
    groups: dict[str, GroupPlacement]
    """Axis name → placement: tp, cp, cp_ring, cp_a2a, ep."""
    weight_accumulate_bytes: float
    """Bytes per weight that a weight gradient moves next to its own output: fp32 accumulation reads and writes."""
    accumulate_kernel_bytes: float = 0.0
    """Bytes per weight of a separate kernel that adds each weight gradient to the gradient buffer."""
    topk: float = 1.0
    """Experts that each token is routed to."""
    rowwise: bool = False
    """FP8 operands are scaled row by row."""
    lora: LoraSpec | None = None
    """Adapters, where the base weights are frozen."""
    adapter_bytes: float = 2.0
    """Bytes of one weight of an adapter."""
    two_level_a2a: bool = False
    """Expert all-to-alls send one copy of a token to each node, which passes it on."""
    overlap_a2a: bool = False
    """Expert all-to-alls of one micro-batch run next to the computation of another (steady state of the pair)."""
    fused_grouped_quantise: bool = False
    """Casts of grouped products happen in the kernels that write their operands."""
    fused_experts: bool = False
    """Experts run as one grouped kernel for each product, with activation and casts in its epilogue."""
    looped_experts: bool = False
    """Without fused experts, a grouped product is a loop over the local experts."""
    expert_nodes: int | None = None
    """Largest number of nodes that a token's experts lie on."""
    local_share: float | None = None
    """Share of routed rows that stay on their rank; absent: as many as chance leaves there."""

    @property
    def loops(self) -> bool:
        """Whether each local expert's product is a kernel of its own."""
        return self.looped_experts and not self.fused_experts


@dataclass(slots=True, kw_only=True)
class _Rows:
    """One matrix product per row, for one vectorised call."""

    m: list[float]
    n: list[float]
    k: list[float]
    groups: list[float]
    peak: list[float]
    fraction: list[float]
    operand: list[float]
    output: list[float]
    extra: list[float]
    aligned_share: list[float]
    launch: list[Launch]
    group_s: list[float]
    repeat: list[float]
    """Times that the product runs: once for each local expert, where the library loops over them."""


def _one(value: float) -> Floats:
    """A single value as the cost functions take it, shape ()."""
    return np.asarray(value, np.float64)


class Lowering:
    """Collects launches of many segments, then prices all matrix products in one call."""

    def __init__(self, pricing: Pricing) -> None:
        self.pricing = pricing
        self._gemms = _Rows(
            m=[],
            n=[],
            k=[],
            groups=[],
            peak=[],
            fraction=[],
            operand=[],
            output=[],
            extra=[],
            aligned_share=[],
            launch=[],
            group_s=[],
            repeat=[],
        )
        self._pending: list[tuple[int, int]] = []
        """Exchanges that run next to attention: (launch, number of launches before one waits for it)."""

    # -- segments -----------------------------------------------------------------------------------------------------
    def forward(self, name: str, operators: list[Operator]) -> Segment:
        """Forward launches of a block."""
        segment = Segment(name, "F", [])
        last = -1
        for op in operators:
            last = self._forward_one(segment, op, last, "F", 1.0)
        return segment

    def backward(
        self, name: str, operators: list[Operator], again: Recomputed, *, split: bool
    ) -> tuple[Segment, Segment]:
        """Backward launches; with `split`, weight gradients go into a segment of their own."""
        segment, weights = Segment(name, "B", []), Segment(name, "W", [])
        last = -1
        for op in operators:
            share = again.repeats.get(op.name, 0.0)
            if share:
                last = self._forward_one(segment, op, last, "R", share)
        for op in reversed(operators):
            last = self._backward_one(segment, weights if split else segment, op, last)
        return segment, weights

    def finish(self) -> None:
        """Price the collected matrix products."""
        rows = self._gemms
        if not rows.launch:
            return
        p = self.pricing
        time = gemm_time_s(
            p.device,
            p.coefficients,
            Products(
                m=np.array(rows.m),
                n=np.array(rows.n),
                k=np.array(rows.k),
                peak_flop_per_s=np.array(rows.peak),
                fraction=np.array(rows.fraction),
                operand_bytes=np.array(rows.operand),
                output_bytes=np.array(rows.output),
                extra_bytes=np.array(rows.extra),
                groups=np.array(rows.groups),
                aligned_share=np.array(rows.aligned_share),
            ),
        )
        floor = p.coefficients.gemm_floor_s  # products of a loop start back to back: the loop has one floor
        time = (time - floor) * np.array(rows.repeat) + floor + np.array(rows.group_s)
        for i, (launch, seconds) in enumerate(zip(rows.launch, time.tolist(), strict=True)):
            if launch.splittable:
                launch.piece_s = partial(self._piece_s, i, launch.sm, launch.alone_s)
            launch.alone_s += launch.sm * seconds
            launch.sm = 1.0

    def _piece_s(self, row: int, share: float, other_s: float, pieces: int) -> float:
        """Seconds of one of `pieces` row blocks of a collected product; `other_s` (quantisation) is cut evenly."""
        rows, p = self._gemms, self.pricing
        one = gemm_time_s(
            p.device,
            p.coefficients,
            Products(
                m=np.array([rows.m[row] / pieces]),
                n=np.array([rows.n[row]]),
                k=np.array([rows.k[row]]),
                peak_flop_per_s=np.array([rows.peak[row]]),
                fraction=np.array([rows.fraction[row]]),
                operand_bytes=np.array([rows.operand[row]]),
                output_bytes=np.array([rows.output[row]]),
                extra_bytes=np.array([rows.extra[row] / pieces]),
                groups=np.array([rows.groups[row]]),
                aligned_share=np.array([rows.aligned_share[row]]),
            ),
        )
        return float(one[0]) * share + other_s / pieces

    # -- one operator -------------------------------------------------------------------------------------------------
    def _forward_one(self, segment: Segment, op: Operator, last: int, phase: str, share: float) -> int:
        after = [last] if last >= 0 else []
        tag = "recompute" if phase == "R" else _TAG.get(op.kind, "")
        if op.kind == Kind.COLLECTIVE:
            return self._collective(segment, op, op.collective, op.size_bytes, after, phase, last)
        launch = Launch(
            name=op.name,
            tag=tag,
            stream=COMPUTE,
            alone_s=0.0,
            after=after,
            sm=1.0,
            kernels=op.forward_kernels,
            module=op.module,
            phase=phase,
        )
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM, Kind.BATCHED_GEMM):
            if op.kind != Kind.BATCHED_GEMM:
                elements = 0.0 if self.pricing.fused_experts and op.rule == "expert_row" else op.m * op.k
                weight = 0.0 if self._stored_as_multiplied else 0.5 * op.n * op.k * op.groups
                self._quantise(launch, op, elements, op.input_cast_share, weight, share)
            self._adapter(launch, op, (4.0, 1.0), share)
            self._gemm(launch, op, op.m, op.n, op.k, share, 0.0)
        else:
            self._other(launch, op, share, backward=False)
        launch.splittable = op.kind == Kind.GEMM
        return self._append(segment, launch)

    def _append(self, segment: Segment, launch: Launch) -> int:
        """Add a launch, which waits for the exchanges that are due; returns its index."""
        waiting = []
        for index, skip in self._pending:
            if skip:
                waiting.append((index, skip - 1))
            else:
                launch.after.append(index)
        self._pending = waiting
        return segment.append(launch)

    def _backward_one(self, segment: Segment, weights: Segment, op: Operator, last: int) -> int:
        after = [last] if last >= 0 else []
        if op.kind == Kind.COLLECTIVE:
            size = op.backward_size_bytes or op.size_bytes
            if op.backward_collective == "":
                return last
            return self._collective(segment, op, op.backward_collective, size, after, "B", last)
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
            data = Launch(
                name=op.name,
                tag="gemm",
                stream=COMPUTE,
                alone_s=0.0,
                after=after,
                sm=1.0,
                module=op.module,
                phase="D",
                splittable=True,
            )
            if not (self.pricing.fused_experts and op.rule == "expert_column"):
                self._quantise(data, op, op.m * op.n, op.grad_cast_share, 0.0, 1.0)
            self._adapter(data, op, (4.0, 5.0), 1.0)
            self._gemm(data, op, op.m, op.k, op.n, 1.0, 0.0)
            last = self._append(segment, data)
            if op.trainable:
                wgrad = Launch(
                    name=op.name, tag="gemm", stream=COMPUTE, alone_s=0.0, after=[], sm=1.0, module=op.module, phase="W"
                )
                accumulate = op.n * op.k * op.groups * self.pricing.weight_accumulate_bytes
                self._accumulate(wgrad, op.n * op.k * op.groups)
                self._gemm(wgrad, op, op.n, op.k, op.m, 1.0, accumulate)
                if weights is segment:
                    wgrad.after = [last]
                    last = self._append(segment, wgrad)
                else:
                    wgrad.after = [len(weights.launches) - 1] if weights.launches else []
                    weights.append(wgrad)
            return last
        if op.kind == Kind.BATCHED_GEMM:
            for m, n, k in ((op.m, op.k, op.n), (op.n, op.k, op.m)):
                launch = Launch(
                    name=op.name,
                    tag="attention",
                    stream=COMPUTE,
                    alone_s=0.0,
                    after=[last] if last >= 0 else [],
                    sm=1.0,
                    phase="D",
                )
                self._gemm(launch, op, m, n, k, 1.0, 0.0)
                last = self._append(segment, launch)
            return last
        launch = Launch(
            name=op.name,
            tag=_TAG[op.kind],
            stream=COMPUTE,
            alone_s=0.0,
            after=after,
            sm=1.0,
            kernels=op.backward_kernels,
            module=op.module,
            phase="D",
        )
        self._other(launch, op, 1.0, backward=True)
        return self._append(segment, launch)

    def _accumulate(self, launch: Launch, weights: float) -> None:
        """Add the kernel that adds a weight gradient to the buffer, where the product does not add it itself."""
        p = self.pricing
        moved = weights * p.accumulate_kernel_bytes
        if moved:
            launch.alone_s += float(pointwise_time_s(p.device, p.coefficients, _one(moved)))
            launch.hbm_bytes += moved
            launch.kernels += 1

    @property
    def _stored_as_multiplied(self) -> bool:
        """Whether frozen weights stand in memory in the format of the products."""
        p = self.pricing
        return p.lora is not None and multiplied_as_stored(p.lora.base_format, p.recipe.precision)

    def _quantise(self, launch: Launch, op: Operator, elements: float, own: float, weight: float, share: float) -> None:
        """Add the casts next to a product: of its weight, and of the operand's elements that do not arrive quantised.

        Args:
            launch: The product.
            op: Its operator.
            elements: Elements of the operand.
            own: Share of them that is cast here.
            weight: Weight elements that are cast.
            share: Share of the product that runs.
        """
        recipe = self.pricing.recipe
        if op.number_class != "linear" or not recipe.quantise_bytes:
            return
        learns = op.trainable  # a weight gradient reads the second copy of both operands
        copies = 1.0 if learns else recipe.one_copy
        moved = (elements * own * copies + weight) * recipe.quantise_bytes * share
        if own < 1.0 and learns:
            moved += elements * self.pricing.coefficients.transpose_bytes.get(recipe.linear, 0.0) * share
        if op.kind == Kind.GROUPED_GEMM and self.pricing.fused_grouped_quantise:
            moved *= 0.5  # the cast happens where the tokens are written anyway
        p = self.pricing
        launch.alone_s += float(pointwise_time_s(p.device, p.coefficients, _one(moved)))
        launch.hbm_bytes += moved
        launch.kernels += op.groups if op.kind == Kind.GROUPED_GEMM and self.pricing.loops else 1

    def _own_input_bytes(self, op: Operator) -> float:
        """Bytes that an adapter moves for each element of its own input: casts to fp32 and back, dropout with a mask.

        Backward does as much with the gradient. Source: PEFT 0.17, `tuners/lora/layer.py` (`_cast_input_dtype`).
        """
        p = self.pricing
        cast = p.adapter_bytes > op.element_bytes
        moved = 2.0 * (p.adapter_bytes + op.element_bytes) if cast else 0.0
        if p.lora is not None and p.lora.dropout:
            moved += 2.0 * p.adapter_bytes + 1.0
        return moved

    def _magnitudes(self, launch: Launch, op: Operator, outputs: float, *, backward: bool) -> float:
        """Add DoRA's work to a launch and return the bytes that it moves.

        Forward: the adapter's weights are multiplied out, scaled and added to the base weight, and each row's norm is
        taken (write; read, write; two reads, a write; a read: seven passes over the weight, and unpacking a quantised
        base once more); both branches are multiplied by the magnitudes (four passes over the outputs). Backward: the
        norm is a constant; the gradient is multiplied for both branches and with both results (eight passes).
        Source: Liu et al. 2024 (arXiv 2402.09353), equation 11; PEFT 0.17 `tuners/lora/dora.py`.
        """
        launch.kernels += 6
        if backward:
            return 8.0 * outputs * op.m * op.element_bytes
        assert self.pricing.lora is not None
        base = self.pricing.lora.base_format
        again = UNPACKED_BYTES[base] + op.element_bytes if base else 0.0
        launch.flop += 2.0 * outputs * op.k * self.pricing.lora.rank
        return 4.0 * outputs * op.m * op.element_bytes + outputs * op.k * (7.0 * op.element_bytes + again)

    def _adapter(self, launch: Launch, op: Operator, passes: tuple[float, float], share: float) -> None:
        """Add a low-rank adapter next to a frozen product: its thin products and additions are passes over its tensors.

        Forward: read the input, write the adapter's output, scale and add it to the product's (4 passes of n, one of
        k). Backward: scale and read the gradient twice (4 of n), read the input, write and add its gradient (5 of k).
        A base in few bits is unpacked to 16 bits before each use.

        Source: Hu et al. 2021 (arXiv 2106.09685), equation 3.

        Args:
            launch: The product's launch.
            op: The product.
            passes: Passes over the adapters' outputs, and over their inputs.
            share: Share of the product that runs.
        """
        p = self.pricing
        if p.lora is None or op.kind != Kind.GEMM or op.number_class != "linear":
            return
        base = p.lora.base_format
        moved = op.n * op.k * (UNPACKED_BYTES[base] + op.element_bytes) * share if base else 0.0
        if self._stored_as_multiplied:
            transposed = launch.phase == "D" and base == "fp8" and p.device.generation in ROW_BY_COLUMN_ONLY
            moved = op.n * op.k * TRANSPOSED_BYTES * share if transposed else 0.0
        if op.adapters:
            outputs, inputs = op.n * sum(op.adapters), op.k * len(op.adapters)
            backward = launch.phase == "D"
            if p.lora.rotation_block is not None:
                passes = (0.0, 3.0 if backward else 2.0)
            moved += op.element_bytes * op.m * (passes[0] * outputs + passes[1] * inputs) * share
            moved += op.m * inputs * self._own_input_bytes(op) * share
            thin = 2.0 * op.m * p.lora.rank * (outputs + inputs)
            if p.lora.rotation_block is not None:  # the rotation itself, and five terms of the series that makes it
                thin = 2.0 * inputs * p.lora.rotation_block * (op.m + 5.0 * p.lora.rotation_block)
            launch.flop += thin * share * (2.0 if backward else 1.0)
            launch.kernels += 3 * len(op.adapters)
            if p.lora.dora:
                moved += self._magnitudes(launch, op, outputs, backward=backward) * share
        launch.alone_s += float(pointwise_time_s(p.device, p.coefficients, _one(moved)))
        launch.hbm_bytes += moved

    def _gemm(self, launch: Launch, op: Operator, m: float, n: float, k: float, share: float, extra: float) -> None:
        p, rows = self.pricing, self._gemms
        grouped = op.kind == Kind.GROUPED_GEMM
        groups = op.groups if op.kind in (Kind.GROUPED_GEMM, Kind.BATCHED_GEMM) else 1.0
        if grouped:  # rows are those of all groups together; whichever dimension they take is cut
            if launch.phase == "W":
                k = k / groups
            else:
                m = m / groups
        fmt = p.recipe.format_of(op)
        key = fmt if fmt in p.coefficients.gemm_fraction else "bf16"  # files state bf16 for all of two bytes and more
        fraction, names = p.coefficients.gemm_fraction[key], [f"gemm_fraction.{key}"]
        if p.rowwise and fmt == "fp8":
            fraction *= p.coefficients.rowwise_fraction
            names.append("rowwise_fraction")
        if grouped and not p.fused_experts:
            fraction *= p.coefficients.grouped_fraction
            names.append("grouped_fraction")
        operand, aligned_share = OPERAND_BYTES[fmt], 1.0
        if not aligned(p.device, op.n, op.k, operand, fmt):
            name = "unaligned_batched_fraction" if op.kind == Kind.BATCHED_GEMM else "unaligned_fraction"
            names.append(name)
            aligned_share = getattr(p.coefficients, name)
        launch.fractions = tuple(names)
        rows.m.append(m)
        rows.n.append(n)
        rows.k.append(k)
        rows.groups.append(1.0 if grouped and p.loops else groups)
        rows.peak.append(p.device.peak(fmt))
        rows.fraction.append(fraction)
        rows.operand.append(operand)
        rows.output.append(op.element_bytes)
        rows.extra.append(extra / groups if grouped and p.loops else extra)
        rows.aligned_share.append(aligned_share)
        rows.launch.append(launch)
        rows.group_s.append(p.coefficients.group_s * groups if grouped and not p.fused_experts else 0.0)
        rows.repeat.append(groups if grouped and p.loops else 1.0)
        if grouped and p.loops:
            launch.kernels += groups - 1
        launch.kind = "grouped gemm" if grouped else "gemm"
        launch.number_format, launch.shape = fmt, (m, n, k, groups)
        launch.sm = share  # share of the product that runs (per-operator recomputation); becomes 1 when priced
        launch.flop += 2.0 * m * n * k * groups * share
        read = operand * (m * k + k * n)
        if p.device.rereads:
            read = float(operand_reads(p.device, *map(_one, (m, n, k, operand, op.element_bytes)))[0])
        launch.hbm_bytes += share * (groups * (read + op.element_bytes * m * n) + extra)

    def _other(self, launch: Launch, op: Operator, share: float, *, backward: bool) -> None:
        p = self.pricing
        moved = op.backward_bytes if backward else op.forward_bytes
        launch.kind = "softmax" if op.row_reduction else _TAG[op.kind]
        if op.kind == Kind.ATTENTION:
            launch.shape = (op.pairs, op.heads, op.d_qk, op.d_v)
            seconds = attention_time_s(
                p.device,
                p.coefficients,
                AttentionWork(
                    pairs=_one(op.pairs),
                    heads=_one(op.heads),
                    d_qk=_one(op.d_qk),
                    d_v=_one(op.d_v),
                    seq_len=_one(op.seq_len),
                    kernel=p.attention,
                    backward=backward,
                    queries=_one(op.m),
                    number_format=p.recipe.other,
                ),
            )
            seconds = seconds * (1.0 + p.coefficients.ring_overhead * (op.ring - 1.0) / op.ring)
            seconds = seconds + (op.ring - 1.0) * p.coefficients.attention_floor_s  # each block of keys is a kernel
            flop = 2.0 * op.pairs * op.heads * (op.d_qk + op.d_v) * (2.5 if backward else 1.0)
            launch.flop += flop * share
            moved = (
                op.m
                * (op.heads * (op.d_qk + op.d_v) + op.kv_heads * (op.d_qk + op.d_v))
                * op.element_bytes
                * (2.5 if backward else 1.0)
            )
        elif op.kind == Kind.SCAN:
            flop = op.forward_flop * (op.backward_flop_ratio if backward else 1.0)
            seconds = scan_time_s(p.device, p.coefficients, _one(flop), _one(moved), number_format=p.recipe.other)
            launch.flop += flop * share
        else:
            seconds = pointwise_time_s(p.device, p.coefficients, _one(moved), row_reduction=op.row_reduction)
            if op.dependent_loads and not backward:
                seconds = seconds + op.dependent_loads * DEPENDENT_LOAD_S
        launch.alone_s += float(seconds) * share
        launch.hbm_bytes += moved * share

    def _collective(
        self, segment: Segment, op: Operator, operation: str, size: float, after: list[int], phase: str, last: int
    ) -> int:
        """Add a collective; returns the index of the launch that the next operator waits for."""
        pricing = self.pricing
        if not operation or size <= 0 or op.axis not in pricing.groups:
            return last
        place = pricing.groups[op.axis]
        if float(place.size) <= 1:
            return last
        beside_attention = operation in ("ring_exchange", "token_exchange")
        if beside_attention:
            cost = self._neighbour_exchange(op, operation, size, phase, place)
        else:
            cost = self._group_collective(op, operation, size, place)
        launch = Launch(
            name=op.name,
            tag={"tp": "tp", "ep": "ep", "etp": "ep"}.get(op.axis, "cp"),
            stream=COMM,
            alone_s=float(cost.alone_s),
            after=list(after),
            sm=min(float(cost.channels) / pricing.device.num_sms, 0.5),
            hbm_bytes=float(cost.hbm_bytes),
            up_bytes=float(cost.work_scale_up_bytes),
            out_bytes=float(cost.work_scale_out_bytes),
            module=op.module,
            phase=phase,
            beside=op.overlap_with,
            ranks=float(place.size),
            operation=operation,
            kind="collective",
            algorithm=str(cost.algorithm),
            latency_s=float(cost.latency_s),
        )
        if beside_attention:
            # forward it precedes the attention that it runs next to, backward it follows that attention
            follows = last >= 0 and segment.launches[last].name == op.overlap_with
            if follows:
                launch.after = list(segment.launches[last].after)
            index = segment.append(launch)
            self._pending.append((index, 0 if follows else 1))
            return last
        if pricing.overlap_a2a and launch.tag == "ep":
            launch.stream = ASIDE
            segment.append(launch)  # the partner micro-batch computes meanwhile; only the link and its SMs are taken
            return last
        return self._append(segment, launch)

    def _neighbour_exchange(
        self, op: Operator, operation: str, size: float, phase: str, place: GroupPlacement
    ) -> CollectiveTime:
        """Time and work of all steps of an exchange around a context-parallel ring."""
        network, steps = self.pricing.network, float(place.size) - 1
        if operation == "ring_exchange":
            step = network.collective("send_recv", size / steps, _pair(place))
        else:
            back = op.backward_return_size_bytes if phase == "B" else op.return_size_bytes
            step = network.two_flows(size / steps, back / steps, _pair(place))
        return replace(
            step,
            alone_s=step.alone_s * steps,
            work_scale_up_bytes=step.work_scale_up_bytes * steps,
            work_scale_out_bytes=step.work_scale_out_bytes * steps,
            hbm_bytes=step.hbm_bytes * steps,
            latency_s=step.latency_s * steps,
        )

    def _group_collective(self, op: Operator, operation: str, size: float, place: GroupPlacement) -> CollectiveTime:
        """Time and work of a collective of the whole group; expert all-to-alls send fewer copies in two levels."""
        pricing, ranks = self.pricing, float(place.size)
        unique_out_fraction = 1.0
        of_experts = operation == "all_to_all" and op.axis == "ep"
        if of_experts and pricing.two_level_a2a:
            # one copy a node and one a rank, which the rank's own experts share; a plain all-to-all sends them all
            domains = float(place.num_domains)
            arriving = min(pricing.topk, distinct_destinations(ranks, pricing.topk))
            size *= arriving / pricing.topk
            if domains > 1:
                nodes = float(pricing.expert_nodes or domains)
                reached = min(distinct_destinations(domains, pricing.topk), nodes)
                unique_out_fraction = min(1.0, reached / arriving)
        if of_experts and pricing.local_share is not None:
            size *= (1.0 - pricing.local_share) / (1.0 - 1.0 / ranks)
        return pricing.network.collective(
            operation,
            size,
            place,
            axis=op.axis.partition("_")[0],
            load=AllToAllLoad(1.0, unique_out_fraction, pricing.two_level_a2a and operation == "all_to_all"),
        )


def _pair(place: GroupPlacement) -> GroupPlacement:
    """Placement of two neighbouring ranks of a group."""
    crosses = float(place.num_domains) > 1
    one, two = np.asarray(1.0), np.asarray(2.0)
    return GroupPlacement(
        size=two,
        ranks_per_domain=one if crosses else two,
        num_domains=two if crosses else one,
        groups_per_domain=np.asarray(place.groups_per_domain) * np.asarray(place.ranks_per_domain),
        stride=np.asarray(place.stride),
        torus_axes=one,
        torus_hops=one,
    )
