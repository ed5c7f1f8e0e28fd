"""Allocations and frees of single tensors within one layer: forward, backward, and weight gradients where apart.

Order: what an operator writes is allocated before what it read is freed; a tensor kept for backward is freed after the
backward of the first operator (in forward order) that reads it; recomputed tensors are allocated where the checkpoint
runs again.

Sources: order of autograd in PyTorch 2.x; TransformerEngine `context_parallel` (one buffer of keys and values and one
partial output per ring step, on two streams); PyTorch FSDP2 `_fsdp_param_group.py`, `_fsdp_collectives.py` (gather
buffers on a stream of their own, copied out to one tensor per parameter; gradients copied into one buffer of the
reduction's precision, their shards on the reduction's stream).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.graph import Block, Kind, Operator, Tensor
from windtunnel.parallel.precision import Recipe, kept_bytes_scale
from windtunnel.parallel.recompute import recompute_block
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import split_operator, tensor_bytes
from windtunnel.specs.plan import Recompute
from windtunnel.training.memory.loss_trace import LossChain, logit_copies
from windtunnel.training.memory.operator_outputs import memory_kind, output_bytes
from windtunnel.training.memory.tensor_events import (
    ACTIVATION,
    GATHER,
    GATHERED,
    GATHERED_B,
    GATHERED_F,
    GRAD,
    GRADIENT,
    HEAD_GRAD,
    INPUT,
    MAIN,
    NEW,
    NONE,
    OUT_GRAD,
    OUTPUT,
    REDUCE,
    REDUCING,
    RING,
    STRIDE,
    WEIGHT,
    Script,
)
from windtunnel.training.stage_costs.autocast import cast_elements

_COLUMN = frozenset({"qkv", "cross_q", "cross_kv", "fc1", "shared_fc1", "in_proj", "q_proj", "lm_head"})
_ROW = frozenset({"proj", "cross_proj", "fc2", "shared_fc2", "out_proj"})
_BRANCH_ENDS = frozenset({"proj", "cross_proj", "fc2", "out_proj", "unpermute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What decides how layers allocate."""

    plan: ResolvedPlan
    sharded: bool
    """Weights are gathered layer by layer (FSDP, ZeRO-3) and given up after use."""
    scattered: bool
    """Gradients of a layer are reduced into shards as soon as they exist (FSDP)."""
    weight_gradients: bool
    """Weight gradients are tensors of their own (not accumulated by the GEMM into a buffer)."""
    reduce_bytes: float
    """Per element of a gradient on the wire."""
    accumulated: bool
    """Products add weight gradients into a buffer."""
    weight_bytes: float
    """Per element of a weight as computed with."""
    gradient_bytes: float
    """Per element of a weight's gradient."""
    split_backward: bool
    ring: int
    """Ranks of the context ring, 1 without."""
    exchanged: bool = False
    """Routed tokens are permuted, exchanged and sorted by expert: three tensors each way (alltoall dispatcher)."""
    loss: str = "in_place"
    """`in_place`: one kept copy; `eager`: chain of fp32 tensors; `compiled`: 16-bit logits and their gradient."""
    loss_chunks: int = 1
    """Pieces in which the head's output and the loss are computed."""
    recipe: Recipe | None = None
    """Inputs of low-precision products are kept quantised; `None` where they are kept in 16 bits."""
    compiled: bool = False
    """Layers are compiled: a partitioner decides what per-operator checkpointing keeps."""
    root_bytes: float = 0.0
    """Weights of embedding and head together where they are gathered as one and stay whole until their backward."""
    kept_products: bool = True
    """Whether per-operator checkpointing sees the matrix products: custom 4-bit kernels are not `mm` operators."""
    planned: bool = False
    """A compiler plans memory: weights are gathered and gradients reduced one tensor at a time."""
    named: bool = False
    """Recomputation names what is kept (see `recompute_block`)."""
    step_bytes: float = 0.0
    """Temporaries of an optimizer that runs in backward, per element of the tensor it updates."""
    keeps_outputs: bool = False
    """The last stage of a pipeline keeps the output of every micro-batch until the step ends."""
    quantized_base: bool = False
    """Frozen weights are kept in four bits and expanded for every product."""
    tied: bool = False
    """The head multiplies by the embedding's weights, and both are in this chunk."""
    cast_bytes: float = 0.0
    """Per element of the copy of a weight that a product reads and backward reads again (`training.autocast`)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Events of one layer by direction, in numbers local to the layer."""

    forward: Script
    backward: Script
    weight: Script
    late: tuple[int, ...] = ()
    """Gradients that backward leaves (in the first micro-batch only)."""

    def late_sizes(self) -> Floats:
        """Bytes of these gradients."""
        made = [
            (number, size)
            for script in (self.backward, self.weight)
            for number, size in zip(script.tensors, script.sizes, strict=True)
            if size > 0
        ]
        found = dict(made)
        return np.array([found[number] for number in self.late])


