"""What `flow-split-singlepath.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.cluster import ClusterSpec
from windtunnel.techniques.published.c4 import rerouted, without_paths

applies_to = without_paths


def cluster(cluster: ClusterSpec, knobs: dict[str, Any]) -> ClusterSpec:
    return rerouted(cluster, "split")
