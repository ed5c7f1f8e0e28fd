"""What machine this is: cores, memory, cache, accelerators, software."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput
from windtunnel.specs.device import DeviceSpec

_CACHE = 32 * 2**20
"""Last-level cache where the system does not say."""


def torch_or_refuse() -> Any:
    """PyTorch.

    Raises:
        BadInput: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise BadInput("needs PyTorch, which is an extra: pip install 'windtunnel[torch]'") from error
    return torch


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> float:
    """Memory of the machine, or of the control group that this process lives in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        return float(min(whole, int(limit)))
    except (OSError, ValueError):
        return float(whole)


def cache_bytes() -> float:
    """Last-level cache."""
    try:
        size = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError):
        size = 0
    return float(size) if size > 0 else float(_CACHE)


def cpu_name() -> str:
    """The name that the system gives its processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def has_gpu() -> bool:
    """Whether PyTorch sees a GPU."""
    return bool(torch_or_refuse().cuda.is_available())


def formats(kind: str) -> tuple[str, ...]:
    """Number formats worth measuring."""
    if kind == "gpu":
        return ("bf16", "fp16", "tf32", "fp32")
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        flags = ""
    return ("fp32", "bf16") if "avx512_bf16" in flags or "amx_bf16" in flags else ("fp32",)


def sheet() -> DeviceSpec:
    """The data sheet of the GPU at hand.

    Raises:
        BadInput: the catalogue has none of its name.
    """
    torch = torch_or_refuse()
    name = str(torch.cuda.get_device_name(0))
    size = int(torch.cuda.get_device_properties(0).total_memory)
    fitting = [one for one in named_device(name) if abs(one.memory_bytes / size - 1.0) < 0.15]
    if not fitting:
        raise BadInput(f"device = {name}: no data sheet in the catalogue; name one with --device")
    return fitting[0]


def named_device(name: str) -> list[DeviceSpec]:
    """Data sheets that a driver's name for a device may mean, the likeliest first."""
    from windtunnel import catalog

    words = set(name.lower().replace("-", " ").split())
    models = {w for w in words if any(c.isdigit() for c in w) and not w.endswith("gb")}
    found = []
    for identity in catalog.devices():
        own = set(identity.replace("-", " ").split())
        if own & models:
            found.append((len(own & words), "sxm" in own and "pcie" not in words, identity))
    return [catalog.device(identity) for *_, identity in sorted(found, reverse=True)]


def facts(ranks: int) -> dict[str, Any]:
    """Name, memory, cache and cores of one rank's share of this machine's CPU."""
    units = max(cores() // ranks, 1)
    identity = "this-cpu" if ranks == 1 else f"this-cpu-1-of-{ranks}"
    return {
        "id": identity,
        "name": f"{cpu_name()}, {units} of {cores()} cores",
        "memory_bytes": memory_bytes() / ranks,
        "cache_bytes": cache_bytes() / ranks,
        "units": units,
    }


def conditions(kind: str, ranks: int) -> dict[str, Any]:
    """Under which measurements belong together."""
    torch = torch_or_refuse()
    return {
        "machine": str(torch.cuda.get_device_name(0)) if kind == "gpu" else cpu_name(),
        "cores": cores(),
        "ranks": ranks,
        "threads": max(cores() // ranks, 1),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "allocator": "glibc, freed memory kept" if kind == "cpu" else "caching",
    }