class LayerWriter:
    """Writes the events of one block: forward, backward, and weight gradients where they are apart."""

    def __init__(
        self, block: Block, settings: Settings, policy: Recompute, hidden: float, *, offloaded: float = 0.0
    ) -> None:
        self.s, self.block, self.policy = settings, block, policy
        plan = settings.plan
        self.operators = [split_operator(op, plan) for op in block.operators]
        self.looped = settings.loss != "in_place" and block.kind == "head"
        """The loss is written out tensor by tensor; the `logits` tensor stands for it elsewhere."""
        again = recompute_block(
            block, [], policy, named=settings.named, compiled=settings.compiled, kept_products=settings.kept_products
        )
        names = {t.name for t in again.kept}
        dropped = [replace(t, name=f"{t.name} again") if t.name in names else t for t in again.dropped]
        self.dropped = {t.name for t in dropped}
        order = {t.name: i for i, t in enumerate(block.tensors)}
        tensors = sorted([*again.kept, *dropped], key=lambda t: order[t.name.removesuffix(" again")])
        tensors = [t for t in tensors if not (self.looped and t.name == "logits")]
        self.tensors = [piece for t in tensors for piece in logit_copies(t, self.operators[0].element_bytes)]
        if block.kind == "head":
            offloaded = 0.0  # needed again at once
        self.size = {
            t.name: tensor_bytes(t, plan)
            * (kept_bytes_scale(t, settings.recipe) if settings.recipe else 1.0)
            * (1.0 if t.name in self.dropped else 1.0 - offloaded)
            for t in self.tensors
        }
        self.offloaded = offloaded
        self.fetched = sum(
            self.size[t.name] / (1.0 - offloaded) * offloaded if offloaded < 1.0 else tensor_bytes(t, plan)
            for t in self.tensors
            if t.name not in self.dropped and offloaded
        )
        """Bytes that come back from the host before this layer's backward."""
        self.kind = {t.name: memory_kind(t.name) for t in self.tensors}
        first = next((t for t in self.tensors if t.producer == ""), None)
        self.hidden = tensor_bytes(first, plan) if first else hidden
        self.input = first.name if first else ""
        """Block input: allocated by whoever writes it, freed here."""
        self.written_by = [self._writes(i) for i in range(len(self.operators))]
        self.read_by = {t.name: self._readers(t) for t in self.tensors}
        self.read_by |= {f"{op.name} weight": [i] for i, op in enumerate(self.operators)}
        self.params = [op.params for op in self.operators if op.params > 0]
        self.expert = [op.kind == Kind.GROUPED_GEMM for op in self.operators if op.params > 0]
        self.trained = {op.name: op.params for op in self.operators}
        if settings.tied and block.kind == "head":
            self.trained["lm_head"] = next(op.n * op.k for op in self.operators if op.name == "lm_head")
        self.routed = sum(size for name, size in self.size.items() if name.removesuffix(" again") == "routed_input")
        self.loss = LossChain(
            op=next((op for op in self.operators if op.name == "lm_head"), self.operators[-1]),
            mode=settings.loss,
            chunks=settings.loss_chunks,
            parallel=plan.tp > 1,
            keeps_output=settings.keeps_outputs,
            gradient_bytes=self.trained.get("lm_head", 0.0) * settings.gradient_bytes * settings.weight_gradients,
            tied=settings.tied,
        )
        self.gathers = plan.tp > 1 and plan.sp
        self.regathers = self.gathers and plan.tp_regather
        """Gathered inputs are given up after the product and gathered again in backward; else they are kept tensors."""
        self.whole = max((op.m * op.k * op.element_bytes for op in self.operators if op.name in _COLUMN), default=0.0)
        """A block's input gathered over the tensor axis."""

    def _writes(self, i: int) -> list[Tensor]:
        """Tensors that exist once operator i is done: its own, and others of its module after the module's last."""
        op = self.operators[i]
        own = [t for t in self.tensors if t.name.removesuffix(" again") == f"{op.name}_out"]
        if op.module == "norm" or self._last_of_module(i) > i:
            return own
        named = {f"{other.name}_out" for other in self.operators}
        others = [t for t in self.tensors if t.producer == op.module and t.name.removesuffix(" again") not in named]
        return own + others

    def _last_of_module(self, i: int) -> int:
        return max(j for j, op in enumerate(self.operators) if op.module == self.operators[i].module)

    def _readers(self, tensor: Tensor) -> list[int]:
        """Operators whose backward reads a tensor, in forward order."""
        own = f"{tensor.name.removesuffix('_input')}_norm"
        if tensor.name.endswith("_input") and any(op.name == own for op in self.operators):
            return [i for i, op in enumerate(self.operators) if op.name == own]
        found = [i for i, op in enumerate(self.operators) if op.module in tensor.consumers]
        writer = next((i for i, op in enumerate(self.operators) if tensor.name == f"{op.name}_out"), -1)
        found = [i for i in found if i > writer] or found
        return found or [i for i, op in enumerate(self.operators) if op.module == tensor.producer] or [0]

    def forward(self, script: Script, live: dict[str, int], *, again: bool, output: int) -> None:
        """Run forward.

        Args:
            script: Where events go.
            live: Numbers of the kept tensors that exist, by name; those written here are added.
            again: A checkpoint runs again: everything that backward reads stays.
            output: Number of the block's output, `NONE` to leave it out.
        """
        due: dict[int, list[int]] = {}
        """Operator → outputs that are given up once it is done."""
        before = self.hidden
        for i, op in enumerate(self.operators):
            if self.looped and op.name in ("lm_head", "loss"):
                self._cast(script, op, live, again=again)
                if op.name == "loss":
                    self.loss.forward(script, live)
                continue
            gathered = script.new(self.whole) if self.regathers and op.name in _COLUMN else NONE
            expanded = self._weight(script, op)
            self._cast(script, op, live, again=again)
            writes = [t for t in self.written_by[i] if t.name not in live]
            out = output_bytes(op, before, self.hidden, sum(self.size[t.name] for t in self.written_by[i]))
            own = op.name in _ROW or sum(self.size[t.name] for t in writes) < 0.9 * out
            y = script.new(out) if own else NONE
            steps = self._ring_forward(script, op) if op.kind == Kind.ATTENTION and self.s.ring > 1 else []
            if self.s.exchanged and op.name in ("permute", "unpermute"):
                self._exchange(script, self.routed)
            if self.gathers and op.name in _ROW:
                y = self._reduced(script, y, out)
            for t in writes:
                parts = script.new(self.size[t.name]) if self._gathered_along_sequence(t) else NONE
                live[t.name] = script.new(self.size[t.name], kind=self.kind[t.name])
                script.free(parts)
            script.free(gathered, expanded, *steps)
            if i == len(self.operators) - 1 and output != NONE:
                script.new(self.hidden, number=output, kind=ACTIVATION)
            script.free(*due.pop(i, []))
            if op.name in _BRANCH_ENDS or i == len(self.operators) - 1:  # added to the residual stream
                script.free(y)
            else:
                last = self._last_of_module(i)
                pending = op.module != "norm" and last > i and bool(self.written_by[last])
                due.setdefault(last if pending else i + 1, []).append(y)
            before = out
            if not again:
                for name in [n for n in live if n in self.dropped and self.read_by[n][-1] <= i]:
                    script.free(live.pop(name))

    def _reduced(self, script: Script, whole: int, size: float) -> int:
        """Scatter a sum over the tensor axis; DTensor first lines the pieces up in a copy (as in gathers)."""
        parts, out = script.new(0.0 if self.regathers else size), script.new(self.hidden)
        script.free(whole, parts)
        return out

    def _gathered_along_sequence(self, tensor: Tensor) -> bool:
        """DTensor gathers rank after rank and then joins the pieces along the sequence: two copies at once."""
        return self.gathers and not self.regathers and tensor.name.removesuffix(" again").endswith("_norm_out")

    def _weight(self, script: Script, op: Operator) -> int:
        """A weight as the product reads it, where it is kept otherwise: gathered one by one, or in four bits."""
        if op.params and self.s.planned and self.s.sharded:
            return script.new(op.params * self.s.weight_bytes, kind=GATHERED)
        return script.new(op.params * op.element_bytes) if self.s.quantized_base and op.kind == Kind.GEMM else NONE

    def _cast(self, script: Script, op: Operator, live: dict[str, int], *, again: bool) -> None:
        """The copy of a weight that autocast makes stays for backward; a layer that runs again makes it again."""
        copy = script.new(cast_elements(op) * self.s.cast_bytes, kind=WEIGHT)
        if copy != NONE and (again or self.policy.policy != "full"):
            live[f"{op.name} weight"] = copy
        else:
            script.free(copy)

    def _exchange(self, script: Script, size: float) -> None:
        """Two copies of the routed tokens on the way: before and after the all-to-all."""
        sent = script.new(size)
        received = script.new(size)
        script.free(sent, received)

    def _ring_forward(self, script: Script, op: Operator) -> list[int]:
        """Keys and values of every ring step, and partial outputs, alternate between two streams."""
        one = op.m * op.element_bytes
        kv, out = one * op.kv_heads * (op.d_qk + op.d_v), one * op.heads * op.d_v
        numbers = [script.new(kv)]
        for step in range(self.s.ring):
            stream = MAIN if step % 2 == 0 else RING
            if step < self.s.ring - 1:
                numbers.append(script.new(kv, stream))
            numbers.append(script.new(out, stream))
        return numbers

    def backward(self, script: Script, weight: Script, live: dict[str, int], incoming: int) -> list[int]:
        """Run backward from the gradient `incoming` of the output.

        Returns:
            Numbers of the weight gradients that exist at the end.
        """
        if self.dropped and (self.policy.policy == "full" or "per_op" in self.policy.modules):
            self.forward(script, live, again=True, output=NONE)
        read, before = [], self.hidden
        for i, op in enumerate(self.operators):
            read.append(before)
            before = output_bytes(op, before, self.hidden, sum(self.size[t.name] for t in self.written_by[i]))
        residual = incoming
        x: list[int] = []
        gradients: list[int] = []
        for i in range(len(self.operators) - 1, -1, -1):
            op = self.operators[i]
            if self.looped and op.name in ("lm_head", "loss"):
                if op.name == "lm_head":
                    made_here, own = self.loss.backward(script, weight, live)
                    x = [made_here]
                    if self.gathers:
                        x = [self._reduced(script, made_here, self.whole)]
                    if self.s.planned and self.s.scattered and not self.s.tied:
                        weight.free(*own)
                        own = []
                    gradients += [] if self.s.tied else own
                continue
            for t in self.tensors:  # a module that discarded its output runs again when the output is needed
                if t.name in self.dropped and t.name not in live and i in self.read_by[t.name]:
                    live[t.name] = script.new(self.size[t.name], kind=self.kind[t.name])
            expanded = self._weight(script, op)
            wide = NONE
            if self.gathers and op.name in _ROW:
                size = op.m * op.n * op.element_bytes
                parts, wide = script.new(0.0 if self.regathers else size), script.new(size)
                script.free(parts)
            regathered = script.new(self.whole) if self.regathers and op.name in _COLUMN else NONE
            made: list[int] = []
            if op.module == "norm":
                made = [script.new(self.hidden, number=GRAD if i == 0 else NEW)]
                script.free(residual)
                residual = made[0]
            elif op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                made = [script.new(op.m * op.k * op.element_bytes)]
                if self.s.weight_gradients and self.trained[op.name]:
                    half = weight.new(cast_elements(op) * self.s.cast_bytes)
                    whole = weight.new(self.trained[op.name] * self.s.gradient_bytes, kind=GRADIENT)
                    weight.free(half)
                    if self.s.planned and self.s.scattered:  # reduced at once
                        weight.free(whole)
                    else:
                        gradients.append(whole)
                if self.gathers and op.name in _COLUMN:
                    made = [self._reduced(script, made[0], op.m * op.k * op.element_bytes)]
            elif op.kind == Kind.ATTENTION:
                made = self._attention_backward(script, op)
            elif op.module != "loss":
                if self.s.exchanged and op.name in ("permute", "unpermute"):
                    self._exchange(script, self.routed)
                made = [script.new(self.hidden if op.name == "permute" else read[i])]
            script.free(wide, regathered, expanded, *(n for n in x if n != residual))
            x = [] if op.module == "norm" else made
            for name in [n for n in live if self.read_by[n][0] == i]:
                weight.free(live.pop(name))
        if GRAD not in script.tensors:
            script.new(self.hidden, number=GRAD)
            script.free(residual)
        script.free(*x)
        for name in list(live):
            weight.free(live.pop(name))
        return gradients

    def _attention_backward(self, script: Script, op: Operator) -> list[int]:
        """Gradients of queries, and of keys and values; a kernel accumulates the query gradient in fp32.

        Queries in fp32 have it there anyway. A ring adds two buffers of keys, values and their gradients, and the
        gradients of one step at a time.
        """
        one = op.m * op.element_bytes
        kv, q = one * op.kv_heads * (op.d_qk + op.d_v), one * op.heads * op.d_qk
        ring = [script.new(2 * kv) for _ in range(2)] if self.s.ring > 1 else []
        made = [script.new(q), script.new(kv)]
        for _ in range(max(self.s.ring, 1)):
            step = [script.new(q), script.new(kv)] if self.s.ring > 1 else []
            accumulator = script.new(2 * q if op.element_bytes < 4.0 else 0.0)
            script.free(accumulator, *step)
        script.free(*ring)
        return made


