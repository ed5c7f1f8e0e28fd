"""What step-level passes decide: how data-parallel traffic is cut and when it may start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """Switches of the step program."""

    overlap_grad_reduce: bool
    overlap_param_gather: bool
    overlap_p2p: bool
    fsdp_prefetch: bool
    buckets_per_chunk: int = 8
    """Pieces into which a chunk's gradient reduction (or parameter gather) is cut when it overlaps."""
    bucket_bytes: float | None = None
    """Size of a gradient bucket; absent means `buckets_per_chunk` equal ones."""
    prefetch_depth: int = 2
    """Gathered layers alive at a time under ZeRO-3."""
    gather_exposed: float = 0.0
    """ZeRO-3: share of a layer's gather and reduction during which its computation waits, whatever the prefetch."""
    grad_bytes: float = 4.0
    sync_every_micro_batch: bool = True
    """ZeRO-3: reduce after every micro-batch's backward."""
    reduce_every_micro_batch: bool = False
    """Reduce after every micro-batch's backward, not the last one's (ZeRO-2 without a pipeline, DDP without `no_sync`).

    Where reductions do not overlap, the next micro-batch waits for all of them (DeepSpeed's stage 2 without
    `overlap_comm`). Source: DeepSpeed `runtime/engine.py` (`allreduce_gradients`: stage 2 reduces whatever the boundary
    of gradient accumulation, stage 1 at the boundary) and `runtime/zero/stage_1_and_2.py` (`reduce_ipg_grads`)."""
