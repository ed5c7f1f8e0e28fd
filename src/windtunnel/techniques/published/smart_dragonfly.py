"""Run times of jobs that share a dragonfly, predicted from what the ports of routers count.

Several jobs' flows share local and global links on adaptive routes (`adaptive`); a surrogate learned from
simulated mixes reads the counters and says how long a job's next iteration takes, in place of simulating it.

Source: Wang et al. 2025.
"""

from __future__ import annotations

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Technique

TECHNIQUE = Technique(id="smart-dragonfly")

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
