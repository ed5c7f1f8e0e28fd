"""The least time of a step on one cluster, whatever the plan: what decides whether a cluster is looked at at all."""

from __future__ import annotations

from windtunnel import graph
from windtunnel.graph import Batch, Kind
from windtunnel.parallel.precision import MATRIX_FORMAT
from windtunnel.planner.tails import Case


def least_step_s(case: Case) -> float:
    """Seconds that the products of weights and activations take at the peak rate of all devices; 0 with techniques.

    Every plan runs each product once forward and, where weights are trained, twice backward; some device has at least
    the mean share of them, runs one after the other, and none faster than the peak of the data sheet. Attention, whose
    masked half need not run, is left out.
    """
    if case.techniques:  # one may change what is computed
        return 0.0
    training, device = case.training, case.cluster.device
    batch = Batch.train(
        1, training.seq_len, document=training.mean_document_length, decoder_seq_len=training.decoder_seq_len
    )
    g = graph.build(case.model, batch)
    depth = [g.blocks[kind] for kind in g.depth]
    products = sum(
        graph.forward_flop(op)
        for block in (*depth, g.head)
        for op in block.operators
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM)
    )
    passes = 1.0 if training.phase == "lora" else 3.0
    rate = max(device.peak(MATRIX_FORMAT[training.precision]), device.peak("bf16"))
    return passes * products * training.global_batch / (case.cluster.num_devices * rate)
