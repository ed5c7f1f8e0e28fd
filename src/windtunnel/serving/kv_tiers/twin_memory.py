"""What the reference loop asks of a cache with levels below the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from windtunnel.serving.kv_tiers.approximate_reuse import SimilarCache, SimilarPlan
from windtunnel.serving.kv_tiers.cache import Store, TieredCache
from windtunnel.serving.kv_tiers.lending import Lending
from windtunnel.serving.kv_tiers.level import Line, pipelined

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.prefix_cache import PrefixCache
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """One level of an instance of the loop, resolved."""

    kind: str
    blocks: int
    block_s: float
    latency_s: float
    shared: bool


@dataclass(slots=True, kw_only=True)
class Memory:
    """Levels of the instances of each pool."""

    plans: tuple[tuple[LevelPlan, ...], ...]
    """By pool; empty where a pool has none."""
    layers: tuple[int, ...]
    """Layers of one pipeline stage, by pool: loads run next to the layers before. 1: they do not."""
    pool: Sequence[int]
    """Pool of each instance of the loop."""
    block_tokens: int
    lending: Lending | None = None
    """Whether instances lend each other blocks, and at what cost."""
    similar: tuple[SimilarPlan | None, ...] = ()
    """By pool: reuse of prompts that resemble each other."""
    prefetch: tuple[bool, ...] = ()
    """By pool: whether queued requests have lower levels read into the first."""
    seed: int = 0
    caches: list[TieredCache | None] = field(default_factory=list)
    stores: dict[int, Store] = field(default_factory=dict)

    def begin(self, instances: list[Instance]) -> None:
        """The run begins."""
        if self.lending is not None:
            self.lending.begin(instances)

    def cache(self, one: Instance, size: Sequence[int]) -> PrefixCache | None:
        """The cache of an instance; None: it has no levels below."""
        p = int(self.pool[one.index])
        plans = self.plans[p]
        own = self.similar[p] if self.similar else None
        if own is not None:
            like = SimilarCache(size, own, self.seed)
            self.caches.append(like)
            return like
        if not plans:
            self.caches.append(None)
            return None
        levels = [
            (x.blocks, Line(kind=x.kind, block_s=x.block_s, latency_s=x.latency_s)) for x in plans if not x.shared
        ]
        shared = next((x for x in plans if x.shared), None)
        store = line = None
        if shared is not None:
            store = self.stores.setdefault(p, Store(shared.blocks, len(size)))
            line = Line(kind=shared.kind, block_s=shared.block_s, latency_s=shared.latency_s)
        made = TieredCache(size, levels, store, line)
        self.caches.append(made)
        return made

    def arrived(self, one: Instance, q: Request, now: float) -> None:
        """A request is queued at an instance."""
        if self.prefetch and self.prefetch[int(self.pool[one.index])] and isinstance(one.cache, TieredCache):
            one.cache.prefetch(q, now)

    def seconds(self, one: Instance, compute_s: float, now: float) -> float:
        """An iteration that holds prompts, with the loads of requests that it takes in."""
        cache = one.cache
        if not isinstance(cache, TieredCache) or cache.ends_at <= now:
            return compute_s
        return pipelined(compute_s, cache.ends_at - now, self.layers[int(self.pool[one.index])])

    def report(self, prompt_tokens: float, duration_s: float) -> dict[str, Any]:
        """What each level held and gave.

        Args:
            prompt_tokens: of all requests that were served.
            duration_s: of the run.
        """
        out: dict[str, Any] = {}
        caches = [cache for cache in self.caches if cache is not None]
        if self.lending is not None:
            out["lending"] = self.lending.report(duration_s)
        if not caches:
            return out
        found = sum(cache.hits for cache in caches)
        out["device"] = {"hit_rate": found * self.block_tokens / max(prompt_tokens, 1.0)}
        lines: dict[str, list[Line]] = {}
        for cache in caches:
            for line in cache.lines():
                lines.setdefault(line.kind, []).append(line)
        for kind, every in lines.items():
            loaded = sum(line.loaded for line in every)
            out[kind] = {
                "hit_rate": loaded * self.block_tokens / max(prompt_tokens, 1.0),
                "loads": sum(line.loads for line in every),
                "loaded_tokens": loaded * self.block_tokens,
                "written_tokens": sum(line.written for line in every) * self.block_tokens,
                "busy_share": sum(line.busy_s for line in every) / (max(duration_s, 1e-12) * len(every)),
                "writing_share": sum(line.written * line.block_s for line in every)
                / (max(duration_s, 1e-12) * len(every)),
            }
        return out
