"""How much a black-box machine is slowed by its neighbours on a host, from series of one sample a second.

Machines on a host share its last-level cache, its memory's rate and its port. A machine's hits fall as others push it
out of the cache, its misses ask for memory, and where the sum of what is asked passes what there is, all get a share.
A predictor sees what a hypervisor sees (utilisation, occupied cache, misses, memory and port traffic of the machine and
of the host, with noise), never what runs inside.

Source: Shahbazinia et al., CloudFormer, 2025, arXiv 2509.03394: performance = ideal over observed time, metrics at one
second, unseen workloads. The dual-branch attention there is boosted trees over moments of the series here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What is shared."""

    cache_mb: float = 32.0
    memory_gb_per_s: float = 60.0
    port_gb_per_s: float = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """What a workload asks for, undisturbed."""

    footprint_mb: float
    accesses_gb_per_s: float
    """Traffic below its own caches, hits in the shared one included."""
    port_gb_per_s: float
    compute: float
    """Share of its time that waits for neither memory nor port."""
    period_s: float
    swing: float
    """Relative amplitude of its waves."""


def performance(host: Host, guests: list[Guest], seconds: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(performance of each guest, metrics of each guest).

    Returns:
        Ideal over observed time, mean over the run, shape (guests,); series of shape (guests, seconds, 8): busy share,
        cache it holds (MB), misses, memory and port traffic (GB/s), then misses, memory and port traffic of the host.
    """
    t = np.arange(seconds)[None, :]
    phase = rng.random((len(guests), 1))
    period = np.array([[g.period_s] for g in guests])
    swing = np.array([[g.swing] for g in guests])
    level = 1.0 + swing * np.sign(np.sin(2 * np.pi * (t / period + phase)))
    level *= np.exp(0.1 * rng.standard_normal(level.shape))
    footprint, accesses, port, compute = (
        np.array([[getattr(g, name)] for g in guests])
        for name in ("footprint_mb", "accesses_gb_per_s", "port_gb_per_s", "compute")
    )
    wants = footprint * np.ones_like(level)
    pressure = accesses * level * wants
    held = np.minimum(wants, host.cache_mb * pressure / np.maximum(pressure.sum(0), 1e-9))
    alone = np.minimum(wants, host.cache_mb)
    misses, own_misses = (1.0 - x / wants for x in (held, alone))
    misses, own_misses = 0.1 + 0.9 * misses, 0.1 + 0.9 * own_misses
    asked, own_asked = accesses * level * misses, accesses * level * own_misses
    sent = port * level
    memory = np.maximum(asked.sum(0) / host.memory_gb_per_s, 1.0)
    wire = np.maximum(sent.sum(0) / host.port_gb_per_s, 1.0)
    own_memory = np.maximum(own_asked / host.memory_gb_per_s, 1.0)
    own_wire = np.maximum(sent / host.port_gb_per_s, 1.0)
    on_port = (1.0 - compute) * sent / np.maximum(sent + 0.05 * accesses, 1e-9)
    on_memory = 1.0 - compute - on_port
    ideal = compute + on_memory * own_memory + on_port * own_wire
    observed = compute + on_memory * misses / own_misses * memory + on_port * wire
    done = ideal.sum(1) / observed.sum(1)
    slow = observed / ideal
    busy = np.minimum(level / level.max(1, keepdims=True) * slow, 1.0)
    traffic, packets = asked / slow, sent / slow
    whole = [np.broadcast_to(x.sum(0), level.shape) for x in (misses, traffic, packets)]
    series = np.stack([busy, held, misses, traffic, packets, *whole], axis=2)
    return done, np.asarray(series * np.exp(0.05 * rng.standard_normal(series.shape)))


_DEMANDS = ("footprint_mb", "accesses_gb_per_s", "port_gb_per_s", "compute")
KINDS: dict[str, tuple[tuple[float, float], ...]] = {
    "web": ((2, 12), (1, 6), (0.1, 0.5), (0.3, 0.6)),
    "database": ((8, 40), (4, 16), (0.02, 0.2), (0.2, 0.5)),
    "batch": ((1, 6), (0.2, 2), (0.0, 0.02), (0.7, 0.95)),
    "stream": ((20, 80), (10, 30), (0.0, 0.05), (0.05, 0.3)),
    "cache": ((10, 30), (3, 10), (0.2, 0.9), (0.1, 0.4)),
    "media": ((4, 16), (2, 9), (0.05, 0.4), (0.4, 0.8)),
}
"""Kind of workload → range of each demand: cache (MB), traffic (GB/s), port (GB/s), share that waits for neither."""


def drawn(kind: str, rng: np.random.Generator) -> Guest:
    """A guest of a kind."""
    values = dict(zip(_DEMANDS, (float(rng.uniform(low, high)) for low, high in KINDS[kind]), strict=True))
    return Guest(**values, period_s=float(rng.uniform(5, 60)), swing=float(rng.uniform(0.0, 0.8)))


def means(series: Floats) -> Floats:
    """Mean of each metric, shape (metrics,)."""
    return np.asarray(series.mean(0))


def moments(series: Floats) -> Floats:
    """Mean, spread, upper decile, change from second to second, and how each metric goes with the host's traffic."""
    step = np.abs(np.diff(series, axis=0)).mean(0)
    spread = series.std(0)
    centred = series - series.mean(0)
    together = (centred * centred[:, [6]]).mean(0) / np.maximum(spread * spread[6], 1e-9)
    return np.concatenate([series.mean(0), spread, np.quantile(series, 0.9, axis=0), step, together])
