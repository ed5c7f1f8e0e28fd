"""Allocations and frees of one stretch of host program, by tensor: the words in which layers are written out."""

from __future__ import annotations

from dataclasses import dataclass, field

MAIN, GATHER, REDUCE, RING = range(4)
"""Streams on which memory is allocated."""
KINDS = (
    "temporaries",
    "activations",
    "logits and head",
    "attention scores",
    "gathered layers",
    "gradients",
    "weights",
    "optimizer",
    "workspace",
    "stage outputs",
)
"""What a tensor is, for the report of what was alive at the peak."""
TEMPORARY, ACTIVATION, LOGITS, SCORES, GATHERED, GRADIENT, WEIGHT, OPTIMIZER, WORKSPACE, OUTPUTS = range(len(KINDS))
INPUT, GRAD, OUTPUT, OUT_GRAD, GATHERED_B, GATHERED_F, REDUCING, HEAD_GRAD, STAGE_OUTPUT, FIRST = range(10)
"""Numbers, within a layer, of tensors that neighbouring layers refer to; a layer's own tensors follow."""
STRIDE = 1 << 16
"""In a layer's script the numbers of the next layer's tensors are this much larger."""
NONE, NEW = -(10**9), -(10**9) - 1


@dataclass(slots=True)
class Script:
    """Events of one stretch of host program. Tensors are numbered within a layer."""

    sizes: list[float] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    counter: list[int] = field(default_factory=lambda: [FIRST])
    """Next number; scripts of one layer share it."""

    def new(self, size: float, stream: int = MAIN, *, number: int = NEW, kind: int = TEMPORARY) -> int:
        """Allocate; the tensor's number, `NONE` for nothing."""
        if size < 1.0:
            return NONE
        if number == NEW:
            number = self.counter[0]
            self.counter[0] += 1
        self.sizes.append(size)
        self.tensors.append(number)
        self.streams.append(stream)
        self.kinds.append(kind)
        return number

    def free(self, *numbers: int) -> None:
        """Free tensors; `NONE` is skipped."""
        for number in numbers:
            if number != NONE:
                self.sizes.append(-1.0)
                self.tensors.append(number)
                self.streams.append(MAIN)
                self.kinds.append(TEMPORARY)
