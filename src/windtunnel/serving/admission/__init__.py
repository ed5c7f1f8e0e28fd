"""Which requests are shed when they arrive: one file a rule, found by the registry."""

from windtunnel.serving.admission.base import ADMISSION

__all__ = ["ADMISSION"]
