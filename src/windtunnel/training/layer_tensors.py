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

from dataclasses import dataclass, field, replace

from windtunnel.graph import Block, Kind, Operator, Tensor
from windtunnel.parallel.recompute import recompute_block
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import split_operator, tensor_bytes
from windtunnel.specs.plan import Recompute

MAIN, GATHER, REDUCE, RING = range(4)
"""Streams on which memory is allocated."""
_INPUT, _GRAD, _OUTPUT, _OUT_GRAD, _GATHERED_B, _GATHERED_F, _REDUCING, FIRST = range(8)
"""Numbers, within a layer, of tensors that neighbouring layers refer to; a layer's own tensors follow."""
STRIDE = 1 << 16
"""In a layer's script the numbers of the next layer's tensors are this much larger."""
_NONE, _NEW = -(10**9), -(10**9) - 1
_COLUMN = frozenset({"qkv", "cross_q", "cross_kv", "fc1", "shared_fc1", "in_proj", "q_proj", "lm_head"})
_ROW = frozenset({"proj", "cross_proj", "fc2", "shared_fc2", "out_proj"})
_BRANCH_ENDS = frozenset({"proj", "cross_proj", "fc2", "out_proj", "unpermute"})


@dataclass(slots=True)
class Script:
    """Events of one stretch of host program. Tensors are numbered within a layer."""

    sizes: list[float] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    counter: list[int] = field(default_factory=lambda: [FIRST])
    """Next number; scripts of one layer share it."""

    def new(self, size: float, stream: int = MAIN, *, number: int = _NEW) -> int:
        """Allocate; the tensor's number, `_NONE` for nothing."""
        if size < 1.0:
            return _NONE
        if number == _NEW:
            number = self.counter[0]
            self.counter[0] += 1
        self.sizes.append(size)
        self.tensors.append(number)
        self.streams.append(stream)
        return number

    def free(self, *numbers: int) -> None:
        """Free tensors; `_NONE` is skipped."""
        for number in numbers:
            if number != _NONE:
                self.sizes.append(-1.0)
                self.tensors.append(number)
                self.streams.append(MAIN)


@dataclass(frozen=True, slots=True)
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
    weight_bytes: float
    """Per element of a weight, and of its gradient, as computed with."""
    split_backward: bool
    ring: int
    """Ranks of the context ring, 1 without."""
    exchanged: bool = False
    """Routed tokens are permuted, exchanged and sorted by expert: three tensors each way (alltoall dispatcher)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Events of one layer by direction, in numbers local to the layer."""

    forward: Script
    backward: Script
    weight: Script
    late: tuple[int, ...] = ()
    """Gradients that backward leaves (in the first micro-batch only)."""


def _copies(tensor: Tensor) -> list[Tensor]:
    """Logits are kept as several tensors: their gradient in two bytes, and copies of at most four."""
    if tensor.name != "logits" or tensor.element_bytes < 4:
        return [tensor]
    out = [replace(tensor, name="logits gradient", element_bytes=2.0, consumers=("head",))]
    rest = tensor.element_bytes - 2.0
    while rest > 0:
        out.append(replace(tensor, name=f"logits {len(out)}", element_bytes=min(rest, 4.0)))
        rest -= 4.0
    return out


def _output_bytes(op: Operator, before: float, hidden: float, written: float) -> float:
    """Bytes an operator writes on this rank; `written` are kept tensors of its module."""
    if op.module == "loss":
        return 0.0
    if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
        return op.m * op.n * 2
    if op.kind == Kind.BATCHED_GEMM:
        return op.groups * op.m * op.n * 2
    if op.kind == Kind.ATTENTION:
        return op.m * op.heads * op.d_v * 2
    if op.module == "norm" or op.name == "unpermute":
        return hidden
    return written or before


