"""Plans of serving are simulated on a trace and ranked by latency or by energy, at several clocks.

The candidates are tensor and pipeline degrees, replicas and, for models with experts, axes per cell (attention and
experts cut apart); each is served request by request in the loop of `serve`, so that batches come as the trace makes
them. `windtunnel plan` does this for any deployment, with bounds that leave most candidates unserved; clocks are a
power cap (`cluster.power_cap_w`).

Source: Lin et al. 2024.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="apex")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
