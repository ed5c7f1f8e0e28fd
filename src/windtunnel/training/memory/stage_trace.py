"""Allocations and frees of single tensors on one pipeline stage, in host order, for the block-allocator model.

Sums of tensors by kind hide fragmentation: how much a caching allocator reserves depends on the order and the sizes of
single tensors. This module writes out the host program of a stage tensor by tensor (`layer_trace` writes the layers):
weights and buffers, a first step without optimizer state, the state as the first optimizer step creates it in the
memory that activations left, and a second step. Micro-batches beyond those that are in flight together repeat what was
allocated before and are left out.

Sources: Megatron-Core `param_and_grad_buffer.py` (weights move into one buffer, their first copies are freed) and
`distrib_optimizer.py` (one master tensor per parameter); optimizers of PyTorch and TransformerEngine (moments are
created in the first step).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask, Rows
from windtunnel.cost.quantised_base import multiplied_as_stored
from windtunnel.graph import PREDICTED, Block, Kind
from windtunnel.parallel.expert import GATHERS
from windtunnel.parallel.precision import low_precision
from windtunnel.parallel.recompute import recomputing
from windtunnel.parallel.tensor import tensor_bytes
from windtunnel.schedules.table import B, F, W
from windtunnel.specs.number_formats import MATRIX_FORMAT
from windtunnel.specs.plan import Recompute
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.memory.layer_trace import (
    LayerPosition,
    LayerSettings,
    LayerTrace,
    LayerTraceWriter,
)
from windtunnel.training.memory.live_weights import gathers_by_weight
from windtunnel.training.memory.memory_inputs import MemoryInputs
from windtunnel.training.memory.tensor_events import (
    FIRST,
    FIRST_COPY,
    GATHERED,
    GRADIENT,
    OPTIMIZER,
    OUTPUTS,
    REDUCE,
    STAGE_OUTPUT,
    STRIDE,
    TEMPORARY,
    WEIGHT,
    WORKSPACE,
    TensorEvents,
)
from windtunnel.training.stage_costs.adapters import frozen_share, lora_of, stored_layer_bytes
from windtunnel.training.stage_costs.autocast import CAST_BYTES, casts_weights
from windtunnel.training.stage_costs.local_block import is_compiled

STEP_BYTES_8BIT = 12.0
"""Bytes per element of the tensor being updated: the parameter and both moments in fp32, while an 8-bit optimizer works
on them. Source: torchao `optim/adam.py` (`single_param_adam`)."""
MUON_BYTES = 10.0
"""Bytes per element of a matrix whole over its shards: the update in fp32 and, in 16 bits, its orthogonalised form, a
copy and a term of the polynomial. Source: Jordan et al. 2024, Muon (reference code, five Newton-Schulz iterations in
bf16)."""
SUB_GROUP = 1e9
"""Parameters that ZeRO-3 updates at a time. Source: DeepSpeed `runtime/zero/config.py` (`sub_group_size`)."""
_JOINED = STAGE_OUTPUT - 1
"""Number, in the head's layer, of the joined outputs: the head has no gradient buffer of its own there."""


@dataclass(frozen=True, slots=True)
class StageEvents:
    """Allocations and frees as arrays of shape (n,), with tensor numbers that are unique in the program."""

    sizes: Floats
    """Bytes; a negative size frees the tensor."""
    tensors: Ints
    streams: Ints
    kinds: Ints
    """Index into `tensor_events.KINDS`; without meaning where the event frees."""

    def shifted(self, by: int) -> StageEvents:
        """The same events on tensors whose numbers are larger by `by`."""
        return StageEvents(self.sizes, self.tensors + by, self.streams, self.kinds)


@dataclass(frozen=True, slots=True)
class StepEvents:
    """Events of one step on a stage."""

    before_backward: StageEvents
    """Events up to the first backward pass."""
    from_backward: StageEvents
    """All other events."""
    late_gradients: Ints
    """Tensor numbers of the gradients that remain at the end of the step."""
    num_tensors: int
    """Tensor numbers that the step uses."""


