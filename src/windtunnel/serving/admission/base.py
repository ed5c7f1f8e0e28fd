"""The registry of admission rules; `twin.admission.Admission` is what they implement."""

from __future__ import annotations

from windtunnel.registry import Registry
from windtunnel.serving.event_loop.twin.admission import Admission

ADMISSION: Registry[type[Admission]] = Registry(
    "admission", package="windtunnel.serving.admission", noun="admission rule"
)
