"""Processes of one machine that measure together, each on its share of the cores."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from windtunnel.calibration.cases import Case
from windtunnel.calibration.store import Measurement
from windtunnel.errors import WindtunnelError

_PATIENCE = timedelta(minutes=5)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def join(rank: int, ranks: int, threads: int, port: int, backend: str = "gloo") -> None:
    """Become one rank of a process group on this machine."""
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(threads)
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, rank=rank, world_size=ranks, timeout=_PATIENCE)


def _work(rank: int, ranks: int, threads: int, port: int, kind: str, todo: Sequence[Case], out: Connection) -> None:
    try:
        import torch
        import torch.distributed as dist

        from windtunnel.calibration.bench import keep_freed_memory, measure, quieten

        keep_freed_memory()
        quieten()
        join(rank, ranks, threads, port, "nccl" if kind == "gpu" else "gloo")
        device = torch.device("cuda", rank) if kind == "gpu" else torch.device("cpu")
        for case in todo:
            try:
                one = measure(case, device, together=True)
            except (RuntimeError, NotImplementedError) as error:
                out.send((case.key, str(error).splitlines()[0]))
                continue
            if rank == 0:
                out.send(one)
        dist.destroy_process_group()
    except Exception:  # reported by the parent
        out.send(("", traceback.format_exc(limit=4)))
    finally:
        out.close()


def measured_together(
    todo: Sequence[Case], *, ranks: int, threads: int, kind: str, skipped: Callable[[str, str], None]
) -> Iterator[Measurement]:
    """Measure cases with several processes at once, yielding each as it is done.

    Args:
        todo: cases.
        ranks: processes.
        threads: of each.
        kind: cpu or gpu.
        skipped: called with key and reason of cases that the back-end cannot run.

    Raises:
        WindtunnelError: a process died.
    """
    context = multiprocessing.get_context("spawn")
    port = free_port()
    receiver, sender = context.Pipe(duplex=False)
    arguments = [(rank, ranks, threads, port, kind, list(todo), sender) for rank in range(ranks)]
    workers: list[Any] = [context.Process(target=_work, args=a, daemon=True) for a in arguments]
    for worker in workers:
        worker.start()
    sender.close()
    told: set[str] = set()
    try:
        while True:
            try:
                item = receiver.recv()
            except EOFError:
                break
            if isinstance(item, Measurement):
                yield item
            elif not item[0]:
                raise WindtunnelError(f"a measuring process stopped: {item[1].strip().splitlines()[-1]}")
            elif item[0] not in told:
                told.add(item[0])
                skipped(*item)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()