def _concatenate(events: Sequence[StageEvents]) -> StageEvents:
    if not events:
        return StageEvents(np.zeros(0), *(np.zeros(0, np.int64) for _ in range(3)))
    return StageEvents(
        np.concatenate([e.sizes for e in events]),
        np.concatenate([e.tensors for e in events]),
        np.concatenate([e.streams for e in events]),
        np.concatenate([e.kinds for e in events]),
    )


def _chunk(layers: Sequence[TensorEvents], positions: Sequence[int], width: int) -> StageEvents:
    """Events of the layers at these positions of a chunk, in this order; each layer has `width` tensor numbers."""
    events = []
    for layer, position in zip(layers, positions, strict=True):
        neighbour, local = np.divmod(np.array(layer.tensors, np.int64), STRIDE)
        numbers = (position + neighbour) * width + local
        columns = (np.array(column, np.int64) for column in (layer.streams, layer.kinds))
        events.append(StageEvents(np.array(layer.sizes, np.float64), numbers, *columns))
    return _concatenate(events)


def with_own_weights(head: Block) -> Block:
    """The head of a model with tied weights, on another stage than the embedding: it holds a copy."""
    own = tuple(replace(op, params=op.n * op.k) if op.name == "lm_head" else op for op in head.operators)
    return replace(head, operators=own)