class LayerWriter:
    """Writes the events of one block: forward, backward, and weight gradients where they are apart."""

    def __init__(
        self, block: Block, settings: Settings, policy: Recompute, hidden: float, *, offloaded: float = 0.0
    ) -> None:
        self.s, self.block, self.policy = settings, block, policy
        plan = settings.plan
        self.operators = [split_operator(op, plan) for op in block.operators]
        again = recompute_block(block, [], policy)
        names = {t.name for t in again.kept}
        dropped = [replace(t, name=f"{t.name} again") if t.name in names else t for t in again.dropped]
        self.dropped = {t.name for t in dropped}
        order = {t.name: i for i, t in enumerate(block.tensors)}
        tensors = sorted([*again.kept, *dropped], key=lambda t: order[t.name.removesuffix(" again")])
        self.tensors = [piece for t in tensors for piece in _copies(t)]
        self.size = {
            t.name: tensor_bytes(t, plan) * (1.0 if t.name in self.dropped else 1.0 - offloaded) for t in self.tensors
        }
        first = next((t for t in self.tensors if t.producer == ""), None)
        self.hidden = tensor_bytes(first, plan) if first else hidden
        self.input = first.name if first else ""
        """Block input: allocated by whoever writes it, freed here."""
        self.written_by = [self._writes(i) for i in range(len(self.operators))]
        self.read_by = {t.name: self._readers(t) for t in self.tensors}
        self.params = [op.params for op in self.operators if op.params > 0]
        self.routed = sum(size for name, size in self.size.items() if name.removesuffix(" again") == "routed_input")
        self.gathers = plan.tp > 1 and plan.sp
        self.regathers = self.gathers and plan.tp_regather
        """Gathered inputs are given up after the product and gathered again in backward; else they are kept tensors."""
        self.whole = max((op.m * op.k * 2 for op in self.operators if op.name in _COLUMN), default=0.0)
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
            output: Number of the block's output, `_NONE` to leave it out.
        """
        due: dict[int, list[int]] = {}
        """Operator → outputs that are given up once it is done."""
        before = self.hidden
        for i, op in enumerate(self.operators):
            gathered = script.new(self.whole) if self.regathers and op.name in _COLUMN else _NONE
            writes = [t for t in self.written_by[i] if t.name not in live]
            out = _output_bytes(op, before, self.hidden, sum(self.size[t.name] for t in self.written_by[i]))
            own = op.name in _ROW or sum(self.size[t.name] for t in writes) < 0.9 * out
            y = script.new(out) if own else _NONE
            steps = self._ring_forward(script, op) if op.kind == Kind.ATTENTION and self.s.ring > 1 else []
            if self.s.exchanged and op.name in ("permute", "unpermute"):
                self._exchange(script, self.routed)
            if self.gathers and op.name in _ROW:
                reduced = script.new(self.hidden)
                script.free(y)
                y = reduced
            for t in writes:
                live[t.name] = script.new(self.size[t.name])
            script.free(gathered, *steps)
            if i == len(self.operators) - 1 and output != _NONE:
                script.new(self.hidden, number=output)
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

    def _exchange(self, script: Script, size: float) -> None:
        """Two copies of the routed tokens on the way: before and after the all-to-all."""
        sent = script.new(size)
        received = script.new(size)
        script.free(sent, received)

    def _ring_forward(self, script: Script, op: Operator) -> list[int]:
        """Keys and values of every ring step, and partial outputs, alternate between two streams."""
        kv, out = op.m * op.kv_heads * (op.d_qk + op.d_v) * 2, op.m * op.heads * op.d_v * 2
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
            self.forward(script, live, again=True, output=_NONE)
        read, before = [], self.hidden
        for i, op in enumerate(self.operators):
            read.append(before)
            before = _output_bytes(op, before, self.hidden, sum(self.size[t.name] for t in self.written_by[i]))
        residual = incoming
        x: list[int] = []
        gradients: list[int] = []
        for i in range(len(self.operators) - 1, -1, -1):
            op = self.operators[i]
            for t in self.tensors:  # a module that discarded its output runs again when the output is needed
                if t.name in self.dropped and t.name not in live and i in self.read_by[t.name]:
                    live[t.name] = script.new(self.size[t.name])
            wide = script.new(op.m * op.n * 2) if self.gathers and op.name in _ROW else _NONE
            regathered = script.new(self.whole) if self.regathers and op.name in _COLUMN else _NONE
            made: list[int] = []
            if op.module == "norm":
                made = [script.new(self.hidden, number=_GRAD if i == 0 else _NEW)]
                script.free(residual)
                residual = made[0]
            elif op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                made = [script.new(op.m * op.k * 2)]
                if self.s.weight_gradients and op.params:
                    gradients.append(weight.new(op.params * self.s.weight_bytes))
                if self.gathers and op.name in _COLUMN:
                    reduced = script.new(self.hidden)
                    script.free(*made)
                    made = [reduced]
            elif op.kind == Kind.ATTENTION:
                made = self._attention_backward(script, op)
            elif op.module != "loss":
                if self.s.exchanged and op.name in ("permute", "unpermute"):
                    self._exchange(script, self.routed)
                made = [script.new(self.hidden if op.name == "permute" else read[i])]
            script.free(wide, regathered, *(n for n in x if n != residual))
            x = [] if op.module == "norm" else made
            for name in [n for n in live if self.read_by[n][0] == i]:
                weight.free(live.pop(name))
        if _GRAD not in script.tensors:
            script.new(self.hidden, number=_GRAD)
            script.free(residual)
        script.free(*x)
        for name in list(live):
            weight.free(live.pop(name))
        return gradients

    def _attention_backward(self, script: Script, op: Operator) -> list[int]:
        """Gradients of queries, and of keys and values; a kernel accumulates the query gradient in fp32.

        A ring adds two buffers of keys, values and their gradients, and the gradients of one step at a time.
        """
        kv, q = op.m * op.kv_heads * (op.d_qk + op.d_v) * 2, op.m * op.heads * op.d_qk * 2
        ring = [script.new(2 * kv) for _ in range(2)] if self.s.ring > 1 else []
        made = [script.new(q), script.new(kv)]
        for _ in range(max(self.s.ring, 1)):
            step = [script.new(q), script.new(kv)] if self.s.ring > 1 else []
            accumulator = script.new(2 * q)
            script.free(accumulator, *step)
        script.free(*ring)
        return made


def write_layer(writer: LayerWriter, *, first: bool, last: bool, previous: float, initial: bool, late: float) -> Layer:
    """All events of one layer.

    Args:
        writer: The block.
        first: It is the first of its chunk: what arrives is allocated here.
        last: It is the last of its chunk: its output is sent, its gradient arrives.
        previous: Weights of the layer before it, fetched ahead in backward.
        initial: First micro-batch: gradients that appear late stay.
        late: Their bytes.
    """
    s, hidden = writer.s, writer.hidden
    total = sum(writer.params)
    head, embedding = writer.block.kind == "head", writer.block.kind == "embedding"
    f, b = Script(), Script()
    b.counter = f.counter
    w = Script(counter=f.counter) if s.split_backward else b
    whole: list[int] = []
    if s.sharded:
        f.new(total * s.weight_bytes, GATHER, number=_GATHERED_F)
        if not first:
            f.free(_GATHERED_F - STRIDE)
        whole = [f.new(n * s.weight_bytes) for n in writer.params]
    if first and not embedding:
        f.new(hidden, number=_INPUT)
    live: dict[str, int] = {writer.input: _INPUT} if writer.input else {}
    output = _NONE if head else _OUTPUT if last else _INPUT + STRIDE
    if embedding:
        f.new(hidden, number=output)
    else:
        writer.forward(f, live, again=False, output=output)
    if last and not head:
        f.free(output)
    f.free(*whole)
    if s.sharded and last:
        f.free(_GATHERED_F)

    if s.sharded:
        if last:
            b.new(total * s.weight_bytes, GATHER, number=_GATHERED_B)
        whole = [b.new(n * s.weight_bytes) for n in writer.params]
        b.free(_GATHERED_B)
        if not first:
            b.new(previous * s.weight_bytes, GATHER, number=_GATHERED_B - STRIDE)
    if last and not head:
        b.new(hidden, number=_OUT_GRAD)
    incoming = _NONE if head else _OUT_GRAD if last else _GRAD + STRIDE
    if embedding:
        gradients = [b.new(n * s.weight_bytes) for n in writer.params]
        b.free(incoming)
    else:
        gradients = writer.backward(b, w, live, incoming)
    b.free(*whole)
    reduces = s.scattered and s.weight_gradients
    if reduces and not last:
        w.free(_REDUCING + STRIDE)
    kept: list[int] = []
    if reduces:
        w.new(total * s.reduce_bytes, number=_REDUCING)
        w.free(*gradients)
        shard = w.new(late or total * s.reduce_bytes / s.plan.shard_group, REDUCE)
        if initial and late:
            kept = [shard]
        else:
            w.free(shard)
        if first:
            w.free(_REDUCING)
    elif initial and late:
        kept = gradients
    else:
        w.free(*gradients)
    if first and not embedding:
        b.free(_GRAD)
    return Layer(f, b, w if s.split_backward else Script(), tuple(kept))
