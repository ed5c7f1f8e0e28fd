"""Real small steps: one process, DDP, FSDP2, tensor or pipeline parallelism on this machine, timed and traced."""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Literal

from windtunnel.errors import WindtunnelError
from windtunnel.specs.model import ModelSpec

Way = Literal["single", "ddp", "fsdp2", "tp", "pp", "decode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is run. All ranks of one axis are processes of this machine."""

    way: Way
    model: ModelSpec
    seq_len: int
    mbs: int
    """Sequences of a micro-batch; decoding: of the batch."""
    micro_batches: int
    precision: Literal["fp32", "bf16"]
    ranks: int = 1
    threads: int = 1
    kind: Literal["cpu", "gpu"] = "cpu"
    steps: int = 5
    """Timed, after two that are not."""
    output_tokens: int = 16
    """Decoding: tokens after the prompt."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured: of the slowest rank."""

    seconds: tuple[float, ...]
    """Each timed step (decoding: each token)."""
    peak_bytes: float
    """Most tensor memory alive in a step."""
    prompt_s: float = 0.0
    classes: dict[str, float] = field(default_factory=dict)
    """Class of time → seconds of one more step of the busiest rank; `waiting` is what no operator accounts for."""

    @property
    def noise(self) -> float:
        """Distance of the quartiles of what was timed over the median."""
        if len(self.seconds) < 2:
            return 0.0
        low, middle, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / middle


def run(job: Job) -> Run:
    """Run a job in processes of its own.

    Raises:
        WindtunnelError: a process died; its last line says why.
    """
    from windtunnel.calibration.ranks import free_port

    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    port = free_port()
    workers: list[Any] = [
        context.Process(target=_work, args=(rank, port, job, sender), daemon=True) for rank in range(job.ranks)
    ]
    for worker in workers:
        worker.start()
    sender.close()
    try:
        item = receiver.recv()
    except EOFError:
        raise WindtunnelError(f"{job.way}: a process ended without a result") from None
    finally:
        for worker in workers:
            worker.join(timeout=20)
            worker.terminate()
    if isinstance(item, str):
        raise WindtunnelError(f"{job.way}: {item.strip().splitlines()[-1]}")
    assert isinstance(item, Run)
    return item


def _work(rank: int, port: int, job: Job, out: Connection) -> None:
    try:
        import torch
        import torch.distributed as dist

        from windtunnel.calibration.bench import keep_freed_memory, quieten
        from windtunnel.calibration.ranks import join

        keep_freed_memory()
        quieten()
        torch.manual_seed(0)
        torch.set_num_threads(job.threads)
        if job.ranks > 1:
            join(rank, job.ranks, job.threads, port, "nccl" if job.kind == "gpu" else "gloo")
        device = torch.device("cuda", rank) if job.kind == "gpu" else torch.device("cpu")
        found = _decoded(job, device) if job.way == "decode" else _trained(job, device, rank)
        if job.ranks > 1:
            values = torch.tensor([*found.seconds, found.peak_bytes], dtype=torch.float64)
            dist.all_reduce(values, dist.ReduceOp.MAX)
            *seconds, peak = (float(x) for x in values)
            every: list[Any] = [None] * job.ranks
            dist.all_gather_object(every, found.classes)
            busiest = min(every, key=lambda classes: float(classes.get("waiting", 0.0)))
            found = replace(found, seconds=tuple(seconds), peak_bytes=peak, classes=busiest)
            dist.destroy_process_group()
        if rank == 0:
            out.send(found)
    except Exception:  # told by the parent
        out.send(traceback.format_exc(limit=4))
    finally:
        out.close()


def _trained(job: Job, device: Any, rank: int) -> Run:
    import torch
    import torch.distributed as dist

    from windtunnel.calibration.allocated import peak_on_cpu
    from windtunnel.calibration.bench import synchronise

    if device.type == "cuda":
        step = _step(job, device, rank)
        step()
        torch.cuda.reset_peak_memory_stats(device)
        step()
        peak = float(torch.cuda.max_memory_allocated(device))
    else:
        step, peak = peak_on_cpu(lambda: _step(job, device, rank))
    step()
    seconds = []
    for _ in range(job.steps):
        if job.ranks > 1:
            dist.barrier()
        synchronise(device)
        begun = time.perf_counter()
        step()
        synchronise(device)
        seconds.append(time.perf_counter() - begun)
    return Run(tuple(seconds), peak, classes=_classes(step, device))


_OPERATORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gemm", ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")),
    ("attention", ("scaled_dot_product", "flash_attention")),
    ("optimizer", ("_fused_adamw", "Optimizer.")),
    ("waiting", ("c10d::", "gloo:", "nccl:", "record_param_comms", "_c10d_functional", "wait_tensor")),
)
"""Class of time → parts of operator names; any other ATen operator is bound by memory."""


