"""Allocations and frees of single tensors within one layer: forward, backward, and weight gradients where apart.

Order: an operator allocates its output before its input is freed; a tensor kept for backward is freed after the
backward of the first operator (in forward order) that reads it; recomputed tensors are allocated where the checkpoint
runs a second time.

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
from windtunnel.graph.adapters import PREFIX as ADAPTER
from windtunnel.parallel.precision import Recipe, kept_bytes_scale
from windtunnel.parallel.recompute import recompute_block
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import split_operator, tensor_bytes
from windtunnel.specs.plan import Recompute
from windtunnel.training.memory.loss_trace import LossChain, logit_copies
from windtunnel.training.memory.operator_outputs import RECOMPUTED, memory_kind, output_bytes, plain_name
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
    TensorEvents,
)
from windtunnel.training.stage_costs.autocast import cast_elements

_COLUMN = frozenset({"qkv", "cross_q", "cross_kv", "fc1", "shared_fc1", "in_proj", "q_proj", "lm_head"})
_ROW = frozenset({"proj", "cross_proj", "fc2", "shared_fc2", "out_proj"})
NORM_COPIES = 2
"""Tensors of a weight's size, next to an unpacked one, that exist while the norm of its rows is taken."""
_BRANCH_ENDS = frozenset({"proj", "cross_proj", "fc2", "out_proj", "unpermute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSettings:
    """Settings of a step that decide how its layers allocate."""

    plan: ResolvedPlan
    sharded: bool
    """Weights are gathered layer by layer (FSDP, ZeRO-3) and freed after use."""
    scattered: bool
    """Gradients of a layer are reduced into shards as soon as they exist (FSDP)."""
    by_weight: float
    """Parameters that may be whole at a time where weights are gathered one by one (`live_weights`); 0: layers are."""
    bucketed: bool
    """A product's weight gradient is a tensor until it is copied into a bucket (DeepSpeed)."""
    weight_gradients: bool
    """Weight gradients are tensors of their own (not accumulated by the GEMM into a buffer)."""
    reduce_bytes: float
    """Bytes per element of a gradient on the wire."""
    accumulated: bool
    """Matrix products add weight gradients into a buffer."""
    weight_bytes: float
    """Bytes per element of a weight in the format of the products."""
    gradient_bytes: float
    """Bytes per element of a weight's gradient."""
    split_backward: bool
    """Weight gradients are instructions of their own."""
    ring: int
    """Ranks of the context-parallel ring; 1 without a ring."""
    exchanged: bool = False
    """Routed tokens are permuted, exchanged and sorted by expert: three tensors each way (alltoall dispatcher)."""
    gathered_ranks: int = 0
    """Ranks whose tokens are gathered around the experts (allgather dispatcher); 0 where none are."""
    loss: str = "in_place"
    """`in_place`: one kept copy; `eager`: chain of fp32 tensors; `compiled`: 16-bit logits and their gradient."""
    loss_chunks: int = 1
    """Pieces in which the head's output and the loss are computed."""
    recipe: Recipe | None = None
    """Recipe that inputs of low-precision products are kept in; `None` where they are kept in 16 bits."""
    compiled: bool = False
    """Layers are compiled: a partitioner decides which tensors per-operator checkpointing keeps."""
    root_bytes: float = 0.0
    """Bytes of the weights of embedding and head where they are gathered as one and stay whole until their backward."""
    kept_products: bool = True
    """Whether per-operator checkpointing sees the matrix products: custom 4-bit kernels are not `mm` operators."""
    planned: bool = False
    """A compiler plans memory: weights are gathered and gradients reduced one tensor at a time."""
    named: bool = False
    """Recomputation names the tensors that are kept (see `recompute_block`)."""
    step_bytes: float = 0.0
    """Bytes of temporaries of an optimizer that runs in backward, per element of the tensor it updates."""
    keeps_outputs: bool = False
    """The last stage of a pipeline keeps the output of every micro-batch until the step ends."""
    quantized_base: bool = False
    """Frozen weights are kept in eight bits or fewer and expanded for every product."""
    stored_bytes: float | None = None
    """Bytes of a weight of a layer as it is gathered, where a base is kept in few bits; absent: `weight_bytes`."""
    column_norms: bool = False
    """Adapters with magnitudes write out their product, scaled and added to the weight, to take the norm of each row
    (DoRA)."""
    tied: bool = False
    """The head multiplies by the embedding's weights, and both are in this chunk."""
    cast_bytes: float = 0.0
    """Bytes per element of the copy of a weight that a product and its backward read (`stage_costs.autocast`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPosition:
    """Where a layer stands in its chunk, and which micro-batch runs through it."""

    first: bool
    """The layer is the first of its chunk: it allocates its own input."""
    last: bool
    """The layer is the last of its chunk: its output is sent, and the gradient of it arrives."""
    previous_params: float
    """Weights of the layer before it, which backward gathers ahead."""
    initial: bool
    """The micro-batch is the first: late gradients stay."""
    late_bytes: float
    """Bytes of the layer's late gradients."""
    depth: int
    """Layers between the embedding and the head, where they share weights."""
    after_head: bool = False
    """The layer before it is the head of a module that predicts further tokens, which passes nothing on: the layer
    allocates its own input."""


@dataclass(frozen=True, slots=True)
class LayerTrace:
    """Events of one layer by direction, in tensor numbers local to the layer."""

    forward: TensorEvents
    backward: TensorEvents
    weight: TensorEvents
    late: tuple[int, ...] = ()
    """Numbers of the gradients that backward leaves (in the first micro-batch only)."""

    def late_sizes(self) -> Floats:
        """Bytes of the late gradients, shape (len(late),)."""
        sizes = {
            number: size
            for events in (self.backward, self.weight)
            for number, size in zip(events.tensors, events.sizes, strict=True)
            if size > 0
        }
        return np.array([sizes[number] for number in self.late])


class LayerTraceWriter:
    """Writes the events of one block: forward, backward, and weight gradients where they are apart."""

    def __init__(
        self,
        block: Block,
        settings: LayerSettings,
        policy: Recompute,
        hidden_bytes: float,
        *,
        offloaded: float = 0.0,
    ) -> None:
        """Decide what the block keeps, who writes each tensor and who reads it.

        Args:
            block: The block, unsharded.
            settings: How layers allocate.
            policy: What the block recomputes.
            hidden_bytes: Bytes of the block's input where no tensor of the block says.
            offloaded: Share of the activations that offloading takes from the device.
        """
        self.settings, self.block, self.policy = settings, block, policy
        plan = settings.plan
        self.operators = [split_operator(op, plan) for op in block.operators]
        self.is_head, self.is_embedding = block.kind == "head", block.kind == "embedding"
        self.explicit_loss = settings.loss != "in_place" and self.is_head
        """The loss is written out tensor by tensor; elsewhere the `logits` tensor stands for it."""
        self.offloaded = 0.0 if self.is_head else offloaded  # the head's tensors are needed at once
        self.tensors, self.dropped = self._kept_and_dropped()
        self.size_bytes = {t.name: self._device_bytes(t) for t in self.tensors}
        self.fetched_bytes = sum(self._fetched_bytes(t) for t in self.tensors)
        """Bytes that come back from the host before this layer's backward."""
        self.kind = {t.name: memory_kind(t.name) for t in self.tensors}
        first = next((t for t in self.tensors if t.producer == ""), None)
        self.hidden_bytes = tensor_bytes(first, plan) if first else hidden_bytes
        self.input_name = first.name if first else ""
        """Block input: allocated by whoever writes it, freed here."""
        self.written_by = [self._writes(i) for i in range(len(self.operators))]
        """For each operator, the kept tensors that exist once it is done."""
        self.read_by = {t.name: self._readers(t) for t in self.tensors}
        self.read_by |= {f"{op.name} weight": [i] for i, op in enumerate(self.operators)}
        """Tensor → operators whose backward reads it, in forward order."""
        self.params = [op.params for op in self.operators if op.params > 0]
        self.expert = [op.kind == Kind.GROUPED_GEMM for op in self.operators if op.params > 0]
        self.trained_params = {op.name: op.params for op in self.operators}
        if settings.tied and self.is_head:
            self.trained_params["lm_head"] = next(op.n * op.k for op in self.operators if op.name == "lm_head")
        self.routed_bytes = sum(size for name, size in self.size_bytes.items() if plain_name(name) == "routed_input")
        head_gradient = self.trained_params.get("lm_head", 0.0) * settings.gradient_bytes * settings.weight_gradients
        self.loss = LossChain(
            op=next((op for op in self.operators if op.name == "lm_head"), self.operators[-1]),
            mode=settings.loss,
            chunks=settings.loss_chunks,
            parallel=plan.tp > 1,
            keeps_output=settings.keeps_outputs,
            gradient_bytes=head_gradient,
            tied=settings.tied,
        )
        self.gathers = plan.tp > 1 and plan.sp
        """Inputs of column-parallel products are gathered over the tensor axis."""
        self.regathers = self.gathers and plan.tp_regather
        """Gathered inputs are freed after the product and gathered a second time in backward; else they are kept."""
        self.gathered_input_bytes = max(
            (op.m * op.k * op.element_bytes for op in self.operators if op.name in _COLUMN), default=0.0
        )
        """Bytes of a block's input gathered over the tensor axis."""
        layer_width = settings.weight_bytes if settings.stored_bytes is None else settings.stored_bytes
        self.gathered_width = settings.weight_bytes if self.is_head or self.is_embedding else layer_width
        """Bytes of one gathered weight."""
        self.rooted = settings.sharded and settings.root_bytes > 0.0 and (self.is_head or self.is_embedding)
        """The weights are gathered with those of the other end of the model and stay whole."""
        self.gathered_by_layer = settings.sharded and not settings.planned and not settings.by_weight
        """The weights of the layer are gathered at once, into one buffer."""

    def _kept_and_dropped(self) -> tuple[list[Tensor], set[str]]:
        """Tensors that backward reads, in the order in which forward writes them, and names of the recomputed ones."""
        settings, block = self.settings, self.block
        recompute = recompute_block(
            block,
            [],
            self.policy,
            named=settings.named,
            compiled=settings.compiled,
            kept_products=settings.kept_products,
        )
        kept_names = {t.name for t in recompute.kept}
        dropped = [replace(t, name=f"{t.name}{RECOMPUTED}") if t.name in kept_names else t for t in recompute.dropped]
        order = {t.name: i for i, t in enumerate(block.tensors)}
        tensors = sorted([*recompute.kept, *dropped], key=lambda t: order[plain_name(t.name)])
        tensors = [t for t in tensors if not (self.explicit_loss and t.name == "logits")]
        copies = [copy for t in tensors for copy in logit_copies(t, self.operators[0].element_bytes)]
        return copies, {t.name for t in dropped}

    def _device_bytes(self, tensor: Tensor) -> float:
        """Bytes of a tensor that stay on the device from forward to backward."""
        scale = kept_bytes_scale(tensor, self.settings.recipe) if self.settings.recipe else 1.0
        share = 1.0 if tensor.name in self.dropped else 1.0 - self.offloaded
        return tensor_bytes(tensor, self.settings.plan) * scale * share

    def _fetched_bytes(self, tensor: Tensor) -> float:
        """Bytes of a tensor that come back from the host before backward."""
        if tensor.name in self.dropped or not self.offloaded:
            return 0
        if self.offloaded < 1.0:
            return self.size_bytes[tensor.name] / (1.0 - self.offloaded) * self.offloaded
        return tensor_bytes(tensor, self.settings.plan)

    def _writes(self, i: int) -> list[Tensor]:
        """Tensors that exist once operator i is done: its own, and others of its module after the module's last."""
        op = self.operators[i]
        own = [t for t in self.tensors if plain_name(t.name) == f"{op.name}_out"]
        if op.module == "norm" or self._last_of_module(i) > i:
            return own
        outputs = {f"{other.name}_out" for other in self.operators}
        return own + [t for t in self.tensors if t.producer == op.module and plain_name(t.name) not in outputs]

    def _written_bytes(self, tensors: list[Tensor]) -> float:
        """Bytes of an operator's kept results, without what adapters next to it keep."""
        return sum(self.size_bytes[t.name] for t in tensors if not t.name.startswith(ADAPTER))

    def _last_of_module(self, i: int) -> int:
        return max(j for j, op in enumerate(self.operators) if op.module == self.operators[i].module)

    def _readers(self, tensor: Tensor) -> list[int]:
        """Operators whose backward reads a tensor, in forward order."""
        norm = f"{tensor.name.removesuffix('_input')}_norm"
        if tensor.name.endswith("_input") and any(op.name == norm for op in self.operators):
            return [i for i, op in enumerate(self.operators) if op.name == norm]
        readers = [i for i, op in enumerate(self.operators) if op.module in tensor.consumers]
        writer = next((i for i, op in enumerate(self.operators) if tensor.name == f"{op.name}_out"), -1)
        readers = [i for i in readers if i > writer] or readers
        return readers or [i for i, op in enumerate(self.operators) if op.module == tensor.producer] or [0]

    # -- the operators, forward ---------------------------------------------------------------------------------------
    def _forward_operators(self, events: TensorEvents, live: dict[str, int], *, recomputing: bool, output: int) -> None:
        """Run the operators forward.

        Args:
            events: Where allocations and frees go.
            live: Numbers of the kept tensors that exist, by name; those written here are added.
            recomputing: A checkpoint runs a second time: every tensor that backward reads stays.
            output: Number of the block's output, `NONE` to leave it out.
        """
        due: dict[int, list[int]] = {}
        """Operator → outputs that are freed once it is done."""
        before = self.hidden_bytes
        end = len(self.operators) - 1
        for i, op in enumerate(self.operators):
            if self.explicit_loss and op.name in ("lm_head", "loss"):
                self._cast_weight(events, op, live, recomputing=recomputing)
                if op.name == "loss":
                    self.loss.forward(events, live)
                continue
            size = output_bytes(op, before, self.hidden_bytes, self._written_bytes(self.written_by[i]))
            result = self._forward_operator(events, live, i, size, recomputing=recomputing)
            if i == end and output != NONE:
                events.new(self.hidden_bytes, number=output, kind=ACTIVATION)
            events.free(*due.pop(i, []))
            if op.name in _BRANCH_ENDS or i == end:  # added to the residual stream
                events.free(result)
            else:
                last = self._last_of_module(i)
                pending = op.module != "norm" and last > i and bool(self.written_by[last])
                due.setdefault(last if pending else i + 1, []).append(result)
            before = size
            if not recomputing:
                for name in [n for n in live if n in self.dropped and self.read_by[n][-1] <= i]:
                    events.free(live.pop(name))

    def _forward_operator(
        self, events: TensorEvents, live: dict[str, int], i: int, size: float, *, recomputing: bool
    ) -> int:
        """Run operator i forward.

        Returns:
            Number of its output where that is not a kept tensor, else `NONE`.
        """
        op = self.operators[i]
        gathered = events.new(self.gathered_input_bytes) if self.regathers and op.name in _COLUMN else NONE
        expanded = self._expand_weight(events, op)
        self._cast_weight(events, op, live, recomputing=recomputing)
        writes = [t for t in self.written_by[i] if t.name not in live]
        own = op.name in _ROW or self._written_bytes(writes) < 0.9 * size
        result = events.new(size) if own else NONE
        steps = self._ring_forward(events, op) if op.kind == Kind.ATTENTION and self.settings.ring > 1 else []
        if op.name in ("permute", "unpermute"):
            self._exchange(events)
        if self.gathers and op.name in _ROW:
            result = self._reduce_scatter(events, result, size)
        for t in writes:
            pieces = events.new(self.size_bytes[t.name]) if self._gathered_along_sequence(t) else NONE
            live[t.name] = events.new(self.size_bytes[t.name], kind=self.kind[t.name])
            events.free(pieces)
        events.free(gathered, expanded, *steps)
        return result

    def _reduce_scatter(self, events: TensorEvents, whole: int, size: float) -> int:
        """Scatter a sum over the tensor axis; DTensor first lines the pieces up in a copy (as in gathers)."""
        pieces = events.new(0.0 if self.regathers else size)
        scattered = events.new(self.hidden_bytes)
        events.free(whole, pieces)
        return scattered

    def _gathered_along_sequence(self, tensor: Tensor) -> bool:
        """DTensor gathers rank after rank and then joins the pieces along the sequence: two copies at once."""
        return self.gathers and not self.regathers and plain_name(tensor.name).endswith("_norm_out")

    def _expand_weight(self, events: TensorEvents, op: Operator) -> int:
        """Allocate a weight as the product reads it, where it is gathered by itself or kept in four bits."""
        settings = self.settings
        if settings.by_weight and self.trained_params[op.name]:
            return self._gather_one(events, self.trained_params[op.name])
        if op.params and settings.planned and settings.sharded:
            return events.new(op.params * settings.weight_bytes, kind=GATHERED)
        quantised = settings.quantized_base and op.kind == Kind.GEMM
        size = op.params * op.element_bytes * max(op.adapters, default=1.0)  # parts with own adapters are own products
        if settings.column_norms and op.adapters:
            events.free(*[events.new(size) for _ in range(NORM_COPIES + quantised)])
        return events.new(size) if quantised else NONE

    def _gather_one(self, events: TensorEvents, params: float) -> int:
        """Allocate a weight that is gathered by itself, and others that may be whole next to it."""
        limit = self.settings.by_weight
        return events.new((params if params > limit else params + limit) * self.gathered_width, kind=GATHERED)

    def _cast_weight(self, events: TensorEvents, op: Operator, live: dict[str, int], *, recomputing: bool) -> None:
        """Allocate autocast's copy of a weight; it stays for backward, where a recomputed layer makes it anew."""
        copy = events.new(cast_elements(op) * self.settings.cast_bytes, kind=WEIGHT)
        if copy != NONE and (recomputing or self.policy.policy != "full"):
            live[f"{op.name} weight"] = copy
        else:
            events.free(copy)

    def _exchange(self, events: TensorEvents) -> None:
        """Allocate what an exchange holds next to a rank's rows: copies before and after it, or all gathered tokens."""
        settings = self.settings
        if settings.exchanged:
            sent = events.new(self.routed_bytes)
            received = events.new(self.routed_bytes)
            events.free(sent, received)
        events.free(events.new(self.hidden_bytes * settings.gathered_ranks))

    def _ring_forward(self, events: TensorEvents, op: Operator) -> list[int]:
        """Allocate keys and values of every ring step, and partial outputs, alternately on two streams."""
        head_bytes = op.m * op.element_bytes
        kv_bytes = head_bytes * op.kv_heads * (op.d_qk + op.d_v)
        partial_output_bytes = head_bytes * op.heads * op.d_v
        numbers = [events.new(kv_bytes)]
        for step in range(self.settings.ring):
            stream = MAIN if step % 2 == 0 else RING
            if step < self.settings.ring - 1:
                numbers.append(events.new(kv_bytes, stream))
            numbers.append(events.new(partial_output_bytes, stream))
        return numbers

    # -- the operators, backward --------------------------------------------------------------------------------------
    def _backward_operators(
        self, events: TensorEvents, weight: TensorEvents, live: dict[str, int], incoming: int
    ) -> list[int]:
        """Run the operators backward from the gradient `incoming` of the output.

        Returns:
            Numbers of the weight gradients that exist at the end.
        """
        if self.dropped and (self.policy.policy == "full" or "per_op" in self.policy.modules):
            self._forward_operators(events, live, recomputing=True, output=NONE)
        input_bytes = self._input_bytes()
        residual = incoming
        """Gradient of the residual stream."""
        upstream: list[int] = []
        """Gradients that the operator before allocated."""
        gradients: list[int] = []
        for i in range(len(self.operators) - 1, -1, -1):
            op = self.operators[i]
            if self.explicit_loss and op.name in ("lm_head", "loss"):
                if op.name == "lm_head":
                    upstream, own = self._head_backward(events, weight, live)
                    gradients += own
                continue
            self._recompute_inputs(events, live, i)
            buffers = self._backward_buffers(events, op)
            made: list[int] = []
            if op.module == "norm":
                made = [events.new(self.hidden_bytes, number=GRAD if i == 0 else NEW)]
                events.free(residual)
                residual = made[0]
            elif op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
                made, own = self._product_backward(events, weight, op)
                gradients += own
            elif op.kind == Kind.ATTENTION:
                made = self._attention_backward(events, op)
            elif op.module != "loss":
                if op.name in ("permute", "unpermute"):
                    self._exchange(events)
                made = [events.new(self.hidden_bytes if op.name == "permute" else input_bytes[i])]
            events.free(*buffers, *(number for number in upstream if number != residual))
            upstream = [] if op.module == "norm" else made
            for name in [n for n in live if self.read_by[n][0] == i]:
                weight.free(live.pop(name))
        if GRAD not in events.tensors:
            events.new(self.hidden_bytes, number=GRAD)
            events.free(residual)
        events.free(*upstream)
        for name in list(live):
            weight.free(live.pop(name))
        return gradients

    def _input_bytes(self) -> list[float]:
        """Bytes that each operator reads, in forward order."""
        sizes, before = [], self.hidden_bytes
        for op, writes in zip(self.operators, self.written_by, strict=True):
            sizes.append(before)
            before = output_bytes(op, before, self.hidden_bytes, sum(self.size_bytes[t.name] for t in writes))
        return sizes

    def _recompute_inputs(self, events: TensorEvents, live: dict[str, int], i: int) -> None:
        """Allocate discarded tensors that operator i reads: a module that discarded its output runs a second time."""
        for t in self.tensors:
            if t.name in self.dropped and t.name not in live and i in self.read_by[t.name]:
                live[t.name] = events.new(self.size_bytes[t.name], kind=self.kind[t.name])

    def _backward_buffers(self, events: TensorEvents, op: Operator) -> list[int]:
        """Allocate buffers that live while the backward of an operator runs."""
        expanded = self._expand_weight(events, op)
        gathered_gradient = NONE
        if self.gathers and op.name in _ROW:
            size = op.m * op.n * op.element_bytes
            pieces, gathered_gradient = events.new(0.0 if self.regathers else size), events.new(size)
            events.free(pieces)
        regathers = self.regathers and op.name in _COLUMN
        regathered_input = events.new(self.gathered_input_bytes) if regathers else NONE
        return [gathered_gradient, regathered_input, expanded]

    def _head_backward(
        self, events: TensorEvents, weight: TensorEvents, live: dict[str, int]
    ) -> tuple[list[int], list[int]]:
        """Run the loss and the head backward; returns the gradient of the head's input and those of its weights."""
        input_gradient, gradients = self.loss.backward(events, weight, live)
        if self.gathers:
            input_gradient = self._reduce_scatter(events, input_gradient, self.gathered_input_bytes)
        if self.settings.planned and self.settings.scattered and not self.settings.tied:
            weight.free(*gradients)
            gradients = []
        return [input_gradient], [] if self.settings.tied else gradients

    def _product_backward(
        self, events: TensorEvents, weight: TensorEvents, op: Operator
    ) -> tuple[list[int], list[int]]:
        """Run a matrix product backward; returns the gradient of its input and that of its weight."""
        settings = self.settings
        input_bytes = op.m * op.k * op.element_bytes
        input_gradient = events.new(input_bytes)
        gradients: list[int] = []
        if settings.weight_gradients and self.trained_params[op.name]:
            shared = settings.tied and op.name == "lm_head"  # lives until the embedding's gradient is added to it
            half = weight.new(cast_elements(op) * settings.cast_bytes)
            size = self.trained_params[op.name] * settings.gradient_bytes
            whole = weight.new(size, number=HEAD_GRAD if shared else NEW, kind=GRADIENT)
            weight.free(half)
            if settings.planned and settings.scattered and not shared:  # reduced at once
                weight.free(whole)
            elif not shared:
                gradients.append(whole)
        elif settings.bucketed:
            weight.free(weight.new(self.trained_params[op.name] * settings.gradient_bytes, kind=GRADIENT))
        if self.gathers and op.name in _COLUMN:
            input_gradient = self._reduce_scatter(events, input_gradient, input_bytes)
        return [input_gradient], gradients

    def _attention_backward(self, events: TensorEvents, op: Operator) -> list[int]:
        """Gradients of queries, and of keys and values; a kernel accumulates the query gradient in fp32.

        Queries in fp32 have it there anyway. A ring adds two buffers of keys, values and their gradients, and the
        gradients of one step at a time.
        """
        head_bytes = op.m * op.element_bytes
        kv_bytes = head_bytes * op.kv_heads * (op.d_qk + op.d_v)
        query_bytes = head_bytes * op.heads * op.d_qk
        ring = [events.new(2 * kv_bytes) for _ in range(2)] if self.settings.ring > 1 else []
        made = [events.new(query_bytes), events.new(kv_bytes)]
        for _ in range(max(self.settings.ring, 1)):
            step = [events.new(query_bytes), events.new(kv_bytes)] if self.settings.ring > 1 else []
            accumulator = events.new(2 * query_bytes if op.element_bytes < 4.0 else 0.0)
            events.free(accumulator, *step)
        events.free(*ring)
        return made

    # -- the layer around its operators -------------------------------------------------------------------------------
    def write(self, position: LayerPosition) -> LayerTrace:
        """All events of the layer at a position of its chunk."""
        forward, backward = TensorEvents(), TensorEvents()
        backward.counter = forward.counter
        split = self.settings.split_backward
        weight = TensorEvents(counter=forward.counter) if split else backward
        live: dict[str, int] = {self.input_name: INPUT} if self.input_name else {}
        whole = self._write_forward(forward, live, position)
        late = self._write_backward(backward, weight, live, position, whole)
        return LayerTrace(forward, backward, weight if split else TensorEvents(), tuple(n for n in late if n != NONE))

    def _gather_weights(self, events: TensorEvents) -> list[int]:
        """Copy gathered weights out of the buffer, one tensor for each parameter."""
        return [events.new(n * self.gathered_width, kind=GATHERED) for n in self.params]

    def _write_forward(self, events: TensorEvents, live: dict[str, int], position: LayerPosition) -> list[int]:
        """Write the forward pass.

        Returns:
            Numbers of the gathered weights that stay whole until backward.
        """
        settings, whole = self.settings, []
        if self.gathered_by_layer:
            if not self.rooted:
                size = sum(self.params) * self.gathered_width
                events.new(size, GATHER, number=GATHERED_F, kind=GATHERED)
            elif self.is_embedding:
                events.new(settings.root_bytes, GATHER, number=GATHERED_F, kind=GATHERED)
            if not position.first:
                events.free(GATHERED_F - STRIDE)
            whole = self._gather_weights(events)
        if (position.first and not self.is_embedding) or position.after_head:
            events.new(self.hidden_bytes, number=INPUT, kind=ACTIVATION)
        output = NONE if self.is_head else OUTPUT if position.last else INPUT + STRIDE
        if self.is_embedding:
            if settings.by_weight:
                events.free(self._gather_one(events, sum(self.params)))
            events.new(self.hidden_bytes, number=output, kind=ACTIVATION)
        else:
            self._forward_operators(events, live, recomputing=False, output=output)
        if position.last and not self.is_head:
            events.free(output)
        if self.offloaded and self.input_name:
            events.free(INPUT)
            live[self.input_name] = events.new(self.hidden_bytes * (1.0 - self.offloaded), kind=ACTIVATION)
        if not self.rooted:
            events.free(*whole)
        if self.gathered_by_layer and position.last and not (self.rooted and self.is_head):
            events.free(GATHERED_F)
        return whole if self.rooted else []

    def _write_backward(
        self,
        events: TensorEvents,
        weight: TensorEvents,
        live: dict[str, int],
        position: LayerPosition,
        whole: list[int],
    ) -> list[int]:
        """Write the backward pass and the weight gradients; `whole` are gathered weights that forward left.

        Returns:
            Numbers of the gradients that remain.
        """
        settings = self.settings
        if self.gathered_by_layer and not self.rooted:
            if position.last:
                size = sum(self.params) * self.gathered_width
                events.new(size, GATHER, number=GATHERED_B, kind=GATHERED)
            whole = self._gather_weights(events)
            events.free(GATHERED_B)
        if self.gathered_by_layer and not position.first:
            size = position.previous_params * self.gathered_width
            events.new(size, GATHER, number=GATHERED_B - STRIDE, kind=GATHERED)
        if position.last and not self.is_head:
            events.new(self.hidden_bytes, number=OUT_GRAD)
        fetched = events.new(self.fetched_bytes, kind=ACTIVATION)
        incoming = NONE if self.is_head else OUT_GRAD if position.last else GRAD + STRIDE
        if self.is_embedding:
            gradients = self._embedding_backward(events, incoming, position)
        else:
            gradients = self._backward_operators(events, weight, live, incoming)
        events.free(fetched, *whole)
        if settings.step_bytes and settings.weight_gradients:
            for n in self.params:
                weight.free(weight.new(n * settings.step_bytes))
        late = self._reduce_gradients(weight, gradients, position)
        if (position.first and not self.is_embedding) or position.after_head:
            events.free(GRAD)
        return late

    def _embedding_backward(self, events: TensorEvents, incoming: int, position: LayerPosition) -> list[int]:
        """Run the table look-up backward; returns the numbers of its weight gradients."""
        settings = self.settings
        sizes = [n * settings.gradient_bytes for n in self.params]
        gradients = [events.new(size, kind=GRADIENT) for size in sizes if settings.weight_gradients]
        if settings.accumulated:  # a table look-up has no product that adds into the buffer
            events.free(*[events.new(size, kind=GRADIENT) for size in sizes])
        events.free(incoming)
        if settings.tied and settings.weight_gradients:
            events.free(position.depth * STRIDE + HEAD_GRAD)
        return gradients

    def _reduce_gradients(self, weight: TensorEvents, gradients: list[int], position: LayerPosition) -> list[int]:
        """Reduce or free the layer's weight gradients; returns the numbers of those that remain."""
        settings, late_bytes = self.settings, position.late_bytes
        stays = position.initial and late_bytes
        if settings.scattered and settings.weight_gradients:
            if not position.last and not settings.planned:
                weight.free(REDUCING + STRIDE)
            wire_bytes = sum(self.params) * settings.reduce_bytes
            weight.new(0.0 if settings.planned else wire_bytes, number=REDUCING, kind=GRADIENT)
            weight.free(*gradients)
            shard = weight.new(late_bytes or wire_bytes / settings.plan.shard_group, REDUCE, kind=GRADIENT)
            if not stays:
                weight.free(shard)
            if position.first and not settings.planned:
                weight.free(REDUCING)
            return [shard] if stays else []
        if stays:  # frozen weights leave none; the adapters' are one tensor
            return gradients if any(n != NONE for n in gradients) else [weight.new(late_bytes, kind=GRADIENT)]
        weight.free(*gradients)
        return []
