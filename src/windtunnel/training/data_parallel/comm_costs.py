"""Seconds and work of data-parallel traffic: gradient buckets, parameter gathers, sharded layers, the optimizer."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Rows
from windtunnel.cost.coefficients import Coefficients, coefficients
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.cost.memory_bound import OPTIMIZER_STATE_BYTES, optimizer_bytes, optimizer_time_s
from windtunnel.network.groups import GroupPlacement, placement
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.program.comm_work import CommWork
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.data_parallel.gradient_compression import (
    KERNEL_SMS,
    CollectiveCost,
    CompressedExchange,
    Shapes,
    gathered_moved,
    gathered_wire,
)
from windtunnel.training.data_parallel.hierarchical_zero import gather_passes, level_place, reduce_passes, wire_bytes
from windtunnel.training.data_parallel.muon import UPDATE_BYTES, Orthogonalisation
from windtunnel.training.data_parallel.per_tensor_zero3 import GATHER_PASSES, REDUCE_PASSES, TensorLists
from windtunnel.training.offload.host_optimizer import HostUpdate, is_spelt_out
from windtunnel.training.stage_costs.stage_costs import StageCosts

_LEAST_SHARE = 1e-12
"""Stands for a share of trained weights of zero, which has nothing to gather."""


class DataParallelComm(ABC):
    """Seconds and work of data-parallel collectives and of the optimizer, for each of K virtual stages.

    Abstract: `GroupComm` prices ranks on one kind of devices, `CrossGroupComm` stages on several.
    """

    def __init__(
        self,
        stages: StageCosts,
        plan: ResolvedPlan,
        cluster: ClusterSpec,
        training: TrainingSpec,
        behaviour: Behaviour,
        options: StepOptions,
    ) -> None:
        self.stages, self.plan, self.cluster, self.training, self.behaviour = stages, plan, cluster, training, behaviour
        self.options = options
        self.size = plan.dp * plan.cp * plan.copies
        self.replicated = self.size > 1
        """Whether gradients are reduced at all: among these replicas, or between them and others."""
        self.edp = max(plan.expert_dp, 1)
        self.gather_at_start = options.overlap_param_gather and plan.zero in (1, 2) and behaviour.shard_optimizer
        if training.optimizer == "muon" and behaviour.muon_owners:
            self.gather_at_start = False  # the layer-wise optimizer gathers inside its step
        self.trainable = stages.trainable_share
        by_tensor = behaviour.gathers_by_tensor and plan.zero == 3 and self.size > 1
        self.lists = TensorLists.of(stages.graph) if by_tensor else None
        self.local = plan.local_steps
        given = plan.compression.gradients
        self.exchange: CompressedExchange | None = None
        if given is not None and self.size > 1:
            chosen = coefficients(training.framework, cluster.device, cluster)
            shapes = Shapes.of(stages.graph, plan, given)
            self.exchange = CompressedExchange(given, shapes, options.grad_bytes, cluster.device, chosen)

    def bucket_counts(self) -> Rows:
        """Pieces of each virtual stage's gradients: by size when one is given, else at most one a layer."""
        stages, options = self.stages, self.options
        if options.bucket_bytes:
            size = (stages.dense_params + stages.expert_params) * options.grad_bytes
            return np.clip(np.ceil(size / options.bucket_bytes), 1, 512).astype(np.int64)
        return np.minimum(np.maximum(stages.layers, 1), options.buckets_per_chunk).astype(np.int64)

    def launched(self) -> tuple[float, float]:
        """Seconds of one layer in which the device waits for the host: next to its gather, and its reduction."""
        if self.lists is None:
            return 0.0, 0.0
        each = self.lists.host_s(self.plan.shard_group)
        return each, each * (self.trainable > 0.0)

    @abstractmethod
    def reduce(self, pieces: npt.ArrayLike) -> CommWork:
        """One gradient bucket of each virtual stage, without what `between_slices` and `once_a_step` count.

        Args:
            pieces: Buckets of each virtual stage, shape (K,) or one number for all.
        """

    @abstractmethod
    def gather(self, pieces: npt.ArrayLike, *, for_backward: bool = False) -> CommWork:
        """One parameter bucket of each virtual stage; for backward, from a second copy where a plan keeps one.

        Args:
            pieces: Buckets of each virtual stage, shape (K,) or one number for all.
            for_backward: Whether backward needs the parameters, not forward.
        """

    @abstractmethod
    def between_slices(self, pieces: npt.ArrayLike) -> CommWork:
        """A bucket's all-reduce between replicas where it goes tensor by tensor through hosts.

        It takes seconds and sends scale-out bytes; its use of SMs and device memory is not counted.
        """

    @abstractmethod
    def tied_seconds(self, p: int) -> float:
        """Seconds to add up the gradient of an embedding that the first and the last of `p` stages share."""

    def gather_seconds(self) -> Floats:
        """Whole parameter gather per virtual stage."""
        return self.gather(1.0).seconds

    def averaged(self) -> CommWork:
        """What one step carries of the average of replicas that a round of local steps ends with."""
        assert self.local is not None
        whole = self.stages.dense_params * self.options.grad_bytes * self.trainable
        cost = self._run("all_reduce", whole, self.stages.dp_place)
        work = cost.work
        if self.stages.expert_params.any():
            expert = self.stages.expert_params * self.options.grad_bytes * self.trainable
            work = work + self._run("all_reduce", expert, self.stages.expert_dp_place).work
        return work.on_sms(self._sm_share(cost.channels)) / self.local.steps

    def once_a_step(self, pieces: npt.ArrayLike) -> CommWork:
        """The part of a piece's reduction that runs once a step, where gradients are scattered level by level.

        It takes seconds and sends bytes; its use of SMs and device memory is not counted.
        """
        levels, cut = self.plan.levels, np.asarray(pieces, np.float64)
        inner = levels.gradients if levels else None
        if inner is None or inner >= self.plan.shard_group:
            return CommWork.of(np.zeros_like(cut))
        params, bits = self.stages.dense_params / cut * self.trainable / inner, self._level_bits()
        place = level_place(self.stages, self.plan, self.plan.shard_group // inner, inner)
        work = self._sized(
            "reduce_scatter", params * wire_bytes(bits), place, params * reduce_passes(bits, float(place.size))
        )
        return CommWork.of(work.seconds, scale_up_bytes=work.scale_up_bytes, scale_out_bytes=work.scale_out_bytes)

    def refreshed(self) -> Floats:
        """Seconds of each virtual stage to bring updated weights from optimizer state to where they are cut over."""
        levels = self.plan.levels
        own = levels.params if levels else None
        if own is None or own >= self.plan.shard_group:
            return np.zeros(len(self.stages.layers))
        place = level_place(self.stages, self.plan, self.plan.shard_group // own, own)
        return self._run(
            "all_gather", self.stages.dense_params * self.behaviour.element_bytes / own, place
        ).work.seconds

    def update_bytes(self) -> float:
        """Bytes of device memory that one parameter's update moves."""
        b, t = self.behaviour, self.training
        gradient = 4.0 if b.step_casts_gradients and self.plan.zero else b.grad_buffer_bytes
        return optimizer_bytes(t.optimizer, b.master_copy_bytes(t.master_weights), gradient, b.weight_bytes)

    def state_bytes(self) -> float:
        """Bytes of optimizer state and master weights of one parameter."""
        b, t = self.behaviour, self.training
        states = b.state_bytes if t.optimizer == "adam" else OPTIMIZER_STATE_BYTES[t.optimizer]
        return states + b.master_copy_bytes(t.master_weights)

    def updated(self) -> Floats:
        """Parameters of each virtual stage that one device updates, shape (K,)."""
        shard = self.plan.shard_group if self.plan.zero and self.behaviour.shard_optimizer else 1
        eshard = min(self.edp, shard) if shard > 1 else 1
        local: Floats = (self.stages.dense_params / shard + self.stages.expert_params / eshard) * self.trainable
        return local

    def host_update(self) -> HostUpdate:
        """What one parameter's update takes where its state lives."""
        b = self.behaviour
        return HostUpdate.of(
            self.cluster,
            self.plan.offload,
            moved=self.update_bytes(),
            state=self.state_bytes(),
            gradient=b.host_grad_bytes or b.grad_buffer_bytes,
            weight=b.weight_bytes,
            sent=self.options.grad_bytes,
        )

    def orthogonalised(self, coefficients: Coefficients, stage_of: Rows, p: int) -> Floats:
        """Seconds of each stage to orthogonalise Muon's updates and to exchange what that needs; 0 otherwise.

        Matrices outside experts are counted by layers, as means over the model.
        """
        if self.training.optimizer != "muon":
            return np.zeros(p)
        plan, layers = self.plan, np.asarray(self.stages.layers, np.float64)
        found = Orthogonalisation.of(self.stages.graph, plan, self.cluster.device, coefficients)
        dense: Floats = np.bincount(stage_of, weights=layers, minlength=p).astype(np.float64)
        expert: Floats = np.bincount(stage_of, weights=self.stages.expert_params, minlength=p).astype(np.float64)
        sharded = plan.zero and (self.behaviour.shard_optimizer or plan.zero == 3)
        ranks = float(plan.shard_group if sharded else 1)
        expert_ranks = float(min(self.edp, plan.shard_group) if sharded else 1)
        ranges = plan.zero in (1, 2) and not self._whole_matrices
        seconds = found.layer.slowest_s(dense, ranks, ranges=ranges)
        seconds = seconds + found.expert.slowest_s(expert, expert_ranks, ranges=ranges)
        if not sharded or self._whole_matrices:
            return seconds
        places = (self._shard_places()[0], ranks), (self.stages.expert_dp_place, expert_ranks)
        for weights, (place, size) in zip((dense * found.layer.weights, expert), places, strict=True):
            if size > 1 and weights.any():
                nbytes = weights * UPDATE_BYTES
                seconds = seconds + (
                    self._run("all_gather", nbytes, place).work.seconds
                    if plan.zero < 3
                    else 2.0 * self._run("all_to_all", nbytes / size, place).work.seconds
                )
        return seconds

    @property
    def _whole_matrices(self) -> bool:
        """Whether ZeRO-1 and ZeRO-2 give ranks whole matrices, of whose gradients each rank then has all."""
        b, owned = self.behaviour, self.training.optimizer == "muon"
        return self.plan.zero in (1, 2) and (b.whole_tensor_owners or (owned and b.muon_owners))

    def optimizer_seconds(self, coefficients: Coefficients, stage_of: Rows, p: int) -> Floats:
        """Optimizer update per stage: what follows the last gradient, but for what the step's tasks spell out."""
        return self.updated_seconds(coefficients, stage_of, p) + self.orthogonalised(coefficients, stage_of, p)

    def updated_seconds(self, coefficients: Coefficients, stage_of: Rows, p: int) -> Floats:
        """Element-wise update per stage, without what makes matrices orthogonal."""
        per_stage = np.bincount(stage_of, weights=self.updated(), minlength=p)
        offload, per = self.plan.offload, self.update_bytes()
        away = offload.optimizer
        slower = np.array([optimizer_time_s(self.cluster.device, coefficients, x * (1 - away), per) for x in per_stage])
        if away and not is_spelt_out(offload):
            slower = np.maximum(slower, per_stage * away * self.host_update().seconds(offload))
        if away and offload.widening == "host":
            slower = slower + per_stage * away * self.host_update().widen
        if self.local is not None:  # replicas' average against where the round began, through a momentum
            moved = self.options.grad_bytes + 8.0 + 8.0 * self.local.momentum + self.behaviour.weight_bytes
            outer = np.array([optimizer_time_s(self.cluster.device, coefficients, x, moved) for x in per_stage])
            slower = slower + outer / self.local.steps
        return slower + coefficients.step_overhead_s + self.training.input_s

    def _shard_places(self) -> tuple[GroupPlacement, GroupPlacement | None]:
        """Placement of the shard group and, under HSDP, of its replicas."""
        if self.plan.shard_group >= self.size:
            return self.stages.dp_place, None
        stride = self.stages.mesh.strides["cp"]
        mesh, group = self.stages.mesh, self.plan.shard_group
        return mesh.strided(group, stride), mesh.strided(self.size // group, stride * group)

    def _run(self, op: str, nbytes: Floats, place: GroupPlacement) -> CollectiveCost:
        if float(place.size) <= 1:
            return CollectiveCost(CommWork.of(np.zeros_like(nbytes)), 0.0)
        found = self.stages.network.collective(op, nbytes, place, axis="dp")
        shape = np.shape(nbytes)
        work = CommWork.of(
            np.broadcast_to(np.asarray(found.alone_s, np.float64), shape),
            scale_up_bytes=found.work_scale_up_bytes,
            scale_out_bytes=found.work_scale_out_bytes,
            hbm_bytes=found.hbm_bytes,
        )
        return CollectiveCost(work, float(np.max(found.channels)))

    def _sm_share(self, channels: float) -> float:
        """Share of the device's units that a collective keeps busy: never more than half of an accelerator's.

        A CPU's library copies on the cores that compute, for as long as it copies.
        """
        device = self.cluster.device
        return min(channels / device.num_sms, 1.0 if device.kind == "cpu" else 0.5)

    def _memory_passes(self, nbytes: Floats) -> CommWork:
        """Passes over device memory at the ends of a collective."""
        return CommWork.of(nbytes / self.cluster.device.memory_bytes_per_s, hbm_bytes=nbytes)

    def _sized(self, op: str, nbytes: Floats, place: GroupPlacement, passes: Floats) -> CommWork:
        """A collective at one level, with the passes over memory at its ends (`passes` bytes)."""
        cost = self._run(op, nbytes, place)
        return (cost.work + self._memory_passes(passes)).on_sms(self._sm_share(cost.channels))

    def _level_bits(self) -> int:
        levels = self.plan.levels
        return int((levels and levels.reduce_bits) or 8 * self.options.grad_bytes)


class GroupComm(DataParallelComm):
    """Data-parallel communication among ranks on one kind of devices."""

    def _in_lists(self, op: str, nbytes: Floats, passes: float, place: GroupPlacement) -> CollectiveCost:
        """A layer's collective; tensor by tensor, with the copies out of, or into, the list of pieces of each."""
        if self.lists is None:
            return self._run(op, nbytes, place)
        count = self.lists.tensors
        one = self._run(op, nbytes / count, place)
        return CollectiveCost(one.work * count + self._memory_passes(nbytes * passes), one.channels)

    def _with_experts(self, cost: CollectiveCost, op: str, expert_bytes: Floats) -> CommWork:
        """A collective of dense weights, followed by that of the experts' weights where a model has experts."""
        work = cost.work
        if expert_bytes.any():
            work = work + self._run(op, expert_bytes, self.stages.expert_dp_place).work
        return work.on_sms(self._sm_share(cost.channels))

    def _level_gather(self, pieces: npt.ArrayLike, *, for_backward: bool) -> CommWork:
        """A piece's weights from the level that has them nearest."""
        levels, params = self.plan.levels, self.stages.dense_params / np.asarray(pieces, np.float64)
        assert levels is not None
        own = levels.params or self.plan.shard_group
        if for_backward and levels.params_again:
            place = level_place(self.stages, self.plan, levels.params_again)
            return self._sized("all_gather", params * self.behaviour.element_bytes, place, 0.0 * params)
        bits = levels.gather_bits
        passes = params * gather_passes(bits, own)
        return self._sized("all_gather", params * wire_bytes(bits), level_place(self.stages, self.plan, own), passes)

    def _level_reduce(self, pieces: npt.ArrayLike) -> CommWork:
        """A piece's gradients among the ranks that scatter them after every micro-batch."""
        levels, params = self.plan.levels, self.stages.dense_params / np.asarray(pieces, np.float64) * self.trainable
        assert levels is not None
        size, bits = levels.gradients or self.plan.shard_group, self._level_bits()
        place, passes = level_place(self.stages, self.plan, size), params * reduce_passes(bits, size)
        return self._sized("reduce_scatter", params * wire_bytes(bits), place, passes)

    def reduce(self, pieces: npt.ArrayLike) -> CommWork:
        """One gradient bucket of each virtual stage among its replicas."""
        if self.plan.levels is not None:
            return self._level_reduce(pieces)
        cut = np.asarray(pieces, np.float64)
        if self.local is not None:
            return CommWork.of(np.zeros(np.broadcast_shapes(cut.shape, self.stages.dense_params.shape)))
        if self.exchange is not None:
            return self._compressed(self.exchange, cut)
        grads = self.options.grad_bytes * self.trainable
        dense, expert = self.stages.dense_params * grads / cut, self.stages.expert_params * grads / cut
        shard, replicas = self._shard_places()
        zero = self.plan.zero if self.behaviour.shard_optimizer else 0
        whole = self.behaviour.bf16_all_reduce and self.training.precision == "bf16" and zero == 1
        op = "all_reduce" if zero == 0 or whole or self._whole_matrices else "reduce_scatter"
        if self._owns_tensors:
            shard, replicas = self.stages.dp_place, None
        cost = self._in_lists(op, dense, REDUCE_PASSES, shard)
        if replicas is not None and not self._by_tensor:
            among = self._run("all_reduce", dense / self.plan.shard_group, replicas)
            cost = CollectiveCost(cost.work + among.work, cost.channels)
        return self._with_experts(cost, op, expert)

    def _compressed(self, exchange: CompressedExchange, cut: Floats) -> CommWork:
        """One bucket of each virtual stage where less than the gradients travels."""
        weights = self.stages.dense_params * self.trainable / cut
        shard, replicas = self._shard_places()
        zero = self.plan.zero if self.behaviour.shard_optimizer else 0
        work = self._exchanged(exchange, "all_reduce" if zero == 0 else "reduce_scatter", weights, shard)
        if replicas is not None:
            work = work + exchange.reduce(self._run, "all_reduce", weights / self.plan.shard_group, replicas)
        return work

    def _exchanged(self, exchange: CompressedExchange, op: str, weights: Floats, place: GroupPlacement) -> CommWork:
        """One compressed reduction; between nodes alone where that is asked for."""
        inside, mesh, stride = int(place.ranks_per_domain), self.stages.mesh, int(place.stride)
        between = exchange.given.between
        if between == "ranks" or inside == 1 or float(place.num_domains) == 1:
            return exchange.reduce(self._run, op, weights, place)
        near, far = mesh.strided(inside, stride), mesh.strided(int(place.size) // inside, stride * inside)
        steps = [exchange.reduce(self._run, op, weights / inside, far)]
        if between == "levels":
            steps.append(exchange.reduce(self._run, "reduce_scatter", weights, near))
            steps += [exchange.gather(self._run, weights, near)] * (op == "all_reduce")
        else:
            whole = weights * exchange.grad_bytes
            names = ("reduce_scatter", "all_gather")[: 2 if op == "all_reduce" else 1]
            steps += [self._sized(name, whole, near, 0.0 * whole) for name in names]
        return CommWork.total(steps)

    @property
    def _by_tensor(self) -> bool:
        return self.stages.network.params.out.by_tensor

    def between_slices(self, pieces: npt.ArrayLike) -> CommWork:
        """A bucket's all-reduce between replicas, one tensor after the other."""
        cut = np.asarray(pieces, np.float64)
        grads = self.stages.dense_params * self.options.grad_bytes * self.trainable / cut
        _, replicas = self._shard_places()
        if replicas is None or not self._by_tensor:
            return CommWork.of(np.zeros_like(grads))
        tensors = self._tensors()
        work = self._run("all_reduce", grads / self.plan.shard_group / tensors, replicas).work
        return CommWork.of(work.seconds * tensors, scale_out_bytes=work.scale_out_bytes * tensors)

    def _tensors(self) -> float:
        """Weight tensors of a layer, mean over the depth: queries, keys and values apart, gate and up apart."""
        graph = self.stages.graph
        total = 0.0
        for kind in graph.depth:
            inner = {op.name: op.k for op in graph.blocks[kind].operators}
            for op in graph.blocks[kind].operators:
                down = inner.get(op.name.replace("fc1", "fc2"), 0.0) if op.name.endswith("fc1") else 0.0
                total += 0.0 if not op.params else 3.0 if op.name == "qkv" else op.n / down if down else 1.0
        return total / len(graph.depth)

    def gather(self, pieces: npt.ArrayLike, *, for_backward: bool = False) -> CommWork:
        """One parameter bucket of each virtual stage among the ranks that shard it.

        Under ZeRO-1 and ZeRO-2 a gather carries what the optimizer has updated: frozen weights are whole on every rank.
        """
        if self.plan.levels is not None:
            return self._level_gather(pieces, for_backward=for_backward)
        cut = np.asarray(pieces, np.float64)
        if self.plan.zero in (1, 2):
            cut = cut / max(self.trainable, _LEAST_SHARE)
        quantised = self.behaviour.quantised_param_gather and self.training.precision == "fp8"
        width = 1.0 if self.training.float8_all_gather or quantised else self._stored_bytes()
        shard, _ = self._shard_places()
        bits, block = self.plan.compression.gather_bits, self.plan.compression.gather_block
        if bits is not None:
            return self._gather_in(gathered_wire(bits, block), cut, shard)
        if self._owns_tensors:
            return self._broadcasts(width, cut, shard)
        cost = self._in_lists("all_gather", self.stages.dense_params * width / cut, GATHER_PASSES, shard)
        return self._with_experts(cost, "all_gather", self.stages.expert_params * width / cut)

    @property
    def _owns_tensors(self) -> bool:
        return self.behaviour.whole_tensor_owners and self.plan.zero in (1, 2)

    def _broadcasts(self, width: float, cut: Floats, shard: GroupPlacement) -> CommWork:
        """Updated weights of one of `cut` buckets from their owners, one message after the other.

        There are as many owners as ranks, or as tensors where these are fewer; each message goes down the whole chain.
        `width`: bytes of one weight.
        """
        total = []
        for params, place in (
            (self.stages.dense_params, shard),
            (self.stages.expert_params, self.stages.expert_dp_place),
        ):
            if not params.any():
                continue
            tensors = np.maximum(self.stages.layers * self._tensors(), 1.0)
            owners = np.maximum(np.minimum(float(place.size), tensors) / cut, 1.0)
            cost = self._run("broadcast", params * width / cut / owners, place)
            total.append((cost.work * owners).on_sms(self._sm_share(cost.channels)))
        return CommWork.total(total)

    def _stored_bytes(self) -> float:
        """Bytes of one weight as shards hold and send it: a base in few bits is gathered as it is stored."""
        return self.behaviour.element_bytes * self.stages.stored_share

    def _gather_in(self, wire: float, cut: Floats, shard: GroupPlacement) -> CommWork:
        """One parameter bucket of each virtual stage in few bits: `wire` bytes for each weight."""
        cost = self._in_lists("all_gather", self.stages.dense_params * wire / cut, 0.0, shard)
        work = self._with_experts(cost, "all_gather", self.stages.expert_params * wire / cut)
        weights = (self.stages.dense_params + self.stages.expert_params) / cut
        given, chosen = self.plan.compression, coefficients(self.training.framework, self.cluster.device, self.cluster)
        assert given.gather_bits is not None
        each = gathered_moved(given.gather_bits, given.gather_block, self.behaviour.element_bytes, float(shard.size))
        kernels = weights * each / (self.cluster.device.memory_bytes_per_s * chosen.memory_fraction)
        kernels = np.where(weights > 0, kernels + 2.0 * chosen.gemm_floor_s, 0.0)
        return work + CommWork.of(kernels, sm_seconds=kernels * KERNEL_SMS, hbm_bytes=weights * each)

    def tied_seconds(self, p: int) -> float:
        """All-reduce of the shared embedding's gradient between the first and the last stage."""
        own = self.stages.graph.embedding.params / self.plan.tp * self.options.grad_bytes
        place = placement(2, self.stages.mesh.strides["pp"] * (p - 1), self.cluster.scale_up_domain)
        return float(self.stages.network.collective("all_reduce", own, place, axis="pp").alone_s)
