"""Which requests are turned away when they come: one file a rule, found by the registry."""

from windtunnel.serving.admission.base import ADMISSION

__all__ = ["ADMISSION"]