def layer_settings(inputs: MemoryInputs) -> LayerSettings:
    """How the layers of a step allocate."""
    costs, plan, training, framework = inputs.costs, inputs.plan, inputs.training, inputs.framework
    adapters = lora_of(training)
    fp4 = MATRIX_FORMAT[training.precision] == "fp4"
    rooted = framework.root_gathered and not plan.fused_loss
    rooted = (rooted if training.fsdp_root_group is None else training.fsdp_root_group) and plan.pp == 1
    backward_step = training.optimizer_in_backward and training.optimizer == "adam8bit"
    ulysses = {"all_to_all": plan.cp, "hybrid": plan.cp_all_to_all, "all_gather": plan.cp}.get(plan.cp_kind, 1)
    ends = costs.graph.embedding.params + costs.graph.head.params
    loss = "in_place"
    if framework.eager_loss or (framework.trainer_eager_loss and training.phase != "pretrain"):
        loss = "compiled" if plan.fused_loss or framework.planned_memory else "eager"
    return LayerSettings(
        plan=plan,
        sharded=plan.zero == 3 and plan.reshard_after_forward and not plan.gather_block,
        scattered=plan.zero == 3 or (plan.zero == 2 and not framework.grads_persist),
        by_weight=framework.live_params if gathers_by_weight(costs, plan, framework) else 0.0,
        bucketed=bool(framework.reduce_bucket_params) and plan.zero > 0 and costs.trainable_share == 1.0,
        weight_gradients=not framework.grads_persist and costs.trainable_share == 1.0,
        accumulated=framework.grads_persist and costs.trainable_share == 1.0,
        reduce_bytes=framework.wire_bytes(training.precision, training.grad_reduce_precision),
        weight_bytes=framework.element_bytes,
        gradient_bytes=4.0 if casts_weights(framework, plan) else framework.element_bytes,
        cast_bytes=CAST_BYTES if casts_weights(framework, plan) else 0.0,
        split_backward=inputs.schedule.split_backward,
        ring=max(plan.cp // max(ulysses, 1), 1),
        exchanged=plan.ep > 1 and plan.dispatcher in ("alltoall", "einsum"),
        gathered_ranks=plan.ep * plan.etp if plan.ep > 1 and plan.dispatcher == GATHERS else 0,
        loss=loss,
        planned=framework.planned_memory,
        loss_chunks=framework.loss_chunks if plan.fused_loss else 1,
        recipe=low_precision(training.precision) if framework.saves_quantised else None,
        root_bytes=framework.element_bytes * ends / plan.tp if rooted else 0.0,
        kept_products=framework.saves_quantised or not fp4,
        compiled=is_compiled(framework, training),
        named=framework.named_remat,
        step_bytes=STEP_BYTES_8BIT if backward_step else 0.0,
        keeps_outputs=framework.keeps_stage_outputs and plan.pp > 1 and not plan.fused_loss,
        stored_bytes=stored_layer_bytes(training, framework.element_bytes),
        quantized_base=_unpacks_weights(training),
        column_norms=adapters is not None and adapters.dora,
        tied=costs.graph.tied and len(inputs.schedule.placement) == 1,
    )


def _unpacks_weights(training: TrainingSpec) -> bool:
    """Whether frozen weights are unpacked to 16 bits for each product."""
    adapters = lora_of(training)
    base = adapters.base_format if adapters is not None else None
    return base is not None and not multiplied_as_stored(base, training.precision)


class _HostProgram:
    """Collects the events of a stage and numbers tensors that outlive a step."""

    def __init__(self) -> None:
        self.events: list[StageEvents] = []
        self.next_tensor = 0

    def allocate(self, sizes: Floats, kind: int) -> Ints:
        """Allocate tensors of these bytes, shape (n,), and return the numbers of those that have a byte or more."""
        exists = sizes >= 1.0
        numbers = np.arange(self.next_tensor, self.next_tensor + len(sizes))[exists]
        self.next_tensor += len(sizes)
        streams = np.zeros(len(numbers), np.int64)
        self.events.append(StageEvents(sizes[exists], numbers, streams, np.full(len(numbers), kind)))
        return numbers

    def free(self, numbers: Ints) -> None:
        """Free tensors by their numbers."""
        zeros = np.zeros(len(numbers), np.int64)
        self.events.append(StageEvents(np.full(len(numbers), -1.0), numbers, zeros, zeros))

    def reserve_numbers(self, count: int) -> int:
        """Set `count` tensor numbers aside and return the first."""
        first = self.next_tensor
        self.next_tensor += count
        return first


class StageTraceWriter:
    """Writes the host program of one stage."""

    def __init__(self, inputs: MemoryInputs, static: dict[str, float], late_bytes: Floats, stage: int) -> None:
        """Write the layers of a stage.

        Args:
            inputs: The step.
            static: Kind → bytes that live through the step on this stage (see `static_memory.StaticMemory`).
            late_bytes: Bytes of gradients that appear in the first backward, by virtual stage, shape (K,).
            stage: The pipeline stage.
        """
        self.costs, self.plan, self.training = inputs.costs, inputs.plan, inputs.training
        self.framework, self.schedule = inputs.framework, inputs.schedule
        self.static, self.late_bytes, self.stage = static, late_bytes, stage
        self.settings = layer_settings(inputs)
        placement = self.schedule.placement
        self.virtual_stages = [k for k in range(len(placement)) if int(placement[k, 0]) == stage]
        """Virtual stages of this pipeline stage, one for each chunk of the model that it holds."""
        self.step_starts = 0
        """Events before the first step, once they are written."""
        self.layers = self._layer_writers()
        """Writers of the layers of each chunk."""
        self.chunks = [
            (self._write_chunk(c, initial=True), self._write_chunk(c, initial=False))
            for c in range(len(self.virtual_stages))
        ]
        """Layers of each chunk in the first micro-batch and in the others."""
        self.width = max(
            (layer.forward.counter[0] for pair in self.chunks for layers in pair for layer in layers), default=FIRST
        )
        """Tensor numbers that each layer may use."""

    @property
    def keeps_outputs(self) -> bool:
        """Whether this stage keeps the outputs of the whole step."""
        depth = self.schedule.depth
        return self.settings.keeps_outputs and any(k % depth == depth - 1 for k in self.virtual_stages)

    def _layer_writers(self) -> list[list[LayerTraceWriter]]:
        """Writers of every chunk of the stage; where recomputation is limited, the first layers recompute.

        A share of offloaded activations takes the first layers whole (Megatron-Core `cpu_offloading_num_layers`).
        """
        graph, plan, depth = self.costs.graph, self.plan, self.schedule.depth
        final_bytes = tensor_bytes(graph.head.tensors[0], plan)
        recomputes = recomputing(plan.stage_layers, self.schedule.placement[:, 0].tolist(), plan.recompute.num_layers)
        writers: dict[tuple[str, bool, float], LayerTraceWriter] = {}
        chunks = []
        for k in self.virtual_stages:
            position = k % depth
            # block kind, whether it recomputes, offloaded share of its activations
            names: list[tuple[str, bool, float]] = [("embedding", False, 0.0)] if position == 0 else []
            kinds = self.costs.block_kinds[k]
            offloaded_layers = plan.offload.activations * len(kinds)
            for i, (kind, recompute) in enumerate(zip(kinds, recomputes[k], strict=True)):
                names.append((kind, recompute, min(max(offloaded_layers - i, 0.0), 1.0)))
            if position == depth - 1:
                names += [(PREDICTED, True, 0.0), ("head", False, 0.0)] * graph.further_tokens + [("head", False, 0.0)]
            for name in names:
                if name not in writers:
                    writers[name] = self._layer_writer(*name, final_bytes)
            chunks.append([writers[name] for name in names])
        return chunks

    def _layer_writer(self, kind: str, recompute: bool, offloaded: float, final_bytes: float) -> LayerTraceWriter:
        """Writer of one block kind; `final_bytes` is the size of the head's input."""
        graph = self.costs.graph
        block = {"embedding": graph.embedding, "head": graph.head}.get(kind) or graph.blocks[kind]
        policy = self.plan.recompute if recompute else Recompute()
        if kind == "head" and graph.tied and not self.settings.tied:  # a copy of the embedding's weights
            block = with_own_weights(block)
        return LayerTraceWriter(block, self.settings, policy, final_bytes, offloaded=offloaded)

    def _write_chunk(self, chunk: int, *, initial: bool) -> list[LayerTrace]:
        """Events of the layers of a chunk, in the first micro-batch (`initial`) or in a later one."""
        writers = self.layers[chunk]
        params = [sum(writer.params) for writer in writers]
        late_per_param = float(self.late_bytes[self.virtual_stages[chunk]]) / max(sum(params), 1.0)
        written: dict[tuple[int, LayerPosition], LayerTrace] = {}
        layers = []
        for i, writer in enumerate(writers):
            previous = params[i - 1] if i else 0.0
            if i == 1 and writer.settings.root_bytes:  # the embedding is still whole
                previous = 0.0
            position = LayerPosition(
                first=i == 0,
                last=i == len(writers) - 1,
                after_head=i > 0 and writers[i - 1].is_head,
                previous_params=previous,
                initial=initial,
                late_bytes=late_per_param * params[i],
                depth=len(writers) - 1,
            )
            key = (id(writer), position)
            if key not in written:
                written[key] = writer.write(position)
            layers.append(written[key])
        return layers

    def window(self) -> Rows:
        """Rows of the stage that belong to the micro-batches in flight together, and to two more."""
        schedule = self.schedule
        rows = np.arange(int(schedule.stage_ptr[self.stage]), int(schedule.stage_ptr[self.stage + 1]))
        last = W if schedule.split_backward else B
        change = np.where(schedule.kind[rows] == F, 1, np.where(schedule.kind[rows] == last, -1, 0))
        in_flight = int(np.cumsum(change).max(initial=1))
        chunks = max(len(self.virtual_stages), 1)
        micro_batches = min(-(-in_flight // chunks) + 2 + (schedule.p if chunks > 1 else 0), schedule.m)
        if self.keeps_outputs:
            micro_batches = schedule.m
        return rows[schedule.micro_batch[rows] < micro_batches]

    def unused_gradients(self) -> Floats:
        """Bytes of the weight gradients that TransformerEngine allocates and never reads: one for each matrix shape."""
        shapes = {
            (op.n, op.k): op.element_bytes * op.n * op.k
            for layers in self.layers
            for writer in layers
            for op in writer.operators
            if op.kind == Kind.GEMM and op.number_class in ("linear", "head")
        }
        return np.array([*shapes.values()])

    def largest_matrix(self) -> float:
        """Elements of the largest matrix of the stage's layers on this rank."""
        matrices = [
            op.n * op.k
            for layers in self.layers
            for writer in layers
            for op in writer.operators
            if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM) and op.params and writer.block.kind != "head"
        ]
        return max(matrices, default=0.0)

    def _chunk_offsets(self) -> Ints:
        """First tensor number of each chunk within a micro-batch, and the numbers of a whole micro-batch."""
        counts = [len(layers) * self.width for layers in self.layers]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def step(self) -> StepEvents:
        """Events of one step."""
        schedule, rows, offsets = self.schedule, self.window(), self._chunk_offsets()
        events: list[StageEvents] = []
        first_backward = 0
        late: list[Ints] = []
        late_sizes: list[Floats] = []
        made: dict[tuple[int, int, bool], StageEvents] = {}
        columns = (column[rows].tolist() for column in (schedule.kind, schedule.micro_batch, schedule.chunk))
        for kind, micro_batch, chunk in zip(*columns, strict=True):
            initial = micro_batch == 0
            layers = self.chunks[chunk][0 if initial else 1]
            key = (kind, chunk, initial)
            if key not in made:
                made[key] = self._pass_events(layers, kind)
            base = micro_batch * int(offsets[-1]) + int(offsets[chunk])
            first_backward += kind == F and first_backward == len(events)
            events.append(made[key].shifted(base))
            if initial and kind == F:
                late += [
                    np.array(layer.late, np.int64) + base + i * self.width
                    for i, layer in enumerate(layers)
                    if layer.late
                ]
                late_sizes += [layer.late_sizes() for layer in layers if layer.late]
        gradients = np.concatenate(late) if late else np.zeros(0, np.int64)
        count = (int(schedule.micro_batch[rows].max(initial=0)) + 1) * int(offsets[-1])
        if len(gradients) and self.plan.zero == 3 and not self.settings.sharded:
            # reduced once, after the last backward
            shards = np.arange(count, count + len(gradients))
            count += len(gradients)
            events.append(self._reduce_scatter(gradients, np.concatenate(late_sizes), shards))
            gradients = shards
        if self.keeps_outputs:
            events.append(self._join_outputs(rows, offsets))
        return StepEvents(
            _concatenate(events[:first_backward]), _concatenate(events[first_backward:]), gradients, count
        )

    def _pass_events(self, layers: list[LayerTrace], kind: int) -> StageEvents:
        """Events of one pass of a micro-batch through a chunk; every direction but forward starts at the last layer."""
        traces = [(layer.forward, layer.backward, layer.weight)[kind] for layer in layers]
        order = range(len(layers)) if kind == F else range(len(layers) - 1, -1, -1)
        return _chunk([traces[i] for i in order], list(order), self.width)

    def _reduce_scatter(self, whole: Ints, sizes: Floats, shards: Ints) -> StageEvents:
        """Replace gradients that were added up whole by their shards, tensor by tensor."""
        pairs = np.stack([sizes / self.plan.shard_group, np.full(len(sizes), -1.0)]).T.ravel()
        numbers = np.stack([shards, whole]).T.ravel()
        streams = np.where(pairs > 0, REDUCE, 0)
        return StageEvents(
            np.where(pairs > 0, np.maximum(pairs, 1.0), pairs), numbers, streams, np.full(len(pairs), GRADIENT)
        )

    def _join_outputs(self, rows: Rows, offsets: Ints) -> StageEvents:
        """Copy the outputs of all micro-batches into one tensor, then free them."""
        schedule, last = self.schedule, len(self.virtual_stages) - 1
        forward = rows[(schedule.kind[rows] == F) & (schedule.chunk[rows] == last)]
        base = schedule.micro_batch[forward].astype(np.int64) * int(offsets[-1]) + int(offsets[last])
        outputs = base + (len(self.layers[last]) - 1) * self.width + STAGE_OUTPUT
        head = self.chunks[last][1][-1].forward
        output_bytes = head.sizes[head.tensors.index(STAGE_OUTPUT)]
        joined = outputs[:1] - STAGE_OUTPUT + _JOINED
        sizes = np.concatenate([[output_bytes * len(outputs)], np.full(len(outputs) + 1, -1.0)])
        numbers = np.concatenate([joined, outputs, joined])
        return StageEvents(sizes, numbers, np.zeros(len(sizes), np.int64), np.full(len(sizes), OUTPUTS))

    def _shard_shares(self, params: Floats, expert: Mask) -> Floats:
        """Share of each parameter in the first rank's optimizer state; dense and expert weights have own buffers."""
        group = self.plan.shard_group
        elements = np.zeros(len(params))
        for mine, ranks in ((~expert, group), (expert, min(max(self.plan.expert_dp, 1), group))):
            elements[mine] = first_shard(params[mine], ranks)
        shares: Floats = elements / max(float(elements.sum()), 1.0)
        return shares

    def trace(self) -> tuple[Ints, Ints, Ints]:
        """Sizes (negative frees), tensors and streams, as `engine.allocator.replay_tensors` takes them. Shapes (n,)."""
        events = self.events()
        return np.rint(events.sizes).astype(np.int64), events.tensors, events.streams

    def events(self) -> StageEvents:
        """Weights and buffers, a step, optimizer state, a second step; one step where a compiler plans memory."""
        program = _HostProgram()
        params = np.array([n for layers in self.layers for writer in layers for n in writer.params])
        share = params / params.sum() if params.size else np.ones(1)
        state_share = self._write_weights(program, params, share)
        states = self._write_master_copies(program, state_share)
        unused = self.unused_gradients() if self.costs.dummy_wgrad_bytes[self.stage] else np.zeros(0)
        self._write_buffers(program, share)
        cast = self._cast_gradients()
        orthogonalised = np.array([MUON_BYTES * self.largest_matrix()]) * (self.training.optimizer == "muon")
        planned = self.framework.planned_memory
        if planned:
            program.allocate(np.repeat(states / 2, 2), OPTIMIZER)
        self.step_starts = sum(len(events.sizes) for events in program.events)
        step = self.step()
        first = program.reserve_numbers(2 * step.num_tensors)
        second = first + step.num_tensors
        program.events.append(step.before_backward.shifted(first))
        program.allocate(unused, WORKSPACE)
        program.events.append(step.from_backward.shifted(first))
        program.free(program.allocate(orthogonalised, TEMPORARY))
        gradients = program.allocate(cast, GRADIENT)
        if planned:
            program.free(gradients)
        else:
            program.allocate(np.repeat(states / 2, 2), OPTIMIZER)
            program.free(program.allocate(self._optimizer_copies(states), TEMPORARY))
            program.free(gradients)
            program.free(step.late_gradients + first)
            program.events += [step.before_backward.shifted(second), step.from_backward.shifted(second)]
            program.free(program.allocate(cast, GRADIENT))
        return _concatenate(program.events)

    def _write_weights(self, program: _HostProgram, params: Floats, share: Floats) -> Floats:
        """Allocate weights and gradient buffers.

        The buffer of a sharded optimizer takes trained weights only: adapters move into it, frozen weights stay where
        they are (Megatron-Core `distributed_data_parallel.py` skips parameters without `requires_grad`).

        Returns:
            Share of each parameter in this rank's optimizer state.
        """
        framework = self.framework
        weights, gradients = self.static.get("weights", 0.0), self.static.get("gradients", 0.0)
        if not (framework.grads_persist and self.plan.zero >= 1 and framework.shard_optimizer):
            program.allocate(weights * share, WEIGHT)
            program.allocate(gradients * share, GRADIENT)
            return share
        frozen = weights * frozen_share(self.costs.graph, self.training, framework, self.costs.trainable_share)
        program.allocate(frozen * share, WEIGHT)
        beside = np.zeros(0) if framework.flattens_through_host else (weights - frozen) * share
        first_copies = program.allocate(beside, FIRST_COPY)
        program.allocate(np.array([weights - frozen]), WEIGHT)
        program.allocate(np.array([gradients]), GRADIENT)
        program.free(first_copies)
        expert = np.array([is_expert for layers in self.layers for writer in layers for is_expert in writer.expert])
        return self._shard_shares(params, expert)

    def _write_master_copies(self, program: _HostProgram, state_share: Floats) -> Floats:
        """Allocate the master copy of every parameter.

        Returns:
            Bytes of the optimizer state of each parameter next to its master copy.
        """
        master = self.framework.master_copy_bytes(self.training.master_weights)
        state = self.framework.state_bytes if self.training.optimizer == "adam" else 4.0
        optimizer = self.static.get("optimizer", 0.0)
        for piece in optimizer * master / (master + state) * state_share:
            copy = program.allocate(np.array([piece / 2]), WEIGHT)  # a 16-bit copy of the shard, then its fp32 version
            program.allocate(np.array([piece]), OPTIMIZER)
            program.free(copy)
        states: Floats = optimizer * state / (master + state) * state_share
        return states

    def _cast_gradients(self) -> Floats:
        """Bytes of the fp32 gradients of an optimizer's step, where it casts those of its shard.

        Stage 3 cuts the shard; without ZeRO they are cast one by one and then joined, and exist twice.

        Sources: DeepSpeed `runtime/zero/stage_1_and_2.py` (`single_grad_partition`), `zero/config.py`
        (`sub_group_size`), `runtime/fp16/fused_optimizer.py` (`grads_groups_flat`).
        """
        if not self.framework.step_casts_gradients or self.framework.gradient_width(self.plan.zero) == 4.0:
            return np.zeros(0)
        master = self.framework.master_copy_bytes(self.training.master_weights)
        state = self.framework.state_bytes if self.training.optimizer == "adam" else 4.0
        params = self.static.get("optimizer", 0.0) / (master + state)
        if self.plan.zero == 0:
            return np.full(2, 4.0 * params)
        return np.array([4.0 * (min(params, SUB_GROUP) if self.plan.zero == 3 else params)])

    def _optimizer_copies(self, states: Floats) -> Floats:
        """Bytes of what an unfused Adam writes beside its moments, of which `states` has two, shape (copies,).

        On the host they take no device memory. ZeRO-3's groups of parameters follow one another.
        """
        own, stated = self.framework.optimizer_copies, self.framework.trainer_optimizer_copies
        copies = own if stated is None or self.training.phase == "pretrain" else stated
        if self.training.optimizer != "adam" or self.training.optimizer_in_backward or not copies:
            return np.zeros(0)
        moment = float(states.sum()) / 2.0
        if self.framework.step_casts_gradients and self.plan.zero == 3:
            moment = min(moment, SUB_GROUP * self.framework.state_bytes / 2.0)
        return np.full(round(copies), moment)

    def _write_buffers(self, program: _HostProgram, share: Floats) -> None:
        """Allocate the other static tensors: workspace, gathered layers, stage buffers."""
        kinds = {"workspace": WORKSPACE, "gathered layers": GATHERED, "stage buffers": OUTPUTS}
        written_elsewhere = {"weights", "gradients", "optimizer"}
        if self.settings.sharded:  # the trace of a layer gathers its weights
            written_elsewhere.add("gathered layers")
        for name, size in self.static.items():
            if name == "workspace":
                rest = max(size - self.costs.dummy_wgrad_bytes[self.stage], 0.0)
                program.allocate(np.array([rest]), WORKSPACE)
            elif name not in written_elsewhere:
                program.allocate(size * share, kinds.get(name, WORKSPACE))


def first_shard(params: Floats, ranks: int) -> Floats:
    """Elements of each parameter that the first of `ranks` holds when one buffer is cut into equal pieces.

    Parameters stand in the buffer in reverse order of depth, so a rank holds few whole tensors and not a slice of
    every one. Source: Megatron-Core `param_and_grad_buffer.py`, `distrib_optimizer.py`.

    Args:
        params: Elements of each parameter in order of depth, shape (n,).
        ranks: Number of pieces.

    Returns:
        Elements of each parameter on the first rank, shape (n,).
    """
    before = np.cumsum(params[::-1])[::-1] - params
    elements: Floats = np.clip(params.sum() / max(ranks, 1) - before, 0.0, params)
    return elements
