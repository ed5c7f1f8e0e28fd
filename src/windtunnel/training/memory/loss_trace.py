"""Allocations and frees of the head's product and the loss, tensor by tensor, as PyTorch code makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from windtunnel.graph import Operator, Tensor
from windtunnel.training.memory.tensor_events import (
    GRADIENT,
    HEAD_GRAD,
    LOGITS,
    NEW,
    NONE,
    OUTPUTS,
    STAGE_OUTPUT,
    TensorEvents,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossChain:
    """Tensors that the head and the loss of one micro-batch allocate."""

    op: Operator
    """The head's product on this rank."""
    mode: str
    """`eager` or `compiled` (see `layer_trace.LayerSettings.loss`)."""
    chunks: int
    """Pieces in which logits and loss are computed."""
    parallel: bool
    """The vocabulary is cut over the tensor axis."""
    keeps_output: bool
    """The logits stay until the step ends, as the output of the stage."""
    gradient_bytes: float
    """Bytes of the gradient of the head's weights, 0 where they are frozen."""
    tied: bool
    """The head multiplies by the embedding's weights."""

    def forward(self, events: TensorEvents, live: dict[str, int]) -> None:
        """Logits and loss as PyTorch runs them.

        Eager: 16-bit logits, their fp32 copy, fp32 log-probabilities; the copy is freed when the loss is known.
        Over the tensor axis (`loss_parallel`) shifted logits and their exponentials come in between. Compiled: the
        16-bit logits alone, in pieces where the framework cuts them. In full precision nothing is cast. Source:
        `torch.nn.functional.cross_entropy`, `torch/distributed/tensor/parallel/loss.py`; torchtune
        `CEWithChunkedOutputLoss`.
        """
        logits, element = self.op.m * self.op.n, self.op.element_bytes
        if self.mode == "compiled":
            if self.keeps_output:
                events.new(logits * element, number=STAGE_OUTPUT, kind=OUTPUTS)
                return
            for c in range(self.chunks):
                live[f"logits {c}"] = events.new(logits * element / self.chunks, kind=LOGITS)
            return
        half = events.new(0.0 if element == 4.0 else logits * element, kind=LOGITS)
        number = STAGE_OUTPUT if self.keeps_output else NEW
        copy = events.new(logits * 4, number=number, kind=OUTPUTS if self.keeps_output else LOGITS)
        events.free(half)
        if self.parallel:
            shifted = events.new(logits * 4, kind=LOGITS)
            events.free(events.new(logits * 4, kind=LOGITS))
            live["logits"] = events.new(logits * 4, kind=LOGITS)
            events.free(shifted)
        else:
            live["logits"] = events.new(logits * 4, kind=LOGITS)
        if not self.keeps_output:
            events.free(copy)

    def backward(self, events: TensorEvents, weight: TensorEvents, live: dict[str, int]) -> tuple[int, list[int]]:
        """Gradients of the logits, then of the head's input and of its weights.

        Returns:
            Number of the input's gradient, and numbers of the weights' gradients.
        """
        logits, element, pieces = self.op.m * self.op.n, self.op.element_bytes, []
        if self.mode == "compiled":
            for c in range(self.chunks - 1, -1, -1):
                pieces.append(events.new(logits * element / self.chunks, kind=LOGITS))
                events.free(live.pop(f"logits {c}", NONE))
        else:
            first = events.new(logits * 4, kind=LOGITS)
            if self.parallel:
                exponential = events.new(logits * 4, kind=LOGITS)
                total = events.new(logits * 4, kind=LOGITS)
                events.free(exponential)
                second = events.new(logits * 4, kind=LOGITS)
                events.free(total)
            else:
                second = events.new(logits * 4, kind=LOGITS)
            events.free(first, live.pop("logits"))
            if element == 4.0:  # no cast back
                pieces.append(second)
            else:
                pieces.append(events.new(logits * element, kind=LOGITS))
                events.free(second)
        made = events.new(self.op.m * self.op.k * element)
        gradients: list[int] = []
        for piece in pieces:  # gradients of the pieces are added up: two exist while they are
            if not gradients:
                number = HEAD_GRAD if self.tied else NEW
                gradients.append(weight.new(self.gradient_bytes, number=number, kind=GRADIENT))
            else:
                weight.free(weight.new(self.gradient_bytes, kind=GRADIENT))
            events.free(piece)
        return made, gradients


def logit_copies(tensor: Tensor, gradient_bytes: float) -> list[Tensor]:
    """Split kept logits into their gradient as products read it, and copies of at most four bytes an element."""
    if tensor.name != "logits" or tensor.element_bytes < 4:
        return [tensor]
    out = [replace(tensor, name="logits gradient", element_bytes=gradient_bytes, consumers=("head",))]
    rest = tensor.element_bytes - gradient_bytes
    while rest > 0:
        out.append(replace(tensor, name=f"logits {len(out)}", element_bytes=min(rest, 4.0)))
        rest -= 4.0
    return out
