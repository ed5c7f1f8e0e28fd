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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windtunnel.cost.coefficients import Behaviour
from windtunnel.graph import Kind
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import tensor_bytes
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.plan import Recompute
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.layer_tensors import FIRST, STRIDE, Layer, LayerWriter, Script, Settings, write_layer
from windtunnel.training.parts import Parts

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Events:
    """Events as arrays, tensors numbered over everything that they belong to."""

    sizes: Floats
    tensors: Ints
    streams: Ints

    def shifted(self, by: int) -> _Events:
        return _Events(self.sizes, self.tensors + by, self.streams)


def _joined(events: Sequence[_Events]) -> _Events:
    if not events:
        return _Events(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    return _Events(
        np.concatenate([e.sizes for e in events]), np.concatenate([e.tensors for e in events]),
        np.concatenate([e.streams for e in events]),
    )  # fmt: skip


def _chunk(scripts: Sequence[Script], positions: Sequence[int], width: int) -> _Events:
    """Scripts of the layers at these positions of a chunk, in this order; each layer has `width` numbers."""
    out = []
    for script, at in zip(scripts, positions, strict=True):
        neighbour, local = np.divmod(np.array(script.tensors, np.int64), STRIDE)
        numbers = (at + neighbour) * width + local
        out.append(_Events(np.array(script.sizes, np.float64), numbers, np.array(script.streams, np.int64)))
    return _joined(out)


class StageTrace:
    """Writes the host program of one stage."""

    def __init__(
        self, parts: Parts, plan: ResolvedPlan, training: TrainingSpec, behaviour: Behaviour, table: InstructionTable,
        static: dict[str, float], late_bytes: Floats, stage: int,
    ) -> None:  # fmt: skip
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
        a2a = {"all_to_all": plan.cp, "hybrid": plan.cp_all_to_all, "all_gather": plan.cp}.get(plan.cp_kind, 1)
        self.settings = Settings(
            plan,
            sharded=plan.zero == 3 and plan.reshard_after_forward,
            scattered=plan.zero == 3 or (plan.zero == 2 and not behaviour.grads_persist),
            weight_gradients=not behaviour.grads_persist and parts.trainable_share == 1.0,
            reduce_bytes=behaviour.grad_bytes,
            weight_bytes=2.0,
            split_backward=table.split_backward,
            ring=max(plan.cp // max(a2a, 1), 1),
            exchanged=plan.ep > 1 and plan.dispatcher == "alltoall",
        )
        self.ks = [k for k in range(len(table.placement)) if int(table.placement[k, 0]) == stage]
        self.layers = self._writers()
        self.chunks = [(self._scripts(c, initial=True), self._scripts(c, initial=False)) for c in range(len(self.ks))]
        self.width = max(
            (layer.forward.counter[0] for pair in self.chunks for layers in pair for layer in layers), default=FIRST
        )

    def _writers(self) -> list[list[LayerWriter]]:
        """Blocks of every chunk of the stage, the first layers of a kind recomputing where their number is limited."""
        g, plan = self.parts.graph, self.plan
        final = tensor_bytes(g.head.tensors[0], plan)
        remaining = plan.recompute.num_layers if plan.recompute.num_layers is not None else 10**9
        writers: dict[tuple[str, bool], LayerWriter] = {}
        out = []
        for k in self.ks:
            names: list[tuple[str, bool]] = [("embedding", False)] if k == 0 else []
            budget: dict[str, int] = {}
            letters = self.parts.block_kinds[k]
            for kind in dict.fromkeys(letters):
                budget[kind] = min(letters.count(kind), remaining)
                remaining -= budget[kind]
            for kind in letters:
                names.append((kind, budget[kind] > 0))
                budget[kind] -= 1
            if k == len(self.table.placement) - 1:
                names.append(("head", False))
            for name in names:
                if name not in writers:
                    block = {"embedding": g.embedding, "head": g.head}.get(name[0]) or g.blocks[name[0]]
                    policy = plan.recompute if name[1] else Recompute()
                    writers[name] = LayerWriter(block, self.settings, policy, final, offloaded=plan.offload.activations)
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
            key = (id(writer), first, last, previous)
            if key not in cache:
                late = each * params[i]
                cache[key] = write_layer(writer, first=first, last=last, previous=previous, initial=initial, late=late)
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
        return rows[table.micro_batch[rows] < keep]

    def unused_gradients(self) -> Floats:
        """Bytes of weight gradients that exist for form's sake: one for each matrix shape (TransformerEngine)."""
        shapes = {
            (op.n, op.k): 2.0 * op.n * op.k
            for layers in self.layers
            for writer in layers
            for op in writer.operators
            if op.kind == Kind.GEMM and op.number_class in ("linear", "head")
        }
        return np.array([*shapes.values()])

    def step(self) -> tuple[_Events, _Events, Ints, int]:
        """Events of one step.

        Returns:
            Events before the first backward, the other events, the gradients that remain at the end, and how many
            tensor numbers the step uses.
        """
        table, rows = self.table, self.window()
        offset = np.concatenate([[0], np.cumsum([len(layers) * self.width for layers in self.layers])]).astype(np.int64)
        events: list[_Events] = []
        first_backward = 0
        late: list[Ints] = []
        made: dict[tuple[int, int, bool], _Events] = {}
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
        kept = np.concatenate(late) if late else np.zeros(0, np.int64)
        count = (int(table.micro_batch[rows].max(initial=0)) + 1) * int(offset[-1])
        return _joined(events[:first_backward]), _joined(events[first_backward:]), kept, count

    def trace(self) -> tuple[Ints, Ints, Ints]:
        """Weights and buffers, a step, optimizer state, a second step.

        Returns:
            Sizes (negative frees), tensors and streams, as `engine.allocator.replay_tensors` takes them. Shapes (n,).
        """
        static, how = self.static, self.how
        params = np.array([n for layers in self.layers for writer in layers for n in writer.params])
        share = params / params.sum() if params.size else np.ones(1)
        number = 0
        out: list[_Events] = []

        def persistent(sizes: Floats) -> Ints:
            nonlocal number
            ids = np.arange(number, number + len(sizes))[sizes >= 1.0]
            number += len(sizes)
            out.append(_Events(sizes[sizes >= 1.0], ids, np.zeros(len(ids), np.int64)))
            return ids

        def freed(ids: Ints) -> None:
            out.append(_Events(np.full(len(ids), -1.0), ids, np.zeros(len(ids), np.int64)))

        weights, gradients = static.get("weights", 0.0), static.get("gradients", 0.0)
        own = persistent(weights * share)
        if how.grads_persist and self.plan.zero >= 1 and how.shard_optimizer:
            persistent(np.array([weights]))
            persistent(np.array([gradients]))
            freed(own)
        else:
            persistent(gradients * share)
        master = {"fp32": 4.0, "bf16": 2.0, "none": 0.0}.get(self.training.master_weights or "", how.master_bytes)
        state = how.state_bytes if self.training.optimizer == "adam" else 4.0
        optimizer = static.get("optimizer", 0.0)
        persistent(optimizer * master / (master + state) * share)
        unused = self.unused_gradients() if self.parts.dummy_wgrad_bytes[self.stage] else np.zeros(0)
        for name, size in static.items():
            if name == "workspace":
                persistent(np.array([max(size - self.parts.dummy_wgrad_bytes[self.stage], 0.0)]))
            elif name not in ("weights", "gradients", "optimizer", *(["gathered layers"] * self.settings.sharded)):
                persistent(size * share)
        opening, rest, late, count = self.step()
        base = number
        number += 2 * count
        out.append(opening.shifted(base))
        persistent(unused)
        out.append(rest.shifted(base))
        persistent(np.repeat(optimizer * state / (master + state) * share / 2, 2))
        freed(late + base)
        out += [opening.shifted(base + count), rest.shifted(base + count)]
        events = _joined(out)
        return np.rint(events.sizes).astype(np.int64), events.tensors, events.streams