def write_layer(
    writer: LayerWriter, *, first: bool, last: bool, previous: float, initial: bool, late: float, depth: int = 0
) -> Layer:
    """All events of one layer.

    Args:
        writer: The block.
        first: It is the first of its chunk: what arrives is allocated here.
        last: It is the last of its chunk: its output is sent, its gradient arrives.
        previous: Weights of the layer before it, fetched ahead in backward.
        initial: First micro-batch: gradients that appear late stay.
        late: Their bytes.
        depth: Layers between the embedding and the head, where they share weights.
    """
    s, hidden = writer.s, writer.hidden
    total = sum(writer.params)
    head, embedding = writer.block.kind == "head", writer.block.kind == "embedding"
    f, b = Script(), Script()
    b.counter = f.counter
    w = Script(counter=f.counter) if s.split_backward else b
    whole: list[int] = []
    rooted = s.sharded and s.root_bytes > 0.0 and (head or embedding)
    layered = s.sharded and not s.planned
    if layered:
        if not rooted:
            f.new(total * s.weight_bytes, GATHER, number=GATHERED_F, kind=GATHERED)
        elif embedding:
            f.new(s.root_bytes, GATHER, number=GATHERED_F, kind=GATHERED)
        if not first:
            f.free(GATHERED_F - STRIDE)
        whole = [f.new(n * s.weight_bytes, kind=GATHERED) for n in writer.params]
    if first and not embedding:
        f.new(hidden, number=INPUT, kind=ACTIVATION)
    live: dict[str, int] = {writer.input: INPUT} if writer.input else {}
    output = NONE if head else OUTPUT if last else INPUT + STRIDE
    if embedding:
        f.new(hidden, number=output, kind=ACTIVATION)
    else:
        writer.forward(f, live, again=False, output=output)
    if last and not head:
        f.free(output)
    if writer.offloaded and writer.input:
        f.free(INPUT)
        live[writer.input] = f.new(hidden * (1.0 - writer.offloaded), kind=ACTIVATION)
    if not rooted:
        f.free(*whole)
    if layered and last and not (rooted and head):
        f.free(GATHERED_F)

    if layered and not rooted:
        if last:
            b.new(total * s.weight_bytes, GATHER, number=GATHERED_B, kind=GATHERED)
        whole = [b.new(n * s.weight_bytes, kind=GATHERED) for n in writer.params]
        b.free(GATHERED_B)
    if layered and not first:
        b.new(previous * s.weight_bytes, GATHER, number=GATHERED_B - STRIDE, kind=GATHERED)
    if last and not head:
        b.new(hidden, number=OUT_GRAD)
    fetched = b.new(writer.fetched, kind=ACTIVATION)
    incoming = NONE if head else OUT_GRAD if last else GRAD + STRIDE
    if embedding:
        gradients = [b.new(n * s.gradient_bytes, kind=GRADIENT) for n in writer.params if s.weight_gradients]
        if s.accumulated:  # a table look-up has no product that adds into the buffer
            b.free(*[b.new(n * s.gradient_bytes, kind=GRADIENT) for n in writer.params])
        b.free(incoming)
        if s.tied and s.weight_gradients:
            b.free(depth * STRIDE + HEAD_GRAD)
    else:
        gradients = writer.backward(b, w, live, incoming)
    b.free(fetched, *whole)
    if s.step_bytes and s.weight_gradients:
        for n in writer.params:
            w.free(w.new(n * s.step_bytes))
    reduces = s.scattered and s.weight_gradients
    if reduces and not last and not s.planned:
        w.free(REDUCING + STRIDE)
    kept: list[int] = []
    if reduces:
        w.new(0.0 if s.planned else total * s.reduce_bytes, number=REDUCING, kind=GRADIENT)
        w.free(*gradients)
        shard = w.new(late or total * s.reduce_bytes / s.plan.shard_group, REDUCE, kind=GRADIENT)
        if initial and late:
            kept = [shard]
        else:
            w.free(shard)
        if first and not s.planned:
            w.free(REDUCING)
    elif initial and late:  # frozen weights leave none; the adapters' are one tensor
        kept = gradients if any(number != NONE for number in gradients) else [w.new(late, kind=GRADIENT)]
    else:
        w.free(*gradients)
    if first and not embedding:
        b.free(GRAD)
    return Layer(f, b, w if s.split_backward else Script(), tuple(n for n in kept if n != NONE))