def _classes(step: Callable[[], Any], device: Any) -> dict[str, float]:
    """Seconds of one step by class, from PyTorch's profiler; `waiting`: communication, its peers and the host."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    begun = time.perf_counter()
    with profile(activities=kinds) as found:
        step()
    whole = time.perf_counter() - begun
    out = dict.fromkeys((*(name for name, _ in _OPERATORS), "memory bound"), 0.0)
    for event in found.key_averages():
        micro = event.self_device_time_total if device.type == "cuda" else event.self_cpu_time_total
        named = next((n for n, parts in _OPERATORS if any(p in event.key for p in parts)), "")
        if not named and event.key.startswith("aten::"):
            named = "memory bound"
        if named and named != "waiting":
            out[named] += micro * 1e-6
    out["waiting"] = max(whole - sum(out.values()), 0.0)
    return out


def _step(job: Job, device: Any, rank: int) -> Callable[[], Any]:
    """One optimizer step of a rank."""
    import torch

    from windtunnel.calibration.transformer import loss_of, sharded_loss_of

    if job.way == "pp":
        return _pipeline(job, device, rank)
    net: Any = _sharded(job, device)
    adams = _optimizers(net)
    shape = (job.mbs, job.seq_len)
    x, y = (torch.randint(0, job.model.vocab_size, shape, device=device) for _ in range(2))
    cast = job.precision == "bf16" and job.way != "fsdp2"  # which casts what it gathers
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=cast)

    def step() -> None:
        for adam in adams:
            adam.zero_grad()
        for at in range(job.micro_batches):
            last = at == job.micro_batches - 1
            waits = net.no_sync() if job.way == "ddp" and not last else contextlib.nullcontext()
            with waits:
                with mixed:
                    loss = (sharded_loss_of if job.way == "tp" else loss_of)(net(x), y)
                loss.backward()
        for adam in adams:
            adam.step()

    return step


def _optimizers(net: Any) -> list[Any]:
    """Fused AdamW; tensors of a mesh apart from plain ones, which one kernel does not take together."""
    import torch
    from torch.distributed.tensor import DTensor

    plain = [p for p in net.parameters() if not isinstance(p, DTensor)]
    spread = [p for p in net.parameters() if isinstance(p, DTensor)]
    return [torch.optim.AdamW(group, fused=True) for group in (plain, spread) if group]


def _sharded(job: Job, device: Any) -> Any:
    import torch

    from windtunnel.calibration.transformer import Transformer

    net = Transformer(job.model, ranks=job.ranks if job.way == "tp" else 1).to(device)
    if job.way == "ddp":
        return torch.nn.parallel.DistributedDataParallel(net)
    if job.way == "fsdp2":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        half = (torch.bfloat16, torch.float32) if job.precision == "bf16" else (None, None)
        policy = MixedPrecisionPolicy(*half)
        mesh = torch.distributed.device_mesh.init_device_mesh(device.type, (job.ranks,))
        for block in net.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        return fully_shard(net, mesh=mesh, mp_policy=policy)
    return net


def _pipeline(job: Job, device: Any, rank: int) -> Callable[[], Any]:
    """1F1B of `torch.distributed.pipelining`, one stage a rank."""
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    from windtunnel.calibration.transformer import Transformer, loss_of

    each = job.model.num_hidden_layers // job.ranks
    layers = range(rank * each, (rank + 1) * each)
    net = Transformer(job.model, layers, first=rank == 0, last=rank == job.ranks - 1).to(device)
    if job.precision == "bf16":
        net.forward = torch.autocast(device.type, torch.bfloat16)(net.forward)  # type: ignore[method-assign]
    stage = PipelineStage(net, rank, job.ranks, device)
    schedule = Schedule1F1B(stage, n_microbatches=job.micro_batches, loss_fn=loss_of)
    adam = torch.optim.AdamW(net.parameters(), fused=True)
    shape = (job.mbs * job.micro_batches, job.seq_len)
    x, y = (torch.randint(0, job.model.vocab_size, shape, device=device) for _ in range(2))

    def step() -> None:
        adam.zero_grad()
        if rank == 0:
            schedule.step(x)
        elif rank == job.ranks - 1:
            schedule.step(target=y, losses=[])
        else:
            schedule.step()
        adam.step()

    return step


def _decoded(job: Job, device: Any) -> Run:
    """A prompt of `seq_len` tokens, then one token at a time."""
    import torch

    from windtunnel.calibration.bench import synchronise
    from windtunnel.calibration.transformer import Transformer

    dtype = torch.bfloat16 if job.precision == "bf16" else torch.float32
    net = Transformer(job.model).to(device, dtype).eval()
    m = job.model
    heads = m.num_key_value_heads or m.num_attention_heads
    room = (job.mbs, heads, job.seq_len + job.output_tokens + 1, net.head_dim)
    caches = [
        (torch.zeros(room, device=device, dtype=dtype), torch.zeros(room, device=device, dtype=dtype))
        for _ in range(m.num_hidden_layers)
    ]
    seconds: list[float] = []
    prompts: list[float] = []
    with torch.no_grad():
        for _ in range(2 + job.steps):
            tokens = torch.randint(0, m.vocab_size, (job.mbs, job.seq_len), device=device)
            synchronise(device)
            begun = time.perf_counter()
            logits = net.decode(tokens, caches, 0)
            synchronise(device)
            prompts.append(time.perf_counter() - begun)
            for i in range(job.output_tokens):
                begun = time.perf_counter()
                token = logits[:, -1:].argmax(-1)
                logits = net.decode(token, caches, job.seq_len + i)
                synchronise(device)
                seconds.append(time.perf_counter() - begun)
    kept = seconds[2 * job.output_tokens :]
    weights = sum(p.numel() * p.element_size() for p in net.parameters())
    cache = sum(k.numel() * k.element_size() * 2 for k, _ in caches)
    return Run(tuple(kept), float(weights + cache), prompt_s=sorted(prompts[2:])[job.steps // 2])
