"""Allocations and frees of single tensors on one pipeline stage, in host order, for the block-allocator model.

The account of a step adds tensors up by kind, which hides fragmentation: how much a caching allocator holds depends on
the order and the sizes of single tensors. Here the host program of the stage that peaks is written out tensor by
tensor (`layer_tensors` has the layers): weights and buffers, a first step without optimizer state, the state as the
first optimizer step creates it in what activations left, and a second step. Micro-batches beyond those that are in
flight together repeat what was held before and are left out.

Sources: Megatron-Core `param_and_grad_buffer.py` (weights move into one buffer, their first copies are freed) and
`distrib_optimizer.py` (one master tensor per parameter); optimizers of PyTorch and TransformerEngine (moments are
created in the first step).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.cost.coefficients import Behaviour
from windtunnel.graph import PREDICTED, Block, Kind
from windtunnel.parallel.precision import MATRIX_FORMAT, low_precision
from windtunnel.parallel.recompute import recomputing
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import tensor_bytes
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.plan import Recompute
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.memory.layer_trace import Layer, LayerWriter, Settings, write_layer
from windtunnel.training.memory.tensor_events import (
    FIRST,
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
    Script,
)
from windtunnel.training.stage_costs.autocast import CAST_BYTES, casts_weights
from windtunnel.training.stage_costs.stage_costs import StageCosts, is_compiled

STEP_BYTES_8BIT = 12.0
"""Per element of the tensor being updated: the parameter and both moments in fp32, while an 8-bit optimizer works on
them. Source: torchao `optim/adam.py` (`single_param_adam`)."""
MUON_BYTES = 10.0
"""Per element of a matrix whole over its shards: the update in fp32 and, in 16 bits, its orthogonalised form, a copy
and a polynomial's term. Source: Jordan et al. 2024, Muon (reference code, five Newton-Schulz iterations in bf16)."""
_JOINED = STAGE_OUTPUT - 1
"""Number, in the head's layer, of the joined outputs: the head has no gradient buffer of its own there."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events as arrays, tensors numbered over everything that they belong to."""

    sizes: Floats
    tensors: Ints
    streams: Ints
    kinds: Ints
    """Index into `layer_tensors.KINDS`; of a free, without meaning."""

    def shifted(self, by: int) -> Events:
        """The same events on tensors whose numbers are larger."""
        return Events(self.sizes, self.tensors + by, self.streams, self.kinds)


def _joined(events: Sequence[Events]) -> Events:
    if not events:
        return Events(np.zeros(0), *(np.zeros(0, np.int64) for _ in range(3)))
    return Events(
        np.concatenate([e.sizes for e in events]),
        np.concatenate([e.tensors for e in events]),
        np.concatenate([e.streams for e in events]),
        np.concatenate([e.kinds for e in events]),
    )


def _chunk(scripts: Sequence[Script], positions: Sequence[int], width: int) -> Events:
    """Scripts of the layers at these positions of a chunk, in this order; each layer has `width` numbers."""
    out = []
    for script, at in zip(scripts, positions, strict=True):
        neighbour, local = np.divmod(np.array(script.tensors, np.int64), STRIDE)
        numbers = (at + neighbour) * width + local
        columns = (np.array(column, np.int64) for column in (script.streams, script.kinds))
        out.append(Events(np.array(script.sizes, np.float64), numbers, *columns))
    return _joined(out)


def with_own_weights(head: Block) -> Block:
    """The head of a model with tied weights, on another stage than the embedding: it holds a copy."""
    own = tuple(replace(op, params=op.n * op.k) if op.name == "lm_head" else op for op in head.operators)
    return replace(head, operators=own)


