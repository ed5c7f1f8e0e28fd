"""A hand-made training result around a real pipeline schedule, for tests of what reads results."""

from __future__ import annotations

import numpy as np

from windtunnel import schedules
from windtunnel.schedules.evaluate import evaluate
from windtunnel.schedules.table import ScheduleCosts
from windtunnel.training.results import Assumption, Interval, MemoryReport, TraceEvents, TrainingResult

GIB = 2.0**30
TAGS = ("forward", "backward", "tp all-gather", "dp reduce-scatter", "optimizer", "dp all-gather", "p2p send")
STREAMS = ("compute", "tp", "p2p", "dp")


def pipeline_events(p: int = 4, m: int = 64, v: int = 5, forward_s: float = 0.0125) -> list[tuple[float, ...]]:
    """Rows (start, end, stage, stream, tag, micro-batch, chunk) of the interleaved schedule."""
    table = schedules.build("interleaved_1f1b", p, m, v)
    forward = np.full((p, v), forward_s)
    forward[0, 0] = forward[-1, -1] = 1.15 * forward_s
    costs = ScheduleCosts(forward, 2 * forward, np.zeros((p, v)), 0.0004)
    begins, ends, *_ = evaluate(table, costs)
    rows: list[tuple[float, ...]] = []
    for i in range(len(table)):
        begin, end, s, kind = float(begins[i]), float(ends[i]), int(table.stage[i]), int(table.kind[i])
        k, c = int(table.micro_batch[i]), int(table.chunk[i])
        rows.append((begin, end, s, 0, kind, k, c))
        rows.append((begin + 0.1 * (end - begin), begin + 0.16 * (end - begin), s, 1, 2, k, c))
        rows.append((end, end + 0.0004, s, 2, 6, k, c))
    for s in range(p):
        t = float(ends[table.stage == s].max())
        rows.append((t, t + 0.16, s, 3, 3, -1, -1))
        rows.append((t + 0.16, t + 0.20, s, 0, 4, -1, -1))
        rows.append((t + 0.20, t + 0.29, s, 3, 5, -1, -1))
    return rows


def make_result(*, trace: bool = True, capacity_gib: float = 80.0, slower: float = 1.0, m: int = 64) -> TrainingResult:
    """A result shaped like Llama-3.1-70B on 64 H100; `slower` stretches the exposed tensor-parallel time."""
    rows = np.array(pipeline_events(m=m), float)
    span = float(rows[:, 1].max())
    busy = {
        "forward": span * 0.27,
        "backward": span * 0.53,
        "exposed tp": span * 0.055,
        "exposed dp": span * 0.02,
        "optimizer": span * 0.01,
        "exposed pp": span * 0.015,
    }
    busy["bubble"] = span - sum(busy.values())
    busy["exposed tp"] *= slower
    step = sum(busy.values())
    at_peak = {
        "weights": 17.6 * GIB,
        "gradients": 16.4 * GIB,
        "optimizer state": 13.2 * GIB,
        "activations": 16.9 * GIB,
        "logits": 2.1 * GIB,
        "communication buffers": 0.9 * GIB,
    }
    allocated = sum(at_peak.values())
    t = np.linspace(0, span, 900)
    ramp = np.clip(t / (0.1 * span), 0, 1) * np.clip((span - t) / (0.08 * span), 0, 1)
    wobble = 0.5 + 0.5 * np.abs(np.sin(t * 23))
    kinds = {k: np.full_like(t, b) for k, b in at_peak.items() if k not in ("activations", "logits")}
    kinds["activations"] = at_peak["activations"] * ramp * (0.9 + 0.1 * wobble)
    kinds["logits"] = at_peak["logits"] * ramp * (wobble > 0.8)
    events = TraceEvents(
        start_s=rows[:, 0],
        end_s=rows[:, 1],
        stage=rows[:, 2].astype(np.int32),
        stream=rows[:, 3].astype(np.int32),
        tag=rows[:, 4].astype(np.int32),
        micro_batch=rows[:, 5].astype(np.int32),
        chunk=rows[:, 6].astype(np.int32),
        streams=STREAMS,
        tags=TAGS,
    )
    tokens = 128 * 8192 / step
    return TrainingResult(
        scenario_name="llama3-70b-64xh100",
        step_time_s=step,
        tokens_per_s=tokens,
        tokens_per_s_per_device=tokens / 64,
        model_tflops_per_device=tokens / 64 * 4.6e11 / 1e12,
        hardware_tflops_per_device=tokens / 64 * 4.7e11 / 1e12,
        mfu=tokens / 64 * 4.6e11 / 989e12,
        hfu=tokens / 64 * 4.7e11 / 989e12,
        peak_memory_allocated_bytes=allocated,
        peak_memory_reserved_bytes=allocated + 4 * GIB,
        memory_fits=allocated + 4 * GIB <= capacity_gib * GIB,
        breakdown=busy,
        interval=Interval(0.8, step * 0.95, step * 1.06, "14 rows of dense pretraining on Hopper, Megatron", "fitted"),
        memory=MemoryReport(
            stage=0,
            peak_allocated_bytes=allocated,
            peak_reserved_bytes=allocated + 4 * GIB,
            capacity_bytes=capacity_gib * GIB,
            at_peak=at_peak,
            per_stage_allocated_bytes=tuple(allocated * f for f in (1.0, 0.93, 0.86, 0.9)),
            curve_time_s=t,
            curve_bytes=np.sum(list(kinds.values()), axis=0),
            curve_by_kind=kinds,
        ),
        sensitivities={
            "matrix rate": -0.071,
            "HBM bandwidth": -0.012,
            "scale-up bandwidth": -0.005,
            "scale-out bandwidth": -0.002,
            "scale-out latency": 0.0,
        },
        bound_by="matrix rate of h100-sxm-80gb (79 % of the step)",
        plan={
            "tp": 4,
            "sp": True,
            "pp": 4,
            "vpp": 5,
            "cp": 2,
            "ep": 1,
            "dp": 2,
            "zero": 1,
            "mbs": 1,
            "schedule": "interleaved_1f1b",
            "recompute": {"policy": "none", "modules": [], "num_layers": None},
        },
        num_devices=64,
        num_micro_batches=m,
        assumed=(
            Assumption("training.attention", "flash3", "default of nemo on Hopper"),
            Assumption("cluster.scale_out", "8 × 400 Gb/s InfiniBand", "usual node of this device"),
        ),
        warnings=("training.framework_version is not given: overlap defaults of the newest known version are used",),
        citations=("Narayanan et al. 2021, Efficient Large-Scale Language Model Training, arXiv:2104.04473",),
        trace=events if trace else None,
        stages=tuple(
            {
                "stage": s,
                "layers": 20,
                "parameters": 17.6e9 / 4,
                "forward_s": 0.0625,
                "backward_s": 0.125,
                "peak_allocated_bytes": allocated * f,
            }
            for s, f in enumerate((1.0, 0.93, 0.86, 0.9))
        ),
        scenario={
            "schema_version": 1,
            "model": "meta-llama/Llama-3.1-70B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
            "training": {"seq_len": 8192, "global_batch": 128, "precision": "bf16", "framework": "nemo"},
            "plan": {"tp": 4, "pp": 4, "cp": 2, "vpp": 5},
        },
        input_hash="b1946ac92492d234",
        version="0.1.0",
        simulated_in_s=0.041,
        mean_power_w=645.0,
        clock=0.94,
        energy_per_token_j=0.51,
        cost_per_million_tokens=0.64,
    )
