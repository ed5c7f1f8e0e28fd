"""What `flexsp.yaml` changes."""

from __future__ import annotations

from windtunnel.techniques.sequence_groups import grouped, limits_of_groups, unlike

applies_to = unlike
plan = grouped("solved")
limits = limits_of_groups(vanishes=0.05)