class StageTrace:
    """Writes the host program of one stage."""

    def __init__(
        self,
        parts: StageCosts,
        plan: ResolvedPlan,
        training: TrainingSpec,
        behaviour: Behaviour,
        table: InstructionTable,
        static: dict[str, float],
        late_bytes: Floats,
        stage: int,
    ) -> None:
        """Write the layers of a stage.

        Args:
            parts: Blocks and virtual stages.
            plan: Axis sizes and policies.
            training: Optimizer and precision.
            behaviour: What the framework does.
            table: The pipeline schedule.
            static: Bytes that live through the step on this stage, by kind (see `account.StaticMemory`).
            late_bytes: Gradients that appear in the first backward, by virtual stage, shape (K,).
            stage: The stage.
        """
        self.parts, self.plan, self.training, self.how = parts, plan, training, behaviour
        self.table, self.static, self.late_bytes, self.stage = table, static, late_bytes, stage
        fp4 = MATRIX_FORMAT[training.precision] == "fp4"
        rooted = behaviour.root_gathered and not plan.fused_loss
        rooted = (rooted if training.fsdp_root_group is None else training.fsdp_root_group) and plan.pp == 1
        backward_step = training.optimizer_in_backward and training.optimizer == "adam8bit"
        a2a = {"all_to_all": plan.cp, "hybrid": plan.cp_all_to_all, "all_gather": plan.cp}.get(plan.cp_kind, 1)
        ends = parts.graph.embedding.params + parts.graph.head.params
        self.settings = Settings(
            plan=plan,
            sharded=plan.zero == 3 and plan.reshard_after_forward and not plan.gather_block,
            scattered=plan.zero == 3 or (plan.zero == 2 and not behaviour.grads_persist),
            weight_gradients=not behaviour.grads_persist and parts.trainable_share == 1.0,
            accumulated=behaviour.grads_persist and parts.trainable_share == 1.0,
            reduce_bytes=behaviour.wire_bytes(training.precision, training.grad_reduce_precision),
            weight_bytes=behaviour.element_bytes,
            gradient_bytes=4.0 if casts_weights(behaviour, plan) else behaviour.element_bytes,
            cast_bytes=CAST_BYTES if casts_weights(behaviour, plan) else 0.0,
            split_backward=table.split_backward,
            ring=max(plan.cp // max(a2a, 1), 1),
            exchanged=plan.ep > 1 and plan.dispatcher in ("alltoall", "einsum"),
            loss=(
                ("compiled" if plan.fused_loss or behaviour.planned_memory else "eager")
                if behaviour.eager_loss
                else "in_place"
            ),
            planned=behaviour.planned_memory,
            loss_chunks=behaviour.loss_chunks if plan.fused_loss else 1,
            recipe=low_precision(training.precision) if behaviour.saves_quantised else None,
            root_bytes=behaviour.element_bytes * ends / plan.tp if rooted else 0.0,
            kept_products=behaviour.saves_quantised or not fp4,
            compiled=is_compiled(behaviour, training),
            named=behaviour.named_remat,
            step_bytes=STEP_BYTES_8BIT if backward_step else 0.0,
            keeps_outputs=behaviour.keeps_stage_outputs and plan.pp > 1 and not plan.fused_loss,
            quantized_base=training.lora is not None and training.lora.quantized_base,
            tied=parts.graph.tied and len(table.placement) == 1,
        )
        self.ks = [k for k in range(len(table.placement)) if int(table.placement[k, 0]) == stage]
        self.layers = self._writers()
        self.chunks = [(self._scripts(c, initial=True), self._scripts(c, initial=False)) for c in range(len(self.ks))]
        self.width = max(
            (layer.forward.counter[0] for pair in self.chunks for layers in pair for layer in layers), default=FIRST
        )

    @property
    def keeps_outputs(self) -> bool:
        """Whether this stage keeps the outputs of the whole step."""
        return self.settings.keeps_outputs and any(k % self.table.depth == self.table.depth - 1 for k in self.ks)

    def _writers(self) -> list[list[LayerWriter]]:
        """Blocks of every chunk of the stage, the first layers recomputing where their number is limited.

        A share of offloaded activations is that of the first layers, whole (Megatron-Core `cpu_offloading_num_layers`).
        """
        g, plan = self.parts.graph, self.plan
        final = tensor_bytes(g.head.tensors[0], plan)
        again = recomputing(plan.stage_layers, self.table.placement[:, 0].tolist(), plan.recompute.num_layers)
        writers: dict[tuple[str, bool, float], LayerWriter] = {}
        out = []
        for k in self.ks:
            at = k % self.table.depth
            names: list[tuple[str, bool, float]] = [("embedding", False, 0.0)] if at == 0 else []
            letters = self.parts.block_kinds[k]
            away = plan.offload.activations * len(letters)
            for i, (kind, repeats) in enumerate(zip(letters, again[k], strict=True)):
                names.append((kind, repeats, min(max(away - i, 0.0), 1.0)))
            if at == self.table.depth - 1:
                names += [(PREDICTED, True, 0.0), ("head", False, 0.0)] * g.further_tokens + [("head", False, 0.0)]
            for name in names:
                if name not in writers:
                    block = {"embedding": g.embedding, "head": g.head}.get(name[0]) or g.blocks[name[0]]
                    policy = plan.recompute if name[1] else Recompute()
                    if name[0] == "head" and g.tied and not self.settings.tied:  # a copy of the embedding's weights
                        block = with_own_weights(block)
                    writers[name] = LayerWriter(block, self.settings, policy, final, offloaded=name[2])
            out.append([writers[name] for name in names])
        return out

    def _scripts(self, c: int, *, initial: bool) -> list[Layer]:
        layers = self.layers[c]
        params = [sum(writer.params) for writer in layers]
        each = float(self.late_bytes[self.ks[c]]) / max(sum(params), 1.0)
        cache: dict[tuple[int, bool, bool, float], Layer] = {}
        out = []
        for i, writer in enumerate(layers):
            first, last = i == 0, i == len(layers) - 1
            previous = params[i - 1] if i else 0.0
            if i == 1 and writer.s.root_bytes:  # the embedding is still whole
                previous = 0.0
            key = (id(writer), first, last, previous)
            if key not in cache:
                late = each * params[i]
                cache[key] = write_layer(
                    writer,
                    first=first,
                    last=last,
                    previous=previous,
                    initial=initial,
                    late=late,
                    depth=len(layers) - 1,
                )
            out.append(cache[key])
        return out

    def window(self) -> Ints:
        """Rows of the stage that belong to the micro-batches in flight together, and to two more."""
        table = self.table
        rows = np.arange(int(table.stage_ptr[self.stage]), int(table.stage_ptr[self.stage + 1]))
        last = W if table.split_backward else B
        change = np.where(table.kind[rows] == F, 1, np.where(table.kind[rows] == last, -1, 0))
        most = int(np.cumsum(change).max(initial=1))
        chunks = max(len(self.ks), 1)
        keep = min(-(-most // chunks) + 2 + (table.p if chunks > 1 else 0), table.m)
        if self.keeps_outputs:
            keep = table.m
        return rows[table.micro_batch[rows] < keep]

    def unused_gradients(self) -> Floats:
        """Bytes of weight gradients that exist for form's sake: one for each matrix shape (TransformerEngine)."""
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

    def step(self) -> tuple[Events, Events, Ints, int]:
        """Events of one step.

        Returns:
            Events before the first backward, the other events, the gradients that remain at the end, and how many
            tensor numbers the step uses.
        """
        table, rows = self.table, self.window()
        offset = np.concatenate([[0], np.cumsum([len(layers) * self.width for layers in self.layers])]).astype(np.int64)
        events: list[Events] = []
        first_backward = 0
        late: list[Ints] = []
        sizes: list[Floats] = []
        made: dict[tuple[int, int, bool], Events] = {}
        for kind, micro_batch, chunk in zip(
            table.kind[rows].tolist(), table.micro_batch[rows].tolist(), table.chunk[rows].tolist(), strict=True
        ):
            initial = micro_batch == 0
            layers = self.chunks[chunk][0 if initial else 1]
            key = (kind, chunk, initial)
            if key not in made:
                scripts = [(x.forward, x.backward, x.weight)[kind] for x in layers]
                order = range(len(layers)) if kind == F else range(len(layers) - 1, -1, -1)
                made[key] = _chunk([scripts[i] for i in order], list(order), self.width)
            base = micro_batch * int(offset[-1]) + int(offset[chunk])
            first_backward += kind == F and first_backward == len(events)
            events.append(made[key].shifted(base))
            if initial and kind == F:
                late += [np.array(x.late, np.int64) + base + i * self.width for i, x in enumerate(layers) if x.late]
                sizes += [x.late_sizes() for x in layers if x.late]
        kept = np.concatenate(late) if late else np.zeros(0, np.int64)
        count = (int(table.micro_batch[rows].max(initial=0)) + 1) * int(offset[-1])
        if len(kept) and self.plan.zero == 3 and not self.settings.sharded:  # reduced once, after the last backward
            shards = np.arange(count, count + len(kept))
            count += len(kept)
            events.append(self._reduced(kept, np.concatenate(sizes), shards))
            kept = shards
        if self.keeps_outputs:
            events.append(self._joined_outputs(rows, offset))
        return _joined(events[:first_backward]), _joined(events[first_backward:]), kept, count

    def _reduced(self, whole: Ints, sizes: Floats, shards: Ints) -> Events:
        """Gradients that were added up whole are cut over the replicas, tensor by tensor."""
        pairs = np.stack([sizes / self.plan.shard_group, np.full(len(sizes), -1.0)]).T.ravel()
        numbers = np.stack([shards, whole]).T.ravel()
        streams = np.where(pairs > 0, REDUCE, 0)
        return Events(
            np.where(pairs > 0, np.maximum(pairs, 1.0), pairs), numbers, streams, np.full(len(pairs), GRADIENT)
        )

    def _joined_outputs(self, rows: Ints, offset: Ints) -> Events:
        """The outputs of all micro-batches are copied into one tensor, then given up."""
        table, last = self.table, len(self.ks) - 1
        here = rows[(table.kind[rows] == F) & (table.chunk[rows] == last)]
        at = table.micro_batch[here].astype(np.int64) * int(offset[-1]) + int(offset[last])
        outputs = at + (len(self.layers[last]) - 1) * self.width + STAGE_OUTPUT
        script = self.chunks[last][1][-1].forward
        each = script.sizes[script.tensors.index(STAGE_OUTPUT)]
        joined = outputs[:1] - STAGE_OUTPUT + _JOINED
        sizes = np.concatenate([[each * len(outputs)], np.full(len(outputs) + 1, -1.0)])
        numbers = np.concatenate([joined, outputs, joined])
        return Events(sizes, numbers, np.zeros(len(sizes), np.int64), np.full(len(sizes), OUTPUTS))

    def _shards(self, params: Floats, expert: Mask) -> Floats:
        """Parts of the optimizer's state by parameter on the first rank: dense and expert weights have own buffers."""
        group = self.plan.shard_group
        held = np.zeros(len(params))
        for mine, ranks in ((~expert, group), (expert, min(max(self.plan.expert_dp, 1), group))):
            held[mine] = first_shard(params[mine], ranks)
        out: Floats = held / max(float(held.sum()), 1.0)
        return out

    def trace(self) -> tuple[Ints, Ints, Ints]:
        """Sizes (negative frees), tensors and streams, as `engine.allocator.replay_tensors` takes them. Shapes (n,)."""
        events = self.events()
        return np.rint(events.sizes).astype(np.int64), events.tensors, events.streams

    def events(self) -> Events:
        """Weights and buffers, a step, optimizer state, a second step; one step where a compiler plans memory."""
        static, how = self.static, self.how
        params = np.array([n for layers in self.layers for writer in layers for n in writer.params])
        share = params / params.sum() if params.size else np.ones(1)
        number = 0
        out: list[Events] = []

        def persistent(sizes: Floats, kind: int) -> Ints:
            nonlocal number
            ids = np.arange(number, number + len(sizes))[sizes >= 1.0]
            number += len(sizes)
            out.append(Events(sizes[sizes >= 1.0], ids, np.zeros(len(ids), np.int64), np.full(len(ids), kind)))
            return ids

        def freed(ids: Ints) -> None:
            zeros = np.zeros(len(ids), np.int64)
            out.append(Events(np.full(len(ids), -1.0), ids, zeros, zeros))

        weights, gradients = static.get("weights", 0.0), static.get("gradients", 0.0)
        own = persistent(weights * share, WEIGHT)
        pieces = share
        if how.grads_persist and self.plan.zero >= 1 and how.shard_optimizer:
            persistent(np.array([weights]), WEIGHT)
            persistent(np.array([gradients]), GRADIENT)
            freed(own)
            expert = np.array([own for layers in self.layers for writer in layers for own in writer.expert])
            pieces = self._shards(params, expert)
        else:
            persistent(gradients * share, GRADIENT)
        master = how.master_copy_bytes(self.training.master_weights)
        state = how.state_bytes if self.training.optimizer == "adam" else 4.0
        optimizer = static.get("optimizer", 0.0)
        for piece in optimizer * master / (master + state) * pieces:
            copy = persistent(np.array([piece / 2]), WEIGHT)  # a 16-bit copy of the shard, then its fp32 version
            persistent(np.array([piece]), OPTIMIZER)
            freed(copy)
        unused = self.unused_gradients() if self.parts.dummy_wgrad_bytes[self.stage] else np.zeros(0)
        kinds = {"workspace": WORKSPACE, "gathered layers": GATHERED, "stage buffers": OUTPUTS}
        for name, size in static.items():
            if name == "workspace":
                persistent(np.array([max(size - self.parts.dummy_wgrad_bytes[self.stage], 0.0)]), WORKSPACE)
            elif name not in ("weights", "gradients", "optimizer", *(["gathered layers"] * self.settings.sharded)):
                persistent(size * share, kinds.get(name, WORKSPACE))
        states = optimizer * state / (master + state) * pieces
        orthogonalised = np.array([MUON_BYTES * self.largest_matrix()]) * (self.training.optimizer == "muon")
        if how.planned_memory:
            persistent(np.repeat(states / 2, 2), OPTIMIZER)
        opening, rest, late, count = self.step()
        base = number
        number += 2 * count
        out.append(opening.shifted(base))
        persistent(unused, WORKSPACE)
        out.append(rest.shifted(base))
        freed(persistent(orthogonalised, TEMPORARY))
        if not how.planned_memory:
            persistent(np.repeat(states / 2, 2), OPTIMIZER)
            freed(late + base)
            out += [opening.shifted(base + count), rest.shifted(base + count)]
        return _joined(out)


def first_shard(params: Floats, ranks: int) -> Floats:
    """What the first of `ranks` holds of each parameter when one buffer is cut into equal pieces.

    Parameters stand in the buffer in reverse order of depth, so a rank holds few whole tensors and not a slice of
    every one. Source: Megatron-Core `param_and_grad_buffer.py`, `distrib_optimizer.py`.

    Args:
        params: Elements of each parameter in order of depth, shape (n,).
        ranks: Pieces.
    """
    before = np.cumsum(params[::-1])[::-1] - params
    held: Floats = np.clip(params.sum() / max(ranks, 1) - before, 0.0, params)
    return held
