"""What `flash-io-bound.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.cost.attention_io import attention_words
from windtunnel.graph import ModelGraph
from windtunnel.program.segment import Launch, Segment
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.techniques.published.flash_attention import fused

BACKWARD_WORDS = 2.5
"""Words backward over forward: five products against two pass the same tiles (arXiv 2205.14135, appendix B)."""
WORD_BYTES = 2.0


def graph(graph: ModelGraph, knobs: dict[str, Any]) -> ModelGraph:
    return fused(graph)


def _charged(x: Launch, cluster: ClusterSpec, cache_words: float) -> Launch:
    """The launch with the traffic of its cache; `shape` is (pairs, heads, d_qk, d_v)."""
    pairs, heads, d_qk, d_v = x.shape
    n = max(int(pairs**0.5), 1)
    words = attention_words(n, int((d_qk + d_v) / 2), cache_words) * heads * (BACKWARD_WORDS if x.phase == "D" else 1.0)
    moved = words * WORD_BYTES
    return replace(x, hbm_bytes=moved, alone_s=max(x.alone_s, moved / cluster.device.memory_bytes_per_s))


def segment(segment: Segment, cluster: ClusterSpec, knobs: dict[str, Any]) -> Segment:
    cache = (knobs["cache_kib"] * 1024.0 or cluster.device.l2_bytes) / WORD_BYTES
    launches = [_charged(x, cluster, cache) if x.kind == "attention" and x.shape else x for x in segment.launches]
    return replace(segment, launches=launches)
